//! `fullcount lab detectors`: the paper's table 5 for every detector, from memory and as the paper did it, and how
//! several pipelines share one host.
//!
//! Refuses wrong options before anything is made: unknown detectors, inputs and settings, cores that are not there,
//! more memory than half of the host's.

pub mod at_once;
pub mod chain;
pub mod image;
pub mod input;
pub mod job;
mod pipelines;
pub mod scratch;
mod simulated;
mod udp;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use fullcount_detect::detector::Sharding;
use fullcount_detect::parallel::{MOST_THREADS, Threads};
use fullcount_engine::config::refuse;
use fullcount_engine::open::check_core;
use fullcount_engine::stop::Stop;
use fullcount_io::host::Host;
use fullcount_io::quantity;
use fullcount_lab::detectors::speedup::{self, Speedup};
use fullcount_lab::detectors::{How, Row, Run, copy, limits, markdown, short};
use fullcount_lab::lossless::{Settings, time};
use fullcount_lab::record::Figure;

use self::at_once::{Pipeline, at_once};
use self::chain::Part;
use self::job::{Job, JobFlags};
use self::scratch::Scratch;
use super::lossless::{ResultFlags, SearchFlags};
use crate::exit::Failure;
use crate::note;

/// Packets, readouts and events a second of every detector: from memory, over UDP, several at once.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Flags {
    #[command(flatten)]
    jobs: JobFlags,
    /// memory (packets prepared in memory, one core) and udp (replayed over loopback into the service, as
    /// the paper did), with commas [default: memory, unless only --pipelines is given]
    #[arg(long, value_name = "WAYS", value_delimiter = ',')]
    over: Vec<String>,
    /// So many pipelines at once, with commas: each detector n times, and all of them mixed
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pipelines: Vec<usize>,
    /// From memory, besides one: so many builder threads, with commas, for detectors that may have them (gdgem),
    /// measured in turns with one
    #[arg(long, value_name = "N", value_delimiter = ',')]
    build_threads: Vec<usize>,
    /// Input of each pipeline that is read over and over
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    memory: String,
    /// Length of a trial
    #[arg(long, value_name = "TIME", default_value = "10s")]
    duration: String,
    /// Trials; medians are reported
    #[arg(long, value_name = "N", default_value_t = 3)]
    repeats: usize,
    /// CPUs in the order of use: pipelines; over UDP the service's threads, then the sender [default: all,
    /// CPU 0 last]
    #[arg(long, value_name = "CPU", value_delimiter = ',')]
    cores: Vec<usize>,
    /// Threads of the service over UDP, with commas
    #[arg(long, value_name = "1|2", value_delimiter = ',', default_values_t = [1, 2])]
    threads: Vec<u32>,
    /// Socket receive buffer of the service over UDP
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    receive_buffer: String,
    /// Over UDP: for each trial two CPUs that share a cache at that time (see lab cores)
    #[arg(long)]
    near_cores: bool,
    /// Over UDP: leave out the search for the rate without loss
    #[arg(long)]
    flat_out_only: bool,
    /// Over UDP: one more trial flat out, and one at the rate without loss, with perf: what the service's cores spend
    /// their time on
    #[arg(long)]
    profile: bool,
    #[command(flatten)]
    search: SearchFlags,
    #[command(flatten)]
    result: ResultFlags,
}

const EXAMPLES: &str = "\
From memory each pass over --memory begins with a fresh decoder: packets of all repetitions are
moved on before anything is measured. Over UDP captures are moved on in the same way. The figures
are those of the service's own /metrics; where packets are lost flat out, the highest rate without
loss is searched as 'lab lossless' does. Results: detectors-memory, -udp or -pipelines; of several
parts: detectors.
Exit code 1 if a search found no rate without loss above the floor.

Examples:
  fullcount lab detectors
  fullcount lab detectors --detector sonde --duration 2s --repeats 5 --out /var/tmp
  fullcount lab detectors --over memory,udp --pipelines 1,2,3,4
  fullcount lab detectors --detector sonde --capture sonde=run42.pcapng --geometry sonde=all.toml
  fullcount lab detectors --detector gdgem --build-threads 2 --repeats 5
  fullcount lab detectors --over udp --flat-out-only --profile
  fullcount lab detectors --over udp --input captures,simulated --duration 3s --profile
  fullcount lab detectors --over udp --threads 2 --confirm 60s --confirmations 1";

/// Usual name of the results, with what was measured behind it if that is one thing.
const NAME: &str = "detectors";
/// What that is of pipelines.
const PIPELINES: &str = "-pipelines";
/// The copy test takes so long, or a trial's length if that is less.
const COPY: Duration = Duration::from_secs(1);

/// What is asked for, checked.
struct Plan {
    memory: usize,
    time: Duration,
    repeats: usize,
    cores: Vec<usize>,
    /// Numbers of builder threads besides one.
    build_threads: Vec<usize>,
}

impl Plan {
    /// The CPU at a place of the list; `None` beyond its end.
    fn core(&self, at: usize) -> Option<usize> {
        self.cores.get(at).copied()
    }

    /// So many threads of a builder, each further one on a CPU of its own.
    fn threads(&self, count: usize) -> Threads {
        let cores = self.cores.clone();
        let started = move |number: usize| {
            if let Some(&core) = cores.get(number)
                && let Err(e) = fullcount_io::sys::pin_thread(core)
            {
                note!("cannot pin to CPU {core}: {e}; measured without");
            }
        };
        Threads { count, started: Arc::new(started) }
    }

    fn copy_time(&self) -> Duration {
        self.time.min(COPY)
    }
}

/// Which parts are wanted.
struct Parts {
    memory: bool,
    udp: bool,
    pipelines: bool,
}

impl Parts {
    /// Usual name of the results: no file of another part is overwritten.
    fn name(&self) -> String {
        let part = match (self.memory, self.udp, self.pipelines) {
            (true, false, false) => "-memory",
            (false, true, false) => "-udp",
            (false, false, true) => PIPELINES,
            _ => "",
        };
        format!("{NAME}{part}")
    }
}

impl Flags {
    fn parts(&self) -> Result<Parts, Failure> {
        let known = ["memory", "udp"];
        if let Some(other) = self.over.iter().find(|o| !known.contains(&o.as_str())) {
            return Err(refuse("over", other, "memory, udp or both with a comma").into());
        }
        let asked = |way: &str| self.over.iter().any(|o| o == way);
        let memory = asked("memory") || (self.over.is_empty() && self.pipelines.is_empty());
        Ok(Parts { memory, udp: asked("udp"), pipelines: !self.pipelines.is_empty() })
    }

    /// A profile needs the service over UDP, on cores that are its own.
    fn check_profile(&self, parts: &Parts, plan: &Plan) -> Result<(), Failure> {
        if !self.profile {
            return Ok(());
        }
        if !parts.udp {
            return Err(refuse("profile", "true", "only with --over udp").into());
        }
        let (threads, cores) = (self.threads.iter().max().copied().unwrap_or(1), plan.cores.len());
        if !self.near_cores && cores <= threads as usize {
            let why = format!(
                "{} CPUs for --threads {threads} and the sender, or --near-cores; there are {cores}",
                threads + 1
            );
            return Err(refuse("profile", "true", why).into());
        }
        Ok(fullcount_lab::profile::available().map_err(anyhow::Error::from)?)
    }

    fn plan(&self) -> Result<Plan, Failure> {
        let memory = quantity::size(&self.memory)
            .map_err(|e| refuse("memory", &self.memory, e.to_string()))?;
        let time = quantity::duration(&self.duration)
            .map_err(|e| refuse("duration", &self.duration, e.to_string()))?;
        if time.is_zero() {
            return Err(refuse("duration", &self.duration, "more than 0 s").into());
        }
        if self.repeats == 0 {
            return Err(refuse("repeats", 0, "1 or more").into());
        }
        if let Some(n) = self.pipelines.iter().find(|n| !(1..=64).contains(*n)) {
            return Err(refuse("pipelines", n, "1 to 64, with commas").into());
        }
        let most = self.pipelines.iter().max().copied().unwrap_or(1);
        let half = Host::default().snapshot().memory_bytes.map_or(u64::MAX, |b| b / 2);
        if memory == 0 || memory.saturating_mul(most as u64) > half {
            let why = format!(
                "1 B to half of this host's memory, {}, for all of {most} pipelines",
                quantity::size_text(half)
            );
            return Err(refuse("memory", &self.memory, why).into());
        }
        if let Some(n) = self.threads.iter().find(|n| !(1..=2).contains(*n)) {
            return Err(refuse("threads", n, "1 or 2").into());
        }
        quantity::size(&self.receive_buffer)
            .map_err(|e| refuse("receive-buffer", &self.receive_buffer, e.to_string()))?;
        for (at, &core) in self.cores.iter().enumerate() {
            check_core("cores", Some(core))?;
            if self.cores[..at].contains(&core) {
                return Err(refuse("cores", core, "each CPU once").into());
            }
        }
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let cores = match self.cores.is_empty() {
            // Interrupts and other programs mostly meet on CPU 0.
            true => (1..cpus).chain([0]).collect(),
            false => self.cores.clone(),
        };
        for n in &self.build_threads {
            if !(2..=cores.len().min(MOST_THREADS)).contains(n) {
                let why = format!("2 to {}, one CPU each (--cores)", cores.len().min(MOST_THREADS));
                return Err(refuse("build-threads", n, why).into());
            }
        }
        let build_threads = self.build_threads.clone();
        Ok(Plan { memory: memory as usize, time, repeats: self.repeats, cores, build_threads })
    }
}

/// Runs the campaign.
pub fn detectors(flags: Flags) -> Result<u8, Failure> {
    let (parts, plan) = (flags.parts()?, flags.plan()?);
    let search = flags.search.settings(Settings::default())?;
    flags.check_profile(&parts, &plan)?;
    let scratch = Scratch::default();
    let jobs = flags.jobs.jobs(&scratch)?;
    let usual = parts.name();
    let numbers = pipelines::numbers(&flags.pipelines);
    let figure = {
        let name = flags.result.name(&usual);
        format!("{}{PIPELINES}", name.strip_suffix(PIPELINES).unwrap_or(name))
    };
    if !numbers.is_empty() {
        let files = ["svg", "png"].map(|end| format!("{figure}.{end}"));
        super::ready(&flags.result.folder(), &files, flags.result.overwrite())?;
    }
    let mut record = flags.result.begin(&usual)?;
    let stop = Stop::on_signals().context("installing the signal handlers")?;
    let own: Vec<&Job> = Job::piped(&jobs, &flags.jobs);
    let played: Vec<&Job> = Job::played(&jobs, &flags.jobs);
    let udp = udp::Campaign {
        plan: &plan,
        threads: &flags.threads,
        receive_buffer: &flags.receive_buffer,
        near: flags.near_cores,
        search: (!flags.flat_out_only).then_some(search),
        profile: flags.profile,
        stop: &|| stop.requested(),
    };
    let trial = plan.time + Duration::from_millis(500);
    let mut progress = Progress::default();
    if parts.memory {
        // Ways with several threads are two trials each.
        let ways = jobs.iter().flat_map(|job| ways(job, &plan));
        let trials: usize = ways.map(|(.., count)| 1 + usize::from(count > 1)).sum();
        progress.expect(trials * plan.repeats, trial);
    }
    if parts.udp {
        progress.expect(played.len() * flags.threads.len(), udp.usual());
    }
    progress.expect(pipelines::trials(&own, &numbers) * plan.repeats, trial);
    note!("about {}", time(progress.left()));
    record
        .parameter("memory_bytes", plan.memory)
        .parameter("seconds", plan.time.as_secs_f64())
        .parameter("threads", flags.threads.clone())
        .parameter("pipelines", numbers.clone())
        .parameter("repeats", plan.repeats)
        .parameter("cores", plan.cores.clone())
        .parameter("near_cores", flags.near_cores)
        .parameter("target_features", features());
    if parts.udp && !flags.flat_out_only {
        search.note(&mut record);
    }
    let (mut rows, mut speedups): (Vec<Row>, Vec<Speedup>) = (vec![], vec![]);
    let mut copies = vec![copy::bandwidth(&[plan.core(0)], plan.copy_time())];
    if parts.memory {
        for job in &jobs {
            let more = from_memory(job, &plan, &stop, &mut progress)?;
            speedups.extend(gained(&more));
            rows.extend(more.rows);
        }
    }
    let mut complete = true;
    if parts.udp {
        for job in &played {
            let more = udp.run(job, &scratch, &mut progress)?;
            complete &= more.iter().all(|r| !r.runs.is_empty());
            rows.extend(more);
        }
        // Rows of a detector stand together, in the order of the detectors.
        let place = |r: &Row| jobs.iter().position(|j| j.input.detector == r.detector);
        rows.sort_by_key(place);
    }
    let mut table = if rows.is_empty() { String::new() } else { markdown(&rows) };
    table.push_str(&speedup::markdown(&speedups));
    if !numbers.is_empty() {
        let scaling = pipelines::run(&own, &numbers, &plan, &stop, &mut progress)?;
        scaling.note(&mut record);
        let drawn = scaling.figure(&figure);
        let drawn = drawn.write(&flags.result.folder(), flags.result.overwrite());
        for path in drawn.map_err(anyhow::Error::from)? {
            note!("drawn in {}", path.display());
        }
        let gap = if table.is_empty() { "" } else { "\n" };
        table.push_str(&format!("{gap}{}\n![pipelines]({figure}.svg)\n", scaling.markdown()));
    }
    table.push_str(&limits::markdown(&rows));
    copies.push(copy::bandwidth(&[plan.core(0)], plan.copy_time()));
    let copied = Figure::of(&copies, "GB/s").context("no copy")?;
    record.figure("copy_bandwidth", &copied);
    rows.iter().for_each(|r| r.note(&mut record));
    speedups.iter().for_each(|s| s.note(&mut record));
    table.push_str(&format!(
        "\nThis machine copies {:.1} GB/s on one core (memcpy of 256 MiB blocks). Build: {}.\n",
        copied.value,
        features()
    ));
    let is_there = |job: &&Job| {
        let among = |some: &[&Job]| some.iter().any(|&other| std::ptr::eq(other, *job));
        parts.memory || parts.udp && among(&played) || parts.pipelines && among(&own)
    };
    for job in jobs.iter().filter(is_there) {
        table.push_str(&format!("\n- {}: {}", job.input.title(), job.input.about));
    }
    table.push('\n');
    flags.result.finish(&record, "Detectors: packets, readouts and events a second", &table)?;
    Ok(if complete { 0 } else { 1 })
}

/// What is measured of a detector from memory: how it is called, how much of it, and its builder threads.
fn ways(job: &Job, plan: &Plan) -> Vec<(How, Part, usize)> {
    let mut ways = vec![];
    if job.input.reading {
        ways.push((How::Reading, Part::Reader, 1));
    }
    ways.push((How::Memory, Part::Whole, 1));
    let most = if let Sharding::Exact(most) = job.detector.sharding() { most } else { 1 };
    let several = plan.build_threads.iter().filter(|&&n| n <= most);
    ways.extend(several.map(|&n| (How::Building(n), Part::Whole, n)));
    ways
}

/// Rows of one detector and input from memory.
struct Measured {
    rows: Vec<Row>,
    /// By row with several builder threads, packets a second of each round of as many pipelines apart, together.
    apart: Vec<Vec<f64>>,
}

/// One detector and input, one pipeline; its ways by turns.
fn from_memory(
    job: &Job,
    plan: &Plan,
    stop: &Stop,
    progress: &mut Progress,
) -> Result<Measured, Failure> {
    let title = job.input.title();
    note!("{title}: preparing {} of packets", quantity::size_text(plan.memory as u64));
    let image = job.input.image(&*job.detector, plan.memory)?;
    let row = |&(how, ..): &(How, Part, usize)| Row {
        detector: job.input.detector.clone(),
        input: job.input.name.to_owned(),
        about: job.input.about.clone(),
        how,
        packet_bytes: image.packet_bytes(),
        runs: vec![],
        search: None,
        profile: vec![],
    };
    let ways = ways(job, plan);
    let mut rows: Vec<Row> = ways.iter().map(row).collect();
    let mut apart = vec![Vec::new(); rows.len()];
    for _ in 0..plan.repeats {
        for ((row, apart), &(how, part, count)) in rows.iter_mut().zip(&mut apart).zip(&ways) {
            let (detector, core, threads) = (&*job.detector, plan.core(0), plan.threads(count));
            let pipeline = Pipeline { detector, part, image: &image, core, threads: &threads };
            let outcome = &at_once(&[pipeline], plan.time, &|| stop.requested())?[0];
            stopped(stop)?;
            let rates = outcome.amounts.over(outcome.seconds);
            progress.done(&format!(
                "{title}, {}: {} readouts/s, {} events/s, {:.2} GB/s",
                how.text(),
                rates.readouts.map_or("–".to_owned(), short),
                short(rates.events),
                rates.bytes / 1e9
            ));
            row.runs.push(Run { rates, cores: Some(count as f64), lost: None });
            if count == 1 {
                continue;
            }
            let threads = &plan.threads(1);
            let pipeline =
                |at| Pipeline { detector, part, image: &image, core: plan.core(at), threads };
            let pipelines: Vec<Pipeline<'_>> = (0..count).map(pipeline).collect();
            let all = at_once(&pipelines, plan.time, &|| stop.requested())?;
            stopped(stop)?;
            let each = all.iter().map(|outcome| outcome.amounts.over(outcome.seconds).packets);
            apart.push(each.sum());
            progress.done(&format!("{title}, {count} pipelines apart"));
        }
    }
    Ok(Measured { rows, apart })
}

/// Every detector with simulated traffic, from memory, on one core: a short form for other campaigns.
pub fn from_memory_now(time: Duration, repeats: usize, stop: &Stop) -> Result<Vec<Row>, Failure> {
    // 64 MiB are beyond any second-level cache.
    let plan = Plan { memory: 64 << 20, time, repeats, cores: vec![], build_threads: vec![] };
    let scratch = Scratch::default();
    let mut rows = vec![];
    for kind in ["sonde", "multigrid", "multiblade", "gdgem"] {
        for job in JobFlags::simulated(kind).jobs(&scratch)? {
            let mut progress = Progress::default();
            progress.expect(repeats, time);
            rows.extend(from_memory(&job, &plan, stop, &mut progress)?.rows);
        }
    }
    Ok(rows)
}

/// What several builder threads gain, from the rows of one detector and input.
fn gained(Measured { rows, apart }: &Measured) -> Vec<Speedup> {
    let Some(one) = rows.iter().find(|row| row.how == How::Memory) else { return vec![] };
    let beside = |many: &mut dyn Iterator<Item = f64>| {
        many.zip(&one.runs).map(|(n, one)| n / one.rates.packets).collect()
    };
    let of = |(row, apart): (&Row, &Vec<f64>)| {
        let How::Building(threads) = row.how else { return None };
        let ratios = beside(&mut row.runs.iter().map(|run| run.rates.packets));
        let apart = beside(&mut apart.iter().copied());
        let (detector, input) = (row.detector.clone(), row.input.clone());
        Some(Speedup { detector, input, threads, ratios, apart })
    };
    rows.iter().zip(apart).filter_map(of).collect()
}

/// An interrupted campaign leaves no result.
fn stopped(stop: &Stop) -> Result<(), Failure> {
    if stop.requested() { Err(anyhow::anyhow!("interrupted").into()) } else { Ok(()) }
}

/// What the compiler was allowed to use.
pub fn features() -> &'static str {
    if cfg!(target_feature = "avx512f") {
        "target-cpu with AVX-512"
    } else if cfg!(target_feature = "avx2") {
        "target-cpu with AVX2"
    } else {
        "portable"
    }
}

/// Steps done and to come.
#[derive(Debug, Default)]
struct Progress {
    /// Usual time of each step to come, in order.
    steps: std::collections::VecDeque<Duration>,
    done: usize,
}

impl Progress {
    fn expect(&mut self, steps: usize, each: Duration) {
        self.steps.extend(std::iter::repeat_n(each, steps));
    }

    fn left(&self) -> Duration {
        self.steps.iter().sum()
    }

    /// Time behind the step under way.
    fn after(&self) -> Duration {
        self.steps.iter().skip(1).sum()
    }

    /// `[2/9]` of the step under way.
    fn place(&self) -> String {
        format!("[{}/{}]", (self.done + 1).min(self.all()), self.all())
    }

    fn all(&self) -> usize {
        self.done + self.steps.len()
    }

    /// A step is over.
    fn done(&mut self, what: &str) {
        let place = self.place();
        self.steps.pop_front();
        self.done += 1;
        note!("{place} {what}, {} left", time(self.left()));
    }
}
