//! What is written beside a log without being listed: alarms (al00) and connection states (ep01) of its source.
//!
//! A group of f144, se00 or tdct has both as the existing file writer does, on the same topic and of the same source
//! name, unless `enable_alarm_info` or `enable_epics_con_info` is false. What the structure itself has of these names in
//! that group stands alone. Refuses switches that are neither true nor false.
//! Source: `docs/formats/nexus.md` section 7.

use super::config::Config;
use super::error::StructureError;
use super::{LogKind, StreamModule, StreamPlan};

/// The streams that are written beside `stream`.
pub(super) fn of(
    stream: &StreamPlan,
    config: &Config<'_>,
) -> Result<Vec<StreamPlan>, StructureError> {
    let has = matches!(
        stream.module,
        StreamModule::Log { kind: LogKind::F144, .. }
            | StreamModule::Samples { old: false, .. }
            | StreamModule::Chopper { .. }
    );
    if !has {
        return Ok(Vec::new());
    }
    let mut all = Vec::new();
    let both = [
        ("enable_alarm_info", StreamModule::Alarms),
        ("enable_epics_con_info", StreamModule::Connections { old: false }),
    ];
    for (switch, module) in both {
        if config.switch(switch)?.unwrap_or(true) {
            all.push(StreamPlan { module, ..stream.clone() });
        }
    }
    Ok(all)
}
