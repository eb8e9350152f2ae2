//! Waiting for a broker's confirmations at an end, where somebody may want to go.
//!
//! Says at once what is waited for and how long, and stops when it is told to a second time. Refuses nothing.

use std::time::{Duration, Instant};

use fullcount_engine::stop::Stop;
use fullcount_out::kafka::{PublishError, Publisher};

use crate::note;

/// A broker that is there confirms within this; a longer wait is said.
const UNSAID: Duration = Duration::from_millis(300);
/// Between two looks at whether to go on.
const LOOK: Duration = Duration::from_millis(50);

/// Waits until everything is confirmed or refused, or until the end is asked for again.
///
/// # Errors
/// Something is not confirmed.
pub fn confirm(
    publisher: &Publisher,
    brokers: &str,
    patience: Duration,
    stop: &Stop,
) -> Result<(), PublishError> {
    let (begun, asked) = (Instant::now(), stop.requested());
    let mut said = false;
    loop {
        let waited = begun.elapsed();
        let left = patience.saturating_sub(waited);
        let outcome = publisher.flush(left.min(LOOK));
        if outcome.is_ok() || left.is_zero() || stop.hurried() || (!asked && stop.requested()) {
            return outcome;
        }
        if !said && waited >= UNSAID {
            said = true;
            let (seconds, n) = (left.as_secs_f64().ceil(), publisher.waiting());
            let again = if asked { " again" } else { "" };
            note!(
                "fullcount: waiting up to {seconds:.0} s for the broker at {brokers}: {n} messages are not confirmed; \
                 Ctrl-C{again} to stop now"
            );
        }
    }
}
