//! A block: a header of 16 bytes, then a part of a fragment.
//!
//! The verdict on a block follows from its own bytes alone. Refuses: too short, another signature, a length that is not that of
//! the bytes. Source: `docs/formats/simplified-tcp.md`, section 26.1.

use fullcount_core::bytes::Bytes;
use fullcount_core::source::FrameRule;

/// Bytes of the header.
pub const HEADER: usize = 16;
/// Longest block, header included.
pub const MOST: usize = 4096;
/// Words of a payload at most.
const MOST_WORDS: usize = (MOST - HEADER) / 8;
/// First two bytes.
const SIGNATURE: u16 = 0x475a;
/// Event numbers have so many bits.
pub const NUMBER_BITS: u32 = 24;

/// How blocks are found in a stream.
pub const FRAMING: FrameRule =
    FrameRule { name: "ferol", head: 8, length, skip: 0, most: Some(MOST) };

fn length(head: &[u8]) -> Option<usize> {
    let mut bytes = Bytes::new(head);
    let word = bytes.be64()?;
    (word >> 48 == u64::from(SIGNATURE)).then(|| HEADER + 8 * words(word))
}

fn words(word: u64) -> usize {
    (word & 0x3ff) as usize
}

/// Why a block was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockRefusal {
    /// Fewer than 16 bytes.
    Short,
    /// It does not begin with the signature.
    Signature,
    /// Its length is not that of its bytes, or above 4080 bytes.
    Length,
}

impl BlockRefusal {
    /// Class and word for `inspect`.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            BlockRefusal::Short => ("bad_size", "short_block"),
            BlockRefusal::Signature => ("header", "signature"),
            BlockRefusal::Length => ("bad_size", "block_length"),
        }
    }
}

/// A block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FragmentBlock {
    /// Number within its fragment, from 0; 11 bits.
    pub number: u16,
    /// It is the first of its fragment.
    pub first: bool,
    /// It is the last.
    pub last: bool,
    /// Source, 12 bits.
    pub source: u16,
    /// Event number, 24 bits.
    pub event: u32,
    /// Bytes of the payload.
    pub len: usize,
}

impl FragmentBlock {
    /// True if it is a whole fragment.
    #[inline]
    pub fn is_whole(&self) -> bool {
        self.first && self.last && self.number == 0
    }

    /// Reads the header of a block that ends where `bytes` end.
    ///
    /// # Errors
    /// What is wrong with it.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<FragmentBlock, BlockRefusal> {
        let mut head = Bytes::new(bytes);
        let (Some(first), Some(second)) = (head.be64(), head.be64()) else {
            return Err(BlockRefusal::Short);
        };
        if first >> 48 != u64::from(SIGNATURE) {
            return Err(BlockRefusal::Signature);
        }
        let words = words(first);
        if words > MOST_WORDS || bytes.len() != HEADER + 8 * words {
            return Err(BlockRefusal::Length);
        }
        Ok(FragmentBlock {
            number: (first >> 32) as u16 & 0x7ff,
            first: first >> 31 & 1 == 1,
            last: first >> 30 & 1 == 1,
            source: (second >> 32) as u16 & 0xfff,
            event: second as u32 & 0x00ff_ffff,
            len: 8 * words,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vector_of_the_format_is_read() {
        let mut bytes = vec![0x47, 0x5a, 0, 0, 0xc0, 0, 1, 0, 0, 0, 2, 0, 0, 0x12, 0x34, 0x56];
        assert_eq!(FRAMING.whole(&bytes, 4096), Ok(Some(16 + 2048)));
        bytes.resize(16 + 2048, 0);
        let (source, event, len) = (512, 0x12_3456, 2048);
        let expected = FragmentBlock { number: 0, first: true, last: true, source, event, len };
        assert_eq!(FragmentBlock::parse(&bytes), Ok(expected));
        assert_eq!(FragmentBlock::parse(&bytes[..2056]), Err(BlockRefusal::Length));
        assert_eq!(FragmentBlock::parse(&bytes[..15]), Err(BlockRefusal::Short));
        bytes[0] = 0x48;
        assert_eq!(FragmentBlock::parse(&bytes), Err(BlockRefusal::Signature));
        assert!(FRAMING.whole(&bytes, 4096).is_err());
    }

    #[test]
    fn a_block_of_more_than_4096_bytes_is_refused_before_it_is_read() {
        let mut head = vec![0x47, 0x5a, 0, 0, 0xc0, 0, 3, 0xff, 0, 0, 0, 0, 0, 0, 0, 0];
        assert!(FRAMING.whole(&head, 1 << 20).is_err());
        head[7] = 0xfe;
        head[6] = 1;
        assert_eq!(FRAMING.whole(&head, 1 << 20), Ok(Some(4096)));
    }
}
