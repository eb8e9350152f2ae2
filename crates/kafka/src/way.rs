//! From a finished message to the spool: what the outputs of events and of packets do alike.
//!
//! A full spool makes [`Way::append`] wait. When the run is asked to end, or ends by itself, it waits for `drain` at most.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fullcount_core::ledger::Sheet;
use fullcount_core::sink::{Report, SinkError};
use fullcount_spool::{AppendError, Outgoing, Spool, SpoolStart};

use super::farewell::Farewell;
use super::level::Level;
use super::link::Link;
use super::options::KafkaOptions;
use super::sender::{Sender, Tally};

/// Lines of the sheet that a [`Way`] fills: the start's three, the full spool, then those of [`Way::refresh`], of which the
/// last may be missing.
pub(super) type Lines = &'static [usize];

/// [`Lines`] of an enumeration of counters.
macro_rules! lines {
    ($of:ident: $($line:ident)+) => { &[$($of::$line as usize),+] };
}
pub(super) use lines;

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Appended {
    /// It is in the spool.
    Safe,
    /// It can never be sent; counted as refused.
    Refused,
    /// The run ends, and the spool is still full.
    Late,
    /// The spool has failed.
    Failed,
}

/// A spool with the thread that sends what is in it.
pub(super) struct Way {
    output: &'static str,
    lines: Lines,
    pub spool: Spool,
    pub sheet: Arc<Sheet>,
    pub tally: Arc<Tally>,
    pub link: Arc<Link>,
    pub options: Arc<KafkaOptions>,
    /// Tells the sender to end.
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// Since the run was found to be asked to end while the spool was full.
    farewell: Option<Farewell>,
    /// How full the spool is.
    level: Level,
    pub failed: Option<AppendError>,
}

/// A broker that confirms nothing for so long may be busy; with a shorter `drain` a run does not end for it.
const BUSY: Duration = Duration::from_secs(1);

/// A wait for a full spool in the midst of a run.
struct Waiting {
    /// Since when nothing was confirmed.
    since: Instant,
    confirmed: u64,
    /// It was as long as that at the end, and the run ends for it.
    ends_the_run: bool,
}

impl Waiting {
    fn begin(confirmed: u64) -> Waiting {
        Waiting { since: Instant::now(), confirmed, ends_the_run: false }
    }

    /// True once nothing was confirmed for so long.
    fn is_over(&mut self, confirmed: u64, limit: Duration) -> bool {
        if confirmed != self.confirmed {
            *self = Waiting::begin(confirmed);
        }
        self.since.elapsed() >= limit.max(BUSY)
    }

    /// The wait that is not made again at the end.
    fn made(&self) -> Option<Instant> {
        self.ends_the_run.then_some(self.since)
    }
}

impl Way {
    /// Opens the spool; what it held. [`Way::start`] begins to send it.
    pub fn open(
        output: &'static str,
        options: KafkaOptions,
        (sheet, lines): (Arc<Sheet>, Lines),
    ) -> Result<(Way, SpoolStart), SinkError> {
        let opened = Spool::open(options.spool_options());
        let (spool, start) =
            opened.map_err(|e| SinkError { sink: output, message: e.to_string() })?;
        let found = [start.events + start.damaged_events, start.unreadable, start.torn];
        for (line, value) in lines.iter().zip(found) {
            sheet.set(*line, value);
        }
        let link = Arc::new(Link::new(&options.brokers, options.news));
        let way = Way {
            output,
            lines,
            spool,
            sheet,
            tally: Arc::default(),
            link,
            options: Arc::new(options),
            end: Arc::default(),
            thread: None,
            farewell: None,
            level: Level::default(),
            failed: None,
        };
        Ok((way, start))
    }

    /// Starts the sender. No broker is needed.
    pub fn start(&mut self, start: SpoolStart) -> Result<(), SinkError> {
        let sender = Sender {
            options: (*self.options).clone(),
            spool: self.spool.clone(),
            start,
            tally: self.tally.clone(),
            link: self.link.clone(),
            stop: self.end.clone(),
        };
        let thread = std::thread::Builder::new().name(format!("{}-send", self.output));
        let thread = thread.spawn(move || sender.run());
        self.thread = Some(thread.map_err(|e| self.error(&format!("starting a thread: {e}")))?);
        Ok(())
    }

    pub fn error(&self, what: &dyn std::fmt::Display) -> SinkError {
        SinkError { sink: self.output, message: what.to_string() }
    }

    /// Copies what others count into the sheet; `filling` events are in messages that are not finished.
    pub fn refresh(&self, filling: u64) {
        let (tally, depth) = (&self.tally, self.spool.depth());
        if let Some(said) = self.level.look(&depth, &self.options, self.output) {
            self.link.tell(&said);
        }
        let values = [
            tally.events.load(Relaxed),
            tally.bytes.load(Relaxed),
            tally.already.load(Relaxed),
            tally.refused.load(Relaxed),
            tally.damaged.load(Relaxed),
            depth.damaged_events,
            tally.sessions.load(Relaxed),
            self.link.errors.load(Relaxed),
            depth.messages,
            depth.bytes,
            depth.limit,
            self.level.times(),
            depth.age_ms,
            depth.events + filling,
            tally.messages.load(Relaxed),
        ];
        for (line, value) in self.lines[4..].iter().zip(values) {
            self.sheet.set(*line, value);
        }
    }

    /// Appends a message; waits if the spool is full.
    pub fn append(&mut self, message: &Outgoing<'_>, filling: u64) -> Appended {
        let mut waiting: Option<Waiting> = None;
        loop {
            if self.failed.is_some() {
                return Appended::Failed;
            }
            match self.spool.append(message) {
                Ok(_) => return Appended::Safe,
                Err(AppendError::Full { .. }) => {}
                Err(error @ AppendError::DiskFull(_)) => self.link.say(&error.to_string()),
                Err(error @ AppendError::TooLarge { .. }) => {
                    self.link.say(&error.to_string());
                    self.tally.refused.fetch_add(message.events.into(), Relaxed);
                    return Appended::Refused;
                }
                Err(error @ AppendError::Spool(_)) => {
                    self.failed = Some(error);
                    continue;
                }
            }
            if waiting.is_none() {
                self.sheet.add(self.lines[3], 1);
            }
            let confirmed = self.tally.messages.load(Relaxed);
            let waiting = waiting.get_or_insert_with(|| Waiting::begin(confirmed));
            if Farewell::is_due(&self.options) {
                let begin = || Farewell::begin(&self.options, &self.tally).since(waiting.made());
                let farewell = self.farewell.get_or_insert_with(begin);
                farewell.say(&self.link, &self.spool);
                if farewell.is_over() {
                    return Appended::Late;
                }
            } else if waiting.is_over(confirmed, self.options.drain) {
                waiting.ends_the_run = (self.options.stuck)();
            }
            self.refresh(filling);
            self.spool.wait(Duration::from_millis(20));
        }
    }

    /// Waits until all is confirmed, no longer than the options say, and ends the sender. The error is that of the spool.
    pub fn finish(&mut self) -> Result<(), SinkError> {
        // The time that a full spool has taken is not given again.
        let begun = self.farewell.take();
        let farewell = begun.unwrap_or_else(|| Farewell::begin(&self.options, &self.tally));
        farewell.wait(&self.link, &self.spool);
        self.end_sender();
        self.spool.finish().map_err(|e| self.error(&e))
    }

    /// What is confirmed.
    pub fn report(&self) -> Report {
        Report {
            place: self.options.place(),
            events: self.tally.events.load(Relaxed),
            bytes: self.tally.bytes.load(Relaxed),
            rows: Vec::new(),
        }
    }

    fn end_sender(&mut self) {
        self.end.store(true, Relaxed);
        self.spool.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        self.end_sender();
        // The error cannot be reported any more; appended messages are on disk in any case.
        let _ = self.spool.finish();
    }
}
