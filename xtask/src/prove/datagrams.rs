//! `datagrams`: for each detector that the program has ten million datagrams that no readout system sends, into a `run` of its own.
//!
//! A third is noise of any length from 0 to 9000 B (one in ten thousand 65,507 B, the longest that
//! UDP carries), a third are golden vectors and packets of the kind's sample with some bytes changed, a third are such cut or
//! drawn out. Holds if `run` never panicked, its balance is 0 each time, and what it received and
//! what the kernel dropped before it add up to what was sent. Gaps in random sequence numbers
//! count as lost packets, so exit code 3 is no failure here. Refuses a kind with neither vectors nor a sample.

use serde_json::{Value, json};

use super::Finding;
use super::campaign::Campaign;
use super::lab::{self, Ended};
use crate::kinds;

/// Units of each detector; each is a `run` of its own, so that `--resume` loses little.
const RUNS: u32 = 10;
const EACH: &str = "1000000";

pub fn run(campaign: &mut Campaign) -> Result<Finding, String> {
    let binary = lab::build()?;
    let kinds = kinds::decoders(&binary)?;
    let count = u32::try_from(kinds.len()).map_err(|error| error.to_string())?;
    let units = campaign.units("million datagrams", RUNS * count, |unit| {
        let detector = kinds[(unit / RUNS) as usize].name.as_str();
        let seed = (unit + 1).to_string();
        let words = ["trial", "--detector", detector, "--datagrams", EACH, "--seed", &seed];
        let run = ["--vectors", "vectors", "--", "run", "--sink", "null", "--web", "off"];
        let row = lab::bench(&binary, &[&words[..], &run].concat())?;
        let ended = Ended::of(&row["receiver"]);
        Ok(json!({
            "detector": detector,
            "sent": row["datagrams"],
            "received": ended.number("/packets/received"),
            "kernel_dropped": row["kernel_dropped"],
            "accepted": ended.number("/packets/accepted"),
            "rejected": ended.summary.pointer("/packets/rejected"),
            "truncated": ended.number("/packets/truncated"),
            "events": ended.number("/events"),
            "balance": ended.summary.get("balance"),
            "exit": ended.code,
        }))
    })?;
    let good = |unit: &Value| {
        let number = |name: &str| unit[name].as_u64().unwrap_or(0);
        let ended_by_itself = unit["exit"] == 0 || unit["exit"] == 3;
        let complete = number("received") + number("kernel_dropped") == number("sent");
        ended_by_itself && complete && unit["balance"] == 0
    };
    let total = |name: &str| units.iter().filter_map(|unit| unit[name].as_u64()).sum::<u64>();
    let figures = json!({
        "sent": total("sent"),
        "received": total("received"),
        "kernel_dropped": total("kernel_dropped"),
        "accepted": total("accepted"),
        "events": total("events"),
        "runs": units,
    });
    Ok(Finding { held: units.iter().all(good), figures })
}
