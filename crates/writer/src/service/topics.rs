//! Topics that are not there, not whole, or not the ones that were read: asked for, counted, said.
//!
//! Source: `docs/write.md`, "What goes wrong while it writes".

use super::{ASK_MS, DELETED_MS, Service, TopicFault, Topics};
use crate::WriteCounter;

impl Service {
    /// Asks the broker for a topic that a job needs to go on after a restart: one question a call.
    pub fn ask(&mut self, now_ms: u64, topics: &dyn Topics) {
        let due = |asked: &Option<u64>| asked.is_none_or(|at| now_ms.saturating_sub(at) >= ASK_MS);
        if !due(&self.asked_ms) {
            return;
        }
        // Whatever was asked longest ago: a topic that stays away must not keep the others from being asked for.
        let questions = self.jobs.values().filter_map(|job| Some((job.question()?, job.id())));
        let Some(((_, topic), id)) = questions.min() else { return };
        let (id, topic) = (id.to_owned(), topic.to_owned());
        self.asked_ms = Some(now_ms);
        let answer = topics.partitions(&topic);
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let path = job.path().display().to_string();
        match answer {
            Ok(partitions) => {
                if job.found(&topic, &partitions) {
                    self.note(format!("{path}: topic \"{topic}\" is on the broker again"));
                    self.beat_ms = None;
                }
                self.asked_ms = None;
            }
            Err(fault) => {
                let known = job.is_missing(&topic);
                let since = job.not_found(&topic, fault == TopicFault::Missing, now_ms);
                let long = since.is_some_and(|at| now_ms.saturating_sub(at) >= DELETED_MS);
                if long && job.drains_at_ms().is_some_and(|at| now_ms > at) {
                    job.deleted(&topic);
                    self.count(WriteCounter::TopicGone);
                    self.warn(format!("{path}: completed without topic \"{topic}\""));
                } else if since.is_some() && !known {
                    let seconds = DELETED_MS / 1000;
                    self.warn(format!(
                        "{path}: topic \"{topic}\" is not on the broker any more; asked for again, until {seconds} s \
                         after the end of the run"
                    ));
                    self.beat_ms = None;
                }
            }
        }
    }

    /// Who reads for a job was told that a topic, or one of them (`None`), is not there: the broker is asked.
    pub fn doubt(&mut self, job: &str, topic: Option<&str>) {
        if let Some(job) = self.jobs.get_mut(job) {
            job.doubt(topic);
        }
    }

    /// A partition holds less than a job has read of it, or began anew: the topic was deleted and made again. The job
    /// goes on at `offset`, the first message that is newer than all that it has read.
    pub fn went_back(&mut self, job: &str, topic: &str, partition: i32, offset: i64) {
        let Some(found) = self.jobs.get_mut(job) else { return };
        let path = found.path().display().to_string();
        if found.went_back(topic, partition, offset) {
            self.count(WriteCounter::TopicGone);
            self.warn(format!(
                "{path}: topic \"{topic}\" was deleted and made anew; what it held in between may be missing"
            ));
            self.beat_ms = None;
        }
    }

    /// The oldest message that a partition still holds has this offset: what a job had to read before it is gone, and
    /// is counted, said, and written into its file.
    pub fn oldest(&mut self, job: &str, topic: &str, partition: i32, oldest: i64) {
        let Some(found) = self.jobs.get_mut(job) else { return };
        let gone = found.oldest(topic, partition, oldest);
        if gone > 0 {
            let path = found.path().display().to_string();
            self.warn(format!(
                "{path}: {gone} messages of {topic}/{partition} were deleted on the broker before they were read; \
                 they are missing in the file"
            ));
            self.beat_ms = None;
        }
    }
}
