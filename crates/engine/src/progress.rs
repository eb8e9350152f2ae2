//! How far the batches of one pipeline are: decoded, complete, safe with the outputs.
//!
//! Written by the pipeline's thread and those of the outputs, read by a source that tells others how far it is (a consumer
//! group). A number is late or right, never early. Source: `docs/contracts.md`, "Progress".

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use fullcount_core::progress::PipelineProgress;

/// What one output has of one pipeline.
#[derive(Debug)]
pub(crate) struct OutputProgress {
    /// [`Sink::safe`](fullcount_core::sink::Sink::safe).
    safe: AtomicU64,
    /// Last batch before the first of which something was dropped in front of the output.
    most: AtomicU64,
    required: bool,
}

impl OutputProgress {
    pub fn new(required: bool) -> OutputProgress {
        OutputProgress { safe: AtomicU64::new(0), most: AtomicU64::new(u64::MAX), required }
    }

    /// As the output says.
    pub fn safe_is(&self, batch: u64) {
        if self.safe.load(Relaxed) < batch {
            self.safe.store(batch, Release);
        }
    }

    /// Something of the batches behind this one does not reach it.
    pub fn dropped_behind(&self, batch: u64) {
        self.most.fetch_min(batch, Release);
    }

    fn get(&self) -> u64 {
        self.safe.load(Acquire).min(self.most.load(Acquire))
    }
}

/// Of one pipeline.
#[derive(Debug, Default)]
pub struct BatchProgress {
    decoded: AtomicU64,
    complete: AtomicU64,
    cut: AtomicU64,
    outputs: Vec<Arc<OutputProgress>>,
}

impl BatchProgress {
    pub(crate) fn new(outputs: Vec<Arc<OutputProgress>>) -> BatchProgress {
        BatchProgress { outputs, ..BatchProgress::default() }
    }

    /// The newest batch that was decoded.
    pub fn decoded(&self) -> u64 {
        self.decoded.load(Acquire)
    }

    /// The newest batch of which, and of those before it, nothing waits in the decoder, and all was offered to the outputs.
    pub fn complete(&self) -> u64 {
        self.complete.load(Acquire)
    }

    /// All batches up to this one are safe with every output whose losses are losses of the run.
    pub fn safe(&self) -> u64 {
        let required = self.outputs.iter().filter(|output| output.required);
        required.map(|output| output.get()).fold(self.complete(), u64::min)
    }

    /// Events that were made of what waited, in the midst of the run.
    pub fn cut(&self) -> u64 {
        self.cut.load(Relaxed)
    }

    pub(crate) fn decoded_is(&self, batch: u64) {
        self.decoded.store(batch, Release);
    }

    pub(crate) fn complete_is(&self, batch: u64) {
        self.complete.store(batch, Release);
    }

    pub(crate) fn add_cut(&self, events: u64) {
        self.cut.fetch_add(events, Relaxed);
    }
}

/// The same with outputs of packets beside it: up to which batch all is safe with each.
pub(crate) struct WithPackets {
    /// With the detector and the outputs of products.
    pub products: Arc<BatchProgress>,
    /// Outputs of packets.
    pub packets: Vec<Arc<AtomicU64>>,
}

impl PipelineProgress for WithPackets {
    fn decoded(&self) -> u64 {
        self.products.decoded()
    }

    fn complete(&self) -> u64 {
        self.products.complete()
    }

    fn safe(&self) -> u64 {
        let packets = self.packets.iter().map(|output| output.load(Acquire));
        packets.fold(self.products.safe(), u64::min)
    }

    fn cut(&self) -> u64 {
        self.products.cut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_required_output_counts_and_nothing_behind_a_drop() {
        let outputs = [true, true, false].map(|required| Arc::new(OutputProgress::new(required)));
        let progress = BatchProgress::new(outputs.to_vec());
        progress.complete_is(10);
        assert_eq!(progress.safe(), 0);
        outputs[0].safe_is(10);
        outputs[1].safe_is(7);
        assert_eq!(progress.safe(), 7, "the best-effort one does not count");
        outputs[1].safe_is(3);
        assert_eq!(progress.safe(), 7, "it never goes back");
        outputs[0].dropped_behind(5);
        outputs[0].dropped_behind(8);
        assert_eq!(progress.safe(), 5);
        let alone = BatchProgress::new(vec![outputs[2].clone()]);
        alone.complete_is(4);
        assert_eq!(alone.safe(), 4, "nobody has to keep it");
    }
}
