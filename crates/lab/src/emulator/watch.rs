//! Watches a link that is up: a line of progress every 10 s, until its time is over or somebody asks to stop.

use std::time::{Duration, Instant};

use super::{Emulator, EmulatorError, EmulatorReport};
use crate::Tell;
use fullcount_core::quantity::spoken;

/// Between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(10);
/// Between two looks at the wish to stop.
const LOOK: Duration = Duration::from_millis(20);

/// Watches it for `duration`, and ends it; gives its time in seconds and its ledger.
///
/// # Errors
/// What ended the link before.
pub fn watch(
    emulator: Emulator,
    stop: &dyn Fn() -> bool,
    duration: Option<Duration>,
    tell: Tell,
) -> Result<(f64, EmulatorReport), EmulatorError> {
    let begun = Instant::now();
    let (mut told, mut before) = (Duration::ZERO, emulator.report());
    tell("the link is up");
    while !stop() && emulator.running() {
        let now = begun.elapsed();
        if duration.is_some_and(|d| now >= d) {
            break;
        }
        if now - told >= PROGRESS {
            let report = emulator.report();
            tell(&progress(&before, &report, now - told, duration.map(|d| d - now)));
            (told, before) = (now, report);
        }
        std::thread::sleep(LOOK);
    }
    let seconds = begun.elapsed().as_secs_f64();
    Ok((seconds, emulator.end()?))
}

fn progress(
    before: &EmulatorReport,
    now: &EmulatorReport,
    over: Duration,
    left: Option<Duration>,
) -> String {
    let seconds = over.as_secs_f64().max(1e-9);
    let mut text = String::new();
    for (n, way) in ["A>B", "B>A"].into_iter().enumerate() {
        let (then, c) = (&before.counts[n], &now.counts[n]);
        let rate = |new: u64, old: u64| (new - old) as f64 / seconds;
        text += &format!(
            "{way} {:.3} Gbit/s  {:.0} frames/s  gone {}  ",
            rate(c.channel.delivered_bytes, then.channel.delivered_bytes) * 8.0 / 1e9,
            rate(c.channel.delivered, then.channel.delivered),
            c.gone(),
        );
    }
    left.map_or(text.clone(), |left| format!("{text}{} left", spoken(left)))
}
