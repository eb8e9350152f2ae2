//! Memory that bytes are received into and that others may keep: taken, shared, and used again once nobody has it.
//!
//! Sizes are powers of two. What is kept by others is no longer counted as ready but comes back by itself. A size keeps at
//! most [`SPARE`] that nobody uses; [`Memory::sweep`] gives the others back.

use std::collections::VecDeque;
use std::sync::Arc;

/// Smallest size, as a power of two: 512 B.
const LEAST: u32 = 9;
/// Largest: 128 MiB.
const MOST: u32 = 27;
/// Unused ones of a size that are kept.
const SPARE: usize = 8;
/// Ones in use that are looked at before a new one is made: they come back in about the order in which they were given.
const LOOK: usize = 4;

/// All memory of one source.
#[derive(Debug, Default)]
pub(super) struct Memory {
    sizes: [VecDeque<Arc<[u8]>>; (MOST - LEAST + 1) as usize],
    bytes: usize,
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
        for _ in 0..LOOK.min(known.len()) {
            let Some(mut memory) = known.pop_front() else { break };
            if Arc::get_mut(&mut memory).is_some() {
                return memory;
            }
            known.push_back(memory);
        }
        let size = 1 << (class as u32 + LEAST);
        self.bytes += size;
        vec![0; size].into()
    }

    /// It will be used again when nobody has it any more.
    pub fn give(&mut self, memory: Arc<[u8]>) {
        let class = Memory::class(memory.len());
        self.sizes[class].push_back(memory);
    }

    /// The same, the first to be taken: nobody has it.
    pub fn give_back(&mut self, memory: Arc<[u8]>) {
        let class = Memory::class(memory.len());
        self.sizes[class].push_front(memory);
    }

    /// Bytes of all of it.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives back what has not been used for a while: called about once a second.
    pub fn sweep(&mut self) {
        for known in &mut self.sizes {
            let mut spare = 0;
            let bytes = &mut self.bytes;
            known.retain(|memory| {
                let used = Arc::strong_count(memory) > 1;
                spare += usize::from(!used);
                let keep = used || spare <= SPARE;
                *bytes -= if keep { 0 } else { memory.len() };
                keep
            });
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
    fn what_is_not_used_is_given_back() {
        let mut memory = Memory::default();
        let all: Vec<_> = (0..20).map(|_| memory.take(4096)).collect();
        let kept = all[0].clone();
        all.into_iter().for_each(|one| memory.give(one));
        assert_eq!(memory.bytes(), 20 * 4096);
        memory.sweep();
        assert_eq!(memory.bytes(), (SPARE + 1) * 4096);
        drop(kept);
    }
}
