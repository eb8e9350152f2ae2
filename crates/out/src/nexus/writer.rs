//! The open file: buffers events, writes blocks, flushes in the order that readers need.
//!
//! Events go to the file in whole chunks, each a [`Block`] in the order of its pulses; between flushes a reader sees none of it, because the datasets'
//! lengths stay in memory until they are flushed. Chunks may be compressed on the way, by [`Packers`]: they are in the
//! file before the flush that they belong to. Pulse rows wait in memory until the events that they point
//! to are flushed (`docs/formats/nexus.md` section 4). Refuses nothing: its events were checked before.

use std::io;
use std::path::{Path, PathBuf};

use hdf5_metno::{Dataset, File, Group, Result};

use super::block::{Block, Rows};
use super::clock::ClockValues;
use super::column::Column;
use super::error::{NexusError, hdf5_error};
use super::layout::{OWN_GROUP, date, events_path};
use super::options::{Compression, NexusOptions, Packing};
use super::packers::{Done, Packers};
use super::place::Place;
use super::sys::{self, Access};

/// Pulse rows that may wait for a flush: 1 Mi × 16 B.
const MAX_WAITING_ROWS: usize = 1 << 20;

/// What one file holds and what still waits for it.
#[derive(Debug)]
pub(super) struct Writer {
    path: PathBuf,
    // Declared in closing order: datasets before the file, the file before its place.
    events: [Column; 2],
    index: Column,
    zero: Column,
    cue_index: Column,
    cue_time: Column,
    total: Dataset,
    committed: Dataset,
    clock: Option<ClockValues>,
    own: Group,
    entry: Group,
    file: File,
    place: Place,

    packers: Option<Packers>,
    /// Events taken, those of the block excluded.
    taken: usize,
    /// Values of the chunk that is begun, if they were flushed and [`Packers`] make it: it comes again with more.
    begun: [Vec<i32>; 2],
    chunk: usize,
    cue_interval: u64,
    /// Not yet in the file.
    block: Block,
    /// Of the events that are in the file, but not yet flushed.
    waiting: Rows,
    last_cue: u64,
    committed_events: u64,
    committed_rows: u64,
}

impl Writer {
    /// Opens the finished structure at `place`, which will move to `path`, for SWMR writing.
    pub(super) fn open(
        options: &NexusOptions,
        path: &Path,
        place: Place,
    ) -> std::result::Result<Writer, NexusError> {
        let access = Access::Write { cache: chunk_cache_bytes(options) };
        let file = sys::open_for_readers(place.path(), access)
            .map_err(hdf5_error(path, "start SWMR writing"))?;
        sys::or_let_go(file, |file| Writer::with_file(file, path, place, options))
            .map_err(hdf5_error(path, "open the datasets"))
    }

    fn with_file(file: File, path: &Path, place: Place, options: &NexusOptions) -> Result<Writer> {
        let group = file.group(&events_path(&options.panel))?;
        let own = file.group(OWN_GROUP)?;
        Ok(Writer {
            path: path.to_owned(),
            events: [Column::open(&group, "event_id")?, Column::open(&group, "event_time_offset")?],
            index: Column::open(&group, "event_index")?,
            zero: Column::open(&group, "event_time_zero")?,
            cue_index: Column::open(&group, "cue_index")?,
            cue_time: Column::open(&group, "cue_timestamp_zero")?,
            total: group.dataset("total_counts")?,
            committed: own.dataset("committed")?,
            clock: {
                let open = |wall| ClockValues::open(&own, wall);
                options.wall.as_ref().map(open).transpose()?
            },
            own,
            entry: file.group("/entry")?,
            file,
            place,
            packers: packers(options)?,
            taken: 0,
            begun: [const { Vec::new() }; 2],
            chunk: options.chunk_events,
            cue_interval: options.cue_interval,
            block: Block::with_capacity(options.chunk_events),
            waiting: Rows::default(),
            last_cue: 0,
            committed_events: 0,
            committed_rows: 0,
        })
    }

    /// Moves the file to its path in one step; what is there is replaced if `replace`.
    ///
    /// # Errors
    /// The system's words; then nothing has changed.
    pub(super) fn publish(&mut self, replace: bool) -> io::Result<()> {
        match replace {
            true => self.place.move_to(&self.path),
            false => self.place.move_to_free(&self.path),
        }
    }

    /// The file is worth keeping from here on: dropping the writer no longer removes it.
    pub(super) fn keep(&mut self) {
        self.place.keep();
    }

    /// True once [`Writer::keep`] was called.
    pub(super) fn is_kept(&self) -> bool {
        self.place.is_kept()
    }

    /// Events taken so far.
    pub(super) fn events(&self) -> u64 {
        (self.taken + self.block.len()) as u64
    }

    /// Pulse rows so far; those of the last block come when it is written.
    pub(super) fn rows(&self) -> u64 {
        (self.index.len() + self.waiting.index.len()) as u64
    }

    /// Events up to the last completed flush: what a kill cannot take away.
    pub(super) fn committed_events(&self) -> u64 {
        self.committed_events
    }

    /// The events that follow belong to the pulse at `zero`, ns since 1970.
    #[inline]
    pub(super) fn open_pulse(&mut self, zero: u64) {
        self.block.open_pulse(zero);
    }

    /// True if too many rows wait: time to flush, whatever the clock says.
    pub(super) fn rows_full(&self) -> bool {
        self.waiting.index.len() + self.block.runs() >= MAX_WAITING_ROWS
    }

    /// Appends events of the open pulse; both slices are equally long and hold values below 2³¹.
    pub(super) fn append(
        &mut self,
        mut pixel: &[u32],
        mut offset_ns: &[u32],
    ) -> std::result::Result<(), NexusError> {
        while !pixel.is_empty() {
            // Blocks end where chunks end, so that a chunk is written once.
            let room = self.chunk - (self.taken + self.block.len()) % self.chunk;
            let n = room.min(pixel.len());
            self.block.append(&pixel[..n], &offset_ns[..n]);
            (pixel, offset_ns) = (&pixel[n..], &offset_ns[n..]);
            if n == room {
                self.write_block().map_err(hdf5_error(&self.path, "write events"))?;
            }
        }
        Ok(())
    }

    fn write_block(&mut self) -> Result<()> {
        self.block.settle(self.taken, &mut self.waiting);
        let (ids, offsets) = self.block.columns();
        let n = ids.len();
        match &mut self.packers {
            Some(packers) if n > 0 => {
                let first = self.taken - self.taken % self.chunk;
                let whole = self.taken + n == first + self.chunk;
                for (i, values) in [ids, offsets].into_iter().enumerate() {
                    let begun = &mut self.begun[i];
                    packers.put(i, first, begun, values)?;
                    match whole {
                        true => begun.clear(),
                        false => begun.extend_from_slice(values),
                    }
                    place_ready(packers, &mut self.events, false)?;
                }
            }
            Some(_) => {}
            None => {
                self.events[0].append(ids)?;
                self.events[1].append(offsets)?;
            }
        }
        self.taken += n;
        self.block.clear(0);
        Ok(())
    }

    /// Flushes everything taken so far, in the order that readers need.
    pub(super) fn commit(&mut self) -> std::result::Result<(), NexusError> {
        let nothing_new = self.block.is_empty()
            && self.events() == self.committed_events
            && self.rows() == self.committed_rows;
        if nothing_new {
            return Ok(());
        }
        let path = self.path.clone();
        self.commit_in_order().map_err(hdf5_error(&path, "flush events"))
    }

    fn commit_in_order(&mut self) -> Result<()> {
        self.write_block()?;
        if let Some(packers) = &mut self.packers {
            place_ready(packers, &mut self.events, true)?;
        }
        self.events.iter().try_for_each(Column::flush)?;
        self.index.append(&self.waiting.index)?;
        self.index.flush()?;
        self.zero.append(&self.waiting.zero)?;
        self.zero.flush()?;
        self.waiting.index.clear();
        self.waiting.zero.clear();
        let events = self.events();
        if let Some((zero, offset)) = self.waiting.last_event
            && events - self.last_cue >= self.cue_interval
        {
            self.cue_index.append(&[events as i64 - 1])?;
            self.cue_time.append(&[(zero as i64).saturating_add(offset.into())])?;
            self.cue_index.flush()?;
            self.cue_time.flush()?;
            self.last_cue = events;
        }
        self.total.write_scalar(&events)?;
        sys::flush(&self.total)?;
        if let Some(clock) = &mut self.clock {
            clock.write()?;
        }
        // The file's end address, or the space of chunks written since would be given away by recovery.
        self.file.flush()?;
        self.committed.write(&[events, self.rows()])?;
        sys::flush(&self.committed)?;
        self.committed_events = events;
        self.committed_rows = self.rows();
        Ok(())
    }

    /// Mantid takes an empty `event_time_zero` for an error and a single 0 in `event_index` for an empty
    /// bank: closing pulses without events cure both. At the time of the last row, or at `fallback`.
    pub(super) fn close_pulses(&mut self, fallback: u64) -> std::result::Result<(), NexusError> {
        self.write_block().map_err(hdf5_error(&self.path, "write events"))?;
        while self.rows() < 2 {
            let zero = self.waiting.last.unwrap_or(fallback);
            self.waiting.push(self.taken, zero);
        }
        Ok(())
    }

    /// Writes the closing entries, closes the file and counts the events in it.
    pub(super) fn close(
        mut self,
        end_ns: i64,
        rejected: u64,
        panel: &str,
    ) -> std::result::Result<u64, NexusError> {
        let path = self.path.clone();
        let completed = self.commit().and_then(|()| {
            self.write_end(end_ns, rejected).map_err(hdf5_error(&path, "complete the file"))
        });
        if let Err(error) = completed {
            self.let_go();
            return Err(error);
        }
        let written = self.events();
        self.close_in_order().map_err(hdf5_error(&path, "close the file"))?;
        let count = || -> Result<u64> {
            let file = sys::open(&path, Access::Read)?;
            let group = file.group(&events_path(panel))?;
            let found = group.dataset("event_id")?.size() as u64;
            Ok(found.min(group.dataset("event_time_offset")?.size() as u64))
        };
        let found = count().map_err(hdf5_error(&path, "read the closed file"))?;
        if found == written { Ok(found) } else { Err(NexusError::Count { path, found, written }) }
    }

    /// What only a complete file has. After the flush nothing is left to write that could fail when it is closed.
    fn write_end(&mut self, end_ns: i64, rejected: u64) -> Result<()> {
        let refused = self.own.dataset("events_rejected")?;
        refused.write_scalar(&rejected)?;
        sys::flush(&refused)?;
        let end = self.entry.dataset("end_time")?;
        end.write_scalar(&date(end_ns))?;
        sys::flush(&end)?;
        self.file.flush()
    }

    fn close_in_order(self) -> Result<()> {
        let Writer { events, index, zero, cue_index, cue_time, .. } = self;
        drop((events, [index, zero, cue_index, cue_time]));
        drop((self.total, self.committed, self.clock, self.own, self.entry));
        self.file.close()
        // Its place, and with it the lock, ends after the file.
    }

    /// Closes the file without another write to its disk, which has failed: it is as after a kill, and is recovered in
    /// the same way. Gives false if HDF5 cannot let go of it before the process ends.
    pub(super) fn let_go(self) -> bool {
        let Writer { events, index, zero, cue_index, cue_time, .. } = self;
        let columns = (events, [index, zero, cue_index, cue_time]);
        let rest = (self.total, self.committed, self.clock, self.own, self.entry, self.place);
        sys::let_go(self.file, (columns, rest))
    }
}

/// The threads that compress, if HDF5 does not.
fn packers(options: &NexusOptions) -> Result<Option<Packers>> {
    match (options.compression, options.packing) {
        (Compression::Gzip(level), Packing::Direct { threads }) => {
            Packers::start(threads, options.chunk_events, level).map(Some)
        }
        _ => Ok(None),
    }
}

/// Brings finished chunks to the file, in their order; with `all` every chunk that is on its way.
fn place_ready(packers: &mut Packers, columns: &mut [Column; 2], all: bool) -> Result<()> {
    while let Some(mut done) = packers.take(all)? {
        let Done { column, first, end, .. } = done;
        columns[column].place(first, end, done.packed())?;
        packers.give_back(done);
    }
    Ok(())
}

/// Cache of each dataset: a few pulse chunks, so that event chunks (4 MiB) are written past it; with
/// a filter of HDF5's a chunk must stay in the cache until it is full.
fn chunk_cache_bytes(options: &NexusOptions) -> usize {
    let pulses = 3 * options.chunk_pulses * size_of::<u64>();
    match (options.compression, options.packing) {
        (Compression::None, _) | (_, Packing::Direct { .. }) => pulses,
        (Compression::Gzip(_), Packing::Hdf5) => {
            pulses.max(3 * options.chunk_events * size_of::<i32>())
        }
    }
}
