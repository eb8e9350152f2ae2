//! What a decoder gives at a time of its own is with the outputs then. Times are driven by hand; none of these tests sleeps.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use fullcount_core::batch::{Batch, Edge, Origin};
use fullcount_core::detector::Decoder;
use fullcount_core::ledger::{Ledger, Sheet};
use fullcount_core::products::{Products, Want};
use fullcount_core::progress::{BatchNumber, Flush};
use fullcount_core::records::RecordPart;
use fullcount_core::sink::{Report, Sink, SinkError};
use fullcount_core::time::Nanos;
use fullcount_io::source::{Received, Source, SourceError};

use super::processing::{Here, Processing};
use super::receive::{Next, RECEIVE_WAIT};
use super::{Progress, RunLimits, run_one_thread};
use crate::fanout::{Drains, Fanout};
use crate::stop::Stop;

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Each batch begins a wait, at whose end a record leaves.
#[derive(Default)]
struct Alarm {
    wait: Duration,
    at: Option<Nanos>,
    /// Tells a time that has passed, and gives nothing then.
    broken: bool,
    number: u64,
    /// Calls without a batch; the clock of the last batch, ns.
    calls: Arc<AtomicU64>,
    clock: Arc<AtomicU64>,
}

impl Decoder for Alarm {
    fn decode(&mut self, batch: Option<&Batch>, now: Option<Nanos>, products: &mut Products) {
        let now = now.expect("live");
        if self.at.is_some_and(|at| at <= now) && !self.broken {
            self.at = None;
            products.records.begin(self.number);
            products.records.part(RecordPart { source: 0, flags: 0 });
            products.records.end(0, 0);
            self.number += 1;
        }
        if batch.is_some() {
            self.at = Some(Nanos(now.0 + self.wait.as_nanos() as i64));
            self.clock.store(now.0 as u64, SeqCst);
        } else {
            self.calls.fetch_add(1, SeqCst);
        }
    }
    fn flush(&mut self, _: Flush, _: &mut Products) {
        self.at = None;
    }
    fn due(&self) -> Option<Nanos> {
        self.at
    }
    fn sheets(&self) -> Vec<Arc<Sheet>> {
        vec![]
    }
}

/// Numbers of records; takes none while it is `held`.
#[derive(Clone, Default)]
struct Taker {
    numbers: Arc<Mutex<Vec<u64>>>,
    held: Arc<AtomicBool>,
    /// It has a batch, and is held.
    holds: Arc<AtomicBool>,
}

impl Sink for Taker {
    fn name(&self) -> &'static str {
        "taker"
    }
    fn required(&self) -> bool {
        true
    }
    fn want(&self) -> Want {
        Want { records: true, ..Want::default() }
    }
    fn push(&mut self, products: &Arc<Products>) -> Result<(), SinkError> {
        while self.held.load(SeqCst) {
            self.holds.store(true, SeqCst);
            thread::yield_now();
        }
        self.numbers.lock().unwrap().extend(&products.records.number);
        Ok(())
    }
    fn safe(&self, _: u32) -> u64 {
        u64::MAX
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

/// A decoder with an output, and batches by hand.
struct Bench {
    work: Processing,
    drains: Drains,
    taker: Taker,
    calls: Arc<AtomicU64>,
    batch: u64,
    made: Instant,
}

impl Bench {
    fn new(alarm: Alarm, places: usize) -> Bench {
        let (taker, calls) = (Taker::default(), alarm.calls.clone());
        let sinks: Vec<Box<dyn Sink>> = vec![Box::new(taker.clone())];
        let ledger = Ledger::default();
        let (mut ways, drains) = Fanout::start(sinks, (1, places), &ledger, |_| {}).unwrap();
        let work = Processing::new(Box::new(alarm), ways.remove(0), false, false);
        Bench { work, drains, taker, calls, batch: 0, made: Instant::now() }
    }

    fn decode(&mut self) {
        self.batch += 1;
        let mut batch = Batch::with_slots(0, 0);
        batch.set_number(BatchNumber { pipeline: 0, batch: self.batch });
        batch.append(&[0], Origin::NONE, 0, Edge::Datagram);
        self.work.decode(&batch).unwrap();
    }

    fn calls(&self) -> u64 {
        self.calls.load(SeqCst)
    }

    /// A batch in which no usual hand-over is: the host may have put this thread aside for 20 ms, and then the next one begins the wait.
    fn decode_alone(&mut self) {
        loop {
            let calls = self.calls();
            self.decode();
            if self.calls() == calls {
                return;
            }
        }
    }

    /// Numbers of the records that were handed over.
    fn handed(self) -> Vec<u64> {
        self.drains.finish(vec![self.work.fanout]);
        self.taker.numbers.lock().unwrap().clone()
    }
}

#[test]
fn what_is_due_is_handed_over_at_its_time_and_not_before() {
    for (early, handed) in [(Duration::from_nanos(1), vec![]), (Duration::ZERO, vec![0])] {
        let mut bench = Bench::new(Alarm { wait: HOUR, ..Alarm::default() }, 64);
        bench.decode_alone();
        let (before, now) = (bench.calls(), Instant::now());
        let due = now + bench.work.rest(now, 2 * HOUR);
        assert!(due <= now + HOUR);
        let rest = |before, most| bench.work.rest(due - before, most);
        assert_eq!([rest(5 * MS, RECEIVE_WAIT), rest(HOUR, RECEIVE_WAIT)], [5 * MS, RECEIVE_WAIT]);
        assert_eq!([rest(5 * MS, MS), rest(MS, 5 * MS)], [MS; 2]);
        // The last hand-over of the usual ones.
        bench.work.idle(due - 3 * MS).unwrap();
        assert_eq!(bench.calls(), before + 1);
        bench.work.idle(due - early).unwrap();
        assert_eq!(bench.calls(), before + if early.is_zero() { 2 } else { 1 });
        let rest = bench.work.rest(due, RECEIVE_WAIT);
        assert_eq!(rest, if early.is_zero() { RECEIVE_WAIT } else { Duration::ZERO });
        assert_eq!(bench.handed(), handed);
    }
}

#[test]
fn while_batches_come_what_was_due_does_not_wait_for_company() {
    let mut bench = Bench::new(Alarm::default(), 64);
    bench.decode_alone();
    assert!(bench.work.waits_for_time());
    // The second batch finds the first one's wait over. What left is handed over at once, or 0.1 ms after the hand-over before; later only if that
    // one took long, as the host had put this thread aside.
    bench.decode_alone();
    let now = Instant::now();
    let rest = bench.work.rest(now, RECEIVE_WAIT);
    assert!(rest <= (MS / 10).max(50 * bench.made.elapsed()), "{rest:?}");
    bench.work.idle(now + rest).unwrap();
    assert_eq!(bench.handed().first(), Some(&0));
}

#[test]
fn a_batch_is_not_older_for_the_decoder_than_it_is() {
    let clock = Arc::new(AtomicU64::new(0));
    let mut bench = Bench::new(Alarm { clock: clock.clone(), ..Alarm::default() }, 64);
    let made = Instant::now();
    for _ in 0..100 {
        let received = made.elapsed();
        bench.decode();
        let seen = Duration::from_nanos(clock.load(SeqCst));
        assert!(seen >= received, "{seen:?} {received:?}");
    }
}

#[test]
fn a_decoder_that_does_not_keep_its_time_does_not_make_the_thread_turn_in_circles() {
    let mut bench = Bench::new(Alarm { broken: true, ..Alarm::default() }, 64);
    bench.decode_alone();
    let (calls, now) = (bench.calls(), Instant::now());
    assert_eq!(bench.work.rest(now, RECEIVE_WAIT), Duration::ZERO);
    for us in 0..20_000 {
        bench.work.idle(now + Duration::from_micros(us)).unwrap();
        assert_eq!(bench.work.rest(now, RECEIVE_WAIT), RECEIVE_WAIT);
    }
    assert_eq!(bench.calls(), calls + 1, "one call within 20 ms");
    bench.work.idle(now + RECEIVE_WAIT).unwrap();
    assert_eq!(bench.calls(), calls + 2);
    assert_eq!(bench.work.rest(now, RECEIVE_WAIT), RECEIVE_WAIT);
}

#[test]
fn an_output_that_is_behind_gets_more_at_a_time() {
    let mut bench = Bench::new(Alarm { wait: HOUR, ..Alarm::default() }, 4);
    bench.taker.held.store(true, SeqCst);
    let mut now = Instant::now() + 2 * HOUR;
    // The output has the first one, and three wait in its four places.
    for given in 0..4 {
        assert!(bench.work.fanout.has_room(), "{given}");
        bench.decode();
        now += HOUR;
        bench.work.hand_over(now).unwrap();
        let end = Instant::now() + 60 * 1000 * MS;
        while !bench.taker.holds.load(SeqCst) {
            assert!(Instant::now() < end, "nobody takes the first one");
            thread::yield_now();
        }
    }
    bench.decode();
    let calls = bench.calls();
    assert_eq!(bench.work.rest(now + 5 * MS, RECEIVE_WAIT), 15 * MS, "overdue, and it waits");
    bench.work.idle(now + 5 * MS).unwrap();
    let mut here = Here { batch: Batch::with_slots(0, 0), work: &mut bench.work };
    here.idle(now + 6 * MS).unwrap();
    assert_eq!(bench.calls(), calls);
    bench.work.idle(now + RECEIVE_WAIT).unwrap();
    assert_eq!(bench.calls(), calls + 1);
    bench.taker.held.store(false, SeqCst);
    assert_eq!(bench.handed(), [0, 1, 2, 3, 4]);
}

/// One datagram, then nothing; says how long it was waited for.
#[derive(Default)]
struct Silent {
    calls: usize,
    waits: Vec<Duration>,
}

impl Source for Silent {
    fn recv(&mut self, batch: &mut Batch, wait: Duration) -> Result<Received, SourceError> {
        batch.clear();
        self.waits.push(wait);
        self.calls += 1;
        match self.calls {
            1 => {
                batch.append(&[0], Origin::NONE, 0, Edge::Datagram);
                Ok(Received::Data)
            }
            2 | 3 => Ok(Received::Idle),
            _ => Ok(Received::End),
        }
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
fn a_source_is_waited_for_until_something_is_due() {
    for (wait, most) in [(HOUR, RECEIVE_WAIT), (30 * MS, 15 * MS), (5 * MS, 5 * MS)] {
        let mut bench = Bench::new(Alarm { wait, ..Alarm::default() }, 64);
        let mut source = Silent::default();
        let (limits, stop, progress) = (RunLimits::default(), Stop::default(), Progress::default());
        run_one_thread(&mut source, &mut bench.work, &limits, &stop, &progress).unwrap();
        assert_eq!(source.waits[0], RECEIVE_WAIT, "nothing waits");
        assert!(source.waits[1] <= most, "{:?}", source.waits);
        assert!(wait != HOUR || source.waits == [RECEIVE_WAIT; 4], "{:?}", source.waits);
    }
}
