//! Whole heaps over TCP (`?framing=heap`), by turns with iperf3 with cubic and writes of 64 KiB: part of `lab spead lossless`.
//!
//! Both ends have a core of their own, the same as in the rows above (`taskset`). Rates are payload over the sender's time; a trial counts
//! only if the receiver had every heap. Refuses a program that gives no result. Source: `docs/spead.md`.

use std::path::Path;
use std::time::Duration;

use fullcount_child::{Asked, ChildEnd, RunningChild};
use serde_json::{Value, json};

use super::ground::SpeadGround;
use super::kept::Kept;
use super::lossless::{BisectionOrder, HEAP};
use super::tables::{IperfRun, failed};
use super::trial::port;
use crate::Tell;
use crate::error::LabError;
use crate::peers::iperf3;
use crate::record::{Figure, Record};

/// How long a receiver may take to open its port, and both to end.
const READY: Duration = Duration::from_secs(20);
/// What iperf3 writes at once, and its congestion control.
const WRITES: [&str; 4] = ["-l", "65536", "-C", "cubic"];
/// Iperf3 takes whole seconds.
const SECONDS: u64 = 2;

/// Sends whole heaps for so long; Gb/s.
fn ours(
    program: &Path,
    seconds: f64,
    cores: Option<[usize; 2]>,
    stop: Asked<'_>,
) -> Result<Value, LabError> {
    let port = port();
    let url = format!("spead+tcp://127.0.0.1:{port}?framing=heap");
    let ground = SpeadGround::Loopback;
    let start = |name: &str, words: &[&str]| {
        let mut command = ground.pinned(0, words[0] == "send", program, cores);
        command.args(words);
        RunningChild::start(name, command).map_err(|e| failed(name, e))
    };
    let mut receiver = start("fullcount receive", &["receive", &url, "--json"])?;
    let ready = receiver.wait_until(READY, stop, || ground.listens(0, true, port));
    ready.map_err(|e| failed("fullcount receive", e))?;
    let (size, time) = (HEAP.to_string(), format!("{seconds}s"));
    let words =
        ["send", "--to", &url, "--source", "heaps", "--heap-size", &size, "--duration", &time];
    let mut sender = start("fullcount send", &[&words[..], &["--json"]].concat())?;
    let read = |name: &str, ended: Option<ChildEnd>| {
        let ended = ended.ok_or_else(|| failed(name, "it does not end"))?;
        serde_json::from_str::<Value>(&ended.output).map_err(|e| failed(name, e))
    };
    let limit = Duration::from_secs_f64(seconds) + READY;
    let sent = sender.end(limit, stop).map_err(|e| failed("fullcount send", e))?;
    let sent = read("fullcount send", sent)?;
    let came = receiver.end(READY, stop).map_err(|e| failed("fullcount receive", e))?;
    let came = read("fullcount receive", came)?;
    let heaps = |value: &Value, path: &str| value.pointer(path).and_then(Value::as_u64);
    let (left, there) = (heaps(&sent, "/heaps/sent"), heaps(&came, "/heaps/received"));
    let rate = sent.pointer("/rates/gbps").and_then(Value::as_f64);
    match (rate, left == there) {
        (Some(gbps), true) => Ok(json!({"gbps": gbps, "heaps": left})),
        _ => Err(failed("whole heaps", format!("{left:?} sent, {there:?} received"))),
    }
}

/// Measures; rows of the table of rates.
///
/// # Errors
/// A program that gives no result.
pub(super) fn run(
    program: &Path,
    (order, cores): (&BisectionOrder, Option<[usize; 2]>),
    kept: &mut Kept,
    record: &mut Record,
    (tell, stop): (Tell, Asked<'_>),
) -> Result<String, LabError> {
    let raw_run = IperfRun { tcp: true, seconds: SECONDS, more: &WRITES, cores };
    let iperf3 = iperf3::version(Path::new("iperf3")).ok();
    let (mut heaps, mut raw) = (Vec::new(), Vec::new());
    for turn in 0..order.repeats {
        let key = format!("whole heaps {turn}");
        let value = kept.or_measure(&key, || ours(program, order.seconds.max(1.0), cores, stop))?;
        tell(&format!("{key}: {value}"));
        heaps.extend(value.get("gbps").and_then(Value::as_f64));
        record.row(json!({"whole_heaps": true, "peer": "fullcount", "turn": turn, "found": value}));
        if iperf3.is_none() {
            continue;
        }
        let key = format!("iperf3 cubic 64 KiB {turn}");
        let ground = SpeadGround::Loopback;
        let value = kept.or_measure(&key, || raw_run.measure(&ground, stop))?;
        tell(&format!("{key}: {value}"));
        raw.extend(value.get("gbps").and_then(Value::as_f64));
        record.row(json!({"whole_heaps": true, "peer": "iperf3", "turn": turn, "found": value}));
    }
    if let Some(version) = iperf3 {
        record.parameter("iperf3", version);
    }
    let figures = [Figure::of(&heaps, "Gb/s"), Figure::of(&raw, "Gb/s")];
    for (name, figure) in ["tcp-whole-heaps", "tcp-iperf3-64KiB"].into_iter().zip(&figures) {
        record.figure(name, figure);
    }
    let ratio = match &figures {
        [Some(ours), Some(theirs)] => format!("{:.2}", ours.value / theirs.value.max(1e-9)),
        _ => "–".to_owned(),
    };
    let [ours, theirs] = figures.map(|figure| Figure::cell(figure, 2, 1.0));
    Ok(format!(
        "\n| whole heaps over TCP, Gb/s | iperf3, cubic, writes of 64 KiB, Gb/s | ratio |\n|---|---|---|\n| {ours} | {theirs} | {ratio} |\n"
    ))
}
