//! What a run has around its data: the echo of its start, what is said of its end, alarms and connections beside logs,
//! values that are said twice, stops that come late.

use std::path::Path;

use crate::write_made::*;
use fullcount_messages::{ConnectionState, LogValue, Message, RunStart};
use fullcount_writer::{Options, Reply, Service, WriteCounter};
use hdf5_metno::types::{FixedUnicode, VarLenUnicode};
use hdf5_metno::{File, H5Type};
use serde_json::{Value, json};

const NOW: u64 = 1_000_000;
const S: i64 = 1_000_000_000;

fn broker() -> Broker {
    Broker::with(&["events", "logs", "control", "run", "pool"])
}

fn service(folder: &Path, broker: &Broker, change: impl FnOnce(&mut Options)) -> Service {
    let mut options = options(folder);
    change(&mut options);
    Service::new(options, NOW, broker).unwrap()
}

fn in_entry(children: Value) -> String {
    json!({"children": [group("entry", "NXentry", children)]}).to_string()
}

fn log(module: &str, source: &str, more: Value) -> Value {
    let mut config = json!({"topic": "logs", "source": source});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    stream(module, config)
}

fn column<T: H5Type>(file: &File, path: &str) -> Vec<T> {
    file.dataset(path).unwrap_or_else(|e| panic!("{path}: {e}")).read_raw::<T>().unwrap()
}

/// What is said of one schema, confirmed.
fn said(service: &mut Service, schema: &str) -> Vec<Value> {
    let all = replies(service).into_iter().filter(|(_, m)| m["schema"] == schema);
    all.map(|(topic, mut m)| {
        m["topic"] = topic.into();
        m
    })
    .collect()
}

/// Starts a run of this structure from 0.5 s on, gives it the messages and ends it at 100 s; its end.
fn run(service: &mut Service, broker: &Broker, start: RunStart<'_>) -> Value {
    let job = start.job_id.unwrap().to_owned();
    service.order(&pool(0, &Message::Pl72(start).encode()), NOW, broker);
    assert_eq!(count(service, WriteCounter::Started), 1, "{:?}", service.notes());
    broker.feed(service, NOW, usize::MAX);
    let halt = Message::S6s4t(stop(&job, NOW, "c")).encode();
    service.order(&pool(1, &halt), NOW, broker);
    broker.feed(service, NOW + 10_001, usize::MAX);
    service.tick(NOW + 10_001);
    assert_balanced(service);
    said(service, "wrdn").remove(0)
}

#[test]
fn a_start_is_said_again_once_on_the_control_topic_that_it_names() {
    let (dir, broker) = (tempfile::tempdir().unwrap(), broker());
    let pooled = |o: &mut Options| {
        o.pool_topic = Some("pool".into());
        o.shared_control = true;
    };
    let mut writer = service(dir.path(), &broker, pooled);
    let structure = structure_of_events(1024);
    let order = RunStart { control_topic: Some("run"), ..start("a", "a.nxs", &structure) };
    let order = Message::Pl72(order).encode();
    writer.order(&pool(7, &order), NOW, &broker);
    let all: Vec<Reply> = writer.replies();
    let echo: Vec<&Reply> = all.iter().filter(|r| r.value == order).collect();
    assert_eq!(echo.len(), 1);
    assert_eq!((&*echo[0].topic, echo[0].receipt.is_some()), ("run", true), "it is to arrive");
    assert_eq!(&all[1].value[4..8], b"answ", "then the answer");
    // The writer hears it too, and so does one that was restarted before the echo had arrived.
    let heard =
        |offset: i64| fullcount_writer::TopicRecord { topic: "run", ..pool(offset, &order) };
    writer.order(&heard(3), NOW, &broker);
    assert_eq!((count(&writer, WriteCounter::OrderEcho), writer.jobs().count()), (1, 1));
    assert_eq!(writer.replies(), []);
    drop(writer);
    let mut writer = service(dir.path(), &broker, pooled);
    let again = writer.replies();
    assert_eq!(again, all, "not confirmed: said again");
    again.iter().filter_map(|r| r.receipt).for_each(|n| writer.confirmed(n));
    writer.order(&heard(3), NOW, &broker);
    // The offset in the pool was not committed.
    writer.order(&pool(7, &order), NOW, &broker);
    assert_eq!(writer.replies(), []);
    let counts = [WriteCounter::OrderEcho, WriteCounter::OrderAgain, WriteCounter::OrderTwice];
    assert_eq!(counts.map(|c| count(&writer, c)), [1, 1, 0]);
    writer.end(NOW, true);
    drop(writer);
    // Confirmed: a job that goes on is not said again.
    let mut writer = service(dir.path(), &broker, pooled);
    assert_eq!((writer.jobs().count(), writer.replies()), (1, vec![]));
    // Nor is it an order when it is over.
    writer.order(&pool(8, &Message::S6s4t(stop("a", 0, "c")).encode()), NOW, &broker);
    broker.feed(&mut writer, NOW + 10_001, usize::MAX);
    writer.tick(NOW + 10_001);
    assert_eq!(said(&mut writer, "wrdn").len(), 1);
    writer.order(&heard(4), NOW, &broker);
    assert_eq!((count(&writer, WriteCounter::OrderEcho), replies(&mut writer)), (1, vec![]));
    assert_balanced(&writer);
}

#[test]
fn the_echo_of_another_writer_is_no_order_and_what_comes_from_the_pool_is() {
    let (dir, broker) = (tempfile::tempdir().unwrap(), broker());
    let mut writer = service(dir.path(), &broker, |o| {
        o.pool_topic = Some("pool".into());
        o.shared_control = true;
    });
    let structure = structure_of_events(1024);
    let at = |topic: &'static str, n: i64, order: &[u8]| {
        let value = order.to_vec().leak();
        fullcount_writer::TopicRecord { topic, ..pool(n, value) }
    };
    let named = |job: &'static str, file: &'static str, control: &'static str| RunStart {
        control_topic: Some(control),
        ..start(job, file, &structure)
    };
    let other = Message::Pl72(named("b", "b.nxs", "control")).encode();
    writer.order(&at("control", 0, &other), NOW, &broker);
    assert_eq!((count(&writer, WriteCounter::OrderEcho), writer.jobs().count()), (1, 0));
    assert_eq!(replies(&mut writer), []);
    assert!(!dir.path().join("b.nxs").exists());
    // One that names this writer is for it, wherever it stands.
    let ours = RunStart { service_id: Some("writer-1"), ..named("c", "c.nxs", "control") };
    writer.order(&at("control", 1, &Message::Pl72(ours).encode()), NOW, &broker);
    assert_eq!(writer.jobs().count(), 1);
    // And so is all that the pool holds; there an echo would be an order for the next one.
    let pooled = Message::Pl72(named("d", "d.nxs", "pool")).encode();
    writer.order(&at("pool", 2, &pooled), NOW, &broker);
    assert_eq!(writer.jobs().count(), 2);
    assert!(writer.replies().iter().all(|r| r.value != pooled));
    assert_balanced(&writer);
    // A writer alone on its control topic takes what names that topic.
    let alone = tempfile::tempdir().unwrap();
    let mut writer = service(alone.path(), &broker, |_| ());
    writer.order(&at("control", 0, &other), NOW, &broker);
    assert_eq!(writer.jobs().count(), 1);
    assert!(writer.replies().iter().all(|r| r.value != other), "it is there already");
}

#[test]
fn the_end_has_the_name_with_its_folder_and_the_metadata_of_the_start() {
    let (dir, mut broker) = (tempfile::tempdir().unwrap(), broker());
    std::fs::create_dir_all(dir.path().join("2026/proposal")).unwrap();
    let mut writer = service(dir.path(), &broker, |_| ());
    broker.send("events", 1000, &ev44("bank", 1, S, &[1, 2], &[1, 2]));
    let structure = structure_of_events(1024);
    let metadata = r#"{"sample": "water", "events": "many", "pi": 3.14159265358979323846}"#;
    let order =
        RunStart { metadata: Some(metadata), ..start("a", "2026/proposal/x.nxs", &structure) };
    let done = run(&mut writer, &broker, order);
    assert_eq!(done["file_name"], "2026/proposal/x.nxs");
    let text = done["metadata"].as_str().unwrap();
    assert!(text.starts_with(metadata.strip_suffix('}').unwrap()), "as it came: {text}");
    let all: Value = serde_json::from_str(text).unwrap();
    assert_eq!((&all["sample"], &all["events"]), (&"water".into(), &"many".into()));
    assert_eq!(all["fullcount"]["events"]["/entry/instrument/bank/bank_events"], 2);
    assert!(all["path"].as_str().unwrap().ends_with("/2026/proposal/x.nxs"));
    assert_eq!(writer.files()[0]["events"]["/entry/instrument/bank/bank_events"], 2, "ours alone");
}

#[test]
fn alarms_and_connections_are_written_beside_logs_that_do_not_list_them() {
    let (dir, mut broker) = (tempfile::tempdir().unwrap(), broker());
    let mut writer = service(dir.path(), &broker, |_| ());
    let off = json!({"enable_alarm_info": false, "enable_epics_con_info": false});
    let structure = in_entry(json!([
        bare("temperature", json!([log("f144", "temperature", json!({}))])),
        bare("fast", json!([log("se00", "fast", json!({}))])),
        bare("chopper", json!([log("tdct", "chopper", json!({}))])),
        bare("listed", json!([log("f144", "listed", json!({})), log("al00", "other", json!({}))])),
        bare("off", json!([log("f144", "off", off)])),
        bare("old", json!([log("f142", "temperature", json!({}))])),
        bare(
            "own",
            json!([
                log("f144", "own", json!({})),
                dataset("connection_status", "int16", json!(7), json!([]))
            ])
        ),
    ]));
    for source in ["temperature", "fast", "chopper", "listed", "off", "own"] {
        broker.send("logs", 1000, &al00(source, S, source));
        broker.send("logs", 1000, &ep01(source, S, ConnectionState::Connected));
    }
    broker.send("logs", 1000, &al00("other", 2 * S, "other"));
    broker.send("logs", 1000, &f144("temperature", S, LogValue::Double(1.0)));
    let done = run(&mut writer, &broker, start("a", "a.nxs", &structure));
    assert_eq!(done["error_encountered"], false);
    let counts = [WriteCounter::Al00, WriteCounter::Ep01, WriteCounter::NotAsked];
    assert_eq!(counts.map(|c| count(&writer, c)), [5, 4, 4], "off: both; listed: al00; own: ep01");
    let file = File::open(dir.path().join("a.nxs")).unwrap();
    for (group, alarm, state) in [
        ("temperature", Some("temperature"), Some(vec![2_i16])),
        ("fast", Some("fast"), Some(vec![2])),
        ("chopper", Some("chopper"), Some(vec![2])),
        ("listed", Some("other"), Some(vec![2])),
        ("off", None, None),
        ("old", None, None),
        ("own", Some("own"), Some(vec![7])),
    ] {
        let path = |name: &str| format!("/entry/{group}/{name}");
        let there = |name: &str| file.dataset(&path(name)).is_ok();
        assert_eq!(there("alarm_message"), alarm.is_some(), "{group}");
        if let Some(alarm) = alarm {
            let words: Vec<FixedUnicode<200>> = column(&file, &path("alarm_message"));
            assert_eq!(words.iter().map(|w| w.as_str()).collect::<Vec<_>>(), [alarm]);
            assert_eq!(column::<i16>(&file, &path("alarm_severity")), [2]);
        }
        assert_eq!(there("connection_status"), state.is_some(), "{group}");
        if let Some(state) = state {
            assert_eq!(column::<i16>(&file, &path("connection_status")), state, "{group}");
        }
        assert_eq!(
            there("connection_status_time"),
            group != "own" && !["off", "old"].contains(&group)
        );
    }
    let wrong =
        in_entry(json!([bare("x", json!([log("f144", "x", json!({"enable_alarm_info": 1}))]))]));
    writer.order(&pool(9, &Message::Pl72(start("b", "b.nxs", &wrong)).encode()), NOW, &broker);
    let answer = said(&mut writer, "answ").remove(0);
    let words = answer["message"].as_str().unwrap();
    assert!(words.contains("config.enable_alarm_info: is 1; expected true or false"), "{words}");
}

#[test]
fn a_job_of_an_earlier_version_goes_on_without_what_its_file_does_not_have() {
    let (dir, broker) = (tempfile::tempdir().unwrap(), broker());
    let mut writer = service(dir.path(), &broker, |_| ());
    let off = json!({"enable_alarm_info": false, "enable_epics_con_info": false});
    let structure = in_entry(json!([bare("x", json!([log("f144", "x", off)]))]));
    let order = Message::Pl72(start("a", "a.nxs", &structure)).encode();
    writer.order(&pool(0, &order), NOW, &broker);
    writer.end(NOW, true);
    drop(writer);
    // As that version had it written down: a structure without switches, and no word of them.
    let path = dir.path().join(".fullcount-write/writer-1/a.job");
    let mut journal: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let structure = in_entry(json!([bare("x", json!([log("f144", "x", json!({}))]))]));
    journal["structure"] = structure.into();
    assert_eq!(journal.as_object_mut().unwrap().remove("beside"), Some(true.into()));
    std::fs::write(&path, journal.to_string()).unwrap();
    let writer = service(dir.path(), &broker, |_| ());
    assert_eq!((writer.jobs().count(), count(&writer, WriteCounter::Failed)), (1, 0));
}

#[test]
fn what_a_forwarder_repeats_with_the_same_time_is_written_once_also_after_a_restart() {
    let (dir, mut broker) = (tempfile::tempdir().unwrap(), broker());
    let mut writer = service(dir.path(), &broker, |_| ());
    let structure = in_entry(json!([
        bare("x", json!([log("f144", "x", json!({}))])),
        bare("x_again", json!([log("f144", "x", json!({}))])),
        bare("fast", json!([log("se00", "fast", json!({}))])),
        bare("chopper", json!([log("tdct", "chopper", json!({}))])),
        bare("bank", json!([stream("ev44", json!({"topic": "logs", "source": "bank"}))])),
    ]));
    let value = |s: i64, x: f64| f144("x", s * S, LogValue::Double(x));
    for (s, x) in [(1, 5.0), (1, 5.0), (1, 6.0), (2, 6.0)] {
        broker.send("logs", 1000, &value(s, x));
    }
    for _ in 0..2 {
        broker.send("logs", 1000, &al00("x", S, "warm"));
        broker.send("logs", 1000, &ep01("x", S, ConnectionState::Connected));
        broker.send("logs", 1000, &se00("fast", S, vec![1, 2]));
        broker.send("logs", 1000, &tdct("chopper", vec![S as u64, S as u64 + 5]));
        broker.send("logs", 1000, &ev44("bank", 1, S, &[1], &[1]));
    }
    writer.order(&pool(0, &Message::Pl72(start("a", "a.nxs", &structure)).encode()), NOW, &broker);
    broker.feed(&mut writer, NOW, usize::MAX);
    assert_eq!(count(&writer, WriteCounter::Repeated), 6);
    assert_balanced(&writer);
    writer.end(NOW, true);
    drop(writer);
    let mut writer = service(dir.path(), &broker, |_| ());
    broker.send("logs", 1000, &value(2, 6.0));
    broker.send("logs", 1000, &value(1, 6.0));
    broker.feed(&mut writer, NOW, usize::MAX);
    assert_eq!(count(&writer, WriteCounter::Repeated), 1, "an earlier time is not a repeated one");
    writer.end(NOW, false);
    let file = File::open(dir.path().join("a.nxs")).unwrap();
    for group in ["x", "x_again"] {
        assert_eq!(column::<f64>(&file, &format!("/entry/{group}/value")), [5.0, 6.0, 6.0]);
        assert_eq!(column::<i64>(&file, &format!("/entry/{group}/time")), [S, 2 * S, S]);
        assert_eq!(column::<i64>(&file, &format!("/entry/{group}/alarm_time")), [S]);
        assert_eq!(column::<i64>(&file, &format!("/entry/{group}/connection_status_time")), [S]);
    }
    assert_eq!(column::<i64>(&file, "/entry/fast/value"), [1, 2]);
    assert_eq!(column::<u64>(&file, "/entry/chopper/time").len(), 2);
    assert_eq!(column::<i32>(&file, "/entry/bank/event_id"), [1, 1], "messages of one pulse");
}

#[test]
fn the_first_value_after_the_stop_is_written_also_after_a_restart_and_events_are_not() {
    let (dir, mut broker) = (tempfile::tempdir().unwrap(), broker());
    let mut writer = service(dir.path(), &broker, |_| ());
    let structure = in_entry(json!([
        bare("x", json!([log("f144", "x", json!({}))])),
        bare("quiet", json!([log("f144", "quiet", json!({}))])),
        bare("bank", json!([stream("ev44", json!({"topic": "logs", "source": "bank"}))])),
    ]));
    let value = |source: &'static str, s: i64| f144(source, s * S, LogValue::Double(s as f64));
    // Before the start, in the run, and three behind its stop at 3 s; of `quiet` nothing in between.
    for s in [-1, 1, 2, 4, 5] {
        broker.send("logs", 1000, &value("x", s));
        broker.send("logs", 1000, &al00("x", s * S, "warm"));
        broker.send("logs", 1000, &ev44("bank", s, s * S, &[1], &[1]));
    }
    broker.send("logs", 1000, &value("quiet", 0));
    broker.send("logs", 1000, &value("quiet", 9));
    let order = RunStart { stop_time: 3000, ..start("a", "a.nxs", &structure) };
    writer.order(&pool(0, &Message::Pl72(order).encode()), NOW, &broker);
    broker.feed(&mut writer, 5000, usize::MAX);
    let counts = [WriteCounter::CarriedIn, WriteCounter::CarriedOut, WriteCounter::AfterStop];
    assert_eq!(counts.map(|c| count(&writer, c)), [3, 3, 7]);
    writer.end(5000, true);
    drop(writer);
    // It knows what it has written.
    let mut writer = service(dir.path(), &broker, |_| ());
    broker.send("logs", 1000, &value("x", 6));
    broker.feed(&mut writer, NOW, usize::MAX);
    writer.tick(NOW);
    assert_eq!(counts.map(|c| count(&writer, c)), [0, 0, 1]);
    assert_balanced(&writer);
    let done = said(&mut writer, "wrdn").remove(0);
    assert_eq!(done["error_encountered"], false, "{done}");
    let file = File::open(dir.path().join("a.nxs")).unwrap();
    assert_eq!(column::<f64>(&file, "/entry/x/value"), [-1.0, 1.0, 2.0, 4.0]);
    assert_eq!(column::<i64>(&file, "/entry/x/alarm_time"), [-S, S, 2 * S, 4 * S]);
    assert_eq!(column::<f64>(&file, "/entry/quiet/value"), [0.0, 9.0]);
    assert_eq!(column::<i32>(&file, "/entry/bank/event_id").len(), 2);
}

#[test]
fn a_stop_in_the_past_that_has_values_behind_it_gets_no_further_one() {
    let (dir, mut broker) = (tempfile::tempdir().unwrap(), broker());
    let mut writer = service(dir.path(), &broker, |_| ());
    let structure = in_entry(json!([bare("x", json!([log("f144", "x", json!({}))]))]));
    let now = NOW as i64 * 1_000_000;
    let value = |ago_s: i64| f144("x", now - ago_s * S, LogValue::Double(ago_s as f64));
    broker.send("logs", NOW, &value(8));
    broker.send("logs", NOW, &value(2));
    writer.order(&pool(0, &Message::Pl72(start("a", "a.nxs", &structure)).encode()), NOW, &broker);
    broker.feed(&mut writer, NOW, usize::MAX);
    let halt = Message::S6s4t(stop("a", NOW - 5_000, "c")).encode();
    writer.order(&pool(1, &halt), NOW, &broker);
    broker.send("logs", NOW, &value(0));
    broker.feed(&mut writer, NOW + 10_001, usize::MAX);
    writer.tick(NOW + 10_001);
    assert_eq!(count(&writer, WriteCounter::CarriedOut), 0);
    let file = File::open(dir.path().join("a.nxs")).unwrap();
    assert_eq!(column::<f64>(&file, "/entry/x/value"), [8.0, 2.0]);
}

#[test]
fn values_without_units_have_empty_ones() {
    let (dir, broker) = (tempfile::tempdir().unwrap(), broker());
    let mut writer = service(dir.path(), &broker, |_| ());
    let image = json!({"array_size": [2, 2]});
    let structure = in_entry(json!([
        bare("x", json!([log("f144", "x", json!({}))])),
        bare("camera", json!([log("ad00", "camera", image)])),
        bare("counts", json!([log("ad00", "counts", json!({"array_size": [2], "units": "K"}))])),
    ]));
    let done = run(&mut writer, &broker, start("a", "a.nxs", &structure));
    assert_eq!(done["error_encountered"], false, "{done}");
    let file = File::open(dir.path().join("a.nxs")).unwrap();
    for (path, wanted) in [
        ("x/value", ""),
        ("x/minimum_value", ""),
        ("x/average_value", ""),
        ("camera/value", ""),
        ("counts/value", "K"),
    ] {
        let units = file.dataset(&format!("/entry/{path}")).unwrap().attr("units").unwrap();
        let units = units.read_scalar::<VarLenUnicode>().unwrap();
        assert_eq!(units.as_str(), wanted, "{path}");
    }
}

#[test]
fn a_stop_that_comes_late_says_what_is_behind_it_in_the_file() {
    let (dir, mut broker) = (tempfile::tempdir().unwrap(), broker());
    let mut writer = service(dir.path(), &broker, |_| ());
    let mut whole: Value = serde_json::from_str(&structure_of_events(1024)).unwrap();
    let entry = whole["children"][0]["children"].as_array_mut().unwrap();
    entry.push(bare("x", json!([log("f144", "x", json!({}))])));
    let structure = whole.to_string();
    let ns = |ms: u64| ms as i64 * 1_000_000;
    let order = RunStart { start_time: NOW - 60_000, ..start("a", "a.nxs", &structure) };
    writer.order(&pool(0, &Message::Pl72(order).encode()), NOW, &broker);
    for i in 0..10_000_i64 {
        // A pulse each ms, of two events, and one that is not of the detector.
        let at = ns(NOW) - (10_000 - i) * 1_000_000 + 7;
        broker.send("events", NOW, &ev44("bank", i, at, &[1, 2, 3], &[1, 2, 1000]));
        if i % 1000 == 0 {
            broker.send("logs", NOW, &f144("x", at, LogValue::Double(i as f64)));
        }
    }
    broker.feed(&mut writer, NOW, usize::MAX);
    said(&mut writer, "answ");
    let mut n = 1;
    let mut words = |writer: &mut Service, at: u64| {
        n += 1;
        let halt = Message::S6s4t(stop("a", at, &n.to_string())).encode();
        writer.order(&pool_at(n, NOW, &halt), NOW, &broker);
        let answer = said(writer, "answ").remove(0);
        assert_eq!(answer["status_code"], 201, "{answer}");
        answer["message"].as_str().unwrap().to_owned()
    };
    assert_eq!(words(&mut writer, NOW + 5000), "stop time set");
    // Pulses at 5000 ms and 7 ns before now, and later ones.
    assert_eq!(
        words(&mut writer, NOW - 5000),
        "stop time set; 10000 events and 5 values up to 4999000007 ns behind it are in the file already, and stay"
    );
    assert_eq!(
        words(&mut writer, NOW - 1),
        "stop time set; 2 events and 0 values up to 7 ns behind it are in the file already, and stay"
    );
    assert!(writer.notes().iter().any(|n| n.text.contains("10000 events and 5 values")));
    // Also by a writer that was not there when they came.
    writer.end(NOW, true);
    drop(writer);
    let mut writer = service(dir.path(), &broker, |_| ());
    assert_eq!(
        words(&mut writer, NOW - 3000),
        "stop time set; 6000 events and 3 values up to 2999000007 ns behind it are in the file already, and stay"
    );
    assert_eq!(words(&mut writer, NOW), "stop time set");
}
