//! One receiver under way: a bounded queue, and a thread that hands on what is in it.
//!
//! Who tells something only puts it into the queue. Refuses a file that cannot be opened; everybody else may come later.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fullcount_core::ledger::Sheet;
use fullcount_log::{LogAttached, LogLine, LogReceiver, attach};

use super::LogCounter as Count;
use super::file::LogFile;
use super::gelf::{self, Sender};
use super::target::LogTarget;
use crate::backlog::{Backlog, Piece};
use crate::deliver::{Attempts, Counts, PeerDelivery, spawn};
use crate::peer::Peer;

/// Bytes that wait for a receiver at most.
const WAITING: usize = 1 << 20;
/// Longest wait at the end for all of them.
const FAREWELL: Duration = Duration::from_millis(500);
/// Longest wait for a local daemon that takes nothing.
const STUCK: Duration = Duration::from_secs(10);

/// What is between who tells and who hands on.
struct Queue {
    target: LogTarget,
    sender: Sender,
    backlog: Backlog,
    messages: AtomicU64,
    dropped: AtomicU64,
    /// Of the thread that hands on.
    sheet: Arc<Sheet>,
    reopen: AtomicBool,
}

impl LogReceiver for Queue {
    fn take(&self, line: &LogLine) {
        let gone = self.backlog.put(self.target.written(line, &self.sender));
        self.messages.fetch_add(1, Relaxed);
        self.dropped.fetch_add(gone, Relaxed);
    }
}

/// One receiver.
pub struct Outlet {
    queue: Arc<Queue>,
    attached: Option<LogAttached>,
    ended: Receiver<()>,
}

/// What was counted, by [`Count`].
pub type LogCounts = [u64; 5];

impl Outlet {
    /// Starts it; it gets what is told from now on, and what was told before anybody could be there.
    ///
    /// # Errors
    /// The file cannot be opened, or the system refuses a thread.
    pub fn start(target: LogTarget, sender: Sender) -> io::Result<Outlet> {
        let file = match &target {
            LogTarget::File(file) => {
                let named = |e: io::Error| {
                    io::Error::new(e.kind(), format!("log.file {}: {e}", file.path.display()))
                };
                Some(LogFile::open(file.clone()).map_err(named)?)
            }
            _ => None,
        };
        let (messages, dropped) = (AtomicU64::new(0), AtomicU64::new(0));
        let (backlog, sheet) = (Backlog::new(WAITING), Sheet::new(super::LogCounter::catalogue()));
        let reopen = AtomicBool::new(false);
        let queue = Arc::new(Queue { target, sender, backlog, messages, dropped, sheet, reopen });
        let theirs = queue.clone();
        let ended = spawn("log-send", move || send(&theirs, file))?;
        let attached = Some(attach(queue.clone()));
        Ok(Outlet { queue, attached, ended })
    }

    /// Whom it is for.
    pub fn target(&self) -> &LogTarget {
        &self.queue.target
    }

    /// Takes a line.
    #[cfg(test)]
    pub fn put(&self, line: &LogLine) {
        self.queue.take(line);
    }

    /// The next line goes to what is at the file's path then.
    pub fn reopen(&self) {
        self.queue.reopen.store(true, Relaxed);
    }

    /// What was counted.
    pub fn counted(&self) -> LogCounts {
        let of = |count: Count| self.queue.sheet.get(count as usize);
        let dropped = self.queue.dropped.load(Relaxed) + of(Count::Dropped);
        let messages = self.queue.messages.load(Relaxed);
        [messages, dropped, of(Count::Sent), of(Count::Connections), of(Count::Errors)]
    }
}

/// Ends several, which hand on what waits for half a second at most; what they counted.
pub fn end(mut all: Vec<Outlet>) -> LogCounts {
    for outlet in &mut all {
        drop(outlet.attached.take());
        outlet.queue.backlog.end();
        outlet.queue.backlog.close();
    }
    let end = Instant::now() + FAREWELL;
    let mut sum = LogCounts::default();
    for outlet in &all {
        // All hang up when they end.
        let _ = outlet.ended.recv_timeout(end.saturating_duration_since(Instant::now()));
        sum.iter_mut().zip(outlet.counted()).for_each(|(sum, n)| *sum += n);
    }
    sum
}

fn send(queue: &Queue, file: Option<LogFile>) {
    let counts = Counts {
        sent: Count::Sent as usize,
        connections: Count::Connections as usize,
        errors: Count::Errors as usize,
    };
    let attempts =
        |to: String| Attempts { name: queue.target.key(), to, sheet: queue.sheet.clone(), counts };
    let (backlog, lost) = (&queue.backlog, Count::Dropped as usize);
    match &queue.target {
        LogTarget::Gelf(peer, None) | LogTarget::Syslog(peer, false) => {
            // A message that came twice would be counted twice by people.
            let attempts = attempts(peer.to_string());
            PeerDelivery { attempts, peer: peer.clone(), again: false }.run(backlog, |_| {});
        }
        LogTarget::Gelf(peer, Some(how)) => {
            attempts(peer.to_string()).each(backlog, lost, |(number, piece)| {
                // The id needs to differ from that of others for seconds only.
                let all = gelf::datagrams(piece, *how, id(*number));
                to(peer, &all).map(|()| !all.is_empty())
            });
        }
        LogTarget::Syslog(peer, true) => {
            let one = |piece: &Piece| to(peer, &[&piece.1]).map(|()| true);
            attempts(peer.to_string()).each(backlog, lost, one);
        }
        LogTarget::Journal(path) | LogTarget::LocalSyslog(path) => {
            let one = |piece: &Piece| local(path, &piece.1).map(|()| true);
            attempts(path.display().to_string()).each(backlog, lost, one);
        }
        LogTarget::File(about) => {
            let Some(mut file) = file else { return };
            attempts(about.path.display().to_string()).each(backlog, lost, |(_, piece)| {
                if queue.reopen.swap(false, Relaxed) {
                    file.reopen();
                }
                file.write(piece).map(|()| true)
            });
        }
    }
}

/// Number of a message that no other sender has at the same time.
fn id(number: u64) -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    time.rotate_left(20) ^ (u64::from(std::process::id()) << 32) ^ number
}

/// Datagrams to a daemon of this host.
fn local(path: &Path, datagram: &[u8]) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(STUCK))?;
    socket.send_to(datagram, path).map(drop)
}

fn to(peer: &Peer, datagrams: &[impl AsRef<[u8]>]) -> io::Result<()> {
    let none = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let address = peer.addresses()?.into_iter().next().ok_or_else(none)?;
    let any: SocketAddr = match address {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0u16; 8], 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    let send = |datagram: &dyn AsRef<[u8]>| socket.send_to(datagram.as_ref(), address).map(drop);
    datagrams.iter().try_for_each(|datagram| send(datagram))
}
