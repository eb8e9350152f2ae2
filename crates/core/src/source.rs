//! The seam between a source of chunks and everything behind it.
//!
//! Sockets, captures and memory all end in [`Source::recv`]; what is behind cannot tell them apart
//! except by [`Source::lossless`]. Wrappers (`fault`, `tap`, `pace`) are sources around a source. How a source comes to be
//! opened, from its URL on, is said by its [`kind`]; all of a process stand in [`registry`]. Source: `docs/architecture.md`, "Seams".

pub mod conformance;
pub mod framing;
pub mod kind;
pub mod registry;
pub mod streams;

use std::sync::Arc;
use std::time::Duration;

use crate::batch::Batch;
use crate::command::Command;
use crate::ledger::Sheet;
use crate::progress::{Flush, PipelineProgress};

pub use framing::{FrameFault, FrameRule};
pub use kind::{
    Downstream, FrameCounters, OpenedSource, Replayable, ReplayedFrom, Shifter, SourceEndpoint,
    SourceKind, SourceOpenError, SourceOpening, SourceOptions, SourceSetup, TurningClock,
    TurnsFrom, UrlKey,
};
pub use registry::Sources;
pub use streams::{StreamCredit, StreamPhase, StreamTable};

/// Outcome of one receive call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// The batch holds at least one train.
    Data,
    /// What waits in the decoder is to be decided, for this reason; the batch is empty and has a number. Only sources that lose
    /// nothing say it.
    Flush(Flush),
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
    /// Clears `batch` and fills it; its number is the one that it has if this gives [`Received::Data`] or [`Received::Flush`]. Waits at most about `wait` for the first chunk.
    ///
    /// # Errors
    /// Only for failures after which no chunk can come; a bad packet is a counter.
    fn recv(&mut self, batch: &mut Batch, wait: Duration) -> Result<Received, SourceError>;

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

    /// Its place with others who keep it (a consumer group), if there is one. Asked once, before the first [`Source::recv`].
    fn position(&self) -> Option<Arc<dyn Position>> {
        None
    }

    /// Its streams, if each can be read as far as somebody allows: asked once, before the first [`Source::recv`], and given to the
    /// decoder. A wrapper that keeps nothing back hands it on.
    fn streams(&self) -> Option<Arc<StreamTable>> {
        None
    }

    /// What can be told to it while data flow. Asked once, before the first [`Source::recv`]; a command is done on another thread, so it
    /// leaves what is to be done where the source finds it ([`Mailbox`](crate::command::Mailbox)).
    fn commands(&self) -> Vec<Command> {
        Vec::new()
    }

    /// This source's counters; registered once.
    fn sheet(&self) -> Arc<Sheet>;

    /// For people, one fact a line: local address, buffer asked and got, offloads, core.
    fn describe(&self) -> Vec<String>;
}

/// In a [`Source`] around another, its field `$inner`: the methods that are the other's.
#[macro_export]
macro_rules! as_inner_source {
    ($inner:tt: $($method:ident)+) => { $($crate::as_inner_source!(@ $inner $method);)+ };
    (@ $inner:tt batch) => { fn batch(&self) -> $crate::batch::Batch { self.$inner.batch() } };
    (@ $inner:tt lossless) => { fn lossless(&self) -> bool { self.$inner.lossless() } };
    (@ $inner:tt replay) => { fn replay(&self) -> bool { self.$inner.replay() } };
    (@ $inner:tt for_capture) => {
        fn for_capture(&mut self) -> Result<(), $crate::source::SourceError> {
            self.$inner.for_capture()
        }
    };
    (@ $inner:tt buffer_percent) => {
        fn buffer_percent(&self) -> Option<u32> { self.$inner.buffer_percent() }
    };
    (@ $inner:tt streams) => {
        fn streams(&self) -> Option<std::sync::Arc<$crate::source::StreamTable>> { self.$inner.streams() }
    };
    (@ $inner:tt sheet) => {
        fn sheet(&self) -> std::sync::Arc<$crate::ledger::Sheet> { self.$inner.sheet() }
    };
    (@ $inner:tt describe) => { fn describe(&self) -> Vec<String> { self.$inner.describe() } };
}

/// A source's place that others keep: told on only as far as what was read is safe with the outputs.
pub trait Position: Send + Sync {
    /// From now on this says how far the source's batches are. Without it nobody behind the source holds anything back.
    fn follow(&self, progress: Arc<dyn PipelineProgress>);

    /// All outputs have ended: the last place is told.
    fn finish(&self);
}
