//! Errors of a spool, each with the folder and what to do.

use std::path::{Path, PathBuf};

/// A spool that cannot be opened or used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum SpoolError {
    /// Another process has it.
    #[error(
        "spool {}: in use by another process; end that one, or give each instance a folder of its own \
         (output.kafka.spool)", folder.display()
    )]
    InUse { folder: PathBuf },
    /// It holds messages of another stream.
    #[error(
        "spool {}: belongs to `{there}`, not to `{wanted}`; give this stream another folder (output.kafka.spool)",
        folder.display()
    )]
    OtherStream { folder: PathBuf, there: String, wanted: String },
    /// Its identity file is not one.
    #[error(
        "spool {}: the file `identity` is damaged, so what is here cannot be told from other messages on the topic; \
         move the folder away to start afresh", folder.display()
    )]
    Identity { folder: PathBuf },
    /// A bound out of range.
    #[error("spool size {bytes} B: {least} B at least")]
    Size { bytes: u64, least: u64 },
    /// The system said no.
    #[error("spool {}: {doing}: {cause}", path.display())]
    Io { path: PathBuf, doing: &'static str, cause: std::io::Error },
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
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum AppendError {
    /// The bound is reached, or the disk is full: space is freed when the broker confirms older messages, or when the
    /// disk is cleaned up.
    #[error("the spool is full: {bytes} B wait of at most {limit} B")]
    Full { bytes: u64, limit: u64 },
    /// No space on the disk.
    #[error("the disk of the spool is full: {0}")]
    DiskFull(std::io::Error),
    /// More than a record holds.
    #[error("a message of {bytes} B: a record of the spool holds {most} B")]
    TooLarge { bytes: usize, most: usize },
    /// The disk said no.
    #[error(transparent)]
    Spool(#[from] SpoolError),
}
