//! How far time is: from the markers of all VMMs to the time before which no hit can come any more.
//!
//! A marker promises that later hits of its VMM do not lie before it (less the offset −1 and what calibration may take off). The
//! border is the least promise of all VMMs of the geometry, whatever their clocks say; a VMM that said nothing while
//! others went on for the horizon is not waited for. Where a frame counter is missing, the frame may come late: then promises of its FEC count
//! once that has sent some more frames, or has gone on by the horizon. How many frames is a setting, and does not depend on the rate.
//!
//! A marker that leaps away from the last one of its VMM is a clock that was set, or damage: the next marker of its FEC tells. One before
//! the border by more than the horizon says that a clock was set back: what waits is clustered, and time begins anew. So no single
//! damaged marker can stop or overtake time.
//! Source: `docs/formats/gdgem.md` section 8.

use std::ops::Range;

use crate::hits::FineHit;

use super::layout::{FECS, VMMS};

/// Steps of the border while it goes as far as it is behind the newest promise: a hit is looked at so many times at most. Few steps
/// would make slices of several threads too long.
const STEPS: f64 = 64.0;

/// Shortest leap, ns: 600 markers. Frames that are lost or late are seldom so many.
const LEAP_NS: f64 = 1e9;

/// Smallest step of the border, ns: a tenth of the time between two markers.
const LEAST_STEP_NS: f64 = 150_000.0;

/// The row that says that time began anew.
pub(super) const RESTART: FineHit =
    FineHit { time: 0, coordinate: 0, second: 0, weight: 0, lane: FineHit::RESTART, flags: 0 };

/// What one VMM has promised.
#[derive(Debug, Clone, Copy)]
struct Input {
    /// Its last promise, ns; −∞: none since time began.
    promise: f64,
    /// What its clock showed when nothing had gone by, ns.
    origin: f64,
    /// How much had gone by when it last spoke, ns.
    spoke: f64,
}

const SILENT: Input = Input { promise: f64::NEG_INFINITY, origin: 0.0, spoke: 0.0 };

/// What its promises were, frame by frame.
#[derive(Debug, Clone)]
struct Fec {
    /// Its VMMs in `inputs`.
    inputs: Range<usize>,
    /// One row of promises for each of the last frames, as a ring.
    rows: Vec<f64>,
    /// The oldest row.
    oldest: usize,
    /// Frames for which the oldest row counts, as one is missing. To hold promises back always would cost the reading thread of two a
    /// third of their rate: all that waits is moved at each cut.
    late: usize,
    /// Its last marker was a leap.
    doubted: bool,
}

/// Promises of all inputs.
#[derive(Debug)]
pub(super) struct Progress {
    /// Place of (FEC, VMM) in `inputs`; `u16::MAX` if the geometry does not list it.
    places: Box<[[u16; VMMS]; FECS]>,
    inputs: Vec<Input>,
    fecs: [Option<Box<Fec>>; FECS],
    /// Rows of a ring; 0: promises always count at the end of their frame.
    held: usize,
    /// How far the input that is furthest has gone since time began, ns, jumps left out.
    gone: f64,
    /// Last border that was told.
    border: f64,
    horizon: f64,
    /// How far before a marker a hit can lie, ns.
    margin: f64,
    /// Last marker that was believed, ns, until somebody asked; and whether time began anew since.
    latest: Option<f64>,
    anew: bool,
}

impl Progress {
    /// `inputs` in order of FEC; frames up to `late` places late lose nothing.
    pub fn new(inputs: &[(usize, usize)], horizon: f64, margin: f64, late: usize) -> Progress {
        let mut places = Box::new([[u16::MAX; VMMS]; FECS]);
        let mut fecs: [Option<Box<Fec>>; FECS] = Default::default();
        // The newest row, those of frames that the late one comes behind, and one more: a late frame brings older markers
        // back, behind which hits of the next frame may come.
        let held = if late == 0 { 0 } else { late + 2 };
        for (at, &(fec, vmm)) in inputs.iter().enumerate() {
            places[fec][vmm] = at as u16;
            let new = || {
                Box::new(Fec {
                    inputs: at..at,
                    rows: Vec::new(),
                    oldest: 0,
                    late: 0,
                    doubted: false,
                })
            };
            fecs[fec].get_or_insert_with(new).inputs.end = at + 1;
        }
        for fec in fecs.iter_mut().flatten() {
            fec.rows = vec![f64::NEG_INFINITY; held * fec.inputs.len()];
            // Its very first frame may be the one that is late.
            fec.late = held;
        }
        Progress {
            places,
            inputs: vec![SILENT; inputs.len()],
            fecs,
            held,
            gone: 0.0,
            border: f64::NEG_INFINITY,
            horizon,
            margin,
            latest: None,
            anew: false,
        }
    }

    /// A marker at `ns`; −∞ for none. True if time began anew: then [`RESTART`] belongs here among the rows.
    pub fn heard(&mut self, fec: usize, vmm: usize, ns: f64) -> bool {
        let place = usize::from(self.places[fec][vmm]);
        let (Some(input), Some(of)) = (self.inputs.get(place), &mut self.fecs[fec]) else {
            return false;
        };
        if !ns.is_finite() {
            return false;
        }
        let promise = ns - self.margin;
        let leap = (promise - input.promise).abs() > self.horizon.max(LEAP_NS);
        let doubted = std::mem::replace(&mut of.doubted, leap && input.promise.is_finite());
        if of.doubted && !doubted {
            return false;
        }
        let mut origin = if leap { promise - self.gone } else { input.origin };
        let restart = promise < self.border - self.horizon;
        if restart {
            self.begin_anew();
            origin = promise;
        }
        self.gone = self.gone.max(promise - origin);
        self.inputs[place] = Input { promise, origin, spoke: self.gone };
        self.latest = Some(ns);
        self.anew |= restart;
        restart
    }

    /// The last marker since this was asked for, ns, and whether time began anew.
    pub fn latest(&mut self) -> Option<(i64, bool)> {
        let ns = self.latest.take()?;
        Some((ns as i64, std::mem::take(&mut self.anew)))
    }

    #[cold]
    fn begin_anew(&mut self) {
        self.border = f64::NEG_INFINITY;
        self.gone = 0.0;
        self.inputs.fill(SILENT);
        for fec in self.fecs.iter_mut().flatten() {
            fec.rows.fill(f64::NEG_INFINITY);
            fec.late = self.held;
            fec.doubted = false;
        }
    }

    /// A frame of `fec` begins that does not follow the one before.
    #[cold]
    pub fn missed(&mut self, fec: usize) {
        if let Some(fec) = &mut self.fecs[fec] {
            fec.late = self.held;
        }
    }

    /// A frame of FEC `at` ends: tells the border in `rows` if it moved.
    #[inline]
    pub fn end_frame(&mut self, at: usize, rows: &mut Vec<FineHit>) {
        if let Some(fec) = &mut self.fecs[at] {
            if let Some(oldest) = fec.rows.chunks_exact_mut(fec.inputs.len()).nth(fec.oldest) {
                let now = &self.inputs[fec.inputs.clone()];
                oldest.iter_mut().zip(now).for_each(|(row, input)| *row = input.promise);
                fec.oldest = (fec.oldest + 1) % self.held;
            }
            self.tell(rows);
            self.fecs[at].iter_mut().for_each(|fec| fec.late = fec.late.saturating_sub(1));
        }
    }

    fn tell(&mut self, rows: &mut Vec<FineHit>) {
        let (mut border, mut newest) = (f64::INFINITY, f64::NEG_INFINITY);
        let silent_since = self.gone - self.horizon;
        for fec in self.fecs.iter().flatten() {
            let inputs = &self.inputs[fec.inputs.clone()];
            let rows = fec.rows.chunks_exact(inputs.len());
            let oldest = { rows }.nth(fec.oldest).filter(|_| fec.late > 0);
            for (at, input) in inputs.iter().enumerate() {
                if input.spoke < silent_since {
                    continue;
                }
                let held = oldest.map_or(input.promise, |row| row[at]);
                border = border.min(held.max(input.promise - self.horizon));
                newest = newest.max(input.promise);
            }
        }
        // What waits is looked at with each step, so steps are not too small.
        let step = ((newest - border) / STEPS).max(LEAST_STEP_NS);
        if border > self.border + step && border.is_finite() {
            self.border = border;
            let time = FineHit::key(border);
            rows.push(FineHit { time, lane: FineHit::BORDER, ..FineHit::default() });
        }
    }
}

#[cfg(test)]
#[path = "progress_tests.rs"]
mod tests;
