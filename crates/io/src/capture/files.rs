//! Names of a capture's files, and which of them are kept.
//!
//! Without rotation there is one, with the given name. With it `run.pcapng` means a series `run-00001.pcapng`,
//! `run-00002.pcapng`, … that continues after the existing files, so a restarted service replaces nothing. Each file is
//! locked (flock) while it is written, and that of a series until the next one is, so that a second process on a file
//! or series finds the lock, under any name or link; the lock ends with the process. A file system without locks gives
//! no protection. Refuses an existing file, unless it may be replaced; a file or series that another process writes;
//! everything but regular files.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use super::{CaptureError, CaptureOptions};
use crate::lock;

/// The files of a capture.
#[derive(Debug)]
pub(super) struct Files {
    folder: PathBuf,
    names: Names,
    /// Number of the next file of a series; `None` without rotation.
    next: Option<u64>,
    overwrite: bool,
    /// Those of the series that are there, oldest first.
    there: VecDeque<PathBuf>,
    keep: Option<usize>,
    /// The last file made, for its lock.
    held: Option<File>,
}

/// A file that was made or opened, locked; an existing one is as it was.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) file: File,
    pub(super) path: PathBuf,
    /// It was not there before.
    pub(super) new: bool,
}

impl Made {
    /// The empty file: its old content is removed only now.
    pub(super) fn begin(&self) -> std::io::Result<File> {
        if !self.new && self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.file.try_clone()
    }

    /// Nothing will be written: it goes if it was not there before.
    pub(super) fn give_up(self) {
        if self.new && leads_to(&self.path, &self.file) {
            // The error cannot be reported any more; the next start refuses the file as existing.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// True if `path` has a name that the series of `file` may take: `run-00001.pcapng` of `run.pcapng`.
pub fn is_of_series(file: &Path, path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| Names::of(file).number(name).is_some())
}

/// The two parts of a series' names.
#[derive(Debug)]
struct Names {
    stem: String,
    /// With its dot; empty if the name has none.
    end: String,
}

impl Names {
    fn of(file: &Path) -> Names {
        let text = |part: Option<&std::ffi::OsStr>| {
            part.map(|p| p.to_string_lossy().into_owned()).unwrap_or_default()
        };
        let end = file.extension().map(|e| format!(".{}", e.to_string_lossy())).unwrap_or_default();
        Names { stem: text(file.file_stem()), end }
    }

    /// Number of a file of this series by its name.
    fn number(&self, name: &str) -> Option<u64> {
        let number = name.strip_prefix(&self.stem)?.strip_prefix('-')?.strip_suffix(&self.end)?;
        let digits = number.len() >= 5 && number.bytes().all(|b| b.is_ascii_digit());
        number.parse().ok().filter(|_| digits)
    }

    fn name(&self, number: Option<u64>) -> String {
        let Names { stem, end } = self;
        match number {
            None => format!("{stem}{end}"),
            Some(n) => format!("{stem}-{n:05}{end}"),
        }
    }
}

/// Takes the lock of a file for itself.
fn take(file: &File, path: &Path) -> Result<(), CaptureError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            Err(CaptureError::InUse { path: path.display().to_string() })
        }
        Err(TryLockError::Error(e)) if e.kind() == ErrorKind::Unsupported => Ok(()),
        Err(TryLockError::Error(e)) => Err(system(path, "locking the file")(e)),
    }
}

/// The error about a path; its text is made only on an error.
pub(super) fn system<'a>(
    path: &'a Path,
    what: &'static str,
) -> impl FnOnce(std::io::Error) -> CaptureError + 'a {
    move |cause| CaptureError::System { path: path.display().to_string(), what, cause }
}

impl Files {
    /// Checks existing files.
    ///
    /// # Errors
    ///
    /// The folder cannot be read, or another process writes the series.
    pub(super) fn new(options: &CaptureOptions) -> Result<Files, CaptureError> {
        let file = &options.file;
        let folder = match file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
            _ => PathBuf::from("."),
        };
        let mut files = Files {
            folder,
            names: Names::of(file),
            next: None,
            overwrite: options.overwrite,
            there: VecDeque::new(),
            keep: options.keep.map(|n| n.max(1) as usize),
            held: None,
        };
        if options.rotates() {
            files.look()?;
        }
        Ok(files)
    }

    fn look(&mut self) -> Result<(), CaptureError> {
        let wrong = |e| system(&self.folder, "reading the folder")(e);
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(wrong)? {
            let entry = entry.map_err(|e| system(&self.folder, "reading the folder")(e))?;
            let name = entry.file_name();
            if let Some(n) = name.to_str().and_then(|n| self.names.number(n)) {
                found.push((n, entry.path()));
            }
        }
        found.sort();
        for (_, path) in &found {
            // The writer of the series has the lock of its last file only.
            if path.is_file()
                && let Ok(file) = File::open(path)
                && let Err(TryLockError::WouldBlock) = file.try_lock_shared()
            {
                return Err(CaptureError::InUse { path: path.display().to_string() });
            }
        }
        self.next = Some(found.last().map_or(1, |(n, _)| n.saturating_add(1)));
        self.there = found.into_iter().map(|(_, path)| path).collect();
        Ok(())
    }

    /// Makes the next file, or takes the existing one that will be replaced.
    ///
    /// # Errors
    /// It exists, another process writes it, or the system's answer.
    pub(super) fn next(&mut self) -> Result<Made, CaptureError> {
        let number = self.next;
        self.next = number.map(|n| n.saturating_add(1));
        let path = self.folder.join(self.names.name(number));
        let made = if self.overwrite && number.is_none() { replaced(&path) } else { made(&path) };
        let (file, new) = made?;
        if file.metadata().is_ok_and(|meta| meta.is_file()) {
            take(&file, &path)?;
            if !leads_to(&path, &file) {
                // Another process took or removed it between its creation and its lock.
                return Err(CaptureError::InUse { path: path.display().to_string() });
            }
        }
        // From here on the file before may be taken.
        self.held = Some(file.try_clone().map_err(system(&path, "making the file"))?);
        if number.is_some() {
            self.there.push_back(path.clone());
        }
        Ok(Made { file, path, new })
    }

    /// Removes the oldest files of a series beyond those that are kept; returns how many.
    pub(super) fn prune(&mut self) -> u64 {
        let mut removed = 0;
        while self.keep.is_some_and(|keep| self.there.len() > keep) {
            let Some(oldest) = self.there.pop_front() else { break };
            // One that another process removed counts as removed.
            removed += u64::from(fs::remove_file(oldest).is_ok());
        }
        removed
    }
}

/// A file that was not there.
fn made(path: &Path) -> Result<(File, bool), CaptureError> {
    let made = OpenOptions::new().write(true).create_new(true).open(path);
    let file = made.map_err(|cause| match cause.kind() {
        ErrorKind::AlreadyExists => CaptureError::Exists { path: path.display().to_string() },
        _ => system(path, "making the file")(cause),
    })?;
    Ok((file, true))
}

/// The file that is there, not yet cut, or a new one.
fn replaced(path: &Path) -> Result<(File, bool), CaptureError> {
    match fs::metadata(path) {
        Ok(meta) if !meta.is_file() && !meta.file_type().is_char_device() => {
            // To open a pipe would wait for its reader.
            let why = "this is a folder, pipe or socket; choose the path of a file";
            Err(system(path, "making the file")(std::io::Error::other(why)))
        }
        Ok(_) => {
            let open = OpenOptions::new().write(true).open(path);
            Ok((open.map_err(system(path, "opening the file"))?, false))
        }
        // Also through a link to nothing.
        Err(e) if e.kind() == ErrorKind::NotFound => {
            let made = OpenOptions::new().write(true).create(true).truncate(false).open(path);
            Ok((made.map_err(system(path, "making the file"))?, true))
        }
        Err(e) => Err(system(path, "making the file")(e)),
    }
}

/// True if the path still leads to the file.
pub(super) fn leads_to(path: &Path, file: &File) -> bool {
    lock::is_at(file, path).unwrap_or(false)
}
