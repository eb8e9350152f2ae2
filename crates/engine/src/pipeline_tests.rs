//! One thread and two give the same events; limits end a run; a broken source keeps what came before.

use super::processing::HAND_OVER_EVENTS;
use super::receive::Draining;
use super::*;
use crate::fanout::Fanout;
use crate::progress::BatchProgress;
use fullcount_core::batch::{Batch, Edge, Origin};
use fullcount_core::detector::Decoder;
use fullcount_core::ledger::Ledger;
use fullcount_core::products::Products;
use fullcount_core::progress::{BatchNumber, Flush, SafeBatches};
use fullcount_core::sink::{Report, Sink, SinkError};
use fullcount_core::time::{Nanos, PulseTime};
use fullcount_io::source::Received;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Gives `left` datagrams of 4 bytes holding 0, 1, 2, …; then ends, idles or fails.
struct Counting {
    next: u32,
    left: u32,
    then: Then,
    lossless: bool,
}

#[derive(Clone, Copy)]
enum Then {
    End,
    Idle,
    Fail,
}

impl Source for Counting {
    fn recv(&mut self, batch: &mut Batch, _: Duration) -> Result<Received, SourceError> {
        batch.clear();
        if self.left == 0 {
            let (endpoint, what) = ("test:".to_owned(), "reading".to_owned());
            let cause = "told to fail".to_owned();
            return match self.then {
                Then::End => Ok(Received::End),
                Then::Fail => Err(SourceError { endpoint, what, cause }),
                // At once, without waiting: the limits are the pipeline's business.
                Then::Idle => Ok(Received::Idle),
            };
        }
        for _ in 0..self.left.min(7) {
            batch.append(&self.next.to_le_bytes(), Origin::NONE, 0, Edge::Datagram);
            self.next += 1;
            self.left -= 1;
        }
        Ok(Received::Data)
    }
    fn batch(&self) -> Batch {
        Batch::with_slots(0, 0)
    }
    fn lossless(&self) -> bool {
        self.lossless
    }
    fn sheet(&self) -> Arc<Sheet> {
        Sheet::new(vec![])
    }
    fn describe(&self) -> Vec<String> {
        vec![]
    }
}

/// One event per datagram, pixel = its number + 1.
struct Numbers {
    seen: u64,
    end_at: u64,
    /// Events of each datagram.
    events: usize,
}

impl Numbers {
    /// Never ends by itself.
    fn all() -> Numbers {
        Numbers { seen: 0, end_at: u64::MAX, events: 1 }
    }
}

impl Decoder for Numbers {
    fn decode(&mut self, batch: Option<&Batch>, _: Option<Nanos>, products: &mut Products) {
        for chunk in batch.iter().flat_map(|batch| batch.trains()).flat_map(|t| t.chunks()) {
            products.events.open_pulse(PulseTime(0));
            let n = u32::from_le_bytes(chunk.try_into().unwrap());
            (0..self.events).for_each(|_| products.events.push(n, n + 1));
            self.seen += 1;
        }
    }
    fn flush(&mut self, reason: Flush, products: &mut Products) {
        // Something that was pending is still handed over.
        if reason == Flush::End {
            products.events.open_pulse(PulseTime(0));
            products.events.push(0, u32::MAX >> 1);
        }
    }
    fn sheets(&self) -> Vec<Arc<Sheet>> {
        vec![Sheet::new(vec![])]
    }
    fn ended_streams(&self) -> usize {
        usize::from(self.seen >= self.end_at)
    }
}

#[derive(Clone, Default)]
struct Collect(Arc<Mutex<Vec<u32>>>, SafeBatches);

impl Sink for Collect {
    fn name(&self) -> &'static str {
        "collect"
    }
    fn required(&self) -> bool {
        true
    }
    fn push(&mut self, products: &Arc<Products>) -> Result<(), SinkError> {
        self.0.lock().unwrap().extend(&products.events.pixel);
        self.1.took(products.complete, 0);
        self.1.reached(0);
        Ok(())
    }
    fn safe(&self, pipeline: u32) -> u64 {
        self.1.upto(pipeline)
    }
    fn tick(&mut self, _: Duration) -> Result<(), SinkError> {
        Ok(())
    }
    fn finish(&mut self) -> Result<Report, SinkError> {
        Ok(Report::default())
    }
    fn sheet(&self) -> Arc<Sheet> {
        Sheet::new(vec![])
    }
}

struct Outcome {
    pixels: Vec<u32>,
    result: Result<(), PipelineError>,
    entries: fullcount_core::ledger::Entries,
}

fn run(threads: u32, mut source: Counting, limits: RunLimits, end_at: u64) -> Outcome {
    let (ledger, collect) = (Ledger::default(), Collect::default());
    let sinks: Vec<Box<dyn Sink>> = vec![Box::new(collect.clone())];
    let (mut ways, drains) = Fanout::start(sinks, (1, 64), &ledger, |_| {}).unwrap();
    let fanout = ways.remove(0);
    let (a, b) = (Sheet::new(RingCount::catalogue()), Sheet::new(RingCount::catalogue()));
    ledger.register(a.clone());
    ledger.register(b.clone());
    let decoder = Box::new(Numbers { end_at, ..Numbers::all() });
    let mut work = Processing::new(decoder, fanout, source.lossless, false);
    let (stop, progress) = (Stop::default(), Progress::default());
    let result = match threads {
        1 => run_one_thread(&mut source, &mut work, &limits, &stop, &progress),
        _ => {
            let sheets = (&*a, &*b);
            run_two_threads(&mut source, &mut work, &limits, &stop, &progress, sheets, || {})
        }
    };
    assert!(progress.done());
    drains.finish(vec![work.fanout]);
    let pixels = collect.0.lock().unwrap().clone();
    Outcome { pixels, result, entries: ledger.read() }
}

fn source(left: u32, then: Then) -> Counting {
    Counting { next: 0, left, then, lossless: true }
}

#[test]
fn one_thread_and_two_give_the_same_events_and_balance() {
    let mut expected: Vec<u32> = (1..=10_000).collect();
    expected.push(u32::MAX >> 1);
    for threads in [1, 2] {
        let got = run(threads, source(10_000, Then::End), RunLimits::default(), u64::MAX);
        assert!(got.result.is_ok());
        assert_eq!(got.pixels, expected, "{threads} threads");
        assert_eq!((got.entries.balance(), got.entries.anything_lost()), (0, false));
    }
}

#[test]
fn a_source_that_fails_keeps_what_came_before() {
    for threads in [1, 2] {
        let got = run(threads, source(100, Then::Fail), RunLimits::default(), u64::MAX);
        assert!(got.result.unwrap_err().to_string().contains("told to fail"));
        assert_eq!(got.pixels.len(), 101, "{threads} threads");
    }
}

#[test]
fn the_streams_own_end_mark_ends_the_run() {
    for threads in [1, 2] {
        let got = run(threads, source(100, Then::Idle), RunLimits::default(), 100);
        assert!(got.result.is_ok());
        assert_eq!(got.pixels.len(), 101, "{threads} threads");
    }
}

#[test]
fn packets_and_idle_limits_end_the_run() {
    for threads in [1, 2] {
        let limits = RunLimits { packets: Some(20), ..RunLimits::default() };
        let got = run(threads, source(1_000_000, Then::Idle), limits, u64::MAX);
        // Whole batches are taken: at least 20, at most one batch of 7 more; plus the pending one.
        assert!((21..=28).contains(&got.pixels.len()), "{}", got.pixels.len());
        let limits = RunLimits { idle: Some(Duration::from_millis(30)), ..RunLimits::default() };
        let got = run(threads, source(50, Then::Idle), limits, u64::MAX);
        assert_eq!(got.pixels.len(), 51, "{threads} threads");
    }
}

/// Gives ten datagrams, has all that waits decided, gives ten more once that is safe, and ends.
struct Asking {
    inner: Counting,
    progress: Arc<BatchProgress>,
    asked: Option<u64>,
    end: Option<Instant>,
}

impl Source for Asking {
    fn recv(&mut self, batch: &mut Batch, wait: Duration) -> Result<Received, SourceError> {
        if self.inner.left == 0 && self.inner.next == 10 {
            batch.clear();
            let Some(asked) = self.asked else {
                self.asked = Some(batch.number().batch);
                return Ok(Received::Flush(Flush::Taken));
            };
            if self.progress.safe() < asked {
                let end = *self.end.get_or_insert_with(|| Instant::now() + Duration::from_secs(60));
                assert!(Instant::now() < end, "not safe within a minute");
                std::thread::yield_now();
                return Ok(Received::Idle);
            }
            self.inner.left = 10;
        }
        self.inner.recv(batch, wait)
    }
    fn batch(&self) -> Batch {
        self.inner.batch()
    }
    fn lossless(&self) -> bool {
        true
    }
    fn replay(&self) -> bool {
        true
    }
    fn sheet(&self) -> Arc<Sheet> {
        self.inner.sheet()
    }
    fn describe(&self) -> Vec<String> {
        vec![]
    }
}

/// Keeps the last event until the next one comes, as if each waited for another.
struct Last {
    numbers: Numbers,
    kept: Option<(u32, BatchNumber)>,
}

impl Decoder for Last {
    fn decode(&mut self, batch: Option<&Batch>, now: Option<Nanos>, products: &mut Products) {
        self.numbers.decode(batch, now, products);
        if let Some(last) = products.events.pixel.pop() {
            products.events.offset_ns.pop();
            if let Some((kept, _)) = self.kept.replace((last, products.batch)) {
                products.events.push(0, kept);
            }
        }
    }
    fn sheets(&self) -> Vec<Arc<Sheet>> {
        self.numbers.sheets()
    }
    fn flush(&mut self, reason: Flush, products: &mut Products) {
        self.numbers.flush(reason, products);
        if let Some((kept, _)) = self.kept.take() {
            products.events.open_pulse(PulseTime(0));
            products.events.push(0, kept);
        }
    }
    fn oldest(&mut self) -> Option<BatchNumber> {
        self.kept.map(|(_, batch)| batch)
    }
}

/// A pipeline whose batches are given by hand.
struct ByHand {
    work: Processing,
    drains: crate::fanout::Drains,
    collect: Collect,
    progress: Arc<BatchProgress>,
    now: Instant,
}

impl ByHand {
    fn new(decoder: Box<dyn Decoder>) -> ByHand {
        let collect = Collect::default();
        let sinks: Vec<Box<dyn Sink>> = vec![Box::new(collect.clone())];
        let (mut ways, drains) = Fanout::start(sinks, (1, 64), &Ledger::default(), |_| {}).unwrap();
        let work = Processing::new(decoder, ways.remove(0), true, true);
        let progress = work.fanout.progress().clone();
        ByHand { work, drains, collect, progress, now: Instant::now() }
    }

    /// The batch of this number, with one datagram, or with none and a reason.
    fn next(&mut self, batch: u64, pixel: u32, reason: Option<Flush>) {
        let mut next = Batch::with_slots(0, 0);
        next.set_number(BatchNumber { pipeline: 0, batch });
        match reason {
            Some(reason) => next.set_flush(reason),
            None => next.append(&pixel.to_le_bytes(), Origin::NONE, 0, Edge::Datagram),
        }
        self.work.decode(&next).unwrap();
    }

    /// A second later: which batch is complete, and safe as well.
    fn later(&mut self) -> u64 {
        self.now += Duration::from_secs(1);
        self.work.hand_over(self.now).unwrap();
        let complete = self.progress.complete();
        let end = Instant::now() + Duration::from_secs(60);
        while self.progress.safe() < complete {
            assert!(Instant::now() < end, "not safe within a minute");
            thread::yield_now();
        }
        assert_eq!(self.progress.safe(), complete);
        complete
    }
}

#[test]
fn a_batch_is_complete_once_nothing_of_it_waits_and_what_is_stalled_is_decided() {
    let mut by_hand = ByHand::new(Box::new(Last { numbers: Numbers::all(), kept: None }));
    by_hand.next(1, 0, None);
    assert_eq!([by_hand.later(), by_hand.later()], [0, 0], "0 waits");
    by_hand.next(2, 1, None);
    assert_eq!([by_hand.later(), by_hand.later()], [1, 1], "1 waits");
    by_hand.next(3, 0, Some(Flush::Stalled));
    assert_eq!((by_hand.later(), by_hand.progress.cut()), (3, 1));
    by_hand.next(4, 2, None);
    assert_eq!(by_hand.later(), 3);
    by_hand.work.finish(false).unwrap();
    assert_eq!(by_hand.progress.complete(), 4, "the end decides");
    by_hand.drains.finish(vec![by_hand.work.fanout]);
    assert_eq!(by_hand.progress.safe(), 4);
    let pixels = by_hand.collect.0.lock().unwrap().clone();
    assert_eq!(pixels, [1, 2, u32::MAX >> 1, 3]);
}

#[test]
fn no_number_passes_a_batch_that_was_dropped() {
    let mut by_hand = ByHand::new(Box::new(Numbers::all()));
    by_hand.next(1, 0, None);
    by_hand.next(2, 1, None);
    assert_eq!(by_hand.later(), 2);
    // The ring was full.
    by_hand.next(4, 3, None);
    by_hand.next(5, 4, None);
    assert_eq!((by_hand.later(), by_hand.progress.decoded()), (2, 5));
    by_hand.work.finish(false).unwrap();
    by_hand.drains.finish(vec![by_hand.work.fanout]);
    assert_eq!(by_hand.progress.safe(), 2);
}

/// Keeps one event until it is to decide, as if it waited for another.
struct Waiting(Numbers, u32);

impl Decoder for Waiting {
    fn decode(&mut self, batch: Option<&Batch>, now: Option<Nanos>, products: &mut Products) {
        self.0.decode(batch, now, products);
    }
    fn sheets(&self) -> Vec<Arc<Sheet>> {
        self.0.sheets()
    }
    fn flush(&mut self, reason: Flush, products: &mut Products) {
        self.0.flush(reason, products);
        products.events.open_pulse(PulseTime(0));
        products.events.push(0, self.1);
        self.1 += 1;
    }
}

#[test]
fn what_waits_is_decided_when_a_part_of_the_stream_goes_and_the_source_hears_when_that_is_safe() {
    for threads in [1, 2] {
        let (ledger, collect) = (Ledger::default(), Collect::default());
        let sinks: Vec<Box<dyn Sink>> = vec![Box::new(collect.clone())];
        let (mut ways, drains) = Fanout::start(sinks, (1, 64), &ledger, |_| {}).unwrap();
        let fanout = ways.remove(0);
        let progress = fanout.progress().clone();
        let decoder = Box::new(Waiting(Numbers::all(), 1_000));
        let mut work = Processing::new(decoder, fanout, true, true);
        let inner = source(10, Then::End);
        let mut source = Asking { inner, progress: progress.clone(), asked: None, end: None };
        let (limits, stop, of_run) = (RunLimits::default(), Stop::default(), Progress::default());
        let sheets = [Sheet::new(RingCount::catalogue()), Sheet::new(RingCount::catalogue())];
        match threads {
            1 => run_one_thread(&mut source, &mut work, &limits, &stop, &of_run),
            _ => {
                let sheets = (&*sheets[0], &*sheets[1]);
                run_two_threads(&mut source, &mut work, &limits, &stop, &of_run, sheets, || {})
            }
        }
        .unwrap();
        assert_eq!(sheets[1].get(RingCount::Synch as usize), 0, "a flush is no empty entry");
        drains.finish(vec![work.fanout]);
        let mut expected: Vec<u32> = (1..=10).collect();
        expected.push(1_000);
        expected.extend(11..=20);
        expected.extend([u32::MAX >> 1, 1_001]);
        assert_eq!(*collect.0.lock().unwrap(), expected, "{threads} threads");
        // Batches of seven, and the one that asks.
        assert_eq!((progress.cut(), progress.safe()), (1, 5));
    }
}

#[test]
fn what_a_socket_held_is_read_however_slowly_and_a_flood_ends_soon() {
    let begun = Instant::now();
    let after = |ms| begun + Duration::from_millis(ms);
    let mut slow = Draining::since(begun);
    slow.read(&Batch::from_datagrams([(&[0u8; 100][..], Origin::default())]));
    assert!(!slow.is_over(after(4_999)) && slow.is_over(after(5_000)));
    for (packets, bytes) in [(174_762, 0), (0, 128 << 20)] {
        let flood = Draining { packets, bytes, ..Draining::since(begun) };
        assert!(!flood.is_over(after(199)) && flood.is_over(after(200)));
    }
}

/// Takes nothing until the run is over, as an output does whose spool is full.
struct Full(Stop);

impl Sink for Full {
    fn name(&self) -> &'static str {
        "full"
    }
    fn required(&self) -> bool {
        true
    }
    fn push(&mut self, _: &Arc<Products>) -> Result<(), SinkError> {
        while !self.0.is_over() {
            self.0.output_is_stuck();
            thread::yield_now();
        }
        Ok(())
    }
    fn safe(&self, _: u32) -> u64 {
        0
    }
    fn tick(&mut self, _: Duration) -> Result<(), SinkError> {
        Ok(())
    }
    fn finish(&mut self) -> Result<Report, SinkError> {
        assert!(self.0.is_over(), "its time at the end has begun");
        Ok(Report::default())
    }
    fn sheet(&self) -> Arc<Sheet> {
        Sheet::new(vec![])
    }
}

/// One datagram after the other.
struct Steady(u32);

impl Source for Steady {
    fn recv(&mut self, batch: &mut Batch, _: Duration) -> Result<Received, SourceError> {
        batch.clear();
        batch.append(&self.0.to_le_bytes(), Origin::NONE, 0, Edge::Datagram);
        self.0 += 1;
        Ok(Received::Data)
    }
    fn batch(&self) -> Batch {
        Batch::with_slots(0, 0)
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

#[test]
fn every_limit_ends_a_run_whose_output_takes_nothing() {
    let short = Duration::from_millis(300);
    let limits = [
        RunLimits { duration: Some(short), ..RunLimits::default() },
        RunLimits { packets: Some(40), ..RunLimits::default() },
        // These cannot come.
        RunLimits { packets: Some(1000), ..RunLimits::default() },
        RunLimits { idle: Some(short), ..RunLimits::default() },
    ];
    for (limits, threads) in limits.into_iter().flat_map(|l| [(l.clone(), 1), (l, 2)]) {
        let (stop, progress) = (Stop::default(), Arc::new(Progress::default()));
        // With one place in the queue the third batch waits; the 40 packets are through before.
        let place = if limits.packets == Some(40) { 64 } else { 1 };
        if limits.packets == Some(1000) {
            stop.heed_stuck_outputs();
        }
        let sinks: Vec<Box<dyn Sink>> = vec![Box::new(Full(stop.clone()))];
        let (mut ways, drains) =
            Fanout::start(sinks, (1, place), &Ledger::default(), |_| {}).unwrap();
        // So many that each datagram is handed over at once.
        let decoder = Box::new(Numbers { events: HAND_OVER_EVENTS, ..Numbers::all() });
        let mut work = Processing::new(decoder, ways.remove(0), true, true);
        let (tell, ended) = std::sync::mpsc::channel();
        let (own, seen, told) = (limits.clone(), progress.clone(), stop.clone());
        thread::spawn(move || {
            let sheets = [Sheet::new(RingCount::catalogue()), Sheet::new(RingCount::catalogue())];
            let outcome = match threads {
                1 => run_one_thread(&mut Steady(0), &mut work, &own, &told, &seen),
                _ => {
                    let sheets = (&*sheets[0], &*sheets[1]);
                    run_two_threads(&mut Steady(0), &mut work, &own, &told, &seen, sheets, || {})
                }
            };
            drains.finish(vec![work.fanout]);
            tell.send(outcome)
        });
        let outcome = loop {
            progress.look(&limits, true, &stop, Instant::now());
            match ended.recv_timeout(Duration::from_millis(20)) {
                Ok(outcome) => break outcome,
                Err(_) => assert!(progress.start.elapsed().as_secs() < 60, "{limits:?}: hangs"),
            }
        };
        let stuck = matches!(outcome, Err(PipelineError::Stuck(time)) if time == short);
        let short = matches!(outcome, Err(PipelineError::Short(1000)));
        assert!(stuck == limits.idle.is_some(), "{limits:?}");
        assert!(short == (limits.packets == Some(1000)), "{limits:?}");
        assert!(outcome.is_err() == (stuck || short), "{limits:?}");
    }
}

/// Has wrong times from the third datagram on.
struct Doubting(Numbers);

impl Decoder for Doubting {
    fn decode(&mut self, batch: Option<&Batch>, now: Option<Nanos>, products: &mut Products) {
        self.0.decode(batch, now, products);
    }
    fn flush(&mut self, _: Flush, _: &mut Products) {}
    fn unsettled(&self) -> Option<&str> {
        (self.0.seen > 2).then_some("nothing tells")
    }
    fn sheets(&self) -> Vec<Arc<Sheet>> {
        self.0.sheets()
    }
}

#[test]
fn nothing_is_handed_on_whose_times_may_be_wrong() {
    for threads in [1, 2] {
        let collect = Collect::default();
        let sinks: Vec<Box<dyn Sink>> = vec![Box::new(collect.clone())];
        let (mut ways, drains) = Fanout::start(sinks, (1, 4), &Ledger::default(), |_| {}).unwrap();
        let decoder = Box::new(Doubting(Numbers::all()));
        let mut work = Processing::new(decoder, ways.remove(0), true, true);
        let (limits, stop, progress) = (RunLimits::default(), Stop::default(), Progress::default());
        let sheets = [Sheet::new(RingCount::catalogue()), Sheet::new(RingCount::catalogue())];
        let outcome = match threads {
            1 => run_one_thread(&mut Steady(0), &mut work, &limits, &stop, &progress),
            _ => {
                let sheets = (&*sheets[0], &*sheets[1]);
                run_two_threads(&mut Steady(0), &mut work, &limits, &stop, &progress, sheets, || {})
            }
        };
        drains.finish(vec![work.fanout]);
        assert_eq!(outcome.unwrap_err().to_string(), "nothing tells", "{threads}");
        let handed = collect.0.lock().unwrap().clone();
        assert!(handed.len() <= 2 && handed.iter().zip(1..).all(|(&a, b)| a == b), "{handed:?}");
    }
}
