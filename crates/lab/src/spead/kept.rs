//! Trials that are done, on the disk after each one: an interrupted campaign goes on with `--resume`.
//!
//! One JSON object a line: the trial's key and its result. Refuses a file of an earlier campaign without `--resume`, and one of
//! other settings.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use fullcount_io::newfile;
use serde_json::{Value, json};

use crate::error::LabError;

/// Largest file of this sort, bytes.
const MOST: u64 = 64 << 20;

/// Results by key.
#[derive(Debug)]
pub(super) struct Kept {
    path: PathBuf,
    file: File,
    done: BTreeMap<String, Value>,
}

impl Kept {
    /// `FOLDER/NAME.part.jsonl`.
    pub fn path(folder: &Path, name: &str) -> PathBuf {
        folder.join(format!("{name}.part.jsonl"))
    }

    /// Begins, or goes on with what is there; `plan` are the settings that must be the same.
    pub fn open(folder: &Path, name: &str, plan: &Value, resume: bool) -> Result<Kept, LabError> {
        let path = Kept::path(folder, name);
        let shown = path.display();
        let there = path.symlink_metadata().is_ok();
        if there && !resume {
            let why = "trials of an interrupted campaign: go on with --resume, or remove the file";
            return Err(LabError::Refused(format!("{shown}: {why}")));
        }
        let mut done = BTreeMap::new();
        if there {
            let bytes = newfile::read_own(&path, MOST)
                .map_err(|e| LabError::Refused(format!("{shown}: {e}")))?;
            let text = String::from_utf8_lossy(&bytes);
            let mut lines =
                text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            if lines.next().and_then(|head| head.get("plan").cloned()).as_ref() != Some(plan) {
                return Err(LabError::Refused(format!(
                    "{shown}: trials of another campaign; remove the file, or ask for the same"
                )));
            }
            for line in lines {
                if let (Some(key), Some(value)) =
                    (line.get("key").and_then(Value::as_str), line.get("value"))
                {
                    done.insert(key.to_owned(), value.clone());
                }
            }
        }
        let file = newfile::open_own(&path)
            .map_err(|e| LabError::Failed(anyhow::anyhow!("{shown}: {e}")))?;
        let mut kept = Kept { path, file, done };
        if !there {
            kept.line(&json!({"plan": plan}))?;
        }
        Ok(kept)
    }

    fn line(&mut self, value: &Value) -> Result<(), LabError> {
        let written = writeln!(self.file, "{value}").and_then(|()| self.file.flush());
        let shown = self.path.display();
        written.map_err(|e| LabError::Failed(anyhow::anyhow!("{shown}: {e}")))
    }

    /// The result of a trial that is done, or of `measure`, which is kept.
    pub fn or_measure(
        &mut self,
        key: &str,
        measure: impl FnOnce() -> Result<Value, LabError>,
    ) -> Result<Value, LabError> {
        if let Some(value) = self.done.get(key) {
            return Ok(value.clone());
        }
        let value = measure()?;
        self.line(&json!({"key": key, "value": value}))?;
        self.done.insert(key.to_owned(), value.clone());
        Ok(value)
    }

    /// The campaign is complete: the file goes.
    pub fn finish(self) {
        // What cannot be removed is refused by name at the next start.
        let _ = fs::remove_file(&self.path);
    }
}
