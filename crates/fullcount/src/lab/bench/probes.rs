//! `fullcount lab bench probes`: what each probe of the host's loss counters costs.
//!
//! Refuses: 0 readings, and more than a million. Source: `docs/losses.md`.

use clap::Args;
use fullcount_engine::config::refuse;
use fullcount_lab::bench::probes::{READINGS, measure};

use crate::exit::Failure;
use crate::lab::results::ResultFlags;

/// Reads each probe many times, prints µs per reading and writes a results file.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LabBenchProbesFlags {
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
  fullcount lab bench probes
  fullcount lab bench probes --readings 10000 --json";

/// Measures and prints.
pub fn probes(flags: &LabBenchProbesFlags) -> Result<u8, Failure> {
    if !READINGS.contains(&flags.readings) {
        return Err(refuse("readings", flags.readings, "1 to 1000000").into());
    }
    let mut record = flags.result.begin("probes")?;
    let table = measure(flags.readings, &mut record);
    flags.result.finish(&record, "What looking for losses costs", &table)?;
    Ok(0)
}
