//! A program under measurement: started, awaited by what it prints, interrupted or killed, and read to its
//! end beside the measurement, so that it never waits for us. The children of `lab`, of `cargo xtask prove` and of the scenarios
//! run under this supervisor.
//!
//! Refuses: programs that cannot be started, hang, or fail. A child is killed when dropped. Uses std alone, so that `xtask` stays
//! ready in seconds.
#![forbid(unsafe_code)]

use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Environment variable that tells a child to end when its standard input does.
pub const LEASH: &str = "FULLCOUNT_LEASH";
/// Between two looks at a child.
const LOOK: Duration = Duration::from_millis(5);
/// Lines of standard error that are kept: the first ones, which say how a socket was opened, and the last ones.
const KEPT: usize = 128;
/// The reader of standard error ends with the pipe; a grandchild may keep that open for so long.
const REST: Duration = Duration::from_secs(1);

/// Why a child left no result.
#[derive(Debug)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum ChildError {
    /// The program did not start.
    Start { program: String, cause: std::io::Error },
    /// It did not get ready.
    NotReady { program: String, seconds: u64, said: String },
    /// It failed.
    Failed { program: String, status: String, said: String },
    /// It did not end.
    Stuck { program: String, seconds: u64 },
    /// Somebody asked to stop.
    Interrupted,
}

impl fmt::Display for ChildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start { program, cause } => write!(f, "{program}: cannot be started: {cause}"),
            Self::NotReady { program, seconds, said } => {
                write!(f, "{program}: not ready after {seconds} s: {said}")
            }
            Self::Failed { program, status, said } => {
                write!(f, "{program}: ended with {status}: {said}")
            }
            Self::Stuck { program, seconds } => {
                write!(f, "{program}: still running {seconds} s after it should have ended; killed")
            }
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for ChildError {}

/// True once somebody asks to stop.
pub type Asked<'a> = &'a dyn Fn() -> bool;

/// A running child.
#[derive(Debug)]
pub struct RunningChild {
    program: String,
    child: Child,
    /// Our own children end when this is closed, also if this process is killed.
    _leash: Option<std::process::ChildStdin>,
    output: Option<JoinHandle<String>>,
    errors: Receiver<String>,
    said: Vec<String>,
    /// Lines of standard error that are kept.
    kept: usize,
    panicked: Option<String>,
}

/// How a child ended.
#[derive(Debug)]
pub struct ChildEnd {
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
    /// The first line that says `panicked`.
    pub panicked: Option<String>,
}

impl ChildEnd {
    /// The same as an error.
    pub fn failed(self) -> ChildError {
        let said = match self.said.is_empty() {
            true => last(&self.output.lines().map(str::to_owned).collect::<Vec<_>>()),
            false => self.said,
        };
        ChildError::Failed { program: self.program, status: self.status.to_string(), said }
    }
}

fn last(lines: &[String]) -> String {
    lines[lines.len().saturating_sub(4)..].join("; ")
}

impl RunningChild {
    /// Starts `command`; `program` is its name in messages.
    ///
    /// # Errors
    /// [`ChildError::Start`].
    pub fn start(program: &str, mut command: Command) -> Result<RunningChild, ChildError> {
        command
            .env(LEASH, "stdin")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|cause| ChildError::Start { program: program.to_owned(), cause })?;
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
        Ok(RunningChild {
            program: program.to_owned(),
            child,
            _leash: leash,
            output,
            errors,
            said: Vec::new(),
            kept: KEPT,
            panicked: None,
        })
    }

    /// Keeps every line that it says on standard error, for a test that reads them all.
    #[must_use]
    pub fn keeping_all(mut self) -> RunningChild {
        self.kept = usize::MAX;
        self
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
    ) -> Result<T, ChildError> {
        let begun = Instant::now();
        loop {
            if stop() {
                return Err(ChildError::Interrupted);
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
    ) -> Result<(), ChildError> {
        let begun = Instant::now();
        loop {
            if stop() {
                return Err(ChildError::Interrupted);
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

    fn not_ready(&mut self, limit: Duration) -> ChildError {
        let (program, seconds) = (self.program.clone(), limit.as_secs());
        self.hear_all(Duration::ZERO);
        ChildError::NotReady { program, seconds, said: last(&self.said) }
    }

    fn ended_early(&mut self) -> ChildError {
        match self.end(Duration::from_secs(5), &|| false) {
            Ok(Some(ended)) => ended.failed(),
            Ok(None) => ChildError::Stuck { program: self.program.clone(), seconds: 5 },
            Err(e) => e,
        }
    }

    fn status(&mut self, limit: Duration) -> Result<Option<ExitStatus>, ChildError> {
        let begun = Instant::now();
        loop {
            let status = self.child.try_wait().map_err(|cause| ChildError::Failed {
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
    pub fn ended(&mut self, limit: Duration) -> Result<bool, ChildError> {
        Ok(self.status(limit)?.is_some())
    }

    /// Waits for its end; `None` if it still runs after `limit`.
    ///
    /// # Errors
    /// Asked to stop: the child is killed.
    pub fn end(
        &mut self,
        limit: Duration,
        stop: Asked<'_>,
    ) -> Result<Option<ChildEnd>, ChildError> {
        let begun = Instant::now();
        while begun.elapsed() < limit {
            if let Some(status) = self.status(LOOK)? {
                return Ok(Some(self.result(status)));
            }
            if stop() {
                self.kill();
                return Err(ChildError::Interrupted);
            }
        }
        Ok(None)
    }

    /// Its result, if it has ended.
    ///
    /// # Errors
    /// The system does not know the child.
    pub fn poll(&mut self) -> Result<Option<ChildEnd>, ChildError> {
        // So that a long run's lines do not pile up.
        self.hear_all(Duration::ZERO);
        Ok(self.status(Duration::ZERO)?.map(|status| self.result(status)))
    }

    fn result(&mut self, status: ExitStatus) -> ChildEnd {
        let output = self.output.take().and_then(|t| t.join().ok()).unwrap_or_default();
        self.hear_all(REST);
        let lines = std::mem::take(&mut self.said);
        let panicked = self.panicked.take();
        ChildEnd {
            program: self.program.clone(),
            status,
            output,
            said: last(&lines),
            lines,
            panicked,
        }
    }

    fn hear(&mut self, line: String) {
        if self.panicked.is_none() && line.contains("panicked") {
            self.panicked = Some(line.clone());
        }
        if self.said.len() >= self.kept {
            self.said.remove(self.kept / 2);
        }
        self.said.push(line);
    }

    /// Everything that it has said, until it says nothing for `pause`.
    fn hear_all(&mut self, pause: Duration) {
        while let Ok(line) = self.errors.recv_timeout(pause) {
            self.hear(line);
        }
    }

    /// What it has said on standard error, as far as somebody waited for a line.
    pub fn said(&self) -> &[String] {
        &self.said
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
    pub fn stuck(&mut self, waited: Duration) -> ChildError {
        self.kill();
        ChildError::Stuck { program: self.program.clone(), seconds: waited.as_secs() }
    }

    /// SIGKILL; returns when it is gone.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for RunningChild {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn shell(text: &str) -> RunningChild {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        RunningChild::start("sh", command).unwrap()
    }

    #[test]
    fn lines_output_and_status_come_back() {
        let mut child = shell("echo one >&2; echo port 42 >&2; echo result; exit 3");
        let port =
            child.wait_for_line(LIMIT, &|| false, |l| l.strip_prefix("port ")?.parse::<u16>().ok());
        assert_eq!(port.unwrap(), 42);
        let ended = child.end(LIMIT, &|| false).unwrap().unwrap();
        assert_eq!((ended.status.code(), ended.output.as_str()), (Some(3), "result\n"));
        assert_eq!(ended.panicked, None);
        assert!(ended.failed().to_string().contains("one; port 42"));
    }

    #[test]
    fn first_and_last_lines_are_kept_of_a_child_that_says_much() {
        let mut child = shell(
            "i=0; while [ $i -lt 1000 ]; do echo line $i >&2; [ $i = 500 ] && echo panicked >&2; i=$((i+1)); done",
        );
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
        assert_eq!(ended.panicked.as_deref(), Some("panicked"));
    }

    #[test]
    fn a_child_that_ends_or_hangs_instead_of_getting_ready_is_named() {
        let e = shell("echo no >&2; exit 7").wait_for_line(LIMIT, &|| false, |_| None::<()>);
        let e = e.unwrap_err().to_string();
        assert!(e.contains("sh: ended with exit status: 7: no"), "{e}");
        let mut hangs = shell("exec sleep 100");
        let e = hangs.wait_until(Duration::ZERO, &|| false, || false).unwrap_err();
        assert!(matches!(&e, ChildError::NotReady { .. }), "{e}");
        assert!(hangs.end(Duration::ZERO, &|| false).unwrap().is_none());
        assert!(matches!(hangs.end(LIMIT, &|| true), Err(ChildError::Interrupted)));
        let e = RunningChild::start("x", Command::new("no-such-program-here")).unwrap_err();
        assert!(e.to_string().contains("x: cannot be started"), "{e}");
    }
}
