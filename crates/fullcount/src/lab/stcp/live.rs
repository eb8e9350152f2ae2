//! `lab stcp sweep` and `lab stcp streams`: throughput, live.

use std::time::Duration;

use anyhow::Context;
use clap::Args;
use fullcount_engine::config::refuse;
use fullcount_engine::stop::Stop;
use fullcount_lab::plot::Chart;
use fullcount_lab::stcp::live::scaling::StcpScaling;
use fullcount_lab::stcp::live::sender::LiveSender;
use fullcount_lab::stcp::live::sweep::{self, SIZES, StcpSweep};

use super::super::read;
use super::super::results::ResultFlags;
use super::frames::FramesFlags;
use crate::exit::Failure;
use crate::{note, say};

/// What all live trials have.
#[derive(Debug, Args)]
pub struct TrialFlags {
    /// Longest IP packet, bytes
    #[arg(long, value_name = "BYTES", default_value_t = MTU)]
    mtu: usize,
    /// Send buffer of each stream: a power of two
    #[arg(long, value_name = "SIZE", default_value = BUFFER)]
    buffer: String,
}

const MTU: usize = 9000;
const BUFFER: &str = "1MiB";

impl TrialFlags {
    /// Neither was given another value: for an experiment that uses them with some senders only.
    pub fn unused(&self, instead: &str) -> Result<(), Failure> {
        if self.mtu != MTU {
            return Err(refuse("mtu", self.mtu, instead).into());
        }
        if self.buffer != BUFFER {
            return Err(refuse("buffer", &self.buffer, instead).into());
        }
        Ok(())
    }

    /// MTU and send buffer, bytes.
    pub fn read(&self) -> Result<(usize, usize), Failure> {
        if !(576..=9000).contains(&self.mtu) {
            return Err(refuse("mtu", self.mtu, "576 to 9000 bytes").into());
        }
        let buffer = usize::try_from(read::size("buffer", &self.buffer)?).unwrap_or(usize::MAX);
        if !buffer.is_power_of_two() || !(1 << 17..=1 << 30).contains(&buffer) {
            return Err(refuse("buffer", &self.buffer, "a power of two, 128KiB to 1GiB").into());
        }
        Ok((self.mtu, buffer))
    }
}

/// A fragment that fits half of the buffer.
pub fn fragment(key: &'static str, size: usize, buffer: usize) -> Result<usize, Failure> {
    let allowed = format!("1 to {} bytes, half of the send buffer", buffer / 2);
    if (1..=buffer / 2).contains(&size) { Ok(size) } else { Err(refuse(key, size, allowed).into()) }
}

/// A time of a trial.
pub fn span(key: &'static str, text: &str) -> Result<Duration, Failure> {
    let time = read::duration(key, text)?;
    let allowed = Duration::from_millis(100)..=Duration::from_secs(86_400);
    if allowed.contains(&time) { Ok(time) } else { Err(refuse(key, text, "100ms to 24h").into()) }
}

/// A sender by its name.
pub fn sender(key: &'static str, name: &str) -> Result<LiveSender, Failure> {
    LiveSender::named(name).ok_or_else(|| refuse(key, name, LiveSender::known()).into())
}

fn senders(names: &[String]) -> Result<Vec<LiveSender>, Failure> {
    names.iter().map(|name| sender("senders", name)).collect()
}

/// A limit of the link, bit/s, or none.
pub fn link(key: &'static str, text: &str) -> Result<Option<u64>, Failure> {
    if text == "none" {
        return Ok(None);
    }
    let bits = read::whole_bits(key, text)?;
    match (1_000_000..=400_000_000_000).contains(&bits) {
        true => Ok(Some(bits)),
        false => Err(refuse(key, text, "none, or 1Mbps to 400Gbps").into()),
    }
}

/// Why a limit cannot be set with this sender.
fn no_limit(sender: LiveSender) -> String {
    format!("none with {}: only offload, frames and Linux sockets meet a limit", sender.name())
}

fn repeats(n: usize) -> Result<usize, Failure> {
    if (1..=1000).contains(&n) { Ok(n) } else { Err(refuse("repeats", n, "1 to 1000").into()) }
}

/// Ctrl-C ends a campaign.
pub fn stop() -> Result<Stop, Failure> {
    Ok(Stop::on_signals().context("installing the signal handlers")?)
}

/// Writes figures where the results go.
pub fn draw(result: &ResultFlags, figures: &[Chart]) -> Result<(), Failure> {
    let results = result.results();
    for figure in figures.iter().filter(|f| !f.is_empty()) {
        let written = figure.write(&results.folder, results.overwrite);
        let [svg, png] = written.map_err(anyhow::Error::from)?;
        note!("written to {} and {}", svg.display(), png.display());
    }
    Ok(())
}

/// Says what was not reached; the exit code.
pub fn judged(missed: &[String]) -> u8 {
    missed.iter().for_each(|what| note!("not reached: {what}"));
    u8::from(!missed.is_empty())
}

/// Throughput over fragment sizes, simplified TCP and Linux sockets: figure 3 of the paper.
#[derive(Debug, Args)]
#[command(after_help = SWEEP)]
pub struct SweepFlags {
    /// Limits of the link, with commas: a rate (token bucket, 4 MB queue), or none; xdp and tap are
    /// measured with none alone
    #[arg(long, value_name = "RATES", value_delimiter = ',', default_value = "10Gbps,none")]
    links: Vec<String>,
    /// Senders, with commas: offload, frames (one a send), xdp, tap, tap-frames, linux, linux-nodelay;
    /// offload without one of its savings: short-units (of 64 KiB), small-pages (buffers on pages of
    /// 4 KiB)
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "offload,frames,linux"
    )]
    senders: Vec<String>,
    /// Sizes of fragments, bytes, with commas
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_values_t = SIZES)]
    sizes: Vec<usize>,
    /// Times each point is measured; the median counts
    #[arg(long, value_name = "N", default_value_t = 5)]
    repeats: usize,
    /// Length of a trial, after 0.3 s
    #[arg(long, value_name = "TIME", default_value = "1200ms")]
    time: String,
    #[command(flatten)]
    frames: FramesFlags,
    #[command(flatten)]
    trial: TrialFlags,
    #[command(flatten)]
    result: ResultFlags,
}

const SWEEP: &str = "\
The receiver is a plain Linux socket with reads of 256 KiB in a namespace of its own. Exit code 1:
what docs/stcp.md says must be reached was not.

Examples:
  fullcount lab stcp sweep
  fullcount lab stcp sweep --links none --sizes 65536 --senders offload,frames,tap,xdp,linux
  fullcount lab stcp sweep --links 10Gbps --sizes 16,2048 --repeats 3 --json";

/// Runs the sweep.
pub fn sweep(flags: &SweepFlags) -> Result<u8, Failure> {
    let (mtu, buffer) = flags.trial.read()?;
    let plan = StcpSweep {
        links: flags.links.iter().map(|l| link("links", l)).collect::<Result<_, _>>()?,
        senders: senders(&flags.senders)?,
        sizes: flags.sizes.clone(),
        repeats: repeats(flags.repeats)?,
        mtu,
        buffer,
        time: span("time", &flags.time)?,
        frames_to: flags.frames.read()?,
    };
    flags.sizes.iter().try_for_each(|&size| fragment("sizes", size, buffer).map(drop))?;
    sweep::check(&plan)?;
    let mut record = flags.result.begin("stcp-sweep")?;
    let stop = stop()?;
    let found = plan.run(&mut record, &|| stop.requested(), say::line)?;
    flags.result.finish(
        &record,
        "Fragment size and throughput of the simplified TCP",
        &found.text,
    )?;
    draw(&flags.result, &found.figures)?;
    Ok(judged(&found.missed))
}

/// Throughput over the number of streams on one link.
#[derive(Debug, Args)]
#[command(after_help = STREAMS)]
pub struct StreamsFlags {
    /// Numbers of streams, with commas
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,2,4,8,16")]
    streams: Vec<usize>,
    /// Senders, with commas, as of sweep
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "offload,frames,linux"
    )]
    senders: Vec<String>,
    /// Limit of the link: a rate, or none (of xdp and tap always none)
    #[arg(long, value_name = "RATE", default_value = "none")]
    link: String,
    /// Fragment, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 2048)]
    fragment: usize,
    /// Times each point is measured; the median counts
    #[arg(long, value_name = "N", default_value_t = 3)]
    repeats: usize,
    /// Length of a trial, after 0.3 s
    #[arg(long, value_name = "TIME", default_value = "1200ms")]
    time: String,
    #[command(flatten)]
    frames: FramesFlags,
    #[command(flatten)]
    trial: TrialFlags,
    #[command(flatten)]
    result: ResultFlags,
}

const STREAMS: &str = "\
Examples:
  fullcount lab stcp streams
  fullcount lab stcp streams --streams 4,64 --link 10Gbps --senders frames --json";

/// Runs it.
pub fn streams(flags: &StreamsFlags) -> Result<u8, Failure> {
    let (mtu, buffer) = flags.trial.read()?;
    if let Some(n) = flags.streams.iter().find(|n| !(1..=256).contains(*n)) {
        return Err(refuse("streams", n, "1 to 256").into());
    }
    let (senders, link) = (senders(&flags.senders)?, link("link", &flags.link)?);
    if let Some(free) = senders.iter().find(|s| link.is_some() && !s.feels_limit()) {
        return Err(refuse("link", &flags.link, no_limit(*free)).into());
    }
    let plan = StcpScaling {
        streams: flags.streams.clone(),
        senders,
        link,
        fragment: fragment("fragment", flags.fragment, buffer)?,
        repeats: repeats(flags.repeats)?,
        mtu,
        buffer,
        time: span("time", &flags.time)?,
        frames_to: flags.frames.read()?,
    };
    let mut record = flags.result.begin("stcp-streams")?;
    let stop = stop()?;
    let table = plan.run(&mut record, &|| stop.requested(), say::line)?;
    flags.result.finish(&record, "Streams of the simplified TCP on one link", &table)?;
    Ok(0)
}
