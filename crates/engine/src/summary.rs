//! The one JSON object that ends every verb, and the ledger as people read it.
//!
//! Keys are stable (`fullcount/summary/1`); absent means "does not apply".
//! Source: `docs/summary.md`.

mod clock;
mod json;
mod numbered;
mod text;

use std::path::PathBuf;
use std::time::Duration;

use fullcount_core::ledger::{Entries, Entry, Role, Unit};
use fullcount_core::output::PacketReport;
use fullcount_core::status::ModuleFacts;
use fullcount_core::wall::WallStatus;

use crate::account::Account;
use crate::fanout::LaneEnd;
use crate::refused::MostlyRefused;
use crate::status::PartLine;

/// CPU seconds spent by the whole process.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cpu {
    /// In the program.
    pub user: f64,
    /// In the kernel for the program.
    pub system: f64,
    /// In soft interrupts of the whole machine, where the host tells.
    pub softirq: Option<f64>,
}

/// Everything known at the end of a run.
#[derive(Debug)]
pub struct Summary {
    /// Verb.
    pub verb: &'static str,
    /// First to last data.
    pub active: Duration,
    /// All counters.
    pub entries: Entries,
    /// Packets by what became of them.
    pub account: Account,
    /// CPU time of the process, but for the simulator's.
    pub cpu: Cpu,
    /// CPU time of a simulated detector in this process, see [`Summary::set_apart`].
    pub simulator: Option<Cpu>,
    /// True if all packets came from a recording: no counter of this host knows of their losses.
    pub recorded: bool,
    /// Sinks: name, place, events, bytes or the failure.
    pub outputs: Vec<Output>,
    /// Outputs of packets by name: what was taken, or why not.
    pub packets: Vec<(&'static str, Result<PacketReport, String>)>,
    /// Link time of what was received in bits: by packet size (`receive.wire_bytes`) where the source
    /// counts it, else from the mean payload.
    pub wire_bits: Option<u64>,
    /// Bytes that the sender sent.
    pub sent_bytes: Option<u64>,
    /// Workers or links, where there is more than one.
    pub parts: Vec<PartLine>,
    /// Modules, streams or front ends of the detector by name, and how many more there were.
    pub modules: (Vec<ModuleFacts>, u64),
    /// True if the source waits for us: then a failed output ends the run.
    pub lossless: bool,
    /// More packets were refused than allowed.
    pub refused: Option<MostlyRefused>,
    /// Outputs with a spool, and its folder.
    pub spools: Vec<(&'static str, PathBuf)>,
    /// The detector's clock and the host's, where times are the host's.
    pub clock: Option<WallStatus>,
}

/// What became of one sink.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// Name.
    pub name: &'static str,
    /// True if its loss is a loss of the run.
    pub required: bool,
    /// Path or address.
    pub place: String,
    /// Events written.
    pub events: u64,
    /// Bytes written, 0 if it does not apply.
    pub bytes: u64,
    /// Rows written, by table; empty for outputs of events.
    pub rows: Vec<(&'static str, u64)>,
    /// Why it failed.
    pub failure: Option<String>,
}

impl From<LaneEnd> for Output {
    fn from(end: LaneEnd) -> Output {
        let (report, failure) = match end.outcome {
            Ok(report) => (report, None),
            Err(e) => (Default::default(), Some(e.to_string())),
        };
        Output {
            name: end.name,
            required: end.required,
            place: report.place,
            events: report.events,
            bytes: report.bytes,
            rows: report.rows,
            failure,
        }
    }
}

impl Summary {
    /// Counts the CPU time of a simulated detector apart, which ran in this process: it is no cost of the service.
    pub fn set_apart(&mut self, simulator: Cpu) {
        self.cpu.user = (self.cpu.user - simulator.user).max(0.0);
        self.cpu.system = (self.cpu.system - simulator.system).max(0.0);
        self.simulator = Some(simulator);
    }

    /// Value of a counter, 0 if the run has none of this name.
    pub fn counter(&self, name: &str) -> u64 {
        self.entries.get(name).unwrap_or(0)
    }

    /// Unit of a counter, as a word.
    fn unit(&self, name: &str) -> &'static str {
        self.entries.iter().find(|e| e.info.name == name).map_or("events", |e| e.info.unit.name())
    }

    /// Events made.
    pub fn events(&self) -> u64 {
        self.counter("events.count")
    }

    /// Payload Gb/s, packets in millions/s and events/s over the active time.
    pub fn rates(&self) -> (f64, f64, f64) {
        let seconds = self.active.as_secs_f64();
        if seconds <= 0.0 {
            return (0.0, 0.0, 0.0);
        }
        let bits = self.counter("receive.bytes") as f64 * 8.0;
        let packets = self.account.received as f64;
        (bits / seconds / 1e9, packets / seconds / 1e6, self.events() as f64 / seconds)
    }

    /// Gb/s on the wire over the active time, if it is known.
    pub fn wire_gbps(&self) -> Option<f64> {
        let seconds = self.active.as_secs_f64();
        self.wire_bits.filter(|_| seconds > 0.0).map(|bits| bits as f64 / seconds / 1e9)
    }

    /// True if a packet, or an event of a required sink, was lost, or the balance is not 0.
    pub fn lost(&self) -> bool {
        // Missing packets are in the account; what else is missing (messages of a spool) has no other place.
        let lost = |e: &Entry| match e.info.role {
            Role::Dropped(_) => e.value > 0,
            Role::Missing(_) => e.value > 0 && e.info.unit != Unit::Packets,
            _ => false,
        };
        self.account.anything_lost() || self.account.balance > 0 || self.entries.iter().any(lost)
    }

    /// Exit code: 0 balanced, nothing lost and no more refused than allowed; 1 a required output failed on a source that waits; 3
    /// something was lost (a failed output of a source that does not wait loses only its own events).
    pub fn exit_code(&self) -> u8 {
        let failed = self.outputs.iter().any(|o| o.required && o.failure.is_some());
        match (failed, self.lossless) {
            (true, true) => 1,
            (true, false) => 3,
            (false, _) => {
                if self.lost() || self.refused.is_some() {
                    3
                } else {
                    0
                }
            }
        }
    }

    fn takes_packets(&self, output: &str) -> bool {
        self.packets.iter().any(|(name, _)| *name == output)
    }

    /// Messages that an output's spool holds, the events or packets in them, and the bytes of its files.
    fn spooled(&self, output: &str) -> [u64; 3] {
        let waiting = if self.takes_packets(output) { "queued" } else { "waiting" };
        let spool = |what: &str| self.counter(&format!("{output}.spool.{what}"));
        [spool("messages"), self.counter(&format!("sink.{output}.{waiting}")), spool("bytes")]
    }

    /// Events that an output itself had to drop, behind its queue.
    fn dropped_by(&self, output: &str) -> u64 {
        let hop = format!("sink.{output}");
        let own = |e: &&Entry| {
            e.info.hop == hop
                && e.info.unit == Unit::Events
                && matches!(e.info.role, Role::Dropped(_))
        };
        self.entries.iter().filter(own).map(|e| e.value).sum()
    }

    /// Numbers that did not come over a link of a redundant pair; copies that nobody waited for at the end
    /// are among them. `None`: a worker, which counts its own.
    fn missing(&self, p: &PartLine) -> Option<u64> {
        match p.lost {
            Some(_) => None,
            None => Some(self.account.delivered().saturating_sub(p.packets)),
        }
    }
}

pub use fullcount_core::quantity::grouped;

#[cfg(test)]
mod tests {
    use fullcount_core::ledger::Place;
    use serde_json::json;

    use super::text::{lost_text, places_text};
    use super::*;
    use crate::places::Shared;
    use crate::places::watch::Testimony;

    fn told(a: &Account, faults: u64) -> String {
        let mut t = String::new();
        places_text(a, faults, false, &mut t);
        t
    }

    #[test]
    fn the_text_names_place_counter_and_knob_and_splits_what_is_shared() {
        let one = Testimony {
            name: "host.backlog.dropped".into(),
            times: 1234,
            of: vec!["core 1".into(), "core 3".into()],
            todo: "raise it".into(),
        };
        let mut a = Account::default();
        a.watched = true;
        a.lost = [0, 0, 5, 0, 0, 0, 0, 10];
        a.shared = vec![Shared { places: vec![Place::Backlog, Place::Socket], packets: 7 }];
        a.testimony = vec![(Place::Backlog, vec![one])];
        let text = told(&a, 0);
        let backlog = "host.backlog.dropped 1,234 times (core 1, core 3): raise it";
        assert_eq!(text.matches(backlog).count(), 2, "alone and shared: {text}");
        for words in ["at backlog ", "at backlog or socket ", "at unknown ", "lost before it"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(text.contains("  3 packets"), "10 unknown ones without 7 shared ones: {text}");
        let text = told(&a, 3);
        assert!(text.contains("3 were dropped on purpose") && !text.contains("lost before it"));
        a.watched = false;
        assert!(told(&a, 0).contains("engine.probes = off"));
        // Who did not switch anything off is not told so.
        let mut text = String::new();
        places_text(&a, 0, true, &mut text);
        assert!(text.contains("not in the recording") && !text.contains("probes"), "{text}");
        assert_eq!(told(&Account::default(), 0), "");
    }

    fullcount_core::counters! {
        /// Of an output with a spool.
        enum Spooled {
            Damaged "kafka.spool.damaged" Messages Sum "sink.kafka" Missing(Queue) "m" "check the disk";
            Lost "sink.kafka.refused" Events Sum "sink.kafka" Dropped(Queue) "e" "";
        }
    }

    #[test]
    fn messages_that_a_spool_has_lost_are_a_loss_of_the_run() {
        let sheet = fullcount_core::ledger::Sheet::new(Spooled::catalogue());
        let ledger = fullcount_core::ledger::Ledger::default();
        ledger.register(sheet.clone());
        let summary = || Summary {
            verb: "run",
            active: Duration::from_secs(1),
            entries: ledger.read(),
            account: Account::default(),
            cpu: Cpu::default(),
            outputs: Vec::new(),
            packets: Vec::new(),
            wire_bits: None,
            sent_bytes: None,
            parts: Vec::new(),
            modules: (Vec::new(), 0),
            lossless: false,
            refused: None,
            spools: Vec::new(),
            clock: None,
            recorded: false,
            simulator: None,
        };
        assert_eq!(
            (summary().exit_code(), summary().to_json()["messages_lost"]["kafka"].clone()),
            (0, json!(0))
        );
        sheet.add(Spooled::Damaged as usize, 10);
        assert_eq!(
            (summary().exit_code(), summary().to_json()["messages_lost"]["kafka"].clone()),
            (3, json!(10))
        );
        assert!(summary().to_text().contains("! kafka.spool.damaged 10 messages"));
    }

    #[test]
    fn a_lower_bound_is_called_one() {
        let mut a = Account::default();
        a.lost[7] = 2496;
        assert_eq!(lost_text(&a, 2496), "2,496");
        a.at_least = 1;
        assert_eq!(lost_text(&a, 2496), "at least 2,496");
    }
}
