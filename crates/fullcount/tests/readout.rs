//! The readout unit live: fragments of many streams over TCP become events in order; killed and stalled senders are named, and
//! nothing else is lost. Source: `docs/fragments.md`.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::service::{PATIENCE, Said, Service, fullcount, say};

/// A unit for so many sources that ends when all senders have, and its URL.
pub fn unit(sources: u32, more: &[&str]) -> (Service, String) {
    let sources = format!("detector.sources={sources}");
    let mut arguments = vec!["run", "--source", "tcp://127.0.0.1:0?until=closed", "--detector"];
    arguments.extend(["fragments", "--set", &sources, "--web", "off", "--json"]);
    arguments.extend(more);
    let mut unit = Service::start(&arguments);
    let url = unit.wait_for("the socket", |l| {
        Some(l.strip_prefix("listening on ")?.split(',').next()?.to_owned())
    });
    unit.wait_for("the detector", |l| l.starts_with("detector ").then_some(()));
    (unit, url)
}

/// Where the unit takes commands.
pub fn control(unit: &mut Service) -> String {
    unit.wait_for("the control port", |l| l.strip_prefix("commands at ").map(str::to_owned))
}

/// Asks the unit for its sources until `enough` of what it says of them.
pub fn until_sources(at: &str, what: &str, enough: impl Fn(&str) -> bool) {
    let begun = Instant::now();
    loop {
        let said = say(&["ctl", "--to", at, "SOURCES"]);
        if enough(&said.out) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}: {} {}", said.out, said.err);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until it ends by itself.
pub fn ended(mut unit: Service) -> Said {
    assert!(unit.child.ended(PATIENCE).expect("a child"), "it goes on: {:?}", unit.seen());
    unit.end()
}

fn sender(url: &str, more: &[&str]) -> Child {
    let mut arguments = vec!["send", "--to", url, "--source", "fragments"];
    arguments.extend(more);
    let mut command = fullcount(&arguments);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary starts")
}

fn signal(child: &Child, which: &str) {
    let done = Command::new("kill").args([which, &child.id().to_string()]).status();
    assert!(done.expect("kill runs").success());
}

/// Number and flags of a record, and source, flags and length of each of its parts.
pub type Parts = (u64, u16, Vec<(u32, u16, u64)>);

/// The whole records of a file.
pub fn records(path: &Path) -> Vec<Parts> {
    let bytes = std::fs::read(path).expect("a file");
    assert_eq!(bytes[..8], *b"FCREC\0\0\x01");
    let u16_at = |at: usize| u16::from_le_bytes(bytes[at..at + 2].try_into().expect("2"));
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4"));
    let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8"));
    let (mut all, mut at) = (Vec::new(), 8);
    while at + 40 <= bytes.len() && at + u64_at(at + 24) as usize <= bytes.len() {
        assert_eq!(bytes[at..at + 4], *b"FCEV");
        let entry = |n: usize| {
            let at = at + 40 + 16 * n;
            (u32_at(at), u16_at(at + 4), u64_at(at + 8))
        };
        let parts = (0..u32_at(at + 32) as usize).map(entry).collect();
        all.push((u64_at(at + 8), u16_at(at + 6), parts));
        at += u64_at(at + 24) as usize;
    }
    all
}

#[test]
fn sixteen_streams_become_complete_events_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.rec");
    for threads in ["1", "2"] {
        let more = ["--records", &file.to_string_lossy(), "--threads", threads];
        let overwrite = ["--set", "output.records.overwrite=true"];
        let (unit, url) = unit(16, &[&more[..], &overwrite].concat());
        let sent =
            say(&["send", "--to", &url, "--source", "fragments", "--count", "32k", "--json"]);
        assert_eq!(sent.code, 0, "{}", sent.err);
        let said = ended(unit);
        assert_eq!((said.code, said.counter("events.count")), (0, 2000), "{}", said.err);
        assert_eq!(
            (said.counter("fragments.checked"), said.counter("fragments.wrong_crc")),
            (32_000, 0)
        );
        let records = records(&file);
        assert_eq!(records.len(), 2000);
        for (record, number) in records.iter().zip(0..) {
            let parts: Vec<_> = (0..16).map(|source| (source, 0, 2048)).collect();
            assert_eq!(*record, (number, 0, parts));
        }
    }
}

#[test]
fn six_hundred_streams_are_read_and_faults_are_named() {
    // Longer than any host needs to read the others: what is lost is the missing source's alone.
    let (unit, url) = unit(600, &["--sink", "null", "--set", "detector.event_timeout=60s"]);
    let faults = ["--missing-source", "7", "--wrong-crc", "5", "--fragment-size", "256"];
    let arguments =
        ["send", "--to", &url, "--source", "fragments", "--sources", "600", "--count", "5990"];
    let sent = say(&[&arguments[..], &faults].concat());
    assert_eq!(sent.code, 0, "{}", sent.err);
    let said = ended(unit);
    assert_eq!((said.code, said.counter("tcp.begun")), (3, 599), "{}", said.err);
    assert_eq!((said.counter("events.count"), said.counter("fragments.lost")), (10, 10));
    assert_eq!(said.counter("fragments.source.7.lost"), 10);
    assert_eq!(said.counter("fragments.wrong_crc"), 2 * 599);
}

/// A doubled stream is named with its source, and throttling states are counted by source.
#[test]
fn a_refused_stream_and_throttling_are_named_by_source() {
    let (unit, url) = unit(3, &["--sink", "null"]);
    let words = ["send", "--to", &url, "--source", "fragments", "--sources", "3", "--count", "800"];
    let sent = say(&[&words[..], &["--doubled-source", "1", "--throttling", "4"]].concat());
    assert!(sent.code <= 1, "{}", sent.err);
    let said = ended(unit);
    let of = |id: u16, what: &str| said.counter(&format!("fragments.source.{id}.{what}"));
    for id in 0..3 {
        assert!(of(id, "count") > 0, "{}", said.err);
        assert_eq!(of(id, "throttled"), of(id, "count"), "source {id}");
    }
    assert_eq!(said.counter("throttling.busy"), (0..3).map(|id| of(id, "count")).sum::<u64>());
    let told = "the detector refuses it: source 1 has another open stream";
    assert!(said.err.contains(told), "{}", said.err);
}

#[test]
fn a_run_of_sources_that_are_not_configured_ends_as_one_that_lost_something() {
    let (unit, url) = unit(1, &["--sink", "null", "--set", "detector.sources=\"7\""]);
    let words = ["send", "--to", &url, "--source", "fragments", "--sources", "1", "--count", "50"];
    say(&words);
    let said = ended(unit);
    assert_eq!((said.code, said.counter("events.count")), (3, 0), "{}", said.err);
    assert!(said.counter("fragments.unknown_source") > 0);
    let words = "fragments (100.0 %) were refused, more than engine.max_refused = 50%";
    assert!(said.err.contains(words), "{}", said.err);
}

#[test]
fn a_killed_sender_is_named_and_nothing_else_is_lost() {
    let (mut unit, url) = unit(4, &["--sink", "null", "--control", "127.0.0.1:0"]);
    let at = control(&mut unit);
    let one = |source: &str, rate: &str| {
        let arguments =
            ["--sources", "1", "--first-source", source, "--rate", rate, "--count", "6000"];
        sender(&url, &arguments)
    };
    let mut others: Vec<Child> =
        ["0", "1", "3"].iter().map(|source| one(source, "1kev/s")).collect();
    // It would take ten minutes.
    let mut killed = one("2", "10ev/s");
    // All are there; whenever it is killed, what it did not send is what is lost.
    until_sources(&at, "every source has given something", |said| {
        said.lines().filter(|line| !line.contains(", 0 fragments")).count() == 4
    });
    killed.kill().and_then(|()| killed.wait()).expect("killed");
    for other in &mut others {
        assert!(other.wait().expect("a child").success());
    }
    let said = ended(unit);
    assert_eq!((said.code, said.counter("fragments.lost.down")), (3, 0), "{}", said.err);
    for source in ["0", "1", "3"] {
        assert_eq!(said.counter(&format!("fragments.source.{source}.count")), 6000);
        assert_eq!(said.counter(&format!("fragments.source.{source}.lost")), 0);
    }
    let lost = said.counter("fragments.source.2.lost");
    assert!(lost > 0 && lost == said.counter("fragments.lost"), "{lost}");
    assert_eq!(said.counter("events.count"), 6000);
}

#[test]
fn a_stalled_stream_holds_the_others_and_nothing_is_lost() {
    let (mut unit, url) =
        unit(3, &["--sink", "null", "--set", "detector.memory=1MiB", "--control", "127.0.0.1:0"]);
    let all: Vec<Child> = ["0", "1", "2"]
        .iter()
        .map(|source| {
            sender(&url, &["--sources", "1", "--first-source", source, "--count", "50000"])
        })
        .collect();
    signal(&all[1], "-STOP");
    // It is stopped somewhere in its stream; the others fill the memory, and then the kernel's buffers.
    let at = control(&mut unit);
    until_sources(&at, "the others are paused", |said| said.matches(", paused,").count() == 2);
    assert!(!unit.has_ended());
    signal(&all[1], "-CONT");
    for mut one in all {
        assert!(one.wait().expect("a child").success());
    }
    let said = ended(unit);
    assert_eq!((said.code, said.counter("events.count")), (0, 50_000), "{}", said.err);
    assert_eq!((said.counter("fragments.lost"), said.counter("events.incomplete")), (0, 0));
    assert!(said.counter("merge.pauses") > 0);
}

#[test]
fn a_killed_unit_leaves_whole_events_in_order_and_the_next_one_tells_what_is_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.rec");
    let (unit, url) = unit(2, &["--records", &file.to_string_lossy()]);
    let mut senders = sender(&url, &["--sources", "2", "--rate", "5kev/s", "--duration", "30s"]);
    let part = folder.path().join("run.rec.part");
    let began = Instant::now();
    while std::fs::metadata(&part).map_or(0, |meta| meta.len()) < 1 << 20 {
        assert!(began.elapsed() < PATIENCE, "nothing is written");
        std::thread::sleep(Duration::from_millis(10));
    }
    let pid = unit.child.id();
    let done = Command::new("kill").args(["-9", &pid.to_string()]).status();
    assert!(done.expect("kill runs").success());
    assert!(!senders.wait().expect("a child").success(), "the sender knows");
    let records = records(&part);
    assert!(records.len() > 100);
    for (record, number) in records.iter().zip(records[0].0..) {
        assert_eq!((record.0, record.1, record.2.len()), (number, 0, 2));
    }
    // The senders went on for 1000 events that nobody has.
    let due = records.last().expect("many").0 + 1;
    let (unit, url) = self::unit(2, &["--set", &format!("detector.first_event={due}")]);
    let first = (due + 1000).to_string();
    let words = ["--sources", "2", "--first-event", &first, "--rate", "5kev/s", "--duration", "1s"];
    assert!(sender(&url, &words).wait().expect("a child").success());
    let said = ended(unit);
    assert_eq!(said.code, 3, "{}", said.err);
    let counted = ["fragments.lost.down", "events.skipped", "fragments.lost", "events.incomplete"];
    assert_eq!(counted.map(|name| said.counter(name)), [2000, 1000, 0, 0]);
    assert!(said.counter("events.count") > 1000);
}
