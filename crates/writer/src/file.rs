//! One open file: takes messages by stream, commits all of it, closes it; and takes up a file that a kill left.
//!
//! How a file is flushed, closed or given up is that of every NeXus file ([`OpenFile`]). A commit says how many rows each column
//! has; what lies behind those numbers when a file is taken up again was half-way and is cut off ([`cut`]). Refuses files that
//! another process writes, files that are shorter than their last commit. Source: `docs/formats/nexus.md` section 4;
//! `docs/decisions`, write journal.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fullcount_io::building::{Building, Leftover};
use hdf5_metno::types::VarLenUnicode;
use hdf5_metno::{Dataset, File, Result};

use super::behind::Behind;
use super::make::{self, About, group};
use super::module::{self, EventCounts, Seen, Stopped, Writer};
use super::pixels::PixelSet;
use super::reserve::Reserve;
use super::structure::{DatasetPlan, Date, FilePlan, StreamModule, StreamPlan};
use fullcount_nexus::disk::{LATE, RowDisk};
use fullcount_nexus::error::{NexusError, hdf5_error, io_error};
use fullcount_nexus::events::EventWay;
use fullcount_nexus::file::{FileContents, FileStream, OpenFile, lays_rows};
use fullcount_nexus::layout::date;
use fullcount_nexus::sys::{self, FileMode};
use fullcount_nexus::{BUILDING, Compression, DiskWay, cut};

pub(super) use fullcount_nexus::file::{LeftOpen, RowCounts};

type Outcome<T> = std::result::Result<T, NexusError>;

/// A file that is being written.
#[derive(Debug)]
pub(super) struct JobFile {
    /// `None` once it is closed.
    open: Option<OpenFile<Parts>>,
    /// `None` once there was no room left.
    reserve: Option<Reserve>,
    path: PathBuf,
    start_ns: i64,
    changed: bool,
}

/// What is open of it.
#[derive(Debug)]
struct Parts {
    streams: Vec<Box<dyn Writer>>,
    ends: Vec<Dataset>,
    refused: Dataset,
    gone: Dataset,
    rejected: Dataset,
}

impl FileContents for Parts {
    fn streams(&mut self) -> Vec<&mut dyn FileStream> {
        self.streams.iter_mut().map(|stream| &mut **stream as &mut dyn FileStream).collect()
    }
}

impl Parts {
    fn open(file: &File, plan: &FilePlan, way: &EventWay) -> Result<Parts> {
        let mut sets: BTreeMap<&str, Option<Arc<PixelSet>>> = BTreeMap::new();
        let datasets: HashMap<&str, &DatasetPlan> =
            plan.datasets.iter().map(|dataset| (dataset.path.as_str(), dataset)).collect();
        let mut streams = Vec::with_capacity(plan.streams.len());
        for stream in &plan.streams {
            let pixels = match &stream.module {
                StreamModule::Events { pixels: Some(path), .. } => sets
                    .entry(path)
                    .or_insert_with(|| {
                        let numbers = datasets.get(path.as_str())?.value.integers()?;
                        Some(Arc::new(PixelSet::new(numbers)))
                    })
                    .clone(),
                _ => None,
            };
            let group = group(file, &stream.group)?;
            streams.push(module::open(&group, stream, pixels, way)?);
        }
        let ends = plan.dates.iter().filter(|d| d.date == Date::End);
        let ends = ends.map(|d| file.dataset(&d.path)).collect::<Result<_>>()?;
        let own = group(file, &plan.own)?;
        Ok(Parts {
            streams,
            ends,
            refused: own.dataset("messages_refused")?,
            gone: own.dataset("messages_gone")?,
            rejected: own.dataset("events_rejected")?,
        })
    }
}

impl Drop for JobFile {
    /// A job that is kept for the next start: everything was flushed.
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            open.leave();
        }
    }
}

impl JobFile {
    /// Makes the file beside `path`, opens it, and moves it there.
    pub(super) fn create(path: &Path, plan: &FilePlan, about: &About<'_>) -> Outcome<JobFile> {
        let place = Building::reserve(path, BUILDING, Leftover::Removed)?;
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
        let mut made = JobFile::open(place, path, plan, about)?;
        if let Some(open) = &mut made.open
            && let Err(error) = open.place_mut().move_to_free(path)
        {
            made.give_up();
            return Err(io_error(path, "move the file to its path")(error));
        }
        made.open.iter_mut().for_each(|open| open.place_mut().keep());
        made.reserve = Some(reserve);
        Ok(made)
    }

    /// Takes up the file at `path` at its last commit.
    pub(super) fn take_up(
        path: &Path,
        plan: &FilePlan,
        about: &About<'_>,
        rows: &RowCounts,
    ) -> Outcome<JobFile> {
        let place = Building::of_existing(path)?;
        cut(path, rows)?;
        let mut taken = JobFile::open(place, path, plan, about)?;
        // On a full disk the job goes on without: there may be room when there is something to write.
        taken.reserve = Reserve::new(path, at_the_end(plan, about.compression)).ok();
        Ok(taken)
    }

    /// Opens the file at `place`, whose path is or will be `path`.
    fn open(place: Building, path: &Path, plan: &FilePlan, about: &About<'_>) -> Outcome<JobFile> {
        let lays = lays_rows(about.disk, about.compression.is_some());
        let disk = match lays {
            true => {
                let disk = RowDisk::start(place.path(), DiskWay::Direct);
                Some(Arc::new(disk.map_err(io_error(path, "start writing the file"))?))
            }
            // Without a thread it goes to the disk at its end.
            false => RowDisk::start(place.path(), DiskWay::Cached).ok().map(Arc::new),
        };
        let way = match (&about.packers, &disk) {
            (Some(packers), _) => EventWay::Packed(packers.clone()),
            (None, Some(disk)) if lays => EventWay::Disk(disk.clone()),
            _ => EventWay::Library,
        };
        let cache = cache_bytes(about.compression);
        let open = OpenFile::open(
            place,
            cache,
            disk,
            |file| Parts::open(file, plan, &way),
            |doing, e| hdf5_error(path, doing)(e),
        )?;
        let (path, start_ns) = (path.to_owned(), about.start_ns);
        Ok(JobFile { open: Some(open), reserve: None, path, start_ns, changed: true })
    }

    fn streams(&self) -> &[Box<dyn Writer>] {
        self.open.as_ref().map_or(&[], |open| &open.contents().streams)
    }

    /// The file cannot be written any more: it is left as after a kill.
    pub(super) fn give_up(mut self) -> LeftOpen {
        // From here on there is room for cutting it.
        self.reserve = None;
        self.open.take().map_or(LeftOpen::Closed, OpenFile::let_go)
    }

    /// Gives the message to the stream number `stream`.
    pub(super) fn write(
        &mut self,
        stream: usize,
        message: &Seen<'_>,
    ) -> std::result::Result<(), Stopped> {
        self.changed = true;
        let Some(open) = &mut self.open else {
            return Err(Stopped::Hdf5("the file is closed".into()));
        };
        if let (Some(disk), Seen::Events(view)) = (open.disk(), message)
            && !disk.takes_rows()
        {
            disk.written(8 * view.events());
        }
        open.contents_mut().streams[stream].write(message)
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
        // A file that was removed can be written on, and nobody would find it.
        let there = open.place().is_reached().and_then(|ours| match ours {
            true => Ok(()),
            false => Err(std::io::Error::other("another file was put there")),
        });
        there.map_err(io_error(&self.path, "flush: the file was removed or moved away"))?;
        open.flush().map_err(hdf5_error(&self.path, "flush"))?;
        self.changed = false;
        Ok(Some(open.rows()))
    }

    /// Writes what only a complete file has, closes it, and waits until its bytes are on the disk. After an error it is
    /// still to be given up.
    pub(super) fn close(&mut self, end_ns: i64, refused: u64, gone: u64) -> Outcome<PathBuf> {
        let path = self.path.clone();
        let start = u64::try_from(self.start_ns).unwrap_or(0);
        if let Some(open) = &mut self.open {
            let mut streams = open.contents_mut().streams.iter_mut();
            let last = streams.try_for_each(|stream| stream.close(start));
            last.map_err(hdf5_error(&path, "write the closing rows"))?;
        }
        self.changed = true;
        self.commit()?;
        let rejected = self.events().rejected();
        let Some(open) = &self.open else { return Ok(path) };
        let finish = || -> Result<()> {
            let parts = open.contents();
            // One by one: after a failed flush of the whole file nothing of it could be closed.
            for end in &parts.ends {
                end.write_scalar(&date(end_ns))?;
                sys::flush(end)?;
            }
            let counts =
                [(&parts.refused, refused), (&parts.gone, gone), (&parts.rejected, rejected)];
            for (dataset, count) in counts {
                dataset.write_scalar(&count)?;
                sys::flush(dataset)?;
            }
            open.flush_rest()
        };
        finish().map_err(hdf5_error(&path, "complete the file"))?;
        let closed = self.open.take().map(OpenFile::close).transpose();
        let disk = closed.map_err(hdf5_error(&path, "close the file"))?.flatten();
        self.reserve = None;
        let written = match disk {
            Some(disk) => disk.finish(),
            None => fs::File::open(&path)
                .and_then(|file| file.sync_data())
                .map_err(|e| std::io::Error::new(e.kind(), format!("{LATE}: {e}"))),
        };
        written.map_err(io_error(&path, "complete the file"))?;
        Ok(path)
    }
}

/// Bytes that cutting the file may take on a full disk: of each column up to a chunk that is in the library's cache, or that it
/// compresses again.
fn at_the_end(plan: &FilePlan, compression: Compression) -> u64 {
    let cached = match compression {
        Compression::None => cache_bytes(compression) as u64,
        Compression::Gzip(_) => u64::MAX,
    };
    let of = |stream: &StreamPlan| match stream.module {
        StreamModule::Events { chunk, .. } => 3 * (8 * chunk as u64).min(cached),
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
    let place = Building::of_existing(path)?;
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
    let file = sys::open(path, FileMode::Read).ok()?;
    let groups = [file.as_group().ok()?].into_iter().chain(file.groups().ok()?);
    let own = groups.filter_map(|group| group.dataset("fullcount/configuration").ok()).next()?;
    let text: VarLenUnicode = own.read_scalar().ok()?;
    let configuration: serde_json::Value = serde_json::from_str(&text).ok()?;
    Some(configuration["job_id"].as_str()?.to_owned())
}

/// Cache of each dataset. With a filter of HDF5's a chunk stays there until it is full; those of events come whole.
fn cache_bytes(compression: Compression) -> usize {
    const MEBIBYTE: usize = 1 << 20;
    match compression {
        Compression::None => MEBIBYTE,
        Compression::Gzip(_) => 3 * MEBIBYTE,
    }
}
