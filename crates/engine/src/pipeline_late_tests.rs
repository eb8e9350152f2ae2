//! What a decoder gives because of the time alone goes to the outputs at once, however much it is.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fullcount_core::batch::Batch;
use fullcount_core::detector::Decoder;
use fullcount_core::ledger::{Ledger, Sheet};
use fullcount_core::products::{Products, Want};
use fullcount_core::progress::Flush;
use fullcount_core::records::{RecordPart, RecordPiece};
use fullcount_core::sink::{Report, Sink, SinkError};
use fullcount_core::time::Nanos;

use super::processing::{HAND_OVER_BYTES, Processing};
use crate::fanout::Fanout;

/// So many records are due; one leaves in a call, as of the readout unit 4 MiB do.
struct Overdue(u64);

impl Decoder for Overdue {
    fn decode(&mut self, _: Option<&Batch>, now: Option<Nanos>, products: &mut Products) {
        if now.is_some() && self.0 > 0 {
            self.0 -= 1;
            products.records.begin(self.0);
            products.records.part(RecordPart { source: 0, flags: 0 });
            let (memory, len) = (vec![0; HAND_OVER_BYTES].into(), HAND_OVER_BYTES as u32);
            products.records.piece(&RecordPiece { memory, start: 0, len });
            products.records.end(0, 0);
        }
    }
    fn flush(&mut self, _: Flush, _: &mut Products) {}
    fn sheets(&self) -> Vec<Arc<Sheet>> {
        vec![]
    }
}

/// Numbers of records, a row for each hand-over.
#[derive(Clone, Default)]
struct Handed(Arc<Mutex<Vec<Vec<u64>>>>);

impl Sink for Handed {
    fn name(&self) -> &'static str {
        "handed"
    }
    fn required(&self) -> bool {
        true
    }
    fn want(&self) -> Want {
        Want { records: true, ..Want::default() }
    }
    fn push(&mut self, products: &Arc<Products>) -> Result<(), SinkError> {
        if !products.records.is_empty() {
            self.0.lock().unwrap().push(products.records.number.clone());
        }
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

#[test]
fn much_that_is_overdue_leaves_in_one_go_and_in_pieces() {
    for (lossless, replay, left) in [(true, false, 0), (false, false, 4), (true, true, 5)] {
        let handed = Handed::default();
        let sinks: Vec<Box<dyn Sink>> = vec![Box::new(handed.clone())];
        let (mut ways, drains) = Fanout::start(sinks, (1, 64), &Ledger::default(), |_| {}).unwrap();
        let mut work = Processing::new(Box::new(Overdue(5)), ways.remove(0), lossless, replay);
        work.hand_over(Instant::now()).unwrap();
        drains.finish(vec![work.fanout]);
        let expected: Vec<_> = (left..5).rev().map(|number| vec![number]).collect();
        assert_eq!(*handed.0.lock().unwrap(), expected, "{lossless} {replay}");
    }
}
