//! Which messages the broker has confirmed: all below a mark, some above it.
//!
//! The mark, the number that the next message gets, and the last confirmed offset of each partition are written to the
//! file `settled`, at most ten times a second and without waiting for the disk: it is a hint. What it does not contain
//! yet is found by reading the tail of each partition. Numbers that it lists as appended and that no file holds are
//! lost.
//!
//! The file is one line of JSON, then the CRC-32 of that line with the spool's salt before it, 8 hexadecimal digits.
//! The previous version had only JSON; it is read. Refuses, as damaged, what has a wrong checksum and what contradicts
//! itself.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use fullcount_io::newfile;

use super::folder::Key;

/// What the file `settled` says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mark {
    /// Every message below this number is confirmed.
    pub below: u64,
    /// What had been appended by then; not known to version 1.
    pub appended: Option<Appended>,
    /// Offset of the last confirmed message of each partition.
    pub offsets: BTreeMap<i32, i64>,
    /// When this was written, ms since 1970.
    pub written_ms: i64,
}

/// What had been appended at some moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Appended {
    /// Number that the next message gets.
    pub next: u64,
    /// Running number (message id) that follows the last one.
    pub next_id: u64,
    /// Events in all messages of this spool.
    pub events: u64,
}

/// The line of version 2.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    format: u32,
    below: u64,
    appended: Appended,
    offsets: BTreeMap<i32, i64>,
    written_ms: i64,
}

/// The file of version 1.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Old {
    below: u64,
    offsets: BTreeMap<i32, i64>,
    written_ms: i64,
}

/// What was found in place of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Left {
    /// No file.
    Nothing,
    /// One that is whole.
    Mark(Mark),
    /// One that cannot be right.
    Damaged,
}

impl Mark {
    /// Reads the file. A read error counts as a damaged file: what is confirmed is found again.
    pub(super) fn read(folder: &Path, key: &Key) -> Left {
        match newfile::read_own(&folder.join(FILE), LONGEST) {
            Ok(bytes) => Mark::parse(&bytes, key).map_or(Left::Damaged, Left::Mark),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Left::Nothing,
            Err(_) => Left::Damaged,
        }
    }

    fn parse(bytes: &[u8], key: &Key) -> Option<Mark> {
        if let Ok(Old { below, offsets, written_ms }) = serde_json::from_slice(bytes) {
            return Some(Mark { below, appended: None, offsets, written_ms });
        }
        let (line, check) =
            std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?.split_once('\n')?;
        if check != format!("{:08x}", sum(line, key)) {
            return None;
        }
        let Line { format, below, appended, offsets, written_ms } =
            serde_json::from_str(line).ok()?;
        let whole = format == FORMAT && below <= appended.next;
        whole.then_some(Mark { below, appended: Some(appended), offsets, written_ms })
    }

    /// In one step: a reader finds the old one or the new one.
    pub(super) fn write(&self, folder: &Path, key: &Key) -> io::Result<()> {
        let appended = self.appended.unwrap_or_default();
        let Mark { below, offsets, written_ms, .. } = self.clone();
        let line = Line { format: FORMAT, below, appended, offsets, written_ms };
        let line = serde_json::to_string(&line)?;
        let check = sum(&line, key);
        newfile::replace_with(&folder.join(FILE), format!("{line}\n{check:08x}\n").as_bytes())
    }
}

fn sum(line: &str, key: &Key) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&key.salt);
    sum.update(line.as_bytes());
    sum.finalize()
}

const FILE: &str = "settled";
const FORMAT: u32 = 2;
/// Most bytes of it: some 30 for each partition, of which a cluster has at most some 200,000.
const LONGEST: u64 = 16 << 20;

/// Confirmed numbers: everything below `below`, and `beyond`.
#[derive(Debug, Default)]
pub(super) struct Settled {
    pub below: u64,
    beyond: BTreeSet<u64>,
    /// Whole ranges above `below`, first and one after the last: damage, which may be far longer than what is in
    /// flight.
    gaps: BTreeMap<u64, u64>,
}

impl Settled {
    pub fn new(below: u64) -> Settled {
        Settled { below, ..Settled::default() }
    }

    /// True if this one was not confirmed before.
    pub fn add(&mut self, sequence: u64) -> bool {
        if self.contains(sequence) {
            return false;
        }
        self.beyond.insert(sequence);
        self.close();
        true
    }

    /// All of these; none of them was confirmed before.
    pub fn add_range(&mut self, from: u64, to: u64) {
        if from < to {
            self.gaps.insert(from, to);
            self.close();
        }
    }

    fn close(&mut self) {
        loop {
            if self.beyond.remove(&self.below) {
                self.below = self.below.saturating_add(1);
                continue;
            }
            match self.gaps.first_key_value() {
                Some((&from, &to)) if from <= self.below => {
                    self.gaps.remove(&from);
                    self.below = self.below.max(to);
                }
                _ => return,
            }
        }
    }

    pub fn contains(&self, sequence: u64) -> bool {
        sequence < self.below
            || self.beyond.contains(&sequence)
            || self.gaps.range(..=sequence).next_back().is_some_and(|(_, &to)| sequence < to)
    }

    /// The first of these numbers that are not confirmed, up to the next one that is.
    pub fn open_part(&self, from: u64, to: u64) -> Option<(u64, u64)> {
        let mut from = from.max(self.below);
        loop {
            if from >= to {
                return None;
            }
            let within = self.gaps.range(..=from).next_back().filter(|&(_, &end)| from < end);
            match within {
                Some((_, &end)) => from = end,
                None if self.beyond.contains(&from) => from += 1,
                None => break,
            }
        }
        let single = self.beyond.range(from..to).next().copied().unwrap_or(to);
        let range = self.gaps.range(from..to).next().map_or(to, |(&gap, _)| gap);
        Some((from, single.min(range)))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const KEY: Key = Key { spool: [1; 16], salt: [2; 8] };

    #[test]
    fn the_mark_moves_when_the_gap_closes() {
        let mut settled = Settled::new(5);
        assert!(!settled.add(4), "below the mark");
        assert!(settled.add(6) && settled.add(8) && !settled.add(6));
        assert_eq!((settled.below, settled.contains(6), settled.contains(7)), (5, true, false));
        assert!(settled.add(5));
        assert_eq!(settled.below, 7);
        assert!(settled.add(7));
        assert_eq!((settled.below, settled.beyond.len()), (9, 0));
    }

    #[test]
    fn a_range_costs_nothing_however_long_it_is() {
        let mut settled = Settled::new(5);
        settled.add_range(10, u64::MAX);
        assert!(settled.contains(10) && settled.contains(1 << 60) && !settled.contains(9));
        assert!(!settled.add(11));
        assert!(settled.add(7));
        assert_eq!(settled.open_part(0, 20), Some((5, 7)));
        assert_eq!(settled.open_part(7, 20), Some((8, 10)));
        assert_eq!(settled.open_part(10, 20), None);
        assert!([5, 6, 8, 9].into_iter().all(|n| settled.add(n)));
        assert_eq!((settled.below, settled.gaps.len()), (u64::MAX, 0));
    }

    #[test]
    fn a_mark_is_read_back_and_one_with_any_bit_flipped_or_cut_anywhere_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let read = || Mark::read(folder.path(), &KEY);
        assert_eq!(read(), Left::Nothing);
        let appended = Some(Appended { next: 9, next_id: 100, events: 4 });
        let mark = Mark { below: 7, appended, offsets: [(0, 41), (3, 2)].into(), written_ms: 5 };
        mark.write(folder.path(), &KEY).unwrap();
        assert_eq!(read(), Left::Mark(mark.clone()));
        let path = folder.path().join(FILE);
        let whole = fs::read(&path).unwrap();
        for bit in 0..8 * whole.len() {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &bytes).unwrap();
            assert_eq!(read(), Left::Damaged, "{bit}");
            fs::write(&path, &whole[..bit / 8]).unwrap();
            assert_eq!(read(), Left::Damaged, "cut at {}", bit / 8);
        }
        // Another spool's, and one whose marks contradict each other.
        Mark { below: 10, ..mark.clone() }.write(folder.path(), &KEY).unwrap();
        assert_eq!(read(), Left::Damaged);
        mark.write(folder.path(), &Key { salt: [3; 8], ..KEY }).unwrap();
        assert_eq!(read(), Left::Damaged);
    }

    #[test]
    fn the_version_before_is_read() {
        let old = br#"{"below":7,"offsets":{"0":41},"written_ms":5}"#;
        let mark = Mark { below: 7, appended: None, offsets: [(0, 41)].into(), written_ms: 5 };
        assert_eq!(Mark::parse(old, &KEY), Some(mark));
    }
}
