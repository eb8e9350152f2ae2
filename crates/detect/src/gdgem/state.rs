//! What is remembered of each FEC between frames: frame counter, markers, lost-marker check, and how far time is.
//!
//! Source: `docs/formats/gdgem.md` sections 2.2, 3.2, 4.4 and 4.5.

use fullcount_core::ledger::Unit;
use fullcount_core::sequence::numbering::{Book, Limit, Numbering, Per};
use fullcount_core::sequence::streams::Series;

/// The frame counter. One turn takes 12 hours at 100,000 frames/s. There are 15 FECs at most.
pub(super) const NUMBERING: Numbering = Numbering {
    bits: 32,
    unit: Unit::Packets,
    called: "frame counters",
    per: Per::Field("FEC id"),
    // Four GRO trains.
    window: Limit::Fixed(256),
    streams: None,
    drops_copies: false,
};

/// A step back by more than this is a counter that began anew.
const ANEW: u32 = 0x0fff_ffff;
/// A marker that steps back by more than this began anew.
const MARKER_ANEW: u64 = 0x1fff_ffff;

/// What the published frame counter bookkeeping finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Steps {
    pub missing: u32,
    pub backwards: bool,
    pub overflow: bool,
}

/// Frame counter of one FEC.
#[derive(Debug)]
pub(super) struct Frames {
    next: Option<u32>,
    pub series: Series,
}

impl Frames {
    pub fn new() -> Frames {
        Frames { next: None, series: Series::new(&NUMBERING) }
    }

    /// Whatever number comes next is the first.
    pub fn begin_anew(&mut self, book: &mut Book) {
        self.next = None;
        self.series.begin_anew(book);
    }

    /// The published rule.
    pub fn step(&mut self, counter: u32) -> Steps {
        let mut steps = Steps::default();
        if let Some(next) = self.next {
            match counter.cmp(&next) {
                std::cmp::Ordering::Greater => steps.missing = counter - next,
                std::cmp::Ordering::Less if next - counter > ANEW => steps.overflow = true,
                std::cmp::Ordering::Less => steps.backwards = true,
                std::cmp::Ordering::Equal => steps.overflow = counter == 0,
            }
        }
        self.next = Some(counter.wrapping_add(1));
        steps
    }
}

/// How a marker relates to the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MarkerStep {
    Forward,
    Backwards,
    Anew,
}

/// How the marker `new` relates to `stored`.
pub(super) fn marker_step(stored: u64, new: u64) -> MarkerStep {
    if new >= stored {
        MarkerStep::Forward
    } else if stored < MARKER_ANEW + new {
        MarkerStep::Backwards
    } else {
        MarkerStep::Anew
    }
}

/// The lost-marker check of one VMM (section 4.5).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MarkerCheck {
    last: usize,
    calc: u64,
}

impl MarkerCheck {
    /// A marker came.
    pub fn marker(&mut self, time: u64) {
        if self.calc == 0 {
            self.calc = time;
        }
    }

    /// A hit came; true if a marker seems to be lost. `step`: 32 offset periods in marker counts.
    pub fn hit(&mut self, offset: usize, stored: u64, step: u64) -> bool {
        let wrapped = offset < self.last;
        self.last = offset;
        if !wrapped {
            return false;
        }
        if self.calc != 0 {
            self.calc = self.calc.wrapping_add(step);
        }
        stored != self.calc
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_counters_step_as_published_but_per_fec() {
        let mut f = Frames::new();
        let none = Steps::default();
        assert_eq!(f.step(5), none);
        assert_eq!(f.step(6), none);
        assert_eq!(f.step(9), Steps { missing: 2, ..none });
        assert_eq!(f.step(3), Steps { backwards: true, ..none });
        assert_eq!(f.step(u32::MAX), Steps { missing: u32::MAX - 4, ..none });
        assert_eq!(f.step(0), Steps { overflow: true, ..none });
        f.step(u32::MAX - 1);
        assert_eq!(f.step(3), Steps { overflow: true, ..none });
    }

    #[test]
    fn a_marker_far_back_began_anew() {
        assert_eq!(marker_step(5, 5), MarkerStep::Forward);
        assert_eq!(marker_step(5, 4), MarkerStep::Backwards);
        assert_eq!(marker_step(0x1fff_ffff, 0), MarkerStep::Anew);
        assert_eq!(marker_step(0x1fff_fffe, 0), MarkerStep::Backwards);
    }
}
