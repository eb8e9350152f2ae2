//! ev44 and ev42: NXevent_data.
//!
//! The columns of a message go into a block in one copy, events of a pulse together, and from there in whole chunks to
//! the file; no event is looked at but for the largest and smallest pixel, unless a message has one that is not in
//! `detector_number`. Refuses (and counts) such events, offsets and pixels beyond int32, pulses before 1970.
//! Source: `docs/formats/nexus.md` sections 1, 4, 6 and 8.

use std::sync::Arc;

use hdf5_metno::{Dataset, Group, Result};

use super::super::behind::Behind;
use super::super::column::{Column, Phase, Stored};
use super::super::pixels::PixelSet;
use super::{Seen, Stopped, Unfit, Writer, overwrite};
use crate::flat::EventView;
use crate::nexus::block::{Block, Rows};
use crate::nexus::disk::Disk;

/// Pulse rows that may wait for a commit: 1 Mi × 16 B.
const MAX_WAITING_ROWS: usize = 1 << 20;

/// What became of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::write) struct EventCounts {
    /// In the file, or on their way.
    pub(in crate::write) taken: u64,
    /// In the file up to the last commit.
    pub(in crate::write) committed: u64,
    /// Not in `detector_number`.
    pub(in crate::write) outside_pixels: u64,
    /// Too long after their pulse.
    pub(in crate::write) offset_range: u64,
    /// Of pixels that `event_id` (int32) cannot hold.
    pub(in crate::write) pixel_range: u64,
    /// Of pulses before 1970.
    pub(in crate::write) before_1970: u64,
}

impl EventCounts {
    /// What is not in the file, of all reasons.
    pub(in crate::write) fn rejected(&self) -> u64 {
        self.outside_pixels + self.offset_range + self.pixel_range + self.before_1970
    }
}

#[derive(Debug)]
pub(super) struct Events {
    id: Column<i32>,
    offset: Column<i32>,
    index: Column<i64>,
    zero: Column<u64>,
    cue_index: Column<i64>,
    cue_time: Column<i64>,
    total: Dataset,
    pixels: Option<Arc<PixelSet>>,
    chunk: usize,
    cue_interval: u64,
    last_cue: u64,
    block: Block,
    waiting: Rows,
    written_total: u64,
    counts: EventCounts,
    /// Events of one message that are left when some were refused.
    kept: (Vec<[u8; 4]>, Vec<[u8; 4]>),
    /// Where large blocks go; else HDF5 writes them.
    disk: Option<Arc<Disk>>,
}

impl Events {
    pub(super) fn open(
        group: &Group,
        chunk: usize,
        cue_interval: u64,
        pixels: Option<Arc<PixelSet>>,
        disk: Option<Arc<Disk>>,
    ) -> Result<Events> {
        let id: Column<i32> = Column::open(group, "event_id", Phase::Bulk)?;
        let zero: Column<u64> = Column::open(group, "event_time_zero", Phase::Time)?;
        let cue_index: Column<i64> = Column::open(group, "cue_index", Phase::Cue)?;
        let waiting = Rows { last: zero.last()?, ..Rows::default() };
        let events = id.rows() as u64;
        let counts = EventCounts { taken: events, committed: events, ..EventCounts::default() };
        let mut block = Block::default();
        block.clear(id.rows() % chunk);
        Ok(Events {
            offset: Column::open(group, "event_time_offset", Phase::Bulk)?,
            index: Column::open(group, "event_index", Phase::Index)?,
            cue_time: Column::open(group, "cue_timestamp_zero", Phase::Cue)?,
            total: group.dataset("total_counts")?,
            last_cue: cue_index.last()?.map_or(0, |at| at as u64 + 1),
            id,
            zero,
            cue_index,
            pixels,
            chunk,
            cue_interval,
            block,
            waiting,
            written_total: events,
            counts,
            kept: Default::default(),
            disk,
        })
    }

    fn take(&mut self, view: &EventView<'_>) -> Result<()> {
        let pixels_fit = match (&self.pixels, view.pixel) {
            (Some(set), Some(pixel)) => set.holds_all(pixel),
            (Some(set), None) => view.events() == 0 || set.holds(1),
            (None, _) => true,
        };
        // What is signed fits by its type; a fold without early exit becomes vector code.
        let sign = |all: u8, t: &[u8; 4]| all | t[3];
        let columns = [view.time_of_flight, view.pixel.unwrap_or(&[])];
        let fits = |column: &[[u8; 4]]| column.iter().fold(0, sign) < 0x80;
        let clean = pixels_fit && (!view.unsigned || columns.into_iter().all(fits));
        let ends = view.pulses.iter().skip(1).map(|p| p.1).chain([view.events()]);
        for (&(time, first), end) in view.pulses.iter().zip(ends) {
            let Ok(zero) = u64::try_from(time) else {
                self.counts.before_1970 += (end - first) as u64;
                continue;
            };
            self.block.open_pulse(zero);
            let offsets = &view.time_of_flight[first..end];
            let pixel = view.pixel.map(|pixel| &pixel[first..end]);
            if clean {
                self.append(pixel, offsets)?;
            } else {
                self.append_some(pixel, offsets, view.unsigned)?;
            }
        }
        Ok(())
    }

    fn append_some(
        &mut self,
        pixel: Option<&[[u8; 4]]>,
        offsets: &[[u8; 4]],
        unsigned: bool,
    ) -> Result<()> {
        let (mut ids, mut times) = std::mem::take(&mut self.kept);
        for (i, &time) in offsets.iter().enumerate() {
            let id = pixel.map_or(1_i32.to_le_bytes(), |pixel| pixel[i]);
            if unsigned && id[3] >= 0x80 {
                // Written it would be a negative pixel, and could even be one of the detector's.
                self.counts.pixel_range += 1;
            } else if self.pixels.as_ref().is_some_and(|set| !set.holds(i32::from_le_bytes(id))) {
                self.counts.outside_pixels += 1;
            } else if unsigned && time[3] >= 0x80 {
                self.counts.offset_range += 1;
            } else {
                ids.push(id);
                times.push(time);
            }
        }
        let outcome = self.append(Some(&ids), &times);
        ids.clear();
        times.clear();
        self.kept = (ids, times);
        outcome
    }

    fn append(&mut self, mut pixel: Option<&[[u8; 4]]>, mut offsets: &[[u8; 4]]) -> Result<()> {
        self.counts.taken += offsets.len() as u64;
        while !offsets.is_empty() {
            // Blocks end where chunks end, so that a chunk is written once.
            let room = self.chunk - (self.id.rows() + self.block.len()) % self.chunk;
            let n = room.min(offsets.len());
            self.block.append_bytes(pixel.map(|pixel| &pixel[..n]), &offsets[..n]);
            (pixel, offsets) = (pixel.map(|pixel| &pixel[n..]), &offsets[n..]);
            if n == room {
                self.write_block()?;
            }
        }
        Ok(())
    }

    fn write_block(&mut self) -> Result<()> {
        self.block.settle(self.id.rows(), &mut self.waiting);
        let [ids, offsets] = self.block.columns_mut();
        self.id.write_cells(ids, self.disk.as_deref())?;
        self.offset.write_cells(offsets, self.disk.as_deref())?;
        self.block.clear(self.id.rows() % self.chunk);
        Ok(())
    }
}

impl Writer for Events {
    fn write(&mut self, message: &Seen<'_>) -> std::result::Result<(), Stopped> {
        let Seen::Events(view) = message else { return Err(Unfit::Shape.into()) };
        Ok(self.take(view)?)
    }

    fn settle(&mut self) -> Result<()> {
        self.write_block()?;
        self.index.extend(self.waiting.index.drain(..))?;
        self.zero.extend(self.waiting.zero.drain(..))?;
        let events = self.id.rows() as u64;
        if let Some((zero, offset)) = self.waiting.last_event
            && events - self.last_cue >= self.cue_interval
        {
            self.cue_index.push(events as i64 - 1)?;
            self.cue_time.push((zero as i64).saturating_add(offset.into()))?;
            self.last_cue = events;
        }
        Ok(())
    }

    fn columns(&mut self) -> Vec<&mut dyn Stored> {
        vec![
            &mut self.id,
            &mut self.offset,
            &mut self.index,
            &mut self.zero,
            &mut self.cue_index,
            &mut self.cue_time,
        ]
    }

    fn behind(&self, at: i64) -> Result<Behind> {
        Behind::of_events(&self.zero, &self.index, self.id.written(), at)
    }

    fn totals(&mut self) -> Result<()> {
        let events = self.id.rows() as u64;
        if events != self.written_total {
            overwrite(&self.total, &events)?;
            self.written_total = events;
        }
        Ok(())
    }

    fn committed(&mut self) {
        self.counts.committed = self.id.rows() as u64;
    }

    /// Mantid takes an empty `event_time_zero` for an error and a single 0 in `event_index` for an empty bank:
    /// closing pulses without events cure both.
    fn close(&mut self, start_ns: u64) -> Result<()> {
        self.write_block()?;
        while self.index.rows() + self.waiting.index.len() < 2 {
            let zero = self.waiting.last.unwrap_or(start_ns);
            self.waiting.push(self.id.rows(), zero);
        }
        Ok(())
    }

    fn urgent(&self) -> bool {
        self.waiting.index.len() + self.block.runs() >= MAX_WAITING_ROWS
    }

    fn events(&self) -> Option<EventCounts> {
        Some(self.counts)
    }
}
