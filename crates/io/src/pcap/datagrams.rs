//! UDP datagrams of a capture, with fragments reassembled; everything else is counted by reason.
//!
//! Checksums are not checked: a capture taken on the sending host holds those that the network card fills in later. One
//! frame may hold a datagram longer than any packet on the wire (segmentation offload on the capturing host); it is
//! delivered unchanged. After the file's header everything is read; [`CaptureTally`] counts what is skipped.

use std::io::{self, Read};
use std::net::SocketAddr;
use std::ops::Range;

use fullcount_core::batch::Origin;
use fullcount_core::frame::reassembly::{
    Assembled, FragmentOutcome, Reassembler, ReassemblyLimits,
};
use fullcount_core::frame::{FrameRefusal, IpPacket, LinkLayer};

use super::read::{CaptureReader, CapturedFrame, ReadError, Tail};
pub use super::replayed::CaptureTally;
use super::url::Ip;

impl CaptureTally {
    /// Frames or datagrams that were not delivered, for every reason but fragments.
    pub fn skipped(&self) -> u64 {
        self.snapped
            + self.link_type
            + self.frame_short
            + self.not_ip
            + self.ip_version
            + self.ip_length
            + self.ip_extension
            + self.not_udp
            + self.udp_length
            + self.other_port
            + self.other_ip
    }

    /// Frames not accounted for: always 0. A reassembled datagram stands for its fragments.
    pub fn balance(&self) -> i128 {
        let [frames, fragments] = [self.frames, self.fragments].map(i128::from);
        let out = i128::from(self.datagrams) + i128::from(self.skipped());
        frames - fragments + i128::from(self.reassembled) - out
    }

    fn refuse(&mut self, refusal: FrameRefusal, snapped: bool) {
        let line = match refusal {
            FrameRefusal::Cut if snapped => &mut self.snapped,
            FrameRefusal::Cut => &mut self.frame_short,
            FrameRefusal::NotIp => &mut self.not_ip,
            FrameRefusal::Version => &mut self.ip_version,
            FrameRefusal::IpLength => &mut self.ip_length,
            FrameRefusal::Extension => &mut self.ip_extension,
            FrameRefusal::NotUdp => &mut self.not_udp,
            FrameRefusal::UdpLength => &mut self.udp_length,
            // Fragments go to the reassembler before anyone asks for UDP.
            FrameRefusal::Fragment => &mut self.fragments_refused,
        };
        *line += 1;
    }
}

/// One UDP datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapturedDatagram<'a> {
    /// Sender.
    pub origin: Origin,
    /// Receiver.
    pub destination: SocketAddr,
    /// Time of capture (of the frame that completed it), ns since 1970 UTC, if the file has one.
    pub time_ns: Option<i64>,
    /// Data.
    pub payload: &'a [u8],
}

enum Place {
    Frame(Range<usize>),
    Assembled(Range<usize>),
}

struct Found {
    origin: Origin,
    destination: SocketAddr,
    time_ns: Option<i64>,
    place: Place,
}

/// Reads the UDP datagrams of a capture.
#[derive(Debug)]
pub struct Datagrams<R> {
    reader: CaptureReader<R>,
    port: Option<u16>,
    ip: Ip,
    reassembler: Reassembler,
    assembled: Vec<u8>,
    last_ns: i64,
    tally: CaptureTally,
}

impl<R: Read> Datagrams<R> {
    /// All datagrams, or only those to the destination `port`.
    pub fn new(reader: CaptureReader<R>, port: Option<u16>) -> Datagrams<R> {
        Datagrams {
            reader,
            port,
            ip: Ip::Any,
            reassembler: Reassembler::new(ReassemblyLimits::default()),
            assembled: Vec::new(),
            last_ns: 0,
            tally: CaptureTally::default(),
        }
    }

    /// Opens a capture.
    pub fn open(inner: R, port: Option<u16>) -> Result<Datagrams<R>, ReadError> {
        CaptureReader::new(inner).map(|r| Datagrams::new(r, port))
    }

    /// Only these: what else the capture holds is left out, fragments are refused then.
    pub fn only(self, ip: Ip) -> Datagrams<R> {
        Datagrams { ip, ..self }
    }

    /// Counts so far; final once [`Datagrams::next`] has given `None`.
    pub fn tally(&self) -> CaptureTally {
        let r = self.reassembler.totals();
        CaptureTally {
            fragments: r.fragments + self.tally.fragments,
            fragments_used: r.used,
            fragments_refused: r.refused + r.duplicate + self.tally.fragments_refused,
            reassembled: r.datagrams,
            reassembly_incomplete: r.incomplete,
            blocks_skipped: self.reader.skipped_blocks(),
            truncated: u64::from(self.reader.tail() == Tail::Truncated),
            damaged: u64::from(self.reader.tail() == Tail::Damaged),
            ..self.tally
        }
    }

    /// The memory, to be used for another pass.
    pub fn into_buffer(self) -> Box<[u8]> {
        self.reader.into_buffer()
    }

    /// The next datagram, `None` at the end of the file.
    ///
    /// # Errors
    /// What the system reports while reading, and with [`Ip::PlainV4`] frames of other links.
    #[expect(clippy::should_implement_trait, reason = "a datagram borrows the buffer")]
    pub fn next(&mut self) -> io::Result<Option<CapturedDatagram<'_>>> {
        let found = loop {
            let Some(record) = self.reader.next()? else {
                self.reassembler.finish();
                return Ok(None);
            };
            self.tally.frames += 1;
            self.last_ns = record.time_ns.unwrap_or(self.last_ns);
            let into = &mut self.assembled;
            let r = &mut self.reassembler;
            let join = (self.ip == Ip::Any).then_some(r);
            if self.ip == Ip::PlainV4 && !is_plain(&record)? {
                self.tally.other_ip += 1;
                continue;
            }
            if let Some(found) = look(record, self.last_ns, join, into, &mut self.tally) {
                if self.port.is_none_or(|p| p == found.destination.port()) {
                    break found;
                }
                self.tally.other_port += 1;
            }
        };
        let payload = match found.place {
            Place::Frame(range) => &self.reader.last()[range],
            Place::Assembled(range) => &self.assembled[range],
        };
        self.tally.datagrams += 1;
        self.tally.bytes += payload.len() as u64;
        let Found { origin, destination, time_ns, .. } = found;
        Ok(Some(CapturedDatagram { origin, destination, time_ns, payload }))
    }
}

/// An untagged IPv4 packet. What is short is looked at, and refused, by [`look`].
///
/// # Errors
/// As in spead2: frames are neither of Ethernet nor of Linux cooked v1.
fn is_plain(record: &CapturedFrame<'_>) -> io::Result<bool> {
    // Where the number of the protocol stands.
    let at = match LinkLayer::from_number(record.link) {
        Some(LinkLayer::Ethernet) => 12,
        Some(LinkLayer::Cooked) => 14,
        _ => {
            let link = record.link;
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!(
                    "frames of link type {link}; ip=plain-v4 reads 1 (Ethernet) and 113 (Linux cooked v1)"
                ),
            ));
        }
    };
    Ok(record.frame.get(at..at + 2).is_none_or(|protocol| protocol == [8, 0]))
}

/// Finds the datagram that a frame is or completes; without a reassembler, only one that is whole and IPv4.
fn look(
    record: CapturedFrame<'_>,
    now_ns: i64,
    reassembler: Option<&mut Reassembler>,
    assembled: &mut Vec<u8>,
    tally: &mut CaptureTally,
) -> Option<Found> {
    let Some(link) = LinkLayer::from_number(record.link) else {
        tally.link_type += 1;
        return None;
    };
    let snapped = record.original > record.frame.len() as u64;
    let packet = match link.ip(record.frame) {
        Ok(packet) => packet,
        Err(refusal) => {
            tally.refuse(refusal, snapped);
            return None;
        }
    };
    let time_ns = record.time_ns;
    if reassembler.is_none() && packet.source.is_ipv6() {
        tally.other_ip += 1;
        return None;
    }
    let Some(fragment) = packet.fragment else {
        let found = match packet.udp() {
            Ok(udp) => Some(Found {
                origin: origin(&packet, udp.source_port),
                destination: SocketAddr::new(packet.destination, udp.destination_port),
                time_ns,
                place: Place::Frame(range_in(record.frame, udp.payload)),
            }),
            Err(refusal) => {
                tally.refuse(refusal, snapped);
                None
            }
        };
        return found;
    };
    let Some(reassembler) = reassembler else {
        tally.fragments += 1;
        tally.fragments_refused += 1;
        return None;
    };
    let FragmentOutcome::Complete(whole) = reassembler.accept(&packet, fragment, now_ns) else {
        return None; // counted by the reassembler
    };
    let found = match whole.udp() {
        Ok(udp) => {
            let origin = origin(&packet, udp.source_port);
            let destination = SocketAddr::new(packet.destination, udp.destination_port);
            let place = Place::Assembled(range_in(&whole.bytes, udp.payload));
            Some(Found { origin, destination, time_ns, place })
        }
        Err(refusal) => {
            tally.refuse(refusal, snapped);
            None
        }
    };
    let Assembled { bytes, .. } = whole;
    reassembler.give_back(std::mem::replace(assembled, bytes));
    found
}

fn origin(packet: &IpPacket<'_>, port: u16) -> Origin {
    Origin::from(SocketAddr::new(packet.source, port))
}

/// Where `part`, a piece of `whole`, is in it.
fn range_in(whole: &[u8], part: &[u8]) -> Range<usize> {
    let from = part.as_ptr() as usize - whole.as_ptr() as usize;
    from..from + part.len()
}

#[cfg(test)]
#[path = "datagrams_tests.rs"]
mod tests;
