//! The first generation of event building: a window of fixed length from the first readout, per cassette.
//!
//! Works in order of arrival and knows no packets; a window is closed by the first readout behind it. Wires and
//! strips must each be there and be neighbours without a gap. A window needs the same memory however many
//! readouts fall into it. Source: `docs/formats/multiblade.md` section 6.2.

use std::sync::Arc;

use fullcount_core::ledger::Sheet;
use fullcount_core::products::{EventBatch, Products};
use fullcount_core::progress::{BatchNumber, Flush};
use fullcount_core::time::Nanos;

use super::counters::MultiBladeBuilt;
use super::judge::Judge;
use super::layout::Layout;
use super::reader::MONITOR;
use super::{Options, Position, TimeBase};
use crate::cluster::plane::PlaneSum;
use crate::detector::{CommandError, CommandInfo};
use crate::hits::PlaneHit;
use crate::steps::Builder;
use crate::thresholds::{self, Threshold};

/// Most wires or strips of a cassette.
pub(super) const MOST: u16 = 1024;

const WORDS: usize = MOST as usize / 64;

/// One plane of an open window.
#[derive(Debug, Clone)]
struct Side {
    sum: PlaneSum,
    /// One bit per channel that was hit.
    channels: [u64; WORDS],
    /// Largest amplitude, and the lowest coordinate that had it.
    peak: (u16, u16),
}

impl Side {
    const EMPTY: Side = Side { sum: PlaneSum::EMPTY, channels: [0; WORDS], peak: (0, 0) };

    fn add(&mut self, hit: &PlaneHit, channel: u16) {
        self.sum.add(hit);
        let channel = usize::from(channel % MOST);
        self.channels[channel / 64] |= 1 << (channel % 64);
        let (weight, coordinate) = self.peak;
        if hit.weight > weight || (hit.weight == weight && hit.coordinate < coordinate) {
            self.peak = (hit.weight, hit.coordinate);
        }
    }

    /// True if no channel is missing between the lowest and the highest.
    fn is_adjacent(&self) -> bool {
        let different: u32 = self.channels.iter().map(|word| word.count_ones()).sum();
        different == self.sum.span()
    }
}

/// Window of one cassette.
#[derive(Debug, Clone)]
struct Window {
    start: u32,
    /// Time of local time 0 when it was opened, ns after the epoch.
    begun: i64,
    /// Batch of its first hit.
    batch: u64,
    planes: [Side; 2],
}

/// The builder of one worker.
pub(super) struct WindowBuilder {
    sheet: Arc<Sheet>,
    layout: Arc<Layout>,
    judge: Judge,
    length: u32,
    threshold: u16,
    position: Position,
    windows: Vec<Option<Window>>,
    /// Hits in open windows.
    open: u64,
    newest: BatchNumber,
    /// Newest batch when [`Builder::oldest`] first gave the answer that it gives.
    asked: Option<(u64, u64)>,
}

impl WindowBuilder {
    pub fn new(layout: Arc<Layout>, options: &Options, time: &TimeBase) -> WindowBuilder {
        WindowBuilder {
            sheet: Sheet::new(MultiBladeBuilt::catalogue()),
            judge: Judge::new(layout.clone(), options, time),
            length: options.window,
            threshold: options.threshold,
            position: options.position,
            windows: vec![None; usize::from(layout.sizes.cassettes)],
            layout,
            open: 0,
            newest: BatchNumber::default(),
            asked: None,
        }
    }

    /// `begun`: when the clock of its time began, ns after the epoch.
    fn hit(&mut self, hit: &PlaneHit, begun: i64, events: &mut EventBatch) {
        self.judge.tally.add(MultiBladeBuilt::Hits, 1);
        if hit.weight < self.threshold {
            self.judge.tally.add(MultiBladeBuilt::BelowThreshold, 1);
            return;
        }
        let at = usize::from(hit.module);
        let tick = hit.time as u32;
        let closes = |window: &Window| tick.wrapping_sub(window.start) >= self.length;
        if self.windows[at].as_ref().is_some_and(closes) {
            self.close(at, events);
        }
        let planes = || [Side::EMPTY, Side::EMPTY];
        let newest = self.newest.batch;
        let window = self.windows[at].get_or_insert_with(|| Window {
            start: tick,
            begun,
            batch: newest,
            planes: planes(),
        });
        let wires = hit.plane == self.layout.sizes.wire_plane;
        let first = if wires { hit.module * self.layout.sizes.wires } else { 0 };
        window.planes[usize::from(hit.plane & 1)].add(hit, hit.coordinate - first);
        self.open += 1;
    }

    fn close(&mut self, at: usize, events: &mut EventBatch) {
        let Some(window) = self.windows[at].take() else { return };
        let hits: u64 = window.planes.iter().map(|side| u64::from(side.sum.hits)).sum();
        self.open -= hits;
        let tally = &mut self.judge.tally;
        tally.add(MultiBladeBuilt::Candidates, 1);
        let line = match self.decide(&window, events) {
            Ok(()) => MultiBladeBuilt::Events,
            Err(line) => line,
        };
        let used = if line == MultiBladeBuilt::Events {
            MultiBladeBuilt::Used
        } else {
            MultiBladeBuilt::Unused
        };
        self.judge.tally.add(line, 1);
        self.judge.tally.add(used, hits);
    }

    /// Closes the windows of the batches up to this one.
    fn close_upto(&mut self, batch: u64, events: &mut EventBatch) {
        for at in 0..self.windows.len() {
            if self.windows[at].as_ref().is_some_and(|window| window.batch <= batch) {
                self.close(at, events);
            }
        }
        self.judge.tally.flush(&self.sheet);
        self.sheet.set(MultiBladeBuilt::Open as usize, self.open);
    }

    fn decide(&mut self, window: &Window, events: &mut EventBatch) -> Result<(), MultiBladeBuilt> {
        let [x, y] = &window.planes;
        if x.sum.is_empty() || y.sum.is_empty() {
            return Err(MultiBladeBuilt::NoCoincidence);
        }
        if !y.is_adjacent() {
            return Err(MultiBladeBuilt::GapPlane1);
        }
        if !x.is_adjacent() {
            return Err(MultiBladeBuilt::GapPlane0);
        }
        self.judge.tally.add(MultiBladeBuilt::Matched, 1);
        let at = self.judge.nanos(i64::from(window.start));
        self.judge.late(at)?;
        let wires = usize::from(self.layout.sizes.wire_plane);
        let (wires, strips) = (&window.planes[wires], &window.planes[1 - wires]);
        let pixel = match self.position {
            Position::Weighted => self.judge.place(&wires.sum, &strips.sum),
            Position::Maximum if wires.peak.0 == 0 || strips.peak.0 == 0 => None,
            Position::Maximum => {
                let along = self.judge.strip_middle(strips.peak.1);
                self.judge.pixel(u32::from(wires.peak.1), along)
            }
        };
        let pixel = pixel.ok_or(MultiBladeBuilt::GeometryErrors)?;
        self.judge.begins(window.begun);
        self.judge.send(at, pixel, events);
        self.judge.tally.add(MultiBladeBuilt::TwoD, 1);
        Ok(())
    }
}

impl Builder for WindowBuilder {
    type Hit = PlaneHit;

    fn build(&mut self, hits: &mut Vec<PlaneHit>, products: &mut Products, _: Option<Nanos>) {
        self.newest = products.batch;
        // The border behind a hit says when its clock began.
        let mut borders = hits.iter().filter(|hit| hit.plane == PlaneHit::BORDER);
        let mut begun = borders.next().map_or(0, |border| border.time);
        for hit in &*hits {
            match hit.plane {
                PlaneHit::BORDER => begun = borders.next().map_or(0, |border| border.time),
                MONITOR => {
                    self.judge.begins(begun);
                    let (at, pixel) = (self.judge.nanos(hit.time), self.judge.monitor_pixel());
                    self.judge.send(at, pixel, &mut products.events);
                    self.judge.tally.add(MultiBladeBuilt::MonitorEvents, 1);
                }
                _ => self.hit(hit, begun, &mut products.events),
            }
        }
        hits.clear();
        self.judge.tally.flush(&self.sheet);
        self.sheet.set(MultiBladeBuilt::Open as usize, self.open);
    }

    fn flush(&mut self, reason: Flush, hits: &mut Vec<PlaneHit>, products: &mut Products) {
        self.build(hits, products, None);
        let upto = match reason {
            // Younger windows may still get hits.
            Flush::Stalled => self.asked.map_or(0, |(_, newest)| newest),
            Flush::Taken | Flush::End => u64::MAX,
        };
        self.close_upto(upto, &mut products.events);
        if reason == Flush::Taken {
            self.judge.begin_anew();
        }
    }

    fn oldest(&mut self) -> Option<BatchNumber> {
        let oldest = self.windows.iter().flatten().map(|window| window.batch).min();
        let asked = self.asked.filter(|(answer, _)| Some(*answer) == oldest);
        self.asked = asked.or(oldest.map(|oldest| (oldest, self.newest.batch)));
        Some(BatchNumber { batch: oldest?, ..self.newest })
    }

    fn commands(&self) -> Vec<CommandInfo> {
        thresholds::commands("hits")
    }

    fn command(&mut self, name: &str, arguments: &[&str]) -> Result<String, CommandError> {
        match thresholds::read(name, arguments)? {
            Threshold::Get => Ok(thresholds::told("hits", Some(self.threshold))),
            Threshold::Set("hits", value) => {
                self.threshold = value;
                Ok(String::new())
            }
            Threshold::Set(other, _) => Err(thresholds::unknown(other, "hits")),
        }
    }

    fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }
}

#[cfg(test)]
#[path = "fixed_window_tests.rs"]
mod tests;
