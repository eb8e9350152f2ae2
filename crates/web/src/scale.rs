//! From a column's value to a bin, without a division per event.
//!
//! `bin = floor((value − first) × bins ÷ span)` as one wide multiplication with ⌈2⁶⁴ × bins ÷ span⌉:
//! exact, because (value − first) × span < 2⁶⁴ keeps the reciprocal's error below 1 ÷ span.
//! Refuses axes without range, with more bins than values, or beyond a column's 32 bits.
//! Source: `docs/page.md`, "Plots of a new detector".

use fullcount_core::view::Axis;

/// Most bins of one axis: 1 Mi, as [`Axis::bins`] promises.
pub const MOST_BINS: u32 = 1 << 20;

/// A prepared axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    first: u32,
    span: u64,
    /// ⌈2⁶⁴ × bins ÷ span⌉, or 0 where one bin is one value.
    reciprocal: u64,
    /// Number of bins.
    pub bins: u32,
}

impl Scale {
    /// Prepares `axis`; the refusal says what is allowed.
    pub fn new(axis: &Axis) -> Result<Scale, String> {
        let Axis { first, last, bins, .. } = *axis;
        if bins == 0 || bins > MOST_BINS {
            return Err(format!("{bins} bins are not allowed: 1 to {MOST_BINS}"));
        }
        if first >= last || last > 1 << 32 {
            return Err(format!(
                "the range {first}..{last} is not allowed: first < last, last at most 4294967296"
            ));
        }
        let span = last - first;
        if u64::from(bins) > span {
            return Err(format!("{bins} bins over {span} values are not allowed: at most {span}"));
        }
        let reciprocal = if u64::from(bins) == span {
            0
        } else {
            (u128::from(bins) << 64).div_ceil(u128::from(span)) as u64
        };
        Ok(Scale { first: first as u32, span, reciprocal, bins })
    }

    /// Bin of `value`, `None` outside.
    #[inline(always)]
    pub fn bin(&self, value: u32) -> Option<usize> {
        let above = u64::from(value.wrapping_sub(self.first));
        if above >= self.span || value < self.first {
            return None;
        }
        Some(self.bin_inside(above))
    }

    #[inline(always)]
    fn bin_inside(&self, above: u64) -> usize {
        if self.reciprocal == 0 {
            above as usize
        } else {
            ((u128::from(above) * u128::from(self.reciprocal)) >> 64) as usize
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullcount_core::view::PlotColumn;
    use proptest::prelude::*;

    fn axis(first: u64, last: u64, bins: u32) -> Axis {
        let (label, unit) = ("t".to_owned(), "µs".to_owned());
        Axis { column: PlotColumn::OffsetNs, label, unit, scale: 1000.0, first, last, bins }
    }

    #[test]
    fn the_lower_edge_is_inside_and_the_upper_is_not() {
        let s = Scale::new(&axis(10, 20, 5)).unwrap();
        let bins: Vec<_> = [9, 10, 11, 12, 19, 20, u32::MAX].map(|v| s.bin(v)).into();
        assert_eq!(bins, [None, Some(0), Some(0), Some(1), Some(4), None, None]);
    }

    #[test]
    fn a_whole_column_fits_one_axis() {
        let s = Scale::new(&axis(0, 1 << 32, 4)).unwrap();
        assert_eq!((s.bin(0), s.bin(1 << 30), s.bin(u32::MAX)), (Some(0), Some(1), Some(3)));
    }

    #[test]
    fn impossible_axes_are_refused_with_what_is_allowed() {
        for (a, part) in [
            (axis(0, 10, 0), "1 to 1048576"),
            (axis(0, 1 << 30, MOST_BINS + 1), "1 to 1048576"),
            (axis(5, 5, 1), "first < last"),
            (axis(0, (1 << 32) + 1, 1), "at most 4294967296"),
            (axis(0, 10, 11), "at most 10"),
        ] {
            let e = Scale::new(&a).unwrap_err();
            assert!(e.contains(part), "{e}");
        }
    }

    proptest! {
        #[test]
        fn equals_the_division(first in 0u64..1 << 32, length in 1u64..=1 << 32, bins in 1u32..=MOST_BINS, v in any::<u32>()) {
            let last = (first + length).min(1 << 32);
            if let Ok(s) = Scale::new(&axis(first, last, bins)) {
                let v64 = u64::from(v);
                let inside = (first..last).contains(&v64);
                let exact = || ((v64 - first) as u128 * bins as u128 / (last - first) as u128) as usize;
                prop_assert_eq!(s.bin(v), inside.then(exact));
            }
        }
    }
}
