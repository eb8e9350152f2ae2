//! `sweep`: the packet sizes of the udpperf paper at 10 Gb/s, by `fullcount lab udp`.
//!
//! Holds if the campaign's own exit code is 0: no loss at any size. The campaign writes its own
//! table; this adds revision, host and date through the binary that made it.

use serde_json::json;

use super::Finding;
use super::campaign::Campaign;
use super::service::{self, Service};
use std::time::Duration;

pub fn run(campaign: &mut Campaign) -> Result<Finding, String> {
    let results = campaign.units("sweep over packet sizes", 1, |_| {
        let binary = service::build()?;
        let sweep = Service::start(&binary, &["lab", "udp", "--json"])?;
        // 16 sizes of 10 s, with their set-up.
        let ended = sweep.finish(Duration::from_secs(1200))?;
        Ok(json!({"exit": ended.code, "summary": ended.summary}))
    })?;
    let figures = results.into_iter().next().unwrap_or_default();
    Ok(Finding { held: figures["exit"] == 0, figures })
}
