//! Boxes of one cassette: hits close in time become candidates, as sums of both planes.
//!
//! A box holds the hits within 2010 ns of its first one. Where all hits of a box lie within both gaps, they
//! are one candidate whatever their coordinates are, because the matching joins what lies close in time; then
//! the sums are made at once. Other boxes, and those in which two neutrons are to be told apart, go through the
//! clusterer.
//!
//! Readouts of one neutron come in any order, those of different neutrons nearly always one neutron after the
//! other. No sum depends on the order, so that a box needs no sorting: it is enough to know that nothing behind
//! it is earlier than its end. Only where boxes are mixed is that stretch sorted. Short segments are sorted first,
//! which is quicker. Source: `docs/formats/multiblade.md` section 5.

use crate::hits::PlaneHit;

use super::layout::Steps;
use crate::cluster::gap::{Gaps, sort_by_time};
use crate::cluster::matching::{self, Cluster};
use crate::cluster::plane::PlaneSum;

/// Hits from which on a segment is not sorted. One core, per second: recorded packets of 12 readouts, most of them
/// alone in their box, 85 M readouts sorted and 70 M not; simulated ones of 70, 52 M sorted and 70 M not.
const LONG: usize = 32;

/// What takes the candidates.
pub(super) trait Candidates {
    /// Sums of planes 0 and 1; one may be empty.
    fn candidate(&mut self, planes: &[PlaneSum; 2]);

    /// Hits of one plane only, known before their sums are.
    fn no_coincidence(&mut self, hits: &[PlaneHit]);

    /// The next two candidates are two neutrons at the same time.
    fn resolved(&mut self);
}

/// Makes candidates; one for all cassettes.
pub(super) struct Boxes {
    steps: Steps,
    /// Length up to which a box is one candidate, ticks.
    joined: i64,
    resolve: bool,
    /// Earliest time from each hit of a segment on.
    ahead: Vec<i64>,
    /// Space for the clusterer.
    planes: [Vec<PlaneHit>; 2],
    clusters: Vec<Cluster>,
}

impl Boxes {
    /// Nothing seen yet; `resolve`: two neutrons at once are told apart by amplitude.
    pub fn new(steps: Steps, resolve: bool) -> Boxes {
        let joined = steps.time_gap.min(steps.matching_gap);
        let planes = [Vec::new(), Vec::new()];
        Boxes { steps, joined, resolve, ahead: Vec::new(), planes, clusters: Vec::new() }
    }

    /// Hits of one cassette in a segment, in any order; times are not negative. `start` is that of the cassette's
    /// latest box.
    #[inline]
    pub fn segment(&mut self, hits: &mut [PlaneHit], start: &mut i64, to: &mut impl Candidates) {
        self.segment_from(LONG, hits, start, to);
    }

    /// The same; segments of fewer than `long` hits are sorted first.
    #[inline]
    fn segment_from(
        &mut self,
        long: usize,
        hits: &mut [PlaneHit],
        start: &mut i64,
        to: &mut impl Candidates,
    ) {
        let mut room = std::mem::take(&mut self.ahead);
        let mut ahead = match hits.len() < long {
            true => {
                sort_by_time(hits);
                None
            }
            false => Some(earliest_from(hits, &mut room)),
        };
        let mut at = 0;
        while at < hits.len() {
            let first = ahead.as_ref().map_or(hits[at].time, |ahead| ahead[at]);
            // A time before the start is far behind it, modulo 2⁶⁴.
            if first.wrapping_sub(*start) as u64 >= self.steps.box_ticks {
                *start = first;
            }
            let end = self.steps.box_ticks.saturating_add_signed(*start);
            let (n, last) = match &mut ahead {
                None => sorted_box(&hits[at..], end),
                Some(ahead) => unsorted_box(&mut hits[at..], &mut ahead[at..], end),
            };
            // One place for both, so that all of it is made inline.
            self.group(&hits[at..at + n], last - first, to);
            at += n;
        }
        self.ahead = room;
    }

    /// The hits of one box, which span `length` ticks.
    #[inline]
    fn group(&mut self, hits: &[PlaneHit], length: i64, to: &mut impl Candidates) {
        if length > self.joined {
            self.clustered(hits, to);
            return;
        }
        let second: usize = hits.iter().map(|h| usize::from(h.plane)).sum();
        if second == 0 || second == hits.len() {
            to.no_coincidence(hits);
        } else if self.resolve {
            self.clustered(hits, to);
        } else {
            let mut planes = [PlaneSum::EMPTY; 2];
            for hit in hits {
                planes[usize::from(hit.plane & 1)].add(hit);
            }
            to.candidate(&planes);
        }
    }

    /// A box that needs clusters: it is longer than a gap, or two neutrons are to be told apart.
    #[cold]
    fn clustered(&mut self, hits: &[PlaneHit], to: &mut impl Candidates) {
        let gaps =
            Gaps { time: self.steps.time_gap, length: None, coordinate: self.steps.coordinate_gap };
        self.clusters.clear();
        for (plane, mine) in self.planes.iter_mut().enumerate() {
            mine.clear();
            mine.extend(hits.iter().filter(|h| usize::from(h.plane) == plane));
            let clusters = &mut self.clusters;
            gaps.clusters(mine, |sum| clusters.push(Cluster { plane: plane as u8, sum }));
        }
        let resolve = self.resolve;
        matching::by_time(&mut self.clusters, self.steps.matching_gap, |event| {
            if resolve && let Some(pairs) = matching::by_amplitude(event) {
                to.resolved();
                pairs.iter().for_each(|planes| to.candidate(planes));
                return;
            }
            let planes = [matching::plane(event, 0), matching::plane(event, 1)];
            to.candidate(&planes);
        });
    }
}

/// Earliest time from each hit on, in `room`.
#[inline]
fn earliest_from<'a>(hits: &[PlaneHit], room: &'a mut Vec<i64>) -> &'a mut [i64] {
    if room.len() < hits.len() {
        room.resize(hits.len(), 0);
    }
    let ahead = &mut room[..hits.len()];
    let mut least = i64::MAX;
    for (hit, ahead) in hits.iter().zip(ahead.iter_mut()).rev() {
        least = least.min(hit.time);
        *ahead = least;
    }
    ahead
}

/// Number of hits before `end`, at least 1, and the latest of them, of hits that are sorted.
#[inline]
fn sorted_box(hits: &[PlaneHit], end: u64) -> (usize, i64) {
    let mut n = 1;
    while n < hits.len() && (hits[n].time as u64) < end {
        n += 1;
    }
    (n, hits[n - 1].time)
}

/// The same of hits in any order: the first so many are the box, after sorting where it is mixed with others.
#[inline]
fn unsorted_box(hits: &mut [PlaneHit], ahead: &mut [i64], end: u64) -> (usize, i64) {
    let (mut n, mut last) = (0, 0);
    for (hit, &earliest) in hits.iter().zip(&*ahead) {
        if earliest as u64 >= end {
            break;
        }
        last = last.max(hit.time);
        n += 1;
    }
    if (last as u64) < end {
        return (n, last);
    }
    // A hit of a later box came before the last one of this box.
    sort_stretch(hits, ahead, n);
    sorted_box(&hits[..n.max(1)], end)
}

/// Sorts the first `least` hits and as many more as it takes for all of them to be earlier than all behind.
#[cold]
fn sort_stretch(hits: &mut [PlaneHit], ahead: &mut [i64], least: usize) {
    let (mut end, mut latest) = (0, i64::MIN);
    while end < hits.len() && (end < least || latest > ahead[end]) {
        latest = latest.max(hits[end].time);
        end += 1;
    }
    sort_by_time(&mut hits[..end]);
    for (hit, earliest) in hits[..end].iter().zip(&mut ahead[..end]) {
        *earliest = hit.time;
    }
}

#[cfg(test)]
#[path = "boxes_tests.rs"]
mod tests;
