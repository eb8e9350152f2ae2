//! `[output.raw]`: received packets to a Kafka topic as ar51 messages, all of them or every n-th.
//!
//! Taps take the packets where they are received, a thread lays them into the spool, and the spool's own thread
//! sends them. Where the spool cannot follow, packets of a source that does not wait are counted as
//! `sink.raw.dropped`. Refuses: options out of range, a broker or topic that cannot be.
//! Source: `docs/raw.md`.

use std::thread::{self, JoinHandle};
use std::time::Duration;

use fullcount_detect::detector::{Detector, Sharding};
use fullcount_io::capture::{BUFFER_MAX, BUFFER_MIN, TapOptions, Taps, Turn, lines};
use fullcount_io::quantity;
use fullcount_out::kafka::{KafkaOptions, RawKey, RawSink, Settings};
use fullcount_out::sink::{Report, SinkError};

use crate::config::{Config, ConfigError, RawConfig, refuse};
use crate::stop::Stop;

/// Pause of the thread when there is nothing to do.
const NAP: Duration = Duration::from_millis(1);

/// A checked `[output.raw]`.
pub struct RawPlan {
    options: KafkaOptions,
    key: RawKey,
    epoch_ns: i64,
    every: u64,
    buffer: u64,
    required: bool,
}

impl RawPlan {
    /// Checks it.
    ///
    /// # Errors
    /// Key, value and what is allowed.
    pub fn new(
        raw: &RawConfig,
        config: &Config,
        detector: &dyn Detector,
    ) -> Result<RawPlan, ConfigError> {
        let name = raw.source_name.clone().unwrap_or_else(|| detector.name().to_owned());
        let topic = raw.topic(config.output.kafka.as_ref(), detector.name(), &name);
        let mut options = KafkaOptions::new(&raw.brokers, &topic, name, &raw.spool);
        let size =
            |key, text: &String| quantity::size(text).map_err(|e| refuse(key, text, e.to_string()));
        options.spool_size = size("output.raw.spool_size", &raw.spool_size)?;
        options.drain = quantity::duration(&raw.drain)
            .map_err(|e| refuse("output.raw.drain", &raw.drain, e.to_string()))?;
        options.settings = Settings::read(raw.settings()?)
            .map_err(|e| refuse("output.raw.options", &e.name, e.to_string()))?;
        options.news = say;
        options.validate().map_err(|e| refuse("output.raw", &topic, e.to_string()))?;
        let buffer = size("output.raw.buffer", &raw.buffer)?;
        if !(BUFFER_MIN..=BUFFER_MAX).contains(&buffer) {
            return Err(refuse("output.raw.buffer", &raw.buffer, "8MiB to 16GiB"));
        }
        if raw.every == 0 {
            return Err(refuse("output.raw.every", 0, "1 (all packets) or more"));
        }
        let key = match detector.sharding() {
            Sharding::ByKey => RawKey::Origin,
            // All packets of one detector must meet.
            Sharding::Serial | Sharding::Exact(_) => RawKey::All,
        };
        let epoch_ns = crate::timebase::read(&config.time)?.epoch.0;
        let (every, required) = (raw.every, raw.required);
        Ok(RawPlan { options, key, epoch_ns, every, buffer, required })
    }

    /// Folder of the spool.
    pub fn spool(&self) -> &std::path::Path {
        &self.options.spool
    }

    /// For people.
    pub fn fact(&self) -> String {
        let which = match self.every {
            1 => "every packet".to_owned(),
            n => format!("one packet in {n}"),
        };
        let KafkaOptions { brokers, topic, spool, .. } = &self.options;
        format!("output raw: {which} to topic {topic} at {brokers}, spool {}", spool.display())
    }
    /// Opens the spool; the taps are made for so many workers.
    ///
    /// # Errors
    /// The spool cannot be used.
    pub fn open(&self, workers: usize, stop: &Stop) -> Result<Raw, SinkError> {
        let mut options = self.options.clone();
        let (wish, over, hurry) = (stop.clone(), stop.clone(), stop.clone());
        options.stop = std::sync::Arc::new(move || wish.requested());
        options.over = std::sync::Arc::new(move || over.is_over());
        options.hurry = std::sync::Arc::new(move || hurry.hurried());
        let place = format!("kafka://{}/{}", options.brokers, options.topic);
        let sink = RawSink::open(options, self.key, self.epoch_ns)?;
        let taps = Taps::new(&TapOptions {
            output: "raw",
            place: &place,
            buffer: self.buffer,
            workers,
            required: self.required,
            every: self.every,
        });
        Ok(Raw { taps, sink })
    }
}

/// Said once each, as librdkafka says it.
fn say(what: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "fullcount: {what}");
}

/// Counters of taps and sender, each name once.
pub fn catalogue() -> Vec<fullcount_core::ledger::Info> {
    let mut all = lines(fullcount_io::capture::Captured::catalogue(), "raw", true);
    let sending = fullcount_out::kafka::RawCounter::catalogue();
    all.extend(sending.into_iter().filter(|l| l.name != "sink.raw.failed"));
    all
}

/// An opened output of packets.
pub struct Raw {
    /// One for each worker.
    pub taps: Taps,
    /// From packet to spool.
    pub sink: RawSink,
}

/// Its thread.
pub type Sending = JoinHandle<Result<Report, SinkError>>;

impl Raw {
    /// Starts to send; `on_failure` is called at once when the spool fails.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start(
        self,
        on_failure: impl Fn(&SinkError) + Send + 'static,
    ) -> std::io::Result<Sending> {
        let Raw { mut taps, mut sink } = self;
        thread::Builder::new().name("raw".into()).spawn(move || {
            let mut said = false;
            loop {
                let turn = taps.trains(|train, _| {
                    for packet in train.chunks() {
                        sink.send(packet, train.origin, train.time_ns);
                    }
                });
                if let (Err(e), false) = (sink.check(), said) {
                    said = true;
                    taps.fail();
                    on_failure(&e);
                }
                match turn {
                    Turn::Data => {}
                    Turn::Idle => {
                        sink.refresh();
                        thread::sleep(NAP);
                    }
                    Turn::Over => {
                        let end = sink.finish();
                        if let Err(e) = &end {
                            on_failure(e);
                        }
                        return end;
                    }
                }
            }
        })
    }
}
