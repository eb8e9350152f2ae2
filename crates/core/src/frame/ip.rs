//! IPv4 and IPv6 headers, down to the fragment or the transport payload.
//!
//! Options and extension headers are skipped, not interpreted. The header checksum of IPv4 is
//! checked only by [`Ipv4::header_checksum_good`]: captures on a sending host hold headers whose
//! checksum the card fills in later.
//! Refuses: lengths that contradict each other or the frame. Sources: RFC 791, RFC 8200, RFC 6946.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::udp::{Udp, fold, sum};
use super::{FrameRefusal, udp};
use crate::bytes::Bytes;

/// Place of a fragment in its datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment {
    /// Identification: 16 bits in IPv4, 32 in IPv6.
    pub ident: u32,
    /// First byte in the datagram, 0..=65,528, a multiple of 8.
    pub offset: u32,
    /// More fragments follow this one in the datagram.
    pub more: bool,
}

/// What both versions of IP say about a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpPacket<'a> {
    /// Sender.
    pub source: IpAddr,
    /// Receiver.
    pub destination: IpAddr,
    /// Protocol after all headers; for an IPv6 fragment, the next header of the whole.
    pub protocol: u8,
    /// Set if the payload is only a part of a datagram.
    pub fragment: Option<Fragment>,
    /// Transport header and data; for a fragment, its part of them.
    pub payload: &'a [u8],
}

impl<'a> IpPacket<'a> {
    /// The UDP datagram in a packet that is no fragment.
    ///
    /// # Errors
    /// [`FrameRefusal::Fragment`], [`FrameRefusal::NotUdp`] or [`FrameRefusal::UdpLength`].
    pub fn udp(&self) -> Result<Udp<'a>, FrameRefusal> {
        if self.protocol != udp::PROTOCOL && !(self.fragment.is_some() && self.source.is_ipv6()) {
            return Err(FrameRefusal::NotUdp);
        }
        if self.fragment.is_some() {
            return Err(FrameRefusal::Fragment);
        }
        Udp::parse(self.payload)
    }
}

/// An IPv4 packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv4<'a> {
    /// Sender.
    pub source: Ipv4Addr,
    /// Receiver.
    pub destination: Ipv4Addr,
    /// Transport protocol (17 = UDP, 6 = TCP).
    pub protocol: u8,
    /// Hops left.
    pub ttl: u8,
    /// Identification.
    pub ident: u16,
    /// Must not be fragmented.
    pub dont_fragment: bool,
    /// More fragments follow.
    pub more_fragments: bool,
    /// First byte of the payload in the whole datagram.
    pub offset: u32,
    /// Header with options, 20..=60 bytes.
    pub header: &'a [u8],
    /// What follows up to the total length.
    pub payload: &'a [u8],
}

impl<'a> Ipv4<'a> {
    /// Reads a header; bytes after the total length (padding) are ignored.
    ///
    /// # Errors
    /// [`FrameRefusal::Version`], [`FrameRefusal::IpLength`] or [`FrameRefusal::Cut`].
    pub fn parse(bytes: &'a [u8]) -> Result<Ipv4<'a>, FrameRefusal> {
        let first = *bytes.first().ok_or(FrameRefusal::Cut)?;
        if first >> 4 != 4 {
            return Err(FrameRefusal::Version);
        }
        let header_len = usize::from(first & 0xf) * 4;
        if header_len < 20 {
            return Err(FrameRefusal::IpLength);
        }
        let (header, rest) = bytes.split_at_checked(header_len).ok_or(FrameRefusal::Cut)?;
        let be16 = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let total = usize::from(be16(2));
        let payload_len = total.checked_sub(header_len).ok_or(FrameRefusal::IpLength)?;
        let payload = rest.get(..payload_len).ok_or(FrameRefusal::Cut)?;
        let flags = be16(6);
        Ok(Ipv4 {
            source: Ipv4Addr::new(header[12], header[13], header[14], header[15]),
            destination: Ipv4Addr::new(header[16], header[17], header[18], header[19]),
            protocol: header[9],
            ttl: header[8],
            ident: be16(4),
            dont_fragment: flags & 0x4000 != 0,
            more_fragments: flags & 0x2000 != 0,
            offset: u32::from(flags & 0x1fff) * 8,
            header,
            payload,
        })
    }

    /// True if the header sums up to the right value.
    pub fn header_checksum_good(&self) -> bool {
        fold(sum(0, self.header)) == 0xffff
    }

    /// The part that both versions share.
    pub fn packet(&self) -> IpPacket<'a> {
        let part = self.more_fragments || self.offset != 0;
        IpPacket {
            source: self.source.into(),
            destination: self.destination.into(),
            protocol: self.protocol,
            fragment: part.then_some(Fragment {
                ident: u32::from(self.ident),
                offset: self.offset,
                more: self.more_fragments,
            }),
            payload: self.payload,
        }
    }
}

/// An IPv6 packet, extension headers not yet walked over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv6<'a> {
    /// Sender.
    pub source: Ipv6Addr,
    /// Receiver.
    pub destination: Ipv6Addr,
    /// Hops left.
    pub hop_limit: u8,
    /// Type of the first header in the payload.
    pub next_header: u8,
    /// Extension headers, transport header and data.
    pub payload: &'a [u8],
}

impl<'a> Ipv6<'a> {
    /// Reads the fixed header; bytes after the payload length (padding) are ignored.
    ///
    /// # Errors
    /// [`FrameRefusal::Version`], [`FrameRefusal::IpLength`] (a jumbogram) or [`FrameRefusal::Cut`].
    pub fn parse(bytes: &'a [u8]) -> Result<Ipv6<'a>, FrameRefusal> {
        let mut b = Bytes::new(bytes);
        if bytes.first().ok_or(FrameRefusal::Cut)? >> 4 != 6 {
            return Err(FrameRefusal::Version);
        }
        let fixed: [u8; 8] = b.array().ok_or(FrameRefusal::Cut)?;
        let source: [u8; 16] = b.array().ok_or(FrameRefusal::Cut)?;
        let destination: [u8; 16] = b.array().ok_or(FrameRefusal::Cut)?;
        let length = usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
        if length == 0 {
            return Err(FrameRefusal::IpLength);
        }
        let payload = b.take(length).ok_or(FrameRefusal::Cut)?;
        Ok(Ipv6 {
            source: source.into(),
            destination: destination.into(),
            hop_limit: fixed[7],
            next_header: fixed[6],
            payload,
        })
    }

    /// Walks over the extension headers.
    ///
    /// # Errors
    /// [`FrameRefusal::Extension`].
    pub fn packet(&self) -> Result<IpPacket<'a>, FrameRefusal> {
        let (protocol, fragment, payload) = upper(self.next_header, self.payload)?;
        Ok(IpPacket {
            source: self.source.into(),
            destination: self.destination.into(),
            protocol,
            fragment,
            payload,
        })
    }
}

/// Walks over IPv6 extension headers up to the transport header or a fragment. A fragment header
/// with offset 0 and nothing to follow is no fragment (RFC 6946).
pub(super) fn upper(
    mut next: u8,
    mut rest: &[u8],
) -> Result<(u8, Option<Fragment>, &[u8]), FrameRefusal> {
    loop {
        let len = match next {
            // Hop-by-hop, routing, destination options, mobility, HIP, Shim6: units of 8 bytes.
            0 | 43 | 60 | 135 | 139 | 140 => {
                8 * (1 + usize::from(*rest.get(1).ok_or(FrameRefusal::Extension)?))
            }
            // Authentication: units of 4 bytes, counted from 2.
            51 => 4 * (2 + usize::from(*rest.get(1).ok_or(FrameRefusal::Extension)?)),
            44 => 8,
            _ => return Ok((next, None, rest)),
        };
        let (header, behind) = rest.split_at_checked(len).ok_or(FrameRefusal::Extension)?;
        if next == 44 {
            let place = u16::from_be_bytes([header[2], header[3]]);
            let ident = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
            let (offset, more) = (u32::from(place & 0xfff8), place & 1 != 0);
            if more || offset != 0 {
                return Ok((header[0], Some(Fragment { ident, offset, more }), behind));
            }
        }
        next = header[0];
        rest = behind;
    }
}
