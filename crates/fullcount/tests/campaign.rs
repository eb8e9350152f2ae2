//! `lab udp` from end to end, tiny: on loopback, in namespaces, with an agent; interrupted, resumed, killed.
//!
//! Speeds and losses depend on this host and are never judged here. The tests check that every trial adds up, that
//! files are complete, and that nothing is left behind. Tests that need root say so.

mod refused;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::service::{PATIENCE, Said, Service, say};
use fullcount_lab::namespace::{self, Layout, NamespaceNetwork, VethPair};
use serde_json::Value;

/// Options of a tiny campaign.
const TINY: [&str; 8] =
    ["--duration", "300ms", "--warm-up", "0s", "--rate", "20Mbps", "--sizes", "64,1472,8972"];

fn udp(out: &Path, more: &[&str]) -> Vec<String> {
    let out = out.display().to_string();
    let words = ["lab", "udp", "--out", &out, "--name", "tiny", "--overwrite"];
    let words = words.into_iter().chain(TINY);
    words.chain(more.iter().copied()).map(str::to_owned).collect()
}

/// With trials that are long enough for an interval on any scheduling of processes.
fn longer(mut words: Vec<String>) -> Vec<String> {
    words.iter_mut().filter(|w| *w == TINY[1]).for_each(|w| *w = "1s".into());
    words
}

fn run(words: &[String]) -> Said {
    say(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

fn start(words: &[String]) -> Service {
    Service::start(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

fn result(out: &Path) -> Value {
    let text = std::fs::read_to_string(out.join("tiny.json")).expect("a results file");
    serde_json::from_str(&text).expect("JSON")
}

/// Prints why a test is skipped, or fails in CI.
fn lacks_namespaces() -> bool {
    let Some(reason) = namespace::lacking() else { return false };
    assert!(std::env::var_os("CI").is_none(), "CI must have it: {reason}");
    println!("skipped: {reason}");
    true
}

/// Namespaces that process `maker` has now. Those of an ended process may be removed at any moment by the next campaign
/// on this host, so a test can only wait for their removal.
fn left_by(maker: u32) -> usize {
    let Ok(names) = std::fs::read_dir("/run/netns") else { return 0 };
    // fullcount-PURPOSE-PID-START-NUMBER-HOST: a clock tick may look like a process number.
    let mine = |name: &str| {
        let words: Vec<&str> = name.split('-').collect();
        words[0] == "fullcount" && words.len() == 6 && words[2].parse() == Ok(maker)
    };
    names.flatten().filter(|e| mine(&e.file_name().to_string_lossy())).count()
}

fn every_trial_adds_up(result: &Value, trials: usize) {
    let all = result["trials"].as_array().expect("trials");
    assert_eq!(all.len(), trials);
    for t in all {
        let o = &t["outcome"];
        let n = |key: &str| o[key].as_u64().unwrap_or_else(|| panic!("{key}: {t}"));
        assert!(n("sent") > 0, "{t}");
        assert_eq!(n("sent"), n("delivered") + n("lost") + n("set_aside"), "{t}");
    }
}

fn token(folder: &Path, text: &str) -> String {
    let path = folder.join(format!("token-{text}"));
    std::fs::write(&path, text).expect("written");
    set_mode(&path, 0o600);
    path.display().to_string()
}

fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("its mode");
}

/// An agent on loopback, and its port.
fn agent(token: &str) -> (Service, String) {
    let mut agent =
        Service::start(&["lab", "agent", "--listen", "127.0.0.1:0", "--token-file", token]);
    let at = agent.wait_for("the agent's address", |l| {
        Some(l.strip_prefix("agent listening on ")?.to_owned())
    });
    (agent, at)
}

/// Ends of a measurement that run for a process: its children that are `receive` or `send` by now. It has other
/// short-lived children, git and ip, and these two are `ip netns exec` at first.
fn ends_of(process: u32) -> Vec<(String, u32)> {
    // The agent starts its children on the thread of the conversation.
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let mut all = Vec::new();
    for task in tasks {
        let text = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in text.split_whitespace().filter_map(|w| w.parse::<u32>().ok()) {
            let line = std::fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
            let verb = line.split(|b| *b == 0).nth(1).unwrap_or_default();
            if matches!(verb, b"receive" | b"send") {
                all.push((String::from_utf8_lossy(verb).into_owned(), child));
            }
        }
    }
    all
}

/// Waits until a campaign measures: both its ends run. Their process numbers, the receiver's first.
fn both_ends(maker: u32) -> [u32; 2] {
    let mut found = None;
    until("both ends", || {
        let ends = ends_of(maker);
        let end = |verb: &str| ends.iter().find(|(v, _)| v == verb).map(|(_, process)| *process);
        found = end("receive").zip(end("send"));
        found.is_some()
    });
    found.map(|(receiver, sender)| [receiver, sender]).expect("waited for")
}

/// True when a process has ended, even if its parent has not waited for it.
fn gone(process: u32) -> bool {
    !Path::new(&format!("/proc/{process}/exe")).exists()
}

/// Waits for something that another process does, with a bound that only turns a hang into a failure.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

fn kill(process: u32) {
    let ok = Command::new("kill").args(["-KILL", &process.to_string()]).status();
    assert!(ok.expect("kill runs").success());
}

#[test]
fn loopback_gives_json_tables_and_figures() {
    let dir = tempfile::tempdir().unwrap();
    let more =
        ["--repeats", "2", "--engines", "plain,both,packet", "--parameters", "default", "--json"];
    let said = run(&udp(dir.path(), &more));
    assert_eq!(said.code, 0, "{}", said.err);
    let result = result(dir.path());
    assert_eq!(result["schema"], "fullcount/udp-campaign/1");
    every_trial_adds_up(&result, 2 * 3 * 3);
    // The same object, alone on the last line.
    assert_eq!(said.summary(), result);
    assert_eq!(result["plan"]["series"][0]["name"], "default, plain");
    assert_eq!(result["plan"]["series"][0]["receive_buffer"], "kernel");
    assert!(result["found"]["host"]["kernel"].is_string() && result["revision"].is_string());
    assert!(result["found"]["sets"]["default, both"]["mtu"].as_u64() >= Some(1500));
    // One system call a packet is what `plain` means; the last one of each batch may bring nothing.
    let plain = result["rows"].as_array().unwrap().iter().find(|r| r["series"] == "default, plain");
    let calls = plain.unwrap()["sender_calls_per_packet"].as_f64().unwrap();
    assert!((0.99..1.1).contains(&calls), "{calls}");
    let calls = plain.unwrap()["receiver_calls_per_packet"].as_f64().unwrap();
    assert!(calls >= 1.0, "{calls}");
    let text = std::fs::read_to_string(dir.path().join("tiny.md")).unwrap();
    assert!(text.contains("| user data size, B |") && text.contains("| 8972 |"), "{text}");
    for part in ["speed", "per", "cpu"] {
        let svg = std::fs::read_to_string(dir.path().join(format!("tiny-{part}.svg"))).unwrap();
        assert!(svg.contains("default, plain") && svg.trim_end().ends_with("</svg>"), "{part}");
        let png = std::fs::read(dir.path().join(format!("tiny-{part}.png"))).unwrap();
        assert!(png.starts_with(b"\x89PNG\r\n\x1a\n") && png.len() > 10_000, "{part}");
    }
    assert!(!dir.path().join("tiny.state.jsonl").exists(), "nothing to resume");
}

#[test]
fn namespaces_are_made_measured_and_removed() {
    if lacks_namespaces() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let more = ["--where", "namespaces", "--repeats", "1", "--cpu-pass", "--cpu-interval", "200ms"];
    let campaign = start(&longer(udp(dir.path(), &[&more[..], &["--cut-segments"]].concat())));
    let maker = campaign.child.id();
    let said = campaign.end();
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(left_by(maker), 0);
    let journals = std::fs::read_dir("/run/fullcount").map(|d| {
        let name = format!("fullcount-sysctl-{maker}-");
        d.flatten().filter(|e| e.file_name().to_string_lossy().starts_with(&name)).count()
    });
    assert_eq!(journals.unwrap_or(0), 0, "settings are put back");
    let result = result(dir.path());
    every_trial_adds_up(&result, 2 * 3 * 2);
    let sets = &result["found"]["sets"];
    assert_eq!((&sets["default"]["mtu"], &sets["tuned"]["mtu"]), (&1500.into(), &9000.into()));
    let on = sets["tuned"]["features_on"].to_string();
    assert!(on.contains("tx-checksum") && !on.contains("tx-udp-segmentation"), "{on}");
    let cpu: Vec<&Value> = result["trials"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|t| t["point"]["pass"] == "cpu")
        .collect();
    assert_eq!(cpu.len(), 6);
    for t in cpu {
        for end in ["receiver", "sender"] {
            let intervals = t["outcome"][end]["intervals"].as_array().unwrap();
            assert!(!intervals.is_empty(), "{end}: {t}");
            assert!(intervals.iter().all(|i| i["voluntary_per_s"].is_f64()), "{end}: {t}");
        }
    }
    // 8972 B fit one jumbo frame, and 7 of 1500 B.
    let text = std::fs::read_to_string(dir.path().join("tiny.md")).unwrap();
    assert!(text.contains("| 8972 | 7 |") && text.contains("| 8972 | 1 |"), "{text}");
}

#[test]
fn every_way_to_receive_is_measured_between_namespaces() {
    if lacks_namespaces() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let ways = "gso,gro,both,auto,packet,xdp";
    let more = ["--where", "namespaces", "--repeats", "1", "--engines", ways, "--no-figures"];
    let sets = ["--parameters", "tuned", "--cpu-pass", "--cpu-interval", "200ms", "--json"];
    let campaign = start(&udp(dir.path(), &[&more[..], &sets].concat()));
    let maker = campaign.child.id();
    let said = campaign.end();
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(left_by(maker), 0);
    let result = result(dir.path());
    every_trial_adds_up(&result, 6 * 3 * 2);
    for t in result["trials"].as_array().unwrap() {
        let o = &t["outcome"];
        assert_eq!(o["ended_by_mark"], true, "{t}");
        // What a row of the table needs is there for frames as for sockets.
        let receiver = &o["receiver"];
        assert!(receiver["user"].is_f64() && receiver["system"].is_f64(), "{t}");
        assert!(receiver["calls_per_packet"].as_f64().unwrap() > 0.0, "{t}");
        let facts = receiver["facts"].to_string();
        let series = t["point"]["series"].as_str().unwrap();
        let sign = match series.rsplit(' ').next().unwrap() {
            "xdp" => "engine xdp: native mode",
            "packet" => "engine packet: AF_PACKET ring",
            "gso" => "engine mmsg",
            _ => "engine gro",
        };
        assert!(facts.contains(sign), "{series}: {facts}");
    }
}

#[test]
fn an_interrupted_campaign_is_resumed_with_the_same_options_only() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().display().to_string();
    let words = ["lab", "udp", "--out", &out, "--name", "tiny", "--no-figures", "--warm-up", "0s"];
    let more = ["--sizes", "64,1472", "--repeats", "2", "--parameters", "default"];
    // Trials long enough to be interrupted in time.
    let words = [&words[..], &more, &["--duration", "1500ms", "--rate", "20Mbps"]].concat();
    let mut campaign = Service::start(&words);
    campaign.wait_for("the second point", |l| l.starts_with("[2/4]").then_some(()));
    campaign.interrupt();
    let said = campaign.end();
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("--resume"), "{}", said.err);
    let state = dir.path().join("tiny.state.jsonl");
    // The first line holds the plan.
    let done = std::fs::read_to_string(&state).unwrap().lines().count() - 1;
    assert!((1..4).contains(&done), "{done}");
    let said = say(&[&words[..], &["--link-speed", "1Gbps", "--resume"]].concat());
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("campaign had link_bits_per_s 10000000000"), "{}", said.err);
    let said = say(&[&words[..], &["--resume"]].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.err.contains(&format!("{done} trials are there already")), "{}", said.err);
    assert!(!said.err.contains("[1/4]"), "{}", said.err);
    every_trial_adds_up(&result(dir.path()), 4);
    assert!(!state.exists());
    let said = say(&[&words[..], &["--resume"]].concat());
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("no interrupted campaign"), "{}", said.err);
}

#[test]
fn an_agent_does_either_part_and_keeps_strangers_out() {
    let dir = tempfile::tempdir().unwrap();
    let right = token(dir.path(), "0123456789abcdef");
    let (agent, at) = agent(&right);
    let far = |more: &[&str]| {
        let all = ["--where", &at, "--repeats", "1", "--parameters", "default", "--no-figures"];
        run(&longer(udp(dir.path(), &[&all[..], more].concat())))
    };
    for verb in ["receive", "send"] {
        let said =
            far(&["--token-file", &right, "--far", verb, "--cpu-pass", "--cpu-interval", "100ms"]);
        assert_eq!(said.code, 0, "{verb}: {}", said.err);
        let result = result(dir.path());
        every_trial_adds_up(&result, 6);
        assert!(result["found"]["far_host"]["kernel"].is_string(), "{verb}");
        let which = if verb == "receive" { "far" } else { "here" };
        assert_eq!(result["found"]["receiver"], which);
        // Intervals of the far end came over the line.
        let ends = ["receiver", "sender"].map(|end| {
            let intervals = &result["trials"][5]["outcome"][end]["intervals"];
            intervals.as_array().map_or(0, Vec::len)
        });
        assert!(ends.iter().all(|n| *n > 0), "{verb}: {ends:?}");
    }
    // A client that never ends its line is disconnected, and the agent continues.
    use std::io::{Read, Write};
    let mut stranger = std::net::TcpStream::connect(&at).unwrap();
    stranger.write_all(&[b'x'; 10_000]).unwrap();
    // Hung up politely, or with what we had still sent unread.
    let _ = stranger.read_to_end(&mut Vec::new());
    let wrong = token(dir.path(), "fedcba9876543210");
    let said = far(&["--token-file", &wrong]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("wrong token"), "{}", said.err);
    let said = far(&[]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("--token-file"), "{}", said.err);
    let short = token(dir.path(), "short");
    let said = far(&["--token-file", &short]);
    assert!(said.code == 2 && said.err.contains("less than 16"), "{}", said.err);
    let open = token(dir.path(), "0123456789abcdef-open");
    set_mode(Path::new(&open), 0o644);
    let said = far(&["--token-file", &open]);
    assert!(said.code == 2 && said.err.contains(&format!("chmod 600 {open}")), "{}", said.err);
    let said = say(&["lab", "agent", "--listen", "127.0.0.1:0", "--token-file", &open]);
    assert!(said.code == 2 && said.err.contains("(mode 644)"), "{}", said.err);
    let said = far(&["--token-file", &right, "--interface", "fc-none0"]);
    assert!(said.code == 1 && said.err.contains("no such interface"), "{}", said.err);
    agent.interrupt();
    assert_eq!(agent.end().code, 0);
    let said = far(&["--token-file", &right]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("is 'fullcount lab agent' running there"), "{}", said.err);
}

#[test]
fn an_agent_outlives_a_killed_campaign_and_a_campaign_tells_of_a_killed_agent() {
    let dir = tempfile::tempdir().unwrap();
    let secret = token(dir.path(), "0123456789abcdef");
    let (mut agent, at) = agent(&secret);
    let process = agent.child.id();
    let common = ["--where", &at, "--token-file", &secret, "--repeats", "1", "--no-figures"];
    let common = [&common[..], &["--parameters", "default"]].concat();
    // A trial that would take an hour.
    let words = [&common[..], &["--duration", "1h", "--sizes", "64"]].concat();
    let out = dir.path().display().to_string();
    let long = || {
        let head =
            ["lab", "udp", "--out", &out, "--name", "tiny", "--overwrite", "--warm-up", "0s"];
        let words = [&head[..], &["--rate", "1Mbps"], &words[..]].concat();
        Service::start(&words)
    };
    let mut campaign = long();
    until("the agent's child", || !ends_of(process).is_empty());
    // A second campaign has to wait.
    let said = run(&udp(dir.path(), &common));
    assert!(said.code == 1 && said.err.contains("another campaign"), "{}", said.err);
    kill(campaign.child.id());
    assert!(campaign.child.ended(PATIENCE).unwrap());
    until("the child's end", || ends_of(process).is_empty());
    agent.wait_for("the end of the conversation", |l| {
        (l.contains("campaign ended") || l.contains("reset")).then_some(())
    });
    // It serves the next one.
    let said = run(&udp(dir.path(), &common));
    assert_eq!(said.code, 0, "{}", said.err);
    // Now the agent dies.
    let campaign = long();
    until("the agent's child", || !ends_of(process).is_empty());
    let orphans = ends_of(process);
    kill(process);
    let said = campaign.end();
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains(&at) && said.err.contains("in mid-run"), "{}", said.err);
    // No process was left to kill the receiver: it ends because its standard input was closed with the agent.
    until("the receiver's end", || orphans.iter().all(|(_, p)| gone(*p)));
}

#[test]
fn a_receiver_killed_in_mid_run_ends_the_campaign_and_leaves_no_namespace() {
    if lacks_namespaces() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().display().to_string();
    let words = ["lab", "udp", "--out", &out, "--name", "tiny", "--where", "namespaces"];
    let more = ["--duration", "1h", "--rate", "1Mbps", "--warm-up", "0s", "--sizes", "64"];
    let campaign = Service::start(&[&words[..], &more, &["--parameters", "default"]].concat());
    let maker = campaign.child.id();
    let [receiver, _] = both_ends(maker);
    kill(receiver);
    let said = campaign.end();
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("receive: ended with signal: 9"), "{}", said.err);
    assert_eq!(left_by(maker), 0);
    assert!(!dir.path().join("tiny.state.jsonl").exists(), "nothing was measured");
}

#[test]
fn ctrl_c_removes_the_namespaces_and_a_kill_leaves_them_to_the_next_campaign() {
    if lacks_namespaces() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let long = || {
        let out = dir.path().display().to_string();
        let words = ["lab", "udp", "--out", &out, "--name", "tiny", "--where", "namespaces"];
        let more = ["--duration", "1h", "--rate", "1Mbps", "--warm-up", "0s", "--sizes", "64"];
        Service::start(&[&words[..], &more, &["--overwrite"]].concat())
    };
    let campaign = long();
    let maker = campaign.child.id();
    both_ends(maker);
    assert_eq!(left_by(maker), 2, "while it measures");
    campaign.interrupt();
    let said = campaign.end();
    assert_eq!((said.code, left_by(maker)), (1, 0), "{}", said.err);
    assert!(said.err.contains("interrupted"), "{}", said.err);
    let mut campaign = long();
    let maker = campaign.child.id();
    let orphans = both_ends(maker);
    assert_eq!(left_by(maker), 2, "nobody removes what a running campaign has");
    kill(maker);
    assert!(campaign.child.ended(PATIENCE).unwrap());
    let network =
        NamespaceNetwork::build(&Layout { purpose: "next".into(), hosts: 1, links: vec![] });
    // This one removed them, or another test's campaign did, or is doing it just now.
    until("the end of its namespaces", || left_by(maker) == 0);
    drop(network.unwrap());
    // The programs inside were ended with them.
    until("the end of its programs", || orphans.iter().all(|p| gone(*p)));
}

#[test]
fn a_volume_is_sent_to_the_packet() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().display().to_string();
    let words = ["lab", "udp", "--out", &out, "--name", "tiny", "--volume", "1MB", "--no-figures"];
    let more = ["--sizes", "64,1472", "--warm-up", "0s", "--repeats", "1", "--rate", "50Mbps"];
    let said = say(&[&words[..], &more, &["--parameters", "default"]].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let result = result(dir.path());
    every_trial_adds_up(&result, 2);
    // 1,000,000 B / 64 B, and / 1472 B rounded up.
    let sent = [0, 1].map(|i| result["trials"][i]["outcome"]["sent"].clone());
    assert_eq!(sent, [15_625, 680]);
    let said = say(&[&words[..], &["--duration", "1s"]].concat());
    assert_eq!(said.code, 2, "one or the other: {}", said.err);
}

#[test]
fn two_hosts_with_a_link_that_is_too_small() {
    if lacks_namespaces() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let secret = token(dir.path(), "0123456789abcdef");
    let layout = Layout::pair("hosts", VethPair::between(0, 1, 1500));
    let network = NamespaceNetwork::build(&layout).unwrap();
    let program = env!("CARGO_BIN_EXE_fullcount");
    let far = network.address(0, 1).to_string();
    let mut agent = network.command(1, program);
    agent.args(["lab", "agent", "--listen", &far, "--token-file", &secret]);
    let mut agent = Service::run(agent);
    agent.wait_for("the agent's address", |l| {
        l.contains("listening on 10.201.0.2:9440").then_some(())
    });
    let run = |more: &[&str]| {
        let all = ["--where", &far, "--token-file", &secret, "--repeats", "1", "--no-figures"];
        let mut words = udp(dir.path(), &[&all[..], more].concat());
        if more.contains(&"--engines") {
            // What takes frames puts no fragments together.
            words.iter_mut().filter(|w| *w == "64,1472,8972").for_each(|w| *w = "64,1472".into());
        }
        let done = network.command(0, program).args(words).output().unwrap();
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let (code, err) = run(&["--parameters", "tuned"]);
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("10.201.0.2: its MTU is 1500 B, parameters 'tuned' want 9000 B"), "{err}");
    let (code, err) = run(&["--parameters", "tuned", "--interface", "link0"]);
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("link0: its MTU is 1500 B"), "{err}");
    let (code, err) = run(&["--parameters", "default,tuned", "--mtu", "1500"]);
    assert_eq!(code, Some(0), "{err}");
    every_trial_adds_up(&result(dir.path()), 6);
    // The receiving end finds the interface of the measured link itself, on either host.
    for far in ["receive", "send"] {
        let (code, err) =
            run(&["--parameters", "default", "--engines", "xdp,packet", "--far", far]);
        assert_eq!(code, Some(0), "{err}");
        let result = result(dir.path());
        every_trial_adds_up(&result, 4);
        let facts = result["trials"][0]["outcome"]["receiver"]["facts"].to_string();
        assert!(facts.contains("listening on link0 for UDP port"), "{facts}");
    }
    // No interface of the far host has this address.
    let more = ["--parameters", "default", "--engines", "xdp", "--data", "192.0.2.7"];
    let (code, err) = run(&more);
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("192.0.2.7") && err.contains("--data"), "{err}");
    let (code, err) = run(&["--parameters", "default", "--engines", "xdp", "--mtu", "1400"]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("1472: does not fit the MTU of 1400 B"), "{err}");
    drop(agent);
}

#[test]
fn an_ablation_is_a_table_of_gains_and_losses_decide_only_if_asked() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().display().to_string();
    let words = ["lab", "udp", "--out", &out, "--name", "tiny", "--ablate", "--sizes", "1472"];
    let more = ["--duration", "50ms", "--warm-up", "0s", "--repeats", "1", "--rate", "10Mbps"];
    let said = say(&[&words[..], &more].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    for name in
        ["tuned", "no GSO", "no GRO", "no batch", "clock per packet", "same core", "busy poll"]
    {
        assert!(said.out.contains(&format!("| {name} |")), "{name}: {}", said.out);
    }
    assert!(!said.out.contains("| xdp |"), "loopback has no driver: {}", said.out);
    assert!(!said.out.contains("MTU 1500"), "loopback's MTU is not ours: {}", said.out);
    assert!(!dir.path().join("tiny-speed.svg").exists());
    // A rate that no host reaches: asked to be lossless, that alone is a failure.
    // The table of before goes.
    assert_eq!(say(&words).code, 2, "not unasked");
    let words = ["lab", "udp", "--out", &out, "--name", "tiny", "--sizes", "1472", "--no-figures"];
    let more = ["--duration", "50ms", "--warm-up", "0s", "--repeats", "1", "--rate", "900Gbps"];
    let words = [&words[..], &more, &["--parameters", "default", "--overwrite"]].concat();
    assert_eq!(say(&words).code, 0);
    let said = say(&[&words[..], &["--require-lossless"]].concat());
    assert!(matches!(said.code, 1 | 3), "{}", said.err);
    assert!(said.err.contains("asked for 900 Gb/s"), "{}", said.err);
}
