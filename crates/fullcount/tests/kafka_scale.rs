//! Several at a time, against a real Kafka: instances that have a sector of a detector each, members of a group that
//! reprocess raw packets, and members that reduce events live. Together they have what one has.
//!
//! Source: `docs/scale.md`. One broker for all of it. Needs Java and the jars that `cargo xtask test` has fetched;
//! without them it says so, and fails with CI=true.

mod broker;
mod service;
// Its unit tests run here: an example's own do not.
#[path = "../examples/tof_spectrum/spectrum.rs"]
#[allow(dead_code, reason = "used by the example")]
mod spectrum;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use broker::{Cluster, jars};
use fullcount_lab::traffic::Traffic;
use fullcount_lab::traffic::gdgem::{GdGem, GdGemSetup};
use fullcount_lab::traffic::multiblade::{MultiBlade, MultiBladeSetup};
use fullcount_out::flat::DataType::Int64;
use fullcount_out::flat::{self, Events44, Message};
use fullcount_out::kafka::{
    Begin, Consumer, ConsumerOptions, EPOCH_HEADER, Polled, SOURCE_HEADER, TIME_HEADER,
};
use fullcount_out::write::structure;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use serde_json::Value;
use service::{Said, Service, get, write_capture};

/// Longest wait for anything that should take seconds.
const PATIENCE: Duration = Duration::from_secs(120);
/// 2026-01-01, ns since 1970.
const EPOCH: i64 = 1_767_225_600_000_000_000;
/// Sectors of each detector.
const SECTORS: usize = 4;

/// A packet, with who sent it. A sender belongs to a sector.
#[derive(Clone)]
struct Packet {
    sender: u8,
    bytes: Vec<u8>,
}

/// A detector with its packets in order of arrival.
struct Scene {
    kind: &'static str,
    /// Contents of the geometry file, which is that of the whole detector for everybody.
    geometry: String,
    /// More keys of `[detector]` for all instances.
    keys: &'static str,
    /// The key that says which sectors are an instance's, where one is needed.
    sector_key: Option<&'static str>,
    packets: Vec<Packet>,
    /// Senders of each sector.
    senders: u8,
    /// Events, where they are known without a run.
    expected: Option<Vec<(i64, i32)>>,
}

impl Scene {
    fn sector(&self, packet: &Packet) -> usize {
        usize::from(packet.sender / self.senders)
    }
}

/// 16 SoNDe modules, each an address of its own; four make a sector. Packets of 100 events, 1 µs from event to event.
fn sonde() -> Scene {
    let module = |sender: u32| {
        let (column, row) = (sender % 4, sender / 4);
        format!(
            "[[modules]]\nsource = \"10.0.0.{}\"\npixel_offset = {}\ncell = [{column}, {row}]\n",
            sender + 1,
            64 * sender
        )
    };
    // Pixels of channel 10 of ASICs 0, 1 and 2, with their byte in a packet.
    let pixels = [(0x0a, 14), (0x4a, 19), (0x8a, 46)];
    let (mut packets, mut expected) = (vec![], vec![]);
    for k in 0..320u32 {
        let sender = (k * 7 % 16) as u8;
        let mut p = vec![0x01, 0xd6];
        p.extend((k as u16 / 16).to_be_bytes());
        p.extend((k * 100_000).to_be_bytes());
        p.extend(501u16.to_be_bytes());
        p.push(100);
        for n in k * 100..(k + 1) * 100 {
            let (byte, pixel) = pixels[n as usize % 3];
            p.extend((n * 1_000).to_be_bytes());
            p.push(byte);
            expected.push((EPOCH + i64::from(n) * 1_000, pixel + 64 * i32::from(sender)));
        }
        packets.push(Packet { sender, bytes: p });
    }
    let geometry = (0..16).map(module).collect();
    expected.sort_unstable();
    let (kind, keys) = ("sonde", "");
    Scene { kind, geometry, keys, sector_key: None, packets, senders: 4, expected: Some(expected) }
}

fn simulated(traffic: &mut dyn Traffic, count: usize) -> Vec<Vec<u8>> {
    let mut all = vec![];
    while all.len() < count {
        let train = traffic.next_train(count - all.len(), 1_700_000_000_000_000_000);
        all.extend(train.expect("no end was set").each().map(<[u8]>::to_vec));
    }
    all
}

/// A Gd-GEM of four sectors: two FECs each, x and y in coincidence.
fn gdgem() -> Scene {
    let noise = "dark=10%,pileup=random".parse().expect("noise");
    let setup =
        GdGemSetup { words: Some(150), noise, prepared_bytes: 1 << 20, ..GdGemSetup::default() };
    let mut traffic = GdGem::new(&setup).expect("four sectors");
    let turn = traffic.turn().0 as usize;
    // The header's last byte names the FEC: 1 to 8. Each sends from an address of its own.
    let packet = |bytes: Vec<u8>| Packet { sender: (bytes[7] >> 4) - 1, bytes };
    let packets = simulated(&mut traffic, turn).into_iter().map(packet).collect();
    Scene {
        kind: "gdgem",
        geometry: GdGem::configuration(),
        keys: "one_picture = true\n",
        sector_key: Some("sectors"),
        packets,
        senders: 2,
        expected: None,
    }
}

/// Multi-Blade cassettes, wires and strips in coincidence: each readout computer has one or two of the six.
fn multiblade() -> Scene {
    let noise = "dark=10%,bad=5%,pileup=random".parse().expect("noise");
    let setup = MultiBladeSetup { noise, prepared_bytes: 1 << 20, ..MultiBladeSetup::default() };
    let mut traffic = MultiBlade::new(&setup).expect("the prototype");
    let packets = simulated(&mut traffic, 1_000);
    let digitiser = |bytes: &[u8]| bytes[16..20].try_into().map(u32::from_le_bytes).expect("four");
    let known: BTreeSet<u32> = packets.iter().map(|p| digitiser(p)).collect();
    let mut sent = [0u32; SECTORS];
    let packet = |mut bytes: Vec<u8>| {
        let cassette = known.iter().position(|d| *d == digitiser(&bytes)).expect("known");
        let sender = cassette * SECTORS / known.len();
        // Each readout computer counts its own packets.
        bytes[26..30].copy_from_slice(&sent[sender].to_le_bytes());
        sent[sender] += 1;
        Packet { sender: sender as u8, bytes }
    };
    let packets = packets.into_iter().map(packet).collect();
    Scene {
        kind: "multiblade",
        geometry: MultiBlade::configuration(setup.cassettes).expect("the prototype"),
        keys: "",
        sector_key: None,
        packets,
        senders: 1,
        expected: None,
    }
}

/// A capture with senders 10.0.0.1, 10.0.0.2, …
fn senders<'a>(path: &Path, packets: impl Iterator<Item = &'a Packet>) {
    write_capture(path, packets.map(|p| (p.sender + 1, p.bytes.as_slice())));
}

/// A broker, and a folder.
struct Place {
    cluster: Cluster,
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

    /// A configuration file of one instance; `more` stands behind `[output.kafka]`.
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

    /// `[output.kafka]` of an instance with a spool of its own.
    fn to_topic(&self, topic: &str, spool: &str) -> String {
        format!(
            "[output.kafka]\nbrokers = \"{}\"\ntopic = \"{topic}\"\nspool = \"{}\"\n\
             capacity = 2000\ndrain = \"100s\"\n[output.kafka.options]\nlinger.ms = 5\n",
            self.brokers(),
            self.path(spool).display()
        )
    }

    /// Messages of all partitions, to their ends as they are now.
    fn each(&self, topic: &str, mut see: impl FnMut(&fullcount_out::kafka::Message<'_>)) {
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
                let Ok(Message::Ev44(m)) = flat::decode(message.payload()) else {
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

/// Waits until the group has so many members that share the partitions among them.
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
        let Ok(Message::Ar51(raw)) = flat::decode(message.payload()) else { panic!("no ar51") };
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

/// The example program; built with the tests of this package.
fn example(arguments: &[&str]) -> Command {
    let path = Path::new(env!("CARGO_BIN_EXE_fullcount")).with_file_name("examples");
    let path = path.join(format!("tof_spectrum{}", std::env::consts::EXE_SUFFIX));
    assert!(path.is_file(), "not built: `cargo build -p fullcount --examples`");
    let mut command = Command::new(path);
    command.args(arguments).stdin(Stdio::null());
    command
}

const BINS: usize = 40;
const WIDTH_NS: i64 = 100_000;
const FROM_NS: i64 = 1_000_000;

/// Events of the messages by time since their pulse: below, in the bins, above.
fn made_of<'a>(messages: impl Iterator<Item = &'a Vec<u8>>) -> (i64, Vec<i64>, i64) {
    let (mut below, mut counts, mut above) = (0, vec![0; BINS], 0);
    for message in messages {
        let Ok(Message::Ev44(Events44 { time_of_flight: Some(times), .. })) = flat::decode(message)
        else {
            panic!("events with times")
        };
        for time in times.iter().map(|&t| i64::from(t)) {
            if time < FROM_NS {
                below += 1;
            } else if time >= FROM_NS + WIDTH_NS * BINS as i64 {
                above += 1;
            } else {
                counts[((time - FROM_NS) / WIDTH_NS) as usize] += 1;
            }
        }
    }
    (below, counts, above)
}

fn printed(summary: &Value) -> (i64, Vec<i64>, i64) {
    let counts = summary["counts"].as_array().expect("a list").iter();
    let counts: Vec<i64> = counts.map(|c| c.as_i64().expect("a number")).collect();
    (summary["below"].as_i64().unwrap(), counts, summary["above"].as_i64().unwrap())
}

/// Two members of a group make one spectrum; one is killed half-way, and another one takes its place.
fn a_group_of_two_makes_one_spectrum(place: &Place, events: &str) {
    let mut messages = vec![];
    place.each(events, |message| messages.push(message.payload().to_vec()));
    assert!(messages.len() >= 12, "{} messages", messages.len());
    place.topic("live", 2);
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", place.brokers()).create().expect("a producer");
    let publish = |part: &[Vec<u8>]| {
        for (n, message) in (0..).zip(part) {
            let record = BaseRecord::<(), [u8]>::to("live").payload(message).partition(n % 2);
            producer.send(record).expect("queued");
        }
        producer.flush(PATIENCE).expect("confirmed");
    };
    let brokers = place.brokers();
    let mut all = vec!["--brokers", brokers.as_str(), "--events", "live", "--from", "1ms"];
    all.extend(["--width", "100us", "--bins", "40", "--every", "50ms", "--json"]);
    let member = || Service::run(example(&all));
    let sum = || {
        let mut command = example(&all);
        let output = command.args(["--total", "--until-end"]).output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        serde_json::from_str::<Value>(text.lines().last().expect("a line")).expect("JSON")
    };
    let thirds: Vec<&[Vec<u8>]> = messages.chunks(messages.len().div_ceil(3)).collect();

    // Both from before the first message to the end: what each has counted itself adds up as well.
    let running = [member(), member()];
    wait_for_members(place, "tof-spectrum", 2);
    publish(thirds[0]);
    assert_eq!(printed(&sum()), made_of(thirds[0].iter()));
    running.iter().for_each(Service::interrupt);
    let mut together = (0, vec![0; BINS], 0);
    for one in running {
        let said = one.end();
        assert_eq!(said.code, 0, "{}", said.err);
        let summary = said.summary();
        assert!(summary["messages"].as_u64() > Some(0), "each has a part: {summary}");
        assert_eq!((&summary["missing"], &summary["other_messages"]), (&0.into(), &0.into()));
        let (below, counts, above) = printed(&summary);
        together.0 += below;
        together.1.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n);
        together.2 += above;
    }
    assert_eq!(together, made_of(thirds[0].iter()));

    // Two new ones go on from what is published. One dies with what it had not published, and its partition moves.
    // (Its death is noticed within 3 s; a live one that is slow loses its place as well, and that must not matter.)
    let hasty =
        ["--kafka-set", "session.timeout.ms=3000", "--kafka-set", "heartbeat.interval.ms=300"];
    let member = || {
        let mut command = example(&all);
        command.args(hasty);
        Service::run(command)
    };
    let mut running = [member(), member()];
    wait_for_members(place, "tof-spectrum", 2);
    publish(thirds[1]);
    running[0].child.kill().expect("killed");
    publish(thirds[2]);
    let summary = sum();
    let want = made_of(messages.iter());
    assert!(want.0 > 0 && want.1.iter().sum::<i64>() > 0 && want.2 > 0, "{want:?}");
    assert_eq!(printed(&summary), want);
    let [_, other] = running;
    other.interrupt();
    assert_eq!(other.end().code, 0);

    // A group that knows nothing of the other's offsets reads everything again, and counts only what is new.
    let mut command = example(&all);
    command.args(["--group", "late"]);
    let late = Service::run(command);
    wait_for_members(place, "late", 1);
    publish(&messages[..2]);
    let want = made_of(messages.iter().chain(&messages[..2]));
    assert_eq!(printed(&sum()), want);
    late.interrupt();
    let said = late.end();
    let summary = said.summary();
    assert_eq!(summary["passed_over"], messages.len(), "{}", said.err);
    assert_eq!(printed(&summary), made_of(messages[..2].iter()));

    // A member ends where everything is counted; other bins under the same name are refused.
    let said = Service::run({
        let mut command = example(&all);
        command.args(["--group", "end", "--until-end"]);
        command
    });
    assert_eq!(said.end().code, 0);
    let mut command =
        example(&["--brokers", &brokers, "--events", "live", "--bins", "7", "--total"]);
    let said = command.output().expect("it starts");
    let words = String::from_utf8_lossy(&said.stderr);
    assert_eq!(
        (said.status.code(), words.contains("40 bins of 100000 ns")),
        (Some(1), true),
        "{words}"
    );

    // On the topic, as others read it: the sum under the name, each partition under its number. The file writer takes
    // them as the document says it.
    let document = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scale.md"));
    let document = document.expect("the document");
    let module = document.split("```json\n").nth(1).and_then(|rest| rest.split("```").next());
    let module = module.expect("a module for the writer");
    let group = |name, class, child: &str| {
        format!(
            r#"{{"type": "group", "name": "{name}", "attributes": {{"NX_class": "{class}"}}, "children": [{child}]}}"#
        )
    };
    let entry = group("entry", "NXentry", &group("tof", "NXdata", module));
    let plan =
        structure::parse(&format!("{{\"children\": [{entry}]}}"), &structure::Limits::default());
    assert_eq!(plan.expect("the writer takes it").topics(), ["d22_detector_tof"]);
    let module: Value = serde_json::from_str(module).expect("JSON");
    let variables = module["config"]["variables"].as_array().expect("a list");
    assert_eq!(variables.len(), 2);
    let mut sources = BTreeMap::new();
    place.each("live_tof", |message| {
        let Ok(Message::Da00(array)) = flat::decode(message.payload()) else { panic!("no da00") };
        let named = |name: &str| array.data.iter().find(|v| v.name == name).expect("a variable");
        assert!(array.data.iter().all(|v| v.fits()));
        assert_eq!((array.data[0].name, array.data[0].unit), ("tof", Some("ns")));
        for variable in variables {
            let found = named(variable["name"].as_str().expect("a name"));
            assert_eq!((variable["data_type"].as_str(), found.data_type), (Some("int64"), Int64));
            let length = variable["shape"][0].as_i64().expect("one number");
            assert_eq!(&found.shape[..], [length - 200 + BINS as i64]);
        }
        let counts = named("signal").data.as_chunks().0.iter().map(|b| i64::from_le_bytes(*b));
        sources.insert(array.source_name.to_owned(), counts.collect::<Vec<_>>());
    });
    let names: Vec<&str> = sources.keys().map(String::as_str).collect();
    assert_eq!(names, ["tof_spectrum", "tof_spectrum/0", "tof_spectrum/1"]);
    assert_eq!(sources["tof_spectrum"], want.1);
}

#[test]
fn several_together_have_what_one_has() {
    let Some(jars) = jars() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = Cluster::start(&jars, folder.path(), 1, None).unwrap_or_else(|e| panic!("{e}"));
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
