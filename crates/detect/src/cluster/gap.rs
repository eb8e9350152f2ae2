//! Clusters of one plane: neighbours in time, then neighbours in coordinate.
//!
//! A hit belongs to the one before it in time if the distance is at most the time gap (not to the first one: a
//! limit on the whole length is an option of its own); within such a run, sorted by coordinate, the step to
//! the largest coordinate so far decides. The work is n log n for any input. Sources:
//! the sections on clustering of `docs/formats/*.md`.

use crate::hits::PlaneHit;

use super::plane::PlaneSum;

/// Steps per hit that sorting by insertion may cost before the general sort takes over: readouts come nearly
/// sorted (1.1 inversions each in the recordings), a hostile order must not cost n².
const STEPS: usize = 8;

/// Sorts by time; what is nearly sorted, in place and in one pass.
#[inline]
pub fn sort_by_time(hits: &mut [PlaneHit]) {
    let mut steps = STEPS * hits.len();
    for i in 1..hits.len() {
        let hit = hits[i];
        if hits[i - 1].time <= hit.time {
            continue;
        }
        let mut at = i;
        while at > 0 && hits[at - 1].time > hit.time {
            hits[at] = hits[at - 1];
            at -= 1;
        }
        hits[at] = hit;
        match steps.checked_sub(i - at) {
            Some(left) => steps = left,
            None => return hits.sort_unstable_by_key(|hit| hit.time),
        }
    }
}

/// When a cluster of one plane ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gaps {
    /// Largest distance to the hit before, ticks.
    pub time: i64,
    /// Largest length from the first hit to the last, ticks; `None`: any.
    pub length: Option<i64>,
    /// Largest step between neighbouring coordinates: 1 joins neighbours, 0 only equal ones.
    pub coordinate: u16,
}

impl Gaps {
    /// Calls `cluster` with the sums of each cluster of `hits`, which are one plane's in any order. They are
    /// left sorted by time run and coordinate.
    pub fn clusters(&self, hits: &mut [PlaneHit], mut cluster: impl FnMut(PlaneSum)) {
        sort_by_time(hits);
        let mut start = 0;
        for i in 1..=hits.len() {
            let ends = i == hits.len()
                || hits[i].time.saturating_sub(hits[i - 1].time) > self.time
                || self
                    .length
                    .is_some_and(|most| hits[i].time.saturating_sub(hits[start].time) > most);
            if ends {
                self.by_coordinate(&mut hits[start..i], &mut cluster);
                start = i;
            }
        }
    }

    fn by_coordinate(&self, run: &mut [PlaneHit], cluster: &mut impl FnMut(PlaneSum)) {
        run.sort_unstable_by_key(|hit| hit.coordinate);
        let far = |a: &PlaneHit, b: &PlaneHit| b.coordinate - a.coordinate <= self.coordinate;
        run.chunk_by(far).for_each(|hits| cluster(PlaneSum::of(hits)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hits(rows: &[(i64, u16)]) -> Vec<PlaneHit> {
        let hit =
            |&(time, coordinate)| PlaneHit { time, coordinate, weight: 1, ..Default::default() };
        rows.iter().map(hit).collect()
    }

    fn seen(gaps: Gaps, rows: &[(i64, u16)]) -> Vec<(i64, i64, u16, u16, u32)> {
        let mut out = Vec::new();
        gaps.clusters(&mut hits(rows), |s| {
            out.push((s.first, s.last, s.lowest, s.highest, s.hits))
        });
        out.sort_unstable();
        out
    }

    #[test]
    fn the_gap_counts_from_the_hit_before_and_the_length_from_the_first() {
        let gaps = Gaps { time: 10, length: None, coordinate: 1 };
        assert_eq!(seen(gaps, &[(20, 5), (0, 5), (10, 5)]), [(0, 20, 5, 5, 3)]);
        let limited = Gaps { length: Some(15), ..gaps };
        assert_eq!(
            seen(limited, &[(20, 5), (0, 5), (10, 5)]),
            [(0, 10, 5, 5, 2), (20, 20, 5, 5, 1)]
        );
        assert_eq!(seen(gaps, &[]), []);
    }

    #[test]
    fn a_coordinate_gap_of_0_joins_the_same_channel_only() {
        let gaps = Gaps { time: 0, length: None, coordinate: 0 };
        assert_eq!(seen(gaps, &[(0, 5), (0, 6), (0, 5)]), [(0, 0, 5, 5, 2), (0, 0, 6, 6, 1)]);
    }

    /// Two hits are of one run if a chain of steps leads from one to the other: all pairs, again and again.
    fn naive(gaps: Gaps, rows: &[(i64, u16)]) -> Vec<(i64, i64, u16, u16, u32)> {
        let join = |near: &dyn Fn(usize, usize) -> bool| {
            let mut group: Vec<usize> = (0..rows.len()).collect();
            loop {
                let before = group.clone();
                for a in 0..rows.len() {
                    for b in 0..rows.len() {
                        if near(a, b) {
                            group[a] = group[a].min(group[b]);
                        }
                    }
                }
                if group == before {
                    return group;
                }
            }
        };
        let runs = join(&|a, b| rows[a].0.abs_diff(rows[b].0) <= gaps.time as u64);
        let groups =
            join(&|a, b| runs[a] == runs[b] && rows[a].1.abs_diff(rows[b].1) <= gaps.coordinate);
        let mut out = Vec::new();
        for g in 0..rows.len() {
            let of: Vec<_> = (0..rows.len()).filter(|&i| groups[i] == g).map(|i| rows[i]).collect();
            let times = || of.iter().map(|r| r.0);
            let places = || of.iter().map(|r| r.1);
            if let (Some(a), Some(b), Some(c), Some(d)) =
                (times().min(), times().max(), places().min(), places().max())
            {
                out.push((a, b, c, d, of.len() as u32));
            }
        }
        out.sort_unstable();
        out
    }

    proptest! {
        #[test]
        fn clusters_are_those_of_all_pairs(
            rows in proptest::collection::vec((-50i64..50, 0u16..20), 0..60), time in 0i64..6, coordinate in 0u16..4,
        ) {
            let gaps = Gaps { time, length: None, coordinate };
            prop_assert_eq!(seen(gaps, &rows), naive(gaps, &rows));
        }

        #[test]
        fn sorting_is_sorting(rows in proptest::collection::vec((any::<i64>(), any::<u16>()), 0..80)) {
            let mut sorted = hits(&rows);
            sort_by_time(&mut sorted);
            prop_assert!(sorted.is_sorted_by_key(|h| h.time));
            let mut a: Vec<_> = sorted.iter().map(|h| (h.time, h.coordinate)).collect();
            let mut b = rows;
            a.sort_unstable();
            b.sort_unstable();
            prop_assert_eq!(a, b);
        }
    }
}
