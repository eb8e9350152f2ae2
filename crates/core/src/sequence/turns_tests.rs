//! Stalls on a clock driven by hand: the truth is known, and what is told is compared with it.

use super::*;
use crate::batch::{Edge, Origin, TrainMeta};
use crate::sequence::{Start, Totals};
use proptest::prelude::*;

const SECOND: i64 = 1_000_000_000;
/// Any time that is not 0.
const BEGIN: i64 = 1_700_000_000 * SECOND;

/// One sender, its tracker, and a receiver that may stand still.
struct Line {
    tracker: Tracker,
    turns: NumberTurns,
    arrivals: Arrivals,
    mask: u64,
    time: i64,
    /// Next number that is sent.
    sent: u64,
    delivered: u64,
    by: u64,
    at_least: u64,
}

impl Line {
    fn new(bits: u32, first: u64) -> Line {
        Line {
            tracker: Tracker::new(bits, 64, Start::AtFirst),
            turns: NumberTurns::new(bits),
            arrivals: Arrivals::default(),
            mask: (1 << bits) - 1,
            time: BEGIN,
            sent: first,
            delivered: 0,
            by: 0,
            at_least: 0,
        }
    }

    /// A train of `packets` arrives, behind `dropped` trains that did not. Without a time if `timed` is false.
    fn arrive(&mut self, packets: u64, dropped: u32, timed: bool) {
        let mut batch = Batch::with_slots(1, packets as usize);
        batch.note_dropped(dropped);
        let time_ns = if timed { self.time } else { 0 };
        let (start, len, stride, edge) = (0, packets as usize, 1, Edge::Datagram);
        batch.push(TrainMeta { start, len, stride, origin: Origin::NONE, time_ns, edge });
        self.arrivals.begin();
        self.arrivals.train(&batch, 0, &batch.trains().next().unwrap());
        for _ in 0..packets {
            let number = self.sent & self.mask;
            match self.turns.before(&mut self.tracker, number, &self.arrivals) {
                Turned::Nothing => {}
                Turned::By(n) => self.by += n,
                Turned::AtLeast(n) => (self.by, self.at_least) = (self.by + n, self.at_least + 1),
            }
            self.tracker.observe(number);
            self.sent += 1;
            self.delivered += 1;
        }
    }

    /// Trains of `packets` every `every` ns, for `ns`.
    fn flow(&mut self, ns: i64, every: i64, packets: u64) {
        let end = self.time + ns;
        while self.time < end {
            self.arrive(packets, 0, true);
            self.time += every;
        }
    }

    /// So many trains are sent and dropped.
    fn stall(&mut self, trains: u64, every: i64, packets: u64) {
        self.sent += trains * packets;
        self.time += trains as i64 * every;
    }

    fn lost(mut self) -> Totals {
        self.tracker.finish(None)
    }
}

/// 80,000 packets/s in trains of 8: one every 100 µs.
const EVERY: i64 = 100_000;

#[test]
fn five_seconds_at_80_000_packets_a_second_are_counted_to_the_packet() {
    let mut line = Line::new(14, 12_345);
    line.flow(2 * SECOND, EVERY, 8);
    // 18 turns and 2,496: what was reported before.
    line.stall(297_408 / 8, EVERY, 8);
    line.arrive(8, 297_408 / 8, true);
    line.flow(SECOND, EVERY, 8);
    assert_eq!((line.by, line.at_least), (18 * 16_384, 0));
    let totals = line.lost();
    assert_eq!((totals.lost, totals.restarted, totals.late), (297_408, 0, 0));
}

#[test]
fn whole_turns_without_any_gap_and_gaps_of_more_than_half_a_turn_are_found() {
    for missing in [16_384, 2 * 16_384, 3 * 16_384 + 16_000, 24_000, 12_000, 16_376] {
        let mut line = Line::new(14, 0);
        line.flow(2 * SECOND, EVERY, 8);
        line.stall(missing / 8, EVERY, 8);
        line.arrive(8, (missing / 8) as u32, true);
        line.flow(SECOND / 10, EVERY, 8);
        assert_eq!(line.at_least, 0, "{missing}");
        let totals = line.lost();
        assert_eq!((totals.lost, totals.restarted, totals.late), (missing, 0, 0), "{missing}");
    }
}

#[test]
fn a_sender_that_paused_or_a_replay_has_no_drops_and_loses_nothing() {
    let mut line = Line::new(14, 7);
    line.flow(2 * SECOND, EVERY, 8);
    line.time += 3600 * SECOND;
    line.flow(2 * SECOND, EVERY, 8);
    // Drops that cannot be turns: at once, and before a pause.
    line.arrive(8, 5, true);
    line.time += 60 * SECOND;
    line.arrive(8, 3, true);
    assert_eq!((line.by, line.at_least), (0, 0));
    assert_eq!(line.lost().lost, 0);
}

#[test]
fn a_pause_while_others_packets_came_is_no_loss_though_the_kernel_dropped_others() {
    let mut line = Line::new(14, 7);
    line.flow(2 * SECOND, EVERY, 8);
    let own = line.time;
    // Another sender fills the buffer for 0.1 s in the middle of 5 s in which this one is silent.
    let mut other = Line::new(14, 0);
    std::mem::swap(&mut other.arrivals, &mut line.arrivals);
    other.time = own;
    other.flow(2 * SECOND, EVERY, 8);
    other.stall(1000, EVERY, 8);
    other.arrive(8, 1000, true);
    other.flow(3 * SECOND, EVERY, 8);
    std::mem::swap(&mut other.arrivals, &mut line.arrivals);
    line.time = own + 5 * SECOND;
    line.arrive(8, 0, true);
    assert_eq!(line.by, 0, "nothing is added");
    assert_eq!(line.lost().lost, 0);
    assert_eq!(other.lost().lost, 8000, "and what was lost is told");
}

#[test]
fn several_streams_of_one_socket_each_find_their_own_turns() {
    let mut lines: Vec<Line> = (0..4).map(|n| Line::new(14, 1000 * n)).collect();
    let mut arrivals = Arrivals::default();
    let mut round = |lines: &mut Vec<Line>, dropped: u32| {
        for (n, line) in lines.iter_mut().enumerate() {
            std::mem::swap(&mut arrivals, &mut line.arrivals);
            line.arrive(1 + n as u64, if n == 0 { dropped } else { 0 }, true);
            std::mem::swap(&mut arrivals, &mut line.arrivals);
            line.time += EVERY;
        }
    };
    (0..20_000).for_each(|_| round(&mut lines, 0));
    // 4 s: 40,000, 80,000, 120,000 and 160,000 packets.
    for (n, line) in lines.iter_mut().enumerate() {
        line.stall(40_000, EVERY, 1 + n as u64);
    }
    round(&mut lines, 160_000);
    (0..1000).for_each(|_| round(&mut lines, 0));
    for (n, line) in lines.into_iter().enumerate() {
        assert_eq!(line.at_least, 0, "stream {n}");
        assert_eq!(line.lost().lost, 40_000 * (1 + n as u64), "stream {n}");
    }
}

#[test]
fn without_times_or_a_known_pace_drops_that_may_hide_turns_make_the_loss_a_least_one() {
    // No receive times.
    let mut line = Line::new(14, 0);
    (0..5000).for_each(|_| line.arrive(8, 0, false));
    line.sent += 40_000;
    line.arrive(8, 5000, false);
    assert_eq!((line.by, line.at_least), (0, 1));
    // A stream of 30 ms.
    let mut line = Line::new(14, 0);
    line.flow(SECOND / 33, EVERY, 8);
    line.stall(5000, EVERY, 8);
    line.arrive(8, 5000, true);
    assert_eq!((line.by, line.at_least), (0, 1));
    assert!(line.lost().lost <= 40_000);
}

#[test]
fn a_pace_that_wanders_gives_a_least_amount() {
    let mut line = Line::new(14, 0);
    // Bursts of 6,000 packets a quarter of a second apart, of whatever lengths in between.
    for k in 0..12 {
        line.flow(SECOND / 40, EVERY / 3 * (1 + k % 3), 8);
        line.time += SECOND / 4;
    }
    let before = line.sent;
    line.stall(50_000, EVERY, 8);
    line.arrive(8, 50_000, true);
    assert_eq!(line.at_least, 1);
    let truth = line.sent - before - 8;
    assert!(line.lost().lost <= truth);
}

#[test]
fn a_sender_that_began_anew_in_the_stall_is_not_given_turns_that_do_not_fit() {
    let mut line = Line::new(14, 0);
    line.flow(2 * SECOND, EVERY, 8);
    line.stall(50_000, EVERY, 8);
    // Its count stands somewhere else, half a turn from where it would be.
    line.sent += 8192;
    line.arrive(8, 50_000, true);
    assert_eq!((line.by, line.at_least), (0, 1));
}

#[test]
fn a_short_stall_does_not_blur_the_pace_before_a_long_one() {
    let mut line = Line::new(16, 0);
    let (packets, every) = (6, 129_133);
    for (trains, quarters) in [(1335u64, 6), (47_045, 4)] {
        line.flow(SECOND / 4 * quarters, every, packets);
        line.stall(trains, every, packets);
        line.arrive(packets, trains as u32, true);
        line.time += every;
    }
    assert_eq!((line.by, line.at_least), (4 * 65_536, 0));
    assert_eq!(line.lost().lost, (1335 + 47_045) * packets);
}

#[test]
fn what_is_forgotten_begins_anew() {
    let mut line = Line::new(14, 0);
    line.flow(2 * SECOND, EVERY, 8);
    line.turns.forget();
    line.tracker.forget();
    line.stall(50_000, EVERY, 8);
    line.arrive(8, 50_000, true);
    assert_eq!((line.by, line.at_least, line.lost().lost), (0, 0, 0));
}

#[test]
fn packets_of_many_numbers_raise_what_a_drop_can_mean() {
    let mut turns = NumberTurns::new(24);
    turns.carries(30);
    turns.carries(3);
    assert_eq!(turns.each, 30);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A steady sender with trains that come up to `late` ns late: never more than the truth, exact unless it is said to be a
    /// least amount, and exact where the doubt is far below a turn.
    #[test]
    fn a_steady_senders_stall_is_exact_or_a_least_amount(
        bits in 10u32..=16, first in any::<u32>(), packets in 1u64..=64, every in 20_000i64..400_000,
        late in 0i64..60_000, stalls in proptest::collection::vec((1u64..60_000, 1u32..8), 1..3), seed in any::<u64>(),
    ) {
        let mut line = Line::new(bits, u64::from(first));
        let mut random = seed | 1;
        let (mut lost, mut doubtful) = (0, false);
        for (trains, seconds) in stalls {
            let end = line.time + SECOND / 4 * i64::from(seconds + 3);
            while line.time < end {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let wait = (random >> 33) as i64 % (late + 1);
                line.time += wait;
                line.arrive(packets, 0, true);
                line.time += every - wait;
            }
            line.stall(trains, every, packets);
            lost += trains * packets;
            line.arrive(packets, trains as u32, true);
            line.time += every;
            // Numbers in a stall, and how exact a pace of 1 s can be.
            let off = 4.0 * (300.0 + packets as f64 * (1.0 + late as f64 / every as f64));
            let stall = trains as f64 * every as f64 / 7.5e8;
            let doubt = off * (1.0 + 2.0 * stall) + (trains * packets) as f64 / 256.0;
            doubtful |= doubt > f64::from(1u32 << bits) / 2.0;
        }
        line.flow(SECOND / 100, every, packets);
        let at_least = line.at_least;
        let told = line.lost().lost;
        prop_assert!(told <= lost, "{told} of {lost}");
        prop_assert!(at_least > 0 || told == lost, "{told} of {lost}");
        prop_assert!(doubtful || at_least == 0, "{told} of {lost}");
    }

    /// Whatever numbers, times and drops come: it does not fail, and adds nothing without drops.
    #[test]
    fn anything_may_come(
        bits in 3u32..=40, all in proptest::collection::vec((any::<u64>(), any::<i64>(), 0u32..3, 0u32..1_000_000), 0..80),
    ) {
        let mut line = Line::new(bits.max(8), 0);
        let mut drops = 0;
        for (number, time, way, dropped) in all {
            line.sent = if way == 0 { number } else { line.sent };
            line.time = if way == 1 { time } else { line.time.wrapping_add(i64::from(dropped) * 1000) };
            let dropped = if way == 2 { dropped } else { 0 };
            drops += dropped;
            line.arrive(1 + number % 5, dropped, way != 1 || time % 2 == 0);
            line.sent &= u64::MAX >> 8;
        }
        prop_assert!(drops > 0 || line.by == 0);
        let _ = line.lost();
    }
}
