//! All counters of a host that can name the place of a loss, read together at one moment.
//!
//! The order is part of the contract: cards before softnet (a drop of the backlog counts in both, so the
//! card's share is never too large), sockets' own counts before these (by the caller). A probe that the
//! host does not have is `None`, never 0. Source: `docs/losses.md`.

use std::time::{Duration, Instant};

use super::Host;
use super::card::Card;
use super::qdisc::Qdisc;
use super::snmp::UdpCounters;
use super::softnet::SoftnetBacklog;

/// One reading of the host's loss counters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    /// Interfaces.
    pub cards: Option<Vec<Card>>,
    /// Queues of interfaces.
    pub qdiscs: Option<Vec<Qdisc>>,
    /// Backlog of each core.
    pub softnet: Option<Vec<(u32, SoftnetBacklog)>>,
    /// IP and UDP, both families.
    pub udp: Option<UdpCounters>,
    /// IP packets of which fragments wait for the rest.
    pub incomplete: Option<u64>,
}

/// One thing to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Probe {
    /// Interfaces' counters.
    Cards,
    /// Queues' drops.
    Qdiscs,
    /// Backlog of each core.
    Softnet,
    /// IP and UDP counters of IPv4.
    Snmp,
    /// Those of IPv6.
    Snmp6,
    /// Fragments that wait.
    Fragments,
    /// Sockets of one port. No part of a [`Reading`]: the receiver's own count says the same for nothing.
    Sockets,
}

impl Probe {
    /// All, in the order of a reading.
    pub const ALL: [Probe; 7] = [
        Probe::Cards,
        Probe::Qdiscs,
        Probe::Softnet,
        Probe::Snmp,
        Probe::Snmp6,
        Probe::Fragments,
        Probe::Sockets,
    ];

    /// Where it is read.
    pub fn place(self) -> &'static str {
        match self {
            Probe::Cards => "netlink: RTM_GETLINK",
            Probe::Qdiscs => "netlink: RTM_GETQDISC",
            Probe::Softnet => "/proc/net/softnet_stat",
            Probe::Snmp => "/proc/net/snmp",
            Probe::Snmp6 => "/proc/net/snmp6",
            Probe::Fragments => "/proc/net/sockstat, sockstat6",
            Probe::Sockets => "/proc/net/udp, udp6",
        }
    }

    /// True if a receiver may read it while it counts losses.
    pub fn in_reading(self) -> bool {
        self != Probe::Sockets
    }

    /// Reads it once into `reading`; false if the host does not have it.
    pub fn read(self, host: &Host, reading: &mut Reading) -> bool {
        match self {
            Probe::Cards => {
                reading.cards = host.cards();
                reading.cards.is_some()
            }
            Probe::Qdiscs => {
                reading.qdiscs = host.qdiscs();
                reading.qdiscs.is_some()
            }
            Probe::Softnet => {
                reading.softnet = host.backlogs();
                reading.softnet.is_some()
            }
            Probe::Snmp => {
                reading.udp = host.udp4();
                reading.udp.is_some()
            }
            Probe::Snmp6 => reading.udp.as_mut().is_some_and(|all| host.add_udp6(all)),
            Probe::Fragments => {
                reading.incomplete = host.incomplete_packets();
                reading.incomplete.is_some()
            }
            Probe::Sockets => host.port(0).is_some(),
        }
    }
}

impl Reading {
    /// Reads everything once.
    pub fn of(host: &Host) -> Reading {
        let mut reading = Reading::default();
        for probe in Probe::ALL.into_iter().filter(|p| p.in_reading()) {
            probe.read(host, &mut reading);
        }
        reading
    }
}

/// What one probe costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeCost {
    /// The probe.
    pub probe: Probe,
    /// False if this host does not have it.
    pub available: bool,
    /// Median of the readings.
    pub median: Duration,
    /// Shortest reading.
    pub least: Duration,
    /// Longest reading.
    pub most: Duration,
}

/// Reads `probe` `times` times (at least once) and gives its cost.
pub fn cost(host: &Host, probe: Probe, times: usize) -> ProbeCost {
    let mut reading = Reading { udp: Some(UdpCounters::default()), ..Reading::default() };
    let mut available = true;
    let mut one = || {
        let begun = Instant::now();
        available &= probe.read(host, &mut reading);
        begun.elapsed()
    };
    let mut all: Vec<Duration> = (0..times.max(1)).map(|_| one()).collect();
    all.sort_unstable();
    let at = |i: usize| all.get(i).copied().unwrap_or_default();
    ProbeCost { probe, available, median: at(all.len() / 2), least: at(0), most: at(all.len() - 1) }
}
