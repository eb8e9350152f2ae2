//! Clusters of several planes that belong to one event: their time intervals lie close together.
//!
//! Sorted by their earliest hit (at equal times in order of planes), a cluster joins the event under way if
//! the gap between the two intervals is at most the matching gap; intervals that overlap have the gap 0. An
//! event may get several clusters per plane. Sources: the sections
//! on clustering of `docs/formats/*.md`.

use fullcount_core::trace;

use super::plane::PlaneSum;

/// A cluster and the plane that it lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cluster {
    /// Plane.
    pub plane: u8,
    /// Its hits; not empty.
    pub sum: PlaneSum,
}

/// Sorts `clusters` and calls `event` with those of each event, in order of time.
pub fn by_time(clusters: &mut [Cluster], gap: i64, mut event: impl FnMut(&[Cluster])) {
    trace!(Cluster, Debug, "{} clusters are matched", clusters.len());
    clusters.sort_unstable_by_key(|c| (c.sum.first, c.plane, c.sum.last));
    let (mut start, mut last) = (0, i64::MIN);
    for i in 0..clusters.len() {
        let next = &clusters[i].sum;
        if i > start && next.first.saturating_sub(last) > gap {
            event(&clusters[start..i]);
            (start, last) = (i, i64::MIN);
        }
        last = last.max(next.last);
    }
    if start < clusters.len() {
        event(&clusters[start..]);
    }
}

/// Sums of all clusters of `plane` in an event.
pub fn plane(event: &[Cluster], plane: u8) -> PlaneSum {
    let mine = event.iter().filter(|c| c.plane == plane);
    mine.fold(PlaneSum::EMPTY, |sum, c| sum.with(&c.sum))
}

/// Two particles at once: an event with exactly two clusters in each of planes 0 and 1 becomes two pairs.
///
/// Both planes see the same charge, so the larger of the one belongs to the larger of the other (sum of
/// weights; at equal sums the lower coordinate comes first). `None` for any other number of clusters.
pub fn by_amplitude(event: &[Cluster]) -> Option<[[PlaneSum; 2]; 2]> {
    let two = |plane: u8| {
        let mut mine = event.iter().filter(|c| c.plane == plane).map(|c| c.sum);
        let (a, b) = (mine.next()?, mine.next()?);
        let order = |s: &PlaneSum| (std::cmp::Reverse(s.weight), s.lowest, s.first);
        let sorted = if order(&b) < order(&a) { [b, a] } else { [a, b] };
        mine.next().is_none().then_some(sorted)
    };
    let ([a, b], [c, d]) = (two(0)?, two(1)?);
    Some([[a, c], [b, d]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cluster(plane: u8, first: i64, last: i64) -> Cluster {
        Cluster { plane, sum: PlaneSum { hits: 1, first, last, ..PlaneSum::EMPTY } }
    }

    fn events(rows: &[(u8, i64, i64)], gap: i64) -> Vec<Vec<(u8, i64, i64)>> {
        let mut clusters: Vec<_> = rows.iter().map(|&(p, a, b)| cluster(p, a, b)).collect();
        let mut out = Vec::new();
        by_time(&mut clusters, gap, |event| {
            out.push(event.iter().map(|c| (c.plane, c.sum.first, c.sum.last)).collect());
        });
        out
    }

    #[test]
    fn the_gap_is_between_intervals_and_a_long_cluster_reaches_far() {
        let rows = [(0, 0, 100), (1, 5, 6), (0, 110, 111), (1, 122, 122)];
        assert_eq!(events(&rows, 10), [rows[..3].to_vec(), rows[3..].to_vec()]);
        assert_eq!(events(&rows, 11).len(), 1);
        assert!(events(&[], 1).is_empty());
    }

    #[test]
    fn two_at_once_are_paired_by_amplitude() {
        let of = |plane, lowest, weight| Cluster {
            plane,
            sum: PlaneSum { hits: 1, lowest, highest: lowest, weight, ..PlaneSum::EMPTY },
        };
        let event = [of(0, 3, 100), of(0, 9, 900), of(1, 20, 850), of(1, 4, 90)];
        let pairs = by_amplitude(&event).unwrap();
        assert_eq!(pairs.map(|p| p.map(|s| s.lowest)), [[9, 20], [3, 4]]);
        assert!(by_amplitude(&event[..3]).is_none());
        let equal = [of(0, 9, 5), of(0, 3, 5), of(1, 7, 5), of(1, 8, 5)];
        assert_eq!(by_amplitude(&equal).unwrap().map(|p| p.map(|s| s.lowest)), [[3, 7], [9, 8]]);
        let three = [of(0, 9, 5), of(0, 3, 5), of(0, 4, 5), of(1, 7, 5), of(1, 8, 5)];
        assert!(by_amplitude(&three).is_none());
    }

    proptest! {
        /// No two events are nearer than the gap, and within one no cut is possible.
        #[test]
        fn events_are_separated_by_more_than_the_gap(
            rows in proptest::collection::vec((0u8..2, 0i64..200, 0i64..20), 0..30), gap in 0i64..15,
        ) {
            let rows: Vec<_> = rows.into_iter().map(|(p, a, n)| (p, a, a + n)).collect();
            let events = events(&rows, gap);
            let mut all: Vec<_> = events.concat();
            let mut given = rows;
            all.sort_unstable();
            given.sort_unstable();
            prop_assert_eq!(all, given);
            for pair in events.windows(2) {
                let end = pair[0].iter().map(|c| c.2).max().unwrap();
                prop_assert!(pair[1].iter().all(|c| c.1 - end > gap));
            }
            for event in &events {
                for at in 1..event.len() {
                    let end = event[..at].iter().map(|c| c.2).max().unwrap();
                    prop_assert!(event[at].1 - end <= gap);
                }
            }
        }
    }
}
