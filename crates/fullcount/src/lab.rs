//! `fullcount lab`: measuring campaigns on this host, each written to `docs/results/`.

mod decode;
mod udp;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::exit::Failure;

/// Measuring campaigns; each prints a table and writes one JSON file with revision, host and date.
#[derive(Debug, Args)]
pub struct Flags {
    #[command(subcommand)]
    campaign: Campaign,
}

#[derive(Debug, Subcommand)]
enum Campaign {
    /// `send` into `receive` on loopback over packet sizes: loss at an offered rate, or flat out
    Udp(udp::Flags),
    /// Events per second of a decoder from memory, beside the machine's copy bandwidth
    Decode(decode::Flags),
}

/// Runs a campaign.
pub fn lab(flags: Flags) -> Result<u8, Failure> {
    match flags.campaign {
        Campaign::Udp(f) => udp::udp(f),
        Campaign::Decode(f) => decode::decode(f),
    }
}

/// Where results go: the asked folder, the repository's own, or here.
fn folder(asked: Option<PathBuf>) -> PathBuf {
    let own = PathBuf::from("docs/results");
    asked.unwrap_or_else(|| if own.is_dir() { own } else { PathBuf::from(".") })
}
