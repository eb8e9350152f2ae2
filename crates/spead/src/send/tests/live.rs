//! The Python package spead2 at the other end of a real socket: UDP and TCP, both ways, packets of 56 B to 65,507 B.
//!
//! Needs the Python of the tests, which has that package.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::*;
use crate::framing::PacketStream;

const SCRIPT: &str = r#"
import sys, socket
import numpy as np
import spead2, spead2.recv, spead2.send
way, kind, port, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
pool = spead2.ThreadPool()
if way == "send":
    config = spead2.send.StreamConfig(max_packet_size=size, rate=min(20e6, 1e4 * size), burst_size=1024, max_heaps=10)
    end = [("127.0.0.1", port)]
    stream = spead2.send.UdpStream(pool, end, config) if kind == "udp" else spead2.send.TcpStream(pool, end, config)
    group = spead2.send.ItemGroup()
    group.add_item(0x1000, "x", "", shape=(20000,), dtype=np.uint16)
    for n in range(3):
        group["x"].value = np.arange(20000, dtype=np.uint16) + n
        stream.send_heap(group.get_heap())
    stream.send_heap(group.get_end())
    del stream
else:
    stream = spead2.recv.Stream(pool, spead2.recv.StreamConfig(allow_out_of_order=True))
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM)
    sock.bind(("127.0.0.1", 0))
    if kind == "udp":
        try:
            sock.setsockopt(socket.SOL_SOCKET, 33, 1 << 26) # SO_RCVBUFFORCE
        except PermissionError:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        stream.add_udp_reader(sock, 65536)
    else:
        sock.listen()
        stream.add_tcp_reader(sock, 65536)
    print(sock.getsockname()[1], flush=True)
    group = spead2.ItemGroup()
    for heap in stream:
        for item in group.update(heap).values():
            assert item.value.shape == (20000,) and item.value.dtype == np.uint16
            print(heap.cnt, item.value.astype(">u2").tobytes().hex(), flush=True)
"#;

/// Number and elements of a heap.
type Numbered = (u64, Vec<u16>);

fn python(way: &str, kind: &str, port: u16, size: usize) -> Child {
    let python = fullcount_testing::python::python().expect("asked for before");
    let words = [way.to_owned(), kind.to_owned(), port.to_string(), size.to_string()];
    Command::new(python).arg("-c").arg(SCRIPT).args(words).stdout(Stdio::piped()).spawn().unwrap()
}

/// Heaps that have come.
fn take(stream: &mut HeapReceiver, group: &mut ItemGroup, found: &mut Vec<Numbered>) {
    while let Some(heap) = stream.pop().and_then(Delivery::heap) {
        for id in group.update(&heap).values {
            let value = group.get(id).unwrap().value.as_ref().unwrap();
            let Elements::U16(values) = &value.elements else { panic!("{:?}", value.shape) };
            assert_eq!(value.shape, [20_000]);
            found.push((heap.cnt, values.clone()));
        }
    }
}

fn received_from_spead2(kind: &str, size: usize) -> Vec<Numbered> {
    let mut stream = HeapReceiver::new(ReceiverConfig::default()).unwrap();
    let (mut group, mut found) = (ItemGroup::new(BugCompat::default()), vec![]);
    let mut buffer = vec![0; 1 << 17];
    let mut child = if kind == "udp" {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        // Everything fits, where that is allowed: three heaps of 15,000 packets of 56 B take 35 MB of it.
        let _ = fullcount_io::sys::force_receive_buffer(socket.as_fd(), 64 << 20);
        let child = python("send", kind, socket.local_addr().unwrap().port(), size);
        while stream.ended().is_none() {
            let many = socket.recv(&mut buffer).unwrap();
            stream.push(0, &buffer[..many]);
            take(&mut stream, &mut group, &mut found);
        }
        child
    } else {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let child = python("send", kind, listener.local_addr().unwrap().port(), size);
        let (mut connection, _) = listener.accept().unwrap();
        let mut framing = PacketStream::new(65_536);
        loop {
            let many = connection.read(&mut buffer).unwrap();
            framing.push(&buffer[..many], |packet| {
                stream.push(0, packet);
            });
            take(&mut stream, &mut group, &mut found);
            if many == 0 {
                break;
            }
        }
        assert_eq!((framing.finish(), framing.counts().junk_bytes), (0, 0));
        child
    };
    child.wait().unwrap();
    assert!(stream.ended().is_some());
    found
}

fn sent_to_spead2(kind: &str, size: usize) -> Vec<Numbered> {
    let mut child = python("recv", kind, 0, size);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let port: u16 = lines.next().unwrap().parse().unwrap();
    let header =
        NumpyHeader::parse("{'descr': '>u2', 'fortran_order': False, 'shape': (20000,)}").unwrap();
    let mut group = ItemGroup::new(BugCompat::default());
    let id = group.add(Descriptor::numpy(0x1000, "x", "", &header)).unwrap();
    let mut generator = HeapGenerator::new(group, Flavour::default(), None);
    let pace = PaceSettings {
        rate: (1e4 * size as f64).min(20e6),
        burst_size: 1024,
        ..Default::default()
    };
    let config = SenderConfig { cut: rules(size), pace, ..Default::default() };
    let mut sender = HeapSender::new(config).unwrap();
    for n in 0..3u16 {
        let values = (0..20_000).map(|v| v + n).collect();
        generator.group.set(id, ItemArray::vector(Elements::U16(values))).unwrap();
        sender.send(generator.heap(What::Stale, What::Stale).unwrap(), SendHow::default()).unwrap();
    }
    sender.send(OutHeap::stop(Flavour::default()), SendHow::default()).unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut tcp = (kind == "tcp").then(|| TcpStream::connect(("127.0.0.1", port)).unwrap());
    let (began, mut packet) = (Instant::now(), vec![]);
    loop {
        packet.clear();
        let now = began.elapsed().as_nanos() as u64;
        match sender.next_packet(now, &mut packet) {
            NextPacket::Packet { .. } => match &mut tcp {
                Some(connection) => connection.write_all(&packet).unwrap(),
                None => {
                    udp.send_to(&packet, ("127.0.0.1", port)).unwrap();
                }
            },
            NextPacket::Wait(until) => std::thread::sleep(Duration::from_nanos(until - now)),
            NextPacket::Idle => break,
        }
    }
    drop(tcp);
    let numbered = |line: String| {
        let (number, elements) = line.split_once(' ').unwrap();
        let each = elements.as_bytes().chunks(4).map(|four| std::str::from_utf8(four).unwrap());
        let each = each.map(|four| u16::from_str_radix(four, 16).unwrap());
        (number.parse().unwrap(), each.collect())
    };
    let found = lines.map(numbered).collect();
    child.wait().unwrap();
    found
}

#[test]
fn heaps_go_both_ways_over_udp_and_tcp_in_packets_of_every_size() {
    if fullcount_testing::python::python().is_none() {
        return;
    }
    let wanted: Vec<Numbered> =
        (0..3).map(|n| (u64::from(n) + 1, (0..20_000).map(|v| v + n).collect())).collect();
    let same = |found: Vec<Numbered>, way: &str| {
        // No difference of so many elements is printed.
        let numbers = |all: &[Numbered]| -> Vec<u64> { all.iter().map(|(n, _)| *n).collect() };
        assert_eq!(numbers(&found), numbers(&wanted), "{way}");
        assert!(found == wanted, "{way}: other elements");
    };
    for kind in ["udp", "tcp"] {
        for size in [56, 1472, 8972, 65_507] {
            same(received_from_spead2(kind, size), &format!("from spead2: {kind} {size}"));
            same(sent_to_spead2(kind, size), &format!("to spead2: {kind} {size}"));
        }
    }
}
