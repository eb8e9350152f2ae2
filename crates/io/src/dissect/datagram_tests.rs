//! The finder with frames written by hand, against the parser of `core::frame` on random ones,
//! and on random bytes.

use super::super::made::{ChecksumField, MadeDatagram, v4, v6};
use super::*;
use fullcount_core::frame::{self, LinkLayer};
use proptest::prelude::*;

fn found(frame: &[u8]) -> Result<(Datagram, Judgement), DatagramRefusal> {
    let d = find(frame, frame.len(), 9000)?;
    Ok((d, d.judge(&frame[d.range()])))
}

#[test]
fn payload_sender_and_checksum_of_every_shape() {
    let payload: Vec<u8> = (0..=255).collect();
    for made in [v4(&payload), v6(&payload)] {
        for tags in [vec![], vec![(0x8100, 5)], vec![(0x88a8, 1), (0x8100, 2)]] {
            for padding in [0, 9] {
                let frame = MadeDatagram { tags: tags.clone(), padding, ..made.clone() }.frame();
                let (d, judgement) = found(&frame).unwrap();
                assert_eq!(&frame[d.range()], payload, "{tags:?}");
                assert_eq!(judgement, Judgement::Good);
                assert_eq!((d.origin.addr(), d.origin.port), (made.source, 4000));
                let to = destination(&frame, 9000).unwrap();
                assert_eq!((to.addr(), to.port), (made.destination, 9000));
            }
        }
    }
    let frame = MadeDatagram { options: vec![1; 40], ..v4(&payload) }.frame();
    let (d, judgement) = found(&frame).unwrap();
    assert_eq!((&frame[d.range()], judgement), (&payload[..], Judgement::Good));
    let (d, judgement) = found(&v4(b"").frame()).unwrap();
    assert_eq!((d.len, judgement), (0, Judgement::Good));
}

#[test]
fn checksums_are_good_absent_partial_or_wrong() {
    for (sum, v4_is, v6_is) in [
        (ChecksumField::Right, Judgement::Good, Judgement::Good),
        (ChecksumField::None, Judgement::Absent, Judgement::Wrong),
        (ChecksumField::Partial, Judgement::Partial, Judgement::Partial),
        (ChecksumField::Wrong, Judgement::Wrong, Judgement::Wrong),
    ] {
        let of =
            |made: MadeDatagram| found(&MadeDatagram { checksum: sum, ..made }.frame()).unwrap().1;
        assert_eq!((of(v4(b"abc")), of(v6(b"abc"))), (v4_is, v6_is), "{sum:?}");
    }
}

#[test]
fn each_contradiction_has_its_refusal() {
    let change = |at: usize, bytes: &[u8]| {
        let mut f = v4(b"0123456789").frame();
        f[at..at + bytes.len()].copy_from_slice(bytes);
        find(&f, f.len(), 9000).unwrap_err()
    };
    assert_eq!(change(14, &[0x44]), DatagramRefusal::Length, "IP header below 20");
    assert_eq!(change(16, &[0, 19]), DatagramRefusal::Length, "IP length below the header");
    assert_eq!(change(16, &[0, 27]), DatagramRefusal::Length, "no room for UDP");
    assert_eq!(change(16, &[0, 39]), DatagramRefusal::Cut, "IP longer than the frame");
    assert_eq!(change(38, &[0, 7]), DatagramRefusal::Length, "UDP below its header");
    assert_eq!(change(38, &[0, 19]), DatagramRefusal::Length, "UDP longer than IP");
    assert_eq!(change(20, &[0x20]), DatagramRefusal::Fragment);
    assert_eq!(change(23, &[6]), DatagramRefusal::NotOurs, "TCP");
    assert_eq!(change(36, &[0, 1]), DatagramRefusal::NotOurs, "port");
    assert_eq!(change(12, &[0x08, 0x06]), DatagramRefusal::NotOurs, "ARP");
    assert_eq!(change(14, &[0x65]), DatagramRefusal::NotOurs, "version");
    let mut f = v6(b"0123456789").frame();
    f[20] = 44;
    assert_eq!(find(&f, f.len(), 9000), Err(DatagramRefusal::Fragment));
    f[20] = 0;
    assert_eq!(find(&f, f.len(), 9000), Err(DatagramRefusal::NotOurs), "extension header");
    f[20] = 17;
    f[18..20].copy_from_slice(&[0, 19]);
    assert_eq!(find(&f, f.len(), 9000), Err(DatagramRefusal::Cut));
}

#[test]
fn headers_in_the_first_piece_are_enough() {
    let frame = v4(&[7; 5000]).frame();
    let d = find(&frame[..64], frame.len(), 9000).unwrap();
    assert_eq!(d, find(&frame, frame.len(), 9000).unwrap());
    assert_eq!(find(&frame[..64], 64, 9000), Err(DatagramRefusal::Cut));
}

proptest! {
    #[test]
    fn no_bytes_panic_and_what_is_found_lies_in_the_frame(
        mut frame in prop::collection::vec(any::<u8>(), 0..200), kind in 0usize..5, total in 0usize..300,
    ) {
        let kinds = [[0x08, 0x00, 0x45], [0x86, 0xdd, 0x60], [0x81, 0x00, 0], [0x88, 0xa8, 0], [0, 0, 0]];
        if let Some(place) = frame.get_mut(12..15) {
            place.copy_from_slice(&kinds[kind]);
        }
        if let Some(protocol) = frame.get_mut(23) {
            *protocol = 17;
        }
        if let Ok(d) = find(&frame, total, 9000) {
            prop_assert!(d.range().end <= total);
        }
    }

    #[test]
    fn both_parsers_see_the_same_datagram(
        payload in prop::collection::vec(any::<u8>(), 0..100),
        six in any::<bool>(), tagged in any::<bool>(), padding in 0usize..20, options in 0usize..11,
        sum in prop::sample::select(vec![ChecksumField::Right, ChecksumField::None, ChecksumField::Partial, ChecksumField::Wrong]),
        flip in prop::option::of((14usize..60, any::<u8>())),
    ) {
        let made = if six { v6(&payload) } else { v4(&payload) };
        let tags = if tagged { vec![(0x8100, 7)] } else { Vec::new() };
        let options = if six { Vec::new() } else { vec![1; options * 4] };
        let mut frame = MadeDatagram { tags, padding, options, checksum: sum, ..made }.frame();
        if let Some((at, bits)) = flip
            && let Some(byte) = frame.get_mut(at)
        {
            *byte ^= bits;
        }
        let other = LinkLayer::Ethernet.ip(&frame).and_then(|p| Ok((p, p.udp()?)));
        match (find(&frame, frame.len(), 9000), other) {
            (Ok(d), Ok((packet, udp))) => {
                prop_assert_eq!(&frame[d.range()], udp.payload);
                prop_assert_eq!((d.origin.addr(), d.origin.port), (packet.source, udp.source_port));
                let theirs = match udp.verify(packet.source, packet.destination) {
                    frame::Checksum::Good => Judgement::Good,
                    frame::Checksum::Absent if packet.source.is_ipv6() => Judgement::Wrong,
                    frame::Checksum::Absent => Judgement::Absent,
                    frame::Checksum::Offloaded => Judgement::Partial,
                    frame::Checksum::Wrong => Judgement::Wrong,
                };
                let ours = d.judge(&frame[d.range()]);
                let lucky = ours == Judgement::Partial && theirs == Judgement::Good;
                prop_assert!(ours == theirs || lucky, "{:?}, {:?}", ours, theirs);
            }
            // Ours wants one port and walks over no extension headers.
            (Err(DatagramRefusal::NotOurs | DatagramRefusal::Fragment), _) => {}
            (Err(_), Err(_)) => {}
            (ours, theirs) => prop_assert!(false, "{:?} but {:?}", ours, theirs),
        }
    }
}
