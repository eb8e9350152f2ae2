//! A member of a group that is killed once a mark has passed, and the next one, which reads what is behind the mark: all
//! events are there, of every detector, wherever the mark is.

use std::sync::Arc;

use fullcount_core::products::{FineHit, PlaneHit, Products, Want};

use super::{Builder, Detector, Registry, Setup};
use crate::parallel::Threads;

/// Rows of either kind.
#[derive(Debug, Clone, Copy)]
enum Row {
    Plane(PlaneHit),
    Fine(FineHit),
}

fn feed(builder: &mut dyn Builder, products: &mut Products, rows: &[Row]) {
    for row in rows {
        match *row {
            Row::Plane(hit) => products.plane_hits.push(hit),
            Row::Fine(hit) => products.fine_hits.push(hit),
        }
    }
    builder.build(products, None);
}

type Events = Vec<(i64, u32)>;

/// All events of some rows.
fn whole(mut builder: Box<dyn Builder>, rows: &[Row]) -> Events {
    let mut products = Products::default();
    feed(&mut *builder, &mut products, rows);
    builder.finish(&mut products);
    products.events.absolute().collect()
}

/// Events of a member that sets a mark behind `cut` rows and is killed when it has passed, and how many rows it had read by
/// then; `None`: it did not pass, and what waited was let go.
fn killed(mut builder: Box<dyn Builder>, rows: &[Row], cut: usize) -> (Events, Option<usize>) {
    let mut products = Products::default();
    feed(&mut *builder, &mut products, &rows[..cut]);
    builder.mark();
    let mut read = cut;
    while !builder.passed() {
        if read == rows.len() {
            builder.let_go(&mut products);
            assert!(builder.passed(), "it was let go");
            return (products.events.absolute().collect(), None);
        }
        feed(&mut *builder, &mut products, &rows[read..=read]);
        read += 1;
    }
    (products.events.absolute().collect(), Some(read))
}

/// Kills a member behind every row. `waits`: rows behind the mark that some marks need, and after which each has passed; 0 if nothing waits.
fn kill_everywhere(detector: &dyn Detector, rows: &[Row], threads: usize, waits: usize) {
    let builder = || {
        let threads = Threads { count: threads, started: Arc::new(|_| ()) };
        detector.builder_on(Want::default(), &threads).unwrap()
    };
    let mut wanted = whole(builder(), rows);
    wanted.sort_unstable();
    assert!(wanted.len() >= 20, "{}", wanted.len());
    let mut longest = 0;
    for cut in 0..=rows.len() {
        let (mut events, read) = killed(builder(), rows, cut);
        if threads == 1 && cut + waits < rows.len() {
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
        assert!(longest <= waits, "{longest} rows behind the mark");
    }
}

fn detector(kind: &str, geometry: &str, options: &str) -> Box<dyn Detector> {
    let (geometry, options) = (geometry.to_owned(), options.to_owned());
    let setup = Setup { geometry, options, ..Setup::default() };
    Registry::builtin().configure(kind, &setup).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn multigrid() {
    let geometry = include_str!("../../../vectors/multigrid/config/three_modules_mg24.json");
    let hit = |time, module, plane, coordinate| {
        Row::Plane(PlaneHit { time, coordinate, weight: 100, module, plane })
    };
    // A wire and a grid each, 50 µs apart, and given out once they are 300 µs old.
    let rows: Vec<Row> = (0..30)
        .flat_map(|n: u16| {
            let (time, module) = (10_000_000 + 50_000 * i64::from(n), n % 3);
            [hit(time, module, 0, 5 + n % 2), hit(time, module, 1, 7)]
        })
        .collect();
    kill_everywhere(&*detector("multigrid", geometry, ""), &rows, 1, 16);
    // A clock that goes back lets all go at once; what comes then is earlier than the mark.
    let back = (0..30).flat_map(|n: u16| {
        let time = 50_000 * i64::from(n);
        [hit(time, 1, 0, 5), hit(time, 1, 1, 7)]
    });
    let both: Vec<Row> = rows.into_iter().chain(back).collect();
    kill_everywhere(&*detector("multigrid", geometry, ""), &both, 1, 16);
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
        Row::Plane(PlaneHit { time, coordinate, weight: 100, module, plane })
    };
    // Packets of one neutron; cassettes take turns.
    let packets: Vec<[Row; 3]> = (0..30)
        .map(|n: u16| {
            let (time, module) = (1_000_000 + 100_000 * i64::from(n), n % 2);
            [hit(time, module, 0), hit(time + 50, module, 1), hit(0, module, PlaneHit::BORDER)]
        })
        .collect();
    let rows: Vec<Row> = packets.concat();
    let windows = detector("multiblade", geometry, "clustering = 'fixed-window'");
    kill_everywhere(&*windows, &rows, 1, 6);
    // A builder gets whole packets, and keeps nothing of them.
    let boxes = detector("multiblade", geometry, "");
    let mut builder = boxes.builder();
    let mut products = Products::default();
    for (n, packet) in packets.iter().enumerate() {
        feed(&mut *builder, &mut products, packet);
        builder.mark();
        assert!(builder.passed());
        assert_eq!(products.events.len(), n + 1);
    }
}

#[test]
fn sonde_keeps_nothing() {
    let module = "[[modules]]\nsource = \"10.0.0.1\"\npixel_offset = 0\n";
    let mut builder = detector("sonde", module, "").builder();
    builder.mark();
    assert!(builder.passed());
}

/// Tracks 5 µs apart in planes x and y of each detector, with a border 6 µs behind the last hit.
fn tracks(detectors: u8) -> Vec<Row> {
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
                rows.push(Row::Fine(hit));
            }
        }
        let time = FineHit::key(time - 6_000.0);
        rows.push(Row::Fine(FineHit { time, lane: FineHit::BORDER, ..FineHit::default() }));
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
        let offline = detector("gdgem", &geometry(detectors), "dt = 40\ndp = 50");
        let rows = tracks(detectors);
        kill_everywhere(&*offline, &rows, 1, 42);
        kill_everywhere(&*offline, &rows, 2, 0);
    }
    let online = include_str!("../../../docs/examples/gdgem-online.json");
    kill_everywhere(&*detector("gdgem", online, ""), &tracks(1), 1, 42);
}
