//! Threads that compress chunks of events, and the order in which these come back.
//!
//! HDF5 compresses on the thread that writes, with one effort for all: 72 MB/s of events at `gzip:1`. Here the thread of
//! the sink only shuffles a chunk into memory; threads of their own compress ([`Deflater`]), and what is finished comes
//! back in the order in which it went. Bounded: as many chunks are on their way as there are threads, and two more; then
//! the oldest is waited for. A thread that dies ends the file with an error.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use hdf5_metno::Result;

use super::deflate::{Deflater, VALUE, shuffle};

/// Chunks on their way beside one for each thread: one is filled while another waits.
const BESIDE: usize = 2;

/// Memory of a chunk, used again and again.
#[derive(Debug, Default)]
struct Room {
    planes: Vec<u8>,
    filled: usize,
    packed: Vec<u8>,
}

type Work = (Room, SyncSender<Room>);

/// A chunk that is compressed.
#[derive(Debug)]
struct Flying {
    column: usize,
    first: usize,
    end: usize,
    back: Receiver<Room>,
}

/// A chunk that is ready for the file. Its memory goes back by [`Packers::give_back`].
#[derive(Debug)]
pub(super) struct Done {
    /// Column, as given to [`Packers::put`].
    pub(super) column: usize,
    /// Its first row.
    pub(super) first: usize,
    /// The row behind its last value.
    pub(super) end: usize,
    room: Room,
}

impl Done {
    /// The zlib stream.
    pub(super) fn packed(&mut self) -> &mut Vec<u8> {
        &mut self.room.packed
    }
}

/// The threads.
#[derive(Debug)]
pub(super) struct Packers {
    chunk: usize,
    work: Option<SyncSender<Work>>,
    threads: Vec<JoinHandle<()>>,
    flying: VecDeque<Flying>,
    spare: Vec<Room>,
}

impl Packers {
    /// `threads` threads for chunks of `chunk` values; `level`: 1 to 9.
    ///
    /// # Errors
    /// The system's words.
    pub(super) fn start(threads: usize, chunk: usize, level: u8) -> Result<Packers> {
        // Never full: no more are on their way.
        let (work, list) = sync_channel::<Work>(threads + BESIDE);
        let list = Arc::new(Mutex::new(list));
        let mut packers = Packers {
            chunk,
            work: Some(work),
            threads: Vec::new(),
            flying: VecDeque::new(),
            spare: Vec::new(),
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
                    // Nobody waits for it if the file has failed.
                    let _ = back.send(room);
                }
            });
            let failed = |e: std::io::Error| format!("cannot start a thread that compresses: {e}");
            packers.threads.push(thread.map_err(failed)?);
        }
        Ok(packers)
    }

    /// Takes the chunk of `column` that begins at row `first` and holds `begun` and `values`, one after the other.
    ///
    /// # Errors
    /// All threads have died.
    pub(super) fn put(
        &mut self,
        column: usize,
        first: usize,
        begun: &[i32],
        values: &[i32],
    ) -> Result<()> {
        let mut room = self.spare.pop().unwrap_or_default();
        room.planes.resize(VALUE * self.chunk, 0);
        shuffle(begun, &mut room.planes, 0, self.chunk);
        shuffle(values, &mut room.planes, begun.len(), self.chunk);
        room.filled = begun.len() + values.len();
        let end = first + room.filled;
        let (back, comes) = sync_channel(1);
        let sent = self.work.as_ref().is_some_and(|work| work.send((room, back)).is_ok());
        if !sent {
            return Err(DEAD.into());
        }
        self.flying.push_back(Flying { column, first, end, back: comes });
        Ok(())
    }

    /// The oldest chunk, if it is finished or has to be: if too many are on their way, or with `all`.
    ///
    /// # Errors
    /// The thread that had it has died.
    pub(super) fn take(&mut self, all: bool) -> Result<Option<Done>> {
        let wait = all || self.flying.len() >= self.threads.len() + BESIDE;
        let Some(oldest) = self.flying.front() else { return Ok(None) };
        let room = if wait {
            oldest.back.recv().map_err(|_| DEAD)?
        } else {
            match oldest.back.try_recv() {
                Ok(room) => room,
                Err(std::sync::mpsc::TryRecvError::Empty) => return Ok(None),
                Err(std::sync::mpsc::TryRecvError::Disconnected) => return Err(DEAD.into()),
            }
        };
        let Some(Flying { column, first, end, .. }) = self.flying.pop_front() else {
            return Ok(None);
        };
        Ok(Some(Done { column, first, end, room }))
    }

    /// Its memory is for the next chunk.
    pub(super) fn give_back(&mut self, done: Done) {
        self.spare.push(done.room);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_come_back_in_their_order_and_no_more_than_a_few_are_on_their_way() {
        let chunk = 4096;
        let mut packers = Packers::start(3, chunk, 1).unwrap();
        let mut came = Vec::new();
        let mut take = |packers: &mut Packers, all| {
            while let Some(done) = packers.take(all).unwrap() {
                came.push((done.column, done.first, done.end));
                packers.give_back(done);
            }
        };
        let mut went = Vec::new();
        for i in 0..50_usize {
            let (begun, values) = ([i as i32; 10], vec![7; 1 + i * 50]);
            packers.put(i % 2, i * chunk, &begun, &values).unwrap();
            went.push((i % 2, i * chunk, i * chunk + 11 + i * 50));
            take(&mut packers, false);
            assert!(packers.flying.len() < 3 + BESIDE);
        }
        take(&mut packers, true);
        assert_eq!(came, went);
        assert!(packers.spare.len() <= 3 + BESIDE, "memory is used again");
    }

    #[test]
    fn threads_end_with_chunks_on_their_way() {
        let mut packers = Packers::start(1, 1024, 9).unwrap();
        (0..2).for_each(|i| packers.put(0, i * 1024, &[], &[i as i32; 1024]).unwrap());
        drop(packers);
    }
}
