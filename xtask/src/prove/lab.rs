//! Proofs measure with `fullcount lab`: it starts the children, supervises them and writes a record, and the proof reads that.
//!
//! Refuses a campaign that ends without its record.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::command::{Job, Show};
use crate::{place, setup};

/// Builds the release binary and gives its path.
///
/// # Errors
///
/// What the host lacks, or the build's own end.
pub fn build() -> Result<PathBuf, String> {
    setup::ensure(&[setup::C_COMPILER, setup::CMAKE]).map_err(|missing| missing.to_string())?;
    let end = Job::cargo(&["build", "--release", "--package", "fullcount"]).run();
    if !end.ok {
        return Err(format!("cargo build: {}", end.phrase));
    }
    Ok(place::target().join("release/fullcount"))
}

/// The longest that a campaign may take; only what hangs ever meets it.
const LIMIT: Duration = Duration::from_secs(3 * 3600);

/// What a campaign left.
pub struct Campaigned {
    /// It ended with exit code 0: what it claims holds.
    pub held: bool,
    /// Its record.
    pub record: Value,
}

/// `fullcount lab WORDS…`. Its files go to a folder that is empty before, because older binaries know no `--overwrite`.
///
/// # Errors
///
/// It left no record; what it said last.
pub fn campaign(binary: &Path, words: &[&str]) -> Result<Campaigned, String> {
    let folder = place::target().join("prove/lab");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let (own, others) =
        words.split_at(words.iter().position(|word| *word == "--").unwrap_or(words.len()));
    let job = Job::new(binary).args(["lab"]).args(own).args(["--name", "proof", "--out"]);
    let mut last = String::new();
    let end = job.args([&folder]).args(others).limit(LIMIT).run_reading(|line| {
        line.clone_into(&mut last);
        Show::Yes
    });
    let record = fs::read_to_string(folder.join("proof.json")).ok();
    match record.and_then(|text| serde_json::from_str(&text).ok()) {
        Some(record) => Ok(Campaigned { held: end.ok, record }),
        None => Err(format!("fullcount lab {}: {}: {last}", words.join(" "), end.phrase)),
    }
}

/// The row of `fullcount lab bench WORDS…`.
///
/// # Errors
///
/// As of [`campaign`].
pub fn bench(binary: &Path, words: &[&str]) -> Result<Value, String> {
    let mut record = campaign(binary, &[&["bench"], words].concat())?.record;
    Ok(record["rows"][0].take())
}

/// How a child of a trial ended.
pub struct Ended<'a> {
    /// Its exit code; -1 if a signal ended it.
    pub code: &'a Value,
    /// The JSON object on the last line of its standard output.
    pub summary: &'a Value,
}

impl<'a> Ended<'a> {
    /// Reads a part of a row.
    pub fn of(part: &'a Value) -> Self {
        Self { code: &part["exit"], summary: &part["summary"] }
    }

    /// The number at `path` (a JSON pointer); 0 where the summary leaves it out.
    pub fn number(&self, path: &str) -> u64 {
        self.summary.pointer(path).and_then(Value::as_u64).unwrap_or(0)
    }

    /// The sum over the numbers of the object at `path`.
    pub fn sum(&self, path: &str) -> u64 {
        let object = self.summary.pointer(path).and_then(Value::as_object);
        object.into_iter().flat_map(|object| object.values()).filter_map(Value::as_u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_and_sums_are_found_in_a_summary() {
        let lost = json!({"link": 0, "socket": 7, "unknown": 2});
        let part = json!({"exit": 3, "summary": {"packets": {"lost": lost}, "balance": 3}});
        let ended = Ended::of(&part);
        assert_eq!((ended.code.as_i64(), ended.number("/balance")), (Some(3), 3));
        assert_eq!(ended.number("/packets/sent"), 0);
        assert_eq!(ended.sum("/packets/lost"), 9);
    }

    #[test]
    fn a_campaign_without_a_record_says_why() {
        let error = campaign(Path::new("/bin/ls"), &["udp"]).err().unwrap();
        assert!(error.starts_with("fullcount lab udp: exit status: 2: "), "{error}");
    }
}
