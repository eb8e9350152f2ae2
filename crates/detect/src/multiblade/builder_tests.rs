//! Events of hits made by hand: filters, borders of the rules, pixels, fifty cassettes with a known truth.

use fullcount_core::ledger::{Entries, Ledger};
use proptest::prelude::*;

use super::*;
use crate::detector::{Detector, Setup};
use crate::multiblade::MultiBladeDetector;

/// Two cassettes of 32 wires along x and 32 strips along y, ticks of 1 ns.
const TWO: &str = "cassettes = 2\nwires = 32\nstrips = 32\nTimeTickNS = 1\nwires_along = 'x'\nMaxTofNS = 100000\n\
    [[mapping]]\ndigitizer = 1\ncassette = 0\nchannels = [0, 31]\nwires = [0, 31]\nrepeat = 2\n\
    [[mapping]]\ndigitizer = 1\ncassette = 0\nchannels = [32, 63]\nstrips = [0, 31]\nrepeat = 2\n";

fn detector(geometry: &str, options: &str) -> MultiBladeDetector {
    let (geometry, options) = (geometry.to_owned(), options.to_owned());
    let setup = Setup { geometry, options, ..Setup::default() };
    MultiBladeDetector::new(&setup).unwrap_or_else(|e| panic!("{e}"))
}

fn border() -> PlaneHit {
    PlaneHit { plane: PlaneHit::BORDER, ..PlaneHit::default() }
}

fn wire(time: i64, n: u16, weight: u16) -> PlaneHit {
    PlaneHit { time, coordinate: n, weight, module: n / 32, plane: 0 }
}

fn strip(time: i64, module: u16, n: u16, weight: u16) -> PlaneHit {
    PlaneHit { time, coordinate: n, weight, module, plane: 1 }
}

/// (time, pixel) of all events, and counters.
fn build(geometry: &str, options: &str, segments: &[&[PlaneHit]]) -> (Vec<(i64, u32)>, Entries) {
    let mut builder = detector(geometry, options).builder();
    let (mut hits, mut products) = (Vec::new(), Products::default());
    for segment in segments {
        hits.extend_from_slice(segment);
        hits.push(border());
    }
    builder.flush(Flush::End, &mut hits, &mut products);
    let ledger = Ledger::default();
    ledger.register(builder.sheet());
    let entries = ledger.read();
    assert_eq!(entries.balance(), 0, "{:?}", entries.hops());
    (products.events.absolute().collect(), entries)
}

/// Events of one segment.
fn events(options: &str, hits: &[PlaneHit]) -> Vec<(i64, u32)> {
    build(TWO, options, &[hits]).0
}

/// Pixel of wire x and strip y.
fn pixel(x: u32, y: u32) -> u32 {
    y * 64 + x + 1
}

#[test]
fn wires_and_strips_of_a_cassette_meet_and_those_of_two_do_not() {
    let hits = [wire(50, 40, 900), strip(20, 1, 3, 300), strip(60, 1, 4, 100)];
    assert_eq!(events("", &hits), [(20, pixel(40, 3))]);
    assert_eq!(events("", &[wire(50, 40, 900), strip(20, 0, 3, 300)]), []);
}

#[test]
fn nothing_is_joined_over_a_border() {
    let (a, b) = (wire(50, 4, 9), strip(51, 0, 3, 9));
    assert_eq!(build(TWO, "", &[&[a, b]]).0.len(), 1);
    let (seen, entries) = build(TWO, "", &[&[a], &[b]]);
    assert_eq!((seen.len(), entries.get("events.no_coincidence")), (0, Some(2)));
}

#[test]
fn a_plane_without_weight_is_a_geometry_error() {
    let (seen, entries) = build(TWO, "", &[&[wire(5, 4, 0), strip(5, 0, 3, 9)]]);
    assert_eq!((seen.len(), entries.get("events.geometry_errors")), (0, Some(1)));
}

#[test]
fn gaps_drop_and_a_channel_hit_twice_is_none() {
    let both = [strip(5, 0, 3, 9), strip(5, 0, 5, 9)];
    let (seen, entries) = build(TWO, "", &[&[wire(5, 4, 9), both[0], both[1]]]);
    assert_eq!((seen.len(), entries.get("events.gap_plane1")), (0, Some(1)));
    let (_, entries) = build(TWO, "", &[&[wire(5, 4, 9), wire(5, 6, 9), both[0]]]);
    assert_eq!(entries.get("events.gap_plane0"), Some(1));
    let twice = [wire(5, 4, 9), both[0], strip(5, 0, 3, 9), both[1]];
    assert_eq!(events("", &twice).len(), 1, "three hits on a span of three");
    let wide = format!("MaxGapStrip = 2\n{TWO}");
    assert_eq!(build(&wide, "", &[&[wire(5, 4, 9), both[0], both[1]]]).0, [(5, pixel(4, 4))]);
}

#[test]
fn filters_at_their_borders() {
    let hits = [wire(10, 4, 900), wire(12, 5, 100), strip(19, 0, 3, 400), strip(15, 0, 4, 100)];
    let kept = |options: &str| events(options, &hits).len() == 1;
    assert!(kept("max_time_span = 10") && !kept("max_time_span = 9"));
    assert!(kept("max_wires = 2\nmax_strips = 2"));
    assert!(!kept("max_wires = 1") && !kept("max_strips = 1"));
    assert!(kept("amplitude_ratio = [0.5, 0.5]") && !kept("amplitude_ratio = [0.6, 1.0]"));
    assert!(kept("wire_threshold = 1000") && !kept("wire_threshold = 1001"));
    for (options, line) in [
        ("max_time_span = 9", "time_span"),
        ("max_wires = 1", "multiplicity"),
        ("amplitude_ratio = [0.6, 1.0]", "amplitude_ratio"),
        ("wire_threshold = 1001", "wire_threshold"),
    ] {
        let (_, entries) = build(TWO, options, &[&hits]);
        assert_eq!(entries.get(&format!("events.filter.{line}")), Some(1));
        assert_eq!(entries.get("events.matched_clusters"), Some(0));
    }
    // One number per wire: that of the centre, wire 4, decides.
    let mut list = vec![0; 32];
    list[4] = 1001;
    let lists = |a: &[u32], b: &[u32]| format!("wire_thresholds = [{a:?}, {b:?}]\n{TWO}");
    assert_eq!(build(&lists(&list, &[0; 32]), "", &[&hits]).0.len(), 0);
    assert_eq!(build(&lists(&[0; 32], &list), "", &[&hits]).0.len(), 1);
}

#[test]
fn late_events_are_counted_and_dropped_only_if_asked() {
    let hits = [wire(100_001, 4, 9), strip(100_002, 0, 3, 9)];
    for (options, events) in [("", 1), ("drop_late = true", 0)] {
        let (seen, entries) = build(TWO, options, &[&hits]);
        assert_eq!((seen.len(), entries.get("events.max_tof")), (events, Some(1)));
    }
    let in_time = [wire(100_000, 4, 9), strip(100_002, 0, 3, 9)];
    assert_eq!(build(TWO, "drop_late = true", &[&in_time]).0.len(), 1);
}

#[test]
fn parts_of_a_strip_are_pixels_if_asked_for() {
    let hits = [wire(10, 4, 900), strip(10, 0, 10, 300), strip(10, 0, 11, 100)];
    assert_eq!(events("", &hits), [(10, pixel(4, 10))]);
    // 10.25 is three quarters into strip 10.
    assert_eq!(events("subpixels = 4", &hits), [(10, pixel(4, 43))]);
    assert_eq!(detector(TWO, "subpixels = 4").pixels().pixels(), 4 * 2048);
}

#[test]
fn two_neutrons_at_once_become_two_events() {
    let hits = [wire(10, 4, 100), wire(10, 9, 900), strip(11, 0, 20, 50), strip(12, 0, 7, 400)];
    assert_eq!(events("", &hits), [], "the gap test drops them together");
    let mut seen = events("resolve_doubles = true", &hits);
    seen.sort_unstable();
    assert_eq!(seen, [(10, pixel(9, 7)), (10, pixel(4, 20))]);
    let (_, entries) = build(TWO, "resolve_doubles = true", &[&hits]);
    assert_eq!(entries.get("events.resolved_doubles"), Some(1));
}

#[test]
fn the_monitor_has_the_last_pixel_or_none() {
    let monitor = PlaneHit { time: 77, plane: MONITOR, ..PlaneHit::default() };
    let hits = [wire(10, 4, 9), monitor, strip(11, 0, 3, 9)];
    let (mut seen, entries) = build(TWO, "monitor = 'pixel'", &[&hits]);
    seen.sort_unstable();
    assert_eq!(seen, [(10, pixel(4, 3)), (77, 2049)]);
    // Each event is counted once: candidates that became events, and beside them those of the monitor.
    assert_eq!(["events.count", "events.monitor"].map(|name| entries.get(name)), [Some(1); 2]);
    let map = detector(TWO, "monitor = 'pixel'").pixels();
    assert_eq!((map.pixels(), map.rows), (2049, 33));
}

#[test]
fn every_pixel_has_a_place_in_every_plot() {
    for options in ["", "monitor = 'pixel'", "mode = '1d'", "subpixels = 3"] {
        for geometry in [TWO, "", include_str!("../../../../vectors/multiblade/config/AmorB.json")]
        {
            let detector = detector(geometry, options);
            let map = detector.pixels();
            for plot in detector.plots() {
                if let fullcount_core::view::PlotKind::Projection(p) = plot.kind {
                    assert_eq!(p.cell.len(), map.cell.len(), "{}", plot.id);
                    assert!(p.cell.iter().all(|&c| c < p.columns * p.rows), "{}", plot.id);
                }
            }
            assert_eq!(map.z_m.len(), map.cell.len());
        }
    }
}

/// xorshift: the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % n
    }
}

#[test]
fn fifty_cassettes_find_every_clean_neutron() {
    let detector = detector(include_str!("../../../../docs/examples/multiblade-50.toml"), "");
    let (mut random, mut truth) = (Random(0x9e37_79b9_7f4a_7c15), Vec::new());
    let (mut all, mut products) = (Vec::new(), Products::default());
    // Times go on over the packets: after a restart, the start of a cassette's last box may cut a neutron.
    let mut time = 0;
    for n in 0..5000u64 {
        let cassette = random.below(50) as u16;
        let mut hits = Vec::new();
        // Neutrons 3 to 30 µs apart, one or two wires, one to three strips, the middle one the strongest.
        for _ in 0..1 + random.below(8) {
            time += 190 + random.below(1700) as i64;
            let (w, s) = (random.below(31) as u16, 1 + random.below(62) as u16);
            truth.push((time * 16, u32::from(cassette * 32 + w) * 64 + u32::from(s) + 1));
            let charge = 5000 + random.below(20_000) as u16;
            let hit = |time, plane, coordinate, weight| PlaneHit {
                time,
                coordinate,
                weight,
                module: cassette,
                plane,
            };
            hits.push(hit(time, 1, cassette * 32 + w, charge));
            if random.below(4) == 0 {
                hits.push(hit(
                    time + random.below(30) as i64,
                    1,
                    cassette * 32 + w + 1,
                    charge / 3,
                ));
            }
            hits.push(hit(time + random.below(30) as i64, 0, s, charge / 2));
            for beside in [s - 1, s + 1] {
                if random.below(2) == 0 {
                    hits.push(hit(time + random.below(30) as i64, 0, beside, charge / 9));
                }
            }
        }
        // A readout's buffers come channel by channel.
        if n % 2 == 0 {
            hits.sort_by_key(|h| (h.plane, h.coordinate));
        }
        all.extend(hits);
        all.push(border());
    }
    detector.builder().flush(Flush::End, &mut all, &mut products);
    let mut seen: Vec<_> = products.events.absolute().collect();
    seen.sort_unstable();
    truth.sort_unstable();
    assert!(truth.len() > 20_000);
    assert_eq!(seen.len(), truth.len());
    assert!(seen == truth, "a neutron in another pixel, or at another time");
}

proptest! {
    /// Any hits: nothing panics, all balances, and neither the batches nor the sort of builder matter.
    #[test]
    fn events_do_not_depend_on_batches(
        rows in proptest::collection::vec((0i64..9000, 0u16..32, any::<u16>(), 0u16..2, 0u8..4), 0..120),
        choice in 0usize..4,
    ) {
        let options = ["", "resolve_doubles = true", "max_wires = 2\nsubpixels = 2", "mode = '1d'"][choice];
        let hits: Vec<PlaneHit> = rows.into_iter().map(|(time, n, weight, module, plane)| match plane {
            3 => border(),
            2 => PlaneHit { time, plane: MONITOR, ..PlaneHit::default() },
            0 => wire(time, module * 32 + n, weight),
            _ => strip(time, module, n, weight),
        }).chain([border()]).collect();
        let run = |options: &str, cut: bool| {
            let mut builder = detector(TWO, options).builder();
            let (mut waiting, mut products) = (Vec::new(), Products::default());
            for segment in hits.split_inclusive(|h| h.plane == PlaneHit::BORDER) {
                waiting.extend_from_slice(segment);
                if cut {
                    builder.build(&mut waiting, &mut products, None);
                }
            }
            builder.flush(Flush::End, &mut waiting, &mut products);
            let ledger = Ledger::default();
            ledger.register(builder.sheet());
            let mut events: Vec<_> = products.events.absolute().collect();
            events.sort_unstable();
            (events, ledger.read())
        };
        let with = format!("monitor = 'pixel'\n{options}");
        let one = run(&with, false);
        prop_assert_eq!(one.1.balance(), 0);
        prop_assert_eq!(&run(&with, true), &one);
        prop_assert_eq!(&run(&format!("builders = 'per-cassette'\n{with}"), true), &one);
    }
}
