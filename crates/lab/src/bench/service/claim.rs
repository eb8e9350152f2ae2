//! What a trial has to reach beside losing nothing: the commands answered, the rate received, the snapshots taken for Graphite.
//!
//! Without these a run that stands still would hold: it loses nothing, and gives no wrong reply. Refuses what is no rate.

use std::fmt;
use std::str::FromStr;

use fullcount_core::quantity::{self, QuantityError, Rate};
use serde_json::Value;

use super::OperatedTrial;

/// Of what well-behaved clients were to ask, at least this share has to be answered.
const ANSWERED: f64 = 0.95;
/// Of what was to be sent, at least this share has to be received.
const RECEIVED: f64 = 0.99;
/// Of the snapshots that the period makes, at least this share has to be taken. A server that is gone takes none of them.
const SNAPSHOTS: f64 = 0.95;

/// A rate as `send --rate` takes it, of one second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OperatedRate {
    /// Payload bits.
    Bits(f64),
    /// Packets.
    Packets(f64),
    /// Events.
    Events(f64),
}

impl FromStr for OperatedRate {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<OperatedRate, QuantityError> {
        if quantity::counts_events(text) {
            return quantity::events_per_second(text).map(OperatedRate::Events);
        }
        text.parse().map(|rate| match rate {
            Rate::Bits(bits) => OperatedRate::Bits(bits),
            Rate::Packets(packets) => OperatedRate::Packets(packets),
        })
    }
}

impl OperatedRate {
    /// The share of it that a run of these seconds received, by its summary.
    fn received(self, run: &Value, seconds: f64) -> f64 {
        let number = |path: &str| run.pointer(path).and_then(Value::as_f64).unwrap_or(0.0);
        let (got, asked) = match self {
            OperatedRate::Bits(bits) => (8.0 * number("/bytes/received"), bits),
            OperatedRate::Packets(packets) => (number("/packets/received"), packets),
            OperatedRate::Events(events) => (number("/events"), events),
        };
        got / (asked * seconds)
    }
}

/// One share, and the least that it may be.
pub(super) struct Share {
    what: &'static str,
    /// As it stands in the record.
    pub key: &'static str,
    pub reached: f64,
    least: f64,
}

impl Share {
    /// True if it is as large as it has to be; what is no number is not.
    pub fn held(&self) -> bool {
        self.reached >= self.least
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Share { what, reached, least, .. } = self;
        write!(f, "{what}: {:.2} %, not {:.0} %", 100.0 * reached, 100.0 * least)
    }
}

/// What of the trial was reached, by the run's summary and the number of replies.
pub(super) fn shares(trial: &OperatedTrial, run: &Value, answered: u64) -> [Share; 3] {
    let seconds = trial.duration.as_secs_f64();
    let asked = trial.clients as f64 * f64::from(trial.commands) * seconds;
    let taken = run["counters"]["graphite.snapshots"].as_f64().unwrap_or(0.0);
    // With a period longer than the trial one is taken.
    let due = (seconds / trial.period.as_secs_f64()).floor().max(1.0);
    let share = |what, key, reached, least| Share { what, key, reached, least };
    let received = trial.rate.received(run, seconds);
    [
        share("commands answered", "answered_share", answered as f64 / asked, ANSWERED),
        share("rate received", "received_share", received, RECEIVED),
        share("snapshots for Graphite", "graphite_snapshots_share", taken / due, SNAPSHOTS),
    ]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn missed(rate: &str, run: &Value, answered: u64) -> Vec<String> {
        let trial = OperatedTrial {
            rate: rate.parse().unwrap(),
            rate_text: rate.into(),
            duration: Duration::from_secs(10),
            clients: 2,
            commands: 50,
            endless: 0,
            counters: 0,
            period: Duration::from_millis(100),
        };
        let shares = shares(&trial, run, answered);
        shares.iter().filter(|share| !share.held()).map(Share::to_string).collect()
    }

    #[test]
    fn each_share_that_is_too_small_is_named() {
        let run = |bytes: u64, snapshots: u64| {
            json!({"bytes": {"received": bytes}, "packets": {"received": 9_901}, "events": 980,
                   "counters": {"graphite.snapshots": snapshots}})
        };
        // 1 Mbit/s for 10 s are 1,250,000 bytes; 1,000 commands; 100 snapshots.
        assert_eq!(missed("1Mbps", &run(1_237_500, 95), 950), [""; 0]);
        assert_eq!(missed("1Mbps", &run(1_237_499, 95), 950), ["rate received: 99.00 %, not 99 %"]);
        assert_eq!(
            missed("1kpps", &run(0, 94), 949),
            ["commands answered: 94.90 %, not 95 %", "snapshots for Graphite: 94.00 %, not 95 %"]
        );
        assert_eq!(missed("100ev/s", &run(0, 100), 1000), ["rate received: 98.00 %, not 99 %"]);
        let nothing = missed("1Mbps", &json!({}), 0);
        assert_eq!(nothing.len(), 3, "{nothing:?}");
        assert!("10".parse::<OperatedRate>().is_err());
    }
}
