//! The builder on several threads gives what it gives on one: any stream, slices, batches and number of threads.

use fullcount_core::ledger::{Entries, Ledger};
use fullcount_core::products::EventBatch;
use fullcount_core::tables::{DetectorClusters, PlaneClusters};
use proptest::prelude::*;

use super::super::GdGemDetector;
use super::super::tables::ClusterRows;
use super::super::watch::Unwatched;
use super::*;
use crate::detector::Setup;

/// The usual horizon of 2 s, and one second.
const IDLE: i64 = 3_000_000_000;

/// A geometry of vmm-sdat: for each detector its planes, 64 strips each; pads have 8 columns and 8 rows.
fn offline(detectors: &[&[Option<u8>]]) -> String {
    let mut entries = Vec::new();
    for (detector, planes) in detectors.iter().enumerate() {
        for plane in *planes {
            let vmm = entries.len();
            let (plane, id0, id1): (u8, Vec<u8>, Vec<u8>) = match plane {
                Some(plane) => (*plane, (0..64).collect(), vec![]),
                None => (0, (0..64).map(|n| n % 8).collect(), (0..64).map(|n| n / 8).collect()),
            };
            entries.push(serde_json::json!({
                "detector": detector + 1, "plane": plane, "fec": 1, "vmm": vmm, "id0": id0, "id1": id1,
            }));
        }
    }
    serde_json::json!({ "vmm_geometry": entries }).to_string()
}

/// The published online configuration with another matcher and algorithm.
fn online(matcher: &str, algorithm: &str) -> Setup {
    let text = include_str!("../../../../docs/examples/gdgem-online.json");
    let mut config: serde_json::Value = serde_json::from_str(text).expect("JSON");
    config["time_algorithm"] = algorithm.into();
    config["clusterer x"]["max_time_gap"] = 40.into();
    config["clusterer y"]["max_time_gap"] = 60.into();
    config["matcher_max_delta_time"] = 50.into();
    let options = format!("matcher = \"{matcher}\"\nmax_run_hits = 12\nmax_run_span_us = 1.0");
    Setup { geometry: config.to_string(), options, ..Setup::default() }
}

/// Set-ups of every kind, with limits that the streams reach.
fn setups() -> Vec<Setup> {
    let limits = "max_waiting = 1000\nmax_run_hits = 16\nmax_run_span_us = 0.25";
    let of = |detectors: &[&[Option<u8>]], options: &str| Setup {
        geometry: offline(detectors),
        options: format!("{limits}\n{options}"),
        ..Setup::default()
    };
    // Runs much longer than what rounding may move, so that rows wait behind open ones.
    let long = |detectors: &[&[Option<u8>]]| Setup {
        geometry: offline(detectors),
        options: "max_waiting = 2000\nmax_run_hits = 400\nmax_run_span_us = 6\ndt = 20\ndp = 50"
            .into(),
        ..Setup::default()
    };
    let (x, y, u, pad) = (Some(0), Some(1), Some(2), None);
    vec![
        of(&[&[x, y]], "dt = 40\ndp = 50\nspc = 300"),
        of(&[&[x, y]], "dt = 10\ndp = 200\nspc = 300\nhm = 1\ncrl = 0.1\ncru = 10"),
        of(&[&[x, y]], "dt = 60\ndp = 30\nspc = 100\ncoin = 'utpc'\nposition = 'utpc'\ncs = 2"),
        of(&[&[x, y]], "dt = 40\ndp = 40\ncoin = 'charge2'\nposition = 'charge2'\nccs = 4"),
        of(&[&[x, y, u]], "dt = 40\ndp = 60\ncrl = 0.1\ncru = 10"),
        of(&[&[x]], "dt = 30"),
        of(&[&[y], &[x, y]], "dt = 30\ndp = 40"),
        of(&[&[pad]], "dt = 30\nspc = 200"),
        of(&[&[x, y], &[x, y]], "dt = 40\ndp = 50"),
        of(&[&[x, y], &[pad], &[x]], "dt = [40, 20, 30]\ndp = 50\nalgo = 10"),
        long(&[&[x, y], &[x, y]]),
        long(&[&[x, y], &[pad], &[x]]),
        long(&[&[x, y, u]]),
        online("gap", "center-of-mass"),
        online("overlap", "utpc"),
        online("end", "charge2"),
        online("center", "center-of-mass"),
        online("center", "utpc-weighted"),
    ]
}

/// Tests need a random number that depends on nothing but the seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % n.max(1)
    }
}

/// What a stretch of a stream looks like.
#[derive(Debug, Clone, Copy)]
enum Stretch {
    /// Tracks, so many ns apart on average.
    Tracks(u32),
    /// A hit every few ns, without end; ns.
    Chain(u32),
    /// A hit every few ns in one plane only.
    Hot(u32),
    /// All strips of all planes at one time.
    AllStrips,
    /// So many hits at one time.
    Burst(u16),
    /// So many hits of one plane without a gap, on strips that rise with time, beside tracks in the others.
    Rising(u16),
    /// Lone hits at about the distances that decide, ns.
    Edges(u32),
    /// Nothing for so long, ns.
    Silence(u32),
    /// A clock begins anew.
    Restart,
}

fn stretch() -> impl Strategy<Value = Stretch> {
    use Stretch::*;
    prop_oneof![
        4 => (20u32..2000).prop_map(Tracks),
        2 => (0u32..70).prop_map(Chain),
        1 => (0u32..30).prop_map(Hot),
        1 => Just(AllStrips),
        1 => (2u16..300).prop_map(Burst),
        2 => (100u16..500).prop_map(Rising),
        4 => (10u32..210).prop_map(Edges),
        2 => (0u32..100_000).prop_map(Silence),
        1 => Just(Restart),
    ]
}

/// Rows as a reader gives them: hits mixed within `mixing` ns, borders that keep their promise but for a few late hits.
fn rows(stretches: &[Stretch], lanes: usize, pads: bool, seed: u64, mixing: u32) -> Vec<FineHit> {
    let mut random = Random(seed | 1);
    let mut hits: Vec<Option<FineHit>> = Vec::new();
    // Quarters of a nanosecond, so that sums are exact and equal times occur.
    let mut now = 4 * 1_000_000u64;
    for stretch in stretches {
        let mut push = |quarters: u64, lane: u64, strip: u64, random: &mut Random| {
            hits.push(Some(FineHit {
                time: FineHit::key(quarters as f64 / 4.0),
                coordinate: if pads { strip % 8 } else { strip % 64 } as u16,
                second: if pads { strip / 8 % 8 } else { 0 } as u16,
                weight: 1 + random.below(900) as u16,
                lane: lane as u8,
                flags: random.below(2) as u8,
            }));
        };
        let n = lanes as u64;
        match *stretch {
            Stretch::Tracks(apart) => {
                for _ in 0..12 {
                    now += 4 * random.below(2 * u64::from(apart));
                    let first = random.below(60);
                    for lane in 0..n {
                        for k in 0..1 + random.below(5) {
                            let at = now + random.below(4 * 60);
                            push(at, lane, first + k, &mut random);
                        }
                    }
                }
            }
            Stretch::Chain(apart) | Stretch::Hot(apart) => {
                for k in 0..60 {
                    now += random.below(8 * u64::from(apart) + 1);
                    let lane = if matches!(stretch, Stretch::Hot(_)) { 0 } else { random.below(n) };
                    push(now, lane, 10 + k % 7, &mut random);
                }
            }
            Stretch::AllStrips => {
                (0..n)
                    .for_each(|lane| (0..64).for_each(|strip| push(now, lane, strip, &mut random)));
            }
            Stretch::Burst(hits) => (0..hits).for_each(|_| {
                let (lane, strip) = (random.below(n), random.below(64));
                push(now, lane, strip, &mut random);
            }),
            Stretch::Rising(count) => {
                let (hot, mut next) = (u64::from(count) % n, now);
                for k in 0..u64::from(count) {
                    now += 1 + random.below(60);
                    push(now, hot, k / 40 * 4 + random.below(3), &mut random);
                    if now > next {
                        next = now + 4 * (100 + random.below(300));
                        let first = random.below(60);
                        for lane in (0..n).filter(|lane| *lane != hot) {
                            for k in 0..1 + random.below(4) {
                                push(now + random.below(40), lane, first + k, &mut random);
                            }
                        }
                    }
                }
            }
            Stretch::Edges(apart) => {
                for _ in 0..30 {
                    // Within 2 ns of the distance, in quarters.
                    now += (4 * u64::from(apart)).saturating_sub(8) + random.below(17);
                    let (lane, strip) = (random.below(n), 20 + random.below(3));
                    push(now, lane, strip, &mut random);
                }
            }
            Stretch::Silence(ns) => now += 4 * u64::from(ns),
            Stretch::Restart => {
                hits.push(None);
                now = 4 * (1_000_000 + random.below(1000));
            }
        }
    }
    emit(&hits, &mut random, mixing)
}

/// Mixes hits between restarts and puts borders among them.
fn emit(hits: &[Option<FineHit>], random: &mut Random, mixing: u32) -> Vec<FineHit> {
    let mut rows = Vec::new();
    for (at, part) in hits.split(Option::is_none).enumerate() {
        if at > 0 {
            rows.push(FineHit { lane: FineHit::RESTART, ..FineHit::default() });
        }
        let mut mixed: Vec<(f64, FineHit)> = part
            .iter()
            .flatten()
            .map(|hit| (hit.ns() + random.below(u64::from(mixing) + 1) as f64, *hit))
            .collect();
        mixed.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (arrived, hit) in mixed {
            if random.below(9) == 0 {
                // All hits that come later arrive later, so they are at most `mixing` before that; one in 20 borders lies.
                let lie = if random.below(20) == 0 { 30.0 } else { 0.0 };
                let time = FineHit::key(arrived - f64::from(mixing) + lie);
                rows.push(FineHit { time, lane: FineHit::BORDER, ..FineHit::default() });
            }
            rows.push(hit);
        }
    }
    rows
}

/// Events, columns as they are, all counters but those of moments, and rows of clusters.
type Outcome = (EventBatch, Entries, (PlaneClusters, DetectorClusters));

fn outcome(
    mut builder: Box<dyn Builder<Hit = FineHit>>,
    rows: &[FineHit],
    batches: &[usize],
) -> Outcome {
    let ledger = Ledger::default();
    ledger.register(builder.sheet());
    let (mut products, mut hits) = (Products::default(), Vec::new());
    let (mut rest, mut sizes) = (rows, batches.iter().cycle());
    while !rest.is_empty() {
        let n = sizes.next().copied().unwrap_or(rest.len()).clamp(1, rest.len());
        hits.extend_from_slice(&rest[..n]);
        rest = &rest[n..];
        builder.build(&mut hits, &mut products, None);
        assert_eq!(ledger.read().balance(), 0, "{:?}", ledger.read().hops());
    }
    builder.flush(Flush::End, &mut hits, &mut products);
    let entries = ledger.read();
    assert_eq!(entries.balance(), 0, "{:?}", entries.hops());
    assert_eq!(entries.get("cluster.waiting"), Some(0));
    (products.events, entries, (products.plane_clusters, products.detector_clusters))
}

fn detector(setup: &Setup) -> GdGemDetector {
    GdGemDetector::new(setup).unwrap_or_else(|e| panic!("{e}"))
}

/// What is asked for, beside events.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Asked {
    Nothing,
    Clusters,
}

/// On one thread.
fn serial(d: &GdGemDetector, rows: &[FineHit], batches: &[usize], asked: Asked) -> Outcome {
    let builder = match asked {
        Asked::Nothing => d.watched(Unwatched),
        Asked::Clusters => d.watched(ClusterRows::of(&d.layout)),
    };
    outcome(builder, rows, batches)
}

/// On several, with a silence that may be wrong by a factor.
fn sliced(
    d: &GdGemDetector,
    rows: &[FineHit],
    batches: &[usize],
    threads: usize,
    (slice, factor): (usize, f64),
    asked: Asked,
) -> Outcome {
    fn start<W: ClusterWatch>(
        d: &GdGemDetector,
        threads: usize,
        (slice, silence): (usize, Silence),
        watch: impl Fn() -> W,
    ) -> Box<dyn Builder<Hit = FineHit>> {
        let threads = Threads::of(threads);
        let (layout, options) = (&d.layout, &d.options);
        let builder =
            SlicedBuilder::with(layout, options, &d.time, &threads, watch, slice, silence);
        Box::new(builder.expect("threads"))
    }
    let silence = Silence::of(&d.layout, &d.options.limits().unwrap());
    let silence = if factor == 1.0 { silence } else { silence.shortened(factor) };
    let builder = match asked {
        Asked::Nothing => start(d, threads, (slice, silence), || Unwatched),
        Asked::Clusters => start(d, threads, (slice, silence), || ClusterRows::of(&d.layout)),
    };
    outcome(builder, rows, batches)
}

fn lanes(d: &GdGemDetector) -> (usize, bool) {
    (d.layout.lanes.len(), d.layout.detectors.iter().all(|panel| panel.pads))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(400), ..ProptestConfig::default() })]

    /// The promise of this file.
    #[test]
    fn events_and_counters_are_those_of_one_thread(
        which in 0usize..18,
        stretches in proptest::collection::vec(stretch(), 1..14),
        seed in any::<u64>(),
        mixing in prop_oneof![Just(0u32), 1u32..300, 1000u32..20_000],
        batches in proptest::collection::vec(1usize..200, 1..5),
        threads in 1usize..=4,
        slice in 1usize..300,
        asked in prop_oneof![Just(Asked::Nothing), Just(Asked::Clusters)],
    ) {
        let d = detector(&setups()[which]);
        let (n, pads) = lanes(&d);
        let rows = rows(&stretches, n, pads, seed, mixing);
        let wanted = serial(&d, &rows, &[usize::MAX], asked);
        prop_assert_eq!(&serial(&d, &rows, &batches, asked), &wanted, "one thread, in batches");
        let seen = sliced(&d, &rows, &batches, threads, (slice, 1.0), asked);
        prop_assert_eq!(&seen.1, &wanted.1);
        prop_assert_eq!(&seen.0, &wanted.0);
        prop_assert_eq!(&seen.2, &wanted.2);
    }
}

/// A stream in which many silences are a little too short.
fn edges(d: &GdGemDetector, seed: u64) -> Vec<FineHit> {
    let (n, pads) = lanes(d);
    let stretches: Vec<_> =
        (0..40).flat_map(|k| [Stretch::Edges(15 + 5 * k), Stretch::Tracks(100)]).collect();
    rows(&stretches, n, pads, seed, 50)
}

#[test]
fn a_silence_that_is_too_short_gives_other_events() {
    for (which, setup) in setups().iter().enumerate() {
        let d = detector(setup);
        let differs = (1..20).any(|seed| {
            let rows = edges(&d, seed);
            let asked = if seed % 2 == 0 { Asked::Nothing } else { Asked::Clusters };
            let wanted = serial(&d, &rows, &[usize::MAX], asked);
            let seen = sliced(&d, &rows, &[64], 2, (8, 1.0), asked);
            assert_eq!(seen, wanted, "set-up {which}, seed {seed}");
            sliced(&d, &rows, &[64], 2, (8, 0.5), asked) != wanted
        });
        assert!(differs, "set-up {which}: half the silence must be seen");
    }
}

#[test]
fn the_streams_reach_every_limit_and_the_events_are_real() {
    let mut sums = std::collections::BTreeMap::<String, u64>::new();
    for (which, setup) in setups().iter().enumerate() {
        let d = detector(setup);
        let (n, pads) = lanes(&d);
        let stretches = [
            Stretch::Tracks(400),
            Stretch::Hot(5),
            Stretch::Chain(8),
            Stretch::AllStrips,
            Stretch::Burst(299),
            Stretch::Edges(60),
            Stretch::Burst(299),
            Stretch::AllStrips,
            Stretch::Restart,
            Stretch::Tracks(400),
        ];
        for mixing in [0, 400, 100_000] {
            let rows = rows(&stretches.repeat(6), n, pads, 7 + which as u64, mixing);
            serial(&d, &rows, &[100], Asked::Nothing)
                .1
                .iter()
                .for_each(|e| *sums.entry(e.info.name.to_string()).or_default() += e.value);
        }
    }
    for name in [
        "cluster.late",
        "cluster.small",
        "cluster.unmatched",
        "cluster.cut_hits",
        "cluster.cut_span",
        "cluster.forced",
        "events.count",
        "events.x_only",
        "events.y_only",
        "events.x_and_y",
    ] {
        assert!(sums[name] > 0, "{name}: {sums:?}");
    }
}

/// Memory that hits hold: here, in slices, in threads.
fn held(builder: &SlicedBuilder<Unwatched>) -> usize {
    let lanes = |lanes: &[Vec<FineHit>]| lanes.iter().map(Vec::capacity).sum::<usize>();
    lanes(&builder.held) + builder.spare.iter().map(|slice| lanes(&slice.lanes)).sum::<usize>()
}

#[test]
fn a_hot_plane_and_an_endless_chain_do_not_fill_the_memory() {
    for lane in [Some(0), None] {
        let d = detector(&setups()[0]);
        let silence = Silence::of(&d.layout, &d.options.limits().unwrap());
        let threads = Threads::of(3);
        let mut builder = SlicedBuilder::with(
            &d.layout,
            &d.options,
            &d.time,
            &threads,
            || Unwatched,
            256,
            silence,
        )
        .unwrap();
        let (mut products, mut hits) = (Products::default(), Vec::new());
        let (mut ns, mut random) = (0u64, Random(3));
        for _ in 0..2000 {
            for _ in 0..100 {
                ns += 20;
                let time = FineHit::key(ns as f64);
                let lane = lane.unwrap_or(random.below(2) as u8);
                hits.push(FineHit { time, coordinate: 5, weight: 9, lane, ..FineHit::default() });
            }
            let time = FineHit::key(ns as f64 - 100.0);
            hits.push(FineHit { time, lane: FineHit::BORDER, ..FineHit::default() });
            builder.build(&mut hits, &mut products, None);
            products.events.clear();
            // 256 hits, 8 times without a silence, for each of the slices that may be under way, twice.
            assert!(builder.waiting <= 50 * 256 * PATIENCE, "{}", builder.waiting);
            assert!(builder.crew.under_way() <= 40, "{}", builder.crew.under_way());
        }
        builder.flush(Flush::End, &mut hits, &mut products);
        assert!(held(&builder) <= 64 * 256 * PATIENCE, "{}", held(&builder));
        assert!(builder.open.is_none() && builder.waiting == 0);
    }
}

#[test]
fn only_hits_that_wait_for_the_border_count_towards_the_limit() {
    let d = detector(&setups()[0]);
    // A chain without silence: more than 1000 hits are held before a slice is full. The borders end at `last`.
    for (last, forced) in [(5000, 0), (2000, 3)] {
        let mut rows = Vec::new();
        for n in 0..5000 {
            let ns = f64::from(n) * 10.0;
            let row = FineHit { time: FineHit::key(ns), weight: 9, ..FineHit::default() };
            rows.push(FineHit { lane: (n % 2) as u8, coordinate: 5 + n as u16 % 3, ..row });
            if n % 100 == 99 && n < last {
                let time = FineHit::key(ns - 50.0);
                rows.push(FineHit { time, lane: FineHit::BORDER, ..FineHit::default() });
            }
        }
        for asked in [Asked::Nothing, Asked::Clusters] {
            let wanted = serial(&d, &rows, &[70], asked);
            assert_eq!(wanted.1.get("cluster.forced"), Some(forced));
            assert_eq!(sliced(&d, &rows, &[70], 2, (1000, 1.0), asked), wanted);
        }
    }
}

/// Equal times on all strips and every pair wanted: what comes of hits that waited together is bounded by their number, and the same
/// on several threads.
#[test]
fn high_multiplicity_with_all_strips_at_one_time_is_bounded() {
    let setup = Setup {
        geometry: offline(&[&[Some(0), Some(1)]]),
        options: "hm = 1\nmst = -1\ndt = 10\ndp = 200\ncrl = 0\ncru = 1000\nmax_waiting = 4000"
            .to_owned(),
        ..Setup::default()
    };
    let d = detector(&setup);
    let mut rows = Vec::new();
    for time in 0..100 {
        let time = FineHit::key(1e6 + 20.0 * f64::from(time));
        for strip in 0..64 {
            let row = FineHit { time, coordinate: strip, weight: 9, ..FineHit::default() };
            rows.extend([0, 1].map(|lane| FineHit { lane, ..row }));
        }
    }
    // No border, as where markers stall: 4000 hits are clustered at once, 2000 of them plane 0, each a cluster of its own.
    let wanted = serial(&d, &rows, &[usize::MAX], Asked::Clusters);
    let get = |name| wanted.1.get(name).unwrap();
    assert_eq!(get("cluster.forced"), 3);
    let clusters = 6400;
    assert_eq!(get("cluster.planes"), 2 * clusters);
    assert!(get("match.cut_pairs") > clusters * 64, "{}", get("match.cut_pairs"));
    assert_eq!(get("events.candidates"), 64 * clusters);
    for threads in [2, 3] {
        assert!(sliced(&d, &rows, &[1000], threads, (100, 1.0), Asked::Clusters) == wanted);
    }
}

fn row(ns: f64, lane: u8) -> FineHit {
    let time = FineHit::key(ns);
    FineHit { time, coordinate: 5, weight: 9, lane, ..FineHit::default() }
}

/// Two detectors of pads: an event waits until the other cannot have an earlier one, and rows of clusters as well.
#[test]
fn what_waits_for_its_place_is_the_oldest_batch_and_comes_once_it_is_quiet() {
    let setup = Setup { geometry: offline(&[&[None], &[None]]), ..Setup::default() };
    let d = detector(&setup);
    for threads in [1, 2] {
        let mut builder =
            d.builder_with(&Threads::of(threads), || ClusterRows::of(&d.layout)).unwrap();
        let (mut products, mut hits) = (Products::default(), Vec::new());
        products.batch.batch = 1;
        hits.extend([row(5000.0, 0), row(5000.0, 1)]);
        builder.build(&mut hits, &mut products, Some(Nanos(0)));
        let first = BatchNumber { pipeline: 0, batch: 1 };
        assert_eq!(builder.oldest(), Some(first), "{threads}");
        products.batch.batch = 2;
        // Behind it all hits are decided on, but what comes next may be as early as the border less what rounding moves.
        hits.push(row(5200.8, FineHit::BORDER));
        builder.build(&mut hits, &mut products, Some(Nanos(WAIT_NS)));
        builder.build(&mut hits, &mut products, Some(Nanos(2 * WAIT_NS)));
        assert_eq!(builder.oldest(), Some(first), "{threads}");
        let rows =
            |products: &Products| (products.events.len(), products.detector_clusters.id.len());
        assert_eq!(rows(&products), (0, 0), "{threads}");
        builder.build(&mut hits, &mut products, Some(Nanos(2 * IDLE)));
        // The other thread may still be at it.
        let mut all = products;
        builder.flush(Flush::End, &mut hits, &mut all);
        assert_eq!(rows(&all), (2, 2), "{threads}");
        assert_eq!(builder.sheet().get(GdGemBuilt::Idle as usize), 1, "{threads}");
        assert_eq!(builder.oldest(), None, "{threads}");
    }
}

#[test]
fn live_hits_do_not_wait_for_a_full_slice() {
    let d = detector(&setups()[0]);
    let mut builder =
        SlicedBuilder::start(&d.layout, &d.options, &d.time, &Threads::of(2), || Unwatched)
            .unwrap();
    let (mut products, mut hits) = (Products::default(), Vec::new());
    hits.extend([row(100.0, 0), row(110.0, 1), row(5000.0, FineHit::BORDER)]);
    builder.build(&mut hits, &mut products, Some(Nanos(0)));
    assert_eq!(products.events.len(), 0);
    builder.build(&mut hits, &mut products, Some(Nanos(WAIT_NS)));
    assert_eq!(products.events.len(), 1, "a small slice is worked on at once");
    hits.extend([row(6000.0, 0), row(6010.0, 1)]);
    builder.build(&mut hits, &mut products, Some(Nanos(2 * WAIT_NS)));
    builder.build(&mut hits, &mut products, Some(Nanos(IDLE)));
    assert_eq!(products.events.len(), 1, "their time may still come");
    builder.build(&mut hits, &mut products, Some(Nanos(3 * IDLE)));
    assert_eq!(products.events.len(), 2, "nothing came for so long");
    let sheet = builder.sheet();
    assert_eq!(sheet.get(GdGemBuilt::Idle as usize), 1);
}
