//! The path of a batch in one worker: receive, decode, build, hand over; on one thread or on two.
//!
//! With `threads = 1` hops 1 to 5 share a thread; with 2, a ring of preallocated batches joins receiving
//! and processing, and the events are the same. The hot loop reads no clock per packet: a batch counter
//! comes first, the real clock only when due (the 2018 paper lost measurable time here).
//! A full ring never blocks a lossy source: the batch is dropped and counted as `receive.dropped`.

mod asked;
mod ending;
mod heart;
pub(crate) mod processing;
mod receive;
mod ring;

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::thread;
use std::time::Duration;

use fullcount_core::ledger::Sheet;
use fullcount_io::source::{Source, SourceError};

pub use self::asked::{DecoderOrders, decoder_commands};
pub use self::ending::{Progress, RunLimits};
pub use self::heart::{Heart, Hearts, STANDS_STILL};
pub use self::processing::Processing;
pub use self::ring::RingCount;

use self::processing::Here;
use self::receive::receive;
use self::ring::{Over, Shared};
use crate::fanout::RequiredSinkFailed;
use crate::stop::Stop;

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
    /// An output took nothing for its whole time at the end, before as many packets came as the run is for.
    #[error(
        "an output took nothing for as long as its drain, so the run ends before its {0} packets (engine.packets) have come, and what the \
         source still has is not read"
    )]
    Short(u64),
}

/// Receives and processes on this thread. Everything received has been handed over when it returns.
///
/// # Errors
/// The source or a required sink failed; what came before has still been handed over.
pub fn run_one_thread(
    source: &mut dyn Source,
    work: &mut Processing,
    limits: &RunLimits,
    stop: &Stop,
    progress: &Progress,
) -> Result<(), PipelineError> {
    let (batch, of) = (source.batch(), (limits, work.fanout.pipeline()));
    let heart = progress.heart("receive", of.1);
    work.fanout.beats(heart.clone());
    let outcome = receive(source, &mut Here { batch, work }, of, stop, (progress, &heart));
    // What follows may wait for outputs; it ends.
    heart.rests(true);
    progress.received_all(stop);
    let outcome = outcome.and_then(|()| progress.not_stuck(limits));
    let settled = work.finish(outcome.is_err() || stop.requested());
    progress.ended();
    outcome.and(settled)
}

/// As [`run_one_thread`], receiving on this thread and processing on a second one, which calls `pin`
/// first. `sheets`: one for each thread, both with the lines of [`RingCount`].
///
/// # Errors
/// As there, or if the second thread cannot be started.
pub fn run_two_threads(
    source: &mut dyn Source,
    work: &mut Processing,
    limits: &RunLimits,
    stop: &Stop,
    progress: &Progress,
    (received, taken): (&Sheet, &Sheet),
    pin: impl FnOnce() + Send,
) -> Result<(), PipelineError> {
    let shared = Shared::default();
    let of = (limits, work.fanout.pipeline());
    let (mut over, mut taking) = Over::new(source, received, &shared);
    let hearts = ["receive", "process"].map(|name| progress.heart(name, of.1));
    work.fanout.beats(hearts[1].clone());
    let outcome = thread::scope(|scope| {
        let process = || {
            pin();
            let outcome = taking.serve(work, taken, &shared, &hearts[1]);
            hearts[1].rests(true);
            shared.broken.store(outcome.is_err(), Relaxed);
            outcome.and(work.finish(shared.cut_short.load(SeqCst)))
        };
        let worker = thread::Builder::new()
            .name("process".into())
            .spawn_scoped(scope, process)
            .map_err(|e| PipelineError::Thread(e.to_string()))?;
        let outcome = receive(source, &mut over, of, stop, (progress, &hearts[0]));
        hearts[0].rests(true);
        progress.received_all(stop);
        let outcome = outcome.and_then(|()| progress.not_stuck(limits));
        shared.cut_short.store(outcome.is_err() || stop.requested(), SeqCst);
        // The other thread sees that nothing more comes.
        drop(over);
        let settled = worker.join().map_err(|_| PipelineError::Thread("panicked".into()))?;
        outcome.and(settled)
    });
    progress.ended();
    outcome
}

#[cfg(test)]
#[path = "pipeline_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "pipeline_late_tests.rs"]
mod late_tests;

#[cfg(test)]
#[path = "pipeline_due_tests.rs"]
mod due_tests;
