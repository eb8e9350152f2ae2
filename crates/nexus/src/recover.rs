//! Makes a file that a killed process left readable by every reader, and its datasets consistent.
//!
//! HDF5 refuses a file whose consistency flags are set, except with `swmr=True`. [`recover`] clears them, then cuts the
//! datasets to the last completed flush (`/entry/fullcount/committed`): data after it was incomplete, and events
//! without their pulse row would be read with the time of the pulse before. Refuses files that are not HDF5, are open
//! in another process, or were not written by Fullcount; such a file is not changed, and neither is one for whose
//! repair the disk has no space. Source: `docs/formats/nexus.md` section 4.

mod cut;
mod room;

use std::path::{Path, PathBuf};
use std::{fs, io};

use fullcount_io::lock::{self, LockFound};
use hdf5_metno::{Dataset, File, Group, Result};

pub use cut::cut;

use super::error::{NexusError, hdf5_error, io_error};
use super::layout::{DateText, OWN_GROUP, date};
use super::superblock::{Superblock, Unusable};
use super::sys::{self, FileMode};
use super::when::nanos;

/// For the library's own blocks in a repair: a few of 2 KiB, and one for each index of chunks, which are below 64 KiB.
const OWN_BLOCKS: u64 = 1 << 20;

/// What [`recover`] found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovered {
    /// The file, at its present path.
    pub path: PathBuf,
    /// Events in it now.
    pub events: u64,
    /// Pulse rows in it now.
    pub pulses: u64,
    /// Entries of the longer event dataset that were cut off: written after the last completed flush.
    pub cut_events: u64,
    /// Entries of the longer pulse dataset that were cut off.
    pub cut_rows: u64,
    /// False if the file was complete already and nothing was changed.
    pub changed: bool,
}

/// Makes the file at `path` readable by every reader. A complete file is left as it is, so repeating it is safe.
///
/// `end_time` becomes the time of the file's last change if the run could not write it; a file with fewer than two
/// pulse rows gets a closing pulse without events, as a complete run does. The space that this may need is reserved
/// before anything in the file changes.
///
/// # Errors
/// Not HDF5, not a file of Fullcount, a complete file whose end is missing, open in another process (a writer still
/// alive), no space on the disk, or a system error.
pub fn recover(path: &Path) -> std::result::Result<Recovered, NexusError> {
    let looked = match lock::alone(path).map_err(io_error(path, "open the file"))? {
        LockFound::Free(file) => file,
        LockFound::InUse => return Err(NexusError::InUse { path: path.to_owned() }),
        LockFound::Nothing => {
            let missing = io::Error::from(io::ErrorKind::NotFound);
            return Err(io_error(path, "open the file")(missing));
        }
    };
    let meta = looked.metadata().map_err(io_error(path, "open the file"))?;
    let found = Superblock::read(&looked).map_err(io_error(path, "read the file"))?;
    let superblock = found.map_err(|e| refused(path, e))?;
    let last_change = meta.modified().map_or(0, nanos);
    if !superblock.unfinished(meta.len()) {
        return inspect_closed(path, last_change);
    }
    let file = for_writing(path)?;
    let length = meta.len().max(superblock.end());
    let write =
        |s: Superblock| s.write(&file).map_err(io_error(path, "clear the consistency flags"));
    let begun = cut::clear_flags(path, &file, superblock, meta.len());
    let short = (length > meta.len()).then_some(meta.len());
    // Until here only the first bytes and the length have changed.
    let ready = begun.and_then(|()| prepare(path, &file, short));
    if let Err(mut e) = ready {
        write(superblock)?;
        file.set_len(meta.len()).map_err(io_error(path, "restore the file"))?;
        if let NexusError::Short { whole, .. } = &mut e {
            *whole = length;
        }
        return Err(e);
    }
    let repaired = repair(path, last_change, short.is_some());
    match &repaired {
        Ok(_) => room::release(&file),
        // An incomplete repair differs from a finished file, and the next attempt starts again.
        Err(_) => {
            if let Ok(Ok(now)) = Superblock::read(&file) {
                write(now.flagged(superblock))?;
            }
        }
    }
    repaired
}

fn for_writing(path: &Path) -> std::result::Result<fs::File, NexusError> {
    let open = fs::File::options().read(true).write(true).open(path);
    open.map_err(io_error(path, "open the file for writing"))
}

/// Checks whether the file can be repaired, and reserves the space for it. `short`: the file's length before zeros were
/// appended, if they were.
fn prepare(
    path: &Path,
    file: &fs::File,
    short: Option<u64>,
) -> std::result::Result<(), NexusError> {
    let opened = sys::open(path, FileMode::Read).map_err(hdf5_error(path, "open the file"))?;
    let (opened, parts) = sys::or_let_go(opened, |opened| {
        let parts = Parts::find(&opened, path)?;
        Ok::<_, NexusError>((opened, parts))
    })?;
    let ended = parts.ended().map_err(hdf5_error(path, "read the file"))?;
    let (planned, room) = (parts.plan(short.is_some()).map(drop), parts.room());
    drop(parts);
    opened.close().map_err(hdf5_error(path, "close the file"))?;
    if let Some(length) = short.filter(|_| ended) {
        return Err(NexusError::Short { path: path.to_owned(), length, whole: length });
    }
    planned.map_err(hdf5_error(path, "read the file"))?;
    room::reserve(file, short, room).map_err(|e| no_room(path, room, e))
}

fn no_room(path: &Path, needed: u64, e: io::Error) -> NexusError {
    match e.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            NexusError::NoRoom { path: path.to_owned(), needed }
        }
        _ => io_error(path, "reserve room for the repair")(e),
    }
}

fn refused(path: &Path, reason: Unusable) -> NexusError {
    match reason {
        Unusable::Signature => NexusError::NotHdf5 { path: path.to_owned() },
        Unusable::Version(_) | Unusable::Checksum => NexusError::Hdf5 {
            path: path.to_owned(),
            doing: "recover the file".into(),
            message: reason.to_string(),
        },
    }
}

/// Flags are clear: either complete, or a recovery was itself interrupted.
fn inspect_closed(path: &Path, last_change: i64) -> std::result::Result<Recovered, NexusError> {
    let opened = sys::open(path, FileMode::Read).map_err(hdf5_error(path, "open the file"))?;
    let parts = Parts::find(&opened, path)?;
    let complete = || -> Result<Option<Recovered>> {
        let plan = parts.plan(false)?;
        let fine = parts.ended()? && !plan.changes(&parts);
        Ok(fine.then(|| plan.report(path, false)))
    };
    let complete = complete().map_err(hdf5_error(path, "read the file"))?;
    drop(parts);
    opened.close().map_err(hdf5_error(path, "close the file"))?;
    if let Some(report) = complete {
        return Ok(report);
    }
    let file = for_writing(path)?;
    let repaired = match prepare(path, &file, None) {
        Ok(()) => repair(path, last_change, false),
        Err(e) => Err(e),
    };
    room::release(&file);
    repaired
}

/// `short`: zeros were appended to the file.
fn repair(
    path: &Path,
    last_change: i64,
    short: bool,
) -> std::result::Result<Recovered, NexusError> {
    let access = FileMode::Write { cache: 1 << 20 };
    let file = sys::open(path, access).map_err(hdf5_error(path, "open the file"))?;
    let (file, parts) = sys::or_let_go(file, |file| {
        let parts = Parts::find(&file, path)?;
        Ok::<_, NexusError>((file, parts))
    })?;
    let repaired = parts
        .plan(short)
        .and_then(|plan| parts.apply(&plan, last_change).map(|()| plan.report(path, true)))
        .map_err(hdf5_error(path, "repair the file"));
    match repaired {
        Ok(report) => {
            sys::close(file, parts).map_err(hdf5_error(path, "close the file"))?;
            Ok(report)
        }
        Err(error) => {
            sys::let_go(file, parts);
            Err(error)
        }
    }
}

/// The datasets that recovery looks at.
struct Parts {
    id: Dataset,
    offset: Dataset,
    index: Dataset,
    zero: Dataset,
    cue_index: Dataset,
    cue_time: Dataset,
    total: Dataset,
    committed: Dataset,
    epoch: Dataset,
    end_time: Dataset,
}

/// Lengths that the datasets will have.
struct Plan {
    events: usize,
    /// Rows kept.
    index: Vec<i64>,
    zero: Vec<u64>,
    /// Rows added: the closing pulses.
    closing: usize,
    cues: usize,
    cut_events: usize,
    cut_rows: usize,
}

impl Parts {
    fn find(file: &File, path: &Path) -> std::result::Result<Parts, NexusError> {
        let missing =
            |what: &str| NexusError::NotOurs { path: path.to_owned(), missing: what.into() };
        let own = file.group(OWN_GROUP).map_err(|_| missing(OWN_GROUP))?;
        let group = event_group(file).ok_or_else(|| missing("/entry/instrument/*/*_events"))?;
        // One that is there and cannot be opened is damaged: that is something else than a file of another program.
        let of = |g: &Group, name: &str| {
            let place = format!("{}/{name}", g.name());
            g.dataset(name).map_err(|e| match g.link_exists(name) {
                true => hdf5_error(path, &format!("open {place}"))(e),
                false => missing(&place),
            })
        };
        Ok(Parts {
            id: of(&group, "event_id")?,
            offset: of(&group, "event_time_offset")?,
            index: of(&group, "event_index")?,
            zero: of(&group, "event_time_zero")?,
            cue_index: of(&group, "cue_index")?,
            cue_time: of(&group, "cue_timestamp_zero")?,
            total: of(&group, "total_counts")?,
            committed: of(&own, "committed")?,
            epoch: of(&own, "epoch")?,
            end_time: file.dataset("/entry/end_time").map_err(|_| missing("/entry/end_time"))?,
        })
    }

    /// Bytes that a repair may add to the file: of each column a chunk that is begun, or that was compressed and has
    /// grown, and the library's own blocks.
    fn room(&self) -> u64 {
        let columns =
            [&self.id, &self.offset, &self.index, &self.zero, &self.cue_index, &self.cue_time];
        let chunk = |column: &&Dataset| column.chunk().map_or(0, |c| c.iter().product::<usize>());
        columns.iter().map(|column| 8 * chunk(column) as u64).sum::<u64>() + OWN_BLOCKS
    }

    /// True if the run wrote its end.
    fn ended(&self) -> Result<bool> {
        Ok(!self.end_time.read_scalar::<DateText>()?.is_empty())
    }

    /// Events before the first with pixel 0, which no real event has: missing bytes read as zeros.
    fn before_zeros(&self, events: usize) -> Result<usize> {
        for from in (0..events).step_by(1 << 20) {
            let block = self.id.read_slice_1d::<i64, _>(from..events.min(from + (1 << 20)))?;
            if let Some(at) = block.iter().position(|&id| id == 0) {
                return Ok(from + at);
            }
        }
        Ok(events)
    }

    fn plan(&self, short: bool) -> Result<Plan> {
        let committed = self.committed.read_raw::<u64>()?;
        let limit = |i: usize| committed.get(i).map_or(0, |&n| n as usize);
        let mut events = self.id.size().min(self.offset.size()).min(limit(0));
        if short {
            events = self.before_zeros(events)?;
        }
        let rows = self.index.size().min(self.zero.size()).min(limit(1));
        let mut index = self.index.read_slice_1d::<i64, _>(0..rows)?.to_vec();
        let mut zero = self.zero.read_slice_1d::<u64, _>(0..rows)?.to_vec();
        // Sorted and within the events by the order of flushes; a damaged disk may say otherwise.
        let mut before = 0;
        let good = index
            .iter()
            .take_while(|&&i| {
                let fits = i >= before && i <= events as i64;
                before = i;
                fits
            })
            .count();
        index.truncate(good);
        zero.truncate(good);
        let cues = self.cue_index.size().min(self.cue_time.size());
        let positions = self.cue_index.read_slice_1d::<i64, _>(0..cues)?;
        let cues = positions.iter().take_while(|&&i| i < events as i64).count();
        Ok(Plan {
            events,
            closing: 2_usize.saturating_sub(good),
            index,
            zero,
            cues,
            cut_events: self.id.size().max(self.offset.size()) - events,
            cut_rows: self.index.size().max(self.zero.size()) - good,
        })
    }

    fn apply(&self, plan: &Plan, last_change: i64) -> Result<()> {
        for column in [&self.id, &self.offset] {
            cut::set_rows(column, plan.events)?;
        }
        for column in [&self.cue_index, &self.cue_time] {
            cut::set_rows(column, plan.cues)?;
        }
        let kept = plan.index.len();
        let rows = kept + plan.closing;
        cut::set_rows(&self.index, rows)?;
        cut::set_rows(&self.zero, rows)?;
        if plan.closing > 0 {
            let epoch = u64::try_from(self.epoch.read_scalar::<i64>()?).unwrap_or(0);
            let time = plan.zero.last().copied().unwrap_or(epoch);
            self.index.write_slice(&vec![plan.events as i64; plan.closing], kept..rows)?;
            self.zero.write_slice(&vec![time; plan.closing], kept..rows)?;
        }
        self.total.write_scalar(&(plan.events as u64))?;
        self.committed.write(&[plan.events as u64, rows as u64])?;
        if !self.ended()? {
            self.end_time.write_scalar(&date(last_change))?;
        }
        let columns = [&self.id, &self.offset, &self.index, &self.zero];
        let rest = [&self.cue_index, &self.cue_time, &self.total, &self.committed, &self.end_time];
        columns.into_iter().chain(rest).try_for_each(sys::flush)
    }
}

impl Plan {
    fn changes(&self, parts: &Parts) -> bool {
        self.cut_events + self.cut_rows + self.closing > 0
            || parts.cue_index.size() != self.cues
            || parts.cue_time.size() != self.cues
    }

    fn report(&self, path: &Path, changed: bool) -> Recovered {
        Recovered {
            path: path.to_owned(),
            events: self.events as u64,
            pulses: (self.index.len() + self.closing) as u64,
            cut_events: self.cut_events as u64,
            cut_rows: self.cut_rows as u64,
            changed,
        }
    }
}

/// The NXevent_data group of the file's panel.
pub(super) fn event_group(file: &File) -> Option<Group> {
    let instrument = file.group("/entry/instrument").ok()?;
    let panels = instrument.groups().ok()?;
    panels.iter().find_map(|panel| {
        let name = panel.name();
        let name = name.rsplit('/').next()?;
        panel.group(&format!("{name}_events")).ok()
    })
}
