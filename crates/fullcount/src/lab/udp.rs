//! `fullcount lab udp`: numbered packets over loopback, size by size, this binary as both ends.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use fullcount_engine::config::refuse;
use fullcount_io::quantity::{self, Rate};
use fullcount_lab::record::Record;
use fullcount_lab::sweep::children::Children;
use fullcount_lab::sweep::{Load, Plan, Sweep};

use crate::exit::Failure;
use crate::{note, say, tell};

/// `send` into `receive` on loopback over packet sizes, one core each.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Flags {
    /// Offered payload rate; leave out with --flat-out
    #[arg(long, value_name = "RATE", default_value = "10Gbps")]
    rate: String,
    /// As fast as the sender can, at 64, 1472 and 8972 B unless --sizes says otherwise
    #[arg(long)]
    flat_out: bool,
    /// Payload sizes, e.g. 64,1472,8972 [default: the 16 of the 2018 paper's table 3]
    #[arg(long, value_name = "BYTES", value_delimiter = ',')]
    sizes: Vec<usize>,
    /// Time per trial
    #[arg(long, value_name = "TIME", default_value = "10s")]
    duration: String,
    /// Trials per size; medians are reported
    #[arg(long, value_name = "N")]
    repeats: Option<usize>,
    /// Folder for the results [default: docs/results if there is one here, else this folder]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Name of the results file
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Print the results file instead of the table
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Exit code 1 if a packet was lost at the offered rate, or that rate was not reached within 1 %.

Examples:
  fullcount lab udp
  fullcount lab udp --flat-out
  fullcount lab udp --rate 5Gbps --sizes 64,1472 --duration 3s --out /tmp";

/// Runs the campaign.
pub fn udp(flags: Flags) -> Result<u8, Failure> {
    let mut plan = if flags.flat_out { Plan::flat_out() } else { Plan::offered() };
    if !flags.flat_out {
        plan.load = match flags.rate.parse::<Rate>() {
            Ok(Rate::Bits(bits)) => Load::Offered(bits),
            Ok(Rate::Packets(_)) | Err(_) => {
                let why = "payload bits such as 10Gbps";
                return Err(refuse("rate", &flags.rate, why).into());
            }
        };
    }
    if !flags.sizes.is_empty() {
        plan.sizes.clone_from(&flags.sizes);
    }
    plan.duration = quantity::duration(&flags.duration)
        .map_err(|e| refuse("duration", &flags.duration, e.to_string()))?;
    plan.repeats = flags.repeats.unwrap_or(plan.repeats);
    let default = if flags.flat_out { "udp-flat-out" } else { "udp-offered" };
    let name = flags.name.as_deref().unwrap_or(default);
    let program = std::env::current_exe().context("finding this program")?;
    let mut record = Record::begin(name).map_err(anyhow::Error::from)?;
    let mut children = Children::new(program);
    let sweep = Sweep::run(plan, &mut children, &mut |line| note!("{line}"))
        .map_err(anyhow::Error::from)?;
    sweep.note(&mut record);
    let path = record.write(&super::folder(flags.out)).map_err(anyhow::Error::from)?;
    if flags.json {
        say!("{}", record.json());
    } else {
        tell!("{}", sweep.markdown());
    }
    note!("written to {}", path.display());
    // A rate that was not offered proves nothing about losing nothing.
    let mut offered = true;
    if let Load::Offered(bits) = sweep.plan.load {
        for row in &sweep.rows {
            let sent = row.outcomes.iter().map(|o| o.sent_gbps).fold(f64::INFINITY, f64::min);
            if sent < 0.99 * bits / 1e9 {
                offered = false;
                let (size, asked) = (row.size, bits / 1e9);
                note!("{size} B: asked for {asked} Gbit/s, only {sent:.2} were sent");
            }
        }
    }
    Ok(if flags.flat_out || (sweep.lossless() && offered) { 0 } else { 1 })
}
