//! SPEAD from the command line: heaps over UDP, TCP and captures, carried readouts, and the Python package spead2 at the other end in both
//! directions. Options of spead2's tools: `spead2.rs`.

use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use fullcount_io::udp::MOST_SOCKETS;
use fullcount_testing::veth::{NAME, RECEIVER, RECEIVER_V6, Veth};
use serde_json::Value;
use socket2::{Domain, Protocol, Socket, Type};

use crate::python;
use crate::service::{PATIENCE, Said, Service, fullcount, say};

/// Sends heaps to a receiver whose URL has `{}` for the port; both summaries.
fn through(receive: &str, send: &str, words: &[&str]) -> (Said, Said) {
    let mut receiver =
        Service::start(&["receive", &receive.replace("{}", "0"), "--verify", "--json"]);
    let port = receiver.udp_port();
    let to = send.replace("{}", &port.to_string());
    let all = [&["send", "--to", &to, "--source", "heaps", "--json"], words].concat();
    let sent = say(&all);
    assert_eq!(sent.code, 0, "{}", sent.err);
    (sent, receiver.end())
}

#[test]
fn heaps_arrive_with_their_values_and_both_ends_count_the_same_bytes() {
    let words =
        ["--heap-size", "300kB", "--items", "2", "--heaps", "20", "--verify", "--rate", "400Mbps"];
    for (receive, send) in [
        ("spead+udp://127.0.0.1:{}", "spead+udp://127.0.0.1:{}?burst=16KiB"),
        ("spead+udp://[::1]:{}", "spead+udp://[::1]:{}?packet=8972B&burst=32KiB&flavour=48"),
        (
            "spead+tcp://127.0.0.1:{}?sequence=1",
            "spead+tcp://127.0.0.1:{}?bind=127.0.0.1&congestion=reno",
        ),
        ("spead+tcp://[::1]:{}?framing=heap", "spead+tcp://[::1]:{}?framing=heap"),
    ] {
        let (sent, received) = through(receive, send, &words);
        let (s, r) = (sent.summary(), received.summary());
        assert_eq!(received.code, 0, "{receive}: {}", received.out);
        assert_eq!((&r["heaps"]["received"], &r["heaps"]["wrong"]), (&20.into(), &0.into()));
        assert_eq!(s["bytes"]["spead"], r["bytes"]["spead"], "{receive}");
        assert_eq!(s["bytes"]["spead"], s["bytes"]["transport"]);
        assert_eq!((&r["statistics"]["heaps"], &r["balance"]), (&20.into(), &0.into()));
        assert_eq!(r["statistics"]["packets"], s["packets"]["sent"]);
        assert_eq!(
            r["heaps"]["lost"],
            if receive.contains("sequence") { 0.into() } else { Value::Null }
        );
        assert_eq!(r["counters"]["spead.lost.heaps"], r["heaps"]["lost"]);
        assert_eq!(r["counters"]["spead.lost.packets"], r["packets"]["lost"]);
        if receive.starts_with("spead+tcp") {
            assert_eq!(s["bytes"]["transport"], r["bytes"]["transport"], "{receive}");
            let left = s["bytes"]["segments"].as_u64().unwrap()
                - s["bytes"]["segments_again"].as_u64().unwrap();
            assert_eq!(s["bytes"]["transport"], left, "the kernel counts the same");
        }
    }
}

/// A receiver that may not go beyond `net.core.rmem_max` has as many sockets as have the buffer together.
#[test]
fn a_buffer_that_one_socket_does_not_get_is_made_of_several() {
    let limit = std::fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap();
    let limit: u64 = limit.trim().parse().unwrap();
    // One GiB is the most that a URL takes.
    let wanted = ((1u64 << 30) + limit / 2) / limit;
    for (keys, sockets) in [("", wanted.clamp(1, u64::from(MOST_SOCKETS))), ("&sockets=1", 1)] {
        let url = format!("spead+udp://127.0.0.1:0?receive_buffer=1GiB{keys}");
        let words = ["receive", &url, "--verify", "--json"];
        let mut command = fullcount(&words);
        // Who is not root cannot give it up, and has not got it.
        let without = ["--bounding-set=-net_admin", "--inh-caps=-net_admin"];
        let may = Command::new("setpriv").args(without).arg("true").stderr(Stdio::null()).status();
        if may.is_ok_and(|status| status.success()) {
            command = Command::new("setpriv");
            command.args(without).arg(env!("CARGO_BIN_EXE_fullcount")).args(words);
        }
        let mut receiver = Service::run(command);
        let to = format!("spead+udp://127.0.0.1:{}", receiver.udp_port());
        let words = ["--heap-size", "60kB", "--heaps", "50", "--verify", "--rate", "100Mbps"];
        let sent =
            say(&[&["send", "--to", &to, "--source", "heaps", "--json"], &words[..]].concat());
        let received = receiver.end();
        assert_eq!((sent.code, received.code), (0, 0), "{}{}", sent.err, received.err);
        assert_eq!(received.summary()["heaps"]["received"], 50);
        let told = received.err.lines().find(|line| line.contains("sockets share the port"));
        let number = told.and_then(|line| line.split(' ').find_map(|word| word.parse().ok()));
        assert_eq!(number.unwrap_or(1), sockets, "{}", received.err);
    }
}

/// The sender tells each decision when it is made, and never goes beyond --rate.
#[test]
fn a_tuned_sender_says_what_it_decides_while_it_sends() {
    let back = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("spead+udp://127.0.0.1:0?sequence=1&feedback={back}");
    let mut receiver = Service::start(&["receive", &url, "--json"]);
    let port = receiver.udp_port();
    let to = format!("spead+udp://127.0.0.1:{port}?feedback={back}&tune&loss=0.01&min_rate=8Mbps");
    let words = ["send", "--source", "heaps", "--to", &to, "--heap-size", "20kB"];
    let more = ["--rate", "16Mbps", "--heaps", "150", "--json"];
    let mut sender = Service::start(&[&words[..], &more].concat());
    let line = sender.wait_for("a decision", |line| {
        line.contains(" Gbit/s  ").then(|| line.to_owned()).filter(|line| line.contains("  loss "))
    });
    assert!(line.contains(" s  0.016 -> "), "{line}");
    assert!(!sender.child.ended(Duration::ZERO).expect("a child"), "it is told at the end only");
    let sent = sender.end();
    let said = receiver.end();
    assert_eq!(sent.code, 0, "{}", sent.err);
    let feedback = &sent.summary()["feedback"];
    let decisions = feedback["decisions"].as_array().unwrap();
    assert!(!decisions.is_empty() && feedback["decisions_left_out"] == 0, "{feedback}");
    for decision in decisions {
        let rate = decision["to_gbps"].as_f64().unwrap();
        assert!((0.008..=0.016).contains(&rate), "{decision}");
    }
    assert_eq!(sent.err.matches("  loss ").count(), decisions.len(), "{}", sent.err);
    assert!(feedback["reports"].as_u64() > Some(0), "{feedback}");
    // The totals of the sender came: what is lost is known, and it is nothing.
    let bytes = &said.summary()["bytes"];
    assert_eq!((said.code, bytes["missing_all"].as_u64()), (0, Some(0)), "{}", said.err);
    assert!(said.err.contains("lost: 0 heaps, 0 payload bytes"), "{}", said.err);
}

/// What a capture of the receiver's interface has for a port.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Seen {
    /// Payload bytes.
    pub payload: u64,
    /// Frames with their check sequence, and filled up where they are short.
    frames: u64,
}

/// All frames that come into the receiver's namespace for a port, as its interface has them.
pub struct Tap {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

/// Every frame of the receiver's namespace from now on.
pub fn frames(veth: &Veth) -> Socket {
    let all = i32::from(0x0003u16.to_be());
    let socket = veth
        .receiving(|| Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(all))).unwrap());
    // Who makes namespaces may ask for more than the host's limit: every frame fits.
    fullcount_io::sys::force_receive_buffer(socket.as_fd(), 32 << 20).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

impl Tap {
    pub fn begin(veth: &Veth, port: u16) -> Tap {
        let socket = frames(veth);
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let ended = over.clone();
        let thread = std::thread::spawn(move || {
            let (mut frame, mut seen) = (vec![0; 1 << 17], Seen::default());
            loop {
                // What was queued when the end was told is read before.
                let last = ended.load(Relaxed);
                match (&socket).read(&mut frame) {
                    Ok(n) => {
                        if let Some(payload) = payload(&frame[..n], port) {
                            seen.payload += payload;
                            seen.frames += n.max(60) as u64 + 4;
                        }
                    }
                    Err(_) if last => return seen,
                    Err(_) => {}
                }
            }
        });
        Tap { over, thread }
    }

    pub fn end(self) -> Seen {
        self.over.store(true, Relaxed);
        self.thread.join().unwrap()
    }
}

/// Bytes behind the headers of a frame with IPv4 or IPv6 and UDP or TCP to this port, or of one with a later part of a datagram, which has no
/// port: here there are no others. `None` of other frames.
fn payload(frame: &[u8], port: u16) -> Option<u64> {
    let u16_at = |at: usize| frame.get(at..at + 2).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]));
    // Where the transport's header stands, which one it is, how long it is with what is behind it, and which part this is.
    let (at, protocol, long, part) = match u16_at(12) {
        0x0800 if frame.len() >= 34 => {
            let ip = u16::from(frame[14] & 15) * 4;
            (14 + usize::from(ip), frame[23], u16_at(16).saturating_sub(ip), u16_at(20) & 0x1fff)
        }
        0x86DD if frame.len() >= 62 && frame[20] == 44 => {
            (62, frame[54], u16_at(18).saturating_sub(8), u16_at(56) >> 3)
        }
        0x86DD if frame.len() >= 54 => (54, frame[20], u16_at(18), 0),
        _ => return None,
    };
    let head = match protocol {
        17 => 8,
        6 => u16::from(frame.get(at + 12).copied().unwrap_or(0) >> 4) * 4,
        _ => return None,
    };
    match part {
        0 => (u16_at(at + 2) == port).then(|| u64::from(long.saturating_sub(head))),
        _ => Some(u64::from(long)),
    }
}

#[test]
fn transport_bytes_are_those_of_the_frames_on_the_link() {
    let Some(veth) = Veth::new(9000, 1) else { return };
    // The capture has each datagram as a card would send it, not trains.
    let cut = veth.sending(|| fullcount_io::sys::set_feature(NAME, "tx-udp-segmentation", false));
    cut.unwrap();
    let words = ["--heap-size", "200kB", "--heaps", "8", "--rate", "100Mbps", "--json"];
    let hosts = [RECEIVER.to_owned(), format!("[{RECEIVER_V6}]")];
    let ways = [
        ("spead+udp", "?burst=16KiB"),
        ("spead+udp", "?packet=8900B&burst=16KiB"),
        ("spead+udp", "?packet=20000B&burst=16KiB"),
        ("spead+tcp", ""),
        ("spead+tcp", "?framing=heap"),
    ];
    for (host, (scheme, keys)) in hosts.iter().flat_map(|host| ways.map(|way| (host, way))) {
        let framing = if keys.contains("framing") { keys } else { "" };
        let at = format!("{scheme}://{host}:0{framing}");
        let mut receiver = veth.receiving(|| Service::start(&["receive", &at, "--json"]));
        let port = receiver.udp_port();
        let tap = Tap::begin(&veth, port);
        let to = format!("{scheme}://{host}:{port}{keys}");
        let all = [&["send", "--to", &to, "--source", "heaps"], &words[..]].concat();
        let sent = veth.sending(|| fullcount(&all).output()).unwrap();
        assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
        let received = receiver.end();
        assert_eq!(received.code, 0, "{}", received.err);
        let seen = tap.end();
        let bytes: serde_json::Value = serde_json::from_slice(&sent.stdout).unwrap();
        let of = |name: &str| bytes["bytes"][name].as_u64().unwrap_or(0);
        assert!(of("payload") >= 8 * 200_000 && of("spead") > of("payload"), "{bytes}");
        assert_eq!(of("transport"), seen.payload - of("segments_again"), "{to}: {bytes}");
        if scheme == "spead+tcp" {
            assert_eq!(of("segments"), seen.payload, "{to}: {bytes}");
            let link = (&bytes["bytes"]["frames"], &bytes["bytes"]["link"]);
            assert_eq!(link, (&Value::Null, &Value::Null), "only the kernel knows: {bytes}");
        } else {
            assert_eq!(of("frames"), seen.frames, "{to}: {bytes}");
        }
    }
}

#[test]
fn a_capture_of_heaps_is_written_and_received() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("spead+pcap:{}", folder.path().join("heaps.pcapng").display());
    let words = ["--heap-size", "100kB", "--heaps", "5", "--verify"];
    let sent = say(&[&["send", "--to", &url, "--source", "heaps"], &words[..]].concat());
    assert_eq!(sent.code, 0, "{}", sent.err);
    let received = say(&["receive", &format!("{url}?flat-out"), "--verify"]);
    assert_eq!(received.code, 0, "{}", received.err);
    assert!(
        received.out.contains("received 5 heaps")
            && received.out.contains("incomplete_heaps_flushed: 0")
    );
    // A second one is not written over it.
    assert_eq!(say(&[&["send", "--to", &url, "--source", "heaps"], &words[..]].concat()).code, 1);
}

/// A heap of one packet: header, four pointers, an item at its beginning, payload.
fn whole_heap(number: u64, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u64;
    let mut bytes = vec![0x53, 4, 3, 5, 0, 0, 0, 5];
    for (id, value) in [(1, number), (2, length), (3, 0), (4, length)] {
        bytes.extend((1 << 63 | id << 40 | value).to_be_bytes());
    }
    bytes.extend((0x1000u64 << 40).to_be_bytes());
    bytes.extend(payload);
    bytes
}

#[test]
fn a_sender_that_dies_inside_a_heap_and_a_heap_above_the_limit_end_with_3() {
    let heaps = [whole_heap(1, &[1; 3000]), whole_heap(2, &[2; 5000])].concat();
    for (keys, bytes, incomplete, missing) in [
        ("", &heaps[..], 0, 0),
        ("?framing=heap", &heaps[..], 0, 0),
        ("?framing=heap", &heaps[..heaps.len() - 1000], 1, 1000),
        ("?framing=heap", &heaps[..3060], 0, 0),
        ("?framing=heap&max_heap=4kB", &heaps[..], 0, 0),
        ("?max_heap=4kB", &heaps[..], 0, 0),
    ] {
        let at = format!("spead+tcp://127.0.0.1:0{keys}");
        let mut receiver = Service::start(&["receive", &at, "--json"]);
        let port = receiver.udp_port();
        let mut sender = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        std::io::Write::write_all(&mut sender, bytes).unwrap();
        drop(sender);
        let said = receiver.end();
        let whole = bytes.len() == heaps.len() && !keys.contains("max_heap");
        assert_eq!(said.code, if whole { 0 } else { 3 }, "{keys} {}: {}", bytes.len(), said.out);
        let s = said.summary();
        assert_eq!(s["heaps"]["incomplete"], incomplete, "{keys}: {s}");
        assert_eq!(s["bytes"]["missing"], missing, "{keys}: {s}");
        assert_eq!(s["balance"], 0, "{keys}");
        assert_eq!(s["heaps"]["received"], if whole { 2 } else { 1 }, "{keys}: {s}");
    }
}

/// A packet of heap `number`: `part` of its `length` bytes from the beginning, with these immediate items behind the usual ones.
fn packet_of(number: u64, (part, length): (usize, u64), more: &[(u64, u64)]) -> Vec<u8> {
    let mut bytes = vec![0x53, 4, 3, 5, 0, 0, 0, 4 + more.len() as u8];
    let own = [(1, number), (2, length), (3, 0), (4, part as u64)];
    for (id, value) in own.iter().chain(more) {
        bytes.extend((1 << 63 | id << 40 | value).to_be_bytes());
    }
    bytes.resize(bytes.len() + part, 7);
    bytes
}

#[test]
fn what_an_open_connection_wasted_counts_when_the_stop_heap_has_ended_the_stream() {
    let stop = packet_of(9, (0, 0), &[(6, 2)]);
    let (whole, part) = (packet_of(1, (5000, 5000), &[]), packet_of(1, (3000, 5000), &[]));
    for (keys, before, counter) in [
        ("?framing=heap&max_heap=4kB", &whole, "spead.reader.too_large"),
        ("?max_packet=4kB", &whole, "spead.reader.too_large"),
        ("?framing=heap", &part, "spead.reader.not_whole"),
        ("", &vec![0; 16], "spead.reader.junk_bytes"),
    ] {
        let at = format!("spead+tcp://127.0.0.1:0{keys}");
        let mut receiver = Service::start(&["receive", &at, "--json"]);
        let port = receiver.udp_port();
        let mut sender = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        let bytes = [&before[..], &packet_of(2, (100, 100), &[]), &stop].concat();
        std::io::Write::write_all(&mut sender, &bytes).unwrap();
        assert!(receiver.child.ended(PATIENCE).expect("a child"), "{keys}: {:?}", receiver.seen());
        let said = receiver.end();
        assert_eq!(said.code, 3, "{keys}: {}", said.out);
        assert!(said.counter(counter) > 0 && said.err.contains(counter), "{keys}: {}", said.err);
        assert_eq!(said.summary()["heaps"]["received"], 1, "{keys}: {}", said.out);
        drop(sender);
    }
}

#[test]
fn wrong_options_end_with_2_and_a_sentence() {
    for (words, part) in [
        (&["receive", "spead+udp://127.0.0.1:1?max_heaps=0"][..], "1 to 4096"),
        (
            &[
                "receive",
                "spead+udp://127.0.0.1:1?max_heaps=8",
                "spead+tcp://127.0.0.1:2?max_heaps=9",
            ],
            "max_heaps = 9: as in the first URL of the stream, which says max_heaps=8",
        ),
        (&["receive", "spead+udp://127.0.0.1:1", "udp://127.0.0.1:2"], "spead+"),
        (&["receive", "spead+udp://127.0.0.1:1", "--web", "127.0.0.1:0"], "web"),
        (&["receive", "spead+udp://127.0.0.1:1", "--key", "id"], "key"),
        (&["receive", "spead+udp://127.0.0.1:1", "--workers", "2"], "workers"),
        (&["receive", "spead+udp://127.0.0.1:1", "--redundant"], "redundant"),
        (&["receive", "spead+udp://127.0.0.1:1", "--fault", "loss=0.1"], "fault"),
        (&["receive", "spead+udp://127.0.0.1:1", "--timestamps"], "timestamps"),
        (&["receive", "spead+udp://127.0.0.1:1", "--core", "0,1"], "one CPU"),
        (&["receive", "spead+udp://127.0.0.1:1?sequence=1,0"], "FIRST,STEP"),
        (&["receive", "spead+udp://127.0.0.1:1?pool=2&pool_initial=3"], "at most pool"),
        (&["receive", "spead+tcp://127.0.0.1:1?bind=127.0.0.1"], "bind is for sending"),
        (
            &["send", "--source", "heaps", "--to", "spead+udp://127.0.0.1:1?min_rate=8Mbps"],
            "limits of tune",
        ),
        (&["receive", "spead+pcap:/nowhere/x.pcap"], "/nowhere/x.pcap"),
        (&["send", "--source", "heaps", "--to", "udp://127.0.0.1:1"], "spead+"),
        (
            &["send", "--source", "heaps", "--to", "spead+udp://127.0.0.1:1?framing=heap"],
            "spead+tcp",
        ),
        (&["send", "--source", "heaps", "--to", "spead+udp://127.0.0.1:1?packet=70kB"], "65507"),
        (
            &["send", "--source", "heaps", "--to", "spead+udp://127.0.0.1:1?congestion=reno"],
            "congestion is for spead+tcp",
        ),
        (
            &["send", "--source", "heaps", "--to", "spead+tcp://127.0.0.1:1?congestion=A"],
            "1 to 15 of a-z",
        ),
        (&["send", "--source", "heaps", "--to", "spead+udp://127.0.0.1:1?tune"], "feedback"),
        (
            &["send", "--source", "heaps", "--to", "spead+udp://127.0.0.1:1", "--heap-size", "2B"],
            "heap_size",
        ),
        (
            &["send", "--source", "heaps", "--to", "spead+udp://127.0.0.1:1", "--rate", "5kpps"],
            "Gbps",
        ),
        (
            &[
                "send",
                "--source",
                "heaps",
                "--to",
                "spead+udp://127.0.0.1:1?feedback=127.0.0.1:0",
                "--to",
                "spead+udp://127.0.0.1:2",
            ],
            "one destination only",
        ),
        (
            &["send", "--to", "spead+udp://127.0.0.1:1?feedback=127.0.0.1:0", "--count", "1"],
            "no back-channel",
        ),
        (&["spead2", "send", "--packet", "20", "127.0.0.1:1"], "56"),
        (&["spead2", "send", "--addr-bits", "41", "127.0.0.1:1"], "8, 16, 24"),
        (&["spead2", "recv", "/nowhere.pcap"], "/nowhere.pcap"),
        (&["spead2", "recv", "run?4.pcap"], "without `?`"),
        (&["spead2", "recv", "--tcp", "--bind", "127.0.0.1", "127.0.0.1:1"], "bind"),
    ] {
        let said = say(words);
        assert!(said.code == 2 && said.err.contains(part), "{words:?}: {} {}", said.code, said.err);
    }
}

const SEND: &str = r#"
import sys, numpy as np, spead2, spead2.send
kind, port, size, count = sys.argv[1], *(int(word) for word in sys.argv[2:5])
pool = spead2.ThreadPool()
config = spead2.send.StreamConfig(max_packet_size=size, rate=20e6, burst_size=4096, max_heaps=10)
end = [("127.0.0.1", port)]
stream = spead2.send.UdpStream(pool, end, config) if kind == "udp" else spead2.send.TcpStream(pool, end, config)
group = spead2.send.ItemGroup()
x = 1
values = np.empty(count, dtype=">u4")
group.add_item(0x1000, "x", "", shape=values.shape, dtype=values.dtype)
for n in range(4):
    for i in range(len(values)):
        x = 48271 * x % 0x7fffffff
        values[i] = x
    group["x"].value = values.copy()
    stream.send_heap(group.get_heap())
stream.send_heap(group.get_end())
del stream
"#;

const RECV: &str = r#"
import sys, socket, numpy as np, spead2, spead2.recv
kind = sys.argv[1]
pool = spead2.ThreadPool()
stream = spead2.recv.Stream(pool, spead2.recv.StreamConfig(allow_out_of_order=True), spead2.recv.RingStreamConfig(heaps=16))
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM)
sock.bind(("127.0.0.1", 0))
if kind == "udp":
    try:
        sock.setsockopt(socket.SOL_SOCKET, 33, 1 << 24) # SO_RCVBUFFORCE: everything fits
    except PermissionError:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    stream.add_udp_reader(sock, 65536)
else:
    sock.listen()
    stream.add_tcp_reader(sock, 1 << 22)
print(sock.getsockname()[1], flush=True)
group = spead2.ItemGroup()
x, good = 1, 0
for heap in stream:
    group.update(heap)
    wanted = []
    for i in range(50000):
        x = 48271 * x % 0x7fffffff
        wanted.append(x)
    good += np.array_equal(group["Test item 0"].value, np.array(wanted))
print("good", good, flush=True)
"#;

#[test]
fn the_python_package_sends_and_receives_the_same_heaps() {
    let Some(python) = python::interpreter() else { return };
    // Packets of 56 B bring 8 B each: fewer of them, so that the socket's buffer has room for all.
    for (kind, size, count) in [
        ("udp", 1472, 50_000),
        ("udp", 56, 10_000),
        ("udp", 65_507, 50_000),
        ("tcp", 1472, 50_000),
        ("tcp", 65_507, 50_000),
    ] {
        let scheme = format!("spead+{kind}");
        let mut receiver =
            Service::start(&["receive", &format!("{scheme}://127.0.0.1:0"), "--verify", "--json"]);
        let port = receiver.udp_port();
        let sent = Command::new(&python)
            .arg("-c")
            .arg(SEND)
            .args([kind, &port.to_string(), &size.to_string(), &count.to_string()])
            .status();
        assert!(sent.unwrap().success());
        let said = receiver.end();
        let s = said.summary();
        assert_eq!(
            (said.code, &s["heaps"]["received"], &s["heaps"]["wrong"]),
            (0, &4.into(), &0.into()),
            "{kind} {size}: {s}"
        );
    }
    // A heap on TCP as one packet: spead2 takes it if its largest packet is set high enough.
    for (kind, keys) in [
        ("udp", "burst=8KiB"),
        ("udp", "packet=8972B&burst=16KiB"),
        ("tcp", "packet=1472B"),
        ("tcp", "framing=heap"),
    ] {
        let mut child = Command::new(&python)
            .arg("-c")
            .arg(RECV)
            .arg(kind)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let to = format!("spead+{kind}://127.0.0.1:{}?{keys}", lines.next().unwrap());
        let words = ["--heap-size", "200kB", "--heaps", "4", "--verify", "--rate", "160Mbps"];
        let sent = say(&[&["send", "--source", "heaps", "--to", &to], &words[..]].concat());
        assert_eq!(sent.code, 0, "{}", sent.err);
        assert_eq!(lines.next().as_deref(), Some("good 4"), "{to}");
        child.wait().unwrap();
    }
}
