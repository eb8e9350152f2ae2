//! `send` and `receive` with numbered packets: counts that must be exact.

mod service;

use service::{Service, say};

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
    let (sent, got) = through(
        &["--size", "128", "--count", "1000000", "--rate", "400kpps", "--fault", fault],
        &["--verify"],
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

#[test]
fn nothing_is_lost_at_a_modest_rate_for_small_middle_and_fragmented_sizes() {
    for size in ["24", "64", "1472", "1473", "8972", "65507"] {
        let (sent, got) = through(
            &["--size", size, "--count", "3000", "--rate", "20kpps"],
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
fn the_rate_is_payload_bits_and_the_wire_rate_stands_beside_it() {
    let (sent, _) = through(&["--size", "972", "--duration", "1s", "--rate", "100Mbps"], &[]);
    let s = sent.summary();
    let gbps = s["rates"]["gbps"].as_f64().unwrap();
    // Never faster than asked; how close it comes is the host's business and `fullcount lab`'s.
    assert!((0.01..0.102).contains(&gbps), "{gbps}");
    // 972 B + 8 + 20 + 14 + 4 + 20 = 1038 B on the wire.
    let wire = s["rates"]["wire_gbps"].as_f64().unwrap() / gbps;
    assert!((wire - 1038.0 / 972.0).abs() < 1e-3, "{wire}");
    let (sent, _) =
        through(&["--size", "972", "--duration", "1s", "--rate", "100Mbps", "--wire-rate"], &[]);
    let wire = sent.summary()["rates"]["wire_gbps"].as_f64().unwrap();
    assert!((0.01..0.102).contains(&wire), "{wire}");
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
