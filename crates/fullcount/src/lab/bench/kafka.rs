//! `fullcount lab bench kafka`: events into ev44 into a broker, beside Kafka's own `ProducerPerformance`.
//!
//! Refuses (exit 2) wrong options and missing jars, (exit 1) a missing Java, a broker that does not answer, and trials in
//! which not every message was confirmed.

use anyhow::Context;
use clap::Args;
use fullcount_engine::stop::Stop;
use fullcount_lab::bench::kafka::{EVERYBODY, KafkaComparison};

use super::place::BrokerFlags;
use crate::exit::Failure;
use crate::lab::read::bytes;
use crate::lab::results::ResultFlags;
use crate::say;

/// Events to a broker beside Kafka's own producer tool, in turn: MB/s, events/s, CPU
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LabBenchKafkaFlags {
    /// ProducerPerformance, ProducerPerformance-batched, sink, sink-no-commit, publisher, with
    /// commas; ratios are to the first
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = EVERYBODY)]
    contenders: Vec<String>,
    /// Sizes of a message, 1 kB to 8 MB
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_value = "10kB,100kB,1MB")]
    sizes: Vec<String>,
    /// Compressions: none, lz4, zstd
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "none,lz4,zstd")]
    compressions: Vec<String>,
    /// Bytes of a trial, before compression: up to twice as much on the disk
    #[arg(long, value_name = "BYTES", default_value = "1GB")]
    volume: String,
    /// Bound of the spool; when it is full, events wait
    #[arg(long, value_name = "BYTES", default_value = "4GiB")]
    spool_size: String,
    /// Rounds A B A B; medians are reported
    #[arg(long, value_name = "N", default_value_t = 3)]
    repeats: usize,
    #[command(flatten)]
    place: BrokerFlags,
    #[command(flatten)]
    result: ResultFlags,
}

const EXAMPLES: &str = "\
All with acks=all and idempotence, one partition, from events (ours) or messages (Kafka's) in
memory to the confirmation of the last. ProducerPerformance: as it comes; -batched: with batches
of 1 MB and 100 ms of patience, which librdkafka has too. sink: what run --kafka does, spool too;
sink-no-commit: the same with output.kafka.spool_commit = false; publisher: without a spool.

Examples:
  fullcount lab bench kafka
  fullcount lab bench kafka --broker kafka1:9092 --jars /opt/kafka/libs --folder /data
  fullcount lab bench kafka --contenders ProducerPerformance,sink --sizes 100kB --compressions none
  fullcount lab bench kafka --volume 4GB --repeats 5 --spool-size 256MiB";

/// Runs the comparison.
pub fn kafka(flags: LabBenchKafkaFlags) -> Result<u8, Failure> {
    let size = |text: &String| Ok(bytes("sizes", text, 1000, 8_000_000)? as usize);
    let comparison = KafkaComparison {
        volume: bytes("volume", &flags.volume, 1_000_000, 1 << 40)?,
        spool_size: bytes("spool-size", &flags.spool_size, 16 << 20, 1 << 40)?,
        sizes: flags.sizes.iter().map(size).collect::<Result<_, Failure>>()?,
        contenders: flags.contenders,
        compressions: flags.compressions,
        repeats: flags.repeats,
    };
    comparison.check()?;
    let place = flags.place.check(comparison.theirs())?;
    let mut record = flags.result.begin("kafka")?;
    comparison.check_lists()?;
    let stop = Stop::on_signals().context("installing the signal handlers")?;
    let table = comparison.run(place, &mut record, &stop, say::line)?;
    flags.result.finish(&record, "Events to a broker", &table)?;
    Ok(0)
}
