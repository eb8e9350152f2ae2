//! `fullcount lab truth`: how many simulated neutrons a decoder finds, and how many events it makes of nothing.
//!
//! Refuses other detectors, rates and noise out of range. Source: `docs/simulators.md`.

use clap::Args;
use fullcount_lab::truth::{self as campaign, Asked};

use super::results::ResultFlags;
use crate::exit::Failure;
use crate::say;

/// Share of simulated neutrons found in their pixel, and wrong events per neutron.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Flags {
    /// Detector: multigrid, multiblade or gdgem
    #[arg(long, value_name = "KIND")]
    detector: String,
    /// Neutrons per second and module (cassette), 1Hz to 100kHz, or over a Gd-GEM, 1Hz to 20MHz; several
    /// with commas [default: 1kHz,10kHz,100kHz; gdgem 100kHz,1MHz,5MHz]
    #[arg(long, value_name = "RATES", value_delimiter = ',')]
    rates: Vec<String>,
    /// Noise as in `send`, e.g. dark=1%,bad=0.1%, or none; may be repeated. Neutrons pile up at random
    /// unless pileup= is given [default: none and dark=1%,bad=1%,coincidence=0.1%,packet=0.1%]
    #[arg(long, value_name = "SPEC")]
    noise: Vec<String>,
    /// Modules of a Multi-Grid, 1 to 16, or cassettes of a Multi-Blade, 6 or 50 [default: 3, or 6]
    #[arg(long, value_name = "N")]
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
    /// Exit with 1 if less than this share of the clean neutrons is in the right pixel (gdgem: found), e.g. 99.9%
    #[arg(long, value_name = "SHARE")]
    require: Option<String>,
    #[command(flatten)]
    result: ResultFlags,
}

const EXAMPLES: &str = "\
A neutron is clean if no other readout of its module lies within the format's resolution: in its
trigger (Multi-Grid), within 2010 ns before or behind its readouts (Multi-Blade), or within 300 ns
before or behind its track in its sector (Gd-GEM, which also says how near each way of reckoning
comes to the conversion).

Examples:
  fullcount lab truth --detector multigrid --require 99.9%
  fullcount lab truth --detector multiblade --modules 50 --rates 10kHz --noise none --noise dark=5%
  fullcount lab truth --detector gdgem --rates 100kHz,1MHz,5MHz --neutrons 1M
  fullcount lab truth --detector multiblade --set detector.resolve_doubles=true --name truth-doubles";

/// Runs the campaign.
pub fn truth(flags: Flags) -> Result<u8, Failure> {
    let Flags { detector, rates, noise, modules, neutrons, seed, set, require, result } = flags;
    let asked = Asked { detector, rates, noise, modules, neutrons, seed, set, require };
    let found = campaign::truth(&asked, &result.results(), say::line)?;
    result.show(&found.record, &found.table, &found.table)?;
    Ok(if found.enough { 0 } else { 1 })
}
