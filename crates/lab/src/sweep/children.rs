//! Runs one measurement: `fullcount receive` and `fullcount send` as child processes on loopback.
//!
//! The receiver is started first and its port awaited (in the kernel's table of UDP sockets), then the
//! sender runs for the set time and ends the stream with its end marks, upon which the receiver ends by
//! itself. Where every end mark was lost it is interrupted as a person would, and prints its summary.
//! Refuses: children that fail, hang or print no summary. Needs Linux (`/proc/net/udp`).

use std::io::Read;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Load, Measure, Outcome, SweepError};

/// How long the receiver may take to open its port.
const READY: Duration = Duration::from_secs(10);
/// How long a child may take to end after the sending time: buffers of 64 MiB drain in less than 0.1 s.
const GRACE: Duration = Duration::from_secs(5);
/// Between two looks at a child.
const LOOK: Duration = Duration::from_millis(10);

/// How the children are started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Children {
    /// The `fullcount` binary.
    pub program: PathBuf,
    /// Receive buffer as the option takes it.
    pub receive_buffer: String,
    /// Core of the receiver.
    pub receive_core: Option<usize>,
    /// Core of the sender.
    pub send_core: Option<usize>,
}

impl Children {
    /// 64 MiB of receive buffer; receiver on core 1 and sender on core 2 where there are that many.
    pub fn new(program: PathBuf) -> Children {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        Children {
            program,
            receive_buffer: "64MiB".to_owned(),
            receive_core: (cores > 2).then_some(1),
            send_core: (cores > 2).then_some(2),
        }
    }

    fn receive_options(&self, port: u16) -> Vec<String> {
        let mut options: Vec<String> = vec!["receive".into(), format!("udp://127.0.0.1:{port}")];
        options.extend(["--json", "--receive-buffer", &self.receive_buffer].map(String::from));
        options.extend(self.receive_core.iter().flat_map(|c| ["--core".into(), c.to_string()]));
        options
    }

    fn send_options(&self, port: u16, size: usize, load: Load, duration: Duration) -> Vec<String> {
        let mut options: Vec<String> = vec!["send".into(), "--to".into()];
        options.push(format!("udp://127.0.0.1:{port}"));
        options.extend(["--source", "sequence", "--size"].map(String::from));
        options.push(size.to_string());
        options.extend(load.rate().into_iter().flat_map(|r| ["--rate".to_owned(), r]));
        options.extend(["--duration".into(), format!("{}ms", duration.as_millis())]);
        options.push("--json".into());
        options.extend(self.send_core.iter().flat_map(|c| ["--core".into(), c.to_string()]));
        options
    }

    fn start(&self, verb: &'static str, options: &[String]) -> Result<Running, SweepError> {
        let mut command = Command::new(&self.program);
        command.args(options).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|cause| SweepError::Start {
            program: self.program.display().to_string(),
            cause,
        })?;
        let output = child.stdout.take().map(collect);
        let errors = child.stderr.take().map(collect);
        Ok(Running { verb, child, output, errors })
    }
}

impl Measure for Children {
    fn measure(
        &mut self,
        size: usize,
        load: Load,
        duration: Duration,
    ) -> Result<Outcome, SweepError> {
        let port = free_port().map_err(SweepError::Port)?;
        let mut receive = self.start("receive", &self.receive_options(port))?;
        receive.wait_for_port(port)?;
        let mut send = self.start("send", &self.send_options(port, size, load, duration))?;
        let status = send.wait(duration + GRACE)?;
        let status = status.ok_or_else(|| send.stuck(GRACE))?;
        let sent = send.summary(status)?;
        let (status, by_mark) = match receive.wait(GRACE)? {
            Some(status) => (status, true),
            None => {
                receive.interrupt();
                let status = receive.wait(GRACE)?;
                (status.ok_or_else(|| receive.stuck(2 * GRACE))?, false)
            }
        };
        let received = receive.summary(status)?;
        Outcome::read(&received, &sent, by_mark)
    }
}

/// Reads a pipe to its end beside the measurement, so that a child never waits for us.
fn collect(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // A pipe that breaks ends early; what came until then is judged by the caller.
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    })
}

/// A child; killed when dropped.
#[derive(Debug)]
struct Running {
    verb: &'static str,
    child: Child,
    output: Option<JoinHandle<Vec<u8>>>,
    errors: Option<JoinHandle<Vec<u8>>>,
}

impl Running {
    /// Its exit status, `None` if it still runs after `limit`.
    fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>, SweepError> {
        let start = Instant::now();
        loop {
            let status = self.child.try_wait().map_err(|cause| SweepError::Failed {
                verb: self.verb,
                status: cause.to_string(),
                said: String::new(),
            })?;
            if status.is_some() || start.elapsed() >= limit {
                return Ok(status);
            }
            std::thread::sleep(LOOK);
        }
    }

    fn wait_for_port(&mut self, port: u16) -> Result<(), SweepError> {
        let start = Instant::now();
        loop {
            if is_bound(port) {
                return Ok(());
            }
            if let Some(status) = self.wait(LOOK)? {
                return Err(self.failed(status));
            }
            if start.elapsed() >= READY {
                self.kill();
                let said = self.said();
                return Err(SweepError::NotReady { port, seconds: READY.as_secs(), said });
            }
        }
    }

    /// SIGINT, as from a terminal; a failure shows as a child that does not end.
    fn interrupt(&self) {
        let _ = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn stuck(&mut self, waited: Duration) -> SweepError {
        self.kill();
        SweepError::Stuck { verb: self.verb, seconds: waited.as_secs() }
    }

    fn said(&mut self) -> String {
        let bytes = self.errors.take().and_then(|t| t.join().ok()).unwrap_or_default();
        last_lines(&String::from_utf8_lossy(&bytes), 5)
    }

    fn failed(&mut self, status: ExitStatus) -> SweepError {
        SweepError::Failed { verb: self.verb, status: status.to_string(), said: self.said() }
    }

    fn summary(&mut self, status: ExitStatus) -> Result<Value, SweepError> {
        if !matches!(status.code(), Some(0 | 3)) {
            return Err(self.failed(status));
        }
        let bytes = self.output.take().and_then(|t| t.join().ok()).unwrap_or_default();
        last_summary(&String::from_utf8_lossy(&bytes))
            .map_err(|reason| SweepError::Summary { verb: self.verb, reason })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The summary: one JSON object, alone on the last line.
fn last_summary(output: &str) -> Result<Value, String> {
    let line = output.trim_end().lines().last().ok_or("standard output is empty")?;
    let summary: Value =
        serde_json::from_str(line).map_err(|e| format!("the last line is no JSON ({e})"))?;
    match summary.pointer("/schema").and_then(Value::as_str) {
        Some("fullcount/summary/1") => Ok(summary),
        Some(other) => Err(format!("schema {other} is not fullcount/summary/1")),
        None => Err("the last line has no schema".to_owned()),
    }
}

fn last_lines(text: &str, n: usize) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(n)..].join("; ")
}

fn free_port() -> std::io::Result<u16> {
    Ok(UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn is_bound(port: u16) -> bool {
    // Trying to bind it ourselves could snatch the port from the receiver; the table only tells.
    ["/proc/net/udp", "/proc/net/udp6"]
        .iter()
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .any(|table| table_has(&table, port))
}

/// True if a line's local address (second column, `HEX:PORT`) has the port.
fn table_has(table: &str, port: u16) -> bool {
    let end = format!(":{port:04X}");
    table.lines().skip(1).filter_map(|l| l.split_whitespace().nth(1)).any(|a| a.ends_with(&end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn children() -> Children {
        Children {
            program: "fullcount".into(),
            receive_buffer: "64MiB".into(),
            receive_core: Some(1),
            send_core: None,
        }
    }

    #[test]
    fn options_are_those_of_the_verbs() {
        let receive = children().receive_options(4711).join(" ");
        assert_eq!(receive, "receive udp://127.0.0.1:4711 --json --receive-buffer 64MiB --core 1");
        let ten = Load::Offered(10e9);
        let send = children().send_options(4711, 64, ten, Duration::from_secs(10)).join(" ");
        assert_eq!(
            send,
            "send --to udp://127.0.0.1:4711 --source sequence --size 64 --rate 10000000000bps \
             --duration 10000ms --json"
        );
        let flat = Load::FlatOut;
        let send = Children { send_core: Some(2), ..children() }
            .send_options(1, 64, flat, Duration::from_millis(1500))
            .join(" ");
        assert!(send.ends_with("--size 64 --duration 1500ms --json --core 2"), "{send}");
    }

    #[test]
    fn the_summary_is_the_last_line_and_must_say_so() {
        let ok = "hello\n{\"schema\": \"fullcount/summary/1\", \"verb\": \"send\"}\n";
        assert_eq!(last_summary(ok).unwrap()["verb"], "send");
        assert!(last_summary("").unwrap_err().contains("empty"));
        assert!(last_summary("{}").unwrap_err().contains("no schema"));
        assert!(last_summary("done").unwrap_err().contains("no JSON"));
        let other = "{\"schema\": \"fullcount/summary/2\"}";
        assert!(last_summary(other).unwrap_err().contains("summary/2"));
    }

    #[test]
    fn the_kernel_table_tells_which_ports_are_open() {
        let table = "  sl  local_address rem_address   st\n\
                     10: 0100007F:2328 00000000:2329 07 00000000:00000000\n";
        assert!(table_has(table, 9000) && !table_has(table, 9001) && !table_has("", 9000));
    }

    #[test]
    fn children_that_cannot_start_or_fail_say_why() {
        let mut missing = Children { program: "/nonexistent/fullcount".into(), ..children() };
        let second = Duration::from_secs(1);
        let e = missing.measure(64, Load::FlatOut, second).unwrap_err();
        assert!(matches!(&e, SweepError::Start { .. }), "{e}");
        // `false` takes any options and ends with 1: a receiver that failed at once.
        let mut failing = Children { program: "false".into(), ..children() };
        let e = failing.measure(64, Load::FlatOut, second).unwrap_err();
        assert!(matches!(&e, SweepError::Failed { verb: "receive", .. }), "{e}");
    }
}
