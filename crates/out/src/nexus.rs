//! Events in NeXus/HDF5 files that the field's readers open: h5py, scippnexus, Mantid.
//!
//! [`NexusSink`] writes one file per run. The structure and every attribute follow `docs/formats/nexus.md`
//! (its surprises included); [`check`] tests a file against those rules. The file is in SWMR mode while
//! it is written, so `h5py.File(path, "r", swmr=True)` reads along. After a kill everything up to the
//! last flush is there, and [`recover()`] makes the file readable by every reader; the next start with
//! the same path does that by itself.
//!
//! A flush (every 2 s by default) goes in the order in which readers need things: `event_id` and
//! `event_time_offset`, then `event_index`, then `event_time_zero`, cues, `total_counts`, and last
//! `/entry/fullcount/committed` = \[events, pulses\]. That pair is one write of 16 bytes. It says which rows belong
//! together; what lies behind it was still on its way, and [`recover()`] cuts it off, since events
//! without their pulse row would be read as events of the pulse before.
//!
//! [`NexusSink::prepare`] does everything that can fail beside the path; [`PreparedFile::publish`] moves the
//! file there in one step. A file that nothing was ever put into is removed when its sink is dropped
//! without [`finish`](crate::sink::Sink::finish): a failed start leaves no dead file behind.
//!
//! Refuses: detectors without pixels, names that do not fit into an HDF5 path, existing files (unless
//! told to replace them), files that another process is writing.

mod about;
pub(crate) mod block;
pub(crate) mod cells;
mod check;
mod clock;
mod column;
mod deflate;
pub(crate) mod disk;
pub(crate) mod error;
pub(crate) mod layout;
pub(crate) mod lock;
mod options;
mod packers;
pub(crate) mod place;
mod prefix;
mod recover;
pub(crate) mod shape;
mod sink;
pub(crate) mod superblock;
pub(crate) mod sys;
pub(crate) mod when;
mod writer;

#[cfg(test)]
mod block_tests;
#[cfg(test)]
mod check_tests;
#[cfg(test)]
mod sink_tests;

pub use about::{About, Sample, User};
pub use check::{Violation, check};
pub use error::NexusError;
pub use options::{
    Compression, DiskWay, EventIdType, Existing, NexusOptions, Packing, StartAttribute,
};
pub use place::PathFault;
pub use recover::{Recovered, recover};
pub use sink::{NexusCounter, NexusSink, PreparedFile};
pub use sys::ignore_environment;
