//! How fast the simulated detectors prepare packets on one core, without sending them.
//!
//! `cargo run --release -p fullcount-sim --example encode_speed`. Each line runs about one second: every load that a kind
//! declares, at its rate and at twenty times it, and numbered packets of four sizes.

use std::hint::black_box;
use std::time::{Duration, Instant};

use fullcount_core::simulator::{SimulatorPace, Traffic, TrafficOptions, TrafficOrder};

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
    for kind in fullcount_sim::registered().kinds() {
        for load in kind.loads() {
            for rate in [load.events_per_s, 20.0 * load.events_per_s] {
                let pace = SimulatorPace::Events(rate);
                let order = TrafficOrder { pace, ..TrafficOrder::of(&load.options, 1) };
                let start = Instant::now();
                let mut made = kind.make(&order)?;
                let ready = start.elapsed().as_millis();
                let label =
                    format!("{} {} {:.1} M/s, {ready} ms", kind.name(), load.name, rate / 1e6);
                measure(&label, made.traffic.as_mut(), 64);
            }
        }
        if kind.declared().options.iter().any(|option| option.key == "size") {
            for size in ["24", "64", "1472", "8972"] {
                let options = TrafficOptions::of(&[("size", size)]);
                let mut made = kind.make(&TrafficOrder::of(&options, 1))?;
                measure(&format!("{} {size} B", kind.name()), made.traffic.as_mut(), 64);
            }
        }
    }
    Ok(())
}
