//! A row for each registered detector: what it makes of its packets, and what it refuses, by reason.
//!
//! Kinds share names of counters, so that in Prometheus the rates of a row are those of instances of its kind alone.

use std::collections::BTreeSet;

use fullcount_core::ledger::{Info, Role, Unit};
use fullcount_detect::detector::registered;

use super::{MetricStore, Panel, chosen, rate};

/// Kinds that count something, each with its graphs.
pub fn rows(store: MetricStore, lines: &[(&'static str, Info)]) -> Vec<(String, Vec<Panel>)> {
    let kinds: BTreeSet<&str> = registered().kinds().map(|kind| kind.name()).collect();
    let row = |kind: &str| {
        let own: Vec<_> = lines.iter().filter(|(part, _)| *part == kind).cloned().collect();
        let graph = |title, is: fn(&Info) -> bool, filter| {
            let names = chosen(&own, is);
            let queries = rates(store, kind, &names, filter);
            (!names.is_empty()).then_some(Panel { title, unit: "cps", queries })
        };
        let made = graph("Packets, readouts and events", is_made, "");
        let refused = graph("Refused, by reason", |info| info.role == Role::Rejected, " > 0");
        (kind.to_owned(), made.into_iter().chain(refused).collect::<Vec<_>>())
    };
    kinds.into_iter().map(row).filter(|(_, panels)| !panels.is_empty()).collect()
}

/// What came to a stage of the detector, and what went on.
fn is_made(info: &Info) -> bool {
    matches!(info.role, Role::In | Role::Accepted) && info.unit != Unit::Bytes
}

/// Rates of counters of one kind.
fn rates(store: MetricStore, kind: &str, names: &[String], filter: &str) -> Vec<(String, String)> {
    match store {
        MetricStore::Prometheus => {
            let names: Vec<String> = names.iter().map(|name| name.replace('.', "[.]")).collect();
            let chosen = format!(
                "{{__name__=~\"fullcount_.+_total\",name=~\"{}\",job=~\"$job\",instance=~\"$instance\"}}",
                names.join("|")
            );
            let of_kind = format!("fullcount_detector_info{{detector=\"{kind}\"}}");
            let query = format!(
                "rate({chosen}[$__rate_interval]){filter} and on (job, instance) {of_kind}"
            );
            vec![(query, "{{instance}} {{name}}".into())]
        }
        MetricStore::Graphite => names.iter().map(|name| rate(store, name)).collect(),
    }
}
