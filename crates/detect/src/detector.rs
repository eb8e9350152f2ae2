//! The seam of every detector: configuration text in, chunks in, columns out.
//!
//! It carries what a shared-library plugin needs as well: a configuration text, a batch in, columns
//! out, counters and commands by name, and what may be split over threads. A [`Kind`] reads the
//! configuration and refuses it with key, value and range; a [`Detector`] makes one [`Reader`] per
//! worker and the [`Builder`] behind them.

use std::io;
use std::sync::Arc;

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::Sheet;
use fullcount_core::products::{Products, Want};
use fullcount_core::tables::Table;
use fullcount_core::time::{Nanos, PulseGrid, TickLength};
use fullcount_core::view::{PixelMap, Plot};
use fullcount_core::wall::Readings;
use fullcount_instructions::Instructions;

use crate::parallel::Threads;

/// `[time]` of the configuration as detectors need it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeBase {
    /// Where the detector's tick 0 lies, ns since 1970.
    pub epoch: Nanos,
    /// Grid that owns the events: configured pulses, or reference blocks of 2³⁰ ns.
    pub grid: PulseGrid,
    /// True if the pulses in the data own them (`pulse = "data"`); the grid then serves what lies before
    /// the first pulse or too far behind one.
    pub pulses_in_data: bool,
    /// Tick length from the configuration, for detectors whose format does not state one.
    pub tick: Option<TickLength>,
    /// True for `[time] epoch = "now"`: times are those of the host. Where the format is [`Clock::Local`] the reader takes the
    /// packets' arrival; else others join both clocks, and tick 0 is 0 here.
    pub now: bool,
}

impl Default for TimeBase {
    fn default() -> Self {
        let epoch = Nanos(0);
        let grid = PulseGrid::reference_blocks(epoch);
        TimeBase { epoch, grid, pulses_in_data: false, tick: None, now: false }
    }
}

impl TimeBase {
    /// True if no pulses are configured: blocks of a fixed length own the events.
    pub fn has_no_pulses(&self) -> bool {
        let blocks = [PulseGrid::reference_blocks(self.epoch), PulseGrid::live_blocks(self.epoch)];
        blocks.contains(&self.grid)
    }

    /// Refuses `pulse = "data"` for a detector whose format carries no pulses.
    ///
    /// # Errors
    /// Key, value and what is allowed.
    pub fn without_pulses(&self, kind: &str) -> Result<(), SetupError> {
        if !self.pulses_in_data {
            return Ok(());
        }
        Err(SetupError::Value {
            key: "time.pulse".to_owned(),
            value: "data".to_owned(),
            allowed: format!("none or grid(PERIOD): {kind} readouts carry no pulses"),
        })
    }
}

/// What a detector is configured with: plain text, as a plugin would get it.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// Text of the geometry file (TOML or the published JSON), empty if none was given.
    pub geometry: String,
    /// Its path, for messages.
    pub geometry_path: String,
    /// Text of the calibration file, empty if none was given.
    pub calibration: String,
    /// Its path, for messages.
    pub calibration_path: String,
    /// Remaining keys of `[detector]` as TOML text.
    pub options: String,
    /// `[time]`.
    pub time: TimeBase,
    /// `engine.instructions`: what loops of a decoder use that are compiled for several sets. Never changes a result.
    pub instructions: Instructions,
}

/// A configuration that cannot be used: names key, value and what is allowed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SetupError {
    /// No such detector.
    #[error("detector.kind: unknown detector \"{kind}\"; known: {known}")]
    UnknownKind {
        /// As given.
        kind: String,
        /// Comma-separated names.
        known: String,
    },
    /// `plugin:` is announced but not there yet.
    #[error(
        "detector.kind: \"{kind}\": shared-library detectors are not supported by this version; link the detector crate and register its Kind instead"
    )]
    PluginNotYet {
        /// As given.
        kind: String,
    },
    /// Text that does not parse; carries the parser's place.
    #[error("{place}: {message}")]
    Syntax {
        /// File or section.
        place: String,
        /// Parser's words with line and column.
        message: String,
    },
    /// A value outside its range.
    #[error("{key}: {value} is not allowed: {allowed}")]
    Value {
        /// Key path.
        key: String,
        /// As given.
        value: String,
        /// What would be accepted.
        allowed: String,
    },
}

/// How the work may be shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharding {
    /// All readouts must meet in one builder.
    Serial,
    /// Readouts of one source address are independent of all others.
    ByKey,
    /// The builder is exact on up to this many threads by itself ([`Detector::builder_on`]).
    Exact(usize),
}

/// What the times in a format's packets say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// When it was; or the format has no times.
    Absolute,
    /// Ticks since some moment: a reader tells [`Reader::readings`], so that they can be joined to the host's clock.
    Counting,
    /// Ticks since a moment that comes again and again: a packet's arrival is the only time it has.
    Local,
}

/// A run-time command that a detector offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandInfo {
    /// Name, upper case as on the control port.
    pub name: String,
    /// Arguments and effect, one sentence.
    pub help: String,
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

/// A clock that begins anew so often that its turns are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurningClock {
    /// Length of a turn, ns.
    pub turn_ns: u64,
    /// Receive times tell the turn of each stream by itself; else all packets must come in the order in which they were sent.
    pub by_times: bool,
}

/// Decodes chunks on one worker: chunk → readouts → hits (for SoNDe at once events).
pub trait Reader: Send {
    /// Decodes a batch and appends to `products`; never clears it.
    fn read(&mut self, batch: &Batch, products: &mut Products);

    /// The run has ended: settles what was pending (open gaps become losses).
    fn finish(&mut self, products: &mut Products);

    /// Between here and what comes next, somebody else may have had packets (a partition of a topic that moved): open
    /// gaps become losses, and each stream begins with whatever number comes next. Clocks go on where numbers say that nobody else had packets.
    fn begin_anew(&mut self) {}

    /// Why what was read since the last call of [`Reader::read`] may have wrong times, if nothing tells: the run ends before it
    /// is handed on.
    fn unsettled(&self) -> Option<&str> {
        None
    }

    /// What the packets of the last [`Reader::read`] showed of the detector's clock; of formats that are [`Clock::Counting`].
    fn readings(&mut self) -> Option<&mut Readings> {
        None
    }

    /// This reader's counters.
    fn sheet(&self) -> Arc<Sheet>;

    /// Commands it understands.
    fn commands(&self) -> Vec<CommandInfo> {
        Vec::new()
    }

    /// Runs a command between two batches.
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

/// Makes events of hits; the last stop before the outputs.
pub trait Builder: Send {
    /// Works on what the readers appended to `products`, and is called without new readouts as well when
    /// nothing comes. `now` (ns of a clock that only goes forward) releases what waited long enough; it is
    /// `None` in a replay, where only the data decide.
    fn build(&mut self, products: &mut Products, now: Option<Nanos>);

    /// The run has ended: everything that still waits is decided.
    fn finish(&mut self, products: &mut Products);

    /// Remembers which hits wait now, for [`Builder::passed`]; the latest mark counts.
    fn mark(&mut self);

    /// True once none of the hits waits any more that waited at the last [`Builder::mark`], and all that was made of them
    /// has been appended to products. It may be said late, never early.
    fn passed(&mut self) -> bool;

    /// Decides on what has waited since the last mark, as at the end of a run, and goes on: it has passed then.
    fn let_go(&mut self, products: &mut Products);

    /// This builder's counters.
    fn sheet(&self) -> Option<Arc<Sheet>> {
        None
    }
}

/// The builder of detectors whose reader makes events at once.
#[derive(Debug, Default)]
pub struct PassThrough;

impl Builder for PassThrough {
    fn build(&mut self, _: &mut Products, _: Option<Nanos>) {}
    fn finish(&mut self, _: &mut Products) {}
    fn mark(&mut self) {}
    fn passed(&mut self) -> bool {
        true
    }
    fn let_go(&mut self, _: &mut Products) {}
}

/// A configured detector.
pub trait Detector: Send + Sync {
    /// Name as in `detector.kind`.
    fn name(&self) -> &str;

    /// A reader for one worker.
    fn reader(&self) -> Box<dyn Reader>;

    /// The builder behind the readers.
    fn builder(&self) -> Box<dyn Builder> {
        Box::new(PassThrough)
    }

    /// The same where somebody wants more than events, or on several threads: it fills what `want` names of
    /// [`Detector::tables`], and has the events and counters of one thread. Only asked for more than one thread where
    /// [`Detector::sharding`] allows them.
    ///
    /// # Errors
    /// The system refuses a thread.
    fn builder_on(&self, want: Want, threads: &Threads) -> io::Result<Box<dyn Builder>> {
        let _ = (want, threads);
        Ok(self.builder())
    }

    /// Tables that it can fill beside the events, in the order in which files have them.
    fn tables(&self) -> Vec<Table> {
        Vec::new()
    }

    /// How the work may be shared out.
    fn sharding(&self) -> Sharding;

    /// Tick length, and whether it was assumed for want of a configured one.
    fn tick(&self) -> (TickLength, bool);

    /// Bits of the numbers in the packets, if so few that they may wrap while the receiver stands still: then packets are asked
    /// to be received with their times ([`fullcount_core::sequence::turns`]). `None`: a turn takes hours, or there are no numbers.
    fn short_numbers(&self) -> Option<u32> {
        None
    }

    /// The clock in the packets, if a stream's place in time follows from what else was read: its turns are counted. `None`: a
    /// time says by itself when it is, or a step back is a new beginning.
    fn turning_clock(&self) -> Option<TurningClock> {
        None
    }

    /// The packet that came first of a recording whose streams are read apart, and when (ns since 1970): from here on the turns
    /// of the clock follow from receive times. False if it is none of ours.
    fn begins_with(&self, packet: &[u8], time_ns: i64) -> bool {
        let _ = (packet, time_ns);
        false
    }

    /// Pixels with positions; empty for detectors without any.
    fn pixels(&self) -> PixelMap;

    /// Plots that suit this detector.
    fn plots(&self) -> Vec<Plot>;

    /// True if the format knows only IPv4 datagrams in one packet: nothing else in a capture is a readout.
    fn is_whole_ipv4(&self) -> bool {
        false
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

/// Moves counters and times inside packets on, so that a repeated capture looks like one long run.
pub trait Shifter: Send {
    /// Sees each packet of the capture once, in order, before the first repetition.
    fn learn(&mut self, payload: &[u8], origin: Origin);

    /// Changes a packet in place for repetition 1, 2, ….
    fn shift(&mut self, payload: &mut [u8], origin: Origin, repetition: u64);
}

/// What `inspect` shows of one chunk.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Inspected {
    /// Header fields in order: name, value as text with unit or base.
    pub header: Vec<(&'static str, String)>,
    /// Refusal: class and reason word, if the chunk was refused.
    pub error: Option<(&'static str, &'static str)>,
    /// Column names of `rows`.
    pub columns: Vec<&'static str>,
    /// Readouts, field by field, as the format counts them (raw ticks, 0 for "no pixel").
    pub rows: Vec<Vec<i64>>,
    /// Readouts that are refused by themselves: place in `rows`, ascending, and the counter that `run` has for them.
    pub refused: Vec<(usize, String)>,
}

/// Decodes one chunk for people; same verdict as the [`Reader`].
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
    /// telling what comes at a wrong port, and strict: a chunk that a reader refuses for its form does not pass.
    fn looks_right(&self, chunk: &[u8]) -> bool {
        let _ = chunk;
        false
    }

    /// Reads the configuration.
    ///
    /// # Errors
    /// Key, value and what is allowed, before anything is opened.
    fn configure(&self, setup: &Setup) -> Result<Box<dyn Detector>, SetupError>;

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

/// Detectors by name. An application adds its own kinds to the built-in ones.
pub struct Registry {
    kinds: Vec<Box<dyn Kind>>,
}

impl Registry {
    /// No kinds.
    pub fn empty() -> Registry {
        Registry { kinds: Vec::new() }
    }

    /// The detectors of this crate: `sonde`, `multigrid`, `multiblade`, `gdgem`, `sequence`.
    pub fn builtin() -> Registry {
        let mut registry = Registry::empty();
        registry.register(Box::new(crate::sonde::Sonde));
        registry.register(Box::new(crate::multigrid::Multigrid));
        registry.register(Box::new(crate::multiblade::MultiBlade));
        registry.register(Box::new(crate::gdgem::GdGem));
        registry.register(Box::new(crate::sequence::Sequence));
        registry
    }

    /// True if the readouts of the kind called `name` carry pulses; false for an unknown one.
    pub fn carries_pulses(&self, name: &str) -> bool {
        self.kinds.iter().any(|kind| kind.name() == name && kind.carries_pulses())
    }

    /// What the times in the packets of the kind called `name` say.
    pub fn clock(&self, name: &str) -> Option<Clock> {
        self.kinds.iter().find(|kind| kind.name() == name).map(|kind| kind.clock())
    }

    /// Adds a kind; a later one of the same name wins.
    pub fn register(&mut self, kind: Box<dyn Kind>) {
        self.kinds.retain(|k| k.name() != kind.name());
        self.kinds.push(kind);
    }

    /// Known kinds.
    pub fn kinds(&self) -> impl Iterator<Item = &dyn Kind> {
        self.kinds.iter().map(|k| &**k)
    }

    /// Configures the detector called `kind`.
    ///
    /// # Errors
    /// Unknown name, `plugin:` (not yet), or a refused configuration.
    pub fn configure(&self, kind: &str, setup: &Setup) -> Result<Box<dyn Detector>, SetupError> {
        if kind.starts_with("plugin:") {
            return Err(SetupError::PluginNotYet { kind: kind.to_owned() });
        }
        let known = || self.kinds().map(Kind::name).collect::<Vec<_>>().join(", ");
        let found = self.kinds().find(|k| k.name() == kind);
        let unknown = || SetupError::UnknownKind { kind: kind.to_owned(), known: known() };
        let found = found.ok_or_else(unknown)?;
        let given = !(setup.calibration.is_empty() && setup.calibration_path.is_empty());
        if given && !found.takes_calibration() {
            return Err(SetupError::Value {
                key: "detector.calibration".to_owned(),
                value: setup.calibration_path.clone(),
                allowed: format!("none: {kind} has no calibration file"),
            });
        }
        found.configure(setup)
    }
}

#[cfg(test)]
#[path = "marks_tests.rs"]
mod marks_tests;
