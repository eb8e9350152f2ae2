//! The number of events before a message: so the number between two messages is known, whole or damaged.

use super::segment::Owner;

/// Events up to some number, if known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Running {
    at: Option<(u64, u64)>,
    /// Start of the process whose segment was read last.
    process: Option<u64>,
}

impl Default for Running {
    /// The first message of a spool has number 1, and nothing before it.
    fn default() -> Running {
        Running { at: Some((1, 0)), process: None }
    }
}

impl Running {
    /// A segment begins, and `next` is the message to come.
    pub fn enter(&mut self, next: u64, owner: &Owner) {
        // A process continues its own count, whether its next head can be read or not.
        let goes_on = self.process.replace(owner.start) == Some(owner.start);
        if next == owner.first && (owner.before.is_some() || !goes_on) {
            self.stand(owner.first, owner.before);
        }
    }

    /// All messages below this number have this many events together, if known.
    pub fn stand(&mut self, number: u64, events: Option<u64>) {
        self.at = events.map(|events| (number, events));
    }

    /// Events in the messages from `from` up to one with this many before it.
    pub fn between(&self, from: u64, before: Option<u64>) -> Option<u64> {
        let (number, events) = self.at?;
        before?.checked_sub(events).filter(|_| number == from)
    }

    /// Events in all messages below this number.
    pub fn upto(&self, number: u64) -> Option<u64> {
        self.at.filter(|&(at, _)| at == number).map(|(_, events)| events)
    }
}
