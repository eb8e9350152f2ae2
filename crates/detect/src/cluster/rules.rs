//! What an event of two planes must meet: hits per plane, length in time, ratio of the amplitudes.
//!
//! All rules are off by default. The first one that is broken is named, so that each has a counter. Refuses
//! nothing itself. Sources: the sections on clustering of `docs/formats/*.md`.

use super::plane::PlaneSum;

/// Limits; the first index of each pair is plane 0.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Rules {
    /// Largest last − first time + 1 over both planes, ticks.
    pub time_span: Option<i64>,
    /// Most hits in each plane.
    pub hits: [Option<u32>; 2],
    /// Smallest and largest ratio of the sums of weights: plane 1 ÷ plane 0.
    pub ratio: Option<(f64, f64)>,
}

/// The rule that an event breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// Too long in time.
    TimeSpan,
    /// Too many hits in a plane.
    Multiplicity,
    /// The amplitudes of the planes do not belong together.
    Ratio,
}

impl Rules {
    /// True if nothing is asked for.
    pub fn is_empty(&self) -> bool {
        *self == Rules::default()
    }

    /// Looks at an event with hits in both planes.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn check(&self, planes: &[PlaneSum; 2]) -> Result<(), Broken> {
        let [a, b] = planes;
        let length = a.last.max(b.last).saturating_sub(a.first.min(b.first)).saturating_add(1);
        if self.time_span.is_some_and(|most| length > most) {
            return Err(Broken::TimeSpan);
        }
        let many = |limit: Option<u32>, sum: &PlaneSum| limit.is_some_and(|most| sum.hits > most);
        if many(self.hits[0], a) || many(self.hits[1], b) {
            return Err(Broken::Multiplicity);
        }
        let (whole, part) = (a.weight as f64, b.weight as f64);
        let apart = |(least, most): (f64, f64)| part < least * whole || part > most * whole;
        if self.ratio.is_some_and(apart) {
            return Err(Broken::Ratio);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_at_its_limit() {
        let sum =
            |hits, weight, first, last| PlaneSum { hits, weight, first, last, ..PlaneSum::EMPTY };
        let planes = [sum(2, 100, 10, 20), sum(4, 50, 5, 12)];
        let check = |rules: Rules| rules.check(&planes);
        assert!(Rules::default().is_empty());
        assert_eq!(check(Rules::default()), Ok(()));
        assert_eq!(check(Rules { time_span: Some(16), ..Rules::default() }), Ok(()));
        let short = Rules { time_span: Some(15), ..Rules::default() };
        assert_eq!(check(short), Err(Broken::TimeSpan));
        assert_eq!(check(Rules { hits: [Some(2), Some(4)], ..Rules::default() }), Ok(()));
        for hits in [[Some(1), None], [None, Some(3)]] {
            assert_eq!(check(Rules { hits, ..Rules::default() }), Err(Broken::Multiplicity));
        }
        assert_eq!(check(Rules { ratio: Some((0.5, 0.5)), ..Rules::default() }), Ok(()));
        for ratio in [(0.0, 0.49), (0.51, 9.0)] {
            assert_eq!(check(Rules { ratio: Some(ratio), ..Rules::default() }), Err(Broken::Ratio));
        }
    }
}
