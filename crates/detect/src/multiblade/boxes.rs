//! Boxes of one cassette: hits close in time become candidates, as sums of both planes.
//!
//! A box holds the hits within 2010 ns of its first one. Where all hits of a box lie within both gaps, they
//! are one candidate whatever their coordinates are, because the matching joins what lies close in time; then
//! the sums are made at once. Other boxes, and those in which two neutrons are to be told apart, go through the
//! clusterer. Refuses nothing. Source: `docs/formats/multiblade.md` section 5.

use fullcount_core::products::PlaneHit;

use super::layout::Steps;
use crate::cluster::gap::Gaps;
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
    /// Space for the clusterer.
    planes: [Vec<PlaneHit>; 2],
    clusters: Vec<Cluster>,
}

impl Boxes {
    /// Nothing seen yet; `resolve`: two neutrons at once are told apart by amplitude.
    pub fn new(steps: Steps, resolve: bool) -> Boxes {
        let joined = steps.time_gap.min(steps.matching_gap);
        Boxes { steps, joined, resolve, planes: [Vec::new(), Vec::new()], clusters: Vec::new() }
    }

    /// Hits of one cassette in a segment, sorted by time; `start` is that of the cassette's latest box.
    #[inline]
    pub fn segment(&mut self, hits: &[PlaneHit], start: &mut i64, to: &mut impl Candidates) {
        let mut rest = hits;
        while let Some(first) = rest.first() {
            // A time before the start is far behind it, modulo 2⁶⁴.
            if first.time.wrapping_sub(*start) as u64 >= self.steps.box_ticks {
                *start = first.time;
            }
            let end = self.steps.box_ticks.saturating_add_signed(*start);
            let inside = |hit: &PlaneHit| (hit.time as u64) < end;
            let mut n = 1;
            while n < rest.len() && inside(&rest[n]) {
                n += 1;
            }
            let (group, behind) = rest.split_at(n);
            self.group(group, to);
            rest = behind;
        }
    }

    /// The hits of one box.
    #[inline]
    fn group(&mut self, hits: &[PlaneHit], to: &mut impl Candidates) {
        let (Some(first), Some(last)) = (hits.first(), hits.last()) else { return };
        if last.time - first.time > self.joined {
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

#[cfg(test)]
#[path = "boxes_tests.rs"]
mod tests;
