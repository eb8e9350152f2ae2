//! Where `fullcount spead2 send` sends from and `recv` listens: `--bind` of hosts and of groups; and what their lines and rings are.

use std::net::{TcpListener, UdpSocket};
use std::time::{Duration, Instant};

use fullcount_spead::send::{HeapSender, NextPacket, OutHeap, SendHow, SenderConfig};

use crate::service::{PATIENCE, Said, Service, capture, say};

/// `spead2 send` of three heaps with these options.
fn send(options: &[&str], to: &str) -> Said {
    let words = ["spead2", "send", "--heaps", "3", "--heap-size", "40", "--rate", "0.1"];
    say(&[&words[..], options, &[to]].concat())
}

/// A socket that waits for packets, and where.
fn receiver(at: &str) -> (UdpSocket, String) {
    let socket = UdpSocket::bind(at).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let to = socket.local_addr().unwrap().to_string();
    (socket, to)
}

#[test]
fn a_sender_sends_from_the_address_of_bind() {
    for (at, bind) in [("127.0.0.1:0", "127.0.0.3"), ("[::1]:0", "::1"), ("[::1]:0", "[::1]")] {
        let (socket, to) = receiver(at);
        let said = send(&["--bind", bind], &to);
        assert_eq!(said.code, 0, "{}", said.err);
        assert!(said.err.contains(&format!("&bind={bind}")), "{}", said.err);
        assert!(!said.err.contains("interface="), "{}", said.err);
        let (_, from) = socket.recv_from(&mut [0; 2000]).unwrap();
        assert_eq!(from.ip().to_string(), bind.trim_matches(['[', ']']));
        // By the verb that it stands for, and plain datagrams. Each socket is new: nothing else is in its queue.
        for (scheme, words) in [
            ("spead+udp", &["--source", "heaps", "--heaps", "1", "--heap-size", "40B"][..]),
            ("udp", &["--count", "1", "--size", "77"]),
        ] {
            let (socket, to) = receiver(at);
            let to = format!("{scheme}://{to}?bind={bind}");
            let said = say(&[&["send", "--to", &to], words].concat());
            assert_eq!(said.code, 0, "{}", said.err);
            let (_, from) = socket.recv_from(&mut [0; 2000]).unwrap();
            assert_eq!(from.ip().to_string(), bind.trim_matches(['[', ']']), "{words:?}");
        }
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap().to_string();
    let from = std::thread::spawn(move || listener.accept().unwrap().1);
    assert_eq!(send(&["--tcp", "--bind", "127.0.0.3"], &to).code, 0);
    assert_eq!(from.join().unwrap().ip().to_string(), "127.0.0.3");
}

#[test]
fn a_receiver_listens_at_the_address_of_bind() {
    for (bind, place, at) in [
        ("127.0.0.3", "0", "127.0.0.3"),
        ("127.0.0.3", ":0", "127.0.0.3"),
        ("127.0.0.3", "0.0.0.0:0", "127.0.0.3"),
        ("127.0.0.3", "127.0.0.3:0", "127.0.0.3"),
        ("::1", "0", "[::1]"),
        ("::1", "[::1]:0", "[::1]"),
    ] {
        let mut recv = Service::start(&["spead2", "recv", "--quiet", "--bind", bind, place]);
        let port: u16 = recv.wait_for("the port", |line| {
            line.strip_prefix("listening on ")?.strip_prefix(at)?.strip_prefix(':')?.parse().ok()
        });
        let said = send(&["--bind", bind], &format!("{at}:{port}"));
        assert_eq!(said.code, 0, "{}", said.err);
        let said = recv.end();
        assert_eq!(said.code, 0, "{}", said.err);
        assert!(said.out.contains("Received 3 heaps"), "{}", said.out);
        assert!(said.err.contains(&format!("spead+udp://{at}:0")), "{}", said.err);
        assert!(!said.err.contains("interface="), "{}", said.err);
    }
}

#[test]
fn an_address_that_is_not_the_hosts_own_or_does_not_fit_is_refused() {
    let recv = |bind, place| say(&["spead2", "recv", "--quiet", "--bind", bind, place]);
    for (bind, place, told) in [
        ("127.0.0.3", "127.0.0.4:8888", "with 127.0.0.4: that address; or the port alone"),
        ("127.0.0.3", "localhost:8888", "with localhost: that address"),
        ("::1", "127.0.0.1:8888", "with 127.0.0.1: that address"),
        ("lo", "8888", "an address of this host"),
    ] {
        let said = recv(bind, place);
        assert!(said.code == 2 && said.err.contains(told), "{} {}", said.code, said.err);
        assert!(said.err.contains("bind") && said.err.contains(bind), "{}", said.err);
    }
    for (bind, to, code, told) in [
        ("lo", "127.0.0.1:9", 2, "bind=lo is not allowed; an address of this host"),
        ("::1", "127.0.0.1:9", 1, "the destination wants an IPv4 address of this host"),
        ("127.0.0.1", "[::1]:9", 1, "the destination wants an IPv6 address of this host"),
        ("192.0.2.77", "127.0.0.1:9", 1, "bind=192.0.2.77: it is no address of this host"),
    ] {
        let said = send(&["--bind", bind], to);
        assert!(said.code == code && said.err.contains(told), "{} {}", said.code, said.err);
    }
    for scheme in ["udp", "spead+udp", "spead+tcp"] {
        let said = say(&["receive", &format!("{scheme}://127.0.0.1:0?bind=127.0.0.1")]);
        assert!(said.code == 2 && said.err.contains("bind is for sending"), "{}", said.err);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn heaps_come_from_an_ipv6_group() {
    use fullcount_testing::veth::{NAME, Veth};

    let Some(veth) = Veth::new(1500, 1) else { return };
    // Until both ends know that nobody else has their link-local addresses, the kernel drops packets to groups.
    let until = Instant::now() + PATIENCE;
    let show = ["ip", "-6", "address", "show", "dev", NAME];
    while [true, false].into_iter().any(|end| veth.run(end, &show).contains("tentative")) {
        assert!(Instant::now() < until, "the addresses stay tentative");
        std::thread::sleep(Duration::from_millis(50));
    }
    let url = format!("spead+udp://[ff15::7]:7148?interface={NAME}");
    for words in [
        &["spead2", "recv", "--verify", "--bind", NAME, "[ff15::7]:7148"][..],
        &["receive", "--verify", "--json", &url],
    ] {
        let mut recv = veth.receiving(|| Service::start(words));
        recv.wait_for("the group", |line| line.contains("group ff15::7 joined").then_some(()));
        let options = ["--verify", "--bind", NAME];
        let sent = veth.sending(|| send(&options, "[ff15::7]:7148"));
        assert_eq!(sent.code, 0, "{}", sent.err);
        assert!(sent.err.contains(&format!("&ttl=1&interface={NAME}")), "{}", sent.err);
        let said = recv.end();
        assert_eq!(said.code, 0, "{}{}", said.out, said.err);
        match words[0] {
            "receive" => assert_eq!(said.summary()["heaps"]["received"], 3),
            _ => assert!(said.out.contains("Received 3 heaps"), "{}", said.out),
        }
    }
}

/// Packets of heaps, one each.
fn packets(heaps: impl Iterator<Item = OutHeap>) -> Vec<Vec<u8>> {
    let mut sender = HeapSender::new(SenderConfig::default()).unwrap();
    let packet = |heap| {
        sender.send(heap, SendHow::default()).unwrap();
        let mut bytes = vec![];
        assert!(matches!(sender.next_packet(0, &mut bytes), NextPacket::Packet { .. }));
        bytes
    };
    heaps.map(packet).collect()
}

#[test]
fn immediate_values_are_printed_as_spead2_prints_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut heap = OutHeap::default();
    for (id, value) in [(0x1000, 0), (0x1001, 1), (0x1002, 0x2a)] {
        heap.add_inline(id, value);
    }
    let file = capture(folder.path(), "values", &packets(std::iter::once(heap)));
    let said = say(&["spead2", "recv", &file]);
    assert_eq!(said.code, 0, "{}", said.err);
    let lines: Vec<&str> = said.out.lines().filter(|line| line.starts_with("0x")).collect();
    let wanted =
        ["0x1000 = [5 bytes] = 0", "0x1001 = [5 bytes] = 0x1", "0x1002 = [5 bytes] = 0x2a"];
    assert_eq!(lines, wanted);
}

/// Heaps always wait in a ring here: with spead2 its places need --ring, and several sources and --ring are wrong options.
#[test]
fn places_of_the_ring_need_no_option_and_several_sources_may_have_it() {
    let folder = tempfile::tempdir().unwrap();
    let heap = |n| {
        let mut heap = OutHeap::default();
        heap.add_inline(0x1000, n);
        heap
    };
    let one = capture(folder.path(), "one", &packets((0..3).map(heap)));
    let two = capture(folder.path(), "two", &packets((0..2).map(heap)));
    for options in [&["--ring-heaps", "7"][..], &["--ring-heaps", "7", "--ring"]] {
        let said = say(&[&["spead2", "recv", "--quiet"], options, &[&one]].concat());
        assert_eq!(said.code, 0, "{}", said.err);
        assert!(said.out.contains("Received 3 heaps"), "{}", said.out);
        assert!(said.err.contains("&ring_heaps=7&"), "{options:?}: {}", said.err);
    }
    let said = say(&["spead2", "recv", "--quiet", "--ring", &one, &two]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.contains("Received 5 heaps"), "{}", said.out);
}
