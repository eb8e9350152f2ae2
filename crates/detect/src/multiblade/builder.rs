//! Makes events of hits: boxes per cassette, clusters in both planes, matching, pixels.
//!
//! Cuts the hits into segments and cassettes; [`boxes`](super::boxes) makes candidates of them and
//! [`judge`](super::judge) events. Refuses nothing. Source: `docs/formats/multiblade.md` sections 4 to 6.

use std::sync::Arc;

use fullcount_core::ledger::Sheet;
use fullcount_core::products::{EventBatch, PlaneHit, Products};
use fullcount_core::time::Nanos;

use super::boxes::Boxes;
use super::counters::Built;
use super::judge::Judge;
use super::layout::{Layout, Mode};
use super::reader::MONITOR;
use super::{Options, TimeBase};
use crate::detector::Builder;

/// The builder of one worker.
pub(super) struct BladeBuilder {
    sheet: Arc<Sheet>,
    layout: Arc<Layout>,
    work: Work,
    /// Start of each cassette's latest box, ticks; kept over segments.
    starts: Vec<i64>,
    /// Hits of each cassette, where every cassette has a builder of its own.
    cassettes: Option<Vec<Vec<PlaneHit>>>,
}

/// What one cassette's hits go through.
struct Work {
    judge: Judge,
    boxes: Boxes,
}

impl BladeBuilder {
    pub fn new(layout: Arc<Layout>, options: &Options, time: &TimeBase) -> BladeBuilder {
        let judge = Judge::new(layout.clone(), options, time);
        let work = Work { judge, boxes: Boxes::new(layout.steps, options.resolve_doubles) };
        let cassettes = usize::from(layout.sizes.cassettes);
        BladeBuilder {
            sheet: Sheet::new(Built::catalogue()),
            layout,
            work,
            starts: vec![0; cassettes],
            cassettes: options.per_cassette().then(|| vec![Vec::new(); cassettes]),
        }
    }

    /// One segment: hits of a packet between two restarts of the digitiser's clock.
    #[inline]
    fn segment(&mut self, hits: &mut [PlaneHit], mixed: bool, events: &mut EventBatch) {
        let Some(first) = hits.first() else { return };
        if mixed || self.layout.mode == Mode::OneD {
            self.mixed_segment(hits, events);
        } else {
            let start = &mut self.starts[usize::from(first.module)];
            self.work.cassette(hits, start, events);
        }
    }

    /// Hits of several cassettes, of the monitor, or each an event.
    fn mixed_segment(&mut self, mut hits: &mut [PlaneHit], events: &mut EventBatch) {
        if hits.iter().any(|h| h.plane == MONITOR) {
            // Few, and only if they are wanted as events.
            hits.sort_unstable_by_key(|h| (h.plane == MONITOR, h.time));
            let at = hits.partition_point(|h| h.plane != MONITOR);
            let (neutrons, monitor) = hits.split_at_mut(at);
            self.work.monitor(monitor, events);
            hits = neutrons;
        }
        if self.layout.mode == Mode::OneD {
            self.work.wires(hits, events);
            return;
        }
        if let Some(cassettes) = &mut self.cassettes {
            for hit in &*hits {
                cassettes[usize::from(hit.module)].push(*hit);
            }
            for (hits, start) in cassettes.iter_mut().zip(&mut self.starts) {
                self.work.cassette(hits, start, events);
                hits.clear();
            }
            return;
        }
        hits.sort_unstable_by_key(|h| (h.module, h.time));
        for hits in hits.chunk_by_mut(|a, b| a.module == b.module) {
            let start = &mut self.starts[usize::from(hits[0].module)];
            self.work.cassette(hits, start, events);
        }
    }
}

impl Work {
    /// Hits of one cassette in a segment.
    #[inline]
    fn cassette(&mut self, hits: &mut [PlaneHit], start: &mut i64, events: &mut EventBatch) {
        self.judge.tally.add(Built::Hits, hits.len() as u64);
        self.boxes.segment(hits, start, &mut self.judge.session(events));
    }

    /// Mode "1d": each wire is an event.
    fn wires(&mut self, hits: &[PlaneHit], events: &mut EventBatch) {
        let judge = &mut self.judge;
        let n = hits.len() as u64;
        judge.tally.add(Built::Hits, n);
        judge.tally.add(Built::Candidates, n);
        for hit in hits {
            let at = judge.nanos(hit.time);
            match judge.pixel(u32::from(hit.coordinate), 0) {
                Some(pixel) => {
                    judge.send(at, pixel, events);
                    judge.tally.add(Built::OneD, 1);
                    judge.tally.add(Built::Events, 1);
                    judge.tally.add(Built::Used, 1);
                }
                None => {
                    judge.tally.add(Built::GeometryErrors, 1);
                    judge.tally.add(Built::Unused, 1);
                }
            }
        }
    }

    /// The monitor's own pixel.
    fn monitor(&mut self, hits: &[PlaneHit], events: &mut EventBatch) {
        let pixel = self.judge.monitor_pixel();
        for hit in hits {
            self.judge.send(self.judge.nanos(hit.time), pixel, events);
        }
        self.judge.tally.add(Built::MonitorEvents, hits.len() as u64);
    }
}

impl Builder for BladeBuilder {
    fn build(&mut self, products: &mut Products, _: Option<Nanos>) {
        let mut hits = std::mem::take(&mut products.plane_hits);
        let mut rest = &mut hits[..];
        // Every segment ends with a border.
        while let Some(first) = rest.first() {
            let (module, mut n, mut mixed) = (first.module, 0, false);
            while n < rest.len() && rest[n].plane != PlaneHit::BORDER {
                mixed |= rest[n].module != module || rest[n].plane >= MONITOR;
                n += 1;
            }
            let (segment, behind) = rest.split_at_mut(n);
            self.work.judge.begins(behind.first().map_or(0, |border| border.time));
            self.segment(segment, mixed, &mut products.events);
            rest = behind.get_mut(1..).unwrap_or_default();
        }
        hits.clear();
        products.plane_hits = hits;
        self.work.judge.tally.flush(&self.sheet);
    }

    fn finish(&mut self, products: &mut Products) {
        self.build(products, None);
    }

    // A segment is decided with its packet.
    fn mark(&mut self) {}

    fn passed(&mut self) -> bool {
        true
    }

    fn let_go(&mut self, _: &mut Products) {}

    fn sheet(&self) -> Option<Arc<Sheet>> {
        Some(self.sheet.clone())
    }
}

#[cfg(test)]
#[path = "builder_tests.rs"]
mod tests;
