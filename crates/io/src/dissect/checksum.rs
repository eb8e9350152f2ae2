//! The Internet checksum over large buffers: 64-bit lanes instead of 16-bit words.
//!
//! The sum of 16-bit words does not depend on the byte order it is made in, except that the result is
//! swapped (RFC 1071, part 2 B), so native words are added and the result is swapped at the end.

/// Ones' complement sum of `bytes` as big-endian 16-bit words, folded to 16 bits; an odd last byte
/// counts as the high half of a word. 0 only if all bytes are 0.
#[inline]
pub fn sum(bytes: &[u8]) -> u16 {
    let mut lanes = [0u64; 8];
    let mut blocks = bytes.chunks_exact(32);
    for block in &mut blocks {
        for (lane, word) in lanes.iter_mut().zip(block.chunks_exact(4)) {
            // 2³² words of 32 bits fit a lane: 128 GiB.
            *lane += u64::from(u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
        }
    }
    let mut total: u64 = 0;
    for lane in lanes {
        total += (lane & 0xffff_ffff) + (lane >> 32);
    }
    let mut pairs = blocks.remainder().chunks_exact(2);
    for pair in &mut pairs {
        total += u64::from(u16::from_ne_bytes([pair[0], pair[1]]));
    }
    if let [last] = pairs.remainder() {
        total += u64::from(u16::from_ne_bytes([*last, 0]));
    }
    u16::from_be(fold(total))
}

/// End-around carries until 16 bits are left.
#[inline]
pub fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_example_of_rfc_1071() {
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
        assert_eq!((sum(&[]), sum(&[0; 100]), sum(&[0x12])), (0, 0, 0x1200));
    }

    proptest! {
        #[test]
        fn wide_and_narrow_sums_agree(bytes in prop::collection::vec(any::<u8>(), 0..300), all in any::<bool>()) {
            let bytes = if all { vec![0xff; bytes.len()] } else { bytes };
            let mut slow = 0u32;
            for (i, b) in bytes.iter().enumerate() {
                slow += u32::from(*b) << if i % 2 == 0 { 8 } else { 0 };
                slow = (slow & 0xffff) + (slow >> 16);
            }
            prop_assert_eq!(u32::from(sum(&bytes)), slow);
        }
    }
}
