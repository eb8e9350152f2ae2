//! The broker's side of the writer: which topics there are, and orders out of pool and control topics. Data: `data.rs`.
//!
//! The pool is read in a consumer group, and an order's offset is committed once the order is in the journal. A writer
//! with enough to do leaves the group, so that the others get the orders. Control topics are assigned by hand. A broker
//! that is away is waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use fullcount_kafka::{
    Begin, ConsumeError, Consumer, ConsumerOptions, EndWish, KafkaSettings, Polled, Publisher,
    TopicMessage,
};
use fullcount_log::warning;

use super::{ServeError, now_ms, told};
use crate::job::TopicRecord;
use crate::service::{Service, TopicFault, Topics};

/// Kafka time before a restart in which orders are read again.
const OVERLAP_MS: u64 = 10_000;
/// Time between two tries of what needs the broker.
pub(super) const AGAIN: Duration = Duration::from_secs(1);
/// Longest wait for an answer about a topic of an order: the order is refused then.
const ORDER_ANSWER: Duration = Duration::from_secs(5);
/// Longest wait for a broker to make a topic.
const MADE: Duration = Duration::from_secs(2);
/// Longest wait for an answer about a partition: it is asked again.
pub(super) const ANSWER: Duration = Duration::from_secs(1);
/// Longest wait for orders that are on a control topic already, before data is read without them.
const CATCH_UP: Duration = Duration::from_secs(30);
/// Time for questions about one job in a turn; those about healthy partitions take a millisecond each.
pub(super) const QUESTIONS: Duration = Duration::from_millis(100);

pub(super) fn consumer(
    brokers: &str,
    settings: &KafkaSettings,
    group: Option<&str>,
    answer: Duration,
) -> Result<Consumer, ConsumeError> {
    let options = ConsumerOptions {
        answer,
        group: group.map(str::to_owned),
        tell_ends: false,
        settings: settings.clone(),
        news: told,
        ..ConsumerOptions::new(brokers)
    };
    Consumer::new(&options)
}

/// Asks the broker which topics there are.
#[derive(Debug)]
pub(super) struct Directory {
    consumer: Consumer,
    /// Asks for topics that a broker may make.
    publisher: Publisher,
}

impl Directory {
    pub(super) fn new(brokers: &str, settings: &KafkaSettings) -> Result<Directory, ServeError> {
        let consumer = consumer(brokers, settings, None, ORDER_ANSWER)?;
        Ok(Directory { consumer, publisher: Publisher::new(brokers, settings, |_| ())? })
    }

    /// Waits until a broker answers; false if the writer is to end instead.
    pub(super) fn wait(&self, topic: &str, wish: &dyn Fn() -> EndWish) -> bool {
        let mut told = false;
        while let Err(e) = self.consumer.topic(topic) {
            if wish() > EndWish::GoOn {
                return false;
            }
            if !told {
                warning!("{e}; waiting for a broker");
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
        match self.consumer.topic(topic) {
            Ok(None | Some(0)) => Err(TopicFault::Missing),
            Ok(Some(n)) => Ok((0..n).collect()),
            Err(e) => Err(TopicFault::Broker(e.to_string())),
        }
    }

    fn talk(&self, topic: &str) -> Result<(), TopicFault> {
        let end = Instant::now() + MADE;
        loop {
            let found = self.partitions(topic).map(drop);
            if found != Err(TopicFault::Missing) || Instant::now() > end {
                return found;
            }
            // Who wants to publish asks for the topic, and a broker that makes topics makes it then.
            self.publisher.want(topic, MADE);
            std::thread::sleep(QUESTIONS);
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
    said: Said,
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
pub(super) struct Orders {
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
    said: Said,
}

impl Orders {
    pub(super) fn new(
        brokers: &str,
        settings: &KafkaSettings,
        pool: Option<&str>,
        group: &str,
    ) -> Result<Orders, ConsumeError> {
        // Joined with the first turn, if there is room: a writer may come back with all the jobs that it may have.
        let pool = match pool {
            None => None,
            Some(topic) => Some(Pool {
                consumer: consumer(brokers, settings, Some(group), ANSWER)?,
                topic: topic.to_owned(),
                joined: false,
                failed: None,
                said: Said::default(),
            }),
        };
        let control = consumer(brokers, settings, None, ANSWER)?;
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
            said: Said::default(),
        })
    }

    /// Control topics are read from this time on: what was ordered while no writer was there.
    pub(super) fn since(&mut self, heard_ms: Option<u64>) {
        if let Some(heard) = heard_ms {
            let earlier = self.since_ms.unwrap_or(u64::MAX);
            self.since_ms = Some(heard.saturating_sub(OVERLAP_MS).min(earlier));
        }
    }

    /// Gives the service what has come. True if there was anything.
    pub(super) fn poll(&mut self, service: &mut Service, directory: &Directory) -> bool {
        let mut busy = match self.poll_pool(service, directory) {
            Ok(some) => some,
            Err(e) => {
                // Whatever it is, for example an authorization that is taken away: the runs go on without the pool.
                if let Some(pool) = &mut self.pool {
                    pool.said.again(&e.to_string());
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
                    self.said.again(&e.to_string());
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
    pub(super) fn caught_up(&mut self, service: &Service) -> bool {
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
        pool.said.fine();
        if !service.has_room() {
            // Not committed: it comes to whoever has the partition next.
            return Ok(false);
        }
        let order = record(&message);
        service.order(&order, now_ms(), directory);
        // The order is in the journal, or was refused: it must not come again. If this fails it does, and is known.
        let next = (order.topic, order.partition, order.offset + 1);
        if let Err(e) = pool.consumer.commit(&[next], false) {
            warning!("{e}");
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
                self.said.fine();
            }
            Ok(false) => {}
            Err(e) => self.said.again(&e.to_string()),
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
pub(super) fn record<'a>(message: &'a TopicMessage<'_>) -> TopicRecord<'a> {
    TopicRecord {
        topic: message.topic(),
        partition: message.partition(),
        offset: message.offset(),
        timestamp_ms: message.timestamp_ms().and_then(|ms| u64::try_from(ms).ok()),
        value: message.payload(),
    }
}

/// What is tried again and again is said once, until it goes well or something else is wrong.
#[derive(Debug, Default)]
pub(super) struct Said {
    words: Option<String>,
}

impl Said {
    pub(super) fn again(&mut self, words: &str) {
        if self.words.as_deref() != Some(words) {
            warning!("{words}; tried again");
            self.words = Some(words.to_owned());
        }
    }

    pub(super) fn fine(&mut self) {
        self.words = None;
    }
}
