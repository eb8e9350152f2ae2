//! Messages in the order of their numbers, from the oldest that is not confirmed to the last one appended.

use std::fs::File;
use std::io;
use std::sync::Arc;

use super::queue::Shared;
use super::record::Stored;
use super::segment::{self, Owner, START};

/// Where a reader stands.
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
    buffer: Vec<u8>,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next<'a> {
    /// A message that is not confirmed.
    Message(Stored<'a>),
    /// The messages with these numbers are damaged and lost.
    Damaged {
        /// First of them.
        from: u64,
        /// Behind the last of them.
        to: u64,
    },
    /// All has been read.
    Nothing,
}

impl SpoolReader {
    pub(super) fn new(shared: Arc<Shared>) -> SpoolReader {
        let next = shared.state().settled.below;
        SpoolReader { shared, cursor: None, next, buffer: Vec::new() }
    }

    /// Back to the oldest message that is not confirmed.
    pub fn rewind(&mut self) {
        self.next = self.shared.state().settled.below;
        self.cursor = None;
    }

    /// Number of the message to come.
    pub fn expected(&self) -> u64 {
        self.next
    }

    /// The next message that is not confirmed. Never waits.
    ///
    /// # Errors
    /// The disk said no.
    // Not an iterator: what it gives borrows from it.
    #[expect(clippy::should_implement_trait, reason = "what it gives borrows from the reader")]
    pub fn next(&mut self) -> io::Result<Next<'_>> {
        loop {
            let (bytes, last) = {
                let state = self.shared.state();
                // Segments behind the reader go while it reads: it looks its own up by number.
                let here = self.cursor.as_ref().map(|c| c.owner.first);
                let found =
                    here.and_then(|f| state.segments.iter().position(|s| s.owner.first == f));
                let index = match found {
                    Some(index) => index,
                    None => {
                        let behind = state.segments.iter().take_while(|s| s.end <= self.next);
                        let index = behind.count().min(state.segments.len() - 1);
                        let segment = &state.segments[index];
                        let (owner, file) = (segment.owner, segment.file.clone());
                        self.cursor = Some(Cursor { owner, file, at: START });
                        self.next = self.next.max(state.settled.below);
                        let (from, first) = (self.next, owner.first);
                        if from < first {
                            // A segment in front of this one is missing, whether this one holds records or not.
                            self.next = first;
                            return Ok(Next::Damaged { from, to: first });
                        }
                        index
                    }
                };
                (state.segments[index].bytes, index + 1 == state.segments.len())
            };
            let cursor = self.cursor.as_mut().expect("just set");
            let (file, owner, at) = (cursor.file.clone(), cursor.owner, cursor.at);
            let found = segment::next(&file, at, bytes, owner, owner.first, &mut self.buffer)?;
            let Some((place, size, sequence)) =
                found.map(|(place, s)| (place, s.bytes as u64, s.identity.sequence))
            else {
                if last {
                    return Ok(Next::Nothing);
                }
                let state = self.shared.state();
                let after = state.segments.iter().find(|s| s.owner.first > owner.first);
                let after = after.expect("a segment behind this one is never gone before it");
                let from = self.next;
                self.cursor =
                    Some(Cursor { owner: after.owner, file: after.file.clone(), at: START });
                let first = after.owner.first;
                drop(state);
                if from < first {
                    self.next = first;
                    return Ok(Next::Damaged { from, to: first });
                }
                continue;
            };
            if sequence > self.next {
                let from = self.next;
                // The same place again, once the gap has been told.
                cursor.at = place;
                self.next = sequence;
                return Ok(Next::Damaged { from, to: sequence });
            }
            cursor.at = place + size;
            if sequence < self.next {
                continue;
            }
            self.next = sequence + 1;
            if self.shared.state().settled.contains(sequence) {
                continue;
            }
            let start = self.buffer.len() - size as usize;
            // A record that was found behind damage does not begin the buffer.
            let start = if place == at { 0 } else { start.min((place - at) as usize) };
            let bytes = &self.buffer[start..];
            let head = super::record::Head::read(bytes);
            let stored =
                head.and_then(|h| super::record::fields(bytes, h, owner.spool, owner.start));
            return Ok(stored.map_or(Next::Nothing, Next::Message));
        }
    }
}
