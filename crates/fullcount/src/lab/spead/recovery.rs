//! `fullcount lab spead recovery`: what re-requests make good on a link that loses frames. Refuses shares, sizes, rates and times out of range.

use anyhow::Context;
use clap::Args;
use fullcount_engine::config::refuse;
use fullcount_engine::stop::Stop;
use fullcount_lab::spead::recovery::{self, RecoveryOrder};

use super::super::read;
use super::super::results::ResultFlags;
use super::reached;
use crate::exit::Failure;
use crate::say;

const EXAMPLES: &str = "\
The link emulator stands between two namespaces and loses frames by a seed, in both directions.
Needs root. Exit code 1: a heap was lost in spite of recovery.

Examples:
  fullcount lab spead recovery
  fullcount lab spead recovery --losses 1e-4,1e-2 --round-trip 100ms
  fullcount lab spead recovery --quick";

/// What re-requests make good.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RecoveryFlags {
    /// Shares of the frames that the link loses, 0 to 0.1, with commas
    #[arg(
        long,
        value_name = "SHARES",
        value_delimiter = ',',
        default_value = "1e-5,1e-4,1e-3,1e-2"
    )]
    losses: Vec<f64>,
    /// Size of a packet, 56 to 8972 bytes
    #[arg(long, value_name = "BYTES", default_value_t = 8972)]
    packet: usize,
    /// Rate of the link, 10Mbps to 4Gbps; heaps are sent at 0.8 of it
    #[arg(long, value_name = "RATE", default_value = "1Gbps")]
    rate: String,
    /// From the sender to the receiver and back, 0 to 1s
    #[arg(long, value_name = "TIME", default_value = "8.77ms")]
    round_trip: String,
    /// Turns of each share, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 3)]
    repeats: usize,
    /// How long heaps are sent in a turn, 0.1s to 10min
    #[arg(long, value_name = "TIME", default_value = "5s")]
    trial: String,
    /// One short turn of one share: does everything work?
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    result: ResultFlags,
}

impl RecoveryFlags {
    fn order(&self) -> Result<RecoveryOrder, Failure> {
        if let Some(bad) = self.losses.iter().find(|share| !(0.0..=0.1).contains(*share)) {
            return Err(refuse("losses", bad, "0 to 0.1").into());
        }
        if !(56..=8972).contains(&self.packet) {
            return Err(refuse("packet", self.packet, "56 to 8972 B").into());
        }
        let gbps = read::bits("rate", &self.rate)? / 1e9;
        if !(0.01..=4.0).contains(&gbps) {
            return Err(refuse("rate", &self.rate, "10Mbps to 4Gbps").into());
        }
        let round_trip = read::duration("round-trip", &self.round_trip)?;
        if round_trip.as_secs_f64() > 1.0 {
            return Err(refuse("round-trip", &self.round_trip, "0 to 1s").into());
        }
        if !(1..=1000).contains(&self.repeats) {
            return Err(refuse("repeats", self.repeats, "1 to 1000").into());
        }
        let seconds = read::duration("trial", &self.trial)?.as_secs_f64();
        if !(0.1..=600.0).contains(&seconds) {
            return Err(refuse("trial", &self.trial, "0.1s to 10min").into());
        }
        let program = std::env::current_exe().context("finding this program")?;
        let (losses, packet, repeats) = (self.losses.clone(), self.packet, self.repeats);
        let order = RecoveryOrder { program, losses, packet, gbps, round_trip, repeats, seconds };
        Ok(match self.quick {
            false => order,
            true => RecoveryOrder { losses: vec![1e-2], repeats: 1, seconds: 0.5, ..order },
        })
    }
}

/// Measures.
pub fn of_recovery(flags: &RecoveryFlags) -> Result<u8, Failure> {
    let order = flags.order()?;
    let mut record = flags.result.begin("spead-recovery")?;
    let stop = Stop::on_signals().context("installing the signal handlers")?;
    let stopped = || stop.requested();
    let found = recovery::run(&order, &mut record, (say::line, &stopped))?;
    flags.result.finish(&record, "SPEAD: heaps over a link that loses frames", &found.text)?;
    Ok(reached(&found.missed, flags.quick))
}
