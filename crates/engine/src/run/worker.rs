//! A worker: one thread that receives, and processes unless a second one does, until the end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fullcount_core::ledger::Sheet;
use fullcount_io::source::Source;

use crate::fanout::Fanout;
use crate::pipeline::{PipelineError, Processing, Progress, RunLimits};
use crate::pipeline::{run_one_thread, run_two_threads};
use crate::stop::Stop;

/// What a worker leaves.
pub(super) type Finished = (Fanout, Box<dyn Source>, Result<(), PipelineError>);

/// Everything that one worker's thread needs.
pub(super) struct Worker {
    pub(super) source: Box<dyn Source>,
    pub(super) work: Processing,
    /// Sheets of the ring: of the receiving and of the processing thread.
    pub(super) rings: (Arc<Sheet>, Arc<Sheet>),
    pub(super) limits: RunLimits,
    pub(super) threads: u32,
    pub(super) core: Option<usize>,
    pub(super) process_core: Option<usize>,
}

impl Worker {
    /// Receives and processes until the end.
    pub(super) fn run(mut self, stop: &Stop, progress: &Progress) -> Finished {
        let _leaving = Leaving(stop);
        pin(self.core);
        let (source, work, limits) = (self.source.as_mut(), &mut self.work, &self.limits);
        let outcome = if self.threads == 2 {
            let sheets = (&*self.rings.0, &*self.rings.1);
            let on_process = || pin(self.process_core);
            run_two_threads(source, work, limits, stop, progress, sheets, on_process)
        } else {
            run_one_thread(source, work, limits, stop, progress)
        };
        if outcome.is_err() {
            // The others must not go on alone: half a detector looks like a whole one.
            stop.request();
        }
        // The socket stays open until all workers have ended: the kernel would give what still comes for
        // it to the others.
        (self.work.fanout, self.source, outcome)
    }
}

/// Stops all workers if this one panics.
struct Leaving<'a>(&'a Stop);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.request();
        }
    }
}

/// Between two looks at the limits.
const LOOK: Duration = Duration::from_millis(50);

/// Looks at the limits beside the workers, which cannot while they wait for an output.
pub(super) fn watch_limits(
    limits: RunLimits,
    lossless: bool,
    stop: &Stop,
    progress: &Arc<Progress>,
) -> std::io::Result<()> {
    if limits.duration.is_none() && limits.idle.is_none() && limits.packets.is_none() {
        return Ok(());
    }
    if lossless && limits.packets.is_some() {
        stop.heed_stuck_outputs();
    }
    let (stop, progress) = (stop.clone(), Arc::downgrade(progress));
    let look = move || {
        let mut looked = Instant::now();
        while let Some(progress) = progress.upgrade().filter(|p| !p.done()) {
            let now = Instant::now();
            // A process that stood still has not waited for anybody.
            let awake = now.saturating_duration_since(looked) < 10 * LOOK;
            progress.look(&limits, lossless && awake, &stop, now);
            looked = now;
            drop(progress);
            std::thread::sleep(LOOK);
        }
    };
    std::thread::Builder::new().name("limits".into()).spawn(look).map(drop)
}

/// Binds the thread to a CPU.
pub(super) fn pin(core: Option<usize>) {
    if let Some(core) = core {
        // Not fatal: a container may forbid it, and the run is right without.
        if let Err(e) = fullcount_io::sys::pin_thread(core) {
            fullcount_log::warning!("cannot pin to CPU {core}: {e}");
        }
    }
}
