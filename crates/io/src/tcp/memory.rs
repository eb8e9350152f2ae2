//! Memory that bytes are received into and that others may keep: taken, shared, and used again once nobody has it.
//!
//! Sizes are powers of two. What is kept by others comes back by itself. Of what is ready the latest is used first: it is
//! still in a cache. A size keeps at most [`SPARE`] that nobody uses; [`Memory::sweep`] gives the others back.

use std::collections::VecDeque;
use std::sync::Arc;

use fullcount_core::batch::TrainMeta;

/// Smallest size, as a power of two: 512 B.
const LEAST: u32 = 9;
/// Largest: 128 MiB.
const MOST: u32 = 27;
/// Unused ones of a size that are kept.
const SPARE: usize = 8;
/// Ones in use that are looked at before a new one is made. Those of streams that are ahead come back later than others: with 4, memory
/// was made anew while some was ready, and a tenth of the reading thread's time went into new pages.
const LOOK: usize = 64;
/// The same with some ready, at each taking: what came back last is used before what has been ready for long and has left the caches.
const GLANCE: usize = 2;

/// Memory of one size.
#[derive(Debug, Default)]
struct Sized {
    /// Nobody has it; the last one was used last.
    ready: Vec<Arc<[u8]>>,
    /// So many of these have been ready since the last sweep.
    unused: usize,
    /// Others may have it, in the order in which it was given.
    given: VecDeque<Arc<[u8]>>,
}

impl Sized {
    /// Finds what has come back; gives up after `look` that have not.
    fn collect(&mut self, look: usize) {
        let mut kept = 0;
        for _ in 0..self.given.len() {
            let Some(mut memory) = self.given.pop_front() else { break };
            if Arc::get_mut(&mut memory).is_some() {
                self.ready.push(memory);
                continue;
            }
            self.given.push_back(memory);
            kept += 1;
            if kept == look {
                break;
            }
        }
    }
}

/// All memory of one source.
#[derive(Debug, Default)]
pub(super) struct Memory {
    sizes: [Sized; (MOST - LEAST + 1) as usize],
    bytes: usize,
    /// Trains of the read at hand.
    pub trains: Vec<TrainMeta>,
}

impl Memory {
    fn class(size: usize) -> usize {
        let bits = size.next_power_of_two().trailing_zeros();
        (bits.clamp(LEAST, MOST) - LEAST) as usize
    }

    /// At least `size` bytes, at most 128 MiB, that nobody else has.
    pub fn take(&mut self, size: usize) -> Arc<[u8]> {
        let class = Memory::class(size);
        let known = &mut self.sizes[class];
        known.collect(if known.ready.is_empty() { LOOK } else { GLANCE });
        if let Some(memory) = known.ready.pop() {
            known.unused = known.unused.min(known.ready.len());
            return memory;
        }
        let size = 1 << (class as u32 + LEAST);
        self.bytes += size;
        std::iter::repeat_n(0, size).collect()
    }

    /// It will be used again when nobody has it any more.
    pub fn give(&mut self, memory: Arc<[u8]>) {
        let class = Memory::class(memory.len());
        self.sizes[class].given.push_back(memory);
    }

    /// The same, the first to be taken: nobody has it.
    pub fn give_back(&mut self, memory: Arc<[u8]>) {
        let class = Memory::class(memory.len());
        self.sizes[class].ready.push(memory);
    }

    /// Bytes of all of it.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives back a quarter of what has not been used since the last call: called a few times a second. All of it at once would be
    /// made again with the next burst.
    pub fn sweep(&mut self) {
        for known in &mut self.sizes {
            // Those at the beginning were used longest ago.
            let unused = known.unused.saturating_sub(SPARE).div_ceil(4);
            self.bytes -= known.ready.drain(..unused).map(|memory| memory.len()).sum::<usize>();
            known.collect(usize::MAX);
            known.unused = known.ready.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_only_when_nobody_has_it() {
        let mut memory = Memory::default();
        let first = memory.take(5000);
        assert_eq!((first.len(), memory.bytes()), (8192, 8192));
        let place = first.as_ptr();
        let kept = first.clone();
        memory.give(first);
        let second = memory.take(8192);
        assert_ne!(second.as_ptr(), place);
        memory.give_back(second);
        drop(kept);
        let both = [memory.take(8000).as_ptr(), place];
        assert_eq!(memory.bytes(), 16_384);
        assert_ne!(both[0], std::ptr::null());
    }

    #[test]
    fn what_came_back_last_is_taken_first() {
        let mut memory = Memory::default();
        let all: Vec<_> = (0..4).map(|_| memory.take(4096)).collect();
        let places: Vec<_> = all.iter().map(|one| one.as_ptr()).collect();
        let kept = all[3].clone();
        all.into_iter().for_each(|one| memory.give(one));
        // The fourth is with others. It comes back while three are ready.
        let third = memory.take(4096);
        assert_eq!(third.as_ptr(), places[2]);
        drop(kept);
        assert_eq!(memory.take(4096).as_ptr(), places[3]);
        assert_eq!(memory.bytes(), 4 * 4096);
        drop(third);
    }

    #[test]
    fn what_is_not_used_is_given_back() {
        let mut memory = Memory::default();
        let all: Vec<_> = (0..20).map(|_| memory.take(4096)).collect();
        let kept = all[0].clone();
        all.into_iter().for_each(|one| memory.give(one));
        assert_eq!(memory.bytes(), 20 * 4096);
        memory.sweep();
        assert_eq!(memory.bytes(), 20 * 4096);
        memory.sweep();
        assert_eq!(memory.bytes(), (20 - 3) * 4096);
        // Those that are used between two sweeps stay.
        let used: Vec<_> = (0..9).map(|_| memory.take(4096)).collect();
        used.into_iter().for_each(|one| memory.give_back(one));
        memory.sweep();
        assert_eq!(memory.bytes(), (20 - 3) * 4096);
        (0..9).for_each(|_| memory.sweep());
        assert_eq!(memory.bytes(), (SPARE + 1) * 4096);
        drop(kept);
        memory.sweep();
        memory.sweep();
        assert_eq!(memory.bytes(), SPARE * 4096);
    }
}
