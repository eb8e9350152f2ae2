//! A full spool and no broker: a run ends within `drain` for any cause, undelivered events are counted, and the filling
//! of the spool is reported before it is full. Source: `docs/kafka.md`, "The spool".

use crate::service;
use std::io::{Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::service::{Said, Service, capture, get};

/// What the end of a run may wait for its broker.
const DRAIN: Duration = Duration::from_secs(2);
/// Beside it: a queue that is given up, 16 MiB that are closed, a machine with other work.
const BOUND: Duration = Duration::from_secs(55);
/// A limit that ends a run before its spool was full has shown nothing: the run is made again with a longer one, so many times longer.
const LONGER: [u32; 3] = [1, 4, 20];
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

/// Whether an append has waited for room in the spool. `None`: the page is gone, and the run with it.
fn was_full(page: &str) -> Option<bool> {
    let mut stream = TcpStream::connect(page).ok()?;
    let head = format!("GET /metrics HTTP/1.1\r\nHost: {page}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let line = text.lines().find(|l| l.starts_with("fullcount_kafka_spool_full_total"))?;
    Some(!line.ends_with(" 0"))
}

/// Waits until the spool is full; false if the run ended before.
fn wait_until_full(page: &str) -> bool {
    let begun = Instant::now();
    while let Some(full) = was_full(page) {
        if full {
            return true;
        }
        assert!(begun.elapsed() < service::PATIENCE, "the spool never was full");
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// Sends packets until the spool is full, and some more; false if the run ended before.
fn fill(service: &mut Service, packets: u32) -> bool {
    let (page, port) = (service.page(), service.udp_port());
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let (mut sent, begun) = (0, Instant::now());
    loop {
        match was_full(&page) {
            None => return false,
            Some(true) if sent >= packets => return true,
            Some(_) => assert!(begun.elapsed() < service::PATIENCE, "the spool never was full"),
        }
        for _ in 0..200 {
            // Nobody listens once the run has ended.
            let _ = socket.send_to(&packet(sent), ("127.0.0.1", port));
            sent += 1;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Has `one` make a run with a limit, a longer one if the spool was not full within it; the folder is new each time.
fn with_a_full_spool(one: impl Fn(&Path, u32) -> bool) {
    let found = LONGER.iter().any(|times| {
        let dir = tempfile::tempdir().expect("a folder");
        one(dir.path(), *times)
    });
    assert!(found, "no limit was long enough to fill the spool");
}

/// Waits for the end of a run that its time ends.
fn ended(mut service: Service, time: Duration) -> Said {
    let _ = service.child.ended(time).expect("a child");
    service.end()
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
    with_a_full_spool(|dir, times| {
        let more = ["--idle-exit", &format!("{times}s")];
        let mut service = start(&arguments("udp://127.0.0.1:0", &dir.join("spool"), &more));
        let full = fill(&mut service, 4_000);
        let (begun, said) = (Instant::now(), service.end());
        if full {
            assert_lost(&said, begun.elapsed().saturating_sub(Duration::from_secs(times.into())));
        }
        full
    });
}

#[test]
fn a_run_whose_time_is_over_ends_behind_a_full_spool() {
    with_a_full_spool(|dir, times| {
        let seconds = 6 * times;
        let more = ["--duration", &format!("{seconds}s")];
        let mut service = start(&arguments("udp://127.0.0.1:0", &dir.join("spool"), &more));
        let begun = Instant::now();
        let full = fill(&mut service, 4_000);
        let said = ended(service, Duration::from_secs(seconds.into()));
        if full {
            assert_lost(&said, begun.elapsed().saturating_sub(Duration::from_secs(seconds.into())));
        }
        full
    });
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

/// A capture that is read again and again, as fast as its events are taken.
fn endless(dir: &Path) -> String {
    let packets: Vec<_> = (0..2_000).map(packet).collect();
    format!("pcap:{}?flat-out&repeat=forever", capture(dir, "endless", &packets))
}

/// A source that waits is not read while nothing takes its events, so the pipeline cannot look at the clock.
#[test]
fn a_source_that_waits_for_a_full_spool_ends_when_its_time_is_over() {
    for threads in ["1", "2"] {
        with_a_full_spool(|dir, times| {
            let time = Duration::from_secs((4 * times).into());
            let limit = format!("{}s", time.as_secs());
            let more = ["--duration", &limit, "--threads", threads];
            let mut service = start(&arguments(&endless(dir), &dir.join("spool"), &more));
            let page = service.page();
            let begun = Instant::now();
            let full = wait_until_full(&page);
            let said = ended(service, time);
            if !full {
                return false;
            }
            let took = begun.elapsed().saturating_sub(time);
            assert!(took < DRAIN + BOUND, "{took:?}: {}", said.err);
            // What is in no message is made again by the next start: nothing is lost.
            assert_eq!(said.summary()["balance"], 0, "{}", said.err);
            assert!(said.counter("sink.kafka.later") > 0, "{}", said.err);
            assert!(said.err.contains("the next start with it goes on there"), "{}", said.err);
            assert_eq!(said.code, 0, "{}", said.err);
            true
        });
    }
}

/// With `--idle-exit`, an output that takes nothing is a silence as well; but the source has more, and that is a failure.
#[test]
fn a_source_that_waits_longer_than_the_silence_that_ends_a_run_fails() {
    with_a_full_spool(|dir, times| {
        let limit = format!("{}ms", 500 * times);
        let more = ["--idle-exit", &limit];
        let mut service = start(&arguments(&endless(dir), &dir.join("spool"), &more));
        let page = service.page();
        let full = wait_until_full(&page);
        let (begun, said) = (Instant::now(), service.end());
        if full {
            assert!(begun.elapsed() < DRAIN + BOUND, "{}", said.err);
            assert_eq!(said.code, 1, "{}", said.err);
            let words = format!("took nothing for {limit} (engine.idle_exit)");
            assert!(times > 1 || said.err.contains(&words), "{}", said.err);
        }
        full
    });
}

/// With `--packets`, those that a full spool keeps from being read never come.
#[test]
fn a_source_that_waits_for_a_full_spool_ends_before_packets_that_cannot_come() {
    let dir = tempfile::tempdir().expect("a folder");
    for threads in ["1", "2"] {
        let spool = dir.path().join(format!("spool-{threads}"));
        let more = ["--packets", "1000000000", "--threads", threads];
        let mut service = start(&arguments(&endless(dir.path()), &spool, &more));
        assert!(wait_until_full(&service.page()), "it has its packets");
        let (begun, said) = (Instant::now(), service.end());
        assert!(begun.elapsed() < DRAIN + BOUND, "{}", said.err);
        assert_eq!(said.code, 1, "{}", said.err);
        let words = "the run ends before its 1000000000 packets (engine.packets) have come";
        assert!(said.err.contains(words), "{}", said.err);
        assert_eq!(said.summary()["balance"], 0, "{}", said.err);
    }
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
    let time = Duration::from_secs(15);
    sets.extend(["--duration", "15s"]);
    let source = format!("pcap:{file}?flat-out");
    let service = start(&arguments(&source, &dir.path().join("spool"), &sets));
    let begun = Instant::now();
    let said = ended(service, time);
    let took = begun.elapsed().saturating_sub(time);
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
        // All of it is in the spool before more comes: a run that waits for a processor would else have it full at the next look.
        let there = |page: &str| {
            metric(page, "fullcount_receive_packets_total") >= u64::from(k)
                && metric(page, "fullcount_queue_kafka_queued") == 0
        };
        while !there(&page) {
            assert!(begun.elapsed() < service::PATIENCE, "80 % never came");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    assert_eq!(metric(&page, "fullcount_kafka_spool_full_total"), 0, "there is room yet");
    let limit = metric(&page, "fullcount_kafka_spool_limit");
    let used = metric(&page, "fullcount_kafka_spool_bytes");
    assert!(limit == 16 << 20 && used * 100 >= limit * 80 && used < limit, "{used} of {limit}");
    let state: serde_json::Value = serde_json::from_str(&get(&page, "/api/state")).expect("JSON");
    assert_eq!(state["spools"][0]["nearly_full"], true, "{}", state["spools"]);
    if let Some(seen) = service::seen_by_a_browser(&page) {
        // From 80 % on; a look later it may be 90.
        let told = |tens: u8| seen.contains(&format!("The spool of output kafka is {tens}"));
        assert!(told(8) || told(9), "{seen}");
    }
    let said = |line: &str| line.contains("% full: 1").then(|| line.to_owned());
    let line = service.wait_for("the warning", said);
    assert!(line.contains("output.kafka.spool_size larger"), "{line}");
    service.interrupt();
    let ended = service.end();
    assert_eq!(ended.counter("kafka.spool.nearly_full"), 1, "{}", ended.err);
    assert_eq!(ended.err.matches("% full: 1").count(), 1, "once: {}", ended.err);
}
