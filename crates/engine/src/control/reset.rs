//! `STAT_RESET`: counters as they are shown to scripts begin at 0 again; the ledger goes on, and decides the exit code.
//!
//! What can fall (a queue's length, a present value) and extremes are shown as they are. Source: `docs/operations.md`.

use std::collections::HashMap;

use fullcount_core::naming::UPTIME;
use fullcount_core::status::StatusSource;

/// What was counted when somebody last reset.
#[derive(Debug, Default)]
pub struct ResetBase(HashMap<String, i64>);

impl ResetBase {
    /// From here on all of them are 0 that only grow, but for the uptime.
    pub fn reset(&mut self, run: &dyn StatusSource) {
        let entries = run.entries();
        let stays = |name: &str| name == UPTIME || run.can_fall(name, &entries);
        self.0 = run.published().into_iter().filter(|(name, _)| !stays(name)).collect();
    }

    /// A value as it is shown.
    pub fn shown(&self, name: &str, value: i64) -> i64 {
        value.saturating_sub(self.0.get(name).copied().unwrap_or(0)).max(0)
    }

    /// True if nobody has reset.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
