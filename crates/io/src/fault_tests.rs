//! A tracker finds exactly the requested faults of a source, for any batches.

use super::*;
use fullcount_core::ledger::Ledger;
use fullcount_core::sequence::{Start, Totals, Tracker};

/// Numbers 0..total, 8 bytes each, in trains of changing length from one sender.
struct Numbers {
    next: u64,
    total: u64,
    sheet: Arc<Sheet>,
}

impl Numbers {
    fn new(total: u64) -> Box<Numbers> {
        Box::new(Numbers { next: 0, total, sheet: Sheet::new(Vec::new()) })
    }
}

impl Source for Numbers {
    fn recv(&mut self, batch: &mut Batch, _: Duration) -> Result<Received, SourceError> {
        batch.clear();
        if self.next == self.total {
            return Ok(Received::End);
        }
        let count = (1 + self.next % 61).min(self.total - self.next);
        for n in self.next..self.next + count {
            let at = (n - self.next) as usize * 8;
            batch.memory_mut()[at..at + 8].copy_from_slice(&n.to_le_bytes());
        }
        self.next += count;
        let stride = if count > 1 { 8 } else { 0 };
        batch.push(TrainMeta { len: count as usize * 8, stride, ..TrainMeta::default() });
        Ok(Received::Data)
    }

    fn batch(&self) -> Batch {
        Batch::with_slots(1, 512)
    }

    fn lossless(&self) -> bool {
        true
    }

    fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }

    fn describe(&self) -> Vec<String> {
        vec!["numbers".into()]
    }
}

fn run(total: u64, text: &str) -> (Totals, Arc<Sheet>, u64) {
    let fault = Fault::new(text.parse().unwrap()).unwrap();
    let mut source = FaultSource::new(Numbers::new(total), fault);
    let (sheet, ledger) = (source.fault_sheet(), Ledger::default());
    ledger.register(sheet.clone());
    let mut batch = source.batch();
    let mut tracker = Tracker::new(64, 4096, Start::AtZero);
    let mut trains = 0;
    loop {
        let received = source.recv(&mut batch, Duration::ZERO).unwrap();
        assert_eq!(ledger.read().balance(), 0, "at every moment");
        assert_eq!(received == Received::Data, !batch.is_empty());
        if received == Received::End {
            break;
        }
        for train in batch.trains() {
            trains += 1;
            for chunk in train.chunks() {
                tracker.observe(u64::from_le_bytes(chunk.try_into().unwrap()));
            }
        }
    }
    (tracker.finish(None), sheet, trains)
}

#[test]
fn a_tracker_behind_it_counts_what_was_asked_for() {
    let text = "drop=100,duplicate=100,swap=100,of=1000000,seed=7";
    let (totals, sheet, trains) = run(1_000_000, text);
    let expected = Totals {
        received: 1_000_000,
        lost: 100,
        duplicate: 100,
        reordered: 100,
        ..Totals::default()
    };
    assert_eq!(totals, expected);
    let get = |line: Faults| sheet.get(line as usize);
    assert_eq!((get(Faults::Packets), get(Faults::Delivered)), (1_000_000, 1_000_000));
    assert_eq!(
        (get(Faults::Dropped), get(Faults::Duplicated), get(Faults::Reordered)),
        (100, 100, 100)
    );
    assert_eq!(get(Faults::Held), 0);
    assert!(trains < 100_000, "neighbours travel in trains: {trains}");
}

#[test]
fn what_is_held_leaves_at_the_end_and_all_can_be_dropped() {
    let (totals, sheet, _) = run(1_000, "delay=1.0,by=65536");
    assert_eq!((totals.received, totals.lost), (1_000, 0));
    assert_eq!(sheet.get(Faults::Held as usize), 0);
    let (totals, _, _) = run(1_000, "loss=1.0");
    assert_eq!(totals.received, 1, "the first is left alone");
}

#[test]
fn what_does_not_fit_into_one_batch_comes_with_the_next() {
    /// One batch of 20 datagrams of 65,507 B: more than a faulty batch holds.
    struct Large(bool);
    impl Source for Large {
        fn recv(&mut self, batch: &mut Batch, _: Duration) -> Result<Received, SourceError> {
            batch.clear();
            if std::mem::replace(&mut self.0, true) {
                return Ok(Received::End);
            }
            for k in 0..20u8 {
                batch.append(&vec![k; 65_507], Origin::NONE, 0, Edge::Datagram);
            }
            Ok(Received::Data)
        }
        fn batch(&self) -> Batch {
            Batch::with_slots(0, 0)
        }
        fn lossless(&self) -> bool {
            false
        }
        fn sheet(&self) -> Arc<Sheet> {
            Sheet::new(Vec::new())
        }
        fn describe(&self) -> Vec<String> {
            Vec::new()
        }
    }
    let fault = Fault::new("duplicate=100%".parse().unwrap()).unwrap();
    let mut source = FaultSource::new(Box::new(Large(false)), fault);
    assert!(!source.lossless());
    assert!(source.describe()[0].contains("duplicate=1.0"));
    // A batch of the wrong size is replaced.
    let mut batch = Batch::with_slots(0, 0);
    let mut got = Vec::new();
    while source.recv(&mut batch, Duration::ZERO).unwrap() != Received::End {
        got.extend(batch.trains().flat_map(|t| t.chunks()).map(|c| (c[0], c.len())));
    }
    let expected: Vec<(u8, usize)> =
        (0..20u8).flat_map(|k| vec![(k, 65_507); if k == 0 { 1 } else { 2 }]).collect();
    assert_eq!(got, expected);
}

#[test]
fn pieces_of_a_stream_pass_untouched() {
    struct Stream(u8);
    impl Source for Stream {
        fn recv(&mut self, batch: &mut Batch, _: Duration) -> Result<Received, SourceError> {
            batch.clear();
            if self.0 == 3 {
                return Ok(Received::End);
            }
            self.0 += 1;
            batch.append(&[self.0; 4], Origin::NONE, 0, Edge::Stream);
            batch.append(&[self.0; 4], Origin::NONE, 0, Edge::Datagram);
            Ok(Received::Data)
        }
        fn batch(&self) -> Batch {
            Batch::with_slots(0, 0)
        }
        fn lossless(&self) -> bool {
            true
        }
        fn sheet(&self) -> Arc<Sheet> {
            Sheet::new(Vec::new())
        }
        fn describe(&self) -> Vec<String> {
            Vec::new()
        }
    }
    let fault = Fault::new("loss=1.0".parse().unwrap()).unwrap();
    let mut source = FaultSource::new(Box::new(Stream(0)), fault);
    let mut batch = source.batch();
    let mut got = Vec::new();
    while source.recv(&mut batch, Duration::ZERO).unwrap() != Received::End {
        got.extend(batch.trains().map(|t| (t.edge, t.bytes[0], t.count())));
    }
    // The first datagram is left alone by every fault.
    let expected =
        [(Edge::Stream, 1, 1), (Edge::Datagram, 1, 1), (Edge::Stream, 2, 1), (Edge::Stream, 3, 1)];
    assert_eq!(got, expected);
}
