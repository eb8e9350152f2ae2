//! One packet taken apart, in the order of checks that spead2 has; nothing is copied.
//!
//! A packet delimits itself, so bytes behind it are the caller's business: a datagram refuses them or is taken for
//! several packets that a sending host merged, a byte stream goes on there. Refuses: see [`Malformed`].
//! Source: `docs/formats/spead.md`, sections 3 and 8.1.

use super::flavour::{Flavour, ItemPointer, id};
use super::{HEADER_BYTES, POINTER_BYTES, PREFIX_BYTES};

const MAGIC: u8 = 0x53;
const VERSION: u8 = 4;

/// Why bytes are no packet. One variant, one counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Malformed {
    /// Shorter than a header.
    #[error("{0} B are shorter than the header of 8 B")]
    Short(usize),
    /// Neither magic nor version are those of SPEAD 4.
    #[error("magic 0x{0:02x} and version {1} instead of 0x53 and 4")]
    NotSpead(u8, u8),
    /// Id width and address width do not make 8.
    #[error("widths of {0} B and {1} B instead of two that make 8")]
    Widths(u8, u8),
    /// The pointers go beyond the end.
    #[error("{pointers} item pointers do not fit into {size} B")]
    Pointers {
        /// As announced.
        pointers: usize,
        /// Of the packet.
        size: usize,
    },
    /// No heap number, payload offset or payload length as an immediate.
    #[error("no immediate item 0x{0:x}, which each packet needs")]
    Missing(u64),
    /// The payload goes beyond the end.
    #[error("payload of {length} B behind {prefix} B does not fit into {size} B")]
    Payload {
        /// As announced.
        length: u64,
        /// Header and pointers.
        prefix: usize,
        /// Of the packet.
        size: usize,
    },
    /// The payload goes beyond the heap.
    #[error("payload of {length} B at {offset} goes beyond the heap of {heap} B")]
    BeyondHeap {
        /// Where it begins.
        offset: u64,
        /// Its bytes.
        length: u64,
        /// Bytes of the heap.
        heap: u64,
    },
}

/// A packet, still in its buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpeadPacket<'a> {
    /// Widths of its pointers.
    pub flavour: Flavour,
    /// Number of its heap.
    pub heap_cnt: u64,
    /// Bytes of its heap; `None`: not said.
    pub heap_length: Option<u64>,
    /// Where its payload stands in the heap.
    pub offset: u64,
    /// Its payload.
    pub payload: &'a [u8],
    /// All its item pointers, the standard ones included.
    pointers: &'a [[u8; POINTER_BYTES]],
    /// The first four pointers are the standard ones, and no other is.
    regular: bool,
}

#[inline]
fn load(pointer: &[u8; 8]) -> ItemPointer {
    ItemPointer::from_bytes(*pointer)
}

/// Flavour and number of pointers of a header.
#[inline]
fn open(bytes: &[u8]) -> Result<(Flavour, usize), Malformed> {
    let Some(&[magic, version, ids, addresses, _, _, high, low]) = bytes.first_chunk::<8>() else {
        return Err(Malformed::Short(bytes.len()));
    };
    if magic != MAGIC || version != VERSION {
        return Err(Malformed::NotSpead(magic, version));
    }
    let flavour = Flavour::of_widths(ids, addresses).ok_or(Malformed::Widths(ids, addresses))?;
    Ok((flavour, usize::from(u16::from_be_bytes([high, low]))))
}

/// Header and pointers of the packet that begins here, bytes; `Ok(None)`: more bytes are needed to say.
///
/// # Errors
/// If no packet begins here: magic, version, widths.
pub fn prefix_of(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    match bytes.len() < HEADER_BYTES {
        true => Ok(None),
        false => open(bytes).map(|(_, n)| Some(HEADER_BYTES + POINTER_BYTES * n)),
    }
}

/// Bytes of the packet that begins here as its own header says, once header and all pointers are there.
///
/// `Ok(None)`: more bytes are needed to say. The first immediate payload length counts.
///
/// # Errors
/// If no packet begins here: magic, version, widths, or no payload length.
pub fn size_of(bytes: &[u8]) -> Result<Option<u64>, Malformed> {
    if bytes.len() < HEADER_BYTES {
        return Ok(None);
    }
    let (flavour, n) = open(bytes)?;
    let prefix = HEADER_BYTES + POINTER_BYTES * n;
    let Some(pointers) = bytes.get(HEADER_BYTES..prefix) else { return Ok(None) };
    let length = pointers
        .as_chunks::<8>()
        .0
        .iter()
        .map(load)
        .find(|p| p.is_immediate() && flavour.id_of(*p) == id::PAYLOAD_LENGTH);
    let length = length.ok_or(Malformed::Missing(id::PAYLOAD_LENGTH))?;
    Ok(Some(prefix as u64 + flavour.value_of(length)))
}

/// Header of a packet with `pointers` item pointers.
#[inline]
pub fn header(flavour: Flavour, pointers: u16) -> [u8; HEADER_BYTES] {
    let [high, low] = pointers.to_be_bytes();
    let (ids, addresses) = (flavour.id_bytes() as u8, flavour.address_bytes() as u8);
    [MAGIC, VERSION, ids, addresses, 0, 0, high, low]
}

impl<'a> SpeadPacket<'a> {
    /// Takes the packet apart that `bytes` begin with; what stands behind it is not looked at.
    ///
    /// # Errors
    /// See [`Malformed`].
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<SpeadPacket<'a>, Malformed> {
        let (head, length) = SpeadPacket::open(bytes)?;
        let (prefix, size) = (head.size(), bytes.len());
        let payload = usize::try_from(length).ok().and_then(|l| bytes[prefix..].get(..l));
        let payload = payload.ok_or(Malformed::Payload { length, prefix, size })?;
        head.fits(length)?;
        Ok(SpeadPacket { payload, ..head })
    }

    /// Header and pointers of a packet whose payload is elsewhere; with the payload's length.
    ///
    /// # Errors
    /// See [`Malformed`].
    pub fn parse_head(bytes: &'a [u8]) -> Result<(SpeadPacket<'a>, u64), Malformed> {
        let (head, length) = SpeadPacket::open(bytes)?;
        head.fits(length)?;
        Ok((head, length))
    }

    #[inline]
    fn open(bytes: &'a [u8]) -> Result<(SpeadPacket<'a>, u64), Malformed> {
        let (flavour, n) = open(bytes)?;
        let prefix = HEADER_BYTES + POINTER_BYTES * n;
        let Some(pointers) = bytes.get(HEADER_BYTES..prefix) else {
            return Err(Malformed::Pointers { pointers: n, size: bytes.len() });
        };
        let pointers = pointers.as_chunks::<8>().0;
        let Fields { value, regular } = Fields::of(flavour, pointers);
        let heap_cnt = value[0].ok_or(Malformed::Missing(id::HEAP_CNT))?;
        let offset = value[2].ok_or(Malformed::Missing(id::PAYLOAD_OFFSET))?;
        let length = value[3].ok_or(Malformed::Missing(id::PAYLOAD_LENGTH))?;
        let heap_length = value[1];
        let payload = &[];
        Ok((
            SpeadPacket { flavour, heap_cnt, heap_length, offset, payload, pointers, regular },
            length,
        ))
    }

    /// The payload ends inside of the heap.
    #[inline]
    fn fits(&self, length: u64) -> Result<(), Malformed> {
        let offset = self.offset;
        // Both are below 2^56.
        match self.heap_length.filter(|heap| offset + length > *heap) {
            Some(heap) => Err(Malformed::BeyondHeap { offset, length, heap }),
            None => Ok(()),
        }
    }

    /// A packet of these values with no more than the four standard pointers in `head`.
    #[inline]
    pub(super) fn bare(
        flavour: Flavour,
        heap_cnt: u64,
        heap_length: u64,
        offset: u64,
        head: &'a [u8; PREFIX_BYTES],
        payload: &'a [u8],
    ) -> SpeadPacket<'a> {
        let pointers = head[HEADER_BYTES..].as_chunks().0;
        let heap_length = Some(heap_length);
        SpeadPacket { flavour, heap_cnt, heap_length, offset, payload, pointers, regular: true }
    }

    /// It has the four standard pointers in their usual order, and no other.
    #[inline]
    pub fn is_bare(&self) -> bool {
        self.regular && self.pointers.len() == 4
    }

    /// Bytes of the packet.
    #[inline]
    pub fn size(&self) -> usize {
        HEADER_BYTES + POINTER_BYTES * self.pointers.len() + self.payload.len()
    }

    /// The pointers of items: all but heap number, heap length, payload offset and payload length.
    #[inline]
    pub fn items(&self) -> impl Iterator<Item = ItemPointer> + use<'a> {
        let flavour = self.flavour;
        let skip = if self.regular { 4 } else { 0 };
        self.pointers[skip..].iter().map(load).filter(move |p| {
            let id = flavour.id_of(*p);
            id == id::NULL || id > id::PAYLOAD_LENGTH
        })
    }

    /// All pointers, in their order.
    pub fn pointers(&self) -> impl Iterator<Item = ItemPointer> + use<'a> {
        self.pointers.iter().map(load)
    }

    /// Payload bytes of the heap that this packet alone is.
    #[inline]
    pub fn is_whole_heap(&self) -> bool {
        self.heap_length == Some(self.payload.len() as u64)
    }
}

/// Values of the four standard items; the last of several counts.
struct Fields {
    value: [Option<u64>; 4],
    regular: bool,
}

impl Fields {
    #[inline]
    fn of(flavour: Flavour, pointers: &[[u8; 8]]) -> Fields {
        let tag = |id| flavour.immediate(id, 0).0;
        let mut fields = Fields { value: [None; 4], regular: false };
        let mut rest = pointers;
        // How every sender known writes them.
        if let Some((first, others)) = pointers.split_first_chunk::<4>() {
            let p = first.map(u64::from_be_bytes);
            let mask = !flavour.largest_value();
            let same = (0..4).all(|n| p[n] & mask == tag(n as u64 + 1));
            if same {
                fields.value = p.map(|p| Some(p & flavour.largest_value()));
                fields.regular = true;
                rest = others;
            }
        }
        for p in rest.iter().map(load).filter(|p| p.is_immediate()) {
            let id = flavour.id_of(p);
            if (id::HEAP_CNT..=id::PAYLOAD_LENGTH).contains(&id) {
                fields.value[id as usize - 1] = Some(flavour.value_of(p));
            }
        }
        fields
    }
}

#[cfg(test)]
#[path = "packet_tests.rs"]
mod tests;
