//! The page's status as one JSON object (`/api/state`, schema `fullcount/state/1`).
//!
//! Numbers only, with the catalogue's texts; the page makes sentences of them. Source: `docs/contracts.md`, "Ledger".

use std::time::Duration;

use serde_json::{Value, json};

use fullcount_core::ledger::{Entries, Entry, Place, Role, Unit};
use fullcount_core::view::PixelMap;

use super::encode::describe;
use super::rates::{PageTotals, RateMeter};
use super::snapshot::PlotSnapshot;
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

/// `lost`: whether any packet, or what is numbered instead, was. The host's counters may come from other programs, and
/// matter only if we lost something.
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

/// What is numbered instead of packets, if anything is: lost by place, and missing so far.
fn numbered(entries: &Entries, facts: &Facts) -> Vec<Value> {
    let is_counted = |unit: &Unit| {
        entries.iter().any(|e| e.info.unit == *unit && matches!(e.info.role, Role::Missing(_)))
    };
    let one = |unit: Unit| {
        let watched = facts.lost_numbered.iter().find(|f| f.unit == unit);
        let own = || Place::ALL.map(|place| entries.sum(unit, Role::Missing(place)));
        let at = watched.map_or_else(own, |f| f.lost);
        let shared = watched.iter().flat_map(|f| &f.shared);
        let shared = shared.map(|(places, n)| json!({"places": places, "lost": n}));
        let places = Place::ALL.iter().zip(at).map(|(p, n)| (p.name().to_owned(), n.into()));
        let note = |what: &str| entries.get(&format!("{}.{what}", unit.key())).unwrap_or(0);
        json!({"key": unit.key(), "unit": unit.name(),
               "lost": at.iter().fold(0u64, |sum, &n| sum.saturating_add(n)),
               "lost_at_least": note("lost_at_least"), "missing": note("missing"), "count": note("count"),
               "places": places.collect::<serde_json::Map<String, Value>>(),
               "shared": shared.collect::<Vec<_>>()})
    };
    Unit::NUMBERED.into_iter().filter(is_counted).map(one).collect()
}

fn sinks(facts: &Facts) -> Vec<Value> {
    let one = |s: &super::status::SinkFacts| {
        json!({"name": s.name, "required": s.required, "queued": s.queued,
               "capacity": s.capacity, "events": s.events, "dropped_events": s.dropped_events})
    };
    facts.sinks.iter().map(one).collect()
}

fn spools(facts: &Facts) -> Vec<Value> {
    let one = |s: &super::status::SpoolFacts| json!({"output": s.output, "percent": s.percent, "nearly_full": s.nearly_full});
    facts.spools.iter().map(one).collect()
}

/// Modules or streams of the detector, by name.
fn modules(facts: &Facts) -> Vec<Value> {
    let one = |m: &super::status::ModuleFacts| json!({"name": m.name, "packets": m.packets, "lost": m.lost, "age_ms": m.age_ms, "silent": m.silent});
    facts.modules.iter().map(one).collect()
}

/// Outputs that take nothing any more, with their reasons.
fn failed(facts: &Facts) -> Vec<Value> {
    let one = |s: &super::status::OutputState| {
        s.failure.as_ref().map(|why| json!({"name": s.name, "reason": why}))
    };
    facts.states.iter().filter_map(one).collect()
}

/// The whole status; `now` on the same clock as the meter's samples.
pub(super) fn state(
    entries: &Entries,
    facts: &Facts,
    meter: &RateMeter,
    now: Duration,
    pictures: Option<(&PlotSnapshot, &PixelMap)>,
) -> Value {
    let totals = PageTotals::of(entries);
    let rates = meter.rates().map(|r| {
        json!({"events_per_s": r.events, "packets_per_s": r.packets, "bits_per_s": r.bits,
               "lost_per_s": r.lost})
    });
    let at = facts.lost.unwrap_or_else(|| Place::ALL.map(|p| entries.lost_packets(p)));
    let all_lost = at.iter().fold(0u64, |sum, &n| sum.saturating_add(n));
    let numbered = numbered(entries, facts);
    let any_lost = all_lost > 0 || numbered.iter().any(|n| n["lost"] != 0);
    let turned = entries.get("packets.lost_at_least").unwrap_or(0);
    let may_be_more = turned > 0 || numbered.iter().any(|n| n["lost_at_least"] != 0);
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
                   // A lower bound where this is not 0: gaps that may be longer by whole turns of a short number.
                   "lost_at_least": turned,
                   "missing": entries.get("packets.missing").unwrap_or(0)},
        "rates": rates,
        "lost": lost,
        "lost_shared": shared,
        "lost_numbered": numbered,
        "rejected": rejected(entries),
        "anything_lost": entries.anything_lost() || may_be_more,
        "balance": entries.balance(),
        "hops": hops,
        "ledger": entries.iter().map(|e| line(e, any_lost)).collect::<Vec<_>>(),
        "sinks": sinks(facts),
        "outputs_failed": failed(facts),
        "spools": spools(facts),
        "mostly_refused": facts.refused,
        "modules": modules(facts),
        "modules_hidden": facts.modules_hidden,
        "window_s": pictures.map(|(s, _)| s.window.as_secs_f64()),
        "plots": plots,
    })
}

/// The last five minutes of rates as columns, time as seconds before `now`.
pub(super) fn history(meter: &RateMeter, now: Duration) -> Value {
    let column = |f: fn(&super::rates::Rates) -> f64| meter.history().map(f).collect::<Vec<_>>();
    let ago: Vec<f64> = meter.history().map(|r| now.as_secs_f64() - r.at_s).collect();
    let mut columns = json!({"ago_s": ago, "events_per_s": column(|r| r.events),
           "packets_per_s": column(|r| r.packets), "bits_per_s": column(|r| r.bits),
           "lost_per_s": column(|r| r.lost)});
    if meter.history().any(|r| r.heaps.is_some()) {
        columns["heaps_per_s"] = column(|r| r.heaps.unwrap_or(0.0)).into();
    }
    columns
}
