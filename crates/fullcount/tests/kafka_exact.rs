//! A replay whose service is killed repeatedly: every event is on the topic once and in order; and a writer whose topic
//! expires messages before they are read, or is deleted.
//!
//! Expected events come from packets that are made here; the topic is read back and compared with all of them. The
//! moment of a kill is random, and must not matter. Needs Java and the jars that `cargo xtask test` has fetched;
//! without them it is skipped with a message, and fails with CI=true. Source: `docs/kafka.md`,
//! `docs/decisions/0013-replays.md`.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::broker::{BrokerCluster, EVENTS, PATIENCE, jars, wait_for_counter};
use crate::service::{Said, Service, capture, say};
use fullcount_kafka::{Begin, Consumer, ConsumerOptions, KafkaSettings, Polled, Publisher};
use fullcount_messages::{Events44, Message, RawReadout, RunStart, RunStop};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer as _};
use rdkafka::{Offset, TopicPartitionList};
use serde_json::json;

/// 2026-01-01, ns since 1970.
const EPOCH: i64 = 1_767_225_600_000_000_000;
/// Packets of each scenario.
const PACKETS: u32 = 300;
/// Pixels of channel 10 of ASICs 0, 1 and 2, with their byte in a packet.
const PIXELS: [(u8, i32); 3] = [(0x0a, 14), (0x4a, 19), (0x8a, 46)];

/// Event n: 1 µs after the one before it.
fn event(n: u32) -> (i64, i32) {
    (EPOCH + i64::from(n) * 1_000, PIXELS[n as usize % 3].1)
}

/// The SoNDe packet (type 0xD6) with the k-th hundred of events, the `number`-th of its sender.
fn packet(k: u32, number: u32) -> Vec<u8> {
    let mut p = vec![0x01, 0xd6];
    p.extend((number as u16 & 0x3fff).to_be_bytes());
    p.extend((k * EVENTS * 1_000).to_be_bytes());
    p.extend((1 + 5 * EVENTS as u16).to_be_bytes());
    p.push(EVENTS as u8);
    for n in k * EVENTS..(k + 1) * EVENTS {
        p.extend((n * 1_000).to_be_bytes());
        p.push(PIXELS[n as usize % 3].0);
    }
    p
}

/// Message ids and events of a topic, in order of offsets.
fn topic(brokers: &str, topic: &str) -> (Vec<u64>, Vec<(i64, i32)>) {
    let consumer = Consumer::new(&ConsumerOptions::new(brokers)).expect("settings");
    consumer.assign(&[(topic, 0, Begin::Oldest)]).expect("assigned");
    let (_, high) = consumer.offsets(topic, 0).expect("the broker answers");
    let (mut ids, mut events, mut next) = (vec![], vec![], 0);
    let end = Instant::now() + PATIENCE;
    while next < high {
        assert!(Instant::now() < end, "offset {next} of {high} within {PATIENCE:?}");
        let polled = consumer.poll(Duration::from_millis(200)).expect("readable");
        let Polled::Message(message) = polled else { continue };
        next = message.offset() + 1;
        assert_eq!(message.header("fc.note"), None, "notes stay in the spool");
        let Ok(Message::Ev44(m)) = fullcount_messages::decode(message.payload()) else {
            panic!("ev44")
        };
        ids.push(m.message_id as u64);
        for (times, pixels) in m.time_of_flight.iter().zip(&m.pixel_id) {
            let one = |(t, p): (&i32, &i32)| (m.reference_time[0] + i64::from(*t), *p);
            events.extend(times.iter().zip(pixels.iter()).map(one));
        }
    }
    (ids, events)
}

/// `fullcount run` with what all scenarios share. Messages of 500 events at most.
fn arguments<'a>(source: &'a str, url: &'a str, spool: &'a str) -> Vec<&'a str> {
    let mut all = vec!["run", "--source", source, "--detector", "sonde", "--json"];
    all.extend(["--pulse", "grid(1000Hz)", "--tick", "1ns", "--epoch", "2026-01-01T00:00:00Z"]);
    all.extend(["--kafka", url, "--spool", spool, "--set", "output.kafka.capacity=500"]);
    all.extend(["--set", "output.kafka.drain=100s", "--set", "output.kafka.options.linger.ms=5"]);
    all.extend(["--web", "127.0.0.1:0"]);
    all
}

/// Runs the service until it has taken this many events and some more, then kills it. Returns how many replays are
/// complete: 1 if the machine was so slow that the kill came too late.
fn killed(arguments: &[&str], events: u64) -> usize {
    let mut service = Service::start(arguments);
    let page = service.page();
    // Somewhere: a message is cut about every 400 events.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let more = u64::from(now.subsec_micros()) % 1_200;
    wait_for_counter(&page, "sink.kafka.in", events + more);
    service.child.kill();
    usize::from(service.end().code == 0)
}

/// None missing, none twice, in order.
fn assert_all(events: &[(i64, i32)]) {
    let wrong = events.iter().zip(0..).position(|(&found, n)| found != event(n));
    assert_eq!(wrong, None, "event {wrong:?} of {}", events.len());
    assert_eq!(events.len(), (PACKETS * EVENTS) as usize);
}

fn assert_balanced(said: &Said) {
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(said.summary()["balance"], 0);
    assert_eq!(said.counter("kafka.spool.messages"), 0);
    assert_eq!(said.counter("sink.kafka.in"), u64::from(PACKETS * EVENTS));
}

#[test]
fn a_replay_killed_three_times_is_on_the_topic_once_and_in_order() {
    let Some(jars) = jars() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = BrokerCluster::start(&jars, folder.path(), 1, None);
    let mut cluster = cluster.unwrap_or_else(|e| panic!("{e}"));
    a_capture(&mut cluster, folder.path());
    a_topic(&cluster, folder.path());
    a_writer_whose_topic_forgets(&cluster.bootstrap(), folder.path());
    a_writer_whose_topic_is_deleted(&cluster.bootstrap(), folder.path());
}

fn a_capture(cluster: &mut BrokerCluster, folder: &Path) {
    let packets: Vec<Vec<u8>> = (0..PACKETS).map(|k| packet(k, k)).collect();
    let pcap = capture(folder, "events", &packets);
    // 5 ms a packet: 1.5 s in all.
    let source = format!("pcap:{pcap}?speed=0.0002");
    let url = format!("kafka://{}/capture_detector", cluster.bootstrap());
    let spool = folder.join("capture").display().to_string();
    // Pulses leave in their order.
    let in_order = ["--set", "output.kafka.open_pulses=1"];
    let all = [arguments(&source, &url, &spool), in_order.to_vec()].concat();
    // While it sends; while it spools and the broker is down; while it skips known events, or soon after.
    let mut whole = killed(&all, 8_000);
    cluster.kill(0);
    whole += killed(&all, 18_000);
    whole += killed(&all, 1_000);
    cluster.restart(0).unwrap_or_else(|e| panic!("{e}"));
    let last = say(&all);
    assert_balanced(&last);
    let resumed = last.counter("sink.kafka.resumed");
    assert!(resumed >= 15_000, "{resumed}");
    let said = "replay: goes on behind ";
    assert!(last.err.contains(said), "{}", last.err);
    let (ids, events) = topic(&cluster.bootstrap(), "capture_detector");
    let jump = ids.iter().zip(1..).find(|&(&id, wanted)| id != wanted);
    assert_eq!(jump, None, "message ids go on by 1");
    whole += 1;
    let assert_whole = |events: &[(i64, i32)], whole: usize| {
        let runs: Vec<_> = events.chunks((PACKETS * EVENTS) as usize).collect();
        assert_eq!(runs.len(), whole);
        runs.into_iter().for_each(assert_all);
    };
    assert_whole(&events, whole);

    // It came to its end: once more is once more.
    let flat_out = format!("pcap:{pcap}?flat-out");
    let again = say(&[arguments(&flat_out, &url, &spool), in_order.to_vec()].concat());
    assert_balanced(&again);
    assert_eq!(again.counter("sink.kafka.resumed"), 0);
    // Interrupted as by Ctrl-C: it continues, or starts again on request.
    let mut service = Service::start(&all);
    let page = service.page();
    wait_for_counter(&page, "sink.kafka.in", 3_000);
    service.interrupt();
    let said = service.end();
    assert_eq!(said.code, 0, "{}", said.err);
    let interrupted = said.err.contains("the next start with it goes on there");
    let sent = if interrupted { said.counter("sink.kafka.events") } else { 0 };
    whole += usize::from(!interrupted);
    let rest = say(&all);
    assert_balanced(&rest);
    assert_eq!(rest.counter("sink.kafka.resumed"), sent, "{}", rest.err);
    let (_, events) = topic(&cluster.bootstrap(), "capture_detector");
    assert_whole(&events, whole + 2);
}

/// Packets of three senders on a topic of four partitions, which come while they are read.
fn a_topic(cluster: &BrokerCluster, folder: &Path) {
    let mock: MockCluster<'static, DefaultProducerContext> = MockCluster::new(1).expect("a mock");
    mock.create_topic("raw", 4, 1).expect("a topic");
    let raw = mock.bootstrap_servers();
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &raw).set("linger.ms", "1");
    let producer: BaseProducer = config.create().expect("a producer");
    let send = |packets: std::ops::Range<u32>| {
        for k in packets {
            let sender = format!("10.0.0.{}:50011", 1 + k % 3);
            let payload = packet(k, k / 3);
            let raw =
                RawReadout { source_name: "x", message_id: k.into(), raw_data: Some(&payload) };
            let payload = Message::Ar51(raw).encode();
            let header = Header { key: "fc.src", value: Some(sender.as_str()) };
            let record = BaseRecord::<str, [u8]>::to("raw").key(&sender).payload(&payload);
            // Two of them share a partition.
            let record = record.partition((k % 3 / 2) as i32 * 2);
            producer.send(record.headers(OwnedHeaders::new().insert(header))).expect("queued");
        }
        producer.flush(PATIENCE).expect("sent");
    };
    let source = format!("kafka://{raw}/raw");
    let url = format!("kafka://{}/topic_detector", cluster.bootstrap());
    let spool = folder.join("topic").display().to_string();
    let all = arguments(&source, &url, &spool);
    for round in 0..3 {
        send(round * 80..(round + 1) * 80);
        let whole = killed(&all, u64::from(round * 80 + 20) * u64::from(EVENTS));
        assert_eq!(whole, 0, "it waits for more");
    }
    send(240..PACKETS);
    let mut service = Service::start(&all);
    let page = service.page();
    wait_for_counter(&page, "sink.kafka.in", u64::from(PACKETS * EVENTS));
    service.interrupt();
    let said = service.end();
    assert_balanced(&said);
    assert!(said.counter("sink.kafka.resumed") > 0, "{}", said.err);
    let (ids, mut events) = topic(&cluster.bootstrap(), "topic_detector");
    let jump = ids.iter().zip(1..).find(|&(&id, wanted)| id != wanted);
    assert_eq!(jump, None, "message ids go on by 1");
    // Each sender's in order, with open pulses that take turns: by pulse.
    for sender in 0..3 {
        let of = |&(time, _): &(i64, i32)| ((time - EPOCH) / 1_000) as u32 / EVENTS % 3 == sender;
        for pulse in 0..i64::from(PACKETS / 10) {
            let mine = events.iter().copied().filter(of);
            let mine = mine.filter(|(time, _)| (time - EPOCH) / 1_000_000 == pulse);
            assert!(mine.is_sorted(), "sender {sender}, pulse {pulse}");
        }
    }
    events.sort_unstable();
    assert_all(&events);

    // A replay of a topic that has lost its first messages cannot continue; this is reported, with what to do.
    let gone = spool.clone() + "/run";
    let text = std::fs::read_to_string(&gone).expect("interrupted, not finished");
    std::fs::write(&gone, text.replace("\"0\":0", "\"0\":100000")).expect("written");
    let refused = say(&all);
    assert_eq!(refused.code, 1, "{}", refused.err);
    assert!(refused.err.contains("--replay restart"), "{}", refused.err);
}

fn now_ms() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    now.as_millis() as i64
}

/// A writer of a topic of events, which gets its orders from `orders`.
struct Written<'a> {
    brokers: &'a str,
    topic: &'a str,
    /// None while there is no publisher: one with a topic asks for it repeatedly.
    publisher: Option<Publisher>,
    data: String,
    writer: Option<Service>,
}

/// Polls at this interval; each wait has its own bound and its own message.
fn until(what: &str, pause: Duration, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(pause);
    }
}

impl<'a> Written<'a> {
    /// A run that has begun; the topic has one event, which is older than it.
    fn begun(brokers: &'a str, topic: &'a str, folder: &Path) -> Written<'a> {
        let data = folder.join(topic);
        std::fs::create_dir(&data).expect("a folder");
        let data = data.display().to_string();
        let mut written = Written { brokers, topic, publisher: None, data, writer: None };
        written.start_publisher();
        // The first message creates a topic; the stop has no addressee.
        written.events(0..1);
        written.stop("none");
        written.start_writer();
        let structure = json!({"children": [{"type": "group", "name": "entry",
            "attributes": {"NX_class": "NXentry"}, "children": [
            {"type": "group", "name": "bank_events", "attributes": {"NX_class": "NXevent_data"},
             "children": [{"module": "ev44", "config": {"topic": topic, "source": "bank"}}]}]}]});
        let structure = structure.to_string();
        let start = RunStart {
            start_time: now_ms() as u64,
            stop_time: 0,
            run_name: None,
            instrument_name: None,
            nexus_structure: Some(&structure),
            job_id: Some(topic),
            broker: None,
            service_id: None,
            filename: Some("run.nxs"),
            n_periods: 1,
            detector_spectrum_map: None,
            metadata: None,
            control_topic: None,
        };
        // Control topics are read from the writer's start on: the order is given until it is taken.
        until(&format!("the writer takes job {topic}"), Duration::from_millis(500), || {
            let taken = written.journal().exists();
            if !taken {
                written.send("orders", &Message::Pl72(start.clone()));
            }
            taken
        });
        written
    }

    fn start_publisher(&mut self) {
        let made = Publisher::new(self.brokers, &KafkaSettings::default(), |_| ());
        self.publisher = Some(made.expect("settings"));
    }

    fn publisher(&self) -> &Publisher {
        self.publisher.as_ref().expect("started")
    }

    fn send(&self, topic: &str, message: &Message<'_>) {
        self.publisher().publish(topic, &message.encode(), now_ms(), PATIENCE).expect("taken");
        self.publisher().flush(PATIENCE).expect("sent");
    }

    /// One a message, with the pixels of these numbers.
    fn events(&self, range: std::ops::Range<i32>) {
        for n in range {
            let message = Events44 {
                source_name: "bank",
                message_id: n.into(),
                reference_time: vec![now_ms() * 1_000_000].into(),
                reference_time_index: vec![0].into(),
                time_of_flight: Some(vec![n].into()),
                pixel_id: Some(vec![n + 1].into()),
            };
            let value = Message::Ev44(message).encode();
            self.publisher().publish(self.topic, &value, now_ms(), PATIENCE).expect("taken");
        }
        self.publisher().flush(PATIENCE).expect("sent");
    }

    fn stop(&self, job: &str) {
        let stop = RunStop {
            stop_time: 0,
            run_name: None,
            job_id: Some(job),
            service_id: None,
            command_id: Some("stop"),
        };
        self.send("orders", &Message::S6s4t(stop));
    }

    fn start_writer(&mut self) {
        let all = ["write", "--brokers", self.brokers, "--folder", &self.data];
        let more = ["--control", "orders", "--service-id", "w", "--files", "1", "--json"];
        let fast = ["--leeway", "2s", "--flush", "100ms"];
        self.writer = Some(Service::start(&[&all[..], &more, &fast].concat()));
    }

    fn writer(&mut self) -> &mut Service {
        self.writer.as_mut().expect("started")
    }

    fn journal(&self) -> std::path::PathBuf {
        Path::new(&self.data).join(format!(".fullcount-write/w/{}.progress", self.topic))
    }

    /// Waits until it is written down that the next message to be read is this one.
    fn wait_until_read(&self, next: i64) {
        let words = format!("\"offset\":{next}");
        until(&format!("{}: read up to {next}", self.topic), Duration::from_millis(20), || {
            std::fs::read_to_string(self.journal()).is_ok_and(|text| text.contains(&words))
        });
    }

    /// Stops the run: returns the writer's output, and the pixels in the file.
    fn finish(mut self) -> (Said, Vec<i32>) {
        self.stop(self.topic);
        let said = self.writer.take().expect("started").end();
        let path = Path::new(&self.data).join("run.nxs");
        let file = hdf5_metno::File::open(path).expect("complete");
        let pixels = file.dataset("/entry/bank_events/event_id").unwrap().read_raw().unwrap();
        let gone = file.dataset("/entry/fullcount/messages_gone").unwrap();
        let counted = said.counter("write.gone");
        assert_eq!(gone.read_scalar::<u64>().unwrap(), counted);
        (said, pixels)
    }
}

fn admin(brokers: &str) -> AdminClient<DefaultClientContext> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers);
    config.create().expect("a client")
}

/// While a writer is down the broker deletes messages that it has not read: exactly these are counted and reported, the
/// others are written.
fn a_writer_whose_topic_forgets(brokers: &str, folder: &Path) {
    let mut run = Written::begun(brokers, "short", folder);
    run.events(1..11);
    run.wait_until_read(11);
    run.writer().child.kill();
    run.writer = None;
    run.events(11..31);
    let mut before = TopicPartitionList::new();
    before.add_partition_offset("short", 0, Offset::Offset(25)).expect("an offset");
    wait_for(admin(brokers).delete_records(&before, &AdminOptions::new())).expect("deleted");

    run.start_writer();
    let told = "14 messages of short/0 were deleted on the broker before they were read";
    run.writer().wait_for("what is gone", |line| line.contains(told).then_some(()));
    let (said, pixels) = run.finish();
    assert_eq!(said.code, 3, "{}", said.err);
    assert_eq!(said.counter("write.gone"), 14);
    // The very first message is before the start of the run.
    assert!(pixels.iter().copied().eq((2..12).chain(26..32)), "{pixels:?}");
}

/// A topic is deleted while a run waits for more of it: this is reported. It is created again: the run continues with
/// it, and reports that something may be missing.
fn a_writer_whose_topic_is_deleted(brokers: &str, folder: &Path) {
    let mut run = Written::begun(brokers, "doomed", folder);
    run.events(1..11);
    run.wait_until_read(11);
    // It would have the topic made again.
    run.publisher = None;
    let admin = admin(brokers);
    let deleted = wait_for(admin.delete_topics(&["doomed"], &AdminOptions::new()));
    assert!(deleted.is_ok_and(|all| all.iter().all(Result::is_ok)), "not deleted");
    let told = "topic \"doomed\" is not on the broker any more";
    run.writer().wait_for("that it is gone", |line| line.contains(told).then_some(()));
    let made = NewTopic::new("doomed", 1, TopicReplication::Fixed(1));
    let made = wait_for(admin.create_topics([&made], &AdminOptions::new()));
    assert!(made.is_ok_and(|all| all.iter().all(Result::is_ok)), "not made anew");
    // Numbers of another producer restart as well.
    run.start_publisher();
    run.events(11..15);
    let told = "topic \"doomed\" was deleted and made anew";
    run.writer().wait_for("that it is another", |line| line.contains(told).then_some(()));
    run.wait_until_read(4);
    let (said, pixels) = run.finish();
    assert_eq!(said.code, 3, "{}", said.err);
    assert_eq!((said.counter("write.topics_gone"), said.counter("write.gone")), (1, 0));
    assert!(said.err.contains("what it held in between may be missing"), "{}", said.err);
    assert!(pixels.iter().copied().eq(2..16), "{pixels:?}");
}

/// Waits for what librdkafka's own threads complete.
fn wait_for<T>(future: impl Future<Output = T>) -> T {
    struct Thread(std::thread::Thread);
    impl std::task::Wake for Thread {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::sync::Arc::new(Thread(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        if let std::task::Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        std::thread::park();
    }
}
