//! `fullcount lab stcp`: the simplified TCP, simulated (`congestion`) and live on this host (all else).
//!
//! Refuses, before anything runs: unknown parts, senders and variants, numbers out of range, results that are there.

mod congestion;
mod frames;
mod live;
mod measured;
mod readout;

use clap::{Args, Subcommand};

use crate::exit::Failure;

/// The simplified TCP of a one-way link.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LabStcpFlags {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Several senders into one port with a finite queue: collapse without control, recovery with it
    Congestion(Box<congestion::CongestionFlags>),
    /// Throughput over fragment sizes, simplified TCP and Linux sockets, into the real Linux stack
    Sweep(Box<live::SweepFlags>),
    /// Throughput over the number of streams on one link
    Streams(Box<live::StreamsFlags>),
    /// How soon a source sees that the send buffer is full, with a reader that is slower
    Backpressure(Box<measured::PressureFlags>),
    /// Every byte compared at the receiver, over a good or a bad link
    Soak(Box<measured::SoakFlags>),
    /// The congestion experiment with real frames and a bridge, at a tenth of its rates
    Realtime(Box<measured::RealtimeFlags>),
    /// Streams of fragments into the readout unit, beside the same streams into a reader that discards them
    Readout(Box<readout::ReadoutFlags>),
}

const EXAMPLES: &str = "\
congestion is a simulation, and readout with Linux sockets uses loopback. All others make network
namespaces and need root (or, without root: unshare -Urnm, then mount -t tmpfs tmpfs /run).

Examples:
  fullcount lab stcp congestion                              (figures 5 and 6, about 20 s)
  fullcount lab stcp sweep                                   (figure 3, about 10 min)
  fullcount lab stcp sweep --sizes 65536 --links none --senders offload,frames,tap,xdp,linux
  fullcount lab stcp streams --streams 1,4,16
  fullcount lab stcp backpressure --time 60s
  fullcount lab stcp soak --bytes 100GB --time 10min
  fullcount lab stcp soak --bytes 10GB --fault loss=0.001,duplicate=0.001,swap=0.001
  fullcount lab stcp realtime --variants none,simplified
  fullcount lab stcp readout                                 (the reading side, about 2 min)
  fullcount lab stcp readout --sender offload";

/// Runs what was asked.
pub fn stcp(flags: LabStcpFlags) -> Result<u8, Failure> {
    match flags.what {
        What::Congestion(flags) => congestion::congestion(&flags),
        What::Sweep(flags) => live::sweep(&flags),
        What::Streams(flags) => live::streams(&flags),
        What::Backpressure(flags) => measured::backpressure(&flags),
        What::Soak(flags) => measured::soak(&flags),
        What::Realtime(flags) => measured::realtime(&flags),
        What::Readout(flags) => readout::readout(&flags),
    }
}
