//! The data of each job: partitions assigned by hand, since their places are in the journal.
//!
//! What one partition's broker does not answer holds nothing else up: questions are few at a time, and short. A topic
//! that is missing is left out, and taken up when it is there again; if it was made anew in between, reading goes on at
//! its first message that is newer than all that was read.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use fullcount_kafka::{Begin, ConsumeError, Consumer, KafkaSettings, Polled};

use super::now_ms;
use super::topics::{AGAIN, ANSWER, QUESTIONS, Said, consumer, record};
use crate::job::{self, WantedPartition};
use crate::service::Service;

/// Messages taken from one job's topics before the others get their turn: some 100 MB of events.
const TURN: usize = 1000;
/// Time between two questions to a partition whose broker did not answer: heartbeats go on in between.
const REST: Duration = Duration::from_secs(5);

/// A partition.
type Key = (String, i32);

/// One job's consumer.
struct Reader {
    consumer: Consumer,
    /// Partitions that are read.
    assigned: BTreeSet<Key>,
    /// Where reading begins, of those that are to be read next.
    found: BTreeMap<Key, i64>,
    /// Partitions that did not answer, which are not asked before this.
    silent: BTreeMap<Key, Instant>,
    /// Partitions that are to be asked for their ends.
    pass: Vec<Key>,
    /// No question for ends before this.
    rest: Instant,
    /// Nothing at all before this.
    failed: Option<Instant>,
    said: Said,
}

/// Data for every job: a consumer each, since jobs are at different places of the same topics.
pub(super) struct Data {
    brokers: String,
    settings: KafkaSettings,
    readers: BTreeMap<String, Reader>,
}

impl Data {
    pub(super) fn new(brokers: &str, settings: &KafkaSettings) -> Data {
        let brokers = brokers.to_owned();
        Data { brokers, settings: settings.clone(), readers: BTreeMap::new() }
    }

    /// Gives each job what has come for it, a turn each. True if there was anything.
    pub(super) fn poll(
        &mut self,
        service: &mut Service,
        longest: Duration,
    ) -> Result<bool, ConsumeError> {
        let ids: Vec<String> = service.jobs().map(|job| job.id().to_owned()).collect();
        self.readers.retain(|id, _| ids.contains(id));
        let mut busy = false;
        for id in ids {
            if !self.readers.contains_key(&id) {
                let consumer = consumer(&self.brokers, &self.settings, None, ANSWER)?;
                self.readers.insert(id.clone(), Reader::new(consumer));
            }
            let Some(reader) = self.readers.get_mut(&id) else { continue };
            if reader.failed.is_some_and(|at| at.elapsed() < AGAIN) {
                continue;
            }
            reader.failed = None;
            let turn = reader.begin(&id, service).and_then(|()| reader.turn(&id, service, longest));
            match turn {
                Ok(some) => busy |= some,
                Err(e) => {
                    // A new consumer goes on where the job is.
                    reader.said.again(&e.to_string());
                    let consumer = consumer(&self.brokers, &self.settings, None, ANSWER)?;
                    let said = std::mem::take(&mut reader.said);
                    let failed = Some(Instant::now());
                    *reader = Reader { said, failed, ..Reader::new(consumer) };
                    continue;
                }
            }
            reader.ends(&id, service);
        }
        Ok(busy)
    }
}

impl Reader {
    fn new(consumer: Consumer) -> Reader {
        Reader {
            consumer,
            assigned: BTreeSet::new(),
            found: BTreeMap::new(),
            silent: BTreeMap::new(),
            pass: Vec::new(),
            rest: Instant::now(),
            failed: None,
            said: Said::default(),
        }
    }

    /// Takes up partitions that are to be read and are not yet, and lets go those of topics that are missing. A
    /// partition that does not answer holds none of the others up.
    fn begin(&mut self, id: &str, service: &mut Service) -> Result<(), ConsumeError> {
        let Some(job) = service.job(id) else { return Ok(()) };
        let wanted = job.wanted();
        let before = self.assigned.len();
        self.assigned.retain(|(topic, _)| !job.is_missing(topic));
        self.found.retain(|(topic, _), _| !job.is_missing(topic));
        let lost = self.assigned.len() < before;
        let asked = Instant::now();
        self.silent.retain(|_, until| asked < *until);
        for want in &wanted {
            let key = (want.topic.clone(), want.partition);
            let known = self.assigned.contains(&key) || self.found.contains_key(&key);
            if known || self.silent.contains_key(&key) {
                continue;
            }
            if asked.elapsed() > QUESTIONS {
                return Ok(());
            }
            match self.place(id, want, service) {
                Ok(offset) => {
                    self.found.insert(key, offset);
                }
                Err(e) => {
                    self.silent.insert(key, Instant::now() + REST);
                    if e.is_unknown_topic() {
                        service.doubt(id, Some(&want.topic));
                    } else {
                        self.said.again(&e.to_string());
                    }
                }
            }
        }
        if self.found.is_empty() && !lost {
            return Ok(());
        }
        let Some(job) = service.job(id) else { return Ok(()) };
        for ((topic, partition), offset) in std::mem::take(&mut self.found) {
            job.begin(&topic, partition, offset);
            self.assigned.insert((topic, partition));
        }
        let mut list = Vec::new();
        for want in &wanted {
            let key = (want.topic.clone(), want.partition);
            if let Some(next) = job.next(&want.topic, want.partition)
                && self.assigned.contains(&key)
            {
                list.push((&*want.topic, want.partition, Begin::At(next)));
            }
        }
        self.consumer.assign(&list)
    }

    /// Where reading a partition begins.
    fn place(
        &self,
        id: &str,
        want: &WantedPartition,
        service: &mut Service,
    ) -> Result<i64, ConsumeError> {
        let (topic, partition) = (want.topic.as_str(), want.partition);
        let ms = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        let next = match want.begin {
            job::ReadFrom::Time(from) => {
                return self.consumer.offset_by_time(topic, partition, ms(from));
            }
            job::ReadFrom::Offset(next) => next,
        };
        let (oldest, end) = self.consumer.offsets(topic, partition)?;
        // What is newer than all that was read comes behind it, or the topic is another one of the same name.
        let newer = match want.seen_ms {
            Some(seen) => {
                self.consumer.offset_by_time(topic, partition, ms(seen).saturating_add(1))?
            }
            None => end,
        };
        if newer < next {
            service.went_back(id, topic, partition, newer);
            return Ok(newer);
        }
        // While no writer was there the topic may have forgotten what it was to read.
        service.oldest(id, topic, partition, oldest);
        Ok(next.max(oldest))
    }

    /// Up to a turn of messages. True if there were any.
    fn turn(
        &mut self,
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
            if expected.is_some_and(|next| record.offset < next) {
                // The topic has less than what was read of it: where to go on is looked for.
                self.assigned.remove(&(record.topic.to_owned(), record.partition));
                break;
            }
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
        if self.consumer.missed_topic() {
            service.doubt(id, None);
        }
        if busy {
            self.said.fine();
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
                Ok((_, end)) => {
                    if let Some(job) = service.job(id) {
                        job.at_end(&topic, partition, end, now);
                    }
                }
                Err(e) => {
                    if e.is_unknown_topic() {
                        service.doubt(id, Some(&topic));
                    } else {
                        self.said.again(&e.to_string());
                    }
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
