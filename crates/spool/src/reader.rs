//! Messages in the order of their numbers, from the oldest that is not confirmed to the last one appended.

use std::fs::File;
use std::io;
use std::sync::Arc;

use super::queue::{Segment, Shared};
use super::record::{self, Head, Stored};
use super::running::Running;
use super::scan::Part;
use super::segment::Owner;

/// Position of a reader.
#[derive(Debug)]
struct Cursor {
    owner: Owner,
    file: Arc<File>,
    at: u64,
}

/// Reads a spool; see [`Spool::reader`](super::Spool::reader).
#[derive(Debug)]
pub struct SpoolReader {
    shared: Arc<Shared>,
    cursor: Option<Cursor>,
    /// Number of the message to come.
    next: u64,
    running: Running,
    buffer: Vec<u8>,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next<'a> {
    /// A message that is not confirmed.
    Message(Stored<'a>),
    /// The messages with these numbers are damaged or missing.
    Damaged {
        /// First of them.
        from: u64,
        /// Behind the last of them.
        to: u64,
        /// Events in them, if that is known.
        events: Option<u64>,
    },
    /// All has been read.
    Nothing,
}

/// Where to read.
struct Here {
    /// Bytes of the segment, and the number after its last record.
    bytes: u64,
    end: u64,
    /// For the one that is written to: events in all messages up to there.
    last: Option<u64>,
}

impl SpoolReader {
    pub(super) fn new(shared: Arc<Shared>) -> SpoolReader {
        let next = shared.state().settled.below;
        SpoolReader { shared, cursor: None, next, running: Running::default(), buffer: Vec::new() }
    }

    /// Back to the oldest message that is not confirmed.
    pub fn rewind(&mut self) {
        *self = SpoolReader::new(self.shared.clone());
    }

    /// Number of the message to come.
    pub fn expected(&self) -> u64 {
        self.next
    }

    /// The next message that is not confirmed. Never waits.
    ///
    /// # Errors
    /// The disk said no.
    // Not an iterator: its items borrow from it.
    #[expect(clippy::should_implement_trait, reason = "what it gives borrows from the reader")]
    pub fn next(&mut self) -> io::Result<Next<'_>> {
        loop {
            let here = match self.find() {
                Ok(here) => here,
                Err(damaged) => return Ok(damaged),
            };
            let Some(cursor) = &self.cursor else { return Ok(Next::Nothing) };
            let (file, owner, at) = (cursor.file.clone(), cursor.owner, cursor.at);
            let key = self.shared.key;
            let part = Part { file: &file, owner, key: &key, end: here.bytes };
            let found = part.next(at, owner.first, &mut self.buffer)?;
            let Ok((place, head, size)) = found.map(|(at, head, s)| (at, head, s.bytes as u64))
            else {
                let damaged = match here.last {
                    // What was appended and is not there any more.
                    Some(events) if self.next < here.end => {
                        self.stand_at(here.bytes);
                        self.tell(here.end, Some(events))
                    }
                    Some(_) => return Ok(Next::Nothing),
                    None => self.follow(owner),
                };
                match damaged {
                    Some(damaged) => return Ok(damaged),
                    None => continue,
                }
            };
            let sequence = head.sequence;
            if sequence > self.next {
                // The same place again, after the gap was reported.
                self.stand_at(place);
                let before = head.origin.map(|(_, before)| before);
                if let Some(damaged) = self.tell(sequence, before) {
                    return Ok(damaged);
                }
            }
            self.stand_at(place + size);
            self.running.stand(sequence.saturating_add(1), head.upto());
            if sequence < self.next {
                continue;
            }
            self.next = sequence.saturating_add(1);
            if self.shared.state().settled.contains(sequence) {
                continue;
            }
            return Ok(self.stored(head, owner).map_or(Next::Nothing, Next::Message));
        }
    }

    fn stored(&self, head: Head, owner: Owner) -> Option<Stored<'_>> {
        record::fields(&self.buffer, head, self.shared.key.spool, owner.start)
    }

    fn stand_at(&mut self, at: u64) {
        if let Some(cursor) = &mut self.cursor {
            cursor.at = at;
        }
    }

    /// The segment of the reader's position, or the one that holds the next message.
    fn find(&mut self) -> Result<Here, Next<'static>> {
        let state = self.shared.state();
        let (count, events) = (state.segments.len(), state.next.events);
        let here = |segment: &Segment, last: bool| {
            let (bytes, end, last) = (segment.bytes, segment.end, last.then_some(events));
            Here { bytes, end, last }
        };
        // Segments that the reader has passed are removed meanwhile: it finds its own by number.
        let own = self.cursor.as_ref().map(|c| (c.owner.first, c.owner.start));
        let found = own.and_then(|own| {
            state.segments.iter().position(|s| (s.owner.first, s.owner.start) == own)
        });
        if let Some(index) = found {
            return Ok(here(&state.segments[index], index + 1 == count));
        }
        let behind = state.segments.iter().take_while(|s| s.end <= self.next).count();
        let index = behind.min(count - 1);
        let segment = state.segments[index].clone();
        let below = state.settled.below;
        let here = here(&segment, index + 1 == count);
        drop(state);
        if self.next < below {
            self.next = below;
        }
        // A segment in front of this one is missing, whether this one holds records or not.
        match self.enter(&segment) {
            Some(damaged) => Err(damaged),
            None => Ok(here),
        }
    }

    /// Moves from a segment that is read to its end to the next one.
    fn follow(&mut self, owner: Owner) -> Option<Next<'static>> {
        let state = self.shared.state();
        let own = (owner.first, owner.start);
        let mut all = state.segments.iter();
        let at = all.position(|s| (s.owner.first, s.owner.start) == own);
        // Removed meanwhile: looked up again.
        let next = at.and_then(|at| state.segments.get(at + 1)).cloned();
        drop(state);
        match next {
            Some(next) => self.enter(&next),
            None => {
                self.cursor = None;
                None
            }
        }
    }

    /// Begins to read a segment; returns what is missing before it.
    fn enter(&mut self, segment: &Segment) -> Option<Next<'static>> {
        let owner = segment.owner;
        let at = owner.begin();
        self.cursor = Some(Cursor { owner, file: segment.file.clone(), at });
        let told = match self.next < owner.first {
            true => self.tell(owner.first, owner.before),
            false => None,
        };
        self.running.enter(self.next, &owner);
        told
    }

    /// The next existing message is `to`, with this many events before it: reports the first missing ones before it
    /// that are not confirmed. The next call reports the others.
    fn tell(&mut self, to: u64, before: Option<u64>) -> Option<Next<'static>> {
        let events = self.running.between(self.next, before);
        let open = self.shared.state().settled.open_part(self.next, to);
        let whole = open == Some((self.next, to));
        self.next = open.map_or(to, |(_, end)| end);
        self.running.stand(to, before);
        let (from, to) = open?;
        Some(Next::Damaged { from, to, events: events.filter(|_| whole) })
    }
}
