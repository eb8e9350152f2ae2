//! `fuzz`: each fuzz target for ten million inputs or ten minutes, whichever ends first.
//!
//! Holds if no target found anything. Refuses to go on after a find: the artifact's path is in the
//! message, and `--resume` begins again at that target with the corpus it had.

use std::time::{Duration, Instant};

use serde_json::json;

use super::Finding;
use super::campaign::Campaign;
use crate::{fuzzing, setup};

const RUNS: u64 = 10_000_000;
const LIMIT: Duration = Duration::from_secs(600);

pub fn run(campaign: &mut Campaign) -> Result<Finding, String> {
    setup::ensure(&[setup::C_COMPILER, setup::CPP_COMPILER])
        .map_err(|missing| missing.to_string())?;
    setup::nightly_toolchain()?;
    let targets = fuzzing::build()?;
    let count = u32::try_from(targets.len()).map_err(|error| error.to_string())?;
    let results = campaign.units("fuzz target", count, |unit| {
        let target = &targets[unit as usize];
        let start = Instant::now();
        let mut inputs = 0;
        let end = target.run_reading(RUNS, LIMIT, |line| {
            if let Some(number) = line.strip_prefix("stat::number_of_executed_units:") {
                inputs = number.trim().parse::<u64>().unwrap_or(0);
            }
        });
        if !end.ok {
            return Err(format!("fuzz target {}: {}; see above", target.name, end.phrase));
        }
        let seconds = start.elapsed().as_secs_f64();
        Ok(json!({"target": target.name, "inputs": inputs, "seconds": seconds}))
    })?;
    let held = results.iter().all(|result| result["inputs"].as_u64() > Some(0));
    Ok(Finding { held, figures: json!({"targets": results}) })
}
