//! The file while it is made: `<name>.part`, locked, and moved to its name when it is complete.
//!
//! So a file with its own name is always whole. Where the name is a link, the file is that which it leads to. Refuses an
//! existing file and what a killed run left, unless they may be replaced, and what another run is writing in any case.
//! A file that came to stand at the name meanwhile stays; the new one is whole too, as `<name>.part`.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::error::{TableError, io_error};
use super::options::{Output, TableOptions};
use crate::nexus::NexusError;
use crate::nexus::lock::{self, Found};
use crate::nexus::place::{inspect, landing, move_to_free};

/// A file under way. Dropping it removes it unless it was kept or finished.
#[derive(Debug)]
pub(super) struct Part {
    path: PathBuf,
    part: PathBuf,
    /// Holds the lock.
    file: File,
    keep: bool,
    replace: bool,
}

fn section(output: Output) -> String {
    format!("output.{}", output.name())
}

impl Part {
    /// Makes the empty file.
    ///
    /// # Errors
    /// The path cannot hold a file, or holds one already.
    pub fn reserve(path: &Path, options: &TableOptions) -> Result<Part, TableError> {
        let (output, replace) = (options.output, options.overwrite);
        let (key, path) = (output.key(), &landing(path));
        inspect(path).map_err(|e| refusal(e, key, path))?;
        let in_use = |path: &Path| TableError::InUse { key, path: path.to_owned() };
        match lock::alone(path).map_err(io_error(path, "look at the existing file"))? {
            Found::Nothing => {}
            Found::Free(file) if !replace => {
                let meta = file.metadata().map_err(io_error(path, "look at the existing file"))?;
                let (path, bytes) = (path.to_owned(), meta.len());
                return Err(TableError::Exists { key, output: section(output), path, bytes });
            }
            Found::Free(_) => {}
            Found::InUse => return Err(in_use(path)),
        }
        let mut name = path.file_name().map_or_else(OsString::new, OsString::from);
        name.push(".part");
        let part = path.with_file_name(name);
        match lock::alone(&part).map_err(io_error(&part, "look at what was left"))? {
            Found::Nothing => {}
            Found::Free(_) if !replace => {
                return Err(TableError::Left { key, output: section(output), path: part });
            }
            Found::Free(_left) => {
                fs::remove_file(&part).map_err(io_error(&part, "remove what was left"))?;
            }
            Found::InUse => return Err(in_use(&part)),
        }
        let made = File::options().read(true).write(true).create_new(true).open(&part);
        let file = made.map_err(|e| match e.kind() {
            ErrorKind::AlreadyExists => in_use(&part),
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
                let folder = folder.unwrap_or(Path::new(".")).to_owned();
                let fault = crate::nexus::PathFault::NotWritable { folder, words: e.to_string() };
                TableError::Path { key, path: path.to_owned(), fault }
            }
            _ => io_error(&part, "create the file")(e),
        })?;
        match file.try_lock_shared() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use(&part)),
            // A file system without locks: nothing keeps two writers apart.
            Err(TryLockError::Error(e)) if e.kind() == ErrorKind::Unsupported => {}
            Err(TryLockError::Error(e)) => return Err(io_error(path, "lock the file")(e)),
        }
        // Before it was locked it looked like one that was left, and may have been removed as such.
        if !lock::is_at(&file, &part).unwrap_or(false) {
            return Err(in_use(&part));
        }
        Ok(Part { path: path.to_owned(), part, file, keep: false, replace })
    }

    /// Where it is while it is made.
    pub fn place(&self) -> &Path {
        &self.part
    }

    /// Where it will be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A second handle on the file, for writing.
    ///
    /// # Errors
    /// The system's words.
    pub fn handle(&self) -> Result<File, TableError> {
        self.file.try_clone().map_err(io_error(&self.part, "write"))
    }

    /// It holds something: dropping it no longer removes it.
    pub fn keep(&mut self) {
        self.keep = true;
    }

    /// The file is complete: moves it to its name and gives its length.
    ///
    /// # Errors
    /// A file that came to stand there meanwhile and may not be replaced, or the system's words.
    pub fn finish(&mut self) -> Result<u64, TableError> {
        self.keep = true;
        let doing = "give the finished file its name";
        let appeared = || {
            let (path, part) = (self.path.clone(), self.part.clone());
            TableError::Appeared { path, part }
        };
        if self.replace {
            // What another process began to write there is not ours to replace; held until ours is there.
            let _held = match lock::alone(&self.path).map_err(io_error(&self.path, doing))? {
                Found::InUse => return Err(appeared()),
                held => held,
            };
            fs::rename(&self.part, &self.path).map_err(io_error(&self.part, doing))?;
        } else {
            move_to_free(&self.part, &self.path).map_err(|e| match e.kind() {
                ErrorKind::AlreadyExists => appeared(),
                _ => io_error(&self.part, doing)(e),
            })?;
        }
        let meta = fs::metadata(&self.path);
        Ok(meta.map_err(io_error(&self.path, "read the file's size"))?.len())
    }
}

/// What is wrong with the path, with our key.
fn refusal(e: NexusError, key: &'static str, path: &Path) -> TableError {
    match e {
        NexusError::Path { path, fault } => TableError::Path { key, path, fault },
        NexusError::Io { path, doing, source } => TableError::Io { path, doing, source },
        other => {
            let message = other.to_string();
            TableError::Library { path: path.to_owned(), doing: "use the path", message }
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.keep {
            // Nobody is left to tell; the next start refuses it as left over.
            let _ = fs::remove_file(&self.part);
        }
    }
}
