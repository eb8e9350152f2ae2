//! Captures: read (pcap, pcapng), written, and played like a network.
//!
//! [`read`] gives frames, [`datagrams`] the UDP payloads in them, [`play`] a
//! [`Source`](crate::source::Source) of them at recorded speed, a factor of it or flat out, and
//! [`mod@write`] makes captures. What a file holds besides UDP datagrams is counted, never an error;
//! only a file that is no capture is.

pub mod clock;
pub mod datagrams;
pub mod play;
pub mod read;
pub mod schedule;
pub(crate) mod trains;
pub mod write;

pub use datagrams::{Datagram, Datagrams, Tally};
pub use play::{PcapSource, Replayed, Shift};
pub use read::{ReadError, Reader, Record, Tail};
pub use schedule::{Clock, MonotonicClock, Schedule};
pub use write::{Format, WriteError, Writer};
