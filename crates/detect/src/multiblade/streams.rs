//! Who sends: per origin the sequence state, as published and as the tracker of all numbered streams has it.
//!
//! A sender counts its packets over all its digitisers, so a stream is an origin. Refuses more than a configured
//! number of streams: datagrams with invented sources must not fill the memory; their packets are decoded
//! without sequence check and counted. Source: `docs/formats/multiblade.md` sections 2.1 and 2.3.

use std::collections::HashMap;

use fullcount_core::batch::Origin;
use fullcount_core::sequence::{Start, Tracker};

/// Packets that a missing one is waited for: four GRO trains, as with SoNDe.
const WINDOW: u32 = 256;

/// Sequence state of one sender.
#[derive(Debug)]
pub(super) struct Stream {
    /// Next number of the published rule, which begins with 0.
    expected: u32,
    /// Our own verdict: lost, duplicate, reordered, late, restarted.
    pub tracker: Tracker,
}

impl Stream {
    fn new() -> Stream {
        Stream { expected: 0, tracker: Tracker::new(32, WINDOW, Start::AtFirst) }
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
    limit: usize,
    origins: HashMap<Origin, usize>,
    last: Option<(Origin, usize)>,
    pub streams: Vec<Stream>,
}

impl Streams {
    /// At most `limit` streams.
    pub fn new(limit: usize) -> Streams {
        Streams { limit, origins: HashMap::new(), last: None, streams: Vec::new() }
    }

    /// Place of a sender's stream; `None` if there are too many.
    #[inline]
    pub fn find(&mut self, origin: Origin) -> Option<usize> {
        match self.last {
            Some((last, at)) if last == origin => Some(at),
            _ => self.find_slowly(origin),
        }
    }

    #[cold]
    fn find_slowly(&mut self, origin: Origin) -> Option<usize> {
        let at = match self.origins.get(&origin) {
            Some(&at) => at,
            None if self.streams.len() >= self.limit => return None,
            None => {
                self.streams.push(Stream::new());
                self.origins.insert(origin, self.streams.len() - 1);
                self.streams.len() - 1
            }
        };
        self.last = Some((origin, at));
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_are_told_apart_and_bounded() {
        let origin = |n| Origin { ip: [n; 16], port: 1 };
        let mut s = Streams::new(2);
        assert_eq!(
            [1, 2, 1, 3, 2].map(|n| s.find(origin(n))),
            [Some(0), Some(1), Some(0), None, Some(1)]
        );
        assert_eq!(s.streams.len(), 2);
    }

    #[test]
    fn the_published_rule_begins_with_0_and_wraps() {
        let mut s = Stream::new();
        let seen = [5, 6, u32::MAX, 0, 2].map(|n| s.is_unexpected(n));
        assert_eq!(seen, [true, false, true, false, true]);
        assert!(!Stream::new().is_unexpected(0));
    }
}
