//! Long units: how long they are, where they may not be, and what happens if the interface never takes one.

use fullcount_stcp::StcpState;
use fullcount_stcp::wire::{TcpFlags, arp::Arp};

use super::frame::Head;
use super::*;
use crate::frames::NOTE;

const OWN: ([u8; 6], [u8; 4]) = ([2, 0, 10, 0, 0, 9], [10, 0, 0, 9]);
const PEER: ([u8; 6], [u8; 4]) = ([2, 0, 10, 0, 0, 2], [10, 0, 0, 2]);
const SECOND: u64 = 1_000_000_000;
const BUFFER: usize = 1 << 20;

/// A link with units of 256 KiB and a stream to a peer with a window of 4 MB.
fn connected() -> RawLink {
    let mut link = RawLink::in_memory(RawSetup::new("none", Driver::Packet, OWN.1)).unwrap();
    link.unit = UNIT;
    link.add((PEER.1, 5000), 10, StcpSettings::daq(), BUFFER).unwrap();
    link.turn().unwrap();
    link.set_time(SECOND);
    link.turn().unwrap();
    let mut head = Head::default();
    head.arp(OWN.0, PEER.0, &Arp { request: false, sender: PEER, target: OWN });
    link.bring(head.bytes().to_vec());
    link.turn().unwrap();
    let left = link.left();
    let syn = left.iter().map(|f| &f[NOTE + 14..]).find(|p| p[0] == 0x45).unwrap();
    let seq = u32::from_be_bytes([syn[24], syn[25], syn[26], syn[27]]);
    let ends = Addresses { local: PEER.1, remote: OWN.1, local_port: 5000, remote_port: 10 };
    let options = Some((8960, 7));
    let answer = Outbound {
        purpose: Purpose::Control,
        seq: 1,
        ack: seq.wrapping_add(1),
        flags: TcpFlags(TcpFlags::SYN.0 | TcpFlags::ACK.0),
        window: 32_000,
        options,
        offset: 0,
        length: 0,
        mss: 0,
    };
    head.segment((OWN.0, PEER.0), &ends, 1, &answer, (&[], &[]), true);
    link.bring(head.bytes().to_vec());
    link.turn().unwrap();
    assert_eq!(link.stream(0).sender().state(), StcpState::Established);
    let wide = Outbound { seq: 2, flags: TcpFlags::ACK, options: None, ..answer };
    head.segment((OWN.0, PEER.0), &ends, 1, &wide, (&[], &[]), true);
    link.bring(head.bytes().to_vec());
    link.turn().unwrap();
    link.left();
    link.submit(0, &vec![7; 500_000]).unwrap();
    link
}

/// Payload of the longest frame that has left: behind the note and the headers of Ethernet, IP and TCP.
fn longest(link: &mut RawLink) -> usize {
    link.left().iter().map(|frame| frame.len() - NOTE - 54).max().unwrap_or(0)
}

#[test]
fn a_unit_is_whole_segments_of_what_the_interface_takes() {
    let mut link = connected();
    link.turn().unwrap();
    assert_eq!(longest(&mut link), (UNIT - UNIT_HEADERS) as usize / 8960 * 8960);
}

#[test]
fn a_long_unit_that_finds_no_room_for_10_ms_makes_units_short() {
    let mut link = connected();
    link.set_room(0);
    for time in [0, BLOCKED - 1] {
        link.set_time(SECOND + time);
        link.turn().unwrap();
        assert_eq!((link.unit, link.counters().refused), (UNIT, 0));
    }
    link.set_time(SECOND + BLOCKED);
    link.turn().unwrap();
    assert_eq!((link.unit, link.counters().refused), (SHORT_UNIT, 1));
    // What was made before leaves as it is; what was dropped is repeated in short units.
    link.set_room(usize::MAX);
    link.turn().unwrap();
    link.left();
    (1..200).for_each(|n| {
        link.set_time(SECOND + BLOCKED + n * 20_000_000);
        link.turn().unwrap();
    });
    let again = link.stream(0).sender().memory().counted().again_rto;
    let longest = longest(&mut link);
    assert!(again > 0 && (1..SHORT_UNIT as usize).contains(&longest), "{again} {longest}");
}
