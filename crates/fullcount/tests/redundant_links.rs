//! A redundant pair over two real links (two veth pairs between two namespaces), of which one goes down during the run:
//! nothing is lost, and the counts of the links show which one. The second test has `send` itself on both links.
//!
//! Every step waits for the effect of the one before; no test depends on a pause. Needs root; otherwise it prints the
//! reason, and fails in CI.
#![cfg(target_os = "linux")]

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use crate::service::{PATIENCE, Service};
use fullcount_lab::namespace::{self, Layout, NamespaceNetwork, VethPair};

/// Packets before the link goes down, and after.
const BEFORE: u64 = 3000;
const AFTER: u64 = 4000;
/// Packets in flight at a time: a socket of the usual size holds them all.
const STEP: u64 = 50;

/// A numbered packet of 64 B (the layout of `docs/contracts.md`, "`sequence` payload"), or an end mark.
fn packet(number: u64, time: u64) -> Vec<u8> {
    let mut p = b"FCSQ".to_vec();
    p.extend(9u32.to_le_bytes());
    p.extend(number.to_le_bytes());
    p.extend(time.to_le_bytes());
    p.resize(64, 0);
    p
}

/// Packets that a link has brought to the receiver's namespace so far.
fn brought(network: &NamespaceNetwork, link: usize) -> u64 {
    let name = network.interface(link);
    let shown = network.ip(1, ["-j", "-s", "link", "show", "dev", &name]).expect("a link");
    let shown: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
    shown.pointer("/0/stats64/rx/packets").and_then(|n| n.as_u64()).expect("a count")
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Sends numbers on both links and waits until those links that are up have brought them.
fn send(
    network: &NamespaceNetwork,
    links: &[UdpSocket; 2],
    numbers: std::ops::Range<u64>,
    up: &[usize],
) {
    for first in numbers.clone().step_by(STEP as usize) {
        let last = (first + STEP).min(numbers.end);
        let then: Vec<u64> = up.iter().map(|&link| brought(network, link)).collect();
        for number in first..last {
            for socket in links {
                // A link that is down may refuse; that is tested here.
                let _ = socket.send(&packet(number, 0));
            }
        }
        for (&link, then) in up.iter().zip(then) {
            until("the packets of a link", || brought(network, link) >= then + (last - first));
        }
    }
}

#[test]
fn either_link_may_go_down_in_mid_run_and_nothing_is_lost() {
    if let Some(reason) = namespace::lacking() {
        assert!(std::env::var_os("CI").is_none(), "CI must have it: {reason}");
        println!("skipped: {reason}");
        return;
    }
    for fails in [0, 1] {
        let links = vec![VethPair::between(0, 1, 1500), VethPair::between(0, 1, 1500)];
        let layout = Layout { purpose: "redundant".into(), hosts: 2, links };
        let network = NamespaceNetwork::build(&layout).expect("two links");
        let at = [0, 1].map(|link| format!("udp://{}:9000", network.address(link, 1)));
        let mut command = network.command(1, env!("CARGO_BIN_EXE_fullcount"));
        command.args(["receive", &at[0], &at[1], "--redundant", "--json"]);
        let mut receiver = Service::run(command);
        receiver.wait_for("both sockets", |l| l.starts_with("detector ").then_some(()));
        let sockets = [0, 1].map(|link| {
            let open = || {
                let socket = UdpSocket::bind((network.address(link, 0), 0)).expect("an address");
                socket.connect((network.address(link, 1), 9000)).expect("a way");
                socket
            };
            network.inside(0, open).expect("a namespace")
        });
        send(&network, &sockets, 0..BEFORE, &[0, 1]);
        let name = network.interface(fails);
        network.ip(1, ["link", "set", &name, "down"]).expect("the link goes down");
        send(&network, &sockets, BEFORE..BEFORE + AFTER, &[1 - fails]);
        let begun = Instant::now();
        // It ends when it has two marks and then nothing comes, so they are further apart than its 20 ms.
        while !receiver.has_ended() {
            assert!(begun.elapsed() < PATIENCE, "the receiver does not end");
            sockets.iter().for_each(|s| drop(s.send(&packet(u64::MAX, BEFORE + AFTER))));
            std::thread::sleep(Duration::from_millis(100));
        }
        let said = receiver.end();
        let summary = said.summary();
        assert_eq!((said.code, summary["balance"].as_u64()), (0, Some(0)), "{}", said.err);
        let packets = &summary["packets"];
        assert_eq!((&packets["accepted"], &packets["sent"]), (&(7000.into()), &(7000.into())));
        let lost: u64 =
            packets["lost"].as_object().unwrap().values().filter_map(|n| n.as_u64()).sum();
        assert_eq!(lost, 0, "{packets}");
        // Packets that one link lost came over the other: the first's count stops, the other has everything.
        let links = summary["workers"].as_array().expect("links");
        let of = |link: usize| (links[link]["packets"].as_u64(), &links[link]["missing"]);
        assert_eq!(of(fails), (Some(BEFORE), &AFTER.into()), "{links:?}");
        let (count, missing) = of(1 - fails);
        assert!(count >= Some(BEFORE + AFTER), "{links:?}");
        assert_eq!(missing, &0, "{links:?}");
        let label = |link: usize| links[link]["label"].as_str().unwrap().to_owned();
        assert!(label(0).starts_with("link 1 udp://10.201.0.2:9000"), "{links:?}");
        assert!(label(1).starts_with("link 2 udp://10.201.1.2:9000"), "{links:?}");
        assert!(said.err.contains("did not come over it"), "{}", said.err);
    }
}

#[test]
fn send_goes_on_over_one_link_when_the_other_goes_down_at_its_end() {
    if let Some(reason) = namespace::lacking() {
        assert!(std::env::var_os("CI").is_none(), "CI must have it: {reason}");
        println!("skipped: {reason}");
        return;
    }
    let links = vec![VethPair::between(0, 1, 1500), VethPair::between(0, 1, 1500)];
    let layout = Layout { purpose: "redundant2".into(), hosts: 2, links };
    let network = NamespaceNetwork::build(&layout).expect("two links");
    let at = [0, 1].map(|link| format!("udp://{}:9000", network.address(link, 1)));
    let mut command = network.command(1, env!("CARGO_BIN_EXE_fullcount"));
    command.args(["receive", &at[0], &at[1], "--redundant", "--json"]);
    let mut receiver = Service::run(command);
    receiver.wait_for("both sockets", |l| l.starts_with("detector ").then_some(()));
    let mut command = network.command(0, env!("CARGO_BIN_EXE_fullcount"));
    command.args(["send", "--to", &at[0], "--to", &at[1], "--size", "64", "--json"]);
    command.args(["--rate", "10kpps", "--count", "20000"]);
    let sender = Service::run(command);
    until("packets of the first link", || brought(&network, 0) > 2000);
    // The sender's own end: its kernel then refuses what goes there.
    network.ip(0, ["link", "set", &network.interface(0), "down"]).expect("the link goes down");
    let (sent, got) = (sender.end(), receiver.end());
    let summary = got.summary();
    assert_eq!((got.code, summary["balance"].as_u64()), (0, Some(0)), "{}", got.err);
    assert_eq!(summary["packets"]["accepted"], 20_000, "{}", got.err);
    // Packets that the first link did not get are reported, with the reason, and are a loss of that destination.
    let summary = sent.summary();
    assert_eq!((sent.code, &summary["packets"]["sent"]), (3, &20_000.into()), "{}", sent.err);
    let of = |link: usize| &summary["destinations"][link];
    let count = |link: usize, key: &str| of(link)["packets"][key].as_u64().expect("a count");
    assert!(count(0, "failed") > 0, "{summary}");
    assert_eq!(count(0, "sent") + count(0, "failed"), 20_000, "{summary}");
    assert_eq!((count(1, "sent"), count(1, "failed")), (20_000, 0), "{summary}");
    assert!(of(0)["failure"].is_string() && of(1).get("failure").is_none(), "{summary}");
}
