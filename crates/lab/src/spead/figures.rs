//! The memo's figures 2 to 6, drawn of our points with the memo's beside.

use super::memo::{self, MemoPoint, MemoTcp};
use super::mro::{BufferPoint, Point, Preset, mean};
use crate::plot::{Chart, ChartLine, Dot, PlotAxis, Stroke};

fn dot(x: f64, values: &[f64]) -> Option<Dot> {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let spread = (values.len() > 1).then_some((least, most));
    mean(values).map(|y| Dot { x, y, spread, below: false })
}

fn line(name: String, colour: usize, stroke: Stroke, dots: Vec<Dot>) -> Option<ChartLine> {
    (!dots.is_empty()).then_some(ChartLine { name, colour, stroke, dots })
}

fn of_memo(points: &[MemoPoint], what: fn(&MemoPoint) -> Option<f64>) -> Vec<Dot> {
    let dot = |p: &MemoPoint| what(p).map(|y| Dot { x: p.target, y, spread: None, below: false });
    points.iter().filter_map(dot).collect()
}

fn peers(points: &[Point]) -> Vec<&'static str> {
    let mut names: Vec<&str> = points.iter().map(|p| p.peer).collect();
    names.dedup();
    names.sort_unstable();
    names.dedup();
    names
}

fn figure(name: &str, title: &str, x: &str, y: &str, lines: Vec<ChartLine>) -> Option<Chart> {
    (!lines.is_empty()).then(|| Chart {
        name: name.to_owned(),
        title: title.to_owned(),
        x_label: x.to_owned(),
        y_label: y.to_owned(),
        x_axis: PlotAxis::Linear(0.0),
        axis: PlotAxis::Linear(0.0),
        lines,
    })
}

const TARGET: &str = "Target rate of each stream, Gb/s at the memo's scale";

/// TCP has no target: its speed is a level across the figure.
fn over_tcp(preset: &Preset, points: &[Point]) -> Vec<ChartLine> {
    let targets = points.iter().filter_map(|p| p.target);
    let targets = targets.chain(preset.memo.iter().map(|p| p.target));
    let (first, last) =
        targets.fold((f64::INFINITY, 0.0), |(low, high), t| (t.min(low), t.max(high)));
    if first > last {
        return Vec::new();
    }
    let level = |name: String, colour: usize, y: f64| {
        let dots = [first, last].map(|x| Dot { x, y, spread: None, below: false });
        line(name, colour, Stroke::Limit, dots.to_vec())
    };
    let mut lines = Vec::new();
    for (colour, peer) in peers(points).into_iter().enumerate() {
        let own = points.iter().find(|p| p.peer == peer && p.target.is_none());
        // Whole heaps: the sum of a short run has what fits into the buffers.
        let sum = own.and_then(|p| mean(&p.effective));
        lines.extend(sum.and_then(|y| level(format!("{peer}: TCP"), colour, y)));
    }
    let sum = memo::tcp_sum(preset.name).map(|sum| match sum {
        MemoTcp::Sum(y) | MemoTcp::AsLossless(y) => y,
    });
    lines.extend(sum.and_then(|y| level("memo: TCP".to_owned(), 6, y)));
    lines
}

/// Sum, effective sum and loss over the target rate.
pub(super) fn preset(base: &str, preset: &Preset, points: &[Point]) -> Vec<Chart> {
    let (mut rates, mut losses) = (Vec::new(), Vec::new());
    for (colour, peer) in peers(points).into_iter().enumerate() {
        let of = |what: fn(&Point) -> &[f64]| -> Vec<Dot> {
            let own = points.iter().filter(|p| p.peer == peer);
            own.filter_map(|p| dot(p.target?, what(p))).collect()
        };
        rates.extend(line(format!("{peer}: sum"), colour, Stroke::Solid, of(|p| &p.sum)));
        rates.extend(line(
            format!("{peer}: effective"),
            colour,
            Stroke::Dashed,
            of(|p| &p.effective),
        ));
        losses.extend(line(peer.to_owned(), colour, Stroke::Solid, of(|p| &p.loss)));
    }
    rates.extend(over_tcp(preset, points));
    rates.extend(line("memo: sum".to_owned(), 6, Stroke::Solid, of_memo(preset.memo, |p| p.sum)));
    losses.extend(line("memo".to_owned(), 6, Stroke::Solid, of_memo(preset.memo, |p| p.loss)));
    let title = |what: &str| format!("{}: {what}", preset.name.to_uppercase());
    let name = |what: &str| format!("{base}-{}-{what}", preset.name);
    let all = [
        figure(&name("rate"), &title("all streams"), TARGET, "Sum of all streams, Gb/s", rates),
        figure(&name("loss"), &title("heaps lost"), TARGET, "Heaps lost, %", losses),
    ];
    all.into_iter().flatten().collect()
}

/// Sum, effective speed and loss over the target rate, a figure each, with a line for each number of senders.
pub(super) fn scaling(base: &str, points: &[Point]) -> Vec<Chart> {
    type Values = fn(&Point) -> &[f64];
    let all: [(&str, &str, &str, Values); 3] = [
        ("sum", "all senders", "Sum of all senders, Gb/s", |p| &p.sum),
        ("effective", "whole heaps", "Whole heaps received, Gb/s", |p| &p.effective),
        ("loss", "heaps lost", "Heaps lost, %", |p| &p.loss),
    ];
    let one = |(what, title, y, values): (&str, &str, &str, Values)| {
        let mut lines = Vec::new();
        for peer in peers(points) {
            for senders in 1..=4 {
                let own = points.iter().filter(|p| p.peer == peer && p.streams == senders);
                let dots = own.filter_map(|p| dot(p.target?, values(p))).collect();
                let stroke = if peer == "fullcount" { Stroke::Solid } else { Stroke::Dashed };
                lines.extend(line(format!("{peer}: {senders}"), senders - 1, stroke, dots));
            }
        }
        // Of effective speed and loss the memo gives no numbers.
        for (senders, points) in memo::SCALING.into_iter().filter(|_| what == "sum") {
            let dots = of_memo(points, |p| p.sum);
            lines.extend(line(format!("memo: {senders}"), 5 + senders / 4, Stroke::Solid, dots));
        }
        let title = format!("Senders on one interface of 40 Gb/s: {title}");
        figure(&format!("{base}-scaling-{what}"), &title, TARGET, y, lines)
    };
    all.into_iter().filter_map(one).collect()
}

/// Rate over buffers, a line for each transport and round trip.
pub(super) fn buffers(base: &str, points: &[BufferPoint]) -> Vec<Chart> {
    let mut keys: Vec<(&str, bool, f64)> = Vec::new();
    for p in points {
        let key = (p.peer, p.tcp, p.round_trip_ms);
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let lines = keys.iter().enumerate().filter_map(|(n, &(peer, tcp, ms))| {
        let own = points.iter().filter(|p| (p.peer, p.tcp, p.round_trip_ms) == (peer, tcp, ms));
        let dots = own.filter_map(|p| dot(p.buffer as f64 / f64::from(1 << 20), &p.gbps)).collect();
        let stroke = if tcp { Stroke::Solid } else { Stroke::Dashed };
        let transport = if tcp { "TCP" } else { "UDP" };
        line(format!("{peer} {transport}, {ms} ms"), n / 2, stroke, dots)
    });
    let (x, y) = ("Socket buffers, MiB", "Whole heaps, Gb/s");
    let lines = lines.collect();
    figure(&format!("{base}-buffers"), "Socket buffers and round trips", x, y, lines)
        .into_iter()
        .collect()
}
