//! What the engine reports to outputs of the run's state: the page, metrics.
//!
//! The page polls; nothing here is called on the hot path. Source: `docs/contracts.md`, "Ledger".

use std::sync::Arc;

use crate::command::Desk;
use crate::ledger::{Entries, Unit, signed};

/// One output as the page shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SinkFacts {
    /// Name, for example `nexus`.
    pub name: String,
    /// True if a batch that it cannot take is a loss.
    pub required: bool,
    /// Batches that wait in its queue.
    pub queued: u64,
    /// Batches that the queue holds at most.
    pub capacity: u64,
    /// Events that it did not get because the queue was full.
    pub dropped_events: u64,
    /// Events that it took.
    pub events: u64,
}

/// Whether an output still works.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutputState {
    /// Name, for example `nexus` or `capture`.
    pub name: String,
    /// What it loses is lost for the run.
    pub required: bool,
    /// Why it takes nothing any more; `None` while it works.
    pub failure: Option<String>,
}

/// The run in words and plain numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Title of the page, for example the configuration's name.
    pub title: String,
    /// Where data come from: endpoint, buffer sizes obtained, workers.
    pub source: Vec<String>,
    /// Detector kind and size.
    pub detector: String,
    /// Name of the kind alone.
    pub kind: String,
    /// Where events go: files, topics.
    pub outputs: Vec<String>,
    /// Start of the run, ms since 1970 UTC.
    pub started: u64,
    /// Outputs with their queues.
    pub sinks: Vec<SinkFacts>,
    /// False once the run has ended.
    pub running: bool,
    /// Lost packets by place, in the order of `Place::ALL`, if the probes run; otherwise the counters' own
    /// places are shown.
    pub lost: Option<[u64; 8]>,
    /// Of those at `unknown`: packets lost at one of a few places.
    pub lost_shared: Vec<(Vec<&'static str>, u64)>,
    /// All outputs.
    pub states: Vec<OutputState>,
    /// Threads that read packets or make events and stand still, by name.
    pub stood_still: Vec<String>,
    /// What to say while most packets are refused.
    pub refused: Option<String>,
    /// The same as `lost` for what is numbered instead of packets, if the probes run.
    pub lost_numbered: Vec<NumberedFacts>,
    /// What waits on disk for a broker, by output.
    pub spools: Vec<SpoolFacts>,
    /// Modules, streams or front ends of the detector that have sent something, by name.
    pub modules: Vec<ModuleFacts>,
    /// Further ones, which are not listed.
    pub modules_hidden: u64,
}

/// One module, stream or front end of the detector.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModuleFacts {
    /// Name, as the detector's kind calls it.
    pub name: String,
    /// Packets read of it.
    pub packets: u64,
    /// Missing of it by its numbers, in what the format numbers.
    pub lost: u64,
    /// Since its newest packet, ms.
    pub age_ms: u64,
    /// It has sent nothing for longer than `engine.module_silent`.
    pub silent: bool,
}

/// From here on a spool is nearly full, percent of its bound.
pub const SPOOL_NEARLY_FULL: u64 = 80;

/// How full an output's spool is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpoolFacts {
    /// Name of the output.
    pub output: String,
    /// Bytes of its files, percent of their bound.
    pub percent: u64,
    /// True while it is time to do something about it.
    pub nearly_full: bool,
}

/// Losses of what senders number instead of packets; amounts in that unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberedFacts {
    /// What is numbered.
    pub unit: Unit,
    /// By place, in the order of `Place::ALL`.
    pub lost: [u64; 8],
    /// Of those at `unknown`: lost at one of a few places.
    pub shared: Vec<(Vec<&'static str>, u64)>,
}

/// Supplies the page with numbers; the engine implements it.
pub trait StatusSource: Send + Sync {
    /// All counters at this moment.
    fn entries(&self) -> Entries;

    /// The run.
    fn facts(&self) -> Facts;

    /// All counters under the names that people chose, without what all names begin with: the number of received packets first.
    fn published(&self) -> Vec<(String, i64)> {
        let entries = self.entries();
        entries.iter().map(|e| (e.info.name.to_string(), signed(e.value))).collect()
    }

    /// What all those names begin with, its last dot included.
    fn prefix(&self) -> &str {
        ""
    }

    /// True if what is published under this name can fall: a queue's length, a present value, an extreme.
    fn can_fall(&self, name: &str, entries: &Entries) -> bool {
        let entry = entries.iter().find(|entry| entry.info.name == name);
        entry.is_some_and(|entry| entry.info.can_fall())
    }

    /// Commands that can be given to the run, and who may; `None`: none can.
    fn desk(&self) -> Option<Arc<Desk>> {
        None
    }
}
