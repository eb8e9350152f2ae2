//! `fullcount lab capacity` as a user runs it: the list, one instrument from own costs, an own instrument, wrong
//! options, every instrument from the committed results, and short measurements (whose rates are not judged here).

use std::fs;
use std::path::Path;

use crate::service::{Said, say};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use serde_json::Value;

/// Round costs.
const COSTS: &str = r#"{
  "host": {"cpus": 4},
  "rows": [
    {"detector": "sonde", "input": "simulated", "how": "memory", "packet_bytes": 1250.0,
     "packets": {"value": 2000000.0}, "events": {"value": 500000000.0}},
    {"detector": "sonde", "input": "simulated", "how": "udp-lossless-1", "packet_bytes": 1250.0,
     "packets": {"value": 400000.0}, "events": {"value": 100000000.0}}],
  "figures": {
    "lossless_auto_1250": {"value": 1000000.0},
    "capacity_encode": {"value": 1e9}, "capacity_spool": {"value": 500e6},
    "capacity_produce": {"value": 100e6}, "capacity_disk": {"value": 250e6}}}"#;

/// In a folder with `costs.json`, on these costs alone.
fn run(folder: &Path, words: &[&str]) -> Said {
    let costs = folder.join("costs.json");
    fs::write(&costs, COSTS).expect("written");
    let out = folder.join("out");
    let (costs, out) = (costs.display().to_string(), out.display().to_string());
    let always =
        ["lab", "capacity", "--measured", &costs, "--no-committed", "--out", &out, "--overwrite"];
    say(&[&always[..], &["--outage", "1s"], words].concat())
}

#[test]
fn the_list_says_what_is_known_and_from_where() {
    let said = say(&["lab", "capacity", "--list"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(
        said.out.contains("| skadi | ESS, sonde | 37 M | 31.9 | – | the event formation paper")
    );
    assert!(
        said.out.contains("| ska1-low | ") && said.out.contains(" 72 × 100 GbE "),
        "{}",
        said.out
    );
    assert!(said.out.contains("| cms | ") && said.out.contains(" 600 × 10 GbE "), "{}", said.out);
    let line = |name: &str| {
        let begins = format!("| {name} |");
        said.out.lines().find(|l| l.starts_with(&begins)).unwrap_or_else(|| panic!("{name}"))
    };
    assert!(line("estia").contains("| 500 M | 8.0 | – | "), "{}", line("estia"));
    assert!(line("nmx").contains("| 5 M | 60.0 | – | "), "{}", line("nmx"));
    for name in ["loki-band-gem", "loki-bcs"] {
        assert!(line(name).contains("the cost of an event is assumed"), "{}", line(name));
    }
}

#[test]
fn one_instrument_from_own_costs() {
    let dir = tempfile::tempdir().unwrap();
    let said = run(dir.path(), &["--instrument", "SKADI", "--json"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let s = said.summary();
    assert_eq!((&s["schema"], &s["name"]), (&"fullcount/result/1".into(), &"capacity".into()));
    let row = &s["rows"][0];
    // 1180 MB/s in packets of 1250 B, three workers of 400,000 at 80 %; 296 MB/s of events, 80 MB/s of a producer.
    assert_eq!(row["average"]["packets_per_s"], 944_000.0);
    assert_eq!((&row["average"]["workers"], &row["instances"]), (&3.into(), &4.into()));
    assert_eq!(row["output"]["partitions"], 4);
    let from = row["measured"]["worker"]["from"].as_str().unwrap();
    assert!(from.ends_with("costs.json: sonde simulated, udp-lossless-1"), "{from}");
    let packets = &row["simulation"]["packets"];
    let n = |key: &str| packets[key].as_u64().unwrap();
    assert_eq!(n("arrived"), n("out") + n("lost_socket") + n("lost_queue") + n("left"));
    assert!(n("arrived") > 400_000, "{packets}");
    let markdown = fs::read_to_string(dir.path().join("out/capacity.md")).expect("written");
    assert!(markdown.starts_with("# What an instrument needs\n\nComputed "), "{markdown}");
    assert!(markdown.contains("costs.json: capacity_produce"), "{markdown}");
    // The same seed gives the same again, another one other arrivals.
    let again = run(dir.path(), &["--instrument", "skadi", "--json"]).summary();
    assert_eq!(again["rows"], s["rows"]);
    let other = run(dir.path(), &["--instrument", "skadi", "--json", "--seed", "2"]).summary();
    assert_ne!(other["rows"][0]["simulation"], row["simulation"]);
}

#[test]
fn rates_by_option_and_own_instruments_by_file() {
    let dir = tempfile::tempdir().unwrap();
    let given = [
        "--instrument",
        "skadi",
        "--rate",
        "1Mev/s",
        "--peak",
        "3Mev/s",
        "--bytes-per-event",
        "50",
        "--json",
    ];
    let row = run(dir.path(), &given).summary()["rows"][0].clone();
    assert_eq!(
        (&row["peak"]["events_per_s"], &row["average"]["bytes_per_s"]),
        (&3e6.into(), &50e6.into())
    );
    assert!(row["source"].as_str().unwrap().ends_with("rate as given by --rate"));

    let file = dir.path().join("mine.toml");
    let text = "[[instrument]]\nname = 'd22'\ndetector = 'sonde'\nrate = 2e6\npeak = 8e6\npulses = 50\n\
                compress_factor = 2\n\n[[instrument]]\nname = 'links'\nrate = 1e6\npacket_bytes = 1250\nlinks = 10\n\
                link_speed = 10e9\npulses = 0\n";
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let rows = run(dir.path(), &["--instrument", file, "--json"]).summary()["rows"].clone();
    assert_eq!((&rows[0]["instrument"], &rows[0]["peak_factor"]), (&"d22".into(), &4.0.into()));
    assert_eq!((&rows[1]["detector"], &rows[1]["output"]), (&Value::Null, &Value::Null));
    // 10.5 Gb/s fit one port of 25 Gb/s.
    assert_eq!(rows[1]["average"]["hosts"]["by_ports"], 1);

    for (text, parts) in [
        ("", &["missing field", "instrument"][..]),
        ("[[instrument]]\nname = 'a'\nraet = 3\n", &["raet"]),
        ("[[instrument]]\nname = 'a'\ndetector = 'sonde'\nrate = -1\n", &["rate: -1", "1 to"]),
        ("[[instrument]]\nname = 'a'\ndetector = 'camera'\n", &["camera", "lab detectors"]),
        ("[[instrument]]\nname = 'a'\n", &["packet_bytes"]),
        ("[[instrument]]\nname = 'a'\ndetector = 'sonde'\npeak = 1e6\n", &["peak", "--rate"]),
    ] {
        fs::write(file, text).unwrap();
        let said = run(dir.path(), &["--instrument", file]);
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{text}: {}", said.err);
        parts
            .iter()
            .for_each(|p| assert!(said.err.contains(p), "{text} must say {p}: {}", said.err));
    }
}

#[test]
fn wrong_options_are_refused_before_anything_is_written() {
    for (words, parts) in [
        (&["--instrument", "dream"][..], &["instrument", "dream", "c-spec", "ska1-mid", "cms"][..]),
        (&["--instrument", "nofile.toml"], &["instrument", "nofile.toml"]),
        (&["--rate", "1Mev/s"], &["rate", "one --instrument"]),
        (&["--instrument", "freia", "--peak", "1Mev/s"], &["peak", "average"]),
        (&["--instrument", "skadi", "--rate", "many"], &["rate", "many"]),
        (&["--instrument", "skadi", "--rate", "1M"], &["rate", "1M", "1Mev/s"]),
        (&["--instrument", "skadi", "--peak", "1Mev/s"], &["peak", "average"]),
        (&["--instrument", "skadi", "--peak", "9Gev/s"], &["peak", "at most 71.4 times"]),
        (&["--peak-factor", "0"], &["peak-factor", "1 to 1000"]),
        (&["--headroom", "2"], &["headroom", "0.1 to 1"]),
        (&["--threads", "3"], &["threads", "1 to 2"]),
        (&["--host-cores", "0"], &["host-cores", "1 to"]),
        (&["--reserve-cores", "4"], &["reserve-cores", "0 to 3"]),
        (&["--port", "5pps"], &["port", "25Gbps"]),
        (&["--ports", "0"], &["ports", "1 to 64"]),
        (&["--size-for", "worst"], &["size-for", "average or peak"]),
        (&["--message-events", "0"], &["message-events", "1 to"]),
        (&["--compress-factor", "0.1"], &["compress_factor", "1 to 100"]),
        (&["--replication", "0"], &["replication", "1 to 9"]),
        (&["--retention", "1s"], &["retention", "60 to"]),
        (&["--outage", "2h"], &["outage", "at most 1h"]),
        (&["--step", "1s"], &["step", "10us to 1ms"]),
        (&["--queue", "0"], &["queue", "1 to 4096"]),
        (&["--spool-size", "1MiB"], &["spool-size", "16 MiB"]),
        (&["--receive-buffer", "some"], &["receive-buffer", "some"]),
        (&["--producer-rate", "0bps"], &["producer-rate"]),
        (&["--measured", "/nonexistent/a.json"], &["measured", "/nonexistent/a.json"]),
        (&["--measured", "Cargo.toml"], &["measured", "Cargo.toml", "no JSON"]),
        (&["--measure", "luck"], &["measure", "luck", "messages"]),
        (&["--measure", "brokers"], &["measure", "--kafka"]),
        (&["--measure", "all", "--kafka", "broker"], &["kafka", "kafka://HOST"]),
        (&["--measure", "disk", "--trial", "1ms"], &["trial", "10ms"]),
        (&["--kafka", "kafka://a/b"], &["--measure"]),
        (&["--no-committed", "--no-committed"], &["--no-committed"]),
        (&["--name", "../x"], &["result name", "../x"]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().to_str().unwrap();
        let mut always = vec!["lab", "capacity", "--out", out, "--overwrite"];
        if !words.contains(&"--outage") {
            always.extend(["--outage", "1s"]);
        }
        let said = say(&[&always[..], words].concat());
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{words:?}: {}", said.err);
        parts
            .iter()
            .for_each(|p| assert!(said.err.contains(p), "{words:?} must say {p}: {}", said.err));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "{words:?}");
    }
}

#[test]
fn the_committed_results_do_for_every_instrument() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    let words = ["lab", "capacity", "--outage", "100ms", "--step", "1ms", "--out", out, "--json"];
    let said = say(&words);
    assert_eq!(said.code, 0, "{}", said.err);
    let rows = said.summary()["rows"].as_array().unwrap().clone();
    assert_eq!(rows.len(), 11);
    for row in &rows {
        assert_eq!(row["rate_known"], true, "{row}");
        let assumed = row["instrument"].as_str().unwrap().starts_with("loki");
        assert_eq!(row["assumed"].is_string(), assumed, "{row}");
        assert!(row["average"]["cores"].as_u64().unwrap() > 0, "{row}");
        assert!(row["measured"]["receive"]["value"].as_f64().unwrap() > 0.0, "{row}");
        assert_eq!(row["detector"].is_null(), row["output"].is_null(), "{row}");
    }
}

#[test]
fn measuring_here_leaves_a_record_and_nothing_else() {
    let cluster: MockCluster<'static, DefaultProducerContext> =
        MockCluster::new(1).expect("a mock");
    cluster.create_topic("capacity", 1, 1).expect("a topic");
    let url = format!("kafka://{}/capacity", cluster.bootstrap_servers());
    let dir = tempfile::tempdir().unwrap();
    let parts = ["--measure", "messages,spool,disk,brokers", "--kafka", &url, "--trial", "10ms"];
    let said = run(dir.path(), &[&["--instrument", "skadi", "--json"][..], &parts].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let measured = &said.summary()["rows"][0]["measured"];
    for (what, name) in
        [("encode", "encode"), ("spool", "spool"), ("produce", "produce"), ("disk", "disk")]
    {
        let from = format!("capacity-measured.json (now): capacity_{name}");
        assert_eq!(measured[what]["from"], from.as_str(), "{measured}");
    }
    let mut files: Vec<String> = fs::read_dir(dir.path().join("out"))
        .unwrap()
        .map(|f| f.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert_eq!(files, ["capacity-measured.json", "capacity.json", "capacity.md"]);
    let text = fs::read_to_string(dir.path().join("out/capacity-measured.json")).unwrap();
    let record: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(record["figures"]["capacity_spool"]["repeats"], 3);
}

#[test]
fn the_file_of_the_document_is_accepted_and_has_every_key() {
    let here = env!("CARGO_MANIFEST_DIR");
    let document = fs::read_to_string(format!("{here}/../../docs/capacity.md")).unwrap();
    let block = document.split_once("```toml file=mine.toml\n").expect("an example").1;
    let block = block.split_once("```").expect("its end").0;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.toml");
    fs::write(&file, block).unwrap();
    let said = run(dir.path(), &["--instrument", file.to_str().unwrap(), "--json"]);
    assert_eq!(said.code, 0, "{}", said.err);
    // A key that is not there names those that are.
    fs::write(&file, format!("{block}colour = 'blue'\n")).unwrap();
    let said = run(dir.path(), &["--instrument", file.to_str().unwrap()]);
    let known = said.err.split_once("expected one of ").expect("it lists them").1;
    let keys: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
    assert!(keys.len() > 8, "{}", said.err);
    for key in keys {
        assert!(block.contains(&format!("\n{key} = ")), "docs/capacity.md lacks {key}");
    }
}
