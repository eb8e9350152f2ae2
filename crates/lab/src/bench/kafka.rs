//! Events into ev44 into a broker, beside Kafka's own `ProducerPerformance`.
//!
//! The same messages for all: what `ProducerPerformance` sends is read from a file that our encoder wrote. Refuses
//! other contenders and compressions, empty lists, and trials in which not every message was confirmed.

use std::path::Path;
use std::time::Duration;

use fullcount_engine::stop::Stop;
use fullcount_io::quantity;

use super::ground::{BenchGround, Checked};
use super::ours::{Ours, Way};
use super::payload::BenchPayload;
use crate::Tell;
use crate::error::{LabError, TrialError};
use crate::record::Record;
use crate::streaming::performance::{self, AS_IT_COMES, BATCHED, Sending};
use crate::streaming::{StreamingCampaign, StreamingPoint, StreamingTrial, Ways, cpu_seconds};
use fullcount_child::{ChildError, RunningChild};

/// Everybody that can take part.
pub const EVERYBODY: &str =
    "ProducerPerformance,ProducerPerformance-batched,sink,sink-no-commit,publisher";

/// What is compared.
#[derive(Debug, Clone)]
pub struct KafkaComparison {
    /// Contenders; ratios are to the first.
    pub contenders: Vec<String>,
    /// Sizes of a message, bytes.
    pub sizes: Vec<usize>,
    /// Compressions.
    pub compressions: Vec<String>,
    /// Bytes of a trial.
    pub volume: u64,
    /// Bound of the spool.
    pub spool_size: u64,
    /// Rounds.
    pub repeats: usize,
}

/// Longest trial.
const LIMIT: Duration = Duration::from_secs(1800);

/// All of them, behind one seam.
struct Contest<'a> {
    ground: &'a BenchGround,
    ours: Ours<'a>,
    payloads: &'a [BenchPayload],
    volume: u64,
    stop: &'a Stop,
    trials: usize,
}

impl Ways for Contest<'_> {
    fn trial(
        &mut self,
        contender: &str,
        point: &StreamingPoint,
    ) -> Result<StreamingTrial, TrialError> {
        let wrong = |reason: String| TrialError::Result { program: contender.to_owned(), reason };
        if self.stop.requested() {
            return Err(ChildError::Interrupted.into());
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
    fn theirs(
        &self,
        sending: &Sending<'_>,
        payload: &BenchPayload,
    ) -> Result<StreamingTrial, TrialError> {
        let before = cpu_seconds();
        let mut child = RunningChild::start("java", performance::command(sending))?;
        let ended = child.end(LIMIT, &|| self.stop.requested())?;
        let ended = ended.ok_or_else(|| child.stuck(LIMIT))?;
        let seconds = performance::seconds(ended, sending.messages)?;
        Ok(StreamingTrial {
            messages: sending.messages,
            events: sending.messages * payload.events as u64,
            bytes: sending.messages * payload.size as u64,
            seconds,
            cpu_s: cpu_seconds().zip(before).map(|(now, before)| now - before),
        })
    }
}

impl KafkaComparison {
    /// Checks names and lists.
    ///
    /// # Errors
    /// The first that cannot be.
    pub fn check(&self) -> Result<(), LabError> {
        for name in &self.contenders {
            if Way::named(name).is_none() && ![AS_IT_COMES, BATCHED].contains(&name.as_str()) {
                let what = format!("--contenders {name}: expected some of {EVERYBODY}");
                return Err(LabError::Refused(what));
            }
        }
        for name in &self.compressions {
            if !["none", "lz4", "zstd"].contains(&name.as_str()) {
                let what = format!("--compressions {name}: expected none, lz4 or zstd");
                return Err(LabError::Refused(what));
            }
        }
        Ok(())
    }

    /// True if Kafka's own program takes part.
    pub fn theirs(&self) -> bool {
        self.contenders.iter().any(|c| Way::named(c).is_none())
    }

    fn campaign(&self, points: Vec<StreamingPoint>) -> StreamingCampaign {
        StreamingCampaign { contenders: self.contenders.clone(), points, repeats: self.repeats }
    }

    /// Refuses what would not be a comparison.
    ///
    /// # Errors
    /// Empty lists, and no round.
    pub fn check_lists(&self) -> Result<(), LabError> {
        let empty = self.sizes.is_empty() || self.compressions.is_empty();
        let any = StreamingPoint { size: 1, compression: "none".into() };
        let points = if empty { vec![] } else { vec![any] };
        self.campaign(points).check().map_err(|e| LabError::Refused(e.to_string()))
    }

    /// Runs it; gives the table.
    ///
    /// # Errors
    /// A broker that cannot be used, and trials that failed.
    pub fn run(
        &self,
        place: Checked,
        record: &mut Record,
        stop: &Stop,
        tell: Tell,
    ) -> Result<String, LabError> {
        let ground = place.open(record, tell)?;
        let mut payloads = Vec::new();
        for &size in &self.sizes {
            let file = ground.path(&format!("payload-{size}"));
            payloads.push(BenchPayload::make(size, file)?);
        }
        let points = payloads.iter().flat_map(|payload| {
            let point = |compression: &String| StreamingPoint {
                size: payload.size,
                compression: compression.clone(),
            };
            self.compressions.iter().map(point)
        });
        let campaign = self.campaign(points.collect());
        record
            .parameter("volume_bytes", self.volume)
            .parameter("spool_size_bytes", self.spool_size)
            .parameter("acks", "all")
            .parameter("idempotence", "on for all, by their own defaults")
            .parameter("partitions", 1);
        tell(&format!(
            "messages of {}; {} a trial",
            self.sizes.iter().map(|s| format!("{s} B")).collect::<Vec<_>>().join(", "),
            quantity::size_text(self.volume)
        ));
        let ours = Ours { ground: &ground, spool_size: self.spool_size, stop };
        let (payloads, volume) = (payloads.as_slice(), self.volume);
        let mut contest = Contest { ground: &ground, ours, payloads, volume, stop, trials: 0 };
        let results = campaign.run(&mut contest, &mut |line| tell(line));
        let results = results.map_err(anyhow::Error::from)?;
        results.note(record);
        Ok(results.markdown())
    }
}
