//! The echo of a start: who follows a run on its control topic sees there what began it.
//!
//! The writer that takes a job from a pool says the start again, byte for byte, on the control topic that the start
//! names. Several writers may listen there, so an echo must not be taken for an order: a start that names the very topic
//! on which it is read is one, unless it is known to be for this writer. Refuses (and counts) echoes.
//! Source: `docs/write.md`, "A run".

use super::Service;
use super::orders::Heard;
use crate::job::Job;
use crate::journal::MessageSpot;
use crate::name;
use fullcount_messages::RunStart;

impl Service {
    /// Says a start again on the control topic of its run, if that is another topic than the one that it came on.
    pub(super) fn echo(&mut self, start: &RunStart<'_>, order: &[u8], heard: &Heard) {
        let topic = start.control_topic.filter(|topic| name::is_topic(topic));
        if let Some(topic) = topic.filter(|topic| *topic != heard.spot.topic) {
            self.keep_and_say(topic, order.to_vec());
        }
    }

    /// True for what a writer, this one or another, said again on the control topic of its run.
    pub(super) fn is_echo(&self, start: &RunStart<'_>, job_id: &str, heard: &Heard) -> bool {
        let topic = &*heard.spot.topic;
        let options = &self.options;
        if start.control_topic != Some(topic) || options.pool_topic.as_deref() == Some(topic) {
            return false;
        }
        let elsewhere = |spot: &MessageSpot| spot.topic != topic;
        let runs = self.jobs.get(job_id).and_then(Job::spot).is_some_and(elsewhere);
        if runs || self.dealt.taken(job_id).is_some_and(elsewhere) {
            return true;
        }
        // A topic that only this writer listens to holds orders for it, and so does one that names it.
        let alone = !options.shared_control && options.control_topic.as_deref() == Some(topic);
        let named = start.service_id.is_some_and(|id| id == options.service_id);
        !(alone || named)
    }
}
