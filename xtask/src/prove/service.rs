//! A process under a proof's eyes (`fullcount` or its peer): started, watched, ended, summary read.
//!
//! Refuses a process that ends without its JSON summary, and one that says `panicked` anywhere.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fullcount_child::{ChildError, RunningChild};
use serde_json::Value;

use crate::command::Job;
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

/// A loopback port that nothing listens on at this moment.
///
/// # Errors
///
/// What the system said.
pub fn free_port() -> Result<u16, String> {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0");
    let address = socket.and_then(|socket| socket.local_addr());
    address.map(|address| address.port()).map_err(|error| format!("no free UDP port: {error}"))
}

/// The longest that a campaign of `lab` may take; only what hangs ever meets it.
const CAMPAIGN: Duration = Duration::from_secs(3600);

/// What `fullcount lab WORDS… --json` says: its record, and its exit code. Its files go to a folder that is empty before,
/// because older binaries know no `--overwrite`.
///
/// # Errors
///
/// It failed without a record.
pub fn lab(binary: &Path, words: &[&str]) -> Result<Ended, String> {
    let folder = place::target().join("prove/lab");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let out = folder.display().to_string();
    let words = [&["lab"], words, &["--json", "--name", "proof", "--out", &out]].concat();
    Service::start(binary, &words)?.finish(CAMPAIGN)
}

/// What a process left behind.
#[derive(Debug, Clone)]
pub struct Ended {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// The JSON object on the last line of its standard output.
    pub summary: Value,
}

impl Ended {
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

/// `run` with these options on a free port of loopback, and `send` of the same detector to it; `run` listens when `send` begins.
///
/// # Errors
///
/// One of them did not start.
pub fn run_and_send(
    binary: &Path,
    detector: &str,
    run: &[&str],
    send: &[&str],
) -> Result<(Service, Service), String> {
    let port = free_port()?;
    let url = format!("udp://127.0.0.1:{port}");
    let words = ["run", "--source", &url, "--detector", detector, "--json"];
    let mut receiver = Service::start(binary, &[&words[..], run].concat())?;
    receiver.until_bound(port, Duration::from_secs(30))?;
    let words = ["send", "--to", &url, "--source", detector, "--json"];
    let sender = Service::start(binary, &[&words[..], send].concat())?;
    Ok((receiver, sender))
}

/// Nobody asks to stop: Ctrl-C ends the proof with its children.
const GO_ON: &dyn Fn() -> bool = &|| false;

/// A running process; killed when dropped, so that a proof that gave up leaves nothing running.
pub struct Service {
    /// Program and verb, for complaints.
    name: String,
    child: RunningChild,
}

impl Service {
    /// Starts `BINARY ARGS…`.
    ///
    /// # Errors
    ///
    /// It did not start.
    pub fn start(binary: &Path, arguments: &[&str]) -> Result<Self, String> {
        let program = binary.file_name().unwrap_or_default().to_string_lossy();
        println!("$ {program} {}", arguments.join(" "));
        let name = format!("{program} {}", arguments.first().copied().unwrap_or_default());
        let mut command = Command::new(binary);
        command.args(arguments).current_dir(place::root());
        let child = RunningChild::start(&name, command).map_err(|error| error.to_string())?;
        Ok(Self { name, child })
    }

    /// Waits until the UDP port is bound on this host: whoever sends now is heard.
    ///
    /// # Errors
    ///
    /// It ended, or `limit` passed.
    pub fn until_bound(&mut self, port: u16, limit: Duration) -> Result<(), String> {
        let bound = || {
            let table = fs::read_to_string("/proc/net/udp").unwrap_or_default();
            socket_line(&table, port).is_some()
        };
        let waited = self.child.wait_until(limit, GO_ON, bound);
        waited.map_err(|error| format!("{error}; UDP port {port} was to be bound"))
    }

    /// Resident memory in bytes; `None` once it has ended.
    pub fn resident_bytes(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        resident(&status)
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.ended(Duration::ZERO), Ok(false))
    }

    /// Ctrl-C, as a person would end it.
    pub fn interrupt(&self) {
        self.child.interrupt();
    }

    /// Waits for the end and reads the summary.
    ///
    /// # Errors
    ///
    /// It did not end within `limit`, panicked, or left no summary.
    pub fn finish(mut self, limit: Duration) -> Result<Ended, String> {
        let told = |error: ChildError| error.to_string();
        // At least one look, also where it has ended already.
        let ended = self.child.end(limit.max(Duration::from_secs(1)), GO_ON).map_err(told)?;
        let ended = ended.ok_or_else(|| told(self.child.stuck(limit)))?;
        if let Some(line) = ended.panicked {
            return Err(format!("{}: {line}", self.name));
        }
        let last = ended.output.lines().next_back().unwrap_or_default();
        match serde_json::from_str(last) {
            Ok(summary) => Ok(Ended { code: ended.status.code(), summary }),
            Err(_) => {
                Err(format!("{}: {} without a summary: {}", self.name, ended.status, ended.said))
            }
        }
    }
}

/// The line of a bound port in the text of `/proc/net/udp`.
pub fn socket_line(table: &str, port: u16) -> Option<&str> {
    let ending = format!(":{port:04X}");
    table
        .lines()
        .find(|line| line.split_whitespace().nth(1).is_some_and(|local| local.ends_with(&ending)))
}

/// `VmRSS` in the text of `/proc/PID/status`, in bytes.
fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn resident_memory_is_read_in_bytes() {
        assert_eq!(resident("Name:\tx\nVmRSS:\t   20480 kB\nThreads:\t2\n"), Some(20_971_520));
        assert_eq!(resident("Name:\tx\n"), None);
    }

    #[test]
    fn numbers_and_sums_are_found_in_a_summary() {
        let lost = json!({"link": 0, "socket": 7, "unknown": 2});
        let summary = json!({"packets": {"lost": lost}, "balance": 3});
        let ended = Ended { code: Some(3), summary };
        assert_eq!(ended.number("/balance"), 3);
        assert_eq!(ended.number("/packets/sent"), 0);
        assert_eq!(ended.sum("/packets/lost"), 9);
    }

    #[test]
    fn a_bound_port_is_found_in_the_kernels_table() {
        let table = "   sl  local_address rem_address\n  \
                     17: 0100007F:2328 00000000:0000 07 00000000:00000000 00:00000000 0 9\n";
        assert!(socket_line(table, 9000).is_some_and(|line| line.ends_with(" 9")));
        assert_eq!(socket_line(table, 9001), None);
    }

    #[test]
    fn the_summary_is_the_last_line() {
        let shell = PathBuf::from("/bin/sh");
        let script = "echo started >&2; echo ledger; echo '{\"balance\": 0}'; exit 3";
        let service = Service::start(&shell, &["-c", script]).unwrap();
        let ended = service.finish(Duration::from_secs(10)).unwrap();
        assert_eq!((ended.code, ended.number("/balance")), (Some(3), 0));
    }

    #[test]
    fn a_panic_and_a_missing_summary_are_complaints() {
        let shell = PathBuf::from("/bin/sh");
        for (script, complaint) in [
            ("echo thread main panicked at x >&2; echo '{}'", "panicked at x"),
            ("echo ledger; exit 1", "exit status: 1 without a summary"),
        ] {
            let service = Service::start(&shell, &["-c", script]).unwrap();
            let error = service.finish(Duration::from_secs(10)).unwrap_err();
            assert!(error.contains(complaint), "{error}");
        }
    }
}
