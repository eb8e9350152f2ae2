//! One thread that serves all clients of the control port, at a low priority.
//!
//! Bounded: 256 clients, the one that is idle longest goes for a newcomer; one receive and one reply of memory each; 200
//! commands in 100 ms of a client, then it waits; a client that takes no reply for 30 s is hung up on. Nothing here is felt by
//! the data path: counters are read as the page reads them. Source: `docs/operations.md`.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fullcount_core::command::session::LARGEST;
use fullcount_core::command::{ClientTrust, Desk, Session};
use fullcount_core::output::{OutputOpenError, Serving};
use fullcount_core::refusal::Refusal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::ControlConfig;

/// Clients at a time.
pub const CLIENTS: usize = 256;
/// Commands of one client in one window.
const COMMANDS: u64 = 200;
/// Length of a window.
const WINDOW: Duration = Duration::from_millis(100);
/// Longest wait for a client that takes no reply.
const STUCK: Duration = Duration::from_secs(30);
/// Longest wait for anything: those who take no reply are looked for so often.
const LOOK: Duration = Duration::from_secs(1);
/// Connections taken in one round.
const NEWCOMERS: usize = 16;

/// What is served, and to whom.
pub struct Served {
    pub listener: TcpListener,
    pub desk: Arc<Desk>,
}

/// The thread; ends when it is dropped.
pub struct Server {
    address: SocketAddr,
    trust: ClientTrust,
    wake: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts it.
    ///
    /// # Errors
    /// The system refuses a thread or a pair of sockets.
    pub fn start(served: Served, address: SocketAddr) -> io::Result<Server> {
        let (wake, woken) = UnixStream::pair()?;
        let trust = served.desk.trust.clone();
        let body = move || {
            // Not fatal: it is as good with the usual priority.
            let _ = fullcount_io::sys::be_nice();
            Round::new(served, woken).run();
        };
        let thread = std::thread::Builder::new().name("control".into()).spawn(body)?;
        Ok(Server { address, trust, wake: Some(wake), thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The other end becomes readable.
        drop(self.wake.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Serving for Server {
    /// None that shows the run: that is the page's.
    fn address(&self) -> Option<SocketAddr> {
        None
    }

    fn fact(&self) -> String {
        format!("commands at {}", self.address)
    }

    fn reads_again(&self) -> Option<&'static str> {
        Some("control.allow")
    }

    fn check_again(&self, section: &str) -> Result<(), Refusal> {
        control(section)?.networks().map(drop)
    }

    fn read_again(&self, section: &str) -> Result<(), OutputOpenError> {
        let networks = control(section).and_then(|section| section.networks());
        self.trust.allow(networks.map_err(|e| OutputOpenError(e.to_string()))?);
        Ok(())
    }
}

/// Reads `[control]` again.
fn control(section: &str) -> Result<ControlConfig, Refusal> {
    fullcount_io::section::read("control", section)
}

/// One client.
struct Client {
    stream: TcpStream,
    session: Session,
    /// When it last sent or took something.
    last: Instant,
    /// Answered before this window.
    before: u64,
    gone: bool,
}

impl Client {
    fn waits(&self) -> PollFlags {
        if self.is_paused() {
            PollFlags::empty()
        } else if self.session.output().is_empty() {
            PollFlags::IN
        } else {
            PollFlags::OUT
        }
    }

    fn is_paused(&self) -> bool {
        self.session.answered() - self.before >= COMMANDS
    }

    /// One receive is one command.
    fn receive(&mut self, buffer: &mut [u8], desk: &Desk, now: Instant) {
        match self.stream.read(buffer) {
            Ok(0) => self.gone = true,
            Ok(n) => {
                self.last = now;
                self.session.receive(&buffer[..n], desk);
                self.send(desk, now);
            }
            Err(e) if passes(&e) => {}
            Err(_) => self.gone = true,
        }
    }

    /// Sends as much as it takes now, in one call, so that nobody waits for it.
    fn send(&mut self, desk: &Desk, now: Instant) {
        match self.stream.write(self.session.output()) {
            Ok(n) => {
                self.last = now;
                self.session.sent(n, desk);
            }
            Err(e) if passes(&e) => {}
            Err(_) => self.gone = true,
        }
        self.gone |= self.session.is_over();
    }
}

fn passes(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// What happens again and again.
struct Round {
    served: Served,
    woken: UnixStream,
    clients: Vec<Client>,
    window: Instant,
    /// The system had no more connections: not asked again at once.
    full: bool,
    buffer: Vec<u8>,
}

impl Round {
    fn new(served: Served, woken: UnixStream) -> Round {
        let now = Instant::now();
        let (clients, buffer) = (Vec::new(), vec![0; LARGEST + 1]);
        Round { served, woken, clients, window: now, full: false, buffer }
    }

    fn run(&mut self) {
        while let Some(ready) = self.wait() {
            let now = Instant::now();
            self.time(now);
            // The last in the list is the listener; a client that comes now was not asked about.
            let (listener, clients) = ready.split_last().expect("at least the listener");
            for (client, ready) in self.clients.iter_mut().zip(clients) {
                if ready.contains(PollFlags::OUT) {
                    client.send(&self.served.desk, now);
                } else if ready.contains(PollFlags::IN) && client.session.wants_input() {
                    client.receive(&mut self.buffer, &self.served.desk, now);
                } else if ready.intersects(PollFlags::HUP | PollFlags::ERR) {
                    client.gone = true;
                }
            }
            let stuck = |c: &Client| !c.session.output().is_empty() && now - c.last > STUCK;
            self.clients.retain(|client| !client.gone && !stuck(client));
            if listener.contains(PollFlags::IN) {
                self.accept(now);
            }
        }
    }

    /// Waits for something; what is ready, client by client and the listener last. `None`: it is over.
    fn wait(&mut self) -> Option<Vec<PollFlags>> {
        let now = Instant::now();
        let paused = self.full || self.clients.iter().any(Client::is_paused);
        let until = if paused { self.window + WINDOW } else { now + LOOK };
        let left = until.saturating_duration_since(now);
        let time = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let mut all: Vec<PollFd<'_>> = Vec::with_capacity(self.clients.len() + 2);
        all.push(PollFd::new(&self.woken, PollFlags::IN));
        all.extend(self.clients.iter().map(|client| PollFd::new(&client.stream, client.waits())));
        let listens = if self.full { PollFlags::empty() } else { PollFlags::IN };
        all.push(PollFd::new(&self.served.listener, listens));
        // Interrupted: as if nothing was ready.
        let _ = poll(&mut all, Some(&time));
        let ready: Vec<PollFlags> = all.iter().map(PollFd::revents).collect();
        let (first, rest) = ready.split_first()?;
        first.is_empty().then(|| rest.to_vec())
    }

    /// What is done once a window.
    fn time(&mut self, now: Instant) {
        if now - self.window >= WINDOW {
            self.window = now;
            self.full = false;
            self.clients.iter_mut().for_each(|client| client.before = client.session.answered());
        }
    }

    fn accept(&mut self, now: Instant) {
        for _ in 0..NEWCOMERS {
            let (stream, from) = match self.served.listener.accept() {
                Ok(came) => came,
                Err(e) => {
                    self.full = !passes(&e);
                    return;
                }
            };
            let Some(access) = self.served.desk.trust.of(from.ip()) else { continue };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            // Replies are small, and somebody waits for each.
            let _ = stream.set_nodelay(true);
            if self.clients.len() >= CLIENTS {
                // Who may do nothing goes first: strangers must not push out scripts.
                let rank = |client: &Client| (client.session.access(), client.last);
                let oldest = self.clients.iter().enumerate().min_by_key(|(_, c)| rank(c));
                if let Some(at) = oldest.map(|(at, _)| at) {
                    self.clients.swap_remove(at);
                }
            }
            let session = Session::new(access).of_client(from);
            self.clients.push(Client { stream, session, last: now, before: 0, gone: false });
        }
    }
}
