//! Geometry files that are read, and every way to refuse one.

use super::*;

const ONE: &str = include_str!("../../../../docs/examples/sonde-one-module.toml");
const MANY: &str = include_str!("../../../../docs/examples/sonde-400-modules.toml");

fn origin(text: &str) -> Origin {
    text.parse::<SocketAddr>().unwrap().into()
}

fn says(text: &str) -> String {
    Layout::read(text, "geo.toml").unwrap_err().to_string()
}

#[test]
fn without_a_file_one_module_takes_every_sender() {
    let built_in = Layout::read("", "").unwrap();
    let example = Layout::read(ONE, "one.toml").unwrap();
    for layout in [&built_in, &example] {
        assert_eq!(layout.offset(origin("192.0.2.1:50011"), 31), Some(0));
        assert_eq!(layout.offset(Origin::NONE, 0), Some(0));
        assert_eq!(layout.map.cell, (0..64).collect::<Vec<u32>>(), "the picture is row by row");
    }
    assert_eq!(built_in.map.x_m, example.map.x_m);
    assert!((built_in.map.x_m[0] - 0.021).abs() < 1e-12, "3.5 pixels of 6 mm");
    assert!((built_in.map.y_m[63] + 0.021).abs() < 1e-12);
    assert_eq!(example.map.source_text, ONE);
}

#[test]
fn four_hundred_modules_in_a_hundred_groups() {
    let layout = Layout::read(MANY, "many.toml").unwrap();
    let map = &layout.map;
    assert_eq!((map.pixels(), map.columns, map.rows), (25_600, 160, 160));
    let mut cells = map.cell.clone();
    cells.sort_unstable();
    assert_eq!(cells, (0..25_600).collect::<Vec<u32>>(), "every cell exactly once");
    assert_eq!(layout.offset(origin("10.1.0.1:50011"), 0), Some(0));
    assert_eq!(layout.offset(origin("10.1.0.1:9"), 3), Some(192));
    assert_eq!(layout.offset(origin("10.1.0.100:1"), 3), Some(399 * 64));
    assert_eq!(layout.offset(origin("10.1.0.101:1"), 0), None);
    assert_eq!(layout.offset(origin("10.1.0.1:1"), 4), None);
    // Pixel 1 is at the top left of the picture, the last one at the bottom right, symmetrically.
    let (x, y) = (map.x_m[0], map.y_m[0]);
    assert!((x + map.x_m[25_599]).abs() < 1e-9 && (y + map.y_m[25_599]).abs() < 1e-9);
    // 19 module steps of 52 mm and 9 group gaps of 2 mm, and 7 pixels of 6 mm.
    let width = 19.0 * 52.0 + 9.0 * 2.0 + 7.0 * 6.0;
    assert!((2.0 * x - width / 1000.0).abs() < 1e-9, "{x}");
    // Second group: two modules to the right, first pixel 4 * 64 + 1.
    assert_eq!(map.cell[256], 16);
}

#[test]
fn the_most_exact_sender_wins() {
    let text =
        "modules = [{ cell = [0, 0] }, { source = '10.0.0.1', pixel_offset = 64, cell = [1, 0] },
        { source = '10.0.0.1:7', system = 2, pixel_offset = 128, cell = [2, 0] }]";
    let layout = Layout::read(text, "").unwrap();
    assert_eq!(layout.offset(origin("10.0.0.2:7"), 2), Some(0));
    assert_eq!(layout.offset(origin("10.0.0.1:8"), 2), Some(64));
    assert_eq!(layout.offset(origin("10.0.0.1:7"), 1), Some(64));
    assert_eq!(layout.offset(origin("10.0.0.1:7"), 2), Some(128));
}

#[test]
fn json_gives_the_same() {
    let toml = Layout::read("[panel]\npixel_mm = 5.0\n[[modules]]\nrotation = 90", "").unwrap();
    let json = r#"{"panel": {"pixel_mm": 5.0}, "modules": [{"rotation": 90}]}"#;
    let json = Layout::read(json, "").unwrap();
    assert_eq!((&toml.map.cell, &toml.map.x_m), (&json.map.cell, &json.map.x_m));
    assert_eq!(toml.map.cell[0], 7, "turned clockwise: pixel 1 is at the top right");
}

#[test]
fn refusals_name_file_line_key_and_what_is_allowed() {
    for (text, wanted) in [
        ("[panel]\npixels_mm = 3", "geo.toml: line 2, column 1: unknown field `pixels_mm`"),
        ("[panel]\npixel_mm = 0.0", "geo.toml: line 2, column 12: 0 is not allowed: above 0"),
        ("[[modules]]\nrotation = 45", "line 2, column 12: 45 is not allowed: 0, 90, 180 or 270"),
        ("[[modules]]\nsystem = 32", "32 is not allowed: system numbers are 0..=31"),
        ("[[modules]]\nsource = '10.0.0'", "source \"10.0.0\" is not allowed: an address"),
        ("[[modules]]\ncell = [0, 256]", "256 is not allowed: columns and rows are 0..=255"),
        ("[[modules]]\npixel_offset = -1", "line 2"),
        (
            "[[modules]]\n[[modules]]",
            "geo.toml: source: modules[0] (any source, any system) and modules[1]",
        ),
        (
            "[[modules]]\n[[modules]]\nsystem = 1\npixel_offset = 32\ncell = [1, 0]",
            "32 in modules[1] (any source, system 1) is not allowed: its pixels 33..=96 overlap 1..=64 of modules[0]",
        ),
        (
            "[[modules]]\n[[modules]]\nsystem = 1\npixel_offset = 64",
            "geo.toml: cell: [0, 0] in modules[1] (any source, system 1) is not allowed: modules[0]",
        ),
        ("[[modules]]\npixel_offset = 64", "pixels 1..=64 would belong to no module; give 0"),
        (
            "[[modules]]\n[groups]\ncolumns = 1\nrows = 1\nmodules = [1, 1]\nfirst_source = '10.0.0.1'",
            "give one of the two",
        ),
        (
            "[groups]\ncolumns = 1\nrows = 1\nmodules = [6, 6]\nfirst_source = '10.0.0.1'",
            "36 from system 0 on is not allowed",
        ),
        (
            "[groups]\ncolumns = 1\nrows = 1\nmodules = [2, 2]\nfirst_source = '*'",
            "groups.first_source: any source",
        ),
        (
            "[groups]\ncolumns = 2\nrows = 1\nmodules = [1, 1]\nfirst_source = '255.255.255.255'",
            "groups.first_source: 255.255.255.255",
        ),
        (
            "[groups]\ncolumns = 100\nrows = 100\nmodules = [1, 1]\nfirst_source = '10.0.0.1'",
            "10000 groups of 1 is not allowed",
        ),
        ("{\"modules\": [{\"rotation\": 1}]}", "geo.toml: line 1, column"),
    ] {
        let said = says(text);
        assert!(said.contains(wanted), "{text}\n  says: {said}\n  wanted: {wanted}");
    }
}
