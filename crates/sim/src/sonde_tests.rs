//! Tests of `sonde` traffic with a small independent decoder, written from the format document.

use super::*;
use crate::scattering::{LAST_NS, pulse_ns};
use proptest::prelude::*;
use std::collections::HashMap;

/// One packet, taken apart.
#[derive(Debug, PartialEq)]
struct Parsed {
    system: u8,
    count: u16,
    time: u32,
    /// Time, ASIC, channel.
    hits: Vec<(u32, u8, u8)>,
}

fn be(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |v, &b| v << 8 | u32::from(b))
}

fn parse(p: &[u8]) -> Parsed {
    assert_eq!(p[0] >> 5, 0, "version");
    assert_eq!(p[2] >> 6, 0, "stand-alone");
    assert_eq!(be(&p[8..10]) as usize + 10, p.len(), "length");
    let time = be(&p[4..8]);
    let hits = match p[1] {
        0xd6 => {
            assert_eq!(p.len(), 11 + 5 * usize::from(p[10]));
            p[11..].chunks(5).map(|e| (be(&e[..4]), e[4] >> 6, e[4] & 63)).collect()
        }
        0xd5 => {
            assert_eq!(be(&p[15..17]), 64, "samples");
            assert_eq!(p.len(), 17 + 2 * 64);
            (0..64).map(|s| (time, s / 16, s % 16)).collect()
        }
        0xd4 => {
            assert_eq!(be(&p[11..13]), 1, "samples per event");
            assert_eq!(p.len(), 13 + 9 * usize::from(p[10]));
            p[13..].chunks(9).map(|e| (be(&e[..4]), e[5], e[6])).collect()
        }
        other => panic!("type {other:#x}"),
    };
    Parsed { system: p[0] & 31, count: (be(&p[2..4]) & 0x3fff) as u16, time, hits }
}

/// Pixel of a module from 0, by the formulas of section 6.
fn pixel(asic: u8, channel: u8) -> usize {
    let (c, r) = (channel % 4, channel / 4);
    let (x, y) = match asic {
        0 => (7 - c, 3 - r),
        1 => (c, r),
        2 => (7 - c, 7 - r),
        _ => (c, 4 + r),
    };
    usize::from(8 * y + x)
}

fn setup(panel: SimulatedPanel, mode: DeviceMode, entries: usize, events_per_s: f64) -> SondeSetup {
    SondeSetup { panel, mode, entries, events_per_s, seed: 11, count: None }
}

fn d6(panel: SimulatedPanel, events_per_s: f64) -> SimulatedSonde {
    SimulatedSonde::new(&setup(panel, DeviceMode::TriggerTime, 250, events_per_s)).unwrap()
}

/// At least `packets` packets with their lane.
fn collect(t: &mut SimulatedSonde, packets: usize, train: usize) -> Vec<(usize, Vec<u8>)> {
    let mut all = Vec::new();
    while all.len() < packets {
        let p = t.next_train(train, 0).unwrap();
        assert!((1..=train).contains(&p.packets) && p.bytes.len() == p.packets * p.stride);
        all.extend(p.each().map(|b| (p.lane, b.to_vec())));
    }
    all
}

/// Above the limit of fresh events: one prepared pulse.
const CYCLED: f64 = 25e6;

#[test]
fn the_usual_packet_field_by_field() {
    for rate in [1e6, CYCLED] {
        let mut t = d6(SimulatedPanel::new(1, 1).unwrap(), rate);
        let p = collect(&mut t, 1, 1).remove(0).1;
        assert_eq!(p.len(), 1261);
        assert_eq!(p[..4], [0x00, 0xd6, 0x00, 0x00], "version 0, system 0, type, flag 0, count 0");
        assert_eq!(p[4..8], p[11..15], "packet time = time of the first entry");
        assert_eq!(p[8..11], [0x04, 0xe3, 250], "length 1251 and 250 entries");
        let hits = parse(&p).hits;
        assert_eq!(hits.len(), 250);
        assert!(hits.iter().all(|h| h.2 < 16));
        assert!(hits.windows(2).all(|w| w[0].0 <= w[1].0), "times increase");
        let next = collect(&mut t, 1, 1).remove(0).1;
        assert_eq!(next[2..4], [0, 1], "next count");
    }
}

#[test]
fn expert_modes_field_by_field() {
    let one = SimulatedPanel::new(1, 1).unwrap();
    let mut t = SimulatedSonde::new(&setup(one, DeviceMode::SingleEvent, 1, 1e6)).unwrap();
    let p = collect(&mut t, 1, 1).remove(0).1;
    assert_eq!(p.len(), 145);
    assert_eq!((p[1], &p[8..10], &p[15..17]), (0xd5, &[0, 135][..], &[0, 64][..]));
    let triggered = usize::from(p[10]) * 16 + usize::from(p[12]);
    let adc: Vec<u32> = p[17..].chunks(2).map(be).collect();
    for (sample, &adc) in adc.iter().enumerate() {
        let range = if sample == triggered { 600..2201 } else { 100..132 };
        assert!(range.contains(&adc), "sample {sample}: {adc}");
    }
    assert_eq!(t.totals(), TrafficTotals { packets: 1, bytes: 145, events: 64 });

    let mut t = SimulatedSonde::new(&setup(one, DeviceMode::MultiEvent, 150, 1e6)).unwrap();
    let p = collect(&mut t, 1, 1).remove(0).1;
    assert_eq!(p.len(), 1363);
    assert_eq!((p[1], &p[8..10], &p[10..13]), (0xd4, &[0x05, 0x49][..], &[150, 0, 1][..]));
    for e in p[13..].chunks(9) {
        assert!(e[4] == 6 && e[5] < 4 && e[6] < 16 && (600..2201).contains(&be(&e[7..9])));
    }
    assert_eq!(p[4..8], p[13..17]);
}

#[test]
fn every_sender_numbers_its_packets_without_gap_through_the_14_bit_wrap() {
    // One entry per packet, so that counts wrap soon: 40,000 packets of one module.
    for rate in [1e6, CYCLED] {
        let one = SimulatedPanel::new(1, 1).unwrap();
        let mut t = SimulatedSonde::new(&setup(one, DeviceMode::TriggerTime, 1, rate)).unwrap();
        let all = collect(&mut t, 40_000, 51);
        for (i, (_, p)) in all.iter().enumerate() {
            assert_eq!(usize::from(parse(p).count), i % 16_384);
        }
    }
    for rate in [1e6, 20e6, CYCLED] {
        let mut t = d6(SimulatedPanel::full(), rate);
        let mut next: HashMap<(usize, u8), u16> = HashMap::new();
        for (lane, p) in collect(&mut t, 12_000, 51) {
            let p = parse(&p);
            let expected = next.entry((lane, p.system)).or_insert(0);
            assert_eq!(p.count, *expected, "lane {lane} system {}", p.system);
            *expected = (*expected + 1) % 16_384;
        }
        assert_eq!(next.len(), 400, "every module sends");
        assert!(next.keys().all(|&(lane, system)| lane * 32 + usize::from(system) < 400));
    }
}

#[test]
fn truth_and_totals_are_what_a_decoder_counts() {
    let cases = [
        (SimulatedPanel::full(), DeviceMode::TriggerTime, 250, 5e6),
        (SimulatedPanel::demo(), DeviceMode::TriggerTime, 255, CYCLED),
        (SimulatedPanel::demo(), DeviceMode::SingleEvent, 1, 1e6),
        (SimulatedPanel::demo(), DeviceMode::SingleEvent, 1, 64.0 * CYCLED),
        (SimulatedPanel::demo(), DeviceMode::MultiEvent, 150, 1e6),
        (SimulatedPanel::demo(), DeviceMode::MultiEvent, 150, CYCLED),
    ];
    for (panel, mode, entries, rate) in cases {
        let mut t = SimulatedSonde::new(&setup(panel, mode, entries, rate)).unwrap();
        let all = collect(&mut t, 15_000, 64);
        let mut counted = vec![0; panel.pixels()];
        for (lane, p) in &all {
            let p = parse(p);
            let module = lane * 32 + usize::from(p.system);
            for &(_, asic, channel) in &p.hits {
                counted[64 * module + pixel(asic, channel)] += 1;
            }
        }
        let totals = t.totals();
        assert_eq!(t.truth(), Some(counted.clone()), "{mode:?} {rate}");
        assert_eq!(totals.events, counted.iter().sum::<u64>());
        assert_eq!(totals.packets, all.len() as u64);
        assert_eq!(totals.bytes, all.iter().map(|(_, p)| p.len() as u64).sum::<u64>());
        assert!(t.end().is_empty());
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_whatever_the_trains() {
    for rate in [1e6, CYCLED] {
        let mut a = collect(&mut d6(SimulatedPanel::demo(), rate), 1500, 51);
        let mut b = collect(&mut d6(SimulatedPanel::demo(), rate), 1500, 7);
        a.truncate(1500);
        b.truncate(1500);
        assert!(a == b, "rate {rate}");
        let other = SondeSetup {
            seed: 12,
            ..setup(SimulatedPanel::demo(), DeviceMode::TriggerTime, 250, rate)
        };
        let mut c = collect(&mut SimulatedSonde::new(&other).unwrap(), 1500, 51);
        c.truncate(1500);
        assert!(a != c, "another seed, other bytes");
    }
}

/// Follows 32-bit times of one module; they may step back by less than 2³¹.
#[derive(Default)]
struct Unwrap {
    last: i64,
}

impl Unwrap {
    fn next(&mut self, time: u32) -> i64 {
        self.last += i64::from(time.wrapping_sub(self.last as u32) as i32);
        self.last
    }
}

/// (pulse, ns after it) of an unwrapped time.
fn pulse_of(t: i64) -> (u64, u64) {
    let t = u64::try_from(t).expect("no time before the start");
    let mut k = (u128::from(t) * 14 / 1_000_000_000) as u64;
    if pulse_ns(k + 1) <= t {
        k += 1;
    }
    (k, t - pulse_ns(k))
}

#[test]
fn simulated_time_follows_the_rate_through_the_32_bit_wrap() {
    // 6 s at 1 M/s of fresh events; 5 s at 25 M/s of prepared ones. Wraps come every 4.29 s.
    for (rate, seconds, tolerance) in [(1e6, 6.0, 0.01), (CYCLED, 5.0, 0.015)] {
        let mut t = d6(SimulatedPanel::demo(), rate);
        let packets = (rate * seconds / 250.0) as u64;
        let mut clocks: HashMap<u8, Unwrap> = HashMap::new();
        let mut latest = 0;
        while t.totals().packets < packets {
            for p in t.next_train(51, 0).unwrap().each() {
                let clock = clocks.entry(p[0]).or_default();
                for entry in [11, 11 + 5 * 249] {
                    let before = clock.last;
                    let time = clock.next(be(&p[entry..entry + 4]));
                    assert!(time >= before, "{rate}: {time} after {before}");
                    assert!(pulse_of(time).1 < u64::from(LAST_NS) + 1, "{rate}: {time}");
                    latest = latest.max(time);
                }
            }
        }
        let elapsed = latest as f64 * 1e-9;
        assert!((elapsed / seconds - 1.0).abs() < tolerance, "{rate}: {elapsed} s");
    }
}

#[test]
fn denser_pulses_keep_their_events_and_stay_inside_the_pulse() {
    // 1 G/s: 71 M events a pulse, 22 times what is prepared. One pulse and a bit.
    let rate = 1e9;
    let mut t = d6(SimulatedPanel::demo(), rate);
    let mut first_of_next = None;
    while first_of_next.is_none() && t.totals().events < 80_000_000 {
        let before = t.totals().events;
        for (i, p) in t.next_train(51, 0).unwrap().each().enumerate() {
            let (k, tof) = pulse_of(i64::from(be(&p[11 + 5 * 249..15 + 5 * 249])));
            assert!(tof < u64::from(LAST_NS) + 1000);
            if k > 0 {
                first_of_next.get_or_insert(before + 250 * i as u64);
            }
        }
    }
    let events = first_of_next.expect("the pulse ends") as f64;
    assert!((events / (rate / 14.0) - 1.0).abs() < 1e-3, "{events}");
}

#[test]
fn fresh_and_prepared_events_follow_the_same_picture_and_spectrum() {
    let panel = SimulatedPanel::demo();
    let model = Scattering::new(&panel, 11);
    let expected: Vec<f64> = (0..panel.pixels()).map(|i| model.of_pixel(i)).collect();
    let all: f64 = expected.iter().sum();
    let bins: f64 = model.bins.iter().sum();
    for (rate, packets, pulses) in [(10e6, 24_300, 8), (28e6, 17_000, 2)] {
        let mut t = d6(panel, rate);
        let mut spectrum = vec![0.0; 64];
        let mut clocks: HashMap<u8, Unwrap> = HashMap::new();
        for (_, p) in collect(&mut t, packets, 51) {
            let p = parse(&p);
            let clock = clocks.entry(p.system).or_default();
            for (time, ..) in p.hits {
                let (pulse, tof) = pulse_of(clock.next(time));
                if pulse < pulses {
                    spectrum[(tof * 64 / u64::from(LAST_NS)) as usize] += 1.0;
                }
            }
        }
        let n = t.totals().events as f64;
        let truth = t.truth().unwrap();
        // Blocks of 4 x 8 pixels: at least some 10,000 counts each, so 5 % is five sigma; the last
        // packets of a module are missing or doubled, 2 % more.
        for block in 0..panel.pixels() / 32 {
            let range = block * 32..(block + 1) * 32;
            let want: f64 = expected[range.clone()].iter().sum::<f64>() / all * n;
            let got = truth[range].iter().sum::<u64>() as f64;
            assert!((got - want).abs() < 0.07 * want + 600.0, "{rate} block {block}: {got} {want}");
        }
        // Only whole pulses: the run ends half way through another one.
        let n: f64 = spectrum.iter().sum();
        for (slice, &got) in spectrum.iter().enumerate() {
            let want: f64 = model.bins[16 * slice..16 * slice + 16].iter().sum::<f64>() / bins * n;
            assert!(
                (got - want).abs() < 0.01 * want + 5.0 * want.sqrt(),
                "{rate} slice {slice}: {got} {want}"
            );
        }
    }
}

#[test]
fn the_count_limit_ends_the_stream_exactly() {
    for rate in [1e6, CYCLED] {
        let limited = SondeSetup {
            count: Some(100),
            ..setup(SimulatedPanel::demo(), DeviceMode::TriggerTime, 250, rate)
        };
        let mut t = SimulatedSonde::new(&limited).unwrap();
        let mut n = 0;
        while let Some(p) = t.next_train(30, 0) {
            n += p.packets;
        }
        assert_eq!((n, t.totals().packets), (100, 100));
        assert!(t.next_train(0, 0).is_none());
    }
}

#[test]
fn impossible_setups_are_refused_by_name() {
    let new = |entries, rate| {
        SimulatedSonde::new(&setup(SimulatedPanel::demo(), DeviceMode::TriggerTime, entries, rate))
    };
    assert_eq!(new(0, 1e6).unwrap_err(), packet::entries_refused(0));
    assert_eq!(new(256, 1e6).unwrap_err(), packet::entries_refused(256));
    assert_eq!(new(250, 0.0).unwrap_err(), TrafficError::rate(0.0));
    assert!(matches!(new(250, f64::NAN).unwrap_err(), TrafficError::Value { key: "rate", .. }));
    assert_eq!(SimulatedSonde::packet(DeviceMode::TriggerTime, 250), Ok((1261, 250)));
    assert_eq!(SimulatedSonde::packet(DeviceMode::SingleEvent, 250), Ok((145, 64)));
    assert_eq!(SimulatedSonde::packet(DeviceMode::MultiEvent, 150), Ok((1363, 150)));
    // Too slow: the advice in the message must work, and just below it must not.
    let Err(TrafficError::Slow { lowest, fewer, .. }) = new(250, 5000.0) else {
        panic!("5000 events/s over 32 modules fill no packet in time");
    };
    assert!(new(250, lowest).is_ok() && new(250, 0.99 * lowest).is_err(), "{lowest}");
    let most: usize =
        fewer.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap();
    assert!(new(most, 5000.0).is_ok() && new(most + 1, 5000.0).is_err(), "{fewer}");
    let e = new(1, 10.0).unwrap_err().to_string();
    assert!(e.contains("at least") && !e.contains("at most"), "{e}");
}

proptest! {
    #[test]
    fn a_shift_moves_every_time_and_nothing_else(
        entries in 1usize..=255, by in any::<u32>(), mode in 0usize..3, seed in any::<u64>(),
    ) {
        let mode = [DeviceMode::TriggerTime, DeviceMode::SingleEvent, DeviceMode::MultiEvent][mode];
        let shape = Shape::new(mode, entries).unwrap();
        let mut packet = vec![0; shape.bytes()];
        let mut random = super::super::Random::new(seed);
        shape.blank(17, &mut packet);
        for i in 0..shape.hits() {
            let hit = packet::Hit { time: random.bits() as u32, pixel: random.below(64) as u8 };
            shape.put(&mut packet, i, hit, &SimulatedPanel::bytes(), &mut random);
        }
        let before = parse(&packet);
        let mut moved = packet.clone();
        shape.shift(&mut moved, by);
        let after = parse(&moved);
        prop_assert_eq!(after.time, before.time.wrapping_add(by));
        prop_assert_eq!(after.hits.len(), before.hits.len());
        for (a, b) in after.hits.iter().zip(&before.hits) {
            prop_assert_eq!(*a, (b.0.wrapping_add(by), b.1, b.2));
        }
        shape.shift(&mut moved, 0u32.wrapping_sub(by));
        prop_assert_eq!(moved, packet);
        prop_assert_eq!(before.system, 17);
    }
}
