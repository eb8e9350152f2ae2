//! What comes in at a link: ARP, echo requests, and segments for its streams.

use fullcount_stcp::neighbour::answer;
use fullcount_stcp::wire::icmp::Icmp;
use fullcount_stcp::wire::{ChecksumTrust, Packet, WireError, arp, ip, parse};

use super::batch::Body;
use super::frame::{self, Kind};
use super::{MOST_BYTES, RawError, RawLink};

/// Echo requests answered in a second, and the longest, bytes of IP.
const ECHOES: u32 = 100;
const LONGEST_ECHO: usize = 1500;

/// Answers so far in this second.
#[derive(Debug, Default)]
pub(super) struct Echoes {
    second: u64,
    used: u32,
}

impl RawLink {
    pub(super) fn receive(&mut self) -> Result<usize, RawError> {
        let came = self.port.receive()?;
        let mut frame = std::mem::take(&mut self.scratch);
        for i in 0..came {
            self.counters.received += 1;
            match (self.port.copy(i, &mut frame), &mut self.ways[1]) {
                (false, _) => self.counters.malformed += 1,
                (true, None) => self.frame(&frame),
                (true, Some(way)) => {
                    let mut out = vec![];
                    way.pass(&frame, &mut out);
                    out.iter().for_each(|frame| self.frame(frame));
                }
            }
        }
        self.scratch = frame;
        Ok(came)
    }

    fn frame(&mut self, noted: &[u8]) {
        let Some((kind, trust, packet)) = frame::read(noted, self.mac) else {
            self.counters.others += 1;
            return;
        };
        if let Some(file) = &mut self.file
            && !file.put(&[noted])
        {
            self.counters.not_recorded += 1;
        }
        match kind {
            Kind::Arp => match arp::read(packet) {
                Ok(arp) => self.arp(&arp),
                Err(_) => self.counters.malformed += 1,
            },
            Kind::Ip => self.packet(noted, trust, packet),
        }
    }

    fn packet(&mut self, noted: &[u8], trust: ChecksumTrust, packet: &[u8]) {
        let now = self.now();
        match parse(packet, self.setup.address, trust) {
            Ok(Packet::Tcp { from, ports, segment }) => {
                match self.stream_of(ports.1, (from, ports.0)) {
                    Some(at) => self.streams[at].sender.receive(now, &segment),
                    None => self.counters.strays += 1,
                }
            }
            Ok(Packet::Icmp { message: Icmp::Error { kind, ports, remote, seq }, .. }) => {
                if let Some(at) = self.stream_of(ports.0, (remote, ports.1)) {
                    self.streams[at].sender.icmp(now, kind, seq);
                }
            }
            Ok(Packet::Icmp { from, message: Icmp::Echo }) => self.echo(noted, from, packet),
            Ok(Packet::Icmp { .. }) | Err(WireError::OtherAddress | WireError::OtherProtocol) => {
                self.counters.others += 1;
            }
            // Of a connection of ours or of nobody's: its ports cannot be trusted.
            Err(_) => self.counters.malformed += 1,
        }
    }

    /// The stream of a local port, if it is that of this peer.
    fn stream_of(&self, local: u16, remote: ([u8; 4], u16)) -> Option<usize> {
        let at = *self.ports.get(&local)?;
        let ends = &self.streams[at].ends;
        ((ends.remote, ends.remote_port) == remote).then_some(at)
    }

    /// Answers an echo request to whom it came from, with the same bytes.
    fn echo(&mut self, noted: &[u8], from: [u8; 4], packet: &[u8]) {
        let second = self.now() / 1_000_000_000;
        if second != self.echoes.second {
            self.echoes = Echoes { second, used: 0 };
        }
        let total = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
        let header = usize::from(packet[0] & 15) * 4;
        self.echoes.used += 1;
        let room = self.batch.open(MOST_BYTES) && self.echoes.used <= ECHOES;
        let source = noted.get(frame::SOURCE).and_then(|mac| mac.try_into().ok());
        let (Some(source), Some(body), true) = (source, packet.get(header..total), room) else {
            return;
        };
        if total > LONGEST_ECHO {
            return;
        }
        let mut body = body.to_vec();
        // Type 0; the sum of the rest is smaller by the type's 8 (RFC 1624).
        body[0] = 0;
        let (sum, over) = u16::from_be_bytes([body[2], body[3]]).overflowing_add(0x0800);
        body[2..4].copy_from_slice(&(sum + u16::from(over)).to_be_bytes());
        self.id = self.id.wrapping_add(1);
        let ip = ip::header(self.setup.address, from, 1, self.id, body.len());
        let (mac, length) = (self.mac, body.len());
        let place = self.batch.next();
        place.head.ip((source, mac), &ip);
        place.body = Body::Own(body);
        self.batch.push(length);
        self.counters.echoes += 1;
    }

    fn arp(&mut self, arp: &arp::Arp) {
        let now = self.now();
        let mut reply = answer((self.mac, self.setup.address), arp);
        for neighbour in &mut self.neighbours {
            reply = neighbour.receive(now, arp).or(reply);
        }
        // A full batch: the peer asks again.
        if let Some((to, arp)) = reply
            && self.batch.open(MOST_BYTES)
        {
            self.make_arp(to, &arp);
        }
    }
}
