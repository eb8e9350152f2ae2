//! One thread and two give the same events; limits end a run; a broken source keeps what came before.

use super::*;
use crate::settle::Settle;
use fullcount_core::batch::{Edge, Origin};
use fullcount_core::ledger::Ledger;
use fullcount_core::products::Products;
use fullcount_core::time::PulseTime;
use fullcount_detect::detector::PassThrough;
use fullcount_out::sink::{Report, Sink, SinkError};
use std::sync::atomic::{AtomicBool, AtomicU64};
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
}

impl Reader for Numbers {
    fn read(&mut self, batch: &Batch, products: &mut Products) {
        for chunk in batch.trains().flat_map(|t| t.chunks()) {
            products.events.open_pulse(PulseTime(0));
            let n = u32::from_le_bytes(chunk.try_into().unwrap());
            products.events.push(n, n + 1);
            self.seen += 1;
        }
    }
    fn finish(&mut self, products: &mut Products) {
        // Something that was pending is still handed over.
        products.events.open_pulse(PulseTime(0));
        products.events.push(0, u32::MAX >> 1);
    }
    fn sheet(&self) -> Arc<Sheet> {
        Sheet::new(vec![])
    }
    fn ended_streams(&self) -> usize {
        usize::from(self.seen >= self.end_at)
    }
}

#[derive(Clone, Default)]
struct Collect(Arc<Mutex<Vec<u32>>>);

impl Sink for Collect {
    fn name(&self) -> &'static str {
        "collect"
    }
    fn required(&self) -> bool {
        true
    }
    fn push(&mut self, products: &Arc<Products>) -> Result<(), SinkError> {
        self.0.lock().unwrap().extend(&products.events.pixel);
        Ok(())
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

fn run(threads: u32, mut source: Counting, limits: Limits, end_at: u64) -> Outcome {
    let (ledger, collect) = (Ledger::default(), Collect::default());
    let sinks: Vec<Box<dyn Sink>> = vec![Box::new(collect.clone())];
    let (mut ways, drains) = Fanout::start(sinks, (1, 64), &ledger, |_| {}).unwrap();
    let fanout = ways.remove(0);
    let (a, b) = (Sheet::new(Ring::catalogue()), Sheet::new(Ring::catalogue()));
    ledger.register(a.clone());
    ledger.register(b.clone());
    let reader = Box::new(Numbers { seen: 0, end_at });
    let mut work = Processing::new(reader, Box::new(PassThrough), fanout, source.lossless, false);
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
        let got = run(threads, source(10_000, Then::End), Limits::default(), u64::MAX);
        assert!(got.result.is_ok());
        assert_eq!(got.pixels, expected, "{threads} threads");
        assert_eq!((got.entries.balance(), got.entries.anything_lost()), (0, false));
    }
}

#[test]
fn a_source_that_fails_keeps_what_came_before() {
    for threads in [1, 2] {
        let got = run(threads, source(100, Then::Fail), Limits::default(), u64::MAX);
        assert!(got.result.unwrap_err().to_string().contains("told to fail"));
        assert_eq!(got.pixels.len(), 101, "{threads} threads");
    }
}

#[test]
fn the_streams_own_end_mark_ends_the_run() {
    for threads in [1, 2] {
        let got = run(threads, source(100, Then::Idle), Limits::default(), 100);
        assert!(got.result.is_ok());
        assert_eq!(got.pixels.len(), 101, "{threads} threads");
    }
}

#[test]
fn packets_and_idle_limits_end_the_run() {
    for threads in [1, 2] {
        let limits = Limits { packets: Some(20), ..Limits::default() };
        let got = run(threads, source(1_000_000, Then::Idle), limits, u64::MAX);
        // Whole batches are taken: at least 20, at most one batch of 7 more; plus the pending one.
        assert!((21..=28).contains(&got.pixels.len()), "{}", got.pixels.len());
        let limits = Limits { idle: Some(Duration::from_millis(30)), ..Limits::default() };
        let got = run(threads, source(50, Then::Idle), limits, u64::MAX);
        assert_eq!(got.pixels.len(), 51, "{threads} threads");
    }
}

/// Gives ten datagrams, asks that all be settled, gives ten more when it is, and ends.
struct Asking {
    inner: Counting,
    settle: Arc<Settle>,
    asked: Option<u64>,
    end: Option<Instant>,
    collect: Collect,
}

impl Source for Asking {
    fn recv(&mut self, batch: &mut Batch, wait: Duration) -> Result<Received, SourceError> {
        if self.inner.left == 0 && self.inner.next == 10 {
            batch.clear();
            let asked = *self.asked.get_or_insert_with(|| self.settle.ask());
            // Handed to the output, which takes it when it comes to it.
            if !self.settle.done(asked) || self.collect.0.lock().unwrap().len() < 11 {
                let end = *self.end.get_or_insert_with(|| Instant::now() + Duration::from_secs(60));
                assert!(Instant::now() < end, "not settled within a minute");
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

/// Looks after itself while nobody takes anything, and lets the output go on after a hundred times.
struct Attending {
    inner: Counting,
    attended: Arc<AtomicU64>,
    open: Arc<AtomicBool>,
}

impl Source for Attending {
    fn recv(&mut self, batch: &mut Batch, wait: Duration) -> Result<Received, SourceError> {
        self.inner.recv(batch, wait)
    }
    fn attend(&mut self) {
        self.open.store(self.attended.fetch_add(1, Relaxed) >= 100, Relaxed);
    }
    fn batch(&self) -> Batch {
        self.inner.batch()
    }
    fn lossless(&self) -> bool {
        true
    }
    fn sheet(&self) -> Arc<Sheet> {
        self.inner.sheet()
    }
    fn describe(&self) -> Vec<String> {
        vec![]
    }
}

/// Takes nothing until it is opened.
struct Closed {
    inner: Collect,
    open: Arc<AtomicBool>,
}

impl Sink for Closed {
    fn name(&self) -> &'static str {
        "closed"
    }
    fn required(&self) -> bool {
        true
    }
    fn push(&mut self, products: &Arc<Products>) -> Result<(), SinkError> {
        let end = Instant::now() + Duration::from_secs(60);
        while !self.open.load(Relaxed) {
            assert!(Instant::now() < end, "nobody attends");
            std::thread::yield_now();
        }
        self.inner.push(products)
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

#[test]
fn a_source_is_attended_while_an_output_has_no_room() {
    for threads in [1, 2] {
        let (ledger, collect) = (Ledger::default(), Collect::default());
        let (attended, open) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let sink = Closed { inner: collect.clone(), open: open.clone() };
        let (mut ways, drains) =
            Fanout::start(vec![Box::new(sink)], (1, 1), &ledger, |_| {}).unwrap();
        let reader = Box::new(Numbers { seen: 0, end_at: u64::MAX });
        let fanout = ways.remove(0);
        let mut work = Processing::new(reader, Box::new(PassThrough), fanout, true, true);
        // More than the outputs' queue and the ring hold: batches of seven, each handed over when 64 Ki events are there.
        let inner = source(400_000, Then::End);
        let mut source = Attending { inner, attended: attended.clone(), open };
        let (limits, stop, progress) = (Limits::default(), Stop::default(), Progress::default());
        let sheets = [Sheet::new(Ring::catalogue()), Sheet::new(Ring::catalogue())];
        match threads {
            1 => run_one_thread(&mut source, &mut work, &limits, &stop, &progress),
            _ => {
                let sheets = (&*sheets[0], &*sheets[1]);
                run_two_threads(&mut source, &mut work, &limits, &stop, &progress, sheets, || {})
            }
        }
        .unwrap();
        drains.finish(vec![work.fanout]);
        let mut expected: Vec<u32> = (1..=400_000).collect();
        expected.push(u32::MAX >> 1);
        assert!(*collect.0.lock().unwrap() == expected, "{threads} threads");
        assert!(attended.load(Relaxed) > 100);
    }
}

/// Keeps the last event until the next one comes, as if each waited for another.
#[derive(Default)]
struct Last {
    kept: Option<u32>,
    marked: bool,
}

impl Builder for Last {
    fn build(&mut self, products: &mut Products, _: Option<Nanos>) {
        if let Some(last) = products.events.pixel.pop() {
            products.events.offset_ns.pop();
            if let Some(kept) = self.kept.replace(last) {
                products.events.push(0, kept);
                self.marked = false;
            }
        }
    }
    fn finish(&mut self, products: &mut Products) {
        self.let_go(products);
    }
    fn mark(&mut self) {
        self.marked = self.kept.is_some();
    }
    fn passed(&mut self) -> bool {
        !self.marked
    }
    fn let_go(&mut self, products: &mut Products) {
        if let Some(kept) = self.kept.take() {
            products.events.open_pulse(PulseTime(0));
            products.events.push(0, kept);
        }
        self.marked = false;
    }
}

#[test]
fn a_mark_passes_once_nothing_waits_that_came_before_it_and_what_waits_for_long_is_let_go() {
    let (ledger, collect) = (Ledger::default(), Collect::default());
    let sinks: Vec<Box<dyn Sink>> = vec![Box::new(collect.clone())];
    let (mut ways, drains) = Fanout::start(sinks, (1, 64), &ledger, |_| {}).unwrap();
    let settle = Arc::new(Settle::default());
    let builder = Box::new(|| Ok(Box::new(Last::default()) as Box<dyn Builder>));
    let settling = Settling { settle: settle.clone(), builder };
    let reader = Box::new(Numbers { seen: 0, end_at: u64::MAX });
    let last = Box::new(Last::default());
    let mut work = Processing::new(reader, last, ways.remove(0), true, true).settling(settling);
    let mut now = Instant::now();
    let mut later = |work: &mut Processing| {
        now += Duration::from_secs(1);
        work.hand_over(now, &mut || ()).unwrap();
    };
    let mut batch = Batch::with_slots(0, 0);
    let mut next = |work: &mut Processing, n: u32| {
        batch.clear();
        batch.append(&n.to_le_bytes(), Origin::NONE, 0, Edge::Datagram);
        work.decode(&batch, &mut || ()).unwrap();
    };
    next(&mut work, 0);
    let first = settle.mark();
    (0..5).for_each(|_| later(&mut work));
    assert!(!settle.passed(first), "0 waits");
    let second = settle.mark();
    next(&mut work, 1);
    later(&mut work);
    assert!(settle.passed(first) && !settle.passed(second), "1 waits");
    // Asked for again and again, as by a source that looks every second.
    later(&mut work);
    for _ in 0..HOLD {
        assert!(!settle.passed(second));
        settle.mark();
        later(&mut work);
    }
    assert!(settle.passed(second));
    assert_eq!(settle.cut(), 1);
    later(&mut work);
    later(&mut work);
    assert!(settle.passed(settle.marks()), "nothing waits");
    drains.finish(vec![work.fanout]);
    assert_eq!(*collect.0.lock().unwrap(), [1, 2]);
}

/// Keeps one event until its end, as if it waited for another.
struct Waiting(u32);

impl Builder for Waiting {
    fn build(&mut self, _: &mut Products, _: Option<Nanos>) {}
    fn finish(&mut self, products: &mut Products) {
        products.events.open_pulse(PulseTime(0));
        products.events.push(0, self.0);
    }
    fn mark(&mut self) {}
    fn passed(&mut self) -> bool {
        false
    }
    fn let_go(&mut self, _: &mut Products) {}
}

#[test]
fn what_waits_is_settled_when_the_source_asks_and_goes_on_with_a_fresh_builder() {
    for threads in [1, 2] {
        let (ledger, collect) = (Ledger::default(), Collect::default());
        let sinks: Vec<Box<dyn Sink>> = vec![Box::new(collect.clone())];
        let (mut ways, drains) = Fanout::start(sinks, (1, 64), &ledger, |_| {}).unwrap();
        let settle = Arc::new(Settle::default());
        let mut made = 1_000;
        let builder = move || {
            made += 1;
            // A thread that the system refuses at first is asked for again.
            if made == 1_001 {
                return Err(std::io::Error::other("no thread"));
            }
            Ok(Box::new(Waiting(made)) as Box<dyn Builder>)
        };
        let reader = Box::new(Numbers { seen: 0, end_at: u64::MAX });
        let settling = Settling { settle: settle.clone(), builder: Box::new(builder) };
        let builder = Box::new(Waiting(1_000));
        let mut work =
            Processing::new(reader, builder, ways.remove(0), true, true).settling(settling);
        let mut source = Asking {
            inner: source(10, Then::End),
            settle: settle.clone(),
            asked: None,
            end: None,
            collect: collect.clone(),
        };
        let (limits, stop, progress) = (Limits::default(), Stop::default(), Progress::default());
        let sheets = [Sheet::new(Ring::catalogue()), Sheet::new(Ring::catalogue())];
        match threads {
            1 => run_one_thread(&mut source, &mut work, &limits, &stop, &progress),
            _ => {
                let sheets = (&*sheets[0], &*sheets[1]);
                run_two_threads(&mut source, &mut work, &limits, &stop, &progress, sheets, || {})
            }
        }
        .unwrap();
        drains.finish(vec![work.fanout]);
        let mut expected: Vec<u32> = (1..=10).collect();
        expected.push(1_000);
        expected.extend(11..=20);
        expected.extend([u32::MAX >> 1, 1_002]);
        assert_eq!(*collect.0.lock().unwrap(), expected, "{threads} threads");
        assert_eq!((settle.cut(), settle.question()), (1, None));
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
            thread::yield_now();
        }
        Ok(())
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

/// One datagram after the other, each long enough behind the last that it is handed over.
struct Steady(u32);

impl Source for Steady {
    fn recv(&mut self, batch: &mut Batch, _: Duration) -> Result<Received, SourceError> {
        thread::sleep(HAND_OVER_EVERY);
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
        Limits { duration: Some(short), ..Limits::default() },
        Limits { packets: Some(40), ..Limits::default() },
        Limits { idle: Some(short), ..Limits::default() },
    ];
    for (limits, threads) in limits.into_iter().flat_map(|l| [(l.clone(), 1), (l, 2)]) {
        let (stop, progress) = (Stop::default(), Arc::new(Progress::default()));
        // With one place in the queue the third batch waits; the 40 packets are through before.
        let place = if limits.packets.is_some() { 64 } else { 1 };
        let sinks: Vec<Box<dyn Sink>> = vec![Box::new(Full(stop.clone()))];
        let (mut ways, drains) =
            Fanout::start(sinks, (1, place), &Ledger::default(), |_| {}).unwrap();
        let reader = Box::new(Numbers { seen: 0, end_at: u64::MAX });
        let mut work = Processing::new(reader, Box::new(PassThrough), ways.remove(0), true, true);
        let (tell, ended) = std::sync::mpsc::channel();
        let (own, seen, told) = (limits.clone(), progress.clone(), stop.clone());
        thread::spawn(move || {
            let sheets = [Sheet::new(Ring::catalogue()), Sheet::new(Ring::catalogue())];
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
        assert!(stuck == limits.idle.is_some() && stuck == outcome.is_err(), "{limits:?}");
    }
}

/// Has wrong times from the third datagram on.
struct Doubting(Numbers);

impl Reader for Doubting {
    fn read(&mut self, batch: &Batch, products: &mut Products) {
        self.0.read(batch, products);
    }
    fn finish(&mut self, _: &mut Products) {}
    fn unsettled(&self) -> Option<&str> {
        (self.0.seen > 2).then_some("nothing tells")
    }
    fn sheet(&self) -> Arc<Sheet> {
        Sheet::new(vec![])
    }
}

#[test]
fn nothing_is_handed_on_whose_times_may_be_wrong() {
    for threads in [1, 2] {
        let collect = Collect::default();
        let sinks: Vec<Box<dyn Sink>> = vec![Box::new(collect.clone())];
        let (mut ways, drains) = Fanout::start(sinks, (1, 4), &Ledger::default(), |_| {}).unwrap();
        let reader = Box::new(Doubting(Numbers { seen: 0, end_at: u64::MAX }));
        let mut work = Processing::new(reader, Box::new(PassThrough), ways.remove(0), true, true);
        let (limits, stop, progress) = (Limits::default(), Stop::default(), Progress::default());
        let sheets = [Sheet::new(Ring::catalogue()), Sheet::new(Ring::catalogue())];
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
