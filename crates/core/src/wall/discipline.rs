//! How fast the host's clock runs relative to the detector's, from the delays of packets, second by second.
//!
//! A packet never comes before its time, so the smallest delay of a second is the best measure. A
//! second-order control loop removes the difference between line and host within some seconds and follows the
//! drift, like those that discipline a computer's clock by another. It begins with a short time constant.
//! Source: `docs/time.md`.

use super::line::MOST_PPB;

/// Time in which a difference is removed, s: noise of 10 µs then changes the rate by 1.2 ppm.
const SETTLE_S: i64 = 16;
/// The same in the beginning, when the drift is not known: 150 ppm lead to 0.22 ms, not to 0.9.
const SETTLE_FIRST_S: i64 = 4;
/// Corrections in the beginning.
const FIRST: u32 = 24;

/// A loop of second order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Discipline {
    /// How much faster the host's clock goes, ppb.
    pub drift_ppb: i64,
    /// Last difference, host less line, ns.
    pub error_ns: i64,
    corrections: u32,
}

impl Discipline {
    /// The host was `error_ns` ahead of the line (behind it: negative) in a time of `span_ns`: the rate of the next line, ppb.
    pub fn correct(&mut self, error_ns: i64, span_ns: i64) -> i64 {
        self.error_ns = error_ns;
        let settle = if self.corrections < FIRST { SETTLE_FIRST_S } else { SETTLE_S };
        self.corrections = self.corrections.saturating_add(1);
        // Of a longer time not all is known.
        let seconds = (span_ns / 1_000_000_000).clamp(1, settle);
        // ns in a second are ppb.
        let small = error_ns.clamp(-MOST_PPB * settle, MOST_PPB * settle);
        let drift = self.drift_ppb + small * seconds / (settle * settle);
        self.drift_ppb = drift.clamp(-MOST_PPB, MOST_PPB);
        (self.drift_ppb + 2 * small / settle).clamp(-MOST_PPB, MOST_PPB)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Follows a clock of this drift for this many seconds; returns the largest difference of the last ten, and the
    /// estimated drift.
    fn follow(drift_ppb: i64, first_ns: i64, seconds: usize) -> (i64, i64) {
        let (mut loop_, mut error, mut rate) = (Discipline::default(), first_ns, 0);
        let mut largest = 0;
        for second in 0..seconds {
            error += drift_ppb - rate;
            rate = loop_.correct(error, 1_000_000_000);
            if second + 10 >= seconds {
                largest = largest.max(error.abs());
            }
        }
        (largest, loop_.drift_ppb)
    }

    #[test]
    fn a_drift_is_found_and_taken_away() {
        for drift in [-150_000, -1_000, 0, 20_000, 150_000] {
            let (error, found) = follow(drift, 0, 300);
            assert!(error < 300, "{drift}: {error} ns");
            assert!((found - drift).abs() <= 300, "{drift}: {found}");
        }
        let (error, _) = follow(0, 900_000, 300);
        assert!(error < 300, "a late first packet: {error} ns");
    }

    #[test]
    fn it_never_corrects_by_more_than_200_ppm() {
        let mut discipline = Discipline::default();
        for error in [i64::MAX, i64::MIN, 1 << 40, -(1 << 40)] {
            let rate = discipline.correct(error, i64::MAX);
            assert!(rate.abs() <= MOST_PPB && discipline.drift_ppb.abs() <= MOST_PPB);
        }
    }
}
