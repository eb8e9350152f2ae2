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
use serde_json::{Value, json};

use crate::exit::Failure;
use crate::{note, say, tell};

/// Reads each probe many times and prints µs per reading; writes no file.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Flags {
    /// Readings of each probe, 1 to 1000000
    #[arg(long, value_name = "N", default_value_t = 1000)]
    readings: usize,
    /// End with one JSON object on standard output
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
A receiver reads all but the last once per `engine.probes` (1s), off the hot path; its cost is in the
counters host.probes and host.probe_ns. The last walks the kernel's whole table of ports: the receiver's
own drop count says the same for nothing.

Examples:
  fullcount lab probes
  fullcount lab probes --readings 10000 --json";

fn us(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

/// Measures and prints.
pub fn probes(flags: &Flags) -> Result<u8, Failure> {
    if !(1..=1_000_000).contains(&flags.readings) {
        return Err(refuse("readings", flags.readings, "1 to 1000000").into());
    }
    let host = Host::default();
    let all: Vec<Cost> = Probe::ALL.into_iter().map(|p| cost(&host, p, flags.readings)).collect();
    let read = |c: &&Cost| c.available && c.probe.in_reading();
    let together: Duration = all.iter().filter(read).map(|c| c.median).sum();
    let mut table = format!(
        "{:<34}{:>10}{:>10}{:>10}  while receiving\n",
        "probe", "median µs", "least µs", "most µs"
    );
    for c in &all {
        let place = c.probe.place();
        let when = if c.probe.in_reading() { "yes" } else { "no" };
        let _ = match c.available {
            true => writeln!(
                table,
                "{place:<34}{:>10.1}{:>10.1}{:>10.1}  {when}",
                us(c.median),
                us(c.least),
                us(c.most)
            ),
            false => writeln!(table, "{place:<34}{:>10}", "not here"),
        };
    }
    let share = us(together) / 1e6 * 100.0;
    let _ = writeln!(
        table,
        "one reading together{:>24.1} µs: {share:.3} % of a core at one reading a second",
        us(together)
    );
    if !flags.json {
        tell!("{table}");
        return Ok(0);
    }
    note!("{}", table.trim_end());
    let one = |c: &Cost| -> Value {
        json!({"probe": c.probe.place(), "available": c.available, "median_us": us(c.median),
               "least_us": us(c.least), "most_us": us(c.most), "while_receiving": c.probe.in_reading()})
    };
    let list: Vec<Value> = all.iter().map(one).collect();
    say!(
        "{}",
        json!({"schema": "fullcount/probes/1", "verb": "lab probes", "readings": flags.readings,
               "probes": list, "together_us": us(together)})
    );
    Ok(0)
}
