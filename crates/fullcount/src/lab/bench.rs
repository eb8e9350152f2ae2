//! `fullcount lab bench`: benches of Fullcount's own parts.

pub mod kafka;
pub mod probes;
pub mod write;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use fullcount_engine::config::refuse;
use fullcount_io::quantity;
use fullcount_lab::bench::ground::{Checked, Wanted};

use super::read;
use crate::exit::Failure;

/// Benches of our own parts, for those who change them; each prints a table and writes its results.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Flags {
    #[command(subcommand)]
    part: Part,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// Events to a broker beside Kafka's own ProducerPerformance: MB/s, events/s, CPU
    Kafka(kafka::Flags),
    /// What reading this host's loss counters costs, probe by probe
    Probes(probes::Flags),
    /// A topic into a NeXus file by `write`, beside `dd` of the same bytes
    Write(write::Flags),
}

const EXAMPLES: &str = "\
What an instrument needs is `lab capacity`; its --measure takes short forms of these. Decoders have
`lab detectors`.

Examples:
  fullcount lab bench probes
  fullcount lab bench kafka --contenders ProducerPerformance,sink --sizes 100kB
  fullcount lab bench write --folder /data --compressions none,gzip:1";

/// Runs a bench.
pub fn bench(flags: Flags) -> Result<u8, Failure> {
    match flags.part {
        Part::Kafka(f) => kafka::kafka(f),
        Part::Probes(f) => probes::probes(&f),
        Part::Write(f) => write::write(f),
    }
}

/// Where to measure.
#[derive(Debug, Args)]
pub struct BrokerFlags {
    /// Kafka broker to measure with: HOST[:PORT] [default: one is started here and ended again]
    #[arg(long, value_name = "HOST", help_heading = "Place")]
    broker: Option<String>,
    /// Folder with Apache Kafka's jars [default: what `cargo xtask kafka` has fetched]
    #[arg(long, value_name = "DIR", help_heading = "Place")]
    jars: Option<PathBuf>,
    /// Folder for everything that is written, on the disk to measure; emptied at the end
    /// [default: the system's temporary folder]
    #[arg(long, value_name = "DIR", help_heading = "Place")]
    folder: Option<PathBuf>,
    /// librdkafka's own setting for our side, e.g. linger.ms=5; may be repeated
    #[arg(long, value_name = "NAME=VALUE", help_heading = "Place")]
    kafka_set: Vec<String>,
}

impl BrokerFlags {
    /// Checks the options. `theirs`: Kafka's own program is needed.
    fn check(self, theirs: bool) -> Result<Checked, Failure> {
        let BrokerFlags { broker, jars, folder, kafka_set } = self;
        Ok(Wanted { broker, jars, folder, kafka_set }.check(theirs)?)
    }
}

/// A number of bytes within a range.
fn bytes(flag: &'static str, text: &str, least: u64, most: u64) -> Result<u64, Failure> {
    let found = read::size(flag, text)?;
    if (least..=most).contains(&found) {
        return Ok(found);
    }
    let (least, most) = (quantity::size_text(least), quantity::size_text(most));
    Err(refuse(flag, text, format!("{least} to {most}")).into())
}
