//! Clusters of one plane as vmm-sdat makes them, with every published position and time.
//!
//! A run of hits close in time is sorted by strip (equal strips: the later first) and cut where strips are missing or the span
//! would be too long. Refuses clusters that are too small or without amplitude. All sums are formed in the order of
//! the hits, as doubles or as integers that doubles hold exactly. Source: `docs/formats/gdgem.md` sections 14.3 and 14.4.

use std::cmp::Reverse;

use crate::hits::FineHit;

use super::lane::Span;
use super::late_end::{self, late_end};
use super::layout::OVER;
use super::options::{Coin, Parameters, Position};

/// Hits of one plane that belong together.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PlaneCluster {
    /// Number within its plane, from 1, in the order of being closed.
    pub number: u64,
    /// Number of hits.
    pub size: u32,
    /// Sum of the amplitudes.
    pub adc: u64,
    /// Centre of mass, strips.
    pub pos: f64,
    /// Centre of mass, ns.
    pub time: f64,
    /// Strip of the hit that came last.
    pub pos_utpc: f64,
    /// Its time, ns.
    pub time_utpc: f64,
    /// Centre with squared amplitudes, strips.
    pub pos_charge2: f64,
    /// Centre with squared amplitudes, ns.
    pub time_charge2: f64,
    /// What `-algo` asks for, strips.
    pub pos_algo: f64,
    /// What `-algo` asks for, ns.
    pub time_algo: f64,
    /// First time, ns.
    pub first: f64,
    /// Last time, ns.
    pub last: f64,
    /// True once it is part of a detector cluster.
    pub used: bool,
}

/// What most need of a cluster: less than half of it, as clusters of a millisecond are to stay in a second-level cache.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Centre {
    pub size: u32,
    pub adc: u64,
    pub pos: f64,
    pub time: f64,
    pub first: f64,
    pub last: f64,
}

impl From<&Centre> for PlaneCluster {
    /// The further values are 0.
    fn from(c: &Centre) -> PlaneCluster {
        PlaneCluster {
            size: c.size,
            adc: c.adc,
            pos: c.pos,
            time: c.time,
            first: c.first,
            last: c.last,
            ..PlaneCluster::default()
        }
    }
}

impl PlaneCluster {
    pub(super) fn centre(&self) -> Centre {
        let PlaneCluster { size, adc, pos, time, first, last, .. } = *self;
        Centre { size, adc, pos, time, first, last }
    }

    /// Time for matching.
    pub(super) fn coin(&self, coin: Coin) -> f64 {
        match coin {
            Coin::CenterOfMass => self.time,
            Coin::Utpc => self.time_utpc,
            Coin::Charge2 => self.time_charge2,
        }
    }

    /// Place and time for the event. A sum of doubles can end an ulp above its largest part: no event is later than its hits.
    pub(super) fn at(&self, position: Position) -> (f64, f64) {
        let (pos, time) = match position {
            Position::CenterOfMass => (self.pos, self.time),
            Position::Utpc => (self.pos_utpc, self.time_utpc),
            Position::Charge2 => (self.pos_charge2, self.time_charge2),
            Position::Algo => (self.pos_algo, self.time_algo),
        };
        (pos, time.min(self.last))
    }
}

/// Which of the hits with the latest time stands for the cluster: `first` and `last` are the places of these among `n` hits.
/// The one nearer to its end; at equal distance the larger, the last one if they are equal (section 10).
#[inline]
pub(super) fn latest(first: usize, last: usize, n: usize, weight: impl Fn(usize) -> u16) -> usize {
    let behind = n - 1 - last;
    if first < behind || (first == behind && weight(first) > weight(last)) { first } else { last }
}

/// Sorts a run, in which equal times are in order of arrival, by strip; equal strips: the later first, equal times as they are.
fn by_strip(run: &mut [FineHit]) {
    run.sort_by_key(|hit| (hit.coordinate, Reverse(hit.time)));
}

/// Longest run whose order is found by counting.
const SHORT: usize = 32;

/// Ranks of the hits of a run by strip, and the strips from the first to the last: found by counting, without a branch that depends on the
/// data, eight comparisons at a time. Equal strips have equal ranks.
#[inline(always)]
fn ranks<const N: usize>(run: &[FineHit]) -> ([i16; N], i32) {
    // Signed, as vectors compare; places behind the last are the first hit again, and nobody looks at their ranks.
    let key = |hit: &FineHit| (hit.coordinate ^ 0x8000) as i16;
    let mut keys = [key(&run[0]); N];
    for (place, hit) in keys.iter_mut().zip(run) {
        *place = key(hit);
    }
    let mut ranks = [0i16; N];
    for &other in &keys[..run.len()] {
        for (rank, key) in ranks.iter_mut().zip(&keys) {
            *rank += i16::from(*key > other);
        }
    }
    let (low, high) = keys.iter().fold((i16::MAX, i16::MIN), |(a, b), &k| (a.min(k), b.max(k)));
    (ranks, i32::from(high) - i32::from(low) + 1)
}

/// Order of strips by ranks. `None` if a strip is hit more than once, so that times matter.
#[inline]
fn places(ranks: &[i16], order: &mut [u8; SHORT]) -> Option<()> {
    let mut places = 0u32;
    for (i, rank) in ranks.iter().enumerate() {
        let place = *rank as usize % SHORT;
        order[place] = i as u8;
        places |= 1 << place;
    }
    (places.count_ones() as usize == ranks.len()).then_some(())
}

/// The one cluster of a run of `N` hits at most whose span in time is small enough; `None` if there may be more, or if a strip is hit
/// more than once.
#[inline(always)]
fn whole<const N: usize>(
    run: &[FineHit],
    (ranks, width): (&[i16; N], i32),
    (low, high): Span,
    step: i32,
) -> Option<Centre> {
    let n = run.len();
    // In place of its neighbours: no more strips are missing in all than may be in one place.
    let is_dense = width - (n as i32) < step;
    let (mut adc, mut moment, mut sum) = (0u64, 0u64, 0);
    let mut products = [0.0; N];
    for (hit, &rank) in run.iter().zip(ranks) {
        let (a, place) = (u32::from(hit.weight), rank as usize % N);
        adc += u64::from(a);
        moment += u64::from(u32::from(hit.coordinate) * a);
        products[place] = hit.ns() * f64::from(hit.weight);
        sum += place;
    }
    // Ranks of different strips are 0 to n - 1; those of equal ones are less.
    if !is_dense | (sum != n * (n - 1) / 2) {
        return None;
    }
    // In the order of strips, as the format asks for.
    let time = products[..n].iter().fold(0.0, |sum, product| sum + product);
    Some(Centre {
        size: n as u32,
        adc,
        pos: moment as f64 / adc as f64,
        time: time / adc as f64,
        first: low,
        last: high,
    })
}

/// Cuts a run of one plane into clusters and calls `cluster` with each and its hits; the number of hits of those that are too small is
/// returned.
pub(super) fn clusters(
    run: &mut [FineHit],
    plane: u8,
    parameters: &Parameters,
    mut cluster: impl FnMut(PlaneCluster, &[FineHit]),
) -> u64 {
    let step = step(plane, parameters);
    by_strip(run);
    let mut small = 0;
    let mut end = |hits: &[FineHit]| {
        let sums = (hits.len() as f64 >= parameters.cluster_size)
            .then(|| values(hits, plane, parameters.algo));
        match sums.filter(|c| c.adc > 0) {
            Some(c) => cluster(c, hits),
            None => small += hits.len() as u64,
        }
    };
    let mut open: Option<(usize, Growing)> = None;
    for (i, hit) in run.iter().enumerate() {
        match &mut open {
            Some((_, growing)) if growing.takes(hit, step, parameters.span) => growing.add(hit),
            _ => {
                if let Some((start, _)) = open {
                    end(&run[start..i]);
                }
                open = Some((i, Growing::new(hit)));
            }
        }
    }
    if let Some((start, _)) = open {
        end(&run[start..]);
    }
    small
}

/// Largest difference of strips that are neighbours: |difference| - 1 <= missing, in whole numbers.
fn step(plane: u8, parameters: &Parameters) -> i32 {
    let any_strip = parameters.algo == 5 && plane == 2;
    if any_strip { i32::MAX } else { (parameters.missing + 1.0).floor() as i32 }
}

/// The same as [`clusters`] where no more than [`Centre`] is wanted: hits stay where they are. `span`: first and last time of the run.
#[inline]
pub(super) fn centres(
    run: &mut [FineHit],
    span: Span,
    plane: u8,
    parameters: &Parameters,
    cluster: impl FnMut(Centre),
) -> u64 {
    let step = step(plane, parameters);
    let how = (span, step, parameters);
    match run.len() {
        0 => 0,
        1 => exactly::<1>(run, how, cluster),
        2 => exactly::<2>(run, how, cluster),
        3 => exactly::<3>(run, how, cluster),
        4 => exactly::<4>(run, how, cluster),
        5 => exactly::<5>(run, how, cluster),
        6 => exactly::<6>(run, how, cluster),
        7 => exactly::<7>(run, how, cluster),
        8 => exactly::<8>(run, how, cluster),
        9..=16 => short::<16>(run, how, cluster),
        17..=SHORT => short::<SHORT>(run, how, cluster),
        _ => {
            by_strip(run);
            walk(run.len(), |i| &run[i], step, parameters, cluster)
        }
    }
}

/// Span of a run, largest step between neighbours, and the rest of what decides.
type How<'a> = (Span, i32, &'a Parameters);

/// A run of `LEN` hits, 8 at most: what depends on the length is decided once, and no loop ends by surprise. 1.08 times the rate of the whole chain
/// on the public capture of two planes, 1.1 times on that of three.
#[inline]
fn exactly<const LEN: usize>(
    run: &mut [FineHit],
    how: How<'_>,
    cluster: impl FnMut(Centre),
) -> u64 {
    short::<8>(&mut run[..LEN], how, cluster)
}

/// A run of `N` hits at most, which is mostly one track.
#[inline(always)]
fn short<const N: usize>(
    run: &mut [FineHit],
    (span, step, parameters): How<'_>,
    mut cluster: impl FnMut(Centre),
) -> u64 {
    let (ranks, width) = ranks::<N>(run);
    if span.1 - span.0 <= parameters.span
        && let Some(centre) = whole(run, (&ranks, width), span, step)
    {
        return ended(centre, parameters, &mut cluster);
    }
    let mut order = [0; SHORT];
    if places(&ranks[..run.len()], &mut order).is_some() {
        let at = |i: usize| &run[usize::from(order[i % SHORT])];
        return walk(run.len(), at, step, parameters, cluster);
    }
    by_strip(run);
    walk(run.len(), |i| &run[i], step, parameters, cluster)
}

/// A cluster, or the hits of one that is too small or has no amplitude.
#[inline]
fn ended(centre: Centre, parameters: &Parameters, cluster: &mut impl FnMut(Centre)) -> u64 {
    if f64::from(centre.size) >= parameters.cluster_size && centre.adc > 0 {
        cluster(centre);
        return 0;
    }
    u64::from(centre.size)
}

/// Cuts hits in order of strips, hit by hit.
#[inline]
fn walk<'a>(
    n: usize,
    at: impl Fn(usize) -> &'a FineHit,
    step: i32,
    parameters: &Parameters,
    mut cluster: impl FnMut(Centre),
) -> u64 {
    let mut small = 0;
    let mut growing = Growing::new(at(0));
    for i in 1..n {
        let hit = at(i);
        if growing.takes(hit, step, parameters.span) {
            growing.add(hit);
        } else {
            small += ended(growing.centre(), parameters, &mut cluster);
            growing = Growing::new(hit);
        }
    }
    small + ended(growing.centre(), parameters, &mut cluster)
}

/// A cluster that grows by strips.
#[derive(Debug, Clone, Copy)]
struct Growing {
    size: u32,
    strip: i32,
    adc: u64,
    moment: u64,
    time: f64,
    low: f64,
    high: f64,
}

impl Growing {
    #[inline]
    fn new(hit: &FineHit) -> Growing {
        let t = hit.ns();
        let mut growing =
            Growing { size: 0, strip: 0, adc: 0, moment: 0, time: 0.0, low: t, high: t };
        growing.add(hit);
        growing
    }

    /// True if a hit on the same or a higher strip is near enough.
    #[inline]
    fn takes(&self, hit: &FineHit, step: i32, span: f64) -> bool {
        let t = hit.ns();
        (i32::from(hit.coordinate) - self.strip <= step)
            & (t - self.low <= span)
            & (self.high - t <= span)
    }

    /// All sums in the order of the hits; those of strips as integers that doubles hold exactly.
    #[inline]
    fn add(&mut self, hit: &FineHit) {
        let (a, s, t) = (u32::from(hit.weight), i32::from(hit.coordinate), hit.ns());
        self.size += 1;
        self.strip = s;
        self.adc += u64::from(a);
        self.moment += u64::from(s as u32 * a);
        self.time += t * f64::from(hit.weight);
        self.low = if t < self.low { t } else { self.low };
        self.high = if t > self.high { t } else { self.high };
    }

    #[inline]
    fn centre(&self) -> Centre {
        Centre {
            size: self.size,
            adc: self.adc,
            pos: self.moment as f64 / self.adc as f64,
            time: self.time / self.adc as f64,
            first: self.low,
            last: self.high,
        }
    }
}

/// All values of a cluster; `hits` is not empty.
#[inline]
pub(super) fn values(hits: &[FineHit], plane: u8, algo: u8) -> PlaneCluster {
    let (mut adc, mut adc2, mut moment, mut moment2) = (0u64, 0u64, 0u64, 0u64);
    let (mut time, mut time2) = (0.0, 0.0);
    let (mut first, mut last) = (f64::INFINITY, f64::NEG_INFINITY);
    let (mut left, mut right) = (0, 0);
    for (i, hit) in hits.iter().enumerate() {
        let (a, s, t) = (u32::from(hit.weight), u32::from(hit.coordinate), hit.ns());
        let weight = f64::from(hit.weight);
        adc += u64::from(a);
        adc2 += u64::from(a * a);
        moment += u64::from(s * a);
        moment2 += u64::from(s) * u64::from(a * a);
        time += t * weight;
        time2 += t * weight * weight;
        first = if t < first { t } else { first };
        right = if t >= last { i } else { right };
        left = if t > last { i } else { left };
        last = if t > last { t } else { last };
    }
    let k = latest(left, right, hits.len(), |i| hits[i].weight);
    let (pos_algo, time_algo) = match algo {
        0 => (0.0, 0.0),
        _ => algorithm(hits, plane, algo, k)
            .unwrap_or((moment as f64 / adc as f64, time / adc as f64)),
    };
    PlaneCluster {
        number: 0,
        size: hits.len() as u32,
        adc,
        pos: moment as f64 / adc as f64,
        time: time / adc as f64,
        pos_utpc: f64::from(hits[k].coordinate),
        time_utpc: hits[k].ns(),
        pos_charge2: moment2 as f64 / adc2 as f64,
        time_charge2: time2 / adc2 as f64,
        pos_algo,
        time_algo,
        first,
        last,
        used: false,
    }
}

/// `-algo`; `None` where the fit fails.
fn algorithm(hits: &[FineHit], plane: u8, algo: u8, k: usize) -> Option<(f64, f64)> {
    let near = &hits[k.saturating_sub(1)..(k + 2).min(hits.len())];
    let flagged = || hits.iter().filter(|hit| hit.flags & OVER != 0);
    let plain = |hit: &FineHit| f64::from(hit.weight);
    let square = |hit: &FineHit| f64::from(hit.weight) * f64::from(hit.weight);
    match algo {
        1 => gaussian(hits),
        2 => Some(weighted(flagged(), plain)),
        3 => Some(weighted(flagged(), square)),
        4 => {
            let largest =
                hits.iter().reduce(|best, hit| if hit.weight > best.weight { hit } else { best });
            largest.map(|hit| (f64::from(hit.coordinate), hit.ns()))
        }
        5 if plane == 2 => {
            Some((0.0, hits.iter().map(|hit| f64::from(hit.coordinate).exp2()).sum()))
        }
        6 => Some(weighted(near, square)),
        7 => Some(weighted(near, plain)),
        late_end::ALGO => Some(late_end(hits)),
        _ => Some((0.0, 0.0)),
    }
}

/// Weighted strip and time; 0, 0 without weight.
fn weighted<'a>(
    hits: impl IntoIterator<Item = &'a FineHit>,
    weight: impl Fn(&FineHit) -> f64,
) -> (f64, f64) {
    let (mut sum, mut pos, mut time) = (0.0, 0.0, 0.0);
    for hit in hits {
        let w = weight(hit);
        sum += w;
        pos += w * f64::from(hit.coordinate);
        time += w * hit.ns();
    }
    if sum > 0.0 { (pos / sum, time / sum) } else { (0.0, 0.0) }
}

/// Mean of a Gaussian through (strip, amplitude), and the centre of mass of the times: a parabola through the logarithms, weighted
/// with the squared amplitudes. `None` for fewer than 3 strips, and where the parabola has no maximum within them.
fn gaussian(hits: &[FineHit]) -> Option<(f64, f64)> {
    let (low, high) = (hits.first()?.coordinate, hits.last()?.coordinate);
    if hits.len() <= 2 {
        return None;
    }
    let (mut s, mut r) = ([0.0; 5], [0.0; 3]);
    for hit in hits.iter().filter(|hit| hit.weight > 0) {
        let (x, a) = (f64::from(hit.coordinate - low), f64::from(hit.weight));
        let (w, y) = (a * a, a.ln());
        let mut power = w;
        for (n, cell) in s.iter_mut().enumerate() {
            *cell += power;
            if let Some(cell) = r.get_mut(n) {
                *cell += power * y;
            }
            power *= x;
        }
    }
    let det = |m: [[f64; 3]; 3]| {
        m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1])
            - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0])
            + m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0])
    };
    let all = det([[s[0], s[1], s[2]], [s[1], s[2], s[3]], [s[2], s[3], s[4]]]);
    let linear = det([[s[0], r[0], s[2]], [s[1], r[1], s[3]], [s[2], r[2], s[4]]]) / all;
    let curve = det([[s[0], s[1], r[0]], [s[1], s[2], r[1]], [s[2], s[3], r[2]]]) / all;
    let mean = f64::from(low) - linear / (2.0 * curve);
    let within = curve < 0.0 && mean >= f64::from(low) && mean <= f64::from(high);
    within.then(|| (mean, weighted(hits, |hit| f64::from(hit.weight)).1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hit(ns: f64, coordinate: u16, weight: u16) -> FineHit {
        FineHit { time: FineHit::key(ns), coordinate, weight, flags: OVER, ..FineHit::default() }
    }

    fn ends(run: &[FineHit]) -> Span {
        let ends = (f64::INFINITY, f64::NEG_INFINITY);
        run.iter().map(FineHit::ns).fold(ends, |(a, b), t| (a.min(t), b.max(t)))
    }

    fn sizes(mut run: Vec<FineHit>, parameters: &Parameters) -> Vec<(u32, f64)> {
        let mut seen = Vec::new();
        clusters(&mut run, 0, parameters, |c, _| seen.push((c.size, c.pos_utpc)));
        seen
    }

    #[test]
    fn strips_may_be_missing_and_the_span_is_limited() {
        let p = Parameters { span: 100.0, ..Parameters::default() };
        let run = vec![hit(0.0, 10, 5), hit(50.0, 12, 5), hit(60.0, 15, 5)];
        assert_eq!(sizes(run, &p), [(2, 12.0), (1, 15.0)]);
        let run = vec![hit(0.0, 10, 5), hit(101.0, 11, 5), hit(60.0, 12, 5)];
        assert_eq!(sizes(run, &p), [(1, 10.0), (2, 11.0)], "closing is final");
    }

    proptest! {
        /// What most need is what is made for all, for runs of every length, however their hits are mixed.
        #[test]
        fn centres_are_those_of_all_values(
            hits in proptest::collection::vec((0u16..300, 0u16..60, 0u16..5), 1..50),
            wide in any::<bool>(), missing in 0u8..3, span in 1u16..300, size in 1u8..4,
        ) {
            let strip = |s: u16| if wide { 65_534 - s * 7 } else { s };
            let run: Vec<_> = hits
                .iter()
                .map(|h| hit(1e12 + f64::from(h.0) / 7.0, strip(h.1), h.2 * 200))
                .collect();
            let (missing, span) = (f64::from(missing), f64::from(span) / 7.0);
            let p = Parameters { missing, span, cluster_size: f64::from(size), ..Parameters::default() };
            let (mut all, mut some) = (Vec::new(), Vec::new());
            let small = clusters(&mut run.clone(), 0, &p, |c, _| all.push(c.centre()));
            let few = centres(&mut run.clone(), ends(&run), 0, &p, |c| some.push(c));
            prop_assert_eq!((some, few), (all, small));
        }
    }

    #[test]
    fn small_and_empty_clusters_vanish() {
        let p = Parameters { cluster_size: 2.0, ..Parameters::default() };
        let run =
            vec![hit(0.0, 1, 5), hit(0.0, 5, 0), hit(0.0, 6, 0), hit(0.0, 9, 1), hit(0.0, 9, 1)];
        let mut seen = 0;
        assert_eq!(centres(&mut run.clone(), ends(&run), 0, &p, |c| seen += c.size), 3);
        assert_eq!(seen, 2);
    }

    #[test]
    fn equal_latest_times_are_decided_by_distance_then_weight() {
        let pick = |first, last, n, weights: &[u16]| latest(first, last, n, |i| weights[i]);
        assert_eq!(pick(1, 2, 4, &[0, 2, 3, 0]), 2);
        assert_eq!(pick(1, 2, 4, &[0, 3, 2, 0]), 1);
        assert_eq!(pick(1, 2, 4, &[0, 2, 2, 0]), 2);
        assert_eq!(pick(0, 2, 4, &[0; 4]), 0);
        assert_eq!(pick(1, 3, 4, &[0; 4]), 3);
    }

    #[test]
    fn every_algorithm_gives_its_value() {
        let hits = [hit(0.0, 10, 100), hit(4.0, 11, 300), hit(8.0, 12, 200), hit(2.0, 13, 50)];
        let at = |algo| algorithm(&hits, 0, algo, 2);
        assert_eq!(at(4), Some((11.0, 4.0)));
        assert_eq!(at(5), Some((0.0, 0.0)));
        assert_eq!(
            at(7),
            Some(((3300.0 + 2400.0 + 650.0) / 550.0, (1200.0 + 1600.0 + 100.0) / 550.0))
        );
        assert_eq!(algorithm(&hits, 2, 5, 2), Some((0.0, 15_360.0)));
        let (mean, _) = at(1).unwrap();
        assert!((11.0..12.0).contains(&mean), "{mean}");
        assert_eq!(algorithm(&hits[..2], 0, 1, 0), None);
    }
}
