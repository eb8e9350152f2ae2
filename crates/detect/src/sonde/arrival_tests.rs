//! Scripts for receive times: streams read apart, silences, clocks that were set, recordings at another speed.

use fullcount_core::batch::{Batch, Edge, Origin};
use fullcount_core::products::Products;
use fullcount_core::progress::Flush;
use fullcount_core::time::TickLength;
use proptest::prelude::*;

use super::*;
use crate::alone::Alone;
use crate::detector::{Decoder, Detector, Kind, Setup, TimeBase};
use crate::sonde::Sonde;

/// 2026-01-01, ns since 1970.
const BEGIN: i64 = 1_767_225_600_000_000_000;
const SECOND: i64 = 1_000_000_000;

/// A 0xD6 packet with one event at its own header time, in pixel 1.
fn d6(count: u64, ticks: i64) -> Vec<u8> {
    let mut p = vec![0, 0xd6];
    p.extend(((count & 0x3fff) as u16).to_be_bytes());
    p.extend((ticks as u32).to_be_bytes());
    p.extend([0, 6, 1]);
    p.extend((ticks as u32).to_be_bytes());
    p.push(64);
    p
}

fn detector(tick: Option<TickLength>) -> Box<dyn Detector> {
    let time = TimeBase { tick, ..TimeBase::default() };
    Sonde.configure(&Setup { time, ..Setup::default() }).unwrap()
}

/// One packet of a sender: true time of its event in ticks, and when it came.
#[derive(Debug, Clone, Copy)]
struct Sent {
    port: u16,
    count: u64,
    ticks: i64,
    came: i64,
}

/// `seconds` of one sender, a packet each `step` ns.
fn sender(port: u16, begin: i64, seconds: i64, step: i64) -> Vec<Sent> {
    let one = |n: i64| {
        let at = begin + n * step + i64::from(port);
        Sent { port, count: n as u64, ticks: at, came: BEGIN + at + 50_000 }
    };
    (0..seconds * SECOND / step).map(one).collect()
}

fn read(reader: &mut dyn Decoder, sent: &[Sent], apart: bool) -> Vec<i64> {
    let mut times = Vec::new();
    for some in sent.chunks(7) {
        let mut batch = Batch::with_slots(0, 0);
        for s in some {
            let origin = Origin { ip: [9; 16], port: s.port };
            batch.append(&d6(s.count, s.ticks), origin, s.came, Edge::Datagram);
        }
        batch.read_apart(apart);
        let mut products = Products::default();
        reader.decode(Some(&batch), None, &mut products);
        times.extend(products.events.absolute().map(|(at, _)| at));
    }
    times
}

fn begin(detector: &dyn Detector, all: &[Sent]) {
    let first = all.iter().min_by_key(|s| s.came).expect("some");
    assert_eq!(detector.turns_from(&[1, 2, 3], first.came), None, "no packet");
    let from = detector.turns_from(&d6(first.count, first.ticks), first.came).expect("a packet");
    assert_eq!((from.time_ns, from.ticks), (first.came, i64::from(first.ticks as u32)));
    detector.count_turns(from);
}

fn right(sent: &[Sent]) -> Vec<i64> {
    sent.iter().map(|s| s.ticks).collect()
}

#[test]
fn senders_that_are_read_one_after_the_other_stand_at_their_times() {
    // 12 s of four senders are nearly three turns; the last one begins late.
    let mut all: Vec<Vec<Sent>> = (1..=3).map(|p| sender(p, SECOND, 12, SECOND / 10)).collect();
    all.push(sender(4, 9 * SECOND, 4, SECOND / 10));
    let flat: Vec<Sent> = all.concat();
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]] {
        let detector = detector(None);
        begin(&*detector, &flat);
        let mut reader = detector.alone();
        for at in order {
            assert_eq!(read(&mut *reader, &all[at], true), right(&all[at]), "{order:?}: {at}");
        }
        assert_eq!(reader.unsettled(), None);
    }
}

#[test]
fn a_late_reader_counts_turns_from_the_first_packet_of_the_recording() {
    let all = sender(1, 0, 60, SECOND / 4);
    for from in [1, 30, 100, 200] {
        let detector = detector(None);
        begin(&*detector, &all);
        // All that is there was read before: it follows what comes.
        assert_eq!(read(&mut *detector.alone(), &all[from..], false), right(&all[from..]));
    }
}

#[test]
fn a_stream_that_was_somebody_elses_comes_back_at_its_time() {
    let (a, b) = (sender(1, 0, 40, SECOND / 4), sender(2, 0, 40, SECOND / 4));
    let detector = detector(None);
    begin(&*detector, &a);
    let mut reader = detector.alone();
    assert_eq!(read(&mut *reader, &a[..20], true), right(&a[..20]));
    assert_eq!(read(&mut *reader, &b[..20], true), right(&b[..20]));
    reader.flush(Flush::Taken, &mut Products::default());
    // Sender 2 is 26 s further on; its number could be any.
    assert_eq!(read(&mut *reader, &b[124..], true), right(&b[124..]));
    assert_eq!(read(&mut *reader, &a[20..], true), right(&a[20..]));
}

#[test]
fn without_receive_times_more_than_half_a_turn_apart_is_refused_and_less_is_not() {
    let untimed = |mut sent: Vec<Sent>| {
        sent.iter_mut().for_each(|s| s.came = 0);
        sent
    };
    for (seconds, refused) in [(2, false), (4, true)] {
        let mut reader = detector(None).alone();
        for port in 1..=2 {
            read(&mut *reader, &untimed(sender(port, 0, seconds, SECOND / 10)), true);
        }
        assert_eq!(reader.unsettled().is_some(), refused, "{seconds} s");
        let said = reader.unsettled().unwrap_or("fc.time_ns partitions= output.raw");
        assert!(["fc.time_ns", "partitions=", "output.raw"].iter().all(|w| said.contains(w)));
    }
    // One sender has one order, and so have those of a live source.
    let mut reader = detector(None).alone();
    let one = untimed(sender(1, 0, 20, SECOND / 10));
    assert_eq!(read(&mut *reader, &one, true), right(&one));
    assert_eq!(reader.unsettled(), None);
    let mut reader = detector(None).alone();
    for port in 1..=2 {
        read(&mut *reader, &untimed(sender(port, 0, 20, SECOND / 10)), false);
    }
    assert_eq!(reader.unsettled(), None);
}

/// The same packets, recorded while they were sent `times` as fast.
fn faster(sent: &[Sent], times: i64) -> Vec<Sent> {
    let at = |s: &Sent| BEGIN + (s.came - BEGIN) / times;
    sent.iter().map(|s| Sent { came: at(s), ..*s }).collect()
}

#[test]
fn a_recording_at_another_speed_is_placed_by_its_neighbours_or_refused() {
    let slow = |port| faster(&sender(port, 0, 30, SECOND / 10), 10);
    let (a, b) = (slow(1), slow(2));
    let detector_ = detector(None);
    begin(&*detector_, &a);
    let mut reader = detector_.alone();
    assert_eq!(read(&mut *reader, &a, true), right(&a));
    assert_eq!(read(&mut *reader, &b[100..], true), right(&b[100..]), "beside the first");
    assert_eq!(reader.unsettled(), None);
    // Where nothing was read of that time, nothing tells, and that is found out.
    let long = |port| faster(&sender(port, 0, 90, SECOND / 10), 10);
    let detector_ = detector(None);
    begin(&*detector_, &long(1));
    let mut reader = detector_.alone();
    read(&mut *reader, &long(2)[300..], true);
    let said = reader.unsettled().expect("refused");
    assert!(said.contains("do not go with the receive times"), "{said}");
}

#[test]
fn a_stall_is_bridged_by_receive_times_that_went_with_the_ticks_before() {
    let all = sender(1, 0, 60, SECOND / 10);
    // 3 s were seen; then the host stood still for 1, 3, 11 or 50 s.
    for gone in [10, 30, 110, 500] {
        let sent = [&all[..30], &all[30 + gone..]].concat();
        let mut reader = detector(None).alone();
        assert_eq!(read(&mut *reader, &sent, false), right(&sent), "{gone}");
        // A sender that is heard only then joins beside the others.
        let mut reader = detector(None).alone();
        read(&mut *reader, &all[..30], false);
        let new: Vec<Sent> = all[30 + gone..].iter().map(|s| Sent { port: 2, ..*s }).collect();
        assert_eq!(read(&mut *reader, &new, false), right(&new), "{gone}");
    }
}

#[test]
fn the_tick_is_the_detectors() {
    let tick = TickLength::new(8, 1);
    let seconds = |port| -> Vec<Sent> {
        let ticks = |s: Sent| Sent { ticks: s.ticks / 8, ..s };
        sender(port, 0, 90, SECOND / 2).into_iter().map(ticks).collect()
    };
    let right: Vec<i64> = seconds(1).iter().map(|s| s.ticks * 8).collect();
    let detector = detector(tick);
    assert_eq!(detector.turning_clock().unwrap().turn_ns, 8 << 32);
    begin(&*detector, &seconds(1));
    let mut reader = detector.alone();
    for port in 1..=3 {
        let got = read(&mut *reader, &seconds(port), true);
        assert!(got.iter().zip(&right).all(|(a, b)| a.abs_diff(*b) <= 8), "{port}");
    }
}

#[test]
fn recorded_times_that_contradict_the_ticks_change_nothing() {
    let all = sender(1, 0, 30, SECOND / 10);
    let right = right(&all);
    let usual = |sent: &[Sent]| {
        let mut reader = detector(None).alone();
        assert_eq!(read(&mut *reader, sent, false), right);
        assert_eq!(reader.unsettled(), None);
    };
    for times in [3, 10, 100] {
        usual(&faster(&all, times));
    }
    // Slower, with more than half a turn of receive time from packet to packet.
    let slower: Vec<Sent> =
        all.iter().map(|s| Sent { came: BEGIN + 30 * (s.came - BEGIN), ..*s }).collect();
    usual(&slower);
    // The host's clock was set by what is no whole number of turns.
    for set in [-3600 * SECOND, 3600 * SECOND, 1_500_000_000 + (1 << 32)] {
        let came = |(at, s): (usize, &Sent)| if at < 150 { s.came } else { s.came + set };
        let stepped: Vec<Sent> =
            all.iter().enumerate().map(|s| Sent { came: came(s), ..*s.1 }).collect();
        usual(&stepped);
    }
    // A sender that begins anew while it is silent.
    let began: Vec<Sent> = all.iter().map(|s| Sent { came: s.came + 60 * SECOND, ..*s }).collect();
    let mut reader = detector(None).alone();
    read(&mut *reader, &all[..20], false);
    assert_eq!(read(&mut *reader, &began[..5], false)[0], began[0].ticks);
}

#[test]
fn points_are_bounded_and_their_thinning_loses_no_turn() {
    let mut arrivals = Arrivals::new(TickLength::NANOSECOND);
    arrivals.begin(true, Some(Point { time_ns: BEGIN, ticks: 0 }));
    let many = 2 * MOST_POINTS as i64;
    let mut pace = Pace::default();
    for n in 0..many {
        let ticks = 2 * SECOND * n;
        arrivals.at(BEGIN + ticks);
        arrivals.placed(&mut pace, HeaderTime { raw: ticks as u32, ticks }, true);
        assert!(arrivals.points.len() <= MOST_POINTS + 1);
    }
    for n in (0..many).step_by(997) {
        let ticks = 2 * SECOND * n;
        arrivals.at(BEGIN + ticks + 1000);
        assert_eq!(arrivals.place(ticks as u32).ticks, ticks);
    }
    assert!(arrivals.points.is_sorted_by_key(|p| p.time_ns));
}

proptest! {
    /// However the partitions are read in turn, each event is where its sender had it.
    #[test]
    fn the_order_of_reading_does_not_matter(
        begins in proptest::collection::vec(0i64..20, 2..5),
        turns in proptest::collection::vec((any::<prop::sample::Index>(), 1usize..60), 1..40),
    ) {
        let mut all: Vec<Vec<Sent>> = begins
            .iter()
            .zip(1..)
            .map(|(&begin, port)| sender(port, begin * SECOND, 15, SECOND / 5))
            .collect();
        let flat = all.concat();
        let detector = detector(None);
        let first = flat.iter().min_by_key(|s| s.came).unwrap();
        detector.count_turns(detector.turns_from(&d6(first.count, first.ticks), first.came).unwrap());
        // The first header stands at its raw value.
        let shift = first.ticks - i64::from(first.ticks as u32);
        let mut reader = detector.alone();
        for (which, many) in turns {
            let sent = &mut all[which.index(begins.len())];
            let some: Vec<Sent> = sent.drain(..many.min(sent.len())).collect();
            let wanted: Vec<i64> = some.iter().map(|s| s.ticks - shift).collect();
            prop_assert_eq!(read(&mut *reader, &some, true), wanted);
        }
        prop_assert_eq!(reader.unsettled(), None);
    }
}
