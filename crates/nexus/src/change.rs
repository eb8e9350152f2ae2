//! Commands about the file of events while data flow: `NEXUS_START`, `NEXUS_STOP`, `NEXUS_NEXT`, `NEXUS_GET`.
//!
//! The new file is made on the thread of the command, so that a name that cannot be used, or a full disk, is answered, and what is
//! written goes on. Then it is left for the output's thread, which cuts between two pulses ([`super::files`]). Refuses names
//! that [`RunFolder`] refuses, a start while a file is written, and a stop or next one while none is.
//! Source: `docs/operations.md`, "Files by command".

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fullcount_core::command::{Answer, BadArguments, Command, Mailbox, NotDone, number};
use fullcount_io::below::RunFolder;

use super::files::FileBegun;
use super::options::{Existing, NexusOptions};

/// Endings of the names of files.
const ENDINGS: &[&str] = &["nxs", "nx5", "h5", "hdf5", "hdf"];
/// Largest run number that the file can hold.
const RUN_NUMBERS: i64 = i32::MAX as i64;

/// What is to happen to the file.
#[derive(Debug)]
pub enum NexusChange {
    /// What comes goes into this one.
    To(FileBegun),
    /// What comes is not written.
    Stop,
}

/// What was asked for, and what became of it.
#[derive(Debug, Default)]
pub(super) struct AskedFor {
    /// The file that is written, or is to be.
    pub path: Option<PathBuf>,
    /// Files begun so far.
    pub files: u64,
    /// Why nothing is written any more.
    pub failed: Option<String>,
}

/// Between the commands and the output's thread.
#[derive(Debug, Default)]
pub struct NexusOrders {
    pub(super) changes: Mailbox<NexusChange>,
    asked: Mutex<AskedFor>,
}

impl NexusOrders {
    pub(super) fn asked(&self) -> MutexGuard<'_, AskedFor> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the commands need.
struct NexusCommander {
    options: NexusOptions,
    folder: RunFolder,
    orders: Arc<NexusOrders>,
}

impl NexusCommander {
    /// Begins a file; `next`: in place of one that is written.
    fn to(&self, arguments: &[&str], next: bool) -> Result<Answer, NotDone> {
        let name = *arguments.first().ok_or(BadArguments)?;
        let mut asked = self.orders.asked();
        self.works(&asked)?;
        match (&asked.path, next) {
            (Some(path), false) => {
                let why =
                    format!("{} is being written: NEXUS_NEXT goes on with another", path.display());
                return Err(NotDone::Refused(why));
            }
            (None, true) => {
                return Err(NotDone::Refused(
                    "no file is being written: NEXUS_START begins one".into(),
                ));
            }
            _ => {}
        }
        let path = self.folder.file(name, ENDINGS).map_err(|e| NotDone::Refused(e.to_string()))?;
        let mut options = self.options.clone();
        (options.path, options.existing) = (path.clone(), Existing::Refuse);
        if let Some(run) = arguments.get(1) {
            let run = number(run)?;
            let within = (0..=RUN_NUMBERS).contains(&run).then_some(run as u32);
            options.about.run_number = Some(within.ok_or(BadArguments)?);
        }
        let begun = FileBegun::make(&options).map_err(|e| NotDone::Failed(e.to_string()))?;
        self.leave(NexusChange::To(begun))?;
        (asked.path, asked.files) = (Some(path), asked.files + 1);
        Ok(Answer::Done)
    }

    fn stop(&self) -> Result<Answer, NotDone> {
        let mut asked = self.orders.asked();
        self.works(&asked)?;
        if asked.path.is_none() {
            return Err(NotDone::Refused("no file is being written".into()));
        }
        self.leave(NexusChange::Stop)?;
        asked.path = None;
        Ok(Answer::Done)
    }

    fn works(&self, asked: &AskedFor) -> Result<(), NotDone> {
        match &asked.failed {
            Some(why) => Err(NotDone::Failed(why.clone())),
            None => Ok(()),
        }
    }

    fn leave(&self, change: NexusChange) -> Result<(), NotDone> {
        self.orders.changes.put(change).map_err(|_| {
            // A file that was made for it goes with it.
            NotDone::Busy("eight changes are still under way: ask again later".into())
        })
    }

    fn shown(&self) -> Answer {
        let asked = self.orders.asked();
        let state = match (&asked.failed, &asked.path) {
            (Some(_), _) => "failed",
            (None, Some(_)) => "writing",
            (None, None) => "stopped",
        };
        let shown = serde_json::json!({
            "state": state,
            "path": asked.path.as_ref().map(|path| path.display().to_string()),
            "files": asked.files,
            "failed": asked.failed,
        });
        Answer::Values(shown.to_string())
    }
}

/// The commands of an output with these options; none without a folder.
pub(super) fn commands(
    options: &NexusOptions,
    folder: Option<RunFolder>,
    orders: &Arc<NexusOrders>,
) -> Vec<Command> {
    let Some(folder) = folder else { return Vec::new() };
    let commander =
        Arc::new(NexusCommander { options: options.clone(), folder, orders: orders.clone() });
    let (start, next, stop, get) =
        (commander.clone(), commander.clone(), commander.clone(), commander);
    let file = "FILE [RUN_NUMBER]";
    vec![
        Command::change(
            "NEXUS_START",
            (file, "writes events into a new file below control.folder, from the next pulse on"),
            1..=2,
            move |arguments: &[&str]| start.to(arguments, false),
        ),
        Command::change(
            "NEXUS_NEXT",
            (file, "goes on with another new file, from the next pulse on, without a gap"),
            1..=2,
            move |arguments: &[&str]| next.to(arguments, true),
        ),
        Command::change(
            "NEXUS_STOP",
            ("", "closes the file behind the pulse at hand; what comes is counted as not written"),
            0..=0,
            move |_: &[&str]| stop.stop(),
        ),
        Command::read(
            "NEXUS_GET",
            ("", "whether a file of events is written, and which, as JSON"),
            0..=0,
            move |_: &[&str]| Ok(get.shown()),
        ),
    ]
}
