//! iperf3 as a contender: one UDP trial at a rate or flat out, read from its own JSON.
//!
//! It gets what it takes: a core for each end (`-A`), the largest socket buffer that the host's limits allow
//! (`-w`), one datagram a write of the wanted size (`-l`). Its loss is what it reports (`lost_packets`);
//! what it had not yet read when the client ended is not held against it. Its trials are whole seconds.
//! Refuses: versions without JSON, sizes below 16 B, failures in iperf3's own words.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::agent::post::net_core;
use crate::error::TrialError;
use crate::lossless::place::{End, ReadyPlace};
use crate::lossless::{LosslessTrial, TrialPlan};
use fullcount_child::{Asked, ChildEnd, ChildError, RunningChild};

/// How long the server may take to open its port.
const READY: Duration = Duration::from_secs(10);
/// How long client and server may take to end after the sending time; they exchange results by TCP.
const GRACE: Duration = Duration::from_secs(20);
/// Command that installs it on Debian and its kin.
pub const INSTALL: &str = "apt-get install -y --no-install-recommends iperf3";

/// iperf3 cannot be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum Iperf3Error {
    #[error("{program} is not installed ({cause}): install it with '{INSTALL}' as root")]
    Missing { program: String, cause: std::io::Error },
    #[error("iperf3 is not installed and '{INSTALL}' failed: {said}")]
    Install { said: String },
    #[error("{program} is no iperf3: --version says '{said}'")]
    Other { program: String, said: String },
}

/// First line of `iperf3 --version`, for example `iperf 3.12 (cJSON 1.7.15)`.
///
/// # Errors
/// Not installed, or no iperf3.
pub fn version(program: &Path) -> Result<String, Iperf3Error> {
    let name = || program.display().to_string();
    let output = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .map_err(|cause| Iperf3Error::Missing { program: name(), cause })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let first = text.lines().next().unwrap_or_default().trim().to_owned();
    match first.starts_with("iperf 3") {
        true => Ok(first),
        false => Err(Iperf3Error::Other { program: name(), said: first }),
    }
}

/// Installs it with apt-get; only root can.
///
/// # Errors
/// What apt-get said.
pub fn install() -> Result<(), Iperf3Error> {
    let words: Vec<&str> = INSTALL.split(' ').collect();
    let run = Command::new(words[0])
        .args(&words[1..])
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .output();
    let said = match run {
        Ok(o) if o.status.success() => return Ok(()),
        Ok(o) => {
            let text = String::from_utf8_lossy(&o.stderr).into_owned();
            text.trim().lines().last().unwrap_or("no message").to_owned()
        }
        Err(e) => e.to_string(),
    };
    Err(Iperf3Error::Install { said })
}

/// How it is run.
pub struct Iperf3<'a> {
    /// Program.
    pub program: PathBuf,
    /// Where.
    pub place: &'a ReadyPlace,
    /// Core of the sender.
    pub send_core: Option<usize>,
    /// Core of the receiver.
    pub receive_core: Option<usize>,
    /// Socket buffer at both ends, bytes; iperf3's own choice if `None`.
    pub buffer: Option<u64>,
    /// Ends a trial early.
    pub stop: Asked<'a>,
}

/// Largest socket buffer that a program without privileges gets: the smaller of the two limits.
pub fn largest_buffer() -> Option<u64> {
    Some(net_core("rmem_max")?.min(net_core("wmem_max")?))
}

impl Iperf3<'_> {
    fn server(&self, port: u16) -> Vec<String> {
        let address = self.place.receiver().to_string();
        let words = ["-s", "-1", "-p", &port.to_string(), "-B", &address];
        words.map(str::to_owned).to_vec()
    }

    fn client(
        &self,
        port: u16,
        size: usize,
        packets_per_s: Option<f64>,
        length: Duration,
    ) -> Vec<String> {
        let address = self.place.receiver().to_string();
        // 0: as fast as it can.
        let bits = packets_per_s.map_or(0, |p| (p * (8 * size) as f64).round() as u64);
        let seconds = length.as_secs_f64().ceil().max(1.0) as u64;
        let mut words: Vec<String> = ["-c", &address, "-p", &port.to_string(), "-u", "-J", "-l"]
            .into_iter()
            .chain([size.to_string().as_str(), "-b", &bits.to_string(), "-t", &seconds.to_string()])
            .map(str::to_owned)
            .collect();
        words.extend(self.buffer.iter().flat_map(|b| ["-w".into(), b.to_string()]));
        if let (Some(send), Some(receive)) = (self.send_core, self.receive_core) {
            words.extend(["-A".into(), format!("{send},{receive}")]);
        }
        words
    }

    fn start(&self, end: End, words: &[String]) -> Result<RunningChild, ChildError> {
        let mut command = self.place.command(end, &self.program);
        command.args(words);
        let name = if end == End::Sender { "iperf3 client" } else { "iperf3 server" };
        RunningChild::start(name, command)
    }

    fn free_port(&self) -> u16 {
        // On loopback others listen too; in a namespace of our own nobody does.
        let listener = match self.place.network() {
            Some(_) => None,
            None => std::net::TcpListener::bind("127.0.0.1:0").ok(),
        };
        listener.and_then(|l| l.local_addr().ok()).map_or(5201, |at| at.port())
    }

    fn listens(&self, port: u16) -> bool {
        self.place.table(End::Receiver, "tcp").is_ok_and(|table| listening(&table, port))
    }

    /// One trial.
    ///
    /// # Errors
    /// What kept iperf3 from giving a result, in its own words.
    pub fn trial(&self, plan: &TrialPlan<'_>) -> Result<LosslessTrial, TrialError> {
        let &TrialPlan { size, packets_per_s, length, .. } = plan;
        let port = self.free_port();
        let mut server = self.start(End::Receiver, &self.server(port))?;
        server.wait_until(READY, self.stop, || self.listens(port))?;
        let words = self.client(port, size, packets_per_s, length);
        let mut client = self.start(End::Sender, &words)?;
        let ended = client.end(length + GRACE, self.stop)?;
        let ended = ended.ok_or_else(|| client.stuck(GRACE))?;
        let trial = read(size, &ended);
        // `-1`: the server ends with its client; what it says after that changes nothing.
        if server.end(GRACE, self.stop)?.is_none() {
            return Err(server.stuck(GRACE).into());
        }
        match trial {
            Ok(trial) => Ok(trial),
            Err(_) if !ended.status.success() && error_of(&ended.output).is_none() => {
                Err(ended.failed().into())
            }
            Err(e) => Err(e),
        }
    }
}

/// True if a table of TCP sockets has a listener (state `0A`) on the port.
fn listening(table: &str, port: u16) -> bool {
    let end = format!(":{port:04X}");
    table.lines().skip(1).any(|line| {
        let mut words = line.split_whitespace().skip(1);
        words.next().is_some_and(|a| a.ends_with(&end)) && words.nth(1) == Some("0A")
    })
}

fn error_of(output: &str) -> Option<String> {
    let json: Value = serde_json::from_str(output).ok()?;
    Some(json.get("error")?.as_str()?.to_owned())
}

fn read(size: usize, ended: &ChildEnd) -> Result<LosslessTrial, TrialError> {
    let wrong = |reason: String| TrialError::Result { program: "iperf3 client".into(), reason };
    let json: Value =
        serde_json::from_str(&ended.output).map_err(|e| wrong(format!("no JSON ({e})")))?;
    if let Some(error) = json.get("error").and_then(Value::as_str) {
        return Err(wrong(error.to_owned()));
    }
    let number = |path: &str| {
        let value = json.pointer(path).and_then(Value::as_f64);
        value.ok_or_else(|| wrong(format!("{path} is missing in its JSON")))
    };
    let sent = number("/end/sum_sent/packets")?;
    let lost = number("/end/sum/lost_packets")?.max(0.0);
    let seconds = number("/end/sum_sent/seconds")?.max(1e-9);
    let heard = number("/end/sum_received/seconds")?.max(1e-9);
    let cores = |who: &str| {
        let path = format!("/end/cpu_utilization_percent/{who}_total");
        json.pointer(&path).and_then(Value::as_f64).map(|percent| percent / 100.0)
    };
    let delivered = (sent - lost).max(0.0);
    Ok(LosslessTrial {
        size,
        sent: sent as u64,
        delivered: delivered as u64,
        sent_per_s: sent / seconds,
        delivered_per_s: number("/end/sum_received/bytes")? / size as f64 / heard,
        send_cores: cores("host"),
        receive_cores: cores("remote"),
        softirq_cores: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::os::unix::process::ExitStatusExt;

    fn ended(output: &str, code: i32) -> ChildEnd {
        let status = std::process::ExitStatus::from_raw(code << 8);
        ChildEnd {
            program: "iperf3".into(),
            status,
            output: output.into(),
            said: String::new(),
            lines: vec![],
            panicked: None,
        }
    }

    #[test]
    fn a_trial_is_read_from_its_json() {
        // Keys as iperf 3.12 writes them.
        let text = json!({"end": {
            "sum": {"packets": 1000, "lost_packets": 10},
            "sum_sent": {"packets": 1000, "seconds": 2.0},
            "sum_received": {"packets": 1000, "bytes": 63_360, "seconds": 2.0},
            "cpu_utilization_percent": {"host_total": 50.0, "remote_total": 25.0},
        }});
        let trial = read(64, &ended(&text.to_string(), 0)).unwrap();
        assert_eq!((trial.sent, trial.delivered, trial.lost()), (1000, 990, 10));
        assert_eq!((trial.sent_per_s, trial.delivered_per_s), (500.0, 495.0));
        assert_eq!((trial.send_cores, trial.receive_cores), (Some(0.5), Some(0.25)));
        let e = read(64, &ended(r#"{"error": "unable to connect"}"#, 1)).unwrap_err();
        assert_eq!(e.to_string(), "iperf3 client: unable to connect");
        let e = read(64, &ended("{}", 0)).unwrap_err().to_string();
        assert!(e.contains("/end/sum_sent/packets is missing"), "{e}");
        assert!(
            read(64, &ended("Segmentation fault", 139)).unwrap_err().to_string().contains("JSON")
        );
    }

    #[test]
    fn options_are_iperf3s() {
        let place = ReadyPlace::loopback();
        let iperf3 = Iperf3 {
            program: "iperf3".into(),
            place: &place,
            send_core: Some(2),
            receive_core: Some(1),
            buffer: Some(4_194_304),
            stop: &|| false,
        };
        assert_eq!(iperf3.server(5201).join(" "), "-s -1 -p 5201 -B 127.0.0.1");
        assert_eq!(
            iperf3.client(5201, 1472, Some(1e5), Duration::from_millis(1200)).join(" "),
            "-c 127.0.0.1 -p 5201 -u -J -l 1472 -b 1177600000 -t 2 -w 4194304 -A 2,1"
        );
        assert!(iperf3.client(1, 64, None, Duration::ZERO).join(" ").contains("-b 0 -t 1"));
    }

    #[test]
    fn a_listener_is_found_in_the_kernels_table() {
        let table = "  sl  local_address rem_address   st tx_queue\n\
                     0: 0100007F:1451 00000000:0000 0A 00000000\n\
                     1: 0100007F:1452 00000000:0000 01 00000000\n";
        assert!(listening(table, 5201) && !listening(table, 5202) && !listening("", 5201));
    }

    #[test]
    fn what_is_not_iperf3_is_told() {
        let e = version(Path::new("/nonexistent/iperf3")).unwrap_err().to_string();
        assert!(e.contains("/nonexistent/iperf3") && e.contains(INSTALL), "{e}");
        let e = version(Path::new("echo")).unwrap_err();
        assert!(matches!(&e, Iperf3Error::Other { .. }), "{e}");
    }
}
