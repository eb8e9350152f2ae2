//! What people are told of streams, on standard error: few lines a second, whatever happens.

use std::io::Write;
use std::time::{Duration, Instant};

/// Lines in a second at most.
const MOST: u32 = 8;
const SECOND: Duration = Duration::from_secs(1);

/// Says what happens, and how much more happened.
#[derive(Debug)]
pub(super) struct News {
    since: Instant,
    said: u32,
    kept: u64,
}

impl News {
    pub fn new() -> News {
        News { since: Instant::now(), said: 0, kept: 0 }
    }

    /// Says a line, unless there were too many.
    pub fn say(&mut self, now: Instant, what: std::fmt::Arguments<'_>) {
        self.turn(now);
        if self.said >= MOST {
            self.kept += 1;
            return;
        }
        self.said += 1;
        let _ = writeln!(std::io::stderr(), "fullcount: {what}");
    }

    /// A second is over: says how much was not said.
    pub fn turn(&mut self, now: Instant) {
        if now.saturating_duration_since(self.since) < SECOND {
            return;
        }
        if self.kept > 0 {
            let _ = writeln!(std::io::stderr(), "fullcount: tcp: {} more such lines", self.kept);
        }
        (self.since, self.said, self.kept) = (now, 0, 0);
    }
}
