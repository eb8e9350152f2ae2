//! Memory of heaps: where a payload is copied to, once.
//!
//! Nothing is cleared beforehand: packets in order extend the memory, and what a packet skips is cleared only then. A pool
//! keeps blocks whose pages are there. Bytes of an earlier heap in a block are never shown: only what a packet brought is.
//! A length that cannot be had is `None`, never the end of the process. Source: `docs/formats/spead.md`, section 11.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use fullcount_core::{PagesAhead, next_page_ahead, stream_into, stream_onto};

use crate::wire::SpeadPacket;

/// Gaps up to so many bytes are cleared as they come, longer ones get fresh zero pages.
const SMALL_GAP: usize = 1 << 20;

/// Payloads of so many bytes are copied page by page ([`PagesAhead`]), of shorter ones the page behind them is asked for, where the next packet lies.
const LONG: usize = 16 << 10;

/// How payloads are copied into their heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PayloadCopy {
    /// In one piece.
    AtOnce,
    /// Of 16 KiB and more page by page, and the next page is asked for ahead.
    #[default]
    PagesAhead,
    /// Past the cache ([`stream_into`]): for consumers that do not look at the bytes soon.
    Streaming,
}

impl PayloadCopy {
    /// Asks for the memory behind a short payload.
    #[inline]
    fn look_ahead(self, data: &[u8]) {
        if self == PayloadCopy::PagesAhead && data.len() < LONG {
            next_page_ahead(data);
        }
    }

    /// Copies `data` to `there`, which is as long.
    #[inline]
    fn copy(self, mut there: &mut [u8], data: &[u8]) {
        match self {
            PayloadCopy::Streaming => stream_into(there, data),
            PayloadCopy::PagesAhead if data.len() >= LONG => {
                for piece in PagesAhead::of(data) {
                    let (now, behind) = there.split_at_mut(piece.len());
                    now.copy_from_slice(piece);
                    there = behind;
                }
            }
            _ => there.copy_from_slice(data),
        }
    }

    /// Adds `data` at the end of `bytes`, which has the room.
    #[inline]
    fn extend(self, bytes: &mut Vec<u8>, data: &[u8]) {
        match self {
            PayloadCopy::Streaming => stream_onto(bytes, data),
            PayloadCopy::PagesAhead if data.len() >= LONG => {
                PagesAhead::of(data).for_each(|new| bytes.extend_from_slice(new));
            }
            _ => bytes.extend_from_slice(data),
        }
    }
}

/// Gives memory for heaps. `hint` is the packet that needs it, so that its contents may choose.
pub trait HeapMemory: fmt::Debug + Send {
    /// A vector of at least this capacity, with any contents; `None`: there is none.
    fn take(&mut self, bytes: usize, hint: &SpeadPacket<'_>) -> Option<HeapBytes>;

    /// The same for a heap of which nothing came yet: of its `bytes` bytes the first `first` are enough, and it grows as they come.
    fn take_first(
        &mut self,
        bytes: usize,
        first: usize,
        hint: &SpeadPacket<'_>,
    ) -> Option<HeapBytes> {
        self.take(bytes.min(first), hint)
    }
}

/// Memory of the process, for each heap anew.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlainMemory;

impl HeapMemory for PlainMemory {
    fn take(&mut self, bytes: usize, _: &SpeadPacket<'_>) -> Option<HeapBytes> {
        HeapBytes::fresh(bytes)
    }
}

/// The payload memory of one heap. Dropped, it goes back to its pool.
pub struct HeapBytes {
    /// Initialised as far as it is long, which in a pooled block is further than this heap wrote.
    bytes: Vec<u8>,
    /// Bytes of this heap.
    length: usize,
    home: Option<Arc<Mutex<Free>>>,
}

impl fmt::Debug for HeapBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HeapBytes({} B)", self.length)
    }
}

impl HeapBytes {
    /// Fresh memory for `bytes` bytes, which holds none yet.
    pub fn fresh(bytes: usize) -> Option<HeapBytes> {
        let mut fresh = Vec::new();
        fresh.try_reserve_exact(bytes).ok()?;
        Some(HeapBytes { bytes: fresh, length: 0, home: None })
    }

    /// The bytes of `vector` as a heap's.
    pub fn of(vector: Vec<u8>) -> HeapBytes {
        HeapBytes { length: vector.len(), bytes: vector, home: None }
    }

    /// Bytes as far as one was written.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Bytes of memory that it takes.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Copies `data` to `offset`; `whole` is the length that the heap will have, if that is known.
    /// False: there is no memory.
    pub fn write(&mut self, offset: usize, data: &[u8], whole: Option<usize>) -> bool {
        self.write_by(offset, data, whole, PayloadCopy::default())
    }

    /// The same, copied that way.
    #[inline]
    pub(super) fn write_by(
        &mut self,
        offset: usize,
        data: &[u8],
        whole: Option<usize>,
        copy: PayloadCopy,
    ) -> bool {
        let Some(end) = offset.checked_add(data.len()) else { return false };
        copy.look_ahead(data);
        if end <= self.bytes.len() {
            copy.copy(&mut self.bytes[offset..end], data);
        } else {
            if !self.grow(offset, end, whole) {
                return false;
            }
            if offset == self.bytes.len() {
                copy.extend(&mut self.bytes, data);
            } else {
                // A block that a pool gave may end in the middle of the packet.
                let known = self.bytes.len().min(end);
                let (there, new) = data.split_at(known - offset);
                self.bytes[offset..known].copy_from_slice(there);
                self.bytes.extend_from_slice(new);
            }
        }
        self.length = self.length.max(end);
        true
    }

    /// Room up to `end`, initialised up to `offset`.
    #[cold]
    fn reserve(&mut self, end: usize, whole: Option<usize>) -> bool {
        let wanted = whole.unwrap_or(0).max(end);
        let more = wanted - self.bytes.len();
        match whole {
            Some(_) => self.bytes.try_reserve_exact(more).is_ok(),
            None => self.bytes.try_reserve(more).is_ok(),
        }
    }

    #[inline]
    fn grow(&mut self, offset: usize, end: usize, whole: Option<usize>) -> bool {
        if end > self.bytes.capacity() && !self.reserve(end, whole) {
            return false;
        }
        if offset <= self.bytes.len() {
            return true;
        }
        self.skip(offset, whole.unwrap_or(end).max(end))
    }

    /// Makes what lies before `offset` zeros.
    #[cold]
    fn skip(&mut self, offset: usize, whole: usize) -> bool {
        if offset - self.bytes.len() <= SMALL_GAP || self.home.is_some() {
            self.bytes.resize(offset, 0);
            return true;
        }
        // Zero pages come from the system as they are touched. That they can be had is asked first: this call would end the process.
        if Vec::<u8>::new().try_reserve_exact(whole).is_err() {
            return false;
        }
        let mut zeros = vec![0; whole];
        zeros[..self.bytes.len()].copy_from_slice(&self.bytes);
        self.bytes = zeros;
        true
    }

    /// Memory from `offset` on, at most `most` bytes, in which nothing of this heap is: for a transport that fills it before it knows
    /// whether that is the heap's. As far as the memory was written once, perhaps for another heap; in fresh memory there is none.
    pub fn beyond(&mut self, offset: usize, most: usize) -> Option<&mut [u8]> {
        let end = offset.saturating_add(most).min(self.bytes.len());
        (offset >= self.length).then(|| self.bytes.get_mut(offset..end))?
    }

    /// What was filled in there up to `end` is the heap's.
    pub fn filled_to(&mut self, end: usize) {
        self.length = end.min(self.bytes.len()).max(self.length);
    }

    /// Lets `[0, length)` be the heap's bytes: for memory that a transport fills itself. False: there is no memory.
    pub fn stretch(&mut self, length: usize) -> bool {
        if length > self.bytes.len() && !self.grow(length, length, Some(length)) {
            return false;
        }
        self.length = length;
        true
    }

    /// Lets more bytes be the heap's, which has `whole` in the end: 1 MiB, or all that was written once. Memory doubles as they come.
    /// False: there is no memory.
    pub fn stretch_on(&mut self, whole: usize) -> bool {
        // Cleared in small steps: they are still in the processor's cache when they are filled.
        let to = self.length.saturating_add(SMALL_GAP).max(self.bytes.len()).min(whole);
        let capacity = self.bytes.capacity();
        if to > capacity {
            let wanted = capacity.saturating_mul(2).clamp(to, whole);
            if self.bytes.try_reserve_exact(wanted - self.bytes.len()).is_err() {
                return false;
            }
        }
        if to > self.bytes.len() {
            self.bytes.resize(to, 0);
        }
        self.length = self.length.max(to);
        true
    }

    /// The heap's bytes, to be filled.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.length]
    }
}

impl Drop for HeapBytes {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            let mut free = home.lock().unwrap_or_else(PoisonError::into_inner);
            // One that grew, for a heap whose length nobody said, would keep that memory for good.
            if free.blocks.len() < free.most && self.bytes.capacity() <= free.upper {
                free.blocks.push(std::mem::take(&mut self.bytes));
            }
        }
    }
}

#[derive(Debug)]
struct Free {
    blocks: Vec<Vec<u8>>,
    most: usize,
    /// Largest block that is kept, bytes.
    upper: usize,
    empty: u64,
}

/// Blocks of one size that come back when the last user drops a heap, unless they grew; may be shared by streams.
#[derive(Debug, Clone)]
pub struct MemoryPool {
    lower: usize,
    upper: usize,
    low_water: usize,
    free: Arc<Mutex<Free>>,
}

impl MemoryPool {
    /// A pool for heaps of `lower` to `upper` bytes, which keeps up to `most_free` blocks and makes `first` at once.
    /// Good sizes: `first` is window + ring + heaps held by the consumer + 4. `None`: no memory, or `lower` above `upper`.
    pub fn new(lower: usize, upper: usize, most_free: usize, first: usize) -> Option<MemoryPool> {
        if lower > upper || upper == 0 {
            return None;
        }
        let free = Free { blocks: Vec::new(), most: most_free.max(first), upper, empty: 0 };
        let pool = MemoryPool { lower, upper, low_water: 0, free: Arc::new(Mutex::new(free)) };
        pool.refill(first).then_some(pool)
    }

    /// Below so many free blocks, [`MemoryPool::is_low`].
    pub fn with_low_water(self, low_water: usize) -> MemoryPool {
        MemoryPool { low_water, ..self }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread of the caller's should [`MemoryPool::refill`].
    pub fn is_low(&self) -> bool {
        self.lock().blocks.len() < self.low_water
    }

    /// Makes blocks until `wanted` are free; each page is touched here, not when a packet comes. False: no memory.
    pub fn refill(&self, wanted: usize) -> bool {
        while self.free_blocks() < wanted {
            let mut block = Vec::new();
            if block.try_reserve_exact(self.upper).is_err() {
                return false;
            }
            block.resize(self.upper, 0);
            self.lock().blocks.push(block);
        }
        true
    }

    /// Blocks that nobody uses.
    pub fn free_blocks(&self) -> usize {
        self.lock().blocks.len()
    }

    /// How often there was none.
    pub fn times_empty(&self) -> u64 {
        self.lock().empty
    }
}

impl HeapMemory for MemoryPool {
    fn take(&mut self, bytes: usize, _: &SpeadPacket<'_>) -> Option<HeapBytes> {
        if !(self.lower..=self.upper).contains(&bytes) {
            return HeapBytes::fresh(bytes);
        }
        let kept = {
            let mut free = self.lock();
            let kept = free.blocks.pop();
            free.empty += u64::from(kept.is_none());
            kept
        };
        let home = Some(Arc::clone(&self.free));
        if let Some(block) = kept {
            return Some(HeapBytes { bytes: block, length: 0, home });
        }
        let mut fresh = HeapBytes::fresh(self.upper)?;
        fresh.home = home;
        Some(fresh)
    }

    /// A whole block if the heap takes one.
    fn take_first(
        &mut self,
        bytes: usize,
        first: usize,
        hint: &SpeadPacket<'_>,
    ) -> Option<HeapBytes> {
        match (self.lower..=self.upper).contains(&bytes) {
            true => self.take(bytes, hint),
            false => HeapBytes::fresh(bytes.min(first)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Raw;

    #[test]
    fn payloads_are_the_same_bytes_however_they_are_copied() {
        let data: Vec<u8> = (0..120_000u32).map(|n| (n ^ (n >> 7)) as u8).collect();
        let (first, second) = data.split_at(50_001);
        for copy in [PayloadCopy::PagesAhead, PayloadCopy::AtOnce, PayloadCopy::Streaming] {
            // In order the memory grows; the second time it is there.
            let mut heap = HeapBytes::fresh(data.len()).unwrap();
            for _ in 0..2 {
                assert!(heap.write_by(0, first, Some(data.len()), copy));
                assert!(heap.write_by(first.len(), second, Some(data.len()), copy));
                assert!(heap.as_slice() == data, "{copy:?}");
            }
        }
    }

    #[test]
    fn packets_in_any_order_make_the_same_bytes() {
        let data: Vec<u8> = (0..200u8).collect();
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]] {
            let mut heap = HeapBytes::fresh(200).unwrap();
            for n in order {
                assert!(heap.write(n * 50, &data[n * 50..][..50], Some(200)));
            }
            assert_eq!(heap.as_slice(), data);
        }
        let mut far = HeapBytes::fresh(0).unwrap();
        assert!(far.write(0, &[7], Some(1 << 31)) && far.write((1 << 31) - 1, &[9], Some(1 << 31)));
        assert_eq!(
            (far.as_slice()[0], far.as_slice()[1 << 30], far.as_slice().len()),
            (7, 0, 1 << 31)
        );
    }

    #[test]
    fn blocks_come_back_and_others_do_not() {
        let raw = Raw::new(1, 8, 0, &[1; 8]).bytes();
        let hint = SpeadPacket::parse(&raw).unwrap();
        let mut pool = MemoryPool::new(16, 64, 2, 1).unwrap().with_low_water(1);
        let mut a = pool.take(20, &hint).unwrap();
        assert!(pool.is_low() && a.write(0, &[1; 20], Some(20)));
        let b = pool.take(64, &hint).unwrap();
        let c = pool.take(64, &hint).unwrap();
        assert_eq!(pool.times_empty(), 2);
        let outside = pool.take(65, &hint).unwrap();
        drop((a, b, c, outside));
        assert_eq!(pool.free_blocks(), 2);
        let again = pool.take(20, &hint).unwrap();
        assert!(again.as_slice().is_empty(), "bytes of another heap are not shown");
        assert!(MemoryPool::new(9, 8, 1, 1).is_none());
    }

    #[test]
    fn a_block_that_grew_does_not_come_back() {
        let raw = Raw::new(1, 8, 0, &[1; 8]).bytes();
        let hint = SpeadPacket::parse(&raw).unwrap();
        let mut pool = MemoryPool::new(1, 64, 4, 1).unwrap();
        for (bytes, free) in [(64, 1), (65, 0), (1 << 20, 0)] {
            let mut heap = pool.take(30, &hint).unwrap();
            assert!(heap.write(0, &vec![1; bytes], None));
            drop(heap);
            assert_eq!(pool.free_blocks(), free, "{bytes} B");
        }
    }

    #[test]
    fn a_block_that_ends_inside_a_packet() {
        let raw = Raw::new(1, 8, 0, &[1; 8]).bytes();
        let hint = SpeadPacket::parse(&raw).unwrap();
        let mut pool = MemoryPool::new(1, 64, 4, 0).unwrap();
        let mut a = pool.take(30, &hint).unwrap();
        assert!(a.write(0, &[1; 30], Some(30)));
        drop(a);
        let mut b = pool.take(60, &hint).unwrap();
        assert!(b.write(0, &[2; 20], Some(60)) && b.write(20, &[3; 40], Some(60)));
        assert_eq!(b.as_slice(), [vec![2; 20], vec![3; 40]].concat());
    }
}
