//! `fullcount lab spead` as a person runs it, with few and short runs; wrong options. Source: `docs/lab-spead.md`.

use serde_json::Value;

use crate::service::{Said, fullcount, say};

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
    for (peer, install) in [("spead2-plain", "pip"), ("spead2-pool", "--build-spead2")] {
        let missing = s["figures"][format!("{peer}-1472")].is_null();
        let who = &s["rows"][0][peer.replace('-', "_")];
        assert_eq!(who.is_null(), missing, "a row says whose receiver it was: {s}");
        let goal = format!("ot measured: {} / {peer}: ", &peer[7..]);
        for said in [&text, &said.err] {
            let line = said.lines().find(|line| line.contains(&goal));
            assert_eq!(line.is_some(), missing, "{peer}: {said}");
            assert!(line.is_none_or(|line| line.contains(install)), "{said}");
        }
    }
    assert_eq!(quick(&["memory"], out).code, 2, "results that are there are not replaced");
}

/// True if it is there; else prints why the rest of a test is skipped, or fails in CI.
fn there(is: bool, reason: &str) -> bool {
    if !is {
        assert!(std::env::var_os("CI").is_none(), "CI must have it: {reason}");
        println!("skipped: {reason}");
    }
    is
}

/// `fullcount spead2` is what every trial starts.
fn has_tools() -> bool {
    let works = |verb| say(&["spead2", verb, "--help"]).code == 0;
    there(works("send") && works("recv"), "this program has no `spead2 send` and `recv`")
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
    // All programs get the same buffers, and it is said where these are less than the table's 16 MiB.
    let granted = said.summary()["parameters"]["granted_bytes"].as_u64();
    let less = granted.is_some_and(|bytes| bytes < 16 << 20);
    assert_eq!(text.contains("Not granted: socket buffers of 16777216 B"), less, "{text}");
    assert!(
        !folder.path().join("spead-memo.part.jsonl").exists(),
        "kept only while it is interrupted"
    );
}

/// Both directions, beside the package alone.
#[test]
fn the_package_of_pypi_sends_to_us_and_receives_from_us() {
    let Some(python) = crate::python::interpreter().filter(|_| has_tools()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let peers = "fullcount,pypi,fullcount-pypi,pypi-fullcount";
    let words = ["lab", "spead", "memo", "--parts", "table3", "--peers", peers, "--quick"];
    let mut command = fullcount(&[&words[..], &["--out", out, "--json"]].concat());
    let ended = command.env("FULLCOUNT_PYTHON", python).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let s: Value = serde_json::from_slice(&ended.stdout).unwrap();
    let rows = s["rows"].as_array().unwrap();
    for peer in peers.split(',') {
        let of = |row: &&Value| row["peer"] == peer && row["tcp"] == true;
        let own: Vec<_> = rows.iter().filter(of).collect();
        assert!(!own.is_empty(), "{peer}: {s}");
        for row in own {
            assert_eq!(row["trial"]["heap_loss"], 0.0, "{peer}: {row}");
        }
    }
    let text = std::fs::read_to_string(folder.path().join("spead-memo.md")).unwrap();
    for peer in peers.split(',') {
        udp_has_figures(peer, rows, &text);
    }
}

/// Each column over UDP has a rate under the peer's name, in the record and in the table. Heaps may be lost.
fn udp_has_figures(peer: &str, rows: &[Value], text: &str) {
    let own: Vec<_> =
        rows.iter().filter(|row| row["peer"] == peer && row["tcp"] == false).collect();
    let columns: Vec<_> = own.iter().filter_map(|row| row["column"].as_str()).collect();
    assert_eq!(columns, ["default", "mtu", "buffers", "mtu-buffers"], "{peer}");
    for row in own {
        let trial = &row["trial"];
        assert!(trial["gbps"][0].as_f64() > Some(0.0), "{row}");
        let loss = trial["heap_loss"].as_f64().unwrap_or_else(|| panic!("{row}"));
        assert!((0.0..=1.0).contains(&loss), "{row}");
        assert_eq!(trial["effective_gbps"].as_f64() > Some(0.0), loss < 1.0, "{row}");
    }
    let head = format!("| {peer} UDP Gb/s | ");
    let line = text.lines().find_map(|line| line.strip_prefix(&head));
    let cells = line.unwrap_or_else(|| panic!("{head}: {text}")).trim_end_matches('|').split('|');
    let rates: Vec<f64> =
        cells.map(|cell| cell.split_whitespace().next().unwrap().parse().unwrap()).collect();
    assert!(rates.len() == 4 && rates.iter().all(|rate| *rate > 0.0), "{peer}: {rates:?}");
}

/// Links between namespaces: `fullcount spead2` and root.
fn has_links() -> bool {
    has_tools() && has_namespaces()
}

fn has_namespaces() -> bool {
    there(fullcount_lab::namespace::allowed(), "namespaces need root")
}

/// Rows of a part, each with a payload that came, loss within its bounds, and what the trial took.
fn plausible(summary: &Value, part: &str) -> Vec<Value> {
    let all = summary["rows"].as_array().unwrap();
    let rows: Vec<Value> = all.iter().filter(|row| row["part"] == part).cloned().collect();
    for row in &rows {
        let trial = &row["trial"];
        assert!(trial["sum_gbps"].as_f64() > Some(0.0), "{part}: {row}");
        let loss = trial["heap_loss"].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&loss), "{part}: {row}");
        assert_eq!(trial["effective_gbps"].as_f64() > Some(0.0), loss < 1.0, "{part}: {row}");
        let streams = row["streams"].as_u64().unwrap_or(1) as usize;
        let cost = &trial["cost"];
        for list in [&trial["gbps"], &cost["sender_cores"], &cost["receiver_cores"]] {
            let list = list.as_array().unwrap();
            assert_eq!(list.len(), streams, "{part}: {row}");
            assert!(list.iter().all(|v| v.as_f64() > Some(0.0)), "{part}: {row}");
        }
        assert!(cost["drops"]["queue"].is_u64() && cost["seconds"].as_f64() > Some(0.0), "{row}");
        assert!(trial["limit"].as_str().is_some_and(|limit| !limit.is_empty()), "{row}");
    }
    rows
}

#[test]
fn the_memos_raw_links_and_its_table_of_one_gigabit_have_their_rows() {
    if !has_links() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let said = quick(&["memo", "--parts", "table1,table4", "--peers", "fullcount"], out);
    assert_eq!(said.code, 0, "{}", said.err);
    let s = said.summary();
    let text = std::fs::read_to_string(folder.path().join("spead-memo.md")).unwrap();
    let rows = plausible(&s, "table4");
    assert_eq!(rows.len(), 4, "two transports, two columns: {s}");
    // A link of 1 Gb/s; a burst of its bucket may be all that a short run is. Over TCP the sender is done when the rest fits into the
    // buffers, so what has come is judged.
    for row in &rows {
        let rate = if row["tcp"] == true { "effective_gbps" } else { "sum_gbps" };
        assert!(row["trial"][rate].as_f64() < Some(3.0), "{row}");
    }
    assert!(
        text.contains("| memo: UDP heap loss % | 1.60 ± 0.65 | – | 0.00 ± 0.00 | – |"),
        "{text}"
    );
    assert!(text.contains("| table4 | fullcount | TCP |"), "{text}");
    if s["parameters"]["iperf3"].is_null() {
        assert!(text.contains("the program iperf3 is missing"), "{text}");
        return;
    }
    let raw = s["rows"].as_array().unwrap().iter().filter(|row| row["part"] == "table1");
    let raw: Vec<&Value> = raw.collect();
    assert_eq!(raw.len(), 4, "{s}");
    for row in raw {
        let (trial, name) = (&row["trial"], row["link"].as_str().unwrap());
        let most = if name.starts_with("1G") { 1.1 } else { 1e4 };
        assert!(trial["gbps"].as_f64() > Some(0.0) && trial["gbps"].as_f64() < Some(most), "{row}");
        let lost = trial["lost_percent"].as_f64();
        assert_eq!(lost.is_some(), name.ends_with("udp"), "{row}");
        assert!((0.0..=100.0).contains(&lost.unwrap_or(0.0)), "{row}");
    }
    assert!(text.contains("| 0.810 ± 0.000 | 99.94 ± 0.00 |"), "{text}");
}

#[test]
fn four_and_nine_streams_and_senders_by_number_have_tables_and_figures() {
    if !has_links() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let parts = ["--parts", "mro40,mro90,scaling", "--peers", "fullcount", "--points", "2"];
    let said = quick(&[&["memo"][..], &parts, &["--scale", "0.01"]].concat(), out);
    assert_eq!(said.code, 0, "{}", said.err);
    let s = said.summary();
    let streams = |part: &str| -> Vec<u64> {
        plausible(&s, part).iter().map(|row| row["streams"].as_u64().unwrap()).collect()
    };
    assert_eq!(streams("mro40"), [4, 4, 4], "two rates, and TCP: {s}");
    assert_eq!(streams("mro90"), [9, 9, 9], "{s}");
    assert_eq!(streams("scaling"), [1, 1, 2, 2, 3, 3, 4, 4], "{s}");
    for part in ["mro40", "mro90"] {
        let rows = plausible(&s, part);
        for row in rows.iter().filter(|row| row["target_gbps"].is_null()) {
            assert_eq!(row["trial"]["heap_loss"], 0.0, "TCP loses nothing: {row}");
        }
        assert!(rows[0]["trial"]["effective_gbps"].as_f64() > Some(0.0), "far below the link");
    }
    for figure in [
        "mro40-rate",
        "mro40-loss",
        "mro90-rate",
        "mro90-loss",
        "scaling-sum",
        "scaling-effective",
        "scaling-loss",
    ] {
        for kind in ["svg", "png"] {
            let file = folder.path().join(format!("spead-memo-{figure}.{kind}"));
            assert!(file.metadata().is_ok_and(|m| m.len() > 1000), "{figure}.{kind}");
        }
    }
    let text = std::fs::read_to_string(folder.path().join("spead-memo.md")).unwrap();
    for words in [
        "| memo | TCP | 31 | – | 0 |",
        "| memo | TCP | as UDP without loss, about 56 | – | 0 |",
        "| memo | 9.5 | 63 | – | – |",
        "| memo | 4 | 10 | 32 | – | – |",
        "Of 14 trials the limit was: ",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let series = s["parameters"]["bottleneck"]["series"].as_array().unwrap();
    let parts: Vec<&str> = series.iter().filter_map(|of| of["part"].as_str()).collect();
    assert_eq!(parts, ["mro40", "mro40", "mro90", "mro90", "scaling"], "UDP and TCP: {s}");
}

#[test]
fn the_memos_link_in_namespaces_has_tables_and_figures() {
    if !has_links() {
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
    let s = said.summary();
    let found = &s["rows"][0]["found"];
    let number = |key: &str| found[key].as_f64().unwrap();
    let (gbps, free) = (number("gbps"), number("free_gbps"));
    assert_eq!(s["figures"]["udp-8972-pool-fullcount"]["value"].as_f64(), Some(gbps));
    // Two halvings below what the sender reaches: each that did not pass says why.
    assert!(free > 0.01 && gbps < free, "{found}");
    let (asked, above) = (number("asked_gbps"), number("above_gbps"));
    assert!(gbps <= asked && gbps >= 0.95 * asked && above > asked, "{found}");
    let quarters = asked / free * 4.0;
    assert!((quarters - quarters.round()).abs() < 1e-6, "{found}");
    let failed = found["failed"].as_array().unwrap();
    assert_eq!(failed.len(), [2, 1, 1, 0][quarters.round() as usize], "{found}");
    for rate in failed {
        let late = rate["late"].as_u64().unwrap();
        assert!(rate["heap_loss"].as_f64() > Some(0.0) || late > 8, "{rate}");
    }
    assert!(found["trials"].as_u64() >= Some(2), "{found}");
    assert_eq!(s["parameters"]["goals"]["judged"], false);
    let text = std::fs::read_to_string(folder.path().join("spead-lossless.md")).unwrap();
    assert!(text.contains("Wanted of spead2's rate") && text.contains("this is a quick run"));
}

/// Stands for spead2: ours, whose sender says a tenth of its time. So ours is far below it.
fn tools_that_boast(folder: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let program = env!("CARGO_BIN_EXE_fullcount");
    let tenth = "awk '/^Sent/ {printf \"Sent %s bytes in %f seconds, 0 Gb/s\\n\", $2, $5 / 10}'";
    let sender = format!("#!/bin/sh\n'{program}' spead2 send \"$@\" | {tenth}\n");
    let receiver = format!("#!/bin/sh\nexec '{program}' spead2 recv \"$@\"\n");
    for (name, text) in [("spead2_send", sender), ("spead2_recv", receiver)] {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn a_rate_below_its_goal_is_a_line_and_exit_code_1() {
    if !has_tools() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    tools_that_boast(folder.path());
    let at = folder.path().to_str().unwrap();
    let order = ["--packets", "8972", "--buffers", "large", "--repeats", "1", "--steps", "1"];
    let peers = ["--trial", "100ms", "--peers", "fullcount,spead2", "--spead2", at];
    let words = [&["lab", "spead", "lossless"][..], &order, &peers, &["--out", at, "--json"]];
    let said = say(&words.concat());
    assert_eq!(said.code, 1, "{}", said.err);
    let missed = "not reached: TCP, 8972 B: fullcount is 0.";
    assert!(said.err.contains(missed) && said.err.contains("wanted 1.30"), "{}", said.err);
    let s = said.summary();
    let goals = &s["parameters"]["goals"];
    assert_eq!((&goals["judged"], &goals["of_spead2_tcp"]), (&true.into(), &1.3.into()));
    assert!(!goals["not_reached"].as_array().unwrap().is_empty(), "{goals}");
    let control = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();
    assert_eq!(s["parameters"]["tcp_congestion_control"], control.trim());
    let text = std::fs::read_to_string(folder.path().join("spead-lossless.md")).unwrap();
    for words in ["Not reached: TCP, 8972 B", "tcp_congestion_control, is ", "| cubic |"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    if s["parameters"]["iperf3"].is_null() {
        assert!(said.err.contains("not measured: whole heaps over TCP"), "{}", said.err);
    }
}

#[test]
fn the_rate_tuner_runs_on_a_shaped_link() {
    if !has_namespaces() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let said = quick(&["tuning", "--rates", "100Mbps"], folder.path().to_str().unwrap());
    assert_eq!(said.code, 0, "{}", said.err);
    let s = said.summary();
    let rows = s["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "{s}");
    let links = [("behind a switch", "decisions"), ("the sender's own", "decisions_own_link")];
    for (row, (place, key)) in rows.iter().zip(links) {
        assert_eq!((&row["link"], row["link_gbps"].as_f64()), (&place.into(), Some(0.1)));
        assert!((0.099..0.1).contains(&row["best_gbps"].as_f64().unwrap()), "{row}");
        for (key, most) in
            [("found_after_s", 2.0), ("held_heap_loss", 1.0), ("probes_heap_loss", 1.0)]
        {
            assert!((0.0..=most).contains(&row[key].as_f64().unwrap_or(0.0)), "{key}: {row}");
        }
        let heaps = &s["parameters"][format!("heaps, {place}")];
        let number = |key: &str| heaps[key].as_u64().unwrap();
        assert!(number("whole") > 0 && number("whole") <= number("sent"), "{heaps}");
        // It begins at the rate of the link, never goes beyond the double that it tries first, and comes back from there.
        let decisions = s["parameters"][key].as_array().unwrap();
        let of = |key: &str| -> Vec<f64> {
            decisions.iter().map(|decision| decision[key].as_f64().unwrap()).collect()
        };
        let (times, rates) = (of("s"), of("gbps"));
        assert!(!times.is_empty() && times.is_sorted(), "{place}: {times:?}");
        assert!(times.iter().all(|at| (0.0..3.0).contains(at)), "{place}: {times:?}");
        assert!(rates.iter().all(|rate| (0.008..0.21).contains(rate)), "{place}: {rates:?}");
        let held = row["held_last_gbps"].as_f64().unwrap();
        assert!(rates.contains(&held), "{place}: {held} {rates:?}");
        assert!(of("loss").iter().all(|share| (0.0..=1.0).contains(share)), "{place}");
        let less = |why: &Value| why != "good" && why != "probing";
        assert!(decisions.iter().any(|d| less(&d["why"])), "{place}: {decisions:?}");
    }
    let text = std::fs::read_to_string(folder.path().join("spead-tuning.md")).unwrap();
    assert!(text.contains("| heaps lost from then on, % | by probes, % |"), "{text}");
}

#[test]
fn each_optimisation_is_switched_off_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let said = quick(&["switches"], folder.path().to_str().unwrap());
    assert_eq!(said.code, 0, "{}", said.err);
    let s = said.summary();
    let rows: Vec<_> = s["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let trial = &row["trials"][0];
            assert!(trial["gbps"].as_f64().unwrap() > 0.0, "{row}");
            let words = |key: &str| row[key].as_str().unwrap().to_owned();
            (words("path"), row["packet_bytes"].as_u64(), words("switched_off"))
        })
        .collect();
    let count = |path: &str| rows.iter().filter(|row| row.0 == path).count();
    let counts = ["udp-unread", "udp-at-rate", "tcp", "tcp-whole", "memory"].map(count);
    assert_eq!(counts, [4, 8, 8, 3, 6], "{rows:?}");
    for (path, packet, off) in [
        ("udp-unread", Some(1472), "gather=0"),
        ("tcp", Some(65_483), "low_water=0"),
        ("tcp-whole", None, "pool=0"),
        ("memory", Some(65_507), "pages_ahead=0"),
        ("memory", Some(1472), "streaming=1"),
    ] {
        assert!(rows.contains(&(path.to_owned(), packet, off.to_owned())), "{path}: {rows:?}");
    }
}

#[test]
fn re_requests_make_good_what_a_link_loses() {
    if !has_namespaces() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let said = quick(&["recovery"], folder.path().to_str().unwrap());
    assert_eq!(said.code, 0, "{}", said.err);
    let s = said.summary();
    let number = |row: &Value, key: &str| row["runs"][0][key].as_u64().unwrap();
    let [without, with] = s["rows"].as_array().unwrap().as_slice() else { panic!("{s}") };
    // One of a hundred frames is lost, and a heap has some 470.
    assert!(number(without, "frames_lost") > 0 && number(with, "frames_lost") > 0, "{s}");
    assert!(number(without, "heaps_whole") < number(without, "heaps_sent"), "{without}");
    assert_eq!(number(without, "packets_again"), 0, "{without}");
    assert!(number(with, "packets_again") > 0, "{with}");
    assert_eq!(number(with, "heaps_whole"), number(with, "heaps_sent"), "{with}");
}

#[test]
fn what_cannot_be_is_refused_with_flag_and_range() {
    for (words, parts) in [
        (&["memo", "--parts", "all"][..], ["parts", "table1"]),
        (&["memo", "--peers", "iperf"], ["peers", "fullcount, spead2, pypi"]),
        (&["memory", "--peers", "fullcount,pypi"], ["peers", "fullcount or spead2"]),
        (&["memo", "--scale", "0"], ["scale", "0.0001 to 10"]),
        (&["lossless", "--packets", "20"], ["packets", "56 to 65507"]),
        (&["lossless", "--buffers", "huge"], ["buffers", "stock or large"]),
        (&["tuning", "--rates", "1bps"], ["rates", "20Mbps to 9Gbps"]),
        (&["memory", "--rounds", "0"], ["rounds", "1 to 1000"]),
        (&["switches", "--packets", "55"], ["packets", "56 to 65507"]),
        (&["switches", "--repeats", "0"], ["repeats", "1 to 1000"]),
        (&["switches", "--trial", "1ms"], ["trial", "0.1s to 60s"]),
        (&["lossless", "--trial", "0s"], ["trial", "100ms to 1h"]),
        (&["tuning", "--each", "0s"], ["each", "1s to 1h"]),
        (&["memo", "--heap-size", "1B"], ["heap-size", "4B to 1GiB"]),
        (&["switches", "--rate", "1bps"], ["rate", "1Mbps to 100Gbps"]),
        (&["recovery", "--losses", "0.2"], ["losses", "0 to 0.1"]),
        (&["recovery", "--packet", "9000"], ["packet", "56 to 8972"]),
        (&["recovery", "--rate", "1Mbps"], ["rate", "10Mbps to 4Gbps"]),
        (&["recovery", "--round-trip", "2s"], ["round-trip", "0 to 1s"]),
        (&["recovery", "--repeats", "0"], ["repeats", "1 to 1000"]),
        (&["recovery", "--trial", "1ms"], ["trial", "0.1s to 10min"]),
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
