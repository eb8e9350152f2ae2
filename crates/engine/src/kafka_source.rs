//! Raw readout packets from a Kafka topic as a source: `kafka://BROKER/TOPIC?group=NAME`.
//!
//! Each ar51 message is one packet; its headers say who sent it and when (`docs/raw.md`). Recorded data that wait
//! for us: nothing is lost, and no clock decides about events. Members of a group share the partitions, and the
//! group's place is committed behind the output ([`crate::group_place`]), so a killed member's last packets come again
//! to another. A partition that moves in good order goes once all that was read of it is safe ([`Leaving`]). Without a
//! group, all partitions or those named are read from their beginning, and nothing is committed.
//!
//! Partitions are read one after the other, seconds apart, so where the detector's clock turns ([`crate::topic_begin`]) it is
//! told which packet of the topic came first, and each batch says that it is [read apart](Batch::read_apart) until all
//! partitions were read to their end once.
//!
//! Refuses: what [`crate::topic_url`] does; packets without a sender, or of another epoch, where the detector needs them
//! (exit code 2); messages that are no ar51 are counted and left out.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fullcount_core::batch::{Batch, Edge, Origin, TrainMeta};
use fullcount_core::ledger::Sheet;
use fullcount_detect::detector::TurningClock;
use fullcount_io::source::{Received, Source, SourceError};
use fullcount_out::flat::{Message, decode};
use fullcount_out::kafka::{
    Begin, Consumer, EPOCH_HEADER, Polled, SOURCE_HEADER, TIME_HEADER, origin, time,
};

use crate::config::{ConfigError, refuse};
use crate::group_place::{Broker, GroupPlace, Offsets, Parting, again_later};
use crate::open::OpenError;
use crate::parting::Leaving;
use crate::partition_order::{PartitionOrder, Step};
use crate::topic_begin::Beginning;
use crate::topic_url::LOOK;
pub use crate::topic_url::{Reading, TopicUrl};

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
        Owned "receive.owned_partitions" Times Sum "receive" Note
            "partitions that are read now, as of the last second" "";
        Moved "receive.moved_partitions" Times Sum "receive" Note
            "times that a partition was given up because the group shares them out anew" "";
        Again "receive.again_elsewhere" Packets Sum "receive" Note
            "packets that were read before their partition moved or the run ended, and of which no broker has confirmed \
             that the group's place is behind them: they come again to the next owner, and their events may be there twice"
            "the message on standard error says why: an output that could not lay its events down in time (spool full, \
             broker away), or a member that the group took for dead";
        CommitsRefused "receive.commits_refused" Times Sum "receive" Note
            "times that a broker did not take on the group's place, as far as it is heard of; it is told again"
            "a few while members come and go: normal; if it grows: the message on standard error says why";
        Cut "receive.cut_by_moves" Events Sum "receive" Note
            "events made of hits that still waited for others when a partition moved, or had waited for 30 s"
            "begin all members before the packets come, or name partitions= instead of a group";
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
/// Pause between two looks while partitions wait to be given up.
const PART_LOOK: Duration = Duration::from_millis(5);
/// Where nobody takes what was read for so long, the group hears from us all the same. Sooner would have librdkafka fetch
/// again, at each short wait, what it had fetched.
const ATTEND_AFTER: Duration = Duration::from_secs(1);
/// And so often then.
const ATTEND_EVERY: Duration = Duration::from_millis(20);

impl TopicUrl {
    /// Begins to read.
    ///
    /// # Errors
    /// No broker answers, no such topic; packets that the detector cannot use.
    pub fn open(&self, needs: Needs) -> Result<TopicSource, OpenError> {
        let Beginning { partitions, filled, firsts } = self.look(&needs)?;
        // Live, neighbours say what time it is; alone on its partition, the order does.
        let anchored = (filled > 1 || self.group.is_some()) && !self.newest;
        let firsts = if anchored { firsts } else { Vec::new() };
        let apart = anchored && filled > 1 && (self.group.is_some() || partitions.len() > 1);
        let behind = match self.group {
            // They come one by one.
            Some(_) => BTreeSet::new(),
            None => partitions.iter().copied().collect(),
        };
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
        let sheet = Sheet::new(FromTopic::catalogue());
        let place = self.group.as_ref().map(|_| {
            let topic = self.address.topic.clone();
            let broker = Broker { consumer: consumer.clone(), topic };
            Arc::new(GroupPlace::new(Box::new(broker), sheet.clone()))
        });
        Ok(TopicSource {
            url: self.clone(),
            needs,
            place,
            consumer,
            sheet,
            handed: BTreeMap::new(),
            committed: Instant::now(),
            ended: BTreeSet::new(),
            over: false,
            left: None,
            leaving: None,
            stuck: None,
            again: Again::Unread,
            behind,
            apart,
            firsts,
        })
    }
}

/// Said once each, as librdkafka says it.
pub(crate) fn say(what: &str) {
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
    /// The clock in the packets, if it turns.
    pub clock: Option<TurningClock>,
}

impl Needs {
    pub(crate) fn check(
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
    /// Next offset by partition, of what was handed on; of a group those that are ours.
    handed: Offsets,
    committed: Instant,
    /// Partitions that were read to their end.
    ended: BTreeSet<i32>,
    over: bool,
    left: Option<Left>,
    /// Partitions that are on their way to other members.
    leaving: Option<Leaving>,
    /// While nobody takes what was read.
    stuck: Option<Stuck>,
    again: Again,
    /// Partitions that were not yet read to their end; of a group those that came to it.
    behind: BTreeSet<i32>,
    /// Partitions have no order among each other until none is behind.
    apart: bool,
    /// The first packets of the topic, the earliest first, with their receive times.
    firsts: Vec<(i64, Vec<u8>)>,
}

/// Nobody takes what was read.
struct Stuck {
    since: Instant,
    looked: Instant,
    /// librdkafka gives nothing meanwhile.
    resting: bool,
    failed: Option<SourceError>,
}

/// A packet that no longer fitted the batch.
struct Left {
    bytes: Vec<u8>,
    origin: Origin,
    time_ns: i64,
    /// Partition, and offset behind it.
    place: (i32, i64),
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

    /// The first packet of each partition, with its receive time, the earliest first; empty where their order does not matter.
    pub(crate) fn firsts(&self) -> &[(i64, Vec<u8>)] {
        &self.firsts
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
        if let Some(left) = self.left.take() {
            put(batch, &mut filling.bytes, &left.bytes, left.origin, left.time_ns);
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
        if let Some(left) = self.left.take() {
            put(batch, &mut filling.bytes, &left.bytes, left.origin, left.time_ns);
            self.handed.insert(left.place.0, left.place.1);
            handed_left = true;
        }
        while batch.trains().len() < MOST && self.left.is_none() && self.leaving.is_none() {
            let wait = if batch.is_empty() { wait } else { Duration::ZERO };
            let polled = self.consumer.poll(wait).map_err(self.url.error("reading"))?;
            let message = match polled {
                Polled::Nothing => break,
                Polled::End { partition } => {
                    self.ended.insert(partition);
                    self.behind.remove(&partition);
                    if self.at_end()? {
                        self.over = true;
                        break;
                    }
                    continue;
                }
                Polled::Message(message) => message,
            };
            let (partition, offset) = (message.partition(), message.offset());
            match filling.runs.last_mut() {
                Some((last, count)) if *last == partition => *count += 1,
                _ => filling.runs.push((partition, 1)),
            }
            if let Err(why) = take(&message, self.needs, batch, &mut filling, &mut self.left) {
                self.sheet.add(FromTopic::NoSource as usize, filling.no_source);
                let (endpoint, what) = (self.url.url.clone(), "reading".to_owned());
                return Err(SourceError { endpoint, what, cause: why.into() });
            }
            let first = match self.left {
                // It is handed on with the next batch.
                Some(_) => !self.handed.contains_key(&partition),
                None => self.handed.insert(partition, offset + 1).is_none(),
            };
            if let (true, Some(place)) = (first, &self.place) {
                place.begins(partition, offset);
                self.behind.insert(partition);
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

    /// What the group has done with the partitions.
    fn hear_of_moves(&mut self, place: &GroupPlace) -> Result<(), SourceError> {
        if let Some(moves) = self.consumer.moves() {
            let numbers = |list: Vec<(String, i32)>| list.into_iter().map(|(_, p)| p).collect();
            let (lost, partitions): (BTreeSet<i32>, BTreeSet<i32>) =
                (numbers(moves.lost), numbers(moves.leaving));
            // Of somebody else's, or of ours that begins at its place again.
            self.left.take_if(|left| lost.contains(&left.place.0));
            let read = lost.iter().chain(&partitions).any(|p| self.handed.contains_key(p))
                || self.left.as_ref().is_some_and(|left| partitions.contains(&left.place.0));
            if !lost.is_empty() {
                self.part(place, &lost, Parting::Lost);
            }
            match (read, &mut self.leaving) {
                // All that has to wait is there already: nothing is read meanwhile.
                (_, Some(leaving)) => leaving.partitions = partitions,
                (true, leaving) => {
                    *leaving = Some(Leaving::new(partitions, Instant::now()));
                }
                (false, None) => self.let_go(place, &partitions, Parting::Drained)?,
            }
        }
        Ok(())
    }

    /// True while partitions are on their way to others and all that was read is handed on: nothing is read then.
    fn follow_group(&mut self) -> Result<bool, SourceError> {
        let Some(place) = self.place.clone() else { return Ok(false) };
        self.hear_of_moves(&place)?;
        let Some(leaving) = &mut self.leaving else { return Ok(false) };
        if self.left.is_some() {
            // It goes first.
            return Ok(false);
        }
        let Some(how) = leaving.turn(&place, Instant::now(), self.url.patience()) else {
            return Ok(true);
        };
        let partitions = std::mem::take(&mut leaving.partitions);
        self.leaving = None;
        self.let_go(&place, &partitions, how)?;
        Ok(false)
    }

    /// Nobody takes what was read: tells the group that we live, and follows it as far as that goes without the pipeline.
    fn attend_group(&mut self, place: &GroupPlace, now: Instant) -> Result<(), SourceError> {
        let failed = || self.url.error("reading");
        if let Polled::Message(message) = self.consumer.poll(Duration::ZERO).map_err(failed())? {
            // A partition that came in this moment.
            let (partition, offset) = (message.partition(), message.offset());
            let topic = self.url.address.topic.as_str();
            self.consumer.go_back(topic, partition, offset).map_err(failed())?;
            self.consumer.rest(true).map_err(failed())?;
        }
        self.hear_of_moves(place)?;
        if let Some(leaving) = self.leaving.take_if(|l| l.late(now, self.url.patience())) {
            // It was not handed on, so it is not ours to tell of.
            self.left.take_if(|left| leaving.partitions.contains(&left.place.0));
            self.let_go(place, &leaving.partitions, Parting::Late)?;
            // Before more is read the pipeline forgets their numbers: what others read of them is no loss here.
            self.leaving = Some(Leaving::new(BTreeSet::new(), now));
        }
        self.tell(place)
    }

    /// About once a second: how far all is safe, and what is ours.
    fn tell(&mut self, place: &GroupPlace) -> Result<(), SourceError> {
        if self.committed.elapsed() >= COMMIT_EVERY {
            self.committed = Instant::now();
            place.look(&self.handed, self.sheet.get(FromTopic::Accepted as usize));
            let owned = self.consumer.assigned().map_err(self.url.error("reading"))?;
            self.sheet.set(FromTopic::Owned as usize, owned.len() as u64);
        }
        Ok(())
    }

    /// Somebody takes what was read again.
    fn go_on(&mut self, stuck: Stuck) -> Result<(), SourceError> {
        if stuck.resting {
            self.consumer.rest(false).map_err(self.url.error("reading"))?;
        }
        stuck.failed.map_or(Ok(()), Err)
    }

    /// Tells the group where they stand, and gives them up.
    fn let_go(
        &mut self,
        place: &GroupPlace,
        partitions: &BTreeSet<i32>,
        how: Parting,
    ) -> Result<(), SourceError> {
        self.part(place, partitions, how);
        self.consumer.give_up().map_err(self.url.error("giving up partitions"))
    }

    /// These are somebody else's from now on.
    fn part(&mut self, place: &GroupPlace, gone: &BTreeSet<i32>, how: Parting) {
        let parted = place.part(&self.handed, gone, how);
        self.handed.retain(|p, _| !gone.contains(p));
        self.ended.retain(|p| !gone.contains(p));
        self.behind.retain(|p| !gone.contains(p));
        self.sheet.add(FromTopic::Moved as usize, gone.len() as u64);
        self.sheet.set(FromTopic::Cut as usize, place.settle().cut());
        if parted.again > 0 {
            let late =
                "their events were not safe in time: the spool is full, or an output is too slow";
            let lost = "the group took this member for dead (session.timeout.ms, max.poll.interval.ms) and gave its \
                        partitions away";
            let why = match (&parted.refused, how) {
                (Some(refused), _) => refused.clone(),
                (None, Parting::Lost) => lost.to_owned(),
                (None, Parting::Late | Parting::Drained) => late.to_owned(),
            };
            say(&again_later(parted.again, &why));
        }
    }
}

/// One message into the batch, or into `left` if it no longer fits.
fn take(
    message: &fullcount_out::kafka::Message<'_>,
    needs: Needs,
    batch: &mut Batch,
    filling: &mut Filling,
    left: &mut Option<Left>,
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
    // A sender that did not know it wrote 0.
    let at = message.header(TIME_HEADER).and_then(time).filter(|&at| at > 0);
    filling.no_time += u64::from(at.is_none());
    let (from, at) = (from.unwrap_or(Origin::NONE), at.unwrap_or(0));
    if !put(batch, &mut filling.bytes, payload, from, at) {
        let (bytes, place) = (payload.to_vec(), (message.partition(), message.offset() + 1));
        *left = Some(Left { bytes, origin: from, time_ns: at, place });
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
        if let Some(stuck) = self.stuck.take() {
            self.go_on(stuck)?;
        }
        if self.follow_group()? {
            std::thread::sleep(wait.min(PART_LOOK));
            self.sheet.add(FromTopic::Idle as usize, 1);
            return Ok(Received::Idle);
        }
        match self.place.clone() {
            Some(place) => self.tell(&place)?,
            None => {
                if self.committed.elapsed() >= COMMIT_EVERY {
                    self.committed = Instant::now();
                    let owned = self.consumer.assigned().map_err(self.url.error("reading"))?;
                    self.sheet.set(FromTopic::Owned as usize, owned.len() as u64);
                }
            }
        }
        let filling = match self.read_again(batch)? {
            Some(filling) => filling,
            None => self.read_on(batch, wait)?,
        };
        batch.read_apart(self.apart && !self.behind.is_empty());
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

    fn attend(&mut self) {
        let Some(place) = &self.place else { return };
        let (place, now) = (place.clone(), Instant::now());
        let fresh = Stuck { since: now, looked: now, resting: false, failed: None };
        let stuck = self.stuck.get_or_insert(fresh);
        let long = now - stuck.since >= ATTEND_AFTER && now - stuck.looked >= ATTEND_EVERY;
        if !long || stuck.failed.is_some() {
            return;
        }
        stuck.looked = now;
        let begins = !std::mem::replace(&mut stuck.resting, true);
        let rested = if begins { self.consumer.rest(true) } else { Ok(()) };
        let outcome = rested.map_err(self.url.error("reading"));
        let outcome = outcome.and_then(|()| self.attend_group(&place, now));
        if let (Err(error), Some(stuck)) = (outcome, &mut self.stuck) {
            stuck.failed = Some(error);
        }
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
