//! `fullcount lab spead switches`: what each optimisation gains. Refuses packet sizes, rates, turns and times out of range.

use anyhow::Context;
use clap::Args;
use fullcount_engine::config::refuse;
use fullcount_engine::stop::Stop;
use fullcount_lab::spead::switches::{self, SwitchOrder};

use super::super::read;
use super::super::results::ResultFlags;
use crate::exit::Failure;
use crate::say;

const EXAMPLES: &str = "\
Examples:
  fullcount lab spead switches
  fullcount lab spead switches --packets 560,760,1060,1472 --repeats 9
  fullcount lab spead switches --quick";

/// What each optimisation gains.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SwitchFlags {
    /// Packet sizes, bytes, with commas
    #[arg(
        long,
        value_name = "BYTES",
        value_delimiter = ',',
        default_value = "560,760,1060,1472,8972,65507"
    )]
    packets: Vec<usize>,
    /// Turns of each row, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 5)]
    repeats: usize,
    /// Length of a trial, 0.1s to 60s
    #[arg(long, value_name = "TIME", default_value = "1s")]
    trial: String,
    /// Rate of UDP with a receiver: one at which nothing is lost, 1Mbps to 100Gbps
    #[arg(long, value_name = "RATE", default_value = "1Gbps")]
    rate: String,
    /// One short turn of two sizes: does everything work?
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    result: ResultFlags,
}

/// Measures.
pub fn of_switches(flags: &SwitchFlags) -> Result<u8, Failure> {
    if let Some(bad) = flags.packets.iter().find(|p| !(56..=65_507).contains(*p)) {
        return Err(refuse("packets", bad, "56 to 65507 B").into());
    }
    if !(1..=1000).contains(&flags.repeats) {
        return Err(refuse("repeats", flags.repeats, "1 to 1000").into());
    }
    let seconds = read::duration("trial", &flags.trial)?.as_secs_f64();
    if !(0.1..=60.0).contains(&seconds) {
        return Err(refuse("trial", &flags.trial, "0.1s to 60s").into());
    }
    let rate = read::bits("rate", &flags.rate)? / 1e9;
    if !(0.001..=100.0).contains(&rate) {
        return Err(refuse("rate", &flags.rate, "1Mbps to 100Gbps").into());
    }
    let program = std::env::current_exe().context("finding this program")?;
    let order = SwitchOrder {
        program,
        packets: flags.packets.clone(),
        repeats: flags.repeats,
        seconds,
        rate,
    };
    let order = match flags.quick {
        false => order,
        true => SwitchOrder { packets: vec![1472, 65_507], repeats: 1, seconds: 0.2, ..order },
    };
    let mut record = flags.result.begin("spead-switches")?;
    let stop = Stop::on_signals().context("installing the signal handlers")?;
    let stopped = || stop.requested();
    let text = switches::run(&order, &mut record, (say::line, &stopped))?;
    flags.result.finish(&record, "SPEAD: what each optimisation gains", &text)?;
    Ok(0)
}
