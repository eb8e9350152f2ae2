//! Names of a capture's files, and which of them stay.
//!
//! Without rotation there is one, named as asked. With it `run.pcapng` stands for a series
//! `run-00001.pcapng`, `run-00002.pcapng`, … that goes on behind what is there, so a service that is
//! started again replaces nothing. Refuses: an existing file, unless it may be replaced.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use super::{CaptureError, CaptureOptions};

/// The files of a capture.
#[derive(Debug)]
pub(super) struct Files {
    folder: PathBuf,
    stem: String,
    /// With its dot; empty if the name has none.
    end: String,
    /// Number of the next file of a series; `None` without rotation.
    next: Option<u64>,
    overwrite: bool,
    /// Those of the series that are there, oldest first.
    there: VecDeque<PathBuf>,
    keep: Option<usize>,
}

/// The error about a path; its text is made only where there is one.
pub(super) fn system<'a>(
    path: &'a Path,
    what: &'static str,
) -> impl FnOnce(std::io::Error) -> CaptureError + 'a {
    move |cause| CaptureError::System { path: path.display().to_string(), what, cause }
}

impl Files {
    /// Looks at what is there.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(super) fn new(options: &CaptureOptions) -> Result<Files, CaptureError> {
        let file = &options.file;
        let folder = match file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
            _ => PathBuf::from("."),
        };
        let text = |part: Option<&std::ffi::OsStr>| {
            part.map(|p| p.to_string_lossy().into_owned()).unwrap_or_default()
        };
        let end = file.extension().map(|e| format!(".{}", e.to_string_lossy())).unwrap_or_default();
        let mut files = Files {
            folder,
            stem: text(file.file_stem()),
            end,
            next: None,
            overwrite: options.overwrite,
            there: VecDeque::new(),
            keep: options.keep.map(|n| n.max(1) as usize),
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
            if let Some(n) = name.to_str().and_then(|n| self.number(n)) {
                found.push((n, entry.path()));
            }
        }
        found.sort();
        self.next = Some(found.last().map_or(1, |(n, _)| n.saturating_add(1)));
        self.there = found.into_iter().map(|(_, path)| path).collect();
        Ok(())
    }

    /// Number of a file of this series by its name.
    fn number(&self, name: &str) -> Option<u64> {
        let number = name.strip_prefix(&self.stem)?.strip_prefix('-')?.strip_suffix(&self.end)?;
        let digits = number.len() >= 5 && number.bytes().all(|b| b.is_ascii_digit());
        number.parse().ok().filter(|_| digits)
    }

    /// Makes the next file; removes the oldest of a series where there are more than stay. Returns how
    /// many were removed.
    ///
    /// # Errors
    /// It exists, or the system's answer.
    pub(super) fn next(&mut self) -> Result<(File, PathBuf, u64), CaptureError> {
        let name = match &mut self.next {
            None => format!("{}{}", self.stem, self.end),
            Some(next) => {
                let n = *next;
                *next = n.saturating_add(1);
                format!("{}-{n:05}{}", self.stem, self.end)
            }
        };
        let path = self.folder.join(name);
        let replace = self.overwrite && self.next.is_none();
        let mut how = OpenOptions::new();
        how.write(true).create(true).truncate(replace).create_new(!replace);
        let file = how.open(&path).map_err(|cause| {
            let shown = path.display().to_string();
            match cause.kind() {
                std::io::ErrorKind::AlreadyExists => CaptureError::Exists { path: shown },
                _ => CaptureError::System { path: shown, what: "making the file", cause },
            }
        })?;
        let mut removed = 0;
        if self.next.is_some() {
            self.there.push_back(path.clone());
            while self.keep.is_some_and(|keep| self.there.len() > keep) {
                let Some(oldest) = self.there.pop_front() else { break };
                // One that somebody else took away is gone all the same.
                removed += u64::from(fs::remove_file(oldest).is_ok());
            }
        }
        Ok((file, path, removed))
    }
}
