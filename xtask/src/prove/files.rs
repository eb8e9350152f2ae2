//! `files`: 100 new files begun by command in a minute of `run` at 1 M events/s.
//!
//! Afterwards h5py reads all files again, by `tests/python/check_files.py`. Holds if the rows of `event_id` of all files together are
//! as many as the events that were sent, made and written by the run's own summary, if no two files have a pulse in common and
//! each begins behind the one before, if as many files are there as were begun, and if both ends say that nothing was lost.
//! Refuses a run that begins no file within ten seconds, and a host without the Python that reads the files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::Finding;
use super::campaign::Campaign;
use super::lab::{self, Ended};
use crate::place;
use crate::setup;

/// Files begun behind the first.
const FILES: usize = 100;
const RATE: &str = "1Mev/s";
/// Between two files.
const EVERY: &str = "550ms";

pub fn run(campaign: &mut Campaign) -> Result<Finding, String> {
    let results = campaign.units("100 files in a minute", 1, |_| files())?;
    let figures = results.into_iter().next().unwrap_or_default();
    let number = |name: &str| figures[name].as_u64().unwrap_or(0);
    let sent = number("events_sent");
    let all = ["events", "events_in_files", "events_read"].iter().all(|name| number(name) == sent);
    let begun = FILES as u64 + 1;
    let there = ["files", "files_there", "files_read"].iter().all(|name| number(name) == begun);
    let apart = number("overlaps") == 0 && figures["faults"].as_array().is_some_and(Vec::is_empty);
    let sound = figures["exit"] == 0 && figures["balance"] == 0 && number("packets_lost") == 0;
    Ok(Finding { held: sent > 0 && all && there && apart && sound, figures })
}

/// The Python that the tests use: `FULLCOUNT_PYTHON`, else the private environment, made now if it is not there.
fn python() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os("FULLCOUNT_PYTHON") {
        return Ok(named.into());
    }
    let without = |why: &dyn std::fmt::Display| format!("no Python that reads the files: {why}");
    setup::ensure(&[setup::PYTHON]).map_err(|missing| without(&missing))?;
    setup::python_environment().map_err(|why| without(&why))
}

/// What h5py finds in the files of this folder, in the order of their names.
fn read_again(python: &Path, folder: &Path) -> Result<Value, String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
    let entries = fs::read_dir(folder).map_err(wrong)?;
    let files: Result<Vec<PathBuf>, _> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut files = files.map_err(wrong)?;
    files.sort();
    let script = place::root().join("tests/python/check_files.py");
    let read = Command::new(python).arg(&script).args(&files).output();
    let read = read.map_err(|error| format!("{}: {error}", python.display()))?;
    if !read.status.success() {
        let said = String::from_utf8_lossy(&read.stderr);
        let last = said.trim().lines().next_back().unwrap_or_default().to_owned();
        return Err(format!("{}: {}: {last}", script.display(), read.status));
    }
    serde_json::from_slice(&read.stdout).map_err(|error| format!("{}: {error}", script.display()))
}

/// Files, their events, and how many do not begin behind the last pulse of the files before; those without events are passed over.
fn told(read: &Value) -> (usize, u64, usize) {
    let files = read["files"].as_array().map_or(&[][..], Vec::as_slice);
    let events = files.iter().filter_map(|file| file["events"].as_u64()).sum();
    let borders = files.iter().filter_map(|f| f["first"].as_u64().zip(f["last"].as_u64()));
    let mut before: Option<u64> = None;
    let overlap = |&(first, last): &(u64, u64)| {
        let overlaps = before.is_some_and(|before| first <= before);
        before = before.max(Some(last));
        overlaps
    };
    (files.len(), events, borders.filter(overlap).count())
}

fn files() -> Result<Value, String> {
    // Before anything is written that nobody could read.
    let python = python()?;
    let folder = place::target().join("prove/files");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let first = folder.join("000.nxs").display().to_string();
    let (count, below) = (FILES.to_string(), format!("control.folder={}", folder.display()));
    let words = ["trial", "--rate", RATE, "--duration", "60s", "--commands", &count];
    let command = ["--every", EVERY, "--command", "NEXUS_NEXT {n:03}.nxs {n}"];
    let run = ["--", "run", "--nexus", &first, "--tick", "1ns", "--web", "off", "--set", &below];
    let row = lab::bench(&lab::build()?, &[&words[..], &command, &run].concat())?;
    let (sent, ended) = (Ended::of(&row["send"][0]), Ended::of(&row["receiver"]));
    let there = fs::read_dir(&folder).map_or(0, Iterator::count);
    let read = read_again(&python, &folder)?;
    let (files_read, events_read, overlaps) = told(&read);
    let _ = fs::remove_dir_all(&folder);
    Ok(json!({
        "rate": RATE,
        "exit": ended.code,
        "balance": ended.number("/balance"),
        "packets_sent": sent.number("/packets/sent"),
        "packets_lost": ended.sum("/packets/lost"),
        "events_sent": sent.number("/events"),
        "events": ended.number("/events"),
        "events_in_files": ended.number("/outputs/nexus/events"),
        "files": ended.number("/counters/sink.nexus.files"),
        "files_there": there,
        "files_read": files_read,
        "events_read": events_read,
        "overlaps": overlaps,
        "faults": read["faults"],
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_a_pulse_in_common_and_files_out_of_order_are_counted() {
        let file = |events: u64, first: Option<u64>, last: Option<u64>| json!({"name": "x", "events": events, "first": first, "last": last});
        let read = |files: Vec<Value>| told(&json!({"files": files, "faults": []}));
        let good = vec![file(7, Some(1), Some(5)), file(0, None, None), file(2, Some(6), Some(6))];
        assert_eq!(read(good), (3, 9, 0));
        let shared = vec![file(1, Some(1), Some(5)), file(1, Some(5), Some(9))];
        assert_eq!(read(shared), (2, 2, 1));
        // A file whose pulses lie before those of the one before last.
        let early = vec![
            file(1, Some(10), Some(20)),
            file(1, Some(5), Some(6)),
            file(1, Some(15), Some(16)),
        ];
        assert_eq!(read(early), (3, 3, 2));
        assert_eq!(told(&json!({})), (0, 0, 0));
    }
}
