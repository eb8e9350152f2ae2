//! Tests of `sequence` traffic against the payload contract, field by field.

use super::*;
use proptest::prelude::*;

fn setup(sizes: &[usize], count: Option<u64>) -> SequenceSetup {
    SequenceSetup { sizes: sizes.to_vec(), seed: 1, count }
}

/// All packets, asked for in trains of `train`.
fn collect(traffic: &mut NumberedPackets, train: usize, at_most: usize) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while all.len() < at_most {
        let Some(p) = traffic.next_train(train.min(at_most - all.len()), 77) else { break };
        assert_eq!((p.bytes.len(), p.lane), (p.packets * p.stride, 0));
        all.extend(p.each().map(<[u8]>::to_vec));
    }
    all
}

#[test]
fn a_packet_written_out_by_hand() {
    let mut t = NumberedPackets::new(&setup(&[28], None)).unwrap();
    let stream = t.stream().to_le_bytes();
    t.next_train(2, 0).unwrap();
    let p = t.next_train(1, 0x0102_0304_0506_0708).unwrap();
    let mut want = b"FCSQ".to_vec();
    want.extend(stream);
    want.extend([2, 0, 0, 0, 0, 0, 0, 0]); // number 2
    want.extend([8, 7, 6, 5, 4, 3, 2, 1]); // time
    want.extend([88, 89, 90, 91]); // 2 + 24 ..
    assert_eq!(p.bytes, want);
    assert_eq!((p.stride, p.packets), (28, 1));
}

#[test]
fn five_end_marks_carry_the_total() {
    let mut t = NumberedPackets::new(&setup(&[32], Some(300))).unwrap();
    assert_eq!(collect(&mut t, 64, 1000).len(), 300);
    assert!(t.next_train(1, 0).is_none(), "the count is reached");
    let marks = t.end();
    assert_eq!(marks.len(), 5);
    for mark in marks {
        assert_eq!(mark.len(), 32);
        assert_eq!(&mark[..4], b"FCSQ");
        assert_eq!(mark[8..16], [0xff; 8]);
        assert_eq!(mark[16..24], [0x2c, 1, 0, 0, 0, 0, 0, 0], "300");
        assert_eq!(mark[24..], [248, 249, 250, 251, 252, 253, 254, 255], "7 x 32 + 24 = 248");
    }
    assert_eq!(t.totals(), TrafficTotals { packets: 300, bytes: 9600, events: 0 });
}

#[test]
fn the_seed_decides_the_stream_id() {
    let id = |seed| {
        NumberedPackets::new(&SequenceSetup { sizes: vec![64], seed, count: None })
            .unwrap()
            .stream()
    };
    assert_eq!(id(5), id(5));
    assert_ne!(id(5), id(6));
}

#[test]
fn impossible_sizes_are_refused_by_name() {
    let err = |s: &[usize]| NumberedPackets::new(&setup(s, None)).unwrap_err();
    assert_eq!(err(&[]), no_size());
    assert_eq!(err(&[64, 23]), size_refused(23));
    assert_eq!(err(&[65_508]), size_refused(65_508));
    assert_eq!(err(&vec![64; 65_537]), many_sizes(65_537));
    assert!(NumberedPackets::new(&setup(&[24, 65_507], None)).is_ok());
    assert!(NumberedPackets::new(&setup(&[64], None)).unwrap().next_train(0, 0).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn every_packet_is_right_for_any_sizes_and_train_lengths(
        sizes in proptest::collection::vec(prop_oneof![Just(24usize), Just(64), Just(200), 24usize..1500], 1..6),
        train in 1usize..700,
    ) {
        let mut t = NumberedPackets::new(&setup(&sizes, None)).unwrap();
        // 5,000 packets pass the end of a 64-byte ring (4,096 slots) and many of the shorter ones.
        let all = collect(&mut t, train, 5_000);
        prop_assert_eq!(all.len(), 5_000);
        for (number, p) in all.iter().enumerate() {
            prop_assert_eq!(p.len(), sizes[number % sizes.len()]);
            prop_assert_eq!(&p[..4], b"FCSQ");
            prop_assert_eq!(u64::from_le_bytes(p[8..16].try_into().unwrap()), number as u64);
            prop_assert_eq!(u64::from_le_bytes(p[16..24].try_into().unwrap()), 77);
            for (i, &b) in p.iter().enumerate().skip(24) {
                prop_assert_eq!(usize::from(b), (32 * number + i) % 256);
            }
        }
        let bytes: usize = all.iter().map(Vec::len).sum();
        prop_assert_eq!(t.totals(), TrafficTotals { packets: 5_000, bytes: bytes as u64, events: 0 });
    }
}
