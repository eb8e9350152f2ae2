//! `fullcount lab probes`: what each probe of the host's loss counters costs.
//!
//! Measuring can cause the loss that it looks for, so a receiver reads only what is cheap. Refuses: 0
//! readings, and more than a million. Source: `docs/losses.md`.

use std::fmt::Write;
use std::time::Duration;

use clap::Args;
use fullcount_engine::config::refuse;
use fullcount_io::host::Host;
use fullcount_io::host::probe::{Cost, Probe, cost};
use fullcount_lab::record::Figure;
use serde_json::json;

use super::lossless::ResultFlags;
use crate::exit::Failure;

/// Reads each probe many times, prints µs per reading and writes a results file.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Flags {
    /// Readings of each probe, 1 to 1000000
    #[arg(long, value_name = "N", default_value_t = 1000)]
    readings: usize,
    #[command(flatten)]
    result: ResultFlags,
}

const EXAMPLES: &str = "\
A receiver reads all but the last once per `engine.probes` (1s), off the hot path; its cost is in
the counters host.probes and host.probe_ns. The last walks the kernel's whole table of ports: the
receiver's own drop count says the same for nothing.

Examples:
  fullcount lab probes
  fullcount lab probes --readings 10000 --json";

fn us(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

/// Measures and prints.
pub fn probes(flags: Flags) -> Result<u8, Failure> {
    if !(1..=1_000_000).contains(&flags.readings) {
        return Err(refuse("readings", flags.readings, "1 to 1000000").into());
    }
    let mut record = flags.result.begin("probes")?;
    let host = Host::default();
    let all: Vec<Cost> = Probe::ALL.into_iter().map(|p| cost(&host, p, flags.readings)).collect();
    let read = |c: &&Cost| c.available && c.probe.in_reading();
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
    record.parameter("readings", flags.readings);
    if let Some(figure) = Figure::of(&[us(together)], "µs") {
        record.figure("reading", &figure);
    }
    flags.result.finish(&record, "What looking for losses costs", &table)?;
    Ok(0)
}
