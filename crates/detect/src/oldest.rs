//! Which batches have left a builder that keeps no note at each hit.
//!
//! Times tell: what waits at a moment has left once nothing waits any more that is as early. So one moment is followed at a
//! time, and the next once that has passed. The answer is late by as much, and never early. What comes later and is as early
//! holds it up, which is no harm. Source: `docs/contracts.md`, "Progress".

use fullcount_core::progress::BatchNumber;

/// One moment: `M` says what waited then.
#[derive(Debug)]
pub(crate) struct OldestBatch<M> {
    newest: BatchNumber,
    /// Nothing waits of the batches up to this one.
    gone: u64,
    /// Newest batch at that moment, and what waited.
    moment: Option<(u64, M)>,
}

impl<M> Default for OldestBatch<M> {
    fn default() -> Self {
        OldestBatch { newest: BatchNumber::default(), gone: 0, moment: None }
    }
}

impl<M> OldestBatch<M> {
    /// The builder has all hits of the batches up to this one.
    #[inline]
    pub fn came(&mut self, newest: BatchNumber) {
        self.newest = newest;
    }

    /// The oldest batch of which something may wait. `waits`: whether anything of that moment does; `now`: what waits now, if
    /// anything does.
    pub fn oldest(
        &mut self,
        waits: impl FnOnce(&mut M) -> bool,
        now: impl FnOnce() -> Option<M>,
    ) -> Option<BatchNumber> {
        if !self.moment.as_mut().is_some_and(|(_, moment)| waits(moment)) {
            self.passed();
            self.moment = now().map(|moment| (self.newest.batch, moment));
            if self.moment.is_none() {
                self.gone = self.newest.batch;
                return None;
            }
        }
        Some(BatchNumber { batch: self.gone + 1, ..self.newest })
    }

    /// What waited at the moment that is followed.
    pub fn moment(&self) -> Option<&M> {
        self.moment.as_ref().map(|(_, moment)| moment)
    }

    /// All of it has left.
    pub fn passed(&mut self) {
        if let Some((batch, _)) = self.moment.take() {
            self.gone = batch;
        }
    }
}
