//! `fullcount lab kafka`: events into ev44 into a broker, beside Kafka's own `ProducerPerformance`.
//!
//! The same messages for all: what `ProducerPerformance` sends is read from a file that our encoder wrote. Refuses
//! (exit 2) wrong options and missing jars, (exit 1) a missing Java, a broker that does not answer, and trials in which
//! not every message was confirmed.

mod ours;
pub mod payload;

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use fullcount_engine::stop::Stop;
use fullcount_io::quantity;
use fullcount_lab::lossless::child::{Running, TrialError};
use fullcount_lab::streaming::performance::{self, AS_IT_COMES, BATCHED, Sending};
use fullcount_lab::streaming::{Campaign, Point, Trial, Ways, cpu_seconds};

use super::brokered::{BrokerFlags, Ground, bytes};
use super::lossless::ResultFlags;
use crate::exit::Failure;
use crate::note;
use ours::{Ours, Way};
use payload::Payload;

/// Events to a broker beside Kafka's own producer tool, in turn: MB/s, events/s, CPU
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Flags {
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

const EVERYBODY: &str =
    "ProducerPerformance,ProducerPerformance-batched,sink,sink-no-commit,publisher";

const EXAMPLES: &str = "\
All with acks=all and idempotence, one partition, from events (ours) or messages (Kafka's) in
memory to the confirmation of the last. ProducerPerformance: as it comes; -batched: with batches
of 1 MB and 100 ms of patience, which librdkafka has too. sink: what run --kafka does, spool too;
sink-no-commit: the same with output.kafka.spool_commit = false; publisher: without a spool.

Examples:
  fullcount lab kafka
  fullcount lab kafka --broker kafka1:9092 --jars /opt/kafka/libs --folder /data
  fullcount lab kafka --contenders ProducerPerformance,sink --sizes 100kB --compressions none
  fullcount lab kafka --volume 4GB --repeats 5 --spool-size 256MiB";

/// Longest trial.
const LIMIT: Duration = Duration::from_secs(1800);

/// All of them, behind one seam.
struct Contest<'a> {
    ground: &'a Ground,
    ours: Ours<'a>,
    payloads: &'a [Payload],
    volume: u64,
    stop: &'a Stop,
    trials: usize,
}

impl Ways for Contest<'_> {
    fn trial(&mut self, contender: &str, point: &Point) -> Result<Trial, TrialError> {
        let wrong = |reason: String| TrialError::Result { program: contender.to_owned(), reason };
        if self.stop.requested() {
            return Err(TrialError::Interrupted);
        }
        let payload = self.payloads.iter().find(|p| p.size == point.size);
        let payload = payload.ok_or_else(|| wrong("no payload of this size".into()))?;
        let messages = (self.volume / payload.size as u64).max(1);
        self.trials += 1;
        let topic = self.ground.topic(&self.trials.to_string());
        let topic = topic.map_err(|e| wrong(format!("{e:#}")))?;
        match Way::named(contender) {
            Some(way) => self.ours.trial(way, &topic.name, &point.compression, payload, messages),
            None => {
                let sending = Sending {
                    java: Path::new("java"),
                    jars: self.ground.jars(),
                    brokers: self.ground.brokers(),
                    topic: &topic.name,
                    messages,
                    payload: &payload.file,
                    compression: &point.compression,
                    batched: contender == BATCHED,
                };
                self.theirs(&sending, payload)
            }
        }
    }
}

impl Contest<'_> {
    fn theirs(&self, sending: &Sending<'_>, payload: &Payload) -> Result<Trial, TrialError> {
        let before = cpu_seconds();
        let mut child = Running::start("java", performance::command(sending))?;
        let ended = child.end(LIMIT, &|| self.stop.requested())?;
        let ended = ended.ok_or_else(|| child.stuck(LIMIT))?;
        let seconds = performance::seconds(ended, sending.messages)?;
        Ok(Trial {
            messages: sending.messages,
            events: sending.messages * payload.events as u64,
            bytes: sending.messages * payload.size as u64,
            seconds,
            cpu_s: cpu_seconds().zip(before).map(|(now, before)| now - before),
        })
    }
}

fn check_contenders(contenders: &[String]) -> Result<(), Failure> {
    for name in contenders {
        if Way::named(name).is_none() && ![AS_IT_COMES, BATCHED].contains(&name.as_str()) {
            let what = format!("--contenders {name}: expected some of {EVERYBODY}");
            return Err(Failure::Wrong(what));
        }
    }
    Ok(())
}

/// Runs the comparison.
pub fn kafka(flags: Flags) -> Result<u8, Failure> {
    check_contenders(&flags.contenders)?;
    let volume = bytes("volume", &flags.volume, 1_000_000, 1 << 40)?;
    let spool_size = bytes("spool-size", &flags.spool_size, 16 << 20, 1 << 40)?;
    let mut sizes = Vec::new();
    for text in &flags.sizes {
        sizes.push(bytes("sizes", text, 1000, 8_000_000)? as usize);
    }
    for name in &flags.compressions {
        if !["none", "lz4", "zstd"].contains(&name.as_str()) {
            let what = format!("--compressions {name}: expected none, lz4 or zstd");
            return Err(Failure::Wrong(what));
        }
    }
    let theirs = flags.contenders.iter().any(|c| Way::named(c).is_none());
    let checked = flags.place.check(theirs)?;
    let mut record = flags.result.begin("kafka")?;
    let campaign =
        |points| Campaign { contenders: flags.contenders.clone(), points, repeats: flags.repeats };
    let any = vec![Point { size: 1, compression: "none".into() }];
    let given = if sizes.is_empty() || flags.compressions.is_empty() { Vec::new() } else { any };
    campaign(given).check().map_err(|e| Failure::Wrong(e.to_string()))?;
    let stop = Stop::on_signals().context("installing the signal handlers")?;
    let ground = checked.open(&mut record)?;
    let mut payloads = Vec::new();
    for &size in &sizes {
        let file = ground.path(&format!("payload-{size}"));
        payloads.push(Payload::make(size, file)?);
    }
    let points = payloads.iter().flat_map(|payload| {
        let point =
            |compression: &String| Point { size: payload.size, compression: compression.clone() };
        flags.compressions.iter().map(point)
    });
    let campaign = campaign(points.collect());
    record
        .parameter("volume_bytes", volume)
        .parameter("spool_size_bytes", spool_size)
        .parameter("acks", "all")
        .parameter("idempotence", "on for all, by their own defaults")
        .parameter("partitions", 1);
    note!(
        "messages of {}; {} a trial",
        sizes.iter().map(|s| format!("{s} B")).collect::<Vec<_>>().join(", "),
        quantity::size_text(volume)
    );
    let ours = Ours { ground: &ground, spool_size, stop: &stop };
    let mut contest =
        Contest { ground: &ground, ours, payloads: &payloads, volume, stop: &stop, trials: 0 };
    let results = campaign.run(&mut contest, &mut |line| note!("{line}"));
    let results = results.map_err(anyhow::Error::from)?;
    results.note(&mut record);
    flags.result.finish(&record, "Events to a broker", &results.markdown())?;
    Ok(0)
}
