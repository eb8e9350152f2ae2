//! One trial: `fullcount receive` and `fullcount send`, each on a core of its own, at the two ends of a
//! [`Place`].
//!
//! The receiver is started first and says its port; the sender's end marks end it. Where every mark was
//! lost it is interrupted as a person would. Amounts are those of the two summaries. Refuses: children that
//! fail, hang or print no summary.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::place::{End, Place};
use super::{Bench, OnCores, Trial};
use crate::agent::engine::{Engine, Method, NAMES, free_port};
use crate::agent::post::{LocalWork, interface_with, last_summary};
use crate::agent::trial::{PairError, Waiting};
use crate::agent::{PostError, Work as _};
use crate::child::{Asked, Ended, TrialError};

/// How long a receiver may take to open its port.
pub(crate) const READY: Duration = Duration::from_secs(10);
/// How long a receiver may take to see the end marks; buffers of 64 MiB drain in less than 0.1 s. Where all marks were lost,
/// each trial takes so long, so this is short.
const MARKS: Duration = Duration::from_secs(5);
/// How long a child may take to end after the sending time, or once it is told to: a busy host may keep a core from it.
const GRACE: Duration = Duration::from_secs(30);
/// Between two looks at a child.
const LOOK: Duration = Duration::from_millis(5);

/// How the two programs are started.
pub struct Pair<'a> {
    /// The `fullcount` binary.
    pub program: PathBuf,
    /// Where.
    pub place: &'a Place,
    /// Receive buffer as the option takes it.
    pub receive_buffer: String,
    /// Core of the sender.
    pub send_core: Option<usize>,
    /// Core of the receiver.
    pub receive_core: Option<usize>,
    /// Ends a trial early.
    pub stop: Asked<'a>,
}

impl<'a> Pair<'a> {
    /// 64 MiB of receive buffer; receiver on core 1 and sender on core 2 where there are that many.
    pub fn new(program: PathBuf, place: &'a Place, stop: Asked<'a>) -> Pair<'a> {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        Pair {
            program,
            place,
            receive_buffer: "64MiB".to_owned(),
            send_core: (cores > 2).then_some(2),
            receive_core: (cores > 2).then_some(1),
            stop,
        }
    }

    fn receive(&self, engine: Engine, at: &str, length: Duration) -> Vec<String> {
        // Its own end, in case this program is killed and can no longer end it.
        let most = format!("{}s", (length + 6 * READY).as_secs());
        let named: &[&str] = match engine.takes_interface() {
            true => &[],
            false => &["--engine", engine.name()],
        };
        let mut options: Vec<String> = ["receive", at, "--json"]
            .into_iter()
            .chain(named.iter().copied())
            .chain(["--receive-buffer", &self.receive_buffer, "--duration", &most])
            .map(str::to_owned)
            .collect();
        options.extend(self.receive_core.iter().flat_map(|c| ["--core".into(), c.to_string()]));
        options
    }

    /// URL that the receiver reads.
    fn url(&self, engine: Engine) -> Result<String, TrialError> {
        if !engine.takes_interface() {
            return Ok(format!("udp://{}:0", self.place.receiver()));
        }
        let wrong = |reason: String| TrialError::Result { program: "receive".into(), reason };
        let address = self.place.receiver();
        let name = interface_with(self.place.receiving(), address)
            .ok_or_else(|| wrong(format!("no interface has the address {address}")))?;
        let port = free_port(self.place.receiving(), address)
            .map_err(|e| wrong(format!("no UDP port is free at {address}: {e}")))?;
        Ok(format!("{}://{name}:{port}", engine.name()))
    }

    fn send(
        &self,
        engine: Engine,
        port: u16,
        size: usize,
        packets_per_s: Option<f64>,
        length: Duration,
    ) -> Vec<String> {
        let to = format!("udp://{}:{port}?engine={}", self.place.receiver(), engine.name());
        let duration = format!("{}ms", length.as_millis());
        let mut options: Vec<String> = ["send", "--to", &to, "--source", "sequence", "--size"]
            .into_iter()
            .chain([size.to_string().as_str(), "--duration", &duration, "--json"])
            .map(str::to_owned)
            .collect();
        options.extend(packets_per_s.iter().flat_map(|r| ["--rate".into(), format!("{r}pps")]));
        options.extend(self.send_core.iter().flat_map(|c| ["--core".into(), c.to_string()]));
        options
    }

    fn start(&self, end: End, options: &[String]) -> Result<LocalWork, TrialError> {
        let mut command = self.place.command(end, &self.program);
        command.args(options);
        let (verb, receives) = match end {
            End::Sender => ("send", None),
            End::Receiver => ("receive", Some(READY)),
        };
        Ok(LocalWork::start(verb, None, command, receives).map_err(PairError::from)?)
    }
}

impl Bench for Pair<'_> {
    fn trial(
        &mut self,
        contender: &str,
        size: usize,
        packets_per_s: Option<f64>,
        length: Duration,
    ) -> Result<Trial, TrialError> {
        let method = Method::named(contender).ok_or_else(|| TrialError::Result {
            program: contender.to_owned(),
            reason: format!("no such engine: {NAMES}"),
        })?;
        let at = self.url(method.receive)?;
        let mut receive = self.start(End::Receiver, &self.receive(method.receive, &at, length))?;
        let port = receive.port().unwrap_or_default();
        let options = self.send(method.send, port, size, packets_per_s, length);
        let mut send = self.start(End::Sender, &options)?;
        let (stop, sender) = (self.stop, length + GRACE);
        let waiting = Waiting { stop, look: LOOK, sender, marks: MARKS, grace: GRACE };
        let (sent, early) = waiting.sent(&mut receive, &mut send)?;
        let (received, _) = waiting.received(&mut receive, early)?;
        read(size, &sent.summary, &received.summary)
    }
}

impl OnCores for Pair<'_> {
    fn put_on(&mut self, receiver: usize, sender: usize) {
        (self.receive_core, self.send_core) = (Some(receiver), Some(sender));
    }
}

impl From<PairError> for TrialError {
    fn from(e: PairError) -> TrialError {
        let named = |verb: &str| format!("fullcount {verb}");
        match e {
            PairError::Interrupted => TrialError::Interrupted,
            PairError::Stuck { verb, seconds } => {
                TrialError::Stuck { program: named(verb), seconds }
            }
            PairError::Post(PostError::Start { program, cause }) => {
                TrialError::Start { program, cause }
            }
            PairError::Post(PostError::NotReady { seconds, said }) => {
                TrialError::NotReady { program: named("receive"), seconds, said }
            }
            PairError::Post(PostError::Failed { verb, status, said, .. }) => {
                TrialError::Failed { program: named(verb), status, said }
            }
            PairError::Post(PostError::Summary { verb, reason }) => {
                TrialError::Result { program: named(verb), reason }
            }
            PairError::Post(other) => {
                TrialError::Result { program: "fullcount".to_owned(), reason: other.to_string() }
            }
        }
    }
}

/// The summary: one JSON object, alone on the last line of standard output.
pub(crate) fn summary(ended: Ended) -> Result<Value, TrialError> {
    if !matches!(ended.status.code(), Some(0 | 3)) {
        return Err(ended.failed());
    }
    let program = ended.program;
    last_summary(&ended.output).map_err(|reason| TrialError::Result { program, reason })
}

/// A number of a summary.
pub(crate) fn number(verb: &str, summary: &Value, path: &str) -> Result<f64, TrialError> {
    let missing = || TrialError::Result {
        program: format!("fullcount {verb}"),
        reason: format!("{path} is missing in the summary"),
    };
    summary.pointer(path).and_then(Value::as_f64).ok_or_else(missing)
}

/// Cores that a program used over `seconds`, in itself and in the kernel on its behalf.
pub(crate) fn cores(summary: &Value, seconds: f64) -> Option<f64> {
    let part = |key| summary.pointer(key).and_then(Value::as_f64);
    Some((part("/cpu/user")? + part("/cpu/system")?) / seconds)
}

fn read(size: usize, sent: &Value, received: &Value) -> Result<Trial, TrialError> {
    let count = number("send", sent, "/packets/sent")?;
    let seconds = number("send", sent, "/seconds")?.max(1e-9);
    let delivered = number("receive", received, "/packets/accepted")? as u64;
    let heard = number("receive", received, "/seconds")?.max(1e-9);
    Ok(Trial {
        size,
        sent: count as u64,
        delivered,
        sent_per_s: count / seconds,
        delivered_per_s: delivered as f64 / heard,
        send_cores: cores(sent, seconds),
        receive_cores: cores(received, heard),
        softirq_cores: received.pointer("/cpu/softirq").and_then(Value::as_f64).map(|s| s / heard),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn options_are_those_of_the_verbs() {
        let place = Place::loopback();
        let mut pair = Pair::new("fullcount".into(), &place, &|| false);
        (pair.send_core, pair.receive_core) = (Some(2), None);
        let second = Duration::from_secs(1);
        assert_eq!(
            pair.receive(Engine::Gro, &pair.url(Engine::Gro).unwrap(), second).join(" "),
            "receive udp://127.0.0.1:0 --json --engine gro --receive-buffer 64MiB --duration 61s"
        );
        assert_eq!(
            pair.send(Engine::Plain, 4711, 64, Some(1e6), second).join(" "),
            "send --to udp://127.0.0.1:4711?engine=plain --source sequence --size 64 \
             --duration 1000ms --json --rate 1000000pps --core 2"
        );
        let ring = pair.url(Engine::Packet).unwrap();
        assert!(ring.starts_with("packet://lo:"), "{ring}");
        assert_eq!(
            pair.receive(Engine::Packet, "packet://lo:9", second).join(" "),
            "receive packet://lo:9 --json --receive-buffer 64MiB --duration 61s"
        );
        assert!(!pair.send(Engine::Auto, 1, 64, None, second).join(" ").contains("rate"));
    }

    #[test]
    fn a_trial_is_read_from_the_two_summaries() {
        let sent =
            json!({"seconds": 2.0, "packets": {"sent": 200}, "cpu": {"user": 1.0, "system": 0.5}});
        let received = json!({"seconds": 4.0, "packets": {"accepted": 190}, "cpu": {"user": 1.0,
            "system": 2.0, "softirq": 0.4}});
        let trial = read(64, &sent, &received).unwrap();
        assert_eq!((trial.sent, trial.delivered, trial.lost()), (200, 190, 10));
        assert_eq!((trial.sent_per_s, trial.delivered_per_s), (100.0, 47.5));
        assert_eq!((trial.send_cores, trial.receive_cores), (Some(0.75), Some(0.75)));
        assert_eq!(trial.softirq_cores, Some(0.1));
        let e = read(64, &json!({}), &received).unwrap_err().to_string();
        assert!(e.contains("fullcount send: /packets/sent is missing"), "{e}");
    }

    #[test]
    fn a_program_that_is_no_fullcount_is_told() {
        let place = Place::loopback();
        let mut pair = Pair::new("false".into(), &place, &|| false);
        let e = pair.trial("auto", 64, None, Duration::from_millis(1)).unwrap_err();
        assert!(matches!(&e, TrialError::Failed { .. }), "{e}");
    }
}
