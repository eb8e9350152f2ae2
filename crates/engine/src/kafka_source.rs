//! Raw readout packets from a Kafka topic as a source: `kafka://BROKER/TOPIC?group=NAME`.
//!
//! Each ar51 message is one packet; its headers say who sent it and when (`docs/raw.md`). Recorded data that wait
//! for us: nothing is lost, and no clock decides about events. Members of a group share the partitions, and the
//! group's place is committed behind the output ([`crate::group_place`]), so a killed member's last packets come again
//! to another. Without a group, all partitions or those named are read from their beginning, and nothing is committed.
//!
//! Refuses: other keys in the URL; a topic that is not there; packets without a sender, or of another epoch, where
//! the detector needs them (exit code 2); messages that are no ar51 are counted and left out.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fullcount_core::batch::{Batch, Edge, Origin, TrainMeta};
use fullcount_core::ledger::Sheet;
use fullcount_io::source::{Received, Source, SourceError};
use fullcount_out::flat::{Message, decode};
use fullcount_out::kafka::{
    Address, Begin, ConsumeError, Consumer, ConsumerOptions, EPOCH_HEADER, Polled, SOURCE_HEADER,
    TIME_HEADER, origin, time,
};

use crate::config::{ConfigError, refuse};
use crate::group_place::GroupPlace;
use crate::open::OpenError;
use crate::partition_order::{PartitionOrder, Step};

fullcount_core::counters! {
    /// What reading packets from a topic counts.
    pub enum FromTopic {
        Packets "receive.packets" Packets Sum "receive" In "messages read from the topic" "";
        Accepted "receive.accepted" Packets Sum "receive" Accepted "packets handed to the decoder" "";
        Other "receive.not_ar51" Packets Sum "receive" Rejected
            "messages that hold no raw packet, or are damaged" "is it the right topic?";
        TooLong "receive.truncated" Packets Sum "receive" Rejected
            "packets longer than a datagram can be" "";
        Bytes "receive.bytes" Bytes Sum "receive" Note "payload bytes received" "";
        NoSource "receive.without_source" Packets Sum "receive" Note
            "packets whose message does not say who sent them (header fc.src)"
            "detectors that follow each sender's numbers need it: send with output.raw";
        NoTime "receive.without_time" Packets Sum "receive" Note
            "packets whose message does not say when they came (header fc.time_ns)" "";
        Idle "thread.input_idle" Times Sum "receive" Note "receive calls that timed out" "";
    }
}

/// Bytes of a batch: stays in the second-level cache, holds any datagram 15 times.
const BATCH_BYTES: usize = 1 << 20;
/// Longest packet.
const LONGEST: usize = 65_535;
/// Messages in a batch at most.
const MOST: usize = 1024;
/// Between two looks at what may be committed.
const COMMIT_EVERY: Duration = Duration::from_secs(1);
/// Longest wait for the first message when the topic is looked at before the run.
const LOOK: Duration = Duration::from_secs(10);

/// A topic that can be read.
#[derive(Debug, Clone)]
pub struct TopicUrl {
    url: String,
    address: Address,
    group: Option<String>,
    /// None: all.
    partitions: Option<Vec<i32>>,
    newest: bool,
    until_end: bool,
    /// For a replay that goes on after a kill.
    reading: Option<Reading>,
}

/// How a topic is read so that it can be read again in the same way.
#[derive(Debug, Clone)]
pub struct Reading {
    /// First offset of each partition.
    pub starts: BTreeMap<i32, i64>,
    /// File for the order of the partitions.
    pub order: PathBuf,
}

impl TopicUrl {
    /// Reads `kafka://…`.
    ///
    /// # Errors
    /// What cannot be, and what is allowed.
    pub fn parse(url: &str) -> Result<TopicUrl, ConfigError> {
        let wrong = |why: String| refuse("source.url", url, why);
        let address = Address::parse(url).map_err(|e| wrong(e.to_string()))?;
        let mut topic = TopicUrl {
            url: url.to_owned(),
            group: None,
            partitions: None,
            newest: false,
            until_end: false,
            reading: None,
            address,
        };
        for (key, value) in &topic.address.query {
            match (key.as_str(), value.as_str()) {
                ("group", "") => return Err(wrong("group: a name".into())),
                ("group", name) => topic.group = Some(name.to_owned()),
                ("from", "oldest") => topic.newest = false,
                ("from", "newest") => topic.newest = true,
                ("from", _) => return Err(wrong("from: oldest or newest".into())),
                ("until", "end") => topic.until_end = true,
                ("until", _) => return Err(wrong("until: end".into())),
                ("partitions", list) => {
                    let one = |p: &str| p.parse::<u16>().map(i32::from);
                    let all: Result<Vec<i32>, _> = list.split(',').map(one).collect();
                    let why = "partitions: numbers with commas between them";
                    topic.partitions = Some(all.map_err(|_| wrong(why.into()))?);
                }
                _ => {
                    let why = format!("{key}: known are group, from, partitions and until");
                    return Err(wrong(why));
                }
            }
        }
        if topic.group.is_some() && (topic.partitions.is_some() || topic.newest) {
            let why = "a group shares out partitions by itself and goes on where it stood: leave \
                       partitions and from out";
            return Err(wrong(why.into()));
        }
        Ok(topic)
    }

    fn error(&self, what: &str) -> impl FnOnce(ConsumeError) -> SourceError {
        let (endpoint, what) = (self.url.clone(), what.to_owned());
        move |e| SourceError { endpoint, what, cause: e.to_string() }
    }

    fn consumer(&self, group: Option<String>) -> Result<Consumer, SourceError> {
        let options =
            ConsumerOptions { group, ..ConsumerOptions::new(self.address.brokers.as_str()) };
        let options = ConsumerOptions { news: say, ..options };
        Consumer::new(&options).map_err(self.error("cannot open"))
    }

    /// True if the group decides where it begins.
    pub fn in_group(&self) -> bool {
        self.group.is_some()
    }

    /// The same topic, read from there and in the order that the file says.
    pub fn reading(self, reading: Reading) -> TopicUrl {
        TopicUrl { reading: Some(reading), ..self }
    }

    /// The partitions that are read.
    fn all(&self, consumer: &Consumer) -> Result<Vec<i32>, OpenError> {
        let topic = self.address.topic.as_str();
        let count = consumer.partitions(topic).map_err(self.error("cannot open"))?;
        if count == 0 {
            return Err(self.cannot_open(format!("there is no topic {topic}")).into());
        }
        let all: Vec<i32> = match &self.partitions {
            None => (0..count).collect(),
            Some(some) => some.clone(),
        };
        if let Some(none) = all.iter().find(|p| **p >= count) {
            let why = format!("topic {topic} has no partition {none}: 0 to {}", count - 1);
            return Err(refuse("source.url", &self.url, why).into());
        }
        Ok(all)
    }

    fn cannot_open(&self, cause: String) -> SourceError {
        SourceError { endpoint: self.url.clone(), what: "cannot open".into(), cause }
    }

    /// Where its partitions begin now.
    ///
    /// # Errors
    /// No broker answers, no such topic or partition.
    pub fn starts(&self) -> Result<BTreeMap<i32, i64>, OpenError> {
        let consumer = self.consumer(None)?;
        let topic = self.address.topic.as_str();
        let mut starts = BTreeMap::new();
        for partition in self.all(&consumer)? {
            let (low, high) =
                consumer.offsets(topic, partition).map_err(self.error("cannot open"))?;
            starts.insert(partition, if self.newest { high } else { low });
        }
        Ok(starts)
    }

    /// Refuses a topic that no longer holds what was read from these places.
    ///
    /// # Errors
    /// It does not, or no broker answers.
    pub fn still_holds(&self, starts: &BTreeMap<i32, i64>) -> Result<(), OpenError> {
        let consumer = self.consumer(None)?;
        let topic = self.address.topic.as_str();
        for (&partition, &start) in starts {
            let (low, high) =
                consumer.offsets(topic, partition).map_err(self.error("cannot open"))?;
            if !(low..=high).contains(&start) {
                let cause = format!(
                    "the interrupted replay began at offset {start} of partition {partition}, which now holds \
                     {low} to {high}: it cannot go on; --replay restart sends what is there, from its beginning"
                );
                return Err(self.cannot_open(cause).into());
            }
        }
        Ok(())
    }

    /// Looks at the first message of each partition, so that packets that cannot be right are refused before a
    /// file is made.
    fn look(&self, needs: &Needs) -> Result<Vec<i32>, OpenError> {
        let consumer = self.consumer(None)?;
        let topic = self.address.topic.as_str();
        let all = self.all(&consumer)?;
        let begin: Vec<_> = all.iter().map(|p| (topic, *p, Begin::Oldest)).collect();
        let mut seen = BTreeSet::new();
        consumer.assign(&begin).map_err(self.error("cannot open"))?;
        let end = Instant::now() + LOOK;
        while seen.len() < all.len() && Instant::now() < end {
            match consumer.poll(Duration::from_millis(200)).map_err(self.error("reading"))? {
                Polled::End { partition } => drop(seen.insert(partition)),
                Polled::Nothing => {}
                Polled::Message(m) => {
                    if seen.insert(m.partition()) {
                        needs.check(self, &m)?;
                    }
                }
            }
        }
        Ok(all)
    }

    /// Begins to read.
    ///
    /// # Errors
    /// No broker answers, no such topic; packets that the detector cannot use.
    pub fn open(&self, needs: Needs) -> Result<TopicSource, OpenError> {
        let partitions = self.look(&needs)?;
        let consumer = Arc::new(self.consumer(self.group.clone())?);
        let topic = self.address.topic.as_str();
        let begun = if self.group.is_some() {
            consumer.subscribe(&[topic])
        } else if self.reading.is_none() {
            let begin = if self.newest { Begin::Newest } else { Begin::Oldest };
            let all: Vec<_> = partitions.iter().map(|p| (topic, *p, begin)).collect();
            consumer.assign(&all)
        } else {
            // Once what was read before has been read again.
            Ok(())
        };
        begun.map_err(self.error("cannot open"))?;
        Ok(TopicSource {
            url: self.clone(),
            needs,
            place: self
                .group
                .is_some()
                .then(|| Arc::new(GroupPlace::new(consumer.clone(), &self.address.topic))),
            consumer,
            sheet: Sheet::new(FromTopic::catalogue()),
            handed: BTreeMap::new(),
            committed: Instant::now(),
            ended: BTreeSet::new(),
            over: false,
            left: None,
            again: Again::Unread,
        })
    }
}

/// Said once each, as librdkafka says it.
fn say(what: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "fullcount: {what}");
}

/// What the detector wants to know of each packet.
#[derive(Debug, Clone, Copy)]
pub struct Needs {
    /// Its numbers are followed by sender.
    pub origin: bool,
    /// Time of its tick 0, ns since 1970.
    pub epoch_ns: i64,
}

impl Needs {
    fn check(
        &self,
        url: &TopicUrl,
        message: &fullcount_out::kafka::Message<'_>,
    ) -> Result<(), ConfigError> {
        if self.origin && message.header(SOURCE_HEADER).and_then(origin).is_none() {
            let why = "packets whose messages say who sent them (header fc.src): this detector follows \
                       each sender's numbers";
            return Err(refuse("source.url", &url.url, why));
        }
        let epoch = message.header(EPOCH_HEADER).and_then(time);
        if let Some(epoch) = epoch.filter(|e| *e != self.epoch_ns) {
            let why = format!("{epoch}, which is the epoch of the packets of {}", url.url);
            return Err(refuse("time.epoch", self.epoch_ns, why));
        }
        Ok(())
    }
}

/// Packets of a topic.
pub struct TopicSource {
    url: TopicUrl,
    needs: Needs,
    consumer: Arc<Consumer>,
    /// Of a member of a group.
    place: Option<Arc<GroupPlace>>,
    sheet: Arc<Sheet>,
    /// Next offset by partition, of what was handed on.
    handed: BTreeMap<i32, i64>,
    committed: Instant,
    /// Partitions that were read to their end.
    ended: BTreeSet<i32>,
    over: bool,
    /// A packet that no longer fitted the batch: bytes, sender, time.
    left: Option<(Vec<u8>, Origin, i64)>,
    again: Again,
}

/// What was read before is read again, in the same order.
enum Again {
    /// The file with the order is not open; nobody else has the spool's folder once the run is under way.
    Unread,
    /// A consumer for each partition that has had its turn.
    Under(PartitionOrder, BTreeMap<i32, Consumer>),
    /// It is through; what comes now is written down.
    Over(PartitionOrder),
}

/// A batch being filled.
#[derive(Default)]
struct Filling {
    bytes: usize,
    packets: u64,
    other: u64,
    too_long: u64,
    no_source: u64,
    no_time: u64,
    /// Partition and number of messages, in turn.
    runs: Vec<(i32, u32)>,
}

impl TopicSource {
    /// Its place in the group, if it is a member of one.
    pub(crate) fn place(&self) -> Option<Arc<GroupPlace>> {
        self.place.clone()
    }

    fn failed(&self, cause: impl Into<String>) -> SourceError {
        let (endpoint, what) = (self.url.url.clone(), "reading".to_owned());
        SourceError { endpoint, what, cause: cause.into() }
    }

    /// Reads what was read before again. `None` once that is through.
    fn read_again(&mut self, batch: &mut Batch) -> Result<Option<Filling>, SourceError> {
        let Some(reading) = &self.url.reading else { return Ok(None) };
        let disk = |e: std::io::Error| self.failed(format!("{}: {e}", reading.order.display()));
        if matches!(self.again, Again::Unread) {
            let order = PartitionOrder::open(&reading.order).map_err(disk)?;
            self.handed = reading.starts.clone();
            self.again = Again::Under(order, BTreeMap::new());
        }
        let Again::Under(order, consumers) = &mut self.again else { return Ok(None) };
        let runs = match order.next() {
            Some(Step::Batch(runs)) => runs,
            Some(Step::End) => {
                self.over = true;
                return Ok(Some(Filling::default()));
            }
            None => {
                let Again::Under(order, _) = std::mem::replace(&mut self.again, Again::Unread)
                else {
                    return Ok(None);
                };
                self.again = Again::Over(order);
                let topic = self.url.address.topic.as_str();
                let all = self.handed.iter().map(|(p, at)| (topic, *p, Begin::At(*at)));
                let begun = self.consumer.assign(&all.collect::<Vec<_>>());
                begun.map_err(self.url.error("reading"))?;
                return Ok(None);
            }
        };
        let mut filling = Filling::default();
        if let Some((bytes, origin, time_ns)) = self.left.take() {
            put(batch, &mut filling.bytes, &bytes, origin, time_ns);
        }
        for (partition, count) in runs {
            let next = self.handed.entry(partition).or_default();
            let consumer = match consumers.entry(partition) {
                Entry::Occupied(made) => made.into_mut(),
                Entry::Vacant(none) => {
                    let made = none.insert(self.url.consumer(None)?);
                    let topic = self.url.address.topic.as_str();
                    let begun = made.assign(&[(topic, partition, Begin::At(*next))]);
                    begun.map_err(self.url.error("reading"))?;
                    made
                }
            };
            let (mut left, end) = (count, Instant::now() + LOOK * 6);
            while left > 0 {
                let polled = consumer.poll(Duration::from_millis(200));
                match polled.map_err(self.url.error("reading"))? {
                    Polled::Message(message) => {
                        *next = message.offset() + 1;
                        take(&message, self.needs, batch, &mut filling, &mut self.left).map_err(
                            |why| SourceError {
                                endpoint: self.url.url.clone(),
                                what: "reading".into(),
                                cause: why.into(),
                            },
                        )?;
                        left -= 1;
                    }
                    Polled::End { .. } | Polled::Nothing if Instant::now() < end => {}
                    _ => {
                        let cause = format!(
                            "{left} messages of partition {partition} that were read before do not come again"
                        );
                        let (endpoint, what) = (self.url.url.clone(), "reading".into());
                        return Err(SourceError { endpoint, what, cause });
                    }
                }
            }
        }
        Ok(Some(filling))
    }

    /// Fills a batch with what comes.
    fn read_on(&mut self, batch: &mut Batch, wait: Duration) -> Result<Filling, SourceError> {
        let mut filling = Filling::default();
        let mut handed_left = false;
        if let Some((bytes, origin, time_ns)) = self.left.take() {
            put(batch, &mut filling.bytes, &bytes, origin, time_ns);
            handed_left = true;
        }
        while batch.trains().len() < MOST && self.left.is_none() {
            let wait = if batch.is_empty() { wait } else { Duration::ZERO };
            let polled = self.consumer.poll(wait).map_err(self.url.error("reading"))?;
            let message = match polled {
                Polled::Nothing => break,
                Polled::End { partition } => {
                    self.ended.insert(partition);
                    if self.at_end()? {
                        self.over = true;
                        break;
                    }
                    continue;
                }
                Polled::Message(message) => message,
            };
            let partition = message.partition();
            self.handed.insert(partition, message.offset() + 1);
            match filling.runs.last_mut() {
                Some((last, count)) if *last == partition => *count += 1,
                _ => filling.runs.push((partition, 1)),
            }
            if let Err(why) = take(&message, self.needs, batch, &mut filling, &mut self.left) {
                self.sheet.add(FromTopic::NoSource as usize, filling.no_source);
                let (endpoint, what) = (self.url.url.clone(), "reading".to_owned());
                return Err(SourceError { endpoint, what, cause: why.into() });
            }
        }
        if let Again::Over(order) = &mut self.again {
            let mut written = Ok(());
            if handed_left || !filling.runs.is_empty() {
                written = order.write(&Step::Batch(filling.runs.clone()));
            }
            if self.over {
                written = written.and_then(|()| order.write(&Step::End));
            }
            written.map_err(|e| self.failed(format!("writing down the order: {e}")))?;
        }
        Ok(filling)
    }

    fn at_end(&self) -> Result<bool, SourceError> {
        if !self.url.until_end {
            return Ok(false);
        }
        let mine = self.consumer.assigned().map_err(self.url.error("reading"))?;
        Ok(!mine.is_empty() && mine.iter().all(|(_, p)| self.ended.contains(p)))
    }
}

/// One message into the batch, or into `left` if it no longer fits.
fn take(
    message: &fullcount_out::kafka::Message<'_>,
    needs: Needs,
    batch: &mut Batch,
    filling: &mut Filling,
    left: &mut Option<(Vec<u8>, Origin, i64)>,
) -> Result<(), &'static str> {
    filling.packets += 1;
    let payload = match decode(message.payload()) {
        Ok(Message::Ar51(raw)) => raw.raw_data.unwrap_or_default(),
        _ => {
            filling.other += 1;
            return Ok(());
        }
    };
    if payload.len() > LONGEST {
        filling.too_long += 1;
        return Ok(());
    }
    let from = message.header(SOURCE_HEADER).and_then(origin);
    if from.is_none() {
        filling.no_source += 1;
        if needs.origin {
            return Err("a packet whose message does not say who sent it (header fc.src)");
        }
    }
    let at = message.header(TIME_HEADER).and_then(time);
    filling.no_time += u64::from(at.is_none());
    let (from, at) = (from.unwrap_or(Origin::NONE), at.unwrap_or(0));
    if !put(batch, &mut filling.bytes, payload, from, at) {
        *left = Some((payload.to_vec(), from, at));
    }
    Ok(())
}

/// Puts a packet behind the others; `false` if it does not fit.
fn put(batch: &mut Batch, filled: &mut usize, bytes: &[u8], origin: Origin, time_ns: i64) -> bool {
    let end = *filled + bytes.len();
    let Some(place) = batch.memory_mut().get_mut(*filled..end) else { return false };
    place.copy_from_slice(bytes);
    let (start, len, edge) = (*filled, bytes.len(), Edge::Datagram);
    batch.push(TrainMeta { start, len, stride: 0, origin, time_ns, edge });
    *filled = end;
    true
}

impl Source for TopicSource {
    fn recv(&mut self, batch: &mut Batch, wait: Duration) -> Result<Received, SourceError> {
        batch.clear();
        if batch.memory_mut().len() < BATCH_BYTES {
            *batch = self.batch();
        }
        if self.over {
            return Ok(Received::End);
        }
        if self.committed.elapsed() >= COMMIT_EVERY {
            self.committed = Instant::now();
            if let Some(place) = &self.place {
                place.look(&self.handed, self.sheet.get(FromTopic::Accepted as usize));
            }
        }
        let filling = match self.read_again(batch)? {
            Some(filling) => filling,
            None => self.read_on(batch, wait)?,
        };
        let s = &*self.sheet;
        s.add(FromTopic::Packets as usize, filling.packets);
        s.add(FromTopic::Other as usize, filling.other);
        s.add(FromTopic::TooLong as usize, filling.too_long);
        s.add(FromTopic::NoSource as usize, filling.no_source);
        s.add(FromTopic::NoTime as usize, filling.no_time);
        let accepted = filling.packets - filling.other - filling.too_long;
        s.add(FromTopic::Accepted as usize, accepted);
        s.add(FromTopic::Bytes as usize, batch.bytes());
        if !batch.is_empty() {
            return Ok(Received::Data);
        }
        if self.over {
            return Ok(Received::End);
        }
        s.add(FromTopic::Idle as usize, 1);
        Ok(Received::Idle)
    }

    fn batch(&self) -> Batch {
        Batch::with_slots(MOST, BATCH_BYTES / MOST)
    }

    fn lossless(&self) -> bool {
        true
    }

    fn replay(&self) -> bool {
        true
    }

    fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }

    fn describe(&self) -> Vec<String> {
        let TopicUrl { address, group, partitions, until_end, .. } = &self.url;
        let whose = match (group, partitions) {
            (Some(group), _) => format!("as a member of group {group}"),
            (None, Some(some)) => format!("partitions {some:?}"),
            (None, None) => "all partitions".to_owned(),
        };
        let end = if *until_end { ", to its end" } else { "" };
        vec![format!("raw packets of topic {} at {}, {whose}{end}", address.topic, address.brokers)]
    }
}

impl Drop for TopicSource {
    fn drop(&mut self) {
        if let (Some(place), false) = (&self.place, std::thread::panicking()) {
            place.over(&self.handed);
        }
    }
}
