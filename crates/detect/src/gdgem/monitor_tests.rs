//! Tests of what the page is shown: channels, clusters, single events, and that there is never too much.

use super::*;
use crate::gdgem::layout::Layout;
use crate::gdgem::options::Options;

fn layout() -> Arc<Layout> {
    Arc::new(Layout::read("", "", ("", ""), &Options::read("").unwrap()).unwrap())
}

fn row(ns: f64, lane: u8, coordinate: u16, weight: u16) -> FineHit {
    FineHit { time: FineHit::key(ns), lane, coordinate, weight, ..FineHit::default() }
}

fn cluster(first: f64, last: f64, pos: f64) -> PlaneCluster {
    PlaneCluster { size: 2, adc: 300, pos, first, last, ..PlaneCluster::default() }
}

fn wanting(want: Want) -> Products {
    Products { want, ..Products::default() }
}

#[test]
fn amplitudes_come_with_their_channel_and_only_where_wanted() {
    let layout = layout();
    let mut monitor = Monitor::new(&layout, 1000);
    let rows = [row(5.5, 0, 3, 77), row(6.0, 1, 0, 78), row(9.0, FineHit::BORDER, 0, 0)];
    let mut products = wanting(Want::default());
    monitor.begin(&mut products, &rows);
    monitor.end(&mut products);
    assert!(products.is_empty());
    let mut products = wanting(Want::ALL);
    monitor.begin(&mut products, &rows);
    monitor.end(&mut products);
    assert_eq!(
        (&products.hits.time_ns[..], &products.hits.adc[..]),
        (&[1005, 1006][..], &[77, 78][..])
    );
    // The channel leads back to the strip.
    for (channel, row) in products.hits.pixel.iter().zip(&rows) {
        let (fec, vmm) = layout.inputs()[(*channel as usize - 1) / CHANNELS];
        let at = vmm * CHANNELS + (*channel as usize - 1) % CHANNELS;
        let place = layout.fecs[fec].as_ref().unwrap().places[at];
        assert_eq!((place.lane, place.coordinate), (row.lane, row.coordinate));
    }
}

#[test]
fn more_than_a_display_can_use_is_left_out_by_whole_calls() {
    let mut monitor = Monitor::new(&layout(), 0);
    let mut products = wanting(Want::ALL);
    let mut all = 0;
    for call in 0..1000 {
        // 1000 hits in each 50 µs: 20 M/s.
        let border = row(5e4 * f64::from(call), FineHit::BORDER, 0, 0);
        let mut rows = vec![row(0.0, 0, 1, 50); 1000];
        rows.push(border);
        all += rows.len();
        monitor.begin(&mut products, &rows);
        monitor.end(&mut products);
    }
    let shown = products.hits.adc.len();
    // 100,000 at once and 2 M/s over 50 ms.
    assert!((195_000..=205_000).contains(&shown) && shown.is_multiple_of(1000), "{shown} of {all}");
}

#[test]
fn one_event_in_fifty_milliseconds_is_shown_hit_by_hit() {
    let mut monitor = Monitor::new(&layout(), 7);
    let mut products = wanting(Want::ALL);
    for event in 0..200 {
        let at = 1e6 * f64::from(event);
        monitor.begin(&mut products, &[]);
        let x = [row(at + 20.0, 0, 5, 100), row(at + 90.9, 0, 6, 200)];
        let y = [row(at + 10.0, 1, 50, 100), row(at + 80.0, 1, 51, 200)];
        let planes = [cluster(at + 20.0, at + 90.9, 5.7), cluster(at + 10.0, at + 80.0, 50.7)];
        monitor.plane(0, 0, &planes[0], &x);
        monitor.plane(0, 1, &planes[1], &y);
        // A cluster of another panel with the same values is another one.
        monitor.matched(1, [Some(&planes[0]), Some(&planes[1]), None]);
        monitor.matched(0, [Some(&planes[0]), Some(&planes[1]), None]);
        monitor.end(&mut products);
    }
    let t = &products.tracks;
    assert_eq!(t.event_ns, [17, 50_000_017, 100_000_017, 150_000_017]);
    assert_eq!(t.events().next(), Some(0..4));
    assert_eq!((&t.plane[..4], &t.strip[..4]), (&[0, 0, 1, 1][..], &[5, 6, 50, 51][..]));
    assert_eq!((&t.later_ns[..4], &t.adc[..4]), (&[10, 80, 0, 70][..], &[100, 200, 100, 200][..]));
    assert_eq!((products.cluster_sizes.plane.len(), products.cluster_sizes.span_ns[0]), (400, 70));
}

#[test]
fn clusters_that_never_find_a_partner_do_not_fill_the_memory() {
    let mut monitor = Monitor::new(&layout(), 0);
    let mut products = wanting(Want::ALL);
    monitor.begin(&mut products, &[]);
    let add = |monitor: &mut Monitor, plane: u8, n: u32| {
        let at = f64::from(n);
        let pos = f64::from(plane);
        let c = cluster(at, at + 1.0, pos);
        monitor.plane(0, plane, &c, &[row(at, plane, 1, 9); 2]);
        c
    };
    // A release of many: all of x come before all of y, and the first ones of both still meet.
    monitor.release();
    let x: Vec<_> = (0..100_000).map(|n| add(&mut monitor, 0, n)).collect();
    assert_eq!(monitor.waiting.len(), usize::from(MOST_WAITING));
    let y: Vec<_> = (0..100_000).map(|n| add(&mut monitor, 1, n)).collect();
    assert_eq!(monitor.waiting.len(), 2 * usize::from(MOST_WAITING));
    monitor.matched(0, [Some(&x[500]), Some(&y[500]), None]);
    assert!(monitor.tracks.first.is_empty(), "one that was not kept");
    monitor.matched(0, [Some(&x[5]), Some(&y[5]), None]);
    assert_eq!(monitor.tracks.event_ns, [5]);
    assert!(monitor.waiting.is_empty() && monitor.hits.is_empty());
    // Those of planes that never meet are forgotten with the release after the next.
    monitor.due = 0.0;
    add(&mut monitor, 0, 7);
    monitor.release();
    assert_eq!(monitor.waiting.len(), 1);
    monitor.release();
    assert!(monitor.waiting.is_empty());
}

/// A detector of 64 pads in 8 columns, beside one plane of strips.
fn layout_of_pads() -> Arc<Layout> {
    let [columns, rows] = [|n: u32| n / 8, |n: u32| n % 8].map(|of| (0..64).map(of));
    let (columns, rows): (Vec<u32>, Vec<u32>) = (columns.collect(), rows.collect());
    let strips: Vec<u32> = (0..64).collect();
    let text = format!(
        "[[vmm_geometry]]\ndetector = 0\nplane = 0\nfec = 2\nvmm = 5\nid0 = {columns:?}\nid1 = {rows:?}\n\
         [[vmm_geometry]]\ndetector = 1\nplane = 1\nfec = 2\nvmm = 9\nid0 = {strips:?}\n"
    );
    Arc::new(Layout::read(&text, "", ("", ""), &Options::read("").unwrap()).unwrap())
}

#[test]
fn amplitudes_of_pads_come_with_the_channel_of_column_and_row() {
    let layout = layout_of_pads();
    let mut monitor = Monitor::new(&layout, 0);
    let pad = |column, second| FineHit { second, ..row(5.0, 0, column, 70) };
    let rows = [pad(0, 0), pad(0, 7), pad(7, 0), pad(7, 7), row(6.0, 1, 3, 71), pad(8, 0)];
    let mut products = wanting(Want::ALL);
    monitor.begin(&mut products, &rows);
    monitor.end(&mut products);
    // The last one is no pad.
    assert_eq!(products.hits.pixel, [1, 8, 57, 64, 68]);
    let mut products = wanting(Want::default());
    monitor.begin(&mut products, &rows);
    monitor.end(&mut products);
    assert!(products.is_empty());
}

#[test]
fn clusters_of_pads_and_of_one_plane_are_shown_where_wanted() {
    let layout = layout_of_pads();
    let pads = PadCluster {
        size0: 2,
        size1: 2,
        size2: 3,
        adc: 5_000_000_000,
        first: 10.25,
        last: 52.5,
        ..PadCluster::default()
    };
    for (want, wanted) in [(Want::ALL, [PADS, 1].as_slice()), (Want::default(), &[])] {
        let mut monitor = Monitor::new(&layout, 0);
        let mut products = wanting(want);
        monitor.begin(&mut products, &[]);
        monitor.pads(&pads);
        monitor.plane(1, 1, &cluster(20.0, 90.9, 5.0), &[]);
        monitor.end(&mut products);
        let sizes = &products.cluster_sizes;
        assert_eq!(sizes.plane, wanted);
        if !wanted.is_empty() {
            assert_eq!((&sizes.size[..], &sizes.span_ns[..]), (&[3, 2][..], &[42, 70][..]));
            assert_eq!(sizes.adc, [u32::MAX, 300]);
        }
        assert!(products.tracks.first.is_empty());
    }
}
