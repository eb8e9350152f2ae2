//! Our ways from events to a broker: the sink with its spool, with and without commits, and the publisher alone.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::TrialError;
use crate::streaming::{StreamingTrial, cpu_seconds};
use fullcount_child::ChildError;
use fullcount_core::sink::Sink as _;
use fullcount_engine::stop::Stop;
use fullcount_kafka::{KafkaOptions, KafkaSink, MessageCompression, Publisher};
use fullcount_messages::EventWriter;

use super::ground::BenchGround;
use super::now_ms;
use super::payload::{BenchPayload, SOURCE};

/// Longest wait for the broker.
const PATIENCE: Duration = Duration::from_secs(300);

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// What `run --kafka` does.
    Sink {
        /// The spool outlives a loss of power.
        commit: bool,
    },
    /// Encoded and handed to librdkafka, no spool.
    Publisher,
}

impl Way {
    /// By its name.
    pub fn named(name: &str) -> Option<Way> {
        match name {
            "sink" => Some(Way::Sink { commit: true }),
            "sink-no-commit" => Some(Way::Sink { commit: false }),
            "publisher" => Some(Way::Publisher),
            _ => None,
        }
    }
}

/// Ours.
#[derive(Debug)]
pub struct Ours<'a> {
    pub ground: &'a BenchGround,
    pub spool_size: u64,
    pub stop: &'a Stop,
}

/// What a trial is about.
struct Job<'a> {
    topic: &'a str,
    compression: MessageCompression,
    payload: &'a BenchPayload,
    messages: u64,
}

impl Ours<'_> {
    /// One trial, to the confirmation of the last message.
    pub fn trial(
        &self,
        way: Way,
        topic: &str,
        compression: &str,
        payload: &BenchPayload,
        messages: u64,
    ) -> Result<StreamingTrial, TrialError> {
        let compression = match compression {
            "lz4" => MessageCompression::Lz4,
            "zstd" => MessageCompression::Zstd,
            _ => MessageCompression::None,
        };
        let job = Job { topic, compression, payload, messages };
        let (before, begun) = (cpu_seconds(), Instant::now());
        let confirmed = match way {
            Way::Sink { commit } => self.sink(&job, commit),
            Way::Publisher => self.publish(&job),
        };
        let seconds = begun.elapsed().as_secs_f64();
        let name = || "fullcount".to_owned();
        let events = confirmed.map_err(|reason| TrialError::Result { program: name(), reason })?;
        let wanted = messages * payload.events as u64;
        if self.stop.requested() {
            return Err(ChildError::Interrupted.into());
        }
        if events != wanted {
            let reason = format!("{events} of {wanted} events were confirmed");
            return Err(TrialError::Result { program: name(), reason });
        }
        Ok(StreamingTrial {
            messages,
            events,
            bytes: messages * payload.size as u64,
            seconds,
            cpu_s: cpu_seconds().zip(before).map(|(now, before)| now - before),
        })
    }

    fn sink(&self, job: &Job<'_>, commit: bool) -> Result<u64, String> {
        let spool = Spool(self.ground.path("spool"));
        let mut options =
            KafkaOptions::new(self.ground.brokers(), job.topic, SOURCE, spool.0.clone());
        options.stream.capacity = job.payload.events;
        options.spool_size = self.spool_size;
        options.spool_commit = commit;
        options.compression = job.compression;
        options.settings = self.ground.settings.clone();
        options.drain = PATIENCE;
        options.news = self.ground.tell;
        let stop = self.stop.clone();
        options.stop = Arc::new(move || stop.requested());
        options.validate().map_err(|e| e.to_string())?;
        let mut sink = KafkaSink::open(options).map_err(|e| e.to_string())?;
        for products in job.payload.batches.iter().cycle().take(job.messages as usize) {
            if self.stop.requested() {
                return Ok(0);
            }
            sink.push(products).map_err(|e| e.to_string())?;
        }
        sink.finish().map(|report| report.events).map_err(|e| e.to_string())
    }

    fn publish(&self, job: &Job<'_>) -> Result<u64, String> {
        let settings = match job.compression {
            MessageCompression::None => self.ground.settings.clone(),
            other => self.ground.settings.with("compression.codec", other.name()),
        };
        let publisher = Publisher::new(self.ground.brokers(), &settings, self.ground.tell);
        let publisher = publisher.map_err(|e| e.to_string())?;
        let mut writer = EventWriter::new();
        let batches = job.payload.batches.iter().cycle().take(job.messages as usize);
        for (id, products) in (1..).zip(batches) {
            if self.stop.requested() {
                return Ok(0);
            }
            let message = writer.ev44(SOURCE, id, &products.events).map_err(|e| e.to_string())?;
            let sent = publisher.publish(job.topic, message, now_ms() as i64, PATIENCE);
            sent.map_err(|e| e.to_string())?;
        }
        publisher.flush(PATIENCE).map_err(|e| e.to_string())?;
        Ok(publisher.confirmed() * job.payload.events as u64)
    }
}

/// A spool that goes with its trial.
struct Spool(PathBuf);

impl Drop for Spool {
    fn drop(&mut self) {
        // The folder of the whole run goes as well.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
