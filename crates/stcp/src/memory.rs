//! What the caller lends a sender: the ring of bytes, the marks at the ends of fragments, counters and histograms.

use crate::counters::{StcpCounters, StcpHistograms};

/// The end of a fragment, as an offset of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FragmentMark {
    /// Behind its last byte.
    pub end: u64,
    /// When it was submitted, ns.
    pub at_ns: u64,
    /// Fragments that end here or share this mark, at most 2³²−1.
    pub fragments: u32,
}

/// Memory of one stream. The sender calls it with offsets inside what is in use only.
pub trait StcpMemory {
    /// Bytes of the send buffer: a power of two, 1024 to 2³⁰.
    fn capacity(&self) -> u32;
    /// Room for `length` bytes from offset `offset` on, in two parts where it goes round the end.
    fn room(&mut self, offset: u64, length: u32) -> (&mut [u8], &mut [u8]);
    /// Places for ends of fragments, at least one. With too few, neighbours share one.
    fn marks(&mut self) -> &mut [FragmentMark];
    /// Counters.
    fn counters(&mut self) -> &mut StcpCounters;
    /// Histograms, where they are wanted.
    fn histograms(&mut self) -> Option<&mut StcpHistograms>;
}

/// Memory that somebody else owns. The ring's length is rounded down to a power of two.
#[derive(Debug)]
pub struct Borrowed<'m> {
    ring: &'m mut [u8],
    marks: &'m mut [FragmentMark],
    counters: &'m mut StcpCounters,
    histograms: Option<&'m mut StcpHistograms>,
}

/// The largest power of two that is not above `n`, 0 for 0.
const fn floor_power(n: usize) -> usize {
    match n.checked_ilog2() {
        Some(bits) => 1 << bits,
        None => 0,
    }
}

/// Where `offset` lies in a ring of `length` bytes, a power of two: no division, as this is done for each fragment.
const fn place(length: usize, offset: u64) -> usize {
    if length == 0 { 0 } else { (offset as usize) & (length - 1) }
}

/// `length` bytes from `offset` on in a ring whose length is a power of two: two parts where they go round its end.
pub fn ring_slices(ring: &[u8], offset: u64, length: u32) -> (&[u8], &[u8]) {
    let from = place(ring.len(), offset);
    let length = (length as usize).min(ring.len());
    let first = length.min(ring.len() - from);
    (&ring[from..from + first], &ring[..length - first])
}

/// The same, to be written; what does not fit is left out, which a sender never asks for.
pub fn ring_room(ring: &mut [u8], offset: u64, length: u32) -> (&mut [u8], &mut [u8]) {
    let from = place(ring.len(), offset);
    let length = (length as usize).min(ring.len());
    let first = length.min(ring.len() - from);
    let (begin, end) = ring.split_at_mut(from);
    (&mut end[..first], &mut begin[..length - first])
}

impl<'m> Borrowed<'m> {
    /// Lends these.
    pub fn new(
        ring: &'m mut [u8],
        marks: &'m mut [FragmentMark],
        counters: &'m mut StcpCounters,
        histograms: Option<&'m mut StcpHistograms>,
    ) -> Borrowed<'m> {
        let length = floor_power(ring.len()).min(1 << 30);
        Borrowed { ring: &mut ring[..length], marks, counters, histograms }
    }

    /// `length` bytes of payload from `offset` on.
    pub fn payload(&self, offset: u64, length: u32) -> (&[u8], &[u8]) {
        ring_slices(self.ring, offset, length)
    }
}

impl StcpMemory for Borrowed<'_> {
    fn capacity(&self) -> u32 {
        self.ring.len() as u32
    }

    fn room(&mut self, offset: u64, length: u32) -> (&mut [u8], &mut [u8]) {
        ring_room(self.ring, offset, length)
    }

    fn marks(&mut self) -> &mut [FragmentMark] {
        self.marks
    }

    fn counters(&mut self) -> &mut StcpCounters {
        self.counters
    }

    fn histograms(&mut self) -> Option<&mut StcpHistograms> {
        self.histograms.as_deref_mut()
    }
}
