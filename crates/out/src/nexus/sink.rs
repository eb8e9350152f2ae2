//! The sink: checks events against the pixel map, hands them to the writer, flushes on time, closes.
//!
//! Refuses (and counts, one counter per reason): events outside `detector_number`, which readers would
//! drop without a word; pulses before 1970, which uint64 cannot hold; offsets that int32 cannot hold;
//! batches whose columns contradict each other. Source: `docs/formats/nexus.md` sections 4, 6, 8.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fullcount_core::ledger::Sheet;
use fullcount_core::products::{EventBatch, Products};

use super::error::{NexusError, io_error};
use super::layout;
use super::options::{Existing, NexusOptions};
use super::recover::{Recovered, recover};
use super::superblock::Superblock;
use super::when::nanos;
use super::writer::{Writer, building_path};
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
    /// Makes the file, ready for events and for readers with `swmr=True`.
    ///
    /// # Errors
    /// Refused options ([`NexusOptions::validate`], before anything is opened), an existing file that may not
    /// be replaced, or a system or HDF5 error with the path.
    pub fn create(options: &NexusOptions) -> Result<NexusSink, NexusError> {
        options.validate()?;
        let recovered = make_room(options)?;
        let start_ns = options.start_time_ns.unwrap_or_else(|| nanos(SystemTime::now()));
        let (path, building) = (&options.path, building_path(&options.path));
        layout::build(&building, options, start_ns).map_err(|e| {
            // Best effort: the error below says what matters.
            let _ = fs::remove_file(&building);
            super::error::hdf5_error(path, "create the file")(e)
        })?;
        fs::rename(&building, path).map_err(io_error(path, "create the file"))?;
        let writer = Writer::open(options)?;
        Ok(NexusSink {
            state: State::Open(Box::new(writer)),
            sheet: Sheet::new(NexusCounter::catalogue()),
            recovered,
            path: options.path.clone(),
            panel: options.panel.clone(),
            pixels: options.pixels.pixels(),
            fallback_pulse: u64::try_from(options.epoch.0).unwrap_or(0),
            flush_interval: options.flush_interval,
            last_flush: Duration::ZERO,
            since_start: Duration::ZERO,
            start_time_ns: options.start_time_ns,
            read_only: options.read_only,
            kept: Vec::new(),
        })
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
        self.state = State::Failed(error.to_string());
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
        // Mantid takes an empty event_time_zero for an error and a single 0 in event_index for an
        // empty bank: a closing pulse without events, at the time of the last one, cures both.
        while writer.rows() < 2 {
            writer.row(writer.last_pulse().unwrap_or(self.fallback_pulse));
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
        Ok(Report { place: path.display().to_string(), events, bytes: meta.len() })
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
    /// A sink that is dropped without `finish` (a panic elsewhere) still closes its file.
    fn drop(&mut self) {
        if matches!(self.state, State::Open(_)) {
            // Nobody is left to tell; what was flushed stays recoverable.
            let _ = self.finish();
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

/// Sees to it that nothing is at the path; recovers and renames an unfinished file.
fn make_room(options: &NexusOptions) -> Result<Option<Recovered>, NexusError> {
    let path = &options.path;
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(io_error(path, "look at the existing file")(e)),
    };
    let meta = file.metadata().map_err(io_error(path, "look at the existing file"))?;
    if !meta.is_file() {
        return Err(NexusError::Exists { path: path.clone(), what: "not a regular file".into() });
    }
    if let Err(fs::TryLockError::WouldBlock) = file.try_lock() {
        return Err(NexusError::InUse { path: path.clone() });
    }
    if meta.len() == 0 || options.existing == Existing::Replace {
        fs::remove_file(path).map_err(io_error(path, "remove the existing file"))?;
        return Ok(None);
    }
    let unfinished = Superblock::read(&file)
        .map_err(io_error(path, "look at the existing file"))?
        .is_ok_and(|s| s.unfinished(meta.len()));
    if !unfinished {
        let what = format!("{} bytes", meta.len());
        return Err(NexusError::Exists { path: path.clone(), what });
    }
    drop(file);
    let mut found = recover(path)?;
    let to = free_name(options);
    fs::rename(path, &to).map_err(io_error(path, "rename the recovered file"))?;
    found.path = to;
    Ok(Some(found))
}

/// `run.nxs` → `run.recovered-1.nxs`, or the next number that is free.
fn free_name(options: &NexusOptions) -> PathBuf {
    let path = &options.path;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().map(|e| format!(".{}", e.to_string_lossy()));
    let extension = extension.unwrap_or_default();
    let name = |n: u32| path.with_file_name(format!("{stem}.recovered-{n}{extension}"));
    (1..).map(name).find(|p| !p.exists()).expect("4 G names")
}
