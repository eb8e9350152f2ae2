//! `lab stcp backpressure`, `soak` and `realtime`: what live streams do besides being fast.

use clap::Args;
use fullcount_core::sim::{Fault, Spec};
use fullcount_engine::config::refuse;
use fullcount_io::raw::StcpDestination;
use fullcount_lab::stcp::live::pressure::BackPressure;
use fullcount_lab::stcp::live::realtime::RealTime;
use fullcount_lab::stcp::live::sender::LiveSender;
use fullcount_lab::stcp::live::soak::StcpSoak;

use super::super::read;
use super::super::results::ResultFlags;
use super::congestion::variant;
use super::frames::FramesFlags;
use super::live::{TrialFlags, draw, fragment, judged, sender, span, stop};
use crate::exit::Failure;
use crate::say;

fn simplified(name: &str) -> Result<LiveSender, Failure> {
    match sender("sender", name)? {
        LiveSender::Linux { .. } => {
            Err(refuse("sender", name, "offload, frames, xdp, tap or tap-frames").into())
        }
        kind @ LiveSender::Simplified { .. } => Ok(kind),
    }
}

/// How soon a source sees that the send buffer is full, with a reader that is slower.
#[derive(Debug, Args)]
#[command(after_help = PRESSURE)]
pub struct PressureFlags {
    /// Sender: offload, frames, xdp, tap or tap-frames
    #[arg(long, value_name = "NAME", default_value = "offload")]
    sender: String,
    /// Payload of the source
    #[arg(long, value_name = "RATE", default_value = "2Gbps")]
    rate: String,
    /// The reader's share of it
    #[arg(long, value_name = "SHARE", default_value = "0.5")]
    reader: String,
    /// How long the source runs
    #[arg(long, value_name = "TIME", default_value = "60s")]
    time: String,
    /// Fragment, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 2048)]
    fragment: usize,
    #[command(flatten)]
    frames: FramesFlags,
    #[command(flatten)]
    trial: TrialFlags,
    #[command(flatten)]
    result: ResultFlags,
}

const PRESSURE: &str = "\
The source sends to a destination stcp://, whose own thread tells it to hold. Every byte is
compared at the reader; exit code 1: one is wrong or missing, the source was never held, the
median is not below 1 ms, or in 5 s or more it saw less than 90 % of the holds.

Examples:
  fullcount lab stcp backpressure
  fullcount lab stcp backpressure --rate 4Gbps --reader 0.25 --time 10s --json";

/// Runs it.
pub fn backpressure(flags: &PressureFlags) -> Result<u8, Failure> {
    let (mtu, buffer) = flags.trial.read()?;
    let reader = read::share("reader", &flags.reader)?;
    if reader <= 0.0 {
        return Err(refuse("reader", &flags.reader, "above 0, at most 1").into());
    }
    let fragment = fragment("fragment", flags.fragment, buffer)?;
    if fragment > StcpDestination::LONGEST {
        let allowed = format!("1 to {} bytes, what stcp:// takes", StcpDestination::LONGEST);
        return Err(refuse("fragment", fragment, allowed).into());
    }
    let plan = BackPressure {
        sender: simplified(&flags.sender)?,
        fragment,
        rate: read::bits("rate", &flags.rate)?,
        reader,
        time: span("time", &flags.time)?,
        mtu,
        buffer,
        frames_to: flags.frames.read()?,
    };
    let mut record = flags.result.begin("stcp-backpressure")?;
    let stop = stop()?;
    let found = plan.run(&mut record, &|| stop.requested())?;
    flags.result.finish(&record, "Back-pressure of the simplified TCP", &found.text)?;
    Ok(judged(&found.missed))
}

/// Every byte compared at the receiver, over a good or a bad link.
#[derive(Debug, Args)]
#[command(after_help = SOAK)]
pub struct SoakFlags {
    /// Sender: offload, frames, xdp, tap or tap-frames
    #[arg(long, value_name = "NAME", default_value = "offload")]
    sender: String,
    /// Bytes in all
    #[arg(long, value_name = "SIZE", default_value = "100GB")]
    bytes: String,
    /// At most so long
    #[arg(long, value_name = "TIME", default_value = "10min")]
    time: String,
    /// Streams, which share the bytes
    #[arg(long, value_name = "N", default_value_t = 1)]
    streams: usize,
    /// Fragment, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 2048)]
    fragment: usize,
    /// Faults of frames in both directions, for example loss=0.001,duplicate=0.001,swap=0.001,seed=1
    #[arg(long, value_name = "SPEC")]
    fault: Option<String>,
    #[command(flatten)]
    frames: FramesFlags,
    #[command(flatten)]
    trial: TrialFlags,
    #[command(flatten)]
    result: ResultFlags,
}

const SOAK: &str = "\
Exit code 1: a byte is wrong or missing, or a connection ended.

Examples:
  fullcount lab stcp soak
  fullcount lab stcp soak --bytes 1GB --fault loss=0.001,duplicate=0.001,swap=0.001,seed=1
  fullcount lab stcp soak --bytes 10MB --sender frames --frames-to frames.pcap";

/// Runs it.
pub fn soak(flags: &SoakFlags) -> Result<u8, Failure> {
    let (mtu, buffer) = flags.trial.read()?;
    if !(1..=256).contains(&flags.streams) {
        return Err(refuse("streams", flags.streams, "1 to 256").into());
    }
    let fault: Spec = match &flags.fault {
        None => Spec::default(),
        Some(text) => text.parse().map_err(|e| refuse("fault", text, format!("{e}")))?,
    };
    Fault::new(fault).map_err(|e| refuse("fault", fault, e.to_string()))?;
    let plan = StcpSoak {
        sender: simplified(&flags.sender)?,
        fragment: fragment("fragment", flags.fragment, buffer)?,
        streams: flags.streams,
        bytes: read::size("bytes", &flags.bytes)?,
        time: span("time", &flags.time)?,
        mtu,
        buffer,
        fault,
        frames_to: flags.frames.read()?,
    };
    let mut record = flags.result.begin("stcp-soak")?;
    let stop = stop()?;
    let line = plan.run(&mut record, &|| stop.requested(), say::line)?;
    flags.result.finish(&record, "Every byte of the simplified TCP", &line)?;
    Ok(0)
}

/// The congestion experiment with real frames and a bridge, at a tenth of its rates.
#[derive(Debug, Args)]
#[command(after_help = REALTIME)]
pub struct RealtimeFlags {
    /// Senders, with commas, as of congestion
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "none,figure6,simplified,static=200000,reno"
    )]
    variants: Vec<String>,
    /// Length of each of three parts: before, with and after the fifth sender
    #[arg(long, value_name = "TIME", default_value = "10s")]
    part_time: String,
    #[command(flatten)]
    frames: FramesFlags,
    #[command(flatten)]
    result: ResultFlags,
}

const REALTIME: &str = "\
Five senders at 204.8 Mb/s each, links of 500 Mb/s, a bridge, one port of 1 Gb/s with a queue of
1 MB, retransmission time 20 ms. The simulation is: fullcount lab stcp congestion. Exit code 1: with
parts of 5 s or more, what docs/stcp.md says must be reached was not.

Examples:
  fullcount lab stcp realtime
  fullcount lab stcp realtime --variants none,simplified --part-time 5s";

/// Runs it.
pub fn realtime(flags: &RealtimeFlags) -> Result<u8, Failure> {
    let variants = flags.variants.iter().map(|v| variant("variants", v));
    let variants = variants.collect::<Result<Vec<_>, _>>()?;
    let part = span("part-time", &flags.part_time)?;
    let plan = RealTime { frames_to: flags.frames.read()?, ..RealTime::tenth(variants, part) };
    let mut record = flags.result.begin("stcp-realtime")?;
    let stop = stop()?;
    let found = plan.run(&mut record, &|| stop.requested(), say::line)?;
    flags.result.finish(&record, "Congestion of the simplified TCP, live", &found.text)?;
    draw(&flags.result, &found.figures)?;
    Ok(judged(&found.missed))
}
