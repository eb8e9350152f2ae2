//! Frames with the kernel's note: what is written into them, and what of them is for us.

use fullcount_stcp::Outbound;
use fullcount_stcp::wire::arp::{self, Arp};
use fullcount_stcp::wire::checksum::Sum;
use fullcount_stcp::wire::{Addresses, ChecksumTrust, ip};

use crate::frames::NOTE;

/// Header of Ethernet, bytes.
pub(super) const ETHERNET: usize = 14;
/// Where the MAC address of the sender stands in a noted frame.
pub(super) const SOURCE: std::ops::Range<usize> = NOTE + 6..NOTE + 12;
const IPV4: [u8; 2] = [8, 0];
const ARP: [u8; 2] = [8, 6];
/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`: the checksum is to be completed.
const NEEDS_CSUM: u8 = 1;
/// `VIRTIO_NET_HDR_GSO_TCPV4`.
const GSO_TCPV4: u8 = 1;

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Arp,
    Ip,
}

/// What is in a noted frame, if it is for this MAC address or for all.
pub(super) fn read(noted: &[u8], own: [u8; 6]) -> Option<(Kind, ChecksumTrust, &[u8])> {
    let (note, frame) = noted.split_at_checked(NOTE)?;
    let (header, packet) = frame.split_at_checked(ETHERNET)?;
    let broadcast = header[..6] == [0xff; 6];
    if header[..6] != own && !broadcast {
        return None;
    }
    // The kernel of this host completes a checksum only where a frame leaves it.
    let trust =
        if note[0] & NEEDS_CSUM != 0 { ChecksumTrust::Partial } else { ChecksumTrust::Check };
    match [header[12], header[13]] {
        ARP => Some((Kind::Arp, trust, packet)),
        IPV4 if !broadcast => Some((Kind::Ip, trust, packet)),
        _ => None,
    }
}

/// Note and headers of a frame.
#[derive(Debug, Clone)]
pub(super) struct Head {
    bytes: [u8; NOTE + ETHERNET + ip::HEADERS],
    length: usize,
}

impl Default for Head {
    fn default() -> Head {
        Head { bytes: [0; NOTE + ETHERNET + ip::HEADERS], length: 0 }
    }
}

impl Head {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn begin(&mut self, note: [u8; NOTE], to: [u8; 6], from: [u8; 6], kind: [u8; 2]) {
        self.length = 0;
        self.put(&note);
        self.put(&to);
        self.put(&from);
        self.put(&kind);
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    /// The note only, of a frame whose headers stand elsewhere.
    pub fn note(&mut self, note: &[u8]) {
        self.length = 0;
        self.put(&note[..note.len().min(NOTE)]);
    }

    /// ARP to `to`: all of the frame.
    pub fn arp(&mut self, to: [u8; 6], from: [u8; 6], packet: &Arp) {
        self.begin([0; NOTE], to, from, ARP);
        self.put(&arp::write(packet));
    }

    /// Headers of an IP packet. `ways`: MAC address of neighbour and own.
    pub fn ip(&mut self, ways: ([u8; 6], [u8; 6]), header: &[u8]) {
        self.begin([0; NOTE], ways.0, ways.1, IPV4);
        self.put(header);
    }

    /// Headers of a segment, or of several as one. `partial`: its checksum is left to the kernel. `ways`: as above.
    pub fn segment(
        &mut self,
        ways: ([u8; 6], [u8; 6]),
        ends: &Addresses,
        id: u16,
        segment: &Outbound,
        payload: (&[u8], &[u8]),
        partial: bool,
    ) {
        let mut headers = [0; ip::HEADERS];
        let length = ip::write(&mut headers, ends, id, segment, payload, partial);
        let mut note = [0; NOTE];
        if partial {
            note[0] = NEEDS_CSUM;
            let mut word =
                |at: usize, value: u16| note[at..at + 2].copy_from_slice(&value.to_ne_bytes());
            // Where the sum begins, and where it goes: behind Ethernet and IP, at byte 16 of TCP.
            word(6, (ETHERNET + 20) as u16);
            word(8, 16);
            if segment.length > u32::from(segment.mss) {
                word(2, (ETHERNET + length) as u16);
                word(4, segment.mss);
                note[1] = GSO_TCPV4;
            }
        }
        self.begin(note, ways.0, ways.1, IPV4);
        self.put(&headers[..length]);
    }
}

/// Completes the checksum of a noted frame that leaves it to the kernel, as the wire would show it.
pub(super) fn complete(noted: &mut [u8]) {
    let Some((note, frame)) = noted.split_at_mut_checked(NOTE) else { return };
    if note[0] & NEEDS_CSUM == 0 {
        return;
    }
    let word = |at: usize| usize::from(u16::from_ne_bytes([note[at], note[at + 1]]));
    let (start, at) = (word(6), word(6) + word(8));
    // The field holds the sum of the pseudo header.
    let Some(sum) = frame.get(start..).map(|b| Sum::default().with(b).finish()) else { return };
    if let Some(field) = frame.get_mut(at..at + 2) {
        field.copy_from_slice(&sum.to_be_bytes());
    }
    note[0] &= !NEEDS_CSUM;
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullcount_stcp::sender::Purpose;
    use fullcount_stcp::wire::TcpFlags;

    const OWN: [u8; 6] = [2, 0, 10, 77, 0, 1];

    #[test]
    fn a_unit_of_several_segments_says_how_it_is_cut() {
        let ends = Addresses {
            local: [10, 77, 0, 1],
            remote: [10, 77, 0, 2],
            local_port: 10,
            remote_port: 5000,
        };
        let mut segment = Outbound {
            purpose: Purpose::Data,
            seq: 1,
            ack: 2,
            flags: TcpFlags::ACK,
            window: 3,
            options: None,
            offset: 0,
            length: 2920,
            mss: 1460,
        };
        let payload = vec![7; 2920];
        let peer = [2, 0, 0, 0, 0, 9];
        let mut head = Head::default();
        head.segment((peer, OWN), &ends, 1, &segment, (&payload[..3], &payload[3..]), true);
        let frame = head.bytes();
        let word = |at: usize| u16::from_ne_bytes([frame[at], frame[at + 1]]);
        assert_eq!((frame[0], frame[1]), (1, 1));
        assert_eq!([2, 4, 6, 8].map(word), [54, 1460, 34, 16]);
        assert_eq!(frame.len(), NOTE + 54);
        assert_eq!(frame[NOTE..NOTE + 14], [&peer[..], &OWN, &[8, 0]].concat());
        segment.length = 1460;
        head.segment((peer, OWN), &ends, 1, &segment, (&payload[..1460], &[]), true);
        let mut partial = [head.bytes(), &payload[..1460]].concat();
        assert_eq!((partial[0], partial[1]), (1, 0));
        head.segment((peer, OWN), &ends, 1, &segment, (&payload[..1460], &[]), false);
        let whole = [head.bytes(), &payload[..1460]].concat();
        assert_eq!((whole[0], whole[1]), (0, 0));
        assert_ne!(whole[NOTE..], partial[NOTE..]);
        complete(&mut partial);
        assert_eq!(whole[NOTE..], partial[NOTE..], "as if it had been computed at once");
        for cut in 0..NOTE + 54 {
            complete(&mut head.bytes()[..cut].to_vec());
        }
    }

    #[test]
    fn frames_for_others_are_not_ours() {
        let arp = Arp { request: true, sender: ([2; 6], [1; 4]), target: ([0; 6], [2; 4]) };
        let mut head = Head::default();
        head.arp([0xff; 6], [2; 6], &arp);
        let mut frame = head.bytes().to_vec();
        assert!(
            matches!(read(&frame, OWN), Some((Kind::Arp, ChecksumTrust::Check, p)) if p.len() == 28)
        );
        frame[NOTE..NOTE + 6].copy_from_slice(&[2, 1, 1, 1, 1, 1]);
        assert!(read(&frame, OWN).is_none());
        frame[NOTE..NOTE + 6].copy_from_slice(&OWN);
        frame[0] = NEEDS_CSUM;
        assert!(matches!(read(&frame, OWN), Some((Kind::Arp, ChecksumTrust::Partial, _))));
        for cut in 0..NOTE + ETHERNET {
            assert!(read(&frame[..cut], OWN).is_none());
        }
    }
}
