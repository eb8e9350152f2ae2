//! `kafka://BROKER/TOPIC?key=value` as a source: what is read, with which settings, and where it begins.
//!
//! Refuses: other keys in the URL, settings of librdkafka's that would lose or double packets, a topic or partition that
//! is not there, one that no longer holds what is to be read again. Source: `docs/raw.md`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fullcount_core::refusal::{Refusal, refuse};
use fullcount_core::source::{SourceError, SourceOpenError};
use fullcount_core::url::{self, NotTaken, Scheme, SchemeKey};

use super::say;
use crate::{Address, ConsumeError, Consumer, ConsumerOptions, KafkaSettings};

/// Longest wait for the first message when the topic is looked at before the run.
pub(crate) const LOOK: Duration = Duration::from_secs(10);
/// Wait for one answer meanwhile: a broker that does not let us in gives none, and why is known only between two questions.
const ASK: Duration = Duration::from_secs(1);
/// Longest time that the group waits until all that was read of a partition is safe: the output looks every 100 ms, and a
/// broker that is away does not matter to it, so this is for a spool that is full. Never more than half of what the group
/// allows.
const PART: Duration = Duration::from_secs(30);
/// `max.poll.interval.ms` unless it is set: so long the group waits for a member.
const GROUP_WAITS_MS: u64 = 300_000;

/// A topic that can be read.
#[derive(Debug, Clone)]
pub(crate) struct TopicUrl {
    pub(crate) url: String,
    pub(crate) address: Address,
    pub(crate) group: Option<String>,
    /// None: all.
    pub(crate) partitions: Option<Vec<i32>>,
    pub(crate) newest: bool,
    pub(crate) until_end: bool,
    /// librdkafka's own.
    pub(crate) settings: KafkaSettings,
    /// For a replay that goes on after a kill.
    pub(crate) reading: Option<Reading>,
}

/// How a topic is read so that it can be read again in the same way.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    /// First offset of each partition.
    pub starts: BTreeMap<i32, i64>,
    /// File for the order of the partitions.
    pub order: PathBuf,
}

impl Scheme for TopicUrl {
    const NAME: &'static str = Address::NAME;
    const FORM: &'static str = Address::FORM;
    const KEYS: &'static [SchemeKey<TopicUrl>] = &[
        SchemeKey::told(
            "group",
            "a name",
            "–",
            "members of a group share the partitions, and go on where the group stood",
            |t, v| v.text().map(|name| t.group = Some(name.to_owned())),
        ),
        SchemeKey::told(
            "from",
            "oldest or newest",
            "`oldest`",
            "without a group: where to begin",
            |t, v| v.one_of(&[("oldest", false), ("newest", true)]).map(|newest| t.newest = newest),
        ),
        SchemeKey::told(
            "partitions",
            "numbers from 0 to 65535 with commas between them",
            "all",
            "these partitions, without a group",
            |t, v| {
                let one = |p: &str| p.parse::<u16>().map(i32::from).map_err(|_| NotTaken::Other);
                let all = v.text()?.split(',').map(one).collect::<Result<_, _>>()?;
                t.partitions = Some(all);
                Ok(())
            },
        ),
        SchemeKey::told(
            "until",
            "end",
            "–",
            "end when all that is there has been read; else the run waits for more",
            |t, v| v.one_of(&[("end", true)]).map(|end| t.until_end = end),
        ),
    ];

    fn at(place: &str) -> Result<TopicUrl, String> {
        Ok(TopicUrl {
            url: String::new(),
            address: Address::at(place)?,
            group: None,
            partitions: None,
            newest: false,
            until_end: false,
            settings: KafkaSettings::default(),
            reading: None,
        })
    }
}

impl TopicUrl {
    /// Reads `kafka://…`; `settings` are librdkafka's own.
    ///
    /// # Errors
    /// What cannot be, and what is allowed.
    pub fn parse(url: &str, settings: Vec<(String, String)>) -> Result<TopicUrl, Refusal> {
        let settings = KafkaSettings::read(settings)
            .map_err(|e| refuse("source.options", &e.name, e.to_string()))?;
        settings.check_source().map_err(|e| refuse("source.options", url, e.to_string()))?;
        let read: TopicUrl =
            url::read(url).map_err(|e| refuse("source.url", url, e.problem.to_string()))?;
        let topic = TopicUrl { url: url.to_owned(), settings, ..read };
        if topic.group.is_some() && (topic.partitions.is_some() || topic.newest) {
            let why = "a group shares out partitions by itself and goes on where it stood: leave \
                       partitions and from out";
            return Err(refuse("source.url", url, why));
        }
        Ok(topic)
    }

    pub(crate) fn error(&self, what: &str) -> impl FnOnce(ConsumeError) -> SourceError {
        let (endpoint, what) = (self.url.clone(), what.to_owned());
        move |e| SourceError { endpoint, what, cause: e.to_string() }
    }

    fn options(&self, group: Option<String>) -> ConsumerOptions {
        ConsumerOptions {
            hold: group.is_some(),
            group,
            settings: self.settings.clone(),
            news: say,
            ..ConsumerOptions::new(self.address.brokers.as_str())
        }
    }

    pub(crate) fn consumer(&self, group: Option<String>) -> Result<Consumer, SourceError> {
        Consumer::new(&self.options(group)).map_err(self.error("cannot open"))
    }

    /// Longest time that the group waits for what leaves.
    pub(crate) fn patience(&self) -> Duration {
        let set = self.settings.get("max.poll.interval.ms").and_then(|ms| ms.parse().ok());
        PART.min(Duration::from_millis(set.unwrap_or(GROUP_WAITS_MS) / 2))
    }

    /// True if the group decides where it begins.
    pub fn in_group(&self) -> bool {
        self.group.is_some()
    }

    /// The partitions that are read.
    pub(crate) fn all(&self) -> Result<Vec<i32>, SourceOpenError> {
        self.of_topic().map(|(read, _)| read)
    }

    /// The partitions that are read, and how many the topic has.
    pub(crate) fn of_topic(&self) -> Result<(Vec<i32>, i32), SourceOpenError> {
        let options = ConsumerOptions { answer: ASK, ..self.options(None) };
        let consumer = Consumer::new(&options).map_err(self.error("cannot open"))?;
        let topic = self.address.topic.as_str();
        let end = Instant::now() + LOOK;
        let count = loop {
            let asked = consumer.partitions(topic);
            if asked.is_ok() || Instant::now() >= end {
                break asked.map_err(self.error("cannot open"))?;
            }
            // librdkafka says only here why it comes to no broker; nothing is assigned that could be read.
            for _ in 0..16 {
                let _ = consumer.poll(Duration::ZERO);
            }
        };
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
        Ok((all, count))
    }

    fn cannot_open(&self, cause: String) -> SourceError {
        SourceError { endpoint: self.url.clone(), what: "cannot open".into(), cause }
    }

    /// Where its partitions begin now.
    ///
    /// # Errors
    /// No broker answers, no such topic or partition.
    pub fn starts(&self) -> Result<BTreeMap<i32, i64>, SourceOpenError> {
        let consumer = self.consumer(None)?;
        let topic = self.address.topic.as_str();
        let mut starts = BTreeMap::new();
        for partition in self.all()? {
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
    pub fn still_holds(&self, starts: &BTreeMap<i32, i64>) -> Result<(), SourceOpenError> {
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
}
