//! The broker's side of the writer: which topics there are, orders out of pool and control topics, data for each job.
//!
//! The pool is read in a consumer group, and an order's offset is committed once the order is in the journal. A writer
//! with enough to do leaves the group, so that the others get the orders. Control topics and data are assigned by hand:
//! their places are in the journal. A broker that is away is waited for, and what one partition's broker does not answer
//! holds nothing else up: questions are few at a time, and short.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use fullcount_engine::stop::Stop;
use fullcount_out::kafka::{
    Begin, ConsumeError, Consumer, ConsumerOptions, Message, News, Polled, Settings,
};
use fullcount_out::write::{self, Record, Service, TopicFault, Topics};

use super::now_ms;
use crate::note;

/// Messages taken from one job's topics before the others get their turn: some 100 MB of events.
const TURN: usize = 1000;
/// Kafka time before a restart in which orders are read again.
const OVERLAP_MS: u64 = 10_000;
/// Time between two tries of what needs the broker.
const AGAIN: Duration = Duration::from_secs(1);
/// The same for a partition whose broker did not answer: heartbeats go on in between.
const REST: Duration = Duration::from_secs(5);
/// Longest wait for an answer about a topic of an order: the order is refused then.
const ORDER_ANSWER: Duration = Duration::from_secs(5);
/// Longest wait for an answer about a partition: it is asked again.
const ANSWER: Duration = Duration::from_secs(1);
/// Longest wait for orders that are on a control topic already, before data is read without them.
const CATCH_UP: Duration = Duration::from_secs(30);
/// Time for questions about one job in a turn; those about healthy partitions take a millisecond each.
const QUESTIONS: Duration = Duration::from_millis(100);

fn consumer(
    brokers: &str,
    settings: &Settings,
    news: News,
    group: Option<&str>,
    answer: Duration,
) -> anyhow::Result<Consumer> {
    let options = ConsumerOptions {
        answer,
        group: group.map(str::to_owned),
        tell_ends: false,
        settings: settings.clone(),
        news,
        ..ConsumerOptions::new(brokers)
    };
    Ok(Consumer::new(&options)?)
}

/// Asks the broker which topics there are.
#[derive(Debug)]
pub struct Directory(Consumer);

impl Directory {
    pub fn new(brokers: &str, settings: &Settings, news: News) -> anyhow::Result<Directory> {
        Ok(Directory(consumer(brokers, settings, news, None, ORDER_ANSWER)?))
    }

    /// Waits until a broker answers; false if the writer is to end instead.
    pub fn wait(&self, topic: &str, stop: &Stop) -> bool {
        let mut told = false;
        while let Err(e) = self.0.topic(topic) {
            if stop.requested() {
                return false;
            }
            if !told {
                note!("fullcount: {e}; waiting for a broker");
                told = true;
            }
            // Some errors come at once.
            std::thread::sleep(QUESTIONS);
        }
        true
    }
}

impl Topics for Directory {
    fn partitions(&self, topic: &str) -> Result<Vec<i32>, TopicFault> {
        match self.0.topic(topic) {
            Ok(None | Some(0)) => Err(TopicFault::Missing),
            Ok(Some(n)) => Ok((0..n).collect()),
            Err(e) => Err(TopicFault::Broker(e.to_string())),
        }
    }
}

/// The pool: starts for any writer of the group.
#[derive(Debug)]
struct Pool {
    consumer: Consumer,
    topic: String,
    joined: bool,
    failed: Option<Instant>,
}

impl Pool {
    /// Joins the group, or leaves it: who is full would keep partitions and with them orders from the others.
    fn join(&mut self, join: bool) -> Result<(), ConsumeError> {
        if join != self.joined {
            if join {
                self.consumer.subscribe(&[&self.topic])?;
            } else {
                self.consumer.unsubscribe();
            }
            self.joined = join;
        }
        Ok(())
    }
}

/// Orders: from the pool, and from every control topic of the moment.
#[derive(Debug)]
pub struct Orders {
    pool: Option<Pool>,
    control: Consumer,
    listening: BTreeSet<String>,
    /// The next message of each partition of control topics.
    next: BTreeMap<(String, i32), i64>,
    /// Ends of partitions of control topics when reading them began, where that was not at the end already.
    behind: BTreeMap<(String, i32), i64>,
    /// The control topics that were looked for: those of them that are there are read.
    looked: BTreeSet<String>,
    /// Since when stops that are there already are waited for.
    waiting: Option<Instant>,
    /// When this writer began.
    begun_ms: u64,
    /// From when on new control topics are read at the latest: a restart, or the start of a run whose stop may be there.
    since_ms: Option<u64>,
    tried: Option<Instant>,
}

impl Orders {
    pub fn new(
        brokers: &str,
        settings: &Settings,
        news: News,
        pool: Option<&str>,
        group: &str,
    ) -> anyhow::Result<Orders> {
        // Joined with the first turn, if there is room: a writer may come back with all the jobs that it may have.
        let pool = match pool {
            None => None,
            Some(topic) => Some(Pool {
                consumer: consumer(brokers, settings, news, Some(group), ANSWER)?,
                topic: topic.to_owned(),
                joined: false,
                failed: None,
            }),
        };
        let control = consumer(brokers, settings, news, None, ANSWER)?;
        Ok(Orders {
            pool,
            control,
            listening: BTreeSet::new(),
            next: BTreeMap::new(),
            behind: BTreeMap::new(),
            looked: BTreeSet::new(),
            waiting: None,
            begun_ms: now_ms(),
            since_ms: None,
            tried: None,
        })
    }

    /// Control topics are read from this time on: what was ordered while no writer was there.
    pub fn since(&mut self, heard_ms: Option<u64>) {
        if let Some(heard) = heard_ms {
            let earlier = self.since_ms.unwrap_or(u64::MAX);
            self.since_ms = Some(heard.saturating_sub(OVERLAP_MS).min(earlier));
        }
    }

    /// Gives the service what has come. True if there was anything.
    pub fn poll(&mut self, service: &mut Service, directory: &Directory) -> bool {
        let mut busy = match self.poll_pool(service, directory) {
            Ok(some) => some,
            Err(e) => {
                // Whatever it is, for example an authorization that is taken away: the runs go on without the pool.
                note!("fullcount: {e}; tried again");
                if let Some(pool) = &mut self.pool {
                    pool.failed = Some(Instant::now());
                }
                false
            }
        };
        self.listen(service);
        if self.next.is_empty() {
            return busy;
        }
        loop {
            let message = match self.control.poll(Duration::ZERO) {
                Ok(Polled::Message(message)) => message,
                Ok(_) => break,
                Err(e) => {
                    // Assigned anew, each partition goes on where it was.
                    note!("fullcount: {e}; tried again");
                    self.listening.clear();
                    self.tried = Some(Instant::now());
                    break;
                }
            };
            busy = true;
            self.next
                .insert((message.topic().to_owned(), message.partition()), message.offset() + 1);
            service.order(&record(&message), now_ms(), directory);
        }
        busy
    }

    /// True once what was on the control topics when they were turned to has been read: the stop of a run may be there
    /// already, and what comes after it must not be written. Waited for so long, and no longer.
    pub fn caught_up(&mut self, service: &Service) -> bool {
        let next = &self.next;
        self.behind.retain(|key, end| next.get(key).is_some_and(|next| next < end));
        if self.behind.is_empty() && self.looked == service.control_topics() {
            self.waiting = None;
            return true;
        }
        self.waiting.get_or_insert_with(Instant::now).elapsed() > CATCH_UP
    }

    fn poll_pool(
        &mut self,
        service: &mut Service,
        directory: &Directory,
    ) -> Result<bool, ConsumeError> {
        let Some(pool) = &mut self.pool else { return Ok(false) };
        if pool.failed.is_some_and(|at| at.elapsed() < AGAIN) {
            return Ok(false);
        }
        pool.failed = None;
        pool.join(service.has_room())?;
        // Also without a place in the group: that is how librdkafka leaves it.
        let Polled::Message(message) = pool.consumer.poll(Duration::ZERO)? else {
            return Ok(false);
        };
        if !service.has_room() {
            // Not committed: it comes to whoever has the partition next.
            return Ok(false);
        }
        let order = record(&message);
        service.order(&order, now_ms(), directory);
        // The order is in the journal, or was refused: it must not come again. If this fails it does, and is known.
        let next = (order.topic, order.partition, order.offset + 1);
        if let Err(e) = pool.consumer.commit(&[next], false) {
            note!("fullcount: {e}");
        }
        // The order may have waited for a writer, and its stop may be there already.
        let ordered = order.timestamp_ms;
        self.since(ordered);
        Ok(true)
    }

    /// Listens to the control topics that there are now.
    fn listen(&mut self, service: &Service) {
        let wanted = service.control_topics();
        let resting = self.tried.is_some_and(|at| at.elapsed() < AGAIN);
        if wanted == self.listening {
            self.since_ms = None;
            return;
        }
        if resting {
            return;
        }
        self.tried = Some(Instant::now());
        match self.assign(&wanted) {
            Ok(true) => {
                self.listening = wanted;
                (self.tried, self.since_ms) = (None, None);
            }
            Ok(false) => {}
            Err(e) => note!("fullcount: {e}; tried again"),
        }
    }

    /// False if a topic is not there yet.
    fn assign(&mut self, wanted: &BTreeSet<String>) -> Result<bool, ConsumeError> {
        let mut whole = true;
        let mut next = BTreeMap::new();
        for topic in wanted {
            let partitions = self.control.partitions(topic)?;
            whole &= partitions > 0;
            for partition in 0..partitions {
                let key = (topic.clone(), partition);
                let offset = match self.next.get(&key) {
                    Some(&offset) => offset,
                    None => {
                        let recent = now_ms().saturating_sub(OVERLAP_MS).max(self.begun_ms);
                        let from = self.since_ms.map_or(recent, |since| since.min(recent));
                        let offset = self.control.offset_by_time(topic, partition, from as i64)?;
                        let (_, end) = self.control.offsets(topic, partition)?;
                        if offset < end {
                            self.behind.insert(key.clone(), end);
                        }
                        offset
                    }
                };
                next.insert(key, offset);
            }
        }
        let list: Vec<_> =
            next.iter().map(|((t, p), &offset)| (t.as_str(), *p, Begin::At(offset))).collect();
        self.control.assign(&list)?;
        self.next = next;
        self.looked = wanted.clone();
        Ok(whole)
    }
}

/// A message as the service takes it.
fn record<'a>(message: &'a Message<'_>) -> Record<'a> {
    Record {
        topic: message.topic(),
        partition: message.partition(),
        offset: message.offset(),
        timestamp_ms: message.timestamp_ms().and_then(|ms| u64::try_from(ms).ok()),
        value: message.payload(),
    }
}

/// One job's consumer.
struct Reader {
    consumer: Consumer,
    begun: bool,
    /// Where reading begins, as far as it is known.
    found: BTreeMap<(String, i32), i64>,
    /// Partitions that are to be asked for their ends.
    pass: Vec<(String, i32)>,
    /// No question before this.
    rest: Instant,
}

/// Data for every job: a consumer each, since jobs are at different places of the same topics.
pub struct Data {
    brokers: String,
    settings: Settings,
    news: News,
    readers: BTreeMap<String, Reader>,
}

impl Data {
    pub fn new(brokers: &str, settings: &Settings, news: News) -> Data {
        let brokers = brokers.to_owned();
        Data { brokers, settings: settings.clone(), news, readers: BTreeMap::new() }
    }

    /// Gives each job what has come for it, a turn each. True if there was anything.
    pub fn poll(&mut self, service: &mut Service, longest: Duration) -> anyhow::Result<bool> {
        let ids: Vec<String> = service.jobs().map(|job| job.id().to_owned()).collect();
        self.readers.retain(|id, _| ids.contains(id));
        let mut busy = false;
        for id in ids {
            if !self.readers.contains_key(&id) {
                let consumer = consumer(&self.brokers, &self.settings, self.news, None, ANSWER)?;
                let reader = Reader {
                    consumer,
                    begun: false,
                    found: BTreeMap::new(),
                    pass: Vec::new(),
                    rest: Instant::now(),
                };
                self.readers.insert(id.clone(), reader);
            }
            let Some(reader) = self.readers.get_mut(&id) else { continue };
            if service.job(&id).is_none_or(|job| job.unasked().is_some()) {
                // After a restart, with a broker that does not know its topics yet.
                continue;
            }
            if !reader.begun && !reader.begin(&id, service) {
                continue;
            }
            match reader.turn(&id, service, longest) {
                Ok(some) => busy |= some,
                Err(e) => {
                    // A new consumer goes on where the job is.
                    note!("fullcount: {e}; reading is begun again");
                    self.readers.remove(&id);
                    continue;
                }
            }
            reader.ends(&id, service);
        }
        Ok(busy)
    }
}

impl Reader {
    /// Finds out where to begin and does. False while that is not known of every partition.
    fn begin(&mut self, id: &str, service: &mut Service) -> bool {
        if Instant::now() < self.rest {
            return false;
        }
        match self.try_begin(id, service) {
            Ok(begun) => self.begun = begun,
            Err(e) => {
                note!("fullcount: {e}; tried again");
                self.rest = Instant::now() + REST;
            }
        }
        self.begun
    }

    fn try_begin(&mut self, id: &str, service: &mut Service) -> Result<bool, ConsumeError> {
        let Some(job) = service.job(id) else { return Ok(false) };
        let wanted = job.wanted();
        let asked = Instant::now();
        for want in &wanted {
            let key = (want.topic.clone(), want.partition);
            if self.found.contains_key(&key) {
                continue;
            }
            if asked.elapsed() > QUESTIONS {
                return Ok(false);
            }
            let (topic, partition) = (want.topic.as_str(), want.partition);
            let offset = match want.begin {
                write::Begin::Offset(offset) => {
                    // While no writer was there the topic may have forgotten what it was to read.
                    let (oldest, _) = self.consumer.offsets(topic, partition)?;
                    service.oldest(id, topic, partition, oldest);
                    offset.max(oldest)
                }
                write::Begin::Time(ms) => {
                    let ms = i64::try_from(ms).unwrap_or(i64::MAX);
                    self.consumer.offset_by_time(topic, partition, ms)?
                }
            };
            self.found.insert(key, offset);
        }
        let Some(job) = service.job(id) else { return Ok(false) };
        let each = self.found.iter();
        each.for_each(|((topic, partition), &offset)| job.begin(topic, *partition, offset));
        let each = self.found.iter();
        let list: Vec<_> = each.map(|((t, p), &offset)| (&**t, *p, Begin::At(offset))).collect();
        self.consumer.assign(&list)?;
        Ok(true)
    }

    /// Up to a turn of messages. True if there were any.
    fn turn(
        &self,
        id: &str,
        service: &mut Service,
        longest: Duration,
    ) -> Result<bool, ConsumeError> {
        let begun = Instant::now();
        let mut busy = false;
        for _ in 0..TURN {
            let Polled::Message(message) = self.consumer.poll(Duration::ZERO)? else { break };
            busy = true;
            let record = record(&message);
            let expected = service.job(id).and_then(|j| j.next(record.topic, record.partition));
            if expected.is_some_and(|next| record.offset > next) {
                // Marks of transactions leave gaps too: only what is below the oldest message is gone.
                let (oldest, _) = self.consumer.offsets(record.topic, record.partition)?;
                let oldest = oldest.min(record.offset);
                service.oldest(id, record.topic, record.partition, oldest);
            }
            service.offer(id, &record);
            if begun.elapsed() > longest {
                break;
            }
        }
        Ok(busy)
    }

    /// Once the stop is over: has each partition been read to its end? One whose broker does not answer is asked after
    /// the others.
    fn ends(&mut self, id: &str, service: &mut Service) {
        let Some(job) = service.job(id) else { return };
        let now = now_ms();
        if job.drains_at_ms().is_none_or(|at| now <= at) || Instant::now() < self.rest {
            return;
        }
        if self.pass.is_empty() {
            let wanted = job.wanted().into_iter();
            self.pass = wanted.map(|want| (want.topic, want.partition)).collect();
        }
        let begun = Instant::now();
        while let Some((topic, partition)) = self.pass.pop() {
            match self.consumer.offsets(&topic, partition) {
                Ok((_, end)) => job.at_end(&topic, partition, end, now),
                Err(e) => {
                    note!("fullcount: {e}; tried again");
                    self.rest = Instant::now() + REST;
                    return;
                }
            }
            if begun.elapsed() > QUESTIONS {
                return;
            }
        }
        self.rest = Instant::now() + AGAIN;
    }
}
