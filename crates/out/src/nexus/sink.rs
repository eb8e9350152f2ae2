//! The sink: checks events against the pixel map, hands them to the writer, flushes on time, closes.
//!
//! Refuses (and counts, one counter per reason): events outside `detector_number`, which readers would
//! drop without a word; pulses before 1970, which uint64 cannot hold; offsets that int32 cannot hold;
//! batches whose columns contradict each other. Source: `docs/formats/nexus.md` sections 4, 6, 8.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fullcount_core::ledger::Sheet;
use fullcount_core::products::{EventBatch, Products};

use super::error::{NexusError, hdf5_error, io_error};
use super::layout;
use super::lock;
use super::options::{Existing, NexusOptions};
use super::place::{Place, landing, move_to_free};
use super::recover::{Recovered, recover};
use super::superblock::Superblock;
use super::when::nanos;
use super::writer::Writer;
use crate::sink::{Report, Sink, SinkError};

fullcount_core::counters! {
    /// What the NeXus sink counts.
    pub enum NexusCounter {
        In "sink.nexus.in" Events Sum "sink.nexus" In "events given to the NeXus file" "";
        Events "sink.nexus.events" Events Sum "sink.nexus" Accepted
            "events in the NeXus file up to its last flush" "";
        Waiting "sink.nexus.waiting" Events Sum "sink.nexus" Queued
            "events that wait for the next flush of the NeXus file" "";
        OutsidePixels "sink.nexus.outside_pixels" Events Sum "sink.nexus" Rejected
            "events whose pixel is not in detector_number; readers would drop them without a word"
            "check that the geometry file fits the detector: its pixel map is smaller than the numbers that come";
        Before1970 "sink.nexus.before_1970" Events Sum "sink.nexus" Rejected
            "events of pulses before 1970, which event_time_zero (uint64) cannot hold"
            "set [time] epoch, or correct the clock of the readout system";
        OffsetRange "sink.nexus.offset_range" Events Sum "sink.nexus" Rejected
            "events more than 2147483647 ns after their pulse, which event_time_offset (int32) cannot hold"
            "set [time] pulse to a grid with a period below 2.1 s, or to none";
        Malformed "sink.nexus.malformed" Events Sum "sink.nexus" Rejected
            "events of batches whose columns contradict each other"
            "report this with the name of the detector: its builder breaks the rules of EventBatch";
        Unwritten "sink.nexus.unwritten" Events Sum "sink.nexus" Dropped(Down)
            "events taken but not in the file because writing failed"
            "free space on the disk or choose another path; recover keeps what was flushed";
        Pulses "sink.nexus.pulses" Messages Sum "sink.nexus" Note "pulse rows in the NeXus file" "";
        PulsesBefore1970 "sink.nexus.pulses_before_1970" Messages Sum "sink.nexus" Note
            "pulses before 1970, left out" "set [time] epoch, or correct the clock of the readout system";
        Flushes "sink.nexus.flushes" Times Sum "sink.nexus" Note "flushes of the NeXus file" "";
    }
}

/// Why an event is not in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    OutsidePixels,
    Before1970,
    OffsetRange,
    Malformed,
}

impl Refusal {
    fn counter(self) -> NexusCounter {
        match self {
            Refusal::OutsidePixels => NexusCounter::OutsidePixels,
            Refusal::Before1970 => NexusCounter::Before1970,
            Refusal::OffsetRange => NexusCounter::OffsetRange,
            Refusal::Malformed => NexusCounter::Malformed,
        }
    }
}

#[derive(Debug)]
enum State {
    Open(Box<Writer>),
    Closed(Report),
    Failed(String),
}

/// Writes events into one NeXus file. A required sink.
#[derive(Debug)]
pub struct NexusSink {
    state: State,
    sheet: Arc<Sheet>,
    recovered: Option<Recovered>,
    path: PathBuf,
    panel: String,
    pixels: u32,
    fallback_pulse: u64,
    flush_interval: Duration,
    last_flush: Duration,
    since_start: Duration,
    start_time_ns: Option<i64>,
    read_only: bool,
    kept: Vec<(u32, u32)>,
}

impl NexusSink {
    /// Makes the file, ready for events and for readers with `swmr=True`: [`NexusSink::prepare`], then
    /// [`PreparedFile::publish`].
    ///
    /// A file that exists at the path is as it was after any failure.
    ///
    /// # Errors
    /// Those of the two.
    pub fn create(options: &NexusOptions) -> Result<NexusSink, NexusError> {
        NexusSink::prepare(options)?.publish()
    }

    /// Makes the file beside its path and does everything that can fail, without touching what is at the
    /// path. Publish it when the rest of the run has started too.
    ///
    /// # Errors
    /// Refused options ([`NexusOptions::validate`]), a path that cannot hold a file, an existing file
    /// that may not be replaced, or a system or HDF5 error with the path.
    pub fn prepare(options: &NexusOptions) -> Result<PreparedFile, NexusError> {
        options.validate()?;
        let path = landing(&options.path);
        // First the place, then the look: a second run with the same path stops at the place's lock.
        let place = Place::reserve(&path)?;
        let existing = look(&path, options.existing)?;
        let start_ns = options.start_time_ns.unwrap_or_else(|| nanos(SystemTime::now()));
        layout::build(place.path(), options, start_ns)
            .map_err(hdf5_error(&path, "create the file"))?;
        let writer = Writer::open(options, &path, place)?;
        let sink = NexusSink {
            state: State::Open(Box::new(writer)),
            sheet: Sheet::new(NexusCounter::catalogue()),
            recovered: None,
            path,
            panel: options.panel.clone(),
            pixels: options.pixels.pixels(),
            fallback_pulse: u64::try_from(options.epoch.0).unwrap_or(0),
            flush_interval: options.flush_interval,
            last_flush: Duration::ZERO,
            since_start: Duration::ZERO,
            start_time_ns: options.start_time_ns,
            read_only: options.read_only,
            kept: Vec::new(),
        };
        Ok(PreparedFile { sink, existing })
    }

    /// Gives up a run that never began: closes the file, and removes it if nothing was put into it.
    /// Dropping the sink does the same.
    pub fn abandon(self) {
        drop(self);
    }

    /// The unfinished file of an earlier run that stood at the path: what was in it and where it is now.
    pub fn recovered(&self) -> Option<&Recovered> {
        self.recovered.as_ref()
    }

    /// Flushes everything taken so far, whatever the time.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn flush(&mut self) -> Result<(), SinkError> {
        self.with_writer(|writer, sheet, _| {
            writer.commit()?;
            sheet.add(NexusCounter::Flushes as usize, 1);
            Ok(())
        })
    }

    fn with_writer(
        &mut self,
        work: impl FnOnce(&mut Writer, &Sheet, &mut Vec<(u32, u32)>) -> Result<(), NexusError>,
    ) -> Result<(), SinkError> {
        let result = match &mut self.state {
            State::Open(writer) => {
                let result = work(writer, &self.sheet, &mut self.kept);
                let committed = writer.committed_events();
                self.sheet.set(NexusCounter::Events as usize, committed);
                let waiting = writer.events() - committed;
                self.sheet.set(NexusCounter::Waiting as usize, waiting);
                self.sheet.set(NexusCounter::Pulses as usize, writer.rows());
                result
            }
            State::Closed(_) => {
                return Err(sink_error(format!("{}: the file is closed", self.path.display())));
            }
            State::Failed(message) => return Err(sink_error(message.clone())),
        };
        result.map_err(|e| self.fail(&e))
    }

    /// From here on every call fails with the first error; what was not flushed is counted as lost.
    fn fail(&mut self, error: &NexusError) -> SinkError {
        self.sheet.set(NexusCounter::Waiting as usize, 0);
        let taken = self.sheet.get(NexusCounter::In as usize);
        let settled = [
            NexusCounter::Events,
            NexusCounter::OutsidePixels,
            NexusCounter::Before1970,
            NexusCounter::OffsetRange,
            NexusCounter::Malformed,
        ];
        let settled: u64 = settled.iter().map(|&c| self.sheet.get(c as usize)).sum();
        self.sheet.set(NexusCounter::Unwritten as usize, taken.saturating_sub(settled));
        let failed = State::Failed(error.to_string());
        if let State::Open(writer) = std::mem::replace(&mut self.state, failed) {
            writer.let_go();
        }
        sink_error(error.to_string())
    }

    fn rejected(&self) -> u64 {
        let of = |c: NexusCounter| self.sheet.get(c as usize);
        of(NexusCounter::OutsidePixels)
            + of(NexusCounter::Before1970)
            + of(NexusCounter::OffsetRange)
            + of(NexusCounter::Malformed)
    }

    fn close(&mut self) -> Result<Report, NexusError> {
        let State::Open(mut writer) =
            std::mem::replace(&mut self.state, State::Failed("closing failed".into()))
        else {
            unreachable!("finish looked");
        };
        writer.keep();
        if let Err(error) = writer.close_pulses(self.fallback_pulse) {
            writer.let_go();
            return Err(error);
        }
        let end_ns = match self.start_time_ns {
            Some(start) => {
                let since = i64::try_from(self.since_start.as_nanos()).unwrap_or(i64::MAX);
                start.saturating_add(since)
            }
            None => nanos(SystemTime::now()),
        };
        let rows = writer.rows();
        let events = writer.close(end_ns, self.rejected(), &self.panel)?;
        self.sheet.set(NexusCounter::Events as usize, events);
        self.sheet.set(NexusCounter::Waiting as usize, 0);
        self.sheet.set(NexusCounter::Pulses as usize, rows);
        let path = &self.path;
        let meta = fs::metadata(path).map_err(io_error(path, "read the file's size"))?;
        if self.read_only {
            let mut permissions = meta.permissions();
            permissions.set_readonly(true);
            fs::set_permissions(path, permissions)
                .map_err(io_error(path, "take the write permission away"))?;
        }
        Ok(Report {
            place: path.display().to_string(),
            events,
            bytes: meta.len(),
            ..Report::default()
        })
    }
}

impl Sink for NexusSink {
    fn name(&self) -> &'static str {
        "nexus"
    }

    fn required(&self) -> bool {
        true
    }

    fn push(&mut self, products: &Arc<Products>) -> Result<(), SinkError> {
        let pixels = self.pixels;
        self.with_writer(|writer, sheet, kept| {
            let batch = &products.events;
            if !batch.pixel.is_empty() || !batch.pulse_ns.is_empty() {
                writer.keep();
            }
            sheet.add(NexusCounter::In as usize, batch.len() as u64);
            if well_formed(batch) {
                take(batch, pixels, writer, sheet, kept)?;
            } else {
                refuse(sheet, Refusal::Malformed, batch.len());
            }
            if writer.rows_full() {
                writer.commit()?;
                sheet.add(NexusCounter::Flushes as usize, 1);
            }
            Ok(())
        })
    }

    fn tick(&mut self, since_start: Duration) -> Result<(), SinkError> {
        self.since_start = since_start;
        if since_start.saturating_sub(self.last_flush) < self.flush_interval {
            return Ok(());
        }
        self.last_flush = since_start;
        self.flush()
    }

    fn finish(&mut self) -> Result<Report, SinkError> {
        match &self.state {
            State::Open(_) => {}
            State::Closed(report) => return Ok(report.clone()),
            State::Failed(message) => return Err(sink_error(message.clone())),
        }
        match self.close() {
            Ok(report) => {
                self.state = State::Closed(report.clone());
                Ok(report)
            }
            Err(e) => Err(self.fail(&e)),
        }
    }

    fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }
}

impl Drop for NexusSink {
    /// A sink that is dropped without `finish` (a panic elsewhere) still closes its file. If nothing
    /// was ever put into it, the start failed: then the file goes, lest it stand in the next one's way.
    fn drop(&mut self) {
        if matches!(&self.state, State::Open(writer) if writer.is_kept()) {
            // Nobody is left to tell; what was flushed stays recoverable.
            let _ = self.finish();
        } else if let State::Open(writer) =
            std::mem::replace(&mut self.state, State::Failed(String::new()))
        {
            writer.let_go();
        }
    }
}

fn sink_error(message: String) -> SinkError {
    SinkError { sink: "nexus", message }
}

fn refuse(sheet: &Sheet, reason: Refusal, events: usize) {
    sheet.add(reason.counter() as usize, events as u64);
}

/// The invariants of [`EventBatch`], in one look at the rows.
fn well_formed(batch: &EventBatch) -> bool {
    let n = batch.pixel.len();
    batch.offset_ns.len() == n
        && batch.pulse_ns.len() == batch.pulse_first.len()
        && batch.pulse_first.is_sorted()
        && batch.pulse_first.last().map_or(n == 0, |&last| last as usize <= n)
        && (n == 0 || batch.pulse_first.first() == Some(&0))
}

/// Hands one batch to the writer; all of it at once if nothing has to be refused.
fn take(
    batch: &EventBatch,
    pixels: u32,
    writer: &mut Writer,
    sheet: &Sheet,
    kept: &mut Vec<(u32, u32)>,
) -> Result<(), NexusError> {
    let ends = batch.pulse_first.iter().skip(1).map(|&i| i as usize).chain([batch.pixel.len()]);
    let rows = batch.pulse_ns.iter().zip(&batch.pulse_first).zip(ends);
    // A fold without early exit: the compiler makes vector code of it, 10 G/s.
    let worst = batch.pixel.iter().fold(0, |m, &p| m.max(p.wrapping_sub(1)));
    let latest = batch.offset_ns.iter().fold(0, |m, &t| m.max(t));
    let clean = worst < pixels && latest <= i32::MAX as u32;
    for ((&pulse, &first), end) in rows {
        let first = first as usize;
        let Ok(zero) = u64::try_from(pulse) else {
            refuse(sheet, Refusal::Before1970, end - first);
            sheet.add(NexusCounter::PulsesBefore1970 as usize, 1);
            continue;
        };
        writer.open_pulse(zero);
        let (pixel, offset_ns) = (&batch.pixel[first..end], &batch.offset_ns[first..end]);
        if clean || pixel.is_empty() {
            writer.append(pixel, offset_ns)?;
        } else {
            kept.clear();
            for (&p, &t) in pixel.iter().zip(offset_ns) {
                if p.wrapping_sub(1) >= pixels {
                    refuse(sheet, Refusal::OutsidePixels, 1);
                } else if t > i32::MAX as u32 {
                    refuse(sheet, Refusal::OffsetRange, 1);
                } else {
                    kept.push((p, t));
                }
            }
            for &(p, t) in kept.iter() {
                writer.append(&[p], &[t])?;
            }
        }
    }
    Ok(())
}

/// What stands at the path of a new file.
#[derive(Debug)]
enum There {
    /// Nothing.
    Nothing,
    /// What may be replaced; nobody begins to write it while this is held.
    Replaced(#[expect(dead_code, reason = "held for its lock")] fs::File),
    /// What a killed run left.
    Unfinished,
}

/// Looks at what is at the path and changes nothing.
fn look(path: &Path, existing: Existing) -> Result<There, NexusError> {
    let doing = "look at the existing file";
    let file = match lock::alone(path).map_err(io_error(path, doing))? {
        lock::Found::Nothing => return Ok(There::Nothing),
        lock::Found::InUse => return Err(NexusError::InUse { path: path.to_owned() }),
        lock::Found::Free(file) => file,
    };
    let bytes = file.metadata().map_err(io_error(path, doing))?.len();
    if bytes == 0 || existing == Existing::Replace {
        return Ok(There::Replaced(file));
    }
    let superblock = Superblock::read(&file).map_err(io_error(path, doing))?;
    if superblock.is_ok_and(|s| s.unfinished(bytes)) {
        Ok(There::Unfinished)
    } else {
        Err(NexusError::Exists { path: path.to_owned(), bytes })
    }
}

/// A file that is ready, but not yet at its path. Dropping it removes it; what is at the path stays.
#[derive(Debug)]
pub struct PreparedFile {
    sink: NexusSink,
    existing: There,
}

impl PreparedFile {
    /// Puts the file at its path, in one step, in place of what is there. What a killed run left there
    /// is recovered and renamed first.
    ///
    /// # Errors
    /// That file cannot be recovered, or the system refuses to rename; no event of an existing file is
    /// lost then.
    pub fn publish(self) -> Result<NexusSink, NexusError> {
        let PreparedFile { mut sink, existing } = self;
        let path = sink.path.clone();
        let (recovered, replace) = match &existing {
            There::Nothing => (None, false),
            There::Replaced(_) => (None, true),
            There::Unfinished => {
                let mut found = recover(&path)?;
                let to = free_name(&path);
                move_to_free(&path, &to).map_err(io_error(&path, "rename the recovered file"))?;
                found.path = to;
                (Some(found), false)
            }
        };
        let State::Open(writer) = &mut sink.state else { unreachable!("just made") };
        if let Err(e) = writer.publish(replace) {
            if let Some(found) = &recovered {
                // Back to where its owner looks for it; the error below says what matters.
                let _ = move_to_free(&found.path, &path);
            }
            return Err(io_error(&path, "move the file to its path")(e));
        }
        sink.recovered = recovered;
        Ok(sink)
    }
}

/// `run.nxs` → `run.recovered-1.nxs`, or the next number that is free.
fn free_name(path: &Path) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().map(|e| format!(".{}", e.to_string_lossy()));
    let extension = extension.unwrap_or_default();
    let name = |n: u32| path.with_file_name(format!("{stem}.recovered-{n}{extension}"));
    (1..).map(name).find(|p| !p.exists()).expect("4 G names")
}
