//! What a receiver hands over: a heap with its items, or what came of one.
//!
//! Items are in spead2's order: addressed ones by address, then immediates by value. Items refer to the heap's memory.
//! Source: `docs/formats/spead.md`, sections 8.5 and 8.7.

use std::ops::Range;

use super::live::{Arrival, HeapEnd};
use super::memory::HeapBytes;
use super::presence::PresenceMap;
use crate::wire::{Flavour, ItemPointer, control, id};

/// Value of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemValue<'a> {
    /// Came in the pointer itself: as many bytes as the flavour's addresses have.
    Immediate(u64),
    /// Lies in the payload.
    Bytes(&'a [u8]),
}

/// One item of a heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeapItem<'a> {
    /// Its id.
    pub id: u64,
    /// Its value.
    pub value: ItemValue<'a>,
    /// Of the heap: how long an immediate is.
    pub flavour: Flavour,
}

impl<'a> HeapItem<'a> {
    /// The bytes of an addressed item.
    pub fn bytes(&self) -> Option<&'a [u8]> {
        match self.value {
            ItemValue::Bytes(bytes) => Some(bytes),
            ItemValue::Immediate(_) => None,
        }
    }

    /// The value of an immediate item.
    pub fn immediate(&self) -> Option<u64> {
        match self.value {
            ItemValue::Immediate(value) => Some(value),
            ItemValue::Bytes(_) => None,
        }
    }
}

/// Where an item is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Spot {
    Immediate(u64),
    At(Range<usize>),
}

/// A heap of which every byte is there (or, without a length, every byte as far as it goes).
#[derive(Debug)]
pub struct Heap {
    /// Its number.
    pub cnt: u64,
    /// Widths of its pointers.
    pub flavour: Flavour,
    /// Packets that it came in.
    pub packets: u64,
    /// When its first packet came.
    pub first_ns: u64,
    /// When its last packet came.
    pub last_ns: u64,
    items: Vec<(u64, Spot)>,
    payload: HeapBytes,
}

/// Pointers in spead2's order: addressed by address, then immediates by value; equal ones as they came.
fn sorted(flavour: Flavour, mut pointers: Vec<ItemPointer>) -> Vec<ItemPointer> {
    pointers.sort_by_key(|p| (p.is_immediate(), flavour.value_of(*p)));
    pointers
}

/// One of the items says so. Also one by address does, though it controls no stream: so spead2 has it.
fn controls<'a>(mut items: impl Iterator<Item = HeapItem<'a>>, value: u64) -> bool {
    let number = |bytes: &[u8]| bytes.iter().fold(0, |n, b| n << 8 | u64::from(*b));
    items.any(|item| {
        item.id == id::STREAM_CTRL
            && match item.value {
                ItemValue::Immediate(own) => own == value,
                ItemValue::Bytes(bytes) => bytes.len() <= 8 && number(bytes) == value,
            }
    })
}

impl Heap {
    /// Makes items of pointers and payload.
    pub fn new(end: HeapEnd, payload: HeapBytes) -> Heap {
        let (flavour, length) = (end.flavour, payload.as_slice().len());
        let pointers = sorted(flavour, end.pointers);
        let addressed = pointers.partition_point(|p| !p.is_immediate());
        let mut items = Vec::with_capacity(pointers.len());
        for (n, pointer) in pointers.iter().enumerate() {
            let (id, value) = (flavour.id_of(*pointer), flavour.value_of(*pointer));
            if id == id::NULL {
                continue;
            }
            if n >= addressed {
                items.push((id, Spot::Immediate(value)));
                continue;
            }
            let clip = |address: u64| usize::try_from(address).unwrap_or(length).min(length);
            let next = pointers[n + 1..addressed].first();
            let stop = next.map_or(length, |next| clip(flavour.value_of(*next)));
            let range = clip(value)..stop;
            if !range.is_empty() {
                items.push((id, Spot::At(range)));
            }
        }
        let HeapEnd { cnt, packets, first_ns, last_ns, .. } = end;
        Heap { cnt, flavour, packets, first_ns, last_ns, items, payload }
    }

    /// Memory that payload and items take, bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        (self.payload.capacity() + self.items.capacity() * size_of::<(u64, Spot)>()) as u64
    }

    /// All items, descriptors included.
    pub fn all_items(&self) -> impl Iterator<Item = HeapItem<'_>> {
        let payload = self.payload();
        self.items.iter().map(move |(id, spot)| {
            let value = match spot {
                Spot::Immediate(value) => ItemValue::Immediate(*value),
                Spot::At(range) => ItemValue::Bytes(&payload[range.clone()]),
            };
            HeapItem { id: *id, value, flavour: self.flavour }
        })
    }

    /// Where the addressed items lie in the payload, and the values of immediate ones, without the descriptors: for users that
    /// hold the heap and its items apart.
    pub fn places(&self) -> impl Iterator<Item = (u64, Result<Range<usize>, u64>)> {
        self.all_places().filter(|(id, place)| *id != id::DESCRIPTOR || place.is_err())
    }

    /// The same of all items, descriptors included.
    pub(super) fn all_places(&self) -> impl Iterator<Item = (u64, Result<Range<usize>, u64>)> {
        self.items.iter().map(|(id, spot)| match spot {
            Spot::Immediate(value) => (*id, Err(*value)),
            Spot::At(range) => (*id, Ok(range.clone())),
        })
    }

    /// Items without the descriptors.
    pub fn items(&self) -> impl Iterator<Item = HeapItem<'_>> {
        self.all_items().filter(|i| i.id != id::DESCRIPTOR || i.immediate().is_some())
    }

    /// The first item of this id.
    pub fn item(&self, id: u64) -> Option<HeapItem<'_>> {
        self.items().find(|item| item.id == id)
    }

    /// Bytes of the embedded descriptors; [`Descriptor::parse`](crate::Descriptor::parse) reads them.
    pub fn descriptor_bytes(&self) -> impl Iterator<Item = &[u8]> {
        self.all_items().filter(|i| i.id == id::DESCRIPTOR).filter_map(|i| i.bytes())
    }

    /// The whole payload.
    pub fn payload(&self) -> &[u8] {
        self.payload.as_slice()
    }

    /// It says that the stream begins.
    pub fn is_start_of_stream(&self) -> bool {
        controls(self.all_items(), control::START)
    }

    /// It says that descriptors are sent again that have not changed.
    pub fn is_reissue(&self) -> bool {
        controls(self.all_items(), control::DESCRIPTOR_REISSUE)
    }

    /// It says that descriptors have changed.
    pub fn is_update(&self) -> bool {
        controls(self.all_items(), control::DESCRIPTOR_UPDATE)
    }

    /// It says that the stream ends.
    pub fn is_end_of_stream(&self) -> bool {
        controls(self.all_items(), control::STOP)
    }
}

/// What came of a heap that was given up.
#[derive(Debug)]
pub struct IncompleteHeap {
    /// Its number.
    pub cnt: u64,
    /// Widths of its pointers.
    pub flavour: Flavour,
    /// Its length, if any packet said it.
    pub heap_length: Option<u64>,
    /// Payload bytes that are there.
    pub received_length: u64,
    /// Which bytes are there.
    pub present: PresenceMap,
    /// Packets that came.
    pub packets: u64,
    /// When its first packet came.
    pub first_ns: u64,
    /// Why it was given up.
    pub arrival: Arrival,
    pointers: Vec<ItemPointer>,
    payload: HeapBytes,
}

impl IncompleteHeap {
    pub(crate) fn new(end: HeapEnd, payload: HeapBytes) -> IncompleteHeap {
        IncompleteHeap {
            cnt: end.cnt,
            flavour: end.flavour,
            heap_length: end.length,
            received_length: end.received,
            present: end.present,
            packets: end.packets,
            first_ns: end.first_ns,
            arrival: end.arrival,
            pointers: sorted(end.flavour, end.pointers),
            payload,
        }
    }

    /// Memory that payload, pointers and the map take, bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        let books = self.pointers.capacity() * size_of::<ItemPointer>()
            + size_of_val(self.present.ranges());
        (self.payload.capacity() + books) as u64
    }

    /// Its item pointers as far as they came.
    pub(super) fn pointers(&self) -> &[ItemPointer] {
        &self.pointers
    }

    /// Its immediate items.
    pub fn immediates(&self) -> impl Iterator<Item = HeapItem<'_>> {
        let flavour = self.flavour;
        let real = move |p: &&ItemPointer| p.is_immediate() && flavour.id_of(**p) != id::NULL;
        self.pointers.iter().filter(real).map(move |p| {
            let value = ItemValue::Immediate(flavour.value_of(*p));
            HeapItem { id: flavour.id_of(*p), value, flavour }
        })
    }

    /// Ids and addresses of its addressed items as far as their pointers came, by address.
    pub fn addresses(&self) -> impl Iterator<Item = (u64, u64)> {
        let flavour = self.flavour;
        let addressed = self.pointers.iter().filter(|p| !p.is_immediate());
        addressed.map(move |p| (flavour.id_of(*p), flavour.value_of(*p)))
    }

    /// Pieces of payload that are there, with their offsets.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let payload = self.payload.as_slice();
        let piece = |r: &Range<u64>| (r.start, &payload[r.start as usize..r.end as usize]);
        self.present.ranges().iter().map(piece)
    }

    /// What is missing, where the length is known.
    pub fn gaps(&self) -> impl Iterator<Item = Range<u64>> {
        self.present.gaps(self.heap_length.unwrap_or(0))
    }

    /// It says that the stream begins.
    pub fn is_start_of_stream(&self) -> bool {
        controls(self.immediates(), control::START)
    }

    /// It says that descriptors are sent again that have not changed.
    pub fn is_reissue(&self) -> bool {
        controls(self.immediates(), control::DESCRIPTOR_REISSUE)
    }

    /// It says that descriptors have changed.
    pub fn is_update(&self) -> bool {
        controls(self.immediates(), control::DESCRIPTOR_UPDATE)
    }

    /// It says that the stream ends.
    pub fn is_end_of_stream(&self) -> bool {
        controls(self.immediates(), control::STOP)
    }
}
