//! What a writer has to say at its end: files, counters, the balance.

use std::fmt::Write as _;
use std::time::Duration;

use fullcount_core::ledger::{Ledger, Role};
use fullcount_engine::summary::grouped;
use fullcount_out::write::{Service, WriteCounter};
use serde_json::{Map, Value, json};

/// The end of a writer.
#[derive(Debug)]
pub struct Summary {
    elapsed: Duration,
    files: Vec<Value>,
    counters: Vec<(String, u64, Role, &'static str, String)>,
    difference: u64,
    failed: u64,
}

impl Summary {
    pub fn new(service: &Service, elapsed: Duration) -> Summary {
        let sheet = service.sheet();
        let ledger = Ledger::default();
        ledger.register(sheet.clone());
        let difference = ledger.read().hops().iter().map(|hop| hop.difference()).sum();
        let counters = WriteCounter::catalogue()
            .into_iter()
            .enumerate()
            .map(|(i, info)| {
                let todo = info.todo.to_string();
                (info.name.to_string(), sheet.get(i), info.role, info.unit.name(), todo)
            })
            .collect();
        let of = |counter: WriteCounter| sheet.get(counter as usize);
        let failed =
            of(WriteCounter::Failed) + of(WriteCounter::TopicGone) + of(WriteCounter::Outside);
        Summary { elapsed, files: service.files().to_vec(), counters, difference, failed }
    }

    fn lost(&self) -> bool {
        let lost = |role: &Role| matches!(role, Role::Dropped(_) | Role::Missing(_));
        self.counters.iter().any(|(_, n, role, ..)| *n > 0 && lost(role))
    }

    /// 3 if a file was given up, events were lost, a stream lay outside its run or the sum is not 0.
    pub fn exit_code(&self) -> u8 {
        if self.failed > 0 || self.lost() || self.difference > 0 { 3 } else { 0 }
    }

    pub fn json(&self) -> Value {
        let counters: Map<String, Value> =
            self.counters.iter().map(|(name, n, ..)| (name.clone(), (*n).into())).collect();
        json!({
            "schema": "fullcount/summary/1",
            "verb": "write",
            "elapsed_s": self.elapsed.as_secs_f64(),
            "files": self.files,
            "counters": counters,
            "balance_difference": self.difference,
            "exit_code": self.exit_code(),
        })
    }

    pub fn text(&self) -> String {
        let mut t = String::new();
        for file in &self.files {
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
        for (name, n, role, unit, todo) in self.counters.iter().filter(|(_, n, ..)| *n > 0) {
            let _ = write!(t, "{name:<28} {:>15} {unit}", grouped(*n));
            let refused = matches!(role, Role::Rejected | Role::Dropped(_));
            let todo =
                if refused && !todo.is_empty() { format!("  {todo}") } else { String::new() };
            let _ = writeln!(t, "{todo}");
        }
        let _ = writeln!(t, "balance: difference {}", self.difference);
        t
    }
}
