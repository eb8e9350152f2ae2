//! The files of a run: the one that is written, the one before it until its last pulse is over, and what those before held.
//!
//! A change is a cut between two pulses. Pulses up to the newest one that was seen belong to what was before, later ones to what
//! comes; so the file before stays open for [`GRACE`], as workers do not all get equally far. A further change closes it at once, but
//! waits until a pulse behind the last cut was seen: so no pulse is cut, and every event is in exactly one file.
//! Source: `docs/operations.md`, "Files by command".

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use fullcount_io::building::{Building, Leftover, landing};

use super::error::{NexusError, hdf5_error, io_error};
use super::layout;
use super::options::NexusOptions;
use super::sink::BUILDING;
use super::when::nanos;
use super::writer::Writer;

/// Longest time that the file before a cut stays open for what still comes of its pulses. A pulse is shorter: offsets are below
/// 2³¹ ns.
pub(super) const GRACE: Duration = Duration::from_millis(2200);

/// A file at its path, ready for events and for readers. Dropping it removes it.
#[derive(Debug)]
pub struct FileBegun {
    part: Option<FilePart>,
}

/// One open file.
#[derive(Debug)]
pub(super) struct FilePart {
    pub writer: Box<Writer>,
    pub path: PathBuf,
    /// Events refused by the run before it began.
    pub refused_before: u64,
}

impl FileBegun {
    /// Makes it, where nothing may be.
    ///
    /// # Errors
    /// As [`NexusSink::prepare`](super::NexusSink::prepare), or something is at the path.
    pub fn make(options: &NexusOptions) -> Result<FileBegun, NexusError> {
        options.validate()?;
        let path = landing(&options.path);
        let place = Building::reserve(&path, BUILDING, Leftover::Removed)?;
        if path.symlink_metadata().is_ok() {
            return Err(NexusError::Exists { path, bytes: 0 });
        }
        let mut part = FilePart::build(options, &path, place)?;
        if let Err(e) = part.writer.publish(false) {
            part.writer.let_go();
            return Err(io_error(&path, "move the file to its path")(e));
        }
        Ok(FileBegun { part: Some(part) })
    }

    /// It is written from here on, and stays.
    pub(super) fn begin(mut self, refused_before: u64) -> FilePart {
        let mut part = self.part.take().expect("taken once");
        part.writer.keep();
        FilePart { refused_before, ..part }
    }
}

impl Drop for FileBegun {
    fn drop(&mut self) {
        if let Some(part) = self.part.take() {
            part.writer.let_go();
        }
    }
}

impl FilePart {
    /// Builds the file at `place`; it is not at its path yet.
    pub fn build(
        options: &NexusOptions,
        path: &Path,
        place: Building,
    ) -> Result<FilePart, NexusError> {
        let start_ns = options.start_time_ns.unwrap_or_else(|| nanos(SystemTime::now()));
        layout::build(place.path(), options, start_ns)
            .map_err(hdf5_error(path, "create the file"))?;
        let writer = Box::new(Writer::open(options, path, place)?);
        Ok(FilePart { writer, path: path.to_owned(), refused_before: 0 })
    }
}

/// Where what comes was cut.
#[derive(Debug, Clone, Copy)]
struct Cut {
    /// The last pulse that belongs to what was before.
    upto: u64,
    /// When, since the start.
    at: Duration,
}

/// What the closed files hold.
#[derive(Debug, Default)]
pub(super) struct ClosedFiles {
    pub files: u64,
    pub events: u64,
    pub rows: u64,
    pub bytes: u64,
    pub first: Option<PathBuf>,
}

/// The files that are open.
#[derive(Debug)]
pub(super) struct OpenFiles {
    /// Takes what comes; `None`: it is not to be written.
    pub current: Option<FilePart>,
    /// Takes what still comes of pulses before the cut.
    pub before: Option<FilePart>,
    cut: Option<Cut>,
    /// The newest pulse that came.
    newest: Option<u64>,
    pub closed: ClosedFiles,
}

impl OpenFiles {
    /// Begins with a file.
    pub fn new(part: FilePart) -> OpenFiles {
        let (before, cut, newest, closed) = (None, None, None, ClosedFiles::default());
        OpenFiles { current: Some(part), before, cut, newest, closed }
    }

    /// All that are open, the older first.
    pub fn open(&mut self) -> impl Iterator<Item = &mut FilePart> {
        self.before.iter_mut().chain(&mut self.current)
    }

    /// Where events of the pulse at `zero` go; `None`: nowhere.
    #[inline]
    pub fn of(&mut self, zero: u64) -> Option<&mut Writer> {
        self.newest = Some(self.newest.map_or(zero, |newest| newest.max(zero)));
        let part = match self.cut {
            Some(cut) if zero <= cut.upto => &mut self.before,
            _ => &mut self.current,
        };
        part.as_mut().map(|part| &mut *part.writer)
    }

    /// True if a change can be made: a pulse has come behind the last cut, or none came for so long that it is over.
    pub fn can_change(&self, now: Duration) -> bool {
        let Some(cut) = self.cut else { return true };
        self.newest.is_some_and(|newest| newest > cut.upto) || now.saturating_sub(cut.at) >= GRACE
    }

    /// Cuts here: `next` takes what comes. The file that is over now is given back to be closed.
    #[must_use]
    pub fn change(&mut self, next: Option<FilePart>, now: Duration) -> Option<FilePart> {
        let over = self.before.take();
        self.before = std::mem::replace(&mut self.current, next);
        self.cut = self.newest.map(|upto| Cut { upto, at: now });
        if self.cut.is_none() {
            // Nothing has come yet: nothing of it can.
            debug_assert!(over.is_none());
            return self.before.take();
        }
        over
    }

    /// The file before the cut, once what still came of its pulses has had its time.
    #[must_use]
    pub fn over(&mut self, now: Duration) -> Option<FilePart> {
        self.cut.take_if(|cut| now.saturating_sub(cut.at) >= GRACE)?;
        self.before.take()
    }

    /// Events, those of them that a kill cannot lose, and pulse rows, of all files.
    pub fn counts(&self) -> (u64, u64, u64) {
        let ClosedFiles { events, rows, .. } = self.closed;
        let each = self.before.iter().chain(&self.current).map(|part| &part.writer);
        each.fold((events, events, rows), |(all, safe, rows), writer| {
            (all + writer.events(), safe + writer.committed_events(), rows + writer.rows())
        })
    }

    /// The files in words.
    pub fn place(&self, last: &Path) -> String {
        match (&self.closed.first, self.closed.files) {
            (Some(first), files @ 2..) => {
                format!("{} to {} ({files} files)", first.display(), last.display())
            }
            _ => last.display().to_string(),
        }
    }
}
