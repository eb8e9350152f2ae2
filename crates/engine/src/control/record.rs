//! Messages about commands: who gave which, and what came of it. What only tells something is for who looks for a fault (debug); what
//! changes something, and who tries it without being allowed, is a notice.
//!
//! The origin is `control`, of the port and of the page's HTTP interface. A level that is not told costs one comparison: nothing is put
//! into words. Source: `control-and-monitoring.md` section 5.3, `docs/operations.md`.

use std::fmt;

use fullcount_core::command::GivenCommand;
use fullcount_core::text::is_control;
use fullcount_log::{debug, notice};

/// Characters of each argument and reason that are shown.
const SHOWN: usize = 100;

/// Tells what was given.
pub fn record(given: &GivenCommand<'_>) {
    match (given.changes, given.refused) {
        (false, _) => debug!(target: "fullcount_control", "{}", Said(given)),
        (true, None) => {
            notice!(target: "fullcount_control", command = given.name, "{}", Said(given));
        }
        // A place of its own: many that are refused must not leave out what was done.
        (true, Some(_)) => {
            notice!(target: "fullcount_control", command = given.name, "{}", Said(given));
        }
    }
}

/// A command in words.
struct Said<'a>(&'a GivenCommand<'a>);

/// What somebody sent, which may be anything.
struct Safe<'a>(&'a str);

impl fmt::Display for Safe<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars().take(SHOWN) {
            write!(f, "{}", if is_control(c) { '\u{fffd}' } else { c })?;
        }
        if self.0.chars().nth(SHOWN).is_some() { f.write_str("…") } else { Ok(()) }
    }
}

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GivenCommand { client, name, arguments, refused, .. } = self.0;
        match client {
            Some(client) => write!(f, "{}:{}", client.ip().to_canonical(), client.port())?,
            None => f.write_str("a client")?,
        }
        match *name {
            "" => f.write_str(" gave an unknown command")?,
            name => write!(f, " gave {name}")?,
        }
        arguments.iter().try_for_each(|argument| write!(f, " {}", Safe(argument)))?;
        match refused {
            Some(why) => write!(f, ": not done: {}", Safe(why)),
            None => f.write_str(": done"),
        }
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
