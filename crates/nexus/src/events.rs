//! One growing NXevent_data group, for the `nexus` output and for a stream of the file writer.
//!
//! Events go to the file in whole chunks, each a [`Block`] in the order of its pulses: by HDF5, on a thread that
//! bypasses the page cache, or compressed by [`Packers`] ([`EventWay`]). Between flushes a reader sees none of it,
//! because the datasets' lengths stay in memory until they are flushed. Pulse rows wait in memory until the events that
//! they point to are flushed. Its events were checked before. Source: `docs/formats/nexus.md` sections
//! 1 and 4.

use std::sync::Arc;

use fullcount_core::number::NumberType;
use hdf5_metno::{Dataset, Group, Result};

use super::block::{Block, PulseRows};
use super::cells::Cells;
use super::column::{FlushPhase, GrowingColumn, StoredColumn};
use super::disk::RowDisk;
use super::file::FileStream;
use super::options::{EventIdType, StartAttribute};
use super::packers::{PackedColumns, Packers};
use super::spec::ColumnSpec;
use super::sys;

/// Pulse rows that may wait for a flush: 1 Mi × 16 B.
const MAX_WAITING_ROWS: usize = 1 << 20;
/// Entries of a chunk of cues: one cue per 100 M events.
const CHUNK_CUES: usize = 1024;

/// Default number of pulses in a chunk: a nearly empty dataset costs 128 KiB.
pub const CHUNK_PULSES: usize = 16_384;

/// The columns, with `events` events and `pulses` pulses in a chunk.
pub fn specs(
    events: usize,
    pulses: usize,
    id: EventIdType,
    start: StartAttribute,
) -> [ColumnSpec; 6] {
    let id = match id {
        EventIdType::I32 => NumberType::I32,
        EventIdType::U32 => NumberType::U32,
    };
    let epoch = start.name();
    [
        ColumnSpec::new("event_id", id, events).large(),
        ColumnSpec::new("event_time_offset", NumberType::I32, events).large().with("units", "ns"),
        ColumnSpec::new("event_index", NumberType::I64, pulses),
        ColumnSpec::new("event_time_zero", NumberType::U64, pulses).times(epoch),
        ColumnSpec::new("cue_index", NumberType::I64, CHUNK_CUES),
        ColumnSpec::new("cue_timestamp_zero", NumberType::I64, CHUNK_CUES).times(epoch),
    ]
}

/// Makes what the group has beside its columns.
pub fn make_total(group: &Group) -> Result<()> {
    group.new_dataset::<u64>().create("total_counts")?.write_scalar(&0_u64)
}

/// How events get to the file.
#[derive(Debug, Clone)]
pub enum EventWay {
    /// HDF5 writes them, and compresses them if that is to be.
    Library,
    /// HDF5 says where large blocks belong.
    Disk(Arc<RowDisk>),
    /// Threads compress them.
    Packed(Arc<Packers>),
}

/// What writes the blocks of one group.
#[derive(Debug)]
enum Way {
    Library,
    Disk(Arc<RowDisk>),
    Packed(PackedColumns),
}

/// An open NXevent_data group.
#[derive(Debug)]
pub struct EventGroup {
    id: GrowingColumn<i32>,
    offset: GrowingColumn<i32>,
    index: GrowingColumn<i64>,
    zero: GrowingColumn<u64>,
    cue_index: GrowingColumn<i64>,
    cue_time: GrowingColumn<i64>,
    total: Dataset,
    way: Way,
    chunk: usize,
    cue_interval: u64,
    last_cue: u64,
    /// Events given, those that could not be written included.
    given: u64,
    /// Events of all blocks but the one that is begun.
    taken: usize,
    committed: u64,
    total_in_file: u64,
    /// Not yet in the file.
    block: Block,
    /// Of the events that are in the file, but not yet flushed.
    waiting: PulseRows,
}

impl EventGroup {
    /// Opens the columns of `group`, to append to them. Chunks have `chunk` events. Memory for `room` events is
    /// taken at once.
    pub fn open(
        group: &Group,
        chunk: usize,
        cue_interval: u64,
        way: EventWay,
        room: usize,
    ) -> Result<EventGroup> {
        let mut id = GrowingColumn::open(group, "event_id", FlushPhase::Bulk)?;
        let mut offset = GrowingColumn::open(group, "event_time_offset", FlushPhase::Bulk)?;
        let zero: GrowingColumn<u64> =
            GrowingColumn::open(group, "event_time_zero", FlushPhase::Time)?;
        let cue_index: GrowingColumn<i64> =
            GrowingColumn::open(group, "cue_index", FlushPhase::Cue)?;
        let events = id.rows();
        // A run may have very many groups without events.
        let mut block = if room == 0 { Block::default() } else { Block::with_capacity(room) };
        block.clear(events % chunk);
        let way = match way {
            EventWay::Disk(disk) => Way::Disk(disk),
            EventWay::Packed(packers) if id.is_packed() && offset.is_packed() => {
                Way::Packed(PackedColumns::open(packers, chunk, [&mut id, &mut offset])?)
            }
            EventWay::Library | EventWay::Packed(_) => Way::Library,
        };
        Ok(EventGroup {
            index: GrowingColumn::open(group, "event_index", FlushPhase::Index)?,
            cue_time: GrowingColumn::open(group, "cue_timestamp_zero", FlushPhase::Cue)?,
            total: group.dataset("total_counts")?,
            last_cue: cue_index.last()?.map_or(0, |at| at as u64 + 1),
            waiting: PulseRows { last: zero.last()?, ..PulseRows::default() },
            id,
            offset,
            zero,
            cue_index,
            way,
            chunk,
            cue_interval,
            given: events as u64,
            taken: events,
            committed: events as u64,
            total_in_file: events as u64,
            block,
        })
    }

    /// Events given so far.
    pub fn events(&self) -> u64 {
        self.given
    }

    /// Events up to the last completed flush, which a kill cannot lose.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    /// Pulse rows so far; those of the last block come when it is written.
    pub fn rows(&self) -> u64 {
        (self.index.rows() + self.waiting.index.len()) as u64
    }

    /// True if something is to be flushed.
    pub fn is_changed(&self) -> bool {
        !self.block.is_empty() || self.given != self.committed || !self.waiting.index.is_empty()
    }

    /// True if too many rows wait: flush now, before the next interval.
    pub fn is_urgent(&self) -> bool {
        self.waiting.index.len() + self.block.runs() >= MAX_WAITING_ROWS
    }

    /// `event_time_zero` and `event_index` as they are in the file, and the events there.
    pub fn pulses(&self) -> (&GrowingColumn<u64>, &GrowingColumn<i64>, usize) {
        (&self.zero, &self.index, self.id.written())
    }

    /// The events that follow belong to the pulse at `zero`, ns since 1970.
    #[inline]
    pub fn open_pulse(&mut self, zero: u64) {
        self.block.open_pulse(zero);
    }

    /// Appends events of the open pulse; both slices are equally long and hold values below 2³¹.
    ///
    /// # Errors
    /// The library's words, or those of the disk.
    #[inline]
    pub fn append(&mut self, pixel: &[u32], offset_ns: &[u32]) -> Result<()> {
        self.fill(pixel.len(), |block, begin, end| {
            block.append(&pixel[begin..end], &offset_ns[begin..end]);
        })
    }

    /// As [`EventGroup::append`], from little-endian bytes; without pixels all events are of pixel 1.
    pub fn append_bytes(&mut self, pixel: Option<&[[u8; 4]]>, offset_ns: &[[u8; 4]]) -> Result<()> {
        self.fill(offset_ns.len(), |block, begin, end| {
            block.append_bytes(pixel.map(|pixel| &pixel[begin..end]), &offset_ns[begin..end]);
        })
    }

    /// Adds `n` events to blocks, by way of `put`.
    #[inline]
    fn fill(&mut self, n: usize, put: impl Fn(&mut Block, usize, usize)) -> Result<()> {
        self.given += n as u64;
        let mut begin = 0;
        while begin < n {
            // Blocks end where chunks end, so that a chunk is written once.
            let room = self.chunk - (self.taken + self.block.len()) % self.chunk;
            let end = n.min(begin + room);
            put(&mut self.block, begin, end);
            if end - begin == room {
                self.write_block()?;
            }
            begin = end;
        }
        Ok(())
    }

    fn write_block(&mut self) -> Result<()> {
        self.block.settle(self.taken, &mut self.waiting);
        let n = self.block.len();
        if n == 0 {
            return Ok(());
        }
        let columns = [&mut self.id, &mut self.offset];
        match &mut self.way {
            Way::Library => {
                let values = self.block.columns();
                columns.into_iter().zip(values).try_for_each(|(c, values)| c.append(values))?;
            }
            Way::Disk(disk) => {
                let values: [&mut Cells; 2] = self.block.columns_mut();
                columns.into_iter().zip(values).try_for_each(|(c, values)| c.lay(values, disk))?;
            }
            Way::Packed(packed) => packed.put(columns, self.taken, self.block.columns())?,
        }
        self.taken += n;
        self.block.clear(self.taken % self.chunk);
        Ok(())
    }

    /// Mantid takes an empty `event_time_zero` for an error and a single 0 in `event_index` for an empty
    /// bank: closing pulses without events cure both. At the time of the last row, or at `fallback`.
    ///
    /// # Errors
    /// The library's words, or those of the disk.
    pub fn close_pulses(&mut self, fallback: u64) -> Result<()> {
        self.write_block()?;
        while self.rows() < 2 {
            let zero = self.waiting.last.unwrap_or(fallback);
            self.waiting.push(self.taken, zero);
        }
        Ok(())
    }
}

impl FileStream for EventGroup {
    fn hand_in(&mut self) -> Result<()> {
        self.write_block()
    }

    fn settle(&mut self) -> Result<()> {
        if let Way::Packed(packed) = &mut self.way {
            packed.settle([&mut self.id, &mut self.offset])?;
        }
        self.index.extend(self.waiting.index.drain(..))?;
        self.zero.extend(self.waiting.zero.drain(..))?;
        let events = self.taken as u64;
        if let Some((zero, offset)) = self.waiting.last_event
            && events - self.last_cue >= self.cue_interval
        {
            self.cue_index.push(events as i64 - 1)?;
            self.cue_time.push((zero as i64).saturating_add(offset.into()))?;
            self.last_cue = events;
        }
        Ok(())
    }

    fn columns(&mut self) -> Vec<&mut dyn StoredColumn> {
        vec![
            &mut self.id,
            &mut self.offset,
            &mut self.index,
            &mut self.zero,
            &mut self.cue_index,
            &mut self.cue_time,
        ]
    }

    fn totals(&mut self) -> Result<()> {
        let events = self.taken as u64;
        if events != self.total_in_file {
            self.total.write_scalar(&events)?;
            sys::flush(&self.total)?;
            self.total_in_file = events;
        }
        Ok(())
    }

    fn committed(&mut self) {
        self.committed = self.taken as u64;
    }
}
