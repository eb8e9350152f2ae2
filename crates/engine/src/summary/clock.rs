//! The detector's clock and the host's in the ledger and the summary.
//!
//! Source: `docs/time.md`.

use fullcount_core::wall::WallStatus;
use serde_json::{Value, json};

use crate::status::ClockStatus;

/// For people.
pub(super) fn line(clock: &WallStatus) -> String {
    let (detector, host) = clock.anchor.unwrap_or_default();
    format!(
        "clocks joined at {detector} ns of the detector = {host} ns since 1970; {}",
        ClockStatus(*clock)
    )
}

/// Keys are stable.
pub(super) fn value(clock: &WallStatus) -> Value {
    let mut value = json!({
        "drift_ppb": clock.drift_ppb,
        "error_ns": clock.error_ns,
        "steps": clock.steps,
        "last_step_ns": clock.last_step_ns,
        "ahead": clock.ahead,
    });
    if let (Some((detector, host)), Some(all)) = (clock.anchor, value.as_object_mut()) {
        all.insert("anchor_detector_ns".into(), detector.into());
        all.insert("anchor_host_ns".into(), host.into());
    }
    value
}
