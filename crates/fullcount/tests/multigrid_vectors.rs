//! The main job on Multi-Grid data, through the binary: the capture from a file and over UDP gives the events
//! and counters of `vectors/multigrid/expected.json`, on one thread and on two.

use crate::service;
use crate::service::{Service, get, say, vector};
use serde_json::Value;

fn expected() -> Value {
    let text = std::fs::read_to_string(vector("multigrid/expected.json")).expect("committed");
    serde_json::from_str(&text).expect("JSON")
}

fn geometry() -> String {
    vector("multigrid/config/three_modules_mg24.json")
}

fn capture_counters(s: &Value) {
    let all = expected();
    let want = &all["pcap"]["counters"];
    let c = &s["counters"];
    for (ours, theirs) in [
        ("rx_packets", "rx_packets"),
        ("receive.bytes", "rx_bytes"),
        ("readouts_total", "readouts_total"),
        ("rx_discarded_bytes", "discarded_bytes"),
        ("parser_triggers", "triggers"),
        ("builder_glitch_rejects", "glitch_rejects"),
        ("builder_geometry_errors", "geometry_errors"),
        ("hits.count", "hits_total"),
        ("hits_time_seq_err", "hits_time_seq_err"),
        ("wire_clusters", "wire_clusters"),
        ("grid_clusters", "grid_clusters"),
        ("events.groups", "events_total"),
        ("events_multiplicity_rejects", "events_multiplicity_rejects"),
        ("hits_used", "hits_used"),
        ("events_bad", "events_bad"),
        ("tx_events", "tx_events"),
        ("pulses", "pulses"),
    ] {
        assert_eq!(c[ours], want[theirs], "{ours}");
    }
    assert_eq!(s["balance"], 0);
    // Packets from many places, some refused: nothing of it is a loss.
    assert_eq!(s["lost_numbered"]["container_events"]["lost"], 0);
    assert_eq!(s["events"], all["pcap"]["event_count"]);
}

/// (time ns, pixel) of every event of the capture, sorted.
fn capture_events() -> Vec<(i64, i64)> {
    let all = expected();
    let events = all["pcap"]["events_sorted"].as_array().expect("events").clone();
    let row = |e: &Value| (e[0].as_i64().unwrap() * 125 / 2, e[1].as_i64().unwrap());
    let mut events: Vec<_> = events.iter().map(row).collect();
    events.sort_unstable();
    events
}

/// (time, pixel) of every event of a file, sorted.
fn file_events(path: &str) -> Vec<(i64, i64)> {
    let f = hdf5_metno::File::open(path).expect("opens after a proper close");
    let e = f.group("entry/instrument/multigrid/multigrid_events").expect("the event group");
    let ids = e.dataset("event_id").unwrap().read_raw::<i32>().unwrap();
    let offsets = e.dataset("event_time_offset").unwrap().read_raw::<i32>().unwrap();
    let zeros = e.dataset("event_time_zero").unwrap().read_raw::<u64>().unwrap();
    let index = e.dataset("event_index").unwrap().read_raw::<i64>().unwrap();
    let pulse_of = |i: usize| index.partition_point(|&first| first as usize <= i) - 1;
    let event = |i: usize| (zeros[pulse_of(i)] as i64 + i64::from(offsets[i]), i64::from(ids[i]));
    let mut events: Vec<_> = (0..ids.len()).map(event).collect();
    events.sort_unstable();
    events
}

#[test]
fn the_capture_flat_out_gives_the_events_in_the_file_with_one_and_two_threads() {
    let dir = tempfile::tempdir().expect("a folder");
    for (threads, pulse) in [("1", "none"), ("2", "none"), ("1", "data")] {
        let file = dir.path().join(format!("{threads}{pulse}.nxs")).display().to_string();
        let source = format!("pcap:{}?flat-out", vector("multigrid/multigrid.pcap"));
        let said = say(&[
            "run",
            "--source",
            &source,
            "--detector",
            "multigrid",
            "--geometry",
            &geometry(),
            "--pulse",
            pulse,
            "--nexus",
            &file,
            "--web",
            "off",
            "--threads",
            threads,
            "--json",
        ]);
        assert_eq!(said.code, 0, "{}", said.err);
        capture_counters(&said.summary());
        assert_eq!(file_events(&file), capture_events(), "{threads} threads, {pulse}");
    }
}

#[test]
fn the_capture_over_udp_gives_the_same() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("udp.nxs").display().to_string();
    let mut run = Service::start(&[
        "run",
        "--source",
        "udp://127.0.0.1:0",
        "--epoch",
        "0",
        "--detector",
        "multigrid",
        "--geometry",
        &geometry(),
        "--pulse",
        "data",
        // Triggers of one time come in several packets here: no pause on this host may part them.
        "--set",
        "detector.release_ms=60000",
        "--nexus",
        &file,
        "--web",
        "127.0.0.1:0",
        "--json",
    ]);
    let (port, page) = (run.udp_port(), run.page());
    let to = format!("udp://127.0.0.1:{port}");
    let source = format!("pcap:{}", vector("multigrid/multigrid.pcap"));
    let sent = say(&["send", "--to", &to, "--source", &source, "--json"]);
    assert_eq!(sent.code, 0, "{}", sent.err);
    assert_eq!(sent.summary()["packets"]["sent"], 27);
    // Wait until the service itself says that it has decoded all.
    let end = std::time::Instant::now() + service::PATIENCE;
    loop {
        let state: Value = serde_json::from_str(&get(&page, "/api/state")).expect("JSON");
        let lines = state["ledger"].as_array().expect("ledger lines");
        let value =
            |name: &str| lines.iter().find(|l| l["name"] == name).map(|l| l["value"].clone());
        if value("decode.packets") == Some(27.into()) {
            break;
        }
        assert!(std::time::Instant::now() < end, "{state}");
    }
    run.interrupt();
    let said = run.end();
    capture_counters(&said.summary());
    assert_eq!(file_events(&file), capture_events());
}

#[test]
fn a_capture_repeated_with_shift_is_one_long_run() {
    let source = format!("pcap:{}?flat-out&repeat=3&shift", vector("multigrid/multigrid.pcap"));
    for source in [source.clone(), format!("{source}&preload")] {
        let said = say(&[
            "run",
            "--source",
            &source,
            "--detector",
            "multigrid",
            "--geometry",
            &geometry(),
            "--sink",
            "null",
            "--web",
            "off",
            "--json",
        ]);
        let s = said.summary();
        assert_eq!(s["balance"], 0, "{}", said.err);
        assert_eq!(said.counter("parser_triggers"), 3 * 131);
        // The last high part of the first pass is that of the first triggers of the next, which have none: their times
        // differ, not their number.
        assert_eq!(s["events"], 3 * 105, "{}", said.err);
    }
}

#[test]
fn what_is_odd_in_a_geometry_is_said_and_what_is_wrong_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("geometry.json");
    let published = std::fs::read_to_string(geometry()).expect("committed");
    let run = |text: String| {
        std::fs::write(&file, text).expect("written");
        let source = format!("pcap:{}?flat-out", vector("multigrid/multigrid.pcap"));
        let path = file.display().to_string();
        let arguments =
            ["run", "--source", &source, "--detector", "multigrid", "--geometry", &path];
        say(&[&arguments[..], &["--sink", "null", "--web", "off", "--json"]].concat())
    };
    let odd = run(published.replace("num_wires", "mum_wires"));
    assert_eq!(odd.code, 0, "{}", odd.err);
    assert!(odd.err.contains("mum_wires is read as num_wires"), "{}", odd.err);
    let wrong = run(published.replace("\"x_offset\": 8", "\"x_offset\": 7"));
    assert_eq!(wrong.code, 2);
    assert!(
        wrong.err.contains("geometry.json: line 57: pipeline_config.modules[2]"),
        "{}",
        wrong.err
    );
}

#[test]
fn inspect_shows_triggers_readouts_and_refusals() {
    let capture = format!("pcap:{}", vector("multigrid/multigrid.pcap"));
    let said =
        say(&["inspect", &capture, "--detector", "multigrid", "--geometry", &geometry(), "--json"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let s = said.summary();
    assert_eq!((&s["packets"]["received"], &s["bytes"]["received"]), (&27.into(), &8721.into()));
    assert_eq!(s["packets"]["rejected"]["errors.container.packet_type"], 1);
    // Readouts of triggers with a time, glitches among them.
    assert_eq!(s["readouts"], 309 + 425);
}
