//! The file writer: runs that control systems start and stop by messages become NeXus files.
//!
//! A `Service` works without Kafka: it is told of messages and of the time, and says what to read, what to answer and what
//! to write. `serve` brings the broker, and is all of `fullcount write` but flags and printing. One `Job` is one file. After every flush a
//! job's place in each partition is written beside the file in one step, so that a killed writer goes on exactly there.
//!
//! Refuses unsafe paths, broken structures, jobs that are there already, stops in the past, and messages that do not
//! fit what the structure says; each refusal has its counter. Source: `docs/formats/nexus.md` sections 1 to 8,
//! `docs/formats/flatbuffers.md` sections 5 and 8.
#![forbid(unsafe_code)]

#[cfg(feature = "files")]
mod behind;
#[cfg(feature = "files")]
mod column;
#[cfg(feature = "files")]
mod counter;
#[cfg(feature = "files")]
mod dealt;
#[cfg(feature = "files")]
mod file;
#[cfg(feature = "files")]
mod job;
#[cfg(feature = "files")]
mod journal;
#[cfg(feature = "files")]
mod make;
#[cfg(feature = "files")]
mod module;
#[cfg_attr(not(feature = "files"), allow(dead_code, reason = "structures need topics only"))]
mod name;
#[cfg(feature = "files")]
mod pixels;
#[cfg(feature = "files")]
mod refusal;
#[cfg(feature = "files")]
mod reserve;
#[cfg(feature = "files")]
mod salvage;
#[cfg(feature = "files")]
mod serve;
#[cfg(feature = "files")]
mod service;
pub mod structure;
#[cfg(feature = "files")]
mod summary;
#[cfg(feature = "files")]
mod suspect;
#[cfg(feature = "files")]
mod template;

#[cfg(feature = "files")]
pub use counter::WriteCounter;
#[cfg(feature = "files")]
pub use job::{Job, ReadFrom, TopicRecord, WantedPartition};
#[cfg(feature = "files")]
pub use journal::{JournalError, MessageSpot};
#[cfg(feature = "files")]
pub use refusal::OrderRefusal;
#[cfg(feature = "files")]
pub use serve::{ServeError, WriterSetup, serve};
#[cfg(feature = "files")]
pub use service::{Note, Options, Reply, Service, TopicFault, Topics, WriterError};
#[cfg(feature = "files")]
pub use summary::{FinalCount, WriterSummary};

use name::is_topic;
