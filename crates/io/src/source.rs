//! The seam between a source of chunks and everything behind it.
//!
//! Sockets, captures and memory all end in [`Source::recv`]; what is behind cannot tell them apart
//! except by [`Source::lossless`]. Wrappers (`fault`, `tap`, `pace`) are sources around a source.

use std::sync::Arc;
use std::time::Duration;

use fullcount_core::batch::Batch;
use fullcount_core::ledger::Sheet;

/// Outcome of one receive call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// The batch holds at least one train.
    Data,
    /// Nothing came within the wait.
    Idle,
    /// The source has ended and will give nothing more.
    End,
}

/// A source that failed for good; the sentence names the endpoint and the system's words.
#[derive(Debug, thiserror::Error)]
#[error("{endpoint}: {what}: {cause}")]
pub struct SourceError {
    /// URL as configured.
    pub endpoint: String,
    /// What was being done.
    pub what: String,
    /// The system's or parser's answer.
    pub cause: String,
}

/// Yields batches of chunks.
pub trait Source: Send {
    /// Clears `batch` and fills it; waits at most about `wait` for the first chunk.
    ///
    /// # Errors
    /// Only for failures after which no chunk can come; a bad packet is a counter.
    fn recv(&mut self, batch: &mut Batch, wait: Duration) -> Result<Received, SourceError>;

    /// Called again and again, instead of [`Source::recv`], while nobody takes what was received: whoever hears from this side
    /// now and then (a consumer group) does not take it for dead. Gives nothing; what fails here, the next `recv` says.
    fn attend(&mut self) {}

    /// A batch with memory as this source wants it (slot count and size).
    fn batch(&self) -> Batch;

    /// True if reading later loses nothing (tcp, kafka, a capture flat out).
    fn lossless(&self) -> bool;

    /// True for recorded data, at whatever speed: only the data, never a clock, may decide about events.
    fn replay(&self) -> bool {
        false
    }

    /// Called once, before the first [`Source::recv`], where all that is received is captured as well: from
    /// now on trains carry their receive times and say where they were sent to, as far as this
    /// source knows it.
    ///
    /// # Errors
    /// The system refuses it.
    fn for_capture(&mut self) -> Result<(), SourceError> {
        Ok(())
    }

    /// Hundredths of the kernel's buffer that are in use, where that can be asked: how long packets can
    /// still be left there.
    fn buffer_percent(&self) -> Option<u32> {
        None
    }

    /// This source's counters; registered once.
    fn sheet(&self) -> Arc<Sheet>;

    /// For people, one fact a line: local address, buffer asked and got, offloads, core.
    fn describe(&self) -> Vec<String>;
}
