//! The pixels that events of a group may have: those of `detector_number`.
//!
//! Readers drop events of other pixels without a word (`docs/formats/nexus.md` section 5), so they are counted here
//! instead. A range without gaps needs only the smallest and the largest pixel of a message; others a bit for each
//! number. Refuses nothing.

/// A set of pixel numbers.
#[derive(Debug, Clone)]
pub(super) struct PixelSet {
    low: i64,
    high: i64,
    /// One bit a number from `low` on; `None` if all of them are in the set.
    bits: Option<Vec<u64>>,
}

impl PixelSet {
    /// The set of these numbers. Those that no id of an event (int32) can have are left out; the bits of the others are
    /// 512 MB at most.
    pub(super) fn new(numbers: &[i64]) -> PixelSet {
        let ids = i64::from(i32::MIN)..=i64::from(i32::MAX);
        let numbers = || numbers.iter().copied().filter(|number| ids.contains(number));
        let (Some(low), Some(high)) = (numbers().min(), numbers().max()) else {
            // Low above high: no number is between them.
            return PixelSet { low: 1, high: 0, bits: None };
        };
        let span = high - low + 1;
        let mut bits = vec![0_u64; (span as usize).div_ceil(64)];
        for number in numbers() {
            let at = (number - low) as usize;
            bits[at / 64] |= 1 << (at % 64);
        }
        let members: u64 = bits.iter().map(|word| u64::from(word.count_ones())).sum();
        let bits = (members != span as u64).then_some(bits);
        PixelSet { low, high, bits }
    }

    /// True if the number is in the set.
    pub(super) fn holds(&self, pixel: i32) -> bool {
        let pixel = i64::from(pixel);
        (self.low..=self.high).contains(&pixel)
            && self.bits.as_ref().is_none_or(|bits| {
                let at = (pixel - self.low) as usize;
                bits[at / 64] >> (at % 64) & 1 == 1
            })
    }

    /// True if all of these numbers are, little-endian.
    pub(super) fn holds_all(&self, pixels: &[[u8; 4]]) -> bool {
        if self.bits.is_some() {
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

    #[test]
    fn a_range_and_a_set_with_gaps_hold_their_members_only() {
        let range = PixelSet::new(&[3, 1, 2]);
        assert!(range.bits.is_none());
        assert!(range.holds_all(&bytes(&[1, 3, 2, 2])) && range.holds_all(&[]));
        assert!(!range.holds_all(&bytes(&[1, 4])) && !range.holds_all(&bytes(&[0, 1])));
        let gaps = PixelSet::new(&[-5, 100, 64]);
        assert!(gaps.holds_all(&bytes(&[-5, 64, 100])));
        assert!(!gaps.holds(63) && !gaps.holds(-6) && !gaps.holds(101));
        assert!(!gaps.holds_all(&bytes(&[64, 65])));
        for none in [PixelSet::new(&[]), PixelSet::new(&[i64::MIN, i64::MAX])] {
            assert!(!none.holds(0) && !none.holds_all(&bytes(&[1])) && none.holds_all(&[]));
        }
        let far = PixelSet::new(&[0, 1 << 40]);
        assert!(far.holds(0) && !far.holds(1) && !far.holds(i32::MAX));
    }
}
