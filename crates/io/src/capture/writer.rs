//! The capture's writing side: a thread that empties the rings of all workers into files.
//!
//! [`Capture::open`] makes the first file, [`Capture::tap`] a ring for each worker, [`Capture::start`] the thread.
//! Before that no existing file changes: a capture that never starts leaves no file and replaces none. It ends when all
//! taps are closed, and [`RunningCapture::finish`] returns what it wrote. The first failure of a file ends the capture: it is
//! reported at once, and later packets are counted. Packets of different workers are in the file by block, so that
//! its times may step back by 50 ms; those of one sender are in order.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fullcount_core::ledger::Sheet;
use fullcount_core::wall::{ClockRecord, WallClock};

use super::block::{BLOCK_BYTES, Block};
use super::change::{CaptureChange, CaptureOrders};
use super::disk::Disk;
use super::files::{Files, Made, system};
use super::frames::Frames;
use super::tap::{Captured, Tap};
use super::taps::{LineEnd, TapOptions, Taps, Turn, lines};
use super::{CaptureError, CaptureOptions};
use crate::pcap::clock::{self, CommentPlace};
use crate::source::{Source, SourceError};

fullcount_core::counters! {
    /// What the capture's writer counts.
    pub enum Written {
        Packets "sink.capture.written" Packets Sum "sink.capture" Accepted
            "packets written to the capture" "";
        Failed "sink.capture.failed" Packets Sum "sink.capture" Dropped(Queue)
            "packets not captured because writing had failed (their events were made)"
            "the message of the capture says why: room on the disk, its permissions; \
             output.capture.keep bounds what a series takes";
        Queued "sink.capture.queued" Packets Sum "sink.capture" Queued
            "packets on their way to the file" "";
        Bytes "sink.capture.bytes" Bytes Sum "sink.capture" Note
            "bytes written to the capture, with made-up headers and framing" "";
        Files "sink.capture.files" Times Sum "sink.capture" Note
            "files begun" "";
        Stopped "sink.capture.not_written" Packets Sum "sink.capture" Rejected
            "packets that came between CAPTURE_STOP and CAPTURE_START: they were not to be captured" "nothing: it was asked for";
        Removed "sink.capture.removed" Times Sum "sink.capture" Note
            "files removed, as output.capture.keep wants" "";
    }
}

/// Frames are copied to the disk's piece when they have this many bytes: they are in the second-level
/// cache then.
const WRITE_BYTES: usize = 128 << 10;
/// Pause of a writer with nothing to do: 1 ms of 10 Gb/s is one block and a quarter.
const NAP: Duration = Duration::from_millis(1);
/// If progress is needed, a writer that is never idle syncs this often.
const SETTLE_EVERY: Duration = Duration::from_secs(1);

/// A capture whose first file is there and locked.
pub struct Capture {
    output: Output,
    taps: Taps,
    sheet: Arc<Sheet>,
}

/// What a capture wrote.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CaptureReport {
    /// Its file, or the first and the last of a series.
    pub place: String,
    /// Packets.
    pub packets: u64,
    /// Bytes, framing included.
    pub bytes: u64,
    /// Files begun.
    pub files: u64,
}

/// A running capture.
pub struct RunningCapture {
    thread: JoinHandle<Result<CaptureReport, CaptureError>>,
}

impl Capture {
    /// Makes the first file and, for `workers` of them, the buffer.
    ///
    /// # Errors
    /// The file exists or cannot be made.
    pub fn open(options: &CaptureOptions, workers: usize) -> Result<Capture, CaptureError> {
        let sheet = Sheet::new(lines(Written::catalogue(), "capture", options.required));
        let output = Output::open(options, sheet.clone())?;
        let taps = Taps::new(&TapOptions {
            output: "capture",
            place: &options.file.display().to_string(),
            buffer: options.buffer,
            workers,
            required: options.required,
            every: 1,
        });
        Ok(Capture { output, taps, sheet })
    }

    /// Where commands leave what is to happen to the files.
    pub(super) fn orders(&self) -> Arc<CaptureOrders> {
        self.output.orders.clone()
    }

    /// Counters of the writer.
    pub fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }

    /// Wraps the source of one worker; `name` becomes that of its interface in the file.
    ///
    /// # Errors
    /// The source cannot say when its packets came.
    pub fn tap(&mut self, source: Box<dyn Source>, name: &str) -> Result<Tap, SourceError> {
        self.taps.tap(source, name)
    }

    /// Up to which batch of a worker all is written; `None` if its losses do not count for the run.
    pub fn safe(&self, worker: usize) -> Option<Arc<AtomicU64>> {
        self.taps.safe(worker)
    }

    /// Starts to write. `on_failure` is called at once, on the writing thread, if that fails.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start(
        self,
        on_failure: impl Fn(&CaptureError) + Send + 'static,
    ) -> std::io::Result<RunningCapture> {
        let thread = thread::Builder::new()
            .name("capture".into())
            .spawn(move || serve(self.output, self.taps, &self.sheet, on_failure))?;
        Ok(RunningCapture { thread })
    }
}

impl RunningCapture {
    /// Waits for the end, which comes when all taps have gone; the file is on the disk then.
    ///
    /// # Errors
    /// Why not all was written.
    pub fn finish(self) -> Result<CaptureReport, CaptureError> {
        self.thread.join().unwrap_or(Err(CaptureError::Panicked))
    }
}

/// The thread: until all workers have gone and their rings are empty.
fn serve(
    mut output: Output,
    mut taps: Taps,
    sheet: &Sheet,
    on_failure: impl Fn(&CaptureError),
) -> Result<CaptureReport, CaptureError> {
    let (mut failure, mut settled) = (None, Instant::now());
    output.interfaces = taps.workers().iter().map(|l| l.name.clone()).collect();
    let mut outcome = output.first();
    loop {
        if let Err(e) = outcome {
            taps.fail();
            on_failure(&e);
            output.give_up();
            failure.get_or_insert(e);
        }
        outcome = output.changes();
        let turn = taps.blocks(|at, block| {
            if output.broken || outcome.is_err() {
                sheet.add(Written::Failed as usize, block.packets());
            } else if output.stopped {
                sheet.add(Written::Stopped as usize, block.packets());
            } else {
                outcome = output.block(at as u32, block);
            }
        });
        let due = turn == Turn::Data && taps.are_followed() && settled.elapsed() >= SETTLE_EVERY;
        match turn {
            Turn::Data if !due => continue,
            Turn::Data | Turn::Idle if outcome.is_ok() => {
                output.clocks();
                outcome = output.settle();
                settled = Instant::now();
                if outcome.is_ok() && !output.broken {
                    taps.safe_now();
                }
            }
            Turn::Data | Turn::Idle => {}
            Turn::Over => break,
        }
        thread::sleep(NAP);
    }
    match output.end(taps.workers()) {
        Ok(()) if !output.broken => taps.all_safe(),
        Ok(()) => {}
        Err(e) => {
            on_failure(&e);
            output.give_up();
            failure.get_or_insert(e);
        }
    }
    failure.map_or(Ok(std::mem::take(&mut output.report)), Err)
}

/// The file being written, and those to come.
struct Output {
    files: Files,
    /// Until it begins.
    opened: Option<Made>,
    disk: Disk,
    frames: Frames,
    interfaces: Vec<String>,
    rotate_size: Option<u64>,
    rotate_ns: Option<i64>,
    /// Bytes of this file, those not yet written included.
    size: u64,
    /// Receive time of this file's first packet.
    first_ns: Option<i64>,
    last_ns: i64,
    /// Packets in the frames that the disk does not have yet, and of the block in hand that are not in
    /// frames.
    pending: u64,
    left: u64,
    /// Packets that the disk has, but has not said to have written.
    under_way: u64,
    first_place: String,
    path: std::path::PathBuf,
    report: CaptureReport,
    sheet: Arc<Sheet>,
    broken: bool,
    /// Somebody asked for it: what comes is not written.
    stopped: bool,
    orders: Arc<CaptureOrders>,
    clock: Option<ClockNotes>,
}

/// What is written down of the run's clocks.
struct ClockNotes {
    wall: Arc<WallClock>,
    version: u64,
    /// Records of the run that are in this file or an earlier one.
    known: usize,
    /// Those of this file.
    here: Vec<ClockRecord>,
}

impl Output {
    fn open(options: &CaptureOptions, sheet: Arc<Sheet>) -> Result<Output, CaptureError> {
        let mut files = Files::new(options)?;
        let disk = Disk::new().map_err(system(&options.file, "starting a thread"))?;
        let made = files.next()?;
        let path = made.path.clone();
        let first_place = path.display().to_string();
        let output = Output {
            files,
            opened: Some(made),
            disk,
            frames: Frames::new(WRITE_BYTES + 2 * BLOCK_BYTES),
            interfaces: Vec::new(),
            rotate_size: options.rotate_size,
            rotate_ns: options.rotate_time.map(|t| i64::try_from(t.as_nanos()).unwrap_or(i64::MAX)),
            size: 0,
            first_ns: None,
            last_ns: 0,
            pending: 0,
            left: 0,
            under_way: 0,
            report: CaptureReport {
                place: first_place.clone(),
                files: 1,
                ..CaptureReport::default()
            },
            first_place,
            path,
            sheet,
            broken: false,
            stopped: false,
            orders: Arc::default(),
            clock: options.wall.clone().map(|wall| ClockNotes {
                wall,
                version: 0,
                known: 0,
                here: Vec::new(),
            }),
        };
        output.sheet.add(Written::Files as usize, 1);
        output.orders.asked().path = Some(options.file.clone());
        Ok(output)
    }

    /// Begins with the file that is open.
    fn first(&mut self) -> Result<(), CaptureError> {
        if let Some(made) = self.opened.take() {
            let file = made.begin().map_err(Output::broke(&made.path))?;
            self.to(file)?;
        }
        self.begin()
    }

    /// Changes to a file, whose path is known; removes surplus files of a series.
    fn to(&mut self, file: std::fs::File) -> Result<(), CaptureError> {
        self.disk.begin(file, &self.path).map_err(Output::broke(&self.path))?;
        self.sheet.add(Written::Removed as usize, self.files.prune());
        Ok(())
    }

    fn broke(path: &Path) -> impl FnOnce(std::io::Error) -> CaptureError + '_ {
        system(path, "writing")
    }

    /// Writes the head, so that a file without packets can be read as well.
    fn begin(&mut self) -> Result<(), CaptureError> {
        self.frames.head(&self.interfaces);
        if let Some(notes) = &mut self.clock {
            notes.here = if notes.known == 0 { Vec::new() } else { notes.wall.all_current() };
            for text in clock::comments(CommentPlace::Head, &notes.here) {
                self.frames.comment(self.last_ns, &text);
            }
        }
        self.size = self.frames.bytes().len() as u64;
        self.first_ns = None;
        self.settle()
    }

    /// Writes new records of the clocks.
    fn clocks(&mut self) {
        let Some(notes) = &mut self.clock else { return };
        let version = notes.wall.version();
        if version == notes.version {
            return;
        }
        notes.version = version;
        let (records, known) = notes.wall.records_from(notes.known);
        if records.is_empty() {
            return;
        }
        notes.known = known;
        for text in clock::comments(CommentPlace::More, &records) {
            self.frames.comment(self.last_ns, &text);
        }
        notes.here.extend(records);
    }

    /// Makes frames of a block and writes them when there are enough.
    fn block(&mut self, interface: u32, block: &Block) -> Result<(), CaptureError> {
        self.left = block.packets();
        self.clocks();
        let mut lost = block.dropped;
        for (train, to) in block.trains() {
            if self.rotates(train.bytes.len(), train.stride, train.time_ns) {
                self.next_file()?;
            }
            self.first_ns.get_or_insert(train.time_ns);
            self.last_ns = train.time_ns;
            let before = self.frames.bytes().len();
            for payload in train.chunks() {
                self.frames.datagram(interface, &train, to, payload, std::mem::take(&mut lost));
            }
            let n = train.count() as u64;
            (self.pending, self.left) = (self.pending + n, self.left.saturating_sub(n));
            self.size += (self.frames.bytes().len() - before) as u64;
            if self.frames.bytes().len() >= WRITE_BYTES {
                self.write()?;
            }
        }
        Ok(())
    }

    /// True if a train must begin a new file.
    fn rotates(&self, len: usize, stride: usize, time_ns: i64) -> bool {
        let Some(first) = self.first_ns else { return false };
        let late = self.rotate_ns.is_some_and(|t| time_ns.saturating_sub(first) >= t);
        late || self.rotate_size.is_some_and(|most| {
            let each = if stride == 0 { len } else { stride };
            let count = len.div_ceil(each.max(1)).max(1) as u64;
            self.size + Frames::size(each).saturating_mul(count) > most
        })
    }

    /// Repeats all of the file's records at its end, where they are found without reading the file.
    fn all_clocks(&mut self) {
        self.clocks();
        let Some(notes) = &self.clock else { return };
        for text in clock::comments(CommentPlace::All, &notes.here) {
            self.frames.comment(self.last_ns, &text);
        }
    }

    fn next_file(&mut self) -> Result<(), CaptureError> {
        self.close()?;
        let made = self.files.next()?;
        self.go_on(made)
    }

    /// Completes the file that is written.
    fn close(&mut self) -> Result<(), CaptureError> {
        self.all_clocks();
        self.settle()?;
        self.disk.finish().map_err(Output::broke(&self.path))
    }

    /// What commands ask for.
    fn changes(&mut self) -> Result<(), CaptureError> {
        if self.broken || self.orders.changes.is_empty() {
            return Ok(());
        }
        let Some(change) = self.orders.changes.take() else { return Ok(()) };
        if !self.stopped {
            self.close()?;
        }
        self.stopped = matches!(change, CaptureChange::Stop);
        match change {
            CaptureChange::Stop => Ok(()),
            CaptureChange::To(begun) => {
                let (files, made) = begun.begin();
                self.files = files;
                self.go_on(made)
            }
        }
    }

    /// Writes to this file from here on.
    fn go_on(&mut self, made: Made) -> Result<(), CaptureError> {
        self.path = made.path;
        self.to(made.file)?;
        self.report.files += 1;
        self.report.place = format!("{} to {}", self.first_place, self.path.display());
        self.sheet.add(Written::Files as usize, 1);
        self.begin()
    }

    /// Gives the collected frames to the disk.
    fn write(&mut self) -> Result<(), CaptureError> {
        let packets = std::mem::take(&mut self.pending);
        self.under_way += packets;
        let given = self.disk.append(self.frames.bytes(), packets);
        self.count();
        given.map_err(Output::broke(&self.path))?;
        self.frames.clear();
        Ok(())
    }

    /// Counts what the disk has written.
    fn count(&mut self) {
        let (bytes, packets) = self.disk.done();
        self.under_way = self.under_way.saturating_sub(packets);
        self.report.bytes += bytes;
        self.report.packets += packets;
        self.sheet.add(Written::Bytes as usize, bytes);
        self.sheet.add(Written::Packets as usize, packets);
    }

    /// As [`Output::write`], and makes sure that a reader of the file sees all of it.
    fn settle(&mut self) -> Result<(), CaptureError> {
        if self.broken || self.stopped {
            return Ok(());
        }
        if !self.frames.bytes().is_empty() {
            self.write()?;
        }
        let seen = self.disk.flush();
        self.count();
        seen.map_err(Output::broke(&self.path))
    }

    /// Writing has failed: data in flight is lost.
    fn give_up(&mut self) {
        self.broken = true;
        self.orders.asked().failed = Some("writing the capture has failed".into());
        self.frames.clear();
        self.count();
        let open = [&mut self.pending, &mut self.left, &mut self.under_way];
        let lost = open.into_iter().map(std::mem::take).sum();
        self.sheet.add(Written::Failed as usize, lost);
    }

    /// Closes the last file with what became of each worker's packets.
    fn end(&mut self, lines: &[LineEnd]) -> Result<(), CaptureError> {
        while !self.broken && !self.orders.changes.is_empty() {
            // What was asked for last has its file, although nothing comes for it.
            self.changes()?;
        }
        self.orders.asked().failed = Some("the run has ended".into());
        if self.broken || self.stopped {
            return Ok(());
        }
        for (at, line) in lines.iter().enumerate() {
            let get = |c: Captured| line.sheet.get(c as usize);
            let lost = get(Captured::Dropped) + get(Captured::Failed) + get(Captured::TooLong);
            let got = get(Captured::Packets).saturating_sub(lost);
            self.frames.statistics(at as u32, self.last_ns, (got, lost));
        }
        self.close()
    }
}

impl Drop for Output {
    /// One that never began leaves no file.
    fn drop(&mut self) {
        if let Some(made) = self.opened.take() {
            made.give_up();
        }
    }
}
