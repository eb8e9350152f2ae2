//! ICMP as far as a sender needs it: echo requests, and errors that quote one of its segments (RFC 792, 1191).

use super::WireError;
use super::checksum::Sum;

/// What a message says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Icmp {
    /// An echo request: to be answered with its bytes.
    Echo,
    /// Nothing to do with us, or nothing that changes anything.
    Other,
    /// A segment of ours could not be delivered.
    Error {
        /// How bad.
        kind: IcmpKind,
        /// Our port and the peer's.
        ports: (u16, u16),
        /// The peer's address.
        remote: [u8; 4],
        /// Sequence number of the quoted segment.
        seq: u32,
    },
}

/// Errors by what follows from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IcmpKind {
    /// May pass.
    Soft,
    /// No such protocol or port.
    Hard,
    /// Packets may be at most so long, bytes.
    TooBig(u16),
}

/// Reads a message.
///
/// # Errors
/// Short, or a wrong checksum.
pub fn read(message: &[u8]) -> Result<Icmp, WireError> {
    let header = message.get(..8).ok_or(WireError::Short)?;
    if Sum::default().with(message).folded() != 0xffff {
        return Err(WireError::IcmpChecksum);
    }
    let mtu = u16::from_be_bytes([header[6], header[7]]);
    let kind = match (header[0], header[1]) {
        (8, 0) => return Ok(Icmp::Echo),
        (3, 2 | 3) => IcmpKind::Hard,
        (3, 4) => IcmpKind::TooBig(mtu),
        (3 | 11 | 12, _) => IcmpKind::Soft,
        _ => return Ok(Icmp::Other),
    };
    // The quoted packet is ours: IP header, and at least 8 bytes of TCP.
    let quoted = &message[8..];
    let length = usize::from(quoted.first().copied().unwrap_or(0) & 15) * 4;
    let (Some(ip), Some(tcp)) = (quoted.get(..20), quoted.get(length..length + 8)) else {
        return Ok(Icmp::Other);
    };
    if ip[0] >> 4 != 4 || length < 20 || ip[9] != 6 {
        return Ok(Icmp::Other);
    }
    Ok(Icmp::Error {
        kind,
        ports: (u16::from_be_bytes([tcp[0], tcp[1]]), u16::from_be_bytes([tcp[2], tcp[3]])),
        remote: [ip[16], ip[17], ip[18], ip[19]],
        seq: u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]),
    })
}
