//! Trains as pcapng blocks: one frame a datagram, with synthetic headers.
//!
//! Works on a buffer that is written out in large pieces; headers of the last route are kept, since trains follow each
//! other by sender. 9.5 million datagrams of 64 B a second leave 100 ns each. Data that is too long for a datagram
//! never gets here. Sources: draft-ietf-opsawg-pcapng (4.1 to 4.3, 4.6), RFC 791, 768, 8200.

use std::net::IpAddr;

use fullcount_core::batch::{Origin, Train};
use fullcount_core::frame::emit::hardware_address;

use crate::dissect::checksum::{fold, sum};

/// Longest payload that a UDP datagram over IPv4 can have; over IPv6 20 B more.
pub(super) const LONGEST: usize = 65_507;

const UDP: u8 = 17;
const ETHERNET: usize = 14;

/// Headers of one pair of addresses, lengths and checksums left out.
#[derive(Debug, Clone)]
struct Headers {
    origin: Origin,
    to: Origin,
    bytes: [u8; 62],
    /// Bytes in use: 42 for IPv4, 62 for IPv6.
    len: usize,
    /// Sum of the IPv4 header so far.
    ip: u64,
    /// Sum of addresses, protocol and ports.
    udp: u64,
}

impl Headers {
    fn new(origin: Origin, to: Origin) -> Headers {
        let (from, to_ip) = (origin.addr(), to.addr());
        let mut bytes = [0; 62];
        bytes[..6].copy_from_slice(&hardware_address(to_ip));
        bytes[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
        let len = match (from, to_ip) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                bytes[12..14].copy_from_slice(&0x0800u16.to_be_bytes());
                bytes[14] = 0x45;
                bytes[22..24].copy_from_slice(&[64, UDP]);
                bytes[26..30].copy_from_slice(&from.octets());
                bytes[30..34].copy_from_slice(&to.octets());
                42
            }
            _ => {
                bytes[12..14].copy_from_slice(&0x86ddu16.to_be_bytes());
                bytes[14] = 0x60;
                bytes[20..22].copy_from_slice(&[UDP, 64]);
                bytes[22..38].copy_from_slice(&origin.ip);
                bytes[38..54].copy_from_slice(&to.ip);
                62
            }
        };
        bytes[len - 8..len - 6].copy_from_slice(&origin.port.to_be_bytes());
        bytes[len - 6..len - 4].copy_from_slice(&to.port.to_be_bytes());
        let ip = if len == 42 { u64::from(sum(&bytes[ETHERNET..34])) } else { 0 };
        let addresses = if len == 42 { 26..34 } else { 22..54 };
        let udp = u64::from(sum(&bytes[addresses])) + u64::from(UDP);
        let udp = udp + u64::from(origin.port) + u64::from(to.port);
        Headers { origin, to, bytes, len, ip, udp }
    }

    /// The headers for a payload.
    #[inline]
    fn fill(&mut self, payload: &[u8], ident: u16) -> &[u8] {
        let len = self.len;
        let length = (8 + payload.len()) as u16;
        // Header and length of UDP, and the length in the pseudo header.
        let all = self.udp + 2 * u64::from(length) + u64::from(sum(payload));
        // 0 means "no checksum", so a sum of 0 is sent as its other form.
        let checksum = match !fold(all) {
            0 => 0xffff,
            c => c,
        };
        let b = &mut self.bytes;
        b[len - 4..len - 2].copy_from_slice(&length.to_be_bytes());
        b[len - 2..len].copy_from_slice(&checksum.to_be_bytes());
        if len == 42 {
            let total = 20 + length;
            b[16..18].copy_from_slice(&total.to_be_bytes());
            b[18..20].copy_from_slice(&ident.to_be_bytes());
            let checksum = !fold(self.ip + u64::from(total) + u64::from(ident));
            b[24..26].copy_from_slice(&checksum.to_be_bytes());
        } else {
            b[18..20].copy_from_slice(&length.to_be_bytes());
        }
        &self.bytes[..len]
    }
}

/// Makes pcapng of trains.
#[derive(Debug)]
pub(super) struct Frames {
    headers: Headers,
    ident: u16,
    out: Vec<u8>,
}

impl Frames {
    /// `capacity`: bytes that are usually collected before they are written out.
    pub(super) fn new(capacity: usize) -> Frames {
        let headers = Headers::new(Origin::NONE, Origin::NONE);
        Frames { headers, ident: 0, out: Vec::with_capacity(capacity) }
    }

    /// What is made and not yet written out.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.out
    }

    pub(super) fn clear(&mut self) {
        self.out.clear();
    }

    /// Bytes that a datagram takes in the file at most.
    pub(super) fn size(payload: usize) -> u64 {
        (32 + 16 + 62 + payload + 3) as u64
    }

    /// The head of a file: a section, and an interface for each worker, named after its endpoint.
    pub(super) fn head(&mut self, interfaces: &[String]) {
        let software = concat!("Fullcount ", env!("CARGO_PKG_VERSION"));
        let mut body = Vec::new();
        body.extend_from_slice(&0x1a2b_3c4du32.to_le_bytes());
        body.extend_from_slice(&[1, 0, 0, 0]);
        body.extend_from_slice(&u64::MAX.to_le_bytes()); // section length not known
        option(&mut body, 4, software.as_bytes());
        option(&mut body, 0, &[]);
        self.block(0x0a0d_0d0a, &body);
        for name in interfaces {
            let mut body = Vec::new();
            // Ethernet, no snap length, times in ns (if_tsresol 9).
            body.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0]);
            option(&mut body, 2, name.as_bytes());
            option(&mut body, 3, b"payloads as received; link, IP and UDP headers made up");
            option(&mut body, 9, &[9]);
            option(&mut body, 12, software.as_bytes());
            option(&mut body, 0, &[]);
            self.block(1, &body);
        }
    }

    /// What became of an interface's packets so far: captured, and not captured.
    pub(super) fn statistics(&mut self, interface: u32, time_ns: i64, (got, lost): (u64, u64)) {
        let ns = u64::try_from(time_ns).unwrap_or(0);
        let mut body = Vec::new();
        body.extend_from_slice(&interface.to_le_bytes());
        body.extend_from_slice(&((ns >> 32) as u32).to_le_bytes());
        body.extend_from_slice(&(ns as u32).to_le_bytes());
        option(&mut body, 4, &(got.saturating_add(lost)).to_le_bytes());
        option(&mut body, 5, &lost.to_le_bytes());
        option(&mut body, 0, &[]);
        self.block(5, &body);
    }

    /// A comment on the first interface, of at most 65,535 bytes.
    pub(super) fn comment(&mut self, time_ns: i64, text: &str) {
        let ns = u64::try_from(time_ns).unwrap_or(0);
        let mut body = vec![0; 4];
        body.extend_from_slice(&((ns >> 32) as u32).to_le_bytes());
        body.extend_from_slice(&(ns as u32).to_le_bytes());
        option(&mut body, 1, text.as_bytes());
        option(&mut body, 0, &[]);
        self.block(5, &body);
    }

    fn block(&mut self, kind: u32, body: &[u8]) {
        let len = (12 + body.len()) as u32;
        self.out.extend_from_slice(&kind.to_le_bytes());
        self.out.extend_from_slice(&len.to_le_bytes());
        self.out.extend_from_slice(body);
        self.out.extend_from_slice(&len.to_le_bytes());
    }

    /// Adds one datagram of a train. `lost`: packets not captured just before it.
    #[inline]
    pub(super) fn datagram(
        &mut self,
        interface: u32,
        train: &Train<'_>,
        to: Origin,
        payload: &[u8],
        lost: u64,
    ) {
        if self.headers.origin != train.origin || self.headers.to != to {
            self.headers = Headers::new(train.origin, to);
        }
        self.ident = self.ident.wrapping_add(1);
        // Times before 1970 do not come from a clock.
        let ns = u64::try_from(train.time_ns).unwrap_or(0);
        let headers = self.headers.fill(payload, self.ident);
        let captured = headers.len() + payload.len();
        let padded = captured.next_multiple_of(4);
        let options = if lost > 0 { 16 } else { 0 };
        let size = (32 + padded + options) as u32;
        let mut head = [0u8; 28];
        let words =
            [6, size, interface, (ns >> 32) as u32, ns as u32, captured as u32, captured as u32];
        for (place, word) in head.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let out = &mut self.out;
        out.reserve(size as usize);
        out.extend_from_slice(&head);
        out.extend_from_slice(headers);
        out.extend_from_slice(payload);
        out.extend_from_slice(&[0; 3][..padded - captured]);
        if lost > 0 {
            // epb_dropcount, and the end of options.
            out.extend_from_slice(&[4, 0, 8, 0]);
            out.extend_from_slice(&lost.to_le_bytes());
            out.extend_from_slice(&[0; 4]);
        }
        out.extend_from_slice(&size.to_le_bytes());
    }
}

/// Appends an option of a pcapng block, padded; code 0 ends them.
fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&(value.len() as u16).to_le_bytes());
    out.extend_from_slice(value);
    out.resize(out.len().next_multiple_of(4), 0);
}
