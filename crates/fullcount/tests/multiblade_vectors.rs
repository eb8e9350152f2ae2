//! Multi-Blade through the binary: every vector through `inspect`, the capture from the file and over UDP.
//!
//! Answers: `vectors/multiblade/expected.json`.

use crate::service::{Service, capture, get, say, vector};
use serde_json::Value;

fn expected() -> Value {
    let text =
        std::fs::read_to_string(vector("multiblade/expected.json")).expect("vectors are committed");
    serde_json::from_str(&text).expect("JSON")
}

fn geometry() -> String {
    vector("multiblade/config/AmorB.json")
}

#[test]
fn inspect_and_run_agree_with_every_vector() {
    let dir = tempfile::tempdir().expect("a folder");
    let all = expected();
    for (name, want) in all["files"].as_object().expect("files") {
        let payload = std::fs::read(vector(&format!("multiblade/{name}"))).expect("a vector");
        let pcap = capture(dir.path(), name, &[payload]);
        let said = say(&["inspect", &format!("pcap:{pcap}"), "--detector", "multiblade", "--json"]);
        assert_eq!(said.code, 0, "{name}: {}", said.err);
        let seen: Value =
            serde_json::from_str(said.out.lines().next().unwrap_or_default()).expect("JSON");
        assert_eq!(seen["result"], want["result"], "{name}");
        let class = want["error"].as_str().map(|e| match e {
            "ESIZE" => "bad_size",
            "EHEADER" => "header",
            other => panic!("{other}"),
        });
        assert_eq!(seen.get("error").and_then(Value::as_str), class, "{name}");
        let rows = seen["rows"].as_array().map_or(0, Vec::len);
        assert_eq!(Some(rows as u64), want["readouts"].as_u64(), "{name}");

        let source = format!("pcap:{pcap}?flat-out");
        let run = ["run", "--source", &source, "--detector", "multiblade", "--sink", "null"];
        let said = say(&[&run[..], &["--web", "off", "--json"]].concat());
        // All packets of a run refused: 3.
        let code = if class.is_some() { 3 } else { 0 };
        assert_eq!(said.code, code, "{name}: {}", said.err);
        let s = said.summary();
        assert_eq!(s["balance"], 0, "{name}");
        for key in ["error_version", "error_bytes", "seq_errors"] {
            assert_eq!(s["counters"][format!("readouts.{key}")], want["counters"][key], "{name}");
        }
    }
}

/// What the ledger must say after the capture.
fn compare(counters: &Value, mode: &str, names: [(&str, &str); 9]) {
    let all = expected();
    let want = &all["pcap"][mode];
    for (ours, theirs) in names {
        assert_eq!(counters[ours], want["counters"][theirs], "{mode}: {ours}");
    }
    assert_eq!(counters["readouts.seq_errors"], want["parser"]["seq_errors"]);
    assert_eq!(counters["receive.packets"], want["packets"]);
}

const NAMES: [(&str, &str); 9] = [
    ("packet.bad_digitizer", "PacketBadDigitizer"),
    ("readouts.count", "ReadoutsCount"),
    ("readouts.good", "ReadoutsGood"),
    ("readouts.invalid_channel", "ReadoutsInvalidChannel"),
    ("readouts.monitor", "MonitorCount"),
    ("readouts.discard_1d", "ReadoutsDiscard1D"),
    ("events.count", "Events"),
    ("events.no_coincidence", "EventsNoCoincidence"),
    ("events.geometry_errors", "GeometryErrors"),
];

/// (time, pixel) of every event of a file, sorted: a file has its events by pulse.
fn file_events(path: &str) -> Vec<(i64, i64)> {
    let f = hdf5_metno::File::open(path).expect("opens after a proper close");
    let e = f.group("entry/instrument/multiblade/multiblade_events").expect("the event group");
    let ids = e.dataset("event_id").unwrap().read_raw::<i32>().unwrap();
    let offsets = e.dataset("event_time_offset").unwrap().read_raw::<i32>().unwrap();
    let zeros = e.dataset("event_time_zero").unwrap().read_raw::<u64>().unwrap();
    let index = e.dataset("event_index").unwrap().read_raw::<i64>().unwrap();
    let pulse_of = |i: usize| index.partition_point(|&first| first as usize <= i) - 1;
    let event = |i: usize| (zeros[pulse_of(i)] as i64 + i64::from(offsets[i]), i64::from(ids[i]));
    let mut all: Vec<_> = (0..ids.len()).map(event).collect();
    all.sort_unstable();
    all
}

fn sums(events: &[(i64, i64)], mode: &str) {
    let all = expected();
    let want = &all["pcap"][mode];
    assert_eq!(want["events"], events.len(), "{mode}");
    assert_eq!(want["sum_time"], events.iter().map(|e| e.0).sum::<i64>(), "{mode}");
    assert_eq!(want["sum_pixel"], events.iter().map(|e| e.1).sum::<i64>(), "{mode}");
}

#[test]
fn the_capture_gives_the_same_events_from_the_file_and_over_udp() {
    let dir = tempfile::tempdir().expect("a folder");
    let source = format!("pcap:{}", vector("multiblade/multiblade.pcap"));
    for (mode, key) in [("1d", "AmorB_1d"), ("2d", "AmorB_alignment")] {
        let set = format!("detector.mode={mode}");
        let options =
            ["--detector", "multiblade", "--geometry", &geometry(), "--set", &set, "--json"];
        let mut seen = Vec::new();
        for threads in ["1", "2"] {
            let file = dir.path().join(format!("{mode}-{threads}.nxs")).display().to_string();
            let flat = format!("{source}?flat-out");
            let run =
                ["run", "--source", &flat, "--nexus", &file, "--web", "off", "--threads", threads];
            let said = say(&[&run[..], &options[..]].concat());
            // The payloads in front are not numbered like the rest: packets are missing, exit code 3.
            assert_eq!(said.code, 3, "{}", said.err);
            compare(&said.summary()["counters"], key, NAMES);
            assert_eq!(said.summary()["balance"], 0);
            seen.push(file_events(&file));
        }
        let file = dir.path().join(format!("{mode}-udp.nxs")).display().to_string();
        let live = [
            "run",
            "--source",
            "udp://127.0.0.1:0",
            "--nexus",
            &file,
            "--web",
            "127.0.0.1:0",
            "--epoch",
            "0",
        ];
        let mut run = Service::start(&[&live[..], &options[..], &["--packets", "103"]].concat());
        let (port, page) = (run.udp_port(), run.page());
        assert!(get(&page, "/metrics").contains("events_no_coincidence"));
        let to = format!("udp://127.0.0.1:{port}");
        let sent = say(&["send", "--to", &to, "--source", &source, "--json"]);
        assert_eq!((sent.code, sent.summary()["packets"]["sent"].as_u64()), (0, Some(103)));
        let said = run.end();
        compare(&said.summary()["counters"], key, NAMES);
        seen.push(file_events(&file));
        sums(&seen[0], key);
        assert!(seen.iter().all(|events| *events == seen[0]), "{mode}");
    }
}

#[test]
fn a_capture_repeated_with_shift_is_one_long_run() {
    // The hundred recorded packets, which are numbered without a gap.
    let dir = tempfile::tempdir().expect("a folder");
    let whole = std::fs::read(vector("multiblade/multiblade.pcap")).expect("a vector");
    let mut rest = &whole[24..];
    let mut packets = Vec::new();
    while let Some(length) = rest.get(8..12) {
        let length = u32::from_le_bytes(length.try_into().unwrap()) as usize;
        packets.push(rest[16 + 42..16 + length].to_vec());
        rest = &rest[16 + length..];
    }
    let file = capture(dir.path(), "recorded", &packets[3..]);
    let mut events = Vec::new();
    for options in ["flat-out", "flat-out&repeat=4&shift", "flat-out&repeat=4&shift&preload"] {
        let source = format!("pcap:{file}?{options}");
        let said = say(&[
            "run",
            "--source",
            &source,
            "--detector",
            "multiblade",
            "--sink",
            "null",
            "--web",
            "off",
            "--json",
        ]);
        assert_eq!(said.code, 0, "{}", said.err);
        assert_eq!(said.counter("readouts.seq_errors"), 0);
        assert_eq!(said.counter("packets.lost"), 0);
        events.push(said.summary()["events"].as_u64().expect("a number"));
    }
    assert!(events[0] > 50);
    // A box may reach over the seam of two packets by its start alone: section 5 keeps it.
    assert_eq!(events[1], events[2]);
    assert_eq!(events[1], 4 * events[0]);
}

#[test]
fn wrong_geometry_and_options_exit_with_2_and_name_the_key() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("geo.toml").display().to_string();
    let text = std::fs::read_to_string(vector("multiblade/config/MB18Freia.json")).unwrap();
    std::fs::write(&file, text.replace("\"id\" : 143", "\"id\" : 137")).unwrap();
    for (options, words) in [
        (vec!["--geometry", &file], ["geo.toml: line 9: DigitizerConfig", "id 137 twice"]),
        (vec!["--set", "detector.subpixels=17"], ["detector.subpixels: 17", "1..=16"]),
        (vec!["--set", "detector.threshold=3"], ["detector.threshold: 3", "fixed-window"]),
        (
            vec!["--set", "detector.amplitude_ratio=[2.0, 1.0]"],
            ["detector.amplitude_ratio", "smallest"],
        ),
        (vec!["--set", "time.pulse=data"], ["time.pulse: data", "carry no pulses"]),
        (vec!["--tick", "8ns"], ["time.tick: 8/1 ns", "16 ns"]),
    ] {
        let print = ["run", "--detector", "multiblade", "--print-config"];
        let said = say(&[&print[..], &options[..]].concat());
        assert_eq!(said.code, 2, "{options:?}: {}", said.err);
        for word in words {
            assert!(said.err.contains(word), "{options:?}: '{word}' is not in {}", said.err);
        }
    }
}
