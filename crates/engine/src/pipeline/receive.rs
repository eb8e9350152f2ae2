//! Hop 1: receives batches, numbers them and hands them on, until the source ends, a limit is reached or somebody asks to stop.

use std::time::{Duration, Instant};

use fullcount_core::batch::Batch;
use fullcount_core::progress::BatchNumber;
use fullcount_core::trace;
use fullcount_io::source::{Received, Source};

use super::PipelineError;
use super::ending::{Ending, Progress, RunLimits};
use super::heart::Heart;
use super::processing::unix_ns;
use crate::stop::Stop;

/// Longest wait of one receive call; bounds the reaction to Ctrl-C.
pub(super) const RECEIVE_WAIT: Duration = Duration::from_millis(20);
/// What is still in the socket when the run is stopped gets at least this long to be read: 64 MiB are 54 ms of
/// 10 Gb/s.
const DRAIN: Duration = Duration::from_millis(200);
/// And at most this long, where the decoder is slow: a sender that goes on must not keep us for ever.
const LONGEST_DRAIN: Duration = Duration::from_secs(5);
/// Packets, and bytes, that a buffer of 64 MiB can hold at most: the kernel doubles it, and accounts at least 768 B for a
/// packet. Once so many were read, what was in the socket when the run was stopped is among them.
const BUFFERED_PACKETS: u64 = BUFFERED_BYTES / 768;
const BUFFERED_BYTES: u64 = 128 << 20;

/// Where received batches go: straight into the decoder, or over the ring.
pub(super) trait Next {
    /// Memory for the next batch of `source`; `None`: nobody processes any more.
    fn batch(&mut self, source: &dyn Source) -> Option<&mut Batch>;
    /// The batch holds data, or says that what waits is to be decided. Returns the time if the clock was read.
    fn take(&mut self) -> Result<Option<Instant>, PipelineError>;
    /// How long the source is waited for: less than [`RECEIVE_WAIT`] if something is due before.
    fn wait(&self) -> Duration;
    /// Nothing came for so long.
    fn idle(&mut self, now: Instant) -> Result<(), PipelineError>;
    /// Streams that said that they are complete, if all have; else 0.
    fn ended_streams(&self) -> usize;
}

/// What was read of a socket since somebody asked to stop.
pub(super) struct Draining {
    pub since: Instant,
    pub packets: u64,
    pub bytes: u64,
}

impl Draining {
    pub fn since(since: Instant) -> Draining {
        Draining { since, packets: 0, bytes: 0 }
    }

    pub fn read(&mut self, batch: &Batch) {
        self.packets += batch.count();
        self.bytes += batch.bytes();
    }

    /// True once what was there when the run was stopped has been read, or took too long.
    pub fn is_over(&self, now: Instant) -> bool {
        let took = now.saturating_duration_since(self.since);
        let all = self.packets >= BUFFERED_PACKETS || self.bytes >= BUFFERED_BYTES;
        took >= LONGEST_DRAIN || (all && took >= DRAIN)
    }
}

/// Receives until the end. `pipeline`: of the batches' numbers. `heart`: of this thread.
pub(super) fn receive(
    source: &mut dyn Source,
    next: &mut impl Next,
    (limits, pipeline): (&RunLimits, u32),
    stop: &Stop,
    (progress, heart): (&Progress, &Heart),
) -> Result<(), PipelineError> {
    // These wait for a file, a broker or an output for as long as that takes.
    let rests = source.lossless() || source.replay();
    let mut ending = Ending::new(limits, stop, progress);
    let mut draining: Option<Draining> = None;
    let mut number = BatchNumber { pipeline, batch: 1 };
    loop {
        let wait = if draining.is_some() { Duration::ZERO } else { next.wait() };
        heart.beat();
        heart.rests(rests);
        let Some(batch) = next.batch(source) else { return Ok(()) };
        batch.set_number(number);
        let received = source.recv(batch, wait)?;
        heart.rests(false);
        let now = match received {
            Received::End => return Ok(()),
            Received::Idle => {
                let complete = if limits.past_end_mark { 0 } else { next.ended_streams() };
                ending.streams_are(complete);
                if draining.is_some() || ending.all_complete() {
                    return Ok(());
                }
                let now = Instant::now();
                next.idle(now)?;
                Some(now)
            }
            Received::Flush(reason) => {
                batch.set_flush(reason);
                number.batch += 1;
                next.take()?
            }
            Received::Data => {
                if limits.stamp {
                    batch.stamp(unix_ns());
                }
                if let Some(draining) = &mut draining {
                    draining.read(batch);
                }
                trace!(Input, Debug, "batch {}: {} packets", number.batch, batch.count());
                number.batch += 1;
                let last = limits.packets.is_some() && progress.last_packets(batch.count(), limits);
                let first = !ending.active;
                if first {
                    ending.begin();
                }
                // Repeated end marks come up to 75 ms after the data and must not stretch their time.
                let over = next.ended_streams() > 0 && !limits.past_end_mark;
                let read = next.take()?;
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
