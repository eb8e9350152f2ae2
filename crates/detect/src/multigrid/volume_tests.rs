//! Positions and pixels against the numbers of the format document.

use super::*;
use crate::multigrid::file::MultiGridConfig;
use proptest::prelude::*;

fn published() -> MultiGridConfig {
    let text = include_str!("../../../../vectors/multigrid/config/three_modules_mg24.json");
    MultiGridConfig::read(text, "").unwrap()
}

#[test]
fn the_examples_of_the_format() {
    let v = published().volume;
    assert_eq!((v.wire(0, 0), v.grid(0, 1), v.pixel(0, 0, 1)), ((3, 19), 1, Some(9136)));
    assert_eq!(v.wire(0, 69), (0, 10));
    assert_eq!(v.wire(2, 0), (11, 19));
    assert_eq!((v.pixel(0, 80, 1), v.pixel(3, 0, 0), v.pixel(0, 0, 40)), (None, None, None));
}

#[test]
fn a_wire_beyond_the_field_goes_below_0_when_flipped() {
    let text = "mappings = [{ type = 'MGSeq', max_channel = 140, max_wire = 100 }]
        builder = { type = 'mesytec' }
        [pipeline_config]
        maximum_latency = 1
        max_wire_multiplicity = 1
        max_grid_multiplicity = 1
        modules = [{ analysis_weighted = false, digital_geometry = { flipped_x = true, x_offset = 0 } }]";
    let v = MultiGridConfig::read(text, "").unwrap().volume;
    assert_eq!((v.wire(0, 85), v.pixel(0, 85, 0)), ((-1, 5), None));
    // It may still be averaged with one inside: the mean decides.
    assert_eq!(
        v.mean(Sums { x: 2, z: 10, wires: 2, y: 0, grids: 1 }),
        v.logical().pixel(1, 0, 5, 0)
    );
    assert_eq!(
        v.mean(Sums { x: -1, z: 10, wires: 4, y: 0, grids: 1 }),
        None,
        "it is not rounded up to 0"
    );
}

/// Each of three controllers has one module on bus 0, and a file of its own.
#[test]
fn parts_of_a_detector_have_the_pixels_of_the_whole() {
    let whole = published();
    let part = |x: usize, size: &str| {
        let text = format!(
            "mappings = [{{ type = 'MG24A', max_channel = 120, max_wire = 80, swap_wires = true }}]
            builder = {{ type = 'mesytec' }}
            {size}
            [pipeline_config]
            maximum_latency = 1
            max_wire_multiplicity = 1
            max_grid_multiplicity = 5
            modules = [{{ analysis_weighted = true, digital_geometry = {{ num_wires = 80, num_grids = 40, \
             z_range = 20, flipped_x = true, flipped_z = true, x_offset = {x} }} }}]"
        );
        MultiGridConfig::read(&text, "geo")
    };
    for module in 0..3 {
        let config = part(4 * module, "panel = { size = [12, 40, 20] }").unwrap();
        assert!(config.warnings.is_empty(), "{:?}", config.warnings);
        assert_eq!(config.volume.logical(), whole.volume.logical());
        for (wire, grid) in [(0, 0), (7, 39), (79, 20)] {
            let (here, there) =
                (config.volume.pixel(0, wire, grid), whole.volume.pixel(module, wire, grid));
            assert_eq!((here, here.is_some()), (there, true));
        }
    }
    // Without the size it is a detector of its own, with other pixels.
    assert_ne!(part(4, "").unwrap().volume.logical(), whole.volume.logical());
    for (size, words) in [
        ("panel = { size = [11, 40, 20] }", "within [panel] size, 11 × 40 × 20"),
        ("panel = { size = [12, 40, 0] }", "within [panel] size, 12 × 40 × 0"),
        ("panel = { size = [60000, 60000, 60000] }", "1 to 4194304 pixels"),
        ("panel = { size = 12 }", "an array of length 3"),
    ] {
        let message = part(8, size).unwrap_err().to_string();
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn means_round_halves_up() {
    let v = published().volume;
    let sums = |y, grids| Sums { x: 3, z: 19, wires: 1, y, grids };
    for (y, grids, row) in [(21, 2, 11), (20, 2, 10), (31, 3, 10), (32, 3, 11), (0, 1, 0)] {
        assert_eq!(v.mean(sums(y, grids)), v.logical().pixel(3, row, 19, 0));
    }
}

#[test]
fn every_pixel_has_a_cell_of_its_own_and_positions_follow_the_axes() {
    let config = published();
    let map = config.volume.map(&config.panel, &config.modules, "text");
    assert_eq!((map.pixels(), map.source_text.as_str()), (9600, "text"));
    let mut cells = map.cell.clone();
    cells.sort_unstable();
    cells.dedup();
    assert_eq!(cells.len(), 9600);
    assert!(cells.last().unwrap() < &(map.columns * map.rows));
    let at = |x, y, z| config.volume.logical().pixel(x, y, z, 0).unwrap() as usize - 1;
    let (a, b) = (at(0, 0, 0), at(1, 1, 1));
    assert!((map.x_m[a] - map.x_m[b] - 0.0225).abs() < 1e-12, "x falls with the column");
    assert!((map.y_m[b] - map.y_m[a] - 0.0225).abs() < 1e-12);
    assert!((map.z_m[b] - map.z_m[a] - 0.01).abs() < 1e-12);
    assert!((map.x_m[at(0, 0, 0)] + map.x_m[at(11, 0, 0)]).abs() < 1e-12, "centred");
    assert_eq!(map.cell[at(1, 0, 0)], map.cell[a] + 1, "columns to the right");
    assert_eq!(map.cell[at(0, 1, 0)] + map.columns, map.cell[a], "rows upwards");
}

#[test]
fn a_surveyed_module_lies_where_it_was_surveyed() {
    let text = "mappings = [{ type = 'MGSeq', max_channel = 120, max_wire = 80 }]
        builder = { type = 'mesytec' }
        [pipeline_config]
        maximum_latency = 1
        max_wire_multiplicity = 1
        max_grid_multiplicity = 1
        modules = [{ analysis_weighted = true, digital_geometry = { centre_mm = [100.0, -50.0, 20.0] } }]";
    let config = MultiGridConfig::read(text, "").unwrap();
    let map = config.volume.map(&config.panel, &config.modules, text);
    let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
    for (axis, wanted) in [(&map.x_m, 0.1), (&map.y_m, -0.05), (&map.z_m, 0.02)] {
        assert!((mean(axis) - wanted).abs() < 1e-9);
    }
}

proptest! {
    /// Every voxel of a module is the pixel of exactly one wire and grid.
    #[test]
    fn wires_and_grids_fill_a_module(rows in 1u16..6, z in 1u16..30, grids in 1u16..50, fx: bool, fz: bool) {
        let wires = rows * z;
        let text = format!(
            "mappings = [{{ type = 'MGSeq', max_channel = {}, max_wire = {wires} }}]
             builder = {{ type = 'mesytec' }}
             [pipeline_config]
             maximum_latency = 1
             max_wire_multiplicity = 1
             max_grid_multiplicity = 1
             [[pipeline_config.modules]]
             analysis_weighted = true
             [pipeline_config.modules.digital_geometry]
             num_wires = {wires}
             num_grids = {grids}
             z_range = {z}
             flipped_x = {fx}
             flipped_z = {fz}",
            wires + grids,
        );
        let config = MultiGridConfig::read(&text, "").unwrap();
        let v = &config.volume;
        let pixels = (0..rows * z).flat_map(|w| (0..grids).map(move |g| v.pixel(0, w, g).unwrap()));
        let mut all: Vec<u32> = pixels.collect();
        all.sort_unstable();
        prop_assert_eq!(all, (1..=v.logical().pixels()).collect::<Vec<_>>());
    }
}
