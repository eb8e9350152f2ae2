//! The service against a real Kafka: every event on the topic once and in order, with any schema and compression, from
//! one instance or two; and groups of consumers. Kills are in `kafka_faults.rs`.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::broker::{Checker, PATIENCE, Shared, arguments, fresh, packets};
use crate::service::{Service, capture, say};
use fullcount_kafka::{Consumer, ConsumerOptions, Polled};

fn words(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).collect()
}

#[test]
fn a_capture_is_on_the_topic_once_and_in_order_whatever_schema_and_compression() {
    let Some(cluster) = Shared::new() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let plain = fresh("plain_detector");
    let pcap = capture(folder.path(), "events", &packets(300));
    for (topic, more) in [
        (plain.clone(), &[][..]),
        (fresh("lz4_detector"), &["--set", "output.kafka.compression=lz4"]),
        (fresh("zstd_detector"), &["--set", "output.kafka.compression=zstd"]),
        (fresh("old_detector"), &["--set", "output.kafka.schema=ev42"]),
    ] {
        let url = format!("kafka://{}/{topic}", cluster.bootstrap());
        let (source, spool) = (format!("pcap:{pcap}?flat-out"), folder.path().join(&topic));
        let spool = spool.display().to_string();
        let mut all = arguments(&source, &url, &spool, 500);
        all.extend(["--web", "off"].iter().chain(more).map(|word| (*word).to_owned()));
        let said = say(&words(&all));
        assert_eq!(said.code, 0, "{topic}: {}", said.err);
        let summary = said.summary();
        assert_eq!(
            (&summary["balance"], &summary["events"]),
            (&0.into(), &30_000.into()),
            "{topic}"
        );
        assert_eq!(summary["outputs"]["kafka"]["events"], 30_000, "{topic}");
        let mut checker = Checker::new(&cluster.bootstrap(), &topic, 1);
        checker.read_all();
        checker.assert_whole(30_000);
        assert!(checker.row().messages >= 60, "{} messages", checker.row().messages);
    }
    a_group_goes_on_where_it_committed(&cluster.bootstrap(), &plain);
    two_instances_share_a_topic(&cluster.bootstrap(), folder.path());
}

/// Each has half of the packets, and its own spool: the topic holds the same as from one instance.
fn two_instances_share_a_topic(brokers: &str, folder: &Path) {
    let topic = fresh("shared_detector");
    let url = format!("kafka://{brokers}/{topic}");
    let all = packets(300);
    let (first, second) = all.split_at(150);
    let running = [first, second].map(|half| {
        let name = format!("from-{}", half[0][3]);
        let source = format!("pcap:{}?flat-out", capture(folder, &name, half));
        let spool = folder.join(&name).display().to_string();
        let mut all = arguments(&source, &url, &spool, 500);
        all.extend(["--web", "off"].map(str::to_owned));
        Service::start(&words(&all))
    });
    for service in running {
        let said = service.end();
        assert_eq!((said.code, said.counter("sink.kafka.events")), (0, 15_000), "{}", said.err);
    }
    let mut checker = Checker::new(brokers, &topic, 1);
    checker.read_all();
    // Two rows of running numbers, mixed; each has its half of the events, once and in order.
    let rows: Vec<_> = checker.rows.values().map(|r| (r.events, r.gaps.clone())).collect();
    let (first, second) = ((15_000, vec![]), (15_000, vec![(0, 15_000)]));
    assert!(rows == [first.clone(), second.clone()] || rows == [second, first], "{rows:?}");
}

/// Members come and go; the next one begins where the last one said that all is safe.
fn a_group_goes_on_where_it_committed(brokers: &str, topic: &str) {
    let (mut next, group) = (0, fresh("writers"));
    for _ in 0..3 {
        let mut options = ConsumerOptions::new(brokers);
        options.group = Some(group.clone());
        let consumer = Consumer::new(&options).expect("settings");
        consumer.subscribe(&[topic]).expect("subscribed");
        let end = Instant::now() + PATIENCE;
        let mut seen = 0;
        while seen < 10 {
            assert!(Instant::now() < end, "{seen} messages within {PATIENCE:?}");
            let polled = consumer.poll(Duration::from_millis(200)).expect("readable");
            let Polled::Message(message) = polled else { continue };
            assert_eq!(message.offset(), next + seen);
            seen += 1;
        }
        // Three that were read are not safe yet.
        next += 7;
        consumer.commit(&[(topic, 0, next)], true).expect("committed");
        assert_eq!(consumer.committed(topic, 0).expect("answered"), Some(next));
    }
}
