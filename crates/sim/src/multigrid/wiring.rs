//! Which channel a wire or grid of a simulated Multi-Grid is wired to, and which pixel they make.
//!
//! Modules of 80 wires (4 rows × 20 layers) and 40 grids side by side, wired as `MG24A` with pairs of wires swapped and
//! both flips, as in the published configuration of three modules. [`super::MultiGrid::new`] has checked the number of
//! modules. Source: `docs/formats/multigrid.md`, sections 4 and 5.

use serde_json::{Value, json};

/// Wires of a module.
pub const WIRES: u16 = 80;
/// Grids of a module.
pub const GRIDS: u16 = 40;
/// Layers in depth.
pub const LAYERS: u16 = 20;
/// Rows side by side in a module.
pub const ROWS: u16 = WIRES / LAYERS;
/// Channels that the published mapping knows; a module's electronics has 128.
pub const CHANNELS: u16 = WIRES + GRIDS;

/// Channel of a wire, for row `x` (0 to 3) and layer `z` (0 to 19) of the detector.
pub(super) fn wire_channel(x: u16, z: u16) -> u16 {
    // Both flips, then the swap of pairs, then 16 and 4 wires of each row on separate connectors.
    let wire = (ROWS - 1 - x) * LAYERS + (LAYERS - 1 - z);
    let plain = wire ^ 1;
    let (row, place) = (plain / 20, plain % 20);
    if place < 16 { 16 * row + place } else { 64 + 4 * row + (place - 16) }
}

/// Channel of a grid, 0 to 39 from below.
pub(super) fn grid_channel(y: u16) -> u16 {
    WIRES + y
}

/// Pixel number from 1 of row `x`, grid `y` and layer `z` of `module`, one of `modules`.
pub(super) fn pixel(modules: usize, module: u16, x: u16, y: u16, z: u16) -> u32 {
    let columns = u32::from(ROWS) * modules as u32;
    let x = u32::from(module) * u32::from(ROWS) + u32::from(x);
    1 + x + columns * (u32::from(y) + u32::from(GRIDS) * u32::from(z))
}

/// Pixels of the whole detector.
pub(super) fn pixels(modules: usize) -> usize {
    modules * usize::from(WIRES) * usize::from(GRIDS)
}

/// The configuration file that fits `modules` modules.
pub(super) fn configuration(modules: usize) -> Value {
    let mapping = json!({
        "type": "MG24A", "max_channel": CHANNELS, "max_wire": WIRES, "swap_wires": true,
        "swap_grids": false,
    });
    let module = |m: usize| {
        json!({
            "digital_geometry": {
                "num_wires": WIRES, "num_grids": GRIDS, "z_range": LAYERS, "flipped_x": true,
                "flipped_z": true, "x_offset": m * usize::from(ROWS),
            },
            "analysis_weighted": true,
        })
    };
    json!({
        "mappings": vec![mapping; modules],
        "builder": {"type": "mesytec", "spoof_high_time": false},
        "pipeline_config": {
            "maximum_latency": 300_000,
            "max_wire_multiplicity": 1,
            "max_grid_multiplicity": 5,
            "modules": (0..modules).map(module).collect::<Vec<_>>(),
        },
    })
}
