//! `kafka://host:9092,host2/topic?key=value`: brokers, topic and the keys of whoever uses it.
//!
//! Refuses names that Kafka does not allow, so that a slip is seen at the start and not as a topic that never appears.

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
    /// Keys and values behind `?`, in order.
    pub query: Vec<(String, String)>,
}

/// What is wrong with an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Not of the form.
    #[error("{0}: expected kafka://HOST[:PORT][,HOST…]/TOPIC")]
    Form(String),
    /// A host or port that cannot be.
    #[error("{0}: not a broker; expected HOST or HOST:PORT with a port of 1 to 65535")]
    Broker(String),
    /// A name that Kafka refuses.
    #[error("{0:?}: not a topic; 1 to 249 of a-z A-Z 0-9 . _ - are allowed, and not `.` or `..`")]
    Topic(String),
}

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(url: &str) -> Result<Address, AddressError> {
        let form = || AddressError::Form(url.to_owned());
        let rest = url.strip_prefix("kafka://").ok_or_else(form)?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (brokers, topic) = place.split_once('/').ok_or_else(form)?;
        check_topic(topic)?;
        let brokers = check_brokers(brokers)?;
        let pair = |pair: &str| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (key.to_owned(), value.to_owned())
        };
        let query = query.split('&').filter(|p| !p.is_empty()).map(pair).collect();
        Ok(Address { brokers, topic: topic.to_owned(), query })
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
        match port.parse::<u16>() {
            Ok(1..) => Ok(format!("{host}:{port}")),
            _ => Err(wrong()),
        }
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
    fn brokers_topic_and_keys_are_told_apart() {
        let a =
            Address::parse("kafka://10.0.0.1,b-2.example:9093,[::1]/dream_detector?group=x&from=0")
                .unwrap();
        assert_eq!(a.brokers, "10.0.0.1:9092,b-2.example:9093,[::1]:9092");
        assert_eq!(a.topic, "dream_detector");
        let query = [("group", "x"), ("from", "0")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(a.query, query);
        assert_eq!(Address::parse("kafka://h/t").unwrap().query, []);
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let refused = |url: &str| Address::parse(url).unwrap_err();
        assert_eq!(refused("udp://h/t"), AddressError::Form("udp://h/t".into()));
        assert_eq!(refused("kafka://h"), AddressError::Form("kafka://h".into()));
        for broker in ["h:0", "h:65536", "h:", ":1", "a b", "[::1", "[::1]9", "[x]:1"] {
            let url = format!("kafka://good:1,{broker}/t");
            assert_eq!(refused(&url), AddressError::Broker(broker.into()));
        }
        assert_eq!(refused("kafka:///t"), AddressError::Broker(String::new()));
        for topic in ["", ".", "..", "a b", "a/b", "ä"] {
            let url = format!("kafka://h/{topic}");
            assert_eq!(refused(&url), AddressError::Topic(topic.into()));
        }
        assert!(Address::parse(&format!("kafka://h/{}", "x".repeat(249))).is_ok());
        assert!(Address::parse(&format!("kafka://h/{}", "x".repeat(250))).is_err());
    }
}
