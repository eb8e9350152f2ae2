//! Errors of a file of tables, with key, path and what to do.
//!
//! Source: `docs/contracts.md`, "Errors".

use std::io;
use std::path::{Path, PathBuf};

use super::options::TableFormat;
use fullcount_io::building::PathFault;

/// A file of tables that cannot be written.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum TableError {
    /// The ending names no format.
    #[error("{key}: {}: {}", path.display(), TableFormat::ENDINGS)]
    Ending { key: &'static str, path: PathBuf },
    /// No file can be made at that path.
    #[error("{key}: {}: {fault}", path.display())]
    Path { key: &'static str, path: PathBuf, fault: PathFault },
    /// A file is at that path already.
    #[error(
        "{key}: {}: the file exists ({bytes} bytes); replace it with --overwrite ({output}.overwrite = true), or choose \
         another path",
        path.display()
    )]
    Exists { key: &'static str, output: String, path: PathBuf, bytes: u64 },
    /// A run that did not end has left a file.
    #[error(
        "{key}: {}: left by a run that did not end; move it away, or replace it with --overwrite ({output}.overwrite = true)",
        path.display()
    )]
    Left { key: &'static str, output: String, path: PathBuf },
    /// Another run is writing it.
    #[error("{key}: {}: another run is writing it; wait for it to end or choose another path", path.display())]
    InUse { key: &'static str, path: PathBuf },
    /// A file came to stand at the name while this one was written; it is not replaced.
    #[error(
        "{}: another file came to stand there while this one was written; the finished table is {}",
        path.display(),
        part.display()
    )]
    Appeared { path: PathBuf, part: PathBuf },
    /// The system refused.
    #[error("{}: cannot {doing}: {source}", path.display())]
    Io { path: PathBuf, doing: &'static str, source: io::Error },
    /// The library of the format refused (a full disk shows up here).
    #[error("{}: cannot {doing}: {message}", path.display())]
    Library { path: PathBuf, doing: &'static str, message: String },
    /// The closed file does not hold what was written.
    #[error(
        "{}: {found} rows of {table} in the closed file instead of {written}; keep the file and report this",
        path.display()
    )]
    Count { path: PathBuf, table: &'static str, found: u64, written: u64 },
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
