//! Tests of `multigrid` traffic with a small independent decoder, written from the format document.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::super::made::{Cause, Made, Overlap};
use super::super::noise::Pileup;
use super::*;
use proptest::prelude::*;

/// Readout: bus, channel, ADC.
type Readout = (u8, u16, u16);

/// One sub-buffer, if it was good.
#[derive(Debug, Clone, PartialEq)]
struct Trigger {
    time: u64,
    pulse: bool,
    readouts: Vec<Readout>,
}

#[derive(Debug, Default)]
struct Decoder {
    triggers: Vec<Trigger>,
    /// Container sequence numbers in order.
    numbers: Vec<u32>,
    /// Reasons of refused packets and sub-buffers.
    refused: BTreeMap<&'static str, u64>,
    bytes_per_packet: Vec<usize>,
}

impl Decoder {
    fn refuse(&mut self, why: &'static str) {
        *self.refused.entry(why).or_default() += 1;
    }

    fn packet(&mut self, p: &[u8]) {
        self.bytes_per_packet.push(p.len());
        if p[0] != 0x60 {
            return self.refuse("packet_type");
        }
        let word = |i: usize| u32::from_le_bytes(p[3 + 4 * i..7 + 4 * i].try_into().unwrap());
        let words = (p.len() - 3) / 4;
        assert_eq!(3 + 4 * words, p.len(), "no tail");
        let mut i = 0;
        while words - i > 4 {
            if word(i) & 0xff != 0x58 {
                return self.refuse("event_header");
            }
            let length = ((word(i) & 0xff00) + (word(i) >> 16 & 0xff)) as usize;
            i += 1;
            if word(i) >> 24 != 0xbb {
                return self.refuse("begin_word");
            }
            self.numbers.push(word(i) & 0xff_ffff);
            i += 1;
            if length < 3 || length - 1 > words - i {
                return self.refuse("event_length");
            }
            let data: Vec<u32> = (i..i + length - 3).map(word).collect();
            i += length - 3;
            if word(i) != 0x8765_4321 {
                return self.refuse("end_cookie");
            }
            i += 1;
            if word(i) >> 24 != 0xee {
                return self.refuse("end_word");
            }
            i += 1;
            match trigger(&data) {
                Ok(t) => self.triggers.push(t),
                Err(why) => self.refuse(why),
            }
        }
        assert_eq!(i, words, "the packet is full");
    }

    /// (time, pixel) by section 6 for `modules` modules, and the times of pulses.
    fn events(&self, modules: usize) -> (Vec<(u64, u32)>, Vec<u64>) {
        let mut groups: BTreeMap<(u64, u8), Vec<Readout>> = BTreeMap::new();
        let mut pulses = vec![];
        for t in &self.triggers {
            if t.readouts.len() + usize::from(t.pulse) > 40 {
                continue;
            }
            if t.pulse {
                pulses.push(t.time);
            }
            for &r in &t.readouts {
                if usize::from(r.0) < modules && r.1 < 120 {
                    groups.entry((t.time, r.0)).or_default().push(r);
                }
            }
        }
        let mut events = vec![];
        for ((time, bus), group) in groups {
            let (wires, grids): (Vec<Readout>, Vec<Readout>) = group.iter().partition(|r| r.1 < 80);
            if wires.len() != 1 || grids.is_empty() || grids.len() > 5 {
                continue;
            }
            let best = grids.iter().map(|r| r.2).max().unwrap();
            let chosen: Vec<u32> =
                grids.iter().filter(|r| r.2 == best).map(|r| u32::from(r.1) - 80).collect();
            let n = chosen.len() as u32;
            let y = (2 * chosen.iter().sum::<u32>() + n) / (2 * n);
            let channel = wires[0].1;
            let wire = if channel < 64 {
                channel + 4 * (channel / 16)
            } else if channel < 76 {
                16 + 20 * ((channel - 64) / 4) + (channel - 64) % 4
            } else {
                channel
            };
            let wire = u32::from(wire ^ 1);
            let x = 4 * u32::from(bus) + 3 - wire / 20;
            let z = 19 - wire % 20;
            events.push((time, 1 + x + 4 * modules as u32 * (y + 40 * z)));
        }
        (events, pulses)
    }
}

fn trigger(data: &[u32]) -> Result<Trigger, &'static str> {
    let (mut high, mut low, mut pulse, mut readouts) = (0u64, None, false, vec![]);
    for (k, &w) in data.iter().enumerate() {
        match w >> 28 {
            4 => {
                if (w & 0x3ff) as usize > data.len() - k {
                    return Err("header_words");
                }
                assert_eq!(k, 0, "one block");
                assert!((w & 0x3ff) as usize == data.len() - 1 && data.len().is_multiple_of(2));
                pulse = w >> 24 & 1 == 1;
            }
            2 => high = u64::from(w & 0xffff),
            1 => {
                readouts.push(((w >> 24 & 15) as u8, (w >> 12 & 0xfff) as u16, (w & 0xfff) as u16))
            }
            0 => {}
            0xc.. => low = Some(u64::from(w & 0x3fff_ffff)),
            _ => return Err("word_type"),
        }
    }
    let low = low.ok_or("no_timestamp")?;
    Ok(Trigger { time: high << 30 | low, pulse, readouts })
}

fn small(modules: usize, per_module: f64, noise: &str) -> MultiGridSetup {
    MultiGridSetup {
        modules,
        neutrons_per_s: per_module * modules as f64,
        noise: noise.parse().unwrap(),
        seed: 7,
        prepared_bytes: 1 << 20,
        ..MultiGridSetup::default()
    }
}

/// Hands out one turn and `more` packets; gives decoder, rows and the traffic.
fn turn(setup: &MultiGridSetup, more: usize, train: usize) -> (Decoder, Vec<Made>, MultiGrid) {
    let mut t = MultiGrid::new(setup).unwrap();
    let rows = Arc::new(Mutex::new(Vec::new()));
    let into = rows.clone();
    assert!(t.watch(Box::new(move |row| into.lock().unwrap().push(*row))));
    let mut decoder = Decoder::default();
    let mut left = t.turn().0 as usize + more;
    while left > 0 {
        let p = t.next_train(train.min(left), 0).unwrap();
        assert!(p.packets <= train && p.bytes.len() == p.packets * p.stride && p.lane == 0);
        left -= p.packets;
        p.each().for_each(|bytes| decoder.packet(bytes));
    }
    let rows = std::mem::take(&mut *rows.lock().unwrap());
    (decoder, rows, t)
}

fn expected(rows: &[Made]) -> Vec<(u64, u32)> {
    let mut all: Vec<_> =
        rows.iter().filter(|r| r.expected()).map(|r| (r.time as u64, r.pixel)).collect();
    all.sort_unstable();
    all
}

#[test]
fn every_neutron_is_decoded_in_its_pixel_and_nothing_else() {
    for (modules, rate) in [(1, 1e3), (3, 10e3), (16, 100e3), (3, REAL_TIME_HZ)] {
        let setup = small(modules, rate, "none");
        let (decoder, rows, t) = turn(&setup, 50, 50);
        let (mut events, _) = decoder.events(modules);
        events.sort_unstable();
        assert_eq!(events, expected(&rows), "{modules} modules at {rate}");
        assert!(decoder.refused.is_empty());
        let neutrons = rows.iter().filter(|r| r.kind == Cause::Neutron).count();
        assert_eq!(neutrons, events.len(), "all are clean");
        assert_eq!(t.totals().events, events.len() as u64);
        let mut counts = vec![0; modules * 3200];
        events.iter().for_each(|&(_, pixel)| counts[pixel as usize - 1] += 1);
        assert_eq!(t.truth(), Some(counts));
        // One word after the other.
        let ascending = (0..decoder.numbers.len() as u32).collect::<Vec<_>>();
        assert_eq!(decoder.numbers, ascending);
    }
}

#[test]
fn packets_look_like_the_recorded_ones() {
    let (decoder, ..) = turn(&small(3, 10e3, "none"), 0, 64);
    assert!(decoder.bytes_per_packet.iter().all(|&n| n == 1299));
    let triggers = decoder.triggers.len() as f64 / decoder.bytes_per_packet.len() as f64;
    assert!((33.0..37.0).contains(&triggers), "{triggers} triggers per packet");
    let full: Vec<_> = decoder.triggers.iter().filter(|t| !t.readouts.is_empty()).collect();
    let part = full.len() as f64 / decoder.triggers.len() as f64;
    assert!((0.4..0.6).contains(&part), "{part} of the triggers hold readouts");
    let readouts: usize = full.iter().map(|t| t.readouts.len()).sum();
    let mean = readouts as f64 / full.len() as f64;
    assert!((2.8..3.5).contains(&mean), "{mean} readouts per trigger");
    // Pairs turned round, amplitudes of both planes close to each other.
    for t in &full {
        let turned = |r: &Readout| (r.0, r.1 ^ 1);
        assert!(t.readouts.windows(2).all(|w| turned(&w[0]) < turned(&w[1])));
    }
    let single: Vec<(f64, f64)> = full
        .iter()
        .filter(|t| t.readouts.iter().filter(|r| r.1 < 80).count() == 1)
        .map(|t| {
            let sum = |wires: bool| {
                t.readouts.iter().filter(|r| (r.1 < 80) == wires).map(|r| f64::from(r.2)).sum()
            };
            (sum(true), sum(false))
        })
        .collect();
    let close = single.iter().filter(|(w, g)| (g / w / 0.9 - 1.0).abs() < 0.15).count();
    assert!(close * 100 >= single.len() * 99, "{close} of {}", single.len());
}

#[test]
fn times_rise_and_pulses_keep_their_distance_through_turns() {
    for (hz, ticks) in [(14.0, 1_142_857), (100.0, 160_000)] {
        let setup = MultiGridSetup { pulse_hz: hz, ..small(2, 5e3, "none") };
        let t = MultiGrid::new(&setup).unwrap();
        let packets = t.turn().0 as usize;
        let (decoder, rows, _) = turn(&setup, packets, 33);
        let times: Vec<u64> = decoder.triggers.iter().map(|t| t.time).collect();
        assert!(times.windows(2).all(|w| w[0] <= w[1]));
        let (_, pulses) = decoder.events(2);
        assert_eq!(pulses[0], 16_000_000);
        assert!(pulses.windows(2).all(|w| [ticks, ticks + 1].contains(&(w[1] - w[0]))));
        for (k, &pulse) in pulses.iter().enumerate() {
            let exact = 16_000_000 + (k as f64 * 16e6 / hz) as u64;
            assert!(pulse.abs_diff(exact) <= 1, "{pulse}, {exact}: no drift over turns");
        }
        let written = rows.iter().filter(|r| r.kind == Cause::Pulse).map(|r| r.time as u64);
        assert_eq!(written.collect::<Vec<_>>(), pulses);
        let seconds = (times[times.len() - 1] - times[0]) as f64 / 16e6;
        let neutrons = rows.iter().filter(|r| r.kind == Cause::Neutron).count() as f64;
        assert!((neutrons / seconds / 10e3 - 1.0).abs() < 0.02, "{} /s", neutrons / seconds);
    }
}

#[test]
fn the_rate_decides_the_packets_per_second_and_above_100_khz_only_the_speed() {
    let t = |rate| MultiGrid::new(&small(3, rate, "none")).unwrap();
    let (slow, fast) = (t(100e3), t(1e6));
    assert_eq!(slow.turn(), fast.turn());
    assert!((fast.packets_per_s() / slow.packets_per_s() - 10.0).abs() < 1e-9);
    let events_per_s = |t: &MultiGrid| t.packets_per_s() * t.turn().1 as f64 / t.turn().0 as f64;
    for rate in [1e3, 10e3, 100e3, 1e6] {
        let reached = events_per_s(&t(rate));
        assert!((reached / (3.0 * rate) - 1.0).abs() < 1e-3, "{rate}: {reached}");
    }
}

#[test]
fn noise_comes_at_its_share_and_changes_no_clean_neutron() {
    let noise = "dark=5%,bad=3%,coincidence=2%,packet=4%,pileup=random";
    for modules in [1, 3, 16] {
        let (decoder, rows, t) = turn(&small(modules, 50e3, noise), 0, 64);
        let count = |kind| rows.iter().filter(|r| r.kind == kind).count() as f64;
        let neutrons = count(Cause::Neutron);
        for (kind, share) in [(Cause::Dark, 0.05), (Cause::Bad, 0.03), (Cause::Coincidence, 0.02)] {
            let part = count(kind) / neutrons;
            assert!((part / share - 1.0).abs() < 0.001 + 1.0 / count(kind), "{kind:?}: {part}");
        }
        let packets = count(Cause::Packet) / decoder.bytes_per_packet.len() as f64;
        assert!((packets - 0.04 / 1.04).abs() < 0.02, "{packets} of the packets are broken");
        let (events, _) = decoder.events(modules);
        let found: std::collections::HashSet<_> = events.iter().copied().collect();
        for wanted in expected(&rows) {
            assert!(found.contains(&wanted), "{wanted:?}");
        }
        assert!(t.totals().events == expected(&rows).len() as u64);
        let overlap = rows.iter().filter(|r| r.overlap == Overlap::Neutron).count();
        assert!(overlap > 0, "at 50 kHz some neutrons share a window");
        for reason in [
            "packet_type",
            "event_header",
            "begin_word",
            "event_length",
            "end_cookie",
            "end_word",
            "word_type",
            "header_words",
            "no_timestamp",
        ] {
            assert!(decoder.refused.contains_key(reason), "{reason}: {:?}", decoder.refused);
        }
        let glitch = decoder.triggers.iter().filter(|t| t.readouts.len() == 128).count() as f64;
        assert!((glitch / (count(Cause::Bad) / 6.0) - 1.0).abs() < 0.01 + 1.0 / glitch);
    }
}

#[test]
fn forced_pileup_gives_the_share_of_seconds() {
    let (_, rows, _) = turn(&small(3, 1e3, "pileup=10%"), 0, 64);
    let all = rows.iter().filter(|r| r.kind == Cause::Neutron).count() as f64;
    let overlap = rows.iter().filter(|r| r.overlap == Overlap::Neutron).count() as f64;
    // Of 1.1 neutrons 0.2 are in pairs.
    assert!((overlap / all - 0.2 / 1.1).abs() < 0.01, "{overlap} of {all}");
    assert_eq!("pileup=10%".parse::<Noise>().unwrap().pileup, Pileup::Forced(0.1));
}

#[test]
fn the_same_seed_gives_the_same_bytes_whatever_the_trains() {
    let bytes = |seed, train: usize| {
        let setup = MultiGridSetup { seed, ..small(3, 10e3, "dark=1%,bad=1%,packet=1%") };
        let mut t = MultiGrid::new(&setup).unwrap();
        let mut all = vec![];
        while t.totals().packets < 2500 {
            let left = 2500 - t.totals().packets as usize;
            all.extend_from_slice(t.next_train(train.min(left), 0).unwrap().bytes);
        }
        all
    };
    assert!(bytes(1, 50) == bytes(1, 7));
    assert!(bytes(1, 50) != bytes(2, 50));
}

#[test]
fn the_count_limit_ends_the_stream_exactly() {
    let setup = MultiGridSetup { count: Some(101), ..small(1, 1e3, "none") };
    let mut t = MultiGrid::new(&setup).unwrap();
    let mut n = 0;
    while let Some(p) = t.next_train(10, 0) {
        n += p.packets;
    }
    assert_eq!((n, t.totals().packets, t.totals().bytes), (101, 101, 101 * 1299));
    assert!(t.next_train(0, 0).is_none() && t.end().is_empty());
}

#[test]
fn the_configuration_of_three_modules_is_the_published_one() {
    let made: serde_json::Value = serde_json::from_str(&MultiGrid::configuration(3)).unwrap();
    let modules = made["pipeline_config"]["modules"].as_array().unwrap();
    let offsets: Vec<_> = modules.iter().map(|m| &m["digital_geometry"]["x_offset"]).collect();
    assert_eq!(offsets, [0, 4, 8]);
    assert_eq!(made["mappings"][2]["type"], "MG24A");
    assert_eq!(made["mappings"][0]["swap_wires"], true);
    assert_eq!(made["builder"]["spoof_high_time"], false);
}

#[test]
fn impossible_setups_are_refused_by_name() {
    let new = |change: fn(&mut MultiGridSetup)| {
        let mut setup = MultiGridSetup { prepared_bytes: 1 << 16, ..MultiGridSetup::default() };
        change(&mut setup);
        MultiGrid::new(&setup).map(|_| ())
    };
    assert_eq!(new(|s| s.modules = 0), Err(modules_refused(0)));
    assert_eq!(new(|s| s.modules = 17), Err(modules_refused(17)));
    assert_eq!(new(|s| s.neutrons_per_s = 0.5), Err(TrafficError::rate(0.5)));
    assert_eq!(new(|s| s.pulse_hz = 1001.0), Err(pulses_refused(1001.0)));
    assert!(matches!(
        new(|s| s.pulse_hz = f64::NAN),
        Err(TrafficError::Value { key: "pulse-rate", .. })
    ));
    assert_eq!(new(|s| s.neutrons_per_s = 1e11), Ok(()));
    assert_eq!(new(|s| s.neutrons_per_s = 1.0), Ok(()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn any_setup_is_decoded_to_its_truth(
        modules in 1usize..=16, rate in 1e2..1e5, seed in any::<u64>(), hz in 5.0..200.0,
        dark in 0.0..0.3, bad in 0.0..0.2, coincidence in 0.0..0.1, packet in 0.0..0.2, random in any::<bool>(),
    ) {
        let pileup = if random { Pileup::Random } else { Pileup::Never };
        let noise = Noise { dark, bad, coincidence, packet, monitor: 0.0, dead: 0.0, pileup };
        let setup = MultiGridSetup {
            modules, neutrons_per_s: rate * modules as f64, noise, pulse_hz: hz, seed,
            prepared_bytes: 1 << 16, count: None,
        };
        let (decoder, rows, t) = turn(&setup, 10, 33);
        let (events, _) = decoder.events(modules);
        let found: std::collections::HashSet<_> = events.iter().copied().collect();
        let wanted = expected(&rows);
        prop_assert!(wanted.iter().all(|e| found.contains(e)));
        prop_assert_eq!(t.totals().events, wanted.len() as u64);
        // What is found beyond comes from overlaps only.
        let overlapped = rows.iter().filter(|r| r.overlap != Overlap::None).count();
        prop_assert!(events.len() - wanted.len() <= overlapped);
        prop_assert!(decoder.bytes_per_packet.iter().all(|&n| n == 1299));
    }
}
