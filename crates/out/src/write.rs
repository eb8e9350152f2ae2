//! The file writer: runs that control systems start and stop by messages become NeXus files.
//!
//! Everything here works without Kafka: a `Service` is told of messages and of the time, and says what to read,
//! what to answer and what to write; `fullcount write` brings the broker. One `Job` is one file. After every flush a
//! job's place in each partition is written beside the file in one step, so that a killed writer goes on exactly there.
//!
//! Refuses unsafe paths, broken structures, jobs that are there already, stops in the past, and messages that do not
//! fit what the structure says; each refusal has its counter. Source: `docs/formats/nexus.md` sections 1 to 8,
//! `docs/formats/flatbuffers.md` sections 5 and 8.

#[cfg(feature = "nexus")]
mod behind;
#[cfg(feature = "nexus")]
mod column;
#[cfg(feature = "nexus")]
mod counter;
#[cfg(feature = "nexus")]
mod dealt;
#[cfg(feature = "nexus")]
mod file;
#[cfg(feature = "nexus")]
mod job;
#[cfg(feature = "nexus")]
mod journal;
#[cfg(feature = "nexus")]
mod make;
#[cfg(feature = "nexus")]
mod module;
#[cfg_attr(not(feature = "nexus"), allow(dead_code, reason = "structures need topics only"))]
mod name;
#[cfg(feature = "nexus")]
mod pixels;
#[cfg(feature = "nexus")]
mod refusal;
#[cfg(feature = "nexus")]
mod reserve;
#[cfg(feature = "nexus")]
mod salvage;
#[cfg(feature = "nexus")]
mod service;
pub mod structure;
#[cfg(feature = "nexus")]
mod suspect;
#[cfg(feature = "nexus")]
mod template;
#[cfg(feature = "nexus")]
mod writeback;

#[cfg(feature = "nexus")]
pub use counter::WriteCounter;
#[cfg(feature = "nexus")]
pub use job::{Begin, Job, Record, Wanted};
#[cfg(feature = "nexus")]
pub use journal::{JournalError, Spot};
#[cfg(feature = "nexus")]
pub use refusal::Refusal;
#[cfg(feature = "nexus")]
pub use service::{Note, Options, Reply, Service, TopicFault, Topics, WriteError};

use name::is_topic;
