//! `stcp`: the simplified TCP into the real Linux stack for 100 GB or 10 min, whichever comes first, over a good link and over one with
//! seeded loss, duplication and reordering in both directions; shorter over links with one of these faults, by `fullcount lab stcp soak`.
//!
//! Holds if every byte was compared and right each time, which the campaign says by its exit code.

use serde_json::json;

use super::Finding;
use super::campaign::Campaign;
use super::lab;

/// Sender, bytes, time, and faults of each unit.
const UNITS: [(&str, &str, &str, &str); 6] = [
    ("offload", "100GB", "10min", ""),
    ("frames", "20GB", "2min", ""),
    ("offload", "20GB", "2min", "loss=0.001,seed=1"),
    ("frames", "10GB", "2min", "loss=0.01,seed=2"),
    ("frames", "10GB", "2min", "duplicate=0.01,swap=0.01,delay=0.005,by=4,seed=3"),
    ("frames", "100GB", "10min", "loss=0.005,duplicate=0.005,swap=0.01,delay=0.005,by=8,seed=4"),
];

pub fn run(campaign: &mut Campaign) -> Result<Finding, String> {
    let binary = lab::build()?;
    let count = u32::try_from(UNITS.len()).map_err(|error| error.to_string())?;
    let runs = campaign.units("link", count, |unit| {
        let (sender, bytes, time, fault) = UNITS[unit as usize];
        let words = ["stcp", "soak", "--sender", sender, "--bytes", bytes, "--time", time];
        let faults = ["--fault", fault];
        let faults = if fault.is_empty() { &[][..] } else { &faults };
        let ended = lab::campaign(&binary, &[&words[..], faults].concat())?;
        Ok(json!({"sender": sender, "fault": fault, "right": ended.held, "record": ended.record}))
    })?;
    let held = runs.iter().all(|run| run["right"] == true);
    Ok(Finding { held, figures: json!({"links": runs}) })
}
