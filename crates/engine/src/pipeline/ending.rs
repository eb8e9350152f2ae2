//! When a run ends: limits, end marks, silence, a wish; decided by all workers together.
//!
//! Clocks are read by those who call. What the workers share is touched where the clock was read anyway, never per packet.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::time::{Duration, Instant};

use super::PipelineError;
use super::heart::{Heart, Hearts};
use crate::stop::Stop;

/// A worker that does not see for so long that nothing comes waits for an output.
const STUCK_AFTER: Duration = Duration::from_secs(1);

/// When a run ends by itself.
#[derive(Debug, Clone, Default)]
pub struct RunLimits {
    /// After this time.
    pub duration: Option<Duration>,
    /// When packets have come, and then none for this time.
    pub idle: Option<Duration>,
    /// After this many packets.
    pub packets: Option<u64>,
    /// At the end marks, once so many streams have come and all are complete; 0 is 1.
    pub senders: usize,
    /// Not when the stream says that it is complete: a repeated capture says so in each pass.
    pub past_end_mark: bool,
    /// Packets whose arrival the source does not know came when they were read.
    pub stamp: bool,
}

/// What the workers of a run know of each other, and the watchers of them.
#[derive(Debug)]
pub struct Progress {
    pub(super) start: Instant,
    /// ns since the start at which the first data were seen; 0: none yet.
    first_ns: AtomicU64,
    /// ns since the start at which data were last seen.
    last_ns: AtomicU64,
    /// Packets received by workers of a run that ends after so many.
    packets: AtomicU64,
    /// Workers that have had data.
    active: AtomicUsize,
    /// Workers whose streams have all said that they are complete.
    complete: AtomicUsize,
    /// Streams of those workers.
    streams: AtomicUsize,
    /// The run is over for all, as all streams are complete or the packets have come.
    over: AtomicBool,
    /// Workers that still receive.
    receiving: AtomicUsize,
    /// Nobody took what was read for as long as the run waits for data.
    stuck: AtomicBool,
    /// An output has waited as long as it may at the end, and the run would end after packets that cannot come.
    short: AtomicBool,
    /// Workers that still run.
    running: AtomicUsize,
    /// Of their threads.
    hearts: Hearts,
}

impl Default for Progress {
    fn default() -> Self {
        Progress::new(1)
    }
}

impl Progress {
    /// For so many workers, from now on.
    pub fn new(workers: usize) -> Progress {
        Progress {
            start: Instant::now(),
            first_ns: AtomicU64::new(0),
            last_ns: AtomicU64::new(0),
            packets: AtomicU64::new(0),
            active: AtomicUsize::new(0),
            complete: AtomicUsize::new(0),
            streams: AtomicUsize::new(0),
            over: AtomicBool::new(false),
            receiving: AtomicUsize::new(workers),
            stuck: AtomicBool::new(false),
            short: AtomicBool::new(false),
            running: AtomicUsize::new(workers),
            hearts: Hearts::default(),
        }
    }

    /// The mark of a worker's thread, which begins.
    pub(super) fn heart(&self, thread: &str, pipeline: u32) -> Arc<Heart> {
        self.hearts.add(match pipeline {
            0 => thread.to_owned(),
            n => format!("{thread}-{}", n + 1),
        })
    }

    /// Threads of the workers that have stood still for [`super::STANDS_STILL`]; to be asked about once a second.
    pub fn stand_still(&self, now: Instant) -> Vec<String> {
        self.hearts.stand_still(now)
    }

    /// The same as of the last such question.
    pub fn stood_still(&self) -> Vec<String> {
        self.hearts.stood_still()
    }

    /// Time from the first to the last data of any worker.
    pub fn active(&self) -> Duration {
        let (first, last) = (self.first_ns.load(Relaxed), self.last_ns.load(Relaxed));
        Duration::from_nanos(last.saturating_sub(first))
    }

    /// True once all workers have ended.
    pub fn done(&self) -> bool {
        self.running.load(Relaxed) == 0
    }

    /// One worker receives nothing more. With the last one the run is over, whatever made it end: the outputs' time begins.
    pub(super) fn received_all(&self, stop: &Stop) {
        if self.receiving.fetch_sub(1, Relaxed) == 1 {
            stop.end();
        }
    }

    /// Looks at the clock for workers that cannot, as they wait for an output that takes nothing: begins the end of the run
    /// if a limit is reached, so that outputs wait no longer than they may. `waits`: the source waits for them.
    pub fn look(&self, limits: &RunLimits, waits: bool, stop: &Stop, now: Instant) {
        if stop.is_over() || self.receiving.load(Relaxed) == 0 {
            return;
        }
        let long = limits.duration.is_some_and(|d| now.saturating_duration_since(self.start) >= d);
        // A worker that is free sees the silence itself, and sooner.
        let silence = limits.idle.zip(self.silence(now)).filter(|_| waits);
        let stuck = silence.is_some_and(|(limit, silence)| silence >= limit + STUCK_AFTER);
        if stuck {
            self.stuck.store(true, Relaxed);
        }
        // Packets that have all come are in `over`.
        let over = self.over.load(Relaxed);
        let short = stop.has_stuck_output() && limits.packets.is_some() && !over;
        if short {
            self.short.store(true, Relaxed);
        }
        if long || stuck || short || over {
            stop.end();
        }
    }

    pub(super) fn not_stuck(&self, limits: &RunLimits) -> Result<(), PipelineError> {
        if let Some(packets) = limits.packets.filter(|_| self.short.load(Relaxed)) {
            return Err(PipelineError::Short(packets));
        }
        match limits.idle.filter(|_| self.stuck.load(Relaxed)) {
            Some(idle) => Err(PipelineError::Stuck(idle)),
            None => Ok(()),
        }
    }

    fn ns(&self, now: Instant) -> u64 {
        // At least 1: 0 says that nothing came yet.
        now.saturating_duration_since(self.start).as_nanos().max(1) as u64
    }

    pub(super) fn note_data(&self, now: Instant) {
        let ns = self.ns(now);
        let _ = self.first_ns.compare_exchange(0, ns, Relaxed, Relaxed);
        self.last_ns.fetch_max(ns, Relaxed);
    }

    /// Time without data of any worker; `None` before the first.
    fn silence(&self, now: Instant) -> Option<Duration> {
        let last = self.last_ns.load(Relaxed);
        (last > 0).then(|| Duration::from_nanos(self.ns(now).saturating_sub(last)))
    }
}

impl Progress {
    /// A worker receives packets of a run that ends after so many; true with the last of them.
    pub(super) fn last_packets(&self, packets: u64, limits: &RunLimits) -> bool {
        let Some(limit) = limits.packets else { return false };
        let last = self.packets.fetch_add(packets, Relaxed) + packets >= limit;
        if last {
            // Before it may wait for an output.
            self.over.store(true, Relaxed);
        }
        last
    }

    /// One worker has ended.
    pub(super) fn ended(&self) {
        self.running.fetch_sub(1, Relaxed);
    }
}

/// One worker's part in the decision that it is over; asked only when the clock was read anyway.
pub(super) struct Ending<'a> {
    limits: &'a RunLimits,
    stop: &'a Stop,
    progress: &'a Progress,
    /// This worker has had data.
    pub active: bool,
    /// Its streams, once all are complete; else 0.
    complete: usize,
}

impl<'a> Ending<'a> {
    pub fn new(limits: &'a RunLimits, stop: &'a Stop, progress: &'a Progress) -> Ending<'a> {
        Ending { limits, stop, progress, active: false, complete: 0 }
    }

    /// True if it is over.
    pub fn reached(&self, now: Instant) -> bool {
        let p = self.progress;
        let idle = self.limits.idle.zip(p.silence(now));
        self.stop.requested()
            || self.stop.is_over()
            || p.over.load(Relaxed)
            || self.limits.duration.is_some_and(|d| now.saturating_duration_since(p.start) >= d)
            || idle.is_some_and(|(limit, silence)| silence >= limit)
    }

    /// First data: one worker more that the others wait for.
    #[cold]
    pub fn begin(&mut self) {
        self.active = true;
        self.progress.active.fetch_add(1, Relaxed);
    }

    /// Keeps the count of complete workers and streams; one may begin again.
    pub fn streams_are(&mut self, complete: usize) {
        let p = self.progress;
        match (self.complete, complete) {
            (0, 1..) => drop(p.complete.fetch_add(1, Relaxed)),
            (1.., 0) => drop(p.complete.fetch_sub(1, Relaxed)),
            _ => {}
        }
        // Wraps where they have become fewer.
        p.streams.fetch_add(complete.wrapping_sub(self.complete), Relaxed);
        self.complete = complete;
    }

    /// True if all streams of every worker that ever had data are complete, and there are enough.
    pub fn all_complete(&self) -> bool {
        let p = self.progress;
        let (active, complete) = (p.active.load(Relaxed), p.complete.load(Relaxed));
        let enough = p.streams.load(Relaxed) >= self.limits.senders.max(1);
        let all = active > 0 && complete >= active && enough;
        if all {
            p.over.store(true, Relaxed);
        }
        all
    }
}
