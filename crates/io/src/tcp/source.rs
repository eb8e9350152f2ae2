//! Many streams as one source: whoever has bytes and credit is read in turn, a read a batch.
//!
//! The kernel tells once that a stream has something; from then on it is in the queue until a read finds nothing more. Streams
//! without credit leave the queue and come back with credit. Hang-ups are known before the first byte of a connection that was
//! made later, since both come in order: so a sender that was killed and started again is no second one.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::{Sheet, Tally};
use fullcount_core::source::{FrameFault, FrameRule, StreamTable};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use super::memory::Memory;
use super::news::News;
use super::stream::{Connection, Got, Reading, Standing, StreamEnd};
use super::{TcpCounter, TcpUrl};
use crate::quantity::size_text;
use crate::source::{Received, Source, SourceError};
use crate::sys::{SocketNews, SocketSet, allow_open_files};
use crate::wall::wall_ns;

/// Sockets that one question to the kernel tells of at most.
const NEWS: usize = 256;
/// Reads between two such questions while the queue is full: new streams and hang-ups wait that long.
const READS: u32 = 32;
/// Between two looks at silence, memory and counters that are times.
const SWEEP: Duration = Duration::from_millis(250);
/// Longest wait while streams are without credit: whoever gives it does not wake this thread.
const PAUSED_WAIT: Duration = Duration::from_millis(1);
/// Connections that may wait to be accepted: those of a whole experiment come at once.
const BACKLOG: i32 = 1024;
/// Open files of this process beside the streams': outputs, the page's connections. The limit is 1024 where nothing is set.
const OTHER_FILES: usize = 512;
/// First and longest pause between two attempts to connect.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// Number of the listening socket, and of the one that is being connected, among the sockets.
const LISTENER: u64 = u64::MAX;
const OUTGOING: u64 = u64::MAX - 1;

/// Why a source could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum TcpOpenError {
    /// The name has no address.
    #[error("{endpoint}: the address was not found: {cause}")]
    Resolve { endpoint: String, cause: std::io::Error },
    /// Another program has the port.
    #[error(
        "{endpoint}: port {port} is in use; stop the other program (ss -tlpn 'sport = {port}' names it) or choose another port"
    )]
    PortInUse { endpoint: String, port: u16 },
    /// The system's words.
    #[error("{endpoint}: {doing}: {cause}")]
    System { endpoint: String, doing: &'static str, cause: std::io::Error },
}

/// The connection that this source makes itself.
#[derive(Debug)]
struct Outgoing {
    to: SocketAddr,
    /// Under way.
    trying: Option<Socket>,
    /// When to try again, and how long to wait after the next failure.
    again: Instant,
    pause: Duration,
    made: bool,
}

/// The source.
pub struct TcpSource {
    url: TcpUrl,
    reading: Reading,
    listener: Option<TcpListener>,
    outgoing: Option<Outgoing>,
    local: Option<SocketAddr>,
    sockets: SocketSet,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    /// Those with something to read.
    queue: VecDeque<usize>,
    /// Those without credit.
    paused: Vec<usize>,
    table: Arc<StreamTable>,
    memory: Memory,
    news: News,
    next_number: u32,
    open: usize,
    reads: u32,
    swept: Instant,
    sheet: Arc<Sheet>,
    tally: Tally<{ TcpCounter::LINES }>,
    paused_time: Duration,
}

impl TcpSource {
    /// Opens it; `rule`: how streams are cut.
    ///
    /// # Errors
    /// Address or port cannot be used.
    pub fn open(url: &TcpUrl, rule: FrameRule) -> Result<TcpSource, TcpOpenError> {
        let endpoint = || url.to_string();
        let system =
            |doing| move |cause| TcpOpenError::System { endpoint: url.to_string(), doing, cause };
        let addr =
            url.resolve().map_err(|cause| TcpOpenError::Resolve { endpoint: endpoint(), cause })?;
        let sockets =
            SocketSet::new(NEWS).map_err(system("ask the kernel for a set of sockets"))?;
        // As far as the hard limit goes; what is missing then is told when a stream cannot be accepted.
        let _ = allow_open_files((url.max_streams + OTHER_FILES) as u64);
        let now = Instant::now();
        let (mut listener, mut outgoing, mut local) = (None, None, None);
        if url.connect {
            let (again, pause) = (now, RETRY.0);
            outgoing = Some(Outgoing { to: addr, trying: None, again, pause, made: false });
        } else {
            let made = listen(addr, url).map_err(|cause| match cause.kind() {
                ErrorKind::AddrInUse => {
                    TcpOpenError::PortInUse { endpoint: endpoint(), port: addr.port() }
                }
                _ => TcpOpenError::System { endpoint: endpoint(), doing: "listen", cause },
            })?;
            local = Some(made.local_addr().map_err(system("read the local address"))?);
            sockets.add(made.as_fd(), LISTENER, false).map_err(system("watch the socket"))?;
            listener = Some(made);
        }
        let most = url.frame_max.min(rule.most.unwrap_or(usize::MAX));
        let mut reading = Reading { rule, most, read: url.read.next_power_of_two(), share: 0 };
        reading.shared_by(0);
        Ok(TcpSource {
            url: url.clone(),
            reading,
            listener,
            outgoing,
            local,
            sockets,
            connections: Vec::new(),
            free: Vec::new(),
            queue: VecDeque::new(),
            paused: Vec::new(),
            table: Arc::default(),
            memory: Memory::default(),
            news: News::new(),
            next_number: 1,
            open: 0,
            reads: 0,
            swept: now,
            sheet: Sheet::new(TcpCounter::catalogue()),
            tally: Tally::default(),
            paused_time: Duration::ZERO,
        })
    }

    /// Where it listens.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.local
    }

    #[inline]
    fn add(&mut self, line: TcpCounter, n: u64) {
        self.tally.add(line, n);
    }

    fn set(&self, line: TcpCounter, n: u64) {
        self.sheet.set(line as usize, n);
    }

    /// Asks the kernel what is new.
    fn ask(&mut self, wait: Duration) -> Result<(), SourceError> {
        self.reads = 0;
        let TcpSource { sockets, connections, queue, .. } = self;
        let (mut knocks, mut connected) = (false, false);
        let tell = |number: u64, news: SocketNews| match number {
            LISTENER => knocks = true,
            OUTGOING => connected = true,
            number => {
                let at = number as usize;
                let Some(Some(connection)) = connections.get_mut(at) else { return };
                connection.drained &= !news.readable;
                if news.hung_up {
                    connection.hung_up = true;
                    connection.credit.hung_up();
                }
                if connection.standing == Standing::Quiet && news.readable {
                    connection.standing = Standing::Queued;
                    queue.push_back(at);
                }
            }
        };
        sockets.wait(wait, tell).map_err(|e| self.failed("wait for sockets", &e))?;
        if connected {
            self.reached();
        }
        if knocks {
            self.accept();
        }
        Ok(())
    }

    fn failed(&self, what: &str, cause: &std::io::Error) -> SourceError {
        let (endpoint, what) = (self.url.to_string(), what.to_owned());
        SourceError { endpoint, what, cause: cause.to_string() }
    }

    /// Takes all connections that wait. They are read after the next question to the kernel.
    fn accept(&mut self) {
        loop {
            let Some(listener) = &self.listener else { return };
            match listener.accept() {
                Ok((socket, from)) => self.begin(socket, from),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e)
                    if matches!(
                        e.kind(),
                        ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                    ) => {}
                Err(e) => {
                    // Too many open files: it is tried again at the next sweep.
                    let url = self.url.to_string();
                    self.news.say(Instant::now(), format_args!("{url}: accept: {e}"));
                    return;
                }
            }
        }
    }

    fn begin(&mut self, socket: TcpStream, from: SocketAddr) {
        let now = Instant::now();
        if self.open >= self.url.max_streams {
            self.add(TcpCounter::Many, 1);
            let most = self.url.max_streams;
            self.news.say(
                now,
                format_args!("tcp: {from} refused: {most} streams are open (max_streams)"),
            );
            return;
        }
        if socket.set_nonblocking(true).is_err() {
            self.add(TcpCounter::Reset, 1);
            return;
        }
        let options = SockRef::from(&socket);
        // Not fatal: a dead peer is then found later, or not at all.
        let _ = keepalive(&options, self.url.keepalive);
        let at = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        if self.sockets.add(socket.as_fd(), at as u64, false).is_err() {
            self.free.push(at);
            self.add(TcpCounter::Reset, 1);
            return;
        }
        let credit = self.table.open(self.next_number, Origin::from(from));
        self.next_number += 1;
        self.open += 1;
        self.reading.shared_by(self.open);
        self.add(TcpCounter::Begun, 1);
        self.connections[at] = Some(Connection::new(socket, credit, now));
    }

    /// Begins to connect, if it is time.
    fn connect(&mut self, now: Instant) {
        let Some(outgoing) = &mut self.outgoing else { return };
        if self.open > 0 || outgoing.trying.is_some() || now < outgoing.again {
            return;
        }
        let to = outgoing.to;
        let begun = (|| {
            let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
            socket.set_nonblocking(true)?;
            self.url.receive_buffer.map_or(Ok(()), |n| socket.set_recv_buffer_size(n))?;
            match socket.connect(&to.into()) {
                Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => {}
                other => other?,
            }
            self.sockets.add(socket.as_fd(), OUTGOING, true)?;
            Ok::<_, std::io::Error>(socket)
        })();
        match begun {
            Ok(socket) => {
                outgoing.trying = Some(socket);
            }
            Err(e) => self.unreached(&e),
        }
    }

    /// The attempt to connect has an outcome.
    fn reached(&mut self) {
        let Some(socket) = self.outgoing.as_mut().and_then(|out| out.trying.take()) else { return };
        let outcome = match socket.take_error() {
            Ok(None) => socket.peer_addr(),
            Ok(Some(e)) | Err(e) => Err(e),
        };
        if let Err(e) = outcome {
            return self.unreached(&e);
        }
        let Some(outgoing) = &mut self.outgoing else { return };
        let again = std::mem::replace(&mut outgoing.made, true);
        outgoing.pause = RETRY.0;
        let to = outgoing.to;
        self.add(TcpCounter::Again, again.into());
        // Watched anew under its own number; what is still told of the old one finds nobody trying.
        match socket.try_clone() {
            Ok(own) => self.begin(own.into(), to),
            Err(e) => self.unreached(&e),
        }
    }

    fn unreached(&mut self, e: &std::io::Error) {
        let now = Instant::now();
        let Some(outgoing) = &mut self.outgoing else { return };
        outgoing.again = now + outgoing.pause;
        outgoing.pause = (2 * outgoing.pause).min(RETRY.1);
        let (to, pause) = (outgoing.to, outgoing.pause);
        self.add(TcpCounter::Unreached, 1);
        self.news.say(
            now,
            format_args!("tcp: cannot connect to {to}: {e}; tried again, at least every {pause:?}"),
        );
    }

    /// A stream is over.
    fn end(&mut self, at: usize, end: &StreamEnd) {
        let Some(connection) = self.connections[at].take() else { return };
        self.free.push(at);
        self.open -= 1;
        self.reading.shared_by(self.open);
        let (now, begun) = (Instant::now(), connection.begun());
        connection.credit.close(connection.handed);
        let (number, peer) = (connection.credit.number(), connection.origin);
        let (line, why) = match end {
            StreamEnd::Orderly => (TcpCounter::Ended, None),
            StreamEnd::Broken(e) => (TcpCounter::Reset, Some(format!("broke off: {e}"))),
            StreamEnd::Unwanted => {
                let why = connection.credit.refusal().unwrap_or("no reason given");
                (TcpCounter::Unwanted, Some(format!("closed: the detector refuses it: {why}")))
            }
            StreamEnd::Fault(FrameFault::Start) => {
                let rule = self.reading.rule.name;
                (TcpCounter::Start, Some(format!("closed: what came begins no packet ({rule})")))
            }
            StreamEnd::Fault(FrameFault::Long) => {
                let most = size_text(self.reading.most as u64);
                (TcpCounter::Long, Some(format!("closed: a packet would be longer than {most}")))
            }
        };
        self.add(line, 1);
        let received = connection.received;
        if let Some(why) = why {
            self.news.say(
                now,
                format_args!("tcp: stream {number} from {peer} {why}, after {received} B"),
            );
        }
        if begun > 0 && !matches!(end, StreamEnd::Unwanted | StreamEnd::Fault(_)) {
            self.add(TcpCounter::Cut, 1);
            self.news.say(now, format_args!("tcp: stream {number} from {peer} ended within a packet: {begun} B of it are lost"));
        }
        if let Some(outgoing) = &mut self.outgoing {
            outgoing.again = now + outgoing.pause;
        }
    }

    /// Streams that have got credit go back to the queue.
    fn resume(&mut self) {
        if self.paused.is_empty() {
            return;
        }
        let TcpSource { connections, paused, queue, paused_time, .. } = self;
        paused.retain(|&at| {
            let Some(connection) = &mut connections[at] else { return false };
            if !connection.has_credit() {
                return true;
            }
            if let Standing::Paused(since) = connection.standing {
                *paused_time += since.elapsed();
            }
            // Nobody heard it meanwhile.
            connection.heard = Instant::now();
            connection.standing = Standing::Queued;
            queue.push_back(at);
            false
        });
    }

    fn is_first(&self, at: usize) -> bool {
        self.connections[at].as_ref().is_none_or(Connection::is_first)
    }

    /// Place in the queue of the first one that an event waits for. Without one the kernel is asked before others are read further ahead.
    fn first(&self) -> Option<usize> {
        self.queue.iter().position(|&at| self.is_first(at))
    }

    /// Reads the next stream that has something: the one at this place of the queue, or else the first; true if the batch holds packets.
    fn next(&mut self, batch: &mut Batch, now: Instant, mut place: Option<usize>) -> bool {
        while let Some(at) = self.queue.remove(place.unwrap_or(0)) {
            let Some(connection) = &mut self.connections[at] else {
                place = self.first();
                continue;
            };
            if !connection.has_credit() {
                connection.standing = Standing::Paused(now);
                self.paused.push(at);
                self.add(TcpCounter::Pauses, 1);
                place = self.first();
                continue;
            }
            let before = connection.received;
            let got = connection.read(batch, &mut self.memory, &self.reading, wall_ns());
            let came = connection.received - before;
            if came > 0 {
                connection.heard = now;
            }
            if let Got::End(end) = &got {
                self.end(at, end);
            } else if connection.is_quiet() {
                connection.standing = Standing::Quiet;
            } else {
                self.queue.push_back(at);
            }
            self.reads += 1;
            self.add(TcpCounter::SystemCalls, 1);
            self.add(TcpCounter::Bytes, came);
            let Got::Data(report) = got else {
                place = self.first();
                continue;
            };
            self.add(TcpCounter::Packets, report.packets);
            self.add(TcpCounter::Accepted, report.packets);
            self.add(TcpCounter::Calls, 1);
            let largest = self.sheet.get(TcpCounter::Largest as usize).max(report.largest as u64);
            self.set(TcpCounter::Largest, largest);
            return true;
        }
        false
    }

    /// Looks at what only time shows.
    fn sweep(&mut self, now: Instant) {
        if now.saturating_duration_since(self.swept) < SWEEP {
            return;
        }
        self.swept = now;
        self.news.turn(now);
        self.accept();
        self.memory.sweep();
        let (stall, mut stalled, mut paused) = (self.url.stall, 0, self.paused_time);
        let mut named = Vec::new();
        for (at, connection) in self.connections.iter_mut().enumerate() {
            let Some(connection) = connection else { continue };
            if connection.standing == Standing::Quiet && connection.credit.is_refused() {
                connection.standing = Standing::Queued;
                self.queue.push_back(at);
            }
            if let Standing::Paused(since) = connection.standing {
                paused += now.saturating_duration_since(since);
                connection.heard = now;
            }
            let silence = now.saturating_duration_since(connection.heard);
            let is = !stall.is_zero() && silence >= stall;
            if is != connection.stalled {
                connection.stalled = is;
                named.push((connection.credit.number(), connection.origin, is));
            }
            stalled += u64::from(is);
        }
        for (number, peer, silent) in named {
            if silent {
                self.add(TcpCounter::Stalls, 1);
                self.news.say(
                    now,
                    format_args!("tcp: stream {number} from {peer} has been silent for {stall:?}"),
                );
            } else {
                self.news.say(now, format_args!("tcp: stream {number} from {peer} sends again"));
            }
        }
        self.set(TcpCounter::Stalled, stalled);
        self.set(TcpCounter::Paused, self.paused.len() as u64);
        self.set(TcpCounter::PausedTime, paused.as_millis() as u64);
        self.set(TcpCounter::Memory, self.memory.bytes() as u64);
    }

    fn publish(&mut self) {
        self.tally.flush(&self.sheet);
        self.set(TcpCounter::Streams, self.open as u64);
    }

    /// True if no more streams are awaited.
    fn is_over(&self) -> bool {
        self.url.until_closed && self.open == 0 && self.next_number > 1
    }
}

fn listen(addr: SocketAddr, url: &TcpUrl) -> std::io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    // A port whose last connections are still being closed is free; one that somebody listens on is not.
    socket.set_reuse_address(true)?;
    if let Some(bytes) = url.receive_buffer {
        socket.set_recv_buffer_size(bytes)?;
    }
    socket.bind(&addr.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn keepalive(socket: &SockRef<'_>, time: Duration) -> std::io::Result<()> {
    if time.is_zero() {
        return Ok(());
    }
    let every = TcpKeepalive::new().with_time(time);
    #[cfg(target_os = "linux")]
    let every = every.with_interval((time / 3).max(Duration::from_secs(1))).with_retries(3);
    socket.set_tcp_keepalive(&every)
}

impl Source for TcpSource {
    fn recv(&mut self, batch: &mut Batch, wait: Duration) -> Result<Received, SourceError> {
        batch.clear();
        let began = Instant::now();
        self.sweep(began);
        let (mut waited, mut now) = (false, began);
        loop {
            self.connect(now);
            self.resume();
            let mut first = self.first();
            if self.reads >= READS || first.is_none() {
                self.ask(Duration::ZERO)?;
                first = self.first();
            }
            if self.next(batch, now, first) {
                self.publish();
                return Ok(Received::Data);
            }
            if self.is_over() {
                self.publish();
                return Ok(Received::End);
            }
            let left = wait.saturating_sub(began.elapsed());
            if waited && left.is_zero() || wait.is_zero() {
                self.add(TcpCounter::Idle, 1);
                self.publish();
                return Ok(Received::Idle);
            }
            waited = true;
            let most = if self.paused.is_empty() { left } else { left.min(PAUSED_WAIT) };
            self.ask(most)?;
            now = Instant::now();
        }
    }

    fn batch(&self) -> Batch {
        Batch::with_slots(0, 0)
    }

    fn lossless(&self) -> bool {
        true
    }

    fn streams(&self) -> Option<Arc<StreamTable>> {
        Some(self.table.clone())
    }

    fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }

    fn describe(&self) -> Vec<String> {
        let url = &self.url;
        let place = match (self.local, &self.outgoing) {
            (Some(local), _) => {
                format!("listening on tcp://{local}, at most {} streams", url.max_streams)
            }
            (None, _) => format!("connecting to {url}, again after an end"),
        };
        let Reading { rule, most, read, .. } = self.reading;
        let sizes = (size_text(most as u64), size_text(read as u64));
        vec![
            place,
            format!(
                "packets are framed by {}, at most {}; reads of at most {}",
                rule.name, sizes.0, sizes.1
            ),
        ]
    }
}

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;
