//! The part of a stream that its sender's total speaks of.
//!
//! A sender may begin anew, and go on behind its end marks; somebody else may have had a part of the stream. So a total
//! is held against what came since the run of the sender began, and only if this receiver had all of it. Refuses a
//! total below a number that was received. Source: `docs/contracts.md`, "Ledger".

/// Packets of one stream by what became of them, since it was seen first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Outcome {
    pub delivered: u64,
    pub lost: u64,
    /// Refused for their pattern: they have a number that is not missing.
    pub rejected: u64,
}

impl Outcome {
    fn since(self, earlier: Outcome) -> Outcome {
        Outcome {
            delivered: self.delivered.wrapping_sub(earlier.delivered),
            lost: self.lost.wrapping_sub(earlier.lost),
            rejected: self.rejected.wrapping_sub(earlier.rejected),
        }
    }
}

/// By how much the lines of announced packets change: total, and what became of them; may wrap below 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Change {
    pub total: u64,
    pub of: Outcome,
}

/// What is booked of a stream as announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Announcement {
    /// The stream when the run of the sender at hand began.
    base: Outcome,
    /// Total of this run that is booked, and what is booked beside it; 0: none.
    booked: Change,
    /// More came behind the end: what is booked stays as it is.
    passed: bool,
    /// Somebody else may have had a part of this run.
    partial: bool,
}

impl Announcement {
    /// The sender says `total`; a later word of the same run replaces an earlier one.
    pub fn say(&mut self, total: u64, now: Outcome) -> Change {
        if self.partial {
            return Change::default();
        }
        self.passed = false;
        self.book(Change { total, of: now.since(self.base) })
    }

    /// What was announced has changed: gaps were filled or given up.
    pub fn renew(&mut self, now: Outcome) -> Change {
        match self.booked.total > 0 && !self.passed {
            true => self.book(Change { total: self.booked.total, of: now.since(self.base) }),
            false => Change::default(),
        }
    }

    /// What was announced proved wrong.
    pub fn withdraw(&mut self) -> Change {
        self.book(Change::default())
    }

    /// Packets came behind the end.
    pub fn pass(&mut self) {
        self.passed = true;
    }

    /// Total that is booked, if what came since is within it.
    pub fn total(&self) -> Option<u64> {
        Some(self.booked.total).filter(|&total| total > 0 && !self.passed)
    }

    /// Somebody else may have had packets.
    pub fn share(&mut self) {
        self.partial = true;
    }

    /// The sender began anew; `end`: the stream at the end of its run before.
    pub fn begin_anew(&mut self, end: Outcome) -> Change {
        let change = self.renew(end);
        *self = Announcement { base: end, ..Announcement::default() };
        change
    }

    fn book(&mut self, new: Change) -> Change {
        let old = std::mem::replace(&mut self.booked, new);
        Change { total: new.total.wrapping_sub(old.total), of: new.of.since(old.of) }
    }
}
