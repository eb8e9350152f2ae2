//! An output that is registered appears everywhere without any other change: help, flags, configuration, claims of files, catalogue,
//! ledger and summary.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn say(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fullcount-pulses"));
    command.args(words).stdin(Stdio::null()).output().expect("it starts")
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What was refused, with exit code 2.
fn refused(words: &[&str]) -> String {
    let output = say(words);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    said
}

fn capture() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let file = root.join("vectors/sonde/sonde.pcap").canonicalize().expect("a vector");
    format!("pcap:{}?flat-out", file.display())
}

#[test]
fn help_catalogue_and_printed_configuration_have_it() {
    assert!(out(&say(&["run", "--help"])).contains("--pulses-file <FILE>"));
    assert!(out(&say(&["catalogue"])).contains("`sink.pulses.lines`"));
    let printed = out(&say(&["run", "--pulses-file", "p.csv", "--print-config"]));
    assert!(
        printed.contains("[output.pulses]") && printed.contains("file = \"p.csv\""),
        "{printed}"
    );
}

#[test]
fn wrong_keys_and_shared_files_are_refused() {
    let said = refused(&["run", "--set", "output.pulses.fiel=x", "--print-config"]);
    assert!(said.contains("`fiel`") && said.contains("in `output.pulses`"), "{said}");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.pcapng").display().to_string();
    let said = refused(&["run", "--pulses-file", &file, "--capture", &file]);
    assert!(said.contains("the same file as") && said.contains("output.pulses.file"), "{said}");
}

#[test]
fn a_run_counts_every_event_in_a_line_and_in_the_summary() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("pulses.csv");
    let shown = file.display().to_string();
    let source = capture();
    let words = ["run", "--source", &source, "--pulses-file", &shown, "--web", "off", "--json"];
    let output = say(&words);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = out(&output).lines().next_back().unwrap_or_default().to_owned();
    let summary: Value = serde_json::from_str(&last).unwrap_or_else(|e| panic!("{e}: {said}"));
    let events = summary["outputs"]["pulses"]["events"].as_u64().expect("an output");
    assert!(events > 0 && summary["balance"] == 0, "{summary}");
    assert_eq!(Some(events), summary["events"].as_u64());
    let text = std::fs::read_to_string(&file).expect("a file");
    let count = |line: &str| line.split_once(',').and_then(|(_, n)| n.parse::<u64>().ok());
    assert_eq!(text.lines().map(|line| count(line).expect("a line")).sum::<u64>(), events);
    // A second run does not write over it.
    assert_eq!(say(&words).status.code(), Some(1));
}
