//! The hits of one plane: waiting, then in runs without a gap.
//!
//! Clustering needs to know where hits are further apart than the gap, and no more of their order: hits before the border are
//! counted into buckets of time that are narrower than the gap, so hits of a bucket are of one run, and a run ends where the
//! first of a bucket lies further behind the latest hit than the gap. That is two passes without a branch on the data; an exact
//! order costs more than all the rest of clustering, as hits of the public capture go back 3 places on average. Where a
//! bucket cannot be so narrow (no gap, few hits) they are put in order. A run is cut at a number of hits and at a span, which
//! physics never reaches: then its order counts and is made. What came in which call does not matter: only the rows do. Refuses
//! nothing. Sources: `docs/formats/gdgem.md` sections 8 and 14.3.

use fullcount_core::products::FineHit;

use super::options::Limits;

/// Steps per hit that sorting by insertion may cost before the general sort takes over.
const STEPS: usize = 16;

/// Hits below which buckets are not worth their set-up.
const FEW: usize = 48;

/// Most buckets: 64 Ki counts of 4 bytes are a quarter of the second-level cache.
const MOST_BUCKETS: u64 = 1 << 16;

/// Most buckets per hit: where hits are rarer, putting them in order is cheaper.
const BUCKETS_PER_HIT: u64 = 4;

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

/// Buckets of equal width in keys, from `least` on.
#[derive(Debug, Clone, Copy, Default)]
struct Buckets {
    least: i64,
    shift: u32,
}

impl Buckets {
    /// For hits from `least` to `most`, each bucket narrower than `gap`, ns; and how many that are.
    fn new(least: i64, most: i64, gap: f64) -> (Buckets, u64) {
        let ns = |time| FineHit { time, ..FineHit::default() }.ns().abs();
        let largest = ns(least).max(ns(most));
        // Keys are as far apart as doubles of this size, or closer.
        let key = f64::from_bits(largest.to_bits() + 1) - largest;
        let keys = (gap / key) as u64;
        let shift = keys.checked_ilog2().unwrap_or(0).min(62);
        (Buckets { least, shift }, (most.abs_diff(least) >> shift).saturating_add(1))
    }

    #[inline]
    fn of(self, time: i64) -> usize {
        (time.wrapping_sub(self.least) as u64 >> self.shift) as usize
    }

    /// First key behind the bucket of a time.
    #[inline]
    fn end(self, time: i64) -> i64 {
        self.least.saturating_add_unsigned((self.of(time) as u64 + 1) << self.shift)
    }
}

/// Hits of a plane of a detector.
#[derive(Debug, Default)]
pub(super) struct LaneHits {
    /// Buckets are narrower than this, ns; 0: all hits are put in order.
    gap: f64,
    /// At or after the border, in order of arrival.
    fresh: Vec<FineHit>,
    /// Before the border, in order of buckets; equal times in order of arrival.
    open: Vec<FineHit>,
    /// Where the run begins in `open` that has not ended yet; those in front are forgotten.
    start: usize,
    /// Where the hits begin that came with the last border.
    walked: usize,
    /// Buckets of these.
    buckets: Buckets,
    /// First and last time of the run that has not ended, ns.
    low: f64,
    high: f64,
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
    /// A lane whose runs end at a gap of `gap` ns or more.
    pub fn new(gap: f64) -> LaneHits {
        LaneHits { gap, ..LaneHits::default() }
    }

    /// A hit at or after the last border.
    #[inline]
    pub fn push(&mut self, hit: FineHit) {
        self.fresh.push(hit);
    }

    /// Hits that wait for the border.
    pub fn fresh(&self) -> usize {
        self.fresh.len()
    }

    /// Exchanges these for others.
    pub fn exchange(&mut self, hits: &mut Vec<FineHit>) {
        std::mem::swap(&mut self.fresh, hits);
    }

    /// Takes the hits before `border` (a key); [`LaneHits::runs`] follows.
    pub fn release(&mut self, border: i64, scratch: &mut Scratch) {
        debug_assert_eq!(self.walked, self.open.len(), "runs() follows each release()");
        let n = self.fresh.len();
        let Scratch { early, ends } = scratch;
        let (mut taken, mut kept) = (0, 0);
        let (mut least, mut most) = (i64::MAX, i64::MIN);
        if border == i64::MAX {
            // All: nothing to part.
            std::mem::swap(&mut self.fresh, early);
            taken = n;
            let times = early.iter().map(|hit| hit.time);
            (least, most) = times.fold((least, most), |(a, b), t| (a.min(t), b.max(t)));
        } else if early.len() < n {
            early.resize(n, FineHit::default());
        }
        let rest = n - taken;
        for i in 0..rest {
            let hit = self.fresh[i];
            let is_early = hit.time < border;
            early[taken] = hit;
            self.fresh[kept] = hit;
            taken += usize::from(is_early);
            kept += usize::from(!is_early);
            least = least.min(hit.time);
            most = most.max(if is_early { hit.time } else { i64::MIN });
        }
        self.fresh.truncate(kept);
        let early = &early[..taken];
        if taken == 0 {
            return;
        }
        let (buckets, number) = Buckets::new(least, most, self.gap);
        if taken <= FEW || number > MOST_BUCKETS.min(BUCKETS_PER_HIT * taken as u64) {
            self.open.extend_from_slice(early);
            self.buckets = Buckets { least, shift: 0 };
            return sort_nearly(&mut self.open[self.walked..]);
        }
        self.buckets = buckets;
        ends.clear();
        ends.resize(number as usize, 0);
        early.iter().for_each(|hit| ends[buckets.of(hit.time)] += 1);
        let mut sum = 0;
        for end in ends.iter_mut() {
            sum += std::mem::replace(end, sum);
        }
        self.open.resize(self.walked + taken, FineHit::default());
        let sorted = &mut self.open[self.walked..];
        for hit in early {
            let at = &mut ends[buckets.of(hit.time)];
            sorted[*at as usize] = *hit;
            *at += 1;
        }
    }

    /// Calls `run` with each run that has ended: `border` is the time, ns, before which no hit can come; `f64::INFINITY`
    /// ends all. The hits of a run are in any order, but equal times in order of arrival.
    pub fn runs(
        &mut self,
        gap: f64,
        limits: &Limits,
        border: f64,
        mut run: impl FnMut(&mut [FineHit]),
    ) -> Cuts {
        debug_assert!(gap >= self.gap, "buckets are made for the gap");
        let mut cuts = Cuts::default();
        let hits = &mut self.open[..];
        if self.start == hits.len() {
            return cuts;
        }
        let (mut start, mut low, mut high) = (self.start, self.low, self.high);
        if start == self.walked {
            (low, high) = (hits[start].ns(), hits[start].ns());
        }
        for i in self.walked..hits.len() {
            let now = hits[i].ns();
            if now - high > gap {
                // The first of a bucket: does the run reach another hit of the bucket?
                let end = self.buckets.end(hits[i].time);
                let bucket = hits[i..].iter().map(|hit| hit.time).take_while(|&time| time < end);
                let first = FineHit { time: bucket.min().unwrap_or(end), ..FineHit::default() };
                if first.ns() - high > gap {
                    let is_whole = i - start <= limits.run_hits && high - low <= limits.run_span;
                    if is_whole {
                        run(&mut hits[start..i]);
                    } else {
                        let rest = cut(&mut hits[start..i], limits, &mut cuts, &mut run);
                        run(&mut hits[i - rest..i]);
                    }
                    (start, low) = (i, now);
                }
            }
            low = if now < low { now } else { low };
            high = if now > high { now } else { high };
        }
        let n = hits.len();
        if n - start > limits.run_hits || high - low > limits.run_span {
            start = n - cut(&mut hits[start..], limits, &mut cuts, &mut run);
            low = hits[start].ns();
        }
        if border - high > gap {
            run(&mut hits[start..]);
            start = n;
        }
        (self.start, self.walked, self.low, self.high) = (start, n, low, high);
        self.forget();
        cuts
    }

    /// Gives up the memory of what has been worked on.
    fn forget(&mut self) {
        let gone = self.start;
        let all = gone == self.open.len();
        if all || (gone >= FORGOTTEN && gone > self.open.len() / 2) {
            self.open.drain(..gone);
            self.start = 0;
            self.walked -= gone;
        }
    }

    /// First time of the run that has not ended, ns.
    pub fn open_since(&self) -> Option<f64> {
        (self.start < self.walked).then_some(self.low)
    }

    /// Hits that wait.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.fresh.len() + self.open.len() - self.start
    }
}

/// Puts a run without a gap in order and cuts it at the limits; how many hits are behind the last cut.
#[cold]
fn cut(
    hits: &mut [FineHit],
    limits: &Limits,
    cuts: &mut Cuts,
    run: &mut impl FnMut(&mut [FineHit]),
) -> usize {
    hits.sort_by_key(|hit| hit.time);
    let (mut start, mut first) = (0, hits[0].ns());
    for i in 1..hits.len() {
        let now = hits[i].ns();
        let many = i - start >= limits.run_hits;
        if many || now - first > limits.run_span {
            cuts.hits += u64::from(many);
            cuts.span += u64::from(!many);
            run(&mut hits[start..i]);
            (start, first) = (i, now);
        }
    }
    hits.len() - start
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: Limits = Limits { waiting: 1000, run_hits: 1000, run_span: 1e12 };

    fn hit(n: usize, ns: f64) -> FineHit {
        FineHit { time: FineHit::key(ns), weight: n as u16, ..FineHit::default() }
    }

    /// Hits of a run in order of time, equal times as they stand.
    fn rows(run: &[FineHit]) -> Vec<FineHit> {
        let mut rows = run.to_vec();
        rows.sort_by_key(|hit| hit.time);
        rows
    }

    /// Runs of hits that are in order, with the limits, as the format says it.
    fn reference(sorted: &[FineHit], gap: f64, limits: &Limits) -> (Vec<Vec<FineHit>>, Cuts) {
        let (mut runs, mut cuts) = (Vec::<Vec<FineHit>>::new(), Cuts::default());
        for hit in sorted {
            match runs.last_mut() {
                Some(run) if hit.ns() - run[run.len() - 1].ns() <= gap => {
                    if run.len() >= limits.run_hits {
                        cuts.hits += 1;
                    } else if hit.ns() - run[0].ns() > limits.run_span {
                        cuts.span += 1;
                    } else {
                        run.push(*hit);
                        continue;
                    }
                    runs.push(vec![*hit]);
                }
                _ => runs.push(vec![*hit]),
            }
        }
        (runs, cuts)
    }

    #[test]
    fn runs_end_at_the_gap_and_are_cut_at_the_limits() {
        let mut lane = LaneHits::new(10.0);
        let times = [0.0, 10.0, 20.0, 31.0, 40.0, 50.0, 60.0];
        times.iter().enumerate().for_each(|(n, &ns)| lane.push(hit(n, ns)));
        lane.release(i64::MAX, &mut Scratch::default());
        let limits = Limits { run_hits: 3, run_span: 15.0, ..LIMITS };
        let mut seen = Vec::new();
        let cuts = lane.runs(10.0, &limits, f64::INFINITY, |run| seen.push(run.len()));
        assert_eq!(seen, [2, 1, 2, 2]);
        assert_eq!(cuts, Cuts { hits: 0, span: 2 });
        assert_eq!(lane.len(), 0);
    }

    #[test]
    fn buckets_are_narrower_than_the_gap() {
        for (ns, gap) in [(2.8e12, 100.0), (2.8e12, 0.001), (1e3, 7.0), (0.5, 1e-9), (4096.0, 1.0)]
        {
            let least = FineHit::key(ns);
            let (buckets, _) = Buckets::new(least, least + 1000, gap);
            let last = FineHit { time: buckets.end(least) - 1, ..FineHit::default() };
            assert!(last.ns() - ns <= gap, "{ns} {gap}: {buckets:?}");
            assert!(buckets.end(i64::MAX) >= i64::MAX - 1);
        }
    }

    proptest! {
        /// Borders at any places give the runs of one sort over everything, whatever the order of arrival.
        #[test]
        fn borders_do_not_change_the_runs(
            mut times in proptest::collection::vec(0i32..20_000, 0..600), jitter in 0i32..25_000,
            mut borders in proptest::collection::vec(0i32..20_000, 0..6), far in any::<bool>(),
            gap in 0i32..60, stretch in 1i32..50, run_hits in 1usize..30, run_span in 1i32..400, cut in any::<bool>(),
        ) {
            // Small numbers, and those of real runs, where keys are much closer; negative ones among the first.
            let place = |ns: i32| f64::from(ns) / f64::from(stretch) + if far { 2.8e12 } else { -30.0 };
            let gap = f64::from(gap) / f64::from(stretch);
            let limits = if cut { Limits { run_hits, run_span: f64::from(run_span), ..LIMITS } } else { LIMITS };
            // From nearly in order to not at all.
            times.sort_by_key(|ns| ns + ns * 7919 % (jitter + 1));
            let arrived: Vec<FineHit> =
                times.iter().enumerate().map(|(n, &ns)| hit(n, place(ns))).collect();
            let (wanted, wanted_cuts) = reference(&rows(&arrived), gap, &limits);

            borders.sort_unstable();
            let (mut lane, mut scratch, mut seen) = (LaneHits::new(gap), Scratch::default(), Vec::new());
            let mut cuts = Cuts::default();
            let mut left = arrived.iter();
            for border in borders.iter().map(|&b| place(b)).chain([f64::INFINITY]) {
                let key = FineHit::key(border);
                // What comes before a border is told: all of it, and some of the rest.
                let last = arrived.iter().rposition(|h| h.time < key).map_or(0, |at| at + 1);
                while arrived.len() - left.len() < last {
                    lane.push(*left.next().unwrap());
                }
                lane.release(key, &mut scratch);
                let more = lane.runs(gap, &limits, border, |run| seen.push(rows(run)));
                cuts.hits += more.hits;
                cuts.span += more.span;
                let since = lane.open[lane.start..].iter().map(FineHit::ns).reduce(f64::min);
                prop_assert_eq!(lane.open_since(), since);
            }
            prop_assert_eq!(lane.len(), 0);
            prop_assert_eq!(seen, wanted);
            prop_assert_eq!(cuts, wanted_cuts);
        }

        /// A hostile spread of times does not cost n².
        #[test]
        fn any_times_sort(times in proptest::collection::vec(any::<i32>(), 0..300)) {
            let mut lane = LaneHits::default();
            times.iter().enumerate().for_each(|(n, &ns)| lane.push(hit(n, f64::from(ns))));
            lane.release(i64::MAX, &mut Scratch::default());
            prop_assert!(lane.open.is_sorted_by_key(|h| h.time));
            prop_assert_eq!(lane.len(), times.len());
        }
    }
}
