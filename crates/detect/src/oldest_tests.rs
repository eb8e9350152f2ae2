//! A reader that is killed once a builder says that nothing of the first batches waits any more, and the next one, which reads what
//! came behind them: all events are there, of every detector, whichever batch was the last.

use crate::hits::{FineHit, PlaneHit};
use fullcount_core::products::{Products, Want};
use fullcount_core::progress::{BatchNumber, Flush};

use super::{Setup, Threads, builtin};
use crate::alone::Alone;
use crate::gdgem::GdGemDetector;
use crate::multiblade::MultiBladeDetector;
use crate::multigrid::MultigridDetector;
use crate::steps::Builder;

type Build<'a, H> = Box<dyn Builder<Hit = H> + 'a>;

/// Each row is a batch; the first has this number.
fn feed<H: Copy + Send>(
    builder: &mut dyn Builder<Hit = H>,
    products: &mut Products,
    rows: &[H],
    first: usize,
) {
    for (n, row) in rows.iter().enumerate() {
        products.batch = BatchNumber { pipeline: 3, batch: (first + n) as u64 };
        builder.build(&mut vec![*row], products, None);
    }
}

/// True once nothing waits of the batches up to `last`.
fn gone<H: Send>(builder: &mut dyn Builder<Hit = H>, last: usize) -> bool {
    builder.oldest().is_none_or(|oldest| {
        assert_eq!(oldest.pipeline, 3);
        oldest.batch > last as u64
    })
}

type Events = Vec<(i64, u32)>;

/// All events of some rows.
fn whole<H: Copy + Send>(mut builder: Build<H>, rows: &[H]) -> Events {
    let mut products = Products::default();
    feed(&mut *builder, &mut products, rows, 1);
    builder.flush(Flush::End, &mut Vec::new(), &mut products);
    products.events.absolute().collect()
}

/// Events of a reader that is killed when nothing waits of the first `cut` rows, and how many rows it had read by then;
/// `None`: something waited to the end, and was decided as stalled.
fn killed<H: Copy + Send>(
    mut builder: Build<H>,
    rows: &[H],
    cut: usize,
) -> (Events, Option<usize>) {
    let mut products = Products::default();
    // Asked now and then, as a pipeline does: what it has been asked before makes no answer early.
    for (n, row) in rows[..cut].iter().enumerate() {
        feed(&mut *builder, &mut products, std::slice::from_ref(row), n + 1);
        if n % 3 == 0 {
            builder.oldest();
        }
    }
    let mut read = cut;
    while cut > 0 && !gone(&mut *builder, cut) {
        if read == rows.len() {
            // One moment after the other is followed.
            for _ in 0..2 {
                builder.flush(Flush::Stalled, &mut Vec::new(), &mut products);
                builder.oldest();
            }
            assert!(gone(&mut *builder, cut), "it was decided");
            return (products.events.absolute().collect(), None);
        }
        feed(&mut *builder, &mut products, &rows[read..=read], read + 1);
        read += 1;
    }
    (products.events.absolute().collect(), Some(read))
}

/// Kills a reader behind every row. `waits`: rows that must follow before nothing waits of those before; 0 if nothing ever waits.
/// The answer is late by as much again at most, as one moment is followed at a time.
fn kill_everywhere<'a, H: Copy + Send>(
    builder: &dyn Fn() -> Build<'a, H>,
    rows: &[H],
    threads: usize,
    waits: usize,
) {
    let mut wanted = whole(builder(), rows);
    wanted.sort_unstable();
    assert!(wanted.len() >= 20, "{}", wanted.len());
    let mut longest = 0;
    for cut in 0..=rows.len() {
        let (mut events, read) = killed(builder(), rows, cut);
        if threads == 1 && cut + 2 * waits < rows.len() {
            longest = longest.max(read.expect("it passes") - cut);
        }
        events.extend(whole(builder(), &rows[cut..]));
        events.sort_unstable();
        let mut left = events.iter();
        let lost: Events =
            wanted.iter().filter(|event| !left.any(|found| found == *event)).copied().collect();
        assert!(lost.is_empty(), "killed behind {cut} of {}: {lost:?} are lost", rows.len());
    }
    if threads == 1 {
        assert_eq!(longest > 0, waits > 0);
        assert!(longest <= 2 * waits, "{longest} rows later");
    }
}

fn setup(geometry: &str, options: &str) -> Setup {
    let (geometry, options) = (geometry.to_owned(), options.to_owned());
    Setup { geometry, options, ..Setup::default() }
}

#[test]
fn multigrid() {
    let geometry = include_str!("../../../vectors/multigrid/config/three_modules_mg24.json");
    let hit =
        |time, module, plane, coordinate| PlaneHit { time, coordinate, weight: 100, module, plane };
    // A wire and a grid each, 50 µs apart, and given out once they are 300 µs old.
    let rows: Vec<PlaneHit> = (0..30)
        .flat_map(|n: u16| {
            let (time, module) = (10_000_000 + 50_000 * i64::from(n), n % 3);
            [hit(time, module, 0, 5 + n % 2), hit(time, module, 1, 7)]
        })
        .collect();
    let detector = MultigridDetector::new(&setup(geometry, "")).unwrap();
    let builder = || -> Build<_> { Box::new(detector.builder()) };
    kill_everywhere(&builder, &rows, 1, 16);
    // A clock that goes back has all decided at once; what comes then is earlier.
    let back = (0..30).flat_map(|n: u16| {
        let time = 50_000 * i64::from(n);
        [hit(time, 1, 0, 5), hit(time, 1, 1, 7)]
    });
    let both: Vec<PlaneHit> = rows.into_iter().chain(back).collect();
    kill_everywhere(&builder, &both, 1, 16);
}

#[test]
fn multiblade() {
    let geometry = "cassettes = 2\nwires = 32\nstrips = 32\nTimeTickNS = 1\nwires_along = 'x'\n\
        [[mapping]]\ndigitizer = 1\ncassette = 0\nchannels = [0, 31]\nwires = [0, 31]\n\
        [[mapping]]\ndigitizer = 1\ncassette = 0\nchannels = [32, 63]\nstrips = [0, 31]\n\
        [[mapping]]\ndigitizer = 2\ncassette = 1\nchannels = [0, 31]\nwires = [0, 31]\n\
        [[mapping]]\ndigitizer = 2\ncassette = 1\nchannels = [32, 63]\nstrips = [0, 31]\n";
    let hit = |time, module: u16, plane| {
        let coordinate = if plane == 0 { 5 + 32 * module } else { 7 };
        PlaneHit { time, coordinate, weight: 100, module, plane }
    };
    // Packets of one neutron; cassettes take turns.
    let packets: Vec<[PlaneHit; 3]> = (0..30)
        .map(|n: u16| {
            let (time, module) = (1_000_000 + 100_000 * i64::from(n), n % 2);
            [hit(time, module, 0), hit(time + 50, module, 1), hit(0, module, PlaneHit::BORDER)]
        })
        .collect();
    let rows: Vec<PlaneHit> = packets.concat();
    let setup_ = setup(geometry, "clustering = 'fixed-window'");
    let windows = MultiBladeDetector::new(&setup_).unwrap();
    kill_everywhere(&|| windows.builder(), &rows, 1, 6);
    // A builder gets whole packets, and keeps nothing of them.
    let boxes = MultiBladeDetector::new(&setup(geometry, "")).unwrap();
    let mut builder = boxes.builder();
    let mut products = Products::default();
    for (n, packet) in packets.iter().enumerate() {
        products.batch.batch = n as u64 + 1;
        builder.build(&mut packet.to_vec(), &mut products, None);
        assert_eq!(builder.oldest(), None);
        assert_eq!(products.events.len(), n + 1);
    }
}

#[test]
fn sonde_keeps_nothing() {
    let module = "[[modules]]\nsource = \"10.0.0.1\"\npixel_offset = 0\n";
    let detector = builtin().configure("sonde", &setup(module, "")).unwrap();
    assert_eq!(detector.alone().oldest(), None);
}

/// Tracks 5 µs apart in planes x and y of each detector, with a border 6 µs behind the last hit.
fn tracks(detectors: u8) -> Vec<FineHit> {
    let mut rows = Vec::new();
    for n in 0..40u16 {
        let time = 1_000_000.0 + 5_000.0 * f64::from(n);
        let lane = n as u8 % detectors * 2;
        for k in 0..3u16 {
            for plane in 0..2 {
                let (key, coordinate) = (FineHit::key(time + 10.0 * f64::from(k)), 10 + n % 5 + k);
                let lane = lane + plane;
                let hit =
                    FineHit { time: key, coordinate, lane, weight: 300, ..FineHit::default() };
                rows.push(hit);
            }
        }
        let time = FineHit::key(time - 6_000.0);
        rows.push(FineHit { time, lane: FineHit::BORDER, ..FineHit::default() });
    }
    rows
}

#[test]
fn gdgem() {
    let plane = |detector: u8, plane: u8, vmm: u8| {
        serde_json::json!({
            "detector": detector, "plane": plane, "fec": 1, "vmm": vmm,
            "id0": (0..64).collect::<Vec<u8>>(), "id1": [],
        })
    };
    let geometry = |detectors: u8| {
        let all = (0..detectors).flat_map(|d| [plane(d + 1, 0, 2 * d), plane(d + 1, 1, 2 * d + 1)]);
        serde_json::json!({ "vmm_geometry": all.collect::<Vec<_>>() }).to_string()
    };
    for detectors in [1, 2] {
        let offline = GdGemDetector::new(&setup(&geometry(detectors), "dt = 40\ndp = 50")).unwrap();
        let rows = tracks(detectors);
        for (threads, waits) in [(1, 42), (2, 0)] {
            let on = Threads::of(threads);
            let builder = || offline.builder(Want::default(), &on).unwrap();
            kill_everywhere(&builder, &rows, threads, waits);
        }
    }
    let online = include_str!("../../../docs/examples/gdgem-online.json");
    let online = GdGemDetector::new(&setup(online, "")).unwrap();
    let builder = || online.builder(Want::default(), &Threads::of(1)).unwrap();
    kill_everywhere(&builder, &tracks(1), 1, 42);
}
