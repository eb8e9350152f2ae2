//! How much may be in flight: four strategies, chosen when a sender is made.
//!
//! `none` has no bound and makes a shared network collapse; `static` has a constant one; `simplified`, the default, halves
//! it for each window in which something was lost and doubles it after so many rounds without loss; `reno` is RFC 5681 with
//! the recovery of RFC 6582. Refuses: [`Strategy::check`]. Source: docs/stcp.md, "Congestion".

use crate::settings::SettingsError;

/// Which bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// None: only to show what then happens.
    Free,
    /// Always so many bytes, at least one segment.
    Static {
        /// Bytes.
        cwnd: u32,
    },
    /// The greatest, shifted right by one more bit for each window with a loss.
    Simplified {
        /// Greatest window, bytes; 0: the greatest that the peer ever offered.
        cwnd_max: u32,
        /// Greatest shift, bits.
        shift_max: u8,
        /// Never below so many segments.
        floor: u8,
        /// Rounds without loss until the shift goes back by one.
        clean_rounds: u16,
    },
    /// Slow start and congestion avoidance.
    Reno,
}

impl Strategy {
    /// The default.
    pub const SIMPLIFIED: Strategy =
        Strategy::Simplified { cwnd_max: 0, shift_max: 9, floor: 4, clean_rounds: 16 };

    /// As a person names it.
    pub const fn name(&self) -> &'static str {
        match self {
            Strategy::Free => "none",
            Strategy::Static { .. } => "static",
            Strategy::Simplified { .. } => "simplified",
            Strategy::Reno => "reno",
        }
    }

    /// All values are possible.
    ///
    /// # Errors
    /// The first that is not.
    pub const fn check(&self) -> Result<(), SettingsError> {
        match *self {
            Strategy::Simplified { shift_max, .. } if shift_max > 30 => Err(SettingsError {
                key: "shift_max",
                value: shift_max as u64,
                allowed: "0 to 30 bits",
            }),
            Strategy::Simplified { floor: 0, .. } => {
                Err(SettingsError { key: "floor", value: 0, allowed: "1 to 255 segments" })
            }
            Strategy::Simplified { clean_rounds: 0, .. } => {
                Err(SettingsError { key: "clean_rounds", value: 0, allowed: "1 to 65535 rounds" })
            }
            _ => Ok(()),
        }
    }
}

/// Where a stream stands when congestion control is asked, as offsets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// Oldest byte that is not acknowledged.
    pub una: u64,
    /// Behind the last byte ever sent.
    pub max: u64,
    /// Segment size.
    pub mss: u16,
}

/// State of the strategy.
#[derive(Debug, Clone)]
pub(crate) struct Congestion {
    strategy: Strategy,
    /// Simplified: losses below it are of a window that was halved already.
    cc_recover: u64,
    /// Simplified: a round ends when everything below it is acknowledged.
    round_end: u64,
    /// Reno: windows in bytes.
    cwnd: u32,
    ssthresh: u32,
    clean: u16,
    shift: u8,
}

/// Segments of Reno's first window.
const INITIAL_SEGMENTS: u32 = 10;

impl Congestion {
    pub fn new(strategy: Strategy) -> Congestion {
        let (cc_recover, round_end, clean, shift) = (0, 0, 0, 0);
        Congestion { strategy, cc_recover, round_end, cwnd: 0, ssthresh: 1 << 30, clean, shift }
    }

    /// The connection is there.
    pub fn begin(&mut self, mss: u16) {
        self.cwnd = INITIAL_SEGMENTS * u32::from(mss);
    }

    pub fn shift(&self) -> u8 {
        self.shift
    }

    /// Bytes that may be in flight.
    #[inline]
    pub fn window(&self, max_wnd: u32, mss: u16) -> u32 {
        let mss = u32::from(mss);
        match self.strategy {
            Strategy::Free => u32::MAX,
            Strategy::Static { cwnd } => cwnd.max(mss),
            Strategy::Simplified { cwnd_max, floor, .. } => {
                let most = if cwnd_max == 0 { max_wnd } else { cwnd_max };
                (most >> self.shift).max(u32::from(floor) * mss)
            }
            Strategy::Reno => self.cwnd.max(mss),
        }
    }

    fn halve(&mut self, at: Place) {
        if let Strategy::Simplified { shift_max, .. } = self.strategy {
            self.shift = (self.shift + 1).min(shift_max);
            self.cc_recover = at.max;
            self.round_end = at.max;
            self.clean = 0;
        }
    }

    fn half_flight(at: Place) -> u32 {
        let flight = u32::try_from(at.max - at.una).unwrap_or(u32::MAX);
        (flight / 2).max(2 * u32::from(at.mss))
    }

    /// Enough duplicate ACKs.
    pub fn lost(&mut self, at: Place) {
        if matches!(self.strategy, Strategy::Reno) {
            self.ssthresh = Self::half_flight(at);
            self.cwnd = self.ssthresh + 3 * u32::from(at.mss);
        } else if at.una >= self.cc_recover {
            self.halve(at);
        }
    }

    /// The retransmission timer expired; `lone_tail`: it was the first expiry for one short last segment.
    pub fn expired(&mut self, at: Place, lone_tail: bool) {
        if lone_tail {
            return;
        }
        if matches!(self.strategy, Strategy::Reno) {
            self.ssthresh = Self::half_flight(at);
            self.cwnd = u32::from(at.mss);
        }
        self.halve(at);
    }

    /// One more duplicate ACK in recovery.
    pub fn duplicate(&mut self, mss: u16) {
        if matches!(self.strategy, Strategy::Reno) {
            self.cwnd = self.cwnd.saturating_add(u32::from(mss)).min(1 << 30);
        }
    }

    /// `bytes` were acknowledged; `at` is the place afterwards.
    #[inline]
    pub fn acknowledged(&mut self, bytes: u64, at: Place, recovering: bool) {
        match self.strategy {
            Strategy::Simplified { clean_rounds, .. } if at.una >= self.round_end => {
                self.round_end = at.max;
                if self.shift > 0 {
                    self.clean += 1;
                    if self.clean >= clean_rounds {
                        self.shift -= 1;
                        self.clean = 0;
                    }
                }
            }
            Strategy::Reno if !recovering => {
                let mss = u32::from(at.mss);
                let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
                let more = match self.cwnd < self.ssthresh {
                    true => bytes.min(2 * mss),
                    false => ((u64::from(mss) * u64::from(bytes)) / u64::from(self.cwnd.max(1)))
                        .clamp(1, u64::from(mss)) as u32,
                };
                self.cwnd = self.cwnd.saturating_add(more).min(1 << 30);
            }
            Strategy::Reno => {
                let left = self.cwnd.saturating_sub(u32::try_from(bytes).unwrap_or(u32::MAX));
                self.cwnd = left.saturating_add(u32::from(at.mss));
            }
            _ => {}
        }
    }

    /// Recovery is over.
    pub fn recovered(&mut self) {
        if matches!(self.strategy, Strategy::Reno) {
            self.cwnd = self.ssthresh;
        }
    }
}
