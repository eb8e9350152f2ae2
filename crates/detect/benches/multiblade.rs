//! How fast Multi-Blade goes from packets to events on one core: recorded packets of about 12 readouts, played
//! again and again with their counters moved on, and dense simulated ones; reader and builder, all checks
//! and counters on, at least 64 MB of input cycled, the columns reused.
//!
//! `cargo bench -p fullcount-detect --bench multiblade [-- --json] [-- --megabytes N] [-- --only NAME]`. Prints the median of
//! the repeats. Own timing: one warm-up, five repeats of at least 0.5 s each.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use fullcount_core::batch::{Batch, Edge, Origin, TrainMeta};
use fullcount_core::products::{Products, Want};
use fullcount_detect::detector::{Detector, Setup, Threads, builtin};

/// Datagrams per batch: 64 receive slots of a few datagrams each.
const BATCH: usize = 256;
const REPEATS: usize = 5;
const SECONDS: f64 = 0.5;
const ORIGIN: Origin = Origin { ip: [1; 16], port: 9000 };

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let json = arguments.iter().any(|a| a == "--json");
    let megabytes = arguments
        .iter()
        .position(|a| a == "--megabytes")
        .and_then(|i| arguments.get(i + 1))
        .map_or(64, |n| n.parse().expect("--megabytes: a number, 1 or more"));
    let bytes = megabytes * 1_000_000usize;
    let only = arguments.iter().position(|a| a == "--only").and_then(|i| arguments.get(i + 1));
    let recorded = recorded();
    let mut lines = Vec::new();
    for (name, file, options, packets) in [
        ("recorded", "MB18Freia.json", "", &recorded),
        ("recorded_amor_1d", "AmorB.json", "mode = '1d'", &recorded),
        ("recorded_amor_2d", "AmorB.json", "mode = '2d'", &recorded),
        (
            "recorded_filters",
            "MB18Freia.json",
            "max_wires = 2\nmax_strips = 4\nresolve_doubles = true",
            &recorded,
        ),
        ("recorded_fixed_window", "MB16Estia.json", "clustering = 'fixed-window'", &recorded),
        ("dense_120", "MB16Estia.json", "", &dense(30, 300)),
        ("dense_1120", "MB16Estia.json", "", &dense(280, 300)),
        ("crowded_1120", "MB16Estia.json", "resolve_doubles = true", &dense(280, 3)),
    ] {
        if only.is_some_and(|only| only != name) {
            continue;
        }
        lines.push((name, rate(&*detector(file, options), packets, bytes)));
    }
    if json {
        let field = |(name, r): &(&str, Rate)| {
            format!(
                "\"{name}\": {{\"packets_per_s\": {:.0}, \"readouts_per_s\": {:.0}, \"events_per_s\": {:.0}}}",
                r.packets, r.readouts, r.events
            )
        };
        let fields: Vec<String> = lines.iter().map(field).collect();
        println!("{{\"bench\": \"multiblade\", \"input_bytes\": {bytes}, {}}}", fields.join(", "));
        return;
    }
    for (name, r) in lines {
        println!(
            "{name:22} {:8.2} M packets/s {:8.1} M readouts/s {:8.2} M events/s",
            r.packets / 1e6,
            r.readouts / 1e6,
            r.events / 1e6
        );
    }
}

/// Amounts per second.
#[derive(Debug, Clone, Copy)]
struct Rate {
    packets: f64,
    readouts: f64,
    events: f64,
}

fn detector(file: &str, options: &str) -> Box<dyn Detector> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/multiblade/config/");
    let geometry =
        std::fs::read_to_string(format!("{folder}{file}")).expect("vectors are committed");
    let setup = Setup { geometry, options: options.to_owned(), ..Setup::default() };
    builtin().configure("multiblade", &setup).expect("a published set-up")
}

/// Plays `packets` as often as `bytes` hold, with counters moved on, and measures the decoder.
fn rate(detector: &dyn Detector, packets: &[Vec<u8>], bytes: usize) -> Rate {
    let (memory, ends) = repeated(detector, packets, bytes);
    let readouts = (memory.len() - 32 * ends.len()) / 8;
    let batches = batches(&memory, &ends);
    let decoder = detector.decoder(Want::default(), &Threads::of(1));
    let mut decoder = decoder.expect("one thread");
    let mut products = Products::default();
    let mut events = 0;
    let seconds = median(|| {
        events = 0;
        for batch in &batches {
            products.clear();
            decoder.decode(Some(batch), None, &mut products);
            events += black_box(&products).events.len();
        }
    });
    Rate {
        packets: ends.len() as f64 / seconds,
        readouts: readouts as f64 / seconds,
        events: events as f64 / seconds,
    }
}

/// All packets of all passes, and where each ends.
fn repeated(detector: &dyn Detector, packets: &[Vec<u8>], bytes: usize) -> (Arc<[u8]>, Vec<usize>) {
    let mut shifter = detector.shifter().expect("the format has a rule");
    packets.iter().for_each(|packet| shifter.learn(packet, ORIGIN));
    let (mut memory, mut ends) = (Vec::with_capacity(bytes + (1 << 20)), Vec::new());
    for pass in 0.. {
        if memory.len() >= bytes {
            break;
        }
        for packet in packets {
            let start = memory.len();
            memory.extend_from_slice(packet);
            shifter.shift(&mut memory[start..], ORIGIN, pass);
            ends.push(memory.len());
        }
    }
    (memory.into(), ends)
}

fn batches(memory: &Arc<[u8]>, ends: &[usize]) -> Vec<Batch> {
    let mut start = 0;
    let batch = |ends: &[usize]| {
        let mut batch = Batch::with_slots(0, 0);
        batch.share(memory);
        for &end in ends {
            let len = end - start;
            batch.push(TrainMeta {
                start,
                len,
                stride: 0,
                origin: ORIGIN,
                time_ns: 0,
                edge: Edge::Datagram,
            });
            start = end;
        }
        batch
    };
    ends.chunks(BATCH).map(batch).collect()
}

/// Seconds of one call: median of the repeats after one warm-up.
fn median(mut work: impl FnMut()) -> f64 {
    work();
    let mut times: Vec<f64> = (0..REPEATS)
        .map(|_| {
            let (start, mut calls) = (Instant::now(), 0);
            while start.elapsed().as_secs_f64() < SECONDS {
                work();
                calls += 1;
            }
            start.elapsed().as_secs_f64() / f64::from(calls)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[REPEATS / 2]
}

/// A packet with readouts (local time, channel, amplitude).
fn packet(sequence: u32, digitizer: u32, time: u64, readouts: &[(u32, u16, u16)]) -> Vec<u8> {
    let mut p = vec![0; 8];
    p.extend(time.to_le_bytes());
    p.extend(digitizer.to_le_bytes());
    p.extend([1, 0]);
    p.extend((readouts.len() as u16).to_le_bytes());
    p.extend([1, 3]);
    p.extend(sequence.to_le_bytes());
    p.extend([0, 0]);
    for (time, channel, adc) in readouts {
        p.extend(time.to_le_bytes());
        p.extend(channel.to_le_bytes());
        p.extend(adc.to_le_bytes());
    }
    p
}

/// The 1000 recorded packets.
fn recorded() -> Vec<Vec<u8>> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/multiblade/readouts_a01000.csv");
    let text = std::fs::read_to_string(file).expect("vectors are committed");
    let number = |v: &str| v.parse::<u64>().expect("a number");
    let rows: Vec<Vec<u64>> =
        text.lines().skip(1).map(|l| l.split(',').map(number).collect()).collect();
    let make = |(n, rows): (usize, &[Vec<u64>])| {
        let readouts: Vec<_> =
            rows.iter().map(|r| (r[2] as u32, r[3] as u16, r[4] as u16)).collect();
        packet(n as u32, rows[0][1] as u32, rows[0][0], &readouts)
    };
    rows.chunk_by(|a, b| a[..2] == b[..2]).enumerate().map(make).collect()
}

/// 1000 packets of `events` events of two wires and two strips, on average `distance` ticks apart.
fn dense(events: u32, distance: u64) -> Vec<Vec<u8>> {
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random >> 16
    };
    let digitizers = [137, 143, 142, 31, 33, 34];
    let mut make = |n: u32| {
        let (mut time, mut readouts) = (0u32, Vec::new());
        for _ in 0..events {
            time += (next() % (2 * distance)) as u32;
            let (wire, strip) = ((next() % 31) as u16, (next() % 31) as u16);
            for channel in [wire, wire + 1, 32 + strip, 33 + strip] {
                readouts.push((
                    time + (next() % 40) as u32,
                    channel,
                    500 + (next() % 20_000) as u16,
                ));
            }
        }
        packet(n, digitizers[n as usize % 6], u64::from(n / 6), &readouts)
    };
    (0..1000).map(&mut make).collect()
}
