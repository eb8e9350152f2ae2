//! What was done to packets against what the ledger says: dropped, repeated, swapped, refused, several senders.

use crate::detector::{Decoder, Setup, builtin};
use fullcount_core::batch::{Batch, Edge, Origin};
use fullcount_core::ledger::{Entries, Ledger, Role, Unit};
use fullcount_core::products::Products;
use fullcount_core::progress::Flush;
use proptest::prelude::*;

const MASK: u32 = 0xff_ffff;

/// A packet of `count` events from number `first` on; the last one is without data if `empty_last`.
fn packet(first: u32, count: u32, empty_last: bool) -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0];
    for n in 0..count {
        let data: &[u32] = match empty_last && n + 1 == count {
            true => &[],
            false => &[0x4000_0002, 0x2000_0001, 0xc000_0007],
        };
        bytes.push(0x58);
        bytes.extend((data.len() as u16 + 3).to_be_bytes());
        bytes.push(0);
        bytes.extend((0xbb00_0000 | first.wrapping_add(n) & MASK).to_le_bytes());
        bytes.extend(data.iter().flat_map(|w| w.to_le_bytes()));
        bytes.extend([0x21, 0x43, 0x65, 0x87, 0, 0, 1, 0xee]);
    }
    bytes
}

fn origin(n: u16) -> Origin {
    Origin { ip: [7; 16], port: n }
}

struct Read {
    reader: Box<dyn Decoder>,
    ledger: Ledger,
}

impl Read {
    fn new() -> Read {
        let detector = builtin().configure("multigrid", &Setup::default()).unwrap();
        let (reader, ledger) = (detector.first_step().unwrap(), Ledger::default());
        ledger.register(reader.sheets().remove(0));
        Read { reader, ledger }
    }

    fn take<'a>(&mut self, packets: impl IntoIterator<Item = (&'a [u8], Origin)>) -> &mut Read {
        let mut batch = Batch::with_slots(0, 0);
        for (bytes, origin) in packets {
            batch.append(bytes, origin, 0, Edge::Datagram);
        }
        self.reader.decode(Some(&batch), None, &mut Products::default());
        self
    }

    fn send(&mut self, packets: &[Vec<u8>]) -> &mut Read {
        self.take(packets.iter().map(|p| (&p[..], Origin::NONE)))
    }

    fn end(&mut self) -> Entries {
        self.reader.finish(&mut Products::default());
        let entries = self.ledger.read();
        assert_eq!(entries.balance(), 0);
        assert_eq!(entries.get("container_events.missing"), Some(0));
        entries
    }
}

/// A packet of 40 events each ms: 40,000 events/s, of which a turn takes 419 s.
struct Steady {
    read: Read,
    number: u32,
    time: i64,
}

impl Steady {
    fn new(number: u32) -> Steady {
        Steady { read: Read::new(), number, time: 1_700_000_000_000_000_000 }
    }

    /// So many packets are sent and dropped before the next one, if the kernel counts them.
    fn lose(&mut self, packets: u32, counted: bool) {
        self.number = self.number.wrapping_add(40 * packets);
        self.time += 1_000_000 * i64::from(packets);
        self.flow(1, if counted { packets } else { 0 });
    }

    fn flow(&mut self, packets: u32, dropped: u32) {
        let mut batch = Batch::with_slots(0, 0);
        batch.note_dropped(dropped);
        for _ in 0..packets {
            let bytes = packet(self.number & MASK, 40, false);
            batch.append(&bytes, origin(1), self.time, Edge::Datagram);
            self.number = self.number.wrapping_add(40);
            self.time += 1_000_000;
        }
        self.read.reader.decode(Some(&batch), None, &mut Products::default());
    }
}

#[test]
fn a_stall_of_whole_turns_is_told_whole_where_the_kernel_proves_it() {
    // Two turns and some: 838,861 packets of 40.
    let turns = 2 * (1 << 24) / 40 + 1;
    for (counted, by_time) in [(true, 2 << 24), (false, 0)] {
        let mut line = Steady::new(0xff_0000);
        line.flow(2000, 0);
        line.lose(turns, counted);
        line.flow(1000, 0);
        let entries = line.read.end();
        let lost = u64::from(40 * turns) - if counted { 0 } else { 2 << 24 };
        assert_eq!(told(&entries), [lost, 0, 0, 0, 0], "counted: {counted}");
        assert_eq!(entries.get("container_events.lost_by_time"), Some(by_time));
        assert_eq!(entries.get("container_events.lost_at_least"), Some(0));
    }
}

#[test]
fn a_stall_of_unknown_turns_is_told_as_a_lower_bound() {
    // Five packets are no history.
    let mut line = Steady::new(7);
    line.flow(5, 0);
    line.lose((1 << 24) / 40 * 2, true);
    line.flow(10, 0);
    let entries = line.read.end();
    assert_eq!(entries.get("container_events.lost_at_least"), Some(1));
    assert_eq!(entries.get("container_events.lost_by_time"), Some(0));
}

/// Lost, duplicate, reordered, late, restarts.
fn told(entries: &Entries) -> [u64; 5] {
    ["lost", "duplicate", "reordered", "late", "restarts"]
        .map(|what| entries.get(&format!("container_events.{what}")).unwrap())
}

#[test]
fn lost_packets_are_their_events_and_make_the_run_a_lossy_one() {
    // 10,969 packets, each 19th or 20th of which is dropped until 570 are.
    let (mut number, mut lost, mut kept, mut dropped) = (0xff_0000u32, 0u64, vec![], 0);
    for n in 0..10_969u32 {
        let count = 1 + n % 40;
        if n % 19 == 5 && dropped < 570 {
            dropped += 1;
            lost += u64::from(count);
        } else {
            kept.push(packet(number, count, n % 3 == 0));
        }
        number = number.wrapping_add(count) & MASK;
    }
    assert_eq!((dropped, kept.len()), (570, 10_969 - 570));
    let entries = Read::new().send(&kept).end();
    assert_eq!(told(&entries), [lost, 0, 0, 0, 0]);
    assert!(entries.anything_lost());
    assert_eq!(
        entries.sum(Unit::Packets, Role::Missing(fullcount_core::ledger::Place::Unknown)),
        0
    );
    let seen: u64 = (0..10_969).map(|n| 1 + n % 40).sum::<u64>() - lost;
    assert_eq!(entries.get("container_events.count"), Some(seen));
    assert_eq!(entries.get("container_events.most_in_packet"), Some(40));
}

#[test]
fn a_packet_of_one_event_without_data_is_seen() {
    let packets: Vec<_> = (0..50).map(|n| packet(n, 1, n % 2 == 0)).collect();
    assert_eq!(packets[0].len(), 19, "the shortest there is");
    let entries = Read::new().send(&packets).end();
    assert_eq!((told(&entries), entries.get("container_seq_errors")), ([0; 5], Some(0)));
}

#[test]
fn each_sender_has_a_series_of_its_own_and_the_silent_one_makes_room() {
    let senders = 300u16;
    let mut read = Read::new();
    let busy = |n: u32| packet(10 * n, 10, false);
    for n in 0..senders {
        // The first goes on all the time and loses every tenth packet; each other one sends once.
        if n % 10 != 3 {
            read.take([(&busy(n.into())[..], origin(0))]);
        }
        read.take([(&packet(5000 * u32::from(n), 10, false)[..], origin(1 + n))]);
    }
    read.take([(&busy(senders.into())[..], origin(0))]);
    let entries = read.end();
    assert_eq!(told(&entries), [300, 0, 0, 0, 0]);
    assert_eq!(entries.get("decode.streams"), Some(301));
    assert_eq!(entries.get("decode.streams_replaced"), Some(301 - 256));
    assert_eq!(entries.get("container_seq_errors"), Some(30));
}

#[test]
fn a_sender_that_begins_anew_loses_nothing() {
    for before in [200, 8_000_000, 9_000_000, 16_000_000, MASK - 400] {
        for first in [0, 1] {
            let starts = [before, before + 40, first, first + 40, first + 80];
            let packets: Vec<_> = starts.map(|n| packet(n, 40, true)).into();
            // Within the window of the overflow nobody can tell a gap from a new beginning: none is so near here.
            let reach = before > MASK - (1 << 14);
            let entries = Read::new().send(&packets).end();
            let wanted = if reach { 0 } else { 1 };
            assert_eq!(told(&entries)[4], wanted, "{before}");
            if !reach {
                assert_eq!(told(&entries), [0, 0, 0, 0, 1], "{first} after {before}");
            }
        }
    }
}

#[test]
fn what_another_consumer_had_is_no_loss() {
    let mut read = Read::new();
    read.send(&[packet(0, 10, false), packet(20, 10, false)]);
    read.reader.flush(Flush::Taken, &mut Products::default());
    read.send(&[packet(9000, 10, false), packet(9010, 10, true)]);
    read.reader.flush(Flush::Taken, &mut Products::default());
    read.send(&[packet(100, 10, false)]);
    assert_eq!(told(&read.end()), [10, 0, 0, 0, 0]);
}

#[test]
fn refused_packets_are_not_lost_as_well() {
    // Every fifth packet is damaged in a container word of its third event, at its first byte, or in a length; every
    // seventh is dropped; some stand beside each other.
    let (mut lost, mut refused, mut sent) = (0, 0, vec![]);
    for n in 0..1000u32 {
        let mut p = packet(12 * n, 12, n % 2 == 0);
        // Events of 7 words each.
        let event = 3 + 2 * 28;
        match n {
            3..998 if n % 7 == 6 => {
                lost += 12;
                continue;
            }
            _ if n % 5 == 3 => {
                refused += 1;
                match n / 5 % 5 {
                    0 => p[event] = 0x59,
                    1 => p[event + 7] = 0xba,
                    2 => p[event + 1] = 0xff,
                    3 => p[0] = 0x61,
                    _ => p[event + 27] = 0,
                }
            }
            _ => {}
        }
        sent.push(p);
    }
    let entries = Read::new().send(&sent).end();
    assert_eq!(entries.sum(Unit::Packets, Role::Rejected), refused);
    assert_eq!(told(&entries), [lost, 0, 0, 0, 0]);
}

#[test]
fn a_damaged_number_invents_no_loss() {
    let mut packets: Vec<_> = (0..10).map(|n| packet(10 * n, 10, false)).collect();
    // Event 4 of the third packet, the first of the fifth and the last of the seventh.
    for (p, event) in [(2, 3), (4, 0), (6, 9)] {
        packets[p][3 + 28 * event + 6] ^= 0x20;
    }
    let entries = Read::new().send(&packets).end();
    assert_eq!(told(&entries), [0; 5]);
    assert_eq!(
        entries.get("container_seq_errors"),
        Some(6),
        "the rule of the format counts each step"
    );
}

#[derive(Debug, Clone, Copy)]
enum Fate {
    Kept,
    Dropped,
    Repeated,
    /// Changes places with the packet before.
    Swapped,
    Refused(u8),
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        8 => Just(Fate::Kept),
        2 => Just(Fate::Dropped),
        1 => Just(Fate::Repeated),
        1 => Just(Fate::Swapped),
        2 => (0u8..4).prop_map(Fate::Refused),
    ]
}

proptest! {
    /// Whatever is done to packets stands in the ledger, and nothing else.
    #[test]
    fn the_ledger_says_what_was_done(
        first in 0u32..=MASK, fates in proptest::collection::vec((fate(), 2u32..40, any::<bool>()), 1..120),
    ) {
        // Good ones around: a series has a beginning and an end.
        let around = [(Fate::Kept, 3, false)];
        let all = around.iter().chain(&fates).chain(&around);
        let (mut number, mut sent, mut wanted) = (first, Vec::<Vec<u8>>::new(), [0u64; 5]);
        let mut kept_before = 0u64;
        let mut refused = 0;
        for &(fate, count, empty) in all {
            let mut p = packet(number, count, empty);
            number = number.wrapping_add(count) & MASK;
            let mut whole = 0;
            match fate {
                Fate::Kept => whole = u64::from(count),
                Fate::Dropped => {
                    wanted[0] += u64::from(count);
                    continue;
                }
                Fate::Repeated => {
                    sent.push(p.clone());
                    wanted[1] += u64::from(count);
                }
                // Only with a good one, and not with the very first, before which there is nothing.
                Fate::Swapped if kept_before > 0 && sent.len() > 1 => {
                    wanted[2] += kept_before;
                    sent.insert(sent.len() - 1, p);
                    kept_before = 0;
                    continue;
                }
                Fate::Swapped => whole = u64::from(count),
                Fate::Refused(how) => {
                    refused += 1;
                    // Behind the first event: its own numbers are read as far as they go.
                    match how {
                        0 => p[0] = 0x70,
                        1 => p[3 + 7] = 0,
                        2 => p[3 + 28] ^= 1,
                        _ => p[3] = 0,
                    }
                    if how == 2 && count == 2 && empty {
                        // The container ends before the damage: this one is not refused.
                        refused -= 1;
                        wanted[0] += 1;
                    }
                }
            }
            kept_before = whole;
            sent.push(p);
        }
        let entries = Read::new().send(&sent).end();
        prop_assert_eq!(entries.sum(Unit::Packets, Role::Rejected), refused);
        prop_assert_eq!(told(&entries), wanted);
    }
}
