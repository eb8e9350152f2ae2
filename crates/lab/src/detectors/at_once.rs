//! Pipelines side by side, each on a thread of its own that is pinned to a core where it may be.

use std::sync::Barrier;
use std::time::Duration;

use fullcount_detect::detector::{Detector, Threads};

use super::chain::{ChainOutcome, DecoderPart, drive};
use super::image::PacketImage;
use crate::Tell;

/// One pipeline.
#[derive(Clone, Copy)]
pub struct Pipeline<'a> {
    /// What decodes.
    pub detector: &'a dyn Detector,
    /// How much of it.
    pub part: DecoderPart,
    /// What it is given.
    pub image: &'a PacketImage,
    /// Its core; `None`: wherever the system puts it.
    pub core: Option<usize>,
    /// Threads of its builder, this one included.
    pub threads: &'a Threads,
}

/// Runs all of them from one moment on for `time` or until `stop`; outcomes in their order.
///
/// # Errors
/// The first whose counters do not add up, or that panicked.
pub fn at_once(
    pipelines: &[Pipeline<'_>],
    time: Duration,
    stop: &(dyn Fn() -> bool + Sync),
    tell: Tell,
) -> anyhow::Result<Vec<ChainOutcome>> {
    let together = &Barrier::new(pipelines.len());
    let run = |p: Pipeline<'_>| -> anyhow::Result<ChainOutcome> {
        if let Some(core) = p.core
            && let Err(e) = fullcount_io::sys::pin_thread(core)
        {
            tell(&format!("cannot pin to CPU {core}: {e}; measured without"));
        }
        together.wait();
        drive((p.detector, p.threads), p.part, p.image, time, stop)
    };
    std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = pipelines.iter().map(|&p| scope.spawn(move || run(p))).collect();
        let outcome = |t: std::thread::ScopedJoinHandle<'_, anyhow::Result<ChainOutcome>>| {
            t.join().map_err(|_| anyhow::anyhow!("a pipeline panicked"))?
        };
        threads.into_iter().map(outcome).collect()
    })
}
