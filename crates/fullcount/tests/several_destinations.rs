//! `send` with several `--to`: the same packets to each, separate faults, and an unreachable one.

use crate::service::{Service, say};

/// A redundant receiver at two ports of its own choosing, and their URLs.
fn receiver() -> (Service, [String; 2]) {
    let any = "udp://127.0.0.1:0";
    let mut receiver = Service::start(&["receive", any, any, "--redundant", "--json"]);
    let port =
        |l: &str| Some(format!("udp://{}", l.strip_prefix("listening on ")?.split(' ').next()?));
    let first = receiver.wait_for("the first socket", port);
    let second = receiver.wait_for("the second socket", |l| port(l).filter(|p| *p != first));
    receiver.wait_for("the detector", |l| l.starts_with("detector ").then_some(()));
    (receiver, [first, second])
}

const PACKETS: u64 = 20_000;

#[test]
fn two_links_with_losses_of_their_own_lose_only_what_both_lost() {
    let (receiver, to) = receiver();
    let packets = PACKETS.to_string();
    let sent = say(&[
        "send",
        "--to",
        &to[0],
        "--to",
        &to[1],
        "--size",
        "64",
        "--rate",
        "20kpps",
        "--count",
        &packets,
        "--fault",
        "drop=2000,of=20000,seed=1",
        "--fault",
        "drop=500,of=20000,seed=2",
        "--json",
    ]);
    assert_eq!(sent.code, 0, "{}", sent.err);
    let summary = sent.summary();
    // The rate and the count are those of each destination; five end marks go to each as well.
    assert_eq!(summary["packets"]["sent"], PACKETS);
    assert_eq!(summary["counters"]["send.datagrams"], 2 * PACKETS - 2000 - 500 + 2 * 5);
    let seconds = summary["seconds"].as_f64().expect("a time");
    assert!(seconds > 0.9, "each gets 20,000 packets a second: {seconds} s");
    for (at, dropped) in [(0, 2000), (1, 500)] {
        let one = &summary["destinations"][at];
        assert_eq!(one["to"], to[at].as_str());
        assert_eq!(
            (&one["packets"]["sent"], &one["packets"]["failed"]),
            (&PACKETS.into(), &0.into())
        );
        assert_eq!(one["counters"]["send.datagrams"], PACKETS - dropped + 5, "{one}");
    }
    let got = receiver.end();
    let summary = got.summary();
    assert_eq!((got.code, &summary["balance"]), (3, &0.into()), "{}", got.err);
    assert_eq!(summary["packets"]["sent"], PACKETS);
    let lost = PACKETS - summary["packets"]["accepted"].as_u64().expect("a count");
    // 2000 · 500 / 20,000 = 50 are lost on both, with a spread of 7.
    assert!((10..=100).contains(&lost), "{lost}");
    let links = summary["workers"].as_array().expect("links");
    // What did not come over one of them, but over the other; the end marks that came count as packets of a link.
    let missing = |link: usize| links[link]["missing"].as_u64().expect("a count") + lost;
    let near = |count: u64, dropped: u64| (dropped - 5..=dropped).contains(&count);
    assert!(near(missing(0), 2000) && near(missing(1), 500), "{lost} {links:?}");
}

#[test]
fn a_destination_that_cannot_be_reached_stops_no_other() {
    let (receiver, to) = receiver();
    // Sending to loopback's broadcast address is not allowed.
    let dead = "udp://127.255.255.255:9?broadcast=0";
    let sent = say(&[
        "send", "--to", dead, "--to", &to[0], "--to", &to[1], "--count", "1000", "--rate",
        "10kpps", "--json",
    ]);
    assert_eq!(sent.code, 3, "{}", sent.err);
    assert!(sent.err.contains("127.255.255.255"), "{}", sent.err);
    let all = &sent.summary()["destinations"];
    assert_eq!(
        (&all[0]["packets"]["sent"], &all[0]["packets"]["failed"]),
        (&0.into(), &1000.into())
    );
    assert!(all[0]["failure"].as_str().is_some_and(|why| why.contains("127.255.255.255")), "{all}");
    assert_eq!(
        (&all[1]["packets"]["failed"], &all[2]["packets"]["sent"]),
        (&0.into(), &1000.into())
    );
    let got = receiver.end();
    assert_eq!((got.code, &got.summary()["packets"]["accepted"]), (0, &1000.into()), "{}", got.err);
    // Alone, or when none is left, it is a failure.
    for all in [&["--to", dead][..], &["--to", dead, "--to", dead]] {
        let said = say(&[&["send", "--count", "10"], all].concat());
        assert_eq!(said.code, 1, "{all:?}: {}", said.err);
        assert!(said.err.contains("127.255.255.255"), "{}", said.err);
    }
}

#[test]
fn the_modules_of_a_simulated_detector_keep_their_ports_to_each_destination() {
    let sockets = [0, 1].map(|_| std::net::UdpSocket::bind("127.0.0.1:0").expect("a port"));
    let to = sockets.each_ref().map(|s| format!("udp://{}", s.local_addr().expect("bound")));
    let said = say(&[
        "send",
        "--to",
        &to[0],
        "--to",
        &to[1],
        "--source",
        "sonde",
        "--modules",
        "8x8",
        "--count",
        "60",
        "--rate",
        "10kpps",
    ]);
    assert_eq!(said.code, 0, "{}", said.err);
    let got = sockets.map(|socket| {
        socket.set_nonblocking(true).expect("set");
        let (mut slot, mut all) = ([0; 2048], vec![]);
        while let Ok((n, from)) = socket.recv_from(&mut slot) {
            all.push((from.port(), slot[..n].to_vec()));
        }
        all
    });
    // Few enough for a socket of the usual size.
    assert_eq!(got[0].len(), 60);
    // A port has 32 modules. Two ports send, and both destinations see the same two.
    let ports: std::collections::BTreeSet<u16> = got[0].iter().map(|(port, _)| *port).collect();
    assert_eq!(ports.len(), 2, "{ports:?}");
    assert!(got[0] == got[1], "not the same packets, or not from the same ports: {ports:?}");
}

#[test]
fn wrong_destinations_are_refused() {
    let udp = "udp://127.0.0.1:9";
    for (more, words) in [
        (&["--to", "127.0.0.1:9000"][..], &["write for example udp://127.0.0.1:9000"][..]),
        (&["--to", udp, "--to", "kafka://localhost/logs"], &["kafka://", "alone"]),
        (&["--to", udp, "--to", "pcap:x"], &["pcap:x", "known are udp"]),
        (&["--to", udp, "--fault", "none", "--fault", "loss=0.1"], &["fault", "one for all"]),
        (&[], &["--to"]),
    ] {
        let said = say(&[&["send"], more].concat());
        assert_eq!(said.code, 2, "{more:?}: {}", said.err);
        words
            .iter()
            .for_each(|w| assert!(said.err.contains(w), "{more:?} must say {w}: {}", said.err));
    }
}
