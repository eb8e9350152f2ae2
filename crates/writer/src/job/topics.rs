//! Topics of a job that are not there: still to be asked for, deleted, or made anew.
//!
//! Source: `docs/write.md`, "What goes wrong while it writes".

use std::collections::BTreeMap;

use super::Job;

/// A topic that the broker is to be asked for.
#[derive(Debug)]
pub(super) struct Away {
    pub(super) topic: String,
    /// Since when the broker says that it is not there, ms since 1970.
    pub(super) since_ms: Option<u64>,
    /// When it was asked last, ms since 1970.
    pub(super) asked_ms: Option<u64>,
}

impl Job {
    /// A topic that is still to be asked for: the one that was asked longest ago.
    pub fn unasked(&self) -> Option<&str> {
        self.question().map(|(_, topic)| topic)
    }

    /// The same with the time when it was asked last.
    pub(crate) fn question(&self) -> Option<(Option<u64>, &str)> {
        self.unasked.iter().map(|away| (away.asked_ms, &*away.topic)).min()
    }

    /// The broker said that a topic, or one of all of them, is not there: it is asked for.
    pub(crate) fn doubt(&mut self, topic: Option<&str>) {
        for (name, all) in &self.positions {
            let meant = topic.is_none_or(|topic| topic == name);
            let known = self.unasked.iter().any(|away| away.topic == *name);
            if meant && !known && all.values().any(|position| !position.done) {
                let topic = name.clone();
                self.unasked.push(Away { topic, since_ms: None, asked_ms: None });
            }
        }
    }

    /// True while the broker says that the topic is not there.
    pub fn is_missing(&self, topic: &str) -> bool {
        self.unasked.iter().any(|away| away.topic == topic && away.since_ms.is_some())
    }

    /// Topics that are not there now, or were not when the file was to be completed.
    pub(crate) fn missing_topics(&self) -> Vec<&str> {
        let away = self.unasked.iter().filter(|away| away.since_ms.is_some());
        away.map(|away| &*away.topic).chain(self.deleted_topics()).collect()
    }

    /// The partitions of such a topic. True if it was missing.
    pub(crate) fn found(&mut self, topic: &str, partitions: &[i32]) -> bool {
        let was_missing = self.is_missing(topic);
        self.unasked.retain(|away| away.topic != topic);
        let positions = self.positions.entry(topic.to_owned()).or_default();
        for &partition in partitions {
            positions.entry(partition).or_default();
        }
        was_missing
    }

    /// Such a topic was not found at `now_ms`; `missing`: the broker said that it is not there. Gives since when it
    /// says so.
    pub(crate) fn not_found(&mut self, topic: &str, missing: bool, now_ms: u64) -> Option<u64> {
        let away = self.unasked.iter_mut().find(|away| away.topic == topic)?;
        away.asked_ms = Some(now_ms);
        away.since_ms = missing.then(|| away.since_ms.unwrap_or(now_ms));
        away.since_ms
    }

    /// Such a topic is gone for good: the file is completed without it.
    pub(crate) fn deleted(&mut self, topic: &str) {
        self.found(topic, &[]);
        for position in self.positions.get_mut(topic).into_iter().flat_map(BTreeMap::values_mut) {
            position.done = true;
        }
        self.deleted.push(topic.to_owned());
    }

    /// The partition is not the one that was read: its next message is an earlier one. True if that is news of the
    /// topic.
    pub(crate) fn went_back(&mut self, topic: &str, partition: i32, offset: i64) -> bool {
        let Some(position) = self.position(topic, partition) else { return false };
        position.next = Some(offset);
        self.moved = true;
        let news = !self.anew.iter().any(|known| known == topic);
        if news {
            self.anew.push(topic.to_owned());
        }
        news
    }

    /// Topics that were deleted and made anew while they were to be read.
    pub(crate) fn topics_made_anew(&self) -> impl Iterator<Item = &str> {
        self.anew.iter().map(|topic| &**topic)
    }

    /// Topics that the file had to be completed without.
    pub(crate) fn deleted_topics(&self) -> impl Iterator<Item = &str> {
        self.deleted.iter().map(|topic| &**topic)
    }
}
