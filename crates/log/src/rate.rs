//! How often one place in the source may say something: 100 lines in 10 s; what is more is counted.
//!
//! Time is an argument. A fault that comes with each message of a broker would otherwise fill a disk, and hide everything else.

use std::time::Duration;

/// Lines of a call site in a window.
pub const MOST: u32 = 100;
/// Length of a window.
pub const WINDOW: Duration = Duration::from_secs(10);

/// One place in the source.
#[derive(Debug, Default)]
pub struct LogRate {
    since: Duration,
    told: u32,
    left_out: u64,
}

impl LogRate {
    /// May it say something at `now`? If so: how many were left out before that nobody knows of.
    pub fn ask(&mut self, now: Duration) -> Option<u64> {
        if now.saturating_sub(self.since) >= WINDOW {
            (self.since, self.told) = (now, 0);
        }
        if self.told < MOST {
            self.told += 1;
            return Some(std::mem::take(&mut self.left_out));
        }
        self.left_out += 1;
        None
    }

    /// How many were left out, once the window is over; 0 if that was said.
    pub fn overdue(&mut self, now: Duration) -> u64 {
        match now.saturating_sub(self.since) >= WINDOW {
            true => std::mem::take(&mut self.left_out),
            false => 0,
        }
    }

    /// The same at the end, when there is no more time.
    pub fn rest(&mut self) -> u64 {
        std::mem::take(&mut self.left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_is_told_or_counted_once_and_no_window_has_more(steps in proptest::collection::vec(0u64..40, 0..2000)) {
            let (mut rate, mut now) = (LogRate::default(), Duration::ZERO);
            let (mut told, mut counted) = (Vec::new(), 0);
            for step in &steps {
                now += Duration::from_millis(*step);
                match rate.ask(now) {
                    Some(before) => { told.push(now); counted += before; }
                    None => prop_assert!(told.len() >= MOST as usize),
                }
            }
            counted += rate.overdue(now + WINDOW);
            prop_assert_eq!(told.len() as u64 + counted, steps.len() as u64);
            prop_assert_eq!(rate.rest(), 0);
            // Two neighbouring windows share at most twice as many.
            for (at, first) in told.iter().enumerate() {
                let within = told[at..].iter().filter(|t| **t - *first < WINDOW).count();
                prop_assert!(within <= 2 * MOST as usize);
            }
        }
    }
}
