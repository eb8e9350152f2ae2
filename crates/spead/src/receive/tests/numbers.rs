//! Numbers that a sender uses again: because it has few, or because it began again.

use proptest::prelude::*;

use super::*;
use crate::testing::{Raw, heap, pattern, stop};

const MS: u64 = 1_000_000;

/// A heap of one packet.
fn small(bits: u32, cnt: u64) -> Vec<u8> {
    Raw { bits, ..Raw::new(cnt, 4, 0, &[7; 4]) }.bytes()
}

/// Numbers of the heaps that came.
fn numbers(stream: &mut HeapReceiver) -> Vec<u64> {
    drain(stream).iter().map(Delivery::cnt).collect()
}

/// One run of a sender: some heaps from number 1 on, then its stop. What became of the stop.
fn run(stream: &mut HeapReceiver, now_ns: u64, heaps: u64) -> Outcome {
    for cnt in 1..=heaps {
        assert_eq!(stream.push(now_ns, &small(40, cnt)), Outcome::Accepted, "heap {cnt}");
        let copy = stream.push(now_ns, &small(40, cnt));
        assert_eq!(copy, Outcome::Refused(Refused::DuplicateHeap), "heap {cnt}");
    }
    stream.push(now_ns, &stop(heaps + 1))
}

const COPY: Outcome = Outcome::Refused(Refused::DuplicateHeap);

#[test]
fn two_hundred_and_fifty_six_numbers_are_enough_at_any_rate() {
    let mut stream = HeapReceiver::new(ours()).unwrap();
    for n in 0..5000u64 {
        // 10,000 heaps/s: each number comes again after 26 ms.
        assert_eq!(stream.push(n * MS / 10, &small(8, n % 256)), Outcome::Accepted, "heap {n}");
    }
    assert_eq!(drain(&mut stream).len(), 5000);
    assert_eq!(ledger(&mut stream).balance(), 0);
}

#[test]
fn a_sender_that_begins_again_behind_its_stop_loses_no_heap() {
    let config = ReceiverConfig { stop_on_stop_item: false, ..ours() };
    let mut stream = HeapReceiver::new(config).unwrap();
    assert_eq!(run(&mut stream, 0, 5), Outcome::Accepted);
    assert_eq!(numbers(&mut stream), [1, 2, 3, 4, 5, 6], "the stop heap is one like any other");
    assert_eq!(stream.push(0, &stop(6)), COPY);
    // The same stop within a second could be a copy; the next run is heard all the same.
    for round in 1..4 {
        assert_eq!(run(&mut stream, round * 100 * MS, 5), COPY);
        assert_eq!(numbers(&mut stream), [1, 2, 3, 4, 5]);
    }
    // A longer run has a heap with the number of that stop.
    assert_eq!(run(&mut stream, 400 * MS, 8), Outcome::Accepted);
    assert_eq!(numbers(&mut stream), (1..=9).collect::<Vec<_>>());
    assert_eq!(ledger(&mut stream).balance(), 0);
}

#[test]
fn a_stop_of_one_of_several_senders_is_counted_once_and_forgets_heaps() {
    let mut stream =
        HeapReceiver::new(ReceiverConfig { stops: 2, max_heaps: 64, ..ours() }).unwrap();
    // Another sender's heap is on its way, and is not forgotten.
    let other = heap(100, &pattern(300, 1), 100);
    stream.push(0, &other[0]);
    assert_eq!(run(&mut stream, 0, 5), Outcome::Accepted);
    assert_eq!((stream.stop_items(), stream.ended()), (1, None));
    assert_eq!(run(&mut stream, 100 * MS, 5), COPY, "the same sender's");
    assert_eq!((stream.stop_items(), stream.ended()), (1, None));
    other[1..].iter().for_each(|packet| assert_eq!(stream.push(0, packet), Outcome::Accepted));
    assert_eq!(numbers(&mut stream), [1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 100]);
    stream.push(100 * MS, &stop(101));
    assert_eq!(stream.ended(), Some(StreamEnd::StopItem));
    assert_eq!(ledger(&mut stream).balance(), 0);
}

proptest! {
    /// Each heap comes once whatever the rate, and its copy is refused as long as half of the numbers have not passed.
    #[test]
    fn a_number_is_refused_for_half_of_the_numbers_and_then_is_another_heap(
        (bits, step_bits, odd) in (1u32..6, 0u32..7, 0u64..4),
        (between_ns, late, first) in (1u64..3_900_000, 0u64..200, any::<u64>()),
        known: bool,
    ) {
        let (bits, step) = (8 * bits, (2 * odd + 1) << if known { step_bits } else { 0 });
        let first = first & ((1 << bits) - 1);
        let config = ReceiverConfig {
            sequence: known.then_some(NumberSequence { first, step }),
            // Numbers that meet in the table push each other out: here they hardly ever do.
            remember_heaps: 1 << 17,
            ..ours()
        };
        let half = 1u64 << (bits - 1 - step.trailing_zeros());
        let late = late.min(half - 1);
        let number = |n: u64| (first + n * step) & ((1 << bits) - 1);
        let mut stream = HeapReceiver::new(config).unwrap();
        for n in 0..600u64 {
            prop_assert_eq!(stream.push(n * between_ns, &small(bits, number(n))), Outcome::Accepted);
            if n >= late {
                prop_assert_eq!(stream.push(n * between_ns, &small(bits, number(n - late))), COPY);
            }
        }
        prop_assert_eq!(drain(&mut stream).len(), 600);
    }
}
