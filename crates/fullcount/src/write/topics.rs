//! The broker's side of the writer: which topics there are, orders out of pool and control topics, data for each job.
//!
//! The pool is read in a consumer group, and an order's offset is committed once the order is in the journal. Control
//! topics and data are assigned by hand: their places are in the journal. A broker that is away is waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use fullcount_engine::stop::Stop;
use fullcount_out::kafka::{
    Begin, ConsumeError, Consumer, ConsumerOptions, News, Polled, Settings,
};
use fullcount_out::write::{self, Record, Service, Spot, TopicFault, Topics};

use super::now_ms;
use crate::note;

/// Messages taken from one job's topics before the others get their turn: some 100 MB of events.
const TURN: usize = 1000;
/// Kafka time before a restart in which orders are read again.
const OVERLAP_MS: u64 = 10_000;
/// Time between two tries of what needs the broker.
const AGAIN: Duration = Duration::from_secs(1);

fn consumer(
    brokers: &str,
    settings: &Settings,
    news: News,
    group: Option<&str>,
) -> anyhow::Result<Consumer> {
    let options = ConsumerOptions {
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
        Ok(Directory(consumer(brokers, settings, news, None)?))
    }

    /// Waits until a broker answers; false if the writer is to end instead.
    pub fn wait(&self, topic: &str, stop: &Stop) -> bool {
        let mut told = false;
        while let Err(e) = self.0.partitions(topic) {
            if stop.requested() {
                return false;
            }
            if !told {
                note!("fullcount: {e}; waiting for a broker");
                told = true;
            }
        }
        true
    }
}

impl Topics for Directory {
    fn partitions(&self, topic: &str) -> Result<Vec<i32>, TopicFault> {
        match self.0.partitions(topic) {
            Ok(0) => Err(TopicFault::Missing),
            Ok(n) => Ok((0..n).collect()),
            Err(e) => Err(TopicFault::Broker(e.to_string())),
        }
    }
}

/// Orders: from the pool, and from every control topic of the moment.
#[derive(Debug)]
pub struct Orders {
    pool: Option<Consumer>,
    paused: bool,
    control: Consumer,
    listening: BTreeSet<String>,
    /// The next message of each partition of control topics.
    next: BTreeMap<(String, i32), i64>,
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
        let pool = match pool {
            None => None,
            Some(topic) => {
                let pool = consumer(brokers, settings, news, Some(group))?;
                pool.subscribe(&[topic])?;
                Some(pool)
            }
        };
        let control = consumer(brokers, settings, news, None)?;
        Ok(Orders {
            pool,
            paused: false,
            control,
            listening: BTreeSet::new(),
            next: BTreeMap::new(),
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
    pub fn poll(&mut self, service: &mut Service, directory: &Directory) -> anyhow::Result<bool> {
        let from_pool = self.poll_pool(service, directory)?;
        self.listen(service)?;
        let mut busy = from_pool;
        if self.next.is_empty() {
            return Ok(busy);
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
            let (topic, partition, offset) =
                (message.topic().to_owned(), message.partition(), message.offset());
            self.next.insert((topic.clone(), partition), offset + 1);
            let spot = Spot { topic, partition, offset };
            service.order(&spot, message.payload(), now_ms(), directory);
        }
        Ok(busy)
    }

    fn poll_pool(&mut self, service: &mut Service, directory: &Directory) -> anyhow::Result<bool> {
        let Some(pool) = &self.pool else { return Ok(false) };
        // A writer with enough to do leaves the orders to the others of its group.
        let full = !service.has_room();
        if full != self.paused {
            for (topic, partition) in pool.assigned()? {
                pool.pause(&topic, partition, full)?;
            }
            self.paused = full;
        }
        let Polled::Message(message) = pool.poll(Duration::ZERO)? else { return Ok(false) };
        let (topic, partition, offset) =
            (message.topic().to_owned(), message.partition(), message.offset());
        let spot = Spot { topic: topic.clone(), partition, offset };
        let ordered = message.timestamp_ms().and_then(|ms| u64::try_from(ms).ok());
        service.order(&spot, message.payload(), now_ms(), directory);
        // The order is in the journal, or was refused: it must not come again. If this fails it does, and is known.
        if let Err(e) = pool.commit(&[(&topic, partition, offset + 1)], false) {
            note!("fullcount: {e}");
        }
        // The order may have waited for a writer, and its stop may be there already.
        self.since(ordered);
        Ok(true)
    }

    /// Listens to the control topics that there are now.
    fn listen(&mut self, service: &Service) -> anyhow::Result<()> {
        let wanted = service.control_topics();
        let resting = self.tried.is_some_and(|at| at.elapsed() < AGAIN);
        if wanted == self.listening {
            self.since_ms = None;
            return Ok(());
        }
        if resting {
            return Ok(());
        }
        self.tried = Some(Instant::now());
        match self.assign(&wanted) {
            Ok(true) => {
                self.listening = wanted;
                (self.tried, self.since_ms) = (None, None);
                Ok(())
            }
            Ok(false) => Ok(()),
            Err(e) => {
                note!("fullcount: {e}; tried again");
                Ok(())
            }
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
                        self.control.offset_by_time(topic, partition, from as i64)?
                    }
                };
                next.insert(key, offset);
            }
        }
        let list: Vec<_> =
            next.iter().map(|((t, p), &offset)| (t.as_str(), *p, Begin::At(offset))).collect();
        self.control.assign(&list)?;
        self.next = next;
        Ok(whole)
    }
}

/// One job's consumer.
struct Reader {
    consumer: Consumer,
    begun: bool,
    tried: Option<Instant>,
    asked: Instant,
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
                let consumer = consumer(&self.brokers, &self.settings, self.news, None)?;
                let asked = Instant::now();
                let reader = Reader { consumer, begun: false, tried: None, asked };
                self.readers.insert(id.clone(), reader);
            }
            let Some(reader) = self.readers.get_mut(&id) else { continue };
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
    /// Finds out where to begin and does. False while the broker cannot be asked.
    fn begin(&mut self, id: &str, service: &mut Service) -> bool {
        if self.tried.is_some_and(|at| at.elapsed() < AGAIN) {
            return false;
        }
        self.tried = Some(Instant::now());
        match self.try_begin(id, service) {
            Ok(()) => self.begun = true,
            Err(e) => note!("fullcount: {e}; tried again"),
        }
        self.begun
    }

    fn try_begin(&mut self, id: &str, service: &mut Service) -> Result<(), ConsumeError> {
        let Some(job) = service.job(id) else { return Ok(()) };
        let wanted = job.wanted();
        for want in &wanted {
            if let write::Begin::Offset(_) = want.begin {
                // While no writer was there the topic may have forgotten what it was to read.
                let (oldest, _) = self.consumer.offsets(&want.topic, want.partition)?;
                service.oldest(id, &want.topic, want.partition, oldest);
            }
        }
        let Some(job) = service.job(id) else { return Ok(()) };
        let wanted = job.wanted();
        let mut list = Vec::with_capacity(wanted.len());
        for want in &wanted {
            let (topic, partition) = (want.topic.as_str(), want.partition);
            let offset = match want.begin {
                write::Begin::Offset(offset) => offset,
                write::Begin::Time(ms) => {
                    let ms = i64::try_from(ms).unwrap_or(i64::MAX);
                    self.consumer.offset_by_time(topic, partition, ms)?
                }
            };
            job.begin(topic, partition, offset);
            list.push((topic, partition, Begin::At(offset)));
        }
        self.consumer.assign(&list)
    }

    /// Up to a turn of messages. True if there were any.
    fn turn(
        &self,
        id: &str,
        service: &mut Service,
        longest: Duration,
    ) -> Result<bool, ConsumeError> {
        let begun = Instant::now();
        let now = now_ms();
        let mut busy = false;
        for _ in 0..TURN {
            let Polled::Message(message) = self.consumer.poll(Duration::ZERO)? else { break };
            busy = true;
            let record = Record {
                topic: message.topic(),
                partition: message.partition(),
                offset: message.offset(),
                timestamp_ms: message.timestamp_ms().and_then(|ms| u64::try_from(ms).ok()),
                value: message.payload(),
            };
            let expected = service.job(id).and_then(|j| j.next(record.topic, record.partition));
            if expected.is_some_and(|next| record.offset > next) {
                // Marks of transactions leave gaps too: only what is below the oldest message is gone.
                let (oldest, _) = self.consumer.offsets(record.topic, record.partition)?;
                let oldest = oldest.min(record.offset);
                service.oldest(id, record.topic, record.partition, oldest);
            }
            service.offer(id, &record, now);
            if begun.elapsed() > longest {
                break;
            }
        }
        Ok(busy)
    }

    /// Once the stop is over: has each partition been read to its end?
    fn ends(&mut self, id: &str, service: &mut Service) {
        let Some(job) = service.job(id) else { return };
        let now = now_ms();
        if job.drains_at_ms().is_none_or(|at| now <= at) || self.asked.elapsed() < AGAIN {
            return;
        }
        self.asked = Instant::now();
        for want in job.wanted() {
            match self.consumer.offsets(&want.topic, want.partition) {
                Ok((_, end)) => job.at_end(&want.topic, want.partition, end, now),
                Err(e) => {
                    note!("fullcount: {e}; tried again");
                    return;
                }
            }
        }
    }
}
