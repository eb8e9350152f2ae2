//! Every source that the program knows passes the suite that every source must pass.
//!
//! What a kind cannot say itself stands here: how packets are brought to it. A kind that is registered and has no place here
//! fails. Interfaces need root and iproute2, topics a Kafka; where they are missing the test says `skipped:` and fails with CI=true.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::time::Duration;

use fullcount_core::destination::DestinationOpening;
use fullcount_core::frame::emit::Route;
use fullcount_core::source::conformance::{Give, SourceCase, Twin, source};
use fullcount_core::source::{OpenedSource, Sources};
use fullcount_io::pcap::{CaptureFormat, Writer};
use fullcount_io::spead::{SpeadOutlet, SpeadOutput, SpeadUrl};
use fullcount_kafka::{Admin, KafkaSettings, Publisher};
use fullcount_messages::{Message, RawReadout};
use fullcount_spead::send::{OutHeap, SendHow};
use fullcount_testing::veth::{NAME, RECEIVER, Veth};

use crate::broker::{Shared, fresh};

const PATIENCE: Duration = Duration::from_secs(60);

fn sources() -> Sources {
    fullcount::Kinds::builtin().sources
}

fn passes(url: &str, refused: &[&str], give: &mut Give<'_>, ends: bool, twin: Twin) {
    let sources = sources();
    let case = SourceCase { sources: &sources, url, refused, give, ends, twin };
    source(case).unwrap_or_else(|e| panic!("{url}: {e}"));
}

#[test]
fn every_kind_is_tried() {
    let spead = ["spead+udp", "spead+tcp", "spead+pcap", "spead+xdp", "spead+packet"];
    let tried = [&["udp", "pcap", "xdp", "packet", "tcp", "kafka"][..], &spead].concat();
    let sources = sources();
    for kind in sources.kinds() {
        assert!(tried.contains(&kind.name()), "no test here tries {}", kind.name());
        assert!(sources.find(kind.example()).is_ok() && kind.form().contains(kind.name()));
        assert!(!kind.about().is_empty() && !kind.counters().is_empty());
    }
}

fn send(to: SocketAddr, packets: &[Vec<u8>]) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for packet in packets {
        assert_eq!(socket.send_to(packet, to).expect("sent"), packet.len());
    }
}

#[test]
fn udp_passes_with_every_engine() {
    for engine in ["auto", "plain", "mmsg", "gro"] {
        let url = format!("udp://127.0.0.1:0?engine={engine}");
        let refused =
            ["udp://127.0.0.1", "udp://127.0.0.1:1?tll=1", "udp://127.0.0.1:1?nap=1s", "udp:a:1"];
        let mut give = |opened: Option<&OpenedSource>, packets: &[Vec<u8>]| {
            send(opened.and_then(|one| one.local).expect("it is open"), packets);
        };
        passes(&url, &refused, &mut give, false, Twin::Refused("is in use"));
    }
}

fn write(path: &Path, packets: &[Vec<u8>]) {
    let file = std::fs::File::create(path).expect("a file");
    let mut writer = Writer::new(file, CaptureFormat::Pcap, None).expect("a capture");
    let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let route = Route { source: at(1000), destination: at(9000), vlan: None };
    for (n, packet) in (0..).zip(packets) {
        writer.udp(n, &route, packet).expect("written");
    }
    writer.finish().expect("written");
}

#[test]
fn pcap_passes_at_every_speed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.pcap");
    for keys in ["", "?flat-out", "?flat-out&preload", "?flat-out&exact-times"] {
        let url = format!("pcap:{}{keys}", path.display());
        let refused = ["pcap:", "pcap:a?speed=0", "pcap:a?flatout", "pcap:a?speed=1&flat-out"];
        let mut give = |_: Option<&OpenedSource>, packets: &[Vec<u8>]| write(&path, packets);
        passes(&url, &refused, &mut give, true, Twin::Reads);
    }
}

/// Runs the suite in the receiver's namespace; packets come from the sender's.
fn on_interface(url: &str, refused: &[&str], twin: Twin) {
    let Some(veth) = Veth::new(1500, 1) else { return };
    veth.receiving(|| {
        let mut give = |_: Option<&OpenedSource>, packets: &[Vec<u8>]| {
            let socket = veth.socket(RECEIVER, 9000);
            for packet in packets {
                socket.send(packet).expect("sent");
            }
        };
        passes(url, refused, &mut give, false, twin);
    });
}

#[test]
fn xdp_passes_in_both_modes() {
    for mode in ["native", "generic"] {
        let refused = ["xdp://v0", "xdp://10.0.0.1:9", "xdp://v0:9?queue=-1", "xdp://v0:9?ttl=1"];
        let twin = Twin::Refused("has a packet program already");
        on_interface(&format!("xdp://{NAME}:9000?mode={mode}"), &refused, twin);
    }
}

#[test]
fn packet_passes() {
    let refused = ["packet://v0", "packet://v0:0", "packet://v0:9?queue=1"];
    on_interface(&format!("packet://{NAME}:9000"), &refused, Twin::Untried);
}

/// Packets as heaps, sent to a destination.
fn carry(to: &str, packets: &[Vec<u8>]) {
    let destinations = fullcount::Kinds::builtin().destinations;
    let endpoint = destinations.plan(to).unwrap_or_else(|e| panic!("{e}"));
    let mut way = endpoint.open(&DestinationOpening::default()).expect("it is open").remove(0);
    for packet in packets {
        way.send(packet, 0).expect("sent");
    }
    // The source below shall not end: no stop heap, but for files.
    if to.starts_with("spead+pcap") {
        way.finish().expect("written");
    } else {
        std::mem::forget(way);
    }
}

#[test]
fn spead_passes_over_sockets_and_captures() {
    for (scheme, keys) in [("spead+udp", ""), ("spead+tcp", ""), ("spead+tcp", "?framing=heap")] {
        let url = format!("{scheme}://127.0.0.1:0{keys}");
        let refused = [
            "spead+udp://127.0.0.1",
            "spead+udp://127.0.0.1:1?tll=1",
            "spead+tcp://127.0.0.1:1?framing=x",
        ];
        let mut give = |opened: Option<&OpenedSource>, packets: &[Vec<u8>]| {
            let at = opened.and_then(|one| one.local).expect("it is open");
            carry(&format!("{scheme}://{at}{keys}"), packets);
        };
        passes(&url, &refused, &mut give, false, Twin::Refused("in use"));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.pcap");
    for keys in ["", "?flat-out"] {
        let url = format!("spead+pcap:{}{keys}", path.display());
        let mut give = |_: Option<&OpenedSource>, packets: &[Vec<u8>]| {
            let _ = std::fs::remove_file(&path);
            carry(&format!("spead+pcap:{}", path.display()), packets);
        };
        passes(&url, &["spead+pcap:", "spead+pcap:a?speed=0"], &mut give, true, Twin::Reads);
    }
}

#[test]
fn spead_passes_on_interfaces() {
    let memory = |packets: &[Vec<u8>]| {
        // The datagrams that a destination would send.
        let config = SpeadUrl::<SpeadOutput>::read("spead+udp://127.0.0.1:1")
            .expect("a URL")
            .sender_config(0.0);
        let mut outlet = SpeadOutlet::memory(config).expect("a stream");
        for packet in packets {
            let mut heap = OutHeap::default();
            heap.add_item(0x1000, packet.clone(), false);
            outlet.sender().send(heap, SendHow::default()).expect("room");
            outlet.pump(Duration::ZERO).expect("sent");
        }
        outlet.take_memory().into_iter().map(|(_, packet)| packet).collect::<Vec<_>>()
    };
    for (scheme, twin) in
        [("xdp", Twin::Refused("has a packet program already")), ("packet", Twin::Untried)]
    {
        let Some(veth) = Veth::new(1500, 1) else { return };
        veth.receiving(|| {
            let mut give = |_: Option<&OpenedSource>, packets: &[Vec<u8>]| {
                let socket = veth.socket(RECEIVER, 9000);
                memory(packets).iter().for_each(|packet| {
                    assert_eq!(socket.send(packet).expect("sent"), packet.len())
                });
            };
            let url = format!("spead+{scheme}://{NAME}:9000");
            passes(&url, &["spead+xdp://v0", "spead+packet://v0:0"], &mut give, false, twin);
        });
    }
}

#[test]
fn tcp_passes_with_and_without_an_end() {
    for (url, ends) in [
        ("tcp://127.0.0.1:0", false),
        ("tcp://[::1]:0?framing=u32be", false),
        ("tcp://127.0.0.1:0?until=closed&read=16KiB", true),
    ] {
        let mut held = Vec::new();
        let mut give = |opened: Option<&OpenedSource>, packets: &[Vec<u8>]| {
            let to = opened.and_then(|one| one.local).expect("it is open");
            let mut stream = TcpStream::connect(to).expect("it listens");
            for packet in packets {
                stream.write_all(&(packet.len() as u32).to_be_bytes()).expect("written");
                stream.write_all(packet).expect("written");
            }
            held.extend((!ends).then_some(stream));
        };
        let refused = ["tcp://127.0.0.1", "tcp://a:1?framing=none", "tcp://a:0?connect", "tcp:a:1"];
        passes(url, &refused, &mut give, ends, Twin::Refused("is in use"));
    }
}

#[test]
fn kafka_passes_with_and_without_an_end_and_in_a_group() {
    let Some(shared) = Shared::new() else { return };
    let brokers = shared.bootstrap();
    let none = KafkaSettings::default();
    let admin = Admin::new(&brokers, &none).expect("a broker");
    for keys in ["?until=end", "", "?group="] {
        let topic = fresh("source");
        admin.create(&topic, 1, &[]).expect("a topic");
        let group = if keys.ends_with('=') { fresh("group") } else { String::new() };
        let url = format!("kafka://{brokers}/{topic}{keys}{group}");
        let refused = [
            "kafka://",
            "kafka://b/t?group=a&from=newest",
            "kafka://b/t?until=noon",
            "kafka://b/t?partitions=x",
        ];
        let mut give = |_: Option<&OpenedSource>, packets: &[Vec<u8>]| {
            let publisher = Publisher::new(&brokers, &none, |_| {}).expect("a broker");
            for packet in packets {
                let raw = RawReadout { source_name: "x", message_id: 1, raw_data: Some(packet) };
                let bytes = Message::Ar51(raw).encode();
                publisher.publish(&topic, &bytes, 0, PATIENCE).expect("published");
            }
            publisher.flush(PATIENCE).expect("confirmed");
        };
        // A second member would take the partition.
        let twin = if group.is_empty() { Twin::Reads } else { Twin::Untried };
        passes(&url, &refused, &mut give, keys == "?until=end", twin);
    }
}
