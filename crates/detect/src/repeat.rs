//! One pass of a capture that is repeated: how far its numbers and times go on with each repetition.
//!
//! The next pass begins where this one ended, as if the senders had gone on: so numbers move by how many the pass held, gaps
//! included, and times by the span of the pass and one mean distance of its packets. Source: the pages of the detectors, "Repeating
//! a capture".

use fullcount_core::sequence::numbering::Numbering;
use fullcount_core::sequence::{Seen, Start, Tracker};

/// Numbers at the head of a stream among which its first packet may have overtaken others: one GRO train.
const HEAD: u64 = 64;

/// The numbers of one stream in one pass.
#[derive(Debug)]
pub(crate) struct PassNumbers {
    tracker: Tracker,
    mask: u64,
    first: u64,
    /// How far before `first` a number came that it had overtaken.
    overtaken: u64,
    seen: u64,
}

impl PassNumbers {
    pub fn new(numbering: &Numbering) -> PassNumbers {
        let (tracker, mask) = (numbering.tracker(Start::AtFirst), numbering.mask());
        PassNumbers { tracker, mask, first: 0, overtaken: 0, seen: 0 }
    }

    pub fn see(&mut self, number: u64) -> Seen {
        self.head(number);
        self.tracker.observe(number)
    }

    /// `count` numbers that follow each other, in one packet.
    pub fn see_run(&mut self, number: u64, count: u32) {
        self.head(number);
        self.tracker.observe_run(number, count);
    }

    fn head(&mut self, number: u64) {
        if self.seen == 0 {
            self.first = number;
        }
        if self.seen < HEAD {
            self.seen += 1;
            let before = self.first.wrapping_sub(number) & self.mask;
            if before <= HEAD {
                self.overtaken = self.overtaken.max(before);
            }
        }
    }

    /// Lowest number at its head.
    pub fn begin(&self) -> u64 {
        self.first.wrapping_sub(self.overtaken)
    }

    /// The number behind the furthest one.
    pub fn next(&self) -> u64 {
        self.tracker.next()
    }

    /// How many numbers the pass held; a whole turn of the count is 0.
    pub fn count(&self) -> u64 {
        self.next().wrapping_sub(self.begin()) & self.mask
    }
}

/// The times of a pass, in whatever unit the format has.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PassTimes {
    /// Earliest and latest.
    span: Option<(i128, i128)>,
    /// Packets with a time.
    packets: u64,
}

impl PassTimes {
    /// A packet with a time; its times are told by [`PassTimes::see`].
    pub fn packet(&mut self) {
        self.packets += 1;
    }

    pub fn see(&mut self, time: impl Into<i128>) {
        let time = time.into();
        let (earliest, latest) = self.span.unwrap_or((time, time));
        self.span = Some((earliest.min(time), latest.max(time)));
    }

    /// By how much the next pass is later; 0 if there are no times.
    pub fn step(&self) -> u64 {
        let Some((earliest, latest)) = self.span else { return 0 };
        let length = (latest - earliest) as u64;
        length.wrapping_add((length / self.packets.saturating_sub(1).max(1)).max(1))
    }
}
