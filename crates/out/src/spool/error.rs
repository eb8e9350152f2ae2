//! What can go wrong with a spool, each with the folder and what to do.

use std::path::{Path, PathBuf};

/// A spool that cannot be opened or used.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// Another process has it.
    #[error(
        "spool {}: in use by another process; end that one, or give each instance a folder of its own \
         (output.kafka.spool)", folder.display()
    )]
    InUse {
        /// Where.
        folder: PathBuf,
    },
    /// It holds messages of another stream.
    #[error(
        "spool {}: belongs to `{there}`, not to `{wanted}`; give this stream another folder (output.kafka.spool)",
        folder.display()
    )]
    OtherStream {
        /// Where.
        folder: PathBuf,
        /// Whose it is.
        there: String,
        /// Whose it should be.
        wanted: String,
    },
    /// Its identity file is not one.
    #[error(
        "spool {}: the file `identity` is damaged, so what is here cannot be told from other messages on the topic; \
         move the folder away to start afresh", folder.display()
    )]
    Identity {
        /// Where.
        folder: PathBuf,
    },
    /// A bound out of range.
    #[error("spool size {bytes} B: {least} B at least")]
    Size {
        /// As given.
        bytes: u64,
        /// What would do.
        least: u64,
    },
    /// The system said no.
    #[error("spool {}: {doing}: {cause}", path.display())]
    Io {
        /// File or folder.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// The system's words.
        cause: std::io::Error,
    },
}

impl SpoolError {
    /// Wraps the system's words.
    pub(super) fn io(
        path: &Path,
        doing: &'static str,
    ) -> impl FnOnce(std::io::Error) -> SpoolError + use<> {
        let path = path.to_path_buf();
        move |cause| SpoolError::Io { path, doing, cause }
    }
}

/// Why a message was not appended. Nothing of it is on disk then.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The bound is reached, or the disk is full: room comes when the broker confirms older messages, or when
    /// somebody clears the disk.
    #[error("the spool is full: {bytes} B wait of at most {limit} B")]
    Full {
        /// What waits.
        bytes: u64,
        /// The bound.
        limit: u64,
    },
    /// No space on the disk.
    #[error("the disk of the spool is full: {0}")]
    DiskFull(std::io::Error),
    /// More than a record holds.
    #[error("a message of {bytes} B: a record of the spool holds {most} B")]
    TooLarge {
        /// What it would take.
        bytes: usize,
        /// What is allowed.
        most: usize,
    },
    /// The disk said no.
    #[error(transparent)]
    Spool(#[from] SpoolError),
}
