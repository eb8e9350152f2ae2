//! Where payload goes: into a heap's own memory ([`HeapStore`]), or wherever a [`Store`] says.
//!
//! A store is asked once per heap for a place, then gets each accepted packet, then the heap's end.

use std::collections::VecDeque;

use super::config::OnIncomplete;
use super::counters::Refused;
use super::heap::{Heap, IncompleteHeap};
use super::live::HeapEnd;
use super::memory::{HeapBytes, HeapMemory, PayloadCopy, PlainMemory};
use super::statistics::StreamStatistics;
use crate::wire::SpeadPacket;

/// Takes the payload of heaps.
pub trait Store {
    /// What it knows of a live heap.
    type Place;

    /// A heap begins with this packet.
    ///
    /// # Errors
    /// [`Refused::NoMemory`]: then the packet is refused, and no heap begins.
    fn begin(
        &mut self,
        packet: &SpeadPacket<'_>,
        statistics: &mut StreamStatistics,
    ) -> Result<Self::Place, Refused>;

    /// Takes the payload of an accepted packet; `length` is the heap's, if known. False: there is no memory for it.
    fn write(
        &mut self,
        place: &mut Self::Place,
        packet: &SpeadPacket<'_>,
        length: Option<u64>,
    ) -> bool;

    /// The heap has ended.
    fn finish(&mut self, place: Self::Place, end: HeapEnd, statistics: &mut StreamStatistics);

    /// The heap is nobody's: a stop heap, or one that never was.
    fn discard(&mut self, _place: Self::Place, _end: HeapEnd) {}

    /// The stream has ended; all heaps are finished.
    fn stop(&mut self, _statistics: &mut StreamStatistics) {}

    /// What it hands over cannot be taken any more at the moment.
    fn is_full(&self) -> bool {
        false
    }

    /// Takes heaps without a length.
    fn allows_unsized(&self) -> bool {
        true
    }

    /// The payload of this heap is thrown away.
    fn discards(&self, _place: &Self::Place) -> bool {
        false
    }
}

/// What a stream hands over.
#[derive(Debug)]
pub enum Delivery {
    /// A heap with all its bytes.
    Heap(Heap),
    /// What came of one.
    Incomplete(IncompleteHeap),
}

impl Delivery {
    /// The heap's number.
    pub fn cnt(&self) -> u64 {
        match self {
            Delivery::Heap(heap) => heap.cnt,
            Delivery::Incomplete(heap) => heap.cnt,
        }
    }

    /// Memory that it takes, bytes.
    fn bytes(&self) -> u64 {
        match self {
            Delivery::Heap(heap) => heap.memory_bytes(),
            Delivery::Incomplete(heap) => heap.memory_bytes(),
        }
    }

    /// The heap, if it is whole.
    pub fn heap(self) -> Option<Heap> {
        match self {
            Delivery::Heap(heap) => Some(heap),
            Delivery::Incomplete(_) => None,
        }
    }
}

/// Heaps in memory of their own, and the ring where finished ones wait.
#[derive(Debug)]
pub struct HeapStore {
    memory: Box<dyn HeapMemory>,
    ring: VecDeque<Delivery>,
    ring_heaps: usize,
    /// Memory of the heaps in the ring, and the most of it.
    ring_bytes: u64,
    most_ring_bytes: u64,
    incomplete: OnIncomplete,
    copy: PayloadCopy,
}

impl HeapStore {
    /// A ring of `ring_heaps` places.
    pub fn new(ring_heaps: usize, incomplete: OnIncomplete) -> HeapStore {
        HeapStore {
            memory: Box::new(PlainMemory),
            ring: VecDeque::new(),
            ring_heaps,
            ring_bytes: 0,
            most_ring_bytes: u64::MAX,
            incomplete,
            copy: PayloadCopy::default(),
        }
    }

    /// Takes memory from there.
    pub fn with_memory(self, memory: impl HeapMemory + 'static) -> HeapStore {
        HeapStore { memory: Box::new(memory), ..self }
    }

    /// Finished heaps of so many bytes fill the ring as well, however few they are; one may be longer.
    pub fn with_ring_bytes(self, most: u64) -> HeapStore {
        HeapStore { most_ring_bytes: most, ..self }
    }

    /// Copies payloads that way.
    pub fn copies(self, copy: PayloadCopy) -> HeapStore {
        HeapStore { copy, ..self }
    }

    /// The next finished heap.
    pub fn pop(&mut self) -> Option<Delivery> {
        let heap = self.ring.pop_front()?;
        self.ring_bytes -= heap.bytes();
        Some(heap)
    }

    fn wait(&mut self, heap: Delivery) {
        self.ring_bytes += heap.bytes();
        self.ring.push_back(heap);
    }

    /// A heap of a byte stream; an incomplete one only where these are wanted.
    pub(super) fn put(&mut self, heap: Delivery) {
        if matches!(heap, Delivery::Heap(_)) || self.incomplete == OnIncomplete::Give {
            self.wait(heap);
        }
    }

    /// Finished heaps that wait.
    pub fn waiting(&self) -> usize {
        self.ring.len()
    }

    /// Memory that these take, bytes.
    pub fn waiting_bytes(&self) -> u64 {
        self.ring_bytes
    }
}

impl Store for HeapStore {
    type Place = HeapBytes;

    fn begin(
        &mut self,
        packet: &SpeadPacket<'_>,
        _: &mut StreamStatistics,
    ) -> Result<HeapBytes, Refused> {
        let length = packet.heap_length.unwrap_or(packet.payload.len() as u64);
        let memory = usize::try_from(length).ok().and_then(|l| self.memory.take(l, packet));
        memory.ok_or(Refused::NoMemory(length))
    }

    #[inline]
    fn write(
        &mut self,
        place: &mut HeapBytes,
        packet: &SpeadPacket<'_>,
        length: Option<u64>,
    ) -> bool {
        let whole = length.and_then(|l| usize::try_from(l).ok());
        let copy = self.copy;
        usize::try_from(packet.offset)
            .is_ok_and(|at| place.write_by(at, packet.payload, whole, copy))
    }

    fn finish(&mut self, place: HeapBytes, end: HeapEnd, _: &mut StreamStatistics) {
        if end.contiguous {
            self.wait(Delivery::Heap(Heap::new(end, place)));
        } else if self.incomplete == OnIncomplete::Give {
            self.wait(Delivery::Incomplete(IncompleteHeap::new(end, place)));
        }
    }

    fn is_full(&self) -> bool {
        self.ring.len() >= self.ring_heaps
            || !self.ring.is_empty() && self.ring_bytes >= self.most_ring_bytes
    }
}
