//! A tracker finds exactly the planned faults, for any seed.

use super::*;
use crate::sequence::{Start, Totals, Tracker};
use proptest::prelude::*;

fn tracked(start: Start, fault: &Fault, packets: u64) -> (Totals, u64) {
    let mut t = Tracker::new(64, 4096, start);
    fault.apply(0..packets).for_each(|n| {
        t.observe(n);
    });
    let highest = t.next();
    (t.finish(None), highest)
}

fn fault(text: &str) -> Fault {
    Fault::new(text.parse().unwrap()).unwrap()
}

#[test]
fn a_million_packets_with_a_hundred_of_each_are_reported_exactly() {
    for seed in 0..20 {
        let text = format!("drop=100,duplicate=100,swap=100,of=1000000,seed={seed}");
        let (t, highest) = tracked(Start::AtZero, &fault(&text), 1_000_000);
        let expected = Totals {
            received: 1_000_000,
            lost: 100,
            duplicate: 100,
            reordered: 100,
            ..Totals::default()
        };
        assert_eq!((t, highest), (expected, 1_000_000), "seed {seed}");
        assert_eq!(tracked(Start::AtFirst, &fault(&text), 1_000_000).0, expected);
    }
}

#[test]
fn another_seed_meets_other_packets_and_the_same_seed_the_same() {
    let met = |seed: u64| -> Vec<u64> {
        let f = fault(&format!("drop=50,of=10000,seed={seed}"));
        (0..10_000).filter(|&n| f.plan(n) == PacketFate::Drop).collect()
    };
    assert_eq!(met(1), met(1));
    assert_ne!(met(1), met(2));
    assert_eq!(met(2).len(), 50);
}

#[test]
fn every_inner_packet_can_be_met_and_the_first_and_last_never() {
    let f = fault("drop=8,of=10");
    let kept: Vec<u64> = f.apply(0..10).collect();
    assert_eq!(kept, [0, 9]);
    let f = fault("swap=4,of=10");
    assert_eq!(f.apply(0..10).collect::<Vec<u64>>(), [0, 2, 1, 4, 3, 6, 5, 8, 7, 9]);
    assert_eq!(f.plan(u64::MAX), PacketFate::Deliver);
}

#[test]
fn what_does_not_fit_is_refused_in_words() {
    let refuse = |text: &str| Fault::new(text.parse().unwrap()).unwrap_err().to_string();
    assert!(refuse("drop=1").contains("of=N"));
    assert!(refuse("drop=9,of=10").contains("9 packets"));
    assert!(refuse("swap=5,of=10").contains("10 packets"));
    assert!(refuse("drop=1,swap=0.1,of=10").contains("mixed"));
    assert!(refuse("drop=0.5,swap=0.3").contains("1.1"));
    assert!(refuse("drop=20000000,of=1000000000").contains("16777216"));
    assert!(refuse("delay=1,by=8,of=10").contains("do not fit"));
    assert!(refuse("drop=1,of=0").contains("of=0"));
}

#[test]
fn nothing_asked_for_changes_nothing() {
    for text in ["", "seed=9", "drop=0", "loss=0.0,seed=3"] {
        assert!(fault(text).apply(0..100u64).eq(0..100), "{text}");
    }
    assert!(Fault::none().apply(0..100u64).eq(0..100));
}

#[test]
fn a_delayed_packet_is_overtaken_by_so_many() {
    let f = fault("delay=1,by=3,of=20,seed=5");
    let order: Vec<u64> = f.apply(0..20).collect();
    let (late, _) = (0..20).map(|n| (n, f.plan(n))).find(|p| p.1 == PacketFate::Hold(3)).unwrap();
    let at = order.iter().position(|&n| n == late).unwrap();
    assert_eq!(at as u64, late + 3);
    let mut sorted = order.clone();
    sorted.sort_unstable();
    assert!(sorted.iter().copied().eq(0..20));
}

#[test]
fn shares_come_out_as_asked() {
    // 3 standard deviations of 1e6 draws at 0.01 are 300.
    let f = fault("drop=0.01,duplicate=0.02,swap=0.03,delay=0.005,by=4,seed=11");
    let mut counts = [0u64; 5];
    for n in 0..1_000_000 {
        counts[match f.plan(n) {
            PacketFate::Deliver => 0,
            PacketFate::Drop => 1,
            PacketFate::Duplicate => 2,
            PacketFate::Hold(1) => 3,
            PacketFate::Hold(_) => 4,
        }] += 1;
    }
    for (got, wanted) in counts[1..].iter().zip([10_000u64, 20_000, 30_000, 5_000]) {
        let deviation = (wanted as f64).sqrt() * 4.0;
        assert!((*got as f64 - wanted as f64).abs() < deviation, "{counts:?}");
    }
}

#[test]
fn all_packets_can_be_dropped_but_the_first() {
    assert!(fault("loss=1.0").apply(0..100u64).eq(0..1));
    assert!(fault("loss=100%,of=100").apply(0..100u64).eq([0, 99]));
    let all = fault("swap=50%");
    let held = (1..101).filter(|&n| all.plan(n) == PacketFate::Hold(1)).count();
    assert!((49..=50).contains(&held), "{held}");
}

proptest! {
    #[test]
    fn counts_are_exact_for_every_seed_and_mix(
        seed: u64, drop in 0u64..30, duplicate in 0u64..30, swap in 0u64..30, spare in 0u64..200,
    ) {
        let of = drop + duplicate + 2 * swap + 2 + spare;
        let spec = Spec {
            drop: Amount::Count(drop),
            duplicate: Amount::Count(duplicate),
            swap: Amount::Count(swap),
            of: Some(of),
            seed,
            ..Spec::default()
        };
        let f = Fault::new(spec).unwrap();
        let (t, highest) = tracked(Start::AtFirst, &f, of);
        prop_assert_eq!((t.lost, t.duplicate, t.reordered, t.late), (drop, duplicate, swap, 0));
        prop_assert_eq!(highest, of);
    }

    #[test]
    fn a_line_loses_nothing_but_what_is_dropped(seed: u64, p in 0.0f64..0.2, n in 0u64..500) {
        let share = Amount::Share(p);
        let spec =
            Spec { drop: share, duplicate: share, swap: share, delay: share, seed, ..Spec::default() };
        let f = Fault::new(spec).unwrap();
        let mut expected = Vec::new();
        for k in 0..n {
            let copies = match f.plan(k) { PacketFate::Drop => 0, PacketFate::Duplicate => 2, _ => 1 };
            expected.extend(std::iter::repeat_n(k, copies));
        }
        let mut got: Vec<u64> = f.apply(0..n).collect();
        got.sort_unstable();
        prop_assert_eq!(got, expected);
    }

    #[test]
    fn swapped_pairs_are_disjoint_from_everything(seed: u64, p in 0.0f64..0.25) {
        let share = Amount::Share(p);
        let spec = Spec { drop: share, swap: share, seed, of: Some(400), ..Spec::default() };
        let f = Fault::new(spec).unwrap();
        for k in 0..400 {
            if f.plan(k) == PacketFate::Hold(1) {
                prop_assert_eq!(f.plan(k + 1), PacketFate::Deliver);
            }
        }
        prop_assert_eq!((f.plan(0), f.plan(399)), (PacketFate::Deliver, PacketFate::Deliver));
    }

    #[test]
    fn texts_come_back(
        drop in amounts(), duplicate in amounts(), swap in amounts(), delay in amounts(),
        by in 1u32..=65_536, of: Option<u64>, seed: u64,
    ) {
        let spec = Spec { drop, duplicate, swap, delay, by, of, seed };
        prop_assert_eq!(spec.to_string().parse::<Spec>().unwrap(), spec);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[a-z0-9=,.%e -]{0,40}") {
        if let Ok(spec) = text.parse::<Spec>() {
            let _ = Fault::new(spec).map(|f| f.plan(3));
        }
    }
}

fn amounts() -> impl Strategy<Value = Amount> {
    prop_oneof![any::<u64>().prop_map(Amount::Count), (0.0f64..=1.0).prop_map(Amount::Share)]
}

#[test]
fn texts_are_refused_with_key_value_and_range() {
    let no = |text: &str| text.parse::<Spec>().unwrap_err().to_string();
    assert!(no("los=1").contains("'los=1' is not one of drop="));
    assert!(no("drop").contains("'drop' is not one of"));
    assert!(no("drop=1,loss=2").contains("'drop' is given twice"));
    assert!(no("loss=1.5").contains("drop=1.5 is not a count"));
    assert!(no("loss=-1").contains("drop=-1"));
    assert!(no("loss=nan%").contains("drop=nan%"));
    assert!(no("by=0").contains("1 to 65536"));
    assert!(no("seed=x").contains("seed=x"));
    assert_eq!("loss=1%".parse::<Spec>().unwrap().drop, Amount::Share(0.01));
    assert_eq!("loss=1e-4".parse::<Spec>().unwrap().drop, Amount::Share(1e-4));
}
