//! `fullcount write` and `fullcount send --to kafka://` against a real Kafka: a writer that is killed repeatedly writes
//! every event once, and a simulated facility's run becomes a file with the events that the `nexus` sink writes of the
//! same input, read back with HDF5 alone and with h5py and scippnexus.
//!
//! Needs Java and the jars that `cargo xtask test` has fetched; without them it is skipped with a message, and fails
//! with CI=true.

use crate::python;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::broker::{Shared, fresh, packet};
use crate::service::{Service, fullcount, say, vector, write_capture};
use fullcount_kafka::{Begin, Consumer, ConsumerOptions, KafkaSettings, Polled, Publisher};
use fullcount_messages::{Events44, LogEntry144, LogValue, Message, RunStart, RunStop};
use hdf5_metno::File;
use serde_json::{Value, json};

/// Longest wait for anything that should take seconds.
const PATIENCE: Duration = Duration::from_secs(120);
/// Events of a message.
const EVENTS: i32 = 250;

fn now_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64
}

struct Facility {
    cluster: Shared,
    publisher: Publisher,
    folder: tempfile::TempDir,
    /// What makes its names on the broker its own.
    mark: String,
}

impl Facility {
    /// A broker with these topics.
    fn new(topics: &[&str]) -> Option<Facility> {
        let cluster = Shared::new()?;
        let folder = tempfile::tempdir().expect("a folder");
        let publisher =
            Publisher::new(&cluster.bootstrap(), &KafkaSettings::default(), |_| ()).unwrap();
        let facility = Facility { cluster, publisher, folder, mark: fresh("") };
        for topic in topics {
            // The first message creates the topic; no run reads this one.
            let entry =
                LogEntry144 { source_name: "nobody", timestamp: 1, value: LogValue::Int(0) };
            facility.send(topic, &Message::F144(entry));
        }
        facility.publisher.flush(PATIENCE).unwrap();
        Some(facility)
    }

    /// What a topic or a group is called on the broker.
    fn named(&self, name: &str) -> String {
        format!("{name}{}", self.mark)
    }

    fn send(&self, topic: &str, message: &Message<'_>) {
        let (topic, value) = (self.named(topic), message.encode());
        self.publisher.publish(&topic, &value, now_ns() / 1_000_000, PATIENCE).unwrap();
    }

    fn data(&self) -> PathBuf {
        let data = self.folder.path().join("data");
        std::fs::create_dir_all(&data).unwrap();
        data
    }

    fn writer(&self, more: &[&str]) -> Child {
        let (brokers, data) = (self.cluster.bootstrap(), self.data().display().to_string());
        let [pool, control, group] = ["pool", "control", "writers"].map(|name| self.named(name));
        let mut all = vec!["write", "--brokers", &brokers, "--folder", &data, "--json"];
        all.extend(["--pool", &pool, "--control", &control, "--group", &group]);
        all.extend(["--service-id", "w", "--leeway", "2s"]);
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
            let decoded = fullcount_messages::decode(message.payload()).expect("decodes");
            if decoded.schema().identifier() == schema {
                return serde_json::to_value(&decoded).unwrap();
            }
        }
    }

    fn control(&self) -> Consumer {
        let consumer = Consumer::new(&ConsumerOptions::new(self.cluster.bootstrap())).unwrap();
        consumer.assign(&[(&self.named("control"), 0, Begin::Oldest)]).unwrap();
        consumer
    }
}

fn structure(topic: &str) -> String {
    let group = |name: &str, class: &str, children: Value| json!({"type": "group", "name": name, "attributes": {"NX_class": class}, "children": children});
    let module = |name: &str, source: &str| json!({"module": name, "config": {"topic": topic, "source": source, "dtype": "int64", "chunk_size": 4096}});
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

impl Facility {
    /// Events and a log entry that follow from their number.
    fn send_numbered(&self, sent: i32) {
        let time = now_ns();
        let event = |i: i32| sent * EVENTS + i;
        self.send(
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
        self.send(
            "data",
            &Message::F144(LogEntry144 { source_name: "log", timestamp: time, value }),
        );
    }
}

/// The writer ended well, and its file has what was sent.
fn every_event_is_there_once(facility: &Facility, writer: Child, sent: i32) {
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
fn a_writer_that_is_killed_again_and_again_writes_every_event_once() {
    let Some(facility) = Facility::new(&["pool", "control", "data"]) else { return };
    let control = facility.control();
    let mut writer = facility.writer(&[]);
    let structure = structure(&facility.named("data"));
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
            facility.send_numbered(sent);
            sent += 1;
        }
        facility.publisher.flush(PATIENCE).unwrap();
        // Killed in the middle of it; it has flushed a different part each time.
        if round % 3 == 1 {
            facility.wait_for(&control, "x5f2");
            writer.kill().unwrap();
            writer.wait().unwrap();
            writer = facility.writer(&["--files", "1"]);
        }
    }
    // The stop is sent while no writer runs, and events continue: they are after it.
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
    every_event_is_there_once(&facility, writer, sent);
}

/// One input of a run with two outputs: a file at once, and one by way of Kafka.
struct Input {
    /// Of its topic, source, files and job.
    name: &'static str,
    capture: String,
    detector: &'static str,
    geometry: Option<String>,
    pulse: &'static str,
    /// Events that it holds.
    events: u64,
}

/// Packets of two senders whose pulses overlap: they alternate, and one is half a pulse after the other.
fn two_senders(folder: &Path) -> String {
    let path = folder.join("two.pcap");
    let all: Vec<_> = (0..100).flat_map(|k| [(1, packet(k + 5)), (2, packet(k))]).collect();
    write_capture(&path, all.iter().map(|(sender, p)| (*sender, p.as_slice())));
    path.display().to_string()
}

/// Every pulse that has events, with (time after it, pixel) of each in the order of the file.
type Pulses = BTreeMap<u64, Vec<(i32, i32)>>;

/// The events of a bank as a file has them.
fn pulses(path: &Path, bank: &str) -> Pulses {
    let file = File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let group = file.group(&format!("/entry/instrument/{bank}/{bank}_events")).unwrap();
    let column = |name: &str| group.dataset(name).unwrap().read_raw::<i32>().unwrap();
    let (ids, offsets) = (column("event_id"), column("event_time_offset"));
    let index = group.dataset("event_index").unwrap().read_raw::<u64>().unwrap();
    let zeros = group.dataset("event_time_zero").unwrap().read_raw::<u64>().unwrap();
    let ends = index.iter().skip(1).copied().chain([ids.len() as u64]);
    let mut all = Pulses::new();
    for ((&zero, &first), end) in zeros.iter().zip(&index).zip(ends) {
        let events = (first as usize..end as usize).map(|i| (offsets[i], ids[i]));
        all.entry(zero).or_default().extend(events);
    }
    // A pulse without events is in the file of the sink only: no message says it.
    all.retain(|_, events| !events.is_empty());
    all
}

/// Datasets of the detector that are no events, with their numbers.
fn geometry(path: &Path, bank: &str) -> BTreeMap<String, Vec<f64>> {
    let file = File::open(path).unwrap();
    let detector = file.group(&format!("/entry/instrument/{bank}")).unwrap();
    let names = ["detector_number", "x_pixel_offset", "y_pixel_offset", "z_pixel_offset"];
    let more = ["transformations/distance", "pixel_shape/vertices", "pixel_shape/winding_order"];
    let each = |name: &&str| {
        let dataset = detector.dataset(name).ok()?;
        let shape = dataset.shape().into_iter().map(|n| n as f64);
        Some(((*name).to_owned(), shape.chain(dataset.read_raw::<f64>().unwrap()).collect()))
    };
    names.iter().chain(&more).filter_map(each).collect()
}

impl Facility {
    fn url(&self, topic: &str) -> String {
        format!("kafka://{}/{}", self.cluster.bootstrap(), self.named(topic))
    }

    /// Starts the run of an input, with a structure that `send` has printed.
    fn begin(&self, input: &Input, logs: &str, pool: &str) -> Service {
        let (folder, control) = (self.folder.path(), self.named("control"));
        let stream = self.named(&format!("{}_detector", input.name));
        let stream = format!("{stream}/{}", input.name);
        let mut print = vec!["send", "--to", logs, "--print-structure", "--events", &stream];
        print.extend(["--detector", input.detector]);
        print.extend(input.geometry.iter().flat_map(|path| ["--geometry", path]));
        let printed = say(&print);
        assert_eq!(printed.code, 0, "{}", printed.err);
        let structure = folder.join(format!("{}.json", input.name)).display().to_string();
        std::fs::write(&structure, &printed.out).unwrap();
        // The topic is there before the run: its first message makes it.
        let entry = LogEntry144 { source_name: "nobody", timestamp: 1, value: LogValue::Int(0) };
        self.send(&format!("{}_detector", input.name), &Message::F144(entry));
        self.publisher.flush(PATIENCE).unwrap();
        let file = format!("{}.nxs", input.name);
        let mut run = Service::start(
            &[
                &["send", "--to", pool, "--source", "run", "--structure", &structure][..],
                &["--file", &file, "--control", &control, "--job", input.name, "--json"],
                // The events of a capture are as old as the run's epoch says.
                &["--start", "2026-01-01T00:00:00Z"],
            ]
            .concat(),
        );
        run.wait_for("the start", |line| line.contains(" started: ").then_some(()));
        run
    }

    /// Takes an input into both outputs.
    fn take(&self, input: &Input) {
        let folder = self.folder.path();
        let source = format!("pcap:{}?flat-out", input.capture);
        let direct = folder.join(format!("{}-direct.nxs", input.name)).display().to_string();
        let (to, spool) = (
            self.url(&format!("{}_detector", input.name)),
            folder.join(input.name).display().to_string(),
        );
        let named = format!("output.kafka.source_name={}", input.name);
        let mut all = vec!["run", "--source", &source, "--detector", input.detector];
        all.extend(input.geometry.iter().flat_map(|path| ["--geometry", path]));
        all.extend(["--pulse", input.pulse, "--epoch", "2026-01-01T00:00:00Z"]);
        all.extend(["--nexus", &direct, "--kafka", &to, "--spool", &spool, "--set", &named]);
        all.extend(["--set", "output.nexus.source_distance_m=25", "--web", "off", "--json"]);
        all.extend(["--set", "output.kafka.drain=100s", "--set", "output.kafka.capacity=500"]);
        let said = say(&all);
        // Packets of the vectors are broken, or missing.
        assert!(matches!(said.code, 0 | 3), "{}: {}", input.name, said.err);
        let outputs = &said.summary()["outputs"];
        let of = |output: &str| outputs[output]["events"].as_u64();
        let both = (of("nexus"), of("kafka"));
        assert_eq!(both, (Some(input.events), Some(input.events)), "{}", input.name);
    }

    /// The file of the writer and the one of the `nexus` sink have the same events and geometry.
    fn files_are_equal(&self, input: &Input, python: Option<&Path>) {
        let folder = self.folder.path();
        let bank = input.detector;
        let written = self.data().join(format!("{}.nxs", input.name));
        let direct = folder.join(format!("{}-direct.nxs", input.name));
        for path in [&written, &direct] {
            let found = fullcount_nexus::check(path).unwrap();
            assert_eq!(found, [], "{}: docs/formats/nexus.md section 6", path.display());
        }
        let (by_kafka, at_once) = (pulses(&written, bank), pulses(&direct, bank));
        let events: usize = at_once.values().map(Vec::len).sum();
        assert_eq!(events as u64, input.events, "{}", input.name);
        assert!(by_kafka.keys().eq(at_once.keys()), "{}: other pulses", input.name);
        for (pulse, wanted) in &at_once {
            assert!(by_kafka[pulse] == *wanted, "{}: other events of {pulse}", input.name);
        }
        let (ours, theirs) = (geometry(&written, bank), geometry(&direct, bank));
        assert!(ours.keys().eq(theirs.keys()), "{}: {:?}", input.name, ours.keys());
        for (name, wanted) in &theirs {
            // Numbers that went through JSON may differ in their last digit.
            let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-12;
            let same = ours[name].len() == wanted.len() && ours[name].iter().zip(wanted).all(near);
            assert!(same, "{}: {name}", input.name);
        }
        if let Some(python) = python {
            python::run(python, "check_equal.py", &[&direct, &written].map(|p| p.as_path()), bank);
        }
    }
}

/// What the facility said while the runs lasted is in each file.
fn every_run_has_the_logs(facility: &Facility) {
    // 2 s of 100 rounds a second, or fewer if the machine is busy; all of them are within the run.
    let file = File::open(facility.data().join("sonde.nxs")).unwrap();
    let rows = |path: &str| file.dataset(path).unwrap().shape()[0];
    let motor = rows("/entry/sample/motor/value");
    assert!((20..=200).contains(&motor), "{motor}");
    assert_eq!(rows("/entry/sample/motor/time"), motor);
    assert_eq!(file.dataset("/entry/sample/field/value").unwrap().shape(), [motor, 3]);
    assert!(rows("/entry/instrument/chopper/top_dead_center/time") > 5);
    let other = File::open(facility.data().join("multigrid.nxs")).unwrap();
    let same = other.dataset("/entry/sample/motor/value").unwrap().read_raw::<i32>().unwrap();
    let these = file.dataset("/entry/sample/motor/value").unwrap().read_raw::<i32>().unwrap();
    assert_eq!(same, these, "each run has all of it");
}

/// A run of simulated logs with events of three inputs: each file of the writer holds event for event what the `nexus`
/// sink wrote of the same input. Equal are the pulses that have events, and of each the events (time after the pulse,
/// pixel) in their order. Different may be the rows of a pulse, since each file is cut into blocks by its own flushes;
/// and pulses without events are in the file of the sink only.
#[test]
fn a_simulated_run_becomes_a_file_with_the_events_of_the_nexus_sink() {
    let Some(facility) = Facility::new(&["pool", "control", "logs"]) else { return };
    let folder = facility.folder.path();
    let inputs = [
        Input {
            name: "sonde",
            capture: vector("sonde/sonde.pcap"),
            detector: "sonde",
            geometry: None,
            pulse: "grid(14Hz)",
            events: 467,
        },
        Input {
            name: "two",
            capture: two_senders(folder),
            detector: "sonde",
            geometry: None,
            pulse: "grid(1000Hz)",
            events: 20_000,
        },
        // Layers at different depths, pulses from the readouts.
        Input {
            name: "multigrid",
            capture: vector("multigrid/multigrid.pcap"),
            detector: "multigrid",
            geometry: Some(vector("multigrid/config/three_modules_mg24.json")),
            pulse: "data",
            events: 105,
        },
    ];
    let writer = facility.writer(&["--files", "3"]);
    let (logs, pool) = (facility.url("logs"), facility.url("pool"));
    let mut runs = vec![];
    for input in &inputs {
        runs.push(facility.begin(input, &logs, &pool));
    }
    let sent =
        say(&["send", "--to", &logs, "--source", "logs", "--rate", "400pps", "--duration", "2s"]);
    assert_eq!(sent.code, 0, "{}", sent.err);
    inputs.iter().for_each(|input| facility.take(input));
    // 6s4t, as Ctrl-C makes `send` send it.
    for run in runs {
        run.interrupt();
        let said = run.end();
        assert_eq!((said.code, &said.summary()["confirmed"]), (0, &2.into()), "{}", said.err);
    }
    let output = writer.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");

    let python = python::interpreter();
    for input in &inputs {
        facility.files_are_equal(input, python.as_deref());
    }
    every_run_has_the_logs(&facility);
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
        (
            &["write", "--brokers", "localhost", "--pool", "p", "--templates", "/nowhere/at/all"],
            "--templates /nowhere/at/all",
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
        (&["send", "--to", "kafka://localhost", "--source", "logs"], "write kafka://"),
        (&["send", "--to", "kafka://localhost/t", "--source", "run"], "--structure"),
        (
            &["send", "--to", "kafka://localhost/t", "--source", "logs", "--events", "a/b"],
            "--print",
        ),
        (&["send", "--to", "kafka://localhost/t", "--source", "logs", "--start", "1"], "--start"),
        (
            &[
                "send",
                "--to",
                "kafka://localhost/t",
                "--source",
                "run",
                "--structure",
                "Cargo.toml",
            ],
            "--file",
        ),
        (
            &["send", "--to", "kafka://localhost/t", "--print-structure", "--events", "topic"],
            "expected TOPIC/SOURCE",
        ),
        (
            &["send", "--to", "kafka://localhost/t", "--print-structure", "--detector", "sonde"],
            "--events",
        ),
        (
            &[
                "send",
                "--to",
                "kafka://localhost/t",
                "--print-structure",
                "--events",
                "a/b",
                "--detector",
                "sequence",
            ],
            "has no pixels",
        ),
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
