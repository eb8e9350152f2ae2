//! `fullcount lab peers`: iperf3, one call a packet, and our best engine, side by side.
//!
//! Installs iperf3 with apt-get where it is missing and that may be done, and says so. Refuses wrong options
//! before that.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use fullcount_engine::stop::Stop;
use fullcount_lab::agent::engine::{check_engine, check_fit, check_sizes};
use fullcount_lab::lossless::place::Where;
use fullcount_lab::lossless::{LosslessCampaign, SearchSettings};
use fullcount_lab::namespace;
use fullcount_lab::peers::iperf3::{self, Iperf3, Iperf3Error};
use fullcount_lab::peers::{self, Contest, IPERF3};

use super::lossless::{PlaceFlags, SearchFlags};
use super::read;
use super::results::ResultFlags;
use crate::exit::Failure;
use crate::note;

/// iperf3, one call a packet, and our best engine, in turn: flat out and without loss.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LabPeersFlags {
    /// iperf3 and engines (those of lab lossless), with commas; ratios are to the first
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "iperf3,plain,auto")]
    contenders: Vec<String>,
    /// Payload sizes, bytes
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_value = "64,1472,8972")]
    sizes: Vec<usize>,
    /// Rounds A B C; medians are reported
    #[arg(long, value_name = "N", default_value_t = 3)]
    repeats: usize,
    /// Length of a flat-out trial; iperf3 takes whole seconds
    #[arg(long, value_name = "TIME", default_value = "5s")]
    duration: String,
    /// Leave out the search for the rate without loss
    #[arg(long)]
    flat_out_only: bool,
    /// The program iperf3 [default: the one along PATH; installed with apt-get if missing and root]
    #[arg(long, value_name = "PATH")]
    iperf3: Option<PathBuf>,
    #[command(flatten)]
    place: PlaceFlags,
    #[command(flatten)]
    search: SearchFlags,
    #[command(flatten)]
    result: ResultFlags,
}

const EXAMPLES: &str = "\
Each contender sends datagrams of the size from one core to another. iperf3 gets the largest socket
buffer that the host's limits allow; its loss is what it reports itself.

Examples:
  fullcount lab peers
  fullcount lab peers --flat-out-only --repeats 5 --duration 10s
  fullcount lab peers --where veth-cut --sizes 1472,8972 --confirm 10s
  fullcount lab peers --contenders plain,mmsg,both
  fullcount lab peers --where veth-cut --contenders plain,both,packet,xdp --flat-out-only";

/// Runs the comparison.
pub fn peers(flags: LabPeersFlags) -> Result<u8, Failure> {
    check_sizes(&flags.sizes)?;
    let theirs = flags.contenders.iter().any(|c| c == IPERF3);
    let flat_out = read::duration("duration", &flags.duration)?;
    let settings = flags.search.settings(SearchSettings::default())?;
    let kind = flags.place.kind()?;
    for name in flags.contenders.iter().filter(|c| *c != IPERF3) {
        let method = check_engine(name, kind == Where::Loopback)?;
        check_fit(method, &flags.sizes, flags.place.mtu_of(kind))?;
    }
    let campaign = LosslessCampaign {
        contenders: flags.contenders,
        sizes: flags.sizes,
        repeats: flags.repeats,
        flat_out: Some(flat_out),
        search: (!flags.flat_out_only).then_some(settings),
    };
    campaign.check().map_err(|e| Failure::Wrong(e.to_string()))?;
    let mut record = flags.result.begin(&format!("peers-{}", kind.name()))?;
    let program = flags.iperf3.clone().unwrap_or_else(|| IPERF3.into());
    if theirs {
        let version = find(&program, flags.iperf3.is_some()).map_err(anyhow::Error::from)?;
        note!("{version}");
        record.parameter("iperf3", version);
    }
    let stop = Stop::on_signals().context("installing the signal handlers")?;
    let asked = || stop.requested();
    let place = flags.place.make(kind, "peers")?;
    let pair = flags.place.pair(&place, &asked)?;
    flags.place.note(&pair, &mut record);
    let buffer = iperf3::largest_buffer();
    record.parameter("iperf3_buffer", buffer);
    let iperf3 = Iperf3 {
        program,
        place: &place,
        send_core: pair.send_core,
        receive_core: pair.receive_core,
        buffer,
        stop: &asked,
    };
    let results = flags.place.run(campaign, &place, Contest { pair, iperf3 }, &mut record)?;
    peers::note(&results, &mut record);
    let title = format!("Peers side by side, {}", place.name());
    flags.result.finish(&record, &title, &peers::markdown(&results))?;
    Ok(0)
}

/// iperf3's version; installs it if it is missing along PATH and this is root.
fn find(program: &std::path::Path, asked_for: bool) -> Result<String, Iperf3Error> {
    match iperf3::version(program) {
        Err(Iperf3Error::Missing { .. }) if !asked_for && namespace::allowed() => {
            note!("iperf3 is not installed: running {}", iperf3::INSTALL);
            iperf3::install()?;
            iperf3::version(program)
        }
        other => other,
    }
}
