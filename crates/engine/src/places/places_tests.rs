//! The attribution on made-up intervals, and what must hold for any of them.

use super::*;
use proptest::prelude::*;

fn gaps(missing: u64, received: u64) -> GapCounts {
    GapCounts { missing, queue: 0, received }
}

fn moved(by: HostWitness, times: u64) -> Moved {
    Moved { by, times, back: 1 }
}

/// Amount at one place.
fn at(shares: &Shares, place: Place) -> u64 {
    Place::ALL.iter().zip(shares.at).find(|(p, _)| **p == place).map_or(0, |(_, n)| n)
}

#[test]
fn every_witness_names_its_place_and_says_what_to_do() {
    let lines = HostWitness::catalogue();
    for by in HostWitness::NAMING {
        assert!(by.place().is_some() && !lines[by as usize].todo.is_empty(), "{by:?}");
    }
    let naming = lines.len() - 2;
    assert_eq!(HostWitness::NAMING.len(), naming, "all but the two about the probes themselves");
}

#[test]
fn one_place_that_moved_has_all_of_it() {
    // 62,848 packets missing showed as 982 drops of the socket.
    let mut a = Attribution::new(8, 1);
    a.step(gaps(62_848, 100), &[moved(HostWitness::SocketFull, 982)]);
    assert_eq!(at(&a.shares(62_848), Place::Socket), 62_848);
}

#[test]
fn none_that_moved_leaves_it_unknown_and_several_share_it() {
    let mut a = Attribution::new(8, 1);
    a.step(gaps(5, 1), &[]);
    a.step(gaps(5, 2), &[]);
    let two = [moved(HostWitness::Missed, 10), moved(HostWitness::Backlog, 10)];
    a.step(gaps(12, 3), &two);
    let s = a.shares(12);
    assert_eq!(at(&s, Place::Unknown), 5);
    let both = vec![Place::Nic, Place::Backlog];
    assert_eq!(s.shared, [Shared { places: both, packets: 7 }]);
}

#[test]
fn two_counters_of_one_place_are_one_place() {
    let mut a = Attribution::new(8, 1);
    let both = [moved(HostWitness::Checksum, 2), moved(HostWitness::Damaged, 2)];
    a.step(gaps(4, 1), &both);
    assert_eq!(at(&a.shares(4), Place::Link), 4);
}

#[test]
fn one_count_stands_for_a_train_and_never_for_more() {
    let mut a = Attribution::new(8, 1);
    a.step(gaps(1000, 1), &[moved(HostWitness::CardDropped, 1)]);
    let s = a.shares(1000);
    assert_eq!((at(&s, Place::Nic), at(&s, Place::Unknown)), (128, 872));
}

#[test]
fn what_is_numbered_instead_of_packets_is_explained_by_as_many_as_packets_hold() {
    let mut a = Attribution::new(8, 1);
    a.step_numbered(gaps(9000, 1), &[moved(HostWitness::CardDropped, 1)], 40, 0);
    let s = a.shares(9000);
    assert_eq!((at(&s, Place::Nic), at(&s, Place::Unknown)), (128 * 40, 9000 - 128 * 40));
    // Our own full queue is a movement like any other: nobody knows how many of them its packets held.
    a.step_numbered(gaps(9000, 2), &[], 40, 0);
    a.step_numbered(gaps(9000, 3), &[], 40, 0);
    a.step_numbered(gaps(9060, 4), &[], 40, 2);
    assert_eq!(at(&a.shares(9060), Place::Queue), 60);
    let both = [moved(HostWitness::SocketFull, 1)];
    a.step_numbered(gaps(9070, 5), &both, 40, 1);
    let s = a.shares(9070);
    let shared = vec![Place::Socket, Place::Queue];
    assert_eq!(s.shared, [Shared { places: shared, packets: 10 }]);
    assert_eq!(s.total(), 9070);
}

#[test]
fn a_movement_waits_for_its_gap_while_nothing_comes() {
    let mut a = Attribution::new(8, 1);
    a.step(gaps(0, 10), &[moved(HostWitness::SocketFull, 3)]);
    // The reader is stopped: intervals without packets do not count.
    for _ in 0..50 {
        a.step(gaps(0, 10), &[]);
    }
    a.step(gaps(100, 20), &[]);
    assert_eq!(at(&a.shares(100), Place::Socket), 100);
    // With packets it has had its interval.
    a.step(gaps(100, 30), &[]);
    a.step(gaps(107, 40), &[]);
    let s = a.shares(107);
    assert_eq!((at(&s, Place::Socket), at(&s, Place::Unknown)), (100, 7));
}

#[test]
fn a_movement_stands_as_long_as_it_is_told() {
    for (stands, explained) in [(0, false), (1, false), (2, true), (3, true)] {
        let mut a = Attribution::new(8, stands);
        a.step(gaps(0, 10), &[moved(HostWitness::SocketFull, 1)]);
        a.step(gaps(0, 20), &[]);
        a.step(gaps(3, 30), &[]);
        assert_eq!(at(&a.shares(3), Place::Socket) == 3, explained, "{stands}");
    }
}

#[test]
fn a_gap_that_was_read_just_before_its_counter_is_explained_by_it() {
    let mut a = Attribution::new(8, 1);
    a.step(gaps(9, 10), &[]);
    a.step(gaps(9, 20), &[moved(HostWitness::SocketFull, 9)]);
    assert_eq!(at(&a.shares(9), Place::Socket), 9);
}

#[test]
fn fragments_are_given_up_long_after_and_one_count_is_one_packet() {
    let mut a = Attribution::new(32, 1);
    a.step(gaps(20, 10), &[]);
    for n in 2..20 {
        a.step(gaps(20, 10 * n), &[]);
    }
    let late = Moved { by: HostWitness::Reassembly, times: 15, back: 30 };
    a.step(gaps(20, 300), &[late]);
    let s = a.shares(20);
    assert_eq!((at(&s, Place::Reassembly), at(&s, Place::Unknown)), (15, 5));
}

#[test]
fn a_look_back_ends_where_it_says() {
    let mut a = Attribution::new(32, 1);
    a.step(gaps(20, 10), &[]);
    for n in 2..20 {
        a.step(gaps(20, 10 * n), &[]);
    }
    a.step(gaps(20, 300), &[Moved { by: HostWitness::Reassembly, times: 20, back: 10 }]);
    assert_eq!(at(&a.shares(20), Place::Unknown), 20);
}

#[test]
fn what_comes_after_all_is_no_loss_and_its_counter_is_free_again() {
    let mut a = Attribution::new(8, 1);
    a.step(gaps(100, 10), &[moved(HostWitness::SocketFull, 1)]);
    // Reordered packets fill 60 of the numbers.
    a.step(gaps(40, 20), &[]);
    assert_eq!(at(&a.shares(40), Place::Socket), 40);
    // A loss that is decided smaller than it was seen missing is cut at its newest end.
    assert_eq!(a.shares(10).total(), 10);
}

#[test]
fn our_own_queue_explains_its_numbers_exactly_early_or_late() {
    let mut a = Attribution::new(8, 1);
    // Dropped before the gap is seen: nothing of the socket's amount may be taken for it. The last 3
    // come two intervals behind the socket's movement.
    a.step(GapCounts { missing: 50, queue: 0, received: 1 }, &[moved(HostWitness::SocketFull, 1)]);
    a.step(GapCounts { missing: 50, queue: 10, received: 2 }, &[]);
    a.step(GapCounts { missing: 63, queue: 10, received: 3 }, &[]);
    let s = a.shares(53);
    assert_eq!((at(&s, Place::Socket), at(&s, Place::Unknown), s.total()), (50, 3, 53));
}

#[test]
fn the_tail_that_only_the_sender_knows_goes_where_the_last_movement_was() {
    let mut a = Attribution::new(8, 1);
    a.step(gaps(0, 10), &[moved(HostWitness::Backlog, 4)]);
    assert_eq!(at(&a.shares(30), Place::Backlog), 30);
}

fn witnesses() -> impl Strategy<Value = Vec<Moved>> {
    let one = (0..HostWitness::NAMING.len(), prop_oneof![0..5u64, Just(u64::MAX)], 0..20usize)
        .prop_map(|(by, times, back)| Moved { by: HostWitness::NAMING[by], times, back });
    prop::collection::vec(one, 0..4)
}

fn steps() -> impl Strategy<Value = Vec<(GapCounts, Vec<Moved>)>> {
    let amount = prop_oneof![8 => 0..5000u64, 1 => Just(u64::MAX)];
    let step = (amount, 0..300u64, 0..3u64, witnesses());
    // Amounts go up and down (reordering); what the queue dropped and what came only grow.
    prop::collection::vec(step, 0..40).prop_map(|steps| {
        let (mut queue, mut received) = (0, 0);
        let grow = |(missing, q, r, moved): (u64, u64, u64, Vec<Moved>)| {
            queue += q;
            received += r;
            (GapCounts { missing, queue, received }, moved)
        };
        steps.into_iter().map(grow).collect()
    })
}

proptest! {
    #[test]
    fn places_always_add_up_to_what_is_lost(
        steps in steps(), total in prop_oneof![0..10_000u64, Just(u64::MAX)],
        horizon in 0..12usize, stands in 0..4usize,
    ) {
        let mut a = Attribution::new(horizon, stands);
        for (gaps, moved) in &steps {
            a.step(*gaps, moved);
            let shares = a.shares(total);
            prop_assert_eq!(shares.total(), total);
            prop_assert!(shares.shared.iter().all(|s| s.places.len() > 1 && s.packets > 0));
            prop_assert_eq!(a.shares(total), shares, "asking changes nothing");
        }
    }

    #[test]
    fn a_place_is_named_only_if_it_moved(steps in steps()) {
        let mut a = Attribution::new(8, 1);
        let mut moved_at = std::collections::HashSet::new();
        let mut last = 0;
        for (gaps, moved) in &steps {
            moved_at.extend(moved.iter().filter(|m| m.times > 0).filter_map(|m| m.by.place()));
            a.step(*gaps, moved);
            last = gaps.missing.saturating_sub(gaps.queue);
        }
        let shares = a.shares(last);
        for (place, n) in Place::ALL.iter().zip(shares.at).filter(|(_, n)| *n > 0) {
            prop_assert!(*place == Place::Unknown || moved_at.contains(place), "{n} at {place:?}");
        }
        for s in &shares.shared {
            prop_assert!(s.places.iter().all(|p| moved_at.contains(p)));
        }
    }

    #[test]
    fn what_is_settled_stays_where_it_is(
        before in steps(), n in 1..1000u64, idle in 9..30u64,
    ) {
        // A loss at the socket, then quiet intervals: later movements do not touch it.
        let mut a = Attribution::new(8, 1);
        let mut received = 0;
        for (gaps, moved) in &before {
            a.step(GapCounts { missing: 0, ..*gaps }, moved);
            received = gaps.received;
        }
        let queue = before.last().map_or(0, |(g, _)| g.queue);
        for i in 1..4 {
            a.step(GapCounts { missing: 0, queue, received: received + i }, &[]);
        }
        let missing = queue + n;
        a.step(GapCounts { missing, queue, received: received + 5 }, &[moved(HostWitness::SocketFull, n)]);
        for i in 0..idle {
            a.step(GapCounts { missing, queue, received: received + 6 + i }, &[]);
        }
        let back = Moved { by: HostWitness::Reassembly, times: n, back: 20 };
        a.step(GapCounts { missing, queue, received: received + 100 }, &[back]);
        prop_assert_eq!(at(&a.shares(n), Place::Socket), n);
    }
}
