//! `soak`: ten minutes of `run` at 1 M events/s into a file, its memory read at 1 and 10 minutes.
//!
//! Holds if both ends say that nothing was lost and the memory at the end is at most 5 % or 8 MiB
//! above that of the first minute (allocator noise; a leak of one byte per packet would be 2 MB).
//! Refuses to call a soak finished that lost its service half-way; it cannot be resumed inside its
//! one unit.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::Finding;
use super::campaign::Campaign;
use super::service::{self, Ended};
use crate::command::spoken;
use crate::{kinds, place};

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
    let binary = service::build()?;
    let detector = kinds::first(&binary)?;
    let file = place::target().join("prove/soak.nxs");
    let path = file.display().to_string();
    let duration = format!("{SECONDS}s");
    let run = ["--nexus", &path, "--overwrite", "--web", "127.0.0.1:0"];
    let send = ["--rate", RATE, "--duration", &duration];
    let (mut receiver, sender) = service::run_and_send(&binary, &detector, &run, &send)?;
    let start = Instant::now();
    let mut samples = Vec::new();
    // Every 10 s up to the last whole one before the sender ends: memory under load.
    for second in (10..SECONDS).step_by(10) {
        let due = start + Duration::from_secs(second);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let Some(bytes) = receiver.resident_bytes().filter(|_| receiver.is_running()) else {
            return receiver.finish(Duration::ZERO).map(|_| "run ended early".into());
        };
        samples.push((second, bytes));
        let left = Duration::from_secs(SECONDS - second);
        println!("{second:4} s: {:7.1} MiB, {} left", mib(bytes), spoken(left));
    }
    let sent = sender.finish(Duration::from_secs(120))?;
    // What is queued and in the socket is read within a moment; then it is told to end.
    thread::sleep(Duration::from_secs(2));
    receiver.interrupt();
    let ended: Ended = receiver.finish(Duration::from_secs(120))?;
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

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1u32 << 20)
}
