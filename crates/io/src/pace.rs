//! When the next train may be sent: a pure state machine ([`Pace`]) and its driver with the real clock ([`Pacer`]).
//!
//! A train spans at most 100 µs of the set rate, holds at most 64 KiB, and is one packet below 10,000 packets/s. Time
//! earns credit, trains spend it. Two bounds keep every second within 1 %: credit for immediate use is at most one
//! train and 100 µs; further delay by a stall is kept as a debt of at most 9 ms and paid back over 11 times its length,
//! so that a stall causes no burst. Hence in any second at most 0.92 % too much and one train; a stall above 9 ms is
//! given up and counted. No clock is read per packet: once per train, and while waiting. Refuses: a rate that is not
//! finite and positive.

use std::time::{Duration, Instant};

/// Nanoseconds with 32 fractional bits: 20 Mpackets/s are exact to 5e-12.
type Fine = i128;
const ONE_NS: Fine = 1 << 32;

/// Longest train: 100 µs of the rate.
pub const TRAIN_NS: f64 = 100_000.0;
/// Largest train in bytes.
pub const TRAIN_BYTES: usize = 65_536;
/// Credit for immediate use beyond one train: a wake-up this late costs nothing.
const SLACK: Fine = 100_000 * ONE_NS;
/// Largest debt after a stall. 9 ms + 100 µs + one train of 100 µs is 0.92 % of a second.
const DEBT: Fine = 9_000_000 * ONE_NS;
/// One part in this many of the elapsed time is paid back: 1.1 times the rate at most.
const PAYBACK: Fine = 10;

/// The clockwork: given the time, how many packets may go. Knows no clock.
#[derive(Debug, Clone)]
pub struct Pace {
    /// Time of one packet.
    interval: Fine,
    /// Packets in a train.
    train: u32,
    credit: Fine,
    debt: Fine,
    most_debt: Fine,
    given_up: Fine,
    now_ns: u64,
}

/// Why a rate was refused.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("a rate of {0} packets/s cannot be kept; allowed are 0.001 to 1000000000")]
pub struct PaceError(f64);

impl Pace {
    /// `packets_per_second` (0.001..=1e9) of `payload` bytes each, starting at `now_ns` with one
    /// train's credit.
    ///
    /// # Errors
    /// A rate outside the range.
    pub fn new(packets_per_second: f64, payload: usize, now_ns: u64) -> Result<Pace, PaceError> {
        if !(1e-3..=1e9).contains(&packets_per_second) {
            return Err(PaceError(packets_per_second));
        }
        let interval_ns = 1e9 / packets_per_second;
        let by_time = (TRAIN_NS / interval_ns) as usize;
        let by_bytes = TRAIN_BYTES / payload.max(1);
        let train = by_time.min(by_bytes).clamp(1, 1 << 20) as u32;
        let interval = (interval_ns * ONE_NS as f64).round() as Fine;
        let credit = interval * Fine::from(train);
        let most_debt = DEBT;
        Ok(Pace { interval, train, credit, debt: 0, most_debt, given_up: 0, now_ns })
    }

    /// Gives nothing up: a stall of any length is paid back, so that the mean is the rate. For senders with their own
    /// clock, which must not fall behind.
    pub fn keep_all(mut self) -> Pace {
        self.most_debt = Fine::MAX / 4;
        self
    }

    /// Packets in a train.
    pub fn train(&self) -> u32 {
        self.train
    }

    /// Lets time pass until `now_ns` (never backwards) and spends the credit of one train if it is
    /// there. Returns the packets to send now: a whole train, or 0.
    #[inline]
    pub fn take(&mut self, now_ns: u64) -> u32 {
        let passed = Fine::from(now_ns.saturating_sub(self.now_ns)) * ONE_NS;
        self.now_ns = self.now_ns.max(now_ns);
        let paid = self.debt.min(passed / PAYBACK);
        self.debt -= paid;
        self.credit += passed + paid;
        let cost = self.cost();
        let over = self.credit - (cost + SLACK);
        if over > 0 {
            self.credit -= over;
            self.debt += over;
            let lost = self.debt - self.most_debt;
            if lost > 0 {
                self.debt = self.most_debt;
                self.given_up += lost;
            }
        }
        if self.credit < cost {
            return 0;
        }
        self.credit -= cost;
        self.train
    }

    /// Nanoseconds until [`Pace::take`] gives a train; 0: now.
    #[inline]
    pub fn wait_ns(&self) -> u64 {
        let missing = (self.cost() - self.credit).max(0);
        // While a debt is paid back, 10 ns bring 11, until the debt is gone.
        let missing = (missing - self.debt).max(missing * PAYBACK / (PAYBACK + 1));
        u64::try_from((missing + ONE_NS - 1) / ONE_NS).unwrap_or(u64::MAX)
    }

    /// Packets that were not sent in time and never will be: stalls above 9 ms, or a rate that the
    /// sender cannot reach.
    pub fn given_up(&self) -> u64 {
        u64::try_from(self.given_up / self.interval).unwrap_or(u64::MAX)
    }

    fn cost(&self) -> Fine {
        self.interval * Fine::from(self.train)
    }
}

/// Sleeping ends this much before the train is due; the rest is spun. A sleep with 1 ns slack ends
/// 2 to 60 µs late on a quiet core.
const NEAR: Duration = Duration::from_micros(100);

/// [`Pace`] driven by the system's monotonic clock, which starts with the first wait.
#[derive(Debug)]
pub struct Pacer {
    pace: Option<Pace>,
    began: Option<Instant>,
    train: u32,
}

impl Pacer {
    /// Paces packets of `payload` bytes.
    ///
    /// # Errors
    /// A rate outside 0.001..=1e9 packets/s.
    pub fn new(packets_per_second: f64, payload: usize) -> Result<Pacer, PaceError> {
        let pace = Pace::new(packets_per_second, payload, 0)?;
        Ok(Pacer { train: pace.train(), pace: Some(pace), began: None })
    }

    /// The same, but a stall is paid back whole: see [`Pace::keep_all`].
    pub fn keep_all(mut self) -> Pacer {
        self.pace = self.pace.map(Pace::keep_all);
        self
    }

    /// Never waits: trains of 64 KiB at once, without reading a clock.
    pub fn flat_out(payload: usize) -> Pacer {
        let train = (TRAIN_BYTES / payload.max(1)).clamp(1, 1 << 16) as u32;
        Pacer { pace: None, began: None, train }
    }

    /// Largest number that [`Pacer::wait`] returns.
    pub fn train(&self) -> u32 {
        self.train
    }

    /// Waits until a train is due and returns its packets, at least 1; waits at most `longest`, then
    /// returns 0 so that the caller can look whether it shall stop.
    pub fn wait(&mut self, longest: Duration) -> u32 {
        let Some(pace) = &mut self.pace else { return self.train };
        let began = *self.began.get_or_insert_with(|| {
            // On the thread that waits. Only makes sleeps end earlier; without it more is spun.
            let _ = crate::sys::precise_sleep();
            Instant::now()
        });
        let mut first: Option<Duration> = None;
        loop {
            let now = began.elapsed();
            let packets = pace.take(now.as_nanos() as u64);
            if packets > 0 {
                return packets;
            }
            let left = longest.saturating_sub(now - *first.get_or_insert(now));
            if left.is_zero() {
                return 0;
            }
            let due = Duration::from_nanos(pace.wait_ns());
            match due.min(left).checked_sub(NEAR) {
                Some(far) if !far.is_zero() => std::thread::sleep(far),
                _ => std::hint::spin_loop(),
            }
        }
    }

    /// Packets that were not sent in time and never will be; 0 when flat out.
    pub fn given_up(&self) -> u64 {
        self.pace.as_ref().map_or(0, Pace::given_up)
    }
}

#[cfg(test)]
#[path = "pace_tests.rs"]
mod tests;
