//! What may go wrong around a writer that runs: topics that are deleted, disks that are full, journals that cannot be
//! kept. Each trouble is said, counted, and is that of one job; the others live on.

#[cfg(target_os = "linux")]
use std::path::Path;

use crate::write_made::*;
use fullcount_messages::{LogValue, Message, RunStart};
use fullcount_writer::{ReadFrom, Service, WriteCounter};
use serde_json::{Value, json};

/// ms since 1970.
const NOW: u64 = 1_000_000;
const S: u64 = 1000;

/// Events of `bank` on the topic `events`, and numbers of `log` on the topic `logs`.
fn both() -> String {
    let bank = json!({"topic": "events", "source": "bank", "chunk_size": 1024});
    let log = json!({"topic": "logs", "source": "log", "dtype": "int64"});
    let entry = json!([
        bare("bank_events", json!([stream("ev44", bank)])),
        bare("log", json!([stream("f144", log)])),
    ]);
    json!({"children": [group("entry", "NXentry", entry)]}).to_string()
}

/// The numbers alone.
fn log_only() -> String {
    let log = json!({"topic": "logs", "source": "log", "dtype": "int64"});
    let entry = json!([bare("log", json!([stream("f144", log)]))]);
    json!({"children": [group("entry", "NXentry", entry)]}).to_string()
}

fn broker() -> Broker {
    Broker::with(&["events", "logs", "control"])
}

/// A run whose job is the last part of `job`, and whose file is that with `.nxs`.
fn begin(service: &mut Service, broker: &Broker, job: &str, structure: &str, now: u64) {
    let file = format!("{job}.nxs");
    let job = job.rsplit('/').next().unwrap();
    let order = RunStart { start_time: NOW, ..start(job, &file, structure) };
    let offset = count(service, WriteCounter::Orders) as i64;
    service.order(&pool(offset, &Message::Pl72(order).encode()), now, broker);
    assert!(service.job(job).is_some(), "{:?}", service.notes());
}

fn halt(service: &mut Service, broker: &Broker, job: &str, now: u64) {
    let offset = count(service, WriteCounter::Orders) as i64;
    let command = format!("stop of {job}");
    service.order(&pool(offset, &Message::S6s4t(stop(job, now, &command)).encode()), now, broker);
}

/// One event at this time, ms since 1970, of the pixel `n`.
fn event(broker: &mut Broker, at: u64, n: i32) {
    broker.send("events", at, &ev44("bank", n.into(), at as i64 * 1_000_000, &[5], &[n]));
}

fn number(broker: &mut Broker, at: u64, n: i64) {
    broker.send("logs", at, &f144("log", at as i64 * 1_000_000, LogValue::Long(n)));
}

fn events_of(folder: &Path, job: &str) -> Vec<i32> {
    let file = hdf5_metno::File::open(folder.join(format!("{job}.nxs"))).unwrap();
    file.dataset("/entry/bank_events/event_id").unwrap().read_raw().unwrap()
}

fn numbers_of(folder: &Path, job: &str) -> Vec<i64> {
    let file = hdf5_metno::File::open(folder.join(format!("{job}.nxs"))).unwrap();
    file.dataset("/entry/log/value").unwrap().read_raw().unwrap()
}

/// What was said since the last time, by schema.
fn said(service: &mut Service, schema: &str) -> Vec<Value> {
    let all = replies(service).into_iter().filter(|(_, m)| m["schema"] == schema);
    all.map(|(_, m)| m).collect()
}

fn notes(service: &mut Service) -> String {
    service.notes().into_iter().map(|note| note.text + "\n").collect()
}

#[test]
fn a_topic_that_is_deleted_under_a_waiting_job_is_said_and_given_up_after_the_run() {
    let (dir, mut broker) = (tempfile::tempdir().unwrap(), broker());
    let mut service = Service::new(options(dir.path()), NOW, &broker).unwrap();
    begin(&mut service, &broker, "a", &both(), NOW);
    begin(&mut service, &broker, "b", &log_only(), NOW);
    for n in 1..4 {
        event(&mut broker, NOW + n, n as i32);
        number(&mut broker, NOW + n, n as i64);
    }
    broker.feed(&mut service, NOW + S, usize::MAX);
    broker.0.remove("events");
    // Who reads is told by the broker that something is not there, but not what.
    for job in ["a", "b"] {
        service.doubt(job, None);
    }
    let mut now = NOW + 2 * S;
    for _ in 0..3 {
        service.ask(now, &broker);
        service.tick(now);
        now += S;
    }
    let told = notes(&mut service);
    assert_eq!(told.matches("topic \"events\" is not on the broker any more").count(), 1, "{told}");
    let beats = said(&mut service, "x5f2");
    let status: Vec<Value> = beats
        .iter()
        .map(|m| serde_json::from_str(m["status_json"].as_str().unwrap()).unwrap())
        .collect();
    let last = |job: &str| status.iter().rev().find(|s| s["job_id"] == job).unwrap();
    assert_eq!(last("a")["topics_missing"], json!(["events"]));
    assert_eq!(last("b")["topics_missing"], json!([]));
    // The job's other topic goes on, and so does the other job.
    let wanted: Vec<String> =
        service.job("a").unwrap().wanted().into_iter().map(|want| want.topic).collect();
    assert_eq!(wanted, ["logs"]);
    number(&mut broker, now, 4);
    broker.feed(&mut service, now, usize::MAX);
    // It is asked for as long as the run goes on.
    for _ in 0..100 {
        service.ask(now, &broker);
        service.tick(now);
        now += S;
    }
    assert_eq!(service.jobs().count(), 2, "runs without an end wait");
    for job in ["a", "b"] {
        halt(&mut service, &broker, job, now);
    }
    broker.feed(&mut service, now + 10 * S + 1, usize::MAX);
    service.tick(now + 10 * S + 1);
    assert_eq!(service.jobs().map(|job| job.id().to_owned()).collect::<Vec<_>>(), ["a"]);
    service.ask(now + 10 * S + 1, &broker);
    service.tick(now + 10 * S + 1);
    assert_eq!(service.jobs().count(), 0, "missing for more than a minute, and the run is over");
    let ends = said(&mut service, "wrdn");
    let of = |job: &str| ends.iter().find(|m| m["job_id"] == job).unwrap();
    assert_eq!(
        (&of("a")["error_encountered"], &of("b")["error_encountered"]),
        (&true.into(), &false.into())
    );
    let words = of("a")["message"].as_str().unwrap();
    assert!(words.contains("topic \"events\" is no longer on the broker"), "{words}");
    assert_eq!(count(&service, WriteCounter::TopicGone), 1);
    assert_eq!(events_of(dir.path(), "a"), [1, 2, 3]);
    for job in ["a", "b"] {
        assert_eq!(numbers_of(dir.path(), job), [1, 2, 3, 4]);
    }
    assert_balanced(&service);
}

#[test]
fn a_topic_that_goes_after_the_end_of_the_run_is_waited_for_a_minute() {
    let (dir, mut broker) = (tempfile::tempdir().unwrap(), broker());
    let mut service = Service::new(options(dir.path()), NOW, &broker).unwrap();
    begin(&mut service, &broker, "a", &both(), NOW);
    event(&mut broker, NOW + 1, 1);
    broker.feed(&mut service, NOW + S, usize::MAX);
    halt(&mut service, &broker, "a", NOW + 2 * S);
    broker.0.remove("events");
    // As asking for its end shows.
    let over = NOW + 13 * S;
    service.doubt("a", Some("events"));
    service.ask(over, &broker);
    broker.feed(&mut service, over, usize::MAX);
    let mut waited = 0;
    while service.jobs().count() > 0 {
        assert!(waited <= 60, "given up after a minute");
        service.ask(over + waited * S, &broker);
        service.tick(over + waited * S);
        waited += 1;
    }
    assert_eq!(waited, 61);
    assert_eq!(count(&service, WriteCounter::TopicGone), 1);
    assert_eq!(events_of(dir.path(), "a"), [1]);
}

#[test]
fn a_topic_that_comes_back_as_it_was_costs_nothing() {
    let (dir, mut broker) = (tempfile::tempdir().unwrap(), broker());
    let mut service = Service::new(options(dir.path()), NOW, &broker).unwrap();
    begin(&mut service, &broker, "a", &both(), NOW);
    for n in 1..4 {
        event(&mut broker, NOW + n, n as i32);
    }
    broker.feed(&mut service, NOW + S, usize::MAX);
    let topic = broker.0.remove("events").unwrap();
    service.doubt("a", Some("events"));
    service.ask(NOW + S, &broker);
    assert!(service.job("a").unwrap().is_missing("events"));
    broker.0.insert("events".into(), topic);
    event(&mut broker, NOW + 5, 4);
    service.ask(NOW + 2 * S, &broker);
    assert!(notes(&mut service).contains("topic \"events\" is on the broker again"));
    let wanted = service.job("a").unwrap().wanted();
    let events = wanted.iter().find(|want| want.topic == "events").unwrap();
    assert_eq!((events.begin, events.seen_ms), (ReadFrom::Offset(3), Some(NOW + 3)));
    broker.feed(&mut service, NOW + 2 * S, usize::MAX);
    halt(&mut service, &broker, "a", NOW + 3 * S);
    broker.feed(&mut service, NOW + 14 * S, usize::MAX);
    service.tick(NOW + 14 * S);
    assert_eq!(said(&mut service, "wrdn")[0]["error_encountered"], false);
    assert_eq!(events_of(dir.path(), "a"), [1, 2, 3, 4]);
    assert_eq!(count(&service, WriteCounter::TopicGone), 0);
}

#[test]
fn a_topic_that_was_made_anew_is_read_on_and_said_also_after_a_restart() {
    let (dir, mut broker) = (tempfile::tempdir().unwrap(), broker());
    let mut service = Service::new(options(dir.path()), NOW, &broker).unwrap();
    begin(&mut service, &broker, "a", &both(), NOW);
    for n in 1..4 {
        event(&mut broker, NOW + n, n as i32);
    }
    broker.feed(&mut service, NOW + S, usize::MAX);
    broker.0.insert("events".into(), Vec::new());
    event(&mut broker, NOW + 6, 4);
    // What the reader finds: the first message newer than all that was read stands in front of the next to be read.
    for _ in 0..2 {
        service.went_back("a", "events", 0, 0);
    }
    let told = notes(&mut service);
    assert_eq!(told.matches("was deleted and made anew").count(), 1, "{told}");
    broker.feed(&mut service, NOW + S, usize::MAX);
    service.end(NOW + 2 * S, true);
    drop(service);
    let mut service = Service::new(options(dir.path()), NOW + 3 * S, &broker).unwrap();
    let wanted = service.job("a").unwrap().wanted();
    let events = wanted.iter().find(|want| want.topic == "events").unwrap();
    assert_eq!((events.begin, events.seen_ms), (ReadFrom::Offset(1), Some(NOW + 6)));
    event(&mut broker, NOW + 7, 5);
    halt(&mut service, &broker, "a", NOW + 4 * S);
    broker.feed(&mut service, NOW + 15 * S, usize::MAX);
    service.tick(NOW + 15 * S);
    let end = &said(&mut service, "wrdn")[0];
    assert_eq!(end["error_encountered"], true);
    let words = end["message"].as_str().unwrap();
    assert!(words.contains("topic \"events\" was deleted and made anew during the run"), "{words}");
    assert_eq!(events_of(dir.path(), "a"), [1, 2, 3, 4, 5]);
}

#[test]
fn a_topic_that_stays_away_keeps_no_other_from_being_asked_for() {
    let (dir, mut broker) = (tempfile::tempdir().unwrap(), broker());
    let mut service = Service::new(options(dir.path()), NOW, &broker).unwrap();
    begin(&mut service, &broker, "a", &both(), NOW);
    begin(&mut service, &broker, "b", &log_only(), NOW);
    broker.0.remove("events");
    service.doubt("a", Some("events"));
    service.ask(NOW, &broker);
    service.doubt("b", None);
    service.ask(NOW + S, &broker);
    assert_eq!(service.job("b").unwrap().unasked(), None);
    assert_eq!(service.job("a").unwrap().unasked(), Some("events"));
}

#[test]
fn a_journal_that_cannot_be_kept_costs_its_job_only() {
    let (dir, mut broker) = (tempfile::tempdir().unwrap(), broker());
    let mut service = Service::new(options(dir.path()), NOW, &broker).unwrap();
    let own = dir.path().join(".fullcount-write/writer-1");
    // A folder with something in it where the journal is to be.
    let block = |job: &str| {
        let path = own.join(format!("{job}.progress"));
        let _ = std::fs::remove_file(&path);
        std::fs::create_dir_all(path.join("in the way")).unwrap();
    };
    // At the start the order is refused, and may be given again.
    block("a");
    let structure = both();
    let order = start("a", "a.nxs", &structure);
    service.order(&pool(0, &Message::Pl72(order.clone()).encode()), NOW, &broker);
    let answer = &said(&mut service, "answ")[0];
    assert_eq!(answer["status_code"], 500, "{answer}");
    assert!(answer["message"].as_str().unwrap().contains("a.progress"), "{answer}");
    assert_eq!(count(&service, WriteCounter::OrderFile), 1);
    assert!(!dir.path().join("a.nxs").exists(), "else the order could not be given again");
    std::fs::remove_dir_all(own.join("a.progress")).unwrap();
    service.order(&pool(1, &Message::Pl72(order).encode()), NOW, &broker);
    begin(&mut service, &broker, "b", &log_only(), NOW);
    assert!(service.job("a").is_some(), "{}", notes(&mut service));
    // In the middle the job is given up. Its file was flushed before the journal was to say so.
    event(&mut broker, NOW + 1, 1);
    number(&mut broker, NOW + 1, 1);
    broker.feed(&mut service, NOW + S, usize::MAX);
    service.tick(NOW + 3 * S);
    block("a");
    event(&mut broker, NOW + 2, 2);
    number(&mut broker, NOW + 2, 2);
    broker.feed(&mut service, NOW + 4 * S, usize::MAX);
    service.tick(NOW + 6 * S);
    let end = &said(&mut service, "wrdn")[0];
    assert_eq!((&end["job_id"], &end["error_encountered"]), (&"a".into(), &true.into()));
    let words = end["message"].as_str().unwrap();
    assert!(words.contains("a.progress") && words.contains("up to its last flush"), "{words}");
    assert_eq!(events_of(dir.path(), "a"), [1, 2]);
    assert_eq!(count(&service, WriteCounter::Failed), 1);
    halt(&mut service, &broker, "b", NOW + 7 * S);
    broker.feed(&mut service, NOW + 18 * S, usize::MAX);
    service.tick(NOW + 18 * S);
    let end = &said(&mut service, "wrdn")[0];
    assert_eq!((&end["job_id"], &end["error_encountered"]), (&"b".into(), &false.into()));
    assert_eq!(numbers_of(dir.path(), "b"), [1, 2]);
    assert_balanced(&service);
}

/// One job's file is on the small disk, the others and the journals are not.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_costs_the_job_that_meets_it_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let Some(disk) = fullcount_testing::small_disk::Disk::of_memory(&folder.join("full")) else {
        return;
    };
    let mut broker = broker();
    let mut service = Service::new(options(folder), NOW, &broker).unwrap();
    // A file that cannot be made: 9.6 MB of numbers in its structure.
    let zeros = dataset("zeros", "double", json!(vec![0; 1_200_000]), json!([]));
    let large = json!({"children": [group("entry", "NXentry", json!([zeros]))]}).to_string();
    let order = start("large", "full/large.nxs", &large);
    service.order(&pool(0, &Message::Pl72(order).encode()), NOW, &broker);
    let answer = &said(&mut service, "answ")[0];
    assert_eq!((&answer["outcome"], &answer["status_code"]), (&"Failure".into(), &500.into()));
    let words = answer["message"].as_str().unwrap();
    assert!(words.contains("large.nxs: cannot reserve room for the file"), "{words}");
    assert_eq!(count(&service, WriteCounter::OrderFile), 1);
    assert_eq!(std::fs::read_dir(&disk.0).unwrap().count(), 0, "nothing is left of it");
    assert!(journals(folder).iter().all(|name| name.ends_with(".reply")), "{:?}", journals(folder));

    begin(&mut service, &broker, "full/big", &both(), NOW);
    begin(&mut service, &broker, "small", &log_only(), NOW);
    let many = 20_000;
    let (mut now, mut sent) = (NOW, 0);
    while service.job("big").is_some() {
        assert!(sent < 10_000_000, "the disk was never full");
        now += 3 * S;
        let zero = now as i64 * 1_000_000;
        let offsets: Vec<i32> = (0..many).collect();
        broker.send("events", now, &ev44("bank", 1, zero, &offsets, &offsets));
        sent += many as u64;
        broker.feed(&mut service, now, usize::MAX);
        service.tick(now);
    }
    let end = &said(&mut service, "wrdn")[0];
    assert_eq!((&end["job_id"], &end["error_encountered"]), (&"big".into(), &true.into()));
    let words = end["message"].as_str().unwrap();
    assert!(words.contains("big.nxs: cannot "), "{words}");
    assert!(words.contains("the file holds everything up to its last flush"), "{words}");
    let unwritten = count(&service, WriteCounter::Unwritten);
    assert!((1..=many as u64).contains(&unwritten), "{unwritten}");
    let ids = events_of(&disk.0, "big");
    assert_eq!(ids.len() as u64, count(&service, WriteCounter::Events));
    assert_eq!(ids.len() as u64 + unwritten, sent);
    assert!(ids.iter().enumerate().all(|(i, &id)| i as i32 % many == id));
    // The other job, and one that begins now.
    begin(&mut service, &broker, "next", &log_only(), now);
    number(&mut broker, now, 7);
    for job in ["small", "next"] {
        halt(&mut service, &broker, job, now + S);
    }
    broker.feed(&mut service, now + 12 * S, usize::MAX);
    service.tick(now + 12 * S);
    let ends = said(&mut service, "wrdn");
    assert_eq!(ends.len(), 2, "{ends:?}");
    assert!(ends.iter().all(|end| end["error_encountered"] == false), "{ends:?}");
    for job in ["small", "next"] {
        assert_eq!(numbers_of(folder, job), [7]);
    }
    assert_eq!(count(&service, WriteCounter::Failed), 1);
    assert_balanced(&service);
}
