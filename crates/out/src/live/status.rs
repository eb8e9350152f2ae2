//! What the engine tells the page about the run.
//!
//! The page polls; nothing here is called on the hot path. Refuses nothing.
//! Source: `docs/architecture.md`, contract "Ledger".

use fullcount_core::ledger::{Entries, Unit};

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
    /// Where events go: files, topics.
    pub outputs: Vec<String>,
    /// Start of the run, ms since 1970 UTC.
    pub started: u64,
    /// Outputs with their queues.
    pub sinks: Vec<SinkFacts>,
    /// False once the run has ended.
    pub running: bool,
    /// Lost packets by place, in the order of `Place::ALL`, where somebody watches the places; else the
    /// counters' own places are shown.
    pub lost: Option<[u64; 8]>,
    /// Of those at `unknown`: packets lost at one of a few places.
    pub lost_shared: Vec<(Vec<&'static str>, u64)>,
    /// All outputs.
    pub states: Vec<OutputState>,
    /// What to say while most packets are refused.
    pub refused: Option<String>,
    /// The same as `lost` for what is numbered instead of packets, where somebody watches the places.
    pub lost_numbered: Vec<NumberedFacts>,
    /// What waits on disk for a broker, by output.
    pub spools: Vec<SpoolFacts>,
}

/// How full an output's spool is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpoolFacts {
    /// Name of the output.
    pub output: &'static str,
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
}
