//! Sinks that are slow, dead or fine; every event offered ends in one counter.

use super::*;
use fullcount_core::time::PulseTime;
use std::sync::Mutex;
use std::sync::mpsc;

struct TestSink {
    required: bool,
    /// Each push waits for one permit, so that a test decides when the sink moves.
    permits: Option<mpsc::Receiver<()>>,
    fail: bool,
    seen: Arc<Mutex<Vec<u32>>>,
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
        Ok(())
    }
    fn tick(&mut self, _: Duration) -> Result<(), SinkError> {
        Ok(())
    }
    fn finish(&mut self) -> Result<Report, SinkError> {
        let events = self.seen.lock().unwrap().len() as u64;
        Ok(Report { place: "memory".into(), events, bytes: 0 })
    }
    fn sheet(&self) -> Arc<Sheet> {
        Sheet::new(vec![])
    }
}

fn fill(fanout: &mut Fanout, pixel: u32) {
    let events = &mut fanout.products().events;
    events.open_pulse(PulseTime(0));
    events.push(1, pixel);
}

#[test]
fn every_event_reaches_the_sink_in_order() {
    let (ledger, seen) = (Ledger::default(), Arc::new(Mutex::new(vec![])));
    let sink = TestSink { required: true, permits: None, fail: false, seen: seen.clone() };
    let mut fanout = Fanout::start(vec![Box::new(sink)], 4, &ledger, |_| {}).unwrap();
    for pixel in 1..=1000 {
        fill(&mut fanout, pixel);
        fanout.hand_over(true).unwrap();
    }
    let ends = fanout.finish();
    assert_eq!(ends[0].outcome.as_ref().unwrap().events, 1000);
    assert_eq!(*seen.lock().unwrap(), (1..=1000).collect::<Vec<_>>());
    assert_eq!((ledger.read().balance(), ledger.read().anything_lost()), (0, false));
}

#[test]
fn a_full_required_sink_of_a_lossy_source_loses_events_and_says_so() {
    let (ledger, seen) = (Ledger::default(), Arc::new(Mutex::new(vec![])));
    let (permit, permits) = mpsc::channel();
    let sink = TestSink { required: true, permits: Some(permits), fail: false, seen: seen.clone() };
    let mut fanout = Fanout::start(vec![Box::new(sink)], 2, &ledger, |_| {}).unwrap();
    for pixel in 1..=100 {
        fill(&mut fanout, pixel);
        fanout.hand_over(false).unwrap();
    }
    drop(permit);
    assert!(fanout.finish()[0].outcome.is_ok());
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
    let sink = TestSink { required: false, permits: Some(permits), fail: false, seen };
    let mut fanout = Fanout::start(vec![Box::new(sink)], 2, &ledger, |_| {}).unwrap();
    for pixel in 1..=100 {
        fill(&mut fanout, pixel);
        fanout.hand_over(true).unwrap();
    }
    drop(permit);
    fanout.finish();
    assert_eq!((ledger.read().balance(), ledger.read().anything_lost()), (0, false));
}

#[test]
fn a_required_sink_that_dies_ends_a_lossless_run_and_balances() {
    let (ledger, seen) = (Ledger::default(), Arc::new(Mutex::new(vec![])));
    let sink = TestSink { required: true, permits: None, fail: true, seen };
    let mut fanout = Fanout::start(vec![Box::new(sink)], 2, &ledger, |_| {}).unwrap();
    let failed = (1..=1000).any(|pixel| {
        fill(&mut fanout, pixel);
        fanout.hand_over(true).is_err()
    });
    assert!(failed, "the run must not go on for ever without its required sink");
    assert!(fanout.finish()[0].outcome.is_err());
    assert_eq!((ledger.read().balance(), ledger.read().anything_lost()), (0, true));
}
