//! Plots that suit Gd-GEM: the picture, its two projections, time, single events, clusters, and amplitudes by VMM and channel.
//! Pads and detectors of one plane have all of it but single events, which show planes in coincidence.
//!
//! Ranges: pulses are shown over one period; without pulses over a reference block.

use fullcount_core::time::Nanos;
use fullcount_core::view::{Axis, Gate, Plot, PlotColumn, PlotKind, Projection, Tracks};

use super::layout::{CHANNELS, Layout};
use super::monitor::PADS;
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
/// Columns of a picture of channels: a page shows no more.
const MOST_COLUMNS: u64 = 1280;

/// Presets for a detector whose pixels are those of `layout`.
pub(super) fn plots(time: &TimeBase, layout: &Layout) -> Vec<Plot> {
    let (start, next) = time.grid.around(Nanos(0));
    let tof = Axis {
        column: PlotColumn::OffsetNs,
        label: "time after pulse".to_owned(),
        unit: "µs".to_owned(),
        scale: 1000.0,
        first: 0,
        last: (next.0 - start.0).unsigned_abs(),
        bins: 1000,
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
    all.extend(tracks(layout));
    all.extend(shapes(layout));
    all.extend(amplitudes(layout));
    all
}

fn plot(id: &str, title: &str, kind: PlotKind) -> Plot {
    let (id, title) = (id.to_owned(), title.to_owned());
    Plot { id, title, kind, gates: Vec::new(), log: false }
}

/// Single events, strip against time: a coincidence of planes.
fn tracks(layout: &Layout) -> Option<Plot> {
    let strips = layout.detectors.iter().filter(|d| !d.pads);
    let planes = strips.map(|d| d.lanes.len()).max().unwrap_or(0).min(PLANES.len());
    let labels = PLANES[..planes].iter().map(|plane| format!("{plane} strip")).collect();
    let kind = PlotKind::Tracks(Tracks { planes: labels, events: EVENTS });
    (planes > 1).then(|| plot("tracks", "Single events", kind))
}

/// Multiplicities and time spans of clusters, a plot for each plane and one for pads.
fn shapes(layout: &Layout) -> Vec<Plot> {
    let size = axis(PlotColumn::ClusterSize, "hits", "", (0, MOST_SIZE), MOST_SIZE);
    let span = axis(PlotColumn::ClusterSpanNs, "span", "ns", (0, MOST_SPAN_NS), 200);
    let shapes = [("size", "Hits of a cluster", size), ("span", "Time span of a cluster", span)];
    let mut all = Vec::new();
    for (id, title, x) in shapes {
        for (number, plane) in clustered(layout) {
            let kind = PlotKind::Histogram(x.clone());
            let gates = vec![Gate { column: PlotColumn::ClusterPlane, min: number, max: number }];
            let named = plot(&format!("{id}-{plane}"), &format!("{title}, {plane}"), kind);
            all.push(Plot { gates, ..named });
        }
    }
    all
}

/// What clusters are of, as their column says it, with a name: planes of strips in ascending order, then pads.
fn clustered(layout: &Layout) -> Vec<(u64, &'static str)> {
    let has = |pads: bool, plane: Option<usize>| {
        let lanes = layout.lanes.iter().filter(|lane| layout.detectors[lane.detector].pads == pads);
        lanes.into_iter().any(|lane| plane.is_none_or(|plane| usize::from(lane.plane) == plane))
    };
    let planes = PLANES.into_iter().enumerate().filter(|(number, _)| has(false, Some(*number)));
    let planes = planes.map(|(number, plane)| (number as u64, plane));
    planes.chain(has(true, None).then_some((u64::from(PADS), "pads"))).collect()
}

/// Amplitudes by VMM and by channel. Channels count from 1: 64 for each VMM that the geometry lists, by FEC and VMM.
fn amplitudes(layout: &Layout) -> [Plot; 4] {
    // A geometry without a connected channel has axes too.
    let vmms = layout.inputs().len().max(1) as u64;
    let channels = vmms * CHANNELS as u64;
    let by = |label: &str, bins| axis(PlotColumn::HitPixel, label, "", (1, channels + 1), bins);
    let adc = |bins| axis(PlotColumn::Adc, "amplitude", "ADC counts", (0, ADC), bins);
    let vmm = Axis { scale: CHANNELS as f64, ..by("VMM in the order of FEC and VMM", vmms) };
    let channel = |bins| by("channel, 64 for each VMM", bins);
    let picture = PlotKind::Histogram2(channel(channels.min(MOST_COLUMNS)), adc(128));
    [
        plot("adc-vmm", "Amplitudes by VMM", PlotKind::Histogram2(vmm, adc(128))),
        plot("adc-channel", "Amplitudes by channel", picture),
        plot("channels", "Hits by channel", PlotKind::Histogram(channel(channels))),
        Plot { log: true, ..plot("adc", "Amplitudes", PlotKind::Histogram(adc(512))) },
    ]
}

fn axis(column: PlotColumn, label: &str, unit: &str, (first, last): (u64, u64), bins: u64) -> Axis {
    let (label, unit) = (label.to_owned(), unit.to_owned());
    Axis { column, label, unit, scale: 1.0, first, last, bins: bins as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gdgem::options::Options;

    /// Detector, plane, VMM, and whether its channels are pads.
    fn layout(vmms: &[(u32, u32, u32, bool)]) -> Layout {
        let ids: Vec<u32> = (0..CHANNELS as u32).collect();
        let entry = |&(detector, plane, vmm, pads): &(u32, u32, u32, bool)| {
            let place = format!("detector = {detector}\nplane = {plane}\nfec = 1\nvmm = {vmm}");
            let second = if pads { format!("id1 = {ids:?}\n") } else { String::new() };
            format!("[[vmm_geometry]]\n{place}\nid0 = {ids:?}\n{second}")
        };
        let text: String = vmms.iter().map(entry).collect();
        Layout::read(&text, "geo", ("", ""), &Options::read("").unwrap()).unwrap()
    }

    fn of(layout: &Layout) -> Vec<Plot> {
        plots(&TimeBase::default(), layout)
    }

    /// Names of the plots behind the picture, its projections and time, in front of those of amplitudes, which all have.
    fn between(layout: &Layout) -> Vec<String> {
        let mut ids: Vec<String> = of(layout).into_iter().map(|plot| plot.id).collect();
        assert_eq!(ids[..4], ["image", "tof", "x", "y"]);
        let amplitudes = ids.split_off(ids.len() - 4);
        assert_eq!(amplitudes, ["adc-vmm", "adc-channel", "channels", "adc"]);
        ids.split_off(4)
    }

    #[test]
    fn every_detector_has_multiplicities_time_spans_and_amplitudes() {
        let (x, y, u) = ((0, 0, 0, false), (0, 1, 1, false), (0, 2, 2, false));
        let pads = (7, 1, 5, true);
        let three = ["tracks", "size-x", "size-y", "size-u", "span-x", "span-y", "span-u"];
        assert_eq!(between(&layout(&[x, y, u])), three);
        assert_eq!(between(&layout(&[x, y])), ["tracks", "size-x", "size-y", "span-x", "span-y"]);
        assert_eq!(between(&layout(&[x])), ["size-x", "span-x"]);
        assert_eq!(between(&layout(&[y])), ["size-y", "span-y"]);
        assert_eq!(between(&layout(&[pads])), ["size-pads", "span-pads"]);
        let both = ["size-x", "size-pads", "span-x", "span-pads"];
        assert_eq!(between(&layout(&[pads, x])), both);
    }

    #[test]
    fn clusters_of_each_sort_are_told_apart() {
        let plots = of(&layout(&[(0, 1, 0, false), (1, 0, 1, true)]));
        let gates: Vec<_> = plots.iter().flat_map(|plot| &plot.gates).collect();
        let seen: Vec<_> = gates.iter().map(|gate| (gate.column, gate.min, gate.max)).collect();
        let [y, pads] = [1, 3].map(|n| (PlotColumn::ClusterPlane, n, n));
        assert_eq!(seen, [y, pads, y, pads]);
    }

    #[test]
    fn a_detector_without_a_connected_channel_has_axes() {
        let text = format!(
            "[[vmm_geometry]]\ndetector = 0\nplane = 0\nfec = 1\nvmm = 0\nid0 = {:?}",
            [-1; CHANNELS]
        );
        let layout = Layout::read(&text, "geo", ("", ""), &Options::read("").unwrap()).unwrap();
        for plot in of(&layout) {
            if let PlotKind::Histogram(x) | PlotKind::Histogram2(x, _) = plot.kind {
                assert!(x.bins > 0 && x.first < x.last, "{}", plot.id);
            }
        }
    }
}
