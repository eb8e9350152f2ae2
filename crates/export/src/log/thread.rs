//! The output under way: its receivers, and a thread that looks at the run once a second.

use std::io;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fullcount_core::ledger::Sheet;
use fullcount_core::status::StatusSource;
use fullcount_log::LogLevel;

use super::LogCounter as Count;
use super::changes::Changes;
use super::gelf::Sender;
use super::outlet::{LogCounts, Outlet, end};
use super::target::LogTarget;
use crate::backlog::Backlog;
use crate::deliver::spawn;

/// Between two looks at the run.
const LOOK: Duration = Duration::from_secs(1);
/// Longest wait for the last look.
const LAST_LOOK: Duration = Duration::from_millis(500);

/// The receivers of a run, which may become others while it goes on.
pub struct Outlets {
    sender: Sender,
    all: Mutex<(Vec<Outlet>, LogCounts)>,
    /// Of the thread that looks.
    sheet: Arc<Sheet>,
}

impl Outlets {
    /// Opens all of them.
    ///
    /// # Errors
    /// A file cannot be opened, or the system refuses a thread.
    pub fn open(targets: &[LogTarget], sender: Sender) -> io::Result<Outlets> {
        let sheet = Sheet::new(super::LogCounter::catalogue());
        let outlets = Outlets { sender, all: Mutex::default(), sheet };
        outlets.change(targets)?;
        Ok(outlets)
    }

    /// Counters of all.
    pub fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }

    fn lock(&self) -> MutexGuard<'_, (Vec<Outlet>, LogCounts)> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes these the receivers: those that stay keep what waits for them, and files are opened again.
    ///
    /// # Errors
    /// A file cannot be opened, or the system refuses a thread; then all are as they were.
    pub fn change(&self, targets: &[LogTarget]) -> io::Result<()> {
        let mut all = self.lock();
        let there = |target: &&LogTarget| !all.0.iter().any(|outlet| outlet.target() == *target);
        let new: Vec<&LogTarget> = targets.iter().filter(there).collect();
        // A file with another bound is locked by the outlet that it has now, which ends first.
        let taken = |target: &LogTarget| all.0.iter().any(|outlet| outlet.target().is_at(target));
        let (later, now): (Vec<&LogTarget>, Vec<&LogTarget>) =
            new.into_iter().partition(|target| taken(target));
        let start = |target: &&LogTarget| Outlet::start((*target).clone(), self.sender.clone());
        let begun: Vec<io::Result<Outlet>> = now.iter().map(start).collect();
        if begun.iter().any(Result::is_err) {
            let (good, bad): (Vec<_>, Vec<_>) = begun.into_iter().partition(Result::is_ok);
            // What they were told was told to the others as well.
            end(good.into_iter().flatten().collect());
            return bad.into_iter().find_map(Result::err).map_or(Ok(()), Err);
        }
        let (stay, go): (Vec<Outlet>, Vec<Outlet>) =
            std::mem::take(&mut all.0).into_iter().partition(|o| targets.contains(o.target()));
        stay.iter().for_each(Outlet::reopen);
        all.0 = stay;
        all.0.extend(begun.into_iter().flatten());
        let before: Vec<LogTarget> = go.iter().map(|outlet| outlet.target().clone()).collect();
        let counted = end(go);
        all.1.iter_mut().zip(counted).for_each(|(sum, n)| *sum += n);
        let mut result = Ok(());
        for target in later {
            match Outlet::start(target.clone(), self.sender.clone()) {
                Ok(outlet) => all.0.push(outlet),
                Err(e) => {
                    let same = before.iter().find(|old| old.is_at(target));
                    let again = same.map(|old| Outlet::start(old.clone(), self.sender.clone()));
                    all.0.extend(again.and_then(Result::ok));
                    result = Err(e);
                }
            }
        }
        result
    }

    /// Files are opened again, as after a rotation by somebody else.
    pub fn reopen(&self) {
        self.lock().0.iter().for_each(Outlet::reopen);
    }

    /// Hands a line to all of them, as the hub does.
    #[cfg(test)]
    pub fn put(&self, line: &fullcount_log::LogLine) {
        self.lock().0.iter().for_each(|outlet| outlet.put(line));
    }

    /// What was counted.
    #[cfg(test)]
    pub fn counted(&self) -> LogCounts {
        self.lock().0[0].counted()
    }

    /// What they are, for people; empty: there is none.
    pub fn fact(&self) -> String {
        let all: Vec<String> = self.lock().0.iter().map(|o| o.target().to_string()).collect();
        if all.is_empty() { String::new() } else { format!("messages to {}", all.join(" and ")) }
    }

    /// Shows what was counted; by the thread that looks, or after it.
    fn publish(&self) {
        let all = self.lock();
        let mut sum = all.1;
        for outlet in &all.0 {
            sum.iter_mut().zip(outlet.counted()).for_each(|(sum, n)| *sum += n);
        }
        let lines =
            [Count::Messages, Count::Dropped, Count::Sent, Count::Connections, Count::Errors];
        lines.into_iter().zip(sum).for_each(|(line, n)| self.sheet.set(line as usize, n));
        self.sheet.set(Count::Suppressed as usize, fullcount_log::suppressed());
    }

    /// Ends all of them.
    pub fn end(&self) {
        let mut all = self.lock();
        let counted = end(std::mem::take(&mut all.0));
        all.1.iter_mut().zip(counted).for_each(|(sum, n)| *sum += n);
    }
}

impl Drop for Outlets {
    /// What was told reaches them, also where no run has begun.
    fn drop(&mut self) {
        self.end();
    }
}

/// All under way; told to end when it is dropped.
pub struct LogThreads {
    outlets: Arc<Outlets>,
    /// Nothing ever waits in it: it tells the thread that looks when to end.
    timer: Arc<Backlog>,
    ended: Receiver<()>,
}

impl LogThreads {
    /// Starts the thread that looks.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start(outlets: Arc<Outlets>, run: Arc<dyn StatusSource>) -> io::Result<LogThreads> {
        fullcount_log::settle();
        let timer = Arc::new(Backlog::new(0));
        let (looking, until) = (outlets.clone(), timer.clone());
        let ended = spawn("log", move || look(&looking, &until, &*run))?;
        Ok(LogThreads { outlets, timer, ended })
    }

    /// The receivers.
    pub fn outlets(&self) -> &Outlets {
        &self.outlets
    }
}

impl Drop for LogThreads {
    fn drop(&mut self) {
        self.timer.end();
        // It hangs up when it ends.
        let looked = self.ended.recv_timeout(LAST_LOOK);
        self.outlets.end();
        if looked != Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            self.outlets.publish();
        }
    }
}

/// Looks at the run once a second, and once more at the end.
fn look(outlets: &Outlets, timer: &Backlog, run: &dyn StatusSource) {
    let (begun, mut changes) = (Instant::now(), Changes::default());
    let mut due = begun;
    loop {
        let last = timer.over_before(due);
        for (level, text) in changes.look(&run.facts(), &run.entries(), begun.elapsed(), last) {
            tell(level, &text);
        }
        fullcount_log::tick(last);
        outlets.publish();
        if last {
            return;
        }
        due = (due + LOOK).max(Instant::now());
    }
}

/// What a terminal has on its status line and in the summary already.
fn tell(level: LogLevel, text: &str) {
    match level {
        LogLevel::Warning => {
            fullcount_log::warning!(target: "fullcount_run", terminal = false, "{text}");
        }
        LogLevel::Notice => {
            fullcount_log::notice!(target: "fullcount_run", terminal = false, "{text}");
        }
        _ => fullcount_log::info!(target: "fullcount_run", terminal = false, "{text}"),
    }
}
