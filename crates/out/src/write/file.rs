//! One open file: takes messages by stream, commits all of it, closes it; and takes up a file that a kill left.
//!
//! A commit flushes the columns of all streams phase by phase and says how many rows each has. What lies behind those
//! numbers when a file is taken up again was half-way and is cut off. Refuses files that another process writes, files
//! that are shorter than their last commit. Source: `docs/formats/nexus.md` section 4; `docs/decisions`, write journal.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hdf5_metno::types::VarLenUnicode;
use hdf5_metno::{Dataset, File, Result};

use super::behind::Behind;
use super::column::Phase;
use super::make::{self, About, group};
use super::module::{self, EventCounts, Seen, Stopped, Writer};
use super::pixels::PixelSet;
use super::reserve::Reserve;
use super::structure::{DatasetPlan, Date, Module, Plan};
use super::writeback::Writeback;
use crate::nexus::disk::{Disk, LATE};
use crate::nexus::error::{NexusError, hdf5_error, io_error};
use crate::nexus::layout::date;
use crate::nexus::place::Place;
use crate::nexus::superblock::Superblock;
use crate::nexus::sys::{self, Access};
use crate::nexus::{Compression, DiskWay};

/// Rows of each column at a commit, by path.
pub(super) type RowCounts = BTreeMap<String, u64>;

type Outcome<T> = std::result::Result<T, NexusError>;

/// A file that is being written.
#[derive(Debug)]
pub(super) struct JobFile {
    /// `None` once it is closed.
    open: Option<Open>,
    /// `None` once there was no room left.
    reserve: Option<Reserve>,
    /// `None` once the file is complete, and where no thread could be made: then it goes to the disk at its end.
    writeback: Option<Writeback>,
    path: PathBuf,
    start_ns: i64,
    changed: bool,
}

/// What HDF5 has of it.
#[derive(Debug)]
struct Open {
    // Declared in closing order: datasets before the file, the file before its place.
    streams: Vec<Box<dyn Writer>>,
    /// Where large rows of events go; else HDF5 writes them.
    disk: Option<Arc<Disk>>,
    ends: Vec<Dataset>,
    refused: Dataset,
    gone: Dataset,
    rejected: Dataset,
    file: File,
    place: Place,
}

/// How a file that was given up was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// Nobody has it open: it may be cut.
    Closed,
    /// HDF5 cannot let go of it before the process ends.
    Open,
    /// Another file stands at its path, which is not to be touched.
    Away,
}

impl Drop for JobFile {
    /// A job that is kept for the next start: everything was flushed.
    fn drop(&mut self) {
        let Some(open) = self.open.take() else { return };
        let Open { streams, disk, ends, refused, gone, rejected, file, place } = open;
        let sound = disk.as_ref().is_none_or(|disk| disk.settle().is_ok());
        let parts = (streams, disk, ends, refused, gone, rejected, place);
        // If it cannot be closed properly, the next start finds it as after a kill: rows that are not there must not be said to be.
        let _ = if sound { sys::close(file, parts).is_ok() } else { sys::let_go(file, parts) };
    }
}

impl JobFile {
    /// Makes the file beside `path`, opens it, and moves it there.
    pub(super) fn create(path: &Path, plan: &Plan, about: &About<'_>) -> Outcome<JobFile> {
        let mut place = Place::reserve(path)?;
        let room = |bytes| {
            let made = Reserve::new(path, bytes);
            made.map_err(io_error(path, "reserve room for the file"))
        };
        let texts = about.own.iter().map(|(_, text)| text.len() as u64);
        let fixed = plan.datasets.iter().map(|dataset| dataset.value.bytes());
        // As much again for the library's own structures. What is not kept is free for the file now.
        drop(room(2 * fixed.chain(texts).sum::<u64>())?);
        make::make(place.path(), plan, about).map_err(hdf5_error(path, "create the file"))?;
        let reserve = room(at_the_end(plan, about.compression))?;
        let disk = start_disk(place.path(), about)?;
        let file = JobFile::open(place.path(), plan, about.compression, disk.is_some())
            .map_err(hdf5_error(path, "start writing the file"))?;
        if let Err(error) = place.move_to_free(path) {
            sys::let_go(file, ());
            return Err(io_error(path, "move the file to its path")(error));
        }
        place.keep();
        let with = |file| JobFile::with_file(file, place, path, plan, about.start_ns, disk);
        let mut made = sys::or_let_go(file, with).map_err(hdf5_error(path, "open the datasets"))?;
        made.reserve = Some(reserve);
        made.writeback = Writeback::start(path).ok();
        Ok(made)
    }

    /// Takes up the file at `path` at its last commit.
    pub(super) fn take_up(
        path: &Path,
        plan: &Plan,
        about: &About<'_>,
        rows: &RowCounts,
    ) -> Outcome<JobFile> {
        let place = Place::of_existing(path)?;
        cut(path, rows)?;
        let disk = start_disk(path, about)?;
        let file = JobFile::open(path, plan, about.compression, disk.is_some())
            .map_err(hdf5_error(path, "go on writing the file"))?;
        let with = |file| JobFile::with_file(file, place, path, plan, about.start_ns, disk);
        let mut taken =
            sys::or_let_go(file, with).map_err(hdf5_error(path, "open the datasets"))?;
        // On a full disk the job goes on without: there may be room when there is something to write.
        taken.reserve = Reserve::new(path, at_the_end(plan, about.compression)).ok();
        taken.writeback = Writeback::start(path).ok();
        Ok(taken)
    }

    fn open(path: &Path, plan: &Plan, compression: Compression, apart: bool) -> Result<File> {
        let cache = cache_bytes(plan, compression);
        let access = if apart { Access::Apart { cache } } else { Access::Write { cache } };
        sys::open_for_readers(path, access)
    }

    fn with_file(
        file: File,
        place: Place,
        path: &Path,
        plan: &Plan,
        start_ns: i64,
        disk: Option<Disk>,
    ) -> Result<JobFile> {
        let disk = disk.map(Arc::new);
        let mut sets: BTreeMap<&str, Option<Arc<PixelSet>>> = BTreeMap::new();
        let datasets: HashMap<&str, &DatasetPlan> =
            plan.datasets.iter().map(|dataset| (dataset.path.as_str(), dataset)).collect();
        let mut streams = Vec::with_capacity(plan.streams.len());
        for stream in &plan.streams {
            let pixels = match &stream.module {
                Module::Events { pixels: Some(path), .. } => sets
                    .entry(path)
                    .or_insert_with(|| {
                        let numbers = datasets.get(path.as_str())?.value.integers()?;
                        Some(Arc::new(PixelSet::new(numbers)))
                    })
                    .clone(),
                _ => None,
            };
            let group = group(&file, &stream.group)?;
            streams.push(module::open(&group, stream, pixels, disk.clone())?);
        }
        let ends = plan.dates.iter().filter(|d| d.date == Date::End);
        let ends = ends.map(|d| file.dataset(&d.path)).collect::<Result<_>>()?;
        let own = group(&file, &plan.own)?;
        let open = Open {
            streams,
            disk,
            ends,
            refused: own.dataset("messages_refused")?,
            gone: own.dataset("messages_gone")?,
            rejected: own.dataset("events_rejected")?,
            file,
            place,
        };
        let (open, path) = (Some(open), path.to_owned());
        Ok(JobFile { open, reserve: None, writeback: None, path, start_ns, changed: true })
    }

    fn streams(&self) -> &[Box<dyn Writer>] {
        self.open.as_ref().map_or(&[], |open| &open.streams)
    }

    /// The file cannot be written any more: it is left as after a kill.
    pub(super) fn give_up(mut self) -> Left {
        // From here on there is room for cutting it.
        self.reserve = None;
        let Some(open) = self.open.take() else { return Left::Closed };
        let Open { streams, disk, ends, refused, gone, rejected, file, place } = open;
        if let Some(disk) = &disk {
            // What it refused was said before. From here on nothing is under way: the file may be cut.
            let _ = disk.settle();
        }
        // Nothing there at all is said by whoever cuts it.
        let away = matches!(place.is_reached(), Ok(false));
        let closed = sys::let_go(file, (streams, disk, ends, refused, gone, rejected, place));
        match (away, closed) {
            (true, _) => Left::Away,
            (false, true) => Left::Closed,
            (false, false) => Left::Open,
        }
    }

    /// Gives the message to the stream number `stream`.
    pub(super) fn write(
        &mut self,
        stream: usize,
        message: &Seen<'_>,
    ) -> std::result::Result<(), Stopped> {
        self.changed = true;
        if let (Some(writeback), Seen::Events(view)) = (&mut self.writeback, message) {
            writeback.written(8 * view.events());
        }
        match &mut self.open {
            Some(open) => open.streams[stream].write(message),
            None => Err(Stopped::Hdf5("the file is closed".into())),
        }
    }

    /// True if something should be committed whatever the clock says.
    pub(super) fn urgent(&self) -> bool {
        self.streams().iter().any(|stream| stream.urgent())
    }

    /// What became of the events of all streams.
    pub(super) fn events(&self) -> EventCounts {
        self.streams().iter().filter_map(|s| s.events()).fold(EventCounts::default(), |a, b| {
            EventCounts {
                taken: a.taken + b.taken,
                committed: a.committed + b.committed,
                outside_pixels: a.outside_pixels + b.outside_pixels,
                offset_range: a.offset_range + b.offset_range,
                pixel_range: a.pixel_range + b.pixel_range,
                before_1970: a.before_1970 + b.before_1970,
            }
        })
    }

    /// Events of each stream, in the order of the plan.
    pub(super) fn events_by_stream(&self) -> impl Iterator<Item = Option<u64>> {
        self.streams().iter().map(|s| s.events().map(|e| e.taken))
    }

    /// What the stream number `stream` has in the file behind `at`, ns since 1970, up to the last flush.
    pub(super) fn behind(&self, stream: usize, at: i64) -> Outcome<Behind> {
        let found = self.streams().get(stream).map_or(Ok(Behind::default()), |s| s.behind(at));
        found.map_err(hdf5_error(&self.path, "read what is behind the stop"))
    }

    /// Flushes everything taken so far. `None` if nothing came since the last time.
    pub(super) fn commit(&mut self) -> Outcome<Option<RowCounts>> {
        if !self.changed {
            return Ok(None);
        }
        let Some(open) = &mut self.open else { return Ok(None) };
        if let Some(writeback) = self.writeback.take_if(|writeback| writeback.refused()) {
            // What the disk has refused once it does not tell again: no row may be said to be there from now on.
            writeback.end().map_err(io_error(&self.path, LATE))?;
        }
        // A file that was removed can be written on, and nobody would find it.
        let there = open.place.is_reached().and_then(|ours| match ours {
            true => Ok(()),
            false => Err(std::io::Error::other("another file was put there")),
        });
        there.map_err(io_error(&self.path, "flush: the file was removed or moved away"))?;
        let rows = open.commit_in_order().map_err(hdf5_error(&self.path, "flush"))?;
        self.changed = false;
        Ok(Some(rows))
    }

    /// Writes what only a complete file has, closes it, and waits until its bytes are on the disk. After an error it is
    /// still to be given up.
    pub(super) fn close(&mut self, end_ns: i64, refused: u64, gone: u64) -> Outcome<PathBuf> {
        let path = self.path.clone();
        let start = u64::try_from(self.start_ns).unwrap_or(0);
        if let Some(open) = &mut self.open {
            let last = open.streams.iter_mut().try_for_each(|stream| stream.close(start));
            last.map_err(hdf5_error(&path, "write the closing rows"))?;
        }
        self.changed = true;
        self.commit()?;
        let rejected = self.events().rejected();
        if let Some(open) = &self.open {
            let finish = || -> Result<()> {
                // One by one: after a failed flush of the whole file nothing of it could be closed.
                for end in &open.ends {
                    end.write_scalar(&date(end_ns))?;
                    sys::flush(end)?;
                }
                let counts =
                    [(&open.refused, refused), (&open.gone, gone), (&open.rejected, rejected)];
                for (dataset, count) in counts {
                    dataset.write_scalar(&count)?;
                    sys::flush(dataset)?;
                }
                // What is left is closing, which writes nothing that needs room.
                open.file.flush()
            };
            finish().map_err(hdf5_error(&path, "complete the file"))?;
        }
        if let Some(Open { streams, disk, ends, refused, gone, rejected, file, place }) =
            self.open.take()
        {
            drop((streams, disk, ends, refused, gone, rejected));
            file.close().map_err(hdf5_error(&path, "close the file"))?;
            drop(place);
        }
        self.reserve = None;
        let on_the_way = self.writeback.take().map_or(Ok(()), Writeback::end);
        on_the_way.map_err(io_error(&path, LATE))?;
        let written = fs::File::open(&path).and_then(|file| file.sync_data());
        written.map_err(io_error(&path, LATE))?;
        Ok(path)
    }
}

impl Open {
    fn commit_in_order(&mut self) -> Result<RowCounts> {
        for stream in &mut self.streams {
            stream.settle()?;
        }
        if let Some(disk) = &self.disk {
            // Before anything says that they are there.
            disk.settle().map_err(|e| e.to_string())?;
        }
        for phase in Phase::ALL {
            for stream in &mut self.streams {
                for column in stream.columns() {
                    if column.phase() == phase {
                        column.commit()?;
                    }
                }
            }
        }
        for stream in &mut self.streams {
            stream.totals()?;
        }
        // The file's end address, or the space of chunks written since would be given away when it is taken up.
        self.file.flush()?;
        self.streams.iter_mut().for_each(|stream| stream.committed());
        let columns = self.streams.iter_mut().flat_map(|s| s.columns());
        Ok(columns.map(|column| column.extent()).collect())
    }
}

/// The way of large rows to the file at `path`, if they are to have one of their own. Chunks with a filter are made by HDF5.
fn start_disk(path: &Path, about: &About<'_>) -> Outcome<Option<Disk>> {
    if about.disk == DiskWay::Cached
        || about.compression != Compression::None
        || !sys::can_lay_rows()
    {
        return Ok(None);
    }
    Disk::start(path).map(Some).map_err(io_error(path, "start writing the file"))
}

/// Bytes that may wait in the library's caches when a disk is full: of each column up to a chunk, if that is cached.
fn at_the_end(plan: &Plan, compression: Compression) -> u64 {
    let cache = cache_bytes(plan, compression) as u64;
    let of = |stream: &super::structure::StreamPlan| match stream.module {
        Module::Events { chunk, .. } => 3 * (8 * chunk as u64).min(cache),
        // Columns of 1024 numbers.
        _ => 64 << 10,
    };
    plan.streams.iter().map(of).sum()
}

/// Removes the file of a job that was killed while it was made, if there is one.
///
/// Refuses what is not that job's: another writer may have made a file of this name since.
pub(super) fn remove_unwritten(path: &Path, job_id: &str) -> Outcome<()> {
    if !path.exists() {
        return Ok(());
    }
    let place = Place::of_existing(path)?;
    cut(path, &BTreeMap::new())?;
    if job_of(path).as_deref() != Some(job_id) {
        let source = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
        return Err(io_error(path, "begin anew: the file is another run's")(source));
    }
    fs::remove_file(path).map_err(io_error(path, "remove what is left"))?;
    drop(place);
    Ok(())
}

/// The job that a file was made for.
fn job_of(path: &Path) -> Option<String> {
    let file = sys::open(path, Access::Read).ok()?;
    let groups = [file.as_group().ok()?].into_iter().chain(file.groups().ok()?);
    let own = groups.filter_map(|group| group.dataset("fullcount/configuration").ok()).next()?;
    let text: VarLenUnicode = own.read_scalar().ok()?;
    let configuration: serde_json::Value = serde_json::from_str(&text).ok()?;
    Some(configuration["job_id"].as_str()?.to_owned())
}

/// Cache of each dataset: see the nexus sink. With a filter a chunk stays in the cache until it is full.
fn cache_bytes(plan: &Plan, compression: Compression) -> usize {
    const MEBIBYTE: usize = 1 << 20;
    if compression == Compression::None {
        return MEBIBYTE;
    }
    let events = plan.streams.iter().filter_map(|s| match s.module {
        Module::Events { chunk, .. } => Some(3 * chunk * size_of::<i32>()),
        _ => None,
    });
    events.max().unwrap_or(0).max(3 * MEBIBYTE)
}

/// Makes a file that was not closed readable by everyone, with exactly `rows` in its columns.
///
/// Repeating it is safe. Refuses a file with fewer rows than its last commit had.
pub(super) fn cut(path: &Path, rows: &RowCounts) -> Outcome<()> {
    let file = fs::File::options().read(true).write(true).open(path);
    let file = file.map_err(io_error(path, "open the file"))?;
    let length = file.metadata().map_err(io_error(path, "read the file's size"))?.len();
    let superblock = Superblock::read(&file).map_err(io_error(path, "read the file"))?;
    let superblock = superblock.map_err(|reason| NexusError::Hdf5 {
        path: path.to_owned(),
        doing: "take up the file".into(),
        message: reason.to_string(),
    })?;
    if superblock.unfinished(length) {
        // A kill between the library's last metadata write and its truncate leaves the file short.
        let length = length.max(superblock.end());
        file.set_len(length).map_err(io_error(path, "extend the file"))?;
        superblock
            .cleared(length)
            .write(&file)
            .map_err(io_error(path, "clear the consistency flags"))?;
    }
    drop(file);
    cut_columns(path, rows).map_err(hdf5_error(path, "cut the file to its last commit"))
}

fn cut_columns(path: &Path, rows: &RowCounts) -> Result<()> {
    let file = sys::open(path, Access::Write { cache: 1 << 20 })?;
    let mut columns = Vec::with_capacity(rows.len());
    match shorten(&file, rows, &mut columns) {
        Ok(()) => sys::close(file, columns),
        Err(error) => {
            sys::let_go(file, columns);
            Err(error)
        }
    }
}

fn shorten(file: &File, rows: &RowCounts, columns: &mut Vec<Dataset>) -> Result<()> {
    for (name, &rows) in rows {
        columns.push(file.dataset(name)?);
        let Some(dataset) = columns.last() else { continue };
        let mut shape = dataset.shape();
        let Some(length) = shape.first_mut() else { continue };
        let rows = rows as usize;
        if *length < rows {
            let words = format!("{name} has {length} rows instead of {rows}: the file is damaged");
            return Err(words.into());
        }
        if *length > rows {
            *length = rows;
            dataset.resize(shape)?;
            sys::flush(dataset)?;
        }
    }
    Ok(())
}
