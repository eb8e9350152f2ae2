//! `fullcount lab bench`: benches of Fullcount's own parts.

#[cfg(feature = "kafka")]
pub mod kafka;
#[cfg(feature = "kafka")]
mod place;
pub mod plain;
pub mod probes;
pub mod service;
pub mod trial;
#[cfg(feature = "write")]
pub mod write;

use clap::{Args, Subcommand};

use crate::exit::Failure;

/// Benches of our own parts, for those who change them; each prints a table and writes its results.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LabBenchFlags {
    #[command(subcommand)]
    part: Part,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// Bytes a second that dd conv=fdatasync writes to a disk
    Disk(plain::LabBenchDiskFlags),
    /// A plain C program flat out over loopback, what send and receive are compared with
    Flood(plain::LabBenchFloodFlags),
    /// Events to a broker beside Kafka's own ProducerPerformance: MB/s, events/s, CPU
    #[cfg(feature = "kafka")]
    Kafka(kafka::LabBenchKafkaFlags),
    /// What reading this host's loss counters costs, probe by probe
    Probes(probes::LabBenchProbesFlags),
    /// A run beside clients of its control port, endless lines, and dead Graphite and Graylog
    Service(service::LabBenchServiceFlags),
    /// One run or receive and what sends to it: what the long proofs are made of
    Trial(Box<trial::LabBenchTrialFlags>),
    /// A topic into a NeXus file by `write`, beside `dd` of the same bytes
    #[cfg(feature = "write")]
    Write(write::LabBenchWriteFlags),
}

const EXAMPLES: &str = "\
What an instrument needs is `lab capacity`; its --measure takes short forms of these. Decoders have
`lab detectors`.

Examples:
  fullcount lab bench probes
  fullcount lab bench service --rate 1Gbps --duration 5s
  fullcount lab bench kafka --contenders ProducerPerformance,sink --sizes 100kB
  fullcount lab bench write --folder /data --compressions none,gzip:1";

/// Runs a bench.
pub fn bench(flags: LabBenchFlags) -> Result<u8, Failure> {
    match flags.part {
        Part::Disk(f) => plain::disk(&f),
        Part::Flood(f) => plain::flood(&f),
        #[cfg(feature = "kafka")]
        Part::Kafka(f) => kafka::kafka(f),
        Part::Probes(f) => probes::probes(&f),
        Part::Service(f) => service::service(&f),
        Part::Trial(f) => trial::trial(&f),
        #[cfg(feature = "write")]
        Part::Write(f) => write::write(f),
    }
}
