//! `fullcount lab truth`: how many simulated neutrons a decoder finds, and how many events it makes of nothing.
//!
//! Refuses other detectors, rates and noise out of range. Source: `docs/simulators.md`.

use clap::Args;
use fullcount_lab::truth::{self as campaign, TruthOptions};

use super::results::ResultFlags;
use crate::exit::Failure;
use crate::{help, say};

/// Share of simulated neutrons found in their pixel, and wrong events per neutron.
#[derive(Debug, Args)]
#[command(after_help = after())]
pub struct LabTruthFlags {
    #[arg(long, value_name = "KIND", help = help::truth_detector())]
    detector: String,
    #[arg(long, value_name = "RATES", value_delimiter = ',', help = help::truth_rates())]
    rates: Vec<String>,
    /// Noise as in `send`, e.g. dark=1%,bad=0.1%, or none; may be repeated. Neutrons pile up at random
    /// unless pileup= is given [default: none and dark=1%,bad=1%,coincidence=0.1%,packet=0.1%]
    #[arg(long, value_name = "SPEC")]
    noise: Vec<String>,
    #[arg(long, value_name = "N", help = help::truth_modules())]
    modules: Option<usize>,
    /// Neutrons per rate and noise setting, about; at most 60 s are simulated
    #[arg(long, value_name = "N", default_value = "500k")]
    neutrons: String,
    /// Decides everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Key of the decoder, e.g. detector.resolve_doubles=true; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Exit with 1 if less than this share of the clean neutrons is in the right pixel (or found), e.g. 99.9%
    #[arg(long, value_name = "SHARE")]
    require: Option<String>,
    #[command(flatten)]
    result: ResultFlags,
}

fn after() -> String {
    format!("{}\n{}", help::truth_clean(), help::examples("lab truth", ""))
}

/// Runs the campaign.
pub fn truth(flags: LabTruthFlags) -> Result<u8, Failure> {
    let LabTruthFlags { detector, rates, noise, modules, neutrons, seed, set, require, result } =
        flags;
    let asked = TruthOptions { detector, rates, noise, modules, neutrons, seed, set, require };
    let found = campaign::truth(&asked, &result.results(), say::line)?;
    result.show(&found.record, &found.table, &found.table)?;
    Ok(if found.enough { 0 } else { 1 })
}
