//! Runs of numbers, a packet each: the same totals as one by one, restarts, late packets and refused ones.

use crate::sequence::{Start, Totals, Tracker};
use proptest::prelude::*;

const WINDOW: u32 = 256;

fn tracker() -> Tracker {
    Tracker::new(24, WINDOW, Start::AtFirst)
}

/// Packets of 10 numbers from these on.
fn run(firsts: impl IntoIterator<Item = u64>) -> Totals {
    let mut t = tracker();
    firsts.into_iter().for_each(|first| t.observe_run(first, 10));
    t.finish(None)
}

#[test]
fn packets_in_order_over_the_overflow_are_nothing_but_received() {
    let t = run((0..1000).map(|n| (1 << 24) - 5005 + 10 * n));
    assert_eq!(t, Totals { received: 10_000, wrapped: 1, ..Totals::default() });
}

#[test]
fn a_late_packet_is_no_new_beginning_though_its_numbers_follow_each_other() {
    let mut t = tracker();
    (0..100).filter(|&n| n != 3).for_each(|n| t.observe_run(10 * n, 10));
    t.observe_run(30, 10);
    t.observe_run(1000, 10);
    // One that reaches into the window: 5 are late, 5 are known.
    t.observe_run(1010 - u64::from(WINDOW) - 5, 10);
    t.observe_run(1010, 10);
    let wanted = Totals { received: 1030, lost: 10, late: 15, duplicate: 5, ..Totals::default() };
    assert_eq!(t.finish(None), wanted);
}

#[test]
fn a_sender_that_begins_anew_loses_nothing_wherever_it_stood() {
    // Before: little, near half the range, beyond it, shortly before the overflow.
    for before in [5_000, 8_000_000, 9_000_000, (1 << 24) - 100_000, (1 << 24) - 1_000] {
        for again in [0, 1] {
            let t = run([before, before + 10, again, again + 10, again + 20]);
            let wanted = Totals { received: 50, restarted: 1, ..Totals::default() };
            assert_eq!(t, wanted, "{again} after {before}");
        }
    }
    // Its first packets are lost: far from the overflow it is told all the same.
    let t = run([9_000_000, 9_000_010, 70, 80, 90]);
    assert_eq!((t.lost, t.restarted, t.late), (0, 1, 0));
}

#[test]
fn a_gap_over_the_overflow_is_no_new_beginning() {
    let t = run([(1 << 24) - 20, (1 << 24) - 10, 50, 60]);
    assert_eq!(t, Totals { received: 40, lost: 50, wrapped: 1, ..Totals::default() });
    // Within the window even one that ends at 0 is a gap.
    assert_eq!(run([(1 << 24) - 200, 0]).lost, 190);
}

#[test]
fn an_outage_is_lost_exactly() {
    assert_eq!(run([100, 110, 3_000_000, 3_000_010]).lost, 3_000_000 - 120);
    // A number alone that far away is not believed.
    let mut t = tracker();
    t.observe_run(100, 10);
    t.observe_run(3_000_000, 1);
    t.observe_run(110, 10);
    assert_eq!(t.totals(), Totals { received: 21, late: 1, ..Totals::default() });
    // Two such packets in a row are.
    t.observe_run(3_000_000, 1);
    t.observe_run(3_000_001, 1);
    let lost = 3_000_000 - 120;
    assert_eq!(t.finish(None), Totals { received: 23, late: 1, lost, ..Totals::default() });
}

#[test]
fn what_a_refused_packet_held_is_neither_missing_nor_received() {
    let mut t = tracker();
    assert!(!t.excuse(5, 10, 1000), "nothing seen yet");
    t.observe_run(0, 10);
    assert!(t.excuse(10, 10, 0), "the next ones");
    t.observe_run(30, 10);
    assert!(t.excuse(20, 5, 0), "in the gap");
    assert_eq!(t.pending(), 5);
    assert!(!t.excuse(50, 10, 9), "further than it may");
    assert_eq!(t.gap_before(60, 10), Some(20));
    assert!(t.excuse(50, 10, 10));
    t.observe_run(60, 10);
    assert!(t.excuse(65, 10, 0), "5 of them are new");
    t.observe_run(75, 5);
    let wanted = Totals { received: 35, lost: 15, ..Totals::default() };
    assert_eq!(t.finish(None), wanted);
    assert!(!t.excuse(0, 3, 0), "behind the window");
}

#[test]
fn what_leaves_the_window_unseen_is_lost_however_long_the_run() {
    for window in [1u32, 4, 64, 256, 4096] {
        let mut t = Tracker::new(24, window, Start::AtFirst);
        t.observe_run(1, 1);
        t.observe_run(3, 1);
        t.observe_run(4, 10_000);
        assert_eq!((t.totals().lost, t.pending()), (1, 0), "window {window}");
    }
}

proptest! {
    /// Drops, copies and swaps of whole packets: runs give what one number after the other gives.
    #[test]
    fn a_run_is_its_numbers_one_by_one(
        begin in 0u64..1 << 24,
        packets in proptest::collection::vec((1u32..60, 0u8..12), 1..200),
    ) {
        // A first packet as long as the window, and no packet overtaken by more than that: nothing is late. Of late packets a run
        // is one witness of a new beginning, and its numbers one by one are several.
        let (mut number, mut sent) = (begin + u64::from(WINDOW), vec![(begin, WINDOW)]);
        for (count, fate) in packets {
            let first = number;
            number += u64::from(count);
            match fate {
                0 => {}
                1 => sent.extend([(first, count); 2]),
                2 if sent[1..].last().is_some_and(|last| number - last.0 <= u64::from(WINDOW)) => {
                    sent.insert(sent.len() - 1, (first, count));
                }
                _ => sent.push((first, count)),
            }
        }
        let (mut runs, mut single) = (tracker(), tracker());
        for &(first, count) in &sent {
            runs.observe_run(first, count);
            for n in 0..u64::from(count) {
                single.observe(first + n);
            }
            prop_assert_eq!(runs.pending(), single.pending());
            prop_assert_eq!(runs.totals(), single.totals());
        }
        prop_assert_eq!(runs.finish(None), single.finish(None));
    }

    /// Any runs and refused packets: nothing panics, and parts add up.
    #[test]
    fn any_numbers_are_survived(
        bits in 3u32..=64, small in any::<bool>(),
        runs in proptest::collection::vec((any::<u64>(), 0u32..700, any::<bool>(), 0u32..64), 0..60),
    ) {
        let window = if small { 1 } else { (1u32 << (bits - 2).min(9)).max(1) };
        let mut t = Tracker::new(bits, window, Start::AtFirst);
        for (number, count, refused, shift) in runs {
            if refused {
                t.excuse(number >> shift, count, number >> 40);
            } else {
                t.observe_run(number >> shift, count);
            }
            prop_assert!(t.pending() <= u64::from(window));
            let Totals { received, duplicate, late, reordered, .. } = t.totals();
            prop_assert!(duplicate + late + reordered <= received);
        }
        t.finish(None);
        prop_assert_eq!(t.pending(), 0);
    }
}
