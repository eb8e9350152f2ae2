//! Fragments against the format, bit by bit, and against the decoder.

use std::collections::BTreeMap;

use fullcount_core::simulator::{Simulator, TrafficOptions, TrafficOrder, conformance};
use fullcount_detect::fragments::block::FragmentBlock;
use fullcount_detect::fragments::fed::{Fed, checksum, ends};
use fullcount_detect::instructions::Instructions;

use super::*;

fn setup(sources: &[u16], size: usize) -> FragmentsSetup {
    let (sources, first) = (sources.to_vec(), NUMBERS - 5);
    FragmentsSetup { sources, size, first, wrong_crc: 0, throttling: 8, seed: 3 }
}

/// Fragments of each lane.
fn collect(
    traffic: &mut FragmentTraffic,
    packets: usize,
    ask: usize,
) -> BTreeMap<usize, Vec<Vec<u8>>> {
    let mut all: BTreeMap<usize, Vec<Vec<u8>>> = BTreeMap::new();
    while (traffic.totals().packets as usize) < packets {
        let train = traffic.next_train(ask, 0).unwrap();
        assert_eq!(train.bytes.len(), train.packets * train.stride);
        all.entry(train.lane).or_default().extend(train.each().map(<[u8]>::to_vec));
    }
    all
}

#[test]
fn it_passes_the_suite() {
    conformance::check(&FragmentsKind).unwrap();
}

#[test]
fn each_lane_has_every_event_with_a_right_checksum() {
    for (size, ask) in [(24, 1), (2048, 7), (4080, 64), (12_000, 3)] {
        let mut traffic = FragmentTraffic::new(&setup(&[512, 7], size));
        let all = collect(&mut traffic, 300, ask);
        assert!(all.len() == 2 && traffic.totals().events >= 100);
        for (lane, source) in [(0, 512), (1, 7)] {
            for (packet, event) in all[&lane].iter().zip(NUMBERS - 5..) {
                let event = (event % NUMBERS) as u32;
                let mut payload = Vec::new();
                for (n, bytes) in (0..).zip(packet.chunks(4096)) {
                    let block = FragmentBlock::parse(bytes).unwrap();
                    assert_eq!((block.source, block.event, block.number), (source, event, n));
                    payload.extend_from_slice(&bytes[16..]);
                }
                let (header, trailer) = ends([&payload[..]].into_iter()).unwrap();
                let fed = Fed::read(header, trailer).unwrap();
                assert_eq!((fed.source, fed.event, fed.len), (source, event, size as u64));
                assert_eq!(
                    fed.crc,
                    checksum([&payload[..]].into_iter(), Instructions::PORTABLE),
                    "{size} B, event {event}"
                );
            }
        }
    }
}

/// A count or a time may end anywhere in a round of the lanes.
#[test]
fn whatever_is_cut_ends_with_a_whole_event() {
    for (sources, ask) in [(1u16, 3), (2, 7), (16, 64), (16, 2048), (600, 2048)] {
        let ids: Vec<u16> = (0..sources).collect();
        for cut in [0usize, 1, 15, 16, 17, 100, 601, 1999] {
            let mut traffic = FragmentTraffic::new(&setup(&ids, 64));
            let mut left = cut;
            while left > 0 {
                left -= traffic.next_train(ask.min(left), 0).unwrap().packets;
            }
            let mut more = 0;
            while let Some(train) = traffic.remainder() {
                more += train.packets;
            }
            let totals = traffic.totals();
            let at = format!("{sources} sources, {cut} packets asked for in {ask}");
            assert_eq!(totals.packets, totals.events * u64::from(sources), "{at}");
            assert_eq!(totals.packets as usize, cut + more, "{at}");
            // At most the rest of a run; of a count that ends a call, the rest of one event.
            assert!(more < usize::from(sources) * MOST_IN_A_ROW as usize, "{at}: {more}");
            assert!(cut % usize::from(sources) != 0 || more == 0, "{at}: {more}");
        }
    }
}

#[test]
fn wishes_are_kept_and_impossible_ones_refused() {
    let of = |given: &[(&str, &str)]| {
        let options = TrafficOptions::of(given);
        FragmentsSetup::of(&TrafficOrder::of(&options, 1)).map_err(|e| e.to_string())
    };
    let setup = of(&[
        ("sources", "3"),
        ("first-source", "9"),
        ("missing-source", "10"),
        ("doubled-source", "9"),
    ]);
    assert_eq!(setup.unwrap().sources, [9, 11, 9]);
    for (given, told) in [
        (&[("sources", "0")][..], "sources: 0 is not possible: 1 to 4096"),
        (&[("fragment-size", "25")], "fragment-size: 25"),
        (&[("first-source", "4090")], "at most 6 sources from 4090 on"),
        (&[("missing-source", "99")], "missing-source: 99 is not possible: one of the sources"),
        (&[("sources", "1"), ("missing-source", "0")], "not the only source"),
        (&[("throttling", "16")], "throttling: 16 is not possible: 0 to 15"),
    ] {
        let said = of(given).unwrap_err();
        assert!(said.contains(told), "{said}");
    }
    let options = TrafficOptions::of(&[("wrong-crc", "2"), ("sources", "1")]);
    let mut made = FragmentsKind.make(&TrafficOrder::of(&options, 1)).unwrap();
    assert_eq!((made.ports.len(), made.packets_per_s), (1, None));
    let train = made.traffic.next_train(4, 0).unwrap();
    let right = |packet: &[u8]| {
        let payload = &packet[16..];
        let (header, trailer) = ends([payload].into_iter()).unwrap();
        Fed::read(header, trailer).unwrap().crc
            == checksum([payload].into_iter(), Instructions::PORTABLE)
    };
    assert_eq!(train.each().map(right).collect::<Vec<_>>(), [true, false, true, false]);
}

#[test]
fn every_fragment_says_the_throttling_state_with_a_right_checksum() {
    for state in [0, 4, 8, 15] {
        let setup = FragmentsSetup { throttling: state, ..setup(&[3], 64) };
        let mut traffic = FragmentTraffic::new(&setup);
        let train = traffic.next_train(3, 0).unwrap();
        for packet in train.each() {
            let payload = &packet[16..];
            let (header, trailer) = ends([payload].into_iter()).unwrap();
            let fed = Fed::read(header, trailer).unwrap();
            assert_eq!(
                (fed.throttling, fed.crc),
                (state, checksum([payload].into_iter(), Instructions::PORTABLE))
            );
        }
    }
}
