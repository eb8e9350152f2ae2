//! How many threads a decoder may use, and what each does first.

use std::sync::Arc;

/// Most threads of a decoder, the caller included: more than any detector's rate asks for.
pub const MOST_THREADS: usize = 64;

/// What each further thread does first, with its number from 1: pinning, for instance.
pub type Started = Arc<dyn Fn(usize) + Send + Sync>;

/// How many threads a decoder may use.
#[derive(Clone)]
pub struct Threads {
    /// 1 to [`MOST_THREADS`], the calling one included.
    pub count: usize,
    /// Called first on each further thread.
    pub started: Started,
}

impl Threads {
    /// So many, which do nothing special at their start.
    pub fn of(count: usize) -> Threads {
        Threads { count, started: Arc::new(|_| {}) }
    }
}
