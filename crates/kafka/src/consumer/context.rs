//! What librdkafka reports to a consumer between two polls: its log, the broker's answers to commits, and the group's
//! moves.
//!
//! On request, partitions that the group wants for another member stay until they are given up.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext, RebalanceProtocol};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::topic_partition_list::Offset;
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{ClientContext, TopicPartitionList};

use super::Moves;
use crate::link::Link;

/// What librdkafka reports to a consumer.
pub(super) struct Context {
    pub link: Link,
    pub errors: Arc<AtomicU64>,
    /// Partitions stay until they are given up.
    pub hold: AtomicBool,
    /// Something moved since [`Consumer::moves`].
    pub moved: AtomicBool,
    pub moves: Mutex<Moves>,
    /// No message is wanted now.
    pub resting: AtomicBool,
    /// At some time none was.
    pub rested: AtomicBool,
    /// Newest place by topic and partition that the broker has confirmed since [`Consumer::confirmed`].
    pub confirmed: Mutex<BTreeMap<(String, i32), i64>>,
    /// Commits that the broker refused, whole or for a partition.
    pub refused: AtomicU64,
    /// The last one was refused, and that was said.
    pub refusing: AtomicBool,
}

impl Context {
    /// Said when it begins, and when it is over.
    fn refused(&self, error: &KafkaError) {
        self.refused.fetch_add(1, Relaxed);
        // The group is rebalancing, and accepts it in a moment.
        let passes = error.rdkafka_error_code() == Some(RDKafkaErrorCode::RebalanceInProgress);
        if !passes && !self.refusing.swap(true, Relaxed) {
            self.link.say(&format!(
                "the group's place is not taken on ({error}): what was read since comes again if this process is killed"
            ));
        }
    }

    fn taken_on(&self) {
        if self.refusing.swap(false, Relaxed) {
            self.link.say("the group's place is taken on again");
        }
    }

    pub fn let_go(
        consumer: &BaseConsumer<Context>,
        partitions: &TopicPartitionList,
    ) -> Result<(), KafkaError> {
        match consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => consumer.incremental_unassign(partitions),
            RebalanceProtocol::Eager | RebalanceProtocol::None => consumer.unassign(),
        }
    }
}

pub(super) fn names(list: &TopicPartitionList) -> Vec<(String, i32)> {
    list.elements().iter().map(|e| (e.topic().to_owned(), e.partition())).collect()
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, _: &str, message: &str) {
        self.link.log(level, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.errors.fetch_add(1, Relaxed);
        self.link.error(&error, reason);
    }
}

impl ConsumerContext for Context {
    /// The broker's answer, partition by partition.
    fn commit_callback(&self, result: Result<(), KafkaError>, offsets: &TopicPartitionList) {
        // Nothing had moved.
        if matches!(&result, Err(e) if e.rdkafka_error_code() == Some(RDKafkaErrorCode::NoOffset)) {
            return;
        }
        let mut first = result.err();
        if first.is_none() {
            let mut confirmed = self.confirmed.lock().expect("no holder panics");
            for one in offsets.elements() {
                match (one.error(), one.offset()) {
                    (Err(error), _) => first = first.or(Some(error)),
                    (Ok(()), Offset::Offset(at)) => {
                        confirmed.insert((one.topic().to_owned(), one.partition()), at);
                    }
                    (Ok(()), _) => {}
                }
            }
        }
        match first {
            Some(error) => self.refused(&error),
            None => self.taken_on(),
        }
    }

    /// As librdkafka's default, but that partitions may stay for a while.
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        what: RDKafkaRespErr,
        partitions: &mut TopicPartitionList,
    ) {
        let done = if what == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            let given = match consumer.rebalance_protocol() {
                RebalanceProtocol::Cooperative => consumer.incremental_assign(partitions),
                RebalanceProtocol::Eager | RebalanceProtocol::None => consumer.assign(partitions),
            };
            // librdkafka keeps it for a paused partition, even while another member has it.
            match (self.resting.load(Relaxed), self.rested.load(Relaxed)) {
                (true, _) => given.and_then(|()| consumer.pause(partitions)),
                (false, true) => given.and_then(|()| consumer.resume(partitions)),
                (false, false) => given,
            }
        } else if !self.hold.load(Relaxed) {
            Context::let_go(consumer, partitions)
        } else {
            let mut moves = self.moves.lock().expect("no holder panics");
            self.moved.store(true, Relaxed);
            if consumer.assignment_lost() {
                let mut lost = std::mem::take(&mut moves.leaving);
                lost.extend(names(partitions));
                moves.lost.extend(lost);
                Context::let_go(consumer, partitions)
            } else if partitions.count() == 0 {
                Context::let_go(consumer, partitions)
            } else {
                moves.leaving.extend(names(partitions));
                Ok(())
            }
        };
        if let Err(error) = done {
            // The group itself detects a member that does not respond, and removes it.
            self.link.say(&format!("partitions that the group moves: {error}"));
        }
    }
}
