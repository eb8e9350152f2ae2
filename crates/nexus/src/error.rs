//! Errors of a NeXus file, with path, value and what to do.
//!
//! Source: `docs/contracts.md`, "Errors".

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use fullcount_io::building::{BuildingError, PathFault};

/// A NeXus file that cannot be written, recovered or checked.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum NexusError {
    /// The detector has no pixels: event_id would have nothing to refer to.
    #[error(
        "output.nexus: detector has no pixels, and NXevent_data needs pixel numbers; \
         use another output, for example `--sink null`"
    )]
    NoPixels,
    /// The pixel map contradicts itself.
    #[error("output.nexus: pixel map of \"{panel}\": {message}")]
    PixelMap { panel: String, message: String },
    /// An option outside its range.
    #[error("output.nexus.{key}: {value} is not allowed: {allowed}")]
    Option { key: Cow<'static, str>, value: String, allowed: &'static str },
    /// No file can be made at that path.
    #[error("output.nexus.path: {}: {fault}", path.display())]
    Path { path: PathBuf, fault: PathFault },
    /// A complete file is at that path already.
    #[error(
        "output.nexus.path: {}: the file exists ({bytes} bytes); replace it with --overwrite \
         (output.nexus.overwrite = true), or choose another path",
        path.display()
    )]
    Exists { path: PathBuf, bytes: u64 },
    /// A living process has the file open.
    #[error("{}: another process has the file open; wait for it to end or choose another path", path.display())]
    InUse { path: PathBuf },
    /// No HDF5 file at all.
    #[error("{}: not an HDF5 file", path.display())]
    NotHdf5 { path: PathBuf },
    /// An HDF5 file that this program did not write; it was left as it was.
    #[error("{}: not a file written by fullcount ({missing} is missing); left as it was", path.display())]
    NotOurs { path: PathBuf, missing: String },
    /// A complete file of which the end is missing, as after an interrupted copy.
    #[error(
        "{}: the file is cut short ({length} of {whole} bytes) though its run was complete; \
         copy it again; left as it was",
        path.display()
    )]
    Short { path: PathBuf, length: u64, whole: u64 },
    /// The disk has no room for the repair; the file was left as it was.
    #[error(
        "{}: recovering it may take {needed} bytes of room on its disk, which has not so many: free some, or \
         copy the file to another disk and recover it there; left as it was",
        path.display()
    )]
    NoRoom { path: PathBuf, needed: u64 },
    /// The system refused.
    #[error("{}: cannot {doing}: {source}", path.display())]
    Io { path: PathBuf, doing: &'static str, source: io::Error },
    /// HDF5 refused (a full disk shows up here).
    #[error("{}: cannot {doing}: {message}", path.display())]
    Hdf5 { path: PathBuf, doing: String, message: String },
    /// The closed file does not hold what was written.
    #[error(
        "{}: {found} events in the closed file instead of {written}; keep the file and report this",
        path.display()
    )]
    Count { path: PathBuf, found: u64, written: u64 },
}

impl From<BuildingError> for NexusError {
    fn from(e: BuildingError) -> NexusError {
        match e {
            BuildingError::Path { path, fault } => NexusError::Path { path, fault },
            // A leftover of a killed run is removed, so it never blocks.
            BuildingError::InUse { path } | BuildingError::Left { path } => {
                NexusError::InUse { path }
            }
            BuildingError::Io { path, doing, source } => NexusError::Io { path, doing, source },
        }
    }
}

/// Adds path and action to a system error.
pub fn io_error<'a>(
    path: &'a Path,
    doing: &'static str,
) -> impl FnOnce(io::Error) -> NexusError + 'a {
    move |source| NexusError::Io { path: path.to_owned(), doing, source }
}

/// Adds path and action to a library error.
pub fn hdf5_error<'a>(
    path: &'a Path,
    doing: &'a str,
) -> impl FnOnce(hdf5_metno::Error) -> NexusError + 'a {
    move |e| NexusError::Hdf5 {
        path: path.to_owned(),
        doing: doing.to_owned(),
        message: plain(&e.to_string()),
    }
}

/// The library's words without the time, the addresses and the line break that it puts among those of the system.
fn plain(words: &str) -> String {
    let found = || -> Option<String> {
        let (what, rest) = words.split_once("time = ")?;
        let (_, rest) = rest.split_once("errno = ")?;
        let (number, rest) = rest.split_once(", error message = '")?;
        let (reason, _) = rest.split_once('\'')?;
        Some(format!("{what}{reason} (os error {number})"))
    };
    found().unwrap_or_else(|| words.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_said_is_what_is_left_of_the_words_of_the_library() {
        let words = "H5Dflush(): unable to flush dataset: file write failed: time = Sun Nov 22 03:03:03 2026\n, \
                     filename = 'a.nxs', file descriptor = 7, errno = 30, error message = 'Read-only file system', \
                     buf = 0x7f8dc8210e28, total write size = 4096, bytes this sub-write = 4096, offset = 36528";
        let plainly = "H5Dflush(): unable to flush dataset: file write failed: Read-only file system (os error 30)";
        assert_eq!(plain(words), plainly);
        assert_eq!(plain("H5Dopen(): no such object"), "H5Dopen(): no such object");
    }
}
