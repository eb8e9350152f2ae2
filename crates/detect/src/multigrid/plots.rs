//! Plots that suit Multi-Grid: all layers side by side, the sums along each axis, time of flight, amplitudes.
//!
//! Ranges: pulses are shown over one period; without a grid of pulses over one reference
//! block (2³⁰ ns); amplitudes have 16 bits behind rescaling, 12 before.

use fullcount_core::time::Nanos;
use fullcount_core::view::{Axis, Plot, PlotColumn, PlotKind, Projection, Tiles};

use crate::detector::TimeBase;
use crate::geometry::logical::Logical;

/// Presets for a detector of these sizes.
pub(super) fn plots(time: &TimeBase, logical: Logical) -> Vec<Plot> {
    let (start, next) = time.grid.around(Nanos(0));
    let period = (next.0 - start.0).unsigned_abs();
    let (title, label) = match time.has_no_pulses() {
        true if time.pulses_in_data => ("Time of flight", "time after external trigger"),
        true => ("Time in reference block", "time after reference (no pulses configured)"),
        false => ("Time of flight", "time after pulse"),
    };
    let axis = |column, label: &str, unit: &str, scale, last, bins| Axis {
        column,
        label: label.to_owned(),
        unit: unit.to_owned(),
        scale,
        first: 0,
        last,
        bins,
    };
    let tof = axis(PlotColumn::OffsetNs, label, "µs", 1000.0, period, 1000);
    let adc =
        axis(PlotColumn::Adc, "amplitude of the strongest wire", "ADC counts", 1.0, 4096, 1024);
    let plot = |id: &str, title: &str, kind, log| Plot {
        id: id.to_owned(),
        title: title.to_owned(),
        kind,
        gates: Vec::new(),
        log,
    };
    let (nx, ny, nz, _) = logical.sizes();
    type Take = fn((u32, u32, u32, u32)) -> u32;
    let (x, y, z): (Take, Take, Take) = (|p| p.0, |p| p.1, |p| p.2);
    let sum = |names: [&str; 2], sizes: [u32; 2], take: [Take; 2]| {
        let [columns, rows] = sizes;
        let places = (1..=logical.pixels()).filter_map(|pixel| logical.place(pixel));
        let cell = |p| (rows - 1 - take[1](p)) * columns + take[0](p);
        let [x, y] = names.map(str::to_owned);
        PlotKind::Projection(Projection { x, y, columns, rows, cell: places.map(cell).collect() })
    };
    let layers = Tiles {
        name: "layer".to_owned(),
        x: "x".to_owned(),
        y: "grid".to_owned(),
        columns: nx,
        rows: ny,
        upwards: true,
    };
    vec![
        plot("image", "Layers side by side, front first", PlotKind::Tiles(layers), true),
        plot("xy", "Front view: sum over depth", sum(["x", "y (grid)"], [nx, ny], [x, y]), false),
        plot("xz", "Top view: sum over grids", sum(["x", "z (layer)"], [nx, nz], [x, z]), false),
        plot(
            "zy",
            "Side view: sum over x",
            sum(["z (layer)", "y (grid)"], [nz, ny], [z, y]),
            false,
        ),
        plot("tof", title, PlotKind::Histogram(tof), false),
        plot("adc", "Amplitudes", PlotKind::Histogram(adc), true),
    ]
}
