//! One module's open group: what its wires and grids say, kept as running maxima, so that closing it costs
//! the same for any number of hits.
//!
//! The verdict names why a group is no event. Runs of neighbours are counted as hits come:
//! a coordinate that is new adds a run, less one for each neighbour that is there already. Source:
//! `docs/formats/multigrid.md` section 6.2.

/// Hits of one plane.
#[derive(Debug, Clone, Default)]
pub struct PlaneHits {
    /// Hits, equal coordinates included.
    pub hits: u32,
    /// Runs of neighbouring coordinates.
    pub runs: u32,
    /// Hits that have the highest weight.
    pub chosen: u32,
    /// Highest weight.
    pub best: u16,
    /// Coordinate of the first hit that has it.
    pub at: u16,
    /// Sums of positions over the chosen hits; valid if there are several.
    pub sums: (i64, i64),
    /// First coordinate.
    first: u16,
    /// One bit per coordinate; used from the second hit on.
    seen: Vec<u64>,
}

impl PlaneHits {
    /// For coordinates below `numbers`.
    pub fn new(numbers: u32) -> PlaneHits {
        // One more than there are: the neighbour of the last.
        PlaneHits { seen: vec![0; numbers as usize / 64 + 1], ..PlaneHits::default() }
    }

    /// Adds a hit; `place` gives the position of a coordinate.
    #[inline]
    pub fn add(&mut self, coordinate: u16, weight: u16, place: impl Fn(u16) -> (i32, i32)) {
        self.hits = self.hits.saturating_add(1);
        if self.hits == 1 {
            (self.first, self.at, self.best) = (coordinate, coordinate, weight);
            (self.runs, self.chosen) = (1, 1);
            return;
        }
        if self.hits == 2 {
            self.insert(self.first);
        }
        self.runs = self.runs.wrapping_add_signed(self.insert(coordinate));
        if weight > self.best {
            (self.at, self.best, self.chosen) = (coordinate, weight, 1);
        } else if weight == self.best {
            let (a, b) = place(coordinate);
            if self.chosen == 1 {
                let (a, b) = place(self.at);
                self.sums = (a.into(), b.into());
            }
            self.chosen += 1;
            self.sums = (self.sums.0 + i64::from(a), self.sums.1 + i64::from(b));
        }
    }

    /// Marks a coordinate; how many runs there are more.
    #[inline]
    fn insert(&mut self, coordinate: u16) -> i32 {
        let bit = |seen: &[u64], c: usize| seen.get(c / 64).map_or(0, |w| w >> (c % 64) & 1) as i32;
        let c = usize::from(coordinate);
        if c / 64 >= self.seen.len() || bit(&self.seen, c) == 1 {
            return 0;
        }
        self.seen[c / 64] |= 1 << (c % 64);
        let before = if c == 0 { 0 } else { bit(&self.seen, c - 1) };
        1 - before - bit(&self.seen, c + 1)
    }

    /// Forgets the hits.
    #[inline]
    pub fn clear(&mut self) {
        if self.hits > 1 {
            self.seen.fill(0);
        }
        (self.hits, self.runs, self.chosen) = (0, 0, 0);
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
                plane.clear();
                hits.iter().for_each(|&(c, w)| plane.add(c, w, place));
                let mut sorted: Vec<u16> = hits.iter().map(|h| h.0).collect();
                sorted.sort_unstable();
                let best = hits.iter().map(|h| h.1).max().unwrap();
                let chosen: Vec<u16> = hits.iter().filter(|h| h.1 == best).map(|h| h.0).collect();
                prop_assert_eq!(plane.hits as usize, hits.len());
                prop_assert_eq!(plane.runs as usize, runs(sorted, 1));
                prop_assert_eq!((plane.best, plane.chosen as usize), (best, chosen.len()));
                prop_assert_eq!(plane.at, chosen[0]);
                if chosen.len() > 1 {
                    let sums = chosen.iter().map(|&c| place(c)).fold((0, 0), |s, p| {
                        (s.0 + i64::from(p.0), s.1 + i64::from(p.1))
                    });
                    prop_assert_eq!(plane.sums, sums);
                }
            }
        }
    }
}
