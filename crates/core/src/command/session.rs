//! One connection to the control port, without its socket: what one receive brought goes in, bytes to be sent come out.
//!
//! There is no framing: what one receive brings is one command. It is taken apart at newlines only if each line with something
//! in it begins with a command's name; then each reply ends in a newline, else none does. Memory is bounded: one receive, and
//! one reply. Who speaks HTTP is hung up on: a web page must not be able to have a browser give commands.
//! Source: `control-and-monitoring.md` section 3, `docs/decisions/0021-control-port.md`.

use std::net::SocketAddr;

use crate::text::is_control;

use super::{
    Answer, ClientTrust, Command, CommandRecord, Commands, GivenCommand, NotDone, Rights, Token,
};

/// Most bytes of one receive.
pub const LARGEST: usize = 9000;
/// A command's name is shorter.
const LONGEST_NAME: usize = 100;
/// Wrong tokens, then the connection is closed.
const WRONG_TOKENS: u8 = 3;

const OK: &str = "<OK>";
const BAD_COMMAND: &str = "Error: <BADCMD>";
const BAD_ARGUMENTS: &str = "Error: <BADARGS>";
const BAD_SIZE: &str = "Error: <BADSIZE>";
/// Not of the old protocol, whose port was open to everybody.
const NOT_ALLOWED: &str = "Error: <NOAUTH>";
/// Longest reason that is kept for `WHY`, bytes.
const LONGEST_WHY: usize = 1000;

/// What a client may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Only to give the token.
    Nothing,
    /// Commands that only tell something.
    Read,
    /// All commands.
    All,
}

/// What all connections share.
#[derive(Debug, Default)]
pub struct Desk {
    /// The commands.
    pub commands: Commands,
    /// What opens the port; without one nobody is let in by a word.
    pub token: Option<Token>,
    /// Who may do what without it.
    pub trust: ClientTrust,
    /// Told of every command, whatever came of it.
    pub record: Option<CommandRecord>,
}

impl Desk {
    /// Has a command recorded.
    pub fn record(&self, given: &GivenCommand<'_>) {
        if let Some(record) = self.record {
            record(given);
        }
    }
}

/// One connection.
#[derive(Debug)]
pub struct Session {
    access: Access,
    /// Who is at its other end, for the record.
    client: Option<SocketAddr>,
    wrong_tokens: u8,
    /// Lines of the last receive that are still to be worked on; from `at` on.
    waiting: Vec<u8>,
    at: usize,
    /// The reply; from `sent` on.
    out: Vec<u8>,
    sent: usize,
    closing: bool,
    answered: u64,
    /// Why the last command was not done; empty: it was.
    why: String,
}

impl Session {
    /// A new connection of a client that may do so much.
    pub fn new(access: Access) -> Session {
        let (waiting, out) = (Vec::new(), Vec::new());
        Session {
            access,
            client: None,
            wrong_tokens: 0,
            waiting,
            at: 0,
            out,
            sent: 0,
            closing: false,
            answered: 0,
            why: String::new(),
        }
    }

    /// The same with the client's address, for the record of commands.
    #[must_use]
    pub fn of_client(self, client: SocketAddr) -> Session {
        Session { client: Some(client), ..self }
    }

    /// True if the next receive can be taken: all replies to the last one are gone.
    pub fn wants_input(&self) -> bool {
        !self.closing && self.output().is_empty() && self.at == self.waiting.len()
    }

    /// Takes what one receive brought. Nothing is done while replies wait ([`Session::wants_input`]).
    pub fn receive(&mut self, chunk: &[u8], desk: &Desk) {
        if !self.wants_input() {
            return;
        }
        self.out.clear();
        self.sent = 0;
        if is_http(chunk) {
            self.say(BAD_COMMAND, false);
            self.closing = true;
        } else if chunk.is_empty() || chunk.len() > LARGEST {
            self.say(BAD_SIZE, false);
        } else if is_several(chunk, &desk.commands) {
            self.waiting = chunk.to_vec();
            self.at = 0;
            self.next_line(desk);
        } else {
            self.command(chunk, desk, false);
        }
    }

    /// What is to be sent.
    pub fn output(&self) -> &[u8] {
        &self.out[self.sent..]
    }

    /// So many bytes of it were sent.
    pub fn sent(&mut self, bytes: usize, desk: &Desk) {
        self.sent = (self.sent + bytes).min(self.out.len());
        if self.sent == self.out.len() {
            self.out = Vec::new();
            self.sent = 0;
            self.next_line(desk);
        }
    }

    /// What this client may do.
    pub fn access(&self) -> Access {
        self.access
    }

    /// True once the connection is to be closed.
    pub fn is_over(&self) -> bool {
        self.closing && self.output().is_empty()
    }

    /// Commands answered.
    pub fn answered(&self) -> u64 {
        self.answered
    }

    /// Bytes held.
    pub fn held(&self) -> usize {
        self.waiting.capacity() + self.out.capacity() + self.why.capacity()
    }

    /// Works on lines until one has a reply.
    fn next_line(&mut self, desk: &Desk) {
        while !self.closing && self.output().is_empty() && self.at < self.waiting.len() {
            let rest = &self.waiting[self.at..];
            let end = rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
            let line = rest[..end].to_vec();
            self.at += (end + 1).min(rest.len());
            if words(&line).next().is_some() {
                self.command(&line, desk, true);
            }
        }
        if self.closing || self.at == self.waiting.len() {
            self.waiting = Vec::new();
            self.at = 0;
        }
    }

    fn say(&mut self, text: &str, line: bool) {
        self.answered += 1;
        self.out.extend_from_slice(text.as_bytes());
        if line {
            self.out.push(b'\n');
        }
    }

    /// One command, and its reply.
    fn command(&mut self, request: &[u8], desk: &Desk, line: bool) {
        let mut all = words(request);
        let command = all.next().and_then(|name| named(name, &desk.commands));
        let Some(command) = command else {
            let known = self.access > Access::Nothing;
            self.because("there is no such command: HELP lists them");
            self.record(desk, ("", &[]), (false, false));
            return self.say(if known { BAD_COMMAND } else { NOT_ALLOWED }, line);
        };
        let arguments: Vec<&[u8]> = all.collect();
        crate::trace!(Command, Info, "{} with {} arguments", command.name, arguments.len());
        if command.name == "AUTH" {
            return self.authorise(&arguments, desk, line);
        }
        let text: Result<Vec<&str>, _> = arguments.iter().map(|a| std::str::from_utf8(a)).collect();
        let rights = command.rights_with(arguments.len());
        // Arguments that it does not take may be a token that was misplaced.
        let takes = text.as_deref().ok().filter(|all| command.count.contains(&all.len()));
        let (name, changes) = ((&*command.name, takes.unwrap_or(&[])), rights == Rights::Change);
        let needed = if changes { Access::All } else { Access::Read };
        if self.access < needed {
            self.because("this client may not give it without the token: AUTH TOKEN");
            self.record(desk, name, (changes, false));
            return self.say(NOT_ALLOWED, line);
        }
        if command.name == "WHY" && arguments.is_empty() {
            self.record(desk, name, (changes, true));
            let why = if self.why.is_empty() { "nothing was refused" } else { &self.why };
            return self.say(&format!("WHY {why}"), line);
        }
        let given = match &text {
            Ok(arguments) => desk.commands.give(command, arguments),
            Err(_) => Err(NotDone::Arguments),
        };
        self.because(given.as_ref().err().map_or("", NotDone::why));
        self.record(desk, name, (changes, given.is_ok()));
        match given {
            Ok(Answer::Done) => self.say(OK, line),
            Ok(Answer::Values(values)) => self.say(&format!("{} {values}", command.name), line),
            Ok(Answer::Goodbye) => {
                self.say(OK, line);
                self.closing = true;
            }
            Err(not_done) => self.say(&not_done.to_string(), line),
        }
    }

    /// Keeps why a command was not done.
    fn because(&mut self, why: &str) {
        // No newline: it is one line of a reply.
        self.why = why.chars().filter(|&c| !is_control(c)).take(LONGEST_WHY / 4).collect();
    }

    /// Has a command recorded: its name and arguments; whether it changes something, and whether it was done.
    fn record(
        &self,
        desk: &Desk,
        (name, arguments): (&str, &[&str]),
        (changes, done): (bool, bool),
    ) {
        let refused = (!done).then_some(self.why.as_str());
        desk.record(&GivenCommand { client: self.client, name, arguments, changes, refused });
    }

    fn authorise(&mut self, arguments: &[&[u8]], desk: &Desk, line: bool) {
        // Its argument is in no record, and how many were tried is.
        let name = ("AUTH", &[][..]);
        let [word] = arguments else {
            self.because(NotDone::Arguments.why());
            self.record(desk, name, (true, false));
            return self.say(BAD_ARGUMENTS, line);
        };
        if desk.token.as_ref().is_some_and(|token| token.is(word)) {
            self.access = Access::All;
            self.record(desk, name, (true, true));
            return self.say(OK, line);
        }
        self.wrong_tokens += 1;
        self.closing = self.wrong_tokens >= WRONG_TOKENS;
        self.because(match self.closing {
            true => "this is not the token, and the connection is closed",
            false => "this is not the token",
        });
        self.record(desk, name, (true, false));
        self.say(NOT_ALLOWED, line);
    }
}

/// Words with blanks or newlines between them. A carriage return before a newline or at the end goes with it.
fn words(request: &[u8]) -> impl Iterator<Item = &[u8]> {
    let words = |line| <[u8]>::split(without_return(line), |b| *b == b' ');
    request.split(|b| *b == b'\n').flat_map(words).filter(|word| !word.is_empty())
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn named<'a>(name: &[u8], commands: &'a Commands) -> Option<&'a Command> {
    let name = std::str::from_utf8(name).ok().filter(|name| name.len() < LONGEST_NAME)?;
    commands.find(name)
}

/// True for two lines or more, each of which begins with a command's name; empty ones do not count.
fn is_several(request: &[u8], commands: &Commands) -> bool {
    let mut n = 0;
    for line in request.split(|b| *b == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        // One of blanks alone begins with no name.
        let Some(first) = words(line).next() else { return false };
        if line.first() == Some(&b' ') || named(first, commands).is_none() {
            return false;
        }
        n += 1;
    }
    n > 1
}

/// Methods of HTTP; no command is called so.
const METHODS: [&str; 9] =
    ["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"];

/// True for the begin of a request as browsers send it. Its first line may be longer than a receive, so that the method says it.
fn is_http(request: &[u8]) -> bool {
    let line = request.split(|b| *b == b'\n').next().unwrap_or_default();
    let method = line.split(|b| *b == b' ').next().unwrap_or_default();
    let version = line.windows(7).any(|part| part == b" HTTP/1");
    METHODS.iter().any(|known| known.as_bytes() == method)
        || (version && line.first().is_some_and(u8::is_ascii_alphabetic))
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
