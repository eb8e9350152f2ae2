//! Hops 2 to 6: decodes a batch, gives its events their time, hands them to the outputs.
//!
//! The same for one thread and for two. With what is handed over goes the number of the newest batch that is complete: what the
//! decoder's oldest waiting batch leaves, and nothing behind a batch that was dropped.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fullcount_core::batch::Batch;
use fullcount_core::detector::Decoder;
use fullcount_core::products::{Phase, Products};
use fullcount_core::progress::{BatchNumber, Flush};
use fullcount_core::time::Nanos;
use fullcount_core::trace;
use fullcount_core::wall::WorkerClock;
use fullcount_io::source::Source;

use super::PipelineError;
use super::asked::{DecoderOrders, obey};
use super::receive::{Next, RECEIVE_WAIT};
use crate::fanout::Fanout;
use crate::modules::ModuleBoard;
use crate::refused::Sampler;

/// Events that are handed over at once: 64 Ki events are 512 KiB of columns, half a second-level cache.
pub(super) const HAND_OVER_EVENTS: usize = 1 << 16;
/// The same for the tables beside the events, bytes: a queue of 64 batches holds 64 MiB.
pub(super) const HAND_OVER_BYTES: usize = 1 << 20;
/// Longest time that an event waits for company on its way to the outputs.
const HAND_OVER_EVERY: Duration = Duration::from_millis(20);
/// Least pause between two hand-overs of what left because of its time; a timer of the kernel is off by 50 µs. One takes 1.1 µs with one output
/// and a queue of 64 places, 40 ns more with each place.
const GIVE_EVERY: Duration = Duration::from_micros(100);
/// The pause is so many times what the last one took: they take 2 % of the thread's time at most.
const GIVE_SHARE: u32 = 50;
/// Time between two questions what waits in the decoder: all of it may have to be looked at.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// A busy thread looks at the clock once per this many batches (≈ 1 ms at 10 Gb/s).
pub(super) const BATCHES_PER_CLOCK: u32 = 16;

/// Decoding and handing over.
pub struct Processing {
    /// Decoder.
    pub decoder: Box<dyn Decoder>,
    /// Outputs.
    pub fanout: Fanout,
    /// True if waiting loses nothing.
    pub lossless: bool,
    /// The decoder's clock, as last read; `None` in a replay, where no clock decides.
    now: Option<Nanos>,
    begun: Instant,
    batches: u32,
    handed: Instant,
    /// When the decoder gives something because of the time alone ([`Decoder::due`]).
    due: Option<Nanos>,
    /// It has ever said such a time: its clock is read before every batch, so that no event is taken for older than it is.
    timed: bool,
    /// Something that left because of its time is not with the outputs yet.
    overdue: bool,
    /// When outputs last got something, and the pause behind it.
    given: Instant,
    pause: Duration,
    /// The newest batch.
    newest: BatchNumber,
    /// The last batch before the first one that was dropped on its way here.
    gap: Option<u64>,
    /// The newest batch that is complete, as the decoder said when it was last asked.
    complete: u64,
    asked: Option<Instant>,
    /// Of a run that is told what its refused packets look like.
    sampler: Option<Sampler>,
    /// Of a run whose times are those of the host's clock.
    clock: Option<WorkerClock>,
    /// What is asked of the decoder.
    orders: Arc<DecoderOrders>,
    /// Who looks at its modules.
    modules: Option<Arc<ModuleBoard>>,
}

impl Processing {
    /// Joins a decoder with the outputs.
    pub fn new(
        decoder: Box<dyn Decoder>,
        fanout: Fanout,
        lossless: bool,
        replay: bool,
    ) -> Processing {
        let begun = Instant::now();
        let newest = BatchNumber { pipeline: fanout.pipeline(), batch: 0 };
        Processing {
            decoder,
            fanout,
            lossless,
            now: (!replay).then_some(Nanos(0)),
            begun,
            batches: 0,
            handed: begun,
            due: None,
            timed: false,
            overdue: false,
            given: begun,
            pause: GIVE_EVERY,
            newest,
            gap: None,
            complete: 0,
            asked: None,
            sampler: None,
            clock: None,
            orders: Arc::default(),
            modules: None,
        }
    }

    /// Is asked by these, and tells of its modules there.
    pub fn asked(mut self, orders: Arc<DecoderOrders>, modules: Arc<ModuleBoard>) -> Processing {
        (self.orders, self.modules) = (orders, Some(modules));
        self
    }

    /// Gives events the host's time.
    pub fn clocked(mut self, clock: Option<WorkerClock>) -> Processing {
        self.clock = clock;
        self
    }

    /// Keeps some of the packets that are refused ([`crate::refused`]).
    pub fn sampling(mut self, sampler: Option<Sampler>) -> Processing {
        self.sampler = sampler;
        self
    }

    /// Hops 2 to 6 for one batch. Returns the time if the clock was read.
    #[inline]
    pub(super) fn decode(&mut self, batch: &Batch) -> Result<Option<Instant>, PipelineError> {
        self.follow(batch.number());
        if !self.orders.is_empty() {
            obey(&self.orders, &mut *self.decoder);
        }
        if let Some(reason) = batch.flush() {
            self.flush(reason)?;
            return Ok(Some(self.handed));
        }
        let newest = self.newest;
        if trace::BUILT_IN {
            for train in batch.trains() {
                let origin = train.origin;
                train.chunks().for_each(|packet| {
                    trace!(Data, Debug, "{} bytes from {origin}", packet.len());
                });
            }
        }
        self.batches += 1;
        // A small batch means spare time, so the clock is affordable; a busy thread counts first. It is read before the batch is decoded, so
        // that what is in the batch is not older for the decoder than it is: the source may have waited.
        let small = batch.trains().len() < 4;
        let looks = self.timed || small || self.batches >= BATCHES_PER_CLOCK;
        let now = looks.then(Instant::now);
        if let Some(now) = now {
            self.clock_is(now);
        }
        self.overdue |= self.is_due();
        let products = self.fanout.products();
        products.batch = newest;
        self.decoder.decode(Some(batch), self.now, products);
        trace!(Process, Debug, "batch {newest:?} is decoded: {} packets", batch.count());
        self.note_due();
        self.look_at_clock();
        let products = self.fanout.products();
        trace!(Event, Debug, "{} events wait after batch {newest:?}", products.events.len());
        let full =
            products.events.len() >= HAND_OVER_EVENTS || products.table_bytes() >= HAND_OVER_BYTES;
        if let Some(sampler) = self.sampler.as_mut().filter(|s| s.is_eager()) {
            sampler.look(batch);
        }
        let now = now.or_else(|| full.then(Instant::now));
        let Some(now) = now else { return Ok(None) };
        self.batches = 0;
        if full || now.saturating_duration_since(self.handed) >= HAND_OVER_EVERY {
            if let Some(sampler) = &mut self.sampler {
                sampler.look(batch);
            }
            self.hand_over(now)?;
        } else if self.overdue && self.rest(now, HAND_OVER_EVERY).is_zero() {
            self.give_at_once()?;
        }
        Ok(Some(now))
    }

    /// Gives away what left because of its time, while batches come: the decoder has just looked at the clock.
    fn give_at_once(&mut self) -> Result<(), PipelineError> {
        self.settled()?;
        self.given = Instant::now();
        self.give()?;
        self.pause = (GIVE_SHARE * self.given.elapsed()).clamp(GIVE_EVERY, HAND_OVER_EVERY);
        Ok(())
    }

    /// True if the decoder's time has come.
    #[inline]
    fn is_due(&self) -> bool {
        self.now.zip(self.due).is_some_and(|(now, due)| due <= now)
    }

    /// Asks the decoder when it wants to look at the clock next.
    #[inline]
    fn note_due(&mut self) {
        self.due = self.now.and_then(|_| self.decoder.due());
        self.timed |= self.due.is_some();
    }

    /// True if the clock says when something is to be done next.
    pub(super) fn waits_for_time(&self) -> bool {
        self.overdue || self.due.is_some()
    }

    /// How long nothing has to be done from `now` on if no batch comes; at most `most`. While an output is behind, what left because of its time
    /// waits for company as everything else does: 64 places of its queue last 1.3 s then, and 6 ms otherwise.
    pub(super) fn rest(&self, now: Instant, most: Duration) -> Duration {
        if !self.waits_for_time() {
            return most;
        }
        let at = if !self.fanout.has_room() {
            self.handed + HAND_OVER_EVERY
        } else if self.overdue {
            self.given + self.pause
        } else {
            let due = self.due.map_or(0, |due| due.0.max(0) as u64);
            self.begun + Duration::from_nanos(due)
        };
        at.saturating_duration_since(now).min(most)
    }

    /// A batch comes. One that was dropped before it leaves a gap in the numbers.
    #[inline]
    fn follow(&mut self, number: BatchNumber) {
        if number.batch > self.newest.batch + 1 {
            self.gap.get_or_insert(self.newest.batch);
        }
        self.newest = number;
    }

    /// Looks at what the packets that were just read show of the detector's clock.
    #[inline]
    fn look_at_clock(&mut self) {
        let Some(clock) = &mut self.clock else { return };
        let Some(readings) = self.decoder.readings() else { return };
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

    /// Moves the decoder's clock on.
    #[inline]
    fn clock_is(&mut self, now: Instant) {
        if let Some(ns) = &mut self.now {
            *ns = Nanos(now.saturating_duration_since(self.begun).as_nanos() as i64);
        }
    }

    /// Nothing comes: what is finished goes to the outputs.
    pub(super) fn idle(&mut self, now: Instant) -> Result<(), PipelineError> {
        let long = now.saturating_duration_since(self.handed) >= HAND_OVER_EVERY;
        if long || self.rest(now, HAND_OVER_EVERY).is_zero() {
            self.hand_over(now)?;
        }
        Ok(())
    }

    /// Nothing came while the source was waited for: what is finished goes to the outputs at once. If an output is behind, it goes as in [`Self::idle`]:
    /// the wait may have been a short one.
    fn waited(&mut self, now: Instant) -> Result<(), PipelineError> {
        if self.waits_for_time() && !self.fanout.has_room() {
            return self.idle(now);
        }
        self.hand_over(now)
    }

    /// Gives away what is finished, also what has waited long enough.
    pub(super) fn hand_over(&mut self, now: Instant) -> Result<(), PipelineError> {
        self.settled()?;
        if !self.orders.is_empty() {
            obey(&self.orders, &mut *self.decoder);
        }
        (self.handed, self.given) = (now, now);
        self.clock_is(now);
        let mut more = self.look();
        if self.asked.is_none_or(|at| now.saturating_duration_since(at) >= ASK_EVERY) {
            self.asked = Some(now);
            self.ask();
            if let Some(board) = &self.modules {
                board.look(&*self.decoder, now);
            }
        }
        self.give()?;
        // Late already: the rest of it is not to wait for the next time. A source that cannot wait is read in between.
        while self.lossless && std::mem::take(&mut more) {
            more = self.look();
            self.give()?;
        }
        Ok(())
    }

    /// Has the decoder look at the clock; true if so much came of it that more may follow.
    fn look(&mut self) -> bool {
        if self.now.is_none() {
            return false;
        }
        let products = self.fanout.products();
        // A record may have no bytes.
        let size = |products: &Products| {
            (products.table_bytes(), products.events.len(), products.records.len())
        };
        let before = size(products);
        products.batch = self.newest;
        self.decoder.decode(None, self.now, products);
        let after = size(products);
        self.note_due();
        if after == before && self.is_due() {
            // It did not heed its own time: it is asked again after the next batch or hand-over. This thread would turn in circles.
            self.due = None;
        }
        after.0 >= before.0 + HAND_OVER_BYTES
    }

    /// Asks the decoder what still waits in it.
    fn ask(&mut self) {
        let newest = self.newest.batch;
        let complete = self.decoder.oldest().map_or(newest, |oldest| oldest.batch - 1);
        let complete = complete.min(newest).min(self.gap.unwrap_or(u64::MAX));
        self.complete = self.complete.max(complete);
    }

    /// Gives what was made to the outputs, with its final times.
    fn give(&mut self) -> Result<(), PipelineError> {
        self.overdue = false;
        if let Some(clock) = &mut self.clock {
            clock.place(self.fanout.products());
        }
        self.fanout.progress().decoded_is(self.newest.batch);
        self.fanout.products().complete = BatchNumber { batch: self.complete, ..self.newest };
        Ok(self.fanout.hand_over(self.lossless)?)
    }

    /// Decides on what waits, in the midst of the run, and tells the outputs.
    #[cold]
    fn flush(&mut self, reason: Flush) -> Result<(), PipelineError> {
        self.settled()?;
        let before = self.fanout.products().events.len();
        let products = self.decide(reason);
        products.flush = Some(reason);
        let cut = products.events.len() - before;
        self.fanout.progress().add_cut(cut as u64);
        self.handed = Instant::now();
        self.ask();
        self.give()
    }

    /// Has the decoder decide.
    fn decide(&mut self, reason: Flush) -> &mut Products {
        let products = self.fanout.products();
        products.batch = self.newest;
        self.decoder.flush(reason, products);
        self.note_due();
        self.fanout.products()
    }

    /// Nothing is handed on whose times may be wrong.
    fn settled(&mut self) -> Result<(), PipelineError> {
        let Some(why) = self.decoder.unsettled() else { return Ok(()) };
        let why = PipelineError::Unsettled(why.to_owned());
        self.fanout.products().clear();
        Err(why)
    }

    /// Settles what was pending and gives the rest away. `cut_short`: the source would have gone on.
    pub(super) fn finish(&mut self, cut_short: bool) -> Result<(), PipelineError> {
        if self.decoder.unsettled().is_some() {
            // Nothing more is made of it. A replay goes on from what was handed over.
            return self.settled();
        }
        let replay = self.now.is_none();
        if replay && cut_short {
            self.give()?;
            self.fanout.products().phase = Phase::CutShort;
        }
        let products = self.decide(Flush::End);
        if replay && !cut_short {
            products.phase = Phase::Complete;
        }
        if let Some(board) = &self.modules {
            board.look(&*self.decoder, Instant::now());
        }
        self.ask();
        self.give()
    }
}

/// One thread: the batch is decoded where it was received.
pub(super) struct Here<'a> {
    pub batch: Batch,
    pub work: &'a mut Processing,
}

impl Next for Here<'_> {
    fn batch(&mut self, _: &dyn Source) -> Option<&mut Batch> {
        Some(&mut self.batch)
    }
    #[inline]
    fn take(&mut self) -> Result<Option<Instant>, PipelineError> {
        self.work.decode(&self.batch)
    }
    fn wait(&self) -> Duration {
        if !self.work.waits_for_time() {
            return RECEIVE_WAIT;
        }
        // Two waits where one would end just before something is due: the usual one is a socket's own timeout, which counts the kernel's ticks
        // and was up to 8 ms late at 250 Hz. Shorter ones are exact.
        let rest = self.work.rest(Instant::now(), 2 * RECEIVE_WAIT);
        if rest < RECEIVE_WAIT { rest } else { rest / 2 }
    }
    fn idle(&mut self, now: Instant) -> Result<(), PipelineError> {
        self.work.waited(now)
    }
    fn ended_streams(&self) -> usize {
        self.work.decoder.ended_streams()
    }
}

/// The host's clock, ns since 1970.
pub(crate) fn unix_ns() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}
