//! The configuration: one TOML file, every key a flag, flags win.
//!
//! Flags are laid over the file's table before anything is read, so both go through the same checks.
//! Refuses unknown keys, values outside their range and combinations that cannot work, before anything is
//! opened. Source: `docs/configuration.md`.

use std::path::PathBuf;

use fullcount_core::key::Takes;
use fullcount_core::refusal::Refusal;
use fullcount_detect::detector::{MOST_THREADS, registered};
use fullcount_detect::instructions::Instructions;
use fullcount_io::section;
use serde::{Deserialize, Serialize};

mod keys;
mod outputs;
mod overlay;
pub mod reference;

pub use keys::{all_keys, is_text};
pub use outputs::OutputConfig;
pub use overlay::{Overlay, as_toml};

/// A configuration that cannot be used; exit code 2.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum ConfigError {
    #[error("{file}: {message}")]
    Syntax { file: String, message: String },
    #[error("{key} = {path}: {cause}")]
    File { key: &'static str, path: String, cause: String },
    #[error("--set {setting}: expected KEY=VALUE with a key path, e.g. output.nexus.title=run42")]
    Setting { setting: String },
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(
        "{path}: a geometry of {fits}, not of {kind}: is detector.kind = {fits} (--detector {fits}) meant? ({cause})"
    )]
    OtherGeometry { path: String, fits: String, kind: String, cause: Box<Refusal> },
}

/// A refused value of a key (`output.nexus.flush`), or of a flag that is no key (`--brokers`).
pub fn refuse(key: &'static str, value: impl ToString, allowed: impl Into<String>) -> ConfigError {
    fullcount_core::refusal::refuse(key, value, allowed).into()
}

/// Everything that `run` can be told.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where chunks come from.
    pub source: SourceConfig,
    /// How ticks become nanoseconds and pulses.
    pub time: TimeConfig,
    /// What the chunks are.
    pub detector: DetectorConfig,
    /// Where events go.
    pub output: OutputConfig,
    /// The page.
    pub web: toml::Table,
    /// Commands.
    pub control: crate::control::ControlConfig,
    /// Where numbers go, and under which names.
    pub metrics: toml::Table,
    /// Where messages about the run go.
    pub log: toml::Table,
    /// How the work is done, and when it ends.
    pub engine: EngineConfig,
    /// The file that it was read from: no output may be it.
    #[serde(skip)]
    pub file: Option<PathBuf>,
}

/// A value where most runs need one and some several.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged, expecting = "one value, or a list of values in square brackets")]
pub enum OneOrMore<T> {
    /// One.
    One(T),
    /// Several.
    More(Vec<T>),
}

impl<T> OneOrMore<T> {
    /// All of them.
    pub fn as_slice(&self) -> &[T] {
        match self {
            OneOrMore::One(one) => std::slice::from_ref(one),
            OneOrMore::More(all) => all,
        }
    }
}

/// `[source]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct SourceConfig {
    /// Endpoint, or several, of which each may stand for some more.
    pub url: OneOrMore<String>,
    /// Threads that receive at each endpoint, 1..=64; the senders are shared out among them.
    pub workers: u32,
    /// What keeps packets together on one worker: `sender` (address and port) or `address`.
    pub steer: String,
    /// All endpoints carry the same numbered packets: each number counts once, whichever link
    /// brought it.
    pub redundant: bool,
    /// Socket receive buffer.
    #[serde(deserialize_with = "section::text")]
    pub receive_buffer: String,
    /// How datagrams are received: `auto`, `plain`, `mmsg`, `gro` or `uring`.
    pub engine: String,
    /// CPU that the receiving thread is pinned to; with several workers one for each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core: Option<OneOrMore<usize>>,
    /// Poll without sleeping: lowest loss, a whole core.
    pub busy_poll: bool,
    /// Sleep so long on a timer in the middle of a stream instead of being woken by each arrival; 0 switches
    /// it off. Default: 0.2 to 1 ms, less where the receive buffer is small.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "section::some")]
    pub nap: Option<String>,
    /// Ask the kernel for the time at which each packet came (latency of `sequence`, capture).
    pub timestamps: bool,
    /// Seeded faults put into the stream, for tests (`loss=0.01,seed=7`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// Keys of the kind's own.
    #[serde(
        skip_serializing_if = "toml::Table::is_empty",
        serialize_with = "section::without_secrets"
    )]
    pub options: toml::Table,
}

impl Default for SourceConfig {
    fn default() -> Self {
        SourceConfig {
            url: OneOrMore::One(crate::registered::sources().usual().into()),
            workers: 1,
            steer: "sender".into(),
            redundant: false,
            // 64 MiB hold 50 ms of 10 Gb/s: longer than any pause of a pinned thread seen here.
            receive_buffer: "64MiB".into(),
            engine: "auto".into(),
            core: None,
            busy_poll: false,
            nap: None,
            timestamps: false,
            fault: None,
            options: toml::Table::new(),
        }
    }
}

/// `[time]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct TimeConfig {
    /// `none`, `data` (the default where readouts carry pulses), `grid(PERIOD)` or `grid(PERIOD, PHASE)`; PERIOD `14Hz` or `71428571ns`.
    pub pulse: String,
    /// Time of tick 0: RFC 3339, ns since 1970, or `now`: the host's clock, joined to the detector's by the first packet. `auto` is
    /// `now` for a live source whose format has no absolute time, the clock that a capture carries for its replay, else 1970.
    #[serde(deserialize_with = "section::text")]
    pub epoch: String,
    /// Tick length for formats that do not state one: `1ns`, `125/2ns`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "section::some")]
    pub tick: Option<String>,
}

impl Default for TimeConfig {
    fn default() -> Self {
        TimeConfig { pulse: "none".into(), epoch: crate::timebase::AUTO.into(), tick: None }
    }
}

/// `[detector]`: `kind`, `geometry`, `calibration`, and the kind's own keys.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default)]
pub struct DetectorConfig {
    /// Name of the detector.
    pub kind: String,
    /// Geometry file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub geometry: Option<PathBuf>,
    /// Calibration file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibration: Option<PathBuf>,
    /// Keys that belong to the kind.
    #[serde(flatten)]
    pub options: toml::Table,
}

impl Default for DetectorConfig {
    fn default() -> Self {
        let options = toml::Table::new();
        DetectorConfig {
            kind: registered().usual().into(),
            geometry: None,
            calibration: None,
            options,
        }
    }
}

/// `[engine]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct EngineConfig {
    /// 1: one thread receives and decodes; 2: two, joined by a ring.
    pub threads: u32,
    /// CPU of the second thread; with several workers one for each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process_core: Option<OneOrMore<usize>>,
    /// Threads that make events of hits, the processing one included; 1..=64.
    pub build_threads: usize,
    /// CPU of each further one of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build_core: Option<OneOrMore<usize>>,
    /// Batches that each sink's queue holds.
    pub queue: usize,
    /// Time between two readings of the host's loss counters, which name the places; or `off`.
    #[serde(deserialize_with = "section::text")]
    pub probes: String,
    /// Ends the run after this time.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "section::some")]
    pub duration: Option<String>,
    /// Ends the run when packets have come and then none for this time.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "section::some")]
    pub idle_exit: Option<String>,
    /// Ends the run after this many packets, or a batch more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// End marks end the run once so many streams have come, 1..=65536, and all are complete.
    pub senders: usize,
    /// Part of the packets received that may be refused, `0%` to `100%`; a run with more ends with exit code 3.
    pub max_refused: String,
    /// A module that has sent and then sends nothing for this time is listed as silent, 1 s to 24 h.
    #[serde(deserialize_with = "section::text")]
    pub module_silent: String,
    /// What decoders use whose loops are compiled for several sets: `auto`, `portable`, `x86-64-v3`, `x86-64-v4-vbmi`.
    pub instructions: String,
}

impl Default for EngineConfig {
    fn default() -> Self {
        EngineConfig {
            threads: 1,
            process_core: None,
            build_threads: 1,
            build_core: None,
            queue: 64,
            // One reading costs well below 1 ms (`fullcount lab bench probes`): below 0.1 % of a core.
            probes: "1s".into(),
            duration: None,
            idle_exit: None,
            packets: None,
            senders: 1,
            max_refused: "50%".into(),
            module_silent: "10s".into(),
            instructions: "auto".into(),
        }
    }
}

impl Config {
    /// Lays `flags` (key path, value) over the text of `file` and checks the whole.
    ///
    /// # Errors
    /// Syntax with line and column, unknown keys, values out of range.
    pub fn read(
        file: Option<(&str, &str)>,
        flags: &[(String, toml::Value)],
    ) -> Result<Config, ConfigError> {
        let name = file.map_or("command line", |(name, _)| name);
        let syntax = |m: String| ConfigError::Syntax { file: name.to_owned(), message: m };
        let text = file.map_or("", |(_, text)| text);
        let mut table: toml::Table = toml::from_str(text).map_err(|e| syntax(e.to_string()))?;
        own_names(&mut table)?;
        // Read once as it stands, so that messages carry the file's own line numbers.
        toml::from_str::<Config>(text).map_err(|e| syntax(e.to_string().trim_end().to_owned()))?;
        let in_file = |e: Refusal| match e {
            Refusal::Syntax(message) => syntax(message),
            other => other.into(),
        };
        outputs::check_file(text).map_err(in_file)?;
        // A path in the file means a place beside the file, whoever starts it from where.
        if let Some(folder) = file.and_then(|(name, _)| std::path::Path::new(name).parent()) {
            for key in all_keys().filter(|key| key.takes == Takes::Path) {
                beside(&mut table, &key.path.split('.').collect::<Vec<_>>(), folder);
            }
        }
        for (key, value) in flags {
            let is = |name: &str| key.strip_prefix("detector.") == Some(name);
            let published = PUBLISHED.iter().find(|(name, _)| is(name));
            lay(&mut table, published.map_or(&key[..], |(_, own)| own), value.clone());
        }
        outputs::names_its_file(&table)?;
        own_pulses(&mut table);
        let mut config: Config = toml::Value::Table(table)
            .try_into()
            .map_err(|e: toml::de::Error| syntax(e.to_string().trim_end().to_owned()))?;
        config.file = file.map(|(name, _)| PathBuf::from(name));
        config.check_outputs().map_err(in_file)?;
        config.check()?;
        Ok(config)
    }

    /// The result as a configuration file.
    pub fn to_toml(&self) -> String {
        let shown = self.shown().and_then(|table| {
            toml::to_string_pretty(&table).map_err(|e| Refusal::Syntax(e.to_string()))
        });
        shown.unwrap_or_else(|e| format!("# not printable: {e}\n"))
    }

    /// `engine.max_refused` in percent.
    ///
    /// # Errors
    /// It is no part of a hundred.
    pub fn max_refused(&self) -> Result<f64, ConfigError> {
        let text = &self.engine.max_refused;
        let number = text.trim().strip_suffix('%').and_then(|n| n.trim_end().parse::<f64>().ok());
        let wrong = || refuse("engine.max_refused", text, "a part such as 50%, from 0% to 100%");
        number.filter(|n| (0.0..=100.0).contains(n)).ok_or_else(wrong)
    }

    /// `engine.instructions`, as this processor has them.
    ///
    /// # Errors
    /// It has no such set.
    pub fn instructions(&self) -> Result<Instructions, ConfigError> {
        let name = &self.engine.instructions;
        Instructions::named(name).map_err(|e| refuse("engine.instructions", name, e.to_string()))
    }

    fn check(&self) -> Result<(), ConfigError> {
        if !(1..=64).contains(&self.source.workers) {
            return Err(refuse("source.workers", self.source.workers, "1 to 64"));
        }
        if !matches!(self.engine.threads, 1 | 2) {
            let why = "1 (receive and decode on one thread) or 2 (one each); more cores are used by \
                       source.workers (--workers N: threads that receive, senders shared out) and, of \
                       detectors that allow it, engine.build_threads (--build-threads N)";
            return Err(refuse("engine.threads", self.engine.threads, why));
        }
        if let Some(core) = self.engine.process_core.as_ref().filter(|_| self.engine.threads == 1) {
            let why = "only with engine.threads = 2: there is no second thread to pin";
            return Err(refuse("engine.process_core", list(core.as_slice()), why));
        }
        if !(1..=MOST_THREADS).contains(&self.engine.build_threads) {
            let why = format!("1 to {MOST_THREADS}");
            return Err(refuse("engine.build_threads", self.engine.build_threads, why));
        }
        let further = self.engine.build_threads - 1;
        let build_core = self.engine.build_core.as_ref().map(OneOrMore::as_slice);
        if let Some(cores) = build_core.filter(|cores| cores.len() != further) {
            let why = format!(
                "one CPU for each of the {further} threads that engine.build_threads = {} adds",
                further + 1
            );
            return Err(refuse("engine.build_core", list(cores), why));
        }
        if !(1..=4096).contains(&self.engine.queue) {
            return Err(refuse("engine.queue", self.engine.queue, "1 to 4096 batches"));
        }
        if !(1..=65_536).contains(&self.engine.senders) {
            return Err(refuse("engine.senders", self.engine.senders, "1 to 65536"));
        }
        self.max_refused()?;
        self.instructions()?;
        Ok(())
    }
}

/// Values with commas between them, as in a flag.
pub fn list<T: ToString>(values: &[T]) -> String {
    values.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}

/// Files of `[detector]` by their names in vmm-sdat.
const PUBLISHED: [(&str, &str); 4] = [
    ("cal", "detector.calibration"),
    ("-cal", "detector.calibration"),
    ("geo", "detector.geometry"),
    ("-geo", "detector.geometry"),
];

/// Gives keys with published names ours.
fn own_names(table: &mut toml::Table) -> Result<(), ConfigError> {
    let Some(toml::Value::Table(detector)) = table.get_mut("detector") else { return Ok(()) };
    for (name, key) in PUBLISHED {
        let Some(value) = detector.remove(name) else { continue };
        let path = value.to_string();
        if detector.insert(key.trim_start_matches("detector.").to_owned(), value).is_some() {
            let allowed = format!("once: {} is the same key", name.trim_start_matches('-'));
            return Err(refuse(key, path, &allowed));
        }
    }
    Ok(())
}

/// Readouts that carry pulses give them, unless another way is chosen.
fn own_pulses(table: &mut toml::Table) {
    let find = |section: &str, key: &str| table.get(section).and_then(|s| s.get(key));
    let kind = find("detector", "kind").and_then(toml::Value::as_str).unwrap_or_default();
    if find("time", "pulse").is_none() && registered().carries_pulses(kind) {
        lay(table, "time.pulse", "data".into());
    }
}

/// Makes the relative path at `keys` one that begins at `folder`.
fn beside(table: &mut toml::Table, keys: &[&str], folder: &std::path::Path) {
    let Some((first, rest)) = keys.split_first() else { return };
    match table.get_mut(*first) {
        Some(toml::Value::String(path)) if rest.is_empty() => {
            *path = folder.join(&*path).display().to_string();
        }
        Some(toml::Value::Table(inner)) => beside(inner, rest, folder),
        _ => {}
    }
}

/// Puts `value` at a dotted key path, making tables on the way.
fn lay(table: &mut toml::Table, key: &str, value: toml::Value) {
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value);
        }
        Some((head, rest)) => {
            let inner = table.entry(head).or_insert_with(|| toml::Table::new().into());
            if !inner.is_table() {
                *inner = toml::Table::new().into();
            }
            if let Some(inner) = inner.as_table_mut() {
                lay(inner, rest, value);
            }
        }
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
