//! `soak`: ten minutes of `run` at 1 M events/s into a file, its memory read at 1 and 10 minutes.
//!
//! Holds if both ends say that nothing was lost and the memory at the end is at most 5 % or 8 MiB
//! above that of the first minute (allocator noise; a leak of one byte per packet would be 2 MB).
//! Refuses to call a soak finished that lost its service half-way; it cannot be resumed inside its
//! one unit.

use std::fs;

use serde_json::json;

use super::Finding;
use super::campaign::Campaign;
use super::lab::{self, Ended};
use crate::place;

const SECONDS: u64 = 600;
const RATE: &str = "1Mev/s";

pub fn run(campaign: &mut Campaign) -> Result<Finding, String> {
    let results = campaign.units("soak of 10 min", 1, |_| soak())?;
    let figures = results.into_iter().next().unwrap_or_default();
    let number = |name: &str| figures[name].as_u64().unwrap_or(0);
    let (first, last) = (number("resident_bytes_1_min"), number("resident_bytes_10_min"));
    let flat = first > 0 && last <= first + (first / 20).max(8 << 20);
    let complete = number("packets_sent") > 0
        && number("packets_sent") == number("packets_accepted")
        && number("events") == number("events_in_file");
    let balanced = figures["exit"] == 0 && figures["balance"] == 0;
    Ok(Finding { held: flat && complete && balanced, figures })
}

fn soak() -> Result<serde_json::Value, String> {
    let file = place::target().join("prove/soak.nxs");
    let (path, duration) = (file.display().to_string(), format!("{SECONDS}s"));
    // Memory is read every 10 s up to the last whole one before the sender ends.
    let words = ["trial", "--rate", RATE, "--duration", &duration, "--memory-every", "10s"];
    let run = ["--", "run", "--nexus", &path, "--overwrite", "--web", "127.0.0.1:0"];
    let row = lab::bench(&lab::build()?, &[&words[..], &run].concat())?;
    let (sent, ended) = (Ended::of(&row["send"][0]), Ended::of(&row["receiver"]));
    let samples = row["memory"].as_array().into_iter().flatten();
    let samples: Vec<(u64, u64)> =
        samples.filter_map(|sample| Some((sample[0].as_u64()?, sample[1].as_u64()?))).collect();
    let size = fs::metadata(&file).map_or(0, |metadata| metadata.len());
    let _ = fs::remove_file(&file);
    let at = |wanted: u64| samples.iter().find(|(second, _)| *second == wanted).map(|(_, b)| *b);
    Ok(json!({
        "rate": RATE,
        "seconds": SECONDS,
        "exit": ended.code,
        "balance": ended.number("/balance"),
        "packets_sent": sent.number("/packets/sent"),
        "packets_accepted": ended.number("/packets/accepted"),
        "packets_lost": ended.sum("/packets/lost"),
        "events": ended.number("/events"),
        "events_in_file": ended.number("/outputs/nexus/events"),
        "file_bytes": size,
        "resident_bytes_1_min": at(60),
        "resident_bytes_10_min": at(SECONDS - 10),
        "resident_bytes_highest": samples.iter().map(|(_, bytes)| *bytes).max(),
    }))
}
