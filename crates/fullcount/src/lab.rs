//! `fullcount lab`: measuring campaigns on this host, each written to `docs/results/`.

mod agent;
mod brokered;
mod capacity;
mod cores;
mod decode;
mod detectors;
mod kafka;
mod link;
mod link_emulator;
mod lossless;
mod peers;
mod probes;
mod truth;
mod udp;
mod write;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use fullcount_lab::record::{Record, files};

use crate::exit::Failure;

/// Measuring campaigns; each prints a table and writes one JSON file with revision, host and date.
#[derive(Debug, Args)]
pub struct Flags {
    #[command(subcommand)]
    campaign: Campaign,
}

#[derive(Debug, Subcommand)]
enum Campaign {
    /// Speed, loss and CPU load of UDP over packet sizes: on loopback, in namespaces or with another host
    Udp(Box<udp::Flags>),
    /// The far end of `lab udp --where HOST`: receives or sends on this host for it
    Agent(agent::Flags),
    /// Links, cores, hosts, partitions and disk of an instrument from measured costs; queues simulated
    Capacity(Box<capacity::Flags>),
    /// How near this host's cores are to each other: the time of a cache line there and back
    Cores(cores::Flags),
    /// Events per second of a decoder from memory, beside the machine's copy bandwidth
    Decode(decode::Flags),
    /// Packets, readouts and events a second of every detector: from memory, over UDP, several at once
    Detectors(Box<detectors::Flags>),
    /// Events to a broker beside Kafka's own ProducerPerformance: MB/s, events/s, CPU
    Kafka(kafka::Flags),
    /// What a datagram costs on a link: frame, overhead, rate, time; a calculation
    Link(link::Flags),
    /// A link of set rate, delay, queue and faults between two interfaces, in user space
    LinkEmulator(Box<link_emulator::Flags>),
    /// The highest rate without loss, by RFC 2544's method
    Lossless(lossless::Flags),
    /// iperf3, one call a packet and our best engine, side by side
    Peers(peers::Flags),
    /// What reading this host's loss counters costs, probe by probe
    Probes(probes::Flags),
    /// A topic into a NeXus file by `write`, beside `dd` of the same bytes
    Write(write::Flags),
    /// Share of simulated neutrons that a decoder finds in their pixel, and wrong events per neutron
    Truth(truth::Flags),
}

/// Runs a campaign.
pub fn lab(flags: Flags) -> Result<u8, Failure> {
    match flags.campaign {
        Campaign::Udp(f) => udp::udp(*f),
        Campaign::Agent(f) => agent::agent(f),
        Campaign::Capacity(f) => capacity::capacity(*f),
        Campaign::Cores(f) => cores::cores(&f),
        Campaign::Decode(f) => decode::decode(f),
        Campaign::Detectors(f) => detectors::detectors(*f),
        Campaign::Kafka(f) => kafka::kafka(f),
        Campaign::Link(f) => link::link(f),
        Campaign::LinkEmulator(f) => link_emulator::link_emulator(*f),
        Campaign::Lossless(f) => lossless::lossless(f),
        Campaign::Peers(f) => peers::peers(f),
        Campaign::Probes(f) => probes::probes(f),
        Campaign::Truth(f) => truth::truth(f),
        Campaign::Write(f) => write::write(f),
    }
}

/// Where results go: the asked folder, the repository's own, or here.
fn folder(asked: Option<PathBuf>) -> PathBuf {
    let own = PathBuf::from("docs/results");
    asked.unwrap_or_else(|| if own.is_dir() { own } else { PathBuf::from(".") })
}

/// Begins a results file that will have these `endings`: looks first whether they can be written.
fn begin(name: &str, folder: &Path, endings: &[&str], overwrite: bool) -> Result<Record, Failure> {
    let record = Record::begin(name).map_err(|e| Failure::Wrong(e.to_string()))?;
    let names: Vec<String> = endings.iter().map(|ending| format!("{name}.{ending}")).collect();
    ready(folder, &names, overwrite)?;
    Ok(record)
}

/// Refuses results files that are there, unless they may be replaced, and a folder that takes none.
fn ready(folder: &Path, names: &[String], overwrite: bool) -> Result<(), Failure> {
    files::ready(folder, names, overwrite).map_err(|e| Failure::Wrong(e.to_string()))
}
