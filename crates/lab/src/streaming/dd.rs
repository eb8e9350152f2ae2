//! What a disk takes by itself: `dd conv=fdatasync` of a file's bytes, which are in the page cache, beside that file.
//!
//! Bytes of a real file where there is one, not zeros: some disks do not write those. Refuses a `dd` that fails, with its words.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::StreamingTrial;
use crate::error::TrialError;
use fullcount_child::{Asked, RunningChild};

/// Longest copy.
const LIMIT: Duration = Duration::from_secs(1800);

fn words(from: &Path, to: &Path) -> Vec<String> {
    let file = |key: &str, path: &Path| format!("{key}={}", path.display());
    let words = ["bs=1M", "conv=fdatasync", "status=none"].map(str::to_owned);
    [file("if", from), file("of", to)].into_iter().chain(words).collect()
}

/// Copies `from` to `to` until it is on the disk, and removes it again.
///
/// # Errors
/// What `dd` says.
pub fn copy(from: &Path, to: &Path, stop: Asked<'_>) -> Result<StreamingTrial, TrialError> {
    written(&words(from, to), to, stop)
}

/// Writes so many MiB of zeros to `to` until they are on the disk, and removes them again: where there is no file yet.
///
/// # Errors
/// What `dd` says.
pub fn zeros(mib: u64, to: &Path, stop: Asked<'_>) -> Result<StreamingTrial, TrialError> {
    let mut all = words(Path::new("/dev/zero"), to);
    all.push(format!("count={mib}"));
    written(&all, to, stop)
}

fn written(words: &[String], to: &Path, stop: Asked<'_>) -> Result<StreamingTrial, TrialError> {
    let mut command = Command::new("dd");
    command.args(words);
    let begun = Instant::now();
    let mut child = RunningChild::start("dd", command)?;
    let ended = child.end(LIMIT, stop);
    let seconds = begun.elapsed().as_secs_f64();
    let bytes = std::fs::metadata(to).map_or(0, |meta| meta.len());
    // Gone before the next trial, whatever became of it.
    let _ = std::fs::remove_file(to);
    match ended? {
        None => Err(child.stuck(LIMIT).into()),
        Some(ended) if ended.status.success() => {
            Ok(StreamingTrial { bytes, seconds, ..StreamingTrial::default() })
        }
        Some(ended) => Err(ended.failed().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_as_large_as_its_file_and_is_gone_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        std::fs::write(&from, [7; 10_000]).unwrap();
        let trial = copy(&from, &to, &|| false).unwrap();
        assert!(trial.bytes == 10_000 && trial.seconds > 0.0, "{trial:?}");
        assert!(!to.exists());
        let trial = zeros(2, &to, &|| false).unwrap();
        assert!(trial.bytes == 2 << 20 && !to.exists(), "{trial:?}");
        let error = copy(&folder.path().join("missing"), &to, &|| false).unwrap_err();
        assert!(error.to_string().starts_with("dd: ended with"), "{error}");
    }
}
