//! Statement 59 of `docs/formats/simplified-tcp.md`: what a sweep must reach, and what the committed record reached.

use serde_json::Value;

use super::*;

const TEN: Option<u64> = Some(10_000_000_000);

fn point(link: Option<u64>, sender: &str, size: usize, gbps: f64) -> Point {
    let figure = record::Figure::of(&[gbps], "Gb/s").unwrap();
    Point { link, sender: LiveSender::named(sender).unwrap(), size, figure, cpu: 0.0 }
}

#[test]
fn s59_each_level_has_its_border() {
    for (link, sender, size, least) in [
        (TEN, "offload", 16, 8.0),
        (TEN, "offload", 64, 9.0),
        (TEN, "offload", 65_536, 9.0),
        (TEN, "frames", 16, 5.0),
        (TEN, "frames", 65_536, 5.0),
        (None, "frames", 65_536, 10.0),
        (None, "tap", 65_536, 23.0),
    ] {
        assert_eq!(missed(&[point(link, sender, size, least)]), [""; 0], "{sender} {size}");
        let below = missed(&[point(link, sender, size, least - 0.01)]);
        assert!(below.len() == 1 && below[0].contains(sender), "{below:?}");
    }
    for (link, size, of_linux) in
        [(TEN, 16, 50.0), (TEN, 64, 0.98), (TEN, 65_536, 0.98), (None, 65_536, 0.9)]
    {
        // So fast that the sizes' own levels are met.
        let linux = if size == 16 { 1.0 } else { 20.0 };
        let both = |gbps| [point(link, "offload", size, gbps), point(link, "linux", size, linux)];
        assert_eq!(missed(&both(of_linux * linux)), [""; 0], "{size}");
        let below = missed(&both(of_linux * linux - 0.01));
        assert!(below.len() == 1 && below[0].contains("Linux sockets"), "{below:?}");
    }
}

/// A committed record, and its points.
fn committed(name: &str) -> (Value, Vec<Point>) {
    let record = crate::stcp::records_tests::committed(name);
    let read = |row: &Value| {
        let link = [TEN, None].into_iter().find(|link| row["link"] == link_name(*link).as_str());
        let size = row["fragment_bytes"].as_u64().unwrap() as usize;
        let (sender, gbps) = (row["sender"].as_str().unwrap(), row["gbps"].as_f64().unwrap());
        assert!(row["repeats"].as_u64() >= Some(5), "a median of five: {row}");
        point(link.unwrap(), sender, size, gbps)
    };
    let points = record["rows"].as_array().unwrap().iter().map(read).collect();
    (record, points)
}

/// The points of a whole sweep: every size with and without offload and of Linux sockets, over both links.
fn whole_sweep(name: &str) -> (Value, Vec<Point>) {
    let (record, points) = committed(name);
    let both = [TEN, None].into_iter();
    let all = both.flat_map(|link| ["offload", "frames", "linux"].map(|sender| (link, sender)));
    for (link, sender) in all {
        let sender = LiveSender::named(sender);
        let sizes = points.iter().filter(|p| p.link == link && Some(p.sender) == sender);
        assert!(sizes.map(|p| p.size).eq(SIZES), "{name}: {} {sender:?}", link_name(link));
    }
    (record, points)
}

/// The points of the drivers at 64 KiB without a limit.
fn drivers(name: &str) -> (Value, Vec<Point>) {
    let (record, points) = committed(name);
    for sender in ["offload", "frames", "tap", "tap-frames", "xdp", "linux"] {
        let of = |p: &&Point| p.link.is_none() && p.sender.name() == sender && p.size == 65_536;
        assert!(points.iter().any(|p| of(&p)), "{name}: {sender}");
    }
    (record, points)
}

/// What this program measures with: send buffers of 1 MiB, and sockets with `cubic`.
fn of_this_program(record: &Value) {
    let parameters = &record["parameters"];
    assert_eq!(parameters["tcp_congestion_control"], CONTROL, "{parameters}");
    assert_eq!(parameters["send_buffer"], 1 << 20, "{parameters}");
}

/// The sockets have `cubic`; 50 times their rate at 16 B is more than the link has.
#[test]
fn s59_the_committed_sweep_misses_what_the_pages_say_and_nothing_else() {
    let (record, points) = whole_sweep("stcp-sweep-xeon");
    of_this_program(&record);
    let told = missed(&points);
    let [at_16] = told.as_slice() else { panic!("{told:?}") };
    assert!(at_16.contains("offload, 16 B") && at_16.contains("50 times"), "{at_16}");
}

#[test]
fn s59_the_committed_drivers_reach_every_level() {
    let (record, points) = drivers("stcp-sweep-drivers-xeon");
    of_this_program(&record);
    assert_eq!(missed(&points), [""; 0]);
}

/// An earlier program with send buffers of 2 MiB; its sockets had `bbr`, which the record does not name.
#[test]
fn s59_the_records_of_the_earlier_program_reach_every_level() {
    for (record, points) in [whole_sweep("stcp-sweep"), drivers("stcp-sweep-drivers")] {
        let parameters = &record["parameters"];
        assert_eq!(parameters["send_buffer"], 2 << 20, "{parameters}");
        assert!(parameters["tcp_congestion_control"].is_null(), "{parameters}");
        assert_eq!(missed(&points), [""; 0]);
    }
}

fn figure_of(sizes: &[usize]) -> Chart {
    let sweep = StcpSweep {
        links: vec![TEN],
        senders: vec![LiveSender::named("offload").unwrap()],
        sizes: sizes.to_vec(),
        repeats: 1,
        mtu: 9000,
        buffer: 512 << 10,
        time: Duration::ZERO,
        frames_to: None,
    };
    sweep.figure("a", TEN, &[point(TEN, "offload", sizes[0], 9.9)])
}

/// Of the paper's curves two plateaus are known, and no size but the largest that is on them.
#[test]
fn the_papers_plateaus_stand_at_the_size_that_is_known() {
    let names = |chart: &Chart| chart.lines.iter().map(|l| l.name.clone()).collect::<Vec<_>>();
    let whole = figure_of(&SIZES);
    assert_eq!(names(&whole), ["offload", PAPER[0].0, PAPER[1].0, "100 kHz"]);
    for (line, gbps) in whole.lines[1..3].iter().zip([9.89, 6.89]) {
        let dots: Vec<(f64, f64)> = line.dots.iter().map(|d| (d.x, d.y)).collect();
        assert_eq!(dots, [(65_536.0, gbps)], "{}", line.name);
        assert!(line.name.contains("plateau") && line.colour != whole.lines[0].colour);
    }
    assert_eq!(names(&figure_of(&[16, 16_384])), ["offload", "100 kHz"]);
    assert_eq!(names(&figure_of(&[65_536])), ["offload", PAPER[0].0, PAPER[1].0]);
}

/// 100 kHz times the size, at every size: no straight line over a logarithmic axis.
#[test]
fn the_line_of_100_khz_is_the_rate_of_each_size() {
    let whole = figure_of(&SIZES);
    let line = &whole.lines[3];
    let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
    assert!(line.dots.iter().all(|d| near(d.y, d.x * 8e-4)), "{line:?}");
    assert!(near(line.dots[0].x, 16.0) && near(line.dots[64].x, 12_500.0), "{line:?}");
    let steps = line.dots.windows(2).map(|pair| pair[1].x / pair[0].x);
    assert!(steps.fold(1.0, f64::max) < 1.2, "close enough for a curve: {line:?}");
}
