//! What an interrupted campaign has measured: a file beside its results, one line a point.
//!
//! The first line holds plan and revision, each other line a finished trial; lines are appended and synced, so a
//! kill costs the point under way and no other. A last line that was cut is dropped. The file is locked while it is
//! used. Refuses: another plan or revision than the file's, a file of another shape, an interrupted campaign that is neither
//! gone on with nor to be replaced, a file that another process uses.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use fullcount_io::input_file;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CampaignPlan, CampaignPoint, Done};
use crate::campaign::outcome::TrialOutcome;

/// Shape of the file.
const SCHEMA: &str = "fullcount/udp-campaign-state/1";

/// Why a state file cannot be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum StateError {
    #[error(
        "--resume: {path}: {cause}; there is no interrupted campaign of this name here: leave out --resume"
    )]
    Nothing { path: PathBuf, cause: std::io::Error },
    #[error(
        "{path}: an interrupted campaign of this name: go on with it by --resume, or begin anew with --overwrite or another --name"
    )]
    Exists { path: PathBuf },
    #[error("{path}: another process is measuring this campaign; choose another --name or --out")]
    InUse { path: PathBuf },
    #[error("{path}: {cause}: check that the folder exists and is writable")]
    Write { path: PathBuf, cause: std::io::Error },
    #[error("--resume: {path} line {line}: {problem}; leave out --resume to begin anew")]
    Shape { path: PathBuf, line: usize, problem: String },
    #[error(
        "--resume: the interrupted campaign had {key} {before}, this one has {now}: give the same options, or leave out --resume to begin anew"
    )]
    Other { key: String, before: String, now: String },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    schema: String,
    revision: Option<String>,
    plan: CampaignPlan,
}

/// Points measured so far, in memory and on disk.
#[derive(Debug)]
pub struct CampaignState {
    path: PathBuf,
    file: File,
    done: Vec<Done>,
}

impl CampaignState {
    /// File of a campaign called `name` in `folder`.
    pub fn path_of(folder: &Path, name: &str) -> PathBuf {
        folder.join(format!("{name}.state.jsonl"))
    }

    /// Begins anew. `overwrite`: an interrupted campaign that is there is replaced.
    ///
    /// # Errors
    /// One is there, another process uses it, or the file system's.
    pub fn begin(
        path: &Path,
        plan: &CampaignPlan,
        revision: Option<String>,
        overwrite: bool,
    ) -> Result<CampaignState, StateError> {
        let refuse = |cause| StateError::Write { path: path.to_owned(), cause };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(refuse)?;
        }
        let mut how = OpenOptions::new();
        how.write(true).create(true).truncate(false).create_new(!overwrite);
        let file = how.open(path).map_err(|cause| match cause.kind() {
            ErrorKind::AlreadyExists => StateError::Exists { path: path.to_owned() },
            _ => StateError::Write { path: path.to_owned(), cause },
        })?;
        lock(&file, path)?;
        file.set_len(0).map_err(refuse)?;
        let mut state = CampaignState { path: path.to_owned(), file, done: Vec::new() };
        let head = Head { schema: SCHEMA.to_owned(), revision, plan: plan.clone() };
        state.append(&head)?;
        Ok(state)
    }

    /// Goes on with what is there.
    ///
    /// # Errors
    /// Nothing there, or begun with another plan or revision.
    pub fn resume(
        path: &Path,
        plan: &CampaignPlan,
        revision: Option<String>,
    ) -> Result<CampaignState, StateError> {
        let nothing = |cause| StateError::Nothing { path: path.to_owned(), cause };
        let text =
            input_file::text(path, input_file::LARGEST_INPUT).map_err(|e| nothing(e.into()))?;
        let shape = |line: usize, problem: String| StateError::Shape {
            path: path.to_owned(),
            line,
            problem,
        };
        // What follows the last line feed was cut by a kill.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let mut lines = text[..whole].lines().enumerate();
        let (_, head) = lines.next().ok_or_else(|| shape(1, "it is empty".to_owned()))?;
        let head: Head = serde_json::from_str(head).map_err(|e| shape(1, e.to_string()))?;
        if head.schema != SCHEMA {
            return Err(shape(1, format!("schema {} is not {SCHEMA}", head.schema)));
        }
        if head.revision != revision {
            let shown = |r: Option<String>| r.unwrap_or_else(|| "unknown".to_owned());
            let (before, now) = (shown(head.revision), shown(revision));
            return Err(StateError::Other { key: "revision".to_owned(), before, now });
        }
        if let Some((key, before, now)) = difference(&head.plan, plan) {
            return Err(StateError::Other { key, before, now });
        }
        let mut done = Vec::new();
        for (number, line) in lines {
            done.push(serde_json::from_str(line).map_err(|e| shape(number + 1, e.to_string()))?);
        }
        let refuse = |cause| StateError::Write { path: path.to_owned(), cause };
        let file = OpenOptions::new().append(true).open(path).map_err(refuse)?;
        lock(&file, path)?;
        file.set_len(whole as u64).map_err(refuse)?;
        Ok(CampaignState { path: path.to_owned(), file, done })
    }

    fn append(&mut self, line: &impl Serialize) -> Result<(), StateError> {
        let mut write = || -> std::io::Result<()> {
            let mut bytes = serde_json::to_vec(line)?;
            bytes.push(b'\n');
            self.file.write_all(&bytes)?;
            self.file.sync_data()
        };
        write().map_err(|cause| StateError::Write { path: self.path.clone(), cause })
    }

    /// Keeps a finished trial.
    ///
    /// # Errors
    /// The file system's.
    pub fn keep(&mut self, done: &Done) -> Result<(), StateError> {
        self.append(done)?;
        self.done.push(done.clone());
        Ok(())
    }

    /// What a point gave, if it was made.
    pub fn find(&self, point: &CampaignPoint) -> Option<&TrialOutcome> {
        self.done.iter().find(|d| d.point == *point).map(|d| &d.outcome)
    }

    /// Number of finished trials.
    pub fn len(&self) -> usize {
        self.done.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.done.is_empty()
    }

    /// Removes the file: the results are written.
    pub fn finish(self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Held until the file is closed.
fn lock(file: &File, path: &Path) -> Result<(), StateError> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(StateError::InUse { path: path.to_owned() }),
        // A file system without locks keeps nobody apart.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}

/// The first part in which two plans differ, with both values.
fn difference(a: &CampaignPlan, b: &CampaignPlan) -> Option<(String, String, String)> {
    let value = |p: &CampaignPlan| serde_json::to_value(p).unwrap_or(Value::Null);
    let (a, b) = (value(a), value(b));
    let keys = a.as_object()?.keys().find(|k| a[*k] != b[*k])?;
    Some((keys.clone(), a[keys].to_string(), b[keys].to_string()))
}
