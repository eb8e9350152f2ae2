//! One trial: a receiver and a sender for each stream, all at the same time, and what both ends say.
//!
//! Receivers are up before any sender starts. A receiver whose stop heap was lost is interrupted, as a person would; it says its
//! totals then. Counted as well: what the trial took of the host ([`super::cost`]). Source: `docs/formats/spead.md`, section 20: speed is
//! what the sender reports, loss is heaps at the receiver.

use std::io::Read as _;
use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use fullcount_child::{Asked, ChildEnd, RunningChild};
use serde_json::{Value, json};

use super::cost::{CostMeter, TrialCost, of_child};
use super::ground::SpeadGround;
use super::rights::TrialRights;
use super::tools::{HeapsHeard, SenderEnd, SpeadPeer, SpeadWish, heard, sent};
use crate::error::TrialError;

/// How long a receiver may take to open its port.
const READY: Duration = Duration::from_secs(20);
/// How long receivers of UDP may take to end after the last sender.
const DRAINS: Duration = Duration::from_secs(2);
/// How long a receiver is looked at in any case.
const LOOK: Duration = Duration::from_millis(20);
/// How long a program may take beyond its planned time.
const GRACE: Duration = Duration::from_secs(60);

/// Who receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FarEnd {
    /// The peer's own receiver.
    Full,
    /// Something that only reads and forgets (TCP), or a socket that nobody reads (UDP).
    Light,
}

/// What came of a trial.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HeapTrial {
    /// SPEAD Gb/s that each sender reports.
    pub gbps: Vec<f64>,
    /// All SPEAD bytes over the time until the last sender ended, Gb/s.
    pub sum: f64,
    /// Heaps that were not received whole, share of all sent; `None`: nobody counted.
    pub loss: Option<f64>,
    /// Payload of whole heaps at the receivers over the same time, over TCP until they had it all, Gb/s.
    pub effective: Option<f64>,
    /// Streams whose receiver had to be interrupted.
    pub interrupted: u64,
    /// What it took of the host, and its bounds; `None`: a trial of an earlier version.
    pub cost: Option<TrialCost>,
}

impl HeapTrial {
    /// For results files.
    pub fn json(&self) -> Value {
        json!({"gbps": self.gbps, "sum_gbps": self.sum, "heap_loss": self.loss,
               "effective_gbps": self.effective, "interrupted": self.interrupted,
               "cost": self.cost.as_ref().map(TrialCost::json)})
    }

    /// From a results file.
    pub fn of(value: &Value) -> Option<HeapTrial> {
        let numbers = value.get("gbps")?.as_array()?.iter().map(Value::as_f64);
        Some(HeapTrial {
            gbps: numbers.collect::<Option<_>>()?,
            sum: value.get("sum_gbps")?.as_f64()?,
            loss: value.get("heap_loss").and_then(Value::as_f64),
            effective: value.get("effective_gbps").and_then(Value::as_f64),
            interrupted: value.get("interrupted")?.as_u64()?,
            cost: value.get("cost").and_then(TrialCost::of),
        })
    }
}

/// What can be measured with.
#[derive(Clone, Copy)]
pub struct Runner<'a> {
    /// Where.
    pub ground: &'a SpeadGround,
    /// Sender's programs.
    pub peer: &'a SpeadPeer,
    /// Ends a trial early.
    pub stop: Asked<'a>,
    /// Cores of the senders and of the receivers, by `taskset`; `None`: where the system puts them.
    pub cores: Option<[usize; 2]>,
}

fn unread(program: &str, ended: ChildEnd) -> TrialError {
    match ended.status.success() {
        false => ended.failed().into(),
        true => {
            let reason =
                format!("none of spead2's lines: {}", ended.output.lines().next().unwrap_or(""));
            TrialError::Result { program: program.to_owned(), reason }
        }
    }
}

/// Reads what comes over one connection, and forgets it.
struct Sink {
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
    _unread: Option<UdpSocket>,
}

impl Sink {
    fn start(ground: &SpeadGround, link: usize, tcp: bool, port: u16) -> std::io::Result<Sink> {
        let over = Arc::new(AtomicBool::new(false));
        let at = (ground.address(link), port);
        if !tcp {
            let socket = ground.inside(link, false, || UdpSocket::bind(at))??;
            return Ok(Sink { over, thread: None, _unread: Some(socket) });
        }
        let listener = ground.inside(link, false, || TcpListener::bind(at))??;
        listener.set_nonblocking(true)?;
        let ended = over.clone();
        let thread = std::thread::spawn(move || {
            let mut buffer = vec![0; 1 << 18];
            while !ended.load(Relaxed) {
                let Ok((mut connection, _)) = listener.accept() else {
                    std::thread::sleep(Duration::from_millis(5));
                    continue;
                };
                let limited = connection
                    .set_nonblocking(false)
                    .and_then(|()| connection.set_read_timeout(Some(Duration::from_millis(200))));
                while limited.is_ok() && !ended.load(Relaxed) {
                    match connection.read(&mut buffer) {
                        Ok(0) => break,
                        Ok(_) => {}
                        Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
                        Err(_) => break,
                    }
                }
            }
        });
        Ok(Sink { over, thread: Some(thread), _unread: None })
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has nothing to say here.
            let _ = thread.join();
        }
    }
}

impl Runner<'_> {
    fn start(
        &self,
        link: usize,
        sends: bool,
        words: Vec<String>,
    ) -> Result<RunningChild, TrialError> {
        let (program, first) = self.peer.program(sends);
        let mut command =
            self.ground.pinned((link, sends), &program, self.cores, TrialRights::here());
        command.args(first).args(words);
        let end = if sends { "sender" } else { "receiver" };
        Ok(RunningChild::start(&format!("{} {end}", self.peer.name()), command)?)
    }

    fn receiver(
        &self,
        link: usize,
        wish: &SpeadWish,
        port: u16,
    ) -> Result<RunningChild, TrialError> {
        let at = format!("{}:{port}", self.ground.address(link));
        let mut running = self.start(link, false, wish.receiver(&at, self.peer))?;
        running.wait_until(READY, self.stop, || self.ground.listens(link, wish.tcp, port))?;
        Ok(running)
    }

    /// How long the senders may take.
    fn limit(wish: &SpeadWish) -> Duration {
        let bits = (wish.heaps * wish.heap_bytes * 8) as f64;
        // Without a rate at least 20 Mb/s.
        let rate = wish.rate.unwrap_or(0.02).max(1e-6) * 1e9;
        Duration::from_secs_f64((1.5 * bits / rate).min(86_400.0)) + GRACE
    }

    /// One stream for each entry of `links`: the link that it takes.
    ///
    /// # Errors
    /// What kept a program from giving a result, in its own words.
    pub fn trial(
        &self,
        wish: &SpeadWish,
        links: &[usize],
        far: FarEnd,
    ) -> Result<HeapTrial, TrialError> {
        let free = |link: &usize| self.ground.free_port(*link, wish.tcp);
        let ports: Vec<u16> = links.iter().map(free).collect();
        let (mut receivers, mut sinks) = (Vec::new(), Vec::new());
        for (&link, &port) in links.iter().zip(&ports) {
            match far {
                FarEnd::Full => receivers.push(self.receiver(link, wish, port)?),
                FarEnd::Light => sinks.push(Sink::start(self.ground, link, wish.tcp, port)?),
            }
        }
        let begun = Instant::now();
        let meter = CostMeter::begin(self.ground, links);
        let mut senders = Vec::new();
        for (&link, &port) in links.iter().zip(&ports) {
            let to = format!("{}:{port}", self.ground.address(link));
            senders.push(self.start(link, true, wish.sender(&to))?);
        }
        let (mut all, mut times) = (Vec::new(), Vec::new());
        for sender in &mut senders {
            let limit = Self::limit(wish).saturating_sub(begun.elapsed());
            let (ended, time) = of_child(|| sender.end(limit, self.stop));
            let ended = ended?.ok_or_else(|| sender.stuck(limit))?;
            times.push(time);
            match sent(&ended.output) {
                Some(sent) => all.push(sent),
                None => return Err(unread("sender", ended)),
            }
        }
        let mut cost = meter.sent(wish, &times);
        let (heaps, times, interrupted) = self.receive(&mut receivers, wish.tcp)?;
        let arrived = begun.elapsed();
        cost.receivers(&times, wish.tcp);
        cost.drops = Some(meter.dropped());
        drop(sinks);
        let trial = evaluate(wish, &all, (&heaps, arrived), interrupted);
        Ok(HeapTrial { cost: Some(cost), ..trial })
    }

    /// What the receivers had when the senders have ended, their processor time, and how many of them had to be interrupted.
    fn receive(
        &self,
        receivers: &mut [RunningChild],
        tcp: bool,
    ) -> Result<(Vec<HeapsHeard>, Vec<f64>, u64), TrialError> {
        let (mut heaps, mut times, mut interrupted) = (Vec::new(), Vec::new(), 0);
        // All drain at the same time: what one waited for is not waited for again.
        // Over TCP no stop heap is lost, and full buffers take their time on a slow link.
        let drained = Instant::now() + if tcp { GRACE } else { DRAINS };
        for receiver in receivers {
            // One look at least: who ended meanwhile is not interrupted.
            let left = drained.saturating_duration_since(Instant::now()).max(LOOK);
            let (ended, time) = of_child(|| receiver.end(left, self.stop));
            let (ended, time) = match ended? {
                Some(ended) => (ended, time),
                None => {
                    interrupted += 1;
                    receiver.interrupt();
                    let (ended, time) = of_child(|| receiver.end(GRACE, self.stop));
                    (ended?.ok_or_else(|| receiver.stuck(GRACE))?, time)
                }
            };
            times.push(time);
            match heard(&ended.output) {
                Some(heard) => heaps.push(heard),
                None => return Err(unread("receiver", ended)),
            }
        }
        Ok((heaps, times, interrupted))
    }
}

/// Speeds and loss of what both ends said, and of when the receivers had all.
pub fn evaluate(
    wish: &SpeadWish,
    all: &[SenderEnd],
    (heard, arrived): (&[HeapsHeard], Duration),
    interrupted: u64,
) -> HeapTrial {
    let bits = |bytes: u64| bytes as f64 * 8.0 / 1e9;
    // All began at once: the last one's time is that of all.
    let seconds = all.iter().map(|s| s.seconds).fold(1e-9, f64::max);
    // Over TCP what fits into the socket buffers is still on its way when a sender has written all and says its time, and all of it
    // arrives. A receiver of UDP may wait for a stop heap that was lost.
    let until = if wish.tcp { seconds.max(arrived.as_secs_f64()) } else { seconds };
    let counted = !heard.is_empty();
    let whole: u64 = heard.iter().map(|h| h.heaps.min(wish.heaps)).sum();
    let sent_heaps = wish.heaps * all.len() as u64;
    HeapTrial {
        gbps: all.iter().map(|s| bits(s.bytes) / s.seconds.max(1e-9)).collect(),
        sum: bits(all.iter().map(|s| s.bytes).sum()) / seconds,
        loss: counted.then(|| 1.0 - whole as f64 / sent_heaps.max(1) as f64),
        effective: counted.then(|| bits(whole * wish.heap_bytes) / until),
        interrupted,
        cost: None,
    }
}
