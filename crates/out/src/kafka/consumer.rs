//! Reading topics: a group that shares the work, or partitions of one's own; offsets committed when the caller says so.
//!
//! [`Consumer::poll`] gives one message, the end of a partition, or nothing. Errors that librdkafka mends by itself
//! (a broker that is away, an election) are counted and not given; what is given is for good. Offsets are never
//! committed by themselves: [`Consumer::commit`] is called once what was read is safe. A member that holds its
//! partitions ([`ConsumerOptions::hold`]) gives them up when it says so, which is once that is done; it can leave the
//! moment of a commit to librdkafka ([`Consumer::commit_soon`]), whose broker's answer is heard of
//! ([`Consumer::confirmed`]). Of [`Consumer::commit`] without waiting nothing is heard: librdkafka tells only of commits of its own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fullcount_core::ledger::Sheet;
use rdkafka::ClientContext;
use rdkafka::TopicPartitionList;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{
    BaseConsumer, CommitMode, Consumer as _, ConsumerContext, RebalanceProtocol,
};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers as _, Message as _};
use rdkafka::topic_partition_list::Offset;
use rdkafka::types::RDKafkaRespErr;

use super::counters::ConsumerCounter;
use super::link::{Link, News};
use super::settings::Settings;

/// Longest wait for one answer, if nothing else is said.
const ANSWER: Duration = Duration::from_secs(10);

/// Between two looks of librdkafka's at what was given to [`Consumer::commit_soon`], ms: a look at a few numbers, and a
/// request only if one has moved.
const COMMIT_LOOK_MS: &str = "200";

/// Pause before a commit that was refused while the group shares out anew.
const COMMIT_AGAIN: Duration = Duration::from_millis(20);
/// Pause before a partition that looked unknown is asked about again.
const OFFSETS_AGAIN: Duration = Duration::from_millis(50);

/// What a consumer is made with.
#[derive(Debug, Clone)]
pub struct ConsumerOptions {
    /// `host:port`, several with commas between them.
    pub brokers: String,
    /// Group that shares the partitions and whose offsets are committed. `None`: partitions are assigned by hand, and
    /// nothing can be committed.
    pub group: Option<String>,
    /// Partitions that the group wants for another member stay until [`Consumer::give_up`]: see [`Consumer::moves`].
    /// Only those that move are taken away (`partition.assignment.strategy` is `cooperative-sticky` unless set).
    pub hold: bool,
    /// Tell the end of each partition, every time that it is reached.
    pub tell_ends: bool,
    /// librdkafka's own settings.
    pub settings: Settings,
    /// Takes sentences for people.
    pub news: News,
    /// Longest wait for one answer of a broker.
    pub answer: Duration,
}

impl ConsumerOptions {
    /// Without a group, ends told.
    pub fn new(brokers: impl Into<String>) -> ConsumerOptions {
        ConsumerOptions {
            brokers: brokers.into(),
            group: None,
            hold: false,
            tell_ends: true,
            settings: Settings::default(),
            news: |_| {},
            answer: ANSWER,
        }
    }
}

/// Where reading a partition begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// At the oldest message that is there.
    Oldest,
    /// Behind the newest.
    Newest,
    /// At this offset.
    At(i64),
    /// At the first message whose Kafka timestamp is this or later, ms since 1970.
    Time(i64),
    /// Where the group stands; where it never was, at the oldest.
    Committed,
}

/// A consumer that cannot be made, or cannot go on.
#[derive(Debug, thiserror::Error)]
#[error("kafka {brokers}: {doing}: {cause}")]
pub struct ConsumeError {
    /// Where.
    pub brokers: String,
    /// What was tried.
    pub doing: String,
    /// librdkafka's words.
    #[source]
    pub cause: Box<KafkaError>,
}

impl ConsumeError {
    /// True if the broker knows no such topic, or no such partition of it.
    pub fn is_unknown_topic(&self) -> bool {
        self.cause.rdkafka_error_code().is_some_and(is_unknown)
    }

    /// True if the group has shared out anew meanwhile: a member that has joined again may commit what it has done.
    pub fn is_of_an_older_share(&self) -> bool {
        use RDKafkaErrorCode as E;
        matches!(
            self.cause.rdkafka_error_code(),
            Some(
                E::IllegalGeneration
                    | E::UnknownMemberId
                    | E::RebalanceInProgress
                    | E::AssignmentLost
            )
        )
    }
}

/// What one poll gave.
#[derive(Debug)]
pub enum Polled<'a> {
    /// A message.
    Message(Message<'a>),
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
pub struct Message<'a>(BorrowedMessage<'a>);

impl Message<'_> {
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
    /// Taken away, because the group took this member for dead: nothing can be committed for them.
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
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer").field("brokers", &self.brokers).finish_non_exhaustive()
    }
}

struct Context {
    link: Link,
    errors: Arc<AtomicU64>,
    /// Partitions stay until they are given up.
    hold: AtomicBool,
    /// Something moved since [`Consumer::moves`].
    moved: AtomicBool,
    moves: Mutex<Moves>,
    /// No message is wanted now.
    resting: AtomicBool,
    /// At some time none was.
    rested: AtomicBool,
    /// Newest place by topic and partition that the broker has confirmed since [`Consumer::confirmed`].
    confirmed: Mutex<BTreeMap<(String, i32), i64>>,
    /// Commits that the broker refused, whole or for a partition.
    refused: AtomicU64,
    /// The last one was refused, and that was said.
    refusing: AtomicBool,
}

impl Context {
    /// Said when it begins, and when it is over.
    fn refused(&self, error: &KafkaError) {
        self.refused.fetch_add(1, Relaxed);
        // The group is sharing out anew, and takes it in a moment.
        let passes = error.rdkafka_error_code() == Some(RDKafkaErrorCode::RebalanceInProgress);
        if !passes && !self.refusing.swap(true, Relaxed) {
            self.link.say(&format!(
                "the group's place is not taken on ({error}): what was read since comes again if this process is killed"
            ));
        }
    }

    fn taken_on(&self) {
        if self.refusing.swap(false, Relaxed) {
            self.link.say("the group's place is taken on again");
        }
    }

    fn let_go(
        consumer: &BaseConsumer<Context>,
        partitions: &TopicPartitionList,
    ) -> Result<(), KafkaError> {
        match consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => consumer.incremental_unassign(partitions),
            RebalanceProtocol::Eager | RebalanceProtocol::None => consumer.unassign(),
        }
    }
}

fn names(list: &TopicPartitionList) -> Vec<(String, i32)> {
    list.elements().iter().map(|e| (e.topic().to_owned(), e.partition())).collect()
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, _: &str, message: &str) {
        self.link.log(level, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.errors.fetch_add(1, Relaxed);
        self.link.error(&error, reason);
    }
}

impl ConsumerContext for Context {
    /// The broker's answer, partition by partition.
    fn commit_callback(&self, result: Result<(), KafkaError>, offsets: &TopicPartitionList) {
        // Nothing had moved.
        if matches!(&result, Err(e) if e.rdkafka_error_code() == Some(RDKafkaErrorCode::NoOffset)) {
            return;
        }
        let mut first = result.err();
        if first.is_none() {
            let mut confirmed = self.confirmed.lock().expect("no holder panics");
            for one in offsets.elements() {
                match (one.error(), one.offset()) {
                    (Err(error), _) => first = first.or(Some(error)),
                    (Ok(()), Offset::Offset(at)) => {
                        confirmed.insert((one.topic().to_owned(), one.partition()), at);
                    }
                    (Ok(()), _) => {}
                }
            }
        }
        match first {
            Some(error) => self.refused(&error),
            None => self.taken_on(),
        }
    }

    /// As librdkafka's default, but that partitions may stay for a while.
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        what: RDKafkaRespErr,
        partitions: &mut TopicPartitionList,
    ) {
        let done = if what == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            let given = match consumer.rebalance_protocol() {
                RebalanceProtocol::Cooperative => consumer.incremental_assign(partitions),
                RebalanceProtocol::Eager | RebalanceProtocol::None => consumer.assign(partitions),
            };
            // librdkafka keeps it of a partition that it rests, also while somebody else has it.
            match (self.resting.load(Relaxed), self.rested.load(Relaxed)) {
                (true, _) => given.and_then(|()| consumer.pause(partitions)),
                (false, true) => given.and_then(|()| consumer.resume(partitions)),
                (false, false) => given,
            }
        } else if !self.hold.load(Relaxed) {
            Context::let_go(consumer, partitions)
        } else {
            let mut moves = self.moves.lock().expect("no holder panics");
            self.moved.store(true, Relaxed);
            if consumer.assignment_lost() {
                let mut lost = std::mem::take(&mut moves.leaving);
                lost.extend(names(partitions));
                moves.lost.extend(lost);
                Context::let_go(consumer, partitions)
            } else if partitions.count() == 0 {
                Context::let_go(consumer, partitions)
            } else {
                moves.leaving.extend(names(partitions));
                Ok(())
            }
        };
        if let Err(error) = done {
            // The group finds out by itself that a member does not follow, and puts it out.
            self.link.say(&format!("partitions that the group moves: {error}"));
        }
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
        // librdkafka wants a name even where no group is joined; nothing is committed in it.
        config.set("group.id", options.group.as_deref().unwrap_or("fullcount-alone"));
        config.set("enable.partition.eof", if options.tell_ends { "true" } else { "false" });
        if options.hold {
            // Of what it is given only: nothing is stored by reading (`enable.auto.offset.store` is false).
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
        Ok(Consumer { inner, brokers, sheet, errors, unknown, answer, holds })
    }

    fn failed(&self, doing: impl Into<String>) -> impl FnOnce(KafkaError) -> ConsumeError {
        let (brokers, doing) = (self.brokers.clone(), doing.into());
        move |cause| ConsumeError { brokers, doing, cause: Box::new(cause) }
    }

    /// Joins the group for these topics: partitions come and go, each begins where the group stands.
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
    /// No broker answers where one has to be asked ([`Begin::Time`]), or librdkafka refuses.
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
        // both lies at this offset or behind it. The other way round, a message between them was passed over.
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

    /// Offset of the oldest message of a partition, and the one behind its newest. While librdkafka knows of no such
    /// partition or of no leader it is made to look again, for half the time of an answer: its picture of a topic that
    /// it was reading had no partitions, and was kept for minutes.
    ///
    /// # Errors
    /// No broker answers, or no such partition.
    pub fn offsets(&self, topic: &str, partition: i32) -> Result<(i64, i64), ConsumeError> {
        let until = Instant::now() + self.answer / 2;
        loop {
            match self.inner.fetch_watermarks(topic, partition, self.answer) {
                Err(e) if passing(&e) && Instant::now() < until => {
                    std::thread::sleep(OFFSETS_AGAIN);
                    // Renews the picture; what it says is asked for above.
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

    /// Gives up the partitions that are [leaving](Moves::leaving): the other member begins where the group stands now.
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

    /// The next message, the end of a partition, or nothing after `time`. To be called often, even if nothing is
    /// expected: a group drops who does not.
    ///
    /// # Errors
    /// What librdkafka does not mend by itself.
    pub fn poll(&self, time: Duration) -> Result<Polled<'_>, ConsumeError> {
        let polled = self.inner.poll(time);
        self.sheet.set(ConsumerCounter::Errors as usize, self.errors.load(Relaxed));
        match polled {
            None => Ok(Polled::Nothing),
            Some(Ok(message)) => {
                self.sheet.add(ConsumerCounter::Messages as usize, 1);
                self.sheet.add(ConsumerCounter::Bytes as usize, message.payload_len() as u64);
                Ok(Polled::Message(Message(message)))
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

    /// Says that everything in front of these offsets is safe: (topic, partition, offset of the next message).
    /// `wait`: until the broker has confirmed it, also where it first refuses because the group shares out anew.
    ///
    /// # Errors
    /// The broker refuses, for example because the group has given the partition to somebody else.
    pub fn commit(&self, next: &[(&str, i32, i64)], wait: bool) -> Result<(), ConsumeError> {
        if next.is_empty() {
            return Ok(());
        }
        let failed = |topic: &str| self.failed(format!("commit offsets of {topic}"));
        let mut list = TopicPartitionList::new();
        for &(topic, partition, offset) in next {
            let offset = Offset::Offset(offset);
            list.add_partition_offset(topic, partition, offset).map_err(failed(topic))?;
        }
        let mode = if wait { CommitMode::Sync } else { CommitMode::Async };
        let end = Instant::now() + self.answer;
        while let Err(error) = self.inner.commit(&list, mode) {
            self.inner.context().refused.fetch_add(1, Relaxed);
            // A broker refuses between the last member's word and the new shares, which is over without us.
            let passes = error.rdkafka_error_code() == Some(RDKafkaErrorCode::RebalanceInProgress);
            if !wait || !passes || Instant::now() >= end {
                return Err(failed(next[0].0)(error));
            }
            std::thread::sleep(COMMIT_AGAIN);
        }
        if self.holds {
            // When a partition goes, librdkafka commits what was stored last, also if that is behind what was committed since.
            let _ = self.inner.store_offsets(&list);
        }
        self.sheet.add(ConsumerCounter::Commits as usize, 1);
        Ok(())
    }

    /// As [`Consumer::commit`], soon and without waiting, and again until the broker takes it: it tells with
    /// [`Consumer::confirmed`]. Partitions that have gone meanwhile are left out. Only with [`ConsumerOptions::hold`].
    ///
    /// # Errors
    /// An offset that cannot be.
    pub fn commit_soon(&self, next: &[(&str, i32, i64)]) -> Result<(), ConsumeError> {
        let failed = |topic: &str| self.failed(format!("commit offsets of {topic}"));
        let mut list = TopicPartitionList::new();
        for &(topic, partition, offset) in next {
            let offset = Offset::Offset(offset);
            list.add_partition_offset(topic, partition, offset).map_err(failed(topic))?;
        }
        match self.inner.store_offsets(&list) {
            Err(e) if e.rdkafka_error_code() != Some(RDKafkaErrorCode::State) => {
                Err(failed(next.first().map_or("", |n| n.0))(e))
            }
            _ => Ok(()),
        }
    }

    /// What the broker has confirmed of [`Consumer::commit_soon`] since the last call: (topic, partition, offset of the
    /// next message). It is heard of in [`Consumer::poll`].
    pub fn confirmed(&self) -> Vec<(String, i32, i64)> {
        let mut confirmed = self.inner.context().confirmed.lock().expect("no holder panics");
        std::mem::take(&mut *confirmed).into_iter().map(|((t, p), at)| (t, p, at)).collect()
    }

    /// Commits that the broker refused, as far as that is heard of.
    pub fn commits_refused(&self) -> u64 {
        self.inner.context().refused.load(Relaxed)
    }

    /// Where the group stands: offset of the next message, `None` where it never was.
    ///
    /// # Errors
    /// No broker answers.
    pub fn committed(&self, topic: &str, partition: i32) -> Result<Option<i64>, ConsumeError> {
        Ok(self.places(topic, &[partition])?.pop().map(|(_, at)| at))
    }

    /// Where the group stands on these partitions, with one question: (partition, offset of the next message) of each on
    /// which it ever was.
    ///
    /// # Errors
    /// No broker answers.
    pub fn places(&self, topic: &str, partitions: &[i32]) -> Result<Vec<(i32, i64)>, ConsumeError> {
        let mut ask = TopicPartitionList::new();
        for partition in partitions {
            ask.add_partition(topic, *partition);
        }
        let answer = self.inner.committed_offsets(ask, self.answer);
        let answer =
            answer.map_err(self.failed(format!("ask for the group's place in {topic}")))?;
        let all = answer.elements();
        let one = |at: Offset| match at {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        };
        Ok(all.iter().filter_map(|p| Some((p.partition(), one(p.offset())?))).collect())
    }

    /// Stops and goes on with the partitions of a topic: what is not wanted now is not fetched.
    ///
    /// # Errors
    /// librdkafka refuses.
    pub fn pause(&self, topic: &str, partition: i32, pause: bool) -> Result<(), ConsumeError> {
        let mut list = TopicPartitionList::new();
        list.add_partition(topic, partition);
        let done = if pause { self.inner.pause(&list) } else { self.inner.resume(&list) };
        done.map_err(self.failed(format!("pause {topic}")))
    }

    /// While `rest` is true no message is given, of no partition, also of none that the group gives this member meanwhile;
    /// [`Consumer::poll`] then only tells the group that this member lives, and hears what it wants. What had been fetched is
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

/// A picture of the topic that librdkafka is just renewing gives these for a partition that is there.
fn passing(error: &KafkaError) -> bool {
    use RDKafkaErrorCode as E;
    matches!(
        error.rdkafka_error_code(),
        Some(E::UnknownPartition | E::LeaderNotAvailable | E::NotLeaderForPartition)
    )
}

fn is_unknown(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as E;
    matches!(code, E::UnknownTopicOrPartition | E::UnknownTopic | E::UnknownPartition)
}

/// librdkafka goes on by itself after these.
fn mends(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as E;
    matches!(
        code,
        E::BrokerTransportFailure
            | E::AllBrokersDown
            | E::OperationTimedOut
            | E::Resolve
            | E::RequestTimedOut
            | E::LeaderNotAvailable
            | E::NotLeaderForPartition
            | E::CoordinatorLoadInProgress
            | E::CoordinatorNotAvailable
            | E::NotCoordinator
            // A topic that is to be made later.
            | E::UnknownTopicOrPartition
            | E::UnknownTopic
            | E::UnknownPartition
            | E::NoOffset
            | E::AutoOffsetReset
            | E::PollExceeded
    )
}
