//! `line-rate`: 60 s of the first detector's packets at 10 Gb/s through `run --sink null`, one thread.
//!
//! Holds if every packet sent was accepted and the exit code is 0. The
//! figures say what was reached where it did not hold.

use serde_json::json;

use super::Finding;
use super::campaign::Campaign;
use super::lab::{self, Ended};

const RATE: &str = "10Gbps";
const SECONDS: u64 = 60;

pub fn run(campaign: &mut Campaign) -> Result<Finding, String> {
    let results = campaign.units("run of 60 s", 1, |_| measure())?;
    let figures = results.into_iter().next().unwrap_or_default();
    let held = figures["exit"] == 0
        && figures["balance"] == 0
        && figures["packets_sent"].as_u64() > Some(0)
        && figures["packets_sent"] == figures["packets_accepted"]
        // A sender that could not keep up proves nothing about the receiver.
        && figures["gbps_sent"].as_f64() >= Some(9.9);
    Ok(Finding { held, figures })
}

fn measure() -> Result<serde_json::Value, String> {
    let duration = format!("{SECONDS}s");
    let words = ["trial", "--rate", RATE, "--duration", &duration];
    let run = ["--", "run", "--sink", "null", "--threads", "1", "--web", "off"];
    let row = lab::bench(&lab::build()?, &[&words[..], &run].concat())?;
    let (sent, ended) = (Ended::of(&row["send"][0]), Ended::of(&row["receiver"]));
    Ok(json!({
        "rate": RATE,
        "seconds": SECONDS,
        "exit": ended.code,
        "balance": ended.number("/balance"),
        "packets_sent": sent.number("/packets/sent"),
        "packets_accepted": ended.number("/packets/accepted"),
        "packets_lost": ended.sum("/packets/lost"),
        "events": ended.number("/events"),
        "gbps_sent": sent.summary.pointer("/rates/gbps"),
        "gbps_received": ended.summary.pointer("/rates/gbps"),
        "events_per_s": ended.summary.pointer("/rates/events_per_s"),
        "cpu": ended.summary.get("cpu"),
    }))
}
