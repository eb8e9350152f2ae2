//! How fast the NeXus sink writes with gzip: by HDF5's filter and by its own threads, alternately.
//!
//! `cargo bench -p fullcount-nexus --bench gzip -- [DIRECTORY [MILLION_EVENTS [LEVEL]]]`, by default 64 million events
//! at level 1 in the system's folder for temporary files; the best of three rounds. One core: this process and all its
//! threads are bound to it. MB/s are of event bytes, 8 an event, from the first push to the closed file. Each file is
//! compared with its input. Fails if events as `fullcount lab bench write` makes them are not written four times as fast as by the
//! filter, and 1.7 times that with two threads on two cores, or if a file is more than 5 % larger. Source: `docs/files.md`.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use fullcount_core::products::Products;
use fullcount_core::sink::Sink;
use fullcount_core::time::PulseTime;
use fullcount_core::view::PixelMap;
use fullcount_nexus::{Compression, Existing, NexusOptions, NexusSink, Packing};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Pixels of the panel.
const PIXELS: u64 = 25_600;
/// 14 Hz.
const PERIOD_NS: i64 = 71_428_571;
/// Events of a push, which is a pulse.
const PULSE: usize = 12_400;
/// Rounds of each way.
const ROUNDS: usize = 3;

/// What the events of `lab` must reach on one core, of the filter's rate, and on two, of that on one.
const LEAST: [f64; 2] = [4.0, 1.7];
/// Largest size of any file, of the filter's.
const LARGEST: f64 = 1.05;

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// Offsets and pixels of one pulse.
type Pulse = fn(&mut Dice) -> Vec<(u32, u32)>;

fn times(dice: &mut Dice) -> Vec<u32> {
    let mut times: Vec<u32> = (0..PULSE).map(|_| dice.below(PERIOD_NS as u64) as u32).collect();
    times.sort_unstable();
    times
}

/// Seven bits to a byte, as `fullcount lab bench write` makes its events.
fn spread(value: u64) -> u32 {
    (0..4).map(|byte| ((value >> (7 * byte) & 0x7f) << (8 * byte)) as u32).sum()
}

fn lab(dice: &mut Dice) -> Vec<(u32, u32)> {
    let mut times: Vec<u32> = (0..PULSE).map(|_| spread(dice.below(1 << 23))).collect();
    times.sort_unstable();
    // Of its 16383 pixels only those that the panel has.
    times.into_iter().map(|t| (t, spread(1 + dice.below(12_000)))).collect()
}

fn anywhere(dice: &mut Dice) -> Vec<(u32, u32)> {
    times(dice).into_iter().map(|t| (t, 1 + dice.below(PIXELS) as u32)).collect()
}

/// A spot in the middle of 160 × 160 pixels; the detector's clock ticks in microseconds.
fn spot(dice: &mut Dice) -> Vec<(u32, u32)> {
    let mut side = || (0..8).map(|_| dice.below(20)).sum::<u64>();
    let pixels: Vec<u32> = (0..PULSE).map(|_| 1 + (side() * 160 + side()) as u32).collect();
    times(dice).into_iter().map(|t| t / 1000 * 1000).zip(pixels).collect()
}

/// Modules that send packets of 250 events, each from its 1,024 pixels and within 0.1 ms.
fn modules(dice: &mut Dice) -> Vec<(u32, u32)> {
    let mut all = Vec::new();
    while all.len() < PULSE {
        let (module, begin) = (dice.below(25), dice.below(71_000_000));
        let mut times: Vec<u64> = (0..250).map(|_| begin + dice.below(100_000)).collect();
        times.sort_unstable();
        all.extend(
            times.into_iter().map(|t| (t as u32, 1 + (module * 1024 + dice.below(1024)) as u32)),
        );
    }
    all
}

/// Every value follows from the one before: what repeats is all that there is to find.
fn counting(dice: &mut Dice) -> Vec<(u32, u32)> {
    let from = dice.below(1000) as u32;
    let one = |i: u32| (i * 5000 + from, (i + from) % PIXELS as u32 + 1);
    (0..PULSE as u32).map(one).collect()
}

/// So many events at least. After 200 pulses, 2.5 million events, the same come again, at later times: no search looks back that far.
fn pulses(make: Pulse, events: u64) -> Vec<Arc<Products>> {
    let mut dice = Dice(1);
    let different: Vec<_> = (0..200).map(|_| make(&mut dice)).collect();
    let mut made = 0;
    let one = |(number, events): (i64, &Vec<(u32, u32)>)| {
        let mut products = Products::default();
        products.events.open_pulse(PulseTime(1_700_000_000_000_000_000 + number * PERIOD_NS));
        events.iter().for_each(|&(time, pixel)| products.events.push(time, pixel));
        Arc::new(products)
    };
    let enough = |products: &Arc<Products>| {
        let before = made;
        made += products.events.len() as u64;
        before < events
    };
    (0..).zip(different.iter().cycle()).map(one).take_while(enough).collect()
}

/// MB/s and the file's bytes.
fn write(
    path: &Path,
    all: &[Arc<Products>],
    level: u8,
    packing: Packing,
) -> Result<(f64, u64), Box<dyn Error>> {
    let pixels = PixelMap {
        name: "panel".into(),
        columns: 160,
        rows: 160,
        cell: (0..PIXELS as u32).collect(),
        x_m: vec![0.0; PIXELS as usize],
        y_m: vec![0.0; PIXELS as usize],
        ..PixelMap::default()
    };
    let mut options = NexusOptions::new(path, pixels);
    (options.existing, options.read_only) = (Existing::Replace, false);
    (options.compression, options.packing) = (Compression::Gzip(level), packing);
    let mut sink = NexusSink::create(&options)?;
    let begun = Instant::now();
    let mut pushed = 0;
    for products in all {
        sink.push(products)?;
        sink.tick(begun.elapsed())?;
        pushed += products.events.len() as u64;
    }
    sink.finish()?;
    let seconds = begun.elapsed().as_secs_f64();
    let found = hdf5_metno::File::open(path)?;
    let group = found.group("/entry/panel_events")?;
    let column = |name: &str| group.dataset(name)?.read_raw::<u32>();
    let (ids, offsets) = (column("event_id")?, column("event_time_offset")?);
    let want = |of: fn(&Products) -> &[u32]| all.iter().flat_map(move |p| of(p)).copied();
    let same = want(|p| &p.events.pixel).eq(ids) && want(|p| &p.events.offset_ns).eq(offsets);
    assert!(same, "the file holds what was pushed");
    Ok((8.0 * pushed as f64 / seconds / 1e6, std::fs::metadata(path)?.len()))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1).filter(|word| !word.starts_with("--"));
    let directory = words.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let events = words.next().map_or(Ok(64), |w| w.parse::<u64>())? * 1_000_000;
    let level = words.next().map_or(Ok(1), |w| w.parse::<u8>())?;
    let path = directory.join("fullcount-gzip.nxs");
    let every = sched_getaffinity(None)?;
    let mut one = CpuSet::new();
    let first = (0..CpuSet::MAX_CPU).find(|&cpu| every.is_set(cpu)).ok_or("no core")?;
    one.set(first);
    println!("{events} events, gzip:{level}, {} cores", every.count());
    println!(
        "{:10} {:>26} {:>26} {:>26}",
        "", "hdf5, one core", "direct, one core", "direct, two threads"
    );
    let patterns: [(&str, Pulse); 5] = [
        ("lab", lab),
        ("anywhere", anywhere),
        ("spot", spot),
        ("modules", modules),
        ("counting", counting),
    ];
    let mut missed = Vec::new();
    for (name, make) in patterns {
        let all = pulses(make, events);
        let mut best = [(0.0_f64, 0); 3];
        for _ in 0..ROUNDS {
            let ways = [
                (&one, Packing::Hdf5),
                (&one, Packing::Direct { threads: 1 }),
                (&every, Packing::Direct { threads: 2 }),
            ];
            for (best, (cores, packing)) in best.iter_mut().zip(ways) {
                sched_setaffinity(None, cores)?;
                let (rate, bytes) = write(&path, &all, level, packing)?;
                *best = (best.0.max(rate), bytes);
            }
        }
        print!("{name:10} {:7.0} MB/s {:8.1} MB    ", best[0].0, best[0].1 as f64 / 1e6);
        for i in [1, 2] {
            let (faster, size) = (best[i].0 / best[i - 1].0, best[i].1 as f64 / best[0].1 as f64);
            print!("{:7.0} MB/s {faster:5.2}x size {size:5.3} ", best[i].0);
            let least = LEAST[i - 1];
            if name == "lab" && (i == 1 || every.count() > 1) && faster < least {
                missed.push(format!("{name}: {faster:.2} times as fast; wanted {least}"));
            }
            if size > LARGEST {
                missed.push(format!("{name}: {size:.3} of the filter's size; wanted {LARGEST}"));
            }
        }
        println!();
    }
    std::fs::remove_file(path)?;
    if missed.is_empty() { Ok(()) } else { Err(missed.join("; ").into()) }
}
