//! `[output.kafka]` and `[output.raw]`, with the default of each key. Source: `docs/configuration.md`. Ranges are checked where
//! the outputs are made.

use std::path::PathBuf;

use fullcount_core::refusal::Refusal;
use fullcount_io::section;
use serde::{Deserialize, Serialize};

/// `[output.kafka]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EventsSection {
    /// `host:port`, several with commas between them.
    pub brokers: String,
    /// Topic; without it the name of the producer and `_detector`.
    pub topic: Option<String>,
    /// `ev44` or `ev42`.
    pub schema: String,
    /// Name of the producer in each message; without it the detector's.
    pub source_name: Option<String>,
    /// Partition for all messages; without it message n goes to partition n modulo their number.
    pub partition: Option<i32>,
    /// Most events of a message.
    pub capacity: usize,
    /// Longest time that an event waits for its message to fill.
    #[serde(deserialize_with = "section::text")]
    pub flush: String,
    /// Pulses whose messages fill at the same time.
    pub open_pulses: usize,
    /// Where the running numbers of messages begin: `continue` or `restart`.
    pub message_id: String,
    /// An interrupted replay continues, `resume`, or starts again, `restart`.
    pub replay: String,
    /// `none`, `lz4` or `zstd`.
    pub compression: String,
    /// Folder of the spool; without it one named after topic and source in `fullcount-spool`.
    pub spool: Option<PathBuf>,
    /// Most bytes of the spool.
    #[serde(deserialize_with = "section::text")]
    pub spool_size: String,
    /// The spool outlives a loss of power as well.
    pub spool_commit: bool,
    /// Longest time that the end of a run waits for the broker.
    #[serde(deserialize_with = "section::text")]
    pub drain: String,
    /// librdkafka's own settings.
    #[serde(
        skip_serializing_if = "toml::Table::is_empty",
        serialize_with = "section::without_secrets"
    )]
    pub options: toml::Table,
}

impl Default for EventsSection {
    fn default() -> EventsSection {
        EventsSection {
            brokers: "localhost:9092".into(),
            topic: None,
            schema: "ev44".into(),
            source_name: None,
            partition: None,
            capacity: 12_400,
            flush: "1s".into(),
            open_pulses: 2,
            message_id: "continue".into(),
            replay: "resume".into(),
            compression: "none".into(),
            spool: None,
            spool_size: "4GiB".into(),
            spool_commit: true,
            drain: default_drain(),
            options: toml::Table::new(),
        }
    }
}

impl EventsSection {
    /// Name of the producer; `detector`: the default.
    pub(crate) fn source_name(&self, detector: &str) -> String {
        self.source_name.clone().unwrap_or_else(|| detector.to_lowercase())
    }

    /// Topic of the events; `detector` as in [`Self::source_name`].
    pub(crate) fn topic(&self, detector: &str) -> String {
        let usual = || format!("{}_detector", self.source_name(detector).to_lowercase());
        self.topic.clone().unwrap_or_else(usual)
    }

    /// librdkafka's settings by name: `ssl.ca.location` may be written as one key or as nested tables.
    ///
    /// # Errors
    /// A value that is neither text, number nor truth value.
    pub(crate) fn settings(&self) -> Result<Vec<(String, String)>, Refusal> {
        section::settings("output.kafka.options", &self.options)
    }
}

/// `[output.raw]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawSection {
    /// `host:port`, several with commas between them.
    pub brokers: String,
    /// Topic; without it that of the events and `_samples`.
    pub topic: Option<String>,
    /// Name of the producer in each message; without it the detector's kind.
    pub source_name: Option<String>,
    /// Every n-th packet of each worker; 1: all.
    #[serde(default = "default_every")]
    pub every: u64,
    /// Folder of the spool.
    pub spool: PathBuf,
    /// Most bytes of the spool, 16 MiB or more.
    #[serde(default = "default_raw_spool", deserialize_with = "section::text")]
    pub spool_size: String,
    /// Memory between receiver and spool, 8 MiB to 16 GiB.
    #[serde(default = "default_raw_buffer", deserialize_with = "section::text")]
    pub buffer: String,
    /// Longest time that the end of a run waits for the broker.
    #[serde(default = "default_drain", deserialize_with = "section::text")]
    pub drain: String,
    /// What is not sent is a loss of the run; a source that can wait is made to.
    #[serde(default = "default_required")]
    pub required: bool,
    /// librdkafka's own settings.
    #[serde(
        default,
        skip_serializing_if = "toml::Table::is_empty",
        serialize_with = "section::without_secrets"
    )]
    pub options: toml::Table,
}

impl RawSection {
    /// Topic of the packets. `events`: the output of events in the same run; `name`: of the producer.
    pub(crate) fn topic(
        &self,
        events: Option<&EventsSection>,
        detector: &str,
        name: &str,
    ) -> String {
        let usual = || {
            let events = events.map(|kafka| kafka.topic(detector));
            let events = events.unwrap_or_else(|| format!("{}_detector", name.to_lowercase()));
            format!("{events}_samples")
        };
        self.topic.clone().unwrap_or_else(usual)
    }

    /// As [`EventsSection::settings`].
    pub(crate) fn settings(&self) -> Result<Vec<(String, String)>, Refusal> {
        section::settings("output.raw.options", &self.options)
    }
}

fn default_every() -> u64 {
    1
}
fn default_raw_spool() -> String {
    "4GiB".into()
}
fn default_raw_buffer() -> String {
    "64MiB".into()
}
fn default_required() -> bool {
    true
}
fn default_drain() -> String {
    "10s".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_that_is_not_named_follows_from_the_names_that_are() {
        let kafka = |text: &str| toml::from_str::<EventsSection>(text).expect("a configuration");
        let raw = |text: &str| {
            let text = format!("brokers = 'b'\nspool = 's'\n{text}");
            toml::from_str::<RawSection>(&text).expect("a configuration")
        };
        let (plain, named) = (kafka(""), kafka("source_name = 'LOKI'"));
        let own = kafka("topic = 'mine'");
        assert_eq!(plain.topic("sonde"), "sonde_detector");
        assert_eq!(named.topic("sonde"), "loki_detector");
        assert_eq!(own.topic("sonde"), "mine");
        let topic = |r: &RawSection, k| r.topic(k, "sonde", "Bank0");
        assert_eq!(topic(&raw(""), None), "bank0_detector_samples");
        assert_eq!(topic(&raw(""), Some(&plain)), "sonde_detector_samples");
        assert_eq!(topic(&raw(""), Some(&own)), "mine_samples");
        assert_eq!(topic(&raw("topic = 'x'"), Some(&own)), "x");
    }
}
