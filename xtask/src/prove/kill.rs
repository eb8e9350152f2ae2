//! `kill`: the writer of a NeXus file is killed at 50 random moments and its file recovered.
//!
//! The rounds are those of the test `nexus_kill` of `fullcount-nexus`, each with its own seed.
//! Holds if nothing that was flushed was missing once. Refuses a test run that tested nothing.

use serde_json::json;

use super::Finding;
use super::campaign::Campaign;
use crate::command::Job;
use crate::setup;
use crate::tally::Libtest;

/// Units of five kills.
const UNITS: u32 = 10;
const KILLS: u32 = 5;

pub fn run(campaign: &mut Campaign) -> Result<Finding, String> {
    setup::ensure(&[setup::C_COMPILER, setup::CMAKE]).map_err(|missing| missing.to_string())?;
    let results = campaign.units("five kills", UNITS, |unit| {
        // Round r of a test run uses seed + r.
        let seed = 1 + unit * KILLS;
        let mut reader = Libtest::default();
        let end = Job::cargo(&[
            "test",
            "--package",
            "fullcount-nexus",
            "--test",
            "scenarios",
            "--",
            "nexus_kill::",
            "--show-output",
        ])
        .env("FULLCOUNT_KILL_ROUNDS", KILLS.to_string())
        .env("FULLCOUNT_KILL_SEED", seed.to_string())
        .run_reading(|line| reader.read(line));
        let tally = reader.finish(&end, "the kill test");
        if tally.passed == 0 && tally.failed.is_empty() {
            return Err("fullcount-nexus' nexus_kill ran no test: nothing was proved".to_owned());
        }
        Ok(json!({"kills": KILLS, "seed": seed, "failed": tally.failed}))
    })?;
    let held = results.iter().all(|unit| unit["failed"].as_array().is_some_and(Vec::is_empty));
    Ok(Finding { held, figures: json!({"kills": UNITS * KILLS, "units": results}) })
}
