//! Scripts for the reader: times over wraps and pulses, streams, workers.

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::{Entries, Ledger};
use fullcount_core::products::Products;
use fullcount_core::progress::Flush;
use fullcount_core::time::{Nanos, PulseGrid};
use proptest::prelude::*;

use crate::alone::Alone;
use crate::detector::{Decoder, Detector, Kind, Setup, TimeBase};
use crate::sonde::{Sonde, shift};

/// A 0xD6 packet, written out by hand: shares nothing with the decoder.
fn d6(system: u8, count: u16, header: u32, entries: &[(u32, u8)]) -> Vec<u8> {
    let mut p = vec![system, 0xd6];
    p.extend(count.to_be_bytes());
    p.extend(header.to_be_bytes());
    p.extend((1 + 5 * entries.len() as u16).to_be_bytes());
    p.push(entries.len() as u8);
    for (time, code) in entries {
        p.extend(time.to_be_bytes());
        p.push(*code);
    }
    p
}

fn detector(options: &str, time: TimeBase) -> Box<dyn Detector> {
    Sonde.configure(&Setup { options: options.into(), time, ..Setup::default() }).unwrap()
}

fn read(reader: &mut dyn Decoder, port: u16, packet: &[u8]) -> Vec<(i64, u32)> {
    let mut products = Products::default();
    let origin = Origin { ip: [9; 16], port };
    reader.decode(Some(&Batch::from_datagrams([(packet, origin)])), None, &mut products);
    products.events.absolute().collect()
}

fn counters(reader: &mut dyn Decoder) -> Entries {
    reader.finish(&mut Products::default());
    let ledger = Ledger::default();
    ledger.register(reader.sheets().remove(0));
    assert_eq!(ledger.read().balance(), 0);
    ledger.read()
}

#[test]
fn times_go_on_over_the_wrap_of_the_counter() {
    let mut reader = detector("", TimeBase::default()).alone();
    let near = u32::MAX - 9;
    assert_eq!(
        read(&mut *reader, 1, &d6(0, 0, near, &[(near, 0), (5, 0)])),
        [(i64::from(near), 32), ((1 << 32) + 5, 32)]
    );
    assert_eq!(
        read(&mut *reader, 1, &d6(0, 1, 20, &[(u32::MAX, 0), (30, 0)])),
        [(i64::from(u32::MAX), 32), ((1 << 32) + 30, 32)]
    );
}

#[test]
fn a_new_stream_joins_at_the_newest_time_also_of_another_worker() {
    let detector = detector("", TimeBase::default());
    let (mut a, mut b) = (detector.alone(), detector.alone());
    assert_eq!(read(&mut *a, 1, &d6(0, 0, 8, &[(8, 64)])), [(8, 1)]);
    for step in 1..=12u32 {
        read(&mut *a, 1, &d6(0, 0, 8u32.wrapping_add(step << 30), &[]));
    }
    // 3 wraps on.
    assert_eq!(read(&mut *a, 2, &d6(0, 0, 50, &[(50, 64)])), [((3 << 32) + 50, 1)]);
    assert_eq!(read(&mut *b, 3, &d6(0, 0, 60, &[(60, 64)])), [((3 << 32) + 60, 1)]);
}

#[test]
fn a_refused_packet_does_not_move_the_clock() {
    let mut reader = detector("", TimeBase::default()).alone();
    read(&mut *reader, 1, &d6(0, 0, 100, &[]));
    let mut damaged = d6(0, 1, 1 << 30, &[(1, 0)]);
    damaged[10] = 9;
    read(&mut *reader, 1, &damaged);
    read(&mut *reader, 1, &d6(0, 2, (1 << 31) + 99, &[]));
    let at = read(&mut *reader, 1, &d6(0, 3, (1 << 31) + 100, &[((1 << 31) + 100, 64)]));
    assert_eq!(at, [((1 << 31) + 100, 1)]);
    let entries = counters(&mut *reader);
    assert_eq!(entries.get("readouts.seq_errors"), Some(0), "but its count was seen");
}

#[test]
fn duplicates_are_counted_and_decoded_and_gaps_are_lost_at_the_end() {
    let mut reader = detector("", TimeBase::default()).alone();
    let send = |reader: &mut dyn Decoder, n| read(reader, 1, &d6(0, n, 0, &[(0, 64)])).len();
    let events: usize = [0, 1, 1, 3, 2, 6].map(|n| send(&mut *reader, n)).iter().sum();
    assert_eq!(events, 6);
    let entries = counters(&mut *reader);
    for (name, value) in [
        ("packets.duplicate", 1),
        ("packets.reordered", 1),
        ("packets.lost", 2),
        ("packets.late", 0),
        ("packets.restarts", 0),
        // Published rule: 1 again, 3 (gap 1), 2 (disorder), 6 (gap 3).
        ("readouts.seq_errors", 4),
        ("lost_packets", 4),
        ("readouts.out_of_order", 2),
        ("decode.accepted", 6),
        ("events.count", 6),
    ] {
        assert_eq!(entries.get(name), Some(value), "{name}");
    }
    assert!(entries.anything_lost());
}

/// Time of the event of a packet with this number and time.
fn event_time(reader: &mut dyn Decoder, port: u16, n: u16, time: u64) -> i64 {
    let raw = time as u32;
    read(reader, port, &d6(0, n, raw, &[(raw, 64)]))[0].0
}

#[test]
fn a_stream_that_somebody_else_had_for_a_while_goes_on_at_the_newest_time() {
    let mut reader = detector("", TimeBase::default()).alone();
    assert_eq!(event_time(&mut *reader, 1, 0, 1_000), 1_000);
    assert_eq!(event_time(&mut *reader, 2, 0, 1_100), 1_100);
    reader.flush(Flush::Taken, &mut Products::default());
    // Sender 1 goes on elsewhere; sender 2 comes to the third turn of the counter here.
    for n in 1..=9u16 {
        let time = u64::from(n) << 30;
        assert_eq!(event_time(&mut *reader, 2, n, time), time as i64, "{n}");
    }
    let time = (9 << 30) + 77;
    assert_eq!(event_time(&mut *reader, 1, 5_000, time), time as i64);
    let entries = counters(&mut *reader);
    assert_eq!((entries.get("packets.lost"), entries.get("lost_packets")), (Some(0), Some(0)));
    assert_eq!(entries.get("decode.streams"), Some(2), "each counts once");
}

#[test]
fn a_stream_that_nobody_else_had_goes_on_by_its_own_clock() {
    let mut reader = detector("", TimeBase::default()).alone();
    assert_eq!(event_time(&mut *reader, 1, 0, 1_000), 1_000);
    // Sender 2's packets come from a partition that is 4 s ahead: half a wrap is 2.1 s.
    for n in 0..5u16 {
        let time = u64::from(n) * 1_000_000_000;
        assert_eq!(event_time(&mut *reader, 2, n, time), time as i64);
    }
    reader.flush(Flush::Taken, &mut Products::default());
    assert_eq!(event_time(&mut *reader, 1, 3, 2_000), 2_000, "two are missing, nobody had 200");
    assert_eq!(event_time(&mut *reader, 2, 5, 4_000_000_100), 4_000_000_100);
}

#[test]
fn the_stream_that_was_silent_longest_goes_and_keeps_its_losses() {
    let mut reader = detector("max_streams = 2", TimeBase::default()).alone();
    // (1, 1) loses a packet; (1, 0) comes again, (1, 2) and (2, 0) come once.
    for (port, system, count) in
        [(1, 1, 9), (1, 1, 11), (1, 0, 9), (1, 0, 10), (1, 2, 9), (2, 0, 9)]
    {
        let got = read(&mut *reader, port, &d6(system, count, 0, &[(0, 64)]));
        assert_eq!(got, [(0, 1)]);
    }
    let sheet = reader.sheets().remove(0);
    let lost = sheet.lines().iter().position(|line| line.name == "packets.lost").unwrap();
    assert_eq!(sheet.get(lost), 1, "settled when its place was taken");
    assert_eq!(read(&mut *reader, 1, &d6(0, 12, 0, &[(0, 64)])).len(), 1);
    let entries = counters(&mut *reader);
    let wanted = [
        ("decode.streams", 4),
        ("decode.streams_reused", 2),
        ("packets.lost", 2),
        ("packets.missing", 0),
    ];
    for (name, value) in wanted {
        assert_eq!(entries.get(name), Some(value), "{name}");
    }
}

#[test]
fn strangers_who_come_once_each_change_nobodys_count_and_nobodys_time() {
    let mut reader = detector("max_streams = 64", TimeBase::default()).alone();
    let mut stranger = 0u16;
    let (mut events, mut expected) = (Vec::new(), Vec::new());
    for n in 0..400u32 {
        // 0.1 s a packet: the 32 bits wrap nine times. Number 200 is missing.
        let time = u64::from(n) * 100_000_000;
        if n != 200 {
            events.extend(read(
                &mut *reader,
                1,
                &d6(3, n as u16, time as u32, &[(time as u32, 64)]),
            ));
            expected.push((time as i64, 1));
        }
        // A sender is followed from its second packet on.
        for k in 0..if n == 0 { 0 } else { 100u32 } {
            stranger += 1;
            let far = (time as u32).wrapping_add(k << 25);
            read(&mut *reader, stranger + 1, &d6(3, stranger & 0x3fff, far, &[(far, 64)]));
        }
    }
    assert!(events == expected, "times of the real sender");
    // One that joins now does so at the real sender's time.
    let now = 399 * 100_000_000u64;
    assert_eq!(
        read(&mut *reader, 60_000, &d6(4, 0, now as u32, &[(now as u32, 64)])),
        [(now as i64, 1)]
    );
    let entries = counters(&mut *reader);
    assert_eq!((entries.get("packets.lost"), entries.get("packets.late")), (Some(1), Some(0)));
    assert_eq!(entries.get("decode.streams_reused"), Some(39_901 - 63));
}

#[test]
fn sequence_state_is_per_origin_and_system_unless_told_otherwise() {
    for (options, errors) in
        [("", 0), ("sequence_state = 'per_stream'", 0), ("sequence_state = 'one'", 3)]
    {
        let mut reader = detector(options, TimeBase::default()).alone();
        for (port, system, count) in [(1, 0, 5), (1, 1, 50), (2, 0, 500), (1, 0, 6)] {
            read(&mut *reader, port, &d6(system, count, 0, &[]));
        }
        assert_eq!(counters(&mut *reader).get("readouts.seq_errors"), Some(errors), "{options}");
    }
}

#[test]
fn options_are_refused_with_their_range() {
    let says = |options: &str| {
        let setup = Setup { options: options.to_owned(), ..Setup::default() };
        Sonde.configure(&setup).err().unwrap().to_string()
    };
    assert_eq!(says("max_streams = 0"), "detector.max_streams: 0 is not allowed: 1..=1048576");
    assert!(says("sequence_state = 'two'").contains(
        "detector: sequence_state = 'two': unknown variant `two`, expected `per_stream` or `one`"
    ));
    assert!(says("sequence = 1").contains("unknown field `sequence`"));
}

#[test]
fn a_shifted_recording_goes_on_without_a_gap() {
    let first: Vec<_> = (0..3u16)
        .map(|n| {
            d6(
                0,
                16382u16.wrapping_add(n) & 0x3fff,
                100 * u32::from(n),
                &[(100 * u32::from(n) + 7, 64)],
            )
        })
        .collect();
    let mut reader = detector("", TimeBase::default()).alone();
    let mut times = Vec::new();
    for repeat in 0..4u32 {
        for packet in &first {
            let mut packet = packet.clone();
            shift(&mut packet, 3 * repeat as u16, 300 * repeat);
            times.extend(read(&mut *reader, 1, &packet).iter().map(|e| e.0));
        }
    }
    assert_eq!(times, (0..12).map(|n| 100 * n + 7).collect::<Vec<i64>>());
    let entries = counters(&mut *reader);
    assert_eq!(entries.get("readouts.seq_errors"), Some(0));
    assert_eq!(entries.get("packets.lost"), Some(0));
}

proptest! {
    /// The reader's fast and exact ways against plain 64-bit arithmetic.
    #[test]
    fn events_are_where_plain_arithmetic_puts_them(
        start in 0u64..1 << 34, steps in proptest::collection::vec((0u64..1 << 29, 0u64..300), 1..20),
        spread in prop_oneof![Just(10u64), Just(1 << 20), Just(1 << 29)],
        codes in proptest::collection::vec(any::<u8>(), 1..50),
        period in prop_oneof![Just(71_428_571u64), Just(1 << 20), Just(1 << 30)],
    ) {
        let grid = PulseGrid::new(period, 1, Nanos(0)).unwrap();
        let time = TimeBase { grid, ..TimeBase::default() };
        let mut reader = detector("", time).alone();
        // Walk up to the start in steps that a reader can follow.
        let mut now = start % (1 << 30);
        while now < start {
            read(&mut *reader, 1, &d6(0, 0, now as u32, &[]));
            now += 1 << 30;
        }
        for (step, jitter) in steps {
            now += step;
            let at = |i: usize| now + jitter + (i as u64 * 7919) % spread;
            let entries: Vec<_> = codes.iter().enumerate().map(|(i, &c)| (at(i) as u32, c)).collect();
            let wanted: Vec<_> = codes.iter().enumerate().filter_map(|(i, &c)| {
                Some((at(i) as i64, crate::sonde::pixel::pixel(c >> 6, c & 63)?))
            }).collect();
            prop_assert_eq!(read(&mut *reader, 1, &d6(0, 0, now as u32, &entries)), wanted);
        }
    }
}
