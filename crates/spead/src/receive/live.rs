//! A heap that is being put together: its length, what is there, its pointers; and the rules by which a packet is of it.
//!
//! A refused packet changes nothing. Source: `docs/formats/spead.md`, sections 8.3 and 8.4.

use std::collections::HashSet;

use super::config::ReceiverConfig;
use super::counters::Refused;
use super::presence::{Added, PresenceMap};
use crate::wire::{Flavour, ItemPointer, SpeadPacket};

/// Pointers up to so many are compared one by one; so many, and so many pieces, a heap has for nothing.
const FEW: usize = 24;

/// What a pointer more takes at most: its place in a vector and in a set that double as they grow.
const POINTER_COSTS: u64 = 40;
/// What a piece more takes at most.
const PIECE_COSTS: u64 = 32;

/// What so many pointers and pieces take beyond those that are free, bytes.
#[inline]
fn books(pointers: usize, pieces: usize) -> u64 {
    let beyond = |many: usize| many.saturating_sub(FEW) as u64;
    POINTER_COSTS * beyond(pointers) + PIECE_COSTS * beyond(pieces)
}

/// Why a heap is handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// Every byte is there.
    Complete,
    /// Newer heaps pushed it out.
    Evicted,
    /// The stream ended.
    Flushed,
    /// No packet came for it any more.
    TimedOut,
}

/// All that is known of a heap when it is handed over.
#[derive(Debug)]
pub struct HeapEnd {
    /// Its number.
    pub cnt: u64,
    /// Widths of its pointers.
    pub flavour: Flavour,
    /// Its length, if any packet said it.
    pub length: Option<u64>,
    /// Payload bytes that are there.
    pub received: u64,
    /// Which ones.
    pub present: PresenceMap,
    /// Item pointers in the order of their coming, without doubles.
    pub pointers: Vec<ItemPointer>,
    /// Why it is handed over.
    pub arrival: Arrival,
    /// Payload is `[0, n)` and covers every address.
    pub contiguous: bool,
    /// Packets that came.
    pub packets: u64,
    /// When its first packet came.
    pub first_ns: u64,
    /// When its last packet came.
    pub last_ns: u64,
}

/// The pointers of a heap, each once.
#[derive(Debug, Default)]
struct Pointers {
    kept: Vec<ItemPointer>,
    /// The same, once they are many.
    known: HashSet<u64>,
}

impl Pointers {
    fn has(&self, pointer: ItemPointer) -> bool {
        match self.kept.len() <= FEW {
            true => self.kept.contains(&pointer),
            false => self.known.contains(&pointer.0),
        }
    }

    fn add(&mut self, pointer: ItemPointer) {
        self.kept.push(pointer);
        if self.kept.len() == FEW + 1 {
            self.known.extend(self.kept.iter().map(|p| p.0));
        } else if self.kept.len() > FEW {
            self.known.insert(pointer.0);
        }
    }
}

/// A live heap with the place that its store gave it.
#[derive(Debug)]
pub(super) struct LiveHeap<P> {
    pub cnt: u64,
    pub place: P,
    /// Bytes that its payload is allowed to take.
    pub reserved: u64,
    /// Bytes of its pointers and pieces, as far as they are counted.
    pub books: u64,
    pub last_ns: u64,
    /// What the user said last when it began.
    pub mark: u64,
    first_ns: u64,
    flavour: Flavour,
    length: Option<u64>,
    /// Largest length, address or end of payload.
    least: u64,
    received: u64,
    present: PresenceMap,
    pointers: Pointers,
    packets: u64,
}

/// A packet that may go in.
pub(super) struct Fits {
    /// It came behind a later one.
    pub reordered: bool,
}

impl<P> LiveHeap<P> {
    pub fn new(packet: &SpeadPacket<'_>, place: P, now_ns: u64) -> LiveHeap<P> {
        LiveHeap {
            cnt: packet.heap_cnt,
            mark: 0,
            place,
            reserved: 0,
            books: 0,
            last_ns: now_ns,
            first_ns: now_ns,
            flavour: packet.flavour,
            length: None,
            least: 0,
            received: 0,
            present: PresenceMap::default(),
            pointers: Pointers::default(),
            packets: 0,
        }
    }

    pub fn length(&self) -> Option<u64> {
        self.length
    }

    pub fn received(&self) -> u64 {
        self.received
    }

    pub fn flavour(&self) -> Flavour {
        self.flavour
    }

    pub fn present(&self) -> &PresenceMap {
        &self.present
    }

    /// What its pointers and pieces take, bytes.
    #[inline]
    pub fn books_now(&self) -> u64 {
        books(self.pointers.kept.len(), self.present.ranges().len())
    }

    /// The same at most with this packet; doubles among its pointers make it too much.
    #[inline]
    pub fn books_with(&self, packet: &SpeadPacket<'_>) -> u64 {
        let pointers = self.pointers.kept.len() + packet.items().count();
        books(pointers, self.present.ranges().len() + 1)
    }

    /// Bytes that it counts for.
    pub fn bytes(&self) -> u64 {
        self.reserved + self.books
    }

    /// No packet was accepted.
    pub fn is_unused(&self) -> bool {
        self.packets == 0
    }

    /// Whether the lengths go together.
    #[inline]
    pub fn check(&self, packet: &SpeadPacket<'_>) -> Result<(), Refused> {
        if let Some(found) = packet.heap_length {
            match self.length {
                Some(wanted) if wanted != found => {
                    return Err(Refused::LengthMismatch { wanted, found });
                }
                None if found < self.least => {
                    return Err(Refused::LengthTooSmall { seen: self.least, found });
                }
                _ => {}
            }
        }
        // An end beyond a length that only other packets said.
        let end = packet.offset + packet.payload.len() as u64;
        if let Some(wanted) = self.length.filter(|length| end > *length) {
            return Err(Refused::LengthMismatch { wanted, found: end });
        }
        if packet.flavour != self.flavour {
            return Err(Refused::FlavourMismatch);
        }
        Ok(())
    }

    /// Adds what the packet says; its payload is the caller's to copy. A refused packet changes nothing.
    #[inline]
    pub fn add(
        &mut self,
        packet: &SpeadPacket<'_>,
        config: &ReceiverConfig,
        now_ns: u64,
    ) -> Result<Fits, Refused> {
        let (start, end) = (packet.offset, packet.offset + packet.payload.len() as u64);
        if !config.allow_out_of_order && start != self.received {
            return Err(Refused::OutOfOrder { wanted: self.received, found: start });
        }
        // Counted before anything is kept; doubles within one packet may make this one too strict at the limit only.
        let count = packet.items().count();
        if count > 0 && self.pointers.kept.len() + count > config.max_items {
            let new = packet.items().filter(|p| !self.pointers.has(*p)).count();
            if self.pointers.kept.len() + new > config.max_items {
                return Err(Refused::TooManyItems);
            }
        }
        let reordered = self.present.ranges().last().is_some_and(|last| start < last.start);
        match self.present.add(start..end, config.max_ranges) {
            Added::New => {}
            Added::Duplicate => return Err(Refused::Duplicate),
            Added::Overlap => return Err(Refused::Overlap),
            Added::TooMany => return Err(Refused::TooManyRanges),
        }
        self.received += end - start;
        self.least = self.least.max(end);
        if let Some(length) = packet.heap_length {
            self.length = Some(length);
            self.least = self.least.max(length);
        }
        for (n, pointer) in packet.items().enumerate() {
            // Repeated pointers are mostly in their old places.
            if self.pointers.kept.get(n) == Some(&pointer) || self.pointers.has(pointer) {
                continue;
            }
            self.pointers.add(pointer);
            if !pointer.is_immediate() {
                self.least = self.least.max(self.flavour.value_of(pointer));
            }
        }
        self.packets += 1;
        self.last_ns = now_ns;
        Ok(Fits { reordered })
    }

    /// The packet that ends at `end` is the last one of what is there, so that the next one only makes that longer.
    #[inline]
    pub fn ends_with(&self, end: u64) -> bool {
        self.present.end() == end
    }

    /// Adds a packet of so many bytes of payload, without items, of which it is known that it stands behind the last range and
    /// inside of the heap.
    #[inline]
    pub fn follow(&mut self, bytes: u64, now_ns: u64) {
        self.present.extend(bytes);
        self.received += bytes;
        self.packets += 1;
        self.last_ns = now_ns;
    }

    /// Every byte is there, and no item lies beyond.
    #[inline]
    pub fn is_complete(&self) -> bool {
        self.length == Some(self.received) && self.received == self.least
    }

    /// Takes it apart.
    pub fn end(self, arrival: Arrival) -> (P, HeapEnd) {
        let contiguous = self.present.is_prefix() && self.received == self.least;
        let end = HeapEnd {
            cnt: self.cnt,
            flavour: self.flavour,
            length: self.length,
            received: self.received,
            present: self.present,
            pointers: self.pointers.kept,
            arrival,
            contiguous,
            packets: self.packets,
            first_ns: self.first_ns,
            last_ns: self.last_ns,
        };
        (self.place, end)
    }
}
