//! Heaps and carried packets over every way: multicast, an interface, captures, connections; what a decoder behind the carrier is told.

use std::time::{Duration, Instant};

use fullcount_core::batch::Edge;
use fullcount_core::destination::{DestinationOpening, Destinations};
use fullcount_core::source::{
    Downstream, FrameRule, Received, Shifter, SourceOpening, SourceSetup, Sources, TurningClock,
    TurnsFrom,
};
use fullcount_io::spead::{HeapsJob, SpeadIntake, SpeadOutlet, carrier};
use fullcount_spead::receive::{HeapReceiver, Outcome, ReceiverConfig, StreamEnd};
use fullcount_testing::veth::{NAME, RECEIVER, Veth};

use crate::spead::{PATIENCE, balanced, good, output, receive, send};

/// An intake of one URL, opened as a person's is.
pub fn opened(url: &str) -> SpeadIntake {
    let mut sources = Sources::default();
    fullcount_io::source::register(&mut sources);
    let (url, inner) = carrier::plan(url, &SourceSetup::plain(&sources)).unwrap();
    SpeadIntake::open(&[url], &[inner], &SourceOpening::PLAIN).unwrap()
}

/// The port that the system chose at this address.
pub fn port_of(intake: &SpeadIntake, address: &str) -> u16 {
    let facts = intake.describe();
    let port = facts.iter().find_map(|fact| {
        let (_, at) = fact.split_once(&format!("{address}:"))?;
        at.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    });
    port.unwrap_or_else(|| panic!("{facts:?}"))
}

#[test]
fn heaps_come_to_a_multicast_group() {
    let job = HeapsJob { heap_size: 50_000, heaps: Some(4), verify: true, ..HeapsJob::default() };
    let mut intake = opened("spead+udp://239.255.77.17:0?interface=127.0.0.1");
    let port = port_of(&intake, "239.255.77.17");
    let to = format!("spead+udp://239.255.77.17:{port}?interface=127.0.0.1&ttl=0&loop=1");
    let sender = send(to, job.clone(), 0.0);
    let (why, all) = receive(&mut intake);
    assert_eq!((why, good(all, &job)), (StreamEnd::StopItem, 4));
    assert!(intake.describe().iter().any(|fact| fact.contains("joined")));
    sender.join().unwrap();
}

/// Each socket gets some of the trains; heaps of many packets and of one come whole, in the order in which they were sent.
#[test]
fn heaps_come_over_sockets_that_share_a_port() {
    for (heap_size, heaps) in [(400_000, 40), (1000, 400u16)] {
        let all = Some(heaps.into());
        let job = HeapsJob { heap_size, heaps: all, verify: true, ..HeapsJob::default() };
        let mut intake = opened("spead+udp://127.0.0.1:0?sockets=4&receive_buffer=4MiB");
        assert_eq!(intake.reader_sheets().len(), 4);
        let port = port_of(&intake, "127.0.0.1");
        let to = format!("spead+udp://127.0.0.1:{port}?packet=1472B&burst=16KiB");
        let sender = send(to, job.clone(), 20e6);
        let (why, all) = receive(&mut intake);
        assert_eq!((why, good(all, &job)), (StreamEnd::StopItem, usize::from(heaps)));
        sender.join().unwrap();
        for sheet in intake.reader_sheets() {
            let line = sheet.lines().iter().position(|line| line.name == "receive.packets");
            assert!(sheet.get(line.unwrap()) > 0);
        }
    }
}

#[test]
fn sockets_that_share_a_port_are_of_udp_and_of_no_group() {
    let mut sources = Sources::default();
    fullcount_io::source::register(&mut sources);
    let setup = SourceSetup::plain(&sources);
    for url in [
        "spead+tcp://127.0.0.1:0?sockets=2",
        "spead+udp://127.0.0.1:0?sockets=65",
        "spead+udp://127.0.0.1:0?sockets=2&engine=plain",
    ] {
        let Err(refused) = carrier::plan(url, &setup) else { panic!("{url}") };
        assert!(refused.to_string().contains("sockets"), "{refused}");
    }
    let (url, inner) = carrier::plan("spead+udp://239.255.77.18:0?sockets=2", &setup).unwrap();
    let refused = SpeadIntake::open(&[url], &[inner], &SourceOpening::PLAIN).unwrap_err();
    assert!(refused.to_string().contains("copy of each packet"), "{refused}");
}

#[test]
fn heaps_come_from_an_interface_past_the_kernels_sockets() {
    let job = HeapsJob { heap_size: 50_000, heaps: Some(4), verify: true, ..HeapsJob::default() };
    for scheme in ["spead+xdp", "spead+packet"] {
        let Some(veth) = Veth::new(9000, 1) else { return };
        let mut intake = veth.receiving(|| opened(&format!("{scheme}://{NAME}:8888")));
        let to = format!("spead+udp://{RECEIVER}:8888?packet=8900B&burst=16KiB");
        let mut outlet = veth.sending(|| SpeadOutlet::open(&[output(&to)], 20e6).unwrap());
        let own = job.clone();
        let sender = std::thread::spawn(move || own.run(&mut outlet, &|| false, &|_| {}).unwrap());
        let (why, all) = receive(&mut intake);
        assert_eq!((why, good(all, &job)), (StreamEnd::StopItem, 4), "{scheme}");
        let sent = sender.join().unwrap();
        assert_eq!(intake.stream().statistics().packets, sent.transport.packets, "{scheme}");
        balanced(&intake);
    }
}

#[test]
fn a_capture_is_written_and_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let job = HeapsJob { heap_size: 100_000, heaps: Some(4), verify: true, ..HeapsJob::default() };
    for name in ["a.pcap", "b.pcapng"] {
        let path = dir.path().join(name);
        let url = format!("spead+pcap:{}", path.display());
        let sent = send(url.clone(), job.clone(), 0.0).join().unwrap();
        assert!(SpeadOutlet::open(&[output(&url)], 0.0).is_err(), "no file is written over");
        let mut sources = Sources::default();
        fullcount_io::source::register(&mut sources);
        let setup = SourceSetup::plain(&sources);
        let (url, inner) = carrier::plan(&format!("{url}?flat-out"), &setup).unwrap();
        let mut intake = SpeadIntake::open(&[url], &[inner], &SourceOpening::PLAIN).unwrap();
        let (_, all) = receive(&mut intake);
        assert_eq!(good(all, &job), 4);
        assert_eq!(intake.stream().statistics().packets, sent.transport.packets);
        assert!(intake.lossless());
    }
}

#[test]
fn packets_are_carried_over_every_transport() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("carried.pcap").display().to_string();
    let given: Vec<Vec<u8>> =
        (0..300u32).map(|n| vec![n as u8; 10 + (n as usize * 37) % 3000]).collect();
    let (mut sources, mut destinations) = (Sources::default(), Destinations::default());
    fullcount_io::source::register(&mut sources);
    fullcount_io::source::register_destinations(&mut destinations);
    for (to, from) in [
        (
            format!("spead+pcap:{file}?item=readout"),
            format!("spead+pcap:{file}?flat-out&item=readout"),
        ),
        ("spead+tcp://{}?item=0x2000".to_owned(), "spead+tcp://127.0.0.1:0?item=0x2000".to_owned()),
        (
            "spead+tcp://{}?framing=heap".to_owned(),
            "spead+tcp://127.0.0.1:0?framing=heap".to_owned(),
        ),
        (
            "spead+udp://{}?descriptors=50".to_owned(),
            "spead+udp://127.0.0.1:0?item=packet".to_owned(),
        ),
    ] {
        let endpoint =
            sources.find(&from).unwrap().0.plan(&from, &SourceSetup::plain(&sources)).unwrap();
        let open = || endpoint.open(&SourceOpening::PLAIN).unwrap().remove(0);
        let early = (!from.starts_with("spead+pcap")).then(&open);
        let packets = given.clone();
        let local = early.as_ref().and_then(|opened| opened.local);
        let to = to.replace("{}", &local.map_or(String::new(), |at| at.to_string()));
        let url = destinations.plan(&to).unwrap();
        let sender = std::thread::spawn(move || {
            let mut way = url.open(&DestinationOpening::default()).unwrap().remove(0);
            for packet in &packets {
                way.send(packet, 0).unwrap();
            }
            way.finish().unwrap();
            way.departed()
        });
        let departed = early.is_none().then(|| sender.join().unwrap());
        let mut source = early.unwrap_or_else(open).source;
        let (mut batch, mut got, begun) = (source.batch(), vec![], Instant::now());
        loop {
            match source.recv(&mut batch, Duration::from_millis(20)).unwrap() {
                Received::End => break,
                Received::Data => {
                    assert!(batch.trains().all(|train| train.edge == Edge::Heap));
                    got.extend(batch.trains().map(|train| train.bytes.to_vec()));
                }
                _ => assert!(begun.elapsed() < PATIENCE, "{from}"),
            }
        }
        assert_eq!(got.len(), given.len(), "{from}");
        assert!(got == given, "{from}");
        assert_eq!(departed.map_or(0, |d| d.failed), 0);
    }
}

/// A decoder that reads SPEAD packets itself, or one that does not.
struct Above(bool);

impl Downstream for Above {
    fn by_sender(&self) -> bool {
        false
    }

    fn turning_clock(&self) -> Option<TurningClock> {
        None
    }

    fn turns_from(&self, _: &[u8], _: i64) -> Option<TurnsFrom> {
        None
    }

    fn count_turns(&self, _: TurnsFrom) {}

    fn shifter(&self) -> Option<Box<dyn Shifter>> {
        None
    }

    fn framing(&self) -> Option<FrameRule> {
        self.0.then_some(FrameRule { name: "spead", ..FrameRule::PREFIXES[0] })
    }
}

#[test]
fn a_decoder_of_heaps_behind_the_carrier_is_told_what_it_gets() {
    let mut sources = Sources::default();
    fullcount_io::source::register(&mut sources);
    for (url, above, wanted) in [
        ("spead+tcp://127.0.0.1:0", true, "gets heaps"),
        ("spead+udp://127.0.0.1:0", true, "gets heaps"),
        ("spead+udp://127.0.0.1:0?item=0x1000", true, "leave out item="),
        ("spead+udp://127.0.0.1:0", false, ""),
        ("spead+udp://127.0.0.1:0?item=0x1000", false, ""),
    ] {
        let setup = SourceSetup::plain(&sources);
        let endpoint = sources.find(url).unwrap().0.plan(url, &setup).unwrap();
        let above = Above(above);
        let opening = SourceOpening { downstream: Some(&above), ..SourceOpening::PLAIN };
        let facts = endpoint.open(&opening).unwrap().remove(0).source.describe();
        for words in ["gets heaps", "leave out item="] {
            assert_eq!(facts.iter().any(|fact| fact.contains(words)), wanted == words, "{facts:?}");
        }
    }
}

/// A decoder of heaps gets the packets of whole heaps: the same heaps, whatever they came in.
#[test]
fn a_decoder_of_heaps_gets_the_heaps_themselves() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("heaps.pcap").display().to_string();
    let job = HeapsJob {
        heap_size: 300_000,
        items: 3,
        heaps: Some(20),
        verify: true,
        ..HeapsJob::default()
    };
    let mut sources = Sources::default();
    fullcount_io::source::register(&mut sources);
    for (to, from) in [
        (format!("spead+pcap:{file}"), format!("spead+pcap:{file}?flat-out")),
        ("spead+tcp://{}".to_owned(), "spead+tcp://127.0.0.1:0".to_owned()),
        (
            "spead+tcp://{}?framing=heap".to_owned(),
            "spead+tcp://127.0.0.1:0?framing=heap".to_owned(),
        ),
        (
            "spead+udp://{}?packet=1472B&burst=16KiB".to_owned(),
            "spead+udp://127.0.0.1:0?sockets=2&receive_buffer=4MiB".to_owned(),
        ),
    ] {
        let setup = SourceSetup::plain(&sources);
        let endpoint = sources.find(&from).unwrap().0.plan(&from, &setup).unwrap();
        let opening = SourceOpening { downstream: Some(&Above(true)), ..SourceOpening::PLAIN };
        let open = || endpoint.open(&opening).unwrap().remove(0);
        let early = (!from.starts_with("spead+pcap")).then(&open);
        let local = early.as_ref().and_then(|opened| opened.local);
        let to = to.replace("{}", &local.map_or(String::new(), |at| at.to_string()));
        // A receiver that waits for a processor for 0.3 s still has room for what comes.
        let sender = send(to, job.clone(), 10e6);
        let mut sender = Some(sender);
        if early.is_none() {
            sender.take().unwrap().join().unwrap();
        }
        let mut source = early.unwrap_or_else(open).source;
        let mut decoder = HeapReceiver::new(ReceiverConfig::default()).unwrap();
        let (mut batch, mut got, begun) = (source.batch(), vec![], Instant::now());
        loop {
            match source.recv(&mut batch, Duration::from_millis(20)).unwrap() {
                Received::End => break,
                Received::Data => {
                    for train in batch.trains() {
                        assert_eq!((train.edge, train.count()), (Edge::Heap, 1));
                        assert_eq!(decoder.push(0, train.bytes), Outcome::Accepted, "{from}");
                        got.extend(std::iter::from_fn(|| decoder.pop()));
                    }
                }
                _ => assert!(begun.elapsed() < PATIENCE, "{from}"),
            }
        }
        assert_eq!(good(got, &job), 20, "{from}");
        let read = |name| {
            let sheet = source.sheet();
            let line = sheet.lines().iter().position(|line| line.name == name).unwrap();
            sheet.get(line)
        };
        assert_eq!((read("carrier.heaps"), read("carrier.handed_on")), (20, 20), "{from}");
        assert_eq!((read("receive.packets"), read("receive.accepted")), (20, 20), "{from}");
        assert!(sender.is_none_or(|sender| sender.join().is_ok()));
    }
}

/// The readers of one stream, opened as a person's are.
fn opened_all(urls: [&str; 2]) -> SpeadIntake {
    let mut sources = Sources::default();
    fullcount_io::source::register(&mut sources);
    let urls = urls.map(str::to_owned);
    let planned = carrier::plan_stream(&urls, &SourceSetup::plain(&sources)).unwrap();
    let (urls, inner): (Vec<_>, Vec<_>) = planned.into_iter().unzip();
    SpeadIntake::open(&urls, &inner, &SourceOpening::PLAIN).unwrap()
}

/// A heap of one packet of so many bytes.
fn one_packet(number: u64, bytes: usize) -> Vec<u8> {
    let payload = (bytes - 40) as u64;
    let mut packet = vec![0x53, 4, 3, 5, 0, 0, 0, 4];
    for (id, value) in [(1, number), (2, payload), (3, 0), (4, payload)] {
        packet.extend((1u64 << 63 | id << 40 | value).to_be_bytes());
    }
    packet.resize(bytes, 7);
    packet
}

/// Each reader throws away what is above its own limit, and the counts of UDP and TCP are one sum.
#[test]
fn packets_above_the_limit_of_their_reader_are_counted_whichever_reader_they_came_to() {
    for (keys, taken, above) in [
        (["max_packet=1000B", "max_packet=3000B"], vec![1, 4, 5], 3),
        (["max_packet=3000B", "max_packet=1000B"], vec![1, 2, 4], 3),
        // The way of the first is that of all, with the limit of each transport.
        (["compat=spead2", ""], vec![1, 2, 3, 4, 5, 6], 0),
        (["compat=spead2&max_packet=1000B", ""], vec![1, 4, 5, 6], 2),
        (["compat=spead2&max_packet=1000B", "max_packet=2500B"], vec![1, 4, 5], 3),
    ] {
        let udp = format!("spead+udp://127.0.0.1:0?senders=1&{}", keys[0]);
        let tcp = format!("spead+tcp://127.0.0.2:0?{}", keys[1]);
        let mut intake = opened_all([&udp, &tcp]);
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let sizes = [900, 2000, 4000];
        let to = ("127.0.0.1", port_of(&intake, "127.0.0.1"));
        for (number, bytes) in (1..).zip(sizes) {
            socket.send_to(&one_packet(number, bytes), to).unwrap();
        }
        let (mut all, begun) = (vec![], Instant::now());
        let mut step = |intake: &mut SpeadIntake| {
            assert!(begun.elapsed() < PATIENCE, "{keys:?}");
            intake.step(Duration::from_millis(5), &mut |heap, _| all.push(heap.cnt())).unwrap()
        };
        let mut came = 0;
        while came < 3 {
            step(&mut intake);
            came = intake.reader_sheets().iter().map(|sheet| count(sheet, "receive.packets")).sum();
        }
        let to = ("127.0.0.2", port_of(&intake, "127.0.0.2"));
        let mut connection = std::net::TcpStream::connect(to).unwrap();
        for (number, bytes) in (4..).zip(sizes) {
            std::io::Write::write_all(&mut connection, &one_packet(number, bytes)).unwrap();
        }
        drop(connection);
        while count(&intake.sheet(), "spead.reader.connections") == 0 {
            step(&mut intake);
        }
        let stop = [(1u64, 7u64), (2, 0), (3, 0), (4, 0), (6, 2)];
        let mut packet = vec![0x53, 4, 3, 5, 0, 0, 0, 5];
        stop.iter()
            .for_each(|(id, value)| packet.extend((1 << 63 | id << 40 | value).to_be_bytes()));
        socket.send_to(&packet, ("127.0.0.1", port_of(&intake, "127.0.0.1"))).unwrap();
        while !matches!(step(&mut intake), fullcount_io::spead::IntakeStep::Ended(_)) {}
        assert_eq!(count(&intake.sheet(), "spead.reader.too_large"), above, "{keys:?}");
        assert_eq!(all, taken, "{keys:?}");
    }
}

fn count(sheet: &fullcount_core::ledger::Sheet, name: &str) -> u64 {
    let line = sheet.lines().iter().position(|line| line.name == name);
    sheet.get(line.unwrap_or_else(|| panic!("no counter {name}")))
}
