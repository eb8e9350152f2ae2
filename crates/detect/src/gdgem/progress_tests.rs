//! Promises by hand: who holds the border back, for how long, and what damage does not do.

use super::*;

fn rows(progress: &mut Progress, fec: usize, vmm: usize, ns: f64) -> Vec<(u8, f64)> {
    let mut rows = Vec::new();
    if progress.heard(fec, vmm, ns) {
        rows.push(RESTART);
    }
    progress.end_frame(fec, &mut rows);
    rows.iter().map(|r| (r.lane, r.ns())).collect()
}

fn border(ns: f64) -> Vec<(u8, f64)> {
    vec![(FineHit::BORDER, ns)]
}

#[test]
fn the_slowest_input_holds_the_border_back_up_to_the_horizon() {
    let mut p = Progress::new(&[(1, 0), (2, 0)], 1e9, 1e3, 0);
    assert_eq!(rows(&mut p, 1, 0, 1e8), []);
    assert_eq!(rows(&mut p, 2, 0, 5e7), border(49_999_000.0));
    assert_eq!(rows(&mut p, 1, 0, 2e8), []);
    assert_eq!(rows(&mut p, 2, 0, 5.1e7), [], "too small a step");
    assert_eq!(rows(&mut p, 2, 0, 1.5e8), border(149_999_000.0));
    assert_eq!(rows(&mut p, 1, 0, 1e9), []);
    assert_eq!(rows(&mut p, 1, 0, 1.2e9), [], "a second has gone since the other spoke, no more");
    assert_eq!(rows(&mut p, 1, 0, 1.21e9), border(1_209_999_000.0));
    assert_eq!(rows(&mut p, 3, 0, 9e9), [], "not in the geometry");
}

#[test]
fn who_never_speaks_is_waited_for_as_long() {
    let mut p = Progress::new(&[(1, 0), (2, 0)], 1e9, 0.0, 0);
    assert_eq!(rows(&mut p, 1, 0, 5e12), []);
    assert_eq!(rows(&mut p, 1, 0, 5e12 + 9e8), []);
    assert_eq!(rows(&mut p, 1, 0, 5e12 + 1.1e9), border(5e12 + 1.1e9));
}

#[test]
fn clocks_may_differ_by_any_time() {
    for apart in [3e9, 1e12] {
        let mut p = Progress::new(&[(1, 0), (2, 0)], 1e9, 0.0, 0);
        for step in 0..1000 {
            let ns = 1e7 * f64::from(step);
            assert_eq!(rows(&mut p, 1, 0, ns + apart), []);
            let far = rows(&mut p, 2, 0, ns);
            assert!(far.is_empty() || far == border(ns), "{far:?}");
        }
        // One second after the first has fallen silent, the second alone says how far time is.
        assert_eq!(rows(&mut p, 1, 0, 1e10 + apart), []);
        assert!(
            (1..200)
                .any(|step| !rows(&mut p, 1, 0, 1e10 + 1e7 * f64::from(step) + apart).is_empty())
        );
    }
}

#[test]
fn promises_wait_for_more_frames_where_one_is_missing() {
    let mut p = Progress::new(&[(1, 0), (2, 0)], 1e9, 0.0, 2);
    // The border after a frame of each.
    let pair = |p: &mut Progress, step: u32| {
        let ns = 1e6 * f64::from(step);
        let told = [rows(p, 1, 0, ns), rows(p, 2, 0, ns)].concat();
        told.last().map(|(_, told)| *told)
    };
    let all: Vec<_> = (0..12)
        .map(|step| {
            if step == 7 {
                p.missed(1);
            }
            pair(&mut p, step)
        })
        .collect();
    let at = |step: u32| Some(1e6 * f64::from(step));
    // The first frame may be late as well; then each promise counts at once, until the counter of FEC 1 leaps: its
    // promises wait for two frames that are late, and one more.
    let first = [Some(-1e9), None, None, at(0)];
    let then = [at(4), at(5), at(6), None, None, None, at(10), at(11)];
    assert_eq!(all, [&first[..], &then].concat());
}

#[test]
fn frames_wait_no_longer_than_the_horizon() {
    let mut p = Progress::new(&[(1, 0)], 1e9, 0.0, 8);
    assert_eq!(rows(&mut p, 1, 0, 0.0), border(-1e9));
    assert_eq!(rows(&mut p, 1, 0, 9e8), border(-1e8));
    assert_eq!(rows(&mut p, 1, 0, 1.8e9), border(8e8));
}

#[test]
fn a_damaged_marker_moves_nothing() {
    let mut p = Progress::new(&[(1, 0), (1, 1), (2, 0)], 1e9, 0.0, 0);
    for (fec, vmm) in [(1, 0), (1, 1), (2, 0)] {
        rows(&mut p, fec, vmm, 5e9);
    }
    for damaged in [0.0, 4e12] {
        assert_eq!(rows(&mut p, 1, 0, damaged), []);
        assert_eq!(rows(&mut p, 1, 1, 5.001e9), []);
    }
    assert_eq!(rows(&mut p, 2, 0, 5.002e9), []);
    assert_eq!(rows(&mut p, 1, 0, 5.002e9), border(5.001e9));
}

#[test]
fn a_clock_that_was_set_is_believed_at_the_second_marker() {
    let mut p = Progress::new(&[(1, 0), (1, 1)], 1e9, 0.0, 0);
    assert_eq!(rows(&mut p, 1, 0, 5e9), []);
    assert_eq!(rows(&mut p, 1, 1, 5e9), border(5e9));
    assert_eq!(rows(&mut p, 1, 0, 1e6), []);
    assert_eq!(rows(&mut p, 1, 1, 1e6), [(FineHit::RESTART, 0.0)]);
    assert_eq!(rows(&mut p, 1, 0, 2e6), border(1e6));
    // Forward, nothing begins anew.
    assert_eq!(rows(&mut p, 1, 0, 8e12), []);
    assert_eq!(rows(&mut p, 1, 1, 8e12), []);
    assert_eq!(rows(&mut p, 1, 0, 8e12), border(8e12));
    assert_eq!(rows(&mut p, 1, 0, f64::NAN), []);
}

#[test]
fn who_was_not_waited_for_and_is_far_behind_begins_anew() {
    let mut p = Progress::new(&[(1, 0), (2, 0)], 1e8, 0.0, 0);
    rows(&mut p, 1, 0, 5e9);
    assert_eq!(rows(&mut p, 1, 0, 5.2e9), border(5.2e9));
    assert_eq!(rows(&mut p, 2, 0, 5e9), [(FineHit::RESTART, 0.0)]);
    assert_eq!(rows(&mut p, 1, 0, 5.3e9), border(5e9));
}
