//! What a fragment says of itself: header, trailer, checksum.
//!
//! A fragment is a row of 64-bit words, little-endian, in pieces as it was received. Nothing is refused here: what is wrong is said,
//! and the event has the fragment all the same. Source: `docs/formats/simplified-tcp.md`, section 26.1.

use fullcount_instructions::Instructions;

use super::crc::Crc16;

/// Bits of the trailer's low half that the checksum takes as 0, beside the checksum itself.
const NOT_SUMMED: u64 = 0xffff_0000 | 0xc004;

/// What a header and a trailer say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fed {
    /// Event type, 4 bits.
    pub kind: u8,
    /// Event number of the header, 24 bits.
    pub event: u32,
    /// Bunch crossing, 12 bits.
    pub crossing: u16,
    /// Source of the header, 12 bits.
    pub source: u16,
    /// Format version, 4 bits.
    pub version: u8,
    /// Length of the trailer, bytes.
    pub len: u64,
    /// Checksum of the trailer.
    pub crc: u16,
    /// Event status, 4 bits.
    pub status: u8,
    /// Throttling state, 4 bits.
    pub throttling: u8,
}

/// What a throttling state is called.
pub const fn throttling_name(state: u8) -> &'static str {
    match state {
        1 => "warning",
        2 => "out of synchronisation",
        4 => "busy",
        8 => "ready",
        12 => "error",
        15 => "disconnected",
        0 => "not said",
        _ => "unknown",
    }
}

impl Fed {
    /// Reads the first and the last word; `None`: these are not a header and a trailer.
    #[inline]
    pub fn read(header: u64, trailer: u64) -> Option<Fed> {
        (header >> 60 == 5 && trailer >> 60 == 0xa).then_some(Fed {
            kind: (header >> 56) as u8 & 0xf,
            event: (header >> 32) as u32 & 0x00ff_ffff,
            crossing: (header >> 20) as u16 & 0xfff,
            source: (header >> 8) as u16 & 0xfff,
            version: (header >> 4) as u8 & 0xf,
            len: 8 * ((trailer >> 32) & 0x00ff_ffff),
            crc: (trailer >> 16) as u16,
            status: (trailer >> 8) as u8 & 0xf,
            throttling: (trailer >> 4) as u8 & 0xf,
        })
    }
}

/// The first word of the first piece that has one, and the last of the last.
#[inline]
pub fn ends<'a>(mut pieces: impl DoubleEndedIterator<Item = &'a [u8]>) -> Option<(u64, u64)> {
    // Pieces are whole words.
    let first = pieces.by_ref().find(|piece| piece.len() >= 8)?;
    let last = pieces.rev().find(|piece| piece.len() >= 8).unwrap_or(first);
    let header = u64::from_le_bytes(*first.first_chunk()?);
    let trailer = u64::from_le_bytes(*last.last_chunk()?);
    Some((header, trailer))
}

/// The checksum that belongs into the trailer, which is the last word of the pieces.
pub fn checksum<'a>(pieces: impl DoubleEndedIterator<Item = &'a [u8]>, with: Instructions) -> u16 {
    let mut crc = Crc16::default();
    let mut last: Option<&[u8]> = None;
    for piece in pieces.filter(|piece| !piece.is_empty()) {
        if let Some(before) = last.replace(piece) {
            crc.words(before, with);
        }
    }
    if let Some((rest, trailer)) = last.and_then(|last| last.split_last_chunk()) {
        crc.words(rest, with);
        crc.word(u64::from_le_bytes(*trailer) & !NOT_SUMMED);
    }
    crc.value()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VECTOR: [u64; 3] = [0x5112_3456_3e72_0000, 0x0123_4567_89ab_cdef, 0xa000_0003_5f67_0000];

    #[test]
    fn the_vector_of_the_format_is_read_however_it_is_cut() {
        let bytes: Vec<u8> = VECTOR.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(bytes[..8], [0, 0, 0x72, 0x3e, 0x56, 0x34, 0x12, 0x51]);
        for cut in 0..=3 {
            let pieces = [&bytes[..8 * cut], &bytes[8 * cut..]];
            let (header, trailer) = ends(pieces.into_iter()).unwrap();
            let fed = Fed::read(header, trailer).unwrap();
            assert_eq!((fed.source, fed.event, fed.crossing), (512, 0x12_3456, 0x3e7));
            assert_eq!((fed.len, fed.crc, fed.throttling), (24, 0x5f67, 0));
            assert_eq!(checksum(pieces.into_iter(), Instructions::PORTABLE), 0x5f67);
        }
        assert!(Fed::read(VECTOR[1], VECTOR[2]).is_none() && ends([].into_iter()).is_none());
    }

    #[test]
    fn bits_that_hardware_changes_on_the_way_are_not_summed() {
        let mut words = VECTOR;
        words[2] ^= 0xc004;
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(checksum([&bytes[..]].into_iter(), Instructions::PORTABLE), 0x5f67);
        words[2] ^= 0x10;
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_ne!(checksum([&bytes[..]].into_iter(), Instructions::PORTABLE), 0x5f67);
    }
}
