//! Detector clusters as vmm-sdat makes them: for each cluster of plane 0 the nearest in time of the other planes.
//!
//! Clusters wait until no cluster can come any more that would be nearer, so that the pairs are those of one pass over
//! the whole run. Refuses pairs whose times, charges or sizes do not fit. Source: `docs/formats/gdgem.md` section 14.5.

use super::options::{Parameters, Position};
use super::plane::{Centre, PlaneCluster};

/// A centre of mass can lie outside its cluster by the rounding of its sums: 65536 hits after 30 hours, 0.8 µs.
pub(super) const ROUNDING_NS: f64 = 1000.0;

/// Clusters that one search for a partner looks at.
const SEARCH: usize = 4096;

/// Pairs that one cluster can have with `hm = 1`: events of clusters that waited together are at most so many times more. Physics has a few.
pub(super) const PAIRS: usize = 64;

/// Steps per cluster that sorting by insertion may cost before the general sort takes over.
const STEPS: usize = 16;

/// A cluster that waits: a cache line, as searches go from one to the next.
#[derive(Debug, Clone, Copy)]
struct Row {
    time: f64,
    centre: Centre,
    /// Its place in `all`; `NONE` if nobody looks at more than the centre.
    at: u32,
    used: bool,
}

/// No place.
const NONE: u32 = u32::MAX;

/// Clusters of one plane by their time for matching.
#[derive(Debug, Default)]
struct Queue {
    /// Those of which all values are wanted.
    all: Vec<PlaneCluster>,
    /// Memory for what stays.
    kept: Vec<PlaneCluster>,
    /// The first `sorted` are in order of time.
    order: Vec<Row>,
    sorted: usize,
    /// Where the search begins.
    start: usize,
    /// Clusters closed so far.
    closed: u64,
}

/// A cluster that has found its partners.
#[derive(Debug, Clone, Copy)]
pub(super) struct Partner<'a> {
    pub centre: &'a Centre,
    /// Time for matching, ns.
    pub coin: f64,
    all: Option<&'a PlaneCluster>,
}

impl Partner<'_> {
    /// With all values that are known of it.
    pub fn cluster(&self) -> PlaneCluster {
        self.all.map_or_else(|| PlaneCluster::from(self.centre), |all| *all)
    }

    /// Place and time for the event.
    #[inline]
    pub fn at(&self, position: Position) -> (f64, f64) {
        match self.all {
            None => (self.centre.pos, self.centre.time.min(self.centre.last)),
            Some(all) => all.at(position),
        }
    }
}

impl Queue {
    fn push(&mut self, mut cluster: PlaneCluster, time: f64) {
        cluster.number = self.closed + 1;
        self.push_row(cluster.centre(), self.all.len() as u32, time);
        self.all.push(cluster);
    }

    #[inline]
    fn push_row(&mut self, centre: Centre, at: u32, time: f64) {
        self.closed += 1;
        self.order.push(Row { time, centre, at, used: false });
    }

    /// Stable: equal times stay in the order of being closed. Clusters of later runs are later, so next to nothing moves.
    fn sort(&mut self) {
        let mut steps = STEPS * (self.order.len() - self.sorted);
        for i in self.sorted.max(1)..self.order.len() {
            let row = self.order[i];
            let mut at = i;
            while at > 0 && self.order[at - 1].time.total_cmp(&row.time).is_gt() {
                self.order[at] = self.order[at - 1];
                at -= 1;
            }
            self.order[at] = row;
            match steps.checked_sub(i - at) {
                Some(left) => steps = left,
                None => {
                    self.order.sort_by(|a, b| a.time.total_cmp(&b.time));
                    break;
                }
            }
        }
        self.sorted = self.order.len();
    }

    #[inline]
    fn at(&self, place: usize) -> Partner<'_> {
        let row = &self.order[place];
        Partner { centre: &row.centre, coin: row.time, all: self.all.get(row.at as usize) }
    }

    #[inline]
    fn take(&mut self, place: usize) {
        let row = &mut self.order[place];
        row.used = true;
        if let Some(all) = self.all.get_mut(row.at as usize) {
            all.used = true;
        }
    }

    /// Forgets the first `n`.
    fn forget(&mut self, n: usize, to: &mut impl Matched) {
        if n == 0 {
            return;
        }
        let (mut all, mut used) = (0, 0);
        for row in &self.order[..n] {
            let size = u64::from(row.centre.size);
            all += size;
            used += if row.used { size } else { 0 };
        }
        to.gone(used, all - used);
        if n == self.order.len() {
            self.order.clear();
            self.all.clear();
        } else {
            self.order.drain(..n);
            if !self.all.is_empty() {
                self.keep();
            }
        }
        self.sorted = self.order.len();
        self.start = self.start.saturating_sub(n);
    }

    /// Forgets all values of those that are no longer in order.
    fn keep(&mut self) {
        self.kept.clear();
        for row in self.order.iter_mut().filter(|row| row.at != NONE) {
            let at = self.kept.len() as u32;
            self.kept.push(self.all[row.at as usize]);
            row.at = at;
        }
        std::mem::swap(&mut self.all, &mut self.kept);
    }
}

/// What happens to clusters.
pub(super) trait Matched {
    /// A detector cluster; planes that the detector does not have are `None`. `best`: no other candidate of the first is
    /// nearer.
    fn matched(&mut self, planes: [Option<Partner<'_>>; 3], best: bool);
    /// Hits of clusters that will not be looked at again: of those with a partner, and without.
    fn gone(&mut self, used: u64, unmatched: u64);
    /// A search that ended early.
    fn cut(&mut self);
    /// Pairs of one cluster beyond [`PAIRS`].
    fn left_out(&mut self, pairs: u64);
}

/// Clusters of one detector.
#[derive(Debug)]
pub(super) struct Partners {
    parameters: Parameters,
    queues: Vec<Queue>,
}

impl Partners {
    /// `planes`: 1 to 3.
    pub fn new(parameters: Parameters, planes: usize) -> Partners {
        Partners { parameters, queues: (0..planes).map(|_| Queue::default()).collect() }
    }

    /// A cluster of the plane at `place`.
    #[inline]
    pub fn push(&mut self, place: usize, cluster: PlaneCluster) {
        let time = cluster.coin(self.parameters.coin);
        self.queues[place].push(cluster, time);
    }

    /// The same for one of which nobody looks at more; its time for matching is the centre of mass.
    #[inline]
    pub fn push_centre(&mut self, place: usize, centre: Centre) {
        self.queues[place].push_row(centre, NONE, centre.time);
    }

    /// Matches what can be matched: `known[place]` is the time up to which all clusters of a plane have come, ns. Returns the
    /// time for matching, ns, before which no cluster of plane 0 waits or can come.
    pub fn release(&mut self, known: &[f64; 3], to: &mut impl Matched) -> f64 {
        let p = self.parameters;
        self.queues.iter_mut().for_each(Queue::sort);
        let (first, others) = self.queues.split_at_mut(1);
        let first = &mut first[0];
        let all = others.iter().enumerate().map(|(i, _)| known[i + 1] - p.plane_gap);
        let ready = all.fold(known[0], f64::min);
        let n = first.order.partition_point(|row| row.time < ready);
        for i in 0..n {
            match others {
                [] => {
                    first.take(i);
                    to.matched([Some(first.at(i)), None, None], true);
                }
                [second] if p.multiplicity => pairs(&p, first, i, second, to),
                [second] => {
                    if let Some(j) = nearest(&p, first, i, second, 0, to) {
                        first.take(i);
                        second.take(j);
                        to.matched([Some(first.at(i)), Some(second.at(j)), None], true);
                    }
                }
                [second, third, ..] => {
                    let Some(j) = nearest(&p, first, i, second, 0, to) else { continue };
                    let size = second.order[j].centre.size;
                    let Some(k) = nearest(&p, first, i, third, size, to) else { continue };
                    first.take(i);
                    second.take(j);
                    third.take(k);
                    to.matched([Some(first.at(i)), Some(second.at(j)), Some(third.at(k))], true);
                }
            }
        }
        // What comes in plane 0 from now on is at or behind this.
        let next = first.order.get(n).map_or(known[0], |row| row.time.min(known[0]));
        first.forget(n, to);
        for queue in others {
            let old = queue.order.partition_point(|row| row.time - next < -p.plane_gap);
            queue.forget(old, to);
        }
        ready
    }

    /// Times for matching of the clusters that wait, ns.
    pub fn times(&self) -> impl Iterator<Item = f64> {
        self.queues.iter().flat_map(|queue| &queue.order).map(|row| row.time)
    }

    /// Largest number of clusters that wait in a plane, for tests.
    #[cfg(test)]
    pub fn waiting(&self) -> usize {
        self.queues.iter().map(|q| q.order.len()).max().unwrap_or(0)
    }
}

/// True if charges and sizes fit.
#[inline]
fn fits(p: &Parameters, a: &Row, b: &Row, more: u32) -> bool {
    let ratio = a.centre.adc as f64 / b.centre.adc as f64;
    let size = f64::from(a.centre.size) + f64::from(b.centre.size) + f64::from(more);
    p.ratio.0 <= ratio && ratio <= p.ratio.1 && size >= p.coincident_size
}

/// The unused cluster nearest to cluster `i`.
#[inline]
fn nearest(
    p: &Parameters,
    first: &Queue,
    i: usize,
    queue: &mut Queue,
    more: u32,
    to: &mut impl Matched,
) -> Option<usize> {
    let row = first.order[i];
    let before = |other: &Row| other.time - row.time < -p.plane_gap || other.used;
    while queue.order.get(queue.start).is_some_and(before) {
        queue.start += 1;
    }
    let (mut best, mut least) = (None, f64::INFINITY);
    for (j, other) in queue.order.iter().enumerate().skip(queue.start) {
        let delta = other.time - row.time;
        if delta > p.plane_gap {
            break;
        }
        if j - queue.start >= SEARCH {
            to.cut();
            break;
        }
        if !other.used && delta.abs() < least && fits(p, &row, other, more) {
            (best, least) = (Some(j), delta.abs());
        } else if delta >= least {
            break;
        }
    }
    best
}

/// High multiplicity: every pair that fits, up to [`PAIRS`] in order of time.
fn pairs(p: &Parameters, first: &mut Queue, i: usize, second: &mut Queue, to: &mut impl Matched) {
    let row = first.order[i];
    let before = |other: &Row| other.time - row.time < -p.plane_gap;
    while second.order.get(second.start).is_some_and(before) {
        second.start += 1;
    }
    let start = second.start;
    let (mut best, mut least) = (None, f64::INFINITY);
    let mut end = start;
    while end < second.order.len() && second.order[end].time - row.time <= p.plane_gap {
        if end - start >= SEARCH {
            to.cut();
            break;
        }
        let other = &second.order[end];
        let delta = (other.time - row.time).abs();
        if !other.used && delta < least && fits(p, &row, other, 0) {
            (best, least) = (Some(end), delta);
        }
        end += 1;
    }
    // One place is the best one's, so that it is never among those left out.
    let (mut room, mut left_out) = (PAIRS - usize::from(best.is_some()), 0);
    for j in start..end {
        if !fits(p, &row, &second.order[j], 0) {
            continue;
        }
        if best == Some(j) {
            second.take(j);
        } else if room > 0 {
            room -= 1;
        } else {
            left_out += 1;
            continue;
        }
        first.take(i);
        to.matched([Some(first.at(i)), Some(second.at(j)), None], best == Some(j));
    }
    if left_out > 0 {
        to.left_out(left_out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Default)]
    struct Seen {
        pairs: Vec<(u64, u64)>,
        gone: u64,
        left_out: u64,
    }

    impl Matched for Seen {
        fn matched(&mut self, planes: [Option<Partner<'_>>; 3], _: bool) {
            let number = |plane: Option<Partner<'_>>| plane.unwrap().cluster().number;
            self.pairs.push((number(planes[0]), number(planes[1])));
        }
        fn gone(&mut self, used: u64, unmatched: u64) {
            self.gone += used + unmatched;
        }
        fn cut(&mut self) {}
        fn left_out(&mut self, pairs: u64) {
            self.left_out += pairs;
        }
    }

    fn cluster(time: i32, adc: u64) -> PlaneCluster {
        PlaneCluster { size: 1, adc, time: f64::from(time), ..PlaneCluster::default() }
    }

    /// The walk of the format, word for word, over the whole run.
    fn walk(p: &Parameters, a: &[(i32, u64)], b: &[(i32, u64)]) -> Vec<(u64, u64)> {
        let sorted = |rows: &[(i32, u64)]| {
            let mut all: Vec<_> =
                rows.iter().enumerate().map(|(n, r)| (f64::from(r.0), r.1, n as u64 + 1)).collect();
            all.sort_by(|x, y| x.0.total_cmp(&y.0));
            all
        };
        let (a, b) = (sorted(a), sorted(b));
        let (mut start, mut used, mut out) = (0, vec![false; b.len()], Vec::new());
        for c0 in &a {
            let (mut delta, mut begun) = (f64::INFINITY, false);
            let (mut best, mut least) = (None, f64::INFINITY);
            let from = start;
            for j in from..b.len() {
                if used[j] {
                    continue;
                }
                let last = delta;
                delta = b[j].0 - c0.0;
                if delta.abs() <= p.plane_gap && !begun {
                    (start, begun) = (j, true);
                }
                let ratio = c0.1 as f64 / b[j].1 as f64;
                let fits = p.ratio.0 <= ratio && ratio <= p.ratio.1 && 2.0 >= p.coincident_size;
                if fits && delta.abs() <= p.plane_gap && delta.abs() < least {
                    (best, least) = (Some(j), delta.abs());
                }
                if delta.abs() > last.abs() && delta.abs() > p.plane_gap {
                    break;
                }
            }
            if let Some(j) = best {
                used[j] = true;
                out.push((c0.2, b[j].2));
            }
        }
        out
    }

    /// Each cluster of plane 0 has 64 pairs, and the nearest is one of them though it comes last.
    #[test]
    fn high_multiplicity_is_bounded_and_keeps_the_best() {
        let p = Parameters { plane_gap: 200.0, multiplicity: true, ..Parameters::default() };
        let mut partners = Partners::new(p, 2);
        for _ in 0..3 {
            partners.push(0, cluster(1000, 1));
        }
        for n in 0..100 {
            partners.push(1, cluster(800 + 2 * n, 1));
        }
        let mut seen = Seen::default();
        partners.release(&[f64::INFINITY; 3], &mut seen);
        for first in 1..=3 {
            let mine: Vec<_> = seen.pairs.iter().filter(|p| p.0 == first).map(|p| p.1).collect();
            // The best of each is the last one that none before has taken.
            let best = 101 - first;
            let wanted: Vec<u64> = (1..=63).chain([best]).collect();
            assert_eq!(mine, wanted);
        }
        assert_eq!(seen.left_out, 3 * 36);
    }

    proptest! {
        /// Released at any borders, the pairs are those of the published walk over everything.
        #[test]
        fn pairs_are_those_of_the_whole_run(
            a in proptest::collection::vec((0i32..300, 1u64..5), 0..40),
            b in proptest::collection::vec((0i32..300, 1u64..5), 0..40),
            mut borders in proptest::collection::vec((0i32..300, 0i32..300), 0..6),
            gap in 0i32..40,
        ) {
            let p = Parameters { plane_gap: f64::from(gap), ..Parameters::default() };
            let wanted = walk(&p, &a, &b);
            // Clusters close in the order of their numbers; a border lets all up to it come before.
            let mut partners = Partners::new(p, 2);
            let mut seen = Seen::default();
            borders.sort_unstable();
            let (mut x, mut y) = (a.clone(), b.clone());
            x.sort_by_key(|r| r.0);
            y.sort_by_key(|r| r.0);
            let wanted_sorted = walk(&p, &x, &y);
            prop_assert_eq!(wanted.len(), wanted_sorted.len());
            let (mut i, mut j) = (0, 0);
            let mut high = (0, 0);
            for border in borders {
                high = (high.0.max(border.0), high.1.max(border.1));
                while i < x.len() && x[i].0 < high.0 {
                    partners.push(0, cluster(x[i].0, x[i].1));
                    i += 1;
                }
                while j < y.len() && y[j].0 < high.1 {
                    partners.push(1, cluster(y[j].0, y[j].1));
                    j += 1;
                }
                partners.release(&[f64::from(high.0), f64::from(high.1), 0.0], &mut seen);
            }
            x[i..].iter().for_each(|r| partners.push(0, cluster(r.0, r.1)));
            y[j..].iter().for_each(|r| partners.push(1, cluster(r.0, r.1)));
            partners.release(&[f64::INFINITY; 3], &mut seen);
            prop_assert_eq!(seen.pairs, wanted_sorted);
            prop_assert_eq!(seen.gone as usize, a.len() + b.len());
            prop_assert_eq!(partners.waiting(), 0);
        }
    }
}
