//! `fuzz`: ten million inputs for each fuzz target and each decoder, then two minutes of each under AddressSanitizer.
//!
//! The ten million are executed by a build with assertions and overflow checks, but without AddressSanitizer, by as
//! many processes as there are cores. They come in parts of a million, each with seeds of its own and the corpus
//! that is there by then, so that `--resume` loses little. Holds if each target executed all of them and none found
//! anything. Refuses to go on after a find: the artifact's path is in the message, and `--resume` begins again at
//! that part with the corpus it had.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Finding;
use super::campaign::Campaign;
use crate::fuzzing::{self, Build, Target, Task};
use crate::setup;

/// Parts of a target, and inputs of each.
const PARTS: u32 = 10;
const EACH: u64 = 1_000_000;
/// A part whose target hangs: the slowest target takes minutes.
const LONGEST: Duration = Duration::from_secs(3 * 3600);
/// Under AddressSanitizer: as many as there are in this time; libFuzzer counts in 32 bits.
const SANITIZED: Duration = Duration::from_secs(120);
const UNLIMITED: u64 = i32::MAX as u64;

pub fn run(campaign: &mut Campaign) -> Result<Finding, String> {
    setup::ensure(&[setup::C_COMPILER, setup::CPP_COMPILER])
        .map_err(|missing| missing.to_string())?;
    setup::nightly_toolchain()?;
    let cores = thread::available_parallelism().map_or(1, |n| n.get() as u32);
    let only = campaign.only.clone();
    let wanted = |target: &Target| only.as_ref().is_none_or(|only| *only == target.name);
    let build = |build| fuzzing::build(build).map(|all| all.into_iter().filter(wanted).collect());
    let targets: Vec<Target> = build(Build::Plain)?;
    if targets.is_empty() {
        return Err(format!(
            "no fuzz target or detector `{}`; targets are in fuzz/Cargo.toml",
            only.unwrap_or_default()
        ));
    }
    let count = u32::try_from(targets.len()).map_err(|error| error.to_string())?;
    let counted = campaign.units("million inputs", count * PARTS, |unit| {
        // No seed twice: two processes with one seed would make the same inputs of the same corpus.
        let seed = 1 + unit * cores;
        let task = Task { runs: EACH, limit: LONGEST, processes: cores, seed };
        part(&targets[(unit / PARTS) as usize], task)
    })?;
    let sanitized: Vec<Target> = build(Build::Sanitized)?;
    let checked = campaign.units("target under AddressSanitizer", count, |unit| {
        let task = Task { runs: UNLIMITED, limit: SANITIZED, processes: cores, seed: 1 + unit };
        part(&sanitized[unit as usize], task)
    })?;
    let names = targets.iter().map(|target| target.name.as_str());
    let rows: Vec<Value> =
        names.map(|name| row(name, &counted, &checked, u64::from(PARTS) * EACH)).collect();
    let held = rows.iter().all(|row| row["complete"] == true);
    Ok(Finding { held, figures: json!({"processes": cores, "targets": rows}) })
}

fn part(target: &Target, task: Task) -> Result<Value, String> {
    let start = Instant::now();
    let (inputs, end) = target.fuzz(task);
    if !end.ok {
        return Err(format!("fuzz target {}: {}; see above", target.name, end.phrase));
    }
    let seconds = start.elapsed().as_secs_f64();
    Ok(json!({"target": target.name, "inputs": inputs, "seconds": seconds}))
}

/// What one target did in all its parts.
fn row(name: &str, counted: &[Value], checked: &[Value], wanted: u64) -> Value {
    let own = |of: &[Value]| {
        let parts = of.iter().filter(|part| part["target"] == name);
        parts.fold((0, 0.0), |(inputs, seconds), part| {
            let number = part["inputs"].as_u64().unwrap_or(0);
            (inputs + number, seconds + part["seconds"].as_f64().unwrap_or(0.0))
        })
    };
    let ((inputs, seconds), (sanitized, _)) = (own(counted), own(checked));
    json!({
        "target": name, "inputs": inputs, "wanted": wanted, "seconds": seconds,
        "inputs_under_sanitizer": sanitized, "complete": inputs >= wanted && sanitized > 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_complete_with_all_its_inputs_and_some_under_the_sanitizer() {
        let part =
            |target: &str, inputs: u64| json!({"target": target, "inputs": inputs, "seconds": 2.0});
        let counted = [part("a", 600), part("b", 1), part("a", 400)];
        let sanitized = [part("a", 9), part("b", 0)];
        let a = row("a", &counted, &sanitized, 1000);
        assert_eq!(
            (&a["inputs"], &a["seconds"], &a["complete"]),
            (&1000.into(), &4.0.into(), &true.into())
        );
        assert_eq!(row("a", &counted[..2], &sanitized, 1000)["complete"], false, "short of inputs");
        assert_eq!(
            row("b", &counted, &sanitized, 1)["complete"],
            false,
            "none under the sanitizer"
        );
    }
}
