//! The two threads: one takes the counters in time, one talks to the Carbon server.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fullcount_core::ledger::Sheet;
use fullcount_core::status::StatusSource;
use fullcount_io::host::Host;

use super::GraphiteCounter as Count;
use super::beside::{machine, modules};
use super::lines::lines;
use crate::backlog::Backlog;
use crate::deliver::{Attempts, Counts, PeerDelivery, spawn};
use crate::peer::Peer;

/// Bytes that wait for the server at most: two minutes of 1,000 counters a second.
pub const WAITING: usize = 8 << 20;
/// The host and the modules are looked at so often at most: it takes some 0.2 ms.
const LOOK: Duration = Duration::from_secs(1);
/// Longest wait at the end of a run.
const FAREWELL: Duration = Duration::from_millis(500);

/// What both threads need.
#[derive(Clone)]
pub struct GraphiteTask {
    pub peer: Peer,
    pub period: Duration,
    pub sheet: Arc<Sheet>,
    /// Host and modules as well.
    pub machine: bool,
}

impl GraphiteTask {
    fn delivery(&self) -> PeerDelivery {
        let counts = Counts {
            sent: Count::Sent as usize,
            connections: Count::Connections as usize,
            errors: Count::Errors as usize,
        };
        let (peer, sheet) = (self.peer.clone(), self.sheet.clone());
        // A value at a time replaces itself.
        let attempts = Attempts { name: "graphite", to: peer.to_string(), sheet, counts };
        PeerDelivery { attempts, peer, again: true }
    }
}

/// Both threads under way; told to end when it is dropped.
pub struct GraphiteThreads {
    backlog: Arc<Backlog>,
    taken: Receiver<()>,
    sent: Receiver<()>,
}

impl GraphiteThreads {
    /// Starts them.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start(task: GraphiteTask, run: Arc<dyn StatusSource>) -> io::Result<GraphiteThreads> {
        let backlog = Arc::new(Backlog::new(WAITING));
        let (sending, sheet) = (backlog.clone(), task.sheet.clone());
        let delivery = task.delivery();
        let count = move |text: &[u8]| {
            let lines = text.iter().filter(|c| **c == b'\n').count() as u64;
            sheet.add(Count::Lines as usize, lines);
            sheet.add(Count::Bytes as usize, text.len() as u64);
        };
        let sent = spawn("graphite-send", move || delivery.run(&sending, count))?;
        let taking = backlog.clone();
        let taken = spawn("graphite", move || take(&task, &taking, &*run))?;
        Ok(GraphiteThreads { backlog, taken, sent })
    }
}

impl Drop for GraphiteThreads {
    /// The last counts are those of the whole run: a server that is there still gets them. One that is not is not waited for.
    fn drop(&mut self) {
        self.backlog.end();
        let end = Instant::now() + FAREWELL;
        for thread in [&self.taken, &self.sent] {
            // Both hang up when they end.
            let _ = thread.recv_timeout(end.saturating_duration_since(Instant::now()));
        }
    }
}

/// Takes all counters once a period, and once more at the end.
fn take(task: &GraphiteTask, backlog: &Backlog, run: &dyn StatusSource) {
    let mut due = Instant::now();
    let (host, mut look) = (Host::default(), due);
    loop {
        let over = backlog.over_before(due);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut published = run.published();
        if task.machine && (look <= Instant::now() || over) {
            look = Instant::now() + LOOK;
            published.extend(machine(&host));
            published.extend(modules(&run.facts().modules));
        }
        let counters = published.iter().map(|(name, value)| (&**name, *value));
        let (text, _) = lines(run.prefix(), counters, now.as_secs());
        task.sheet.add(Count::Snapshots as usize, 1);
        task.sheet.add(Count::Dropped as usize, backlog.put(text));
        if over {
            backlog.close();
            return;
        }
        // A host that slept takes one, not one for each period that it missed.
        due = (due + task.period).max(Instant::now());
    }
}
