//! Where the charge of a track ends on the side that came last: `algo = 100`, a way of ours beside the published ones.
//!
//! The published micro-TPC says that the strip that came last is nearest to the conversion, and gives its number. That is whole
//! strips, and where a track is steep it is often the strip behind: charge spreads onto it, and what it gets comes from the first
//! piece of the track alone, so it is later than the strip of the conversion. Here times only say which end of the track is the
//! late one, and near which hit. Where the charge ends there, its amounts say. A piece of track of length L leaves a variance of
//! L²/12 across the strips, to which the width of a strip adds 1/12 in the mean. So the end lies √(3 (variance − 1/12)) beyond
//! the centre. The piece is the hit that came last, one hit behind it as in the published weighted micro-TPC, and four on the way along
//! the track: with all of them the charge of the far end, which fluctuates, would decide. Nothing is fitted or
//! adjusted. Where no end is later the centre of mass is given.
//! Source: `docs/gdgem.md`, "Position"; for µTPC `docs/formats/gdgem.md` section 10.

use crate::hits::FineHit;

use super::plane::latest;

/// Its number among `-algo`: far from those of vmm-sdat.
pub(super) const ALGO: u8 = 100;

/// Hits beside the one that came last, away from the track and along it.
const BEHIND: usize = 1;
const ALONG: usize = 4;

/// What a strip's own width adds to the variance of places, strips².
const STRIP: f64 = 1.0 / 12.0;

/// Place, strips, and time, ns, of the late end; `hits` in order of strips. 0, 0 without hits.
pub(super) fn late_end(hits: &[FineHit]) -> (f64, f64) {
    let (Some(first), Some(k)) = (hits.first(), last_hit(hits)) else { return (0.0, 0.0) };
    // Counted from one hit on, so that no digits are lost.
    let (strip, ns) = (f64::from(first.coordinate), first.ns());
    let place = |hit: &FineHit| f64::from(hit.coordinate) - strip;
    let covariance = {
        let sums = hits.iter().fold([0.0; 4], |[q, s, t, st], hit| {
            let (a, x, y) = (f64::from(hit.weight), place(hit), hit.ns() - ns);
            [q + a, s + a * x, t + a * y, st + a * x * y]
        });
        let [q, s, t, st] = sums;
        st * q - s * t
    };
    let piece = match covariance {
        c if c > 0.0 => k.saturating_sub(ALONG)..(k + BEHIND + 1).min(hits.len()),
        c if c < 0.0 => k.saturating_sub(BEHIND)..(k + ALONG + 1).min(hits.len()),
        _ => 0..hits.len(),
    };
    let [q, s, ss] = hits[piece].iter().fold([0.0; 3], |[q, s, ss], hit| {
        let (a, x) = (f64::from(hit.weight), place(hit));
        [q + a, s + a * x, ss + a * x * x]
    });
    if q == 0.0 {
        return (f64::from(hits[k].coordinate), hits[k].ns());
    }
    let centre = s / q;
    let half = (3.0 * (ss / q - centre * centre - STRIP).max(0.0)).sqrt();
    let way = if covariance == 0.0 { 0.0 } else { covariance.signum() };
    (strip + centre + way * half, hits[k].ns())
}

/// The hit that came last, as the published micro-TPC chooses it.
fn last_hit(hits: &[FineHit]) -> Option<usize> {
    let time = hits.iter().map(|hit| hit.time).max()?;
    let is = |hit: &FineHit| hit.time == time;
    let ends = (hits.iter().position(is)?, hits.iter().rposition(is)?);
    Some(latest(ends.0, ends.1, hits.len(), |i| hits[i].weight))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hit(strip: u16, weight: u16, ns: f64) -> FineHit {
        FineHit { time: FineHit::key(ns), coordinate: strip, weight, ..FineHit::default() }
    }

    /// Hits of a track from `from` to `to`, strips, whose charge lies evenly and does not spread, 20 ns a strip.
    fn track(from: f64, to: f64) -> Vec<FineHit> {
        let (low, high) = (from.min(to), from.max(to));
        let strip = |n: u16| {
            let (left, right) = (f64::from(n) - 0.5, f64::from(n) + 0.5);
            let (left, right) = (left.max(low), right.min(high));
            let middle = (left + right) / 2.0;
            let later = 1e9 - 20.0 * (middle - from).abs();
            (right > left).then(|| hit(n, (500.0 * (right - left)) as u16, later))
        };
        (0..1000).filter_map(strip).filter(|h| h.weight > 0).collect()
    }

    #[test]
    fn the_end_is_that_of_the_charge_on_the_late_side() {
        for (from, to) in [(100.0, 104.0), (104.0, 100.0), (300.3, 302.1), (302.4, 300.3)] {
            let (place, time) = late_end(&track(from, to));
            assert!((place - from).abs() < 0.2, "{from}: {place}");
            assert!(time <= 1e9 && time > 1e9 - 20.0);
        }
    }

    #[test]
    fn a_track_without_a_late_end_is_at_its_centre() {
        let same = [hit(10, 100, 5.0), hit(11, 300, 5.0), hit(12, 100, 5.0)];
        assert_eq!(late_end(&same), (11.0, 5.0));
        assert_eq!(late_end(&same[..1]), (10.0, 5.0));
        assert_eq!(late_end(&[]), (0.0, 0.0));
        assert_eq!(late_end(&[hit(7, 0, 1.0), hit(8, 0, 2.0)]), (8.0, 2.0));
    }

    #[test]
    fn hits_far_along_the_track_do_not_count() {
        let near = track(100.0, 112.0);
        let mut far = near.clone();
        far[10].weight *= 2;
        assert_eq!(late_end(&near), late_end(&far));
    }

    proptest! {
        /// On average over the place within a strip the end is that of the track, and single ones are near.
        #[test]
        fn ends_are_not_off_to_one_side(length in 1.5f64..16.0, left in any::<bool>()) {
            let ends = (0..200).map(|n| {
                let from = 200.0 + f64::from(n) / 200.0;
                let to = if left { from - length } else { from + length };
                (late_end(&track(from, to)).0 - from) * (to - from).signum()
            });
            let off: Vec<f64> = ends.collect();
            prop_assert!(off.iter().all(|d| d.abs() < 0.5), "{off:?}");
            let mean = off.iter().sum::<f64>() / 200.0;
            prop_assert!(mean.abs() < 0.15, "{mean}");
        }

        /// Never far from the strips that were hit, never later than them, whatever they are.
        #[test]
        fn any_hits_give_a_place_beside_them(
            mut hits in proptest::collection::vec((0u16..2000, 0u16..1024, 0u32..500), 1..60),
        ) {
            hits.sort_by_key(|h| h.0);
            let hits: Vec<_> = hits.iter().map(|h| hit(h.0, h.1, f64::from(h.2))).collect();
            let (place, time) = late_end(&hits);
            let (low, high) = (f64::from(hits[0].coordinate), f64::from(hits[hits.len() - 1].coordinate));
            let room = 1.0 + (high - low);
            prop_assert!((low - room..=high + room).contains(&place), "{place}");
            prop_assert!(hits.iter().any(|h| h.ns() == time));
        }
    }
}
