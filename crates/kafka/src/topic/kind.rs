//! The source `kafka`: raw packets of a topic, as a kind.
//!
//! Its endpoint names the files of librdkafka's settings, and reads a topic again in the order of an interrupted replay. Refuses, before
//! a broker is asked: what [`TopicUrl`] refuses.

use std::path::PathBuf;

use fullcount_core::ledger::Info;
use fullcount_core::refusal::{Refusal, refuse};
use fullcount_core::source::{
    OpenedSource, Replayable, ReplayedFrom, SourceEndpoint, SourceKind, SourceOpenError,
    SourceOpening, SourceOptions, SourceSetup,
};
use fullcount_io::section;

use super::url::{Reading, TopicUrl};
use super::{FromTopic, Needs};

/// `kafka://BROKER/TOPIC`
pub struct TopicKind;

impl SourceKind for TopicKind {
    fullcount_core::source_of_scheme! {
        TopicUrl: "raw packets (ar51) of a Kafka topic, alone or as a member of a consumer group",
        "kafka://broker:9092/packets"
    }

    fn options(&self) -> Option<SourceOptions> {
        Some(SourceOptions {
            whose: "settings of librdkafka's",
            meaning: "librdkafka's own settings, by their names: TLS and SASL, `fetch.message.max.bytes`, `session.timeout.ms` …, \
                      but none that would [lose or double packets](raw.md#librdkafkas-settings). Values of passwords are never printed",
        })
    }

    fn counters(&self) -> Vec<(&'static str, Vec<Info>)> {
        vec![("receiving: kafka", FromTopic::catalogue())]
    }

    fn plan(&self, url: &str, setup: &SourceSetup<'_>) -> Result<Box<dyn SourceEndpoint>, Refusal> {
        let options = toml::from_str(setup.options)
            .map_err(|e| refuse("source.options", "…", e.message()))?;
        let settings = section::settings("source.options", &options)?;
        // Certificates and keys of librdkafka.
        let files = settings.iter().filter(|(name, _)| name.ends_with(".location"));
        let files = files.map(|(_, path)| path.into()).collect();
        Ok(Box::new(TopicEndpoint { topic: TopicUrl::parse(url, settings)?, files }))
    }
}

struct TopicEndpoint {
    topic: TopicUrl,
    files: Vec<PathBuf>,
}

impl SourceEndpoint for TopicEndpoint {
    fn reads(&self) -> Vec<(&'static str, PathBuf)> {
        self.files.iter().map(|path| ("options", path.clone())).collect()
    }

    fn is_live(&self) -> bool {
        false
    }

    fn replay(&mut self, from: &ReplayedFrom<'_>) -> Result<Option<Replayable>, SourceOpenError> {
        if self.topic.in_group() {
            return Ok(None);
        }
        let starts = match from.earlier {
            Some(known) => {
                self.topic.still_holds(known)?;
                known.clone()
            }
            None => self.topic.starts()?,
        };
        self.topic.reading = Some(Reading { starts: starts.clone(), order: from.order.to_owned() });
        Ok(Some(Replayable { starts, ..Replayable::default() }))
    }

    fn open(&self, opening: &SourceOpening<'_>) -> Result<Vec<OpenedSource>, SourceOpenError> {
        let downstream = opening.downstream;
        let needs = Needs {
            origin: downstream.is_some_and(|decoder| decoder.by_sender()),
            epoch_ns: opening.epoch_ns,
            clock: downstream.and_then(|decoder| decoder.turning_clock()),
        };
        let source = self.topic.open(needs)?;
        if let Some(decoder) = downstream {
            source.count_turns(decoder)?;
        }
        Ok(vec![OpenedSource::new(source, self.topic.url.as_str())])
    }
}
