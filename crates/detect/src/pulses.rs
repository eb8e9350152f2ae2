//! Gives each event the pulse that it came from, as rows of an [`EventBatch`].
//!
//! Two modes: a regular grid (or reference blocks) owns the events, or the pulses in the data do. Then an
//! event belongs to the latest pulse not after it; before the first pulse, and 2³⁰ ns behind the latest,
//! the reference row begins anew, so that no offset leaves 31 bits. Pulses without events stay as
//! rows. Source: `docs/contracts.md`, "Time".

use fullcount_core::products::EventBatch;
use fullcount_core::time::{Nanos, PulseGrid, PulseTime, REFERENCE_BLOCK_NS};

use crate::detector::TimeBase;

/// The pulse that owns events now. One of these per builder; times are ns since 1970.
#[derive(Debug, Clone)]
pub struct Pulses {
    grid: PulseGrid,
    in_data: bool,
    /// Latest pulse in the data.
    latest: Option<i64>,
    /// Row of the last event: `start <= time < end`.
    start: i64,
    end: i64,
}

impl Pulses {
    /// As configured.
    pub fn new(time: &TimeBase) -> Pulses {
        Pulses { grid: time.grid, in_data: time.pulses_in_data, latest: None, start: 0, end: 0 }
    }

    /// Pulses that were seen own no events any more.
    pub fn forget(&mut self) {
        (self.latest, self.start, self.end) = (None, 0, 0);
    }

    /// A pulse in the data: a row of its own if pulses own events here, else nothing.
    pub fn pulse(&mut self, at: Nanos, events: &mut EventBatch) {
        if self.in_data {
            self.latest = Some(at.0);
            (self.start, self.end) = (at.0, at.0.saturating_add(REFERENCE_BLOCK_NS as i64));
            events.open_pulse(PulseTime(at.0));
        }
    }

    /// An event.
    #[inline]
    pub fn event(&mut self, at: Nanos, pixel: u32, events: &mut EventBatch) {
        if at.0 < self.start || at.0 >= self.end {
            self.find(at);
        }
        events.open_pulse(PulseTime(self.start));
        events.push((at.0 - self.start) as u32, pixel);
    }

    /// The row that owns `at`.
    #[cold]
    fn find(&mut self, at: Nanos) {
        let block = REFERENCE_BLOCK_NS as i64;
        match self.latest.filter(|&latest| self.in_data && latest <= at.0) {
            Some(latest) => {
                let blocks = (at.0 - latest) / block;
                self.start = latest + blocks * block;
                self.end = self.start.saturating_add(block);
            }
            None => {
                let (start, end) = self.grid.around(at);
                let before_pulse = self.latest.filter(|_| self.in_data).unwrap_or(i64::MAX);
                (self.start, self.end) = (start.0, end.0.min(before_pulse));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(in_data: bool, steps: &[(bool, i64)]) -> EventBatch {
        let mut pulses = Pulses::new(&TimeBase { pulses_in_data: in_data, ..TimeBase::default() });
        let mut events = EventBatch::default();
        for &(pulse, at) in steps {
            match pulse {
                true => pulses.pulse(Nanos(at), &mut events),
                false => pulses.event(Nanos(at), 1, &mut events),
            }
        }
        events
    }

    #[test]
    fn events_belong_to_the_latest_pulse_not_after_them() {
        let e =
            rows(true, &[(false, 5), (true, 10), (false, 10), (true, 20), (true, 30), (false, 31)]);
        assert_eq!(e.pulse_ns, [0, 10, 20, 30]);
        assert_eq!(e.pulse_first, [0, 1, 2, 2]);
        assert_eq!(e.offset_ns, [5, 0, 1]);
    }

    #[test]
    fn a_pulse_signal_that_stops_leaves_no_offset_out_of_range() {
        let far = 10 + 5 * (1i64 << 30) + 7;
        let e = rows(true, &[(true, 10), (false, far), (false, 12)]);
        assert_eq!(e.pulse_ns, [10, far - 7, 10]);
        assert_eq!(e.offset_ns, [7, 2]);
    }

    #[test]
    fn a_step_back_before_the_latest_pulse_uses_the_reference_blocks() {
        let e = rows(true, &[(true, 2_000_000_000), (false, 3), (false, 2_000_000_001)]);
        assert_eq!(e.absolute().map(|(t, _)| t).collect::<Vec<_>>(), [3, 2_000_000_001]);
        assert_eq!(e.pulse_ns, [2_000_000_000, 0, 2_000_000_000]);
    }

    #[test]
    fn where_pulses_do_not_own_events_they_make_no_rows() {
        let e = rows(false, &[(true, 10), (false, 11), (true, 1 << 31), (false, 1 << 31)]);
        assert_eq!(e.pulse_ns, [0, 1 << 31]);
        assert_eq!(e.offset_ns, [11, 0]);
    }
}
