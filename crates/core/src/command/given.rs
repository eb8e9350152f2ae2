//! A command that was given, for who keeps a record of them.
//!
//! Nothing here is written down: who owns the [`Desk`](super::Desk) says what is done with it. No token is in it, also none that was
//! misplaced: a word that is no command's name is left out, and so are arguments that a command does not take.

use std::net::SocketAddr;

/// One command, whatever came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GivenCommand<'a> {
    /// Who gave it; `None`: not known.
    pub client: Option<SocketAddr>,
    /// Its name; empty: there is no such command.
    pub name: &'a str,
    /// Its arguments as they were sent.
    pub arguments: &'a [&'a str],
    /// It changes something, or what this client may do.
    pub changes: bool,
    /// Why it was not done; `None`: it was.
    pub refused: Option<&'a str>,
}

/// Keeps a record; called by the thread that answers, and must not make it wait.
pub type CommandRecord = fn(&GivenCommand<'_>);
