//! Partitions that the group wants for another member, until they are given up.
//!
//! Nothing more is read meanwhile, and all that was read goes through the pipeline and into the output's spool. That has a
//! bound: the group waits for a member only so long, and a spool that is full can keep it for ever. Then what is safe counts,
//! and the rest comes again to the next owner. Source: `docs/decisions/0014-partitions-that-move.md`.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::group_place::{GroupPlace, Parting};

/// Partitions on their way to other members.
pub(crate) struct Leaving {
    /// Those that wait for it; empty if the group has taken them already, and only the pipeline has to know.
    pub partitions: BTreeSet<i32>,
    since: Instant,
    /// What the pipeline was asked, once all that was read is handed on.
    asked: Option<u64>,
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

    /// A look, once all that was read is handed on: how they are given up, if it is time.
    pub fn turn(
        &mut self,
        place: &GroupPlace,
        now: Instant,
        patience: Duration,
    ) -> Option<Parting> {
        let asked = *self.asked.get_or_insert_with(|| place.drain());
        let safe = match self.partitions.is_empty() {
            true => place.settled(asked),
            false => place.drained(asked),
        };
        match safe {
            true => Some(Parting::Drained),
            false => self.late(now, patience).then_some(Parting::Late),
        }
    }
}
