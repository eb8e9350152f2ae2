//! The output `kafka`: events on a topic, through the spool. Source: `docs/kafka.md`, `docs/configuration.md`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fullcount_core::key::Takes::{Path, Text, Value};
use fullcount_core::key::{Flag, Key, Words};
use fullcount_core::output::{
    Claim, DeclaredOutput, Opened, Opening, OutputKind, OutputOpenError, OutputSetup, Plan,
};
use fullcount_core::refusal::{Refusal, refuse};
use fullcount_core::sink::Sink;
use fullcount_core::url::UrlProblem;
use fullcount_io::{quantity, section};
use fullcount_messages::EventSchema;

use super::section::EventsSection;
use super::{
    Address, Beginning, ConsumerCounter, KafkaCounter, KafkaOptions, KafkaSettings, KafkaSink,
    MessageCompression, MessageId, Unfinished, check_brokers,
};

/// Path of the section.
const SECTION: &str = "output.kafka";
/// The default folder of spools.
const SPOOLS: &str = "fullcount-spool";

/// Events on a topic.
#[derive(Debug)]
pub struct Events;

const DECLARED: DeclaredOutput = DeclaredOutput {
    keys: KEYS,
    counters: || {
        vec![
            ("output: kafka", KafkaCounter::catalogue()),
            ("reading topics", ConsumerCounter::catalogue()),
        ]
    },
    ..DeclaredOutput::new(
        "kafka",
        SECTION,
        "events on a Kafka topic, through a spool on disk",
        section::reading::<EventsSection>(),
    )
};

impl OutputKind for Events {
    fn declared(&self) -> &'static DeclaredOutput {
        &DECLARED
    }

    fn plan(&self, setup: &OutputSetup<'_>) -> Result<Option<Box<dyn Plan>>, Refusal> {
        let section: EventsSection = section::read(SECTION, setup.section)?;
        let restart = match section.replay.as_str() {
            "resume" => false,
            "restart" => true,
            other => return Err(refuse("output.kafka.replay", other, "resume or restart")),
        };
        let files = located(&section.settings()?);
        let options = kafka_options(&section, setup)?;
        Ok(Some(Box::new(EventsPlan { options, restart, files })))
    }
}

/// Certificates and keys that librdkafka reads.
pub(crate) fn located(settings: &[(String, String)]) -> Vec<PathBuf> {
    let named = settings.iter().filter(|(name, _)| name.ends_with(".location"));
    named.map(|(_, path)| PathBuf::from(path)).collect()
}

/// Brokers and topic of `--kafka URL`.
fn address(url: &str) -> Result<Vec<(&'static str, String)>, String> {
    const BROKERS: &str = "output.kafka.brokers";
    // Without a topic: that of the file, or the one that follows from the names.
    if let Some(brokers) = url.strip_prefix("kafka://").filter(|b| !b.contains(['/', '?'])) {
        let brokers = check_brokers(brokers).map_err(|e| e.to_string())?;
        return Ok(vec![(BROKERS, brokers)]);
    }
    let address = Address::parse(url).map_err(|e| match e.problem {
        UrlProblem::UnknownKey { key, .. } => {
            let how = "other keys are set with --set output.kafka.KEY=VALUE";
            format!("{url}: `{key}` is no part of this address; {how}")
        }
        _ => e.to_string(),
    })?;
    Ok(vec![(BROKERS, address.brokers), ("output.kafka.topic", address.topic)])
}

/// A checked section.
struct EventsPlan {
    options: KafkaOptions,
    restart: bool,
    files: Vec<PathBuf>,
}

impl Plan for EventsPlan {
    fn claims(&self) -> Vec<Claim> {
        let read = self.files.iter().map(|file| Claim::Read("options", file.clone()));
        let spool = Claim::Folder("output.kafka.spool", self.options.spool.clone());
        read.chain([spool]).collect()
    }

    fn spool(&self) -> Option<PathBuf> {
        Some(self.options.spool.clone())
    }

    fn resumes(&self) -> Option<bool> {
        Some(self.restart)
    }

    fn unfinished(&self, identity: &str) -> Option<BTreeMap<i32, i64>> {
        let known = Unfinished::read(&self.options.spool).ok().flatten();
        known.filter(|known| known.identity == identity).map(|known| known.starts)
    }

    fn order_file(&self) -> Option<PathBuf> {
        Some(Unfinished::order_file(&self.options.spool))
    }

    fn open(&mut self, opening: &Opening) -> Result<Opened, OutputOpenError> {
        let mut o = self.options.clone();
        o.stop = opening.ending.requested.clone();
        o.over = opening.ending.over.clone();
        o.hurry = opening.ending.hurried.clone();
        o.stuck = opening.ending.stuck.clone();
        o.news = |text| fullcount_log::warning!("{text}");
        o.replay.clone_from(&opening.replay);
        let mut facts = vec![format!(
            "output kafka kafka://{}/{} as {}, spool {}",
            o.brokers,
            o.topic,
            o.stream.source_name,
            o.spool.display()
        )];
        let sink = KafkaSink::open(o).map_err(|e| OutputOpenError(e.to_string()))?;
        found(&sink, &mut facts);
        let sink: Box<dyn Sink> = Box::new(sink);
        Ok(Opened { facts, ..sink.into() })
    }
}

/// What an earlier run left in the spool.
fn found(sink: &KafkaSink, facts: &mut Vec<String>) {
    let found = sink.recovered();
    if found.messages > 0 {
        facts.push(format!(
            "spool: {} messages with {} events of an earlier run go out first",
            found.messages, found.events
        ));
    }
    match sink.beginning() {
        Beginning::Fresh => {}
        Beginning::Resumed(events) => facts.push(format!(
            "replay: goes on behind {events} events, which an earlier run has sent or laid into the \
             spool (--replay restart sends all again)"
        )),
        Beginning::Instead(other) => facts.push(format!(
            "replay: that of {other} was interrupted and is given up; what is missing of it is not sent"
        )),
    }
    facts.extend(found.told.iter().map(|told| format!("spool: {told}")));
    if found.damaged > 0 {
        facts.push(format!(
            "spool: {} messages of an earlier run are damaged; those that the topic does not have are lost",
            found.damaged
        ));
    }
    if found.torn > 0 {
        facts.push(format!(
            "spool: {} appends were cut off and never completed; their events were in no message",
            found.torn
        ));
    }
}

/// Checks the section.
fn kafka_options(kafka: &EventsSection, setup: &OutputSetup<'_>) -> Result<KafkaOptions, Refusal> {
    let source_name = kafka.source_name(setup.detector);
    let topic = kafka.topic(setup.detector);
    let spool = match &kafka.spool {
        Some(folder) => folder.clone(),
        // A folder for each stream: two topics, or two sources on one, never meet in one.
        None => {
            let plain =
                |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
            let source: String = source_name.chars().map(plain).collect();
            std::path::Path::new(SPOOLS).join(format!("{topic}.{source}"))
        }
    };
    let mut o = KafkaOptions::new(&kafka.brokers, &topic, source_name, spool);
    o.stream.schema = match kafka.schema.as_str() {
        "ev44" => EventSchema::Ev44,
        "ev42" => EventSchema::Ev42,
        other => return Err(refuse("output.kafka.schema", other, "ev44 or ev42")),
    };
    o.message_id = match kafka.message_id.as_str() {
        "continue" => MessageId::Continue,
        "restart" => MessageId::Restart,
        other => return Err(refuse("output.kafka.message_id", other, "continue or restart")),
    };
    o.compression = match kafka.compression.as_str() {
        "none" => MessageCompression::None,
        "lz4" => MessageCompression::Lz4,
        "zstd" => MessageCompression::Zstd,
        other => return Err(refuse("output.kafka.compression", other, "none, lz4 or zstd")),
    };
    let time =
        |key, text: &str| quantity::duration(text).map_err(|e| refuse(key, text, e.to_string()));
    o.stream.flush = time("output.kafka.flush", &kafka.flush)?;
    o.drain = time("output.kafka.drain", &kafka.drain)?;
    (o.stream.capacity, o.stream.open_pulses) = (kafka.capacity, kafka.open_pulses);
    o.partition = kafka.partition;
    o.spool_size = quantity::size(&kafka.spool_size)
        .map_err(|e| refuse("output.kafka.spool_size", &kafka.spool_size, e.to_string()))?;
    o.spool_commit = kafka.spool_commit;
    o.settings = KafkaSettings::read(kafka.settings()?)
        .map_err(|e| refuse("output.kafka.options", &e.name, e.to_string()))?;
    o.wall.clone_from(&setup.wall);
    let place = format!("kafka://{}/{topic}", kafka.brokers);
    o.validate().map_err(|e| refuse("output.kafka", place, e.to_string()))?;
    Ok(o)
}

/// Keys of the section.
const KEYS: &[Key] = &[
    Key::new(Text, "output.kafka.brokers", "`\"localhost:9092\"`", "`HOST:PORT`, several with commas between them", "brokers to begin with; the others are found by themselves. None has to be there at the start")
        .with(Flag { name: "kafka", value: "URL", help: "Send events to this topic: kafka://HOST[:PORT][,HOST...][/TOPIC] [default topic: name of the source, _detector]", words: Words::Split(address) }),
    Key::new(Text, "output.kafka.topic", "–", "1 to 249 of a-z A-Z 0-9 `.` `_` `-`", "topic; without it the name of the producer in lower case and `_detector`"),
    Key::new(Text, "output.kafka.schema", "`\"ev44\"`", "`ev44`, `ev42`", "what a message is"),
    Key::new(Text, "output.kafka.source_name", "–", "1 to 1024 bytes", "name of the producer in each message, which consumers are configured with; without it the detector's name"),
    Key::new(Value, "output.kafka.partition", "–", "whole number", "partition for all messages; without it message n goes to partition n modulo their number. With several partitions consumers see pulses out of order"),
    Key::new(Value, "output.kafka.capacity", "`12400`", "1 to 1,000,000", "most events of a message: 8 bytes each"),
    Key::new(Text, "output.kafka.flush", "`\"1s\"`", "1 ms and more", "longest time that an event waits for its message to fill"),
    Key::new(Value, "output.kafka.open_pulses", "`2`", "1 to 64", "pulses whose messages fill at the same time: modules take turns around the end of a pulse. With 1, pulses leave in their order"),
    Key::new(Text, "output.kafka.message_id", "`\"continue\"`", "`continue`, `restart`", "running numbers of messages go on behind those of the last run, or begin at 1")
        .flag("message-id", "HOW", "Running numbers of messages: continue (behind the last run's) or restart (at 1) [default: continue]"),
    Key::new(Text, "output.kafka.replay", "`\"resume\"`", "`resume`, `restart`", "the replay of a capture or a topic that was interrupted: what is missing is sent, or all ([more](kafka.md#a-replay-that-is-interrupted))")
        .flag("replay", "HOW", "A pcap or kafka source whose run was interrupted: resume (send what is missing) or restart (send all) [default: resume]"),
    Key::new(Text, "output.kafka.compression", "`\"none\"`", "`none`, `lz4`, `zstd`", "compression of batches of messages"),
    Key::new(Path, "output.kafka.spool", "–", "path", "folder of the [spool](kafka.md#the-spool), one for each instance; without it `fullcount-spool/TOPIC.SOURCE` in the current folder")
        .flag("spool", "DIR", "Folder of the spool, where messages lie until the broker has confirmed them [default: fullcount-spool/TOPIC.SOURCE]"),
    Key::new(Text, "output.kafka.spool_size", "`\"4GiB\"`", "16 MiB and more", "most bytes of its files"),
    Key::new(Value, "output.kafka.spool_commit", "`true`", "`true`, `false`", "messages that the broker has not confirmed within 100 ms are brought to the disk, so that they outlive a loss of power. With `false` they outlive a killed process only; [what it costs](kafka.md#how-fast)"),
    Key::new(Text, "output.kafka.drain", "`\"10s\"`", "length of time", "how long the end of a run waits for the broker; what is not confirmed by then stays in the spool for the next run"),
    Key::new(Value, "output.kafka.options", "–", "table", "librdkafka's own settings, by their names: TLS and SASL, `linger.ms`, `message.max.bytes` … Unknown names and values are refused, and so is what would [confirm less](kafka.md#librdkafkas-settings). Values of passwords are never printed"),
];
