//! A run over a real Kafka whose detector counts from 1970: its file is empty, and the writer reports this while it
//! runs, at its end, and by its exit code. It used to report a complete file, and to exit with 0.
//!
//! Needs Java and the jars that `cargo xtask test` has fetched; without them it is skipped with a message, and fails
//! with CI=true.

use crate::broker;
use crate::broker::packet;
use crate::recipe::{Facility, json_in, wait_for};
use crate::service::{say, write_capture};
use serde_json::Value;

const GROUP: &str = "/entry/instrument/sonde/sonde_events";
/// Packets of 100 events.
const PACKETS: u32 = 200;

#[test]
fn a_run_whose_events_are_all_before_its_start_says_so_and_ends_with_3() {
    let topics = ["pool", "control", "logs", "sonde_detector"];
    let Some(facility) = Facility::new(&topics) else { return };
    let control = facility.control();
    let structure = facility.structure("sonde", &["--detector", "sonde"]);
    let writer = facility.writer(&["--files", "1"]);
    let run = facility.run("sonde", &structure, &[]);

    // A capture without an epoch: its clock says how long the module has run.
    let capture = facility.folder.path().join("old.pcap");
    let all: Vec<_> = (0..PACKETS).map(packet).collect();
    write_capture(&capture, all.iter().map(|p| (1, p.as_slice())));
    let source = format!("pcap:{}?flat-out", capture.display());
    let (to, spool) = (facility.url("sonde_detector"), facility.path("spool"));
    let mut arguments = vec!["run", "--source", &source, "--detector", "sonde", "--kafka", &to];
    arguments.extend(["--spool", &spool, "--web", "off", "--json"]);
    arguments.extend(["--set", "output.kafka.source_name=sonde"]);
    arguments.extend(["--set", "output.kafka.drain=100s"]);
    let said = say(&arguments);
    assert_eq!(said.code, 0, "{}", said.err);
    let events = u64::from(PACKETS * broker::EVENTS);
    assert_eq!(said.summary()["outputs"]["kafka"]["events"], events);

    // While it runs.
    let all_of_them = |message: &Value| {
        json_in(message, "status_json")["before_start"][GROUP]["events"] == events
    };
    let status = json_in(&wait_for(&control, "x5f2", all_of_them), "status_json");
    let words = status["outside_run"][0].as_str().unwrap();
    assert!(words.contains("20000 events") && words.contains("epoch = \"now\""), "{words}");
    assert!(status["before_start"][GROUP]["newest"].as_str().unwrap().starts_with("1970-01-01T"));
    assert_eq!(status["streams_outside"], 1, "logs that say nothing are fine: {status}");

    run.interrupt();
    let said = run.end();
    assert_eq!(said.code, 0, "{}", said.err);
    let wrdn = wait_for(&control, "wrdn", |_| true);
    assert_eq!(wrdn["error_encountered"], true, "{wrdn}");
    let words = wrdn["message"].as_str().unwrap();
    let wanted = format!("{GROUP}: all {events} events in ");
    assert!(words.contains(&wanted) && words.contains("are before its start 20"), "{words}");
    let metadata = json_in(&wrdn, "metadata");
    assert_eq!((&metadata["events"][GROUP], &metadata["streams_outside"]), (&0.into(), &1.into()));

    let output = writer.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{errors}");
    assert!(
        errors.contains("so far ") && errors.contains("all 20,000 events are before the start"),
        "{errors}"
    );
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["files"][0]["before_start"][GROUP]["events"], events);
    let of = (&summary["counters"]["write.streams_outside"], &summary["exit_code"]);
    assert_eq!(of, (&1.into(), &3.into()));
    assert_eq!(summary["balance_difference"], 0);
}
