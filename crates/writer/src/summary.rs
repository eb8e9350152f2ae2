//! What a writer has to say at its end: files, counters, the balance, the exit code.
//!
//! Source: `docs/summary.md`; `docs/write.md`.

use std::time::Duration;

use fullcount_core::ledger::{Ledger, Role};
use serde_json::{Map, Value, json};

use super::counter::WriteCounter;
use super::service::Service;

/// One counter at the end.
#[derive(Debug, Clone)]
pub struct FinalCount {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: u64,
    /// What it stands for in the balance.
    pub role: Role,
    /// Name of its unit.
    pub unit: &'static str,
    /// What to do if it is not 0.
    pub todo: String,
}

/// The end of a writer.
#[derive(Debug)]
pub struct WriterSummary {
    elapsed: Duration,
    files: Vec<Value>,
    counters: Vec<FinalCount>,
    difference: u64,
    failed: u64,
}

impl WriterSummary {
    pub(super) fn new(service: &Service, elapsed: Duration) -> WriterSummary {
        let sheet = service.sheet();
        let ledger = Ledger::default();
        ledger.register(sheet.clone());
        let difference = ledger.read().hops().iter().map(|hop| hop.difference()).sum();
        let line = |(i, info): (usize, fullcount_core::ledger::Info)| FinalCount {
            name: info.name.to_string(),
            value: sheet.get(i),
            role: info.role,
            unit: info.unit.name(),
            todo: info.todo.to_string(),
        };
        let counters = WriteCounter::catalogue().into_iter().enumerate().map(line).collect();
        let of = |counter: WriteCounter| sheet.get(counter as usize);
        let failed =
            of(WriteCounter::Failed) + of(WriteCounter::TopicGone) + of(WriteCounter::Outside);
        WriterSummary { elapsed, files: service.files().to_vec(), counters, difference, failed }
    }

    /// Facts of the finished files, and of those that were given up.
    pub fn files(&self) -> &[Value] {
        &self.files
    }

    /// All counters.
    pub fn counters(&self) -> &[FinalCount] {
        &self.counters
    }

    /// What the balance is away from 0.
    pub fn difference(&self) -> u64 {
        self.difference
    }

    fn lost(&self) -> bool {
        let lost = |role: Role| matches!(role, Role::Dropped(_) | Role::Missing(_));
        self.counters.iter().any(|line| line.value > 0 && lost(line.role))
    }

    /// 3 if a file was given up, events were lost, a stream lay outside its run or the sum is not 0.
    pub fn exit_code(&self) -> u8 {
        if self.failed > 0 || self.lost() || self.difference > 0 { 3 } else { 0 }
    }

    /// For `--json`.
    pub fn json(&self) -> Value {
        let counters: Map<String, Value> =
            self.counters.iter().map(|line| (line.name.clone(), line.value.into())).collect();
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
}
