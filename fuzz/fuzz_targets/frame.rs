//! Any bytes as frames of any link type, through the reassembler: no panic, views inside the frame,
//! every fragment accounted for. The input is a list of frames: link type, time step, length, bytes.
#![no_main]

use fullcount_core::frame::reassembly::{FragmentOutcome, Reassembler, ReassemblyLimits};
use fullcount_core::frame::{Ethernet, LinkLayer};
use libfuzzer_sys::fuzz_target;

const LINKS: [LinkLayer; 5] = [
    LinkLayer::Ethernet,
    LinkLayer::Cooked,
    LinkLayer::Cooked2,
    LinkLayer::RawIp,
    LinkLayer::Loopback,
];

fuzz_target!(|input: &[u8]| {
    let mut reassembler = Reassembler::new(ReassemblyLimits { datagrams: 3, expiry_ns: 1_000 });
    let (mut rest, mut now) = (input, 0i64);
    while let [link, step, high, low, tail @ ..] = rest {
        let len = usize::from(u16::from_be_bytes([*high, *low])).min(tail.len());
        let (frame, behind) = tail.split_at(len);
        rest = behind;
        now = now.wrapping_add(i64::from(*step as i8));
        if let Ok(e) = Ethernet::parse(frame) {
            assert!(e.payload.len() + 14 <= frame.len());
        }
        let Ok(packet) = LINKS[usize::from(*link) % LINKS.len()].ip(frame) else { continue };
        assert!(packet.payload.len() <= frame.len());
        match packet.fragment {
            None => {
                if let Ok(udp) = packet.udp() {
                    assert!(udp.payload.len() + 8 <= packet.payload.len());
                    let _ = udp.verify(packet.source, packet.destination);
                }
            }
            Some(fragment) => {
                assert!(packet.udp().is_err());
                if let FragmentOutcome::Complete(whole) = reassembler.accept(&packet, fragment, now)
                {
                    assert!(whole.bytes.len() <= 65_535);
                    let _ = whole.udp().map(|u| u.verify(whole.source, whole.destination));
                    reassembler.give_back(whole.bytes);
                }
            }
        }
        let t = reassembler.totals();
        let out = t.used + t.duplicate + t.refused + t.expired + t.evicted + t.waiting;
        assert_eq!(t.fragments, out, "{t:?}");
    }
    assert_eq!(reassembler.finish().waiting, 0);
});
