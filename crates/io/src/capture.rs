//! Captures all packets that a run receives, in addition to its events: pcapng with kernel times, rotating.
//!
//! `tap` is a source around a source: it copies whole trains into preallocated blocks and passes full ones through a
//! ring, so the receiving thread takes no lock and allocates nothing. A separate thread makes frames of them
//! (`frames`); another one appends them to files (`files`, `disk`) in large pieces. `taps` is the consuming side, for
//! any output of packets as they were received. If it cannot keep up, packets of a source that does not wait are not
//! captured and counted as `sink.capture.dropped`, in the ledger and in the file; a source that can wait waits.
//!
//! Sockets deliver payloads, so Ethernet, IP and UDP headers are synthetic: addresses and ports are those of the
//! datagram, hardware addresses and time to live are not. A datagram is one frame, even if it came in fragments.
//! Refuses: an existing file unless it may be replaced, rotation below 1 MiB or 1 s, `keep` without rotation, the name
//! of a classic pcap. Source: draft-ietf-opsawg-pcapng; `docs/architecture.md`.

mod block;
mod change;
mod disk;
mod files;
mod frames;
mod kind;
mod room;
mod tap;
mod taps;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fullcount_core::wall::WallClock;

pub use files::is_of_series;
pub use kind::PacketFile;
pub use tap::{Captured, Tap};
pub use taps::{TapOptions, Taps, Turn, lines};
pub use writer::{Capture, CaptureReport, RunningCapture, Written};

/// Smallest and largest buffer between receiver and writer.
pub const BUFFER_MIN: u64 = 8 << 20;
/// See [`BUFFER_MIN`].
pub const BUFFER_MAX: u64 = 16 << 30;
/// Smallest file before the next one begins: below it, a file a millisecond would be made at 10 Gb/s.
pub const ROTATE_SIZE_MIN: u64 = 1 << 20;
/// Shortest time before the next file begins.
pub const ROTATE_TIME_MIN: Duration = Duration::from_secs(1);

/// What is captured where.
#[derive(Debug, Clone)]
pub struct CaptureOptions {
    /// File; with rotation `run.pcapng` means `run-00001.pcapng`, `run-00002.pcapng`, …
    pub file: PathBuf,
    /// The next file begins before this one would be larger, bytes.
    pub rotate_size: Option<u64>,
    /// The next file begins when its first packet is this much later than this one's.
    pub rotate_time: Option<Duration>,
    /// Files that stay of a series, the oldest goes first; `None`: all.
    pub keep: Option<u32>,
    /// Replace an existing file. A series never replaces any: it continues after its highest number.
    pub overwrite: bool,
    /// Memory between receiver and writer, bytes, all workers together.
    pub buffer: u64,
    /// What is not captured is a loss of the run, and a source that can wait is made to.
    pub required: bool,
    /// Both clocks of a run whose times are the host's: the capture carries what joins them.
    pub wall: Option<Arc<WallClock>>,
}

impl CaptureOptions {
    /// One file, 512 MiB of buffer (400 ms of 10 Gb/s), required.
    pub fn new(file: impl Into<PathBuf>) -> CaptureOptions {
        CaptureOptions {
            file: file.into(),
            rotate_size: None,
            rotate_time: None,
            keep: None,
            overwrite: false,
            buffer: 512 << 20,
            required: true,
            wall: None,
        }
    }

    /// True if there may be more than one file.
    pub fn rotates(&self) -> bool {
        self.rotate_size.is_some() || self.rotate_time.is_some()
    }
}

/// Why nothing, or nothing more, is captured.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum CaptureError {
    #[error(
        "capture {path} exists: choose another name, set output.capture.overwrite, or rotate \
         (output.capture.rotate_size), which goes on behind the files that are there"
    )]
    Exists { path: String },
    #[error(
        "capture {path}: another process is writing it; wait for it to end or choose another path"
    )]
    InUse { path: String },
    #[error("capture {path}: {what}: {cause}")]
    System { path: String, what: &'static str, cause: std::io::Error },
    #[error("capture: its thread panicked")]
    Panicked,
}

#[cfg(test)]
#[path = "capture/change_tests.rs"]
mod change_tests;
#[cfg(test)]
#[path = "capture/capture_tests.rs"]
mod tests;
