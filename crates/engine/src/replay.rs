//! Sources that can be replayed, for outputs that go on with an interrupted replay (`output.kafka.replay`).
//!
//! Says what a replay's events follow from (so that the same one is known again), where the partitions of a topic
//! begin, and lets a capture at recorded speed wait: played late it loses nothing. Refuses to go on with a topic that
//! no longer holds what was read before. Source: `docs/decisions/0013-replays.md`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use fullcount_core::batch::Batch;
use fullcount_core::ledger::Sheet;
use fullcount_io::input_file;
use fullcount_io::source::{Received, Source, SourceError};
use fullcount_out::kafka::{Replay, Unfinished};

use crate::config::{Config, ConfigError, refuse};
use crate::kafka_source::Reading;
use crate::open::{OpenError, Recorded, SourcePlan};

/// A replay that can be begun.
pub struct ReplayPlan {
    /// What the events follow from, without files.
    text: String,
    /// Files beside the source's.
    files: Vec<PathBuf>,
    restart: bool,
    spool: PathBuf,
}

impl ReplayPlan {
    /// `None` if there is no Kafka output; `spool` is its folder.
    ///
    /// # Errors
    /// Key, value and what is allowed.
    pub fn new(config: &Config, spool: &Path) -> Result<Option<ReplayPlan>, ConfigError> {
        let Some(kafka) = &config.output.kafka else { return Ok(None) };
        let restart = match kafka.replay.as_str() {
            "resume" => false,
            "restart" => true,
            other => return Err(refuse("output.kafka.replay", other, "resume or restart")),
        };
        let mut text = format!("source {}\n", config.source.url.as_slice().join(" "));
        text += &format!("fault {}\n", config.source.fault.as_deref().unwrap_or("none"));
        let packets = config.engine.packets.map_or("all".to_owned(), |n| n.to_string());
        text += &format!("packets {packets}\n");
        text += &toml::to_string(&config.time).unwrap_or_default();
        text += &toml::to_string(&config.detector).unwrap_or_default();
        let named = [&config.detector.geometry, &config.detector.calibration];
        let files = named.into_iter().flatten().cloned().collect();
        Ok(Some(ReplayPlan { text, files, restart, spool: spool.to_owned() }))
    }

    /// What the sink needs; `None` if the source cannot be replayed. A topic is read from where an unfinished replay
    /// of it began.
    ///
    /// # Errors
    /// A broker does not answer; the topic no longer holds what was read before.
    pub fn begin(&self, source: &mut SourcePlan) -> Result<Option<Replay>, OpenError> {
        let mut identity = self.text.clone();
        for file in &self.files {
            // A pipe was read when the detector was made, and has no more to give.
            let bytes = match file.is_file() {
                true => input_file::bytes(file, input_file::LARGEST_INPUT).unwrap_or_default(),
                false => Vec::new(),
            };
            identity += &format!("{} {:08x}\n", file.display(), crc32fast::hash(&bytes));
        }
        let mut replay = Replay {
            identity,
            title: source.urls(),
            restart: self.restart,
            starts: BTreeMap::new(),
        };
        match source.recorded() {
            None => return Ok(None),
            Some(Recorded::File(path)) => match about(path) {
                Some(about) => replay.identity += &about,
                None => return Ok(None),
            },
            Some(Recorded::Topic(topic)) => {
                let known = Unfinished::read(&self.spool).ok().flatten();
                let known = known.filter(|k| k.identity == replay.identity && !self.restart);
                replay.starts = match known {
                    Some(known) => {
                        topic.still_holds(&known.starts)?;
                        known.starts
                    }
                    None => topic.starts()?,
                };
                let order = Unfinished::order_file(&self.spool);
                *topic = topic.clone().reading(Reading { starts: replay.starts.clone(), order });
            }
        }
        Ok(Some(replay))
    }
}

/// What tells a file from others; `None` if it cannot be read twice.
fn about(path: &Path) -> Option<String> {
    let about = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let path = path.canonicalize().ok()?;
    let changed = about.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(format!("{} {} B, {} ns\n", path.display(), about.len(), changed.as_nanos()))
}

/// A recorded source that waits where it would be too fast, whatever its speed: a replay must have all events.
pub struct Patient(pub Box<dyn Source>);

impl Source for Patient {
    fn recv(&mut self, batch: &mut Batch, wait: Duration) -> Result<Received, SourceError> {
        self.0.recv(batch, wait)
    }
    fn attend(&mut self) {
        self.0.attend();
    }
    fn batch(&self) -> Batch {
        self.0.batch()
    }
    fn lossless(&self) -> bool {
        true
    }
    fn replay(&self) -> bool {
        self.0.replay()
    }
    fn for_capture(&mut self) -> Result<(), SourceError> {
        self.0.for_capture()
    }
    fn buffer_percent(&self) -> Option<u32> {
        self.0.buffer_percent()
    }
    fn sheet(&self) -> Arc<Sheet> {
        self.0.sheet()
    }
    fn describe(&self) -> Vec<String> {
        self.0.describe()
    }
}
