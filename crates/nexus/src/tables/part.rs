//! The file while it is written: `<name>.part`, locked, and renamed when it is complete.
//!
//! So a file with its own name is always complete. If the name is a link, its target is used. Refuses an existing file
//! and a leftover of a killed run, unless they may be replaced, and always a file that another run is writing. A file
//! that appears at the name meanwhile is kept; the new one is complete too, as `<name>.part`.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use fullcount_io::building::{Building, BuildingError, Leftover, inspect, landing};
use fullcount_io::lock::{self, LockFound};

use super::error::{TableError, io_error};
use super::options::{TableOptions, TableOutput};

/// Ends the name of a file that is not whole yet.
const PART: &str = ".part";

/// An unfinished file. Dropping it removes it unless it was kept or finished.
#[derive(Debug)]
pub(super) struct Part {
    path: PathBuf,
    /// Holds the lock.
    building: Building,
    replace: bool,
}

fn section(output: TableOutput) -> String {
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
        let refused = |e| refusal(e, key, output);
        // Before the look, which says less of a folder that is missing.
        inspect(path).map_err(refused)?;
        match lock::alone(path).map_err(io_error(path, "look at the existing file"))? {
            LockFound::Nothing => {}
            LockFound::Free(file) if !replace => {
                let meta = file.metadata().map_err(io_error(path, "look at the existing file"))?;
                let (path, bytes) = (path.to_owned(), meta.len());
                return Err(TableError::Exists { key, output: section(output), path, bytes });
            }
            LockFound::Free(_) => {}
            LockFound::InUse => return Err(TableError::InUse { key, path: path.to_owned() }),
        }
        let left = if replace { Leftover::Removed } else { Leftover::Kept };
        let building = Building::reserve(path, PART, left).map_err(refused)?;
        Ok(Part { path: path.to_owned(), building, replace })
    }

    /// Where it is while it is made.
    pub fn place(&self) -> &Path {
        self.building.path()
    }

    /// Where it will be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A second handle on the file, for writing.
    pub fn handle(&self) -> Result<File, TableError> {
        self.building.handle().map_err(io_error(self.building.path(), "write"))
    }

    /// It holds something: dropping it no longer removes it.
    pub fn keep(&mut self) {
        self.building.keep();
    }

    /// The file is complete: moves it to its name and gives its length.
    ///
    /// # Errors
    /// A file that appeared there meanwhile and may not be replaced, or the system's words.
    pub fn finish(&mut self) -> Result<u64, TableError> {
        self.building.keep();
        let doing = "give the finished file its name";
        let part = self.building.path().to_owned();
        let appeared = || TableError::Appeared { path: self.path.clone(), part: part.clone() };
        if self.replace {
            // What another process began to write there is not ours to replace; held until ours is there.
            let _held = match lock::alone(&self.path).map_err(io_error(&self.path, doing))? {
                LockFound::InUse => return Err(appeared()),
                held => held,
            };
            self.building.move_to(&self.path).map_err(io_error(&part, doing))?;
        } else {
            self.building.move_to_free(&self.path).map_err(|e| match e.kind() {
                ErrorKind::AlreadyExists => appeared(),
                _ => io_error(&part, doing)(e),
            })?;
        }
        let meta = fs::metadata(&self.path);
        Ok(meta.map_err(io_error(&self.path, "read the file's size"))?.len())
    }
}

/// What is wrong with the path, with our key.
fn refusal(e: BuildingError, key: &'static str, output: TableOutput) -> TableError {
    match e {
        BuildingError::Path { path, fault } => TableError::Path { key, path, fault },
        BuildingError::InUse { path } => TableError::InUse { key, path },
        BuildingError::Left { path } => TableError::Left { key, output: section(output), path },
        BuildingError::Io { path, doing, source } => TableError::Io { path, doing, source },
    }
}
