//! UDP header and the Internet checksum.
//!
//! The UDP length field bounds the payload, as in the kernel: bytes after it are ignored.
//! Refuses: a length below 8 or above the IP payload. Sources: RFC 768, RFC 1071, RFC 8200 (8.1).

use std::net::IpAddr;

use super::FrameRefusal;

/// Protocol number.
pub const PROTOCOL: u8 = 17;

/// A UDP datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Udp<'a> {
    /// Sender's port.
    pub source_port: u16,
    /// Receiver's port.
    pub destination_port: u16,
    /// Checksum field as sent; 0: none.
    pub checksum: u16,
    /// Data.
    pub payload: &'a [u8],
    whole: &'a [u8],
}

/// What the checksum field says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksum {
    /// Right.
    Good,
    /// The sender computed none (allowed in IPv4 only).
    Absent,
    /// Captured on the sending host before the card completed it: only the address part is in.
    Offloaded,
    /// The bytes are not those that were sent.
    Wrong,
}

impl<'a> Udp<'a> {
    /// Reads header and payload out of an IP payload.
    ///
    /// # Errors
    /// [`FrameRefusal::UdpLength`].
    pub fn parse(bytes: &'a [u8]) -> Result<Udp<'a>, FrameRefusal> {
        let header: &[u8; 8] = bytes.first_chunk().ok_or(FrameRefusal::UdpLength)?;
        let be16 = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let length = usize::from(be16(4));
        if length < 8 {
            return Err(FrameRefusal::UdpLength);
        }
        let whole = bytes.get(..length).ok_or(FrameRefusal::UdpLength)?;
        Ok(Udp {
            source_port: be16(0),
            destination_port: be16(2),
            checksum: be16(6),
            payload: &whole[8..],
            whole,
        })
    }

    /// Verifies the checksum; the addresses are part of it.
    pub fn verify(&self, source: IpAddr, destination: IpAddr) -> Checksum {
        if self.checksum == 0 {
            return Checksum::Absent;
        }
        let pseudo = pseudo_header(source, destination, self.whole.len());
        if fold(sum(pseudo, self.whole)) == 0xffff {
            return Checksum::Good;
        }
        if self.checksum == fold(pseudo) { Checksum::Offloaded } else { Checksum::Wrong }
    }
}

/// Adds big-endian 16-bit words to `start`; an odd last byte counts as the high half of a word.
/// 64 bits hold the sum of more bytes than there are.
pub fn sum(start: u64, bytes: &[u8]) -> u64 {
    let pairs = bytes.chunks_exact(2);
    let tail = pairs.remainder().first().map_or(0, |&b| u64::from(b) << 8);
    pairs.fold(start + tail, |acc, w| acc + u64::from(u16::from_be_bytes([w[0], w[1]])))
}

/// End-around carries until 16 bits are left; the checksum is the complement.
pub fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Sum of the address part for UDP; `length` of header and data, bytes. Addresses of different versions are
/// simply summed: no packet has such a pair.
pub fn pseudo_header(source: IpAddr, destination: IpAddr, length: usize) -> u64 {
    let add = |acc: u64, ip: IpAddr| match ip {
        IpAddr::V4(a) => sum(acc, &a.octets()),
        IpAddr::V6(a) => sum(acc, &a.octets()),
    };
    let addresses = add(add(0, source), destination);
    addresses + u64::from(PROTOCOL) + length as u64
}
