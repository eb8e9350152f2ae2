//! The sink: checks events against the pixel map, passes them to the writer, flushes on time, closes.
//!
//! Refuses (and counts, one counter per reason): events outside `detector_number`, which readers would drop silently;
//! pulses before 1970, which uint64 cannot hold; offsets that int32 cannot hold; batches whose columns contradict each
//! other. Source: `docs/formats/nexus.md` sections 4, 6, 8.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fullcount_core::ledger::Sheet;
use fullcount_core::products::{EventBatch, Products};
use fullcount_core::progress::{Flush, SafeBatches};
use fullcount_io::building::{Building, Leftover, landing};
use fullcount_io::lock;
use fullcount_io::newfile::move_to_free;

use super::change::{NexusChange, NexusOrders};
use super::error::{NexusError, io_error};
use super::files::{ClosedFiles, FilePart, OpenFiles};
use super::options::{Existing, NexusOptions};
use super::recover::{Recovered, recover};
use super::superblock::Superblock;
use super::when::nanos;
use fullcount_core::sink::{Report, Sink, SinkError};

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
        Stopped "sink.nexus.not_written" Events Sum "sink.nexus" Rejected
            "events that came between NEXUS_STOP and NEXUS_START: they were not to be written" "nothing: it was asked for";
        Files "sink.nexus.files" Times Sum "sink.nexus" Note "NeXus files begun" "";
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

/// Ends the name of a file that is not whole yet.
pub const BUILDING: &str = ".building";

#[derive(Debug)]
enum State {
    Open(Box<OpenFiles>),
    Closed(Report),
    Failed(String),
}

/// Writes events into a NeXus file, or into one after the other as commands say. A required sink.
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
    /// Places are numbers of flushes.
    safe: SafeBatches,
    orders: Arc<NexusOrders>,
}

impl NexusSink {
    /// Makes the file, ready for events and for readers with `swmr=True`: [`NexusSink::prepare`], then
    /// [`PreparedFile::publish`].
    ///
    /// A file that exists at the path is as it was after any failure.
    pub fn create(options: &NexusOptions) -> Result<NexusSink, NexusError> {
        NexusSink::prepare(options)?.publish()
    }

    /// Creates the file next to its path and does everything that can fail, without changing anything at the path.
    /// Publish it when the rest of the run has started too.
    ///
    /// # Errors
    /// Refused options ([`NexusOptions::validate`]), a path that cannot hold a file, an existing file
    /// that may not be replaced, or a system or HDF5 error with the path.
    pub fn prepare(options: &NexusOptions) -> Result<PreparedFile, NexusError> {
        options.validate()?;
        let path = landing(&options.path);
        // First the place, then the look: a second run with the same path stops at the place's lock.
        let place = Building::reserve(&path, BUILDING, Leftover::Removed)?;
        let existing = look(&path, options.existing)?;
        let part = FilePart::build(options, &path, place)?;
        let orders: Arc<NexusOrders> = Arc::default();
        (orders.asked().path, orders.asked().files) = (Some(path.clone()), 1);
        let sink = NexusSink {
            state: State::Open(Box::new(OpenFiles::new(part))),
            orders,
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
            safe: SafeBatches::default(),
        };
        Ok(PreparedFile { sink, existing })
    }

    /// Gives up a run that never began: closes the file, and removes it if nothing was put into it.
    /// Dropping the sink does the same.
    pub fn abandon(self) {
        drop(self);
    }

    /// Where commands leave what is to happen to the file.
    pub fn orders(&self) -> Arc<NexusOrders> {
        self.orders.clone()
    }

    /// The unfinished file of an earlier run at the path: its content and its new path.
    pub fn recovered(&self) -> Option<&Recovered> {
        self.recovered.as_ref()
    }

    /// Flushes everything taken so far, at once.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn flush(&mut self) -> Result<(), SinkError> {
        self.with_files(|files, sheet, _| {
            files.open().try_for_each(|part| part.writer.commit())?;
            sheet.add(NexusCounter::Flushes as usize, 1);
            Ok(())
        })?;
        self.safe.reached(self.flushes());
        Ok(())
    }

    fn flushes(&self) -> u64 {
        self.sheet.get(NexusCounter::Flushes as usize)
    }

    fn with_files(
        &mut self,
        work: impl FnOnce(&mut OpenFiles, &Sheet, &mut Vec<(u32, u32)>) -> Result<(), NexusError>,
    ) -> Result<(), SinkError> {
        let result = match &mut self.state {
            State::Open(files) => {
                let result = work(files, &self.sheet, &mut self.kept);
                count(&self.sheet, files);
                result
            }
            State::Closed(_) => {
                return Err(sink_error(format!("{}: the file is closed", self.path.display())));
            }
            State::Failed(message) => return Err(sink_error(message.clone())),
        };
        result.map_err(|e| self.fail(&e))
    }

    /// What commands ask for, and the end of a file whose pulses are over. `at_once`: no pulse is waited for.
    fn changes(&mut self, at_once: bool) -> Result<(), SinkError> {
        let State::Open(files) = &mut self.state else { return Ok(()) };
        let now = self.since_start;
        let mut over: Vec<FilePart> = files.over(now).into_iter().collect();
        if !self.orders.changes.is_empty() && (at_once || files.can_change(now)) {
            let refused = refused(&self.sheet);
            match self.orders.changes.take() {
                Some(NexusChange::To(begun)) => {
                    let part = begun.begin(refused);
                    self.path.clone_from(&part.path);
                    over.extend(files.change(Some(part), now));
                    self.sheet.add(NexusCounter::Files as usize, 1);
                }
                Some(NexusChange::Stop) => over.extend(files.change(None, now)),
                None => {}
            }
        }
        over.into_iter().try_for_each(|part| self.close_part(part)).map_err(|e| self.fail(&e))
    }

    /// From here on every call fails with the first error; events that were not flushed are counted as lost.
    fn fail(&mut self, error: &NexusError) -> SinkError {
        self.sheet.set(NexusCounter::Waiting as usize, 0);
        let taken = self.sheet.get(NexusCounter::In as usize);
        let settled = [
            NexusCounter::Events,
            NexusCounter::OutsidePixels,
            NexusCounter::Before1970,
            NexusCounter::OffsetRange,
            NexusCounter::Malformed,
            NexusCounter::Stopped,
        ];
        let settled: u64 = settled.iter().map(|&c| self.sheet.get(c as usize)).sum();
        self.sheet.set(NexusCounter::Unwritten as usize, taken.saturating_sub(settled));
        self.orders.asked().failed = Some(error.to_string());
        let failed = State::Failed(error.to_string());
        if let State::Open(files) = std::mem::replace(&mut self.state, failed) {
            let OpenFiles { before, current, .. } = *files;
            before.into_iter().chain(current).for_each(|part| part.writer.let_go());
        }
        sink_error(error.to_string())
    }

    /// Completes and closes a file.
    fn close_part(&mut self, part: FilePart) -> Result<(), NexusError> {
        let FilePart { mut writer, path, refused_before } = part;
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
        let (rows, refused) = (writer.rows(), refused(&self.sheet) - refused_before);
        let events = writer.close(end_ns, refused, &self.panel)?;
        let meta = fs::metadata(&path).map_err(io_error(&path, "read the file's size"))?;
        if self.read_only {
            let mut permissions = meta.permissions();
            permissions.set_readonly(true);
            fs::set_permissions(&path, permissions)
                .map_err(io_error(&path, "take the write permission away"))?;
        }
        let State::Open(files) = &mut self.state else { return Ok(()) };
        let closed = &mut files.closed;
        closed.files += 1;
        closed.events += events;
        closed.rows += rows;
        closed.bytes += meta.len();
        closed.first.get_or_insert(path);
        count(&self.sheet, files);
        Ok(())
    }

    fn close(&mut self) -> Result<Report, NexusError> {
        let State::Open(files) = &mut self.state else { unreachable!("finish looked") };
        let parts: Vec<FilePart> =
            files.before.take().into_iter().chain(files.current.take()).collect();
        parts.into_iter().try_for_each(|part| self.close_part(part))?;
        let State::Open(files) = &self.state else { unreachable!("closing changes no state") };
        let place = files.place(&self.path);
        let ClosedFiles { events, bytes, .. } = files.closed;
        Ok(Report { place, events, bytes, ..Report::default() })
    }
}

/// Brings the counters of all files together up to date.
fn count(sheet: &Sheet, files: &OpenFiles) {
    let (events, committed, rows) = files.counts();
    sheet.set(NexusCounter::Events as usize, committed);
    sheet.set(NexusCounter::Waiting as usize, events - committed);
    sheet.set(NexusCounter::Pulses as usize, rows);
}

/// Events refused so far.
fn refused(sheet: &Sheet) -> u64 {
    let reasons = [
        NexusCounter::OutsidePixels,
        NexusCounter::Before1970,
        NexusCounter::OffsetRange,
        NexusCounter::Malformed,
    ];
    reasons.iter().map(|&reason| sheet.get(reason as usize)).sum()
}

impl Sink for NexusSink {
    fn name(&self) -> &'static str {
        "nexus"
    }

    fn required(&self) -> bool {
        true
    }

    fn push(&mut self, products: &Arc<Products>) -> Result<(), SinkError> {
        self.changes(false)?;
        let pixels = self.pixels;
        self.with_files(|files, sheet, kept| {
            let batch = &products.events;
            if !batch.pixel.is_empty() || !batch.pulse_ns.is_empty() {
                files.open().for_each(|part| part.writer.keep());
            }
            sheet.add(NexusCounter::In as usize, batch.len() as u64);
            if well_formed(batch) {
                take(batch, pixels, files, sheet, kept)?;
            } else {
                refuse(sheet, Refusal::Malformed, batch.len());
            }
            for part in files.open().filter(|part| part.writer.rows_full()) {
                part.writer.commit()?;
                sheet.add(NexusCounter::Flushes as usize, 1);
            }
            Ok(())
        })?;
        self.safe.took(products.complete, self.flushes() + 1);
        if products.flush == Some(Flush::Taken) { self.flush() } else { Ok(()) }
    }

    fn safe(&self, pipeline: u32) -> u64 {
        self.safe.upto(pipeline)
    }

    fn tick(&mut self, since_start: Duration) -> Result<(), SinkError> {
        self.since_start = since_start;
        self.changes(false)?;
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
        // What was asked for last has its file, although nothing comes for it.
        while !self.orders.changes.is_empty() {
            self.changes(true)?;
        }
        self.orders.asked().failed = Some("the run has ended".into());
        match self.close() {
            Ok(report) => {
                self.safe.reached(u64::MAX);
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
    /// A sink that is dropped without `finish` (a panic elsewhere) still closes its file. If it is empty, the start
    /// failed: then the file is removed, so that it does not block the next start.
    fn drop(&mut self) {
        let kept = |files: &OpenFiles| {
            let mut parts = files.before.iter().chain(&files.current);
            files.closed.files > 0 || parts.any(|part| part.writer.is_kept())
        };
        if matches!(&self.state, State::Open(files) if kept(files)) {
            // The error cannot be reported any more; flushed data stays recoverable.
            let _ = self.finish();
        } else if let State::Open(files) =
            std::mem::replace(&mut self.state, State::Failed(String::new()))
        {
            let OpenFiles { before, current, .. } = *files;
            before.into_iter().chain(current).for_each(|part| part.writer.let_go());
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

/// Passes one batch to the files, completely if nothing has to be refused.
fn take(
    batch: &EventBatch,
    pixels: u32,
    files: &mut OpenFiles,
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
        let Some(writer) = files.of(zero) else {
            sheet.add(NexusCounter::Stopped as usize, (end - first) as u64);
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

/// What exists at the path of a new file.
#[derive(Debug)]
enum There {
    /// Nothing.
    Nothing,
    /// A file that may be replaced; no process can begin to write it while this is held.
    Replaced(#[expect(dead_code, reason = "held for its lock")] fs::File),
    /// What a killed run left.
    Unfinished,
}

/// Checks what is at the path and changes nothing.
fn look(path: &Path, existing: Existing) -> Result<There, NexusError> {
    let doing = "look at the existing file";
    let file = match lock::alone(path).map_err(io_error(path, doing))? {
        lock::LockFound::Nothing => return Ok(There::Nothing),
        lock::LockFound::InUse => return Err(NexusError::InUse { path: path.to_owned() }),
        lock::LockFound::Free(file) => file,
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

/// A file that is ready, but not yet at its path. Dropping it removes it; a file at the path stays.
#[derive(Debug)]
pub struct PreparedFile {
    sink: NexusSink,
    existing: There,
}

impl PreparedFile {
    /// As [`NexusSink::orders`].
    pub fn orders(&self) -> Arc<NexusOrders> {
        self.sink.orders()
    }

    /// Moves the file to its path atomically, replacing an existing one. An unfinished file of a killed run there is
    /// recovered and renamed first.
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
        let State::Open(files) = &mut sink.state else { unreachable!("just made") };
        let part = files.current.as_mut().expect("the file that was made");
        if let Err(e) = part.writer.publish(replace) {
            if let Some(found) = &recovered {
                // Moved back to where its owner looks for it; the error below has the reason.
                let _ = move_to_free(&found.path, &path);
            }
            return Err(io_error(&path, "move the file to its path")(e));
        }
        sink.recovered = recovered;
        sink.sheet.add(NexusCounter::Files as usize, 1);
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
