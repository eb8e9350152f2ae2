//! Sequence numbers: compared modulo 2³², and turned into 64-bit offsets of the stream.
//!
//! Offset 0 is the first byte of payload; its sequence number is the initial one + 1. Source: RFC 9293 section 3.4.

/// `a` is before `b`, modulo 2³².
#[inline]
pub const fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// `number` lies in [`from`, `from` + `length`).
#[inline]
pub const fn inside(number: u32, from: u32, length: u32) -> bool {
    number.wrapping_sub(from) < length
}

/// The offset of sequence number `number` near `reference`, whose number is `reference_number`; `None` before the
/// beginning of the stream.
#[inline]
pub const fn offset(number: u32, reference: u64, reference_number: u32) -> Option<u64> {
    reference.checked_add_signed(number.wrapping_sub(reference_number) as i32 as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_compare_across_the_wrap() {
        assert!(before(u32::MAX, 0) && before(0xffff_ff00, 5) && !before(5, 0xffff_ff00));
        assert!(!before(7, 7));
        assert!(inside(2, u32::MAX, 4) && !inside(3, u32::MAX, 4) && !inside(5, 5, 0));
        assert_eq!(offset(3, 1000, u32::MAX), Some(1004));
        assert_eq!(offset(u32::MAX, 1000, 3), Some(996));
        assert_eq!(offset(0, 3, 10), None);
    }
}
