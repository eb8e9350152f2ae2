//! `lab stcp readout`: the readout unit beside a reader that discards.

use anyhow::Context;
use clap::Args;
use fullcount_core::quantity;
use fullcount_engine::config::refuse;
use fullcount_io::tcp::READ_TAKES;
use fullcount_lab::stcp::live::sender::LiveSender;
use fullcount_lab::stcp::readout::{CHECKED, ReadoutTrial, SHARE, STREAMS};

use super::super::results::ResultFlags;
use super::frames::FramesFlags;
use super::live::{TrialFlags, link, span, stop};
use crate::exit::Failure;
use crate::note;

/// Streams of fragments into the readout unit, beside the same streams into a reader that discards them.
#[derive(Debug, Args)]
#[command(after_help = READOUT)]
pub struct ReadoutFlags {
    /// Sender: linux (sockets over loopback), or the simplified TCP over a link of its own:
    /// offload, frames, xdp, tap or tap-frames
    #[arg(long, value_name = "NAME", default_value = "linux")]
    sender: String,
    /// Limit of that link: a rate (offload and frames only), or none
    #[arg(long, value_name = "RATE", default_value = "none")]
    link: String,
    /// Streams, 1 to 1024
    #[arg(long, value_name = "N", default_value_t = 16)]
    streams: usize,
    /// Fragment, bytes: a multiple of 8 from 24 to 65000
    #[arg(long, value_name = "BYTES", default_value_t = 2048)]
    fragment: usize,
    /// Checksums of every such event are checked, with commas; 0: of none
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [0, 100, 10, 1])]
    crc_every: Vec<u32>,
    /// Bytes of one read of the unit at most, 16KiB to 4MiB, as `read` of `tcp://`
    #[arg(long, value_name = "SIZE", default_value = "512KiB")]
    read: String,
    /// Length of a trial, after 0.5 s that do not count
    #[arg(long, value_name = "TIME", default_value = "2s")]
    time: String,
    /// Times each reader is measured, by turns; the median counts
    #[arg(long, value_name = "N", default_value_t = 5)]
    repeats: usize,
    #[command(flatten)]
    frames: FramesFlags,
    #[command(flatten)]
    trial: TrialFlags,
    #[command(flatten)]
    result: ResultFlags,
}

const READOUT: &str = "\
Four threads send fragments built before over loopback, or one thread over streams of the simplified
TCP (in namespaces; --link, --mtu, --buffer and --frames-to are for these). One such thread makes
less than the readers take here: the figures then say whether the unit takes all of it.
Discarding readers read 256 KiB, 512 KiB and 1 MiB at a time; with another --read one more reads as
much as the unit. The last reader is the whole program, fullcount run --sink null, as a child
process. The first 0.5 s of a trial do not count.
Exit code 1: with the checksums of every 100th event the unit has less than 0.9 of the rate of the
fastest of the discarding readers (not judged with a limited --link), or an event was wrong. What
the whole program has is only told.

Examples:
  fullcount lab stcp readout
  fullcount lab stcp readout --streams 4 --fragment 8192 --crc-every 1 --json
  fullcount lab stcp readout --sender offload
  fullcount lab stcp readout --sender frames --link 200Mbps --repeats 1 --frames-to frames.pcap";

/// Linux sockets write several fragments at once: whether they delay is not asked.
fn sender(name: &str) -> Result<LiveSender, Failure> {
    match LiveSender::named(name) {
        Some(sender) if sender != LiveSender::Linux { no_delay: true } => Ok(sender),
        _ => {
            let allowed = "linux, offload, frames, xdp, tap or tap-frames";
            Err(refuse("sender", name, allowed).into())
        }
    }
}

/// Measures.
pub fn readout(flags: &ReadoutFlags) -> Result<u8, Failure> {
    let sender = sender(&flags.sender)?;
    let frames_to = flags.frames.read()?;
    if let (LiveSender::Linux { .. }, Some((file, _))) = (sender, &frames_to) {
        let instead = "with a --sender of the simplified TCP: these streams are Linux sockets over loopback, and their frames the kernel's \
                       (tcpdump -i lo writes them)";
        return Err(refuse("frames-to", file.display(), instead).into());
    }
    let (mtu, buffer) = flags.trial.read()?;
    let link = link("link", &flags.link)?;
    let is_linux = matches!(sender, LiveSender::Linux { .. });
    if link.is_some() && (is_linux || !sender.feels_limit()) {
        return Err(
            refuse("link", &flags.link, "none; a limit needs --sender offload or frames").into()
        );
    }
    if is_linux {
        flags.trial.unused("its default; others need a --sender of the simplified TCP")?;
    }
    if !STREAMS.contains(&flags.streams) {
        return Err(refuse("streams", flags.streams, "1 to 1024").into());
    }
    if !(24..=65_000).contains(&flags.fragment) || !flags.fragment.is_multiple_of(8) {
        let allowed = "a multiple of 8 from 24 to 65000 bytes";
        return Err(refuse("fragment", flags.fragment, allowed).into());
    }
    if let Some(k) = flags.crc_every.iter().find(|k| **k >= 1 << 24) {
        return Err(refuse("crc-every", k, "0 to 16777215").into());
    }
    if !(1..=1000).contains(&flags.repeats) {
        return Err(refuse("repeats", flags.repeats, "1 to 1000").into());
    }
    let read = quantity::size(&flags.read).ok().filter(|size| READ_TAKES.contains(size));
    let read = read.ok_or_else(|| refuse("read", &flags.read, "a size from 16KiB to 4MiB"))?;
    let trial = ReadoutTrial {
        streams: flags.streams,
        fragment: flags.fragment,
        time: span("time", &flags.time)?,
        repeats: flags.repeats,
        every: flags.crc_every.clone(),
        read,
        program: std::env::current_exe().context("finding this program")?,
        sender,
        link,
        mtu,
        buffer,
        frames_to,
    };
    let mut record = flags.result.begin("stcp-readout")?;
    let stop = stop()?;
    let finding = trial.run(&mut record, &mut |line| note!("{line}"), &|| stop.requested())?;
    flags.result.finish(&record, "The readout unit beside a discarding reader", &finding.table)?;
    if finding.held == Some(false) {
        let what = format!("{SHARE} of the fastest discarding reader");
        note!("not reached: {what} with the checksums of every {CHECKED}th event");
        return Ok(1);
    }
    Ok(0)
}
