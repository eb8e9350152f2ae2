//! The readout unit and a real Kafka: records on a topic are those of the file, byte by byte and in order, also of a run whose
//! broker comes later. Source: `docs/fragments.md`, "On a topic".

use std::time::{Duration, Instant};

use fullcount_kafka::{Begin, Consumer, ConsumerOptions, Polled};

use crate::broker::{self, fresh};
use crate::service::{PATIENCE, Said, Service, say};

/// So many events of 16 sources into a file and onto a topic.
fn unit(brokers: &str, topic: &str, folder: &std::path::Path, file: &str, drain: &str) -> Said {
    let records = folder.join(file).display().to_string();
    let keys = [
        "detector.sources=16".to_owned(),
        format!("output.merged.brokers={brokers}"),
        format!("output.merged.topic={topic}"),
        format!("output.merged.spool={}", folder.join("spool").display()),
        format!("output.merged.drain={drain}"),
    ];
    let mut words = vec!["run", "--source", "tcp://127.0.0.1:0?until=closed", "--json"];
    words.extend(["--detector", "fragments", "--web", "off", "--records", &records]);
    keys.iter().for_each(|key| words.extend(["--set", key]));
    let mut unit = Service::start(&words);
    let url = unit.wait_for("the socket", |l| {
        Some(l.strip_prefix("listening on ")?.split(',').next()?.to_owned())
    });
    let sent = say(&["send", "--to", &url, "--source", "fragments", "--count", "3200"]);
    assert_eq!(sent.code, 0, "{}", sent.err);
    assert!(unit.child.ended(PATIENCE).expect("a child"), "it goes on: {:?}", unit.seen());
    unit.end()
}

/// Reads the topic from its beginning until these are enough.
fn read(consumer: &Consumer, topic: &str, enough: impl Fn(&[Vec<u8>]) -> bool) -> Vec<Vec<u8>> {
    consumer.assign(&[(topic, 0, Begin::Oldest)]).expect("assigned");
    let (mut all, begun) = (Vec::new(), Instant::now());
    while !enough(&all) {
        assert!(begun.elapsed() < PATIENCE, "{} messages", all.len());
        let polled = consumer.poll(Duration::from_millis(200)).expect("readable");
        if let Polled::Message(message) = polled {
            all.push(message.payload().to_vec());
        }
    }
    all
}

fn consumer(brokers: &str) -> Consumer {
    Consumer::new(&ConsumerOptions::new(brokers)).expect("settings")
}

/// Values of the topic's messages in order, up to the one with which they are enough; it may have more.
pub fn some_values(
    brokers: &str,
    topic: &str,
    enough: impl Fn(&[Vec<u8>]) -> bool,
) -> Vec<Vec<u8>> {
    read(&consumer(brokers), topic, enough)
}

/// Values of all messages of the topic, in order.
fn values(brokers: &str, topic: &str, count: usize) -> Vec<Vec<u8>> {
    let consumer = consumer(brokers);
    let all = read(&consumer, topic, |all| all.len() >= count);
    let more = consumer.poll(Duration::from_millis(300)).expect("readable");
    assert!(!matches!(more, Polled::Message(_)), "a message too many");
    all
}

#[test]
fn records_on_a_topic_are_those_of_the_file() {
    let Some(shared) = broker::Shared::new() else { return };
    let topic = fresh("records");
    let folder = tempfile::tempdir().expect("a folder");
    // Nobody takes them yet: they wait in the spool.
    let said = unit("127.0.0.1:1", &topic, folder.path(), "first.rec", "100ms");
    let counts =
        ["sink.merged.in", "sink.merged.events", "sink.merged.queued"].map(|c| said.counter(c));
    assert_eq!((counts, &said.summary()["balance"]), ([200, 0, 200], &0.into()), "{}", said.err);
    let said = unit(&shared.bootstrap(), &topic, folder.path(), "second.rec", "60s");
    assert_eq!((said.code, &said.summary()["balance"]), (0, &0.into()), "{}", said.err);
    let counts = ["in", "recovered", "events", "queued"];
    let counts = counts.map(|c| said.counter(&format!("sink.merged.{c}")));
    assert_eq!(counts, [200, 200, 400, 0], "{}", said.err);
    let mut written = Vec::new();
    for file in ["first.rec", "second.rec"] {
        written.extend_from_slice(&std::fs::read(folder.path().join(file)).expect("a file")[8..]);
    }
    let on_topic = values(&shared.bootstrap(), &topic, 400).concat();
    assert!(on_topic == written, "{} and {} bytes", on_topic.len(), written.len());
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_opened() {
    let run = ["run", "--source", "udp://127.0.0.1:0", "--web", "off", "--print-config"];
    let merged = |set: &str| format!("output.merged.{set}");
    let (brokers, spool) = (merged("brokers=b"), merged("spool=s"));
    let all = [&run[..], &["--set", &brokers, "--set", &spool]].concat();
    for (more, part) in [
        (["--detector", "sonde", "--set", "output.merged.topic=t"], "gives no records"),
        (["--detector", "fragments", "--set", "output.merged.topic=a b"], "a b"),
        (["--detector", "fragments", "--set", "output.merged.spool_size=1MiB"], "16 MiB"),
        (
            ["--detector", "fragments", "--set", "output.merged.options={ \"no.such\" = 1 }"],
            "no.such",
        ),
    ] {
        let said = say(&[&all[..], &more].concat());
        assert!(said.code == 2 && said.err.contains(part), "{part}: {} {}", said.code, said.err);
    }
}
