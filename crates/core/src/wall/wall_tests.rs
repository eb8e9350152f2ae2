//! Both clocks in examples: what a run sees of them, and that a recording gives the same.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::products::Products;
use crate::time::PulseTime;

const MS: i64 = 1_000_000;
const S: i64 = 1_000_000_000;
/// 2026-11-23.
const HOST: i64 = 1_795_392_000 * S;

/// A packet, and when it came: one event at each of its times.
#[derive(Debug, Clone)]
struct Packet {
    received: i64,
    times: Vec<i64>,
    anew: bool,
}

fn packet(received: i64, time: i64) -> Packet {
    Packet { received, times: vec![time - 300_000, time], anew: false }
}

/// One worker: packets in, events out; `at` is the time of each event in the order in which it was made.
struct Worker {
    clock: WorkerClock,
    at: Vec<i64>,
}

impl Worker {
    fn of(shared: &Arc<WallClock>) -> Worker {
        Worker { clock: WorkerClock::new(shared.clone()), at: Vec::new() }
    }

    fn take(&mut self, packet: &Packet) {
        self.take_all(std::slice::from_ref(packet));
    }

    /// A packet without events.
    fn observe_alone(&mut self, packet: &Packet) {
        let mut readings = Readings::default();
        readings.note(packet.times.iter().copied().max().unwrap(), packet.received);
        self.clock.observe(&readings);
    }

    /// Packets of one batch.
    fn take_all(&mut self, packets: &[Packet]) {
        let (mut readings, mut products) = (Readings::default(), Products::default());
        for packet in packets {
            readings.note(packet.times.iter().copied().max().unwrap(), packet.received);
            if packet.anew {
                readings.began_anew();
            }
            for &time in &packet.times {
                let block = time.div_euclid(1 << 30) << 30;
                products.events.open_pulse(PulseTime(block));
                products.events.push((time - block) as u32, 1);
            }
        }
        self.clock.observe(&readings);
        self.clock.place(&mut products);
        self.at.extend(products.events.absolute().map(|(at, _)| at));
    }
}

/// A live run of one worker; times of its events, and its clock.
fn live(packets: &[Packet]) -> (Vec<i64>, Arc<WallClock>) {
    let shared = Arc::new(WallClock::live());
    let mut worker = Worker::of(&shared);
    packets.iter().for_each(|packet| worker.take(packet));
    (worker.at, shared)
}

/// All records.
fn written(shared: &WallClock) -> Vec<ClockRecord> {
    shared.records_from(0).0
}

fn replay(packets: &[Packet], records: &[ClockRecord]) -> Vec<i64> {
    let shared = Arc::new(WallClock::recorded(records).expect("there are some"));
    let mut worker = Worker::of(&shared);
    packets.iter().for_each(|packet| worker.take(packet));
    // All at once, as flat out.
    let mut large = Worker::of(&Arc::new(WallClock::recorded(records).expect("there are some")));
    packets.chunks(3000).for_each(|packets| large.take_all(packets));
    same(&large.at, &worker.at);
    worker.at
}

/// A packet each ms for this many s, by a clock of this drift that began at `zero`.
fn steady(seconds: i64, zero: i64, drift_ppb: i64) -> Vec<Packet> {
    let each = (0..seconds * 1000).map(|ms| {
        let host = ms * MS;
        // The host goes faster: the detector counts less.
        let detector = zero + host - host / 1000 * drift_ppb / 1_000_000;
        // Late by 0 to 90 µs.
        packet(HOST + host + ms * 7919 % 90_000, detector)
    });
    each.collect()
}

/// Largest distance of the last time in each packet from its arrival, behind the first `skip` packets, ns.
fn farthest(packets: &[Packet], at: &[i64], skip: usize) -> i64 {
    let last = packets.iter().zip(at.chunks_exact(2)).skip(skip);
    last.map(|(packet, at)| (packet.received - at[1]).abs()).max().unwrap()
}

/// The same, or where not.
fn same(a: &[i64], b: &[i64]) {
    let differ = a.iter().zip(b).position(|(a, b)| a != b);
    assert_eq!((differ.map(|at| (at, a[at] - b[at])), a.len()), (None, b.len()));
}

#[test]
fn the_first_packet_joins_both_clocks() {
    let (at, shared) = live(&[packet(HOST, 77 * S), packet(HOST + S / 2, 77 * S + S / 2)]);
    assert_eq!(at, [HOST - 300_000, HOST, HOST + S / 2 - 300_000, HOST + S / 2]);
    assert_eq!(shared.status().anchor, Some((77 * S, HOST)));
    assert_eq!(written(&shared), shared.current());
}

#[test]
fn a_drift_is_followed() {
    for drift in [-150_000, 0, 30_000, 150_000] {
        let packets = steady(120, 5 * S, drift);
        let (at, shared) = live(&packets);
        assert!(at.is_sorted(), "{drift}");
        assert!(farthest(&packets, &at, 0) < 600_000, "{drift}: {}", farthest(&packets, &at, 0));
        assert!(farthest(&packets, &at, 60_000) < 130_000, "{drift}");
        let status = shared.status();
        assert!((status.drift_ppb - drift).abs() < 3000, "{drift}: {status:?}");
        assert_eq!((status.steps, status.ahead), (0, false));
        same(&replay(&packets, &written(&shared)), &at);
    }
}

#[test]
fn what_drifts_by_more_than_can_be_corrected_is_a_step_before_it_is_far_off() {
    for drift in [-400_000, 400_000, 1_000_000] {
        let packets = steady(60, 5 * S, drift);
        let (at, shared) = live(&packets);
        let status = shared.status();
        assert!(at.is_sorted(), "{drift}");
        assert!(status.steps > 0 && status.last_step_ns.abs() < 10 * MS, "{drift}: {status:?}");
        if drift > 0 {
            // Set to the host's clock each time: 0.8 ms more in each of the seconds until then.
            assert!(farthest(&packets, &at, 0) < 9 * MS, "{drift}: {}", farthest(&packets, &at, 0));
        } else {
            assert_eq!(status.steps, 1, "times do not go back, and it is said once");
        }
        same(&replay(&packets, &written(&shared)), &at);
    }
}

#[test]
fn a_run_whose_host_was_set_back_goes_on_behind_the_run_before() {
    let (before, shared) = live(&steady(3, 5 * S, 0));
    let given = shared.given().unwrap();
    let last = *before.last().unwrap();
    assert!((last..last + 100 * MS).contains(&given), "{given} {last}");
    // Ten seconds back, and half a second later.
    let mut again = steady(3, 9 * S, 0);
    again.iter_mut().for_each(|packet| packet.received -= 10 * S - 3 * S - S / 2);
    let shared = Arc::new(WallClock::live());
    assert_eq!(shared.given(), None);
    shared.not_before(given);
    let mut worker = Worker::of(&shared);
    again.iter().for_each(|packet| worker.take(packet));
    assert!(worker.at.is_sorted());
    assert!(worker.at[0] >= given - MS && shared.status().ahead, "{} {given}", worker.at[0]);
    let (last, again) = (*worker.at.last().unwrap(), shared.given().unwrap());
    assert!((last..last + 100 * MS).contains(&again), "{again} {last}");
    // A host whose clock is right is not held up by what an earlier run gave.
    let shared = Arc::new(WallClock::live());
    shared.not_before(given);
    let mut worker = Worker::of(&shared);
    let mut right = steady(3, 9 * S, 0);
    right.iter_mut().for_each(|packet| packet.received += 4 * S);
    right.iter().for_each(|packet| worker.take(packet));
    assert!(farthest(&right, &worker.at, 0) < 200_000 && !shared.status().ahead);
}

#[test]
fn workers_share_one_clock_and_a_recording_of_both_is_the_same() {
    let packets = steady(20, 5 * S, 80_000);
    let shared = Arc::new(WallClock::live());
    let mut workers = [Worker::of(&shared), Worker::of(&shared)];
    for (n, packet) in packets.iter().enumerate() {
        // The second one begins later, and is 30 packets late at times.
        workers[usize::from(n > 5000 && n % 3 == 0)].take(packet);
    }
    assert!(workers.iter().all(|worker| worker.at.is_sorted()));
    let mut both = [workers[0].at.clone(), workers[1].at.clone()].concat();
    both.sort_unstable();
    same(&replay(&packets, &written(&shared)), &both);
    assert_eq!(shared.status().steps, 0);
}

#[test]
fn a_clock_that_began_anew_goes_on_behind_what_was_said() {
    for (pause, zero, anew) in [
        (3 * S, 0, true),
        (3 * S, 5 * S, true),
        (0, 0, true),
        (3 * S, 900 * S, false),
        (S, 8 * S, true),
    ] {
        let mut packets = steady(4, 5 * S, 0);
        let end = packets.last().unwrap().received;
        for (n, mut later) in steady(4, zero, 0).into_iter().enumerate() {
            later.received += end - HOST + pause + MS;
            later.anew = anew && n == 0;
            packets.push(later);
        }
        let (at, shared) = live(&packets);
        assert!(at.is_sorted(), "{pause} {zero}");
        assert!(
            farthest(&packets, &at, 0) < 200_000,
            "{pause} {zero}: {}",
            farthest(&packets, &at, 0)
        );
        assert_eq!(shared.status().steps, 1, "{pause} {zero}");
        same(&replay(&packets, &written(&shared)), &at);
    }
}

#[test]
fn a_host_clock_that_was_set_forward_is_followed_and_reported() {
    let mut packets = steady(8, 5 * S, 0);
    packets[4000..].iter_mut().for_each(|packet| packet.received += 500 * MS);
    let (at, shared) = live(&packets);
    assert!(at.is_sorted());
    // Found in two seconds.
    assert!(farthest(&packets, &at, 6100) < 200_000);
    let status = shared.status();
    assert_eq!((status.steps, status.ahead), (1, false));
    assert!((status.last_step_ns - 500 * MS).abs() < 200_000, "{status:?}");
    same(&replay(&packets, &written(&shared)), &at);
}

#[test]
fn a_host_clock_that_was_set_back_turns_no_time_back() {
    let mut packets = steady(12, 5 * S, 0);
    packets[4000..].iter_mut().for_each(|packet| packet.received -= 500 * MS);
    let (at, shared) = live(&packets);
    assert!(at.is_sorted());
    let status = shared.status();
    assert_eq!((status.steps, status.ahead), (1, true), "{status:?}");
    // 200 ppm of six seconds at least.
    let ahead = at.last().unwrap() - packets.last().unwrap().received;
    assert!((498 * MS..500 * MS - 800_000).contains(&ahead), "{ahead}");
    assert_eq!(status.drift_ppb.abs() / 1000, 0, "that is no drift");
    same(&replay(&packets, &written(&shared)), &at);
}

#[test]
fn a_sender_that_stood_still_changes_nothing() {
    let mut packets = steady(8, 5 * S, 0);
    // 400 ms of packets come all at once, and one whose time is far from all others.
    let together = packets[4400].received;
    packets[4000..4400].iter_mut().for_each(|packet| packet.received = together);
    let (at, shared) = live(&packets);
    assert!(at.is_sorted());
    assert_eq!(shared.status().steps, 0);
    assert!(farthest(&packets, &at, 4400) < 200_000);
}

#[test]
fn two_clocks_that_differ_go_on_side_by_side() {
    let (first, second) = (steady(6, 100 * S, 0), steady(6, 3 * S, 0));
    let mut packets: Vec<Packet> = Vec::new();
    for (n, (a, b)) in first.into_iter().zip(second).enumerate() {
        packets.push(a);
        if n >= 1000 {
            packets.push(Packet { anew: n == 1000, ..b });
        }
    }
    let (at, shared) = live(&packets);
    assert!(farthest(&packets, &at, 0) < 300_000, "{}", farthest(&packets, &at, 0));
    assert_eq!(shared.status().steps, 1);
    same(&replay(&packets, &written(&shared)), &at);
}

#[test]
fn a_first_packet_that_was_late_is_made_good_in_a_second() {
    let mut packets = steady(8, 5 * S, 0);
    // The sender paused for 200 ms after its first packets.
    let together = packets[200].received;
    packets[..200].iter_mut().for_each(|packet| packet.received = together);
    let (at, shared) = live(&packets);
    assert!(at.is_sorted());
    assert!(farthest(&packets, &at, 1500) < 300_000, "{}", farthest(&packets, &at, 1500));
    assert_eq!((shared.status().steps, shared.status().ahead), (0, false));
    same(&replay(&packets, &written(&shared)), &at);
}

#[test]
fn clocks_that_show_the_same_times_one_after_the_other_stay_apart() {
    // The second is 2 s ahead of the first for ever.
    let (first, second) = (steady(12, 3 * S, 0), steady(12, 5 * S, 0));
    let mut packets: Vec<Packet> = Vec::new();
    for (n, (a, b)) in first.into_iter().zip(second).enumerate() {
        packets.push(a);
        if n >= 1000 {
            packets.push(b);
        }
    }
    let (at, shared) = live(&packets);
    assert!(farthest(&packets, &at, 0) < 300_000, "{}", farthest(&packets, &at, 0));
    assert_eq!(shared.status().steps, 1);
    let records = written(&shared);
    let again = Arc::new(WallClock::recorded(&records).unwrap());
    let mut worker = Worker::of(&again);
    packets.iter().for_each(|packet| worker.take(packet));
    same(&worker.at, &at);
}

#[test]
fn a_strangers_packet_costs_its_own_events_alone() {
    for stray in [400 * MS, 2 * S, 60 * S, -2 * S] {
        let mut packets = steady(20, 100 * S, 30_000);
        let mut odd = packets[5000].clone();
        odd.times.iter_mut().for_each(|time| *time += stray);
        packets.insert(5001, Packet { anew: true, ..odd });
        let (mut at, shared) = live(&packets);
        same(&replay_one_by_one(&packets, &written(&shared)), &at);
        at.drain(2 * 5001..2 * 5002);
        packets.remove(5001);
        assert!(at.is_sorted(), "{stray}");
        assert!(farthest(&packets, &at, 0) < 400_000, "{stray}: {}", farthest(&packets, &at, 0));
        let drift = shared.status().drift_ppb;
        assert!((drift - 30_000).abs() < 10_000, "{stray}: {drift}");
    }
}

fn replay_one_by_one(packets: &[Packet], records: &[ClockRecord]) -> Vec<i64> {
    let mut worker = Worker::of(&Arc::new(WallClock::recorded(records).unwrap()));
    packets.iter().for_each(|packet| worker.take(packet));
    worker.at
}

#[test]
fn a_clock_without_events_is_right_when_they_come() {
    let packets = steady(600, 5 * S, -30_000);
    let shared = Arc::new(WallClock::live());
    let mut worker = Worker::of(&shared);
    for packet in &packets[..packets.len() - 1000] {
        worker.observe_alone(packet);
    }
    let late = &packets[packets.len() - 1000..];
    late.iter().for_each(|packet| worker.take(packet));
    assert!(farthest(late, &worker.at, 0) < 300_000, "{}", farthest(late, &worker.at, 0));
    assert_eq!(shared.status().steps, 0);
}

#[test]
fn a_second_clock_that_nobody_announced_is_found_in_a_second() {
    let (first, second) = (steady(6, 100 * S, 0), steady(6, 3 * S, 0));
    let packets: Vec<Packet> =
        first.into_iter().zip(second).flat_map(|(a, b)| [a, b]).skip(1).collect();
    let (at, shared) = live(&packets);
    assert!(farthest(&packets, &at, 2100) < 300_000, "{}", farthest(&packets, &at, 2100));
    assert_eq!(shared.status().steps, 1);
}

#[test]
fn hits_have_the_time_of_their_events_and_offsets_stay_in_their_column() {
    let shared = Arc::new(WallClock::live());
    let mut worker = Worker::of(&shared);
    steady(30, 0, 150_000).iter().for_each(|packet| worker.take(packet));
    let mut products = Products::default();
    products.events.open_pulse(PulseTime(20 * S));
    products.events.push(i32::MAX as u32, 1);
    products.events.push(0, 1);
    products.hits.time_ns = vec![20 * S + i64::from(i32::MAX), 20 * S];
    worker.clock.place(&mut products);
    let times: Vec<i64> = products.events.absolute().map(|(at, _)| at).collect();
    assert_eq!(products.events.offset_ns[0], i32::MAX as u32, "cut, as the column ends");
    assert_eq!(times[1], products.hits.time_ns[1]);
    assert!(products.hits.time_ns[0] >= times[0]);
}

#[test]
fn records_without_an_anchor_are_none() {
    assert!(WallClock::recorded(&[]).is_none());
    let line = ClockLine { from: 0, wall: 0, rate: 0 };
    assert!(WallClock::recorded(&[ClockRecord::Line(line)]).is_none());
    assert!(WallClock::recorded(&[ClockRecord::Received]).unwrap().is_received());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_comes_a_recording_gives_the_same_and_nothing_panics(
        steps in prop::collection::vec((any::<u16>(), -1i64 << 34..1 << 34, any::<bool>(), prop::num::u8::ANY), 1..60),
        wild in any::<i64>(),
    ) {
        let (mut host, mut detector) = (HOST, 5 * S);
        let mut packets = Vec::new();
        for (ms, jump, anew, kind) in steps {
            host += i64::from(ms) * MS / 16;
            detector += i64::from(ms) * MS / 16;
            match kind {
                0..=15 => detector += jump,
                16..=31 => host += jump,
                32..=39 => packets.push(packet(host, wild.clamp(-1 << 60, 1 << 60))),
                _ => {}
            }
            packets.push(Packet { anew: anew && kind < 64, ..packet(host, detector) });
        }
        let (at, shared) = live(&packets);
        prop_assert_eq!(at.len(), 2 * packets.len());
        let records = written(&shared);
        let written: Vec<ClockRecord> = records.iter().map(|r| r.to_string().parse().unwrap()).collect();
        let shared = Arc::new(WallClock::recorded(&written).unwrap());
        let mut worker = Worker::of(&shared);
        packets.iter().for_each(|packet| worker.take(packet));
        prop_assert_eq!(worker.at.len(), at.len());
    }
}
