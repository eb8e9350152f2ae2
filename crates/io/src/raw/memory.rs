//! Memory of a stream on the heap, taken when it is made.

use bytes::BytesMut;
use fullcount_stcp::memory::{ring_room, ring_slices};
use fullcount_stcp::{FragmentMark, StcpCounters, StcpHistograms, StcpMemory};

/// Marks at ends of fragments: 24 bytes each.
const MARKS: usize = 4096;

/// Send buffer, marks, counters and histograms of one stream.
pub struct StreamMemory {
    ring: BytesMut,
    marks: Vec<FragmentMark>,
    counters: StcpCounters,
    histograms: StcpHistograms,
}

impl std::fmt::Debug for StreamMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the megabytes.
        let mut f = f.debug_struct("StreamMemory");
        f.field("ring", &self.ring.len()).field("counters", &self.counters).finish_non_exhaustive()
    }
}

impl StreamMemory {
    /// With a send buffer whose length is a power of two, bytes.
    pub(super) fn new(ring: BytesMut) -> StreamMemory {
        StreamMemory {
            ring,
            marks: vec![FragmentMark::default(); MARKS],
            counters: StcpCounters::default(),
            histograms: StcpHistograms::default(),
        }
    }

    /// Payload at `offset`, in two parts where it goes round the end.
    pub fn payload(&self, offset: u64, length: u32) -> (&[u8], &[u8]) {
        ring_slices(&self.ring, offset, length)
    }

    /// What was counted.
    pub fn counted(&self) -> &StcpCounters {
        &self.counters
    }

    /// Latencies and sizes.
    pub fn measured(&self) -> &StcpHistograms {
        &self.histograms
    }
}

impl StcpMemory for StreamMemory {
    fn capacity(&self) -> u32 {
        self.ring.len() as u32
    }
    fn room(&mut self, offset: u64, length: u32) -> (&mut [u8], &mut [u8]) {
        ring_room(&mut self.ring, offset, length)
    }
    fn marks(&mut self) -> &mut [FragmentMark] {
        &mut self.marks
    }
    fn counters(&mut self) -> &mut StcpCounters {
        &mut self.counters
    }
    fn histograms(&mut self) -> Option<&mut StcpHistograms> {
        Some(&mut self.histograms)
    }
}
