//! Pacing with spead2's rate and burst: bursts at full speed, and a sleep after each.
//!
//! Two schedules: the nominal one depends on bytes only, the catch-up one on when the last burst really left. So the mean rate
//! is the one asked for, and after a late wake-up at most `burst_rate_ratio` times that. Times are ns with 32 bits of
//! fraction, so nothing drifts. Source: `docs/formats/spead.md`, section 13.

use fullcount_core::refusal::{Refusal, refuse};

/// ns with 32 fractional bits.
type Fine = i128;
const ONE_NS: Fine = 1 << 32;

/// Rate and bursts. Rates are SPEAD bytes per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PaceSettings {
    /// Bytes/s; 0: without limit.
    pub rate: f64,
    /// Bytes that leave without a pause; a burst ends with the packet that reaches this.
    pub burst_size: u64,
    /// How much faster than `rate` it may catch up, at least 1.
    pub burst_rate_ratio: f64,
}

impl Default for PaceSettings {
    fn default() -> PaceSettings {
        PaceSettings { rate: 0.0, burst_size: 65_536, burst_rate_ratio: 1.05 }
    }
}

impl PaceSettings {
    /// Looks at every value.
    ///
    /// # Errors
    /// Key, value and range of the first that cannot be.
    pub fn check(&self) -> Result<(), Refusal> {
        if !(0.0..=1e13).contains(&self.rate) {
            return Err(refuse("rate", self.rate, "0 (no limit) to 1e13 B/s"));
        }
        if !(1.0..=1000.0).contains(&self.burst_rate_ratio) {
            return Err(refuse("burst_rate_ratio", self.burst_rate_ratio, "1 to 1000"));
        }
        Ok(())
    }
}

/// Says when the next packet may leave.
#[derive(Debug, Clone)]
pub struct BurstPacer {
    settings: PaceSettings,
    burst_bytes: u64,
    wait: Fine,
    nominal: Fine,
    catch_up: Fine,
    /// The time until which the last burst waits.
    until: Fine,
    /// The rate is another one: what was not sent at the old one is not caught up.
    renewed: bool,
    /// Time that may be caught up; `None`: all of it.
    most_late: Option<Fine>,
    /// Time that was not caught up.
    forgiven: Fine,
}

impl BurstPacer {
    /// The first packet leaves at once.
    pub fn new(settings: PaceSettings) -> BurstPacer {
        BurstPacer {
            settings,
            burst_bytes: 0,
            wait: 0,
            nominal: Fine::MIN / 4,
            catch_up: Fine::MIN / 4,
            until: Fine::MIN / 4,
            renewed: false,
            most_late: None,
            forgiven: 0,
        }
    }

    /// Rate and bursts.
    pub fn settings(&self) -> PaceSettings {
        self.settings
    }

    /// Another rate from the next packet on. What was not sent in time at the old one is not caught up: a sender whose rate was
    /// lowered, because its link is slower, would go on at `burst_rate_ratio` times that.
    pub fn set_rate(&mut self, rate: f64) {
        let rate = rate.clamp(0.0, 1e13);
        self.renewed |= rate != self.settings.rate;
        self.settings.rate = rate;
    }

    /// Of a delay only so much is caught up, ns. For rates close to what a link carries: after 20 ms without the processor a
    /// sender that catches up 5 % faster fills 5 ms of the link's queue.
    pub fn set_most_late(&mut self, ns: u64) {
        self.most_late = Some(Fine::from(ns) * ONE_NS);
    }

    /// How far packets are behind the pace, ns; `waits`: some wait now. It grows while the way out is slower than the rate, and
    /// while the sender does not get the processor.
    pub fn behind_ns(&self, now_ns: u64, waits: bool) -> u64 {
        let late = Fine::from(now_ns) * ONE_NS - self.nominal;
        // Before the first burst there is no pace.
        let late = if waits && self.nominal > 0 { late.max(0) } else { 0 };
        u64::try_from((late + self.forgiven) / ONE_NS).unwrap_or(u64::MAX)
    }

    /// Another burst from the next packet on.
    pub fn set_burst(&mut self, burst_size: u64) {
        self.settings.burst_size = burst_size;
    }

    /// The queue was empty and has a heap again: the idle time is not caught up.
    pub fn wake(&mut self, now_ns: u64) {
        let now = Fine::from(now_ns) * ONE_NS;
        self.nominal = self.nominal.max(now - self.wait);
        self.catch_up = self.catch_up.max(now - self.wait);
    }

    /// When the next packet may leave, ns; not later than `now_ns`: at once.
    pub fn due_ns(&mut self, now_ns: u64) -> u64 {
        if std::mem::take(&mut self.renewed) {
            self.wake(now_ns);
        }
        if self.burst_bytes >= self.settings.burst_size {
            let now = Fine::from(now_ns) * ONE_NS;
            let slower = self.wait as f64 / self.settings.burst_rate_ratio;
            self.nominal += self.wait;
            let least = self.most_late.map_or(Fine::MIN, |late| now - late);
            if self.nominal < least {
                self.forgiven += least - self.nominal;
                self.nominal = least;
            }
            self.catch_up += slower as Fine;
            self.until = self.nominal.max(self.catch_up);
            self.catch_up = now.max(self.until);
            (self.burst_bytes, self.wait) = (0, 0);
        }
        let up = self.until + ONE_NS - 1;
        u64::try_from(up / ONE_NS).unwrap_or(0)
    }

    /// A packet has left; `rate` is its heap's, `None`: the stream's.
    pub fn sent(&mut self, bytes: usize, rate: Option<f64>) {
        self.burst_bytes += bytes as u64;
        let rate = rate.unwrap_or(self.settings.rate);
        if rate > 0.0 {
            // Longer than a day is as good as for ever.
            let ns = (bytes as f64 / rate * 1e9).min(1e14);
            self.wait += (ns * ONE_NS as f64) as Fine;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends `packets` of `bytes`, waking up `late` ns after each time asked for. Returns when each left.
    fn run(
        settings: PaceSettings,
        bytes: usize,
        packets: usize,
        late: impl Fn(usize) -> u64,
    ) -> Vec<u64> {
        let mut pacer = BurstPacer::new(settings);
        let mut now = 1_000_000;
        pacer.wake(now);
        let mut times = vec![];
        for n in 0..packets {
            let due = pacer.due_ns(now);
            if due > now {
                now = due + late(n);
            }
            times.push(now);
            pacer.sent(bytes, None);
        }
        times
    }

    fn rate(times: &[u64], bytes: usize) -> f64 {
        (times.len() - 1) as f64 * bytes as f64 / ((times[times.len() - 1] - times[0]) as f64 / 1e9)
    }

    #[test]
    fn the_mean_rate_is_the_one_asked_for_in_bursts() {
        let settings = PaceSettings { rate: 5e9, ..Default::default() };
        let times = run(settings, 65_536, 1_000_000, |_| 0);
        // 13107.2 ns each: the fraction does not drift.
        assert_eq!(times[999_999] - times[0], 13_107_186_893);
        let times = run(PaceSettings { rate: 1e9, ..settings }, 1024, 64_001, |_| 0);
        assert!((rate(&times, 1024) - 1e9).abs() < 1e6);
        assert!(times[..64].iter().all(|t| *t == times[0]), "a burst leaves at once");
        assert_eq!(times[64] - times[0], 65_536);
        assert!(run(PaceSettings::default(), 1024, 1000, |_| 0).iter().all(|t| *t == 1_000_000));
    }

    #[test]
    fn late_wake_ups_are_caught_up_no_faster_than_the_ratio() {
        let settings = PaceSettings { rate: 1e9, burst_size: 1000, burst_rate_ratio: 1.05 };
        // One sleep of 1 ms too long.
        let times = run(settings, 1000, 100_000, |n| if n == 100 { 1_000_000 } else { 0 });
        let fast = rate(&times[102..10_000], 1000);
        assert!((fast / 1e9 - 1.05).abs() < 0.001, "{fast}");
        let all = rate(&times, 1000);
        assert!((all / 1e9 - 1.0).abs() < 0.001, "caught up: {all}");
    }

    #[test]
    fn an_idle_period_is_not_caught_up_and_a_heap_has_its_own_rate() {
        let settings = PaceSettings { rate: 1e9, burst_size: 1, burst_rate_ratio: 1.0 };
        let mut pacer = BurstPacer::new(settings);
        pacer.wake(0);
        pacer.sent(1000, None);
        assert_eq!(pacer.due_ns(0), 1000);
        pacer.wake(5_000_000);
        pacer.sent(1000, None);
        assert_eq!(pacer.due_ns(5_000_000), 5_001_000);
        pacer.sent(1000, Some(1e8));
        assert_eq!(pacer.due_ns(5_001_000), 5_011_000);
        pacer.sent(1000, Some(0.0));
        assert_eq!(pacer.due_ns(5_011_000), 5_011_000);
        pacer.set_rate(1e7);
        pacer.sent(1000, None);
        assert_eq!(pacer.due_ns(5_011_000), 5_111_000);
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_range() {
        let bad = PaceSettings { burst_rate_ratio: 0.9, ..Default::default() };
        assert_eq!(bad.check().unwrap_err().to_string(), "burst_rate_ratio = 0.9: 1 to 1000");
        assert!(PaceSettings { rate: f64::NAN, ..Default::default() }.check().is_err());
    }
}
