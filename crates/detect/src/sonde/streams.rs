//! Who sends: per (origin, system number) the sequence state, the clock and the module's pixels.
//!
//! A train has one origin, so the map is asked once per change of origin and the 32 system numbers
//! are an array behind it. Refuses more than a configured number of streams: datagrams with invented
//! sources must not fill the memory; their packets are decoded without sequence check and counted.
//! Source: `docs/formats/sonde.md` section 5.

use std::collections::HashMap;
use std::num::NonZeroU32;

use fullcount_core::batch::Origin;
use fullcount_core::sequence::{Start, Tracker};

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
}

impl Sequence {
    fn new() -> Sequence {
        Sequence { expected: None, tracker: Tracker::new(14, WINDOW, Start::AtFirst) }
    }

    /// Whatever number comes next is the first. What was expected.
    pub fn begin_anew(&mut self) -> Option<u16> {
        self.tracker.forget();
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
    /// What is added to the module's pixels; `None` if the geometry does not list it.
    pub offset: Option<u32>,
}

type Systems = [Option<NonZeroU32>; 32];

/// All streams of one reader.
#[derive(Debug)]
pub(super) struct Streams {
    limit: usize,
    one_sequence: bool,
    origins: HashMap<Origin, usize>,
    systems: Vec<Systems>,
    /// Last origin and its place in `systems`.
    last: Option<(Origin, usize)>,
    pub streams: Vec<Stream>,
    pub sequences: Vec<Sequence>,
}

impl Streams {
    /// At most `limit` streams; all of them with one sequence state if `one_sequence`.
    pub fn new(limit: usize, one_sequence: bool) -> Streams {
        let origins = HashMap::new();
        let (systems, streams, sequences) = (Vec::new(), Vec::new(), Vec::new());
        Streams { limit, one_sequence, origins, systems, last: None, streams, sequences }
    }

    /// Place of a stream, made by `offset` if it is new; `None` if there are too many.
    #[inline]
    pub fn find(
        &mut self,
        origin: Origin,
        system: u8,
        offset: impl FnOnce() -> Option<u32>,
    ) -> Option<usize> {
        if let Some((last, at)) = self.last
            && last == origin
            && let Some(found) = self.systems[at][usize::from(system & 31)]
        {
            return Some(found.get() as usize - 1);
        }
        self.find_slowly(origin, system, offset)
    }

    #[cold]
    fn find_slowly(
        &mut self,
        origin: Origin,
        system: u8,
        offset: impl FnOnce() -> Option<u32>,
    ) -> Option<usize> {
        let known = self.origins.get(&origin).copied();
        let system = usize::from(system & 31);
        if let Some(at) = known {
            self.last = Some((origin, at));
            if let Some(found) = self.systems[at][system] {
                return Some(found.get() as usize - 1);
            }
        }
        if self.streams.len() >= self.limit {
            return None;
        }
        let at = known.unwrap_or_else(|| {
            self.systems.push([None; 32]);
            self.origins.insert(origin, self.systems.len() - 1);
            self.systems.len() - 1
        });
        self.last = Some((origin, at));
        if self.sequences.is_empty() || !self.one_sequence {
            self.sequences.push(Sequence::new());
        }
        let sequence = self.sequences.len() - 1;
        self.streams.push(Stream { sequence, time: None, before: None, offset: offset() });
        self.systems[at][system] = NonZeroU32::new(self.streams.len() as u32);
        Some(self.streams.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(n: u8) -> Origin {
        Origin { ip: [n; 16], port: 1 }
    }

    #[test]
    fn streams_are_told_apart_by_origin_and_system_and_are_bounded() {
        let mut s = Streams::new(3, false);
        let a = s.find(origin(1), 0, || Some(0));
        let b = s.find(origin(1), 1, || Some(0));
        let c = s.find(origin(2), 0, || Some(0));
        assert_eq!((a, b, c), (Some(0), Some(1), Some(2)));
        assert_eq!(s.find(origin(3), 0, || Some(0)), None, "a fourth one");
        assert_eq!(s.find(origin(1), 2, || Some(0)), None, "also of a known origin");
        assert_eq!(s.find(origin(1), 1, || panic!("known")), Some(1));
        assert_eq!(s.sequences.len(), 3);
    }

    #[test]
    fn one_sequence_state_can_serve_all() {
        let mut s = Streams::new(9, true);
        for (o, system) in [(1, 0), (1, 1), (2, 0)] {
            let at = s.find(origin(o), system, || None).unwrap();
            assert_eq!(s.streams[at].sequence, 0);
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
