//! The end of each partition: which messages of our spool are on the topic already.
//!
//! A killed process may have sent messages whose confirmation it never received. They have their identity in a header;
//! all of them are after the last offset whose confirmation was stored, or, if there is none, after the time at which
//! the oldest waiting message was appended.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Headers as _, Message as _};
use rdkafka::topic_partition_list::Offset;

use super::link::Link;
use super::sender::IDENTITY_HEADER;
use super::settings::KafkaSettings;
use fullcount_spool::Identity;

/// Longest wait for one answer.
const ANSWER: Duration = Duration::from_secs(5);
/// The broker's clock may be this far behind ours, ms.
const CLOCKS_MS: i64 = 60_000;

/// Where to look.
pub(super) struct Tail<'a> {
    pub brokers: &'a str,
    pub topic: &'a str,
    pub settings: &'a KafkaSettings,
    pub partitions: i32,
    pub spool: [u8; 16],
    /// Last confirmed offset of each partition.
    pub offsets: &'a BTreeMap<i32, i64>,
    /// Append time of the oldest message that waits, ms since 1970.
    pub oldest_ms: i64,
    pub link: &'a Link,
}

impl Tail<'_> {
    /// Reads to the end of every partition. `None` if `stop` says so first.
    ///
    /// # Errors
    /// The broker's word; try again.
    pub fn read(&self, stop: &dyn Fn() -> bool) -> Result<Option<HashSet<Identity>>, KafkaError> {
        let mut config = self.settings.consumer(self.brokers);
        config.set("group.id", "fullcount-tail").set("enable.partition.eof", "true");
        // Ours are in no transaction; what others have open must not hold us up.
        config.set("isolation.level", "read_uncommitted");
        let consumer: BaseConsumer = config.create()?;
        let mut from = TopicPartitionList::new();
        let mut left = HashSet::new();
        for partition in 0..self.partitions {
            let (low, high) = consumer.fetch_watermarks(self.topic, partition, ANSWER)?;
            let known = self.offsets.get(&partition).map(|offset| offset + 1);
            let start = match known.filter(|start| (low..=high).contains(start)) {
                Some(start) => start,
                None => self.by_time(&consumer, partition, low, high)?,
            };
            if start < high {
                from.add_partition_offset(self.topic, partition, Offset::Offset(start))?;
                left.insert(partition);
            }
        }
        let mut found = HashSet::new();
        if left.is_empty() {
            return Ok(Some(found));
        }
        consumer.assign(&from)?;
        while !left.is_empty() {
            if stop() {
                return Ok(None);
            }
            match consumer.poll(Duration::from_millis(100)) {
                None => {}
                Some(Ok(message)) => {
                    let headers = message.headers();
                    let headers = headers.iter().flat_map(|all| all.iter());
                    let ours = headers.filter(|h| h.key == IDENTITY_HEADER);
                    let identities = ours.filter_map(|h| Identity::from_bytes(h.value?));
                    found.extend(identities.filter(|i| i.spool == self.spool));
                }
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    left.remove(&partition);
                }
                Some(Err(error)) => match error.rdkafka_error_code() {
                    // It reconnects by itself.
                    Some(
                        RDKafkaErrorCode::BrokerTransportFailure
                        | RDKafkaErrorCode::AllBrokersDown
                        | RDKafkaErrorCode::OperationTimedOut,
                    ) => self.link.error(&error, &error.to_string()),
                    _ => return Err(error),
                },
            }
        }
        Ok(Some(found))
    }

    fn by_time(
        &self,
        consumer: &BaseConsumer,
        partition: i32,
        low: i64,
        high: i64,
    ) -> Result<i64, KafkaError> {
        let mut ask = TopicPartitionList::new();
        let time = Offset::Offset((self.oldest_ms - CLOCKS_MS).max(0));
        ask.add_partition_offset(self.topic, partition, time)?;
        let answer = consumer.offsets_for_times(ask, ANSWER)?;
        let offset = answer.find_partition(self.topic, partition).map(|found| found.offset());
        Ok(match offset {
            Some(Offset::Offset(offset)) => offset.clamp(low, high),
            Some(Offset::End) => high,
            // No answer to that question: all of it.
            _ => low,
        })
    }
}
