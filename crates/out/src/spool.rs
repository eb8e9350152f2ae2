//! The spool: a write-ahead log on disk between the service and a broker that may be away.
//!
//! A message is appended first and sent second. [`Spool::append`] gives it the next number of this spool, a
//! [`SpoolReader`] hands messages on in that order, and [`Spool::settle`] forgets them once the broker has confirmed
//! them; whole segment files go when all in them is settled. What a process that was killed left behind is read back
//! with its checksums at the next start: a torn end is dropped (its append was never completed), damage in the middle
//! costs the damaged messages and no other, and is counted.
//!
//! Nothing here knows Kafka. Refuses a folder that another process uses, one that belongs to another stream, and a
//! bound too small to work with. Source: `docs/architecture.md`, contract "Kafka gone", and
//! `docs/decisions/0012-spool.md`.

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
pub use options::{Depth, SpoolOptions, Start};
pub use queue::Spool;
#[cfg(feature = "kafka")]
pub(crate) use queue::now_ms;
pub use reader::{Next, SpoolReader};
pub use record::{Identity, NOTE, Outgoing, Stored};
