//! Where Multi-Blade pixels are: unfolded cassettes in the picture, inclined blades in space.
//!
//! Wires of a cassette lie on a blade that is inclined to the beam, so neighbouring ones are seen close together
//! and lie one behind the other. Refuses lengths and angles out of range. Source:
//! Christensen et al. 2018, section 2; `docs/multiblade.md`, "Places".

use fullcount_core::refusal::Refusal;
use fullcount_core::view::PixelMap;

use super::Options;
use super::layout::{File, Refuse, Sizes};

/// Pixels of a detector; with the monitor's own one last, if it has one.
pub(super) fn pixels(
    file: &File,
    sizes: &Sizes,
    options: &Options,
    refuse: &Refuse<'_>,
) -> Result<PixelMap, Refusal> {
    let p = &file.panel;
    for (key, value, most) in [
        ("panel.wire_pitch_mm", p.wire_pitch_mm, 1000.0),
        ("panel.strip_pitch_mm", p.strip_pitch_mm, 1000.0),
        ("panel.blade_angle_deg", p.blade_angle_deg, 90.0),
        ("panel.cassette_pitch_mm", p.cassette_pitch_mm.unwrap_or(1.0), 10_000.0),
    ] {
        if !(value > 0.0 && value <= most) {
            return Err(refuse.value(key, value, &format!("above 0, up to {most}")));
        }
    }
    if !(0.0..=1000.0).contains(&p.distance_m) {
        return Err(refuse.value("panel.distance_m", p.distance_m, "0..=1000"));
    }
    let (nx, ny) = sizes.grid(options.subpixels);
    let angle = p.blade_angle_deg.to_radians();
    let wires = f64::from(sizes.wires);
    let seen_mm = p.wire_pitch_mm * angle.sin();
    let cassette_mm = p.cassette_pitch_mm.unwrap_or(wires * seen_mm);
    let middle = |n: f64| (n - 1.0) / 2.0;
    // Centre of a wire: across the beam, and along it behind the middle of its blade.
    let wire = |coordinate: u32| {
        let (cassette, wire) =
            (coordinate / u32::from(sizes.wires), coordinate % u32::from(sizes.wires));
        let on_blade = f64::from(wire) - middle(wires);
        let cassette = f64::from(cassette) - middle(f64::from(sizes.cassettes));
        (cassette * cassette_mm + on_blade * seen_mm, on_blade * p.wire_pitch_mm * angle.cos())
    };
    let strip = |cell: u32| {
        let (cells, parts) =
            (f64::from(sizes.strips) * f64::from(options.subpixels), options.subpixels);
        (f64::from(cell) - middle(cells)) * p.strip_pitch_mm / f64::from(parts)
    };
    let n = (u64::from(nx) * u64::from(ny)) as usize + usize::from(options.monitor_pixel());
    let mut map = PixelMap {
        name: p.name.clone(),
        columns: nx,
        rows: ny,
        distance_m: p.distance_m,
        ..PixelMap::default()
    };
    for column in [&mut map.x_m, &mut map.y_m, &mut map.z_m] {
        column.reserve_exact(n);
    }
    for y in 0..ny {
        for x in 0..nx {
            let ((across, behind), along) =
                if sizes.wire_plane == 0 { (wire(x), strip(y)) } else { (wire(y), strip(x)) };
            let (right, down) =
                if sizes.wire_plane == 0 { (across, along) } else { (along, across) };
            // Columns count to the right as the sample sees the panel, x to the left; rows down, y up.
            map.x_m.push(-right / 1000.0);
            map.y_m.push(-down / 1000.0);
            map.z_m.push(behind / 1000.0);
        }
    }
    if options.monitor_pixel() {
        // A row of its own below the picture; it stands in the beam, before the detector.
        map.rows += 1;
        map.x_m.push(0.0);
        map.y_m.push(0.0);
        map.z_m.push(0.0);
    }
    // Pixel numbers run row by row, so a pixel's cell is its number.
    map.cell = (0..n as u32).collect();
    Ok(map)
}
