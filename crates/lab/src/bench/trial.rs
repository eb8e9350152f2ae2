//! One trial of `run` or `receive` and of what sends to it over loopback: what the long proofs are made of.
//!
//! Senders are `send` at a rate, or this process with datagrams that no readout system sends ([`datagrams`]). Beside them the
//! receiver's memory is read and commands are given to its control port ([`beside`]); behind them the captures of a
//! folder are replayed. The row holds the summaries of all children as they are: what has to be true of them is the proof's business.
//! Refuses: children that end early, panic, hang or print no summary. Source: `docs/testing.md`, "Long proofs".

mod beside;
pub mod datagrams;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use fullcount_child::{Asked, ChildError, RunningChild};
use serde_json::{Value, json};

use crate::Tell;
use crate::agent::post::port_of;
use crate::error::TrialError;

pub use beside::BenchCommands;
use beside::Beside;
use datagrams::BenchDatagrams;

/// Longest wait for a program to get ready.
const READY: Duration = Duration::from_secs(30);
/// For a child to end beyond its time: a file of gigabytes is closed, a capture is read again.
const GRACE: Duration = Duration::from_secs(300);
/// What is queued and in the socket is read within so long after the last packet.
const REST: Duration = Duration::from_secs(2);
/// Between two looks at the children.
const LOOK: Duration = Duration::from_millis(5);

/// What is tried.
#[derive(Debug, Clone)]
pub struct BenchTrial {
    /// `run` or `receive` and its options; source, detector, control port and `--json` are added.
    pub receiver: Vec<String>,
    /// Detector of `run`, and what `send` simulates.
    pub detector: String,
    /// Who sends.
    pub load: BenchLoad,
    /// Time between two readings of the receiver's memory.
    pub memory_every: Option<Duration>,
    /// Commands for its control port.
    pub commands: Option<BenchCommands>,
    /// Folder whose captures are replayed afterwards.
    pub replay: Option<PathBuf>,
}

/// Who sends.
#[derive(Debug, Clone)]
pub enum BenchLoad {
    /// `send` at a rate.
    Senders(BenchSenders),
    /// This process.
    Datagrams(BenchDatagrams),
}

/// Equal senders.
#[derive(Debug, Clone)]
pub struct BenchSenders {
    /// Options of each: rate, size, duration.
    pub options: Vec<String>,
    /// The core of each; `None`: wherever the system puts it.
    pub cores: Vec<Option<usize>>,
    /// How long they send.
    pub duration: Duration,
}

/// Starts `fullcount WORDS… --json`.
pub(super) fn start(program: &Path, words: &[String]) -> Result<RunningChild, ChildError> {
    let mut command = Command::new(program);
    command.args(words).arg("--json");
    let verb = words.first().map_or("", String::as_str);
    RunningChild::start(&format!("fullcount {verb}"), command)
}

/// Waits for the end of a child and reads its summary, the JSON object on the last line.
///
/// # Errors
/// It did not end within `limit`, panicked, or left no summary.
pub(super) fn summary(
    child: &mut RunningChild,
    limit: Duration,
    stop: Asked<'_>,
) -> Result<(Value, i32), TrialError> {
    let ended = child.end(limit, stop)?.ok_or_else(|| child.stuck(limit))?;
    if let Some(reason) = ended.panicked {
        return Err(TrialError::Result { program: ended.program, reason });
    }
    let last = ended.output.lines().next_back().unwrap_or_default();
    match serde_json::from_str(last) {
        Ok(summary) => Ok((summary, ended.status.code().unwrap_or(-1))),
        Err(_) => Err(ended.failed().into()),
    }
}

fn told((summary, exit): (Value, i32)) -> Value {
    json!({"exit": exit, "summary": summary})
}

/// Words of a command line.
pub(super) fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|word| (*word).to_owned()).collect()
}

/// Captures below `folder`, in the order of their names.
fn captures(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries: Result<Vec<_>, _> = std::fs::read_dir(folder)?.collect();
    let mut files: Vec<PathBuf> = entries?.into_iter().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "pcapng"));
    files.sort();
    Ok(files)
}

impl BenchTrial {
    fn runs(&self) -> bool {
        self.receiver.first().is_some_and(|verb| verb == "run")
    }

    /// The receiver's words; `geometry` is a file.
    fn listening(&self, geometry: Option<&Path>) -> Vec<String> {
        let to = "udp://127.0.0.1:0";
        let mut all = match self.runs() {
            true => words(&["run", "--source", to, "--detector", &self.detector]),
            false => words(&["receive", to]),
        };
        all.extend(self.receiver.iter().skip(1).cloned());
        if let Some(file) = geometry {
            all.extend(words(&["--geometry", &file.display().to_string()]));
        }
        if self.commands.is_some() {
            all.extend(words(&["--control", "127.0.0.1:0"]));
        }
        all
    }

    fn replayed(&self, program: &Path, stop: Asked<'_>) -> Result<Vec<Value>, TrialError> {
        let Some(folder) = &self.replay else { return Ok(vec![]) };
        let replay = |file: PathBuf| {
            let from = format!("pcap:{}?flat-out", file.display());
            let run = ["run", "--source", &from, "--detector", &self.detector];
            let run = words(&[&run[..], &["--sink", "null", "--web", "off"]].concat());
            let mut row = told(summary(&mut start(program, &run)?, GRACE, stop)?);
            row["file"] = json!(file.file_name().map(|name| name.to_string_lossy()));
            Ok(row)
        };
        captures(folder)
            .map_err(TrialError::when("captures to replay"))?
            .into_iter()
            .map(replay)
            .collect()
    }

    /// Runs the trial; gives its row.
    ///
    /// # Errors
    /// A program did not do its part, or somebody asked to stop.
    pub fn measure(
        &self,
        program: &Path,
        tell: Tell,
        stop: Asked<'_>,
    ) -> Result<Value, TrialError> {
        let material = match &self.load {
            BenchLoad::Senders(_) => None,
            BenchLoad::Datagrams(order) => Some(order.material(&self.detector)?),
        };
        let geometry = material.as_ref().and_then(|material| material.geometry());
        let mut receiver = start(program, &self.listening(geometry.as_deref()))?;
        let port = receiver.wait_for_line(READY, stop, port_of)?;
        let mut beside = Beside::new(self, &mut receiver, stop)?;
        let mut row = match (&self.load, &material) {
            (BenchLoad::Senders(order), _) => {
                let sent = self.senders(order, program, port)?;
                let sent = beside.senders(sent, order.duration, &mut receiver, tell, stop)?;
                json!({ "send": sent })
            }
            (BenchLoad::Datagrams(order), material) => {
                let packets = material.as_ref().map_or(&[][..], |material| &material.packets);
                let sent = order.send(SocketAddr::from(([127, 0, 0, 1], port)), packets, stop)?;
                json!({ "datagrams": sent })
            }
        };
        if self.runs() {
            // Of `receive`, the end marks are the end.
            std::thread::sleep(REST);
            let state = fullcount_io::host::Host::default().port(port);
            row["kernel_dropped"] = json!(state.map_or(0, |state| state.drops));
            receiver.interrupt();
        }
        row["receiver"] = told(summary(&mut receiver, GRACE, stop)?);
        row["memory"] = json!(beside.memory);
        row["replayed"] = json!(self.replayed(program, stop)?);
        Ok(row)
    }

    fn senders(
        &self,
        order: &BenchSenders,
        program: &Path,
        port: u16,
    ) -> Result<Vec<RunningChild>, ChildError> {
        let to = format!("udp://127.0.0.1:{port}");
        let sender = |core: &Option<usize>| {
            let mut all = words(&["send", "--to", &to, "--source", &self.detector]);
            all.extend(order.options.iter().cloned());
            all.extend(core.iter().flat_map(|core| ["--core".to_owned(), core.to_string()]));
            start(program, &all)
        };
        order.cores.iter().map(sender).collect()
    }
}

impl Beside<'_> {
    /// Does what is due until all senders have ended and nothing is left to do; their summaries.
    fn senders(
        &mut self,
        mut senders: Vec<RunningChild>,
        duration: Duration,
        receiver: &mut RunningChild,
        tell: Tell,
        stop: Asked<'_>,
    ) -> Result<Vec<Value>, TrialError> {
        let begun = Instant::now();
        loop {
            let mut running = false;
            for sender in &mut senders {
                running |= !sender.ended(Duration::ZERO)?;
            }
            if (!running && self.is_done()) || begun.elapsed() > duration + GRACE {
                break;
            }
            if stop() {
                return Err(ChildError::Interrupted.into());
            }
            if receiver.ended(Duration::ZERO)? && running && self.needs_receiver() {
                let (_, exit) = summary(receiver, READY, stop)?;
                let (program, reason) =
                    ("fullcount run".into(), format!("ended early with {exit}"));
                return Err(TrialError::Result { program, reason });
            }
            self.due(begun.elapsed(), duration, receiver.id(), tell)?;
            std::thread::sleep(LOOK);
        }
        senders.iter_mut().map(|sender| Ok(told(summary(sender, GRACE, stop)?))).collect()
    }
}

#[cfg(test)]
#[path = "trial_tests.rs"]
mod tests;
