//! One line of advice: what it is now, what is wanted, why, and how to change it.

use super::place::Change;

/// How a line stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdviceStatus {
    /// It limits the wanted rate: `--check` fails, `--apply` changes it.
    Short,
    /// It may matter; `--check` does not fail for it.
    Hint,
    /// The host does not say.
    Unknown,
    /// It is enough.
    Fine,
}

impl AdviceStatus {
    /// All, in the order in which they are printed.
    pub const ALL: [AdviceStatus; 4] =
        [AdviceStatus::Short, AdviceStatus::Hint, AdviceStatus::Unknown, AdviceStatus::Fine];

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            AdviceStatus::Short => "short",
            AdviceStatus::Hint => "hint",
            AdviceStatus::Unknown => "unknown",
            AdviceStatus::Fine => "fine",
        }
    }
}

/// One line of advice.
#[derive(Debug, Clone, PartialEq)]
pub struct AdviceLine {
    /// What it is about, a stable name, for example `net.core.rmem_max`.
    pub key: String,
    /// How it stands.
    pub status: AdviceStatus,
    /// Now, with unit.
    pub now: Option<String>,
    /// Wanted, with unit.
    pub wanted: Option<String>,
    /// Why.
    pub why: String,
    /// Commands that change it, to be given as root.
    pub commands: Vec<String>,
    /// The same as `--apply` does it; empty where only a person can.
    pub changes: Vec<Change>,
}

impl AdviceLine {
    /// A line that is fine until something else is said.
    pub fn new(
        key: impl Into<String>,
        now: impl Into<String>,
        why: impl Into<String>,
    ) -> AdviceLine {
        AdviceLine {
            key: key.into(),
            status: AdviceStatus::Fine,
            now: Some(now.into()),
            wanted: None,
            why: why.into(),
            commands: vec![],
            changes: vec![],
        }
    }

    /// A line about something that the host does not say.
    pub fn unknown(key: impl Into<String>, why: impl Into<String>) -> AdviceLine {
        AdviceLine { status: AdviceStatus::Unknown, now: None, ..AdviceLine::new(key, "", why) }
    }

    /// With another status.
    #[must_use]
    pub fn status(self, status: AdviceStatus) -> AdviceLine {
        AdviceLine { status, ..self }
    }

    /// With what is wanted instead.
    #[must_use]
    pub fn wanted(self, wanted: impl Into<String>) -> AdviceLine {
        AdviceLine { wanted: Some(wanted.into()), ..self }
    }

    /// With a change that this program can make, and its command.
    #[must_use]
    pub fn change(mut self, change: Change) -> AdviceLine {
        self.commands.push(change.command());
        self.changes.push(change);
        self
    }

    /// With a command that only a person should give.
    #[must_use]
    pub fn command(mut self, command: impl Into<String>) -> AdviceLine {
        self.commands.push(command.into());
        self
    }
}
