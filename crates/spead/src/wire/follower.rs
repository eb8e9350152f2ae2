//! The packet that follows another one of its heap: known by its 40 bytes of header and pointers as a whole.
//!
//! Most packets differ from the one before them in their offset only, and that is known beforehand. Five words are compared
//! with what is expected; nothing that a copy of the payload needs, address or length, is read out of the packet. So the
//! processor begins with the copy while the header is still on its way from memory. Source: `docs/formats/spead.md`,
//! sections 3 and 7.

use super::flavour::{Flavour, id};
use super::packet::{SpeadPacket, header};
use super::{POINTER_BYTES, PREFIX_BYTES};

/// Which of the words has the payload's offset.
const OFFSET: usize = 3;

/// The packet that is expected next; at first none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Follower {
    /// Its first 40 bytes as words; that of the offset is the pointer of offset 0.
    words: [u64; 5],
    /// Bytes of the packet; 0: none is expected.
    size: usize,
    offset: u64,
    /// Bytes of payload of each packet.
    step: u64,
    length: u64,
    heap_cnt: u64,
    flavour: Flavour,
}

impl Follower {
    /// Expects the packet behind `packet` that has as many bytes, if such a one fits into the heap. Packets with pointers of
    /// items are not expected.
    #[inline]
    pub fn expect_after(&mut self, packet: &SpeadPacket<'_>) {
        let (f, step) = (packet.flavour, packet.payload.len() as u64);
        let Some(length) = packet.heap_length.filter(|_| packet.is_bare() && step > 0) else {
            return self.forget();
        };
        self.size = packet.size();
        (self.offset, self.step, self.length) = (packet.offset, step, length);
        (self.heap_cnt, self.flavour) = (packet.heap_cnt, f);
        self.words = [
            u64::from_ne_bytes(header(f, 4)),
            f.immediate(id::HEAP_CNT, packet.heap_cnt).0.to_be(),
            f.immediate(id::HEAP_LENGTH, length).0.to_be(),
            f.immediate(id::PAYLOAD_OFFSET, 0).0,
            f.immediate(id::PAYLOAD_LENGTH, step).0.to_be(),
        ];
        self.advance();
    }

    /// Expects nothing.
    #[inline]
    pub fn forget(&mut self) {
        self.size = 0;
    }

    /// Expects the packet behind the one that came.
    #[inline]
    pub fn advance(&mut self) {
        self.offset += self.step;
        if self.offset + self.step > self.length {
            self.forget();
        }
    }

    /// The packet that `bytes` begin with, if it is the expected one.
    #[inline]
    pub fn take<'a>(&self, bytes: &'a [u8]) -> Option<SpeadPacket<'a>> {
        let bytes = bytes.get(..self.size)?;
        let (head, payload) = bytes.split_first_chunk::<PREFIX_BYTES>()?;
        let (cnt, length, offset) = (self.heap_cnt, self.length, self.offset);
        self.is_head(head)
            .then(|| SpeadPacket::bare(self.flavour, cnt, length, offset, head, payload))
    }

    /// The expected packet begins with `head`.
    #[inline]
    pub fn is_head(&self, head: &[u8; PREFIX_BYTES]) -> bool {
        let (found, _) = head.as_chunks::<POINTER_BYTES>();
        let mut other = u64::from(self.size == 0);
        for (n, (word, found)) in self.words.iter().zip(found).enumerate() {
            let word = if n == OFFSET { (word | self.offset).to_be() } else { *word };
            other |= u64::from_ne_bytes(*found) ^ word;
        }
        other == 0
    }

    /// Where the payload of the expected packet lies in its heap, the payload's bytes, and how many packets of that size the heap has
    /// from there on. `None`: none is expected.
    #[inline]
    pub fn expected(&self) -> Option<(u64, u64, u64)> {
        let left = self.length.checked_sub(self.offset).filter(|_| self.size > 0)?;
        Some((self.offset, self.step, left / self.step.max(1)))
    }
}
