//! The verbs on an interface, over a veth pair: a numbered stream ends with a balanced ledger on every
//! engine, and at any end of a receiver its filter is removed.
//!
//! Needs root and iproute2; where they are missing each test says `skipped:` and fails with CI=true.
#![cfg(target_os = "linux")]

use crate::service::{Service, say};
use fullcount_testing::veth::{NAME, RECEIVER, Veth};

const XDP: &str = "xdp://v0:9000";

fn receive(veth: &Veth, url: &str, more: &[&str]) -> Service {
    let words = [&["receive", url], more].concat();
    let mut service = veth.receiving(|| Service::start(&words));
    service.wait_for("the receiver", |l| l.starts_with("detector ").then_some(()));
    service
}

fn has_filter(veth: &Veth) -> bool {
    veth.run(false, &["ip", "link", "show", NAME]).contains("prog/xdp")
}

#[test]
fn a_numbered_stream_balances_on_every_engine_and_ends_the_receiver() {
    let Some(veth) = Veth::new(9000, 1) else { return };
    for url in [XDP, "xdp://v0:9000?mode=generic", "packet://v0:9000"] {
        // As many as the rings hold, so that the receiver is not late for all end marks either.
        for (size, threads, count) in [("64", "1", 5000), ("1472", "2", 5000), ("8972", "1", 2000)]
        {
            let service =
                receive(&veth, url, &["--json", "--verify", "--threads", threads, "--web", "off"]);
            let to = format!("udp://{RECEIVER}:9000?engine=mmsg");
            let number = count.to_string();
            let words =
                ["send", "--to", &to, "--size", size, "--count", &number, "--rate", "20kpps"];
            let sent = veth.sending(|| say(&words));
            assert_eq!(sent.code, 0, "{}", sent.err);
            let said = service.end();
            let summary = said.summary();
            assert_eq!(summary["balance"], 0, "{url} {size}: {}", said.err);
            let packets = &summary["packets"];
            let lost: u64 =
                packets["lost"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
            assert_eq!(packets["sent"], count, "{url} {size}");
            // A host that is busy may lose some; then the ledger says where and the code says so.
            assert_eq!(packets["accepted"].as_u64().unwrap() + lost, count, "{url} {size}");
            assert_eq!(said.code, if lost > 0 { 3 } else { 0 }, "{url} {size}: {}", said.err);
        }
    }
}

#[test]
fn the_filter_goes_when_the_receiver_is_interrupted_or_killed() {
    let Some(veth) = Veth::new(1500, 1) else { return };
    let service = receive(&veth, XDP, &[]);
    assert!(has_filter(&veth));
    let second = veth.receiving(|| say(&["receive", "xdp://v0:9001"]));
    assert_eq!(second.code, 1);
    assert!(second.err.contains("has a packet program already"), "{}", second.err);
    service.interrupt();
    assert_eq!(service.end().code, 0);
    assert!(!has_filter(&veth));
    let mut service = receive(&veth, XDP, &[]);
    assert!(has_filter(&veth));
    service.child.kill();
    assert!(!has_filter(&veth));
    // And the next one has the queue at once, or waits for it.
    let service = receive(&veth, XDP, &[]);
    service.interrupt();
    assert_eq!(service.end().code, 0);
}

#[test]
fn what_cannot_be_is_said_with_the_right_exit_code() {
    for (url, part) in [
        ("xdp://eth0", "the port is missing"),
        ("xdp://10.0.0.1:9000", "give the interface"),
        ("packet://eth0:0", "1 to 65535"),
        ("xdp://eth0:9000?mode=fast", "auto, native or generic"),
    ] {
        let said = say(&["receive", url]);
        assert_eq!(said.code, 2, "{url}: {}", said.err);
        assert!(said.err.contains(part), "{url}: {}", said.err);
    }
    let said = say(&["receive", "xdp://eth0:9000", "--engine", "mmsg"]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("is for udp:// only"), "{}", said.err);
    for url in ["xdp://nosuch0:9000", "packet://nosuch0:9000"] {
        let said = say(&["receive", url]);
        assert_eq!(said.code, 1, "{url}");
        assert!(said.err.contains("no interface 'nosuch0'"), "{}", said.err);
    }
}
