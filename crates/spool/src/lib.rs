//! The spool: a write-ahead log on disk between the service and a broker that may be down.
//!
//! A message is appended first and sent second. [`Spool::append`] gives it the next number of this spool, a
//! [`SpoolReader`] returns messages in that order, and [`Spool::settle`] removes them when the broker has confirmed
//! them; a segment file is deleted when all in it is settled. The next start after a kill reads the files and their
//! checksums: a torn end is dropped (its append was never complete), damage in the middle loses only the damaged
//! messages, and is counted.
//!
//! Nothing here knows Kafka. Refuses a folder that another process uses, one that belongs to another stream, and a
//! bound too small to work with. Source: `docs/contracts.md`, "Kafka down", and
//! `docs/decisions/0012-spool.md`.
#![forbid(unsafe_code)]

mod acknowledged;
mod error;
mod folder;
mod inventory;
mod keep;
mod note;
mod options;
mod queue;
mod reader;
mod record;
mod running;
mod scan;
mod segment;

#[cfg(test)]
mod damage_tests;
#[cfg(test)]
mod record_tests;
#[cfg(test)]
mod spool_tests;
#[cfg(test)]
mod version_one_tests;

pub use acknowledged::{Appended, Mark};
pub use error::{AppendError, SpoolError};
pub use options::{Depth, SpoolOptions, SpoolStart};
pub use queue::Spool;
pub use queue::now_ms;
pub use reader::{Next, SpoolReader};
pub use record::{Identity, NOTE, Outgoing, Stored};
