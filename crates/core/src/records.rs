//! Records: events that are merged of fragments, with their bytes. What the kind `fragments` gives out.
//!
//! The columns are plain integers. The bytes stay where they were received: a part is a list of pieces of shared memory, so
//! nothing is copied between the socket and an output. A part that never came is listed too, with its flag and without bytes.
//! [`EventRecords::write`] is the one form in which records leave: a record of the file, and the value of a message.
//! Source: `docs/fragments.md`, "Records".

use std::sync::Arc;

/// Bytes in shared memory.
#[derive(Debug, Clone)]
pub struct RecordPiece {
    /// Where they are.
    pub memory: Arc<[u8]>,
    /// First byte.
    pub start: u32,
    /// Number of bytes.
    pub len: u32,
}

impl RecordPiece {
    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start as usize..self.start as usize + self.len as usize]
    }
}

/// Bytes in one of the memories of an [`EventRecords`].
#[derive(Debug, Clone, Copy)]
struct RecordSpan {
    /// Place among the memories.
    memory: u32,
    start: u32,
    len: u32,
}

/// Parts of one source in events that follow each other: alike, and at equal distances in one memory.
#[derive(Debug, Clone, Copy)]
pub struct RecordRow {
    /// What is known of each.
    pub part: RecordPart,
    /// Place of the memory, from [`EventRecords::place`].
    pub memory: u32,
    /// First byte of the first.
    pub start: u32,
    /// Bytes from the beginning of one to that of the next.
    pub stride: u32,
    /// Number of bytes of each.
    pub len: u32,
}

impl PartialEq for RecordPiece {
    fn eq(&self, other: &RecordPiece) -> bool {
        self.bytes() == other.bytes()
    }
}

/// What is known of a part beside its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecordPart {
    /// Source.
    pub source: u32,
    /// [`flags`].
    pub flags: u16,
}

/// Bits of the columns [`EventRecords::flags`] and [`EventRecords::part_flags`].
pub mod flags {
    /// Event: a part is missing. Part: it is missing.
    pub const MISSING: u16 = 1;
    /// The checksum is wrong (of one of the parts).
    pub const CHECKSUM: u16 = 2;
    /// Header, trailer or blocks contradict each other (of one of the parts).
    pub const BROKEN: u16 = 4;
    /// The checksum was not looked at (of one of the parts).
    pub const UNCHECKED: u16 = 8;
    /// Event: it left before all had a chance to come, as the time or the memory was over.
    pub const GIVEN_UP: u16 = 16;
}

/// Merged events in columns.
///
/// Each memory is noted once, however many pieces lie in it: a reference for each piece would be counted up and down by
/// several threads.
#[derive(Debug, Clone, Default)]
pub struct EventRecords {
    /// Number of each event, unwrapped: it never goes back in a run.
    pub number: Vec<u64>,
    /// When the first of its parts came, ns since 1970; 0 if unknown.
    pub time_ns: Vec<i64>,
    /// [`flags`] of each event.
    pub flags: Vec<u16>,
    /// Position of each event's first part in the columns below.
    pub first_part: Vec<u32>,
    /// Source of each part.
    pub source: Vec<u32>,
    /// [`flags`] of each part.
    pub part_flags: Vec<u16>,
    /// Position of each part's first piece.
    pub first_piece: Vec<u32>,
    /// Where the bytes of all parts are.
    spans: Vec<RecordSpan>,
    memories: Vec<Arc<[u8]>>,
    bytes: usize,
}

impl PartialEq for EventRecords {
    fn eq(&self, other: &EventRecords) -> bool {
        (&self.number, &self.time_ns, &self.flags) == (&other.number, &other.time_ns, &other.flags)
            && (&self.first_part, &self.source) == (&other.first_part, &other.source)
            && (&self.part_flags, &self.first_piece) == (&other.part_flags, &other.first_piece)
            && self.each_span().eq(other.each_span())
    }
}

/// First bytes of a record.
pub const MAGIC: [u8; 4] = *b"FCEV";
/// Version of the layout.
pub const VERSION: u16 = 1;
/// Bytes in front of the parts' table.
pub const HEAD: usize = 40;
/// Bytes of an entry of this table.
pub const ENTRY: usize = 16;

/// Adds these, `count` times one after the other.
fn repeat<T: Copy>(column: &mut Vec<T>, once: impl ExactSizeIterator<Item = T>, count: u32) {
    let (before, all) = (column.len(), once.len() * count as usize);
    column.reserve(all);
    column.extend(once.take(all));
    while column.len() < before + all {
        let there = column.len() - before;
        column.extend_from_within(before..before + there.min(all - there));
    }
}

impl EventRecords {
    /// Number of events.
    #[inline]
    pub fn len(&self) -> usize {
        self.number.len()
    }

    /// True without events.
    pub fn is_empty(&self) -> bool {
        self.number.is_empty()
    }

    /// Bytes of all parts.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Forgets all, keeps the memory of the columns.
    pub fn clear(&mut self) {
        self.number.clear();
        self.time_ns.clear();
        self.flags.clear();
        self.first_part.clear();
        self.source.clear();
        self.part_flags.clear();
        self.first_piece.clear();
        self.spans.clear();
        self.memories.clear();
        self.bytes = 0;
    }

    /// Begins an event; its parts follow.
    #[inline]
    pub fn begin(&mut self, number: u64) {
        self.number.push(number);
        self.time_ns.push(0);
        self.flags.push(0);
        self.first_part.push(self.source.len() as u32);
    }

    /// Adds a part to the newest event; its pieces follow.
    #[inline]
    pub fn part(&mut self, part: RecordPart) {
        self.source.push(part.source);
        self.part_flags.push(part.flags);
        self.first_piece.push(self.spans.len() as u32);
    }

    /// Adds bytes to the newest part.
    pub fn piece(&mut self, piece: &RecordPiece) {
        let newest = (self.memories.len() as u32).wrapping_sub(1);
        self.piece_in(&piece.memory, newest, piece.start, piece.len);
    }

    /// The same: `len` bytes from `start` on in `memory`. `known`: the place that was returned for this memory before; any
    /// other number costs a reference.
    #[inline]
    pub fn piece_in(&mut self, memory: &Arc<[u8]>, known: u32, start: u32, len: u32) -> u32 {
        let at = self.place(memory, known);
        self.bytes += len as usize;
        self.spans.push(RecordSpan { memory: at, start, len });
        at
    }

    /// The place of `memory`, `known` if it is that one.
    #[inline]
    pub fn place(&mut self, memory: &Arc<[u8]>, known: u32) -> u32 {
        match self.memories.get(known as usize) {
            Some(at) if Arc::ptr_eq(at, memory) => known,
            _ => {
                self.memories.push(memory.clone());
                self.memories.len() as u32 - 1
            }
        }
    }

    /// Adds `count` events, numbered from `number` on, with the same time and flags. Each has a part of every row, of one piece.
    pub fn rows(&mut self, number: u64, count: u32, time_ns: i64, flags: u16, rows: &[RecordRow]) {
        let (parts, width) = (self.source.len() as u32, rows.len() as u32);
        let all = count as usize * rows.len();
        self.number.extend((0..u64::from(count)).map(|n| number + n));
        self.time_ns.extend(std::iter::repeat_n(time_ns, count as usize));
        self.flags.extend(std::iter::repeat_n(flags, count as usize));
        self.first_part.extend((0..count).map(|n| parts + n * width));
        let pieces = self.spans.len() as u32;
        self.first_piece.extend((0..all as u32).map(|n| pieces + n));
        repeat(&mut self.source, rows.iter().map(|row| row.part.source), count);
        repeat(&mut self.part_flags, rows.iter().map(|row| row.part.flags), count);
        self.spans.reserve(all);
        for n in 0..count {
            let span = |row: &RecordRow| RecordSpan {
                memory: row.memory,
                start: row.start + n * row.stride,
                len: row.len,
            };
            self.spans.extend(rows.iter().map(span));
        }
        let of_event: usize = rows.iter().map(|row| row.len as usize).sum();
        self.bytes += count as usize * of_event;
    }

    /// Time and flags of the newest event: all its parts are there.
    #[inline]
    pub fn end(&mut self, time_ns: i64, flags: u16) {
        let newest = self.time_ns.last_mut().zip(self.flags.last_mut());
        if let Some((time, of)) = newest {
            (*time, *of) = (time_ns, flags);
        }
    }

    /// Takes the events of `other`, which is empty then.
    pub fn append(&mut self, other: &mut EventRecords) {
        let (parts, pieces) = (self.source.len() as u32, self.spans.len() as u32);
        let memories = self.memories.len() as u32;
        self.number.append(&mut other.number);
        self.time_ns.append(&mut other.time_ns);
        self.flags.append(&mut other.flags);
        self.first_part.extend(other.first_part.drain(..).map(|first| parts + first));
        self.source.append(&mut other.source);
        self.part_flags.append(&mut other.part_flags);
        self.first_piece.extend(other.first_piece.drain(..).map(|first| pieces + first));
        let moved = |span: RecordSpan| RecordSpan { memory: memories + span.memory, ..span };
        self.spans.extend(other.spans.drain(..).map(moved));
        self.memories.append(&mut other.memories);
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Parts of an event, as positions.
    pub fn parts(&self, event: usize) -> std::ops::Range<usize> {
        let end = self.first_part.get(event + 1).map_or(self.source.len(), |&end| end as usize);
        self.first_part[event] as usize..end
    }

    /// Pieces of all parts.
    pub fn piece_count(&self) -> usize {
        self.spans.len()
    }

    fn spans(&self, part: usize) -> &[RecordSpan] {
        let end = self.first_piece.get(part + 1).map_or(self.spans.len(), |&end| end as usize);
        &self.spans[self.first_piece[part] as usize..end]
    }

    fn each_span(&self) -> impl Iterator<Item = &[u8]> {
        self.spans.iter().map(|span| self.span(span))
    }

    fn span(&self, span: &RecordSpan) -> &[u8] {
        &self.memories[span.memory as usize][span.start as usize..][..span.len as usize]
    }

    /// Bytes of a part, piece by piece.
    pub fn pieces(&self, part: usize) -> impl ExactSizeIterator<Item = &[u8]> {
        self.spans(part).iter().map(|span| self.span(span))
    }

    fn part_bytes(&self, part: usize) -> usize {
        self.spans(part).iter().map(|span| span.len as usize).sum()
    }

    /// Bytes of an event as [`EventRecords::write`] writes it.
    pub fn size(&self, event: usize) -> usize {
        let parts = self.parts(event);
        let padded = |part| self.part_bytes(part).next_multiple_of(8);
        HEAD + ENTRY * parts.len() + parts.map(padded).sum::<usize>()
    }

    /// Head and table of an event: everything but the bytes of its parts.
    pub fn head(&self, event: usize, into: &mut Vec<u8>) {
        let (parts, begin) = (self.parts(event), into.len());
        into.extend(MAGIC);
        into.extend(VERSION.to_le_bytes());
        into.extend(self.flags[event].to_le_bytes());
        into.extend(self.number[event].to_le_bytes());
        into.extend(self.time_ns[event].to_le_bytes());
        into.extend((self.size(event) as u64).to_le_bytes());
        into.extend((parts.len() as u32).to_le_bytes());
        into.extend([0; 4]);
        for part in parts {
            into.extend(self.source[part].to_le_bytes());
            into.extend(self.part_flags[part].to_le_bytes());
            into.extend([0; 2]);
            into.extend((self.part_bytes(part) as u64).to_le_bytes());
        }
        debug_assert_eq!((into.len() - begin - HEAD) % ENTRY, 0);
    }

    /// A whole event: head, table, and the bytes of each part, filled up with zeros to a multiple of 8.
    pub fn write(&self, event: usize, into: &mut Vec<u8>) {
        self.head(event, into);
        for part in self.parts(event) {
            self.pieces(part).for_each(|piece| into.extend_from_slice(piece));
            let len = self.part_bytes(part);
            into.resize(into.len() + len.next_multiple_of(8) - len, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(bytes: &[u8]) -> RecordPiece {
        RecordPiece { memory: bytes.into(), start: 0, len: bytes.len() as u32 }
    }

    #[test]
    fn an_event_is_written_as_the_document_says() {
        let mut records = EventRecords::default();
        records.begin(0x0102);
        records.part(RecordPart { source: 3, flags: 0 });
        records.piece(&piece(b"abc"));
        records.piece(&piece(b"defgh"));
        records.part(RecordPart { source: 4, flags: flags::MISSING });
        records.end(7, flags::MISSING);
        records.begin(9);
        records.part(RecordPart { source: 3, flags: 0 });
        records.piece(&piece(b"x"));
        let mut bytes = Vec::new();
        records.write(0, &mut bytes);
        assert_eq!((bytes.len(), records.size(0), records.bytes()), (80, 80, 9));
        assert_eq!(&bytes[..8], b"FCEV\x01\0\x01\0");
        assert_eq!(bytes[8..16], 0x0102u64.to_le_bytes());
        assert_eq!(bytes[16..24], 7i64.to_le_bytes());
        assert_eq!(bytes[24..32], 80u64.to_le_bytes());
        assert_eq!(bytes[32..40], [2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[40..56], [3, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[56..72], [4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(&bytes[72..], b"abcdefgh");
        bytes.clear();
        records.write(1, &mut bytes);
        assert_eq!((bytes.len(), &bytes[56..]), (64, &b"x\0\0\0\0\0\0\0"[..]));
        let mut twice = EventRecords::default();
        twice.append(&mut records.clone());
        twice.append(&mut records.clone());
        let mut again = Vec::new();
        twice.write(3, &mut again);
        assert_eq!((again, twice.len(), twice.bytes()), (bytes, 4, 18));
        records.clear();
        assert_eq!(records, EventRecords::default());
    }

    #[test]
    fn a_memory_is_noted_once_and_let_go_with_the_records() {
        let (memory, other) = (Arc::from(*b"abcdefgh"), Arc::from(*b"xy"));
        let mut records = EventRecords::default();
        let mut known = u32::MAX;
        for event in 0..3u32 {
            records.begin(event.into());
            records.part(RecordPart::default());
            known = records.piece_in(&memory, known, 2 * event, 2);
            records.part(RecordPart::default());
            assert_eq!(records.piece_in(&other, known, 0, 1), 1 + event);
        }
        assert_eq!((Arc::strong_count(&memory), Arc::strong_count(&other)), (2, 4));
        assert_eq!(records.pieces(4).collect::<Vec<_>>(), [b"ef"]);
        let mut all = EventRecords::default();
        all.append(&mut records.clone());
        all.append(&mut records);
        assert_eq!(all.pieces(10).chain(all.pieces(11)).collect::<Vec<_>>(), [&b"ef"[..], b"x"]);
        // What was known of other records is not believed.
        assert_eq!(records.piece_in(&memory, known, 0, 8), 0);
        all.clear();
        assert_eq!((Arc::strong_count(&memory), Arc::strong_count(&other)), (2, 1));
    }
}
