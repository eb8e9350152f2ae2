//! Multi-Grid packets that are lost: their container events are counted, exactly, in the ledger, on the page and in
//! `/metrics`, and the run ends with 3. Source: `docs/losses.md`, "What is numbered".

use crate::service::{Said, Service, get, say};
use serde_json::Value;

const PACKETS: &str = "10969";

/// Sends 10,969 simulated packets to a service; returns its output, the page's state and the metrics before its end.
fn received(fault: &[&str], more: &[&str]) -> (Said, Value, String) {
    let words =
        ["run", "--source", "udp://127.0.0.1:0?receive_buffer=64MiB", "--detector", "multigrid"];
    let rest = ["--web", "127.0.0.1:0", "--json"];
    let mut run = Service::start(&[&words[..], &rest, more].concat());
    let to = format!("udp://127.0.0.1:{}", run.udp_port());
    let send = ["send", "--to", &to, "--source", "multigrid", "--count", PACKETS, "--seed", "5"];
    let said = say(&[&send[..], &["--rate", "5kpps"], fault].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let page = run.page();
    let packets = |state: &Value| state["totals"]["packets"].as_u64().unwrap_or(0);
    let wanted = if fault.is_empty() { 10_969 } else { 10_969 - 570 };
    let state = loop {
        let state: Value = serde_json::from_str(&get(&page, "/api/state")).expect("JSON");
        if packets(&state) >= wanted {
            break state;
        }
    };
    let metrics = get(&page, "/metrics");
    run.interrupt();
    (run.end(), state, metrics)
}

#[test]
fn lost_packets_are_counted_by_their_events_everywhere() {
    let (whole, state, _) = received(&[], &[]);
    assert_eq!(whole.code, 0, "{}", whole.err);
    assert_eq!(state["lost_numbered"][0]["lost"], 0);
    let sent = whole.counter("container_events.count");
    assert!(sent > 10 * 10_969, "{sent}");
    let none = &whole.summary()["lost_numbered"]["container_events"];
    assert_eq!((&none["lost"], &none["restarts"]), (&Value::from(0), &Value::from(0)));

    let drop = ["--fault", "drop=570,of=10969,seed=3"];
    for threads in ["1", "2"] {
        let (lossy, state, metrics) =
            received(&drop, &["--threads", threads, "--set", "engine.probes=\"off\""]);
        let s = lossy.summary();
        let told = &s["lost_numbered"]["container_events"];
        let lost = told["lost"].as_u64().expect("a number");
        assert_eq!(lost + lossy.counter("container_events.count"), sent, "exactly");
        assert!(lost > 5700, "{lost}");
        assert_eq!((told["unit"].as_str(), lossy.code), (Some("container events"), 3));
        let places = told["places"].as_object().expect("places").values();
        assert_eq!(places.filter_map(Value::as_u64).sum::<u64>(), lost);
        assert_eq!((&s["balance"], &s["packets"]["lost"]["unknown"]), (&0.into(), &0.into()));
        for what in ["duplicate", "reordered", "late", "restarts"] {
            assert_eq!(told[what], 0, "{what}");
        }
        let text = format!("{} container events", fullcount_engine::summary::grouped(lost));
        assert!(lossy.err.contains(&text), "{}", lossy.err);
        // The page is red as soon as a number is given up, and shows the open gaps meanwhile.
        let on_page = &state["lost_numbered"][0];
        let page = on_page["lost"].as_u64().unwrap() + on_page["missing"].as_u64().unwrap();
        assert_eq!(page, lost);
        assert_eq!(state["anything_lost"], true);
        let line =
            metrics.lines().find(|l| l.starts_with("fullcount_container_events_lost_total{"));
        assert!(
            line.is_some_and(|l| l.contains("role=\"missing\"") && !l.ends_with(" 0")),
            "{line:?}"
        );
    }
}
