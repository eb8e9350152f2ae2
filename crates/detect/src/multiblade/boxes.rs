//! Boxes of one cassette: hits close in time become candidates, as sums of both planes.
//!
//! A box holds the hits within 2010 ns of its first one. Where all hits of a box lie within both gaps, they
//! are one candidate whatever their coordinates are, because the matching joins what lies close in time; then
//! the sums are made at once. Other boxes, and those in which two neutrons are to be told apart, go through the
//! clusterer.
//!
//! Readouts of one neutron come in any order, those of different neutrons nearly always one neutron after the
//! other. No sum depends on the order, so that a box needs no sorting: it is enough to know that nothing behind
//! it is earlier than its end. Only where boxes are mixed is that stretch sorted. Refuses nothing. Source: `docs/formats/multiblade.md` section 5.

use fullcount_core::products::PlaneHit;

use super::layout::Steps;
use crate::cluster::gap::{Gaps, sort_by_time};
use crate::cluster::matching::{self, Cluster};
use crate::cluster::plane::PlaneSum;

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
        let mut ahead = std::mem::take(&mut self.ahead);
        ahead.clear();
        ahead.resize(hits.len() + 1, i64::MAX);
        let mut least = i64::MAX;
        for (hit, ahead) in hits.iter().zip(&mut ahead).rev() {
            least = least.min(hit.time);
            *ahead = least;
        }
        let (mut at, mut mixed) = (0, None);
        while at < hits.len() {
            let first = ahead[at];
            // A time before the start is far behind it, modulo 2⁶⁴.
            if first.wrapping_sub(*start) as u64 >= self.steps.box_ticks {
                *start = first;
            }
            let end = self.steps.box_ticks.saturating_add_signed(*start);
            let (mut behind, mut last) = (at, first);
            for (hit, &earliest) in hits[at..].iter().zip(&ahead[at..]) {
                if earliest as u64 >= end {
                    break;
                }
                last = last.max(hit.time);
                behind += 1;
            }
            if last as u64 >= end {
                // A hit of a later box came before the last one of this box.
                let again = mixed.replace(at) == Some(at);
                sort_stretch(hits, &mut ahead, at, if again { hits.len() } else { behind });
                continue;
            }
            self.group(&hits[at..behind], last - first, to);
            at = behind;
        }
        self.ahead = ahead;
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

/// Sorts the hits from `at` to `least` or beyond, up to where everything before is earlier than everything behind.
#[cold]
fn sort_stretch(hits: &mut [PlaneHit], ahead: &mut [i64], at: usize, least: usize) {
    let (mut end, mut latest) = (at, i64::MIN);
    while end < hits.len() && (end < least || latest > ahead[end]) {
        latest = latest.max(hits[end].time);
        end += 1;
    }
    sort_by_time(&mut hits[at..end]);
    for (hit, earliest) in hits[at..end].iter().zip(&mut ahead[at..end]) {
        *earliest = hit.time;
    }
}

#[cfg(test)]
#[path = "boxes_tests.rs"]
mod tests;
