//! `fullcount lab link-emulator` as a user runs it: wrong options, namespaces created and removed, interfaces that
//! exist, are busy or missing. Rates are not judged here: tests share the host with others.

use crate::service;
use std::process::{Command, Stdio};

use crate::service::{Said, Service, say};
use fullcount_core::sim::ChannelSetup;
use fullcount_lab::emulator::{EmulatorPlan, network};
use fullcount_lab::namespace;
use serde_json::Value;

#[test]
fn wrong_options_are_refused_before_anything_is_opened() {
    for (words, parts) in [
        (&["--make", "--rate", "14Mpps"][..], &["rate", "14Mpps", "10Gbps"][..]),
        (&["--make", "--rate", "fast"], &["rate", "fast"]),
        (&["--make", "--delay", "5"], &["delay", "8s"]),
        (&["--make", "--delay", "2min"], &["delay", "60 s"]),
        (&["--make", "--jitter", "2min"], &["jitter", "60 s"]),
        (&["--make", "--fault", "eat=1"], &["fault", "eat=1"]),
        (&["--make", "--fault", "drop=5"], &["of=N"]),
        (&["--make", "--queue", "some"], &["queue", "64KiB"]),
        (&["--make", "--queue-packets", "0"], &["queue of 0"]),
        (&["--make", "--back", "maybe"], &["back", "same or clear"]),
        (&["--make", "--memory", "much"], &["memory", "much"]),
        (&["--make", "--cores", "4096,0"], &["cores", "4096"]),
        (&["--make", "--cores", "0"], &["cores", "two CPUs"]),
        (&["--make", "--mtu", "5"], &["mtu", "68"]),
        (&["--make", "--duration", "5"], &["duration", "8s"]),
        (&["--between", "eth0"], &["between", "two interfaces"]),
        (&["--between", "eth0,eth0"], &["between", "two different"]),
        (&["--measure", "--sizes", "5"], &["sizes", "24"]),
        (&["--measure", "--engine", "warp"], &["engine", "warp"]),
        (&["--measure", "--resolution", "0%"], &["resolution"]),
        (&["--make", "--thorough"], &["--measure"]),
        (&[], &["--make", "--between"]),
        (&["--make", "--measure"], &["cannot be used with"]),
    ] {
        let said = say(&[&["lab", "link-emulator"], words].concat());
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{words:?}: {}", said.err);
        for part in parts {
            assert!(said.err.contains(part), "{words:?} must say {part}: {}", said.err);
        }
    }
}

/// Prints why the rest of a test is skipped, or fails in CI.
fn lacking() -> bool {
    if namespace::allowed() {
        return false;
    }
    let reason = "interfaces and namespaces need root";
    assert!(std::env::var_os("CI").is_none(), "CI must have it: {reason}");
    println!("skipped: {reason}");
    true
}

#[test]
fn without_the_right_to_it_says_so() {
    if namespace::allowed() {
        // Root without its capabilities is like any user.
        let binary = env!("CARGO_BIN_EXE_fullcount");
        let mut c = Command::new("setpriv");
        c.args(["--bounding-set=-all", "--inh-caps=-all", binary]);
        let output = c.args(["lab", "link-emulator", "--make"]).stdin(Stdio::null()).output();
        let Ok(output) = output else {
            assert!(std::env::var_os("CI").is_none(), "CI must have setpriv (util-linux)");
            println!("skipped: setpriv (util-linux) is not installed");
            return;
        };
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{err}");
        assert!(err.contains("need root") && err.contains("sudo"), "{err}");
    } else {
        let said = say(&["lab", "link-emulator", "--make"]);
        assert_eq!(said.code, 1);
        assert!(said.err.contains("need root"), "{}", said.err);
    }
}

/// The emulator with its own namespaces; returns the names of A and B.
fn make(words: &[&str]) -> (Service, String, String) {
    let all = [&["lab", "link-emulator", "--make", "--json"], words].concat();
    let mut emulator = Service::start(&all);
    let name = |l: &str, end: &str| {
        let rest = l.strip_prefix(end)?.trim_start();
        rest.split_once("namespace ").map(|(_, name)| name.to_owned())
    };
    let a = emulator.wait_for("A's name", |l| name(l, "A "));
    let b = emulator.wait_for("B's name", |l| name(l, "B "));
    emulator.wait_for("the link", |l| l.contains("the link is up").then_some(()));
    (emulator, a, b)
}

fn inside(namespace: &str, words: &[&str]) -> Command {
    let mut c = Command::new("ip");
    c.args(["netns", "exec", namespace, env!("CARGO_BIN_EXE_fullcount")]).args(words);
    c.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    c
}

fn last_line(bytes: &[u8]) -> Value {
    let text = String::from_utf8_lossy(bytes);
    serde_json::from_str(text.lines().last().unwrap_or_default()).unwrap()
}

#[test]
fn numbered_packets_cross_the_made_link_and_its_faults_are_what_the_receiver_finds() {
    if lacking() {
        return;
    }
    // Below 1280 B there is no IPv6 and none of its chatter: every frame is ours.
    let fault = "drop=20,duplicate=10,swap=30,of=2000,seed=9";
    let (emulator, a, b) = make(&["--mtu", "1200", "--fault", fault, "--back", "clear"]);
    let url = "udp://10.202.0.2:9000";
    let receive = ["receive", url, "--json"];
    let mut receiver = inside(&b, &receive).spawn().unwrap();
    // Ready when its port is in the kernel's table.
    let path = format!("/run/netns/{b}");
    let bound = || {
        let table = fullcount_io::sys::in_namespace(std::path::Path::new(&path), || {
            std::fs::read_to_string("/proc/thread-self/net/udp").unwrap_or_default()
        });
        table.unwrap().contains(":2328 ")
    };
    let begun = std::time::Instant::now();
    while !bound() {
        assert!(begun.elapsed() < service::PATIENCE, "the receiver does not open its port");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let send =
        ["send", "--to", url, "--size", "100", "--count", "1995", "--rate", "20kpps", "--json"];
    let sent = inside(&a, &send).output().unwrap();
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    let _ = receiver.wait().unwrap();
    let received = last_line(&receiver.wait_with_output().unwrap().stdout);
    emulator.interrupt();
    let said = emulator.end();
    assert_eq!(said.code, 0, "faults that were asked for are no failure: {}", said.err);
    let ledger = said.summary();
    assert_eq!(
        (&ledger["schema"], &ledger["balance"]),
        (&"fullcount/link-emulator/1".into(), &0.into())
    );
    // 1995 packets and 5 end marks, the last of which may meet the receiver's end.
    let there = &ledger["directions"][0]["frames"];
    let count = |key: &str| there[key].as_u64().unwrap();
    assert_eq!((count("lost"), count("doubled"), count("moved")), (20, 10, 30), "{ledger}");
    assert_eq!(count("taken") + count("doubled"), count("sent") + count("lost") + count("inside"));
    // What the emulator took, the receiver misses; a fault may have met an end mark instead of a packet.
    let packets = &received["packets"];
    let lost: u64 = packets["lost"].as_object().unwrap().values().flat_map(Value::as_u64).sum();
    assert!((15..=20).contains(&lost), "{received}");
    assert!((5..=10).contains(&packets["duplicate"].as_u64().unwrap()), "{received}");
    for name in [a, b] {
        assert!(!std::path::Path::new("/run/netns").join(name).exists(), "removed");
    }
}

/// The binary inside the middle of a network that is not its own.
fn between(network: &namespace::NamespaceNetwork, interfaces: &str) -> Said {
    let words = ["lab", "link-emulator", "--between", interfaces, "--duration", "200ms", "--json"];
    let output = inside(network.name(1), &words).output().unwrap();
    Said {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn given_interfaces_are_joined_and_busy_missing_or_down_ones_are_named() {
    if lacking() {
        return;
    }
    let network = network::build(1500).unwrap();
    let said = between(&network, "link0,link1");
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(said.summary()["directions"][1]["from"], "link1");
    assert!(said.err.contains("link0 -> link1") && said.err.contains("balance"), "{}", said.err);
    let said = between(&network, "link0,fc-no-such");
    assert_eq!(said.code, 1);
    assert!(said.err.contains("no interface fc-no-such"), "{}", said.err);
    let plan = EmulatorPlan {
        interfaces: [String::new(), String::new()],
        setups: [ChannelSetup::default(); 2],
        cores: [None, None],
        busy_poll: false,
    };
    let first = network::start(&network, &plan).unwrap();
    let said = between(&network, "link0,link1");
    assert_eq!(said.code, 1);
    assert!(said.err.contains("link0 is busy"), "{}", said.err);
    drop(first);
    network.ip(1, ["link", "set", "link0", "down"]).unwrap();
    let said = between(&network, "link0,link1");
    assert_eq!(said.code, 1);
    assert!(said.err.contains("link0 is down"), "{}", said.err);
}
