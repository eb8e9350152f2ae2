//! Which messages the broker has confirmed: all below a mark, some above it.
//!
//! The mark and the last confirmed offset of each partition are written to the file `settled`, at most ten times a
//! second and without waiting for the disk: it is a hint. What it does not say yet is found again by reading the tail of
//! each partition.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// What the file `settled` says.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Mark {
    /// Every message below this number is confirmed.
    pub below: u64,
    /// Offset of the last confirmed message of each partition.
    pub offsets: BTreeMap<i32, i64>,
    /// When this was written, ms since 1970.
    pub written_ms: i64,
}

impl Mark {
    /// `None` if there is no such file or it cannot be read.
    pub(super) fn read(folder: &Path) -> Option<Mark> {
        serde_json::from_str(&fs::read_to_string(folder.join(FILE)).ok()?).ok()
    }

    /// In one step: a reader finds the old one or the new one.
    pub(super) fn write(&self, folder: &Path) -> std::io::Result<()> {
        let new = folder.join(NEW);
        fs::write(&new, serde_json::to_vec(self)?)?;
        fs::rename(new, folder.join(FILE))
    }
}

const FILE: &str = "settled";
const NEW: &str = "settled.new";

/// Confirmed numbers: everything below `below`, and `beyond`.
#[derive(Debug, Default)]
pub(super) struct Settled {
    pub below: u64,
    beyond: BTreeSet<u64>,
}

impl Settled {
    pub fn new(below: u64) -> Settled {
        Settled { below, beyond: BTreeSet::new() }
    }

    /// True if this one was not confirmed before.
    pub fn add(&mut self, sequence: u64) -> bool {
        if sequence < self.below || !self.beyond.insert(sequence) {
            return false;
        }
        while self.beyond.remove(&self.below) {
            self.below += 1;
        }
        true
    }

    pub fn contains(&self, sequence: u64) -> bool {
        sequence < self.below || self.beyond.contains(&sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_mark_is_read_back_and_a_damaged_one_is_none() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Mark::read(folder.path()), None);
        let mark = Mark { below: 7, offsets: [(0, 41), (3, 2)].into(), written_ms: 5 };
        mark.write(folder.path()).unwrap();
        assert_eq!(Mark::read(folder.path()), Some(mark));
        fs::write(folder.path().join(FILE), "{\"below\": 7").unwrap();
        assert_eq!(Mark::read(folder.path()), None);
    }
}
