//! One number for progress: which batches are decoded, handed on and safe.
//!
//! A pipeline numbers its batches as it receives them, from 1 and without a gap. A decoder says which is the oldest batch of
//! which something still waits in it, products carry the newest batch that is complete with them, and an output says up to which
//! batch everything is safe with it. An answer may be late, never early, and never passes a batch that was dropped.
//! Source: `docs/contracts.md`, "Progress".

use std::collections::VecDeque;

/// Number of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BatchNumber {
    /// Pipeline that received it, from 0.
    pub pipeline: u32,
    /// Its place among the batches of that pipeline, from 1; "up to 0" is none.
    pub batch: u64,
}

/// Why what waits is to be decided now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// A part of the stream goes to another reader (a partition of a topic): what waits is decided with what is there, open gaps
    /// become losses, and each stream begins with whatever comes next.
    Taken,
    /// Something has waited for so long that it holds back the progress of all that came behind it: what waits is decided.
    Stalled,
    /// The run has ended.
    End,
}

/// How far the batches of one pipeline are, for a source that tells others how far it is. A number is late or right, never early.
pub trait PipelineProgress: Send + Sync {
    /// The newest batch that was decoded.
    fn decoded(&self) -> u64;

    /// The newest batch of which, and of those before it, nothing waits in the decoder, and all was offered to the outputs.
    fn complete(&self) -> u64;

    /// All batches up to this one are safe with every output whose losses are losses of the run.
    fn safe(&self) -> u64;

    /// Events that were made of what waited, in the midst of the run.
    fn cut(&self) -> u64;
}

/// Places that one pipeline may have under way in an output: where there are more, later ones take the place of the last.
const MOST: usize = 1024;

/// What an output knows of the batches that it took: each has a place in what the output writes, and is safe once the output
/// has got there.
#[derive(Debug, Clone, Default)]
pub struct SafeBatches {
    pipelines: Vec<Taken>,
    /// Something was dropped: nothing more becomes safe.
    stopped: bool,
}

#[derive(Debug, Clone, Default)]
struct Taken {
    safe: u64,
    /// Place, and batches up to which number it holds; both rise.
    waiting: VecDeque<(u64, u64)>,
}

impl SafeBatches {
    /// The output has taken all of the batches up to this one; they are safe once it has got to `place`, which never falls.
    pub fn took(&mut self, upto: BatchNumber, place: u64) {
        let at = upto.pipeline as usize;
        while self.pipelines.len() <= at {
            self.pipelines.push(Taken { safe: 0, waiting: VecDeque::with_capacity(MOST) });
        }
        let Taken { safe, waiting } = &mut self.pipelines[at];
        if waiting.back().map_or(*safe, |last| last.1) >= upto.batch {
            // Told before, with an earlier place.
            return;
        }
        let full = waiting.len() == MOST;
        match waiting.back_mut() {
            Some(last) if full || last.0 == place => *last = (place, upto.batch),
            _ => waiting.push_back((place, upto.batch)),
        }
    }

    /// The output has got to `place`.
    pub fn reached(&mut self, place: u64) {
        if self.stopped {
            return;
        }
        for Taken { safe, waiting } in &mut self.pipelines {
            while let Some((_, batch)) = waiting.pop_front_if(|(at, _)| *at <= place) {
                *safe = batch;
            }
        }
    }

    /// Something that was taken is lost: what is not safe by now never is.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// All batches of this pipeline up to this one are safe.
    pub fn upto(&self, pipeline: u32) -> u64 {
        self.pipelines.get(pipeline as usize).map_or(0, |taken| taken.safe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(pipeline: u32, batch: u64) -> BatchNumber {
        BatchNumber { pipeline, batch }
    }

    #[test]
    fn a_batch_is_safe_once_its_place_is_reached_and_none_after_a_loss() {
        let mut safe = SafeBatches::default();
        safe.took(batch(0, 3), 100);
        safe.took(batch(2, 7), 120);
        safe.took(batch(0, 4), 130);
        // Nothing of it has to be written.
        safe.took(batch(0, 5), 130);
        assert_eq!([safe.upto(0), safe.upto(1), safe.upto(2), safe.upto(9)], [0; 4]);
        safe.reached(120);
        assert_eq!([safe.upto(0), safe.upto(2)], [3, 7]);
        safe.reached(129);
        assert_eq!(safe.upto(0), 3);
        safe.reached(130);
        assert_eq!(safe.upto(0), 5);
        safe.took(batch(0, 6), 140);
        safe.stop();
        safe.reached(140);
        safe.took(batch(0, 7), 150);
        safe.reached(1000);
        assert_eq!([safe.upto(0), safe.upto(2)], [5, 7]);
    }

    #[test]
    fn an_output_that_waits_for_long_costs_no_memory_and_is_late_not_early() {
        let mut safe = SafeBatches::default();
        (1..=5000).for_each(|n| safe.took(batch(0, n), 10 * n));
        assert!(safe.pipelines[0].waiting.len() <= MOST);
        for place in [0, 9, 10, 5000, 10_239, 49_999] {
            safe.reached(place);
            assert!(10 * safe.upto(0) <= place, "{place}: {}", safe.upto(0));
        }
        safe.reached(50_000);
        assert_eq!(safe.upto(0), 5000);
        // Told again: it is safe, and stays so.
        safe.took(batch(0, 5000), 60_000);
        assert_eq!(safe.upto(0), 5000);
    }
}
