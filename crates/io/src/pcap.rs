//! Captures: reads (pcap, pcapng), writes, and plays them like a network.
//!
//! [`read`] gives frames, [`datagrams`] the UDP payloads in them, [`play`] a [`Source`](crate::source::Source) of them
//! at recorded speed, a factor of it or flat out, and [`mod@write`] makes captures. Frames other than UDP datagrams are
//! counted and are no error; a file that is no capture is one, and with `ip=plain-v4` one of another link type.

mod blocks;
pub mod clock;
pub mod datagrams;
mod kind;
pub mod play;
pub mod read;
mod replayed;
pub mod schedule;
pub(crate) mod trains;
pub(crate) mod url;
pub mod write;

pub use datagrams::{CaptureTally, CapturedDatagram, Datagrams};
pub use kind::PcapKind;
pub use play::{PcapSource, Shift};
pub use read::{CaptureReader, CapturedFrame, ReadError, Tail};
pub use replayed::Replayed;
pub use schedule::{MonotonicClock, ReplayClock, Schedule};
pub use write::{CaptureFormat, CaptureWriteError, Writer};
