//! Frames for tests, written byte by byte; shares no code with the parsers or `core::frame::emit`.

use std::net::IpAddr;

/// A UDP datagram to be framed.
#[derive(Debug, Clone)]
pub struct MadeDatagram {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub source_port: u16,
    pub port: u16,
    /// Tags in front of the Ethernet type: (type, number).
    pub tags: Vec<(u16, u16)>,
    /// IPv4 options, a multiple of 4 bytes up to 40.
    pub options: Vec<u8>,
    /// IPv4: flags and offset field.
    pub place: u16,
    pub protocol: u8,
    pub payload: Vec<u8>,
    pub checksum: ChecksumField,
    /// Bytes after the packet, as in short frames.
    pub padding: usize,
}

/// Content of the checksum field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChecksumField {
    Right,
    None,
    /// Only the address part, as a sender leaves it to its card.
    Partial,
    Wrong,
}

pub fn v4(payload: &[u8]) -> MadeDatagram {
    MadeDatagram {
        source: "192.0.2.1".parse().unwrap(),
        destination: "192.0.2.2".parse().unwrap(),
        source_port: 4000,
        port: 9000,
        tags: Vec::new(),
        options: Vec::new(),
        place: 0x4000,
        protocol: 17,
        payload: payload.to_vec(),
        checksum: ChecksumField::Right,
        padding: 0,
    }
}

pub fn v6(payload: &[u8]) -> MadeDatagram {
    MadeDatagram {
        source: "2001:db8::1".parse().unwrap(),
        destination: "2001:db8::2".parse().unwrap(),
        ..v4(payload)
    }
}

/// Ones' complement sum of 16-bit words, as RFC 1071 writes it down.
fn ones(bytes: &[u8]) -> u32 {
    let mut sum = 0u32;
    for (i, b) in bytes.iter().enumerate() {
        sum += u32::from(*b) << if i % 2 == 0 { 8 } else { 0 };
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}

impl MadeDatagram {
    /// Bytes from the destination's hardware address on, without the check sequence.
    pub fn frame(&self) -> Vec<u8> {
        let mut f = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        for (kind, number) in &self.tags {
            f.extend(kind.to_be_bytes());
            f.extend(number.to_be_bytes());
        }
        let length = (8 + self.payload.len()) as u16;
        let mut udp = Vec::new();
        udp.extend(self.source_port.to_be_bytes());
        udp.extend(self.port.to_be_bytes());
        udp.extend(length.to_be_bytes());
        udp.extend([0, 0]);
        udp.extend(&self.payload);
        let mut pseudo = Vec::new();
        match (self.source, self.destination) {
            (IpAddr::V4(s), IpAddr::V4(d)) => {
                f.extend([0x08, 0x00, 0x45 + (self.options.len() / 4) as u8, 0]);
                f.extend((20 + self.options.len() as u16 + length).to_be_bytes());
                f.extend([0x12, 0x34]);
                f.extend(self.place.to_be_bytes());
                f.extend([64, self.protocol, 0, 0]);
                f.extend(s.octets());
                f.extend(d.octets());
                f.extend(&self.options);
                pseudo.extend(s.octets());
                pseudo.extend(d.octets());
            }
            (IpAddr::V6(s), IpAddr::V6(d)) => {
                f.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
                f.extend(length.to_be_bytes());
                f.extend([self.protocol, 64]);
                f.extend(s.octets());
                f.extend(d.octets());
                pseudo.extend(s.octets());
                pseudo.extend(d.octets());
            }
            _ => panic!("addresses of two versions"),
        }
        pseudo.extend([0, 17]);
        pseudo.extend(length.to_be_bytes());
        let partial = ones(&pseudo) as u16;
        pseudo.extend(&udp);
        let whole = match !(ones(&pseudo) as u16) {
            0 => 0xffff,
            sum => sum,
        };
        let field = match self.checksum {
            ChecksumField::Right => whole,
            ChecksumField::None => 0,
            ChecksumField::Partial => partial,
            // Neither 0 nor one of the two right ones.
            ChecksumField::Wrong => (1..).find(|n| *n != whole && *n != partial).unwrap(),
        };
        udp[6..8].copy_from_slice(&field.to_be_bytes());
        f.extend(udp);
        f.extend(vec![0xAA; self.padding]);
        f
    }
}
