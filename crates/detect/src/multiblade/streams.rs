//! Who sends: per origin the sequence state, as published and as the tracker of all numbered streams has it.
//!
//! A sender counts its packets over all its digitisers, so a stream is an origin. There are as many places as configured:
//! datagrams with invented sources must not fill the memory. When all are taken, the stream that was silent longest loses its
//! own ([`Slots`]). Refuses nothing. Source: `docs/formats/multiblade.md` sections 2.1 and 2.3.

use fullcount_core::batch::Origin;
use fullcount_core::sequence::turns::Turns;
use fullcount_core::sequence::{Start, Tracker};
use fullcount_core::slots::{Found, Slots};

/// Packets that a missing one is waited for: four GRO trains, as with SoNDe.
const WINDOW: u32 = 256;

/// Sequence state of one sender.
#[derive(Debug)]
pub(super) struct Stream {
    /// Next number of the published rule, which begins with 0.
    expected: u32,
    /// Our own verdict: lost, duplicate, reordered, late, restarted.
    pub tracker: Tracker,
    /// Whole turns of the 32 bits that were missed: one takes 12 hours at 100,000 packets/s.
    pub turns: Turns,
}

impl Stream {
    fn new() -> Stream {
        let tracker = Tracker::new(32, WINDOW, Start::AtFirst);
        Stream { expected: 0, tracker, turns: Turns::new(32) }
    }

    /// The published rule: true if the number is not the expected one.
    #[inline]
    pub fn is_unexpected(&mut self, number: u32) -> bool {
        let expected = std::mem::replace(&mut self.expected, number.wrapping_add(1));
        number != expected
    }
}

/// All senders of one reader.
#[derive(Debug)]
pub(super) struct Streams {
    slots: Slots<Origin>,
    /// The last one, if it has come again.
    last: Option<(Origin, usize)>,
    pub streams: Vec<Stream>,
}

impl Streams {
    /// At most `limit` streams.
    pub fn new(limit: usize) -> Streams {
        Streams { slots: Slots::new(limit), last: None, streams: Vec::new() }
    }

    /// Place of a sender's stream. Unless it is known, the caller settles what the stream before it at that place has pending, if
    /// there was one, and [`begins`](Streams::begin) it.
    #[inline]
    pub fn find(&mut self, origin: Origin) -> Found {
        match self.last {
            Some((last, at)) if last == origin => Found::Known(at),
            _ => self.find_slowly(origin),
        }
    }

    #[cold]
    fn find_slowly(&mut self, origin: Origin) -> Found {
        let found = self.slots.find(origin);
        self.last = match found {
            Found::Known(at) => Some((origin, at)),
            Found::New(_) | Found::Reused(_) => None,
        };
        found
    }

    /// Place of a sender's stream where none is to lose its own: `None` if all are taken.
    pub fn join(&mut self, origin: Origin) -> Option<usize> {
        let at = self.slots.join(origin)?;
        if at == self.streams.len() {
            self.begin(at);
        }
        Some(at)
    }

    /// A new stream at a place.
    pub fn begin(&mut self, at: usize) {
        match self.streams.get_mut(at) {
            Some(old) => *old = Stream::new(),
            None => self.streams.push(Stream::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_are_told_apart_and_bounded() {
        let origin = |n| Origin { ip: [n; 16], port: 1 };
        let mut s = Streams::new(2);
        use Found::*;
        let all = [1, 2, 1, 2, 3, 1, 3, 2].map(|n| {
            let found = s.find(origin(n));
            s.begin(found.place());
            found
        });
        let wanted =
            [New(0), New(1), Known(0), Known(1), Reused(0), Reused(0), Reused(0), Known(1)];
        assert_eq!(all, wanted);
        assert_eq!((s.streams.len(), s.join(origin(9)), s.join(origin(2))), (2, None, Some(1)));
    }

    #[test]
    fn the_published_rule_begins_with_0_and_wraps() {
        let mut s = Stream::new();
        let seen = [5, 6, u32::MAX, 0, 2].map(|n| s.is_unexpected(n));
        assert_eq!(seen, [true, false, true, false, true]);
        assert!(!Stream::new().is_unexpected(0));
    }
}
