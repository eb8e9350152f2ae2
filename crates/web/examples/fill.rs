//! How fast the live plots fill: picture of 160 × 160 and a spectrum of 1000 bins, one core.
//!
//! `cargo run --release -p fullcount-web --example fill`. Prints M events/s for events in time order
//! (neighbours share a bin, the worst case for a spectrum) and in random order. The aim is 300.
//! Source: `docs/page.md`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fullcount_core::products::Products;
use fullcount_core::sink::Sink;
use fullcount_core::time::PulseTime;
use fullcount_core::view::{Axis, Gate, PixelMap, Plot, PlotColumn, PlotKind};
use fullcount_web::{Accumulator, LiveOptions, live};

/// Events per batch: 64 packets of 250.
const EVENTS: u64 = 16_000;

/// Batches that are cycled: 256 MB of columns, more than any cache.
const BATCHES: u64 = 2000;

fn plot(id: &str, kind: PlotKind, gates: Vec<Gate>) -> Plot {
    Plot { id: id.into(), title: id.into(), kind, gates, log: false }
}

fn tof(bins: u32) -> Axis {
    let (label, unit) = ("Time of flight".into(), "µs".into());
    let (first, last) = (0, 71_428_571);
    Axis { column: PlotColumn::OffsetNs, label, unit, scale: 1000.0, first, last, bins }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut seed = 0x1234_5678_9abc_def1u64;
    let mut dice = |n: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % n
    };
    for (name, sorted) in [("in time order", true), ("in random order", false)] {
        let batches: Vec<Products> = (0..BATCHES)
            .map(|_| {
                let mut p = Products::default();
                p.events.open_pulse(PulseTime(0));
                for i in 0..EVENTS {
                    let t = if sorted { i * 71_000_000 / EVENTS } else { dice(71_000_000) };
                    p.events.push(t as u32, 1 + dice(25_600) as u32);
                }
                p
            })
            .collect();
        let gate = vec![Gate { column: PlotColumn::OffsetNs, min: 10_000_000, max: 60_000_000 }];
        let row = Axis { column: PlotColumn::Pixel, first: 0, last: 25_600, ..tof(160) };
        let line = || plot("tof", PlotKind::Histogram(tof(1000)), vec![]);
        for (what, plots) in [
            ("image", vec![plot("image", PlotKind::Image, vec![])]),
            ("spectrum", vec![line()]),
            ("image + spectrum", vec![plot("image", PlotKind::Image, vec![]), line()]),
            ("gated image", vec![plot("image", PlotKind::Image, gate)]),
            ("plane 120 x 160", vec![plot("plane", PlotKind::Histogram2(tof(120), row), vec![])]),
        ] {
            let cell = (0..25_600).collect();
            let pixels = PixelMap { columns: 160, rows: 160, cell, ..PixelMap::default() };
            let mut a = Accumulator::new(plots, Arc::new(pixels), Duration::from_secs(5))?;
            let start = Instant::now();
            let mut rounds = 0;
            while start.elapsed() < Duration::from_millis(500) {
                batches.iter().for_each(|p| a.fill(p));
                a.advance(start.elapsed());
                rounds += 1;
            }
            let events = (rounds * BATCHES * EVENTS) as f64;
            let rate = events / start.elapsed().as_secs_f64() / 1e6;
            println!("{what:18} {name:16} {rate:7.0} M events/s");
        }
    }
    showing()
}

/// Time to publish a picture that a viewer looks at ten times a second.
fn showing() -> Result<(), Box<dyn std::error::Error>> {
    for side in [160u32, 1024] {
        let cell = (0..side * side).collect();
        let pixels = PixelMap { columns: side, rows: side, cell, ..PixelMap::default() };
        let plots = vec![plot("image", PlotKind::Image, vec![])];
        let (mut sink, _view) = live(plots, pixels, LiveOptions::default())?;
        let mut p = Products::default();
        p.events.open_pulse(PulseTime(0));
        p.events.push(0, 1);
        let p = Arc::new(p);
        let start = Instant::now();
        const PICTURES: u32 = 50;
        for i in 0..PICTURES {
            sink.push(&p)?;
            sink.tick(Duration::from_secs(1) * i)?;
        }
        println!("picture of {side} x {side}: {:?}", start.elapsed() / PICTURES);
    }
    Ok(())
}
