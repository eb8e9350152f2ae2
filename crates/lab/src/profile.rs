//! What a core spends its time on while a trial runs: `perf record` on that core, read back symbol by symbol.
//!
//! Sampling is by the timer where a virtual machine has no hardware counters. The kernel's symbols need root.
//! Refuses: a host without `perf`. Source: `perf-record(1)`, `perf-report(1)`.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fullcount_io::newfile;
use serde::{Deserialize, Serialize};

use fullcount_child::{ChildError, RunningChild};

/// Samples per second: prime to the timer's 100, 250 and 1000, so that no tick is always or never seen.
const PER_SECOND: &str = "1999";
/// Symbols that are kept; the rest is one line.
const KEPT: usize = 20;
/// Name of that line.
pub(crate) const OTHERS: &str = "all others";

/// Time between two interrupts: longer than perf takes to write the end of a file of some seconds.
const AGAIN: Duration = Duration::from_secs(3);
/// Time after which perf is killed, and the longest wait for its beginning.
const PATIENCE: Duration = Duration::from_secs(30);
/// What is said once samples are taken.
const BEGUN: &str = "fullcount-perf-samples";

/// No profile.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum ProfileError {
    #[error("perf: cannot be started ({0}); on Debian: apt-get install linux-perf")]
    Missing(std::io::Error),
    #[error("perf {what}: {said}")]
    Failed { what: &'static str, said: String },
}

/// Time in one function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Symbol {
    /// Share of the core's busy samples, percent.
    pub percent: f64,
    /// Function; `kernel` ones are marked by perf with `[k]`.
    pub name: String,
}

/// Says whether there is a `perf`.
///
/// # Errors
/// There is none.
pub fn available() -> Result<(), ProfileError> {
    let mut command = Command::new("perf");
    command.arg("version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().map(drop).map_err(ProfileError::Missing)
}

/// A recording under way; ends with its file when it is dropped.
#[derive(Debug)]
pub struct ProfileRecording {
    child: RunningChild,
    file: PathBuf,
    /// Holds the file.
    _scratch: newfile::Scratch,
}

impl ProfileRecording {
    /// Begins on `core`, and returns once samples are taken: on a busy host perf needs longer for that than a short
    /// trial lasts.
    ///
    /// # Errors
    /// No `perf`.
    pub fn begin(core: usize) -> Result<ProfileRecording, ProfileError> {
        // perf opens the file by its name, in a folder that everybody may write to: so in one of our own there.
        let scratch = newfile::Scratch::make(&std::env::temp_dir(), "fullcount-perf");
        let scratch = scratch.map_err(ProfileError::Missing)?;
        let file = scratch.path().join("samples");
        let mut command = Command::new("perf");
        command.args(["record", "-q", "-F", PER_SECOND, "-C", &core.to_string(), "-o"]).arg(&file);
        // perf starts the command once its counters run, so a line from it is the sign of that. Its own end is in
        // case nobody ends it.
        let told = format!("echo {BEGUN} >&2; exec sleep 3600 >/dev/null 2>&1");
        command.args(["--", "sh", "-c", &told]);
        let mut child = RunningChild::start("perf", command).map_err(|e| match e {
            ChildError::Start { cause, .. } => ProfileError::Missing(cause),
            other => ProfileError::Failed { what: "record", said: other.to_string() },
        })?;
        // Without the line perf has ended: `end` tells why.
        let began = |line: &str| (line == BEGUN).then_some(());
        drop(child.wait_for_line(PATIENCE, &|| false, began));
        Ok(ProfileRecording { child, file, _scratch: scratch })
    }

    /// Ends it and reads it.
    ///
    /// # Errors
    /// What `perf` said.
    pub fn end(mut self) -> Result<Vec<Symbol>, ProfileError> {
        self.stop();
        let mut command = Command::new("perf");
        command.args([
            "report",
            "--stdio",
            "--no-children",
            "-g",
            "none",
            "-F",
            "overhead,sym",
            "-i",
        ]);
        let out = command.arg(&self.file).output().map_err(ProfileError::Missing)?;
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let symbols = read(&text);
        if symbols.is_empty() {
            let said = String::from_utf8_lossy(&out.stderr);
            let said = said.lines().last().unwrap_or("no samples").to_owned();
            return Err(ProfileError::Failed { what: "report", said });
        }
        Ok(symbols)
    }

    fn stop(&mut self) {
        // perf writes its file's end upon SIGINT; `end` finds a file without one. A SIGINT that comes while perf is
        // still setting itself up is forgotten by it, so it gets another one until it has ended.
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            self.child.interrupt();
            if self.child.ended(AGAIN).unwrap_or(true) {
                break;
            }
        }
    }
}

impl Drop for ProfileRecording {
    fn drop(&mut self) {
        self.stop();
        drop(std::fs::remove_file(&self.file));
    }
}

/// Lines such as `  53.26%  [k] _copy_to_iter`, most first; the idle loop is not work.
fn read(text: &str) -> Vec<Symbol> {
    let lines = text.lines().filter(|l| !l.starts_with('#')).filter_map(|line| {
        let (percent, name) = line.trim().split_once('%')?;
        Some(Symbol { percent: percent.trim().parse().ok()?, name: name.trim().to_owned() })
    });
    let mut all: Vec<Symbol> = lines.filter(|s| !idle(&s.name)).collect();
    let busy: f64 = all.iter().map(|s| s.percent).sum();
    if all.len() > KEPT {
        let rest = all.drain(KEPT..).map(|s| s.percent).sum();
        all.push(Symbol { percent: rest, name: OTHERS.into() });
    }
    // Rounded last: of thousands of functions with 0.01 % each more than 1 % went amiss.
    all.iter_mut().for_each(|s| s.percent = (s.percent / busy * 1e4).round() / 1e2);
    all
}

fn idle(name: &str) -> bool {
    ["pv_native_safe_halt", "default_idle", "cpuidle", "intel_idle", "acpi_idle", "mwait_idle"]
        .iter()
        .any(|i| name.contains(i))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_busy_time() {
        let text = "# Overhead  Symbol\n#\n    50.00%  [k] pv_native_safe_halt\n    40.00%  [k] _copy_to_iter\n\
                    \n    10.00%  [.] fullcount_io::udp::receive::UdpSource::call\n";
        let read = read(text);
        assert_eq!(read.len(), 2);
        assert_eq!((read[0].percent, read[0].name.as_str()), (80.0, "[k] _copy_to_iter"));
        assert_eq!(read[1].percent, 20.0);
    }

    #[test]
    fn what_is_not_kept_is_one_line() {
        let text: String = (0..50).map(|i| format!("  2.00%  [k] f{i}\n")).collect();
        let read = read(&text);
        assert_eq!(read.len(), KEPT + 1);
        assert_eq!(read[KEPT].name, "all others");
        assert!((read[KEPT].percent - 60.0).abs() < 1e-9);
    }

    #[test]
    fn many_small_shares_add_up() {
        let small: String = (0..4000).map(|i| format!("  0.01%  [.] f{i}\n")).collect();
        let read = read(&format!("  50.00%  [.] f\n  10.00%  [k] default_idle\n{small}"));
        let all: f64 = read.iter().map(|s| s.percent).sum();
        assert!((all - 100.0).abs() < 0.1, "{all}");
    }
}
