//! `kafka://host:9092,host2/topic`: brokers and topic.
//!
//! Refuses names that Kafka does not allow, so that a typing error shows at the start and not as a topic that never
//! appears. Refuses every key: keys belong to sources only.

use fullcount_core::url::{self, Scheme, SchemeKey, UrlError};

/// Kafka's own port.
const PORT: &str = "9092";
/// Most characters of a topic's name.
const LONGEST: usize = 249;

/// Where a topic is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// `host:port`, several with commas between them.
    pub brokers: String,
    /// Name of the topic.
    pub topic: String,
}

/// What is wrong with an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// A host or port that cannot be.
    #[error("{0}: not a broker; expected HOST or HOST:PORT with a port of 1 to 65535")]
    Broker(String),
    /// A name that Kafka refuses.
    #[error("{0:?}: not a topic; 1 to 249 of a-z A-Z 0-9 . _ - are allowed, and not `.` or `..`")]
    Topic(String),
}

impl Address {
    /// Reads an address without keys.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(url: &str) -> Result<Address, UrlError> {
        url::read(url)
    }
}

impl Scheme for Address {
    const NAME: &'static str = "kafka";
    const FORM: &'static str =
        "kafka://HOST[:PORT][,HOST…]/TOPIC, for example kafka://broker:9092/events";
    const KEYS: &'static [SchemeKey<Address>] = &[];

    fn at(place: &str) -> Result<Address, String> {
        let place = place.strip_prefix("//").ok_or("'//' is missing after 'kafka:'")?;
        let (brokers, topic) = place.split_once('/').ok_or("the topic is missing")?;
        check_topic(topic).map_err(|e| e.to_string())?;
        let brokers = check_brokers(brokers).map_err(|e| e.to_string())?;
        Ok(Address { brokers, topic: topic.to_owned() })
    }
}

/// Brokers with their ports.
///
/// # Errors
/// The one that cannot be.
pub fn check_brokers(brokers: &str) -> Result<String, AddressError> {
    let one = |broker: &str| {
        let wrong = || AddressError::Broker(broker.to_owned());
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        // [::1]:9092, or a name or IPv4 address.
        let (host, port) = match broker.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or_else(wrong)?;
                host.parse::<std::net::Ipv6Addr>().map_err(|_| wrong())?;
                let port = if port.is_empty() {
                    PORT
                } else {
                    port.strip_prefix(':').ok_or_else(wrong)?
                };
                (format!("[{host}]"), port)
            }
            None => {
                let (host, port) = broker.split_once(':').unwrap_or((broker, PORT));
                if host.is_empty() || !host.chars().all(plain) {
                    return Err(wrong());
                }
                (host.to_owned(), port)
            }
        };
        let port = url::port(port, 1..=u16::MAX).map_err(|_| wrong())?;
        Ok(format!("{host}:{port}"))
    };
    Ok(brokers.split(',').map(|b| one(b.trim())).collect::<Result<Vec<_>, _>>()?.join(","))
}

/// Whether Kafka allows a topic of this name.
///
/// # Errors
/// The name.
pub(super) fn check_topic(topic: &str) -> Result<(), AddressError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let length = (1..=LONGEST).contains(&topic.len());
    if !length || !topic.chars().all(plain) || matches!(topic, "." | "..") {
        return Err(AddressError::Topic(topic.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brokers_and_topic_are_told_apart() {
        let a = Address::parse("kafka://10.0.0.1,b-2.example:9093,[::1]/dream_detector").unwrap();
        assert_eq!(a.brokers, "10.0.0.1:9092,b-2.example:9093,[::1]:9092");
        assert_eq!(a.topic, "dream_detector");
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let refused = |url: &str| Address::parse(url).unwrap_err().to_string();
        for (url, why) in [
            ("udp://h/t", "it does not begin with kafka:"),
            ("kafka:h/t", "'//' is missing"),
            ("kafka://h", "the topic is missing; write kafka://HOST"),
            ("kafka:///t", "not a broker"),
            ("kafka://h/t?group=x", "unknown key 'group' for kafka; known are none"),
        ] {
            assert!(refused(url).contains(why), "{}", refused(url));
        }
        for broker in ["h:0", "h:65536", "h:", ":1", "h:+1", "a b", "[::1", "[::1]9", "[x]:1"] {
            assert_eq!(check_brokers(broker), Err(AddressError::Broker(broker.into())));
            let e = refused(&format!("kafka://good:1,{broker}/t"));
            assert!(e.contains(&format!("{broker}: not a broker")), "{e}");
        }
        for topic in ["", ".", "..", "a b", "a/b", "ä"] {
            assert_eq!(check_topic(topic), Err(AddressError::Topic(topic.into())));
            let e = refused(&format!("kafka://h/{topic}"));
            assert!(e.contains(&format!("{topic:?}: not a topic")), "{e}");
        }
        assert!(Address::parse(&format!("kafka://h/{}", "x".repeat(249))).is_ok());
        assert!(Address::parse(&format!("kafka://h/{}", "x".repeat(250))).is_err());
    }
}
