//! The trait between the engine and all outputs of products.
//!
//! The engine gives each sink one thread and one bounded queue; batches are shared by reference, so a
//! sink must not hold on to one longer than it needs. A sink is *required* (its loss ends in exit 3)
//! or best effort (its loss is a fraction on the status line).

use std::sync::Arc;
use std::time::Duration;

use crate::ledger::{Sheet, Unit};
use crate::products::{Products, Want};

/// A sink that failed; the sentence names path or address and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{sink}: {message}")]
pub struct SinkError {
    /// Name of the sink.
    pub sink: &'static str,
    /// What failed, where, and the system's words.
    pub message: String,
}

/// What a sink wrote, for the summary's `outputs`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Path or address.
    pub place: String,
    /// Events written and confirmed.
    pub events: u64,
    /// Bytes written, 0 if it does not apply.
    pub bytes: u64,
    /// Rows written and confirmed, by table; empty for sinks of events.
    pub rows: Vec<(&'static str, u64)>,
}

/// What a sink takes of a batch, for the counters of its queue.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// What is counted.
    pub unit: Unit,
    /// How much of it a batch has.
    pub of: fn(&Products) -> u64,
}

impl Load {
    /// Events, those with a pixel and those merged of fragments.
    pub const EVENTS: Load = Load {
        unit: Unit::Events,
        of: |products| (products.events.len() + products.records.len()) as u64,
    };
}

/// Whether a setting of an output's library, by its name, holds what must never be shown: a password, a private key. Where
/// one is to be found (`sasl.password.file`, `sasl.password.env`) is no secret.
pub fn secret(name: &str) -> bool {
    if name.ends_with(".file") || name.ends_with(".env") {
        return false;
    }
    let parts = ["password", "passphrase", "secret", "key.pem", "oauthbearer.config", "jaas"];
    parts.iter().any(|part| name.contains(part))
}

/// Takes products.
pub trait Sink: Send {
    /// Name in the summary, for example `nexus`.
    fn name(&self) -> &'static str;

    /// True if a batch that it cannot take is a loss.
    fn required(&self) -> bool;

    /// Columns that it needs in addition to the events.
    fn want(&self) -> Want {
        Want::default()
    }

    /// What it takes of a batch: events, unless it says otherwise.
    fn load(&self) -> Load {
        Load::EVENTS
    }

    /// Takes a batch.
    ///
    /// # Errors
    /// Only if the sink cannot go on.
    fn push(&mut self, products: &Arc<Products>) -> Result<(), SinkError>;

    /// All batches of this pipeline up to this number are safe here: after a restart the source may be read
    /// from after them. Follows [`Products::complete`], even if there was nothing to write. The answer may be
    /// late (the output flushes in its own time, and at once when products say
    /// [`Flush::Taken`](crate::progress::Flush::Taken)), never early, never past a dropped batch, and is
    /// still needed after [`Sink::finish`]. [`SafeBatches`](crate::progress::SafeBatches) does the
    /// bookkeeping.
    fn safe(&self, pipeline: u32) -> u64;

    /// Called at least every 100 ms with the time since the start: flushes what is due.
    ///
    /// # Errors
    /// Only if the sink cannot go on.
    fn tick(&mut self, since_start: Duration) -> Result<(), SinkError>;

    /// The run has ended: writes everything, closes, returns what was written.
    ///
    /// # Errors
    /// If what was taken could not be written.
    fn finish(&mut self) -> Result<Report, SinkError>;

    /// This sink's counters (`sink.<name>.events` …).
    fn sheet(&self) -> Arc<Sheet>;
}
