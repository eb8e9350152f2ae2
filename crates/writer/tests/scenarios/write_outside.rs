//! Streams of which nothing is in the run though messages came during it: a detector's clock that began in 1970, or one
//! that is ahead. It is said in status, log, wrdn and a counter; what is normal around a run is not.

use std::path::Path;

use crate::write_made::*;
use fullcount_messages::{LogValue, Message};
use fullcount_writer::{Service, WriteCounter};
use serde_json::{Value, json};

/// 1970-01-12, ms: the runs begin 10 s before it.
const NOW: u64 = 1_000_000;
const START: u64 = NOW - 10_000;
const MS: i64 = 1_000_000;
const GROUP: &str = "/entry/instrument/bank/bank_events";

fn service(folder: &Path, broker: &Broker) -> Service {
    Service::new(options(folder), NOW, broker).unwrap()
}

fn begin(service: &mut Service, broker: &Broker, structure: &str, stop_ms: u64) {
    let order = start("a", "a.nxs", structure);
    let order = Message::Pl72(fullcount_messages::RunStart {
        start_time: START,
        stop_time: stop_ms,
        ..order
    });
    service.order(&pool(0, &order.encode()), NOW, broker);
    assert_eq!(service.jobs().count(), 1, "{:?}", service.notes());
}

/// Reads everything and ends the run now; its end.
fn end(service: &mut Service, broker: &Broker) -> Value {
    if service.jobs().all(|job| job.stop_ms().is_none()) {
        let halt = Message::S6s4t(stop("a", NOW, "c")).encode();
        service.order(&pool(1, &halt), NOW, broker);
    }
    broker.feed(service, NOW + 20_002, usize::MAX);
    service.tick(NOW + 20_002);
    assert_balanced(service);
    let all = replies(service).into_iter().map(|(_, message)| message);
    all.rev().find(|message| message["schema"] == "wrdn").expect("a wrdn")
}

fn metadata(wrdn: &Value) -> Value {
    serde_json::from_str(wrdn["metadata"].as_str().unwrap()).unwrap()
}

/// The status of the job in the next heartbeat.
fn status(service: &mut Service, now_ms: u64) -> Value {
    service.tick(now_ms);
    let all = replies(service).into_iter().map(|(_, message)| message);
    let x5f2 = all.rev().find(|message| message["schema"] == "x5f2").expect("a heartbeat");
    serde_json::from_str(x5f2["status_json"].as_str().unwrap()).unwrap()
}

fn said(service: &mut Service) -> Vec<String> {
    service.notes().into_iter().map(|note| note.text).filter(|text| text.contains(GROUP)).collect()
}

/// Ten messages of three events, 100 ms apart on Kafka from `came_ms` on, with the times that a clock gives.
fn events(broker: &mut Broker, came_ms: u64, clock: impl Fn(u64) -> i64) {
    for n in 0..10 {
        let came = came_ms + 100 * n;
        let time = clock(came);
        broker.send("events", came, &ev44("bank", n as i64, time, &[0, 1, 2], &[1, 2, 3]));
    }
}

#[test]
fn a_detector_that_counts_from_1970_is_said_in_status_log_and_end() {
    let (dir, mut broker) = (tempfile::tempdir().unwrap(), Broker::with(&["events", "pool"]));
    let structure = structure_of_events(1024);
    let mut writer = service(dir.path(), &broker);
    begin(&mut writer, &broker, &structure, 0);
    let quiet = status(&mut writer, NOW + 1000);
    assert_eq!((&quiet["streams_outside"], &quiet["before_start"]), (&0.into(), &json!({})));
    // Tick 0 of the detector is when the run begins.
    let clock = |came: u64| (came - START) as i64 * MS;
    events(&mut broker, NOW - 5000, clock);
    broker.feed(&mut writer, NOW, usize::MAX);
    let now = status(&mut writer, NOW + 2000);
    let of = json!({"messages": 10, "events": 30, "newest": "1970-01-01T00:00:05.900000Z", "newest_ns": 5_900_000_000_u64});
    assert_eq!((&now["streams_outside"], &now["before_start"][GROUP]), (&1.into(), &of), "{now}");
    assert_eq!(now["after_stop"], json!({}));
    let words = now["outside_run"][0].as_str().unwrap();
    let wanted = "all 30 events in 10 messages that came during the run are before its start \
                  1970-01-01T00:16:30.000000Z, the newest of 1970-01-01T00:00:05.900000Z";
    assert!(words.contains(wanted) && words.contains("epoch = \"now\""), "{words}");
    // At the second look, and once.
    assert_eq!(said(&mut writer), [""; 0]);
    status(&mut writer, NOW + 3000);
    let notes = said(&mut writer);
    assert!(
        matches!(&notes[..], [one] if one.contains(wanted) && one.contains("so far")),
        "{notes:?}"
    );
    status(&mut writer, NOW + 4000);
    assert_eq!(said(&mut writer), [""; 0]);
    // A kill forgets nothing of it.
    writer.end(NOW, true);
    drop(writer);
    let mut writer = service(dir.path(), &broker);
    events(&mut broker, NOW - 4000, clock);
    let wrdn = end(&mut writer, &broker);
    assert_eq!(wrdn["error_encountered"], true);
    let words = wrdn["message"].as_str().unwrap();
    assert!(words.contains("all 60 events in 20 messages") && words.contains(GROUP), "{words}");
    let metadata = metadata(&wrdn);
    assert_eq!(metadata["before_start"][GROUP]["events"], 60);
    assert_eq!((&metadata["events"][GROUP], &metadata["streams_outside"]), (&0.into(), &1.into()));
    assert_eq!(count(&writer, WriteCounter::Outside), 1);
    assert_eq!(writer.files()[0]["before_start"][GROUP]["messages"], 20);
    assert_eq!(said(&mut writer).len(), 1);
}

#[test]
fn what_is_normal_before_a_start_is_not_said() {
    let structure = structure_of_events(1024);
    let exact = |came: u64| came as i64 * MS;
    // Only some of the messages, though they came behind the start; all, but they came before it; none.
    let late = |came: u64| (came as i64 - 500) * MS;
    type Clock = dyn Fn(u64) -> i64;
    let cases: [(&str, u64, &Clock, u64); 3] = [
        ("late", START, &late, 15),
        ("beam off", START - 2000, &exact, 0),
        ("before the leeway", START - 60_000, &exact, 0),
    ];
    for (name, came, clock, taken) in cases {
        let (dir, mut broker) = (tempfile::tempdir().unwrap(), Broker::with(&["events", "pool"]));
        let mut writer = service(dir.path(), &broker);
        begin(&mut writer, &broker, &structure, 0);
        events(&mut broker, came, clock);
        broker.feed(&mut writer, NOW, usize::MAX);
        assert_eq!(status(&mut writer, NOW + 2000)["outside_run"], json!([]), "{name}");
        let wrdn = end(&mut writer, &broker);
        assert_eq!(wrdn["error_encountered"], false, "{name}: {wrdn}");
        let metadata = metadata(&wrdn);
        assert_eq!(
            (&metadata["events"][GROUP], &metadata["streams_outside"]),
            (&taken.into(), &0.into()),
            "{name}"
        );
        assert_eq!(count(&writer, WriteCounter::Outside), 0, "{name}");
        assert_eq!(said(&mut writer), [""; 0], "{name}");
    }
}

/// A log's last value from before the start holds, however old it is; an image or fast samples of another clock do not.
#[test]
fn values_that_still_hold_are_normal_and_others_are_not() {
    let (dir, mut broker) =
        (tempfile::tempdir().unwrap(), Broker::with(&["events", "logs", "pool"]));
    let mut writer = service(dir.path(), &broker);
    begin(&mut writer, &broker, &structure_of_all().to_string(), 0);
    for n in 0..3 {
        let value = LogValue::Float(280.0);
        broker.send("logs", NOW - 5000 + n, &f144("temperature", n as i64, value));
        broker.send("logs", NOW - 5000 + n, &al00("temperature", n as i64, "warm"));
        broker.send("logs", NOW - 5000 + n, &ad00("camera", n as i64, &[0; 12]));
        broker.send("logs", NOW - 5000 + n, &se00("fast", n as i64, vec![1, 2]));
    }
    let wrdn = end(&mut writer, &broker);
    let metadata = metadata(&wrdn);
    let mut groups: Vec<&String> = metadata["before_start"].as_object().unwrap().keys().collect();
    groups.sort();
    assert_eq!(groups, ["/entry/camera", "/entry/fast"]);
    let of = json!({"messages": 3, "newest": "1970-01-01T00:00:00.000000Z", "newest_ns": 2});
    assert_eq!(metadata["before_start"]["/entry/camera"], of);
    assert_eq!(
        (count(&writer, WriteCounter::Outside), count(&writer, WriteCounter::CarriedIn)),
        (2, 2)
    );
    let words = wrdn["message"].as_str().unwrap();
    assert!(words.contains("/entry/camera: all 3 messages that came"), "{words}");
}

#[test]
fn a_clock_that_is_ahead_of_a_known_stop_is_said_too() {
    let (dir, mut broker) = (tempfile::tempdir().unwrap(), Broker::with(&["events", "pool"]));
    let mut writer = service(dir.path(), &broker);
    begin(&mut writer, &broker, &structure_of_events(1024), NOW + 1000);
    // An hour ahead.
    events(&mut broker, NOW - 5000, |came| (came as i64 + 3_600_000) * MS);
    let wrdn = end(&mut writer, &broker);
    assert_eq!(wrdn["error_encountered"], true);
    let words = wrdn["message"].as_str().unwrap();
    let wanted = "all 30 events in 10 messages that came during the run are after its stop \
                  1970-01-01T00:16:41.000000Z, the oldest of 1970-01-01T01:16:35.000000Z";
    assert!(words.contains(wanted), "{words}");
    let metadata = metadata(&wrdn);
    assert_eq!(metadata["after_stop"][GROUP]["events"], 30);
    assert_eq!(metadata["before_start"], json!({}));
    assert_eq!(count(&writer, WriteCounter::Outside), 1);

    // What came after the stop is after it, as it should be.
    let (dir, mut broker) = (tempfile::tempdir().unwrap(), Broker::with(&["events", "pool"]));
    let mut writer = service(dir.path(), &broker);
    begin(&mut writer, &broker, &structure_of_events(1024), NOW - 6000);
    events(&mut broker, NOW - 5000, |came| came as i64 * MS);
    let wrdn = end(&mut writer, &broker);
    assert_eq!(
        (&wrdn["error_encountered"], count(&writer, WriteCounter::Outside)),
        (&false.into(), 0)
    );
}
