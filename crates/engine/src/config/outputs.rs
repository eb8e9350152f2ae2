//! `[output]`: what goes where, with the default of each key.
//!
//! Source: `docs/configuration.md`. Ranges are checked where the outputs are made.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::about::{SampleConfig, UserConfig};
use super::{ConfigError, plain, refuse};

/// `[output]`
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct OutputConfig {
    /// `null`: events are counted and dropped, nothing else may be configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sink: Option<String>,
    /// NeXus file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nexus: Option<NexusConfig>,
    /// Hits as a table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hits: Option<TableConfig>,
    /// Clusters as tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clusters: Option<TableConfig>,
    /// Packets as they were received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capture: Option<CaptureConfig>,
    /// Packets as messages of a Kafka topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw: Option<RawConfig>,
    /// Kafka topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kafka: Option<KafkaConfig>,
}

/// `[output.hits]` and `[output.clusters]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TableConfig {
    /// File to write; its ending decides the format: `.h5`, `.hdf5` or `.parquet`.
    pub file: PathBuf,
    /// Replace an existing file.
    #[serde(default)]
    pub overwrite: bool,
    /// `none` or `gzip` (level 1 to 9: `gzip:4`).
    #[serde(default = "default_table_compression")]
    pub compression: String,
}

fn default_table_compression() -> String {
    "gzip:1".into()
}

/// `[output.raw]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawConfig {
    /// `host:port`, several with commas between them.
    pub brokers: String,
    /// Topic; without it that of the events and `_samples`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Name of the producer in each message; without it the detector's kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_name: Option<String>,
    /// Every n-th packet of each worker; 1: all.
    #[serde(default = "default_every")]
    pub every: u64,
    /// Folder of the spool.
    pub spool: PathBuf,
    /// Most bytes of the spool, 16 MiB or more.
    #[serde(default = "default_raw_spool", deserialize_with = "plain::text")]
    pub spool_size: String,
    /// Memory between receiver and spool, 8 MiB to 16 GiB.
    #[serde(default = "default_raw_buffer", deserialize_with = "plain::text")]
    pub buffer: String,
    /// Longest time that the end of a run waits for the broker.
    #[serde(default = "default_drain", deserialize_with = "plain::text")]
    pub drain: String,
    /// What is not sent is a loss of the run; a source that can wait is made to.
    #[serde(default = "default_required")]
    pub required: bool,
    /// librdkafka's own settings.
    #[serde(
        default,
        skip_serializing_if = "toml::Table::is_empty",
        serialize_with = "without_secrets"
    )]
    pub options: toml::Table,
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

/// `[output.capture]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CaptureConfig {
    /// File to write, or what the names of a rotating series begin with.
    pub file: PathBuf,
    /// The next file begins before this one would be larger, at least 1 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "plain::some")]
    pub rotate_size: Option<String>,
    /// The next file begins when its first packet is this much later, at least 1 s.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "plain::some")]
    pub rotate_time: Option<String>,
    /// Files of a series that stay, 1..=100000; without it all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<u32>,
    /// Replace an existing file.
    #[serde(default)]
    pub overwrite: bool,
    /// Memory between receiver and writer, 8 MiB to 16 GiB; of more than 128 MiB the rest is taken when it is needed.
    #[serde(default = "default_capture_buffer", deserialize_with = "plain::text")]
    pub buffer: String,
    /// What is not captured is a loss of the run; a source that can wait is made to.
    #[serde(default = "default_required")]
    pub required: bool,
}

fn default_capture_buffer() -> String {
    // 400 ms of 10 Gb/s, or a disk of 500 MB/s that stands for a second. A quarter is taken at the start.
    "512MiB".into()
}
fn default_required() -> bool {
    true
}

/// `[output.kafka]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct KafkaConfig {
    /// `host:port`, several with commas between them.
    #[serde(default = "default_brokers")]
    pub brokers: String,
    /// Topic; without it the name of the producer and `_detector`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// `ev44` or `ev42`.
    #[serde(default = "default_schema")]
    pub schema: String,
    /// Name of the producer in each message; without it the detector's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_name: Option<String>,
    /// Partition for all messages; without it message n goes to partition n modulo their number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<i32>,
    /// Most events of a message.
    #[serde(default = "default_capacity")]
    pub capacity: usize,
    /// Longest time that an event waits for its message to fill.
    #[serde(default = "default_kafka_flush", deserialize_with = "plain::text")]
    pub flush: String,
    /// Pulses whose messages fill at the same time.
    #[serde(default = "default_open_pulses")]
    pub open_pulses: usize,
    /// Where the running numbers of messages begin: `continue` or `restart`.
    #[serde(default = "default_message_id")]
    pub message_id: String,
    /// A replay that was interrupted goes on, `resume`, or begins anew, `restart`.
    #[serde(default = "default_replay")]
    pub replay: String,
    /// `none`, `lz4` or `zstd`.
    #[serde(default = "default_compression")]
    pub compression: String,
    /// Folder of the spool; without it one named after topic and source in `fullcount-spool`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spool: Option<PathBuf>,
    /// Most bytes of the spool.
    #[serde(default = "default_spool_size", deserialize_with = "plain::text")]
    pub spool_size: String,
    /// The spool outlives a loss of power as well.
    #[serde(default = "default_required")]
    pub spool_commit: bool,
    /// Longest time that the end of a run waits for the broker.
    #[serde(default = "default_drain", deserialize_with = "plain::text")]
    pub drain: String,
    /// librdkafka's own settings.
    #[serde(
        default,
        skip_serializing_if = "toml::Table::is_empty",
        serialize_with = "without_secrets"
    )]
    pub options: toml::Table,
}

impl KafkaConfig {
    /// Name of the producer; `detector`: what it is without one.
    pub fn source_name(&self, detector: &str) -> String {
        self.source_name.clone().unwrap_or_else(|| detector.to_lowercase())
    }

    /// Topic of the events; `detector` as in [`Self::source_name`].
    pub fn topic(&self, detector: &str) -> String {
        let usual = || format!("{}_detector", self.source_name(detector).to_lowercase());
        self.topic.clone().unwrap_or_else(usual)
    }

    /// librdkafka's settings by name: `ssl.ca.location` may be written as one key or as nested tables.
    ///
    /// # Errors
    /// A value that is neither text, number nor truth value.
    pub fn settings(&self) -> Result<Vec<(String, String)>, ConfigError> {
        let mut all = Vec::new();
        lay_flat("output.kafka.options", "", &self.options, &mut all)?;
        Ok(all)
    }
}

impl RawConfig {
    /// Topic of the packets. `events`: the output of events beside it; `name`: of the producer.
    pub fn topic(&self, events: Option<&KafkaConfig>, detector: &str, name: &str) -> String {
        let usual = || {
            let events = events.map(|kafka| kafka.topic(detector));
            let events = events.unwrap_or_else(|| format!("{}_detector", name.to_lowercase()));
            format!("{events}_samples")
        };
        self.topic.clone().unwrap_or_else(usual)
    }

    /// As [`KafkaConfig::settings`].
    ///
    /// # Errors
    /// As there.
    pub fn settings(&self) -> Result<Vec<(String, String)>, ConfigError> {
        let mut all = Vec::new();
        lay_flat("output.raw.options", "", &self.options, &mut all)?;
        Ok(all)
    }
}

/// Settings of a table and the tables in it, by their whole names.
pub(super) fn lay_flat(
    key: &'static str,
    prefix: &str,
    table: &toml::Table,
    all: &mut Vec<(String, String)>,
) -> Result<(), ConfigError> {
    for (part, value) in table {
        let name = if prefix.is_empty() { part.clone() } else { format!("{prefix}.{part}") };
        match value {
            toml::Value::Table(inner) => lay_flat(key, &name, inner, all)?,
            toml::Value::String(text) => all.push((name, text.clone())),
            toml::Value::Integer(_) | toml::Value::Float(_) | toml::Value::Boolean(_) => {
                all.push((name, value.to_string()));
            }
            _ => {
                let why = "text, a number, true or false";
                return Err(refuse(key, format!("{name} = {value}"), why));
            }
        }
    }
    Ok(())
}

/// A printed configuration, and the copy in a NeXus file, hold no passwords.
pub(super) fn without_secrets<S: serde::Serializer>(
    table: &toml::Table,
    to: S,
) -> Result<S::Ok, S::Error> {
    fn hide(prefix: &str, table: &toml::Table) -> toml::Table {
        let one = |(key, value): (&String, &toml::Value)| {
            let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
            let value = match value {
                toml::Value::Table(inner) => hide(&name, inner).into(),
                _ if fullcount_out::sink::secret(&name) => "(hidden)".into(),
                other => other.clone(),
            };
            (key.clone(), value)
        };
        table.iter().map(one).collect()
    }
    hide("", table).serialize(to)
}

fn default_brokers() -> String {
    "localhost:9092".into()
}
fn default_schema() -> String {
    "ev44".into()
}
fn default_capacity() -> usize {
    12_400
}
fn default_kafka_flush() -> String {
    "1s".into()
}
fn default_open_pulses() -> usize {
    2
}
fn default_message_id() -> String {
    "continue".into()
}
fn default_replay() -> String {
    "resume".into()
}
fn default_spool_size() -> String {
    "4GiB".into()
}
fn default_drain() -> String {
    "10s".into()
}

/// `[output.nexus]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NexusConfig {
    /// File to write.
    pub path: PathBuf,
    /// Replace an existing file.
    #[serde(default)]
    pub overwrite: bool,
    /// Title of the entry.
    #[serde(default = "default_title")]
    pub title: String,
    /// Instrument name.
    #[serde(default = "default_instrument")]
    pub instrument: String,
    /// `none` or `gzip` (level 1 to 9: `gzip:4`), with shuffle.
    #[serde(default = "default_compression")]
    pub compression: String,
    /// Longest time that a reader of the growing file lags behind.
    #[serde(default = "default_flush", deserialize_with = "plain::text")]
    pub flush: String,
    /// Attribute with the epoch of event_time_zero: `offset` or `start`.
    #[serde(default = "default_epoch_attribute")]
    pub epoch_attribute: String,
    /// Type of event_id: `int32` or `uint32`.
    #[serde(default = "default_event_id")]
    pub event_id: String,
    /// Entries per chunk of the event columns.
    #[serde(default = "default_chunk")]
    pub chunk: u64,
    /// From the source to the sample, metres.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_distance_m: Option<f64>,
    /// Who compresses: `direct` (own threads) or `hdf5` (the library).
    #[serde(default = "default_compress")]
    pub compress: String,
    /// Threads that compress with `direct`, 1 to 16; without it half of the host's cores, at most 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compress_threads: Option<usize>,
    /// Number of the run, 0 to 2147483647.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_number: Option<u32>,
    /// Proposal.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "plain::some")]
    pub proposal: Option<String>,
    /// Sample.
    #[serde(default, skip_serializing_if = "SampleConfig::is_empty")]
    pub sample: SampleConfig,
    /// Users.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<UserConfig>,
}

fn default_compress() -> String {
    "direct".into()
}

fn default_title() -> String {
    "Fullcount run".into()
}
fn default_instrument() -> String {
    "fullcount".into()
}
fn default_compression() -> String {
    "none".into()
}
fn default_flush() -> String {
    "2s".into()
}
fn default_epoch_attribute() -> String {
    "offset".into()
}
fn default_event_id() -> String {
    "int32".into()
}
fn default_chunk() -> u64 {
    1 << 20
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_that_is_not_named_follows_from_the_names_that_are() {
        let kafka = |text: &str| toml::from_str::<KafkaConfig>(text).expect("a configuration");
        let raw = |text: &str| {
            let text = format!("brokers = 'b'\nspool = 's'\n{text}");
            toml::from_str::<RawConfig>(&text).expect("a configuration")
        };
        let (plain, named) = (kafka(""), kafka("source_name = 'LOKI'"));
        let own = kafka("topic = 'mine'");
        assert_eq!(plain.topic("sonde"), "sonde_detector");
        assert_eq!(named.topic("sonde"), "loki_detector");
        assert_eq!(own.topic("sonde"), "mine");
        let topic = |r: &RawConfig, k| r.topic(k, "sonde", "Bank0");
        assert_eq!(topic(&raw(""), None), "bank0_detector_samples");
        assert_eq!(topic(&raw(""), Some(&plain)), "sonde_detector_samples");
        assert_eq!(topic(&raw(""), Some(&own)), "mine_samples");
        assert_eq!(topic(&raw("topic = 'x'"), Some(&own)), "x");
    }
}
