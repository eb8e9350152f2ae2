//! Messages of `fullcount write` with a real Kafka, read by `ess-streaming-data-types` as control systems do; and
//! orders that try to crash it.
//!
//! Needs Java and the jars that `cargo xtask test` has fetched, and for the package a Python with
//! `tests/python/requirements.txt`; without them it is skipped with a message, and fails with CI=true.

use crate::python;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::broker::{Shared, fresh};
use crate::service::{fullcount, say};
use fullcount_kafka::{Begin, Consumer, ConsumerOptions, KafkaSettings, Polled, Publisher};
use fullcount_messages::{LogEntry144, LogValue, Message, RunStart, RunStop};
use serde_json::{Value, json};

/// Longest wait for anything that should take seconds.
const PATIENCE: Duration = Duration::from_secs(120);

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

struct Facility {
    cluster: Shared,
    publisher: Publisher,
    folder: tempfile::TempDir,
    /// What makes its names on the broker its own.
    mark: String,
}

impl Facility {
    fn new() -> Option<Facility> {
        let cluster = Shared::new()?;
        let folder = tempfile::tempdir().expect("a folder");
        let publisher =
            Publisher::new(&cluster.bootstrap(), &KafkaSettings::default(), |_| ()).unwrap();
        std::fs::create_dir(folder.path().join("data")).unwrap();
        let facility = Facility { cluster, publisher, folder, mark: fresh("") };
        for topic in ["pool", "control", "own", "data"] {
            // The first message creates the topic; no run reads this one.
            let value = LogValue::Int(0);
            let entry = LogEntry144 { source_name: "nobody", timestamp: 1, value };
            facility.send(topic, &Message::F144(entry).encode());
        }
        Some(facility)
    }

    /// What a topic or a group is called on the broker.
    fn named(&self, name: &str) -> String {
        format!("{name}{}", self.mark)
    }

    fn send(&self, topic: &str, value: &[u8]) {
        self.publisher.publish(&self.named(topic), value, now_ms() as i64, PATIENCE).unwrap();
        self.publisher.flush(PATIENCE).unwrap();
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A writer of so much memory at most, KiB of addresses.
    fn writer(&self, limit: Option<u64>, more: &[&str]) -> Child {
        let (brokers, data) = (self.cluster.bootstrap(), self.data().display().to_string());
        let [pool, control, group] = ["pool", "control", "writers"].map(|name| self.named(name));
        let mut all = vec!["write", "--brokers", &brokers, "--folder", &data, "--service-id", "w"];
        all.extend(["--pool", &pool, "--control", &control, "--group", &group]);
        all.extend(["--leeway", "1s", "--heartbeat", "300ms", "--flush", "100ms"]);
        all.extend(more);
        let mut command = match limit {
            None => fullcount(&all),
            Some(limit) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("ulimit -v {limit}; ulimit -c 0; exec \"$0\" \"$@\"")]);
                shell.arg(env!("CARGO_BIN_EXE_fullcount")).args(&all).stdin(Stdio::null());
                shell
            }
        };
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn reader(&self, topic: &str) -> Consumer {
        let consumer = Consumer::new(&ConsumerOptions::new(self.cluster.bootstrap())).unwrap();
        consumer.assign(&[(&self.named(topic), 0, Begin::Oldest)]).unwrap();
        consumer
    }
}

/// What a control topic says, each message kept.
struct Ear {
    consumer: Consumer,
    heard: Vec<Vec<u8>>,
}

impl Ear {
    /// The next message of this schema of which `wanted` is true.
    fn wait(&mut self, schema: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < end, "no such {schema} within {PATIENCE:?}");
            let polled = self.consumer.poll(Duration::from_millis(200)).expect("readable");
            let Polled::Message(message) = polled else { continue };
            self.heard.push(message.payload().to_vec());
            let Ok(decoded) = fullcount_messages::decode(message.payload()) else { continue };
            let value = serde_json::to_value(&decoded).unwrap();
            if decoded.schema().identifier() == schema && wanted(&value) {
                return value;
            }
        }
    }

    fn answer(&mut self, job: &str, status: u16, words: &str) -> Value {
        let answer = self.wait("answ", |m| m["job_id"] == job);
        assert_eq!(answer["status_code"], status, "{answer}");
        assert!(answer["message"].as_str().expect("words").contains(words), "{words}: {answer}");
        assert!(answer["command_id"].is_string(), "{answer}");
        answer
    }
}

fn structure(config: &Value) -> String {
    let module = json!({"module": "da00", "config": config});
    json!({"children": [{"type": "group", "name": "entry", "attributes": {"NX_class": "NXentry"}, "children": [module]}]})
        .to_string()
}

fn plain(topic: &str) -> Value {
    json!({"topic": topic, "source": "s", "variables": [{"name": "signal", "data_type": "int8", "shape": [1]}]})
}

/// Constants of this many doubles each.
fn large(topic: &str, count: usize, size: u64) -> String {
    let mut config = plain(topic);
    let one = |i: usize| json!({"name": format!("c{i}"), "data_type": "double", "data": {"first": 1, "last": 1, "size": size}});
    config["constants"] = (0..count).map(one).collect();
    structure(&config)
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

fn stop(job: &str, at_ms: u64, command: Option<&str>) -> Vec<u8> {
    let (run_name, service_id) = (None, None);
    let (job_id, command_id) = (Some(job), command);
    Message::S6s4t(RunStop { stop_time: at_ms, run_name, job_id, service_id, command_id }).encode()
}

fn begin(start: RunStart<'_>) -> Vec<u8> {
    Message::Pl72(start).encode()
}

fn decoded_by_the_package(folder: &Path, messages: &[Vec<u8>]) -> Option<Value> {
    let python = python::interpreter()?;
    std::fs::create_dir_all(folder).unwrap();
    for (n, message) in messages.iter().enumerate() {
        std::fs::write(folder.join(format!("{n:04}.bin")), message).unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/python/check_answers.py");
    let output = Command::new(python).arg(script).arg(folder).output().expect("starts");
    let (text, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}\n{errors}");
    Some(serde_json::from_str(&text).unwrap())
}

fn interrupt(writer: &Child) {
    let asked = Command::new("kill").args(["-INT", &writer.id().to_string()]).status().unwrap();
    assert!(asked.success());
}

fn end(mut writer: Child) {
    interrupt(&writer);
    writer.wait().unwrap();
}

#[test]
fn a_control_system_in_python_can_read_every_answer() {
    let Some(facility) = Facility::new() else { return };
    let templates = facility.folder.path().join("templates");
    std::fs::create_dir(&templates).unwrap();
    std::fs::create_dir_all(facility.data().join("ess/x")).unwrap();
    let writer = facility.writer(None, &["--templates", &templates.display().to_string()]);
    let mut ear = Ear { consumer: facility.reader("control"), heard: Vec::new() };
    let mut own = Ear { consumer: facility.reader("own"), heard: Vec::new() };
    ear.wait("x5f2", |m| m["status_json"].as_str().is_some_and(|s| s.contains("idle")));
    let (data, own_control) = (facility.named("data"), facility.named("own"));
    let good = structure(&plain(&data));
    orders_are_answered(&facility, &mut ear, &good);
    // Refused, and heard where the run would have been controlled and where the writer listens.
    let order = RunStart { control_topic: Some(&own_control), ..start("two", "../t.nxs", &good) };
    facility.send("pool", &begin(order));
    own.answer("two", 400, "leads out");
    ear.answer("two", 400, "leads out");
    templates_stand_for_structures(&facility, &templates, (&mut ear, &mut own), &good);
    // A run with a control topic of its own: who follows it there sees its start, once.
    let order =
        begin(RunStart { control_topic: Some(&own_control), ..start("own", "own.nxs", &good) });
    facility.send("pool", &order);
    own.wait("pl72", |m| m["job_id"] == "own");
    assert_eq!(own.heard.last(), Some(&order), "the same bytes");
    own.answer("own", 201, "job started");
    facility.send("own", &stop("own", 0, Some("now")));
    own.answer("own", 201, "stop time set");
    let done = own.wait("wrdn", |m| m["job_id"] == "own");
    assert_eq!(
        (&done["file_name"], &done["error_encountered"]),
        (&"own.nxs".into(), &false.into())
    );
    assert_eq!(own.heard.iter().filter(|m| **m == order).count(), 1);
    a_control_topic_is_made_by_the_broker(&facility, &good);
    // A run that the writer itself ends.
    facility.send("pool", &begin(start("cut", "cut.nxs", &good)));
    ear.answer("cut", 201, "job started");
    interrupt(&writer);
    let done = ear.wait("wrdn", |m| m["job_id"] == "cut");
    assert_eq!(done["error_encountered"], true);
    let said = writer.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&said.stderr);
    assert!(!said.lines().any(|line| line.starts_with("b.nxs")), "{said}");
    our_own_orders_are_sent(&facility, &good);
    let mut all: Vec<Vec<u8>> = [ear.heard, own.heard].concat();
    // Orders of this test leave out what may be left out; those of `send` are the last two of the pool.
    all.retain(|m| m.get(4..8) != Some(b"6s4t"));
    for (topic, last) in [("pool", 2), ("data", 60)] {
        let consumer = facility.reader(topic);
        let (_, end) = consumer.offsets(&facility.named(topic), 0).unwrap();
        let mut messages = Vec::new();
        while (messages.len() as i64) < end {
            if let Polled::Message(message) = consumer.poll(PATIENCE).expect("readable") {
                messages.push(message.payload().to_vec());
            }
        }
        all.extend_from_slice(&messages[messages.len() - last..]);
    }
    let Some(counts) = decoded_by_the_package(&facility.folder.path().join("heard"), &all) else {
        return;
    };
    println!("{counts}");
    for (schema, least) in
        [("answ", 17), ("wrdn", 3), ("x5f2", 2), ("pl72", 1), ("6s4t", 1), ("f144", 20)]
    {
        assert!(counts[schema].as_u64() >= Some(least), "{schema}: {counts}");
    }
}

/// A run is controlled on a topic that is not there before its start, where the broker makes topics.
fn a_control_topic_is_made_by_the_broker(facility: &Facility, good: &str) {
    let made = facility.named("made");
    let order = RunStart { control_topic: Some(&made), ..start("made", "made.nxs", good) };
    facility.send("pool", &begin(order));
    let (asking, begun) = (facility.reader("control"), Instant::now());
    while asking.topic(&made).expect("the broker answers").is_none_or(|n| n == 0) {
        assert!(begun.elapsed() < PATIENCE, "{made} is not made");
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut ear = Ear { consumer: facility.reader("made"), heard: Vec::new() };
    ear.answer("made", 201, "job started");
    facility.send("made", &stop("made", 0, Some("end")));
    ear.answer("made", 201, "stop time set");
    ear.wait("wrdn", |m| m["job_id"] == "made" && m["error_encountered"] == false);
}

/// Orders that are refused, and those of one run from its start to its complete file.
fn orders_are_answered(facility: &Facility, ear: &mut Ear, good: &str) {
    let fatal = large(&facility.named("data"), 1, 1 << 28);
    let cut_short = format!("order at {}/0/", facility.named("pool"));
    assert!(begin(start("fatal", "f.nxs", &fatal)).len() < 640, "some hundred bytes");
    for (order, job, status, words) in [
        (begin(start("outside", "../o.nxs", good)), "outside", 400, "leads out"),
        (begin(start("fatal", "f.nxs", &fatal)), "fatal", 400, "above the limit of 67108864 bytes"),
        (begin(start("none", "n.nxs", "")), "none", 400, "nexus_structure: is missing"),
        (begin(start("lines", "a\nb.nxs", good)), "lines", 400, "control characters"),
        (begin(start("run", "run.nxs", good)), "run", 201, "job started"),
        (begin(start("run", "other.nxs", good)), "run", 400, "runs here"),
        (begin(start("run", "x.nxs", good))[..80].to_vec(), "", 400, &cut_short),
    ] {
        facility.send("pool", &order);
        ear.answer(job, status, words);
    }
    ear.wait("x5f2", |m| m["status_json"].as_str().is_some_and(|s| s.contains("writing")));
    // A stop time; one in the past; now, by a system that gives its orders no id.
    facility.send("control", &stop("run", now_ms() + 3_600_000, Some("later")));
    ear.answer("run", 201, "stop time set");
    facility.send("control", &stop("run", 1000, Some("past")));
    ear.answer("run", 400, "not after start_time");
    facility.send("control", &stop("run", 0, None));
    let answer = ear.answer("run", 201, "stop time set");
    assert_eq!(answer["command_id"], "");
    let done = ear.wait("wrdn", |m| m["job_id"] == "run");
    assert_eq!(
        (&done["error_encountered"], &done["message"]),
        (&false.into(), &"the file is complete".into())
    );
}

/// As NICOS has it: an absolute name, an instrument with a template, and what is odd is a warning.
fn templates_stand_for_structures(
    facility: &Facility,
    templates: &Path,
    (ear, own): (&mut Ear, &mut Ear),
    good: &str,
) {
    let own_control = facility.named("own");
    let mut odd: Value = serde_json::from_str(good).unwrap();
    let link = json!({"module": "link", "config": {"name": "speed", "source": "../chopper/speed"}});
    odd["children"][0]["children"].as_array_mut().unwrap().push(link);
    std::fs::write(templates.join("loki.json"), odd.to_string()).unwrap();
    let of = |job, instrument| RunStart {
        instrument_name: Some(instrument),
        filename: Some("/ess/x/loki.nxs"),
        control_topic: Some(&own_control),
        ..start(job, "", "")
    };
    facility.send("pool", &begin(of("dream", "dream")));
    ear.answer("dream", 400, "\"dream\" has no template");
    own.answer("dream", 400, "templates has loki");
    facility.send("pool", &begin(of("loki", "loki")));
    own.answer("loki", 201, "job started; 1 warning: nexus_structure.children[0].children[1]");
    own.wait("x5f2", |m| m["status_json"].as_str().is_some_and(|s| s.contains("left out")));
    facility.send("own", &stop("loki", 0, Some("end")));
    own.answer("loki", 201, "stop time set");
    own.wait("wrdn", |m| m["job_id"] == "loki" && m["error_encountered"] == false);
    assert!(facility.data().join("ess/x/loki.nxs").exists());
}

/// What `fullcount send` gives to Kafka.
fn our_own_orders_are_sent(facility: &Facility, good: &str) {
    let brokers = facility.cluster.bootstrap();
    std::fs::write(facility.folder.path().join("run.json"), good).unwrap();
    let json = facility.folder.path().join("run.json").display().to_string();
    let url = |topic: &str| format!("kafka://{brokers}/{}", facility.named(topic));
    let (logs, pool) = (url("data"), url("pool"));
    let sent =
        say(&["send", "--to", &logs, "--source", "logs", "--count", "60", "--rate", "1000pps"]);
    assert_eq!(sent.code, 0, "{}", sent.err);
    let run = ["--source", "run", "--structure", &json, "--file", "sent.nxs", "--duration", "10ms"];
    let sent = say(&[&["send", "--to", &pool][..], &run].concat());
    assert_eq!(sent.code, 0, "{}", sent.err);
}

#[test]
fn an_order_that_takes_more_memory_than_the_host_has_ends_the_writer_twice_at_most() {
    let Some(facility) = Facility::new() else { return };
    // What a writer without work has of addresses, and room for a few constants more.
    let group =
        ["--kafka-set", "session.timeout.ms=3000", "--kafka-set", "heartbeat.interval.ms=300"];
    let idle = facility.writer(None, &group);
    let mut ear = Ear { consumer: facility.reader("control"), heard: Vec::new() };
    ear.wait("x5f2", |m| m["status_json"].as_str().is_some_and(|s| s.contains("idle")));
    let status = std::fs::read_to_string(format!("/proc/{}/status", idle.id())).unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).expect("VmSize");
    let size: u64 = size.trim().trim_end_matches(" kB").parse().expect("a number of kB");
    end(idle);
    let limit = Some(size + (384 << 10));
    let more = [&group[..], &["--job-memory", "64GiB"]].concat();
    // 2.5 GiB of constants that the operator allows, and a host that does not have them.
    let order = large(&facility.named("data"), 40, 8 << 20);
    facility.send("pool", &begin(start("poison", "p.nxs", &order)));
    for round in 0..2 {
        let mut writer = facility.writer(limit, &more);
        let begun = Instant::now();
        let ended = loop {
            if let Some(status) = writer.try_wait().unwrap() {
                break status;
            }
            if begun.elapsed() > PATIENCE {
                writer.kill().unwrap();
                panic!("round {round}: the order does not end the writer");
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        assert!(!ended.success(), "round {round}: {ended}");
    }
    let mut writer = facility.writer(limit, &more);
    let answer = ear.answer("poison", 400, "ended the writer twice");
    assert_eq!(answer["outcome"], "Failure");
    // It lives on, for the runs of others.
    facility.send(
        "pool",
        &begin(start("next", "next.nxs", &structure(&plain(&facility.named("data"))))),
    );
    ear.answer("next", 201, "job started");
    assert!(writer.try_wait().unwrap().is_none(), "the writer lives");
    end(writer);
}
