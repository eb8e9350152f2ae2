//! Partitions that the group wants for another member, until they are given up.
//!
//! Nothing more is read meanwhile, and all that was read goes through the pipeline and into the output's spool. That has a
//! bound: the group waits for a member only so long, and a spool that is full can keep it for ever. Then what is safe counts,
//! and the rest comes again to the next owner. Source: `docs/decisions/0014-partitions-that-move.md`.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Partitions on their way to other members.
pub(crate) struct Leaving {
    /// Those that wait for it; empty if the group has taken them already, and only the pipeline has to know.
    pub partitions: BTreeSet<i32>,
    since: Instant,
    /// Batch behind all that was read, once its number is given: what waited is decided with it.
    pub asked: Option<u64>,
}

impl Leaving {
    /// From now on.
    pub fn new(partitions: BTreeSet<i32>, now: Instant) -> Leaving {
        Leaving { partitions, since: now, asked: None }
    }

    /// True once nobody waits any longer.
    pub fn late(&self, now: Instant, patience: Duration) -> bool {
        now.saturating_duration_since(self.since) >= patience
    }
}
