//! Several numbers at a time: a packet that carries many numbered parts, one after the other.
//!
//! A packet's numbers follow each other by themselves, so they are one witness and not many: a packet from
//! out of reach is held for a late one until the next packet goes on where it ended. What a refused packet
//! held is neither received nor missing ([`Tracker::excuse`]), and never opens a gap further than it is told.
//! Numbers may be anything, as in [`Tracker`].

use super::Tracker;

impl Tracker {
    /// Takes `count` numbers that follow each other from `number` on, in one packet.
    #[inline]
    pub fn observe_run(&mut self, number: u64, count: u32) {
        if !self.takes_run(number, count) {
            self.observe_run_slowly(number & self.mask, count.into());
        }
    }

    /// Takes the numbers if they are the next ones, no gap is open and the counter does not overflow: the usual case, after
    /// which no other amount has changed. Else false, and nothing is done.
    #[inline]
    pub fn takes_run(&mut self, number: u64, count: u32) -> bool {
        let (number, count) = (number & self.mask, u64::from(count));
        let usual = self.holes == 0
            && number == self.next & self.mask
            && self.started
            && number != 0
            && count <= self.mask - number;
        if usual {
            self.next = self.next.wrapping_add(count);
            self.reach = self.reach.saturating_add(count).min(self.window);
            self.totals.received += count;
            self.candidate = None;
        }
        usual
    }

    #[cold]
    fn observe_run_slowly(&mut self, number: u64, count: u64) {
        if count == 0 {
            return;
        }
        if !self.started {
            self.observe(number);
            self.totals.received += count - 1;
            self.arrived(count - 1);
            return;
        }
        self.totals.received += count;
        let ahead = number.wrapping_sub(self.next) & self.mask;
        let late = match self.lies_ahead(ahead) {
            true => count,
            false => count.min(self.behind(number).saturating_sub(self.reach)),
        };
        if late > 0 && ahead > 0 && self.candidate == Some(number.wrapping_sub(1) & self.mask) {
            self.confirm_with(number, count);
            return;
        }
        if self.lies_ahead(ahead) && self.is_believed(number, ahead, count) {
            self.candidate = None;
            self.leave_missing(ahead);
            self.arrived(count);
            return;
        }
        self.totals.late = self.totals.late.saturating_add(late);
        self.candidate = None;
        if late == count {
            self.candidate = Some(number.wrapping_add(count - 1) & self.mask);
            self.candidates = count;
            return;
        }
        self.observe_inside(number.wrapping_add(late), count - late);
    }

    /// Numbers inside the window, and what of the run goes beyond its front.
    fn observe_inside(&mut self, number: u64, count: u64) {
        let known = count.min(self.behind(number));
        for behind in 0..known {
            let n = self.next.wrapping_sub(self.behind(number) - behind);
            if self.is_missing(n) {
                self.fill(n);
                self.totals.reordered += 1;
            } else {
                self.totals.duplicate += 1;
            }
        }
        self.arrived(count - known);
    }

    /// The packet that was held for a late one was no such: this one goes on where it ended. It was far ahead,
    /// or the first of a new beginning.
    fn confirm_with(&mut self, number: u64, count: u64) {
        let held = std::mem::take(&mut self.candidates);
        let first = number.wrapping_sub(held) & self.mask;
        let ahead = first.wrapping_sub(self.next) & self.mask;
        self.totals.late = self.totals.late.saturating_sub(held);
        self.candidate = None;
        // Two numbers of two packets: as good as two of one.
        if self.lies_ahead(ahead) && self.is_believed(first, ahead, held + count) {
            self.leave_missing(ahead);
        } else {
            self.totals.restarted += 1;
            self.give_up_all();
            self.restart_at(first);
        }
        self.arrived(held);
        self.arrived(count);
    }

    /// The next `count` numbers have come.
    fn arrived(&mut self, mut count: u64) {
        while count > 0 {
            let part = count.min(self.window);
            self.move_on(part, false);
            count -= part;
        }
    }

    /// The next `count` numbers are missing. Word by word, so that hostile jumps cost little.
    fn leave_missing(&mut self, count: u64) {
        if count > self.window {
            self.advance(count);
        } else {
            self.move_on(count, true);
        }
    }

    /// Moves the front by `count`, a window or less. What stood in their places in the window unseen is lost.
    fn move_on(&mut self, count: u64, missing: bool) {
        self.totals.wrapped = self.totals.wrapped.saturating_add(self.wraps(count));
        if missing || self.holes > 0 {
            let (mut at, mut left, mut gone) = (self.next & (self.window - 1), count, 0);
            while left > 0 {
                let bits = left.min(64 - at % 64).min(self.window - at);
                let mask = (u64::MAX >> (64 - bits)) << (at % 64);
                let word = &mut self.missing[(at / 64) as usize];
                gone += u64::from((*word & mask).count_ones());
                *word = if missing { *word | mask } else { *word & !mask };
                at = (at + bits) & (self.window - 1);
                left -= bits;
            }
            self.holes = self.holes - gone + if missing { count } else { 0 };
            self.lose(gone);
        }
        self.next = self.next.wrapping_add(count);
        self.reach = self.reach.saturating_add(count).min(self.window);
    }

    /// Numbers that would be missing before a run from `number` on; `None` if it would be held for a late
    /// one, if it does not lie ahead, or before anything was seen.
    pub fn gap_before(&self, number: u64, count: u32) -> Option<u64> {
        let ahead = number.wrapping_sub(self.next) & self.mask;
        let ahead_of_all = self.started && self.lies_ahead(ahead);
        let believed = ahead_of_all && self.is_believed(number & self.mask, ahead, count.into());
        believed.then_some(ahead)
    }

    /// `count` numbers from `number` on were in a packet that was refused: they are not missing, and not received. Up
    /// to `furthest` numbers before them become missing. False, and nothing done, if they lie further ahead,
    /// behind the window, or before anything was seen.
    pub fn excuse(&mut self, number: u64, count: u32, furthest: u64) -> bool {
        let (number, count) = (number & self.mask, u64::from(count));
        let ahead = number.wrapping_sub(self.next) & self.mask;
        if !self.started {
            return false;
        }
        if self.lies_ahead(ahead) {
            if ahead > furthest {
                return false;
            }
            self.leave_missing(ahead);
            self.arrived(count);
            return true;
        }
        let behind = self.behind(number);
        let outside = behind.saturating_sub(self.reach);
        if outside >= count {
            return false;
        }
        for back in (1..=behind - outside).rev().take((count - outside) as usize) {
            self.fill(self.next.wrapping_sub(back));
        }
        self.arrived(count.saturating_sub(behind));
        true
    }

    /// How far `number`, which does not lie ahead, lies behind: 1 is the newest.
    fn behind(&self, number: u64) -> u64 {
        self.next.wrapping_sub(number) & self.mask
    }

    fn lies_ahead(&self, ahead: u64) -> bool {
        ahead < self.mask / 2 + 1
    }

    /// A jump ahead is a gap, unless it goes further than one number is believed and stands alone, or looks
    /// like a sender that began anew: series begin with 0 or 1. Of those that begin anew the first packets may be lost.
    fn is_believed(&self, number: u64, ahead: u64, count: u64) -> bool {
        if ahead <= self.window {
            return true;
        }
        if ahead <= self.furthest_jump() {
            return number > 1;
        }
        count > 1 && number >= self.window
    }
}

#[cfg(test)]
#[path = "runs_tests.rs"]
mod tests;
