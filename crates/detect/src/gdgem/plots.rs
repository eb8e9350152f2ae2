//! Plots that suit Gd-GEM: the picture, its two projections, time, single events, clusters, and amplitudes by VMM and channel.
//!
//! Refuses nothing. Ranges: pulses are shown over one period; without pulses over a reference block.

use fullcount_core::time::Nanos;
use fullcount_core::view::{Axis, Column, Gate, Plot, PlotKind, Projection, Tracks};

use super::layout::{CHANNELS, Layout};
use crate::detector::TimeBase;

/// Hits of a cluster that are shown: twenty, and what is too much.
const MOST_SIZE: u64 = 32;
/// Time spans of a cluster that are shown, ns.
const MOST_SPAN_NS: u64 = 1000;
/// Amplitudes: 10 bits.
const ADC: u64 = 1024;
/// Single events that are kept.
const EVENTS: u32 = 16;
/// Names of the planes.
const PLANES: [&str; 3] = ["x", "y", "u"];

/// Presets for a detector whose pixels are those of `layout`.
pub(super) fn plots(time: &TimeBase, layout: &Layout) -> Vec<Plot> {
    let (start, next) = time.grid.around(Nanos(0));
    let tof = Axis {
        column: Column::OffsetNs,
        label: "time after pulse".to_owned(),
        unit: "µs".to_owned(),
        scale: 1000.0,
        first: 0,
        last: (next.0 - start.0).unsigned_abs(),
        bins: 1000,
    };
    let plot = |id: &str, title: &str, kind| Plot {
        id: id.to_owned(),
        title: title.to_owned(),
        kind,
        gates: Vec::new(),
        log: false,
    };
    let (nx, ny, _, panels) = layout.grid.sizes();
    let cells = |cell: &dyn Fn(u32, u32, u32) -> u32| {
        let place = |p| layout.grid.place(p).map_or(0, |(x, y, _, panel)| cell(x, y, panel));
        (1..=layout.grid.pixels()).map(place).collect()
    };
    let project = |x: &str, columns: u32, cell: Vec<u32>| {
        PlotKind::Projection(Projection {
            x: x.to_owned(),
            y: "detector".to_owned(),
            columns,
            rows: panels,
            cell,
        })
    };
    let by_x = project("x", nx, cells(&|x, _, panel| panel * nx + x));
    let by_y = project("y", ny, cells(&|_, y, panel| panel * ny + y));
    let mut all = vec![
        plot("image", "Image", PlotKind::Image),
        plot("tof", "Time of flight", PlotKind::Histogram(tof)),
        plot("x", "Events by x", by_x),
        plot("y", "Events by y", by_y),
    ];
    let planes = planes(layout);
    if planes < 2 {
        return all;
    }
    let labels = PLANES[..planes].iter().map(|plane| format!("{plane} strip")).collect();
    all.push(plot(
        "tracks",
        "Single events",
        PlotKind::Tracks(Tracks { planes: labels, events: EVENTS }),
    ));
    let span = (0, MOST_SPAN_NS);
    let shapes = [
        (
            "size",
            "Hits of a cluster",
            axis(Column::ClusterSize, "hits", "", (0, MOST_SIZE), MOST_SIZE),
        ),
        ("span", "Time span of a cluster", axis(Column::ClusterSpanNs, "span", "ns", span, 200)),
    ];
    for (id, title, x) in shapes {
        for (number, plane) in PLANES[..planes].iter().enumerate() {
            let number = number as u64;
            all.push(Plot {
                gates: vec![Gate { column: Column::ClusterPlane, min: number, max: number }],
                ..plot(
                    &format!("{id}-{plane}"),
                    &format!("{title}, {plane}"),
                    PlotKind::Histogram(x.clone()),
                )
            });
        }
    }
    let vmms = layout.inputs().len() as u64;
    let channels = vmms * CHANNELS as u64;
    // Channels count from 1: 64 for each VMM that the geometry lists, by FEC and VMM.
    let by = |label: &str, bins| axis(Column::HitPixel, label, "", (1, channels + 1), bins);
    let adc = |bins| axis(Column::Adc, "amplitude", "ADC counts", (0, ADC), bins);
    let vmm = Axis { scale: CHANNELS as f64, ..by("VMM in the order of FEC and VMM", vmms) };
    all.push(plot("adc-vmm", "Amplitudes by VMM", PlotKind::Histogram2(vmm, adc(128))));
    let channel = by("channel, 64 for each VMM", channels.min(MOST_COLUMNS));
    all.push(plot("adc-channel", "Amplitudes by channel", PlotKind::Histogram2(channel, adc(128))));
    all.push(plot(
        "channels",
        "Hits by channel",
        PlotKind::Histogram(by("channel, 64 for each VMM", channels)),
    ));
    all.push(Plot { log: true, ..plot("adc", "Amplitudes", PlotKind::Histogram(adc(512))) });
    all
}

/// Columns of a picture of channels: a page shows no more.
const MOST_COLUMNS: u64 = 1280;

/// Planes of the strip detector with most of them; 0 for pads.
fn planes(layout: &Layout) -> usize {
    let strips = layout.detectors.iter().filter(|d| !d.pads);
    strips.map(|d| d.lanes.len()).max().unwrap_or(0).min(PLANES.len())
}

fn axis(column: Column, label: &str, unit: &str, (first, last): (u64, u64), bins: u64) -> Axis {
    let (label, unit) = (label.to_owned(), unit.to_owned());
    Axis { column, label, unit, scale: 1.0, first, last, bins: bins as u32 }
}
