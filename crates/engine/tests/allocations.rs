//! Hops 1 to 6 allocate nothing in steady state: however many packets, only start-up allocates.

use std::alloc::System;
use std::sync::Arc;
use std::time::Duration;

use fullcount_core::batch::{Batch, Edge, Origin, TrainMeta};
use fullcount_core::ledger::{Ledger, Sheet};
use fullcount_core::products::Want;
use fullcount_detect::detector::{Setup, Threads, builtin};
use fullcount_engine::fanout::Fanout;
use fullcount_engine::null::NullSink;
use fullcount_engine::pipeline::{Processing, Progress, RingCount, RunLimits};
use fullcount_engine::pipeline::{run_one_thread, run_two_threads};
use fullcount_engine::stop::Stop;
use fullcount_io::capture::{BUFFER_MIN, Capture, CaptureOptions};
use fullcount_io::source::{Received, Source, SourceError};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// SoNDe packets of one system, 16 a train, their counters as a device sends them.
struct Memory {
    bytes: Arc<[u8]>,
    trains: Vec<TrainMeta>,
    at: usize,
    batches: usize,
}

const ENTRIES: usize = 250;
const STRIDE: usize = 11 + 5 * ENTRIES;
const TRAIN: usize = 16;

impl Memory {
    fn new(batches: usize) -> Memory {
        let mut bytes = Vec::new();
        let mut trains = Vec::new();
        // One full turn of the 14-bit counter, so that cycling it is one long run.
        for count in 0..16_384u16 {
            let time = u32::from(count) * 10_000;
            if usize::from(count) % TRAIN == 0 {
                let (start, len) = (bytes.len(), TRAIN * STRIDE);
                let origin = Origin { port: 50_011, ..Origin::NONE };
                let edge = Edge::Datagram;
                trains.push(TrainMeta { start, len, stride: STRIDE, origin, time_ns: 0, edge });
            }
            bytes.extend([1, 0xd6]);
            bytes.extend(count.to_be_bytes());
            bytes.extend(time.to_be_bytes());
            bytes.extend((1 + 5 * ENTRIES as u16).to_be_bytes());
            bytes.push(ENTRIES as u8);
            for i in 0..ENTRIES as u32 {
                bytes.extend((time + 40 * i).to_be_bytes());
                bytes.push((i % 4) as u8 * 64 + (i % 16) as u8);
            }
        }
        Memory { bytes: bytes.into(), trains, at: 0, batches }
    }

    /// Multi-Grid packets of 16 triggers with a wire and a grid each, and a pulse, 16 a train.
    fn multigrid(batches: usize) -> Memory {
        let mut bytes = Vec::new();
        let mut trains = Vec::new();
        for count in 0..4096u32 {
            if (count as usize).is_multiple_of(TRAIN) {
                let (start, len) = (bytes.len(), TRAIN * GRID_STRIDE);
                let (origin, edge) = (Origin::NONE, Edge::Datagram);
                trains.push(TrainMeta {
                    start,
                    len,
                    stride: GRID_STRIDE,
                    origin,
                    time_ns: 0,
                    edge,
                });
            }
            bytes.extend([0x60, 0, 0]);
            for i in 0..TRIGGERS {
                let n = count * TRIGGERS + i;
                bytes.extend([0x58, 0, 9, 0]);
                let external = u32::from(i == 0) << 24;
                let wire = 0x1000_1100 | (n % 80) << 12;
                let (grid, end) = (0x1005_0100 | (n % 40) << 12, 0xc000_0000 | n);
                for word in [0xbb00_0000 | n & 0xff_ffff, 0x4000_0005 | external, 0x2000_0001] {
                    bytes.extend(word.to_le_bytes());
                }
                for word in [wire, grid, 0, end, 0x8765_4321, 0xee01_0000] {
                    bytes.extend(word.to_le_bytes());
                }
            }
        }
        Memory { bytes: bytes.into(), trains, at: 0, batches }
    }
}

/// Triggers of a Multi-Grid packet, 10 words each.
const TRIGGERS: u32 = 16;
const GRID_STRIDE: usize = 3 + 40 * TRIGGERS as usize;

impl Source for Memory {
    fn recv(&mut self, batch: &mut Batch, _: Duration) -> Result<Received, SourceError> {
        batch.share(&self.bytes);
        if self.batches == 0 {
            return Ok(Received::End);
        }
        self.batches -= 1;
        for _ in 0..8 {
            batch.push(self.trains[self.at]);
            self.at = (self.at + 1) % self.trains.len();
        }
        Ok(Received::Data)
    }
    fn batch(&self) -> Batch {
        Batch::with_slots(16, 0)
    }
    fn lossless(&self) -> bool {
        true
    }
    fn sheet(&self) -> Arc<Sheet> {
        Sheet::new(vec![])
    }
    fn describe(&self) -> Vec<String> {
        vec![]
    }
}

/// Allocations of a whole run of `batches` batches.
fn allocations(kind: &str, threads: u32, batches: usize, captured: bool) -> usize {
    let source = match kind {
        "sonde" => Memory::new(batches),
        _ => Memory::multigrid(batches),
    };
    let folder = tempfile::tempdir().expect("a folder");
    let mut source: Box<dyn Source> = Box::new(source);
    let mut writing = None;
    if captured {
        let options = CaptureOptions::new(folder.path().join("c.pcapng"));
        let options = CaptureOptions { buffer: BUFFER_MIN, ..options };
        let mut capture = Capture::open(&options, 1).expect("a file");
        source = Box::new(capture.tap(source, "memory").expect("memory has no times"));
        writing = Some(capture.start(|e| panic!("{e}")).expect("a thread"));
    }
    let mut whole = source;
    let source = &mut *whole;
    let ledger = Ledger::default();
    let detector = builtin().configure(kind, &Setup::default()).expect("defaults");
    let before = ALLOCATOR.stats();
    let (mut ways, drains) =
        Fanout::start(vec![Box::new(NullSink::new())], (1, 4), &ledger, |_| {}).expect("a thread");
    let fanout = ways.remove(0);
    let decoder = detector.decoder(Want::default(), &Threads::of(1)).expect("one thread");
    let counted = decoder.sheets().swap_remove(0);
    let mut work = Processing::new(decoder, fanout, true, true);
    let (limits, stop, progress) = (RunLimits::default(), Stop::default(), Progress::default());
    let (a, b) = (Sheet::new(RingCount::catalogue()), Sheet::new(RingCount::catalogue()));
    match threads {
        1 => run_one_thread(source, &mut work, &limits, &stop, &progress),
        _ => {
            let sheets = (&*a, &*b);
            run_two_threads(source, &mut work, &limits, &stop, &progress, sheets, || {})
        }
    }
    .expect("memory does not fail");
    drop(drains.finish(vec![work.fanout]));
    let after = ALLOCATOR.stats();
    let line = |name: &str| {
        let at = counted.lines().iter().position(|l| l.name == name);
        counted.get(at.expect("published name"))
    };
    if kind == "sonde" {
        assert_eq!(line("events.count"), (batches * 8 * TRAIN * ENTRIES) as u64);
        assert_eq!(line("readouts.seq_errors"), 0, "the input is one long run");
    } else {
        assert_eq!(
            line("hits.count"),
            (batches * 8 * TRAIN) as u64 * (2 * u64::from(TRIGGERS) + 1)
        );
    }
    if let Some(writing) = writing {
        // The tap goes with the source, and the writer with it.
        drop(whole);
        let report = writing.finish().expect("written");
        assert_eq!(report.packets, (batches * 8 * TRAIN) as u64);
    }
    let made = |s: stats_alloc::Stats| s.allocations + s.reallocations;
    made(after) - made(before)
}

/// Start-up, and the pool's 7 products growing to their size once each (4 columns, some 20 doublings).
/// How many of the pool are ever used depends on how far the sink lags.
const ONCE: usize = 600;

#[test]
fn allocations_do_not_depend_on_the_number_of_packets() {
    let detectors = [("sonde", 1), ("sonde", 2), ("multigrid", 1), ("multigrid", 2)];
    let captures = [("sonde", 1, true), ("sonde", 2, true)];
    let all = detectors.map(|(kind, threads)| (kind, threads, false)).into_iter().chain(captures);
    for (kind, threads, captured) in all {
        let short = allocations(kind, threads, 400, captured);
        // 512,000 packets in 4,000 batches: one allocation a batch would already show.
        let long = allocations(kind, threads, 4000, captured);
        assert!(short <= ONCE && long <= ONCE, "{kind}, {threads} threads: {short}, then {long}");
    }
}
