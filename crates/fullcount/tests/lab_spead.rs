//! `fullcount lab spead` as a person runs it, with few and short runs; wrong options. Source: `docs/lab-spead.md`.

use crate::service::{Said, say};

fn quick(what: &[&str], out: &str) -> Said {
    say(&[&["lab", "spead"][..], what, &["--quick", "--out", out, "--json"]].concat())
}

#[test]
fn heaps_from_memory_are_measured_beside_copies() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let said = quick(&["memory", "--packets", "1472,8972"], out);
    assert_eq!(said.code, 0, "{}", said.err);
    let s = said.summary();
    assert_eq!((&s["schema"], &s["name"]), (&"fullcount/result/1".into(), &"spead-memory".into()));
    assert_eq!(s["rows"].as_array().unwrap().len(), 2);
    for name in ["plain-1472", "pool-8972", "copies-8972"] {
        assert!(s["figures"][name]["value"].as_f64() > Some(0.0), "{name}");
    }
    assert!(s["rows"][0]["pool_of_copies"].as_f64() > Some(0.0), "{s}");
    let text = std::fs::read_to_string(folder.path().join("spead-memory.md")).unwrap();
    assert!(text.contains("| 8972 |") && text.contains("pool / spead2-pool"), "{text}");
    assert_eq!(quick(&["memory"], out).code, 2, "results that are there are not replaced");
}

/// `fullcount spead2` is what every trial starts.
fn has_tools() -> bool {
    let there = say(&["spead2", "send", "--help"]).code == 0;
    if !there {
        println!("skipped: this program has no `spead2 send`");
    }
    there
}

#[test]
fn the_memos_table_on_loopback_has_its_numbers_beside_ours() {
    if !has_tools() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let said = quick(&["memo", "--parts", "table2,table3", "--peers", "fullcount"], out);
    assert_eq!(said.code, 0, "{}", said.err);
    let rows = said.summary()["rows"].as_array().unwrap().len();
    assert_eq!(rows, 16, "two tables, two transports, four columns");
    let text = std::fs::read_to_string(folder.path().join("spead-memo.md")).unwrap();
    assert!(
        text.contains("memo: UDP heap loss % | 2.73 ± 0.87") && text.contains("fullcount TCP Gb/s"),
        "{text}"
    );
    assert!(text.contains("What limits it here"), "{text}");
    assert!(
        !folder.path().join("spead-memo.part.jsonl").exists(),
        "kept only while it is interrupted"
    );
}

#[test]
fn the_memos_link_in_namespaces_has_tables_and_figures() {
    if !has_tools() || !fullcount_lab::namespace::allowed() {
        println!("skipped: namespaces need root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let words = [
        "memo",
        "--parts",
        "mro10,buffers",
        "--peers",
        "fullcount",
        "--scale",
        "0.01",
        "--emulated",
        "100Mbps",
    ];
    let said = quick(&words, out);
    assert_eq!(said.code, 0, "{}", said.err);
    for file in ["spead-memo-mro10-rate.svg", "spead-memo-mro10-loss.png", "spead-memo-buffers.svg"]
    {
        assert!(folder.path().join(file).is_file(), "{file}");
    }
    let text = std::fs::read_to_string(folder.path().join("spead-memo.md")).unwrap();
    assert!(text.contains("| memo | 9.5 | 28.3 | – | 0.4 |"), "{text}");
}

#[test]
fn the_rate_without_a_lost_heap_is_searched() {
    if !has_tools() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let words = [
        "lossless",
        "--packets",
        "8972",
        "--buffers",
        "large",
        "--peers",
        "fullcount",
        "--udp-only",
    ];
    let said = quick(&words, out);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.summary()["figures"]["udp-8972-pool-fullcount"]["value"].as_f64() >= Some(0.0));
}

#[test]
fn the_rate_tuner_runs_on_a_shaped_link() {
    if !fullcount_lab::namespace::allowed() {
        println!("skipped: namespaces need root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let said = quick(&["tuning", "--rates", "100Mbps"], folder.path().to_str().unwrap());
    assert_eq!(said.code, 0, "{}", said.err);
    let s = said.summary();
    let decisions = s["parameters"]["decisions"].as_array().unwrap();
    assert!(decisions.len() > 2, "{decisions:?}");
}

#[test]
fn what_cannot_be_is_refused_with_flag_and_range() {
    for (words, parts) in [
        (&["memo", "--parts", "all"][..], ["parts", "table1"]),
        (&["memo", "--peers", "iperf"], ["peers", "fullcount or spead2"]),
        (&["memo", "--scale", "0"], ["scale", "0.0001 to 10"]),
        (&["lossless", "--packets", "20"], ["packets", "56 to 65507"]),
        (&["lossless", "--buffers", "huge"], ["buffers", "stock or large"]),
        (&["tuning", "--rates", "1bps"], ["rates", "20Mbps to 9Gbps"]),
        (&["memory", "--rounds", "0"], ["rounds", "1 to 1000"]),
        (&["memory", "--peers", "spead2"], ["peers", "fullcount as well"]),
        (
            &["memory", "--peers", "fullcount,spead2", "--spead2", "/no/such"],
            ["peers", "spead2_bench"],
        ),
        (&["memo", "--peers", "spead2", "--spead2", "/no/such"], ["peers", "--build-spead2"]),
    ] {
        let said = say(&[&["lab", "spead"][..], words].concat());
        assert_eq!(said.code, 2, "{words:?}: {}", said.err);
        assert!(parts.iter().all(|part| said.err.contains(part)), "{words:?}: {}", said.err);
    }
}
