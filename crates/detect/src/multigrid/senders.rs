//! Who sends: per address and port the series of event numbers, and what of it was lost.
//!
//! An SIS3153 numbers its events with 24 bits, so a sender has one series. At most [`MOST`] senders are followed:
//! datagrams with invented sources must not fill the memory. One more takes the place of the sender that was silent
//! longest, and is counted. Source: `docs/formats/multigrid.md` section 2; for users: `docs/multigrid.md`.

use std::collections::HashMap;

use fullcount_core::batch::Origin;
use fullcount_core::sequence::turns::{Arrivals, Turned, Turns};
use fullcount_core::sequence::{Start, Totals, Tracker};

use super::counters::{Count, LINES};
use super::numbers::{self, BITS, EventRun, MASK, ahead};

/// Event numbers that a missing one is waited for: a packet of the recorded size holds up to 40 events, so these are
/// 400 packets or six GRO trains. 5 ms at the published 3 M triggers/s.
pub(super) const WINDOW: u32 = 1 << 14;

/// Senders at most: 0.5 MiB of windows. A detector has one SIS3153 or a few.
pub(super) const MOST: usize = 256;

/// Runs of refused packets that wait for a good packet to say where they belong.
const MOST_HELD: usize = 64;

/// No number: they have 24 bits.
const NONE: u32 = u32::MAX;

/// Counts of one batch, by line.
pub(super) type Lines = [u64; LINES];

/// The series of one sender.
#[derive(Debug)]
struct EventSender {
    origin: Origin,
    tracker: Tracker,
    /// Whole turns of the 24 bits that were missed: one takes 5.6 s at the published 3 M triggers/s.
    turns: Turns,
    /// Number that should come next, whatever was lost or late.
    expected: Option<u32>,
    /// Numbers of refused packets, further ahead than they are believed by themselves.
    held: Vec<EventRun>,
    /// When it was heard last, in changes of the sender.
    heard: u64,
}

impl EventSender {
    fn new(origin: Origin) -> EventSender {
        let tracker = Tracker::new(BITS, WINDOW, Start::AtFirst);
        let turns = Turns::new(BITS);
        EventSender { origin, tracker, turns, expected: None, held: Vec::new(), heard: 0 }
    }

    /// The rule of the format: a step other than +1.
    #[inline]
    fn step(&mut self, run: EventRun, lines: &mut Lines) {
        lines[Count::SeqErrors as usize] +=
            u64::from(self.expected.is_some_and(|e| e != run.first));
        self.expected = Some(run.next());
    }

    /// Looks for whole turns that were missed before `run`; to be called before it is observed.
    #[inline]
    fn look_for_turns(&mut self, run: EventRun, now: &Arrivals, lines: &mut Lines) {
        self.turns.carries(run.count.into());
        if !self.turns.is_usual(now) {
            self.count_turns(run, now, lines);
        }
    }

    #[cold]
    fn count_turns(&mut self, run: EventRun, now: &Arrivals, lines: &mut Lines) {
        let mut turned = Turned::Nothing;
        let first = run.first.into();
        self.booking(lines, |s| turned = s.turns.before(&mut s.tracker, first, now));
        lines[Count::EventsLostByTime as usize] += turned.numbers();
        lines[Count::EventsLostAtLeast as usize] += u64::from(turned.is_least());
    }

    #[inline]
    fn observe(&mut self, run: EventRun, lines: &mut Lines) {
        lines[Count::EventsSeen as usize] += u64::from(run.count);
        let tracker = &mut self.tracker;
        // The usual case, without a copy of the totals: the next ones, nothing open, nothing to book.
        if tracker.pending() == 0 && tracker.next() as u32 & MASK == run.first {
            tracker.observe_run(run.first.into(), run.count);
            return;
        }
        self.observe_slowly(run, lines);
    }

    #[cold]
    fn observe_slowly(&mut self, run: EventRun, lines: &mut Lines) {
        self.booking(lines, |s| {
            if s.held.is_empty() {
                s.tracker.observe_run(run.first.into(), run.count);
                return;
            }
            s.settle_held(run);
            s.tracker.observe_run(run.first.into(), run.count);
            let tracker = &mut s.tracker;
            s.held.retain(|h| {
                !tracker.excuse(h.first.into(), h.count, 0)
                    && tracker.gap_before(h.first.into(), h.count).is_some()
            });
        });
    }

    /// `run` came and shows a gap: refused packets inside of it held what they said.
    fn settle_held(&mut self, run: EventRun) {
        let next = self.tracker.next() as u32 & MASK;
        self.held.sort_by_key(|h| ahead(next, h.first));
        let tracker = &mut self.tracker;
        self.held.retain(|h| {
            let Some(gap) = tracker.gap_before(run.first.into(), run.count) else { return true };
            let furthest = gap.saturating_sub(h.count.into());
            !tracker.excuse(h.first.into(), h.count, furthest)
        });
    }

    /// Numbers of a refused packet. Two that follow each other are believed within the window; one alone waits for
    /// a good packet.
    fn refused(&mut self, mut run: EventRun, lines: &mut Lines) {
        if let Some(last) = self.held.pop_if(|last| last.next() == run.first) {
            run = EventRun { first: last.first, count: last.count + run.count };
        }
        self.booking(lines, |s| {
            let furthest = if run.count > 1 { WINDOW } else { 0 };
            let (first, count) = (run.first.into(), run.count);
            if s.tracker.excuse(first, count, furthest.into()) {
                return;
            }
            if s.tracker.gap_before(first, count).is_some() && s.held.len() < MOST_HELD {
                s.held.push(run);
            }
        });
    }

    /// Nothing more comes, or what comes says nothing of what is missing.
    fn give_up(&mut self, lines: &mut Lines, how: impl FnOnce(&mut Tracker)) {
        self.held.clear();
        self.booking(lines, |s| how(&mut s.tracker));
    }

    /// Does something and books what it changed. Lines wrap where a `late` that proved to be a restart is taken back.
    fn booking(&mut self, lines: &mut Lines, what: impl FnOnce(&mut EventSender)) {
        let (before, pending): (Totals, u64) = (self.tracker.totals(), self.tracker.pending());
        what(self);
        let after = self.tracker.totals();
        for (line, now, then) in [
            (Count::EventsLost, after.lost, before.lost),
            (Count::EventsMissing, self.tracker.pending(), pending),
            (Count::EventsDuplicate, after.duplicate, before.duplicate),
            (Count::EventsReordered, after.reordered, before.reordered),
            (Count::EventsLate, after.late, before.late),
            (Count::EventsRestarts, after.restarted, before.restarted),
        ] {
            let line = &mut lines[line as usize];
            *line = line.wrapping_add(now.wrapping_sub(then));
        }
    }
}

/// All senders of one reader.
#[derive(Debug, Default)]
pub(super) struct EventSenders {
    senders: Vec<EventSender>,
    places: HashMap<Origin, usize>,
    last: Option<(Origin, usize)>,
    changes: u64,
    /// First number of the packet's last run.
    first: u32,
    /// The number that goes on with it; [`NONE`] before the packet's first.
    goes_on: u32,
    /// Runs of the packet at hand before the last one, where its numbers do not follow each other.
    broken: Vec<EventRun>,
    /// Most events of one packet.
    pub most: u32,
}

impl EventSenders {
    /// A packet begins.
    #[inline]
    pub fn begin_packet(&mut self) {
        self.goes_on = NONE;
    }

    /// Its next event has this number. As little as can be, between the words of two events: a count of its own in a register
    /// cost 12 % of the whole reader.
    #[inline]
    pub fn event(&mut self, number: u32) {
        if number != self.goes_on {
            self.break_off(number);
        }
        self.goes_on = (number + 1) & MASK;
    }

    /// Another run begins, the packet's first included.
    #[inline(never)]
    fn break_off(&mut self, number: u32) {
        self.broken.extend(self.run());
        self.first = number;
    }

    /// The packet's last run. A packet holds fewer events than there are numbers.
    #[inline]
    fn run(&self) -> Option<EventRun> {
        let run = EventRun { first: self.first, count: ahead(self.first, self.goes_on) };
        (self.goes_on != NONE).then_some(run)
    }

    /// The packet has no more numbers. Gives the last one.
    #[inline]
    pub fn end_packet(&mut self, origin: Origin, now: &Arrivals, lines: &mut Lines) -> Option<u32> {
        let run = self.run()?;
        let at = match self.last {
            Some((last, at)) if last == origin => at,
            _ => self.find(origin, lines),
        };
        self.most = self.most.max(run.count);
        if !self.broken.is_empty() {
            return self.packet_slowly(at, run, now, lines);
        }
        let sender = &mut self.senders[at];
        sender.step(run, lines);
        sender.look_for_turns(run, now, lines);
        sender.observe(run, lines);
        Some(run.next().wrapping_sub(1) & MASK)
    }

    #[cold]
    fn packet_slowly(
        &mut self,
        at: usize,
        run: EventRun,
        now: &Arrivals,
        lines: &mut Lines,
    ) -> Option<u32> {
        let mut runs = std::mem::take(&mut self.broken);
        runs.push(run);
        let sender = &mut self.senders[at];
        let expected = sender.expected;
        runs.iter().for_each(|run| sender.step(*run, lines));
        numbers::heal(&mut runs, expected, WINDOW);
        if let Some(first) = runs.first() {
            sender.look_for_turns(*first, now, lines);
        }
        runs.iter().for_each(|run| sender.observe(*run, lines));
        let last = runs.last().map(|run| run.next().wrapping_sub(1) & MASK);
        self.most = self.most.max(runs.iter().map(|run| run.count).sum());
        runs.clear();
        self.broken = runs;
        last
    }

    /// Numbers of a refused packet behind its `whole` words of whole events, the last of which was `before`. A sender that sent nothing good has no series.
    #[cold]
    pub fn refused(
        &mut self,
        origin: Origin,
        (bytes, whole): (&[u8], usize),
        before: Option<u32>,
        lines: &mut Lines,
    ) {
        let known = self.last.filter(|(last, _)| *last == origin).map(|(_, at)| at);
        let Some(at) = known.or_else(|| self.places.get(&origin).copied()) else { return };
        if let Some(run) = numbers::of_refused(bytes, whole, before) {
            self.senders[at].refused(run, lines);
        }
    }

    #[cold]
    fn find(&mut self, origin: Origin, lines: &mut Lines) -> usize {
        // Who was heard until now was heard just before this one.
        self.changes += 1;
        if let Some((_, last)) = self.last {
            self.senders[last].heard = self.changes;
        }
        let at = match self.places.get(&origin) {
            Some(&at) => at,
            None => self.place(origin, lines),
        };
        self.senders[at].heard = self.changes + 1;
        self.last = Some((origin, at));
        at
    }

    fn place(&mut self, origin: Origin, lines: &mut Lines) -> usize {
        lines[Count::Senders as usize] += 1;
        let silent = (0..self.senders.len()).min_by_key(|&at| self.senders[at].heard);
        let at = match silent.filter(|_| self.senders.len() >= MOST) {
            Some(at) => {
                lines[Count::SendersReplaced as usize] += 1;
                let gone = &mut self.senders[at];
                gone.give_up(lines, |tracker| _ = tracker.finish(None));
                self.places.remove(&gone.origin);
                *gone = EventSender::new(origin);
                at
            }
            None => {
                self.senders.push(EventSender::new(origin));
                self.senders.len() - 1
            }
        };
        self.places.insert(origin, at);
        at
    }

    /// The run has ended: what is missing is lost.
    pub fn finish(&mut self, lines: &mut Lines) {
        self.senders.iter_mut().for_each(|s| s.give_up(lines, |tracker| _ = tracker.finish(None)));
    }

    /// Somebody else may have had packets: what is missing is lost, and each series begins with whatever comes next.
    pub fn begin_anew(&mut self, lines: &mut Lines) {
        for sender in &mut self.senders {
            sender.expected = None;
            sender.turns.forget();
            sender.give_up(lines, Tracker::forget);
        }
    }
}

#[cfg(test)]
#[path = "senders_tests.rs"]
mod tests;
