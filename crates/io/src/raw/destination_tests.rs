//! The signal of back-pressure from the stream to the source, over a link in memory whose time is told.

use fullcount_core::destination::PacketNumbers;
use fullcount_stcp::neighbour::answer;
use fullcount_stcp::sender::{Outbound, Purpose};
use fullcount_stcp::wire::arp::Arp;
use fullcount_stcp::wire::{Addresses, ChecksumTrust, Packet, TcpFlags, parse};

use super::super::measured::undelivered;
use super::*;
use crate::frames::NOTE;
use crate::raw::Driver;
use crate::raw::frame::{ETHERNET, Head};

const OWN: ([u8; 6], [u8; 4]) = ([2, 0, 10, 0, 0, 9], [10, 0, 0, 9]);
const PEER: ([u8; 6], [u8; 4]) = ([2, 0, 10, 0, 0, 2], [10, 0, 0, 2]);
const SECOND: u64 = 1_000_000_000;
const BUFFER: usize = 1 << 16;
/// 7/8 and 1/2 of the buffer.
const HIGH: u64 = 57_344;
const LOW: u64 = 32_768;
const PACKET: usize = 1000;

/// A lane whose streams end in a peer that acknowledges when it is told to.
struct Rig {
    link: RawLink,
    lane: Lane,
    source: StcpSendLane,
    /// Of each stream: next byte expected, and what came.
    came: Vec<(u32, Vec<u8>)>,
}

impl Rig {
    fn new(streams: u16) -> Rig {
        Rig::with(streams, false)
    }

    fn with(streams: u16, offload: bool) -> Rig {
        let setup = RawSetup { offload, ..RawSetup::new("none", Driver::Packet, OWN.1) };
        let mut link = RawLink::in_memory(setup).unwrap();
        let text = "stcp://10.0.0.2:5000?interface=none&address=10.0.0.9";
        let url: StcpUrl = url::read(text).unwrap();
        let ports: Vec<usize> = (0..streams)
            .map(|n| link.add((PEER.1, 5000), 10 + n, url.settings(), BUFFER).unwrap())
            .collect();
        let (producer, ring) = RingBuffer::new(RING);
        let (hold, sheet) = (Arc::new(Hold::new()), Sheet::new(catalogue()));
        let shared = Arc::new(Shared::default());
        let source = StcpSendLane {
            url,
            ring: producer,
            hold: hold.clone(),
            seen_ns: 0,
            sheet: sheet.clone(),
            own: sheet,
            first: true,
            lanes: 1,
            shared: shared.clone(),
            // It says at once that it would have to wait.
            wish: Some(Arc::new(AtomicBool::new(true))),
            patience: None,
            failed: 0,
            taken: 0,
            end: Arc::new(Ending { shared, thread: None }),
        };
        let lane = Lane::new(ring, ports, hold);
        let mut rig = Rig { link, lane, source, came: vec![(0, vec![]); usize::from(streams)] };
        // The probe of the own address, the question for the peer's, and the connections.
        rig.link.turn().unwrap();
        rig.at(SECOND);
        let mut head = Head::default();
        let own = Arp { request: true, sender: OWN, target: ([0; 6], PEER.1) };
        head.arp(OWN.0, PEER.0, &answer(PEER, &own).unwrap().1);
        rig.link.bring(head.bytes().to_vec());
        rig.at(SECOND);
        rig.take();
        (0..rig.came.len()).for_each(|at| rig.say(at, TcpFlags::SYN.and(TcpFlags::ACK)));
        let there = |s: &super::super::RawStream| s.sender().snapshot().max_wnd > 0;
        assert!(rig.link.streams().iter().all(there));
        rig
    }

    fn at(&mut self, ns: u64) {
        self.link.set_time(ns);
        while self.link.turn().unwrap() {}
    }

    /// The peer takes what has left, and says nothing.
    fn take(&mut self) {
        for frame in self.link.left() {
            let packet = &frame[NOTE + ETHERNET..];
            let Ok(Packet::Tcp { ports, segment, .. }) =
                parse(packet, PEER.1, ChecksumTrust::Partial)
            else {
                continue;
            };
            let (next, bytes) = &mut self.came[usize::from(ports.0) - 10];
            if segment.flags.has(TcpFlags::SYN) {
                *next = segment.seq.wrapping_add(1);
            } else if segment.seq == *next {
                bytes.extend_from_slice(&packet[packet.len() - segment.length as usize..]);
                *next = next.wrapping_add(segment.length);
            }
        }
    }

    /// The peer speaks on a stream; an ACK is of all that came.
    fn say(&mut self, at: usize, flags: TcpFlags) {
        let ends = Addresses {
            local: PEER.1,
            remote: OWN.1,
            local_port: 5000,
            remote_port: 10 + at as u16,
        };
        let seq = u32::from(!flags.has(TcpFlags::SYN));
        let options = flags.has(TcpFlags::SYN).then_some((8960, 0));
        let (ack, purpose) = (self.came[at].0, Purpose::Control);
        let (window, offset, length, mss) = (u16::MAX, 0, 0, 0);
        let segment = Outbound { purpose, seq, ack, flags, window, options, offset, length, mss };
        let mut head = Head::default();
        head.segment((OWN.0, PEER.0), &ends, 1, &segment, (&[], &[]), true);
        self.link.bring(head.bytes().to_vec());
        while self.link.turn().unwrap() {}
    }

    fn hand_over(&mut self) -> bool {
        self.lane.hand_over(&mut self.link, &self.source.own).unwrap()
    }

    /// Gives the `n`-th packet; false: the source has to hold.
    fn give(&mut self, n: usize) -> bool {
        self.source.put(&packet(n)).unwrap()
    }

    fn used(&self, at: usize) -> u64 {
        self.link.stream(at).sender().used()
    }

    fn held(&self) -> (u64, u64) {
        let held = self.source.held().unwrap();
        (held.times, held.time_ns)
    }
}

/// Times that the source was told to hold, and those that it saw.
fn seen(rig: &Rig) -> (u64, u64) {
    let held = rig.source.held().unwrap();
    let shares = [held.seen_after_median_ns, held.seen_after_p99_ns, held.seen_after_most_ns];
    assert!(shares.is_sorted() && (held.seen > 0 || shares == [0; 3]), "{held:?}");
    (held.times, held.seen)
}

impl Rig {
    /// Until its stream is busy.
    fn fill(&mut self) {
        (0..100).for_each(|n| assert!(self.give(n)));
        assert!(!self.hand_over() && self.hold().is_some());
    }

    /// Until its stream has nothing left, and the ring neither.
    fn drain(&mut self, from_ns: u64) {
        for turn in 1..100 {
            self.at(from_ns + turn * 1_000_000);
            self.take();
            self.say(0, TcpFlags::ACK);
            self.hand_over();
        }
        assert!(self.lane.is_empty() && self.hold().is_none());
    }

    fn hold(&self) -> Option<u64> {
        self.source.hold.raised_ns()
    }
}

#[test]
fn a_hold_is_seen_once_and_one_that_ends_before_the_source_looks_is_not() {
    let mut rig = Rig::new(1);
    rig.fill();
    assert_eq!(seen(&rig), (1, 0), "the source has not looked yet");
    let first = rig.hold();
    (0..5).for_each(|n| assert!(!rig.give(n)));
    assert_eq!(seen(&rig), (1, 1), "however often it looks");
    rig.drain(2 * SECOND);
    // Looks at no hold are none.
    rig.fill();
    assert_eq!(seen(&rig), (2, 1));
    assert!(rig.hold() > first, "each has a time of its own");
    rig.drain(3 * SECOND);
    rig.fill();
    assert!(!rig.give(0));
    assert_eq!(seen(&rig), (3, 2), "the second ended unseen");
    // One that is raised again while the source waits for the first is another one.
    rig.drain(4 * SECOND);
    (0..2).for_each(|_| {
        rig.lane.raise(0, &rig.source.own);
        assert!(rig.source.holds() && rig.source.holds());
        rig.lane.release(0, &rig.source.own);
    });
    assert!(!rig.source.holds());
    assert_eq!(seen(&rig), (5, 4));
}

/// The lanes of a link count in one place, and one of them tells it.
#[test]
fn the_first_lane_tells_what_all_lanes_saw() {
    let (mut one, mut other) = (Rig::new(1), Rig::new(1));
    other.source.shared = one.source.shared.clone();
    (other.source.own, other.source.first) = (one.source.own.clone(), false);
    for rig in [&mut one, &mut other] {
        rig.fill();
        assert!(!rig.give(0));
    }
    assert_eq!(seen(&one), (2, 2));
    assert_eq!(other.source.held(), None);
}

fn packet(n: usize) -> Vec<u8> {
    (0..PACKET).map(|i| (n * 31 + i) as u8).collect()
}

#[test]
fn a_source_holds_from_the_call_that_passes_the_high_mark_until_the_low_one_and_nothing_is_lost() {
    let mut rig = Rig::new(1);
    // The ring has room for ten times as much as the stream.
    let mut given = 0;
    while given < 100 {
        assert!(rig.give(given), "nothing is busy yet");
        given += 1;
    }
    rig.link.set_time(2 * SECOND);
    assert!(!rig.hand_over());
    // It stops with the packet that passes the mark: the buffer is not full, and the ring not empty.
    assert_eq!(rig.used(0), HIGH.next_multiple_of(PACKET as u64));
    assert!(!rig.lane.is_empty());
    assert!(!rig.give(given), "the call has told the source");
    assert_eq!(rig.source.sheet().get(StcpSending::Waited as usize), 0, "nothing was refused");
    // Not before the low mark, whatever has room.
    rig.at(2 * SECOND + 1000);
    let mut now = 2 * SECOND + 1000;
    while rig.used(0) > LOW {
        assert!(!rig.hand_over() && !rig.give(given), "{} bytes wait", rig.used(0));
        now += 1_000_000;
        rig.at(now);
        rig.take();
        rig.say(0, TcpFlags::ACK);
    }
    assert_eq!(rig.held(), (1, 0), "it is still told to hold");
    rig.hand_over();
    // That gave it the rest of the ring, which is less than up to the mark.
    assert_eq!(rig.held(), (1, now - 2 * SECOND));
    assert!(rig.lane.is_empty() && rig.give(given), "{}", rig.used(0));
    given += 1;
    rig.hand_over();
    rig.link.flush(0);
    while rig.used(0) > 0 {
        now += 1_000_000;
        rig.at(now);
        rig.take();
        rig.say(0, TcpFlags::ACK);
    }
    let all: Vec<u8> = (0..given).flat_map(packet).collect();
    assert!(rig.came[0].1 == all, "{} of {} bytes", rig.came[0].1.len(), all.len());
}

#[test]
fn a_source_of_several_streams_holds_when_all_that_are_left_are_busy() {
    let mut rig = Rig::new(2);
    (0..100).for_each(|n| assert!(rig.give(n)));
    rig.hand_over();
    // 50 packets each: both below their marks.
    assert!(rig.lane.is_empty() && rig.held().0 == 0);
    (100..140).for_each(|n| assert!(rig.give(n)));
    rig.hand_over();
    let busy = HIGH.next_multiple_of(PACKET as u64);
    assert_eq!((rig.used(0), rig.used(1), rig.held().0), (busy, busy, 1));
    assert!(!rig.give(140));
    // One ends: the other is still busy. Then that one has room.
    rig.link.abort(0);
    assert!(!rig.hand_over() && !rig.give(140));
    for turn in 1..100 {
        rig.at(2 * SECOND + turn * 1_000_000);
        rig.take();
        rig.say(1, TcpFlags::ACK);
    }
    rig.hand_over();
    assert!(rig.give(140));
    // And when none is left, nobody holds: what was given is counted as lost.
    rig.link.abort(1);
    rig.hand_over();
    assert!(rig.lane.is_empty() && rig.give(141));
    assert!(rig.source.own.get(StcpSending::Lost as usize) > 0);
}

/// Another destination waits for a silent one only so long, but for one that goes on as long as it does.
#[test]
fn patience_is_with_who_acknowledges() {
    let mut rig = Rig::new(1);
    (0..100).for_each(|n| assert!(rig.give(n)));
    rig.hand_over();
    (rig.source.wish, rig.source.patience) = (None, Some(Duration::from_millis(1)));
    let said = rig.source.put(&packet(0)).unwrap_err().to_string();
    assert!(said.contains("takes nothing"), "{said}");
    let before = rig.source.hold.moved();
    rig.at(2 * SECOND);
    rig.take();
    rig.say(0, TcpFlags::ACK);
    rig.hand_over();
    assert!(rig.source.hold.moved() > before || rig.source.hold.raised_ns().is_none());
}

/// Packets are taken one after the other, so what is open is all from one number on.
#[test]
fn what_a_stream_has_not_delivered_is_named_by_the_numbers_of_its_packets() {
    let mut rig = Rig::new(1);
    let near_the_wrap = PacketNumbers { what: "events", first: (1 << 24) - 20, wraps: 1 << 24 };
    let said = |rig: &Rig, numbers| undelivered(rig.link.stream(0), numbers);
    assert_eq!(said(&rig, Some(near_the_wrap)), "nothing was sent over it");
    (0..30).for_each(|n| assert!(rig.give(n)));
    rig.hand_over();
    let none = "packets 0 to 29 were not acknowledged, and none after them was sent";
    assert_eq!(said(&rig, None), none);
    // The peer has three whole packets and a part of the fourth: two segments of 8960 bytes and no more of the eleven it would take.
    rig.link.set_room(1);
    rig.at(2 * SECOND);
    rig.take();
    rig.say(0, TcpFlags::ACK);
    let acked = rig.came[0].1.len() / PACKET;
    assert!((1..30).contains(&acked), "{acked}");
    let from = (1 << 24) - 20 + acked as u64;
    let some = format!("events {from} to 9 were not acknowledged, and none after them was sent");
    assert_eq!(said(&rig, Some(near_the_wrap)), some);
    // An abort takes nothing of it away.
    rig.link.abort(0);
    assert_eq!(said(&rig, Some(near_the_wrap)), some);
}

/// Conformance statement 49 on the link itself: with and without offload a turn is one frame of each stream that may send.
#[test]
fn ready_streams_have_equal_shares_and_one_whose_window_is_closed_costs_them_nothing() {
    for offload in [false, true] {
        let mut rig = Rig::with(5, offload);
        let (mut sent, mut bytes) = ([0usize; 5], [0usize; 5]);
        let mut now = 2 * SECOND;
        while sent[..4].iter().sum::<usize>() < 400 {
            (0..5).for_each(|at| while rig.link.submit(at, &[7; 4000]).is_ok() {});
            // Room for one frame at a time, so that the order is that of the turns.
            rig.link.set_room(1);
            now += 10_000;
            rig.at(now);
            let before = rig.came.iter().map(|(_, bytes)| bytes.len()).collect::<Vec<_>>();
            rig.take();
            for at in 0..5 {
                let came = rig.came[at].1.len() - before[at];
                (sent[at], bytes[at]) = (sent[at] + usize::from(came > 0), bytes[at] + came);
            }
            // Nobody acknowledges the fifth: its window of 64 KiB is full, and stays so.
            rig.link.set_room(0);
            let news = |at: &usize| rig.came[*at].1.len() > before[*at];
            let told: Vec<usize> = (0..4).filter(news).collect();
            told.into_iter().for_each(|at| rig.say(at, TcpFlags::ACK));
        }
        assert!(bytes[4] < 1 << 16, "{bytes:?}");
        // Units are of several segments: bytes of a stream say how many.
        let all: usize = bytes[..4].iter().sum();
        for of in &bytes[..4] {
            let share = *of as f64 / all as f64;
            assert!((0.23..=0.27).contains(&share), "offload {offload}: {bytes:?}");
        }
    }
}
