//! The first generation of event building: a window of fixed length from the first readout, per cassette.
//!
//! Works in order of arrival and knows no packets; a window is closed by the first readout behind it. Wires and
//! strips must each be there and be neighbours without a gap. A window needs the same memory however many
//! readouts fall into it. Refuses nothing. Source: `docs/formats/multiblade.md` section 6.2.

use std::sync::Arc;

use fullcount_core::ledger::Sheet;
use fullcount_core::products::{EventBatch, PlaneHit, Products};
use fullcount_core::time::Nanos;

use super::counters::Built;
use super::judge::Judge;
use super::layout::Layout;
use super::reader::MONITOR;
use super::{Options, Position, TimeBase};
use crate::cluster::plane::PlaneSum;
use crate::detector::Builder;

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
    /// It was open at the last mark.
    marked: bool,
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
}

impl WindowBuilder {
    pub fn new(layout: Arc<Layout>, options: &Options, time: &TimeBase) -> WindowBuilder {
        WindowBuilder {
            sheet: Sheet::new(Built::catalogue()),
            judge: Judge::new(layout.clone(), options, time),
            length: options.window,
            threshold: options.threshold,
            position: options.position,
            windows: vec![None; usize::from(layout.sizes.cassettes)],
            layout,
            open: 0,
        }
    }

    /// `begun`: when the clock of its time began, ns after the epoch.
    fn hit(&mut self, hit: &PlaneHit, begun: i64, events: &mut EventBatch) {
        self.judge.tally.add(Built::Hits, 1);
        if hit.weight < self.threshold {
            self.judge.tally.add(Built::BelowThreshold, 1);
            return;
        }
        let at = usize::from(hit.module);
        let tick = hit.time as u32;
        let closes = |window: &Window| tick.wrapping_sub(window.start) >= self.length;
        if self.windows[at].as_ref().is_some_and(closes) {
            self.close(at, events);
        }
        let planes = || [Side::EMPTY, Side::EMPTY];
        let window = self.windows[at].get_or_insert_with(|| Window {
            start: tick,
            begun,
            marked: false,
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
        tally.add(Built::Candidates, 1);
        let line = match self.decide(&window, events) {
            Ok(()) => Built::Events,
            Err(line) => line,
        };
        let used = if line == Built::Events { Built::Used } else { Built::Unused };
        self.judge.tally.add(line, 1);
        self.judge.tally.add(used, hits);
    }

    fn decide(&mut self, window: &Window, events: &mut EventBatch) -> Result<(), Built> {
        let [x, y] = &window.planes;
        if x.sum.is_empty() || y.sum.is_empty() {
            return Err(Built::NoCoincidence);
        }
        if !y.is_adjacent() {
            return Err(Built::GapPlane1);
        }
        if !x.is_adjacent() {
            return Err(Built::GapPlane0);
        }
        self.judge.tally.add(Built::Matched, 1);
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
        let pixel = pixel.ok_or(Built::GeometryErrors)?;
        self.judge.begins(window.begun);
        self.judge.send(at, pixel, events);
        self.judge.tally.add(Built::TwoD, 1);
        Ok(())
    }
}

impl Builder for WindowBuilder {
    fn build(&mut self, products: &mut Products, _: Option<Nanos>) {
        let mut hits = std::mem::take(&mut products.plane_hits);
        // The border behind a hit says when its clock began.
        let mut borders = hits.iter().filter(|hit| hit.plane == PlaneHit::BORDER);
        let mut begun = borders.next().map_or(0, |border| border.time);
        for hit in &hits {
            match hit.plane {
                PlaneHit::BORDER => begun = borders.next().map_or(0, |border| border.time),
                MONITOR => {
                    self.judge.begins(begun);
                    let (at, pixel) = (self.judge.nanos(hit.time), self.judge.monitor_pixel());
                    self.judge.send(at, pixel, &mut products.events);
                    self.judge.tally.add(Built::MonitorEvents, 1);
                }
                _ => self.hit(hit, begun, &mut products.events),
            }
        }
        hits.clear();
        products.plane_hits = hits;
        self.judge.tally.flush(&self.sheet);
        self.sheet.set(Built::Open as usize, self.open);
    }

    fn finish(&mut self, products: &mut Products) {
        self.build(products, None);
        for at in 0..self.windows.len() {
            self.close(at, &mut products.events);
        }
        self.judge.tally.flush(&self.sheet);
        self.sheet.set(Built::Open as usize, self.open);
    }

    fn mark(&mut self) {
        self.windows.iter_mut().flatten().for_each(|window| window.marked = true);
    }

    fn passed(&mut self) -> bool {
        !self.windows.iter().flatten().any(|window| window.marked)
    }

    fn let_go(&mut self, products: &mut Products) {
        for at in 0..self.windows.len() {
            if self.windows[at].as_ref().is_some_and(|window| window.marked) {
                self.close(at, &mut products.events);
            }
        }
        self.judge.tally.flush(&self.sheet);
        self.sheet.set(Built::Open as usize, self.open);
    }

    fn sheet(&self) -> Option<Arc<Sheet>> {
        Some(self.sheet.clone())
    }
}

#[cfg(test)]
#[path = "fixed_window_tests.rs"]
mod tests;
