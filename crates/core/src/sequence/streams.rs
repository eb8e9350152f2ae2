//! The streams of a numbered format: which one a packet belongs to, and what is missing of it.
//!
//! Datagrams with invented sources must not fill the memory: when all places are taken, the stream that was silent longest
//! loses its own ([`Slots`]). A train has one sender, so the places of its streams are at hand until another sender's train
//! comes. A [`Series`] costs a few comparisons for the next number; whatever else comes goes into the [`Book`]. Source:
//! `docs/losses.md`, "Many senders".
//!
//! A decoder keeps a [`Streams`] and a [`Book`], and shows them each packet's number:
//!
//! ```
//! use fullcount_core::batch::Origin;
//! use fullcount_core::ledger::{Sheet, Unit};
//! use fullcount_core::sequence::numbering::{Book, Limit, Numbering, Per};
//! use fullcount_core::sequence::streams::{Series, Streams};
//! use fullcount_core::slots::Found;
//!
//! // `Detector::numbering` states the same.
//! const NUMBERING: Numbering = Numbering {
//!     bits: 32,
//!     unit: Unit::Packets,
//!     called: "packet numbers",
//!     per: Per::Sender,
//!     window: Limit::Fixed(256),
//!     streams: Some(Limit::Fixed(64)),
//!     drops_copies: false,
//! };
//!
//! // The lines of the numbers stand in the decoder's sheet, behind its own (`Count::catalogue()`).
//! let mut lines = Vec::new();
//! let mut book = Book::new(&NUMBERING, &mut lines);
//! let sheet = Sheet::new(lines);
//! let mut streams: Streams<Series> = Streams::new(&NUMBERING);
//!
//! // For each train, its sender; for each packet that is accepted, its number. One stream a sender: its id is 0.
//! streams.train(Origin::NONE);
//! for number in [7, 8, 11, 12] {
//!     let found = streams.find(0);
//!     let at = found.place();
//!     if !matches!(found, Found::Known(_)) {
//!         book.found(found);
//!         if let Some(gone) = streams.all.get_mut(at) {
//!             gone.finish(None, &mut book);
//!         }
//!         streams.begin(at, Series::new(&NUMBERING));
//!     }
//!     streams.all[at].observe(number, &mut book);
//! }
//! // A refused packet whose number can be read is rejected, and not lost as well.
//! if let Some(at) = streams.place_of(0) {
//!     streams.all[at].change(&mut book, |tracker| tracker.excuse(9, 1, 0));
//! }
//! // At `Flush::End`; at `Flush::Taken` each begins anew instead (`Series::begin_anew`).
//! for series in &mut streams.all {
//!     series.finish(None, &mut book);
//! }
//! // Once a batch, and after a flush.
//! book.flush(&sheet);
//! let lost = sheet.lines().iter().position(|line| line.name == "packets.lost");
//! assert_eq!(lost.map(|line| sheet.get(line)), Some(1), "10 never came");
//! ```

use std::num::NonZeroU32;

use crate::batch::Origin;
use crate::slots::{Found, Slots};

use super::numbering::{Book, Limit, Numbering};
use super::turns::{Arrivals, NumberTurns, Turned};
use super::{Seen, Start, Tracker};

/// The numbers of one stream.
#[derive(Debug)]
pub struct Series {
    tracker: Tracker,
    /// Whole turns that were missed; none of 64 bits.
    turns: Option<NumberTurns>,
}

impl Series {
    /// Begins with whatever number comes first.
    pub fn new(numbering: &Numbering) -> Series {
        Series::starting(numbering, Start::AtFirst)
    }

    /// Begins as `start` says.
    pub fn starting(numbering: &Numbering, start: Start) -> Series {
        let turns = (numbering.bits < 64).then(|| NumberTurns::new(numbering.bits));
        Series { tracker: numbering.tracker(start), turns }
    }

    /// What is known of the numbers.
    #[inline]
    pub fn tracker(&self) -> &Tracker {
        &self.tracker
    }

    /// A packet's number came at `now`.
    #[inline]
    pub fn observe_at(&mut self, number: u64, now: &Arrivals, book: &mut Book) -> Seen {
        self.look(number, now, book);
        self.observe(number, book)
    }

    /// Looks for whole turns that were missed before `number`, which comes at `now` and has not been observed yet.
    #[inline]
    pub fn look(&mut self, number: u64, now: &Arrivals, book: &mut Book) {
        if self.turns.as_mut().is_some_and(|turns| !turns.is_usual(now)) {
            self.look_closely(number, now, book);
        }
    }

    #[cold]
    fn look_closely(&mut self, number: u64, now: &Arrivals, book: &mut Book) {
        let Some(turns) = &mut self.turns else { return };
        let (before, pending) = (self.tracker.totals(), self.tracker.pending());
        let turned = turns.before(&mut self.tracker, number, now);
        if turned != Turned::Nothing {
            book.turned(turned.numbers(), turned.is_least());
        }
        book.settle(&self.tracker, before, pending);
    }

    /// A packet's number.
    #[inline]
    pub fn observe(&mut self, number: u64, book: &mut Book) -> Seen {
        match self.tracker.takes(number) {
            true => Seen::New,
            false => self.observe_slowly(number, book),
        }
    }

    #[cold]
    fn observe_slowly(&mut self, number: u64, book: &mut Book) -> Seen {
        let (before, pending) = (self.tracker.totals(), self.tracker.pending());
        let seen = self.tracker.observe(number);
        let after = self.tracker.totals();
        // In order, with the same gaps open as before: nothing to book.
        if seen != Seen::New || self.tracker.pending() != pending || after.lost != before.lost {
            book.settle(&self.tracker, before, pending);
        }
        seen
    }

    /// `count` numbers that follow each other from `number` on came in one packet, if they are the next ones and no gap is
    /// open. Else false, and the caller does it by [`Series::change`].
    #[inline]
    pub fn takes_run(&mut self, number: u64, count: u32, book: &mut Book) -> bool {
        book.seen(count);
        self.tracker.takes_run(number, count)
    }

    /// A packet carries so many numbers: what a dropped one may have carried as well.
    #[inline]
    pub fn carries(&mut self, numbers: u32) {
        if let Some(turns) = &mut self.turns {
            turns.carries(numbers.into());
        }
    }

    /// Does something to the tracker and books what changed.
    pub fn change<R>(&mut self, book: &mut Book, what: impl FnOnce(&mut Tracker) -> R) -> R {
        let (before, pending) = (self.tracker.totals(), self.tracker.pending());
        let result = what(&mut self.tracker);
        book.settle(&self.tracker, before, pending);
        result
    }

    /// Nothing more comes: what is missing is lost. With `total`, numbers up to it are missing too.
    pub fn finish(&mut self, total: Option<u64>, book: &mut Book) {
        self.change(book, |tracker| tracker.finish(total));
    }

    /// Somebody else may have had numbers: what is missing is lost, and whatever comes next is the first.
    pub fn begin_anew(&mut self, book: &mut Book) {
        self.turns.iter_mut().for_each(NumberTurns::forget);
        self.change(book, Tracker::forget);
    }
}

/// A stream of the sender at hand, and its place plus 1.
#[derive(Debug, Clone, Copy, Default)]
struct Near {
    id: u32,
    place: Option<NonZeroU32>,
}

/// What is kept of each stream. A stream is a sender and an id; `NEAR` ids of the sender at hand are found without a look into
/// the table.
#[derive(Debug)]
pub struct Streams<S, const NEAR: usize = 1> {
    slots: Slots<(Origin, u32)>,
    origin: Origin,
    near: [Near; NEAR],
    /// By place.
    pub all: Vec<S>,
}

impl<S, const NEAR: usize> Streams<S, NEAR> {
    /// As many as `numbering` says; 65,536 where it does not.
    pub fn new(numbering: &Numbering) -> Streams<S, NEAR> {
        let limit = numbering.streams.map_or(1 << 16, Limit::get) as usize;
        let (slots, near) = (Slots::new(limit), [Near::default(); NEAR]);
        Streams { slots, origin: Origin::NONE, near, all: Vec::new() }
    }

    /// A train of this sender comes; [`Origin::NONE`] where senders do not matter.
    #[inline]
    pub fn train(&mut self, origin: Origin) {
        if self.origin != origin {
            (self.origin, self.near) = (origin, [Near::default(); NEAR]);
        }
    }

    /// Place of the stream `id` of the sender at hand. Unless it is known, the caller settles what the stream before it at that
    /// place has missing, if there was one, and [`begins`](Streams::begin) it.
    #[inline]
    pub fn find(&mut self, id: u32) -> Found {
        let near = &self.near[id as usize % NEAR];
        match near.place {
            Some(place) if near.id == id => Found::Known(place.get() as usize - 1),
            _ => self.find_slowly(id),
        }
    }

    #[cold]
    fn find_slowly(&mut self, id: u32) -> Found {
        let found = self.slots.find((self.origin, id));
        match found {
            // Only one that has come again is at hand, so that others are seen to come again.
            Found::Known(at) => {
                let place = NonZeroU32::new(at as u32 + 1);
                self.near[id as usize % NEAR] = Near { id, place };
            }
            // It may have been that of another id of this sender.
            Found::Reused(_) => self.near = [Near::default(); NEAR],
            Found::New(_) => {}
        }
        found
    }

    /// Place of the stream `id` of the sender at hand, if it has one.
    pub fn place_of(&self, id: u32) -> Option<usize> {
        self.slots.place_of((self.origin, id))
    }

    /// Place of a stream where none is to lose its own: `None` if all are taken.
    pub fn join(&mut self, origin: Origin, id: u32, new: impl FnOnce() -> S) -> Option<usize> {
        let at = self.slots.join((origin, id))?;
        if at == self.all.len() {
            self.all.push(new());
        }
        Some(at)
    }

    /// A new stream at a place that was found for it.
    pub fn begin(&mut self, at: usize, stream: S) {
        match self.all.get_mut(at) {
            Some(old) => *old = stream,
            None => self.all.push(stream),
        }
    }

    /// Streams that have come again: sender, id, and what is kept of each.
    pub fn followed(&self) -> impl Iterator<Item = ((Origin, u32), &S)> {
        let places = self.all.iter().enumerate().filter(|(at, _)| self.slots.is_followed(*at));
        places.map(|(at, stream)| (self.slots.key(at), stream))
    }

    /// True once a stream has come again.
    #[inline]
    pub fn is_followed(&self, at: usize) -> bool {
        self.slots.is_followed(at)
    }
}

#[cfg(test)]
#[path = "streams_tests.rs"]
mod tests;
