//! A thousand random item groups go from the Python package spead2 to our receiver and from our sender back to it.
//!
//! `tests/python/spead_echo.py` makes the groups: every flavour, every kind of numpy and of SPEAD's own formats, UDP and
//! TCP, packets of 56 B to 65,507 B. Here each heap is decoded and compared with what Python says of it in bit patterns and
//! texts; then our values go back with our descriptors, and Python compares them with what it sent. So what one direction
//! does wrong is not undone by the other one. The next heap is sent when the one before has come back: nothing is lost, and
//! nobody sleeps. Needs a Python with `tests/python/requirements.txt`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use fullcount_io::endpoint::UdpUrl;
use fullcount_io::spead::{
    IntakeStep, SpeadInput, SpeadIntake, SpeadOutlet, SpeadOutput, SpeadUrl, TcpIntake,
    TcpIntakeOptions,
};
use fullcount_io::udp::{ReceiveOptions, UdpSource};
use fullcount_spead::describe::{BugCompat, Elements, GroupItem, ItemLayout};
use fullcount_spead::receive::{Delivery, OnIncomplete, StreamEnd};
use fullcount_spead::send::{HeapGenerator, OutHeap, SendHow, What};
use fullcount_spead::{Descriptor, Flavour, Heap, ItemArray, ItemGroup, ReceiverConfig};
use serde_json::{Value, json};

use crate::python;

/// Bound on each wait: only a hang or a loss meets it. It is longer than Python's own one, which says more.
const PATIENCE: Duration = Duration::from_secs(40);
/// What the groups are made from.
const SEED: &str = "20240607";

const FLAVOURS: [u32; 7] = [8, 16, 24, 32, 40, 48, 56];
const PACKETS: [u64; 7] = [56, 64, 200, 1472, 8972, 30_000, 65_507];
const KINDS: [&str; 27] = [
    "b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "S", "U",
    "V", "M8", "m8", "record", "padded", "format", "fields", "packed", "mixed", "wide", "text",
];
const TRAITS: [&str; 13] = [
    "c",
    "fortran",
    "scalar",
    "1 dimensions",
    "2 dimensions",
    "3 dimensions",
    "nested",
    "big-endian",
    "little-endian",
    "variable",
    "empty",
    "immediate there",
    "immediate back",
];

/// The Python at the other end. A test that fails leaves none running.
struct Peer {
    child: Child,
    to: ChildStdin,
    lines: Receiver<String>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Peer {
    fn start(python: &Path) -> Peer {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/python/spead_echo.py");
        let mut command = Command::new(python);
        command.arg(script).arg(SEED).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("Python starts");
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (heard, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                if heard.send(line).is_err() {
                    break;
                }
            }
        });
        Peer { child, to, lines }
    }

    /// What it says next.
    fn hear(&self, after: &str) -> Value {
        let line = match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => panic!("after {after}: Python says nothing"),
            Err(RecvTimeoutError::Disconnected) => panic!("after {after}: Python has ended"),
        };
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
        if said["what"] == "error" {
            panic!("after {after}: {}", text(&said["why"]));
        }
        said
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// A value as the script says it: integers, bit patterns, hexadecimal bytes or texts, flat in C order; of a structure name and
/// list of each field.
fn plain(array: &ItemArray) -> Value {
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    match &array.elements {
        Elements::Bool(v) => v.iter().map(|b| u8::from(*b)).collect(),
        Elements::I8(v) => json!(v),
        Elements::I16(v) => json!(v),
        Elements::I32(v) => json!(v),
        Elements::I64(v) => json!(v),
        Elements::U8(v) => json!(v),
        Elements::U16(v) | Elements::F16(v) => json!(v),
        Elements::U32(v) => json!(v),
        Elements::U64(v) => json!(v),
        Elements::F32(v) => v.iter().map(|f| f.to_bits()).collect(),
        Elements::F64(v) => v.iter().map(|f| f.to_bits()).collect(),
        Elements::Complex32(v) => v.as_flattened().iter().map(|f| f.to_bits()).collect(),
        Elements::Complex64(v) => v.as_flattened().iter().map(|f| f.to_bits()).collect(),
        Elements::Bytes { width, data } => data.chunks(*width).map(hex).collect(),
        Elements::Text(v) => json!(v),
        Elements::Record(fields) => {
            fields.iter().map(|(name, array)| json!([name, plain(array)])).collect()
        }
    }
}

/// Our own descriptor of an item that was received: made from what was understood, not from what came.
fn ours(item: &GroupItem) -> Descriptor {
    let Descriptor { id, name, description, .. } = &item.descriptor;
    match item.layout() {
        Ok(ItemLayout::Numpy(header)) => Descriptor::numpy(*id, name, description, header),
        Ok(ItemLayout::Spead { format, shape }) => {
            let format: Vec<_> = format.iter().map(|field| (field.code, field.bits)).collect();
            Descriptor::spead(*id, name, description, shape, &format)
        }
        Err(why) => panic!("{name}: {why}"),
    }
}

/// An item and its value are what Python says.
fn compare(item: &GroupItem, said: &Value, place: &str) {
    let Descriptor { name, description, .. } = &item.descriptor;
    let (dimensions, format, fortran) = match item.layout() {
        Ok(ItemLayout::Numpy(header)) => (json!(header.shape), Value::Null, header.fortran_order),
        Ok(ItemLayout::Spead { format, shape }) => {
            let fields = format.iter().map(|field| json!([field.code, field.bits]));
            (json!(shape), fields.collect(), false)
        }
        Err(why) => panic!("{place}, {name}: {why}"),
    };
    let facts = [
        ("name", json!(name)),
        ("description", json!(description)),
        ("dimensions", dimensions),
        ("format", format),
        ("fortran", json!(fortran)),
        ("value", item.value.as_ref().map_or(Value::Null, plain)),
    ];
    for (fact, found) in facts {
        assert_eq!(found, said[fact], "{place}, {name}: {fact}, {:?}", item.descriptor);
    }
    if let Some(value) = &item.value {
        assert_eq!(json!(value.shape), said["shape"], "{place}, {name}: shape");
    }
}

/// A stream from Python, and the one back.
struct Echo {
    intake: SpeadIntake,
    outlet: SpeadOutlet,
    flavour: Flavour,
    /// The group that is under way, as it was received and as it goes back.
    known: ItemGroup,
    generator: HeapGenerator,
    /// Most packets of a heap.
    most_packets: u64,
}

fn open(transport: &str) -> (SpeadIntake, SocketAddr) {
    let any = UdpUrl::new(SocketAddr::from(([127, 0, 0, 1], 0)));
    // An incomplete heap is said at once.
    let config = ReceiverConfig { incomplete: OnIncomplete::Give, ..ReceiverConfig::default() };
    let told = SpeadInput { config, pool: 0, ..SpeadInput::default() };
    let mut intake = SpeadIntake::new(&told).unwrap();
    let at = match transport {
        "udp" => {
            let source = UdpSource::open(&any, &ReceiveOptions::default()).unwrap();
            let at = source.local_addr();
            intake.add_source(Box::new(source));
            at
        }
        _ => {
            let tcp = TcpIntake::listen(&any, TcpIntakeOptions::default()).unwrap();
            let at = tcp.local_addr().unwrap();
            intake.add_tcp(tcp);
            at
        }
    };
    (intake, at)
}

impl Echo {
    fn open(peer: &mut Peer, said: &Value) -> Echo {
        let transport = text(&said["transport"]);
        let bits = number(&said["bits"]) as u32;
        let (intake, at) = open(transport);
        writeln!(peer.to, "{}", at.port()).unwrap();
        // 50 MB/s in bursts of 8 KiB: nobody has to read faster than that.
        let (rate, burst) = if transport == "udp" { (50e6, "burst=8KiB&") } else { (0.0, "") };
        let (port, packet) = (&said["port"], &said["packet"]);
        let url = format!("spead+{transport}://127.0.0.1:{port}?{burst}packet={packet}B");
        let url = SpeadUrl::<SpeadOutput>::read(&url).unwrap();
        let flavour = Flavour::new(bits).unwrap();
        let known = ItemGroup::new(BugCompat::default());
        let generator = HeapGenerator::new(known.clone(), flavour, None);
        let outlet = SpeadOutlet::open(&[url], rate).unwrap();
        Echo { intake, outlet, flavour, known, generator, most_packets: 0 }
    }

    /// What comes next; `None`: the stop heap.
    fn receive(&mut self, place: &str) -> Option<Heap> {
        let (begun, mut came) = (Instant::now(), Vec::new());
        while came.is_empty() {
            let wait = Duration::from_millis(20);
            match self.intake.step(wait, &mut |delivery, _| came.push(delivery)).unwrap() {
                IntakeStep::Ended(why) if came.is_empty() => {
                    assert_eq!(why, StreamEnd::StopItem, "{place}");
                    return None;
                }
                _ => {}
            }
            let statistics = self.intake.stream().statistics();
            assert!(begun.elapsed() < PATIENCE, "{place}: no heap: {statistics:?}");
        }
        assert_eq!(came.len(), 1, "{place}: one heap at a time");
        let heap = came.pop().and_then(Delivery::heap);
        Some(heap.unwrap_or_else(|| panic!("{place}: an incomplete heap")))
    }

    fn send(&mut self, heap: OutHeap, place: &str) {
        let sent = self.outlet.sender().send(heap, SendHow::default());
        sent.unwrap_or_else(|e| panic!("{place}: {e}"));
        self.outlet.drain().unwrap_or_else(|e| panic!("{place}: {e}"));
    }

    /// Takes a heap, compares it with what Python says of it, and sends it back.
    fn turn(&mut self, said: &Value) {
        let place = text(&said["where"]);
        let first = said["first"].as_bool().unwrap();
        let heap = self.receive(place).unwrap_or_else(|| panic!("{place}: a stop in its place"));
        assert_eq!(heap.flavour, self.flavour, "{place}");
        self.most_packets = self.most_packets.max(heap.packets);
        if first {
            self.known = ItemGroup::new(BugCompat::default());
            self.generator = HeapGenerator::new(self.known.clone(), self.flavour, None);
        }
        let update = self.known.update(&heap);
        assert_eq!(update.errors, [], "{place}");
        let (mut all, mut valued) = (BTreeSet::new(), BTreeSet::new());
        for said in said["items"].as_array().unwrap() {
            let id = number(&said["id"]);
            let item = self.known.get(id);
            let item = item.unwrap_or_else(|| panic!("{place}: no item {said}"));
            compare(item, said, place);
            all.insert(id);
            if !said["value"].is_null() {
                valued.insert(id);
            }
        }
        assert_eq!(update.values.iter().copied().collect::<BTreeSet<u64>>(), valued, "{place}");
        if first {
            assert_eq!(update.descriptors.into_iter().collect::<BTreeSet<u64>>(), all, "{place}");
            for item in self.known.items() {
                self.generator.group.add(ours(item)).expect("room for it");
            }
        }
        for id in valued {
            let value = self.known.get(id).and_then(|item| item.value.clone()).unwrap();
            // Python sends an array without elements as an immediate, and cannot read such an immediate.
            if !value.is_empty() {
                let set = self.generator.group.set(id, value);
                set.unwrap_or_else(|e| panic!("{place}: item {id}: {e}"));
            }
        }
        let back = self.generator.heap(What::Stale, What::Stale);
        self.send(back.unwrap_or_else(|e| panic!("{place}: {e}")), place);
    }

    /// The stream from Python has its stop heap, and gets one back.
    fn end(&mut self, place: &str) {
        assert!(self.receive(place).is_none(), "{place}: more than was said");
        self.send(OutHeap::stop(self.flavour), place);
        self.outlet.finish().unwrap_or_else(|e| panic!("{place}: {e}"));
    }
}

/// What was compared is all that there is to compare.
fn complete(report: &Value) {
    let names = |what: &str| -> BTreeSet<String> {
        report[what].as_object().unwrap().keys().cloned().collect()
    };
    let both = |values: &[u64]| -> BTreeSet<String> {
        let of = |transport: &str| -> Vec<String> {
            values.iter().map(|value| format!("{transport} {value}")).collect()
        };
        [of("tcp"), of("udp")].into_iter().flatten().collect()
    };
    assert_eq!(names("flavours"), both(&FLAVOURS.map(u64::from)));
    assert_eq!(names("packets"), both(&PACKETS));
    let pairs =
        KINDS.iter().flat_map(|kind| FLAVOURS.iter().map(move |bits| format!("{kind} {bits}")));
    assert_eq!(names("pairs"), pairs.collect());
    assert_eq!(names("kinds"), KINDS.map(String::from).into());
    assert_eq!(names("traits"), TRAITS.map(String::from).into());
    for what in ["kinds", "traits"] {
        let rare = report[what].as_object().unwrap().iter().find(|(_, n)| number(n) < 20);
        assert_eq!(rare, None, "{report}");
    }
    let groups = &report["groups"];
    assert_eq!(number(&groups["udp"]) + number(&groups["tcp"]), 1000, "{report}");
}

#[test]
fn a_thousand_item_groups_of_the_python_package_come_to_us_and_back_to_it() {
    let Some(python) = python::interpreter() else { return };
    let mut peer = Peer::start(&python);
    let (mut groups, mut streams) = (0, 0);
    let mut most_packets = BTreeMap::new();
    let mut before = "the start".to_owned();
    let mut echo: Option<(Echo, u64)> = None;
    loop {
        let said = peer.hear(&before);
        before = said["where"].as_str().or(said["name"].as_str()).unwrap_or("").to_owned();
        match text(&said["what"]) {
            "stream" => {
                streams += 1;
                echo = Some((Echo::open(&mut peer, &said), number(&said["packet"])));
            }
            "heap" => {
                echo.as_mut().expect("a stream").0.turn(&said);
                groups += u64::from(said["first"] == true);
            }
            // It stays open until the next one: Python may still be sending the rest of its stop heap.
            "end" => {
                let (echo, packet) = echo.as_mut().expect("a stream");
                echo.end(&before);
                let most = most_packets.entry(*packet).or_insert(0);
                *most = echo.most_packets.max(*most);
            }
            "report" => {
                println!("{streams} streams, {groups} groups: {said}");
                complete(&said);
                break;
            }
            other => panic!("after {before}: {other}"),
        }
    }
    assert_eq!((groups, streams), (1000, 42));
    // Of each size there were heaps of several packets, so that it was the size.
    assert_eq!(most_packets.keys().copied().collect::<Vec<u64>>(), PACKETS);
    assert!(most_packets.values().all(|most| *most > 1), "{most_packets:?}");
    let more = peer.lines.recv_timeout(PATIENCE);
    assert_eq!(more, Err(RecvTimeoutError::Disconnected), "Python ends");
    assert!(peer.child.wait().unwrap().success(), "it ends well");
}
