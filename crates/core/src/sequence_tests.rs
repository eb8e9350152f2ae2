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
fn what_somebody_else_has_had_is_no_loss_and_an_open_gap_is_one() {
    for start in [Start::AtFirst, Start::AtZero] {
        let mut t = Tracker::new(14, 64, start);
        let _ = [0, 1, 3].map(|n| t.observe(n));
        assert_eq!((t.totals().lost, t.pending()), (0, 1));
        t.forget();
        assert_eq!((t.totals().lost, t.pending()), (1, 0), "2 does not come any more");
        // Further on, as far back, and the very next: each is the first.
        for first in [9_000, 40, 10_000, 4] {
            let seen = [first, first + 1, first + 3, first + 2].map(|n| t.observe(n));
            assert_eq!(seen, [Seen::New, Seen::New, Seen::New, Seen::Reordered], "{first}");
            t.forget();
        }
        let t = t.finish(None);
        assert_eq!(t, Totals { received: 19, lost: 1, reordered: 4, ..Totals::default() });
    }
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

    /// Whatever comes, at every width and window: every observation has one verdict, and what the
    /// front of the window moved over is either delivered or lost, each number once.
    #[test]
    fn any_order_of_any_numbers_is_accounted_for(
        (bits, window) in widths(), zero in any::<bool>(), full in any::<bool>(),
        numbers in proptest::collection::vec((0u8..12, any::<u64>()), 0..300),
        total in proptest::option::of(prop_oneof![any::<u64>(), (0u64..99).prop_map(|n| u64::MAX - n)]),
    ) {
        let start = if zero { Start::AtZero } else { Start::AtFirst };
        let bits = if full { 64 } else { bits };
        check(Tracker::new(bits, window, start), &numbers, total);
    }
}

/// Widths with all windows that they permit, the smallest as likely as the largest.
fn widths() -> impl Strategy<Value = (u32, u32)> {
    (1u32..=64)
        .prop_flat_map(|bits| (Just(bits), 0..=bits.saturating_sub(2).min(12)))
        .prop_map(|(bits, w)| (bits, 1 << w))
}

/// Lets a tracker see numbers made of (way, amount), and keeps its books in 128 bits.
fn check(mut t: Tracker, numbers: &[(u8, u64)], total: Option<u64>) {
    let (mut seen, mut moved, mut last) = ([0u64; 5], 0u128, 0u64);
    for (i, &(way, any)) in numbers.iter().enumerate() {
        let number = match way {
            0 => any,
            1 => u64::MAX - any % 3,
            2 => any % 3,
            3 => last.wrapping_add(1),
            4 => t.next().wrapping_add(1 << 20).wrapping_add(any % 3),
            5 => t.next().wrapping_add(1 << (any % 64)),
            _ => t.next().wrapping_add(any % 9).wrapping_sub(4),
        };
        last = number;
        let before = t.next();
        let verdict = t.observe(number);
        seen[verdict as usize] += 1;
        moved += match verdict {
            Seen::Restarted => 2,
            _ if i == 0 => u128::from(t.next().wrapping_sub(t.first())),
            _ => u128::from(t.next().wrapping_sub(before)),
        };
        assert!(t.pending() <= t.window);
    }
    let rest = total.map_or(0, |total| total.saturating_sub(t.next()));
    let end = t.finish(total);
    let [new, reordered, duplicate, late, restarted] = seen;
    // A restart takes the late packet before it back: it was the first of the new run.
    let wanted = (numbers.len() as u64, reordered, duplicate, late - restarted, restarted);
    assert_eq!((end.received, end.reordered, end.duplicate, end.late, end.restarted), wanted);
    assert_eq!(end, t.finish(None), "the end is final");
    assert_eq!(t.pending(), 0);
    let lost = moved + u128::from(rest) - u128::from(new + reordered + 2 * restarted);
    assert_eq!(u128::from(end.lost), lost.min(u128::from(u64::MAX)));
}

#[test]
fn the_narrowest_counters_and_smallest_windows_work() {
    for bits in 1..=8u32 {
        for window in (0..=bits.saturating_sub(2)).map(|w| 1 << w) {
            let range = 1u64 << bits;
            let in_order = run(bits, window, (0..10 * range).map(|n| n % range));
            let wanted = Totals { received: 10 * range, wrapped: 9, ..Totals::default() };
            assert_eq!(in_order, wanted, "{bits} bits, window {window}");
            // Every second number is missing: half of the range is the furthest a jump can reach.
            if bits >= 3 {
                let halved = run(bits, window, (0..range).map(|n| 2 * n % range));
                assert_eq!((halved.received, halved.lost), (range, range - 1), "{bits}, {window}");
            }
        }
    }
}

#[test]
fn a_window_of_one_knows_the_newest_number_only() {
    let t = run(8, 1, [0, 1, 1, 3, 2]);
    assert_eq!(t, Totals { received: 5, lost: 1, duplicate: 1, late: 1, ..Totals::default() });
}

#[test]
#[should_panic(expected = "above a quarter of 3-bit numbers")]
fn a_window_above_a_quarter_of_the_range_is_refused() {
    Tracker::new(3, 4, Start::AtFirst);
}

#[test]
fn losses_beyond_64_bits_saturate_and_the_rest_goes_on() {
    let mut t = Tracker::new(64, 64, Start::AtFirst);
    // Each pair of neighbours confirms a jump of almost half the range.
    for n in (0..6u64).map(|k| k.wrapping_mul(0x7fff_ffff_ffff_0000)) {
        t.observe(n);
        t.observe(n.wrapping_add(1));
    }
    assert_eq!(t.totals().lost, u64::MAX);
    assert_eq!(t.finish(Some(u64::MAX)).lost, u64::MAX);
    assert_eq!(t.totals().wrapped, 2, "2.5 times around");
}

#[test]
fn a_counter_of_63_bits_may_run_past_64() {
    let mut t = Tracker::new(63, 64, Start::AtFirst);
    for n in (0..9u64).map(|k| k << 61) {
        t.observe(n);
        t.observe(n + 1);
    }
    assert_eq!(t.totals().wrapped, 2, "0, ¼, ½, ¾, 0, ¼, ½, ¾, 0");
}
