//! Hops 1 to 6 allocate nothing in steady state: however many packets, only start-up allocates.

use std::alloc::System;
use std::sync::Arc;
use std::time::Duration;

use fullcount_core::batch::{Batch, Edge, Origin, TrainMeta};
use fullcount_core::ledger::{Ledger, Sheet};
use fullcount_detect::detector::{Registry, Setup};
use fullcount_engine::fanout::Fanout;
use fullcount_engine::pipeline::{Limits, Processing, Progress, Ring};
use fullcount_engine::pipeline::{run_one_thread, run_two_threads};
use fullcount_engine::stop::Stop;
use fullcount_io::source::{Received, Source, SourceError};
use fullcount_out::null::NullSink;
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
}

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
fn allocations(threads: u32, batches: usize) -> usize {
    let mut source = Memory::new(batches);
    let ledger = Ledger::default();
    let detector = Registry::builtin().configure("sonde", &Setup::default()).expect("defaults");
    let before = ALLOCATOR.stats();
    let (mut ways, drains) =
        Fanout::start(vec![Box::new(NullSink::new())], (1, 4), &ledger, |_| {}).expect("a thread");
    let fanout = ways.remove(0);
    let (reader, builder) = (detector.reader(), detector.builder());
    let counted = reader.sheet();
    let mut work = Processing::new(reader, builder, fanout, true, true);
    let (limits, stop, progress) = (Limits::default(), Stop::default(), Progress::default());
    let (a, b) = (Sheet::new(Ring::catalogue()), Sheet::new(Ring::catalogue()));
    match threads {
        1 => run_one_thread(&mut source, &mut work, &limits, &stop, &progress),
        _ => {
            let sheets = (&*a, &*b);
            run_two_threads(&mut source, &mut work, &limits, &stop, &progress, sheets, || {})
        }
    }
    .expect("memory does not fail");
    drop(drains.finish(vec![work.fanout]));
    let after = ALLOCATOR.stats();
    let line = |name: &str| {
        let at = counted.lines().iter().position(|l| l.name == name);
        counted.get(at.expect("published name"))
    };
    assert_eq!(line("events.count"), (batches * 8 * TRAIN * ENTRIES) as u64);
    assert_eq!(line("readouts.seq_errors"), 0, "the input is one long run");
    let made = |s: stats_alloc::Stats| s.allocations + s.reallocations;
    made(after) - made(before)
}

/// Start-up, and the pool's 7 products growing to their size once each (4 columns, some 20 doublings).
/// How many of the pool are ever used depends on how far the sink lags.
const ONCE: usize = 600;

#[test]
fn allocations_do_not_depend_on_the_number_of_packets() {
    for threads in [1, 2] {
        let short = allocations(threads, 400);
        // 512,000 packets in 4,000 batches: one allocation a batch would already show.
        let long = allocations(threads, 4000);
        assert!(short <= ONCE && long <= ONCE, "{threads} threads: {short}, then {long}");
    }
}
