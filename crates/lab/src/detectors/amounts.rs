//! What a detector has done, read from its counters: in this process from a ledger, of a child from
//! `/metrics`. Both name unit, hop and role of a counter, so no detector needs code here.
//!
//! Readouts and hits are the largest count that enters a hop in that unit: a hop behind it sees what is left.
//! What is not counted is `None`.

use fullcount_core::ledger::{Entries, Role};

/// Triggers of detectors that count them.
const TRIGGERS: &str = "triggers.count";
/// Events that leave a pipeline whose only wanted output is `null`.
const EVENTS: &str = "queue.null.offered";

/// Amounts at one moment, or between two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amounts {
    /// Packets given to the decoder.
    pub packets: u64,
    /// Payload bytes of them.
    pub bytes: u64,
    /// Readouts, where the format has them.
    pub readouts: Option<u64>,
    /// Hits, where the detector makes them.
    pub hits: Option<u64>,
    /// Triggers, where the format has them.
    pub triggers: Option<u64>,
    /// Events.
    pub events: u64,
}

/// One counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Line<'a> {
    name: &'a str,
    unit: &'a str,
    enters: bool,
    value: u64,
}

impl Amounts {
    /// From the sheets of a reader and a builder. Bytes and events are not counted there: both are 0.
    pub fn of(entries: &Entries) -> Amounts {
        let mut amounts = Amounts::default();
        for entry in entries.iter() {
            amounts.add(Line {
                name: &entry.info.name,
                unit: entry.info.unit.name(),
                enters: entry.info.role == Role::In,
                value: entry.value,
            });
        }
        amounts
    }

    /// From the text of `/metrics`.
    pub fn read(metrics: &str) -> Amounts {
        let mut amounts = Amounts::default();
        metrics.lines().filter_map(line).for_each(|l| amounts.add(l));
        amounts
    }

    fn add(&mut self, line: Line<'_>) {
        let Line { name, unit, enters, value } = line;
        match name {
            "decode.packets" => self.packets = value,
            "receive.bytes" => self.bytes = value,
            EVENTS => self.events = value,
            TRIGGERS => self.triggers = Some(value),
            _ => {}
        }
        let largest = match (unit, enters) {
            ("readouts", true) => &mut self.readouts,
            ("hits", true) => &mut self.hits,
            _ => return,
        };
        *largest = Some(largest.unwrap_or(0).max(value));
    }

    /// What came since `before`.
    pub fn since(&self, before: &Amounts) -> Amounts {
        let part =
            |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then.unwrap_or(0)));
        Amounts {
            packets: self.packets.saturating_sub(before.packets),
            bytes: self.bytes.saturating_sub(before.bytes),
            readouts: part(self.readouts, before.readouts),
            hits: part(self.hits, before.hits),
            triggers: part(self.triggers, before.triggers),
            events: self.events.saturating_sub(before.events),
        }
    }

    /// Adds more of the same.
    pub fn more(&mut self, o: &Amounts) {
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0) + b.unwrap_or(0)),
        };
        self.packets += o.packets;
        self.bytes += o.bytes;
        self.readouts = sum(self.readouts, o.readouts);
        self.hits = sum(self.hits, o.hits);
        self.triggers = sum(self.triggers, o.triggers);
        self.events += o.events;
    }

    /// Per second.
    pub fn over(&self, seconds: f64) -> AmountRates {
        let per = |n: u64| n as f64 / seconds.max(1e-9);
        AmountRates {
            packets: per(self.packets),
            bytes: per(self.bytes),
            readouts: self.readouts.map(per),
            hits: self.hits.map(per),
            triggers: self.triggers.map(per),
            events: per(self.events),
        }
    }
}

/// Amounts per second.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct AmountRates {
    /// Packets/s.
    pub packets: f64,
    /// Payload bytes/s.
    pub bytes: f64,
    /// Readouts/s.
    pub readouts: Option<f64>,
    /// Hits/s.
    pub hits: Option<f64>,
    /// Triggers/s.
    pub triggers: Option<f64>,
    /// Events/s.
    pub events: f64,
}

/// `metric{name="…",hop="…",unit="…",role="…"} value`; `None` for anything else.
fn line(text: &str) -> Option<Line<'_>> {
    let (labels, value) = text.split_once('{')?.1.rsplit_once("} ")?;
    let label = |key: &str| {
        let mut parts = labels.split("\",").filter_map(|part| part.split_once("=\""));
        parts.find(|(k, _)| *k == key).map(|(_, v)| v.trim_end_matches('"'))
    };
    let value = value.trim().parse().ok()?;
    Some(Line { name: label("name")?, unit: label("unit")?, enters: label("role")? == "in", value })
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = "\
# HELP fullcount_decode_packets_total datagrams given to the decoder
# TYPE fullcount_decode_packets_total counter
fullcount_receive_bytes_total{name=\"receive.bytes\",hop=\"receive\",unit=\"bytes\",role=\"note\"} 5044
fullcount_decode_packets_total{name=\"decode.packets\",hop=\"decode\",unit=\"packets\",role=\"in\"} 4
fullcount_triggers_count_total{name=\"triggers.count\",hop=\"triggers\",unit=\"messages\",role=\"in\"} 140
fullcount_a_total{name=\"a\",hop=\"x\",unit=\"readouts\",role=\"in\"} 1000
fullcount_b_total{name=\"b\",hop=\"y\",unit=\"readouts\",role=\"in\"} 900
fullcount_c_total{name=\"c\",hop=\"y\",unit=\"readouts\",role=\"accepted\"} 9000
fullcount_hits{name=\"hits\",hop=\"z\",unit=\"hits\",role=\"in\"} 800
fullcount_queue_null_offered_total{name=\"queue.null.offered\",hop=\"queue.null\",unit=\"events\",role=\"in\"} 70
fullcount_queue_live_offered_total{name=\"queue.live.offered\",hop=\"queue.live\",unit=\"events\",role=\"in\"} 71
fullcount_up 1
broken{ 3
";

    #[test]
    fn amounts_come_out_of_the_metrics_by_unit_and_role() {
        let a = Amounts::read(METRICS);
        let expected = Amounts {
            packets: 4,
            bytes: 5044,
            readouts: Some(1000),
            hits: Some(800),
            triggers: Some(140),
            events: 70,
        };
        assert_eq!(a, expected);
        assert_eq!(Amounts::read("nothing of this kind\n"), Amounts::default());
        let half = Amounts { packets: 1, triggers: None, ..Amounts::default() };
        let since = a.since(&half);
        assert_eq!((since.packets, since.triggers, since.events), (3, Some(140), 70));
        let rates = a.over(2.0);
        assert_eq!((rates.packets, rates.readouts, rates.events), (2.0, Some(500.0), 35.0));
        let mut twice = a;
        twice.more(&a);
        assert_eq!((twice.hits, twice.bytes), (Some(1600), 10_088));
    }
}
