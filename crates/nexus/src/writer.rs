//! The file of the `nexus` output: one group of events, and the parts of this output alone.
//!
//! [`super::events`] writes events, [`super::file`] flushes and closes the file. Here are the pair of numbers that says
//! which rows belong together (`/entry/fullcount/committed`), the clocks, and the end of the run. Events were checked
//! before.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fullcount_io::building::Building;
use hdf5_metno::{Dataset, File, Group, Result};

use super::clock::ClockValues;
use super::disk::RowDisk;
use super::error::{NexusError, hdf5_error, io_error};
use super::events::{EventGroup, EventWay};
use super::file::{FileContents, FileStream, OpenFile, lays_rows};
use super::layout::{OWN_GROUP, date, events_path};
use super::options::{NexusOptions, Packing};
use super::packers::Packers;
use super::sys::{self, FileMode};
use fullcount_io::compression::Compression;

/// What is open of the file.
#[derive(Debug)]
struct Parts {
    // Declared in closing order: datasets before their groups.
    events: EventGroup,
    committed: Dataset,
    clock: Option<ClockValues>,
    own: Group,
    entry: Group,
}

impl FileContents for Parts {
    fn streams(&mut self) -> Vec<&mut dyn FileStream> {
        vec![&mut self.events]
    }

    fn values(&mut self) -> Result<()> {
        self.clock.as_mut().map_or(Ok(()), ClockValues::write)
    }

    fn seal(&mut self) -> Result<()> {
        self.committed.write(&[self.events.events(), self.events.rows()])?;
        sys::flush(&self.committed)
    }
}

impl Parts {
    fn open(file: &File, options: &NexusOptions, way: EventWay) -> Result<Parts> {
        let group = file.group(&events_path(&options.panel))?;
        let own = file.group(OWN_GROUP)?;
        let (chunk, interval) = (options.chunk_events, options.cue_interval);
        Ok(Parts {
            events: EventGroup::open(&group, chunk, interval, way, chunk)?,
            committed: own.dataset("committed")?,
            clock: {
                let open = |wall| ClockValues::open(&own, wall);
                options.wall.as_ref().map(open).transpose()?
            },
            own,
            entry: file.group("/entry")?,
        })
    }
}

/// What one file holds and what still waits for it.
#[derive(Debug)]
pub(super) struct Writer {
    path: PathBuf,
    file: OpenFile<Parts>,
}

impl Writer {
    /// Opens the finished structure at `place`, which will move to `path`, for SWMR writing.
    pub(super) fn open(
        options: &NexusOptions,
        path: &Path,
        place: Building,
    ) -> std::result::Result<Writer, NexusError> {
        let way = way(options, place.path()).map_err(io_error(path, "start writing the file"))?;
        let disk = match &way {
            EventWay::Disk(disk) => Some(disk.clone()),
            _ => None,
        };
        let cache = chunk_cache_bytes(options);
        let with = |file: &File| Parts::open(file, options, way);
        let refused = |doing, e| hdf5_error(path, doing)(e);
        let file = OpenFile::open(place, cache, disk, with, refused)?;
        Ok(Writer { path: path.to_owned(), file })
    }

    /// Moves the file to its path atomically; an existing one is replaced if `replace`.
    ///
    /// # Errors
    /// The system's words; then nothing has changed.
    pub(super) fn publish(&mut self, replace: bool) -> io::Result<()> {
        let place = self.file.place_mut();
        match replace {
            true => place.move_to(&self.path),
            false => place.move_to_free(&self.path),
        }
    }

    /// The file is worth keeping from here on: dropping the writer no longer removes it.
    pub(super) fn keep(&mut self) {
        self.file.place_mut().keep();
    }

    /// True once [`Writer::keep`] was called.
    pub(super) fn is_kept(&self) -> bool {
        self.file.place().is_kept()
    }

    fn events_mut(&mut self) -> &mut EventGroup {
        &mut self.file.contents_mut().events
    }

    /// Events taken so far.
    pub(super) fn events(&self) -> u64 {
        self.file.contents().events.events()
    }

    /// Pulse rows so far; those of the last block come when it is written.
    pub(super) fn rows(&self) -> u64 {
        self.file.contents().events.rows()
    }

    /// Events up to the last completed flush, which a kill cannot lose.
    pub(super) fn committed_events(&self) -> u64 {
        self.file.contents().events.committed()
    }

    /// The events that follow belong to the pulse at `zero`, ns since 1970.
    #[inline]
    pub(super) fn open_pulse(&mut self, zero: u64) {
        self.events_mut().open_pulse(zero);
    }

    /// True if too many rows wait: flush now, before the next interval.
    pub(super) fn rows_full(&self) -> bool {
        self.file.contents().events.is_urgent()
    }

    /// Appends events of the open pulse; both slices are equally long and hold values below 2³¹.
    #[inline]
    pub(super) fn append(
        &mut self,
        pixel: &[u32],
        offset_ns: &[u32],
    ) -> std::result::Result<(), NexusError> {
        let appended = self.events_mut().append(pixel, offset_ns);
        appended.map_err(hdf5_error(&self.path, "write events"))
    }

    /// Flushes everything taken so far, in the order that readers need.
    pub(super) fn commit(&mut self) -> std::result::Result<(), NexusError> {
        match self.file.contents().events.is_changed() {
            true => self.file.flush().map_err(hdf5_error(&self.path, "flush events")),
            false => Ok(()),
        }
    }

    /// A complete file has two pulses at least: see [`EventGroup::close_pulses`].
    pub(super) fn close_pulses(&mut self, fallback: u64) -> std::result::Result<(), NexusError> {
        let closed = self.events_mut().close_pulses(fallback);
        closed.map_err(hdf5_error(&self.path, "write events"))
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
        self.file.close().map_err(hdf5_error(&path, "close the file"))?;
        let count = || -> Result<u64> {
            let file = sys::open(&path, FileMode::Read)?;
            let group = file.group(&events_path(panel))?;
            let found = group.dataset("event_id")?.size() as u64;
            Ok(found.min(group.dataset("event_time_offset")?.size() as u64))
        };
        let found = count().map_err(hdf5_error(&path, "read the closed file"))?;
        if found == written { Ok(found) } else { Err(NexusError::Count { path, found, written }) }
    }

    /// What only a complete file has. After the flush nothing is left to write that could fail when it is closed.
    fn write_end(&self, end_ns: i64, rejected: u64) -> Result<()> {
        let Parts { own, entry, .. } = self.file.contents();
        let refused = own.dataset("events_rejected")?;
        refused.write_scalar(&rejected)?;
        sys::flush(&refused)?;
        let end = entry.dataset("end_time")?;
        end.write_scalar(&date(end_ns))?;
        sys::flush(&end)?;
        self.file.flush_rest()
    }

    /// Closes the file without another write to its disk, which has failed ([`OpenFile::let_go`]).
    pub(super) fn let_go(self) {
        self.file.let_go();
    }
}

/// How events get to the file at `path`.
fn way(options: &NexusOptions, path: &Path) -> io::Result<EventWay> {
    Ok(match (options.compression, options.packing) {
        (Compression::Gzip(level), Packing::Direct { threads }) => {
            EventWay::Packed(Packers::start(threads, level)?)
        }
        (compression, _) if lays_rows(options.disk, compression.is_some()) => {
            EventWay::Disk(Arc::new(RowDisk::start(path, options.disk)?))
        }
        _ => EventWay::Library,
    })
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
