//! Options of a consumer, where it begins, and its errors.

use std::time::Duration;

use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::link::News;
use crate::settings::KafkaSettings;

/// Default of the longest wait for one answer.
const ANSWER: Duration = Duration::from_secs(10);

/// What a consumer is made with.
#[derive(Debug, Clone)]
pub struct ConsumerOptions {
    /// `host:port`, several with commas between them.
    pub brokers: String,
    /// Group that shares the partitions and whose offsets are committed. `None`: partitions are assigned by hand, and
    /// nothing can be committed.
    pub group: Option<String>,
    /// Partitions that the group wants for another member stay until [`Consumer::give_up`]: see [`Consumer::moves`].
    /// Only partitions that move are taken away (`partition.assignment.strategy` is `cooperative-sticky` unless set).
    pub hold: bool,
    /// Tell the end of each partition, every time that it is reached.
    pub tell_ends: bool,
    /// librdkafka's own settings.
    pub settings: KafkaSettings,
    /// Takes sentences for people.
    pub news: News,
    /// Longest wait for one answer of a broker.
    pub answer: Duration,
}

impl ConsumerOptions {
    /// Without a group, and with reports of ends of partitions.
    pub fn new(brokers: impl Into<String>) -> ConsumerOptions {
        ConsumerOptions {
            brokers: brokers.into(),
            group: None,
            hold: false,
            tell_ends: true,
            settings: KafkaSettings::default(),
            news: |_| {},
            answer: ANSWER,
        }
    }
}

/// Where reading a partition begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// At the oldest message that is there.
    Oldest,
    /// Behind the newest.
    Newest,
    /// At this offset.
    At(i64),
    /// At the first message whose Kafka timestamp is this or later, ms since 1970.
    Time(i64),
    /// At the group's offset; without one, at the oldest message.
    Committed,
}

/// A consumer cannot be created, or cannot continue.
#[derive(Debug, thiserror::Error)]
#[error("kafka {brokers}: {doing}: {cause}")]
pub struct ConsumeError {
    /// Where.
    pub brokers: String,
    /// What was tried.
    pub doing: String,
    /// librdkafka's words.
    #[source]
    pub cause: Box<KafkaError>,
}

impl ConsumeError {
    /// True if the broker knows no such topic, or no such partition of it.
    pub fn is_unknown_topic(&self) -> bool {
        self.cause.rdkafka_error_code().is_some_and(is_unknown)
    }

    /// True if the group has rebalanced meanwhile: a member that has joined again may commit its offsets.
    pub fn is_of_an_older_share(&self) -> bool {
        use RDKafkaErrorCode as E;
        matches!(
            self.cause.rdkafka_error_code(),
            Some(
                E::IllegalGeneration
                    | E::UnknownMemberId
                    | E::RebalanceInProgress
                    | E::AssignmentLost
            )
        )
    }
}

/// A picture of the topic that librdkafka is just renewing gives these for a partition that is there.
pub(super) fn passing(error: &KafkaError) -> bool {
    use RDKafkaErrorCode as E;
    matches!(
        error.rdkafka_error_code(),
        Some(E::UnknownPartition | E::LeaderNotAvailable | E::NotLeaderForPartition)
    )
}

pub(super) fn is_unknown(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as E;
    matches!(code, E::UnknownTopicOrPartition | E::UnknownTopic | E::UnknownPartition)
}

/// librdkafka continues by itself after these.
pub(super) fn mends(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as E;
    matches!(
        code,
        E::BrokerTransportFailure
            | E::AllBrokersDown
            | E::OperationTimedOut
            | E::Resolve
            | E::RequestTimedOut
            | E::LeaderNotAvailable
            | E::NotLeaderForPartition
            | E::CoordinatorLoadInProgress
            | E::CoordinatorNotAvailable
            | E::NotCoordinator
            // A topic that is to be made later.
            | E::UnknownTopicOrPartition
            | E::UnknownTopic
            | E::UnknownPartition
            | E::NoOffset
            | E::AutoOffsetReset
            | E::PollExceeded
    )
}
