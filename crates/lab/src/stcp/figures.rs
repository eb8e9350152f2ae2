//! Figures 5 and 6 of the paper: rate on a link and useful rate of the first sender over time, with the paper's numbers as lines.

use super::cell::{ScanCell, ScanOutcome};
use crate::plot::{Chart, ChartLine, Dot, PlotAxis, Stroke};

/// The paper's figure 5: useful rate of each sender, Gb/s, while five send and after one has stopped.
pub const PAPER_USEFUL_GBPS: f64 = 0.69;
/// The paper's figure 5: highest rate of one link, Gb/s.
pub const PAPER_LINK_GBPS: f64 = 5.0;

/// Width of what a dot stands for, ns.
const DOT_NS: u64 = 100_000_000;

fn dot(x: f64, y: f64) -> Dot {
    Dot { x, y, spread: None, below: false }
}

/// `of_paper`: the numbers of figure 5 are drawn beside.
pub fn over_time(
    name: &str,
    title: &str,
    cell: &ScanCell,
    outcome: &ScanOutcome,
    of_paper: bool,
) -> Chart {
    // Dots are wider than bins: what one segment more or less does is no news.
    let bins = (DOT_NS / cell.bin_ns.max(1)).max(1) as usize;
    let width = bins as f64 * cell.bin_ns as f64 / 1e9;
    let series = |f: &dyn Fn(&super::network::Bin) -> f64| -> Vec<Dot> {
        let lane = outcome.course.bins.first().map_or(&[][..], Vec::as_slice);
        let rate = |some: &[super::network::Bin]| some.iter().map(f).sum::<f64>() / width / 1e9;
        let dots = lane.chunks_exact(bins).enumerate();
        dots.map(|(i, some)| dot((i as f64 + 0.5) * width, rate(some))).collect()
    };
    let line = |name: &str, colour, stroke, dots| ChartLine {
        name: name.to_owned(),
        colour,
        stroke,
        dots,
    };
    let mut lines = vec![
        line("on the link", 1, Stroke::Line, series(&|b| b.wire_bits as f64)),
        line("useful", 0, Stroke::Line, series(&|b| b.useful_bytes as f64 * 8.0)),
    ];
    let end = cell.end_ns as f64 / 1e9;
    if let Some(bps) = cell.offered_bps() {
        let dots = vec![dot(0.0, bps / 1e9), dot(end, bps / 1e9)];
        lines.push(line("source", 6, Stroke::Floor, dots));
    }
    if let Some((from, _)) = cell.guest_ns.filter(|_| of_paper) {
        let from = from as f64 / 1e9;
        for (name, colour, value) in [
            ("paper: link 5 Gb/s", 1, PAPER_LINK_GBPS),
            ("paper: useful 0.69 Gb/s", 0, PAPER_USEFUL_GBPS),
        ] {
            let dots = vec![dot(from, value), dot(end, value)];
            lines.push(line(name, colour, Stroke::Limit, dots));
        }
    }
    Chart {
        name: name.to_owned(),
        title: title.to_owned(),
        x_label: "Time, s".to_owned(),
        y_label: "Rate of one sender, Gb/s".to_owned(),
        x_axis: PlotAxis::Linear(0.0),
        axis: PlotAxis::Linear(0.0),
        lines,
    }
}
