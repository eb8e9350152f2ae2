//! Tests of the plots: edges, gates, the window, memory.

use super::*;
use fullcount_core::records::{RecordPart, RecordPiece, flags};
use fullcount_core::time::PulseTime;
use fullcount_core::view::{Projection, Tiles, Tracks};
use proptest::prelude::*;

fn axis(column: PlotColumn, first: u64, last: u64, bins: u32) -> Axis {
    Axis { column, label: "l".into(), unit: String::new(), scale: 1.0, first, last, bins }
}

fn plot(id: &str, kind: PlotKind, gates: Vec<Gate>) -> Plot {
    Plot { id: id.into(), title: id.into(), kind, gates, log: false }
}

fn four_pixels() -> PixelMap {
    PixelMap { columns: 2, rows: 2, cell: vec![3, 2, 1, 0], ..PixelMap::default() }
}

fn events(rows: &[(u32, u32)]) -> Products {
    let mut p = Products::default();
    p.events.open_pulse(PulseTime(0));
    rows.iter().for_each(|&(offset, pixel)| p.events.push(offset, pixel));
    p
}

fn hits(rows: &[(u16, u32)]) -> Products {
    let mut p = Products::default();
    for &(adc, pixel) in rows {
        p.hits.time_ns.push(0);
        p.hits.adc.push(adc);
        p.hits.pixel.push(pixel);
    }
    p
}

fn accumulator(plots: Vec<Plot>) -> Accumulator {
    Accumulator::new(plots, Arc::new(four_pixels()), Duration::from_secs(10)).unwrap()
}

fn refused(plots: Vec<Plot>) -> PlotError {
    Accumulator::new(plots, Arc::new(four_pixels()), Duration::from_secs(10)).unwrap_err()
}

#[test]
fn an_image_counts_into_the_cells_of_the_map_and_strangers_are_outside() {
    let mut a = accumulator(vec![plot("i", PlotKind::Image, vec![])]);
    a.fill(&events(&[(0, 1), (0, 1), (0, 4), (0, 0), (0, 5), (0, u32::MAX)]));
    let (total, current) = a.counts("i").unwrap();
    assert_eq!(total, [1, 0, 0, 2]);
    assert_eq!(current, total);
    assert_eq!(a.tally("i"), Some(PlotTally { counted: 3, outside: 3, gated: 0 }));
}

#[test]
fn merged_events_are_counted_by_size_and_their_parts_by_source() {
    let source = || PlotKind::Histogram(axis(PlotColumn::PartSource, 0, 4, 4));
    let gate = |column, value| vec![Gate { column, min: value, max: value }];
    let mut a = accumulator(vec![
        plot("sizes", PlotKind::Histogram(axis(PlotColumn::RecordBytes, 0, 160, 2)), vec![]),
        plot("short", PlotKind::Histogram(axis(PlotColumn::RecordMissing, 0, 3, 3)), vec![]),
        plot("all", source(), vec![]),
        plot("came", source(), gate(PlotColumn::PartMissing, 0)),
        plot("missing", source(), gate(PlotColumn::PartMissing, 1)),
        plot("damaged", source(), gate(PlotColumn::PartDamaged, 1)),
    ]);
    assert_eq!(a.want(), Want { records: true, ..Want::default() });
    let mut p = Products::default();
    let piece = |len| RecordPiece { memory: [0; 64].as_slice().into(), start: 0, len };
    for (number, parts) in [
        (1, &[(0, 0), (1, flags::CHECKSUM)][..]),
        (2, &[(0, flags::UNCHECKED), (1, flags::MISSING), (3, flags::MISSING)][..]),
    ] {
        p.records.begin(number);
        for &(source, flags) in parts {
            p.records.part(RecordPart { source, flags });
            p.records.piece(&piece(8));
        }
        p.records.end(0, 0);
    }
    a.fill(&p);
    // 40 bytes, and 16 + 8 for each part.
    assert_eq!([p.records.size(0), p.records.size(1)], [88, 112]);
    assert_eq!(a.counts("sizes").unwrap().0, [0, 2]);
    assert_eq!(a.counts("short").unwrap().0, [1, 0, 1]);
    assert_eq!(a.counts("all").unwrap().0, [2, 2, 0, 1]);
    assert_eq!(a.counts("came").unwrap().0, [2, 1, 0, 0]);
    assert_eq!(a.counts("missing").unwrap().0, [0, 1, 0, 1]);
    assert_eq!(a.counts("damaged").unwrap().0, [0, 1, 0, 0]);
    assert_eq!(a.tally("came"), Some(PlotTally { counted: 3, outside: 0, gated: 2 }));
    let mixed = vec![Gate { column: PlotColumn::PartMissing, min: 0, max: 1 }];
    let sizes = PlotKind::Histogram(axis(PlotColumn::RecordBytes, 0, 9, 9));
    let refused = refused(vec![plot("x", sizes, mixed)]);
    assert!(matches!(refused, PlotError::Mixed { .. }), "{refused}");
}

#[test]
fn clusters_are_counted_by_plane_and_only_wanted_where_a_plot_shows_them() {
    let gate = |plane| vec![Gate { column: PlotColumn::ClusterPlane, min: plane, max: plane }];
    let size = || PlotKind::Histogram(axis(PlotColumn::ClusterSize, 0, 4, 4));
    let both = PlotKind::Histogram2(
        axis(PlotColumn::ClusterSpanNs, 0, 100, 2),
        axis(PlotColumn::ClusterAdc, 0, 100, 1),
    );
    let mut a = accumulator(vec![
        plot("x", size(), gate(0)),
        plot("y", size(), gate(1)),
        plot("both", both, vec![]),
        plot("plane", PlotKind::Histogram(axis(PlotColumn::ClusterPlane, 0, 2, 2)), vec![]),
    ]);
    assert_eq!(a.want(), Want { cluster_sizes: true, ..Want::default() });
    let mut p = Products::default();
    for (plane, size, span, adc) in [(0, 1, 10, 50), (1, 3, 60, 99), (0, 3, 70, 100), (0, 9, 0, 0)]
    {
        p.cluster_sizes.push(plane, size, span, adc);
    }
    a.fill(&p);
    assert_eq!(a.counts("x").unwrap().0, [0, 1, 0, 1]);
    assert_eq!(a.tally("x"), Some(PlotTally { counted: 2, outside: 1, gated: 1 }));
    assert_eq!(a.counts("y").unwrap().0, [0, 0, 0, 1]);
    assert_eq!(a.counts("both").unwrap().0, [2, 1]);
    assert_eq!(a.counts("plane").unwrap().0, [3, 1]);
    let mixed = vec![Gate { column: PlotColumn::Adc, min: 0, max: 1 }];
    assert!(matches!(refused(vec![plot("a", size(), mixed)]), PlotError::Mixed { .. }));
}

#[test]
fn the_last_single_events_are_kept_the_newest_first() {
    let tracks = |events| PlotKind::Tracks(Tracks { planes: vec!["x".into(), "y".into()], events });
    let mut a = accumulator(vec![plot("t", tracks(2), vec![])]);
    assert_eq!(a.want(), Want { tracks: true, ..Want::default() });
    let mut p = Products::default();
    for event in 0..3u16 {
        p.tracks.begin(i64::from(event));
        p.tracks.push(0, 10 + event, 5, 100);
        p.tracks.push(1, 20 + event, 6, 200);
    }
    a.fill(&p);
    let newest_two = [0, 0, 12, 5, 100, 0, 1, 22, 6, 200, 1, 0, 11, 5, 100, 1, 1, 21, 6, 200];
    assert_eq!(a.counts("t").unwrap(), (newest_two.to_vec(), newest_two.to_vec()));
    assert_eq!(a.tally("t"), Some(PlotTally { counted: 3, outside: 0, gated: 0 }));
    a.clear(None, Duration::ZERO).unwrap();
    assert!(a.counts("t").unwrap().0.is_empty());
    let rebin = Rebin { axis: 'x', first: 0, last: 1, bins: 1 };
    let said = a.rebin("t", &rebin, Duration::ZERO).unwrap_err().to_string();
    assert!(said.contains("shown as they are"), "{said}");
    for events in [0, 17] {
        assert!(matches!(
            refused(vec![plot("t", tracks(events), vec![])]),
            PlotError::Tracks { .. }
        ));
    }
}

fn projection(columns: u32, rows: u32, cell: Vec<u32>) -> PlotKind {
    PlotKind::Projection(Projection { x: "x".into(), y: "z".into(), columns, rows, cell })
}

#[test]
fn a_projection_sums_pixels_in_its_own_cells() {
    let sum = |id: &str, columns, rows, cell| plot(id, projection(columns, rows, cell), vec![]);
    let late = vec![Gate { column: PlotColumn::OffsetNs, min: 10, max: 20 }];
    let mut a = accumulator(vec![
        sum("halves", 2, 1, vec![0, 0, 1, 1]),
        sum("gap", 3, 1, vec![0, 0, 2, 2]),
        sum("all", 1, 1, vec![0; 4]),
        plot("late", projection(2, 1, vec![0, 0, 1, 1]), late),
    ]);
    assert!(!a.want().hits);
    a.fill(&events(&[(0, 1), (15, 2), (15, 4), (0, 0), (15, 5)]));
    assert_eq!(a.counts("halves").unwrap().0, [2, 1]);
    assert_eq!(a.counts("gap").unwrap().0, [2, 0, 1]);
    assert_eq!(a.counts("all").unwrap().0, [3]);
    assert_eq!(a.counts("late").unwrap().0, [1, 1]);
    assert_eq!(a.tally("all"), Some(PlotTally { counted: 3, outside: 2, gated: 0 }));
    assert_eq!(a.tally("late"), Some(PlotTally { counted: 2, outside: 1, gated: 2 }));
    a.advance(Duration::from_secs(2));
    a.fill(&events(&[(0, 3)]));
    let (total, current) = a.counts("halves").unwrap();
    assert_eq!((&total[..], &current[..]), (&[2, 2][..], &[2, 2][..]), "slices are summed as well");
    let new = Rebin { axis: 'x', first: 0, last: 2, bins: 1 };
    assert!(matches!(a.rebin("halves", &new, Duration::ZERO), Err(PlotError::Axis { .. })));
}

#[test]
fn projections_and_tiles_that_do_not_fit_the_detector_are_refused() {
    let sum =
        |columns, rows, cell| refused(vec![plot("xz", projection(columns, rows, cell), vec![])]);
    let length = sum(2, 1, vec![0, 0, 1]);
    assert_eq!(length, PlotError::Length { id: "xz".into(), cells: 3, pixels: 4 });
    assert_eq!(
        length.to_string(),
        "plot \"xz\": the projection has cells for 3 pixels, but the detector has 4; it needs one cell for each pixel"
    );
    assert!(matches!(sum(2, 1, vec![]), PlotError::Length { cells: 0, pixels: 4, .. }));
    assert!(matches!(sum(2, 1, vec![0; 5]), PlotError::Length { cells: 5, pixels: 4, .. }));
    let beyond = sum(2, 1, vec![0, 1, 2, 0]);
    assert!(matches!(beyond, PlotError::Cell { pixel: 3, cell: 2, cells: 2, .. }), "{beyond}");
    assert!(matches!(sum(0, 7, vec![0; 4]), PlotError::Cell { pixel: 1, cells: 0, .. }));
    assert!(matches!(sum(1 << 31, 1 << 31, vec![0; 4]), PlotError::TooLarge { .. }));
    let nothing = vec![plot("xz", projection(0, 0, vec![]), vec![])];
    let nothing = Accumulator::new(nothing, Arc::default(), Duration::from_secs(1));
    assert!(matches!(nothing, Err(PlotError::NoPixels { .. })), "a detector without pixels");
    let adc = vec![Gate { column: PlotColumn::Adc, min: 0, max: 1 }];
    let mixed = refused(vec![plot("xz", projection(1, 1, vec![0; 4]), adc)]);
    assert!(matches!(mixed, PlotError::Mixed { .. }));

    let tiles = |columns, rows| {
        let (name, x, y) = ("cassette".into(), "wire".into(), "strip".into());
        plot("i", PlotKind::Tiles(Tiles { name, x, y, columns, rows, upwards: false }), vec![])
    };
    for (columns, rows) in [(0, 1), (1, 0), (3, 1), (1, 3)] {
        let e = refused(vec![tiles(columns, rows)]);
        assert!(matches!(e, PlotError::Tile { width: 2, height: 2, .. }), "{e}");
        let words = format!("a tile of {columns} x {rows} cells does not fit a picture of 2 x 2");
        assert!(e.to_string().contains(&words), "{e}");
    }
    let none = Accumulator::new(vec![tiles(1, 1)], Arc::default(), Duration::from_secs(1));
    assert!(matches!(none, Err(PlotError::NoPixels { .. })));
    let mut a = accumulator(vec![tiles(1, 2)]);
    a.fill(&events(&[(0, 1), (0, 4)]));
    assert_eq!(a.counts("i").unwrap().0, [1, 0, 0, 1], "tiles are counted as the image");
}

#[test]
fn a_spectrum_counts_its_lower_edge_and_not_its_upper() {
    let x = axis(PlotColumn::OffsetNs, 10, 20, 5);
    let mut a = accumulator(vec![plot("t", PlotKind::Histogram(x), vec![])]);
    let at = [9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21];
    a.fill(&events(&at.map(|t| (t, 1))));
    assert_eq!(a.counts("t").unwrap().0, [2, 2, 2, 2, 2]);
    assert_eq!(a.tally("t"), Some(PlotTally { counted: 10, outside: 3, gated: 0 }));
}

#[test]
fn gates_hold_back_rows_of_other_columns() {
    let gate = |min, max| vec![Gate { column: PlotColumn::OffsetNs, min, max }];
    let line = PlotKind::Histogram(axis(PlotColumn::Pixel, 0, 5, 5));
    let mut two = gate(100, 200);
    two.push(Gate { column: PlotColumn::Pixel, min: 2, max: 2 });
    let mut a = accumulator(vec![
        plot("image", PlotKind::Image, gate(100, 200)),
        plot("line", line, two),
        plot("none", PlotKind::Image, gate(5, 4)),
    ]);
    a.fill(&events(&[(99, 1), (100, 1), (150, 2), (200, 3), (201, 4), (150, 9)]));
    assert_eq!(a.counts("image").unwrap().0, [0, 1, 1, 1]);
    assert_eq!(a.tally("image"), Some(PlotTally { counted: 3, outside: 1, gated: 2 }));
    assert_eq!(a.counts("line").unwrap().0, [0, 0, 1, 0, 0]);
    assert_eq!(a.tally("none"), Some(PlotTally { counted: 0, outside: 0, gated: 6 }));
}

#[test]
fn amplitudes_come_from_hits_and_ask_for_them() {
    let adc = PlotKind::Histogram(axis(PlotColumn::Adc, 0, 4096, 4096));
    let plane =
        PlotKind::Histogram2(axis(PlotColumn::HitPixel, 1, 5, 4), axis(PlotColumn::Adc, 0, 100, 2));
    let mut a = accumulator(vec![plot("adc", adc, vec![]), plot("plane", plane, vec![])]);
    assert!(a.want().hits);
    a.fill(&hits(&[(0, 1), (99, 4), (4095, 4), (4096, 2)]));
    let (adc, _) = a.counts("adc").unwrap();
    assert_eq!((adc[0], adc[99], adc[4095]), (1, 1, 1));
    assert_eq!(a.tally("adc").unwrap().outside, 1);
    assert_eq!(a.counts("plane").unwrap().0, [1, 0, 0, 0, 0, 0, 0, 1]);
    assert!(!accumulator(vec![plot("i", PlotKind::Image, vec![])]).want().hits);
}

#[test]
fn the_current_view_forgets_what_is_older_than_the_window_and_the_total_does_not() {
    let mut a = accumulator(vec![plot("i", PlotKind::Image, vec![])]);
    for second in 0..30u64 {
        a.advance(Duration::from_secs(second));
        a.fill(&events(&[(0, 1)]));
    }
    let (total, current) = a.counts("i").unwrap();
    assert_eq!(total[3], 30);
    assert_eq!(current[3], 11, "ten whole slices of 1 s, and the one that is being filled");
    a.advance(Duration::from_secs(100));
    a.advance(Duration::from_secs(200));
    let (total, current) = a.counts("i").unwrap();
    assert_eq!((total[3], current[3]), (30, 0), "a silent detector's current picture is empty");
}

#[test]
fn clearing_one_leaves_the_other() {
    let mut a =
        accumulator(vec![plot("a", PlotKind::Image, vec![]), plot("b", PlotKind::Image, vec![])]);
    a.fill(&events(&[(0, 1)]));
    a.advance(Duration::from_secs(2));
    a.fill(&events(&[(0, 2)]));
    a.clear(Some("a"), Duration::from_secs(3)).unwrap();
    assert_eq!(a.counts("a"), Some((vec![0; 4], vec![0; 4])));
    assert_eq!(a.tally("a"), Some(PlotTally::default()));
    assert_eq!(a.counts("b").unwrap().0, [0, 0, 1, 1]);
    a.clear(None, Duration::from_secs(4)).unwrap();
    assert_eq!(a.counts("b").unwrap().0, [0; 4]);
    let unknown = a.clear(Some("c"), Duration::from_secs(4)).unwrap_err();
    assert_eq!(unknown.to_string(), "there is no plot \"c\"; known: a, b");
}

#[test]
fn an_axis_can_be_changed_while_running() {
    let kind = PlotKind::Histogram(axis(PlotColumn::OffsetNs, 0, 10, 5));
    let mut a = accumulator(vec![plot("t", kind, vec![]), plot("i", PlotKind::Image, vec![])]);
    a.fill(&events(&[(3, 1), (30, 1)]));
    let new = Rebin { axis: 'x', first: 0, last: 100, bins: 10 };
    a.rebin("t", &new, Duration::from_secs(1)).unwrap();
    a.fill(&events(&[(3, 1), (30, 1)]));
    assert_eq!(a.counts("t").unwrap().0, [1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    let bad = Rebin { bins: 101, ..new };
    let error = a.rebin("t", &bad, Duration::ZERO).unwrap_err();
    assert!(error.to_string().contains("at most 100"), "{error}");
    assert_eq!(a.counts("t").unwrap().0.len(), 10, "a refused change changes nothing");
    for (id, axis) in [("i", 'x'), ("t", 'y')] {
        let new = Rebin { axis, ..new };
        assert!(matches!(a.rebin(id, &new, Duration::ZERO), Err(PlotError::Axis { .. })));
    }
}

#[test]
fn a_window_is_brought_into_its_range() {
    let mut a = accumulator(vec![]);
    a.set_window(Duration::from_secs(1000));
    assert_eq!(a.window(), Duration::from_secs(60));
    a.set_window(Duration::ZERO);
    assert_eq!(a.window(), Duration::from_secs(1));
}

#[test]
fn plots_that_cannot_be_counted_are_refused() {
    let image = |id: &str| plot(id, PlotKind::Image, vec![]);
    let line = |x| PlotKind::Histogram(x);
    assert!(matches!(refused(vec![image("a b")]), PlotError::Id { .. }));
    assert!(matches!(refused(vec![image("")]), PlotError::Id { .. }));
    assert!(matches!(refused(vec![image("a"), image("a")]), PlotError::Twice { .. }));
    let x = axis(PlotColumn::Pixel, 5, 5, 1);
    assert!(matches!(refused(vec![plot("a", line(x), vec![])]), PlotError::Axis { axis: 'x', .. }));
    let adc = vec![Gate { column: PlotColumn::Adc, min: 0, max: 1 }];
    assert!(matches!(refused(vec![plot("a", PlotKind::Image, adc)]), PlotError::Mixed { .. }));
    let wide = || axis(PlotColumn::OffsetNs, 0, 1 << 30, 1 << 12);
    let large = PlotKind::Histogram2(wide(), wide());
    assert!(matches!(refused(vec![plot("a", large, vec![])]), PlotError::TooLarge { .. }));
    let none = Accumulator::new(vec![image("a")], Arc::default(), Duration::from_secs(1));
    assert!(matches!(none, Err(PlotError::NoPixels { .. })));
    let wrong = PixelMap { cell: vec![0, 4], ..four_pixels() };
    let wrong = Accumulator::new(vec![image("a")], Arc::new(wrong), Duration::from_secs(1));
    assert!(matches!(wrong, Err(PlotError::Cell { pixel: 2, cell: 4, .. })));
}

#[test]
fn memory_stays_as_it_was_made() {
    let kind = PlotKind::Histogram(axis(PlotColumn::OffsetNs, 0, 1000, 1000));
    let mut a = accumulator(vec![plot("t", kind, vec![]), plot("i", PlotKind::Image, vec![])]);
    let before = a.bytes();
    for s in 0..1000 {
        a.fill(&events(&[(s, 1)]));
        a.advance(Duration::from_secs(u64::from(s)));
    }
    assert_eq!(a.bytes(), before);
    // 4 lanes of 1000 bins and 5 pixel numbers, each 8 + 4 + 10 slices of 4 bytes.
    assert_eq!(before, (4000 + 5) * (12 + 40));
}

proptest! {
    #[test]
    fn whatever_comes_is_counted_once(rows in proptest::collection::vec((0u32..200, 0u32..8), 0..300), min in 0u64..200, steps in proptest::collection::vec(0u64..3000, 1..5)) {
        let x = || axis(PlotColumn::OffsetNs, 20, 120, 33);
        let gate = || vec![Gate { column: PlotColumn::OffsetNs, min, max: 150 }];
        let plane = || PlotKind::Histogram2(x(), axis(PlotColumn::Pixel, 1, 5, 4));
        let mut a = accumulator(vec![
            plot("line", PlotKind::Histogram(x()), vec![]),
            plot("gated", PlotKind::Histogram(x()), gate()),
            plot("plane", plane(), vec![]),
            plot("image", PlotKind::Image, gate()),
        ]);
        let mut now = 0;
        for (i, part) in rows.chunks(rows.len() / steps.len() + 1).enumerate() {
            a.fill(&events(part));
            now += steps.get(i).copied().unwrap_or(1);
            a.advance(Duration::from_millis(now));
        }
        let bin = |t: u32| ((t - 20) * 33 / 100) as usize;
        let mut line = vec![0u64; 33];
        let mut gated = vec![0u64; 33];
        for &(t, _) in rows.iter().filter(|r| (20..120).contains(&r.0)) {
            line[bin(t)] += 1;
            gated[bin(t)] += u64::from(u64::from(t) >= min);
        }
        prop_assert_eq!(&a.counts("line").unwrap().0, &line);
        prop_assert_eq!(&a.counts("gated").unwrap().0, &gated);
        for id in ["line", "gated", "plane", "image"] {
            let t = a.tally(id).unwrap();
            let (total, current) = a.counts(id).unwrap();
            prop_assert_eq!(total.iter().sum::<u64>(), t.counted);
            prop_assert_eq!(t.counted + t.outside + t.gated, rows.len() as u64);
            prop_assert!(current.iter().zip(&total).all(|(c, t)| c <= t));
        }
    }
}
