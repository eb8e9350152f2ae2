//! The sink: events into messages, messages into the spool; the rest is the sender's.
//!
//! A full spool makes [`KafkaSink::push`] wait: the engine's queue in front of it then fills, and the rules for required
//! sinks hold (a lossless source stops reading, a lossy one loses events, counted). Once the run is asked to end, or ends by
//! itself, it waits no longer than `drain`, and what does not fit is dropped and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use fullcount_core::ledger::Sheet;
use fullcount_core::products::Products;
use fullcount_core::wall::WallClock;

use super::counters::KafkaCounter;
use super::farewell::Farewell;
use super::level::Level;
use super::link::Link;
use super::options::{KafkaOptions, MessageId};
use super::replay::{Beginning, Follower};
use super::sender::{Sender, Tally};
use crate::flat::{Cut, EventStream, Left, Said, StreamOptions};
use crate::sink::{Report, Sink, SinkError};
use crate::spool::{AppendError, NOTE, Outgoing, Spool, SpoolError, Start};

/// Name in the summary.
pub(super) const NAME: &str = "kafka";

/// Sends events to a topic.
pub struct KafkaSink {
    stream: EventStream,
    way: Way,
    thread: Option<JoinHandle<()>>,
    /// Of a source that can be replayed.
    follower: Option<Follower>,
    beginning: Beginning,
    landed: Arc<AtomicU64>,
    hurry: Arc<AtomicBool>,
    start: Start,
    place: String,
    folder: String,
}

/// From a finished message to the spool.
struct Way {
    spool: Spool,
    sheet: Arc<Sheet>,
    tally: Arc<Tally>,
    link: Arc<Link>,
    /// Tells the sender to end.
    end: Arc<AtomicBool>,
    options: Arc<KafkaOptions>,
    /// Since the run was found to be asked to end while the spool was full.
    farewell: Option<Farewell>,
    /// How full the spool is.
    level: Level,
    /// What is not appended any more is made again by the next process.
    replay: bool,
    given_up: bool,
    /// Events were dropped.
    dropped: bool,
    failed: Option<AppendError>,
    clock: ClockText,
}

/// Name of the header that says how the detector's clock and the host's are joined: records as in `docs/time.md`, a line each.
pub const CLOCK_HEADER: &str = "fc.clock";

/// Value of that header, made anew when it changes.
#[derive(Debug, Default)]
struct ClockText {
    version: u64,
    text: Vec<u8>,
}

impl ClockText {
    fn look(&mut self, wall: Option<&WallClock>) {
        let Some(wall) = wall.filter(|wall| wall.version() != self.version) else { return };
        self.version = wall.version();
        let lines: Vec<String> = wall.current().iter().map(ToString::to_string).collect();
        self.text = lines.join("\n").into_bytes();
    }
}

impl KafkaSink {
    /// Opens the spool and starts the sender. No broker is needed.
    ///
    /// # Errors
    /// The spool cannot be used.
    pub fn open(options: KafkaOptions) -> Result<KafkaSink, SinkError> {
        let sink = |message: String| SinkError { sink: NAME, message };
        let failed = |e: SpoolError| sink(e.to_string());
        let (spool, start) = Spool::open(options.spool_options()).map_err(failed)?;
        let (mut follower, mut beginning) = (None, Beginning::Fresh);
        if let Some(replay) = options.replay.clone() {
            let (folder, note) = (&options.spool, start.note.as_deref());
            let begun = Follower::begin(replay, folder, note).map_err(|e| {
                let how = "remove the file `run` there to begin anew";
                sink(format!("the replay that the spool {} knows: {e}; {how}", folder.display()))
            })?;
            (follower, beginning) = (Some(begun.0), begun.1);
        }
        let first_id = match options.message_id {
            MessageId::Continue => start.next_id,
            MessageId::Restart => 1,
        };
        let stream = StreamOptions { first_id, ..options.stream.clone() };
        let stream = EventStream::new(stream).map_err(|e| sink(e.to_string()))?;
        let sheet = Sheet::new(KafkaCounter::catalogue());
        sheet.set(KafkaCounter::Recovered as usize, start.events + start.damaged_events);
        sheet.set(KafkaCounter::SpoolUnreadable as usize, start.unreadable);
        sheet.set(KafkaCounter::SpoolTorn as usize, start.torn);
        let (place, folder) = (options.place(), options.spool.display().to_string());
        let link = Arc::new(Link::new(&options.brokers, options.news));
        let (tally, end) = (Arc::new(Tally::default()), Arc::new(AtomicBool::new(false)));
        let way = Way {
            spool: spool.clone(),
            sheet,
            tally: tally.clone(),
            link: link.clone(),
            end: end.clone(),
            options: Arc::new(options.clone()),
            farewell: None,
            level: Level::default(),
            replay: follower.is_some(),
            given_up: false,
            dropped: false,
            failed: None,
            clock: ClockText::default(),
        };
        let sender = Sender { options, spool, start: start.clone(), tally, link, stop: end };
        let thread = std::thread::Builder::new()
            .name("kafka-send".into())
            .spawn(move || sender.run())
            .map_err(|e| sink(format!("starting a thread: {e}")))?;
        let (thread, landed, hurry) = (Some(thread), Arc::default(), Arc::default());
        let mut made = KafkaSink {
            stream,
            way,
            thread,
            follower,
            beginning,
            landed,
            hurry,
            start,
            place,
            folder,
        };
        made.refresh();
        Ok(made)
    }

    /// What the spool held when it was opened.
    pub fn recovered(&self) -> &Start {
        &self.start
    }

    /// Where a replay begins.
    pub fn beginning(&self) -> &Beginning {
        &self.beginning
    }

    /// All events up to this number are laid down in the spool, or counted as what cannot be sent. It moves with
    /// each batch, and no further once events were dropped.
    pub fn landed(&self) -> Arc<AtomicU64> {
        self.landed.clone()
    }

    /// While it is true, no event waits for its message to fill: somebody waits for [`KafkaSink::landed`].
    pub fn hurry(&self) -> Arc<AtomicBool> {
        self.hurry.clone()
    }

    /// Tells how far the events are laid down.
    fn land(&self) {
        if self.way.dropped || self.way.failed.is_some() {
            return;
        }
        let standing = self.stream.standing();
        let first = standing.open().map(|(_, first)| first).min();
        self.landed.store(first.unwrap_or(standing.taken), Relaxed);
    }

    /// Copies what others count into the sheet.
    fn refresh(&mut self) {
        let held = self.follower.as_ref().map_or(0, Follower::held);
        self.way.refresh(self.stream.waiting() as u64 + held);
    }

    /// Gives the stream a turn between two batches.
    fn turn(&mut self, turn: impl FnOnce(&mut EventStream, &mut dyn FnMut(Said<'_>))) {
        let KafkaSink { stream, way, follower, .. } = self;
        match follower {
            None => turn(stream, &mut |said| way.take(said, None)),
            Some(follower) => turn(stream, &mut |said| {
                let note = follower.note(&said);
                way.take(said, Some(note));
            }),
        }
    }

    fn failed(&mut self) -> Result<(), SinkError> {
        match self.way.failed.take() {
            None => Ok(()),
            Some(error) => Err(SinkError { sink: NAME, message: error.to_string() }),
        }
    }

    fn end_sender(&mut self) {
        self.way.end.store(true, Relaxed);
        self.way.spool.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Way {
    fn add(&self, counter: KafkaCounter, n: u64) {
        self.sheet.add(counter as usize, n);
    }

    fn refresh(&self, filling: u64) {
        use KafkaCounter as C;
        let (tally, depth) = (&self.tally, self.spool.depth());
        if let Some(said) = self.level.look(&depth, &self.options, "output.kafka") {
            self.link.tell(&said);
        }
        let nearly = self.level.times();
        let set = |counter: KafkaCounter, value: u64| self.sheet.set(counter as usize, value);
        set(C::Events, tally.events.load(Relaxed));
        set(C::Messages, tally.messages.load(Relaxed));
        set(C::Bytes, tally.bytes.load(Relaxed));
        set(C::Already, tally.already.load(Relaxed));
        set(C::Refused, tally.refused.load(Relaxed));
        set(C::SpoolDamaged, tally.damaged.load(Relaxed));
        set(C::Damaged, depth.damaged_events);
        set(C::Sessions, tally.sessions.load(Relaxed));
        set(C::Errors, self.link.errors.load(Relaxed));
        set(C::SpoolMessages, depth.messages);
        set(C::SpoolBytes, depth.bytes);
        set(C::SpoolLimit, depth.limit);
        set(C::SpoolNearlyFull, nearly);
        set(C::SpoolAge, depth.age_ms);
        set(C::Waiting, depth.events + filling);
    }

    /// `note`: where a replay stands, to be appended with the message.
    fn take(&mut self, said: Said<'_>, note: Option<&[u8]>) {
        use KafkaCounter as C;
        let ready = match said {
            Said::Left(events, why) => {
                let counter = match why {
                    Left::Before1970 => C::Before1970,
                    Left::Malformed => C::Malformed,
                };
                return self.add(counter, events as u64);
            }
            Said::Message(ready) => ready,
        };
        let cut = match ready.cut {
            Cut::Pulse => C::CutPulse,
            Cut::Capacity => C::CutCapacity,
            Cut::Timer => C::CutTimer,
            Cut::End => C::CutEnd,
        };
        self.add(cut, 1);
        self.clock.look(self.options.wall.as_deref());
        let headers = [(CLOCK_HEADER, &self.clock.text[..]), (NOTE, note.unwrap_or_default())];
        let from = usize::from(self.clock.text.is_empty());
        let upto = 1 + usize::from(note.is_some());
        let message = Outgoing {
            key: None,
            headers: &headers[from..upto.max(from)],
            payload: ready.bytes,
            message_id: ready.id,
            events: ready.events as u32,
        };
        let mut waited = false;
        loop {
            if self.given_up {
                return self.add(C::Later, ready.events as u64);
            }
            if self.failed.is_some() {
                self.dropped = true;
                return self.add(C::Dropped, ready.events as u64);
            }
            match self.spool.append(&message) {
                Ok(_) => return,
                Err(AppendError::Full { .. }) => {}
                Err(error @ AppendError::DiskFull(_)) => self.link.say(&error.to_string()),
                Err(error @ AppendError::TooLarge { .. }) => {
                    self.link.say(&error.to_string());
                    self.tally.refused.fetch_add(ready.events as u64, Relaxed);
                    return;
                }
                Err(error @ AppendError::Spool(_)) => {
                    self.failed = Some(error);
                    continue;
                }
            }
            if !waited {
                waited = true;
                self.add(C::SpoolFull, 1);
            }
            if Farewell::is_due(&self.options) {
                let begin = || Farewell::begin(&self.options, &self.tally);
                let farewell = self.farewell.get_or_insert_with(begin);
                farewell.say(&self.link, &self.spool);
                let over = farewell.is_over();
                if over && self.replay {
                    self.given_up = true;
                    continue;
                }
                if over {
                    self.link.say("the spool is full, the run ends, and nobody takes messages: events are dropped");
                    self.dropped = true;
                    return self.add(C::Dropped, ready.events as u64);
                }
            }
            self.refresh(ready.events as u64);
            self.spool.wait(Duration::from_millis(20));
        }
    }
}

impl Sink for KafkaSink {
    fn name(&self) -> &'static str {
        NAME
    }

    fn required(&self) -> bool {
        true
    }

    fn push(&mut self, products: &Arc<Products>) -> Result<(), SinkError> {
        let KafkaSink { stream, way, follower, .. } = self;
        way.add(KafkaCounter::In, products.events.len() as u64);
        match follower {
            None => stream.push(&products.events, |said| way.take(said, None)),
            Some(follower) => {
                let passed =
                    follower.push(stream, products, |said, note| way.take(said, Some(note)))?;
                way.add(KafkaCounter::Resumed, passed.known);
                way.add(KafkaCounter::Later, passed.later);
            }
        }
        self.land();
        self.failed()
    }

    fn tick(&mut self, since_start: Duration) -> Result<(), SinkError> {
        let hurry = self.hurry.load(Relaxed);
        self.turn(|stream, say| {
            stream.tick(since_start, &mut *say);
            if hurry {
                stream.flush(say);
            }
        });
        self.land();
        self.refresh();
        self.failed()
    }

    fn finish(&mut self) -> Result<Report, SinkError> {
        self.turn(|stream, say| stream.finish(say));
        // The time that a full spool has taken is not given again.
        let begun = self.way.farewell.take();
        let farewell = begun.unwrap_or_else(|| Farewell::begin(&self.way.options, &self.way.tally));
        farewell.wait(&self.way.link, &self.way.spool);
        self.end_sender();
        let finished = self.way.spool.finish();
        self.refresh();
        let depth = self.way.spool.depth();
        if depth.messages > 0 {
            self.way.link.tell(&format!(
                "{} messages with {} events are not confirmed and wait in {}: the next start sends them",
                depth.messages, depth.events, self.folder
            ));
        }
        self.failed()?;
        finished.map_err(|e| SinkError { sink: NAME, message: e.to_string() })?;
        if let Some(follower) = &mut self.follower {
            let end = follower.end(!self.way.given_up);
            let (later, said) = end.map_err(|e| SinkError {
                sink: NAME,
                message: format!("the end of the replay, in the spool {}: {e}", self.folder),
            })?;
            self.way.add(KafkaCounter::Later, later);
            said.iter().for_each(|said| self.way.link.say(said));
            self.refresh();
        }
        let (events, bytes) = (&self.way.tally.events, &self.way.tally.bytes);
        Ok(Report {
            place: self.place.clone(),
            events: events.load(Relaxed),
            bytes: bytes.load(Relaxed),
            rows: Vec::new(),
        })
    }

    fn sheet(&self) -> Arc<Sheet> {
        self.way.sheet.clone()
    }
}

impl Drop for KafkaSink {
    fn drop(&mut self) {
        self.end_sender();
        // Nobody is left to be told; what was appended is on disk either way.
        let _ = self.way.spool.finish();
    }
}
