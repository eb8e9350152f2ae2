//! `fullcount catalogue`: every counter that exists, with what to do about it; every kind; every key of the configuration.
//! `docs/counters.md` and `docs/keys.md` are its output; tests compare them.

mod alerts;
mod dashboards;

use clap::Args;
use fullcount_core::ledger::{Info, Role};
use fullcount_engine::catalogue as all;

use crate::exit::Failure;
use crate::{kinds, reference, say, tell};

/// Every counter with its unit, meaning and what to do about it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CatalogueFlags {
    /// The kinds instead: detectors and simulated detectors, with what each declares
    #[arg(long)]
    kinds: bool,
    /// The keys of the configuration instead, by section, with defaults and what they allow
    #[arg(long, conflicts_with = "kinds")]
    keys: bool,
    /// A Grafana dashboard of them instead
    #[arg(long, value_name = "STORE", conflicts_with = "kinds")]
    dashboard: Option<dashboards::MetricStore>,
    /// Alert rules for Prometheus instead
    #[arg(long, conflicts_with_all = ["kinds", "dashboard"])]
    alerts: bool,
    /// One JSON object instead of Markdown
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  fullcount catalogue > docs/counters.md
  fullcount catalogue --json
  fullcount catalogue --keys > docs/keys.md
  fullcount catalogue --kinds
  fullcount catalogue --dashboard graphite > fullcount.json";

/// Prints the catalogue.
pub fn catalogue(flags: CatalogueFlags) -> Result<u8, Failure> {
    if flags.kinds {
        match flags.json {
            true => say!("{}", kinds::json()),
            false => tell!("{}", kinds::text()),
        }
        return Ok(0);
    }
    if flags.keys {
        match flags.json {
            true => say!("{}", reference::json()),
            false => tell!("{}", reference::markdown()),
        }
        return Ok(0);
    }
    if flags.alerts {
        tell!("{}", alerts::yaml());
        return Ok(0);
    }
    if let Some(store) = flags.dashboard {
        say!("{:#}", dashboards::dashboard(store, &lines()));
        return Ok(0);
    }
    let lines = with_senders(lines());
    if flags.json {
        let each = |(part, i): &(&str, Info)| {
            serde_json::json!({
                "part": part, "name": i.name, "unit": i.unit.name(), "hop": i.hop,
                "role": role(i.role), "meaning": i.meaning, "what_to_do": advice(i),
            })
        };
        let counters: serde_json::Value = lines.iter().map(each).collect();
        let (schema, verb) = ("fullcount/catalogue/1", "catalogue");
        say!("{}", serde_json::json!({"schema": schema, "verb": verb, "counters": counters}));
        return Ok(0);
    }
    tell!("{}", markdown(&lines));
    Ok(0)
}

/// Lines of `run` and of the file writer, with their part of the program.
fn lines() -> Vec<(&'static str, Info)> {
    let lines = all::lines();
    #[cfg(feature = "write")]
    let lines = {
        let writer = fullcount_writer::WriteCounter::catalogue();
        let writer = writer.into_iter().map(|line| ("writing files from Kafka", line));
        lines.into_iter().chain(writer).collect()
    };
    lines
}

/// The same, and those of senders: these have no `/metrics`.
fn with_senders(mut lines: Vec<(&'static str, Info)>) -> Vec<(&'static str, Info)> {
    let kinds = fullcount_engine::registered::destinations().kinds();
    for (part, of) in kinds.flat_map(|kind| kind.counters()) {
        lines.extend(of.into_iter().map(|line| (part, line)));
    }
    lines
}

/// What to do about it; for what is no fault by itself, that.
fn advice(info: &Info) -> &str {
    match (&*info.todo, info.role) {
        ("", Role::In | Role::Accepted) => "nothing: it is what came and went on",
        ("", Role::Queued) => "nothing, as long as it falls again",
        ("", Role::Restarts) => "nothing: a sender began anew",
        ("", Role::Duplicate | Role::Reordered | Role::Late) => "nothing: it is no loss",
        ("", _) => "nothing: it is for information",
        (todo, _) => todo,
    }
}

fn role(role: Role) -> String {
    match role {
        Role::In => "in".into(),
        Role::Accepted => "accepted".into(),
        Role::Rejected => "rejected".into(),
        Role::Queued => "queued".into(),
        Role::Dropped(place) => format!("lost at {}", place.name()),
        Role::Missing(place) => format!("missing, {}", place.name()),
        Role::Duplicate => "duplicate".into(),
        Role::Reordered => "reordered".into(),
        Role::Late => "late".into(),
        Role::Restarts => "restart".into(),
        Role::Note => "note".into(),
    }
}

fn markdown(lines: &[(&'static str, Info)]) -> String {
    let mut t = String::from(
        "# Counters\n\nEvery counter of the ledger, as `fullcount catalogue` prints it. Each hop \
         balances in its own unit: in = accepted + rejected + dropped + queued (role \"lost at …\" is dropped).\n",
    );
    let mut part = "";
    for (of, i) in lines {
        if *of != part {
            part = of;
            t += &format!("\n## {part}\n\n| counter | unit | hop | role | counts | what to do |\n");
            t += "|---|---|---|---|---|---|\n";
        }
        let (unit, role) = (i.unit.name(), role(i.role));
        t += &format!(
            "| `{}` | {unit} | {} | {role} | {} | {} |\n",
            i.name,
            i.hop,
            i.meaning,
            advice(i)
        );
    }
    t
}

#[cfg(test)]
mod tests {
    use fullcount_core::ledger::Role;

    #[test]
    fn what_is_refused_or_lost_has_advice() {
        crate::kinds::for_tests();
        for (part, line) in super::with_senders(super::lines()) {
            let bad = matches!(line.role, Role::Rejected | Role::Dropped(_) | Role::Missing(_));
            assert!(!bad || !line.todo.is_empty(), "{part}: {} does not say what to do", line.name);
        }
    }

    #[test]
    fn counters_document_is_what_the_program_prints() {
        crate::kinds::for_tests();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/counters.md");
        let on_disk = std::fs::read_to_string(path).unwrap_or_default();
        let now = super::markdown(&super::with_senders(super::lines()));
        assert!(on_disk == now, "docs/counters.md is old: fullcount catalogue > docs/counters.md");
    }
}
