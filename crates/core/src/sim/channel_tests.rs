//! The channel in examples, and with random calls.

use proptest::prelude::*;

use super::super::spec::Amount;
use super::*;

fn channel(setup: ChannelSetup) -> Channel<u32> {
    Channel::new(setup).unwrap()
}

fn give(c: &mut Channel<u32>, now: u64, packet: u32, bytes: u32) -> Fate {
    c.push(now, packet, bytes, 8 * u64::from(bytes), |p| *p)
}

fn take(c: &mut Channel<u32>, now: u64) -> Vec<u32> {
    std::iter::from_fn(|| c.pop(now)).collect()
}

#[test]
fn a_cable_without_limits_hands_on_at_once() {
    let mut c = channel(ChannelSetup::default());
    assert_eq!((give(&mut c, 5, 1, 100), give(&mut c, 5, 2, 100)), (Fate::Taken, Fate::Taken));
    assert_eq!(c.next_ns(), Some(5));
    assert_eq!((take(&mut c, 4), take(&mut c, 5)), (vec![1, 2], vec![]), "time does not go back");
    assert_eq!((c.next_ns(), c.inside(), c.balance()), (None, 0, 0));
}

#[test]
fn the_rate_spaces_packets_and_the_queue_has_an_end() {
    // 8 Gbit/s: 100 B take 100 ns.
    let setup = ChannelSetup {
        rate_bps: Some(8_000_000_000),
        queue_packets: 3,
        delay_ns: 1000,
        ..ChannelSetup::default()
    };
    let mut c = channel(setup);
    for packet in 0..3 {
        assert_eq!(give(&mut c, 0, packet, 100), Fate::Taken);
    }
    assert_eq!(give(&mut c, 0, 3, 100), Fate::Dropped);
    assert_eq!(c.next_ns(), Some(1100));
    assert_eq!(take(&mut c, 1099), []);
    assert_eq!(take(&mut c, 1100), [0]);
    assert_eq!((c.waiting(1100), c.inside()), (0, 2), "they have left the queue, not the cable");
    assert_eq!(take(&mut c, 1300), [1, 2]);
    // In bytes: two packets of 100 B fit 250 B, one being sent.
    let mut c = channel(ChannelSetup { queue_packets: usize::MAX, queue_bytes: 250, ..setup });
    let fates = [0, 1, 2].map(|p| give(&mut c, 0, p, 100));
    assert_eq!(fates, [Fate::Taken, Fate::Taken, Fate::Dropped]);
    assert_eq!(give(&mut c, 100, 3, 100), Fate::Taken, "one has gone");
    assert_eq!(c.totals().dropped, 1);
}

#[test]
fn a_rate_is_kept_exactly_over_many_packets() {
    // 3 bits a ns do not divide a packet: 84 B at 3 Gbit/s are 224 ns; 85 B are 226.67 ns.
    let setup = ChannelSetup { rate_bps: Some(3_000_000_000), ..ChannelSetup::default() };
    let mut c = channel(setup);
    // Miri takes minutes for the long row, and a second for the short one.
    let packets: u32 = if cfg!(miri) { 300 } else { 30_000 };
    for packet in 0..packets {
        give(&mut c, 0, packet, 85);
    }
    let mut last = 0;
    while let Some(at) = c.next_ns() {
        last = at;
        c.pop(at);
    }
    assert_eq!(last, u64::from(packets) * 680 / 3, "680 bits at 3 bits a ns, without drift");
}

#[test]
fn the_round_trip_of_the_memo() {
    // SKA1 correlator to science data processor: 8.77 ms there and back.
    let mut there = channel(ChannelSetup { delay_ns: 4_385_000, ..ChannelSetup::default() });
    let mut back = channel(ChannelSetup { delay_ns: 4_385_000, ..ChannelSetup::default() });
    give(&mut there, 0, 7, 64);
    let at = there.next_ns().unwrap();
    let packet = there.pop(at).unwrap();
    give(&mut back, at, packet, 64);
    assert_eq!(back.next_ns(), Some(8_770_000));
}

#[test]
fn faults_are_met_and_counted() {
    let fault: Spec = "drop=10,duplicate=20,swap=30,of=1000,seed=3".parse().unwrap();
    let mut c = channel(ChannelSetup { fault, ..ChannelSetup::default() });
    let mut out = Vec::new();
    for packet in 0..1000 {
        give(&mut c, u64::from(packet), packet, 100);
        out.extend(take(&mut c, u64::from(packet)));
    }
    let t = c.totals();
    assert_eq!((t.lost, t.doubled, t.moved, t.delivered), (10, 20, 30, 1010));
    assert_eq!((c.balance(), c.inside(), out.len()), (0, 0, 1010));
    let swaps = out.windows(2).filter(|w| w[0] > w[1]).count();
    assert_eq!(swaps, 30);
}

#[test]
fn what_is_held_back_and_never_overtaken_goes_on_after_a_while() {
    let fault = Spec { delay: Amount::Share(1.0), by: 100, ..Spec::default() };
    let mut c = channel(ChannelSetup { fault, delay_ns: 50, ..ChannelSetup::default() });
    // The first packet of a sequence is left alone.
    give(&mut c, 0, 0, 100);
    give(&mut c, 10, 1, 100);
    assert_eq!(take(&mut c, 1000), [0]);
    assert_eq!(c.next_ns(), Some(10 + HOLD_NS));
    assert_eq!(take(&mut c, 10 + HOLD_NS), []);
    assert_eq!(c.next_ns(), Some(10 + HOLD_NS + 50));
    assert_eq!(take(&mut c, 10 + HOLD_NS + 50), [1]);
    give(&mut c, 20_000_000, 2, 100);
    c.finish(20_000_000);
    assert_eq!(take(&mut c, 20_000_050), [2]);
    assert_eq!(c.balance(), 0);
}

#[test]
fn jitter_keeps_order_unless_it_may_reorder() {
    for reorders in [false, true] {
        let mut c = channel(ChannelSetup {
            delay_ns: 1000,
            jitter_ns: 500,
            jitter_reorders: reorders,
            ..ChannelSetup::default()
        });
        for packet in 0..1000 {
            give(&mut c, u64::from(packet), packet, 100);
        }
        let (mut order, mut times) = (Vec::new(), Vec::new());
        while let Some(at) = c.next_ns() {
            times.push(at);
            order.push(c.pop(at).unwrap());
        }
        assert_eq!(order.is_sorted(), !reorders);
        assert!(times.is_sorted());
        assert!(times[0] >= 1000 && *times.last().unwrap() <= 999 + 1500, "{times:?}");
    }
}

#[test]
fn memory_has_an_end_of_its_own() {
    let mut c =
        channel(ChannelSetup { delay_ns: 1000, memory_bytes: 350, ..ChannelSetup::default() });
    let fates = [0, 1, 2].map(|p| give(&mut c, 0, p, 100));
    assert_eq!(fates, [Fate::Taken, Fate::Taken, Fate::NoMemory], "room for a copy is kept");
    assert_eq!(take(&mut c, 1000), [0, 1]);
    assert_eq!((give(&mut c, 1000, 3, 100), c.balance()), (Fate::Taken, 0));
}

#[test]
fn channels_that_cannot_be_are_refused() {
    let ok = ChannelSetup::default();
    for (bad, word) in [
        (ChannelSetup { rate_bps: Some(0), ..ok }, "rate of 0"),
        (ChannelSetup { delay_ns: LONGEST_NS + 1, ..ok }, "delay of"),
        (ChannelSetup { jitter_ns: u64::MAX, ..ok }, "jitter of"),
        (ChannelSetup { queue_packets: 0, ..ok }, "queue of 0"),
        (ChannelSetup { queue_bytes: 0, ..ok }, "queue of 0"),
        (ChannelSetup { fault: "drop=5".parse().unwrap(), ..ok }, "of=N"),
    ] {
        let e = Channel::<u32>::new(bad).unwrap_err().to_string();
        assert!(e.contains(word), "{e}");
    }
}

fn setups() -> impl Strategy<Value = ChannelSetup> {
    let rate = prop_oneof![Just(None), (1u64..100_000_000_000).prop_map(Some)];
    let times = (0u64..100_000, 0u64..100_000, any::<bool>());
    let queue = (1usize..50, 1u64..20_000, 1u64..50_000);
    let fault = (0.0f64..0.25, 0.0f64..0.25, 0.0f64..0.12, 0.0f64..0.25, 1u32..20, any::<u64>());
    (rate, times, queue, fault).prop_map(|(rate_bps, times, queue, f)| ChannelSetup {
        rate_bps,
        delay_ns: times.0,
        jitter_ns: times.1,
        jitter_reorders: times.2,
        queue_packets: queue.0,
        queue_bytes: queue.1,
        memory_bytes: queue.2,
        fault: Spec {
            drop: Amount::Share(f.0),
            duplicate: Amount::Share(f.1),
            swap: Amount::Share(f.2),
            delay: Amount::Share(f.3),
            by: f.4,
            of: None,
            seed: f.5,
        },
    })
}

proptest! {
    /// For random calls in any order: the ledger is balanced at every step, nothing arrives early, and what
    /// is announced for a time is there at that time.
    #[test]
    fn every_packet_is_in_one_place(
        setup in setups(),
        steps in prop::collection::vec((0u64..20_000, 1u32..3000, 0u8..4), 1..300),
    ) {
        let mut c: Channel<(u32, u64)> = Channel::new(setup).unwrap();
        let (mut now, mut taken, mut out) = (0u64, 0u64, Vec::new());
        for (n, (pause, bytes, pops)) in steps.iter().enumerate() {
            now += pause;
            let fate = c.push(now, (n as u32, now), *bytes, 8 * u64::from(*bytes), |p| *p);
            taken += u64::from(fate == Fate::Taken);
            prop_assert_eq!(c.balance(), 0);
            prop_assert!(c.waiting(now) <= setup.queue_packets);
            for _ in 0..*pops {
                let promised = c.next_ns();
                match c.pop(now) {
                    Some((id, came)) => {
                        prop_assert!(promised.is_some_and(|p| p <= now));
                        prop_assert!(now >= came + setup.delay_ns);
                        out.push(id);
                    }
                    None => prop_assert!(promised.is_none_or(|p| p > now || c.inside() > 0)),
                }
                prop_assert_eq!(c.balance(), 0);
            }
        }
        c.finish(now);
        while let Some(at) = c.next_ns() {
            now = now.max(at);
            let (id, came) = c.pop(now).expect("promised");
            prop_assert!(now >= came + setup.delay_ns);
            out.push(id);
        }
        let t = c.totals();
        prop_assert_eq!((c.inside(), c.balance()), (0, 0));
        prop_assert_eq!(t.delivered, out.len() as u64);
        prop_assert_eq!(t.delivered, taken + t.doubled);
        prop_assert_eq!(c.inside_bytes, 0, "bytes are given back");
        let faultless = setup.fault.swap == Amount::Share(0.0) && setup.fault.delay == Amount::Share(0.0);
        prop_assert!(!faultless || setup.jitter_reorders || out.is_sorted());
    }

    /// A rate is never exceeded, for any input: over the whole run, bits out need their time.
    #[test]
    fn no_more_than_the_rate_leaves(
        rate in 1_000_000u64..10_000_000_000,
        steps in prop::collection::vec((0u64..5_000, 64u32..1500), 2..200),
    ) {
        let mut c = channel(ChannelSetup { rate_bps: Some(rate), ..ChannelSetup::default() });
        let mut now = 0;
        let mut sizes = Vec::new();
        for (pause, bytes) in &steps {
            now += pause;
            give(&mut c, now, sizes.len() as u32, *bytes);
            sizes.push(u64::from(*bytes));
        }
        let (mut before, mut bits) = (None, 0u64);
        while let Some(at) = c.next_ns() {
            let packet = c.pop(at).unwrap();
            let first = *before.get_or_insert(at);
            // From the end of the first packet on, all others take at least their bits over the rate.
            let took = u128::from(at - first) + 1;
            prop_assert!(took * u128::from(rate) + u128::from(rate) >= u128::from(bits) * 1_000_000_000);
            bits += 8 * sizes.get(packet as usize + 1).copied().unwrap_or(0);
        }
    }
}
