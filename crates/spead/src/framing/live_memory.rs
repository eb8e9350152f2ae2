//! How much memory all unfinished heaps of several byte streams may have together.
//!
//! Each stream claims what its heap takes before it takes it, and gives it back when the heap is handed on, cut or skipped. Source:
//! `docs/formats/spead.md`, section 8.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A heap's memory grows by at least so many bytes.
const STEP: u64 = 1 << 20;

/// Memory of unfinished heaps, bytes: what is claimed, and the most.
#[derive(Debug)]
pub struct LiveMemory {
    held: AtomicU64,
    most: u64,
}

impl LiveMemory {
    /// At most `most` bytes.
    pub fn new(most: u64) -> Arc<LiveMemory> {
        Arc::new(LiveMemory { held: AtomicU64::new(0), most })
    }

    /// Bytes that unfinished heaps have.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// True: `more` bytes are claimed.
    fn claim(&self, more: u64) -> bool {
        let held = |held: u64| held.checked_add(more).filter(|&after| after <= self.most);
        self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, held).is_ok()
    }
}

/// What one stream has of it.
#[derive(Debug)]
pub(super) struct LiveShare {
    pub all: Arc<LiveMemory>,
    pub bytes: u64,
}

impl Default for LiveShare {
    fn default() -> LiveShare {
        LiveShare { all: LiveMemory::new(u64::MAX), bytes: 0 }
    }
}

impl LiveShare {
    /// The heap takes `bytes` in all. False: that is too much.
    pub fn grow(&mut self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let claimed = self.all.claim(more);
        self.bytes += if claimed { more } else { 0 };
        claimed
    }

    /// A heap of `whole` bytes that has `have` takes more, as [`HeapBytes::stretch_on`](crate::receive::HeapBytes::stretch_on) does:
    /// twice what it has.
    pub fn reach(&mut self, have: usize, whole: usize) -> bool {
        let next = (have as u64 + STEP).min(whole as u64);
        next <= self.bytes || self.grow((2 * self.bytes).clamp(next, whole as u64))
    }

    /// The heap has gone.
    pub fn clear(&mut self) {
        self.all.held.fetch_sub(std::mem::take(&mut self.bytes), Ordering::Relaxed);
    }
}

impl Drop for LiveShare {
    fn drop(&mut self) {
        self.clear();
    }
}
