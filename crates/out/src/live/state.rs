//! The page's status as one JSON object (`/api/state`, schema `fullcount/state/1`).
//!
//! Numbers only, with the catalogue's texts; the page makes words of them. Refuses nothing.
//! Source: `docs/architecture.md`, contract "Ledger".

use std::time::Duration;

use serde_json::{Value, json};

use fullcount_core::ledger::{Entries, Entry, Place, Role, Unit};
use fullcount_core::view::PixelMap;

use super::encode::describe;
use super::rates::{RateMeter, Totals};
use super::snapshot::Snapshot;
use super::status::Facts;

/// How serious a line is when it is not 0.
fn severity(role: Role, todo: &str) -> &'static str {
    match role {
        Role::Missing(_) | Role::Dropped(_) => "loss",
        Role::Rejected | Role::Duplicate | Role::Reordered | Role::Late | Role::Restarts => {
            "notice"
        }
        Role::Note if !todo.is_empty() => "notice",
        Role::In | Role::Accepted | Role::Queued | Role::Note => "plain",
    }
}

/// `lost`: whether any packet was. The host's counters may be of other programs, and ask for something
/// only beside a loss of ours.
fn line(e: &Entry, lost: bool) -> Value {
    let todo = if e.info.hop == "host" && !lost { "" } else { &e.info.todo };
    json!({
        "name": e.info.name, "value": e.value, "unit": e.info.unit.name(), "hop": e.info.hop,
        "severity": severity(e.info.role, todo),
        "meaning": e.info.meaning, "todo": e.info.todo,
    })
}

/// Packets rejected for all reasons, and the reason of most of them.
fn rejected(entries: &Entries) -> Value {
    let reasons =
        || entries.iter().filter(|e| e.info.role == Role::Rejected && e.info.unit == Unit::Packets);
    let packets: u64 = reasons().map(|e| e.value).sum();
    let most = reasons().filter(|e| e.value > 0).max_by_key(|e| e.value).map(|e| line(e, true));
    json!({"packets": packets, "most": most})
}

fn sinks(facts: &Facts) -> Vec<Value> {
    let one = |s: &super::status::SinkFacts| {
        json!({"name": s.name, "required": s.required, "queued": s.queued,
               "capacity": s.capacity, "events": s.events, "dropped_events": s.dropped_events})
    };
    facts.sinks.iter().map(one).collect()
}

/// The whole status; `now` on the same clock as the meter's samples.
pub(super) fn state(
    entries: &Entries,
    facts: &Facts,
    meter: &RateMeter,
    now: Duration,
    pictures: Option<(&Snapshot, &PixelMap)>,
) -> Value {
    let totals = Totals::of(entries);
    let rates = meter.rates().map(|r| {
        json!({"events_per_s": r.events, "packets_per_s": r.packets, "bits_per_s": r.bits,
               "lost_per_s": r.lost})
    });
    let at = facts.lost.unwrap_or_else(|| Place::ALL.map(|p| entries.lost_packets(p)));
    let all_lost = at.iter().fold(0u64, |sum, &n| sum.saturating_add(n));
    let lost: serde_json::Map<String, Value> =
        Place::ALL.iter().zip(at).map(|(p, n)| (p.name().to_owned(), n.into())).collect();
    let shared = |(places, packets): &(Vec<&'static str>, u64)| json!({"places": places, "packets": packets});
    let shared: Vec<Value> = facts.lost_shared.iter().map(shared).collect();
    let hops: Vec<Value> = entries
        .hops()
        .iter()
        .map(|h| {
            json!({"hop": h.hop, "unit": h.unit.name(), "in": h.arrived, "accepted": h.accepted,
                   "rejected": h.rejected, "dropped": h.dropped, "queued": h.queued,
                   "difference": h.difference()})
        })
        .collect();
    let plots: Vec<Value> = pictures.map_or_else(Vec::new, |(snapshot, map)| {
        let one = |p: &std::sync::Arc<super::snapshot::PlotPicture>| {
            let mut v = describe(&p.plot, map);
            v["version"] = p.version.into();
            v["counted"] = p.tally.counted.into();
            v["outside"] = p.tally.outside.into();
            v
        };
        snapshot.plots.iter().map(one).collect()
    });
    json!({
        "schema": "fullcount/state/1",
        "version": env!("CARGO_PKG_VERSION"),
        "run": {"title": facts.title, "source": facts.source, "detector": facts.detector,
                "outputs": facts.outputs, "started_ms": facts.started, "running": facts.running,
                "last_data_s_ago": meter.moved().map(|m| now.saturating_sub(m).as_secs_f64())},
        "totals": {"packets": totals.packets, "bytes": totals.bytes, "events": totals.events,
                   "lost": all_lost,
                   "missing": entries.get("packets.missing").unwrap_or(0)},
        "rates": rates,
        "lost": lost,
        "lost_shared": shared,
        "rejected": rejected(entries),
        "anything_lost": entries.anything_lost(),
        "balance": entries.balance(),
        "hops": hops,
        "ledger": entries.iter().map(|e| line(e, all_lost > 0)).collect::<Vec<_>>(),
        "sinks": sinks(facts),
        "window_s": pictures.map(|(s, _)| s.window.as_secs_f64()),
        "plots": plots,
    })
}

/// The last five minutes of rates as columns, time as seconds before `now`.
pub(super) fn history(meter: &RateMeter, now: Duration) -> Value {
    let column = |f: fn(&super::rates::Rates) -> f64| meter.history().map(f).collect::<Vec<_>>();
    let ago: Vec<f64> = meter.history().map(|r| now.as_secs_f64() - r.at_s).collect();
    json!({"ago_s": ago, "events_per_s": column(|r| r.events),
           "packets_per_s": column(|r| r.packets), "bits_per_s": column(|r| r.bits),
           "lost_per_s": column(|r| r.lost)})
}
