//! `fullcount lab peers` as a user runs it: wrong options, a missing iperf3, short comparisons on
//! loopback. Rates are not judged here: tests share the host with others.

use crate::service::say;

#[test]
fn wrong_options_are_refused_and_a_missing_iperf3_names_the_command() {
    for (words, parts) in [
        (&["--contenders", "netcat"][..], &["engine", "netcat"][..]),
        (&["--contenders", "xdp"], &["engine", "xdp", "loopback"]),
        (&["--sizes", "16"], &["sizes", "24"]),
        (&["--repeats", "0"], &["repeats"]),
        (&["--duration", "0s"], &["flat-out duration"]),
        (&["--duration", "long"], &["duration", "long"]),
        (&["--where", "moon"], &["where", "loopback"]),
    ] {
        let said = say(&[&["lab", "peers"], words].concat());
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{words:?}: {}", said.err);
        for part in parts {
            assert!(said.err.contains(part), "{words:?} must say {part}: {}", said.err);
        }
    }
    let said = say(&["lab", "peers", "--iperf3", "/nonexistent/iperf3"]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("apt-get install") && said.err.contains("/nonexistent/iperf3"));
    let said = say(&["lab", "peers", "--iperf3", "/bin/echo"]);
    assert!(said.code == 1 && said.err.contains("no iperf3"), "{}", said.err);
}

fn short(contenders: &str) -> serde_json::Value {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    let said = say(&[
        "lab",
        "peers",
        "--contenders",
        contenders,
        "--flat-out-only",
        "--repeats",
        "1",
        "--sizes",
        "1472",
        "--duration",
        "100ms",
        "--out",
        out,
        "--json",
    ]);
    assert_eq!(said.code, 0, "{}", said.err);
    let record = said.summary();
    let trials = record["rows"].as_array().unwrap().iter().map(|r| &r["flat_out"][0]);
    assert!(trials.clone().all(|t| t["sent"].as_u64().unwrap() > 0), "{record}");
    assert!(
        std::fs::read_to_string(dir.path().join("peers-loopback.md")).unwrap().contains("1472")
    );
    record
}

#[test]
fn engines_side_by_side() {
    let record = short("plain,auto");
    assert_eq!(record["rows"][0]["flat_out_ratio"], 1.0);
    assert_eq!(record["rows"][1]["contender"], "auto");
}

#[test]
fn iperf3_side_by_side() {
    let there = std::process::Command::new("iperf3").arg("--version").output().is_ok();
    // As root the verb installs it.
    if !there && !fullcount_lab::namespace::allowed() {
        let reason = "iperf3 is not installed";
        assert!(std::env::var_os("CI").is_none(), "CI must have it: {reason}");
        println!("skipped: {reason}");
        return;
    }
    let record = short("iperf3,plain");
    let theirs = &record["rows"][0]["flat_out"][0];
    assert!(theirs["send_cores"].as_f64().is_some_and(|c| c > 0.0), "{theirs}");
    assert!(record["parameters"]["iperf3"].as_str().unwrap().starts_with("iperf 3"));
}
