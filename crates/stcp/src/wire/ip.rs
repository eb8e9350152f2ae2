//! IPv4 packets around segments: ours have 20 bytes of header and forbid fragmentation; a peer's options are skipped.

use super::WireError;
use super::checksum::{Sum, pseudo};
use super::icmp::{self, Icmp};
use super::tcp::{self, Inbound};
use crate::sender::Outbound;

/// Longest headers of a packet of ours: IP 20, TCP with options 28 bytes.
pub const HEADERS: usize = 48;
const TCP: u8 = 6;
const ICMP: u8 = 1;

/// The two ends, ours first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// Our address.
    pub local: [u8; 4],
    /// The peer's.
    pub remote: [u8; 4],
    /// Our port.
    pub local_port: u16,
    /// The peer's.
    pub remote_port: u16,
}

/// Whether TCP checksums of what arrives are complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChecksumTrust {
    /// Check them.
    Check,
    /// The driver says that it is not computed yet, as the packet never left this host.
    Partial,
}

/// What a packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packet {
    /// A segment, from this address.
    Tcp {
        /// Who sent it.
        from: [u8; 4],
        /// Its port and ours.
        ports: (u16, u16),
        /// Its fields.
        segment: Inbound,
    },
    /// A message of ICMP, from this address.
    Icmp {
        /// Who sent it.
        from: [u8; 4],
        /// What it says.
        message: Icmp,
    },
}

/// Reads an IPv4 packet for `own`, padding behind it allowed.
///
/// # Errors
/// See [`WireError`].
pub fn parse(packet: &[u8], own: [u8; 4], trust: ChecksumTrust) -> Result<Packet, WireError> {
    let header = packet.get(..20).ok_or(WireError::Short)?;
    if header[0] >> 4 != 4 {
        return Err(WireError::NotIpv4);
    }
    let length = usize::from(header[0] & 15) * 4;
    if length < 20 || length > packet.len() {
        return Err(WireError::HeaderLength);
    }
    if Sum::default().with(&packet[..length]).folded() != 0xffff {
        return Err(WireError::HeaderChecksum);
    }
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if total < length || total > packet.len() {
        return Err(WireError::TotalLength);
    }
    // More fragments, or an offset.
    if u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0 {
        return Err(WireError::IpFragment);
    }
    let four = |at: usize| [header[at], header[at + 1], header[at + 2], header[at + 3]];
    let (from, to) = (four(12), four(16));
    if to != own {
        return Err(WireError::OtherAddress);
    }
    let inner = &packet[length..total];
    match header[9] {
        TCP => {
            let (ports, segment) = tcp::read(inner)?;
            if trust == ChecksumTrust::Check
                && pseudo(from, to, TCP, inner.len()).with(inner).folded() != 0xffff
            {
                return Err(WireError::TcpChecksum);
            }
            Ok(Packet::Tcp { from, ports, segment })
        }
        ICMP => Ok(Packet::Icmp { from, message: icmp::read(inner)? }),
        _ => Err(WireError::OtherProtocol),
    }
}

/// An IPv4 header of `protocol` with `length` bytes behind it.
pub fn header(local: [u8; 4], remote: [u8; 4], protocol: u8, id: u16, length: usize) -> [u8; 20] {
    let mut ip = [0; 20];
    ip[0] = 0x45;
    // 0: longer than the field can say. Such a unit is cut before it is a packet of a wire (Linux: BIG TCP).
    let total = u16::try_from(20 + length).unwrap_or(0);
    ip[2..4].copy_from_slice(&total.to_be_bytes());
    ip[4..6].copy_from_slice(&id.to_be_bytes());
    ip[6] = 0x40;
    ip[8] = 64;
    ip[9] = protocol;
    ip[12..16].copy_from_slice(&local);
    ip[16..20].copy_from_slice(&remote);
    let sum = Sum::default().with(&ip).finish();
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    ip
}

/// Writes IP and TCP headers of `segment` with its two parts of payload; their length comes back. With `partial` the TCP
/// checksum is left to the driver: the field holds the sum of the pseudo header.
pub fn write(
    to: &mut [u8; HEADERS],
    addresses: &Addresses,
    id: u16,
    segment: &Outbound,
    payload: (&[u8], &[u8]),
    partial: bool,
) -> usize {
    let mut tcp_header = [0; 28];
    let ports = (addresses.local_port, addresses.remote_port);
    let length = tcp::write(&mut tcp_header, ports, segment);
    let whole = length + payload.0.len() + payload.1.len();
    let start = pseudo(addresses.local, addresses.remote, TCP, whole);
    let sum = match partial {
        true => start.folded(),
        false => start.with(&tcp_header[..length]).with(payload.0).with(payload.1).finish(),
    };
    tcp_header[16..18].copy_from_slice(&sum.to_be_bytes());
    to[..20].copy_from_slice(&header(addresses.local, addresses.remote, TCP, id, whole));
    to[20..20 + length].copy_from_slice(&tcp_header[..length]);
    20 + length
}
