//! `fullcount lab agent`: carries out a campaign's orders on this host.
//!
//! It serves one campaign at a time, for as long as it is told to. A campaign that falls silent or goes away has its
//! child killed, and the next one is served. It runs nothing but `fullcount receive` and `fullcount send` with
//! checked options. Refuses: a token file that is missing, too short or open to others, a busy port, a wrong token,
//! a second campaign at once.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use super::message::{self, AgentAnswer, AgentRequest};
use super::post::{self, LocalPost, LocalWork};
use super::strangers::{self, PeerLine, Strangers};
use super::{ChildWork, PostError};

/// Shortest token, bytes: 16 random characters are not guessed.
pub const TOKEN_MIN: usize = 16;
/// Longest one, bytes.
const TOKEN_MAX: usize = 1024;
/// Largest token file, bytes: the token, and blanks around it.
const FILE_MAX: u64 = 4096;
/// A campaign asks several times a second; silent for this long, it is gone.
const SILENCE: Duration = Duration::from_secs(30);
/// Longest time without a look at whether to stop.
const LOOK: Duration = Duration::from_millis(100);

/// Why an agent does not start.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum AgentError {
    #[error(
        "--token-file {path}: {problem}; make one with: (umask 077; head -c 24 /dev/urandom | base64 > {path}), and copy it to the other host"
    )]
    Token { path: String, problem: String },
    /// Others may read the token, so it may be known already, or change it.
    #[error(
        "--token-file {path}: other users of this host may read or change it (mode {mode:03o}); if nobody has: chmod 600 {path}"
    )]
    Open { path: String, mode: u32 },
    #[error(
        "--listen {address}: {cause}; choose another port, or stop the program that has it (ss -tlpn)"
    )]
    Listen { address: SocketAddr, cause: io::Error },
}

/// Reads a token: the file's text without blanks at its ends, 16 to 1024 bytes. Only its owner may read it.
///
/// # Errors
/// The file cannot be read, is none, is open to others, or holds too little or too much.
pub fn token(path: &Path) -> Result<String, AgentError> {
    let shown = path.display().to_string();
    let refuse = |problem: String| AgentError::Token { path: shown.clone(), problem };
    let system = |e: io::Error| refuse(e.to_string());
    let check = |file: &Metadata| {
        let mode = file.permissions().mode() & 0o777;
        match file.is_file() {
            false => Err(refuse("not a regular file".to_owned())),
            true if mode & 0o077 != 0 => Err(AgentError::Open { path: shown.clone(), mode }),
            true => Ok(()),
        }
    };
    // Before it is opened, as opening a FIFO would wait; and what was opened, as a name may change its file.
    check(&fs::metadata(path).map_err(system)?)?;
    let file = File::open(path).map_err(system)?;
    check(&file.metadata().map_err(system)?)?;
    let mut text = String::new();
    file.take(FILE_MAX + 1).read_to_string(&mut text).map_err(system)?;
    if text.len() as u64 > FILE_MAX {
        return Err(refuse(format!("the file has more than {FILE_MAX} bytes")));
    }
    let token = text.trim().to_owned();
    match token.len() {
        n if n < TOKEN_MIN => {
            Err(refuse(format!("the token has {n} bytes, less than {TOKEN_MIN}")))
        }
        n if n > TOKEN_MAX => {
            Err(refuse(format!("the token has {n} bytes, more than {TOKEN_MAX}")))
        }
        _ => Ok(token),
    }
}

/// An agent that listens.
pub struct Agent {
    listener: TcpListener,
    token: String,
    program: PathBuf,
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
        Ok(Agent { listener, token, program })
    }

    /// Address that it listens on.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves campaigns until `stop` says so; `tell` hears who came and went. Only a campaign has a thread:
    /// strangers wait in a table ([`Strangers`]).
    pub fn serve(&self, stop: &(dyn Fn() -> bool + Sync), tell: &(dyn Fn(&str) + Sync)) {
        let mut strangers = Strangers::new(self.token.clone());
        std::thread::scope(|scope| {
            let mut campaign: Option<ScopedJoinHandle<'_, ()>> = None;
            while !stop() {
                let came = self.accept(&mut strangers, tell);
                if campaign.as_ref().is_some_and(ScopedJoinHandle::is_finished)
                    && campaign.take().is_some_and(|ended| ended.join().is_err())
                {
                    tell("a campaign ended in a fault of this program: the next one is served");
                }
                for (line, from) in strangers.look(Instant::now(), tell) {
                    if campaign.is_some() {
                        let reason = "another campaign is measuring here: wait until it ends";
                        tell(&format!("{from}: refused: {reason}"));
                        let answer = AgentAnswer::Refused { reason: reason.to_owned() };
                        let _gone = message::write(&mut line.from.get_ref(), &answer);
                        continue;
                    }
                    tell(&format!("{from}: connected"));
                    let work = move || {
                        let end = self.converse(line, stop);
                        tell(&format!("{from}: {}", end.unwrap_or_else(|e| e.to_string())));
                    };
                    match std::thread::Builder::new()
                        .name("campaign".into())
                        .spawn_scoped(scope, work)
                    {
                        Ok(thread) => campaign = Some(thread),
                        // Its connection is closed: the campaign says so and may come again.
                        Err(e) => tell(&format!("{from}: no thread for it: {e}")),
                    }
                }
                if !came {
                    std::thread::sleep(LOOK / 4);
                }
            }
            if campaign.is_some_and(|ended| ended.join().is_err()) {
                tell("a campaign ended in a fault of this program");
            }
        });
    }

    /// Lets in who waits at the door; false if nobody did.
    fn accept(&self, strangers: &mut Strangers, tell: &dyn Fn(&str)) -> bool {
        // At most a table full, so that those inside are heard between.
        for n in 0..strangers::MOST {
            match self.listener.accept() {
                Ok((stream, from)) => {
                    // One that is gone already needs nothing.
                    let _gone = strangers.admit(stream, from, Instant::now(), tell);
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return n > 0,
                // A stranger who hung up while waiting; nothing else passes here for long.
                Err(e) => {
                    strangers.tell(Instant::now(), tell, &format!("accepting a connection: {e}"));
                    std::thread::sleep(LOOK);
                    return n > 0;
                }
            }
        }
        true
    }

    /// One conversation with a campaign that has said the token; how it ended.
    fn converse(&self, mut line: PeerLine, stop: &(dyn Fn() -> bool + Sync)) -> io::Result<String> {
        let stream = line.from.get_ref();
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(LOOK))?;
        stream.set_write_timeout(Some(SILENCE))?;
        let mut out = stream.try_clone()?;
        self.work(&mut line, &mut out, stop)
    }

    fn work(
        &self,
        line: &mut PeerLine,
        out: &mut TcpStream,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> io::Result<String> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let host = crate::record::host::snapshot(Path::new("/"));
        message::write(out, &AgentAnswer::Welcome { version, host, buffers: post::buffers() })?;
        let own = LocalPost::loopback(self.program.clone());
        // Killed when this function returns, however it does.
        let mut child: Option<LocalWork> = None;
        let mut done = 0u64;
        while let Some(request) = line.next(stop)? {
            let answer = match (request, &mut child) {
                (AgentRequest::Start { order }, None) => match own.begin(&order) {
                    Ok(work) => {
                        let port = work.port();
                        child = Some(work);
                        AgentAnswer::Started { port }
                    }
                    Err(e) => AgentAnswer::Failed { reason: e.to_string() },
                },
                (AgentRequest::Sample { sampling }, Some(work)) => {
                    done_or_failed(work.sample(sampling))
                }
                (AgentRequest::Interrupt, Some(work)) => done_or_failed(work.interrupt()),
                (AgentRequest::Poll, Some(work)) => match work.poll() {
                    Ok(None) => AgentAnswer::Running,
                    Ok(Some(report)) => {
                        child = None;
                        done += 1;
                        AgentAnswer::Ended { report }
                    }
                    Err(e) => {
                        child = None;
                        AgentAnswer::Failed { reason: e.to_string() }
                    }
                },
                (AgentRequest::Drop, _) => {
                    child = None;
                    AgentAnswer::Done
                }
                (AgentRequest::Start { .. }, Some(_)) => refuse("a child runs already"),
                (AgentRequest::Hello { .. }, _) => refuse("greeted already"),
                (_, None) => refuse("no child runs"),
            };
            message::write(out, &answer)?;
        }
        Ok(format!("campaign ended, {done} orders carried out"))
    }
}

fn refuse(reason: &str) -> AgentAnswer {
    AgentAnswer::Failed { reason: reason.to_owned() }
}

fn done_or_failed(outcome: Result<(), PostError>) -> AgentAnswer {
    match outcome {
        Ok(()) => AgentAnswer::Done,
        Err(e) => AgentAnswer::Failed { reason: e.to_string() },
    }
}

impl PeerLine {
    /// The next request; `None` at the end of the conversation, or when the agent is to stop.
    fn next(&mut self, stop: &(dyn Fn() -> bool + Sync)) -> io::Result<Option<AgentRequest>> {
        let begun = Instant::now();
        loop {
            match message::read(&mut self.from, &mut self.kept, message::LONGEST) {
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                other => return other,
            }
            if stop() {
                return Ok(None);
            }
            if begun.elapsed() >= SILENCE {
                let text =
                    format!("silent for {} s: given up, its child killed", SILENCE.as_secs());
                return Err(io::Error::new(ErrorKind::TimedOut, text));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_long_enough_and_their_files_nobody_elses() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let told = |path: &Path| token(path).unwrap_err().to_string();
        assert!(told(&path).contains("umask 077; head -c 24"), "no such file");
        let write = |text: &str, mode| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        write("short\n", 0o600);
        assert!(told(&path).contains("5 bytes, less than 16"));
        write(&"x".repeat(1025), 0o600);
        assert!(told(&path).contains("1025 bytes, more than 1024"));
        write(&" ".repeat(5000), 0o600);
        assert!(told(&path).contains("more than 4096 bytes"));
        write("0123456789abcdef\n", 0o400);
        assert_eq!(token(&path).unwrap(), "0123456789abcdef");
        for mode in [0o644, 0o640, 0o604, 0o660, 0o601] {
            write("0123456789abcdef\n", mode);
            let chmod = format!("chmod 600 {}", path.display());
            let said = told(&path);
            assert!(said.contains(&format!("(mode {mode:o})")) && said.contains(&chmod), "{said}");
        }
        assert!(told(dir.path()).contains("not a regular file"));
        assert!(told(Path::new("/dev/zero")).contains("not a regular file"));
    }

    #[test]
    fn strangers_and_a_failed_campaign_do_not_end_the_agent() {
        use super::message::SCHEMA;
        use std::io::{BufRead, BufReader, Write};
        use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
        let token = "0123456789abcdef";
        let agent =
            Agent::open("127.0.0.1:0".parse().unwrap(), token.into(), "true".into()).unwrap();
        let at = agent.address().unwrap();
        let stop = AtomicBool::new(false);
        let threads = || fs::read_dir("/proc/self/task").unwrap().count();
        std::thread::scope(|scope| {
            scope.spawn(|| agent.serve(&|| stop.load(Relaxed), &|_| ()));
            let before = threads();
            let many: Vec<TcpStream> = (0..500)
                .map(|_| {
                    let mut stranger = TcpStream::connect(at).unwrap();
                    let _hung_up = stranger.write_all(b"{");
                    stranger
                })
                .collect();
            // Other tests of this binary have threads too, but not hundreds.
            assert!(threads() < before + 100, "{} threads", threads());
            let mut campaign = TcpStream::connect(at).unwrap();
            let hello = AgentRequest::Hello { schema: SCHEMA.into(), token: token.into() };
            message::write(&mut campaign, &hello).unwrap();
            let mut said = String::new();
            BufReader::new(&campaign).read_line(&mut said).unwrap();
            assert!(said.contains("welcome"), "{said}");
            drop((many, campaign));
            stop.store(true, Relaxed);
        });
    }
}
