//! Shows that the threads that read packets and make events go round: a service manager is told of a run only as long as they do.
//!
//! A thread leaves a mark with each batch, one store and no clock; who watches compares the marks once a second. Where a thread may
//! rightly wait (for an output behind a source that waits, for a file or a broker that gives nothing, at the end) it says so, and is
//! not watched. Time is an argument. Source: `docs/operations.md`, "systemd".

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A thread that has left no mark for so long stands still. A batch takes ms; the longest that is known, a batch of a thread that is
/// put aside by others on a host without a free processor, takes seconds.
pub const STANDS_STILL: Duration = Duration::from_secs(30);
/// The time between two looks counts as so long at most: a process that stood still as a whole has not waited for its threads.
const LOOK: Duration = Duration::from_secs(2);

/// The mark of one thread, which alone writes it.
#[derive(Debug, Default)]
pub struct Heart {
    rounds: AtomicU64,
    rests: AtomicBool,
}

impl Heart {
    /// The thread goes round.
    #[inline]
    pub fn beat(&self) {
        self.rounds.store(self.rounds.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// From now on it may wait for as long as that takes; or no longer.
    #[inline]
    pub fn rests(&self, rests: bool) {
        self.rests.store(rests, Relaxed);
    }
}

/// One heart as it was last seen.
#[derive(Debug)]
struct Watched {
    name: String,
    heart: Arc<Heart>,
    rounds: u64,
    still: Duration,
}

/// Those of all threads of a run.
#[derive(Debug, Default)]
pub struct Hearts(Mutex<(Vec<Watched>, Option<Instant>)>);

impl Hearts {
    /// A thread more.
    pub fn add(&self, name: String) -> Arc<Heart> {
        let heart = Arc::<Heart>::default();
        let watched = Watched { name, heart: heart.clone(), rounds: 0, still: Duration::ZERO };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0.push(watched);
        heart
    }

    /// Names of the threads that stand still; to be asked about once a second.
    pub fn stand_still(&self, now: Instant) -> Vec<String> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, looked) = &mut *all;
        let since =
            looked.replace(now).map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        for watched in all.iter_mut() {
            let rounds = watched.heart.rounds.load(Relaxed);
            let goes = rounds != watched.rounds || watched.heart.rests.load(Relaxed);
            watched.still = if goes { Duration::ZERO } else { watched.still + since.min(LOOK) };
            watched.rounds = rounds;
        }
        standing(all)
    }

    /// The same as of the last such look.
    pub fn stood_still(&self) -> Vec<String> {
        standing(&self.0.lock().unwrap_or_else(PoisonError::into_inner).0)
    }
}

fn standing(all: &[Watched]) -> Vec<String> {
    let still = all.iter().filter(|watched| watched.still >= STANDS_STILL);
    still.map(|watched| watched.name.clone()).collect()
}

#[cfg(test)]
#[path = "heart_tests.rs"]
mod tests;
