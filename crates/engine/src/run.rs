//! Who is started, in which order, and how they end.
//!
//! [`Plan`] is a configuration that has passed every check that needs no socket, output file or thread;
//! [`Running`] is what it becomes. Start: source, sinks, page, pipeline. End: the pipeline drains, sinks
//! finish, the page goes last.

use std::io::Write;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fullcount_core::ledger::{Ledger, Sheet};
use fullcount_core::view::PixelMap;
use fullcount_detect::detector::{Detector, Registry, Setup};
use fullcount_io::quantity;

use crate::account::Account;
use crate::config::{Config, ConfigError, refuse};
use crate::fanout::Fanout;
use crate::open::{OpenError, SourcePlan, check_core};
use crate::outputs::OutputPlan;
use crate::pipeline::{Limits, PipelineError, Processing, Progress, Ring};
use crate::pipeline::{run_one_thread, run_two_threads};
use crate::status::{Status, Watch};
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

/// A checked configuration.
pub struct Plan {
    verb: &'static str,
    source: SourcePlan,
    detector: Arc<dyn Detector>,
    pixels: PixelMap,
    outputs: OutputPlan,
    limits: Limits,
    threads: u32,
    process_core: Option<usize>,
    queue: usize,
}

impl Plan {
    /// Checks everything that can be checked before anything is opened.
    ///
    /// # Errors
    /// Key, value and what is allowed.
    pub fn new(verb: &'static str, config: &Config) -> Result<Plan, ConfigError> {
        let source = SourcePlan::new(&config.source)?;
        let detector: Arc<dyn Detector> = configure(config)?.into();
        let pixels = detector.pixels();
        let outputs = OutputPlan::new(config, &*detector, &pixels)?;
        check_core("engine.process_core", config.engine.process_core)?;
        let time = |key, text: &Option<String>| {
            let read =
                |t: &String| quantity::duration(t).map_err(|e| refuse(key, t, e.to_string()));
            text.as_ref().map(read).transpose()
        };
        let limits = Limits {
            duration: time("engine.duration", &config.engine.duration)?,
            idle: time("engine.idle_exit", &config.engine.idle_exit)?,
            packets: config.engine.packets,
            past_end_mark: false,
        };
        let (threads, process_core) = (config.engine.threads, config.engine.process_core);
        let queue = config.engine.queue;
        Ok(Plan { verb, source, detector, pixels, outputs, limits, threads, process_core, queue })
    }

    /// Pixels of the detector.
    pub fn pixels(&self) -> &PixelMap {
        &self.pixels
    }
}

/// Reads geometry and `[detector]` and makes the detector of a configuration.
///
/// # Errors
/// Unknown kind, unreadable geometry file, refused options.
pub fn configure(config: &Config) -> Result<Box<dyn Detector>, ConfigError> {
    let path = config.detector.geometry.as_ref();
    let name = path.map(|p| p.display().to_string()).unwrap_or_default();
    let read = |p: &std::path::PathBuf| {
        std::fs::read_to_string(p).map_err(|e| ConfigError::File {
            key: "detector.geometry",
            path: name.clone(),
            cause: e.to_string(),
        })
    };
    let geometry = path.map(read).transpose()?.unwrap_or_default();
    let options = toml::to_string(&config.detector.options).unwrap_or_default();
    let time = timebase::read(&config.time)?;
    let setup = Setup { geometry, geometry_path: name, options, time };
    Ok(Registry::builtin().configure(&config.detector.kind, &setup)?)
}

type Finished = (Fanout, Result<(), PipelineError>);

/// A run under way.
pub struct Running {
    verb: &'static str,
    watch: Arc<Watch>,
    stop: Stop,
    pipeline: JoinHandle<Option<Finished>>,
    /// Hangs up when the pipeline has ended.
    ended: Mutex<mpsc::Receiver<()>>,
    #[cfg(feature = "web")]
    page: Option<crate::outputs::Page>,
    facts: Vec<String>,
    local: Option<std::net::SocketAddr>,
    lossless: bool,
    cpu: CpuMark,
}

impl Running {
    /// Opens everything and starts the threads.
    ///
    /// # Errors
    /// What could not be opened, with its address or path.
    pub fn start(plan: Plan, stop: Stop) -> Result<Running, RunError> {
        let cpu = CpuMark::now();
        let ledger = Arc::new(Ledger::default());
        let from = plan.source.open(Some(&*plan.detector))?;
        let mut source = from.source;
        let lossless = source.lossless();
        let (reader, builder) = (plan.detector.reader(), plan.detector.builder());
        from.sheets.into_iter().for_each(|sheet| ledger.register(sheet));
        let rings = (Sheet::new(Ring::catalogue()), Sheet::new(Ring::catalogue()));
        ledger.register(rings.0.clone());
        ledger.register(rings.1.clone());
        ledger.register(reader.sheet());
        if let Some(sheet) = builder.sheet() {
            ledger.register(sheet);
        }
        let mut facts: Vec<String> = source.describe();
        let source_facts = facts.clone();
        let opened = plan.outputs.open(&*plan.detector, &plan.pixels)?;
        facts.extend(opened.facts.iter().cloned());
        let fanout = Fanout::start(opened.sinks, plan.queue, &ledger, say_failure)
            .map_err(RunError::Thread)?;
        let progress = Arc::new(Progress::default());
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
        let watch = Arc::new(Watch {
            ledger,
            lanes: fanout.views(),
            progress: progress.clone(),
            started: Instant::now(),
            started_unix_ms: unix.as_millis() as u64,
            title: match from.local {
                Some(local) => format!("{} · udp://{local}", plan.detector.name()),
                None => format!("{} · {}", plan.detector.name(), plan.source.url),
            },
            source: source_facts,
            detector,
            outputs: opened.facts,
        });
        #[cfg(feature = "web")]
        let page = crate::outputs::Page::serve(opened.listener, opened.view, watch.clone())?;
        #[cfg(feature = "web")]
        facts.extend(page.as_ref().map(|p| format!("live page http://{}/", p.address())));
        let (hang_up, ended) = mpsc::channel();
        let limits = Limits { past_end_mark: from.local.is_none(), ..plan.limits.clone() };
        let (core, process_core, threads) = (plan.source.core, plan.process_core, plan.threads);
        let signal = stop.clone();
        let body = move || {
            let _hang_up: mpsc::Sender<()> = hang_up;
            pin(core);
            let mut work = Processing::new(reader, builder, fanout, lossless);
            let (source, limits, stop) = (source.as_mut(), &limits, &signal);
            let outcome = if threads == 2 {
                let sheets = (&*rings.0, &*rings.1);
                let on_process = || pin(process_core);
                run_two_threads(source, &mut work, limits, stop, &progress, sheets, on_process)
            } else {
                run_one_thread(source, &mut work, limits, stop, &progress)
            };
            Some((work.fanout, outcome))
        };
        let pipeline = std::thread::Builder::new()
            .name("receive".into())
            .spawn(body)
            .map_err(RunError::Thread)?;
        let ended = Mutex::new(ended);
        Ok(Running {
            verb: plan.verb,
            watch,
            stop,
            pipeline,
            ended,
            #[cfg(feature = "web")]
            page,
            facts,
            local: from.local,
            lossless,
            cpu,
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
    pub fn finish(self, sent: Option<(u64, u64)>) -> (Summary, Result<(), RunError>) {
        let joined = self.pipeline.join();
        let (outputs, outcome) = match joined {
            Ok(Some((fanout, outcome))) => {
                (fanout.finish().into_iter().map(Output::from).collect(), outcome)
            }
            Ok(None) | Err(_) => {
                let died =
                    PipelineError::Thread("panicked; its sinks were closed as they were".into());
                (Vec::new(), Err(died))
            }
        };
        let entries = self.watch.read();
        let account = Account::of(&entries, sent.map(|(packets, _)| packets));
        let wire_bits = wire_bits(&entries);
        let summary = Summary {
            verb: self.verb,
            active: self.watch.progress.active(),
            account,
            entries,
            cpu: self.cpu.since(),
            outputs,
            wire_bits,
            sent_bytes: sent.map(|(_, bytes)| bytes),
            lossless: self.lossless,
        };
        #[cfg(feature = "web")]
        drop(self.page);
        (summary, outcome.map_err(Into::into))
    }
}

/// An output that fails is said at once, not only in the ledger at the end of the night.
fn say_failure(e: &fullcount_out::sink::SinkError) {
    let _ = writeln!(std::io::stderr(), "fullcount: output {e}");
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
    let cores = fullcount_io::host::Host::default().cores();
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
