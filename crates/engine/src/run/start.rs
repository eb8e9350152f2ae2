//! How a run starts: source, sinks, page, pipeline, in this order.

use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fullcount_core::command::Command;
use fullcount_core::ledger::{Ledger, Sheet};
use fullcount_core::output::{PacketOutput, Recording, Replay, Serving};
use fullcount_core::products::Want;
use fullcount_core::source::{Position, SourceOpenError};
use fullcount_core::trace;
use fullcount_core::wall::{WallClock, WorkerClock};
use fullcount_detect::detector::{Decoder, Threads};
use fullcount_io::host::Host;
use fullcount_io::host::probe::Reading;
use fullcount_log::alert;

use super::cpu::CpuMark;
use super::last_time::{self, LastTime};
use super::worker::{Finished, Worker, pin, watch_limits};
use super::{RunError, RunPlan, Running, close};
use crate::failed::Failures;
use crate::fanout::Fanout;
use crate::modules::{ModuleBoard, ModuleBoards};
use crate::open::WorkerSource;
use crate::pipeline::{
    DecoderOrders, Processing, Progress, RingCount, RunLimits, decoder_commands,
};
use crate::places::watch::{PlaceWatch, Watcher};
use crate::progress::WithPackets;
use crate::refused::{Refusals, Sampler};
use crate::status::{Part, StatusWatch};
use crate::stop::Stop;

/// A worker's decoder, and the sheets of its ring.
struct Made {
    decoder: Box<dyn Decoder>,
    rings: (Arc<Sheet>, Arc<Sheet>),
    /// What is asked of the decoder.
    orders: Arc<DecoderOrders>,
    /// What its modules have sent.
    modules: Arc<ModuleBoard>,
}

impl Running {
    /// Opens everything and starts the threads. Why it cannot is told (alert), to the receivers of messages as far as they are open.
    ///
    /// # Errors
    /// What could not be opened, with its address or path.
    pub fn start(mut plan: RunPlan, stop: Stop) -> Result<Running, RunError> {
        let mut pages = Vec::new();
        match Running::open(&mut plan, stop, &mut pages) {
            Ok(running) => Ok(Running { pages, ..running }),
            Err(e) => {
                // Receivers are there as long as the plan and the pages.
                alert!("{}", e.with_causes());
                close(pages);
                Err(e)
            }
        }
    }

    /// Opens everything and starts the threads; `pages` gets the outputs of the run's state.
    fn open(
        plan: &mut RunPlan,
        stop: Stop,
        pages: &mut Vec<Box<dyn Serving>>,
    ) -> Result<Running, RunError> {
        let cpu = CpuMark::now();
        let ledger = Arc::new(Ledger::default());
        // Before the socket is there: what happens to its first packets must move a counter after this.
        let before = plan.probes.map(|every| (every, Reading::of(&Host::default())));
        let spools = plan.outputs.spools();
        last_time::go_on(plan.wall.as_deref(), &spools);
        let (opened, replay) = open_source(plan)?;
        let local = opened.first().and_then(|o| o.local);
        let lossless = opened.iter().all(|o| o.source.lossless());
        let live = opened.iter().any(|o| o.live);
        let source = source_facts(plan, &opened);
        let of_source: Vec<_> = opened.iter().flat_map(|from| from.source.commands()).collect();
        plan.wall.iter().for_each(|wall| ledger.register(wall.sheet()));
        let mut outputs = plan.outputs.open(opened.len(), &stop, replay)?;
        let want = outputs.sinks.iter().fold(Want::default(), |want, s| want.or(s.want()));
        let opened = tapped(opened, &mut outputs.packets, &ledger)?;
        let (made, parts) = plan.register_all(&ledger, &opened, want)?;
        let queues = (opened.len(), plan.queue);
        let failures = Arc::new(Failures::default());
        let started = Fanout::start(outputs.sinks, queues, &ledger, say_failure(&failures));
        let (ways, drains) = started.map_err(RunError::Thread)?;
        let places = watch_places(before.filter(|_| live), &opened, &ledger)?;
        let position = follow(&opened, &outputs.packets, &ways);
        let best_effort = best_effort(&outputs.packets);
        let packets = start_packets(outputs.packets, &failures)?;
        trace!(Init, Info, "{} sources are open", opened.len());
        let progress = Arc::new(Progress::new(opened.len()));
        let watch = Arc::new(StatusWatch {
            ledger,
            lanes: drains.views(),
            beside: packets.iter().map(|(name, _)| *name).collect(),
            best_effort,
            failures,
            refusals: plan.refusals(),
            parts,
            progress,
            places: places.as_ref().map(|p| p.watch().clone()),
            started: Instant::now(),
            started_unix_ms: fullcount_log::line::unix_ms(),
            title: plan.title(&opened),
            source,
            detector: plan.detector_fact(),
            kind: plan.detector.name().to_owned(),
            outputs: outputs.facts,
            wall: plan.wall.clone(),
            modules: ModuleBoards {
                boards: made.iter().map(|made| made.modules.clone()).collect(),
                silent: plan.module_silent,
            },
        });
        let commands = all_commands(outputs.commands, of_source, &made);
        let desk = plan.outputs.desk(&stop, commands);
        let activity = desk.serve(outputs.pages, &watch, pages)?;
        let mut facts = facts(plan, &watch);
        facts.extend(pages.iter().map(|page| page.fact()).filter(|fact| !fact.is_empty()));
        let limits = RunLimits { past_end_mark: !live, ..plan.limits.clone() };
        let each =
            opened.into_iter().zip(made).zip(ways).map(|((from, made), way)| (from, made, way));
        let (workers, ended) = start_workers(plan, each, &limits, &watch, &stop)?;
        watch_limits(limits, lossless, &stop, &watch.progress).map_err(RunError::Thread)?;
        Ok(Running {
            verb: plan.verb,
            watch,
            stop,
            workers,
            drains,
            ended: Mutex::new(ended),
            pages: Vec::new(),
            configuration: plan.outputs.configuration(),
            _activity: activity,
            facts,
            local,
            lossless,
            live,
            cpu,
            places,
            packets,
            last_time: LastTime::begin(plan.wall.as_ref(), &spools).map_err(RunError::Thread)?,
            spools,
            position,
        })
    }
}

impl RunPlan {
    /// Makes what the workers need; parts of the run, where there is more than one.
    fn register_all(
        &self,
        ledger: &Ledger,
        opened: &[WorkerSource],
        want: Want,
    ) -> Result<(Vec<Made>, Vec<Part>), RunError> {
        let mut parts = Vec::new();
        let mut made = Vec::with_capacity(opened.len());
        for (at, from) in opened.iter().enumerate() {
            made.push(self.register(ledger, (from, want), &mut parts, at)?);
        }
        if parts.len() == 1 {
            parts.clear();
        }
        Ok((made, parts))
    }

    /// Makes what one worker needs, its counters registered with the run and as a part of their own.
    fn register(
        &self,
        ledger: &Ledger,
        (from, want): (&WorkerSource, Want),
        parts: &mut Vec<Part>,
        at: usize,
    ) -> Result<Made, RunError> {
        let mut decoder = self.decoder(want)?;
        if let Some(streams) = from.source.streams() {
            decoder.govern(streams);
        }
        let rings = (Sheet::new(RingCount::catalogue()), Sheet::new(RingCount::catalogue()));
        let mut sheets = from.sheets.clone();
        sheets.extend([rings.0.clone(), rings.1.clone()]);
        sheets.extend(decoder.sheets());
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
        let modules = ModuleBoard::new(self.detector.module_names());
        Ok(Made { decoder, rings, orders: Arc::default(), modules })
    }

    /// A decoder with its threads, which end with it.
    fn decoder(&self, want: Want) -> Result<Box<dyn Decoder>, RunError> {
        let cores = self.build_cores.clone();
        let started = Arc::new(move |number: usize| pin(cores.get(number - 1).copied()));
        let threads = Threads { count: self.build_threads, started };
        self.detector.decoder(want, &threads).map_err(RunError::Thread)
    }

    /// Title of the page: with the address of the socket if there is only one.
    fn title(&self, opened: &[WorkerSource]) -> String {
        match opened {
            [one] if one.local.is_some() => {
                format!("{} · {}", self.detector.name(), one.links[0].0)
            }
            _ => format!("{} · {}", self.detector.name(), self.source.urls()),
        }
    }

    /// What judges how many packets are refused, where that is to be done.
    fn refusals(&self) -> Option<Arc<Refusals>> {
        let refusals = self.max_refused.map(|limit| Refusals::new(self.detector.name(), limit));
        refusals.map(Arc::new)
    }

    /// For people: what data are.
    fn detector_fact(&self) -> String {
        if self.pixels.pixels() == 0 {
            return self.detector.name().to_owned();
        }
        let (tick, assumed) = self.detector.tick();
        let (num, den) = tick.fraction();
        format!(
            "{} · {} pixels · tick {num}/{den} ns{}",
            self.detector.name(),
            self.pixels.pixels(),
            if assumed { " (assumed)" } else { "" }
        )
    }
}

/// What can be told to the outputs, the sources and the decoders while the run goes on.
fn all_commands(
    mut of_outputs: Vec<Command>,
    of_source: Vec<Command>,
    made: &[Made],
) -> Vec<Command> {
    let orders: Vec<Arc<DecoderOrders>> = made.iter().map(|m| m.orders.clone()).collect();
    let infos = made.first().map_or(Vec::new(), |made| made.decoder.commands());
    of_outputs.extend(of_source);
    of_outputs.extend(decoder_commands(infos, &orders));
    of_outputs
}

/// Opens the source, at the place where an interrupted replay goes on.
fn open_source(plan: &mut RunPlan) -> Result<(Vec<WorkerSource>, Option<Replay>), RunError> {
    let replay = match &plan.replay {
        Some(replay) => replay.begin(&mut plan.source, &plan.outputs)?,
        None => None,
    };
    let opened = plan.source.open(Some(&*plan.detector))?;
    if replay.is_some() {
        return Ok((opened.into_iter().map(WorkerSource::patient).collect(), replay));
    }
    Ok((opened, replay))
}

/// For people: where data come from.
fn source_facts(plan: &RunPlan, opened: &[WorkerSource]) -> Vec<String> {
    let mut facts: Vec<String> = opened.iter().flat_map(|o| o.source.describe()).collect();
    facts.extend(plan.source.why_times());
    facts.extend(plan.wall.as_deref().map(clock_fact));
    facts
}

/// What was opened, one fact a line, but for the pages.
fn facts(plan: &RunPlan, watch: &StatusWatch) -> Vec<String> {
    let mut facts = watch.source.clone();
    facts.extend(watch.outputs.iter().cloned());
    facts.push(format!("detector {}", watch.detector));
    facts.push(format!("instructions {}", plan.instructions));
    facts.extend(plan.detector.warnings().into_iter().map(|w| format!("warning: {w}")));
    facts
}

/// Has the packets of each worker taken by the outputs of packets.
fn tapped(
    mut opened: Vec<WorkerSource>,
    outputs: &mut [Box<dyn PacketOutput>],
    ledger: &Ledger,
) -> Result<Vec<WorkerSource>, RunError> {
    let several = opened.len() > 1;
    let name = |at: usize, o: &WorkerSource| match several {
        true => format!("worker {} {}", at + 1, o.label),
        false => o.label.clone(),
    };
    for output in outputs {
        let each = opened.into_iter().enumerate();
        let tapped = each.map(|(at, o)| {
            let name = name(at, &o);
            o.tapped(&mut **output, &name)
        });
        opened = tapped.collect::<Result<_, _>>().map_err(SourceOpenError::from)?;
        ledger.register(output.sheet());
    }
    Ok(opened)
}

/// Reads the host's counters now and then, to tell where packets were lost. `before`: how often, and the first reading.
fn watch_places(
    before: Option<(Duration, Reading)>,
    opened: &[WorkerSource],
    ledger: &Arc<Ledger>,
) -> Result<Option<Watcher>, RunError> {
    let Some((every, before)) = before else { return Ok(None) };
    // Links of a redundant pair come in on several interfaces: any of them.
    let one = |o: &WorkerSource| o.local.filter(|_| o.links.len() == 1).map(|a| a.ip());
    let locals: Vec<_> = opened.iter().map(one).collect();
    let watch = PlaceWatch::new(before, &locals, ledger.clone(), every);
    Ok(Some(Watcher::start(Arc::new(watch), every).map_err(RunError::Thread)?))
}

/// The source's place that others keep, told what the outputs have.
fn follow(
    opened: &[WorkerSource],
    packets: &[Box<dyn PacketOutput>],
    ways: &[Fanout],
) -> Option<Arc<dyn Position>> {
    let found = opened.iter().enumerate().find_map(|(at, o)| Some((at, o.position.clone()?)));
    let (at, position) = found?;
    let packets = packets.iter().filter_map(|output| output.safe(at)).collect();
    let products = ways[at].progress().clone();
    position.follow(Arc::new(WithPackets { products, packets }));
    Some(position)
}

type Recordings = Vec<(&'static str, Box<dyn Recording>)>;

/// Those whose losses are none of the run.
fn best_effort(outputs: &[Box<dyn PacketOutput>]) -> Vec<&'static str> {
    outputs.iter().filter(|output| !output.required()).map(|output| output.name()).collect()
}

fn start_packets(
    outputs: Vec<Box<dyn PacketOutput>>,
    failures: &Arc<Failures>,
) -> Result<Recordings, RunError> {
    let one = |output: Box<dyn PacketOutput>| {
        let name = output.name();
        let started = output.start(Box::new(say_failure(failures)));
        Ok((name, started.map_err(RunError::Thread)?))
    };
    outputs.into_iter().map(one).collect()
}

/// Starts the threads. The receiver hangs up when all have ended.
fn start_workers(
    plan: &RunPlan,
    each: impl Iterator<Item = (WorkerSource, Made, Fanout)>,
    limits: &RunLimits,
    watch: &StatusWatch,
    stop: &Stop,
) -> Result<(Vec<JoinHandle<Finished>>, mpsc::Receiver<()>), RunError> {
    let (hang_up, ended) = mpsc::channel();
    let mut workers = Vec::new();
    for (at, (from, made, fanout)) in each.enumerate() {
        let (lossless, replay) = (from.source.lossless(), from.source.replay());
        // Packets are counted in the first sheet.
        let packets = made.decoder.sheets().swap_remove(0);
        let sampler = watch.refusals.clone().map(|r| Sampler::new(r, packets));
        let work = Processing::new(made.decoder, fanout, lossless, replay)
            .sampling(sampler)
            .asked(made.orders, made.modules)
            .clocked(
                plan.wall
                    .clone()
                    .filter(|wall| !wall.is_received())
                    .map(|wall| WorkerClock::new(wall).with(plan.instructions)),
            );
        let worker = Worker {
            source: from.source,
            work,
            rings: made.rings,
            limits: limits.clone(),
            threads: plan.threads,
            core: from.core,
            process_core: plan.process_cores.get(at).copied(),
        };
        let (stop, progress, hang_up) = (stop.clone(), watch.progress.clone(), hang_up.clone());
        let body = move || {
            let _hang_up: mpsc::Sender<()> = hang_up;
            worker.run(&stop, &progress)
        };
        let name = if at == 0 { "receive".into() } else { format!("receive-{}", at + 1) };
        let thread = std::thread::Builder::new().name(name).spawn(body);
        workers.push(thread.map_err(RunError::Thread)?);
    }
    Ok((workers, ended))
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

/// An output that fails is said at once, not only in the ledger at the end of the night.
fn say_failure(
    failures: &Arc<Failures>,
) -> impl Fn(&fullcount_core::sink::SinkError) + Send + Sync + 'static {
    let failures = failures.clone();
    move |e| failures.note(e.sink, &e.message, &e.to_string())
}
