//! What users of spead2 meet, by the numbers of section 18 of the format document.

use super::*;
use crate::testing::{Raw, adr, heap, imm, pattern, stop};

const SECOND: u64 = 1_000_000_000;

fn pushed(config: ReceiverConfig, packets: &[Vec<u8>]) -> HeapReceiver {
    let mut stream = HeapReceiver::new(config).unwrap();
    for packet in packets {
        stream.push(0, packet);
    }
    stream
}

#[test]
fn no_1_a_lost_end_and_a_lost_stop_hang_nobody() {
    let config = ReceiverConfig {
        heap_timeout_ns: SECOND,
        stall_timeout_ns: 3 * SECOND,
        stall_ends: true,
        ..ours()
    };
    let packets = heap(1, &pattern(1000, 1), 300);
    let mut stream = pushed(config, &packets[..3]);
    assert_eq!(stream.next_deadline_ns(), Some(SECOND));
    stream.expire(SECOND - 1);
    assert!(drain(&mut stream).is_empty());
    stream.expire(SECOND);
    let Some(Delivery::Incomplete(given)) = stream.pop() else { panic!() };
    assert_eq!((given.received_length, given.heap_length), (900, Some(1000)));
    assert_eq!(given.gaps().map(|gap| (gap.start, gap.end)).collect::<Vec<_>>(), [(900, 1000)]);
    assert_eq!(given.pieces().map(|(at, bytes)| (at, bytes.len())).collect::<Vec<_>>(), [(0, 900)]);
    assert_eq!((count(&mut stream, SpeadCounter::TimedOut), stream.losses().bytes), (1, 100));
    assert_eq!((stream.next_deadline_ns(), stream.ended()), (Some(3 * SECOND), None));
    stream.expire(3 * SECOND);
    assert_eq!((stream.ended(), stream.next_deadline_ns()), (Some(StreamEnd::Stalled), None));
    assert_eq!(stream.push(0, &packets[3]), Outcome::Refused(Refused::Stopped));
    assert_eq!(ledger(&mut stream).balance(), 0);
}

#[test]
fn no_1_a_stalled_stream_that_goes_on_is_told_from_one_that_ended() {
    let config = ReceiverConfig { stall_timeout_ns: SECOND, ..ours() };
    let mut stream = pushed(config, &[]);
    stream.expire(99 * SECOND);
    assert!(!stream.is_stalled(), "before the first packet nothing stalls");
    stream.push(0, &heap(1, &[1; 10], 10)[0]);
    stream.expire(SECOND);
    assert!(stream.is_stalled() && stream.ended().is_none());
    stream.push(2 * SECOND, &heap(2, &[1; 10], 10)[0]);
    assert!(!stream.is_stalled());
    stream.expire(3 * SECOND);
    assert_eq!(count(&mut stream, SpeadCounter::Stalls), 2);
}

#[test]
fn no_2_and_3_the_stream_ends_with_the_last_reader_and_the_last_senders_stop() {
    let config = ReceiverConfig { readers: 2, stops: 3, ..ours() };
    let mut stream = pushed(config, &[]);
    // A reset connection is an end like any other.
    assert!(!stream.reader_ended(0));
    for cnt in 10..12 {
        stream.push(0, &stop(cnt));
        stream.push(0, &stop(cnt));
        assert_eq!(stream.ended(), None, "a copy of a stop is not another sender's");
    }
    stream.push(0, &heap(1, &[1; 10], 10)[0]);
    stream.push(0, &stop(12));
    assert_eq!(stream.ended(), Some(StreamEnd::StopItem));
    let heaps: Vec<u64> = drain(&mut stream).iter().map(Delivery::cnt).collect();
    assert_eq!(heaps, [1], "stop heaps are nobody's");
    assert_eq!(ledger(&mut stream).balance(), 0);
    let mut stream = pushed(ReceiverConfig { readers: 2, ..ours() }, &[]);
    assert!(!stream.reader_ended(0) && stream.reader_ended(0));
    assert_eq!(stream.ended(), Some(StreamEnd::Readers));
}

#[test]
fn no_9_several_senders_build_one_heap_and_a_number_used_twice_is_counted() {
    let data = pattern(1000, 3);
    let packets = heap(1, &data, 100);
    let (one, other): (Vec<_>, Vec<_>) =
        packets.iter().cloned().enumerate().partition(|(n, _)| n % 2 == 0);
    let both = one.into_iter().chain(other).map(|(_, packet)| packet);
    let mut stream = pushed(ours(), &both.collect::<Vec<_>>());
    assert_eq!(stream.pop().unwrap().heap().unwrap().payload(), data);
    // A second sender with the same number, a heap of another length, and one of the same length in packets of another size.
    let [first, last] = [&packets[..5], &packets[5..]].map(<[Vec<u8>]>::to_vec);
    let (longer, same) = (heap(1, &[9; 2000], 100), heap(1, &[9; 1000], 300));
    let packets = [first, longer, same[..2].to_vec(), last].concat();
    let mut stream = pushed(ours(), &packets);
    assert_eq!(stream.pop().unwrap().heap().unwrap().payload(), data);
    use SpeadCounter as C;
    let counts = [C::LengthMismatch, C::Duplicate, C::Overlap].map(|c| count(&mut stream, c));
    assert_eq!(counts, [20, 1, 1]);
    assert_eq!(ledger(&mut stream).balance(), 0);
}

#[test]
fn no_10_reordered_packets_cost_nothing_and_in_order_mode_counts_them() {
    let data = pattern(1000, 3);
    let mut packets = heap(1, &data, 100);
    packets.swap(4, 5);
    packets.swap(0, 9);
    let mut stream = pushed(ours(), &packets);
    assert_eq!(stream.pop().unwrap().heap().unwrap().payload(), data);
    assert_eq!(count(&mut stream, SpeadCounter::Reordered), 9);
    let mut packets = heap(1, &data, 100);
    packets.swap(4, 5);
    let mut stream = pushed(ReceiverConfig::spead2(), &packets);
    assert!(stream.pop().is_none());
    // The fifth, and all behind it.
    assert_eq!(count(&mut stream, SpeadCounter::OutOfOrder), 5);
    let mut stream = pushed(ReceiverConfig::spead2(), &packets[1..]);
    assert_eq!(count(&mut stream, SpeadCounter::NoBeginning), 9);
}

#[test]
fn no_11_late_copies_start_no_heap_and_single_packets_come_once() {
    let first = heap(1, &pattern(500, 1), 100);
    let single = heap(2, &pattern(50, 1), 100);
    let last = heap(3, &pattern(500, 1), 100);
    let mut packets = first.clone();
    packets.extend(last[..4].iter().cloned());
    for _ in 0..20 {
        packets.extend([first[2].clone(), single[0].clone()]);
    }
    packets.push(last[4].clone());
    let mut stream = pushed(ours(), &packets);
    let heaps: Vec<u64> = drain(&mut stream).iter().map(Delivery::cnt).collect();
    assert_eq!(heaps, [1, 2, 3], "no phantom heap pushed heap 3 out");
    assert_eq!(count(&mut stream, SpeadCounter::DuplicateHeap), 39);
    assert_eq!(stream.statistics().single_packet_heaps, 20, "spead2's meaning of the name stays");
    // With compat = "spead2" they do what they do there.
    let mut stream = pushed(
        ReceiverConfig { allow_out_of_order: true, ..ReceiverConfig::spead2() },
        &packets[..30],
    );
    assert!(stream.statistics().incomplete_heaps_evicted > 0);
    assert_eq!(ledger(&mut stream).balance(), 0);
}

#[test]
fn a_sender_that_begins_again_with_its_numbers_is_heard() {
    let data = heap(1, &pattern(50, 1), 100);
    let start = Raw { items: vec![imm(6, 0), adr(0, 0)], ..Raw::new(900, 1, 0, &[0]) }.bytes();
    let mut stream = pushed(ours(), &[data[0].clone(), start.clone(), data[0].clone()]);
    assert_eq!(drain(&mut stream).len(), 3, "it says that it begins");
    stream.push(SECOND / 2, &data[0]);
    assert!(stream.pop().is_none(), "a copy");
    stream.push(3 * SECOND, &data[0]);
    assert!(stream.pop().is_some(), "no copy is so late");
}

#[test]
fn no_12_a_heap_without_a_length_is_no_incomplete_one() {
    let raw = |offset| Raw { heap_length: None, ..Raw::new(1, 0, offset, &[7; 40]) }.bytes();
    let mut stream = pushed(ours(), &[raw(0), raw(40)]);
    stream.stop(0);
    assert_eq!(stream.pop().unwrap().heap().unwrap().payload(), [7; 80]);
    assert_eq!(stream.statistics().incomplete_heaps_flushed, 1, "by spead2's name it is one");
    let counts =
        [SpeadCounter::Contiguous, SpeadCounter::Incomplete].map(|c| count(&mut stream, c));
    assert_eq!(counts, [1, 0]);
    // With a hole it is incomplete, and nobody knows how many bytes are missing.
    let mut stream = pushed(ours(), &[raw(0), raw(80)]);
    stream.stop(0);
    assert!(matches!(stream.pop(), Some(Delivery::Incomplete(_))));
    assert_eq!((stream.losses().bytes, stream.losses().unsized_heaps), (0, 1));
    // A length may come late, and completes it.
    let late = Raw::new(1, 80, 40, &[8; 40]).bytes();
    let mut stream = pushed(ours(), &[raw(0), late]);
    assert_eq!(stream.pop().unwrap().heap().unwrap().payload(), [[7; 40], [8; 40]].concat());
    let small = Raw::new(1, 60, 10, &[8; 10]).bytes();
    let mut stream = pushed(ours(), &[raw(0), raw(40), small]);
    assert_eq!(count(&mut stream, SpeadCounter::LengthTooSmall), 1);
}

#[test]
fn no_17_a_packet_that_announces_2_to_the_47_bytes_is_one_refused_packet() {
    let raw = Raw { bits: 48, heap_length: Some((1 << 48) - 1), ..Raw::new(1, 0, 0, &[0; 8]) };
    let mut stream = pushed(ours(), &[raw.bytes()]);
    assert_eq!((stream.live_heaps(), stream.live_bytes()), (0, 0));
    assert_eq!(count(&mut stream, SpeadCounter::HeapTooLarge), 1);
    // Heaps that are allowed one by one are bounded together.
    let config = ReceiverConfig {
        max_heaps: 64,
        max_heap_bytes: 1 << 20,
        max_live_bytes: 3 << 20,
        ..ours()
    };
    let packets: Vec<_> = (0..10).map(|cnt| Raw::new(cnt, 1 << 20, 0, &[0; 8]).bytes()).collect();
    let mut stream = pushed(config, &packets);
    assert_eq!((stream.live_heaps(), stream.live_bytes()), (3, 3 << 20));
    assert_eq!(count(&mut stream, SpeadCounter::NoMemory), 7);
    assert_eq!(ledger(&mut stream).balance(), 0);
}

#[test]
fn no_19_merged_datagrams_are_taken_apart_and_junk_behind_a_packet_is_not() {
    let packets = heap(1, &pattern(1000, 1), 300);
    let merged = packets.concat();
    let mut stream = pushed(ours(), std::slice::from_ref(&merged));
    assert_eq!(stream.pop().unwrap().heap().unwrap().payload().len(), 1000);
    assert_eq!(count(&mut stream, SpeadCounter::Merged), 1);
    let mut junk = merged.clone();
    junk.extend([0; 9]);
    for config in [ours(), ReceiverConfig::spead2()] {
        let bytes = if config.split_merged { &junk } else { &merged };
        let mut stream = pushed(config, std::slice::from_ref(bytes));
        assert_eq!(
            (count(&mut stream, SpeadCounter::Trailing), stream.statistics().packets),
            (1, 0)
        );
        assert_eq!(ledger(&mut stream).balance(), 0);
    }
}

#[test]
fn no_23_a_full_ring_is_said_before_a_packet_is_taken() {
    let config = ReceiverConfig { ring_heaps: 1, ..ours() };
    let mut stream = HeapReceiver::new(config).unwrap();
    assert_eq!(stream.push(0, &heap(1, &[1; 9], 9)[0]), Outcome::Accepted);
    for _ in 0..3 {
        assert_eq!(stream.push(0, &heap(2, &[1; 9], 9)[0]), Outcome::Full);
    }
    assert_eq!(stream.statistics().worker_blocked, 1);
    let both = [heap(2, &[1; 9], 9)[0].clone(), heap(3, &[1; 9], 9)[0].clone()].concat();
    assert_eq!(stream.push_buffer(0, &both), 0);
    stream.pop();
    assert_eq!(stream.push_buffer(0, &both), both.len() / 2);
    assert_eq!(count(&mut stream, SpeadCounter::Packets), 2);
    stream.end_batch();
    assert_eq!((stream.statistics().batches, stream.statistics().max_batch), (1, 2));
}

#[test]
fn each_mismatch_has_a_counter_and_changes_nothing() {
    let good = Raw::new(1, 100, 0, &[1; 40]);
    let length = Raw::new(1, 101, 40, &[1; 40]).bytes();
    let flavour = Raw { bits: 48, ..Raw::new(1, 100, 40, &[1; 40]) }.bytes();
    let overlap = Raw::new(1, 100, 20, &[1; 40]).bytes();
    let rest = Raw::new(1, 100, 40, &[1; 60]).bytes();
    let packets = [good.bytes(), length, flavour, overlap, good.bytes(), rest];
    let mut stream = pushed(ours(), &packets);
    assert_eq!(stream.pop().unwrap().heap().unwrap().payload(), [1; 100]);
    use SpeadCounter as C;
    let counts = [C::LengthMismatch, C::FlavourMismatch, C::Overlap, C::Duplicate, C::Accepted];
    assert_eq!(counts.map(|c| count(&mut stream, c)), [1, 1, 1, 1, 2]);
    let config = ReceiverConfig { allow_unsized_heaps: false, ..ours() };
    let unsized_packet = Raw { heap_length: None, ..good }.bytes();
    assert_eq!(count(&mut pushed(config, &[unsized_packet]), C::Unsized), 1);
}
