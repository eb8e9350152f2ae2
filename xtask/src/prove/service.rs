//! A process under a proof's eyes (`fullcount` or its peer): started, watched, ended, summary read.
//!
//! Refuses a process that ends without its JSON summary, and one that says `panicked` anywhere.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

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

/// A running process.
pub struct Service {
    /// Program and verb, for complaints.
    name: String,
    child: Child,
    output: JoinHandle<String>,
    said: Receiver<String>,
    heard: Vec<String>,
}

impl Service {
    /// Starts `BINARY ARGS…`.
    ///
    /// # Errors
    ///
    /// It did not start.
    pub fn start(binary: &PathBuf, arguments: &[&str]) -> Result<Self, String> {
        let program = binary.file_name().unwrap_or_default().to_string_lossy();
        println!("$ {program} {}", arguments.join(" "));
        let mut child = Command::new(binary)
            .args(arguments)
            .current_dir(place::root())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", binary.display()))?;
        let stdout = child.stdout.take().ok_or("no standard output")?;
        let stderr = child.stderr.take().ok_or("no standard error")?;
        let output = thread::spawn(move || {
            let mut text = String::new();
            let _ = BufReader::new(stdout).read_to_string(&mut text);
            text
        });
        let (tell, said) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    break;
                }
            }
        });
        let name = format!("{program} {}", arguments.first().copied().unwrap_or_default());
        Ok(Self { name, child, output, said, heard: Vec::new() })
    }

    /// Waits until the UDP port is bound on this host: whoever sends now is heard.
    ///
    /// # Errors
    ///
    /// It ended, or `limit` passed.
    pub fn until_bound(&mut self, port: u16, limit: Duration) -> Result<(), String> {
        let deadline = Instant::now() + limit;
        while self.is_running() {
            let table = fs::read_to_string("/proc/net/udp").unwrap_or_default();
            if socket_line(&table, port).is_some() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let what = format!("did not bind port {port} in {} s", limit.as_secs());
                return Err(self.complaint(&what));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Err(self.complaint("ended early"))
    }

    /// Resident memory in bytes; `None` once it has ended.
    pub fn resident_bytes(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        resident(&status)
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Ctrl-C, as a person would end it.
    pub fn interrupt(&self) {
        let _ = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
    }

    /// Waits for the end and reads the summary.
    ///
    /// # Errors
    ///
    /// It did not end within `limit`, panicked, or left no summary.
    pub fn finish(mut self, limit: Duration) -> Result<Ended, String> {
        let deadline = Instant::now() + limit;
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(20)),
                Ok(None) => {
                    let what = format!("did not end within {} s", limit.as_secs());
                    return Err(self.complaint(&what));
                }
                Err(error) => return Err(self.complaint(&error.to_string())),
            }
        };
        // The channel closes with the process's standard error.
        while let Ok(line) = self.said.recv() {
            self.heard.push(line);
        }
        if let Some(line) = self.heard.iter().find(|line| line.contains("panicked")) {
            let line = line.clone();
            return Err(self.complaint(&line));
        }
        let output = std::mem::replace(&mut self.output, thread::spawn(String::new));
        let text = output.join().unwrap_or_default();
        let last = text.lines().next_back().unwrap_or_default();
        match serde_json::from_str(last) {
            Ok(summary) => Ok(Ended { code: status.code(), summary }),
            Err(_) => Err(self.complaint(&format!("{status} without a summary"))),
        }
    }

    /// What went wrong, with the last that the process said.
    fn complaint(&mut self, what: &str) -> String {
        self.heard.extend(self.said.try_iter());
        let tail: Vec<String> =
            self.heard.iter().rev().take(8).rev().map(|line| format!("\n  {line}")).collect();
        format!("{}: {what}{}", self.name, tail.concat())
    }
}

impl Drop for Service {
    /// A proof that gave up leaves nothing running.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
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
