//! Kafka: events out as FlatBuffers through the [spool](crate::spool), and any topic in.
//!
//! [`KafkaSink`] cuts events into messages ([`flat::EventStream`](crate::flat::EventStream)), appends each to the spool
//! and leaves it to a thread of its own to send them, skip what is on the topic already, and settle what the broker
//! confirms. [`Consumer`] reads topics. Both are librdkafka's, whose own settings pass through ([`Settings`]).
//!
//! Brokers that are down are no error, neither at the start nor later: it is said, counted, and tried again for ever.
//! Refuses, before anything is opened: addresses and topic names that cannot be, and settings that librdkafka does not
//! know or that would break what the spool promises. Source: `docs/formats/flatbuffers.md` sections 6 to 8,
//! `docs/decisions/0012-spool.md`.

mod address;
mod admin;
mod consumer;
mod counters;
mod farewell;
mod last_commit;
mod level;
mod link;
mod options;
mod publisher;
mod raw;
mod repeats;
mod replay;
mod secrets;
mod sender;
mod settings;
mod sink;
mod tail;

#[cfg(test)]
mod consumer_tests;
#[cfg(test)]
mod sink_tests;

pub use address::{Address, AddressError, check_brokers};
pub use admin::{Admin, AdminError};
pub use consumer::{Begin, ConsumeError, Consumer, ConsumerOptions, Message, Moves, Polled};
pub use counters::{ConsumerCounter, KafkaCounter};
pub use level::NEARLY_FULL;
pub use link::News;
pub use options::{Compression, KafkaOptions, MessageId, OptionError};
pub use publisher::{PublishError, Publisher};
pub use raw::{
    EPOCH_HEADER, RawCounter, RawKey, RawSink, SOURCE_HEADER, TIME_HEADER, origin, time,
};
pub use replay::{Beginning, Replay, Unfinished};
pub use sender::IDENTITY_HEADER;
pub use settings::{SettingError, Settings};
pub use sink::KafkaSink;
