//! The store that puts heaps into chunks.
//!
//! Refuses nothing of its own: a heap without a place is thrown away and counted in spead2's statistics. What the place function
//! says is checked against the chunk's sizes; what goes beyond counts as a rejected heap. Source: `docs/formats/spead.md`,
//! section 12.

use std::fmt;
use std::ops::Range;

use fullcount_core::refusal::{Refusal, refuse};

use super::window::{ChunkMemory, ChunkRing, ChunkWindow, FilledPart};
use crate::receive::{
    Arrival, HeapEnd, ReceiverConfig, Refused, Store, StreamReceiver, StreamStatistics,
};
use crate::wire::{SpeadPacket, id};

/// What a place function is asked.
#[derive(Debug)]
pub struct PlaceRequest<'a> {
    /// The heap's first packet.
    pub packet: &'a SpeadPacket<'a>,
    /// Values of the wanted items, as immediates of this packet; the last of several.
    pub items: &'a [Option<u64>],
    /// Of the stream, for a user's own ones.
    pub statistics: &'a mut StreamStatistics,
    /// Bytes for the chunk's `extra`, empty: nothing. At most `max_heap_extra`.
    pub extra: &'a mut Vec<u8>,
}

/// Where a heap goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeapPlace {
    /// Chunk.
    pub chunk: u64,
    /// Flag, or the first of a heap's packets.
    pub index: usize,
    /// Byte in `data`.
    pub offset: usize,
    /// Byte in `extra`.
    pub extra_offset: usize,
}

/// What the store knows of a live heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacedHeap {
    place: HeapPlace,
    /// Bytes in `extra` that no filled part has yet.
    extra: usize,
}

/// Says where a heap goes; `None`: nowhere.
pub trait PlaceHeap {
    /// Asked once per heap.
    fn place(&mut self, request: PlaceRequest<'_>) -> Option<HeapPlace>;
}

impl<F: FnMut(PlaceRequest<'_>) -> Option<HeapPlace>> PlaceHeap for F {
    fn place(&mut self, request: PlaceRequest<'_>) -> Option<HeapPlace> {
        self(request)
    }
}

/// Settings of a chunk receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkConfig {
    /// Items whose values the place function gets; the standard ones may be among them.
    pub items: Vec<u64>,
    /// Consecutive chunks that are filled at once.
    pub max_chunks: usize,
    /// Most bytes that a heap writes into `extra`.
    pub max_heap_extra: usize,
    /// A flag for each packet of so many payload bytes, instead of each heap.
    pub packet_presence: Option<usize>,
    /// Given to chunks.
    pub stream: u64,
}

impl Default for ChunkConfig {
    fn default() -> ChunkConfig {
        ChunkConfig {
            items: vec![],
            max_chunks: 2,
            max_heap_extra: 0,
            packet_presence: None,
            stream: 0,
        }
    }
}

/// A receive stream into chunks.
pub type ChunkReceiver<P, M = ChunkRing> = StreamReceiver<ChunkStore<P, M>>;

/// Puts heaps into chunks.
pub struct ChunkStore<P, M> {
    config: ChunkConfig,
    place: P,
    memory: M,
    window: ChunkWindow,
    items: Vec<Option<u64>>,
    extra: Vec<u8>,
    /// Chunks say what was filled.
    merges: bool,
}

impl<P, M: fmt::Debug> fmt::Debug for ChunkStore<P, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChunkStore")
            .field("config", &self.config)
            .field("memory", &self.memory)
            .field("window", &self.window)
            .finish_non_exhaustive()
    }
}

impl<P: PlaceHeap, M: ChunkMemory> ChunkStore<P, M> {
    /// An empty window.
    ///
    /// # Errors
    /// If a setting is outside its range.
    pub fn new(config: ChunkConfig, place: P, memory: M) -> Result<ChunkStore<P, M>, Refusal> {
        if !(1..=65_536).contains(&config.max_chunks) {
            return Err(refuse("max_chunks", config.max_chunks, "1 to 65536"));
        }
        if let Some(most) = memory.largest_window().filter(|most| config.max_chunks > *most) {
            let range = format!("1 to {most}, the window of its group");
            return Err(refuse("max_chunks", config.max_chunks, range));
        }
        if config.packet_presence == Some(0) {
            return Err(refuse("packet_presence", 0, "at least 1 B"));
        }
        let window = ChunkWindow::new(config.max_chunks);
        let items = vec![None; config.items.len()];
        let merges = memory.merges();
        Ok(ChunkStore { config, place, memory, window, items, extra: vec![], merges })
    }

    /// Rings, or what else gives and takes chunks.
    pub fn memory_mut(&mut self) -> &mut M {
        &mut self.memory
    }

    /// Ids of the chunks that are being filled.
    pub fn window(&self) -> Range<u64> {
        self.window.head..self.window.tail()
    }

    /// The stream moves on: chunks below `id` leave, and heaps of these are too old.
    pub fn advance(&mut self, id: u64) {
        self.window.move_on(id, &mut self.memory);
    }

    fn wanted(&mut self, packet: &SpeadPacket<'_>) {
        self.items.fill(None);
        for pointer in packet.pointers().filter(|p| p.is_immediate()) {
            let id = packet.flavour.id_of(pointer);
            for (value, wanted) in self.items.iter_mut().zip(&self.config.items) {
                if id == *wanted {
                    *value = Some(packet.flavour.value_of(pointer));
                }
            }
        }
    }

    /// The place lies inside of the chunk's buffers.
    fn fits(&mut self, place: &HeapPlace, length: u64) -> bool {
        let presence = self.config.packet_presence;
        let extra = self.extra.len();
        let Some(chunk) = self.window.get(place.chunk) else { return true };
        let flags = presence.map_or(1, |each| length.div_ceil(each as u64).max(1));
        let inside = |from: usize, many: u64, of: usize| {
            (from as u64).checked_add(many).is_some_and(|end| end <= of as u64)
        };
        inside(place.offset, length, chunk.data.len())
            && inside(place.index, flags, chunk.present.len())
            && (extra == 0 || inside(place.extra_offset, extra as u64, chunk.extra.len()))
    }
}

impl<P: PlaceHeap, M: ChunkMemory> Store for ChunkStore<P, M> {
    /// `None`: the heap is thrown away.
    type Place = Option<PlacedHeap>;

    fn begin(
        &mut self,
        packet: &SpeadPacket<'_>,
        statistics: &mut StreamStatistics,
    ) -> Result<Option<PlacedHeap>, Refused> {
        self.wanted(packet);
        self.extra.clear();
        let (items, extra) = (&self.items[..], &mut self.extra);
        let request = PlaceRequest { packet, items, statistics, extra };
        let place = self.place.place(request);
        let Some(place) = place.filter(|_| self.extra.len() <= self.config.max_heap_extra) else {
            statistics.rejected_heaps += 1;
            return Ok(None);
        };
        // Ids near the end of 64 bits would wrap.
        if place.chunk > i64::MAX as u64 {
            statistics.rejected_heaps += 1;
            return Ok(None);
        }
        // A group may have moved on without this stream.
        self.window.move_on(self.memory.oldest(), &mut self.memory);
        if place.chunk < self.window.head {
            statistics.too_old_heaps += 1 + self.window.take_late();
            return Ok(None);
        }
        self.window.reach(place.chunk, self.config.stream, &mut self.memory);
        statistics.too_old_heaps += self.window.take_late();
        if !self.fits(&place, packet.heap_length.unwrap_or(0)) {
            statistics.rejected_heaps += 1;
            return Ok(None);
        }
        let extra = std::mem::take(&mut self.extra);
        if let Some(chunk) = self.window.get(place.chunk).filter(|_| !extra.is_empty()) {
            chunk.extra[place.extra_offset..][..extra.len()].copy_from_slice(&extra);
        }
        let placed = PlacedHeap { place, extra: extra.len() };
        self.extra = extra;
        Ok(Some(placed))
    }

    #[inline]
    fn write(
        &mut self,
        placed: &mut Option<PlacedHeap>,
        packet: &SpeadPacket<'_>,
        _: Option<u64>,
    ) -> bool {
        let Some(PlacedHeap { place, extra }) = placed else { return true };
        if let Some(chunk) = self.window.get(place.chunk) {
            let at = place.offset + packet.offset as usize;
            let data = at..at + packet.payload.len();
            chunk.data[data.clone()].copy_from_slice(packet.payload);
            // A packet without payload may stand behind the last flag.
            if let Some(each) = self.config.packet_presence.filter(|_| !packet.payload.is_empty()) {
                let flag = place.index + packet.offset as usize / each;
                chunk.present[flag] = 1;
                if self.merges {
                    let extra = place.extra_offset..place.extra_offset + std::mem::take(extra);
                    chunk.add_filled(FilledPart { flags: flag..flag + 1, data, extra });
                }
            }
        }
        true
    }

    fn finish(
        &mut self,
        placed: Option<PlacedHeap>,
        end: HeapEnd,
        statistics: &mut StreamStatistics,
    ) {
        let Some(placed) = placed.filter(|_| end.arrival == Arrival::Complete) else { return };
        let place = placed.place;
        if place.chunk < self.window.head {
            statistics.too_old_heaps += 1;
            return;
        }
        self.window.has_heap(place.chunk);
        if let Some(chunk) = self.window.get(place.chunk)
            && self.config.packet_presence.is_none()
        {
            chunk.present[place.index] = 1;
            if self.merges {
                chunk.filled.push(FilledPart {
                    flags: place.index..place.index + 1,
                    data: place.offset..place.offset + end.received as usize,
                    extra: place.extra_offset..place.extra_offset + placed.extra,
                });
            }
        }
    }

    fn stop(&mut self, statistics: &mut StreamStatistics) {
        self.window.flush_until(u64::MAX, &mut self.memory);
        statistics.too_old_heaps += self.window.take_late();
        self.memory.stop();
    }

    fn is_full(&self) -> bool {
        self.memory.is_full()
    }

    fn allows_unsized(&self) -> bool {
        false
    }

    fn discards(&self, placed: &Option<PlacedHeap>) -> bool {
        placed.is_none_or(|placed| placed.place.chunk < self.window.head)
    }
}

impl<P: PlaceHeap, M: ChunkMemory> ChunkReceiver<P, M> {
    /// A chunk receiver.
    ///
    /// # Errors
    /// If a setting is outside its range.
    pub fn for_chunks(
        stream: ReceiverConfig,
        chunks: ChunkConfig,
        place: P,
        memory: M,
    ) -> Result<ChunkReceiver<P, M>, Refusal> {
        StreamReceiver::with_store(stream, ChunkStore::new(chunks, place, memory)?)
    }
}

/// Items that nearly every place function wants.
impl ChunkConfig {
    /// Heap length and `items`.
    pub fn with_items(items: &[u64]) -> ChunkConfig {
        let items = [&[id::HEAP_LENGTH], items].concat();
        ChunkConfig { items, ..ChunkConfig::default() }
    }
}
