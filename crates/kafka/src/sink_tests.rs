//! The sink against librdkafka's own mock of a broker: once each, in order, through errors and restarts.
//!
//! `crates/fullcount/tests/kafka.rs` does the same with the real one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fullcount_core::conformance::OutputCase;
use fullcount_core::ledger::Ledger;
use fullcount_core::products::Products;
use fullcount_core::time::PulseTime;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use super::{
    Begin, Consumer, ConsumerOptions, IDENTITY_HEADER, KafkaOptions, KafkaSink, MessageId, Polled,
};
use fullcount_core::sink::Sink;
use fullcount_spool::Identity;

type Cluster = MockCluster<'static, DefaultProducerContext>;

const TOPIC: &str = "sonde_detector";

fn cluster(partitions: i32) -> Cluster {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic(TOPIC, partitions, 1).unwrap();
    cluster
}

fn options(brokers: String, spool: &Path) -> KafkaOptions {
    let mut o = KafkaOptions::new(brokers, TOPIC, "sonde", spool);
    o.stream.capacity = 10;
    // Messages leave in the order of their pulses.
    o.stream.open_pulses = 1;
    // The mock answers at once; what tests wait for is the broker's word, never a time.
    o.settings = super::KafkaSettings::new([("queue.buffering.max.ms".to_owned(), "1".to_owned())]);
    o.drain = Duration::from_secs(30);
    o
}

/// `n` events of one pulse, pixel = `first` onwards.
fn batch(pulse: i64, first: u32, n: u32) -> Arc<Products> {
    let mut products = Products::default();
    products.events.open_pulse(PulseTime(pulse));
    (first..first + n).for_each(|pixel| products.events.push(pixel, pixel));
    Arc::new(products)
}

/// What is on the topic: (partition, message id, pixels), each partition in its order.
fn topic(brokers: &str, partitions: i32) -> Vec<(i32, u64, Vec<i32>)> {
    let consumer = Consumer::new(&ConsumerOptions::new(brokers)).unwrap();
    let all: Vec<_> = (0..partitions).map(|p| (TOPIC, p, Begin::Oldest)).collect();
    consumer.assign(&all).unwrap();
    let (mut found, mut ends) = (Vec::new(), 0);
    while ends < partitions {
        match consumer.poll(Duration::from_secs(30)).unwrap() {
            Polled::Message(message) => {
                assert!(message.key().is_none(), "others use none");
                let identity = message.header(IDENTITY_HEADER).unwrap();
                assert!(Identity::from_bytes(identity).is_some());
                let fullcount_messages::Message::Ev44(events) =
                    fullcount_messages::decode(message.payload()).unwrap()
                else {
                    panic!("ev44")
                };
                assert_eq!((events.check(), events.source_name), (Ok(()), "sonde"));
                let pixels = events.pixel_id.unwrap().into_owned();
                found.push((message.partition(), events.message_id as u64, pixels));
            }
            Polled::End { .. } => ends += 1,
            Polled::Nothing => panic!("no end within 30 s"),
        }
    }
    found.sort_by_key(|m| m.0);
    found
}

fn counters(sink: &KafkaSink) -> impl Fn(&str) -> u64 + use<> {
    let ledger = Ledger::default();
    ledger.register(sink.sheet());
    move |name| {
        let entries = ledger.read();
        assert_eq!(entries.balance(), 0, "{name}");
        entries.get(name).unwrap()
    }
}

#[test]
fn every_event_is_on_the_topic_once_and_the_ledger_balances() {
    let cluster = cluster(1);
    let brokers = cluster.bootstrap_servers();
    let folder = tempfile::tempdir().unwrap();
    let mut sink = KafkaSink::open(options(brokers.clone(), folder.path())).unwrap();
    let get = counters(&sink);
    for n in 0..7 {
        sink.push(&batch(1_000 + i64::from(n), 1 + 25 * n, 25)).unwrap();
    }
    sink.push(&batch(-5, 1, 3)).unwrap();
    sink.tick(Duration::from_millis(100)).unwrap();
    assert_eq!(get("sink.kafka.in"), 178);
    let report = sink.finish().unwrap();
    assert_eq!((report.events, report.place), (175, format!("kafka://{brokers}/{TOPIC}")));
    assert_eq!((get("sink.kafka.events"), get("sink.kafka.before_1970")), (175, 3));
    assert_eq!((get("sink.kafka.waiting"), get("kafka.spool.messages")), (0, 0));
    assert_eq!((get("sink.kafka.cut.capacity"), get("sink.kafka.messages")), (14, 21));
    let found = topic(&brokers, 1);
    assert!(found.iter().map(|m| m.1).eq(1..=21));
    assert_eq!(
        found.into_iter().flat_map(|m| m.2).collect::<Vec<_>>(),
        (1..=175).collect::<Vec<_>>()
    );
}

#[test]
fn a_broker_that_is_not_there_yet_is_no_error_and_numbers_go_on_over_starts() {
    let folder = tempfile::tempdir().unwrap();
    // No broker listens on port 1. The run ends at once; its messages stay.
    let mut nowhere = options("127.0.0.1:1".into(), folder.path());
    nowhere.drain = Duration::ZERO;
    let mut sink = KafkaSink::open(nowhere).unwrap();
    let get = counters(&sink);
    sink.push(&batch(1_000, 1, 25)).unwrap();
    assert_eq!(sink.finish().unwrap().events, 0);
    assert_eq!((get("sink.kafka.waiting"), get("kafka.spool.messages")), (25, 3));
    drop(sink);

    let cluster = cluster(3);
    let brokers = cluster.bootstrap_servers();
    let mut sink = KafkaSink::open(options(brokers.clone(), folder.path())).unwrap();
    assert_eq!((sink.recovered().messages, sink.recovered().events), (3, 25));
    let get = counters(&sink);
    sink.push(&batch(2_000, 26, 30)).unwrap();
    assert_eq!(sink.finish().unwrap().events, 55);
    assert_eq!((get("sink.kafka.recovered"), get("sink.kafka.in")), (25, 30));
    drop(sink);

    let mut restart = options(brokers.clone(), folder.path());
    restart.message_id = MessageId::Restart;
    let mut sink = KafkaSink::open(restart).unwrap();
    assert_eq!(sink.recovered().messages, 0);
    sink.push(&batch(3_000, 56, 5)).unwrap();
    assert_eq!(sink.finish().unwrap().events, 5);

    let mut found = topic(&brokers, 3);
    // Message n is on partition n modulo 3, in order.
    let ids = |p| found.iter().filter(|m| m.0 == p).map(|m| m.1).collect::<Vec<_>>();
    assert_eq!((ids(0), ids(1), ids(2)), (vec![3, 6], vec![1, 4, 1], vec![2, 5]));
    found.sort_by_key(|m| m.2[0]);
    assert_eq!(
        found.into_iter().flat_map(|m| m.2).collect::<Vec<_>>(),
        (1..=60).collect::<Vec<_>>()
    );
}

#[test]
fn what_is_on_the_topic_although_its_confirmation_was_lost_is_not_sent_again() {
    let cluster = cluster(2);
    let brokers = cluster.bootstrap_servers();
    let folder = tempfile::tempdir().unwrap();
    {
        let mut sink = KafkaSink::open(options(brokers.clone(), folder.path())).unwrap();
        sink.push(&batch(1_000, 1, 65)).unwrap();
        // All but the last message are cut and sent; segments and mark are copied before that is known.
        let copy = folder.path().with_extension("copy");
        std::fs::create_dir(&copy).unwrap();
        for entry in std::fs::read_dir(folder.path()).unwrap().flatten() {
            if entry.file_name() != "settled"
                && !entry.file_name().as_encoded_bytes().starts_with(b".")
            {
                std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
            }
        }
        // Nothing is confirmed yet. (Without offsets the tail begins by time, which the mock does not know.)
        let mark = r#"{"below": 1, "offsets": {"0": -1, "1": -1}, "written_ms": 0}"#;
        std::fs::write(copy.join("settled"), mark).unwrap();
        assert_eq!(sink.finish().unwrap().events, 65);
    }
    // The process that was killed right after its appends, as its successor finds it.
    let copy = folder.path().with_extension("copy");
    let mut sink = KafkaSink::open(options(brokers.clone(), &copy)).unwrap();
    assert_eq!(sink.recovered().messages, 6);
    let get = counters(&sink);
    sink.push(&batch(2_000, 66, 10)).unwrap();
    assert_eq!(sink.finish().unwrap().events, 70);
    assert_eq!((get("sink.kafka.already"), get("sink.kafka.messages")), (6, 1));
    drop(sink);
    std::fs::remove_dir_all(&copy).unwrap();
    let mut pixels: Vec<_> = topic(&brokers, 2).into_iter().flat_map(|m| m.2).collect();
    pixels.sort_unstable();
    assert_eq!(pixels, (1..=75).collect::<Vec<_>>());
}

#[test]
fn errors_that_the_broker_gives_are_retried_without_loss_or_copies() {
    let cluster = cluster(1);
    let brokers = cluster.bootstrap_servers();
    let folder = tempfile::tempdir().unwrap();
    let retried = [
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
        RDKafkaRespErr::RD_KAFKA_RESP_ERR__TRANSPORT,
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
    ];
    cluster.request_errors(RDKafkaApiKey::Produce, &retried);
    let mut sink = KafkaSink::open(options(brokers.clone(), folder.path())).unwrap();
    for n in 0..5 {
        sink.push(&batch(1_000 + i64::from(n), 1 + 20 * n, 20)).unwrap();
    }
    assert_eq!(sink.finish().unwrap().events, 100);
    let pixels: Vec<_> = topic(&brokers, 1).into_iter().flat_map(|m| m.2).collect();
    assert_eq!(pixels, (1..=100).collect::<Vec<_>>());
}

#[test]
fn what_the_broker_refuses_for_good_is_dropped_and_counted() {
    let cluster = cluster(1);
    let brokers = cluster.bootstrap_servers();
    let folder = tempfile::tempdir().unwrap();
    let mut small = options(brokers.clone(), folder.path());
    // Below the 176 bytes of a full message.
    small.settings =
        super::KafkaSettings::new([("message.max.bytes".to_owned(), "1000".to_owned())]);
    small.stream.capacity = 200;
    let mut sink = KafkaSink::open(small).unwrap();
    let get = counters(&sink);
    sink.push(&batch(1_000, 1, 200)).unwrap();
    sink.push(&batch(2_000, 201, 10)).unwrap();
    assert_eq!(sink.finish().unwrap().events, 10);
    assert_eq!((get("sink.kafka.refused"), get("kafka.spool.messages")), (200, 0));
    assert_eq!(topic(&brokers, 1).len(), 1);
}

#[test]
fn a_full_spool_holds_the_sink_up_until_the_run_is_to_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut full = options("127.0.0.1:1".into(), folder.path());
    full.stream.capacity = 1_000_000;
    full.spool_size = 16 << 20;
    full.drain = Duration::ZERO;
    // Asked to end only once the spool was found full.
    full.stop = Arc::new(|| true);
    let mut sink = KafkaSink::open(full).unwrap();
    let get = counters(&sink);
    for n in 0..3 {
        sink.push(&batch(1_000 + n, 1, 1_000_000)).unwrap();
    }
    assert_eq!(sink.finish().unwrap().events, 0);
    assert_eq!((get("sink.kafka.in"), get("kafka.spool.full")), (3_000_000, 1));
    assert_eq!((get("sink.kafka.waiting"), get("sink.kafka.dropped")), (2_000_000, 1_000_000));
}

#[test]
fn a_run_is_told_of_a_full_spool_that_nothing_leaves_and_waits_no_longer_if_it_ends_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut full = options("127.0.0.1:1".into(), folder.path());
    full.stream.capacity = 1_000_000;
    full.spool_size = 16 << 20;
    full.drain = Duration::from_secs(2);
    let told = Arc::new(std::sync::Mutex::new(None));
    let (tell, over) = (told.clone(), told.clone());
    let begun = std::time::Instant::now();
    full.stuck =
        Arc::new(move || tell.lock().unwrap().get_or_insert(begun.elapsed()).as_secs() > 0);
    full.over = Arc::new(move || over.lock().unwrap().is_some());
    let mut sink = KafkaSink::open(full).unwrap();
    let get = counters(&sink);
    for n in 0..3 {
        sink.push(&batch(1_000 + n, 1, 1_000_000)).unwrap();
    }
    let told = told.lock().unwrap().expect("told");
    assert!(told >= Duration::from_secs(2), "{told:?}: after drain");
    // Nor at the end: the time of this wait was over.
    let end = std::time::Instant::now();
    assert_eq!(sink.finish().unwrap().events, 0);
    assert!(end.elapsed() < Duration::from_secs(60));
    // What waited in the sink is in the balance once it has ended.
    assert_eq!((get("kafka.spool.full"), get("sink.kafka.dropped")), (1, 1_000_000));
}

/// The newest segment of a spool.
fn newest(spool: &Path) -> std::path::PathBuf {
    let all = std::fs::read_dir(spool).unwrap().flatten().map(|e| e.path());
    all.filter(|path| path.extension().is_some_and(|e| e == "seg")).max().unwrap()
}

#[test]
fn a_message_that_the_disk_has_lost_is_lost_in_the_ledger_with_its_events() {
    let folder = tempfile::tempdir().unwrap();
    let mut nowhere = options("127.0.0.1:1".into(), folder.path());
    nowhere.drain = Duration::ZERO;
    let mut sink = KafkaSink::open(nowhere).unwrap();
    sink.push(&batch(1_000, 1, 25)).unwrap();
    sink.finish().unwrap();
    drop(sink);
    // In the body of the first record, after the heads of segment and record.
    let segment = newest(folder.path());
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[64 + 48 + 60] ^= 1;
    std::fs::write(&segment, bytes).unwrap();

    let cluster = cluster(1);
    let mut sink = KafkaSink::open(options(cluster.bootstrap_servers(), folder.path())).unwrap();
    let get = counters(&sink);
    assert_eq!((sink.recovered().messages, sink.recovered().damaged), (2, 1));
    sink.push(&batch(2_000, 26, 5)).unwrap();
    assert_eq!(sink.finish().unwrap().events, 20);
    assert_eq!((get("sink.kafka.recovered"), get("sink.kafka.in")), (25, 5));
    assert_eq!((get("kafka.spool.damaged"), get("sink.kafka.damaged")), (1, 10));
    assert_eq!((get("sink.kafka.waiting"), get("kafka.spool.messages")), (0, 0));
    let ledger = Ledger::default();
    ledger.register(sink.sheet());
    assert!(ledger.read().anything_lost());
}

#[test]
fn a_message_that_the_disk_has_lost_and_the_topic_has_is_not_lost() {
    let cluster = cluster(1);
    let brokers = cluster.bootstrap_servers();
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().with_extension("damaged-copy");
    std::fs::create_dir(&copy).unwrap();
    let mut sink = KafkaSink::open(options(brokers.clone(), folder.path())).unwrap();
    sink.push(&batch(1_000, 1, 25)).unwrap();
    for name in ["identity".into(), newest(folder.path()).file_name().unwrap().to_owned()] {
        std::fs::copy(folder.path().join(&name), copy.join(&name)).unwrap();
    }
    assert_eq!(sink.finish().unwrap().events, 25);
    drop(sink);
    let mark = r#"{"below": 1, "offsets": {"0": -1}, "written_ms": 0}"#;
    std::fs::write(copy.join("settled"), mark).unwrap();
    let segment = newest(&copy);
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[64 + 48 + 60] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let mut sink = KafkaSink::open(options(brokers, &copy)).unwrap();
    let get = counters(&sink);
    assert_eq!(sink.finish().unwrap().events, 20);
    assert_eq!((get("kafka.spool.damaged"), get("sink.kafka.damaged")), (0, 0));
    assert_eq!((get("sink.kafka.already"), get("sink.kafka.waiting")), (2, 0));
    drop(sink);
    std::fs::remove_dir_all(&copy).unwrap();
}

#[test]
fn what_it_says_is_safe_is_in_the_spool() {
    let folder = tempfile::tempdir().unwrap();
    let spool = folder.path().join("spool");
    // No broker: all stays there.
    let mut options = options("127.0.0.1:1".into(), &spool);
    options.drain = Duration::ZERO;
    let mut sink = KafkaSink::open(options.clone()).unwrap();
    let mut copies = 0;
    let mut kept = || {
        copies += 1;
        let copy = folder.path().join(format!("copy-{copies}"));
        std::fs::create_dir(&copy).unwrap();
        for file in std::fs::read_dir(&spool).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), copy.join(file.file_name())).unwrap();
        }
        KafkaSink::open(KafkaOptions { spool: copy, ..options.clone() }).unwrap().recovered().events
    };
    // A new pulse every ten events, so that messages are cut by their pulse and by the clock.
    let fill = |products: &mut Products, n: u64| {
        products.events.open_pulse(PulseTime(1_000_000 * (n as i64 / 10)));
        products.events.push(1, n as u32 + 1);
    };
    let case = OutputCase { sink: &mut sink, fill: &fill, kept: &mut kept, at_close: false };
    fullcount_core::conformance::output(case).unwrap();
}
