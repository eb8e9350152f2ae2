//! Sinks that are slow, dead or fine; every event offered ends in one counter.

use super::*;
use fullcount_core::progress::{BatchNumber, SafeBatches};
use fullcount_core::time::PulseTime;
use std::sync::Mutex;
use std::sync::mpsc;

struct TestSink {
    required: bool,
    /// Each push waits for one permit, so that a test decides when the sink moves.
    permits: Option<mpsc::Receiver<()>>,
    fail: bool,
    seen: Arc<Mutex<Vec<u32>>>,
    safe: SafeBatches,
}

impl Sink for TestSink {
    fn name(&self) -> &'static str {
        "test"
    }
    fn required(&self) -> bool {
        self.required
    }
    fn push(&mut self, products: &Arc<Products>) -> Result<(), SinkError> {
        if let Some(permits) = &self.permits {
            let _ = permits.recv();
        }
        if self.fail {
            return Err(SinkError { sink: "test", message: "told to fail".into() });
        }
        self.seen.lock().unwrap().extend(&products.events.pixel);
        self.safe.took(products.complete, 0);
        self.safe.reached(0);
        Ok(())
    }
    fn safe(&self, pipeline: u32) -> u64 {
        self.safe.upto(pipeline)
    }
    fn tick(&mut self, _: Duration) -> Result<(), SinkError> {
        Ok(())
    }
    fn finish(&mut self) -> Result<Report, SinkError> {
        let events = self.seen.lock().unwrap().len() as u64;
        Ok(Report { place: "memory".into(), events, ..Report::default() })
    }
    fn sheet(&self) -> Arc<Sheet> {
        Sheet::new(vec![])
    }
}

/// One worker and one sink.
fn alone(sink: TestSink, capacity: usize, ledger: &Ledger) -> (Fanout, Drains) {
    let (mut ways, drains) =
        Fanout::start(vec![Box::new(sink)], (1, capacity), ledger, |_| {}).unwrap();
    (ways.remove(0), drains)
}

fn fill(fanout: &mut Fanout, pixel: u32) {
    let events = &mut fanout.products().events;
    events.open_pulse(PulseTime(0));
    events.push(1, pixel);
}

#[test]
fn every_event_reaches_the_sink_in_order() {
    let (ledger, seen) = (Ledger::default(), Arc::new(Mutex::new(vec![])));
    let sink = TestSink {
        required: true,
        permits: None,
        fail: false,
        seen: seen.clone(),
        safe: SafeBatches::default(),
    };
    let (mut fanout, drains) = alone(sink, 4, &ledger);
    for pixel in 1..=1000 {
        fill(&mut fanout, pixel);
        fanout.hand_over(true).unwrap();
    }
    let ends = drains.finish(vec![fanout]);
    assert_eq!(ends[0].outcome.as_ref().unwrap().events, 1000);
    assert_eq!(*seen.lock().unwrap(), (1..=1000).collect::<Vec<_>>());
    assert_eq!((ledger.read().balance(), ledger.read().anything_lost()), (0, false));
}

#[test]
fn a_full_required_sink_of_a_lossy_source_loses_events_and_says_so() {
    let (ledger, seen) = (Ledger::default(), Arc::new(Mutex::new(vec![])));
    let (permit, permits) = mpsc::channel();
    let sink = TestSink {
        required: true,
        permits: Some(permits),
        fail: false,
        seen: seen.clone(),
        safe: SafeBatches::default(),
    };
    let (mut fanout, drains) = alone(sink, 2, &ledger);
    for pixel in 1..=100 {
        fill(&mut fanout, pixel);
        fanout.hand_over(false).unwrap();
    }
    drop(permit);
    assert!(drains.finish(vec![fanout])[0].outcome.is_ok());
    let read = ledger.read();
    let kept = seen.lock().unwrap().len() as u64;
    assert!(kept < 100);
    assert_eq!(read.get("queue.test.dropped"), Some(100 - kept));
    assert_eq!(read.get("queue.test.taken"), Some(kept));
    assert_eq!((read.balance(), read.anything_lost()), (0, true));
}

#[test]
fn a_full_best_effort_sink_loses_pictures_only() {
    let (ledger, seen) = (Ledger::default(), Arc::new(Mutex::new(vec![])));
    let (permit, permits) = mpsc::channel();
    let sink = TestSink {
        required: false,
        permits: Some(permits),
        fail: false,
        seen,
        safe: SafeBatches::default(),
    };
    let (mut fanout, drains) = alone(sink, 2, &ledger);
    for pixel in 1..=100 {
        fill(&mut fanout, pixel);
        fanout.hand_over(true).unwrap();
    }
    drop(permit);
    drains.finish(vec![fanout]);
    assert_eq!((ledger.read().balance(), ledger.read().anything_lost()), (0, false));
}

#[test]
fn a_required_sink_that_dies_ends_a_lossless_run_and_balances() {
    let (ledger, seen) = (Ledger::default(), Arc::new(Mutex::new(vec![])));
    let sink =
        TestSink { required: true, permits: None, fail: true, seen, safe: SafeBatches::default() };
    let (mut fanout, drains) = alone(sink, 2, &ledger);
    let failed = (1..=1000).any(|pixel| {
        fill(&mut fanout, pixel);
        fanout.hand_over(true).is_err()
    });
    assert!(failed, "the run must not go on for ever without its required sink");
    assert!(drains.finish(vec![fanout])[0].outcome.is_err());
    assert_eq!((ledger.read().balance(), ledger.read().anything_lost()), (0, true));
}

#[test]
fn all_workers_reach_the_sink_each_in_its_own_order() {
    let (ledger, seen) = (Ledger::default(), Arc::new(Mutex::new(vec![])));
    let sink = TestSink {
        required: true,
        permits: None,
        fail: false,
        seen: seen.clone(),
        safe: SafeBatches::default(),
    };
    let (ways, drains) = Fanout::start(vec![Box::new(sink)], (3, 4), &ledger, |_| {}).unwrap();
    let views = drains.views();
    let work = |(worker, mut way): (usize, Fanout)| {
        std::thread::spawn(move || {
            for n in 0..500 {
                fill(&mut way, 1 + n * 3 + worker as u32);
                way.hand_over(true).unwrap();
            }
            way
        })
    };
    let threads: Vec<_> = ways.into_iter().enumerate().map(work).collect();
    let ways = threads.into_iter().map(|t| t.join().unwrap()).collect();
    let ends = drains.finish(ways);
    assert_eq!(ends[0].outcome.as_ref().unwrap().events, 1500);
    let seen = seen.lock().unwrap();
    for worker in 0..3 {
        let of = |p: &&u32| (**p - 1) % 3 == worker;
        assert!(seen.iter().filter(of).is_sorted(), "worker {worker}");
    }
    assert_eq!((views[0].offered(), views[0].queued(), views[0].batches()), (1500, 0, 0));
    assert_eq!((ledger.read().balance(), ledger.read().anything_lost()), (0, false));
}

/// Takes rows, and no events.
struct RowSink(TestSink);

impl Sink for RowSink {
    fn name(&self) -> &'static str {
        "rows"
    }
    fn required(&self) -> bool {
        self.0.required
    }
    fn load(&self) -> Load {
        Load { unit: Unit::Rows, of: |products| products.strip_hits.time_ps.len() as u64 }
    }
    fn want(&self) -> Want {
        Want { strip_hits: true, records: true, ..Want::default() }
    }
    fn push(&mut self, products: &Arc<Products>) -> Result<(), SinkError> {
        self.0.push(products)
    }
    fn safe(&self, pipeline: u32) -> u64 {
        self.0.safe(pipeline)
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
fn rows_without_events_are_handed_over_and_counted_where_they_are_lost() {
    use fullcount_core::tables::StripHit;
    let (ledger, seen) = (Ledger::default(), Arc::new(Mutex::new(vec![])));
    let (permit, permits) = mpsc::channel();
    let sink = TestSink {
        required: true,
        permits: Some(permits),
        fail: false,
        seen,
        safe: SafeBatches::default(),
    };
    let (mut ways, drains) =
        Fanout::start(vec![Box::new(RowSink(sink))], (1, 2), &ledger, |_| {}).unwrap();
    let mut fanout = ways.remove(0);
    for _ in 0..100 {
        let products = fanout.products();
        assert!(products.want.strip_hits && !products.want.clusters);
        products.strip_hits.push(StripHit::default());
        products.strip_hits.push(StripHit::default());
        fanout.hand_over(false).unwrap();
    }
    drop(permit);
    drains.finish(vec![fanout]);
    let read = ledger.read();
    let counter = |what: &str| read.get(&format!("queue.rows.{what}")).unwrap();
    assert_eq!((counter("offered"), read.balance()), (200, 0));
    assert!(counter("dropped") > 0 && read.anything_lost(), "a loss of rows is a loss");
    assert_eq!(counter("taken") + counter("dropped"), 200);
    assert_eq!(read.get("transmit.bytes"), Some(0), "these are bytes of events");
}

#[test]
fn memory_of_records_goes_back_when_the_last_output_has_them() {
    use fullcount_core::records::{RecordPart, RecordPiece};
    let (ledger, seen) = (Ledger::default(), Arc::new(Mutex::new(vec![])));
    let (permit, permits) = mpsc::channel();
    let (required, fail, safe) = (true, false, SafeBatches::default());
    let sink = TestSink { required, permits: Some(permits), fail, seen, safe };
    let (mut ways, drains) =
        Fanout::start(vec![Box::new(RowSink(sink))], (1, 8), &ledger, |_| {}).unwrap();
    let mut fanout = ways.remove(0);
    // Six products are in use at once while the output waits for its permit.
    let memories: Vec<Arc<[u8]>> = (0..6).map(|_| Arc::from([0; 64])).collect();
    for memory in &memories {
        let records = &mut fanout.products().records;
        records.begin(0);
        records.part(RecordPart::default());
        records.piece(&RecordPiece { memory: memory.clone(), start: 0, len: 64 });
        fanout.hand_over(true).unwrap();
    }
    assert!(memories.iter().all(|memory| Arc::strong_count(memory) == 2));
    drop(permit);
    // From now on the first products of the pool suffice; the others are cleared without being used.
    while memories.iter().any(|memory| Arc::strong_count(memory) > 1) {
        fanout.products().records.begin(0);
        fanout.hand_over(true).unwrap();
        thread::yield_now();
    }
    drains.finish(vec![fanout]);
}

#[test]
fn numbers_reach_the_sink_without_events_and_stop_in_front_of_what_was_dropped() {
    let seen = Arc::new(Mutex::new(vec![]));
    let (permit, permits) = mpsc::channel();
    let safe = SafeBatches::default();
    let sink = TestSink { required: true, permits: Some(permits), fail: false, seen, safe };
    let (mut fanout, drains) = alone(sink, 2, &Ledger::default());
    let progress = fanout.progress().clone();
    let complete = |fanout: &mut Fanout, batch| {
        fanout.products().complete = BatchNumber { pipeline: 0, batch };
        fanout.hand_over(false).unwrap();
    };
    let until = |batch| {
        let end = Instant::now() + Duration::from_secs(60);
        while progress.safe() < batch {
            assert!(Instant::now() < end, "batch {batch} is not safe within a minute");
            thread::yield_now();
        }
    };
    complete(&mut fanout, 3);
    assert_eq!((progress.complete(), progress.safe()), (3, 0));
    permit.send(()).unwrap();
    until(3);
    // One in its hands, two in the queue, and no room for more.
    for batch in 4..=6 {
        complete(&mut fanout, batch);
        let end = Instant::now() + Duration::from_secs(60);
        let waiting = if batch == 4 { 0 } else { 2 };
        while drains.views()[0].batches() > waiting {
            assert!(Instant::now() < end, "the sink does not take it");
            thread::yield_now();
        }
    }
    // Without events nothing is lost with it but a number, which the next has as well.
    complete(&mut fanout, 7);
    fill(&mut fanout, 8);
    complete(&mut fanout, 8);
    drop(permit);
    until(6);
    complete(&mut fanout, 9);
    drains.finish(vec![fanout]);
    assert_eq!((progress.complete(), progress.safe()), (9, 7), "something of batch 8 was dropped");
}
