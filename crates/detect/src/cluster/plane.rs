//! What a cluster says about one plane: hits, span, sums of weights, and the centre that follows from them.
//!
//! All sums are integers, so that the order of the hits cannot change a centre. 2¹⁶ hits of
//! the largest weight and coordinate need 48 of the 64 bits. Sources: the sections
//! on clustering of `docs/formats/*.md`.

use crate::hits::PlaneHit;

/// Hits of one plane that belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaneSum {
    /// Number of hits; a channel that was hit twice counts twice.
    pub hits: u32,
    /// Smallest coordinate; above `highest` if there are no hits.
    pub lowest: u16,
    /// Largest coordinate.
    pub highest: u16,
    /// Sum of the weights.
    pub weight: u64,
    /// Sum of weight × coordinate.
    pub moment: u64,
    /// Earliest time, ticks; above `last` if there are no hits.
    pub first: i64,
    /// Latest time, ticks.
    pub last: i64,
}

impl PlaneSum {
    /// No hits.
    pub const EMPTY: PlaneSum = PlaneSum {
        hits: 0,
        lowest: u16::MAX,
        highest: 0,
        weight: 0,
        moment: 0,
        first: i64::MAX,
        last: i64::MIN,
    };

    /// Adds a hit.
    #[inline]
    pub fn add(&mut self, hit: &PlaneHit) {
        self.hits += 1;
        self.lowest = self.lowest.min(hit.coordinate);
        self.highest = self.highest.max(hit.coordinate);
        self.weight += u64::from(hit.weight);
        self.moment += u64::from(u32::from(hit.weight) * u32::from(hit.coordinate));
        self.first = self.first.min(hit.time);
        self.last = self.last.max(hit.time);
    }

    /// Sums of `hits`.
    pub fn of<'a>(hits: impl IntoIterator<Item = &'a PlaneHit>) -> PlaneSum {
        let mut sum = PlaneSum::EMPTY;
        hits.into_iter().for_each(|hit| sum.add(hit));
        sum
    }

    /// Both together.
    pub fn with(&self, other: &PlaneSum) -> PlaneSum {
        PlaneSum {
            hits: self.hits.saturating_add(other.hits),
            lowest: self.lowest.min(other.lowest),
            highest: self.highest.max(other.highest),
            weight: self.weight.saturating_add(other.weight),
            moment: self.moment.saturating_add(other.moment),
            first: self.first.min(other.first),
            last: self.last.max(other.last),
        }
    }

    /// True without hits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.hits == 0
    }

    /// Largest − smallest coordinate + 1; 0 without hits.
    #[inline]
    pub fn span(&self) -> u32 {
        (u32::from(self.highest) + 1).saturating_sub(u32::from(self.lowest))
    }

    /// Coordinates that are missing within the span; 0 as well where a channel was hit twice.
    #[inline]
    pub fn gaps(&self) -> u32 {
        self.span().saturating_sub(self.hits)
    }

    /// Centre of gravity; `None` without weight.
    pub fn centre(&self) -> Option<f64> {
        // Both sums are below 2⁵³: exact as doubles.
        (self.weight > 0).then(|| self.moment as f64 / self.weight as f64)
    }

    /// Centre of gravity on a grid of `parts` cells per coordinate, rounded to the nearest, ½ upwards: cell
    /// `parts × k` begins half a coordinate before k. With 1 part the nearest coordinate. `None` without
    /// weight.
    #[inline]
    pub fn cell(&self, parts: u32) -> Option<u32> {
        if self.weight == 0 {
            return None;
        }
        let (parts, weight) = (u64::from(parts), self.weight);
        Some((parts * (2 * self.moment + weight) / (2 * weight)) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hit(time: i64, coordinate: u16, weight: u16) -> PlaneHit {
        PlaneHit { time, coordinate, weight, ..PlaneHit::default() }
    }

    #[test]
    fn sums_span_and_centre() {
        let sum = PlaneSum::of(&[hit(5, 10, 300), hit(3, 11, 100), hit(9, 14, 0)]);
        assert_eq!((sum.hits, sum.span(), sum.gaps()), (3, 5, 2));
        assert_eq!((sum.first, sum.last, sum.centre()), (3, 9, Some(10.25)));
        assert_eq!((sum.cell(1), sum.cell(2), sum.cell(4)), (Some(10), Some(21), Some(43)));
        assert_eq!((PlaneSum::EMPTY.span(), PlaneSum::EMPTY.centre()), (0, None));
    }

    #[test]
    fn half_a_coordinate_rounds_upwards_and_no_weight_has_no_place() {
        assert_eq!(PlaneSum::of(&[hit(0, 3, 7), hit(0, 4, 7)]).cell(1), Some(4));
        assert_eq!(PlaneSum::of(&[hit(0, 0, 0)]).cell(1), None);
        assert_eq!(PlaneSum::of(&[hit(0, 65_535, 65_535)]).cell(16), Some(65_535 * 16 + 8));
    }

    proptest! {
        #[test]
        fn the_integer_cell_is_the_rounded_double(
            hits in proptest::collection::vec((any::<u16>(), any::<u16>()), 1..40), parts in 1u32..17,
        ) {
            let hits: Vec<_> = hits.into_iter().map(|(c, w)| hit(0, c, w)).collect();
            let sum = PlaneSum::of(&hits);
            prop_assert_eq!(sum.cell(1), sum.centre().map(|c| (c + 0.5).floor() as u32));
            if let Some(cell) = sum.cell(parts) {
                prop_assert!(cell < 65_536 * parts);
                prop_assert_eq!(Some(cell / parts), sum.cell(1));
            }
        }

        #[test]
        fn two_halves_are_the_whole(hits in proptest::collection::vec((0i64..99, any::<u16>(), any::<u16>()), 0..20),
                                    at in 0usize..20) {
            let hits: Vec<_> = hits.into_iter().map(|(t, c, w)| hit(t, c, w)).collect();
            let (a, b) = hits.split_at(at.min(hits.len()));
            prop_assert_eq!(PlaneSum::of(a).with(&PlaneSum::of(b)), PlaneSum::of(&hits));
        }
    }
}
