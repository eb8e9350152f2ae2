//! Tests of the sink: pictures are published at their rate, requests are executed, time is an argument.

use super::*;
use fullcount_core::time::PulseTime;
use fullcount_core::view::PlotKind;

use crate::snapshot::RequestError;

fn image() -> Plot {
    let id = "image".to_owned();
    Plot { title: id.clone(), id, kind: PlotKind::Image, gates: vec![], log: false }
}

fn pixels(side: u32) -> PixelMap {
    let cell = (0..side * side).collect();
    PixelMap { columns: side, rows: side, cell, ..PixelMap::default() }
}

fn one_event() -> Arc<Products> {
    let mut p = Products::default();
    p.events.open_pulse(PulseTime(0));
    p.events.push(5, 1);
    Arc::new(p)
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn sum(view: &LiveView) -> u64 {
    view.snapshot().plots[0].total.iter().sum()
}

#[test]
fn pictures_come_ten_times_a_second_and_not_more_often() {
    let (mut sink, view) = live(vec![image()], pixels(2), LiveOptions::default()).unwrap();
    assert_eq!(view.snapshot().plots.len(), 1, "a viewer before the first tick sees the plots");
    sink.push(&one_event()).unwrap();
    assert_eq!(sum(&view), 0);
    sink.tick(ms(0)).unwrap();
    assert_eq!(sum(&view), 1);
    sink.push(&one_event()).unwrap();
    sink.tick(ms(99)).unwrap();
    assert_eq!(sum(&view), 1);
    sink.tick(ms(100)).unwrap();
    assert_eq!((sum(&view), view.snapshot().last_data), (2, Some(ms(99))));
}

#[test]
fn large_plots_are_shown_less_often() {
    let (mut sink, view) = live(vec![image()], pixels(1024), LiveOptions::default()).unwrap();
    sink.tick(ms(0)).unwrap();
    sink.push(&one_event()).unwrap();
    sink.tick(ms(499)).unwrap();
    assert_eq!(sum(&view), 0);
    sink.tick(ms(500)).unwrap();
    assert_eq!(sum(&view), 1, "1 Mi cells are four times the cells of 100 ms, and one more");
}

#[test]
fn unchanged_plots_keep_their_version() {
    let (mut sink, view) = live(vec![image()], pixels(2), LiveOptions::default()).unwrap();
    let version = || view.snapshot().plots[0].version;
    sink.push(&one_event()).unwrap();
    sink.tick(ms(0)).unwrap();
    let first = version();
    sink.tick(ms(100)).unwrap();
    assert_eq!(version(), first);
    sink.push(&one_event()).unwrap();
    sink.tick(ms(200)).unwrap();
    assert_eq!(version(), first + 1);
    sink.tick(ms(20_000)).unwrap();
    sink.tick(ms(40_000)).unwrap();
    assert!(version() > first + 1, "the window emptied itself");
    assert_eq!(view.snapshot().plots[0].current, [0; 4]);
}

#[test]
fn a_held_picture_does_not_change() {
    let (mut sink, view) = live(vec![image()], pixels(2), LiveOptions::default()).unwrap();
    let mut held = Vec::new();
    for i in 0..5u64 {
        sink.push(&one_event()).unwrap();
        sink.tick(ms(100 * i)).unwrap();
        held.push(view.snapshot());
    }
    let sums: Vec<u64> = held.iter().map(|s| s.plots[0].total.iter().sum()).collect();
    assert_eq!(sums, [1, 2, 3, 4, 5]);
}

#[test]
fn requests_are_followed_at_the_next_tick() {
    let (mut sink, view) = live(vec![image()], pixels(2), LiveOptions::default()).unwrap();
    sink.push(&one_event()).unwrap();
    sink.tick(ms(0)).unwrap();
    view.request(ViewerRequest::Clear(Some("image".into()))).unwrap();
    view.request(ViewerRequest::Window(Duration::from_secs(2))).unwrap();
    sink.tick(ms(10)).unwrap();
    let s = view.snapshot();
    assert_eq!((sum(&view), s.window, s.plots[0].since), (0, Duration::from_secs(2), ms(10)));
    let unknown = view.request(ViewerRequest::Clear(Some("tof".into()))).unwrap_err();
    assert!(matches!(unknown, RequestError::Plot(PlotError::Unknown { .. })), "{unknown}");
}

#[test]
fn a_filler_that_hangs_does_not_collect_requests_for_ever() {
    let (_sink, view) = live(vec![image()], pixels(2), LiveOptions::default()).unwrap();
    for _ in 0..64 {
        view.request(ViewerRequest::Clear(None)).unwrap();
    }
    assert_eq!(view.request(ViewerRequest::Clear(None)), Err(RequestError::Busy));
}

#[test]
fn the_last_counts_stay_after_the_end() {
    let (mut sink, view) = live(vec![image()], pixels(2), LiveOptions::default()).unwrap();
    sink.push(&one_event()).unwrap();
    let report = sink.finish().unwrap();
    assert_eq!((report.events, sum(&view), view.snapshot().ended), (1, 1, true));
    assert_eq!(view.request(ViewerRequest::Clear(None)), Err(RequestError::Ended));
}

#[test]
fn a_sink_that_is_dropped_says_so() {
    let (sink, view) = live(vec![image()], pixels(2), LiveOptions::default()).unwrap();
    drop(sink);
    assert!(view.snapshot().ended);
}

#[test]
fn its_hop_balances_and_strangers_are_counted() {
    let (mut sink, _view) = live(vec![image()], pixels(2), LiveOptions::default()).unwrap();
    let mut p = Products::default();
    p.events.open_pulse(PulseTime(0));
    p.events.push(0, 1);
    p.events.push(0, 99);
    sink.push(&Arc::new(p)).unwrap();
    sink.tick(ms(0)).unwrap();
    let ledger = fullcount_core::ledger::Ledger::default();
    ledger.register(sink.sheet());
    let e = ledger.read();
    assert_eq!((e.get("sink.live.events"), e.get("sink.live.outside")), (Some(2), Some(1)));
    assert_eq!((e.balance(), sink.required()), (0, false));
}

#[test]
fn what_it_counts_is_safe_at_once() {
    let (mut sink, _view) = live(vec![image()], pixels(2), LiveOptions::default()).unwrap();
    let fill = |products: &mut Products, _| {
        products.events.open_pulse(PulseTime(0));
        products.events.push(5, 1);
    };
    let mut kept = || u64::MAX;
    let case = fullcount_core::conformance::OutputCase {
        sink: &mut sink,
        fill: &fill,
        kept: &mut kept,
        at_close: false,
    };
    fullcount_core::conformance::output(case).unwrap();
}
