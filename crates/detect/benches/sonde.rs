//! How fast SoNDe decodes on one core: 250-entry 0xD6 packets in GRO-sized trains through the public
//! `Decoder`, all checks and counters on, at least 256 MB of input cycled, the output batch reused.
//!
//! `cargo bench -p fullcount-detect --bench sonde [-- --json] [-- --megabytes N]`. Prints the median of the
//! repeats and, beside it, how fast this machine copies the same memory. Own timing: one warm-up, five
//! repeats of at least 0.5 s each.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use fullcount_core::batch::{Batch, Edge, Origin, TrainMeta};
use fullcount_core::products::{Products, Want};
use fullcount_core::time::{Nanos, PulseGrid, TickLength};
use fullcount_detect::detector::{Setup, Threads, TimeBase, builtin};

const ENTRIES: usize = 250;
const PACKET: usize = 11 + 5 * ENTRIES;
/// 51 packets of 1261 B fill a 64 KiB GRO train.
const TRAIN: usize = 51;
/// Trains per batch: what one receive call of the service takes.
const TRAINS: usize = 8;
const REPEATS: usize = 5;
const SECONDS: f64 = 0.5;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let json = arguments.iter().any(|a| a == "--json");
    let megabytes = arguments
        .iter()
        .position(|a| a == "--megabytes")
        .and_then(|i| arguments.get(i + 1))
        .map_or(256, |n| n.parse().expect("--megabytes: a number, 1 or more"));
    let trains = (megabytes * 1_000_000usize).div_ceil(TRAIN * PACKET).next_multiple_of(TRAINS);
    let memory: Arc<[u8]> = packets(trains * TRAIN).into();
    let blocks = TimeBase::default();
    let grid = PulseGrid::new(1_000_000_000, 14, Nanos(0)).expect("14 Hz is a period");
    let pulses = TimeBase { grid, ..blocks };

    let long = TimeBase { tick: TickLength::new(8, 1), ..blocks };

    let blocks = decode(&memory, blocks);
    let long = decode(&memory, long);
    let pulses = decode(&memory, pulses);
    let copy = copy(&memory);
    let bytes = |events: f64| events / ENTRIES as f64 * PACKET as f64;
    if json {
        println!(
            "{{\"bench\": \"sonde\", \"input_bytes\": {}, \"events_per_s\": {:.0}, \"bytes_per_s\": {:.0}, \
             \"events_per_s_14hz\": {:.0}, \"events_per_s_8ns_ticks\": {:.0}, \"copy_bytes_per_s\": {:.0}}}",
            memory.len(),
            blocks,
            bytes(blocks),
            pulses,
            long,
            copy
        );
        return;
    }
    println!(
        "input        {:8.1} MB, {ENTRIES} entries a packet, {TRAIN} packets a train",
        memory.len() as f64 / 1e6
    );
    for (name, events) in [("no pulses", blocks), ("14 Hz", pulses), ("8 ns ticks", long)] {
        println!(
            "{name:12} {:8.1} M events/s  {:6.2} GB/s read",
            events / 1e6,
            bytes(events) / 1e9
        );
    }
    println!("machine copy {:27.2} GB/s", copy / 1e9);
}

/// Events per second, median.
fn decode(memory: &Arc<[u8]>, time: TimeBase) -> f64 {
    let setup = Setup { time, ..Setup::default() };
    let detector = builtin().configure("sonde", &setup).expect("default configuration");
    let decoder = detector.decoder(Want::default(), &Threads::of(1));
    let mut decoder = decoder.expect("one thread");
    let mut products = Products::default();
    let mut batch = Batch::with_slots(0, 0);
    let step = TRAIN * PACKET;
    median(|| {
        let mut events = 0;
        for first in (0..memory.len()).step_by(step * TRAINS) {
            batch.share(memory);
            for start in (first..first + step * TRAINS).step_by(step) {
                batch.push(TrainMeta {
                    start,
                    len: step,
                    stride: PACKET,
                    origin: Origin::NONE,
                    time_ns: 0,
                    edge: Edge::Datagram,
                });
            }
            products.clear();
            decoder.decode(Some(&batch), None, &mut products);
            events += black_box(&products).events.len();
        }
        assert_eq!(events, memory.len() / PACKET * ENTRIES, "every entry is an event");
        events as f64
    })
}

/// Bytes per second of a copy between two blocks as large as the input, median.
fn copy(memory: &Arc<[u8]>) -> f64 {
    let mut to = vec![0u8; memory.len()];
    median(|| {
        to.copy_from_slice(memory);
        black_box(&to);
        memory.len() as f64
    })
}

/// Amount per second: median of the repeats after one warm-up.
fn median(mut work: impl FnMut() -> f64) -> f64 {
    work();
    let mut rates: Vec<f64> = (0..REPEATS)
        .map(|_| {
            let (start, mut done) = (Instant::now(), 0.0);
            while start.elapsed().as_secs_f64() < SECONDS {
                done += work();
            }
            done / start.elapsed().as_secs_f64()
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    rates[REPEATS / 2]
}

/// 0xD6 packets of one module at 37 MHz (the instrument's planned rate), all 64 pixels.
fn packets(n: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(n * PACKET);
    let (mut time, mut random) = (0u32, 0x9e37_79b9_7f4a_7c15u64);
    for count in 0..n {
        bytes.extend([1, 0xd6]);
        bytes.extend(((count & 0x3fff) as u16).to_be_bytes());
        bytes.extend(time.to_be_bytes());
        bytes.extend(((PACKET - 10) as u16).to_be_bytes());
        bytes.push(ENTRIES as u8);
        for _ in 0..ENTRIES {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            time += (random % 54) as u32;
            bytes.extend(time.to_be_bytes());
            bytes.push(((random >> 32) as u8 & 0b1100_0000) | ((random >> 40) as u8 & 0b1111));
        }
    }
    bytes
}
