//! Receivers of messages for a program that is no run, such as the file writer: the same keys as `[log]`, without its states.
//!
//! Refuses what the section refuses. Source: `docs/operations.md`, "Messages".

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use fullcount_core::refusal::Refusal;
use fullcount_io::section;
use fullcount_log::LogFilter;

use super::gelf::Sender;
use super::kind::{SECTION, host};
use super::section::LogSection;
use super::target::LogTarget;
use super::thread::Outlets;
use crate::backlog::Backlog;
use crate::deliver::spawn;

/// Between two looks at what was left out.
const LOOK: Duration = Duration::from_secs(1);

/// Checked receivers.
#[derive(Debug)]
pub struct MessagePlan {
    targets: Vec<LogTarget>,
    filter: LogFilter,
}

impl MessagePlan {
    /// Reads the keys of `[log]`, as TOML without the section's name.
    ///
    /// # Errors
    /// Key, value and what is allowed.
    pub fn read(keys: &str) -> Result<MessagePlan, Refusal> {
        let read: LogSection = section::read(SECTION, keys)?;
        Ok(MessagePlan { targets: read.targets()?, filter: read.level()? })
    }

    /// Opens them: they get what is told until the result is dropped. `name` stands where a run has its detector.
    ///
    /// # Errors
    /// The file cannot be opened, or the system refuses a thread.
    pub fn open(self, name: &str) -> io::Result<MessageOutlets> {
        fullcount_log::configure(self.filter);
        let sender = Sender { host: host(), detector: name.to_owned() };
        let outlets = Outlets::open(&self.targets, sender)?;
        fullcount_log::settle();
        let timer = Arc::new(Backlog::new(0));
        let until = timer.clone();
        let ended = spawn("log", move || tick(&until))?;
        Ok(MessageOutlets { outlets, timer, ended })
    }
}

/// Receivers that get messages.
pub struct MessageOutlets {
    outlets: Outlets,
    /// Nothing ever waits in it: it tells the thread when to end.
    timer: Arc<Backlog>,
    ended: Receiver<()>,
}

impl MessageOutlets {
    /// Files are opened again, as after a rotation by somebody else.
    pub fn reopen(&self) {
        self.outlets.reopen();
    }

    /// Who they are, for people; empty: nobody.
    pub fn fact(&self) -> String {
        self.outlets.fact()
    }
}

impl Drop for MessageOutlets {
    fn drop(&mut self) {
        self.timer.end();
        // It hangs up when it ends.
        let _ = self.ended.recv_timeout(LOOK);
        self.outlets.end();
    }
}

/// Tells now and then how many messages were left out.
fn tick(timer: &Backlog) {
    loop {
        let last = timer.over_before(Instant::now() + LOOK);
        fullcount_log::tick(last);
        if last {
            return;
        }
    }
}
