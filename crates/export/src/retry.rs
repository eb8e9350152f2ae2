//! When a peer that is gone is tried again: at once, then after 1 s, and ever later up to 30 s.
//!
//! Source: `control-and-monitoring.md` section 4.2 (at once, then every 30 s).

use std::time::Duration;

/// Longest pause.
pub const LONGEST: Duration = Duration::from_secs(30);

/// Attempts that failed since the last success.
#[derive(Debug, Default)]
pub struct Retry {
    failed: u32,
}

impl Retry {
    /// An attempt failed; how long to wait for the next.
    pub fn failed(&mut self) -> Duration {
        let pause = match self.failed {
            0 => Duration::ZERO,
            n => Duration::from_secs(1 << (n - 1).min(5)).min(LONGEST),
        };
        self.failed = self.failed.saturating_add(1);
        pause
    }

    /// True for the second failure in a row: the first may be a restart of the peer, and later ones are no news.
    pub fn is_news(&self) -> bool {
        self.failed == 2
    }

    /// It works; true if that was said to fail.
    pub fn succeeded(&mut self) -> bool {
        std::mem::take(&mut self.failed) >= 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_30_s_and_begin_anew_after_a_success() {
        let mut retry = Retry::default();
        let pauses: Vec<u64> = (0..9).map(|_| retry.failed().as_secs()).collect();
        assert_eq!(pauses, [0, 1, 2, 4, 8, 16, 30, 30, 30]);
        assert!(retry.succeeded() && !retry.succeeded());
        retry.failed();
        assert!(!retry.is_news());
        retry.failed();
        assert!(retry.is_news());
        retry.failed();
        assert!(!retry.is_news());
    }
}
