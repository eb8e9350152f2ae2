//! The consumer against librdkafka's own mock of a broker.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer as _};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use super::{Begin, Consumer, ConsumerOptions, KafkaSettings, Polled};

const PATIENCE: Duration = Duration::from_secs(60);

fn cluster() -> (MockCluster<'static, DefaultProducerContext>, String) {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("raw", 2, 1).unwrap();
    let brokers = cluster.bootstrap_servers();
    (cluster, brokers)
}

/// Messages 0 to 9 on both partitions, number n at 1000 + n ms.
fn fill(brokers: &str) {
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", brokers).create().unwrap();
    for partition in 0..2 {
        for n in 0..10u8 {
            let payload = [n];
            let record = BaseRecord::to("raw").payload(&payload).key("k").partition(partition);
            producer.send(record.timestamp(1_000 + i64::from(n))).map_err(|e| e.0).unwrap();
        }
    }
    producer.flush(PATIENCE).unwrap();
}

/// Numbers of partition 0 from the consumer's position to the end.
fn read(consumer: &Consumer) -> Vec<u8> {
    let mut found = Vec::new();
    loop {
        match consumer.poll(PATIENCE).unwrap() {
            Polled::Message(m) => {
                assert_eq!((m.topic(), m.key(), m.header("fc.id")), ("raw", Some(&b"k"[..]), None));
                assert_eq!(m.timestamp_ms(), Some(1_000 + i64::from(m.payload()[0])));
                if m.partition() == 0 {
                    assert_eq!(m.offset(), i64::from(m.payload()[0]));
                    found.push(m.payload()[0]);
                }
            }
            Polled::End { partition: 0 } => return found,
            Polled::End { .. } => {}
            Polled::Nothing => panic!("no end within 30 s"),
        }
    }
}

#[test]
fn reading_begins_where_it_is_told_to() {
    let (_cluster, brokers) = cluster();
    fill(&brokers);
    let consumer = Consumer::new(&ConsumerOptions::new(&brokers)).unwrap();
    assert_eq!(consumer.partitions("raw").unwrap(), 2);
    assert_eq!(consumer.offsets("raw", 0).unwrap(), (0, 10));
    for (begin, first) in [(Begin::Oldest, 0), (Begin::At(7), 7), (Begin::Newest, 10)] {
        consumer.assign(&[("raw", 0, begin)]).unwrap();
        assert_eq!(read(&consumer), (first..10).collect::<Vec<u8>>(), "{begin:?}");
    }
    assert_eq!(consumer.assigned().unwrap(), [("raw".to_owned(), 0)]);
}

#[test]
fn a_group_goes_on_where_it_committed_and_nothing_is_committed_by_itself() {
    let (_cluster, brokers) = cluster();
    fill(&brokers);
    // Assigned partitions: the mock takes a minute for a rebalance.
    let grouped = || {
        let mut options = ConsumerOptions::new(&brokers);
        options.group = Some("writers".into());
        let consumer = Consumer::new(&options).unwrap();
        consumer.assign(&[("raw", 0, Begin::Committed)]).unwrap();
        consumer
    };
    let first = grouped();
    assert_eq!(read(&first).len(), 10);
    assert_eq!(first.committed("raw", 0).unwrap(), None);
    drop(first);
    let second = grouped();
    assert_eq!(read(&second).len(), 10, "nothing was committed");
    second.commit(&[("raw", 0, 4)], true).unwrap();
    assert_eq!(second.committed("raw", 0).unwrap(), Some(4));
    drop(second);
    assert_eq!(read(&grouped()), (4..10).collect::<Vec<u8>>());
}

#[test]
fn who_rests_misses_nothing() {
    let (_cluster, brokers) = cluster();
    fill(&brokers);
    let consumer = Consumer::new(&ConsumerOptions::new(&brokers)).unwrap();
    consumer.assign(&[("raw", 0, Begin::Oldest)]).unwrap();
    let next = || loop {
        if let Polled::Message(m) = consumer.poll(PATIENCE).unwrap() {
            return m.offset();
        }
    };
    assert_eq!([next(), next(), next()], [0, 1, 2]);
    consumer.rest(true).unwrap();
    for _ in 0..50 {
        let polled = consumer.poll(Duration::from_millis(2)).unwrap();
        assert!(!matches!(polled, Polled::Message(_)), "{polled:?}");
    }
    consumer.rest(false).unwrap();
    assert_eq!([next(), next()], [3, 4]);
    // One that came anyway is put back.
    consumer.go_back("raw", 0, 4).unwrap();
    assert_eq!(read(&consumer), (4..10).collect::<Vec<u8>>());
}

static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[test]
fn a_place_counts_as_committed_once_the_broker_has_confirmed_it() {
    let (cluster, brokers) = cluster();
    fill(&brokers);
    let mut options = ConsumerOptions::new(&brokers);
    (options.group, options.hold) = (Some("members".into()), true);
    options.news = |said| SAID.lock().unwrap().push(said.to_owned());
    let consumer = Consumer::new(&options).unwrap();
    consumer.assign(&[("raw", 0, Begin::Oldest), ("raw", 1, Begin::Oldest)]).unwrap();
    assert_eq!(read(&consumer).len(), 10);
    let end = Instant::now() + PATIENCE;
    let until = |enough: &dyn Fn() -> bool| {
        while !enough() {
            assert!(Instant::now() < end, "within {PATIENCE:?}");
            consumer.poll(Duration::from_millis(20)).unwrap();
        }
    };
    assert_eq!(consumer.places("raw", &[0, 1]).unwrap(), [], "reading commits nothing");
    // Refused three times, then taken.
    let no = RDKafkaRespErr::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED;
    cluster.request_errors(RDKafkaApiKey::OffsetCommit, &[no; 3]);
    consumer.commit_soon(&[("raw", 0, 4), ("raw", 1, 2), ("raw", 7, 1)]).unwrap();
    until(&|| consumer.commits_refused() >= 3);
    assert_eq!(consumer.confirmed(), []);
    let confirmed = Mutex::new(Vec::new());
    until(&|| {
        confirmed.lock().unwrap().extend(consumer.confirmed());
        confirmed.lock().unwrap().len() == 2
    });
    let raw = |p, at| ("raw".to_owned(), p, at);
    assert_eq!(confirmed.into_inner().unwrap(), [raw(0, 4), raw(1, 2)]);
    assert_eq!((consumer.confirmed(), consumer.commits_refused()), (vec![], 3), "once");
    assert_eq!(consumer.places("raw", &[0, 1]).unwrap(), [(0, 4), (1, 2)]);
    // A partition that is given up keeps its last commit. The group rebalances: the commit waits for that.
    let no = RDKafkaRespErr::RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS;
    cluster.request_errors(RDKafkaApiKey::OffsetCommit, &[no; 2]);
    consumer.commit(&[("raw", 0, 8)], true).unwrap();
    consumer.assign(&[]).unwrap();
    drop(consumer);
    options.hold = false;
    let next = Consumer::new(&options).unwrap();
    assert_eq!(next.places("raw", &[0, 1]).unwrap(), [(0, 8), (1, 2)]);
    let said = SAID.lock().unwrap();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains("is not taken on") && said[1].contains("taken on again"), "{said:?}");
}

#[test]
fn a_broker_that_is_away_is_no_error_and_a_wrong_setting_is() {
    let consumer = Consumer::new(&ConsumerOptions::new("127.0.0.1:1")).unwrap();
    consumer.assign(&[("raw", 0, Begin::Oldest)]).unwrap();
    assert!(matches!(consumer.poll(Duration::from_millis(1)), Ok(Polled::Nothing)));
    let error = consumer.commit(&[("raw", 0, 1)], false);
    assert!(error.is_ok(), "taken on, and done when the broker comes");
    let mut wrong = ConsumerOptions::new("h:1");
    wrong.settings = KafkaSettings::new([("no.such".to_owned(), "1".to_owned())]);
    let error = Consumer::new(&wrong).unwrap_err().to_string();
    assert!(error.starts_with("kafka h:1: set up: "), "{error}");
}
