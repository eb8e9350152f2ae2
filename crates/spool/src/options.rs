//! Options of a spool, what a start finds in it, and what waits in it.

use std::path::PathBuf;
use std::time::SystemTime;

use super::acknowledged::Mark;

/// A new file begins after this many bytes: deleting one frees that much at once.
const SEGMENT: u64 = 64 << 20;

/// What a spool is opened with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpoolOptions {
    /// Folder of its files; created if it does not exist.
    pub folder: PathBuf,
    /// Whose messages these are, for example topic and source name, one line. A folder with another stream's messages
    /// is refused.
    pub stream: String,
    /// Most bytes on disk, 16 MiB or more.
    pub limit: u64,
    /// A new file begins after this many bytes; default 64 MiB, and at most an eighth of the bound.
    pub segment: u64,
    /// Make appends outlive a loss of power as well; default. Without it they outlive a killed process.
    pub commit: bool,
}

impl SpoolOptions {
    /// Defaults, with a bound of 4 GiB.
    pub fn new(folder: impl Into<PathBuf>, stream: impl Into<String>) -> SpoolOptions {
        SpoolOptions {
            folder: folder.into(),
            stream: stream.into(),
            limit: 4 << 30,
            segment: SEGMENT,
            commit: true,
        }
    }
}

/// What was found when a spool was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpoolStart {
    /// Whole messages that an earlier process appended and that are not known to be confirmed.
    pub messages: u64,
    /// Events in them.
    pub events: u64,
    /// Messages that are damaged or missing: lost, unless the topic has them.
    pub damaged: u64,
    /// Events in them, of those messages of which it is known.
    pub damaged_events: u64,
    /// Appends that were cut off: never completed, so no loss.
    pub torn: u64,
    /// Files that are damaged or do not belong here: heads of segments, whole segments (kept as `*.damaged`), the mark.
    pub unreadable: u64,
    /// A sentence for people about each of these.
    pub told: Vec<String>,
    /// Running number that follows the last one.
    pub next_id: u64,
    /// What an earlier process knew to be confirmed.
    pub mark: Option<Mark>,
    /// Append time of the oldest message that waits, ms since 1970.
    pub oldest_ms: Option<i64>,
    /// When an earlier process last wrote here.
    pub touched: Option<SystemTime>,
    /// The last [note](super::NOTE) that was appended with a message.
    pub note: Option<Vec<u8>>,
}

/// What waits in a spool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Depth {
    /// Messages appended and neither confirmed nor given up as damaged.
    pub messages: u64,
    /// Events in them.
    pub events: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Bound of these.
    pub limit: u64,
    /// Events in messages that were given up as damaged, since this process began.
    pub damaged_events: u64,
    /// Time since the oldest of them was appended, ms; 0 if none waits. Known to 100 ms.
    pub age_ms: u64,
}

impl Depth {
    /// How full it is, percent of its bound; 0 without one.
    pub fn percent(&self) -> u64 {
        (self.bytes.saturating_mul(100)).checked_div(self.limit).unwrap_or(0)
    }
}
