//! Merged events to a topic: a message is one record, in order, through its own [spool](fullcount_spool).
//!
//! The value is the record as in a file of `output.records` ([`EventRecords::write`](fullcount_core::records::EventRecords::write)):
//! head, table of parts, bytes. All messages have the same key, so that one partition keeps their order. Everything else is as in
//! [`super::RawSink`]. Refuses what [`KafkaOptions::validate`] does, and records above 16 MiB, one by one.
//! Source: `docs/fragments.md`, "On a topic".

mod counters;
mod kind;

use std::sync::Arc;
use std::time::Duration;

use fullcount_core::ledger::Sheet;
use fullcount_core::products::{Products, Want};
use fullcount_core::progress::{Flush, SafeBatches};
use fullcount_core::sink::{Load, Report, Sink, SinkError};
use fullcount_spool::Outgoing;

use super::options::{KafkaOptions, MessageId};
use super::way::{Appended, Lines, Way, lines};

pub use counters::MergedCounter;
pub use kind::MergedEvents;

/// Name in the summary.
const NAME: &str = "merged";

/// Lines of the sheet that the way to the spool fills.
const LINES: Lines = lines!(MergedCounter: Recovered SpoolUnreadable SpoolTorn SpoolFull Sent Bytes Already Refused
    SpoolDamaged Damaged Sessions Errors SpoolMessages SpoolBytes SpoolLimit SpoolNearlyFull SpoolAge Waiting);

/// Sends merged events to a topic. A required sink.
pub struct MergedSink {
    way: Way,
    next_id: u64,
    record: Vec<u8>,
    safe: SafeBatches,
}

impl MergedSink {
    /// Opens the spool and starts to send. No broker is needed.
    ///
    /// # Errors
    /// The spool cannot be used.
    pub fn open(options: KafkaOptions) -> Result<MergedSink, SinkError> {
        let sheet = Sheet::new(MergedCounter::catalogue());
        let (mut way, start) = Way::open(NAME, options, (sheet, LINES))?;
        let next_id = match way.options.message_id {
            MessageId::Continue => start.next_id,
            MessageId::Restart => 1,
        };
        start.told.iter().for_each(|told| way.link.tell(&format!("merged spool: {told}")));
        way.start(start)?;
        Ok(MergedSink { way, next_id, record: Vec::new(), safe: SafeBatches::default() })
    }

    fn add(&self, line: MergedCounter, n: u64) {
        self.way.sheet.add(line as usize, n);
    }

    /// Lays the record of this event into the spool; waits if that is full.
    fn send(&mut self, products: &Products, event: usize) {
        self.record.clear();
        products.records.write(event, &mut self.record);
        let key = self.way.options.stream.source_name.clone();
        let message = Outgoing {
            key: Some(key.as_bytes()),
            headers: &[],
            payload: &self.record,
            message_id: self.next_id,
            events: 1,
        };
        match self.way.append(&message, 0) {
            Appended::Safe => self.next_id += 1,
            Appended::Refused => {}
            Appended::Late | Appended::Failed => {
                self.safe.stop();
                self.add(MergedCounter::Dropped, 1);
            }
        }
    }

    fn check(&self) -> Result<(), SinkError> {
        self.way.failed.as_ref().map_or(Ok(()), |error| Err(self.way.error(error)))
    }
}

impl Sink for MergedSink {
    fn name(&self) -> &'static str {
        NAME
    }

    fn required(&self) -> bool {
        true
    }

    fn want(&self) -> Want {
        Want { records: true, ..Want::default() }
    }

    fn load(&self) -> Load {
        Load { of: |products| products.records.len() as u64, ..Load::EVENTS }
    }

    fn push(&mut self, products: &Arc<Products>) -> Result<(), SinkError> {
        self.add(MergedCounter::In, products.records.len() as u64);
        for event in 0..products.records.len() {
            self.send(products, event);
        }
        let taken = self.way.sheet.get(MergedCounter::In as usize);
        self.safe.took(products.complete, taken);
        self.safe.reached(taken);
        if products.flush == Some(Flush::Taken) {
            self.way.refresh(0);
        }
        self.check()
    }

    fn safe(&self, pipeline: u32) -> u64 {
        self.safe.upto(pipeline)
    }

    fn tick(&mut self, _: Duration) -> Result<(), SinkError> {
        self.way.refresh(0);
        self.check()
    }

    fn finish(&mut self) -> Result<Report, SinkError> {
        let finished = self.way.finish();
        self.way.refresh(0);
        let (waiting, folder) = (self.way.spool.depth().messages, &self.way.options.spool);
        if waiting > 0 {
            self.way.link.tell(&format!(
                "{waiting} merged events are not confirmed and wait in {}: the next start sends them",
                folder.display()
            ));
        }
        self.check()?;
        finished?;
        Ok(self.way.report())
    }

    fn sheet(&self) -> Arc<Sheet> {
        self.way.sheet.clone()
    }
}

#[cfg(test)]
mod tests {
    use fullcount_core::records::{RecordPart, RecordPiece};
    use fullcount_spool::Spool;

    use super::*;

    /// Without a broker: each event is one message of the spool, and the ledger balances.
    #[test]
    fn every_event_is_one_message_in_the_spool() {
        let folder = tempfile::tempdir().unwrap();
        // Nobody listens on port 1.
        let mut options =
            KafkaOptions::new("127.0.0.1:1", "t", "unit".to_owned(), folder.path().join("spool"));
        options.drain = Duration::from_millis(10);
        let mut sink = MergedSink::open(options.clone()).unwrap();
        let mut products = Products::default();
        for n in 0..5u64 {
            let memory: Arc<[u8]> = vec![n as u8; 12].into();
            products.records.begin(n);
            products.records.part(RecordPart { source: 5, flags: 0 });
            products.records.piece(&RecordPiece { memory, start: 0, len: 12 });
            products.records.end(7, 0);
        }
        let mut first = Vec::new();
        products.records.write(0, &mut first);
        sink.push(&Arc::new(products)).unwrap();
        sink.finish().unwrap();
        let sheet = sink.sheet();
        let get = |line: MergedCounter| sheet.get(line as usize);
        assert_eq!((get(MergedCounter::In), get(MergedCounter::Waiting)), (5, 5));
        assert_eq!((get(MergedCounter::Sent), get(MergedCounter::Dropped)), (0, 0));
        drop(sink);
        let (_, start) = Spool::open(options.spool_options()).unwrap();
        assert_eq!((start.events, start.next_id), (5, 6));
    }
}
