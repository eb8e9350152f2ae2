//! When a recorded datagram is due: a pure function of recorded times, speed and repetition.
//!
//! The clock is a trait, so that tests control it. Datagrams whose recorded time is before their predecessor's are due
//! with it: a replay never changes the order. A delayed replay gives overdue datagrams at once and is then on time
//! again. Speeds are checked when the URL is parsed.

use std::time::{Duration, Instant};

use crate::endpoint::PcapSpeed;

/// Time that only goes forward.
pub trait ReplayClock: Send {
    /// Nanoseconds since some moment.
    fn now_ns(&self) -> u64;
    /// Waits about so long.
    fn sleep(&self, time: Duration);
}

/// The system's monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct MonotonicClock {
    zero: Instant,
}

impl Default for MonotonicClock {
    fn default() -> Self {
        MonotonicClock { zero: Instant::now() }
    }
}

impl ReplayClock for MonotonicClock {
    fn now_ns(&self) -> u64 {
        self.zero.elapsed().as_nanos() as u64
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// Turns recorded times into times since the beginning of the replay.
#[derive(Debug, Clone)]
pub struct Schedule {
    speed: PcapSpeed,
    /// Recorded time of the first datagram of this pass.
    first_ns: Option<i64>,
    /// Recorded time from the replay's beginning to the first datagram of this pass.
    base_ns: u64,
    /// Same for the latest datagram.
    latest_ns: u64,
    /// Datagrams asked for in this pass.
    count: u64,
}

impl Schedule {
    /// Nothing played yet.
    pub fn new(speed: PcapSpeed) -> Schedule {
        Schedule { speed, first_ns: None, base_ns: 0, latest_ns: 0, count: 0 }
    }

    /// When the next datagram is due, in ns since the replay's beginning; `recorded_ns` is its time
    /// in the file, `None` if it has none (due with its predecessor). Call once per datagram.
    pub fn due(&mut self, recorded_ns: Option<i64>) -> u64 {
        self.count += 1;
        if let Some(recorded) = recorded_ns {
            let first = *self.first_ns.get_or_insert(recorded);
            let since = u64::try_from(i128::from(recorded) - i128::from(first)).unwrap_or(0);
            self.latest_ns = self.latest_ns.max(self.base_ns.saturating_add(since));
        }
        match self.speed {
            PcapSpeed::Recorded => self.latest_ns,
            PcapSpeed::Factor(f) => (self.latest_ns as f64 / f) as u64,
            PcapSpeed::FlatOut => 0,
        }
    }

    /// The file starts again, one mean distance after its last datagram.
    pub fn again(&mut self) {
        let span = self.latest_ns - self.base_ns;
        let gap = span.checked_div(self.count.saturating_sub(1)).unwrap_or(0);
        self.base_ns = self.latest_ns.saturating_add(gap);
        self.latest_ns = self.base_ns;
        self.first_ns = None;
        self.count = 0;
    }

    /// Recorded time that earlier passes took, ns.
    pub fn base_ns(&self) -> u64 {
        self.base_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn recorded_distances_are_kept_and_divided_by_the_factor() {
        let mut s = Schedule::new(PcapSpeed::Recorded);
        let due: Vec<u64> = [5_000, 6_000, 9_000].map(|t| s.due(Some(t))).to_vec();
        assert_eq!(due, [0, 1_000, 4_000]);
        let mut s = Schedule::new(PcapSpeed::Factor(2.0));
        let due: Vec<u64> = [5_000, 6_000, 9_000].map(|t| s.due(Some(t))).to_vec();
        assert_eq!(due, [0, 500, 2_000]);
        let mut s = Schedule::new(PcapSpeed::FlatOut);
        assert_eq!([5_000, 6_000].map(|t| s.due(Some(t))), [0, 0]);
    }

    #[test]
    fn times_that_go_back_or_are_absent_keep_the_order() {
        let mut s = Schedule::new(PcapSpeed::Recorded);
        let due = [Some(100), None, Some(50), Some(300), Some(200)].map(|t| s.due(t));
        assert_eq!(due, [0, 0, 0, 200, 200]);
    }

    #[test]
    fn a_repeat_follows_after_one_mean_distance() {
        let mut s = Schedule::new(PcapSpeed::Recorded);
        for t in [1_000, 2_000, 3_000] {
            s.due(Some(t));
        }
        s.again();
        assert_eq!((s.base_ns(), s.due(Some(1_000)), s.due(Some(2_000))), (3_000, 3_000, 4_000));
        let mut one = Schedule::new(PcapSpeed::Recorded);
        one.due(Some(7));
        one.again();
        assert_eq!(one.due(Some(7)), 0, "a single datagram has no distance to repeat at");
    }

    proptest! {
        #[test]
        fn never_goes_back(times in proptest::collection::vec(any::<Option<i64>>(), 0..50), f in 1e-6f64..1e6) {
            let mut s = Schedule::new(PcapSpeed::Factor(f));
            let mut last = 0;
            for _ in 0..3 {
                for &t in &times {
                    let due = s.due(t);
                    prop_assert!(due >= last);
                    last = due;
                }
                s.again();
            }
        }
    }
}
