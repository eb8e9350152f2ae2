//! A loss at each place: the place is right, the amount is exact, no loss is without a place.
//!
//! Amounts are compared with the packets that were sent and that arrived; no test depends on a time. Loops
//! end when the kernel's counter has moved, with bounds that only turn a hang into a failure.
#![cfg(target_os = "linux")]

#[path = "places_frames/mod.rs"]
mod places_frames;

use crate::service;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::places_net::{FAR, NEAR, Net, Sender, Spoilt, alone, snmp};
use crate::service::{PATIENCE, Said, Service};
use serde_json::{Value, json};

/// Bursts after which a counter must have moved.
const TRIES: usize = 500;
/// Packets of a burst.
const BURST: u64 = 200;

/// A receiver in the near namespace.
fn receiver(net: &Net, at: &str, more: &[&str]) -> Service {
    let mut command = Net::command(&net.near, env!("CARGO_BIN_EXE_fullcount"));
    command.args(["receive", &format!("udp://{at}:9000"), "--json"]).args(more);
    let mut service = Service::run(command);
    service.udp_port();
    service
}

/// `fullcount send` of `count` packets of 64 B in trains, as fast as it goes; gives how many it sent.
fn send(space: &str, to: &str, count: u64) -> u64 {
    let mut send = Net::command(space, env!("CARGO_BIN_EXE_fullcount"));
    send.args(["send", "--to", &format!("udp://{to}:9000"), "--source", "sequence", "--json"]);
    let said = send.args(["--size", "64", "--count", &count.to_string()]).output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let summary: Value = serde_json::from_slice(&said.stdout).unwrap();
    summary["packets"]["sent"].as_u64().unwrap()
}

/// Sends bursts until `moved` says so.
fn until(sender: &mut Sender, mut moved: impl FnMut() -> bool) {
    for _ in 0..TRIES {
        sender.burst(BURST);
        if moved() {
            return;
        }
    }
    panic!("{} packets moved no counter", sender.sent);
}

/// Waits for a fact, looking every 2 ms.
fn wait(what: &str, fact: impl FnMut() -> bool) {
    look(what, Duration::from_millis(2), fact);
}

fn look(what: &str, every: Duration, mut fact: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !fact() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(every);
    }
}

/// Sends end marks until the receiver has ended; it ends when it has two and then nothing comes, so
/// they are further apart than its patience (20 ms).
fn end(sender: &Sender, mut receiver: Service) -> Said {
    look("the receiver's end", Duration::from_millis(100), || {
        sender.end_mark();
        receiver.has_ended()
    });
    receiver.end()
}

fn signal(receiver: &Service, name: &str, state: char) {
    let pid = receiver.child.id();
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
    wait("the signal", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let now = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        (now == Some('T')) == (state == 'T')
    });
}

/// What every provoked loss must show: exact amount, all of it at `place`, balance 0, exit code 3.
fn check(sent: u64, said: &Said, place: &str) -> Value {
    let summary = said.summary();
    let packets = &summary["packets"];
    let accepted = packets["accepted"].as_u64().unwrap();
    assert!(accepted < sent, "nothing was lost: {packets}");
    let mut expected = json!({"link": 0, "nic": 0, "backlog": 0, "socket": 0, "reassembly": 0,
                              "queue": 0, "down": 0, "unknown": 0});
    expected[place] = (sent - accepted).into();
    assert_eq!(packets["lost"], expected, "{packets}\n{}", said.err);
    assert_eq!(packets["sent"], sent, "{packets}");
    assert_eq!(summary["balance"], 0, "{summary}");
    assert_eq!(said.code, 3, "{}", said.err);
    summary
}

/// Counters that named `place`.
fn named(summary: &Value, place: &str) -> Vec<String> {
    let all = summary["packets"]["lost_witnesses"].as_array().unwrap();
    let of = all.iter().filter(|w| w["place"] == place);
    of.map(|w| w["counter"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_tiny_socket_buffer_loses_at_the_socket() {
    let _alone = alone();
    // Looked at often, and only at the end.
    for probes in ["100ms", "60s"] {
        let Some(net) = Net::new() else { return };
        let receiver =
            receiver(&net, "10.77.0.2", &["--receive-buffer", "4KiB", "--probes", probes]);
        let mut sender = Net::sender(&net.far, FAR, NEAR);
        let pid = receiver.child.id();
        until(&mut sender, || snmp(pid, "Udp", "RcvbufErrors") > 0);
        let said = end(&sender, receiver);
        let summary = check(sender.sent, &said, "socket");
        assert_eq!(named(&summary, "socket"), ["host.socket.full"]);
        assert!(said.err.contains("net.core.rmem_max"), "the knob is named: {}", said.err);
    }
}

#[test]
fn trains_that_a_tiny_socket_buffer_drops_count_once_and_lose_all_their_packets() {
    let _alone = alone();
    for _ in 0..20 {
        let Some(net) = Net::new() else { return };
        let mut receiver = receiver(&net, "127.0.0.1", &["--receive-buffer", "4KiB"]);
        send(&net.near, "127.0.0.1", 200_000);
        wait("the receiver's end", || receiver.has_ended());
        let said = receiver.end();
        if said.code == 0 {
            continue;
        }
        let summary = check(200_000, &said, "socket");
        let (lost, times) = (
            summary["packets"]["lost"]["socket"].as_u64().unwrap(),
            said.counter("host.socket.full"),
        );
        assert!(times > 0 && times < lost, "{times} trains for {lost} packets");
        return;
    }
    panic!("4 KiB took everything 20 times");
}

#[test]
fn a_stopped_reader_loses_at_the_socket() {
    let _alone = alone();
    let Some(net) = Net::new() else { return };
    let receiver = receiver(&net, "0.0.0.0", &["--receive-buffer", "64KiB", "--probes", "100ms"]);
    let mut sender = Net::sender(&net.far, FAR, NEAR);
    let pid = receiver.child.id();
    sender.burst(10);
    signal(&receiver, "-STOP", 'T');
    until(&mut sender, || snmp(pid, "Udp", "RcvbufErrors") > 0);
    signal(&receiver, "-CONT", 'S');
    let said = end(&sender, receiver);
    check(sender.sent, &said, "socket");
}

/// Sets a number of the whole host and sets it back.
struct Sysctl(&'static str, String);

impl Sysctl {
    fn set(path: &'static str, value: &str) -> Sysctl {
        let before = std::fs::read_to_string(path).unwrap();
        std::fs::write(path, value).unwrap();
        Sysctl(path, before)
    }
}

impl Drop for Sysctl {
    fn drop(&mut self) {
        std::fs::write(self.0, &self.1).unwrap();
    }
}

#[test]
fn a_short_backlog_loses_in_the_backlog() {
    let _alone = alone();
    let Some(net) = Net::new() else { return };
    let mut receiver = receiver(&net, "10.77.0.2", &["--probes", "100ms"]);
    // Trains are segmented before the veth, and all their packets reach the core's queue before it is processed: a
    // queue of one packet loses most of them, with any scheduling of cores.
    net.cut_trains();
    let sent = {
        let _short = Sysctl::set("/proc/sys/net/core/netdev_max_backlog", "1");
        send(&net.far, "10.77.0.2", 2000)
    };
    assert_eq!(sent, 2000);
    wait("the receiver's end", || receiver.has_ended());
    let said = receiver.end();
    let summary = check(sent, &said, "backlog");
    assert_eq!(named(&summary, "backlog"), ["host.backlog.dropped"]);
    assert_eq!(said.counter("host.nic.dropped"), 0, "the interface counts the same drops");
    assert!(said.err.contains("netdev_max_backlog"), "the knob is named: {}", said.err);
}

#[test]
fn a_queue_of_this_host_loses_on_the_link_and_is_named() {
    let _alone = alone();
    let Some(net) = Net::new() else { return };
    Net::slow_queue(&net.near, "lo");
    let receiver = receiver(&net, "127.0.0.1", &["--probes", "100ms"]);
    let mut sender = Net::sender(&net.near, [127, 0, 0, 1].into(), [127, 0, 0, 1].into());
    // 2000 packets of 1 kB into a queue of 20 that lets 1000 a second through.
    sender.burst(2000);
    let said = end(&sender, receiver);
    let summary = check(sender.sent, &said, "link");
    let told = &summary["packets"]["lost_witnesses"][0];
    assert_eq!(
        (&told["counter"], &told["of"]),
        (&json!("host.qdisc.dropped"), &json!(["tbf on lo"]))
    );
}

#[test]
fn a_queue_of_the_senders_host_is_before_this_host_and_unknown() {
    let _alone = alone();
    let Some(net) = Net::new() else { return };
    Net::slow_queue(&net.far, "places1");
    let receiver = receiver(&net, "10.77.0.2", &["--probes", "100ms"]);
    let mut sender = Net::sender(&net.far, FAR, NEAR);
    sender.burst(2000);
    let said = end(&sender, receiver);
    let summary = check(sender.sent, &said, "unknown");
    assert_eq!(summary["packets"]["lost_shared"], json!([]));
    assert!(said.err.contains("lost before it"), "{}", said.err);
}

#[test]
fn a_wrong_checksum_loses_on_the_link() {
    let _alone = alone();
    // Checksums of short datagrams are computed before their socket is found, of long ones after it.
    for size in [24, 1000] {
        let Some(net) = Net::new() else { return };
        let receiver = receiver(&net, "10.77.0.2", &["--probes", "100ms"]);
        let mut sender = Net::sender(&net.far, FAR, NEAR);
        sender.size = size;
        for _ in 0..50 {
            sender.burst(3);
            sender.spoil(Spoilt::Checksum);
        }
        sender.burst(1);
        let said = end(&sender, receiver);
        let summary = check(sender.sent, &said, "link");
        assert_eq!(summary["packets"]["lost"]["link"], 50, "{size} B");
        assert_eq!(said.counter("host.udp.checksum"), 50, "{size} B");
        assert_eq!(named(&summary, "link"), ["host.udp.checksum"]);
    }
}

#[test]
fn a_missing_fragment_loses_in_reassembly() {
    let _alone = alone();
    // The run ends after the kernel gave the fragments up, and before.
    for given_up in [true, false] {
        let Some(net) = Net::new() else { return };
        if given_up {
            net.write("/proc/sys/net/ipv4/ipfrag_time", "1");
        }
        let receiver = receiver(&net, "10.77.0.2", &["--probes", "100ms"]);
        let mut sender = Net::sender(&net.far, FAR, NEAR);
        sender.size = 3000;
        for _ in 0..20 {
            sender.burst(2);
            sender.spoil(Spoilt::FirstFragment);
        }
        sender.burst(1);
        let pid = receiver.child.id();
        if given_up {
            wait("the fragments' end", || snmp(pid, "Ip", "ReasmFails") == 20);
        }
        let said = end(&sender, receiver);
        let summary = check(sender.sent, &said, "reassembly");
        assert_eq!(summary["packets"]["lost"]["reassembly"], 20);
        assert_eq!(said.counter("host.ip.reassembly"), 20);
    }
}

#[test]
fn two_places_one_after_the_other_are_told_apart_also_on_the_page() {
    let _alone = alone();
    let Some(net) = Net::new() else { return };
    let more = ["--receive-buffer", "64KiB", "--probes", "100ms", "--web", "127.0.0.1:0"];
    let mut receiver = receiver(&net, "10.77.0.2", &more);
    let page = receiver.page();
    let ask = |path: &str| Net::inside(&net.near, || service::get(&page, path));
    let looks = || {
        let metrics = ask("/metrics");
        let line = metrics.lines().find(|l| l.starts_with("fullcount_host_probes_total{"));
        line.and_then(|l| l.rsplit(' ').next()?.parse::<u64>().ok()).unwrap()
    };
    let mut sender = Net::sender(&net.far, FAR, NEAR);
    let pid = receiver.child.id();
    signal(&receiver, "-STOP", 'T');
    until(&mut sender, || snmp(pid, "Udp", "RcvbufErrors") > 0);
    signal(&receiver, "-CONT", 'S');
    // Packets continue until the receiver has probed for more than the 2 s (20 times) in which a drop may still be
    // matched.
    let first = looks();
    wait("some looks", || {
        sender.burst(1);
        looks() >= first + 25
    });
    for _ in 0..10 {
        sender.spoil(Spoilt::Checksum);
        sender.burst(1);
    }
    let second = looks();
    wait("another look", || looks() >= second + 2);
    let state: Value = serde_json::from_str(&ask("/api/state")).unwrap();
    assert_eq!(state["lost_shared"], json!([]));
    let said = end(&sender, receiver);
    let summary = said.summary();
    let packets = &summary["packets"];
    let lost = sender.sent - packets["accepted"].as_u64().unwrap();
    assert_eq!(packets["lost"]["link"], 10, "{packets}");
    assert_eq!(packets["lost"]["socket"], lost - 10, "{packets}");
    assert_eq!((&packets["lost"]["unknown"], &packets["lost_shared"]), (&json!(0), &json!([])));
    assert_eq!((&summary["balance"], said.code), (&json!(0), 3));
}

#[test]
fn two_places_in_one_interval_share_the_loss() {
    let _alone = alone();
    let Some(net) = Net::new() else { return };
    let receiver = receiver(&net, "10.77.0.2", &["--receive-buffer", "64KiB", "--probes", "60s"]);
    let mut sender = Net::sender(&net.far, FAR, NEAR);
    let pid = receiver.child.id();
    for _ in 0..5 {
        sender.burst(1);
        sender.spoil(Spoilt::Checksum);
    }
    signal(&receiver, "-STOP", 'T');
    until(&mut sender, || snmp(pid, "Udp", "RcvbufErrors") > 5);
    signal(&receiver, "-CONT", 'S');
    let said = end(&sender, receiver);
    // Shared packets are in `unknown`, so that the places add up; the known part is listed next to it.
    let summary = check(sender.sent, &said, "unknown");
    let lost = sender.sent - summary["packets"]["accepted"].as_u64().unwrap();
    let shared = json!([{"places": ["link", "socket"], "packets": lost}]);
    assert_eq!(summary["packets"]["lost_shared"], shared);
    assert!(said.err.contains("at link or socket"), "{}", said.err);
}
