//! A full spool and no broker: a run ends within `drain` for any cause, undelivered events are counted, and the filling
//! of the spool is reported before it is full. Source: `docs/kafka.md`, "The spool".

use crate::service;
use std::net::UdpSocket;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::service::{Said, Service, capture, get};

/// What the end of a run may wait for its broker.
const DRAIN: Duration = Duration::from_secs(2);
/// Beside it: a queue that is given up, 16 MiB that are closed, a machine with other work.
const BOUND: Duration = Duration::from_secs(20);
/// Events of a packet.
const EVENTS: u8 = 250;

/// A SoNDe packet of 250 events, 1 µs apart.
fn packet(k: u32) -> Vec<u8> {
    let begin = k.wrapping_mul(250_000);
    let mut p = vec![0, 0xd6];
    p.extend((k as u16 & 0x3fff).to_be_bytes());
    p.extend(begin.to_be_bytes());
    p.extend((1 + 5 * u16::from(EVENTS)).to_be_bytes());
    p.push(EVENTS);
    for n in 0..u32::from(EVENTS) {
        p.extend(begin.wrapping_add(n * 1_000).to_be_bytes());
        p.push(64 | (n % 16) as u8);
    }
    p
}

/// A run into a spool of 16 MiB; no broker listens at port 1. Messages of 10 events, 200 B and more: 3,000 packets fill
/// it.
fn arguments(source: &str, spool: &Path, more: &[&str]) -> Vec<String> {
    let base = ["run", "--source", source, "--detector", "sonde", "--tick", "1ns", "--json"];
    let kafka = ["--kafka", "kafka://127.0.0.1:1/full_detector", "--web", "127.0.0.1:0"];
    let mut all: Vec<String> =
        base.iter().chain(&kafka).chain(more).map(|a| a.to_string()).collect();
    all.extend(["--spool".to_owned(), spool.display().to_string()]);
    let drain = format!("drain={}s", DRAIN.as_secs());
    for key in ["spool_size=16MiB", "capacity=10", &drain] {
        all.extend(["--set".to_owned(), format!("output.kafka.{key}")]);
    }
    all.extend(["--set", "engine.queue=4"].map(str::to_owned));
    all
}

fn start(arguments: &[String]) -> Service {
    Service::start(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Value of a line of `/metrics`: a family, or one of its lines with its labels.
fn metric(page: &str, name: &str) -> u64 {
    let text = get(page, "/metrics");
    let value = |line: &str| {
        let rest = line.strip_prefix(name)?;
        rest.starts_with([' ', '{']).then(|| rest.rsplit(' ').next()?.parse().ok())?
    };
    text.lines().find_map(value).unwrap_or_else(|| panic!("{name}: {text}"))
}

fn wait_until_full(page: &str) {
    let begun = Instant::now();
    while metric(page, "fullcount_kafka_spool_full_total") == 0 {
        assert!(begun.elapsed() < service::PATIENCE, "the spool never was full");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends packets until the spool is full, and some more.
fn fill(service: &mut Service, packets: u32) -> String {
    let (page, port) = (service.page(), service.udp_port());
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let mut sent = 0;
    let begun = Instant::now();
    while sent < packets || metric(&page, "fullcount_kafka_spool_full_total") == 0 {
        assert!(begun.elapsed() < service::PATIENCE, "the spool never was full");
        for _ in 0..200 {
            socket.send_to(&packet(sent), ("127.0.0.1", port)).expect("sent");
            sent += 1;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    page
}

/// It ended in time; its lost events are counted, with exit code 3.
fn assert_lost(said: &Said, took: Duration) {
    assert!(took < DRAIN + BOUND, "{took:?}: {}", said.err);
    assert_eq!(said.code, 3, "{}", said.err);
    let summary = said.summary();
    assert_eq!(summary["balance"], 0, "{}", said.err);
    assert!(summary["events_lost"]["kafka"].as_u64() > Some(0), "{summary}");
    let [lost, kept] =
        [&summary["events_lost"]["kafka"], &summary["outputs"]["kafka"]["spool"]["events"]];
    let all = lost.as_u64().zip(kept.as_u64()).map(|(a, b)| a + b);
    assert_eq!(all, summary["events"].as_u64(), "{summary}");
}

#[test]
fn a_run_that_was_silent_long_enough_ends_behind_a_full_spool() {
    let dir = tempfile::tempdir().expect("a folder");
    let more = ["--idle-exit", "1s"];
    let mut service = start(&arguments("udp://127.0.0.1:0", &dir.path().join("spool"), &more));
    let _ = fill(&mut service, 4_000);
    let begun = Instant::now();
    assert_lost(&service.end(), begun.elapsed());
}

#[test]
fn a_run_whose_time_is_over_ends_behind_a_full_spool() {
    let dir = tempfile::tempdir().expect("a folder");
    let more = ["--duration", "6s"];
    let mut service = start(&arguments("udp://127.0.0.1:0", &dir.path().join("spool"), &more));
    let _ = fill(&mut service, 4_000);
    let begun = Instant::now();
    assert_lost(&service.end(), begun.elapsed().saturating_sub(Duration::from_secs(6)));
}

#[test]
fn a_run_that_has_its_packets_ends_behind_a_full_spool() {
    let dir = tempfile::tempdir().expect("a folder");
    let more = ["--packets", "4000"];
    let mut service = start(&arguments("udp://127.0.0.1:0", &dir.path().join("spool"), &more));
    let (_, port) = (service.page(), service.udp_port());
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let begun = Instant::now();
    for k in 0.. {
        if socket.send_to(&packet(k), ("127.0.0.1", port)).is_err() || k == 40_000 {
            break;
        }
        if k % 100 == 99 {
            std::thread::sleep(Duration::from_millis(5));
        }
        if service.has_ended() {
            break;
        }
    }
    assert_lost(&service.end(), begun.elapsed().saturating_sub(Duration::from_secs(5)));
}

/// A source that waits is not read while nothing takes its events, so the pipeline cannot look at the clock.
#[test]
fn a_source_that_waits_for_a_full_spool_ends_when_its_time_is_over() {
    let dir = tempfile::tempdir().expect("a folder");
    let packets: Vec<_> = (0..2_000).map(packet).collect();
    let file = capture(dir.path(), "endless", &packets);
    let source = format!("pcap:{file}?flat-out&repeat=forever");
    for (threads, limit) in [("1", ["--duration", "4s"]), ("2", ["--duration", "4s"])] {
        let spool = dir.path().join(format!("spool-{threads}"));
        let more = [&limit[..], &["--threads", threads]].concat();
        let mut service = start(&arguments(&source, &spool, &more));
        let page = service.page();
        wait_until_full(&page);
        let begun = Instant::now();
        let said = service.end();
        let took = begun.elapsed().saturating_sub(Duration::from_secs(4));
        assert!(took < DRAIN + BOUND, "{took:?}: {}", said.err);
        // What is in no message is made again by the next start: nothing is lost.
        assert_eq!(said.summary()["balance"], 0, "{}", said.err);
        assert!(said.counter("sink.kafka.later") > 0, "{}", said.err);
        assert!(said.err.contains("the next start with it goes on there"), "{}", said.err);
        assert_eq!(said.code, 0, "{}", said.err);
    }
}

/// With `--idle-exit`, an output that takes nothing is a silence as well; but the source has more, and that is a failure.
#[test]
fn a_source_that_waits_longer_than_the_silence_that_ends_a_run_fails() {
    let dir = tempfile::tempdir().expect("a folder");
    let packets: Vec<_> = (0..2_000).map(packet).collect();
    let file = capture(dir.path(), "endless", &packets);
    let source = format!("pcap:{file}?flat-out&repeat=forever");
    let mut service =
        start(&arguments(&source, &dir.path().join("spool"), &["--idle-exit", "500ms"]));
    let page = service.page();
    wait_until_full(&page);
    let begun = Instant::now();
    let said = service.end();
    assert!(begun.elapsed() < DRAIN + BOUND, "{}", said.err);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("took nothing for 500ms (engine.idle_exit)"), "{}", said.err);
}

/// The capture's end is an end as well, and packets of `output.raw` have the same drain, at the same time.
#[test]
fn the_end_of_a_capture_waits_for_two_full_spools_at_once() {
    let dir = tempfile::tempdir().expect("a folder");
    // 17 MB of packets for the raw spool, and 3.5 M events for that of events.
    let packets: Vec<_> = (0..14_000).map(packet).collect();
    let file = capture(dir.path(), "long", &packets);
    let raw = format!("output.raw.spool={}", dir.path().join("raw").display());
    let more = ["brokers=127.0.0.1:1", "topic=t", "spool_size=16MiB", "drain=2s", "buffer=64MiB"];
    let more = more.map(|key| format!("output.raw.{key}"));
    let sets = more.iter().chain([&raw]).flat_map(|key| ["--set", key.as_str()]);
    let mut sets: Vec<&str> = sets.collect();
    sets.extend(["--duration", "5s"]);
    let source = format!("pcap:{file}?flat-out");
    let service = start(&arguments(&source, &dir.path().join("spool"), &sets));
    let begun = Instant::now();
    let said = service.end();
    let took = begun.elapsed().saturating_sub(Duration::from_secs(5));
    assert!(took < DRAIN + BOUND, "{took:?}: {}", said.err);
    assert_eq!(said.summary()["balance"], 0, "{}", said.err);
    assert!(said.counter("sink.kafka.later") > 0, "{}", said.err);
}

#[test]
fn that_a_spool_fills_is_said_before_it_is_full() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut service = start(&arguments("udp://127.0.0.1:0", &dir.path().join("spool"), &[]));
    let (page, port) = (service.page(), service.udp_port());
    let gauge = "fullcount_spool_nearly_full{output=\"kafka\"}";
    assert_eq!(metric(&page, gauge), 0);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let (begun, mut k) = (Instant::now(), 0);
    while metric(&page, gauge) == 0 {
        assert!(begun.elapsed() < service::PATIENCE, "80 % never came");
        for _ in 0..20 {
            socket.send_to(&packet(k), ("127.0.0.1", port)).expect("sent");
            k += 1;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(metric(&page, "fullcount_kafka_spool_full_total"), 0, "there is room yet");
    let limit = metric(&page, "fullcount_kafka_spool_limit");
    let used = metric(&page, "fullcount_kafka_spool_bytes");
    assert!(limit == 16 << 20 && used * 100 >= limit * 80 && used < limit, "{used} of {limit}");
    let state: serde_json::Value = serde_json::from_str(&get(&page, "/api/state")).expect("JSON");
    assert_eq!(state["spools"][0]["nearly_full"], true, "{}", state["spools"]);
    if let Some(seen) = service::seen_by_a_browser(&page) {
        assert!(seen.contains("The spool of output kafka is 8"), "{seen}");
    }
    let said = |line: &str| line.contains("% full: 1").then(|| line.to_owned());
    let line = service.wait_for("the warning", said);
    assert!(line.contains("output.kafka.spool_size larger"), "{line}");
    service.interrupt();
    let ended = service.end();
    assert_eq!(ended.counter("kafka.spool.nearly_full"), 1, "{}", ended.err);
    assert_eq!(ended.err.matches("% full: 1").count(), 1, "once: {}", ended.err);
}
