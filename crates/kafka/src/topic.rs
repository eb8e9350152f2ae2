//! Raw readout packets from a Kafka topic as a source: `kafka://BROKER/TOPIC?group=NAME`.
//!
//! Each ar51 message is one packet; its headers say who sent it and when (`docs/raw.md`). Recorded data that wait
//! for us: nothing is lost, and no clock decides about events. Members of a group share the partitions, and the
//! group's place is committed behind the output ([`place`]), so a killed member's last packets come again
//! to another. A partition that moves in good order goes once all that was read of it is safe ([`Leaving`]). Without a
//! group, all partitions or those named are read from their beginning, and nothing is committed.
//!
//! Partitions are read one after the other, seconds apart, so where the detector's clock turns ([`begin`]) it is
//! told which packet of the topic came first, and each batch says that it is [read apart](Batch::read_apart) until all
//! partitions were read to their end once.
//!
//! Refuses: what [`url`] does; packets without a sender, or of another epoch, where the detector needs them
//! (exit code 2); messages that are no ar51 are counted and left out.

mod begin;
mod filling;
mod following;
mod kind;
mod order;
mod parting;
mod place;
mod reading;
mod url;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fullcount_core::batch::Batch;
use fullcount_core::ledger::Sheet;
use fullcount_core::refusal::{Refusal, refuse};
use fullcount_core::source::{
    Downstream, Position, Received, Source, SourceError, SourceOpenError, TurningClock,
};

use self::begin::{Firsts, note};
use self::following::KeepAlive;
use self::place::{Broker, GroupPlace};
use self::reading::{Again, Topic};
use self::url::TopicUrl;
use crate::{Begin, EPOCH_HEADER, SOURCE_HEADER, TopicMessage, origin, time};

pub use kind::TopicKind;

fullcount_core::counters! {
    /// What reading packets from a topic counts.
    pub enum FromTopic {
        Packets "receive.packets" Packets Sum "receive" In "messages read from the topic" "";
        Accepted "receive.accepted" Packets Sum "receive" Accepted "packets handed to the decoder" "";
        Other "receive.not_ar51" Packets Sum "receive" Rejected
            "messages that hold no raw packet, or are damaged" "is it the right topic?";
        TooLong "receive.truncated" Packets Sum "receive" Rejected
            "packets longer than a datagram can be" "look at what writes the topic";
        Bytes "receive.bytes" Bytes Sum "receive" Note "payload bytes received" "";
        NoSource "receive.without_source" Packets Sum "receive" Note
            "packets whose message does not say who sent them (header fc.src)"
            "detectors that follow each sender's numbers need it: send with output.raw";
        NoTime "receive.without_time" Packets Sum "receive" Note
            "packets whose message does not say when they came (header fc.time_ns)" "";
        Owned "receive.owned_partitions" Times Present "receive" Note
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

impl TopicUrl {
    /// Begins to read.
    ///
    /// # Errors
    /// No broker answers, no such topic; packets that the detector cannot use.
    pub(crate) fn open(&self, needs: Needs) -> Result<TopicSource, SourceOpenError> {
        let Firsts { partitions, count, filled, firsts } = self.look(&needs)?;
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
        let now = Instant::now();
        let topic = Topic {
            url: self.clone(),
            needs,
            place: place.clone(),
            consumer,
            sheet: sheet.clone(),
            handed: BTreeMap::new(),
            newest: 0,
            looked: now,
            called: now,
            ended: BTreeSet::new(),
            over: false,
            left: None,
            leaving: None,
            stuck: None,
            again: Again::Unread,
            behind,
            apart,
        };
        let topic = Arc::new(Mutex::new(topic));
        let refused = |e: std::io::Error| SourceError {
            endpoint: self.url.clone(),
            what: "starting a thread".into(),
            cause: e.to_string(),
        };
        let alive = place.as_ref().map(|_| KeepAlive::start(topic.clone()));
        let alive = alive.transpose().map_err(refused)?;
        Ok(TopicSource { url: self.clone(), place, sheet, count, firsts, topic, alive })
    }
}

/// Said once each, as librdkafka says it.
pub(crate) fn say(what: &str) {
    fullcount_log::warning!("{what}");
}

/// What the detector wants to know of each packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needs {
    /// Its numbers are followed by sender.
    pub origin: bool,
    /// Time of its tick 0, ns since 1970.
    pub epoch_ns: i64,
    /// The clock in the packets, if it turns.
    pub clock: Option<TurningClock>,
}

impl Needs {
    pub(crate) fn check(&self, url: &TopicUrl, message: &TopicMessage<'_>) -> Result<(), Refusal> {
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
pub(crate) struct TopicSource {
    url: TopicUrl,
    place: Option<Arc<GroupPlace>>,
    sheet: Arc<Sheet>,
    /// Partitions of the topic.
    count: i32,
    /// The first packet of each partition, with its receive time, the earliest first; empty where their order does not matter.
    firsts: Vec<(i64, Vec<u8>)>,
    /// Shared with the thread below, which looks at it only while nobody calls.
    topic: Arc<Mutex<Topic>>,
    /// Of a member of a group.
    alive: Option<KeepAlive>,
}

impl TopicSource {
    /// Tells the decoder from where turns of its clock are counted, if the order of reading leaves that open: a group from where its
    /// first member did, who puts that to each offset that it commits; others from the first packet.
    pub(crate) fn count_turns(&self, decoder: &dyn Downstream) -> Result<(), SourceError> {
        if self.url.newest || !decoder.turning_clock().is_some_and(|clock| clock.by_times) {
            return Ok(());
        }
        let firsts = self.firsts.iter();
        // The first one that is a packet of this decoder.
        let mut from = firsts.filter_map(|(at, packet)| decoder.turns_from(packet, *at)).next();
        if self.place.is_some() {
            let consumer = &self.topic.lock().expect("no holder panics").consumer;
            from = self.url.counted_from(consumer, self.count)?.or(from);
            from.iter().for_each(|from| consumer.note(note(*from)));
        }
        from.into_iter().for_each(|from| decoder.count_turns(from));
        Ok(())
    }
}

impl Source for TopicSource {
    fn recv(&mut self, batch: &mut Batch, wait: Duration) -> Result<Received, SourceError> {
        self.topic.lock().expect("no holder panics").recv(batch, wait)
    }

    fn batch(&self) -> Batch {
        Topic::batch()
    }

    fn lossless(&self) -> bool {
        true
    }

    fn replay(&self) -> bool {
        true
    }

    fn position(&self) -> Option<Arc<dyn Position>> {
        self.place.clone().map(|place| place as Arc<dyn Position>)
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
        drop(self.alive.take());
        if let (Some(place), Ok(topic), false) =
            (&self.place, self.topic.lock(), std::thread::panicking())
        {
            place.over(&topic.handed, topic.newest);
        }
    }
}
