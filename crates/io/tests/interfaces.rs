//! The engines that take datagrams from an interface, over a veth pair between two namespaces: packets of plain UDP
//! sockets arrive unchanged, everything else goes on to the kernel.
//!
//! Needs root and iproute2; without them each test prints `skipped:` and fails with CI=true. A veth hands every packet
//! to the receiver before `send` returns or shortly after, in order, and the receivers' memory is far larger than the
//! packets in flight, so no test depends on timing.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use fullcount_core::ledger::Ledger;
use fullcount_io::endpoint::{Endpoint, PacketUrl, XdpKeys, XdpUrl};
use fullcount_io::packet_ring::{InterfaceError, PacketSource};
use fullcount_io::source::{Received, Source};
use fullcount_io::xdp::{XdpError, XdpSource};
use fullcount_testing::veth::{NAME, RECEIVER, RECEIVER_V6, SENDER, Veth};

/// Long enough for any scheduler; only a failing test waits for it.
const WAIT: Duration = Duration::from_secs(60);
const BUFFER: u64 = 8 << 20;
const PORT: u16 = 9000;
/// Every engine and mode that must behave alike.
const ENGINES: [&str; 3] =
    ["xdp://v0:9000?mode=native", "xdp://v0:9000?mode=generic", "packet://v0:9000"];

fn open(veth: &Veth, url: &str) -> Box<dyn Source> {
    open_with(veth, url, false)
}

fn open_with(veth: &Veth, url: &str, timestamps: bool) -> Box<dyn Source> {
    let endpoint: Endpoint = url.parse().unwrap();
    veth.receiving(move || -> Box<dyn Source> {
        match endpoint {
            Endpoint::Xdp(x) => Box::new(XdpSource::open(&x, BUFFER, timestamps).unwrap()),
            Endpoint::Packet(p) => Box::new(PacketSource::open(&p, BUFFER, timestamps).unwrap()),
            other => panic!("{other:?}"),
        }
    })
}

fn count(source: &dyn Source, name: &str) -> u64 {
    let ledger = Ledger::default();
    ledger.register(source.sheet());
    ledger.read().get(name).unwrap_or_else(|| panic!("no counter {name}"))
}

/// Receives until `packets` datagrams came, then makes sure that no more are there.
fn take(source: &mut dyn Source, packets: usize) -> Vec<Vec<u8>> {
    let (mut batch, mut chunks) = (source.batch(), Vec::new());
    let end = Instant::now() + WAIT;
    while chunks.len() < packets {
        // A batch of which every packet was refused is idle too.
        let got = source.recv(&mut batch, Duration::from_millis(100)).unwrap();
        let late = got != Received::Data && Instant::now() > end;
        assert!(!late, "{} of {packets} came", chunks.len());
        chunks.extend(batch.trains().flat_map(|t| t.chunks()).map(<[u8]>::to_vec));
    }
    while source.recv(&mut batch, Duration::from_millis(5)).unwrap() == Received::Data {
        chunks.extend(batch.trains().flat_map(|t| t.chunks()).map(<[u8]>::to_vec));
    }
    let ledger = Ledger::default();
    ledger.register(source.sheet());
    assert_eq!(ledger.read().balance(), 0);
    assert_eq!(chunks.len(), packets);
    chunks
}

fn data(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8 ^ (i / 251) as u8).collect()
}

#[test]
fn what_plain_sockets_send_arrives_as_it_was_sent() {
    for mtu in [1500, 9000] {
        let Some(veth) = Veth::new(mtu, 1) else { return };
        for url in ENGINES {
            let mut source = open(&veth, url);
            let sizes: &[usize] = match mtu {
                1500 => &[0, 1, 64, 1471, 1472],
                _ => &[0, 1, 64, 1472, 3800, 4096, 8000, 8971, 8972],
            };
            for (to, less) in [(RECEIVER, 0), (RECEIVER_V6, 20)] {
                let socket = veth.socket(to, PORT);
                let sent: Vec<Vec<u8>> = sizes
                    .iter()
                    .flat_map(|n| [*n, *n, n / 2])
                    .map(|n| data(if n > 1000 { n - less } else { n }))
                    .collect();
                for bytes in &sent {
                    socket.send(bytes).unwrap();
                }
                assert_eq!(take(&mut *source, sent.len()), sent, "{url} to {to} at {mtu}");
            }
            assert!(source.describe()[0].contains("UDP port 9000"), "{:?}", source.describe());
        }
    }
}

#[test]
fn trains_keep_their_sender_and_come_with_times_where_wanted() {
    let Some(veth) = Veth::new(1500, 1) else { return };
    for url in ENGINES {
        for timestamps in [false, true] {
            let mut source = open_with(&veth, url, timestamps);
            let sockets = [veth.socket(RECEIVER, PORT), veth.socket(RECEIVER_V6, PORT)];
            let mut batch = source.batch();
            for socket in &sockets {
                socket.send(b"abc").unwrap();
                assert_eq!(source.recv(&mut batch, WAIT).unwrap(), Received::Data);
                let train = batch.trains().next().unwrap();
                let from = socket.local_addr().unwrap();
                assert_eq!((train.origin.addr(), train.origin.port), (from.ip(), from.port()));
                // 2020-01-01 or later.
                let stamped = train.time_ns > 1_577_836_800_000_000_000;
                assert_eq!((stamped, train.time_ns == 0), (timestamps, !timestamps), "{url}");
            }
        }
    }
}

#[test]
fn a_hundred_thousand_numbered_packets_come_once_and_in_order() {
    const PACKETS: u64 = 100_000;
    let Some(veth) = Veth::new(1500, 1) else { return };
    for url in ENGINES {
        let mut source = open(&veth, url);
        let socket = veth.socket(RECEIVER, PORT);
        // The receiver reports its progress, and the sender stays within the receiver's memory.
        let seen = std::sync::atomic::AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..PACKETS {
                    while number > seen.load(std::sync::atomic::Ordering::Acquire) + 1000 {
                        std::thread::yield_now();
                    }
                    let mut bytes = [0; 64];
                    bytes[..8].copy_from_slice(&number.to_le_bytes());
                    socket.send(&bytes).unwrap();
                }
            });
            let (mut batch, mut next) = (source.batch(), 0u64);
            while next < PACKETS {
                let got = source.recv(&mut batch, WAIT).unwrap();
                assert_eq!(got, Received::Data, "{url}: {next} came");
                for chunk in batch.trains().flat_map(|t| t.chunks()) {
                    let number = u64::from_le_bytes(chunk[..8].try_into().unwrap());
                    assert_eq!((number, chunk.len()), (next, 64), "{url}");
                    next += 1;
                }
                seen.store(next, std::sync::atomic::Ordering::Release);
            }
        });
        assert_eq!(count(&*source, "receive.packets"), PACKETS);
        assert_eq!(count(&*source, "receive.kernel_drops"), 0);
    }
}

#[test]
fn everything_else_goes_on_to_the_kernel() {
    let Some(veth) = Veth::new(1500, 1) else { return };
    for url in ENGINES {
        let mut source = open(&veth, url);
        // Another port over UDP, the same port over TCP.
        let other = veth.receiving(|| UdpSocket::bind((RECEIVER, PORT + 1)).unwrap());
        other.set_read_timeout(Some(WAIT)).unwrap();
        veth.socket(RECEIVER, PORT + 1).send(b"not for us").unwrap();
        let mut bytes = [0; 100];
        assert_eq!(other.recv(&mut bytes).unwrap(), 10, "{url}");
        let listener = veth.receiving(|| TcpListener::bind((RECEIVER, PORT)).unwrap());
        let mut there = veth.sending(|| TcpStream::connect((RECEIVER, PORT)).unwrap());
        there.write_all(b"stream").unwrap();
        let (mut here, _) = listener.accept().unwrap();
        here.read_exact(&mut bytes[..6]).unwrap();
        assert_eq!(&bytes[..6], b"stream", "{url}");
        // A datagram of ours still comes, and nothing else did.
        veth.socket(RECEIVER, PORT).send(b"for us").unwrap();
        assert_eq!(take(&mut *source, 1), [b"for us"], "{url}");
        if url.starts_with("xdp") {
            assert!(count(&*source, "xdp.passed") > 3, "{url}");
        }
    }
}

#[test]
fn fragments_go_on_to_the_kernel_and_are_counted() {
    let Some(veth) = Veth::new(1500, 1) else { return };
    for url in ENGINES {
        let mut source = open(&veth, url);
        let socket = veth.socket(RECEIVER, PORT);
        let kernel = veth.receiving(|| UdpSocket::bind((RECEIVER, PORT)));
        // 3000 B at an MTU of 1500: three fragments.
        socket.send(&data(3000)).unwrap();
        if let Ok(kernel) = kernel {
            // Without the ring, which holds the port, the kernel's own socket gets the whole.
            kernel.set_read_timeout(Some(WAIT)).unwrap();
            assert_eq!(kernel.recv(&mut [0; 4000]).unwrap(), 3000, "{url}");
        }
        socket.send(b"whole").unwrap();
        assert_eq!(take(&mut *source, 1), [b"whole"], "{url}");
        let name = match url.starts_with("xdp") {
            true => "xdp.fragments_passed",
            false => "packet.fragments",
        };
        assert_eq!(count(&*source, name), 3, "{url}");
    }
}

#[test]
fn a_wrong_checksum_is_counted_and_not_delivered() {
    let Some(veth) = Veth::new(1500, 1) else { return };
    // A raw socket sends its data unchanged: UDP header with an arbitrary checksum.
    let raw = veth.sending(|| {
        let kind = socket2::Type::RAW;
        let udp = Some(socket2::Protocol::UDP);
        socket2::Socket::new(socket2::Domain::IPV4, kind, udp).unwrap()
    });
    let to: std::net::SocketAddr = format!("{RECEIVER}:0").parse().unwrap();
    let mut datagram = vec![0x10, 0x00];
    datagram.extend(PORT.to_be_bytes());
    datagram.extend([0, 12, 0x12, 0x34]);
    datagram.extend(b"oops");
    for url in ENGINES {
        let scheme = url.split(':').next().unwrap();
        let mut source = open(&veth, url);
        raw.send_to(&datagram, &to.into()).unwrap();
        let socket = veth.socket(RECEIVER, PORT);
        socket.send(b"good").unwrap();
        assert_eq!(take(&mut *source, 1), [b"good"], "{url}");
        assert_eq!(count(&*source, &format!("{scheme}.checksum_errors")), 1, "{url}");
        // A sender on this host leaves the checksum to a card that is not there.
        assert_eq!(count(&*source, &format!("{scheme}.checksum_partial")), 1, "{url}");
        drop(source);
        let join = if url.contains('?') { '&' } else { '?' };
        let mut source = open(&veth, &format!("{url}{join}checksum=off"));
        raw.send_to(&datagram, &to.into()).unwrap();
        assert_eq!(take(&mut *source, 1), [b"oops"], "{url}");
    }
}

#[test]
fn an_address_narrows_what_is_taken_and_a_group_is_joined() {
    let Some(veth) = Veth::new(1500, 1) else { return };
    veth.ip(&format!("address add 10.77.0.3/24 dev {NAME}"));
    for url in ["xdp://v0:9000", "packet://v0:9000"] {
        let mut source = open(&veth, &format!("{url}?address={RECEIVER}"));
        veth.socket("10.77.0.3", PORT).send(b"other address").unwrap();
        veth.socket(RECEIVER_V6, PORT).send(b"other version").unwrap();
        veth.socket(RECEIVER, PORT).send(b"ours").unwrap();
        assert_eq!(take(&mut *source, 1), [b"ours"], "{url}");
        drop(source);
        let mut source = open(&veth, &format!("{url}?address=239.1.2.3"));
        let groups = veth.run(false, &["ip", "maddress", "show", "dev", NAME]);
        assert!(groups.contains("239.1.2.3"), "{groups}");
        let socket = veth.sending(|| {
            let socket = UdpSocket::bind((SENDER, 0)).unwrap();
            socket.connect(("239.1.2.3", PORT)).unwrap();
            socket
        });
        socket.send(b"to the group").unwrap();
        assert_eq!(take(&mut *source, 1), [b"to the group"], "{url}");
        drop(source);
        // The kernel closes sockets that were mapped a moment later.
        let end = Instant::now() + WAIT;
        while veth.run(false, &["ip", "maddress", "show", "dev", NAME]).contains("239.1.2.3") {
            assert!(Instant::now() < end, "still a member of the group");
        }
    }
}

#[test]
fn several_queues_are_all_read_and_one_can_be_chosen() {
    let Some(veth) = Veth::new(1500, 4) else { return };
    let mut source = open(&veth, "xdp://v0:9000");
    let facts = source.describe().join("\n");
    assert!(facts.contains("4 receive queues"), "{facts}");
    // The sending side spreads flows over its queues by their hash; of 64 flows, all on one queue
    // would be 1 in 2^126.
    let sockets: Vec<UdpSocket> = (0..64).map(|_| veth.socket(RECEIVER, PORT)).collect();
    sockets.iter().for_each(|s| assert_eq!(s.send(b"flow").unwrap(), 4));
    assert_eq!(take(&mut *source, 64).len(), 64);
    drop(source);
    let mut total = 0;
    for queue in 0..4 {
        let mut source = open(&veth, &format!("xdp://v0:9000?queue={queue}"));
        sockets.iter().for_each(|s| drop(s.send(b"flow")));
        // Flows on other queues went on to the kernel, which answers that no socket listens there.
        let (mut batch, mut got) = (source.batch(), 0);
        while source.recv(&mut batch, Duration::from_millis(20)).unwrap() == Received::Data {
            got += batch.count();
        }
        assert!(got < 64, "queue {queue}: {got}");
        total += got;
        assert!(count(&*source, "xdp.other_queue") <= 64 - got);
    }
    assert!(total > 0);
    let url =
        XdpUrl { own: XdpKeys { queue: Some(4), ..XdpKeys::default() }, ..XdpUrl::new(NAME, PORT) };
    let told = veth.receiving(|| XdpSource::open(&url, BUFFER, false).unwrap_err()).to_string();
    assert!(told.contains("queue=4") && told.contains("0 to 3"), "{told}");
}

#[test]
fn polling_without_sleep_and_busy_polling_receive_the_same() {
    let Some(veth) = Veth::new(1500, 1) else { return };
    for url in [
        "xdp://v0:9000?spin",
        "xdp://v0:9000?busy_poll",
        "xdp://v0:9000?spin&busy_poll&batch=3",
        "packet://v0:9000?spin&batch=3&block_timeout=1ms",
    ] {
        let mut source = open(&veth, url);
        let mut batch = source.batch();
        assert_eq!(source.recv(&mut batch, Duration::ZERO).unwrap(), Received::Idle);
        assert_eq!(source.recv(&mut batch, Duration::from_millis(2)).unwrap(), Received::Idle);
        assert_eq!(count(&*source, "thread.input_idle"), 2);
        let socket = veth.socket(RECEIVER, PORT);
        let sent: Vec<Vec<u8>> = (0..50).map(|i| data(64 + i / 10)).collect();
        sent.iter().for_each(|bytes| assert_eq!(socket.send(bytes).unwrap(), bytes.len()));
        assert_eq!(take(&mut *source, 50), sent, "{url}");
    }
}

#[test]
fn frames_that_find_no_memory_are_counted() {
    let Some(veth) = Veth::new(1500, 1) else { return };
    // 4 KiB asked for: the smallest memory, 64 chunks.
    for mode in ["native", "generic"] {
        let mut source = open(&veth, &format!("xdp://v0:9000?receive_buffer=4KiB&mode={mode}"));
        let socket = veth.socket(RECEIVER, PORT);
        (0..200).for_each(|_| assert_eq!(socket.send(b"too many").unwrap(), 8));
        let (mut batch, mut got) = (source.batch(), 0);
        while source.recv(&mut batch, Duration::from_millis(20)).unwrap() == Received::Data {
            got += batch.count();
        }
        assert!((64..200).contains(&got), "{mode}: {got}");
        assert_eq!(count(&*source, "receive.kernel_drops"), 200 - got, "{mode}: single datagrams");
        assert!(count(&*source, "xdp.fill_ring_empty") > 0, "{mode}");
        assert!(count(&*source, "xdp.waiting_peak") == 64, "{mode}");
        // Dropped packets stay dropped; new ones are received.
        socket.send(b"again").unwrap();
        assert_eq!(take(&mut *source, 1), [b"again"]);
    }
}

#[test]
fn the_filter_goes_with_its_source_and_a_second_one_is_refused() {
    let Some(veth) = Veth::new(1500, 1) else { return };
    for mode in ["native", "generic"] {
        let url = format!("xdp://v0:9000?mode={mode}");
        let source = open(&veth, &url);
        let shown = veth.run(false, &["ip", "link", "show", NAME]);
        assert!(shown.contains(if mode == "native" { " xdp " } else { " xdpgeneric " }), "{shown}");
        for second in ["native", "generic"] {
            let Ok(Endpoint::Xdp(x)) = format!("xdp://v0:9001?mode={second}").parse() else {
                panic!()
            };
            let told = veth.receiving(|| XdpSource::open(&x, BUFFER, false).unwrap_err());
            assert!(matches!(told, XdpError::Taken { .. }), "{mode} then {second}: {told}");
            assert!(told.to_string().contains("another fullcount"), "{told}");
        }
        drop(source);
        let shown = veth.run(false, &["ip", "link", "show", NAME]);
        assert!(!shown.contains("prog/xdp"), "{shown}");
    }
}

#[test]
fn a_ring_keeps_the_kernel_from_answering_that_nobody_listens() {
    let Some(veth) = Veth::new(1500, 1) else { return };
    let socket = veth.socket(RECEIVER, PORT);
    // Without a receiver the second send reports the answer to the first.
    socket.set_read_timeout(Some(WAIT)).unwrap();
    socket.send(b"nobody").unwrap();
    let told = socket.recv(&mut [0; 10]).unwrap_err();
    assert_eq!(told.kind(), std::io::ErrorKind::ConnectionRefused);
    let mut source = open(&veth, "packet://v0:9000");
    for _ in 0..20 {
        socket.send(b"somebody").unwrap();
    }
    assert_eq!(take(&mut *source, 20).len(), 20);
    let snmp = veth.run(false, &["cat", "/proc/net/snmp"]);
    let unreachable = snmp.lines().filter(|l| l.starts_with("Icmp:")).nth(1).unwrap();
    // Icmp: InMsgs InErrors InCsumErrors InDestUnreachs … OutMsgs: one answer in all.
    assert!(unreachable.split_whitespace().filter(|n| *n == "1").count() >= 1, "{unreachable}");
    drop(source);
    // Where another program listens, both get every datagram. A child of another test that is between fork and exec
    // holds the source's socket a moment longer than the source did.
    let last = std::time::Instant::now() + WAIT;
    let other = loop {
        match veth.receiving(|| UdpSocket::bind((RECEIVER, PORT))) {
            Ok(socket) => break socket,
            Err(e) => assert!(std::time::Instant::now() < last, "{e}"),
        }
        std::thread::yield_now();
    };
    other.set_read_timeout(Some(WAIT)).unwrap();
    let mut source = open(&veth, "packet://v0:9000");
    assert!(source.describe().join("\n").contains("another program has port 9000"));
    socket.send(b"both").unwrap();
    assert_eq!(take(&mut *source, 1), [b"both"]);
    assert_eq!(other.recv(&mut [0; 10]).unwrap(), 4);
}

#[test]
fn a_ring_takes_trains_uncut_with_their_stride() {
    let Some(veth) = Veth::new(1500, 1) else { return };
    let mut source = open(&veth, "packet://v0:9000");
    let to = format!("{RECEIVER}:{PORT}").parse().unwrap();
    let mut sender = veth.sending(|| {
        use fullcount_io::udp::{SendOptions, UdpSender};
        let url = fullcount_io::endpoint::UdpUrl::new(to);
        UdpSender::open(&url, &SendOptions::default()).unwrap()
    });
    let bytes = data(1000 * 30 + 7);
    sender.send(&bytes, 1000).unwrap();
    let expected: Vec<&[u8]> = bytes.chunks(1000).collect();
    assert_eq!(take(&mut *source, 31), expected);
    // In generic mode trains longer than the MTU are seen and refused, in native mode they are cut.
    drop(source);
    let mut source = open(&veth, "xdp://v0:9000?mode=generic");
    sender.send(&bytes, 1000).unwrap();
    veth.socket(RECEIVER, PORT).send(b"end").unwrap();
    assert_eq!(take(&mut *source, 1), [b"end"]);
    assert_eq!(count(&*source, "xdp.uncut_trains"), 1);
    assert!(source.describe().join("\n").contains("tx-udp-segmentation off"));
    drop(source);
    let mut source = open(&veth, "xdp://v0:9000?mode=native");
    sender.send(&bytes, 1000).unwrap();
    assert_eq!(take(&mut *source, 31), expected);
}

#[test]
fn wrong_interfaces_are_explained() {
    let Some(veth) = Veth::new(1500, 1) else { return };
    let xdp = |name: &str| {
        let url = XdpUrl::new(name, PORT);
        veth.receiving(move || XdpSource::open(&url, BUFFER, false).unwrap_err()).to_string()
    };
    let packet = |name: &str| {
        let url = PacketUrl::new(name, PORT);
        veth.receiving(move || PacketSource::open(&url, BUFFER, false).unwrap_err())
    };
    assert!(xdp("nosuch0").contains("no interface 'nosuch0'"), "{}", xdp("nosuch0"));
    assert!(xdp("lo").contains("loopback"), "{}", xdp("lo"));
    assert!(matches!(packet("nosuch0"), InterfaceError::NoInterface { .. }));
    let url = XdpUrl {
        own: XdpKeys { zero_copy: Some(true), ..XdpKeys::default() },
        ..XdpUrl::new(NAME, PORT)
    };
    let told = veth.receiving(move || XdpSource::open(&url, BUFFER, false).unwrap_err());
    assert!(matches!(told, XdpError::NoZeroCopy { .. }), "{told}");
    veth.ip(&format!("link set {NAME} down"));
    assert!(xdp(NAME).contains("ip link set v0 up"), "{}", xdp(NAME));
    assert!(matches!(packet(NAME), InterfaceError::Down { .. }));
}

#[test]
fn an_interface_may_go_down_and_one_that_goes_ends_the_source() {
    let Some(veth) = Veth::new(1500, 1) else { return };
    for url in ENGINES {
        let mut source = open(&veth, url);
        let mut batch = source.batch();
        veth.ip(&format!("link set {NAME} down"));
        assert_eq!(source.recv(&mut batch, Duration::from_millis(5)).unwrap(), Received::Idle);
        veth.ip(&format!("link set {NAME} up"));
        veth.await_carrier();
        veth.socket(RECEIVER, PORT).send(b"up again").unwrap();
        assert_eq!(take(&mut *source, 1), [b"up again"], "{url}");
    }
    let mut sources: Vec<_> = ["xdp://v0:9000", "packet://v0:9000"].map(|u| open(&veth, u)).into();
    veth.ip(&format!("link delete {NAME}"));
    for source in &mut sources {
        let mut batch = source.batch();
        let told = loop {
            match source.recv(&mut batch, Duration::from_millis(5)) {
                Ok(got) => assert_eq!(got, Received::Idle),
                Err(told) => break told.to_string(),
            }
        };
        assert!(told.contains("the interface has gone"), "{told}");
    }
}
