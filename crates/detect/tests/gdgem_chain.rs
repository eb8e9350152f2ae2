//! Gd-GEM end to end: no batch split changes anything, hostile frames do no harm, and bounds hold.

use crate::gdgem_made;
use std::sync::{Arc, Mutex};

use crate::gdgem_made::{build, capture, detector, frame, hit, marker, run, setup};
use fullcount_core::batch::{Batch, Origin};
use fullcount_core::products::{Products, Want};
use fullcount_detect::conformance;
use fullcount_detect::detector::{Detector, Setup, Threads};
use fullcount_detect::gdgem::{ClusterWatch, GdGem, PlaneCluster, Unwatched};
use fullcount_detect::hits::FineHit;
use proptest::prelude::*;

const EXAMPLE: &str = "bc = 44.444\nccs = 3\ndt = 100\nspc = 200\ncrl = 0.2\ncru = 10";

fn frames(name: &str, n: usize) -> Vec<conformance::SamplePacket> {
    capture(name).into_iter().take(n).map(|bytes| (bytes, Origin::NONE)).collect()
}

#[test]
fn conformance_with_the_captures() {
    let example = setup("vmm/example_geometry.json", EXAMPLE);
    let report =
        conformance::check(&GdGem, &example, &frames("example.pcapng", 24), 200, 5).unwrap();
    assert!(report.events > 500, "{report:?}");
    let xyu = setup("vmm/example_geometry_xyu.json", "");
    conformance::check(&GdGem, &xyu, &frames("example_xyu.pcapng", 8), 100, 6).unwrap();
    let online = setup("config/vmm3.json", "offsets = '0..31'");
    conformance::check(&GdGem, &online, &frames("example.pcapng", 8), 100, 7).unwrap();
}

#[test]
fn what_a_page_is_shown_changes_no_event() {
    for (setup, file) in [
        (setup("vmm/example_geometry.json", EXAMPLE), "example.pcapng"),
        (setup("vmm/example_geometry_xyu.json", ""), "example_xyu.pcapng"),
    ] {
        let packets = capture(file);
        let shown = |want: Want| {
            let detector = detector(&setup);
            let mut decoder = detector.decoder(Want::default(), &Threads::of(1)).unwrap();
            let mut products = Products { want, ..Products::default() };
            for packet in &packets {
                decoder.decode(
                    Some(&Batch::from_datagrams([(&packet[..], Origin::NONE)])),
                    None,
                    &mut products,
                );
            }
            decoder.finish(&mut products);
            products
        };
        let (plain, all) = (shown(Want::default()), shown(Want::ALL));
        assert_eq!(plain.events, all.events);
        assert!(plain.hits.adc.is_empty() && plain.cluster_sizes.plane.is_empty());
        assert!(plain.tracks.first.is_empty());
        assert!(!all.hits.adc.is_empty() && !all.cluster_sizes.plane.is_empty());
        assert!(!all.tracks.first.is_empty(), "single events");
        // Both planes of each, at least two hits in each, and one of them at 0 ns.
        for hits in all.tracks.events() {
            let of = |plane| all.tracks.plane[hits.clone()].iter().filter(|&&p| p == plane).count();
            assert!(of(0) >= 2 && of(1) >= 2);
            assert!(all.tracks.later_ns[hits.clone()].contains(&0));
        }
    }
}

#[test]
fn conformance_of_pads_and_triggers() {
    let pads = [(gdgem_made::payload("pad_frame_0.bin"), Origin::NONE)];
    let setup_pads = setup("vmm/example_geometry_pad.json", "algo = 10");
    conformance::check(&GdGem, &setup_pads, &pads, 200, 8).unwrap();
    let triggered = [(gdgem_made::payload("triggered_frame_0.bin"), Origin::NONE)];
    let setup_trg = setup("vmm/example_geometry_trigger.json", "df = 'TRG'");
    conformance::check(&GdGem, &setup_trg, &triggered, 200, 9).unwrap();
}

#[test]
fn small_frames_made_by_hand() {
    let words = |time: u64| {
        [
            marker(0, time),
            marker(1, time),
            hit(0, 10, 3, 7, 50, 200),
            hit(0, 11, 3, 8, 60, 300),
            hit(1, 5, 3, 9, 1, 90),
        ]
    };
    let packets: Vec<_> = (0..40u64)
        .map(|n| {
            (frame(1 + (n % 2) as u8, (n / 2) as u32, &words(65_536 * (n / 2 + 1))), Origin::NONE)
        })
        .collect();
    let report = conformance::check(&GdGem, &Setup::default(), &packets, 3000, 11).unwrap();
    assert!(report.events > 0);
}

/// Section 14.2, hit by hit: what is asked of an amplitude, a time and a VMM, and in which order.
#[test]
fn each_hit_gets_its_verdict() {
    let unflagged = |mut word: [u8; 6]| {
        word[4] &= !0x40;
        word
    };
    let of = |tdc, adc| hit(0, 10, 3, 7, tdc, adc);
    let (good, below) = ("hits.good", "hits.bad_adc");
    let cases = [
        // Threshold, word, counter.
        (0, of(50, 200), good),
        (0, unflagged(of(50, 200)), good),
        (0, unflagged(of(50, 1)), good),
        // No amplitude: valid below threshold where none is asked for, and the time within the clock is not 0 either.
        (0, unflagged(of(50, 0)), good),
        (0, unflagged(of(0, 0)), "hits.invalid"),
        (0, of(0, 0), "hits.invalid"),
        (0, of(50, 15), "hits.invalid"),
        (0, of(50, 16), good),
        // The threshold asks for nothing where the strip itself was above its own.
        (100, of(50, 16), good),
        (100, of(50, 15), "hits.invalid"),
        (100, unflagged(of(50, 99)), below),
        (100, unflagged(of(50, 100)), good),
        (100, unflagged(of(0, 0)), "hits.invalid"),
        (100, unflagged(of(50, 0)), below),
        (2000, unflagged(of(50, 1023)), below),
        (2000, of(50, 1023), good),
        // Offsets; −1 lies before the marker.
        (0, hit(0, 10, 31, 7, 50, 200), good),
        (0, hit(0, 10, 16, 7, 50, 200), "hits.latency_violation"),
        (0, hit(0, 10, 20, 7, 50, 0), "hits.bad_offset"),
        // VMM 1 has no marker, VMM 2 is not mapped, VMM 16 is 0 modulo 16.
        (0, hit(1, 10, 3, 7, 50, 200), "hits.no_marker"),
        (0, hit(2, 10, 3, 7, 50, 200), "hits.bad_plane"),
        (0, hit(16, 10, 3, 7, 50, 200), "hits.bad_vmm"),
    ];
    for (threshold, word, counter) in cases {
        // The first marker is so early that offset −1 lies before 0.
        for time in [7, 65_536] {
            let words = [marker(0, time), marker(2, time), word, of(50, 200)];
            let setup = setup("vmm/example_geometry.json", &format!("th = {threshold}"));
            let ran = run(&setup, &[frame(2, 0, &words)], 1, Unwatched);
            let what = format!("threshold {threshold}, {word:x?}, marker {time}: {counter}");
            let wanted = if counter == good { 2 } else { 1 };
            assert_eq!(ran.counters.get(good), wanted, "{what}");
            assert_eq!(ran.counters.get(counter), wanted, "{what}");
            let row = ran.rows.iter().find(|row| row.lane < FineHit::BORDER).expect("a row");
            let flagged = u8::from(counter != good || word[4] & 0x40 != 0);
            assert_eq!(
                (row.flags, row.time < 0),
                (flagged, time == 7 && word[0] >> 3 == 31),
                "{what}"
            );
        }
    }
}

#[test]
fn any_batch_split_gives_the_events_of_the_whole_capture() {
    for (name, geometry, options) in [
        ("example.pcapng", "vmm/example_geometry.json", EXAMPLE),
        ("example_xyu.pcapng", "vmm/example_geometry_xyu.json", ""),
    ] {
        let (packets, setup) = (capture(name), setup(geometry, options));
        let whole = run(&setup, &packets, usize::MAX, Unwatched);
        for per_batch in [1, 13] {
            let parts = run(&setup, &packets, per_batch, Unwatched);
            assert_eq!(parts.events, whole.events, "{name} {per_batch}");
            assert_eq!(parts.counters, whole.counters, "{name} {per_batch}");
        }
    }
}

#[test]
fn two_lost_markers_and_clocks_that_differ_are_counted_and_do_not_stop_time() {
    let mut packets = capture("example_xyu.pcapng");
    // All markers of one VMM are lost in some frames.
    for packet in &mut packets[10..14] {
        for word in packet[16..].as_chunks_mut::<6>().0 {
            if word[4] >> 7 == 0 && word[4] >> 2 & 0x1f == 2 {
                *word = marker(20, 0);
            }
        }
    }
    let ran = run(&setup("vmm/example_geometry_xyu.json", ""), &packets, 3, Unwatched);
    assert!(ran.counters.get("readouts.bad_marker") > 0);
    assert!(ran.events.len() > 3000, "{}", ran.events.len());
    // The clock of a FEC is reset: time begins anew, nothing is lost behind it.
    let mut packets = capture("example.pcapng");
    let again = packets.clone();
    packets.iter_mut().for_each(|p| fullcount_detect::gdgem::shift(p, 0, 1 << 36, false));
    packets.extend(again);
    let ran = run(&setup("vmm/example_geometry.json", EXAMPLE), &packets, 3, Unwatched);
    assert!(ran.counters.get("timestamps.restarts") > 0);
    assert!(ran.events.len() > 19_000, "{}", ran.events.len());
}

fn row(ns: f64, strip: u16, weight: u16, lane: u8) -> FineHit {
    FineHit { time: FineHit::key(ns), coordinate: strip, weight, lane, ..FineHit::default() }
}

#[test]
fn an_endless_chain_is_cut_and_memory_stays_bounded() {
    // A hit every 10 ns on neighbouring strips for 100 µs, and never a border.
    let chain: Vec<_> =
        (0..10_000).map(|n| row(f64::from(n) * 10.0, n as u16 % 3, 50, (n % 2) as u8)).collect();
    let options = "max_run_hits = 64\nmax_waiting = 1000\ncrl = 0\ncru = 100";
    let ran = build(&setup("", options), chain.clone(), Unwatched);
    assert!(ran.counters.get("cluster.cut_hits") > 50);
    assert_eq!(ran.counters.get("cluster.forced"), 10);
    let options = "max_run_span_us = 1\ncrl = 0\ncru = 100";
    let ran = build(&setup("", options), chain, Unwatched);
    assert!(ran.counters.get("cluster.cut_span") > 100);
}

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<(PlaneCluster, PlaneCluster)>>>);

impl ClusterWatch for Seen {
    fn matched(&mut self, _: u32, _: f64, planes: [Option<&PlaneCluster>; 3], _: bool) {
        if let [Some(x), Some(y), _] = planes {
            self.0.lock().unwrap().push((*x, *y));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Random hits with borders anywhere: the events are those of one flush, none is later than the newest hit, and all
    /// hits are accounted for.
    #[test]
    fn borders_do_not_change_events(
        mut times in proptest::collection::vec((0u32..40_000, 0u16..12, 0u16..400, 0u8..2), 1..400),
        borders in proptest::collection::vec(0usize..400, 0..8),
        equal in any::<bool>(), online in any::<bool>(), run_hits in 2u32..60,
    ) {
        if equal {
            times.iter_mut().for_each(|t| t.0 /= 5000);
        }
        let mut rows: Vec<_> = times.iter().map(|&(t, s, w, l)| row(f64::from(t), s, w + 1, l)).collect();
        let file = if online { "config/refdata.json" } else { "" };
        let setup = setup(file, &format!("max_run_hits = {run_hits}"));
        let whole = Seen::default();
        let wanted = build(&setup, rows.clone(), whole.clone());
        let newest = times.iter().map(|t| i64::from(t.0)).max().unwrap();
        prop_assert!(wanted.events.iter().all(|e| e.0 <= newest));
        // A border is true where no later hit lies before it.
        for at in borders {
            let at = at % (rows.len() + 1);
            let rest = rows[at..].iter().filter(|r| r.lane < 2).map(|r| r.time).min();
            if let Some(time) = rest {
                rows.insert(at, FineHit { time, lane: FineHit::BORDER, ..FineHit::default() });
            }
        }
        let parts = Seen::default();
        let seen = build(&setup, rows, parts.clone());
        prop_assert_eq!(seen.counters.get("cluster.late"), 0);
        prop_assert_eq!(seen.events, wanted.events);
        prop_assert_eq!(&*parts.0.lock().unwrap(), &*whole.0.lock().unwrap());
    }
}
