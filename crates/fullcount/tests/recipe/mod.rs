//! The recipe of `docs/write.md` over a real broker: topics, a structure printed by `send`, a writer, its answers, and
//! what is on a topic of events.
//!
//! Needs Java and the jars that `cargo xtask test` has fetched; without them it is skipped with a message, and fails
//! with CI=true.

#![allow(dead_code)] // each scenario file uses its own part

use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fullcount_kafka::{Begin, Consumer, ConsumerOptions, KafkaSettings, Polled, Publisher};
use fullcount_messages::{LogEntry144, LogValue, Message};
use serde_json::Value;

use crate::broker::{PATIENCE, Shared, fresh};
use crate::service::{Service, fullcount, say};

/// ns since 1970.
pub fn now_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as i64
}

/// A broker, and a folder for everything.
pub struct Facility {
    pub cluster: Shared,
    pub folder: tempfile::TempDir,
    publisher: Publisher,
    /// What makes its names its own.
    mark: String,
}

/// A message of events as the file writer sees it.
#[derive(Debug, Clone)]
pub struct Taken {
    /// Time of its first pulse, ns since 1970, by which the writer selects.
    pub time: i64,
    /// (time, ns since 1970; pixel) of each event.
    pub events: Vec<(i64, i32)>,
}

impl Facility {
    /// A broker with these topics, or nothing if none is available. Topics have longer names on the broker, because
    /// other tests share it.
    pub fn new(topics: &[&str]) -> Option<Facility> {
        let cluster = Shared::new()?;
        let folder = tempfile::tempdir().expect("a folder");
        let publisher =
            Publisher::new(&cluster.bootstrap(), &KafkaSettings::default(), |_| ()).unwrap();
        let facility = Facility { cluster, folder, publisher, mark: fresh("") };
        topics.iter().for_each(|topic| facility.topic(topic));
        Some(facility)
    }

    /// What this topic is called on the broker.
    pub fn named(&self, topic: &str) -> String {
        format!("{topic}{}", self.mark)
    }

    /// Creates a topic by a first message, which no run reads.
    pub fn topic(&self, topic: &str) {
        let value = LogValue::Int(0);
        let entry = LogEntry144 { source_name: "nobody", timestamp: 1, value };
        let value = Message::F144(entry).encode();
        self.publisher.publish(&self.named(topic), &value, now_ns() / 1_000_000, PATIENCE).unwrap();
        self.publisher.flush(PATIENCE).unwrap();
    }

    /// Waits until events have come to a topic that Kafka took at this time or later, ns since 1970.
    pub fn wait_for_events(&self, topic: &str, since_ns: i64) {
        let consumer = self.consumer(topic);
        let end = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < end, "no events on {topic} within {PATIENCE:?}");
            let polled = consumer.poll(Duration::from_millis(200)).expect("readable");
            let Polled::Message(message) = polled else { continue };
            let came = message.timestamp_ms().expect("a timestamp") * 1_000_000;
            if came >= since_ns && message.payload().get(4..8) == Some(b"ev44") {
                return;
            }
        }
    }

    pub fn url(&self, topic: &str) -> String {
        format!("kafka://{}/{}", self.cluster.bootstrap(), self.named(topic))
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Where files are written.
    pub fn data(&self) -> PathBuf {
        let data = self.folder.path().join("data");
        std::fs::create_dir_all(&data).unwrap();
        data
    }

    pub fn writer(&self, more: &[&str]) -> Child {
        let (brokers, data) = (self.cluster.bootstrap(), self.data().display().to_string());
        let [pool, control, group] = ["pool", "control", "writers"].map(|name| self.named(name));
        let mut all = vec!["write", "--brokers", &brokers, "--folder", &data, "--json"];
        all.extend(["--pool", &pool, "--control", &control, "--group", &group]);
        all.extend(["--service-id", "w"]);
        all.extend(["--leeway", "3s", "--flush", "200ms", "--heartbeat", "500ms"]);
        all.extend(more);
        fullcount(&all).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The structure with a detector's events, as `send` prints it for the options of `run`; a file.
    pub fn structure(&self, name: &str, detector: &[&str]) -> String {
        let topic = self.named(&format!("{name}_detector"));
        let (logs, stream) = (self.url("logs"), format!("{topic}/{name}"));
        let mut print = vec!["send", "--to", &logs, "--print-structure", "--events", &stream];
        print.extend(detector);
        let printed = say(&print);
        assert_eq!(printed.code, 0, "{}", printed.err);
        let path = self.path(&format!("{name}.json"));
        std::fs::write(&path, &printed.out).unwrap();
        path
    }

    /// `send --source run`, once the writer has taken the run.
    pub fn run(&self, name: &str, structure: &str, more: &[&str]) -> Service {
        let (pool, file) = (self.url("pool"), format!("{name}.nxs"));
        let control = self.named("control");
        let mut all = vec!["send", "--to", &pool, "--source", "run", "--structure", structure];
        all.extend(["--file", &file, "--control", &control, "--job", name, "--json"]);
        all.extend(more);
        let mut run = Service::start(&all);
        run.wait_for("the start", |line| line.contains(" started: ").then_some(()));
        run
    }

    /// All messages on the control topic.
    pub fn control(&self) -> Consumer {
        self.consumer("control")
    }

    fn consumer(&self, topic: &str) -> Consumer {
        let consumer = Consumer::new(&ConsumerOptions::new(self.cluster.bootstrap())).unwrap();
        consumer.assign(&[(&self.named(topic), 0, Begin::Oldest)]).unwrap();
        consumer
    }

    /// The messages of events of a topic, from its beginning to its end as it is now.
    pub fn taken(&self, topic: &str) -> Vec<Taken> {
        let consumer = self.consumer(topic);
        let (_, high) = consumer.offsets(&self.named(topic), 0).expect("the broker answers");
        let (mut all, mut next, end) = (Vec::new(), 0, Instant::now() + PATIENCE);
        while next < high {
            assert!(Instant::now() < end, "{topic}: {next} of {high} within {PATIENCE:?}");
            let polled = consumer.poll(Duration::from_millis(200)).expect("readable");
            let Polled::Message(message) = polled else { continue };
            next = message.offset() + 1;
            let Ok(Message::Ev44(m)) = fullcount_messages::decode(message.payload()) else {
                continue;
            };
            let (offsets, pixels) = (m.time_of_flight.as_deref(), m.pixel_id.as_deref());
            let (offsets, pixels) = (offsets.unwrap_or_default(), pixels.unwrap_or_default());
            let ends = m.reference_time_index.iter().skip(1).map(|&i| i as usize);
            let mut events = Vec::with_capacity(offsets.len());
            let pulses = m.reference_time.iter().zip(m.reference_time_index.iter());
            for ((&time, &first), end) in pulses.zip(ends.chain([offsets.len()])) {
                let each = first as usize..end;
                events.extend(each.map(|i| (time + i64::from(offsets[i]), pixels[i])));
            }
            all.push(Taken { time: m.reference_time[0], events });
        }
        all
    }
}

/// The next message of this schema that `fits`.
pub fn wait_for(consumer: &Consumer, schema: &str, fits: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < end, "no {schema} within {PATIENCE:?}");
        let polled = consumer.poll(Duration::from_millis(200)).expect("readable");
        let Polled::Message(message) = polled else { continue };
        let Ok(decoded) = fullcount_messages::decode(message.payload()) else { continue };
        if decoded.schema().identifier() != schema {
            continue;
        }
        let value = serde_json::to_value(&decoded).unwrap();
        if fits(&value) {
            return value;
        }
    }
}

/// JSON text in a field of a message.
pub fn json_in(message: &Value, field: &str) -> Value {
    serde_json::from_str(message[field].as_str().expect("a text")).expect("JSON")
}
