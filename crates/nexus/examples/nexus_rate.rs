//! How fast the NeXus sink takes events, uncompressed, in one thread.
//!
//! `cargo run --release -p fullcount-nexus --example nexus_rate -- [DIRECTORY [MILLION_EVENTS]]`, by default
//! 400 million events (3.2 GB, removed afterwards) in the system's directory for temporary files. A directory
//! in memory measures the sink, one on a disk measures the disk. Source: `docs/formats/nexus.md`.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fullcount_core::products::Products;
use fullcount_core::sink::Sink;
use fullcount_core::time::PulseTime;
use fullcount_core::view::PixelMap;
use fullcount_nexus::{Existing, NexusOptions, NexusSink};

const PIXELS: u32 = 25_600;

/// Events of a packet, packets of a batch, batches that are pushed in turn: 40 MB, more than caches hold.
const PACKET: u32 = 250;
const PACKETS: u32 = 200;
const BATCHES: u32 = 100;

/// 14 Hz.
const PERIOD_NS: i64 = 71_428_571;

/// The batches of one pattern: `pulse` names the pulse of a packet in a batch.
fn batches(pulse: impl Fn(u32, u32) -> i64) -> Vec<Arc<Products>> {
    let one = |batch| {
        let mut p = Products::default();
        for packet in 0..PACKETS {
            p.events.open_pulse(PulseTime(pulse(batch, packet) * PERIOD_NS));
            for i in 0..PACKET {
                let n = (batch * PACKETS + packet) * PACKET + i;
                p.events.push(n.wrapping_mul(7919) % 71_000_000, n % PIXELS + 1);
            }
        }
        Arc::new(p)
    };
    (0..BATCHES).map(one).collect()
}

fn measure(
    path: &Path,
    events: u64,
    name: &str,
    all: &[Arc<Products>],
) -> Result<(), Box<dyn Error>> {
    let pixels = PixelMap {
        name: "panel".into(),
        columns: 160,
        rows: 160,
        cell: (0..PIXELS).collect(),
        x_m: vec![0.0; PIXELS as usize],
        y_m: vec![0.0; PIXELS as usize],
        ..PixelMap::default()
    };
    let mut options = NexusOptions::new(path, pixels);
    options.existing = Existing::Replace;
    let mut sink = NexusSink::create(&options)?;
    let start = Instant::now();
    let mut pushed = 0;
    for products in all.iter().cycle() {
        if pushed >= events {
            break;
        }
        sink.push(products)?;
        sink.tick(start.elapsed())?;
        pushed += products.events.len() as u64;
    }
    let taken = start.elapsed();
    sink.finish()?;
    let rate = |t: Duration| pushed as f64 / t.as_secs_f64() / 1e6;
    let whole = start.elapsed();
    let rows = sink.sheet().get(fullcount_nexus::NexusCounter::Pulses as usize);
    println!(
        "{name:42} {:6.0} M events/s, {:6.0} with closing, {rows} rows",
        rate(taken),
        rate(whole)
    );
    std::fs::remove_file(path)?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let directory = words.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let events = words.next().map_or(Ok(400), |w| w.parse::<u64>())? * 1_000_000;
    let path = directory.join("fullcount-nexus-rate.nxs");
    measure(&path, events, "one pulse per batch", &batches(|b, _| b.into()))?;
    measure(
        &path,
        events,
        "ascending, each packet its pulse",
        &batches(|b, p| (b * PACKETS + p).into()),
    )?;
    measure(&path, events, "two pulses in turn", &batches(|b, p| (b + p % 2).into()))?;
    measure(&path, events, "any of 14 pulses", &batches(|b, p| (b + p * 7919 % 14).into()))
}
