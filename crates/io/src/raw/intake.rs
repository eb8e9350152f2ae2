//! What comes in at a link: ARP, echo requests, segments for its streams, and segments for none.

use fullcount_stcp::neighbour::{NeighbourState, answer};
use fullcount_stcp::sender::stray_reset;
use fullcount_stcp::wire::icmp::Icmp;
use fullcount_stcp::wire::{Addresses, ChecksumTrust, Inbound, Packet, WireError, arp, ip, parse};

use super::batch::Body;
use super::frame::{self, Kind};
use super::{MOST_BYTES, Neighbour, RawError, RawLink};

/// Echo requests answered in a second, and the longest, bytes of IP.
const ECHOES: u32 = 100;
const LONGEST_ECHO: usize = 1500;

/// RSTs for segments of no stream in a second.
const RESETS: u32 = 100;

/// Answers so far in this second.
#[derive(Debug, Default)]
pub(super) struct Answers {
    second: u64,
    used: u32,
}

impl Answers {
    /// One more is within the limit.
    fn allow(&mut self, now_ns: u64, limit: u32) -> bool {
        let second = now_ns / 1_000_000_000;
        if second != self.second {
            *self = Answers { second, used: 0 };
        }
        self.used = self.used.saturating_add(1);
        self.used <= limit
    }
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
        if let Some(file) = &mut self.file {
            let put = file.put(&[noted]);
            self.counters.recorded += u64::from(put);
            self.counters.not_recorded += u64::from(!put);
        }
        match kind {
            Kind::Arp => match arp::read(packet) {
                Ok(arp) => {
                    self.counters.arp_received += 1;
                    self.arp(&arp);
                }
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
                    Some(at) => {
                        self.counters.delivered += 1;
                        self.streams[at].sender.receive(now, &segment);
                    }
                    None => self.stray(noted, (from, ports), &segment),
                }
            }
            Ok(Packet::Icmp { message: Icmp::Error { kind, ports, remote, seq }, .. }) => {
                match self.stream_of(ports.0, (remote, ports.1)) {
                    Some(at) => {
                        self.counters.delivered += 1;
                        self.streams[at].sender.icmp(now, kind, seq);
                    }
                    None => self.counters.others += 1,
                }
            }
            Ok(Packet::Icmp { from, message: Icmp::Echo }) => {
                if self.echo(noted, from, packet) {
                    self.counters.echoes += 1;
                } else {
                    self.counters.echoes_spared += 1;
                }
            }
            Ok(Packet::Icmp { .. }) => self.counters.others += 1,
            // Of a connection of ours or of nobody's: its ports cannot be trusted.
            Err(error) => {
                self.counters.dropped[error as usize] += 1;
                match error {
                    WireError::OtherAddress | WireError::OtherProtocol => self.counters.others += 1,
                    _ => self.counters.malformed += 1,
                }
            }
        }
    }

    /// A segment of no stream is answered with an RST, so that a peer learns that what it holds is gone: a sender that was
    /// killed had that connection, or had more streams. RFC 9293 section 3.10.7.1, never in answer to an RST.
    fn stray(&mut self, noted: &[u8], from: ([u8; 4], (u16, u16)), segment: &Inbound) {
        self.counters.strays += 1;
        let (remote, (remote_port, local_port)) = from;
        // As long as the own address is not known to be ours alone, the segment may be for its other owner.
        let known = |n: &Neighbour| matches!(n.state(), NeighbourState::Known(_));
        let ours = self.neighbours.iter().any(known) && self.duplicate().is_none();
        let source = self.sole_source(noted, remote);
        let (Some(reset), Some(source), true) = (stray_reset(segment), source, ours) else {
            return;
        };
        let now = self.now();
        if !(self.batch.open(MOST_BYTES) && self.stray_resets.allow(now, RESETS)) {
            self.counters.stray_resets_spared += 1;
            return;
        }
        self.id = self.id.wrapping_add(1);
        let local = self.setup.address;
        let ends = Addresses { local, remote, local_port, remote_port };
        let (partial, mac) = (self.port.completes(), self.mac);
        let place = self.batch.next();
        place.head.segment((source, mac), &ends, self.id, &reset, (&[], &[]), partial);
        place.body = Body::None;
        self.batch.push(0);
        self.counters.stray_resets += 1;
    }

    /// The stream of a local port, if it is that of this peer.
    fn stream_of(&self, local: u16, remote: ([u8; 4], u16)) -> Option<usize> {
        let at = *self.ports.get(&local)?;
        let ends = &self.streams[at].ends;
        ((ends.remote, ends.remote_port) == remote).then_some(at)
    }

    /// Where an answer to this frame goes. None goes to many hosts or to ourselves (RFC 1122, sections 3.2.1.3 and 4.2.3.10).
    fn sole_source(&self, noted: &[u8], address: [u8; 4]) -> Option<[u8; 6]> {
        let one = !matches!(address[0], 0 | 127 | 224..) && address != self.setup.address;
        let mac: [u8; 6] = noted.get(frame::SOURCE)?.try_into().ok()?;
        (one && mac[0] & 1 == 0).then_some(mac)
    }

    /// Answers an echo request to whom it came from, with the same bytes; false: not this one.
    fn echo(&mut self, noted: &[u8], from: [u8; 4], packet: &[u8]) -> bool {
        let now = self.now();
        let total = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
        let header = usize::from(packet[0] & 15) * 4;
        let allowed = self.echoes.allow(now, ECHOES);
        let room = self.batch.open(MOST_BYTES) && allowed;
        let source = self.sole_source(noted, from);
        let (Some(source), Some(body), true) = (source, packet.get(header..total), room) else {
            return false;
        };
        if total > LONGEST_ECHO {
            return false;
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
        true
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

#[cfg(test)]
#[path = "intake_tests.rs"]
mod tests;
