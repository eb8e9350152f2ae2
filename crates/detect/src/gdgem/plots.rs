//! Plots that suit Gd-GEM: the picture, its two projections, and time.
//!
//! Refuses nothing. Ranges: pulses are shown over one period; without pulses over a reference block.

use fullcount_core::time::Nanos;
use fullcount_core::view::{Axis, Column, Plot, PlotKind, Projection};

use super::layout::Layout;
use crate::detector::TimeBase;

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
    vec![
        plot("image", "Image", PlotKind::Image),
        plot("tof", "Time of flight", PlotKind::Histogram(tof)),
        plot("x", "Events by x", by_x),
        plot("y", "Events by y", by_y),
    ]
}
