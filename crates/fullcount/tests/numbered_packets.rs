//! `send` and `receive` with numbered packets: counts that must be exact.
//!
//! If none may be lost, everything that a sender sends fits into the receiver's socket buffer (into half of it with two
//! threads, which drop above that): no pause of a thread on a busy host can then lose one.

use crate::service;
use crate::service::{PATIENCE, Service, get, say};

fn through(send: &[&str], receive: &[&str]) -> (service::Said, service::Said) {
    let mut arguments = vec!["receive", "udp://127.0.0.1:0", "--json"];
    arguments.extend(receive);
    let mut receiver = Service::start(&arguments);
    let to = format!("udp://127.0.0.1:{}", receiver.udp_port());
    let mut arguments = vec!["send", "--to", &to, "--source", "sequence", "--json"];
    arguments.extend(send);
    let sent = say(&arguments);
    assert_eq!(sent.code, 0, "{}", sent.err);
    (sent, receiver.end())
}

#[test]
fn faults_in_a_million_packets_are_told_apart_exactly() {
    let fault = "drop=100,duplicate=100,swap=100,of=1000000,seed=7";
    // The kernel accounts 768 B to a packet of 128 B, and doubles the buffer that is asked for.
    let (sent, got) = through(
        &["--size", "128", "--count", "1000000", "--rate", "400kpps", "--fault", fault],
        &["--verify", "--receive-buffer", "512MiB"],
    );
    let s = got.summary();
    assert_eq!(sent.summary()["packets"]["sent"], 1_000_000);
    assert_eq!(got.counter("packets.lost"), 100, "{}", got.err);
    assert_eq!(s["packets"]["duplicate"], 100);
    assert_eq!(s["packets"]["reordered"], 100);
    assert_eq!(s["packets"]["late"], 0);
    assert_eq!(s["packets"]["restarts"], 0);
    assert_eq!(s["balance"], 0);
    assert_eq!(got.code, 3, "lost packets are exit code 3");
}

/// Sizes with packets of each, none of which may be lost: at most 20 MB, which the kernel accounts as up to twice that.
const FITTING: [(&str, &str); 6] = [
    ("24", "3000"),
    ("64", "3000"),
    ("1472", "3000"),
    ("1473", "3000"),
    ("8972", "2000"),
    ("65507", "300"),
];

#[test]
fn nothing_is_lost_at_a_modest_rate_for_small_middle_and_fragmented_sizes() {
    for (size, count) in FITTING {
        let (sent, got) = through(
            &["--size", size, "--count", count, "--rate", "20kpps"],
            &["--verify", "--threads", "2"],
        );
        assert_eq!(got.code, 0, "{size} B: {}", got.err);
        let (sent, got) = (sent.summary(), got.summary());
        assert_eq!(got["packets"]["accepted"], sent["packets"]["sent"], "{size} B");
        // End marks are received too, as many as came before the receiver ended.
        let (received, sent) = (&got["bytes"]["received"], &sent["bytes"]["sent"]);
        assert!(received.as_u64() > sent.as_u64(), "{size} B: {received} of {sent}");
        assert_eq!(got["per"], 0.0);
    }
}

#[test]
fn io_uring_receives_the_same_with_one_thread_and_with_two() {
    let one = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = one.local_addr().unwrap().port();
    // A port in use shows whether the engine is available: that is checked first.
    let asked = format!("udp://127.0.0.1:{port}");
    let told = say(&["receive", &asked, "--engine", "uring"]).err;
    if !told.contains("in use") {
        assert!(std::env::var_os("CI").is_none_or(|v| v != "true"), "{told}");
        println!("skipped: {told}");
        return;
    }
    for how in [&["--threads", "1"][..], &["--threads", "2"], &["--busy-poll"]] {
        for (size, count) in [FITTING[0], FITTING[2], FITTING[4]] {
            let receive = [&["--verify", "--engine", "uring"], how].concat();
            let (sent, got) =
                through(&["--size", size, "--count", count, "--rate", "20kpps"], &receive);
            assert_eq!(got.code, 0, "{size} B {how:?}: {}", got.err);
            let (sent, got) = (sent.summary(), got.summary());
            assert_eq!(got["packets"]["accepted"], sent["packets"]["sent"], "{size} B {how:?}");
            assert_eq!(got["balance"], 0);
        }
    }
}

#[test]
fn the_rate_is_payload_bits_and_the_wire_rate_stands_beside_it() {
    let (sent, _) = through(&["--size", "972", "--duration", "1s", "--rate", "100Mbps"], &[]);
    let s = sent.summary();
    let gbps = s["rates"]["gbps"].as_f64().unwrap();
    // Never faster than asked; how close it comes is the host's business and `fullcount lab`'s.
    assert!(gbps < 0.102, "{gbps}");
    // Nor less than was sent in the time: a wrong rate would show here. The lower bound of the pace is proved without a
    // clock, in `pace_tests.rs` of io.
    let (count, seconds) = (s["packets"]["sent"].as_f64().unwrap(), s["seconds"].as_f64().unwrap());
    let sent_gbps = count * 972.0 * 8.0 / seconds / 1e9;
    assert!(count >= 1.0 && (gbps / sent_gbps - 1.0).abs() < 1e-3, "{gbps} of {sent_gbps}");
    // 972 B + 8 + 20 + 14 + 4 + 20 = 1038 B on the wire.
    let wire = s["rates"]["wire_gbps"].as_f64().unwrap() / gbps;
    assert!((wire - 1038.0 / 972.0).abs() < 1e-3, "{wire}");
    let (sent, _) =
        through(&["--size", "972", "--duration", "1s", "--rate", "100Mbps", "--wire-rate"], &[]);
    let wire = sent.summary()["rates"]["wire_gbps"].as_f64().unwrap();
    assert!(wire > 0.0 && wire < 0.102, "{wire}");
}

#[test]
fn ipv6_works_like_ipv4() {
    let mut receiver = Service::start(&["receive", "udp://[::1]:0", "--json"]);
    let to = format!("udp://[::1]:{}", receiver.udp_port());
    let sent =
        say(&["send", "--to", &to, "--source", "sequence", "--count", "1000", "--rate", "50kpps"]);
    assert_eq!(sent.code, 0, "{}", sent.err);
    let got = receiver.end();
    assert_eq!((got.code, got.summary()["packets"]["accepted"].as_u64()), (0, Some(1000)));
}

#[test]
fn three_senders_with_the_same_stream_id_are_counted_apart() {
    let mut receiver = Service::start(&[
        "receive",
        "udp://127.0.0.1:0",
        "--verify",
        "--web",
        "127.0.0.1:0",
        "--json",
    ]);
    let (to, page) = (format!("udp://127.0.0.1:{}", receiver.udp_port()), receiver.page());
    // The first continues until the others have ended, as the receiver ends with its last stream.
    let first = Service::start(&["send", "--to", &to, "--rate", "2kpps", "--json"]);
    let end = std::time::Instant::now() + PATIENCE;
    let begun = |metrics: &str| {
        metrics.lines().any(|l| l.starts_with("fullcount_decode_streams") && l.ends_with(" 1"))
    };
    while !begun(&get(&page, "/metrics")) {
        assert!(std::time::Instant::now() < end, "{}", get(&page, "/metrics"));
    }
    let drop = "drop=10,of=4000,seed=3";
    let second =
        say(&["send", "--to", &to, "--rate", "20kpps", "--count", "4000", "--fault", drop]);
    let third = say(&["send", "--to", &to, "--rate", "20kpps", "--count", "3000"]);
    assert_eq!((second.code, third.code), (0, 0), "{}\n{}", second.err, third.err);
    first.interrupt();
    let first = first.end();
    let sent = first.summary()["packets"]["sent"].as_u64().unwrap() + 7000;
    let got = receiver.end();
    assert_eq!(got.counter("decode.streams"), 3, "{}", got.err);
    assert_eq!(got.counter("packets.announced"), sent);
    assert_eq!(got.counter("packets.lost"), 10);
    let s = got.summary();
    assert_eq!(s["packets"]["accepted"], sent - 10);
    for what in ["duplicate", "reordered", "late", "restarts"] {
        assert_eq!(s["packets"][what], 0, "{what}");
    }
    assert_eq!((s["balance"].as_u64(), got.code), (Some(0), 3));
}

#[test]
fn a_foreign_packet_beside_an_announced_stream_leaves_the_balance_alone() {
    let mut receiver = Service::start(&["receive", "udp://127.0.0.1:0", "--json"]);
    let to = format!("127.0.0.1:{}", receiver.udp_port());
    // Number 5 of a separate stream, which never announces its total.
    let mut packet = b"FCSQ\x07\0\0\0\x05".to_vec();
    packet.resize(64, 0);
    let foreign = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    foreign.send_to(&packet, &to).expect("sent");
    let sent =
        say(&["send", "--to", &format!("udp://{to}"), "--count", "25000", "--rate", "50kpps"]);
    assert_eq!(sent.code, 0, "{}", sent.err);
    receiver.interrupt();
    let got = receiver.end();
    let s = got.summary();
    assert_eq!(s["balance"], 0, "{}", got.err);
    assert_eq!(
        (s["packets"]["sent"].as_u64(), s["packets"]["accepted"].as_u64()),
        (Some(25_000), Some(25_001))
    );
    let others = &s["packets"]["unannounced"];
    assert_eq!((&others["delivered"], &others["lost"]), (&1.into(), &5.into()));
    assert!(
        got.err.contains("sent 25,000 = delivered 25,000 + lost 0 + rejected 0"),
        "{}",
        got.err
    );
    assert!(got.err.contains("announced no end: delivered 1 + lost 5"), "{}", got.err);
    assert_eq!(got.code, 3, "what is missing of the foreign stream is a loss all the same");
}

#[test]
fn mixed_sizes_have_the_wire_rate_of_their_frames() {
    let (sent, got) =
        through(&["--size", "64,1472,4000", "--count", "3000", "--rate", "20kpps"], &[]);
    let (sent, got) = (sent.summary(), got.summary());
    // 8 B of UDP, 20 B of IPv4, 18 B of Ethernet, 20 B around: MTU 1500, and 9000 for the largest.
    let frames = 1000 * (64 + 1472 + 4000 + 3 * 66);
    // End marks are received too: at least one, at most five of 64 B.
    let wire = got["counters"]["receive.wire_bytes"].as_u64().unwrap();
    assert!((1..=5).any(|marks| wire == frames + marks * 130), "{wire} of {frames}");
    let ratio = |s: &serde_json::Value| {
        s["rates"]["wire_gbps"].as_f64().unwrap() / s["rates"]["gbps"].as_f64().unwrap()
    };
    assert!((ratio(&sent) - ratio(&got)).abs() < 1e-3, "{} {}", ratio(&sent), ratio(&got));
}

#[test]
fn inspect_shows_live_packets_with_the_kernels_time_and_ends_with_the_sums() {
    let mut inspect = Service::start(&[
        "inspect",
        "udp://127.0.0.1:0",
        "--detector",
        "sequence",
        "--count",
        "50",
        "--json",
    ]);
    let to = format!("udp://127.0.0.1:{}", inspect.udp_port());
    let sent = say(&["send", "--to", &to, "--size", "100", "--count", "100", "--rate", "5kpps"]);
    assert_eq!(sent.code, 0, "{}", sent.err);
    let said = inspect.end();
    assert_eq!(said.code, 0, "{}", said.err);
    let lines: Vec<serde_json::Value> =
        said.out.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    let (sums, packets) = lines.split_last().unwrap();
    assert_eq!(packets.len(), 50);
    let times: Vec<i64> = packets.iter().map(|p| p["time_ns"].as_i64().expect("a time")).collect();
    // 2020 or later, and in order: the kernel's clock.
    assert!(times[0] > 1_577_836_800_000_000_000 && times.is_sorted(), "{times:?}");
    let wanted = serde_json::json!({
        "schema": "fullcount/inspect/1", "verb": "inspect",
        "packets": {"received": 50, "accepted": 50, "rejected": {}},
        "bytes": {"received": 5000}, "readouts": 0,
    });
    assert_eq!(*sums, wanted);
}

#[test]
fn a_shifted_capture_over_udp_is_one_long_stream() {
    let dir = tempfile::tempdir().unwrap();
    let packets: Vec<Vec<u8>> = (0..200u64)
        .map(|n| {
            let mut p = b"FCSQ\x07\0\0\0".to_vec();
            p.extend(n.to_le_bytes());
            p.extend((1000 * n).to_le_bytes());
            p.extend((24..64u8).map(|i| (32 * (n % 8) as u8).wrapping_add(i)));
            p
        })
        .collect();
    let file = service::capture(dir.path(), "numbers", &packets);
    let mut receiver = Service::start(&[
        "receive",
        "udp://127.0.0.1:0",
        "--verify",
        "--packets",
        "1000",
        "--json",
    ]);
    let to = format!("udp://127.0.0.1:{}", receiver.udp_port());
    let source = format!("pcap:{file}?repeat=5&shift&flat-out");
    let sent = say(&[
        "send",
        "--to",
        &to,
        "--source",
        &source,
        "--detector",
        "sequence",
        "--rate",
        "20kpps",
    ]);
    assert_eq!(sent.code, 0, "{}", sent.err);
    let got = receiver.end();
    let s = got.summary();
    assert_eq!((got.code, s["packets"]["accepted"].as_u64()), (0, Some(1000)), "{}", got.err);
    for what in ["duplicate", "reordered", "late", "restarts"] {
        assert_eq!(s["packets"][what], 0, "{what}");
    }
}
