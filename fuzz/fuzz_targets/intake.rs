//! Any bytes as the frames that come in at an interface with streams of the simplified TCP: ARP, VLAN tags, IPv4, ICMP and TCP for
//! several streams and for none. No panic; every frame is counted once; what leaves goes to one host, is well formed, lies in the
//! peer's window, and answers to strangers have a limit; buffers and batches do not grow.
//!
//! The first byte chooses settings; then come steps: what, and seven bytes of it. The peer's answers are made here, by the RFCs, with
//! fields that the input chooses; frames of any bytes take theirs from what follows the step.
#![no_main]

use fullcount_io::raw::{Driver, RawLink, RawSetup};
use fullcount_stcp::settings::PeerPolicy;
use fullcount_stcp::wire::checksum::{Sum, pseudo};
use fullcount_stcp::wire::{ChecksumTrust, Packet, TcpFlags, arp, ip, parse};
use fullcount_stcp::{Ended, Notice, StcpSettings};
use libfuzzer_sys::fuzz_target;

const OWN: [u8; 4] = [10, 0, 0, 9];
const OWN_MAC: [u8; 6] = [2, 0, 10, 0, 0, 9];
const PEER: [u8; 4] = [10, 0, 0, 2];
const PEER_MAC: [u8; 6] = [2, 0, 10, 0, 0, 2];
/// Bytes of the kernel's note, and of Ethernet.
const NOTE: usize = 10;
const ETHERNET: usize = 14;
const STREAMS: usize = 3;
const FIRST_PORT: u16 = 10;
const BUFFER: usize = 1 << 14;
/// Frames of a batch.
const BATCH: usize = 64;

/// A frame for the own address, its TCP checksum not computed yet, as frames of this host are.
fn framed(kind: [u8; 2], packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; NOTE];
    frame[0] = 1;
    frame.extend(OWN_MAC.iter().chain(&PEER_MAC).chain(&kind));
    frame.extend(packet);
    frame
}

/// What the peer knows: of each stream the number behind the last byte that it was sent.
type Behind = [u32; STREAMS + 1];

/// A segment: fields near those that fit, or anywhere.
fn segment(behind: &Behind, w: [u8; 7]) -> Vec<u8> {
    // A port of a stream, or of none.
    let at = usize::from(w[0]) % (STREAMS + 1);
    let ack = match w[1] >> 6 {
        0 | 1 => behind[at],
        2 => behind[at].wrapping_sub(u32::from(w[1]) * 40),
        _ => u32::from_be_bytes([w[1], w[2], w[3], w[4]]),
    };
    let seq = if w[2] < 200 { 1000 + u32::from(w[2] >> 6) } else { u32::from(w[3]) << 24 };
    let mut tcp = [5000u16.to_be_bytes(), (FIRST_PORT + at as u16).to_be_bytes()].concat();
    tcp.extend([seq.to_be_bytes(), ack.to_be_bytes()].concat());
    let options = usize::from(w[5] >> 5 & 3) * 4;
    tcp.extend([((20 + options) as u8 / 4) << 4, w[4]]);
    tcp.extend([w[5], w[6], 0, 0, 0, 0]);
    tcp.extend(&[2, 4, w[6], w[3], 1, 3, 3, w[5], w[0], w[1], w[2], w[3]][..options]);
    tcp.extend(vec![0; usize::from(w[3] & 1) * usize::from(w[6])]);
    let header = ip::header(PEER, OWN, 6, 1, tcp.len());
    framed([8, 0], &[&header[..], &tcp].concat())
}

/// ICMP that quotes a segment of a stream, or an echo request.
fn message(behind: &Behind, w: [u8; 7]) -> Vec<u8> {
    let at = usize::from(w[0]) % (STREAMS + 1);
    let mut icmp = vec![w[1] % 13, w[2] % 6, 0, 0, 0, 0, w[3], w[4]];
    icmp.extend(ip::header(OWN, PEER, 6, 1, 20));
    icmp.extend([FIRST_PORT + at as u16, 5000].map(u16::to_be_bytes).concat());
    icmp.extend(behind[at].wrapping_sub(u32::from(w[5])).to_be_bytes());
    let sum = Sum::default().with(&icmp).finish().to_be_bytes();
    icmp[2..4].copy_from_slice(&sum);
    framed([8, 0], &[&ip::header(PEER, OWN, 1, 1, icmp.len())[..], &icmp].concat())
}

/// ARP of the peer, or of somebody who has an address that is ours.
fn arp_of(w: [u8; 7]) -> Vec<u8> {
    let sender = if w[0] < 250 { PEER } else { OWN };
    let request = w[1] & 1 == 0;
    let mac = [PEER_MAC, [2, 0, 0, 0, 0, w[2]]][usize::from(w[2] > 200)];
    let about = arp::Arp { request, sender: (mac, sender), target: (OWN_MAC, OWN) };
    let mut frame = framed([8, 6], &arp::write(&about));
    if w[3] & 1 == 1 {
        frame[NOTE..NOTE + 6].fill(0xff);
    }
    frame
}

fn opened(choice: u8) -> RawLink {
    let setup = RawSetup {
        offload: choice & 1 == 0,
        gateway: (choice & 2 != 0).then_some(PEER),
        key: [1, 2],
        ..RawSetup::new("none", Driver::Packet, OWN)
    };
    let policy = if choice & 4 == 0 { PeerPolicy::Abort } else { PeerPolicy::Tolerate };
    let settings = StcpSettings {
        mtu: if choice & 8 == 0 { 9000 } else { 576 },
        on_fin: policy,
        on_data: policy,
        ..StcpSettings::daq()
    };
    let mut link = RawLink::in_memory(setup).expect("no fault");
    for n in 0..STREAMS as u16 {
        link.add((PEER, 5000), FIRST_PORT + n, settings, BUFFER).expect("it can be");
    }
    link
}

/// What a frame that leaves must be.
fn left(noted: &[u8], behind: &mut Behind) {
    let frame = &noted[NOTE..];
    let to_all = frame[..6] == [0xff; 6] && frame[12..14] == [8, 6];
    assert!(frame[0] & 1 == 0 || to_all, "only questions of ARP go to all");
    assert_eq!(frame[6..12], OWN_MAC);
    if frame[12..14] == [8, 6] {
        assert!(arp::read(&frame[ETHERNET..]).is_ok());
        return;
    }
    let packet = &frame[ETHERNET..];
    assert!(packet.len() <= 65_535);
    let to = [packet[16], packet[17], packet[18], packet[19]];
    assert!(!matches!(to[0], 0 | 127 | 224..), "{to:?}");
    // Of a unit of several segments the sum is completed by the kernel.
    let partial = noted[0] & 1 == 1;
    let trust = if partial { ChecksumTrust::Partial } else { ChecksumTrust::Check };
    let Packet::Tcp { from, segment, ports } = parse(packet, to, trust).expect("well formed")
    else {
        return;
    };
    assert_eq!(from, OWN);
    assert!(!segment.flags.has(TcpFlags::FIN));
    if partial {
        // What stands in the field is the sum of the pseudo header.
        let sum = pseudo(OWN, to, 6, packet.len() - 20).folded().to_be_bytes();
        assert_eq!(packet[36..38], sum);
    }
    let at = usize::from(ports.0.wrapping_sub(FIRST_PORT));
    if segment.length > 0 {
        assert!(at < STREAMS);
        assert_eq!((to, ports.1), (PEER, 5000), "data go to the peer alone");
    }
    if let Some(behind) = behind.get_mut(at) {
        *behind = segment.seq.wrapping_add(segment.span());
    }
}

/// The link, its clock, and what was seen of it.
struct Watched {
    link: RawLink,
    now: u64,
    came: u64,
    behind: Behind,
    /// The second of the clock, and the RSTs to strangers before it.
    resets: (u64, u64),
}

impl Watched {
    /// What must hold at any time.
    fn check(&mut self) {
        let frames = self.link.left();
        assert!(frames.len() <= 2 * BATCH, "{}", frames.len());
        frames.iter().for_each(|frame| left(frame, &mut self.behind));
        let counters = self.link.counters();
        assert!(counters.received <= self.came);
        let dropped = counters.others + counters.malformed;
        let taken = counters.delivered + counters.strays + counters.arp_received;
        let echoes = counters.echoes + counters.echoes_spared;
        assert_eq!(dropped + taken + echoes, counters.received);
        assert!(counters.dropped.iter().sum::<u64>() <= dropped);
        assert!(counters.stray_resets + counters.stray_resets_spared <= counters.strays);
        let second = self.now / 1_000_000_000;
        if second == self.resets.0 {
            assert!(counters.stray_resets - self.resets.1 <= 100);
        }
        for at in 0..STREAMS {
            let sender = self.link.stream(at).sender();
            let s = sender.snapshot();
            assert!(sender.used() <= BUFFER as u64);
            assert!(s.una <= s.nxt && s.nxt <= s.max && s.max <= s.end, "{s:?}");
            while let Some(notice) = self.link.notice(at) {
                assert!(notice != Notice::Aborted(Ended::Internal));
            }
        }
    }

    /// The frame comes so many times, and the link has its turns.
    fn turns(&mut self, frame: Option<&Vec<u8>>, copies: usize) {
        self.link.set_time(self.now);
        let second = self.now / 1_000_000_000;
        if second != self.resets.0 {
            self.resets = (second, self.link.counters().stray_resets);
        }
        for frame in frame.iter().flat_map(|frame| std::iter::repeat_n(*frame, copies)) {
            self.link.bring(frame.clone());
            self.came += 1;
        }
        loop {
            self.link.turn().expect("it is memory");
            self.check();
            if self.link.counters().received == self.came {
                break;
            }
        }
    }

    /// What is not a frame.
    fn call(&mut self, what: u8, w: [u8; 7]) {
        let (link, at) = (&mut self.link, usize::from(w[0]) % STREAMS);
        match what {
            7 => self.now += u64::from(u32::from_be_bytes([w[0], w[1], w[2], w[3]])),
            8 => drop(link.submit(at, &[what; 3000][..usize::from(w[1]) * 11 + 1])),
            9 => link.set_room(if w[1] & 1 == 0 { usize::MAX } else { usize::from(w[2] % 4) }),
            10 if w[1] == 0 => link.abort(at),
            10 => drop(link.open_again(at)),
            _ => link.flush(at),
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&choice, mut rest)) = input.split_first() else { return };
    let (now, came, behind, resets) = (0, 0, [0; STREAMS + 1], (0, 0));
    let mut watched = Watched { link: opened(choice), now, came, behind, resets };
    while let Some((step, behind)) = rest.split_first_chunk::<8>() {
        let &[what, w @ ..] = step;
        rest = behind;
        let mut frame = match what & 0x3f {
            0..24 => Some(segment(&watched.behind, w)),
            24..28 => Some(arp_of(w)),
            28..32 => Some(message(&watched.behind, w)),
            32..40 => {
                let (frame, behind) = rest.split_at(usize::from(w[0]).min(rest.len()));
                rest = behind;
                let kind = [[8, 0], [8, 6], [0x81, 0], [w[2], w[3]]][usize::from(w[1] & 3)];
                Some(if w[1] & 4 == 0 { framed(kind, frame) } else { frame.to_vec() })
            }
            other => {
                watched.call(7 + other % 5, w);
                None
            }
        };
        // A byte that is wrong somewhere, and the same frame again and again: a storm.
        if let Some(frame) = frame.as_mut().filter(|frame| what & 0x80 != 0 && !frame.is_empty()) {
            let at = usize::from(w[6]) % frame.len();
            frame[at] ^= w[5] | 1;
        }
        let copies = if what & 0x40 == 0 { 1 } else { 1 + usize::from(w[1] & 0x7f) };
        watched.turns(frame.as_ref(), copies);
    }
});
