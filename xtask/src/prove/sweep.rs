//! `sweep`: the packet sizes of the udpperf paper at 10 Gb/s, by `fullcount lab udp`.
//!
//! Holds if no size lost a packet, which the campaign says by its exit code. One unit a size, so
//! that an interrupted sweep goes on at the size it was at; each keeps the campaign's own record.

use std::fs;

use serde_json::{Value, json};

use super::Finding;
use super::campaign::Campaign;
use super::service;
use crate::command::Job;
use crate::place;

/// Payload bytes: table 3 of the paper, jumbo frames included.
const SIZES: [u32; 16] =
    [64, 128, 256, 472, 772, 1000, 1472, 1700, 1800, 1900, 2000, 2200, 2972, 4472, 5972, 8972];

pub fn run(campaign: &mut Campaign) -> Result<Finding, String> {
    let binary = service::build()?;
    let folder = place::target().join("prove");
    let count = u32::try_from(SIZES.len()).map_err(|error| error.to_string())?;
    let sizes = campaign.units("packet size", count, |unit| {
        let size = SIZES[unit as usize];
        let name = format!("sweep-{size}");
        let file = folder.join(format!("{name}.json"));
        let _ = fs::remove_file(&file);
        let end = Job::new(&binary)
            .args(["lab", "udp", "--rate", "10Gbps", "--duration", "10s"])
            .args(["--parameters", "tuned", "--repeats", "1", "--warm-up", "0s"])
            .args(["--require-lossless", "--no-figures", "--overwrite"])
            .args(["--sizes", &size.to_string(), "--name", &name, "--out"])
            .args([&folder])
            .run();
        let text = fs::read_to_string(&file)
            .map_err(|error| format!("lab udp at {size} B: {}; no record: {error}", end.phrase))?;
        let record: Value =
            serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(json!({"size": size, "lossless": end.ok, "record": record}))
    })?;
    let held = sizes.iter().all(|size| size["lossless"] == true);
    Ok(Finding { held, figures: json!({"sizes": sizes}) })
}
