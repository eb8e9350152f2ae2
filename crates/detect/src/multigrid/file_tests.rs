//! Geometry files that are read, and every way to refuse one.

use super::*;

const EXAMPLE: &str = include_str!("../../../../docs/examples/multigrid-three-modules.toml");
const PUBLISHED: &str =
    include_str!("../../../../vectors/multigrid/config/three_modules_mg24.json");

fn says(text: &str) -> String {
    MultiGridConfig::read(text, "geo").unwrap_err().to_string()
}

/// A configuration of one module with something replaced.
fn with(from: &str, to: &str) -> String {
    let text = "[[mappings]]
type = 'MGSeq'
max_channel = 120
max_wire = 80
[builder]
type = 'mesytec'
[pipeline_config]
maximum_latency = 300000
max_wire_multiplicity = 1
max_grid_multiplicity = 5
[[pipeline_config.modules]]
analysis_weighted = true
[pipeline_config.modules.digital_geometry]
x_offset = 0
";
    assert!(text.contains(from), "{from}");
    text.replace(from, to)
}

#[test]
fn without_a_file_there_is_one_module_on_bus_0() {
    let c = MultiGridConfig::read("", "").unwrap();
    assert_eq!(c.volume.logical().sizes(), (4, 40, 20, 1));
    assert_eq!((c.mappings.len(), c.latency, c.multiplicity), (1, 300_000, [1, 5]));
    assert!(c.warnings.is_empty(), "{:?}", c.warnings);
}

#[test]
fn the_example_has_the_sizes_of_the_published_file() {
    let (toml, json) = (
        MultiGridConfig::read(EXAMPLE, "").unwrap(),
        MultiGridConfig::read(PUBLISHED, "").unwrap(),
    );
    for c in [&toml, &json] {
        assert_eq!(c.volume.logical().sizes(), (12, 40, 20, 1));
        assert_eq!(
            (c.latency, c.multiplicity, c.format),
            (300_000, [1, 5], DatagramFormat::Mesytec)
        );
        assert!(c.warnings.is_empty(), "{:?}", c.warnings);
    }
    assert_eq!(toml.mappings[0].channels, json.mappings[0].channels);
    assert_eq!(toml.mappings[2].channels[0], Some((Plane::Wires, 79)));
    assert_eq!(toml.mappings[2].channels[101], None, "between the grids");
    // The format's example: bus 0, channels 1 and 81.
    assert_eq!(json.volume.pixel(0, 0, 1), Some(9136));
}

#[test]
fn a_known_misspelling_and_what_is_odd_are_said_and_read() {
    for (from, to, wanted) in [
        (
            "x_offset = 0",
            "mum_wires = 40",
            "modules[0].digital_geometry: mum_wires is read as num_wires",
        ),
        (
            "x_offset = 0",
            "num_wires = 90",
            "num_wires = 90 is no multiple of z_range = 20: the last 10 wires have no pixel",
        ),
        (
            "x_offset = 0",
            "num_wires = 60",
            "mappings[0]: 80 wires, but module 0 has num_wires = 60",
        ),
        (
            "x_offset = 0",
            "num_grids = 39",
            "mappings[0]: 40 grids, but module 0 has num_grids = 39",
        ),
        (
            "max_wire = 80",
            "max_wire = 60",
            "mappings[0]: wires 60..=79 of module 0 have no channel",
        ),
        (
            "max_channel = 120",
            "max_channel = 100",
            "mappings[0]: grids 20..=39 of module 0 have no channel",
        ),
        ("x_offset = 0", "x_offset = 1", "800 of 4000 pixels lie in no module"),
        (
            "[builder]",
            "[[mappings]]\ntype = 'MGSeq'\nmax_channel = 2\nmax_wire = 1\n[builder]",
            "mappings[1]: no module",
        ),
    ] {
        let config = MultiGridConfig::read(&with(from, to), "geo").unwrap();
        let said = config.warnings.join("\n");
        assert!(said.contains(wanted), "{to}\n  says: {said}\n  wanted: {wanted}");
    }
    let two = with(
        "x_offset = 0",
        "x_offset = 0\n[[pipeline_config.modules]]\nanalysis_weighted = true\ndigital_geometry = { x_offset = 4 }",
    );
    let said = MultiGridConfig::read(&two, "geo").unwrap().warnings;
    assert_eq!(said, ["pipeline_config.modules[1]: no mapping: nothing is read from bus 1"]);
}

#[test]
fn refusals_name_file_line_key_and_rule() {
    let module = "analysis_weighted = true\ndigital_geometry = { x_offset = 3 }";
    let overlap =
        with("x_offset = 0\n", &format!("x_offset = 0\n[[pipeline_config.modules]]\n{module}"));
    for (text, wanted) in [
        (with("max_wire = 80", "max_wires = 80"), "geo: line 4, column 1: unknown field `max_wires`, expected"),
        (with("'MGSeq'", "'MGSequoia'"), "geo: line 2, column 8: unknown variant `MGSequoia`"),
        (with("max_wire = 80", "max_wire = 121"), "geo: line 1, column 1: max_wire: 121 is not allowed: 0..=120"),
        (with("max_wire = 80", "max_wire = 79\nswap_grids = true"), "max_wire: 79 is not allowed: even"),
        (with("type = 'mesytec'", "type = 'vmm'"), "geo: line 6, column 8: unknown variant `vmm`"),
        (with("300000", "-1"), "geo: line 8, column 19: -1 is not allowed: 0..=70368744177664"),
        (with("300000", "2.5"), "2.5 is not allowed"),
        (with("analysis_weighted = true\n", ""), "missing field `analysis_weighted`"),
        (with("x_offset = 0", "z_range = 0"), "line 13, column 1: z_range: 0 is not allowed: 1..=65535"),
        (with("x_offset = 0", "num_wires = 19"), "num_wires: 19 is not allowed: at least z_range, which is 20"),
        (with("x_offset = 0", "num_grids = 0"), "num_grids: 0 is not allowed"),
        (with("x_offset = 0", "x_offset = -4"), "line 14"),
        (with("x_offset = 0", "num_wires = 80\nmum_wires = 80"), "mum_wires: give num_wires alone"),
        (with("x_offset = 0", "centre_mm = [0.0, 0.0, inf]"), "centre_mm: [0.0, 0.0, inf] is not allowed"),
        (with("x_offset = 0", "x_offset = 65535\ny_offset = 60000"), "line 13: pipeline_config.modules[0].digital_geometry: a detector of 65539 × 60040 × 20 pixels is not allowed: 1 to 4194304 pixels"),
        (overlap, "geo: line 17: pipeline_config.modules[1].digital_geometry: module 1 at x 3..=6, y 0..=39, z 0..=19 is not allowed: module 0 is already at x 0..=3, y 0..=39, z 0..=19"),
        (with("[builder]", "[panel]\ncell_mm = [1.0, 0.0, 1.0]\n[builder]"), "0 is not allowed: above 0, up to 1000"),
        (with("[builder]", "[panel]\ndistance_m = -1.0\n[builder]"), "-1 is not allowed: 0..=1000"),
        ("builder = { type = 'mesytec' }".to_owned(), "missing field `mappings`"),
        ("mappings = []\nbuilder = { type = 'mesytec' }\n[pipeline_config]\nmaximum_latency = 1\nmax_wire_multiplicity = 1\nmax_grid_multiplicity = 1\nmodules = []".to_owned(), "geo: line 1: mappings: 0 entries is not allowed: 1 to 126, one per bus"),
        (PUBLISHED.replace("\"z_range\": 20", "\"z_range\": 0"), "geo: line 42, column 9: z_range: 0 is not allowed"),
        (PUBLISHED.replace("\"x_offset\": 8", "\"x_offset\": 7"), "geo: line 57: pipeline_config.modules[2].digital_geometry: module 2 at x 7..=10"),
        (PUBLISHED.replace("\"num_wires\"", "\"num_wire\""), "unknown field `num_wire`"),
    ] {
        let said = says(&text);
        assert!(said.contains(wanted), "{text}\n  says: {said}\n  wanted: {wanted}");
    }
}

#[test]
fn there_are_126_buses_at_most() {
    let mappings = "[[mappings]]\ntype = 'MGSeq'\nmax_channel = 2\nmax_wire = 1\n".repeat(127);
    let said = says(&with("[builder]", &format!("{mappings}[builder]")));
    assert!(said.contains("mappings: 128 entries is not allowed: 1 to 126"), "{said}");
}
