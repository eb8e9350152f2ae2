//! `fullcount write` and `fullcount send --to kafka://` against a real Kafka: a writer that is killed again and again
//! writes every event once, and a simulated facility's run becomes a file.
//!
//! Needs Java and the jars that `cargo xtask test` has fetched; without them it says so, and fails with CI=true.

mod broker;
mod service;

use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use broker::{Cluster, jars};
use fullcount_out::flat::{self, Events44, LogEntry144, LogValue, Message, RunStart, RunStop};
use fullcount_out::kafka::{Begin, Consumer, ConsumerOptions, Polled, Publisher, Settings};
use hdf5_metno::File;
use serde_json::{Value, json};
use service::{fullcount, say};

/// Longest wait for anything that should take seconds.
const PATIENCE: Duration = Duration::from_secs(120);
/// Events of a message.
const EVENTS: i32 = 250;

fn now_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64
}

struct Facility {
    cluster: Cluster,
    publisher: Publisher,
    folder: tempfile::TempDir,
}

impl Facility {
    /// A broker with these topics.
    fn new(topics: &[&str]) -> Option<Facility> {
        let jars = jars()?;
        let folder = tempfile::tempdir().expect("a folder");
        let cluster =
            Cluster::start(&jars, folder.path(), 1, None).unwrap_or_else(|e| panic!("{e}"));
        let publisher = Publisher::new(&cluster.bootstrap(), &Settings::default(), |_| ()).unwrap();
        let facility = Facility { cluster, publisher, folder };
        for topic in topics {
            // The first message makes the topic; nobody asks for this one.
            let entry =
                LogEntry144 { source_name: "nobody", timestamp: 1, value: LogValue::Int(0) };
            facility.send(topic, &Message::F144(entry));
        }
        facility.publisher.flush(PATIENCE).unwrap();
        Some(facility)
    }

    fn send(&self, topic: &str, message: &Message<'_>) {
        let value = message.encode();
        self.publisher.publish(topic, &value, now_ns() / 1_000_000, PATIENCE).unwrap();
    }

    fn data(&self) -> PathBuf {
        let data = self.folder.path().join("data");
        std::fs::create_dir_all(&data).unwrap();
        data
    }

    fn writer(&self, more: &[&str]) -> Child {
        let (brokers, data) = (self.cluster.bootstrap(), self.data().display().to_string());
        let mut all = vec!["write", "--brokers", &brokers, "--folder", &data, "--json"];
        all.extend([
            "--pool",
            "pool",
            "--control",
            "control",
            "--service-id",
            "w",
            "--leeway",
            "2s",
        ]);
        all.extend(["--flush", "100ms", "--heartbeat", "1s"]);
        all.extend(more);
        fullcount(&all).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Messages on the control topic, until one of this schema comes.
    fn wait_for(&self, consumer: &Consumer, schema: &str) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < end, "no {schema} within {PATIENCE:?}");
            let polled = consumer.poll(Duration::from_millis(200)).expect("readable");
            let Polled::Message(message) = polled else { continue };
            let decoded = flat::decode(message.payload()).expect("decodes");
            if decoded.schema().identifier() == schema {
                return serde_json::to_value(&decoded).unwrap();
            }
        }
    }

    fn control(&self) -> Consumer {
        let consumer = Consumer::new(&ConsumerOptions::new(self.cluster.bootstrap())).unwrap();
        consumer.assign(&[("control", 0, Begin::Oldest)]).unwrap();
        consumer
    }
}

fn structure() -> String {
    let group = |name: &str, class: &str, children: Value| json!({"type": "group", "name": name, "attributes": {"NX_class": class}, "children": children});
    let module = |name: &str, source: &str| json!({"module": name, "config": {"topic": "data", "source": source, "dtype": "int64", "chunk_size": 4096}});
    json!({"children": [group("entry", "NXentry", json!([
        group("bank_events", "NXevent_data", json!([module("ev44", "bank")])),
        group("log", "NXlog", json!([module("f144", "log")])),
    ]))]})
    .to_string()
}

fn start<'a>(job: &'a str, file: &'a str, structure: &'a str) -> RunStart<'a> {
    RunStart {
        start_time: 0,
        stop_time: 0,
        run_name: None,
        instrument_name: None,
        nexus_structure: Some(structure),
        job_id: Some(job),
        broker: None,
        service_id: None,
        filename: Some(file),
        n_periods: 1,
        detector_spectrum_map: None,
        metadata: None,
        control_topic: None,
    }
}

#[test]
fn a_writer_that_is_killed_again_and_again_writes_every_event_once() {
    let Some(facility) = Facility::new(&["pool", "control", "data"]) else { return };
    let control = facility.control();
    let mut writer = facility.writer(&[]);
    let structure = structure();
    // What is wrong is answered, and the service lives on.
    facility.send("pool", &Message::Pl72(start("bad", "../out.nxs", &structure)));
    let answer = facility.wait_for(&control, "answ");
    assert_eq!((&answer["status_code"], &answer["job_id"]), (&400.into(), &"bad".into()));
    assert!(answer["message"].as_str().unwrap().contains("leads out"), "{answer}");
    facility.send("pool", &Message::Pl72(start("job", "run.nxs", &structure)));
    let answer = facility.wait_for(&control, "answ");
    assert_eq!((&answer["status_code"], &answer["job_id"]), (&201.into(), &"job".into()));
    let mut sent = 0;
    for round in 0..12 {
        for _ in 0..50 {
            let time = now_ns();
            let event = |i: i32| sent * EVENTS + i;
            facility.send(
                "data",
                &Message::Ev44(Events44 {
                    source_name: "bank",
                    message_id: sent.into(),
                    reference_time: vec![time].into(),
                    reference_time_index: vec![0].into(),
                    time_of_flight: Some((0..EVENTS).collect::<Vec<_>>().into()),
                    pixel_id: Some((0..EVENTS).map(event).collect::<Vec<_>>().into()),
                }),
            );
            let value = LogValue::Long(sent.into());
            facility.send(
                "data",
                &Message::F144(LogEntry144 { source_name: "log", timestamp: time, value }),
            );
            sent += 1;
        }
        facility.publisher.flush(PATIENCE).unwrap();
        // Killed in the middle of it; what it has flushed by then is another part each time.
        if round % 3 == 1 {
            facility.wait_for(&control, "x5f2");
            writer.kill().unwrap();
            writer.wait().unwrap();
            writer = facility.writer(&["--files", "1"]);
        }
    }
    // The stop is sent while no writer is there, and events go on: they are after it.
    writer.kill().unwrap();
    writer.wait().unwrap();
    facility.send(
        "control",
        &Message::S6s4t(RunStop {
            stop_time: 0,
            run_name: None,
            job_id: Some("job"),
            service_id: None,
            command_id: Some("stop"),
        }),
    );
    facility.publisher.flush(PATIENCE).unwrap();
    facility.send(
        "data",
        &Message::Ev44(Events44 {
            source_name: "bank",
            message_id: sent.into(),
            reference_time: vec![now_ns() + 1_000_000].into(),
            reference_time_index: vec![0].into(),
            time_of_flight: Some(vec![0].into()),
            pixel_id: Some(vec![-1].into()),
        }),
    );
    facility.publisher.flush(PATIENCE).unwrap();
    let writer = facility.writer(&["--files", "1"]);
    let answer = facility.wait_for(&control, "answ");
    assert_eq!((&answer["action"], &answer["status_code"]), (&"SetStopTime".into(), &201.into()));
    let done = facility.wait_for(&control, "wrdn");
    assert_eq!(
        (&done["error_encountered"], &done["file_name"]),
        (&false.into(), &"run.nxs".into()),
        "{done}"
    );
    let output = writer.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    assert!(errors.contains("goes on after a restart"), "{errors}");
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&summary["counters"]["write.files_resumed"], &summary["balance_difference"]),
        (&1.into(), &0.into())
    );
    let file = File::open(facility.data().join("run.nxs")).unwrap();
    let mut ids = file.dataset("/entry/bank_events/event_id").unwrap().read_raw::<i32>().unwrap();
    ids.sort_unstable();
    assert!(ids.iter().copied().eq(0..sent * EVENTS), "{} events of {}", ids.len(), sent * EVENTS);
    let log = file.dataset("/entry/log/value").unwrap().read_raw::<i64>().unwrap();
    assert!(log.iter().copied().eq(0..i64::from(sent)), "{} entries of {sent}", log.len());
}

#[test]
fn a_simulated_run_becomes_a_file() {
    let Some(facility) = Facility::new(&["pool", "control", "logs"]) else { return };
    let url = |topic: &str| format!("kafka://{}/{topic}", facility.cluster.bootstrap());
    let printed = say(&["send", "--to", &url("logs"), "--source", "logs", "--print-structure"]);
    assert_eq!(printed.code, 0, "{}", printed.err);
    let structure = facility.folder.path().join("run.json");
    std::fs::write(&structure, &printed.out).unwrap();
    let writer = facility.writer(&["--files", "1"]);
    let (logs, pool) = (url("logs"), url("pool"));
    let sender = std::thread::spawn(move || {
        say(&[
            "send",
            "--to",
            &logs,
            "--source",
            "logs",
            "--rate",
            "200pps",
            "--duration",
            "8s",
            "--json",
        ])
    });
    let structure = structure.display().to_string();
    let ordered = say(&[
        "send",
        "--to",
        &pool,
        "--source",
        "run",
        "--structure",
        &structure,
        "--file",
        "sim.nxs",
        "--control",
        "control",
        "--duration",
        "3s",
        "--job",
        "sim",
        "--json",
    ]);
    assert_eq!((ordered.code, &ordered.summary()["confirmed"]), (0, &2.into()), "{}", ordered.err);
    let sent = sender.join().unwrap();
    assert_eq!(sent.code, 0, "{}", sent.err);
    let output = writer.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let file = File::open(facility.data().join("sim.nxs")).unwrap();
    let rows = |path: &str| file.dataset(path).unwrap().shape()[0];
    // 3 s of 50 rounds a second; the machine may be busy, so only that there are many.
    let motor = rows("/entry/sample/motor/value");
    assert!((20..=160).contains(&motor), "{motor}");
    assert_eq!(rows("/entry/sample/motor/time"), motor);
    assert_eq!(file.dataset("/entry/sample/field/value").unwrap().shape()[1], 3);
    assert!(rows("/entry/instrument/chopper/top_dead_center/time") > 5);
    let source = file.dataset("/entry/instrument/source/transformations/distance").unwrap();
    assert!(source.read_scalar::<f64>().unwrap() < 0.0, "upstream of the sample");
}

#[test]
fn wrong_options_are_refused_before_anything_is_opened() {
    for (arguments, words) in [
        (&["write", "--brokers", "localhost"][..], "--pool or --control"),
        (&["write", "--brokers", "localhost:0", "--pool", "p"], "--brokers"),
        (&["write", "--brokers", "localhost", "--pool", "a b"], "--pool a b"),
        (
            &["write", "--brokers", "localhost", "--pool", "p", "--folder", "/nowhere/at/all"],
            "make it first",
        ),
        (&["write", "--brokers", "localhost", "--pool", "p", "--jobs", "0"], "expected 1 to 1000"),
        (
            &["write", "--brokers", "localhost", "--pool", "p", "--flush", "1ms"],
            "--flush 1ms: expected",
        ),
        (
            &["write", "--brokers", "localhost", "--pool", "p", "--compression", "zip"],
            "--compression zip",
        ),
        (
            &["write", "--brokers", "localhost", "--pool", "p", "--kafka-set", "acks"],
            "expected NAME=VALUE",
        ),
        (
            &["write", "--brokers", "localhost", "--pool", "p", "--service-id", "../x"],
            "--service-id",
        ),
        (&["send", "--to", "kafka://localhost/t", "--source", "sonde"], "to Kafka go logs"),
        (&["send", "--to", "kafka://localhost", "--source", "logs"], "expected kafka://"),
        (&["send", "--to", "kafka://localhost/t", "--source", "run"], "--structure"),
        (
            &["send", "--to", "kafka://localhost/t", "--source", "logs", "--rate", "1Gbps"],
            "messages a second",
        ),
    ] {
        let said = say(arguments);
        assert_eq!(said.code, 2, "{arguments:?}: {}", said.err);
        assert!(said.err.contains(words), "{arguments:?}: {}", said.err);
    }
}
