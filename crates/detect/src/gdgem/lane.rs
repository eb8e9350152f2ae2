//! The hits of one plane: waiting, then in runs without a gap.
//!
//! Clustering needs to know where hits are further apart than the gap, and no more of their order. Tracks mostly come one after the
//! other, so hits are taken as they came, in *blocks*: hits in a row of which each is within the gap of those before it. No gap goes through a
//! block, so blocks in order of their first times show all runs, and a run of one block needs no copy. Where tracks are mixed, as in
//! the public capture, in which hits go back 3 places on average, blocks are short; then hits are first counted into buckets of
//! time that are narrower than the gap, which is two passes with hardly a branch on the data. An exact order costs more than all the rest of
//! clustering. A run is cut at a number of hits and at a span, which physics never reaches: then its order counts and is
//! made. With the sums of a run in one pass (`plane`) blocks take the whole chain to 1.5 times its rate on simulated tracks and to 1.3 times on the
//! public captures, compared with buckets and a walk for all. What came in which call does not matter: only the rows
//! do. Sources: `docs/formats/gdgem.md` sections 8 and 14.3.

use std::ops::Range;

use crate::hits::FineHit;

use super::options::Limits;

/// Steps per block that sorting by insertion may cost before the general sort takes over.
const STEPS: usize = 16;

/// Hits, and blocks, below which buckets are not worth their set-up.
const FEW: usize = 48;

/// Hits per block, on average, below which buckets are worth their passes.
const SHORT: usize = 2;

/// Releases that go into buckets at once where blocks were short, before blocks are tried again.
const ROUGH: u32 = 15;

/// Most buckets: 64 Ki counts of 4 bytes are a quarter of the second-level cache.
const MOST_BUCKETS: u64 = 1 << 16;

/// Most buckets per hit: where hits are rarer, blocks are cheaper however short they are.
const BUCKETS_PER_HIT: u64 = 4;

/// Memory that all lanes of a builder sort with.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    sorted: Vec<FineHit>,
    ends: Vec<u32>,
    found: Found,
}

/// First and last time of a run, ns.
pub(super) type Span = (f64, f64);

/// Runs that were cut.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Cuts {
    pub hits: u64,
    pub span: u64,
}

/// Hits in a row without a gap in time between them.
#[derive(Debug, Clone, Copy)]
struct Block {
    low: f64,
    high: f64,
    start: usize,
    end: usize,
}

/// What lies in a row of hits.
#[derive(Debug, Default)]
struct Found {
    /// Before the border.
    blocks: Vec<Block>,
    /// At or behind it.
    late: Vec<Range<usize>>,
}

impl Found {
    /// Parts `hits` into blocks before `border` (a key) and others; how many hits are before it.
    fn search(&mut self, hits: &[FineHit], border: i64, gap: f64) -> usize {
        let Found { blocks, late } = self;
        blocks.clear();
        late.clear();
        let (mut at, mut early) = (0, 0);
        while let Some(hit) = hits.get(at) {
            let start = at;
            if hit.time >= border {
                at += hits[at..].iter().take_while(|hit| hit.time >= border).count();
                late.push(start..at);
                continue;
            }
            let (mut low, mut high) = (hit.ns(), hit.ns());
            at += 1;
            for hit in &hits[at..] {
                let now = hit.ns();
                // One branch: what ends a block is as chance has it, that it ends is rare.
                if (hit.time >= border) | (now - high > gap) | (low - now > gap) {
                    break;
                }
                low = if now < low { now } else { low };
                high = if now > high { now } else { high };
                at += 1;
            }
            early += at - start;
            blocks.push(Block { low, high, start, end: at });
        }
        early
    }

    /// Puts blocks in order of their first times; what is nearly in order, in place and in one pass.
    fn sort(&mut self) {
        let blocks = &mut self.blocks[..];
        let mut steps = STEPS * blocks.len();
        for i in 1..blocks.len() {
            let block = blocks[i];
            let mut at = i;
            while at > 0 && blocks[at - 1].low > block.low {
                blocks[at] = blocks[at - 1];
                at -= 1;
            }
            blocks[at] = block;
            match steps.checked_sub(i - at) {
                Some(left) => steps = left,
                None => return blocks.sort_unstable_by(|a, b| a.low.total_cmp(&b.low)),
            }
        }
    }
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
}

/// Hits of a plane of a detector.
#[derive(Debug, Default)]
pub(super) struct LaneHits {
    /// Runs end at more than this, ns.
    gap: f64,
    /// At or after the border, in order of arrival.
    fresh: Vec<FineHit>,
    /// Of the run that has not ended; equal times in order of arrival.
    open: Vec<FineHit>,
    /// Its first and last time, ns.
    low: f64,
    high: f64,
    /// So many releases go into buckets at once.
    rough: u32,
    /// The last border, if there was one: those that wait are at or behind it.
    since: Option<i64>,
}

impl LaneHits {
    /// A lane whose runs end at a gap of more than `gap` ns.
    pub fn new(gap: f64) -> LaneHits {
        LaneHits { gap, ..LaneHits::default() }
    }

    /// A hit at or after the last border.
    #[inline]
    pub fn push(&mut self, hit: FineHit) {
        self.fresh.push(hit);
    }

    /// Several of them.
    #[inline]
    pub fn extend(&mut self, hits: &[FineHit]) {
        self.fresh.extend_from_slice(hits);
    }

    /// Hits that wait for the border.
    pub fn fresh(&self) -> usize {
        self.fresh.len()
    }

    /// Exchanges these for others.
    pub fn exchange(&mut self, hits: &mut Vec<FineHit>) {
        std::mem::swap(&mut self.fresh, hits);
    }

    /// Takes the hits before `border` (a key, and in ns), before which no hit can come any more, and calls `run` with each run that has
    /// ended, in order of time, and its span; `f64::INFINITY` ends all. The hits of a run are in any order, but equal times in
    /// order of arrival.
    pub fn runs(
        &mut self,
        (key, border): (i64, f64),
        limits: &Limits,
        scratch: &mut Scratch,
        mut run: impl FnMut(&mut [FineHit], Span),
    ) -> Cuts {
        let Scratch { sorted, ends, found } = scratch;
        let since = std::mem::replace(&mut self.since, (key < i64::MAX).then_some(key));
        let fresh = &mut self.fresh;
        let open = (&mut self.open, &mut self.low, &mut self.high);
        let mut growing = Growing { gap: self.gap, limits, cuts: Cuts::default() };
        let searched = self.rough == 0;
        if searched {
            let hits = found.search(fresh, key, self.gap);
            let blocks = found.blocks.len();
            let is_rough = blocks > FEW && blocks * SHORT > hits;
            self.rough = if is_rough { 1 + ROUGH } else { 0 };
        }
        if self.rough > 0 {
            self.rough -= 1;
            if let Some(taken) = bucketed(fresh, (since, key), self.gap, ends, sorted) {
                let hits = &mut sorted[..taken];
                found.search(hits, i64::MAX, self.gap);
                growing.walk(hits, found, border, open, &mut run);
                return growing.cuts;
            }
        }
        if !searched {
            found.search(fresh, key, self.gap);
        }
        growing.walk(fresh, found, border, open, &mut run);
        let mut kept = 0;
        for late in &found.late {
            fresh.copy_within(late.clone(), kept);
            kept += late.len();
        }
        fresh.truncate(kept);
        growing.cuts
    }

    /// First time of the run that has not ended, ns.
    pub fn open_since(&self) -> Option<f64> {
        (!self.open.is_empty()).then_some(self.low)
    }

    /// Times of the hits that wait, ns.
    pub fn times(&self) -> impl Iterator<Item = f64> {
        self.fresh.iter().chain(&self.open).map(FineHit::ns)
    }

    /// Hits that wait.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.fresh.len() + self.open.len()
    }
}

/// How many rows from the first on are hits of its lane at or behind `border`, and the latest time of them as a key; the first is one. They are
/// copied at once: one by one, each would wait until the length of the lane's list, which the one before has changed, is back from memory.
#[inline]
pub(super) fn stretch(rows: &[FineHit], border: i64) -> (usize, i64) {
    let (mut n, mut most) = (0, i64::MIN);
    for row in rows {
        if row.lane != rows[0].lane || row.time < border {
            break;
        }
        most = most.max(row.time);
        n += 1;
    }
    (n, most)
}

/// Puts the hits before `border` (a key) into `sorted`, in order of buckets narrower than `gap`, those of a bucket in their order, where that is worth
/// its cost: how many they are. Then the others stay in `fresh`; else all do. None of them is before `since`.
fn bucketed(
    fresh: &mut Vec<FineHit>,
    (since, border): (Option<i64>, i64),
    gap: f64,
    ends: &mut Vec<u32>,
    sorted: &mut Vec<FineHit>,
) -> Option<usize> {
    if fresh.len() <= FEW {
        return None;
    }
    let worth = MOST_BUCKETS.min(BUCKETS_PER_HIT * fresh.len() as u64);
    let fitting = |(least, most)| Some(Buckets::new(least, most, gap)).filter(|b| b.1 <= worth);
    let borders = since.filter(|&since| since < border && border < i64::MAX);
    let between = borders.and_then(|since| fitting((since, border - 1)));
    let (buckets, number) = between.or_else(|| span(fresh, border).and_then(fitting))?;
    ends.clear();
    ends.resize(number as usize, 0);
    for hit in &*fresh {
        if hit.time < border {
            ends[buckets.of(hit.time)] += 1;
        }
    }
    let mut sum = 0;
    for end in ends.iter_mut() {
        sum += std::mem::replace(end, sum);
    }
    if sorted.len() < sum as usize {
        sorted.resize(sum as usize, FineHit::default());
    }
    let mut kept = 0;
    for i in 0..fresh.len() {
        let hit = fresh[i];
        if hit.time >= border {
            fresh[kept] = hit;
            kept += 1;
            continue;
        }
        let at = &mut ends[buckets.of(hit.time)];
        sorted[*at as usize] = hit;
        *at += 1;
    }
    fresh.truncate(kept);
    Some(sum as usize)
}

/// First and last key of the hits before `border`.
fn span(hits: &[FineHit], border: i64) -> Option<(i64, i64)> {
    let (mut least, mut most) = (i64::MAX, i64::MIN);
    for hit in hits {
        least = least.min(hit.time);
        most = most.max(if hit.time < border { hit.time } else { i64::MIN });
    }
    (least <= most).then_some((least, most))
}

/// Joins blocks to runs.
struct Growing<'a> {
    gap: f64,
    limits: &'a Limits,
    cuts: Cuts,
}

impl Growing<'_> {
    /// Calls `run` with each run of the hits; what has not ended stays in `open`, with its first and last time.
    fn walk(
        &mut self,
        hits: &mut [FineHit],
        found: &mut Found,
        border: f64,
        (open, open_low, open_high): (&mut Vec<FineHit>, &mut f64, &mut f64),
        run: &mut impl FnMut(&mut [FineHit], Span),
    ) {
        found.sort();
        let blocks = &mut found.blocks[..];
        let mut first = 0;
        while first < blocks.len() || !open.is_empty() {
            // What is open came first, and lies before all others.
            let mut at = first;
            let (mut low, mut high) = (*open_low, *open_high);
            if open.is_empty() {
                (low, high, at) = (blocks[first].low, blocks[first].high, first + 1);
            }
            while let Some(block) = blocks.get(at)
                && block.low - high <= self.gap
            {
                high = if block.high > high { block.high } else { high };
                at += 1;
            }
            let ends = at < blocks.len() || border - high > self.gap;
            let members = &mut blocks[first..at];
            first = at;
            if let [only] = members
                && (open.is_empty() & ends)
                && self.is_whole(only.end - only.start, (low, high))
            {
                run(&mut hits[only.start..only.end], (low, high));
                continue;
            }
            members.sort_unstable_by_key(|block| block.start);
            for block in members {
                open.extend_from_slice(&hits[block.start..block.end]);
            }
            if !self.is_whole(open.len(), (low, high)) {
                let rest = self.cut(open, run);
                open.drain(..open.len() - rest);
                low = open[0].ns();
            }
            if !ends {
                (*open_low, *open_high) = (low, high);
                break;
            }
            run(open, (low, high));
            open.clear();
        }
    }

    fn is_whole(&self, hits: usize, (low, high): Span) -> bool {
        hits <= self.limits.run_hits && high - low <= self.limits.run_span
    }

    /// Puts a run without a gap in order and cuts it at the limits; how many hits are behind the last cut.
    #[cold]
    fn cut(&mut self, hits: &mut [FineHit], run: &mut impl FnMut(&mut [FineHit], Span)) -> usize {
        hits.sort_by_key(|hit| hit.time);
        let (mut start, mut first) = (0, hits[0].ns());
        for i in 1..hits.len() {
            let now = hits[i].ns();
            let many = i - start >= self.limits.run_hits;
            if many || now - first > self.limits.run_span {
                self.cuts.hits += u64::from(many);
                self.cuts.span += u64::from(!many);
                let last = hits[i - 1].ns();
                run(&mut hits[start..i], (first, last));
                (start, first) = (i, now);
            }
        }
        hits.len() - start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: Limits = Limits { waiting: 1000, run_hits: 1000, run_span: 1e12, idle: i64::MAX };
    /// Behind all hits.
    const END: (i64, f64) = (i64::MAX, f64::INFINITY);

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

    /// Span of a run.
    fn span(run: &[FineHit]) -> Span {
        let rows = rows(run);
        (rows[0].ns(), rows[rows.len() - 1].ns())
    }

    #[test]
    fn runs_end_at_the_gap_and_are_cut_at_the_limits() {
        let mut lane = LaneHits::new(10.0);
        let times = [0.0, 10.0, 20.0, 31.0, 40.0, 50.0, 60.0];
        times.iter().enumerate().for_each(|(n, &ns)| lane.push(hit(n, ns)));
        let limits = Limits { run_hits: 3, run_span: 15.0, ..LIMITS };
        let (mut seen, mut scratch) = (Vec::new(), Scratch::default());
        let cuts = lane.runs(END, &limits, &mut scratch, |run, _| seen.push(run.len()));
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
            let last = FineHit { time: least + (1 << buckets.shift) - 1, ..FineHit::default() };
            assert_eq!((buckets.of(least), buckets.of(last.time)), (0, 0));
            assert_eq!(buckets.of(last.time + 1), 1);
            assert!(last.ns() - ns <= gap, "{ns} {gap}: {buckets:?}");
        }
    }

    proptest! {
        /// Borders at any places give the runs of one sort over everything, whatever the order of arrival.
        #[test]
        fn borders_do_not_change_the_runs(
            mut times in proptest::collection::vec(0i32..20_000, 0..600), jitter in 0i32..25_000,
            mut borders in proptest::collection::vec(0i32..20_000, 0..6), far in any::<bool>(),
            gap in 0i32..60, stretch in 1i32..50, run_hits in 1usize..30, run_span in 1i32..400, cut in any::<bool>(),
            rough in 0u32..4,
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
            // In blocks, through buckets, and by turns.
            lane.rough = rough;
            let mut cuts = Cuts::default();
            let mut left = arrived.iter();
            for border in borders.iter().map(|&b| place(b)).chain([f64::INFINITY]) {
                let key = FineHit::key(border);
                // What comes before a border is told: all of it, and some of the rest.
                let last = arrived.iter().rposition(|h| h.time < key).map_or(0, |at| at + 1);
                while arrived.len() - left.len() < last {
                    lane.push(*left.next().unwrap());
                }
                let more = lane.runs((key, border), &limits, &mut scratch, |run, ends| {
                    assert_eq!(ends, span(run));
                    seen.push(rows(run));
                });
                cuts.hits += more.hits;
                cuts.span += more.span;
                let since = lane.open.iter().map(FineHit::ns).reduce(f64::min);
                prop_assert_eq!(lane.open_since(), since);
            }
            prop_assert_eq!(lane.len(), 0);
            prop_assert_eq!(seen, wanted);
            prop_assert_eq!(cuts, wanted_cuts);
        }

        /// A hostile spread of times does not cost n².
        #[test]
        fn any_times_sort(times in proptest::collection::vec(any::<i32>(), 0..300), rough in 0u32..2) {
            let mut lane = LaneHits { rough, ..LaneHits::new(0.0) };
            times.iter().enumerate().for_each(|(n, &ns)| lane.push(hit(n, f64::from(ns))));
            let (mut seen, mut scratch) = (Vec::new(), Scratch::default());
            lane.runs(END, &LIMITS, &mut scratch, |run, _| seen.extend_from_slice(run));
            prop_assert!(seen.is_sorted_by_key(|h| h.time));
            prop_assert_eq!((seen.len(), lane.len()), (times.len(), 0));
        }
    }
}
