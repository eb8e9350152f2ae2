//! Steps of a campaign that are done and to come, with the time that they usually take.

use std::collections::VecDeque;
use std::time::Duration;

use crate::Tell;
use fullcount_core::quantity::spoken;

/// Steps done and to come.
#[derive(Debug)]
pub struct StepProgress {
    tell: Tell,
    /// Usual time of each step to come, in order.
    steps: VecDeque<Duration>,
    done: usize,
}

impl StepProgress {
    /// None yet.
    pub fn new(tell: Tell) -> StepProgress {
        StepProgress { tell, steps: VecDeque::new(), done: 0 }
    }

    /// So many steps more, each of a usual time.
    pub fn expect(&mut self, steps: usize, each: Duration) {
        self.steps.extend(std::iter::repeat_n(each, steps));
    }

    /// Usual time of all steps to come.
    pub fn left(&self) -> Duration {
        self.steps.iter().sum()
    }

    /// Time behind the step under way.
    pub fn after(&self) -> Duration {
        self.steps.iter().skip(1).sum()
    }

    /// `[2/9]` of the step under way.
    pub fn place(&self) -> String {
        format!("[{}/{}]", (self.done + 1).min(self.all()), self.all())
    }

    fn all(&self) -> usize {
        self.done + self.steps.len()
    }

    /// A step is over.
    pub fn done(&mut self, what: &str) {
        let place = self.place();
        self.steps.pop_front();
        self.done += 1;
        (self.tell)(&format!("{place} {what}, {} left", spoken(self.left())));
    }
}
