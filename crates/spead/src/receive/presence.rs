//! Which bytes of a heap are there: sorted ranges that do not touch.
//!
//! The packet that follows the last one costs one comparison. Refuses what is known already and, beyond a limit, a range
//! of its own. Source: `docs/formats/spead.md`, section 8.3.

use std::ops::Range;

/// What became of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    /// All of it is new.
    New,
    /// All of it was there.
    Duplicate,
    /// Some of it was there.
    Overlap,
    /// It would need a range beyond the limit.
    TooMany,
}

/// Ranges of bytes that are there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PresenceMap {
    ranges: Vec<Range<u64>>,
}

impl PresenceMap {
    /// The ranges in order; no two touch.
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// Bytes that are there.
    pub fn bytes(&self) -> u64 {
        self.ranges.iter().map(|r| r.end - r.start).sum()
    }

    /// What is there, is `[0, end)`.
    pub fn is_prefix(&self) -> bool {
        match &self.ranges[..] {
            [] => true,
            [only] => only.start == 0,
            _ => false,
        }
    }

    /// What is missing of `[0, length)`.
    pub fn gaps(&self, length: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        let starts = self.ranges.iter().map(|r| r.start).chain([length]);
        let ends = [0].into_iter().chain(self.ranges.iter().map(|r| r.end));
        ends.zip(starts)
            .map(move |(end, start)| end..start.min(length))
            .filter(|gap| !gap.is_empty())
    }

    /// Where the last range ends.
    #[inline]
    pub fn end(&self) -> u64 {
        self.ranges.last().map_or(0, |last| last.end)
    }

    /// Adds `bytes` bytes behind the last range.
    #[inline]
    pub fn extend(&mut self, bytes: u64) {
        if let Some(last) = self.ranges.last_mut() {
            last.end += bytes;
        }
    }

    /// Adds a range, unless some of it is there. An empty range is new and changes nothing.
    #[inline]
    pub fn add(&mut self, range: Range<u64>, limit: usize) -> Added {
        if range.is_empty() {
            return Added::New;
        }
        let many = self.ranges.len() >= limit;
        match self.ranges.last_mut() {
            Some(last) if last.end == range.start => {
                last.end = range.end;
                Added::New
            }
            Some(last) if last.end > range.start => self.insert(range, limit),
            _ if many => Added::TooMany,
            _ => {
                self.ranges.push(range);
                Added::New
            }
        }
    }

    /// Somewhere before the end.
    fn insert(&mut self, range: Range<u64>, limit: usize) -> Added {
        // The first one that ends behind the start.
        let at = self.ranges.partition_point(|r| r.end <= range.start);
        let next = &self.ranges[at];
        if next.start < range.end {
            let inside = next.start <= range.start && range.end <= next.end;
            return if inside { Added::Duplicate } else { Added::Overlap };
        }
        let joins_next = next.start == range.end;
        let joins_before = at > 0 && self.ranges[at - 1].end == range.start;
        match (joins_before, joins_next) {
            (true, true) => {
                self.ranges[at - 1].end = self.ranges[at].end;
                self.ranges.remove(at);
            }
            (true, false) => self.ranges[at - 1].end = range.end,
            (false, true) => self.ranges[at].start = range.start,
            (false, false) if self.ranges.len() >= limit => return Added::TooMany,
            (false, false) => self.ranges.insert(at, range),
        }
        Added::New
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_one_flag_per_byte(
            adds in proptest::collection::vec((0u64..64, 0u64..9), 0..60),
            limit in 1usize..8,
        ) {
            let mut map = PresenceMap::default();
            let mut flags = [false; 80];
            for (start, length) in adds {
                let range = start..start + length;
                let part = &mut flags[start as usize..(start + length) as usize];
                let there = part.iter().filter(|f| **f).count() as u64;
                let before = map.clone();
                let got = map.add(range, limit);
                match got {
                    Added::New => {
                        prop_assert_eq!(there, 0);
                        part.fill(true);
                    }
                    Added::Duplicate => prop_assert_eq!(there, length),
                    Added::Overlap => prop_assert!(there > 0 && there <= length),
                    Added::TooMany => prop_assert!(there == 0 && before.ranges().len() >= limit),
                }
                if got != Added::New {
                    prop_assert_eq!(&before, &map);
                }
                prop_assert!(map.ranges().len() <= limit);
                prop_assert!(map.ranges().windows(2).all(|w| w[0].end < w[1].start));
                prop_assert_eq!(map.bytes(), flags.iter().filter(|f| **f).count() as u64);
                let missing: u64 = map.gaps(80).map(|g| g.end - g.start).sum();
                prop_assert_eq!(missing + map.bytes(), 80);
            }
        }
    }
}
