//! Several senders and several readers of one stream, and a sender that stands still: each heap once, the end that the page promises, and
//! nothing that is lost without its counter and exit code 3.

use std::io::Write as _;
use std::net::{TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::service::{PATIENCE, Said, Service, fullcount};

/// A heap of one packet of so many bytes, with these immediate items behind the usual ones.
fn packet(number: u64, bytes: usize, more: &[(u64, u64)]) -> Vec<u8> {
    let payload = (bytes - 40 - 8 * more.len()) as u64;
    let mut packet = vec![0x53, 4, 3, 5, 0, 0, 0, 4 + more.len() as u8];
    let usual = [(1, number), (2, payload), (3, 0), (4, payload)];
    for (id, value) in usual.iter().chain(more) {
        packet.extend((1u64 << 63 | id << 40 | value).to_be_bytes());
    }
    packet.resize(bytes, 7);
    packet
}

fn stop(number: u64) -> Vec<u8> {
    packet(number, 48, &[(6, 2)])
}

/// The stream has ended by itself.
fn ended(mut receiver: Service, what: &str) -> Said {
    assert!(receiver.child.ended(PATIENCE).expect("a child"), "{what}: {:?}", receiver.seen());
    receiver.end()
}

/// As the page says it: numbers are shared out, and `senders` is how many.
#[test]
fn two_senders_fill_one_stream_over_udp_and_the_second_stop_ends_it() {
    let url = "spead+udp://127.0.0.1:0?senders=2&max_heaps=16&sequence=1";
    let mut receiver = Service::start(&["receive", url, "--json"]);
    let to = format!("spead+udp://127.0.0.1:{}?burst=16KiB", receiver.udp_port());
    let mut begun: Vec<_> = [("1", "10Mbps"), ("2", "40Mbps")]
        .into_iter()
        .map(|(first, rate)| {
            let words =
                ["send", "--source", "heaps", "--to", &to, "--heap-size", "100kB", "--json"];
            let numbers = ["--first-heap", first, "--heap-step", "2", "--heaps", "25"];
            let mut command = fullcount(&[&words[..], &numbers, &["--rate", rate]].concat());
            command.stdout(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    // The faster one is done first: its stop must not end the stream.
    let second = begun.remove(1).wait_with_output().unwrap();
    assert!(second.status.success());
    assert!(!receiver.child.ended(Duration::ZERO).expect("a child"), "the first stop ended it");
    let first = begun.remove(0).wait_with_output().unwrap();
    assert!(first.status.success());
    let said = ended(receiver, url);
    let s = said.summary();
    assert_eq!((said.code, &s["ended"]), (0, &"stop heap".into()), "{}", said.err);
    assert_eq!(
        (&s["heaps"]["received"], &s["heaps"]["incomplete"]),
        (&50.into(), &0.into()),
        "{s}"
    );
    // All of 1 to 50 came, none of them twice.
    assert_eq!((&s["heaps"]["lost"], &s["balance"]), (&0.into(), &0.into()), "{s}");
    assert_eq!(said.counter("spead.heaps.stop"), 2);
    let sent: u64 = [first, second]
        .iter()
        .map(|out| serde_json::from_slice::<serde_json::Value>(&out.stdout).unwrap())
        .map(|sent| sent["bytes"]["spead"].as_u64().unwrap())
        .sum();
    assert_eq!(s["bytes"]["spead"], sent, "{s}");
}

/// What a UDP reader threw away is not forgotten when the TCP reader beside it has a connection.
#[test]
fn a_packet_above_the_limit_ends_with_3_also_beside_a_tcp_reader() {
    let urls = ["spead+udp://127.0.0.1:0?max_packet=1000B", "spead+tcp://127.0.0.2:0"];
    let mut receiver = Service::start(&["receive", urls[0], urls[1], "--json"]);
    let port = |receiver: &mut Service, at: &str| {
        receiver.wait_for("the port", |line| {
            let (_, rest) = line.split_once("listening on ")?;
            rest.split_once(at)?.1.parse::<u16>().ok()
        })
    };
    let udp = port(&mut receiver, "127.0.0.1:");
    let tcp = port(&mut receiver, "127.0.0.2:");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for packet in [packet(1, 2000, &[]), packet(2, 900, &[]), stop(3)] {
        socket.send_to(&packet, ("127.0.0.1", udp)).unwrap();
    }
    let mut connection = TcpStream::connect(("127.0.0.2", tcp)).unwrap();
    connection.write_all(&[packet(4, 2000, &[]), stop(5)].concat()).unwrap();
    let said = ended(receiver, "both stops came");
    assert_eq!(said.counter("spead.reader.too_large"), 1, "{}", said.out);
    assert_eq!((said.code, &said.summary()["heaps"]["received"]), (3, &2.into()), "{}", said.err);
    assert!(said.err.contains("spead.reader.too_large 1"), "{}", said.err);
}

/// Its connection lives, so that no reset and no keep-alive tells of it.
#[test]
fn a_tcp_sender_that_stands_still_is_not_waited_for() {
    for keys in ["", "&framing=heap"] {
        let url = format!("spead+tcp://127.0.0.1:0?stall_timeout=1s{keys}");
        let mut receiver = Service::start(&["receive", &url, "--json"]);
        let mut sender = TcpStream::connect(("127.0.0.1", receiver.udp_port())).unwrap();
        // Who has sent nothing has not begun.
        std::thread::sleep(Duration::from_millis(1500));
        assert!(!receiver.child.ended(Duration::ZERO).expect("a child"), "{:?}", receiver.seen());
        let mut heaps = [packet(1, 3000, &[]), packet(2, 5000, &[])].concat();
        if keys.is_empty() {
            // The first of two packets of heap 2, as spead2 sends them.
            heaps.truncate(3000);
            let mut part = packet(2, 2540, &[]);
            part[16..24].copy_from_slice(&(1u64 << 63 | 2 << 40 | 5000).to_be_bytes());
            heaps.extend(part);
        }
        heaps.truncate(7000);
        sender.write_all(&heaps).unwrap();
        let said = ended(receiver, &url);
        let s = said.summary();
        assert_eq!((said.code, &s["ended"]), (3, &"stalled".into()), "{url}: {}", said.err);
        assert!(said.err.contains("no packet for stall_timeout"), "{}", said.err);
        assert_eq!(s["heaps"]["received"], 1, "{url}: {s}");
        // Of a whole heap that the end of the stream cut, the connection tells.
        let cut = if keys.is_empty() { "spead.heaps.incomplete" } else { "spead.reader.cut" };
        assert_eq!(said.counter(cut), 1, "{url}: {s}");
        assert_eq!((said.counter("spead.stalls"), &s["balance"]), (1, &0.into()), "{s}");
        drop(sender);
    }
}

/// A stopped process of a sender, as a debugger or a full disk makes it.
#[test]
fn a_stopped_process_that_sends_over_tcp_is_not_waited_for() {
    let mut receiver =
        Service::start(&["receive", "spead+tcp://127.0.0.1:0?stall_timeout=2s", "--json"]);
    let to = format!("spead+tcp://127.0.0.1:{}", receiver.udp_port());
    let words = ["send", "--source", "heaps", "--to", &to, "--heap-size", "100kB"];
    let mut sender = fullcount(&[&words[..], &["--rate", "20Mbps", "--duration", "60s"]].concat())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // It has begun: some hundred packets a second come.
    std::thread::sleep(Duration::from_millis(700));
    let signal = |name: &str| {
        let pid = sender.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    };
    signal("-STOP");
    let said = ended(receiver, "the sender stands still");
    signal("-KILL");
    sender.wait().unwrap();
    assert_eq!((said.code, &said.summary()["ended"]), (3, &"stalled".into()), "{}", said.err);
    assert_eq!(said.counter("spead.stalls"), 1);
    assert!(said.summary()["heaps"]["received"].as_u64() > Some(0), "{}", said.out);
}
