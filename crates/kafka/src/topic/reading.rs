//! Reading the partitions of a topic: what is new, and first of all what an interrupted replay has read, in the same order.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fullcount_core::batch::Batch;
use fullcount_core::ledger::Sheet;
use fullcount_core::source::{Received, SourceError};

use super::filling::{BATCH_BYTES, Filling, Left, MOST, put, take};
use super::following::{Stuck, Turn};
use super::order::{PartitionOrder, Step};
use super::parting::Leaving;
use super::place::{GroupPlace, Offsets};
use super::url::{LOOK, TopicUrl};
use super::{FromTopic, Needs};
use crate::{Begin, Consumer, Polled};

/// Between two looks at what may be committed.
pub(super) const COMMIT_EVERY: Duration = Duration::from_secs(1);
/// Pause between two looks while partitions wait to be given up.
const PART_LOOK: Duration = Duration::from_millis(5);

/// A topic that is read.
pub(super) struct Topic {
    pub url: TopicUrl,
    pub needs: Needs,
    pub consumer: Arc<Consumer>,
    /// Of a member of a group.
    pub place: Option<Arc<GroupPlace>>,
    pub sheet: Arc<Sheet>,
    /// Next offset by partition, of what was handed on; of a group those that are ours.
    pub handed: Offsets,
    /// Number of the last batch.
    pub newest: u64,
    /// When the place in the group was last looked at.
    pub looked: Instant,
    /// When the last call of [`Topic::recv`] ended.
    pub called: Instant,
    /// Partitions that were read to their end.
    pub ended: BTreeSet<i32>,
    pub over: bool,
    pub left: Option<Left>,
    /// Partitions that are on their way to other members.
    pub leaving: Option<Leaving>,
    /// While nobody takes what was read.
    pub stuck: Option<Stuck>,
    pub again: Again,
    /// Partitions that were not yet read to their end; of a group those that came to it.
    pub behind: BTreeSet<i32>,
    /// Partitions have no order among each other until none is behind.
    pub apart: bool,
}

/// What was read before is read again, in the same order.
pub(super) enum Again {
    /// The file with the order is not open; nobody else has the spool's folder once the run is under way.
    Unread,
    /// A consumer for each partition that has had its turn.
    Under(PartitionOrder, BTreeMap<i32, Consumer>),
    /// It is through; what comes now is written down.
    Over(PartitionOrder),
}

impl Topic {
    /// See [`Source::recv`](fullcount_core::source::Source::recv).
    pub fn recv(&mut self, batch: &mut Batch, wait: Duration) -> Result<Received, SourceError> {
        let outcome = self.receive(batch, wait);
        self.called = Instant::now();
        outcome
    }

    fn receive(&mut self, batch: &mut Batch, wait: Duration) -> Result<Received, SourceError> {
        let number = batch.number();
        batch.clear();
        if batch.memory_mut().len() < BATCH_BYTES {
            *batch = Topic::batch();
            batch.set_number(number);
        }
        if self.over {
            return Ok(Received::End);
        }
        if let Some(stuck) = self.stuck.take() {
            self.go_on(stuck)?;
        }
        match self.follow_group(number.batch)? {
            Turn::Read => {}
            Turn::Wait => {
                std::thread::sleep(wait.min(PART_LOOK));
                self.sheet.add(FromTopic::Idle as usize, 1);
                return Ok(Received::Idle);
            }
            Turn::Flush(reason) => {
                self.newest = number.batch;
                return Ok(Received::Flush(reason));
            }
        }
        let filling = match self.read_again(batch)? {
            Some(filling) => filling,
            None => self.read_on(batch, wait)?,
        };
        batch.read_apart(self.apart && !self.behind.is_empty());
        self.count(&filling, batch.bytes());
        if !batch.is_empty() {
            self.newest = number.batch;
            return Ok(Received::Data);
        }
        if self.over {
            return Ok(Received::End);
        }
        self.sheet.add(FromTopic::Idle as usize, 1);
        Ok(Received::Idle)
    }

    /// A batch with its memory.
    pub fn batch() -> Batch {
        Batch::with_slots(MOST, BATCH_BYTES / MOST)
    }

    fn count(&self, filling: &Filling, bytes: u64) {
        let s = &*self.sheet;
        s.add(FromTopic::Packets as usize, filling.packets);
        s.add(FromTopic::Other as usize, filling.other);
        s.add(FromTopic::TooLong as usize, filling.too_long);
        s.add(FromTopic::NoSource as usize, filling.no_source);
        s.add(FromTopic::NoTime as usize, filling.no_time);
        s.add(FromTopic::Accepted as usize, filling.packets - filling.other - filling.too_long);
        s.add(FromTopic::Bytes as usize, bytes);
    }

    fn failed(&self, cause: impl Into<String>) -> SourceError {
        let (endpoint, what) = (self.url.url.clone(), "reading".to_owned());
        SourceError { endpoint, what, cause: cause.into() }
    }

    /// Reads what was read before again. `None` once that is through.
    fn read_again(&mut self, batch: &mut Batch) -> Result<Option<Filling>, SourceError> {
        let Some(reading) = &self.url.reading else { return Ok(None) };
        let disk = |e: std::io::Error| self.failed(format!("{}: {e}", reading.order.display()));
        if matches!(self.again, Again::Unread) {
            let order = PartitionOrder::open(&reading.order).map_err(disk)?;
            self.handed = reading.starts.clone();
            self.again = Again::Under(order, BTreeMap::new());
        }
        let Again::Under(order, consumers) = &mut self.again else { return Ok(None) };
        let runs = match order.next() {
            Some(Step::Batch(runs)) => runs,
            Some(Step::End) => {
                self.over = true;
                return Ok(Some(Filling::default()));
            }
            None => {
                let Again::Under(order, _) = std::mem::replace(&mut self.again, Again::Unread)
                else {
                    return Ok(None);
                };
                self.again = Again::Over(order);
                let topic = self.url.address.topic.as_str();
                let all = self.handed.iter().map(|(p, at)| (topic, *p, Begin::At(*at)));
                let begun = self.consumer.assign(&all.collect::<Vec<_>>());
                begun.map_err(self.url.error("reading"))?;
                return Ok(None);
            }
        };
        let mut filling = Filling::default();
        if let Some(left) = self.left.take() {
            put(batch, &mut filling.bytes, &left.bytes, left.origin, left.time_ns);
        }
        for (partition, count) in runs {
            let next = self.handed.entry(partition).or_default();
            let consumer = match consumers.entry(partition) {
                Entry::Occupied(made) => made.into_mut(),
                Entry::Vacant(none) => {
                    let made = none.insert(self.url.consumer(None)?);
                    let topic = self.url.address.topic.as_str();
                    let begun = made.assign(&[(topic, partition, Begin::At(*next))]);
                    begun.map_err(self.url.error("reading"))?;
                    made
                }
            };
            let (mut left, end) = (count, Instant::now() + LOOK * 6);
            while left > 0 {
                let polled = consumer.poll(Duration::from_millis(200));
                match polled.map_err(self.url.error("reading"))? {
                    Polled::Message(message) => {
                        *next = message.offset() + 1;
                        take(&message, self.needs, batch, &mut filling, &mut self.left).map_err(
                            |why| SourceError {
                                endpoint: self.url.url.clone(),
                                what: "reading".into(),
                                cause: why.into(),
                            },
                        )?;
                        left -= 1;
                    }
                    Polled::End { .. } | Polled::Nothing if Instant::now() < end => {}
                    _ => {
                        let cause = format!(
                            "{left} messages of partition {partition} that were read before do not come again"
                        );
                        let (endpoint, what) = (self.url.url.clone(), "reading".into());
                        return Err(SourceError { endpoint, what, cause });
                    }
                }
            }
        }
        Ok(Some(filling))
    }

    /// Fills a batch with what comes.
    fn read_on(&mut self, batch: &mut Batch, wait: Duration) -> Result<Filling, SourceError> {
        let mut filling = Filling::default();
        let mut handed_left = false;
        if let Some(left) = self.left.take() {
            put(batch, &mut filling.bytes, &left.bytes, left.origin, left.time_ns);
            self.handed.insert(left.place.0, left.place.1);
            handed_left = true;
        }
        while batch.trains().len() < MOST && self.left.is_none() && self.leaving.is_none() {
            let wait = if batch.is_empty() { wait } else { Duration::ZERO };
            let polled = self.consumer.poll(wait).map_err(self.url.error("reading"))?;
            let message = match polled {
                Polled::Nothing => break,
                Polled::End { partition } => {
                    self.ended.insert(partition);
                    self.behind.remove(&partition);
                    if self.at_end()? {
                        self.over = true;
                        break;
                    }
                    continue;
                }
                Polled::Message(message) => message,
            };
            let (partition, offset) = (message.partition(), message.offset());
            match filling.runs.last_mut() {
                Some((last, count)) if *last == partition => *count += 1,
                _ => filling.runs.push((partition, 1)),
            }
            if let Err(why) = take(&message, self.needs, batch, &mut filling, &mut self.left) {
                self.sheet.add(FromTopic::NoSource as usize, filling.no_source);
                let (endpoint, what) = (self.url.url.clone(), "reading".to_owned());
                return Err(SourceError { endpoint, what, cause: why.into() });
            }
            let first = match self.left {
                // It is handed on with the next batch.
                Some(_) => !self.handed.contains_key(&partition),
                None => self.handed.insert(partition, offset + 1).is_none(),
            };
            if let (true, Some(place)) = (first, &self.place) {
                place.begins(partition, offset);
                self.behind.insert(partition);
            }
        }
        if let Again::Over(order) = &mut self.again {
            let mut written = Ok(());
            if handed_left || !filling.runs.is_empty() {
                written = order.write(&Step::Batch(filling.runs.clone()));
            }
            if self.over {
                written = written.and_then(|()| order.write(&Step::End));
            }
            written.map_err(|e| self.failed(format!("writing down the order: {e}")))?;
        }
        Ok(filling)
    }

    fn at_end(&self) -> Result<bool, SourceError> {
        if !self.url.until_end {
            return Ok(false);
        }
        let mine = self.consumer.assigned().map_err(self.url.error("reading"))?;
        Ok(!mine.is_empty() && mine.iter().all(|(_, p)| self.ended.contains(p)))
    }
}
