//! From one whole record of a segment to the next, past any damage between them.
//!
//! Memory is bounded: damage is searched in windows of 1 MiB, and a body is kept in memory only if its length is
//! trusted (by the head's own checksum, or below 16 MiB, or after its checksum was computed in pieces). For version 1,
//! whose heads have no checksum, the work is bounded too. Everything that is no record is damage.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::folder::Key;
use super::record::{self, HEAD, Head, Stored, Version};
use super::segment::Owner;

/// A record is accepted only if its number is at most this far ahead: a segment of 64 MiB holds fewer.
pub(super) const FARTHEST: u64 = 1 << 24;
/// Bytes that are searched at a time.
const WINDOW: usize = 1 << 20;
/// A body of version 1 that is longer is not held before its sum is known to be right.
const UNCHECKED: usize = 16 << 20;
/// Most bytes that are summed in the search for records of version 1: lengths in damaged bytes may say anything.
const MOST_SUMMED: u64 = 4 << 30;

/// What comes after the last whole record of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tail {
    /// Nothing.
    Clean,
    /// The beginning of a record, or zeros: an append that was cut off and never completed.
    Torn,
    /// Records that were there, up to this number at least.
    Damaged(u64),
}

/// Part of a segment's file, read by position.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part<'a> {
    pub file: &'a File,
    pub owner: Owner,
    pub key: &'a Key,
    /// Behind the last byte that counts.
    pub end: u64,
}

impl Part<'_> {
    /// The next whole record at or after `at`, with its place; its bytes are in `buffer`. `least` is the smallest
    /// number that it may have. Otherwise what is there instead.
    pub fn next<'b>(
        &self,
        at: u64,
        least: u64,
        buffer: &'b mut Vec<u8>,
    ) -> io::Result<Result<(u64, Head, Stored<'b>), Tail>> {
        let mut search = Search::new(*self, least);
        let Some((place, head)) = search.run(at, buffer)? else {
            return self.tail(at, &search).map(Err);
        };
        match record::fields(buffer, head, self.key.spool, self.owner.start) {
            Some(stored) => Ok(Ok((place, head, stored))),
            // Sums are right and the fields contradict each other: nothing that was appended.
            None => Ok(Err(Tail::Damaged(head.sequence.saturating_add(1)))),
        }
    }

    /// What begins at `at` if no whole record follows.
    fn tail(&self, at: u64, search: &Search<'_>) -> io::Result<Tail> {
        if at >= self.end {
            return Ok(Tail::Clean);
        }
        if let Some(upto) = search.upto {
            return Ok(Tail::Damaged(upto));
        }
        let mut front = [0; HEAD];
        let there = (self.end - at).min(HEAD as u64) as usize;
        self.file.read_exact_at(&mut front[..there], at)?;
        let magic = self.owner.version.magic();
        let begins = front[..there.min(4)] == magic[..there.min(4)];
        let sequence = front[8..16] == search.least.to_le_bytes();
        let short = there < self.owner.version.head();
        let torn = search.torn == Some(at)
            || (short && begins && (there < 16 || sequence))
            || self.is_zero(at)?;
        Ok(if torn { Tail::Torn } else { Tail::Damaged(search.least.saturating_add(1)) })
    }

    fn is_zero(&self, at: u64) -> io::Result<bool> {
        let mut window = vec![0; WINDOW.min((self.end - at) as usize)];
        let mut at = at;
        while at < self.end {
            let n = (self.end - at).min(window.len() as u64) as usize;
            self.file.read_exact_at(&mut window[..n], at)?;
            if window[..n].iter().any(|&b| b != 0) {
                return Ok(false);
            }
            at += n as u64;
        }
        Ok(true)
    }
}

/// Message id and head of the first whole record at or after `at`, of any number, of version 2.
pub(super) fn first(file: &File, at: u64, end: u64, key: &Key) -> io::Result<Option<(u64, Head)>> {
    let (version, spool) = (Version::Two, key.spool);
    let owner = Owner { version, spool, start: 0, first: 0, first_id: 0, before: None };
    let part = Part { file, owner, key, end };
    let mut search = Search::new(part, 0);
    let mut buffer = Vec::new();
    let Some((_, head)) = search.run(at, &mut buffer)? else { return Ok(None) };
    Ok(record::fields(&buffer, head, spool, 0).map(|stored| (stored.message_id, head)))
}

/// What is at a place.
enum Here {
    Whole(Head),
    /// A head with a damaged body.
    Body(Head),
    /// A head, and a body that is not all there.
    Short,
    Nothing,
}

struct Search<'a> {
    part: Part<'a>,
    least: u64,
    /// Behind the highest number whose head is whole and whose body is not.
    upto: Option<u64>,
    /// Place of a head whose body exceeds the end.
    torn: Option<u64>,
    /// Bytes that were summed for records of version 1 in vain.
    summed: u64,
    /// Bytes that are searched now, and where they begin.
    window: Vec<u8>,
    base: u64,
}

impl<'a> Search<'a> {
    fn new(part: Part<'a>, least: u64) -> Search<'a> {
        let (upto, torn, window) = (None, None, Vec::new());
        Search { part, least, upto, torn, summed: 0, window, base: 0 }
    }

    fn run(&mut self, from: u64, buffer: &mut Vec<u8>) -> io::Result<Option<(u64, Head)>> {
        let mut at = from;
        loop {
            match self.here(at, buffer)? {
                Here::Whole(head) => return Ok(Some((at, head))),
                Here::Body(head) => {
                    let behind = head.sequence.saturating_add(1);
                    let ahead = self.upto.is_none_or(|upto| upto < behind);
                    if ahead {
                        self.upto = Some(behind);
                    }
                    // Version 1 does not know its own length for sure.
                    let sure = head.version == Version::Two;
                    at += if sure { head.whole() as u64 } else { 1 };
                }
                Here::Short => {
                    self.torn = self.torn.or(Some(at));
                    if self.part.owner.version == Version::Two {
                        // All that follows is its body.
                        return Ok(None);
                    }
                    at += 1;
                }
                Here::Nothing => at += 1,
            }
            match self.magic(at)? {
                Some(found) => at = found,
                None => return Ok(None),
            }
        }
    }

    fn believes(&self, head: &Head) -> bool {
        // In a search for any record only the checksum decides.
        self.least == 0
            || (self.least..self.least.saturating_add(FARTHEST)).contains(&head.sequence)
    }

    fn here(&mut self, at: u64, buffer: &mut Vec<u8>) -> io::Result<Here> {
        let Part { file, owner, key, end } = self.part;
        let left = end.saturating_sub(at);
        let length = owner.version.head();
        if left < length as u64 {
            return Ok(Here::Nothing);
        }
        let mut front = [0; HEAD];
        let front = &mut front[..length];
        file.read_exact_at(front, at)?;
        let Some(head) = Head::read(owner.version, key, at, front) else {
            return Ok(Here::Nothing);
        };
        if !self.believes(&head) {
            return Ok(Here::Nothing);
        }
        if head.whole() as u64 > left {
            return Ok(Here::Short);
        }
        if head.version == Version::One {
            if self.summed > MOST_SUMMED {
                return Ok(Here::Nothing);
            }
            self.summed += head.whole() as u64;
            if head.body > UNCHECKED && !self.sums_up(&head, at, front)? {
                return Ok(Here::Body(head));
            }
        }
        let mut sum = head.sum(front);
        buffer.resize(head.whole(), 0);
        buffer[..length].copy_from_slice(front);
        file.read_exact_at(&mut buffer[length..], at + length as u64)?;
        sum.update(&buffer[length..]);
        if !head.agrees(sum) {
            return Ok(Here::Body(head));
        }
        self.summed = 0;
        Ok(Here::Whole(head))
    }

    /// The same sum, in pieces.
    fn sums_up(&self, head: &Head, at: u64, front: &[u8]) -> io::Result<bool> {
        let (mut sum, mut window) = (head.sum(front), vec![0; WINDOW]);
        let (mut at, end) = (at + front.len() as u64, at + head.whole() as u64);
        while at < end {
            let n = (end - at).min(WINDOW as u64) as usize;
            self.part.file.read_exact_at(&mut window[..n], at)?;
            sum.update(&window[..n]);
            at += n as u64;
        }
        Ok(head.agrees(sum))
    }

    /// The next place at or after `at` with the first bytes of a record.
    fn magic(&mut self, mut at: u64) -> io::Result<Option<u64>> {
        let magic = self.part.owner.version.magic();
        loop {
            let inside = at.checked_sub(self.base).and_then(|n| self.window.get(n as usize..));
            let found = inside.and_then(|rest| rest.windows(magic.len()).position(|w| w == magic));
            if let Some(found) = found {
                return Ok(Some(at + found as u64));
            }
            // The last 3 bytes may be the first of one.
            let searched = (self.base + self.window.len() as u64).saturating_sub(3);
            if !self.window.is_empty() && (self.base..searched).contains(&at) {
                at = searched;
            }
            if at + magic.len() as u64 > self.part.end {
                return Ok(None);
            }
            self.base = at;
            self.window.resize(WINDOW.min((self.part.end - at) as usize), 0);
            self.part.file.read_exact_at(&mut self.window, at)?;
        }
    }
}
