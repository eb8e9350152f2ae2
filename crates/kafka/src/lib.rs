//! Kafka: events out as FlatBuffers through the [spool](fullcount_spool), and any topic in.
//!
//! [`KafkaSink`] divides events into messages ([`flat::EventStream`](fullcount_messages::EventStream)) and appends each
//! to the spool. A separate thread sends them, skips what is already on the topic, and settles what the broker
//! confirms. [`Consumer`] reads topics. Both use librdkafka and pass its settings through ([`KafkaSettings`]).
//!
//! Brokers that are down are no error, neither at the start nor later: this is reported and counted, and the connection
//! is retried for ever. Refuses, before anything is opened: invalid addresses and topic names, and settings that
//! librdkafka does not know or that would break the spool's guarantee. Source: `docs/formats/flatbuffers.md` sections 6
//! to 8, `docs/decisions/0012-spool.md`.
#![forbid(unsafe_code)]

mod address;
mod admin;
mod confirm;
mod consumer;
mod counters;
mod farewell;
mod kind;
mod last_commit;
mod level;
mod link;
mod merged;
mod options;
mod publisher;
mod raw;
mod raw_kind;
mod repeats;
mod replay;
mod secrets;
mod section;
mod sender;
mod settings;
mod sink;
mod tail;
mod topic;
mod way;

#[cfg(test)]
mod consumer_tests;
#[cfg(test)]
mod sink_tests;

pub use address::{Address, AddressError, check_brokers};
pub use admin::{Admin, AdminError};
pub use confirm::{EndWish, confirm};
pub use consumer::{Begin, ConsumeError, Consumer, ConsumerOptions, Moves, Polled, TopicMessage};
pub use counters::{ConsumerCounter, KafkaCounter};
pub use kind::Events;
pub use link::News;
pub use merged::{MergedCounter, MergedEvents, MergedSink};
pub use options::{KafkaOptions, MessageCompression, MessageId, OptionError};
pub use publisher::{PublishError, Publisher};
pub use raw::{
    EPOCH_HEADER, RawCounter, RawKey, RawSink, SOURCE_HEADER, TIME_HEADER, origin, time,
};
pub use raw_kind::Packets;
pub use replay::{Beginning, Unfinished};
pub use sender::IDENTITY_HEADER;
pub use settings::{KafkaSettings, SettingError};
pub use sink::KafkaSink;
pub use topic::{FromTopic, TopicKind};
