//! `fullcount lab bench trial`: one trial of `run` or `receive` and of what sends to it. Refuses counts and times that no
//! trial can have, and options that do not go together.
//!
//! Source: `docs/lab.md`, `docs/testing.md`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use fullcount_detect::detector::registered;
use fullcount_engine::config::refuse;
use fullcount_engine::stop::Stop;
use fullcount_lab::bench::trial::datagrams::BenchDatagrams;
use fullcount_lab::bench::trial::{BenchCommands, BenchLoad, BenchSenders, BenchTrial};

use crate::exit::Failure;
use crate::lab::read;
use crate::lab::results::ResultFlags;
use crate::say;

/// One trial of a receiver and its senders over loopback; the row holds the summaries of all of them.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LabBenchTrialFlags {
    /// Detector of run, and what send simulates [default: the one that run takes]
    #[arg(long, value_name = "KIND")]
    detector: Option<String>,
    /// Rate of each sender, as send takes it
    #[arg(long, value_name = "RATE", default_value = "10Gbps")]
    rate: String,
    /// Size of the packets, as send takes it
    #[arg(long, value_name = "BYTES")]
    size: Option<String>,
    /// How long packets are sent, 100ms to 24h
    #[arg(long, value_name = "TIME", default_value = "10s")]
    duration: String,
    /// Senders, 1 to 64
    #[arg(long, value_name = "N", default_value_t = 1)]
    senders: usize,
    /// Core of each sender, with commas
    #[arg(long, value_name = "CPUS", value_delimiter = ',')]
    send_cores: Vec<usize>,
    /// Instead of senders: this many datagrams that no readout system sends
    #[arg(long, value_name = "N")]
    datagrams: Option<u32>,
    /// Decides what they are
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Folder with golden vectors that they are made of, a folder for each detector
    #[arg(long, value_name = "DIR")]
    vectors: Option<PathBuf>,
    /// Time between two readings of the receiver's memory, 1s and more
    #[arg(long, value_name = "TIME")]
    memory_every: Option<String>,
    /// A command for the control port of run; {n} is its number, {n:03} the same in three digits
    #[arg(long, value_name = "TEXT")]
    command: Option<String>,
    /// How often it is given
    #[arg(long, value_name = "N", default_value_t = 1)]
    commands: u32,
    /// Time between two commands
    #[arg(long, value_name = "TIME", default_value = "1s")]
    every: String,
    /// Folder whose captures are replayed into a run afterwards
    #[arg(long, value_name = "DIR")]
    replay: Option<PathBuf>,
    #[command(flatten)]
    result: ResultFlags,
    /// run or receive with its options; source, detector and --json are added
    #[arg(last = true, required = true, value_name = "VERB OPTIONS")]
    receiver: Vec<String>,
}

const EXAMPLES: &str = "\
What `cargo xtask prove` makes its proofs of: it looks at the row and says what has to be
true of it.

Examples:
  fullcount lab bench trial --rate 10Gbps --duration 60s -- run --sink null --threads 1 --web off
  fullcount lab bench trial --senders 2 --rate 1Gbps --detector sequence -- receive --senders 2
  fullcount lab bench trial --datagrams 1000000 --vectors vectors -- run --sink null --web off";

impl LabBenchTrialFlags {
    fn load(&self) -> Result<BenchLoad, Failure> {
        if let Some(count) = self.datagrams {
            let vectors = self.vectors.clone();
            return Ok(BenchLoad::Datagrams(BenchDatagrams { count, seed: self.seed, vectors }));
        }
        if !(1..=64).contains(&self.senders) {
            return Err(refuse("senders", self.senders, "1 to 64").into());
        }
        if !matches!(self.send_cores.len(), 0) && self.send_cores.len() != self.senders {
            let given = self.send_cores.len();
            return Err(refuse("send-cores", given, "one for each sender").into());
        }
        let duration = self.time("duration", &self.duration, Duration::from_millis(100))?;
        let mut options = vec!["--rate", &self.rate, "--duration", &self.duration];
        options.extend(self.size.iter().flat_map(|size| ["--size", size.as_str()]));
        let options = options.into_iter().map(str::to_owned).collect();
        let core = |n: usize| self.send_cores.get(n).copied();
        let cores = (0..self.senders).map(core).collect();
        Ok(BenchLoad::Senders(BenchSenders { options, cores, duration }))
    }

    fn time(&self, key: &'static str, text: &str, least: Duration) -> Result<Duration, Failure> {
        let time = read::duration(key, text)?;
        match time >= least && time <= Duration::from_secs(86_400) {
            true => Ok(time),
            false => Err(refuse(key, text, format!("{}ms to 24h", least.as_millis())).into()),
        }
    }

    fn trial(&self) -> Result<BenchTrial, Failure> {
        let verb = self.receiver.first().map_or("", String::as_str);
        if !matches!(verb, "run" | "receive") {
            return Err(refuse("receiver", verb, "run or receive").into());
        }
        let second = Duration::from_secs(1);
        let memory = self.memory_every.as_ref();
        let memory_every =
            memory.map(|text| self.time("memory-every", text, second)).transpose()?;
        let every = self.time("every", &self.every, Duration::from_millis(1))?;
        let command =
            |text: &String| BenchCommands { count: self.commands, every, text: text.clone() };
        if self.command.is_some() && verb != "run" {
            return Err(refuse("command", verb, "with run, which has a control port").into());
        }
        Ok(BenchTrial {
            receiver: self.receiver.clone(),
            detector: self.detector.clone().unwrap_or_else(|| registered().usual().to_owned()),
            load: self.load()?,
            memory_every,
            commands: self.command.as_ref().map(command),
            replay: self.replay.clone(),
        })
    }
}

/// Measures and prints.
pub fn trial(flags: &LabBenchTrialFlags) -> Result<u8, Failure> {
    let trial = flags.trial()?;
    let mut record = flags.result.begin("trial")?;
    let program = std::env::current_exe().context("this program's own path")?;
    let stop = Stop::on_signals().context("installing the signal handlers")?;
    let row = trial.measure(&program, say::line, &|| stop.requested());
    let row = row.map_err(anyhow::Error::from)?;
    let table = format!("```json\n{row:#}\n```\n");
    record.parameter("receiver", flags.receiver.clone()).row(row);
    flags.result.finish(&record, "One trial", &table)?;
    Ok(0)
}
