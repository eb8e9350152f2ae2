//! Memory of a sender whose bytes nobody looks at: lengths and offsets are all that a simulation needs.

use fullcount_stcp::{FragmentMark, StcpCounters, StcpHistograms, StcpMemory};

/// Marks of a stream; with more fragments than that neighbours share one.
const MARKS: usize = 64;

/// A send buffer without bytes.
#[derive(Debug)]
pub(super) struct Counting {
    capacity: u32,
    marks: [FragmentMark; MARKS],
    counters: StcpCounters,
}

impl Counting {
    pub fn new(capacity: u32) -> Counting {
        Counting {
            capacity,
            marks: [FragmentMark::default(); MARKS],
            counters: StcpCounters::default(),
        }
    }

    /// What was counted.
    pub fn counted(&self) -> &StcpCounters {
        &self.counters
    }
}

impl StcpMemory for Counting {
    fn capacity(&self) -> u32 {
        self.capacity
    }
    fn room(&mut self, _: u64, _: u32) -> (&mut [u8], &mut [u8]) {
        (&mut [], &mut [])
    }
    fn marks(&mut self) -> &mut [FragmentMark] {
        &mut self.marks
    }
    fn counters(&mut self) -> &mut StcpCounters {
        &mut self.counters
    }
    fn histograms(&mut self) -> Option<&mut StcpHistograms> {
        None
    }
}
