//! The simplified TCP live, as a person runs it: `lab stcp sweep`, `streams`, `backpressure`, `soak` and `realtime` in short, `send --to
//! stcp://` into a plain Linux socket, also by a user without any capability. Needs root and iproute2.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use fullcount_testing::veth::{NAME, RECEIVER, Veth};
use serde_json::Value;

use crate::service::{PATIENCE, Service, fullcount, say, until_counter};
use crate::stcp_tshark::{AGAIN, LIVE, unexpected};

/// True after printing why, if namespaces cannot be made; fails in CI.
pub fn skipped() -> bool {
    let Some(why) = fullcount_lab::namespace::lacking() else { return false };
    assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "CI needs namespaces: {why}");
    println!("skipped: {why}");
    true
}

/// A campaign with these words: its exit code, its lines, and what it said.
pub fn rows(words: &[&str]) -> (i32, Vec<Value>, String) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let said = say(&[&["lab", "stcp"][..], words, &["--json", "--out", out]].concat());
    assert!(said.code <= 1, "{words:?}: {}", said.err);
    let s = said.summary();
    assert_eq!(s["schema"], "fullcount/result/1", "{}", said.err);
    (said.code, s["rows"].as_array().unwrap().clone(), said.err)
}

/// A try that a busy host spoilt is repeated.
pub const TRIES: usize = 5;

#[test]
fn every_sender_carries_fragments_to_linux() {
    if skipped() {
        return;
    }
    let names = "offload,short-units,small-pages,frames,xdp,tap,tap-frames,linux,linux-nodelay";
    let words = ["sweep", "--links", "none", "--sizes", "16,2048", "--repeats", "1"];
    let words = [&words[..], &["--time", "200ms", "--senders", names]].concat();
    let mut tries = (0..TRIES).map(|_| {
        let (_, rows, _) = rows(&words);
        assert_eq!(rows.len(), 18, "{rows:?}");
        rows
    });
    let carried = |row: &Value| row["gbps"].as_f64().unwrap() > 0.0;
    assert!(tries.any(|rows| rows.iter().all(carried)), "nothing in 0.2 s, each time");
}

/// Streams of the simplified TCP into every reader, the whole program among them: each event complete and in order, nothing lost.
#[test]
fn every_sender_fills_the_readout_unit() {
    if skipped() {
        return;
    }
    for sender in ["offload", "xdp", "tap-frames"] {
        let words = ["readout", "--sender", sender, "--streams", "3", "--fragment", "5000"];
        let more = ["--crc-every", "1", "--time", "100ms", "--repeats", "1", "--mtu", "1500"];
        let (_, rows, err) = rows(&[&words[..], &more].concat());
        assert_eq!(rows.len(), 5, "{sender}: {err}");
        for row in &rows {
            assert!(row["gbps"].as_f64().unwrap() > 0.0, "{sender}: {row}");
        }
    }
}

#[test]
fn a_limited_link_and_several_streams() {
    if skipped() {
        return;
    }
    let words = ["streams", "--link", "500Mbps", "--streams", "1,4", "--senders", "frames,linux"];
    let words = [&words[..], &["--repeats", "1", "--time", "500ms"]].concat();
    let mut tries = (0..TRIES).map(|_| {
        let (_, rows, _) = rows(&words);
        assert_eq!(rows.len(), 4);
        let gbps: Vec<f64> = rows.iter().map(|row| row["gbps"].as_f64().unwrap()).collect();
        assert!(gbps.iter().all(|gbps| *gbps < 0.56), "the link is limited: {rows:?}");
        gbps
    });
    assert!(tries.any(|gbps| gbps.iter().all(|gbps| *gbps > 0.1)), "a fifth of the link");
}

#[test]
fn a_source_sees_that_the_buffer_is_full_and_nothing_is_lost() {
    if skipped() {
        return;
    }
    let words = ["backpressure", "--time", "2s", "--rate", "400Mbps", "--buffer", "256KiB"];
    let mut tries = (0..TRIES).map(|_| {
        let (code, rows, _) = rows(&words);
        let row = &rows[0];
        let of = |name: &str| row[name].as_u64().unwrap();
        assert!(of("busy") > 0 && of("throttled_fragments") > 0, "{row}");
        assert!(row["seen_after_us"]["p99"].as_f64().unwrap() > 0.0, "{row}");
        assert_eq!(row["bytes"], row["read_and_compared"]);
        code
    });
    assert!(tries.any(|code| code == 0), "the source sees it later than a millisecond");
}

#[test]
fn every_byte_is_right_over_a_bad_link() {
    if skipped() {
        return;
    }
    let fault = "loss=0.005,duplicate=0.01,swap=0.01,delay=0.005,by=4,seed=5";
    let words = ["soak", "--bytes", "50MB", "--sender", "frames", "--fault", fault];
    let (code, rows, err) = rows(&[&words[..], &["--streams", "2"]].concat());
    assert_eq!(code, 0, "{err}");
    assert_eq!(rows[0]["bytes"], rows[0]["read_and_compared"]);
    assert!(rows[0]["again_bytes"].as_u64().unwrap() > 0, "{}", rows[0]);
}

#[test]
fn the_congestion_experiment_runs_in_real_time() {
    if skipped() {
        return;
    }
    let words = ["realtime", "--variants", "simplified", "--part-time", "1s"];
    let mut tries = (0..TRIES).map(|_| {
        let (code, rows, err) = rows(&words);
        assert_eq!((code, rows.len()), (0, 1), "{err}");
        rows[0]["before"]["useful_gbps"].as_f64().unwrap()
    });
    assert!(tries.any(|gbps| gbps > 0.05), "a quarter of what is offered");
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_made() {
    for (words, parts) in [
        (&["sweep", "--senders", "dpdk"][..], ["senders", "offload"]),
        (&["sweep", "--sizes", "0"], ["sizes", "half of the send buffer"]),
        (&["sweep", "--mtu", "9001"], ["mtu", "9000"]),
        (&["sweep", "--buffer", "3MB"], ["buffer", "power of two"]),
        (&["sweep", "--links", "10"], ["links", "10"]),
        (&["sweep", "--repeats", "0"], ["repeats", "1 to 1000"]),
        (&["streams", "--streams", "300"], ["streams", "256"]),
        (&["backpressure", "--reader", "0"], ["reader", "above 0"]),
        (&["backpressure", "--sender", "linux"], ["sender", "offload"]),
        (&["soak", "--fault", "eat=1"], ["fault", "eat"]),
        (&["soak", "--time", "1ms"], ["time", "100ms"]),
        (&["realtime", "--variants", "cubic"], ["variants", "simplified"]),
    ] {
        let said = say(&[&["lab", "stcp"][..], words].concat());
        assert_eq!(said.code, 2, "{words:?}: {}", said.err);
        assert!(parts.iter().all(|p| said.err.contains(p)), "{words:?}: {}", said.err);
    }
    for (url, part) in [
        ("stcp://10.0.0.2:5000", "interface"),
        ("stcp://10.0.0.2:5000?interface=v0", "address"),
        ("stcp://10.0.0.2:5000?interface=v0&address=10.0.0.9&mtu=9001", "mtu"),
        ("stcp://nobody:5000?interface=v0&address=10.0.0.9", "IPv4"),
    ] {
        let said = say(&["send", "--to", url, "--count", "1"]);
        assert_eq!(said.code, 2, "{url}: {}", said.err);
        assert!(said.err.contains(part), "{url}: {}", said.err);
    }
    let said = say(&["send", "--to", "udp://127.0.0.1:9", "--frames-to", "x.pcap", "--count", "1"]);
    assert!(said.code == 2 && said.err.contains("frames-to"), "{}", said.err);
}

#[test]
fn the_page_has_the_keys_of_the_destination() {
    let kinds = say(&["catalogue", "--kinds", "--json"]).summary();
    let stcp = kinds["destinations"].as_array().unwrap().iter().find(|k| k["name"] == "stcp");
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/stcp.md");
    let page = std::fs::read_to_string(page).unwrap();
    for key in stcp.unwrap()["keys"].as_array().unwrap() {
        let of = |name: &str| key[name].as_str().unwrap();
        let row = format!(
            "| `{}` | {} | {} | {} |",
            of("key"),
            of("allowed"),
            of("default"),
            of("about")
        );
        assert!(page.contains(&row), "docs/stcp.md lacks: {row}");
    }
}

/// Reads a connection to its end: how many bytes, and how it ended.
fn drain(listener: &TcpListener, pause: Duration) -> (Vec<u8>, Option<std::io::ErrorKind>) {
    let (mut stream, _) = listener.accept().unwrap();
    thread::sleep(pause);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut all, mut buffer) = (vec![], vec![0; 1 << 16]);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return (all, None),
            Ok(n) => all.extend_from_slice(&buffer[..n]),
            Err(e) => return (all, Some(e.kind())),
        }
    }
}

#[test]
fn packets_of_send_reach_a_plain_socket_and_the_source_waits_for_a_slow_one() {
    let Some(veth) = Veth::new(9000, 1) else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sent.pcap");
    let listener = veth.receiving(|| TcpListener::bind((RECEIVER, 5000)).unwrap());
    let reader = thread::spawn(move || drain(&listener, Duration::from_millis(1500)));
    let to = format!(
        "stcp://{RECEIVER}:5000?interface={NAME}&address=10.77.0.9&framing=u32be&buffer=128KiB"
    );
    let words = ["send", "--to", &to, "--count", "4000", "--size", "1000", "--json"];
    let begun = Instant::now();
    let out = veth
        .sending(|| {
            let mut command = fullcount(&words);
            command.args(["--frames-to", file.to_str().unwrap()]).output()
        })
        .unwrap();
    let err = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{err}");
    assert!(begun.elapsed() > Duration::from_secs(1), "the source waits for the reader");
    let s: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(s.pointer("/packets/sent").and_then(Value::as_u64), Some(4000), "{s}");
    // While the reader stands still all is above the high mark: the source is told so, and the report says how often and how long.
    let held = s.pointer("/destinations/0/held").expect("it can be told");
    assert!(held["times"].as_u64() >= Some(1) && held["seconds"].as_f64() > Some(0.5), "{s}");
    assert!(err.contains("told to hold "), "{err}");
    let (bytes, end) = reader.join().unwrap();
    assert_eq!(end, Some(std::io::ErrorKind::ConnectionReset));
    let (mut at, mut packets) = (0, 0);
    while at < bytes.len() {
        let length = u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        assert!(length <= 1000, "{length}");
        (at, packets) = (at + 4 + length, packets + 1);
    }
    assert!(packets >= 4000, "{packets}");
    // A reader that stands still delays its ACKs beyond the least retransmission time of 5 ms.
    if let Some(none) = unexpected(&file, &[&LIVE, &AGAIN]) {
        assert!(none.is_empty(), "{none:#?}");
    }
}

/// `send` in the sender's namespace as this user, without capabilities, groups and the way to get them. `/dev/net/tun` and the program
/// are where the user may reach them: in a mount namespace of its own, so that the host's stay as they are.
const ROOTLESS: &str = r#"set -e
mount -t tmpfs -o mode=755 tmpfs /mnt
touch /mnt/fullcount
mount --bind "$1" /mnt/fullcount
mknod -m 666 /mnt/tun c 10 200
mount --bind /mnt/tun /dev/net/tun
cd /
user=$2
shift 2
exec setpriv --reuid=$user --regid=$user --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs \
    sh -c 'grep CapEff /proc/self/status >&2; exec /mnt/fullcount "$@"' sh "$@""#;

#[test]
fn a_user_without_capabilities_sends_over_a_tap_device_that_is_his() {
    const OWNER: &str = "65534";
    let Some(veth) = Veth::new(9000, 1) else { return };
    let tap = ["tuntap", "add", "dev", "fctap", "mode", "tap", "user", OWNER];
    let said = veth.run(true, &[&["ip"][..], &tap].concat());
    if !said.is_empty() {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "CI needs TAP devices: {said}");
        println!("skipped: a TAP device: {said}");
        return;
    }
    veth.run(true, &["ip", "link", "set", "fctap", "mtu", "9000", "up"]);
    veth.run(true, &["ip", "address", "add", "10.78.0.2/24", "dev", "fctap"]);
    let listener = veth.sending(|| TcpListener::bind(("10.78.0.2", 5000)).unwrap());
    let url = "stcp://10.78.0.2:5000?interface=fctap&driver=tap&address=10.78.0.9";
    let send = |user: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", ROOTLESS, "sh"]);
        command.args([env!("CARGO_BIN_EXE_fullcount"), user, "send", "--to", url]);
        command.args(["--count", "4000", "--size", "1000"]);
        let out = veth.sending(|| command.output()).unwrap();
        let err = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(err.contains("CapEff:\t0000000000000000"), "{err}");
        (out.status.code(), err)
    };
    let (code, err) = send("65533");
    assert!(code == Some(1) && err.contains("may not open the TAP device"), "{code:?} {err}");
    let reader = thread::spawn(move || drain(&listener, Duration::ZERO));
    let (code, err) = send(OWNER);
    assert_eq!(code, Some(0), "{err}");
    let (bytes, end) = reader.join().unwrap();
    assert_eq!(end, Some(std::io::ErrorKind::ConnectionReset));
    assert!(bytes.len() >= 4_000_000, "{} bytes", bytes.len());
}

#[test]
fn send_says_why_there_is_no_connection_and_ctrl_c_resets() {
    let Some(veth) = Veth::new(9000, 1) else { return };
    let url = |port: u16| {
        format!("stcp://{RECEIVER}:{port}?interface={NAME}&address=10.77.0.9&buffer=128KiB")
    };
    let refused = veth.sending(|| fullcount(&["send", "--to", &url(1), "--count", "1"]).output());
    let refused = refused.unwrap();
    let err = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{err}");
    assert!(err.contains("nobody listens"), "{err}");
    // Nobody reads: the sender waits, until it is asked to end.
    let listener = veth.receiving(|| TcpListener::bind((RECEIVER, 5001)).unwrap());
    let to = url(5001);
    let mut sender = veth.sending(|| fullcount(&["send", "--to", &to]).spawn()).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    thread::sleep(Duration::from_millis(500));
    let pid = sender.id().to_string();
    Command::new("kill").args(["-INT", &pid]).status().unwrap();
    let code = sender.wait().unwrap().code();
    assert!(code == Some(1) || code == Some(3), "{code:?}");
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut buffer = vec![0; 1 << 16];
    let end = loop {
        match stream.read(&mut buffer) {
            Ok(n) if n > 0 => {}
            other => break other,
        }
    };
    assert_eq!(end.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
}

/// One of three connections is reset by the receiver: exit code 3, the stream and the reason are named, the others get the rest.
/// What has no congestion control says so.
#[test]
fn send_goes_on_without_a_stream_that_ended() {
    let Some(veth) = Veth::new(9000, 1) else { return };
    let listener = veth.receiving(|| TcpListener::bind((RECEIVER, 5000)).unwrap());
    let reader = thread::spawn(move || {
        let (first, _) = listener.accept().unwrap();
        let others = [(); 2].map(|()| listener.accept().unwrap().0);
        let refused = thread::spawn(move || {
            let mut first = first;
            first.read_exact(&mut [0; 100_000]).unwrap();
            socket2::SockRef::from(&first).set_linger(Some(Duration::ZERO)).unwrap();
        });
        let others = others.map(|mut stream| {
            thread::spawn(move || {
                let (mut all, mut buffer) = (0, vec![0; 1 << 16]);
                while let Ok(n @ 1..) = stream.read(&mut buffer) {
                    all += n;
                }
                all
            })
        });
        refused.join().unwrap();
        others.map(|other| other.join().unwrap()).iter().sum::<usize>()
    });
    let to = format!(
        "stcp://{RECEIVER}:5000?interface={NAME}&address=10.77.0.9&streams=3&strategy=none&buffer=1MiB"
    );
    let words = ["send", "--to", &to, "--count", "200000", "--size", "1000", "--json"];
    let out = veth.sending(|| fullcount(&words).output()).unwrap();
    let err = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(3), "{err}");
    let parts = ["strategy=none has no congestion control", "the connection from port 1", "go on"];
    assert!(parts.iter().all(|part| err.contains(part)), "{err}");
    let s: Value = serde_json::from_slice(&out.stdout).unwrap();
    let one = &s["destinations"][0];
    let failed = one["packets"]["failed"].as_u64().unwrap();
    assert!(failed > 0 && one["failure"].as_str().unwrap().contains("reset"), "{one}");
    let streams = one["streams"].as_array().unwrap();
    let of = |stream: &Value, name: &str| stream[name].as_u64().unwrap();
    let (gone, there): (Vec<&Value>, Vec<&Value>) =
        streams.iter().partition(|stream| stream.get("ended").is_some());
    assert_eq!((gone.len(), there.len()), (1, 2), "{one}");
    assert_eq!(of(gone[0], "packets_unacknowledged"), failed);
    let sent: u64 = there.iter().map(|stream| of(stream, "acked_bytes")).sum();
    assert_eq!(reader.join().unwrap() as u64, sent);
    for stream in there {
        assert!(of(stream, "srtt_ns") > 0 && of(stream, "rto_ns") > 0, "{stream}");
        assert!(of(stream, "window_least_bytes") <= of(stream, "window_most_bytes"), "{stream}");
        let latencies = ["latency_p50_ns", "latency_p99_ns", "latency_most_ns"];
        assert!(latencies.map(|name| of(stream, name)).is_sorted(), "{stream}");
    }
}

/// The readout unit in the receiver's namespace, for so many sources; it ends when all senders have. And its port.
pub fn unit(veth: &Veth, sources: usize, more: &[&str]) -> (Service, String) {
    let source = format!("tcp://{RECEIVER}:0?until=closed");
    let sources = format!("detector.sources={sources}");
    let mut words = vec!["run", "--source", &source, "--detector", "fragments", "--web", "off"];
    words.extend(["--set", &sources, "--json"]);
    words.extend(more);
    let mut unit = veth.receiving(|| Service::start(&words));
    let port = unit.wait_for("the socket", |line| {
        let address = line.strip_prefix("listening on ")?.split(',').next()?;
        Some(address.rsplit(':').next()?.to_owned())
    });
    unit.wait_for("the detector", |line| line.starts_with("detector ").then_some(()));
    (unit, port)
}

/// A sender of fragments with an address of its own.
fn fragments(veth: &Veth, port: &str, address: u8, more: &[&str]) -> Service {
    let to = format!(
        "stcp://{RECEIVER}:{port}?interface={NAME}&address=10.77.0.{address}&buffer=128KiB"
    );
    let words = [&["send", "--to", &to, "--source", "fragments", "--json"][..], more].concat();
    veth.sending(|| Service::start(&words))
}

/// Statement 60 of `docs/formats/simplified-tcp.md`.
#[test]
fn s60_the_readout_unit_builds_all_events_and_a_paused_source_holds_the_others() {
    let Some(veth) = Veth::new(9000, 1) else { return };
    let (mut all, port) = unit(&veth, 8, &["--sink", "null"]);
    let mut sent = fragments(&veth, &port, 9, &["--sources", "8", "--count", "800"]);
    assert!(sent.child.ended(PATIENCE).unwrap());
    let sent = sent.end();
    assert_eq!(sent.code, 0, "{}", sent.err);
    assert!(all.child.ended(PATIENCE).unwrap(), "{:?}", all.seen());
    let built = all.end();
    let of = |name: &str| built.counter(name);
    assert_eq!((built.code, of("events.count"), of("events.incomplete")), (0, 100, 0));
    assert_eq!((of("fragments.lost"), of("fragments.wrong_crc")), (0, 0), "{}", built.err);

    let more = ["--sink", "null", "--set", "detector.memory=1MiB", "--control", "127.0.0.1:0"];
    let (mut held, port) = unit(&veth, 8, &more);
    let control = held.control();
    let mut control = veth.receiving(|| TcpStream::connect(control).unwrap());
    let start = |n: u8| {
        let source = n.to_string();
        let words = ["--sources", "1", "--first-source", &source, "--count", "10000"];
        fragments(&veth, &port, 10 + n, &[&words[..], &["--fragment-size", "4080"]].concat())
    };
    let senders: Vec<Service> = (0..8).map(start).collect();
    let signal = |which: &str| {
        let pid = senders[3].child.id().to_string();
        assert!(Command::new("kill").args([which, &pid]).status().unwrap().success());
    };
    signal("-STOP");
    // Somewhere in its stream, or before it; the others fill the unit's memory, then the kernel's buffers, then their own.
    until_counter(&mut control, "merge.pauses", 7);
    thread::sleep(Duration::from_millis(1500));
    signal("-CONT");
    for (n, mut sender) in senders.into_iter().enumerate() {
        assert!(sender.child.ended(PATIENCE).unwrap(), "{n}: {:?}", sender.seen());
        let said = sender.end();
        assert_eq!(said.code, 0, "{n}: {}", said.err);
        // Without the pause a sender of 40.8 MB is held for well below a tenth of a second.
        let held = &said.summary()["destinations"][0]["held"];
        let waited = held["seconds"].as_f64().unwrap_or(0.0);
        assert!(n == 3 || waited > 0.5, "{n} was not held back: {held}");
    }
    assert!(held.child.ended(PATIENCE).unwrap(), "{:?}", held.seen());
    let built = held.end();
    let of = |name: &str| built.counter(name);
    assert_eq!((built.code, of("events.count"), of("events.incomplete")), (0, 10_000, 0));
    assert_eq!((of("fragments.lost"), of("fragments.wrong_crc")), (0, 0), "{}", built.err);
}

/// `kill -9` leaves a connection that the kernel of the unit thinks is open: nothing is sent to end it.
#[test]
fn a_killed_sender_that_comes_back_from_its_port_lost_what_it_left_out_and_nobody_elses() {
    let Some(veth) = Veth::new(9000, 1) else { return };
    let more = ["--sink", "null", "--control", "127.0.0.1:0"];
    let (mut unit, port) = unit(&veth, 8, &more);
    let control = unit.control();
    let mut control = veth.receiving(|| TcpStream::connect(control).unwrap());
    let start = |n: u8, more: &[&str]| {
        let source = n.to_string();
        let words = ["--sources", "1", "--first-source", &source, "--rate", "5kev/s"];
        fragments(&veth, &port, 10 + n, &[&words[..], more].concat())
    };
    let mut senders: Vec<Service> = (0..8).map(|n| start(n, &["--count", "10000"])).collect();
    until_counter(&mut control, "fragments.source.3.count", 200);
    let mut killed = senders.remove(3);
    let pid = killed.child.id().to_string();
    assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    assert!(killed.child.ended(PATIENCE).unwrap());
    senders.push(start(3, &["--first-event", "6000", "--count", "4000"]));
    for mut sender in senders {
        assert!(sender.child.ended(PATIENCE).unwrap(), "{:?}", sender.seen());
        let said = sender.end();
        assert_eq!(said.code, 0, "{}", said.err);
    }
    assert!(unit.child.ended(PATIENCE).unwrap(), "{:?}", unit.seen());
    let built = unit.end();
    let of = |name: &str| built.counter(name);
    let lost = of("fragments.lost");
    assert_eq!((built.code, of("events.count")), (3, 10_000), "{}", built.err);
    assert!((1..=5800).contains(&lost), "{lost}");
    let of_source = |n: usize| of(&format!("fragments.source.{n}.lost"));
    assert_eq!((of("events.incomplete"), of_source(3)), (lost, lost));
    assert!((0..8).filter(|n| *n != 3).all(|n| of_source(n) == 0), "{}", built.err);
    assert_eq!(of("fragments.source.3.count") + lost, 10_000);
}
