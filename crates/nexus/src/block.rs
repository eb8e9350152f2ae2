//! Events that are written to the file together, in the order of their pulses.
//!
//! Many modules send packets of the same pulses at the same time, so that neighbouring packets belong to different
//! pulses: a row for each packet would repeat a pulse hundreds of times (a panel of 400 modules: about 600) and run
//! backwards. A block collects up to one chunk of events and gives each pulse one row, rows ascending, events of a
//! pulse in order of arrival. Its events were checked before. Source: `docs/formats/nexus.md` section 1; what a reader
//! finds: `docs/files.md`.

use std::mem;

use super::cells::Cells;

/// Neighbouring events of one pulse, up to the next run's first event; may be empty.
#[derive(Debug, Clone, Copy)]
struct Run {
    zero: u64,
    first: usize,
}

/// Events and pulses since the last block was written.
#[derive(Debug, Default)]
pub struct Block {
    ids: Cells,
    offsets: Cells,
    runs: Vec<Run>,
    /// The pulse that was opened last, also if that was in an earlier block.
    open: Option<u64>,
    /// True once a run was earlier than the one before it.
    backwards: bool,
    /// Runs as (continues the file's last row, pulse, first event, end), for sorting.
    sorted: Vec<(bool, u64, usize, usize)>,
    /// Column to gather sorted events into, as large as the block; not allocated before it is needed.
    spare: Cells,
}

/// Pulse rows that wait for a flush of the events that they point to, and what came last.
#[derive(Debug, Default)]
pub struct PulseRows {
    /// `event_index` of each row.
    pub index: Vec<i64>,
    /// `event_time_zero` of each row.
    pub zero: Vec<u64>,
    /// Time of the last row of the file.
    pub last: Option<u64>,
    /// Pulse and offset of the last event of the file, ns.
    pub last_event: Option<(u64, i32)>,
}

impl PulseRows {
    /// A row at position `index`, even if its time is the last one's.
    pub fn push(&mut self, index: usize, zero: u64) {
        self.index.push(index as i64);
        self.zero.push(zero);
        self.last = Some(zero);
    }
}

impl Block {
    /// A block for `events` events.
    pub fn with_capacity(events: usize) -> Block {
        let column = || Cells::with_capacity(events);
        Block { ids: column(), offsets: column(), ..Block::default() }
    }

    /// Events in it.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Runs in it: at least as many as it will have rows.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// True without events and without pulses.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The events that follow belong to the pulse at `zero`.
    #[inline]
    pub fn open_pulse(&mut self, zero: u64) {
        if self.open != Some(zero) {
            self.open = Some(zero);
            self.begin(zero);
        }
    }

    fn begin(&mut self, zero: u64) {
        self.backwards |= self.runs.last().is_some_and(|before| zero < before.zero);
        self.runs.push(Run { zero, first: self.ids.len() });
    }

    /// Events of the open pulse; both slices are equally long and hold values below 2³¹.
    ///
    /// # Panics
    /// If no pulse was ever opened.
    #[inline]
    pub fn append(&mut self, pixel: &[u32], offset_ns: &[u32]) {
        if self.runs.is_empty() && !pixel.is_empty() {
            // The pulse continues after the previous block was written.
            self.begin(self.open.expect("events have a pulse"));
        }
        self.ids.extend(pixel.iter().map(|&p| p as i32));
        self.offsets.extend(offset_ns.iter().map(|&t| t as i32));
    }

    /// As [`Block::append`], from little-endian bytes; without pixels all events are of pixel 1.
    ///
    /// # Panics
    /// If no pulse was ever opened.
    #[inline]
    pub fn append_bytes(&mut self, pixel: Option<&[[u8; 4]]>, offset_ns: &[[u8; 4]]) {
        if self.runs.is_empty() && !offset_ns.is_empty() {
            self.begin(self.open.expect("events have a pulse"));
        }
        match pixel {
            Some(pixel) => self.ids.extend(pixel.iter().map(|&p| i32::from_le_bytes(p))),
            None => self.ids.extend(offset_ns.iter().map(|_| 1)),
        }
        self.offsets.extend(offset_ns.iter().map(|&t| i32::from_le_bytes(t)));
    }

    /// Puts the events in the order of their pulses and adds the rows to `rows`; the block's first event
    /// will be at position `base` of the file. The columns are ready to be written then.
    ///
    /// Events of the pulse of the file's last row come first and get no new row, even if other pulses are there: the
    /// row is extended.
    pub fn settle(&mut self, base: usize, rows: &mut PulseRows) {
        let goes_on = rows.last;
        let in_front = |zero| self.runs.first().is_none_or(|run| run.zero >= zero);
        let misplaced = |zero| !in_front(zero) && self.runs.iter().any(|run| run.zero == zero);
        if self.backwards || goes_on.is_some_and(misplaced) {
            self.sort(goes_on);
        }
        if let Some(last) = self.runs.iter().rfind(|run| run.first < self.ids.len())
            && let Some(&offset) = self.offsets.last()
        {
            rows.last_event = Some((last.zero, offset));
        }
        for run in self.runs.drain(..) {
            if rows.last != Some(run.zero) {
                rows.push(base + run.first, run.zero);
            }
        }
        self.backwards = false;
    }

    fn sort(&mut self, goes_on: Option<u64>) {
        let ends = self.runs.iter().skip(1).map(|run| run.first).chain([self.ids.len()]);
        self.sorted.clear();
        self.sorted.extend(
            self.runs
                .iter()
                .zip(ends)
                .map(|(r, end)| (Some(r.zero) != goes_on, r.zero, r.first, end)),
        );
        // By position where the pulse is the same: events of a pulse stay in order of arrival.
        self.sorted.sort_unstable();
        for column in [&mut self.ids, &mut self.offsets] {
            self.spare.begin(column.phase());
            self.spare.make_room(column.len());
            for &(_, _, first, end) in &self.sorted {
                self.spare.extend_from_slice(&column[first..end]);
            }
            mem::swap(column, &mut self.spare);
        }
        self.runs.clear();
        let mut at = 0;
        for &(_, zero, first, end) in &self.sorted {
            self.runs.push(Run { zero, first: at });
            at += end - first;
        }
    }

    /// `event_id` and `event_time_offset` of the settled block.
    pub fn columns(&self) -> [&[i32]; 2] {
        [&self.ids, &self.offsets]
    }

    /// The same, to be taken, if memory is left for the next events.
    pub fn columns_mut(&mut self) -> [&mut Cells; 2] {
        [&mut self.ids, &mut self.offsets]
    }

    /// Clears the events after they are written; the open pulse stays open. The next event will be `phase` events after
    /// a block boundary of the file: see [`Cells::begin`].
    pub fn clear(&mut self, phase: usize) {
        self.ids.begin(phase);
        self.offsets.begin(phase);
    }
}
