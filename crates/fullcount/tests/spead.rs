//! SPEAD from the command line: heaps over UDP, TCP and captures, carried readouts, spead2's options, and the Python package spead2
//! at the other end in both directions.

use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use fullcount_testing::veth::{RECEIVER, Veth};
use serde_json::Value;
use socket2::{Domain, Protocol, Socket, Type};

use crate::python;
use crate::service::{Said, Service, fullcount, say};

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
        ("spead+tcp://127.0.0.1:{}?sequence=1", "spead+tcp://127.0.0.1:{}?bind=127.0.0.1"),
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

/// Payload bytes of all frames that come into the receiver's namespace for a port, as its interface has them.
struct Tap {
    over: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Tap {
    fn begin(veth: &Veth, port: u16) -> Tap {
        let all = i32::from(0x0003u16.to_be());
        let socket = veth.receiving(|| {
            Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(all))).unwrap()
        });
        // Who makes namespaces may ask for more than the host's limit: every frame fits.
        fullcount_io::sys::force_receive_buffer(socket.as_fd(), 32 << 20).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let ended = over.clone();
        let thread = std::thread::spawn(move || {
            let (mut frame, mut bytes) = (vec![0; 1 << 17], 0);
            loop {
                // What was queued when the end was told is read before.
                let last = ended.load(Relaxed);
                match (&socket).read(&mut frame) {
                    Ok(n) => bytes += payload(&frame[..n], port),
                    Err(_) if last => return bytes,
                    Err(_) => {}
                }
            }
        });
        Tap { over, thread }
    }

    fn end(self) -> u64 {
        self.over.store(true, Relaxed);
        self.thread.join().unwrap()
    }
}

/// Bytes behind the headers of a frame with IPv4 and UDP or TCP to this port; 0 of others.
fn payload(frame: &[u8], port: u16) -> u64 {
    let u16_at = |at: usize| frame.get(at..at + 2).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]));
    if u16_at(12) != 0x0800 || frame.len() < 34 {
        return 0;
    }
    let ip = usize::from(frame[14] & 15) * 4;
    let head = match frame[23] {
        17 => 8,
        6 => usize::from(frame.get(14 + ip + 12).copied().unwrap_or(0) >> 4) * 4,
        _ => return 0,
    };
    let mine = u16_at(14 + ip + 2) == port;
    if mine { u64::from(u16_at(16)).saturating_sub((ip + head) as u64) } else { 0 }
}

#[test]
fn transport_bytes_are_those_of_the_frames_on_the_link() {
    let Some(veth) = Veth::new(9000, 1) else { return };
    let words = ["--heap-size", "200kB", "--heaps", "8", "--rate", "100Mbps", "--json"];
    for (scheme, keys) in [
        ("spead+udp", "?burst=16KiB"),
        ("spead+udp", "?packet=8900B&burst=16KiB"),
        ("spead+tcp", ""),
        ("spead+tcp", "?framing=heap"),
    ] {
        let framing = if keys.contains("framing") { keys } else { "" };
        let at = format!("{scheme}://{RECEIVER}:0{framing}");
        let mut receiver = veth.receiving(|| Service::start(&["receive", &at, "--json"]));
        let port = receiver.udp_port();
        let tap = Tap::begin(&veth, port);
        let to = format!("{scheme}://{RECEIVER}:{port}{keys}");
        let all = [&["send", "--to", &to, "--source", "heaps"], &words[..]].concat();
        let sent = veth.sending(|| fullcount(&all).output()).unwrap();
        assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
        let received = receiver.end();
        assert_eq!(received.code, 0, "{}", received.err);
        let seen = tap.end();
        let bytes: serde_json::Value = serde_json::from_slice(&sent.stdout).unwrap();
        let of = |name: &str| bytes["bytes"][name].as_u64().unwrap_or(0);
        assert!(of("payload") >= 8 * 200_000 && of("spead") > of("payload"), "{bytes}");
        assert_eq!(of("transport"), seen - of("segments_again"), "{scheme} {keys}: {bytes}");
        if scheme == "spead+tcp" {
            assert_eq!(of("segments"), seen, "{keys}: {bytes}");
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

#[test]
fn a_readout_is_carried_and_every_packet_accounted_for() {
    for (scheme, keys) in [("spead+udp", ""), ("spead+tcp", ""), ("spead+tcp", "?framing=heap")] {
        let from = format!("{scheme}://127.0.0.1:0{keys}");
        let mut run = Service::start(&[
            "run",
            "--source",
            &from,
            "--detector",
            "sequence",
            "--sink",
            "null",
            "--web",
            "off",
            "--json",
        ]);
        let port = run.wait_for("the port", |line| {
            let rest = line.split_once("listening on ")?.1;
            rest.rsplit(':').next()?.parse::<u16>().ok()
        });
        let to = format!("{scheme}://127.0.0.1:{port}{keys}");
        let sent = say(&[
            "send", "--to", &to, "--count", "2000", "--size", "900", "--rate", "5kpps", "--json",
        ]);
        assert_eq!(sent.code, 0, "{}", sent.err);
        let ran = run.end();
        let s = ran.summary();
        assert_eq!((ran.code, &s["balance"]), (0, &0.into()), "{from}: {}", ran.out);
        assert_eq!(s["packets"]["accepted"], 2000, "{s}");
        assert_eq!(s["counters"]["carrier.no_item"], 0);
    }
}

#[test]
fn wrong_options_end_with_2_and_a_sentence() {
    for (words, part) in [
        (&["receive", "spead+udp://127.0.0.1:1?max_heaps=0"][..], "1 to 4096"),
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
        (&["spead2", "recv", "--tcp", "--bind", "127.0.0.1", "127.0.0.1:1"], "bind"),
    ] {
        let said = say(words);
        assert!(said.code == 2 && said.err.contains(part), "{words:?}: {} {}", said.code, said.err);
    }
}

/// What of the equivalent command says `key=value`.
fn has(command: &str, keys: &[&str]) {
    let missing: Vec<_> = keys.iter().filter(|key| !command.contains(**key)).collect();
    assert!(missing.is_empty(), "{missing:?}: {command}");
}

#[test]
fn every_option_of_the_front_ends_stands_in_the_printed_command_and_has_an_effect() {
    let words = ["--tcp", "--bind", "127.0.0.1", "--pyspead", "--descriptors", "--ring-heaps", "7"];
    let pool = ["--mem-pool", "--mem-lower", "1", "--mem-upper", "4096", "--mem-initial", "3"];
    let mut recv = Service::start(&[&["spead2", "recv"][..], &words, &pool, &["0"]].concat());
    let port = recv.udp_port();
    let to = format!("127.0.0.1:{port}");
    let words = ["--tcp", "--bind", "127.0.0.1", "--pyspead", "--heaps", "3", "--heap-size", "40"];
    let sent = say(&[&["spead2", "send"][..], &words, &[&to]].concat());
    assert_eq!(sent.code, 0, "{}", sent.err);
    has(&sent.err, &["&pyspead", "&bind=127.0.0.1"]);
    let said = recv.end();
    assert_eq!(said.code, 0, "{}", said.err);
    let keys = ["pool=12", "pool_lower=1B", "pool_upper=4096B", "pool_initial=3", "ring_heaps=7"];
    has(&said.err, &keys);
    has(&said.err, &["&pyspead", "spead+tcp://127.0.0.1:0", "3 free blocks"]);
    has(&said.out, &["Received 3 heaps", "Descriptor for Test item 0 (0x1000)"]);
}

/// Statistics of `spead2 recv` by name.
fn statistic(out: &str, name: &str) -> u64 {
    let line = out.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    line.unwrap_or_else(|| panic!("no {name}: {out}")).parse().unwrap()
}

#[test]
fn the_front_ends_take_spead2s_options_and_print_its_lines() {
    for tcp in [&[][..], &["--tcp"]] {
        let mut recv = Service::start(
            &[&["spead2", "recv", "--descriptors", "--verify", "127.0.0.1:0"], tcp].concat(),
        );
        let port = recv.udp_port();
        let to = format!("127.0.0.1:{port}");
        let words =
            ["--heaps", "3", "--heap-size", "40", "--items", "3", "--verify", "--rate", "0.1", &to];
        let sent = say(&[&["spead2", "send"], tcp, &words[..]].concat());
        assert!(
            sent.err.contains("using 36 instead of 40")
                && sent.err.contains("fullcount send --source heaps")
        );
        let bytes: u64 = sent.out.split(' ').nth(1).unwrap().parse().unwrap();
        assert!(
            sent.out.starts_with("Sent ")
                && sent.out.contains(" seconds, ")
                && sent.out.trim_end().ends_with(" Gb/s")
        );
        assert!(bytes > 300);
        let said = recv.end();
        assert_eq!(said.code, 0, "{}", said.err);
        assert!(said.err.contains("fullcount receive 'spead+"), "{}", said.err);
        for line in [
            "Received heap 1 at ",
            "Descriptor for Test item 2 (0x1002)",
            "  description: A test item with arbitrary value",
            "0x1000 = [12 bytes]",
            "Received 3 heaps",
            "heaps: 3",
            "single_packet_heaps: ",
        ] {
            assert!(said.out.contains(line), "{line}: {}", said.out);
        }
        assert_eq!(
            (statistic(&said.out, "heaps"), statistic(&said.out, "incomplete_heaps_flushed")),
            (3, 0)
        );
    }
}

/// Numbers 13 and 14 of what users of spead2 meet: its sender has `--addr-bits` in the stop heap alone, and its receiver checks nothing with
/// `--ring`, and takes the descriptors of a second destination's first heap for data.
#[test]
fn every_heap_has_the_addresses_asked_for_and_values_are_checked_with_a_ring_and_at_each_destination()
 {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let to = socket.local_addr().unwrap().to_string();
    let words = ["--addr-bits", "48", "--heaps", "3", "--heap-size", "4000", "--rate", "0.1"];
    let sent = say(&[&["spead2", "send"], &words[..], &[&to]].concat());
    assert_eq!(sent.code, 0, "{}", sent.err);
    let (mut heaps, mut packet) = (std::collections::BTreeSet::new(), [0; 9000]);
    while heaps.len() < 4 {
        let many = socket.recv(&mut packet).expect("the next heap");
        // 16 bits of id, 48 of addresses; the heap's number is the first item.
        assert!(many > 16 && packet[..4] == [0x53, 4, 2, 6], "{:?}", &packet[..8]);
        heaps.insert(packet[10..16].to_vec());
    }
    let mut receivers = [&["--ring"][..], &[]].map(|ring| {
        let words = [&["spead2", "recv", "--verify", "--quiet"], ring, &["127.0.0.1:0"]].concat();
        Service::start(&words)
    });
    let ports = [receivers[0].udp_port(), receivers[1].udp_port()];
    let to = ports.map(|port| format!("127.0.0.1:{port}"));
    let words = ["--verify", "--heaps", "6", "--heap-size", "4000", "--rate", "0.1"];
    let sent = say(&[&["spead2", "send"], &words[..], &[&to[0], &to[1]]].concat());
    assert_eq!(sent.code, 0, "{}", sent.err);
    for receiver in receivers {
        let said = receiver.end();
        assert_eq!(said.code, 0, "{}", said.err);
        assert!(said.out.contains("Received 3 heaps"), "{}", said.out);
    }
    // One that has other values is told, with a ring as well.
    for ring in [&["--ring"][..], &[]] {
        let words = [&["spead2", "recv", "--verify", "--quiet"], ring, &["127.0.0.1:0"]].concat();
        let mut receiver = Service::start(&words);
        let to = format!("127.0.0.1:{}", receiver.udp_port());
        let words = ["--heaps", "2", "--heap-size", "4000", "--rate", "0.1", &to];
        let sent = say(&[&["spead2", "send"], &words[..]].concat());
        assert_eq!(sent.code, 0, "{}", sent.err);
        let said = receiver.end();
        assert_eq!(said.code, 1, "{ring:?}: {}{}", said.out, said.err);
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
