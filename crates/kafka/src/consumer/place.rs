//! The group's offsets: commits when the data is safe, and queries.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{CommitMode, Consumer as _};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::topic_partition_list::{Offset, TopicPartitionListElem};

use super::{ConsumeError, Consumer};
use crate::counters::ConsumerCounter;

/// Pause before the repetition of a commit that was refused during a rebalance.
const COMMIT_AGAIN: Duration = Duration::from_millis(20);

impl Consumer {
    /// From here on this note goes with every offset that is committed, for members that come later. The first call counts. At most
    /// 4096 bytes, a broker's usual limit.
    pub fn note(&self, note: String) {
        let _ = self.note.set(note);
    }

    fn list(&self, next: &[(&str, i32, i64)]) -> Result<TopicPartitionList, ConsumeError> {
        let mut list = TopicPartitionList::new();
        for &(topic, partition, offset) in next {
            let failed = self.failed(format!("commit offsets of {topic}"));
            list.add_partition_offset(topic, partition, Offset::Offset(offset)).map_err(failed)?;
            if let (Some(note), Some(mut place)) =
                (self.note.get(), list.find_partition(topic, partition))
            {
                place.set_metadata(note);
            }
        }
        Ok(list)
    }

    /// Commits these offsets, because everything before them is safe: (topic, partition, offset of the next message).
    /// `wait`: until the broker has confirmed it, even if it first refuses because of a rebalance.
    ///
    /// # Errors
    /// The broker refuses, for example because the group has given the partition to another member.
    pub fn commit(&self, next: &[(&str, i32, i64)], wait: bool) -> Result<(), ConsumeError> {
        if next.is_empty() {
            return Ok(());
        }
        let failed = |topic: &str| self.failed(format!("commit offsets of {topic}"));
        let list = self.list(next)?;
        let mode = if wait { CommitMode::Sync } else { CommitMode::Async };
        let end = Instant::now() + self.answer;
        while let Err(error) = self.inner.commit(&list, mode) {
            self.inner.context().refused.fetch_add(1, Relaxed);
            // A broker refuses between the last member's word and the new shares, which is over without us.
            let passes = error.rdkafka_error_code() == Some(RDKafkaErrorCode::RebalanceInProgress);
            if !wait || !passes || Instant::now() >= end {
                return Err(failed(next[0].0)(error));
            }
            std::thread::sleep(COMMIT_AGAIN);
        }
        if self.holds {
            // When a partition is given up, librdkafka commits the offset that was stored last, even if a later one was
            // committed since.
            let _ = self.inner.store_offsets(&list);
        }
        self.sheet.add(ConsumerCounter::Commits as usize, 1);
        Ok(())
    }

    /// As [`Consumer::commit`], soon and without waiting, and again until the broker accepts it: see
    /// [`Consumer::confirmed`]. Partitions that were given up meanwhile are left out. Only with
    /// [`ConsumerOptions::hold`].
    ///
    /// # Errors
    /// An offset that cannot be.
    pub fn commit_soon(&self, next: &[(&str, i32, i64)]) -> Result<(), ConsumeError> {
        let failed = |topic: &str| self.failed(format!("commit offsets of {topic}"));
        let list = self.list(next)?;
        match self.inner.store_offsets(&list) {
            Err(e) if e.rdkafka_error_code() != Some(RDKafkaErrorCode::State) => {
                Err(failed(next.first().map_or("", |n| n.0))(e))
            }
            _ => Ok(()),
        }
    }

    /// What the broker has confirmed of [`Consumer::commit_soon`] since the last call: (topic, partition, offset of the
    /// next message). It is heard of in [`Consumer::poll`].
    pub fn confirmed(&self) -> Vec<(String, i32, i64)> {
        let mut confirmed = self.inner.context().confirmed.lock().expect("no holder panics");
        std::mem::take(&mut *confirmed).into_iter().map(|((t, p), at)| (t, p, at)).collect()
    }

    /// Commits that the broker refused, as far as that is heard of.
    pub fn commits_refused(&self) -> u64 {
        self.inner.context().refused.load(Relaxed)
    }

    /// The group's offset: of the next message; `None` if it has none.
    ///
    /// # Errors
    /// No broker answers.
    pub fn committed(&self, topic: &str, partition: i32) -> Result<Option<i64>, ConsumeError> {
        Ok(self.places(topic, &[partition])?.pop().map(|(_, at)| at))
    }

    /// The group's offsets on these partitions, with one request: (partition, offset of the next message) of each that
    /// has one.
    ///
    /// # Errors
    /// No broker answers.
    pub fn places(&self, topic: &str, partitions: &[i32]) -> Result<Vec<(i32, i64)>, ConsumeError> {
        let answer = self.ask_places(topic, partitions)?;
        let all = answer.elements();
        let one = |at: Offset| match at {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        };
        Ok(all.iter().filter_map(|p| Some((p.partition(), one(p.offset())?))).collect())
    }

    /// The notes that members have put to the group's offsets on these partitions ([`Consumer::note`]).
    ///
    /// # Errors
    /// No broker answers.
    pub fn notes(&self, topic: &str, partitions: &[i32]) -> Result<Vec<String>, ConsumeError> {
        let answer = self.ask_places(topic, partitions)?;
        let all = answer.elements();
        // Other programs may have put anything there. The library panics at a note that is not UTF-8, which a broker may keep: that is
        // no note of ours.
        let note = |place: &TopicPartitionListElem<'_>| {
            std::panic::catch_unwind(AssertUnwindSafe(|| place.metadata().to_owned())).ok()
        };
        Ok(all.iter().filter_map(note).filter(|note| !note.is_empty()).collect())
    }

    fn ask_places(
        &self,
        topic: &str,
        partitions: &[i32],
    ) -> Result<TopicPartitionList, ConsumeError> {
        let mut ask = TopicPartitionList::new();
        for partition in partitions {
            ask.add_partition(topic, *partition);
        }
        let answer = self.inner.committed_offsets(ask, self.answer);
        answer.map_err(self.failed(format!("ask for the group's place in {topic}")))
    }
}
