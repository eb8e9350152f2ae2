//! Fragments in any order make the datagram; hostile ones give nothing and are all counted.

use super::*;
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};

fn packet(payload: &[u8]) -> IpPacket<'_> {
    IpPacket {
        source: Ipv4Addr::new(10, 0, 0, 1).into(),
        destination: Ipv4Addr::new(10, 0, 0, 2).into(),
        protocol: 17,
        fragment: None,
        payload,
    }
}

fn part(ident: u32, offset: u32, more: bool) -> Fragment {
    Fragment { ident, offset, more }
}

fn balanced(t: FragmentTotals) -> bool {
    t.fragments == t.used + t.duplicate + t.refused + t.expired + t.evicted + t.waiting
}

/// A UDP datagram by hand: header without checksum, then counting bytes.
fn datagram(payload: usize) -> Vec<u8> {
    let mut d = vec![0x30, 0x39, 0x23, 0x28]; // 12345 to 9000
    d.extend_from_slice(&((payload + 8) as u16).to_be_bytes());
    d.extend_from_slice(&[0, 0]);
    d.extend((0..payload).map(|n| n as u8));
    d
}

#[test]
fn two_fragments_in_either_order() {
    let d = datagram(100);
    for order in [[0, 1], [1, 0]] {
        let mut r = Reassembler::new(ReassemblyLimits::default());
        let parts = [(part(7, 0, true), &d[..56]), (part(7, 56, false), &d[56..])];
        let (f, bytes) = parts[order[0]];
        assert_eq!(r.accept(&packet(bytes), f, 0), FragmentOutcome::Waiting);
        let (f, bytes) = parts[order[1]];
        let FragmentOutcome::Complete(whole) = r.accept(&packet(bytes), f, 1) else {
            panic!("not whole")
        };
        let udp = whole.udp().unwrap();
        assert_eq!((udp.source_port, udp.destination_port), (12345, 9000));
        assert_eq!(udp.payload, &d[8..]);
        let t = r.totals();
        assert_eq!((t.used, t.datagrams, t.waiting), (2, 1, 0));
    }
}

#[test]
fn idents_and_protocols_do_not_mix() {
    let d = datagram(100);
    let mut r = Reassembler::new(ReassemblyLimits::default());
    r.accept(&packet(&d[..56]), part(7, 0, true), 0);
    assert_eq!(r.accept(&packet(&d[56..]), part(8, 56, false), 0), FragmentOutcome::Waiting);
    let tcp = IpPacket { protocol: 6, ..packet(&d[56..]) };
    assert_eq!(r.accept(&tcp, part(7, 56, false), 0), FragmentOutcome::Waiting);
    assert_eq!(r.totals().waiting, 3);
}

#[test]
fn a_repeated_fragment_is_a_duplicate_and_a_changed_one_refuses_the_datagram() {
    let d = datagram(100);
    let mut r = Reassembler::new(ReassemblyLimits::default());
    r.accept(&packet(&d[..56]), part(7, 0, true), 0);
    assert_eq!(r.accept(&packet(&d[..56]), part(7, 0, true), 0), FragmentOutcome::Duplicate);
    let mut other = d[..56].to_vec();
    other[20] ^= 1;
    let refused = FragmentOutcome::Refused(FragmentFault::Overlap);
    assert_eq!(r.accept(&packet(&other), part(7, 0, true), 0), refused);
    assert_eq!(r.accept(&packet(&d[56..]), part(7, 56, false), 0), refused, "nor what is to come");
    let t = r.finish();
    assert_eq!((t.refused, t.duplicate, t.incomplete), (3, 1, 0));
    assert!(balanced(t));
}

#[test]
fn overlaps_and_contradicting_ends_are_refused() {
    let d = datagram(200);
    let cases: [(Fragment, std::ops::Range<usize>); 4] = [
        (part(1, 48, true), 48..72), // reaches into the first part
        (part(1, 8, false), 8..40),  // an end inside what is known
        (part(1, 0, true), 0..72),   // holds the first part
        (part(1, 0, false), 0..56),  // the same bytes as the end
    ];
    for (f, range) in cases {
        let mut r = Reassembler::new(ReassemblyLimits::default());
        r.accept(&packet(&d[..56]), part(1, 0, true), 0);
        let got = r.accept(&packet(&d[range]), f, 0);
        assert_eq!(got, FragmentOutcome::Refused(FragmentFault::Overlap), "{f:?}");
    }
    let mut r = Reassembler::new(ReassemblyLimits::default());
    r.accept(&packet(&d[104..208]), part(1, 104, false), 0);
    let got = r.accept(&packet(&d[200..208]), part(1, 208, true), 0);
    assert_eq!(got, FragmentOutcome::Refused(FragmentFault::Overlap), "behind the end");
}

#[test]
fn impossible_fragments_are_refused_alone() {
    let mut r = Reassembler::new(ReassemblyLimits::default());
    let refused = |f| FragmentOutcome::Refused(f);
    assert_eq!(r.accept(&packet(&[]), part(1, 0, true), 0), refused(FragmentFault::Empty));
    assert_eq!(r.accept(&packet(&[0; 9]), part(1, 0, true), 0), refused(FragmentFault::Ragged));
    assert_eq!(
        r.accept(&packet(&[0; 16]), part(1, 65_528, false), 0),
        refused(FragmentFault::TooLong)
    );
    assert_eq!(r.accept(&packet(&[0; 7]), part(1, 65_528, false), 0), FragmentOutcome::Waiting);
    assert_eq!(r.totals().refused, 3);
}

#[test]
fn old_datagrams_expire_and_the_oldest_goes_when_there_are_too_many() {
    let d = datagram(100);
    let mut r = Reassembler::new(ReassemblyLimits { datagrams: 2, expiry_ns: 100 });
    r.accept(&packet(&d[..56]), part(1, 0, true), 0);
    r.accept(&packet(&d[56..104]), part(1, 56, true), 100);
    assert_eq!(r.totals().expired, 0, "at the limit it still lives");
    r.accept(&packet(&d[..56]), part(2, 0, true), 101);
    assert_eq!((r.totals().expired, r.totals().incomplete), (2, 1));
    r.accept(&packet(&d[..56]), part(3, 0, true), 102);
    r.accept(&packet(&d[..56]), part(4, 0, true), 103);
    assert_eq!((r.totals().evicted, r.totals().waiting), (1, 2));
    r.expire(-1_000);
    assert_eq!(r.totals().waiting, 0, "a clock that jumps back expires too");
    assert!(balanced(r.totals()));
}

#[test]
fn ipv6_takes_the_protocol_of_the_first_fragment_and_walks_its_headers() {
    let mut d = vec![17, 0, 0, 0, 0, 0, 0, 0]; // destination options, 8 bytes
    d.extend(datagram(40));
    let v6 = |payload, protocol| IpPacket {
        source: Ipv6Addr::LOCALHOST.into(),
        destination: Ipv6Addr::LOCALHOST.into(),
        protocol,
        fragment: None,
        payload,
    };
    let mut r = Reassembler::new(ReassemblyLimits::default());
    r.accept(&v6(&d[48..], 99), part(1 << 20, 48, false), 0);
    let last = r.accept(&v6(&d[..48], 60), part(1 << 20, 0, true), 0);
    let FragmentOutcome::Complete(whole) = last else { panic!("not whole") };
    assert_eq!(whole.udp().unwrap().payload.len(), 40);
    let nested = Assembled { protocol: 44, bytes: vec![17, 0, 0, 1, 0, 0, 0, 1, 0], ..whole };
    assert_eq!(nested.udp(), Err(FrameRefusal::Extension));
}

proptest! {
    #[test]
    fn any_order_with_copies_makes_the_datagram(
        len in 1usize..5_000, step in 1usize..200, seed in any::<[u8; 32]>(),
    ) {
        let d = datagram(len);
        let step = step * 8;
        let count = d.len().div_ceil(step);
        let mut order: Vec<usize> = (0..count).chain(0..count / 2).collect();
        // Fisher-Yates with the bytes of the seed.
        for k in (1..order.len()).rev() {
            order.swap(k, (usize::from(seed[k % 32]) * 257 + k * 7) % (k + 1));
        }
        let mut r = Reassembler::new(ReassemblyLimits::default());
        let mut whole = None;
        for k in order {
            let range = k * step..d.len().min((k + 1) * step);
            let f = part(9, (k * step) as u32, k + 1 < count);
            if let FragmentOutcome::Complete(w) = r.accept(&packet(&d[range]), f, 0) {
                whole.get_or_insert(w);
            }
            prop_assert!(balanced(r.totals()));
        }
        let whole = whole.expect("every part was there");
        prop_assert_eq!(&whole.bytes, &d);
    }

    #[test]
    fn hostile_fragments_are_accounted_for(
        parts in proptest::collection::vec(
            (0u32..3, 0u32..40, 0usize..70, any::<bool>(), any::<bool>(), 0i64..50), 0..80,
        ),
    ) {
        let mut r = Reassembler::new(ReassemblyLimits { datagrams: 2, expiry_ns: 20 });
        let mut now = 0;
        for (ident, at, len, more, odd, later) in parts {
            now += later;
            let bytes = vec![if odd { 1 } else { 0 }; len];
            if let FragmentOutcome::Complete(w) = r.accept(&packet(&bytes), part(ident, at * 8, more), now) {
                prop_assert!(w.bytes.len() <= LONGEST as usize);
                let _ = w.udp();
                r.give_back(w.bytes);
            }
            prop_assert!(balanced(r.totals()), "{:?}", r.totals());
            prop_assert!(r.open.len() <= 2);
        }
        let t = r.finish();
        prop_assert!(balanced(t) && t.waiting == 0);
    }
}
