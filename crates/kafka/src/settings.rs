//! librdkafka's settings: our defaults, overridden by the user's, checked by librdkafka.
//!
//! Refuses settings that would break the spool's guarantee (fewer confirmations, transactions), that are set elsewhere
//! (brokers), or with which no client can be created (an unknown name, a missing file). Values of secret settings never
//! appear in a message. Source: librdkafka's CONFIGURATION.md, and `docs/formats/flatbuffers.md` section 7.

use std::collections::BTreeMap;
use std::fmt;

use fullcount_core::sink::secret;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, DefaultConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, DefaultProducerContext};

/// Settings by name, as given by the user.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct KafkaSettings(BTreeMap<String, String>);

/// Names are shown, secrets are not.
impl fmt::Debug for KafkaSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(k, v)| (k, shown(k, v)))).finish()
    }
}

/// A setting that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{why}", if name.is_empty() { String::new() } else { format!("{name} = {value}: ") })]
pub struct SettingError {
    /// Its name; empty where librdkafka refuses several together and names them itself.
    pub name: String,
    /// As given; hidden if it is a secret.
    pub value: String,
    /// librdkafka's words, or ours.
    pub why: String,
}

/// What a producer is made with unless the user says otherwise.
const PRODUCER: [(&str, &str); 10] = [
    ("enable.idempotence", "true"),
    ("acks", "all"),
    // 10 MB messages, as everybody who sends events has it; broker and topic have to allow them.
    ("message.max.bytes", "10000000"),
    ("message.copy.max.bytes", "10000000"),
    ("queue.buffering.max.ms", "100"),
    ("queue.buffering.max.messages", "10000"),
    // What the library holds. The format's 1 GB is there to outlast a broker; here that is the spool's part
    // (docs/kafka.md, "librdkafka's settings").
    ("queue.buffering.max.kbytes", "131072"),
    // Never give up: a message that timed out could be on the topic or not. Others have 10 minutes.
    ("message.timeout.ms", "0"),
    // A broker that comes back is found within 2 s, not 10.
    ("reconnect.backoff.max.ms", "2000"),
    ("statistics.interval.ms", "0"),
];

/// Bytes of a batch with zstd. Up to 256 KiB it takes tables that stay in the cache; with librdkafka's 1 MB,
/// `lab bench kafka --compressions zstd --kafka-set batch.size=1000000` has 0.4 of the MB/s for messages of 97 kB (111, not 279,
/// and twice the CPU time), 0.84 for 9 kB. Smaller ones cost more a message: 97 kB, two to a batch of 190 kB, 0.7.
const ZSTD_BATCH: &str = "250000";
/// The names of one setting.
pub(super) const COMPRESSIONS: [&str; 2] = ["compression.codec", "compression.type"];

/// What a consumer is made with unless the user says otherwise.
const CONSUMER: [(&str, &str); 5] = [
    ("fetch.message.max.bytes", "10000000"),
    // librdkafka reads ahead 64 MiB, then asks for nothing for a second: 106 MB/s at most, whatever the broker can
    // (`lab bench write` has 2.5 to 8 times that with 10 ms).
    ("fetch.queue.backoff.ms", "10"),
    ("reconnect.backoff.max.ms", "2000"),
    ("auto.offset.reset", "earliest"),
    // A partition that grows later is found within 30 s.
    ("topic.metadata.refresh.interval.ms", "30000"),
];

/// Settings that are set elsewhere.
const RESERVED: [(&str, &str); 7] = [
    ("bootstrap.servers", "set output.kafka.brokers, or the brokers of the address"),
    ("metadata.broker.list", "set output.kafka.brokers, or the brokers of the address"),
    ("transactional.id", "messages are sent once by the spool, without transactions"),
    ("enable.auto.commit", "offsets are committed when what was read is safe"),
    ("enable.auto.offset.store", "offsets are committed when what was read is safe"),
    ("group.id", "set the group of the address"),
    ("dr_msg_cb", "not a setting of a file"),
];

/// Settings that have only these values: with others a message would count as sent that is not, or be sent twice.
const FIXED: [(&str, &[&str], &str); 4] = [
    ("acks", &["all", "-1"], UNCONFIRMED),
    ("request.required.acks", &["all", "-1"], UNCONFIRMED),
    (
        "enable.idempotence",
        &["true", "t", "1"],
        "allowed is true: else a message whose confirmation got lost would be on the topic twice, or out of order",
    ),
    (
        "delivery.report.only.error",
        &["false", "f", "0"],
        "allowed is false: else nothing would tell that a message has arrived, and it would wait here for ever",
    ),
];

/// Settings of a consumer that are not the user's, and why.
const CONSUMER_RESERVED: [(&str, &str); 12] = [
    ("bootstrap.servers", BROKERS_IN_URL),
    ("metadata.broker.list", BROKERS_IN_URL),
    (
        "group.id",
        "set group=NAME in the URL: without one partitions are read by hand and nothing is committed",
    ),
    ("enable.auto.commit", COMMITTED_LATER),
    ("auto.commit.enable", COMMITTED_LATER),
    ("enable.auto.offset.store", COMMITTED_LATER),
    ("auto.commit.interval.ms", COMMITTED_LATER),
    ("auto.offset.reset", WHERE_TO_BEGIN),
    (
        "enable.partition.eof",
        "the ends of partitions are told anyway: set until=end in the URL to end there",
    ),
    (
        "isolation.level",
        "packets of a transaction that was given up never count, and have to be left out: it stays read_committed",
    ),
    (
        "group.protocol",
        "it stays classic: partitions are given up only once their events are safe, which is made for that one",
    ),
    ("group.remote.assignor", "only of another group.protocol, which stays classic"),
];
/// Why [`CONSUMER_RESERVED`] has the brokers.
const BROKERS_IN_URL: &str = "set the brokers in the URL: kafka://HOST:PORT,HOST:PORT/TOPIC";
/// Why [`CONSUMER_RESERVED`] has the settings of automatic commits.
const COMMITTED_LATER: &str = "offsets are committed once the events of what was read are safe, never by time: a killed \
                               process would lose what was committed before";
/// Why [`CONSUMER_RESERVED`] has the first offset.
const WHERE_TO_BEGIN: &str = "set from=oldest or from=newest in the URL; a group begins where it stood, and where it never \
                              was at the oldest, so that nothing is passed over";

/// Why [`FIXED`] has `acks`.
const UNCONFIRMED: &str = "allowed is all (or -1): else a message would count as sent before it is safe, and be lost \
                           with the broker that had it";

impl KafkaSettings {
    /// Settings as people give them: secrets may come from files and the environment.
    ///
    /// # Errors
    /// A secret that is not there, or no text of one line.
    pub fn read(
        pairs: impl IntoIterator<Item = (String, String)>,
    ) -> Result<KafkaSettings, SettingError> {
        super::secrets::in_place(pairs).map(KafkaSettings)
    }

    /// Those of an option that is given as `NAME=VALUE`, checked for a producer.
    ///
    /// # Errors
    /// The first invalid one, with what is allowed.
    pub fn of_options(texts: &[String]) -> Result<KafkaSettings, String> {
        let pair = |text: &String| {
            let pair = text.split_once('=').map(|(n, v)| (n.to_owned(), v.to_owned()));
            pair.ok_or_else(|| format!("{text}: expected NAME=VALUE, e.g. acks=all"))
        };
        let pairs = texts.iter().map(pair).collect::<Result<Vec<_>, _>>()?;
        let settings = KafkaSettings::read(pairs).map_err(|e| e.to_string())?;
        settings.check().map_err(|e| e.to_string())?;
        Ok(settings)
    }

    /// Settings in any order, unchecked.
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> KafkaSettings {
        KafkaSettings(pairs.into_iter().collect())
    }

    /// The same with one more; it takes the place of one that is there.
    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> KafkaSettings {
        let mut all = self.0.clone();
        all.insert(name.to_owned(), value.to_owned());
        KafkaSettings(all)
    }

    /// Sets one if the user has not.
    pub(super) fn prefer(&self, name: &str, value: &str) -> KafkaSettings {
        let mut all = self.0.clone();
        all.entry(name.to_owned()).or_insert_with(|| value.to_owned());
        KafkaSettings(all)
    }

    /// What the user set it to.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// True if the user set it.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Checks names, values and how they go together against librdkafka, without a connection.
    ///
    /// # Errors
    /// The first that cannot be.
    pub fn check(&self) -> Result<(), SettingError> {
        for (name, why) in RESERVED {
            if let Some(value) = self.0.get(name) {
                return Err(self.refuse(name, value, why.to_owned()));
            }
        }
        for (name, allowed, why) in FIXED {
            if let Some(value) = self.0.get(name)
                && !allowed.iter().any(|a| a.eq_ignore_ascii_case(value))
            {
                return Err(self.refuse(name, value, why.to_owned()));
            }
        }
        // librdkafka accepts a producer's settings for a consumer and the other way round, with a warning. It checks
        // combinations and files only when a client is created; one without brokers connects to nothing.
        let mut config = self.over(&PRODUCER, "");
        config.remove("bootstrap.servers");
        let made: Result<BaseProducer<DefaultProducerContext>, _> = config.create();
        made.map(drop).map_err(|e| self.refused_by_library(e))
    }

    /// As [`KafkaSettings::check`], for a source of packets: refuses settings that would lose, duplicate or skip some.
    ///
    /// # Errors
    /// The first invalid one.
    pub fn check_source(&self) -> Result<(), SettingError> {
        for (name, why) in CONSUMER_RESERVED {
            if let Some(value) = self.0.get(name) {
                return Err(self.refuse(name, value, why.to_owned()));
            }
        }
        let mut config = self.consumer("");
        config.remove("bootstrap.servers");
        config.set("group.id", "check");
        let made: Result<BaseConsumer<DefaultConsumerContext>, _> = config.create();
        made.map(drop).map_err(|e| self.refused_by_library(e))
    }

    fn refused_by_library(&self, error: KafkaError) -> SettingError {
        match error {
            KafkaError::ClientConfig(_, why, name, value) => self.refuse(&name, &value, why),
            KafkaError::ClientCreation(why) => self.refuse("", "", why),
            other => self.refuse("", "", other.to_string()),
        }
    }

    fn refuse(&self, name: &str, value: &str, why: String) -> SettingError {
        let about_tls = name.starts_with("ssl.") || name.starts_with("sasl.mechanism");
        let about_tls = about_tls || name == "security.protocol" || why.contains("SASL mechanism");
        let why = match !cfg!(feature = "tls") && about_tls {
            true => format!("{why} (TLS and SCRAM need a build with the feature `kafka-tls`)"),
            false => why,
        };
        SettingError { name: name.to_owned(), value: shown(name, value).to_owned(), why }
    }

    /// For a producer.
    pub(super) fn producer(&self, brokers: &str) -> ClientConfig {
        let mut config = self.over(&PRODUCER, brokers);
        let codec = COMPRESSIONS.iter().find_map(|name| self.0.get(*name));
        if codec.is_some_and(|codec| codec == "zstd") && !self.has("batch.size") {
            config.set("batch.size", ZSTD_BATCH);
        }
        config
    }

    /// For a consumer, without a group.
    pub(super) fn consumer(&self, brokers: &str) -> ClientConfig {
        let mut config = self.over(&CONSUMER, brokers);
        config.set("enable.auto.commit", "false").set("enable.auto.offset.store", "false");
        config
    }

    fn over(&self, ours: &[(&str, &str)], brokers: &str) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", brokers).set("client.id", "fullcount");
        for (name, value) in ours {
            // An alias of the user's counts as the user's word on it.
            if !ALIASES.iter().any(|(a, b)| a == name && self.has(b)) {
                config.set(*name, *value);
            }
        }
        for (name, value) in &self.0 {
            config.set(name, value);
        }
        config
    }
}

/// Other names of what we set.
const ALIASES: [(&str, &str); 5] = [
    ("acks", "request.required.acks"),
    ("queue.buffering.max.ms", "linger.ms"),
    ("message.timeout.ms", "delivery.timeout.ms"),
    ("fetch.message.max.bytes", "max.partition.fetch.bytes"),
    ("message.max.bytes", "max.request.size"),
];

fn shown<'a>(name: &str, value: &'a str) -> &'a str {
    if secret(name) { "(hidden)" } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> KafkaSettings {
        KafkaSettings::new(pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())))
    }

    #[test]
    fn zstd_has_batches_of_its_own_until_the_user_says_otherwise() {
        let size = |pairs: &[(&str, &str)]| {
            settings(pairs).producer("h:1").get("batch.size").map(str::to_owned)
        };
        for name in COMPRESSIONS {
            assert_eq!(size(&[(name, "zstd")]).as_deref(), Some(ZSTD_BATCH));
            assert_eq!(size(&[(name, "lz4")]), None);
        }
        let own = size(&[("compression.codec", "zstd"), ("batch.size", "1000000")]);
        assert_eq!(own.as_deref(), Some("1000000"));
    }

    #[test]
    fn ours_stand_until_the_user_says_otherwise() {
        let config = settings(&[]).producer("h:1");
        assert_eq!(config.get("acks"), Some("all"));
        assert_eq!(config.get("enable.idempotence"), Some("true"));
        assert_eq!(config.get("message.max.bytes"), Some("10000000"));
        assert_eq!(config.get("bootstrap.servers"), Some("h:1"));
        let config = settings(&[("message.max.bytes", "5000"), ("linger.ms", "5")]).producer("h:1");
        assert_eq!(config.get("message.max.bytes"), Some("5000"));
        assert_eq!(
            (config.get("linger.ms"), config.get("queue.buffering.max.ms")),
            (Some("5"), None)
        );
        assert_eq!(settings(&[]).consumer("h:1").get("enable.auto.commit"), Some("false"));
        assert_eq!(settings(&[]).check(), Ok(()));
    }

    #[test]
    fn what_cannot_be_is_refused_and_secrets_are_not_shown() {
        let refused = |name: &str, value: &str| settings(&[(name, value)]).check().unwrap_err();
        let error = refused("no.such.setting", "1").to_string();
        assert!(
            error.starts_with("no.such.setting = 1: No such configuration property"),
            "{error}"
        );
        let error = refused("linger.ms", "soon").to_string();
        assert!(error.starts_with("linger.ms = soon: "), "{error}");
        let error = refused("bootstrap.servers", "h").to_string();
        assert!(error.contains("output.kafka.brokers"), "{error}");
        assert!(refused("transactional.id", "x").to_string().contains("without transactions"));
        // Errors in combinations of settings, found before a client is needed.
        let error = refused("max.in.flight", "10").to_string();
        assert!(error.starts_with('`') && error.contains("max.in.flight"), "{error}");
        let error = refused("my.password", "hush").to_string();
        assert!(!error.contains("hush") && error.contains("(hidden)"), "{error}");
        let shown = format!("{:?}", settings(&[("sasl.password", "hush"), ("linger.ms", "5")]));
        assert_eq!(shown, r#"{"linger.ms": "5", "sasl.password": "(hidden)"}"#);
    }

    #[test]
    fn what_would_break_the_promises_of_a_source_is_refused_and_says_why() {
        let refused =
            |name: &str, value: &str| settings(&[(name, value)]).check_source().unwrap_err();
        for (name, value, words) in [
            ("bootstrap.servers", "h", "brokers in the URL"),
            ("metadata.broker.list", "h", "brokers in the URL"),
            ("group.id", "again", "group=NAME in the URL"),
            ("enable.auto.commit", "true", "once the events of what was read are safe"),
            ("auto.commit.enable", "true", "once the events of what was read are safe"),
            ("enable.auto.offset.store", "true", "once the events of what was read are safe"),
            ("auto.commit.interval.ms", "5", "once the events of what was read are safe"),
            ("auto.offset.reset", "latest", "from=oldest or from=newest in the URL"),
            ("enable.partition.eof", "false", "until=end in the URL"),
            ("isolation.level", "read_uncommitted", "stays read_committed"),
            ("group.protocol", "consumer", "stays classic"),
            ("group.remote.assignor", "range", "stays classic"),
            // Unknown names and values of librdkafka.
            ("no.such.setting", "1", "No such configuration property"),
            ("fetch.min.bytes", "many", "Invalid value"),
            ("session.timeout.ms", "-5", "outside allowed range"),
        ] {
            let error = refused(name, value).to_string();
            assert!(error.starts_with(&format!("{name} = {value}: ")), "{error}");
            assert!(error.contains(words), "{error}");
        }
        // Found only when a client is made: they do not go together.
        let together = [("session.timeout.ms", "60000"), ("max.poll.interval.ms", "50000")];
        let error = settings(&together).check_source().unwrap_err().to_string();
        assert!(error.contains("max.poll.interval.ms"), "{error}");
        let error = refused("my.password", "hush").to_string();
        assert!(!error.contains("hush") && error.contains("(hidden)"), "{error}");
        for (name, value) in [
            ("fetch.message.max.bytes", "20000000"),
            ("max.partition.fetch.bytes", "20000000"),
            ("queued.min.messages", "1000"),
            ("session.timeout.ms", "10000"),
            ("partition.assignment.strategy", "range"),
            ("sasl.password", "hush"),
        ] {
            assert_eq!(settings(&[(name, value)]).check_source(), Ok(()), "{name} = {value}");
        }
    }

    #[test]
    fn a_message_counts_as_sent_only_when_all_have_it_and_is_sent_once() {
        for (name, value) in [
            ("acks", "0"),
            ("acks", "1"),
            ("request.required.acks", "1"),
            ("enable.idempotence", "false"),
            ("delivery.report.only.error", "true"),
        ] {
            let error = settings(&[(name, value)]).check().unwrap_err().to_string();
            let (begin, allowed) = (format!("{name} = {value}: allowed is "), ": else");
            assert!(error.starts_with(&begin) && error.contains(allowed), "{error}");
        }
        for (name, value) in [
            ("acks", "all"),
            ("acks", "-1"),
            ("request.required.acks", "all"),
            ("enable.idempotence", "True"),
            ("delivery.report.only.error", "false"),
        ] {
            assert_eq!(settings(&[(name, value)]).check(), Ok(()), "{name} = {value}");
        }
    }
}
