//! `fullcount lab bench write`: a topic full of events into a file by `fullcount write`, beside `dd` of the same bytes.
//!
//! Refuses (exit 2) wrong options and missing jars, (exit 1) a broker that does not answer, and a file that does not have
//! every event.

use anyhow::Context;
use clap::Args;
use fullcount_engine::stop::Stop;
use fullcount_lab::bench::write::WriteComparison;

use super::place::BrokerFlags;
use crate::exit::Failure;
use crate::lab::read::bytes;
use crate::lab::results::ResultFlags;
use crate::say;

/// A topic into a NeXus file, beside dd conv=fdatasync of the same bytes on the same disk, in turn
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LabBenchWriteFlags {
    /// Compressions of the file: none, gzip, gzip:1 to gzip:9, with commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "none,gzip:1,gzip")]
    compressions: Vec<String>,
    /// Size of a message, 1 kB to 8 MB
    #[arg(long, value_name = "BYTES", default_value = "100kB")]
    size: String,
    /// Bytes of messages on the topic: three times as much on the disk
    #[arg(long, value_name = "BYTES", default_value = "1GB")]
    volume: String,
    /// Rounds A B A B; medians are reported
    #[arg(long, value_name = "N", default_value_t = 3)]
    repeats: usize,
    #[command(flatten)]
    place: BrokerFlags,
    #[command(flatten)]
    result: ResultFlags,
}

const EXAMPLES: &str = "\
A trial of write lasts from the order to the moment at which the complete file is reported: reading
the topic, checking every message, writing, and waiting for the disk. MB/s are of event bytes, 8 an
event. dd copies the file of a first, discarded trial out of the page cache.

Examples:
  fullcount lab bench write
  fullcount lab bench write --folder /data --volume 4GB --compressions none
  fullcount lab bench write --broker kafka1:9092 --folder /data --repeats 5";

/// Runs the comparison.
pub fn write(flags: LabBenchWriteFlags) -> Result<u8, Failure> {
    let comparison = WriteComparison {
        size: bytes("size", &flags.size, 1000, 8_000_000)? as usize,
        volume: bytes("volume", &flags.volume, 1_000_000, 1 << 40)?,
        compressions: flags.compressions,
        repeats: flags.repeats,
    };
    comparison.check()?;
    let place = flags.place.check(false)?;
    let mut record = flags.result.begin("write")?;
    let stop = Stop::on_signals().context("installing the signal handlers")?;
    let program = std::env::current_exe().context("finding this program")?;
    let table = comparison.run(program, place, &mut record, &stop, say::line)?;
    flags.result.finish(&record, "A topic into a file", &table)?;
    Ok(0)
}
