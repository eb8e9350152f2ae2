//! The classic filter's verdicts, in an interpreter in this file.

use super::*;
use crate::dissect::made::{MadeDatagram, v4, v6};
use proptest::prelude::*;

/// Bytes of the frame that the program lets through; a load outside of the frame lets nothing
/// through, as in the kernel.
fn interpret(words: &[ClassicWord], frame: &[u8]) -> u32 {
    let (mut a, mut x, mut at) = (0u32, 0u32, 0usize);
    let load = |from: u32, n: usize| -> Option<u32> {
        let bytes = frame.get(from as usize..from as usize + n)?;
        Some(bytes.iter().fold(0, |v, b| v << 8 | u32::from(*b)))
    };
    loop {
        let (code, yes, no, k) = words[at];
        at += 1;
        let (loaded, to) = match code {
            0x20 => (load(k, 4), &mut a),
            0x28 => (load(k, 2), &mut a),
            0x30 => (load(k, 1), &mut a),
            0x48 => (load(x + k, 2), &mut a),
            0xb1 => (load(k, 1).map(|b| (b & 15) * 4), &mut x),
            0x15 | 0x45 => {
                let go = if code == 0x15 { a == k } else { a & k != 0 };
                at += usize::from(if go { yes } else { no });
                continue;
            }
            0x06 => return k,
            other => panic!("instruction {other:#x}"),
        };
        match loaded {
            Some(value) => *to = value,
            None => return 0,
        }
    }
}

#[test]
fn each_kind_of_frame_gets_its_verdict() {
    let tagged = |m: MadeDatagram| MadeDatagram { tags: vec![(0x8100, 3)], ..m }.frame();
    let mut fragment6 = v6(b"0123456789").frame();
    fragment6[20] = 44;
    fragment6[54] = 17;
    let (any, ours, other) = (None, "192.0.2.2".parse().ok(), "192.0.2.9".parse().ok());
    let (ours6, other6) = ("2001:db8::2".parse().ok(), "2001:db8::9".parse().ok());
    for (what, address, frame, verdict) in [
        ("IPv4", any, v4(b"x").frame(), WHOLE),
        ("IPv4, options", any, MadeDatagram { options: vec![1; 40], ..v4(b"x") }.frame(), WHOLE),
        ("IPv6", any, v6(b"x").frame(), WHOLE),
        ("tag", any, tagged(v4(b"x")), WHOLE),
        ("tag, IPv6", any, tagged(v6(b"x")), WHOLE),
        (
            "two tags",
            any,
            MadeDatagram { tags: vec![(0x88a8, 1), (0x8100, 2)], ..v4(b"x") }.frame(),
            0,
        ),
        ("other port", any, MadeDatagram { port: 9001, ..v4(b"x") }.frame(), 0),
        ("other port, IPv6", any, MadeDatagram { port: 9001, ..v6(b"x") }.frame(), 0),
        ("TCP", any, MadeDatagram { protocol: 6, ..v4(b"x") }.frame(), 0),
        ("TCP, IPv6", any, MadeDatagram { protocol: 6, ..v6(b"x") }.frame(), 0),
        ("first fragment", any, MadeDatagram { place: 0x2000, ..v4(b"x") }.frame(), HEADERS),
        ("last fragment", any, MadeDatagram { place: 0x0010, ..v4(b"x") }.frame(), HEADERS),
        ("IPv6 fragment", any, fragment6, HEADERS),
        ("our address", ours, v4(b"x").frame(), WHOLE),
        ("other address", other, v4(b"x").frame(), 0),
        ("other version", ours6, v4(b"x").frame(), 0),
        ("our IPv6 address", ours6, v6(b"x").frame(), WHOLE),
        ("other IPv6 address", other6, v6(b"x").frame(), 0),
        ("other version", ours, v6(b"x").frame(), 0),
    ] {
        let got = interpret(&program(9000, address), &frame);
        assert_eq!(got, verdict, "{what}");
    }
}

proptest! {
    #[test]
    fn random_bytes_get_a_verdict(mut frame in prop::collection::vec(any::<u8>(), 0..90), kind in 0usize..3) {
        if let Some(place) = frame.get_mut(12..14) {
            place.copy_from_slice(&[[0x08, 0x00], [0x86, 0xdd], [0x81, 0x00]][kind]);
        }
        let got = interpret(&program(9000, None), &frame);
        prop_assert!([0, HEADERS, WHOLE].contains(&got));
    }
}
