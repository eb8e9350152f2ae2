//! Flags of the benches that need a broker: broker, jars, folder.

use std::path::PathBuf;

use clap::Args;
use fullcount_lab::bench::ground::{BenchOptions, Checked};

use crate::exit::Failure;

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
    pub fn check(self, theirs: bool) -> Result<Checked, Failure> {
        let BrokerFlags { broker, jars, folder, kafka_set } = self;
        Ok(BenchOptions { broker, jars, folder, kafka_set }.check(theirs)?)
    }
}
