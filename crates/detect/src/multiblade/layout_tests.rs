//! Geometry files that are read, and every way to refuse one.

use super::*;
use fullcount_core::refusal::Refusal;

const FIFTY: &str = include_str!("../../../../docs/examples/multiblade-50.toml");
const EXAMPLE: &str = include_str!("../../../../docs/examples/multiblade-mb18-freia.toml");

fn read(text: &str) -> Result<Layout, Refusal> {
    Layout::read(text, "geo.toml", &Options::default())
}

#[track_caller]
fn says(text: &str, words: &[&str]) {
    let said = read(text).unwrap_err().to_string();
    for word in words {
        assert!(said.contains(word), "'{word}' is not in: {said}");
    }
}

/// The channels of digitisers 0 to 255.
fn channels(layout: &Layout) -> Vec<Option<Vec<Channel>>> {
    (0..256).map(|id| layout.boards.get(id).map(<[_]>::to_vec)).collect()
}

#[test]
fn without_a_file_it_is_the_set_up_of_the_recordings() {
    let built_in = read("").unwrap();
    let example = read(EXAMPLE).unwrap();
    assert_eq!(channels(&built_in), channels(&example));
    assert_eq!(built_in.steps, example.steps);
    assert_eq!(
        built_in.steps,
        Steps { box_ticks: 126, time_gap: 125, coordinate_gap: 1, matching_gap: 125 }
    );
    assert_eq!(
        (built_in.max_adc, built_in.time_limit, built_in.wrap_ticks),
        (65_534, u64::MAX, 2_687_500)
    );
    assert_eq!(built_in.map.source_text, "", "nobody gave that text");
    assert_eq!(example.map.source_text, EXAMPLE);
}

#[test]
fn fifty_cassettes_of_32_wires_and_64_strips() {
    let layout = read(FIFTY).unwrap();
    assert_eq!(layout.sizes.grid(1), (64, 1600));
    assert_eq!(layout.map.pixels(), 102_400);
    for cassette in [0u16, 1, 49] {
        let board = layout.boards.get(100 + u32::from(cassette)).unwrap();
        assert_eq!(board.len(), 96);
        let wire = Channel { coordinate: cassette * 32 + 5, cassette, plane: 1, role: Use::Hit };
        assert_eq!(board[5], wire);
        let strip = Channel { coordinate: 63, cassette, plane: 0, role: Use::Hit };
        assert_eq!(board[95], strip);
    }
    assert!(layout.boards.get(99).is_none() && layout.boards.get(150).is_none());
}

#[test]
fn blades_are_inclined_and_the_picture_is_unfolded() {
    let layout = read(FIFTY).unwrap();
    let map = &layout.map;
    let place = |wire: usize, strip: usize| {
        let at = wire * 64 + strip;
        (map.x_m[at], map.y_m[at], map.z_m[at])
    };
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-6, "{a} is not {b}");
    let (a, b) = (place(0, 0), place(1, 1));
    near(a.0 - b.0, 0.004);
    near(a.1 - b.1, 0.000_348_623);
    near(b.2 - a.2, 0.003_984_779);
    // The next cassette begins where this one ends, and at the same depth.
    near(place(31, 0).1 - place(32, 0).1, 0.000_348_623);
    near(place(32, 0).2, a.2);
    let last = place(1599, 63);
    near(last.0 + a.0, 0.0);
    near(last.1 + a.1, 0.0);
    near(last.2 + a.2, 0.0);
    // With the wires along x, and four pixels a strip.
    let text = FIFTY.replace("wires_along = \"y\"", "wires_along = \"x\"");
    let options = Options { subpixels: 4, ..Options::default() };
    let turned = Layout::read(&text, "", &options).unwrap();
    assert_eq!((turned.map.columns, turned.map.rows), (1600, 256));
    near(turned.map.x_m[0] - turned.map.x_m[1], 0.000_348_623);
    near(turned.map.y_m[0] - turned.map.y_m[1600], 0.001);
    near(turned.map.z_m[1] - turned.map.z_m[0], 0.003_984_779);
}

#[test]
fn published_keys_are_required_and_checked() {
    let edit = |from: &str, to: &str| EXAMPLE.replace(from, to);
    says(
        &edit("Detector = \"MB18\"", ""),
        &["geo.toml", "Detector", "missing", "\"MB16\" or \"MB18\""],
    );
    says(&edit("\"MB18\"", "\"MB17\""), &["line 4: Detector: \"MB17\""]);
    says(&edit("\"Freia\"", "\"Loki\""), &["line 5: InstrumentGeometry", "\"Loki\"", "\"AMOR B\""]);
    for key in ["cassettes", "wires", "strips", "TimeTickNS"] {
        let line = EXAMPLE.lines().find(|l| l.starts_with(key)).unwrap();
        says(&edit(line, ""), &[key, "missing"]);
        says(&edit(line, &format!("{key} = 0")), &[key, ": 0 is not allowed"]);
        says(
            &edit(line, &format!("{key} = -1")),
            &["geo.toml: line", "invalid value: integer `-1`"],
        );
        says(&edit(line, &format!("{key} = 99999999999")), &[key, "99999999999 is not allowed"]);
    }
    says(&edit("wires = 32", "wires = 31"), &["wires", "31", "an even number"]);
    says(&edit("cassettes = 6", "cassettes = 4000"), &["line", "cassettes", "65536 wires"]);
    says(
        &edit("strips = 32", "strips = 4096").replace("cassettes = 6", "cassettes = 600"),
        &["strips", "4194304 pixels"],
    );
    let fine = Options { subpixels: 16, ..Options::default() };
    let text = edit("strips = 32", "strips = 4000");
    let said = Layout::read(&text, "", &fine).unwrap_err().to_string();
    assert!(said.contains("64000 x 192 pixels") && said.contains("detector.subpixels"), "{said}");
    says(
        "{\"Detector\": \"MB18\",\n \"frobnicate\": 1}",
        &["line 2", "unknown field `frobnicate`"],
    );
    says("{ {{77}}", &["line 1"]);
    says(&format!("wires_along = 'x'\n{EXAMPLE}"), &["line 1: wires_along"]);
}

#[test]
fn digitisers_stand_once_and_none_is_missing() {
    let edit = |from: &str, to: &str| EXAMPLE.replace(from, to);
    // The line of the entry, not of the list.
    says(&edit("id = 143", "id = 137"), &["line 8: DigitizerConfig", "id 137 twice"]);
    says(&edit("index = 1", "index = 0"), &["line 8: DigitizerConfig", "index 0 twice"]);
    says(
        "{\"Detector\": \"MB18\", \"InstrumentGeometry\": \"Freia\", \"DigitizerConfig\": [\n{\"index\": 0, \"id\": 1},\n\
         {\"index\": 3, \"id\": 2}\n], \"cassettes\": 2, \"wires\": 32, \"strips\": 32}",
        &["line 3: DigitizerConfig", "index 3 of digitiser 2"],
    );
    says(
        &edit("index = 5", "index = 6"),
        &["line 12: DigitizerConfig", "index 6 of digitiser 34", "0..=5"],
    );
    says(&edit("    { index = 5, id = 34 },\n", ""), &["no channel for wire 0 of cassette 5"]);
    says(&edit("{ index = 5, id = 34 }", "{ index = 5 }"), &["line", "missing field `id`"]);
}

#[test]
fn amor_b_needs_its_limits_and_its_sizes() {
    let amor = "Detector = 'MB18'\nInstrumentGeometry = 'AMOR B'\n\
        DigitizerConfig = [{ index = 0, id = 7 }, { index = 1, id = 8 }]\n\
        wires = 32\nstrips = 32\nTimeTickNS = 16\nMaxGapWire = 32\nMaxGapStrip = 32\nMaxValidADC = 65535\nMaxTofNS = 5\n";
    let layout = read(amor).unwrap();
    assert_eq!((layout.sizes.cassettes, layout.sizes.grid(1)), (3, (32, 96)));
    assert_eq!(layout.boards.get(8).unwrap()[63].role, Use::Monitor);
    assert_eq!(layout.time_limit, u64::from(u32::MAX).div_ceil(16));
    for key in ["MaxGapWire", "MaxGapStrip", "MaxValidADC", "MaxTofNS"] {
        let line = amor.lines().find(|l| l.starts_with(key)).unwrap();
        says(&amor.replace(&format!("{line}\n"), ""), &[key, "missing", "required with AMOR B"]);
    }
    says(&amor.replace("MB18", "MB16"), &["line 1: Detector", "MB18"]);
    says(&amor.replace("wires = 32", "wires = 16"), &["line 4: wires: 16", "32 with AMOR B"]);
    says(&amor.replace("index = 1", "index = 2"), &["index 2 of digitiser 8", "0..=1"]);
    says(&format!("cassettes = 11\n{amor}"), &["line 1: cassettes: 11", "3: two per digitiser"]);
    says(&amor.replace("65535", "65536"), &["line 9: MaxValidADC: 65536", "0..=65535"]);
    // The monitor can be told; what the file has instead of it is a strip.
    let moved = read(&format!("monitor = {{ digitizer = 7, channel = 0 }}\n{amor}")).unwrap();
    assert_eq!(moved.boards.get(7).unwrap()[0].role, Use::Monitor);
    assert_eq!(moved.boards.get(8).unwrap()[63].role, Use::Strip1D);
    says(
        &format!("monitor = {{ digitizer = 7, channel = 64 }}\n{amor}"),
        &["line 1: monitor", "channel 64"],
    );
    says(&format!("monitor = {{ digitizer = 7 }}\n{amor}"), &["line 1: monitor", "channel = N"]);
    assert!(read(&format!("monitor = {{ none = true }}\n{amor}")).is_ok());
}

/// Two cassettes of 4 wires and 2 strips; the first row stands on line 5.
fn small(rows: &[&str]) -> String {
    let head = "cassettes = 2\nwires = 4\nstrips = 2\nTimeTickNS = 8\n";
    let rows: Vec<String> = rows.iter().map(|row| format!("[[mapping]] # row\n{row}\n")).collect();
    format!("{head}{}", rows.concat())
}

#[test]
fn impossible_mappings_name_line_and_rule() {
    let wires = "digitizer = 1\ncassette = 0\nchannels = [0, 3]\nwires = [3, 0]\nrepeat = 2";
    let strips = "digitizer = 1\ncassette = 0\nchannels = [4, 5]\nstrips = [0, 1]\nrepeat = 2";
    let with = |row: &str| small(&[wires, strips, row]);
    let layout = read(&small(&[wires, strips])).unwrap();
    assert_eq!(layout.boards.get(2).unwrap()[0].coordinate, 7, "the last wire of cassette 1");
    assert!(read(&small(&[wires])).is_ok(), "wires alone are a detector of mode 1d");

    let row = |what: &str| format!("digitizer = 9\ncassette = 1\n{what}");
    // Line 5 holds the first [[mapping]], 6 more to each next one.
    says(
        &with(&row("channels = [4, 5]\nstrips = [0, 1]")),
        &["line 17: mapping", "more than 12 channels"],
    );
    let twice = strips.replace("[4, 5]", "[3, 4]");
    says(
        &small(&[wires, &twice]),
        &["line 11: mapping", "digitiser 1, channel 3", "each channel is one wire or one strip"],
    );
    let part = strips.replace("[4, 5]", "[4, 4]").replace("[0, 1]", "[0, 0]");
    says(&small(&[wires, &part]), &["mapping", "no channel for strip 1 of cassette 0"]);
    let part = wires.replace("[0, 3]", "[0, 2]").replace("[3, 0]", "[0, 2]");
    says(&small(&[&part, strips]), &["no channel for wire 3 of cassette 0"]);
    says(
        &small(&[wires, &strips.replace("digitizer = 1", "digitizer = 5")]),
        &["line", "cassette 0 on digitisers 1 and 5", "nothing is joined across packets"],
    );
    let again = wires.replace("repeat = 2", "").replace("digitizer = 1", "digitizer = 7");
    says(
        &small(&[wires, &again]),
        &["line", "wire 3 of cassette 0 on digitisers 1 and 7", "one channel"],
    );
    says(
        &small(&[&wires.replace("cassette = 0", "cassette = 1")]),
        &["line 5: mapping", "cassette 2 of digitiser 2", "0..=1"],
    );
    says(&small(&[&wires.replace("[3, 0]", "[4, 1]")]), &["line 5", "wire 4", "wires are 0..=3"]);
    says(
        &small(&[&wires.replace("[0, 3]", "[4094, 4097]")]),
        &["line 5", "channel 4096", "0..=4095"],
    );
    says(&small(&[&wires.replace("[0, 3]", "[0, 4]")]), &["5 channels for 3 to 0", "as many"]);
    says(&small(&[&wires.replace("[0, 3]", "[3, 0]")]), &["channels 3 to 0", "upwards"]);
    says(&small(&[&format!("{wires}\nstrips = [0, 3]")]), &["wires and strips", "one of the two"]);
    says(&small(&[&wires.replace("wires = [3, 0]", "")]), &["neither wires nor strips"]);
    says(
        &small(&[&wires
            .replace("[0, 3]", "[1, 4]")
            .replace("repeat", "swap_pairs = true\nrepeat")]),
        &["swap_pairs"],
    );
    says(&small(&[&wires.replace("repeat = 2", "repeat = 0")]), &["repeat 0"]);
    let over = wires.replace("digitizer = 1", "digitizer = 4294967295");
    says(&small(&[&over]), &["repeat 2", "run over"]);
    says(
        &small(&[&wires.replace("repeat = 2", "repeat = 65535\ncassette_step = 0")]),
        &["more than 12 channels"],
    );
    says(&small(&["frobnicate = 1"]), &["line 6", "frobnicate"]);
    says(
        &format!("Detector = 'MB18'\n{}", small(&[wires])),
        &["line 1: Detector", "beside [[mapping]]"],
    );
    says(&small(&[]), &["Detector", "missing", "[[mapping]]"]);
}

#[test]
fn builder_thresholds_and_places_have_ranges() {
    let with = |text: &str| format!("{EXAMPLE}\n{text}");
    says(
        &EXAMPLE.replace("box_ns = 2010", "box_ns = 0"),
        &["builder.box_ns: 0", "1..=1073741824 ns", "line"],
    );
    says(
        &EXAMPLE.replace("time_gap_ns = 2000", "time_gap_ns = 1073741825"),
        &["builder.time_gap_ns"],
    );
    for (key, value) in [
        ("wire_pitch_mm", "0.0"),
        ("strip_pitch_mm", "-1.0"),
        ("blade_angle_deg", "91.0"),
        ("cassette_pitch_mm", "nan"),
        ("distance_m", "1001.0"),
    ] {
        says(
            &with(&format!("[panel]\n{key} = {value}")),
            &[&format!("panel.{key}"), "line", "is not allowed"],
        );
    }
    let lists = |text: &str| format!("wire_thresholds = {text}\n{EXAMPLE}");
    says(&lists("[[1]]"), &["line 1: wire_thresholds: 1", "one list per cassette, 6"]);
    says(&lists("[[1],[],[],[],[],[]]"), &["one number per wire, 32"]);
}

#[test]
fn many_digitisers_and_large_numbers_are_found() {
    let row = |id: u32, cassette: u32| {
        format!(
            "[[mapping]]\ndigitizer = {id}\ncassette = {cassette}\nchannels = [0, 0]\nwires = [0, 0]\n"
        )
    };
    let ids = [0, 65_535, 65_536, u32::MAX];
    let rows: String = ids.iter().zip(0..).map(|(&id, n)| row(id, n)).collect();
    let layout =
        read(&format!("cassettes = 4\nwires = 1\nstrips = 1\nTimeTickNS = 1\n{rows}")).unwrap();
    for (id, n) in ids.into_iter().zip(0..) {
        assert_eq!(layout.boards.get(id).map(|b| b[0].cassette), Some(n), "{id}");
    }
    assert!(layout.boards.get(1).is_none() && layout.boards.get(65_537).is_none());
}
