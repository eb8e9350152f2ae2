//! A job whose file cannot be written: what is not in it, where that is still to be had, and what to change.
//!
//! Source: `docs/write.md`, "What goes wrong while it writes".

use std::io::{self, ErrorKind};

use serde_json::{Map, Value, json};

use super::super::file::{LeftOpen, RowCounts};
use super::super::journal::{JournalError, MessageSpot, Order};
use super::FlushError;
use fullcount_nexus::NexusError;
use fullcount_nexus::disk::LATE;

/// Partitions that the words name; the facts have all.
const NAMED: usize = 8;

/// What is left of a job whose file cannot be written.
#[derive(Debug)]
pub(crate) struct Lost {
    pub(crate) order: Order,
    /// Up to where the file is good.
    pub(crate) rows: RowCounts,
    /// Whether it can be cut.
    pub(crate) left: LeftOpen,
    pub(super) error: FlushError,
    /// Taken, but not in the file.
    pub(super) events: u64,
    /// Messages that they came in, and those of slow channels.
    pub(super) messages: u64,
    /// The next message of each partition that is not in the file.
    pub(super) held: Vec<MessageSpot>,
}

impl Lost {
    /// What people are told; `cut` is what came of bringing the file to its last flush.
    pub(crate) fn words(&self, cut: &Result<(), NexusError>) -> String {
        let Lost { error, events, messages, .. } = self;
        let held = self.held(cut);
        let file = match cut {
            _ if self.is_late() => "what was flushed may not be on the disk: all of the run is to be written again".to_owned(),
            _ if self.left == LeftOpen::Away => {
                "another file stands there now; where this one is, it is as after a kill (`fullcount recover`)".to_owned()
            }
            Ok(()) => "the file holds everything up to its last flush".to_owned(),
            Err(_) if is_gone(cut) => "with it everything that was flushed".to_owned(),
            Err(e) => format!(
                "nor can it be cut to its last flush: {e}; readers need swmr=True, or `h5clear -s` when the disk is sound"
            ),
        };
        let missing = match held {
            [] => String::new(),
            held => {
                let spot =
                    |s: &MessageSpot| format!("{}/{} offset {}", s.topic, s.partition, s.offset);
                let mut spots: Vec<String> = held.iter().take(NAMED).map(spot).collect();
                if let more @ 1.. = held.len().saturating_sub(NAMED) {
                    spots.push(format!("{more} more"));
                }
                format!(
                    "; not in it: {messages} messages with {events} events that came since, and what comes from {} on",
                    spots.join(", ")
                )
            }
        };
        let advice = self.advice();
        format!(
            "{error}; {file}{missing}; {advice}, then start the run again with its start and stop time and another file \
             name"
        )
    }

    /// The same for programs.
    pub(crate) fn facts(&self, cut: &Result<(), NexusError>) -> Map<String, Value> {
        let mut from = Map::new();
        for MessageSpot { topic, partition, offset } in self.held(cut) {
            let of_topic = from.entry(topic.clone()).or_insert_with(|| json!({}));
            of_topic[partition.to_string()] = (*offset).into();
        }
        [
            ("events_unwritten", self.events.into()),
            ("messages_unwritten", self.messages.into()),
            ("continue_from", from.into()),
        ]
        .map(|(key, value): (&str, Value)| (key.to_owned(), value))
        .into_iter()
        .collect()
    }

    /// From where on the messages are not in the file; nothing if the file is of no use.
    fn held(&self, cut: &Result<(), NexusError>) -> &[MessageSpot] {
        if is_gone(cut) || self.is_late() { &[] } else { &self.held }
    }

    /// The disk refused what earlier flushes had written.
    fn is_late(&self) -> bool {
        self.error.to_string().contains(LATE)
    }

    fn advice(&self) -> &'static str {
        if self.left == LeftOpen::Away {
            return "leave a file where it is while it is written";
        }
        match self.system_error().map(|error| error.kind()) {
            Some(ErrorKind::StorageFull) => "free space on the disk",
            Some(ErrorKind::QuotaExceeded) => "free space or raise the quota",
            Some(ErrorKind::ReadOnlyFilesystem) => "mount the disk for writing",
            Some(ErrorKind::FileTooLarge) => {
                "raise the limit of file sizes (ulimit -f, LimitFSIZE=)"
            }
            Some(ErrorKind::NotFound) => "put the file back, or make the folder again",
            Some(ErrorKind::PermissionDenied) => "correct the permissions of the folder",
            _ => "look at the disk and what the system says of it (`dmesg`)",
        }
    }

    /// What the system said, if it was the system.
    fn system_error(&self) -> Option<io::Error> {
        let words = match &self.error {
            FlushError::File(error @ (NexusError::Io { .. } | NexusError::Hdf5 { .. })) => {
                error.to_string()
            }
            FlushError::Journal(error @ JournalError::Io { .. }) => error.to_string(),
            FlushError::File(_) | FlushError::Journal(_) => return None,
        };
        let (_, rest) = words.rsplit_once("(os error ")?;
        let number = rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
        number.map(io::Error::from_raw_os_error)
    }
}

/// True if there is no file any more.
fn is_gone(cut: &Result<(), NexusError>) -> bool {
    matches!(cut, Err(NexusError::Io { source, .. }) if source.kind() == ErrorKind::NotFound)
}
