//! Gd-GEM through the binary: the captures from the file, with calibration and the parameters of vmm-sdat in the configuration, and
//! what is refused before anything is opened.
//!
//! Answers: `vectors/gdgem/expected.json`.

mod service;

use serde_json::Value;
use service::{Said, say, vector};

fn expected() -> Value {
    let text =
        std::fs::read_to_string(vector("gdgem/expected.json")).expect("vectors are committed");
    serde_json::from_str(&text).expect("JSON")
}

/// A configuration file for a conversion, every parameter by its published name; calibration beside it.
fn configuration(folder: &std::path::Path, entry: &Value) -> String {
    let published = |kind: &str, file: &Value| {
        let name = file.as_str().expect("a file name");
        std::fs::copy(vector(&format!("gdgem/{kind}/{name}")), folder.join(name)).expect("copied");
        name.to_owned()
    };
    let geometry = published("vmm", &entry["geometry"]);
    let mut text = format!("[detector]\nkind = 'gdgem'\ngeometry = '{geometry}'\n");
    for (key, value) in entry["settings"].as_object().expect("settings") {
        if key == "cal" {
            text += &format!("-cal = '{}'\n", published("calibration", value));
        } else {
            text += &format!("-{key} = {value}\n");
        }
    }
    let file = folder.join("run.toml");
    std::fs::write(&file, text).expect("written");
    file.display().to_string()
}

fn run(config: &[&str], name: &Value, more: &[&str]) -> Said {
    let source = format!("pcap:{}?flat-out", vector(&format!("gdgem/{}", name.as_str().unwrap())));
    let run = ["run", "--source", &source, "--sink", "null", "--web", "off", "--json"];
    say(&[&run[..], config, more].concat())
}

#[test]
fn every_conversion_runs_from_a_configuration_file_with_published_names() {
    for (name, entry) in expected()["conversions"].as_object().expect("conversions") {
        let folder = tempfile::tempdir().expect("a folder");
        let config = configuration(folder.path(), entry);
        let said = run(&[&config], &entry["capture"], &[]);
        // Frames are missing in one of the captures: exit code 3.
        let lost = said.counter("packets.lost");
        assert_eq!(said.code, if lost > 0 { 3 } else { 0 }, "{name}: {}", said.err);
        assert_eq!(said.summary()["balance"], 0, "{name}");
        let sum = |of: &Value| -> u64 {
            of.as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum()
        };
        let canonical = &entry["canonical"];
        assert_eq!(said.counter("cluster.planes"), sum(&canonical["plane_clusters"]), "{name}");
        let clusters = sum(&canonical["detector_clusters"]);
        assert_eq!(said.counter("events.candidates"), clusters, "{name}");
    }
}

#[test]
fn only_ipv4_datagrams_in_one_packet_are_frames_unless_more_is_asked_for() {
    let capture = vector("pcap/pcap_odd_frames.pcap");
    let geometry = vector("gdgem/vmm/example_geometry.json");
    for (query, packets, ip6, refused) in [("", 15, 1, 2), ("&ip=any", 17, 0, 0)] {
        let source = format!("pcap:{capture}?flat-out{query}");
        let run = ["run", "--source", &source, "--sink", "null", "--web", "off", "--json"];
        let said = say(&[&run[..], &["--detector", "gdgem", "--geometry", &geometry]].concat());
        assert_eq!(said.counter("decode.packets"), packets, "{}", said.err);
        assert_eq!(said.counter("frames.bad"), packets, "none is a frame");
        let other = ["pcap.other_ip", "pcap.fragments_refused"].map(|name| said.counter(name));
        assert_eq!(other, [ip6, refused]);
        let inspect = ["inspect", &source, "--detector", "gdgem", "--json"];
        let shown = say(&[&inspect[..], &["--geometry", &geometry]].concat());
        assert_eq!(shown.out.lines().filter(|l| l.contains("\"packet\":")).count() as u64, packets);
    }
}

#[test]
fn a_calibration_on_the_command_line_lies_where_the_program_was_started() {
    let all = expected();
    let entry = &all["conversions"]["example_geometry"];
    let folder = tempfile::tempdir().expect("a folder");
    let config = configuration(folder.path(), entry);
    let file = vector("gdgem/calibration/full_calibration.json");
    for key in ["calibration", "cal", "-cal"] {
        let set = format!("detector.{key}={file}");
        let said = run(&[&config], &entry["capture"], &["--set", &set]);
        let wanted = &all["conversions"]["example_full_calibration"]["canonical"];
        assert_eq!(said.counter("events.candidates"), wanted["detector_clusters"]["1"], "{key}");
    }
}

#[test]
fn what_cannot_be_used_is_refused_before_anything_is_opened() {
    let refused = |settings: &[&str]| {
        let mut arguments = vec!["run", "--source", "udp://127.0.0.1:1", "--web", "off"];
        settings.iter().for_each(|set| arguments.extend(["--set", *set]));
        let said = say(&arguments);
        assert_eq!(said.code, 2, "{settings:?}: {}", said.err);
        said.err
    };
    let kind = "detector.kind=gdgem";
    let said = refused(&[kind, "detector.calibration=nowhere.json"]);
    assert!(said.contains("detector.calibration = nowhere.json: "), "{said}");
    let short = vector("gdgem/calibration/TestData_ErrSizeMismatch.json");
    let said = refused(&[kind, &format!("detector.calibration={short}")]);
    assert!(said.contains("TestData_ErrSizeMismatch.json: line "), "{said}");
    assert!(said.contains(": vmm_calibration[0]"), "{said}");
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text, words) in [
        ("empty", "", "line "),
        ("words", "no JSON", "neither JSON (line 1, column 2: expected ident) nor TOML (line 1, "),
        ("type", "{\"vmm_calibration\": 7}", "line "),
    ] {
        let file = folder.path().join(name);
        std::fs::write(&file, text).expect("written");
        let said = refused(&[kind, &format!("detector.calibration={}", file.display())]);
        assert!(said.contains(&format!("{name}: {words}")), "{said}");
    }
    let good = vector("gdgem/calibration/full_calibration.json");
    let said = refused(&["detector.kind=sonde", &format!("detector.calibration={good}")]);
    assert!(said.contains("none: sonde has no calibration file"), "{said}");
    for (set, words) in [
        ("detector.dt=[1, 2, 3]", "a list of 1"),
        ("detector.algo=8", "0 to 7, 10 for pads, and 100"),
        ("detector.mst=true", "detector: mst = true"),
        (
            "detector.dt=abc",
            "detector: dt = \"abc\": a number, or a list with one number for each detector",
        ),
    ] {
        let said = refused(&[kind, set]);
        assert!(said.contains(words), "{said}");
    }
}
