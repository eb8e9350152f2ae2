//! A kind that is registered appears everywhere without any other change: help, configuration, catalogue, ledger, page,
//! demonstration, `lab detectors`, and the list that `cargo xtask prove datagrams` and the fuzz seeds come from.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_fullcount-tube");

fn say(words: &str) -> Output {
    let words = words.split_whitespace();
    Command::new(PROGRAM).args(words).stdin(Stdio::null()).output().expect("it starts")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What was refused.
fn refused(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    said
}

/// The object on the last line.
fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().next_back().unwrap_or_default();
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_str(last).unwrap_or_else(|e| panic!("{e}: {text} {said}"))
}

fn shown(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

#[test]
fn help_texts_name_it() {
    for verb in ["run", "inspect", "send", "demo"] {
        let help = text(&say(&format!("{verb} --help")));
        assert!(help.contains("tube"), "{verb}: {help}");
    }
    let help = text(&say("send --help"));
    assert!(help.contains("--tubes <N>"), "{help}");
    let said = refused(&say("send --to udp://127.0.0.1:9 --tubes 4"));
    assert!(said.contains("only the source tube has it"), "{said}");
}

#[test]
fn configuration_and_geometry_are_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let to = "--to udp://127.0.0.1:9";
    let geometry = text(&say(&format!("send {to} --source tube --tubes 4 --print-geometry")));
    assert_eq!(geometry, "tubes = 4\n");
    let file = shown(folder.path(), "tubes.toml");
    std::fs::write(&file, "tubes = 300").unwrap();
    let run = format!("run --detector tube --geometry {file} --sink null --web off");
    let said = refused(&say(&run));
    assert!(said.contains("tubes: 300 is not allowed: 1 to 256"), "{said}");
    std::fs::write(&file, geometry).unwrap();
    let config = text(&say(&format!("{run} --print-config")));
    assert!(config.contains("kind = \"tube\""), "{config}");
}

#[test]
fn the_catalogue_has_its_counters_and_its_kinds() {
    let counters = text(&say("catalogue"));
    assert!(counters.contains("`readouts.outside_tubes`"), "{counters}");
    assert!(text(&say("catalogue --kinds")).contains("--tubes"));
    // What `prove datagrams` and the seeds of the fuzz target come from.
    let kinds = json(&say("catalogue --kinds --json"));
    let own = |list: &str| {
        let all = kinds[list].as_array().unwrap();
        all.iter().find(|kind| kind["name"] == "tube").unwrap().clone()
    };
    let sample = &own("detectors")["sample"];
    assert_eq!(sample["geometry"], "tubes = 8\n");
    assert!(sample["packets"][0].as_str().unwrap().starts_with("54554245"), "{sample}");
    assert_eq!(own("simulators")["options"][0]["key"], "tubes");
    assert_eq!(own("simulators")["uses"], serde_json::json!(["demo", "lab detectors"]));
}

#[test]
fn the_demonstration_counts_it_in_full() {
    let folder = tempfile::tempdir().unwrap();
    let dir = shown(folder.path(), "demo");
    let demo = say(&format!("demo --detector tube --duration 1s --dir {dir} --web off --json"));
    let said = json(&demo);
    assert_eq!(demo.status.code(), Some(0), "{said}");
    let demo = &said["demo"];
    assert!(demo["packets_sent"].as_u64() > Some(100), "{demo}");
    assert_eq!(demo["packets_sent"], demo["packets_delivered"]);
    assert_eq!(demo["events_made"], demo["events_in_file"]);
    assert_eq!(said["counters"]["decode.accepted"], demo["packets_sent"]);
    assert_eq!(said["balance"], 0);
}

#[test]
fn the_page_shows_it() {
    let words = "run --source udp://127.0.0.1:0 --detector tube --sink null --web 127.0.0.1:0 --duration 60s";
    let mut run = Command::new(PROGRAM)
        .args(words.split_whitespace())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(run.stderr.take().unwrap()).lines();
    let address = lines
        .find_map(|line| Some(line.ok()?.split_once("http://")?.1.split('/').next()?.to_owned()))
        .expect("it says where the page is");
    let mut page = TcpStream::connect(&address).unwrap();
    let request =
        format!("GET /api/state HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    page.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    page.read_to_string(&mut answer).unwrap();
    run.kill().unwrap();
    run.wait().unwrap();
    assert!(answer.contains("\"tube · udp://") && answer.contains("\"Tubes\""), "{answer}");
}

#[test]
fn lab_detectors_measures_it() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().display().to_string();
    let words = "lab detectors --detector tube --duration 50ms --repeats 1 --memory 4MiB --out";
    let table = text(&say(&format!("{words} {out}")));
    assert!(table.contains("| tube | simulated |"), "{table}");
    let json = std::fs::read_to_string(folder.path().join("detectors-memory.json")).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["rows"][0]["detector"], "tube");
    assert!(json["rows"][0]["events"]["value"].as_f64() > Some(0.0), "{json}");
}
