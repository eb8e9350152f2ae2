//! One module's open group: what its wires and grids say, kept as running maxima, so that closing it costs
//! the same for any number of hits.
//!
//! Which hit is the strongest nobody can predict: apart from equal weights, which are rare, adding a hit takes no
//! decision that a processor could guess wrong. Runs of neighbours are counted at the end, from one bit for each
//! coordinate. Refuses nothing; the verdict names why a group is no event. Source:
//! `docs/formats/multigrid.md` section 6.2.

/// Weight below all others.
const NONE: i32 = -1;

/// Hits of one plane.
#[derive(Debug, Clone)]
pub struct PlaneHits {
    /// Hits, equal coordinates included.
    pub hits: u32,
    /// Hits that have the highest weight.
    pub chosen: u32,
    /// Highest weight.
    best: i32,
    /// Coordinate of the first hit that has it.
    pub at: u16,
    /// Sums of positions over the chosen hits; valid if there are several.
    pub sums: (i64, i64),
    /// One bit per coordinate.
    seen: Vec<u64>,
}

impl PlaneHits {
    /// For coordinates below `numbers`.
    pub fn new(numbers: u32) -> PlaneHits {
        let seen = vec![0; (numbers as usize).div_ceil(64).max(1)];
        PlaneHits { hits: 0, chosen: 0, best: NONE, at: 0, sums: (0, 0), seen }
    }

    /// Highest weight; 0 without hits.
    #[inline]
    pub fn best(&self) -> u16 {
        self.best.max(0) as u16
    }

    /// Adds a hit; true if it has the highest weight of those before, and [`Self::tie`] has to be told where it is.
    #[inline]
    #[must_use]
    pub fn add(&mut self, coordinate: u16, weight: u16) -> bool {
        self.hits = self.hits.saturating_add(1);
        let c = usize::from(coordinate);
        if let Some(seen) = self.seen.get_mut(c / 64) {
            *seen |= 1 << (c % 64);
        }
        let weight = i32::from(weight);
        let better = weight > self.best;
        let tie = weight == self.best;
        self.at = if better { coordinate } else { self.at };
        self.chosen = if better { 1 } else { self.chosen };
        self.best = weight.max(self.best);
        tie
    }

    /// A hit at `own` has the weight of the strongest so far, the first of which is at `first`.
    #[cold]
    pub fn tie(&mut self, first: (i32, i32), own: (i32, i32)) {
        if self.chosen == 1 {
            self.sums = (first.0.into(), first.1.into());
        }
        self.chosen += 1;
        self.sums = (self.sums.0 + i64::from(own.0), self.sums.1 + i64::from(own.1));
    }

    /// Forgets the hits; how many runs of neighbouring coordinates they were.
    #[inline]
    pub fn clear(&mut self) -> u32 {
        let (mut runs, mut before) = (0, 0);
        for seen in &mut self.seen {
            // A run begins where the coordinate below is not there.
            runs += (*seen & !(*seen << 1 | before)).count_ones();
            before = *seen >> 63;
            *seen = 0;
        }
        (self.hits, self.chosen, self.best) = (0, 0, NONE);
        runs
    }
}

impl Default for PlaneHits {
    fn default() -> PlaneHits {
        PlaneHits::new(0)
    }
}

/// A module.
#[derive(Debug, Clone, Default)]
pub struct Group {
    /// Time of the newest hit.
    pub time: i64,
    /// True if it has hits.
    pub open: bool,
    /// Its place among what waits for output.
    pub slot: u64,
    /// Wires and grids.
    pub planes: [PlaneHits; 2],
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::runs;
    use proptest::prelude::*;

    proptest! {
        /// Running maxima and runs are those of the sorted list, also after a group before.
        #[test]
        fn running_figures_are_those_of_the_whole_list(
            groups in proptest::collection::vec(
                proptest::collection::vec((0u16..130, 0u16..4), 1..20), 1..4),
        ) {
            let mut plane = PlaneHits::new(130);
            let place = |c: u16| (i32::from(c) * 3 - 7, -i32::from(c));
            for hits in &groups {
                for &(c, w) in hits {
                    if plane.add(c, w) {
                        plane.tie(place(plane.at), place(c));
                    }
                }
                let mut sorted: Vec<u16> = hits.iter().map(|h| h.0).collect();
                sorted.sort_unstable();
                let best = hits.iter().map(|h| h.1).max().unwrap();
                let chosen: Vec<u16> = hits.iter().filter(|h| h.1 == best).map(|h| h.0).collect();
                prop_assert_eq!(plane.hits as usize, hits.len());
                prop_assert_eq!((plane.best(), plane.chosen as usize), (best, chosen.len()));
                prop_assert_eq!(plane.at, chosen[0]);
                if chosen.len() > 1 {
                    let sums = chosen.iter().map(|&c| place(c)).fold((0, 0), |s, p| {
                        (s.0 + i64::from(p.0), s.1 + i64::from(p.1))
                    });
                    prop_assert_eq!(plane.sums, sums);
                }
                prop_assert_eq!(plane.clear() as usize, runs(sorted, 1));
                prop_assert_eq!((plane.hits, plane.best(), plane.clear()), (0, 0, 0));
            }
        }
    }
}
