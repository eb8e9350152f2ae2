//! From a cluster of a detector to an event: its place in the picture, its pixel, its place in the order of time.
//!
//! Refuses events without a finite place, outside the region and outside the picture, and those of the online chain by its
//! filters; each is a counter. Source: `docs/formats/gdgem.md` sections 10, 11 and 14.

use std::sync::Arc;

use fullcount_core::products::EventBatch;
use fullcount_core::time::Nanos;

use super::chain::{OnlineEvent, PlaneView};
use super::counters::{BuiltCounts, GdGemBuilt};
use super::layout::{Algorithm, Layout};
use super::options::Position;
use super::pads::PadCluster;
use crate::pulses::Pulses;

/// Writes events and counts.
pub(super) struct Judge {
    pub layout: Arc<Layout>,
    pub position: Position,
    pub epoch: i64,
    pub pulses: Pulses,
    pub tally: BuiltCounts,
    /// Hits that have been decided on.
    pub decided: u64,
    /// Events of several detectors on their way into one order.
    pub found: Option<Vec<Found>>,
}

/// An event that waits for those of other detectors.
pub(super) struct Found {
    pub order: f64,
    panel: usize,
    ns: Nanos,
    pixel: u32,
}

impl Judge {
    /// Decides on hits: none of them waits any more.
    #[inline]
    pub fn decide(&mut self, line: GdGemBuilt, hits: u64) {
        self.tally.add(line, hits);
        self.decided += hits;
    }

    /// An event at (x, y), or the reason why there is none. `order`: time for the order of events, and panel.
    pub fn event(
        &mut self,
        (order, panel): (f64, usize),
        at: (f64, f64),
        time: f64,
        hits: u64,
        events: &mut EventBatch,
    ) {
        // Rounded down where they become whole numbers: without SSE4.1 `floor` is a call.
        let [x, y] = [at.0, at.1].map(|c| c + 0.5);
        if !(at.0.is_finite() && at.1.is_finite() && time.is_finite()) {
            return self.tally.add(GdGemBuilt::Bad, 1);
        }
        if let Some(online) = &self.layout.online {
            let [least, most] = online.region.map(f64::from);
            if x < least || x >= most + 1.0 {
                self.tally.add(GdGemBuilt::GeomErrors, 1);
                return self.tally.add(GdGemBuilt::OutsideRegion, 1);
            }
        }
        // Parts of one picture count its strips throughout.
        let panel = if self.layout.one_picture { 0 } else { panel };
        let inside = x >= 0.0 && y >= 0.0;
        // A conversion from a float stays within the type.
        let pixel =
            inside.then(|| self.layout.grid.pixel(x as u32, y as u32, 0, panel as u32)).flatten();
        let Some(pixel) = pixel else {
            self.tally.add(GdGemBuilt::GeomErrors, 1);
            return self.tally.add(GdGemBuilt::GeometryErrors, 1);
        };
        let ns = Nanos(self.epoch.saturating_add(whole_ns(time)));
        match &mut self.found {
            None => self.pulses.event(ns, pixel, events),
            Some(found) => found.push(Found { order, panel, ns, pixel }),
        }
        self.tally.add(GdGemBuilt::Events, 1);
        self.tally.add(GdGemBuilt::GoodHits, hits);
    }

    /// Hands on the events of several detectors up to a time, in one order that depends on the hits only.
    pub fn emit(&mut self, before: f64, events: &mut EventBatch) {
        let Some(found) = &mut self.found else { return };
        // Stable: equal ones of a detector stay as they came.
        found.sort_by(|a, b| a.order.total_cmp(&b.order).then(a.panel.cmp(&b.panel)));
        let n = match before == f64::INFINITY {
            true => found.len(),
            false => found.partition_point(|event| event.order < before),
        };
        found.drain(..n).for_each(|event| self.pulses.event(event.ns, event.pixel, events));
    }

    /// An event of pads that grew together.
    pub fn grown(&mut self, at: (f64, usize), cluster: &PadCluster, events: &mut EventBatch) {
        self.tally.add(GdGemBuilt::Candidates, 1);
        let hits = u64::from(cluster.size2);
        self.decide(GdGemBuilt::Used, hits);
        let time = cluster.time.min(cluster.last);
        self.event(at, (cluster.pos0, cluster.pos1), time, hits, events);
    }

    /// An event of the online chain (section 11).
    pub fn online(&mut self, event: &OnlineEvent<'_>, events: &mut EventBatch) {
        self.tally.add(GdGemBuilt::Candidates, 1);
        let [x, y] = &event.planes;
        let hits = u64::from(x.hits) + u64::from(y.hits);
        if x.hits == 0 || y.hits == 0 {
            self.decide(GdGemBuilt::Unmatched, hits);
            let line = if y.hits == 0 { GdGemBuilt::XOnly } else { GdGemBuilt::YOnly };
            return self.tally.add(line, 1);
        }
        self.decide(GdGemBuilt::Used, hits);
        self.tally.add(GdGemBuilt::Both, 1);
        let mut time = x.time.min(y.time);
        if let Some(online) = self.layout.online {
            let filters = online.filters;
            let few = |p: &PlaneView| p.hits < filters.minimum_hits;
            if filters.enforce_minimum_hits && (few(x) || few(y)) {
                return self.tally.add(GdGemBuilt::FilterHits, 1);
            }
            let allowed = filters.plane_0_vs_1_ratio_min..=filters.plane_0_vs_1_ratio_max;
            if filters.enforce_charge_ratio && !allowed.contains(&(x.weight / y.weight)) {
                return self.tally.add(GdGemBuilt::FilterRatio, 1);
            }
            if let Algorithm::Older { .. } = online.algorithm {
                let uncertain = x.lower.max(y.lower) >= filters.lower_uncertainty_limit;
                if filters.enforce_lower_uncertainty_limit && uncertain {
                    return self.tally.add(GdGemBuilt::FilterUncertainty, 1);
                }
                time = x.last.max(y.last);
            }
        }
        self.event((time, 0), (x.coordinate, y.coordinate), time, hits, events);
    }
}

/// Rounded down; times that no 64 bits hold become the nearest that they do.
#[inline]
fn whole_ns(time: f64) -> i64 {
    let whole = time as i64;
    whole.saturating_sub(i64::from(whole as f64 > time))
}
