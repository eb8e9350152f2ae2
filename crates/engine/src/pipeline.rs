//! The path of a batch in one worker: receive, decode, build, hand over; on one thread or on two.
//!
//! With `threads = 1` hops 1 to 5 share a thread; with 2, a ring of preallocated batches joins receiving
//! and processing, and the events are the same. The hot loop reads no clock per packet: a batch counter
//! comes first, the real clock only when due (the 2018 paper lost measurable time here).
//! A full ring never blocks a lossy source: the batch is dropped and counted as `receive.dropped`.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::thread;
use std::time::{Duration, Instant};

use fullcount_core::batch::Batch;
use fullcount_core::ledger::Sheet;
use fullcount_core::products::Phase;
use fullcount_core::time::Nanos;
use fullcount_core::wall::WorkerClock;
use fullcount_detect::detector::{Builder, Reader};
use fullcount_io::source::{Received, Source, SourceError};

use crate::fanout::{Fanout, RequiredSinkFailed};
use crate::refused::Sampler;
use crate::settle::Settling;
use crate::stop::Stop;

fullcount_core::counters! {
    /// Counters of the ring between receiving and processing (all 0 with one thread).
    pub enum Ring {
        In "ring.packets" Packets Sum "ring" In "packets put towards the processing thread" "";
        Taken "ring.taken" Packets Sum "ring" Accepted "packets taken by the processing thread" "";
        Dropped "receive.dropped" Packets Sum "ring" Dropped(Queue)
            "packets lost because the queue to the decoder was full"
            "the decoder is slower than the link: pin both threads (source.core, \
             engine.process_core), or spread the senders over several instances";
        Synch "thread.fifo_synch_errors" Times Sum "ring" Note
            "queue entries without data" "";
        Idle "thread.processing_idle" Times Sum "ring" Note "polls of an empty queue" "";
    }
}

/// Events that are handed over at once: 64 Ki events are 512 KiB of columns, half a second-level cache.
const HAND_OVER_EVENTS: usize = 1 << 16;
/// The same for the tables beside the events, bytes: a queue of 64 batches holds 64 MiB.
const HAND_OVER_BYTES: usize = 1 << 20;
/// Longest time that an event waits for company on its way to the outputs.
const HAND_OVER_EVERY: Duration = Duration::from_millis(20);
/// Marks that are asked for, about one a second, while one is under way: then the builder lets go what waits. Who waits for
/// others is one event in any case; a module that has fallen silent must not hold a group's place back for ever.
const HOLD: u32 = 30;
/// Time between two looks whether a mark has passed: all that waits may have to be looked at for it.
const MARKS_EVERY: Duration = Duration::from_millis(100);
/// A worker that does not see for so long that nothing comes waits for an output.
const STUCK_AFTER: Duration = Duration::from_secs(1);
/// Wait of one receive call; bounds the reaction to Ctrl-C.
const RECEIVE_WAIT: Duration = Duration::from_millis(20);
/// A busy thread looks at the clock once per this many batches (≈ 1 ms at 10 Gb/s).
const BATCHES_PER_CLOCK: u32 = 16;
/// Batches between the two threads.
const RING: usize = 16;
/// While the ring is full, packets of a lossy source are left in its buffer until so much of it is in use;
/// only then are they dropped. The other half of 64 MiB is 27 ms of 10 Gb/s.
const BUFFER_PERCENT: u32 = 50;
/// A source that cannot tell how full its buffer is, is left alone this long: half of what 64 MiB hold of
/// 10 Gb/s.
const PATIENCE: Duration = Duration::from_millis(25);
/// After this many short naps nothing is happening (≈ 20 ms), and longer ones do: 1 ms of a full link
/// is one batch of 16 that the ring holds, and idling costs 1 % of a core instead of 11 %.
const NAPS_AWAKE: u32 = 200;
const LONG_NAP: Duration = Duration::from_millis(1);
/// Pause of a thread that found the ring empty or full; the kernel makes ≈ 100 µs of it.
const RING_NAP: Duration = Duration::from_micros(50);
/// What is still in the socket when the run is stopped gets at least this long to be read: 64 MiB are 54 ms of
/// 10 Gb/s.
const DRAIN: Duration = Duration::from_millis(200);
/// And at most this long, where the decoder is slow: a sender that goes on must not keep us for ever.
const LONGEST_DRAIN: Duration = Duration::from_secs(5);
/// Packets, and bytes, that a buffer of 64 MiB can hold at most: the kernel doubles it, and accounts at least 768 B for a
/// packet. Once so many were read, what was in the socket when the run was stopped is among them.
const BUFFERED_PACKETS: u64 = BUFFERED_BYTES / 768;
const BUFFERED_BYTES: u64 = 128 << 20;

/// When a run ends by itself.
#[derive(Debug, Clone, Default)]
pub struct Limits {
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

/// What the workers of a run know of each other, and the watchers of them. Touched where the clock was
/// read anyway, never per packet.
#[derive(Debug)]
pub struct Progress {
    start: Instant,
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
    /// Workers that still run.
    running: AtomicUsize,
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
            running: AtomicUsize::new(workers),
        }
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
    fn received_all(&self, stop: &Stop) {
        if self.receiving.fetch_sub(1, Relaxed) == 1 {
            stop.end();
        }
    }

    /// Looks at the clock for workers that cannot, as they wait for an output that takes nothing: begins the end of the run
    /// if a limit is reached, so that outputs wait no longer than they may. `waits`: the source waits for them.
    pub fn look(&self, limits: &Limits, waits: bool, stop: &Stop, now: Instant) {
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
        if long || stuck || self.over.load(Relaxed) {
            stop.end();
        }
    }

    fn not_stuck(&self, limits: &Limits) -> Result<(), PipelineError> {
        match limits.idle.filter(|_| self.stuck.load(Relaxed)) {
            Some(idle) => Err(PipelineError::Stuck(idle)),
            None => Ok(()),
        }
    }

    fn ns(&self, now: Instant) -> u64 {
        // At least 1: 0 says that nothing came yet.
        now.saturating_duration_since(self.start).as_nanos().max(1) as u64
    }

    fn note_data(&self, now: Instant) {
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

/// Why a pipeline stopped before its end.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// The source failed.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A required sink failed in a lossless run.
    #[error(transparent)]
    Sink(#[from] RequiredSinkFailed),
    /// A thread could not be started or died.
    #[error("processing thread: {0}")]
    Thread(String),
    /// What was read can have wrong times; it was not handed on.
    #[error("{0}")]
    Unsettled(String),
    /// An output took nothing for as long as the run waits for data.
    #[error(
        "the outputs took nothing for {0:?} (engine.idle_exit), so the run ends, and what the source still has is not read"
    )]
    Stuck(Duration),
}

/// Decoding and handing over: the same for one thread and for two.
pub struct Processing {
    /// Decoder.
    pub reader: Box<dyn Reader>,
    /// Event builder.
    pub builder: Box<dyn Builder>,
    /// Outputs.
    pub fanout: Fanout,
    /// True if waiting loses nothing.
    pub lossless: bool,
    /// The builder's clock, as last read; `None` in a replay, where no clock decides.
    now: Option<Nanos>,
    begun: Instant,
    batches: u32,
    handed: Instant,
    /// Of a source that gives parts of its stream to others.
    settling: Option<Settling>,
    marks: Marks,
    /// Of a run that is told what its refused packets look like.
    sampler: Option<Sampler>,
    /// Of a run whose times are those of the host's clock.
    clock: Option<WorkerClock>,
}

/// The mark that the builder was given, of a source that asks for marks ([`crate::settle`]).
#[derive(Debug, Default)]
struct Marks {
    /// Its number; 0: none is under way.
    given: u64,
    /// The last one that passed.
    passed: u64,
    /// The newest that was seen to be asked for, and how often there was a newer one while this one was under way.
    seen: u64,
    held: u32,
    /// When the builder was last asked.
    looked: Option<Instant>,
}

impl Processing {
    /// Joins a detector's two halves with the outputs.
    pub fn new(
        reader: Box<dyn Reader>,
        builder: Box<dyn Builder>,
        fanout: Fanout,
        lossless: bool,
        replay: bool,
    ) -> Processing {
        let begun = Instant::now();
        let now = (!replay).then_some(Nanos(0));
        let (batches, handed, settling, marks) = (0, begun, None, Marks::default());
        Processing {
            reader,
            builder,
            fanout,
            lossless,
            now,
            begun,
            batches,
            handed,
            settling,
            marks,
            sampler: None,
            clock: None,
        }
    }

    /// Gives events the host's time.
    pub fn clocked(mut self, clock: Option<WorkerClock>) -> Processing {
        self.clock = clock;
        self
    }

    /// Looks at what the packets that were just read show of the detector's clock.
    #[inline]
    fn look_at_clock(&mut self) {
        let Some(clock) = &mut self.clock else { return };
        let Some(readings) = self.reader.readings() else { return };
        if readings.first().is_some_and(|first| first.received_ns == 0) && self.now.is_some() {
            // This host does not say when packets come: read just now is the next best.
            readings.arrived(unix_ns());
        }
        let before = clock.is_joined();
        clock.observe(readings);
        if !before && clock.is_joined() {
            // The first packet may have been late: what the next ones show is waited for before its events get their time.
            self.handed = Instant::now();
        }
    }

    /// Gives what was made to the outputs, with its final times.
    fn give(&mut self, attend: &mut dyn FnMut()) -> Result<(), PipelineError> {
        if let Some(clock) = &mut self.clock {
            clock.place(self.fanout.products());
        }
        Ok(self.fanout.hand_over_with(self.lossless, attend)?)
    }

    /// Keeps some of the packets that are refused ([`crate::refused`]).
    pub fn sampling(mut self, sampler: Option<Sampler>) -> Processing {
        self.sampler = sampler;
        self
    }

    /// Answers a source that asks for it ([`crate::settle`]).
    pub fn settling(mut self, settling: Settling) -> Processing {
        self.settling = Some(settling);
        self
    }

    /// True if the source wants all settled that it has given away.
    fn asked(&self) -> bool {
        self.settling.as_ref().is_some_and(|s| s.settle.question().is_some())
    }

    /// All that was received has been decoded: settles what waits, if the source asks for that.
    fn settle(&mut self, attend: &mut dyn FnMut()) -> Result<(), PipelineError> {
        let Some(settling) = &mut self.settling else { return Ok(()) };
        let Some(number) = settling.settle.question() else { return Ok(()) };
        // The system refuses a thread: asked for again at the next idle moment. The source does not wait for ever.
        let Ok(fresh) = (settling.builder)() else { return Ok(()) };
        let mark = settling.settle.marks();
        let products = self.fanout.products();
        let before = products.events.len();
        self.reader.begin_anew();
        self.builder.finish(products);
        let cut = (products.events.len() - before) as u64;
        self.builder = fresh;
        self.give(attend)?;
        let Some(settling) = &self.settling else { return Ok(()) };
        settling.settle.answer(number, cut);
        settling.settle.pass(mark);
        self.marks = Marks { passed: mark, ..Marks::default() };
        Ok(())
    }

    /// Gives the builder a mark, if the source asks for one and none is under way. The one that has passed, to be told once
    /// what was made is handed over.
    fn look_at_marks(&mut self, now: Instant) -> Option<u64> {
        let settle = &self.settling.as_ref()?.settle;
        let (marks, asked) = (&mut self.marks, settle.marks());
        if marks.given == 0 {
            if asked == marks.passed {
                return None;
            }
            self.builder.mark();
            let passed = marks.passed;
            *marks = Marks { given: asked, passed, seen: asked, ..Marks::default() };
        }
        if marks.looked.is_some_and(|at| now.saturating_duration_since(at) < MARKS_EVERY) {
            return None;
        }
        marks.looked = Some(now);
        if asked != marks.seen {
            (marks.seen, marks.held) = (asked, marks.held + 1);
            if marks.held >= HOLD {
                let products = self.fanout.products();
                let before = products.events.len();
                self.builder.let_go(products);
                settle.add_cut((products.events.len() - before) as u64);
            }
        }
        if !self.builder.passed() {
            return None;
        }
        *marks = Marks { passed: marks.given, ..Marks::default() };
        Some(marks.passed)
    }

    /// Hops 2 to 6 for one batch. Returns the time if the clock was read.
    /// `attend` is called while the outputs have no room.
    #[inline]
    fn decode(
        &mut self,
        batch: &Batch,
        attend: &mut dyn FnMut(),
    ) -> Result<Option<Instant>, PipelineError> {
        let products = self.fanout.products();
        self.reader.read(batch, products);
        self.look_at_clock();
        let products = self.fanout.products();
        self.builder.build(products, self.now);
        let full =
            products.events.len() >= HAND_OVER_EVENTS || products.table_bytes() >= HAND_OVER_BYTES;
        self.batches += 1;
        // A small batch means spare time, so the clock is affordable; a busy thread counts first.
        let due = full || self.batches >= BATCHES_PER_CLOCK || batch.trains().len() < 4;
        if let Some(sampler) = self.sampler.as_mut().filter(|s| s.is_eager()) {
            sampler.look(batch);
        }
        if !due {
            return Ok(None);
        }
        self.batches = 0;
        let now = Instant::now();
        self.clock_is(now);
        if full || now - self.handed >= HAND_OVER_EVERY {
            if let Some(sampler) = &mut self.sampler {
                sampler.look(batch);
            }
            self.hand_over(now, attend)?;
        }
        Ok(Some(now))
    }

    /// Moves the builder's clock on.
    #[inline]
    fn clock_is(&mut self, now: Instant) {
        if let Some(ns) = &mut self.now {
            *ns = Nanos(now.saturating_duration_since(self.begun).as_nanos() as i64);
        }
    }

    /// Gives away what is finished, also what has waited long enough.
    fn hand_over(&mut self, now: Instant, attend: &mut dyn FnMut()) -> Result<(), PipelineError> {
        self.settled()?;
        self.handed = now;
        self.clock_is(now);
        if self.now.is_some() {
            self.builder.build(self.fanout.products(), self.now);
        }
        let passed = self.look_at_marks(now);
        self.give(attend)?;
        if let (Some(mark), Some(settling)) = (passed, &self.settling) {
            settling.settle.pass(mark);
        }
        Ok(())
    }

    /// Nothing is handed on whose times may be wrong.
    fn settled(&mut self) -> Result<(), PipelineError> {
        let Some(why) = self.reader.unsettled() else { return Ok(()) };
        let why = PipelineError::Unsettled(why.to_owned());
        self.fanout.products().clear();
        Err(why)
    }

    /// Settles what was pending and gives the rest away. `cut_short`: the source would have gone on.
    fn finish(&mut self, cut_short: bool) -> Result<(), PipelineError> {
        if self.reader.unsettled().is_some() {
            // Nothing more is made of it. A replay goes on from what was handed over.
            return self.settled();
        }
        let replay = self.now.is_none();
        if replay && cut_short {
            self.give(&mut || ())?;
            self.fanout.products().phase = Phase::CutShort;
        }
        let products = self.fanout.products();
        self.reader.finish(products);
        self.builder.finish(products);
        if replay && !cut_short {
            products.phase = Phase::Complete;
        }
        self.give(&mut || ())
    }
}

/// The host's clock, ns since 1970.
fn unix_ns() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

/// One worker's part in the decision that it is over; asked only when the clock was read anyway.
struct Ending<'a> {
    limits: &'a Limits,
    stop: &'a Stop,
    progress: &'a Progress,
    /// This worker has had data.
    active: bool,
    /// Its streams, once all are complete; else 0.
    complete: usize,
}

impl Ending<'_> {
    fn reached(&self, now: Instant) -> bool {
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
    fn begin(&mut self) {
        self.active = true;
        self.progress.active.fetch_add(1, Relaxed);
    }

    /// Keeps the count of complete workers and streams; one may begin again.
    fn streams_are(&mut self, complete: usize) {
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
    fn all_complete(&self) -> bool {
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

/// Where received batches go: straight into the decoder, or over the ring.
trait Next {
    /// Memory for the next batch of `source`; `None`: nobody processes any more.
    fn batch(&mut self, source: &mut dyn Source) -> Option<&mut Batch>;
    /// The batch holds data of `source`. Returns the time if the clock was read.
    fn data(&mut self, source: &mut dyn Source) -> Result<Option<Instant>, PipelineError>;
    /// Nothing came of `source` for a while.
    fn idle(&mut self, now: Instant, source: &mut dyn Source) -> Result<(), PipelineError>;
    /// Streams that said that they are complete, if all have; else 0.
    fn ended_streams(&self) -> usize;
}

/// One thread: the batch is decoded where it was received.
struct Here<'a> {
    batch: Batch,
    work: &'a mut Processing,
}

impl Next for Here<'_> {
    fn batch(&mut self, _: &mut dyn Source) -> Option<&mut Batch> {
        Some(&mut self.batch)
    }
    #[inline]
    fn data(&mut self, source: &mut dyn Source) -> Result<Option<Instant>, PipelineError> {
        self.work.decode(&self.batch, &mut || source.attend())
    }
    fn idle(&mut self, now: Instant, source: &mut dyn Source) -> Result<(), PipelineError> {
        self.work.hand_over(now, &mut || source.attend())?;
        self.work.settle(&mut || source.attend())
    }
    fn ended_streams(&self) -> usize {
        self.work.reader.ended_streams()
    }
}

/// Two threads: the batch moves over the ring; without a free one a lossy source drops it.
struct Over<'a> {
    full: rtrb::Producer<Batch>,
    free: rtrb::Consumer<Batch>,
    held: Option<Batch>,
    spare: Batch,
    lossless: bool,
    /// Since when the ring has been full.
    full_since: Option<Instant>,
    sheet: &'a Sheet,
    ended: &'a AtomicUsize,
    broken: &'a AtomicBool,
    batches: u32,
}

impl Over<'_> {
    /// True if what comes can no longer be left in the kernel's buffer.
    #[cold]
    fn must_drop(&mut self, source: &dyn Source) -> bool {
        let since = *self.full_since.get_or_insert_with(Instant::now);
        match source.buffer_percent() {
            Some(percent) => percent >= BUFFER_PERCENT,
            None => since.elapsed() >= PATIENCE,
        }
    }
}

impl Next for Over<'_> {
    fn batch(&mut self, source: &mut dyn Source) -> Option<&mut Batch> {
        while self.held.is_none() {
            self.held = self.free.pop().ok();
            if self.held.is_some() {
                self.full_since = None;
                break;
            }
            if self.broken.load(Relaxed) {
                return None;
            }
            if !self.lossless && self.must_drop(source) {
                return Some(&mut self.spare);
            }
            source.attend();
            thread::sleep(RING_NAP);
        }
        self.held.as_mut()
    }

    fn data(&mut self, _: &mut dyn Source) -> Result<Option<Instant>, PipelineError> {
        let batch = self.held.as_ref().unwrap_or(&self.spare);
        let (packets, small) = (batch.count(), batch.trains().len() < 4);
        self.sheet.add(Ring::In as usize, packets);
        match self.held.take() {
            // There are as many places as batches: a popped one always finds room.
            Some(batch) => drop(self.full.push(batch)),
            None => self.sheet.add(Ring::Dropped as usize, packets),
        }
        self.batches += 1;
        if self.batches < BATCHES_PER_CLOCK && !small {
            return Ok(None);
        }
        self.batches = 0;
        Ok(Some(Instant::now()))
    }

    fn idle(&mut self, _: Instant, _: &mut dyn Source) -> Result<(), PipelineError> {
        Ok(())
    }
    fn ended_streams(&self) -> usize {
        self.ended.load(Relaxed)
    }
}

/// What was read of a socket since somebody asked to stop.
struct Draining {
    since: Instant,
    packets: u64,
    bytes: u64,
}

impl Draining {
    fn since(since: Instant) -> Draining {
        Draining { since, packets: 0, bytes: 0 }
    }

    fn read(&mut self, batch: &Batch) {
        self.packets += batch.count();
        self.bytes += batch.bytes();
    }

    /// True once what was there when the run was stopped has been read, or took too long.
    fn is_over(&self, now: Instant) -> bool {
        let took = now.saturating_duration_since(self.since);
        let all = self.packets >= BUFFERED_PACKETS || self.bytes >= BUFFERED_BYTES;
        took >= LONGEST_DRAIN || (all && took >= DRAIN)
    }
}

/// Hop 1: until the source ends, a limit is reached or somebody asks to stop.
fn receive(
    source: &mut dyn Source,
    next: &mut impl Next,
    limits: &Limits,
    stop: &Stop,
    progress: &Progress,
) -> Result<(), PipelineError> {
    let mut ending = Ending { limits, stop, progress, active: false, complete: 0 };
    let mut draining: Option<Draining> = None;
    loop {
        let wait = if draining.is_some() { Duration::ZERO } else { RECEIVE_WAIT };
        let Some(batch) = next.batch(source) else { return Ok(()) };
        let now = match source.recv(batch, wait)? {
            Received::End => return Ok(()),
            Received::Idle => {
                if !limits.past_end_mark {
                    ending.streams_are(next.ended_streams());
                    if ending.all_complete() {
                        return Ok(());
                    }
                }
                if draining.is_some() {
                    return Ok(());
                }
                let now = Instant::now();
                next.idle(now, source)?;
                Some(now)
            }
            Received::Data => {
                if limits.stamp {
                    batch.stamp(unix_ns());
                }
                let mut last = false;
                if let Some(draining) = &mut draining {
                    draining.read(batch);
                }
                if let Some(limit) = limits.packets {
                    let n = batch.count();
                    last = progress.packets.fetch_add(n, Relaxed) + n >= limit;
                }
                let first = !ending.active;
                if first {
                    ending.begin();
                }
                // Repeated end marks come up to 75 ms after the data and must not stretch their time.
                let over = next.ended_streams() > 0 && !limits.past_end_mark;
                if last {
                    // Before it may wait for an output.
                    progress.over.store(true, Relaxed);
                }
                let read = next.data(source)?;
                let now = if first || last { Some(Instant::now()) } else { read };
                if let Some(now) = now.filter(|_| !over) {
                    progress.note_data(now);
                }
                if last {
                    return Ok(());
                }
                now
            }
        };
        let Some(now) = now else { continue };
        match &draining {
            None if ending.reached(now) => {
                // A capture is simply left; a socket still holds packets that were sent to us.
                if source.lossless() {
                    return Ok(());
                }
                draining = Some(Draining::since(now));
            }
            Some(draining) if draining.is_over(now) || stop.hurried() => return Ok(()),
            _ => {}
        }
    }
}

/// Receives and processes on this thread. Everything received has been handed over when it returns.
///
/// # Errors
/// The source or a required sink failed; what came before has still been handed over.
pub fn run_one_thread(
    source: &mut dyn Source,
    work: &mut Processing,
    limits: &Limits,
    stop: &Stop,
    progress: &Progress,
) -> Result<(), PipelineError> {
    let batch = source.batch();
    let outcome = receive(source, &mut Here { batch, work }, limits, stop, progress);
    progress.received_all(stop);
    let outcome = outcome.and_then(|()| progress.not_stuck(limits));
    let settled = work.finish(outcome.is_err() || stop.requested());
    progress.running.fetch_sub(1, Relaxed);
    outcome.and(settled)
}

/// As [`run_one_thread`], receiving on this thread and processing on a second one, which calls `pin`
/// first. `sheets`: one for each thread, both with the lines of [`Ring`].
///
/// # Errors
/// As there, or if the second thread cannot be started.
pub fn run_two_threads(
    source: &mut dyn Source,
    work: &mut Processing,
    limits: &Limits,
    stop: &Stop,
    progress: &Progress,
    (received, taken): (&Sheet, &Sheet),
    pin: impl FnOnce() + Send,
) -> Result<(), PipelineError> {
    let (full, mut batches) = rtrb::RingBuffer::<Batch>::new(RING);
    let (mut back, free) = rtrb::RingBuffer::<Batch>::new(RING);
    for _ in 0..RING {
        drop(back.push(source.batch()));
    }
    let (ended, broken) = (AtomicUsize::new(0), AtomicBool::new(false));
    // Said before the ring is given up, which orders it.
    let cut_short = AtomicBool::new(false);
    let lossless = source.lossless();
    let spare = if lossless { Batch::with_slots(0, 0) } else { source.batch() };
    let outcome = thread::scope(|scope| {
        let process = || {
            pin();
            let outcome = serve(&mut batches, &mut back, work, taken, &ended);
            broken.store(outcome.is_err(), Relaxed);
            outcome.and(work.finish(cut_short.load(SeqCst)))
        };
        let worker = thread::Builder::new()
            .name("process".into())
            .spawn_scoped(scope, process)
            .map_err(|e| PipelineError::Thread(e.to_string()))?;
        let outcome = {
            let (sheet, ended, broken) = (received, &ended, &broken);
            let (held, full_since, batches) = (None, None, 0);
            let mut over = Over {
                full,
                free,
                held,
                spare,
                lossless,
                full_since,
                sheet,
                ended,
                broken,
                batches,
            };
            let outcome = receive(source, &mut over, limits, stop, progress);
            progress.received_all(stop);
            let outcome = outcome.and_then(|()| progress.not_stuck(limits));
            cut_short.store(outcome.is_err() || stop.requested(), SeqCst);
            outcome
            // `over` goes here: the other thread sees that nothing more comes.
        };
        let settled = worker.join().map_err(|_| PipelineError::Thread("panicked".into()))?;
        outcome.and(settled)
    });
    progress.running.fetch_sub(1, Relaxed);
    outcome
}

/// The second thread: decodes batches until the receiving one has gone and the ring is empty.
fn serve(
    batches: &mut rtrb::Consumer<Batch>,
    back: &mut rtrb::Producer<Batch>,
    work: &mut Processing,
    sheet: &Sheet,
    ended: &AtomicUsize,
) -> Result<(), PipelineError> {
    let mut empty = 0u32;
    loop {
        match batches.pop() {
            Ok(batch) => {
                empty = 0;
                sheet.add(Ring::Taken as usize, batch.count());
                if batch.is_empty() {
                    sheet.add(Ring::Synch as usize, 1);
                }
                work.decode(&batch, &mut || ())?;
                drop(back.push(batch));
                ended.store(work.reader.ended_streams(), Relaxed);
            }
            Err(_) if batches.is_abandoned() && batches.is_empty() => return Ok(()),
            Err(_) => {
                sheet.add(Ring::Idle as usize, 1);
                let now = Instant::now();
                if now - work.handed >= HAND_OVER_EVERY {
                    work.hand_over(now, &mut || ())?;
                }
                // Looked at behind the question: what was put before it is worked on first.
                if work.asked() && batches.is_empty() {
                    work.settle(&mut || ())?;
                }
                empty = empty.saturating_add(1);
                thread::sleep(if empty < NAPS_AWAKE { RING_NAP } else { LONG_NAP });
            }
        }
    }
}

#[cfg(test)]
#[path = "pipeline_tests.rs"]
mod tests;
