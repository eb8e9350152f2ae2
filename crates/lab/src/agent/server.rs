//! `fullcount lab agent`: carries out a campaign's orders on this host.
//!
//! It serves one campaign at a time, for as long as it is told to. A campaign that falls silent or goes away has its
//! child killed, and the next one is served. It runs nothing but `fullcount receive` and `fullcount send` with
//! checked options. Refuses: a token file that is missing or too short, a busy port, a wrong token, a second
//! campaign at once.

use std::io::{self, BufReader, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::message::{self, Answer, Request, SCHEMA};
use super::post::{self, LocalPost, LocalWork};
use super::{PostError, Work};

/// Shortest token, bytes: 16 random characters are not guessed.
pub const TOKEN_MIN: usize = 16;
/// How long a stranger may take to say the token.
const HELLO: Duration = Duration::from_secs(5);
/// A campaign asks several times a second; silent for this long, it is gone.
const SILENCE: Duration = Duration::from_secs(30);
/// Longest time without a look at whether to stop.
const LOOK: Duration = Duration::from_millis(100);

/// Why an agent does not start.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The token file.
    #[error(
        "--token-file {path}: {problem}; make one with: head -c 24 /dev/urandom | base64 > {path} && chmod 600 {path}, and copy it to the other host"
    )]
    Token {
        /// Path.
        path: String,
        /// What is wrong.
        problem: String,
    },
    /// The port.
    #[error(
        "--listen {address}: {cause}; choose another port, or stop the program that has it (ss -tlpn)"
    )]
    Listen {
        /// Address.
        address: SocketAddr,
        /// The system's words.
        cause: io::Error,
    },
}

/// Reads a token: the file's text without blanks at its ends, at least 16 bytes.
///
/// # Errors
/// The file cannot be read, or holds too little.
pub fn token(path: &Path) -> Result<String, AgentError> {
    let refuse = |problem: String| AgentError::Token { path: path.display().to_string(), problem };
    let text = std::fs::read_to_string(path).map_err(|e| refuse(e.to_string()))?;
    let token = text.trim().to_owned();
    match token.len() {
        n if n < TOKEN_MIN => {
            Err(refuse(format!("the token has {n} bytes, less than {TOKEN_MIN}")))
        }
        n if n > 1024 => Err(refuse(format!("the token has {n} bytes, more than 1024"))),
        _ => Ok(token),
    }
}

/// An agent that listens.
pub struct Agent {
    listener: TcpListener,
    token: Arc<String>,
    program: PathBuf,
    busy: Arc<AtomicBool>,
}

impl Agent {
    /// Opens the port; `program` is the `fullcount` binary.
    ///
    /// # Errors
    /// The port is taken or not of this host.
    pub fn open(address: SocketAddr, token: String, program: PathBuf) -> Result<Agent, AgentError> {
        let refuse = |cause| AgentError::Listen { address, cause };
        let listener = TcpListener::bind(address).map_err(refuse)?;
        listener.set_nonblocking(true).map_err(refuse)?;
        let busy = Arc::new(AtomicBool::new(false));
        Ok(Agent { listener, token: Arc::new(token), program, busy })
    }

    /// Address that it listens on.
    ///
    /// # Errors
    /// The system's error.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves campaigns until `stop` says so; `tell` hears who came and went.
    pub fn serve(&self, stop: &(dyn Fn() -> bool + Sync), tell: &(dyn Fn(&str) + Sync)) {
        std::thread::scope(|scope| {
            while !stop() {
                let (line, from) = match self.listener.accept() {
                    Ok(pair) => pair,
                    Err(e) if e.kind() == ErrorKind::WouldBlock => {
                        std::thread::sleep(LOOK / 4);
                        continue;
                    }
                    // A stranger who hung up while waiting; nothing else passes here for long.
                    Err(e) => {
                        tell(&format!("accepting a connection: {e}"));
                        std::thread::sleep(LOOK);
                        continue;
                    }
                };
                scope.spawn(move || {
                    tell(&format!("{from}: connected"));
                    let end = self.converse(line, stop);
                    tell(&format!("{from}: {}", end.unwrap_or_else(|e| e.to_string())));
                });
            }
        });
    }

    /// One conversation; how it ended.
    fn converse(&self, stream: TcpStream, stop: &(dyn Fn() -> bool + Sync)) -> io::Result<String> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LOOK))?;
        stream.set_write_timeout(Some(SILENCE))?;
        let mut line = Line { from: BufReader::new(stream.try_clone()?), kept: Vec::new() };
        let mut out = stream;
        let hello = line.next(message::LONGEST_HELLO, HELLO, stop)?;
        let refusal = match hello {
            Some(Request::Hello { schema, .. }) if schema != SCHEMA => {
                Some(format!("this agent speaks {SCHEMA}, not {schema}: use the same version"))
            }
            Some(Request::Hello { token, .. }) if !same(&token, &self.token) => {
                // Guessing is slow.
                std::thread::sleep(Duration::from_millis(500));
                Some("wrong token: both hosts need the same --token-file".to_owned())
            }
            Some(Request::Hello { .. }) => None,
            _ => Some("the first line is not a greeting".to_owned()),
        };
        if let Some(reason) = refusal {
            message::write(&mut out, &Answer::Refused { reason: reason.clone() })?;
            return Ok(format!("refused: {reason}"));
        }
        if self.busy.swap(true, Ordering::AcqRel) {
            let reason = "another campaign is measuring here: wait until it ends".to_owned();
            message::write(&mut out, &Answer::Refused { reason: reason.clone() })?;
            return Ok(format!("refused: {reason}"));
        }
        let outcome = self.work(&mut line, &mut out, stop);
        self.busy.store(false, Ordering::Release);
        outcome
    }

    fn work(
        &self,
        line: &mut Line,
        out: &mut TcpStream,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> io::Result<String> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let host = crate::record::host::snapshot(Path::new("/"));
        message::write(out, &Answer::Welcome { version, host, buffers: post::buffers() })?;
        let own = LocalPost::loopback(self.program.clone());
        // Killed when this function returns, however it does.
        let mut child: Option<LocalWork> = None;
        let mut done = 0u64;
        while let Some(request) = line.next(message::LONGEST, SILENCE, stop)? {
            let answer = match (request, &mut child) {
                (Request::Start { order }, None) => match own.begin(&order) {
                    Ok(work) => {
                        let port = work.port();
                        child = Some(work);
                        Answer::Started { port }
                    }
                    Err(e) => Answer::Failed { reason: e.to_string() },
                },
                (Request::Sample { sampling }, Some(work)) => done_or_failed(work.sample(sampling)),
                (Request::Interrupt, Some(work)) => done_or_failed(work.interrupt()),
                (Request::Poll, Some(work)) => match work.poll() {
                    Ok(None) => Answer::Running,
                    Ok(Some(report)) => {
                        child = None;
                        done += 1;
                        Answer::Ended { report }
                    }
                    Err(e) => {
                        child = None;
                        Answer::Failed { reason: e.to_string() }
                    }
                },
                (Request::Drop, _) => {
                    child = None;
                    Answer::Done
                }
                (Request::Start { .. }, Some(_)) => refuse("a child runs already"),
                (Request::Hello { .. }, _) => refuse("greeted already"),
                (_, None) => refuse("no child runs"),
            };
            message::write(out, &answer)?;
        }
        Ok(format!("campaign ended, {done} orders carried out"))
    }
}

fn refuse(reason: &str) -> Answer {
    Answer::Failed { reason: reason.to_owned() }
}

fn done_or_failed(outcome: Result<(), PostError>) -> Answer {
    match outcome {
        Ok(()) => Answer::Done,
        Err(e) => Answer::Failed { reason: e.to_string() },
    }
}

/// Compares in a time that does not tell how much was right.
fn same(a: &str, b: &str) -> bool {
    let differing = a.bytes().zip(b.bytes()).fold(0, |d, (x, y)| d | (x ^ y));
    a.len() == b.len() && differing == 0
}

/// The campaign's side of the conversation.
struct Line {
    from: BufReader<TcpStream>,
    kept: Vec<u8>,
}

impl Line {
    /// The next request; `None` at the end of the conversation, or when the agent is to stop.
    fn next(
        &mut self,
        longest: u64,
        patience: Duration,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> io::Result<Option<Request>> {
        let begun = Instant::now();
        loop {
            match message::read(&mut self.from, &mut self.kept, longest) {
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                other => return other,
            }
            if stop() {
                return Ok(None);
            }
            if begun.elapsed() >= patience {
                let text =
                    format!("silent for {} s: given up, its child killed", patience.as_secs());
                return Err(io::Error::new(ErrorKind::TimedOut, text));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_long_enough_and_compared_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        assert!(token(&path).unwrap_err().to_string().contains("head -c 24"), "no such file");
        std::fs::write(&path, "short\n").unwrap();
        assert!(token(&path).unwrap_err().to_string().contains("5 bytes, less than 16"));
        std::fs::write(&path, "0123456789abcdef\n").unwrap();
        assert_eq!(token(&path).unwrap(), "0123456789abcdef");
        assert!(same("ab", "ab") && !same("ab", "abc") && !same("ab", "aB") && !same("", "a"));
    }
}
