//! The seam to the outputs: kinds that register themselves, what they are told, and what they become.
//!
//! A kind reads its section ([`OutputKind::plan`]) before anything is opened; a [`Plan`] names its files, takes its address
//! ([`Plan::reserve`]), and opens ([`Plan::open`]). It becomes a sink of events or tables, an output of packets where they are
//! received, an output of the run's state, or several of these ([`Opened`]). What replaces something that people may still want is
//! shown last ([`Prepared::publish`]), when all else is open. Source: `docs/architecture.md`, "Seams".

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::command::Command;
use crate::key::Key;
use crate::ledger::{Info, Sheet};
use crate::refusal::Refusal;
use crate::sink::{Sink, SinkError};
use crate::source::{Source, SourceError};
use crate::status::StatusSource;
use crate::tables::Table;
use crate::time::{Nanos, TickLength};
use crate::view::{PixelMap, Plot};
use crate::wall::WallClock;

/// Names of the detectors that give a table which the argument says yes to.
pub type Givers = dyn Fn(&dyn Fn(Table) -> bool) -> Vec<&'static str>;

/// What an output is told of the run before anything is opened.
pub struct OutputSetup<'a> {
    /// The section as given, TOML; empty if there is none.
    pub section: &'a str,
    /// Section of another output, TOML; `None` if it is not configured.
    pub beside: &'a dyn Fn(&str) -> Option<String>,
    /// Name of the detector as in `detector.kind`.
    pub detector: &'a str,
    /// Length of a tick, and whether it was assumed.
    pub tick: (TickLength, bool),
    /// Tables that the detector gives.
    pub tables: &'a [Table],
    /// The detector gives records: events merged of fragments.
    pub records: bool,
    /// Detectors that, as they come, give one of the tables that the argument says yes to.
    pub givers: &'a Givers,
    /// Plots that suit the detector.
    pub plots: &'a [Plot],
    /// Pixels with positions.
    pub pixels: &'a PixelMap,
    /// Packets of one sender can be worked on without those of others.
    pub by_sender: bool,
    /// Time of tick 0.
    pub epoch: Nanos,
    /// `time.epoch` as configured.
    pub epoch_text: &'a str,
    /// `time.pulse` as configured.
    pub pulse: &'a str,
    /// The whole configuration, TOML, without secrets.
    pub configuration: &'a str,
    /// Both clocks, where times are those of the host's.
    pub wall: Option<Arc<WallClock>>,
}

/// What an output is, in one value.
#[derive(Debug, Clone, Copy)]
pub struct DeclaredOutput {
    /// Name: in the ledger, on the page, and of its section unless `section` says otherwise.
    pub name: &'static str,
    /// One line for `--help`.
    pub about: &'static str,
    /// Path of its section.
    pub section: &'static str,
    /// How its section is read.
    pub reading: SectionReading,
    /// Keys of its section, in the order of the reference page.
    pub keys: &'static [Key],
    /// The key that names its file, if it is nothing without one.
    pub named_by: Option<&'static str>,
    /// Counters, each name once, under the titles of the catalogue.
    pub counters: fn() -> Vec<(&'static str, Vec<Info>)>,
    /// True if it is there without a section.
    pub always: bool,
    /// True if events go nowhere else beside it.
    pub alone: bool,
    /// True if it takes events or tables of the detector.
    pub takes_events: bool,
}

/// How a section is read: a serde type, or nothing at all.
#[derive(Debug, Clone, Copy)]
pub struct SectionReading {
    /// Reads the section at a path of a whole file, for the line numbers in what is wrong with it: unknown keys, wrong types,
    /// missing keys.
    pub check: fn(path: &str, file: &str) -> Result<(), Refusal>,
    /// The section with all defaults and without secrets, TOML; refuses the same.
    pub shown: fn(path: &str, section: &str) -> Result<String, Refusal>,
}

impl DeclaredOutput {
    /// An output of events that is there if it has a section, without keys yet.
    pub const fn new(
        name: &'static str,
        section: &'static str,
        about: &'static str,
        reading: SectionReading,
    ) -> DeclaredOutput {
        let (keys, named_by, counters): (_, _, fn() -> _) = (&[], None, Vec::new);
        let (always, alone, takes_events) = (false, false, true);
        DeclaredOutput {
            name,
            about,
            section,
            reading,
            keys,
            named_by,
            counters,
            always,
            alone,
            takes_events,
        }
    }
}

macro_rules! as_declared {
    ($($fact:ident: $type:ty,)+) => {
        $(#[doc = "As declared."] fn $fact(&self) -> $type { self.declared().$fact })+
    };
}

/// An output that can be configured.
pub trait OutputKind: Send + Sync {
    /// What it is.
    fn declared(&self) -> &'static DeclaredOutput;

    /// Checks the section; `None` if it says that there is to be none (`off`).
    ///
    /// # Errors
    /// Key, value and what is allowed.
    fn plan(&self, setup: &OutputSetup<'_>) -> Result<Option<Box<dyn Plan>>, Refusal>;

    as_declared! {
        name: &'static str, about: &'static str, section: &'static str, named_by: Option<&'static str>,
        always: bool, alone: bool, takes_events: bool,
    }

    /// As declared.
    fn keys(&self) -> Vec<Key> {
        self.declared().keys.to_vec()
    }

    /// As declared.
    fn counters(&self) -> Vec<(&'static str, Vec<Info>)> {
        (self.declared().counters)()
    }

    /// As [`SectionReading::check`].
    fn check(&self, file: &str) -> Result<(), Refusal> {
        (self.declared().reading.check)(self.section(), file)
    }

    /// As [`SectionReading::shown`].
    fn shown(&self, section: &str) -> Result<String, Refusal> {
        (self.declared().reading.shown)(self.section(), section)
    }
}

/// What is done with a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// A file that the run reads.
    Read(&'static str, PathBuf),
    /// A file that the run makes.
    Written(&'static str, PathBuf),
    /// The same, with this ending behind its name while it is made.
    WrittenBeside(&'static str, PathBuf, &'static str),
    /// A folder with files that the run makes and removes.
    Folder(&'static str, PathBuf),
    /// `run-00001.pcapng`, `run-00002.pcapng`, …
    Series(&'static str, PathBuf),
}

/// An answer that may change while the run goes on.
pub type Ask = Arc<dyn Fn() -> bool + Send + Sync>;

/// What tells an output that the end is near.
#[derive(Clone)]
pub struct Ending {
    /// Somebody asked to stop.
    pub requested: Ask,
    /// Nothing more is received.
    pub over: Ask,
    /// Somebody asked twice: what waits is given up.
    pub hurried: Ask,
    /// Told by an output that has waited in the midst of the run for as long as it may at the end (`drain`), and nothing went. True if the
    /// run ends for it, as one does that is for so many packets and would wait for them for ever.
    pub stuck: Ask,
}

/// What an interrupted replay is known by again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replay {
    /// Everything the events follow from: source, detector, times.
    pub identity: String,
    /// For people: what is replayed.
    pub title: String,
    /// Begin anew, whatever an earlier run left.
    pub restart: bool,
    /// Where a topic's partitions begin, by partition; empty for a file.
    pub starts: BTreeMap<i32, i64>,
}

/// What an output is told when it is opened.
pub struct Opening {
    /// Threads that receive.
    pub workers: usize,
    /// The end of the run.
    pub ending: Ending,
    /// The run is a replay that can be gone on with.
    pub replay: Option<Replay>,
}

/// Why an output cannot be opened or served, in a sentence with path or address.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct OutputOpenError(pub String);

/// A checked output.
pub trait Plan: Send + Sync {
    /// Files that it takes, so that no two outputs have one.
    fn claims(&self) -> Vec<Claim> {
        Vec::new()
    }

    /// Folder of its spool.
    fn spool(&self) -> Option<PathBuf> {
        None
    }

    /// True if it takes packets where they are received.
    fn takes_packets(&self) -> bool {
        false
    }

    /// True if messages about the run go to it: it is opened before all others, so that it hears why one cannot be, and is told until
    /// the plan is dropped.
    fn takes_messages(&self) -> bool {
        false
    }

    /// True if it can go on with an interrupted replay; `restart`: it is to begin anew.
    fn resumes(&self) -> Option<bool> {
        None
    }

    /// Where the partitions of an unfinished replay of this identity begin, if it knows one.
    fn unfinished(&self, identity: &str) -> Option<BTreeMap<i32, i64>> {
        let _ = identity;
        None
    }

    /// File in which a source may keep the order of its partitions; it goes with the replay.
    fn order_file(&self) -> Option<PathBuf> {
        None
    }

    /// Takes addresses: a port in use is the likeliest reason for a start to fail, and then no file has been touched.
    ///
    /// # Errors
    /// The address is in use.
    fn reserve(&mut self) -> Result<(), OutputOpenError> {
        Ok(())
    }

    /// Opens it.
    ///
    /// # Errors
    /// What cannot be opened.
    fn open(&mut self, opening: &Opening) -> Result<Opened, OutputOpenError>;
}

/// What an opened output is made of.
#[derive(Default)]
pub struct Opened {
    /// Takes products.
    pub sink: Option<Box<dyn Sink>>,
    /// The same, shown when all outputs are open.
    pub prepared: Option<Box<dyn Prepared>>,
    /// Takes packets.
    pub packets: Option<Box<dyn PacketOutput>>,
    /// Shows the run.
    pub page: Option<Box<dyn StateOutput>>,
    /// What can be told to it while the run goes on.
    pub commands: Vec<Command>,
    /// For people, a fact a line.
    pub facts: Vec<String>,
}

impl From<Box<dyn Sink>> for Opened {
    fn from(sink: Box<dyn Sink>) -> Opened {
        Opened { sink: Some(sink), ..Opened::default() }
    }
}

/// An output whose file is complete but not yet at its place.
pub trait Prepared: Send {
    /// Moves it there; what stands there is replaced or recovered now.
    ///
    /// # Errors
    /// It cannot be moved.
    fn publish(self: Box<Self>) -> Result<(Box<dyn Sink>, Vec<String>), OutputOpenError>;
}

/// What an output of packets has done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PacketReport {
    /// Path or address.
    pub place: String,
    /// Packets written or confirmed.
    pub packets: u64,
    /// Bytes, framing included.
    pub bytes: u64,
    /// Files begun; `None`: it writes none.
    pub files: Option<u64>,
}

/// An opened output of packets.
pub trait PacketOutput: Send {
    /// Name in the summary.
    fn name(&self) -> &'static str;

    /// Counters of the side that takes.
    fn sheet(&self) -> Arc<Sheet>;

    /// Up to which batch of a worker all is safe with it; `None` if its losses are none of the run.
    fn safe(&self, worker: usize) -> Option<Arc<AtomicU64>>;

    /// Its losses are losses of the run.
    fn required(&self) -> bool {
        self.safe(0).is_some()
    }

    /// Wraps the source of one worker, with the counters of the wrapper.
    ///
    /// # Errors
    /// The source cannot say when its packets came.
    fn tap(
        &mut self,
        source: Box<dyn Source>,
        name: &str,
    ) -> Result<(Box<dyn Source>, Arc<Sheet>), SourceError>;

    /// Starts its thread; `on_failure` is called at once when it fails.
    ///
    /// # Errors
    /// The system refuses a thread.
    fn start(
        self: Box<Self>,
        on_failure: Box<dyn Fn(&SinkError) + Send>,
    ) -> std::io::Result<Box<dyn Recording>>;
}

/// An output of packets under way.
pub trait Recording: Send {
    /// Waits for the end, which comes when all wrapped sources have gone.
    ///
    /// # Errors
    /// Why not all was taken.
    fn finish(self: Box<Self>) -> Result<PacketReport, String>;
}

/// An output of the run's state, its address taken.
pub trait StateOutput: Send {
    /// Its counters; all of them tell, none is part of a balance.
    fn sheets(&self) -> Vec<Arc<Sheet>> {
        Vec::new()
    }

    /// Begins to show `run`.
    ///
    /// # Errors
    /// The system refuses a thread.
    fn serve(
        self: Box<Self>,
        run: Arc<dyn StatusSource>,
    ) -> Result<Box<dyn Serving>, OutputOpenError>;
}

/// An output of the run's state under way; ends when it is dropped.
pub trait Serving: Send {
    /// Where it listens.
    fn address(&self) -> Option<SocketAddr>;

    /// For people; empty: nothing to say.
    fn fact(&self) -> String;

    /// Path of its section, if it can take a changed one while it runs.
    fn reads_again(&self) -> Option<&'static str> {
        None
    }

    /// Checks a changed section, TOML, before any part takes one.
    ///
    /// # Errors
    /// Key, value and what is allowed.
    fn check_again(&self, section: &str) -> Result<(), Refusal> {
        let _ = section;
        Ok(())
    }

    /// Takes a changed section.
    ///
    /// # Errors
    /// What cannot be opened; all else is as the section says.
    fn read_again(&self, section: &str) -> Result<(), OutputOpenError> {
        let _ = section;
        Ok(())
    }
}

/// Outputs by name, in the order in which they are opened.
#[derive(Default)]
pub struct Outputs {
    kinds: Vec<Box<dyn OutputKind>>,
    left_out: Vec<(&'static str, &'static str)>,
}

impl Outputs {
    /// Adds a kind; a later one of the same name takes the place of the earlier.
    pub fn register(&mut self, kind: Box<dyn OutputKind>) {
        match self.kinds.iter_mut().find(|k| k.name() == kind.name()) {
            Some(place) => *place = kind,
            None => self.kinds.push(kind),
        }
    }

    /// Known kinds.
    pub fn kinds(&self) -> impl Iterator<Item = &dyn OutputKind> {
        self.kinds.iter().map(|kind| &**kind)
    }

    /// Notes that this build was made without the output at `section`, which a build with `feature` has.
    pub fn leave_out(&mut self, section: &'static str, feature: &'static str) {
        self.left_out.push((section, feature));
    }

    /// Sections of outputs that this build was made without, each with the feature that brings it.
    pub fn left_out(&self) -> &[(&'static str, &'static str)] {
        &self.left_out
    }

    /// The kind whose section is at `path`.
    pub fn of_section(&self, path: &str) -> Option<&dyn OutputKind> {
        self.kinds().find(|kind| kind.section() == path)
    }
}
