//! Every kind of NumPy in every flavour over real sockets, UDP and TCP: from ours to the Python package spead2, and from it to ours.
//!
//! Needs the Python of the tests, which has that package.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::peer::{Random, SAID, TYPES, assert_said, assert_same, random_item};
use super::*;
use crate::Heap;
use crate::framing::PacketStream;

/// Of each `KIND:BITS:PORT`: takes a stream at a port of its own, then sends its items to that one, a heap each.
const SCRIPT: &str = r#"
import sys, socket
import spead2, spead2.recv, spead2.send
pool = spead2.ThreadPool()
for word in sys.argv[1:]:
    kind, bits, port = word.split(":")
    flavour = spead2.Flavour(4, 64, int(bits), 0)
    config = spead2.recv.StreamConfig(allow_out_of_order=True, max_heaps=32)
    stream = spead2.recv.Stream(pool, config, spead2.recv.RingStreamConfig(heaps=32))
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM)
    sock.bind(("127.0.0.1", 0))
    if kind == "udp":
        stream.add_udp_reader(sock, 65536)
    else:
        sock.listen()
        stream.add_tcp_reader(sock, 65536)
    print(sock.getsockname()[1], flush=True)
    group = spead2.ItemGroup()
    for heap in stream:
        assert heap.flavour.heap_address_bits == int(bits), heap.flavour
        assert len(group.update(heap)) == 1
    for item in group.values():
        print(said(item), flush=True)
    config = spead2.send.StreamConfig(max_heaps=32)
    end = [("127.0.0.1", int(port))]
    out = spead2.send.UdpStream(pool, end, config) if kind == "udp" else spead2.send.TcpStream(pool, end, config)
    for item in group.values():
        heap = spead2.send.Heap(flavour)
        heap.add_descriptor(item)
        heap.add_item(item)
        out.send_heap(heap)
    heap = spead2.send.Heap(flavour)
    heap.add_end()
    out.send_heap(heap)
    del out
"#;

/// A test that fails leaves it not running.
struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Where what spead2 sends comes back.
enum Back {
    Udp(UdpSocket),
    Tcp(TcpListener),
}

impl Back {
    fn open(kind: &str) -> (Back, u16) {
        match kind {
            "udp" => {
                let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                socket.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
                let port = socket.local_addr().unwrap().port();
                (Back::Udp(socket), port)
            }
            _ => {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let port = listener.local_addr().unwrap().port();
                (Back::Tcp(listener), port)
            }
        }
    }

    /// All heaps up to the stop.
    fn heaps(self) -> Vec<Heap> {
        let mut stream = HeapReceiver::new(ReceiverConfig::default()).unwrap();
        let mut buffer = vec![0; 1 << 16];
        match self {
            Back::Udp(socket) => {
                while stream.ended().is_none() {
                    let many = socket.recv(&mut buffer).unwrap();
                    stream.push(0, &buffer[..many]);
                }
            }
            Back::Tcp(listener) => {
                let (mut connection, mut framing) =
                    (listener.accept().unwrap().0, PacketStream::new(65_536));
                while stream.ended().is_none() {
                    let many = connection.read(&mut buffer).unwrap();
                    assert!(many > 0, "the end came before the stop");
                    framing.push(&buffer[..many], |packet| {
                        stream.push(0, packet);
                    });
                }
            }
        }
        std::iter::from_fn(|| stream.pop()).map(|heap| heap.heap().unwrap()).collect()
    }
}

/// One item of every kind, each in a group of its own: the addresses of 8 bits leave no room for more.
fn groups(bits: u32) -> Vec<ItemGroup> {
    let mut random = Random(0x9E37_79B9_7F4A_7C15 ^ u64::from(bits));
    let kinds = TYPES.iter().enumerate();
    let group = |(n, of): (usize, &&str)| {
        let mut group = ItemGroup::new(BugCompat::default());
        let (descriptor, value) = random_item(&mut random, 0x20 + n as u64, of, 48);
        let id = group.add(descriptor).unwrap();
        group.set(id, value).unwrap();
        group
    };
    kinds.map(group).collect()
}

/// Sends each group as a heap, and the stop.
fn send(kind: &str, port: u16, flavour: Flavour, groups: &[ItemGroup]) {
    let cut = rules(1472);
    let mut sender =
        HeapSender::new(SenderConfig { cut, max_heaps: 32, ..Default::default() }).unwrap();
    for group in groups {
        let mut generator = HeapGenerator::new(group.clone(), flavour, None);
        sender.send(generator.heap(What::All, What::All).unwrap(), SendHow::default()).unwrap();
    }
    sender.send(OutHeap::stop(flavour), SendHow::default()).unwrap();
    let packets = run(&mut sender);
    if kind == "tcp" {
        let mut connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
        connection.write_all(&packets.concat()).unwrap();
    } else {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        packets.iter().for_each(|packet| {
            socket.send_to(packet, ("127.0.0.1", port)).unwrap();
        });
    }
}

#[test]
fn every_kind_goes_both_ways_in_every_flavour_over_udp_and_tcp() {
    let Some(python) = fullcount_testing::python::python() else { return };
    let ways = ["udp", "tcp"].into_iter().flat_map(|kind| (1..8u32).map(move |n| (kind, 8 * n)));
    let (mut open, mut words) = (vec![], vec![]);
    for (kind, bits) in ways {
        let (back, port) = Back::open(kind);
        words.push(format!("{kind}:{bits}:{port}"));
        open.push((kind, bits, back));
    }
    let mut script = Command::new(python);
    script.arg("-c").arg(format!("{SAID}{SCRIPT}")).args(words).stdout(Stdio::piped());
    let mut child = Peer(script.spawn().unwrap());
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    for (kind, bits, back) in open {
        let (flavour, groups) = (Flavour::new(bits).unwrap(), groups(bits));
        let port = lines.next().expect("a port").parse().unwrap();
        send(kind, port, flavour, &groups);
        let heaps = back.heaps();
        assert_eq!(heaps.len(), TYPES.len(), "{kind} {bits}");
        for (heap, group) in heaps.iter().zip(&groups) {
            assert_eq!(heap.flavour, flavour);
            let mut known = ItemGroup::new(BugCompat::default());
            assert_eq!(known.update(heap).errors, [], "{kind} {bits}");
            let item = group.items().next().unwrap();
            let came = known.get(item.descriptor.id).unwrap();
            assert_eq!(came.value, item.value, "{kind} {bits}: {:?}", item.descriptor);
            assert_same(&came.descriptor, &item.descriptor);
            assert_said(&lines.next().expect("what spead2 holds"), &item.descriptor);
        }
    }
    assert!(child.0.wait().unwrap().success());
}
