//! How fast Multi-Grid goes from packets to events on one core: reader and builder, all checks and counters
//! on, packets in memory and repeated with event numbers and times moved on, the output batch reused.
//!
//! `cargo bench -p fullcount-detect --bench multigrid [-- --json] [-- --seconds N]`. Inputs: packets of the
//! shape of the largest published recording (1355 bytes: 36 triggers, 54 readouts, some triggers empty),
//! dense triggers (a neutron on 2 wires and 3 grids each), and the capture of `vectors/multigrid`. Own timing:
//! one warm-up pass, then the median of five repeats.

use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use fullcount_core::batch::{Batch, Edge, Origin, TrainMeta};
use fullcount_core::ledger::Ledger;
use fullcount_core::products::{Products, Want};
use fullcount_detect::detector::{Detector, Setup, Threads, builtin};

const REPEATS: usize = 5;
/// What one receive call of the service takes: 8 trains of 48 packets.
const TRAIN: usize = 48;
const TRAINS: usize = 8;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let json = arguments.iter().any(|a| a == "--json");
    let after = arguments.iter().position(|a| a == "--seconds").and_then(|i| arguments.get(i + 1));
    let seconds: f64 = after.map_or(1.0, |n| n.parse().expect("--seconds: a number"));
    let mut lines = Vec::new();
    for (name, packets) in
        [("recorded shape", recorded()), ("dense", dense()), ("vectors", vectors())]
    {
        let figures = measure(&packets, seconds);
        let Figures { packets, triggers, readouts, events, bytes } = figures;
        if json {
            lines.push(format!(
                "{{\"input\": \"{name}\", \"packets_per_s\": {packets:.0}, \"triggers_per_s\": {triggers:.0}, \
                 \"readouts_per_s\": {readouts:.0}, \"events_per_s\": {events:.0}, \"bytes_per_s\": {bytes:.0}}}"
            ));
        } else {
            println!(
                "{name:15} {:7.1} M readouts/s  {:6.1} M triggers/s  {:6.1} M events/s  {:5.2} M packets/s  {:5.2} GB/s",
                readouts / 1e6,
                triggers / 1e6,
                events / 1e6,
                packets / 1e6,
                bytes / 1e9
            );
        }
    }
    if json {
        println!("{{\"bench\": \"multigrid\", \"inputs\": [{}]}}", lines.join(", "));
    }
}

/// Per second.
#[derive(Debug, Clone, Copy)]
struct Figures {
    packets: f64,
    triggers: f64,
    readouts: f64,
    events: f64,
    bytes: f64,
}

fn configured() -> Box<dyn Detector> {
    let file = folder().join("config/three_modules_mg24.json");
    let geometry = std::fs::read_to_string(file).expect("vectors are committed");
    let setup = Setup { geometry, ..Setup::default() };
    builtin().configure("multigrid", &setup).expect("a published configuration")
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors/multigrid")
}

/// `packets` repeated until they fill 64 MB, each pass moved on by the detector's own rule; then through
/// reader and builder again and again. A new pass over the memory steps back in time once.
fn measure(packets: &[Vec<u8>], seconds: f64) -> Figures {
    let detector = configured();
    let mut shifter = detector.shifter().expect("there is a rule");
    packets.iter().for_each(|p| shifter.learn(p, Origin::NONE));
    let bytes: usize = packets.iter().map(Vec::len).sum();
    let passes = (64_000_000usize.div_ceil(bytes)) as u64;
    let (mut memory, mut metas) = (Vec::new(), Vec::new());
    for pass in 0..passes {
        for packet in packets {
            let mut moved = packet.clone();
            shifter.shift(&mut moved, Origin::NONE, pass);
            let (start, len) = (memory.len(), moved.len());
            memory.extend(moved);
            metas.push(TrainMeta {
                start,
                len,
                stride: 0,
                origin: Origin::NONE,
                time_ns: 0,
                edge: Edge::Datagram,
            });
        }
    }
    let memory: Arc<[u8]> = memory.into();
    let batches: Vec<Batch> = metas
        .chunks(TRAIN * TRAINS)
        .map(|part| {
            let mut batch = Batch::with_slots(0, 0);
            batch.share(&memory);
            // Neighbours of equal length travel as a train.
            for train in part.chunk_by(|a, b| a.len == b.len) {
                let len = train.iter().map(|m| m.len).sum();
                batch.push(TrainMeta { len, stride: train[0].len, ..train[0] });
            }
            batch
        })
        .collect();
    let decoder = detector.decoder(Want::default(), &Threads::of(1));
    let mut decoder = decoder.expect("one thread");
    let mut products = Products::default();
    let mut pass = || {
        for batch in &batches {
            decoder.decode(Some(batch), None, &mut products);
            if products.events.len() >= 1 << 16 {
                black_box(&products);
                products.clear();
            }
        }
    };
    pass();
    let mut rates: Vec<f64> = (0..REPEATS)
        .map(|_| {
            let (start, mut done) = (Instant::now(), 0);
            while start.elapsed().as_secs_f64() < seconds {
                pass();
                done += 1;
            }
            f64::from(done) / start.elapsed().as_secs_f64()
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    decoder.finish(&mut products);
    let ledger = Ledger::default();
    decoder.sheets().into_iter().for_each(|sheet| ledger.register(sheet));
    let entries = ledger.read();
    assert_eq!(entries.balance(), 0);
    let count = |name: &str| entries.get(name).expect("a counter") as f64;
    // All passes are alike: the share of one.
    let of_pass = rates[REPEATS / 2] * metas.len() as f64 / count("decode.packets");
    let rate = |name: &str| count(name) * of_pass;
    Figures {
        packets: rate("decode.packets"),
        triggers: rate("triggers.count"),
        readouts: rate("readouts.count"),
        events: rate("events.count"),
        bytes: rate("rx_bytes"),
    }
}

/// Puts triggers into a packet: data words each.
fn packet(first: u32, triggers: &[Vec<u32>]) -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0];
    for (i, data) in triggers.iter().enumerate() {
        bytes.push(0x58);
        bytes.extend((data.len() as u16 + 3).to_be_bytes());
        bytes.push(0);
        bytes.extend((0xbb00_0000 | (first + i as u32)).to_le_bytes());
        bytes.extend(data.iter().flat_map(|w| w.to_le_bytes()));
        bytes.extend(0x8765_4321u32.to_le_bytes());
        bytes.extend(0xee01_0000u32.to_le_bytes());
    }
    bytes
}

/// A trigger: header, extended time, readouts, a fill word where the number is odd, end.
fn trigger(time: u64, readouts: &[u32]) -> Vec<u32> {
    let mut data = vec![0, 0x2000_0000 | (time >> 30) as u32];
    data.extend(readouts);
    if data.len() % 2 == 0 {
        data.push(0);
    }
    data.push(0xc000_0000 | time as u32 & 0x3fff_ffff);
    data[0] = 0x4000_0000 | (data.len() as u32 - 1);
    data
}

fn readout(bus: u32, channel: u32, adc: u32) -> u32 {
    0x1000_0000 | bus << 24 | channel << 12 | adc
}

/// A small generator of numbers, the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as u32 % n
    }
}

/// 1355 bytes: 36 triggers, of which 25 have a wire and a grid, 4 a wire alone, 7 nothing. 54 readouts.
fn recorded() -> Vec<Vec<u8>> {
    let (mut random, mut time) = (Random(0x9e37_79b9_7f4a_7c15), 7u64 << 30);
    let packets: Vec<_> = (0..2000)
        .map(|n| {
            let triggers: Vec<_> = (0..36)
                .map(|i| {
                    // 86,000 packets/s of 36 triggers: one in 5 ticks.
                    time += u64::from(1 + random.below(9));
                    let bus = random.below(3);
                    let wire = readout(bus, random.below(80), 200 + random.below(3000));
                    let grid = readout(bus, 80 + random.below(40), 200 + random.below(3000));
                    match i % 36 {
                        4 | 13 | 22 | 31 => {
                            // Without the fill word, as some are: an odd number of words behind the header.
                            let mut t = trigger(time, &[wire]);
                            t.retain(|&w| w != 0);
                            t[0] = 0x4000_0003;
                            t
                        }
                        2 | 7 | 12 | 17 | 25 | 27 | 34 => trigger(time, &[]),
                        _ => trigger(time, &[wire, grid]),
                    }
                })
                .collect();
            packet(36 * n, &triggers)
        })
        .collect();
    assert!(packets.iter().all(|p| p.len() == 1355), "{}", packets[0].len());
    packets
}

/// As many triggers as 1472 bytes hold, each a neutron on one wire and three grids with different weights.
fn dense() -> Vec<Vec<u8>> {
    let (mut random, mut time) = (Random(0x1234_5678_9abc_def1), 7u64 << 30);
    (0..2000)
        .map(|n| {
            let triggers: Vec<_> = (0..30)
                .map(|_| {
                    time += u64::from(1 + random.below(9));
                    let (bus, grid) = (random.below(3), random.below(37));
                    let weight = 200 + random.below(3000);
                    let mut of = vec![readout(bus, random.below(80), weight)];
                    for (i, part) in [(0, 3), (1, 9), (2, 4)] {
                        of.push(readout(bus, 80 + grid + i, weight * part / 10));
                    }
                    trigger(time, &of)
                })
                .collect();
            packet(30 * n, &triggers)
        })
        .collect()
}

/// The capture of the vectors, damaged packets and all.
fn vectors() -> Vec<Vec<u8>> {
    let text = std::fs::read_to_string(folder().join("expected.json")).expect("committed");
    let expected: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let order = expected["pcap"]["order"].as_array().expect("names");
    let read = |name: &serde_json::Value| std::fs::read(folder().join(name.as_str()?)).ok();
    order.iter().map(|name| read(name).expect("a vector")).collect()
}
