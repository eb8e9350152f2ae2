//! `fullcount lab bench service`: a run under its operators. Refuses counts and times that no trial can have.
//!
//! Source: `docs/lab.md`, `docs/operations.md`.

use std::time::Duration;

use anyhow::Context;
use clap::Args;
use fullcount_engine::config::refuse;
use fullcount_engine::stop::Stop;
use fullcount_io::quantity::{self, QuantityError};
use fullcount_lab::bench::service::{OperatedTrial, measure};

use crate::exit::Failure;
use crate::lab::results::ResultFlags;
use crate::note;

/// A run at a rate beside clients of its control port, endless lines, and metrics and messages to nobody.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LabBenchServiceFlags {
    /// Rate of the packets, as `send` takes it
    #[arg(long, value_name = "RATE", default_value = "10Gbps")]
    rate: String,
    /// How long packets are sent, 100ms to 24h
    #[arg(long, value_name = "TIME", default_value = "60s")]
    duration: String,
    /// Clients that wait for each reply, 1 to 200
    #[arg(long, value_name = "N", default_value_t = 100)]
    clients: usize,
    /// Commands a second of each of them, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 50)]
    commands: u32,
    /// Clients that send endless lines and read nothing, 0 to 50
    #[arg(long, value_name = "N", default_value_t = 10)]
    endless: usize,
    /// Counters that are published, 0 to 10000
    #[arg(long, value_name = "N", default_value_t = 1000)]
    counters: u32,
    /// Time between two publications, 100ms to 1h
    #[arg(long, value_name = "TIME", default_value = "100ms")]
    period: String,
    #[command(flatten)]
    result: ResultFlags,
}

const EXAMPLES: &str = "\
Ends with 0 if nothing was lost and no reply was wrong, 95 % of the commands that clients were to
give were answered, 99 % of the rate was received and 95 % of the snapshots for Graphite were taken;
with 3 if not, and names what was not. The clients run here, at a low priority: give them cores of
their own.

Examples:
  fullcount lab bench service
  fullcount lab bench service --rate 1Gbps --duration 5s --json";

impl LabBenchServiceFlags {
    fn trial(&self) -> Result<OperatedTrial, Failure> {
        let time = |key: &'static str, text: &str, most: u64| {
            let range = Duration::from_millis(100)..=Duration::from_secs(most);
            let read = quantity::duration(text).ok().filter(|time| range.contains(time));
            read.ok_or_else(|| refuse(key, text, format!("100ms to {}h", most / 3600)))
        };
        let within = |key: &'static str, n: u64, least: u64, most: u64| match n {
            n if (least..=most).contains(&n) => Ok(()),
            n => Err(refuse(key, n, format!("{least} to {most}"))),
        };
        within("clients", self.clients as u64, 1, 200)?;
        within("commands", self.commands.into(), 1, 1000)?;
        within("endless", self.endless as u64, 0, 50)?;
        within("counters", self.counters.into(), 0, 10_000)?;
        Ok(OperatedTrial {
            rate: self
                .rate
                .parse()
                .map_err(|e: QuantityError| Failure::Wrong(format!("--rate: {e}")))?,
            rate_text: self.rate.clone(),
            duration: time("duration", &self.duration, 86_400)?,
            clients: self.clients,
            commands: self.commands,
            endless: self.endless,
            counters: self.counters,
            period: time("period", &self.period, 3600)?,
        })
    }
}

/// Measures and prints.
pub fn service(flags: &LabBenchServiceFlags) -> Result<u8, Failure> {
    let trial = flags.trial()?;
    let mut record = flags.result.begin("service")?;
    let program = std::env::current_exe().context("this program's own path")?;
    let stop = Stop::on_signals().context("installing the signal handlers")?;
    let found = measure(&program, &trial, &mut record, &|| stop.requested());
    let found = found.map_err(anyhow::Error::from)?;
    flags.result.finish(&record, "A run under its operators", &found.table)?;
    found.missed.iter().for_each(|what| note!("did not hold: {what}"));
    Ok(if found.held { 0 } else { 3 })
}
