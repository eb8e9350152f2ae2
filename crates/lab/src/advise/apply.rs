//! Changing settings and putting them back.
//!
//! Applying reads every former value, writes them to the state file, and only then changes anything;
//! what could not be changed is reported with its command and leaves the state. Reverting goes backwards
//! and forgets a setting only when its former value can be read again. Refuses: what [`SettingsStateError`] names.

use std::path::Path;

use super::line::{AdviceLine, AdviceStatus};
use super::place::{Change, SettingsStore};
use super::state::{ChangedSettings, SettingsStateError};

/// Which lines are changed.
#[derive(Debug, Clone, Default)]
pub struct ChosenLines {
    /// Hints too, not only what is short.
    pub hints: bool,
    /// Only these keys, if any.
    pub only: Vec<String>,
    /// None of these keys.
    pub skip: Vec<String>,
}

impl ChosenLines {
    /// Changes of the lines that are chosen, in their order.
    pub fn changes(&self, lines: &[AdviceLine]) -> Vec<Change> {
        let chosen = |l: &&AdviceLine| {
            let status =
                l.status == AdviceStatus::Short || (self.hints && l.status == AdviceStatus::Hint);
            let only = self.only.is_empty() || self.only.contains(&l.key);
            status && only && !self.skip.contains(&l.key)
        };
        lines.iter().filter(chosen).flat_map(|l| l.changes.clone()).collect()
    }
}

/// What became of one change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeOutcome {
    /// Set; the kernel may have made another value of it.
    Done,
    /// It was so already.
    Already,
    /// Not set, and why.
    Failed(String),
}

/// One change and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedChange {
    /// What was to be set.
    pub change: Change,
    /// Value before, if it could be read.
    pub before: Option<String>,
    /// Value after, if it could be read.
    pub after: Option<String>,
    /// What became of it.
    pub outcome: ChangeOutcome,
}

impl AppliedChange {
    /// It failed.
    pub fn failed(&self) -> bool {
        matches!(self.outcome, ChangeOutcome::Failed(_))
    }
}

/// Values that differ only in blanks are the same: the kernel prints tabs between numbers.
fn same(a: &str, b: &str) -> bool {
    a.split_whitespace().eq(b.split_whitespace())
}

/// Makes the changes, with the former values in the state file at `path` before the first one is made.
/// `dry` reads only.
///
/// # Errors
/// The state file cannot be read, is not ours, or cannot be written. If it cannot be written at the
/// start, nothing was changed.
pub fn apply(
    changes: &[Change],
    settings: &mut dyn SettingsStore,
    path: &Path,
    dry: bool,
) -> Result<Vec<AppliedChange>, SettingsStateError> {
    let old = ChangedSettings::read(path)?;
    let mut state = old.clone();
    let mut steps: Vec<AppliedChange> = vec![];
    for change in changes {
        let (before, outcome) = match settings.read(&change.place) {
            Ok(now) if same(&now, &change.value) => (Some(now), ChangeOutcome::Already),
            Ok(now) => (Some(now), ChangeOutcome::Done),
            Err(e) => {
                (None, ChangeOutcome::Failed(format!("cannot be read, so it is left alone: {e}")))
            }
        };
        if let (Some(former), ChangeOutcome::Done) = (&before, &outcome) {
            state.note(&change.place, former.clone(), change.value.clone());
        }
        steps.push(AppliedChange { change: change.clone(), before, after: None, outcome });
    }
    let planned = steps.iter().any(|s| s.outcome == ChangeOutcome::Done);
    if dry || !planned {
        return Ok(steps);
    }
    state.write(path)?;
    for step in steps.iter_mut().filter(|s| s.outcome == ChangeOutcome::Done) {
        let place = &step.change.place;
        let written = settings.write(place, &step.change.value);
        step.after = settings.read(place).ok();
        let unchanged = step.after.is_some() && step.after == step.before;
        if let Err(e) = written {
            step.outcome = ChangeOutcome::Failed(e.to_string());
        } else if unchanged {
            step.outcome = ChangeOutcome::Failed("the kernel took it and changed nothing".into());
        }
        let entry = state.entries.iter_mut().find(|e| e.place == *place);
        match (&step.outcome, entry) {
            // A write that failed and yet changed something stays in the state.
            (ChangeOutcome::Failed(_), Some(_)) if unchanged => {
                match old.entries.iter().find(|e| e.place == *place) {
                    Some(earlier) => state.note(place, String::new(), earlier.applied.clone()),
                    None => state.entries.retain(|e| e.place != *place),
                }
            }
            (_, Some(entry)) => {
                if let Some(after) = &step.after {
                    entry.applied.clone_from(after);
                }
            }
            (ChangeOutcome::Failed(_), None) if unchanged => {}
            // The same place failed before in this run and was forgotten.
            (_, None) => {
                let former = step.before.clone().unwrap_or_default();
                state.note(place, former, step.change.value.clone());
            }
        }
    }
    state.write(path)?;
    Ok(steps)
}

/// Puts back every setting of the state file at `path`, the last changed first. `dry` reads only.
///
/// # Errors
/// There is no state file, it is not ours, or it cannot be written.
pub fn revert(
    settings: &mut dyn SettingsStore,
    path: &Path,
    dry: bool,
) -> Result<Vec<AppliedChange>, SettingsStateError> {
    let mut state = ChangedSettings::read(path)?;
    if state.entries.is_empty() {
        return Err(SettingsStateError::Absent(path.to_owned()));
    }
    let mut steps = vec![];
    let mut left = vec![];
    for entry in state.entries.drain(..).rev() {
        let change = Change { place: entry.place.clone(), value: entry.former.clone() };
        let before = settings.read(&entry.place);
        let mut step =
            AppliedChange { change, before: None, after: None, outcome: ChangeOutcome::Done };
        match before {
            Ok(now) if same(&now, &entry.former) => {
                (step.after, step.outcome) = (Some(now.clone()), ChangeOutcome::Already);
                step.before = Some(now);
            }
            Ok(now) => step.before = Some(now),
            Err(e) => step.outcome = ChangeOutcome::Failed(e.to_string()),
        }
        if step.outcome == ChangeOutcome::Done && !dry {
            let written = settings.write(&entry.place, &entry.former);
            step.after = settings.read(&entry.place).ok();
            let back = step.after.as_deref().is_some_and(|now| same(now, &entry.former));
            step.outcome = match (written, back) {
                (Err(e), _) => ChangeOutcome::Failed(e.to_string()),
                (Ok(()), false) => {
                    ChangeOutcome::Failed("the kernel took it and made another value of it".into())
                }
                (Ok(()), true) => ChangeOutcome::Done,
            };
        }
        if step.failed() {
            left.push(entry);
        }
        steps.push(step);
    }
    if !dry {
        left.reverse();
        state.entries = left;
        state.write(path)?;
    }
    Ok(steps)
}

#[cfg(test)]
#[path = "apply_tests.rs"]
mod tests;
