//! Frames composed byte by byte, and random changes of them.

use super::emit::{EmitError, Emitter, Route};
use super::reassembly::{FragmentOutcome, Reassembler, ReassemblyLimits};
use super::*;
use proptest::prelude::*;
use std::net::SocketAddr;

/// 10.0.0.1:1234 to 10.0.0.2:9000, "hi"; checksums computed by hand with RFC 1071.
const UDP4: [u8; 30] = [
    0x45, 0x00, 0x00, 0x1e, 0x00, 0x01, 0x00, 0x00, 0x40, 0x11, 0x66, 0xcc, 10, 0, 0, 1, 10, 0, 0,
    2, 0x04, 0xd2, 0x23, 0x28, 0x00, 0x0a, 0x00, 0x00, b'h', b'i',
];

/// ::1 port 1 to ::1 port 2, "x", no extension headers.
fn udp6(next: u8, extensions: &[u8]) -> Vec<u8> {
    let mut p = vec![0x60, 0, 0, 0, 0, (9 + extensions.len()) as u8, next, 64];
    for _ in 0..2 {
        p.extend_from_slice(&[0; 15]);
        p.push(1);
    }
    p.extend_from_slice(extensions);
    p.extend_from_slice(&[0, 1, 0, 2, 0, 9, 0, 0, b'x']);
    p
}

fn framed(header: &[u8], packet: &[u8]) -> Vec<u8> {
    [header, packet].concat()
}

fn ethernet(kind: [u8; 2], packet: &[u8]) -> Vec<u8> {
    framed(&[&[0xaa; 6][..], &[0xbb; 6], &kind].concat(), packet)
}

fn payload(link: LinkLayer, frame: &[u8]) -> Result<Vec<u8>, FrameRefusal> {
    link.ip(frame)?.udp().map(|u| u.payload.to_vec())
}

#[test]
fn every_link_layer_leads_to_the_same_payload() {
    let sll = [0, 0, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0, 8, 0];
    let sll2 = [8, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0];
    let vlan = framed(&[0, 5, 8, 0], &UDP4);
    let qinq = framed(&[0, 7, 0x81, 0, 0, 5, 8, 0], &UDP4);
    let cases = [
        (LinkLayer::Ethernet, ethernet([8, 0], &UDP4)),
        (LinkLayer::Ethernet, ethernet([0x81, 0], &vlan)),
        (LinkLayer::Ethernet, ethernet([0x88, 0xa8], &qinq)),
        (LinkLayer::Cooked, framed(&sll, &UDP4)),
        (LinkLayer::Cooked2, framed(&sll2, &UDP4)),
        (LinkLayer::RawIp, UDP4.to_vec()),
        (LinkLayer::Loopback, framed(&[2, 0, 0, 0], &UDP4)),
        (LinkLayer::Loopback, framed(&[0, 0, 0, 2], &UDP4)),
    ];
    for (link, frame) in cases {
        assert_eq!(payload(link, &frame), Ok(b"hi".to_vec()), "{link:?}");
        let padded = framed(&frame, &[0; 18]);
        assert_eq!(payload(link, &padded), Ok(b"hi".to_vec()), "{link:?} with padding");
        for cut in 0..frame.len() {
            assert_eq!(
                payload(link, &frame[..cut]),
                Err(FrameRefusal::Cut),
                "{link:?} cut at {cut}"
            );
        }
    }
    let six = udp6(17, &[]);
    for family in [10u8, 24, 28, 30] {
        let frame = framed(&[family, 0, 0, 0], &six);
        assert_eq!(payload(LinkLayer::Loopback, &frame), Ok(b"x".to_vec()));
    }
    assert_eq!(payload(LinkLayer::RawIp, &six), Ok(b"x".to_vec()));
    assert_eq!(payload(LinkLayer::Ethernet, &ethernet([0x86, 0xdd], &six)), Ok(b"x".to_vec()));
}

#[test]
fn addresses_ports_and_tags_are_read() {
    let frame = ethernet([0x81, 0], &framed(&[0xe0, 5, 8, 0], &UDP4));
    let e = Ethernet::parse(&frame).unwrap();
    assert_eq!((e.destination, e.source), ([0xaa; 6], [0xbb; 6]));
    assert_eq!((e.vlan, e.ethertype), (Some(5), 0x0800), "priority bits are no part of the number");
    let ip = Ipv4::parse(e.payload).unwrap();
    assert_eq!((ip.ttl, ip.ident, ip.dont_fragment), (64, 1, false));
    assert!(ip.header_checksum_good());
    let p = ip.packet();
    assert_eq!(
        (p.source.to_string(), p.destination.to_string()),
        ("10.0.0.1".into(), "10.0.0.2".into())
    );
    let udp = p.udp().unwrap();
    assert_eq!((udp.source_port, udp.destination_port), (1234, 9000));
    let mut wrong = UDP4;
    wrong[8] = 63;
    assert!(!Ipv4::parse(&wrong).unwrap().header_checksum_good());
}

#[test]
fn each_refusal_has_its_reason() {
    let change = |at: usize, to: u8| {
        let mut p = UDP4;
        p[at] = to;
        payload(LinkLayer::RawIp, &p)
    };
    assert_eq!(change(0, 0x55), Err(FrameRefusal::Version));
    assert_eq!(change(0, 0x44), Err(FrameRefusal::IpLength), "header of 16 bytes");
    assert_eq!(change(3, 19), Err(FrameRefusal::IpLength), "total length below the header");
    assert_eq!(change(3, 31), Err(FrameRefusal::Cut), "total length above the frame");
    assert_eq!(change(9, 6), Err(FrameRefusal::NotUdp));
    assert_eq!(change(6, 0x20), Err(FrameRefusal::Fragment));
    assert_eq!(change(7, 1), Err(FrameRefusal::Fragment));
    assert_eq!(change(6, 0x40), Ok(b"hi".to_vec()), "don't fragment is no fragment");
    assert_eq!(change(25, 7), Err(FrameRefusal::UdpLength));
    assert_eq!(change(25, 11), Err(FrameRefusal::UdpLength));
    assert_eq!(change(25, 9), Ok(b"h".to_vec()), "the UDP length bounds the payload");
    assert_eq!(change(3, 27), Err(FrameRefusal::UdpLength), "7 bytes of UDP header");
    assert_eq!(payload(LinkLayer::Ethernet, &ethernet([8, 6], &UDP4)), Err(FrameRefusal::NotIp));
    assert_eq!(
        payload(LinkLayer::Ethernet, &ethernet([0x86, 0xdd], &UDP4)),
        Err(FrameRefusal::Version)
    );
    assert_eq!(
        payload(LinkLayer::Loopback, &framed(&[7, 0, 0, 0], &UDP4)),
        Err(FrameRefusal::NotIp)
    );
    let netlink = [0, 0, 0x03, 0x38, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0];
    assert_eq!(payload(LinkLayer::Cooked, &framed(&netlink, &UDP4)), Err(FrameRefusal::NotIp));
    let mut jumbo = udp6(17, &[]);
    jumbo[5] = 0;
    assert_eq!(payload(LinkLayer::RawIp, &jumbo), Err(FrameRefusal::IpLength));
}

#[test]
fn ipv4_options_are_skipped() {
    let mut p = UDP4.to_vec();
    p[0] = 0x46;
    p[3] = 34;
    p.splice(20..20, [1, 1, 1, 0]);
    assert_eq!(payload(LinkLayer::RawIp, &p), Ok(b"hi".to_vec()));
}

#[test]
fn ipv6_extension_headers_are_walked_and_bounded() {
    let hop = [17, 0, 1, 4, 0, 0, 0, 0];
    assert_eq!(payload(LinkLayer::RawIp, &udp6(0, &hop)), Ok(b"x".to_vec()));
    let chain = [[60, 0, 1, 4, 0, 0, 0, 0], [51, 0, 0, 0, 0, 0, 0, 0], [17, 0, 0, 0, 0, 0, 0, 0]];
    assert_eq!(payload(LinkLayer::RawIp, &udp6(0, &chain.concat())), Ok(b"x".to_vec()));
    let atomic = [17, 0, 0, 0, 0, 0, 0, 9];
    assert_eq!(payload(LinkLayer::RawIp, &udp6(44, &atomic)), Ok(b"x".to_vec()), "RFC 6946");
    let part = [17, 0, 0, 1, 0, 0, 0, 9];
    assert_eq!(payload(LinkLayer::RawIp, &udp6(44, &part)), Err(FrameRefusal::Fragment));
    let packet = udp6(44, &part);
    let f = LinkLayer::RawIp.ip(&packet).unwrap().fragment;
    assert_eq!(f, Some(Fragment { ident: 9, offset: 0, more: true }));
    let too_long = [17, 9, 0, 0, 0, 0, 0, 0];
    assert_eq!(payload(LinkLayer::RawIp, &udp6(0, &too_long)), Err(FrameRefusal::Extension));
    assert_eq!(
        payload(LinkLayer::RawIp, &udp6(59, &[])),
        Err(FrameRefusal::NotUdp),
        "no next header"
    );
}

#[test]
fn checksums_tell_good_absent_offloaded_and_wrong_apart() {
    let route = Route {
        source: "10.0.0.1:1234".parse().unwrap(),
        destination: "10.0.0.2:9000".parse().unwrap(),
        vlan: None,
    };
    let verify = |frame: &[u8]| {
        let p = LinkLayer::Ethernet.ip(frame).unwrap();
        p.udp().unwrap().verify(p.source, p.destination)
    };
    let mut e = Emitter::new(None);
    let mut frame = e.udp(&route, b"odd").unwrap().next().unwrap().to_vec();
    assert_eq!(verify(&frame), Checksum::Good);
    frame[44] ^= 1;
    assert_eq!(verify(&frame), Checksum::Wrong);
    // Pseudo header by hand: 0a00+0001+0a00+0002 + 17 + 11 = 141f.
    frame[40..42].copy_from_slice(&[0x14, 0x1f]);
    assert_eq!(verify(&frame), Checksum::Offloaded);
    frame[40..42].copy_from_slice(&[0, 0]);
    assert_eq!(verify(&frame), Checksum::Absent);
}

#[test]
fn an_emitted_frame_is_the_one_made_by_hand() {
    let route = Route {
        source: "10.0.0.1:1234".parse().unwrap(),
        destination: "10.0.0.2:9000".parse().unwrap(),
        vlan: Some(5),
    };
    let mut e = Emitter::new(None);
    let frame = e.udp(&route, b"hi").unwrap().next().unwrap().to_vec();
    assert_eq!(&frame[..18], &[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x81, 0, 0, 5, 8, 0]);
    let mut by_hand = UDP4;
    // 0a00+0001+0a00+0002+0011+000a (pseudo) +04d2+2328+000a+6869 = a48b, complement 5b74.
    by_hand[26..28].copy_from_slice(&[0x5b, 0x74]);
    assert_eq!(&frame[18..], &by_hand);
}

#[test]
fn what_cannot_be_a_datagram_is_refused() {
    let mut e = Emitter::new(Some(60));
    let v4 = |s: &str| s.parse::<SocketAddr>().unwrap();
    let route = Route { source: v4("10.0.0.1:1"), destination: v4("10.0.0.2:2"), vlan: None };
    assert_eq!(e.udp(&route, b"").err(), Some(EmitError::Mtu { mtu: 60, limit: 68 }));
    let mut e = Emitter::new(None);
    let long = vec![0; 65_508];
    assert_eq!(
        e.udp(&route, &long).err(),
        Some(EmitError::TooLong { bytes: 65_508, limit: 65_507 })
    );
    assert!(e.udp(&route, &long[1..]).is_ok());
    let mixed = Route { destination: v4("[::1]:2"), ..route };
    assert!(matches!(e.udp(&mixed, b"").err(), Some(EmitError::Families { .. })));
    let six = Route { source: v4("[::1]:1"), ..mixed };
    assert!(e.udp(&six, &vec![0; 65_527]).is_ok());
    assert!(e.udp(&six, &vec![0; 65_528]).is_err());
}

fn routes() -> impl Strategy<Value = Route> {
    let v4 = || any::<([u8; 4], u16)>().prop_map(SocketAddr::from);
    let v6 = || any::<([u8; 16], u16)>().prop_map(SocketAddr::from);
    let pair = prop_oneof![(v4(), v4()).boxed(), (v6(), v6()).boxed()];
    (pair, proptest::option::of(0u16..4096)).prop_map(|((source, destination), vlan)| Route {
        source,
        destination,
        vlan,
    })
}

proptest! {
    #[test]
    fn what_is_emitted_is_parsed_back(
        route in routes(),
        data in proptest::collection::vec(any::<u8>(), 0..6_000),
        mtu in proptest::option::of(1280usize..9_000),
        backwards: bool,
    ) {
        let mut e = Emitter::new(mtu);
        let mut frames: Vec<Vec<u8>> =
            e.udp(&route, &data).unwrap().map(<[u8]>::to_vec).collect();
        if backwards {
            frames.reverse();
        }
        let mut r = Reassembler::new(ReassemblyLimits::default());
        let mut got = None;
        for frame in &frames {
            prop_assert!(mtu.is_none_or(|m| frame.len() <= m + 14 + 4));
            prop_assert_eq!(Ethernet::parse(frame).unwrap().vlan, route.vlan);
            let p = LinkLayer::Ethernet.ip(frame).unwrap();
            prop_assert_eq!((p.source, p.destination), (route.source.ip(), route.destination.ip()));
            let check = |u: Udp<'_>| (
                u.source_port, u.destination_port, u.payload.to_vec(), u.verify(p.source, p.destination),
            );
            match p.fragment {
                None => got = Some(check(p.udp().unwrap())),
                Some(f) => {
                    if let FragmentOutcome::Complete(w) = r.accept(&p, f, 0) {
                        got = Some(check(w.udp().unwrap()));
                    }
                }
            }
        }
        let (source, destination, payload, checksum) = got.expect("whole after the last frame");
        prop_assert_eq!((source, destination), (route.source.port(), route.destination.port()));
        prop_assert_eq!(payload, data);
        prop_assert_eq!(checksum, Checksum::Good);
    }

    #[test]
    fn no_bytes_make_a_view_panic(data in proptest::collection::vec(any::<u8>(), 0..200), n in 0u16..300) {
        if let Some(link) = LinkLayer::from_number(n)
            && let Ok(p) = link.ip(&data)
        {
            let _ = p.udp().map(|u| u.verify(p.source, p.destination));
        }
    }

    #[test]
    fn damaged_frames_never_give_more_than_they_hold(at in 0usize..50, to: u8, cut in 0usize..60) {
        let mut frame = ethernet([0x86, 0xdd], &udp6(0, &[17, 0, 1, 4, 0, 0, 0, 0]));
        let at = at % frame.len();
        frame[at] = to;
        frame.truncate(frame.len().saturating_sub(cut));
        if let Ok(payload) = payload(LinkLayer::Ethernet, &frame) {
            prop_assert!(payload.len() <= frame.len());
        }
    }
}

#[test]
fn link_numbers_come_back() {
    for link in [
        LinkLayer::Ethernet,
        LinkLayer::Cooked,
        LinkLayer::Cooked2,
        LinkLayer::RawIp,
        LinkLayer::Loopback,
    ] {
        assert_eq!(LinkLayer::from_number(link.number()), Some(link));
    }
    assert_eq!(LinkLayer::from_number(105), None, "802.11");
}
