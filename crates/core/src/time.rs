//! Time in integers only: ticks, nanoseconds, pulses.
//!
//! Inside `detect` times are unwrapped i64 ticks of a detector-specific length; one function
//! ([`TickLength::to_nanos`]) makes nanoseconds, rounding down. [`PulseGrid`] finds the pulse that an
//! absolute time belongs to. Refuses: a tick length or period of 0.

/// Unwrapped ticks of a detector's clock since its epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ticks(pub i64);

/// Nanoseconds since the epoch (1970 UTC unless configured otherwise).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Nanos(pub i64);

/// Time of a pulse, nanoseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PulseTime(pub i64);

/// Length of a tick: `num`/`den` nanoseconds, both 1..=2³¹−1 (62.5 ns: 125/2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TickLength {
    num: u32,
    den: u32,
}

impl TickLength {
    /// One nanosecond.
    pub const NANOSECOND: TickLength = TickLength { num: 1, den: 1 };

    /// `num`/`den` ns, or `None` if one of them is 0 or above 2³¹−1.
    pub fn new(num: u32, den: u32) -> Option<TickLength> {
        let ok = 1..=i32::MAX as u32;
        (ok.contains(&num) && ok.contains(&den)).then_some(TickLength { num, den })
    }

    /// Nanoseconds of `ticks`, rounded down (towards the past, also before the epoch); saturates.
    #[inline]
    pub fn to_nanos(self, ticks: Ticks) -> Nanos {
        if self.num == 1 && self.den == 1 {
            return Nanos(ticks.0);
        }
        let ns = (i128::from(ticks.0) * i128::from(self.num)).div_euclid(i128::from(self.den));
        Nanos(ns.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64)
    }

    /// (numerator, denominator) in ns.
    pub fn fraction(self) -> (u32, u32) {
        (self.num, self.den)
    }

    /// True where a tick is a nanosecond and no arithmetic is needed.
    pub fn is_nanosecond(self) -> bool {
        self.num == self.den
    }
}

/// A regular grid of pulses: pulse k is at `phase + floor(k * period)`, period = num/den ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PulseGrid {
    num: u64,
    den: u64,
    phase_ns: i64,
}

/// Reference blocks for detectors without pulses: 2³⁰ ns ≈ 1.07 s, so no offset leaves 31 bits.
pub const REFERENCE_BLOCK_NS: u64 = 1 << 30;
/// The same where times are those of the host's clock: 67 ms.
const LIVE_BLOCK_NS: u64 = 1 << 26;

impl PulseGrid {
    /// Blocks of 2²⁶ ns (67 ms) counted from `epoch`, for times of the host's clock: a file writer selects
    /// messages by their pulse, so a run's file begins and ends within one block of the ordered times.
    pub fn live_blocks(epoch: Nanos) -> PulseGrid {
        PulseGrid { num: LIVE_BLOCK_NS, den: 1, phase_ns: epoch.0 }
    }

    /// Blocks of 2³⁰ ns counted from `epoch` (`[time] pulse = "none"`).
    pub fn reference_blocks(epoch: Nanos) -> PulseGrid {
        PulseGrid { num: REFERENCE_BLOCK_NS, den: 1, phase_ns: epoch.0 }
    }

    /// A grid of period `num`/`den` ns; `None` unless 1 ns ≤ period < 2³¹ ns and both parts < 2⁴⁰.
    pub fn new(num: u64, den: u64, phase: Nanos) -> Option<PulseGrid> {
        let ok = den > 0 && num >= den && num / den < 1 << 31 && num < 1 << 40 && den < 1 << 40;
        ok.then_some(PulseGrid { num, den, phase_ns: phase.0 })
    }

    /// The pulse that owns time `t` and the next one: `pulse <= t < next`.
    pub fn around(&self, t: Nanos) -> (PulseTime, PulseTime) {
        let (num, den) = (i128::from(self.num), i128::from(self.den));
        let since = i128::from(t.0) - i128::from(self.phase_ns);
        let at = |k: i128| (k * num).div_euclid(den);
        // k ≈ since/period; floor() in `at` can put the estimate one too low or too high.
        let mut k = (since * den).div_euclid(num);
        while at(k) > since {
            k -= 1;
        }
        while at(k + 1) <= since {
            k += 1;
        }
        let clamp = |v: i128| v.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
        let phase = i128::from(self.phase_ns);
        (PulseTime(clamp(at(k) + phase)), PulseTime(clamp(at(k + 1) + phase)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ticks_round_down_on_both_sides_of_the_epoch() {
        let t = TickLength::new(125, 2).unwrap();
        assert_eq!(t.to_nanos(Ticks(1)), Nanos(62));
        assert_eq!(t.to_nanos(Ticks(-1)), Nanos(-63));
        assert_eq!(TickLength::new(0, 1), None);
        assert_eq!(TickLength::new(1, 1 << 31), None);
    }

    #[test]
    fn fourteen_hertz_does_not_drift() {
        let g = PulseGrid::new(1_000_000_000, 14, Nanos(0)).unwrap();
        let (p, next) = g.around(Nanos(3600 * 1_000_000_000));
        assert_eq!(p.0, 3600 * 1_000_000_000, "pulse 50,400 falls on the full hour");
        assert_eq!(next.0 - p.0, 71_428_571);
    }

    proptest! {
        #[test]
        fn every_time_lies_in_its_pulse(t in any::<i64>(), num in 1u64..1 << 31, den in 1u64..1000, phase in -1i64 << 40..1 << 40) {
            if let Some(g) = PulseGrid::new(num, den, Nanos(phase)) {
                let t = t >> 2;
                let (p, next) = g.around(Nanos(t));
                prop_assert!(p.0 <= t && t < next.0, "{p:?} {t} {next:?}");
                prop_assert!(next.0 - p.0 < 1 << 31);
            }
        }
    }
}
