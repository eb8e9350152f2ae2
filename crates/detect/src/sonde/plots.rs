//! Plots that suit SoNDe: the picture, time of flight, and amplitudes of the expert modes.
//!
//! Ranges: pulses are shown over one period, runs without pulses over one reference
//! block (2³⁰ ns), which is no time of flight and is not called so; ADC values have 16 bits.

use fullcount_core::time::Nanos;
use fullcount_core::view::{Axis, Plot, PlotColumn, PlotKind};

use crate::detector::TimeBase;

/// Presets for a detector of `pixels` pixels.
pub(super) fn plots(time: &TimeBase, pixels: u32) -> Vec<Plot> {
    // The pulse that holds time 0 is as long as any other, give or take 1 ns.
    let (start, next) = time.grid.around(Nanos(0));
    let period = (next.0 - start.0).unsigned_abs();
    let axis = |column, label: &str, unit: &str, scale, first, last, bins| Axis {
        column,
        label: label.to_owned(),
        unit: unit.to_owned(),
        scale,
        first,
        last,
        bins,
    };
    let (title, label) = if time.has_no_pulses() {
        ("Time in reference block", "time after reference (no pulses configured)")
    } else {
        ("Time of flight", "time after pulse")
    };
    let tof = axis(PlotColumn::OffsetNs, label, "µs", 1000.0, 0, period, 1000);
    let adc = |bins| axis(PlotColumn::Adc, "amplitude", "ADC counts", 1.0, 0, 65_536, bins);
    // One bin per pixel of a module; above 1,024 pixels several share one.
    let end = u64::from(pixels) + 1;
    let pixel = axis(PlotColumn::HitPixel, "pixel", "", 1.0, 1, end, pixels.clamp(1, 1024));
    let plot = |id: &str, title: &str, kind, log| Plot {
        id: id.to_owned(),
        title: title.to_owned(),
        kind,
        gates: Vec::new(),
        log,
    };
    vec![
        // Small-angle pictures span decades: the rim would be black on a linear scale.
        plot("image", "Detector image", PlotKind::Image, true),
        plot("tof", title, PlotKind::Histogram(tof), false),
        plot("adc", "Amplitudes", PlotKind::Histogram(adc(1024)), true),
        plot("adc_pixel", "Amplitudes by pixel", PlotKind::Histogram2(pixel, adc(256)), true),
    ]
}
