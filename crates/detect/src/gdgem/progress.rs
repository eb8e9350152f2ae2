//! How far time is: from the markers of all VMMs to the time before which no hit can come any more.
//!
//! A marker promises that later hits of its VMM do not lie before it (less the offset −1 and what calibration may take off). The
//! border is the least promise of all VMMs of the geometry; a VMM that is silent, or behind the newest by more than the horizon, is
//! not waited for. A marker that lies before the border by more than the horizon is a clock that was reset: what waits is
//! clustered, and time begins anew. So no damaged marker can stop or overtake time for longer than until the next one.
//! Refuses nothing.

use fullcount_core::products::FineHit;

use super::layout::{FECS, VMMS};

/// Steps of the border while it goes as far as it is behind the newest input: a hit is looked at so many times at most.
const STEPS: f64 = 64.0;

/// Smallest step of the border, ns: a tenth of the time between two markers.
const LEAST_STEP_NS: f64 = 150_000.0;

/// The row that says that time began anew.
pub(super) const RESTART: FineHit =
    FineHit { time: 0, coordinate: 0, second: 0, weight: 0, lane: FineHit::RESTART, flags: 0 };

/// Promises of all inputs.
#[derive(Debug)]
pub(super) struct Progress {
    /// Place of (FEC, VMM) in `promises`; `u16::MAX` if the geometry does not list it.
    places: Box<[[u16; VMMS]; FECS]>,
    /// Time before which no hit of the input can come, ns.
    promises: Vec<f64>,
    /// Last border that was told.
    border: f64,
    horizon: f64,
    /// How far before a marker a hit can lie, ns.
    margin: f64,
    moved: bool,
}

impl Progress {
    pub fn new(inputs: &[(usize, usize)], horizon: f64, margin: f64) -> Progress {
        let mut places = Box::new([[u16::MAX; VMMS]; FECS]);
        for (at, &(fec, vmm)) in inputs.iter().enumerate() {
            places[fec][vmm] = at as u16;
        }
        Progress {
            places,
            promises: vec![f64::NEG_INFINITY; inputs.len()],
            border: f64::NEG_INFINITY,
            horizon,
            margin,
            moved: false,
        }
    }

    /// A marker at `ns`; NaN for none. True if time began anew: then [`RESTART`] belongs here among the rows.
    pub fn heard(&mut self, fec: usize, vmm: usize, ns: f64) -> bool {
        let place = usize::from(self.places[fec][vmm]);
        if place >= self.promises.len() || ns.is_nan() {
            return false;
        }
        let promise = ns - self.margin;
        let restart = promise < self.border - self.horizon;
        if restart {
            self.border = f64::NEG_INFINITY;
            self.promises.fill(f64::NEG_INFINITY);
        }
        self.promises[place] = promise;
        self.moved = true;
        restart
    }

    /// Tells the border in `rows` if it moved.
    #[inline]
    pub fn emit(&mut self, rows: &mut Vec<FineHit>) {
        if std::mem::take(&mut self.moved) {
            self.tell(rows);
        }
    }

    fn tell(&mut self, rows: &mut Vec<FineHit>) {
        let least = self.promises.iter().copied().fold(f64::INFINITY, f64::min);
        let newest = self.promises.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let border = least.max(newest - self.horizon);
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
mod tests {
    use super::*;

    fn rows(progress: &mut Progress, fec: usize, ns: f64) -> Vec<(u8, f64)> {
        let mut rows = Vec::new();
        if progress.heard(fec, 0, ns) {
            rows.push(RESTART);
        }
        progress.emit(&mut rows);
        rows.iter().map(|r| (r.lane, r.ns())).collect()
    }

    #[test]
    fn the_slowest_input_holds_the_border_back_up_to_the_horizon() {
        let mut p = Progress::new(&[(1, 0), (2, 0)], 1e9, 1e3);
        assert_eq!(rows(&mut p, 1, 1e8), [(FineHit::BORDER, -900_001_000.0)]);
        assert_eq!(rows(&mut p, 2, 5e7), [(FineHit::BORDER, 49_999_000.0)]);
        assert_eq!(rows(&mut p, 1, 2e8), []);
        assert_eq!(rows(&mut p, 2, 5.1e7), [], "too small a step");
        assert_eq!(rows(&mut p, 2, 1.5e8), [(FineHit::BORDER, 149_999_000.0)]);
        assert_eq!(rows(&mut p, 1, 2e9), [(FineHit::BORDER, 999_999_000.0)]);
        assert_eq!(rows(&mut p, 3, 9e9), [], "not in the geometry");
    }

    #[test]
    fn a_marker_far_in_the_past_begins_anew() {
        let mut p = Progress::new(&[(1, 0), (2, 0)], 1e6, 0.0);
        assert_eq!(rows(&mut p, 1, 1e9), [(FineHit::BORDER, 1e9 - 1e6)]);
        let anew = [(FineHit::RESTART, 0.0), (FineHit::BORDER, 10.0 - 1e6)];
        assert_eq!(rows(&mut p, 2, 10.0), anew);
        assert_eq!(rows(&mut p, 1, f64::NAN), []);
    }
}
