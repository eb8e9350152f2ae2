//! The queues: nothing appears or vanishes, and simple cases are as worked out by hand.

use proptest::prelude::*;

use super::plan::{Wishes, plan};
use super::queues::{QueueSetup, Sizes, UNBOUNDED, simulate};
use super::{example, instrument};

/// 10,000 packets/s, twice that everywhere behind.
fn setup() -> QueueSetup {
    QueueSetup {
        rate: 10_000.0,
        hz: None,
        factor: 1.0,
        receive: 20_000.0,
        process: None,
        output: Some((20_000.0, 20_000.0)),
        room: [UNBOUNDED; 4],
        bytes: [1000.0, 1000.0, 80.0, 81.0],
        step_s: 1e-4,
        outage_s: 1.0,
        seed: 1,
    }
}

fn total(o: &super::queues::QueueOutcome) -> u64 {
    o.out + o.lost.iter().sum::<u64>() + o.left.iter().sum::<u64>()
}

#[test]
fn an_outage_fills_the_spool_and_empties_in_the_time_that_the_spare_rate_takes() {
    let o = simulate(&setup());
    assert_eq!((o.arrived, o.lost), (total(&o), [0, 0]));
    // 1 s at 10,000/s wait (Poisson: ± 100); the spare 10,000/s takes 1 s for them.
    assert!((9_600..10_400).contains(&o.deepest[3]), "{o:?}");
    let drained = o.drained_s.unwrap();
    assert!((0.9..1.1).contains(&drained) && !o.computed, "{o:?}");
    assert!(o.usual[3] < 50, "{o:?}");
}

#[test]
fn a_full_spool_loses_behind_it_and_says_when() {
    let mut s = setup();
    s.room[2] = 1_000;
    s.room[3] = 5_000;
    let o = simulate(&s);
    assert_eq!(o.arrived, total(&o));
    assert_eq!((o.deepest[2], o.deepest[3], o.lost[0]), (1_000, 5_000, 0));
    // 6,000 packets of room are full after 0.6 s; the rest of the second is lost.
    assert!((0.55..0.65).contains(&o.first_loss_s.unwrap()), "{o:?}");
    assert!((3_600..4_400).contains(&o.lost[1]), "{o:?}");
}

#[test]
fn a_peak_waits_in_the_socket() {
    // 10 pulses a second with 25 times the average for 1 ms: 250 packets, of which the worker takes 20 meanwhile.
    let s = QueueSetup { hz: Some(10.0), factor: 25.0, ..setup() };
    let o = simulate(&s);
    assert!((180..290).contains(&o.deepest[0]), "{o:?}");
    let tight = QueueSetup { room: [100, 0, UNBOUNDED, UNBOUNDED], ..s };
    let o = simulate(&tight);
    assert_eq!((o.deepest[0], o.arrived), (100, total(&o)));
    assert!(o.lost[0] > 1_000 && o.first_loss_s.unwrap() < 0.0, "{o:?}");
}

#[test]
fn slow_brokers_never_catch_up_and_slow_draining_is_computed() {
    let o = simulate(&QueueSetup { output: Some((20_000.0, 9_000.0)), ..setup() });
    assert_eq!((o.drained_s, o.arrived), (None, total(&o)));
    let o = simulate(&QueueSetup { output: Some((20_000.0, 10_100.0)), ..setup() });
    // 10,000 packets at 100/s: 100 s, of which 60 are simulated. The arrivals' own spread is ± 800.
    assert!(o.computed && (85.0..115.0).contains(&o.drained_s.unwrap()), "{o:?}");
}

#[test]
fn a_full_ring_leaves_packets_in_the_socket() {
    let mut s = QueueSetup { process: Some(5_000.0), ..setup() };
    s.room[1] = 500;
    let o = simulate(&s);
    assert_eq!((o.deepest[1], o.lost, o.arrived), (500, [0, 0], total(&o)));
    assert!(o.deepest[0] > 5_000, "{o:?}");
}

#[test]
fn without_an_output_what_is_processed_is_out() {
    let o = simulate(&QueueSetup { output: None, ..setup() });
    assert_eq!((o.deepest[2], o.deepest[3], o.arrived), (0, 0, total(&o)));
    assert!(o.out > 19_000 && o.drained_s.is_some(), "{o:?}");
}

#[test]
fn a_plan_becomes_a_worker() {
    let skadi = instrument::named("skadi").unwrap().remove(0);
    let facts = example::facts();
    let wishes = Wishes { produce: Some(400e6), ..Wishes::default() };
    let p = plan(&skadi, &facts, &wishes).unwrap();
    let sizes = Sizes {
        receive_buffer: 64 << 20,
        queue: 64,
        spool: 4 << 30,
        step_s: 1e-4,
        outage_s: 1.0,
        seed: 1,
    };
    let s = QueueSetup::new(&p, &sizes, Some(1e9), Some(400e6));
    // 1180 MB/s in packets of 1250 B: 944,000/s; 400,000 of a worker at 80 %: 3 of them.
    assert!((s.rate - 944_000.0 / 3.0).abs() < 1e-6 && p.workers == 3, "{s:?}");
    // 64 MiB as payload; 2304 B each of twice that are more.
    assert_eq!(s.room[0], 53_687);
    // 37 M events/s: 20 ms of a worker are more than 65,536; 39.2 events a packet.
    assert_eq!(s.room[2], (64.0 * 65_536.0 / p.events_per_packet) as u64);
    assert_eq!((s.process, s.room[1]), (None, 0));
    let two = plan(&skadi, &facts, &Wishes { threads: 2, ..wishes }).unwrap();
    let s = QueueSetup::new(&two, &sizes, None, None);
    assert_eq!((s.room[1], s.output), (16_000, None));
    assert!(s.process.is_some());
}

#[test]
fn the_same_seed_gives_the_same_outcome() {
    let s = QueueSetup { hz: Some(14.0), factor: 20.0, ..setup() };
    assert_eq!(simulate(&s), simulate(&s));
    assert_ne!(simulate(&s), simulate(&QueueSetup { seed: 2, ..s }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_came_is_out_lost_or_waiting(
        rate in 10.0f64..50_000.0,
        (receive, append, produce) in (10.0f64..50_000.0, 10.0f64..50_000.0, 10.0f64..50_000.0),
        process in proptest::option::of(10.0f64..50_000.0),
        rooms in proptest::array::uniform4(1u64..5_000),
        has_output in any::<bool>(),
        (hz, factor) in (1.0f64..40.0, 1.0f64..25.0),
        seed in any::<u64>(),
    ) {
        let s = QueueSetup {
            rate, hz: Some(hz), factor, receive, process,
            output: has_output.then_some((append, produce)),
            room: rooms, bytes: [1.0; 4], step_s: 1e-3, outage_s: 0.3, seed,
        };
        let o = simulate(&s);
        prop_assert_eq!(o.arrived, total(&o), "{:?}", o);
        for ((deepest, room), left) in o.deepest.iter().zip(s.room).zip(o.left) {
            prop_assert!(*deepest <= room && left <= *deepest, "{:?}", o);
        }
        prop_assert_eq!(o.lost.iter().any(|n| *n > 0), o.first_loss_s.is_some());
        let free = simulate(&s.unbounded());
        prop_assert_eq!(free.lost, [0, 0]);
        prop_assert_eq!(free.arrived, total(&free));
    }
}
