//! One run of `fullcount send` to `fullcount receive`, on loopback or over a link, with keys of the URL at either end; what both say, and their processor time.
//!
//! Both ends have a core of their own (`taskset`). Over UDP without a receiver a socket that nobody reads is at the port, so that the sender's
//! core alone decides. Refuses a program that gives no result. Source: `docs/spead.md`.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::time::Duration;

use fullcount_child::{Asked, ChildEnd, RunningChild};
use serde_json::Value;

use super::cost::of_child;
use super::ground::SpeadGround;
use super::lossless::HEAP;
use super::rights::TrialRights;
use super::tables::failed;
use crate::error::LabError;

/// How long a receiver may take to open its port, and both to end.
const READY: Duration = Duration::from_secs(20);
/// Names of both ends in errors.
const SENDER: &str = "fullcount send";
const RECEIVER: &str = "fullcount receive";

/// What is run, and until when.
#[derive(Clone, Copy)]
pub(super) struct HeapsRunner<'a> {
    /// Where.
    pub ground: &'a SpeadGround,
    /// The `fullcount` binary.
    pub program: &'a Path,
    /// Cores of the sender and of the receiver; `None`: where the system puts them.
    pub cores: Option<[usize; 2]>,
    /// Ends a run early.
    pub stop: Asked<'a>,
}

/// How heaps of 4 MiB are sent.
#[derive(Debug, Clone, Default)]
pub(super) struct HeapsRun {
    /// Over TCP, otherwise UDP.
    pub tcp: bool,
    /// Keys of the sending URL, `KEY=VALUE` with `&` between them.
    pub to: String,
    /// Keys of the receiving URL; `None`: nobody reads.
    pub from: Option<String>,
    /// Gb/s; `None`: as fast as possible.
    pub rate: Option<f64>,
    /// How long heaps are sent, s.
    pub seconds: f64,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct HeapsRan {
    /// SPEAD Gb/s by the sender's time.
    pub gbps: f64,
    /// SPEAD bytes that were sent.
    pub bytes: u64,
    /// Heaps sent.
    pub sent: u64,
    /// Heaps that came whole; `None`: nobody read.
    pub received: Option<u64>,
    /// Packets sent, those included that were sent again.
    pub packets: u64,
    /// Packets sent again.
    pub again: u64,
    /// Processor time of the sender, s.
    pub sender_s: f64,
    /// Processor time of the receiver, s.
    pub receiver_s: Option<f64>,
}

fn url(scheme: &str, at: (Ipv4Addr, u16), keys: &str) -> String {
    let ((address, port), sign) = (at, if keys.is_empty() { "" } else { "?" });
    format!("spead+{scheme}://{address}:{port}{sign}{keys}")
}

impl HeapsRunner<'_> {
    fn start(&self, name: &str, words: &[&str]) -> Result<RunningChild, LabError> {
        // No buffers are asked for, and a congestion control may need the right, as for iperf3.
        let mut command = self.ground.pinned(
            (0, words[0] == "send"),
            self.program,
            self.cores,
            TrialRights::Plain,
        );
        command.args(words);
        RunningChild::start(name, command).map_err(|e| failed(name, e))
    }

    fn end(
        &self,
        name: &str,
        child: &mut RunningChild,
        limit: Duration,
    ) -> Result<(Value, f64), LabError> {
        let (ended, seconds) = of_child(|| child.end(limit, self.stop));
        let ended: Option<ChildEnd> = ended.map_err(|e| failed(name, e))?;
        let ended = ended.ok_or_else(|| failed(name, "it does not end"))?;
        let said = serde_json::from_str::<Value>(&ended.output).map_err(|e| failed(name, e))?;
        Ok((said, seconds))
    }

    /// # Errors
    /// A program that gives no result.
    pub fn run(&self, run: &HeapsRun) -> Result<HeapsRan, LabError> {
        let port = self.ground.free_port(0, run.tcp);
        let scheme = if run.tcp { "tcp" } else { "udp" };
        let at = (self.ground.address(0), port);
        let (mut receiver, _unread) = match &run.from {
            Some(keys) => {
                let mut receiver =
                    self.start(RECEIVER, &["receive", &url(scheme, at, keys), "--json"])?;
                let there = || self.ground.listens(0, run.tcp, port);
                receiver.wait_until(READY, self.stop, there).map_err(|e| failed(RECEIVER, e))?;
                (Some(receiver), None)
            }
            None => {
                let bound = self.ground.inside(0, false, || UdpSocket::bind(at));
                let socket = bound.and_then(|socket| socket).map_err(|e| failed("a socket", e))?;
                (None, Some(socket))
            }
        };
        let (to, size) = (url(scheme, at, &run.to), HEAP.to_string());
        let (time, rate) =
            (format!("{}s", run.seconds), run.rate.map(|rate| format!("{rate}Gbps")));
        let mut words = vec![
            "send",
            "--to",
            &to,
            "--source",
            "heaps",
            "--heap-size",
            &size,
            "--duration",
            &time,
            "--json",
        ];
        if let Some(rate) = &rate {
            words.extend(["--rate", rate]);
        }
        let mut sender = self.start(SENDER, &words)?;
        let limit = Duration::from_secs_f64(run.seconds) + READY;
        let (sent, sender_s) = self.end(SENDER, &mut sender, limit)?;
        let received = receiver.as_mut().map(|r| self.end(RECEIVER, r, READY)).transpose()?;
        let number = |value: &Value, path: &str| {
            let found = value.pointer(path).and_then(Value::as_u64);
            found.ok_or_else(|| failed("heaps", format!("no {path} in {value}")))
        };
        let gbps = sent.pointer("/rates/gbps").and_then(Value::as_f64);
        Ok(HeapsRan {
            gbps: gbps.ok_or_else(|| failed(SENDER, "no rate"))?,
            bytes: number(&sent, "/bytes/spead")?,
            sent: number(&sent, "/heaps/sent")?,
            received: received.as_ref().map(|(v, _)| number(v, "/heaps/received")).transpose()?,
            packets: number(&sent, "/packets/sent")?,
            again: number(&sent, "/packets/again")?,
            sender_s,
            receiver_s: received.map(|(_, seconds)| seconds),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stand_behind_a_question_mark_if_there_are_any() {
        let at = |port| (Ipv4Addr::LOCALHOST, port);
        assert_eq!(url("udp", at(8888), ""), "spead+udp://127.0.0.1:8888");
        assert_eq!(url("tcp", at(1), "a=1&b=2"), "spead+tcp://127.0.0.1:1?a=1&b=2");
    }
}
