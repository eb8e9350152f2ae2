//! How long a receiver sleeps after it has emptied its socket in the middle of a stream.
//!
//! A receiver that waits in the socket is woken by each arrival, which costs both sides; one that sleeps on a timer
//! finds more at once. The sleep adapts: at moderate rates it is as long as the buffer allows, since each nap costs
//! timer and system calls; flat out it is short, so that waiting data stays in the caches. Source:
//! `docs/decisions/0006-naps.md`.

use std::time::Duration;

use crate::endpoint::Engine;

/// Shortest nap. Loopback, Linux 6.18, EPYC 9004 guest, no nap against 200 µs: flat out 43 and 69 Gb/s at
/// 8972 B, 44 and 71 at 1472 B, 8 to 16 and 19 at 64 B.
const LEAST: Duration = Duration::from_micros(200);
/// Longest nap. A paced 10 Gb/s of 8972 B takes 13 % of a near core with 200 µs, 10 % with 500 µs, 8.5 % with 1 ms,
/// and no less with 2 ms.
const MOST: Duration = Duration::from_millis(1);
/// A nap that found fewer bytes may be longer: 10 Gb/s is 1.25 MB in 1 ms.
const FEW: u64 = 1_300_000;
/// A nap that found more was too long: flat out, 1 ms costs a tenth of the 69 Gb/s that 200 µs reach.
const MANY: u64 = 2 * FEW;
/// By so much a nap grows or shrinks.
const STEP: Duration = Duration::from_micros(100);
/// How late timers are.
const SLACK: Duration = Duration::from_micros(50);

/// The nap of one receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Nap {
    now: Duration,
    least: Duration,
    most: Duration,
    /// Bytes received since the last nap.
    found: u64,
}

impl Nap {
    /// Always so long; `None` for 0.
    pub fn fixed(nap: Duration) -> Option<Nap> {
        let found = 0;
        (!nap.is_zero()).then_some(Nap { now: nap, least: nap, most: nap, found })
    }

    /// For an engine and a receive buffer of `buffer` bytes: with the timer's slack, an eighth of it fills at
    /// 10 Gb/s at most; `None` if that is below 50 µs, and with `plain`, which is the paper's method of
    /// one blocking call a packet (with naps it would reach 18 instead of 14 Gb/s at 8972 B on loopback).
    pub fn usual(engine: Engine, buffer: u64) -> Option<Nap> {
        let most = Duration::from_nanos(buffer / 10).saturating_sub(SLACK).min(MOST);
        let least = most.min(LEAST);
        let worth = most >= SLACK && engine != Engine::Plain;
        worth.then_some(Nap { now: least, least, most, found: 0 })
    }

    /// Shortest and longest.
    pub fn range(&self) -> (Duration, Duration) {
        (self.least, self.most)
    }

    /// So many bytes came.
    #[inline]
    pub fn found(&mut self, bytes: u64) {
        self.found += bytes;
    }

    /// The next nap, by the result of the last one.
    #[inline]
    pub fn next(&mut self) -> Duration {
        let found = std::mem::take(&mut self.found);
        if found < FEW {
            self.now = (self.now + STEP).min(self.most);
        } else if found > MANY {
            self.now = self.now.saturating_sub(STEP).max(self.least);
        }
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUFFER: u64 = 128 << 20;

    fn us(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    #[test]
    fn a_nap_settles_where_it_finds_about_two_megabytes() {
        for (gbps, settled) in [(0.1, 1000), (10.0, 1000), (20.0, 600), (65.0, 300)] {
            let mut nap = Nap::usual(Engine::Gro, BUFFER).unwrap();
            let mut slept = us(0);
            for _ in 0..50 {
                nap.found((gbps * slept.as_secs_f64() * 1e9 / 8.0) as u64);
                slept = nap.next();
            }
            assert_eq!(slept, us(settled), "{gbps} Gb/s");
        }
    }

    #[test]
    fn small_buffers_get_short_naps_or_none() {
        let most = |buffer| Nap::usual(Engine::Mmsg, buffer).map(|n| n.range().1);
        assert_eq!(most(BUFFER), Some(us(1000)));
        assert_eq!(most(1 << 20), Some(Duration::from_nanos(54_857)));
        assert_eq!(most(900_000), None);
        assert_eq!(Nap::usual(Engine::Plain, BUFFER), None);
    }

    #[test]
    fn a_nap_that_was_asked_for_does_not_change() {
        let mut nap = Nap::fixed(us(300)).unwrap();
        assert_eq!(nap.next(), us(300));
        nap.found(1 << 30);
        assert_eq!(nap.next(), us(300));
        assert_eq!(Nap::fixed(us(0)), None);
    }
}
