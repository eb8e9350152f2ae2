//! The pixels that events of a group may have: those of `detector_number`.
//!
//! Readers drop events of other pixels without a word (`docs/formats/nexus.md` section 5), so they are counted here
//! instead. A range without gaps needs only the smallest and the largest pixel of a message; others a bit for each
//! number, or a list where that would be longer: what it takes of memory follows from how many numbers there are.

/// Bytes of bits that a set may have for each number in it, and at least [`LEAST`]: `[1, 2000000000]` would take 250 MB.
const BITS_EACH: usize = 32;
const LEAST: usize = 1 << 20;

/// A set of pixel numbers.
#[derive(Debug)]
pub(super) struct PixelSet {
    low: i64,
    high: i64,
    gaps: Gaps,
}

/// Which numbers between the smallest and the largest are in the set.
#[derive(Debug)]
enum Gaps {
    /// All.
    None,
    /// One bit a number from the smallest on.
    Bits(Vec<u64>),
    /// These, ascending: few of a wide range.
    Listed(Vec<i32>),
}

impl PixelSet {
    /// The set of these numbers. Those that no id of an event (int32) can have are left out.
    pub(super) fn new(numbers: impl Iterator<Item = i64>) -> PixelSet {
        let mut all: Vec<i32> = numbers.filter_map(|n| i32::try_from(n).ok()).collect();
        all.sort_unstable();
        all.dedup();
        let (Some(&low), Some(&high)) = (all.first(), all.last()) else {
            // Low above high: no number is between them.
            return PixelSet { low: 1, high: 0, gaps: Gaps::None };
        };
        let (low, high) = (i64::from(low), i64::from(high));
        let span = (high - low + 1) as usize;
        let gaps = if all.len() == span {
            Gaps::None
        } else if span / 8 <= (all.len() * BITS_EACH).max(LEAST) {
            let mut bits = vec![0_u64; span.div_ceil(64)];
            for number in all {
                let at = (i64::from(number) - low) as usize;
                bits[at / 64] |= 1 << (at % 64);
            }
            Gaps::Bits(bits)
        } else {
            Gaps::Listed(all)
        };
        PixelSet { low, high, gaps }
    }

    /// True if the number is in the set.
    pub(super) fn holds(&self, pixel: i32) -> bool {
        let number = i64::from(pixel);
        (self.low..=self.high).contains(&number)
            && match &self.gaps {
                Gaps::None => true,
                Gaps::Bits(bits) => {
                    let at = (number - self.low) as usize;
                    bits[at / 64] >> (at % 64) & 1 == 1
                }
                Gaps::Listed(all) => all.binary_search(&pixel).is_ok(),
            }
    }

    /// True if all of these numbers are, little-endian.
    pub(super) fn holds_all(&self, pixels: &[[u8; 4]]) -> bool {
        if !matches!(self.gaps, Gaps::None) {
            return pixels.iter().all(|&p| self.holds(i32::from_le_bytes(p)));
        }
        // A fold without early exit: the compiler makes vector code of it.
        let (least, most) = pixels.iter().fold((i32::MAX, i32::MIN), |(least, most), &p| {
            let p = i32::from_le_bytes(p);
            (least.min(p), most.max(p))
        });
        pixels.is_empty() || (i64::from(least) >= self.low && i64::from(most) <= self.high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(pixels: &[i32]) -> Vec<[u8; 4]> {
        pixels.iter().map(|p| p.to_le_bytes()).collect()
    }

    fn set(numbers: &[i64]) -> PixelSet {
        PixelSet::new(numbers.iter().copied())
    }

    #[test]
    fn a_range_and_a_set_with_gaps_hold_their_members_only() {
        let range = set(&[3, 1, 2]);
        assert!(matches!(range.gaps, Gaps::None));
        assert!(range.holds_all(&bytes(&[1, 3, 2, 2])) && range.holds_all(&[]));
        assert!(!range.holds_all(&bytes(&[1, 4])) && !range.holds_all(&bytes(&[0, 1])));
        let gaps = set(&[-5, 100, 64]);
        assert!(gaps.holds_all(&bytes(&[-5, 64, 100])));
        assert!(!gaps.holds(63) && !gaps.holds(-6) && !gaps.holds(101));
        assert!(!gaps.holds_all(&bytes(&[64, 65])));
        for none in [set(&[]), set(&[i64::MIN, i64::MAX])] {
            assert!(!none.holds(0) && !none.holds_all(&bytes(&[1])) && none.holds_all(&[]));
        }
        let far = set(&[0, 1 << 40]);
        assert!(far.holds(0) && !far.holds(1) && !far.holds(i32::MAX));
        // Two numbers take no more memory for being far from each other.
        let wide = set(&[i32::MIN.into(), 7, i32::MAX.into()]);
        assert!(matches!(&wide.gaps, Gaps::Listed(all) if all.len() == 3));
        assert!(wide.holds(7) && wide.holds(i32::MIN) && wide.holds(i32::MAX) && !wide.holds(8));
        assert!(!wide.holds_all(&bytes(&[7, 8])) && wide.holds_all(&bytes(&[7, i32::MAX])));
    }
}
