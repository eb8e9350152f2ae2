//! Reports when brokers become reachable or unreachable, and counts what librdkafka reports. [`Repeats`] limits
//! repeated messages: each once a minute, even if several alternate.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use fullcount_core::trace;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use super::repeats::Repeats;

/// Takes a sentence for people, now and then; called from any thread.
pub type News = fn(&str);

/// The way to the brokers.
#[derive(Debug)]
pub(super) struct Link {
    brokers: String,
    news: News,
    pub errors: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    down_since: Option<Instant>,
    repeats: Repeats,
    last: String,
    /// Brokers that are there but take no connection of ours: why, said once until one has confirmed something.
    refused: Option<RDKafkaErrorCode>,
}

/// What to look at where a broker takes no connection; `None` for other errors.
fn advice(code: RDKafkaErrorCode) -> Option<(&'static str, &'static str)> {
    use RDKafkaErrorCode::{Authentication, SSL, SaslAuthenticationFailed};
    match code {
        Authentication | SaslAuthenticationFailed => {
            Some(("does not let us in", "check sasl.mechanisms, sasl.username and sasl.password"))
        }
        SSL => Some((
            "gives no secure connection",
            "check ssl.ca.location, and whether its certificate names this address",
        )),
        _ => None,
    }
}

impl Link {
    pub fn new(brokers: &str, news: News) -> Link {
        Link {
            brokers: brokers.to_owned(),
            news,
            errors: AtomicU64::new(0),
            state: Mutex::default(),
        }
    }

    /// An error of librdkafka, which keeps trying.
    pub fn error(&self, error: &KafkaError, reason: &str) {
        self.errors.fetch_add(1, Relaxed);
        let mut state = self.state.lock().expect("no holder panics");
        let code = error.rdkafka_error_code();
        if let Some((what, how)) = code.and_then(advice) {
            if state.refused != code {
                state.refused = code;
                drop(state);
                self.say(&format!("the broker {what}: {reason}; {how}; tried again until it does"));
            }
            return;
        }
        if code == Some(RDKafkaErrorCode::AllBrokersDown) {
            let why = std::mem::take(&mut state.last);
            let why = if why.is_empty() { reason.to_owned() } else { why };
            let new = state.down_since.is_none();
            state.down_since.get_or_insert_with(Instant::now);
            drop(state);
            if new {
                self.say(&format!(
                    "no broker of {} can be reached ({why}); tried again until one can",
                    self.brokers
                ));
            }
        } else {
            reason.clone_into(&mut state.last);
        }
    }

    /// librdkafka's log: only errors from which it does not recover.
    pub fn log(&self, level: RDKafkaLogLevel, message: &str) {
        use RDKafkaLogLevel::{Alert, Critical, Emerg};
        if matches!(level, Emerg | Alert | Critical) {
            self.say(message);
        }
    }

    /// Something was confirmed: there is a way.
    pub fn up(&self) {
        let mut state = self.state.lock().expect("no holder panics");
        state.refused = None;
        if let Some(since) = state.down_since.take() {
            // What comes from here on is new trouble.
            let held = state.repeats.forget();
            drop(state);
            if held > 0 {
                (self.news)(&format!("kafka: {held} messages like those above were not said"));
            }
            let seconds = since.elapsed().as_secs_f64();
            (self.news)(&format!(
                "kafka: a broker of {} is back after {seconds:.1} s",
                self.brokers
            ));
        }
    }

    /// Reports a problem to users; the same message only after a minute, with how often it was suppressed.
    pub fn say(&self, what: &str) {
        trace!(Kafka, Notice, "{what}");
        let said = {
            let mut state = self.state.lock().expect("no holder panics");
            state.repeats.say(what, Instant::now())
        };
        if let Some(text) = said {
            (self.news)(&format!("kafka: {text}"));
        }
    }

    /// What people asked for: said whenever it is true.
    pub fn tell(&self, what: &str) {
        (self.news)(&format!("kafka: {what}"));
    }

    /// True while no broker can be reached, or none lets us in.
    pub fn is_down(&self) -> bool {
        let state = self.state.lock().expect("no holder panics");
        state.down_since.is_some() || state.refused.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

    #[test]
    fn down_and_up_are_said_once_each() {
        let link = Link::new("h:1", |text| SAID.lock().unwrap().push(text.to_owned()));
        link.up();
        for _ in 0..3 {
            link.error(&KafkaError::Global(RDKafkaErrorCode::BrokerTransportFailure), "refused");
            link.error(
                &KafkaError::Global(RDKafkaErrorCode::AllBrokersDown),
                "1/1 brokers are down",
            );
        }
        link.say("trouble");
        link.say("trouble");
        link.up();
        link.up();
        let said = SAID.lock().unwrap();
        assert_eq!(said.len(), 4, "{said:?}");
        assert!(said[0].contains("no broker of h:1 can be reached (refused)"), "{said:?}");
        assert_eq!(said[1], "kafka: trouble");
        assert_eq!(said[2], "kafka: 1 messages like those above were not said");
        assert!(said[3].contains("is back after"), "{said:?}");
        assert_eq!(link.errors.load(Relaxed), 6);
    }

    static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

    #[test]
    fn a_broker_that_lets_nobody_in_is_said_once_until_it_does() {
        let link = Link::new("h:1", |text| TOLD.lock().unwrap().push(text.to_owned()));
        for after in 0..3 {
            let reason = format!("wrong password (after {after} ms)");
            link.error(&KafkaError::Global(RDKafkaErrorCode::Authentication), &reason);
        }
        link.error(&KafkaError::Global(RDKafkaErrorCode::SSL), "unknown CA");
        link.up();
        link.error(&KafkaError::Global(RDKafkaErrorCode::SSL), "unknown CA again");
        let told = TOLD.lock().unwrap();
        assert_eq!(told.len(), 3, "{told:?}");
        for (said, words) in told.iter().zip(["sasl.password", "ssl.ca.location", "CA again"]) {
            assert!(said.contains(words) && said.ends_with("tried again until it does"), "{said}");
        }
    }
}
