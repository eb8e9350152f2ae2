//! The catalogue in Prometheus' text format (version 0.0.4).
//!
//! Every counter is there from the start with value 0, so that an alert on its growth can be written
//! before it ever grows. Name: `fullcount_` + the dotted name with `_` for what Prometheus does not
//! allow, + `_total` where the value only grows. What we count in parts of a second is told in seconds, as `promtool check
//! metrics` wants it. The published name stays as label `name`, so two names that become equal stay apart. Refuses nothing. Source: `control-and-monitoring.md` section 4.

mod about;
mod host;
mod text;
mod units;

use std::collections::HashMap;
use std::fmt::Write as _;

use fullcount_core::ledger::{Entries, Entry, Info, Role};

use crate::Facts;
use crate::status::ModuleFacts;
use text::{ExpositionText, help, label};

/// `Content-Type` of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Metric name of a catalogue line, and how many of ours make one of its unit.
fn named(info: &Info) -> (String, u64) {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
    let name: String = info.name.chars().map(allowed).collect();
    let (base, per) = units::base(&name);
    // A word that Prometheus has for itself.
    let words: Vec<&str> =
        base.split('_').map(|w| if w == "counter" { "number" } else { w }).collect();
    let base = words.join("_");
    match info.can_fall() || base.ends_with("_total") {
        true => (format!("fullcount_{base}"), per),
        false => (format!("fullcount_{base}_total"), per),
    }
}

/// Role and place as labels.
fn role_labels(role: Role) -> (&'static str, Option<&'static str>) {
    match role {
        Role::In => ("in", None),
        Role::Accepted => ("accepted", None),
        Role::Rejected => ("rejected", None),
        Role::Queued => ("queued", None),
        Role::Dropped(place) => ("dropped", Some(place.name())),
        Role::Missing(place) => ("missing", Some(place.name())),
        Role::Duplicate => ("duplicate", None),
        Role::Reordered => ("reordered", None),
        Role::Late => ("late", None),
        Role::Restarts => ("restarts", None),
        Role::Note => ("note", None),
    }
}

fn family(out: &mut String, name: &str, kind: &str, text: &str) {
    // Writing into a String cannot fail.
    let _ = writeln!(out, "# HELP {name} {}\n# TYPE {name} {kind}", help(text));
}

fn sample(out: &mut String, (name, per): (&str, u64), entry: &Entry) {
    let (role, place) = role_labels(entry.info.role);
    let (full, hop) = (label(&entry.info.name), label(&entry.info.hop));
    let unit = entry.info.unit.name();
    let _ = write!(out, "{name}{{name=\"{full}\",hop=\"{hop}\",unit=\"{unit}\",role=\"{role}\"");
    if let Some(place) = place {
        let _ = write!(out, ",place=\"{place}\"");
    }
    out.push_str("} ");
    units::value(out, entry.value, per);
    out.push('\n');
}

/// What this process is and uses, and what matters of its host.
pub fn render_process() -> String {
    let mut out = ExpositionText::default();
    about::write(&mut out);
    out.0
}

/// Counters by metric name, each name with how many of ours make one of its unit: a family is contiguous, in any order of
/// registration. None is empty.
fn families(entries: &Entries) -> Vec<(String, u64, Vec<&Entry>)> {
    let mut all: Vec<(String, u64, Vec<&Entry>)> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    for entry in entries.iter() {
        let (name, per) = named(&entry.info);
        match known.get(&name) {
            Some(&at) => all[at].2.push(entry),
            None => {
                known.insert(name.clone(), all.len());
                all.push((name, per, vec![entry]));
            }
        }
    }
    all
}

/// All counters, the balance of each hop, the sinks' queues, and whether the run continues.
pub fn render(entries: &Entries, facts: &Facts) -> String {
    let mut out = String::with_capacity(16 << 10);
    for (name, per, all) in families(entries) {
        let info = &all[0].info;
        let mut text = info.meaning.to_string();
        if !info.todo.is_empty() {
            let _ = write!(text, ". Above 0: {}", info.todo);
        }
        family(&mut out, &name, if info.can_fall() { "gauge" } else { "counter" }, &text);
        all.into_iter().for_each(|entry| sample(&mut out, (&name, per), entry));
    }
    let name = "fullcount_hop_difference";
    family(
        &mut out,
        name,
        "gauge",
        "What a hop cannot account for, in its unit; 0 once nothing is under way",
    );
    for hop in entries.hops() {
        let (unit, n) = (hop.unit.name(), hop.difference());
        let _ = writeln!(out, "{name}{{hop=\"{}\",unit=\"{unit}\"}} {n}", label(&hop.hop));
    }
    let name = "fullcount_balance";
    family(&mut out, name, "gauge", "Sum of the hops' differences; 0 once nothing is under way");
    let _ = writeln!(out, "{name} {}", entries.balance());
    type Field = fn(&crate::SinkFacts) -> u64;
    let fields: [(&str, &str, &str, Field); 4] = [
        ("fullcount_output_queued_batches", "gauge", "Batches waiting for an output", |s| s.queued),
        ("fullcount_output_queue_capacity_batches", "gauge", "Batches that fit its queue", |s| {
            s.capacity
        }),
        ("fullcount_output_events_total", "counter", "Events that an output took", |s| s.events),
        ("fullcount_output_dropped_events_total", "counter", "Events a full output missed", |s| {
            s.dropped_events
        }),
    ];
    for (name, kind, text, value) in fields {
        family(&mut out, name, kind, text);
        for s in &facts.sinks {
            let (sink, required, n) = (label(&s.name), s.required, value(s));
            let _ = writeln!(out, "{name}{{output=\"{sink}\",required=\"{required}\"}} {n}");
        }
    }
    let name = "fullcount_output_failed";
    family(&mut out, name, "gauge", "1 once an output has failed for good: it takes nothing more");
    for s in &facts.states {
        let n = u8::from(s.failure.is_some());
        let _ = writeln!(out, "{name}{{output=\"{}\"}} {n}", label(&s.name));
    }
    let name = "fullcount_spool_nearly_full";
    family(&mut out, name, "gauge", "1 while an output's spool is 80 % full or more");
    for s in &facts.spools {
        let _ = writeln!(out, "{name}{{output=\"{}\"}} {}", s.output, u8::from(s.nearly_full));
    }
    modules(&mut out, facts);
    let name = "fullcount_mostly_refused";
    family(&mut out, name, "gauge", "1 while more packets are refused than engine.max_refused");
    let _ = writeln!(out, "{name} {}", u8::from(facts.refused.is_some()));
    family(&mut out, "fullcount_running", "gauge", "1 while the run goes on, 0 after its end");
    let _ = writeln!(out, "fullcount_running {}", u8::from(facts.running));
    let name = "fullcount_detector_info";
    family(&mut out, name, "gauge", "1; the label is the kind of the detector");
    if !facts.kind.is_empty() {
        let _ = writeln!(out, "{name}{{detector=\"{}\"}} 1", label(&facts.kind));
    }
    let name = "fullcount_start_time_seconds";
    family(&mut out, name, "gauge", "Start of the run, seconds since 1970 UTC");
    let _ = writeln!(out, "{name} {}.{:03}", facts.started / 1000, facts.started % 1000);
    out
}

/// What each module or stream of the detector has sent.
fn modules(out: &mut String, facts: &Facts) {
    type Field = fn(&ModuleFacts) -> String;
    let fields: [(&str, &str, &str, Field); 4] = [
        ("fullcount_module_packets_total", "counter", "Packets read of a module or stream", |m| {
            m.packets.to_string()
        }),
        (
            "fullcount_module_lost_total",
            "counter",
            "Missing of a module or stream by its numbers",
            |m| m.lost.to_string(),
        ),
        (
            "fullcount_module_age_seconds",
            "gauge",
            "Since the newest packet of a module or stream",
            |m| format!("{}.{:03}", m.age_ms / 1000, m.age_ms % 1000),
        ),
        (
            "fullcount_module_silent",
            "gauge",
            "1 while a module or stream that has sent sends nothing for engine.module_silent",
            |m| u8::from(m.silent).to_string(),
        ),
    ];
    for (name, kind, text, value) in fields {
        family(out, name, kind, text);
        for module in &facts.modules {
            let _ = writeln!(out, "{name}{{module=\"{}\"}} {}", label(&module.name), value(module));
        }
    }
    let name = "fullcount_modules_hidden";
    family(out, name, "gauge", "Modules or streams beyond the 256 that are listed");
    let _ = writeln!(out, "{name} {}", facts.modules_hidden);
}

#[cfg(test)]
#[path = "prometheus_tests.rs"]
mod tests;
