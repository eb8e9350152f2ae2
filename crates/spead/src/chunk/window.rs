//! Consecutive chunks that are being filled, and the rings of free and finished ones.
//!
//! The window moves forward only. Chunks leave at its head, in the order of their ids, and every id that it passes leaves once,
//! filled or not. An allocation that gives nothing makes that chunk's heaps vanish. Source: `docs/formats/spead.md`, section 12.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A buffer for many heaps.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Chunk {
    /// Its number.
    pub id: u64,
    /// Of the stream that began it.
    pub stream: u64,
    /// Payload.
    pub data: Vec<u8>,
    /// 1 for each heap (or packet) that is there.
    pub present: Vec<u8>,
    /// What the place function wrote.
    pub extra: Vec<u8>,
    /// What the flags stand for; only where [`ChunkMemory::merges`].
    pub filled: Vec<FilledPart>,
}

/// Part of a chunk that was filled: what a group copies when it merges chunks of its members.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FilledPart {
    /// Its flags.
    pub flags: Range<usize>,
    /// Its bytes in `data`.
    pub data: Range<usize>,
    /// Its bytes in `extra`.
    pub extra: Range<usize>,
}

impl fmt::Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let there = self.present.iter().filter(|p| **p != 0).count();
        write!(
            f,
            "Chunk({}, {there} of {} present, {} B)",
            self.id,
            self.present.len(),
            self.data.len()
        )
    }
}

impl Chunk {
    /// A chunk of `data` bytes with `present` flags and `extra` bytes.
    pub fn new(data: usize, present: usize, extra: usize) -> Chunk {
        Chunk {
            data: vec![0; data],
            present: vec![0; present],
            extra: vec![0; extra],
            ..Chunk::default()
        }
    }

    /// Nothing of it is there.
    pub(super) fn clear(&mut self) {
        self.present.fill(0);
        self.filled.clear();
    }

    /// A packet's payload and flags join the part that ends where they begin.
    pub(super) fn add_filled(&mut self, part: FilledPart) {
        match self.filled.last_mut() {
            Some(last)
                if last.data.end == part.data.start
                    && (last.flags.start..=last.flags.end).contains(&part.flags.start)
                    && part.extra.is_empty() =>
            {
                last.data.end = part.data.end;
                last.flags.end = last.flags.end.max(part.flags.end);
            }
            _ => self.filled.push(part),
        }
    }
}

/// Where chunks come from and go to.
pub trait ChunkMemory {
    /// A chunk for this id, flags cleared; `None`: there is none, and its heaps vanish.
    fn take(&mut self, id: u64, stream: u64) -> Option<Chunk>;

    /// A chunk has left the window. False: too late, and all that is in it is lost.
    fn ready(&mut self, chunk: Chunk) -> bool;

    /// No chunk will come any more.
    fn stop(&mut self) {}

    /// Finished chunks cannot be taken at the moment.
    fn is_full(&self) -> bool {
        false
    }

    /// Chunks say which parts were filled.
    fn merges(&self) -> bool {
        false
    }

    /// Chunks below this id are too old, whatever the stream's window holds.
    fn oldest(&self) -> u64 {
        0
    }

    /// Most chunks that the stream's window may have; `None`: any number.
    fn largest_window(&self) -> Option<usize> {
        None
    }
}

/// Rings of free and of finished chunks; the user moves them from one to the other.
#[derive(Debug, Default)]
pub struct ChunkRing {
    free: VecDeque<Chunk>,
    ready: VecDeque<Chunk>,
    most_ready: Option<usize>,
    starved: u64,
    stopped: bool,
}

impl ChunkRing {
    /// No more packets are taken while so many chunks are finished.
    pub fn with_limit(ready: usize) -> ChunkRing {
        ChunkRing { most_ready: Some(ready), ..ChunkRing::default() }
    }

    /// Gives an empty chunk; its flags are cleared.
    pub fn add_free(&mut self, mut chunk: Chunk) {
        chunk.clear();
        self.free.push_back(chunk);
    }

    /// The next finished chunk.
    pub fn pop(&mut self) -> Option<Chunk> {
        self.ready.pop_front()
    }

    /// No stream fills chunks any more; finished ones may still wait.
    pub fn stopped(&self) -> bool {
        self.stopped
    }

    /// How often there was no free chunk.
    pub fn starved(&self) -> u64 {
        self.starved
    }

    /// No chunk will come any more.
    pub fn is_stopped(&self) -> bool {
        self.stopped && self.ready.is_empty()
    }
}

impl ChunkMemory for ChunkRing {
    fn take(&mut self, id: u64, stream: u64) -> Option<Chunk> {
        let Some(chunk) = self.free.pop_front() else {
            self.starved += 1;
            return None;
        };
        Some(Chunk { id, stream, ..chunk })
    }

    fn ready(&mut self, chunk: Chunk) -> bool {
        self.ready.push_back(chunk);
        true
    }

    fn stop(&mut self) {
        self.stopped = true;
    }

    fn is_full(&self) -> bool {
        self.most_ready.is_some_and(|most| self.ready.len() >= most)
    }
}

/// The same rings for several streams; they stop with the last of them.
#[derive(Debug)]
pub struct SharedChunkRing {
    ring: Arc<Mutex<ChunkRing>>,
    /// Streams that have not stopped.
    streams: Arc<AtomicUsize>,
}

impl SharedChunkRing {
    /// For one stream; [`SharedChunkRing::another`] makes it one for two.
    pub fn new(ring: ChunkRing) -> SharedChunkRing {
        let streams = Arc::new(AtomicUsize::new(1));
        SharedChunkRing { ring: Arc::new(Mutex::new(ring)), streams }
    }

    /// The same rings for one more stream.
    pub fn another(&self) -> SharedChunkRing {
        self.streams.fetch_add(1, Ordering::Relaxed);
        SharedChunkRing { ring: Arc::clone(&self.ring), streams: Arc::clone(&self.streams) }
    }

    /// The rings, for the user's side.
    pub fn lock(&self) -> MutexGuard<'_, ChunkRing> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rings, for a user in another thread.
    pub fn handle(&self) -> Arc<Mutex<ChunkRing>> {
        Arc::clone(&self.ring)
    }
}

impl ChunkMemory for SharedChunkRing {
    fn take(&mut self, id: u64, stream: u64) -> Option<Chunk> {
        self.lock().take(id, stream)
    }

    fn ready(&mut self, chunk: Chunk) -> bool {
        self.lock().ready(chunk)
    }

    fn stop(&mut self) {
        if self.streams.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.lock().stop();
        }
    }

    fn is_full(&self) -> bool {
        self.lock().is_full()
    }
}

/// A chunk that is being filled; without memory its heaps vanish.
#[derive(Debug)]
struct Filling {
    chunk: Option<Chunk>,
    /// Heaps that are whole in it.
    heaps: u64,
}

/// Consecutive chunks, from `head`.
#[derive(Debug)]
pub(super) struct ChunkWindow {
    pub head: u64,
    chunks: VecDeque<Filling>,
    most: usize,
    /// Whole heaps of chunks that left too late, not taken out yet.
    late: u64,
}

impl ChunkWindow {
    pub fn new(most: usize) -> ChunkWindow {
        ChunkWindow { head: 0, chunks: VecDeque::new(), most, late: 0 }
    }

    pub fn tail(&self) -> u64 {
        self.head + self.chunks.len() as u64
    }

    /// Moves on so far that `id` is inside. Heaps of ids behind it are too old.
    pub fn reach(&mut self, id: u64, stream: u64, memory: &mut impl ChunkMemory) {
        let most = self.most as u64;
        if id < self.tail() {
            return;
        }
        if id - self.tail() >= most {
            self.flush_until(u64::MAX, memory);
            self.head = self.head.max((id + 1).saturating_sub(most));
        }
        while self.tail() <= id {
            if self.chunks.len() == self.most {
                self.leave(memory);
            }
            let next = self.tail();
            self.chunks.push_back(Filling { chunk: memory.take(next, stream), heaps: 0 });
        }
    }

    fn leave(&mut self, memory: &mut impl ChunkMemory) {
        if let Some(Filling { chunk, heaps }) = self.chunks.pop_front() {
            self.head += 1;
            if let Some(chunk) = chunk
                && !memory.ready(chunk)
            {
                self.late += heaps;
            }
        }
    }

    /// Chunks below `id` leave.
    pub fn flush_until(&mut self, id: u64, memory: &mut impl ChunkMemory) {
        while !self.chunks.is_empty() && self.head < id {
            self.leave(memory);
        }
    }

    /// Chunks below `id` leave, and heaps of these are too old from now on.
    pub fn move_on(&mut self, id: u64, memory: &mut impl ChunkMemory) {
        self.flush_until(id, memory);
        if self.chunks.is_empty() {
            self.head = self.head.max(id);
        }
    }

    /// The chunk of an id, if it is inside and has memory.
    pub fn get(&mut self, id: u64) -> Option<&mut Chunk> {
        self.filling(id)?.chunk.as_mut()
    }

    /// A heap of this chunk is whole.
    pub fn has_heap(&mut self, id: u64) {
        if let Some(filling) = self.filling(id) {
            filling.heaps += 1;
        }
    }

    /// Whole heaps of chunks that left too late, since this was asked last.
    pub fn take_late(&mut self) -> u64 {
        std::mem::take(&mut self.late)
    }

    #[inline]
    fn filling(&mut self, id: u64) -> Option<&mut Filling> {
        let at = usize::try_from(id.checked_sub(self.head)?).ok()?;
        self.chunks.get_mut(at)
    }
}
