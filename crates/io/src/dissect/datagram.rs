//! The UDP datagram in a received frame: where its payload is, who sent it, whether it is complete.
//!
//! Looks at the frame's first piece only, since the kernel puts all headers there, and at the whole frame's length.
//! VLAN tags are skipped, IPv4 options too; IPv6 extension headers are not skipped (the filters in the kernel do not
//! pass such frames). Bytes after the packet are padding. Refuses: see [`DatagramRefusal`]. Sources: RFC 791, 768, 8200 (8.1),
//! IEEE 802.1Q.

use std::ops::Range;

use fullcount_core::batch::Origin;

use super::checksum::{fold, sum};

/// Why a frame that the filter let through is not delivered. One variant, one counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum DatagramRefusal {
    /// The frame ends before what its headers announce.
    #[error("the frame ends before its datagram does")]
    Cut,
    /// Lengths in the headers contradict each other.
    #[error("IP or UDP length out of range")]
    Length,
    /// Not UDP to the wanted port, after all.
    #[error("not for this endpoint")]
    NotOurs,
    /// Part of a datagram.
    #[error("IP fragment")]
    Fragment,
    /// The checksum does not fit the bytes.
    #[error("wrong UDP checksum")]
    Checksum,
}

impl DatagramRefusal {
    /// All of them, in their order.
    pub const ALL: [DatagramRefusal; 5] = [
        DatagramRefusal::Cut,
        DatagramRefusal::Length,
        DatagramRefusal::NotOurs,
        DatagramRefusal::Fragment,
        DatagramRefusal::Checksum,
    ];
}

/// What the checksum says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// Right.
    Good,
    /// IPv4: the sender made none.
    Absent,
    /// The sender is on this host and left it to a card that there is not: only the part of the
    /// addresses is in. The bytes have not been on any wire.
    Partial,
    /// Wrong: the bytes are not those that were sent. Over IPv6 also: none (RFC 8200).
    Wrong,
}

/// A datagram found in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram {
    /// First byte of the payload in the frame.
    pub start: usize,
    /// Bytes of payload.
    pub len: usize,
    /// Sender.
    pub origin: Origin,
    field: u16,
    /// Sum of addresses, protocol and length.
    pseudo: u64,
    /// Sum of the UDP header's words other than the checksum.
    header: u64,
    v6: bool,
}

impl Datagram {
    /// Where the payload is in the frame.
    pub fn range(&self) -> Range<usize> {
        self.start..self.start + self.len
    }

    /// Checks the checksum against the payload. A right checksum that happens to be the part of the addresses (1 in
    /// 65,536) is called partial: the same datagrams are accepted in either order, and the bytes of a partial one need
    /// not be summed.
    #[inline]
    pub fn judge(&self, payload: &[u8]) -> Judgement {
        if self.field == 0 {
            return if self.v6 { Judgement::Wrong } else { Judgement::Absent };
        }
        if self.field == fold(self.pseudo) {
            return Judgement::Partial;
        }
        let all = self.pseudo + self.header + u64::from(self.field) + u64::from(sum(payload));
        if fold(all) == 0xffff { Judgement::Good } else { Judgement::Wrong }
    }
}

#[inline]
fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Finds the datagram for `port` in an Ethernet frame of `total` bytes that begins with `first`.
#[inline]
pub fn find(first: &[u8], total: usize, port: u16) -> Result<Datagram, DatagramRefusal> {
    let mut at = 12;
    let mut kind = be16(first, at).ok_or(DatagramRefusal::Cut)?;
    while matches!(kind, 0x8100 | 0x88a8 | 0x9100) {
        at += 4;
        kind = be16(first, at).ok_or(DatagramRefusal::Cut)?;
    }
    at += 2;
    let packet = &first[at..];
    let room = total.saturating_sub(at);
    match kind {
        0x0800 => {
            let h: &[u8; 20] = packet.first_chunk().ok_or(DatagramRefusal::Cut)?;
            let header = usize::from(h[0] & 15) * 4;
            let length = usize::from(u16::from_be_bytes([h[2], h[3]]));
            if h[0] >> 4 != 4 || h[9] != 17 {
                return Err(DatagramRefusal::NotOurs);
            }
            if header < 20 || length < header {
                return Err(DatagramRefusal::Length);
            }
            if u16::from_be_bytes([h[6], h[7]]) & 0x3fff != 0 {
                return Err(DatagramRefusal::Fragment);
            }
            if length > room {
                return Err(DatagramRefusal::Cut);
            }
            let mut ip = [0; 16];
            ip[10..12].fill(0xff);
            ip[12..].copy_from_slice(&h[12..16]);
            let addresses = u64::from(sum(&h[12..20]));
            let body = packet.get(header..).ok_or(DatagramRefusal::Cut)?;
            udp(body, at + header, length - header, ip, addresses, port, false)
        }
        0x86dd => {
            let h: &[u8; 40] = packet.first_chunk().ok_or(DatagramRefusal::Cut)?;
            let length = usize::from(u16::from_be_bytes([h[4], h[5]]));
            match h[6] {
                _ if h[0] >> 4 != 6 => return Err(DatagramRefusal::NotOurs),
                17 => {}
                44 => return Err(DatagramRefusal::Fragment),
                _ => return Err(DatagramRefusal::NotOurs),
            }
            if length + 40 > room {
                return Err(DatagramRefusal::Cut);
            }
            let mut ip = [0; 16];
            ip.copy_from_slice(&h[8..24]);
            let addresses = u64::from(sum(&h[8..40]));
            udp(&packet[40..], at + 40, length, ip, addresses, port, true)
        }
        _ => Err(DatagramRefusal::NotOurs),
    }
}

/// Where the datagram of a frame was sent to; only of frames in which [`find`] found one for `port`.
#[inline]
pub fn destination(first: &[u8], port: u16) -> Option<Origin> {
    let mut at = 12;
    while matches!(be16(first, at)?, 0x8100 | 0x88a8 | 0x9100) {
        at += 4;
    }
    let v4 = be16(first, at)? == 0x0800;
    let packet = first.get(at + 2..)?;
    let mut ip = [0; 16];
    if v4 {
        ip[10..12].fill(0xff);
        ip[12..].copy_from_slice(packet.get(16..20)?);
    } else {
        ip.copy_from_slice(packet.get(24..40)?);
    }
    Some(Origin { ip, port })
}

/// `length`: what IP says that follows its header.
#[inline]
fn udp(
    body: &[u8],
    at: usize,
    length: usize,
    ip: [u8; 16],
    addresses: u64,
    port: u16,
    v6: bool,
) -> Result<Datagram, DatagramRefusal> {
    if length < 8 {
        return Err(DatagramRefusal::Length);
    }
    let h: &[u8; 8] = body.first_chunk().ok_or(DatagramRefusal::Cut)?;
    let word = |i: usize| u16::from_be_bytes([h[i], h[i + 1]]);
    if word(2) != port {
        return Err(DatagramRefusal::NotOurs);
    }
    let udp_length = usize::from(word(4));
    // As the kernel: a UDP length below that of IP cuts the payload, above it is an error.
    if udp_length < 8 || udp_length > length {
        return Err(DatagramRefusal::Length);
    }
    Ok(Datagram {
        start: at + 8,
        len: udp_length - 8,
        origin: Origin { ip, port: word(0) },
        field: word(6),
        pseudo: addresses + 17 + udp_length as u64,
        header: u64::from(word(0)) + u64::from(port) + udp_length as u64,
        v6,
    })
}

#[cfg(test)]
#[path = "datagram_tests.rs"]
mod tests;
