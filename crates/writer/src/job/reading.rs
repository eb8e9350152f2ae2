//! Where a job reads: from which message of each partition, and until when.
//!
//! Source: `docs/formats/nexus.md` section 7. What the broker has deleted is counted.

use std::collections::BTreeMap;

use super::{Job, ReadFrom, WantedPartition};
use crate::WriteCounter;
use crate::journal::MessageSpot;

#[derive(Debug, Default)]
pub(super) struct Position {
    /// The next message; `None` before reading began.
    pub(super) next: Option<i64>,
    /// The latest Kafka time of the messages that were read, ms since 1970.
    pub(super) seen_ms: Option<u64>,
    /// Nothing of this run comes any more.
    pub(super) done: bool,
}

impl Job {
    /// What is still to be read, and from where; not of topics that are missing.
    pub fn wanted(&self) -> Vec<WantedPartition> {
        let from = self.order.start_ms.saturating_sub(self.leeway_ms);
        let each = |(topic, all): (&String, &BTreeMap<i32, Position>)| {
            all.iter()
                .filter(|(_, position)| !position.done)
                .map(|(&partition, position)| WantedPartition {
                    topic: topic.clone(),
                    partition,
                    begin: position.next.map_or(ReadFrom::Time(from), ReadFrom::Offset),
                    // What lies before the place where reading began is older than that time.
                    seen_ms: position.seen_ms.map(|ms| ms.max(from)),
                })
                .collect::<Vec<_>>()
        };
        let here = self.positions.iter().filter(|(topic, _)| !self.is_missing(topic));
        here.flat_map(each).collect()
    }

    /// Reading a partition begins at this offset: what its time led to.
    pub fn begin(&mut self, topic: &str, partition: i32, offset: i64) {
        if let Some(position) = self.position(topic, partition) {
            position.next.get_or_insert(offset);
            self.moved = true;
        }
    }

    /// The next message of a partition, once reading it has begun.
    pub fn next(&self, topic: &str, partition: i32) -> Option<i64> {
        self.positions.get(topic)?.get(&partition)?.next
    }

    /// The oldest message that the partition still holds has this offset. Says how many that were to be read are gone.
    pub fn oldest(&mut self, topic: &str, partition: i32, oldest: i64) -> u64 {
        let Some(position) = self.position(topic, partition) else { return 0 };
        let Some(next) = position.next.filter(|next| oldest > *next) else { return 0 };
        position.next = Some(oldest);
        let gone = oldest.abs_diff(next);
        self.moved = true;
        self.gone += gone;
        self.sheet.add(WriteCounter::Gone as usize, gone);
        gone
    }

    /// Messages that the broker had deleted before they were read.
    pub fn gone(&self) -> u64 {
        self.gone
    }

    pub(super) fn position(&mut self, topic: &str, partition: i32) -> Option<&mut Position> {
        self.positions.get_mut(topic)?.get_mut(&partition)
    }

    /// The time from which on the ends of partitions matter: stop and leeway. `None` without a stop.
    pub fn drains_at_ms(&self) -> Option<u64> {
        self.stop_ms.map(|stop| stop.saturating_add(self.leeway_ms))
    }

    /// The partition had `end` as the offset of its next message to come, asked at `asked_ms`.
    pub fn at_end(&mut self, topic: &str, partition: i32, end: i64, asked_ms: u64) {
        let due = self.drains_at_ms().is_some_and(|at| asked_ms > at);
        if let Some(position) = self.position(topic, partition)
            && due
            && position.next.is_some_and(|next| next >= end)
        {
            position.done = true;
        }
    }

    /// True once nothing of the run can come any more.
    pub fn is_complete(&self, now_ms: u64) -> bool {
        self.stop_ms.is_some_and(|stop| now_ms >= stop)
            && self.unasked.is_empty()
            && self.positions.values().flat_map(BTreeMap::values).all(|position| position.done)
    }

    /// True if a part of the run's end has been passed: then it cannot be moved to later.
    pub(crate) fn is_over(&self) -> bool {
        self.streams.iter().any(|stream| stream.ended)
            || self.positions.values().flat_map(BTreeMap::values).any(|position| position.done)
    }

    /// The next message of each partition that was begun.
    pub(super) fn spots(&self) -> Vec<MessageSpot> {
        let all = self.positions.iter().flat_map(|(topic, all)| {
            all.iter().filter_map(|(&partition, position)| {
                let offset = position.next?;
                Some(MessageSpot { topic: topic.clone(), partition, offset })
            })
        });
        all.collect()
    }
}
