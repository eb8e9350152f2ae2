//! Options of a Kafka sink, and the checks that need no broker.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fullcount_core::wall::WallClock;

use super::address::{AddressError, check_brokers, check_topic};
use super::link::News;
use super::settings::{COMPRESSIONS, KafkaSettings, SettingError};
use fullcount_core::output::Replay;
use fullcount_messages::{StreamOptionError, StreamOptions};
use fullcount_spool::SpoolOptions;

/// Where the running numbers of messages begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MessageId {
    /// Behind the last one of the earlier run: a gap is a loss, a smaller number is a mistake.
    #[default]
    Continue,
    /// At 1 with each start, as the existing event formation unit has it.
    Restart,
}

/// How messages are compressed in transit and in the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MessageCompression {
    /// No compression, as in other producers: neutron events compress little.
    #[default]
    None,
    /// Fast.
    Lz4,
    /// Smaller.
    Zstd,
}

impl MessageCompression {
    /// Name in the configuration and in librdkafka's.
    pub fn name(self) -> &'static str {
        match self {
            MessageCompression::None => "none",
            MessageCompression::Lz4 => "lz4",
            MessageCompression::Zstd => "zstd",
        }
    }
}

/// Everything that a sink is made with.
#[derive(Clone)]
pub struct KafkaOptions {
    /// `host:port`, several with commas between them.
    pub brokers: String,
    /// Topic.
    pub topic: String,
    /// Partition for all messages; `None`: message n goes to partition n modulo their number.
    pub partition: Option<i32>,
    /// How events become messages; its first number is that of [`Self::message_id`].
    pub stream: StreamOptions,
    /// Where numbers begin.
    pub message_id: MessageId,
    /// Folder of the spool.
    pub spool: PathBuf,
    /// Most bytes of the spool, 16 MiB or more.
    pub spool_size: u64,
    /// The spool outlives a loss of power as well, not only a killed process.
    pub spool_commit: bool,
    /// Compression.
    pub compression: MessageCompression,
    /// Longest time that the end of a run waits for the broker; what is not confirmed by then stays in the spool.
    pub drain: Duration,
    /// librdkafka's own settings.
    pub settings: KafkaSettings,
    /// For a source that can be replayed: every event once, through a kill.
    pub replay: Option<Replay>,
    /// The detector's clock and the host's, where times are the host's: each message says how they are joined.
    pub wall: Option<Arc<WallClock>>,
    /// Takes sentences for people.
    pub news: News,
    /// True once the run is asked to end: then a full spool is waited for no longer than `drain`.
    pub stop: Arc<dyn Fn() -> bool + Send + Sync>,
    /// True when the run ends by itself: then it no longer waits for a full spool.
    pub over: Arc<dyn Fn() -> bool + Send + Sync>,
    /// True when the run must end without waiting.
    pub hurry: Arc<dyn Fn() -> bool + Send + Sync>,
    /// Told when a full spool was waited for as long as `drain` in the midst of the run, and the broker confirmed nothing. True if the
    /// run ends for it.
    pub stuck: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl std::fmt::Debug for KafkaOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaOptions")
            .field("brokers", &self.brokers)
            .field("topic", &self.topic)
            .field("spool", &self.spool)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// An option out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// Brokers or topic.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// How events become messages.
    #[error(transparent)]
    Stream(#[from] StreamOptionError),
    /// A setting of librdkafka's.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// Partition.
    #[error("partition {0}: 0 to 2147483647, or leave it out to use all partitions in turn")]
    Partition(i32),
    /// Bound of the spool.
    #[error("a spool of {0} B: at least 16 MiB are needed")]
    SpoolSize(u64),
    /// Set twice.
    #[error("compression is set, and so is librdkafka's `{0}`: leave one of them out")]
    Compression(&'static str),
}

impl KafkaOptions {
    /// Defaults for a topic and the producer's name.
    pub fn new(
        brokers: impl Into<String>,
        topic: impl Into<String>,
        source_name: impl Into<String>,
        spool: impl Into<PathBuf>,
    ) -> KafkaOptions {
        KafkaOptions {
            brokers: brokers.into(),
            topic: topic.into(),
            partition: None,
            stream: StreamOptions::new(source_name),
            message_id: MessageId::default(),
            spool: spool.into(),
            spool_size: 4 << 30,
            spool_commit: true,
            compression: MessageCompression::default(),
            drain: Duration::from_secs(10),
            settings: KafkaSettings::default(),
            replay: None,
            wall: None,
            news: |_| {},
            stop: Arc::new(|| false),
            over: Arc::new(|| false),
            hurry: Arc::new(|| false),
            stuck: Arc::new(|| false),
        }
    }

    /// Checks what needs no broker.
    ///
    /// # Errors
    /// The first option that cannot be.
    pub fn validate(&self) -> Result<(), OptionError> {
        check_brokers(&self.brokers)?;
        check_topic(&self.topic)?;
        self.stream.validate()?;
        if let Some(partition) = self.partition.filter(|p| *p < 0) {
            return Err(OptionError::Partition(partition));
        }
        if self.spool_size < 16 << 20 {
            return Err(OptionError::SpoolSize(self.spool_size));
        }
        if self.compression != MessageCompression::None {
            for name in COMPRESSIONS {
                if self.settings.has(name) {
                    return Err(OptionError::Compression(name));
                }
            }
        }
        Ok(self.all_settings().check()?)
    }

    /// The user's settings with the compression.
    pub(super) fn all_settings(&self) -> KafkaSettings {
        match self.compression {
            MessageCompression::None => self.settings.clone(),
            other => self.settings.prefer("compression.codec", other.name()),
        }
    }

    /// What the spool is opened with: one stream is one topic and one producer's name.
    pub(super) fn spool_options(&self) -> SpoolOptions {
        let stream =
            format!("{} {}", self.topic, self.stream.source_name.replace(['\n', '\r'], " "));
        SpoolOptions {
            limit: self.spool_size,
            commit: self.spool_commit,
            ..SpoolOptions::new(&self.spool, stream)
        }
    }

    /// `kafka://…`, for people.
    pub(super) fn place(&self) -> String {
        format!("kafka://{}/{}", self.brokers, self.topic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_out_of_range_is_refused() {
        let refused = |change: fn(&mut KafkaOptions)| {
            let mut o = KafkaOptions::new("h:9092", "sonde_detector", "sonde", "spool");
            assert_eq!(o.validate(), Ok(()));
            change(&mut o);
            o.validate().unwrap_err()
        };
        assert!(matches!(refused(|o| o.brokers = "h h".into()), OptionError::Address(_)));
        assert!(matches!(refused(|o| o.topic = "a b".into()), OptionError::Address(_)));
        assert!(matches!(refused(|o| o.stream.capacity = 0), OptionError::Stream(_)));
        assert_eq!(refused(|o| o.partition = Some(-1)), OptionError::Partition(-1));
        assert_eq!(refused(|o| o.spool_size = 5), OptionError::SpoolSize(5));
        let twice = refused(|o| {
            o.compression = MessageCompression::Lz4;
            o.settings = KafkaSettings::new([("compression.type".to_owned(), "zstd".to_owned())]);
        });
        assert_eq!(twice, OptionError::Compression("compression.type"));
        let unknown =
            refused(|o| o.settings = KafkaSettings::new([("x".to_owned(), "y".to_owned())]));
        assert!(matches!(unknown, OptionError::Setting(_)));
        for compression in [MessageCompression::Lz4, MessageCompression::Zstd] {
            let mut o = KafkaOptions::new("h:9092", "sonde_detector", "sonde", "spool");
            o.compression = compression;
            assert_eq!(o.validate(), Ok(()), "{}", compression.name());
        }
    }
}
