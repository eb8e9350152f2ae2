//! What the writer says: answers, ends of runs, heartbeats.
//!
//! Answers and ends are kept beside the journals until the broker has confirmed them, so that a kill costs none; the
//! next start says them again. Heartbeats are not: the next one says more.

use serde_json::{Value, json};

use super::super::behind::Behind;
use super::super::journal::{MessageSpot, Order};
use super::super::refusal::OrderRefusal;
use super::ends::first_few;
use super::facts::with_metadata;
use super::{ID, NO_STOP_MS, Reply, Service, WORDS};
use crate::job::outside_facts;
use crate::name::one_line;
use crate::salvage::salvage;
use crate::structure::Warnings;
use fullcount_messages::{
    Action, ActionResponse, AnswerOutcome, FinishedWriting, Message, RunStop, Status,
};

/// Heartbeats from which on it is said that a stream has nothing in the run.
const LOOKS: u32 = 2;

/// Words of the answer to a start that is obeyed, with what was tolerated.
pub(super) fn started(warnings: &Warnings) -> String {
    match warnings.words() {
        None => "job started".to_owned(),
        Some(words) => format!("job started; {words}"),
    }
}

/// Outcome, status and words of an answer, with the words where the order is obeyed.
fn said(outcome: Result<String, OrderRefusal>) -> (AnswerOutcome, i32, String) {
    match outcome {
        Ok(words) => (AnswerOutcome::Success, 201, words),
        Err(refusal) => (AnswerOutcome::Failure, refusal.status(), refusal.to_string()),
    }
}

impl Service {
    /// A start that cannot be read: it is answered under the id of its job where that can be.
    pub(super) fn answer_broken_start(&mut self, spot: &MessageSpot, value: &[u8], why: &str) {
        let found = salvage(value);
        let Some(job_id) = found.job_id else { return self.answer_broken(spot, true, why) };
        let MessageSpot { topic, partition, offset } = spot;
        let words = format!("order at {topic}/{partition}/{offset}: {why}");
        self.note(format!("job \"{job_id}\" refused: {words}"));
        let idle = self.options.control_topic.as_deref();
        let control = found.control_topic.or(idle).unwrap_or(topic).to_owned();
        self.answer_start_in(&control, job_id, 0, (AnswerOutcome::Failure, 400, words));
    }

    /// An order whose job nobody can know: the answer says where it stands.
    pub(super) fn answer_broken(&mut self, spot: &MessageSpot, start: bool, why: &str) {
        let MessageSpot { topic, partition, offset } = spot;
        let words = format!("order at {topic}/{partition}/{offset}: {why}");
        self.warn(words.clone());
        // A start reaches one writer; a stop may be for another one of those that listen.
        if self.options.shared_control && !start {
            return;
        }
        let control = self.options.control_topic.clone().unwrap_or_else(|| topic.clone());
        let response = ActionResponse {
            service_id: "",
            job_id: "",
            action: if start { Action::StartJob } else { Action::SetStopTime },
            outcome: AnswerOutcome::Failure,
            status_code: 400,
            stop_time: 0,
            message: Some(&words),
            command_id: Some(""),
        };
        self.answer(&control, response);
    }

    pub(super) fn answer_stop(
        &mut self,
        topic: &str,
        stop: &RunStop<'_>,
        asked: u64,
        outcome: Result<Option<Behind>, OrderRefusal>,
    ) {
        let job_id = stop.job_id.unwrap_or("");
        let late = outcome.as_ref().ok().copied().flatten().filter(|behind| !behind.is_none());
        let done = late.map(|behind| format!("stop time set; {behind}"));
        let done = outcome.map(|_| done.unwrap_or_else(|| "stop time set".to_owned()));
        let (result, status_code, words) = said(done);
        match (result, late) {
            (AnswerOutcome::Failure, _) => {
                self.note(format!("stop of job \"{job_id}\" refused: {words}"))
            }
            (_, Some(behind)) => self.note(format!("stop of job \"{job_id}\": {behind}")),
            (_, None) => {}
        }
        self.answer(
            topic,
            ActionResponse {
                service_id: "",
                job_id,
                action: Action::SetStopTime,
                outcome: result,
                status_code,
                stop_time: asked,
                message: Some(&words),
                command_id: stop.command_id,
            },
        );
    }

    /// Answers a start; `Ok` with the words of [`started`].
    pub(super) fn answer_start(
        &mut self,
        topic: &str,
        job_id: &str,
        stop_time: u64,
        outcome: Result<String, OrderRefusal>,
    ) {
        self.answer_start_in(topic, job_id, stop_time, said(outcome));
    }

    fn answer_start_in(
        &mut self,
        topic: &str,
        job_id: &str,
        stop_time: u64,
        (outcome, status_code, words): (AnswerOutcome, i32, String),
    ) {
        let response = || ActionResponse {
            service_id: "",
            job_id,
            action: Action::StartJob,
            outcome,
            status_code,
            stop_time,
            message: Some(&words),
            command_id: Some(job_id),
        };
        self.answer(topic, response());
        // A writer that has not taken the run stays on its own topic, and so does who waits for it there.
        let idle = self.options.control_topic.clone().filter(|idle| idle != topic);
        if let (AnswerOutcome::Failure, Some(idle)) = (outcome, idle) {
            self.answer(&idle, response());
        }
    }

    fn answer(&mut self, topic: &str, response: ActionResponse<'_>) {
        let service_id = &self.options.service_id;
        // The schema lets message and command_id be absent; the package that control systems read answers with does not.
        let words = one_line(response.message.unwrap_or(""), WORDS);
        let job_id = one_line(response.job_id, ID);
        let command = one_line(response.command_id.unwrap_or(""), ID);
        let response = ActionResponse {
            service_id,
            job_id: &job_id,
            message: Some(&words),
            command_id: Some(&command),
            ..response
        };
        let value = Message::Answ(response).encode();
        self.keep_and_say(topic, value);
    }

    /// Says how a run ended; `words` if its file is not what it should be. Message and metadata are always there.
    pub(super) fn say_finished(&mut self, order: &Order, facts: &Value, words: Option<&str>) {
        let error_encountered = words.is_some();
        let words = one_line(words.unwrap_or("the file is complete"), WORDS);
        let done = FinishedWriting {
            service_id: &self.options.service_id,
            job_id: &order.job_id,
            error_encountered,
            file_name: &order.filename,
            metadata: Some(&with_metadata(order.metadata.as_deref(), facts)),
            message: Some(&words),
        };
        let value = Message::Wrdn(done).encode();
        self.keep_and_say(&order.control_topic, value);
    }

    pub(super) fn keep_and_say(&mut self, topic: &str, value: Vec<u8>) {
        let number = self.next_receipt;
        self.next_receipt += 1;
        let kept = self.journals.keep(number, topic, &value);
        if let Err(error) = &kept {
            // A full disk: said all the same.
            self.warn(error.to_string());
        }
        let receipt = kept.is_ok().then_some(number);
        self.replies.push(Reply { topic: topic.to_owned(), value, receipt });
    }

    /// The broker has confirmed the reply with this receipt: it is not said again.
    pub fn confirmed(&mut self, receipt: u64) {
        if let Err(error) = self.journals.forget(receipt) {
            self.warn(error.to_string());
        }
    }

    /// Says once of each job that streams have nothing in its run: at the second look, since the first messages of a run
    /// may be ones from before it.
    fn note_outside(&mut self) {
        let mut said = Vec::new();
        for job in self.jobs.values_mut() {
            if job.look_outside() == LOOKS {
                let words = first_few(job.outside_words()).join("; ");
                said.push(format!("{}: so far {words}", job.path().display()));
            }
        }
        said.into_iter().for_each(|words| self.warn(words));
    }

    pub(super) fn beat(&mut self, now_ms: u64) {
        let interval = self.options.heartbeat.as_millis() as u64;
        if self.beat_ms.is_some_and(|last| now_ms.saturating_sub(last) < interval) {
            return;
        }
        self.beat_ms = Some(now_ms);
        self.note_outside();
        let mut all: Vec<(String, Value)> = self
            .jobs
            .values()
            .map(|job| {
                let mut status = json!({
                    "state": "writing",
                    "file_being_written": job.path().display().to_string(),
                    "job_id": job.id(),
                    "start_time": job.start_ms(),
                    "stop_time": job.stop_ms().unwrap_or(NO_STOP_MS),
                    "messages_gone": job.gone(),
                    "topics_missing": job.missing_topics(),
                    "warnings": job.warnings().lines(),
                    "outside_run": first_few(job.outside_words()),
                });
                for (key, value) in outside_facts(&job.outside()) {
                    status[key] = value;
                }
                (job.control_topic().to_owned(), status)
            })
            .collect();
        if let (true, Some(topic)) = (all.is_empty(), &self.options.control_topic) {
            let status = json!({
                "state": "idle", "file_being_written": "", "job_id": "",
                "start_time": 0, "stop_time": NO_STOP_MS,
            });
            all.push((topic.clone(), status));
        }
        for (topic, status) in all {
            let status = Status {
                software_name: Some("fullcount"),
                software_version: Some(&self.options.version),
                service_id: Some(&self.options.service_id),
                host_name: Some(&self.options.host),
                process_id: self.options.process,
                update_interval: u32::try_from(interval).unwrap_or(u32::MAX),
                status_json: Some(&status.to_string()),
            };
            let value = Message::X5f2(status).encode();
            self.replies.push(Reply { topic, value, receipt: None });
        }
    }
}
