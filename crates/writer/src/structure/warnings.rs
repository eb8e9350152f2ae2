//! What was odd about a structure and is written all the same, as the existing file writer does: said, not refused.
//!
//! Bounded in number and bytes, since it stands in answers, heartbeats and logs: the first ones are kept, the others are
//! counted. Source: `docs/write.md`, "What is tolerated".

use std::cell::RefCell;

use super::super::name::one_line;

/// Warnings that are kept with their words.
const KEPT: usize = 8;
/// Bytes of one.
const BYTES: usize = 256;

/// What was tolerated.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Warnings {
    first: Vec<String>,
    more: u64,
}

impl Warnings {
    /// One more.
    pub fn add(&mut self, words: &str) {
        if self.first.len() < KEPT {
            self.first.push(one_line(words, BYTES));
        } else {
            self.more += 1;
        }
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.first.len() as u64 + self.more
    }

    /// The first ones, and how many more there were.
    pub fn lines(&self) -> Vec<String> {
        let more = (self.more > 0).then(|| format!("and {} more", self.more));
        self.first.iter().cloned().chain(more).collect()
    }

    /// All of that in one line; `None` if there was nothing.
    pub fn words(&self) -> Option<String> {
        match self.count() {
            0 => None,
            1 => Some(format!("1 warning: {}", self.lines().join("; "))),
            n => Some(format!("{n} warnings: {}", self.lines().join("; "))),
        }
    }
}

/// Takes warnings while a structure is read.
#[derive(Debug, Default)]
pub(super) struct Warned(RefCell<Warnings>);

impl Warned {
    /// What is odd at this place of the JSON, and what is done about it.
    pub(super) fn say(&self, at: &str, words: &str) {
        self.0.borrow_mut().add(&format!("nexus_structure{at}: {words}"));
    }

    /// All of it.
    pub(super) fn take(&self) -> Warnings {
        self.0.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_and_long_warnings_stay_short() {
        let mut warnings = Warnings::default();
        assert_eq!((warnings.words(), warnings.lines()), (None, vec![]));
        warnings.add("a\nb");
        assert_eq!(warnings.words().as_deref(), Some("1 warning: a\\nb"));
        for _ in 0..1000 {
            warnings.add(&"x".repeat(10_000));
        }
        let words = warnings.words().unwrap();
        assert!(words.starts_with("1001 warnings: a\\nb; x"), "{words}");
        assert!(words.ends_with("; and 993 more"), "{words}");
        assert!(words.len() < KEPT * (BYTES + 8) + 40, "{}", words.len());
        assert_eq!((warnings.count(), warnings.lines().len()), (1001, KEPT + 1));
    }
}
