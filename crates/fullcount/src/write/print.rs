//! The end of a writer, for people: files, counters that are not 0, the balance.

use std::fmt::Write as _;

use fullcount_core::ledger::Role;
use fullcount_engine::summary::grouped;
use fullcount_writer::{FinalCount, WriterSummary};

pub fn text(summary: &WriterSummary) -> String {
    let mut t = String::new();
    for file in summary.files() {
        let path = file["path"].as_str().unwrap_or("");
        match file["failure"].as_str() {
            Some(words) => drop(writeln!(t, "given up  {path}: {words}")),
            None => {
                let groups = file["events"].as_object().into_iter().flatten();
                let events: u64 = groups.filter_map(|(_, n)| n.as_u64()).sum();
                let _ = writeln!(t, "complete  {path}  {} events", grouped(events));
                for (side, words) in
                    [("before_start", "before the start"), ("after_stop", "after the stop")]
                {
                    for (group, of) in file[side].as_object().into_iter().flatten() {
                        let (n, unit) = match of["events"].as_u64() {
                            Some(events) => (events, "events"),
                            None => (of["messages"].as_u64().unwrap_or(0), "messages"),
                        };
                        let n = grouped(n);
                        let _ = writeln!(t, "  {group}: all {n} {unit} are {words} of the run");
                    }
                }
            }
        }
    }
    for FinalCount { name, value, role, unit, todo } in summary.counters() {
        if *value == 0 {
            continue;
        }
        let refused = matches!(role, Role::Rejected | Role::Dropped(_));
        let todo = if refused && !todo.is_empty() { format!("  {todo}") } else { String::new() };
        let _ = writeln!(t, "{name:<28} {:>15} {unit}{todo}", grouped(*value));
    }
    let _ = writeln!(t, "balance: difference {}", summary.difference());
    t
}
