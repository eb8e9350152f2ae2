//! Commands about the capture while data flow: `CAPTURE_START`, `CAPTURE_STOP`, `CAPTURE_NEXT`, `CAPTURE_GET`.
//!
//! The new file, or the first of a new series, is made on the thread of the command, so that a name that cannot be used is answered;
//! the writer changes to it between two blocks of packets. Refuses names that [`RunFolder`] refuses, a start while a capture is
//! written, and a stop or next one while none is. Source: `docs/operations.md`, "Files by command".

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fullcount_core::command::{Answer, BadArguments, Command, Mailbox, NotDone};

use super::CaptureOptions;
use super::files::{Files, Made};
use crate::below::RunFolder;

/// What is to happen to the capture.
pub(super) enum CaptureChange {
    /// What comes goes into this file, and those behind it.
    To(CaptureBegun),
    /// What comes is not captured.
    Stop,
}

/// A file that is there and locked, and where further ones go. Dropping it removes it.
pub(super) struct CaptureBegun(Option<(Files, Made)>);

impl CaptureBegun {
    /// The file, which is written from here on.
    pub fn begin(mut self) -> (Files, Made) {
        self.0.take().expect("taken once")
    }
}

impl Drop for CaptureBegun {
    fn drop(&mut self) {
        if let Some((_, made)) = self.0.take() {
            made.give_up();
        }
    }
}

/// What was asked for, and what became of it.
#[derive(Debug, Default)]
pub(super) struct CaptureAsked {
    /// The file that is written, or is to be.
    pub path: Option<PathBuf>,
    /// Why nothing is captured any more.
    pub failed: Option<String>,
}

/// Between the commands and the writer.
#[derive(Default)]
pub(super) struct CaptureOrders {
    pub changes: Mailbox<CaptureChange>,
    asked: Mutex<CaptureAsked>,
}

impl CaptureOrders {
    pub fn asked(&self) -> MutexGuard<'_, CaptureAsked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the commands need.
struct CaptureCommander {
    options: CaptureOptions,
    folder: RunFolder,
    orders: Arc<CaptureOrders>,
}

impl CaptureCommander {
    /// Begins a file; `next`: in place of one that is written.
    fn to(&self, arguments: &[&str], next: bool) -> Result<Answer, NotDone> {
        let name = *arguments.first().ok_or(BadArguments)?;
        let mut asked = works(self.orders.asked())?;
        match (&asked.path, next) {
            (Some(path), false) => {
                let path = path.display();
                let why = format!("{path} is being written: CAPTURE_NEXT goes on with another");
                return Err(NotDone::Refused(why));
            }
            (None, true) => {
                let why = "nothing is being captured: CAPTURE_START begins a file";
                return Err(NotDone::Refused(why.into()));
            }
            _ => {}
        }
        let path = self.folder.file(name, &["pcapng"]);
        let path = path.map_err(|e| NotDone::Refused(e.to_string()))?;
        let options =
            CaptureOptions { file: path.clone(), overwrite: false, ..self.options.clone() };
        let made = Files::new(&options).and_then(|mut files| {
            let made = files.next()?;
            Ok((files, made))
        });
        let begun = CaptureBegun(Some(made.map_err(|e| NotDone::Failed(e.to_string()))?));
        self.leave(CaptureChange::To(begun))?;
        asked.path = Some(path);
        Ok(Answer::Done)
    }

    fn stop(&self) -> Result<Answer, NotDone> {
        let mut asked = works(self.orders.asked())?;
        if asked.path.is_none() {
            return Err(NotDone::Refused("nothing is being captured".into()));
        }
        self.leave(CaptureChange::Stop)?;
        asked.path = None;
        Ok(Answer::Done)
    }

    fn leave(&self, change: CaptureChange) -> Result<(), NotDone> {
        let busy = |_| NotDone::Busy("eight changes are still under way: ask again later".into());
        self.orders.changes.put(change).map_err(busy)
    }

    fn shown(&self) -> Answer {
        let asked = self.orders.asked();
        let (state, path) = match (&asked.failed, &asked.path) {
            (Some(why), _) => ("failed", Some(why.clone())),
            (None, Some(path)) => ("writing", Some(path.display().to_string())),
            (None, None) => ("stopped", None),
        };
        let text = |text: String| format!("{text:?}");
        let path = path.map_or_else(|| "null".into(), text);
        Answer::Values(format!("{{\"state\":\"{state}\",\"path\":{path}}}"))
    }
}

fn works(asked: MutexGuard<'_, CaptureAsked>) -> Result<MutexGuard<'_, CaptureAsked>, NotDone> {
    match &asked.failed {
        Some(why) => Err(NotDone::Failed(why.clone())),
        None => Ok(asked),
    }
}

/// The commands of a capture with these options; none without a folder.
pub(super) fn commands(
    options: &CaptureOptions,
    folder: Option<RunFolder>,
    orders: &Arc<CaptureOrders>,
) -> Vec<Command> {
    let Some(folder) = folder else { return Vec::new() };
    let (options, orders) = (options.clone(), orders.clone());
    let commander = Arc::new(CaptureCommander { options, folder, orders });
    let (start, next) = (commander.clone(), commander.clone());
    let (stop, get) = (commander.clone(), commander);
    vec![
        Command::change(
            "CAPTURE_START",
            ("FILE", "captures packets into a new file below control.folder"),
            1..=1,
            move |arguments: &[&str]| start.to(arguments, false),
        ),
        Command::change(
            "CAPTURE_NEXT",
            ("FILE", "goes on with another new file, without a gap"),
            1..=1,
            move |arguments: &[&str]| next.to(arguments, true),
        ),
        Command::change(
            "CAPTURE_STOP",
            ("", "closes the capture; packets that come are counted as not written"),
            0..=0,
            move |_: &[&str]| stop.stop(),
        ),
        Command::read(
            "CAPTURE_GET",
            ("", "whether packets are captured, and where, as JSON"),
            0..=0,
            move |_: &[&str]| Ok(get.shown()),
        ),
    ]
}
