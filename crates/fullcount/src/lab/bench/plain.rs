//! `fullcount lab bench disk` and `lab bench flood`: what a disk and a plain C program do by themselves, for comparison.
//!
//! Refuses sizes and times that no trial can have. Source: `docs/lab.md`, `docs/testing.md`.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use fullcount_engine::config::refuse;
use fullcount_engine::stop::Stop;
use fullcount_lab::bench::flood::measure;
use fullcount_lab::streaming::dd::zeros;
use serde_json::json;

use crate::exit::Failure;
use crate::lab::read::bytes;
use crate::lab::results::ResultFlags;

const DISK_EXAMPLES: &str = "\
Examples:
  fullcount lab bench disk --file /data/zeros --volume 4GiB";

const FLOOD_EXAMPLES: &str = "\
Examples:
  cc -O2 -o flood crates/lab/peers/flood.c
  fullcount lab bench flood --program ./flood --size 1472 --cores 0,1";

/// Bytes a second that `dd conv=fdatasync` writes to a disk.
#[derive(Debug, Args)]
#[command(after_help = DISK_EXAMPLES)]
pub struct LabBenchDiskFlags {
    /// File on the disk; removed at the end
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// Bytes, rounded down to whole MiB
    #[arg(long, value_name = "BYTES", default_value = "4GiB")]
    volume: String,
    #[command(flatten)]
    result: ResultFlags,
}

/// Measures and prints.
pub fn disk(flags: &LabBenchDiskFlags) -> Result<u8, Failure> {
    let mib = bytes("volume", &flags.volume, 1 << 20, 1 << 40)? >> 20;
    let mut record = flags.result.begin("disk")?;
    let stop = Stop::on_signals().context("installing the signal handlers")?;
    let trial = zeros(mib, &flags.file, &|| stop.requested()).map_err(anyhow::Error::from)?;
    record.row(json!({"bytes_per_s": trial.bytes_per_s(), "seconds": trial.seconds}));
    let table = format!("{:.0} MB/s\n", trial.bytes_per_s() / 1e6);
    flags.result.finish(&record, "A disk by itself", &table)?;
    Ok(0)
}

/// A plain C program, flat out over loopback.
#[derive(Debug, Args)]
#[command(after_help = FLOOD_EXAMPLES)]
pub struct LabBenchFloodFlags {
    /// The program: crates/lab/peers/flood.c, compiled
    #[arg(long, value_name = "FILE")]
    program: PathBuf,
    /// Payload bytes of a packet, 1 to 65507
    #[arg(long, value_name = "BYTES", default_value_t = 1472)]
    size: u32,
    /// Cores of receiver and sender
    #[arg(long, value_name = "CPU,CPU", value_delimiter = ',', num_args = 1, required = true)]
    cores: Vec<usize>,
    /// Seconds that it sends, 1 to 3600
    #[arg(long, value_name = "N", default_value_t = 3)]
    seconds: u64,
    #[command(flatten)]
    result: ResultFlags,
}

/// Measures and prints.
pub fn flood(flags: &LabBenchFloodFlags) -> Result<u8, Failure> {
    let &[receiver, sender] = &flags.cores[..] else {
        return Err(refuse("cores", flags.cores.len(), "two, of receiver and sender").into());
    };
    if !(1..=65_507).contains(&flags.size) {
        return Err(refuse("size", flags.size, "1 to 65507").into());
    }
    if !(1..=3600).contains(&flags.seconds) {
        return Err(refuse("seconds", flags.seconds, "1 to 3600").into());
    }
    let mut record = flags.result.begin("flood")?;
    let stop = Stop::on_signals().context("installing the signal handlers")?;
    let cores = (receiver, sender);
    let row = measure(&flags.program, flags.size, cores, flags.seconds, &|| stop.requested());
    let row = row.map_err(anyhow::Error::from)?;
    let table = format!("{} Gb/s\n", row["gbps"]);
    record.row(row);
    flags.result.finish(&record, "A plain C program", &table)?;
    Ok(0)
}
