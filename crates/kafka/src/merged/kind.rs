//! `[output.merged]`: merged events on a Kafka topic. Refuses options out of range, invalid names of brokers or topics, and a
//! detector that merges nothing. Source: `docs/fragments.md`, "On a topic".

use std::path::PathBuf;

use fullcount_core::output::{
    Claim, DeclaredOutput, Opened, Opening, OutputKind, OutputOpenError, OutputSetup, Plan,
};
use fullcount_core::refusal::{Refusal, refuse};
use fullcount_core::sink::Sink;
use fullcount_io::{quantity, section};
use serde::{Deserialize, Serialize};

use super::{MergedCounter, MergedSink};
use crate::kind::located;
use crate::{KafkaOptions, KafkaSettings};

/// Path of the section.
const SECTION: &str = "output.merged";

/// `[output.merged]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct MergedSection {
    /// `host:port`, several with commas between them.
    brokers: String,
    /// Topic; without it the detector's name and `_records`.
    topic: Option<String>,
    /// Folder of the spool.
    spool: PathBuf,
    /// Most bytes of the spool, 16 MiB or more.
    #[serde(default = "usual_spool", deserialize_with = "section::text")]
    spool_size: String,
    /// Longest time that the end of a run waits for the broker.
    #[serde(default = "usual_drain", deserialize_with = "section::text")]
    drain: String,
    /// librdkafka's own settings.
    #[serde(
        default,
        skip_serializing_if = "toml::Table::is_empty",
        serialize_with = "section::without_secrets"
    )]
    options: toml::Table,
}

fn usual_spool() -> String {
    "4GiB".into()
}
fn usual_drain() -> String {
    "10s".into()
}

/// Merged events on a topic.
#[derive(Debug)]
pub struct MergedEvents;

const DECLARED: DeclaredOutput = DeclaredOutput {
    keys: KEYS,
    counters: || vec![("output: merged", MergedCounter::catalogue())],
    ..DeclaredOutput::new(
        "merged",
        SECTION,
        "events merged of fragments, with their bytes, on a Kafka topic",
        section::reading::<MergedSection>(),
    )
};

impl OutputKind for MergedEvents {
    fn declared(&self) -> &'static DeclaredOutput {
        &DECLARED
    }

    fn plan(&self, setup: &OutputSetup<'_>) -> Result<Option<Box<dyn Plan>>, Refusal> {
        let section: MergedSection = section::read(SECTION, setup.section)?;
        let topic = section.topic.clone().unwrap_or_else(|| format!("{}_records", setup.detector));
        if !setup.records {
            let why = format!("leave it out: detector.kind = {} gives no records", setup.detector);
            return Err(refuse("output.merged.topic", topic, why));
        }
        let settings = section::settings("output.merged.options", &section.options)?;
        let files = located(&settings);
        let name = setup.detector.to_owned();
        let mut options = KafkaOptions::new(&section.brokers, &topic, name, &section.spool);
        let size = quantity::size(&section.spool_size);
        let drain = quantity::duration(&section.drain);
        options.spool_size = size
            .map_err(|e| refuse("output.merged.spool_size", &section.spool_size, e.to_string()))?;
        options.drain =
            drain.map_err(|e| refuse("output.merged.drain", &section.drain, e.to_string()))?;
        options.settings = KafkaSettings::read(settings)
            .map_err(|e| refuse("output.merged.options", &e.name, e.to_string()))?;
        options.news = |what| fullcount_log::warning!("{what}");
        options.validate().map_err(|e| refuse(SECTION, &topic, e.to_string()))?;
        Ok(Some(Box::new(MergedPlan { files, options })))
    }
}

/// A checked section.
struct MergedPlan {
    files: Vec<PathBuf>,
    options: KafkaOptions,
}

impl Plan for MergedPlan {
    fn claims(&self) -> Vec<Claim> {
        let read = self.files.iter().map(|file| Claim::Read("options", file.clone()));
        read.chain([Claim::Folder("output.merged.spool", self.options.spool.clone())]).collect()
    }

    fn spool(&self) -> Option<PathBuf> {
        Some(self.options.spool.clone())
    }

    fn open(&mut self, opening: &Opening) -> Result<Opened, OutputOpenError> {
        let mut o = self.options.clone();
        o.stop = opening.ending.requested.clone();
        o.over = opening.ending.over.clone();
        o.hurry = opening.ending.hurried.clone();
        o.stuck = opening.ending.stuck.clone();
        let spool = o.spool.display();
        let fact = format!("output merged kafka://{}/{}, spool {spool}", o.brokers, o.topic);
        let sink = MergedSink::open(o).map_err(|e| OutputOpenError(e.to_string()))?;
        let sink: Box<dyn Sink> = Box::new(sink);
        Ok(Opened { facts: vec![fact], ..sink.into() })
    }
}

fullcount_core::keys! {
    /// Keys of the section.
    const KEYS =
        Text "output.merged.brokers" "required" "`HOST:PORT`, several with commas between them"
            "brokers to begin with. None has to be there at the start";
        Text "output.merged.topic" "–" "1 to 249 of a-z A-Z 0-9 `.` `_` `-`"
            "topic; without it the detector's name and `_records`";
        Path "output.merged.spool" "required" "path"
            "folder of its [spool](kafka.md#the-spool), one for each instance";
        Text "output.merged.spool_size" "`\"4GiB\"`" "16 MiB and more"
            "most bytes of the spool's files";
        Text "output.merged.drain" "`\"10s\"`" "length of time"
            "how long the end of a run waits for the broker; what is not confirmed by then stays in the spool for the next run";
        Value "output.merged.options" "–" "table"
            "librdkafka's own settings, as in `output.kafka.options`; a large event needs a larger `message.max.bytes`";
}
