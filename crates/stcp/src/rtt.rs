//! Round trip and retransmission time: RFC 6298 in ns, with a granularity of 1 µs. Source: docs/stcp.md, "Times".

use crate::settings::{RtoMode, StcpSettings};

const US: u64 = 1000;

/// What was measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RoundTrip {
    /// Smoothed round trip, ns; 0 before the first sample.
    pub srtt_ns: u64,
    /// Its variation, ns.
    pub rttvar_ns: u64,
    /// Samples, at most 2³²−1.
    pub samples: u32,
    /// Doublings since the last valid sample.
    pub backoff: u8,
    /// A SYN was repeated: begin with at least 3 s.
    pub careful: bool,
}

impl RoundTrip {
    /// One valid sample (Karn: of bytes that were sent once). The doubling ends.
    pub fn sample(&mut self, ns: u64) {
        if self.samples == 0 {
            self.srtt_ns = ns;
            self.rttvar_ns = ns / 2;
        } else {
            self.rttvar_ns = (3 * self.rttvar_ns + self.srtt_ns.abs_diff(ns)) / 4;
            self.srtt_ns = (7 * self.srtt_ns + ns) / 8;
        }
        self.samples = self.samples.saturating_add(1);
        self.backoff = 0;
    }

    /// RTO before it is held within bounds and doubled, ns; `None` before the first sample.
    pub fn computed_ns(&self) -> Option<u64> {
        (self.samples > 0).then(|| self.srtt_ns + (4 * self.rttvar_ns).max(US))
    }

    /// RTO, ns.
    pub fn rto_ns(&self, settings: &StcpSettings) -> u64 {
        let most = u64::from(settings.rto_max_us) * US;
        let base = match settings.rto {
            RtoMode::Rigid(us) => return u64::from(us) * US,
            RtoMode::Fixed(us) => u64::from(us) * US,
            RtoMode::Adaptive => match self.computed_ns() {
                Some(ns) => ns.max(u64::from(settings.rto_min_us) * US),
                None if self.careful => {
                    (u64::from(settings.rto_initial_us) * US).max(3_000_000_000)
                }
                None => u64::from(settings.rto_initial_us) * US,
            },
        };
        base.saturating_mul(1 << self.backoff.min(30)).min(most.max(US))
    }

    /// The timer expired.
    pub fn expired(&mut self) {
        self.backoff = (self.backoff + 1).min(30);
    }

    /// New bytes were acknowledged: a fixed time is not doubled any more.
    pub fn progress(&mut self, settings: &StcpSettings) {
        if matches!(settings.rto, RtoMode::Fixed(_)) {
            self.backoff = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Statement 24: by hand, SRTT 100, 100, 125; RTTVAR 50, 37.5, 78.125 µs.
    #[test]
    fn s24_samples_follow_the_rfc() {
        let mut rtt = RoundTrip::default();
        assert_eq!(rtt.computed_ns(), None);
        for (sample, srtt, rttvar) in
            [(100, 100_000, 50_000), (100, 100_000, 37_500), (300, 125_000, 78_125)]
        {
            rtt.sample(sample * US);
            assert_eq!((rtt.srtt_ns, rtt.rttvar_ns), (srtt, rttvar));
            assert_eq!(rtt.computed_ns(), Some(srtt + 4 * rttvar));
        }
        let s = StcpSettings::default();
        assert_eq!(rtt.rto_ns(&s), 200_000_000);
        rtt.expired();
        assert_eq!(rtt.rto_ns(&s), 400_000_000);
        for _ in 0..100 {
            rtt.expired();
        }
        assert_eq!(rtt.rto_ns(&s), 60_000_000_000);
    }

    #[test]
    fn granularity_is_the_least_variation() {
        let mut rtt = RoundTrip::default();
        for _ in 0..200 {
            rtt.sample(50_000);
        }
        assert_eq!(rtt.computed_ns(), Some(51_000));
    }
}
