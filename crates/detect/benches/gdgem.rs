//! How fast Gd-GEM goes from frames to events on one core: the public captures and simulated tracks, played again and again with
//! markers and frame counters moved on. `words` is reading alone (frames, words, markers, Gray code, offsets, as the public
//! parser does it), `reader` adds calibration, time and mapping, `chain` is everything up to events.
//!
//! `cargo bench -p fullcount-detect --bench gdgem [-- --json] [-- --megabytes N] [-- --only NAME] [-- --part words|reader|chain] [-- --cpu-time] [-- --threads N,N…]`. With `--cpu-time`
//! only the time counts that the process was on CPUs, of n threads the n-th part: what they would take if none of them ever waited, for
//! machines that do other work. `--threads` are those of the builder; several are measured by turns, and each is told as a multiple of the
//! first as well (median, least and most of the rounds). Prints the median of the repeats. Own
//! timing: one warm-up, five repeats of at least 1 s each. Hits are all hit words read.

#[path = "../tests/gdgem_made/mod.rs"]
mod gdgem_made;

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use fullcount_core::batch::{Batch, Edge, Origin, TrainMeta};
use fullcount_core::products::{Products, Want};
use fullcount_detect::detector::{Detector, Setup, Threads};
use fullcount_detect::gdgem::packet::{self, Word};

/// Frames per batch.
const BATCH: usize = 16;
const REPEATS: usize = 5;
const SECONDS: f64 = 1.0;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let json = arguments.iter().any(|a| a == "--json");
    let on_cpu = arguments.iter().any(|a| a == "--cpu-time");
    let megabytes: usize = arguments
        .iter()
        .position(|a| a == "--megabytes")
        .and_then(|i| arguments.get(i + 1))
        .map_or(64, |n| n.parse().expect("--megabytes: a number, 1 or more"));
    let threads: Vec<usize> = match arguments.iter().position(|a| a == "--threads") {
        None => vec![1],
        Some(at) => {
            let list = arguments.get(at + 1).map_or("", String::as_str);
            list.split(',').map(|n| n.parse().expect("numbers with commas, 1 or more")).collect()
        }
    };
    let only = arguments.iter().position(|a| a == "--only").and_then(|i| arguments.get(i + 1));
    let part = arguments.iter().position(|a| a == "--part").map(|at| {
        let part = arguments.get(at + 1).map_or("", String::as_str);
        assert!(["words", "reader", "chain"].contains(&part), "--part: words, reader or chain");
        part
    });
    let example = "bc = 44.444\nth = 0\ncs = 1\nccs = 3\ndt = 100\nmst = 1\nspc = 200\ndp = 200\ncrl = 0.2\ncru = 10";
    let xyu = "bc = 40\ndt = 200\nspc = 500\nccs = 3\ncrl = 0.2\ncru = 10";
    let capture = gdgem_made::capture;
    let mut calibrated = gdgem_made::setup("vmm/example_geometry.json", example);
    calibrated.calibration = gdgem_made::text("calibration/full_calibration.json");
    let lines: Vec<_> = [
        (
            "example",
            gdgem_made::setup("vmm/example_geometry.json", example),
            capture("example.pcapng"),
        ),
        ("example_calibrated", calibrated, capture("example.pcapng")),
        (
            "xyu",
            gdgem_made::setup("vmm/example_geometry_xyu.json", xyu),
            capture("example_xyu.pcapng"),
        ),
        ("tracks_10_10", gdgem_made::setup("", "ccs = 3\ncrl = 0.2\ncru = 10"), tracks()),
        ("online_example", online(), capture("example.pcapng")),
    ]
    .into_iter()
    .filter(|(name, ..)| only.as_ref().is_none_or(|only| only == name))
    .map(|(name, setup, frames)| {
        let wants = |name: &str| part.is_none_or(|part| part == name);
        (name, rate(&setup, &frames, megabytes * 1_000_000, &threads, (on_cpu, &wants)))
    })
    .collect();
    if json {
        let field = |(name, r): &(&str, Rate)| {
            format!(
                "\"{name}\": {{\"words_hits_per_s\": {:.0}, \"reader_hits_per_s\": {:.0}, \"chain_hits_per_s\": {:.0}, \"events_per_s\": {:.0}{}}}",
                r.words,
                r.reader,
                r.chain,
                r.events,
                r.more.iter().map(More::json).collect::<String>()
            )
        };
        let fields: Vec<String> = lines.iter().map(field).collect();
        println!(
            "{{\"bench\": \"gdgem\", \"input_megabytes\": {megabytes}, {}}}",
            fields.join(", ")
        );
        return;
    }
    for (name, r) in lines {
        println!(
            "{name:20} words {:7.1} M hits/s, reader {:7.1} M hits/s, chain {:6.1} M hits/s {:6.2} M events/s",
            r.words / 1e6,
            r.reader / 1e6,
            r.chain / 1e6,
            r.events / 1e6
        );
        r.more.iter().for_each(|more| println!("{name:20} {}", more.text()));
    }
}

/// Amounts per second.
#[derive(Debug, Clone)]
struct Rate {
    words: f64,
    reader: f64,
    chain: f64,
    events: f64,
    /// With other numbers of threads.
    more: Vec<More>,
}

/// The chain with so many builder threads, beside that with the first number.
#[derive(Debug, Clone)]
struct More {
    threads: usize,
    first: usize,
    chain: f64,
    /// Least, median and most of the rounds.
    ratios: [f64; 3],
}

impl More {
    fn json(&self) -> String {
        let [least, median, most] = self.ratios;
        format!(
            ", \"threads_{}\": {{\"chain_hits_per_s\": {:.0}, \"of_threads_{}\": {median:.3}, \"least\": {least:.3}, \"most\": {most:.3}}}",
            self.threads, self.chain, self.first
        )
    }

    fn text(&self) -> String {
        let [least, median, most] = self.ratios;
        format!(
            "{} builder threads: chain {:6.1} M hits/s, {median:.2} times that of {} ({least:.2} to {most:.2})",
            self.threads,
            self.chain / 1e6,
            self.first
        )
    }
}

/// The online chain's configuration for the public capture.
fn online() -> Setup {
    let mut config: serde_json::Value =
        serde_json::from_str(&gdgem_made::text("config/refdata.json")).expect("JSON");
    let map = |(fec, vmm, plane, strip)| serde_json::json!({"fecID": fec, "vmmID": vmm, "planeID": plane, "strip_offset": strip});
    config["srs_mappings"] =
        [(2, 0, 0, 0), (2, 1, 0, 64), (1, 0, 1, 0), (1, 1, 1, 64)].map(map).to_vec().into();
    config["time_config"]["bc_clock"] = 40.into();
    Setup { geometry: config.to_string(), ..Setup::default() }
}

/// Plays `frames` as often as `bytes` hold, with counters moved on, and measures.
fn rate(
    setup: &Setup,
    frames: &[Vec<u8>],
    bytes: usize,
    threads: &[usize],
    (on_cpu, wants): (bool, &dyn Fn(&str) -> bool),
) -> Rate {
    let detector = gdgem_made::detector(setup);
    let (memory, ends) = repeated(&detector, frames, bytes);
    let batches = batches(&memory, &ends);
    let chunks = || batches.iter().flat_map(Batch::trains);
    let hits =
        chunks().flat_map(|t| t.bytes[16..].as_chunks::<6>().0).filter(|w| w[4] >> 7 == 1).count()
            as f64;

    // Of a part that is not wanted the rate is 0.
    let timed = |name: &str, work: &mut dyn FnMut()| {
        if wants(name) { median(on_cpu, work) } else { f64::INFINITY }
    };
    let words = timed("words", &mut || chunks().for_each(|train| parse(train.bytes)));
    let mut products = Products::default();
    let reader = timed("reader", &mut || {
        let mut reader = detector.first_step().expect("it has two steps");
        for batch in &batches {
            products.clear();
            reader.decode(Some(batch), None, &mut products);
            black_box(&products);
        }
    });
    let mut events = 0;
    let mut pass = |threads: usize| {
        events = 0;
        let decoder = detector.decoder(Want::default(), &Threads::of(threads));
        let mut decoder = decoder.expect("threads");
        products.clear();
        for batch in &batches {
            products.events.clear();
            decoder.decode(Some(batch), None, &mut products);
            events += black_box(&products).events.len();
        }
        products.events.clear();
        decoder.finish(&mut products);
        events += products.events.len();
    };
    // By turns, so that what else the machine does meets all alike.
    threads.iter().for_each(|&n| pass(n));
    let rounds: Vec<Vec<f64>> = (0..REPEATS)
        .map(|_| {
            if !wants("chain") {
                return vec![f64::INFINITY; threads.len()];
            }
            let share = |n: usize| if on_cpu { n as f64 } else { 1.0 };
            threads.iter().map(|&n| seconds(on_cpu, &mut || pass(n)) / share(n)).collect()
        })
        .collect();
    let sorted = |of: &dyn Fn(&Vec<f64>) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let chain = sorted(&|round| round[0])[REPEATS / 2];
    let more = threads.iter().enumerate().skip(1).map(|(at, &n)| {
        let ratios = sorted(&|round| round[0] / round[at]);
        More {
            threads: n,
            first: threads[0],
            chain: hits / sorted(&|round| round[at])[REPEATS / 2],
            ratios: [ratios[0], ratios[REPEATS / 2], ratios[REPEATS - 1]],
        }
    });
    let more = more.collect();
    Rate {
        words: hits / words,
        reader: hits / reader,
        chain: hits / chain,
        events: events as f64 / chain,
        more,
    }
}

/// What the public parser does: fields of each word, with the marker of its VMM.
fn parse(frame: &[u8]) {
    #[derive(Default, Clone, Copy)]
    #[allow(dead_code, reason = "written, and seen by black_box")]
    struct Parsed {
        marker: u64,
        bcid: u16,
        adc: u16,
        tdc: u8,
        channel: u8,
        vmm: u8,
        offset: u8,
        over: bool,
    }
    let Ok((_, words)) = packet::frame(frame) else { return };
    let mut parsed = [Parsed::default(); 1500];
    let (mut markers, mut at) = ([0; 32], 0);
    for raw in words.iter().take(1500) {
        let word = Word::read(raw);
        if !word.is_hit() {
            markers[word.marker_vmm()] = word.marker_time();
            continue;
        }
        parsed[at] = Parsed {
            marker: markers[word.vmm()],
            bcid: word.bcid(),
            adc: word.adc(),
            tdc: word.tdc(),
            channel: word.channel() as u8,
            vmm: word.vmm() as u8,
            offset: word.offset() as u8,
            over: word.over_threshold(),
        };
        at += 1;
    }
    black_box(&parsed[..at]);
}

/// All frames of all passes, and where each ends.
fn repeated(detector: &dyn Detector, frames: &[Vec<u8>], bytes: usize) -> (Arc<[u8]>, Vec<usize>) {
    let mut shifter = detector.shifter().expect("the format has a rule");
    frames.iter().for_each(|frame| shifter.learn(frame, Origin::NONE));
    let (mut memory, mut ends) = (Vec::with_capacity(bytes + (1 << 20)), Vec::new());
    for pass in 0.. {
        if memory.len() >= bytes {
            break;
        }
        for frame in frames {
            let start = memory.len();
            memory.extend_from_slice(frame);
            shifter.shift(&mut memory[start..], Origin::NONE, pass);
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
            let (len, origin) = (end - start, Origin::NONE);
            batch.push(TrainMeta {
                start,
                len,
                stride: 0,
                origin,
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
fn median(on_cpu: bool, mut work: impl FnMut()) -> f64 {
    work();
    let mut times: Vec<f64> = (0..REPEATS).map(|_| seconds(on_cpu, &mut work)).collect();
    times.sort_by(f64::total_cmp);
    times[REPEATS / 2]
}

/// Seconds of one call, over a second of them.
fn seconds(on_cpu: bool, work: &mut impl FnMut()) -> f64 {
    let (start, before, mut calls) = (Instant::now(), cpu_seconds(), 0);
    while start.elapsed().as_secs_f64() < SECONDS {
        work();
        calls += 1;
    }
    let (wall, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - before);
    if on_cpu { cpu / f64::from(calls) } else { wall / f64::from(calls) }
}

/// Time of this process on CPUs, threads that have ended included, s, in steps of 10 ms; 0 where Linux does not tell.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name, which may have spaces: user and system time are the 12th and 13th.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Tracks of 10 + 10 hits, on average 1 µs apart, of two FECs: x from FEC 2, y from FEC 1, two VMMs each.
fn tracks() -> Vec<Vec<u8>> {
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random >> 16
    };
    let mut words: [Vec<[u8; 6]>; 3] = Default::default();
    // Markers come every 65,536 clocks; the first is not 0.
    let (mut marker, mut clock) = (0u64, 65_536u64);
    for _ in 0..20_000 {
        clock += 1 + next() % 79;
        let latest = clock / 65_536 * 65_536;
        if latest > marker {
            marker = latest;
            for fec in [1, 2] {
                words[fec].extend([0, 1].map(|vmm| gdgem_made::marker(vmm, marker)));
            }
        }
        for fec in [2, 1] {
            let first = (next() % 118) as u16;
            for k in 0..10 {
                let (strip, at) = (first + k, clock - marker + u64::from(k / 3));
                let (offset, bcid) = ((at / 4096).min(15) as u8, (at % 4096) as u16);
                let adc = 100 + (next() % 300) as u16;
                let word = gdgem_made::hit(
                    (strip / 64) as u8,
                    (strip % 64) as u8,
                    offset,
                    bcid,
                    next() as u8,
                    adc,
                );
                words[fec].push(word);
            }
        }
    }
    let mut frames = Vec::new();
    let [_, one, two] = &words;
    for (n, pair) in one.chunks(1492).zip(two.chunks(1492)).enumerate() {
        frames.push(gdgem_made::frame(1, n as u32, pair.0));
        frames.push(gdgem_made::frame(2, n as u32, pair.1));
    }
    frames
}
