//! The host's time of arrivals, as a clock that never goes back.
//!
//! For formats whose own times restart all the time, so that a packet's arrival is its only time. If the
//! host's clock was set back, it continues from where it was, 200 ppm slower, until the host has caught up.
//! It depends on the arrivals alone: a recording gives the same. Source: `docs/time.md`.

/// Parts of 10⁶ by which it is slower while it is ahead.
const SLOWER_PPM: i64 = 200;

/// See the [module](self).
#[derive(Debug, Clone, Copy, Default)]
pub struct ArrivalClock {
    last: i64,
    ahead: i64,
    /// Time that has gone by and is too short to make good anything yet, ns.
    rest: i64,
}

impl ArrivalClock {
    /// The time of a packet that came at `received_ns`, ns since 1970.
    #[inline]
    pub fn at(&mut self, received_ns: i64) -> i64 {
        if received_ns <= 0 {
            // Of unknown arrival.
            return self.last;
        }
        let now = received_ns.saturating_add(self.ahead);
        if now < self.last {
            self.ahead = self.last.saturating_sub(received_ns);
            return self.last;
        }
        if self.ahead == 0 {
            self.last = now;
            return now;
        }
        let gone = now.saturating_sub(self.last).saturating_add(self.rest);
        let less = (gone / (1_000_000 / SLOWER_PPM)).min(self.ahead);
        self.rest = gone % (1_000_000 / SLOWER_PPM);
        self.ahead -= less;
        self.last = now - less;
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_with_the_host_and_never_back() {
        let mut clock = ArrivalClock::default();
        assert_eq!([5, 7, 7].map(|at| clock.at(at)), [5, 7, 7]);
        // Set back by an hour.
        let hour = 3_600_000_000_000;
        clock.at(2 * hour);
        let first = clock.at(hour);
        assert_eq!(first, 2 * hour);
        let mut last = first;
        for second in 1..=1000 {
            let now = clock.at(hour + second * 1_000_000_000);
            assert!(now > last);
            last = now;
        }
        // 200 ppm of 1000 s.
        assert_eq!(last, 2 * hour + 1000 * 1_000_000_000 - 200_000_000);
        // However soon packets follow each other: 500 s more, a packet each 0.1 ms.
        for tenth in 1..=5_000_000 {
            last = clock.at(hour + 1000 * 1_000_000_000 + tenth * 100_000);
        }
        assert_eq!(last, 2 * hour + 1500 * 1_000_000_000 - 300_000_000);
        assert_eq!(clock.at(0), last, "of unknown arrival");
    }

    #[test]
    fn an_hour_is_made_good_in_time_and_extremes_do_no_harm() {
        let mut clock = ArrivalClock::default();
        clock.at(1_000_000_000);
        clock.at(0);
        assert_eq!(clock.at(6_000_000_000_000), 6_000_000_000_000, "a second in 5000");
        for at in [i64::MAX, i64::MIN, 0, i64::MAX] {
            clock.at(at);
        }
    }
}
