//! Several at a time, against a real Kafka: instances that have a sector of a detector each, members of a group that
//! reprocess raw packets, and members that reduce events live. Together they have what one has.
//!
//! Source: `docs/scale.md`. One broker for all of it. Needs Java and the jars that `cargo xtask test` has fetched;
//! without them it is skipped with a message, and fails with CI=true.

// Its unit tests run here: an example's own do not.
#[path = "../examples/tof_spectrum/spectrum.rs"]
#[allow(dead_code, reason = "used by the example")]
mod spectrum;

mod scenes;
mod spectra;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use self::scenes::{Packet, Scene, gdgem, multiblade, sonde};
use self::spectra::{a_group_of_two_makes_one_spectrum, example};
use crate::broker::{BrokerCluster, jars};
use crate::service::{Said, Service, get, write_capture};
use fullcount_kafka::{
    Begin, Consumer, ConsumerOptions, EPOCH_HEADER, Polled, SOURCE_HEADER, TIME_HEADER,
};
use fullcount_messages::Message;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};

/// Longest wait for anything that should take seconds.
const PATIENCE: Duration = Duration::from_secs(120);
/// 2026-01-01, ns since 1970.
const EPOCH: i64 = 1_767_225_600_000_000_000;
/// Sectors of each detector.
const SECTORS: usize = 4;

/// A capture with senders 10.0.0.1, 10.0.0.2, …
fn senders<'a>(path: &Path, packets: impl Iterator<Item = &'a Packet>) {
    write_capture(path, packets.map(|p| (p.sender + 1, p.bytes.as_slice())));
}

/// A broker, and a folder.
struct Place {
    cluster: BrokerCluster,
    folder: tempfile::TempDir,
}

/// Events of a topic: sorted, and how many of them each source name has.
type Found = (Vec<(i64, i32)>, BTreeMap<String, usize>);

impl Place {
    fn brokers(&self) -> String {
        self.cluster.bootstrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes a topic.
    fn topic(&self, name: &str, partitions: i32) {
        let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
            .set("bootstrap.servers", self.brokers())
            .create()
            .expect("a client");
        let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        let made = admin.create_topics([&topic], &AdminOptions::new());
        let made = wait(made).expect("the broker answers");
        assert_eq!(made, [Ok(name.to_owned())]);
    }

    /// A configuration file of one instance; `more` follows `[output.kafka]`.
    fn configuration(
        &self,
        name: &str,
        scene: &Scene,
        source: &str,
        own: &str,
        outputs: &str,
    ) -> String {
        let geometry = self.path(&format!("{}-geometry", scene.kind));
        // Once: instances that begin at the same time read it.
        if !geometry.exists() {
            fs::write(&geometry, &scene.geometry).expect("written");
        }
        let tick = if scene.kind == "sonde" { "tick = \"1ns\"\n" } else { "" };
        let text = format!(
            "[source]\nurl = \"{source}\"\n\
             [time]\npulse = \"grid(14Hz)\"\nepoch = \"2026-01-01T00:00:00Z\"\n{tick}\
             [detector]\nkind = \"{}\"\ngeometry = \"{}\"\n{}{own}\n\
             [web]\nlisten = \"127.0.0.1:0\"\n\
             {outputs}",
            scene.kind,
            geometry.display(),
            scene.keys
        );
        let path = self.path(&format!("{name}.toml"));
        fs::write(&path, text).expect("written");
        path.display().to_string()
    }

    /// `[output.kafka]` of an instance with its own spool.
    fn to_topic(&self, topic: &str, spool: &str) -> String {
        format!(
            "[output.kafka]\nbrokers = \"{}\"\ntopic = \"{topic}\"\nspool = \"{}\"\n\
             capacity = 2000\ndrain = \"100s\"\n[output.kafka.options]\nlinger.ms = 5\n",
            self.brokers(),
            self.path(spool).display()
        )
    }

    /// Messages of all partitions, to their ends as they are now.
    fn each(&self, topic: &str, mut see: impl FnMut(&fullcount_kafka::TopicMessage<'_>)) {
        let consumer = Consumer::new(&ConsumerOptions::new(self.brokers())).expect("settings");
        let partitions = 0..consumer.partitions(topic).expect("the broker answers");
        let begin: Vec<_> = partitions.clone().map(|p| (topic, p, Begin::Oldest)).collect();
        consumer.assign(&begin).expect("assigned");
        let ends: Vec<i64> =
            partitions.map(|p| consumer.offsets(topic, p).expect("the broker answers").1).collect();
        let mut next = vec![0; ends.len()];
        let end = Instant::now() + PATIENCE;
        while next != ends {
            assert!(Instant::now() < end, "{topic}: {next:?} of {ends:?} within {PATIENCE:?}");
            let polled = consumer.poll(Duration::from_millis(200)).expect("readable");
            let Polled::Message(message) = polled else { continue };
            next[message.partition() as usize] = message.offset() + 1;
            see(&message);
        }
    }

    fn events(&self, topics: &[&str]) -> Found {
        let (mut events, mut sources) = (vec![], BTreeMap::new());
        for topic in topics {
            self.each(topic, |message| {
                let Ok(Message::Ev44(m)) = fullcount_messages::decode(message.payload()) else {
                    panic!("{topic}")
                };
                assert_eq!((m.check(), m.reference_time.len()), (Ok(()), 1));
                let times = m.time_of_flight.expect("times");
                let columns = times.iter().zip(m.pixel_id.as_ref().expect("pixels").iter());
                *sources.entry(m.source_name.to_owned()).or_default() += times.len();
                events.extend(columns.map(|(t, p)| (m.reference_time[0] + i64::from(*t), *p)));
            });
        }
        events.sort_unstable();
        (events, sources)
    }
}

struct Park(std::thread::Thread);

impl Wake for Park {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// What a future gives, on this thread.
fn wait<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let waker = Waker::from(Arc::new(Park(std::thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

fn fine(said: &Said) {
    assert_eq!((said.code, &said.summary()["balance"]), (0, &0.into()), "{}", said.err);
}

/// The same events as often, or the first that differ.
fn same(found: &[(i64, i32)], want: &[(i64, i32)], who: &str) {
    let differ = found.iter().zip(want).find(|(f, w)| f != w);
    let (found, want) = (found.len(), want.len());
    assert!(
        differ.is_none() && found == want,
        "{who}: {found} events of {want}; first: {differ:?}"
    );
}

/// One instance has all packets; n have those of their sectors. Where a key says which sectors are an instance's, two of
/// them get all packets and leave the others' alone, as from a multicast group. Gives the events.
fn instances_by_sector(place: &Place, scene: &Scene) -> Vec<(i64, i32)> {
    let kind = scene.kind;
    let run = |name: &str, sectors: &[usize], topic: &str| {
        let capture = place.path(&format!("{name}.pcap"));
        let all = scene.sector_key.is_some() && sectors.len() > 1;
        let mine = |p: &&Packet| all || sectors.contains(&scene.sector(p));
        senders(&capture, scene.packets.iter().filter(mine));
        let source = format!("pcap:{}?flat-out", capture.display());
        let own = scene.sector_key.filter(|_| sectors.len() < SECTORS);
        let own = own.map_or(String::new(), |key| format!("{key} = {sectors:?}"));
        let outputs = place.to_topic(topic, &format!("spool-{name}"));
        let file = place.configuration(name, scene, &source, &own, &outputs);
        Service::start(&["run", &file, "--json"])
    };
    let whole = format!("{kind}-whole");
    let said = run(&whole, &[0, 1, 2, 3], &whole).end();
    fine(&said);
    let (want, sources) = place.events(&[&whole]);
    assert!(want.len() > 3_000, "{kind}: {} events", want.len());
    assert_eq!(said.summary()["events"], want.len());
    assert_eq!(sources, [(kind.to_owned(), want.len())].into());
    if let Some(expected) = &scene.expected {
        same(&want, expected, kind);
    }
    let packets = scene.packets.len() as u64;
    assert_eq!(said.counter("receive.packets"), packets);

    // Two on one topic, four with a topic each.
    for n in [2, SECTORS] {
        let shared = n == 2;
        let topic = |i: usize| if shared { format!("{kind}-two") } else { format!("{kind}-{i}") };
        let running: Vec<_> = (0..n)
            .map(|i| {
                let sectors: Vec<usize> = (i * SECTORS / n..(i + 1) * SECTORS / n).collect();
                run(&format!("{kind}-{n}-{i}"), &sectors, &topic(i))
            })
            .collect();
        let mut received = 0;
        for service in running {
            let said = service.end();
            fine(&said);
            assert!(said.summary()["events"].as_u64() > Some(500), "each has a part: {}", said.err);
            received += said.counter("receive.packets");
            if scene.sector_key.is_some() {
                assert_eq!(said.counter("hits.outside_region") > 0, shared, "{}", said.err);
            }
        }
        assert_eq!(
            received,
            if scene.sector_key.is_some() && shared { 2 * packets } else { packets }
        );
        let topics: BTreeSet<String> = (0..n).map(topic).collect();
        let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
        assert_eq!(topics.len(), if shared { 1 } else { n });
        let (events, sources) = place.events(&topics);
        same(&events, &want, &format!("{kind}: {n} instances"));
        assert_eq!(sources, [(kind.to_owned(), want.len())].into());
    }
    want
}

/// Waits until the group has this many members that share the partitions.
fn wait_for_members(place: &Place, group: &str, members: usize) {
    let client: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", place.brokers()).create().expect("a client");
    let end = Instant::now() + PATIENCE;
    loop {
        let list = client.fetch_group_list(Some(group), Duration::from_secs(10));
        let known = list.map(|list| {
            list.groups().iter().map(|g| (g.state().to_owned(), g.members().len())).collect()
        });
        let known: Vec<(String, usize)> = known.unwrap_or_default();
        if known == [("Stable".to_owned(), members)] {
            return;
        }
        assert!(Instant::now() < end, "{group}: {known:?} within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A counter as the page's `/metrics` gives it.
fn counter(page: &str, name: &str) -> u64 {
    let metrics = get(page, "/metrics");
    let name = format!("fullcount_{}", name.replace('.', "_"));
    let rest = |l: &str| l.strip_prefix(&name).is_some_and(|r| r.starts_with([' ', '{', '_']));
    let line = metrics.lines().find(|l| rest(l)).unwrap_or_else(|| panic!("no {name}"));
    line.rsplit(' ').next().and_then(|v| v.parse::<f64>().ok()).expect("a number") as u64
}

/// Raw packets go to a topic by sender, and come back: to one run, and to two members of a group.
fn a_group_of_two_reprocesses_raw_packets(place: &Place, scene: &Scene, want: &[(i64, i32)]) {
    place.topic("raw", 4);
    let group = format!("kafka://{}/raw?group=again", place.brokers());
    let mut members: Vec<_> = (0..2)
        .map(|i| {
            let name = format!("member-{i}");
            let outputs = place.to_topic("again", &format!("spool-{name}"));
            let file = place.configuration(&name, scene, &group, "", &outputs);
            Service::start(&["run", &file, "--json"])
        })
        .collect();
    let pages: Vec<String> = members.iter_mut().map(Service::page).collect();
    // Before the first packet, so that no partition moves while packets come.
    wait_for_members(place, "again", 2);
    // The second one's share moves to it after that.
    let end = Instant::now() + PATIENCE;
    while pages.iter().any(|page| counter(page, "receive.owned_partitions") != 2) {
        assert!(Instant::now() < end, "two partitions each within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }

    let capture = place.path("raw.pcap");
    senders(&capture, scene.packets.iter());
    let source = format!("pcap:{}?flat-out", capture.display());
    let outputs = format!(
        "[output.raw]\nbrokers = \"{}\"\ntopic = \"raw\"\nspool = \"{}\"\n",
        place.brokers(),
        place.path("spool-raw").display()
    );
    let file = place.configuration("raw", scene, &source, "", &outputs);
    let said = Service::start(&["run", &file, "--json"]).end();
    fine(&said);
    let packets = scene.packets.len();
    assert_eq!(said.summary()["outputs"]["raw"]["packets"], packets);

    // On the topic: each packet once, in order within its sender, with its headers, senders on one partition each.
    let mut found = vec![vec![]; 256];
    let mut partitions = BTreeMap::new();
    let epoch = EPOCH.to_string();
    place.each("raw", |message| {
        let Ok(Message::Ar51(raw)) = fullcount_messages::decode(message.payload()) else {
            panic!("no ar51")
        };
        let text = |header| message.header(header).and_then(|h| std::str::from_utf8(h).ok());
        let source = text(SOURCE_HEADER).expect("a sender");
        let sender = source.strip_prefix("10.0.0.").and_then(|s| s.strip_suffix(":50011"));
        let sender = sender.and_then(|s| s.parse::<usize>().ok()).expect("10.0.0.N:50011") - 1;
        assert_eq!(text(EPOCH_HEADER), Some(epoch.as_str()));
        // The captured time: 1 s and a microsecond for each packet, ns since 1970.
        let time: u64 = text(TIME_HEADER).and_then(|t| t.parse().ok()).expect("a time");
        assert!((1_000_000_000..1_001_000_000).contains(&time), "{time}");
        found[sender].push(raw.raw_data.expect("a packet").to_vec());
        let partition = message.partition();
        assert_eq!(*partitions.entry(sender).or_insert(partition), partition, "{source}");
    });
    let mut sent = vec![vec![]; 256];
    for packet in &scene.packets {
        sent[usize::from(packet.sender)].push(packet.bytes.clone());
    }
    assert!(found == sent, "packets on the topic are not those that were sent");
    let used: BTreeSet<i32> = partitions.into_values().collect();
    assert_eq!(used.len(), 4, "the senders' keys take all partitions: {used:?}");

    // One run over all partitions, without a group.
    let source = format!("kafka://{}/raw?until=end", place.brokers());
    let outputs = place.to_topic("alone", "spool-alone");
    let file = place.configuration("alone", scene, &source, "", &outputs);
    let alone = Service::start(&["run", &file, "--json"]).end();
    fine(&alone);
    same(&place.events(&["alone"]).0, want, "from the raw topic");

    // The members: each has its partitions, and together they have everything.
    let end = Instant::now() + PATIENCE;
    let read = || pages.iter().map(|page| counter(page, "receive.packets")).collect::<Vec<_>>();
    while read().iter().sum::<u64>() < packets as u64 {
        assert!(Instant::now() < end, "{:?} of {packets} packets", read());
        std::thread::sleep(Duration::from_millis(20));
    }
    let shares = read();
    assert!(shares.iter().all(|share| *share > 0), "{shares:?}");
    assert_eq!(shares.iter().sum::<u64>(), packets as u64);
    members.iter().for_each(Service::interrupt);
    for member in members {
        fine(&member.end());
    }
    same(&place.events(&["again"]).0, want, "two members");
}

#[test]
fn several_together_have_what_one_has() {
    let Some(jars) = jars() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let cluster =
        BrokerCluster::start(&jars, folder.path(), 1, None).unwrap_or_else(|e| panic!("{e}"));
    let place = Place { cluster, folder };
    let sonde = sonde();
    let events = instances_by_sector(&place, &sonde);
    instances_by_sector(&place, &gdgem());
    instances_by_sector(&place, &multiblade());
    a_group_of_two_reprocesses_raw_packets(&place, &sonde, &events);
    a_group_of_two_makes_one_spectrum(&place, "sonde-whole");
}

#[test]
fn the_example_says_what_it_takes_and_refuses_the_rest() {
    let said = |arguments: &[&str]| {
        let output = example(arguments).output().expect("it starts");
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).expect("UTF-8"))
    };
    let (code, help) = said(&["--help"]);
    assert_eq!(code, Some(0));
    assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    for (arguments, words) in [
        (&["--bins", "0"][..], "--bins 0: expected 1 to 1000000"),
        (&["--width", "5"], "--width 5: "),
        (&["--width", "0s"], "--width 0s: expected 1ns to 1h"),
        (&["--from", "2h"], "--from 2h: expected 0ns to 1h"),
        (&["--every", "1ms"], "--every 1ms: expected 10ms to 1h"),
        (&["--brokers", "a b"], "--brokers a b: not a broker"),
        (&["--kafka-set", "x"], "--kafka-set x: expected NAME=VALUE"),
        (&["--kafka-set", "no.such=1"], "--kafka-set no.such"),
    ] {
        let (code, text) = said(&[&["--events", "e"], arguments].concat());
        assert_eq!((code, text.contains(words)), (Some(2), true), "{arguments:?}: {text}");
    }
    assert_eq!(said(&[]).0, Some(2), "--events is required");
}
