//! `fullcount lab detectors`: the paper's table 5 for every detector, from memory and as the paper did it, and how
//! several pipelines share one host.
//!
//! Refuses wrong options before anything is made: unknown detectors, inputs and settings, cores that are not there,
//! more memory than half of the host's.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use fullcount_detect::detector::MOST_THREADS;
use fullcount_engine::config::refuse;
use fullcount_engine::open::check_core;
use fullcount_engine::stop::Stop;
use fullcount_io::host::Host;
use fullcount_io::quantity;
use fullcount_lab::detectors::campaign::{SpeedCampaign, SpeedPlan, WantedParts};
use fullcount_lab::detectors::job::Choice;
use fullcount_lab::lossless::SearchSettings;

use super::lossless::SearchFlags;
use super::read;
use super::results::ResultFlags;
use crate::exit::Failure;
use crate::{help, say};

/// What is measured.
#[derive(Debug, Args)]
struct ChoiceFlags {
    /// Detectors, with commas [default: all that have an input]
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    detector: Vec<String>,
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help = help::inputs())]
    input: Vec<String>,
    /// Capture that is repeated instead: KIND=FILE, or KIND=FILE?port=N; may be repeated
    #[arg(long, value_name = "KIND=FILE")]
    capture: Vec<String>,
    /// Geometry file of a detector; may be repeated
    #[arg(long, value_name = "KIND=FILE")]
    geometry: Vec<String>,
    /// Key of a detector's configuration, e.g. KIND.max_streams=64; may be repeated
    #[arg(long, value_name = "KIND.KEY=VALUE")]
    set: Vec<String>,
    /// What decoders use: auto, portable, x86-64-v3 or x86-64-v4-vbmi [default: auto, the largest that this processor has]
    #[arg(long, value_name = "SET")]
    instructions: Option<String>,
    /// Folder of the recorded packets
    #[arg(long, value_name = "DIR", default_value = "vectors")]
    vectors: PathBuf,
}

impl ChoiceFlags {
    fn choice(&self) -> Choice {
        Choice {
            detectors: self.detector.clone(),
            inputs: self.input.clone(),
            captures: self.capture.clone(),
            geometries: self.geometry.clone(),
            settings: self.set.clone(),
            instructions: self.instructions.clone(),
            vectors: self.vectors.clone(),
        }
    }
}

/// Packets, readouts and events a second of every detector: from memory, over UDP, several at once.
#[derive(Debug, Args)]
#[command(after_help = after())]
pub struct LabDetectorsFlags {
    #[command(flatten)]
    jobs: ChoiceFlags,
    /// memory (packets prepared in memory, one core) and udp (replayed over loopback into the service, as
    /// the paper did), with commas [default: memory, unless only --pipelines is given]
    #[arg(long, value_name = "WAYS", value_delimiter = ',')]
    over: Vec<String>,
    /// So many pipelines at once, with commas: each detector n times, and all of them mixed
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pipelines: Vec<usize>,
    /// From memory, besides one: so many builder threads, with commas, for detectors that may have them,
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

const ABOUT: &str = "\
From memory each pass over --memory begins with a fresh decoder: packets of all repetitions are
moved on before anything is measured. Over UDP captures are moved on in the same way. The figures
are those of the service's own /metrics; where packets are lost flat out, the highest rate without
loss is searched as 'lab lossless' does. Results: detectors-memory, -udp or -pipelines; of several
parts: detectors.
Exit code 1 if a search found no rate without loss above the floor.";

const EXAMPLES: &str = "\
  fullcount lab detectors
  fullcount lab detectors --over memory,udp --pipelines 1,2,3,4
  fullcount lab detectors --over udp --flat-out-only --profile
  fullcount lab detectors --over udp --input captures,simulated --duration 3s --profile
  fullcount lab detectors --over udp --threads 2 --confirm 60s --confirmations 1";

fn after() -> String {
    format!("{ABOUT}\n\n{}", help::examples("lab detectors", EXAMPLES))
}

impl LabDetectorsFlags {
    fn parts(&self) -> Result<WantedParts, Failure> {
        let known = ["memory", "udp"];
        if let Some(other) = self.over.iter().find(|o| !known.contains(&o.as_str())) {
            return Err(refuse("over", other, "memory, udp or both with a comma").into());
        }
        let asked = |way: &str| self.over.iter().any(|o| o == way);
        let memory = asked("memory") || (self.over.is_empty() && self.pipelines.is_empty());
        Ok(WantedParts { memory, udp: asked("udp"), pipelines: !self.pipelines.is_empty() })
    }

    /// A profile needs the service over UDP, on cores that are its own.
    fn check_profile(&self, parts: &WantedParts, plan: &SpeedPlan) -> Result<(), Failure> {
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

    fn plan(&self) -> Result<SpeedPlan, Failure> {
        let memory = read::size("memory", &self.memory)?;
        let time = read::duration("duration", &self.duration)?;
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
        read::size("receive-buffer", &self.receive_buffer)?;
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
        let (memory, repeats, tell) = (memory as usize, self.repeats, say::line);
        Ok(SpeedPlan { memory, time, repeats, cores, build_threads, tell })
    }
}

/// Runs the campaign.
pub fn detectors(flags: LabDetectorsFlags) -> Result<u8, Failure> {
    let (parts, plan) = (flags.parts()?, flags.plan()?);
    let search = flags.search.settings(SearchSettings::default())?;
    flags.check_profile(&parts, &plan)?;
    let campaign = SpeedCampaign {
        choice: flags.jobs.choice(),
        parts,
        plan,
        pipelines: flags.pipelines,
        threads: flags.threads,
        receive_buffer: flags.receive_buffer,
        near: flags.near_cores,
        search: (!flags.flat_out_only).then_some(search),
        profile: flags.profile,
    };
    let stop = Stop::on_signals().context("installing the signal handlers")?;
    let done = campaign.run(&flags.result.results(), &stop)?;
    let title = "Detectors: packets, readouts and events a second";
    flags.result.finish(&done.record, title, &done.table)?;
    Ok(if done.complete { 0 } else { 1 })
}
