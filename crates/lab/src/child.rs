//! A program under measurement: started, awaited by what it prints, interrupted or killed, and read to its
//! end beside the measurement, so that it never waits for us. Every campaign's children run under this supervisor.
//!
//! Refuses: programs that cannot be started, hang, or fail. A child is killed when dropped.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::agent::LEASH;

/// Between two looks at a child.
const LOOK: Duration = Duration::from_millis(5);
/// Lines of standard error that are kept: the first ones, which say how a socket was opened, and the last ones.
const KEPT: usize = 128;
/// The reader of standard error ends with the pipe; a grandchild may keep that open for so long.
const REST: Duration = Duration::from_secs(1);

/// Why a trial gave no result.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The program did not start.
    #[error("{program}: cannot be started: {cause}")]
    Start {
        /// Program.
        program: String,
        /// The system's words.
        cause: std::io::Error,
    },
    /// It did not get ready.
    #[error("{program}: not ready after {seconds} s: {said}")]
    NotReady {
        /// Program.
        program: String,
        /// Time waited.
        seconds: u64,
        /// Its last words.
        said: String,
    },
    /// It failed.
    #[error("{program}: ended with {status}: {said}")]
    Failed {
        /// Program.
        program: String,
        /// Exit status.
        status: String,
        /// Its last words.
        said: String,
    },
    /// It did not end.
    #[error("{program}: still running {seconds} s after it should have ended; killed")]
    Stuck {
        /// Program.
        program: String,
        /// Time waited.
        seconds: u64,
    },
    /// What it printed cannot be read.
    #[error("{program}: {reason}")]
    Result {
        /// Program.
        program: String,
        /// What is missing.
        reason: String,
    },
    /// No two cores for a trial.
    #[error("two cores near each other: {0}")]
    Cores(#[from] std::io::Error),
    /// No profile of the trial.
    #[error(transparent)]
    Profile(#[from] crate::profile::ProfileError),
    /// Somebody asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// True once somebody asks to stop.
pub type Asked<'a> = &'a dyn Fn() -> bool;

/// A running child.
#[derive(Debug)]
pub struct Running {
    program: String,
    child: Child,
    /// Our own children end when this is closed, also if this process is killed.
    _leash: Option<std::process::ChildStdin>,
    output: Option<JoinHandle<String>>,
    errors: Receiver<String>,
    said: Vec<String>,
}

/// How a child ended.
#[derive(Debug)]
pub struct Ended {
    /// Program, for messages.
    pub program: String,
    /// Exit status.
    pub status: ExitStatus,
    /// Standard output.
    pub output: String,
    /// Last lines of standard error.
    pub said: String,
    /// First and last lines of standard error, in order.
    pub lines: Vec<String>,
}

impl Ended {
    /// The same as an error.
    pub fn failed(self) -> TrialError {
        let said = match self.said.is_empty() {
            true => last(&self.output.lines().map(str::to_owned).collect::<Vec<_>>()),
            false => self.said,
        };
        TrialError::Failed { program: self.program, status: self.status.to_string(), said }
    }
}

fn last(lines: &[String]) -> String {
    lines[lines.len().saturating_sub(4)..].join("; ")
}

impl Running {
    /// Starts `command`; `program` is its name in messages.
    ///
    /// # Errors
    /// [`TrialError::Start`].
    pub fn start(program: &str, mut command: Command) -> Result<Running, TrialError> {
        command
            .env(LEASH, "stdin")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|cause| TrialError::Start { program: program.to_owned(), cause })?;
        // Taken out, as waiting for a child closes its standard input.
        let leash = child.stdin.take();
        let (tell, errors) = channel();
        let output = child.stdout.take().map(|mut pipe| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                // A pipe that breaks ends early; what came until then is judged by the caller.
                let _ = pipe.read_to_end(&mut bytes);
                String::from_utf8_lossy(&bytes).into_owned()
            })
        });
        if let Some(pipe) = child.stderr.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                    if tell.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        Ok(Running {
            program: program.to_owned(),
            child,
            _leash: leash,
            output,
            errors,
            said: Vec::new(),
        })
    }

    /// Waits for a line on standard error that `find` recognises.
    ///
    /// # Errors
    /// The child ended first, or `limit` passed.
    pub fn wait_for_line<T>(
        &mut self,
        limit: Duration,
        stop: Asked<'_>,
        find: impl Fn(&str) -> Option<T>,
    ) -> Result<T, TrialError> {
        let begun = Instant::now();
        loop {
            if stop() {
                return Err(TrialError::Interrupted);
            }
            match self.errors.recv_timeout(10 * LOOK) {
                Ok(line) => {
                    let found = find(&line);
                    self.hear(line);
                    if let Some(found) = found {
                        return Ok(found);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.ended_early()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if begun.elapsed() >= limit {
                return Err(self.not_ready(limit));
            }
        }
    }

    /// Waits until `ready`.
    ///
    /// # Errors
    /// The child ended first, or `limit` passed.
    pub fn wait_until(
        &mut self,
        limit: Duration,
        stop: Asked<'_>,
        ready: impl Fn() -> bool,
    ) -> Result<(), TrialError> {
        let begun = Instant::now();
        loop {
            if stop() {
                return Err(TrialError::Interrupted);
            }
            if ready() {
                return Ok(());
            }
            if self.status(LOOK)?.is_some() {
                return Err(self.ended_early());
            }
            if begun.elapsed() >= limit {
                return Err(self.not_ready(limit));
            }
        }
    }

    fn not_ready(&mut self, limit: Duration) -> TrialError {
        let (program, seconds) = (self.program.clone(), limit.as_secs());
        self.hear_all(Duration::ZERO);
        TrialError::NotReady { program, seconds, said: last(&self.said) }
    }

    fn ended_early(&mut self) -> TrialError {
        match self.end(Duration::from_secs(5), &|| false) {
            Ok(Some(ended)) => ended.failed(),
            Ok(None) => TrialError::Stuck { program: self.program.clone(), seconds: 5 },
            Err(e) => e,
        }
    }

    fn status(&mut self, limit: Duration) -> Result<Option<ExitStatus>, TrialError> {
        let begun = Instant::now();
        loop {
            let status = self.child.try_wait().map_err(|cause| TrialError::Failed {
                program: self.program.clone(),
                status: cause.to_string(),
                said: String::new(),
            })?;
            if status.is_some() || begun.elapsed() >= limit {
                return Ok(status);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Waits for its end for `limit` without taking its result; true if it has ended.
    ///
    /// # Errors
    /// The system does not know the child.
    pub fn ended(&mut self, limit: Duration) -> Result<bool, TrialError> {
        Ok(self.status(limit)?.is_some())
    }

    /// Waits for its end; `None` if it still runs after `limit`.
    ///
    /// # Errors
    /// Asked to stop: the child is killed.
    pub fn end(&mut self, limit: Duration, stop: Asked<'_>) -> Result<Option<Ended>, TrialError> {
        let begun = Instant::now();
        while begun.elapsed() < limit {
            if let Some(status) = self.status(LOOK)? {
                return Ok(Some(self.result(status)));
            }
            if stop() {
                self.kill();
                return Err(TrialError::Interrupted);
            }
        }
        Ok(None)
    }

    /// Its result, if it has ended.
    ///
    /// # Errors
    /// The system does not know the child.
    pub fn poll(&mut self) -> Result<Option<Ended>, TrialError> {
        // So that a long run's lines do not pile up.
        self.hear_all(Duration::ZERO);
        Ok(self.status(Duration::ZERO)?.map(|status| self.result(status)))
    }

    fn result(&mut self, status: ExitStatus) -> Ended {
        let output = self.output.take().and_then(|t| t.join().ok()).unwrap_or_default();
        self.hear_all(REST);
        let lines = std::mem::take(&mut self.said);
        Ended { program: self.program.clone(), status, output, said: last(&lines), lines }
    }

    fn hear(&mut self, line: String) {
        if self.said.len() >= KEPT {
            self.said.remove(KEPT / 2);
        }
        self.said.push(line);
    }

    /// Everything that it has said, until it says nothing for `pause`.
    fn hear_all(&mut self, pause: Duration) {
        while let Ok(line) = self.errors.recv_timeout(pause) {
            self.hear(line);
        }
    }

    /// Its number in the system.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// SIGINT, as from a terminal; a failure shows as a child that does not end.
    pub fn interrupt(&self) {
        let _ = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
    }

    /// Ends it for good; says so.
    pub fn stuck(&mut self, waited: Duration) -> TrialError {
        self.kill();
        TrialError::Stuck { program: self.program.clone(), seconds: waited.as_secs() }
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn shell(text: &str) -> Running {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        Running::start("sh", command).unwrap()
    }

    #[test]
    fn lines_output_and_status_come_back() {
        let mut child = shell("echo one >&2; echo port 42 >&2; echo result; exit 3");
        let port =
            child.wait_for_line(LIMIT, &|| false, |l| l.strip_prefix("port ")?.parse::<u16>().ok());
        assert_eq!(port.unwrap(), 42);
        let ended = child.end(LIMIT, &|| false).unwrap().unwrap();
        assert_eq!((ended.status.code(), ended.output.as_str()), (Some(3), "result\n"));
        assert!(ended.failed().to_string().contains("one; port 42"));
    }

    #[test]
    fn first_and_last_lines_are_kept_of_a_child_that_says_much() {
        let mut child = shell("i=0; while [ $i -lt 1000 ]; do echo line $i >&2; i=$((i+1)); done");
        let ended = loop {
            match child.poll().unwrap() {
                Some(ended) => break ended,
                None => std::thread::yield_now(),
            }
        };
        assert_eq!(ended.lines.len(), KEPT);
        assert_eq!(
            (ended.lines[0].as_str(), ended.lines[KEPT - 1].as_str()),
            ("line 0", "line 999")
        );
        assert!(ended.said.ends_with("line 998; line 999"), "{}", ended.said);
    }

    #[test]
    fn a_child_that_ends_or_hangs_instead_of_getting_ready_is_named() {
        let e = shell("echo no >&2; exit 7").wait_for_line(LIMIT, &|| false, |_| None::<()>);
        let e = e.unwrap_err().to_string();
        assert!(e.contains("sh: ended with exit status: 7: no"), "{e}");
        let mut hangs = shell("exec sleep 100");
        let e = hangs.wait_until(Duration::ZERO, &|| false, || false).unwrap_err();
        assert!(matches!(&e, TrialError::NotReady { .. }), "{e}");
        assert!(hangs.end(Duration::ZERO, &|| false).unwrap().is_none());
        assert!(matches!(hangs.end(LIMIT, &|| true), Err(TrialError::Interrupted)));
        let e = Running::start("x", Command::new("no-such-program-here")).unwrap_err();
        assert!(e.to_string().contains("x: cannot be started"), "{e}");
    }
}
