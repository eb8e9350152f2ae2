//! Scripts for the tracker: given this order of numbers, these totals and nothing else.

use super::*;
use proptest::prelude::*;

fn run(bits: u32, window: u32, numbers: impl IntoIterator<Item = u64>) -> Totals {
    let mut t = Tracker::new(bits, window, Start::AtFirst);
    for n in numbers {
        t.observe(n);
    }
    t.finish(None)
}

#[test]
fn in_order_is_nothing_but_received() {
    let t = run(14, 64, (0..40_000).map(|n| n % 16384));
    assert_eq!(t, Totals { received: 40_000, wrapped: 2, ..Totals::default() });
}

#[test]
fn a_gap_is_lost_once_and_a_swap_is_never_lost() {
    let t = run(64, 64, [0, 1, 3, 2, 4, 7, 8]);
    assert_eq!(t, Totals { received: 7, lost: 2, reordered: 1, ..Totals::default() });
}

#[test]
fn a_copy_is_a_duplicate_even_of_the_newest_number() {
    let t = run(64, 64, [5, 5, 6, 6, 5]);
    assert_eq!(t, Totals { received: 5, duplicate: 3, ..Totals::default() });
}

#[test]
fn behind_the_window_is_late_and_stays_lost() {
    let mut t = Tracker::new(64, 64, Start::AtFirst);
    for n in (0..200).filter(|&n| n != 10) {
        t.observe(n);
    }
    assert_eq!(t.totals().lost, 1);
    assert_eq!(t.observe(10), Seen::Late);
    let t = t.finish(None);
    assert_eq!((t.lost, t.late, t.restarted), (1, 1, 0));
}

#[test]
fn a_restart_needs_two_numbers_in_a_row() {
    let mut t = Tracker::new(64, 64, Start::AtFirst);
    for n in 0..1000 {
        t.observe(n);
    }
    assert_eq!(t.observe(0), Seen::Late);
    assert_eq!(t.observe(1), Seen::Restarted);
    assert_eq!(t.observe(2), Seen::New);
    assert_eq!(t.observe(0), Seen::Duplicate, "the confirmed first number is known");
    let t = t.finish(None);
    assert_eq!(t, Totals { received: 1004, restarted: 1, duplicate: 1, ..Totals::default() });
}

#[test]
fn one_damaged_number_invents_no_loss() {
    let t = run(64, 64, (0..100).chain([1 << 60]).chain(100..200));
    assert_eq!(t, Totals { received: 201, late: 1, ..Totals::default() });
}

#[test]
fn an_outage_longer_than_any_believable_jump_is_a_loss_once_confirmed() {
    let t = run(64, 64, (0..100).chain(10_000_000..10_000_100));
    assert_eq!(t.received, 200);
    assert_eq!(
        t.lost,
        10_000_000 - 100 + 1,
        "the unconfirmed first number counts as not delivered"
    );
    assert_eq!(t.late, 1);
}

#[test]
fn at_zero_counts_the_missing_head_and_a_late_join_is_told_apart() {
    let mut t = Tracker::new(64, 64, Start::AtZero);
    for n in [2, 0, 3] {
        t.observe(n);
    }
    let end = t.finish(Some(6));
    assert_eq!((end.lost, end.reordered), (3, 1), "1, 4 and 5 are missing");
    let mut t = Tracker::new(64, 64, Start::AtZero);
    t.observe(1_000_000);
    assert_eq!((t.first(), t.finish(None).lost), (1_000_000, 0));
}

#[test]
fn nothing_received_but_a_total_means_all_lost() {
    assert_eq!(Tracker::new(64, 64, Start::AtZero).finish(Some(7)).lost, 7);
}

#[test]
fn a_64_bit_counter_wraps_too() {
    let t = run(64, 64, [u64::MAX - 1, u64::MAX, 0, 1]);
    assert_eq!(t, Totals { received: 4, wrapped: 1, ..Totals::default() });
}

proptest! {
    /// Drops, copies and swaps of neighbours on disjoint places are told apart exactly.
    #[test]
    fn faults_are_counted_exactly(bits in 9u32..=64, begin in any::<u64>(), faults in proptest::collection::vec(0u8..8, 1..300)) {
        let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        let (mut order, mut n) = (vec![], 0u64);
        let (mut lost, mut duplicate, mut reordered) = (0, 0, 0);
        order.push(n); n += 1;
        for f in faults {
            match f {
                0 => { n += 1; lost += 1; }
                1 => { order.extend([n, n]); n += 1; duplicate += 1; }
                2 => { order.extend([n + 1, n]); n += 2; reordered += 1; }
                _ => { order.push(n); n += 1; }
            }
        }
        order.push(n);
        let got = run(bits, 64, order.iter().map(|k| begin.wrapping_add(*k) & mask));
        prop_assert_eq!((got.received, got.lost, got.duplicate, got.reordered, got.late, got.restarted),
                        (order.len() as u64, lost, duplicate, reordered, 0, 0));
    }

    /// Whatever comes, nothing panics and every observation has one verdict.
    #[test]
    fn any_order_of_any_numbers_is_survived(bits in 8u32..=64, numbers in proptest::collection::vec(any::<u64>(), 0..400)) {
        let mut t = Tracker::new(bits, 64, Start::AtFirst);
        let mut verdicts = 0;
        for n in &numbers {
            // Mostly small steps, sometimes anything: both paths are walked.
            let n = if n % 3 == 0 { *n } else { t.next().wrapping_add(n % 9).wrapping_sub(4) };
            t.observe(n);
            verdicts += 1;
        }
        prop_assert_eq!(t.finish(None).received, verdicts);
    }
}
