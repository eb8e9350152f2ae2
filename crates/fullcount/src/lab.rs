//! `fullcount lab`: measuring campaigns on this host, each written to `docs/results/`.

mod agent;
mod bench;
mod capacity;
mod cores;
mod detectors;
mod link;
mod link_emulator;
mod lossless;
mod moved;
mod peers;
mod read;
mod results;
mod spead;
mod stcp;
mod truth;
mod udp;

use clap::{Args, Subcommand};

use crate::exit::Failure;

/// Measuring campaigns; each prints a table and writes one JSON file with revision, host and date.
#[derive(Debug, Args)]
pub struct LabFlags {
    #[command(subcommand)]
    campaign: Campaign,
}

#[derive(Debug, Subcommand)]
enum Campaign {
    /// Speed, loss and CPU load of UDP over packet sizes: on loopback, in namespaces or with another host
    Udp(Box<udp::LabUdpFlags>),
    /// The far end of `lab udp --where HOST`: receives or sends on this host for it
    Agent(agent::LabAgentFlags),
    /// Benches of our own parts: Kafka, the file writer, the probes of loss counters
    Bench(bench::LabBenchFlags),
    /// Links, cores, hosts, partitions and disk of an instrument from measured costs; queues simulated
    Capacity(Box<capacity::LabCapacityFlags>),
    /// How near this host's cores are to each other: the time of a cache line there and back
    Cores(cores::LabCoresFlags),
    /// Packets, readouts and events a second of every detector: from memory, over UDP, several at once
    Detectors(Box<detectors::LabDetectorsFlags>),
    /// What a datagram costs on a link: frame, overhead, rate, time; a calculation
    Link(link::LabLinkFlags),
    /// A link of set rate, delay, queue and faults between two interfaces, in user space
    LinkEmulator(Box<link_emulator::LabLinkEmulatorFlags>),
    /// The highest rate without loss, by RFC 2544's method
    Lossless(lossless::LabLosslessFlags),
    /// iperf3, one call a packet and our best engine, side by side
    Peers(peers::LabPeersFlags),
    /// SPEAD over UDP and TCP: the memo's tables and figures, lossless rates, the rate tuner
    Spead(Box<spead::LabSpeadFlags>),
    /// The simplified TCP of a one-way link: congestion of several senders, in a simulated network
    Stcp(stcp::LabStcpFlags),
    /// Share of simulated neutrons that a decoder finds in their pixel, and wrong events per neutron
    Truth(truth::LabTruthFlags),
    #[command(hide = true)]
    Decode(moved::LabMovedFlags),
    #[command(hide = true)]
    Kafka(moved::LabMovedFlags),
    #[command(hide = true)]
    Probes(moved::LabMovedFlags),
    #[command(hide = true)]
    Write(moved::LabMovedFlags),
}

/// Runs a campaign.
pub fn lab(flags: LabFlags) -> Result<u8, Failure> {
    match flags.campaign {
        Campaign::Udp(f) => udp::udp(*f),
        Campaign::Agent(f) => agent::agent(f),
        Campaign::Bench(f) => bench::bench(f),
        Campaign::Capacity(f) => capacity::capacity(*f),
        Campaign::Cores(f) => cores::cores(&f),
        Campaign::Detectors(f) => detectors::detectors(*f),
        Campaign::Link(f) => link::link(f),
        Campaign::LinkEmulator(f) => link_emulator::link_emulator(*f),
        Campaign::Lossless(f) => lossless::lossless(f),
        Campaign::Peers(f) => peers::peers(f),
        Campaign::Spead(f) => spead::spead(*f),
        Campaign::Stcp(f) => stcp::stcp(f),
        Campaign::Truth(f) => truth::truth(f),
        Campaign::Decode(f) => moved::decode(&f),
        Campaign::Kafka(f) => moved::moved("kafka", "bench kafka", &f),
        Campaign::Probes(f) => moved::moved("probes", "bench probes", &f),
        Campaign::Write(f) => moved::moved("write", "bench write", &f),
    }
}
