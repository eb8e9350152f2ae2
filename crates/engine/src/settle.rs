//! A moment at which all that was received has become events: asked for by a source, made by the pipeline.
//!
//! A source that gives a part of its stream to somebody else (a partition of a topic) must know that nothing of it is
//! on its way any more. What waits in the detector for later packets is then settled with what is there, as at the end of
//! a run, and what comes next begins anew. Asked and answered by number, so an answer that comes late is not taken for
//! that to the next question.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use fullcount_detect::detector::Builder;

/// Question and answer; one source asks.
#[derive(Debug, Default)]
pub struct Settle {
    asked: AtomicU64,
    done: AtomicU64,
    cut: AtomicU64,
    marks: AtomicU64,
    passed: AtomicU64,
}

impl Settle {
    /// Sets a mark behind all that is decoded by now; the number is for [`Settle::passed`].
    pub fn mark(&self) -> u64 {
        self.marks.fetch_add(1, Release) + 1
    }

    /// True once nothing waits any more that came before the mark.
    pub fn passed(&self, mark: u64) -> bool {
        self.passed.load(Acquire) >= mark
    }

    /// The newest mark that was asked for; 0: none yet.
    pub fn marks(&self) -> u64 {
        self.marks.load(Acquire)
    }

    /// All marks up to this one have passed.
    pub fn pass(&self, mark: u64) {
        self.passed.store(mark, Release);
    }

    /// Asks, behind all that was given away; the number is for [`Settle::done`].
    pub fn ask(&self) -> u64 {
        self.asked.fetch_add(1, Release) + 1
    }

    /// True once all that was given away before has been handed to the outputs.
    pub fn done(&self, number: u64) -> bool {
        self.done.load(Acquire) >= number
    }

    /// Events that were made of what still waited.
    pub fn cut(&self) -> u64 {
        self.cut.load(Relaxed)
    }

    /// Events were made of what had waited for too long.
    pub fn add_cut(&self, events: u64) {
        self.cut.fetch_add(events, Relaxed);
    }

    /// A question that has no answer yet.
    pub fn question(&self) -> Option<u64> {
        let asked = self.asked.load(Acquire);
        (asked > self.done.load(Relaxed)).then_some(asked)
    }

    /// The answer, with the events that were made of what waited.
    pub fn answer(&self, number: u64, cut: u64) {
        self.cut.fetch_add(cut, Relaxed);
        self.done.store(number, Release);
    }
}

/// What the pipeline needs for an answer.
pub struct Settling {
    /// Who asks.
    pub settle: Arc<Settle>,
    /// Makes the builder of what comes next, its counters registered.
    pub builder: Box<dyn FnMut() -> io::Result<Box<dyn Builder>> + Send>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_for_all_questions_before_it_and_none_after() {
        let settle = Settle::default();
        assert_eq!(settle.question(), None);
        let first = settle.ask();
        assert_eq!((settle.question(), settle.done(first)), (Some(first), false));
        // Nobody waited for the first one for ever.
        let second = settle.ask();
        settle.answer(first, 2);
        assert_eq!((settle.done(first), settle.done(second)), (true, false));
        assert_eq!(settle.question(), Some(second));
        settle.answer(second, 1);
        assert_eq!((settle.done(second), settle.question(), settle.cut()), (true, None, 3));
    }
}
