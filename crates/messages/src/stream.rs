//! Divides events into messages for a topic: one pulse a message, never without events, with consecutive numbers.
//!
//! A message ends when a newer pulse replaces its own, when it is full, when it has waited for the flush
//! interval, and at the end; one counter each. As many pulses as [`StreamOptions::open_pulses`] stay open at a time, so
//! that modules whose batches alternate around the end of a pulse do not split it into many small messages. A pulse's
//! columns are written directly to a message if they fill one; only the rest is copied first.
//!
//! Refuses (and counts): events of pulses before 1970, which consumers treat as damage, and batches whose columns
//! contradict each other. Empty pulses are not sent: consumers drop messages without events.
//! Source: `docs/formats/flatbuffers.md` sections 2.3 to 2.5, 9 and 10.

use std::time::Duration;

use fullcount_core::products::EventBatch;

use super::event_writer::EventWriter;
use super::message::Schema;

/// Which of the two event schemas goes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventSchema {
    /// The one in use today.
    Ev44,
    /// The older one.
    Ev42,
}

impl EventSchema {
    /// The schema of its messages.
    pub fn schema(self) -> Schema {
        match self {
            EventSchema::Ev44 => Schema::Ev44,
            EventSchema::Ev42 => Schema::Ev42,
        }
    }
}

/// How events become messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamOptions {
    /// Which schema.
    pub schema: EventSchema,
    /// The producer's name, not empty: consumers are configured with exactly this text.
    pub source_name: String,
    /// Most events of a message, 1..=1,000,000 (8 MB: what 10 MB brokers take). Default 12,400, about 99 kB.
    pub capacity: usize,
    /// Longest time that an event waits for its message to fill, from 1 ms. Default 1 s.
    pub flush: Duration,
    /// Pulses that are open at a time, 1..=64. Default 2: the one that ends and the one that begins.
    pub open_pulses: usize,
    /// Number of the first message. Default 1.
    pub first_id: u64,
}

impl StreamOptions {
    /// Defaults, with the producer's name.
    pub fn new(source_name: impl Into<String>) -> Self {
        Self {
            schema: EventSchema::Ev44,
            source_name: source_name.into(),
            capacity: 12_400,
            flush: Duration::from_secs(1),
            open_pulses: 2,
            first_id: 1,
        }
    }

    /// Checks the ranges.
    ///
    /// # Errors
    /// What is out of range.
    pub fn validate(&self) -> Result<(), StreamOptionError> {
        // FlatBuffers' text length and the buffer's 2³¹ bytes are far above any of these.
        if self.source_name.is_empty() || self.source_name.len() > 1024 {
            return Err(StreamOptionError::SourceName(self.source_name.len()));
        }
        if !(1..=1_000_000).contains(&self.capacity) {
            return Err(StreamOptionError::Capacity(self.capacity));
        }
        if self.flush < Duration::from_millis(1) {
            return Err(StreamOptionError::Flush(self.flush));
        }
        if !(1..=64).contains(&self.open_pulses) {
            return Err(StreamOptionError::OpenPulses(self.open_pulses));
        }
        Ok(())
    }
}

/// A value out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamOptionError {
    /// Length of the name.
    #[error("a source name of {0} bytes: 1 to 1024 are allowed")]
    SourceName(usize),
    /// Events a message.
    #[error("a capacity of {0} events: 1 to 1000000 are allowed")]
    Capacity(usize),
    /// Flush interval.
    #[error("a flush interval of {0:?}: at least 1ms is needed")]
    Flush(Duration),
    /// Open pulses.
    #[error("{0} open pulses: 1 to 64 are allowed")]
    OpenPulses(usize),
}

/// Why a message was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cut {
    /// A newer pulse took its place.
    Pulse,
    /// It was full.
    Capacity,
    /// The flush interval was over.
    Timer,
    /// The end.
    End,
}

/// Why events are in no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Left {
    /// Their pulse is before 1970.
    Before1970,
    /// The columns of their batch contradict each other.
    Malformed,
}

/// A message, ready to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready<'a> {
    /// The buffer.
    pub bytes: &'a [u8],
    /// Events in it.
    pub events: usize,
    /// Its number.
    pub id: u64,
    /// Why it was cut here.
    pub cut: Cut,
    /// Position of the stream after this message.
    pub standing: Standing<'a>,
}

/// Which events of a stream's input are in finished messages: all that it has taken but those of open pulses. A replay
/// of the same input continues from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing<'a> {
    /// Events taken so far, those that went nowhere included.
    pub taken: u64,
    open: &'a [Open],
}

impl Standing<'_> {
    /// Open pulses in their order: time, and number of the first event (from 0) that its message waits with. All
    /// events of the pulse from there on wait too.
    pub fn open(&self) -> impl ExactSizeIterator<Item = (i64, u64)> + '_ {
        self.open.iter().map(|open| (open.pulse_ns, open.first))
    }
}

/// What a stream has to say, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said<'a> {
    /// Send this.
    Message(Ready<'a>),
    /// So many events go nowhere.
    Left(usize, Left),
}

/// Divides events into messages.
#[derive(Debug)]
pub struct EventStream {
    options: StreamOptions,
    writer: EventWriter,
    next_id: u64,
    /// Events taken so far.
    taken: u64,
    /// In the order in which they were opened.
    open: Vec<Open>,
    /// Columns without events, for the next pulse.
    spare: Vec<Open>,
    now: Duration,
}

/// A pulse whose message is not full.
#[derive(Debug, Default, PartialEq, Eq)]
struct Open {
    pulse_ns: i64,
    /// Number of its first event.
    first: u64,
    since: Duration,
    offset_ns: Vec<u32>,
    pixel: Vec<u32>,
}

impl EventStream {
    /// A stream that has sent nothing.
    ///
    /// # Errors
    /// Options out of range.
    pub fn new(options: StreamOptions) -> Result<Self, StreamOptionError> {
        options.validate()?;
        let next_id = options.first_id;
        let (open, spare) = (Vec::new(), Vec::new());
        let (writer, taken, now) = (EventWriter::new(), 0, Duration::ZERO);
        Ok(Self { options, writer, next_id, taken, open, spare, now })
    }

    /// Where it stands.
    pub fn standing(&self) -> Standing<'_> {
        Standing { taken: self.taken, open: &self.open }
    }

    /// Before the first batch: these are the events of a pulse that was open when an earlier stream over the same input
    /// had taken its first `taken` events; `first` is the number of the first of them. They may make a message larger
    /// than the capacity, if that was a different one then.
    pub fn restore(&mut self, taken: u64, pulse: i64, first: u64, rows: (&[u32], &[u32])) {
        let mut open = Open { pulse_ns: pulse, first, since: self.now, ..Open::default() };
        open.offset_ns.extend_from_slice(rows.0);
        open.pixel.extend_from_slice(rows.1);
        self.taken = taken;
        self.open.push(open);
    }

    /// Before the first batch: the next event is that with this number (from 0).
    pub fn begin_at(&mut self, taken: u64) {
        self.taken = taken;
    }

    /// Events that wait for their message.
    pub fn waiting(&self) -> usize {
        self.open.iter().map(|open| open.pixel.len()).sum()
    }

    /// Number of the next message.
    pub fn next_id(&self) -> u64 {
        self.next_id
    }

    /// Takes a batch; calls `say` with complete messages.
    pub fn push(&mut self, batch: &EventBatch, mut say: impl FnMut(Said<'_>)) {
        let events = batch.pixel.len();
        if !well_formed(batch) {
            self.taken += events as u64;
            say(Said::Left(events, Left::Malformed));
            return;
        }
        let firsts = || batch.pulse_first.iter().map(|&first| first as usize);
        let ends = firsts().skip(1).chain([events]);
        for ((&pulse, first), end) in batch.pulse_ns.iter().zip(firsts()).zip(ends) {
            if first == end {
                continue;
            }
            if pulse < 0 {
                self.taken += (end - first) as u64;
                say(Said::Left(end - first, Left::Before1970));
                continue;
            }
            self.take(pulse, &batch.offset_ns[first..end], &batch.pixel[first..end], &mut say);
        }
    }

    /// The time since the start; calls `say` with messages that have waited long enough.
    pub fn tick(&mut self, since_start: Duration, mut say: impl FnMut(Said<'_>)) {
        self.now = since_start;
        let flush = self.options.flush;
        while let Some(at) =
            self.open.iter().position(|open| since_start.saturating_sub(open.since) >= flush)
        {
            self.close(at, Cut::Timer, &mut say);
        }
    }

    /// Sends all that waits at once; the stream continues.
    pub fn flush(&mut self, mut say: impl FnMut(Said<'_>)) {
        while !self.open.is_empty() {
            self.close(0, Cut::Timer, &mut say);
        }
    }

    /// All that waits.
    pub fn finish(&mut self, mut say: impl FnMut(Said<'_>)) {
        while !self.open.is_empty() {
            self.close(0, Cut::End, &mut say);
        }
    }

    fn take(
        &mut self,
        pulse: i64,
        mut offset_ns: &[u32],
        mut pixel: &[u32],
        say: &mut impl FnMut(Said<'_>),
    ) {
        let capacity = self.options.capacity;
        let at = match self.open.iter().position(|open| open.pulse_ns == pulse) {
            Some(at) => Some(at),
            None => {
                // The pulse that it takes the place of goes first, so that times do not go back on the topic.
                while pixel.len() >= capacity && self.open.len() >= self.options.open_pulses {
                    self.close(0, Cut::Pulse, say);
                }
                // Whole messages need no copy; the rest opens the pulse.
                while pixel.len() >= capacity {
                    let (now, later) = (offset_ns.split_at(capacity), pixel.split_at(capacity));
                    self.taken += capacity as u64;
                    self.send(pulse, now.0, later.0, Cut::Capacity, say);
                    (offset_ns, pixel) = (now.1, later.1);
                }
                None
            }
        };
        if pixel.is_empty() {
            return;
        }
        let mut at = at.unwrap_or_else(|| {
            while self.open.len() >= self.options.open_pulses {
                self.close(0, Cut::Pulse, say);
            }
            self.open_pulse(pulse)
        });
        loop {
            let open = &mut self.open[at];
            let n = pixel.len().min(capacity.saturating_sub(open.pixel.len()));
            open.offset_ns.extend_from_slice(&offset_ns[..n]);
            open.pixel.extend_from_slice(&pixel[..n]);
            let full = open.pixel.len() >= capacity;
            self.taken += n as u64;
            (offset_ns, pixel) = (&offset_ns[n..], &pixel[n..]);
            if !full {
                return;
            }
            self.close(at, Cut::Capacity, say);
            if pixel.is_empty() {
                return;
            }
            at = self.open_pulse(pulse);
        }
    }

    /// Its place among the open ones.
    fn open_pulse(&mut self, pulse: i64) -> usize {
        let mut open = self.spare.pop().unwrap_or_default();
        (open.pulse_ns, open.first, open.since) = (pulse, self.taken, self.now);
        self.open.push(open);
        self.open.len() - 1
    }

    /// Sends the message of an open pulse and keeps its memory.
    fn close(&mut self, at: usize, cut: Cut, say: &mut impl FnMut(Said<'_>)) {
        let mut open = self.open.remove(at);
        self.send(open.pulse_ns, &open.offset_ns, &open.pixel, cut, say);
        open.offset_ns.clear();
        open.pixel.clear();
        self.spare.push(open);
    }

    fn send(
        &mut self,
        pulse: i64,
        offset_ns: &[u32],
        pixel: &[u32],
        cut: Cut,
        say: &mut impl FnMut(Said<'_>),
    ) {
        let (id, name) = (self.next_id, &self.options.source_name);
        let bytes = match self.options.schema {
            // Numbers of ev44 are signed: 2⁶³ messages are beyond any run.
            EventSchema::Ev44 => {
                self.writer.ev44_columns(name, id as i64, &[pulse], &[0], offset_ns, pixel)
            }
            // Not negative: `push` lets no such pulse through.
            EventSchema::Ev42 => self.writer.ev42(name, id, pulse as u64, offset_ns, pixel),
        };
        match bytes {
            Ok(bytes) => {
                self.next_id = id.wrapping_add(1);
                let standing = Standing { taken: self.taken, open: &self.open };
                say(Said::Message(Ready { bytes, events: pixel.len(), id, cut, standing }));
            }
            // 1,000,000 events and 1 kB of name are 8 MB, 250 times below the limit.
            Err(_) => say(Said::Left(pixel.len(), Left::Malformed)),
        }
    }
}

/// The invariants of [`EventBatch`], in one look at the rows.
fn well_formed(batch: &EventBatch) -> bool {
    let events = batch.pixel.len();
    batch.offset_ns.len() == events
        && batch.pulse_ns.len() == batch.pulse_first.len()
        && batch.pulse_first.is_sorted()
        && batch.pulse_first.first().map_or(events == 0, |&first| first == 0)
        && batch.pulse_first.last().is_none_or(|&last| last as usize <= events)
}
