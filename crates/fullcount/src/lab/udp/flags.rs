//! LabUdpFlags of `lab udp`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;

/// User data speed, loss and CPU load of UDP over packet sizes, for several parameter sets, with tables and
/// figures: the measurements of "Achieving reliable UDP transmission at 10 Gb/s" on your own link.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LabUdpFlags {
    /// loopback, namespaces (two, joined by a veth pair, made and removed; needs root), or the HOST[:PORT] where
    /// `fullcount lab agent` runs
    #[arg(
        long = "where",
        value_name = "PLACE",
        default_value = "loopback",
        help_heading = "Place"
    )]
    pub(super) place: String,
    /// The token that the agent on HOST was started with
    #[arg(long, value_name = "FILE", help_heading = "Place")]
    pub(super) token_file: Option<PathBuf>,
    /// What HOST does: receive or send
    #[arg(long, value_name = "VERB", default_value = "receive", help_heading = "Place")]
    pub(super) far: String,
    /// Address of the receiving end on the measured link [default: that of the agent's connection]
    #[arg(long, value_name = "IP", help_heading = "Place")]
    pub(super) data: Option<IpAddr>,
    /// Interface of this host on the measured link to HOST, to check its MTU
    #[arg(long, value_name = "NAME", help_heading = "Place")]
    pub(super) interface: Option<String>,
    /// UDP port [default: the system's choice]
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 0,
        hide_default_value = true,
        help_heading = "Place"
    )]
    pub(super) port: u16,
    /// Cores of receiver and sender: 1,2, or none, or near (two that share a cache at the time of each trial, see
    /// lab cores) [default: 1,2 where there are more than two]
    #[arg(long, value_name = "R,S", help_heading = "Place")]
    pub(super) cores: Option<String>,
    /// Namespaces: cut trains before they cross (tx-udp-segmentation off), so that each packet is a real one
    #[arg(long, help_heading = "Place")]
    pub(super) cut_segments: bool,

    /// Offered payload rate; leave out with --flat-out
    #[arg(long, value_name = "RATE", default_value = "10Gbps", help_heading = "Load")]
    pub(super) rate: String,
    /// As fast as the sender can
    #[arg(long, help_heading = "Load")]
    pub(super) flat_out: bool,
    /// Payload sizes, e.g. 64,1472,8972 [default: the 16 of the paper's table 3; three with --ablate]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', help_heading = "Load")]
    pub(super) sizes: Vec<usize>,
    /// Refuse sizes that do not fit the MTU in one piece
    #[arg(long, help_heading = "Load")]
    pub(super) no_fragments: bool,
    /// Time per trial
    #[arg(long, value_name = "TIME", default_value = "10s", help_heading = "Load")]
    pub(super) duration: String,
    /// Payload bytes per trial instead of a time; the paper: 400GB
    #[arg(long, value_name = "SIZE", conflicts_with = "duration", help_heading = "Load")]
    pub(super) volume: Option<String>,
    /// Length of the discarded trial before each, 0s for none
    #[arg(long, value_name = "TIME", default_value = "1s", help_heading = "Load")]
    pub(super) warm_up: String,
    /// Trials per size and set; medians are reported
    #[arg(long, value_name = "N", default_value_t = 3, help_heading = "Load")]
    pub(super) repeats: usize,

    /// Parameter sets: default (kernel's buffers, MTU 1500), tuned (64 MiB, MTU 9000, long backlog)
    #[arg(
        long,
        value_name = "SETS",
        value_delimiter = ',',
        default_value = "default,tuned",
        help_heading = "Parameters"
    )]
    pub(super) parameters: Vec<String>,
    /// How packets are sent and received: plain (one a call, the paper's method), mmsg, gso (sender only), gro
    /// (receiver only), both, auto; with uring, packet and xdp (not on loopback) the sender is gso
    #[arg(
        long,
        value_name = "ENGINES",
        value_delimiter = ',',
        default_value = "both",
        help_heading = "Parameters"
    )]
    pub(super) engines: Vec<String>,
    /// MTU of all sets, instead of their own
    #[arg(long, value_name = "BYTES", help_heading = "Parameters")]
    pub(super) mtu: Option<usize>,
    /// Switch one thing at a time and tabulate what it gains: MTU, buffers, backlog, pinning, same core, clock per
    /// packet, each offload, batches, busy polling
    #[arg(long, help_heading = "Parameters")]
    pub(super) ablate: bool,
    /// Speed of the link that the theoretical maximum is for
    #[arg(long, value_name = "RATE", default_value = "10Gbps", help_heading = "Parameters")]
    pub(super) link_speed: String,

    /// One more trial per size and set, with CPU load and context switches of both cores, as the paper did
    #[arg(long, help_heading = "CPU")]
    pub(super) cpu_pass: bool,
    /// The CPU pass also records with perf what both cores spend their time on; both ends on this host
    #[arg(long, requires = "cpu_pass", help_heading = "CPU")]
    pub(super) profile: bool,
    /// Length of the intervals of the CPU pass; a shorter trial is one interval
    #[arg(long, value_name = "TIME", default_value = "10s", help_heading = "CPU")]
    pub(super) cpu_interval: String,

    /// Go on with an interrupted campaign: same options, same --out and --name
    #[arg(long, help_heading = "Results")]
    pub(super) resume: bool,
    /// Exit with 3 if a packet was lost, with 1 if the offered rate was not reached within 1 %
    #[arg(long, help_heading = "Results")]
    pub(super) require_lossless: bool,
    /// Tables only
    #[arg(long, help_heading = "Results")]
    pub(super) no_figures: bool,
    /// Folder for the results [default: docs/results if there is one here, else this folder]
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    pub(super) out: Option<PathBuf>,
    /// Replace results files, and an interrupted campaign, that exist
    #[arg(long)]
    pub(super) overwrite: bool,
    /// Name of the files [default: after load and place, e.g. udp-offered]
    #[arg(long, value_name = "NAME", help_heading = "Results")]
    pub(super) name: Option<String>,
    /// Print the results as one JSON object instead of the tables
    #[arg(long, help_heading = "Results")]
    pub(super) json: bool,
}

const EXAMPLES: &str = "\
Writes NAME.json (everything), NAME.md (tables) and NAME-speed, -per and -cpu as .svg and .png.

Examples:
  fullcount lab udp
  fullcount lab udp --flat-out --sizes 64,1472,8972 --engines plain,mmsg,both
  fullcount lab udp --where namespaces --cut-segments --cpu-pass
  fullcount lab udp --where namespaces --flat-out --ablate
  fullcount lab udp --where namespaces --cut-segments --flat-out --engines both,packet,xdp
  fullcount lab udp --where daq2 --token-file token --parameters tuned --volume 400GB
  fullcount lab udp --rate 5Gbps --sizes 64,1472 --duration 3s --parameters tuned --require-lossless

Two hosts: run `fullcount lab agent --listen 0.0.0.0 --token-file token` on the other one.

Exit codes: 0 measured (losses are results); 1 failed, or the rate was not reached with
--require-lossless; 2 wrong option; 3 lost packets with --require-lossless.";
