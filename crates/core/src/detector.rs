//! The seam of every detector: configuration text in, chunks in, columns out.
//!
//! A [`Kind`] reads the configuration and refuses it with key, value and range; a [`Detector`] says what it is and makes a
//! [`Decoder`] for each worker. The seam carries what a shared-library plugin needs as well: a configuration text, a batch in, columns
//! out, counters and commands by name, and what may be split over threads. [`conformance`] is the suite that every kind
//! must pass. Source: `docs/architecture.md`, "Seams".

pub mod conformance;
mod decoder;
mod modules;
mod registry;
pub mod sample;
mod setup;
mod threads;

use std::io;

use crate::batch::Origin;
use crate::key::KeyRow;
use crate::naming::PublishedNames;
use crate::products::Want;
use crate::refusal::Refusal;
use crate::sequence::numbering::Numbering;
use crate::tables::Table;
use crate::time::TickLength;
use crate::view::{PixelMap, Plot};

pub use crate::source::{FrameRule, Shifter, TurningClock, TurnsFrom};
pub use decoder::{CommandError, CommandInfo, Decoder, SeenModule};
pub use modules::{MOST_MODULES, ModuleNames};
pub use registry::Registry;
pub use sample::DetectorSample;
pub use setup::{Setup, TimeBase};
pub use threads::{MOST_THREADS, Started, Threads};

/// How the work may be shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharding {
    /// All readouts must meet in one decoder.
    Serial,
    /// Readouts of one source address are independent of all others.
    ByKey,
    /// A decoder is exact on up to this many threads by itself ([`Detector::decoder`]).
    Exact(usize),
}

/// What the times in a format's packets say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// When it was, since 1970 and whatever `[time] epoch` says; or the format has no times.
    Absolute,
    /// Ticks since some moment: a decoder tells [`Decoder::readings`], so that they can be joined to the host's clock.
    Counting,
    /// Ticks since a moment that comes again and again: a packet's arrival is the only time it has.
    Local,
}

/// A configured detector.
pub trait Detector: Send + Sync {
    /// Name as in `detector.kind`.
    fn name(&self) -> &str;

    /// A decoder for one worker, on so many threads. It fills what `want` names of [`Detector::tables`]; its events and counters
    /// are those of one thread. Only asked for more than one thread where [`Detector::sharding`] allows them.
    ///
    /// # Errors
    /// The system refuses a thread.
    fn decoder(&self, want: Want, threads: &Threads) -> io::Result<Box<dyn Decoder>>;

    /// For measuring: of a decoder that works in two steps, the first one, whose results are dropped. `None`: there is one step.
    fn first_step(&self) -> Option<Box<dyn Decoder>> {
        None
    }

    /// Tables that it can fill beside the events, in the order in which files have them.
    fn tables(&self) -> Vec<Table> {
        Vec::new()
    }

    /// True if it gives [`crate::products::Products::records`].
    fn gives_records(&self) -> bool {
        false
    }

    /// How the work may be shared out.
    fn sharding(&self) -> Sharding;

    /// Tick length, and whether it was assumed for want of a configured one.
    fn tick(&self) -> (TickLength, bool);

    /// What the packets number, and whose numbers follow each other: what is missing of it is counted as lost, in that unit.
    /// `None`: the format has no numbers, and a loss cannot be seen.
    fn numbering(&self) -> Option<Numbering>;

    /// True if it has no [`Detector::numbering`] because it follows numbers by rules of its own and has its own lines for what is missing: an
    /// event builder, which waits for each source.
    fn follows_numbers(&self) -> bool {
        false
    }

    /// What its modules, streams or front ends are called ([`Decoder::modules`]).
    fn module_names(&self) -> ModuleNames {
        ModuleNames::SENDER
    }

    /// The clock in the packets, if a stream's place in time follows from what else was read: its turns are counted. `None`: a
    /// time says by itself when it is, or a step back is a new beginning.
    fn turning_clock(&self) -> Option<TurningClock> {
        None
    }

    /// What a packet that was received then (ns since 1970) says of the clock whose turns are counted; `None` if it is none of ours.
    fn turns_from(&self, packet: &[u8], time_ns: i64) -> Option<TurnsFrom> {
        let _ = (packet, time_ns);
        None
    }

    /// Of a recording whose streams are read apart: turns of the clock are counted from there by receive times. The first call counts.
    fn count_turns(&self, from: TurnsFrom) {
        let _ = from;
    }

    /// Pixels with positions; empty for detectors without any.
    fn pixels(&self) -> PixelMap;

    /// Plots that suit this detector.
    fn plots(&self) -> Vec<Plot>;

    /// True if the format knows only IPv4 datagrams in one packet: nothing else in a capture is a readout.
    fn is_whole_ipv4(&self) -> bool {
        false
    }

    /// How a byte stream is cut into its packets; `None`: the format does not say it.
    fn framing(&self) -> Option<FrameRule> {
        None
    }

    /// Rule for repeating a capture as one long run; `None` if the format has none.
    fn shifter(&self) -> Option<Box<dyn Shifter>> {
        None
    }

    /// Decoder for people: one line of text per fact, readout by readout.
    fn inspector(&self) -> Box<dyn Inspector>;

    /// What is odd about the configuration but may be meant, one sentence each: said at the start of a run.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// What `inspect` shows of one chunk.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Inspected {
    /// Header fields in order: name, value as text with unit or base.
    pub header: Vec<(&'static str, String)>,
    /// If the chunk was refused: class and reason, each a word or two, which `inspect` shows as `refused: CLASS (REASON)`.
    pub error: Option<(&'static str, &'static str)>,
    /// Column names of `rows`.
    pub columns: Vec<&'static str>,
    /// Readouts, field by field, as the format counts them (raw ticks, 0 for "no pixel").
    pub rows: Vec<Vec<i64>>,
    /// Readouts that are refused by themselves: place in `rows`, ascending, and the counter that `run` has for them.
    pub refused: Vec<(usize, String)>,
}

/// Decodes one chunk for people; same verdict as the [`Decoder`].
pub trait Inspector: Send {
    /// Decodes `chunk`.
    fn inspect(&mut self, chunk: &[u8], origin: Origin) -> Inspected;
}

/// A sort of detector that can be configured by name.
pub trait Kind: Send + Sync {
    /// Name as in `detector.kind`.
    fn name(&self) -> &'static str;

    /// One line for `--help`.
    fn about(&self) -> &'static str;

    /// What its packets are called in a sentence.
    fn title(&self) -> &'static str {
        self.name()
    }

    /// The header test: true if the chunk has the form of this kind's packets, whatever the configuration. It is for
    /// telling what comes at a wrong port, and strict: a chunk that a decoder refuses for its form does not pass.
    fn looks_right(&self, chunk: &[u8]) -> bool {
        let _ = chunk;
        false
    }

    /// Keys of `[detector]` that it reads beside `kind`, `geometry` and `calibration`, as the reference has them.
    fn keys(&self) -> &'static [KeyRow] {
        &[]
    }

    /// What the event formation unit calls it and its counters; `None`: it does not know it.
    fn published(&self) -> Option<&'static PublishedNames> {
        None
    }

    /// Packets with a geometry that reads them, to try the kind out with.
    fn sample(&self) -> DetectorSample;

    /// Reads the configuration.
    ///
    /// # Errors
    /// Key, value and what is allowed, before anything is opened.
    fn configure(&self, setup: &Setup) -> Result<Box<dyn Detector>, Refusal>;

    /// What the times in its packets say.
    fn clock(&self) -> Clock;

    /// True if the readouts carry pulses: then `time.pulse` is `data` unless something else is chosen.
    fn carries_pulses(&self) -> bool {
        false
    }

    /// True if `detector.calibration` has a meaning for this kind.
    fn takes_calibration(&self) -> bool {
        false
    }
}
