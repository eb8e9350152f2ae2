//! Events in NeXus/HDF5 files for the readers of the field: h5py, scippnexus, Mantid.
//!
//! [`file`](mod@file), [`events`] and [`column`](mod@column) write every such file, those of the file writer's jobs
//! too; [`cut`] and [`recover()`] make a file readable after a kill.
//!
//! [`NexusSink`] writes one file per run. The structure and every attribute follow `docs/formats/nexus.md` (its
//! surprises included); [`check`] tests a file against those rules. The file is in SWMR mode while it is written, so
//! `h5py.File(path, "r", swmr=True)` reads along. After a kill everything up to the last flush is there, and
//! [`recover()`] makes the file readable by every reader; the next start with the same path runs it.
//!
//! A flush (every 2 s by default) goes in the order in which readers need things: `event_id` and `event_time_offset`,
//! then `event_index`, then `event_time_zero`, cues, `total_counts`, and last `/entry/fullcount/committed` = \[events,
//! pulses\]. That pair is one write of 16 bytes. It says which rows belong together; rows after it were incomplete, and
//! [`recover()`] cuts them off, since events without their pulse row would be read as events of the pulse before.
//!
//! [`NexusSink::prepare`] does everything that can fail, next to the path; [`PreparedFile::publish`] moves the file
//! there atomically. An empty file is removed when its sink is dropped without
//! [`finish`](fullcount_core::sink::Sink::finish): a failed start leaves no dead file behind.
//!
//! Refuses: detectors without pixels, names that do not fit into an HDF5 path, existing files (unless
//! told to replace them), files that another process is writing.
#![deny(unsafe_code)]

mod about;
mod block;
mod cells;
mod change;
mod check;
mod clock;
pub mod column;
mod deflate;
pub mod disk;
pub mod error;
pub mod events;
pub mod file;
mod files;
mod heaps;
mod kind;
pub mod layout;
mod options;
pub mod packers;
mod prefix;
mod recover;
mod section;
mod sink;
pub mod spec;
mod superblock;
pub mod sys;
pub mod tables;
pub mod when;
mod writer;

#[cfg(test)]
mod block_tests;
#[cfg(test)]
mod check_tests;
#[cfg(test)]
mod files_tests;
#[cfg(test)]
mod sink_tests;

pub use about::{About, Sample, User};
pub use change::NexusOrders;
pub use check::{Violation, check};
pub use error::NexusError;
pub use fullcount_io::compression::{Compression, NoCompression};
pub use heaps::HeapFile;
pub use kind::Nexus;
pub use options::{DiskWay, EventIdType, Existing, NexusOptions, Packing, StartAttribute};
pub use recover::{Recovered, cut, recover};
pub use sink::{BUILDING, NexusCounter, NexusSink, PreparedFile};
pub use sys::ignore_environment;
