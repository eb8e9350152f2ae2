//! Orders to the file writer: what is obeyed, what is refused and how it is answered, and that the service lives on.

use std::path::Path;

use crate::write_made::*;
use fullcount_messages::{Message, RunStart};
use fullcount_writer::{Options, Service, WriteCounter};
use serde_json::Value;

const NOW: u64 = 1_000_000;

fn service(folder: &Path, change: impl FnOnce(&mut Options)) -> (Service, Broker) {
    let broker = Broker::with(&["events", "logs", "control", "other"]);
    let mut options = options(folder);
    change(&mut options);
    let service = Service::new(options, NOW, &broker).unwrap();
    (service, broker)
}

/// Gives the order; the answer, if there is one.
fn give(
    service: &mut Service,
    broker: &Broker,
    n: i64,
    now: u64,
    order: Message<'_>,
) -> Option<Value> {
    service.order(&pool(n, &order.encode()), now, broker);
    replies(service).into_iter().find(|(_, m)| m["schema"] == "answ").map(|(topic, mut m)| {
        m["topic"] = topic.into();
        m
    })
}

/// Starts that are refused, the counter of each, and what is said of it.
fn wrong_starts<'a>(
    order: &dyn Fn() -> RunStart<'a>,
    strange: &'a str,
    nowhere: &'a str,
) -> Vec<(RunStart<'a>, WriteCounter, &'static str)> {
    vec![
        (RunStart { job_id: None, ..order() }, WriteCounter::OrderField, "job_id: is missing"),
        (
            RunStart { job_id: Some("a/../b"), ..order() },
            WriteCounter::OrderField,
            "job_id: 1 to 128",
        ),
        (RunStart { filename: None, ..order() }, WriteCounter::OrderField, "filename: is missing"),
        (
            RunStart { nexus_structure: None, instrument_name: None, ..order() },
            WriteCounter::OrderField,
            "nexus_structure: is missing",
        ),
        (
            RunStart { nexus_structure: Some(" \n"), ..order() },
            WriteCounter::OrderTemplate,
            "instrument_name \"loki\" has no template: this writer has no folder of them",
        ),
        (
            RunStart { control_topic: Some("a b"), ..order() },
            WriteCounter::OrderField,
            "control_topic",
        ),
        (RunStart { start_time: u64::MAX, ..order() }, WriteCounter::OrderField, "start_time"),
        (
            RunStart { stop_time: 400, ..order() },
            WriteCounter::OrderTimes,
            "stop_time 400 is not after",
        ),
        (
            RunStart { start_time: 0, stop_time: NOW - 1, ..order() },
            WriteCounter::OrderTimes,
            "not after",
        ),
        (RunStart { filename: Some("../a.nxs"), ..order() }, WriteCounter::OrderPath, "leads out"),
        (
            RunStart { filename: Some("/no/a.nxs"), ..order() },
            WriteCounter::OrderPath,
            "the folder \"no\" below the writer's",
        ),
        (
            RunStart { filename: Some("no/a.nxs"), ..order() },
            WriteCounter::OrderPath,
            "make it first",
        ),
        (
            RunStart { filename: Some("there.nxs"), ..order() },
            WriteCounter::OrderExists,
            "exists already",
        ),
        (
            RunStart { nexus_structure: Some("{"), ..order() },
            WriteCounter::OrderStructure,
            "is not JSON",
        ),
        (
            RunStart { nexus_structure: Some(strange), ..order() },
            WriteCounter::OrderStructure,
            "\"ev99\"",
        ),
        (
            RunStart { nexus_structure: Some(nowhere), ..order() },
            WriteCounter::OrderTopic,
            "\"nowhere\": is not on",
        ),
    ]
}

#[test]
fn each_wrong_start_is_answered_with_what_is_wrong_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (mut service, broker) = service(dir.path(), |_| ());
    std::fs::write(dir.path().join("there.nxs"), b"x").unwrap();
    let good = structure_of_events(1024);
    let strange = good.replace("ev44", "ev99");
    let nowhere = good.replace("\"topic\":\"events\"", "\"topic\":\"nowhere\"");
    let order = || start("job", "a.nxs", &good);
    let wrong = wrong_starts(&order, &strange, &nowhere);
    for (i, (order, counter, words)) in wrong.into_iter().enumerate() {
        let job = order.job_id.unwrap_or("").to_owned();
        let answer = give(&mut service, &broker, i as i64, NOW, Message::Pl72(order)).expect(words);
        assert!(answer["message"].as_str().unwrap().contains(words), "{answer}");
        assert_eq!(answer["action"], "StartJob");
        assert_eq!(answer["outcome"], "Failure");
        assert_eq!(answer["status_code"], 400);
        assert_eq!(
            (&answer["job_id"], &answer["command_id"]),
            (&job.as_str().into(), &job.as_str().into())
        );
        assert_eq!(
            (&answer["service_id"], &answer["topic"]),
            (&"writer-1".into(), &"control".into())
        );
        assert!(count(&service, counter) > 0, "{counter:?}");
    }
    assert_eq!(std::fs::read(dir.path().join("there.nxs")).unwrap(), b"x");
    assert!(journals(dir.path()).is_empty());
    assert!(
        give(&mut service, &broker, 99, NOW, Message::Pl72(order())).unwrap()["status_code"] == 201
    );
    assert_balanced(&service);
}

#[test]
fn a_job_id_is_taken_once_and_a_redelivered_order_is_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let (mut service, broker) = service(dir.path(), |o| o.jobs = 2);
    let structure = structure_of_events(1024);
    let answer =
        give(&mut service, &broker, 5, NOW, Message::Pl72(start("a", "a.nxs", &structure)));
    let answer = answer.unwrap();
    assert_eq!((&answer["outcome"], &answer["status_code"]), (&"Success".into(), &201.into()));
    assert_eq!(
        give(&mut service, &broker, 5, NOW, Message::Pl72(start("a", "a.nxs", &structure))),
        None
    );
    assert_eq!(count(&service, WriteCounter::OrderAgain), 1);
    let twice = give(&mut service, &broker, 6, NOW, Message::Pl72(start("a", "b.nxs", &structure)))
        .unwrap();
    assert!(twice["message"].as_str().unwrap().contains("runs here"), "{twice}");
    assert!(service.has_room());
    assert!(
        give(&mut service, &broker, 7, NOW, Message::Pl72(start("b", "b.nxs", &structure)))
            .is_some()
    );
    assert!(!service.has_room());
    let full = give(&mut service, &broker, 8, NOW, Message::Pl72(start("c", "c.nxs", &structure)))
        .unwrap();
    assert!(full["message"].as_str().unwrap().contains("--jobs"), "{full}");
    // Both end; the id stays taken.
    for (n, job) in ["a", "b"].into_iter().enumerate() {
        give(&mut service, &broker, 9 + n as i64, NOW, Message::S6s4t(stop(job, 0, job)));
    }
    broker.feed(&mut service, NOW + 10_001, usize::MAX);
    service.tick(NOW + 10_001);
    assert_eq!((service.jobs().count(), count(&service, WriteCounter::Finished)), (0, 2));
    let again =
        give(&mut service, &broker, 20, NOW, Message::Pl72(start("a", "d.nxs", &structure)))
            .unwrap();
    assert!(again["message"].as_str().unwrap().contains("ran here"), "{again}");
    assert_balanced(&service);
}

#[test]
fn stops_are_checked_and_a_later_one_replaces_an_earlier_one() {
    let dir = tempfile::tempdir().unwrap();
    let (mut service, mut broker) = service(dir.path(), |_| ());
    let structure = structure_of_events(1024);
    let order = RunStart {
        control_topic: Some("other"),
        start_time: NOW,
        ..start("a", "a.nxs", &structure)
    };
    assert_eq!(
        give(&mut service, &broker, 0, NOW, Message::Pl72(order)).unwrap()["topic"],
        "other"
    );
    assert_eq!(service.control_topics().into_iter().collect::<Vec<_>>(), ["control", "other"]);
    let mut n = 0;
    let mut stop_at = |service: &mut Service, broker: &Broker, now: u64, at: u64, command: &str| {
        n += 1;
        give(service, broker, n, now, Message::S6s4t(stop("a", at, command)))
    };
    let wrong = stop_at(&mut service, &broker, NOW, NOW - 1, "1").unwrap();
    assert!(wrong["message"].as_str().unwrap().contains("not after start_time"), "{wrong}");
    let wrong = stop_at(&mut service, &broker, NOW + 60_000, NOW + 1000, "2").unwrap();
    assert!(wrong["message"].as_str().unwrap().contains("59000 ms in the past"), "{wrong}");
    assert_eq!((&wrong["action"], &wrong["status_code"]), (&"SetStopTime".into(), &400.into()));
    let right = stop_at(&mut service, &broker, NOW, NOW + 5000, "3").unwrap();
    assert_eq!((&right["status_code"], &right["stop_time"]), (&201.into(), &(NOW + 5000).into()));
    assert_eq!((&right["command_id"], &right["topic"]), (&"3".into(), &"other".into()));
    let again = stop_at(&mut service, &broker, NOW, NOW + 5000, "3").unwrap();
    assert_eq!(again["status_code"], 201, "answered again, not obeyed again");
    assert!(stop_at(&mut service, &broker, NOW, NOW + 9000, "4").is_some());
    assert_eq!(service.jobs().next().unwrap().stop_ms(), Some(NOW + 9000));
    // Kafka time past stop and leeway: the end has been seen and cannot be moved to later.
    broker.send("events", NOW + 20_000, &ev44("bank", 1, 1, &[1], &[1]));
    broker.feed(&mut service, NOW + 9000, usize::MAX);
    let over = stop_at(&mut service, &broker, NOW, NOW + 9001, "5").unwrap();
    assert!(over["message"].as_str().unwrap().contains("has passed"), "{over}");
    service.tick(NOW + 9000);
    assert_eq!(service.jobs().count(), 0);
    let unknown = stop_at(&mut service, &broker, NOW, NOW + 9001, "6").unwrap();
    assert!(unknown["message"].as_str().unwrap().contains("no such job"), "{unknown}");
    assert_eq!(unknown["topic"], "pool", "where it was asked");
    assert_eq!(count(&service, WriteCounter::Stopped), 2);
    assert_balanced(&service);
}

#[test]
fn orders_of_others_and_broken_ones_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let (mut service, broker) = service(dir.path(), |o| o.shared_control = true);
    let structure = structure_of_events(1024);
    let order = RunStart { service_id: Some("writer-2"), ..start("a", "a.nxs", &structure) };
    assert_eq!(give(&mut service, &broker, 0, NOW, Message::Pl72(order)), None);
    assert_eq!(
        give(&mut service, &broker, 1, NOW, Message::S6s4t(stop("z", 0, "c"))),
        None,
        "shared"
    );
    let mut named = stop("z", 0, "c");
    named.service_id = Some("writer-1");
    assert!(give(&mut service, &broker, 2, NOW, Message::S6s4t(named)).is_some());
    assert_eq!(
        give(&mut service, &broker, 3, NOW, f144("x", 1, fullcount_messages::LogValue::Int(1))),
        None
    );
    let mut broken = Message::Pl72(start("a", "a.nxs", &structure)).encode();
    broken.truncate(60);
    service.order(&pool(4, &broken), NOW, &broker);
    service.order(&pool(5, b""), NOW, &broker);
    assert_eq!(count(&service, WriteCounter::OthersOrder), 4);
    assert_eq!(count(&service, WriteCounter::OrderBroken), 1);
    assert_balanced(&service);
}

#[test]
fn heartbeats_say_what_is_written_and_an_early_end_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let (mut service, mut broker) = service(dir.path(), |o| o.read_only = true);
    let beat = |service: &mut Service, now: u64| {
        service.tick(now);
        let all = replies(service);
        let all: Vec<_> = all.into_iter().filter(|(_, m)| m["schema"] == "x5f2").collect();
        all.into_iter()
            .map(|(topic, m)| (topic, m["status_json"].as_str().unwrap().to_owned(), m))
            .collect::<Vec<_>>()
    };
    let idle = beat(&mut service, NOW);
    assert_eq!(idle.len(), 1);
    assert!(idle[0].1.contains("\"idle\""), "{idle:?}");
    assert_eq!(
        (&idle[0].2["update_interval"], &idle[0].2["software_name"]),
        (&1000.into(), &"fullcount".into())
    );
    assert_eq!(beat(&mut service, NOW + 999), []);
    let structure = structure_of_events(1024);
    give(&mut service, &broker, 0, NOW, Message::Pl72(start("a", "a.nxs", &structure)));
    let status: Value = serde_json::from_str(&beat(&mut service, NOW + 1000)[0].1).unwrap();
    assert_eq!(
        (&status["job_id"], &status["stop_time"]),
        (&"a".into(), &9_223_372_036_854_u64.into())
    );
    assert!(status["file_being_written"].as_str().unwrap().ends_with("/a.nxs"));
    broker.send("events", NOW, &ev44("bank", 1, 1_000_000_000, &[1], &[1]));
    broker.feed(&mut service, NOW + 1500, usize::MAX);
    service.end(NOW + 2000, false);
    let done = replies(&mut service).into_iter().find(|(_, m)| m["schema"] == "wrdn").unwrap().1;
    assert_eq!(done["error_encountered"], true);
    assert!(done["message"].as_str().unwrap().contains("before the run ended"));
    let path = dir.path().join("a.nxs");
    assert!(std::fs::metadata(&path).unwrap().permissions().readonly());
    let file = hdf5_metno::File::open(&path).unwrap();
    assert_eq!(file.dataset("/entry/bank_events/event_id").unwrap().size(), 1);
    assert_balanced(&service);
}

#[test]
fn a_stop_that_comes_before_its_start_holds_and_the_last_one_counts() {
    let dir = tempfile::tempdir().unwrap();
    let (mut service, mut broker) = service(dir.path(), |o| o.shared_control = true);
    let structure = structure_of_events(1024);
    for (n, at) in [(0, NOW + 9000), (1, NOW + 5000), (2, NOW + 7000)] {
        let early = Message::S6s4t(stop(if n == 2 { "b" } else { "a" }, at, "c"));
        assert_eq!(give(&mut service, &broker, n, NOW, early), None, "may be another's");
    }
    assert_eq!(count(&service, WriteCounter::OthersOrder), 3);
    let order = RunStart { start_time: NOW, ..start("a", "a.nxs", &structure) };
    service.order(&pool(3, &Message::Pl72(order).encode()), NOW, &broker);
    let answers = replies(&mut service).into_iter().map(|(_, m)| m);
    let answers: Vec<Value> = answers.filter(|m| m["schema"] == "answ").collect();
    // That of the stop comes now: nothing was said of it when it came.
    assert_eq!(answers.len(), 2, "{answers:?}");
    for (answer, action) in answers.iter().zip(["StartJob", "SetStopTime"]) {
        let found = (&answer["action"], &answer["status_code"], &answer["stop_time"]);
        assert_eq!(found, (&action.into(), &201.into(), &(NOW + 5000).into()));
    }
    // The stop of another run that is before this one's start is none of its.
    let order = RunStart { start_time: NOW + 8000, ..start("b", "b.nxs", &structure) };
    let answer = give(&mut service, &broker, 4, NOW, Message::Pl72(order)).unwrap();
    assert_eq!(answer["stop_time"], 9_223_372_036_854_u64);
    broker.send(
        "events",
        NOW + 4000,
        &ev44("bank", 1, (NOW as i64 + 4000) * 1_000_000, &[1], &[1]),
    );
    broker.send(
        "events",
        NOW + 6000,
        &ev44("bank", 2, (NOW as i64 + 6000) * 1_000_000, &[1], &[1]),
    );
    broker.feed(&mut service, NOW + 15_001, usize::MAX);
    service.tick(NOW + 15_001);
    assert_eq!(service.jobs().map(|job| job.id().to_owned()).collect::<Vec<_>>(), ["b"]);
    let file = hdf5_metno::File::open(dir.path().join("a.nxs")).unwrap();
    assert_eq!(
        file.dataset("/entry/bank_events/event_id").unwrap().size(),
        1,
        "not after its stop"
    );
    assert_balanced(&service);
}

#[test]
fn an_early_stop_without_other_writers_is_refused_and_then_does_not_hold() {
    let dir = tempfile::tempdir().unwrap();
    let (mut service, broker) = service(dir.path(), |_| ());
    let structure = structure_of_events(1024);
    let early = give(&mut service, &broker, 0, NOW, Message::S6s4t(stop("a", NOW + 5000, "c")));
    let early = early.unwrap();
    assert!(early["message"].as_str().unwrap().contains("no such job"), "{early}");
    let answer =
        give(&mut service, &broker, 1, NOW, Message::Pl72(start("a", "a.nxs", &structure)));
    assert_eq!(answer.unwrap()["stop_time"], 9_223_372_036_854_u64);
    assert_balanced(&service);
}

#[test]
fn what_the_broker_deleted_before_it_was_read_is_counted_and_said_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    let (mut service, mut broker) = service(dir.path(), |_| ());
    let structure = structure_of_events(1024);
    give(&mut service, &broker, 0, NOW, Message::Pl72(start("a", "a.nxs", &structure)));
    let event = |n: i64| ev44("bank", n, 1_000_000_000 + n, &[1], &[1]);
    for n in 0..10 {
        broker.send("events", NOW, &event(n));
    }
    broker.feed(&mut service, NOW, 3);
    // The topic forgets the first 3, which were read, and the next 4, which were not.
    service.oldest("a", "events", 0, 3);
    assert_eq!(count(&service, WriteCounter::Gone), 0, "nothing that was to be read");
    service.oldest("a", "events", 0, 7);
    service.oldest("a", "events", 0, 7);
    assert_eq!(count(&service, WriteCounter::Gone), 4);
    let told: Vec<String> = service.notes().into_iter().map(|n| n.text).collect();
    assert!(told.iter().any(|n| n.contains("4 messages of events/0 were deleted")), "{told:?}");
    assert_eq!(broker.feed(&mut service, NOW, usize::MAX), 3);
    service.tick(NOW + 1);
    let all = replies(&mut service);
    let beat = all.iter().rev().find(|(_, m)| m["schema"] == "x5f2").unwrap();
    let status: Value = serde_json::from_str(beat.1["status_json"].as_str().unwrap()).unwrap();
    assert_eq!(status["messages_gone"], 4);
    // A writer that is killed here knows it still.
    service.end(NOW + 2, true);
    let options = options(dir.path());
    drop(service);
    let mut service = Service::new(options, NOW + 3, &broker).unwrap();
    assert_eq!(service.jobs().next().unwrap().gone(), 4);
    give(&mut service, &broker, 1, NOW + 3, Message::S6s4t(stop("a", NOW + 4, "c")));
    broker.feed(&mut service, NOW + 10_005, usize::MAX);
    service.tick(NOW + 10_005);
    let done = replies(&mut service).into_iter().find(|(_, m)| m["schema"] == "wrdn").unwrap().1;
    assert_eq!(done["error_encountered"], true);
    assert!(done["message"].as_str().unwrap().contains("4 messages were deleted"), "{done}");
    let file = hdf5_metno::File::open(dir.path().join("a.nxs")).unwrap();
    assert_eq!(file.dataset("/entry/bank_events/event_id").unwrap().size(), 6);
    let gone = file.dataset("/entry/fullcount/messages_gone").unwrap();
    assert_eq!(gone.read_scalar::<u64>().unwrap(), 4);
    assert_balanced(&service);
}
