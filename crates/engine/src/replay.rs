//! Sources that can be replayed, for outputs that go on with an interrupted replay (`output.kafka.replay`).
//!
//! Says what a replay's events follow from (so that the same one is known again), and lets a recording at its own speed wait:
//! played late it loses nothing. Whether a source can be read again, and what tells it from another, the source says
//! ([`SourceEndpoint::replay`](fullcount_core::source::SourceEndpoint::replay)). Source: `docs/decisions/0013-replays.md`.

use std::path::PathBuf;
use std::time::Duration;

use fullcount_core::batch::Batch;
use fullcount_core::output::Replay;
use fullcount_core::source::{ReplayedFrom, SourceOpenError};
use fullcount_io::input_file;
use fullcount_io::source::{Received, Source, SourceError};

use crate::config::Config;
use crate::open::SourcePlan;
use crate::outputs::OutputPlan;

/// A replay that can be begun.
pub struct ReplayPlan {
    /// What the events follow from, without files.
    text: String,
    /// Files beside the source's.
    files: Vec<PathBuf>,
    restart: bool,
}

impl ReplayPlan {
    /// `restart`: it is to begin anew.
    pub fn new(config: &Config, restart: bool) -> ReplayPlan {
        let mut text = format!("source {}\n", config.source.url.as_slice().join(" "));
        text += &format!("fault {}\n", config.source.fault.as_deref().unwrap_or("none"));
        let packets = config.engine.packets.map_or("all".to_owned(), |n| n.to_string());
        text += &format!("packets {packets}\n");
        text += &toml::to_string(&config.time).unwrap_or_default();
        text += &toml::to_string(&config.detector).unwrap_or_default();
        let named = [&config.detector.geometry, &config.detector.calibration];
        let files = named.into_iter().flatten().cloned().collect();
        ReplayPlan { text, files, restart }
    }

    /// What the sink needs; `None` if the source cannot be replayed. A topic is read from where an unfinished replay
    /// of it began.
    ///
    /// # Errors
    /// A server does not answer; the source no longer holds what was read before.
    pub fn begin(
        &self,
        source: &mut SourcePlan,
        outputs: &OutputPlan,
    ) -> Result<Option<Replay>, SourceOpenError> {
        let mut identity = self.text.clone();
        for file in &self.files {
            // A pipe was read when the detector was made, and has no more to give.
            let bytes = match file.is_file() {
                true => input_file::bytes(file, input_file::LARGEST_INPUT).unwrap_or_default(),
                false => Vec::new(),
            };
            identity += &format!("{} {:08x}\n", file.display(), crc32fast::hash(&bytes));
        }
        let earlier = outputs.unfinished(&identity).filter(|_| !self.restart);
        let order = outputs.order_file().unwrap_or_default();
        let from = ReplayedFrom { earlier: earlier.as_ref(), order: &order };
        let Some(replayable) = source.replay(&from)? else { return Ok(None) };
        identity += &replayable.about;
        let (title, restart, starts) = (source.urls(), self.restart, replayable.starts);
        Ok(Some(Replay { identity, title, restart, starts }))
    }
}

/// A recorded source that waits where it would be too fast, whatever its speed: a replay must have all events.
pub struct Patient(pub Box<dyn Source>);

impl Source for Patient {
    fn recv(&mut self, batch: &mut Batch, wait: Duration) -> Result<Received, SourceError> {
        self.0.recv(batch, wait)
    }
    fn lossless(&self) -> bool {
        true
    }
    fullcount_core::as_inner_source!(0: batch replay for_capture buffer_percent streams sheet describe);
}
