//! How a run ends: limits, Ctrl-C, kill -9, the demonstration.

use crate::service;
use crate::service::{Said, Service, fullcount, get, say, vector};

#[test]
fn ctrl_c_drains_closes_the_file_and_prints_the_ledger() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.nxs").display().to_string();
    let mut run = Service::start(&[
        "run",
        "--source",
        "udp://127.0.0.1:0",
        "--detector",
        "sonde",
        "--nexus",
        &file,
        "--web",
        "off",
    ]);
    let to = format!("udp://127.0.0.1:{}", run.udp_port());
    let sent = say(&[
        "send", "--to", &to, "--source", "sonde", "--count", "2000", "--rate", "20kpps", "--json",
    ]);
    assert_eq!(sent.code, 0, "{}", sent.err);
    run.interrupt();
    let said = run.end();
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.contains("balance"), "{}", said.out);
    assert!(said.out.contains("500,000 events"), "{}", said.out);
    let f = hdf5_metno::File::open(&file).expect("a complete file opens without SWMR");
    let ids = f.dataset("entry/instrument/sonde/sonde_events/event_id").unwrap();
    assert_eq!(ids.size(), 500_000);
}

#[test]
fn a_killed_run_leaves_a_file_that_recover_makes_readable() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.nxs").display().to_string();
    let mut run = Service::start(&[
        "run",
        "--source",
        "udp://127.0.0.1:0",
        "--detector",
        "sonde",
        "--nexus",
        &file,
        "--web",
        "127.0.0.1:0",
    ]);
    let page = run.page();
    let to = format!("udp://127.0.0.1:{}", run.udp_port());
    let mut send = Service::start(&[
        "send",
        "--to",
        &to,
        "--source",
        "sonde",
        "--duration",
        "30s",
        "--rate",
        "4kpps",
    ]);
    // Kill it once the page says that a flush has put events on disk.
    let end = std::time::Instant::now() + service::PATIENCE;
    let flushed = loop {
        let metrics = get(&page, "/metrics");
        let line = metrics.lines().find(|l| l.starts_with("fullcount_sink_nexus_events"));
        let value = line.and_then(|l| l.rsplit(' ').next()?.parse::<f64>().ok()).unwrap_or(0.0);
        if value > 0.0 {
            break value as u64;
        }
        assert!(std::time::Instant::now() < end, "{metrics}");
    };
    run.child.kill();
    send.child.kill();
    let said = say(&["recover", &file, "--json"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let events = said.summary()["files"][&file]["events"].as_u64().unwrap();
    assert!(events >= flushed, "{events} recovered, {flushed} were flushed");
    let f = hdf5_metno::File::open(&file).expect("opens for every reader");
    let ids = f.dataset("entry/instrument/sonde/sonde_events/event_id").unwrap();
    assert_eq!(ids.size() as u64, events);
}

#[test]
fn a_limit_of_file_sizes_is_an_error_of_the_file_and_not_the_end_of_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.nxs").display().to_string();
    let source = format!("pcap:{}?flat-out", vector("sonde/sonde.pcap"));
    // Blocks of 512 or 1024 bytes: 1 or 2 MiB. The first chunk of events has 4 MiB.
    let output = std::process::Command::new("sh")
        .args(["-c", "ulimit -f 2048; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_fullcount"), "run"])
        .args([
            "--source",
            &source,
            "--detector",
            "sonde",
            "--nexus",
            &file,
            "--web",
            "off",
            "--json",
        ])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "no signal: {output:?}");
    let said = Said {
        code: 1,
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    };
    assert!(
        said.err.contains("a.nxs: cannot ") && said.err.contains("File too large"),
        "{}",
        said.err
    );
    assert!(said.counter("sink.nexus.unwritten") > 0);
}

#[test]
fn the_printed_configuration_runs_the_same_thing() {
    let dir = tempfile::tempdir().unwrap();
    let source = format!("pcap:{}?flat-out", vector("sonde/sonde.pcap"));
    let flags = ["--source", &source, "--sink", "null", "--web", "off"];
    let mut print = vec!["run", "--print-config"];
    print.extend(flags);
    let said = say(&print);
    assert_eq!(said.code, 0, "{}", said.err);
    let config = dir.path().join("run.toml");
    std::fs::write(&config, &said.out).unwrap();
    let by_file = say(&["run", &config.display().to_string(), "--json"]);
    let mut by_flags = vec!["run", "--json"];
    by_flags.extend(flags);
    let by_flags = say(&by_flags);
    assert_eq!(by_file.summary()["counters"], by_flags.summary()["counters"]);
    assert_eq!(by_file.summary()["events"], 467);
}

#[test]
fn the_demonstration_ends_with_four_equal_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().display().to_string();
    let said =
        say(&["demo", "--duration", "3s", "--dir", &folder, "--web", "127.0.0.1:0", "--json"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let four = &said.summary()["demo"];
    assert_eq!(four["packets_sent"], four["packets_delivered"]);
    assert_eq!(four["events_made"], four["events_in_file"]);
    // How many of the 1 M events/s come is the host's business; whole packets of 250 is ours.
    let events = four["events_made"].as_u64().unwrap();
    assert!(events > 0 && events.is_multiple_of(250), "{events}");
    let s = said.summary();
    assert_eq!((s["balance"].as_u64(), s["per"].as_f64()), (Some(0), Some(0.0)));
}

#[test]
fn every_verb_has_help_with_examples() {
    // As a person finds them: what `--help` lists, and what that lists in turn.
    let listed = |words: &[&str]| -> Vec<String> {
        let said = say(&[words, &["--help"]].concat());
        assert_eq!(said.code, 0, "{words:?}: {}", said.err);
        let list = said.out.split_once("Commands:\n").map_or("", |(_, rest)| rest);
        let entries = list.lines().take_while(|l| l.starts_with("  "));
        let entries =
            entries.filter(|l| !l.starts_with("   ")).filter_map(|l| l.split_whitespace().next());
        entries.filter(|verb| *verb != "help").map(str::to_owned).collect()
    };
    let verbs = listed(&[]);
    assert!(verbs.len() >= 9, "{verbs:?}");
    let campaigns = listed(&["lab"]);
    assert!(campaigns.len() >= 8, "{campaigns:?}");
    let single = verbs.iter().filter(|v| *v != "lab").map(|v| vec![v.as_str()]);
    let all = single.chain(campaigns.iter().map(|c| vec!["lab", c.as_str()]));
    for words in all {
        let said = say(&[&words[..], &["--help"]].concat());
        assert_eq!(said.code, 0, "{words:?}: {}", said.err);
        assert!(said.out.contains("Examples:"), "{words:?}");
    }
}

#[test]
fn a_child_of_a_campaign_ends_with_it() {
    // The campaign holds the other end of the child's standard input; killed, it holds nothing.
    let mut command = fullcount(&["receive", "udp://127.0.0.1:0", "--duration", "1h"]);
    command.env("FULLCOUNT_LEASH", "stdin").stdin(std::process::Stdio::piped());
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut child = command.spawn().expect("the binary starts");
    drop(child.stdin.take());
    assert_eq!(child.wait().expect("a child").code(), Some(1));
}
