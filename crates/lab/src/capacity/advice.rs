//! What to change where a queue runs over, or never empties.
//!
//! Needed sizes come from a second run without bounds.

use fullcount_io::quantity::size_text;

use super::plan::CapacityPlan;
use super::queues::{QueueOutcome, QueueSetup, Sizes, simulate};

/// A worker's run, and what it would need where something was lost.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkerRun {
    /// What was simulated.
    pub setup: QueueSetup,
    /// What came of it.
    pub outcome: QueueOutcome,
    /// The same without bounds, where something was lost.
    pub unbounded: Option<QueueOutcome>,
}

/// Simulates a worker, and once more without bounds if it loses something.
pub fn run(setup: QueueSetup) -> WorkerRun {
    let outcome = simulate(&setup);
    let lost = outcome.lost.iter().any(|n| *n > 0);
    let unbounded = lost.then(|| simulate(&setup.unbounded()));
    WorkerRun { setup, outcome, unbounded }
}

/// Bytes, as a size that can be given: whole MiB, at least one.
fn mebibytes(bytes: f64) -> String {
    size_text(((bytes / f64::from(1 << 20)).ceil().max(1.0) as u64) << 20)
}

/// Sentences, the most important first; empty if all is well.
pub fn advice(plan: &CapacityPlan, sizes: &Sizes, run: &WorkerRun) -> Vec<String> {
    let (s, o) = (&run.setup, &run.outcome);
    let mut said = vec![];
    let slowest = s.receive.min(s.process.unwrap_or(f64::INFINITY));
    let times = |have: f64| (s.rate / (have * plan.wishes.headroom) * plan.workers as f64).ceil();
    if slowest <= s.rate {
        said.push(format!(
            "a worker is slower than its share of the stream: {} workers instead of {}",
            times(slowest),
            plan.workers
        ));
    }
    if let Some((append, produce)) = s.output {
        if append <= s.rate {
            said.push(format!(
                "the disk of the spool is slower than the stream: {} instances, each with a disk of its own, instead \
                 of {}",
                times(append),
                plan.workers
            ));
        }
        if produce <= s.rate {
            said.push(format!(
                "the brokers take less than comes, and the spool never empties: {} instances with a partition each \
                 instead of {}, or compression",
                times(produce),
                plan.workers
            ));
        }
    }
    let Some(free) = &run.unbounded else { return said };
    if o.lost[0] > 0 && slowest > s.rate {
        let per_packet = sizes.receive_buffer as f64 / s.room[0].max(1) as f64;
        let wanted = mebibytes(free.deepest[0] as f64 * per_packet / plan.wishes.headroom);
        said.push(format!(
            "the socket buffer runs over in the peak: source.receive_buffer of {wanted} instead of {}, or {} workers",
            size_text(sizes.receive_buffer),
            (plan.workers as f64 * s.factor * s.rate / slowest).ceil()
        ));
    }
    let held = s.output.is_some_and(|(append, _)| append > s.rate);
    if o.lost[1] > 0 && held {
        if o.deepest[3] == s.room[3] {
            let wanted = mebibytes(free.deepest[3] as f64 * s.bytes[3] / plan.wishes.headroom);
            said.push(format!(
                "the spool runs full in the outage: output.kafka.spool_size of {wanted} instead of {}",
                size_text(sizes.spool)
            ));
        } else {
            let batches = sizes.queue as f64 * free.deepest[2] as f64 / s.room[2] as f64;
            said.push(format!(
                "the output's queue runs over in the peak: engine.queue of {} instead of {}",
                (batches / plan.wishes.headroom).ceil(),
                sizes.queue
            ));
        }
    }
    said
}
