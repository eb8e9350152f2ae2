//! Several workers, ports, senders and links: every packet counts once, and the ledgers add up.

use crate::service::{Said, Service, say};
use std::net::UdpSocket;

/// Ports of all UDP sockets, in the order in which they were opened.
fn ports(receiver: &mut Service, n: usize) -> Vec<u16> {
    // The line after the last socket's.
    receiver.wait_for("the detector's line", |l| l.starts_with("detector ").then_some(()));
    let port = |l: &String| l.strip_prefix("listening on ")?.rsplit(':').next()?.parse().ok();
    let ports: Vec<u16> = receiver.seen().iter().filter_map(port).collect();
    assert_eq!(ports.len(), n, "{:?}", receiver.seen());
    ports
}

fn start_sending(port: u16, count: &str, more: &[&str]) -> Service {
    let to = format!("udp://127.0.0.1:{port}");
    let mut arguments = vec!["send", "--to", &to, "--source", "sequence", "--count", count];
    arguments.extend(["--rate", "20kpps", "--size", "64"]);
    arguments.extend(more);
    Service::start(&arguments)
}

fn sent(children: Vec<Service>) {
    for child in children {
        assert_eq!(child.end().code, 0);
    }
}

fn shares(said: &Said) -> Vec<u64> {
    let summary = said.summary();
    let workers = summary["workers"].as_array().expect("several workers").clone();
    workers.iter().map(|w| w["packets"].as_u64().expect("a count")).collect()
}

#[test]
fn senders_are_shared_out_among_workers_and_nothing_is_lost() {
    for threads in ["1", "2"] {
        let receive = ["receive", "udp://127.0.0.1:0", "--workers", "3", "--senders", "4"];
        let more = ["--threads", threads, "--verify", "--json"];
        let mut receiver = Service::start(&[&receive[..], &more].concat());
        let port = ports(&mut receiver, 3)[0];
        sent((0..4).map(|_| start_sending(port, "2000", &[])).collect());
        let got = receiver.end();
        let s = got.summary();
        assert_eq!((got.code, s["balance"].as_u64()), (0, Some(0)), "{}", got.err);
        assert_eq!(s["packets"]["accepted"], 8000);
        assert_eq!(s["packets"]["sent"], 8000, "the end marks of all senders");
        let shares = shares(&got);
        assert_eq!(
            (shares.len(), shares.iter().sum()),
            (3, s["packets"]["received"].as_u64().unwrap())
        );
        // A sender is never split: each share is whole senders, with up to five end marks each.
        assert!(shares.iter().all(|n| n % 2000 <= 20), "{shares:?}");
    }
}

#[test]
fn each_port_of_a_range_has_its_worker() {
    // A range needs known ports: some that the system has just assigned and freed.
    let first = (20_000..60_000).step_by(4).find(|&first| {
        (first..first + 3).all(|p| std::net::UdpSocket::bind(("127.0.0.1", p)).is_ok())
    });
    let first = first.expect("three free ports in a row");
    let url = format!("udp://127.0.0.1:{first}-{}", first + 2);
    let mut receiver = Service::start(&["receive", &url, "--senders", "3", "--json"]);
    let ports = ports(&mut receiver, 3);
    assert_eq!(ports, [first, first + 1, first + 2]);
    let counts = ["1000", "2000", "3000"];
    sent(ports.iter().zip(counts).map(|(&p, n)| start_sending(p, n, &[])).collect());
    let got = receiver.end();
    assert_eq!(got.code, 0, "{}", got.err);
    assert_eq!(got.summary()["packets"]["accepted"], 6000);
    let whole: Vec<u64> = shares(&got).iter().map(|n| n / 1000).collect();
    assert_eq!(whole, [1, 2, 3]);
}

#[test]
fn two_receivers_of_a_group_both_see_everything() {
    // One takes the data, the other only watches.
    let start = |port: u16| {
        let url = format!("udp://239.255.77.21:{port}?interface=lo");
        Service::start(&["receive", &url, "--verify", "--json"])
    };
    let mut first = start(0);
    let port = first.udp_port();
    let mut monitor = start(port);
    monitor.udp_port();
    let to = format!("udp://239.255.77.21:{port}?interface=lo");
    let sent =
        say(&["send", "--to", &to, "--source", "sequence", "--count", "3000", "--rate", "20kpps"]);
    assert_eq!(sent.code, 0, "{}", sent.err);
    for receiver in [first, monitor] {
        let got = receiver.end();
        assert_eq!(got.code, 0, "{}", got.err);
        assert_eq!(got.summary()["packets"]["accepted"], 3000);
    }
}

#[test]
fn a_redundant_pair_loses_nothing_when_either_link_does() {
    // The same numbered packets on two links; each link loses what the other does not.
    let receive = ["receive", "udp://127.0.0.1:0", "udp://127.0.0.1:0", "--redundant", "--json"];
    let lossy = "loss=0.05,seed=3";
    for (a, b) in [(Some(lossy), None), (None, Some(lossy)), (Some("dead"), None)] {
        let mut receiver = Service::start(&receive);
        let ports = ports(&mut receiver, 2);
        // A third stream, of one packet, ends after both: a sender that starts late still finds the receiver.
        let hold = UdpSocket::bind("127.0.0.1:0").unwrap();
        let hold = |number: u64, time: u64| {
            let (stream, magic) = (99u32.to_le_bytes(), *b"FCSQ");
            let words = [number.to_le_bytes(), time.to_le_bytes()].concat();
            let packet = [&magic[..], &stream, &words].concat();
            hold.send_to(&packet, ("127.0.0.1", ports[1])).unwrap();
        };
        hold(0, 0);
        let link = |port: u16, fault: Option<&str>| {
            start_sending(port, "4000", &fault.map_or(vec![], |f| vec!["--fault", f]))
        };
        let both = [(ports[0], a), (ports[1], b)].into_iter().filter(|(_, f)| *f != Some("dead"));
        sent(both.map(|(port, fault)| link(port, fault)).collect());
        // An end mark: one packet was sent.
        hold(u64::MAX, 1);
        let got = receiver.end();
        let s = got.summary();
        assert_eq!((got.code, s["balance"].as_u64()), (0, Some(0)), "{a:?} {b:?}: {}", got.err);
        assert_eq!(s["packets"]["accepted"], 4001);
        let links = shares(&got);
        assert_eq!(links.len(), 2);
        // When all numbers are there, the receiver does not wait for the copies of the slower link.
        for (n, fault) in links.iter().zip([a, b]) {
            assert!(fault.is_none() || *n < 4000, "{links:?}");
        }
    }
}

#[test]
fn what_cannot_be_shared_out_is_refused_before_anything_is_opened() {
    let group = "udp://239.255.77.22:9000?interface=lo";
    for (arguments, words) in [
        (&["receive", "udp://127.0.0.1:0", "--workers", "65"][..], "source.workers = 65: 1 to 64"),
        (&["receive", "udp://127.0.0.1:0", "--workers", "2", "--core", "0"], "one CPU for each"),
        (&["receive", "udp://127.0.0.1:0", "--redundant"], "at least two links"),
        (&["receive", "udp://127.0.0.1:0", "--steer", "luck"], "sender or address"),
        (&["receive", "udp://127.0.0.1:9-5"], "FIRST-LAST"),
        (&["run", "--source", "pcap:x", "--workers", "2"], "udp: endpoints only"),
        (&["run", "--source", "udp://127.0.0.1:0", "--source", "pcap:x"], "must all be udp:"),
    ] {
        let said = say(arguments);
        assert_eq!(said.code, 2, "{arguments:?}: {}", said.err);
        assert!(said.err.contains(words), "{arguments:?}: {}", said.err);
    }
    let said = say(&["receive", group, "--workers", "2"]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("copy of each packet"), "{}", said.err);
}
