//! Damaged geometry, calibration and options: refused with key, value and what is allowed.

use crate::detector::{Detector, Setup};
use crate::gdgem::GdGemDetector;

fn says(geometry: &str, options: &str) -> String {
    let setup = Setup {
        geometry: geometry.to_owned(),
        geometry_path: "geo".to_owned(),
        options: options.to_owned(),
        ..Setup::default()
    };
    GdGemDetector::new(&setup).map_or_else(|e| e.to_string(), |_| "accepted".to_owned())
}

fn vmm(detector: u32, plane: u32, fec: u32, vmm: u32, channels: usize) -> String {
    let id0: Vec<usize> = (0..channels).collect();
    format!(
        "[[vmm_geometry]]\ndetector = {detector}\nplane = {plane}\nfec = {fec}\nvmm = {vmm}\nid0 = {id0:?}\n"
    )
}

#[test]
fn entries_outside_the_electronics_are_named() {
    for (text, key) in [
        (vmm(16, 0, 1, 0, 64), "geo: line 2: vmm_geometry[0].detector: 16"),
        (vmm(0, 3, 1, 0, 64), "geo: line 3: vmm_geometry[0].plane: 3"),
        (vmm(0, 0, 0, 0, 64), "geo: line 4: vmm_geometry[0].fec: 0"),
        (vmm(0, 0, 1, 16, 64), "geo: line 5: vmm_geometry[0].vmm: 16"),
        (vmm(0, 0, 1, 0, 63), "geo: line 6: vmm_geometry[0].id0: 63"),
        // The entry that is refused, not the first of the file.
        (vmm(0, 0, 1, 0, 64) + &vmm(0, 0, 16, 1, 64), "geo: line 10: vmm_geometry[1].fec: 16"),
        (
            vmm(0, 0, 1, 0, 64) + &vmm(0, 0, 1, 1, 64).replace("63]", "65535]"),
            "geo: line 12: vmm_geometry[1].id0[63]: 65535",
        ),
        (
            vmm(0, 1, 1, 0, 64) + &vmm(0, 2, 1, 1, 64),
            "geo: line 3: vmm_geometry[0].plane: planes [1, 2] of detector 0",
        ),
        (
            vmm(0, 0, 1, 0, 64) + &vmm(0, 2, 1, 1, 64),
            "geo: line 9: vmm_geometry[1].plane: planes [0, 2] of detector 0",
        ),
        ("vmm_geometry = []".to_owned(), "geo: line 1: vmm_geometry: []"),
    ] {
        let message = says(&text, "");
        assert!(message.starts_with(key), "{message}");
    }
    assert_eq!(says(&vmm(0, 0, 1, 0, 64), ""), "accepted");
}

#[test]
fn parameters_of_vmm_sdat_are_taken_by_their_names() {
    let two = vmm(3, 0, 1, 0, 64) + &vmm(5, 0, 1, 1, 64);
    let all = "-bc = 44.444\n-tac = 60\n-th = [0, -1]\n-cs = 1\n-ccs = [2, 3]\n-dt = 200\n-mst = 1\n-spc = 500\n-dp = 200\n\
               -coin = 'center-of-masss'\n-crl = 0.2\n-cru = 10\n-algo = 4\n-hm = 0\n-df = 'SRS'\n-t0 = [[1, 0, 25.0], [1, 1, 'run']]\n-n = 0\n-mp1 = 0";
    assert_eq!(says(&two, all), "accepted");
    assert_eq!(says(&two, &all.replace("\n-", "\n")), "accepted");
    assert_eq!(says(&two, "algo = 100\nposition = 'algo'"), "accepted");
    let message = says(&two, "dt = [1, 2, 3]");
    assert!(
        message
            .starts_with("detector.dt: [1.0, 2.0, 3.0] is not allowed: one number, or a list of 2"),
        "{message}"
    );
    for (options, start) in [
        ("algo = 8", "detector.algo: 8"),
        ("algo = 101", "detector.algo: 101"),
        ("df = 'X'", "detector.df: X"),
        ("offsets = '0..15'", "detector.offsets: 0..15"),
        ("t0 = [[16, 0, 1.0]]", "detector.t0: [16, 0"),
        (
            "t0 = [[1, 0, 'foo']]",
            "detector.t0: [1, 0, \"foo\"] is not allowed: [FEC 1 to 15, VMM 0 to 15, up to 1e15 ns or \"run\"]",
        ),
        ("t0 = [[1, 2, 1e16]]", "detector.t0: [1, 2, 1e16] is not allowed: [FEC 1 to 15"),
        ("t0 = [[1, 0, true]]", "detector: t0 = [[1, 0, true]]: a number of ns, or \"run\""),
        (
            "t0 = [[1, 0]]",
            "detector: t0 = [[1, 0]]: invalid length 2, expected [FEC, VMM, ns or \"run\"]",
        ),
        ("spc = -1", "detector.spc: -1"),
        ("matcher = 'gap'", "detector.matcher: given"),
        ("max_run_hits = 1", "detector.max_run_hits: 1"),
        ("pitch_mm = [0.4, 0]", "detector.pitch_mm: [0.4, 0]"),
        ("distance_m = -1", "detector.distance_m: -1"),
        ("horizon_ms = 0", "detector.horizon_ms: 0"),
        (
            "-f = 'run.pcapng'",
            "detector.f: 'run.pcapng' is not allowed: in [detector]: the file to read is --source",
        ),
        (
            "-save = [[1], [1], [1]]",
            "detector.save: [[1], [1], [1]] is not allowed: in [detector]: --hits FILE",
        ),
        ("json = 0", "detector.json: 0"),
        ("-log = 1", "detector.log: 1"),
        ("info = 'a'", "detector.info: 'a'"),
        ("-stats = 1", "detector.stats: 1"),
        ("cahi = 1", "detector.cahi: 1"),
        ("nonsense = 1", "detector: nonsense = 1: unknown field"),
    ] {
        let message = says(&two, options);
        assert!(message.starts_with(start), "{message}");
    }
}

/// One number, or a list: said for all keys that are so, with key and value.
#[test]
fn a_parameter_that_is_no_number_is_named_with_what_is_allowed() {
    let allowed = "a number, or a list with one number for each detector";
    for key in ["th", "cs", "ccs", "dt", "mst", "mp0", "mp1", "spc", "dp", "crl", "cru"] {
        for value in ["\"abc\"", "[1, \"abc\"]", "true", "{ x = 1 }"] {
            let message = says("", &format!("{key} = {value}"));
            assert_eq!(message, format!("detector: {key} = {value}: {allowed}"));
        }
    }
}

#[test]
fn a_file_of_no_known_form_has_the_reasons_of_both() {
    let neither = |place: &str, message: &str| {
        let json = format!("{place}: neither JSON (line 1, column 1: expected value) nor TOML (");
        assert!(message.starts_with(&json), "{message}");
    };
    neither("geo", &says("vmm_geometry: []", ""));
    let calibration = "vmm_calibration: []".to_owned();
    let calibration_path = "cal".to_owned();
    let setup = Setup { calibration, calibration_path, ..Setup::default() };
    neither("cal", &GdGemDetector::new(&setup).unwrap_err().to_string());
}

#[test]
fn the_published_configuration_of_multi_grid_is_led_to_its_detector() {
    let file = include_str!("../../../../vectors/gdgem/config/vmm3_mg.json");
    let message = says(file, "");
    assert!(message.starts_with("geo: line "), "{message}");
    let words = ": analyzer: MGAnalyzer is not allowed: \"EventAnalyzer\"; for Multi-Grid see detector.kind = \"multigrid\"";
    assert!(message.ends_with(words), "{message}");
}

#[test]
fn sectors_of_other_processes_are_left_out_and_pixels_stay() {
    let geometry = include_str!("../../../../docs/examples/gdgem-sectors.json");
    let layout = |options: &str| {
        let options = format!("one_picture = true\n{options}");
        let setup = Setup { geometry: geometry.to_owned(), options, ..Setup::default() };
        GdGemDetector::new(&setup).unwrap().layout
    };
    let whole = layout("");
    assert_eq!(whole.inputs().len(), 80);
    for (options, fecs) in [("sectors = 2", 5..7), ("sectors = [0, 1]", 1..5)] {
        let part = layout(options);
        let all: Vec<_> = fecs.flat_map(|fec| (0..10).map(move |vmm| (fec, vmm))).collect();
        assert_eq!(part.inputs(), all, "{options}");
        assert_eq!((part.grid, &part.map), (whole.grid, &whole.map), "{options}");
        let places = |l: &super::Layout, fec: usize| l.fecs[fec].as_ref().unwrap().places[70];
        assert_eq!(places(&part, all[0].0), places(&whole, all[0].0));
        assert_eq!(places(&part, 8).lane, super::Place::OUTSIDE);
    }
    let two = vmm(3, 0, 1, 0, 64) + &vmm(5, 0, 1, 1, 64);
    for (options, start) in [
        ("sectors = 4", "detector.sectors: [4] is not allowed: one or several of the detectors"),
        ("sectors = []", "detector.sectors: [] is not allowed"),
        ("sectors = [3, 6]", "detector.sectors: [3, 6] is not allowed"),
        ("sectors = 'x'", "detector: sectors = 'x': "),
    ] {
        let message = says(&two, options);
        assert!(message.starts_with(start), "{message}");
    }
    assert_eq!(says(&two, "sectors = [3, 5]"), "accepted");
    let online = include_str!("../../../../docs/examples/gdgem-online.json");
    let message = says(online, "sectors = 0");
    assert!(message.starts_with("detector.sectors: given is not allowed"), "{message}");
}

#[test]
fn of_two_names_of_a_parameter_the_last_wins() {
    let missing = |text: &str| {
        let options = crate::gdgem::options::Options::read(text).unwrap();
        options.parameters(0, 1).unwrap().missing
    };
    assert_eq!((missing("-mst = 3"), missing("mp0 = 4"), missing("")), (3.0, 4.0, 1.0));
    assert_eq!(missing("-mst = 3\ncs = 2\n-mp0 = 4"), 4.0);
    assert_eq!(missing("mp0 = 4\nmst = 3"), 3.0);
}

/// What the published file says about the display is done, or said not to be.
#[test]
fn keys_of_the_published_display_act_or_are_told() {
    let detector = |geometry: String| {
        GdGemDetector::new(&Setup { geometry, geometry_path: "geo".into(), ..Setup::default() })
            .unwrap()
    };
    let track_hits = |geometry| detector(geometry).layout.online.unwrap().track_hits;
    assert_eq!(track_hits(online("track_sample_minhits", 9.into())), Some(9));
    assert_eq!(track_hits(online("send_tracks", false.into())), None);
    let warnings = |raw: bool| detector(online("send_raw_hits", raw.into())).warnings();
    assert_eq!(warnings(false), [""; 0]);
    let said = warnings(true);
    assert!(said.len() == 1 && said[0].starts_with("geo: send_raw_hits"), "{said:?}");
    let dumps = |key: &str, value: bool| detector(online(key, value.into())).warnings();
    for key in ["dump_csv", "dump_h5"] {
        assert_eq!(dumps(key, false), [""; 0]);
        let said = dumps(key, true);
        let start = format!("geo: {key}: nothing is dumped; `--hits FILE`");
        assert!(said.len() == 1 && said[0].starts_with(&start), "{said:?}");
    }
    assert_eq!(says(&online("dump_directory", "/data".into()), ""), "accepted");
}

/// The published configuration of 2018 with some fields changed; `null` takes one out.
fn of_2018(changes: &[(&str, serde_json::Value)]) -> String {
    let text = include_str!("../../../../vectors/gdgem/config/reference_test_config.json");
    let mut config: serde_json::Value = serde_json::from_str(text).unwrap();
    for (pointer, value) in changes {
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        let parent = config.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        match value {
            serde_json::Value::Null => drop(parent.shift_remove(field)),
            value => drop(parent.insert(field.to_owned(), value.clone())),
        }
    }
    config.to_string()
}

#[test]
fn a_file_of_2018_has_the_meaning_that_it_had() {
    use super::{Algorithm, Matcher};
    use serde_json::{Value, json};
    let layout = |changes: &[(&str, Value)], options: &str| {
        let (geometry, options) = (of_2018(changes), options.to_owned());
        let setup = Setup { geometry, options, ..Setup::default() };
        GdGemDetector::new(&setup).unwrap().layout
    };
    let plain = layout(&[], "").online.unwrap();
    let older = Algorithm::Older { weighted: true, bins: 3, span: 7 };
    // No strip may be missing.
    assert_eq!((plain.strip_gap, plain.least_hits), ([1, 1], [3, 3]));
    assert_eq!((plain.matcher, plain.algorithm), (Matcher::End, older));
    let changes = [
        ("/clusterer x/hit_adc_threshold", json!(100)),
        ("/clusterer y/hit_adc_threshold", json!(70_000)),
        ("/clusterer x/max_strip_gap", json!(2)),
        ("/clusterer y/min_cluster_size", Value::Null),
        ("/analyze_weighted", json!(false)),
        ("/analyze_max_timebins", json!(4)),
        ("/time_algorithm", json!("charge2")),
        ("/matcher", json!("CenterMatcher")),
        ("/perform_clustering", json!(true)),
        ("/send_raw_hits", json!(true)),
        ("/dump_h5", json!(true)),
    ];
    let other = layout(&changes, "");
    let threshold = |fec: usize, at: usize| other.fecs[fec].as_ref().unwrap().places[at].threshold;
    assert_eq!((threshold(1, 0), threshold(2, 14 * 64)), (100, u16::MAX));
    let warnings: Vec<_> = other.warnings.iter().map(|w| w.split(": ").nth(1).unwrap()).collect();
    assert_eq!(warnings, ["send_raw_hits", "dump_h5"]);
    let online = other.online.unwrap();
    assert_eq!((online.strip_gap, online.least_hits), ([3, 1], [3, 1]));
    // Today's keys say what they say.
    assert_eq!((online.matcher, online.algorithm), (Matcher::Center, Algorithm::Charge2));
    let older = Algorithm::Older { weighted: false, bins: 4, span: 7 };
    let online = layout(&changes, "matcher = 'gap'\nposition = 'utpc-2018'").online.unwrap();
    assert_eq!((online.matcher, online.algorithm), (Matcher::Gap, older));
}

#[test]
fn keys_of_both_states_in_one_file_are_refused() {
    use serde_json::{Value, json};
    let no_size =
        ["x", "y"].map(|p| format!("/clusterer {p}/min_cluster_size")).map(|p| (p, Value::Null));
    let no_size = no_size.each_ref().map(|(pointer, value)| (pointer.as_str(), value.clone()));
    for (changes, said) in [
        (
            vec![("/adc_threshold", json!(5))],
            "geo: line 1: adc_threshold: 5 is not allowed: a file without clusterer x.hit_adc_threshold",
        ),
        (
            vec![
                ("/adc_threshold", json!(5)),
                ("/clusterer x/hit_adc_threshold", Value::Null),
                ("/clusterer y/hit_adc_threshold", Value::Null),
            ],
            "geo: line 1: adc_threshold: 5 is not allowed: a file without clusterer x.min_cluster_size",
        ),
        (
            vec![("/clusterer y/hit_adc_threshold", Value::Null)],
            "geo: line 1: clusterer y.hit_adc_threshold: missing is not allowed: an amplitude",
        ),
        (vec![("/perform_clustering", json!(false))], "geo: line 1: perform_clustering"),
        (vec![("/clusterer x/other", json!(1))], "geo: line "),
        (no_size.to_vec(), "accepted"),
    ] {
        let message = says(&of_2018(&changes), "");
        assert!(message.starts_with(said), "{message}");
    }
}

#[test]
fn a_second_entry_of_a_vmm_only_adds_its_plane() {
    let text = vmm(0, 0, 1, 0, 64) + &vmm(0, 1, 1, 0, 64);
    let setup = Setup { geometry: text, ..Setup::default() };
    let layout = &GdGemDetector::new(&setup).unwrap().layout;
    assert_eq!((layout.lanes.len(), layout.inputs()), (2, vec![(1, 0)]));
    let places = &layout.fecs[1].as_ref().unwrap().places;
    assert!(places[..64].iter().all(|p| p.lane == 0));
}

#[test]
fn sectors_make_one_picture_where_that_is_asked_for() {
    let geometry = include_str!("../../../../docs/examples/gdgem-sectors.json").to_owned();
    let map = |options: &str| {
        let setup =
            Setup { geometry: geometry.clone(), options: options.into(), ..Setup::default() };
        GdGemDetector::new(&setup).unwrap().pixels()
    };
    let one = map("one_picture = true");
    assert_eq!((one.columns, one.rows, one.pixels()), (1280, 1280, 1280 * 1280));
    // 0.4 mm from strip to strip, the panel's middle between the sectors.
    let at = |x: usize, y: usize| (one.x_m[1280 * y + x], one.y_m[1280 * y + x]);
    let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
    assert!(near(at(0, 0).0, 0.2558) && near(at(0, 0).1, 0.2558));
    assert!(near(at(0, 0).0 - at(1, 0).0, 0.0004) && near(at(640, 640).0, -0.0002));
    let wide = map("one_picture = true\npitch_mm = [0.8, 2.0]\ndistance_m = 1.5");
    assert!(near(wide.x_m[0] - wide.x_m[1], 0.0008) && near(wide.y_m[0] - wide.y_m[1280], 0.002));
    assert_eq!((one.distance_m, wide.distance_m), (0.0, 1.5));
    let stacked = map("");
    assert_eq!((stacked.columns, stacked.rows), (1280, 4 * 1280));
    assert!(
        says(&online("builder_type", "VMM3".into()), "one_picture = true")
            .contains("detector.one_picture")
    );
}

#[test]
fn a_calibration_may_stand_in_the_geometry_file() {
    let slopes = format!("adc_slopes = {:?}\n", [2.0; 64]);
    let entry = "[[vmm_calibration]]\nfecID = 1\nvmmID = 0\nhybridID = 'h'\n";
    let text = vmm(0, 0, 1, 0, 64) + entry + &slopes;
    let setup = Setup { geometry: text, ..Setup::default() };
    let layout = &GdGemDetector::new(&setup).unwrap().layout;
    let all = layout.fecs[1].as_ref().and_then(|f| f.calibrations.as_ref()).unwrap();
    assert_eq!((all[63].adc_slope, all[64].adc_slope), (2.0, 1.0));
    let message = says(&(vmm(0, 0, 1, 0, 64) + entry + "adc_slopes = [1.0]"), "");
    assert!(
        message.starts_with("geo: line 11: vmm_calibration[0].adc_slopes: 1 numbers"),
        "{message}"
    );
}

/// The published configuration with one field changed; `null` takes it out.
fn online(field: &str, value: serde_json::Value) -> String {
    let mut config: serde_json::Value = serde_json::from_str(super::ONLINE_EXAMPLE).unwrap();
    match value {
        serde_json::Value::Null => drop(config.as_object_mut().unwrap().shift_remove(field)),
        value => config[field] = value,
    }
    config.to_string()
}

#[test]
fn configurations_of_the_online_chain_are_read_or_refused_by_field() {
    use serde_json::{Value, json};
    assert_eq!(says(&online("matcher", json!("GapMatcher")), ""), "accepted");
    assert_eq!(says(&online("matcher", json!("anything")), ""), "accepted");
    assert_eq!(says(&online("granular_mappings", json!([])), ""), "accepted");
    for (field, value, words) in [
        ("builder_type", json!("Readouts"), "geo: line 1: builder_type: Readouts is not allowed"),
        ("builder_type", json!("Hits"), "geo: line 1: builder_type: Hits is not allowed"),
        ("builder_type", json!(3), "geo: line "),
        ("analyzer", json!("MGAnalyzer"), "geo: line 1: analyzer: MGAnalyzer is not allowed"),
        ("perform_clustering", json!(false), "geo: line 1: perform_clustering"),
        (
            "enable_data_processing",
            json!(false),
            "geo: line 1: perform_clustering, enable_data_processing",
        ),
        ("clusterer x", Value::Null, "geo: clusterer x, clusterer y: missing"),
        ("adc_threshold", Value::Null, "geo: adc_threshold: missing is not allowed: an amplitude"),
        ("perform_clustering", Value::Null, "geo: perform_clustering: missing is not allowed"),
        ("send_raw_hits", Value::Null, "geo: send_raw_hits: missing is not allowed"),
        ("geometry_x", Value::Null, "geo: geometry_x: missing is not allowed: a number of pixels"),
        ("geometry_y", Value::Null, "geo: geometry_y: missing is not allowed: a number of pixels"),
        ("matcher_max_delta_time", json!(-1), "geo: line 1: matcher_max_delta_time: -1"),
        ("geometry_x", json!(0), "geometry_x × geometry_y × detectors: 0 × "),
        ("no_such_field", json!(1), "geo: line "),
    ] {
        let message = says(&online(field, value), "");
        assert!(message.starts_with(words), "{field}: {message}");
    }
    for field in [
        "builder_type",
        "time_config",
        "hit_histograms",
        "matcher_max_delta_time",
        "track_sample_minhits",
        "cluster_adc_downshift",
        "send_tracks",
    ] {
        let message = says(&online(field, Value::Null), "");
        assert!(message.contains(&format!("missing field `{field}`")), "{field}: {message}");
    }
    let message = says(&online("analyzer", json!("EventAnalyzer")), "dt = 100");
    assert!(message.starts_with("detector.dt: given is not allowed"), "{message}");
}

#[test]
fn mappings_outside_the_electronics_are_passed_over_and_later_ones_win() {
    use serde_json::json;
    let entry = |vmm: u32, plane: u32, strip: u32| json!({"fecID": 1, "vmmID": vmm, "planeID": plane, "strip_offset": strip});
    let mut config: serde_json::Value = serde_json::from_str(&online(
        "srs_mappings",
        json!([entry(0, 0, 0), entry(16, 0, 64), entry(0, 1, 100), entry(1, 7, 0)]),
    ))
    .unwrap();
    config["granular_mappings"] = json!([{"fecID": 1, "vmmID": 0, "planeID": 0, "channels": [
        {"channel": 3, "coord": 777}, {"channel": 64, "coord": 1}, {"channel": 4, "coord": 65_535},
    ]}]);
    let setup = Setup { geometry: config.to_string(), ..Setup::default() };
    let layout = &GdGemDetector::new(&setup).unwrap().layout;
    assert_eq!(layout.inputs(), [(1, 0)]);
    let places = &layout.fecs[1].as_ref().unwrap().places;
    assert_eq!((places[0].lane, places[0].coordinate), (1, 100));
    assert_eq!((places[3].lane, places[3].coordinate), (0, 777));
    assert_eq!(places[4].lane, super::Place::NO_STRIP);
    assert_eq!(places[64].lane, super::Place::UNMAPPED);
}
