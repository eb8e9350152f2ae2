//! The pacer against its guarantees, with simulated time: shape of trains, ±1 % over any
//! second under jitter and stalls, no burst after a stall.

use super::*;
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

/// Runs `pace` with a look at the clock whenever it asks for one, each `late(i)` ns too late, for
/// `span` ns; returns when packets went and how many.
fn run(pace: &mut Pace, span: u64, mut late: impl FnMut(usize) -> u64) -> Vec<(u64, u32)> {
    let (mut now, mut sent, mut i) = (0, Vec::new(), 0);
    while now < span {
        let n = pace.take(now);
        if n > 0 {
            sent.push((now, n));
        }
        if pace.wait_ns() > 0 {
            now += pace.wait_ns() + late(i);
            i += 1;
        }
    }
    sent
}

/// Fewest and most packets in any window of one second that lies in `sent`.
fn extremes(sent: &[(u64, u32)], span: u64) -> (u64, u64) {
    let (mut least, mut most) = (u64::MAX, 0);
    let (mut inside, mut end) = (0u64, 0);
    for (i, (t, n)) in sent.iter().enumerate() {
        while end < sent.len() && sent[end].0 < t + SECOND {
            inside += u64::from(sent[end].1);
            end += 1;
        }
        if t + SECOND <= span {
            most = most.max(inside);
            // The emptiest windows begin right after a train: (t, t + 1 s].
            let behind = sent.get(end).is_some_and(|e| e.0 == t + SECOND);
            least =
                least.min(inside - u64::from(*n) + if behind { u64::from(sent[end].1) } else { 0 });
        }
        inside -= u64::from(*n);
        debug_assert!(i < end);
    }
    (least, most)
}

#[test]
fn trains_span_100_us_or_64_kib_and_are_single_below_10_khz() {
    let train = |pps, size| Pace::new(pps, size, 0).unwrap().train();
    assert_eq!(train(9_999.0, 64), 1);
    assert_eq!(train(1.0, 64), 1);
    assert_eq!(train(10_000.0, 64), 1);
    assert_eq!(train(100_000.0, 64), 10);
    assert_eq!(train(19.53e6, 64), 1024, "64 KiB come before 100 us");
    assert_eq!(train(139_000.0, 8972), 7);
    assert_eq!(train(1e6, 65_507), 1);
    assert_eq!(train(1e9, 0), 65_536, "an empty datagram counts as a byte");
}

#[test]
fn rates_out_of_range_are_refused_with_the_range() {
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1.1e9, 1e-4] {
        let told = Pace::new(bad, 64, 0).unwrap_err().to_string();
        assert!(told.contains("0.001 to 1000000000"), "{told}");
    }
}

#[test]
fn a_long_run_neither_gains_nor_loses() {
    // 10 Gb/s at 64 B: an hour's worth of credit in steps of 1 s is off by less than one packet.
    let pps = 10e9 / 512.0;
    let mut pace = Pace::new(pps, 64, 0).unwrap();
    let step = pace.cost();
    let exact = 1e9 / pps * f64::from(pace.train());
    let error = (step as f64 / ONE_NS as f64 - exact).abs() / exact;
    assert!(error * pps * 3600.0 < 1.0, "{error}");
    assert!(pace.take(0) > 0);
}

#[test]
fn a_stall_is_paid_back_slowly_and_a_long_one_is_given_up() {
    let pps = 1e6;
    let mut pace = Pace::new(pps, 100, 0).unwrap();
    let mut now = 0;
    let mut sent = 0u64;
    while now < SECOND {
        sent += u64::from(pace.take(now));
        now += pace.wait_ns();
    }
    assert!(sent.abs_diff(1_000_000) <= 200, "{sent}");
    // 5 ms of silence, then the first millisecond brings at most 1.1 times the rate and the slack.
    now += 5_000_000;
    let (end, mut burst) = (now + 1_000_000, 0);
    while now < end {
        burst += u64::from(pace.take(now));
        now += pace.wait_ns().max(1);
    }
    assert!(burst <= 1100 + 300, "{burst}");
    let until = now + 60_000_000;
    while now < until {
        burst += u64::from(pace.take(now));
        now += pace.wait_ns().max(1);
    }
    assert!(burst.abs_diff(66_000) <= 300, "everything owed came: {burst}");
    assert_eq!(pace.given_up(), 0);
    // 29 ms: 9 ms are paid back and 0.2 ms are available, the rest is given up.
    now += 29_000_000;
    pace.take(now);
    assert!(pace.given_up().abs_diff(19_800) <= 200, "{}", pace.given_up());
}

#[test]
fn time_that_stands_still_or_runs_backwards_gives_nothing() {
    let mut pace = Pace::new(1000.0, 64, 5 * SECOND).unwrap();
    assert_eq!(pace.take(5 * SECOND), 1);
    assert_eq!(pace.take(5 * SECOND), 0);
    assert_eq!(pace.take(0), 0);
    assert_eq!(pace.wait_ns(), 1_000_000);
    assert_eq!(pace.take(5 * SECOND + 999_999), 0);
    assert_eq!(pace.take(5 * SECOND + 1_000_000), 1);
}

#[test]
fn flat_out_never_waits() {
    let mut pacer = Pacer::flat_out(1472);
    assert_eq!(pacer.wait(Duration::ZERO), 44);
    assert_eq!((pacer.train(), pacer.given_up()), (44, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_second_is_within_1_percent_and_one_train(
        exponent in 2.0f64..6.0, size in 0usize..9000, seed: u64, jitter in 0u64..300_000,
        stall in 0u64..8_000_000,
    ) {
        let pps = 10f64.powf(exponent);
        let mut pace = Pace::new(pps, size, 0).unwrap();
        let train = f64::from(pace.train());
        let span = 3 * SECOND;
        // Every wake-up late by up to `jitter` (xorshift), one stall on the way.
        let mut x = seed | 1;
        let mut stalled = false;
        let mut wakes = 0u64;
        let interval = 1e9 / pps * train;
        let stall_at = (0.7e9 / interval) as u64;
        let sent = run(&mut pace, span, |_| {
            x ^= x << 13; x ^= x >> 7; x ^= x << 17;
            wakes += 1;
            if wakes > stall_at && !stalled { stalled = true; return stall; }
            x % (jitter + 1)
        });
        let (least, most) = extremes(&sent, span);
        // A wake-up that is late by more than a train loses rate permanently; this is not guaranteed against.
        let slack = interval * 0.1 + 100_000.0;
        prop_assert!(most as f64 <= pps * 1.0093 + train + 1.0, "most {most} of {pps}");
        if (jitter as f64) < slack {
            let floor = pps * 0.99 - train - 1.0;
            prop_assert!(least as f64 >= floor, "least {least} of {pps}, train {train}");
            prop_assert_eq!(pace.given_up(), 0);
        }
    }

    #[test]
    fn no_span_of_time_gives_more_than_its_share(
        pps in 0.01f64..2e7, size in 0usize..65_508,
        steps in prop::collection::vec(0u64..20_000_000, 1..400),
    ) {
        let mut pace = Pace::new(pps, size, 0).unwrap();
        let (train, mut now, mut sent) = (f64::from(pace.train()), 0u64, 0u64);
        for step in steps {
            now += step;
            loop {
                let n = pace.take(now);
                if n == 0 { break }
                sent += u64::from(n);
            }
            // The first train is free; after it the rate applies, paid-back time included.
            let most = now as f64 * pps / 1e9 + train + 1.0;
            prop_assert!(sent as f64 <= most, "{sent} > {most}");
        }
    }
}
