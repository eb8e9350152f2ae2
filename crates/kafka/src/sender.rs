//! From the spool to the broker: a thread that sends in order, settles what is confirmed, and starts a new session
//! after errors that librdkafka does not repair.
//!
//! A *session* is one producer. It begins by reading the tail of each partition if the spool holds messages that an
//! earlier producer may have sent. librdkafka's idempotent producer prevents duplicates and keeps order within a
//! session, through retries and elections; reading the tail does it between sessions. Messages are read from the
//! spool's files, which are in the page cache: one more copy, but new and old messages take the same path.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, Message as _, OwnedHeaders};
use rdkafka::producer::{
    BaseRecord, Producer as _, ProducerContext, PurgeConfig, ThreadedProducer,
};

use super::link::Link;
use super::options::KafkaOptions;
use super::tail::Tail;
use fullcount_spool::{Identity, Mark, Next, Spool, SpoolReader, SpoolStart, Stored};

/// Header that says which message of which spool this is: 16 bytes of the spool, then start of the process (ns since
/// 1970) and number, u64 little-endian. Consumers that do not know it pass over it.
pub const IDENTITY_HEADER: &str = "fc.id";
/// The tail is not read earlier than this after an earlier producer's last sign of life: by then everything that it had
/// sent has arrived or is lost. The kernel still sends what a killed process left in its sockets; on a working network
/// that takes milliseconds.
const SETTLING: Duration = Duration::from_secs(2);
/// Pause before a new session.
const BREAK: Duration = Duration::from_millis(500);
/// Pause while librdkafka's queue is full: it holds 10,000 messages, which no broker takes in so short a time.
const FULL: Duration = Duration::from_millis(2);
/// Longest wait for one answer.
const ANSWER: Duration = Duration::from_secs(2);

/// Counted by any thread; the sink's thread copies them into its sheet.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub messages: AtomicU64,
    pub events: AtomicU64,
    pub bytes: AtomicU64,
    pub already: AtomicU64,
    pub refused: AtomicU64,
    pub damaged: AtomicU64,
    pub sessions: AtomicU64,
}

/// Identifies a message in flight.
struct Ticket {
    sequence: u64,
    events: u32,
}

/// What librdkafka calls.
struct Context {
    spool: Spool,
    tally: Arc<Tally>,
    link: Arc<Link>,
    /// Why this session has to end.
    broken: Mutex<Option<String>>,
}

impl Context {
    fn break_off(&self, why: String) {
        self.broken.lock().expect("no holder panics").get_or_insert(why);
        self.spool.wake();
    }

    fn refuse(&self, ticket: &Ticket, why: &str) {
        self.tally.refused.fetch_add(ticket.events.into(), Relaxed);
        self.link.say(&format!("a message of {} events is refused for good: {why}", ticket.events));
        self.spool.settle(ticket.sequence, ticket.events, None);
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, _: &str, message: &str) {
        self.link.log(level, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.link.error(&error, reason);
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::Fatal) {
            self.break_off(reason.to_owned());
        }
    }
}

impl ProducerContext for Context {
    type DeliveryOpaque = Box<Ticket>;

    fn delivery(&self, result: &DeliveryResult<'_>, ticket: Box<Ticket>) {
        match result {
            Ok(message) => {
                let bytes = message.payload_len() as u64;
                if self.spool.settle(
                    ticket.sequence,
                    ticket.events,
                    Some((message.partition(), message.offset())),
                ) {
                    self.tally.messages.fetch_add(1, Relaxed);
                    self.tally.events.fetch_add(ticket.events.into(), Relaxed);
                    self.tally.bytes.fetch_add(bytes, Relaxed);
                }
                self.link.up();
            }
            Err((error, _)) => match error.rdkafka_error_code() {
                Some(code) if for_good(code) => self.refuse(&ticket, &error.to_string()),
                Some(RDKafkaErrorCode::PurgeQueue | RDKafkaErrorCode::PurgeInflight) => {}
                _ => self.break_off(error.to_string()),
            },
        }
    }
}

/// Another attempt with the same message would end the same way.
fn for_good(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode::{InvalidMessage, InvalidRecord, MessageSizeTooLarge};
    matches!(code, MessageSizeTooLarge | InvalidMessage | InvalidRecord)
}

/// Everything that the sending thread needs.
pub(super) struct Sender {
    pub options: KafkaOptions,
    pub spool: Spool,
    pub start: SpoolStart,
    pub tally: Arc<Tally>,
    pub link: Arc<Link>,
    /// The end: what is not confirmed stays in the spool.
    pub stop: Arc<AtomicBool>,
}

/// How a session ended.
enum End {
    Stopped,
    Again(String),
}

impl Sender {
    /// Sends until it is stopped.
    pub fn run(mut self) {
        let waits = self.start.messages > 0 || self.start.damaged > 0;
        let mut earlier = waits.then(|| Earlier {
            mark: self.start.mark.take().unwrap_or_default(),
            oldest_ms: self.start.oldest_ms.unwrap_or_default(),
            last: self.start.touched.unwrap_or(SystemTime::UNIX_EPOCH),
        });
        loop {
            match self.session(earlier.as_ref()) {
                End::Stopped => return,
                End::Again(why) => {
                    self.link.say(&format!("sending begins anew: {why}"));
                    self.tally.sessions.fetch_add(1, Relaxed);
                }
            }
            // Messages in flight may be on the topic.
            let (mark, oldest_ms) = self.spool.mark();
            earlier = Some(Earlier { mark, oldest_ms, last: SystemTime::now() });
            if !self.pause(BREAK) {
                return;
            }
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// False if stopped meanwhile.
    fn pause(&self, time: Duration) -> bool {
        let end = std::time::Instant::now() + time;
        while !self.stopped() {
            let left = end.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
        false
    }

    fn session(&self, earlier: Option<&Earlier>) -> End {
        let context = Context {
            spool: self.spool.clone(),
            tally: self.tally.clone(),
            link: self.link.clone(),
            broken: Mutex::new(None),
        };
        let settings = self.options.all_settings();
        let made = settings.producer(&self.options.brokers).create_with_context(context);
        let producer: ThreadedProducer<Context> = match made {
            Ok(producer) => producer,
            Err(error) => return End::Again(error.to_string()),
        };
        let Some(partitions) = self.partitions(&producer) else { return End::Stopped };
        if let Some(partition) = self.options.partition.filter(|p| *p >= partitions) {
            return End::Again(format!(
                "topic {} has no partition {partition}: {partitions} in all",
                self.options.topic
            ));
        }
        let mut present = HashSet::new();
        if let Some(earlier) = earlier {
            let since = earlier.last.elapsed().unwrap_or_default();
            if !self.pause(SETTLING.saturating_sub(since)) {
                return End::Stopped;
            }
            let tail = Tail {
                brokers: &self.options.brokers,
                topic: &self.options.topic,
                settings: &settings,
                partitions,
                spool: self.spool.identity(),
                offsets: &earlier.mark.offsets,
                oldest_ms: earlier.oldest_ms,
                link: &self.link,
            };
            match tail.read(&|| self.stopped()) {
                Ok(Some(found)) => present = found,
                Ok(None) => return End::Stopped,
                Err(error) => return End::Again(format!("reading the end of the topic: {error}")),
            }
        }
        let mut reader = self.spool.reader();
        let end = self.send(&producer, &mut reader, &present, partitions);
        // Messages still in flight stay in the spool.
        producer.purge(PurgeConfig::default().queue().inflight());
        drop(producer);
        end
    }

    /// Number of the topic's partitions; asked for until there is an answer. `None` if stopped.
    fn partitions(&self, producer: &ThreadedProducer<Context>) -> Option<i32> {
        let topic = &self.options.topic;
        while !self.stopped() {
            match producer.client().fetch_metadata(Some(topic), ANSWER) {
                Ok(metadata) => {
                    let found = metadata.topics().iter().find(|t| t.name() == topic);
                    match found.map(|t| (t.error(), t.partitions().len() as i32)) {
                        Some((None, partitions @ 1..)) => return Some(partitions),
                        Some((Some(error), _)) => {
                            let code = RDKafkaErrorCode::from(error);
                            // A topic that is being made has no leader for a moment.
                            if code != RDKafkaErrorCode::LeaderNotAvailable {
                                self.link.say(&format!("topic {topic}: {code}; tried again"));
                            }
                        }
                        _ => {}
                    }
                }
                Err(error) => {
                    self.link.error(&error, &error.to_string());
                }
            }
            self.pause(Duration::from_millis(200));
        }
        None
    }

    fn send(
        &self,
        producer: &ThreadedProducer<Context>,
        reader: &mut SpoolReader,
        present: &HashSet<Identity>,
        partitions: i32,
    ) -> End {
        let context = producer.client().context();
        let numbers: BTreeSet<u64> = present.iter().map(|identity| identity.sequence).collect();
        loop {
            if self.stopped() {
                return End::Stopped;
            }
            if let Some(why) = context.broken.lock().expect("no holder panics").take() {
                return End::Again(why);
            }
            match reader.next() {
                Ok(Next::Nothing) => self.spool.wait_for_news(reader.expected()),
                Ok(Next::Damaged { from, to, events }) => {
                    self.damaged(&numbers, from, to, events);
                }
                Ok(Next::Message(stored)) if present.contains(&stored.identity) => {
                    self.tally.already.fetch_add(1, Relaxed);
                    self.tally.events.fetch_add(stored.events.into(), Relaxed);
                    self.spool.settle(stored.identity.sequence, stored.events, None);
                }
                Ok(Next::Message(stored)) => {
                    if let Err(end) = self.send_one(producer, &stored, partitions) {
                        return end;
                    }
                }
                Err(error) => return End::Again(format!("reading the spool: {error}")),
            }
        }
    }

    /// Messages that the disk has lost are no loss where the topic has them: an earlier process sent them and did not
    /// see that they were confirmed.
    fn damaged(&self, present: &BTreeSet<u64>, from: u64, to: u64, events: Option<u64>) {
        let there = present.range(from..to).count() as u64;
        self.tally.already.fetch_add(there, Relaxed);
        if there == to - from {
            let events = self.spool.pass_over(from, to, events);
            self.tally.events.fetch_add(events, Relaxed);
            return;
        }
        let lost = to - from - there;
        self.tally.damaged.fetch_add(lost, Relaxed);
        self.spool.give_up(from, to, events);
        self.link.say(&match events {
            Some(events) if there == 0 => {
                format!("the spool: {lost} messages with {events} events were damaged on the disk and are lost")
            }
            _ => format!("the spool: {lost} messages were damaged on the disk and are lost"),
        });
    }

    fn send_one(
        &self,
        producer: &ThreadedProducer<Context>,
        stored: &Stored<'_>,
        partitions: i32,
    ) -> Result<(), End> {
        let Identity { sequence, .. } = stored.identity;
        let ticket = Box::new(Ticket { sequence, events: stored.events });
        let identity = stored.identity.to_bytes();
        let mut headers =
            OwnedHeaders::new().insert(Header { key: IDENTITY_HEADER, value: Some(&identity[..]) });
        for (key, value) in stored.headers() {
            headers = headers.insert(Header { key, value: Some(value) });
        }
        let mut record = BaseRecord::<[u8], [u8], _>::with_opaque_to(&self.options.topic, ticket)
            .payload(stored.payload)
            .headers(headers);
        if let Some(key) = stored.key {
            record = record.key(key);
        }
        // Fixed by the number, so that a message that is sent again goes to the same partition. One with a key goes to
        // the partition of the key.
        match (self.options.partition, stored.key) {
            (Some(partition), _) => record = record.partition(partition),
            (None, Some(_)) => {}
            (None, None) => record = record.partition((sequence % partitions as u64) as i32),
        }
        loop {
            record = record.timestamp(fullcount_spool::now_ms());
            let (error, back) = match producer.send(record) {
                Ok(()) => return Ok(()),
                Err(back) => back,
            };
            record = back;
            match error.rdkafka_error_code() {
                Some(RDKafkaErrorCode::QueueFull) => {
                    if self.stopped() {
                        return Err(End::Stopped);
                    }
                    let context = producer.client().context();
                    if let Some(why) = context.broken.lock().expect("no holder panics").take() {
                        return Err(End::Again(why));
                    }
                    // Not `Spool::wait`: with the broker down every append would wake us for nothing, and pay for it.
                    std::thread::sleep(FULL);
                }
                Some(code) if for_good(code) => {
                    let ticket = &record.delivery_opaque;
                    producer.client().context().refuse(ticket, &error.to_string());
                    return Ok(());
                }
                _ => return Err(End::Again(error.to_string())),
            }
        }
    }
}

/// What may be in flight from an earlier session or process.
struct Earlier {
    mark: Mark,
    oldest_ms: i64,
    /// Its last sign of life.
    last: SystemTime,
}
