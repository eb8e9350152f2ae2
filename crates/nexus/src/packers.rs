//! Threads that compress chunks of events, and the order in which these come back.
//!
//! HDF5 compresses on the writing thread, with the same effort for all: 72 MB/s of events at `gzip:1`. Here the writing
//! thread only shuffles a chunk into memory; separate threads compress ([`Deflater`]), and finished chunks come back to
//! their columns ([`PackedColumns`]) in the original order. The threads may serve several groups of events of several
//! files, all written by one thread. The number of chunks in flight is that of the threads and two more; then the
//! writer waits for the oldest of the group that adds one. A thread that dies ends the file with an error.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use hdf5_metno::Result;

use super::column::GrowingColumn;
use super::deflate::{Deflater, VALUE, shuffle};

/// Chunks in flight in addition to one for each thread: one is filled while another waits.
pub(super) const BESIDE: usize = 2;

/// Memory of a chunk, used again and again.
#[derive(Debug, Default)]
struct Room {
    planes: Vec<u8>,
    filled: usize,
    packed: Vec<u8>,
}

type Work = (Room, SyncSender<Room>);

/// The threads.
#[derive(Debug)]
pub struct Packers {
    /// `None` at the end.
    work: Option<Sender<Work>>,
    threads: Vec<JoinHandle<()>>,
    /// Chunks on their way.
    flying: AtomicUsize,
    most: usize,
    // One thread writes all files: never waited for.
    spare: Mutex<Vec<Room>>,
}

impl Packers {
    /// `threads` threads; `level`: 1 to 9.
    pub fn start(threads: usize, level: u8) -> std::io::Result<Arc<Packers>> {
        let (work, list) = channel::<Work>();
        let list = Arc::new(Mutex::new(list));
        let mut packers = Packers {
            work: Some(work),
            threads: Vec::new(),
            flying: AtomicUsize::new(0),
            most: threads + BESIDE,
            spare: Mutex::default(),
        };
        for _ in 0..threads {
            let list = list.clone();
            let thread = Builder::new().name("nexus-gzip".into()).spawn(move || {
                let mut deflater = Deflater::new(level);
                loop {
                    // Held while nothing is to be done; taken once for each chunk.
                    let next = list.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((mut room, back)) = next else { return };
                    deflater.pack(&room.planes, room.filled, &mut room.packed);
                    // It is not needed if the file has failed.
                    let _ = back.send(room);
                }
            });
            packers.threads.push(thread?);
        }
        Ok(Arc::new(packers))
    }

    /// Sends the values `begun` and `values`, one after the other, as a chunk of `chunk` values.
    fn put(&self, chunk: usize, begun: &[i32], values: &[i32]) -> Result<Receiver<Room>> {
        let mut room = self.spare().pop().unwrap_or_default();
        room.planes.resize(VALUE * chunk, 0);
        shuffle(begun, &mut room.planes, 0, chunk);
        shuffle(values, &mut room.planes, begun.len(), chunk);
        room.filled = begun.len() + values.len();
        let (back, comes) = sync_channel(1);
        let sent = self.work.as_ref().is_some_and(|work| work.send((room, back)).is_ok());
        if !sent {
            return Err(DEAD.into());
        }
        self.flying.fetch_add(1, Relaxed);
        Ok(comes)
    }

    fn spare(&self) -> std::sync::MutexGuard<'_, Vec<Room>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn are_busy(&self) -> bool {
        self.flying.load(Relaxed) >= self.most
    }
}

const DEAD: &str = "a thread that compresses has ended; report this";

impl Drop for Packers {
    fn drop(&mut self) {
        self.work = None;
        for thread in self.threads.drain(..) {
            // One that has panicked has said so.
            let _ = thread.join();
        }
    }
}

/// A chunk that is being compressed.
#[derive(Debug)]
struct Flying {
    column: usize,
    first: usize,
    end: usize,
    back: Receiver<Room>,
}

/// Two columns of one group whose chunks are compressed by [`Packers`].
#[derive(Debug)]
pub(super) struct PackedColumns {
    packers: Arc<Packers>,
    chunk: usize,
    /// Values of the chunk that is begun: it comes again with more.
    begun: [Vec<i32>; 2],
    flying: VecDeque<Flying>,
}

impl PackedColumns {
    /// Chunks have `chunk` values; those of the one that is begun are read.
    pub(super) fn open(
        packers: Arc<Packers>,
        chunk: usize,
        columns: [&mut GrowingColumn<i32>; 2],
    ) -> Result<PackedColumns> {
        let [one, other] = columns;
        let begun = [one.begun()?, other.begun()?];
        Ok(PackedColumns { packers, chunk, begun, flying: VecDeque::new() })
    }

    /// Takes the values of both columns after the `taken` first ones that go into one chunk, and writes finished chunks
    /// to the file.
    ///
    /// # Errors
    /// The library's words, or a thread has died.
    pub(super) fn put(
        &mut self,
        columns: [&mut GrowingColumn<i32>; 2],
        taken: usize,
        values: [&[i32]; 2],
    ) -> Result<()> {
        let mut columns = columns;
        let first = taken - taken % self.chunk;
        for (column, values) in values.into_iter().enumerate() {
            let begun = &mut self.begun[column];
            let back = self.packers.put(self.chunk, begun, values)?;
            let end = first + begun.len() + values.len();
            match end == first + self.chunk {
                true => begun.clear(),
                false => begun.extend_from_slice(values),
            }
            self.flying.push_back(Flying { column, first, end, back });
            self.place(&mut columns, false)?;
        }
        Ok(())
    }

    /// Puts every chunk into the file.
    ///
    /// # Errors
    /// As of [`PackedColumns::put`].
    pub(super) fn settle(&mut self, columns: [&mut GrowingColumn<i32>; 2]) -> Result<()> {
        let mut columns = columns;
        self.place(&mut columns, true)
    }

    /// Writes finished chunks to the file, and waits for others if too many are in flight, or with `all`.
    fn place(&mut self, columns: &mut [&mut GrowingColumn<i32>; 2], all: bool) -> Result<()> {
        while let Some(oldest) = self.flying.front() {
            let mut room = if all || self.packers.are_busy() {
                oldest.back.recv().map_err(|_| DEAD)?
            } else {
                match oldest.back.try_recv() {
                    Ok(room) => room,
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return Err(DEAD.into()),
                }
            };
            columns[oldest.column].place(oldest.first, oldest.end, &mut room.packed)?;
            self.packers.flying.fetch_sub(1, Relaxed);
            self.packers.spare().push(room);
            self.flying.pop_front();
        }
        Ok(())
    }
}

impl Drop for PackedColumns {
    fn drop(&mut self) {
        // Of a file that has failed: the others continue.
        self.packers.flying.fetch_sub(self.flying.len(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::column::{FlushPhase, StoredColumn as _};
    use super::super::spec::ColumnSpec;
    use super::super::sys::{self, FileMode};
    use super::*;
    use fullcount_core::number::NumberType;
    use fullcount_io::compression::Compression;

    /// Two groups of two columns, written alternately and flushed sometimes, by few threads.
    #[test]
    fn groups_share_threads_and_each_chunk_comes_to_its_place() {
        let chunk = 1024;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.h5");
        let names = [["a", "b"], ["c", "d"]];
        sys::create(&path, |file| {
            names.as_flattened().iter().try_for_each(|name| {
                ColumnSpec::new(name, NumberType::I32, chunk).create(file, Compression::Gzip(1))
            })
        })
        .unwrap();
        let packers = Packers::start(3, 1).unwrap();
        let file = sys::open_for_readers(&path, FileMode::Write { cache: 0 }).unwrap();
        let open = |name: &str| GrowingColumn::<i32>::open(&file, name, FlushPhase::Bulk).unwrap();
        let mut columns = names.map(|names| names.map(open));
        let mut packed = columns.each_mut().map(|columns| {
            PackedColumns::open(packers.clone(), chunk, columns.each_mut()).unwrap()
        });
        let value = |group: usize, i: usize| ((i * 31 + group * 7) % 1000) as i32;
        let mut taken = [0; 2];
        for step in 0..200_usize {
            let group = step % 2;
            let n = (1 + step * 37 % 700).min(chunk - taken[group] % chunk);
            let ids: Vec<i32> = (taken[group]..taken[group] + n).map(|i| value(group, i)).collect();
            let offsets: Vec<i32> = ids.iter().map(|id| -id).collect();
            packed[group].put(columns[group].each_mut(), taken[group], [&ids, &offsets]).unwrap();
            taken[group] += n;
            assert!(packers.flying.load(Relaxed) < 3 + BESIDE);
            if step % 29 == 28 {
                packed[group].settle(columns[group].each_mut()).unwrap();
                assert_eq!(
                    columns[group].each_ref().map(GrowingColumn::written),
                    [taken[group]; 2]
                );
            }
        }
        for (packed, columns) in packed.iter_mut().zip(&mut columns) {
            packed.settle(columns.each_mut()).unwrap();
            columns.iter_mut().for_each(|column| column.commit().unwrap());
        }
        assert_eq!(packers.flying.load(Relaxed), 0);
        assert!(packers.spare().len() <= 3 + BESIDE, "memory is used again");
        drop((packed, columns));
        for (group, names) in names.iter().enumerate() {
            let want: Vec<i32> = (0..taken[group]).map(|i| value(group, i)).collect();
            let read = |name: &str| file.dataset(name).unwrap().read_raw::<i32>().unwrap();
            assert!(read(names[0]) == want);
            assert!(read(names[1]).iter().zip(&want).all(|(a, b)| *a == -b));
        }
        sys::close(file, ()).unwrap();
        assert!(sys::open(&path, FileMode::Read).is_ok());
    }

    #[test]
    fn threads_end_with_chunks_on_their_way() {
        let packers = Packers::start(1, 9).unwrap();
        let come: Vec<_> = (0..2).map(|i| packers.put(1024, &[], &[i; 1024]).unwrap()).collect();
        drop(packers);
        drop(come);
    }
}
