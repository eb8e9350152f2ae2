//! `lab spead tuning`: the rate tuner on a link whose rate it does not know, and that changes in the midst.
//!
//! A real sender and a real receiver over UDP in two namespaces, a token bucket between them, reports on a back-channel. Twice: the
//! sender's socket takes more than the link's queue, so that the link drops as a switch would; and it takes less, so that the sender
//! waits as before an interface of its own. Written down: every decision, and from when on the rate was within 5 % of the link's. Needs root.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use fullcount_child::Asked as Stop;
use fullcount_spead::feedback::{
    FeedbackMessage, RateTuner, SentSoFar, TunerConfig, TunerDecision,
};
use fullcount_spead::receive::{HeapReceiver, NumberSequence, ReceiverConfig};
use fullcount_spead::send::{
    CutRules, HeapSender, NextPacket, OutHeap, PaceSettings, PayloadSize, SendHow, SenderConfig,
};
use serde_json::json;

use super::ground::{SpeadGround, spead_share};
use super::memo;
use crate::error::LabError;
use crate::plot::{Chart, ChartLine, Dot, PlotAxis, Stroke};
use crate::record::Record;

/// Between two reports.
const REPORT: Duration = Duration::from_millis(50);
/// Heap of this experiment, bytes: many of them a second, also on slow links.
const HEAP: usize = 60 * 8904;
/// How near the link's rate is found.
const NEAR: f64 = 0.05;
/// Share of the time after it was found: the tuner probes, and reacts to a loss.
const MOSTLY: f64 = 0.9;
/// Time to find it, s.
const LIMIT: f64 = 10.0;
const PORT: u16 = 17_140;
/// Receive buffer, bytes.
const RECEIVE_BUFFER: usize = 4 << 20;

/// Where the narrow link is, seen from the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Narrow {
    /// Behind a switch: it drops.
    Behind,
    /// The sender's own: the socket waits.
    Own,
}

impl Narrow {
    fn name(self) -> &'static str {
        match self {
            Narrow::Behind => "behind a switch",
            Narrow::Own => "the sender's own",
        }
    }

    /// Send buffer of the socket, bytes: above or below the 5 ms of the link's queue.
    fn send_buffer(self) -> usize {
        match self {
            Narrow::Behind => 4 << 20,
            Narrow::Own => 32 << 10,
        }
    }
}

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct TuningOrder {
    /// Rates of the link, Gb/s, one after the other.
    pub rates: Vec<f64>,
    /// Time at each of them.
    pub each: Duration,
}

/// A change of rate.
#[derive(Debug, Clone, Copy)]
struct Change {
    at: f64,
    rate: f64,
    why: &'static str,
    loss: f64,
}

fn words(e: impl std::fmt::Display) -> LabError {
    LabError::Failed(anyhow::anyhow!("{e}"))
}

fn why(decision: &TunerDecision) -> &'static str {
    use fullcount_spead::feedback::RateReason as R;
    match decision.why {
        R::Good => "good",
        R::Loss => "loss",
        R::Lagging => "lagging",
        R::HeldBack => "held back",
        R::Found => "found",
        R::Probing => "probing",
        R::ProbeFailed => "probe failed",
        R::Silence => "silence",
    }
}

/// Puts heaps together and reports, until it is over.
fn receive(socket: &UdpSocket, back: SocketAddr, over: &AtomicBool) -> std::io::Result<u64> {
    let sequence = Some(NumberSequence { first: 1, step: 1 });
    let config =
        ReceiverConfig { sequence, heap_timeout_ns: 100_000_000, ..ReceiverConfig::default() };
    let made = HeapReceiver::new(config);
    let mut receiver = made.map_err(|e| std::io::Error::other(e.to_string()))?;
    let (begun, mut due) = (Instant::now(), REPORT);
    let mut buffer = vec![0; 65_536];
    socket.set_read_timeout(Some(Duration::from_millis(5)))?;
    while !over.load(Relaxed) {
        match socket.recv(&mut buffer) {
            Ok(n) => {
                receiver.push(begun.elapsed().as_nanos() as u64, &buffer[..n]);
                while receiver.pop().is_some() {}
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(e) => return Err(e),
        }
        if begun.elapsed() >= due {
            due = begun.elapsed() + REPORT;
            let now = begun.elapsed().as_nanos() as u64;
            receiver.expire(now);
            let report = FeedbackMessage::Report(receiver.report(now)).emit();
            // A report that does not get through is followed by the next one.
            let _ = socket.send_to(&report, back);
        }
    }
    Ok(receiver.statistics().heaps)
}

/// Sends as the tuner says; its decisions.
fn send(
    socket: &UdpSocket,
    to: SocketAddr,
    length: Duration,
    stop: Stop<'_>,
) -> Result<Vec<Change>, String> {
    let config = TunerConfig {
        start_rate: 2e6,
        max_rate: 1.25e9,
        packet_bytes: memo::PACKET as u64,
        ..TunerConfig::default()
    };
    let mut tuner = RateTuner::new(config, 0).map_err(|e| e.to_string())?;
    let pace = PaceSettings { rate: tuner.rate(), ..PaceSettings::default() };
    let cut = CutRules { max_packet_size: memo::PACKET, payload: PayloadSize::Fill };
    let config = SenderConfig { cut, pace, ..SenderConfig::default() };
    let mut sender = HeapSender::new(config).map_err(|e| e.to_string())?;
    let data: Arc<[u8]> = vec![5; HEAP].into();
    let (begun, mut packet, mut buffer) = (Instant::now(), Vec::new(), vec![0; 2048]);
    let mut changes = Vec::new();
    socket.set_nonblocking(true).map_err(|e| e.to_string())?;
    while begun.elapsed() < length && !stop() {
        while sender.space() > 0 {
            let mut heap = OutHeap::default();
            heap.add_item(0x1000, data.clone(), false);
            sender.send(heap, SendHow::default()).map_err(|e| format!("{e:?}"))?;
        }
        let now = begun.elapsed().as_nanos() as u64;
        packet.clear();
        match sender.next_packet(now, &mut packet) {
            NextPacket::Packet { .. } => {
                // A full queue of the link's own is what the tuner has to find out; then the packet waits here.
                while let Err(e) = socket.send_to(&packet, to) {
                    match e.kind() {
                        ErrorKind::WouldBlock | ErrorKind::Interrupted => {
                            std::thread::sleep(Duration::from_micros(50))
                        }
                        ErrorKind::ConnectionRefused => break,
                        _ if e.raw_os_error() == Some(105) => break,
                        _ => return Err(e.to_string()),
                    }
                }
            }
            NextPacket::Wait(due) => {
                let pause =
                    Duration::from_nanos(due.saturating_sub(now)).min(Duration::from_millis(2));
                std::thread::sleep(pause);
            }
            NextPacket::Idle => {}
        }
        while sender.pop_completion().is_some() {}
        while let Ok(n) = socket.recv(&mut buffer) {
            if let Ok(FeedbackMessage::Report(report)) = FeedbackMessage::parse(&buffer[..n]) {
                let now = begun.elapsed().as_nanos() as u64;
                let bytes = sender.counts().packet_bytes;
                tuner.report(now, report, SentSoFar { bytes, behind_ns: sender.behind_ns(now) });
            }
        }
        tuner.tick(begun.elapsed().as_nanos() as u64);
        sender.set_pace(tuner.rate(), tuner.burst_size());
        while let Some(d) = tuner.pop_decision() {
            changes.push(Change {
                at: d.time_ns as f64 / 1e9,
                rate: d.to * 8.0 / 1e9,
                why: why(&d),
                loss: d.loss,
            });
        }
    }
    Ok(changes)
}

/// Rate of the token bucket at the link's first end from here on.
fn shape(ground: &SpeadGround, gbps: f64) -> Result<(), LabError> {
    let SpeadGround::Links(network) = ground else { return Ok(()) };
    let bits = (gbps * 1e9) as u64;
    let (rate, limit) = (format!("{bits}bit"), (bits / 8 / 200).max(64 * 1024).to_string());
    let burst = (bits / 8 / 4000).max(18_100).to_string();
    let interface = network.interface(0);
    let words = [
        "qdisc", "change", "dev", &interface, "root", "tbf", "rate", &rate, "burst", &burst,
        "limit", &limit,
    ];
    network.tc(0, words).map(drop).map_err(words_of)
}

fn words_of(e: crate::namespace::NamespaceError) -> LabError {
    LabError::Failed(e.into())
}

/// From `from` on, the time after which the rate is within [`NEAR`] of `best` for [`MOSTLY`] of what is left until `to`, s.
fn found(changes: &[Change], best: f64, from: f64, to: f64) -> Option<f64> {
    let near = |rate: f64| ((1.0 - NEAR) * best..=(1.0 + NEAR) * best).contains(&rate);
    let before = changes.iter().rev().find(|c| c.at <= from).map(|c| (from, c.rate));
    let within = changes.iter().filter(|c| c.at > from && c.at < to).map(|c| (c.at, c.rate));
    let starts: Vec<(f64, f64)> = before.into_iter().chain(within).collect();
    let ends = starts.iter().skip(1).map(|start| start.0).chain([to]);
    let pieces: Vec<(f64, f64, bool)> =
        starts.iter().zip(ends).map(|(&(at, rate), end)| (at, end, near(rate))).collect();
    let settled = |n: &usize| {
        let (at, _, is) = pieces[*n];
        let good: f64 = pieces[*n..].iter().filter(|p| p.2).map(|p| p.1 - p.0).sum();
        is && good >= MOSTLY * (to - at)
    };
    (0..pieces.len()).find(settled).map(|n| pieces[n].0 - from)
}

/// What came of it.
#[derive(Debug)]
pub struct TuningFound {
    /// Table in Markdown.
    pub text: String,
    /// The rate over time.
    pub figure: Option<Chart>,
    /// Rates that were not found in time.
    pub missed: Vec<String>,
}

/// Measures.
///
/// # Errors
/// No namespaces, or the system's words.
pub fn run(
    order: &TuningOrder,
    record: &mut Record,
    stop: Stop<'_>,
) -> Result<TuningFound, LabError> {
    let mut found = TuningFound { text: String::new(), figure: None, missed: Vec::new() };
    for narrow in [Narrow::Behind, Narrow::Own] {
        let changes = one(order, narrow, stop)?;
        tell(order, narrow, &changes, record, &mut found);
    }
    Ok(found)
}

fn one(order: &TuningOrder, narrow: Narrow, stop: Stop<'_>) -> Result<Vec<Change>, LabError> {
    let first = order.rates.first().copied().unwrap_or(0.5);
    let ground = SpeadGround::links(&[first], 9000).map_err(words)?;
    let at = SocketAddr::from((ground.address(0), PORT));
    let receiver =
        ground.inside(0, false, || UdpSocket::bind(at)).map_err(words)?.map_err(words)?;
    let sender =
        ground.inside(0, true, || UdpSocket::bind("0.0.0.0:0")).map_err(words)?.map_err(words)?;
    socket2::SockRef::from(&sender).set_send_buffer_size(narrow.send_buffer()).map_err(words)?;
    // With the system's 208 KiB a receiver that does not run for 4 ms loses what the link did carry.
    socket2::SockRef::from(&receiver).set_recv_buffer_size(RECEIVE_BUFFER).map_err(words)?;
    let SpeadGround::Links(network) = &ground else { return Err(words("no link")) };
    let port = sender.local_addr().map_err(words)?.port();
    let back = SocketAddr::from((network.address(0, 0), port));
    let over = AtomicBool::new(false);
    let length = order.each * order.rates.len() as u32;
    std::thread::scope(|scope| {
        let receiving = scope.spawn(|| receive(&receiver, back, &over));
        let sending = scope.spawn(|| send(&sender, at, length, &|| over.load(Relaxed)));
        let begun = Instant::now();
        let mut shaped = Ok(());
        for (n, &rate) in order.rates.iter().enumerate() {
            if n > 0 && shaped.is_ok() {
                shaped = shape(&ground, rate);
            }
            while begun.elapsed() < order.each * (n as u32 + 1) && !sending.is_finished() && !stop()
            {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        let changes = sending.join().map_err(|_| words("the sender panicked"));
        over.store(true, Relaxed);
        let heaps = receiving.join().map_err(|_| words("the receiver panicked"))?.map_err(words)?;
        shaped?;
        if heaps == 0 {
            return Err(words("no heap arrived"));
        }
        changes?.map_err(words)
    })
}

fn tell(
    order: &TuningOrder,
    narrow: Narrow,
    changes: &[Change],
    record: &mut Record,
    all: &mut TuningFound,
) {
    if all.text.is_empty() {
        all.text = "| narrow link | its rate Gb/s | best SPEAD rate Gb/s | within 5 % after s | last rate Gb/s |\n|---|---|---|---|---|\n".to_owned();
    }
    let mut links = Vec::new();
    let place = narrow.name();
    let each = order.each.as_secs_f64();
    for (n, &rate) in order.rates.iter().enumerate() {
        let (from, to) = (n as f64 * each, (n + 1) as f64 * each);
        let best = rate * spead_share(memo::PACKET);
        let after = found(changes, best, from, to);
        let last = changes.iter().rev().find(|c| c.at < to).map(|c| c.rate);
        let shown = after.map_or("never".to_owned(), |s| format!("{s:.1}"));
        let number = |v: Option<f64>| v.map_or("–".to_owned(), |v| format!("{v:.4}"));
        all.text += &format!("| {place} | {rate} | {best:.4} | {shown} | {} |\n", number(last));
        record.row(json!({"link": place, "link_gbps": rate, "best_gbps": best, "found_after_s": after, "last_gbps": last}));
        if after.is_none_or(|s| s > LIMIT) {
            all.missed
                .push(format!("{place}, {rate} Gb/s: found after {shown} s, at most {LIMIT} s"));
        }
        let end = |x| Dot { x, y: best, spread: None, below: false };
        links.extend([end(from), end(to)]);
    }
    let decisions =
        changes.iter().map(|c| json!({"s": c.at, "gbps": c.rate, "why": c.why, "loss": c.loss}));
    let key = match narrow {
        Narrow::Behind => "decisions",
        Narrow::Own => "decisions_own_link",
    };
    record.parameter(key, json!(decisions.collect::<Vec<_>>()));
    let mut dots = Vec::new();
    for pair in changes.windows(2) {
        dots.extend([pair[0].at, pair[1].at].map(|x| Dot {
            x,
            y: pair[0].rate,
            spread: None,
            below: false,
        }));
    }
    let line = |name: &str, colour, stroke, dots| ChartLine {
        name: name.to_owned(),
        colour,
        stroke,
        dots,
    };
    if dots.is_empty() {
        return;
    }
    let figure = all.figure.get_or_insert_with(|| Chart {
        name: record.name().to_owned(),
        title: "Rate tuner on a link of unknown rate".to_owned(),
        x_label: "Time, s".to_owned(),
        y_label: "SPEAD rate, Gb/s".to_owned(),
        x_axis: PlotAxis::Linear(0.0),
        axis: PlotAxis::Linear(0.0),
        lines: vec![line("best", 6, Stroke::Floor, links)],
    });
    let colour = figure.lines.len() - 1;
    figure.lines.push(line(place, colour, Stroke::Line, dots));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_found_when_it_stays() {
        let changes = |of: &[(f64, f64)]| {
            of.iter()
                .map(|&(at, rate)| Change { at, rate, why: "good", loss: 0.0 })
                .collect::<Vec<_>>()
        };
        let touched = changes(&[(0.0, 1.0), (2.0, 9.8), (3.0, 12.0)]);
        assert_eq!(found(&touched, 10.0, 0.0, 15.0), None);
        let held = changes(&[(0.0, 1.0), (4.0, 9.8), (6.0, 10.8), (6.5, 9.8)]);
        assert_eq!(found(&held, 10.0, 0.0, 15.0), Some(4.0));
        assert_eq!(found(&held, 10.0, 7.0, 15.0), Some(0.0));
        assert_eq!(found(&[], 10.0, 0.0, 15.0), None);
    }
}
