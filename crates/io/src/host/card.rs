//! Network interfaces, their losses, and which of them receive a receiver's packets.
//!
//! Of the running host all interfaces of the calling thread's namespace come in one netlink answer; of a
//! saved tree (or where netlink is closed) from `/sys/class/net/*/statistics`. Absent
//! files are 0. Sources: kernel `Documentation/networking/statistics.rst`,
//! `include/uapi/linux/if_link.h` (`rtnl_link_stats64`), `net/core/dev.c`.

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;

use fullcount_core::bytes::Bytes;

use super::Host;
use super::netlink::{self, attributes, ne32, number, text};

/// One network interface with its counters, since it exists.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Card {
    /// Number.
    pub index: u32,
    /// Name.
    pub name: String,
    /// Driver's sort of virtual interface (`veth`, `ifb`, `bond`, …); empty for a card.
    pub kind: String,
    /// True for `lo`.
    pub loopback: bool,
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// Number of the bridge or bond that it belongs to.
    pub master: Option<u32>,
    /// Number of the interface below it (VLAN) in the same namespace.
    pub lower: Option<u32>,
    /// What it received and sent.
    pub counters: CardCounters,
}

/// Counters of an interface; frames, before GRO. Bytes are those of frames without their check sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CardCounters {
    /// Frames received.
    pub packets: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Dropped by driver or kernel for lack of space, and frames of protocols without a receiver. Includes drops of the
    /// backlog.
    pub dropped: u64,
    /// The card had no room in its ring or in its memory (`rx_missed`, `rx_fifo` and `rx_over` errors).
    pub missed: u64,
    /// Damaged on the way: wrong frame check, alignment or length.
    pub damaged: u64,
}

/// Requests, answers and attributes (`linux/rtnetlink.h`, `linux/if_link.h`, `linux/if_addr.h`).
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_STATS64: u16 = 23;
const IFLA_LINK_NETNSID: u16 = 37;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const ARPHRD_LOOPBACK: u16 = 772;

impl Host {
    /// All interfaces; `None` if unknown.
    pub fn cards(&self) -> Option<Vec<Card>> {
        if self.is_running()
            && let Ok(answers) = netlink::list(RTM_GETLINK, &[0; 16])
        {
            let links = answers.iter().filter(|(kind, _)| *kind == RTM_NEWLINK);
            return Some(links.filter_map(|(_, body)| card(body)).collect());
        }
        self.cards_of_sysfs()
    }

    fn cards_of_sysfs(&self) -> Option<Vec<Card>> {
        let folder = self.root.join("sys/class/net");
        let mut names: Vec<String> = fs::read_dir(folder)
            .ok()?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        let one = |name: String| {
            let at = |file: &str| self.number(&format!("sys/class/net/{name}/{file}"));
            let count = |file: &str| at(&format!("statistics/{file}")).unwrap_or(0);
            let index = at("ifindex").and_then(|i| u32::try_from(i).ok())?;
            let lower = at("iflink").and_then(|i| u32::try_from(i).ok()).filter(|&i| i != index);
            // A bridge or bond is a link from its part to the whole.
            let master = self.number(&format!("sys/class/net/{name}/master/ifindex"));
            Some(Card {
                index,
                kind: String::new(),
                loopback: at("type") == Some(u64::from(ARPHRD_LOOPBACK)),
                mtu: at("mtu").and_then(|m| u32::try_from(m).ok()).unwrap_or(0),
                master: master.and_then(|i| u32::try_from(i).ok()),
                lower,
                counters: CardCounters {
                    packets: count("rx_packets"),
                    bytes: count("rx_bytes"),
                    sent_bytes: count("tx_bytes"),
                    dropped: count("rx_dropped"),
                    missed: count("rx_missed_errors")
                        + count("rx_fifo_errors")
                        + count("rx_over_errors"),
                    damaged: count("rx_crc_errors")
                        + count("rx_frame_errors")
                        + count("rx_length_errors"),
                },
                name,
            })
        };
        Some(names.into_iter().filter_map(one).collect())
    }

    /// Numbers of the interfaces that packets to `local` come in on: those that have the address, what
    /// lies below them (VLAN, bond, bridge), and loopback, which carries what this host sends to its own
    /// addresses. `None`: any interface (a wildcard, a group, or unknown).
    pub fn receiving(&self, local: IpAddr, cards: &[Card]) -> Option<BTreeSet<u32>> {
        if local.is_unspecified() || local.is_multicast() || !self.is_running() {
            return None;
        }
        let first = having(local)?;
        // 127.0.0.2 is an address of lo without being listed.
        let loopback = local.is_loopback();
        (loopback || !first.is_empty()).then(|| with_lower(first, cards))
    }

    /// Name of the interface that has the address; of several the first.
    pub fn interface_with(&self, local: IpAddr) -> Option<String> {
        let cards = self.cards().filter(|_| self.is_running())?;
        let having = having(local)?;
        let found = |c: &Card| having.contains(&c.index) || local.is_loopback() && c.loopback;
        cards.into_iter().find(found).map(|c| c.name)
    }
}

/// Numbers of the interfaces of this host that have the address; `None`: unknown.
fn having(local: IpAddr) -> Option<BTreeSet<u32>> {
    let answers = netlink::list(RTM_GETADDR, &[0; 8]).ok()?;
    let bytes = match local {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let has = |body: &[u8]| {
        let mut b = Bytes::new(body);
        b.take(4)?;
        let index = ne32(&mut b)?;
        let same =
            |(kind, value): (u16, &[u8])| matches!(kind, IFA_ADDRESS | IFA_LOCAL) && value == bytes;
        attributes(b.rest()).any(same).then_some(index)
    };
    let answers = answers.iter().filter(|(kind, _)| *kind == RTM_NEWADDR);
    Some(answers.filter_map(|(_, body)| has(body)).collect())
}

/// Adds loopback and the interfaces below those in `chosen`.
pub fn with_lower(mut chosen: BTreeSet<u32>, cards: &[Card]) -> BTreeSet<u32> {
    chosen.extend(cards.iter().filter(|c| c.loopback).map(|c| c.index));
    loop {
        let below = |c: &Card| {
            let carries = cards.iter().any(|u| {
                // Two ends of a veth name each other; neither lies below the other.
                u.lower == Some(c.index) && c.lower != Some(u.index) && chosen.contains(&u.index)
            });
            carries || c.master.is_some_and(|m| chosen.contains(&m))
        };
        let more: Vec<u32> = cards.iter().filter(|c| below(c)).map(|c| c.index).collect();
        let before = chosen.len();
        chosen.extend(more);
        if chosen.len() == before {
            return chosen;
        }
    }
}

/// One `RTM_NEWLINK`.
fn card(body: &[u8]) -> Option<Card> {
    let mut b = Bytes::new(body);
    b.take(2)?;
    let kind = netlink::ne16(&mut b)?;
    let index = ne32(&mut b)?;
    b.take(8)?;
    let mut card = Card { index, loopback: kind == ARPHRD_LOOPBACK, ..Card::default() };
    let mut elsewhere = false;
    for (kind, value) in attributes(b.rest()) {
        match kind {
            IFLA_IFNAME => card.name = text(value),
            IFLA_MTU => card.mtu = number(value),
            IFLA_LINK => card.lower = Some(number(value)).filter(|&i| i != 0 && i != index),
            IFLA_LINK_NETNSID => elsewhere = true,
            IFLA_MASTER => card.master = Some(number(value)),
            IFLA_LINKINFO => {
                let name = attributes(value).find(|(kind, _)| *kind == IFLA_INFO_KIND);
                card.kind = name.map_or(String::new(), |(_, v)| text(v));
            }
            IFLA_STATS64 => card.counters = counters(value),
            _ => {}
        }
    }
    card.lower = card.lower.filter(|_| !elsewhere);
    Some(card)
}

/// `rtnl_link_stats64`: 64-bit numbers in a fixed order, more of them with each kernel.
fn counters(value: &[u8]) -> CardCounters {
    let at = |i: usize| {
        let bytes = value.get(8 * i..8 * i + 8).and_then(|b| b.try_into().ok());
        bytes.map_or(0, u64::from_ne_bytes)
    };
    CardCounters {
        packets: at(0),
        bytes: at(2),
        sent_bytes: at(3),
        dropped: at(6),
        missed: at(11) + at(14) + at(15),
        damaged: at(10) + at(12) + at(13),
    }
}
