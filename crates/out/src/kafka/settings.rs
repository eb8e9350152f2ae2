//! librdkafka's own settings: ours first, the user's over them, refused where librdkafka refuses them.
//!
//! Refuses what would break the spool's promise (a transaction of one's own) or is set elsewhere (brokers). Values of
//! settings that are secret never appear in a message. Source: librdkafka's CONFIGURATION.md, and
//! `docs/formats/flatbuffers.md` section 7.

use std::collections::BTreeMap;
use std::fmt;

use crate::sink::secret;
use rdkafka::config::ClientConfig;
use rdkafka::error::KafkaError;

/// Settings by name, as given by the user.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Settings(BTreeMap<String, String>);

/// Names are shown, secrets are not.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(k, v)| (k, shown(k, v)))).finish()
    }
}

/// A setting that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} = {value}: {why}")]
pub struct SettingError {
    /// Its name.
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
    // What the library holds. The format's 1 GB is there to outlast a broker; here that is the spool's part.
    ("queue.buffering.max.kbytes", "131072"),
    // Never give up: a message that timed out could be on the topic or not. Others have 10 minutes.
    ("message.timeout.ms", "0"),
    // A broker that comes back is found within 2 s, not 10.
    ("reconnect.backoff.max.ms", "2000"),
    ("statistics.interval.ms", "0"),
];

/// What a consumer is made with unless the user says otherwise.
const CONSUMER: [(&str, &str); 4] = [
    ("fetch.message.max.bytes", "10000000"),
    ("reconnect.backoff.max.ms", "2000"),
    ("auto.offset.reset", "earliest"),
    // A partition that grows later is found within 30 s.
    ("topic.metadata.refresh.interval.ms", "30000"),
];

/// Settings that belong to somebody else.
const RESERVED: [(&str, &str); 7] = [
    ("bootstrap.servers", "set output.kafka.brokers, or the brokers of the address"),
    ("metadata.broker.list", "set output.kafka.brokers, or the brokers of the address"),
    ("transactional.id", "messages are sent once by the spool, without transactions"),
    ("enable.auto.commit", "offsets are committed when what was read is safe"),
    ("enable.auto.offset.store", "offsets are committed when what was read is safe"),
    ("group.id", "set the group of the address"),
    ("dr_msg_cb", "not a setting of a file"),
];

impl Settings {
    /// Settings in any order.
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Settings {
        Settings(pairs.into_iter().collect())
    }

    /// The same with one more; it takes the place of one that is there.
    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> Settings {
        let mut all = self.0.clone();
        all.insert(name.to_owned(), value.to_owned());
        Settings(all)
    }

    /// Sets one if the user has not.
    pub(super) fn prefer(&self, name: &str, value: &str) -> Settings {
        let mut all = self.0.clone();
        all.entry(name.to_owned()).or_insert_with(|| value.to_owned());
        Settings(all)
    }

    /// True if the user set it.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Checks names and values against librdkafka, without a connection.
    ///
    /// # Errors
    /// The first that cannot be.
    pub fn check(&self) -> Result<(), SettingError> {
        for (name, why) in RESERVED {
            if let Some(value) = self.0.get(name) {
                return Err(self.refuse(name, value, why.to_owned()));
            }
        }
        // librdkafka takes a producer's settings for a consumer and the other way round, with a warning.
        match self.producer("localhost:9092").create_native_config() {
            Ok(_) => Ok(()),
            Err(KafkaError::ClientConfig(_, why, name, value)) => {
                Err(self.refuse(&name, &value, why))
            }
            Err(other) => Err(self.refuse("", "", other.to_string())),
        }
    }

    fn refuse(&self, name: &str, value: &str, why: String) -> SettingError {
        let why = match name {
            "security.protocol" | "sasl.mechanisms" | "sasl.mechanism"
                if !cfg!(feature = "kafka-tls") =>
            {
                format!("{why} (TLS and SCRAM need a build with the feature `kafka-tls`)")
            }
            _ => why,
        };
        SettingError { name: name.to_owned(), value: shown(name, value).to_owned(), why }
    }

    /// For a producer.
    pub(super) fn producer(&self, brokers: &str) -> ClientConfig {
        self.over(&PRODUCER, brokers)
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

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        Settings::new(pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())))
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
        let error = refused("my.password", "hush").to_string();
        assert!(!error.contains("hush") && error.contains("(hidden)"), "{error}");
        let shown = format!("{:?}", settings(&[("sasl.password", "hush"), ("linger.ms", "5")]));
        assert_eq!(shown, r#"{"linger.ms": "5", "sasl.password": "(hidden)"}"#);
    }
}
