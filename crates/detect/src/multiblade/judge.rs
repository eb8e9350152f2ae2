//! From an event candidate to a pixel: coincidence, gaps, filters, centre of gravity.
//!
//! Each way to be dropped is one counter; the order is that of the format. Refuses candidates outside the grid
//! and planes without weight. Source: `docs/formats/multiblade.md` sections 6 and 6.1.

use std::sync::Arc;

use crate::hits::PlaneHit;
use fullcount_core::ledger::Tally;
use fullcount_core::products::EventBatch;
use fullcount_core::time::Nanos;

use super::boxes::Candidates;
use super::counters::MultiBladeBuilt;
use super::layout::{Layout, SetUp};
use super::{Options, TimeBase};
use crate::cluster::plane::PlaneSum;
use crate::cluster::rules::Rules;
use crate::pulses::Pulses;

/// Decides on candidates and writes events.
#[derive(Debug)]
pub(super) struct Judge {
    layout: Arc<Layout>,
    rules: Rules,
    /// Pixels per strip.
    parts: u32,
    drop_late: bool,
    epoch: i64,
    /// Time of local time 0 for the hits at hand, ns since 1970.
    zero: i64,
    pulses: Pulses,
    pub tally: Tally<{ MultiBladeBuilt::LINES }>,
    /// Least amplitude of the wires together, by wire; empty: none.
    wire_thresholds: Vec<u32>,
}

impl Judge {
    pub fn new(layout: Arc<Layout>, options: &Options, time: &TimeBase) -> Judge {
        let rules = Rules {
            time_span: options.max_time_span.map(i64::from),
            hits: [options.max_wires, options.max_strips],
            ratio: options.amplitude_ratio.map(|[least, most]| (least, most)),
        };
        Judge {
            wire_thresholds: layout.wire_thresholds.clone(),
            layout,
            rules,
            parts: options.subpixels,
            drop_late: options.drop_late,
            epoch: time.epoch.0,
            zero: time.epoch.0,
            pulses: Pulses::new(time),
            tally: Tally::default(),
        }
    }

    /// The hits to come have local times since this moment, as their border says: ns after the epoch.
    #[inline]
    pub fn begins(&mut self, begun: i64) {
        self.zero = self.epoch.saturating_add(begun);
    }

    /// What comes meets nothing that was before.
    pub fn begin_anew(&mut self) {
        self.zero = self.epoch;
        self.pulses.forget();
    }

    /// From here on all wires have this threshold, whatever was configured.
    pub fn set_wire_threshold(&mut self, least: u16) {
        let sizes = &self.layout.sizes;
        let wires = usize::from(sizes.cassettes) * usize::from(sizes.wires);
        self.wire_thresholds = vec![least.into(); wires];
    }

    /// Takes candidates and writes to `events`.
    #[inline]
    pub fn session<'a>(&'a mut self, events: &'a mut EventBatch) -> Session<'a> {
        Session { judge: self, events }
    }

    #[inline]
    fn decide(&mut self, planes: &[PlaneSum; 2]) -> Result<(i64, u32), MultiBladeBuilt> {
        if planes[0].is_empty() || planes[1].is_empty() {
            return Err(MultiBladeBuilt::NoCoincidence);
        }
        self.gaps(planes)?;
        let wire_plane = usize::from(self.layout.sizes.wire_plane);
        let (wires, strips) = (planes[wire_plane], planes[1 - wire_plane]);
        if !self.rules.is_empty() {
            self.rules.check(&[wires, strips]).map_err(MultiBladeBuilt::of)?;
        }
        if !self.wire_thresholds.is_empty() {
            let wire = wires.cell(1).unwrap_or(u32::from(wires.lowest)) as usize;
            let least = self.wire_thresholds.get(wire).copied().unwrap_or(0);
            if wires.weight < u64::from(least) {
                return Err(MultiBladeBuilt::WireThreshold);
            }
        }
        self.tally.add(MultiBladeBuilt::Matched, 1);
        let single = planes[1].hits == 1;
        self.tally.add(
            if single { MultiBladeBuilt::WireMultSingle } else { MultiBladeBuilt::WireMultTwoPlus },
            1,
        );
        let at = self.layout.nanos(planes[0].first.min(planes[1].first));
        self.late(at)?;
        self.place(&wires, &strips).map(|pixel| (at, pixel)).ok_or(MultiBladeBuilt::GeometryErrors)
    }

    /// Coordinates that are missing: plane 1 decides first.
    #[inline]
    fn gaps(&mut self, planes: &[PlaneSum; 2]) -> Result<(), MultiBladeBuilt> {
        let missing = [planes[0].gaps(), planes[1].gaps()];
        if missing == [0, 0] {
            return Ok(());
        }
        self.tally.add(MultiBladeBuilt::WireGapCount, u64::from(missing[1] > 0));
        let many =
            |plane: usize| self.layout.max_gap[plane].is_some_and(|most| missing[plane] >= most);
        if many(1) {
            let stack = self.layout.set_up == SetUp::Stack;
            self.tally.add(MultiBladeBuilt::InvalidStripGap, u64::from(stack));
            self.tally.add(
                MultiBladeBuilt::WireGapInvalid,
                u64::from(self.layout.set_up == SetUp::AmorB),
            );
            return Err(MultiBladeBuilt::GapPlane1);
        }
        if many(0) {
            self.tally.add(
                MultiBladeBuilt::InvalidWireGap,
                u64::from(self.layout.set_up == SetUp::Stack),
            );
            return Err(MultiBladeBuilt::GapPlane0);
        }
        Ok(())
    }

    /// The limit of AMOR B, which the public program only counts.
    #[inline]
    pub fn late(&mut self, at: i64) -> Result<(), MultiBladeBuilt> {
        if self.layout.max_tof_ns.is_some_and(|most| at as u64 > most) {
            self.tally.add(MultiBladeBuilt::MaxTof, 1);
            if self.drop_late {
                return Err(MultiBladeBuilt::MaxTofDropped);
            }
        }
        Ok(())
    }

    /// Pixel of the two centres.
    #[inline]
    pub fn place(&self, wires: &PlaneSum, strips: &PlaneSum) -> Option<u32> {
        self.pixel(wires.cell(1)?, strips.cell(self.parts)?)
    }

    /// Pixel of a wire and a cell along the strips.
    #[inline]
    pub fn pixel(&self, wire: u32, along: u32) -> Option<u32> {
        match self.layout.sizes.wire_plane {
            0 => self.layout.grid.pixel(wire, along, 0, 0),
            _ => self.layout.grid.pixel(along, wire, 0, 0),
        }
    }

    /// Pixel of a strip's channel number, as far along as its middle.
    pub fn strip_middle(&self, strip: u16) -> u32 {
        u32::from(strip) * self.parts + self.parts / 2
    }

    /// Pixel of the beam monitor, behind all others.
    pub fn monitor_pixel(&self) -> u32 {
        self.layout.grid.pixels() + 1
    }

    /// Nanoseconds after the digitiser's restart.
    #[inline]
    pub fn nanos(&self, ticks: i64) -> i64 {
        self.layout.nanos(ticks)
    }

    /// Writes an event at `at` ns after the digitiser's restart.
    #[inline]
    pub fn send(&mut self, at: i64, pixel: u32, events: &mut EventBatch) {
        self.pulses.event(Nanos(self.zero.saturating_add(at)), pixel, events);
    }
}

/// A judge with a place to write to.
pub(super) struct Session<'a> {
    judge: &'a mut Judge,
    events: &'a mut EventBatch,
}

impl Candidates for Session<'_> {
    #[inline]
    fn candidate(&mut self, planes: &[PlaneSum; 2]) {
        let hits = u64::from(planes[0].hits) + u64::from(planes[1].hits);
        let judge = &mut *self.judge;
        judge.tally.add(MultiBladeBuilt::Candidates, 1);
        let line = match judge.decide(planes) {
            Ok((at, pixel)) => {
                judge.send(at, pixel, self.events);
                judge.tally.add(MultiBladeBuilt::TwoD, 1);
                judge.tally.add(MultiBladeBuilt::Used, hits);
                MultiBladeBuilt::Events
            }
            Err(line) => {
                judge.tally.add(MultiBladeBuilt::Unused, hits);
                line
            }
        };
        judge.tally.add(line, 1);
    }

    #[inline]
    fn no_coincidence(&mut self, hits: &[PlaneHit]) {
        let tally = &mut self.judge.tally;
        tally.add(MultiBladeBuilt::Candidates, 1);
        tally.add(MultiBladeBuilt::NoCoincidence, 1);
        tally.add(MultiBladeBuilt::Unused, hits.len() as u64);
    }

    #[inline]
    fn resolved(&mut self) {
        self.judge.tally.add(MultiBladeBuilt::Resolved, 1);
    }
}
