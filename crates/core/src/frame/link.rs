//! Link headers, before the IP header, by link type of the capture.
//!
//! Refuses: a cut header, and everything that is not IP (ARP, LLDP, 802.3 with LLC, MPLS, PPPoE).
//! Sources: IEEE 802.1Q/802.1ad; tcpdump.org/linktypes (LINUX_SLL, LINUX_SLL2, NULL, LOOP, RAW).

use super::{FrameRefusal, IpPacket, Ipv4, Ipv6};
use crate::bytes::Bytes;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// 802.1Q, 802.1ad and the older number for stacked tags.
const VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// Linux hardware type of netlink messages, whose cooked "protocol" is no Ethernet type.
const ARPHRD_NETLINK: u16 = 824;

/// Link layers that a frame can start with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkLayer {
    /// Ethernet II, with any number of VLAN tags.
    Ethernet,
    /// Linux cooked capture, version 1 (16 bytes; `tcpdump -i any` up to 2020).
    Cooked,
    /// Linux cooked capture, version 2 (20 bytes).
    Cooked2,
    /// IP without a link header.
    RawIp,
    /// BSD loopback: 4 bytes of address family in either byte order.
    Loopback,
}

impl LinkLayer {
    /// Link type of a capture file; `None` for those that we cannot look into.
    pub fn from_number(number: u16) -> Option<LinkLayer> {
        match number {
            0 | 108 => Some(LinkLayer::Loopback),
            1 => Some(LinkLayer::Ethernet),
            // 12 and 14 are what some systems write for raw IP, 228 and 229 fix the version.
            12 | 14 | 101 | 228 | 229 => Some(LinkLayer::RawIp),
            113 => Some(LinkLayer::Cooked),
            276 => Some(LinkLayer::Cooked2),
            _ => None,
        }
    }

    /// Number in a capture file.
    pub fn number(self) -> u16 {
        match self {
            LinkLayer::Loopback => 0,
            LinkLayer::Ethernet => 1,
            LinkLayer::RawIp => 101,
            LinkLayer::Cooked => 113,
            LinkLayer::Cooked2 => 276,
        }
    }

    /// The IP packet in a frame of this link type; padding behind it is left away.
    pub fn ip(self, frame: &[u8]) -> Result<IpPacket<'_>, FrameRefusal> {
        let mut b = Bytes::new(frame);
        match self {
            LinkLayer::Ethernet => {
                let e = Ethernet::parse(frame)?;
                by_ethertype(e.ethertype, e.payload)
            }
            LinkLayer::Cooked => {
                let header = b.take(16).ok_or(FrameRefusal::Cut)?;
                let hardware = u16::from_be_bytes([header[2], header[3]]);
                if hardware == ARPHRD_NETLINK {
                    return Err(FrameRefusal::NotIp);
                }
                let protocol = u16::from_be_bytes([header[14], header[15]]);
                let (ethertype, _) = untag(protocol, &mut b)?;
                by_ethertype(ethertype, b.rest())
            }
            LinkLayer::Cooked2 => {
                let header = b.take(20).ok_or(FrameRefusal::Cut)?;
                let hardware = u16::from_be_bytes([header[8], header[9]]);
                if hardware == ARPHRD_NETLINK {
                    return Err(FrameRefusal::NotIp);
                }
                let protocol = u16::from_be_bytes([header[0], header[1]]);
                let (ethertype, _) = untag(protocol, &mut b)?;
                by_ethertype(ethertype, b.rest())
            }
            LinkLayer::RawIp => match frame.first().ok_or(FrameRefusal::Cut)? >> 4 {
                4 => Ipv4::parse(frame).map(|p| p.packet()),
                6 => Ipv6::parse(frame)?.packet(),
                _ => Err(FrameRefusal::Version),
            },
            LinkLayer::Loopback => {
                let family = b.be32().ok_or(FrameRefusal::Cut)?;
                // The family is small, so the byte order shows: at most one half is not 0.
                let family = if family > 0xffff { family.swap_bytes() } else { family };
                match family {
                    2 => by_ethertype(IPV4, b.rest()),
                    // AF_INET6 of Linux, NetBSD/OpenBSD, FreeBSD, macOS.
                    10 | 24 | 28 | 30 => by_ethertype(IPV6, b.rest()),
                    _ => Err(FrameRefusal::NotIp),
                }
            }
        }
    }
}

fn by_ethertype(ethertype: u16, bytes: &[u8]) -> Result<IpPacket<'_>, FrameRefusal> {
    match ethertype {
        IPV4 => Ipv4::parse(bytes).map(|p| p.packet()),
        IPV6 => Ipv6::parse(bytes)?.packet(),
        _ => Err(FrameRefusal::NotIp),
    }
}

/// Skips VLAN tags: returns the Ethernet type after them and the outermost tag.
fn untag(mut ethertype: u16, b: &mut Bytes<'_>) -> Result<(u16, Option<u16>), FrameRefusal> {
    let mut outer = None;
    while VLAN.contains(&ethertype) {
        let tag = b.be16().ok_or(FrameRefusal::Cut)?;
        outer = outer.or(Some(tag));
        ethertype = b.be16().ok_or(FrameRefusal::Cut)?;
    }
    Ok((ethertype, outer))
}

/// An Ethernet II frame, tags removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ethernet<'a> {
    /// Receiver's hardware address.
    pub destination: [u8; 6],
    /// Sender's hardware address.
    pub source: [u8; 6],
    /// Outermost VLAN number, 0..=4095.
    pub vlan: Option<u16>,
    /// Ethernet type after all tags; below 1536 it is an 802.3 length.
    pub ethertype: u16,
    /// What follows, padding and check sequence included.
    pub payload: &'a [u8],
}

impl<'a> Ethernet<'a> {
    /// Reads addresses, tags and type.
    ///
    /// # Errors
    /// [`FrameRefusal::Cut`] below 14 bytes or inside a tag.
    pub fn parse(frame: &'a [u8]) -> Result<Ethernet<'a>, FrameRefusal> {
        let mut b = Bytes::new(frame);
        let destination = b.array().ok_or(FrameRefusal::Cut)?;
        let source = b.array().ok_or(FrameRefusal::Cut)?;
        let outer = b.be16().ok_or(FrameRefusal::Cut)?;
        let (ethertype, tag) = untag(outer, &mut b)?;
        let vlan = tag.map(|t| t & 0x0fff);
        Ok(Ethernet { destination, source, vlan, ethertype, payload: b.rest() })
    }
}
