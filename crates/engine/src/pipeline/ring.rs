//! The ring of batches between a receiving thread and a processing one.
//!
//! Made once, so nothing is allocated. A full ring never blocks a lossy source: the batch is dropped and counted as
//! `receive.dropped`, once the kernel's buffer can hold no more for it.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread;
use std::time::{Duration, Instant};

use fullcount_core::batch::Batch;
use fullcount_core::ledger::Sheet;
use fullcount_core::trace;
use fullcount_io::source::Source;

use super::PipelineError;
use super::heart::Heart;
use super::processing::{BATCHES_PER_CLOCK, Processing};
use super::receive::{Next, RECEIVE_WAIT};

fullcount_core::counters! {
    /// Counters of the ring between receiving and processing (all 0 with one thread).
    pub enum RingCount {
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

/// Two threads: the batch moves over the ring; without a free one a lossy source drops it.
pub(super) struct Over<'a> {
    full: rtrb::Producer<Batch>,
    free: rtrb::Consumer<Batch>,
    held: Option<Batch>,
    spare: Batch,
    lossless: bool,
    /// Since when the ring has been full.
    full_since: Option<Instant>,
    sheet: &'a Sheet,
    shared: &'a Shared,
    batches: u32,
}

/// What the two threads tell each other beside the ring.
#[derive(Default)]
pub(super) struct Shared {
    /// Streams that are complete, if all are.
    ended: AtomicUsize,
    /// Nobody processes any more.
    pub broken: AtomicBool,
    /// The source would have gone on. Said before the ring is given up, which orders it.
    pub cut_short: AtomicBool,
}

/// The processing thread's end of the ring.
pub(super) struct Taking {
    batches: rtrb::Consumer<Batch>,
    back: rtrb::Producer<Batch>,
}

impl<'a> Over<'a> {
    /// Both ends of a ring of batches of this source.
    pub fn new(source: &dyn Source, sheet: &'a Sheet, shared: &'a Shared) -> (Over<'a>, Taking) {
        let (full, batches) = rtrb::RingBuffer::<Batch>::new(RING);
        let (mut back, free) = rtrb::RingBuffer::<Batch>::new(RING);
        for _ in 0..RING {
            drop(back.push(source.batch()));
        }
        let lossless = source.lossless();
        let spare = if lossless { Batch::with_slots(0, 0) } else { source.batch() };
        let (held, full_since, batches_seen) = (None, None, 0);
        let over = Over {
            full,
            free,
            held,
            spare,
            lossless,
            full_since,
            sheet,
            shared,
            batches: batches_seen,
        };
        (over, Taking { batches, back })
    }

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
    fn batch(&mut self, source: &dyn Source) -> Option<&mut Batch> {
        while self.held.is_none() {
            self.held = self.free.pop().ok();
            if self.held.is_some() {
                self.full_since = None;
                break;
            }
            if self.shared.broken.load(Relaxed) {
                return None;
            }
            if !self.lossless && self.must_drop(source) {
                trace!(
                    Ipc,
                    Warning, "all {RING} batches are with the decoder: the next is dropped"
                );
                return Some(&mut self.spare);
            }
            thread::sleep(RING_NAP);
        }
        self.held.as_mut()
    }

    fn take(&mut self) -> Result<Option<Instant>, PipelineError> {
        let batch = self.held.as_ref().unwrap_or(&self.spare);
        let (packets, small) = (batch.count(), batch.trains().len() < 4);
        self.sheet.add(RingCount::In as usize, packets);
        match self.held.take() {
            // There are as many places as batches: a popped one always finds room.
            Some(batch) => drop(self.full.push(batch)),
            None => self.sheet.add(RingCount::Dropped as usize, packets),
        }
        self.batches += 1;
        if self.batches < BATCHES_PER_CLOCK && !small {
            return Ok(None);
        }
        self.batches = 0;
        Ok(Some(Instant::now()))
    }

    /// What is due is the other thread's business.
    fn wait(&self) -> Duration {
        RECEIVE_WAIT
    }
    fn idle(&mut self, _: Instant) -> Result<(), PipelineError> {
        Ok(())
    }
    fn ended_streams(&self) -> usize {
        self.shared.ended.load(Relaxed)
    }
}

impl Taking {
    /// The second thread: decodes batches until the receiving one has gone and the ring is empty.
    pub fn serve(
        &mut self,
        work: &mut Processing,
        sheet: &Sheet,
        shared: &Shared,
        heart: &Heart,
    ) -> Result<(), PipelineError> {
        let mut empty = 0u32;
        loop {
            heart.beat();
            match self.batches.pop() {
                Ok(batch) => {
                    empty = 0;
                    trace!(Ipc, Debug, "batch {:?} comes over the ring", batch.number());
                    sheet.add(RingCount::Taken as usize, batch.count());
                    if batch.is_empty() && batch.flush().is_none() {
                        sheet.add(RingCount::Synch as usize, 1);
                    }
                    work.decode(&batch)?;
                    drop(self.back.push(batch));
                    shared.ended.store(work.decoder.ended_streams(), Relaxed);
                }
                Err(_) if self.batches.is_abandoned() && self.batches.is_empty() => return Ok(()),
                Err(_) => {
                    sheet.add(RingCount::Idle as usize, 1);
                    work.idle(Instant::now())?;
                    empty = empty.saturating_add(1);
                    let nap = if empty < NAPS_AWAKE { RING_NAP } else { LONG_NAP };
                    // A nap ends when something is due.
                    let due = work.waits_for_time();
                    thread::sleep(if due { work.rest(Instant::now(), nap) } else { nap });
                }
            }
        }
    }
}
