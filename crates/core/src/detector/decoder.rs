//! The seam between packets and events: one trait, for decoders of this workspace and for others.
//!
//! A decoder gets batches of chunks and appends what it makes of them to [`Products`]. What waits for more, hits for example, is
//! its own business. Source: `docs/architecture.md`, "Seams".

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::batch::{Batch, Origin};
use crate::ledger::Sheet;
use crate::products::Products;
use crate::progress::{BatchNumber, Flush};
use crate::source::StreamTable;
use crate::time::Nanos;
use crate::wall::Readings;

/// Decodes the packets of one worker: chunks become events.
pub trait Decoder: Send {
    /// Decodes a batch, if there is one, and appends to `products`; never clears them. `now` (ns of a clock that only goes forward)
    /// gives out what waited long enough; it is `None` in a replay, where only the data decide. Without a batch only time has
    /// passed. [`Products::batch`] is the number of the newest batch.
    fn decode(&mut self, batch: Option<&Batch>, now: Option<Nanos>, products: &mut Products);

    /// Decides on what waits.
    ///
    /// * At [`Flush::End`] and [`Flush::Taken`]: on everything, and open gaps become losses.
    /// * After [`Flush::Taken`]: what comes then meets nothing that was before, and each stream begins with whatever number comes
    ///   next, as somebody else may have had packets. Clocks go on where numbers say that nobody else had any.
    /// * At [`Flush::Stalled`]: at least on what holds back [`Decoder::oldest`], and goes on.
    fn flush(&mut self, reason: Flush, products: &mut Products);

    /// The run has ended.
    fn finish(&mut self, products: &mut Products) {
        self.flush(Flush::End, products);
    }

    /// The oldest batch, as [`Products::batch`] told it, of which something still waits here; of those before it all that was
    /// made has been appended to products. `None`: nothing waits. It may be said late, never early. Asked about ten times
    /// a second: all that waits may be looked at for it.
    fn oldest(&mut self) -> Option<BatchNumber> {
        None
    }

    /// When the decoder wants to be called because of the time alone, on the clock of `now`. The engine then calls [`Decoder::decode`], without
    /// a batch if none comes, and hands all that was given so far to the outputs at once. `None`: the calls that come every 20 ms anyway are
    /// enough; also if the last `now` was `None`.
    ///
    /// Asked after every batch, so it is a number that the decoder keeps. It may be early, never late. A call at that time gives something or
    /// moves the time on: one that stays is not heeded until the next batch or the next 20 ms.
    fn due(&self) -> Option<Nanos> {
        None
    }

    /// Why what was decoded since the last call of [`Decoder::decode`] may have wrong times, if nothing tells: the run ends before
    /// it is handed on.
    fn unsettled(&self) -> Option<&str> {
        None
    }

    /// What the packets of the last batch showed of the detector's clock; of formats that are [`Clock::Counting`](super::Clock::Counting).
    fn readings(&mut self) -> Option<&mut Readings> {
        None
    }

    /// The streams of its source, of each of which it may say how far it is read. Called once, before the first batch.
    fn govern(&mut self, streams: Arc<StreamTable>) {
        let _ = streams;
    }

    /// Its counters. Those of packets stand in the first sheet.
    fn sheets(&self) -> Vec<Arc<Sheet>>;

    /// Tells of each module, stream or front end that has sent something; about ten times a second, at most
    /// [`MOST_MODULES`](super::MOST_MODULES) of them are listed.
    fn modules(&self, tell: &mut dyn FnMut(SeenModule)) {
        let _ = tell;
    }

    /// Commands it understands; the same of all decoders of a detector.
    fn commands(&self) -> Vec<CommandInfo> {
        Vec::new()
    }

    /// Does a command between two batches: its reply, empty if there is none. The number of arguments was checked.
    ///
    /// # Errors
    /// Unknown name or wrong arguments.
    fn command(&mut self, name: &str, arguments: &[&str]) -> Result<String, CommandError> {
        let _ = arguments;
        Err(CommandError::Unknown(name.to_owned()))
    }

    /// Streams that have said that they are complete (the end mark of `sequence`), if all have; else 0.
    fn ended_streams(&self) -> usize {
        0
    }
}

/// A run-time command that a detector offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandInfo {
    /// Name, upper case as on the control port.
    pub name: String,
    /// Its arguments, as `HELP` shows them: `NAME VALUE`.
    pub arguments: String,
    /// What it does, one sentence.
    pub help: String,
    /// How many arguments it takes.
    pub count: RangeInclusive<usize>,
    /// True if it changes what events are made of.
    pub changes: bool,
}

/// One module, stream or front end, as a decoder has seen it so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeenModule {
    /// Who sends; [`Origin::NONE`] where that does not matter.
    pub origin: Origin,
    /// Its number among those of the sender.
    pub id: u32,
    /// Packets read of it.
    pub packets: u64,
    /// Missing of it by its numbers.
    pub lost: u64,
}

/// Refusal of a run-time command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// No such command.
    #[error("unknown command {0}")]
    Unknown(String),
    /// Wrong arguments, with what is expected.
    #[error("{0}")]
    Arguments(String),
}
