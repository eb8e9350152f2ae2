//! `fullcount lab bench kafka` and `fullcount lab bench write` as a user runs them: wrong options, no jars, no Java, no
//! broker, and a short comparison of each with a real broker. Rates are not judged here: tests share the host with
//! others.

use crate::broker::{BrokerCluster, jars};
use crate::service::{fullcount, say};

#[test]
fn wrong_options_are_refused() {
    for (words, parts) in [
        (&["kafka", "--contenders", "netcat"][..], &["--contenders netcat", "sink"][..]),
        (&["kafka", "--compressions", "rar"], &["--compressions rar", "lz4"]),
        (&["kafka", "--sizes", "10"], &["sizes", "10"]),
        (&["kafka", "--sizes", "9MB"], &["sizes", "9MB"]),
        (&["kafka", "--sizes", "large"], &["sizes", "large"]),
        (&["kafka", "--volume", "1kB"], &["volume"]),
        (&["kafka", "--spool-size", "1MiB"], &["spool-size", "16 MiB"]),
        (&["kafka", "--contenders", "sink", "--broker", "h h"], &["--broker", "h h"]),
        (&["kafka", "--kafka-set", "linger"], &["--kafka-set linger", "NAME=VALUE"]),
        (&["kafka", "--kafka-set", "no.such=1"], &["--kafka-set no.such", "No such"]),
        (&["kafka", "--jars", "/nonexistent"], &["/nonexistent", "cargo xtask kafka"]),
        (&["write", "--jars", "/nonexistent"], &["/nonexistent", "cargo xtask kafka"]),
        (&["write", "--compressions", "gzip:10"], &["--compressions gzip:10", "gzip:9"]),
        (&["write", "--size", "1"], &["size", "1"]),
        (&["write", "--repeats", "0"], &["--repeats"]),
        (&["write", "--broker", "h", "--folder", "/nonexistent"], &["/nonexistent", "folder"]),
    ] {
        let said = say(&[&["lab", "bench"], words].concat());
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{words:?}: {}", said.err);
        for part in parts {
            assert!(said.err.contains(part), "{words:?} must say {part}: {}", said.err);
        }
    }
    let Some(jars) = jars() else { return };
    let jars = jars.display().to_string();
    let said = say(&["lab", "bench", "kafka", "--jars", &jars, "--repeats", "0"]);
    assert!(said.code == 2 && said.err.contains("repeats"), "{}", said.err);
}

#[test]
fn a_missing_java_and_a_missing_broker_are_told_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display().to_string();
    for jar in ["kafka-clients-9.jar", "kafka-tools-9.jar", "kafka_2.13-9.jar"] {
        std::fs::write(folder.path().join(jar), "").unwrap();
    }
    let mut without = fullcount(&["lab", "bench", "kafka", "--jars", &path, "--folder", &path]);
    let said = without.env("PATH", &path).output().unwrap();
    let words = String::from_utf8_lossy(&said.stderr);
    assert_eq!(said.status.code(), Some(1), "{words}");
    assert!(words.contains("java: cannot be started") && words.contains("apt-get install"));
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let broker = format!("127.0.0.1:{port}");
    let ours =
        ["lab", "bench", "kafka", "--contenders", "sink", "--broker", &broker, "--folder", &path];
    let write = ["lab", "bench", "write", "--broker", &broker, "--folder", &path];
    for words in [&ours[..], &write[..]] {
        let said = say(words);
        assert_eq!(said.code, 1, "{}", said.err);
        assert!(said.err.contains("no broker answers") && said.err.contains(&broker));
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "nothing is left behind");
}

#[test]
fn short_comparisons_with_a_real_broker() {
    let Some(jars) = jars() else { return };
    let folder = tempfile::tempdir().unwrap();
    let cluster = BrokerCluster::start(&jars, &folder.path().join("broker"), 1, None).unwrap();
    let (broker, jars) = (cluster.bootstrap(), jars.display().to_string());
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let (data, out) = (data.display().to_string(), folder.path().display().to_string());
    let place = ["--broker", &broker, "--folder", &data, "--out", &out, "--json"];
    let short = ["--volume", "2MB", "--repeats", "1"];
    let said = say(&[
        &["lab", "bench", "kafka", "--jars", &jars, "--sizes", "20kB", "--compressions", "lz4"][..],
        &["--contenders", "ProducerPerformance,sink,sink-no-commit,publisher"],
        &place,
        &short,
    ]
    .concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let record = said.summary();
    let rows = record["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for row in rows {
        let trial = &row["trials"][0];
        assert_eq!(trial["events"], rows[0]["trials"][0]["events"], "the same for all: {row}");
        assert!(trial["bytes"].as_u64() > Some(1_900_000) && trial["seconds"].as_f64() > Some(0.0));
    }
    assert_eq!(rows[0]["ratio"], 1.0);
    let table = std::fs::read_to_string(folder.path().join("kafka.md")).unwrap();
    assert!(table.contains("| sink-no-commit |"), "{table}");

    let write = ["lab", "bench", "write", "--size", "20kB", "--compressions", "none,gzip:1"];
    let said = say(&[&write[..], &place, &short].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let record = said.summary();
    let rows = record["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|r| r["contender"].as_str().unwrap()).collect();
    assert_eq!(names, ["dd", "write none", "write gzip:1"]);
    let events = record["parameters"]["events"].as_u64().unwrap();
    assert!(events > 200_000, "{record}");
    for row in &rows[1..] {
        assert_eq!(row["trials"][0]["events"], events);
    }
    assert_eq!(std::fs::read_dir(&data).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn old_names_say_what_is_called_instead() {
    for (words, instead) in [
        (&["probes"][..], "fullcount lab bench probes"),
        (&["kafka", "--sizes", "10kB", "--json"], "fullcount lab bench kafka --sizes 10kB --json"),
        (&["write", "--help"], "fullcount lab bench write --help"),
        (&["decode"], "fullcount lab detectors --input simulated --detector sonde"),
        (
            &["decode", "--detector", "gdgem", "--core", "1"],
            "fullcount lab detectors --input simulated --detector gdgem --cores 1",
        ),
        (&["decode", "--core=3"], "--detector sonde --cores=3"),
    ] {
        let said = say(&[&["lab"], words].concat());
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{words:?}: {}", said.err);
        assert!(said.err.trim_end().ends_with(instead), "{words:?}: {}", said.err);
    }
    let help = say(&["lab", "--help"]).out;
    assert!(help.contains("\n  bench ") && !help.contains("\n  decode "), "{help}");
    let help = say(&["lab", "bench", "--help"]).out;
    assert!(help.contains("Examples:\n  fullcount lab bench probes"), "{help}");
}
