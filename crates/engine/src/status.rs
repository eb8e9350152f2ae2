//! The run as those see it who watch: the status line and the page.
//!
//! Nothing here is called by the hot path; everything is read from counters that it writes anyway.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fullcount_core::ledger::{Entries, Ledger};
use fullcount_core::status::{
    Facts, NumberedFacts, OutputState, SPOOL_NEARLY_FULL, SinkFacts, SpoolFacts, StatusSource,
};
use fullcount_core::wall::{WallClock, WallStatus};

use crate::account::{Account, NumberedLoss};
use crate::failed::Failures;
use crate::fanout::LaneView;
use crate::modules::ModuleBoards;
use crate::pipeline::Progress;
use crate::places::watch::PlaceWatch;
use crate::refused::{MostlyRefused, Refusals};
use crate::summary::grouped;

/// One moment of a run.
#[derive(Debug, Clone, Default)]
pub struct RunStatus {
    /// Since the start.
    pub elapsed: Duration,
    /// Packets received.
    pub packets: u64,
    /// Payload bytes received.
    pub bytes: u64,
    /// Events made.
    pub events: u64,
    /// Packets lost, all places.
    pub lost: u64,
    /// That is a lower bound: a short number may have wrapped.
    pub lost_at_least: bool,
    /// The same by place, in the order of [`fullcount_core::ledger::Place::ALL`].
    pub lost_at: [u64; 8],
    /// Packets missing so far that may still come.
    pub missing: u64,
    /// What is numbered instead of packets.
    pub lost_numbered: Vec<NumberedStatus>,
    /// Packets refused.
    pub rejected: u64,
    /// Readouts without a pixel.
    pub unplaced: u64,
    /// Outputs.
    pub queues: Vec<QueueStatus>,
    /// Messages on disk that the broker has not confirmed, for each spool.
    pub spools: Vec<SpoolStatus>,
    /// What to say while most packets are refused.
    pub refused: Option<MostlyRefused>,
    /// The detector's clock beside the host's, where times are the host's.
    pub clock: Option<ClockStatus>,
}

/// The detector's clock beside the host's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClockStatus(pub WallStatus);

impl std::fmt::Display for ClockStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let s = &self.0;
        let (drift, off) = (s.drift_ppb as f64 / 1e3, s.error_ns as f64 / 1e3);
        if s.ahead {
            return write!(
                f,
                "times {:.3} s ahead of this host's clock, which was set back",
                -off / 1e6
            );
        }
        write!(f, "clock {drift:+.1} ppm, {off:+.0} µs")?;
        match s.steps {
            0 => Ok(()),
            n => write!(f, ", {n} steps, the last by {:+.3} s", s.last_step_ns as f64 / 1e9),
        }
    }
}

/// What a sender numbers instead of its packets; amounts in `unit`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NumberedStatus {
    /// Unit, for people.
    pub unit: &'static str,
    /// Missing for good, all places.
    pub lost: u64,
    /// That is a lower bound: a short number may have wrapped.
    pub at_least: bool,
    /// Missing so far, may still come.
    pub missing: u64,
}

/// What waits for a broker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpoolStatus {
    /// The output that it belongs to.
    pub output: String,
    /// Events wait in it, not packets.
    pub of_events: bool,
    /// Messages.
    pub messages: u64,
    /// Bytes of the spool's files.
    pub bytes: u64,
    /// Most bytes of them.
    pub limit: u64,
    /// Age of the oldest message.
    pub age: Duration,
}

impl SpoolStatus {
    /// Those of the outputs that the run has; `beside`: outputs of packets.
    fn all(entries: &Entries, beside: &[&'static str]) -> Vec<SpoolStatus> {
        let mut outputs: Vec<String> = entries
            .iter()
            .filter_map(|e| e.info.name.strip_suffix(".spool.messages").map(str::to_owned))
            .collect();
        // That of events first: they are what a run is for.
        outputs.sort_by_key(|output| beside.contains(&output.as_str()));
        let one = |output: String| {
            let of_events = !beside.contains(&output.as_str());
            let get = |what: &str| entries.get(&format!("{output}.spool.{what}"));
            Some(SpoolStatus {
                messages: get("messages")?,
                bytes: get("bytes")?,
                limit: get("limit")?,
                age: Duration::from_millis(get("age_ms")?),
                of_events,
                output,
            })
        };
        outputs.into_iter().filter_map(one).collect()
    }

    /// How full it is, percent of its bound.
    pub fn percent(&self) -> u64 {
        self.bytes.saturating_mul(100).checked_div(self.limit).unwrap_or(0)
    }

    /// True while it is time to do something about it.
    pub fn is_nearly_full(&self) -> bool {
        self.percent() >= SPOOL_NEARLY_FULL
    }
}

impl std::fmt::Display for SpoolStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Events are what a run is for: their spool needs no other name.
        let whose = if self.of_events { "" } else { &self.output };
        let space = if whose.is_empty() { "" } else { " " };
        let (messages, seconds) = (crate::summary::grouped(self.messages), self.age.as_secs_f64());
        write!(f, "{whose}{space}spool {messages} messages, {seconds:.1} s")?;
        if self.is_nearly_full() {
            write!(f, ", {} % full", self.percent())?;
        }
        Ok(())
    }
}

/// One output's queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueStatus {
    /// Name of the output.
    pub name: String,
    /// Events offered.
    pub offered: u64,
    /// Events not given because it was full.
    pub dropped: u64,
    /// Events waiting.
    pub queued: u64,
    /// True once the output has failed for good.
    pub failed: bool,
}

/// One worker or link of a run, with the counters that are its own.
#[derive(Debug)]
pub struct Part {
    /// For people: where it reads, on which CPU.
    pub label: String,
    /// Its counters; those of the whole run are in [`StatusWatch::ledger`].
    pub ledger: Ledger,
}

/// What one worker or link did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartLine {
    /// See [`Part::label`].
    pub label: String,
    /// Packets received.
    pub packets: u64,
    /// Payload bytes received.
    pub bytes: u64,
    /// Packets lost, as far as this part's own numbering tells; a link of a redundant pair has none.
    pub lost: Option<u64>,
    /// Times that its socket's buffer was full.
    pub kernel_drops: u64,
}

impl Part {
    /// This moment.
    pub fn line(&self) -> PartLine {
        let entries = self.ledger.read();
        let get = |name| entries.get(name);
        PartLine {
            label: self.label.clone(),
            packets: get("receive.packets").unwrap_or(0),
            bytes: get("receive.bytes").unwrap_or(0),
            lost: get("packets.lost"),
            kernel_drops: get("receive.kernel_drops").unwrap_or(0),
        }
    }
}

/// Shared by everybody who watches.
#[derive(Debug)]
pub struct StatusWatch {
    /// All counters.
    pub ledger: Arc<Ledger>,
    /// Outputs' queues.
    pub lanes: Vec<LaneView>,
    /// Outputs that take packets where they are received.
    pub beside: Vec<&'static str>,
    /// Those of them whose losses are none of the run.
    pub best_effort: Vec<&'static str>,
    /// Outputs that have failed.
    pub failures: Arc<Failures>,
    /// Refused packets, of a run that looks at them.
    pub refusals: Option<Arc<Refusals>>,
    /// Workers, and links of a redundant pair, where there is more than one.
    pub parts: Vec<Part>,
    /// Times of first and last data.
    pub progress: Arc<Progress>,
    /// Places of the losses, where the source can lose.
    pub places: Option<Arc<PlaceWatch>>,
    /// Start of the run.
    pub started: Instant,
    /// The same, ms since 1970.
    pub started_unix_ms: u64,
    /// Title of the page.
    pub title: String,
    /// Where data come from.
    pub source: Vec<String>,
    /// What they are.
    pub detector: String,
    /// Name of the detector's kind.
    pub kind: String,
    /// Where events go.
    pub outputs: Vec<String>,
    /// Both clocks, where times are those of the host's.
    pub wall: Option<Arc<WallClock>>,
    /// What the detector's modules have sent.
    pub modules: ModuleBoards,
}

impl StatusWatch {
    /// This moment.
    pub fn status(&self) -> RunStatus {
        let entries = self.read();
        let get = |name| entries.get(name).unwrap_or(0);
        let queue = |l: &LaneView| QueueStatus {
            name: l.name().to_owned(),
            offered: l.offered(),
            dropped: l.dropped(),
            queued: l.queued(),
            failed: l.failed(),
        };
        let account = Account::watched(&entries, None, self.places.as_deref());
        RunStatus {
            elapsed: self.started.elapsed(),
            packets: get("receive.packets"),
            bytes: get("receive.bytes"),
            events: get("events.count"),
            lost: account.lost_total(),
            lost_at_least: account.at_least > 0,
            lost_at: account.lost,
            missing: get("packets.missing"),
            lost_numbered: {
                let one = |s: &NumberedLoss| NumberedStatus {
                    unit: s.unit.name(),
                    lost: s.lost_total(),
                    at_least: s.at_least > 0,
                    missing: s.missing,
                };
                account.lost_numbered.iter().map(one).collect()
            },
            rejected: account.rejected_total(),
            unplaced: get("events.geometry_errors"),
            queues: self.lanes.iter().map(queue).collect(),
            spools: SpoolStatus::all(&entries, &self.beside),
            refused: self.refusals.as_ref().and_then(|r| r.at(Instant::now(), &entries)),
            clock: self.clock(),
        }
    }

    /// Both clocks, once they are joined by this run.
    fn clock(&self) -> Option<ClockStatus> {
        let wall = self.wall.as_ref().filter(|wall| wall.is_live() && !wall.is_received());
        wall.map(|wall| ClockStatus(wall.status())).filter(|clock| clock.0.anchor.is_some())
    }

    /// All counters. What waits in a queue is what was offered and not yet taken: the pipeline writes
    /// that gauge only when it hands over.
    pub fn read(&self) -> Entries {
        let mut entries = self.ledger.read();
        for lane in &self.lanes {
            let get = |what: &str| entries.get(&format!("queue.{}.{what}", lane.name()));
            let all = get("offered").zip(get("dropped")).zip(get("taken"));
            if let Some(((offered, dropped), taken)) = all {
                let queued = offered.saturating_sub(dropped + taken);
                entries.set(&format!("queue.{}.queued", lane.name()), queued);
            }
        }
        for output in &self.beside {
            let get = |what: &str| entries.get(&format!("sink.{output}.{what}"));
            let Some(offered) = get("packets") else { continue };
            let done = ["written", "dropped", "failed", "too_long", "refused", "not_written"];
            let done: u64 = done.into_iter().filter_map(get).sum();
            let queued = (offered + get("recovered").unwrap_or(0)).saturating_sub(done);
            entries.set(&format!("sink.{output}.queued"), queued);
        }
        entries
    }

    /// True until the pipeline has ended.
    pub fn running(&self) -> bool {
        !self.progress.done()
    }
}

impl StatusWatch {
    /// Whether each output still works.
    fn states(&self) -> Vec<OutputState> {
        let lanes = self.lanes.iter().map(|lane| (lane.name(), lane.required()));
        let beside = self.beside.iter().map(|name| (*name, !self.best_effort.contains(name)));
        let state = |(name, required): (&str, bool)| OutputState {
            name: name.to_owned(),
            required,
            failure: self.failures.reason(name),
        };
        lanes.chain(beside).map(state).collect()
    }
}

impl StatusSource for StatusWatch {
    fn entries(&self) -> Entries {
        self.read()
    }

    fn facts(&self) -> Facts {
        let sink = |l: &LaneView| SinkFacts {
            name: l.name().to_owned(),
            required: l.required(),
            queued: l.batches() as u64,
            capacity: l.capacity() as u64,
            dropped_events: l.dropped(),
            events: l.offered() - l.dropped().min(l.offered()),
        };
        let refused = self.refusals.as_ref().and_then(|r| r.at(Instant::now(), &self.read()));
        let (modules, modules_hidden) = self.modules.facts();
        let places = self.places.as_deref();
        let account = places.map(|p| Account::watched(&self.read(), None, Some(p)));
        let shared = account.iter().flat_map(|a| &a.shared);
        let names = |s: &crate::places::Shared| {
            (s.places.iter().map(|p| p.name()).collect::<Vec<_>>(), s.packets)
        };
        Facts {
            lost: account.as_ref().map(|a| a.lost),
            lost_shared: shared.map(names).collect(),
            lost_numbered: {
                let all = account.iter().flat_map(|a| &a.lost_numbered);
                let one = |s: &NumberedLoss| NumberedFacts {
                    unit: s.unit,
                    lost: s.lost,
                    shared: s.shared.iter().map(names).collect(),
                };
                all.map(one).collect()
            },
            title: self.title.clone(),
            source: {
                let line = |p: &Part| {
                    let line = p.line();
                    format!("{}: {} packets", line.label, grouped(line.packets))
                };
                self.source.iter().cloned().chain(self.parts.iter().map(line)).collect()
            },
            detector: match self.clock() {
                Some(clock) => format!("{} · {clock}", self.detector),
                None => self.detector.clone(),
            },
            kind: self.kind.clone(),
            stood_still: self.progress.stood_still(),
            outputs: {
                let failed = self.lanes.iter().filter(|l| l.failed());
                let entries = self.ledger.read();
                let packets = self.beside.iter().filter_map(|output| {
                    let get = |what: &str| entries.get(&format!("sink.{output}.{what}"));
                    let lost = get("dropped").unwrap_or(0) + get("failed").unwrap_or(0);
                    let (taken, lost) = (grouped(get("written")?), grouped(lost));
                    Some(format!("{output}: {taken} packets, {lost} not taken"))
                });
                let said = failed.map(|l| format!("{} has failed: its events are lost", l.name()));
                let spools = SpoolStatus::all(&self.read(), &self.beside)
                    .into_iter()
                    .filter(|s| s.messages > 0);
                let spools = spools.map(|s| format!("{s}: not confirmed by the broker yet"));
                self.outputs.iter().cloned().chain(said).chain(spools).chain(packets).collect()
            },
            started: self.started_unix_ms,
            sinks: self.lanes.iter().map(sink).collect(),
            running: self.running(),
            states: self.states(),
            refused: refused.map(|r| r.message),
            modules,
            modules_hidden,
            spools: {
                let one = |s: SpoolStatus| SpoolFacts {
                    percent: s.percent(),
                    nearly_full: s.is_nearly_full(),
                    output: s.output,
                };
                SpoolStatus::all(&self.read(), &self.beside).into_iter().map(one).collect()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullcount_core::ledger::{Info, Sheet};
    use fullcount_kafka::{KafkaCounter, RawCounter};

    /// An output's sheet with messages and age (ms) of its spool.
    fn sheet(output: &str, lines: Vec<Info>, messages: u64, age: u64) -> Arc<Sheet> {
        let sheet = Sheet::new(lines);
        for (name, value) in [("messages", messages), ("age_ms", age)] {
            let name = format!("{output}.spool.{name}");
            let line = sheet.lines().iter().position(|l| l.name == name.as_str());
            sheet.set(line.expect("counted"), value);
        }
        sheet
    }

    #[test]
    fn each_output_with_a_spool_has_a_line_of_its_own() {
        let ledger = Ledger::default();
        let said = || -> Vec<String> {
            SpoolStatus::all(&ledger.read(), &["raw"]).iter().map(ToString::to_string).collect()
        };
        assert!(said().is_empty());
        ledger.register(sheet("raw", RawCounter::catalogue(), 1234, 5200));
        assert_eq!(said(), ["raw spool 1,234 messages, 5.2 s"]);
        ledger.register(sheet("kafka", KafkaCounter::catalogue(), 7, 0));
        assert_eq!(said(), ["spool 7 messages, 0.0 s", "raw spool 1,234 messages, 5.2 s"]);
    }

    #[test]
    fn a_spool_says_from_80_percent_on_how_full_it_is() {
        let spool = |bytes| SpoolStatus {
            output: "raw".into(),
            bytes,
            limit: 1000,
            ..SpoolStatus::default()
        };
        assert_eq!(spool(799).to_string(), "raw spool 0 messages, 0.0 s");
        assert_eq!(spool(800).to_string(), "raw spool 0 messages, 0.0 s, 80 % full");
        assert_eq!(SpoolStatus::default().percent(), 0, "without a bound");
    }
}
