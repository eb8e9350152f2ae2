//! Brings large rows to a file on a thread of its own, past the page cache.
//!
//! HDF5 says where they belong ([`super::sys::lay_rows`]) and is not slowed down by the disk. What lies between two boundaries of
//! 4 KiB is written with `O_DIRECT`, the few bytes in front and behind through the cache; where a file system has no such
//! writes, all is. Rows may be said to be in the file once [`Disk::settle`] has come back without an error; after the
//! first error nothing more is written, and every call gives it. Refuses nothing.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use super::cells::{ALIGNED, Cells};
use super::sys::Part;

/// Blocks of a column that may be on their way: 32 MiB of chunks of 4 MiB, some 30 ms of a fast disk.
const AHEAD: usize = 8;
/// Bytes of all of them, where chunks are larger: one may always be.
const AHEAD_BYTES: usize = 64 << 20;
/// What the disk refused after it had been written. No row can be trusted then: the system may have told of it only now.
pub(crate) const LATE: &str = "bring to the disk what was written before";
/// Least bytes for a direct write: each waits for the disk, and one of 64 KiB costs little more than the way there.
const LEAST: usize = 64 << 10;
/// Bytes through the cache after which the disk is asked to take them, so that they do not all wait for the end.
const STEP: usize = 64 << 20;

/// The way of one file's rows to the disk.
#[derive(Debug)]
pub(crate) struct Disk {
    // For the writers of a file, which are all used by one thread, one after the other.
    line: Mutex<Line>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Line {
    /// `None` at the end.
    orders: Option<Sender<(Cells, Vec<Part>)>>,
    replies: Receiver<(Cells, io::Result<()>)>,
    under_way: usize,
    under_way_bytes: usize,
    /// Memory that was written and can be used again.
    spare: Vec<Cells>,
    /// The first error.
    failed: Option<(io::ErrorKind, String)>,
}

impl Disk {
    /// The way to the file at `path`, which is there.
    ///
    /// # Errors
    /// The file cannot be opened, or no thread be made.
    pub(crate) fn start(path: &Path) -> io::Result<Disk> {
        let file = File::options().write(true).open(path)?;
        let mut open = Open { direct: direct(path), file, cached: 0 };
        let (orders, taken) = channel::<(Cells, Vec<Part>)>();
        let (reply, replies) = channel();
        let thread = Builder::new().name("write-rows".into()).spawn(move || {
            for (cells, parts) in taken {
                let outcome = parts.iter().try_for_each(|part| {
                    open.write(&cells.bytes()[part.from..][..part.bytes], part.at)
                });
                let failed = outcome.is_err();
                if reply.send((cells, outcome)).is_err() || failed {
                    return;
                }
            }
        })?;
        let line = Line {
            orders: Some(orders),
            replies,
            under_way: 0,
            under_way_bytes: 0,
            spare: Vec::new(),
            failed: None,
        };
        Ok(Disk { line: Mutex::new(line), thread: Some(thread) })
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        // Whoever panicked with it has ended the job.
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes rows on their way, and gives memory for the next ones. Waits while too many are under way.
    ///
    /// # Errors
    /// The first write that failed, of any rows.
    pub(crate) fn write(&self, cells: Cells, parts: Vec<Part>) -> io::Result<Cells> {
        let mut line = self.line();
        let bytes = cells.bytes().len();
        line.wait_for(AHEAD - 1, AHEAD_BYTES.saturating_sub(bytes))?;
        let sent = line.orders.as_ref().is_some_and(|orders| orders.send((cells, parts)).is_ok());
        if !sent {
            // It ends at an error only, which is in its last reply.
            line.wait_for(0, 0)?;
            return Err(gone());
        }
        line.under_way += 1;
        line.under_way_bytes += bytes;
        Ok(line.spare.pop().unwrap_or_default())
    }

    /// Waits until all rows are in the file.
    ///
    /// # Errors
    /// The first write that failed.
    pub(crate) fn settle(&self) -> io::Result<()> {
        self.line().wait_for(0, 0)
    }
}

impl Line {
    /// Takes replies until at most `most` with at most `most_bytes` are missing.
    fn wait_for(&mut self, most: usize, most_bytes: usize) -> io::Result<()> {
        while self.failed.is_none() && self.under_way > 0 {
            let reply = if self.under_way > most || self.under_way_bytes > most_bytes {
                self.replies.recv().map_err(|_| gone())
            } else {
                match self.replies.try_recv() {
                    Ok(reply) => Ok(reply),
                    Err(_) => break,
                }
            };
            self.under_way -= 1;
            let outcome = reply.and_then(|(cells, outcome)| {
                self.under_way_bytes -= cells.bytes().len();
                // Where one is that large, it is made again for the next.
                if cells.bytes().len() <= AHEAD_BYTES {
                    self.spare.push(cells);
                }
                outcome
            });
            self.failed = outcome.err().map(|e| (e.kind(), e.to_string()));
        }
        match &self.failed {
            None => Ok(()),
            Some((kind, words)) => Err(io::Error::new(*kind, words.clone())),
        }
    }
}

fn gone() -> io::Error {
    io::Error::other("the thread that writes the rows has gone")
}

impl Drop for Disk {
    fn drop(&mut self) {
        // What is under way is written: whoever opens the file next must not find another writer.
        self.line().orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The file once more, for writes past the page cache; `None` where there are none.
#[cfg(target_os = "linux")]
fn direct(path: &Path) -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::DIRECT.bits().cast_signed();
    File::options().write(true).custom_flags(flags).open(path).ok()
}

#[cfg(not(target_os = "linux"))]
fn direct(_: &Path) -> Option<File> {
    None
}

/// The file as the thread has it.
struct Open {
    file: File,
    direct: Option<File>,
    /// Bytes through the cache since the disk was asked last.
    cached: usize,
}

impl Open {
    fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        let front = at.next_multiple_of(ALIGNED as u64) - at;
        let front = bytes.len().min(usize::try_from(front).unwrap_or(usize::MAX));
        let middle = (bytes.len() - front) / ALIGNED * ALIGNED;
        let (head, rest) = bytes.split_at(front);
        let (body, tail) = rest.split_at(middle);
        let lies_well = body.as_ptr().addr().is_multiple_of(ALIGNED);
        if middle < LEAST || !lies_well || !self.write_directly(body, at + front as u64)? {
            return self.write_cached(bytes, at);
        }
        self.write_cached(head, at)?;
        self.write_cached(tail, at + (front + middle) as u64)
    }

    /// False if there is no such write here.
    fn write_directly(&mut self, bytes: &[u8], at: u64) -> io::Result<bool> {
        let Some(direct) = &self.direct else { return Ok(false) };
        match direct.write_all_at(bytes, at) {
            Ok(()) => Ok(true),
            // Some file systems open for it and then refuse.
            Err(e) if e.kind() == io::ErrorKind::InvalidInput => {
                self.direct = None;
                Ok(false)
            }
            Err(e) => Err(e),
        }
    }

    fn write_cached(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, at)?;
        self.cached += bytes.len();
        if self.cached < STEP {
            return Ok(());
        }
        self.cached = 0;
        self.file.sync_data().map_err(|e| io::Error::new(e.kind(), format!("{LATE}: {e}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values for the place `at`, in bytes.
    fn cells(at: usize, values: std::ops::Range<i32>) -> Cells {
        let mut cells = Cells::with_capacity(values.len());
        cells.begin(at / 4);
        cells.extend(values);
        cells
    }

    fn whole(cells: &Cells, at: usize) -> Vec<Part> {
        vec![Part { at: at as u64, from: 0, bytes: cells.bytes().len() }]
    }

    #[test]
    fn rows_of_any_length_at_any_place_are_there_once_it_has_settled() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows");
        File::create(&path).unwrap();
        let disk = Disk::start(&path).unwrap();
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
        // Memory that lies elsewhere than the file wants goes through the cache.
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
        let disk = Disk::start(file.path()).unwrap();
        let made = cells(0, 0..65_536);
        let half = made.bytes().len() / 2;
        let parts = vec![
            Part { at: half as u64, from: 0, bytes: half },
            Part { at: 0, from: half, bytes: half },
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
        let disk = Disk::start(file.path()).unwrap();
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
        let disk = Disk::start(Path::new("/dev/full")).unwrap();
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
    fn a_file_that_is_not_there_is_refused() {
        assert!(Disk::start(Path::new("no/such/file")).is_err());
    }
}
