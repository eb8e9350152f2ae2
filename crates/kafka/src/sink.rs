//! The sink: events into messages, messages into the spool; the sender does the rest.
//!
//! A full spool makes [`KafkaSink::push`] wait: the engine's queue before it then fills, and the rules for required
//! sinks apply (a lossless source stops reading, a lossy one loses events, counted). When the run is asked to end, or
//! ends by itself, it waits for `drain` at most; events that do not fit are dropped and counted.

use std::sync::Arc;
use std::time::Duration;

use fullcount_core::ledger::Sheet;
use fullcount_core::products::Products;
use fullcount_core::progress::{Flush, SafeBatches};
use fullcount_core::wall::WallClock;

use super::counters::KafkaCounter;
use super::options::{KafkaOptions, MessageId};
use super::replay::{Beginning, Follower};
use super::way::{Appended, Lines, Way, lines};
use fullcount_core::sink::{Report, Sink, SinkError};
use fullcount_messages::{Cut, EventStream, Left, Said, StreamOptions};
use fullcount_spool::{NOTE, Outgoing, SpoolStart};

/// Name in the summary.
pub(super) const NAME: &str = "kafka";

/// Sends events to a topic.
pub struct KafkaSink {
    stream: EventStream,
    post: Post,
    /// Of a source that can be replayed.
    follower: Option<Follower>,
    beginning: Beginning,
    /// Places are numbers of events that the stream has taken.
    safe: SafeBatches,
    start: SpoolStart,
}

/// Takes finished messages to the spool.
struct Post {
    way: Way,
    /// What is not appended any more is made again by the next process.
    replay: bool,
    given_up: bool,
    /// Events were dropped.
    dropped: bool,
    clock: ClockText,
}

/// Lines of the sheet that the way to the spool fills.
const LINES: Lines = lines!(KafkaCounter: Recovered SpoolUnreadable SpoolTorn SpoolFull Events Bytes Already Refused
    SpoolDamaged Damaged Sessions Errors SpoolMessages SpoolBytes SpoolLimit SpoolNearlyFull SpoolAge Waiting Messages);

/// Name of the header that says how the detector's clock and the host's are joined: records as in `docs/time.md`, a line each.
pub const CLOCK_HEADER: &str = "fc.clock";

/// Value of that header, made again when it changes.
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
        let sheet = Sheet::new(KafkaCounter::catalogue());
        let (mut way, start) = Way::open(NAME, options, (sheet, LINES))?;
        let options = way.options.clone();
        let (mut follower, mut beginning) = (None, Beginning::Fresh);
        if let Some(replay) = options.replay.clone() {
            let (folder, note) = (&options.spool, start.note.as_deref());
            let begun = Follower::begin(replay, folder, note).map_err(|e| {
                let how = "remove the file `run` there to begin anew";
                way.error(&format_args!(
                    "the replay that the spool {} knows: {e}; {how}",
                    folder.display()
                ))
            })?;
            (follower, beginning) = (Some(begun.0), begun.1);
        }
        let first_id = match options.message_id {
            MessageId::Continue => start.next_id,
            MessageId::Restart => 1,
        };
        let stream = StreamOptions { first_id, ..options.stream.clone() };
        let stream = EventStream::new(stream).map_err(|e| way.error(&e))?;
        way.start(start.clone())?;
        let replay = follower.is_some();
        let clock = ClockText::default();
        let post = Post { way, replay, given_up: false, dropped: false, clock };
        let safe = SafeBatches::default();
        let mut made = KafkaSink { stream, post, follower, beginning, safe, start };
        made.refresh();
        Ok(made)
    }

    /// What the spool held when it was opened.
    pub fn recovered(&self) -> &SpoolStart {
        &self.start
    }

    /// Where a replay begins.
    pub fn beginning(&self) -> &Beginning {
        &self.beginning
    }

    /// Looks how far the events are in the spool, or counted as what cannot be sent.
    fn land(&mut self) {
        if self.post.dropped || self.post.given_up || self.post.way.failed.is_some() {
            self.safe.stop();
        }
        // In a continued replay, events that an earlier process took wait before the stream.
        if self.follower.as_ref().is_some_and(Follower::is_behind) {
            return;
        }
        let standing = self.stream.standing();
        let first = standing.open().map(|(_, first)| first).min();
        self.safe.reached(first.unwrap_or(standing.taken));
    }

    /// Copies what others count into the sheet.
    fn refresh(&mut self) {
        let held = self.follower.as_ref().map_or(0, Follower::held);
        self.post.way.refresh(self.stream.waiting() as u64 + held);
    }

    /// Gives the stream a turn between two batches.
    fn turn(&mut self, turn: impl FnOnce(&mut EventStream, &mut dyn FnMut(Said<'_>))) {
        let KafkaSink { stream, post, follower, .. } = self;
        match follower {
            None => turn(stream, &mut |said| post.take(said, None)),
            Some(follower) => turn(stream, &mut |said| {
                let note = follower.note(&said);
                post.take(said, Some(note));
            }),
        }
    }

    fn failed(&mut self) -> Result<(), SinkError> {
        let failed = self.post.way.failed.take();
        failed.map_or(Ok(()), |error| Err(self.post.way.error(&error)))
    }
}

impl Post {
    fn add(&self, counter: KafkaCounter, n: u64) {
        self.way.sheet.add(counter as usize, n);
    }

    /// `note`: position of a replay, to be appended with the message.
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
        self.clock.look(self.way.options.wall.as_deref());
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
        let events = ready.events as u64;
        if self.given_up {
            return self.add(C::Later, events);
        }
        match self.way.append(&message, events) {
            Appended::Safe | Appended::Refused => {}
            Appended::Late if self.replay => {
                self.given_up = true;
                self.add(C::Later, events);
            }
            why => {
                if why == Appended::Late {
                    let why = "the spool is full, the run ends, and nobody takes messages: events are dropped";
                    self.way.link.say(why);
                }
                self.dropped = true;
                self.add(C::Dropped, events);
            }
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
        let KafkaSink { stream, post, follower, .. } = self;
        post.add(KafkaCounter::In, products.events.len() as u64);
        match follower {
            None => stream.push(&products.events, |said| post.take(said, None)),
            Some(follower) => {
                let passed =
                    follower.push(stream, products, |said, note| post.take(said, Some(note)))?;
                post.add(KafkaCounter::Resumed, passed.known);
                post.add(KafkaCounter::Later, passed.later);
            }
        }
        if products.flush == Some(Flush::Taken) {
            self.turn(|stream, say| stream.flush(say));
        }
        self.safe.took(products.complete, self.stream.standing().taken);
        self.land();
        self.failed()
    }

    fn safe(&self, pipeline: u32) -> u64 {
        self.safe.upto(pipeline)
    }

    fn tick(&mut self, since_start: Duration) -> Result<(), SinkError> {
        self.turn(|stream, say| stream.tick(since_start, say));
        self.land();
        self.refresh();
        self.failed()
    }

    fn finish(&mut self) -> Result<Report, SinkError> {
        self.turn(|stream, say| stream.finish(say));
        self.land();
        let finished = self.post.way.finish();
        self.refresh();
        let (depth, folder) = (self.post.way.spool.depth(), self.post.way.options.spool.display());
        if depth.messages > 0 {
            self.post.way.link.tell(&format!(
                "{} messages with {} events are not confirmed and wait in {folder}: the next start sends them",
                depth.messages, depth.events
            ));
        }
        self.failed()?;
        finished?;
        if let Some(follower) = &mut self.follower {
            let Post { way, given_up, .. } = &self.post;
            let (later, said) = follower.end(!given_up).map_err(|e| {
                let folder = way.options.spool.display();
                way.error(&format_args!("the end of the replay, in the spool {folder}: {e}"))
            })?;
            self.post.add(KafkaCounter::Later, later);
            said.iter().for_each(|said| way.link.say(said));
            self.refresh();
        }
        Ok(self.post.way.report())
    }

    fn sheet(&self) -> Arc<Sheet> {
        self.post.way.sheet.clone()
    }
}
