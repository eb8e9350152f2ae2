//! `heap-ids`: a billion distinct heap numbers into one receive stream of SPEAD: the memory of the window, and no more.
//!
//! It is the test `heap_ids` of `fullcount-spead`, optimised, with so many numbers: its allocator counts every byte. Holds if that test
//! does. Refuses a test run that tested nothing.

use std::time::Instant;

use serde_json::json;

use super::Finding;
use super::campaign::Campaign;
use crate::command::Job;
use crate::tally::Libtest;

const NUMBERS: u64 = 1_000_000_000;

pub fn run(campaign: &mut Campaign) -> Result<Finding, String> {
    let results = campaign.units("billion heap numbers", 1, |_| {
        let (mut reader, mut lines, start) = (Libtest::default(), vec![], Instant::now());
        let arguments = ["--release", "--package", "fullcount-spead", "--test", "heap_ids"];
        let end = Job::cargo(&["test"])
            .args(arguments)
            .args(["--", "--show-output"])
            .env("FULLCOUNT_HEAP_IDS", NUMBERS.to_string())
            .run_reading(|line| {
                if line.contains(" numbers, ") {
                    lines.push(line.trim().to_owned());
                }
                reader.read(line)
            });
        let tally = reader.finish(&end, "the test of heap numbers");
        if tally.passed == 0 && tally.failed.is_empty() {
            return Err("fullcount-spead's heap_ids ran no test: nothing was proved".to_owned());
        }
        let seconds = start.elapsed().as_secs_f64();
        Ok(json!({"numbers": NUMBERS, "memory": lines, "seconds": seconds, "failed": tally.failed}))
    })?;
    let held = results.iter().all(|unit| unit["failed"].as_array().is_some_and(Vec::is_empty));
    Ok(Finding { held, figures: json!({"numbers": NUMBERS, "units": results}) })
}
