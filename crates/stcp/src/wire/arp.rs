//! ARP for IPv4 on Ethernet (RFC 826): 28 bytes behind the Ethernet header.

use super::WireError;

/// An ARP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arp {
    /// A question, not an answer.
    pub request: bool,
    /// Who speaks: MAC and IP address.
    pub sender: ([u8; 6], [u8; 4]),
    /// Who is meant; the MAC of a question is zero.
    pub target: ([u8; 6], [u8; 4]),
}

const HEAD: [u8; 7] = [0, 1, 8, 0, 6, 4, 0];

/// Reads a packet.
///
/// # Errors
/// Short, or of another network.
pub fn read(packet: &[u8]) -> Result<Arp, WireError> {
    let p = packet.first_chunk::<28>().ok_or(WireError::Short)?;
    if p[..7] != HEAD || !matches!(p[7], 1 | 2) {
        return Err(WireError::NotIpv4);
    }
    let mac = |at: usize| [p[at], p[at + 1], p[at + 2], p[at + 3], p[at + 4], p[at + 5]];
    let ip = |at: usize| [p[at], p[at + 1], p[at + 2], p[at + 3]];
    Ok(Arp { request: p[7] == 1, sender: (mac(8), ip(14)), target: (mac(18), ip(24)) })
}

/// Writes a packet.
pub fn write(arp: &Arp) -> [u8; 28] {
    let mut p = [0; 28];
    p[..7].copy_from_slice(&HEAD);
    p[7] = if arp.request { 1 } else { 2 };
    p[8..14].copy_from_slice(&arp.sender.0);
    p[14..18].copy_from_slice(&arp.sender.1);
    p[18..24].copy_from_slice(&arp.target.0);
    p[24..28].copy_from_slice(&arp.target.1);
    p
}
