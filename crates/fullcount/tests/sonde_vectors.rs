//! The main job on real input: every SoNDe vector and the capture, through the binary.
//!
//! Each gives the events, error kind and counters of `vectors/sonde/expected.json`: read from a capture,
//! sent over UDP, and shown by `inspect`.

use crate::service;
use crate::service::{Service, capture, get, say, vector};
use serde_json::Value;

fn expected() -> Value {
    let text =
        std::fs::read_to_string(vector("sonde/expected.json")).expect("vectors are committed");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn every_vector_gives_its_error_counters_and_readouts() {
    let dir = tempfile::tempdir().expect("a folder");
    let all = expected();
    let files = all["files"].as_object().expect("files");
    assert_eq!(files.len(), 21);
    for (name, want) in files {
        let payload = std::fs::read(vector(&format!("sonde/{name}"))).expect("a vector");
        let pcap = capture(dir.path(), name, &[payload]);
        let said = say(&[
            "run",
            "--source",
            &format!("pcap:{pcap}?flat-out"),
            "--detector",
            "sonde",
            "--sink",
            "null",
            "--web",
            "off",
            "--json",
        ]);
        // All packets of a run refused: 3.
        let code = if want["error"].is_string() { 3 } else { 0 };
        assert_eq!(said.code, code, "{name}: {}", said.err);
        let s = said.summary();
        assert_eq!(s["balance"], 0, "{name}");
        assert_eq!(s["events"], want["event_count"], "{name}");
        for key in ["samples", "trailing_bytes"] {
            assert_eq!(s["counters"][key], want[key], "{name} {key}");
        }
        assert_eq!(s["counters"]["events.geometry_errors"], want["geometry_errors"], "{name}");
        let kind = want["error"].as_str();
        for (class, counter) in [
            ("bad_size", "errors.bad_size"),
            ("header", "errors.header"),
            ("unsupported", "ideas.packets.unsupported"),
        ] {
            let n = u64::from(kind == Some(class));
            assert_eq!(said.counter(counter), n, "{name} {counter}");
        }
        inspect_agrees(&pcap, name, want);
    }
}

fn inspect_agrees(pcap: &str, name: &str, want: &Value) {
    let said = say(&["inspect", &format!("pcap:{pcap}"), "--detector", "sonde", "--json"]);
    assert_eq!(said.code, 0, "{name}: {}", said.err);
    let seen: Value =
        serde_json::from_str(said.out.lines().next().unwrap_or_default()).expect("JSON");
    assert_eq!(seen["result"], want["result"], "{name}");
    assert_eq!(seen.get("error"), want.get("error"), "{name}");
    assert_eq!(seen.get("reason"), want.get("reason"), "{name}");
    // Readouts without a pixel are shown with pixel 0; events are the others.
    let columns: Vec<&str> =
        seen["columns"].as_array().unwrap().iter().flat_map(Value::as_str).collect();
    let at = |c: &str| columns.iter().position(|&x| x == c);
    let mut events = vec![];
    for row in seen["rows"].as_array().expect("rows") {
        let cell = |c: &str| at(c).map_or(Value::Null, |i| row[i].clone());
        if cell("pixel") != 0 {
            events.push(serde_json::json!([cell("time"), cell("pixel"), cell("adc")]));
        }
    }
    assert_eq!(Value::from(events), want["events"], "{name}");
}

fn capture_counters(s: &Value) {
    let all = expected();
    let want = &all["pcap"]["counters"];
    let c = &s["counters"];
    for (ours, theirs) in [
        ("receive.packets", "packets"),
        ("receive.bytes", "bytes"),
        ("errors.bad_size", "bad_size"),
        ("errors.header", "header_errors"),
        ("ideas.packets.unsupported", "unsupported"),
        ("ideas.packets.triggertime", "triggertime"),
        ("ideas.packets.singleevent", "singleevent"),
        ("ideas.packets.multievent", "multievent"),
        ("samples", "samples"),
        ("events.count", "events"),
        ("events.geometry_errors", "geometry_errors"),
        ("readouts.seq_errors", "seq_errors"),
        ("trailing_bytes", "trailing_bytes"),
    ] {
        assert_eq!(c[ours], want[theirs], "{ours}");
    }
    assert_eq!(s["balance"], 0);
}

/// (time, pixel) of every event of the capture, in order.
fn capture_events() -> Vec<(i64, i64)> {
    let all = expected();
    let order = all["pcap"]["order"].as_array().expect("order").clone();
    let events = order.iter().flat_map(|name| {
        let events = all["files"][name.as_str().unwrap()]["events"].as_array().unwrap().clone();
        events.into_iter().map(|e| (e[0].as_i64().unwrap(), e[1].as_i64().unwrap()))
    });
    events.collect()
}

/// (time, pixel) of every event of a file, in order.
fn file_events(path: &str) -> Vec<(i64, i64)> {
    let f = hdf5_metno::File::open(path).expect("opens after a proper close");
    let e = f.group("entry/instrument/sonde/sonde_events").expect("the event group");
    let ids = e.dataset("event_id").unwrap().read_raw::<i32>().unwrap();
    let offsets = e.dataset("event_time_offset").unwrap().read_raw::<i32>().unwrap();
    let zeros = e.dataset("event_time_zero").unwrap().read_raw::<u64>().unwrap();
    let index = e.dataset("event_index").unwrap().read_raw::<i64>().unwrap();
    let pulse_of = |i: usize| index.partition_point(|&first| first as usize <= i) - 1;
    let event = |i: usize| (zeros[pulse_of(i)] as i64 + i64::from(offsets[i]), i64::from(ids[i]));
    (0..ids.len()).map(event).collect()
}

/// By reference block of 2³⁰ ns: the file has its events by pulse, those of a pulse in order of arrival.
fn by_block(mut events: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
    events.sort_by_key(|(time, _)| time >> 30);
    events
}

#[test]
fn the_capture_flat_out_gives_the_events_in_the_file_with_one_and_two_threads() {
    let dir = tempfile::tempdir().expect("a folder");
    for threads in ["1", "2"] {
        let file = dir.path().join(format!("{threads}.nxs")).display().to_string();
        let source = format!("pcap:{}?flat-out", vector("sonde/sonde.pcap"));
        let said = say(&[
            "run",
            "--source",
            &source,
            "--detector",
            "sonde",
            "--set",
            "detector.sequence_state=one",
            "--nexus",
            &file,
            "--web",
            "off",
            "--threads",
            threads,
            "--json",
        ]);
        let s = said.summary();
        capture_counters(&s);
        assert_eq!(s["outputs"]["nexus"]["events"], 467);
        assert_eq!(by_block(file_events(&file)), by_block(capture_events()));
    }
}

#[test]
fn the_capture_over_udp_gives_the_same_in_the_file_and_on_the_page() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("udp.nxs").display().to_string();
    let mut run = Service::start(&[
        "run",
        "--source",
        "udp://127.0.0.1:0",
        "--epoch",
        "0",
        "--detector",
        "sonde",
        "--set",
        "detector.sequence_state=one",
        "--nexus",
        &file,
        "--web",
        "127.0.0.1:0",
        "--json",
    ]);
    let (port, page) = (run.udp_port(), run.page());
    let metrics = get(&page, "/metrics");
    assert!(metrics.contains("receive_packets"), "every counter is there from the start");
    let to = format!("udp://127.0.0.1:{port}");
    let source = format!("pcap:{}", vector("sonde/sonde.pcap"));
    let sent = say(&["send", "--to", &to, "--source", &source, "--json"]);
    assert_eq!(sent.code, 0, "{}", sent.err);
    assert_eq!(sent.summary()["packets"]["sent"], 21);
    // Wait until the service itself says that it has seen all 21.
    let end = std::time::Instant::now() + service::PATIENCE;
    loop {
        let state: Value = serde_json::from_str(&get(&page, "/api/state")).expect("JSON");
        let text = state.to_string();
        let lines = state["ledger"].as_array().expect("ledger lines");
        let value =
            |name: &str| lines.iter().find(|l| l["name"] == name).map(|l| l["value"].clone());
        if value("receive.packets") == Some(21.into())
            && value("sink.live.counted") == Some(467.into())
        {
            assert_eq!(value("events.count"), Some(467.into()), "{text}");
            break;
        }
        assert!(std::time::Instant::now() < end, "{text}");
    }
    run.interrupt();
    let said = run.end();
    capture_counters(&said.summary());
    assert_eq!(by_block(file_events(&file)), by_block(capture_events()));
}

#[test]
fn a_capture_repeated_with_shift_is_one_long_run() {
    let source = format!("pcap:{}?flat-out&repeat=3&shift", vector("sonde/sonde.pcap"));
    let preloaded = format!("{source}&preload");
    for source in [source, preloaded] {
        let said = say(&[
            "run",
            "--source",
            &source,
            "--set",
            "detector.sequence_state=one",
            "--sink",
            "null",
            "--web",
            "off",
            "--json",
        ]);
        let s = said.summary();
        assert_eq!(s["events"], 3 * 467, "{}", said.err);
        // The capture's own jumps, three times, and none at the seams.
        assert_eq!(said.counter("readouts.seq_errors"), 3 * 11);
        assert_eq!(s["balance"], 0);
    }
}

#[test]
fn a_capture_repeated_with_shift_over_udp_is_one_long_run() {
    // Forty packets of three events with a consecutive packet count and times 1 ms apart.
    let dir = tempfile::tempdir().expect("a folder");
    let model = std::fs::read(vector("sonde/d6_3_events.bin")).expect("a vector");
    let first = u32::from_be_bytes(model[4..8].try_into().unwrap());
    let packets: Vec<Vec<u8>> = (0..40u16)
        .map(|n| {
            let mut p = model.clone();
            let flags = u16::from_be_bytes([p[2], p[3]]) & 0xc000;
            p[2..4].copy_from_slice(&(flags | (100 + n)).to_be_bytes());
            p[4..8].copy_from_slice(&(first + 1_000_000 * u32::from(n)).to_be_bytes());
            p
        })
        .collect();
    let file = capture(dir.path(), "clean", &packets);
    let mut run = Service::start(&[
        "run",
        "--source",
        "udp://127.0.0.1:0",
        "--epoch",
        "0",
        "--sink",
        "null",
        "--web",
        "off",
        "--packets",
        "200",
        "--json",
    ]);
    let to = format!("udp://127.0.0.1:{}", run.udp_port());
    let source = format!("pcap:{file}?repeat=5&shift&flat-out");
    let sent = say(&["send", "--to", &to, "--source", &source, "--rate", "5kpps", "--json"]);
    assert_eq!(sent.code, 0, "{}", sent.err);
    assert_eq!(sent.summary()["packets"]["sent"], 200);
    let said = run.end();
    let s = said.summary();
    assert_eq!((said.code, s["events"].as_u64()), (0, Some(5 * 40 * 3)), "{}", said.err);
    for what in ["duplicate", "reordered", "late", "restarts"] {
        assert_eq!(s["packets"][what], 0, "{what}: {}", said.err);
    }
    assert_eq!(said.counter("readouts.seq_errors"), 0);
    assert_eq!(said.counter("packets.lost"), 0);

    // The committed capture, whose packets share one count: its own jumps three times, none at the seams.
    let mut run = Service::start(&[
        "run",
        "--source",
        "udp://127.0.0.1:0",
        "--epoch",
        "0",
        "--set",
        "detector.sequence_state=one",
        "--sink",
        "null",
        "--web",
        "off",
        "--packets",
        "63",
        "--json",
    ]);
    let to = format!("udp://127.0.0.1:{}", run.udp_port());
    let source = format!("pcap:{}?repeat=3&shift&flat-out", vector("sonde/sonde.pcap"));
    let sent = say(&[
        "send",
        "--to",
        &to,
        "--source",
        &source,
        "--detector",
        "sonde",
        "--set",
        "detector.sequence_state=one",
        "--rate",
        "5kpps",
    ]);
    assert_eq!(sent.code, 0, "{}", sent.err);
    let said = run.end();
    assert_eq!(said.summary()["events"], 3 * 467, "{}", said.err);
    assert_eq!(said.counter("readouts.seq_errors"), 3 * 11);
}
