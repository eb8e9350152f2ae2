//! Pads and triggered firmware of Gd-GEM: clusters against the words of the format document, times against its formula; and what
//! a page shows of pads and of one plane.
//!
//! Source: `docs/formats/gdgem.md` sections 13 and 14.6.

use std::sync::{Arc, Mutex};

use crate::gdgem_made::{build, capture, detector, frame, hit, marker, payload, run, setup, text};
use fullcount_core::batch::{Batch, Origin};
use fullcount_core::products::{Products, Want};
use fullcount_detect::detector::{Detector, Setup, Threads};
use fullcount_detect::gdgem::{ClusterWatch, PadCluster, PlaneCluster, Unwatched};
use fullcount_detect::hits::FineHit;
use proptest::prelude::*;
use serde_json::Value;

#[derive(Clone, Default)]
struct Pads(Arc<Mutex<Vec<PadCluster>>>);

impl ClusterWatch for Pads {
    fn pads(&mut self, _: u32, _: f64, cluster: &PadCluster) {
        self.0.lock().unwrap().push(*cluster);
    }
}

/// A hit of the reference: time, x, y, amplitude, trigger.
type Hit = (f64, u16, u16, u16, u8);

/// What one run of the reference is told.
#[derive(Debug, Clone, Copy)]
struct Rules {
    gap: f64,
    span: f64,
    missing: (i32, i32),
    least: usize,
    largest: bool,
}

/// Clusters of section 14.6, word for word: members, in the order of joining.
fn reference(hits: &[Hit], rules: &Rules) -> Vec<Vec<Hit>> {
    let mut sorted = hits.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut clusters = Vec::new();
    for run in sorted.chunk_by(|a, b| b.0 - a.0 <= rules.gap) {
        let mut left = run.to_vec();
        while !left.is_empty() {
            let mut seed = left.len() - 1;
            if rules.largest {
                let most = left.iter().map(|h| h.3).max().unwrap();
                seed = left.iter().position(|h| h.3 == most).unwrap();
            }
            let seed = left.remove(seed);
            let mut members = vec![seed];
            let (mut low, mut high) = (seed.0, seed.0);
            let mut at = 0;
            while at < members.len() {
                let member = members[at];
                at += 1;
                let mut i = 0;
                while i < left.len() {
                    let h = left[i];
                    let apart = |a: u16, b: u16| (i32::from(a) - i32::from(b)).abs();
                    let near = apart(h.1, member.1) - 1 <= rules.missing.0
                        && apart(h.2, member.2) - 1 <= rules.missing.1;
                    let of_seed = apart(h.1, seed.1) <= 1 && apart(h.2, seed.2) <= 1;
                    let in_time = h.0 - low <= rules.span && high - h.0 <= rules.span;
                    if h.4 == member.4 && in_time && near && (!rules.largest || of_seed) {
                        (low, high) = (low.min(h.0), high.max(h.0));
                        members.push(left.remove(i));
                    } else {
                        i += 1;
                    }
                }
            }
            if members.len() >= rules.least {
                clusters.push(members);
            }
        }
    }
    clusters
}

/// Sizes in x and y, hits and amplitude; then position and time.
type Values = ((u32, u32, u32, u64), [f64; 3]);

fn values(members: &[Hit]) -> Values {
    let extent = |of: fn(&Hit) -> u16| {
        let (least, most) = (members.iter().map(of).min(), members.iter().map(of).max());
        u32::from(most.unwrap() - least.unwrap()) + 1
    };
    let adc: u64 = members.iter().map(|h| u64::from(h.3)).sum();
    let mean = |of: fn(&Hit) -> f64| {
        members.iter().map(|h| f64::from(h.3) * of(h)).sum::<f64>() / adc as f64
    };
    let sizes = (extent(|h| h.1), extent(|h| h.2), members.len() as u32, adc);
    (sizes, [mean(|h| f64::from(h.1)), mean(|h| f64::from(h.2)), mean(|h| h.0)])
}

fn row(h: &Hit) -> FineHit {
    let time = FineHit::key(h.0);
    FineHit { time, coordinate: h.1, second: h.2, weight: h.3, lane: 0, flags: 1 | h.4 << 1 }
}

fn pads(rules: &Rules) -> Setup {
    let algo = if rules.largest { 10 } else { 0 };
    let (gap, span, (mp0, mp1), cs) = (rules.gap, rules.span, rules.missing, rules.least);
    let options = format!(
        "dt = {gap:?}\nspc = {span:?}\nmp0 = {mp0}\nmp1 = {mp1}\ncs = {cs}\nalgo = {algo}\n\
         geometry_x = 64\ngeometry_y = 64"
    );
    setup("vmm/example_geometry_pad.json", &options)
}

fn seen(setup: &Setup, rows: Vec<FineHit>) -> Vec<Values> {
    let clusters = Pads::default();
    build(setup, rows, clusters.clone());
    let all = clusters.0.lock().unwrap();
    let values = |c: &PadCluster| ((c.size0, c.size1, c.size2, c.adc), [c.pos0, c.pos1, c.time]);
    all.iter().map(values).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Any hits of pads give the clusters of the format's words, in their order, whatever the borders.
    #[test]
    fn pads_are_clustered_as_the_format_says(
        hits in proptest::collection::vec((0u32..600, 0u16..9, 0u16..9, 1u16..40, 0u8..2), 0..120),
        gap in 0u32..30, span in 0u32..60, mp0 in 0i32..2, mp1 in 0i32..2, least in 1usize..4,
        largest in any::<bool>(), stretch in 1u32..6, mut borders in proptest::collection::vec(0u32..3600, 0..5),
    ) {
        let gaps = (f64::from(gap), f64::from(span));
        let rules = Rules { gap: gaps.0, span: gaps.1, missing: (mp0, mp1), least, largest };
        let hits: Vec<Hit> =
            hits.iter().map(|h| (f64::from(h.0 * stretch), h.1, h.2, h.3, h.4)).collect();
        // A border comes where no later hit lies before it.
        let mut sorted = hits.clone();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut rows: Vec<FineHit> = Vec::new();
        borders.sort_unstable();
        let mut borders = borders.into_iter().map(f64::from).peekable();
        for h in &sorted {
            while let Some(ns) = borders.next_if(|&ns| ns <= h.0) {
                let time = FineHit::key(ns);
                rows.push(FineHit { time, lane: FineHit::BORDER, ..FineHit::default() });
            }
            rows.push(row(h));
        }
        let wanted: Vec<_> = reference(&sorted, &rules).iter().map(|m| values(m)).collect();
        let seen = seen(&pads(&rules), rows);
        prop_assert_eq!(seen.len(), wanted.len());
        for (s, w) in seen.iter().zip(&wanted) {
            prop_assert_eq!(s.0, w.0);
            prop_assert!(s.1.iter().zip(&w.1).all(|(a, b)| (a - b).abs() < 1e-9), "{:?} {:?}", s, w);
        }
    }
}

#[test]
fn the_frame_of_pads_gives_every_cluster_once() {
    for algo in [0, 10] {
        let setup = setup("vmm/example_geometry_pad.json", &format!("algo = {algo}"));
        let clusters = Pads::default();
        let ran = run(&setup, &[payload("pad_frame_0.bin")], 1, clusters.clone());
        let all = clusters.0.lock().unwrap();
        assert!(!all.is_empty());
        let hits: u32 = all.iter().map(|c| c.size2).sum();
        assert_eq!(u64::from(hits), ran.counters.get("cluster.used"), "each hit once");
        assert_eq!(ran.counters.get("events.candidates"), all.len() as u64);
        assert!(all.iter().enumerate().all(|(n, c)| c.number == n as u64 + 1));
    }
}

/// What a page is given that shows everything.
fn shown(setup: &Setup, packets: &[Vec<u8>], threads: usize) -> Products {
    let detector = detector(setup);
    let want = Want { hits: true, cluster_sizes: true, tracks: true, ..Want::default() };
    let mut decoder = detector.decoder(want, &Threads::of(threads)).expect("threads");
    let mut products = Products { want, ..Products::default() };
    for packet in packets {
        decoder.decode(
            Some(&Batch::from_datagrams([(&packet[..], Origin::NONE)])),
            None,
            &mut products,
        );
    }
    decoder.finish(&mut products);
    products
}

/// Plots that the page offers, in their order.
fn offered(setup: &Setup) -> Vec<String> {
    detector(setup).plots().into_iter().map(|plot| plot.id).collect()
}

const BEFORE: [&str; 4] = ["image", "tof", "x", "y"];
const BEHIND: [&str; 4] = ["adc-vmm", "adc-channel", "channels", "adc"];

#[test]
fn the_page_shows_clusters_and_amplitudes_of_pads() {
    let setup = setup("vmm/example_geometry_pad.json", "");
    assert_eq!(offered(&setup), [&BEFORE[..], &["size-pads", "span-pads"], &BEHIND].concat());
    let packets = [payload("pad_frame_0.bin")];
    let clusters = Pads::default();
    let ran = run(&setup, &packets, 1, clusters.clone());
    let clusters = clusters.0.lock().unwrap();
    let (plain, seen) = (shown(&setup, &packets, 1), shown(&setup, &packets, 1).cluster_sizes);
    assert_eq!(seen.plane, vec![3; clusters.len()]);
    for (n, cluster) in clusters.iter().enumerate() {
        let span = (cluster.last - cluster.first) as u32;
        let wanted = (cluster.size2 as u16, span, cluster.adc as u32);
        assert_eq!((seen.size[n], seen.span_ns[n], seen.adc[n]), wanted, "cluster {n}");
    }
    assert!(seen.span_ns.iter().any(|&span| span > 0), "several hits");
    // Each accepted hit, with the number of its channel: the geometry has one VMM, whose channels are the pads column by column.
    let hits: Vec<_> = ran.rows.iter().filter(|row| row.lane < FineHit::BORDER).collect();
    let channel = |hit: &&FineHit| u32::from(8 * hit.coordinate + hit.second) + 1;
    assert_eq!(plain.hits.pixel, hits.iter().map(channel).collect::<Vec<_>>());
    assert_eq!(plain.hits.adc, hits.iter().map(|hit| hit.weight).collect::<Vec<_>>());
    for threads in 2..=3 {
        let other = shown(&setup, &packets, threads);
        assert!(other.hits == plain.hits && other.cluster_sizes == seen, "{threads} threads");
    }
}

/// Plane, multiplicity, time span and amplitude of a cluster.
type Shape = (u16, u16, u32, u32);

#[derive(Clone, Default)]
struct Planes(Arc<Mutex<Vec<Shape>>>);

impl ClusterWatch for Planes {
    fn plane(&mut self, _: u32, plane: u8, c: &PlaneCluster) {
        let span = (c.last - c.first) as u32;
        self.0.lock().unwrap().push((plane.into(), c.size as u16, span, c.adc as u32));
    }
}

#[test]
fn the_page_shows_clusters_and_amplitudes_of_one_plane() {
    let whole: Value = serde_json::from_str(&text("vmm/example_geometry_xyu.json")).unwrap();
    let packets = capture("example_xyu.pcapng");
    for (plane, name) in ["x", "y", "u"].into_iter().enumerate() {
        let mut geometry = whole.clone();
        let entries = geometry["vmm_geometry"].as_array_mut().unwrap();
        entries.retain(|entry| entry["plane"] == plane);
        let vmms = entries.len() as u32;
        let setup = Setup { geometry: geometry.to_string(), ..Setup::default() };
        let names = [format!("size-{name}"), format!("span-{name}")];
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(offered(&setup), [&BEFORE[..], &names, &BEHIND].concat());
        let clusters = Planes::default();
        run(&setup, &packets, 1, clusters.clone());
        let clusters = clusters.0.lock().unwrap();
        let plain = shown(&setup, &packets, 1);
        let sizes = &plain.cluster_sizes;
        let seen = (0..sizes.plane.len())
            .map(|n| (sizes.plane[n], sizes.size[n], sizes.span_ns[n], sizes.adc[n]));
        assert!(clusters.len() > 1000, "{name}: {} clusters", clusters.len());
        assert!(seen.eq(clusters.iter().copied()), "{name}: other clusters");
        assert!(plain.hits.pixel.iter().all(|channel| (1..=64 * vmms).contains(channel)));
        assert!(!plain.hits.pixel.is_empty() && plain.tracks.first.is_empty());
        for threads in 2..=3 {
            let other = shown(&setup, &packets, threads);
            assert!(other.hits == plain.hits, "{name}: other hits on {threads} threads");
            assert!(other.cluster_sizes == *sizes, "{name}: other clusters, {threads} threads");
        }
    }
}

/// A marker of triggered firmware: the absolute time of a trigger of `vmm`.
fn absolute(vmm: u8, time: u64) -> [u8; 6] {
    marker(vmm + 16, time)
}

/// The end of a trigger of `vmm`.
fn ends(vmm: u8, counter: u16) -> [u8; 6] {
    let high = (0xf000_0000u32 | u32::from(counter >> 10)).to_be_bytes();
    let low = (u16::from(vmm + 16) << 10 | counter & 0x3ff).to_be_bytes();
    [high[0], high[1], high[2], high[3], low[0], low[1]]
}

#[test]
fn times_of_triggers_keep_all_42_bits() {
    let setup = setup("vmm/example_geometry_trigger.json", "df = 'TRG'\nbc = 40\ntac = 60");
    let (fec, vmm) = (2, 2);
    let (trigger, relative) = ((5u64 << 20) * 4096 + 299, 300u64);
    let (bcid, tdc, offset) = (310, 51, 1);
    let words = [
        // A hit before any trigger has no time; a relative time above 4095 is none.
        hit(vmm, 3, 1, bcid, tdc, 200),
        marker(vmm, 4096),
        marker(vmm, relative),
        absolute(vmm, trigger),
        hit(vmm, 3, offset, bcid, tdc, 200),
        ends(vmm, 7),
        hit(vmm, 4, offset, bcid, tdc, 210),
    ];
    let ran = run(&setup, &[frame(fec, 0, &words)], 1, Unwatched);
    let counters = ["hits.no_marker", "readouts.bad_marker", "readouts.markers", "hits.good"];
    assert_eq!(counters.map(|c| ran.counters.get(c)), [1, 1, 1, 2]);
    let hits: Vec<_> = ran.rows.iter().filter(|r| r.lane < FineHit::BORDER).collect();
    let clocks = trigger + 4096 * u64::from(offset) - relative + u64::from(bcid);
    let wanted = clocks as f64 * 25.0 + 1.5 * 25.0 - f64::from(tdc) * 60.0 / 255.0;
    for hit in &hits {
        assert!((hit.ns() - wanted).abs() < 1e-2, "{} is not {wanted}", hit.ns());
    }
    // Event counter of a hit: the last one of its VMM + 1, 0 if none.
    assert_eq!([hits[0].flags >> 1, hits[1].flags >> 1], [0, 8]);
}

/// Rows of frames by the inspector, and reasons by row.
fn inspected(setup: &Setup, frames: &[Vec<u8>]) -> (Vec<Vec<i64>>, Vec<(usize, String)>) {
    let mut inspector = detector(setup).inspector();
    let (mut rows, mut refused) = (Vec::new(), Vec::new());
    for frame in frames {
        let seen = inspector.inspect(frame, Origin::NONE);
        refused.extend(seen.refused.into_iter().map(|(row, reason)| (rows.len() + row, reason)));
        rows.extend(seen.rows);
    }
    (rows, refused)
}

#[test]
fn a_relative_time_that_is_ignored_is_no_marker_of_later_hits() {
    let setup = setup("vmm/example_geometry_trigger.json", "df = 'TRG'");
    let words = [
        marker(2, 300),
        absolute(2, 5000),
        hit(2, 3, 1, 310, 51, 200),
        marker(2, 4096),
        hit(2, 3, 1, 310, 51, 200),
        marker(2, 4095),
        hit(2, 3, 1, 310, 51, 200),
    ];
    let (rows, refused) = inspected(&setup, &[frame(2, 0, &words)]);
    assert_eq!([2, 4, 6].map(|at| rows[at][9]), [300, 300, 4095]);
    assert_eq!(refused, [(3, "readouts.bad_marker".to_owned())]);
}

#[test]
fn inspect_shows_rows_of_pads_and_none_of_strips() {
    let pads = setup("vmm/example_geometry_pad.json", "");
    let strips = setup("vmm/example_geometry.json", "");
    let rows = inspected(&pads, &[payload("pad_frame_0.bin")]).0;
    let hits: Vec<_> = rows.iter().filter(|row| row[0] == 1 && row[12] >= 0).collect();
    // Channel 8 n + m is the pad of column n and row m.
    assert!(!hits.is_empty() && hits.iter().all(|row| 8 * row[14] + row[15] == row[4]));
    let rows = inspected(&strips, &[frame(1, 0, &[hit(0, 5, 0, 0, 0, 200)])]).0;
    assert_eq!(rows[0][12..], [1, 1, rows[0][14], -1]);
}

/// Inspector and reader agree on each word, in both chains, both conventions and triggered firmware.
#[test]
fn refused_words_are_those_of_the_reader() {
    let any = |vmm: u8| {
        let offsets = (0..32).map(move |offset| hit(vmm, 3, offset, 310, 51, 200));
        [marker(vmm, 0), hit(vmm, 3, 2, 310, 51, 200), marker(vmm, 4096)].into_iter().chain(offsets)
    };
    let unheard = (0..32).map(|vmm| hit(vmm, 3, 0, 310, 51, 200));
    let odd: Vec<_> = unheard.chain([absolute(2, 5000)]).chain((0..32).flat_map(any)).collect();
    let odd = vec![frame(2, 0, &odd)];
    let example = capture("example.pcapng");
    let cases = [
        ("vmm/example_geometry.json", "", &odd),
        ("vmm/example_geometry.json", "offsets = '0..31'", &odd),
        ("config/vmm3.json", "", &odd),
        ("config/vmm3.json", "offsets = '-1..15'", &odd),
        ("vmm/example_geometry_trigger.json", "df = 'TRG'", &odd),
        (
            "vmm/example_geometry_trigger.json",
            "df = 'TRG'",
            &vec![payload("triggered_frame_0.bin")],
        ),
        ("vmm/example_geometry_pad.json", "", &vec![payload("pad_frame_0.bin")]),
        ("vmm/example_geometry.json", "", &example),
    ];
    for (file, options, frames) in cases {
        let setup = setup(file, options);
        let counters = run(&setup, frames, 1, Unwatched).counters;
        let refused = inspected(&setup, frames).1;
        for reason in [
            "readouts.bad_marker",
            "hits.bad_vmm",
            "hits.latency_violation",
            "hits.bad_offset",
            "hits.no_marker",
        ] {
            let seen = refused.iter().filter(|(_, r)| r == reason).count() as u64;
            assert_eq!(seen, counters.get(reason), "{file} {options}: {reason}");
        }
    }
}

#[test]
fn a_time_zero_is_subtracted_and_run_takes_the_first() {
    let words = |time: u64| [marker(0, time), hit(0, 5, 2, 100, 0, 200), hit(0, 6, 3, 100, 0, 200)];
    let times = |options: &str| {
        let setup = setup("vmm/example_geometry.json", options);
        let ran = run(&setup, &[frame(1, 0, &words(65_536))], 1, Unwatched);
        let hits = ran.rows.iter().filter(|r| r.lane < FineHit::BORDER);
        hits.map(FineHit::ns).collect::<Vec<_>>()
    };
    let plain = times("");
    assert_eq!(plain.len(), 2);
    assert_eq!(times("t0 = [[1, 0, 1000.5]]"), [plain[0] - 1000.5, plain[1] - 1000.5]);
    assert_eq!(times("t0 = [[1, 1, 1000.5]]"), plain, "of another VMM");
    // "run": the first time of marker and offset seen.
    let first = 65_536.0 * 25.0 + 2.0 * 4096.0 * 25.0;
    assert_eq!(times("t0 = [[1, 0, 'run']]"), [plain[0] - first, plain[1] - first]);
}

/// Two VMMs whose first hits differ stay as far apart as they are without `t0`, whichever of them is listed.
#[test]
fn run_is_one_time_for_all_vmms() {
    let frames = [
        frame(
            1,
            0,
            &[marker(0, 65_536), marker(1, 65_536), marker(9, 65_536), hit(9, 0, 17, 0, 0, 200)],
        ),
        frame(
            1,
            1,
            &[hit(3, 1, 0, 0, 0, 200), hit(0, 5, 2, 100, 0, 200), hit(1, 6, 7, 300, 9, 200)],
        ),
        frame(1, 2, &[marker(1, 131_072), hit(0, 7, 9, 100, 0, 200), hit(1, 8, 1, 55, 9, 200)]),
    ];
    let rows = |options: &str, per_batch: usize| {
        let setup = setup("vmm/example_geometry.json", options);
        run(&setup, &frames, per_batch, Unwatched).rows
    };
    let times = |options: &str| {
        let rows = rows(options, 1);
        let hits = rows.iter().filter(|r| r.lane < FineHit::BORDER);
        hits.map(FineHit::ns).collect::<Vec<_>>()
    };
    let plain = times("");
    assert_eq!(plain.len(), 4);
    // Marker and offset of the first hit with a time: VMM 0, offset 2. Those of VMM 9 and 3 have none.
    let first = 65_536.0 * 25.0 + 2.0 * 4096.0 * 25.0;
    let all = [true; 4];
    let [zero, one] = [[true, false, true, false], [false, true, false, true]];
    for (options, listed) in [
        ("t0 = [[1, 0, 'run'], [1, 1, 'run']]", all),
        ("t0 = [[1, 0, 'run']]", zero),
        ("t0 = [[1, 1, 'run']]", one),
    ] {
        let wanted = plain.iter().zip(listed).map(|(t, run)| if run { t - first } else { *t });
        assert_eq!(times(options), wanted.collect::<Vec<_>>(), "{options}");
        assert_eq!(rows(options, 1), rows(options, 3), "{options}");
    }
}

/// A VMM that is marked `run` promises as much as any other once the run has begun, though it has no hit itself.
#[test]
fn a_vmm_without_hits_does_not_hold_the_border_back() {
    let entry = |vmm: u8| {
        let strips: Vec<u16> = (0..64).map(|n| 64 * u16::from(vmm) + n).collect();
        format!("{{\"detector\":0,\"plane\":{vmm},\"fec\":1,\"vmm\":{vmm},\"id0\":{strips:?}}}")
    };
    let geometry = format!("{{\"vmm_geometry\":[{},{}]}}", entry(0), entry(1));
    let options = "t0 = [[1, 0, 'run'], [1, 1, 'run']]\nlate_frames = 0".to_owned();
    let setup = Setup { geometry, options, ..Setup::default() };
    let step = 65_536;
    let frames = [
        frame(1, 0, &[marker(0, step), marker(1, step)]),
        frame(1, 1, &[hit(0, 5, 0, 100, 0, 200)]),
        frame(1, 2, &[marker(0, 2 * step), marker(1, 2 * step)]),
    ];
    let rows = run(&setup, &frames, 1, Unwatched).rows;
    let borders: Vec<_> =
        rows.iter().filter(|r| r.lane == FineHit::BORDER).map(|r| r.ns()).collect();
    // Less the offset -1, and one and a half clocks less the longest TDC; the first time of the run is that of the first marker.
    let behind = |ns: f64| ns - 4096.0 * 25.0 - (60.0 - 1.5 * 25.0);
    assert_eq!(borders, [behind(0.0), behind(step as f64 * 25.0)]);
}

/// Section 4.2: offset 31 is -1 in the offline chain and 31 in the online one, unless it is said.
#[test]
fn each_chain_has_its_convention_of_offsets() {
    let frames =
        [frame(1, 0, &[marker(0, 65_536), hit(0, 5, 0, 0, 0, 200), hit(0, 5, 31, 0, 0, 200)])];
    // Periods of the offset between the two; the clock of the online file has 20 MHz.
    let later = |(file, clock): (&str, f64), options: &str| {
        let setup = setup(file, options);
        let rows = run(&setup, &frames, 1, Unwatched).rows;
        let hits: Vec<_> = rows.iter().filter(|r| r.lane < FineHit::BORDER).collect();
        (hits[1].ns() - hits[0].ns()) / (4096.0 * clock)
    };
    let (offline, online) = (("vmm/example_geometry.json", 25.0), ("config/vmm3.json", 50.0));
    assert_eq!((later(offline, ""), later(online, "")), (-1.0, 31.0));
    let (signed, unsigned) = ("offsets = '-1..15'", "offsets = '0..31'");
    assert_eq!((later(offline, unsigned), later(online, signed)), (31.0, -1.0));
}

#[test]
fn a_limit_of_hits_ends_the_reading() {
    let packets = capture("example_xyu.pcapng");
    let setup = setup("vmm/example_geometry_xyu.json", "n = 1000");
    let ran = run(&setup, &packets, 3, Unwatched);
    assert_eq!(ran.counters.get("readouts.data"), 1000);
    let read = ran.counters.get("readouts.count") - ran.counters.get("readouts.after_limit");
    assert_eq!(read, 1000 + ran.counters.get("readouts.markers"));
}
