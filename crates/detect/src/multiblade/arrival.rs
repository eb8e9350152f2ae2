//! When it was, for `[time] epoch = "now"`: local times begin anew every 20 ms, so a packet's arrival is the only time it has.
//!
//! A readout is not later than the arrival of its packet: the latest one of a packet is put there at most. What came between two
//! restarts of a digitiser's clock has one beginning, the earliest that any of its packets allows so far; each packet's hits get
//! the one known then, written into the borders behind them. It follows from the packets and their arrivals alone, so that a
//! recording gives the same. Source: `docs/time.md`.

use std::collections::HashMap;

use crate::hits::PlaneHit;
use fullcount_core::wall::ArrivalClock;

use super::layout::Layout;

/// Beginnings that are nearer to each other are one, ns: a quarter of the time between two restarts.
const SAME_NS: i64 = 5_000_000;

/// Digitisers' clocks and the host's.
#[derive(Debug, Default)]
pub(super) struct Restarts {
    clock: ArrivalClock,
    /// Arrival of the train at hand, ns since 1970.
    now: i64,
    /// When the clock of each digitiser of the geometry last began, ns since 1970.
    begun: HashMap<u32, i64>,
}

impl Restarts {
    /// The packets to come have come at this time.
    #[inline]
    pub fn at(&mut self, received_ns: i64) {
        self.now = self.clock.at(received_ns);
    }

    /// Writes into the borders of one packet's hits when the clock began; `digitizer` is one of the geometry.
    pub fn place(&mut self, digitizer: u32, hits: &mut [PlaneHit], layout: &Layout) {
        let mut end = hits.len();
        let mut last = true;
        // When the segment behind began.
        let mut upto = self.now;
        while end > 0 {
            // Every segment ends with a border, and the last row is one.
            let border = end - 1;
            let is_border = |hit: &PlaneHit| hit.plane == PlaneHit::BORDER;
            let from = hits[..border].iter().rposition(is_border).map_or(0, |at| at + 1);
            let latest = hits[from..border].iter().map(|hit| hit.time).max().unwrap_or(0);
            let mut begun = upto.saturating_sub(layout.nanos(latest));
            if last {
                let known = self.begun.entry(digitizer).or_insert(i64::MIN);
                if begun.saturating_sub(*known).saturating_abs() <= SAME_NS {
                    begun = begun.min(*known);
                }
                // Never back by more than what the same beginning is known better.
                *known = begun;
                last = false;
            }
            hits[border].time = begun;
            upto = begun;
            end = from;
        }
    }
}

#[cfg(test)]
#[path = "arrival_tests.rs"]
mod tests;
