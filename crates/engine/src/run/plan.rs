//! A configuration that has passed every check that needs no socket, output file or thread.
//!
//! Source: `docs/configuration.md`.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fullcount_core::view::PixelMap;
use fullcount_core::wall::WallClock;
use fullcount_detect::detector::{Clock, Detector, Setup, Sharding, registered};
use fullcount_detect::instructions::Instructions;
use fullcount_io::input_file;
use fullcount_io::quantity;

use crate::claims;
use crate::config::{Config, ConfigError, EngineConfig, OneOrMore, TimeConfig, refuse};
use crate::open::{SourcePlan, check_cores};
use crate::outputs::OutputPlan;
use crate::pipeline::RunLimits;
use crate::timebase;

/// Numbers by which one link of a redundant pair may lag behind the other: the most that `sequence` takes;
/// 50 ms of 10 Gb/s in packets of 64 B are as many.
const REDUNDANT_WINDOW: i64 = 1 << 20;

/// A checked configuration.
pub struct RunPlan {
    pub(super) verb: &'static str,
    pub(super) source: SourcePlan,
    pub(super) detector: Arc<dyn Detector>,
    pub(super) pixels: PixelMap,
    pub(super) outputs: OutputPlan,
    pub(super) limits: RunLimits,
    pub(super) threads: u32,
    pub(super) process_cores: Vec<usize>,
    /// Threads of the builder, the processing one included, and CPUs of the further ones.
    pub(super) build_threads: usize,
    pub(super) build_cores: Vec<usize>,
    pub(super) queue: usize,
    pub(super) replay: Option<crate::replay::ReplayPlan>,
    /// Time between two readings of the host's counters.
    pub(super) probes: Option<Duration>,
    /// From here on a module that sends nothing is silent.
    pub(super) module_silent: Duration,
    /// Of `run`: percent of the packets that may be refused.
    pub(super) max_refused: Option<f64>,
    /// Both clocks, where times are those of the host's.
    pub(super) wall: Option<Arc<WallClock>>,
    /// What decoders use.
    pub(super) instructions: Instructions,
}

impl RunPlan {
    /// Checks everything that can be checked before anything is opened.
    ///
    /// # Errors
    /// Key, value and what is allowed.
    pub fn new(verb: &'static str, config: &Config) -> Result<RunPlan, ConfigError> {
        let mut source = SourcePlan::new(&config.source)?;
        let mut config = Cow::Borrowed(config);
        if source.redundant() {
            let redundant = redundant(&config)?;
            config.to_mut().detector.options = redundant;
        }
        let live = source.is_live();
        let (time, wall) = clocks(&config, &source)?;
        config.to_mut().time = time;
        let config = &*config;
        let detector: Arc<dyn Detector> = configure(config)?.into();
        source.for_detector(&*detector);
        if wall.is_some() {
            source.for_wall();
        }
        let workers = source.workers();
        let build_threads = build_threads(config, workers, &*detector)?;
        let build_cores = list(config.engine.build_core.as_ref());
        check_cores("engine.build_core", &build_cores, build_cores.len())?;
        let pixels = detector.pixels();
        let outputs = OutputPlan::new(config, &*detector, &pixels, wall.as_ref())?;
        let replay = outputs.resumes().map(|how| crate::replay::ReplayPlan::new(config, how));
        source.epoch_is(timebase::read(&config.time)?.epoch.0);
        if outputs.captures() {
            source.for_capture();
        }
        claims::check(config, &source, &outputs)?;
        let process_cores = list(config.engine.process_core.as_ref());
        check_cores("engine.process_core", &process_cores, workers)?;
        let limits = limits(&config.engine, live && wall.is_some())?;
        let (threads, queue) = (config.engine.threads, config.engine.queue);
        let probes = probe_interval(&config.engine.probes)?;
        // `receive` is for telling what comes; a demo makes its packets itself.
        let max_refused = if verb == "run" { Some(config.max_refused()?) } else { None };
        source.is_there()?;
        Ok(RunPlan {
            verb,
            source,
            detector,
            pixels,
            outputs,
            limits,
            threads,
            process_cores,
            build_threads,
            build_cores,
            queue,
            replay,
            probes,
            module_silent: module_silent(&config.engine.module_silent)?,
            max_refused,
            wall,
            instructions: config.instructions()?,
        })
    }

    /// Pixels of the detector.
    pub fn pixels(&self) -> &PixelMap {
        &self.pixels
    }
}

/// Options of the detector for redundant links.
fn redundant(config: &Config) -> Result<toml::Table, ConfigError> {
    if config.detector.kind != "sequence" {
        let why = "only with detector.kind = sequence: numbers of fewer than 32 bits cannot \
                   prove that a packet is a copy";
        return Err(refuse("source.redundant", true, why));
    }
    let mut options = config.detector.options.clone();
    options.insert("key".into(), "id".into());
    // One link may lag behind the other by what a switch or socket holds.
    options.entry("window").or_insert(REDUNDANT_WINDOW.into());
    Ok(options)
}

/// `[time]` with what was left to choose, and both clocks where times are those of the host's.
fn clocks(
    config: &Config,
    source: &SourcePlan,
) -> Result<(TimeConfig, Option<Arc<WallClock>>), ConfigError> {
    let live = source.is_live();
    let mut time = timebase::choose(&config.time, &config.detector.kind, live)?;
    let mut wall = None;
    if config.time.epoch == timebase::AUTO && !live {
        wall = source.recorded_clock()?;
    } else if time.epoch == timebase::NOW {
        let local = registered().clock(&config.detector.kind) == Some(Clock::Local);
        wall = Some(if local { WallClock::of_arrivals(true) } else { WallClock::live() });
    }
    if wall.is_some() {
        time.epoch = timebase::NOW.into();
    }
    Ok((time, wall.map(Arc::new)))
}

/// Threads of each builder; refuses more workers or threads than the detector can have.
fn build_threads(
    config: &Config,
    workers: usize,
    detector: &dyn Detector,
) -> Result<usize, ConfigError> {
    let sharding = detector.sharding();
    if workers > 1 && sharding != Sharding::ByKey {
        let why = format!("1 with detector.kind = {}: its readouts must meet", detector.name());
        return Err(refuse("source.workers", workers, why));
    }
    let threads = config.engine.build_threads;
    let most = if let Sharding::Exact(most) = sharding { most } else { 1 };
    if threads > most {
        let why = match most {
            1 => format!("1 with detector.kind = {}: its builder has one thread", detector.name()),
            _ => format!("1 to {most} with detector.kind = {}", detector.name()),
        };
        return Err(refuse("engine.build_threads", threads, why));
    }
    Ok(threads)
}

fn list(cores: Option<&OneOrMore<usize>>) -> Vec<usize> {
    cores.map_or(Vec::new(), |c| c.as_slice().to_vec())
}

/// What ends a run. `stamp`: batches are to carry the host's time.
fn limits(engine: &EngineConfig, stamp: bool) -> Result<RunLimits, ConfigError> {
    let time = |key, text: &Option<String>| {
        let read = |t: &String| quantity::duration(t).map_err(|e| refuse(key, t, e.to_string()));
        text.as_ref().map(read).transpose()
    };
    Ok(RunLimits {
        duration: time("engine.duration", &engine.duration)?,
        idle: time("engine.idle_exit", &engine.idle_exit)?,
        packets: engine.packets,
        senders: engine.senders,
        past_end_mark: false,
        stamp,
    })
}

/// `engine.probes`: every 100 ms at most, so that measuring makes no losses; every minute at least.
fn probe_interval(text: &str) -> Result<Option<Duration>, ConfigError> {
    if text == "off" {
        return Ok(None);
    }
    let why = "100ms to 60s, or off";
    let time = quantity::duration(text).ok();
    let range = Duration::from_millis(100)..=Duration::from_secs(60);
    match time.filter(|t| range.contains(t)) {
        Some(time) => Ok(Some(time)),
        None => Err(refuse("engine.probes", text, why)),
    }
}

/// `engine.module_silent`: modules are looked at ten times a second.
fn module_silent(text: &str) -> Result<Duration, ConfigError> {
    let time = quantity::duration(text).ok();
    let range = Duration::from_secs(1)..=Duration::from_secs(86_400);
    let time = time.filter(|time| range.contains(time));
    time.ok_or_else(|| refuse("engine.module_silent", text, "1s to 24h"))
}

/// Text and path of a file that `[detector]` names; both empty if it names none.
fn detector_file(key: &'static str, path: Option<&Path>) -> Result<(String, String), ConfigError> {
    let Some(path) = path else { return Ok(Default::default()) };
    let name = path.display().to_string();
    match input_file::text(path, input_file::LARGEST_INPUT) {
        Ok(text) => Ok((text, name)),
        Err(e) => Err(ConfigError::File { key, path: name, cause: e.to_string() }),
    }
}

/// Reads geometry, calibration and `[detector]` and makes the detector of a configuration.
///
/// # Errors
/// Unknown kind, unreadable geometry or calibration file, refused options.
pub fn configure(config: &Config) -> Result<Box<dyn Detector>, ConfigError> {
    let detector = &config.detector;
    let (geometry, geometry_path) =
        detector_file("detector.geometry", detector.geometry.as_deref())?;
    let (calibration, calibration_path) =
        detector_file("detector.calibration", detector.calibration.as_deref())?;
    let options = toml::to_string(&detector.options).unwrap_or_default();
    let time = timebase::read(&config.time)?;
    let setup = Setup {
        geometry,
        geometry_path,
        calibration,
        calibration_path,
        options,
        time,
        instructions: config.instructions()?,
    };
    registered()
        .configure(&detector.kind, &setup)
        .map_err(|e| crate::other_geometry::named(e, &detector.kind, setup))
}
