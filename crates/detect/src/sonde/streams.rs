//! Who sends: per (origin, system number) the sequence state, the clock and the module's pixels.
//!
//! A train has one origin, so places are asked for once per change of origin, and the 32 system numbers of that origin are an
//! array. There are as many places as configured: datagrams with invented sources must not fill the memory. When all are taken,
//! the stream that was silent longest loses its own ([`Slots`]). Refuses nothing.
//! Source: `docs/formats/sonde.md` section 5.

use std::num::NonZeroU32;

use fullcount_core::batch::Origin;
use fullcount_core::sequence::turns::Turns;
use fullcount_core::sequence::{Start, Tracker};
use fullcount_core::slots::{Found, Slots};

use super::arrival::Pace;
use super::clock::HeaderTime;

/// Packet counts that a missing one is waited for. A stream is one device on one way through the network,
/// so packets overtake each other by a GRO train (64 packets) or two: 256 is four of them. A gap is then
/// decided after 160 ms at 1,600 packets/s and module, and soon at any rate; the default of 4,096 numbers,
/// made for one stream at full line rate, would keep a loss open for seconds. The smaller the window, the
/// more of the 14-bit range is left to tell a restart.
const WINDOW: u32 = 256;

/// What one observed packet count says under the published rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Published {
    /// As expected, or the first of its stream.
    Expected,
    /// A gap of 1..=8192 packets.
    Gap(u64),
    /// A gap above 8192: a repeated or reordered packet.
    OutOfOrder,
}

/// Sequence state of one stream.
#[derive(Debug)]
pub(super) struct Sequence {
    /// Expected next count of the published rule.
    expected: Option<u16>,
    /// Our own verdict: lost, duplicate, reordered, late, restarted.
    pub tracker: Tracker,
    /// Whole turns of the 14 bits that were missed: one takes 205 ms at 80,000 packets/s.
    pub turns: Turns,
}

impl Sequence {
    pub fn new() -> Sequence {
        let tracker = Tracker::new(14, WINDOW, Start::AtFirst);
        Sequence { expected: None, tracker, turns: Turns::new(14) }
    }

    /// Whatever number comes next is the first. What was expected.
    pub fn begin_anew(&mut self) -> Option<u16> {
        self.tracker.forget();
        self.turns.forget();
        self.expected.take()
    }

    /// The published rule: first packet no error, then any difference is one.
    #[inline]
    pub fn publish(&mut self, count: u16) -> Published {
        let expected = self.expected.replace((count + 1) & 0x3fff);
        match expected.map_or(0, |e| count.wrapping_sub(e) & 0x3fff) {
            0 => Published::Expected,
            gap @ 1..=8192 => Published::Gap(u64::from(gap)),
            _ => Published::OutOfOrder,
        }
    }
}

impl Stream {
    /// Its own clock again, if this packet count goes on where it stopped: then nobody else had its packets.
    pub fn resume(&mut self, count: u16) -> Option<HeaderTime> {
        let (time, expected) = self.before.take()?;
        let ahead = count.wrapping_sub(expected) & 0x3fff;
        let near = WINDOW as u16;
        (ahead <= near || ahead >= 0x4000 - near).then_some(time)
    }
}

/// One sender: an origin and a system number.
#[derive(Debug)]
pub(super) struct Stream {
    /// Place of its sequence state.
    pub sequence: usize,
    /// Header time of its newest accepted packet.
    pub time: Option<HeaderTime>,
    /// The same from before somebody else may have had packets, and the packet count that would have come next.
    pub before: Option<(HeaderTime, u16)>,
    /// What its receive times have shown.
    pub pace: Pace,
    /// What is added to the module's pixels; `None` if the geometry does not list it.
    pub offset: Option<u32>,
}

/// All streams of one reader.
#[derive(Debug)]
pub(super) struct Streams {
    slots: Slots<(Origin, u8)>,
    one_sequence: bool,
    /// Last origin, and places plus 1 of those of its streams that have come again.
    last: Origin,
    systems: [Option<NonZeroU32>; 32],
    pub streams: Vec<Stream>,
    pub sequences: Vec<Sequence>,
}

impl Streams {
    /// At most `limit` streams; all of them with one sequence state if `one_sequence`.
    pub fn new(limit: usize, one_sequence: bool) -> Streams {
        let (slots, last, systems) = (Slots::new(limit), Origin::NONE, [None; 32]);
        Streams { slots, one_sequence, last, systems, streams: Vec::new(), sequences: Vec::new() }
    }

    /// Place of a stream. Unless it is known, the caller settles what the stream before it at that place has pending, if there was
    /// one, and [`begins`](Streams::begin) it.
    #[inline]
    pub fn find(&mut self, origin: Origin, system: u8) -> Found {
        if self.last == origin
            && let Some(found) = self.systems[usize::from(system & 31)]
        {
            return Found::Known(found.get() as usize - 1);
        }
        self.find_slowly(origin, system & 31)
    }

    #[cold]
    fn find_slowly(&mut self, origin: Origin, system: u8) -> Found {
        if self.last != origin {
            (self.last, self.systems) = (origin, [None; 32]);
        }
        let found = self.slots.find((origin, system));
        match found {
            Found::Known(at) => {
                self.systems[usize::from(system)] = NonZeroU32::new(at as u32 + 1);
            }
            // It may have been that of another system number of this origin.
            Found::Reused(_) => self.systems = [None; 32],
            Found::New(_) => {}
        }
        found
    }

    /// Place of a stream where none is to lose its own: `None` if all are taken.
    pub fn join(&mut self, origin: Origin, system: u8) -> Option<usize> {
        let at = self.slots.join((origin, system & 31))?;
        if at == self.streams.len() {
            self.begin(at, None);
        }
        Some(at)
    }

    /// A new stream at a place, with what is added to its module's pixels.
    pub fn begin(&mut self, at: usize, offset: Option<u32>) {
        let sequence = if self.one_sequence { 0 } else { at };
        let stream = Stream { sequence, time: None, before: None, pace: Pace::default(), offset };
        match self.streams.get_mut(at) {
            Some(old) => *old = stream,
            None => self.streams.push(stream),
        }
        match self.sequences.get_mut(sequence) {
            // That of all others as well.
            Some(_) if self.one_sequence => {}
            Some(old) => *old = Sequence::new(),
            None => self.sequences.push(Sequence::new()),
        }
    }

    /// The sequence state that goes with a stream, if it has one of its own.
    pub fn own_sequence(&mut self, at: usize) -> Option<&mut Sequence> {
        let own = !self.one_sequence;
        self.sequences.get_mut(self.streams.get(at)?.sequence).filter(|_| own)
    }

    /// True once a stream has come again.
    #[inline]
    pub fn is_followed(&self, at: usize) -> bool {
        self.slots.is_followed(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(n: u8) -> Origin {
        Origin { ip: [n; 16], port: 1 }
    }

    fn find(s: &mut Streams, from: u8, system: u8) -> Found {
        let found = s.find(origin(from), system);
        if !matches!(found, Found::Known(_)) {
            s.begin(found.place(), Some(u32::from(from)));
        }
        found
    }

    #[test]
    fn streams_are_told_apart_by_origin_and_system_and_are_bounded() {
        let mut s = Streams::new(3, false);
        let all = [(1, 0), (1, 1), (2, 0), (1, 1), (1, 0)].map(|(o, y)| find(&mut s, o, y));
        use Found::*;
        assert_eq!(all, [New(0), New(1), New(2), Known(1), Known(0)]);
        assert_eq!(find(&mut s, 3, 0), Reused(2), "a fourth one");
        assert_eq!(find(&mut s, 1, 2), Reused(2), "also of a known origin");
        assert_eq!(find(&mut s, 1, 1), Known(1));
        assert_eq!(find(&mut s, 1, 0), Known(0));
        assert_eq!((s.sequences.len(), s.streams[2].offset), (3, Some(1)));
        assert_eq!((s.join(origin(7), 0), s.join(origin(1), 2)), (None, Some(2)));
    }

    #[test]
    fn a_place_that_went_to_another_is_not_found_by_the_short_way() {
        let mut s = Streams::new(1, false);
        use Found::*;
        assert_eq!([0, 0, 0].map(|y| find(&mut s, 1, y)), [New(0), Known(0), Known(0)]);
        assert_eq!([1, 0].map(|y| find(&mut s, 1, y)), [Reused(0), Reused(0)]);
    }

    #[test]
    fn one_sequence_state_can_serve_all() {
        let mut s = Streams::new(2, true);
        for (o, system) in [(1, 0), (1, 1), (2, 0)] {
            let at = find(&mut s, o, system).place();
            assert_eq!((s.streams[at].sequence, s.sequences.len()), (0, 1));
            assert!(s.own_sequence(at).is_none());
        }
    }

    #[test]
    fn the_published_rule_on_its_borders() {
        let mut s = Sequence::new();
        let verdicts: Vec<_> =
            [16383, 0, 1, 8194, 8195, 8195, 1, 16384 - 8190].map(|n| s.publish(n)).into();
        use Published::*;
        // 8194 after 1 is a gap of 8192; 8195 twice is one of 16383; 1 after 8195 is 8189; 8194 after
        // 1 again 8192.
        assert_eq!(
            verdicts,
            [Expected, Expected, Expected, Gap(8192), Expected, OutOfOrder, Gap(8189), Gap(8192)]
        );
        assert_eq!(s.publish(8194 + 8194), OutOfOrder, "8193 is out of order");
    }
}
