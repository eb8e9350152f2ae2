//! What can go wrong with a file of tables, with key, path and what to do.
//!
//! Source: `docs/architecture.md`, "Errors".

use std::io;
use std::path::{Path, PathBuf};

use super::options::Format;
use crate::nexus::PathFault;

/// A file of tables that cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The ending names no format.
    #[error("{key}: {}: {}", path.display(), Format::ENDINGS)]
    Ending {
        /// Key of the file.
        key: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// No file can be made at that path.
    #[error("{key}: {}: {fault}", path.display())]
    Path {
        /// Key of the file.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        fault: PathFault,
    },
    /// A file is at that path already.
    #[error(
        "{key}: {}: the file exists ({bytes} bytes); replace it with --overwrite ({output}.overwrite = true), or choose \
         another path",
        path.display()
    )]
    Exists {
        /// Key of the file.
        key: &'static str,
        /// Section of the configuration.
        output: String,
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
    },
    /// A run that did not end has left a file.
    #[error(
        "{key}: {}: left by a run that did not end; move it away, or replace it with --overwrite ({output}.overwrite = true)",
        path.display()
    )]
    Left {
        /// Key of the file.
        key: &'static str,
        /// Section of the configuration.
        output: String,
        /// What was left.
        path: PathBuf,
    },
    /// Another run is writing it.
    #[error("{key}: {}: another run is writing it; wait for it to end or choose another path", path.display())]
    InUse {
        /// Key of the file.
        key: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// A file came to stand at the name while this one was written; it is not replaced.
    #[error(
        "{}: another file came to stand there while this one was written; the finished table is {}",
        path.display(),
        part.display()
    )]
    Appeared {
        /// The name.
        path: PathBuf,
        /// Where the finished file is.
        part: PathBuf,
    },
    /// The system refused.
    #[error("{}: cannot {doing}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// The system's words.
        source: io::Error,
    },
    /// The library of the format refused (a full disk shows up here).
    #[error("{}: cannot {doing}: {message}", path.display())]
    Library {
        /// The file.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// The library's words.
        message: String,
    },
    /// The closed file does not hold what was written.
    #[error(
        "{}: {found} rows of {table} in the closed file instead of {written}; keep the file and report this",
        path.display()
    )]
    Count {
        /// The file.
        path: PathBuf,
        /// Table.
        table: &'static str,
        /// Rows in the file.
        found: u64,
        /// Rows that were written.
        written: u64,
    },
}

/// Adds path and action to a system error.
pub(super) fn io_error<'a>(
    path: &'a Path,
    doing: &'static str,
) -> impl FnOnce(io::Error) -> TableError + 'a {
    move |source| TableError::Io { path: path.to_owned(), doing, source }
}

/// Adds path and action to a library's error.
pub(super) fn library_error<'a, E: ToString>(
    path: &'a Path,
    doing: &'static str,
) -> impl FnOnce(E) -> TableError + 'a {
    move |e| TableError::Library { path: path.to_owned(), doing, message: e.to_string() }
}
