//! How a heap is cut into packets: pointers as early as possible, then as much payload as there is room for.
//!
//! Padding of a heap whose pointers need more packets than it has payload stands behind the payload, where the document has it:
//! spead2 4.5.1 puts it before, and zeros arrive instead of a small item. Refuses packets below 56 B, pointers that do not
//! fit, values and addresses beyond the flavour. Source: `docs/formats/spead.md`, sections 7 and 18 (16, 25).

use std::ops::Range;

use super::out_heap::{EntryBytes, OutEntry, OutHeap, PayloadParts};
use crate::wire::{
    Flavour, HEADER_BYTES, ItemPointer, LEAST_PACKET, POINTER_BYTES, PREFIX_BYTES, header, id,
};

/// Padding.
static ZEROS: [u8; 4096] = [0; 4096];

/// How much payload a packet has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PayloadSize {
    /// What its pointers leave of the packet size: spead2's rule.
    #[default]
    Fill,
    /// Always so many bytes, but for the last packet: a receiver then knows which packets are missing. A multiple of 8.
    Fixed(usize),
    /// The whole heap in one packet, however large: for byte streams with whole heaps.
    Heap,
}

/// How heaps are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutRules {
    /// Largest packet, bytes of UDP payload; rounded down to a multiple of 8.
    pub max_packet_size: usize,
    /// Payload of each.
    pub payload: PayloadSize,
}

impl Default for CutRules {
    /// 1472 B: what fits an MTU of 1500 B.
    fn default() -> CutRules {
        CutRules { max_packet_size: 1472, payload: PayloadSize::Fill }
    }
}

/// Why a heap cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// Below 56 B, or no room for the fixed payload.
    #[error("packet size of {size} B is too small: at least {least} B")]
    TooSmall {
        /// As asked.
        size: usize,
        /// What would do.
        least: usize,
    },
    /// A fixed payload that is no multiple of 8 B.
    #[error("fixed payload of {0} B: a multiple of 8 B, at least 8 B")]
    Fixed(usize),
    /// Pointers of all items do not fit in a packet.
    #[error("packet size is too small to repeat {0} item pointers")]
    Repeat(usize),
    /// An id beyond the flavour.
    #[error("item id 0x{0:x} has no room in {1}")]
    Id(u64, Flavour),
    /// A value beyond the flavour.
    #[error("{0} has no room in a pointer of {1}")]
    Value(u64, Flavour),
    /// A heap beyond the flavour.
    #[error("heap of {0} B has no room in the addresses of {1}")]
    Length(u64, Flavour),
}

/// A packet: its prefix was written, its payload lies in the heap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketCut {
    /// Header and pointers, bytes.
    pub prefix: usize,
    /// Of the heap's payload.
    pub payload: Range<u64>,
}

impl PacketCut {
    /// Bytes of the packet.
    pub fn bytes(&self) -> usize {
        self.prefix + (self.payload.end - self.payload.start) as usize
    }
}

/// Cuts one heap.
#[derive(Debug, Clone)]
pub struct Packetiser {
    flavour: Flavour,
    cnt: u64,
    pointers: Vec<ItemPointer>,
    /// Entries with payload: where each begins, and its number in the heap.
    segments: Vec<(u64, usize)>,
    /// Bytes of the entries.
    stored: u64,
    length: u64,
    packet_size: usize,
    payload: PayloadSize,
    repeat: bool,
    /// Most pointers of a packet beside the standard ones.
    most: usize,
    sent_pointers: usize,
    offset: u64,
    packets: u64,
    bytes: u64,
}

impl Packetiser {
    /// Looks at a heap that gets the number `cnt`.
    ///
    /// # Errors
    /// See [`PacketError`].
    pub fn new(heap: &OutHeap, cnt: u64, rules: CutRules) -> Result<Packetiser, PacketError> {
        let flavour = heap.flavour;
        if rules.payload == PayloadSize::Heap {
            return Packetiser::whole(heap, cnt);
        }
        let packet_size = rules.max_packet_size / 8 * 8;
        let least = match rules.payload {
            PayloadSize::Fill | PayloadSize::Heap => LEAST_PACKET,
            PayloadSize::Fixed(bytes) if bytes == 0 || bytes % 8 != 0 => {
                return Err(PacketError::Fixed(bytes));
            }
            PayloadSize::Fixed(bytes) => PREFIX_BYTES + POINTER_BYTES + bytes,
        };
        if packet_size < least {
            return Err(PacketError::TooSmall { size: rules.max_packet_size, least });
        }
        if cnt > flavour.largest_value() {
            return Err(PacketError::Value(cnt, flavour));
        }
        let each = match rules.payload {
            PayloadSize::Fill | PayloadSize::Heap => 8,
            PayloadSize::Fixed(bytes) => bytes,
        };
        // The header counts pointers in 16 bits.
        let most = ((packet_size - PREFIX_BYTES - each) / POINTER_BYTES).min(65_531);
        let (pointers, segments, stored) = lay(heap)?;
        let entries = pointers.len();
        let spread = entries / most + 1;
        if heap.repeat_pointers && spread > 1 {
            return Err(PacketError::Repeat(entries));
        }
        let mut packetiser = Packetiser {
            flavour,
            cnt,
            pointers,
            segments,
            stored,
            length: stored,
            packet_size,
            payload: rules.payload,
            repeat: heap.repeat_pointers,
            most,
            sent_pointers: 0,
            offset: 0,
            packets: 0,
            bytes: 0,
        };
        // Each packet has payload, so that each has an offset of its own.
        let minimum = (each * (spread - 1) + 1) as u64;
        if stored < minimum {
            packetiser.pointers.push(flavour.addressed(id::NULL, stored));
            packetiser.length = minimum;
        }
        if packetiser.length > flavour.largest_value() {
            return Err(PacketError::Length(packetiser.length, flavour));
        }
        Ok(packetiser)
    }

    /// The heap as one packet of any size, as whole-heap framing sends it.
    ///
    /// # Errors
    /// See [`PacketError`].
    pub fn whole(heap: &OutHeap, cnt: u64) -> Result<Packetiser, PacketError> {
        let entries = heap.entries().len() + 1;
        let size = PREFIX_BYTES + POINTER_BYTES * entries + heap.bytes() as usize + 16;
        let rules = CutRules { max_packet_size: size, payload: PayloadSize::Fill };
        let whole = Packetiser::new(heap, cnt, rules)?;
        match whole.pointers.len() <= whole.most {
            true => Ok(whole),
            false => Err(PacketError::Repeat(entries - 1)),
        }
    }

    /// Number of the heap.
    pub fn cnt(&self) -> u64 {
        self.cnt
    }

    /// Payload bytes of the heap, padding included.
    pub fn heap_length(&self) -> u64 {
        self.length
    }

    /// Payload bytes that were cut.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Packets so far, and their bytes.
    pub fn progress(&self) -> (u64, u64) {
        (self.packets, self.bytes)
    }

    /// All packets were cut.
    pub fn is_done(&self) -> bool {
        self.offset >= self.length
    }

    /// From the first packet again: what is sent a second time is the same.
    pub fn rewind(&mut self) {
        (self.sent_pointers, self.offset) = (0, 0);
    }

    /// The next packet: appends its header and pointers to `prefix` and says where its payload lies.
    pub fn next_cut(&mut self, prefix: &mut Vec<u8>) -> Option<PacketCut> {
        let left = self.length.checked_sub(self.offset).filter(|left| *left > 0)?;
        let first = if self.repeat { 0 } else { self.sent_pointers };
        let many = (self.pointers.len() - first).min(self.most);
        let room = match self.payload {
            PayloadSize::Fill | PayloadSize::Heap => {
                self.packet_size - PREFIX_BYTES - POINTER_BYTES * many
            }
            PayloadSize::Fixed(bytes) => bytes,
        };
        let length = left.min(room as u64);
        let mut head = [0; PREFIX_BYTES];
        let (begin, pointers) = head.split_at_mut(HEADER_BYTES);
        begin.copy_from_slice(&header(self.flavour, many as u16 + 4));
        let f = self.flavour;
        let standard = [
            f.immediate(id::HEAP_CNT, self.cnt),
            f.immediate(id::HEAP_LENGTH, self.length),
            f.immediate(id::PAYLOAD_OFFSET, self.offset),
            f.immediate(id::PAYLOAD_LENGTH, length),
        ];
        let own = &self.pointers[first..first + many];
        for (place, pointer) in pointers.chunks_exact_mut(POINTER_BYTES).zip(standard) {
            place.copy_from_slice(&pointer.to_bytes());
        }
        prefix.extend_from_slice(&head);
        own.iter().for_each(|pointer| prefix.extend(pointer.to_bytes()));
        self.sent_pointers = first + many;
        let cut = PacketCut {
            prefix: PREFIX_BYTES + POINTER_BYTES * many,
            payload: self.offset..self.offset + length,
        };
        self.offset += length;
        self.packets += 1;
        self.bytes += cut.bytes() as u64;
        Some(cut)
    }

    /// The bytes of a piece of payload, one slice for each entry it touches; zeros of the padding are not among them.
    pub fn segments<'a>(
        &'a self,
        heap: &'a OutHeap,
        range: Range<u64>,
    ) -> impl Iterator<Item = &'a [u8]> {
        self.touched(heap, range).filter_map(|(entry, part)| match &heap.entries()[entry] {
            OutEntry::Item { bytes, .. } => Some(&bytes.as_slice()[part]),
            OutEntry::Inline { .. } => None,
        })
    }

    /// The pieces of payload where they are, padding included.
    pub fn parts(&self, heap: &OutHeap, range: Range<u64>, parts: &mut PayloadParts) {
        for (entry, part) in self.touched(heap, range.clone()) {
            if let OutEntry::Item { bytes, .. } = &heap.entries()[entry] {
                parts.push(bytes, part);
            }
        }
        let mut zeros = self.padding(&range);
        while zeros > 0 {
            let many = zeros.min(ZEROS.len());
            parts.push(&EntryBytes::Static(&ZEROS), 0..many);
            zeros -= many;
        }
    }

    /// Entries that a piece of payload touches, each with the bytes of it.
    fn touched<'a>(
        &'a self,
        heap: &'a OutHeap,
        range: Range<u64>,
    ) -> impl Iterator<Item = (usize, Range<usize>)> + 'a {
        let first =
            self.segments.partition_point(|(start, _)| *start <= range.start).saturating_sub(1);
        let touched =
            self.segments[first..].iter().take_while(move |(start, _)| *start < range.end);
        touched.filter_map(move |(start, entry)| {
            let OutEntry::Item { bytes, .. } = heap.entries().get(*entry)? else { return None };
            let bytes = bytes.as_slice();
            let from = range.start.saturating_sub(*start).min(bytes.len() as u64) as usize;
            let to = (range.end - start).min(bytes.len() as u64) as usize;
            (from < to).then_some((*entry, from..to))
        })
    }

    /// Zeros that end a piece of payload.
    pub fn padding(&self, range: &Range<u64>) -> usize {
        range.end.saturating_sub(range.start.max(self.stored)) as usize
    }

    /// The next packet, whole: appended to `out`. Returns its bytes.
    pub fn next_packet(&mut self, heap: &OutHeap, out: &mut Vec<u8>) -> Option<usize> {
        let cut = self.next_cut(out)?;
        for segment in self.segments(heap, cut.payload.clone()) {
            out.extend_from_slice(segment);
        }
        out.resize(out.len() + self.padding(&cut.payload), 0);
        Some(cut.bytes())
    }
}

/// Pointers, where each entry's payload begins, and bytes of payload.
type Laid = (Vec<ItemPointer>, Vec<(u64, usize)>, u64);

fn lay(heap: &OutHeap) -> Result<Laid, PacketError> {
    let flavour = heap.flavour;
    let mut pointers = Vec::with_capacity(heap.entries().len() + 1);
    let (mut segments, mut stored) = (Vec::new(), 0u64);
    for (n, entry) in heap.entries().iter().enumerate() {
        let (OutEntry::Item { id, .. } | OutEntry::Inline { id, .. }) = entry;
        if *id > flavour.largest_id() {
            return Err(PacketError::Id(*id, flavour));
        }
        pointers.push(match entry {
            OutEntry::Inline { id, value } if *value <= flavour.largest_value() => {
                flavour.immediate(*id, *value)
            }
            OutEntry::Inline { value, .. } => return Err(PacketError::Value(*value, flavour)),
            OutEntry::Item { id, allow_immediate, bytes } => {
                let bytes = bytes.as_slice();
                if *allow_immediate && bytes.len() <= flavour.address_bytes() {
                    let value = bytes.iter().fold(0, |value, b| value << 8 | u64::from(*b));
                    flavour.immediate(*id, value)
                } else {
                    let pointer = flavour.addressed(*id, stored);
                    if !bytes.is_empty() {
                        segments.push((stored, n));
                    }
                    stored += bytes.len() as u64;
                    pointer
                }
            }
        });
    }
    if stored > flavour.largest_value() {
        return Err(PacketError::Length(stored, flavour));
    }
    Ok((pointers, segments, stored))
}
