//! Reads topics: as a member of a group, or from assigned partitions; commits offsets when the caller asks for it.
//!
//! [`Consumer::poll`] returns one message, the end of a partition, or nothing. Errors from which librdkafka recovers (a
//! broker that is down, an election) are counted and not returned; a returned error is permanent. Offsets are never
//! committed automatically: call [`Consumer::commit`] when what was read is safe. A member that holds its partitions
//! ([`ConsumerOptions::hold`]) gives them up itself after that commit. It can leave the moment of a commit to
//! librdkafka ([`Consumer::commit_soon`]) and gets the broker's answer with [`Consumer::confirmed`].
//! [`Consumer::commit`] without waiting gets no answer: librdkafka reports only its own commits.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use fullcount_core::ledger::Sheet;
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers as _, Message as _};
use rdkafka::topic_partition_list::Offset;

use super::counters::ConsumerCounter;
use super::link::Link;

mod context;
mod options;
mod place;

use context::{Context, names};
pub use options::{Begin, ConsumeError, ConsumerOptions};
use options::{is_unknown, mends, passing};

/// Interval at which librdkafka checks the offsets of [`Consumer::commit_soon`], ms: it compares a few numbers, and
/// sends a request only if one has changed.
const COMMIT_LOOK_MS: &str = "200";

/// Pause before a partition that looked unknown is asked about again.
const OFFSETS_AGAIN: Duration = Duration::from_millis(50);

/// What one poll gave.
#[derive(Debug)]
pub enum Polled<'a> {
    /// A message.
    Message(TopicMessage<'a>),
    /// All that this partition holds now has been read.
    End {
        /// Which partition; if several topics are read, of any of them.
        partition: i32,
    },
    /// The time is over.
    Nothing,
}

/// One message; it borrows from the consumer, which copies nothing.
#[derive(Debug)]
pub struct TopicMessage<'a>(BorrowedMessage<'a>);

impl TopicMessage<'_> {
    /// Topic.
    pub fn topic(&self) -> &str {
        self.0.topic()
    }

    /// Partition.
    pub fn partition(&self) -> i32 {
        self.0.partition()
    }

    /// Offset within it.
    pub fn offset(&self) -> i64 {
        self.0.offset()
    }

    /// Kafka timestamp, ms since 1970; `None` if there is none.
    pub fn timestamp_ms(&self) -> Option<i64> {
        self.0.timestamp().to_millis()
    }

    /// Key.
    pub fn key(&self) -> Option<&[u8]> {
        self.0.key()
    }

    /// Value; empty if there is none.
    pub fn payload(&self) -> &[u8] {
        self.0.payload().unwrap_or_default()
    }

    /// Value of the last header of this name.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        let headers = self.0.headers()?;
        headers.iter().filter(|h| h.key == name).last()?.value
    }
}

/// Partitions that go to other members of the group: (topic, partition).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moves {
    /// Wanted for another member. Nothing more comes of them, and they stay until [`Consumer::give_up`]; the group waits,
    /// at most for `max.poll.interval.ms`.
    pub leaving: Vec<(String, i32)>,
    /// Revoked because the group considered this member dead: nothing can be committed for them.
    pub lost: Vec<(String, i32)>,
}

/// Reads topics.
pub struct Consumer {
    inner: BaseConsumer<Context>,
    brokers: String,
    sheet: Arc<Sheet>,
    errors: Arc<AtomicU64>,
    /// A topic that is read was said not to be there.
    unknown: AtomicBool,
    answer: Duration,
    holds: bool,
    /// Goes with every offset that is committed.
    note: OnceLock<String>,
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer").field("brokers", &self.brokers).finish_non_exhaustive()
    }
}

impl Consumer {
    /// A consumer that reads nothing yet. No broker is needed.
    ///
    /// # Errors
    /// A setting that cannot be.
    pub fn new(options: &ConsumerOptions) -> Result<Consumer, ConsumeError> {
        let sticky = options.settings.prefer("partition.assignment.strategy", "cooperative-sticky");
        let settings = if options.hold { &sticky } else { &options.settings };
        let mut config = settings.consumer(&options.brokers);
        // librdkafka needs a group name even without a group; nothing is committed under it.
        config.set("group.id", options.group.as_deref().unwrap_or("fullcount-alone"));
        config.set("enable.partition.eof", if options.tell_ends { "true" } else { "false" });
        if options.hold {
            // Only explicitly stored offsets: reading stores nothing (`enable.auto.offset.store` is false).
            config.set("enable.auto.commit", "true").set("auto.commit.interval.ms", COMMIT_LOOK_MS);
        }
        let errors = Arc::new(AtomicU64::new(0));
        let link = Link::new(&options.brokers, options.news);
        let context = Context {
            link,
            errors: errors.clone(),
            hold: AtomicBool::new(options.hold),
            moved: AtomicBool::new(false),
            moves: Mutex::default(),
            resting: AtomicBool::new(false),
            rested: AtomicBool::new(false),
            confirmed: Mutex::default(),
            refused: AtomicU64::new(0),
            refusing: AtomicBool::new(false),
        };
        let brokers = options.brokers.clone();
        let made = config.create_with_context(context);
        let inner = made.map_err(|cause| ConsumeError {
            brokers: brokers.clone(),
            doing: "set up".into(),
            cause: Box::new(cause),
        })?;
        let sheet = Sheet::new(ConsumerCounter::catalogue());
        let unknown = AtomicBool::new(false);
        let (answer, holds) = (options.answer, options.hold);
        let note = OnceLock::new();
        Ok(Consumer { inner, brokers, sheet, errors, unknown, answer, holds, note })
    }

    fn failed(&self, doing: impl Into<String>) -> impl FnOnce(KafkaError) -> ConsumeError {
        let (brokers, doing) = (self.brokers.clone(), doing.into());
        move |cause| ConsumeError { brokers, doing, cause: Box::new(cause) }
    }

    /// Joins the group for these topics: partitions are assigned and revoked, each begins at the group's offset.
    ///
    /// # Errors
    /// librdkafka refuses.
    pub fn subscribe(&self, topics: &[&str]) -> Result<(), ConsumeError> {
        self.inner.subscribe(topics).map_err(self.failed("subscribe"))
    }

    /// Leaves the group: its partitions go to the others. [`Consumer::subscribe`] joins it again.
    pub fn unsubscribe(&self) {
        self.inner.unsubscribe();
    }

    /// Reads these partitions, and no others from now on.
    ///
    /// # Errors
    /// No broker answers when one has to be asked ([`Begin::Time`]), or librdkafka refuses.
    pub fn assign(&self, partitions: &[(&str, i32, Begin)]) -> Result<(), ConsumeError> {
        let failed = |topic: &str| self.failed(format!("assign partitions of {topic}"));
        let mut list = TopicPartitionList::new();
        for &(topic, partition, begin) in partitions {
            let offset = match begin {
                Begin::Oldest => Offset::Beginning,
                Begin::Newest => Offset::End,
                Begin::At(offset) => Offset::Offset(offset),
                Begin::Committed => Offset::Stored,
                Begin::Time(ms) => self.offset_at(topic, partition, ms)?,
            };
            list.add_partition_offset(topic, partition, offset).map_err(failed(topic))?;
        }
        self.inner.assign(&list).map_err(failed(partitions.first().map_or("", |p| p.0)))
    }

    fn offset_at(&self, topic: &str, partition: i32, ms: i64) -> Result<Offset, ConsumeError> {
        let failed = || self.failed(format!("ask for offsets of {topic} by time"));
        let mut ask = TopicPartitionList::new();
        ask.add_partition_offset(topic, partition, Offset::Offset(ms.max(0))).map_err(failed())?;
        let answer = self.inner.offsets_for_times(ask, self.answer).map_err(failed())?;
        Ok(answer.find_partition(topic, partition).map_or(Offset::Beginning, |p| p.offset()))
    }

    /// Offset of the first message of this Kafka time or later, ms since 1970; without one, that of the next to come.
    ///
    /// # Errors
    /// No broker answers.
    pub fn offset_by_time(
        &self,
        topic: &str,
        partition: i32,
        ms: i64,
    ) -> Result<i64, ConsumeError> {
        // Asked first: a message that comes between the two questions is found by its time, and one that comes after
        // both is at this offset or later. In the other order, a message between them was skipped.
        let (_, next) = self.offsets(topic, partition)?;
        match self.offset_at(topic, partition, ms)? {
            Offset::Offset(offset) => Ok(offset),
            _ => Ok(next),
        }
    }

    /// Number of a topic's partitions, 0 if there is no such topic (yet) or its leader is still to be chosen.
    ///
    /// # Errors
    /// No broker answers.
    pub fn partitions(&self, topic: &str) -> Result<i32, ConsumeError> {
        match self.found(topic)? {
            Err(RDKafkaErrorCode::LeaderNotAvailable) => Ok(0),
            Err(code) => Err(self.failed(Self::asking(topic))(KafkaError::MetadataFetch(code))),
            Ok(partitions) => Ok(partitions.unwrap_or(0)),
        }
    }

    /// Number of a topic's partitions, `None` if the broker says that there is no such topic.
    ///
    /// # Errors
    /// No broker answers, or the topic has no leader now.
    pub fn topic(&self, topic: &str) -> Result<Option<i32>, ConsumeError> {
        let refused = |code| self.failed(Self::asking(topic))(KafkaError::MetadataFetch(code));
        self.found(topic)?.map_err(refused)
    }

    fn asking(topic: &str) -> String {
        format!("ask for the partitions of {topic}")
    }

    fn found(&self, topic: &str) -> Result<Result<Option<i32>, RDKafkaErrorCode>, ConsumeError> {
        let metadata = self.inner.fetch_metadata(Some(topic), self.answer);
        let metadata = metadata.map_err(self.failed(Self::asking(topic)))?;
        let Some(found) = metadata.topics().iter().find(|t| t.name() == topic) else {
            return Ok(Ok(None));
        };
        Ok(match found.error().map(RDKafkaErrorCode::from) {
            Some(RDKafkaErrorCode::UnknownTopicOrPartition) => Ok(None),
            Some(code) => Err(code),
            None => Ok(Some(found.partitions().len() as i32)),
        })
    }

    /// Offset of the oldest message of a partition, and the one after its newest. While librdkafka knows no such
    /// partition or no leader, its metadata is refreshed, for half the time of an answer: its metadata of a topic that
    /// it was reading once had no partitions, and stayed so for minutes.
    ///
    /// # Errors
    /// No broker answers, or no such partition.
    pub fn offsets(&self, topic: &str, partition: i32) -> Result<(i64, i64), ConsumeError> {
        let until = Instant::now() + self.answer / 2;
        loop {
            match self.inner.fetch_watermarks(topic, partition, self.answer) {
                Err(e) if passing(&e) && Instant::now() < until => {
                    std::thread::sleep(OFFSETS_AGAIN);
                    // Refreshes the metadata, which is read above.
                    drop(self.inner.fetch_metadata(Some(topic), self.answer));
                }
                asked => {
                    return asked.map_err(self.failed(format!("ask for the offsets of {topic}")));
                }
            }
        }
    }

    /// Partitions that are read now: (topic, partition).
    ///
    /// # Errors
    /// librdkafka refuses.
    pub fn assigned(&self) -> Result<Vec<(String, i32)>, ConsumeError> {
        let list = self.inner.assignment().map_err(self.failed("ask for the assignment"))?;
        Ok(names(&list))
    }

    /// What has moved since the last call; `None`: nothing. Only with [`ConsumerOptions::hold`].
    pub fn moves(&self) -> Option<Moves> {
        let context = self.inner.context();
        context.moved.swap(false, Relaxed).then(|| {
            let mut moves = context.moves.lock().expect("no holder panics");
            Moves { lost: std::mem::take(&mut moves.lost), leaving: moves.leaving.clone() }
        })
    }

    /// Gives up the partitions that are [leaving](Moves::leaving): the other member begins at the group's offset.
    ///
    /// # Errors
    /// librdkafka refuses.
    pub fn give_up(&self) -> Result<(), ConsumeError> {
        let failed = || self.failed("give up partitions");
        let context = self.inner.context();
        let leaving = {
            let mut moves = context.moves.lock().expect("no holder panics");
            std::mem::take(&mut moves.leaving)
        };
        if leaving.is_empty() {
            return Ok(());
        }
        let mut list = TopicPartitionList::new();
        for (topic, partition) in &leaving {
            list.add_partition(topic, *partition);
        }
        Context::let_go(&self.inner, &list).map_err(failed())
    }

    /// The next message, the end of a partition, or nothing after `time`. Must be called often, even if nothing is
    /// expected: otherwise the group removes this member.
    ///
    /// # Errors
    /// An error from which librdkafka does not recover.
    pub fn poll(&self, time: Duration) -> Result<Polled<'_>, ConsumeError> {
        let polled = self.inner.poll(time);
        self.sheet.set(ConsumerCounter::Errors as usize, self.errors.load(Relaxed));
        match polled {
            None => Ok(Polled::Nothing),
            Some(Ok(message)) => {
                self.sheet.add(ConsumerCounter::Messages as usize, 1);
                self.sheet.add(ConsumerCounter::Bytes as usize, message.payload_len() as u64);
                Ok(Polled::Message(TopicMessage(message)))
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => Ok(Polled::End { partition }),
            Some(Err(error)) => match error.rdkafka_error_code() {
                Some(code) if mends(code) => {
                    self.unknown.fetch_or(is_unknown(code), Relaxed);
                    self.errors.fetch_add(1, Relaxed);
                    Ok(Polled::Nothing)
                }
                _ => Err(self.failed("read")(error)),
            },
        }
    }

    /// True if since the last call a broker said that a topic or a partition that is read is not there. It may come
    /// (again), and is read then.
    pub fn missed_topic(&self) -> bool {
        self.unknown.swap(false, Relaxed)
    }

    /// Pauses and resumes the partitions of a topic: paused ones are not fetched.
    ///
    /// # Errors
    /// librdkafka refuses.
    pub fn pause(&self, topic: &str, partition: i32, pause: bool) -> Result<(), ConsumeError> {
        let mut list = TopicPartitionList::new();
        list.add_partition(topic, partition);
        let done = if pause { self.inner.pause(&list) } else { self.inner.resume(&list) };
        done.map_err(self.failed(format!("pause {topic}")))
    }

    /// While `rest` is true no message of any partition is returned, including partitions that are assigned meanwhile;
    /// [`Consumer::poll`] then only keeps the session alive and handles the group's requests. Fetched messages are
    /// fetched again, so this is for pauses of a second and more.
    ///
    /// # Errors
    /// librdkafka refuses.
    pub fn rest(&self, rest: bool) -> Result<(), ConsumeError> {
        self.inner.context().resting.store(rest, Relaxed);
        self.inner.context().rested.fetch_or(rest, Relaxed);
        let all = self.inner.assignment().map_err(self.failed("ask for the assignment"))?;
        let done = if rest { self.inner.pause(&all) } else { self.inner.resume(&all) };
        done.map_err(self.failed("pause partitions"))
    }

    /// Has the next message of a partition be this one.
    ///
    /// # Errors
    /// The partition is not read.
    pub fn go_back(&self, topic: &str, partition: i32, offset: i64) -> Result<(), ConsumeError> {
        let back = self.inner.seek(topic, partition, Offset::Offset(offset), self.answer);
        back.map_err(self.failed(format!("go back in {topic}")))
    }

    /// Counters.
    pub fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }
}

impl Drop for Consumer {
    /// Leaves the group: it waits for partitions that are held.
    fn drop(&mut self) {
        self.inner.context().hold.store(false, Relaxed);
        let _ = self.give_up();
    }
}
