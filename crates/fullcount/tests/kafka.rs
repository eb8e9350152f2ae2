//! The service against a real Kafka: every event on the topic once and in order, whoever is killed.
//!
//! Expected events come from packets that are made here; what is on the topic is read back and compared with all of
//! them. Needs Java and the jars that `cargo xtask test` (or `cargo xtask kafka`) has fetched; without them it says so,
//! and fails with CI=true.

#[path = "../../../xtask/src/kafka/cluster.rs"]
mod cluster;
mod service;

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cluster::Cluster;
use fullcount_out::flat::{self, Message};
use fullcount_out::kafka::{Begin, Consumer, ConsumerOptions, Polled};
use service::{Service, capture, get, say};

/// Longest wait for anything that should take seconds.
const PATIENCE: Duration = Duration::from_secs(120);
/// 2026-01-01, ns since 1970.
const EPOCH: i64 = 1_767_225_600_000_000_000;
/// Events of a packet.
const EVENTS: u32 = 100;
/// Pixels of channel 10 of ASICs 0, 1 and 2, with their byte in a packet.
const PIXELS: [(u8, i32); 3] = [(0x0a, 14), (0x4a, 19), (0x8a, 46)];

/// The jars of Apache Kafka, or the reason why there are none.
fn jars() -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("kafka");
    let fetched = here.join("fetched.xml").is_file().then(|| here.join("jars"));
    let found = std::env::var_os("FULLCOUNT_KAFKA_JARS").map(PathBuf::from).or(fetched);
    if found.is_none() {
        let reason = "no jars of Apache Kafka: `cargo xtask test kafka` fetches them with Maven";
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{reason}");
        println!("skipped: {reason}");
    }
    found
}

/// Brokers in a folder of their own.
fn brokers(count: usize) -> Option<(Cluster, tempfile::TempDir)> {
    let jars = jars()?;
    let folder = tempfile::tempdir().expect("a folder");
    let cluster =
        Cluster::start(&jars, folder.path(), count, None).unwrap_or_else(|e| panic!("{e}"));
    Some((cluster, folder))
}

/// Event n: 1 µs behind the one before it.
fn event(n: u32) -> (i64, i32) {
    (EPOCH + i64::from(n) * 1_000, PIXELS[n as usize % 3].1)
}

/// SoNDe packets (type 0xD6) with events 0 to 100 times their number.
fn packets(count: u32) -> Vec<Vec<u8>> {
    let packet = |k: u32| {
        let mut p = vec![0x01, 0xd6];
        p.extend((k as u16 & 0x3fff).to_be_bytes());
        p.extend((k * EVENTS * 1_000).to_be_bytes());
        p.extend((1 + 5 * EVENTS as u16).to_be_bytes());
        p.push(EVENTS as u8);
        for n in k * EVENTS..(k + 1) * EVENTS {
            p.extend((n * 1_000).to_be_bytes());
            p.push(PIXELS[n as usize % 3].0);
        }
        p
    };
    (0..count).map(packet).collect()
}

/// A consumer that keeps what it has read.
struct Checker {
    consumer: Consumer,
    topic: String,
    /// Offset behind the last message.
    next: i64,
    /// Message ids in order of offsets.
    ids: Vec<u64>,
    /// Events in order of offsets.
    events: Vec<(i64, i32)>,
}

impl Checker {
    fn new(brokers: &str, topic: &str) -> Checker {
        let consumer = Consumer::new(&ConsumerOptions::new(brokers)).expect("settings");
        consumer.assign(&[(topic, 0, Begin::Oldest)]).expect("assigned");
        Checker { consumer, topic: topic.to_owned(), next: 0, ids: vec![], events: vec![] }
    }

    /// Reads the next message, if one comes soon.
    fn read_one(&mut self) {
        let polled = self.consumer.poll(Duration::from_millis(200)).expect("readable");
        let Polled::Message(message) = polled else { return };
        self.next = message.offset() + 1;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let sent = message.timestamp_ms().expect("a timestamp");
        // Wall clock of sending, in ms: neither of the events nor in another unit.
        assert!((now.as_millis() as i64 - sent).abs() < 600_000, "{sent}");
        match flat::decode(message.payload()).expect("decodes") {
            Message::Ev44(m) => {
                assert_eq!(
                    (m.source_name, m.check(), m.reference_time.len()),
                    ("sonde", Ok(()), 1)
                );
                self.ids.push(m.message_id as u64);
                let columns = m.time_of_flight.iter().zip(&m.pixel_id);
                for (times, pixels) in columns {
                    let one = |(t, p): (&i32, &i32)| (m.reference_time[0] + i64::from(*t), *p);
                    self.events.extend(times.iter().zip(pixels.iter()).map(one));
                }
            }
            Message::Ev42(m) => {
                self.ids.push(m.message_id);
                for (times, pixels) in m.time_of_flight.iter().zip(&m.detector_id) {
                    let one =
                        |(t, p): (&u32, &u32)| (m.pulse_time as i64 + i64::from(*t), *p as i32);
                    self.events.extend(times.iter().zip(pixels.iter()).map(one));
                }
            }
            other => panic!("{:?}", other.schema()),
        }
    }

    /// Reads until there are so many events.
    fn wait_for_events(&mut self, count: usize) {
        let end = Instant::now() + PATIENCE;
        while self.events.len() < count {
            self.read_one();
            assert!(
                Instant::now() < end,
                "{} events of {count} within {PATIENCE:?}",
                self.events.len()
            );
        }
    }

    /// Reads what is left: to the end of the partition as it is now. Whoever sent has ended.
    fn read_all(&mut self) {
        let (_, high) = self.consumer.offsets(&self.topic, 0).expect("the broker answers");
        let end = Instant::now() + PATIENCE;
        while self.next < high {
            self.read_one();
            assert!(Instant::now() < end, "offset {} of {high} within {PATIENCE:?}", self.next);
        }
    }

    /// Messages 1, 2, 3 … and events 0, 1, 2 …: none missing, none twice, in order.
    fn assert_first(&self, count: Option<usize>) {
        let jump = self.ids.iter().zip(1..).find(|&(&id, wanted)| id != wanted);
        assert_eq!(jump, None, "message ids go on by 1");
        let wrong = self.events.iter().zip(0..).position(|(&found, n)| found != event(n));
        assert_eq!(wrong, None, "event {wrong:?} of {}", self.events.len());
        if let Some(count) = count {
            assert_eq!(self.events.len(), count);
        }
    }
}

/// `fullcount run` with what all scenarios share. Messages of 500 events at most.
fn arguments<'a>(source: &'a str, url: &'a str, spool: &'a str) -> Vec<&'a str> {
    let mut all = vec!["run", "--source", source, "--detector", "sonde", "--json"];
    all.extend(["--pulse", "grid(1000Hz)", "--tick", "1ns", "--epoch", "2026-01-01T00:00:00Z"]);
    all.extend(["--kafka", url, "--spool", spool, "--set", "output.kafka.capacity=500"]);
    all.extend(["--set", "output.kafka.open_pulses=1", "--set", "output.kafka.drain=100s"]);
    all.extend(["--set", "output.kafka.options.linger.ms=5"]);
    all
}

#[test]
fn a_capture_is_on_the_topic_once_and_in_order_whatever_schema_and_compression() {
    let Some((cluster, folder)) = brokers(1) else { return };
    let pcap = capture(folder.path(), "events", &packets(300));
    for (topic, more) in [
        ("plain_detector", &[][..]),
        ("lz4_detector", &["--set", "output.kafka.compression=lz4"]),
        ("zstd_detector", &["--set", "output.kafka.compression=zstd"]),
        ("old_detector", &["--set", "output.kafka.schema=ev42"]),
    ] {
        let url = format!("kafka://{}/{topic}", cluster.bootstrap());
        let (source, spool) = (format!("pcap:{pcap}?flat-out"), folder.path().join(topic));
        let spool = spool.display().to_string();
        let mut all = arguments(&source, &url, &spool);
        all.extend(["--web", "off"]);
        all.extend(more);
        let said = say(&all);
        assert_eq!(said.code, 0, "{topic}: {}", said.err);
        let summary = said.summary();
        assert_eq!(
            (&summary["balance"], &summary["events"]),
            (&0.into(), &30_000.into()),
            "{topic}"
        );
        assert_eq!(summary["outputs"]["kafka"]["events"], 30_000, "{topic}");
        let mut checker = Checker::new(&cluster.bootstrap(), topic);
        checker.read_all();
        checker.assert_first(Some(30_000));
        assert!(checker.ids.len() >= 60, "{} messages", checker.ids.len());
    }
    a_group_goes_on_where_it_committed(&cluster.bootstrap(), "plain_detector");
    two_instances_share_a_topic(&cluster.bootstrap(), folder.path());
}

/// Each has half of the packets, and a spool of its own: together the topic holds what one would have sent.
fn two_instances_share_a_topic(brokers: &str, folder: &Path) {
    let url = format!("kafka://{brokers}/shared_detector");
    let all = packets(300);
    let (first, second) = all.split_at(150);
    let running = [first, second].map(|half| {
        let name = format!("from-{}", half[0][3]);
        let source = format!("pcap:{}?flat-out", capture(folder, &name, half));
        let spool = folder.join(&name).display().to_string();
        let mut all = arguments(&source, &url, &spool);
        all.extend(["--web", "off"]);
        Service::start(&all)
    });
    for service in running {
        let said = service.end();
        assert_eq!((said.code, said.counter("sink.kafka.events")), (0, 15_000), "{}", said.err);
    }
    let mut checker = Checker::new(brokers, "shared_detector");
    checker.read_all();
    // Two rows of running numbers, mixed; each event once.
    checker.ids.sort_unstable();
    let rows: Vec<u64> = (1..=checker.ids.len() as u64 / 2).flat_map(|id| [id, id]).collect();
    assert_eq!(checker.ids, rows);
    checker.events.sort_unstable();
    assert!(checker.events.iter().copied().eq((0..30_000).map(event)));
}

/// Members come and go; the next one begins where the last one said that all is safe.
fn a_group_goes_on_where_it_committed(brokers: &str, topic: &str) {
    let mut next = 0;
    for _ in 0..3 {
        let mut options = ConsumerOptions::new(brokers);
        options.group = Some("writers".into());
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

#[test]
fn a_broker_killed_three_times_costs_no_event_and_doubles_none() {
    let Some((mut cluster, folder)) = brokers(1) else { return };
    let url = format!("kafka://{}/sonde_detector", cluster.bootstrap());
    let spool = folder.path().join("spool").display().to_string();
    let mut all = arguments("udp://127.0.0.1:0", &url, &spool);
    all.extend(["--web", "127.0.0.1:0"]);
    let mut service = Service::start(&all);
    let target = ("127.0.0.1", service.udp_port());
    let page = service.page();
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let all = packets(900);
    let mut checker = Checker::new(&cluster.bootstrap(), "sonde_detector");
    let mut sent = 0;
    let mut send = |count: usize| {
        for packet in &all[sent..sent + count] {
            socket.send_to(packet, target).expect("sent");
        }
        sent += count;
    };
    for round in 0..3 {
        send(150);
        // All but what is still filling; then the broker goes in the middle of the next.
        checker.wait_for_events((round * 300 + 100) * EVENTS as usize);
        send(50);
        cluster.kill(0);
        send(100);
        wait_for_counter(&page, "receive.packets", (round as u64 + 1) * 300);
        cluster.restart(0).unwrap_or_else(|e| panic!("{e}"));
    }
    service.interrupt();
    let said = service.end();
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(said.summary()["balance"], 0);
    assert_eq!(said.counter("kafka.spool.messages"), 0);
    checker.read_all();
    checker.assert_first(Some(90_000));
}

/// A counter as the page's `/metrics` gives it.
fn counter(page: &str, name: &str) -> u64 {
    let metrics = get(page, "/metrics");
    let name = format!("fullcount_{}", name.replace('.', "_"));
    let rest = |l: &str| l.strip_prefix(&name).is_some_and(|r| r.starts_with([' ', '{', '_']));
    let line = metrics.lines().find(|l| rest(l));
    let line = line.unwrap_or_else(|| panic!("no {name} in\n{metrics}"));
    line.rsplit(' ').next().and_then(|v| v.parse::<f64>().ok()).expect("a number") as u64
}

fn wait_for_counter(page: &str, name: &str, least: u64) {
    let end = Instant::now() + PATIENCE;
    while counter(page, name) < least {
        assert!(Instant::now() < end, "{name} = {} of {least}", counter(page, name));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_service_killed_three_times_sends_every_appended_message_once() {
    let Some((mut cluster, folder)) = brokers(1) else { return };
    let url = format!("kafka://{}/sonde_detector", cluster.bootstrap());
    let spool = folder.path().join("spool").display().to_string();
    let all = packets(900);
    let mut checker = Checker::new(&cluster.bootstrap(), "sonde_detector");
    let mut first = 0;
    let mut appended = 0;
    // Killed while it sends; while it spools and the broker is gone; while it works off what it had spooled.
    for round in 0..3 {
        if round == 1 {
            cluster.kill(0);
        }
        let mut arguments = arguments("udp://127.0.0.1:0", &url, &spool);
        arguments.extend(["--web", "127.0.0.1:0"]);
        let mut service = Service::start(&arguments);
        let target = ("127.0.0.1", service.udp_port());
        let page = service.page();
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        for packet in &all[first..first + 200] {
            socket.send_to(packet, target).expect("sent");
        }
        wait_for_counter(&page, "sink.kafka.in", 200 * u64::from(EVENTS));
        let cut =
            ["pulse", "capacity", "timer"].map(|c| counter(&page, &format!("sink.kafka.cut.{c}")));
        appended += cut.iter().sum::<u64>();
        if round == 2 {
            cluster.restart(0).unwrap_or_else(|e| panic!("{e}"));
        }
        service.child.kill().expect("killed");
        drop(service);
        // What no message held yet died with it: the next run begins with a new pulse behind it.
        first += 300;
    }
    // The last one only sends what the others left. What they knew to be confirmed is lost too: the topic knows it.
    std::fs::remove_file(Path::new(&spool).join("settled")).expect("written by then");
    let mut arguments = arguments("udp://127.0.0.1:0", &url, &spool);
    arguments.extend(["--web", "127.0.0.1:0"]);
    let mut service = Service::start(&arguments);
    let page = service.page();
    let end = Instant::now() + PATIENCE;
    while counter(&page, "kafka.spool.messages") > 0 {
        assert!(
            Instant::now() < end,
            "{} messages are left",
            counter(&page, "kafka.spool.messages")
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    service.interrupt();
    let said = service.end();
    assert_eq!(said.code, 0, "{}", said.err);
    checker.read_all();
    let jump = checker.ids.iter().zip(1..).find(|&(&id, wanted)| id != wanted);
    assert_eq!(jump, None, "message ids go on by 1: each once, none missing");
    assert!(checker.ids.len() as u64 >= appended, "{} of {appended} messages", checker.ids.len());
    // Of each round a prefix of what was sent, in order.
    let mut wanted = (0..).map(event).peekable();
    let mut gaps = 0;
    for &found in &checker.events {
        if wanted.peek() != Some(&found) {
            gaps += 1;
            assert!(wanted.any(|w| w == found), "{found:?} came a second time, or was never sent");
        } else {
            wanted.next();
        }
    }
    assert!(gaps <= 2, "{gaps}: one where each round after the first begins");
}

#[test]
fn an_election_among_three_brokers_costs_no_event_and_doubles_none() {
    let Some((mut cluster, folder)) = brokers(3) else { return };
    let url = format!("kafka://{}/sonde_detector", cluster.bootstrap());
    let spool = folder.path().join("spool").display().to_string();
    let mut all = arguments("udp://127.0.0.1:0", &url, &spool);
    all.extend(["--web", "127.0.0.1:0"]);
    let mut service = Service::start(&all);
    let target = ("127.0.0.1", service.udp_port());
    let page = service.page();
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let all = packets(600);
    let mut checker = Checker::new(&cluster.bootstrap(), "sonde_detector");
    let mut sent = 0;
    let mut send = |count: usize| {
        for packet in &all[sent..sent + count] {
            socket.send_to(packet, target).expect("sent");
        }
        sent += count;
    };
    // Each in turn: one of them leads.
    for broker in 0..3 {
        send(100);
        checker.wait_for_events((broker * 200 + 80) * EVENTS as usize);
        cluster.kill(broker);
        send(100);
        // The other two take over before this one is back.
        checker.wait_for_events((broker * 200 + 180) * EVENTS as usize);
        cluster.restart(broker).unwrap_or_else(|e| panic!("{e}"));
    }
    wait_for_counter(&page, "receive.packets", 600);
    service.interrupt();
    let said = service.end();
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(said.summary()["balance"], 0);
    checker.read_all();
    checker.assert_first(Some(60_000));
}
