//! A source that is registered appears everywhere without any other change: help, refusals, catalogue, ledger and summary.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn say(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fullcount-lines"));
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

fn object(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = out(output).lines().next_back().unwrap_or_default().to_owned();
    serde_json::from_str(&last).unwrap_or_else(|e| panic!("{e}: {said}"))
}

/// A detector that needs no geometry, and packets of it as lines.
fn sample() -> (String, Vec<String>) {
    let kinds = object(&say(&["catalogue", "--kinds", "--json"]));
    let sources = kinds["sources"].as_array().expect("a list");
    let own = sources.iter().find(|kind| kind["name"] == "lines").expect("it is listed");
    assert_eq!((&own["keys"][0]["key"], &own["keys"][0]["default"]), (&"skip".into(), &"0".into()));
    let all = kinds["detectors"].as_array().expect("a list");
    let plain = |kind: &&Value| kind["sample"].is_object() && kind["sample"]["geometry"].is_null();
    let kind = all.iter().find(plain).expect("one");
    let packets = kind["sample"]["packets"].as_array().expect("a list").iter();
    let lines = packets.map(|packet| packet.as_str().expect("text").to_owned()).collect();
    (kind["name"].as_str().expect("a name").to_owned(), lines)
}

#[test]
fn help_catalogue_and_refusals_have_it() {
    for verb in ["run", "receive", "inspect"] {
        let help = out(&say(&[verb, "--help"])).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains("lines:packets.txt"), "{verb}: {help}");
    }
    assert!(out(&say(&["catalogue"])).contains("`lines.refused`"));
    assert!(out(&say(&["catalogue", "--kinds"])).contains("lines:FILE"));
    let said = refused(&["run", "--source", "lnies:a", "--print-config"]);
    assert!(said.contains("unknown scheme 'lnies'") && said.contains("lines"), "{said}");
    let said = refused(&["run", "--source", "lines:a?jump=1"]);
    assert!(said.contains("unknown key 'jump' for lines; known are skip"), "{said}");
    let said = refused(&["run", "--source", "lines:no-such-file", "--web", "off"]);
    assert!(said.contains("source.url = lines:no-such-file"), "{said}");
    let said = refused(&["run", "--source", "lines:a", "--set", "source.options.x=1"]);
    assert!(said.contains("not with lines:a"), "{said}");
}

#[test]
fn a_run_reads_packets_and_counts_lines_that_are_none() {
    let (detector, lines) = sample();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("packets.txt");
    std::fs::write(&file, format!("{}\nno packet\n", lines.join("\n"))).expect("written");
    let url = format!("lines:{}", file.display());
    let words = ["--detector", &detector, "--web", "off", "--json"];
    let output = say(&[&["run", "--source", &url, "--sink", "null"][..], &words].concat());
    let summary = object(&output);
    assert_eq!(summary["balance"], 0, "{summary}");
    assert_eq!(summary["packets"]["received"], lines.len() + 1, "{summary}");
    // It is read: no output may be it.
    let shown = file.display().to_string();
    let said = refused(&["run", "--source", &url, "--detector", &detector, "--capture", &shown]);
    assert!(said.contains("the same file as source.url"), "{said}");
    assert!(Path::new(&file).is_file());
    let output = say(&["inspect", &url, "--detector", &detector]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}
