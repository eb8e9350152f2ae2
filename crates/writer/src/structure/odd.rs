//! What control systems send twice, empty or of the wrong kind, and what is done about it: their templates have a title and an
//! `mdat` already when they add theirs, a user may be listed twice, a sample without a thermometer links to nothing, and a
//! place-holder that nothing replaced stands as a text among groups.
//!
//! Each is a warning. Refuses what is there twice and differs (but for datasets, of which the last holds), and more than
//! [`TWICE`] of one structure: each is looked for among all. Source: `docs/write.md`, "What is tolerated".

use serde_json::Value;

use super::DatasetPlan;
use super::NumberType;
use super::array::Named;
use super::parse::Reader;

/// Things that may be there twice.
const TWICE: usize = 64;
/// Bytes of a text that is said.
const SHOWN: usize = 40;

/// True for a number, or lists of nothing else.
fn numbers(value: &Value) -> bool {
    match value {
        Value::Number(_) => true,
        Value::Array(list) => !list.is_empty() && list.iter().all(numbers),
        _ => false,
    }
}

/// The type of an attribute that readers compute with: numbers that are called text are numbers.
pub(super) fn computed(name: &str, value: &Value, dtype: Option<Named>) -> Option<Named> {
    let meant = matches!(name, "vector" | "offset") && dtype == Some(Named::Text) && numbers(value);
    meant.then_some(Named::Number(NumberType::F64))
}

/// The beginning of a text.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

impl Reader<'_> {
    /// True, with a warning, for a text among groups and modules.
    pub(super) fn is_stray(&self, child: &Value, at: &str) -> bool {
        let Value::String(text) = child else { return false };
        let words = format!("\"{}\" is neither a group nor a module: it is left out", shown(text));
        self.warned.say(at, &words);
        true
    }

    /// One more that is there twice; false above the limit.
    fn twice(&mut self, path: &str) -> bool {
        let taken = self.taken.contains_key(path);
        self.twice += usize::from(taken);
        taken && self.twice <= TWICE
    }

    /// True, with a warning, for a group that stands word for word among its elder siblings.
    pub(super) fn is_repeated(
        &mut self,
        group: &Value,
        elder: &[Value],
        path: &str,
        at: &str,
    ) -> bool {
        let repeated = self.twice(path) && elder.contains(group);
        if repeated {
            let words = "the same group is there twice: it is written once".to_owned();
            self.warned.say(at, &words);
        }
        repeated
    }

    /// True, with a warning, for a date of an entry that is there already.
    pub(super) fn is_repeated_date(&mut self, path: &str, at: &str) -> bool {
        let repeated = self.twice(path) && self.plan.dates.iter().any(|date| date.path == path);
        if repeated {
            self.warned.say(at, "is there twice: it is written once");
        }
        repeated
    }

    /// Writes `dataset` in the place of the one that has its path already, if that is of the module `dataset` too.
    /// Gives it back if not.
    pub(super) fn replace(&mut self, dataset: DatasetPlan, at: &str) -> Option<DatasetPlan> {
        let listed = |first: &String| {
            first.rsplit('.').next().is_some_and(|part| part.starts_with("children["))
        };
        if !self.twice(&dataset.path) || !self.taken.get(&dataset.path).is_some_and(listed) {
            return Some(dataset);
        }
        let Some(first) = self.plan.datasets.iter_mut().find(|d| d.path == dataset.path) else {
            return Some(dataset);
        };
        *first = dataset;
        self.warned.say(at, "the dataset is there twice: this one is written");
        None
    }
}
