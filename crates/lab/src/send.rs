//! The sender's loop: traffic or a capture, through faults, at a rate, to one destination or the same to several.
//!
//! Packets are taken from a [`Traffic`] in trains and sent as they are; only where a fault is asked for
//! are they touched one by one. The clock is read once per train ([`Pacer`]). The sender's count is the
//! number of packets that it was meant to deliver: packets that a fault leaves out are in it, copies are
//! not. With several destinations it is the number for each of them. What cannot be opened or sent is named with its
//! endpoint.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fullcount_core::batch::Batch;
use fullcount_core::destination::{DestinationError, DestinationOpening};
use fullcount_io::pace::{PaceError, Pacer};
use fullcount_io::source::{Received, Source, SourceError};
use fullcount_io::sys::{CpuTime, thread_cpu_time};

use fullcount_sim::{Traffic, TrafficTotals};

mod destination;
mod own_clock;

use destination::Way;
pub use destination::{Reached, SendTo};

/// Why sending ended early.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum JobError {
    #[error(transparent)]
    Send(#[from] DestinationError),
    #[error("none of the {count} destinations can be reached; the first: {first}")]
    NoneLeft { count: usize, first: String },
    #[error(transparent)]
    Pace(#[from] PaceError),
    #[error(transparent)]
    Source(#[from] SourceError),
}

/// What is sent.
pub enum Payload {
    /// Simulated packets.
    Traffic(Box<dyn Traffic>),
    /// Recorded packets; the source keeps the time unless a rate is set.
    Capture(Box<dyn Source>),
}

/// Everything that a sender is told.
pub struct SendJob {
    /// Destinations, at least one; each gets every packet.
    pub to: Vec<SendTo>,
    /// Packets.
    pub payload: Payload,
    /// Packets per second to each destination; `None`: flat out (a capture: as its source gives them).
    pub packets_per_s: Option<f64>,
    /// Keep the time of the detector: its clock goes as fast as real time, also over a stall of the sender.
    pub real_time: bool,
    /// End after this time.
    pub duration: Option<Duration>,
    /// End after this many packets.
    pub count: Option<u64>,
    /// CPU to run on.
    pub core: Option<usize>,
    /// Local ports of the lanes; empty: the system chooses one.
    pub source_ports: Vec<u16>,
    /// Set when it is asked to end, beside `stop` of [`Job::run`]: for destinations that wait for the other side.
    pub wish: Option<Arc<AtomicBool>>,
}

/// How far a sender is; read by others at any time.
#[derive(Debug, Default)]
pub struct SendProgress {
    /// Packets sent.
    pub packets: AtomicU64,
    /// Payload bytes sent.
    pub bytes: AtomicU64,
}

/// What was sent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sent {
    /// Packets that a perfect receiver at any destination gets, end marks not counted.
    pub packets: u64,
    /// Payload bytes of these.
    pub bytes: u64,
    /// Events in them, 0 where it does not apply.
    pub events: u64,
    /// Datagrams that left to all destinations, copies and end marks included.
    pub datagrams: u64,
    /// Send system calls that the kernel answered with datagrams taken.
    pub calls: u64,
    /// What each destination got, in their order.
    pub reached: Vec<Reached>,
    /// CPU time of this sender, simulating included, where the system tells.
    pub cpu: Option<CpuTime>,
    /// First to last packet.
    pub active: Duration,
    /// Link time of these packets in bits at the first destination, as `Wire::usual` counts it.
    pub wire_bits: u64,
    /// Of a detector that keeps its own clock: how far its packets were behind it at the end.
    pub behind: Option<Duration>,
    /// Rate that was asked for.
    pub asked_packets_per_s: Option<f64>,
    /// For people: address, engine, buffers.
    pub facts: Vec<String>,
}

/// All destinations; each call goes to each of them.
struct Sender {
    ways: Vec<Way>,
}

impl Sender {
    fn open(job: &SendJob) -> Result<Sender, JobError> {
        let several = job.to.len() > 1;
        let framed = matches!(&job.payload, Payload::Traffic(traffic) if traffic.is_framed());
        let numbers = match &job.payload {
            Payload::Traffic(traffic) => traffic.numbers(),
            Payload::Capture(_) => None,
        };
        let opening = DestinationOpening {
            source_ports: &job.source_ports,
            others: several,
            framed,
            numbers,
            wish: job.wish.as_ref(),
            patience: None,
        };
        let open = |to: &SendTo| Way::open(to, opening);
        let ways = job.to.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let sender = Sender { ways };
        sender.any_left()?;
        Ok(sender)
    }

    /// Fails once no destination is left.
    fn any_left(&self) -> Result<(), JobError> {
        if self.ways.iter().any(|way| !way.down()) {
            return Ok(());
        }
        let first = self.ways.first().and_then(|way| way.reached().failure).unwrap_or_default();
        Err(JobError::NoneLeft { count: self.ways.len(), first })
    }

    fn each(
        &mut self,
        mut act: impl FnMut(&mut Way) -> Result<(), DestinationError>,
    ) -> Result<(), JobError> {
        self.ways.iter_mut().try_for_each(&mut act)?;
        self.any_left()
    }

    /// Sends `bytes` as packets of `stride`, through the faults if there are any.
    fn send(&mut self, lane: usize, bytes: &[u8], stride: usize) -> Result<(), JobError> {
        self.each(|way| way.send(lane, bytes, stride))
    }

    /// True if every packet goes out as it came.
    fn untouched(&self) -> bool {
        !self.ways.iter().any(Way::has_fault)
    }

    /// Sends all trains of a batch on the first lane, untouched.
    fn whole(&mut self, batch: &Batch) -> Result<(), JobError> {
        self.each(|way| way.whole(batch))
    }

    /// What the faults still hold back leaves.
    fn finish(&mut self) -> Result<(), JobError> {
        self.ways.iter_mut().try_for_each(Way::finish).map_err(Into::into)
    }

    /// End marks: outside faults and rates, and further and further apart, so that one arrives even at a
    /// receiver whose buffer was full when the last packet came (seen flat out at 8972 B: all five lost).
    fn marks(&mut self, marks: &[Vec<u8>]) -> Result<(), JobError> {
        let mut pause = Duration::from_millis(5);
        for (i, mark) in marks.iter().enumerate() {
            if i > 0 {
                std::thread::sleep(pause);
                pause *= 2;
            }
            self.ways.iter_mut().try_for_each(|way| way.mark(mark, i > 0))?;
        }
        Ok(())
    }

    /// Nothing more comes, end marks included.
    fn close(&mut self) -> Result<(), JobError> {
        self.ways.iter_mut().try_for_each(Way::close).map_err(Into::into)
    }

    /// For people: address, engine, buffers of each destination.
    fn facts(&self) -> Vec<String> {
        let firsts = self.ways.iter().filter_map(|way| way.lanes.first());
        firsts.flat_map(|lane| lane.describe()).collect()
    }
}

impl SendJob {
    /// Sends until the payload, the duration or the count ends, or `stop` says so.
    ///
    /// # Errors
    /// What could not be opened, read or sent.
    pub fn run(self, stop: &dyn Fn() -> bool, progress: &SendProgress) -> Result<Sent, JobError> {
        let pinned = self.core.map_or(Ok(()), fullcount_io::sys::pin_thread);
        if let Err(e) = pinned {
            // Not fatal: a container may forbid it.
            eprintln!("fullcount: cannot pin to CPU {}: {e}", self.core.unwrap_or(0));
        }
        let cpu = thread_cpu_time().ok();
        let mut out = Sender::open(&self)?;
        let limits = Limits { end: self.duration, left: self.count.unwrap_or(u64::MAX) };
        let facts = out.facts();
        let mut sent = match self.payload {
            Payload::Traffic(mut traffic) => {
                if self.real_time && traffic.ready(0, 1).is_some() {
                    own_clock::run(&mut *traffic, &mut out, limits, stop, progress)?
                } else {
                    let pacer = self.packets_per_s.map(|r| Pacer::new(r, traffic.largest_packet()));
                    let pacer = pacer.transpose()?;
                    let pacer = if self.real_time { pacer.map(Pacer::keep_all) } else { pacer };
                    run_traffic(traffic, &mut out, pacer, limits, stop, progress)?
                }
            }
            Payload::Capture(source) => {
                run_capture(source, &mut out, self.packets_per_s, limits, stop, progress)?
            }
        };
        out.close()?;
        sent.reached = out.ways.iter().map(Way::reached).collect();
        sent.datagrams = sent.reached.iter().map(|r| r.datagrams).sum();
        sent.calls = sent.reached.iter().map(|r| r.calls).sum();
        sent.wire_bits = out.ways[0].wire_bits;
        sent.cpu = cpu.zip(thread_cpu_time().ok()).map(|(then, now)| CpuTime {
            user_ns: now.user_ns.saturating_sub(then.user_ns),
            system_ns: now.system_ns.saturating_sub(then.system_ns),
            preempted: now.preempted.saturating_sub(then.preempted),
        });
        sent.facts = facts;
        sent.asked_packets_per_s = self.packets_per_s;
        Ok(sent)
    }
}

/// Longest time without a look at whether to stop.
const STOP_LATENCY: Duration = Duration::from_millis(20);

struct Limits {
    end: Option<Duration>,
    left: u64,
}

/// Packets asked for at once when there is no rate: 16 kernel trains of 128 (64 B: 131 kB).
const FLAT_OUT: usize = 2048;

fn run_traffic(
    mut traffic: Box<dyn Traffic>,
    out: &mut Sender,
    mut pacer: Option<Pacer>,
    mut limits: Limits,
    stop: &dyn Fn() -> bool,
    progress: &SendProgress,
) -> Result<Sent, JobError> {
    let begun = Instant::now();
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    while limits.left > 0 && !stop() {
        let want = match &mut pacer {
            Some(pacer) => pacer.wait(STOP_LATENCY) as usize,
            None => FLAT_OUT,
        };
        let now = begun.elapsed();
        if limits.end.is_some_and(|end| now >= end) {
            break;
        }
        let want = want.min(usize::try_from(limits.left).unwrap_or(usize::MAX));
        let clock = (unix + now).as_nanos() as u64;
        hand_out(&mut *traffic, out, want, clock, &mut limits, progress)?;
    }
    finish(&mut *traffic, out, begun)
}

/// Sends the next `want` packets; nothing is left after the traffic's last.
fn hand_out(
    traffic: &mut dyn Traffic,
    out: &mut Sender,
    want: usize,
    clock: u64,
    limits: &mut Limits,
    progress: &SendProgress,
) -> Result<(), JobError> {
    let mut given = 0;
    while given < want {
        let Some(train) = traffic.next_train(want - given, clock) else {
            limits.left = 0;
            break;
        };
        given += train.packets;
        out.send(train.lane, train.bytes, train.stride)?;
    }
    limits.left = limits.left.saturating_sub(given as u64);
    let totals = traffic.totals();
    progress.packets.store(totals.packets, Relaxed);
    progress.bytes.store(totals.bytes, Relaxed);
    Ok(())
}

/// What completes the last heap, what the faults held back, then the end marks.
fn finish(traffic: &mut dyn Traffic, out: &mut Sender, begun: Instant) -> Result<Sent, JobError> {
    while let Some(train) = traffic.remainder() {
        out.send(train.lane, train.bytes, train.stride)?;
    }
    out.finish()?;
    let active = begun.elapsed();
    out.marks(&traffic.end())?;
    let TrafficTotals { packets, bytes, events } = traffic.totals();
    Ok(Sent { packets, bytes, events, active, ..Sent::default() })
}

fn run_capture(
    mut source: Box<dyn Source>,
    out: &mut Sender,
    rate: Option<f64>,
    mut limits: Limits,
    stop: &dyn Fn() -> bool,
    progress: &SendProgress,
) -> Result<Sent, JobError> {
    let begun = Instant::now();
    let mut batch: Batch = source.batch();
    let mut sent = Sent::default();
    let mut pacer = rate.map(|r| Pacer::new(r, 1472)).transpose()?;
    let mut credit = 0usize;
    let over = || stop() || limits.end.is_some_and(|end| begun.elapsed() >= end);
    'all: while limits.left > 0 && !over() {
        match source.recv(&mut batch, Duration::from_millis(20))? {
            Received::End => break,
            Received::Idle | Received::Flush(_) => continue,
            Received::Data => {}
        }
        if pacer.is_none() && out.untouched() && batch.count() <= limits.left {
            out.whole(&batch)?;
            sent.packets += batch.count();
            sent.bytes += batch.bytes();
            limits.left -= batch.count();
        } else {
            for train in batch.trains() {
                let most = usize::try_from(limits.left).unwrap_or(usize::MAX);
                let mut due = train.count().min(most);
                limits.left -= due as u64;
                let mut rest = train.bytes;
                while due > 0 {
                    let mut now = due;
                    if let Some(pacer) = &mut pacer {
                        while credit == 0 {
                            if over() {
                                break 'all;
                            }
                            credit = pacer.wait(STOP_LATENCY) as usize;
                        }
                        now = credit.min(due);
                        credit -= now;
                    }
                    // The kernel cuts a train into its packets; where there is one, it is sent as it is.
                    let len = if train.stride == 0 { rest.len() } else { now * train.stride };
                    let (some, more) = rest.split_at(len.min(rest.len()));
                    out.send(0, some, train.stride)?;
                    (rest, due) = (more, due - now);
                    sent.packets += now as u64;
                    sent.bytes += some.len() as u64;
                }
            }
        }
        progress.packets.store(sent.packets, Relaxed);
        progress.bytes.store(sent.bytes, Relaxed);
    }
    out.finish()?;
    sent.active = begun.elapsed();
    Ok(sent)
}

#[cfg(test)]
#[path = "send_tests.rs"]
mod tests;
