//! Plots that suit Multi-Blade: unfolded cassettes, wires, strips, cassettes, and time.
//!
//! Ranges: pulses are shown over one period; without pulses over 20 ms, after which the
//! readout restarts the digitisers' clocks.

use fullcount_core::time::Nanos;
use fullcount_core::view::{Axis, PixelMap, Plot, PlotColumn, PlotKind, Projection, Tiles};

use super::layout::{Layout, Mode};
use crate::detector::TimeBase;

/// The readout restarts the clocks about every 20 ms (largest recorded tick 1,249,994 of 16 ns).
const RESTART_NS: u64 = 20_000_000;

/// Presets for a detector whose pixels are `map`.
pub(super) fn plots(time: &TimeBase, layout: &Layout) -> Vec<Plot> {
    let (start, next) = time.grid.around(Nanos(0));
    let period = (next.0 - start.0).unsigned_abs();
    let (title, label, last) = match (time.has_no_pulses(), time.now) {
        (true, false) => ("Time", "time after the digitiser's restart", RESTART_NS),
        (true, true) => {
            ("Time in reference block", "time after reference (no pulses configured)", period)
        }
        (false, _) => ("Time of flight", "time after pulse", period),
    };
    let tof = Axis {
        column: PlotColumn::OffsetNs,
        label: label.to_owned(),
        unit: "µs".to_owned(),
        scale: 1000.0,
        first: 0,
        last,
        bins: 1000,
    };
    let plot = |id: &str, title: &str, kind| Plot {
        id: id.to_owned(),
        title: title.to_owned(),
        kind,
        gates: Vec::new(),
        log: false,
    };
    let mut all = vec![
        plot("image", "Unfolded cassettes", PlotKind::Tiles(cassettes(layout))),
        plot("tof", title, PlotKind::Histogram(tof)),
    ];
    let (wires, strips) = (wires(layout), strips(layout));
    all.push(plot("wires", "Wires by cassette", PlotKind::Projection(wires)));
    if layout.mode == Mode::TwoD {
        all.push(plot("strips", "Strips by cassette", PlotKind::Projection(strips)));
    }
    all
}

/// The cassettes of the picture.
fn cassettes(layout: &Layout) -> Tiles {
    let (nx, ny, _, _) = layout.grid.sizes();
    let wires = u32::from(layout.sizes.wires);
    let (x, y, columns, rows) = match layout.sizes.wire_plane {
        0 => ("wire", "strip", wires, ny),
        _ => ("strip", "wire", nx, wires),
    };
    let (name, x, y) = ("cassette".to_owned(), x.to_owned(), y.to_owned());
    Tiles { name, x, y, columns, rows, upwards: false }
}

/// (column, row) of each pixel, and of the monitor's, which has the last row for itself.
fn places(map: &PixelMap) -> impl Iterator<Item = (u32, u32)> + '_ {
    map.cell.iter().map(|cell| (cell % map.columns, cell / map.columns))
}

/// A row per cassette, a column per wire.
fn wires(layout: &Layout) -> Projection {
    let (wires, rows) = (u32::from(layout.sizes.wires), u32::from(layout.sizes.cassettes));
    let wire = |(x, y): (u32, u32)| if layout.sizes.wire_plane == 0 { x } else { y };
    project("wire", wires, rows, layout, |at| (wire(at) % wires, wire(at) / wires))
}

/// A row per cassette, a column per strip or part of one.
fn strips(layout: &Layout) -> Projection {
    let (nx, ny, _, _) = layout.grid.sizes();
    let (wires, rows) = (u32::from(layout.sizes.wires), u32::from(layout.sizes.cassettes));
    let along_y = layout.sizes.wire_plane == 0;
    let columns = if along_y { ny } else { nx };
    let place = |(x, y): (u32, u32)| if along_y { (y, x / wires) } else { (x, y / wires) };
    project("strip", columns, rows, layout, place)
}

fn project(
    x: &str,
    columns: u32,
    rows: u32,
    layout: &Layout,
    place: impl Fn((u32, u32)) -> (u32, u32),
) -> Projection {
    let monitor = layout.map.pixels() > layout.grid.pixels();
    let cell = |at: (usize, (u32, u32))| {
        // The monitor's pixel gets the cell behind the last cassette. Rows are numbered upwards on the page.
        let (column, row) =
            if at.0 as u32 == layout.grid.pixels() { (0, rows) } else { place(at.1) };
        (rows + u32::from(monitor) - 1 - row) * columns + column
    };
    Projection {
        x: x.to_owned(),
        y: "cassette".to_owned(),
        columns,
        rows: rows + u32::from(monitor),
        cell: places(&layout.map).enumerate().map(cell).collect(),
    }
}
