//! A campaign over detectors: from memory, over UDP, several pipelines at once; and its table.
//!
//! What is measured from memory is driven here, with reader and builder of the detector. Refuses, before anything is made:
//! detectors without an input, settings that a detector refuses. A trial that is interrupted leaves no result.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use fullcount_detect::detector::{Sharding, Threads, registered};
use fullcount_engine::stop::Stop;
use fullcount_io::quantity::{self, spoken};

use super::at_once::{Pipeline, at_once};
use super::chain::DecoderPart;
use super::job::{Choice, DetectorJob};
use super::progress::StepProgress;
use super::scratch::ScratchFiles;
use super::simulated::simulated;
use super::speedup::{self, Speedup};
use super::{How, SpeedRow, SpeedTrial, copy, limits, markdown, pipelines, udp};
use crate::Tell;
use crate::error::LabError;
use crate::lossless::SearchSettings;
use crate::record::results::Results;
use crate::record::{Figure, Record};
use fullcount_core::quantity::short_text as short;

/// Usual name of the results, with what was measured behind it if that is one thing.
const NAME: &str = "detectors";
/// What that is of pipelines.
const PIPELINES: &str = "-pipelines";
/// The copy test takes so long, or a trial's length if that is less.
const COPY: Duration = Duration::from_secs(1);

/// How it is measured, checked.
#[derive(Debug, Clone)]
pub struct SpeedPlan {
    /// Bytes of input of each pipeline.
    pub memory: usize,
    /// Length of a trial.
    pub time: Duration,
    /// Trials.
    pub repeats: usize,
    /// CPUs in the order of use.
    pub cores: Vec<usize>,
    /// Numbers of builder threads besides one.
    pub build_threads: Vec<usize>,
    /// Gets lines of progress.
    pub tell: Tell,
}

impl SpeedPlan {
    /// The CPU at a place of the list; `None` beyond its end.
    pub fn core(&self, at: usize) -> Option<usize> {
        self.cores.get(at).copied()
    }

    /// So many threads of a builder, each further one on a CPU of its own.
    fn threads(&self, count: usize) -> Threads {
        let (cores, tell) = (self.cores.clone(), self.tell);
        let started = move |number: usize| {
            if let Some(&core) = cores.get(number)
                && let Err(e) = fullcount_io::sys::pin_thread(core)
            {
                tell(&format!("cannot pin to CPU {core}: {e}; measured without"));
            }
        };
        Threads { count, started: Arc::new(started) }
    }

    /// Length of a copy test.
    pub fn copy_time(&self) -> Duration {
        self.time.min(COPY)
    }
}

/// Which parts are wanted.
#[derive(Debug, Clone, Copy)]
pub struct WantedParts {
    /// From memory.
    pub memory: bool,
    /// Over UDP.
    pub udp: bool,
    /// Several pipelines at once.
    pub pipelines: bool,
}

impl WantedParts {
    /// Usual name of the results: no file of another part is overwritten.
    fn name(self) -> String {
        let part = match (self.memory, self.udp, self.pipelines) {
            (true, false, false) => "-memory",
            (false, true, false) => "-udp",
            (false, false, true) => PIPELINES,
            _ => "",
        };
        format!("{NAME}{part}")
    }
}

/// All that is asked for.
#[derive(Debug, Clone)]
pub struct SpeedCampaign {
    /// Detectors and inputs.
    pub choice: Choice,
    /// Parts.
    pub parts: WantedParts,
    /// Times and cores.
    pub plan: SpeedPlan,
    /// Numbers of pipelines.
    pub pipelines: Vec<usize>,
    /// Threads of the service over UDP.
    pub threads: Vec<u32>,
    /// Its receive buffer.
    pub receive_buffer: String,
    /// Over UDP each trial on two cores that share a cache.
    pub near: bool,
    /// The search for the rate without loss; `None` leaves it out.
    pub search: Option<SearchSettings>,
    /// Over UDP: what the service's cores spend their time on.
    pub profile: bool,
}

/// A campaign that is over.
#[derive(Debug)]
pub struct Finished {
    /// The results file.
    pub record: Record,
    /// The tables.
    pub table: String,
    /// Every search found a rate.
    pub complete: bool,
}

impl SpeedCampaign {
    /// Runs it.
    ///
    /// # Errors
    /// Inputs and settings that are refused, results files that are there, and trials that failed or were interrupted.
    pub fn run(&self, results: &Results, stop: &Stop) -> Result<Finished, LabError> {
        let (parts, plan, tell) = (self.parts, &self.plan, self.plan.tell);
        let scratch = ScratchFiles::default();
        let jobs = self.choice.jobs(&scratch, tell)?;
        let usual = parts.name();
        let numbers = pipelines::numbers(&self.pipelines);
        let figure = {
            let name = results.name(&usual);
            format!("{}{PIPELINES}", name.strip_suffix(PIPELINES).unwrap_or(name))
        };
        if !numbers.is_empty() {
            results.ready(&["svg", "png"].map(|end| format!("{figure}.{end}")))?;
        }
        let mut record = results.begin(&usual)?;
        let own: Vec<&DetectorJob> = DetectorJob::piped(&jobs, &self.choice);
        let played: Vec<&DetectorJob> = DetectorJob::played(&jobs, &self.choice);
        let udp = udp::OverUdp {
            plan,
            threads: &self.threads,
            receive_buffer: &self.receive_buffer,
            near: self.near,
            search: self.search,
            profile: self.profile,
            stop: &|| stop.requested(),
        };
        let others = pipelines::trials(&own, &numbers);
        let mut progress = self.progress(&jobs, played.len(), udp.usual(), others);
        tell(&format!("about {}", spoken(progress.left())));
        self.note(&numbers, &mut record);
        let (mut rows, mut speedups): (Vec<SpeedRow>, Vec<Speedup>) = (vec![], vec![]);
        let mut copies = vec![copy::bandwidth(&[plan.core(0)], plan.copy_time())];
        if parts.memory {
            for job in &jobs {
                let more = from_memory(job, plan, stop, &mut progress)?;
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
            let place = |r: &SpeedRow| jobs.iter().position(|j| j.input.detector == r.detector);
            rows.sort_by_key(place);
        }
        let mut table = if rows.is_empty() { String::new() } else { markdown(&rows) };
        table.push_str(&speedup::markdown(&speedups));
        if !numbers.is_empty() {
            let scaling = pipelines::run(&own, &numbers, plan, stop, &mut progress)?;
            scaling.note(&mut record);
            let drawn = scaling.figure(&figure).write(&results.folder, results.overwrite);
            for path in drawn.map_err(anyhow::Error::from)? {
                tell(&format!("drawn in {}", path.display()));
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
            "\nThis machine copies {:.1} GB/s on one core (memcpy of 256 MiB blocks). Build: {}; instructions: {}.\n",
            copied.value,
            features(),
            self.choice.instructions()?
        ));
        let is_there = |job: &&DetectorJob| {
            let among = |some: &[&DetectorJob]| some.iter().any(|&other| std::ptr::eq(other, *job));
            parts.memory || parts.udp && among(&played) || parts.pipelines && among(&own)
        };
        for job in jobs.iter().filter(is_there) {
            table.push_str(&format!("\n- {}: {}", job.input.title(), job.input.about));
        }
        table.push('\n');
        Ok(Finished { record, table, complete })
    }

    /// What is to come: from memory, over UDP, and so many trials of several pipelines.
    fn progress(
        &self,
        jobs: &[DetectorJob],
        played: usize,
        udp: Duration,
        others: usize,
    ) -> StepProgress {
        let plan = &self.plan;
        let trial = plan.time + Duration::from_millis(500);
        let mut progress = StepProgress::new(plan.tell);
        if self.parts.memory {
            // Ways with several threads are two trials each.
            let ways = jobs.iter().flat_map(|job| ways(job, plan));
            let trials: usize = ways.map(|(.., count)| 1 + usize::from(count > 1)).sum();
            progress.expect(trials * plan.repeats, trial);
        }
        if self.parts.udp {
            progress.expect(played * self.threads.len(), udp);
        }
        progress.expect(others * plan.repeats, trial);
        progress
    }

    /// Notes how it is measured.
    fn note(&self, numbers: &[usize], record: &mut Record) {
        let plan = &self.plan;
        record
            .parameter("memory_bytes", plan.memory)
            .parameter("seconds", plan.time.as_secs_f64())
            .parameter("threads", self.threads.clone())
            .parameter("pipelines", numbers.to_vec())
            .parameter("repeats", plan.repeats)
            .parameter("cores", plan.cores.clone())
            .parameter("near_cores", self.near)
            .parameter("target_features", features());
        // Refused before, if it is not there.
        if let Ok(instructions) = self.choice.instructions() {
            record.parameter("instructions", instructions.name());
        }
        if let Some(search) = self.search.filter(|_| self.parts.udp) {
            search.note(record);
        }
    }
}

/// What is measured of a detector from memory: how it is called, how much of it, and its builder threads.
fn ways(job: &DetectorJob, plan: &SpeedPlan) -> Vec<(How, DecoderPart, usize)> {
    let mut ways = vec![];
    if job.input.reading {
        ways.push((How::Reading, DecoderPart::FirstStep, 1));
    }
    ways.push((How::Memory, DecoderPart::Whole, 1));
    let most = if let Sharding::Exact(most) = job.detector.sharding() { most } else { 1 };
    let several = plan.build_threads.iter().filter(|&&n| n <= most);
    ways.extend(several.map(|&n| (How::Building(n), DecoderPart::Whole, n)));
    ways
}

/// Rows of one detector and input from memory.
struct Measured {
    rows: Vec<SpeedRow>,
    /// By row with several builder threads, packets a second of each round of as many pipelines apart, together.
    apart: Vec<Vec<f64>>,
}

/// One detector and input, one pipeline; its ways by turns.
fn from_memory(
    job: &DetectorJob,
    plan: &SpeedPlan,
    stop: &Stop,
    progress: &mut StepProgress,
) -> Result<Measured, LabError> {
    let title = job.input.title();
    (plan.tell)(&format!(
        "{title}: preparing {} of packets",
        quantity::size_text(plan.memory as u64)
    ));
    let image = job.input.image(&*job.detector, plan.memory)?;
    let row = |&(how, ..): &(How, DecoderPart, usize)| SpeedRow {
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
    let mut rows: Vec<SpeedRow> = ways.iter().map(row).collect();
    let mut apart = vec![Vec::new(); rows.len()];
    for _ in 0..plan.repeats {
        for ((row, apart), &(how, part, count)) in rows.iter_mut().zip(&mut apart).zip(&ways) {
            let (detector, core, threads) = (&*job.detector, plan.core(0), plan.threads(count));
            let pipeline = Pipeline { detector, part, image: &image, core, threads: &threads };
            let outcome = &at_once(&[pipeline], plan.time, &|| stop.requested(), plan.tell)?[0];
            stopped(stop)?;
            let rates = outcome.amounts.over(outcome.seconds);
            progress.done(&format!(
                "{title}, {}: {} readouts/s, {} events/s, {:.2} GB/s",
                how.text(),
                rates.readouts.map_or("–".to_owned(), short),
                short(rates.events),
                rates.bytes / 1e9
            ));
            row.runs.push(SpeedTrial { rates, cores: Some(count as f64), lost: None });
            if count == 1 {
                continue;
            }
            let threads = &plan.threads(1);
            let pipeline =
                |at| Pipeline { detector, part, image: &image, core: plan.core(at), threads };
            let pipelines: Vec<Pipeline<'_>> = (0..count).map(pipeline).collect();
            let all = at_once(&pipelines, plan.time, &|| stop.requested(), plan.tell)?;
            stopped(stop)?;
            let each = all.iter().map(|outcome| outcome.amounts.over(outcome.seconds).packets);
            apart.push(each.sum());
            progress.done(&format!("{title}, {count} pipelines apart"));
        }
    }
    Ok(Measured { rows, apart })
}

/// Every detector with simulated traffic, from memory, on one core: a short form for other campaigns.
///
/// # Errors
/// Trials that failed or were interrupted.
pub fn from_memory_now(
    time: Duration,
    repeats: usize,
    stop: &Stop,
    tell: Tell,
) -> Result<Vec<SpeedRow>, LabError> {
    // 64 MiB are beyond any second-level cache.
    let plan =
        SpeedPlan { memory: 64 << 20, time, repeats, cores: vec![], build_threads: vec![], tell };
    let scratch = ScratchFiles::default();
    let mut rows = vec![];
    let registry = registered();
    for kind in registry.kinds().map(|k| k.name()).filter(|k| !simulated(k).is_empty()) {
        for job in Choice::simulated(kind).jobs(&scratch, tell)? {
            let mut progress = StepProgress::new(tell);
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
    let of = |(row, apart): (&SpeedRow, &Vec<f64>)| {
        let How::Building(threads) = row.how else { return None };
        let ratios = beside(&mut row.runs.iter().map(|run| run.rates.packets));
        let apart = beside(&mut apart.iter().copied());
        let (detector, input) = (row.detector.clone(), row.input.clone());
        Some(Speedup { detector, input, threads, ratios, apart })
    };
    rows.iter().zip(apart).filter_map(of).collect()
}

/// An interrupted campaign leaves no result.
///
/// # Errors
/// It was interrupted.
pub fn stopped(stop: &Stop) -> Result<(), LabError> {
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
