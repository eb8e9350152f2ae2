//! The table of differences between `compat=spead2` and the default in `docs/spead.md`, row by row: what comes in, which heaps each of
//! them delivers, and by how much the counters of the row move.
//!
//! Answers for spead2: `docs/formats/spead.md`, sections 8 and 18. Time is an argument wherever it counts, so nothing waits for it.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fullcount_core::ledger::{Ledger, Sheet};
use fullcount_core::source::{SourceOpening, SourceSetup, Sources};
use fullcount_io::spead::{
    IntakeStep, SpeadInput, SpeadIntake, SpeadUrl, carrier, end_when_stalled,
};
use fullcount_spead::HeapReceiver;
use fullcount_spead::receive::{Delivery, Outcome, SpeadCounter, StreamEnd};

use crate::spead::PATIENCE;
use crate::spead_ways::port_of;

const SECOND: u64 = 1_000_000_000;
/// Keys of a URL in spead2's way, and in ours.
const WAYS: [&str; 2] = ["compat=spead2", ""];

/// Pointers of a packet of SPEAD-64-40: item id, immediate, value.
type Pointers<'a> = &'a [(u64, bool, u64)];

fn made(pointers: Pointers<'_>, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x53, 4, 3, 5, 0, 0, 0, pointers.len() as u8];
    for (id, immediate, value) in pointers {
        packet.extend((u64::from(*immediate) << 63 | id << 40 | value).to_be_bytes());
    }
    packet.extend(payload);
    packet
}

/// A packet with an item at address 0.
fn packet(cnt: u64, length: u64, offset: u64, bytes: usize) -> Vec<u8> {
    let standard = [(1, true, cnt), (2, true, length), (3, true, offset), (4, true, bytes as u64)];
    made(&[&standard[..], &[(0x1000, false, 0)]].concat(), &vec![cnt as u8; bytes])
}

/// A heap of that number in so many packets of 100 B.
fn heap(cnt: u64, packets: u64) -> Vec<Vec<u8>> {
    (0..packets).map(|n| packet(cnt, 100 * packets, 100 * n, 100)).collect()
}

fn stop(cnt: u64) -> Vec<u8> {
    made(&[(1, true, cnt), (2, true, 0), (3, true, 0), (4, true, 0), (6, true, 2)], &[])
}

/// What came of one way: heaps by number and whether they are whole, how the stream ended, and counters by name.
#[derive(Debug, PartialEq)]
struct Way {
    heaps: Vec<(u64, bool)>,
    ended: Option<StreamEnd>,
    counters: BTreeMap<&'static str, u64>,
}

type Counts = &'static [(&'static str, u64)];

/// What is expected of a way: whole heaps, and counters.
fn way(whole: &[u64], ended: Option<StreamEnd>, counters: Counts) -> Way {
    let heaps = whole.iter().map(|cnt| (*cnt, true)).collect();
    Way { heaps, ended, counters: counters.iter().copied().collect() }
}

fn found(
    all: &[Delivery],
    ended: Option<StreamEnd>,
    sheets: Vec<Arc<Sheet>>,
    names: &[&'static str],
) -> Way {
    let ledger = Ledger::default();
    sheets.into_iter().for_each(|sheet| ledger.register(sheet));
    let entries = ledger.read();
    let of = |name: &&'static str| {
        (*name, entries.get(name).unwrap_or_else(|| panic!("no counter {name}")))
    };
    let heaps = all.iter().map(|heap| (heap.cnt(), matches!(heap, Delivery::Heap(_)))).collect();
    Way { heaps, ended, counters: names.iter().map(of).collect() }
}

/// Datagrams at their times, ns, into a stream as `receive` sets it up for that URL; its timeouts are looked at until a time.
fn stream_of(keys: &str, input: &[(u64, Vec<u8>)], until: u64, names: &[&'static str]) -> Way {
    let text = format!("spead+udp://127.0.0.1:1?incomplete&{keys}");
    let mut urls = [SpeadUrl::<SpeadInput>::read(&text).unwrap()];
    end_when_stalled(&mut urls, Duration::from_secs(30));
    let mut stream = HeapReceiver::new(urls[0].told.config.clone()).unwrap();
    let mut all = vec![];
    for (at, datagram) in input {
        stream.expire(*at);
        // The consumer takes something only when the ring is full.
        while stream.push(*at, datagram) == Outcome::Full {
            all.extend(stream.pop());
        }
    }
    stream.expire(until);
    all.extend(std::iter::from_fn(|| stream.pop()));
    let sheet = Sheet::new(SpeadCounter::catalogue());
    stream.tally().flush(&sheet);
    found(&all, stream.ended(), vec![sheet], names)
}

/// The same of datagrams that come at once, in both ways.
fn at_once(packets: Vec<Vec<u8>>, names: &[&'static str]) -> [Way; 2] {
    let input: Vec<_> = packets.into_iter().map(|packet| (0, packet)).collect();
    WAYS.map(|keys| stream_of(keys, &input, 0, names))
}

fn open(url: &str) -> SpeadIntake {
    open_all(&[url.to_owned()])
}

/// Readers of one stream.
fn open_all(urls: &[String]) -> SpeadIntake {
    let mut sources = Sources::default();
    fullcount_io::source::register(&mut sources);
    let planned = carrier::plan_stream(urls, &SourceSetup::plain(&sources)).unwrap();
    let (urls, inner): (Vec<_>, Vec<_>) = planned.into_iter().unzip();
    SpeadIntake::open(&urls, &inner, &SourceOpening::PLAIN).unwrap()
}

/// Reads to the end of the stream; an error ends it as well, and then its words are the second value.
fn read(mut intake: SpeadIntake, names: &[&'static str]) -> (Way, String) {
    let (mut all, begun) = (vec![], Instant::now());
    let (ended, why) = loop {
        match intake.step(Duration::from_millis(20), &mut |heap, _| all.push(heap)) {
            Ok(IntakeStep::Ended(ended)) => break (Some(ended), String::new()),
            Err(why) => break (None, why.to_string()),
            Ok(_) => assert!(begun.elapsed() < PATIENCE, "it hangs"),
        }
    };
    let sheets = [vec![intake.sheet()], intake.reader_sheets()].concat();
    (found(&all, ended, sheets, names), why)
}

fn reordered() {
    let mut packets = heap(1, 4);
    packets.swap(1, 2);
    let [theirs, ours] = at_once(packets, &["spead.reordered", "spead.refused.out_of_order"]);
    // The third packet is not the next one, and then neither is the fourth.
    let counts = &[("spead.reordered", 0), ("spead.refused.out_of_order", 2)];
    assert_eq!(theirs, way(&[], None, counts));
    let counts = &[("spead.reordered", 1), ("spead.refused.out_of_order", 0)];
    assert_eq!(ours, way(&[1], None, counts));
}

/// Copies of the first packets of four finished heaps while a fifth is under way; then the rest of the fifth.
fn late() {
    let names = &["spead.refused.duplicate_heap", "spead.refused.late"];
    let finished = (1..=4).flat_map(|cnt| heap(cnt, 2));
    let copies = (1..=4).map(|cnt| heap(cnt, 2).swap_remove(0));
    let [first, last] = <[Vec<u8>; 2]>::try_from(heap(5, 2)).unwrap();
    let packets = finished.chain([first]).chain(copies).chain([last]).collect();
    let [theirs, ours] = at_once(packets, names);
    let none = &[("spead.refused.duplicate_heap", 0), ("spead.refused.late", 0)];
    let first_four = [1, 2, 3, 4].map(|cnt| (cnt, true));
    let heaps = [&first_four[..], &[(5, false)]].concat();
    assert_eq!(theirs, Way { heaps, ..way(&[], None, none) }, "phantoms push heap 5 out");
    let four = &[("spead.refused.duplicate_heap", 4), ("spead.refused.late", 0)];
    assert_eq!(ours, way(&[1, 2, 3, 4, 5], None, four));
    // A heap that four later ones pushed out, and then copies of its packet.
    let given_up = |times| {
        [
            vec![packet(1, 200, 0, 100)],
            (2..=5).map(|cnt| packet(cnt, 200, 0, 100)).collect(),
            vec![packet(1, 200, 0, 100); times],
        ]
        .concat()
    };
    let [theirs, ours] = at_once(given_up(3), names);
    let pushed_out = Way { heaps: vec![(1, false), (2, false)], ..way(&[], None, none) };
    assert_eq!(theirs, pushed_out, "a phantom pushed out one more");
    let three = &[("spead.refused.duplicate_heap", 0), ("spead.refused.late", 3)];
    assert_eq!(ours, Way { heaps: vec![(1, false)], ..way(&[], None, three) });
}

fn twice() {
    let packets = vec![packet(1, 100, 0, 100); 3];
    let [theirs, ours] = at_once(packets, &["spead.refused.duplicate_heap"]);
    assert_eq!(theirs, way(&[1, 1, 1], None, &[("spead.refused.duplicate_heap", 0)]));
    assert_eq!(ours, way(&[1], None, &[("spead.refused.duplicate_heap", 2)]));
}

fn merged() {
    let datagrams = vec![heap(1, 3).concat(), heap(2, 2).concat()];
    let [theirs, ours] =
        at_once(datagrams, &["spead.merged_datagrams", "spead.malformed.trailing"]);
    let counts = &[("spead.merged_datagrams", 0), ("spead.malformed.trailing", 2)];
    assert_eq!(theirs, way(&[], None, counts));
    let counts = &[("spead.merged_datagrams", 2), ("spead.malformed.trailing", 0)];
    assert_eq!(ours, way(&[1, 2], None, counts));
}

fn without_an_end() {
    let input = [(0, packet(1, 200, 0, 100)), (0, packet(2, 100, 0, 100))];
    let names = &["spead.heaps.timed_out"];
    let way_of = |keys: &str, until| stream_of(keys, &input, until, names);
    assert_eq!(way_of("", 5 * SECOND - 1), way(&[2], None, &[("spead.heaps.timed_out", 0)]));
    let given_up = way_of("", 5 * SECOND);
    assert_eq!(given_up.heaps, [(2, true), (1, false)]);
    assert_eq!(given_up.counters["spead.heaps.timed_out"], 1);
    let theirs = way_of("compat=spead2", 3600 * SECOND);
    assert_eq!(theirs, way(&[2], None, &[("spead.heaps.timed_out", 0)]));
}

fn without_a_stop() {
    let input = [(SECOND, packet(1, 100, 0, 100))];
    let way_of = |keys: &str, until| stream_of(keys, &input, until, &["spead.stalls"]);
    assert_eq!(way_of("", 31 * SECOND - 1), way(&[1], None, &[("spead.stalls", 0)]));
    assert_eq!(
        way_of("", 31 * SECOND),
        way(&[1], Some(StreamEnd::Stalled), &[("spead.stalls", 1)])
    );
    let theirs = way_of("compat=spead2", 3600 * SECOND);
    assert_eq!(theirs, way(&[1], None, &[("spead.stalls", 0)]));
}

/// Two readers at addresses of their own, the first with this transport; their ports.
fn readers(scheme: &str, keys: [&str; 2]) -> (SpeadIntake, [u16; 2]) {
    let ats = ["127.0.0.1", "127.0.0.2"];
    let urls = [
        format!("{scheme}://{}:0?{}", ats[0], keys[0]),
        format!("spead+udp://{}:0?{}", ats[1], keys[1]),
    ];
    let intake = open_all(&urls);
    let ports = ats.map(|at| port_of(&intake, at));
    (intake, ports)
}

fn of_several_readers() {
    let names = &["spead.heaps.stop"];
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let send = |to: (&str, u16), packets: [Vec<u8>; 2]| {
        packets.iter().for_each(|packet| assert!(socket.send_to(packet, to).is_ok()));
    };
    for (keys, all) in [
        (["compat=spead2", ""], false),
        (["", ""], true),
        // Who says how many gets so many.
        (["compat=spead2&senders=1", ""], true),
        (["compat=spead2", "compat=spead2&senders=1"], true),
    ] {
        // The stop of the first one; the other says something only where it is waited for.
        let (intake, ports) = readers("spead+udp", keys);
        send(("127.0.0.1", ports[0]), [packet(1, 100, 0, 100), stop(2)]);
        if all {
            send(("127.0.0.2", ports[1]), [packet(3, 100, 0, 100), stop(4)]);
        }
        let (mut found, _) = read(intake, names);
        found.heaps.sort_unstable();
        let (heaps, stops): (&[u64], Counts) = match all {
            true => (&[1, 3], &[("spead.heaps.stop", 2)]),
            false => (&[1], &[("spead.heaps.stop", 1)]),
        };
        assert_eq!(found, way(heaps, Some(StreamEnd::StopItem), stops), "{keys:?}");
        // The end of the first one.
        let (intake, ports) = readers("spead+tcp", keys);
        let mut first = TcpStream::connect(("127.0.0.1", ports[0])).unwrap();
        first.write_all(&packet(1, 100, 0, 100)).unwrap();
        drop(first);
        if all {
            send(("127.0.0.2", ports[1]), [packet(3, 100, 0, 100), stop(4)]);
        }
        let (mut found, _) = read(intake, names);
        found.heaps.sort_unstable();
        let stops: Counts = &[("spead.heaps.stop", 1)];
        let stops = if all { stops } else { &[("spead.heaps.stop", 0)] };
        assert_eq!(found, way(heaps, Some(StreamEnd::Readers), stops), "{keys:?}");
    }
}

fn waiting() {
    let heaps = |n: u64| (1..=n).map(|cnt| packet(cnt, 100, 0, 100)).collect::<Vec<_>>();
    let names = &["spead.ring_full"];
    for (many, full) in [(4, [0, 0]), (5, [1, 0]), (64, [60, 0]), (65, [61, 1])] {
        for (way, full) in at_once(heaps(many), names).into_iter().zip(full) {
            assert_eq!(way.heaps.len() as u64, many, "none is lost");
            assert_eq!(way.counters["spead.ring_full"], full, "{many} heaps");
        }
    }
}

/// Two heaps of one packet, the second above what spead2 takes, and the stop.
fn large() {
    let names = &["spead.reader.too_large", "spead.accepted"];
    let counts: [Counts; 2] = [
        &[("spead.reader.too_large", 1), ("spead.accepted", 2)],
        &[("spead.reader.too_large", 0), ("spead.accepted", 3)],
    ];
    let expected = [
        way(&[1], Some(StreamEnd::StopItem), counts[0]),
        way(&[1, 2], Some(StreamEnd::StopItem), counts[1]),
    ];
    // 48 B are header and pointers.
    let of = |most: usize| {
        [
            packet(1, most as u64 - 48, 0, most - 48),
            packet(2, most as u64 - 47, 0, most - 47),
            stop(3),
        ]
    };
    for (keys, expected) in WAYS.iter().zip(&expected) {
        let intake = open(&format!("spead+udp://127.0.0.1:0?{keys}"));
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        for packet in of(9200) {
            socket.send_to(&packet, ("127.0.0.1", port_of(&intake, "127.0.0.1"))).unwrap();
        }
        assert_eq!(&read(intake, names).0, expected, "UDP {keys}");
        let intake = open(&format!("spead+tcp://127.0.0.1:0?{keys}"));
        let at = ("127.0.0.1", port_of(&intake, "127.0.0.1"));
        let sender = std::thread::spawn(move || {
            TcpStream::connect(at).unwrap().write_all(&of(65_536).concat()).unwrap();
        });
        assert_eq!(&read(intake, names).0, expected, "TCP {keys}");
        sender.join().unwrap();
    }
}

fn vector(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/spead").join(name)
}

fn capture(path: &Path, names: &[&'static str]) -> [(Way, String); 2] {
    WAYS.map(|keys| {
        read(open(&format!("spead+pcap:{}?flat-out&incomplete&{keys}", path.display())), names)
    })
}

fn odd_frames() {
    let names = &["pcap.other_ip", "pcap.fragments_refused", "receive.packets"];
    let [(theirs, _), (ours, _)] = capture(&vector("pcap_odd_frames.pcap"), names);
    // A frame with a tag, one over IPv6, two fragments; 14 plain ones.
    let counts = &[("pcap.other_ip", 2), ("pcap.fragments_refused", 2), ("receive.packets", 14)];
    assert_eq!(theirs, way(&[1, 2, 3], Some(StreamEnd::StopItem), counts));
    let counts = [("pcap.other_ip", 0), ("pcap.fragments_refused", 0), ("receive.packets", 17)];
    assert_eq!(ours.counters, counts.into_iter().collect());
    // The fragments are a packet of another heap 2, which comes first.
    assert_eq!(ours.heaps, [(1, true), (3, true), (2, false)]);
}

/// The frames of a capture over Ethernet, with another link type and this in place of the Ethernet header.
fn relinked(link: u16, header: &[u8], to: &Path) {
    let bytes = std::fs::read(vector("udp_capture.pcap")).unwrap();
    let (head, mut rest) = bytes.split_at(24);
    let mut file = head.to_vec();
    file[20..22].copy_from_slice(&link.to_le_bytes());
    while !rest.is_empty() {
        let length = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        let (frame, next) = rest[16..].split_at(length);
        let new = (length - 14 + header.len()) as u32;
        file.extend(&rest[..8]);
        file.extend([new.to_le_bytes(), new.to_le_bytes()].concat());
        file.extend([header, &frame[14..]].concat());
        rest = next;
    }
    std::fs::write(to, file).unwrap();
}

fn other_links() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.pcap");
    let mut cooked = [0; 20];
    cooked[0] = 8;
    for (link, header) in [(101, &[][..]), (276, &cooked[..])] {
        relinked(link, header, &path);
        let [(theirs, why), (ours, _)] = capture(&path, &["receive.packets"]);
        assert!(why.contains(&format!("frames of link type {link}")), "{why}");
        assert_eq!(theirs, way(&[], None, &[("receive.packets", 0)]));
        assert_eq!(ours, way(&[1, 2, 3], Some(StreamEnd::StopItem), &[("receive.packets", 14)]));
    }
}

/// A row of the table by its first column, the counters that it names, and what goes through it.
type Row = (&'static str, &'static [&'static str], fn());

const ROWS: [Row; 11] = [
    ("packets of a heap out of order", &["spead.reordered"], reordered),
    (
        "a late packet of a finished heap",
        &["spead.refused.late", "spead.refused.duplicate_heap"],
        late,
    ),
    ("a heap of one packet comes twice", &["spead.refused.duplicate_heap"], twice),
    ("several packets in one datagram", &["spead.merged_datagrams"], merged),
    ("a heap whose end never comes", &["spead.heaps.timed_out"], without_an_end),
    ("a stop heap that is lost", &["spead.stalls"], without_a_stop),
    (
        "the first stop, or the first end, of several readers",
        &["spead.heaps.stop"],
        of_several_readers,
    ),
    ("finished heaps that wait for their consumer", &["spead.ring_full"], waiting),
    ("packets above 9200 B (UDP) or 65,536 B (TCP)", &["spead.reader.too_large"], large),
    (
        "IPv6, fragments and VLAN tags in captures",
        &["pcap.other_ip", "pcap.fragments_refused"],
        odd_frames,
    ),
    ("captures of raw IP and Linux cooked v2", &["receive.packets"], other_links),
];

#[test]
fn each_row_of_the_table_of_differences_is_as_it_says_and_counts() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/spead.md");
    let page = std::fs::read_to_string(page).unwrap();
    let table = page.split("| what happens | `compat=spead2` |").nth(1).expect("the table");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let rows: Vec<(String, String)> = rows
        .map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            (cells[1].to_owned(), cells[4].to_owned())
        })
        .collect();
    let told: Vec<(String, String)> = ROWS
        .iter()
        .map(|(what, counters, _)| {
            let named: Vec<String> = counters.iter().map(|name| format!("`{name}`")).collect();
            ((*what).to_owned(), named.join(", "))
        })
        .collect();
    assert_eq!(rows, told, "a row of the page without a test, or with another counter");
    for (what, _, test) in ROWS {
        println!("{what}");
        test();
    }
}
