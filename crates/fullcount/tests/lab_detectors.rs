//! `fullcount lab detectors` as a user runs it: wrong options, a missing capture, short campaigns from memory, over
//! UDP and with several pipelines. Rates are not judged here: tests share the host with others.

use crate::service;
use std::path::Path;

use crate::service::{Said, Service, say, vector};
use serde_json::Value;

fn run(out: &Path, words: &[&str]) -> Said {
    let out = out.to_str().unwrap();
    let vectors = vector("");
    let always = ["lab", "detectors", "--vectors", &vectors, "--out", out, "--overwrite"];
    say(&[&always[..], words].concat())
}

#[test]
fn wrong_options_are_refused_before_anything_is_made() {
    for (words, parts) in [
        (&["--detector", "camera"][..], &["detector", "camera", "sonde"][..]),
        (&["--detector", "sequence"], &["detector", "sequence", "--capture sequence=FILE"]),
        (&["--input", "some"], &["input", "some", "simulated", "captures"]),
        (&["--detector", "sonde", "--input", "dense"], &["input", "dense", "sonde has here"]),
        (&["--capture", "run42.pcapng"], &["capture", "KIND=FILE"]),
        (&["--capture", "camera=run42.pcapng"], &["capture", "camera", "measured"]),
        (&["--capture", "sonde=run42.pcapng?repeat=3"], &["capture", "port=N"]),
        (&["--capture", "sonde=a", "--capture", "sonde=b"], &["capture", "one capture a detector"]),
        (&["--geometry", "sonde=/nonexistent/g.toml"], &["geometry", "/nonexistent/g.toml"]),
        (&["--set", "max_streams=1"], &["set", "KIND.KEY=VALUE"]),
        (&["--set", "sonde.no_such_key=1"], &["no_such_key"]),
        (&["--over", "air"], &["over", "air", "memory, udp"]),
        (&["--memory", "0"], &["memory", "0", "half"]),
        (&["--memory", "900GiB"], &["memory", "900GiB", "half"]),
        (&["--duration", "0s"], &["duration", "0 s"]),
        (&["--duration", "long"], &["duration", "long"]),
        (&["--repeats", "0"], &["repeats", "1 or more"]),
        (&["--threads", "3"], &["threads", "1 or 2"]),
        (&["--pipelines", "0"], &["pipelines", "1 to 64"]),
        (&["--cores", "0,0"], &["cores", "each CPU once"]),
        (&["--cores", "4096"], &["cores", "4096"]),
        (&["--receive-buffer", "much"], &["receive-buffer", "much"]),
        (&["--resolution", "90%"], &["resolution", "50%"]),
        (&["--name", "../x"], &["result name", "../x"]),
        (&["--profile"], &["profile", "--over udp"]),
        (&["--profile", "--over", "udp", "--cores", "0"], &["profile", "3 CPUs", "there are 1"]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let said = run(dir.path(), words);
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{words:?}: {}", said.err);
        for part in parts {
            assert!(said.err.contains(part), "{words:?} must say {part}: {}", said.err);
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "{words:?}");
    }
}

#[test]
fn a_capture_that_is_not_there_or_empty_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let said = run(dir.path(), &["--capture", "sonde=/nonexistent/run42.pcapng"]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("/nonexistent/run42.pcapng"), "{}", said.err);
    let empty = service::capture(dir.path(), "empty", &[]);
    let said = run(dir.path(), &["--capture", &format!("sonde={empty}")]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("empty.pcap: no UDP payload"), "{}", said.err);
}

fn figure(row: &Value, what: &str) -> f64 {
    row[what]["value"].as_f64().unwrap_or_else(|| panic!("no {what}: {row}"))
}

/// Rates are there and fit each other.
fn fit(row: &Value, readouts_per_packet: f64, bytes_per_packet: f64) {
    let packets = figure(row, "packets");
    let close = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-6;
    assert!(packets > 0.0, "{row}");
    assert!(close(figure(row, "readouts"), readouts_per_packet * packets), "{row}");
    assert!(close(figure(row, "read") * 1e9, bytes_per_packet * packets), "{row}");
    assert!(close(row["packet_bytes"].as_f64().unwrap(), bytes_per_packet), "{row}");
}

#[test]
fn from_memory_with_several_pipelines_leaves_record_table_and_figure() {
    let dir = tempfile::tempdir().unwrap();
    let words = [
        &["--detector", "sonde", "--over", "memory", "--pipelines", "2", "--memory", "1MiB"][..],
        &["--duration", "30ms", "--repeats", "2", "--json"],
    ];
    let said = run(dir.path(), &words.concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let record = said.summary();
    let rows = record["rows"].as_array().unwrap();
    let row = |input: &str| {
        let found = rows.iter().find(|r| r["input"] == input);
        found.unwrap_or_else(|| panic!("no {input}: {record}"))
    };
    let simulated = row("simulated");
    fit(simulated, 250.0, 1261.0);
    assert_eq!(
        figure(simulated, "events"),
        figure(simulated, "readouts"),
        "every readout has a pixel"
    );
    assert_eq!((figure(simulated, "cores"), &simulated["paper"]["cores"]), (1.0, &2.into()));
    fit(row("recorded"), 64.0, 145.0);
    let points: Vec<&Value> = rows.iter().filter(|r| r["how"] == "pipelines").collect();
    let numbers: Vec<_> = points.iter().map(|p| p["pipelines"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2], "one alone is always measured");
    for point in &points {
        for trial in point["trials"].as_array().unwrap() {
            let members = trial.as_array().unwrap();
            assert_eq!(members.len() as u64, point["pipelines"].as_u64().unwrap());
            assert!(members.iter().all(|m| m["events_per_s"].as_f64().unwrap() > 0.0), "{point}");
        }
        assert!(point["copy_gbytes_per_s"].as_f64().unwrap() > 0.0);
    }
    assert!(said.err.contains("[1/8]") && said.err.contains(" left"), "{}", said.err);
    let table = std::fs::read_to_string(dir.path().join("detectors.md")).unwrap();
    for words in ["| sonde | simulated | from memory, 1 thread |", "the paper, 2018", "| 94.0 k |"]
    {
        assert!(table.contains(words), "{words}: {table}");
    }
    let file = std::fs::read_to_string(dir.path().join("detectors.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&file).unwrap(), record);
    assert!(dir.path().join("detectors-pipelines.svg").is_file());
    assert!(dir.path().join("detectors-pipelines.png").is_file());
}

#[test]
fn every_detector_makes_events_of_every_input() {
    let dir = tempfile::tempdir().unwrap();
    let said = run(
        dir.path(),
        &["--duration", "10ms", "--repeats", "1", "--memory", "2MiB", "--name", "all", "--json"],
    );
    assert_eq!(said.code, 0, "{}", said.err);
    let record = said.summary();
    let rows = record["rows"].as_array().unwrap();
    assert!(rows.iter().any(|r| r["detector"] == "sonde"), "{record}");
    for row in rows {
        let packets = figure(row, "packets");
        if row["readouts"].is_null() && row["detector"] == "heap" {
            // Its results are arrays: it has neither readouts nor events.
            assert!(packets > 0.0, "{row}");
        } else {
            let [readouts, events] = ["readouts", "events"].map(|what| figure(row, what));
            let reading = row["how"] == "memory-reading";
            assert!(packets > 0.0 && (events == 0.0) == reading && events <= readouts, "{row}");
        }
        let bytes = row["packet_bytes"].as_f64().unwrap() * packets;
        // Batches that were read, against the mean of all: nearly the same.
        assert!((0.5..2.0).contains(&(figure(row, "read") * 1e9 / bytes)), "{row}");
    }
}

#[test]
fn a_capture_of_ones_own_is_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let capture = vector("sonde/sonde.pcap");
    let words = ["--capture", &format!("sonde={capture}?port=9000"), "--detector", "sonde"];
    let short =
        ["--duration", "20ms", "--repeats", "1", "--memory", "1MiB", "--json", "--name", "own"];
    let said = run(dir.path(), &[&words[..], &short].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let record = said.summary();
    let rows = record["rows"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[0]["input"]), (1, &"capture".into()), "{record}");
    let [readouts, events] = ["readouts", "events"].map(|what| figure(&rows[0], what));
    assert!(0.0 < events && events < readouts, "the capture holds channels without a pixel");
    assert!(rows[0]["about"].as_str().unwrap().contains("sonde.pcap"));
    assert!(dir.path().join("own.md").is_file());
}

#[test]
fn over_udp_the_service_says_its_rates() {
    let dir = tempfile::tempdir().unwrap();
    let words = [
        &["--detector", "sonde", "--over", "udp", "--threads", "1,2", "--flat-out-only"][..],
        &["--duration", "3s", "--repeats", "1", "--memory", "4MiB", "--json"],
    ];
    let said = run(dir.path(), &words.concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let record = said.summary();
    let rows = record["rows"].as_array().unwrap();
    let how: Vec<&Value> = rows.iter().map(|r| &r["how"]).collect();
    assert_eq!(how, ["udp-flat-out-1", "udp-flat-out-2"], "{record}");
    for row in rows {
        let (packets, events) = (figure(row, "packets"), figure(row, "events"));
        assert!(packets > 0.0 && events > 0.0 && figure(row, "cores") > 0.0, "{row}");
        assert!((0.0..1.0).contains(&figure(row, "lost")), "{row}");
    }
    let table = std::fs::read_to_string(dir.path().join("detectors-udp.md")).unwrap();
    assert!(table.contains("UDP flat out, 2 threads"), "{table}");
}

#[test]
fn over_udp_captures_are_played_whatever_they_are_called() {
    let dir = tempfile::tempdir().unwrap();
    let words = [
        &["--detector", "gdgem,multigrid", "--over", "udp", "--threads", "1", "--flat-out-only"][..],
        &["--duration", "3s", "--repeats", "1", "--memory", "1MiB", "--json"],
    ];
    let said = run(dir.path(), &words.concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let record = said.summary();
    assert_eq!(record["name"], "detectors-udp", "{record}");
    let rows = record["rows"].as_array().unwrap();
    let what: Vec<_> = rows.iter().map(|r| (&r["detector"], &r["input"])).collect();
    let expected = [("multigrid", "vectors"), ("gdgem", "recorded")];
    for (detector, input) in expected {
        assert!(what.contains(&(&detector.into(), &input.into())), "{record}");
    }
    assert_eq!(rows.len(), expected.len(), "one input a detector: {record}");
    for row in rows {
        assert!(figure(row, "events") > 0.0 && figure(row, "readouts") > 0.0, "{row}");
    }
}

#[test]
fn a_profile_without_perf_is_refused_and_says_what_to_install() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let mut command = service::fullcount(&["lab", "detectors", "--over", "udp", "--near-cores"]);
    // A folder without any program.
    command.args(["--profile", "--out"]).arg(&out).env("PATH", dir.path());
    let done = command.output().unwrap();
    let err = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{err}");
    assert!(err.contains("perf: cannot be started") && err.contains("linux-perf"), "{err}");
    assert!(!out.exists(), "before anything is made");
}

/// Says why a profile cannot be taken here: no perf, too few cores, or a kernel that keeps its counters.
fn no_profile() -> Option<String> {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return Some("a profile needs a core beside the sender's".to_owned());
    }
    let samples = fullcount_lab::profile::ProfileRecording::begin(0).and_then(|recording| {
        // On a busy host a core may well get none of this process's work, so some is tied to it.
        let work = std::thread::spawn(|| {
            let time = fullcount_io::sys::thread_cpu_time;
            drop(fullcount_io::sys::pin_thread(0));
            while time().is_ok_and(|t| t.user_ns < 200_000_000) {
                std::hint::spin_loop();
            }
        });
        drop(work.join());
        recording.end()
    });
    samples.err().map(|e| e.to_string())
}

#[test]
fn a_profile_says_what_the_cores_of_the_service_do() {
    if let Some(reason) = no_profile() {
        println!("skipped: {reason}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let words = [
        &["--detector", "sonde", "--over", "udp", "--threads", "1", "--flat-out-only"][..],
        &["--duration", "3s", "--repeats", "1", "--memory", "4MiB", "--profile", "--json"],
    ];
    let said = run(dir.path(), &words.concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let record = said.summary();
    let rows = record["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "the trial that is watched is no row: {record}");
    let cores = rows[0]["profile"].as_array().unwrap();
    assert_eq!((cores.len(), &cores[0]["work"]), (1, &"receive and process".into()), "{record}");
    assert!(cores[0]["busy_percent"].as_f64().unwrap() > 0.0, "{record}");
    let symbols = cores[0]["symbols"].as_array().unwrap();
    let all: f64 = symbols.iter().map(|s| s["percent"].as_f64().unwrap()).sum();
    assert!((99.0..101.0).contains(&all), "{record}");
    let table = std::fs::read_to_string(dir.path().join("detectors-udp.md")).unwrap();
    assert!(table.contains("## What the cores of the service do"), "{table}");
    assert!(table.contains("receive and process core: "), "{table}");
}

#[test]
fn where_flat_out_loses_the_rate_without_loss_is_searched() {
    let dir = tempfile::tempdir().unwrap();
    // A buffer for less than one train loses flat out; the lowest rate is that of a train now and then.
    let words = [
        &["--detector", "sonde", "--over", "udp", "--threads", "1", "--receive-buffer", "4KiB"][..],
        &["--duration", "3s", "--repeats", "1", "--memory", "4MiB", "--json", "--trial", "200ms"],
        &["--confirm", "200ms", "--confirmations", "1", "--resolution", "50%", "--retries", "0"],
    ];
    let said = run(dir.path(), &words.concat());
    let record = said.summary();
    let rows = record["rows"].as_array().unwrap();
    assert!(figure(&rows[0], "lost") > 0.0, "{record}");
    assert_eq!(rows[1]["how"], "udp-lossless-1", "{record}");
    let found = !rows[1]["trials"].as_array().unwrap().is_empty();
    assert!(!rows[1]["search"]["trials"].as_array().unwrap().is_empty(), "{record}");
    assert_eq!(said.code, i32::from(!found), "{}", said.err);
    assert!(said.err.contains("search at"), "{}", said.err);
}

#[test]
fn an_interrupted_campaign_leaves_nothing_behind() {
    for (words, line) in [
        (&["--duration", "600s", "--memory", "4MiB"][..], "preparing"),
        (&["--duration", "600s", "--over", "udp", "--memory", "4MiB"], "writing a capture"),
        (&["--duration", "600s", "--pipelines", "2", "--memory", "4MiB"], "preparing"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().to_str().unwrap();
        let always = ["lab", "detectors", "--detector", "sonde", "--out", out, "--overwrite"];
        let mut run = Service::start(&[&always[..], words].concat());
        let scratch = format!("fullcount-detectors-{}", run.child.id());
        run.wait_for(line, |l| l.contains(line).then_some(()));
        run.interrupt();
        let said = run.end();
        assert_eq!(said.code, 1, "{words:?}: {}", said.err);
        assert!(said.err.contains("interrupted"), "{words:?}: {}", said.err);
        assert_eq!(std::fs::read_dir(out).unwrap().count(), 0, "no result of half a campaign");
        assert!(!std::env::temp_dir().join(scratch).exists(), "{words:?}");
    }
}
