//! Waits for a broker's confirmations at the end of a verb. Prints at once what it waits for and how long, and stops at
//! a second signal.

use std::time::{Duration, Instant};

use super::link::News;
use super::publisher::{PublishError, Publisher};

/// A running broker confirms within this; a longer wait is reported.
const UNSAID: Duration = Duration::from_millis(300);
/// Interval between two checks whether to continue.
const LOOK: Duration = Duration::from_millis(50);

/// What the user wants from a program that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndWish {
    /// Go on.
    GoOn,
    /// End, and complete open work.
    End,
    /// End without waiting.
    AtOnce,
}

/// Waits until everything is confirmed or refused, or until the end is asked for again. `news` hears of a long wait.
///
/// # Errors
/// Something is not confirmed.
pub fn confirm(
    publisher: &Publisher,
    brokers: &str,
    patience: Duration,
    wish: &dyn Fn() -> EndWish,
    news: News,
) -> Result<(), PublishError> {
    let (begun, before) = (Instant::now(), wish());
    let mut said = false;
    loop {
        let waited = begun.elapsed();
        let left = patience.saturating_sub(waited);
        let outcome = publisher.flush(left.min(LOOK));
        let now = wish();
        if outcome.is_ok() || left.is_zero() || now == EndWish::AtOnce || now > before {
            return outcome;
        }
        if !said && waited >= UNSAID {
            said = true;
            let (seconds, n) = (left.as_secs_f64().ceil(), publisher.waiting());
            let again = if before == EndWish::GoOn { "" } else { " again" };
            news(&format!(
                "fullcount: waiting up to {seconds:.0} s for the broker at {brokers}: {n} messages are not confirmed; \
                 Ctrl-C{again} to stop now"
            ));
        }
    }
}
