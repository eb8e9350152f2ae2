//! Writes the rows of one file to disk while HDF5 continues.
//!
//! There are two methods ([`DiskWay`]). Bypassing the page cache: HDF5 determines the place of large rows
//! ([`super::sys::lay_rows`]), a [`DiskThread`] writes them. Through the page cache: HDF5 writes, and the thread starts
//! write-back after each step ([`RowDisk::written`]); otherwise all data of a long run would wait for its end. Rows are
//! in the file when [`RowDisk::settle`] has returned without an error; after the first error nothing more is written,
//! and every call returns it.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use fullcount_io::disk::LATE;
use fullcount_io::disk::{DirectFile, DiskLoad, DiskThread, WriteBack};

use super::cells::Cells;
use super::options::DiskWay;
use super::sys::DivertedWrite;

/// Blocks of a column that may be in flight: 32 MiB of chunks of 4 MiB, some 30 ms of a fast disk.
const AHEAD: usize = 8;
/// Bytes of all of them, where chunks are larger: one may always be.
const AHEAD_BYTES: usize = 64 << 20;
/// Bytes that HDF5 has written, after which the disk is asked to take them.
const STEP: usize = 64 << 20;

/// Rows and their places in the file.
#[derive(Debug)]
struct Rows {
    cells: Cells,
    parts: Vec<DivertedWrite>,
}

impl DiskLoad for Rows {
    fn write(&mut self, to: &mut DirectFile) -> io::Result<()> {
        let bytes = self.cells.bytes();
        self.parts.iter().try_for_each(|part| to.write(&bytes[part.from..][..part.bytes], part.at))
    }
}

/// The way of one file's rows to the disk.
#[derive(Debug)]
pub struct RowDisk {
    way: DiskWay,
    // For the writers of a file, which are all used by one thread, one after the other.
    line: Mutex<Line>,
}

#[derive(Debug)]
struct Line {
    thread: DiskThread<Rows>,
    under_way: usize,
    under_way_bytes: usize,
    /// Memory that was written and can be used again.
    spare: Vec<Cells>,
    /// Bytes that HDF5 has written since the disk was asked last.
    written: usize,
    is_syncing: bool,
}

impl RowDisk {
    /// The way to the file at `path`, which is there.
    ///
    /// # Errors
    /// The file cannot be opened, or no thread be made.
    pub fn start(path: &Path, way: DiskWay) -> io::Result<RowDisk> {
        let file = File::options().write(true).open(path)?;
        let file = match way {
            DiskWay::Direct => DirectFile::new(file, path, WriteBack::Steps),
            DiskWay::Cached => DirectFile::cached(file, WriteBack::Steps),
        };
        let mut thread = DiskThread::start("write-rows")?;
        thread.begin(file)?;
        let spare = Vec::new();
        let (written, is_syncing) = (0, false);
        let line = Line { thread, under_way: 0, under_way_bytes: 0, spare, written, is_syncing };
        Ok(RowDisk { way, line: Mutex::new(line) })
    }

    /// True if large rows are to be given to [`RowDisk::write`].
    pub fn takes_rows(&self) -> bool {
        self.way == DiskWay::Direct
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        // A panic with it has ended the job.
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes rows to be written, and returns memory for the next ones. Waits while too many are in flight.
    ///
    /// # Errors
    /// The first write that failed, of any rows.
    pub fn write(&self, cells: Cells, parts: Vec<DivertedWrite>) -> io::Result<Cells> {
        let mut line = self.line();
        let bytes = cells.bytes().len();
        line.wait_for(AHEAD - 1, AHEAD_BYTES.saturating_sub(bytes))?;
        line.thread.write(Rows { cells, parts })?;
        line.under_way += 1;
        line.under_way_bytes += bytes;
        Ok(line.spare.pop().unwrap_or_default())
    }

    /// HDF5 has written this many more bytes. Does not wait: a busy disk joins this step with the next.
    /// [`RowDisk::settle`] returns its errors.
    pub fn written(&self, bytes: usize) {
        let mut line = self.line();
        line.written += bytes;
        if line.written >= STEP && line.wait_for(usize::MAX, usize::MAX).is_ok() {
            line.written = 0;
            if !line.is_syncing {
                line.is_syncing = line.thread.sync().is_ok();
            }
        }
    }

    /// Waits until all rows are in the file.
    ///
    /// # Errors
    /// The first write that failed, or the disk has refused what was written before.
    pub fn settle(&self) -> io::Result<()> {
        self.line().wait_for(0, 0)
    }

    /// Waits until all that was written is on the disk.
    ///
    /// # Errors
    /// The first write that failed, or the disk's refusal.
    pub fn finish(&self) -> io::Result<()> {
        let mut line = self.line();
        line.thread.sync()?;
        while let Some(answer) = line.thread.answer(true) {
            answer.outcome?;
        }
        Ok(())
    }
}

impl Line {
    /// Takes answers until at most `most` rows with at most `most_bytes` are missing.
    fn wait_for(&mut self, most: usize, most_bytes: usize) -> io::Result<()> {
        loop {
            let wait = self.under_way > most || self.under_way_bytes > most_bytes;
            let Some(answer) = self.thread.answer(wait) else { break };
            self.is_syncing &= answer.load.is_some();
            if let Some(Rows { cells, .. }) = answer.load {
                self.under_way -= 1;
                self.under_way_bytes -= cells.bytes().len();
                // Where one is that large, it is made again for the next.
                if cells.bytes().len() <= AHEAD_BYTES {
                    self.spare.push(cells);
                }
            }
            self.thread.sound()?;
        }
        self.thread.sound()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(path: &Path) -> io::Result<RowDisk> {
        RowDisk::start(path, DiskWay::Direct)
    }

    /// Values for the place `at`, in bytes.
    fn cells(at: usize, values: std::ops::Range<i32>) -> Cells {
        let mut cells = Cells::with_capacity(values.len());
        cells.begin(at / 4);
        cells.extend(values);
        cells
    }

    fn whole(cells: &Cells, at: usize) -> Vec<DivertedWrite> {
        vec![DivertedWrite { at: at as u64, from: 0, bytes: cells.bytes().len() }]
    }

    #[test]
    fn rows_of_any_length_at_any_place_are_there_once_it_has_settled() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows");
        File::create(&path).unwrap();
        let disk = start(&path).unwrap();
        let (mut at, mut want) = (0, Vec::new());
        for n in [1, 3, 1020, 20_000, 1 << 20, 5, 1024, 300_001, 16_384, 7] {
            let made = cells(at, n..2 * n);
            let bytes: Vec<u8> = (n..2 * n).flat_map(i32::to_ne_bytes).collect();
            assert_eq!(made.bytes(), bytes);
            let parts = whole(&made, at);
            let spare = disk.write(made, parts).unwrap();
            drop(spare);
            at += bytes.len();
            want.extend(bytes);
            if n % 2 == 0 {
                disk.settle().unwrap();
                assert!(std::fs::read(&path).unwrap() == want, "after {n}");
            }
        }
        // Memory with another alignment than its place in the file goes through the cache.
        let made = cells(at + 8, 0..100_000);
        let parts = whole(&made, at);
        want.extend(made.bytes());
        disk.write(made, parts).unwrap();
        disk.settle().unwrap();
        assert!(std::fs::read(&path).unwrap() == want);
    }

    #[test]
    fn parts_of_one_block_go_to_their_own_places() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let disk = start(file.path()).unwrap();
        let made = cells(0, 0..65_536);
        let half = made.bytes().len() / 2;
        let parts = vec![
            DivertedWrite { at: half as u64, from: 0, bytes: half },
            DivertedWrite { at: 0, from: half, bytes: half },
        ];
        let (first, second) = made.bytes().split_at(half);
        let want = [second, first].concat();
        disk.write(made, parts).unwrap();
        disk.settle().unwrap();
        assert!(std::fs::read(file.path()).unwrap() == want);
    }

    #[test]
    fn memory_comes_back_and_is_used_again() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let disk = start(file.path()).unwrap();
        let made = cells(0, 0..100_000);
        let parts = whole(&made, 0);
        let place = made.bytes().as_ptr().addr();
        disk.write(made, parts).unwrap();
        disk.settle().unwrap();
        let next = cells(400_000, 0..1);
        let parts = whole(&next, 400_000);
        let mut again = disk.write(next, parts).unwrap();
        again.begin(0);
        assert_eq!(again.bytes().as_ptr().addr(), place);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_the_disk_refuses_is_said_once_and_for_all() {
        // A device that is always full.
        let disk = start(Path::new("/dev/full")).unwrap();
        let made = cells(0, 0..100_000);
        let parts = whole(&made, 0);
        disk.write(made, parts).unwrap();
        for _ in 0..2 {
            let error = disk.settle().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{error}");
        }
        let made = cells(0, 0..10);
        let parts = whole(&made, 0);
        assert_eq!(disk.write(made, parts).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn what_hdf5_writes_is_brought_to_the_disk_on_the_way() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let disk = RowDisk::start(file.path(), DiskWay::Cached).unwrap();
        assert!(!disk.takes_rows());
        for _ in 0..5 {
            disk.written(STEP / 2);
        }
        assert!(disk.line().written >= STEP / 2, "a step is asked for once");
        disk.settle().unwrap();
        disk.finish().unwrap();
        assert_eq!(disk.line().thread.open(), 0);
    }

    #[test]
    fn a_file_that_is_not_there_is_refused() {
        assert!(start(Path::new("no/such/file")).is_err());
    }
}
