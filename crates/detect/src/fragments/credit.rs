//! How far a stream may be read: those that are awaited always, those that are ahead as long as there is room.
//!
//! What waits is bounded: free memory is shared among all sources, and a stream that is ahead gets a share at a time. A stream
//! that is awaited has nothing waiting, so it always gets enough for the longest fragment: the oldest event can always be
//! completed. A paused stream goes on when a quarter of the memory is free, or when it is awaited.

use super::assembly::MOST_FRAGMENT;

/// Credit of a stream that is awaited: the longest fragment with its blocks' headers, twice.
pub(super) const FULL: u64 = 2 * (MOST_FRAGMENT + 2048 * 16);
/// Least credit of a stream that is ahead; below it is paused.
const LEAST: std::ops::RangeInclusive<u64> = 4 << 10..=64 << 10;

/// The rule.
#[derive(Debug, Clone, Copy)]
pub(super) struct CreditRule {
    memory: u64,
    sources: u64,
    least: u64,
}

/// What a stream gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grant {
    /// So many bytes.
    Bytes(u64),
    /// Nothing for now.
    Pause,
    /// It is paused, and stays so.
    Stay,
}

impl CreditRule {
    pub fn new(memory: u64, sources: usize) -> CreditRule {
        let sources = sources.max(1) as u64;
        let least = (memory / (4 * sources)).clamp(*LEAST.start(), *LEAST.end());
        CreditRule { memory, sources, least }
    }

    /// For a stream: is it awaited, is it paused. `held`: bytes that wait.
    pub fn grant(&self, held: u64, awaited: bool, paused: bool) -> Grant {
        if awaited {
            return Grant::Bytes(FULL);
        }
        if paused && held > self.memory / 4 * 3 {
            return Grant::Stay;
        }
        let share = self.memory.saturating_sub(held) / self.sources;
        if share >= self.least {
            Grant::Bytes(share.min(FULL))
        } else if paused {
            Grant::Stay
        } else {
            Grant::Pause
        }
    }

    /// True if more waits than may.
    pub fn is_full(&self, held: u64) -> bool {
        held > self.memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_awaited_always_gets_the_longest_fragment_and_others_a_share() {
        let rule = CreditRule::new(1 << 20, 4);
        assert_eq!(rule.grant(u64::MAX, true, true), Grant::Bytes(FULL));
        assert_eq!(rule.grant(0, false, false), Grant::Bytes(1 << 18));
        assert_eq!(rule.grant(1 << 20, false, false), Grant::Pause);
        assert_eq!(rule.grant((1 << 20) - (1 << 17), false, true), Grant::Stay);
        assert_eq!(rule.grant(1 << 19, false, true), Grant::Bytes(1 << 17));
        assert!(!rule.is_full(1 << 20) && rule.is_full((1 << 20) + 1));
    }
}
