//! A file that is open for writing while others read: how it is opened, flushed and closed, or given up.
//!
//! [`OpenFile`] holds its HDF5 handles, the writer of its rows, and its path with the lock; a flush writes all columns
//! of all streams in the order that readers need ([`FlushPhase`]). The `nexus` output, the jobs of the file writer and the
//! tables of hits and clusters use it. Source: `docs/formats/nexus.md` section 4.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fullcount_io::building::Building;
use hdf5_metno::{Error, File, Result};

use super::column::{FlushPhase, StoredColumn};
use super::disk::RowDisk;
use super::options::DiskWay;
use super::sys::{self, FileMode};

/// Rows of each column at a flush, by path.
pub type RowCounts = BTreeMap<String, u64>;

/// What grows in a file: some columns that belong together.
pub trait FileStream: Debug {
    /// Hands what it keeps itself to whoever writes it, without waiting.
    fn hand_in(&mut self) -> Result<()> {
        Ok(())
    }

    /// All of it is with its columns.
    fn settle(&mut self) -> Result<()> {
        Ok(())
    }

    /// Its columns.
    fn columns(&mut self) -> Vec<&mut dyn StoredColumn>;

    /// Writes what is no column: totals, extremes.
    fn totals(&mut self) -> Result<()> {
        Ok(())
    }

    /// All of it is in the file.
    fn committed(&mut self) {}
}

/// Open parts of a file besides HDF5's file handle.
pub trait FileContents {
    /// What grows in it.
    fn streams(&mut self) -> Vec<&mut dyn FileStream>;

    /// Single values of the file that are written with each flush.
    fn values(&mut self) -> Result<()> {
        Ok(())
    }

    /// The last of a flush: what says that all the rest is there.
    fn seal(&mut self) -> Result<()> {
        Ok(())
    }
}

/// How a file that was given up was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOpen {
    /// It is closed: it may be truncated.
    Closed,
    /// HDF5 cannot close it before the process ends.
    Open,
    /// Another file is at its path, which must not be changed.
    Away,
}

/// Where an open file is.
pub trait FilePlace {
    /// Its path now.
    fn path(&self) -> &Path;

    /// True if another file is known to be there.
    fn is_away(&self) -> bool {
        false
    }
}

impl FilePlace for Building {
    fn path(&self) -> &Path {
        Building::path(self)
    }

    fn is_away(&self) -> bool {
        // A missing file is reported by whoever changes it.
        matches!(self.is_reached(), Ok(false))
    }
}

/// A path whose lock somebody else holds.
impl FilePlace for PathBuf {
    fn path(&self) -> &Path {
        self
    }
}

/// An open file.
#[derive(Debug)]
pub struct OpenFile<C, P = Building> {
    // Declared in closing order: datasets before the file, the file before its place.
    contents: C,
    disk: Option<Arc<RowDisk>>,
    file: File,
    place: P,
}

/// True if large rows are to be brought to the disk past the page cache: chunks with a filter are made whole before.
pub fn lays_rows(way: DiskWay, compressed: bool) -> bool {
    way == DiskWay::Direct && !compressed && sys::can_lay_rows()
}

impl<C: FileContents, P: FilePlace> OpenFile<C, P> {
    /// Opens the finished structure at `place`. `cache`: chunk cache of each dataset, bytes. `with` opens its content.
    ///
    /// # Errors
    /// What `refused` makes of what could not be done and the library's error. The file is closed.
    pub fn open<E>(
        place: P,
        cache: usize,
        disk: Option<Arc<RowDisk>>,
        with: impl FnOnce(&File) -> Result<C>,
        refused: impl Fn(&'static str, Error) -> E,
    ) -> std::result::Result<OpenFile<C, P>, E> {
        let apart = disk.as_ref().is_some_and(|disk| disk.takes_rows());
        let access = if apart { FileMode::Apart { cache } } else { FileMode::Write { cache } };
        let file = sys::open_for_readers(place.path(), access)
            .map_err(|e| refused("start SWMR writing", e))?;
        let with = |file: File| with(&file).map(|contents| (file, contents));
        let (file, contents) =
            sys::or_let_go(file, with).map_err(|e| refused("open the datasets", e))?;
        Ok(OpenFile { contents, disk, file, place })
    }

    /// What is open in it.
    pub fn contents(&self) -> &C {
        &self.contents
    }

    /// The same to be changed.
    pub fn contents_mut(&mut self) -> &mut C {
        &mut self.contents
    }

    /// Its place.
    pub fn place(&self) -> &P {
        &self.place
    }

    /// The same to be moved or kept.
    pub fn place_mut(&mut self) -> &mut P {
        &mut self.place
    }

    /// The separate writer of its rows, if it has one.
    pub fn disk(&self) -> Option<&RowDisk> {
        self.disk.as_deref()
    }

    /// Brings everything that was taken so far to the file, in the order that readers need.
    ///
    /// # Errors
    /// The library's words, or those of the disk.
    pub fn flush(&mut self) -> Result<()> {
        let mut streams = self.contents.streams();
        streams.iter_mut().try_for_each(|stream| stream.hand_in())?;
        streams.iter_mut().try_for_each(|stream| stream.settle())?;
        if let Some(disk) = &self.disk {
            // Before anything says that they are there.
            disk.settle().map_err(|e| e.to_string())?;
        }
        for phase in FlushPhase::ALL {
            for stream in &mut streams {
                for column in stream.columns() {
                    if column.phase() == phase {
                        column.commit()?;
                    }
                }
            }
        }
        streams.iter_mut().try_for_each(|stream| stream.totals())?;
        self.contents.values()?;
        // The file's end address; otherwise recovery would reuse the space of chunks written since.
        self.file.flush()?;
        self.contents.seal()?;
        self.contents.streams().iter_mut().for_each(|stream| stream.committed());
        Ok(())
    }

    /// Rows of each column.
    pub fn rows(&mut self) -> RowCounts {
        let mut streams = self.contents.streams();
        let columns = streams.iter_mut().flat_map(|stream| stream.columns());
        columns.map(|column| column.extent()).collect()
    }

    /// Writes what is in HDF5's memory. What is left then is closing, which writes nothing that needs room.
    pub fn flush_rest(&self) -> Result<()> {
        self.file.flush()
    }

    /// Closes the file, which was flushed, and gives its way to the disk.
    pub fn close(self) -> Result<Option<Arc<RowDisk>>> {
        let OpenFile { contents, disk, file, place } = self;
        drop(contents);
        file.close()?;
        // With the place, the lock ends after the file.
        drop(place);
        Ok(disk)
    }

    /// Closes a file that is to be gone on with: everything was flushed. If it cannot be closed properly, it is as after a kill:
    /// rows that are not there must not be said to be.
    pub fn leave(self) {
        let OpenFile { contents, disk, file, place } = self;
        let sound = disk.as_ref().is_none_or(|disk| disk.settle().is_ok());
        let parts = (contents, disk, place);
        let _ = if sound { sys::close(file, parts).is_ok() } else { sys::let_go(file, parts) };
    }

    /// Closes the file without another write to its disk, which has failed: it is as after a kill, and is recovered in
    /// the same way.
    pub fn let_go(self) -> LeftOpen {
        let OpenFile { contents, disk, file, place } = self;
        if let Some(disk) = &disk {
            // Its errors were reported before. Nothing is in flight any more: the file may be truncated.
            let _ = disk.settle();
        }
        let away = place.is_away();
        let closed = sys::let_go(file, (contents, disk, place));
        match (away, closed) {
            (true, _) => LeftOpen::Away,
            (false, true) => LeftOpen::Closed,
            (false, false) => LeftOpen::Open,
        }
    }
}
