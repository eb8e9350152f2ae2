//! A file of lines with a bound: what would make it larger goes to the next, and the oldest is removed.
//!
//! `NAME` is written, `NAME.1` is the one before, up to `NAME.KEEP`. The file is locked, so that no two processes share one, and opened again
//! when somebody has moved it away (logrotate). Refuses a link and anything but a file, a file that another process writes, and one that begins
//! with something else than text, such as a measurement.
//! Source: `docs/operations.md`, "Messages".

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use fullcount_io::{lock, newfile};

/// What a file may become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileTarget {
    /// Its path.
    pub path: PathBuf,
    /// Objects, not lines for people.
    pub json: bool,
    /// Bytes of a file at most, or one line.
    pub max_size: u64,
    /// Files that are kept beside it.
    pub keep: u32,
}

impl FileTarget {
    /// Path of the n-th before; 0 is the file itself.
    pub fn nth(&self, n: u32) -> PathBuf {
        match n {
            0 => self.path.clone(),
            n => {
                let mut name = self.path.clone().into_os_string();
                name.push(format!(".{n}"));
                name.into()
            }
        }
    }
}

/// Bytes of a file that is there already that are looked at.
const BEGIN: usize = 8;

/// The file under way.
#[derive(Debug)]
pub struct LogFile {
    target: FileTarget,
    open: Option<(File, u64)>,
}

/// Opens or makes it, for this process alone.
fn open(path: &Path) -> io::Result<(File, u64)> {
    let file = newfile::open_own(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => {
            return Err(io::Error::other("another process writes it"));
        }
        // A file system without locks gives no protection.
        Err(fs::TryLockError::Error(e)) if e.kind() == io::ErrorKind::Unsupported => {}
        Err(fs::TryLockError::Error(e)) => return Err(e),
    }
    if !lock::is_at(&file, path)? {
        return Err(io::Error::other("it was moved away at this moment"));
    }
    let mut begin = [0; BEGIN];
    // Measurements begin with bytes that no line of a log has.
    let n = fs::File::open(path)?.read_at(&mut begin, 0)?;
    let is_text = |byte: &u8| matches!(byte, b'\n' | b'\r' | b'\t' | 0x20..=0x7e | 0xc2..=0xf4);
    if !begin[..n].iter().all(is_text) {
        return Err(io::Error::other(
            "it holds something else than lines of text: another name is needed",
        ));
    }
    let size = file.metadata()?.len();
    Ok((file, size))
}

impl LogFile {
    /// Opens it.
    ///
    /// # Errors
    /// A link, something else than a file, another process that writes it, or the system's words.
    pub fn open(target: FileTarget) -> io::Result<LogFile> {
        let open = Some(open(&target.path)?);
        Ok(LogFile { target, open })
    }

    /// Adds a line; a piece of it may be there after an error.
    ///
    /// # Errors
    /// The system's words; the next call begins anew.
    pub fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let result = self.add(line);
        if result.is_err() {
            self.open = None;
        }
        result
    }

    /// Goes on with what is at the path now.
    pub fn reopen(&mut self) {
        self.open = None;
    }

    fn add(&mut self, line: &[u8]) -> io::Result<()> {
        let (_, size) = self.there()?;
        if size > 0 && size + line.len() as u64 > self.target.max_size {
            self.rotate()?;
        }
        let (file, size) = self.there()?;
        file.write_all(line)?;
        let size = size + line.len() as u64;
        if let Some(open) = &mut self.open {
            open.1 = size;
        }
        Ok(())
    }

    fn there(&mut self) -> io::Result<(&mut File, u64)> {
        if self.open.is_none() {
            self.open = Some(open(&self.target.path)?);
        }
        let (file, size) = self.open.as_mut().expect("opened above");
        Ok((file, *size))
    }

    /// Each goes one further; the oldest is replaced. A link at such a name is replaced, not followed.
    fn rotate(&mut self) -> io::Result<()> {
        let names = (1..=self.target.keep).map(|n| self.target.nth(n));
        let is_folder =
            |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|there| there.is_dir());
        if let Some(folder) = names.into_iter().find(is_folder) {
            return Err(io::Error::other(format!("{} is a folder", folder.display())));
        }
        for n in (0..self.target.keep).rev() {
            match fs::rename(self.target.nth(n), self.target.nth(n + 1)) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        self.open = None;
        Ok(())
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
