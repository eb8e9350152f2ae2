//! Who sends: per address and port the series of event numbers, and what of it was lost.
//!
//! A sender's events are numbered over its packets ([`NUMBERING`](super::numbers::NUMBERING)). The numbers of a packet are told
//! event by event while it is read. Source: `docs/formats/multigrid.md` section 2; for users: `docs/multigrid.md`.

use fullcount_core::batch::Origin;
use fullcount_core::ledger::{Info, Sheet};
use fullcount_core::sequence::Tracker;
use fullcount_core::sequence::numbering::Book;
use fullcount_core::sequence::streams::{Series, Streams};
use fullcount_core::sequence::turns::Arrivals;
use fullcount_core::slots::Found;

use super::file::DatagramFormat;
use super::numbers::{self, EventRun, MASK, NUMBERING, ahead};
use crate::detector::SeenModule;

/// Runs of refused packets that wait for a good packet to say where they belong.
const MOST_HELD: usize = 64;

/// No number: they have 24 bits.
const NONE: u32 = u32::MAX;

/// The series of one sender.
#[derive(Debug)]
struct EventSender {
    series: Series,
    /// Number that should come next, whatever was lost or late.
    expected: Option<u32>,
    /// Numbers of refused packets, further ahead than they are believed by themselves.
    held: Vec<EventRun>,
    /// Packets with events.
    packets: u64,
}

impl EventSender {
    fn new() -> EventSender {
        EventSender {
            series: Series::new(&NUMBERING),
            expected: None,
            held: Vec::new(),
            packets: 0,
        }
    }

    /// The rule of the format: 1 for a step other than +1.
    #[inline]
    fn step(&mut self, run: EventRun) -> u64 {
        let expected = self.expected.replace(run.next());
        expected.is_some_and(|e| e != run.first).into()
    }

    /// Looks for whole turns that were missed before `run`; to be called before it is observed.
    #[inline]
    fn look_for_turns(&mut self, run: EventRun, now: &Arrivals, book: &mut Book) {
        self.series.carries(run.count);
        self.series.look(run.first.into(), now, book);
    }

    #[inline]
    fn observe(&mut self, run: EventRun, book: &mut Book) {
        if !self.series.takes_run(run.first.into(), run.count, book) {
            self.observe_slowly(run, book);
        }
    }

    #[cold]
    fn observe_slowly(&mut self, run: EventRun, book: &mut Book) {
        let held = &mut self.held;
        self.series.change(book, |tracker| {
            if !held.is_empty() {
                settle_held(held, tracker, run);
            }
            tracker.observe_run(run.first.into(), run.count);
            held.retain(|h| {
                !tracker.excuse(h.first.into(), h.count, 0)
                    && tracker.gap_before(h.first.into(), h.count).is_some()
            });
        });
    }

    /// Numbers of a refused packet. Two that follow each other are believed within the window; one alone waits for
    /// a good packet.
    fn refused(&mut self, mut run: EventRun, book: &mut Book) {
        if let Some(last) = self.held.pop_if(|last| last.next() == run.first) {
            run = EventRun { first: last.first, count: last.count + run.count };
        }
        let furthest = if run.count > 1 { NUMBERING.window.get() } else { 0 };
        let (first, count) = (run.first.into(), run.count);
        let waits = self.series.change(book, |tracker| {
            let excused = tracker.excuse(first, count, furthest.into());
            !excused && tracker.gap_before(first, count).is_some()
        });
        if waits && self.held.len() < MOST_HELD {
            self.held.push(run);
        }
    }
}

/// `run` came and shows a gap: refused packets inside of it held what they said.
fn settle_held(held: &mut Vec<EventRun>, tracker: &mut Tracker, run: EventRun) {
    let next = tracker.next() as u32 & MASK;
    held.sort_by_key(|h| ahead(next, h.first));
    held.retain(|h| {
        let Some(gap) = tracker.gap_before(run.first.into(), run.count) else { return true };
        let furthest = gap.saturating_sub(h.count.into());
        !tracker.excuse(h.first.into(), h.count, furthest)
    });
}

/// All senders of one reader.
#[derive(Debug)]
pub(super) struct EventSenders {
    senders: Streams<EventSender>,
    book: Book,
    /// First number of the packet's last run.
    first: u32,
    /// The number that goes on with it; [`NONE`] before the packet's first.
    goes_on: u32,
    /// Runs of the packet at hand before the last one, where its numbers do not follow each other.
    broken: Vec<EventRun>,
}

impl EventSenders {
    /// Nobody yet; `lines` get those of the numbers, if the format has any.
    pub fn new(format: DatagramFormat, lines: &mut Vec<Info>) -> EventSenders {
        let book = numbers::of(format).map_or_else(Book::default, |n| Book::new(&n, lines));
        let senders = Streams::new(&NUMBERING);
        EventSenders { senders, book, first: 0, goes_on: NONE, broken: Vec::new() }
    }

    /// A train of this sender comes.
    #[inline]
    pub fn train(&mut self, origin: Origin) {
        self.senders.train(origin);
    }

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

    /// The packet has no more numbers. Gives the last one, and how many steps were other than +1.
    #[inline]
    pub fn end_packet(&mut self, now: &Arrivals) -> (Option<u32>, u64) {
        let Some(run) = self.run() else { return (None, 0) };
        let at = match self.senders.find(0) {
            Found::Known(at) => at,
            found => self.begin(found),
        };
        self.senders.all[at].packets += 1;
        if !self.broken.is_empty() {
            return self.packet_slowly(at, run, now);
        }
        self.book.held(run.count);
        let sender = &mut self.senders.all[at];
        let steps = sender.step(run);
        sender.look_for_turns(run, now, &mut self.book);
        sender.observe(run, &mut self.book);
        (Some(run.next().wrapping_sub(1) & MASK), steps)
    }

    #[cold]
    fn packet_slowly(&mut self, at: usize, run: EventRun, now: &Arrivals) -> (Option<u32>, u64) {
        let mut runs = std::mem::take(&mut self.broken);
        runs.push(run);
        let sender = &mut self.senders.all[at];
        let expected = sender.expected;
        let steps = runs.iter().map(|run| sender.step(*run)).sum();
        numbers::heal(&mut runs, expected, NUMBERING.window.get());
        if let Some(first) = runs.first() {
            sender.look_for_turns(*first, now, &mut self.book);
        }
        runs.iter().for_each(|run| sender.observe(*run, &mut self.book));
        let last = runs.last().map(|run| run.next().wrapping_sub(1) & MASK);
        self.book.held(runs.iter().map(|run| run.count).sum());
        runs.clear();
        self.broken = runs;
        (last, steps)
    }

    /// Numbers of a refused packet behind its `whole` words of whole events, the last of which was `before`. A sender that sent nothing good has no series.
    #[cold]
    pub fn refused(&mut self, bytes: &[u8], whole: usize, before: Option<u32>) {
        let Some(at) = self.senders.place_of(0) else { return };
        if let Some(run) = numbers::of_refused(bytes, whole, before) {
            self.senders.all[at].refused(run, &mut self.book);
        }
    }

    #[cold]
    fn begin(&mut self, found: Found) -> usize {
        self.book.found(found);
        let at = found.place();
        if let Some(gone) = self.senders.all.get_mut(at) {
            gone.series.finish(None, &mut self.book);
        }
        self.senders.begin(at, EventSender::new());
        at
    }

    /// The run has ended: what is missing is lost.
    pub fn finish(&mut self) {
        for sender in &mut self.senders.all {
            sender.held.clear();
            sender.series.finish(None, &mut self.book);
        }
    }

    /// Somebody else may have had packets: what is missing is lost, and each series begins with whatever comes next.
    pub fn begin_anew(&mut self) {
        for sender in &mut self.senders.all {
            sender.expected = None;
            sender.held.clear();
            sender.series.begin_anew(&mut self.book);
        }
    }

    /// Tells of each sender; what is missing is in events.
    pub fn tell(&self, tell: &mut dyn FnMut(SeenModule)) {
        for ((origin, id), sender) in self.senders.followed() {
            let lost = sender.series.tracker().totals().lost;
            tell(SeenModule { origin, id, packets: sender.packets, lost });
        }
    }

    /// Writes what was counted.
    pub fn flush(&mut self, sheet: &Sheet) {
        self.book.flush(sheet);
    }
}

#[cfg(test)]
#[path = "senders_tests.rs"]
mod tests;
