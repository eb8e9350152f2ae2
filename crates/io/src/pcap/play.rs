//! A capture as a [`Source`]: recorded speed, a factor of it, or flat out; once, N times or for ever.
//!
//! * **Streaming** reads the file as it plays and copies payloads into the batch.
//! * **Preload** reads all payloads into one piece of shared memory (as large as the file) and then only refers to it:
//!   a pass costs no copy. With a [`Shift`] each pass is copied into the batch's own slots and shifted there.
//!
//! Datagrams become trains as on a socket: those within 1 ms of recorded time flat out, within 50 µs of playing time
//! otherwise (less than a sleep is exact to); a train carries the time of its first. Only flat out is lossless: a
//! capture played by the clock does not wait, like a network. With `shift`, times of later passes are shifted by the
//! recorded time of the passes before. Refuses files that cannot be opened or are no capture, `preload` of a pipe,
//! `repeat` of a pipe, `shift` without a rule for the format. A capture without any UDP datagram ends at once, even if
//! it is to be repeated for ever.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::sync::Arc;
use std::time::Duration;

use fullcount_core::batch::{Batch, Origin, TrainMeta};
use fullcount_core::ledger::Sheet;
use fullcount_core::link::LinkTime;

use super::datagrams::{CaptureTally, Datagrams};
use super::read::{CaptureReader, ReadError};
use super::replayed::Replayed;
use super::schedule::{MonotonicClock, ReplayClock, Schedule};
use super::trains::{Trains, single};
use crate::endpoint::{Ip, PcapSpeed, PcapUrl, Repeat};
use crate::source::{Received, Source, SourceError};

/// Trains in a batch at most: what one `recvmmsg` of the UDP source gives.
const MOST_TRAINS: usize = 64;
/// Bytes in a batch: stays in the second-level cache of a core, holds any datagram 15 times.
const BATCH_BYTES: usize = 1 << 20;
/// Longest UDP payload, bytes.
const LONGEST_PAYLOAD: usize = 65_535;
/// Trains flat out: datagrams recorded within 1 ms.
const FLAT_OUT_SPAN_NS: u64 = 1_000_000;
/// Trains by the clock: datagrams due within 50 µs, about what a sleep is exact to.
const CLOCK_SPAN_NS: f64 = 50_000.0;

/// Shifts counters and times inside a payload when a capture is repeated, so that a decoder sees one long run. It
/// depends on the format, so it is implemented with the formats.
pub trait Shift: Send {
    /// Changes `payload` in place for `repetition` 1, 2, …; pass 0 is played as recorded.
    fn shift(&mut self, payload: &mut [u8], origin: Origin, repetition: u64);
}

#[derive(Debug)]
enum Store {
    Preloaded {
        memory: Arc<[u8]>,
        trains: Box<[TrainMeta]>,
        /// Their destinations, in the same order.
        to: Box<[Origin]>,
        /// Next train to be played.
        at: usize,
    },
    Streaming {
        /// `None` only while a pass is being ended.
        datagrams: Option<Box<Datagrams<File>>>,
        /// Datagram that was read before it was due or before there was room.
        pending: Option<Pending>,
        spare: Vec<u8>,
    },
}

#[derive(Debug)]
struct Pending {
    bytes: Vec<u8>,
    origin: Origin,
    destination: std::net::SocketAddr,
    time_ns: i64,
    due_ns: u64,
}

/// A capture that is played.
pub struct PcapSource<C: ReplayClock = MonotonicClock> {
    url: PcapUrl,
    file: File,
    store: Store,
    shift: Option<Box<dyn Shift>>,
    clock: C,
    schedule: Schedule,
    /// Clock at the first receive.
    began_ns: Option<u64>,
    /// Due time of the next train of a preloaded capture, once asked for.
    due_ns: Option<u64>,
    /// Passes begun before the present one.
    repetition: u64,
    ended: bool,
    /// Batches say where trains were sent to.
    destinations: bool,
    /// Passes that are over.
    past: CaptureTally,
    sheet: Arc<Sheet>,
}

impl PcapSource {
    /// Opens (and with `preload` reads) the capture that `url` names.
    ///
    /// # Errors
    /// No such file, no permission, no capture, `preload` or `repeat` of anything but a regular file, or `shift` if the
    /// format has no rule for it.
    pub fn open(url: &PcapUrl, shift: Option<Box<dyn Shift>>) -> Result<PcapSource, SourceError> {
        PcapSource::with_clock(url, shift, MonotonicClock::default())
    }
}

impl<C: ReplayClock> PcapSource<C> {
    /// As [`PcapSource::open`], with a clock of the caller's.
    pub fn with_clock(
        url: &PcapUrl,
        shift: Option<Box<dyn Shift>>,
        clock: C,
    ) -> Result<PcapSource<C>, SourceError> {
        let fail = |what: &str, cause: String| error(url, what, cause);
        if url.shift && shift.is_none() {
            let cause = "the detector has no rule to move its counters and times on; leave it out";
            return Err(fail("shift", cause.into()));
        }
        let file = File::open(&url.path).map_err(|e| fail("cannot open", e.to_string()))?;
        let about = file.metadata().map_err(|e| fail("cannot open", e.to_string()))?;
        if about.is_dir() {
            return Err(fail("cannot open", "it is a directory".into()));
        }
        if !about.is_file() && (url.preload || url.repeat != Repeat::Times(1.try_into().unwrap())) {
            let cause = "preload and repeat need a regular file";
            return Err(fail("cannot read it twice", cause.into()));
        }
        let mut source = PcapSource {
            url: url.clone(),
            store: Store::Streaming { datagrams: None, pending: None, spare: Vec::new() },
            file,
            shift: shift.filter(|_| url.shift),
            clock,
            schedule: Schedule::new(url.speed),
            began_ns: None,
            due_ns: None,
            repetition: 0,
            ended: false,
            destinations: false,
            past: CaptureTally::default(),
            sheet: Sheet::new(Replayed::catalogue()),
        };
        let datagrams = source.pass(None)?;
        source.store = if url.preload {
            source.preload(datagrams, about.len())?
        } else {
            let datagrams = Some(Box::new(datagrams));
            Store::Streaming { datagrams, pending: None, spare: Vec::new() }
        };
        Ok(source)
    }

    /// Begins to read the file at its start.
    fn pass(&self, buffer: Option<Box<[u8]>>) -> Result<Datagrams<File>, SourceError> {
        let file = self.file.try_clone().map_err(|e| self.fail("cannot open", e))?;
        let reader = match buffer {
            Some(buffer) => CaptureReader::with_buffer(file, buffer),
            None => CaptureReader::new(file),
        };
        reader
            .map(|r| Datagrams::new(r, self.url.port).only(self.url.ip.unwrap_or(Ip::Any)))
            .map_err(|e: ReadError| error(&self.url, "cannot read", e.to_string()))
    }

    fn fail(&self, what: &str, cause: std::io::Error) -> SourceError {
        error(&self.url, what, cause.to_string())
    }

    /// Reads all payloads contiguously. Without headers they are fewer bytes than the file, so memory of the file's
    /// size is allocated once.
    fn preload(
        &mut self,
        mut datagrams: Datagrams<File>,
        file_len: u64,
    ) -> Result<Store, SourceError> {
        let room = usize::try_from(file_len).unwrap_or(usize::MAX);
        let mut memory: Arc<[u8]> = std::iter::repeat_n(0u8, room).collect();
        let bytes = Arc::get_mut(&mut memory).expect("nobody else has it yet");
        let mut joined = Trains::new(self.span_ns());
        let (mut trains, mut receivers) = (Vec::<TrainMeta>::new(), Vec::new());
        let (mut end, mut last_ns) = (0, 0);
        while let Some(d) = datagrams.next().map_err(|e| self.fail("cannot read", e))? {
            let len = d.payload.len();
            let Some(place) = bytes.get_mut(end..end + len) else {
                let cause = "the file grew while it was read: wait until the recording is over";
                return Err(error(&self.url, "cannot preload", cause.into()));
            };
            place.copy_from_slice(d.payload);
            last_ns = d.time_ns.unwrap_or(last_ns);
            let to = Some(d.destination);
            if !joined.join(trains.last_mut(), end, len, d.origin, to, last_ns) {
                trains.push(single(end, len, d.origin, last_ns));
                receivers.push(Origin::from(d.destination));
            }
            end += len;
        }
        self.past = datagrams.tally();
        let (trains, to) = (trains.into_boxed_slice(), receivers.into_boxed_slice());
        Ok(Store::Preloaded { memory, trains, to, at: 0 })
    }

    fn span_ns(&self) -> u64 {
        if self.url.exact_times {
            return 0;
        }
        match self.url.speed {
            PcapSpeed::FlatOut => FLAT_OUT_SPAN_NS,
            PcapSpeed::Recorded => CLOCK_SPAN_NS as u64,
            PcapSpeed::Factor(f) => (CLOCK_SPAN_NS * f) as u64,
        }
    }

    /// Nanoseconds since the first receive.
    fn now(&mut self) -> u64 {
        let now = self.clock.now_ns();
        now - *self.began_ns.get_or_insert(now)
    }

    /// Recorded time that earlier passes took, for chunk times of a shifted replay.
    fn time_base(&self) -> i64 {
        if self.shift.is_some() {
            i64::try_from(self.schedule.base_ns()).unwrap_or(i64::MAX)
        } else {
            0
        }
    }

    /// After the last datagram of a pass: true if there is another pass.
    fn again(&mut self) -> Result<bool, SourceError> {
        self.sheet.add(Replayed::Passes as usize, 1);
        self.repetition += 1;
        let more = match self.url.repeat {
            Repeat::Times(n) => self.repetition < n.get(),
            Repeat::Forever => true,
        };
        let mut buffer = None;
        let empty = match &mut self.store {
            Store::Preloaded { trains, at, .. } => {
                *at = 0;
                trains.is_empty()
            }
            Store::Streaming { datagrams, .. } => {
                let over = datagrams.take();
                let tally = over.as_ref().map_or_else(CaptureTally::default, |d| d.tally());
                buffer = over.map(|d| d.into_buffer());
                self.past.add(&tally);
                tally.datagrams == 0
            }
        };
        if !more || empty {
            self.ended = true;
            return Ok(false);
        }
        self.schedule.again();
        if matches!(self.store, Store::Streaming { .. }) {
            let rewound = self.file.seek(SeekFrom::Start(0));
            rewound.map_err(|e| self.fail("cannot begin anew", e))?;
            let next = Box::new(self.pass(buffer)?);
            if let Store::Streaming { datagrams, .. } = &mut self.store {
                *datagrams = Some(next);
            }
        }
        Ok(true)
    }

    fn fill_preloaded(&mut self, batch: &mut Batch, now: u64) -> Result<Option<u64>, SourceError> {
        let Store::Preloaded { memory, .. } = &self.store else { return Ok(None) };
        let memory = memory.clone();
        let copy = self.shift.is_some();
        if copy {
            own_memory(batch)
        } else {
            batch.share(&memory)
        }
        let (mut filled, mut count) = (0, 0);
        while count < MOST_TRAINS {
            let Store::Preloaded { trains, to, at, .. } = &mut self.store else { return Ok(None) };
            let receiver = to.get(*at).copied().filter(|_| self.destinations);
            let Some(&train) = trains.get(*at) else {
                self.due_ns = None;
                // A batch holds trains of one pass: the next one may need its own shift.
                if count > 0 || !self.again()? {
                    return Ok(None);
                }
                continue;
            };
            let due = *self.due_ns.get_or_insert_with(|| self.schedule.due(Some(train.time_ns)));
            if due > now {
                return Ok(Some(due));
            }
            if filled + train.len > BATCH_BYTES {
                return Ok(None);
            }
            *at += 1;
            self.due_ns = None;
            let time_ns = train.time_ns.saturating_add(self.time_base());
            if copy {
                let place = &mut batch.memory_mut()[filled..filled + train.len];
                place.copy_from_slice(&memory[train.start..train.start + train.len]);
                self.move_on(place, train.stride, train.origin);
                push(batch, TrainMeta { start: filled, time_ns, ..train }, receiver);
            } else {
                push(batch, train, receiver);
            }
            filled += train.len;
            count += 1;
        }
        Ok(None)
    }

    fn fill_streaming(&mut self, batch: &mut Batch, now: u64) -> Result<Option<u64>, SourceError> {
        own_memory(batch);
        let mut joined = Trains::new(self.span_ns());
        let mut open: Option<TrainMeta> = None;
        let mut receiver = None;
        let (mut filled, mut count) = (0, 0);
        let waits = loop {
            let Some(p) = self.peek()? else {
                // A batch holds datagrams of one pass.
                if count > 0 || self.ended || !self.again()? {
                    break None;
                }
                continue;
            };
            if p.due_ns > now {
                let due = p.due_ns;
                self.keep(p);
                break Some(due);
            }
            let len = p.bytes.len();
            let time_ns = p.time_ns.saturating_add(self.time_base());
            if filled + len > BATCH_BYTES {
                self.keep(p);
                break None;
            }
            let join =
                joined.join(open.as_mut(), filled, len, p.origin, Some(p.destination), time_ns);
            if !join {
                if count == MOST_TRAINS {
                    self.keep(p);
                    break None;
                }
                count += 1;
                if let Some(done) = open.replace(single(filled, len, p.origin, time_ns)) {
                    push(batch, done, receiver);
                }
                receiver = self.destinations.then(|| Origin::from(p.destination));
            }
            let place = &mut batch.memory_mut()[filled..filled + len];
            place.copy_from_slice(&p.bytes);
            self.move_on(place, 0, p.origin);
            filled += len;
            if let Store::Streaming { spare, .. } = &mut self.store {
                *spare = p.bytes;
            }
        };
        if let Some(done) = open {
            push(batch, done, receiver);
        }
        Ok(waits)
    }

    /// Takes the next datagram of a streamed file, `None` at the end of the pass.
    fn peek(&mut self) -> Result<Option<Pending>, SourceError> {
        let Store::Streaming { datagrams, pending, spare } = &mut self.store else {
            return Ok(None);
        };
        if let Some(p) = pending.take() {
            return Ok(Some(p));
        }
        let Some(reader) = datagrams.as_mut() else { return Ok(None) };
        let next = reader.next();
        let next = next.map_err(|e| error(&self.url, "cannot read", e.to_string()))?;
        Ok(next.map(|d| {
            let mut bytes = std::mem::take(spare);
            bytes.clear();
            bytes.extend_from_slice(d.payload);
            Pending {
                bytes,
                origin: d.origin,
                destination: d.destination,
                time_ns: d.time_ns.unwrap_or(0),
                due_ns: self.schedule.due(d.time_ns),
            }
        }))
    }

    fn keep(&mut self, p: Pending) {
        if let Store::Streaming { pending, .. } = &mut self.store {
            *pending = Some(p);
        }
    }

    /// Shifts all chunks of a train in place.
    fn move_on(&mut self, train: &mut [u8], stride: usize, origin: Origin) {
        let Some(shift) = self.shift.as_mut().filter(|_| self.repetition > 0) else { return };
        if stride == 0 {
            shift.shift(train, origin, self.repetition);
        } else {
            train.chunks_mut(stride).for_each(|c| shift.shift(c, origin, self.repetition));
        }
    }

    /// Counts a batch; once per receive.
    fn publish(&self, batch: &Batch) {
        let s = &self.sheet;
        let (packets, bytes) = (batch.count(), batch.bytes());
        s.add(Replayed::Packets as usize, packets);
        s.add(Replayed::Accepted as usize, packets);
        s.add(Replayed::Bytes as usize, bytes);
        let mut link = LinkTime::default();
        let wire = batch.trains().map(|t| {
            let each = if t.stride == 0 { t.bytes.len() } else { t.stride.min(t.bytes.len()) };
            let full = t.bytes.len().checked_div(each).unwrap_or(1);
            let rest = t.bytes.len().checked_rem(each).unwrap_or(0);
            link.bytes(t.origin.is_ipv6(), (full, each), rest)
        });
        s.add(Replayed::WireBytes as usize, wire.sum());
        s.add(Replayed::Trains as usize, batch.trains().len() as u64);
        let mut tally = self.past;
        if let Store::Streaming { datagrams: Some(d), .. } = &self.store {
            tally.add(&d.tally());
        }
        tally.write(s);
    }
}

fn push(batch: &mut Batch, train: TrainMeta, to: Option<Origin>) {
    match to {
        None => batch.push(train),
        Some(to) => batch.push_to(train, to),
    }
}

/// Allocates slots for `batch` unless it has enough.
fn own_memory(batch: &mut Batch) {
    if batch.memory_mut().len() < BATCH_BYTES {
        *batch = Batch::with_slots(MOST_TRAINS, BATCH_BYTES / MOST_TRAINS);
    }
}

fn error(url: &PcapUrl, what: &str, cause: String) -> SourceError {
    SourceError { endpoint: url.to_string(), what: what.into(), cause }
}

impl<C: ReplayClock> Source for PcapSource<C> {
    fn recv(&mut self, batch: &mut Batch, wait: Duration) -> Result<Received, SourceError> {
        batch.clear();
        if self.ended {
            return Ok(Received::End);
        }
        let mut slept = false;
        let received = loop {
            // Flat out needs no clock.
            let now = if self.url.speed == PcapSpeed::FlatOut { 0 } else { self.now() };
            let due = match self.store {
                Store::Preloaded { .. } => self.fill_preloaded(batch, now)?,
                Store::Streaming { .. } => self.fill_streaming(batch, now)?,
            };
            match due {
                _ if !batch.is_empty() => break Received::Data,
                Some(due) if !slept => {
                    let left = Duration::from_nanos(due - now);
                    self.clock.sleep(left.min(wait));
                    slept = true;
                }
                Some(_) => break Received::Idle,
                None if self.ended => break Received::End,
                None => {}
            }
        };
        self.publish(batch);
        Ok(received)
    }

    fn batch(&self) -> Batch {
        match &self.store {
            Store::Preloaded { .. } if self.shift.is_none() => Batch::with_slots(0, 0),
            _ => Batch::with_slots(MOST_TRAINS, BATCH_BYTES / MOST_TRAINS),
        }
    }

    fn replay(&self) -> bool {
        true
    }

    fn for_capture(&mut self) -> Result<(), SourceError> {
        self.destinations = true;
        Ok(())
    }

    fn lossless(&self) -> bool {
        self.url.speed == PcapSpeed::FlatOut
    }

    fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }

    fn describe(&self) -> Vec<String> {
        let speed = match self.url.speed {
            PcapSpeed::Recorded => "recorded speed".to_string(),
            PcapSpeed::Factor(f) => format!("{f} times recorded speed"),
            PcapSpeed::FlatOut => "flat out, lossless".to_string(),
        };
        let passes = match self.url.repeat {
            Repeat::Times(n) if n.get() == 1 => "once".to_string(),
            Repeat::Times(n) => format!("{n} times"),
            Repeat::Forever => "for ever".to_string(),
        };
        let shifted = if self.shift.is_some() { ", counters and times moved on" } else { "" };
        let mut lines = vec![format!("capture {} {passes} at {speed}{shifted}", self.url)];
        if let Store::Preloaded { trains, .. } = &self.store {
            let (n, bytes, trains) = (self.past.datagrams, self.past.bytes, trains.len());
            lines.push(format!("preloaded {n} datagrams, {bytes} B, in {trains} trains"));
        }
        if let Some(port) = self.url.port {
            lines.push(format!("only datagrams to port {port}"));
        }
        lines
    }
}

impl<C: ReplayClock> std::fmt::Debug for PcapSource<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PcapSource").field("url", &self.url).finish_non_exhaustive()
    }
}

const _: () = assert!(BATCH_BYTES >= LONGEST_PAYLOAD);

#[cfg(test)]
#[path = "play_tests.rs"]
mod tests;
