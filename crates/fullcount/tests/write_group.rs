//! Several `fullcount write` on one pool: an order goes to a writer that has room, also from one that came back full,
//! a stop is answered by the writer that it is for, and answers that were never sent come after a kill.
//!
//! Against librdkafka's own mock of a broker, which other processes can reach. It has no Kafka time, so no data is
//! read.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::service::{PATIENCE, Service, say};
use fullcount_kafka::{Begin, Consumer, ConsumerOptions, KafkaSettings, Polled, Publisher};
use fullcount_messages::{Message, RunStart, RunStop};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use serde_json::{Value, json};

fn writer(brokers: &str, folder: &Path, id: &str) -> Service {
    let folder = folder.display().to_string();
    let all = [
        &["write", "--brokers", brokers, "--folder", &folder, "--pool", "pool"][..],
        &["--control", "control", "--service-id", id, "--jobs", "1", "--heartbeat", "1s"],
        &["--kafka-set", "session.timeout.ms=3000", "--kafka-set", "heartbeat.interval.ms=300"],
    ];
    Service::start(&all.concat())
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

struct Facility {
    cluster: MockCluster<'static, DefaultProducerContext>,
    publisher: Publisher,
    control: Consumer,
}

impl Facility {
    fn send(&self, topic: &str, message: &Message<'_>) {
        let value = message.encode();
        self.publisher.publish(topic, &value, now_ms() as i64, PATIENCE).unwrap();
        self.publisher.flush(PATIENCE).unwrap();
    }

    fn start(&self, job: &str) {
        self.start_on("pool", job);
    }

    fn start_on(&self, topic: &str, job: &str) {
        let group = json!({"type": "group", "name": "entry", "children": [],
            "attributes": {"NX_class": "NXentry"}});
        let structure = json!({"children": [group]}).to_string();
        self.send(
            topic,
            &Message::Pl72(RunStart {
                start_time: 0,
                stop_time: 0,
                run_name: None,
                instrument_name: None,
                nexus_structure: Some(&structure),
                job_id: Some(job),
                broker: None,
                service_id: None,
                filename: Some(&format!("{job}.nxs")),
                n_periods: 1,
                detector_spectrum_map: None,
                metadata: None,
                control_topic: None,
            }),
        );
    }

    fn stop(&self, job: &str) {
        let (stop_time, run_name, service_id) = (0, None, None);
        let (job_id, command_id) = (Some(job), Some("stop"));
        self.send(
            "control",
            &Message::S6s4t(RunStop { stop_time, run_name, job_id, service_id, command_id }),
        );
    }

    /// The next message of this schema on the control topic.
    fn next(&self, schema: &str, what: &str) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < end, "{what}: no {schema} within {PATIENCE:?}");
            let polled = self.control.poll(Duration::from_millis(100)).expect("readable");
            let Polled::Message(message) = polled else { continue };
            let decoded = fullcount_messages::decode(message.payload()).expect("decodes");
            if decoded.schema().identifier() == schema {
                return serde_json::to_value(&decoded).unwrap();
            }
        }
    }

    /// Who took the job.
    fn taken(&self, job: &str) -> String {
        let answer = self.next("answ", job);
        assert_eq!(
            (&answer["job_id"], &answer["status_code"]),
            (&job.into(), &201.into()),
            "{answer}"
        );
        answer["service_id"].as_str().unwrap().to_owned()
    }
}

/// A mock with both topics, and what listens to the second.
fn facility() -> Facility {
    let cluster = MockCluster::new(1).expect("a mock");
    for topic in ["pool", "control"] {
        cluster.create_topic(topic, 1, 1).expect("a topic");
    }
    let brokers = cluster.bootstrap_servers();
    let control = Consumer::new(&ConsumerOptions::new(&brokers)).unwrap();
    control.assign(&[("control", 0, Begin::Oldest)]).unwrap();
    let publisher = Publisher::new(&brokers, &KafkaSettings::default(), |_| ()).unwrap();
    Facility { cluster, publisher, control }
}

#[test]
fn a_pool_that_lets_nobody_in_is_said_and_tried_again_and_runs_go_on() {
    let facility = facility();
    let brokers = facility.cluster.bootstrap_servers();
    let refused = RDKafkaRespErr::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED;
    facility.cluster.request_errors(RDKafkaApiKey::JoinGroup, &[refused; 1000]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display().to_string();
    let mut writer = Service::start(&[
        "write",
        "--brokers",
        &brokers,
        "--folder",
        &path,
        "--pool",
        "pool",
        "--control",
        "control",
        "--service-id",
        "w",
        "--heartbeat",
        "1s",
        "--json",
    ]);
    let said = "Group authorization failed";
    writer.wait_for("why", |line| {
        (line.contains(said) && line.contains("tried again")).then_some(())
    });
    // Orders on the control topic are obeyed, and their runs written.
    facility.start_on("control", "a");
    assert_eq!(facility.taken("a"), "w");
    facility.stop("a");
    let done = facility.next("wrdn", "the end of a");
    assert_eq!(
        (&done["job_id"], &done["error_encountered"]),
        (&"a".into(), &false.into()),
        "{done}"
    );
    facility.start("b");
    facility.cluster.clear_request_errors(RDKafkaApiKey::JoinGroup);
    assert_eq!(facility.taken("b"), "w", "once it is let in");
    writer.interrupt();
    let ended = writer.end();
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert_eq!(ended.err.matches(said).count(), 1, "said once: {}", ended.err);
}

#[test]
fn orders_go_to_a_writer_with_room_and_stops_are_answered_by_their_own() {
    let facility = facility();
    let brokers = facility.cluster.bootstrap_servers();
    let folder = tempfile::tempdir().unwrap();
    let mut first = writer(&brokers, folder.path(), "w1");
    facility.next("x5f2", "w1 listens");
    facility.start("a");
    assert_eq!(facility.taken("a"), "w1");
    // The only partition of the pool was the first's, which has enough now.
    let _second = writer(&brokers, folder.path(), "w2");
    facility.start("b");
    assert_eq!(facility.taken("b"), "w2");
    // The first comes back with all that it may have: it must not refuse what others could take.
    first.child.kill();
    drop(first);
    let _first = writer(&brokers, folder.path(), "w1");
    facility.start("c");
    let _third = writer(&brokers, folder.path(), "w3");
    assert_eq!(facility.taken("c"), "w3");
    // All three listen to one control topic; one of them has the job.
    facility.stop("b");
    let answer = facility.next("answ", "the stop of b");
    assert_eq!(
        (&answer["service_id"], &answer["status_code"]),
        (&"w2".into(), &201.into()),
        "{answer}"
    );
    facility.stop("nobody's");
    // With room again it takes the next.
    let done = facility.next("wrdn", "the end of b");
    assert_eq!(
        (&done["job_id"], &done["error_encountered"]),
        (&"b".into(), &false.into()),
        "{done}"
    );
    facility.start("d");
    assert_eq!(facility.taken("d"), "w2", "and nobody has said a word about the job of none");
    // The client that orders a run gets the refusal.
    let structure = folder.path().join("run.json");
    std::fs::write(&structure, json!({"children": []}).to_string()).unwrap();
    let (to, structure) = (format!("kafka://{brokers}/pool"), structure.display().to_string());
    let order = |job: &str, file: &str| {
        let all = [
            &["send", "--to", &to, "--source", "run", "--structure", &structure, "--file", file][..],
            &["--control", "control", "--duration", "0s", "--job", job],
        ];
        say(&all.concat())
    };
    let _fourth = writer(&brokers, folder.path(), "w4");
    let refused = order("e", "../e.nxs");
    assert_eq!(refused.code, 1, "{}", refused.err);
    assert!(refused.err.contains("leads out of the writer's folder"), "{}", refused.err);
    assert!(
        refused.err.contains("start sent") && !refused.err.contains(" started"),
        "{}",
        refused.err
    );
    let obeyed = order("f", "f.nxs");
    assert_eq!(obeyed.code, 0, "{}", obeyed.err);
    // A job has started once the writer says so, not when it was asked to.
    assert!(obeyed.err.contains("job f started: f.nxs"), "{}", obeyed.err);
}
