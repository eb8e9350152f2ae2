//! `fullcount catalogue`: every counter that exists, with what to do about it. `docs/counters.md` is its
//! output; a test compares the two.

use clap::Args;
use fullcount_core::ledger::{Info, Role};
use fullcount_engine::catalogue as all;

use crate::exit::Failure;
use crate::{say, tell};

/// Every counter with its unit, meaning and what to do about it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Flags {
    /// One JSON object instead of Markdown
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  fullcount catalogue > docs/counters.md
  fullcount catalogue --json";

/// Prints the catalogue.
pub fn catalogue(flags: Flags) -> Result<u8, Failure> {
    let lines = all::lines();
    if flags.json {
        let each = |(part, i): &(&str, Info)| {
            serde_json::json!({
                "part": part, "name": i.name, "unit": i.unit.name(), "hop": i.hop,
                "role": role(i.role), "meaning": i.meaning, "what_to_do": i.todo,
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
            i.name, i.hop, i.meaning, i.todo
        );
    }
    t
}

#[cfg(test)]
mod tests {
    #[test]
    fn counters_document_is_what_the_program_prints() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/counters.md");
        let on_disk = std::fs::read_to_string(path).unwrap_or_default();
        let now = super::markdown(&fullcount_engine::catalogue::lines());
        assert!(on_disk == now, "docs/counters.md is old: fullcount catalogue > docs/counters.md");
    }
}
