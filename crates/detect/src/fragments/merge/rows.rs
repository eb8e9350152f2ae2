//! Rows: fragments of a source that follow each other and are alike are taken together, and events of such rows leave together.
//!
//! The outcome is the same as one by one. The unit takes 100 GB/s of 2 KiB fragments in rows and 40 one by one, without checksums
//! (`cargo bench -p fullcount-detect --bench fragments`); `detector.rows = false` switches it off. Refuses what the
//! merger refuses one by one: the caller then gives the first one alone. Source: `docs/fragments.md`, "Rows".

use fullcount_core::records::{EventRecords, RecordPart, RecordRow, flags};

use super::{ArrivedBatch, EventLeft, FragmentVerdict, Merger, NOBODY, Noted, WholeFragment, room};

/// Fragments of a source with rising numbers, of one piece each, alike, at equal distances in the memory of their arrival.
#[derive(Debug, Clone, Copy)]
pub struct WholeRow {
    /// The first.
    pub first: WholeFragment,
    /// How many, 1 or more.
    pub count: u32,
    /// Bytes from the beginning of one to that of the next.
    pub stride: u32,
}

/// Events that have left together: complete, with consecutive numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventsLeft {
    /// How many, 2 or more.
    pub count: u32,
    /// The first. The others are alike, and none was skipped between them.
    pub each: EventLeft,
}

impl Merger {
    /// True if the source may still give this number: it would not be repeated, nor late.
    #[inline]
    pub fn takes(&self, source: usize, sent: u32) -> bool {
        let number = self.unwrap(source, sent);
        let seen = self.sources[source].seen;
        number >= 0
            && seen.is_none_or(|(_, last)| number > last)
            && self.left.is_none_or(|left| number > left)
    }

    /// Takes a row. Its numbers stay below the end of the turn, so that each is one more than the one before.
    #[inline]
    pub fn push_row(
        &mut self,
        source: usize,
        row: &WholeRow,
        arrival: &ArrivedBatch,
    ) -> FragmentVerdict {
        let (number, gap) = match self.follow(source, row.first.number) {
            Ok(follows) => follows,
            Err(refused) => return refused,
        };
        let behind = row.count - 1;
        let of = &mut self.sources[source];
        if let Some((_, last)) = &mut of.seen {
            *last += i64::from(behind);
        }
        let stride = if behind == 0 { 0 } else { row.stride };
        of.add(Noted { count: row.count, stride, ..Noted::one(number, row.first) }, arrival);
        self.waiting += u64::from(behind);
        self.bytes += u64::from(row.count) * room(row.first.len.into(), &[]);
        FragmentVerdict::Taken { gap }
    }

    /// Events leave while every source has the next one in a row: as many as the shortest row has, and none begins after `most` bytes, where
    /// an event counts 64 B more than its fragments. `None`: the next event leaves alone.
    pub fn take_rows(
        &mut self,
        most: u64,
        mut records: Option<&mut EventRecords>,
    ) -> Option<EventsLeft> {
        let number = *self.heads.first()?;
        if self.empty > 0 || self.heads.iter().any(|&head| head != number) {
            return None;
        }
        let fronts = || self.sources.iter().map(|source| source.fragments.front());
        let mut count = u32::MAX;
        let (mut bytes, mut of_event) = (0, 0);
        for front in fronts() {
            let front = front.filter(|front| !front.further)?;
            count = count.min(front.count);
            bytes += u64::from(front.len);
            of_event |= front.flags;
        }
        count = count.min(u32::try_from(most.div_ceil(bytes + 64)).unwrap_or(u32::MAX));
        if count < 2 {
            return None;
        }
        let mut time_ns = 0;
        self.rows.clear();
        for (at, source) in self.sources.iter_mut().enumerate() {
            let front = source.fragments.front_mut()?;
            let arrived = source.arrivals.front_mut()?;
            self.decided = self.decided.min(arrived.of.arrived);
            if time_ns == 0 || (arrived.of.time_ns > 0 && arrived.of.time_ns < time_ns) {
                time_ns = arrived.of.time_ns;
            }
            if let Some(records) = &mut records {
                let memory = arrived.of.memory.as_ref()?;
                arrived.known = records.place(memory, arrived.known);
                let part = RecordPart { source: self.ids[at].into(), flags: front.flags };
                let (start, stride, len) = (front.start, front.stride, front.first);
                self.rows.push(RecordRow { part, memory: arrived.known, start, stride, len });
            }
        }
        let room_left: u64 = self.leave_rows(count);
        let parts = self.sources.len();
        self.waiting -= u64::from(count) * parts as u64;
        self.bytes -= room_left;
        let skipped = self.left.map_or(0, |left| (number - left - 1) as u64);
        if let Some(records) = records {
            records.rows(number as u64, count, time_ns, of_event, &self.rows);
        }
        self.left = Some(number + i64::from(count) - 1);
        let number = number as u64;
        debug_assert_eq!(of_event & (flags::MISSING | flags::GIVEN_UP), 0);
        let each =
            EventLeft { number, parts, flags: of_event, skipped, bytes, ..EventLeft::default() };
        Some(EventsLeft { count, each })
    }

    /// Takes the first `count` fragments, which are of one row, from each queue; the memory that they took, bytes.
    fn leave_rows(&mut self, count: u32) -> u64 {
        let mut left = 0;
        for (source, head) in self.sources.iter_mut().zip(&mut self.heads) {
            let Some(front) = source.fragments.front_mut() else { continue };
            left += u64::from(count) * room(front.len.into(), &[]);
            if front.count > count {
                front.number += i64::from(count);
                front.start += count * front.stride;
                front.count -= count;
                *head = front.number;
            } else {
                source.fragments.pop_front();
                *head = source.fragments.front().map_or(NOBODY, |next| next.number);
                self.empty += usize::from(*head == NOBODY);
            }
            source.count_down(count);
        }
        left
    }
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
