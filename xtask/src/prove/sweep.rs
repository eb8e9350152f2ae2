//! `sweep`: the packet sizes of the udpperf paper at 10 Gb/s, by `fullcount lab udp`.
//!
//! Holds if no size lost a packet, which the campaign says by its exit code. One unit a size, so
//! that an interrupted sweep goes on at the size it was at; each keeps the campaign's own record.

use serde_json::json;

use super::Finding;
use super::campaign::Campaign;
use super::lab;

/// Payload bytes: table 3 of the paper, jumbo frames included.
const SIZES: [u32; 16] =
    [64, 128, 256, 472, 772, 1000, 1472, 1700, 1800, 1900, 2000, 2200, 2972, 4472, 5972, 8972];

pub fn run(campaign: &mut Campaign) -> Result<Finding, String> {
    let binary = lab::build()?;
    let count = u32::try_from(SIZES.len()).map_err(|error| error.to_string())?;
    let sizes = campaign.units("packet size", count, |unit| {
        let size = SIZES[unit as usize];
        let text = size.to_string();
        let words = ["udp", "--rate", "10Gbps", "--duration", "10s", "--parameters", "tuned"];
        let more = ["--repeats", "1", "--warm-up", "0s", "--require-lossless", "--no-figures"];
        let ended = lab::campaign(&binary, &[&words[..], &more, &["--sizes", &text]].concat())?;
        Ok(json!({"size": size, "lossless": ended.held, "record": ended.record}))
    })?;
    let held = sizes.iter().all(|size| size["lossless"] == true);
    Ok(Finding { held, figures: json!({"sizes": sizes}) })
}
