//! A real sender and a real receiver over a simulated link of unknown rate.

use fullcount_core::link::Wire;
use fullcount_core::sim::{Amount, Channel, ChannelSetup, Spec};

use super::*;
use crate::receive::{Delivery, HeapReceiver, NumberSequence, ReceiverConfig};
use crate::send::{
    CutRules, HeapSender, NextPacket, OutHeap, PaceSettings, PayloadSize, SendHow, SenderConfig,
};

const SECOND: u64 = 1_000_000_000;
const PACKET: usize = 8968;
const REPORT_NS: u64 = 50_000_000;
const DELAY_NS: u64 = 4_000_000;

struct Bench {
    now: u64,
    sender: HeapSender,
    receiver: HeapReceiver,
    link: Channel<Vec<u8>>,
    tuner: RateTuner,
    reports: VecDeque<(u64, ReceiverReport)>,
    next_report: u64,
    data: std::sync::Arc<[u8]>,
    /// Heaps that left, and those that arrived whole.
    heaps: (u64, u64),
    /// The link is the sender's own: with so many packets waiting it takes no more.
    own: Option<usize>,
    /// A busy machine: now and then nobody runs for so long, ns.
    stall_ns: u64,
    draws: u64,
}

/// Link time of a packet: frame, preamble, gap.
fn wire_bits(bytes: usize) -> u64 {
    Wire { ipv6: false, mtu: 9000 }.bits(bytes)
}

/// SPEAD bytes per second that fit a link.
fn best(rate_bps: u64) -> f64 {
    rate_bps as f64 * PACKET as f64 / wire_bits(PACKET) as f64
}

fn link(rate_bps: u64) -> Channel<Vec<u8>> {
    let setup = ChannelSetup {
        rate_bps: Some(rate_bps),
        delay_ns: DELAY_NS,
        queue_bytes: 500_000,
        ..ChannelSetup::default()
    };
    Channel::new(setup).unwrap()
}

impl Bench {
    fn new(rate_bps: u64, config: TunerConfig) -> Bench {
        let tuner = RateTuner::new(config, 0).unwrap();
        let pace = PaceSettings { rate: tuner.rate(), ..Default::default() };
        let cut = CutRules { max_packet_size: PACKET, payload: PayloadSize::Fill };
        let sender = HeapSender::new(SenderConfig { pace, cut, ..Default::default() }).unwrap();
        let sequence = Some(NumberSequence { first: 1, step: 1 });
        let config =
            ReceiverConfig { sequence, heap_timeout_ns: SECOND / 10, ..ReceiverConfig::default() };
        let receiver = HeapReceiver::new(config).unwrap();
        let data = vec![5; 60 * 8920].into();
        let reports = VecDeque::new();
        Bench {
            now: 0,
            sender,
            receiver,
            link: link(rate_bps),
            tuner,
            reports,
            next_report: REPORT_NS,
            data,
            heaps: (0, 0),
            own: None,
            stall_ns: 0,
            draws: 1,
        }
    }

    /// Once in 50 ms on average, the time goes on without sender and receiver.
    fn stall(&mut self, before: u64) {
        self.draws = self.draws.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let share = (self.draws >> 40) as f64 / (1u64 << 24) as f64;
        if self.stall_ns > 0 && share * 50e6 < (self.now - before) as f64 {
            self.now += self.stall_ns;
        }
    }

    fn run(&mut self, until: u64) {
        let mut packet = vec![];
        while self.now < until {
            while self.sender.space() > 0 {
                let mut heap = OutHeap::default();
                heap.add_item(0x1000, self.data.clone(), false);
                self.sender.send(heap, SendHow::default()).unwrap();
            }
            packet.clear();
            let mut next = self.next_report;
            let full = self.own.is_some_and(|room| self.link.waiting(self.now) > room);
            let asked = if full {
                NextPacket::Wait(self.now + 20_000)
            } else {
                self.sender.next_packet(self.now, &mut packet)
            };
            match asked {
                NextPacket::Packet { bytes, .. } => {
                    let bits = wire_bits(bytes);
                    self.link.push(
                        self.now,
                        std::mem::take(&mut packet),
                        bytes as u32,
                        bits,
                        Vec::clone,
                    );
                    next = self.now;
                }
                NextPacket::Wait(due) => next = next.min(due),
                NextPacket::Idle => {}
            }
            while self.sender.pop_completion().is_some() {
                self.heaps.0 += 1;
            }
            while let Some(packet) = self.link.pop(self.now) {
                self.receiver.push(self.now, &packet);
                while let Some(heap) = self.receiver.pop() {
                    self.heaps.1 += u64::from(matches!(heap, Delivery::Heap(_)));
                }
            }
            if self.now >= self.next_report {
                self.receiver.expire(self.now);
                self.reports.push_back((self.now + DELAY_NS, self.receiver.report(self.now)));
                self.next_report += REPORT_NS;
            }
            while self.reports.front().is_some_and(|r| r.0 <= self.now) {
                let (_, report) = self.reports.pop_front().unwrap();
                let bytes = self.sender.counts().packet_bytes;
                let behind_ns = self.sender.behind_ns(self.now);
                self.tuner.report(self.now, report, SentSoFar { bytes, behind_ns });
                self.sender.set_pace(self.tuner.rate(), self.tuner.burst_size());
            }
            self.tuner.tick(self.now);
            let before = self.now;
            self.now = next.max(self.now);
            self.stall(before);
        }
    }

    fn share(&self, rate_bps: u64) -> f64 {
        self.tuner.rate() / best(rate_bps)
    }
}

fn log(bench: &mut Bench) -> String {
    let lines = std::iter::from_fn(|| bench.tuner.pop_decision());
    lines
        .map(|d| {
            format!(
                "{:.2} s {:.0} -> {:.0} MB/s {:?} loss {:.4} came {:.0}\n",
                d.time_ns as f64 / 1e9,
                d.from / 1e6,
                d.to / 1e6,
                d.why,
                d.loss,
                d.delivered / 1e6
            )
        })
        .collect()
}

#[test]
fn a_link_of_unknown_rate_is_found_within_10_s_and_held_without_loss() {
    for mbps in [40, 333, 900] {
        let rate = mbps * 1_000_000;
        let mut bench =
            Bench::new(rate, TunerConfig { start_rate: 2e6, max_rate: 1e9, ..Default::default() });
        bench.run(10 * SECOND);
        // A probe may be under way just now.
        let held = match bench.tuner.state() {
            TunerState::Probe { base, .. } => base,
            _ => bench.tuner.rate(),
        };
        let share = held / best(rate);
        assert!((0.95..=1.005).contains(&share), "{mbps} Mb/s: {share}\n{}", log(&mut bench));
        // While it holds, nothing is lost but by probes, and these are few.
        let before = bench.receiver.losses();
        let sent = bench.sender.counts().packet_bytes;
        let mut lowest = f64::MAX;
        for second in 11..20 {
            bench.run(second * SECOND);
            lowest = lowest.min(bench.share(rate));
        }
        let lost = bench.receiver.losses().bytes - before.bytes;
        let sent = bench.sender.counts().packet_bytes - sent;
        assert!(lowest > 0.95, "{mbps} Mb/s: {lowest}\n{}", log(&mut bench));
        assert!((lost as f64) < 0.005 * sent as f64, "{lost} of {sent}\n{}", log(&mut bench));
    }
}

#[test]
fn a_step_of_the_link_is_followed_within_10_s() {
    for (before, after) in [(800, 200), (200, 400), (300, 250), (400, 480)] {
        let mut bench =
            Bench::new(before * 1_000_000, TunerConfig { max_rate: 1e9, ..Default::default() });
        bench.run(11 * SECOND);
        let share = bench.share(before * 1_000_000);
        assert!((0.95..=1.04).contains(&share), "{share}\n{}", log(&mut bench));
        bench.link = link(after * 1_000_000);
        bench.run(21 * SECOND);
        let share = bench.share(after * 1_000_000);
        assert!(
            (0.95..=1.04).contains(&share),
            "{before} -> {after}: {share}\n{}",
            log(&mut bench)
        );
    }
}

#[test]
fn a_link_of_the_senders_own_that_keeps_it_waiting_is_found_and_followed() {
    for (before, after) in [(400, 150), (150, 300), (800, 780)] {
        let config = TunerConfig { start_rate: 2e6, max_rate: 1e9, ..Default::default() };
        let mut bench = Bench::new(before * 1_000_000, config);
        bench.own = Some(2);
        let took = found(&mut bench, before * 1_000_000, 0, 15 * SECOND);
        assert!(took <= 10.0, "{before}: {took} s\n{}", log(&mut bench));
        bench.link = link(after * 1_000_000);
        let took = found(&mut bench, after * 1_000_000, 15 * SECOND, 30 * SECOND);
        let words = log(&mut bench);
        assert!(took <= 10.0, "{before} -> {after}: {took} s\n{words}");
        assert!(words.contains("HeldBack"), "{words}");
    }
}

/// Time after `from` until the rate is within 5 % of the best for nine tenths of what is left, s: as `lab spead tuning` says it.
fn found(bench: &mut Bench, rate_bps: u64, from: u64, to: u64) -> f64 {
    const LOOK: u64 = SECOND / 100;
    let mut near = vec![];
    for at in (from / LOOK)..(to / LOOK) {
        bench.run(at * LOOK);
        near.push((0.95..=1.05).contains(&bench.share(rate_bps)));
    }
    let good = |n: &usize| {
        let left = &near[*n..];
        near[*n] && left.iter().filter(|near| **near).count() as f64 >= 0.9 * left.len() as f64
    };
    (0..near.len()).find(good).map_or(f64::INFINITY, |n| (n as u64 * LOOK) as f64 / 1e9)
}

#[test]
fn found_within_a_few_seconds_wherever_the_narrow_link_is_and_on_a_busy_machine() {
    for own in [None, Some(10)] {
        for draws in 0..8 {
            let config = TunerConfig { start_rate: 2e6, max_rate: 1e9, ..Default::default() };
            let mut bench = Bench::new(400_000_000, config);
            (bench.own, bench.draws) = (own, draws);
            bench.stall_ns = if draws == 0 { 0 } else { 2_000_000 };
            for (n, mbps) in [400, 150, 300].into_iter().enumerate() {
                let (rate, from) = (mbps * 1_000_000, n as u64 * 15 * SECOND);
                if n > 0 {
                    bench.link = link(rate);
                }
                let after = found(&mut bench, rate, from, from + 15 * SECOND);
                let words = log(&mut bench);
                assert!(after < 7.0, "{mbps} Mb/s, {own:?}, {draws}: {after} s\n{words}");
            }
        }
    }
}

/// When more was tried since the last look, s, and how many such trials failed.
fn probes(bench: &mut Bench) -> (Vec<f64>, usize) {
    let all: Vec<_> = std::iter::from_fn(|| bench.tuner.pop_decision()).collect();
    let of = |why| all.iter().filter(move |d| d.why == why);
    let times = of(RateReason::Probing).map(|d| d.time_ns as f64 / 1e9).collect();
    (times, of(RateReason::ProbeFailed).count())
}

#[test]
fn probes_that_fail_in_a_row_come_less_often_and_end_before_a_queue_drops() {
    for mbps in [150, 400, 900] {
        let config = TunerConfig { start_rate: 2e6, max_rate: 1e9, ..Default::default() };
        let mut bench = Bench::new(mbps * 1_000_000, config);
        bench.run(10 * SECOND);
        let (first, before) = (probes(&mut bench), bench.heaps);
        bench.run(40 * SECOND);
        let lost = (bench.heaps.0 - before.0).saturating_sub(bench.heaps.1 - before.1);
        let (times, failed) = probes(&mut bench);
        assert!(!first.0.is_empty() && (5..=7).contains(&failed), "{mbps} Mb/s: {failed}");
        for pair in times.windows(2) {
            let (least, most) = (4.5, 6.0);
            assert!((least..most).contains(&(pair[1] - pair[0])), "{mbps} Mb/s: {times:?}");
        }
        assert_eq!(lost, 0, "{mbps} Mb/s: {failed} probes");
        // A faster link is another one: it is found, and the next probe comes early again.
        bench.link = link(2_000_000_000);
        bench.run(50 * SECOND);
        let words = log(&mut bench);
        let found = words.lines().find(|line| line.contains("Found"));
        assert!(found.is_some() || bench.tuner.rate() > 200e6, "{mbps} Mb/s: {words}");
    }
}

#[test]
fn the_hold_is_doubled_up_to_its_longest_and_a_change_resets_it() {
    let mut tuner = RateTuner::new(TunerConfig::default(), 0).unwrap();
    let hold = TunerState::Hold { since_ns: 0, step: 0.03 };
    let mut after = |why: &[RateReason]| {
        why.iter().for_each(|why| tuner.go(0, 1e8, hold, *why, None));
        tuner.hold_ns() as f64 / 1e9
    };
    use RateReason::{Found, Good, HeldBack, Loss, ProbeFailed, Probing, Silence};
    assert_eq!(after(&[Found]), 1.0, "found by one measure: soon");
    assert_eq!(after(&[Good]), 3.0);
    assert_eq!(after(&[Probing, ProbeFailed]), 4.5);
    assert_eq!(after(&[Probing, ProbeFailed]), 4.5);
    for reset in [Good, Loss, Silence] {
        assert_eq!(after(&[Probing, ProbeFailed, reset]), 3.0, "{reset:?}");
    }
    assert_eq!(after(&[ProbeFailed, HeldBack]), 1.0);
    let longer =
        TunerConfig { hold_ns: 7 * SECOND, max_hold_ns: 30 * SECOND, ..Default::default() };
    let mut tuner = RateTuner::new(longer, 0).unwrap();
    let mut failed = || {
        tuner.go(0, 1e8, hold, ProbeFailed, None);
        tuner.hold_ns() / SECOND
    };
    assert_eq!([failed(), failed(), failed(), failed()], [14, 28, 30, 30]);
    let never_longer = TunerConfig { hold_ns: 7 * SECOND, ..Default::default() };
    let mut tuner = RateTuner::new(never_longer, 0).unwrap();
    tuner.go(0, 1e8, hold, ProbeFailed, None);
    assert_eq!(tuner.hold_ns(), 7 * SECOND);
}

/// A queue of 5 ms, as of `lab spead tuning`, on a machine where now and then nobody runs for 2 ms.
#[test]
fn probes_cost_few_heaps_where_the_queue_is_short() {
    for draws in 1..9 {
        let config = TunerConfig { start_rate: 2e6, max_rate: 1e9, ..Default::default() };
        let mut bench = Bench::new(400_000_000, config);
        (bench.draws, bench.stall_ns) = (draws, 2_000_000);
        bench.link = Channel::new(ChannelSetup {
            rate_bps: Some(400_000_000),
            delay_ns: DELAY_NS,
            queue_bytes: 250_000,
            ..ChannelSetup::default()
        })
        .unwrap();
        bench.run(10 * SECOND);
        let before = bench.heaps;
        bench.run(40 * SECOND);
        let sent = bench.heaps.0 - before.0;
        let lost = sent.saturating_sub(bench.heaps.1 - before.1);
        println!("{draws}: {lost} of {sent}");
        assert!(lost * 50 <= sent, "{draws}: {lost} of {sent}\n{}", log(&mut bench));
    }
}

/// The link itself loses packets: of no rate does everything come.
#[test]
fn loss_up_to_the_target_is_allowed_and_above_it_is_not() {
    let after_20_s = |loss_target: f64, drop: f64| {
        let config =
            TunerConfig { start_rate: 2e6, max_rate: 1e9, loss_target, ..Default::default() };
        let mut bench = Bench::new(400_000_000, config);
        bench.link = Channel::new(ChannelSetup {
            rate_bps: Some(400_000_000),
            delay_ns: DELAY_NS,
            queue_bytes: 500_000,
            fault: Spec { drop: Amount::Share(drop), seed: 3, ..Spec::default() },
            ..ChannelSetup::default()
        })
        .unwrap();
        bench.run(20 * SECOND);
        (bench.share(400_000_000), log(&mut bench))
    };
    let (allowed, words) = after_20_s(0.02, 0.005);
    assert!((0.95..=1.05).contains(&allowed), "{allowed}\n{words}");
    for (target, drop) in [(0.0, 0.005), (0.02, 0.08)] {
        let (share, words) = after_20_s(target, drop);
        assert!(share < 0.5 && words.contains("Loss"), "{target} {drop}: {share}\n{words}");
    }
}

/// One packet that a host loses, in a trial in which it did not run for a moment, does not look like another link.
#[test]
fn a_lost_packet_of_a_rate_that_is_held_costs_2_percent_of_it() {
    for (missing, to) in [(8_900, 0.98), (400_000, 0.98), (900_000, 0.87 * BELOW)] {
        let mut tuner = RateTuner::new(TunerConfig::default(), 0).unwrap();
        let hold = TunerState::Hold { since_ns: 0, step: 0.03 };
        tuner.go(0, 50e6, hold, RateReason::Found, None);
        let report = |number: u64, bytes: u64, missing_bytes: u64| ReceiverReport {
            number,
            time_ns: number * SECOND / 5,
            packets: bytes / 8900,
            packet_bytes: bytes,
            ended_heaps: bytes / 534_000,
            expected_bytes: bytes,
            missing_bytes,
            lost_heaps: Some(0),
        };
        let sent = |bytes| SentSoFar { bytes, behind_ns: 0 };
        tuner.report(SECOND, report(5, 50_000_000, 0), sent(50_000_000));
        tuner.report(6 * SECOND / 5, report(6, 58_700_000, missing), sent(60_000_000));
        let last = std::iter::from_fn(|| tuner.pop_decision()).last().unwrap();
        assert_eq!(last.why, RateReason::Loss, "{last:?}");
        assert!((last.to / 50e6 - to).abs() < 0.001, "{last:?}");
    }
}

#[test]
fn the_highest_rate_is_held_where_the_link_has_more() {
    let config = TunerConfig { start_rate: 2e6, max_rate: 20e6, ..Default::default() };
    let mut bench = Bench::new(900_000_000, config);
    let mut highest = 0.0_f64;
    for tenth in 1..200 {
        bench.run(tenth * SECOND / 10);
        highest = highest.max(bench.tuner.rate());
    }
    assert_eq!((highest, bench.tuner.rate()), (20e6, 20e6), "{}", log(&mut bench));
    assert!(matches!(bench.tuner.state(), TunerState::Hold { .. }), "{:?}", bench.tuner.state());
    assert_eq!(bench.receiver.losses().bytes, 0);
}

/// Whenever in the longest hold the link becomes faster.
#[test]
fn a_step_up_is_followed_within_10_s_from_any_moment_of_the_longest_hold() {
    for (before, after) in [(150, 300), (200, 240), (100, 1000)] {
        for tenth in 0..10 {
            let config = TunerConfig { start_rate: 2e6, max_rate: 1e9, ..Default::default() };
            let mut bench = Bench::new(before * 1_000_000, config);
            let at = 20 * SECOND + tenth * SECOND * 6 / 10;
            bench.run(at);
            let rate = after * 1_000_000;
            bench.link = link(rate);
            let found = found(&mut bench, rate, at, at + 20 * SECOND);
            let words = log(&mut bench);
            assert!(found < 9.5, "{before} -> {after}, {tenth}: {found} s\n{words}");
        }
    }
}

#[test]
fn without_reports_the_rate_goes_down_to_its_floor() {
    let config = TunerConfig { start_rate: 1e9, min_rate: 1e8, ..Default::default() };
    let mut tuner = RateTuner::new(config, 0).unwrap();
    for second in 1..30 {
        tuner.tick(second * SECOND);
    }
    assert_eq!(tuner.rate(), 1e8);
    let why: Vec<RateReason> = std::iter::from_fn(|| tuner.pop_decision()).map(|d| d.why).collect();
    assert_eq!(why, [RateReason::Silence; 4]);
}

#[test]
fn a_sender_with_nothing_to_send_is_not_sped_up() {
    let mut tuner = RateTuner::new(TunerConfig::default(), 0).unwrap();
    let rate = tuner.rate();
    for n in 1..200u64 {
        // A tenth of what it may.
        let bytes = n * (rate / 200.0) as u64;
        let report = ReceiverReport {
            number: n,
            time_ns: n * REPORT_NS,
            packet_bytes: bytes,
            ..Default::default()
        };
        tuner.report(n * REPORT_NS, report, SentSoFar { bytes, behind_ns: 0 });
    }
    assert_eq!(tuner.rate(), rate);
    assert!(tuner.pop_decision().is_none());
}

#[test]
fn settings_outside_their_range_are_refused() {
    let of = |config| RateTuner::new(config, 0).unwrap_err().to_string();
    let bad = of(TunerConfig { start_rate: 1.0, ..Default::default() });
    assert_eq!(bad, "start_rate = 1: 1000000 to 12500000000 B/s");
    assert!(of(TunerConfig { loss_target: 0.6, ..Default::default() }).contains("0 to 0.5"));
}
