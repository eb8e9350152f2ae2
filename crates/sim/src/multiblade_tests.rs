//! Tests of `multiblade` traffic with a small independent decoder, written from the format document.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use super::super::made::{Cause, Made, Overlap};
use super::super::noise::Pileup;
use super::*;
use proptest::prelude::*;

/// One element: local time, channel, amplitude.
type Readout = (u32, u16, u16);

#[derive(Debug, PartialEq)]
struct Packet {
    global_ms: u64,
    digitiser: u32,
    sequence: u32,
    readouts: Vec<Readout>,
}

fn parse(p: &[u8]) -> Result<Packet, &'static str> {
    let u =
        |at: usize, n: usize| p[at..at + n].iter().rev().fold(0u64, |v, &b| v << 8 | u64::from(b));
    if u(24, 2) != 0x0301 {
        return Err("version");
    }
    if u(20, 2) != 1 {
        return Err("type");
    }
    if p.len() as u64 != 32 + 8 * u(22, 2) {
        return Err("size");
    }
    assert_eq!(u(0, 8), 0, "run");
    let readouts = p[32..].chunks(8).map(|e| {
        let t = u32::from_le_bytes(e[..4].try_into().unwrap());
        let half = |at: usize| u16::from_le_bytes([e[at], e[at + 1]]);
        (t, half(4), half(6))
    });
    Ok(Packet {
        global_ms: u(8, 8),
        digitiser: u(16, 4) as u32,
        sequence: u(26, 4) as u32,
        readouts: readouts.collect(),
    })
}

/// (cassettes, strips) and the digitisers' cassettes.
fn map(cassettes: usize) -> (u32, HashMap<u32, u32>) {
    match cassettes {
        6 => (32, [137, 143, 142, 31, 33, 34].into_iter().zip(0..).collect()),
        _ => (64, (1001..=1050).zip(0..).collect()),
    }
}

/// Section 3.1: channel 62 of digitiser 137 in Freia orientation.
fn is_monitor(p: &Packet, r: &Readout) -> bool {
    p.digitiser == 137 && r.1 == 62
}

/// (packet, local time) of the monitor's counts.
fn monitor(packets: &[Vec<u8>]) -> Vec<(u64, i64)> {
    let good = packets.iter().zip(0..).filter_map(|(p, n)| Some((parse(p).ok()?, n)));
    let counts = good.flat_map(|(p, n)| {
        let own: Vec<_> = p.readouts.iter().filter(|r| is_monitor(&p, r)).map(|r| r.0).collect();
        own.into_iter().map(move |time| (n, i64::from(time)))
    });
    counts.collect()
}

/// (local time, pixel) of a packet's events by sections 3 to 6: MB18 in Freia orientation.
fn events(p: &Packet, cassettes: usize) -> Vec<(i64, u32)> {
    let (strips, map) = map(cassettes);
    let Some(&cassette) = map.get(&p.digitiser) else { return vec![] };
    let mut sorted = p.readouts.clone();
    sorted.retain(|r| {
        let exists = u32::from(r.1) < 32 + strips;
        exists && r.2 <= 65_534 && !is_monitor(p, r)
    });
    sorted.sort_by_key(|r| r.0);
    let mut out = vec![];
    let mut rest = &sorted[..];
    while let Some(first) = rest.first() {
        let n = rest.partition_point(|r| u64::from(r.0 - first.0) * 16 < 2010);
        let (inside, after) = rest.split_at(n);
        rest = after;
        // (coordinate, amplitude) of both planes.
        let mut planes = [vec![], vec![]];
        for r in inside {
            let channel = u32::from(r.1 ^ 1);
            match channel < 32 {
                true => planes[1].push((cassette * 32 + channel, u64::from(r.2))),
                false => planes[0].push((channel - 32, u64::from(r.2))),
            }
        }
        let centres: Vec<Option<u32>> = planes
            .iter()
            .map(|hits| {
                let low = hits.iter().map(|h| h.0).min()?;
                let high = hits.iter().map(|h| h.0).max()?;
                let sum: u64 = hits.iter().map(|h| h.1).sum();
                let weighted: u64 = hits.iter().map(|h| u64::from(h.0) * h.1).sum();
                let gap = (hits.len() as u32) < high - low + 1;
                (!gap && sum > 0).then(|| (weighted as f64 / sum as f64 + 0.5).floor() as u32)
            })
            .collect();
        if let [Some(x), Some(y)] = centres[..] {
            out.push((i64::from(first.0), y * strips + x + 1));
        }
    }
    out
}

fn small(cassettes: usize, per_cassette: f64, noise: &str) -> MultiBladeSetup {
    MultiBladeSetup {
        cassettes,
        neutrons_per_s: per_cassette * cassettes as f64,
        noise: noise.parse().unwrap(),
        seed: 5,
        prepared_bytes: 1 << 20,
        ..MultiBladeSetup::default()
    }
}

/// One turn and `more` packets: the packets, and the rows of truth.
fn turn(
    setup: &MultiBladeSetup,
    more: usize,
    train: usize,
) -> (Vec<Vec<u8>>, Vec<Made>, SimulatedMultiBlade) {
    let mut t = SimulatedMultiBlade::new(setup).unwrap();
    let rows = Arc::new(Mutex::new(Vec::new()));
    let into = rows.clone();
    assert!(t.watch(Box::new(move |row| into.lock().unwrap().push(*row))));
    let mut packets = vec![];
    let wanted = t.turn().0 as usize + more;
    while packets.len() < wanted {
        let p = t.next_train(train.min(wanted - packets.len()), 5_000_000_000).unwrap();
        packets.extend(p.each().map(<[u8]>::to_vec));
    }
    let rows = std::mem::take(&mut *rows.lock().unwrap());
    (packets, rows, t)
}

/// (packet, local time, pixel)
type Found = Vec<(u64, i64, u32)>;

fn decode(packets: &[Vec<u8>], cassettes: usize) -> Found {
    let good = packets.iter().zip(0..).filter_map(|(p, n)| Some((parse(p).ok()?, n)));
    let mut all: Found = good
        .flat_map(|(p, n)| events(&p, cassettes).into_iter().map(move |(t, pixel)| (n, t, pixel)))
        .collect();
    all.sort_unstable();
    all
}

fn expected(rows: &[Made]) -> Found {
    let mut all: Found =
        rows.iter().filter(|r| r.expected()).map(|r| (r.packet, r.time, r.pixel)).collect();
    all.sort_unstable();
    all
}

#[test]
fn every_neutron_is_decoded_in_its_pixel_and_nothing_else() {
    for (cassettes, rate) in [(6, 1e3), (6, 100e3), (6, REAL_TIME_HZ), (50, 1e3), (50, 10e3)] {
        let (packets, rows, t) = turn(&small(cassettes, rate, "none"), 20, 50);
        let found = decode(&packets, cassettes);
        assert_eq!(found, expected(&rows), "{cassettes} cassettes at {rate}");
        assert_eq!(rows.len(), found.len(), "all are clean neutrons");
        assert_eq!(monitor(&packets), [], "no neutron uses the monitor's channel");
        assert_eq!(t.totals().events, found.len() as u64);
        let (strips, _) = map(cassettes);
        let mut counts = vec![0; cassettes * 32 * strips as usize];
        found.iter().for_each(|&(.., pixel)| counts[pixel as usize - 1] += 1);
        assert_eq!(t.truth(), Some(counts));
    }
}

#[test]
fn packets_are_numbered_over_all_digitisers_and_restart_every_20_ms() {
    let setup = small(6, 10e3, "none");
    let (packets, rows, t) = turn(&setup, 100, 50);
    let mut last_ms = 0;
    let mut digitisers = BTreeMap::new();
    for (n, bytes) in packets.iter().enumerate() {
        let p = parse(bytes).unwrap();
        assert_eq!((bytes.len(), p.readouts.len()), (32 + 8 * 70, 70));
        assert_eq!(p.sequence as usize, n);
        assert!(p.global_ms >= last_ms && (p.global_ms - 5000).is_multiple_of(20));
        last_ms = p.global_ms;
        *digitisers.entry(p.digitiser).or_insert(0) += 1;
        // Small steps back only, and no time beyond a restart.
        assert!(p.readouts.iter().all(|r| r.0 <= RESTART_TICKS));
        let back = p.readouts.windows(2).map(|w| w[0].0.saturating_sub(w[1].0)).max().unwrap();
        assert!(back <= 80, "{back}");
    }
    assert_eq!(digitisers.len(), 6);
    let seconds = t.turn_s() * packets.len() as f64 / t.turn().0 as f64;
    let neutrons = rows.len() as f64;
    assert!((neutrons / seconds / 60e3 - 1.0).abs() < 0.03, "{}", neutrons / seconds);
}

#[test]
fn neutrons_look_as_the_paper_says() {
    let (packets, ..) = turn(&small(6, 1e3, "none"), 0, 50);
    let (mut wires, mut strips, mut ratios) = ([0u32; 3], [0u32; 5], vec![]);
    for p in packets.iter().map(|p| parse(p).unwrap()) {
        let mut sorted = p.readouts;
        sorted.sort_by_key(|r| r.0);
        let mut rest = &sorted[..];
        while let Some(first) = rest.first() {
            let n = rest.partition_point(|r| r.0 - first.0 <= 80);
            let of = |wire: bool| rest[..n].iter().filter(move |r| (r.1 < 32) == wire);
            wires[of(true).count()] += 1;
            strips[of(false).count()] += 1;
            let sum = |wire| of(wire).map(|r| f64::from(r.2)).sum::<f64>();
            ratios.push(sum(false) / sum(true));
            rest = &rest[n..];
        }
    }
    let all = f64::from(wires.iter().sum::<u32>());
    let share = |n: u32| f64::from(n) / all;
    assert_eq!((wires[0], strips[0]), (0, 0));
    assert!((share(wires[1]) - 0.7).abs() < 0.03 && (share(wires[2]) - 0.3).abs() < 0.03);
    assert!((share(strips[2]) - 0.55).abs() < 0.05, "typically two strips: {strips:?}");
    assert!(share(strips[1]) < 0.15 && share(strips[4]) < 0.15);
    let close = ratios.iter().filter(|r| (*r / 0.57 - 1.0).abs() < 0.2).count();
    assert!(close as f64 > 0.99 * all, "{close} of {all}");
}

#[test]
fn the_rate_decides_the_packets_per_second_and_above_100_khz_only_the_speed() {
    let t = |rate| SimulatedMultiBlade::new(&small(6, rate, "none")).unwrap();
    let (slow, fast) = (t(100e3), t(1e6));
    assert_eq!(slow.turn(), fast.turn());
    assert!((fast.packets_per_s() / slow.packets_per_s() - 10.0).abs() < 1e-9);
    for rate in [1.0, 10.0, 100.0, 1e3, 10e3, 100e3, 1e6] {
        let t = t(rate);
        let reached = t.packets_per_s() * t.turn().1 as f64 / t.turn().0 as f64;
        let tolerance = 0.005 + 3.0 / (t.turn().1 as f64).sqrt();
        assert!((reached / (6.0 * rate) - 1.0).abs() < tolerance, "{rate}: {reached}");
    }
}

#[test]
fn noise_comes_at_its_share_and_changes_no_clean_neutron() {
    let noise = "dark=5%,bad=3%,coincidence=2%,packet=4%,pileup=random";
    for cassettes in [6, 50] {
        let (packets, rows, t) = turn(&small(cassettes, 50e3, noise), 0, 64);
        let count = |kind| rows.iter().filter(|r| r.kind == kind).count() as f64;
        let neutrons = count(Cause::Neutron);
        for (kind, share) in [(Cause::Dark, 0.05), (Cause::Bad, 0.03), (Cause::Coincidence, 0.02)] {
            let part = count(kind) / neutrons;
            let tolerance = 5.0 / count(kind).sqrt();
            assert!((part / share - 1.0).abs() < tolerance, "{kind:?}: {part}");
        }
        let broken = count(Cause::Packet) / packets.len() as f64;
        assert!((broken - 0.04 / 1.04).abs() < 0.01, "{broken} of the packets are broken");
        let found: std::collections::HashSet<_> = decode(&packets, cassettes).into_iter().collect();
        let wanted = expected(&rows);
        assert!(wanted.iter().all(|e| found.contains(e)));
        assert_eq!(t.totals().events, wanted.len() as u64);
        let overlap = rows
            .iter()
            .filter(|r| r.kind == Cause::Neutron && r.overlap == Overlap::Neutron)
            .count() as f64;
        // 2.02 us and the mean spread of 0.73 us, before and behind, at 50 kHz: 24 %.
        assert!((overlap / neutrons - 0.24).abs() < 0.02, "{}", overlap / neutrons);
        let mut reasons = BTreeMap::new();
        let (_, map) = map(cassettes);
        for p in &packets {
            let why = match parse(p) {
                Err(why) => why,
                Ok(p) if !map.contains_key(&p.digitiser) => "digitiser",
                Ok(_) => continue,
            };
            *reasons.entry(why).or_insert(0) += 1;
        }
        assert_eq!(reasons.len(), 4, "{reasons:?}");
        assert_eq!(f64::from(reasons.values().sum::<i32>()), count(Cause::Packet));
    }
}

#[test]
fn the_beam_monitor_counts_at_its_share_and_disturbs_no_neutron() {
    let setup = small(6, 20e3, "monitor=20%");
    let (packets, rows, t) = turn(&setup, 20, 50);
    let made: Vec<_> =
        rows.iter().filter(|r| r.kind == Cause::Monitor).map(|r| (r.packet, r.time)).collect();
    assert_eq!(monitor(&packets), made);
    let neutrons = |module| {
        rows.iter().filter(|r| r.kind == Cause::Neutron && r.module == module).count() as f64
    };
    let part = made.len() as f64 / neutrons(0);
    assert!((part / 0.2 - 1.0).abs() < 5.0 / (made.len() as f64).sqrt(), "{part}");
    assert!(rows.iter().all(|r| r.kind != Cause::Monitor || (r.module, r.pixel) == (0, 0)));
    // Its counts take places in its digitiser's packets only; all neutrons are clean and found.
    assert!(neutrons(0) < 0.97 * neutrons(1) && neutrons(1) > 1000.0);
    assert_eq!(decode(&packets, 6), expected(&rows));
    assert_eq!(rows.iter().filter(|r| r.expected()).count() + made.len(), rows.len());
    let reached = t.packets_per_s() * t.turn().1 as f64 / t.turn().0 as f64;
    assert!((reached / 120e3 - 1.0).abs() < 0.02, "{reached}");
}

#[test]
fn forced_pileup_gives_the_share_of_seconds() {
    let (_, rows, _) = turn(&small(6, 1e3, "pileup=10%"), 0, 64);
    let all = rows.iter().filter(|r| r.kind == Cause::Neutron).count() as f64;
    let overlap = rows.iter().filter(|r| r.overlap == Overlap::Neutron).count() as f64;
    // Of 1.1 neutrons 0.2 are in pairs, less where a packet ends; and 0.5 % overlap by chance.
    assert!((overlap / all - 0.2 / 1.1).abs() < 0.02, "{overlap} of {all}");
}

#[test]
fn the_same_seed_gives_the_same_bytes_whatever_the_trains() {
    let bytes = |seed, train: usize| {
        let setup = MultiBladeSetup { seed, ..small(6, 10e3, "dark=1%,bad=1%,packet=1%") };
        let mut t = SimulatedMultiBlade::new(&setup).unwrap();
        let mut all = vec![];
        while t.totals().packets < 3000 {
            let left = 3000 - t.totals().packets as usize;
            all.extend_from_slice(t.next_train(train.min(left), 0).unwrap().bytes);
        }
        all
    };
    assert!(bytes(1, 50) == bytes(1, 7));
    assert!(bytes(1, 50) != bytes(2, 50));
}

#[test]
fn the_count_limit_ends_the_stream_exactly() {
    let setup = MultiBladeSetup { count: Some(101), ..small(6, 1e3, "none") };
    let mut t = SimulatedMultiBlade::new(&setup).unwrap();
    let mut n = 0;
    while let Some(p) = t.next_train(10, 0) {
        n += p.packets;
    }
    assert_eq!((n, t.totals().packets), (101, 101));
    assert!(t.next_train(0, 0).is_none() && t.end().is_empty());
}

#[test]
fn the_configuration_of_six_is_the_published_one() {
    let made: serde_json::Value =
        serde_json::from_str(&SimulatedMultiBlade::configuration(6).unwrap()).unwrap();
    let ids: Vec<_> =
        made["DigitizerConfig"].as_array().unwrap().iter().map(|d| d["id"].clone()).collect();
    assert_eq!(ids, [137, 143, 142, 31, 33, 34]);
    assert_eq!((&made["Detector"], &made["InstrumentGeometry"]), (&"MB18".into(), &"Freia".into()));
    assert_eq!((&made["cassettes"], &made["TimeTickNS"]), (&6.into(), &16.into()));
    let fifty = SimulatedMultiBlade::configuration(50).unwrap();
    assert!(fifty.contains("\"strips\": 64") && fifty.contains("\"id\": 1050"), "{fifty}");
}

#[test]
fn impossible_setups_are_refused_by_name() {
    let new = |change: fn(&mut MultiBladeSetup)| {
        let mut setup = MultiBladeSetup { prepared_bytes: 1 << 16, ..MultiBladeSetup::default() };
        change(&mut setup);
        SimulatedMultiBlade::new(&setup).map(|_| ())
    };
    assert_eq!(new(|s| s.cassettes = 7), Err(wiring::cassettes_refused(7)));
    let watched = |s: &mut MultiBladeSetup| s.noise.monitor = 0.1;
    assert_eq!(new(watched), Ok(()));
    assert_eq!(
        new(|s| (s.cassettes, s.noise.monitor) = (50, 0.1)),
        Err(no_monitor()),
        "its set-up has none"
    );
    assert_eq!(new(|s| s.neutrons_per_s = 0.5), Err(TrafficError::rate(0.5)));
    assert!(matches!(
        new(|s| s.neutrons_per_s = f64::NAN),
        Err(TrafficError::Value { key: "rate", .. })
    ));
    assert_eq!(new(|s| s.readouts = Some(1)), Err(readouts_refused(1)));
    assert_eq!(new(|s| s.readouts = Some(1122)), Err(readouts_refused(1122)));
    assert_eq!(new(|s| s.readouts = Some(1121)), Ok(()));
    assert_eq!(new(|s| s.readouts = Some(2)), Ok(()));
    assert_eq!(new(|s| s.neutrons_per_s = 1e11), Ok(()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn any_setup_is_decoded_to_its_truth(
        fifty in any::<bool>(), rate in 1.0..1e5, seed in any::<u64>(), readouts in 2usize..200,
        dark in 0.0..0.3, bad in 0.0..0.2, coincidence in 0.0..0.1, packet in 0.0..0.2, random in any::<bool>(),
        monitor in 0.0..0.5,
    ) {
        let cassettes = if fifty { 50 } else { 6 };
        let pileup = if random { Pileup::Random } else { Pileup::Never };
        let monitor = if fifty { 0.0 } else { monitor };
        let noise = Noise { dark, bad, coincidence, packet, monitor, dead: 0.0, pileup };
        let setup = MultiBladeSetup {
            cassettes, neutrons_per_s: rate * cassettes as f64, noise, seed,
            readouts: Some(readouts), prepared_bytes: 1 << 16, count: None,
        };
        let (packets, rows, t) = turn(&setup, 10, 33);
        let found = decode(&packets, cassettes);
        let index: std::collections::HashSet<_> = found.iter().copied().collect();
        let wanted = expected(&rows);
        prop_assert!(wanted.iter().all(|e| index.contains(e)));
        prop_assert_eq!(t.totals().events, wanted.len() as u64);
        let overlapped = rows.iter().filter(|r| r.overlap != Overlap::None).count();
        prop_assert!(found.len() - wanted.len() <= overlapped);
        prop_assert!(packets.iter().all(|p| p.len() == 32 + 8 * readouts));
    }
}
