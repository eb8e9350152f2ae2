use fullcount_core::ledger::Sheet;
use fullcount_stcp::sender::{Outbound, Purpose};
use fullcount_stcp::wire::arp::Arp;
use fullcount_stcp::wire::{Packet, TcpFlags, parse};
use fullcount_stcp::{Ended, Notice, StcpSettings, StcpState};

use super::*;
use crate::frames::NOTE;
use crate::raw::counters::{catalogue, publish};
use crate::raw::frame::{ETHERNET, Head};
use crate::raw::{Driver, RawSetup};

const OWN: ([u8; 6], [u8; 4]) = ([2, 0, 10, 0, 0, 9], [10, 0, 0, 9]);
const PEER: ([u8; 6], [u8; 4]) = ([2, 0, 10, 0, 0, 2], [10, 0, 0, 2]);
const SECOND: u64 = 1_000_000_000;

/// A link with one stream from port 10 to the peer's port 5000, whose address is known or not.
fn link(known: bool) -> RawLink {
    let mut link = RawLink::in_memory(RawSetup::new("none", Driver::Packet, OWN.1)).unwrap();
    link.add((PEER.1, 5000), 10, StcpSettings::daq(), 1 << 16).unwrap();
    // The probe of the own address.
    link.turn().unwrap();
    if known {
        link.set_time(SECOND);
        link.turn().unwrap();
        from(&mut link, PEER);
    }
    link.left();
    link
}

/// ARP: this MAC address has this IP address.
fn from(link: &mut RawLink, sender: ([u8; 6], [u8; 4])) {
    let mut head = Head::default();
    head.arp(OWN.0, sender.0, &Arp { request: false, sender, target: OWN });
    link.bring(head.bytes().to_vec());
    link.turn().unwrap();
}

/// A segment from port 5000 of an address to a port of ours, and what the link answers.
fn answer_to(
    link: &mut RawLink,
    from: ([u8; 6], [u8; 4]),
    port: u16,
    (flags, seq, ack): (TcpFlags, u32, u32),
) -> Vec<(u16, Inbound)> {
    let ends = Addresses { local: from.1, remote: OWN.1, local_port: 5000, remote_port: port };
    let purpose = Purpose::Control;
    let (window, options, offset, length, mss) = (9, None, 0, 0, 0);
    let segment = Outbound { purpose, seq, ack, flags, window, options, offset, length, mss };
    let mut head = Head::default();
    head.segment((OWN.0, from.0), &ends, 1, &segment, (&[], &[]), true);
    link.bring(head.bytes().to_vec());
    link.turn().unwrap();
    let answer = |frame: Vec<u8>| {
        assert_eq!(
            (&frame[NOTE..NOTE + 6], &frame[NOTE + 6..NOTE + 12]),
            (&from.0[..], &OWN.0[..])
        );
        let packet = &frame[NOTE + ETHERNET..];
        match parse(packet, from.1, ChecksumTrust::Partial) {
            Ok(Packet::Tcp { from: OWN_IP, ports: (port, 5000), segment }) => (port, segment),
            other => panic!("{other:?}"),
        }
    };
    link.left().into_iter().map(answer).collect()
}
const OWN_IP: [u8; 4] = OWN.1;

#[test]
fn a_segment_of_no_stream_draws_the_rst_that_its_sender_accepts() {
    let mut link = link(true);
    let (ack, syn, rst, fin) = (TcpFlags::ACK, TcpFlags::SYN, TcpFlags::RST, TcpFlags::FIN);
    let mut said = |what| {
        let answers = answer_to(&mut link, PEER, 11, what);
        answers.iter().map(|(port, s)| (*port, s.flags, s.seq, s.ack)).collect::<Vec<_>>()
    };
    assert_eq!(said((ack, 7, 70)), [(11, rst, 70, 0)]);
    assert_eq!(said((syn, 7, 70)), [(11, rst.and(ack), 0, 8)], "a SYN counts one");
    assert_eq!(said((fin.and(ack), 7, 71)), [(11, rst, 71, 0)]);
    assert_eq!(said((rst, 7, 70)), []);
    assert_eq!(said((rst.and(ack), 7, 70)), []);
    let counters = link.counters();
    assert_eq!((counters.strays, counters.stray_resets, counters.stray_resets_spared), (5, 3, 0));
    assert_eq!(link.stream(0).sender().memory().counted().resets_out, 0);
}

#[test]
fn another_host_at_the_port_of_a_stream_is_a_stranger_too() {
    let mut link = link(true);
    let other = ([2, 0, 10, 0, 0, 3], [10, 0, 0, 3]);
    let answers = answer_to(&mut link, other, 10, (TcpFlags::ACK, 1, 5));
    assert!(matches!(answers[..], [(10, Inbound { seq: 5, .. })]), "{answers:?}");
}

#[test]
fn strangers_get_a_hundred_answers_a_second() {
    let mut link = link(true);
    for (second, spared) in [(2, 50), (3, 100)] {
        link.set_time(second * SECOND);
        let resets = (0..150).flat_map(|n| answer_to(&mut link, PEER, 11, (TcpFlags::ACK, 0, n)));
        // Beside them leaves the SYN of the stream again.
        let answers = resets.filter(|(port, _)| *port == 11).count();
        assert_eq!((answers, link.counters().stray_resets_spared), (100, spared));
    }
}

#[test]
fn nobody_is_answered_as_long_as_the_address_may_be_anothers_or_the_answer_has_no_one_to_go_to() {
    let ack = (TcpFlags::ACK, 0, 1);
    assert!(answer_to(&mut link(false), PEER, 11, ack).is_empty(), "not looked for yet");
    let mut taken = link(false);
    from(&mut taken, ([2, 9, 9, 9, 9, 9], OWN.1));
    assert!(taken.duplicate().is_some());
    assert!(answer_to(&mut taken, PEER, 11, ack).is_empty());
    let mut link = link(true);
    for address in [[0; 4], [127, 0, 0, 1], [224, 0, 0, 1], [255; 4], OWN.1] {
        assert!(answer_to(&mut link, (PEER.0, address), 11, ack).is_empty(), "{address:?}");
    }
    let group = [3, 0, 0, 0, 0, 1];
    assert!(answer_to(&mut link, (group, PEER.1), 11, ack).is_empty());
    assert_eq!((link.counters().strays, link.counters().stray_resets), (6, 0));
    for (answers, from) in [(0, (group, PEER.1)), (0, (PEER.0, [255; 4])), (1, PEER)] {
        let mut head = Head::default();
        head.ip((OWN.0, from.0), &ip::header(from.1, OWN.1, 1, 1, 8));
        link.bring([head.bytes(), &[8, 0, 0xf7, 0xff, 0, 0, 0, 0]].concat());
        link.turn().unwrap();
        assert_eq!((link.left().len(), link.counters().echoes), (answers, answers as u64));
    }
    let question = Arp { request: true, sender: (group, PEER.1), target: OWN };
    assert_eq!(answer(OWN, &question), None);
    // The probe of the own address, and the question for the peer's.
    assert_eq!((link.counters().arp_requests, link.counters().arp_replies), (2, 0));
}

/// Each frame that comes is counted once, and a dropped one with its reason in the line that a user reads.
#[test]
fn every_frame_is_counted_and_the_reason_of_a_dropped_one_has_its_line() {
    let mut link = link(true);
    let sheet = Sheet::new(catalogue());
    let ip_header = |to, protocol, length| ip::header(PEER.1, to, protocol, 1, length);
    let mut wrong_sum = ip_header(OWN.1, 6, 20).to_vec();
    wrong_sum[10] ^= 1;
    let mut wrong_segment = [&ip_header(OWN.1, 6, 20)[..], &[0; 20]].concat();
    wrong_segment[32] = 5 << 4;
    let cases: [(&str, Vec<u8>); 6] = [
        ("short", vec![0x45; 3]),
        ("not_ipv4", vec![0x65; 40]),
        ("header_checksum", [&wrong_sum[..], &[0; 20]].concat()),
        ("other_address", [&ip_header([10, 0, 0, 77], 6, 20)[..], &[0; 20]].concat()),
        ("other_protocol", [&ip_header(OWN.1, 17, 20)[..], &[0; 20]].concat()),
        ("tcp_checksum", wrong_segment),
    ];
    let line = |name: &str, link: &RawLink| {
        publish(&sheet, link);
        let at = sheet.lines().iter().position(|info| info.name == name);
        sheet.get(at.unwrap_or_else(|| panic!("{name} has a line")))
    };
    for (name, packet) in cases {
        let name = format!("stcp.frame.{name}");
        assert_eq!(line(&name, &link), 0);
        let mut frame = vec![0; NOTE];
        frame.extend(OWN.0.iter().chain(&PEER.0).chain(&[8, 0]).chain(&packet));
        link.bring(frame);
        link.turn().unwrap();
        assert_eq!(line(&name, &link), 1, "{name}");
    }
    answer_to(&mut link, PEER, 10, (TcpFlags::ACK, 0, 1));
    answer_to(&mut link, PEER, 11, (TcpFlags::ACK, 0, 1));
    let names = ["malformed", "others", "strays", "delivered", "received"];
    let counted = names.map(|name| line(&format!("stcp.frames_{name}"), &link));
    let arp = line("stcp.arp_received", &link);
    assert_eq!((counted, arp), ([4, 2, 1, 1, 9], 1));
    // A stream has no line for a frame that is nobody's.
    assert!(sheet.lines().iter().all(|info| info.name != "stcp.stream.short"));
}

#[test]
fn connections_count_a_neighbour_that_answers_no_more_and_go_on() {
    let mut link = RawLink::in_memory(RawSetup::new("none", Driver::Packet, OWN.1)).unwrap();
    for port in [10, 11] {
        link.add((PEER.1, 5000), port, StcpSettings::default(), 1 << 16).unwrap();
    }
    link.turn().unwrap();
    link.set_time(SECOND);
    link.turn().unwrap();
    link.left();
    from(&mut link, PEER);
    let syns = link.left();
    let Ok(Packet::Tcp { ports: (10, 5000), segment, .. }) =
        parse(&syns[0][NOTE + ETHERNET..], PEER.1, ChecksumTrust::Partial)
    else {
        panic!("{syns:?}")
    };
    let both = TcpFlags::SYN.and(TcpFlags::ACK);
    answer_to(&mut link, PEER, 10, (both, 0, segment.seq.wrapping_add(1)));
    let counted = |link: &RawLink, at| link.stream(at).sender().memory().counted().no_neighbour;
    // Asked for again 60 s after its answer, 20 times in 30 s.
    for half in 3..=600 {
        link.set_time(half * SECOND / 2);
        while link.turn().unwrap() {}
        let told = u64::from(half >= 2 * 91);
        assert_eq!((counted(&link, 0), counted(&link, 1)), (told, 0), "{half}");
    }
    assert_eq!(link.stream(0).sender().state(), StcpState::Established);
    let ended = std::iter::from_fn(|| link.notice(1)).last();
    assert_eq!(ended, Some(Notice::Aborted(Ended::HostUnreachable)));
    link.left();
    link.submit(0, b"data").unwrap();
    link.turn().unwrap();
    let frames = link.left();
    assert_eq!((frames.len(), &frames[0][NOTE..NOTE + 6]), (1, &PEER.0[..]));
}
