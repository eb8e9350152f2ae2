//! What each probe of the host's loss counters costs.
//!
//! Measuring can cause the loss that it looks for, so a receiver reads only what is cheap. Source: `docs/losses.md`.

use std::fmt::Write;
use std::time::Duration;

use fullcount_io::host::Host;
use fullcount_io::host::probe::{Probe, ProbeCost, cost};
use serde_json::json;

use crate::record::{Figure, Record};

/// Readings of each probe that may be asked for.
pub const READINGS: std::ops::RangeInclusive<usize> = 1..=1_000_000;

fn us(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

/// Reads each probe so many times, notes what that took, and gives the table.
pub fn measure(readings: usize, record: &mut Record) -> String {
    let host = Host::default();
    let all: Vec<ProbeCost> = Probe::ALL.into_iter().map(|p| cost(&host, p, readings)).collect();
    let read = |c: &&ProbeCost| c.available && c.probe.in_reading();
    let together: Duration = all.iter().filter(read).map(|c| c.median).sum();
    let mut table = String::from(
        "| probe | median µs | least µs | most µs | while receiving |\n|:--|--:|--:|--:|:--|\n",
    );
    for c in &all {
        let place = c.probe.place();
        let when = if c.probe.in_reading() { "yes" } else { "no" };
        let (median, least, most) = (us(c.median), us(c.least), us(c.most));
        let _ = match c.available {
            true => writeln!(table, "| {place} | {median:.1} | {least:.1} | {most:.1} | {when} |"),
            false => writeln!(table, "| {place} | not here | – | – | {when} |"),
        };
        record.row(json!({
            "probe": place, "available": c.available, "median_us": median, "least_us": least,
            "most_us": most, "while_receiving": c.probe.in_reading(),
        }));
    }
    let share = us(together) / 1e6 * 100.0;
    let _ = writeln!(
        table,
        "\nOne reading together: {:.1} µs, {share:.3} % of a core at one reading a second.",
        us(together)
    );
    record.parameter("readings", readings);
    record.figure("reading", Figure::of(&[us(together)], "µs").as_ref());
    table
}
