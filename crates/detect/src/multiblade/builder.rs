//! Makes events of hits: boxes per cassette, clusters in both planes, matching, pixels.
//!
//! Cuts the hits into segments and cassettes; [`boxes`](super::boxes) makes candidates of them and
//! [`judge`](super::judge) events. Source: `docs/formats/multiblade.md` sections 4 to 6.

use std::sync::Arc;

use fullcount_core::ledger::Sheet;
use fullcount_core::products::{EventBatch, Products};
use fullcount_core::progress::{BatchNumber, Flush};
use fullcount_core::time::Nanos;

use super::boxes::Boxes;
use super::counters::MultiBladeBuilt;
use super::judge::Judge;
use super::layout::{Layout, Mode};
use super::reader::MONITOR;
use super::{Options, TimeBase};
use crate::detector::{CommandError, CommandInfo};
use crate::hits::PlaneHit;
use crate::steps::Builder;
use crate::thresholds::{self, Threshold};

/// The builder of one worker.
pub(super) struct BladeBuilder {
    sheet: Arc<Sheet>,
    layout: Arc<Layout>,
    work: Work,
    /// Start of each cassette's latest box, ticks; kept over segments.
    starts: Vec<i64>,
    /// Hits of each cassette, where every cassette has a builder of its own.
    cassettes: Option<Vec<Vec<PlaneHit>>>,
    /// Threshold of all wires, where a command has set it.
    threshold: Option<u16>,
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
            sheet: Sheet::new(MultiBladeBuilt::catalogue()),
            layout,
            work,
            starts: vec![0; cassettes],
            cassettes: options.per_cassette().then(|| vec![Vec::new(); cassettes]),
            threshold: None,
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
        self.judge.tally.add(MultiBladeBuilt::Hits, hits.len() as u64);
        self.boxes.segment(hits, start, &mut self.judge.session(events));
    }

    /// Mode "1d": each wire is an event.
    fn wires(&mut self, hits: &[PlaneHit], events: &mut EventBatch) {
        let judge = &mut self.judge;
        let n = hits.len() as u64;
        judge.tally.add(MultiBladeBuilt::Hits, n);
        judge.tally.add(MultiBladeBuilt::Candidates, n);
        for hit in hits {
            let at = judge.nanos(hit.time);
            match judge.pixel(u32::from(hit.coordinate), 0) {
                Some(pixel) => {
                    judge.send(at, pixel, events);
                    judge.tally.add(MultiBladeBuilt::OneD, 1);
                    judge.tally.add(MultiBladeBuilt::Events, 1);
                    judge.tally.add(MultiBladeBuilt::Used, 1);
                }
                None => {
                    judge.tally.add(MultiBladeBuilt::GeometryErrors, 1);
                    judge.tally.add(MultiBladeBuilt::Unused, 1);
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
        self.judge.tally.add(MultiBladeBuilt::MonitorEvents, hits.len() as u64);
    }
}

impl Builder for BladeBuilder {
    type Hit = PlaneHit;

    fn build(&mut self, hits: &mut Vec<PlaneHit>, products: &mut Products, _: Option<Nanos>) {
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
        self.work.judge.tally.flush(&self.sheet);
    }

    fn flush(&mut self, reason: Flush, hits: &mut Vec<PlaneHit>, products: &mut Products) {
        self.build(hits, products, None);
        if reason == Flush::Taken {
            self.starts.fill(0);
            self.work.judge.begin_anew();
        }
    }

    // A segment is decided with its packet.
    fn oldest(&mut self) -> Option<BatchNumber> {
        None
    }

    fn commands(&self) -> Vec<CommandInfo> {
        thresholds::commands("wires")
    }

    fn command(&mut self, name: &str, arguments: &[&str]) -> Result<String, CommandError> {
        match thresholds::read(name, arguments)? {
            Threshold::Get => Ok(thresholds::told("wires", self.threshold)),
            Threshold::Set("wires", value) => {
                self.threshold = Some(value);
                self.work.judge.set_wire_threshold(value);
                Ok(String::new())
            }
            Threshold::Set(other, _) => Err(thresholds::unknown(other, "wires")),
        }
    }

    fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }
}

#[cfg(test)]
#[path = "builder_tests.rs"]
mod tests;
