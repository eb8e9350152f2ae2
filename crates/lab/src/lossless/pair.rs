//! One trial: `fullcount receive` and `fullcount send`, each on a core of its own, at the two ends of a
//! [`ReadyPlace`].
//!
//! The receiver is started first and says its port; the sender's end marks end it. Where every mark was
//! lost it is interrupted as a person would. Amounts are those of the two summaries. Refuses: children that
//! fail, hang or print no summary.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::place::{End, ReadyPlace};
use super::{Bench, LosslessTrial, OnCores, TrialPlan};
use crate::agent::PostError;
use crate::agent::engine::{Method, NAMES};
use crate::agent::order::{BufferSize, Extent, ReceiveOrder, Send};
use crate::agent::post::{LocalPost, last_summary};
use crate::agent::trial::{NothingBeside, PairError, TrialWait};
use crate::error::TrialError;
use fullcount_child::{Asked, ChildEnd, ChildError};

/// How long a receiver may take to open its port.
pub(crate) const READY: Duration = Duration::from_secs(10);
/// Send buffer, bytes: what `send` asks for by itself.
const SEND_BUFFER: u64 = 4 << 20;
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
    pub place: &'a ReadyPlace,
    /// Receive buffer, bytes.
    pub receive_buffer: u64,
    /// Core of the sender.
    pub send_core: Option<usize>,
    /// Core of the receiver.
    pub receive_core: Option<usize>,
    /// Ends a trial early.
    pub stop: Asked<'a>,
}

impl<'a> Pair<'a> {
    /// 64 MiB of receive buffer; receiver on core 1 and sender on core 2 where there are that many.
    pub fn new(program: PathBuf, place: &'a ReadyPlace, stop: Asked<'a>) -> Pair<'a> {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        Pair {
            program,
            place,
            receive_buffer: 64 << 20,
            send_core: (cores > 2).then_some(2),
            receive_core: (cores > 2).then_some(1),
            stop,
        }
    }

    /// Orders for the two ends; the sender's has no port yet.
    fn orders(
        &self,
        method: Method,
        size: usize,
        packets_per_s: Option<f64>,
        length: Duration,
    ) -> (ReceiveOrder, Send) {
        let receive = ReceiveOrder {
            bind: self.place.receiver(),
            port: 0,
            buffer: BufferSize::Bytes(self.receive_buffer),
            engine: method.receive,
            interface: None,
            core: self.receive_core,
            timestamps: false,
            busy_poll: false,
            // Its own end, in case this program is killed and can no longer end it.
            at_most_ms: (length + 6 * READY).as_millis() as u64,
        };
        let send = Send {
            to: SocketAddr::new(self.place.receiver(), 0),
            size,
            bits_per_s: packets_per_s.map(|rate| rate * (8 * size) as f64),
            extent: Extent::Milliseconds(length.as_millis() as u64),
            buffer: BufferSize::Bytes(SEND_BUFFER),
            engine: method.send,
            core: self.send_core,
        };
        (receive, send)
    }

    fn post(&self, end: End) -> LocalPost {
        let (inside, address) = (self.place.inside(end), self.place.receiver());
        LocalPost { program: self.program.clone(), inside, address }
    }
}

impl Bench for Pair<'_> {
    fn trial(&mut self, plan: &TrialPlan<'_>) -> Result<LosslessTrial, TrialError> {
        let &TrialPlan { contender, size, packets_per_s, length } = plan;
        let method = Method::named(contender).ok_or_else(|| TrialError::Result {
            program: contender.to_owned(),
            reason: format!("no such engine: {NAMES}"),
        })?;
        let orders = self.orders(method, size, packets_per_s, length);
        let (stop, sender) = (self.stop, length + GRACE);
        let waiting = TrialWait { stop, look: LOOK, sender, marks: MARKS, grace: GRACE };
        let (receive, send) = (self.post(End::Receiver), self.post(End::Sender));
        let made = waiting.trial::<PairError>((&receive, &send), orders, &mut NothingBeside)?;
        read(size, &made.sent.summary, &made.received.summary)
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
        let child = match e {
            PairError::Interrupted => ChildError::Interrupted,
            PairError::Stuck { verb, seconds } => {
                ChildError::Stuck { program: named(verb), seconds }
            }
            PairError::Post(PostError::Start { program, cause }) => {
                ChildError::Start { program, cause }
            }
            PairError::Post(PostError::NotReady { seconds, said }) => {
                ChildError::NotReady { program: named("receive"), seconds, said }
            }
            PairError::Post(PostError::Failed { verb, status, said, .. }) => {
                ChildError::Failed { program: named(verb), status, said }
            }
            PairError::Post(PostError::Summary { verb, reason }) => {
                return TrialError::Result { program: named(verb), reason };
            }
            PairError::Post(other) => {
                let (program, reason) = ("fullcount".to_owned(), other.to_string());
                return TrialError::Result { program, reason };
            }
        };
        child.into()
    }
}

/// The summary: one JSON object, alone on the last line of standard output.
pub(crate) fn summary(ended: ChildEnd) -> Result<Value, TrialError> {
    if !matches!(ended.status.code(), Some(0 | 3)) {
        return Err(ended.failed().into());
    }
    let program = ended.program;
    last_summary(&ended.output).map_err(|reason| TrialError::Result { program, reason })
}

/// A number of a summary.
fn number(verb: &str, summary: &Value, path: &str) -> Result<f64, TrialError> {
    let missing = || TrialError::Result {
        program: format!("fullcount {verb}"),
        reason: format!("{path} is missing in the summary"),
    };
    summary.pointer(path).and_then(Value::as_f64).ok_or_else(missing)
}

/// Cores that a program used over `seconds`, in itself and in the kernel on its behalf.
fn cores(summary: &Value, seconds: f64) -> Option<f64> {
    let part = |key| summary.pointer(key).and_then(Value::as_f64);
    Some((part("/cpu/user")? + part("/cpu/system")?) / seconds)
}

impl LosslessTrial {
    /// Read from the summaries of `fullcount send`, and of the `verb` that received, which counts what was `delivered` there.
    ///
    /// # Errors
    /// A number that is missing.
    pub(crate) fn of_summaries(
        size: usize,
        sent: &Value,
        (verb, received): (&str, &Value),
        delivered: &str,
    ) -> Result<LosslessTrial, TrialError> {
        let count = number("send", sent, "/packets/sent")?;
        let seconds = number("send", sent, "/seconds")?.max(1e-9);
        let delivered = number(verb, received, delivered)?;
        let heard = number(verb, received, "/seconds")?.max(1e-9);
        let softirq = received.pointer("/cpu/softirq").and_then(Value::as_f64);
        Ok(LosslessTrial {
            size,
            sent: count as u64,
            delivered: delivered as u64,
            sent_per_s: count / seconds,
            delivered_per_s: delivered / heard,
            send_cores: cores(sent, seconds),
            receive_cores: cores(received, heard),
            softirq_cores: softirq.map(|s| s / heard),
        })
    }
}

fn read(size: usize, sent: &Value, received: &Value) -> Result<LosslessTrial, TrialError> {
    LosslessTrial::of_summaries(size, sent, ("receive", received), "/packets/accepted")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::order::Order;
    use serde_json::json;

    #[test]
    fn orders_become_the_options_of_the_verbs() {
        let place = ReadyPlace::loopback();
        let mut pair = Pair::new("fullcount".into(), &place, &|| false);
        (pair.send_core, pair.receive_core) = (Some(2), None);
        let (mut receive, send) = pair.orders(Method::BOTH, 64, Some(1e6), Duration::from_secs(1));
        let options = |order: Order| {
            order.check().unwrap();
            order.options((None, None)).join(" ")
        };
        assert_eq!(
            options(Order::Receive(receive.clone())),
            "receive udp://127.0.0.1:0 --json --engine gro --receive-buffer 67108864B --duration 61000ms"
        );
        let to = "127.0.0.1:4711".parse().unwrap();
        assert_eq!(
            options(Order::Send(Send { to, ..send })),
            "send --to udp://127.0.0.1:4711?engine=gro&send_buffer=4194304B --source sequence \
             --size 64 --rate 512000000bps --duration 1000ms --json --core 2"
        );
        receive = pair.orders(Method::PACKET, 64, None, Duration::ZERO).0;
        assert!(receive.engine.takes_interface() && receive.bind.is_loopback());
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
        let place = ReadyPlace::loopback();
        let mut pair = Pair::new("false".into(), &place, &|| false);
        let (contender, length) = ("auto", Duration::from_millis(1));
        let plan = TrialPlan { contender, size: 64, packets_per_s: None, length };
        let e = pair.trial(&plan).unwrap_err();
        assert!(matches!(&e, TrialError::Child(ChildError::Failed { .. })), "{e}");
    }
}
