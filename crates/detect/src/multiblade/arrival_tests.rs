//! Packets of a digitiser that restarts its clock every 20 ms, by a hand-driven host's clock.

use fullcount_core::batch::{Batch, Edge, Origin};
use fullcount_core::products::Products;
use proptest::prelude::*;

use crate::alone::Alone;
use crate::detector::{Detector, Kind, Setup, TimeBase};
use crate::multiblade::MultiBlade;

/// 2026-11-23.
const HOST: i64 = 1_795_392_000_000_000_000;
const MS: i64 = 1_000_000;
/// Ticks of 16 ns.
const TICK: i64 = 16;

fn detector(options: &str) -> Box<dyn Detector> {
    let time = TimeBase { now: true, ..TimeBase::default() };
    let setup = Setup { options: options.into(), time, ..Setup::default() };
    MultiBlade.configure(&setup).unwrap_or_else(|e| panic!("{e}"))
}

/// A packet of digitiser 137 whose readouts are each a wire and a strip at these local times, ns.
fn packet(times: &[i64]) -> Vec<u8> {
    let mut p = vec![0; 16];
    p.extend(137u32.to_le_bytes());
    p.extend([1, 0]);
    p.extend((2 * times.len() as u16).to_le_bytes());
    p.extend([1, 3]);
    p.extend([0; 6]);
    for time in times {
        for channel in [3u16, 35] {
            p.extend(((time / TICK) as u32).to_le_bytes());
            p.extend(channel.to_le_bytes());
            p.extend(900u16.to_le_bytes());
        }
    }
    p
}

/// Times of the events of packets that came at these times.
fn times(options: &str, packets: &[(i64, Vec<u8>)]) -> Vec<i64> {
    let detector = detector(options);
    let mut decoder = detector.alone();
    let mut products = Products::default();
    for (at, packet) in packets {
        let mut batch = Batch::with_slots(0, 0);
        batch.append(packet, Origin::NONE, *at, Edge::Datagram);
        decoder.decode(Some(&batch), None, &mut products);
    }
    decoder.finish(&mut products);
    products.events.absolute().map(|(at, _)| at).collect()
}

const US: i64 = 1600;

#[test]
fn a_packets_arrival_is_the_time_of_its_last_readout() {
    for options in ["", "clustering = \"fixed-window\""] {
        let first = (HOST, packet(&[4 * MS, 8 * MS]));
        // The same 20 ms, 0.3 ms late; then the next, on time.
        let second = (HOST + 10 * MS + 300_000, packet(&[18 * MS]));
        let third = (HOST + 16 * MS, packet(&[4 * MS]));
        let got = times(options, &[first, second, third]);
        assert_eq!(got, [HOST - 4 * MS, HOST, HOST + 10 * MS, HOST + 16 * MS], "{options}");
    }
}

#[test]
fn restarts_within_a_packet_end_where_the_next_begins() {
    let p = packet(&[50 * MS, MS]);
    assert_eq!(times("", &[(HOST, p)]), [HOST - MS, HOST]);
}

#[test]
fn an_earlier_beginning_is_a_better_one() {
    // The first packet was held up by 2 ms, the second was not.
    let packets = [(HOST + 2 * MS, packet(&[MS])), (HOST + 4 * MS, packet(&[5 * MS]))];
    assert_eq!(times("", &packets), [HOST + 2 * MS, HOST + 4 * MS]);
}

#[test]
fn a_host_clock_that_was_set_back_turns_no_time_back() {
    let each = (0..100).map(|n| (HOST + n * 20 * MS, packet(&[19 * MS])));
    let mut packets: Vec<_> = each.collect();
    packets[50..].iter_mut().for_each(|(at, _)| *at -= 3_600_000 * MS);
    let got = times("", &packets);
    assert!(got.is_sorted(), "{got:?}");
    assert!(got[99] > got[50] + 40 * 20 * MS);
}

proptest! {
    #[test]
    fn no_event_is_later_than_its_packet_and_nothing_panics(
        packets in prop::collection::vec((0i64..1 << 40, prop::collection::vec(0i64..60 * MS, 1..9)), 1..40),
    ) {
        let mut at = HOST;
        for (step, local) in packets {
            at += step;
            let (first, all) = (times("", &[(at, packet(&local))]), times("", &[(i64::MAX, packet(&local)), (i64::MIN, packet(&local))]));
            prop_assert!(first.iter().all(|time| *time <= at + US));
            prop_assert!(all.len() <= 2 * local.len());
        }
    }
}
