//! A group whose members join, leave and are killed while packets come, with a real Kafka.
//!
//! Without failures each event is made once, when members join or leave. A killed member loses none, and only what it
//! had not committed comes twice. A live member counts the events that another one makes again. A member with a blocked
//! output stays in the group. Event n is 1 µs after event n − 1, so each one identifies its packet. Source:
//! `docs/raw.md`. Needs Java and the jars that `cargo xtask test` has fetched; without them it is skipped with a
//! message, and fails with CI=true.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::broker::{
    EVENTS, PATIENCE, Shared, counter, fresh, packet, wait_for_counter, wait_until,
    wait_until_empty,
};
use crate::service::{Said, Service};
use fullcount_kafka::{
    Admin, Begin, Consumer, ConsumerOptions, EPOCH_HEADER, KafkaSettings, Moves, Polled,
    SOURCE_HEADER,
};
use fullcount_messages::{Message, RawReadout};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};

/// 2026-01-01, ns since 1970.
const EPOCH: i64 = 1_767_225_600_000_000_000;
/// Senders; each belongs to a partition.
const SENDERS: u32 = 8;
const PARTITIONS: i32 = 4;

/// Packet k comes from sender k modulo their number, which counts its own packets.
fn from_sender(k: u32) -> Vec<u8> {
    let mut p = packet(k);
    p[2..4].copy_from_slice(&((k / SENDERS) as u16 & 0x3fff).to_be_bytes());
    p
}

/// Partition of packet k, and its offset there.
fn place_of(k: u32) -> (i32, i64) {
    let partitions = PARTITIONS as u32;
    ((k % partitions) as i32, i64::from(k / partitions))
}

/// Puts packets on a topic.
struct Sender {
    producer: BaseProducer,
    topic: &'static str,
}

impl Sender {
    fn new(brokers: &str, topic: &'static str) -> Sender {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", brokers).set("linger.ms", "1");
        // In order and once each: without it, messages that a broker refuses while it creates the topic are sent again
        // after later ones, and the members rightly report missing numbers.
        config.set("enable.idempotence", "true");
        Sender { producer: config.create().expect("a producer"), topic }
    }

    fn send(&self, k: u32) {
        // The wrap of times after 4.3 s of events, 42,949 packets, is not reached.
        assert!(k < 42_949, "the members take longer than this test was made for");
        let bytes = from_sender(k);
        let raw = RawReadout { source_name: "x", message_id: i64::from(k), raw_data: Some(&bytes) };
        let payload = Message::Ar51(raw).encode();
        let (from, epoch) = (format!("10.0.0.{}:50011", k % SENDERS + 1), EPOCH.to_string());
        let header = |key, value| Header { key, value: Some(value) };
        let headers = OwnedHeaders::new()
            .insert(header(SOURCE_HEADER, from.as_str()))
            .insert(header(EPOCH_HEADER, epoch.as_str()));
        let record = BaseRecord::<(), [u8]>::to(self.topic).payload(&payload);
        let record = record.partition(place_of(k).0).headers(headers);
        self.producer.send(record).map_err(|e| e.0).expect("queued");
    }

    fn flush(&self) {
        self.producer.flush(PATIENCE).expect("confirmed");
    }
}

/// Sends packets 0, 1, 2, … to a topic until it is told to end: some members are always active.
struct Publisher {
    end: Arc<AtomicBool>,
    sent: Arc<AtomicU32>,
    thread: Option<JoinHandle<()>>,
}

impl Publisher {
    fn start(brokers: &str, topic: &'static str) -> Publisher {
        let sender = Sender::new(brokers, topic);
        let (end, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let (told, count) = (end.clone(), sent.clone());
        let thread = std::thread::spawn(move || {
            for k in 0.. {
                if told.load(SeqCst) {
                    break;
                }
                sender.send(k);
                count.store(k + 1, SeqCst);
                if k % 4 == 3 {
                    sender.producer.poll(Duration::ZERO);
                    // About 500 packets a second. A slow host gets more time before the counter would wrap: 40 s at this pace, then 6 min.
                    let pause = if k < 20_000 { 8 } else { 64 };
                    std::thread::sleep(Duration::from_millis(pause));
                }
            }
            sender.flush();
        });
        Publisher { end, sent, thread: Some(thread) }
    }

    /// Packets so far.
    fn sent(&self) -> u32 {
        self.sent.load(SeqCst)
    }

    /// Ends; how many packets there are.
    fn end(mut self) -> u32 {
        self.end.store(true, SeqCst);
        self.thread.take().expect("ended once").join().expect("all confirmed");
        self.sent()
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.end.store(true, SeqCst);
    }
}

/// A topic that no other test has; for the length of the process.
fn own(name: &str) -> &'static str {
    fresh(name).leak()
}

/// A broker and a folder.
struct Place {
    cluster: Shared,
    folder: tempfile::TempDir,
}

/// A member of a group, under a name that its messages have.
struct Member {
    service: Service,
    page: String,
}

impl Member {
    fn packets(&self) -> u64 {
        counter(&self.page, "receive.packets")
    }

    /// Waits until it has read this many more packets.
    fn reads(&self, more: u64) {
        let least = self.packets() + more;
        wait_until(&format!("{least} packets"), || self.packets(), |n| n >= least);
    }

    fn signal(&self, name: &str) {
        let id = self.service.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &id]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// As with Ctrl-C; it has lost nothing.
    fn leave(self) -> Said {
        self.service.interrupt();
        let said = self.service.end();
        assert_eq!((said.code, &said.summary()["balance"]), (0, &0.into()), "{}", said.err);
        said
    }
}

impl Place {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn topic(&self, name: &str, partitions: i32) {
        let admin =
            Admin::new(&self.cluster.bootstrap(), &KafkaSettings::default()).expect("settings");
        admin.create(name, partitions, &[]).expect("made");
    }

    fn member(&self, name: &str, topic: &str, threads: u32) -> Member {
        // The time after which a killed one is detected; without a kill, a slow host must not cause this.
        let session_ms = if ["dies", "halts"].contains(&name) { 5_000 } else { 45_000 };
        let source = format!("session.timeout.ms = {session_ms}\n");
        let engine = format!("threads = {threads}\n");
        let output = format!(
            "brokers = \"{}\"\ndrain = \"100s\"\ncapacity = 2000\n",
            self.cluster.bootstrap()
        );
        self.member_with(name, topic, [&source, &engine, &output])
    }

    /// With lines of `[source.options]`, `[engine]` and `[output.kafka]`.
    fn member_with(&self, name: &str, topic: &str, [source, engine, output]: [&str; 3]) -> Member {
        let geometry = self.path("geometry");
        if !geometry.exists() {
            let module = |n: u32| {
                let cell = [n % 4, n / 4];
                format!(
                    "[[modules]]\nsource = \"10.0.0.{}\"\npixel_offset = {}\ncell = {cell:?}\n",
                    n + 1,
                    64 * n
                )
            };
            fs::write(&geometry, (0..SENDERS).map(module).collect::<String>()).expect("written");
        }
        let brokers = self.cluster.bootstrap();
        let text = format!(
            "[source]\nurl = \"kafka://{brokers}/{topic}?group={topic}\"\n\
             [source.options]\nheartbeat.interval.ms = 300\n{source}\
             [time]\npulse = \"grid(14Hz)\"\nepoch = \"2026-01-01T00:00:00Z\"\ntick = \"1ns\"\n\
             [detector]\nkind = \"sonde\"\ngeometry = \"{}\"\n\
             [web]\nlisten = \"127.0.0.1:0\"\n[engine]\n{engine}\
             [output.kafka]\n{output}topic = \"{topic}-events\"\nsource_name = \"{name}\"\n\
             spool = \"{}\"\n[output.kafka.options]\nlinger.ms = 5\n",
            geometry.display(),
            self.path(&format!("{topic}-{name}")).display()
        );
        let file = self.path(&format!("{topic}-{name}.toml"));
        fs::write(&file, text).expect("written");
        let mut service = Service::start(&["run", &file.display().to_string(), "--json"]);
        let page = service.page();
        Member { service, page }
    }

    /// Waits until the group has this many members that share the partitions.
    fn wait_for_members(&self, group: &str, members: usize) {
        let client: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", self.cluster.bootstrap())
            .create()
            .expect("a client");
        let end = Instant::now() + PATIENCE;
        loop {
            let list = client.fetch_group_list(Some(group), Duration::from_secs(10));
            let known: Vec<(String, usize)> = list.map_or(vec![], |list| {
                let one =
                    |g: &rdkafka::groups::GroupInfo| (g.state().to_owned(), g.members().len());
                list.groups().iter().map(one).collect()
            });
            if known == [("Stable".to_owned(), members)] {
                return;
            }
            assert!(Instant::now() < end, "{group}: {known:?} within {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn consumer(&self, group: Option<&str>) -> Consumer {
        let options = ConsumerOptions {
            group: group.map(str::to_owned),
            ..ConsumerOptions::new(self.cluster.bootstrap())
        };
        Consumer::new(&options).expect("settings")
    }

    /// The group's offset on each partition.
    fn stands(&self, consumer: &Consumer, topic: &str) -> Vec<i64> {
        let one = |p| consumer.committed(topic, p).expect("the broker answers").unwrap_or(0);
        (0..PARTITIONS).map(one).collect()
    }

    /// Who made which events: (number of the packet, name) of each event, sorted by event.
    fn events(&self, topic: &str) -> Vec<(u32, String)> {
        let topic = format!("{topic}-events");
        let consumer = self.consumer(None);
        let (_, end) = consumer.offsets(&topic, 0).expect("the broker answers");
        assert_eq!(consumer.partitions(&topic).expect("the broker answers"), 1);
        consumer.assign(&[(&topic, 0, Begin::Oldest)]).expect("assigned");
        let (mut all, mut next, patience) = (vec![], 0, Instant::now() + PATIENCE);
        while next < end {
            assert!(Instant::now() < patience, "{topic}: {next} of {end} within {PATIENCE:?}");
            let polled = consumer.poll(Duration::from_millis(200)).expect("readable");
            let Polled::Message(message) = polled else { continue };
            next = message.offset() + 1;
            let Ok(Message::Ev44(m)) = fullcount_messages::decode(message.payload()) else {
                panic!("no ev44")
            };
            for time in m.time_of_flight.expect("times").iter() {
                let n = (m.reference_time[0] + i64::from(*time) - EPOCH) / 1_000;
                all.push((u32::try_from(n).expect("an event of ours"), m.source_name.to_owned()));
            }
        }
        all.sort_unstable();
        all
    }
}

/// Members that join and leave while packets come: each packet is read once by the group, and each event made once.
fn whoever_joins_or_leaves_each_event_is_made_once(place: &Place) {
    let (topic, begun) = (own("moves"), Instant::now());
    place.topic(topic, PARTITIONS);
    let publisher = Publisher::start(&place.cluster.bootstrap(), topic);
    let first = place.member("first", topic, 1);
    first.reads(200);
    // A second one, on two threads, gets partitions in the midst of it.
    let second = place.member("second", topic, 2);
    second.reads(200);
    first.reads(100);
    // What it had goes back to the first one.
    let mut left = vec![second.leave()];
    first.reads(400);
    let third = place.member("third", topic, 2);
    third.reads(200);
    // The first goes, and the third has everything.
    left.push(first.leave());
    third.reads(400);
    let fourth = place.member("fourth", topic, 1);
    fourth.reads(200);
    let sent = publisher.end();
    let ended: u64 = left.iter().map(|said| said.counter("receive.packets")).sum();
    let read = || ended + third.packets() + fourth.packets();
    wait_until("the last packet", read, |n| n >= u64::from(sent));
    assert_eq!(read(), u64::from(sent), "packets that came twice");
    left.extend([third.leave(), fourth.leave()]);
    let sum = |name: &str| left.iter().map(|said| said.counter(name)).sum::<u64>();
    assert_eq!(sum("receive.packets"), u64::from(sent));
    let said: Vec<&str> = left.iter().map(|said| said.err.as_str()).collect();
    let said = said.join("\n--\n");
    assert_eq!((sum("receive.again_elsewhere"), sum("receive.cut_by_moves")), (0, 0), "{said}");
    assert!(sum("receive.moved_partitions") >= 4, "{}", sum("receive.moved_partitions"));
    // What another member has read is no loss of the one that gets a partition back.
    assert_eq!(sum("packets.lost") + sum("packets.missing"), 0);
    let events = place.events(topic);
    let once = events.iter().map(|(n, _)| *n).eq(0..sent * EVENTS);
    let doubled = events.windows(2).filter(|two| two[0].0 == two[1].0).count();
    assert!(once, "{} events of {}, {doubled} twice", events.len(), sent * EVENTS);
    println!("moves: {} events, {:?}", events.len(), begun.elapsed());
    let makers: BTreeSet<&str> = events.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(makers.len(), 4, "{makers:?}");
}

/// Packets of which events are there twice, each with who made them.
fn doubled(events: &[(u32, String)]) -> BTreeMap<u32, [&str; 2]> {
    let twice = events.windows(2).filter(|two| two[0].0 == two[1].0);
    twice.map(|two| (two[0].0 / EVENTS, [two[0].1.as_str(), two[1].1.as_str()])).collect()
}

/// One of two is killed, and another one is stopped for so long that the group considers it dead: all events are there,
/// only uncommitted ones are there twice, and the live one has counted all of its own.
fn a_killed_member_costs_no_event(place: &Place) {
    let topic = own("killed");
    place.topic(topic, PARTITIONS);
    let begun = Instant::now();
    let members = ["stays", "dies"].map(|name| place.member(name, topic, 1));
    place.wait_for_members(topic, 2);
    let publisher = Publisher::start(&place.cluster.bootstrap(), topic);
    members.iter().for_each(|member| member.reads(300));
    let [stays, mut dies] = members;
    // It has committed something, and read on.
    let asking = place.consumer(Some(topic));
    let stood = || place.stands(&asking, topic).iter().filter(|at| **at > 0).count() as u64;
    wait_until("commits", stood, |n| n == PARTITIONS as u64);
    dies.reads(100);
    let stood = place.stands(&asking, topic);
    dies.service.child.kill();
    let at_death = publisher.sent();
    wait_until("packets behind", || u64::from(publisher.sent()), |n| n > u64::from(at_death) + 200);
    // Started again, it sends what its spool holds.
    let again = place.member("dies", topic, 1);
    again.reads(100);
    assert_eq!(again.leave().counter("receive.again_elsewhere"), 0);
    // This one is stopped until the group considers it dead; when it continues, its partitions belong to another
    // member.
    let halts = place.member("halts", topic, 1);
    halts.reads(300);
    let stood_at_halt = place.stands(&asking, topic);
    halts.signal("STOP");
    place.wait_for_members(topic, 1);
    halts.signal("CONT");
    let moved = || counter(&halts.page, "receive.moved_partitions");
    wait_until("partitions that were taken away", moved, |n| n > 0);
    halts.reads(50);
    let sent = publisher.end();
    let all: Vec<i64> =
        (0..PARTITIONS).map(|p| (0..sent).filter(|k| place_of(*k).0 == p).count() as i64).collect();
    let behind = || {
        (0..).zip(place.stands(&asking, topic)).map(|(p, at): (usize, _)| all[p] - at).sum::<i64>()
    };
    wait_until("the last commit", || behind() as u64, |n| n == 0);
    assert_eq!(stays.leave().counter("receive.again_elsewhere"), 0);
    let said = halts.leave();
    let again = said.counter("receive.again_elsewhere");
    assert_eq!(again > 0, said.err.contains("took this member for dead"), "{}", said.err);

    let events = place.events(topic);
    let found: BTreeSet<u32> = events.iter().map(|(n, _)| *n).collect();
    assert!(found.into_iter().eq(0..sent * EVENTS), "{} events of {}", events.len(), sent * EVENTS);
    let doubled = doubled(&events);
    let mut halted = 0;
    for (&packet, whose) in &doubled {
        let (partition, offset) = place_of(packet);
        let stood = if whose.contains(&"halts") { &stood_at_halt } else { &stood };
        halted += u64::from(whose.contains(&"halts"));
        assert!(*whose != ["stays"; 2], "who was there all the time doubles none");
        assert!(offset >= stood[partition as usize], "offset {offset} of {stood:?} was committed");
    }
    assert!(halted <= again, "{halted} packets are there twice, {again} are counted");
    let (took, all) = (begun.elapsed(), doubled.len());
    println!(
        "killed: of {sent} packets {all} are there twice, {halted} by the one that halts, which counts {again}; {took:?}"
    );
}

/// A member with a blocked output is not considered dead: it answers the group's requests, and gives up partitions for
/// another member. All events are there in the end, and those that are there twice were counted.
fn a_member_behind_a_full_output_stays_in_the_group(place: &Place) {
    let (topic, begun) = (own("stuck"), Instant::now());
    place.topic(topic, PARTITIONS);
    // 1.2 M events in messages of 10, each of 200 bytes and more: 24 MB and more for a spool of 16 MiB. They are 1.2 s: partitions
    // may be read one after the other, and SoNDe's clocks tell 2.1 s back from a turn.
    let (sender, sent) = (Sender::new(&place.cluster.bootstrap(), topic), 12_000);
    (0..sent).for_each(|k| sender.send(k));
    sender.flush();
    let source = "session.timeout.ms = 6000\nmax.poll.interval.ms = 6000\n";
    let output =
        "brokers = \"127.0.0.1:1\"\ndrain = \"0s\"\nspool_size = \"16MiB\"\ncapacity = 10\n";
    let first = place.member_with("first", topic, [source, "threads = 1\nqueue = 2\n", output]);
    wait_for_counter(&first.page, "kafka.spool.full", 1);
    // The group waits 6 s for all its members to agree, and continues without those that do not answer.
    let second = place.member("second", topic, 2);
    place.wait_for_members(topic, 2);
    second.reads(1);
    // As of the last second.
    let owned = || counter(&first.page, "receive.owned_partitions");
    wait_until("two partitions each", owned, |n| n == 2);
    first.service.interrupt();
    let said = first.service.end();
    assert_eq!(said.code, 3, "{}", said.err);
    assert!(!said.err.contains("took this member for dead"), "{}", said.err);
    let again = said.counter("receive.again_elsewhere");
    let dropped = said.counter("sink.kafka.dropped") + said.counter("queue.kafka.dropped");
    assert!(dropped > 0 && again * u64::from(EVENTS) >= dropped, "{again} packets, {dropped}");
    let asking = place.consumer(Some(topic));
    let stood = || place.stands(&asking, topic).iter().sum::<i64>() as u64;
    wait_until("the last commit", stood, |n| n == u64::from(sent));
    assert_eq!(second.leave().counter("receive.again_elsewhere"), 0);
    // What is in the spool goes out once there is a broker.
    let first = place.member("first", topic, 1);
    wait_until_empty(&first.page);
    first.leave();
    let events = place.events(topic);
    let found: BTreeSet<u32> = events.iter().map(|(n, _)| *n).collect();
    assert!(found.into_iter().eq(0..sent * EVENTS), "{} events of {}", events.len(), sent * EVENTS);
    let twice = doubled(&events).len() as u64;
    assert!(twice <= again, "{twice} packets are there twice, {again} are counted");
    println!(
        "stuck: of {sent} packets {twice} are there twice, {again} counted; {:?}",
        begun.elapsed()
    );
}

/// With a strategy that takes all partitions away at each change as well: they stay until they are given up.
fn a_partition_stays_until_it_is_given_up(place: &Place) {
    let topic = own("stay");
    place.topic(topic, 2);
    let begun = Instant::now();
    for strategy in ["range", "cooperative-sticky"] {
        let group = fresh(strategy);
        let member = || {
            let settings =
                [("partition.assignment.strategy", strategy), ("heartbeat.interval.ms", "300")];
            let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let options = ConsumerOptions {
                group: Some(group.clone()),
                hold: true,
                settings: KafkaSettings::new(settings),
                ..ConsumerOptions::new(place.cluster.bootstrap())
            };
            let consumer = Consumer::new(&options).expect("settings");
            consumer.subscribe(&[topic]).expect("subscribed");
            consumer
        };
        let end = Instant::now() + PATIENCE;
        let turn = |all: &[&Consumer]| {
            assert!(Instant::now() < end, "{strategy}: within {PATIENCE:?}");
            for one in all {
                one.poll(Duration::from_millis(10)).expect("no error");
            }
        };
        let has = |one: &Consumer| one.assigned().expect("an answer").len();
        let first = member();
        while has(&first) < 2 {
            turn(&[&first]);
        }
        assert_eq!(first.moves(), None);
        let second = member();
        let moves = loop {
            turn(&[&first, &second]);
            if let Some(moves) = first.moves() {
                break moves;
            }
        };
        let count = if strategy == "range" { 2 } else { 1 };
        assert_eq!((moves.leaving.len(), moves.lost.len()), (count, 0), "{strategy}");
        for _ in 0..20 {
            turn(&[&first, &second]);
            assert_eq!((has(&first), has(&second)), (2, 0), "{strategy}: before it is given up");
        }
        assert_eq!(first.moves(), None, "told once");
        // It is ours still: the place is taken on.
        let leaving: Vec<_> = moves.leaving.iter().map(|(t, p)| (t.as_str(), *p, 0)).collect();
        first.commit(&leaving, true).expect("committed");
        first.give_up().expect("given up");
        while (has(&first), has(&second)) != (1, 1) {
            turn(&[&first, &second]);
        }
        // A member that leaves while another one needs its partition does not keep it.
        drop(first);
        let mut moved = Moves::default();
        while has(&second) < 2 {
            turn(&[&second]);
            if let Some(moves) = second.moves() {
                second.give_up().expect("given up");
                moved = moves;
            }
        }
        assert!(moved.lost.is_empty(), "{moved:?}");
    }
    println!("stays: {:?}", begun.elapsed());
}

/// What a member notes goes with its offsets, however they are committed; another program's place has none.
fn notes_stay_with_the_offsets_of_a_group(place: &Place) {
    let topic = own("noted");
    place.topic(topic, 3);
    let options = ConsumerOptions {
        group: Some(topic.to_owned()),
        hold: true,
        ..ConsumerOptions::new(place.cluster.bootstrap())
    };
    let end = Instant::now() + PATIENCE;
    let poll = |consumer: &Consumer| {
        assert!(Instant::now() < end, "within {PATIENCE:?}");
        consumer.poll(Duration::from_millis(10)).expect("no error");
    };
    let member = Consumer::new(&options).expect("settings");
    member.subscribe(&[topic]).expect("subscribed");
    while member.assigned().expect("an answer").len() < 3 {
        poll(&member);
    }
    let notes = || member.notes(topic, &[0, 1, 2]).expect("the broker answers");
    member.commit(&[(topic, 0, 0)], true).expect("committed");
    assert_eq!(notes(), [""; 0]);
    member.note("from here".to_owned());
    member.note("from elsewhere".to_owned());
    member.commit(&[(topic, 1, 0)], true).expect("committed");
    assert_eq!(notes(), ["from here"]);
    member.commit_soon(&[(topic, 2, 0)]).expect("an offset");
    while !member.confirmed().iter().any(|(_, partition, _)| *partition == 2) {
        poll(&member);
    }
    assert_eq!(notes(), ["from here"; 2]);
    drop(member);
    let later = Consumer::new(&options).expect("settings");
    let notes = later.notes(topic, &[0, 1, 2]).expect("the broker answers");
    assert_eq!(notes, ["from here"; 2], "what a member leaves behind as it goes");
}

#[test]
fn members_come_and_go_and_are_killed() {
    let Some(cluster) = Shared::new() else { return };
    let place = Place { cluster, folder: tempfile::tempdir().expect("a folder") };
    notes_stay_with_the_offsets_of_a_group(&place);
    a_partition_stays_until_it_is_given_up(&place);
    whoever_joins_or_leaves_each_event_is_made_once(&place);
    a_killed_member_costs_no_event(&place);
    a_member_behind_a_full_output_stays_in_the_group(&place);
}
