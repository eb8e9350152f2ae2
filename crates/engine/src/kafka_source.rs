//! Raw readout packets from a Kafka topic as a source: `kafka://BROKER/TOPIC?group=NAME`.
//!
//! Each ar51 message is one packet; its headers say who sent it and when (`docs/raw.md`). Recorded data that wait
//! for us: nothing is lost, and no clock decides about events. Members of a group share the partitions, and the
//! group's place is committed a second behind, so a killed member's last packets come again to another. Without a
//! group, all partitions or those named are read from their beginning, and nothing is committed.
//!
//! Refuses: other keys in the URL; a topic that is not there; packets without a sender, or of another epoch, where
//! the detector needs them (exit code 2); messages that are no ar51 are counted and left out.

use std::collections::{BTreeMap, BTreeSet};
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
use crate::open::OpenError;

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
/// Between two commits; what is committed was handed on in the interval before.
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

    /// Looks at the first message of each partition, so that packets that cannot be right are refused before a
    /// file is made.
    fn look(&self, needs: &Needs) -> Result<Vec<i32>, OpenError> {
        let consumer = self.consumer(None)?;
        let topic = self.address.topic.as_str();
        let count = consumer.partitions(topic).map_err(self.error("cannot open"))?;
        if count == 0 {
            let cause = format!("there is no topic {topic}");
            let (endpoint, what) = (self.url.clone(), "cannot open".into());
            return Err(SourceError { endpoint, what, cause }.into());
        }
        let all: Vec<i32> = match &self.partitions {
            None => (0..count).collect(),
            Some(some) => some.clone(),
        };
        if let Some(none) = all.iter().find(|p| **p >= count) {
            let why = format!("topic {topic} has no partition {none}: 0 to {}", count - 1);
            return Err(refuse("source.url", &self.url, why).into());
        }
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
        let consumer = self.consumer(self.group.clone())?;
        let topic = self.address.topic.as_str();
        let begun = if self.group.is_some() {
            consumer.subscribe(&[topic])
        } else {
            let begin = if self.newest { Begin::Newest } else { Begin::Oldest };
            let all: Vec<_> = partitions.iter().map(|p| (topic, *p, begin)).collect();
            consumer.assign(&all)
        };
        begun.map_err(self.error("cannot open"))?;
        Ok(TopicSource {
            url: self.clone(),
            needs,
            consumer,
            sheet: Sheet::new(FromTopic::catalogue()),
            handed: BTreeMap::new(),
            older: BTreeMap::new(),
            committed: Instant::now(),
            ended: BTreeSet::new(),
            over: false,
            left: None,
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
    consumer: Consumer,
    sheet: Arc<Sheet>,
    /// Next offset by partition, of what was handed on.
    handed: BTreeMap<i32, i64>,
    /// The same one interval ago.
    older: BTreeMap<i32, i64>,
    committed: Instant,
    /// Partitions that were read to their end.
    ended: BTreeSet<i32>,
    over: bool,
    /// A packet that no longer fitted the batch: bytes, sender, time.
    left: Option<(Vec<u8>, Origin, i64)>,
}

impl TopicSource {
    /// Commits what was handed on, except for the latest interval unless `all`.
    fn commit(&mut self, all: bool) {
        if self.url.group.is_none() {
            return;
        }
        let places = if all { &self.handed } else { &self.older };
        let topic = self.url.address.topic.as_str();
        let next: Vec<_> = places.iter().map(|(p, at)| (topic, *p, *at)).collect();
        // A partition that was given to another member is theirs: they begin at the last place that counted.
        let _ = self.consumer.commit(&next, all);
        self.older.clone_from(&self.handed);
        self.committed = Instant::now();
    }

    fn at_end(&self) -> Result<bool, SourceError> {
        if !self.url.until_end {
            return Ok(false);
        }
        let mine = self.consumer.assigned().map_err(self.url.error("reading"))?;
        Ok(!mine.is_empty() && mine.iter().all(|(_, p)| self.ended.contains(p)))
    }
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
            self.commit(false);
        }
        let (mut filled, mut counted) = (0, [0u64; 5]);
        if let Some((bytes, origin, time_ns)) = self.left.take() {
            put(batch, &mut filled, &bytes, origin, time_ns);
        }
        while batch.trains().len() < MOST {
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
            self.handed.insert(message.partition(), message.offset() + 1);
            counted[0] += 1;
            let payload = match decode(message.payload()) {
                Ok(Message::Ar51(raw)) => raw.raw_data.unwrap_or_default(),
                _ => {
                    counted[1] += 1;
                    continue;
                }
            };
            if payload.len() > LONGEST {
                counted[2] += 1;
                continue;
            }
            let from = message.header(SOURCE_HEADER).and_then(origin);
            if from.is_none() {
                counted[3] += 1;
                if self.needs.origin {
                    self.sheet.add(FromTopic::NoSource as usize, counted[3]);
                    let (endpoint, what) = (self.url.url.clone(), "reading".to_owned());
                    let cause = "a packet whose message does not say who sent it (header fc.src)";
                    return Err(SourceError { endpoint, what, cause: cause.into() });
                }
            }
            let at = message.header(TIME_HEADER).and_then(time);
            counted[4] += u64::from(at.is_none());
            let (from, at) = (from.unwrap_or(Origin::NONE), at.unwrap_or(0));
            if !put(batch, &mut filled, payload, from, at) {
                self.left = Some((payload.to_vec(), from, at));
                break;
            }
        }
        let s = &*self.sheet;
        let [packets, other, too_long, no_source, no_time] = counted;
        s.add(FromTopic::Packets as usize, packets);
        s.add(FromTopic::Other as usize, other);
        s.add(FromTopic::TooLong as usize, too_long);
        s.add(FromTopic::NoSource as usize, no_source);
        s.add(FromTopic::NoTime as usize, no_time);
        s.add(FromTopic::Accepted as usize, packets - other - too_long);
        s.add(FromTopic::Bytes as usize, batch.bytes());
        if !batch.is_empty() {
            return Ok(Received::Data);
        }
        if self.over {
            self.commit(true);
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
        if !std::thread::panicking() {
            self.commit(true);
        }
    }
}
