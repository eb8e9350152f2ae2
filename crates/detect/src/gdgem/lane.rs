//! The hits of one plane: waiting, then in order of time, then in runs without a gap.
//!
//! Hits come nearly in order: each goes back to its place at once, which is 3 places on average in the public capture. Where
//! frames of several FECs take turns that is too far; then the hits before the border are put into buckets of time, which
//! leaves next to nothing to sort. Equal times stay in order of arrival. A run ends where the distance to the hit before is
//! above the gap; it is cut at a number of hits and at a span, which physics never reaches. What came in which call does
//! not matter: only the rows do. Refuses nothing. Sources: `docs/formats/gdgem.md` sections 8 and 14.3.

use fullcount_core::products::FineHit;

use super::options::Limits;

/// Steps per hit that sorting by insertion may cost before the general sort takes over.
const STEPS: usize = 16;

/// Places that a hit that comes may go back; more, and the hits are mixed.
const BACK: usize = 64;

/// Places back per hit on average above which buckets are cheaper, and hits that this is averaged over.
const BACK_PER_HIT: usize = 8;
const BACK_HITS: usize = 512;

/// Hits below which buckets are not worth their set-up.
const FEW: usize = 48;

/// Most buckets: 32 Ki counts of 4 bytes stay in the second-level cache.
const MOST_BUCKETS: usize = 1 << 15;

/// Forgotten hits in front of the others that are worth a move.
const FORGOTTEN: usize = 4096;

/// Memory that all lanes of a builder sort with.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    early: Vec<FineHit>,
    ends: Vec<u32>,
}

/// Runs that were cut.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Cuts {
    pub hits: u64,
    pub span: u64,
}

/// Hits of a plane of a detector.
#[derive(Debug, Default)]
pub(super) struct LaneHits {
    /// Forgotten ones, then the run that has not ended, then those behind the border.
    hits: Vec<FineHit>,
    /// Where the run begins that has not ended yet.
    start: usize,
    /// Where the hits begin that have not been compared with the one before.
    walked: usize,
    /// Where the hits begin that are at or after the border.
    ready: usize,
    /// True if these are not in order of time.
    mixed: bool,
    /// Places that hits have gone back since the last border.
    steps: usize,
}

/// Sorts by time, equal times in their order; what is nearly sorted, in place and in one pass.
fn sort_nearly(hits: &mut [FineHit]) {
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
            None => return hits.sort_by_key(|hit| hit.time),
        }
    }
}

impl LaneHits {
    /// A hit at or after the last border.
    #[inline]
    pub fn push(&mut self, hit: FineHit) {
        let n = self.hits.len();
        self.hits.push(hit);
        if n > self.ready && self.hits[n - 1].time > hit.time && !self.mixed {
            self.back(n, hit);
        }
    }

    /// Takes the hit at `n` back to its place. Hits of equal time keep their order even if that is too far.
    #[inline]
    fn back(&mut self, n: usize, hit: FineHit) {
        let floor = self.ready.max(n.saturating_sub(BACK));
        let hits = &mut self.hits[floor..=n];
        let mut at = n - floor;
        while at > 0 && hits[at - 1].time > hit.time {
            hits[at] = hits[at - 1];
            at -= 1;
        }
        hits[at] = hit;
        self.steps += n - floor - at;
        let too_far = at == 0 && floor > self.ready && self.hits[floor - 1].time > hit.time;
        let fresh = n + BACK_HITS - self.ready;
        self.mixed = too_far || self.steps > BACK_PER_HIT * fresh;
    }

    /// Puts the hits before `border` (a key; `before`: the border of the last call) in order.
    pub fn release(&mut self, before: i64, border: i64, scratch: &mut Scratch) {
        self.steps = 0;
        if self.mixed {
            self.sort(before, border, scratch);
            self.mixed = !self.hits[self.ready..].is_sorted_by_key(|hit| hit.time);
        } else {
            self.ready += self.hits[self.ready..].partition_point(|hit| hit.time < border);
        }
    }

    /// The same for hits that are not in order.
    fn sort(&mut self, before: i64, border: i64, scratch: &mut Scratch) {
        let Scratch { early, ends } = scratch;
        early.clear();
        let fresh = &mut self.hits[self.ready..];
        let (mut least, mut most, mut kept) = (i64::MAX, i64::MIN, fresh.len());
        // From the back, so that what stays keeps its order at the end.
        for i in (0..fresh.len()).rev() {
            let hit = fresh[i];
            if hit.time < border {
                least = least.min(hit.time);
                most = most.max(hit.time);
                early.push(hit);
            } else {
                kept -= 1;
                fresh[kept] = hit;
            }
        }
        let sorted = &mut fresh[..kept];
        self.ready += kept;
        if kept <= FEW {
            sorted.iter_mut().zip(early.iter().rev()).for_each(|(cell, hit)| *cell = *hit);
            return sort_nearly(sorted);
        }
        // Keys of doubles of one magnitude are as far apart as the times are, and keys always sort as times do.
        let low = least.max(before);
        let width = most.abs_diff(low);
        let buckets = kept.next_power_of_two().min(MOST_BUCKETS);
        let shift = (64 - width.leading_zeros()).saturating_sub(buckets.trailing_zeros());
        let bucket =
            |hit: &FineHit| (hit.time.wrapping_sub(low) as u64 >> shift) as usize & (buckets - 1);
        ends.clear();
        ends.resize(buckets, 0);
        early.iter().for_each(|hit| ends[bucket(hit)] += 1);
        let mut sum = 0;
        for end in ends.iter_mut() {
            sum += std::mem::replace(end, sum);
        }
        for hit in early.iter().rev() {
            let at = &mut ends[bucket(hit)];
            sorted[*at as usize] = *hit;
            *at += 1;
        }
        sort_nearly(sorted);
    }

    /// Calls `run` with each run that has ended: `border` is the time, ns, before which no hit can come; `f64::INFINITY`
    /// ends all.
    pub fn runs(
        &mut self,
        gap: f64,
        limits: &Limits,
        border: f64,
        mut run: impl FnMut(&mut [FineHit]),
    ) -> Cuts {
        let mut cuts = Cuts::default();
        if self.start == self.ready {
            return cuts;
        }
        let hits = &mut self.hits[..self.ready];
        let (mut start, mut first) = (self.start, hits[self.start].ns());
        let from = self.walked.max(start + 1);
        let mut before = hits[from - 1].ns();
        for i in from..hits.len() {
            let now = hits[i].ns();
            let ends = now - before > gap;
            let many = i - start >= limits.run_hits;
            let long = now - first > limits.run_span;
            if ends | many | long {
                cuts.hits += u64::from(!ends & many);
                cuts.span += u64::from(!ends & !many);
                run(&mut hits[start..i]);
                (start, first) = (i, now);
            }
            before = now;
        }
        if border - before > gap {
            run(&mut hits[start..]);
            start = self.ready;
        }
        self.start = start;
        self.walked = self.ready;
        self.forget();
        cuts
    }

    /// Gives up the memory of what has been worked on.
    fn forget(&mut self) {
        let gone = self.start;
        let all = gone == self.hits.len();
        if all || (gone >= FORGOTTEN && gone > self.hits.len() / 2) {
            self.hits.drain(..gone);
            self.start = 0;
            self.walked -= gone;
            self.ready -= gone;
        }
    }

    /// First time of the run that has not ended, ns.
    pub fn open_since(&self) -> Option<f64> {
        self.hits[self.start..self.ready].first().map(FineHit::ns)
    }

    /// Hits that wait.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.hits.len() - self.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: Limits = Limits { waiting: 1000, run_hits: 1000, run_span: 1e12 };

    fn hit(n: usize, ns: i32) -> FineHit {
        FineHit { time: FineHit::key(f64::from(ns)), weight: n as u16, ..FineHit::default() }
    }

    fn rows(run: &[FineHit]) -> Vec<(i64, u16)> {
        run.iter().map(|h| (h.ns() as i64, h.weight)).collect()
    }

    #[test]
    fn runs_end_at_the_gap_and_are_cut_at_the_limits() {
        let mut lane = LaneHits::default();
        let times = [0, 10, 20, 31, 40, 50, 60];
        times.iter().enumerate().for_each(|(n, &ns)| lane.push(hit(n, ns)));
        lane.release(i64::MIN, i64::MAX, &mut Scratch::default());
        let limits = Limits { run_hits: 3, run_span: 15.0, ..LIMITS };
        let mut seen = Vec::new();
        let cuts = lane.runs(10.0, &limits, f64::INFINITY, |run| seen.push(run.len()));
        assert_eq!(seen, [2, 1, 2, 2]);
        assert_eq!(cuts, Cuts { hits: 0, span: 2 });
        assert_eq!(lane.len(), 0);
    }

    proptest! {
        /// Borders at any places give the runs of one sort over everything.
        #[test]
        fn borders_do_not_change_the_runs(
            mut times in proptest::collection::vec(0i32..2000, 0..400), jitter in 0i32..2500,
            mut borders in proptest::collection::vec(0i32..2000, 0..6),
            gap in 0i32..20, stretch in 1i32..50,
        ) {
            // From nearly in order to not at all: all ways of sorting are met.
            times.sort_by_key(|ns| ns + ns * 7919 % (jitter + 1));
            let mut sorted: Vec<FineHit> =
                times.iter().enumerate().map(|(n, &ns)| hit(n, ns / stretch)).collect();
            let arrived = sorted.clone();
            sorted.sort_by_key(|h| h.time);
            let near = |a: &FineHit, b: &FineHit| b.ns() - a.ns() <= f64::from(gap);
            let wanted: Vec<_> = sorted.chunk_by(near).map(rows).collect();

            borders.sort_unstable();
            let (mut lane, mut scratch, mut seen) = (LaneHits::default(), Scratch::default(), Vec::new());
            let mut before = i64::MIN;
            let mut left = arrived.iter().peekable();
            for border in borders.iter().map(|&b| f64::from(b / stretch)) {
                let key = FineHit::key(border);
                // What comes before a border is told: all of it, and some of the rest.
                let last = arrived.iter().rposition(|h| h.time < key).map_or(0, |at| at + 1);
                while arrived.len() - left.len() < last {
                    lane.push(*left.next().unwrap());
                }
                lane.release(before, key, &mut scratch);
                before = key;
                lane.runs(f64::from(gap), &LIMITS, border, |run| seen.push(rows(run)));
            }
            left.for_each(|&h| lane.push(h));
            lane.release(before, i64::MAX, &mut scratch);
            lane.runs(f64::from(gap), &LIMITS, f64::INFINITY, |run| seen.push(rows(run)));
            prop_assert_eq!(lane.len(), 0);
            prop_assert_eq!(seen, wanted);
        }

        /// A hostile spread of times does not cost n².
        #[test]
        fn any_times_sort(times in proptest::collection::vec(any::<i32>(), 0..300)) {
            let mut lane = LaneHits::default();
            times.iter().enumerate().for_each(|(n, &ns)| lane.push(hit(n, ns)));
            lane.release(i64::MIN, i64::MAX, &mut Scratch::default());
            prop_assert!(lane.hits.is_sorted_by_key(|h| h.time) && lane.ready == lane.hits.len());
            prop_assert_eq!(lane.len(), times.len());
        }
    }
}
