//! Scripts for the reader: these packets in this order, these counters and nothing else.

use std::collections::BTreeMap;

use super::*;
use crate::alone::Alone;
use crate::detector::{Kind, Setup, Sharding};
use crate::sequence::Sequence;
use fullcount_core::batch::Edge;
use fullcount_core::ledger::{Entries, Ledger};

/// Written out by hand: shares nothing with the decoder.
fn packet(stream: u32, number: u64, time: u64, len: usize) -> Vec<u8> {
    let mut p = vec![0x46, 0x43, 0x53, 0x51];
    p.extend(stream.to_le_bytes());
    p.extend(number.to_le_bytes());
    p.extend(time.to_le_bytes());
    p.extend((24..len).map(|i| (number as u8).wrapping_mul(32).wrapping_add(i as u8)));
    p
}

fn data(stream: u32, numbers: impl IntoIterator<Item = u64>) -> Vec<Vec<u8>> {
    numbers.into_iter().map(|n| packet(stream, n, 1000 + n, 64)).collect()
}

struct Run {
    reader: Box<dyn Decoder>,
    ledger: Ledger,
}

impl Run {
    fn new(options: &str) -> Run {
        let setup = Setup { options: options.into(), ..Setup::default() };
        let reader = Sequence.configure(&setup).unwrap().alone();
        let ledger = Ledger::default();
        ledger.register(reader.sheets().remove(0));
        Run { reader, ledger }
    }

    fn send(&mut self, packets: &[Vec<u8>]) -> &mut Run {
        self.send_from(packets.iter().map(|p| (Origin::NONE, p.clone())))
    }

    fn send_from(&mut self, packets: impl IntoIterator<Item = (Origin, Vec<u8>)>) -> &mut Run {
        let mut batch = Batch::with_slots(0, 0);
        for (origin, p) in packets {
            batch.append(&p, origin, 3000, Edge::Datagram);
        }
        self.reader.decode(Some(&batch), None, &mut Products::default());
        self
    }

    fn finish(&mut self) -> Entries {
        self.reader.finish(&mut Products::default());
        self.ledger.read()
    }
}

/// Counters that are not 0, by name.
fn counted(entries: &Entries) -> BTreeMap<String, u64> {
    assert_eq!(entries.balance(), 0, "{:?}", entries.hops());
    entries.iter().filter(|e| e.value > 0).map(|e| (e.info.name.to_string(), e.value)).collect()
}

#[track_caller]
fn expect(entries: &Entries, wanted: &[(&str, u64)]) {
    let wanted = wanted.iter().map(|&(n, v)| (n.to_owned(), v)).collect();
    assert_eq!(counted(entries), wanted);
}

#[test]
fn a_complete_stream_ends_with_its_first_mark() {
    let mut run = Run::new("");
    run.send(&data(1, 0..1000));
    assert_eq!(run.reader.ended_streams(), 0);
    run.send(&[packet(1, u64::MAX, 1000, 64)]);
    assert!(run.reader.ended_streams() > 0);
    run.send(&vec![packet(1, u64::MAX, 1000, 64); 4]);
    let wanted = [
        ("decode.packets", 1005),
        ("decode.accepted", 1000),
        ("decode.end_marks", 5),
        ("packets.announced", 1000),
        ("packets.announced.delivered", 1000),
        ("decode.streams", 1),
    ];
    expect(&run.finish(), &wanted);
}

#[test]
fn a_lost_tail_is_known_from_the_mark() {
    let mut run = Run::new("");
    run.send(&data(1, 0..90)).send(&[packet(1, u64::MAX, 100, 24)]);
    assert_eq!(run.reader.ended_streams(), 0, "one mark may have overtaken the last packets");
    run.send(&data(1, [95, 90])).send(&[packet(1, u64::MAX, 100, 24)]);
    assert!(run.reader.ended_streams() > 0);
    let wanted = [
        ("decode.packets", 94),
        ("decode.accepted", 92),
        ("decode.end_marks", 2),
        ("packets.lost", 8),
        ("packets.announced", 100),
        ("packets.announced.delivered", 92),
        ("packets.announced.lost", 8),
        ("packets.reordered", 1),
        ("decode.streams", 1),
    ];
    expect(&run.finish(), &wanted);
}

#[test]
fn one_mark_alone_still_accounts_for_the_tail_at_the_end() {
    let mut run = Run::new("");
    run.send(&data(1, 0..10)).send(&[packet(1, u64::MAX, 15, 24)]);
    assert_eq!(run.finish().get("packets.lost"), Some(5));
    assert_eq!(run.finish().get("packets.lost"), Some(5), "only once");
}

#[test]
fn a_million_packets_with_faults_are_reported_exactly() {
    // 100 dropped, 100 duplicated, 100 neighbour pairs swapped, all apart from each other.
    let mut numbers: Vec<u64> = Vec::new();
    let mut n = 0;
    while n < 1_000_000 {
        match (n / 10_000, n % 10_000) {
            (_, 1000) => {}
            (_, 2000) => numbers.extend([n, n]),
            (_, 3000) => {
                numbers.extend([n + 1, n]);
                n += 1;
            }
            _ => numbers.push(n),
        }
        n += 1;
    }
    let mut run = Run::new("");
    for part in numbers.chunks(5000) {
        run.send(&data(9, part.iter().copied()));
    }
    run.send(&[packet(9, u64::MAX, 1_000_000, 24)]);
    let entries = run.finish();
    let wanted = [
        ("decode.packets", 1_000_001),
        ("decode.accepted", 999_900),
        ("decode.copies", 100),
        ("decode.end_marks", 1),
        ("packets.lost", 100),
        ("packets.announced", 1_000_000),
        ("packets.announced.delivered", 999_900),
        ("packets.announced.lost", 100),
        ("packets.duplicate", 100),
        ("packets.reordered", 100),
        ("decode.streams", 1),
    ];
    expect(&entries, &wanted);
}

#[test]
fn a_late_join_is_down_time_and_a_lost_head_is_lost() {
    let mut run = Run::new("");
    run.send(&data(1, 100_000..100_010)).send(&data(2, 3..10));
    let entries = run.finish();
    assert_eq!(entries.get("packets.lost.down"), Some(100_000));
    assert_eq!(entries.get("packets.lost"), Some(3));
    assert_eq!(entries.get("decode.streams"), Some(2));
}

#[test]
fn a_sender_that_begins_anew_delivers_all_of_its_second_run() {
    let mut run = Run::new("");
    run.send(&data(1, 0..50)).send(&vec![packet(1, u64::MAX, 50, 24); 5]);
    assert!(run.reader.ended_streams() > 0);
    run.send(&data(1, 0..70));
    assert_eq!(run.reader.ended_streams(), 0);
    run.send(&vec![packet(1, u64::MAX, 70, 24); 5]);
    assert!(run.reader.ended_streams() > 0);
    let wanted = [
        ("decode.packets", 130),
        ("decode.accepted", 120),
        ("decode.end_marks", 10),
        ("packets.announced", 120),
        ("packets.announced.delivered", 120),
        ("packets.restarts", 1),
        ("decode.streams", 1),
    ];
    expect(&run.finish(), &wanted);
}

#[test]
fn all_streams_must_end() {
    let mut run = Run::new("");
    run.send(&data(1, 0..5)).send(&data(2, 0..5)).send(&[packet(1, u64::MAX, 5, 24)]);
    assert_eq!(run.reader.ended_streams(), 0);
    run.send(&[packet(2, u64::MAX, 5, 24)]);
    assert!(run.reader.ended_streams() > 0);
}

#[test]
fn every_refusal_has_its_counter_and_a_refused_number_is_not_also_lost() {
    let mut run = Run::new("verify = true");
    let mut bad = packet(1, 1, 0, 64);
    bad[40] ^= 1;
    let mut magic = packet(1, 2, 0, 64);
    magic[0] = 0x47;
    let number = packet(1, 1 << 56, 0, 24);
    let total = packet(1, u64::MAX, u64::MAX, 24);
    run.send(&[packet(1, 0, 0, 64), bad, magic, number, total, vec![0x46; 23]]);
    run.send(&[packet(1, 2, 0, 24)]);
    let wanted = [
        ("decode.packets", 7),
        ("decode.accepted", 2),
        ("errors.bad_size.short_packet", 1),
        ("errors.header.magic", 1),
        ("errors.header.number", 2),
        ("errors.payload.pattern", 1),
        ("decode.streams", 1),
    ];
    expect(&run.finish(), &wanted);
}

/// A sender at a port of one of two addresses.
fn sender(host: u8, port: u16) -> Origin {
    std::net::SocketAddr::from(([192, 0, 2, host], port)).into()
}

#[test]
fn senders_with_one_stream_id_are_apart_by_address_and_port() {
    let senders = [sender(1, 5000), sender(1, 5001), sender(2, 5000)];
    // Their packets come in turn; each loses another number and sends another total.
    let all = (0..300u64).flat_map(|n| {
        let each = senders.into_iter().zip([100u64, 200, 300]);
        let sends = each.filter(move |&(_, total)| n < total && n != total / 2);
        sends.map(move |(from, _)| (from, packet(7, n, 1000, 64)))
    });
    let marks = senders.into_iter().zip([100u64, 200, 300]);
    let marks = marks.flat_map(|(from, total)| vec![(from, packet(7, u64::MAX, total, 64)); 2]);
    let (all, marks): (Vec<_>, Vec<_>) = (all.collect(), marks.collect());

    let mut run = Run::new("");
    run.send_from(all.clone());
    run.send_from(marks[..4].to_vec());
    assert_eq!(run.reader.ended_streams(), 0, "the third has not ended");
    run.send_from(marks[4..].to_vec());
    assert!(run.reader.ended_streams() > 0);
    let wanted = [
        ("decode.packets", 603),
        ("decode.accepted", 597),
        ("decode.end_marks", 6),
        ("packets.lost", 3),
        ("packets.announced", 600),
        ("packets.announced.delivered", 597),
        ("packets.announced.lost", 3),
        ("decode.streams", 3),
    ];
    expect(&run.finish(), &wanted);

    // The same packets with the id alone as key: one stream, and most are copies.
    let mut run = Run::new("key = \"id\"");
    let entries = run.send_from(all).finish();
    assert_eq!(entries.get("decode.streams"), Some(1));
    assert_eq!(
        (entries.get("decode.accepted"), entries.get("decode.copies")),
        (Some(300), Some(297))
    );
}

#[test]
fn a_stream_over_two_paths_is_one_stream_if_the_id_alone_is_the_key() {
    let (first, second) = (sender(1, 5000), sender(2, 5000));
    let mut run = Run::new("key = \"id\"");
    // Each path loses what the other delivers.
    let over = |path, lost| {
        let numbers = (0..100u64).filter(move |n| n % 10 != lost);
        numbers.map(move |n| (path, packet(7, n, 1000, 64)))
    };
    let mut both: Vec<_> = over(first, 3).chain(over(second, 7)).collect();
    both.sort_by_key(|(path, p)| (p[8], *path));
    run.send_from(both);
    run.send_from([(first, packet(7, u64::MAX, 100, 24)), (second, packet(7, u64::MAX, 100, 24))]);
    assert!(run.reader.ended_streams() > 0);
    let wanted = [
        ("decode.packets", 182),
        ("decode.accepted", 100),
        ("decode.copies", 80),
        ("decode.end_marks", 2),
        ("packets.announced", 100),
        ("packets.announced.delivered", 100),
        ("packets.duplicate", 80),
        ("decode.streams", 1),
    ];
    expect(&run.finish(), &wanted);
}

#[test]
fn a_sender_that_begins_anew_at_another_port_is_a_stream_of_its_own() {
    let mut run = Run::new("");
    let at = |port, from: u64, to: u64| {
        data(7, from..to).into_iter().map(move |p| (sender(1, port), p)).collect::<Vec<_>>()
    };
    // Killed at 50, started again: nothing of it is a copy, a loss or a restart.
    run.send_from(at(5000, 0, 50)).send_from(at(5001, 0, 70));
    // At its own port a sender that begins anew behind its end mark is a restart, as ever.
    run.send_from([(sender(1, 5001), packet(7, u64::MAX, 70, 24))]).send_from(at(5001, 0, 30));
    let wanted = [
        ("decode.packets", 151),
        ("decode.accepted", 150),
        ("decode.end_marks", 1),
        ("packets.announced", 70),
        ("packets.announced.delivered", 70),
        ("packets.restarts", 1),
        ("decode.streams", 2),
    ];
    expect(&run.finish(), &wanted);
}

#[test]
fn the_limit_of_streams_holds_for_origins_and_ids_together_and_strangers_take_nobodys_place() {
    let mut run = Run::new("max_streams = 3");
    let [real, stranger] = [(1, 5000, 7), (1, 5000, 8)];
    let more = [(1, 5001, 7), (1, 5001, 8), (2, 5000, 7)];
    let mut number = 0;
    for (host, port, id) in [real, real, stranger, real].into_iter().chain(more).chain([real]) {
        let is_real = (host, port, id) == real;
        run.send_from([(sender(host, port), packet(id, if is_real { number } else { 0 }, 0, 24))]);
        // The third one of the real sender is missing.
        number += u64::from(is_real) + u64::from(is_real && number == 1);
    }
    let wanted = [
        ("decode.packets", 8),
        ("decode.accepted", 8),
        ("packets.lost", 1),
        ("decode.streams", 5),
        ("decode.streams_reused", 2),
    ];
    expect(&run.finish(), &wanted);
}

#[test]
fn a_stream_that_is_given_up_keeps_its_losses_and_coming_back_invents_none() {
    let mut run = Run::new("max_streams = 1");
    let from = |port, numbers: &[u64]| {
        let one = |&n| (sender(1, port), packet(7, n, 0, 24));
        numbers.iter().map(one).collect::<Vec<_>>()
    };
    run.send_from(from(1, &[0, 1, 3]));
    run.send_from(from(2, &[0]));
    run.send_from(from(1, &[90, 91]));
    // No other line: nothing is missing any more, and nothing is said to be lost while nobody listened.
    let wanted = [
        ("decode.packets", 6),
        ("decode.accepted", 6),
        ("packets.lost", 1),
        ("decode.streams", 3),
        ("decode.streams_reused", 2),
    ];
    expect(&run.finish(), &wanted);
}

#[test]
fn only_senders_may_be_shared_out_over_workers() {
    let sharding = |options: &str| {
        let setup = Setup { options: options.into(), ..Setup::default() };
        Sequence.configure(&setup).unwrap().sharding()
    };
    assert_eq!(sharding(""), Sharding::ByKey);
    assert_eq!(sharding("key = \"origin\""), Sharding::ByKey);
    assert_eq!(sharding("key = \"id\""), Sharding::Serial);
}

#[test]
fn latency_is_measured_on_request() {
    let mut run = Run::new("latency = true");
    run.send(&data(1, 0..3));
    let entries = run.finish();
    let get = |name| entries.get(name).unwrap();
    assert_eq!((get("latency.packets"), get("latency.sum_ns")), (3, 2000 + 1999 + 1998));
    assert_eq!((get("latency.min_ns"), get("latency.max_ns")), (1998, 2000));
}

#[test]
fn options_are_refused_with_their_range() {
    let says = |options: &str, geometry: &str| {
        let (options, geometry) = (options.to_owned(), geometry.to_owned());
        let setup = Setup { options, geometry, geometry_path: "g.toml".into(), ..Setup::default() };
        Sequence.configure(&setup).err().unwrap().to_string()
    };
    assert!(
        says("window = 100", "").contains("detector.window: 100 is not allowed: a power of two")
    );
    assert!(
        says("max_streams = 0", "").contains("detector.max_streams: 0 is not allowed: 1..=65536")
    );
    assert!(says("verfy = true", "").contains("detector: verfy = true: unknown field `verfy`"));
    let key = says("key = \"port\"", "");
    assert!(key.contains("`port`") && key.contains("`origin` or `id`"), "{key}");
    assert!(says("", "[panel]").contains("`sequence` has no geometry"));
}

/// What the sent packets of announced streams add up to, and what came beside them: delivered and lost.
fn announced(entries: &Entries) -> (u64, u64, (u64, u64)) {
    let get = |name: &str| entries.get(name).unwrap();
    let of = |what: &str| get(&format!("packets.announced.{what}"));
    let lost = get("packets.lost") + get("packets.lost.down");
    let others = (get("decode.accepted") - of("delivered"), lost - of("lost"));
    (get("packets.announced"), of("delivered") + of("lost") + of("rejected"), others)
}

fn from(n: u8) -> Origin {
    Origin { ip: [n; 16], port: 7 }
}

/// A stream of 1000 packets that loses 2 and announces its end, with `beside` in its midst.
fn beside(key: &str, beside: &[(Origin, Vec<u8>)]) -> Entries {
    let mut run = Run::new(key);
    let own = |numbers: std::ops::Range<u64>| {
        let lossy = data(1, numbers.filter(|n| n % 500 != 77));
        lossy.into_iter().map(|p| (from(1), p)).collect::<Vec<_>>()
    };
    run.send_from(own(0..600)).send_from(beside.to_vec()).send_from(own(600..1000));
    run.send_from(vec![(from(1), packet(1, u64::MAX, 1000, 24)); 5]);
    let entries = run.finish();
    assert_eq!(entries.balance(), 0, "{:?}", entries.hops());
    assert_eq!(run.finish(), entries, "a second end changes nothing");
    entries
}

#[test]
fn streams_that_announce_no_end_are_not_held_against_the_announced_ones() {
    let one = |origin, stream, number| vec![(origin, packet(stream, number, 1, 64))];
    let foreign = from(2);
    let many = (0..3).flat_map(|n| one(from(3 + n), 9, 5)).chain(one(foreign, 1, 100_000));
    let pairs = [
        // Number 5 of another sender: 0 to 4 are lost, as far as anybody knows.
        (one(foreign, 1, 5), (1, 5)),
        // Another stream of the same sender; and two at once, one of them joined late.
        (one(from(1), 2, 5), (1, 5)),
        (many.collect(), (4, 15 + 100_000)),
        // No packet of a stream at all.
        (vec![(foreign, b"FCSQ".to_vec()), (foreign, vec![0; 100])], (0, 0)),
        (one(foreign, 1, 1 << 60), (0, 0)),
    ];
    for (packets, others) in pairs {
        assert_eq!(announced(&beside("", &packets)), (1000, 1000, others), "{packets:?}");
        // With one id for all senders, another sender's number is a copy of this stream's.
        if packets.iter().any(|p| p.0 == foreign && others == (1, 5)) {
            assert_eq!(announced(&beside("key = 'id'", &packets)), (1000, 1000, (0, 0)));
        }
    }
}

#[test]
fn foreign_end_marks_are_streams_of_their_own() {
    let marks = |n, total| vec![(from(2), packet(1, u64::MAX, total, 24)); n];
    let data = |number| vec![(from(2), packet(1, number, 1, 64))];
    for (packets, sent, others) in [
        // Before any data: all of it is lost. Once is enough, at the end of the run.
        (marks(2, 10), 1010, (0, 0)),
        (marks(1, 10), 1010, (0, 0)),
        (marks(5, 1 << 56), 1000 + (1 << 56), (0, 0)),
        // An end, then data behind it, that end nowhere.
        ([marks(2, 10), data(12)].concat(), 1010, (1, 2)),
        // Totals that contradict what came before or what comes after.
        ([data(50), marks(5, 10)].concat(), 1000, (1, 50)),
        ([marks(1, 10), data(50)].concat(), 1000, (1, 50)),
        // Totals that contradict each other: the last one that could be true holds.
        ([data(2), marks(2, 10), marks(2, 20)].concat(), 1010, (0, 0)),
    ] {
        let got = announced(&beside("", &packets));
        assert_eq!(got, (sent, sent, others), "{packets:?}");
    }
    // With one id for all, they are marks of this very stream and cannot be right.
    let entries = beside("key = 'id'", &marks(2, 10));
    assert_eq!(announced(&entries), (1000, 1000, (0, 0)));
    let entries = beside("", &[data(50), marks(5, 10)].concat());
    assert_eq!(entries.get("decode.totals_contradicted"), Some(1));
}

#[test]
fn a_sender_that_begins_anew_has_a_count_for_each_run() {
    let mut run = Run::new("");
    let mark = |total| vec![packet(1, u64::MAX, total, 24); 5];
    run.send(&data(1, (0..100).filter(|n| n % 10 != 3))).send(&mark(100));
    // The second run is long and ends nowhere; the third is announced.
    run.send(&data(1, 0..6000)).send(&data(1, 0..30)).send(&mark(30));
    assert_eq!(announced(&run.finish()), (130, 130, (6000, 0)));
    // Of a run whose first packets are lost nobody knows where it began: no total is held against it.
    let mut run = Run::new("");
    run.send(&data(1, 0..6000)).send(&data(1, 3..50)).send(&mark(50));
    assert_eq!(announced(&run.finish()), (0, 0, (6047, 0)));
}

#[test]
fn refused_patterns_of_announced_streams_only_are_part_of_what_was_sent() {
    let bad = |stream, number| {
        let mut p = packet(stream, number, 1, 64);
        p[40] ^= 1;
        p
    };
    let mut run = Run::new("verify = true");
    run.send(&data(1, 0..9)).send(&[bad(1, 9), bad(2, 0), packet(1, u64::MAX, 10, 24)]);
    let entries = run.finish();
    assert_eq!(entries.get("errors.payload.pattern"), Some(2));
    assert_eq!(entries.get("packets.announced.rejected"), Some(1));
    assert_eq!(announced(&entries), (10, 10, (0, 0)));
}

#[test]
fn a_part_of_a_stream_is_not_held_against_the_total_of_the_whole() {
    let mut run = Run::new("");
    run.send(&data(1, 0..100));
    run.reader.flush(Flush::Taken, &mut Products::default());
    // Somebody else had 100 to 899.
    run.send(&data(1, 900..1000)).send(&vec![packet(1, u64::MAX, 1000, 24); 5]);
    assert!(run.reader.ended_streams() > 0);
    assert_eq!(announced(&run.finish()), (0, 0, (200, 0)));
    // And all to the end, but for the marks.
    let mut run = Run::new("");
    run.send(&data(1, 0..100));
    run.reader.flush(Flush::Taken, &mut Products::default());
    run.send(&vec![packet(1, u64::MAX, 1000, 24); 2]);
    assert_eq!(announced(&run.finish()), (0, 0, (100, 0)));
}
