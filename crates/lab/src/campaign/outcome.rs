//! What one trial gave: counts, speeds, CPU, from the two summaries.
//!
//! The amounts are those of the ends' summaries (`fullcount/summary/1`): sent by the sender, delivered and lost by
//! the receiver; what neither explains is shown as unaccounted. Refuses: a summary without the counts.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::sample::Interval;
use crate::agent::{ChildReport, PostError};
use crate::cores::Near;
use crate::profile::Symbol;

/// One end's cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EndCost {
    /// Cores in use by the program itself.
    pub user: Option<f64>,
    /// Cores in use by the kernel on its behalf.
    pub system: Option<f64>,
    /// System calls that send or receive, per packet.
    pub calls_per_packet: Option<f64>,
    /// CPU intervals, in the CPU pass.
    pub intervals: Vec<Interval>,
    /// How its socket was opened.
    pub facts: Vec<String>,
}

impl EndCost {
    /// User and system time together, cores.
    pub fn cores(&self) -> Option<f64> {
        Some(self.user? + self.system?)
    }
}

/// One trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TrialOutcome {
    /// Packets that the sender sent.
    pub sent: u64,
    /// First copies that the receiver accepted.
    pub delivered: u64,
    /// Packets lost, all places.
    pub lost: u64,
    /// The places where some were lost, with the number.
    pub lost_at: Vec<(String, u64)>,
    /// Packets that arrived and were refused, or still waited.
    pub set_aside: u64,
    /// Duplicates.
    pub duplicate: u64,
    /// Reordered packets.
    pub reordered: u64,
    /// Sending time, s.
    pub seconds: f64,
    /// Payload sent, Gb/s.
    pub sent_gbps: f64,
    /// Payload received, Gb/s: the user data speed.
    pub received_gbps: f64,
    /// Packets received, millions per second.
    pub mpps: f64,
    /// The receiver's cost.
    pub receiver: EndCost,
    /// The sender's cost.
    pub sender: EndCost,
    /// Cores that were chosen for being near each other, and how near they were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub near: Option<Near>,
    /// What the receiver's core spent its time on, in the CPU pass, if that was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub profile: Vec<Symbol>,
    /// The same of the sender's core, if it is another.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sender_profile: Vec<Symbol>,
    /// False if the receiver had to be told to stop: no end mark reached it.
    pub ended_by_mark: bool,
}

impl TrialOutcome {
    /// Reads the two reports.
    ///
    /// # Errors
    /// A summary without the keys that this needs.
    pub fn read(
        receive: ChildReport,
        send: ChildReport,
        ended_by_mark: bool,
    ) -> Result<TrialOutcome, PostError> {
        let (rx, tx) = (&receive.summary, &send.summary);
        let need = |verb: &'static str, summary: &Value, path: &str| {
            let missing = || PostError::Summary { verb, reason: format!("{path} is missing") };
            summary.pointer(path).and_then(Value::as_u64).ok_or_else(missing)
        };
        let number = |summary: &Value, path: &str| {
            summary.pointer(path).and_then(Value::as_f64).unwrap_or(0.0)
        };
        let count = |path: &str| rx.pointer(path).and_then(Value::as_u64).unwrap_or(0);
        let counts = |path: &str| -> Vec<(String, u64)> {
            let object = rx.pointer(path).and_then(Value::as_object);
            let number = |(k, v): (&String, &Value)| Some((k.clone(), v.as_u64()?));
            object.map(|o| o.iter().filter_map(number).collect()).unwrap_or_default()
        };
        let mut lost_at = counts("/packets/lost");
        lost_at.retain(|(_, n)| *n > 0);
        let rejected: u64 = counts("/packets/rejected").iter().map(|(_, n)| n).sum();
        let cost = |report: &ChildReport, calls: &[&str], packets: &str| {
            let s = &report.summary;
            let part = |key: &str| s.pointer(key).and_then(Value::as_f64);
            let seconds = part("/seconds").filter(|&s| s > 0.0);
            let cores = |key| Some(part(key)? / seconds?);
            let calls = calls.iter().find_map(|c| s.pointer("/counters")?.get(*c)?.as_f64());
            let packets = part(packets).filter(|&n| n > 0.0);
            EndCost {
                user: cores("/cpu/user"),
                system: cores("/cpu/system"),
                calls_per_packet: calls.zip(packets).map(|(c, n)| c / n),
                intervals: report.intervals.clone(),
                facts: report.facts.clone(),
            }
        };
        let receiver_calls = ["receive.system_calls", "receive.calls"];
        Ok(TrialOutcome {
            sent: need("send", tx, "/packets/sent")?,
            delivered: need("receive", rx, "/packets/accepted")?,
            lost: lost_at.iter().map(|(_, n)| n).sum(),
            lost_at,
            set_aside: rejected + count("/packets/queued"),
            duplicate: count("/packets/duplicate"),
            reordered: count("/packets/reordered"),
            seconds: number(tx, "/seconds"),
            sent_gbps: number(tx, "/rates/gbps"),
            received_gbps: number(rx, "/rates/gbps"),
            mpps: number(rx, "/rates/mpps"),
            receiver: cost(&receive, &receiver_calls, "/packets/received"),
            sender: cost(&send, &["send.calls"], "/packets/sent"),
            near: None,
            profile: Vec::new(),
            sender_profile: Vec::new(),
            ended_by_mark,
        })
    }

    /// Packets that neither arrived nor stand in the ledger as lost; 0 when everything adds up.
    pub fn unaccounted(&self) -> u64 {
        self.sent.abs_diff(self.delivered + self.lost + self.set_aside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn reports() -> (ChildReport, ChildReport) {
        let receive = json!({
            "schema": "fullcount/summary/1", "verb": "receive", "seconds": 10.0,
            "packets": {"received": 95, "accepted": 90, "rejected": {"magic": 2}, "queued": 1,
                        "lost": {"link": 0, "socket": 6, "unknown": 1}, "duplicate": 2, "reordered": 3},
            "rates": {"gbps": 9.5, "mpps": 1.25}, "cpu": {"user": 2.5, "system": 5.0, "softirq": 0.1},
            "counters": {"receive.calls": 10, "receive.system_calls": 19},
        });
        let send = json!({
            "seconds": 8.0, "packets": {"sent": 100}, "rates": {"gbps": 10.0, "mpps": 1.5},
            "cpu": {"user": 4.0, "system": 4.0}, "counters": {"send.calls": 50},
        });
        let report = |summary| ChildReport { summary, ..ChildReport::default() };
        (report(receive), report(send))
    }

    #[test]
    fn an_outcome_adds_up_the_two_summaries() {
        let (receive, send) = reports();
        let o = TrialOutcome::read(receive.clone(), send.clone(), true).unwrap();
        assert_eq!((o.sent, o.delivered, o.lost, o.set_aside, o.unaccounted()), (100, 90, 7, 3, 0));
        assert_eq!(o.lost_at, [("socket".to_owned(), 6), ("unknown".to_owned(), 1)]);
        assert_eq!((o.duplicate, o.reordered), (2, 3));
        assert_eq!((o.sent_gbps, o.received_gbps, o.mpps), (10.0, 9.5, 1.25));
        assert_eq!((o.receiver.cores(), o.sender.cores()), (Some(0.75), Some(1.0)));
        assert_eq!(o.receiver.calls_per_packet, Some(0.2));
        assert_eq!(o.sender.calls_per_packet, Some(0.5));
        let more =
            ChildReport { summary: json!({"packets": {"sent": 104}}), ..ChildReport::default() };
        let o = TrialOutcome::read(receive, more, true).unwrap();
        assert_eq!((o.unaccounted(), o.sender.cores()), (4, None));
    }

    #[test]
    fn summaries_without_the_counts_are_refused() {
        let (receive, send) = reports();
        let empty = || ChildReport { summary: json!({}), ..ChildReport::default() };
        let e = TrialOutcome::read(empty(), send, true).unwrap_err();
        assert!(e.to_string().contains("receive: no summary: /packets/accepted is missing"), "{e}");
        let e = TrialOutcome::read(receive, empty(), true).unwrap_err();
        assert!(e.to_string().contains("send: no summary: /packets/sent is missing"), "{e}");
    }

    #[test]
    fn outcomes_survive_the_state_file() {
        let (receive, send) = reports();
        let o = TrialOutcome::read(receive, send, false).unwrap();
        let text = serde_json::to_string(&o).unwrap();
        assert_eq!(serde_json::from_str::<TrialOutcome>(&text).unwrap(), o);
    }
}
