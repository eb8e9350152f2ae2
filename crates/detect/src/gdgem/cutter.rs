//! Where the stream of hits may be cut so that nothing before the cut can meet anything behind it.
//!
//! Nothing meets over a silence in all planes that is longer than the time gap of clustering and the time gap of matching, the
//! latter with what rounding may add to a cluster's time. Hits need not be in order to see one: those before the border mark
//! bins of a quarter of that length, and four empty bins in a row are it. Proof: `docs/gdgem-parallel.md`. Without a
//! silence there is no cut.

use crate::hits::FineHit;

use super::layout::Layout;
use super::options::Limits;

/// Bins of a silence: more would find shorter ones, down to the necessary length, at more work.
const BINS: u32 = 4;

/// Bins that are looked at before the border: at first few, as most silences are near, and each hit behind the window's start is looked at
/// again when the stream is cut; 512 are 26 µs for 200 ns, 65,536 are 3 ms.
const WINDOWS: [usize; 3] = [1 << 9, 1 << 12, 1 << 16];

/// What computing a bin may be off by, ns: far more than doubles are, for any time that a FEC can state.
const SLACK_NS: f64 = 1.0;

/// The silence that a cut needs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Silence {
    /// Largest time gap of any plane, ns.
    gap: f64,
    /// Largest time between clusters that can be matched, ns.
    matching: f64,
    /// How far a cluster's time can lie outside its hits' by rounding, as a part of the time.
    rounding: f64,
}

/// What looking for a silence leaves.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// A bit for each bin.
    bins: Vec<u64>,
    /// By plane, how many hits stand first that are before any cut that could be found.
    pub early: Vec<usize>,
}

impl Silence {
    /// What the detectors of a geometry need.
    pub fn of(layout: &Layout, limits: &Limits) -> Silence {
        let (mut gap, mut matching) = (0.0f64, 0.0f64);
        for panel in &layout.detectors {
            let p = &panel.parameters;
            let planes = panel.lanes.iter().map(|&lane| layout.lanes[lane].plane);
            gap = planes.fold(gap, |gap, plane| gap.max(p.time_gap(plane)));
            matching = matching.max(match layout.online {
                Some(online) => online.max_delta,
                // Nothing is matched: order alone asks for what rounding may add.
                None if panel.lanes.len() == 1 => 0.0,
                None => p.plane_gap,
            });
        }
        // A sum of n products and its quotient are off by at most (n + 3) half units in the last place of the largest time.
        let rounding = (limits.run_hits as f64 + 8.0) * f64::EPSILON;
        Silence { gap, matching, rounding }
    }

    /// A silence that is too short by a factor: for tests that must fail.
    #[cfg(test)]
    pub fn shortened(self, factor: f64) -> Silence {
        Silence { gap: self.gap * factor, matching: self.matching * factor, ..self }
    }

    /// Its length around a time, ns.
    fn length(&self, ns: f64) -> f64 {
        self.gap.max(self.matching + 2.0 * self.rounding * ns.abs()) + SLACK_NS
    }

    /// The latest time up to the border that lies in a silence and has something before it.
    pub fn before(&self, held: Held<'_>, marks: &mut Marks) -> Option<f64> {
        WINDOWS.iter().find_map(|&bins| self.within(held, bins, marks))
    }

    fn within(&self, held: Held<'_>, bins: usize, marks: &mut Marks) -> Option<f64> {
        let border = held.border;
        let width = self.length(border) / f64::from(BINS);
        let start = FineHit::key(border - width * bins as f64);
        let scale = width.recip();
        marks.bins.clear();
        marks.bins.resize(bins / 64, 0);
        // The bin of what comes first; 0 if there is nothing.
        let mut first = 0;
        marks.early.clear();
        for (at, lane) in held.lanes.iter().enumerate() {
            // Hits come nearly in order: most of those before the window stand first.
            let known = held.latest.get(at).map_or(0, |latest| latest.before(start));
            let late = lane[known..].iter().position(|hit| hit.time >= start);
            let early = late.map_or(lane.len(), |late| known + late);
            marks.early.push(early);
            first = if early > 0 { bins } else { first };
            for hit in &lane[early..] {
                if hit.time >= held.key {
                    continue;
                }
                if hit.time < start {
                    first = bins;
                    continue;
                }
                // Counted back from the border; a float's conversion stays within the type.
                let bin = (((border - hit.ns()) * scale) as usize).min(bins - 1);
                marks.bins[bin / 64] |= 1 << (bin % 64);
                first = first.max(bin);
            }
        }
        let bin = empty(&marks.bins)?;
        (bin < first).then(|| border - (bin as f64 + f64::from(BINS) / 2.0) * width)
    }
}

/// Hits between two steps of [`Latest`]; few in tests, whose slices are small.
pub(super) const STEP: usize = if cfg!(test) { 4 } else { 256 };

/// The latest time of the first hits that wait, in steps: so nobody has to look at each of them again. Without it the look for a silence
/// takes the reading thread twice the time.
#[derive(Debug, Clone, Default)]
pub(super) struct Latest {
    /// Numbers of hits, and the latest time among them as a key.
    steps: Vec<(usize, i64)>,
    most: Option<i64>,
}

impl Latest {
    /// There are `hits` now; `most` is the latest time of those that came.
    pub fn came(&mut self, hits: usize, most: i64) {
        let most = self.most.map_or(most, |before| before.max(most));
        self.most = Some(most);
        if hits >= self.steps.last().map_or(0, |step| step.0) + STEP {
            self.steps.push((hits, most));
        }
    }

    /// So many hits, or more, stand first and are before a time.
    fn before(&self, time: i64) -> usize {
        let n = self.steps.partition_point(|step| step.1 < time);
        n.checked_sub(1).map_or(0, |last| self.steps[last].0)
    }

    /// Other hits stand there now.
    pub fn clear(&mut self) {
        self.most = None;
        self.steps.clear();
    }
}

/// Hits that wait, and how far time is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held<'a> {
    /// By plane, in any order.
    pub lanes: &'a [Vec<FineHit>],
    /// By plane, what is known of the first hits.
    pub latest: &'a [Latest],
    /// All hits that come later are at or behind this, ns.
    pub border: f64,
    /// The same as a key.
    pub key: i64,
}

/// The first of [`BINS`] clear bits in a row.
fn empty(marks: &[u64]) -> Option<usize> {
    let mut run = 0;
    for (at, &word) in marks.iter().enumerate() {
        if word == u64::MAX {
            run = 0;
            continue;
        }
        for bit in 0..64 {
            run = if word >> bit & 1 == 0 { run + 1 } else { 0 };
            if run == BINS {
                return Some(at * 64 + bit + 1 - BINS as usize);
            }
        }
    }
    None
}

/// Moves the hits at or behind `cut` (a key) from `all` to `later`, which is empty; all stay in their order. The first `early` are
/// known to be before it. Returns the latest time of those moved. Late ones stand together, so they are moved at once.
pub(super) fn split(
    all: &mut Vec<FineHit>,
    later: &mut Vec<FineHit>,
    cut: i64,
    early: usize,
) -> Option<i64> {
    let before = |hits: &[FineHit]| hits.iter().take_while(|hit| hit.time < cut).count();
    let mut kept = early + before(&all[early..]);
    let (mut at, mut most) = (kept, None);
    while at < all.len() {
        let start = at;
        let mut latest = i64::MIN;
        for hit in &all[start..] {
            if hit.time < cut {
                break;
            }
            latest = latest.max(hit.time);
            at += 1;
        }
        later.extend_from_slice(&all[start..at]);
        most = most.max(Some(latest));
        let n = before(&all[at..]);
        all.copy_within(at..at + n, kept);
        (kept, at) = (kept + n, at + n);
    }
    all.truncate(kept);
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SILENCE: Silence = Silence { gap: 200.0, matching: 100.0, rounding: 0.0 };

    fn hit(ns: f64, number: usize) -> FineHit {
        FineHit { time: FineHit::key(ns), coordinate: number as u16, ..FineHit::default() }
    }

    fn cut(times: &[f64], border: f64) -> Option<f64> {
        let (x, y): (Vec<_>, Vec<_>) = times
            .iter()
            .enumerate()
            .map(|(n, &ns)| hit(ns, n))
            .partition(|h| h.coordinate % 2 == 0);
        let mut latest = [Latest::default(), Latest::default()];
        for (lane, latest) in [&x, &y].into_iter().zip(&mut latest) {
            for (n, hit) in lane.iter().enumerate() {
                latest.came(n + 1, hit.time);
            }
        }
        let (lanes, key) = (&[x, y], FineHit::key(border));
        let with =
            SILENCE.before(Held { lanes, latest: &latest, border, key }, &mut Marks::default());
        let without =
            SILENCE.before(Held { lanes, latest: &[], border, key }, &mut Marks::default());
        assert_eq!(with, without);
        with
    }

    #[test]
    fn the_latest_silence_before_the_border_is_found() {
        let found = cut(&[0.0, 1000.0, 1100.0, 2000.0, 2100.0], 2150.0).expect("a silence");
        assert!((1201.0..1900.0).contains(&found), "{found}");
        assert_eq!(cut(&[1000.0, 1150.0, 1300.0, 1450.0], 1500.0), None, "a chain");
        assert_eq!(cut(&[], 1500.0), None);
        assert_eq!(cut(&[1600.0], 1500.0), None, "nothing before the border");
        assert_eq!(cut(&[1400.0], 1500.0), None, "silence before the first hit is of no use");
        let near = cut(&[1000.0, 1600.0], 1500.0).expect("up to the border");
        assert!((1000.0..1500.0).contains(&near));
        // Far behind: all bins are empty.
        assert!(cut(&[-1e12], 1e12).is_some());
        assert!(cut(&[0.0, 1e9], 1e9 + 50.0).is_some(), "beyond the window");
    }

    #[test]
    fn a_silence_covers_gap_and_matching_with_its_rounding() {
        let silence = Silence { gap: 200.0, matching: 300.0, rounding: 1e-12 };
        assert_eq!(silence.length(0.0), 301.0);
        assert_eq!(silence.length(-1e14), 501.0);
        assert_eq!(Silence { gap: 900.0, ..silence }.length(1e14), 901.0);
    }

    #[test]
    fn the_first_hits_are_known_in_steps() {
        let mut latest = Latest::default();
        latest.came(STEP - 1, 7);
        assert_eq!(latest.before(i64::MAX), 0);
        latest.came(STEP, 5);
        latest.came(2 * STEP + 10, 9);
        latest.came(2 * STEP + 11, 20);
        assert_eq!([7, 8, 10].map(|time| latest.before(time)), [0, STEP, 2 * STEP + 10]);
        latest.clear();
        latest.came(STEP, 1);
        assert_eq!(latest.before(2), STEP);
    }

    proptest! {
        /// Where a cut is, no hit is near it on either side; and a silence long enough is always found.
        #[test]
        fn cuts_lie_in_silence(
            gaps in proptest::collection::vec(0u32..400, 0..200), ahead in 1u32..500, origin in -1_000_000_000_000i64..100_000_000_000_000,
        ) {
            let mut now = origin as f64;
            let times: Vec<f64> = gaps.iter().map(|&gap| { now += f64::from(gap); now }).collect();
            let border = now + f64::from(ahead);
            let all: Vec<f64> = times.iter().copied().chain([border]).collect();
            let long = |pair: &[f64]| pair[1] - pair[0] > 1.25 * SILENCE.length(border) + 1.0;
            match cut(&times, border) {
                Some(at) => {
                    prop_assert!(times[0] < at && at < border);
                    let left = times.iter().rfind(|&&t| t < at).expect("a hit");
                    let right = times.iter().find(|&&t| t >= at).copied().unwrap_or(border);
                    prop_assert!(right - left > 200.0, "{left} {at} {right}");
                }
                None => prop_assert!(!all.windows(2).any(long)),
            }
        }

        #[test]
        fn splitting_keeps_the_order(times in proptest::collection::vec(0i32..50, 0..60), at in 0i32..50) {
            let mut all: Vec<_> = times.iter().enumerate().map(|(n, &t)| hit(f64::from(t), n)).collect();
            let key = FineHit::key(f64::from(at));
            let (early, late): (Vec<FineHit>, Vec<FineHit>) = all.iter().partition(|h| h.time < key);
            let mut later = Vec::new();
            let known = all.iter().take_while(|h| h.time < key).count() / 2;
            let most = split(&mut all, &mut later, key, known);
            prop_assert_eq!(most, late.iter().map(|hit| hit.time).max());
            prop_assert_eq!((all, later), (early, late));
        }
    }
}
