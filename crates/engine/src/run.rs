//! Who is started, in which order, and how they end.
//!
//! [`RunPlan`] is a configuration that has passed every check that needs no socket, output file or thread;
//! [`Running`] is what it becomes. End: the pipeline drains, sinks finish, the page goes last.

mod cpu;
mod last_time;
mod plan;
mod reload;
mod start;
mod worker;

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fullcount_core::output::{Recording, Serving};
use fullcount_core::source::{Position, SourceOpenError};
use fullcount_log::alert;

use self::cpu::CpuMark;
use self::last_time::LastTime;
use self::worker::Finished;
use crate::account::Account;
use crate::control::{ActivityWatch, CurrentConfig};
use crate::fanout::Drains;

use crate::pipeline::PipelineError;
use crate::places::watch::Watcher;
use crate::status::{Part, RunStatus, StatusWatch};
use crate::stop::Stop;
use crate::summary::{Output, Summary};

pub use plan::{RunPlan, configure};
pub use reload::Reloaded;

/// A run that could not start or did not end well; exit code 1.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The source could not be opened.
    #[error(transparent)]
    Source(#[from] SourceOpenError),
    /// An output could not be opened.
    #[error("{0}")]
    Output(String),
    /// The page could not be served.
    #[error("{0}")]
    Web(String),
    /// The pipeline stopped before its end.
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
    /// The system refused a thread.
    #[error("starting a thread: {0}")]
    Thread(std::io::Error),
}

impl RunError {
    /// True if the configuration does not fit what it is for, as the source found: exit code 2.
    pub fn refused(&self) -> bool {
        matches!(self, RunError::Source(SourceOpenError::Unfit(_)))
    }

    /// With all causes, in one line.
    fn with_causes(&self) -> String {
        let causes = std::iter::successors(std::error::Error::source(self), |e| e.source());
        causes.fold(self.to_string(), |text, cause| format!("{text}: {cause}"))
    }
}

/// A run under way.
pub struct Running {
    verb: &'static str,
    watch: Arc<StatusWatch>,
    stop: Stop,
    workers: Vec<JoinHandle<Finished>>,
    drains: Drains,
    /// Hangs up when all workers have ended.
    ended: Mutex<mpsc::Receiver<()>>,
    /// Outputs of the run's state; what takes messages about it comes first.
    pages: Vec<Box<dyn Serving>>,
    /// What holds now, also after a reload.
    configuration: CurrentConfig,
    /// Compares what the run does once a second.
    _activity: ActivityWatch,
    facts: Vec<String>,
    local: Option<std::net::SocketAddr>,
    lossless: bool,
    /// True if something comes in from outside now.
    live: bool,
    cpu: CpuMark,
    places: Option<Watcher>,
    /// Outputs of packets.
    packets: Vec<(&'static str, Box<dyn Recording>)>,
    /// Outputs with a spool, and its folder.
    spools: Vec<(&'static str, std::path::PathBuf)>,
    /// The source's place that others keep.
    position: Option<Arc<dyn Position>>,
    /// Writes down the latest time that was given.
    last_time: Option<LastTime>,
}

impl Running {
    /// What was opened, one fact a line.
    pub fn facts(&self) -> &[String] {
        &self.facts
    }

    /// Address of the page, if it is served.
    pub fn page(&self) -> Option<std::net::SocketAddr> {
        self.pages.iter().find_map(|page| page.address())
    }

    /// Address of the UDP socket, if the source is one.
    pub fn local_address(&self) -> Option<std::net::SocketAddr> {
        self.local
    }

    /// This moment.
    pub fn status(&self) -> RunStatus {
        self.watch.status()
    }

    /// Waits at most `time`; true once the pipeline has ended.
    pub fn wait(&self, time: Duration) -> bool {
        let ended = self.ended.lock().expect("no holder panics");
        ended.recv_timeout(time) == Err(RecvTimeoutError::Disconnected)
    }

    /// Threads that read packets or make events and have stood still for a long time; to be asked about once a second.
    pub fn stand_still(&self) -> Vec<String> {
        self.watch.progress.stand_still(Instant::now())
    }

    /// Asks for the end, as Ctrl-C does.
    pub fn stop(&self) {
        self.stop.request();
    }

    /// Waits for the end, closes everything and adds up; why it ended badly is told (alert) while receivers of messages are there.
    /// `sent`: the sender's own packets and bytes, where they are known.
    pub fn finish(mut self, sent: Option<(u64, u64)>) -> (Summary, Result<(), RunError>) {
        let mut outcome = Ok(());
        let mut ways = Vec::with_capacity(self.workers.len());
        let mut sources = Vec::with_capacity(self.workers.len());
        for worker in self.workers {
            let ended = match worker.join() {
                Ok((way, source, ended)) => {
                    ways.push(way);
                    sources.push(source);
                    ended
                }
                Err(_) => {
                    let died = "panicked; the outputs keep what came before";
                    Err(PipelineError::Thread(died.into()))
                }
            };
            // The first failure is the cause: it stopped the others.
            outcome = outcome.and(ended);
        }
        if let Some(places) = &mut self.places {
            places.end();
        }
        // The taps go with the sources: the capture's writer sees that nothing more comes. So do the sinks, all at once: what
        // waits for a broker at the end waits at the same time.
        drop((sources, ways, self.last_time));
        let packets = self.packets.into_iter().map(|(name, output)| (name, output.finish()));
        let recorded: Vec<_> = packets.collect();
        let ends = self.drains.finish(Vec::new());
        if let Some(position) = self.position {
            position.finish();
        }
        let outputs = ends.into_iter().map(Output::from).collect();
        let entries = self.watch.read();
        let (packets, places) = (sent.map(|(packets, _)| packets), self.watch.places.as_deref());
        let account = Account::watched(&entries, packets, places);
        let wire_bits = wire_bits(&entries);
        let refused = self.watch.refusals.as_ref().and_then(|r| r.of_run(&entries));
        let summary = Summary {
            verb: self.verb,
            active: self.watch.progress.active(),
            account,
            entries,
            cpu: self.cpu.since(),
            simulator: None,
            recorded: !self.live,
            outputs,
            packets: recorded,
            wire_bits,
            sent_bytes: sent.map(|(_, bytes)| bytes),
            parts: self.watch.parts.iter().map(Part::line).collect(),
            modules: self.watch.modules.at_end(),
            lossless: self.lossless,
            refused,
            spools: self.spools,
            clock: self.watch.wall.as_ref().map(|wall| wall.status()),
        };
        let outcome = outcome.map_err(RunError::from);
        if let Err(e) = &outcome {
            alert!("{e}");
        }
        close(self.pages);
        (summary, outcome)
    }
}

/// Ends outputs of the run's state, what takes messages last.
fn close(pages: Vec<Box<dyn Serving>>) {
    pages.into_iter().rev().for_each(drop);
}

/// Bits on the wire for what was received: as the source counted them by packet size, else from the mean
/// payload, which is exact where all packets are equally long.
fn wire_bits(entries: &fullcount_core::ledger::Entries) -> Option<u64> {
    let packets = entries.get("receive.packets").filter(|&n| n > 0)?;
    if let Some(bytes) = entries.get("receive.wire_bytes") {
        return Some(bytes.saturating_mul(8));
    }
    let payload = (entries.get("receive.bytes")? / packets) as usize;
    Some(fullcount_core::link::Wire::usual(false, payload).bits(payload) * packets)
}
