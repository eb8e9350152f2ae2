//! A wrapper of a source that copies received packets for a capture.
//!
//! Per train one copy into a block, per block one transfer through a ring: no lock, no allocation, no system
//! call, a clock read only where a batch is small or 16 have come. Freed blocks are used again from the
//! last one on, so that a writer that keeps up sees the same few blocks, which stay in the cache.
//! Refuses: chunks too long for a datagram (pieces of a stream), counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::Release};
use std::time::{Duration, Instant};

use fullcount_core::batch::{Batch, Origin, Train};
use fullcount_core::ledger::Sheet;

use super::block::{BLOCK_BYTES, Block};
use super::frames::LONGEST;
use super::room::Room;
use crate::source::{Received, Source, SourceError};
use crate::wall::wall_ns;

fullcount_core::counters! {
    /// Counters of a worker's tap. The hop balances with the counters of the writer.
    pub enum Captured {
        Packets "sink.capture.packets" Packets Sum "sink.capture" In
            "packets offered to the capture" "";
        Dropped "sink.capture.dropped" Packets Sum "sink.capture" Dropped(Queue)
            "packets not captured because the writer could not follow (their events were made)"
            "the disk or the writing thread is slower than the link: a faster disk (dd bs=1M \
             conv=fdatasync measures it), a core to spare for the thread capture, fewer other \
             writers, or a larger output.capture.buffer for short stalls of the disk";
        Failed "sink.capture.failed" Packets Sum "sink.capture" Dropped(Queue)
            "packets not captured because writing had failed (their events were made)"
            "the message of the capture says why: room on the disk, its permissions; \
             output.capture.keep bounds what a series takes";
        TooLong "sink.capture.too_long" Packets Sum "sink.capture" Rejected
            "chunks longer than a datagram can be, not captured" "the source cuts its bytes wrongly: look at its framing";
        Stamped "sink.capture.stamped" Packets Sum "sink.capture" Note
            "packets without a receive time of their own, captured with that of the receive call"
            "receive with an engine that gives times: any but plain";
        WaitingPeak "sink.capture.waiting_peak" Bytes Max "sink.capture" Note
            "most bytes of output.capture.buffer that were in use" "";
        Waits "sink.capture.waits" Times Sum "sink.capture" Note
            "times that a source which loses nothing was made to wait for the writer" "";
    }
}

/// Longest time that a packet waits in a block for company.
const HAND_OVER_EVERY: Duration = Duration::from_millis(50);
/// A busy thread looks at the clock once per this many batches, as the pipeline does.
const BATCHES_PER_CLOCK: u32 = 16;
/// Pause of a source that waits for the writer.
const NAP: Duration = Duration::from_micros(100);

/// The receiving side of a worker's ring.
pub(super) struct Line {
    pub(super) full: rtrb::Producer<Block>,
    pub(super) free: rtrb::Consumer<Block>,
    pub(super) sheet: Arc<Sheet>,
    /// All batches up to this one are in blocks that were handed over.
    pub(super) given: Arc<AtomicU64>,
    /// Set by the writer once it has failed for good.
    pub(super) failed: Arc<AtomicBool>,
    /// Name of the output.
    pub(super) output: &'static str,
    /// What the writer's error is about, for the message of a run that ends with it.
    pub(super) place: String,
    pub(super) required: bool,
    pub(super) room: Room,
    /// Every n-th packet is taken, beginning with the first.
    pub(super) every: u64,
}

/// A source whose packets are captured as well.
pub struct Tap {
    inner: Box<dyn Source>,
    line: Line,
    current: Option<Block>,
    /// Freed blocks; the last is used first.
    stack: Vec<Block>,
    /// The last batch up to which all packets were copied.
    newest: u64,
    /// Some packet was not captured.
    gap: bool,
    /// Packets not captured since the last block that was begun.
    missed: u64,
    /// Packets that pass before the next one that is taken.
    skip: u64,
    /// Wait for the writer rather than miss any.
    wait: bool,
    batches: u32,
    handed: Instant,
}

impl Tap {
    pub(super) fn new(inner: Box<dyn Source>, line: Line) -> Tap {
        let wait = line.required && inner.lossless();
        let stack = Vec::with_capacity(line.room.most());
        let (current, missed, skip, batches, handed) = (None, 0, 0, 0, Instant::now());
        let (newest, gap) = (0, false);
        Tap { inner, line, current, stack, newest, gap, missed, skip, wait, batches, handed }
    }

    /// Counters of the capture; [`Source::sheet`] gives those of the wrapped source.
    pub fn capture_sheet(&self) -> Arc<Sheet> {
        self.line.sheet.clone()
    }

    fn count(&self, line: Captured, n: u64) {
        if n > 0 {
            self.line.sheet.add(line as usize, n);
        }
    }

    /// A block with room, or why there is none.
    fn begin(&mut self) -> Result<(), Captured> {
        if self.current.is_some() {
            return Ok(());
        }
        let mut waited = false;
        loop {
            while let Ok(block) = self.line.free.pop() {
                self.stack.push(block);
            }
            self.line.room.refill(&mut self.stack);
            if self.line.failed.load(Relaxed) {
                return Err(Captured::Failed);
            }
            if let Some(mut block) = self.stack.pop() {
                block.dropped = std::mem::take(&mut self.missed);
                let used = (self.line.room.have() - self.stack.len()) as u64 * BLOCK_BYTES as u64;
                let peak = Captured::WaitingPeak as usize;
                if used > self.line.sheet.get(peak) {
                    self.line.sheet.set(peak, used);
                }
                self.current = Some(block);
                return Ok(());
            }
            if !self.wait {
                return Err(Captured::Dropped);
            }
            if !waited {
                self.count(Captured::Waits, 1);
                waited = true;
            }
            std::thread::sleep(NAP);
        }
    }

    /// Gives the block in hand to the writer.
    fn hand_over(&mut self) {
        if let Some(block) = self.current.take_if(|b| !b.is_empty()) {
            // There are as many places as blocks.
            drop(self.line.full.push(block));
        }
        self.line.given.store(self.newest, Release);
    }

    fn put(&mut self, train: Train<'_>, to: Origin, time_ns: i64) {
        let longest = if train.origin.is_ipv6() { LONGEST + 20 } else { LONGEST };
        let each = if train.stride == 0 { train.bytes.len() } else { train.stride };
        if each.min(train.bytes.len()) > longest {
            self.count(Captured::TooLong, train.count() as u64);
            return;
        }
        let mut rest = Some(train);
        while let Some(train) = rest {
            if let Err(why) = self.begin() {
                let n = train.count() as u64;
                self.missed += n;
                self.gap = true;
                self.count(why, n);
                return;
            }
            let Some(block) = &mut self.current else { return };
            rest = block.put(train, to, time_ns);
            if rest.is_some() {
                self.hand_over();
            }
        }
    }

    /// Packets among the next `all` that are every n-th.
    fn wanted(&self, all: u64) -> u64 {
        all.saturating_sub(self.skip).div_ceil(self.line.every)
    }

    /// Copies every n-th datagram of a train.
    fn pick(&mut self, train: Train<'_>, to: Origin, time_ns: i64) {
        for bytes in train.chunks() {
            if self.skip > 0 {
                self.skip -= 1;
                continue;
            }
            self.skip = self.line.every - 1;
            self.put(Train { bytes, stride: 0, ..train }, to, time_ns);
        }
    }

    /// Copies received packets.
    fn take(&mut self, batch: &Batch) {
        let destinations = batch.destinations();
        let (mut packets, mut stamped, mut now_ns) = (0, 0, 0);
        for (at, train) in batch.trains().enumerate() {
            let all = train.count() as u64;
            let n = if self.line.every == 1 { all } else { self.wanted(all) };
            if n == 0 {
                self.skip -= all;
                continue;
            }
            packets += n;
            let mut time_ns = train.time_ns;
            if time_ns == 0 {
                if now_ns == 0 {
                    now_ns = wall_ns();
                }
                (time_ns, stamped) = (now_ns, stamped + n);
            }
            let to = destinations.get(at).copied().unwrap_or_else(|| nowhere(&train));
            if self.line.every == 1 {
                self.put(train, to, time_ns);
            } else {
                self.pick(train, to, time_ns);
            }
        }
        if !self.gap {
            self.newest = batch.number().batch;
        }
        self.count(Captured::Packets, packets);
        self.count(Captured::Stamped, stamped);
        self.batches += 1;
        if self.batches < BATCHES_PER_CLOCK && batch.trains().len() >= 4 {
            return;
        }
        self.batches = 0;
        let now = Instant::now();
        if now - self.handed >= HAND_OVER_EVERY {
            self.handed = now;
            self.hand_over();
        }
    }
}

/// Stands for a receiver that the source does not know: the unspecified address of the sender's family.
fn nowhere(train: &Train<'_>) -> Origin {
    let mut ip = [0; 16];
    if train.origin != Origin::NONE && !train.origin.is_ipv6() {
        ip[10..12].fill(0xff);
    }
    Origin { ip, port: 0 }
}

impl Source for Tap {
    fn recv(&mut self, batch: &mut Batch, wait: Duration) -> Result<Received, SourceError> {
        let outcome = self.inner.recv(batch, wait)?;
        match outcome {
            Received::Data => self.take(batch),
            Received::Flush(_) | Received::Idle | Received::End => self.hand_over(),
        }
        if self.wait && self.line.failed.load(Relaxed) {
            let endpoint = self.line.place.clone();
            let cause =
                "it failed, and the source is lossless: the run ends rather than lose packets";
            let what = self.line.output.into();
            return Err(SourceError { endpoint, what, cause: cause.into() });
        }
        Ok(outcome)
    }

    fullcount_core::as_inner_source!(inner: batch lossless replay for_capture buffer_percent streams sheet describe);
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.hand_over();
    }
}
