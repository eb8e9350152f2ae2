//! Gd-GEM through the binary: the captures from the file, with calibration and the parameters of vmm-sdat in the configuration, and
//! what is refused before anything is opened.
//!
//! Answers: `vectors/gdgem/expected.json`.

use crate::service::{Said, say, vector};
use serde_json::{Value, json};

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

/// A pcap file of UDP datagrams to the port of the readout, each so many µs after the one before, less than a second in all.
pub fn pcap(datagrams: &[Vec<u8>], apart_us: u32) -> Vec<u8> {
    let mut out = Vec::new();
    // Magic of microseconds, version 2.4, zone, accuracy, largest packet, Ethernet.
    out.extend([0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 0xffff, 1].map(u32::to_le_bytes).concat());
    for (at, payload) in (0..).zip(datagrams) {
        let udp = 8 + payload.len() as u16;
        let length = u32::from(udp) + 34;
        out.extend([1_700_000_000, at * apart_us, length, length].map(u32::to_le_bytes).concat());
        out.extend([0; 12]);
        out.extend([0x08, 0x00, 0x45, 0]);
        out.extend((udp + 20).to_be_bytes());
        out.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1]);
        out.extend([6006, 6006, udp, 0].map(u16::to_be_bytes).concat());
        out.extend(payload);
    }
    out
}

#[test]
fn inspect_keeps_columns_apart_and_says_why_a_word_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("pads.pcap");
    let mut frame = std::fs::read(vector("gdgem/pad_frame_0.bin")).expect("vectors are committed");
    frame.truncate(16);
    // A marker of VMM 5 with 42 bits, hits of VMM 5 with the offsets 2, 16 and 17, one of VMM 16.
    let hit = |offset: u32, vmm: u32| {
        let high = (offset << 27 | vmm << 22 | 300 << 12).to_be_bytes();
        [high[0], high[1], high[2], high[3], 0xc0 | 11, 9]
    };
    let marker = [0xff, 0xff, 0xff, 0xff, 5 << 2 | 3, 0xff];
    let words = [marker, hit(2, 5), hit(16, 5), hit(17, 5), hit(0, 16)];
    frame.extend(words.concat());
    std::fs::write(&file, pcap(&[frame], 0)).expect("written");
    let geometry = vector("gdgem/vmm/example_geometry_pad.json");
    let capture = format!("pcap:{}", file.display());
    let inspect = |more: &[&str]| {
        let common = ["inspect", &capture, "--detector", "gdgem", "--geometry", &geometry];
        let said = say(&[&common[..], more].concat());
        assert_eq!(said.code, 0, "{}", said.err);
        said.out
    };
    let text = inspect(&[]);
    let mut lines = text.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let head = lines.next().expect("headings");
    let wanted = "hit fec vmm offset channel bcid tdc adc over_threshold marker trigger_time trigger_count detector plane coordinate row";
    assert_eq!(head.join(" "), wanted);
    let rows: Vec<_> = lines.collect();
    assert_eq!(rows[0].join(" "), "0 2 5 -1 -1 -1 -1 -1 -1 4398046511103 -1 -1 -1 -1 -1 -1");
    // Channel 11 of the pads is column 1, row 3.
    assert_eq!(rows[1].join(" "), "1 2 5 2 11 0 9 300 1 4398046511103 -1 -1 1 1 1 3");
    let reasons = ["hits.latency_violation", "hits.bad_offset", "hits.bad_vmm"];
    for (row, reason) in rows[2..].iter().zip(reasons) {
        assert_eq!(row[16..].join(" "), format!("refused: {reason}"));
    }
    let seen: Value = serde_json::from_str(inspect(&["--json"]).lines().next().unwrap()).unwrap();
    assert_eq!(seen["columns"].as_array().map(Vec::len), Some(16));
    let refused = |n: usize| json!({"row": n + 2, "counter": reasons[n]});
    assert_eq!(seen["refused"], json!([refused(0), refused(1), refused(2)]));
    let few: Value =
        serde_json::from_str(inspect(&["--json", "--rows", "2"]).lines().next().unwrap()).unwrap();
    assert_eq!((few["rows"].as_array().map(Vec::len), few.get("refused")), (Some(2), None));
}
