//! Commands of the control port: what a part of the program offers by name, and what is answered.
//!
//! A decoder, a source or an output gives [`Command`]s with its kind; [`Commands`] holds them all, and [`session`] speaks the
//! protocol of the port, without socket or clock. Refuses what the protocol refuses, in its spelling.
//! Source: `control-and-monitoring.md` section 3.

mod given;
mod mailbox;
pub mod session;
mod token;
mod trust;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

pub use given::{CommandRecord, GivenCommand};
pub use mailbox::Mailbox;
pub use session::{Access, Desk, Session};
pub use token::{Token, TokenError};
pub use trust::{ClientNetwork, ClientTrust};

/// What a command has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// `<OK>`.
    Done,
    /// Its name, a blank, and this.
    Values(String),
    /// `<OK>`, and the connection is closed.
    Goodbye,
}

/// Why a command was not done: a wrong number of arguments, or a value out of range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("Error: <BADARGS>")]
pub struct BadArguments;

/// Why a command was not done, with the reason in words for `WHY` and the HTTP interface.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotDone {
    /// A wrong number of arguments, or what is none of a value.
    #[error("Error: <BADARGS>")]
    Arguments,
    /// A value that is not allowed.
    #[error("Error: <BADARGS>")]
    Refused(String),
    /// Not now: what was asked for before is still under way.
    #[error("Error: <BUSY>")]
    Busy(String),
    /// It was tried, and could not be done.
    #[error("Error: <FAILED>")]
    Failed(String),
}

impl From<BadArguments> for NotDone {
    fn from(_: BadArguments) -> NotDone {
        NotDone::Arguments
    }
}

impl NotDone {
    /// The reason, for people.
    pub fn why(&self) -> &str {
        match self {
            NotDone::Arguments => "a wrong number of arguments, or a value out of range",
            NotDone::Refused(why) | NotDone::Busy(why) | NotDone::Failed(why) => why,
        }
    }
}

/// Who may give a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// It only tells.
    Read,
    /// It changes something.
    Change,
}

/// What is called with the arguments.
pub type CommandWork = Box<dyn Fn(&[&str]) -> Result<Answer, NotDone> + Send + Sync>;

/// What a command does.
enum Does {
    /// What its owner says.
    Work(CommandWork),
    /// Tells how many commands there are.
    Count,
    /// Names the n-th of them.
    Nth,
    /// Explains one or all.
    Help,
    /// Opens the port for who knows the token; the session does it.
    Authorise,
    /// Tells why the last command was not done; the session knows.
    Why,
}

/// One command.
pub struct Command {
    /// Upper case, as it is sent.
    pub name: Cow<'static, str>,
    /// Its arguments, as `HELP` shows them: `NAME`, `[I]`.
    pub arguments: Cow<'static, str>,
    /// What it does, one sentence.
    pub about: Cow<'static, str>,
    /// Who may give it.
    pub rights: Rights,
    /// Without arguments it only tells something.
    tells_bare: bool,
    /// How many arguments it takes.
    count: RangeInclusive<usize>,
    does: Does,
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Command").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Command {
    /// A command that only tells something.
    pub fn read<T: Into<Cow<'static, str>>>(
        name: impl Into<Cow<'static, str>>,
        (arguments, about): (T, T),
        count: RangeInclusive<usize>,
        work: impl Fn(&[&str]) -> Result<Answer, NotDone> + Send + Sync + 'static,
    ) -> Command {
        let (name, does) = (name.into(), Does::Work(Box::new(work)));
        let (arguments, about) = (arguments.into(), about.into());
        let (rights, tells_bare) = (Rights::Read, false);
        Command { name, arguments, about, rights, tells_bare, count, does }
    }

    /// A command that changes something.
    pub fn change<T: Into<Cow<'static, str>>>(
        name: impl Into<Cow<'static, str>>,
        texts: (T, T),
        count: RangeInclusive<usize>,
        work: impl Fn(&[&str]) -> Result<Answer, NotDone> + Send + Sync + 'static,
    ) -> Command {
        Command { rights: Rights::Change, ..Command::read(name, texts, count, work) }
    }

    /// The same command, which without arguments only tells something.
    #[must_use]
    pub fn telling_bare(self) -> Command {
        Command { tells_bare: true, ..self }
    }

    /// Who may give it with so many arguments.
    pub fn rights_with(&self, arguments: usize) -> Rights {
        if self.tells_bare && arguments == 0 { Rights::Read } else { self.rights }
    }

    /// How many arguments it takes.
    pub fn count(&self) -> RangeInclusive<usize> {
        self.count.clone()
    }

    /// True if it is about one connection, and has no meaning without it.
    pub fn is_of_connection(&self) -> bool {
        matches!(self.does, Does::Authorise | Does::Why)
    }

    fn own(
        name: &'static str,
        about: (&'static str, &'static str),
        n: usize,
        does: Does,
    ) -> Command {
        let least = if matches!(does, Does::Help) { 0 } else { n };
        let (arguments, about) = about;
        Command {
            name: name.into(),
            arguments: arguments.into(),
            about: about.into(),
            rights: Rights::Read,
            tells_bare: false,
            count: least..=n,
            does,
        }
    }
}

/// All commands of a process, in alphabetical order.
#[derive(Debug)]
pub struct Commands(BTreeMap<Cow<'static, str>, Command>);

impl Default for Commands {
    /// Those about commands themselves.
    fn default() -> Commands {
        let mut all = Commands(BTreeMap::new());
        for command in [
            Command::own("CMD_GET_COUNT", ("", "how many commands there are"), 0, Does::Count),
            Command::own(
                "CMD_GET",
                ("I", "name of a command, by its place from 1 in the alphabet"),
                1,
                Does::Nth,
            ),
            Command::own("HELP", ("[NAME]", "what a command does, or all of them"), 1, Does::Help),
            Command::own(
                "AUTH",
                ("TOKEN", "allows this connection all commands"),
                1,
                Does::Authorise,
            ),
            Command::own(
                "WHY",
                ("", "why the last command of this connection was refused"),
                0,
                Does::Why,
            ),
        ] {
            all.register(command);
        }
        all
    }
}

impl Commands {
    /// Adds a command; a later one of the same name takes the place of the earlier.
    pub fn register(&mut self, command: Command) {
        self.0.insert(command.name.clone(), command);
    }

    /// The command of that name.
    pub fn find(&self, name: &str) -> Option<&Command> {
        self.0.get(name)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Command> {
        self.0.values()
    }

    /// Does what a command says.
    ///
    /// # Errors
    /// A wrong number of arguments, or a value that it refuses.
    pub fn give(&self, command: &Command, arguments: &[&str]) -> Result<Answer, NotDone> {
        if !command.count.contains(&arguments.len()) {
            return Err(NotDone::Arguments);
        }
        match (&command.does, arguments) {
            (Does::Work(work), _) => work(arguments),
            (Does::Count, _) => Ok(Answer::Values(self.len().to_string())),
            (Does::Nth, [place]) => {
                let place = number(place)?.checked_sub(1).ok_or(BadArguments)?;
                let found = usize::try_from(place).ok().and_then(|at| self.0.values().nth(at));
                found.map(|c| Answer::Values(c.name.to_string())).ok_or(NotDone::Arguments)
            }
            (Does::Help, [name]) => {
                let found = self.find(name).ok_or(BadArguments)?;
                Ok(Answer::Values(line(found)))
            }
            (Does::Help, _) => {
                let all: Vec<String> = self.iter().map(line).collect();
                Ok(Answer::Values(all.join("\n")))
            }
            (Does::Nth | Does::Authorise | Does::Why, _) => Err(NotDone::Arguments),
        }
    }
}

/// A command for people.
fn line(command: &Command) -> String {
    let blank = if command.arguments.is_empty() { "" } else { " " };
    format!("{}{blank}{}: {}", command.name, command.arguments, command.about)
}

/// A whole number; what has too many digits is larger than all that is counted.
///
/// # Errors
/// It is none.
pub fn number(text: &str) -> Result<i64, BadArguments> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(BadArguments);
    }
    Ok(text.parse().unwrap_or(if text.starts_with('-') { i64::MIN } else { i64::MAX }))
}

#[cfg(test)]
#[path = "command/command_tests.rs"]
mod tests;
