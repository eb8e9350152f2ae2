//! Tests of `gdgem` traffic with a small independent decoder, written from the format document.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use super::super::made::{Cause, Made, Overlap};
use super::*;
use proptest::prelude::*;

/// A hit: time in ns, sector, plane, strip of the whole detector, amplitude.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Hit {
    time: f64,
    sector: u64,
    plane: u64,
    strip: u64,
    adc: u32,
}

/// (FEC, VMM) to (detector, plane, strip by channel).
type Map = HashMap<(u64, u64), (u64, u64, Vec<u64>)>;

fn map() -> Map {
    let made: serde_json::Value = serde_json::from_str(&SimulatedGdGem::configuration()).unwrap();
    let entries = made["vmm_geometry"].as_array().unwrap().iter();
    entries
        .map(|e| {
            let n = |key: &str| e[key].as_u64().unwrap();
            let strips = e["id0"].as_array().unwrap().iter().map(|s| s.as_u64().unwrap()).collect();
            ((n("fec"), n("vmm")), (n("detector"), n("plane"), strips))
        })
        .collect()
}

/// Reads frames one after the other.
#[derive(Default)]
struct Decoder {
    map: Map,
    markers: HashMap<(u64, u64), u64>,
    counters: HashMap<u64, u32>,
    refused: BTreeMap<&'static str, u64>,
    hits: Vec<Hit>,
    words: u64,
    behind: u64,
}

impl Decoder {
    fn new() -> Decoder {
        Decoder { map: map(), ..Decoder::default() }
    }

    fn refuse(&mut self, why: &'static str) {
        *self.refused.entry(why).or_default() += 1;
    }

    fn frame(&mut self, p: &[u8]) {
        let u =
            |at: usize, n: usize| p[at..at + n].iter().fold(0u64, |v, &b| v << 8 | u64::from(b));
        let fec = u(7, 1) >> 4;
        if &p[4..7] != b"VM3" || fec == 0 {
            return self.refuse("frame");
        }
        assert_eq!((p.len() - 16) % 6, 0);
        let counter = u(0, 4) as u32;
        let next = self.counters.insert(fec, counter.wrapping_add(1));
        assert_eq!(next.unwrap_or(counter), counter, "no frame of FEC {fec} is missing");
        for at in (16..p.len()).step_by(6) {
            self.words += 1;
            self.word(fec, u(at, 4), u(at + 4, 2));
        }
    }

    fn word(&mut self, fec: u64, d1: u64, d2: u64) {
        if d2 >> 15 == 0 {
            let (vmm, time) = (d2 >> 10 & 31, d1 << 10 | d2 & 1023);
            if vmm > 15 {
                return self.refuse("marker");
            }
            let stored = self.markers.insert((fec, vmm), time).unwrap_or(0);
            assert!(time >= stored && time % 65_536 == 0);
            return;
        }
        let (offset, vmm, adc) = (d1 >> 27, d1 >> 22 & 31, d1 >> 12 & 1023);
        let mut bcid = d1 & 4095;
        for shift in [8, 4, 2, 1] {
            bcid ^= bcid >> shift;
        }
        let offset = match offset {
            _ if vmm > 15 => return self.refuse("VMM"),
            0..=15 => offset as f64,
            31 => -1.0,
            16 => return self.refuse("latency"),
            _ => return self.refuse("offset"),
        };
        self.behind += u64::from(offset < 0.0);
        let marker = self.markers[&(fec, vmm)] as f64;
        let tdc = (d2 & 255) as f64;
        let time =
            (marker + 4096.0 * offset + bcid as f64) * 25.0 + 1.5 * 25.0 - tdc * 60.0 / 255.0;
        let (sector, plane, strips) = &self.map[&(fec, vmm)];
        let strip = strips[(d2 >> 8 & 63) as usize];
        let (sector, plane) = (*sector, *plane);
        self.hits.push(Hit { time, sector, plane, strip, adc: adc as u32 });
    }

    /// Hits of each sector, divided by gaps of 250 ns.
    fn groups(&self) -> Vec<Vec<Hit>> {
        let mut hits = self.hits.clone();
        hits.sort_by(|a, b| (a.sector, a.time).partial_cmp(&(b.sector, b.time)).unwrap());
        let near = |a: &Hit, b: &Hit| a.sector == b.sector && b.time - a.time <= 250.0;
        hits.chunk_by(near).map(<[Hit]>::to_vec).collect()
    }
}

fn small(rate: f64, noise: &str) -> GdGemSetup {
    GdGemSetup {
        neutrons_per_s: rate,
        noise: noise.parse().unwrap(),
        seed: 5,
        prepared_bytes: 1 << 20,
        ..GdGemSetup::default()
    }
}

/// One turn and `more` packets, decoded, and the rows of truth.
fn turn(setup: &GdGemSetup, more: usize, train: usize) -> (Decoder, Vec<Made>, SimulatedGdGem) {
    let mut t = SimulatedGdGem::new(setup).unwrap();
    let rows = Arc::new(Mutex::new(Vec::new()));
    let into = rows.clone();
    assert!(t.watch(Box::new(move |row| into.lock().unwrap().push(*row))));
    let mut decoder = Decoder::new();
    let wanted = t.turn().0 as usize + more;
    let mut packets = 0;
    while packets < wanted {
        let p = t.next_train(train.min(wanted - packets), 0).unwrap();
        packets += p.packets;
        p.each().for_each(|frame| decoder.frame(frame));
    }
    let rows = std::mem::take(&mut *rows.lock().unwrap());
    (decoder, rows, t)
}

/// True if a group of hits is what a row of truth says: on both planes, from its conversion on.
fn belongs(hits: &[Hit], row: &Made) -> bool {
    let [x, y, run_x, run_y] = row.spot.unwrap().strips();
    let on = |plane: u64, at: f64, run: f64| {
        let mut own = hits.iter().filter(|h| h.plane == plane).peekable();
        own.peek().is_some()
            && own.all(|h| {
                let s = h.strip as f64;
                s >= at.min(at + run) - 3.5 && s <= at.max(at + run) + 3.5
            })
    };
    let time = row.time as f64;
    on(0, x, run_x)
        && on(1, y, run_y)
        && hits.iter().all(|h| h.sector == u64::from(row.module))
        && hits.iter().all(|h| h.time >= time - 1.0 && h.time <= time + 470.0)
}

#[test]
fn every_neutron_is_one_group_of_hits_on_both_planes_and_nothing_else_is() {
    for (rate, more) in [(1e3, 0), (100e3, 30), (1e6, 100), (1e7, 100)] {
        let (decoder, rows, t) = turn(&small(rate, "none"), more, 50);
        let groups = decoder.groups();
        let mut sorted = rows.clone();
        sorted.sort_by_key(|r| (r.module, r.time));
        // At the end a neutron may have been sent in one plane only.
        let whole = |g: &&Vec<Hit>| (0..2).all(|plane| g.iter().any(|h| h.plane == plane));
        let half = groups.iter().filter(|g| !whole(g)).count();
        let groups: Vec<_> = groups.iter().filter(whole).collect();
        assert_eq!(groups.len(), rows.len(), "{rate}");
        assert!(more > 0 || half == 0, "{rate}: {half}");
        assert!(groups.iter().zip(&sorted).all(|(g, row)| belongs(g, row)), "{rate}");
        assert!(rows.iter().all(|r| r.kind == Cause::Neutron && r.expected()));
        assert_eq!(t.totals().events, rows.len() as u64);
        let mut counts = vec![0; 1280 * 1280];
        rows.iter().for_each(|r| counts[r.pixel as usize - 1] += 1);
        assert_eq!(t.truth(), Some(counts));
        assert_eq!(decoder.words, t.totals().packets * 1492);
        assert!(decoder.refused.is_empty());
    }
}

#[test]
fn amplitudes_of_both_planes_agree_and_tracks_are_up_to_twenty_hits() {
    let (decoder, ..) = turn(&small(1e6, "none"), 0, 50);
    let groups = decoder.groups();
    let mut most = 0;
    for g in &groups {
        let of = |plane| g.iter().filter(move |h| h.plane == plane);
        let sum = |plane| of(plane).map(|h| f64::from(h.adc)).sum::<f64>();
        assert!((0.5..2.0).contains(&(sum(0) / sum(1))), "{g:?}");
        most = most.max(of(0).count()).max(of(1).count());
    }
    let mean = decoder.hits.len() as f64 / groups.len() as f64;
    assert!((14..=20).contains(&most), "{most}");
    assert!((mean / MEAN_HITS - 1.0).abs() < 0.1, "{mean}");
}

#[test]
fn some_hits_are_read_behind_the_marker_that_follows_them() {
    let (decoder, ..) = turn(&small(1e6, "pileup=random"), 0, 50);
    let share = decoder.behind as f64 / decoder.hits.len() as f64;
    // 125 ns of latency on average in 1638 µs: 0.00008.
    assert!((0.00002..0.0003).contains(&share), "{share}");
}

#[test]
fn fixed_tracks_have_ten_hits_in_each_plane() {
    let setup = GdGemSetup { hits: Some(10), ..small(1e6, "none") };
    let (decoder, rows, _) = turn(&setup, 0, 50);
    let groups = decoder.groups();
    assert_eq!(groups.len(), rows.len());
    let of = |g: &[Hit], plane| g.iter().filter(|h| h.plane == plane).count();
    assert!(groups.iter().all(|g| (of(g, 0), of(g, 1)) == (10, 10)));
}

#[test]
fn the_rate_decides_the_packets_per_second_and_above_1_mhz_only_the_speed() {
    let t = |rate| SimulatedGdGem::new(&small(rate, "none")).unwrap();
    let (slow, fast) = (t(2e6), t(20e6));
    assert_eq!(slow.turn(), fast.turn());
    assert!((fast.packets_per_s() / slow.packets_per_s() - 10.0).abs() < 1e-9);
    for rate in [1.0, 100.0, 10e3, 1e6, 5e6] {
        let t = t(rate);
        let reached = t.packets_per_s() * t.turn().1 as f64 / t.turn().0 as f64;
        // In real time a turn holds a whole number of neutrons, and the clock is exact instead.
        let tolerance = if rate > REAL_TIME_HZ { 1e-9 } else { 1.0 / t.turn().1 as f64 };
        assert!((reached / rate - 1.0).abs() < tolerance, "{rate}: {reached}");
    }
    // Piled up they come as fast as the clock.
    let piled = SimulatedGdGem::new(&small(5e6, "pileup=random")).unwrap();
    assert!((piled.speed - 1.0).abs() < 0.01, "{}", piled.speed);
}

#[test]
fn noise_comes_at_its_share_and_leaves_clean_neutrons_whole() {
    let noise = "dark=5%,bad=3%,coincidence=2%,packet=4%,dead=1%,pileup=random";
    let (decoder, rows, t) = turn(&small(200e3, noise), 0, 64);
    let count = |kind| rows.iter().filter(|r| r.kind == kind).count() as f64;
    let neutrons = count(Cause::Neutron);
    for (kind, share) in [(Cause::Dark, 0.05), (Cause::Bad, 0.03), (Cause::Coincidence, 0.02)] {
        assert!((count(kind) / neutrons - share).abs() < 1e-3, "{kind:?}");
    }
    let expected: Vec<&Made> = rows.iter().filter(|r| r.expected()).collect();
    assert_eq!(t.totals().events, expected.len() as u64);
    let clean = expected.iter().filter(|r| r.kind == Cause::Neutron).count() as f64;
    assert!((0.4..0.9).contains(&(clean / neutrons)), "{clean} of {neutrons}");
    let groups = decoder.groups();
    for row in expected.iter().filter(|r| r.kind == Cause::Neutron) {
        let near = |g: &&Vec<Hit>| {
            g[0].sector == u64::from(row.module) && (g[0].time - row.time as f64).abs() < 470.0
        };
        assert!(groups.iter().filter(near).any(|g| belongs(g, row)), "{row:?}");
    }
    assert_eq!(decoder.refused["frame"] as f64, count(Cause::Packet));
    let words = ["VMM", "latency", "offset", "marker"].map(|why| decoder.refused[why] as f64);
    assert_eq!(words.iter().sum::<f64>(), count(Cause::Bad));
}

#[test]
fn forced_pileup_gives_the_share_of_seconds() {
    let (_, rows, _) = turn(&small(10e3, "pileup=10%"), 0, 64);
    let all = rows.len() as f64;
    let overlap = rows.iter().filter(|r| r.overlap == Overlap::Neutron).count() as f64;
    assert!((overlap / all - 0.2 / 1.1).abs() < 0.02, "{overlap} of {all}");
}

#[test]
fn the_same_seed_gives_the_same_bytes_whatever_the_trains() {
    let bytes = |seed, train: usize| {
        let setup = GdGemSetup { seed, ..small(500e3, "dark=1%,bad=1%,packet=1%,dead=1%") };
        let mut t = SimulatedGdGem::new(&setup).unwrap();
        let mut all = vec![];
        while t.totals().packets < 400 {
            let left = 400 - t.totals().packets as usize;
            all.extend_from_slice(t.next_train(train.min(left), 0).unwrap().bytes);
        }
        all
    };
    assert!(bytes(1, 50) == bytes(1, 7));
    assert!(bytes(1, 50) != bytes(2, 50));
}

#[test]
fn the_count_limit_ends_the_stream_exactly() {
    let setup = GdGemSetup { count: Some(101), ..small(100e3, "none") };
    let mut t = SimulatedGdGem::new(&setup).unwrap();
    let mut n = 0;
    while let Some(p) = t.next_train(10, 0) {
        n += p.packets;
    }
    assert_eq!((n, t.totals().packets), (101, 101));
    assert!(t.next_train(0, 0).is_none() && t.end().is_empty());
}

#[test]
fn impossible_setups_are_refused_by_name() {
    let new = |change: fn(&mut GdGemSetup)| {
        let mut setup = GdGemSetup { prepared_bytes: 1 << 16, ..GdGemSetup::default() };
        change(&mut setup);
        SimulatedGdGem::new(&setup).map(|_| ())
    };
    assert_eq!(new(|s| s.neutrons_per_s = 0.5), Err(TrafficError::rate(0.5)));
    assert!(matches!(
        new(|s| s.neutrons_per_s = f64::NAN),
        Err(TrafficError::Value { key: "rate", .. })
    ));
    assert_eq!(new(|s| s.words = Some(49)), Err(words_refused(49)));
    assert_eq!(new(|s| s.words = Some(1493)), Err(words_refused(1493)));
    assert_eq!(new(|s| s.hits = Some(0)), Err(hits_refused(0)));
    assert_eq!(new(|s| s.hits = Some(21)), Err(hits_refused(21)));
    assert_eq!(new(|s| s.words = Some(50)), Ok(()));
    assert_eq!(new(|s| s.neutrons_per_s = 1e11), Ok(()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_setup_is_decoded_to_its_truth(
        rate in 1.0..3e6, seed in any::<u64>(), words in 50usize..1493, fixed in proptest::option::of(1usize..21),
        more in 0usize..40,
    ) {
        let setup = GdGemSetup {
            neutrons_per_s: rate, seed, words: Some(words), hits: fixed, prepared_bytes: 1 << 17,
            ..GdGemSetup::default()
        };
        let (decoder, rows, t) = turn(&setup, more, 33);
        let groups = decoder.groups();
        let whole = |g: &&Vec<Hit>| (0..2).all(|plane| g.iter().any(|h| h.plane == plane));
        let groups: Vec<_> = groups.iter().filter(whole).collect();
        prop_assert_eq!(groups.len(), rows.len());
        prop_assert_eq!(t.totals().events, rows.len() as u64);
        let mut sorted = rows;
        sorted.sort_by_key(|r| (r.module, r.time));
        prop_assert!(groups.iter().zip(&sorted).all(|(g, row)| belongs(g, row)));
    }
}
