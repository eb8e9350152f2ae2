//! Steps that run beside others, on what these leave of the processors; what they came to is told when their turn comes.
//!
//! Source: docs/testing.md, "How tests run".

use std::sync::{Mutex, PoisonError};

use super::steps::Step;
use super::{Host, run_step};
use crate::command::{aside, spoken, timed};
use crate::tally::Tally;

/// What a step came to, and what it would have shown.
struct StepDone {
    name: &'static str,
    tally: Tally,
    lines: Vec<String>,
}

/// The steps of a run that run beside others, one after the other.
#[derive(Default)]
pub struct BesideSteps {
    steps: Vec<&'static Step>,
    done: Mutex<Vec<StepDone>>,
}

impl BesideSteps {
    pub fn new(steps: Vec<&'static Step>) -> BesideSteps {
        BesideSteps { steps, done: Mutex::default() }
    }

    /// Makes them all.
    pub fn run(&self, host: &Host) {
        for step in &self.steps {
            let ((tally, mut lines), time) = timed(|| aside(|| run_step(step, host)));
            lines.insert(0, format!("(ran beside others, {})", spoken(time)));
            let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
            done.push(StepDone { name: step.name, tally, lines });
        }
    }

    /// What the step came to, if it has run; its lines are shown now.
    pub fn take(&self, name: &str) -> Option<Tally> {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let at = done.iter().position(|step| step.name == name)?;
        let StepDone { tally, lines, .. } = done.swap_remove(at);
        lines.iter().for_each(|line| println!("{line}"));
        Some(tally)
    }
}
