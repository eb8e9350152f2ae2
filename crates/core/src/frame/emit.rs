//! UDP datagrams as Ethernet frames, with right lengths and checksums, split into fragments if they are
//! longer than the MTU.
//!
//! Frames have synthetic hardware addresses (multicast and broadcast ones if the destination is one) and are
//! not padded to 60 bytes, as frames captured on their sender are not. Refuses: addresses of two IP versions,
//! payloads above 65,507 B (IPv4) or 65,527 B (IPv6), an MTU below 68 (IPv4) or 1280 (IPv6). Sources: RFC
//! 791, 768, 8200, 1112, 2464.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::udp::{PROTOCOL, fold, pseudo_header, sum};

/// Why a datagram cannot be sent as frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum EmitError {
    /// IPv4 and IPv6 do not mix.
    #[error("source {source_ip} and destination {destination} are of two IP versions")]
    Families { source_ip: IpAddr, destination: IpAddr },
    /// Longer than a UDP datagram can be.
    #[error("payload of {bytes} B is above the {limit} B of a UDP datagram")]
    TooLong { bytes: usize, limit: usize },
    /// No room for data beside the headers.
    #[error("MTU of {mtu} B is below the {limit} B that every link must carry")]
    Mtu { mtu: usize, limit: usize },
}

/// From where to where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Sender.
    pub source: SocketAddr,
    /// Receiver, of the same IP version.
    pub destination: SocketAddr,
    /// VLAN number 0..=4095; higher bits are cut off.
    pub vlan: Option<u16>,
}

/// Makes frames; keeps its memory.
#[derive(Debug, Default)]
pub struct Emitter {
    mtu: Option<usize>,
    ident: u32,
    datagram: Vec<u8>,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Emitter {
    /// `mtu`: longest IP packet in bytes, headers included; `None` splits nothing.
    pub fn new(mtu: Option<usize>) -> Emitter {
        Emitter { mtu, ..Emitter::default() }
    }

    /// The frames of one datagram, in order.
    pub fn udp(
        &mut self,
        route: &Route,
        payload: &[u8],
    ) -> Result<impl ExactSizeIterator<Item = &[u8]>, EmitError> {
        let (source, destination) = (route.source.ip(), route.destination.ip());
        let (limit, smallest, header) = match (source, destination) {
            (IpAddr::V4(_), IpAddr::V4(_)) => (65_507, 68, 20),
            (IpAddr::V6(_), IpAddr::V6(_)) => (65_527, 1280, 40),
            _ => return Err(EmitError::Families { source_ip: source, destination }),
        };
        if payload.len() > limit {
            return Err(EmitError::TooLong { bytes: payload.len(), limit });
        }
        if let Some(mtu) = self.mtu.filter(|&mtu| mtu < smallest) {
            return Err(EmitError::Mtu { mtu, limit: smallest });
        }
        self.fill_datagram(route, payload);
        self.bytes.clear();
        self.ends.clear();
        self.ident = self.ident.wrapping_add(1);
        let mtu = self.mtu.unwrap_or(usize::MAX);
        let datagram = std::mem::take(&mut self.datagram);
        if header + datagram.len() <= mtu {
            self.frame(route, &datagram, None);
        } else {
            let extension = if header == 40 { 8 } else { 0 };
            let step = (mtu - header - extension) & !7;
            let count = datagram.len().div_ceil(step);
            for (k, part) in datagram.chunks(step).enumerate() {
                self.frame(route, part, Some((k * step, k + 1 < count)));
            }
        }
        self.datagram = datagram;
        let (bytes, ends) = (&self.bytes, &self.ends);
        Ok((0..ends.len()).map(move |k| {
            let start = if k == 0 { 0 } else { ends[k - 1] };
            &bytes[start..ends[k]]
        }))
    }

    fn fill_datagram(&mut self, route: &Route, payload: &[u8]) {
        let d = &mut self.datagram;
        d.clear();
        let length = 8 + payload.len();
        d.extend_from_slice(&route.source.port().to_be_bytes());
        d.extend_from_slice(&route.destination.port().to_be_bytes());
        d.extend_from_slice(&(length as u16).to_be_bytes());
        d.extend_from_slice(&[0, 0]);
        d.extend_from_slice(payload);
        let pseudo = pseudo_header(route.source.ip(), route.destination.ip(), length);
        // 0 means "no checksum", so a sum of 0 is sent as its other form.
        let checksum = match !fold(sum(pseudo, d)) {
            0 => 0xffff,
            c => c,
        };
        d[6..8].copy_from_slice(&checksum.to_be_bytes());
    }

    /// Appends one frame; `part` is (offset, more fragments follow).
    fn frame(&mut self, route: &Route, body: &[u8], part: Option<(usize, bool)>) {
        let out = &mut self.bytes;
        out.extend_from_slice(&hardware_address(route.destination.ip()));
        out.extend_from_slice(&[2, 0, 0, 0, 0, 1]);
        if let Some(vlan) = route.vlan {
            out.extend_from_slice(&0x8100u16.to_be_bytes());
            out.extend_from_slice(&(vlan & 0x0fff).to_be_bytes());
        }
        match (route.source.ip(), route.destination.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                out.extend_from_slice(&0x0800u16.to_be_bytes());
                ipv4(out, source, destination, self.ident as u16, body, part);
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                out.extend_from_slice(&0x86ddu16.to_be_bytes());
                ipv6(out, source, destination, self.ident, body, part);
            }
            // `udp` has refused these.
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => {}
        }
        self.ends.push(self.bytes.len());
    }
}

fn ipv4(
    out: &mut Vec<u8>,
    source: Ipv4Addr,
    destination: Ipv4Addr,
    ident: u16,
    body: &[u8],
    part: Option<(usize, bool)>,
) {
    let (offset, more) = part.unwrap_or((0, false));
    let place = (offset / 8) as u16 | if more { 0x2000 } else { 0 };
    let mut h = [0u8; 20];
    h[0] = 0x45;
    h[2..4].copy_from_slice(&((20 + body.len()) as u16).to_be_bytes());
    h[4..6].copy_from_slice(&ident.to_be_bytes());
    h[6..8].copy_from_slice(&place.to_be_bytes());
    h[8] = 64;
    h[9] = PROTOCOL;
    h[12..16].copy_from_slice(&source.octets());
    h[16..20].copy_from_slice(&destination.octets());
    let checksum = !fold(sum(0, &h));
    h[10..12].copy_from_slice(&checksum.to_be_bytes());
    out.extend_from_slice(&h);
    out.extend_from_slice(body);
}

fn ipv6(
    out: &mut Vec<u8>,
    source: Ipv6Addr,
    destination: Ipv6Addr,
    ident: u32,
    body: &[u8],
    part: Option<(usize, bool)>,
) {
    let length = body.len() + if part.is_some() { 8 } else { 0 };
    out.extend_from_slice(&[0x60, 0, 0, 0]);
    out.extend_from_slice(&(length as u16).to_be_bytes());
    out.extend_from_slice(&[if part.is_some() { 44 } else { PROTOCOL }, 64]);
    out.extend_from_slice(&source.octets());
    out.extend_from_slice(&destination.octets());
    if let Some((offset, more)) = part {
        out.extend_from_slice(&[PROTOCOL, 0]);
        out.extend_from_slice(&(offset as u16 | u16::from(more)).to_be_bytes());
        out.extend_from_slice(&ident.to_be_bytes());
    }
    out.extend_from_slice(body);
}

/// A made-up hardware address; the right one of a group, and of everybody.
pub fn hardware_address(ip: IpAddr) -> [u8; 6] {
    match ip {
        IpAddr::V4(a) if a.is_broadcast() => [0xff; 6],
        IpAddr::V4(a) if a.is_multicast() => {
            let [_, b, c, d] = a.octets();
            [0x01, 0x00, 0x5e, b & 0x7f, c, d]
        }
        IpAddr::V6(a) if a.is_multicast() => {
            let [.., w, x, y, z] = a.octets();
            [0x33, 0x33, w, x, y, z]
        }
        _ => [2, 0, 0, 0, 0, 2],
    }
}
