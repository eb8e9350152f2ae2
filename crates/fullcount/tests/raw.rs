//! Raw packets on a topic: reading them back gives the events of the run, for every detector.
//!
//! Against librdkafka's own mock of a broker, which other processes can reach. Source: `docs/raw.md`.

use crate::service;
use std::time::Duration;

use crate::service::{Said, Service, get, say, vector};
use fullcount_messages::{Message, RawReadout};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer as _};
use rdkafka::{Offset, TopicPartitionList};

const PARTITIONS: i32 = 4;
const KINDS: [(&str, &str, &str, Option<&str>); 4] = [
    ("sonde", "none", "sonde/sonde.pcap", None),
    (
        "multigrid",
        "data",
        "multigrid/multigrid.pcap",
        Some("multigrid/config/three_modules_mg24.json"),
    ),
    ("multiblade", "none", "multiblade/multiblade.pcap", Some("multiblade/config/AmorB.json")),
    ("gdgem", "none", "gdgem/example.pcapng", Some("gdgem/vmm/example_geometry.json")),
];

fn cluster(topics: &[&str]) -> MockCluster<'static, DefaultProducerContext> {
    let cluster = MockCluster::new(1).expect("a mock");
    for topic in topics {
        cluster.create_topic(topic, PARTITIONS, 1).expect("a topic");
    }
    cluster
}

/// Arguments of a run of one detector into a file.
fn arguments(kind: usize, source: &str, nexus: &str, more: &[String]) -> Vec<String> {
    let (name, pulse, _, geometry) = KINDS[kind];
    let mut all: Vec<String> = ["run", "--source", source, "--detector", name, "--pulse", pulse]
        .into_iter()
        .chain(["--nexus", nexus, "--web", "off", "--json"])
        .map(str::to_owned)
        .collect();
    if let Some(geometry) = geometry {
        all.extend(["--geometry".to_owned(), vector(geometry)]);
    }
    all.extend(more.iter().cloned());
    all
}

fn said(arguments: &[String]) -> Said {
    say(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

/// `--set output.raw.…` for a topic.
fn raw(brokers: &str, topic: &str, spool: &str, every: u32) -> Vec<String> {
    let keys = [
        format!("brokers={brokers}"),
        format!("topic={topic}"),
        format!("spool={spool}"),
        format!("every={every}"),
    ];
    keys.into_iter().flat_map(|k| ["--set".to_owned(), format!("output.raw.{k}")]).collect()
}

/// (time, pixel) of every event of a file, sorted.
fn events(path: &str, detector: &str) -> Vec<(i64, i32)> {
    let f = hdf5_metno::File::open(path).expect("opens after a proper close");
    let e = f.group(&format!("entry/instrument/{detector}/{detector}_events")).expect("events");
    let ids = e.dataset("event_id").unwrap().read_raw::<i32>().unwrap();
    let offsets = e.dataset("event_time_offset").unwrap().read_raw::<i32>().unwrap();
    let zeros = e.dataset("event_time_zero").unwrap().read_raw::<u64>().unwrap();
    let index = e.dataset("event_index").unwrap().read_raw::<i64>().unwrap();
    let pulse_of = |i: usize| index.partition_point(|&first| first as usize <= i) - 1;
    let event = |i: usize| (zeros[pulse_of(i)] as i64 + i64::from(offsets[i]), ids[i]);
    let mut events: Vec<_> = (0..ids.len()).map(event).collect();
    events.sort_unstable();
    events
}

#[test]
fn packets_that_went_over_a_topic_give_the_same_events_for_every_detector() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: String| dir.path().join(name).display().to_string();
    let topics = KINDS.map(|k| k.0);
    let cluster = cluster(&topics);
    let brokers = cluster.bootstrap_servers();
    for (at, (name, _, capture, _)) in KINDS.into_iter().enumerate() {
        let (first, spool) = (path(format!("{name}.nxs")), path(format!("{name}-spool")));
        let source = format!("pcap:{}?flat-out", vector(capture));
        let sent = said(&arguments(at, &source, &first, &raw(&brokers, name, &spool, 1)));
        let code = sent.code;
        // The published Multi-Blade capture has gaps of its own.
        assert!(matches!(code, 0 | 3), "{name}: {}", sent.err);
        let packets = sent.counter("receive.packets");
        assert_eq!(sent.summary()["outputs"]["raw"]["packets"], packets, "{}", sent.err);
        assert_eq!(sent.summary()["balance"], 0, "{}", sent.err);
        let want = events(&first, name);
        assert!(!want.is_empty());

        let whole = path(format!("{name}-whole.nxs"));
        let topic = format!("kafka://{brokers}/{name}");
        let got = said(&arguments(at, &format!("{topic}?until=end"), &whole, &[]));
        assert_eq!(got.code, code, "{name}: {}", got.err);
        assert_eq!(got.counter("receive.packets"), packets, "{name}: {}", got.err);
        assert_eq!(events(&whole, name), want, "{name}");

        // Shared out by partition: together the same.
        let mut parts = Vec::new();
        for share in ["0,2", "1,3"] {
            let part = path(format!("{name}-{}.nxs", &share[..1]));
            let source = format!("{topic}?until=end&partitions={share}");
            let got = said(&arguments(at, &source, &part, &[]));
            assert!(matches!(got.code, 0 | 3), "{name}: {}", got.err);
            parts.extend(events(&part, name));
        }
        parts.sort_unstable();
        assert_eq!(parts, want, "{name}");
    }
}

#[test]
fn a_group_goes_on_where_it_stood_and_every_nth_is_every_nth() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: &str| dir.path().join(name).display().to_string();
    let cluster = cluster(&["some"]);
    let brokers = cluster.bootstrap_servers();
    let source = format!("pcap:{}?flat-out&repeat=20", vector(KINDS[0].2));
    let options = raw(&brokers, "some", &path("spool"), 7);
    let sent = said(&arguments(0, &source, &path("a.nxs"), &options));
    let packets = sent.counter("receive.packets");
    let every = packets.div_ceil(7);
    assert_eq!(sent.counter("sink.raw.written"), every, "{}", sent.err);
    let topic = format!("kafka://{brokers}/some?group=again&until=end");
    for (file, want) in [("b.nxs", every), ("c.nxs", 0)] {
        // The mock waits this long before it rebalances.
        let hasty = ["--set", "source.options.session.timeout.ms=6000"].map(str::to_owned);
        let got = said(&arguments(0, &topic, &path(file), &hasty));
        assert!(matches!(got.code, 0 | 3), "{}", got.err);
        assert_eq!(got.counter("receive.packets"), want, "{}", got.err);
    }
}

#[test]
fn packets_without_a_sender_or_of_another_epoch_are_refused_where_that_matters() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: &str| dir.path().join(name).display().to_string();
    let cluster = cluster(&["bare", "dated"]);
    let brokers = cluster.bootstrap_servers();
    let mut config = ClientConfig::new();
    let producer: BaseProducer =
        config.set("bootstrap.servers", &brokers).create().expect("a producer");
    for id in 0..3 {
        let raw = RawReadout { source_name: "x", message_id: id, raw_data: Some(&[1, 2, 3]) };
        let payload = Message::Ar51(raw).encode();
        let record = BaseRecord::<(), [u8]>::to("bare").payload(&payload).partition(1);
        producer.send(record).expect("queued");
    }
    let record = BaseRecord::<(), [u8]>::to("bare").payload(b"no message").partition(2);
    producer.send(record).expect("queued");
    producer.flush(Duration::from_secs(30)).expect("sent");
    let bare = format!("kafka://{brokers}/bare?until=end");
    // Multi-Grid needs no sender, and refuses foreign packets: most of those on the topic.
    for (kind, code) in [(0, 2), (2, 2), (1, 3)] {
        let file = path(&format!("{kind}.nxs"));
        let got = said(&arguments(kind, &bare, &file, &[]));
        assert_eq!(got.code, code, "{}: {}", KINDS[kind].0, got.err);
        assert_eq!(std::path::Path::new(&file).exists(), code != 2);
        if code == 2 {
            assert!(got.err.contains("fc.src"), "{}", got.err);
        } else {
            assert_eq!(got.counter("receive.packets"), 4);
            assert_eq!(got.counter("receive.not_ar51"), 1);
            assert_eq!(got.counter("receive.without_source"), 3);
            assert_eq!(got.summary()["balance"], 0);
        }
    }

    let source = format!("pcap:{}?flat-out", vector(KINDS[0].2));
    let mut options = raw(&brokers, "dated", &path("spool"), 1);
    options.extend(["--epoch", "2026-01-31T12:00:00Z"].map(str::to_owned));
    said(&arguments(0, &source, &path("d.nxs"), &options));
    let dated = format!("kafka://{brokers}/dated?until=end");
    let got = said(&arguments(0, &dated, &path("e.nxs"), &[]));
    assert_eq!(got.code, 2, "{}", got.err);
    assert!(got.err.contains("time.epoch") && got.err.contains("17698608"), "{}", got.err);
}

/// Senders of the topic below, one a partition.
const SENDERS: u64 = 4;
/// Packets of each, half a second apart: 15 s are three and a half turns of SoNDe's clock.
const EACH: u64 = 30;

/// When it is 0 on their clocks, ns since 1970.
const BEGAN: i64 = 1_767_225_600_000_000_000;

/// Time of a sender's n-th event, ns. The last sender begins 7 s later.
fn time_of(sender: u64, n: u64) -> i64 {
    let late = if sender == SENDERS - 1 { 7_000_000_000 } else { 0 };
    (1_000_000 + late + n * 500_000_000 + sender * 1_000) as i64
}

/// A topic of several senders' packets, each on its partition, all there before it is read. `timed`: with `fc.time_ns`.
fn of_several_senders(brokers: &str, topic: &str, timed: bool) {
    let mut config = ClientConfig::new();
    let producer: BaseProducer =
        config.set("bootstrap.servers", brokers).create().expect("a producer");
    for (sender, n) in (0..SENDERS).flat_map(|s| (0..EACH).map(move |n| (s, n))) {
        let at = time_of(sender, n);
        let raw = (at as u32).to_be_bytes();
        // SoNDe, 0xD6: system 0, number, time, length 6, one entry of time and pixel code.
        let mut packet = vec![0, 0xd6, 0, n as u8];
        packet.extend([&raw[..], &[0, 6, 1], &raw[..], &[64]].concat());
        let id = (sender * EACH + n) as i64;
        let payload = RawReadout { source_name: "x", message_id: id, raw_data: Some(&packet) };
        let payload = Message::Ar51(payload).encode();
        let from = format!("10.0.0.{}:50011", sender + 1);
        let came = (BEGAN + at + 30_000).to_string();
        let header = |key, value| Header { key, value: Some(value) };
        let mut headers = OwnedHeaders::new().insert(header("fc.src", from.as_str()));
        if timed {
            headers = headers.insert(header("fc.time_ns", came.as_str()));
        }
        let record = BaseRecord::<(), [u8]>::to(topic).payload(&payload);
        let record = record.partition(sender as i32).headers(headers);
        producer.send(record).map_err(|e| e.0).expect("queued");
    }
    producer.flush(Duration::from_secs(30)).expect("sent");
}

/// Times of all events of these senders.
fn times(senders: impl Iterator<Item = u64>) -> Vec<(i64, i32)> {
    let mut all: Vec<_> =
        senders.flat_map(|s| (0..EACH).map(move |n| (time_of(s, n), 1))).collect();
    all.sort_unstable();
    all
}

#[test]
fn partitions_that_are_read_one_after_the_other_keep_the_turns_of_a_clock() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: &str| dir.path().join(name).display().to_string();
    let cluster = cluster(&["timed", "bare"]);
    let brokers = cluster.bootstrap_servers();
    of_several_senders(&brokers, "timed", true);
    of_several_senders(&brokers, "bare", false);

    let all = times(0..SENDERS);
    let topic = format!("kafka://{brokers}/timed");
    let got = said(&arguments(0, &format!("{topic}?until=end"), &path("all.nxs"), &[]));
    assert_eq!(got.code, 0, "{}", got.err);
    assert_eq!(events(&path("all.nxs"), "sonde"), all);
    // Each of several processes that share the partitions counts from the topic's first packet.
    for sender in 0..SENDERS {
        let source = format!("{topic}?until=end&partitions={sender}");
        let file = path(&format!("{sender}.nxs"));
        let got = said(&arguments(0, &source, &file, &[]));
        assert_eq!(got.code, 0, "{}", got.err);
        assert_eq!(events(&file, "sonde"), times(sender..sender + 1), "{sender}");
    }
    // A member of a group that comes when others have read 20 packets of each partition, 10 s and more.
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &brokers).set("group.id", "again");
    let others: BaseConsumer = config.create().expect("a consumer");
    let mut stand = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        stand.add_partition_offset("timed", partition, Offset::Offset(20)).expect("an offset");
    }
    others.commit(&stand, CommitMode::Sync).expect("committed");
    let hasty = ["--set", "source.options.session.timeout.ms=6000"].map(str::to_owned);
    let source = format!("{topic}?group=again&until=end");
    let got = said(&arguments(0, &source, &path("late.nxs"), &hasty));
    assert_eq!(got.code, 0, "{}", got.err);
    let late = (0..SENDERS).flat_map(|s| (20..EACH).map(move |n| (time_of(s, n), 1)));
    let mut late: Vec<_> = late.collect();
    late.sort_unstable();
    assert_eq!(events(&path("late.nxs"), "sonde"), late);
    // Its offsets say from where it has counted: from the first packet of the topic.
    let at = time_of(0, 0);
    let from = |at: i64| format!("fullcount turns from {} {at}", BEGAN + at + 30_000);
    let places = others.committed_offsets(stand.clone(), Duration::from_secs(30)).expect("places");
    for place in places.elements() {
        assert_eq!((place.offset(), place.metadata()), (Offset::Offset(EACH as i64), &*from(at)));
    }
    // Of a group whose first member counted from a packet that is gone by now, two turns and some earlier, all count from there.
    let gone = (at - 3 * (1 << 32) + 77_000_000).rem_euclid(1 << 32);
    let earlier = at - 2 * (1 << 32) - (1 << 32) + 77_000_000;
    let note = format!("fullcount turns from {} {gone}", BEGAN + earlier + 30_000);
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &brokers).set("group.id", "gone");
    let first: BaseConsumer = config.create().expect("a consumer");
    for (partition, note) in [(0, "somebody's own"), (1, &*note), (2, ""), (3, &*note)] {
        let mut place = stand.find_partition("timed", partition).expect("one of ours");
        place.set_metadata(note);
    }
    first.commit(&stand, CommitMode::Sync).expect("committed");
    let source = format!("{topic}?group=gone&until=end");
    let got = said(&arguments(0, &source, &path("gone.nxs"), &hasty));
    assert_eq!(got.code, 0, "{}", got.err);
    let turns = gone - earlier;
    let moved: Vec<_> = late.iter().map(|(time, pixel)| (time + turns, *pixel)).collect();
    assert!(turns == 3 << 32 && events(&path("gone.nxs"), "sonde") == moved, "{}", got.err);

    // The turn is unknown: refused, with what to do, and the file has only the sender that was read first. One
    // partition has an order.
    let bare = format!("kafka://{brokers}/bare?until=end");
    let got = said(&arguments(0, &bare, &path("bare.nxs"), &[]));
    assert_eq!(got.code, 1, "{}", got.err);
    for words in ["fc.time_ns", "partitions=", "output.raw", "4.29 s"] {
        assert!(got.err.contains(words), "{words}: {}", got.err);
    }
    assert!(events(&path("bare.nxs"), "sonde").len() as u64 <= EACH, "{}", got.err);
    let one = format!("{bare}&partitions=1");
    let got = said(&arguments(0, &one, &path("one.nxs"), &[]));
    assert_eq!(got.code, 0, "{}", got.err);
    assert_eq!(events(&path("one.nxs"), "sonde"), times(1..2));
}

#[test]
fn a_clock_that_only_the_order_of_packets_tells_is_read_from_one_partition() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: &str| dir.path().join(name).display().to_string();
    let cluster = cluster(&["spoofed"]);
    let brokers = cluster.bootstrap_servers();
    of_several_senders(&brokers, "spoofed", true);
    let text = std::fs::read_to_string(vector("multigrid/config/three_modules_mg24.json"));
    let text = text.expect("a geometry");
    let spoofed = text.replace("\"spoof_high_time\": false", "\"spoof_high_time\": true");
    std::fs::write(path("spoofed.json"), &spoofed).expect("written");
    let source = format!("kafka://{brokers}/spoofed?until=end");
    let mut all = arguments(1, &source, &path("a.nxs"), &[]);
    let at = all.iter().position(|a| a == "--geometry").expect("given") + 1;
    all[at] = path("spoofed.json");
    let got = said(&all);
    let spoofs = spoofed != text;
    assert_eq!(got.code == 2 && got.err.contains("67.1 s"), spoofs, "{}", got.err);
    assert!(spoofs, "the vector says so: {text}");
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_opened() {
    for (url, words) in [
        ("kafka://h", "kafka://HOST"),
        ("kafka://h/t?group=", "group= is not allowed; a name"),
        ("kafka://h/t?from=yesterday", "oldest or newest"),
        ("kafka://h/t?until=noon", "until=noon is not allowed; end"),
        ("kafka://h/t?partitions=a", "numbers"),
        ("kafka://h/t?groups=a", "known are"),
        ("kafka://h/t?group=a&partitions=1", "leave"),
    ] {
        let said = say(&["run", "--source", url, "--sink", "null", "--web", "off"]);
        assert_eq!((said.code, said.err.contains(words)), (2, true), "{url}: {}", said.err);
    }
    // Settings of librdkafka: those that would lose, duplicate or skip packets, and unknown ones.
    for (set, words) in [
        ("enable.auto.commit=true", "once the events of what was read are safe"),
        ("enable.auto.offset.store=true", "once the events of what was read are safe"),
        ("auto.offset.reset=latest", "from=oldest or from=newest"),
        ("group.id=other", "group=NAME"),
        ("isolation.level=read_uncommitted", "read_committed"),
        ("bootstrap.servers=other", "the brokers in the URL"),
        ("no.such=1", "No such configuration property"),
        ("fetch.min.bytes=many", "fetch.min.bytes = many"),
        ("no.such.password=hush", "no.such.password = (hidden)"),
    ] {
        let set = format!("source.options.{set}");
        let said = say(&["run", "--source", "kafka://h/t?group=a", "--web", "off", "--set", &set]);
        let seen = said.err.contains(words) && said.err.contains("source.options");
        assert_eq!((said.code, seen), (2, true), "{set}: {}", said.err);
        assert!(!said.err.contains("hush"), "{}", said.err);
    }
    let udp = ["run", "--source", "udp://127.0.0.1:0", "--web", "off", "--set"];
    let said = say(&[&udp[..], &["source.options.sasl.password=hush"]].concat());
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("only with kafka://") && !said.err.contains("hush"), "{}", said.err);

    let base = ["run", "--web", "off", "--set", "output.raw.brokers=h", "--set"];
    let base =
        [&base[..], &["output.raw.topic=t", "--set", "output.raw.spool=s", "--set"]].concat();
    for (set, words) in [
        ("output.raw.every=0", "1 (all packets)"),
        ("output.raw.buffer=1MiB", "8MiB to 16GiB"),
        ("output.raw.spool_size=1MiB", "16 MiB"),
        ("output.raw.drain=soon", "output.raw.drain = soon"),
        ("output.raw.topic=a b", "not a topic"),
    ] {
        let said = say(&[&base[..], &[set]].concat());
        assert_eq!((said.code, said.err.contains(words)), (2, true), "{set}: {}", said.err);
    }
}

#[test]
fn the_end_waits_for_the_broker_as_long_as_it_is_told_and_the_next_run_sends_the_rest() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: &str| dir.path().join(name).display().to_string();
    let cluster = cluster(&["late"]);
    let source = format!("pcap:{}?flat-out", vector(KINDS[0].2));
    // No broker listens at port 1.
    let mut options = raw("127.0.0.1:1", "late", &path("spool"), 1);
    options.extend(["--set", "output.raw.drain=1ms"].map(str::to_owned));
    let first = said(&arguments(0, &source, &path("a.nxs"), &options));
    let packets = first.counter("receive.packets");
    assert_eq!(first.counter("sink.raw.queued"), packets, "{}", first.err);
    assert!(first.err.contains("the next start sends them"), "{}", first.err);
    let mut options = raw(&cluster.bootstrap_servers(), "late", &path("spool"), 1);
    options.extend(["--set", "output.raw.drain=100s"].map(str::to_owned));
    let second = said(&arguments(0, &source, &path("b.nxs"), &options));
    assert_eq!(second.counter("sink.raw.recovered"), packets, "{}", second.err);
    assert_eq!(second.counter("sink.raw.written"), 2 * packets, "{}", second.err);
}

#[test]
fn what_waits_for_a_broker_is_on_the_page_and_in_the_metrics() {
    let dir = tempfile::tempdir().expect("a folder");
    let [spool, packets] = ["events", "packets"].map(|n| dir.path().join(n).display().to_string());
    let packets = format!("output.raw.spool={packets}");
    // Nobody listens at port 1, and a second sender never comes. Topics follow from the detector's name.
    let base = ["run", "--source", "udp://127.0.0.1:0", "--detector", "sequence", "--senders", "2"];
    let events = ["--kafka", "kafka://127.0.0.1:1", "--spool", &spool, "--web", "127.0.0.1:0"];
    let raw = ["--set", "output.raw.brokers=127.0.0.1:1", "--set", &packets];
    let mut run = Service::start(&[&base[..], &events, &raw].concat());
    let known =
        |line: &str| line.contains("kafka://127.0.0.1:1/sequence_detector as").then_some(());
    run.wait_for("the topic of events", known);
    let known = |line: &str| line.contains(" to topic sequence_detector_samples at").then_some(());
    run.wait_for("the topic of packets", known);
    let (page, port) = (run.page(), run.udp_port());
    let to = format!("udp://127.0.0.1:{port}");
    let send = ["send", "--to", &to, "--source", "sequence", "--size", "500", "--count", "100"];
    let sent = say(&[&send[..], &["--rate", "20kpps"]].concat());
    assert_eq!(sent.code, 0, "{}", sent.err);
    // The end mark is sent five times.
    let shown = [
        ("/metrics", "\nfullcount_raw_spool_messages", " 105\n"),
        ("/api/state", "raw spool 105 messages, ", " s: not confirmed by the broker yet"),
    ];
    for (path, begin, end) in shown {
        let begun = std::time::Instant::now();
        let found = |text: &str| {
            let at = text.find(begin).map(|at| &text[at + begin.len()..]);
            at.and_then(|rest| rest.find(end)).is_some_and(|length| length < 80)
        };
        loop {
            let text = get(&page, path);
            if found(&text) {
                break;
            }
            assert!(begun.elapsed() < service::PATIENCE, "{path} never had {begin:?}: {text}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
