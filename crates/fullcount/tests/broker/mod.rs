//! A real Kafka for scenarios, packets whose events are numbered, and the checker that compares a topic with them.
//!
//! Event n of the sender's list is 1 µs after event n − 1, and its pixel is a function of n: so each event on a topic
//! identifies itself. The encoder is independent. Needs Java and the jars that `cargo xtask test` (or
//! `cargo xtask kafka`) has fetched; without them it is skipped with a message, and fails with CI=true.

#![allow(dead_code)] // each scenario file uses its own part

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

pub use fullcount_broker::BrokerCluster;
use fullcount_kafka::{Begin, Consumer, ConsumerOptions, Polled};
use fullcount_messages::Message;

use crate::service::get;

/// Longest wait without any progress for anything that should take seconds.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// Pause between two looks at something.
const LOOK: Duration = Duration::from_millis(20);
/// 2026-01-01, ns since 1970.
const EPOCH: i64 = 1_767_225_600_000_000_000;
/// Events of a packet.
pub const EVENTS: u32 = 100;
/// Pixels of channel 10 of ASICs 0, 1 and 2, with their byte in a packet.
const PIXELS: [(u8, i32); 3] = [(0x0a, 14), (0x4a, 19), (0x8a, 46)];

/// The jars of Apache Kafka, or the reason why there are none.
pub fn jars() -> Option<PathBuf> {
    let here = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("kafka");
    let fetched = here.join("fetched.xml").is_file().then(|| here.join("jars"));
    let found = std::env::var_os("FULLCOUNT_KAFKA_JARS").map(PathBuf::from).or(fetched);
    if found.is_none() {
        let reason = "no jars of Apache Kafka: `cargo xtask test kafka` fetches them with Maven";
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{reason}");
        println!("skipped: {reason}");
    }
    found
}

/// Brokers in a separate folder.
pub fn brokers(count: usize) -> Option<(BrokerCluster, tempfile::TempDir)> {
    let jars = jars()?;
    let folder = tempfile::tempdir().expect("a folder");
    let cluster =
        BrokerCluster::start(&jars, folder.path(), count, None).unwrap_or_else(|e| panic!("{e}"));
    Some((cluster, folder))
}

/// A broker for tests that only need a running one: `cargo xtask test` starts one for all of them and passes its
/// address in `FULLCOUNT_KAFKA_BROKER`; otherwise the test starts its own. Names on it come from [`fresh`].
pub struct Shared {
    brokers: String,
    _own: Option<(BrokerCluster, tempfile::TempDir)>,
}

impl Shared {
    pub fn new() -> Option<Shared> {
        if let Ok(brokers) = std::env::var("FULLCOUNT_KAFKA_BROKER") {
            return Some(Shared { brokers, _own: None });
        }
        let own = brokers(1)?;
        Some(Shared { brokers: own.0.bootstrap(), _own: Some(own) })
    }

    pub fn bootstrap(&self) -> String {
        self.brokers.clone()
    }
}

/// A name for a topic or a group that no other test has.
pub fn fresh(name: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{name}-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed))
}

/// SoNDe packet k (type 0xD6): events 100 k to 100 k + 99. Its times wrap after 2³² ns, as the format's do.
pub fn packet(k: u32) -> Vec<u8> {
    let time = |n: u32| n.wrapping_mul(1_000).to_be_bytes();
    let mut p = vec![0x01, 0xd6];
    p.extend((k as u16 & 0x3fff).to_be_bytes());
    p.extend(time(k * EVENTS));
    p.extend((1 + 5 * EVENTS as u16).to_be_bytes());
    p.push(EVENTS as u8);
    for n in k * EVENTS..(k + 1) * EVENTS {
        p.extend(time(n));
        p.push(PIXELS[n as usize % 3].0);
    }
    p
}

/// Packets 0 to `count`.
pub fn packets(count: u32) -> Vec<Vec<u8>> {
    (0..count).map(packet).collect()
}

/// Which event of the sender's list this is.
fn number(time_ns: i64, pixel: i32) -> u32 {
    let n = u32::try_from((time_ns - EPOCH) / 1_000).expect("a time of the list");
    assert_eq!(
        (time_ns - EPOCH, pixel),
        (i64::from(n) * 1_000, PIXELS[n as usize % 3].1),
        "event {n} is another one than was sent"
    );
    n
}

/// `fullcount run` with the common options of all scenarios, messages of this many events at most.
pub fn arguments(source: &str, url: &str, spool: &str, events: u32) -> Vec<String> {
    let mut all: Vec<String> = ["run", "--source", source, "--detector", "sonde", "--json"]
        .into_iter()
        .chain(["--pulse", "grid(1000Hz)", "--tick", "1ns", "--epoch", "2026-01-01T00:00:00Z"])
        .chain(["--kafka", url, "--spool", spool])
        .map(str::to_owned)
        .collect();
    let capacity = format!("output.kafka.capacity={events}");
    for set in [&capacity, "output.kafka.open_pulses=1", "output.kafka.drain=100s"] {
        all.extend(["--set".to_owned(), set.to_owned()]);
    }
    all.extend(["--set", "output.kafka.options.linger.ms=5"].map(str::to_owned));
    all
}

/// The content of one producer's messages, in the order of their running numbers.
#[derive(Debug, Default)]
pub struct Row {
    /// Messages whose forerunners are on other partitions and have not been read yet.
    early: BTreeMap<u64, Vec<u32>>,
    /// Running number of the last message of each partition.
    last: BTreeMap<i32, u64>,
    /// Messages 1 to this one have been read.
    pub messages: u64,
    /// Events in them.
    pub events: u64,
    /// Number after that of the last event.
    pub next: u32,
    /// Ranges of missing events of the list: first, and one after the last.
    pub gaps: Vec<(u32, u32)>,
}

impl Row {
    fn take(&mut self, partition: i32, id: u64, events: Vec<u32>) {
        let last = self.last.insert(partition, id).unwrap_or(0);
        assert!(id > last, "message {id} is behind {last} on partition {partition}");
        self.early.insert(id, events);
        while let Some(events) = self.early.remove(&(self.messages + 1)) {
            self.messages += 1;
            for n in events {
                let next = self.next;
                assert!(n >= next, "message {}: event {n} is behind {next}", self.messages);
                if n > next {
                    self.gaps.push((next, n));
                }
                self.next = n + 1;
                self.events += 1;
            }
        }
    }

    /// All running numbers from 1 on are there.
    pub fn assert_no_jump(&self) {
        let behind: Vec<&u64> = self.early.keys().take(3).collect();
        assert!(
            behind.is_empty(),
            "message {} is missing; {behind:?} are there",
            self.messages + 1
        );
    }
}

/// Reads a topic from its beginning. Every message is once on it, and in order within its partition, or it panics.
pub struct Checker {
    consumer: Consumer,
    topic: String,
    /// Offset after the last message of each partition.
    next: Vec<i64>,
    /// By spool.
    pub rows: BTreeMap<Vec<u8>, Row>,
}

impl Checker {
    pub fn new(brokers: &str, topic: &str, partitions: i32) -> Checker {
        let consumer = Consumer::new(&ConsumerOptions::new(brokers)).expect("settings");
        let all: Vec<_> = (0..partitions).map(|p| (topic, p, Begin::Oldest)).collect();
        consumer.assign(&all).expect("assigned");
        let next = vec![0; partitions as usize];
        Checker { consumer, topic: topic.to_owned(), next, rows: BTreeMap::new() }
    }

    /// Reads the next message, if one comes soon.
    fn read_one(&mut self) -> bool {
        let polled = self.consumer.poll(Duration::from_millis(200)).expect("readable");
        let Polled::Message(message) = polled else { return false };
        let partition = message.partition();
        self.next[partition as usize] = message.offset() + 1;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let sent = message.timestamp_ms().expect("a timestamp");
        // Wall clock of sending, in ms: neither of the events nor in another unit. A campaign reads minutes later.
        assert!((now.as_millis() as i64 - sent).abs() < 3_600_000, "{sent}");
        let (id, events) = match fullcount_messages::decode(message.payload()).expect("decodes") {
            Message::Ev44(m) => {
                let said = (m.source_name, m.check(), m.reference_time.len());
                assert_eq!(said, ("sonde", Ok(()), 1));
                let columns = m.time_of_flight.iter().zip(&m.pixel_id);
                let pairs = columns.flat_map(|(times, pixels)| times.iter().zip(pixels.iter()));
                let one = |(t, p): (&i32, &i32)| number(m.reference_time[0] + i64::from(*t), *p);
                (m.message_id as u64, pairs.map(one).collect())
            }
            Message::Ev42(m) => {
                let columns = m.time_of_flight.iter().zip(&m.detector_id);
                let pairs = columns.flat_map(|(times, pixels)| times.iter().zip(pixels.iter()));
                let pulse = m.pulse_time as i64;
                let one = |(t, p): (&u32, &u32)| number(pulse + i64::from(*t), *p as i32);
                (m.message_id, pairs.map(one).collect())
            }
            // A raw packet of `sequence`: magic, stream, number. Its messages are numbered from 0.
            Message::Ar51(m) => {
                let packet = m.raw_data.expect("a payload");
                let number = packet[8..16].first_chunk().map(|n| u64::from_le_bytes(*n));
                // An end mark is no packet of the list.
                let number = number.filter(|n| *n != u64::MAX).map(|n| n as u32);
                (m.message_id as u64 + 1, number.into_iter().collect())
            }
            other => panic!("{:?}", other.schema()),
        };
        let spool =
            message.header("fc.id").expect("a header").get(..16).expect("16 bytes").to_vec();
        self.rows.entry(spool).or_default().take(partition, id, events);
        true
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.rows.values().map(|r| r.events).sum()
    }

    /// Reads on until `enough`.
    fn read_until(&mut self, what: &str, enough: impl Fn(&Checker) -> bool) {
        let mut end = Instant::now() + PATIENCE;
        while !enough(self) {
            if self.read_one() {
                end = Instant::now() + PATIENCE;
            }
            let (events, next) = (self.events(), &self.next);
            assert!(
                Instant::now() < end,
                "waited in vain for {what}: {events} events, offsets {next:?}"
            );
        }
    }

    /// Reads until there are this many events.
    pub fn wait_for_events(&mut self, count: u64) {
        self.read_until(&format!("{count} events"), |c| c.events() >= count);
    }

    /// Reads the rest, to the present end of the partitions; the senders have ended. All messages of each
    /// producer are there.
    pub fn read_all(&mut self) {
        let high: Vec<i64> = (0..self.next.len() as i32)
            .map(|p| self.consumer.offsets(&self.topic, p).expect("the broker answers").1)
            .collect();
        self.read_until(&format!("offsets {high:?}"), |c| c.next == high);
        for row in self.rows.values() {
            row.assert_no_jump();
        }
    }

    /// The one producer's messages.
    pub fn row(&self) -> &Row {
        assert_eq!(self.rows.len(), 1, "one producer");
        self.rows.values().next().expect("just counted")
    }

    /// Events 0 to `count` are there, each once and in order, and no other.
    pub fn assert_whole(&self, count: u64) {
        let row = self.row();
        assert_eq!((row.events, &row.gaps[..]), (count, &[][..]), "events, and what is missing");
    }
}

/// A counter as the page's `/metrics` gives it.
pub fn counter(page: &str, name: &str) -> u64 {
    let metrics = get(page, "/metrics");
    let name = format!("fullcount_{}", name.replace('.', "_"));
    let is = |l: &str| {
        let rest = l.strip_prefix(&name).map(|r| r.strip_prefix("_total").unwrap_or(r));
        rest.is_some_and(|r| r.starts_with([' ', '{']))
    };
    let line = metrics.lines().find(|l| is(l));
    let line = line.unwrap_or_else(|| panic!("no {name} in\n{metrics}"));
    line.rsplit(' ').next().and_then(|v| v.parse::<f64>().ok()).expect("a number") as u64
}

/// Polls until `value` is in order; its value must keep changing meanwhile.
pub fn wait_until(what: &str, look: impl Fn() -> u64, enough: impl Fn(u64) -> bool) {
    let (mut last, mut end) = (None, Instant::now() + PATIENCE);
    loop {
        let now = look();
        if enough(now) {
            return;
        }
        if last != Some(now) {
            (last, end) = (Some(now), Instant::now() + PATIENCE);
        }
        assert!(Instant::now() < end, "waited in vain for {what}: {now}");
        std::thread::sleep(LOOK);
    }
}

/// Waits until a counter is so large.
pub fn wait_for_counter(page: &str, name: &str, least: u64) {
    let what = format!("{name} = {least}");
    wait_until(&what, || counter(page, name), |n| n >= least);
}

/// Waits until the broker has confirmed all that is in the spool.
pub fn wait_until_empty(page: &str) {
    wait_until("an empty spool", || counter(page, "kafka.spool.messages"), |n| n == 0);
}
