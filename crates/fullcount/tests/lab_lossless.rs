//! `fullcount lab lossless` as a user runs it: wrong options, a short search on loopback, one between
//! namespaces that is interrupted. Rates are not judged here: tests share the host with others.

use crate::service::{Service, say};
use serde_json::Value;

#[test]
fn wrong_options_are_refused_before_anything_is_made() {
    for (words, parts) in [
        (&["--engine", "warp"][..], &["engine", "warp", "plain"][..]),
        (&["--engine", "both,xdp"], &["engine", "xdp", "loopback", "--where"]),
        (
            &["--engine", "xdp", "--where", "veth", "--mtu", "1500", "--sizes", "1473"],
            &["sizes", "1473", "at most 1472 B", "fragments"],
        ),
        (&["--sizes", "3"], &["sizes", "24 to 65507"]),
        (&["--where", "moon"], &["where", "moon", "veth-cut"]),
        (&["--mtu", "5"], &["mtu", "68"]),
        (&["--resolution", "90%"], &["resolution", "50%"]),
        (&["--resolution", "some"], &["resolution", "1%"]),
        (&["--trial", "1"], &["trial", "8s"]),
        (&["--confirm", "0s"], &["confirmation"]),
        (&["--confirmations", "0"], &["confirmations", "1"]),
        (&["--floor", "0%"], &["floor"]),
        (&["--max", "fast"], &["max", "fast"]),
        (&["--repeats", "0"], &["repeats"]),
        (&["--send-core", "4096"], &["send-core", "4096"]),
        (&["--name", "../x"], &["result name", "../x"]),
    ] {
        let said = say(&[&["lab", "lossless"], words].concat());
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{words:?}: {}", said.err);
        for part in parts {
            assert!(said.err.contains(part), "{words:?} must say {part}: {}", said.err);
        }
    }
}

#[test]
fn a_search_on_loopback_leaves_record_and_table() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    let said = say(&[
        "lab",
        "lossless",
        "--sizes",
        "64",
        "--repeats",
        "2",
        "--max",
        "2000pps",
        "--trial",
        "100ms",
        "--confirm",
        "150ms",
        "--confirmations",
        "1",
        "--resolution",
        "30%",
        "--floor",
        "20%",
        "--out",
        out,
        "--json",
    ]);
    let record = said.summary();
    assert_eq!(record["schema"], "fullcount/result/1", "{}", said.err);
    let searches = record["rows"][0]["searches"].as_array().unwrap();
    assert_eq!(searches.len(), 2);
    let found = |s: &Value| s["packets_per_s"].as_f64().unwrap() > 0.0;
    assert_eq!(said.code, i32::from(!searches.iter().all(found)), "{}", said.err);
    for search in searches {
        let trials = search["trials"].as_array().unwrap();
        assert_eq!(trials[0]["asked_per_s"], 2000.0, "the ceiling is tried first");
        assert!(trials.iter().all(|t| t["sent"].as_u64().unwrap() > 0));
        if found(search) {
            let last = trials.last().unwrap();
            assert_eq!((&last["phase"], &last["lost"]), (&"confirm".into(), &0.into()));
        }
    }
    assert!(said.err.contains(" left") && said.err.contains("without loss"), "{}", said.err);
    let table = std::fs::read_to_string(dir.path().join("lossless-loopback.md")).unwrap();
    assert!(table.starts_with("# Highest rate without loss, loopback\n"), "{table}");
    let file = std::fs::read_to_string(dir.path().join("lossless-loopback.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&file).unwrap(), record);
}

/// Namespaces of this verb that process `maker` made.
fn namespaces(maker: u32) -> usize {
    let mine = format!("fullcount-lossless-{maker}-");
    let Ok(names) = std::fs::read_dir("/run/netns") else { return 0 };
    names.flatten().filter(|n| n.file_name().to_string_lossy().starts_with(&mine)).count()
}

#[test]
fn an_interrupted_search_between_namespaces_leaves_nothing_behind() {
    if !fullcount_lab::namespace::allowed() {
        let reason = "namespaces need root";
        assert!(std::env::var_os("CI").is_none(), "CI must have it: {reason}");
        println!("skipped: {reason}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    let mut run = Service::start(&[
        "lab",
        "lossless",
        "--where",
        "veth-cut",
        "--max",
        "1000pps",
        "--trial",
        "200ms",
        "--confirm",
        "60s",
        "--out",
        out,
    ]);
    let maker = run.child.id();
    run.wait_for("a confirmation", |l| l.contains("confirmation 1 of").then_some(()));
    assert_eq!(namespaces(maker), 2);
    run.interrupt();
    let said = run.end();
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("interrupted"), "{}", said.err);
    assert_eq!(namespaces(maker), 0);
    assert_eq!(std::fs::read_dir(out).unwrap().count(), 0, "no result of half a campaign");
}
