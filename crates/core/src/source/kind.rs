//! What a source declares before anything is opened, and what it is told when it is.
//!
//! A kind ([`SourceKind`]) is a URL scheme. It reads a URL ([`SourceKind::plan`]) without touching the system and gives a checked
//! endpoint ([`SourceEndpoint`]), which answers what the run asks before it begins (files, live or recorded, clock, replay) and
//! becomes one source for each worker ([`SourceEndpoint::open`]). A carrier is a kind whose endpoint holds another one
//! ([`SourceSetup::endpoint`]). Source: `docs/architecture.md`, "Seams".

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::{FrameRule, Source, SourceError, Sources};
use crate::batch::Origin;
use crate::ledger::Info;
use crate::refusal::{Refusal, refuse};
use crate::url::{Scheme, SchemeKey};
use crate::wall::WallClock;

/// A key of a kind's URLs, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UrlKey {
    /// As typed.
    pub name: &'static str,
    /// What it takes, with unit and range.
    pub takes: &'static str,
    /// What holds without it; `–`: nothing.
    pub default: &'static str,
    /// What it means.
    pub about: &'static str,
}

impl UrlKey {
    /// Those of a scheme.
    pub fn of<T: Scheme>() -> Vec<UrlKey> {
        let one = |key: &SchemeKey<T>| {
            let SchemeKey { name, takes, default, about, .. } = *key;
            UrlKey { name, takes, default, about }
        };
        T::KEYS.iter().map(one).collect()
    }
}

/// Counters of a receiver that takes frames from an interface: exact, and of this receiver alone. Where they exist, they tell what
/// the network's sums over all programs cannot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FrameCounters {
    /// Damaged datagrams.
    pub damaged: &'static [&'static str],
    /// Trains longer than the MTU that cannot be cut.
    pub uncut: &'static [&'static str],
    /// Fragments that are not put together.
    pub fragments: &'static [&'static str],
}

/// What the keys of `source.options` are for a source.
#[derive(Debug, Clone, Copy)]
pub struct SourceOptions {
    /// Whose they are, as part of a sentence.
    pub whose: &'static str,
    /// More of them, for the reference page.
    pub meaning: &'static str,
}

/// A source that a URL can name.
pub trait SourceKind: Send + Sync {
    /// Its scheme, in small letters.
    fn name(&self) -> &'static str;

    /// Other schemes for the same.
    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }

    /// One line for people.
    fn about(&self) -> &'static str;

    /// How its URLs are written, with an example.
    fn form(&self) -> &'static str;

    /// A URL that is accepted as it stands, for help texts.
    fn example(&self) -> &'static str;

    /// Keys of its URLs.
    fn keys(&self) -> Vec<UrlKey>;

    /// The URL that a run without one takes; of the first kind that has one.
    fn usual(&self) -> Option<&'static str> {
        None
    }

    /// What the keys of `source.options` are for it; `None`: it has none.
    fn options(&self) -> Option<SourceOptions> {
        None
    }

    /// True if several of its endpoints form one source, and several workers may share one endpoint.
    fn several(&self) -> bool {
        false
    }

    /// The URLs that this one stands for: `udp://HOST:FIRST-LAST` is a port each.
    ///
    /// # Errors
    /// What is wrong with it.
    fn each(&self, url: &str) -> Result<Vec<String>, String> {
        Ok(vec![url.to_owned()])
    }

    /// The URL that a text without a scheme was probably meant to be.
    fn meant(&self, text: &str) -> Option<String> {
        let _ = text;
        None
    }

    /// Counters, each name once, under the titles of the catalogue.
    fn counters(&self) -> Vec<(&'static str, Vec<Info>)>;

    /// Of a receiver that takes frames from an interface.
    fn frames(&self) -> Option<FrameCounters> {
        None
    }

    /// Reads a URL; touches neither network nor disk.
    ///
    /// # Errors
    /// Key, value and what is allowed.
    fn plan(&self, url: &str, setup: &SourceSetup<'_>) -> Result<Box<dyn SourceEndpoint>, Refusal>;
}

/// In a [`SourceKind`]: what the scheme of its URLs says, with a line for people and a URL for help texts.
#[macro_export]
macro_rules! source_of_scheme {
    ($url:ty: $about:expr, $example:expr) => {
        fn name(&self) -> &'static str {
            <$url as $crate::url::Scheme>::NAME
        }

        fn about(&self) -> &'static str {
            $about
        }

        fn form(&self) -> &'static str {
            <$url as $crate::url::Scheme>::FORM
        }

        fn example(&self) -> &'static str {
            $example
        }

        fn keys(&self) -> Vec<$crate::source::UrlKey> {
            $crate::source::UrlKey::of::<$url>()
        }
    };
}

/// What a kind is told of `[source]` beside the URL.
#[derive(Clone, Copy)]
pub struct SourceSetup<'a> {
    /// All kinds, for one that carries another.
    pub sources: &'a Sources,
    /// `source.receive_buffer`, bytes.
    pub receive_buffer: u64,
    /// The same as configured, if it is not the default.
    pub receive_buffer_given: Option<&'a str>,
    /// `source.engine`.
    pub engine: &'a str,
    /// `source.busy_poll`.
    pub busy_poll: bool,
    /// `source.nap`.
    pub nap: Option<&'a str>,
    /// `[source.options]`, TOML.
    pub options: &'a str,
}

impl<'a> SourceSetup<'a> {
    /// Nothing is configured: for a kind without an engine, and for tests.
    pub fn plain(sources: &'a Sources) -> SourceSetup<'a> {
        SourceSetup {
            sources,
            receive_buffer: 64 << 20,
            receive_buffer_given: None,
            engine: "auto",
            busy_poll: false,
            nap: None,
            options: "",
        }
    }

    /// The endpoint of another URL with the same settings: what a carrier is around.
    ///
    /// # Errors
    /// An unknown scheme; what that kind refuses.
    pub fn endpoint(&self, url: &str) -> Result<Box<dyn SourceEndpoint>, Refusal> {
        let (kind, url) =
            self.sources.find(url).map_err(|e| refuse("source.url", &e.url, e.to_string()))?;
        kind.plan(&url, self)
    }
}

/// Moves counters and times inside packets on, so that a repeated capture looks like one long run.
pub trait Shifter: Send {
    /// Sees each packet of the capture once, in order, before the first repetition.
    fn learn(&mut self, payload: &[u8], origin: Origin);

    /// Changes a packet in place for repetition 1, 2, ….
    fn shift(&mut self, payload: &mut [u8], origin: Origin, repetition: u64);
}

/// A clock that begins anew so often that its turns are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurningClock {
    /// Length of a turn, ns.
    pub turn_ns: u64,
    /// Receive times tell the turn of each stream by itself; else all packets must come in the order in which they were sent.
    pub by_times: bool,
}

/// A moment from which the turns of a clock are counted: of a packet that came first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnsFrom {
    /// When it was received, ns since 1970.
    pub time_ns: i64,
    /// Its time in ticks of the clock.
    pub ticks: i64,
}

/// What a source may ask of the decoder behind it.
pub trait Downstream {
    /// It follows the numbers of each sender: a packet must say who sent it.
    fn by_sender(&self) -> bool;

    /// The clock in the packets, if its turns are counted.
    fn turning_clock(&self) -> Option<TurningClock>;

    /// What a packet that was received then (ns since 1970) says of the turning clock; `None` if it is none of its own.
    fn turns_from(&self, packet: &[u8], time_ns: i64) -> Option<TurnsFrom>;

    /// Of a recording whose streams are read apart: turns are counted from there, whatever is read first.
    fn count_turns(&self, from: TurnsFrom);

    /// How a byte stream is cut into its packets, if its format says so.
    fn framing(&self) -> Option<FrameRule> {
        None
    }

    /// The rule that moves packets of a repeated recording on.
    fn shifter(&self) -> Option<Box<dyn Shifter>>;
}

/// What an endpoint is told when it is opened.
#[derive(Clone, Copy)]
pub struct SourceOpening<'a> {
    /// Workers that share it, from 1; above 1 only where [`SourceKind::several`] says so.
    pub workers: u32,
    /// A sender's address alone, not its port, decides on which worker its packets come in.
    pub by_address: bool,
    /// Any packet may come in on any worker, so that the buffers of all are there for one sender. Times tell the order.
    pub spread: bool,
    /// Packets carry the time at which they were received.
    pub timestamps: bool,
    /// Everything is captured, or times are the host's: each packet of a recording keeps its own time.
    pub exact_times: bool,
    /// The decoder's format knows only IPv4 datagrams in one packet.
    pub whole_ipv4: bool,
    /// Time of tick 0, ns since 1970: packets that travel with another are refused.
    pub epoch_ns: i64,
    /// The decoder, if one is behind it.
    pub downstream: Option<&'a dyn Downstream>,
}

impl SourceOpening<'_> {
    /// One worker, no decoder, nothing asked for.
    pub const PLAIN: SourceOpening<'static> = SourceOpening {
        workers: 1,
        by_address: false,
        spread: false,
        timestamps: false,
        exact_times: false,
        whole_ipv4: false,
        epoch_ns: 0,
        downstream: None,
    };
}

/// An opened source: what one worker reads.
pub struct OpenedSource {
    /// The source.
    pub source: Box<dyn Source>,
    /// For people: where it reads.
    pub label: String,
    /// Address of the socket, if it is one.
    pub local: Option<SocketAddr>,
}

impl OpenedSource {
    /// One that has no socket.
    pub fn new(source: impl Source + 'static, label: impl Into<String>) -> OpenedSource {
        OpenedSource { source: Box::new(source), label: label.into(), local: None }
    }
}

/// Why an endpoint could not be opened; the sentence names address or path.
#[derive(Debug, thiserror::Error)]
pub enum SourceOpenError {
    /// The system or a server said no.
    #[error(transparent)]
    Failed(Box<dyn std::error::Error + Send + Sync>),
    /// What it holds cannot be right for this configuration; exit code 2.
    #[error(transparent)]
    Unfit(#[from] Refusal),
}

impl SourceOpenError {
    /// The system or a server said no.
    pub fn failed(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> SourceOpenError {
        SourceOpenError::Failed(cause.into())
    }
}

impl From<SourceError> for SourceOpenError {
    fn from(e: SourceError) -> SourceOpenError {
        SourceOpenError::failed(e)
    }
}

/// What is known of an interrupted replay of the same source.
pub struct ReplayedFrom<'a> {
    /// Where its partitions began, by partition; `None`: there was none, or it is to begin anew.
    pub earlier: Option<&'a BTreeMap<i32, i64>>,
    /// A file for the order of reading, which outlives the process and goes with the replay.
    pub order: &'a Path,
}

/// A recording that can be read again in the same way.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Replayable {
    /// What tells it from another of the same name: lines of text.
    pub about: String,
    /// Where its partitions begin, by partition; empty for a file.
    pub starts: BTreeMap<i32, i64>,
}

/// A checked URL.
pub trait SourceEndpoint: Send + Sync {
    /// Files that it reads, with the key that names them: no output may be one of them.
    fn reads(&self) -> Vec<(&'static str, PathBuf)> {
        Vec::new()
    }

    /// Looks whether what is read is there. Last of all checks: what is wrong in the configuration is said first.
    ///
    /// # Errors
    /// The system's words: a misspelt name is a wrong option, not a failure of the run.
    fn is_there(&self) -> Result<(), String> {
        Ok(())
    }

    /// True if packets come in now; false if they were recorded.
    fn is_live(&self) -> bool {
        true
    }

    /// What a recording says of the detector's clock and the host's when it was made.
    ///
    /// # Errors
    /// What it says is damaged.
    fn recorded_clock(&self) -> Result<Option<WallClock>, Refusal> {
        Ok(None)
    }

    /// Makes ready to read it so that a killed run can go on; `None`: it cannot be read twice.
    ///
    /// # Errors
    /// It no longer holds what was read before; nobody answers.
    fn replay(&mut self, from: &ReplayedFrom<'_>) -> Result<Option<Replayable>, SourceOpenError> {
        let _ = from;
        Ok(None)
    }

    /// Opens it: a source for each worker.
    ///
    /// # Errors
    /// What could not be opened, with its address or path and the system's words.
    fn open(&self, opening: &SourceOpening<'_>) -> Result<Vec<OpenedSource>, SourceOpenError>;
}
