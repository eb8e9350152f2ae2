//! How fast the simulated detectors prepare packets on one core, without sending them.
//!
//! `cargo run --release -p fullcount-lab --example encode_speed`. Each line runs about one second.
//! Refuses: nothing.

use std::hint::black_box;
use std::time::{Duration, Instant};

use fullcount_lab::traffic::Traffic;
use fullcount_lab::traffic::panel::Panel;
use fullcount_lab::traffic::sequence::{Sequence, SequenceSetup};
use fullcount_lab::traffic::sonde::{Mode, Sonde, SondeSetup};

fn measure(label: &str, traffic: &mut dyn Traffic, train: usize) {
    let before = traffic.totals();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(1) {
        for _ in 0..64 {
            black_box(traffic.next_train(train, 1));
        }
    }
    let s = start.elapsed().as_secs_f64();
    let after = traffic.totals();
    let packets = (after.packets - before.packets) as f64 / s;
    let gbps = (after.bytes - before.bytes) as f64 * 8.0 / s / 1e9;
    let events = (after.events - before.events) as f64 / s;
    println!(
        "{label:<44} {:>8.2} Mpackets/s {gbps:>8.1} Gb/s {:>8.1} Mevents/s",
        packets / 1e6,
        events / 1e6
    );
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for size in [24, 64, 1472, 8972] {
        let setup = SequenceSetup { sizes: vec![size], seed: 1, count: None };
        measure(&format!("sequence {size} B"), &mut Sequence::new(&setup)?, 64);
    }
    let sonde =
        |panel: Panel, mode, entries, rate: f64| -> Result<(), Box<dyn std::error::Error>> {
            let start = Instant::now();
            let setup =
                SondeSetup { panel, mode, entries, events_per_s: rate, ..SondeSetup::default() };
            let mut traffic = Sonde::new(&setup)?;
            let ready = start.elapsed().as_millis();
            let modules = panel.modules();
            let label =
                format!("sonde {mode:?} {modules} modules {:.0} M/s, {ready} ms", rate / 1e6);
            measure(&label, &mut traffic, 51);
            Ok(())
        };
    let d6 = Mode::TriggerTime;
    sonde(Panel::demo(), d6, 250, 1e6)?;
    sonde(Panel::full(), d6, 250, 20e6)?;
    sonde(Panel::demo(), d6, 250, 40e6)?;
    sonde(Panel::demo(), d6, 250, 250e6)?;
    sonde(Panel::full(), d6, 250, 250e6)?;
    sonde(Panel::demo(), d6, 250, 5e9)?;
    sonde(Panel::demo(), Mode::SingleEvent, 1, 5e9)?;
    sonde(Panel::demo(), Mode::MultiEvent, 150, 250e6)?;
    Ok(())
}
