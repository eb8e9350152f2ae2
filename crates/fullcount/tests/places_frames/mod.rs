//! Places of losses with receivers that take frames (`xdp://` in both modes, `packet://`), caused on a veth pair: the
//! place is right, the amount exact, no packet counted twice.

use serde_json::{Value, json};

use super::{end, signal};
use crate::places_net::{FAR, NEAR, Net, Spoilt, alone};
use crate::service::{Said, Service};

/// Every way to take frames.
const WAYS: [&str; 3] =
    ["xdp://places0:9000?mode=native", "xdp://places0:9000?mode=generic", "packet://places0:9000"];

fn receiver(net: &Net, url: &str, more: &[&str]) -> Service {
    let mut command = Net::command(&net.near, env!("CARGO_BIN_EXE_fullcount"));
    command.args(["receive", url, "--json", "--probes", "100ms"]).args(more);
    let mut service = Service::run(command);
    service.wait_for("the receiver", |l| l.starts_with("listening on ").then_some(()));
    service
}

/// Exact amount, all of it at `place` and named by `witness`, nothing twice, balance 0, exit code 3.
fn check(sent: u64, said: &Said, place: &str, witness: &str) -> Value {
    let summary = said.summary();
    let packets = &summary["packets"];
    let accepted = packets["accepted"].as_u64().unwrap();
    assert!(accepted < sent, "nothing was lost: {packets}");
    let mut expected = json!({"link": 0, "nic": 0, "backlog": 0, "socket": 0, "reassembly": 0,
                              "queue": 0, "down": 0, "unknown": 0});
    expected[place] = (sent - accepted).into();
    assert_eq!(packets["lost"], expected, "{packets}\n{}", said.err);
    // sent = delivered + lost: the refused packets are the loss, not a third category.
    assert_eq!((&packets["sent"], &packets["rejected"]), (&json!(sent), &json!({})), "{packets}");
    let told = packets["lost_witnesses"].as_array().unwrap();
    let named: Vec<&Value> = told.iter().map(|w| &w["counter"]).collect();
    assert_eq!(named, [witness], "{packets}");
    assert_eq!(summary["balance"], 0, "{summary}");
    assert_eq!(said.code, 3, "{}", said.err);
    summary
}

#[test]
fn a_wrong_checksum_loses_on_the_link() {
    let _alone = alone();
    for url in WAYS {
        let Some(net) = Net::new() else { return };
        let receiver = receiver(&net, url, &[]);
        let mut sender = Net::sender(&net.far, FAR, NEAR);
        for _ in 0..50 {
            sender.burst(3);
            sender.spoil(Spoilt::Checksum);
        }
        sender.burst(1);
        let said = end(&sender, receiver);
        let summary = check(sender.sent, &said, "link", "frames.damaged");
        assert_eq!(summary["packets"]["lost"]["link"], 50, "{url}");
        assert_eq!(said.counter("frames.damaged"), 50, "{url}");
        assert!(said.err.contains("cables"), "{url}: what to do is said: {}", said.err);
    }
}

#[test]
fn a_fragment_loses_in_reassembly() {
    let _alone = alone();
    for url in WAYS {
        let Some(net) = Net::new() else { return };
        let receiver = receiver(&net, url, &[]);
        let mut sender = Net::sender(&net.far, FAR, NEAR);
        for _ in 0..20 {
            sender.burst(2);
            // The rest of it never comes; and it would not be reassembled either.
            sender.spoil(Spoilt::FirstFragment);
        }
        sender.burst(1);
        let said = end(&sender, receiver);
        let summary = check(sender.sent, &said, "reassembly", "frames.fragments");
        assert_eq!(summary["packets"]["lost"]["reassembly"], 20, "{url}");
        assert!(said.err.contains("fit the MTU"), "{url}: what to do is said: {}", said.err);
    }
}

#[test]
fn a_stopped_reader_loses_in_packet_memory() {
    let _alone = alone();
    for url in WAYS {
        let Some(net) = Net::new() else { return };
        // The least there is: 64 chunks of xdp://, four blocks of packet:// (1 MiB).
        let receiver = receiver(&net, url, &["--receive-buffer", "4KiB"]);
        let mut sender = Net::sender(&net.far, FAR, NEAR);
        sender.burst(10);
        signal(&receiver, "-STOP", 'T');
        // 4 MB of packets of 1 kB into 1 MiB at most.
        sender.burst(4000);
        signal(&receiver, "-CONT", 'S');
        let said = end(&sender, receiver);
        check(sender.sent, &said, "socket", "frames.memory");
        assert!(
            said.err.contains("raise receive_buffer"),
            "{url}: the knob is named: {}",
            said.err
        );
    }
}
