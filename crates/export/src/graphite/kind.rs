//! `[metrics]`: where Graphite is, and what the names begin with. Refuses addresses, prefixes and periods that cannot be.
//!
//! Source: `docs/configuration.md`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fullcount_core::key::Key;
use fullcount_core::key::Takes::{Text, Value};
use fullcount_core::ledger::{Info, Merge, Role, Sheet, Unit};
use fullcount_core::naming::Naming;
use fullcount_core::output::{
    DeclaredOutput, Opened, Opening, OutputKind, OutputOpenError, OutputSetup, Plan, Serving,
    StateOutput,
};
use fullcount_core::refusal::{Refusal, refuse};
use fullcount_core::status::StatusSource;
use fullcount_io::{quantity, section};
use serde::{Deserialize, Serialize};

use super::GraphiteCounter;
use super::thread::{GraphiteTask, GraphiteThreads};
use crate::peer::Peer;

/// Path of the section.
const SECTION: &str = "metrics";
/// Carbon's port.
const PORT: u16 = 2003;
/// Most counters without meaning.
const MOST_PADS: u32 = 10_000;

/// `[metrics]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
struct MetricsSection {
    /// Carbon server, or `off`.
    graphite: String,
    /// Whose names they have.
    names: String,
    /// What the detector is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    detector: Option<String>,
    /// First part of the names.
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix: Option<String>,
    /// Second part of the names.
    #[serde(skip_serializing_if = "Option::is_none")]
    region: Option<String>,
    /// Time between two publications.
    #[serde(deserialize_with = "section::text")]
    period: String,
    /// This host and each module as well.
    machine: bool,
    /// Counters without meaning beside the others, for measuring.
    pad: u32,
}

impl Default for MetricsSection {
    fn default() -> Self {
        let (graphite, names, period) = ("off".into(), "ours".into(), "1s".into());
        MetricsSection {
            graphite,
            names,
            detector: None,
            prefix: None,
            region: None,
            period,
            machine: true,
            pad: 0,
        }
    }
}

/// Words with dots between them, as Graphite takes them.
fn is_path(text: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let word = |word: &str| !word.is_empty() && word.chars().all(letter);
    text.len() <= 200 && text.split('.').all(word)
}

impl MetricsSection {
    fn peer(&self) -> Result<Option<Peer>, Refusal> {
        Peer::read("metrics.graphite", &self.graphite, PORT)
    }

    fn period(&self) -> Result<Duration, Refusal> {
        let range = Duration::from_millis(100)..=Duration::from_secs(3600);
        let time = quantity::duration(&self.period).ok().filter(|time| range.contains(time));
        time.ok_or_else(|| refuse("metrics.period", &self.period, "100ms to 1h"))
    }

    /// The run gives names; here they are checked.
    fn check_names(&self) -> Result<(), Refusal> {
        if Naming::read(&self.names).is_none() {
            let known: Vec<&str> = Naming::ALL.iter().map(|(name, _)| *name).collect();
            return Err(refuse("metrics.names", &self.names, known.join(", ")));
        }
        let one_word = |text: &String| is_path(text) && !text.contains('.');
        if let Some(text) = self.detector.as_ref().filter(|text| !one_word(text)) {
            let why = "a word of letters, digits, - and _, up to 200 characters";
            return Err(refuse("metrics.detector", text, why));
        }
        let checked = |key, text: &Option<String>| match text {
            Some(text) if !is_path(text) => {
                let why = "words of letters, digits, - and _ with a dot between them, up to 200 characters";
                Err(refuse(key, text, why))
            }
            _ => Ok(()),
        };
        checked("metrics.prefix", &self.prefix)?;
        checked("metrics.region", &self.region)
    }
}

/// Counters to a Carbon server.
#[derive(Debug)]
pub struct Graphite;

const DECLARED: DeclaredOutput = DeclaredOutput {
    keys: KEYS,
    counters: || vec![("output: graphite", GraphiteCounter::catalogue())],
    always: true,
    takes_events: false,
    ..DeclaredOutput::new(
        "graphite",
        SECTION,
        "all counters to a Carbon server of Graphite",
        section::reading::<MetricsSection>(),
    )
};

impl OutputKind for Graphite {
    fn declared(&self) -> &'static DeclaredOutput {
        &DECLARED
    }

    fn plan(&self, setup: &OutputSetup<'_>) -> Result<Option<Box<dyn Plan>>, Refusal> {
        let section: MetricsSection = section::read(SECTION, setup.section)?;
        section.check_names()?;
        let period = section.period()?;
        let Some(peer) = section.peer()? else { return Ok(None) };
        if section.pad > MOST_PADS {
            return Err(refuse("metrics.pad", section.pad, "0 to 10000"));
        }
        let sheet = Sheet::new(GraphiteCounter::catalogue());
        Ok(Some(Box::new(GraphitePlan(
            GraphiteTask { peer, period, sheet, machine: section.machine },
            section.pad,
        ))))
    }
}

/// A checked section.
struct GraphitePlan(GraphiteTask, u32);

impl Plan for GraphitePlan {
    fn open(&mut self, _: &Opening) -> Result<Opened, OutputOpenError> {
        // Whether the server is there is found out beside the run, which needs it for nothing.
        let page: Box<dyn StateOutput> = Box::new(Ready(self.0.clone(), self.1));
        Ok(Opened { page: Some(page), ..Opened::default() })
    }
}

/// A counter without meaning.
fn pad(number: u32) -> Info {
    Info {
        name: format!("pad.{number:04}").into(),
        unit: Unit::Times,
        merge: Merge::Sum,
        hop: "metrics".into(),
        role: Role::Note,
        meaning: "nothing: it is one of metrics.pad".into(),
        todo: "".into(),
    }
}

/// Ready to begin.
struct Ready(GraphiteTask, u32);

impl StateOutput for Ready {
    fn sheets(&self) -> Vec<Arc<Sheet>> {
        vec![self.0.sheet.clone(), Sheet::new((0..self.1).map(pad).collect())]
    }

    fn serve(
        self: Box<Self>,
        run: Arc<dyn StatusSource>,
    ) -> Result<Box<dyn Serving>, OutputOpenError> {
        let GraphiteTask { peer, period, .. } = &self.0;
        let every = period.as_secs_f64();
        let fact = format!("counters to Graphite at {peer} as {}*, every {every} s", run.prefix());
        let threads =
            GraphiteThreads::start(self.0, run).map_err(|e| OutputOpenError(e.to_string()))?;
        Ok(Box::new(Publishing { fact, _threads: threads }))
    }
}

/// Under way.
struct Publishing {
    fact: String,
    _threads: GraphiteThreads,
}

impl Serving for Publishing {
    fn address(&self) -> Option<SocketAddr> {
        None
    }

    fn fact(&self) -> String {
        self.fact.clone()
    }
}

/// Keys of the section.
const KEYS: &[Key] = &[
    Key::new(
        Text,
        "metrics.graphite",
        "`\"off\"`",
        "`HOST`, `HOST:PORT` or `[IPv6]:PORT` (port 2003 unless given), or `off`",
        "Carbon server that gets all counters ([operations](operations.md#graphite))",
    )
    .flag(
        "graphite",
        "HOST:PORT",
        "Carbon server of Graphite that gets all counters [default: off]",
    ),
    Key::new(
        Text,
        "metrics.names",
        "`\"ours\"`",
        "`ours`, `efu`, `efu2018`",
        "names of counters towards Graphite and on the control port: those of the [catalogue](counters.md), or those of the event formation unit, of today or of 2018 ([which](operations.md#names))",
    ),
    Key::new(
        Text,
        "metrics.detector",
        "–",
        "a word of letters, digits, `-` and `_`, up to 200 characters",
        "what the detector is called in the names of counters and by `DETECTOR_INFO_GET`; without it as its kind",
    ),
    Key::new(
        Text,
        "metrics.prefix",
        "–",
        "words of letters, digits, `-` and `_` with a dot between them, up to 200 characters",
        "first part of the names of counters; without it `fullcount.` and the detector's name; with `names` of the event formation unit `efu.` and its name of the detector",
    ),
    Key::new(
        Text,
        "metrics.region",
        "–",
        "as `metrics.prefix`",
        "second part of the names; without it there is none, with `names = \"efu\"` it is 0",
    ),
    Key::new(
        Text,
        "metrics.period",
        "`\"1s\"`",
        "100ms to 1h",
        "time between two publications; Graphite's times are whole seconds",
    ),
    Key::new(
        Value,
        "metrics.machine",
        "`true`",
        "`true`, `false`",
        "cores, interfaces, UDP and disks of this host (`machine.…`) and each module (`module.…`) go to Graphite as well, once a second at most",
    ),
    Key::new(
        Value,
        "metrics.pad",
        "`0`",
        "0 to 10,000",
        "counters without meaning beside the others, for measuring what publishing costs; only with `metrics.graphite`",
    ),
];

#[cfg(test)]
#[path = "kind_tests.rs"]
mod tests;
