//! Who is started, in which order, and how they end.
//!
//! [`Plan`] is a configuration that has passed every check that needs no socket, output file or thread;
//! [`Running`] is what it becomes. Start: source, sinks, page, pipeline. End: the pipeline drains, sinks
//! finish, the page goes last.

use std::io::Write;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fullcount_core::ledger::{Ledger, Sheet};
use fullcount_core::products::Want;
use fullcount_core::view::PixelMap;
use fullcount_core::wall::{WallClock, WorkerClock};
use fullcount_detect::detector::{Builder, Clock, Detector, Reader, Registry, Setup, Sharding};
use fullcount_detect::instructions::Instructions;
use fullcount_detect::parallel::Threads;
use fullcount_io::host::Host;
use fullcount_io::host::probe::Reading;
use fullcount_io::input_file;
use fullcount_io::quantity;
use fullcount_io::source::Source;

use crate::account::Account;
use crate::claims;
use crate::config::{Config, ConfigError, refuse};
use crate::failed::Failures;
use crate::fanout::{Drains, Fanout};
use crate::open::{OpenError, Opened, SourcePlan, check_cores};
use crate::outputs::OutputPlan;
use crate::pipeline::{Limits, PipelineError, Processing, Progress, Ring};
use crate::pipeline::{run_one_thread, run_two_threads};
use crate::places::watch::{PlaceWatch, Watcher};
use crate::refused::{Refusals, Sampler};
#[cfg(feature = "kafka")]
use crate::settle::{Settle, Settling};
use crate::status::{Part, Status, Watch};
use crate::stop::Stop;
use crate::summary::{Cpu, Output, Summary};
use crate::timebase;

/// A run that could not start or did not end well; exit code 1.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The source could not be opened.
    #[error(transparent)]
    Source(#[from] OpenError),
    /// An output could not be opened.
    #[error("{0}")]
    Output(String),
    /// The page could not be served.
    #[error("{0}")]
    Web(String),
    /// The pipeline stopped before its end.
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
    /// The system refused a thread.
    #[error("starting a thread: {0}")]
    Thread(std::io::Error),
}

/// Numbers by which one link of a redundant pair may lag behind the other: the most that `sequence` takes;
/// 50 ms of 10 Gb/s in packets of 64 B are as many.
const REDUNDANT_WINDOW: i64 = 1 << 20;

/// A worker's half of the detector, and the sheets of its ring.
struct Made {
    reader: Box<dyn Reader>,
    builder: Box<dyn Builder>,
    rings: (Arc<Sheet>, Arc<Sheet>),
}

/// A checked configuration.
pub struct Plan {
    verb: &'static str,
    source: SourcePlan,
    detector: Arc<dyn Detector>,
    pixels: PixelMap,
    outputs: OutputPlan,
    limits: Limits,
    threads: u32,
    process_cores: Vec<usize>,
    /// Threads of the builder, the processing one included, and CPUs of the further ones.
    build_threads: usize,
    build_cores: Vec<usize>,
    queue: usize,
    #[cfg(feature = "kafka")]
    replay: Option<crate::replay::ReplayPlan>,
    /// Time between two readings of the host's counters.
    probes: Option<Duration>,
    /// Of `run`: percent of the packets that may be refused.
    max_refused: Option<f64>,
    /// Both clocks, where times are those of the host's.
    wall: Option<Arc<WallClock>>,
    /// What decoders use.
    instructions: Instructions,
}

impl Plan {
    /// Checks everything that can be checked before anything is opened.
    ///
    /// # Errors
    /// Key, value and what is allowed.
    pub fn new(verb: &'static str, config: &Config) -> Result<Plan, ConfigError> {
        let mut source = SourcePlan::new(&config.source)?;
        let mut config = std::borrow::Cow::Borrowed(config);
        if source.redundant() {
            if config.detector.kind != "sequence" {
                let why = "only with detector.kind = sequence: numbers of fewer than 32 bits cannot \
                           prove that a packet is a copy";
                return Err(refuse("source.redundant", true, why));
            }
            let options = &mut config.to_mut().detector.options;
            options.insert("key".into(), "id".into());
            // One link may lag behind the other by what a switch or socket holds.
            options.entry("window").or_insert(REDUNDANT_WINDOW.into());
        }
        let live = source.is_live();
        let auto = config.time.epoch == timebase::AUTO;
        let mut time = timebase::choose(&config.time, &config.detector.kind, live)?;
        let mut wall = None;
        if auto && !live {
            wall = source.recorded_clock()?;
        } else if time.epoch == timebase::NOW {
            let local = Registry::builtin().clock(&config.detector.kind) == Some(Clock::Local);
            wall = Some(if local { WallClock::of_arrivals(true) } else { WallClock::live() });
        }
        if wall.is_some() {
            time.epoch = timebase::NOW.into();
        }
        let wall = wall.map(Arc::new);
        config.to_mut().time = time;
        let config = &*config;
        let detector: Arc<dyn Detector> = configure(config)?.into();
        source.for_detector(&*detector);
        if wall.is_some() {
            source.for_wall();
        }
        let workers = source.workers();
        let sharding = detector.sharding();
        if workers > 1 && sharding != Sharding::ByKey {
            let why = format!("1 with detector.kind = {}: its readouts must meet", detector.name());
            return Err(refuse("source.workers", workers, why));
        }
        let build_threads = config.engine.build_threads;
        let most = if let Sharding::Exact(most) = sharding { most } else { 1 };
        if build_threads > most {
            let why = match most {
                1 => format!(
                    "1 with detector.kind = {}: its builder has one thread",
                    detector.name()
                ),
                _ => format!("1 to {most} with detector.kind = {}", detector.name()),
            };
            return Err(refuse("engine.build_threads", build_threads, why));
        }
        let build_core = config.engine.build_core.as_ref();
        let build_cores = build_core.map_or(Vec::new(), |c| c.as_slice().to_vec());
        check_cores("engine.build_core", &build_cores, build_cores.len())?;
        let pixels = detector.pixels();
        let mut outputs = OutputPlan::new(config, &*detector, &pixels)?;
        outputs.wall_is(wall.clone());
        #[cfg(feature = "kafka")]
        let replay = match outputs.spool() {
            Some(spool) => crate::replay::ReplayPlan::new(config, spool)?,
            None => None,
        };
        source.epoch_is(timebase::read(&config.time)?.epoch.0);
        if outputs.captures() {
            source.for_capture();
        }
        claims::check(config, &source, &outputs)?;
        let process_core = config.engine.process_core.as_ref();
        let process_cores = process_core.map_or(Vec::new(), |c| c.as_slice().to_vec());
        check_cores("engine.process_core", &process_cores, workers)?;
        let time = |key, text: &Option<String>| {
            let read =
                |t: &String| quantity::duration(t).map_err(|e| refuse(key, t, e.to_string()));
            text.as_ref().map(read).transpose()
        };
        let limits = Limits {
            duration: time("engine.duration", &config.engine.duration)?,
            idle: time("engine.idle_exit", &config.engine.idle_exit)?,
            packets: config.engine.packets,
            senders: config.engine.senders,
            past_end_mark: false,
            stamp: live && wall.is_some(),
        };
        let (threads, queue) = (config.engine.threads, config.engine.queue);
        let probes = probe_interval(&config.engine.probes)?;
        // `receive` is for telling what comes; a demo makes its packets itself.
        let max_refused = if verb == "run" { Some(config.max_refused()?) } else { None };
        source.is_there()?;
        Ok(Plan {
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
            #[cfg(feature = "kafka")]
            replay,
            probes,
            max_refused,
            wall,
            instructions: config.instructions()?,
        })
    }

    /// Makes what one worker needs, its counters registered with the run and as a part of their own.
    fn register(
        &self,
        ledger: &Ledger,
        (from, want): (&Opened, Want),
        parts: &mut Vec<Part>,
        at: usize,
    ) -> Result<Made, RunError> {
        let (reader, builder) = (self.detector.reader(), self.builder(want)?);
        let rings = (Sheet::new(Ring::catalogue()), Sheet::new(Ring::catalogue()));
        let mut sheets = from.sheets.clone();
        sheets.extend([rings.0.clone(), rings.1.clone(), reader.sheet()]);
        sheets.extend(builder.sheet());
        let cpu = from.core.map_or(String::new(), |core| format!(" on CPU {core}"));
        if from.links.len() > 1 {
            for (n, (label, sheet)) in from.links.iter().enumerate() {
                let part =
                    Part { label: format!("link {} {label}", n + 1), ledger: Ledger::default() };
                part.ledger.register(sheet.clone());
                parts.push(part);
            }
        } else {
            let label = format!("worker {} {}{cpu}", at + 1, from.label);
            let part = Part { label, ledger: Ledger::default() };
            sheets.iter().for_each(|sheet| part.ledger.register(sheet.clone()));
            parts.push(part);
        }
        sheets.into_iter().for_each(|sheet| ledger.register(sheet));
        Ok(Made { reader, builder, rings })
    }

    /// The builder with its threads, which end with it.
    fn builder(&self, want: Want) -> Result<Box<dyn Builder>, RunError> {
        let cores = self.build_cores.clone();
        let started = Arc::new(move |number: usize| pin(cores.get(number - 1).copied()));
        let threads = Threads { count: self.build_threads, started };
        self.detector.builder_on(want, &threads).map_err(RunError::Thread)
    }

    /// What answers a source that gives parts of its stream to others.
    #[cfg(feature = "kafka")]
    fn settling(&self, ledger: &Arc<Ledger>, want: Want, settle: Arc<Settle>) -> Settling {
        let (detector, ledger) = (self.detector.clone(), ledger.clone());
        let (cores, count) = (self.build_cores.clone(), self.build_threads);
        let builder = move || {
            let cores = cores.clone();
            let started = Arc::new(move |number: usize| pin(cores.get(number - 1).copied()));
            let builder = detector.builder_on(want, &Threads { count, started })?;
            builder.sheet().into_iter().for_each(|sheet| ledger.register(sheet));
            Ok(builder)
        };
        Settling { settle, builder: Box::new(builder) }
    }

    /// Pixels of the detector.
    pub fn pixels(&self) -> &PixelMap {
        &self.pixels
    }
}

impl RunError {
    /// True if the configuration does not fit what it is for, as the source found: exit code 2.
    pub fn refused(&self) -> bool {
        matches!(self, RunError::Source(OpenError::Unfit(_)))
    }
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
    Registry::builtin()
        .configure(&detector.kind, &setup)
        .map_err(|e| crate::other_geometry::named(e, &detector.kind, setup))
}

type Finished = (Fanout, Box<dyn Source>, Result<(), PipelineError>);

/// A run under way.
pub struct Running {
    verb: &'static str,
    watch: Arc<Watch>,
    stop: Stop,
    workers: Vec<JoinHandle<Finished>>,
    drains: Drains,
    /// Hangs up when all workers have ended.
    ended: Mutex<mpsc::Receiver<()>>,
    #[cfg(feature = "web")]
    page: Option<crate::outputs::Page>,
    facts: Vec<String>,
    local: Option<std::net::SocketAddr>,
    lossless: bool,
    /// True if something comes in from outside now.
    live: bool,
    cpu: CpuMark,
    places: Option<Watcher>,
    capture: Option<fullcount_io::capture::Running>,
    /// Outputs with a spool, and its folder.
    spools: Vec<(&'static str, std::path::PathBuf)>,
    #[cfg(feature = "kafka")]
    raw: Option<crate::raw::Sending>,
    /// Place of the source in its consumer group.
    #[cfg(feature = "kafka")]
    group: Option<Arc<crate::group_place::GroupPlace>>,
}

/// Everything that one worker's thread needs.
struct Worker {
    source: Box<dyn Source>,
    work: Processing,
    /// Sheets of the ring: of the receiving and of the processing thread.
    rings: (Arc<Sheet>, Arc<Sheet>),
    limits: Limits,
    threads: u32,
    core: Option<usize>,
    process_core: Option<usize>,
}

impl Worker {
    /// Receives and processes until the end.
    fn run(mut self, stop: &Stop, progress: &Progress) -> Finished {
        let _leaving = Leaving(stop);
        pin(self.core);
        let (source, work, limits) = (self.source.as_mut(), &mut self.work, &self.limits);
        let outcome = if self.threads == 2 {
            let sheets = (&*self.rings.0, &*self.rings.1);
            let on_process = || pin(self.process_core);
            run_two_threads(source, work, limits, stop, progress, sheets, on_process)
        } else {
            run_one_thread(source, work, limits, stop, progress)
        };
        if outcome.is_err() {
            // The others must not go on alone: half a detector looks like a whole one.
            stop.request();
        }
        // The socket stays open until all workers have ended: the kernel would give what still comes for
        // it to the others.
        (self.work.fanout, self.source, outcome)
    }
}

/// Stops all workers if this one panics.
struct Leaving<'a>(&'a Stop);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.request();
        }
    }
}

impl Running {
    /// Opens everything and starts the threads.
    ///
    /// # Errors
    /// What could not be opened, with its address or path.
    pub fn start(
        #[cfg_attr(not(feature = "kafka"), expect(unused_mut))] mut plan: Plan,
        stop: Stop,
    ) -> Result<Running, RunError> {
        let cpu = CpuMark::now();
        let ledger = Arc::new(Ledger::default());
        // Before the socket is there: what happens to its first packets must move a counter after this.
        let before = plan.probes.map(|every| (every, Reading::of(&Host::default())));
        #[cfg(feature = "kafka")]
        let replay = match &plan.replay {
            Some(replay) => replay.begin(&mut plan.source)?,
            None => None,
        };
        let mut opened = plan.source.open(Some(&*plan.detector))?;
        #[cfg(feature = "kafka")]
        if replay.is_some() {
            opened = opened.into_iter().map(Opened::patient).collect();
        }
        let local = opened.first().and_then(|o| o.local);
        let lossless = opened.iter().all(|o| o.source.lossless());
        let live = opened.iter().any(|o| o.live);
        let mut facts: Vec<String> = opened.iter().flat_map(|o| o.source.describe()).collect();
        facts.extend(plan.source.why_times());
        facts.extend(plan.wall.as_deref().map(clock_fact));
        let source_facts = facts.clone();
        plan.wall.iter().for_each(|wall| ledger.register(wall.sheet()));
        let mut outputs = plan.outputs.open(
            &*plan.detector,
            &plan.pixels,
            opened.len(),
            &stop,
            #[cfg(feature = "kafka")]
            replay,
        )?;
        facts.extend(outputs.facts.iter().cloned());
        let want = outputs.sinks.iter().fold(Want::default(), |want, s| want.or(s.want()));
        let several = opened.len() > 1;
        let name = |at: usize, o: &Opened| match several {
            true => format!("worker {} {}", at + 1, o.label),
            false => o.label.clone(),
        };
        let mut capture = outputs.capture.take();
        if let Some(capture) = &mut capture {
            let each = opened.into_iter().enumerate();
            let tapped = each.map(|(at, o)| {
                let name = name(at, &o);
                o.captured(capture, &name)
            });
            opened = tapped.collect::<Result<_, _>>().map_err(OpenError::Source)?;
            ledger.register(capture.sheet());
        }
        #[cfg(feature = "kafka")]
        let mut raw = outputs.raw.take();
        #[cfg(feature = "kafka")]
        if let Some(raw) = &mut raw {
            let each = opened.into_iter().enumerate();
            let tapped = each.map(|(at, o)| {
                let name = name(at, &o);
                o.tapped(&mut raw.taps, &name)
            });
            opened = tapped.collect::<Result<_, _>>().map_err(OpenError::Source)?;
            ledger.register(raw.sink.sheet());
        }
        let mut parts = Vec::new();
        let mut made = Vec::with_capacity(opened.len());
        for (at, from) in opened.iter().enumerate() {
            made.push(plan.register(&ledger, (from, want), &mut parts, at)?);
        }
        if parts.len() == 1 {
            parts.clear();
        }
        let queues = (opened.len(), plan.queue);
        let failures = Arc::new(Failures::default());
        let say = say_failure(&failures);
        let (ways, drains) =
            Fanout::start(outputs.sinks, queues, &ledger, say).map_err(RunError::Thread)?;
        let places = match before.filter(|_| live) {
            Some((every, before)) => {
                // Links of a redundant pair come in on several interfaces: any of them.
                let one = |o: &Opened| o.local.filter(|_| o.links.len() == 1).map(|a| a.ip());
                let locals: Vec<_> = opened.iter().map(one).collect();
                let watch = PlaceWatch::new(before, &locals, ledger.clone(), every);
                Some(Watcher::start(Arc::new(watch), every).map_err(RunError::Thread)?)
            }
            None => None,
        };
        let mut beside = Vec::new();
        beside.extend(capture.as_ref().map(|_| "capture"));
        #[cfg(feature = "kafka")]
        beside.extend(raw.as_ref().map(|_| "raw"));
        let known = failures.clone();
        let say = move |e: &fullcount_io::capture::CaptureError| {
            known.note("capture", &e.to_string(), &e.to_string());
        };
        let start = capture.map(|capture| capture.start(say));
        let capture = start.transpose().map_err(RunError::Thread)?;
        #[cfg(feature = "kafka")]
        let raw = raw.map(|r| r.start(say_failure(&failures)));
        #[cfg(feature = "kafka")]
        let raw = raw.transpose().map_err(RunError::Thread)?;
        #[cfg(feature = "kafka")]
        let group = opened.iter().find_map(|o| o.group.clone());
        #[cfg(feature = "kafka")]
        if let Some(group) = &group {
            let kafka = drains.views().into_iter().find(|view| view.name() == "kafka");
            let flow = outputs.landed.zip(kafka).map(|(landed, kafka)| {
                let taken = made[0].rings.1.clone();
                let threads = plan.threads;
                crate::group_place::Flow {
                    // On one thread a batch is decoded before the next is received.
                    packets: Box::new(move || match threads {
                        1 => u64::MAX,
                        _ => taken.get(Ring::Taken as usize),
                    }),
                    offered: Box::new(move || kafka.offered()),
                    landed,
                    hurry: outputs.hurry.clone(),
                }
            });
            group.claim(flow);
        }
        let progress = Arc::new(Progress::new(opened.len()));
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (tick, assumed) = plan.detector.tick();
        let (num, den) = tick.fraction();
        let detector = format!(
            "{} · {} pixels · tick {num}/{den} ns{}",
            plan.detector.name(),
            plan.pixels.pixels(),
            if assumed { " (assumed)" } else { "" }
        );
        facts.push(format!("detector {detector}"));
        facts.push(format!("instructions {}", plan.instructions));
        facts.extend(plan.detector.warnings().into_iter().map(|w| format!("warning: {w}")));
        let refusals = plan.max_refused.map(|limit| Refusals::new(plan.detector.name(), limit));
        let refusals = refusals.map(Arc::new);
        let watch = Arc::new(Watch {
            ledger,
            lanes: drains.views(),
            beside,
            failures,
            refusals: refusals.clone(),
            parts,
            progress: progress.clone(),
            places: places.as_ref().map(|p| p.watch().clone()),
            started: Instant::now(),
            started_unix_ms: unix.as_millis() as u64,
            title: match local {
                Some(local) if opened.len() == 1 => {
                    format!("{} · udp://{local}", plan.detector.name())
                }
                _ => format!("{} · {}", plan.detector.name(), plan.source.urls()),
            },
            source: source_facts,
            detector,
            outputs: outputs.facts,
            wall: plan.wall.clone(),
        });
        #[cfg(feature = "web")]
        let page = crate::outputs::Page::serve(outputs.listener, outputs.view, watch.clone())?;
        #[cfg(feature = "web")]
        facts.extend(page.as_ref().map(|p| format!("live page http://{}/", p.address())));
        let (hang_up, ended) = mpsc::channel();
        let limits = Limits { past_end_mark: !live, ..plan.limits.clone() };
        let mut workers = Vec::with_capacity(opened.len());
        let each = opened.into_iter().zip(made).zip(ways);
        for (at, ((from, made), fanout)) in each.enumerate() {
            let (lossless, replay) = (from.source.lossless(), from.source.replay());
            let sampler = refusals.clone().map(|r| Sampler::new(r, made.reader.sheet()));
            let work = Processing::new(made.reader, made.builder, fanout, lossless, replay)
                .sampling(sampler)
                .clocked(plan.wall.clone().filter(|w| !w.is_received()).map(WorkerClock::new));
            #[cfg(feature = "kafka")]
            let work = match &from.group {
                Some(group) => work.settling(plan.settling(&watch.ledger, want, group.settle())),
                None => work,
            };
            let worker = Worker {
                source: from.source,
                work,
                rings: made.rings,
                limits: limits.clone(),
                threads: plan.threads,
                core: from.core,
                process_core: plan.process_cores.get(at).copied(),
            };
            let (stop, progress, hang_up) = (stop.clone(), progress.clone(), hang_up.clone());
            let body = move || {
                let _hang_up: mpsc::Sender<()> = hang_up;
                worker.run(&stop, &progress)
            };
            let name = if at == 0 { "receive".into() } else { format!("receive-{}", at + 1) };
            let thread = std::thread::Builder::new().name(name).spawn(body);
            workers.push(thread.map_err(RunError::Thread)?);
        }
        watch_limits(limits, lossless, &stop, &progress).map_err(RunError::Thread)?;
        let ended = Mutex::new(ended);
        Ok(Running {
            verb: plan.verb,
            watch,
            stop,
            workers,
            drains,
            ended,
            #[cfg(feature = "web")]
            page,
            facts,
            local,
            lossless,
            live,
            cpu,
            places,
            capture,
            spools: plan.outputs.spools(),
            #[cfg(feature = "kafka")]
            raw,
            #[cfg(feature = "kafka")]
            group,
        })
    }

    /// What was opened, one fact a line.
    pub fn facts(&self) -> &[String] {
        &self.facts
    }

    /// Address of the page, if it is served.
    #[cfg(feature = "web")]
    pub fn page(&self) -> Option<std::net::SocketAddr> {
        self.page.as_ref().map(crate::outputs::Page::address)
    }

    /// Address of the UDP socket, if the source is one.
    pub fn local_address(&self) -> Option<std::net::SocketAddr> {
        self.local
    }

    /// This moment.
    pub fn status(&self) -> Status {
        self.watch.status()
    }

    /// Waits at most `time`; true once the pipeline has ended.
    pub fn wait(&self, time: Duration) -> bool {
        let ended = self.ended.lock().expect("no holder panics");
        ended.recv_timeout(time) == Err(RecvTimeoutError::Disconnected)
    }

    /// Asks for the end, as Ctrl-C does.
    pub fn stop(&self) {
        self.stop.request();
    }

    /// Waits for the end, closes everything and adds up. `sent`: the sender's own packets and bytes,
    /// where they are known.
    pub fn finish(mut self, sent: Option<(u64, u64)>) -> (Summary, Result<(), RunError>) {
        let mut outcome = Ok(());
        let mut ways = Vec::with_capacity(self.workers.len());
        let mut sources = Vec::with_capacity(self.workers.len());
        for worker in self.workers {
            let ended = match worker.join() {
                Ok((way, source, ended)) => {
                    ways.push(way);
                    sources.push(source);
                    ended
                }
                Err(_) => {
                    let died = "panicked; the outputs keep what came before";
                    Err(PipelineError::Thread(died.into()))
                }
            };
            // The first failure is the cause: it stopped the others.
            outcome = outcome.and(ended);
        }
        if let Some(places) = &mut self.places {
            places.end();
        }
        // The taps go with the sources: the capture's writer sees that nothing more comes. So do the sinks, all at once: what
        // waits for a broker at the end waits at the same time.
        drop((sources, ways));
        #[cfg(feature = "kafka")]
        let raw = self.raw.map(|thread| match thread.join() {
            Ok(outcome) => outcome.map_err(|e| e.to_string()),
            Err(_) => Err("its thread panicked".to_owned()),
        });
        #[cfg(not(feature = "kafka"))]
        let raw = None;
        let captured = self.capture.map(|c| c.finish().map_err(|e| e.to_string()));
        let ends = self.drains.finish(Vec::new());
        #[cfg(feature = "kafka")]
        if let Some(group) = self.group {
            let served = ends.iter().all(|end| !end.required || end.outcome.is_ok());
            let dropped = self.watch.read().get("sink.kafka.dropped").unwrap_or(0);
            if outcome.is_ok() && served && dropped == 0 {
                group.finish();
            } else {
                group.finish_partly();
            }
        }
        let outputs = ends.into_iter().map(Output::from).collect();
        let entries = self.watch.read();
        let (packets, places) = (sent.map(|(packets, _)| packets), self.watch.places.as_deref());
        let account = Account::watched(&entries, packets, places);
        let wire_bits = wire_bits(&entries);
        let refused = self.watch.refusals.as_ref().and_then(|r| r.of_run(&entries));
        let summary = Summary {
            verb: self.verb,
            active: self.watch.progress.active(),
            account,
            entries,
            cpu: self.cpu.since(),
            simulator: None,
            recorded: !self.live,
            outputs,
            captured,
            raw,
            wire_bits,
            sent_bytes: sent.map(|(_, bytes)| bytes),
            parts: self.watch.parts.iter().map(Part::line).collect(),
            lossless: self.lossless,
            refused,
            spools: self.spools,
            clock: self.watch.wall.as_ref().map(|wall| wall.status()),
        };
        #[cfg(feature = "web")]
        drop(self.page);
        (summary, outcome.map_err(Into::into))
    }
}

/// For people: where times come from.
fn clock_fact(wall: &WallClock) -> String {
    let how = match (wall.is_live(), wall.is_received()) {
        (_, true) => "each packet's arrival is the time of its last readout",
        (true, _) => "the first packet joins the detector's clock to it, and drift is corrected",
        (false, _) => "as it was joined when this was captured",
    };
    format!("times are the host's: {how} (time.epoch)")
}

/// Between two looks at the limits.
const LOOK: Duration = Duration::from_millis(50);

/// Looks at the limits beside the workers, which cannot while they wait for an output.
fn watch_limits(
    limits: Limits,
    lossless: bool,
    stop: &Stop,
    progress: &Arc<Progress>,
) -> std::io::Result<()> {
    if limits.duration.is_none() && limits.idle.is_none() && limits.packets.is_none() {
        return Ok(());
    }
    let (stop, progress) = (stop.clone(), Arc::downgrade(progress));
    let look = move || {
        let mut looked = Instant::now();
        while let Some(progress) = progress.upgrade().filter(|p| !p.done()) {
            let now = Instant::now();
            // A process that stood still has not waited for anybody.
            let awake = now.saturating_duration_since(looked) < 10 * LOOK;
            progress.look(&limits, lossless && awake, &stop, now);
            looked = now;
            drop(progress);
            std::thread::sleep(LOOK);
        }
    };
    std::thread::Builder::new().name("limits".into()).spawn(look).map(drop)
}

/// An output that fails is said at once, not only in the ledger at the end of the night.
fn say_failure(
    failures: &Arc<Failures>,
) -> impl Fn(&fullcount_out::sink::SinkError) + Send + Sync + 'static {
    let failures = failures.clone();
    move |e| failures.note(e.sink, &e.message, &e.to_string())
}

/// Bits on the wire for what was received: as the source counted them by packet size, else from the mean
/// payload, which is exact where all packets are equally long.
fn wire_bits(entries: &fullcount_core::ledger::Entries) -> Option<u64> {
    let packets = entries.get("receive.packets").filter(|&n| n > 0)?;
    if let Some(bytes) = entries.get("receive.wire_bytes") {
        return Some(bytes.saturating_mul(8));
    }
    let payload = (entries.get("receive.bytes")? / packets) as usize;
    Some(fullcount_core::link::Wire::usual(false, payload).bits(payload) * packets)
}

fn pin(core: Option<usize>) {
    if let Some(core) = core {
        // Not fatal: a container may forbid it, and the run is right without.
        if let Err(e) = fullcount_io::sys::pin_thread(core) {
            let _ = writeln!(std::io::stderr(), "fullcount: cannot pin to CPU {core}: {e}");
        }
    }
}

/// CPU time of this process and soft interrupts of the host; `None` where the host does not tell.
fn read_cpu() -> Option<Cpu> {
    let time = fullcount_io::sys::process_cpu_time().ok()?;
    let cores = Host::default().cores();
    let softirq = cores.iter().map(|c| c.softirq_ms as f64 / 1e3).sum();
    let softirq = (!cores.is_empty()).then_some(softirq);
    Some(Cpu { user: time.user_ns as f64 / 1e9, system: time.system_ns as f64 / 1e9, softirq })
}

/// CPU time at one moment.
struct CpuMark(Option<Cpu>);

impl CpuMark {
    fn now() -> CpuMark {
        CpuMark(read_cpu())
    }

    fn since(&self) -> Cpu {
        let (Some(then), Some(now)) = (self.0, read_cpu()) else { return Cpu::default() };
        Cpu {
            user: now.user - then.user,
            system: now.system - then.system,
            softirq: now.softirq.zip(then.softirq).map(|(a, b)| a - b),
        }
    }
}
