//! The writer as a service: takes orders, has several jobs at once, answers, and goes on with what a kill left.
//!
//! It is told of messages and of the time, and never looks at a clock or a broker itself. What it wants to say waits
//! in [`Service::replies`]. Refuses orders as [`Refusal`] lists; an order that cannot be read at all is counted.
//!
//! Source: `docs/formats/nexus.md` section 7, `docs/formats/flatbuffers.md` sections 4.4 and 5.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fullcount_core::ledger::Sheet;
use serde_json::{Value, json};

use super::counter::WriteCounter;
use super::file::{self, JobFile};
use super::job::{FlushError, Job, Lost, Parts, Record, ns};
use super::journal::{FORMAT, JournalError, Journals, Order, Progress, Spot};
use super::make::About;
use super::module::Style;
use super::name;
use super::refusal::Refusal;
use super::structure::{Limits, Plan, parse};
use crate::flat::{
    Action, ActionResponse, FinishedWriting, Message, Outcome, RunStart, RunStop, Status, decode,
};
use crate::nexus::{Compression, NexusError, StartAttribute};

/// What stands for "no stop time known", ms since 1970: the largest that is a 64-bit number of ns.
const NO_STOP_MS: u64 = 9_223_372_036_854;
/// Ids of jobs that ran, kept to refuse them when they come again.
const REMEMBERED: usize = 4096;

/// How a writer is set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// Folder of the files; it must exist.
    pub folder: PathBuf,
    /// Which writer this is.
    pub service_id: String,
    /// Name of the host, for heartbeats.
    pub host: String,
    /// Number of the process, for heartbeats.
    pub process: u32,
    /// Version of the program.
    pub version: String,
    /// Where to be controlled when an order does not say.
    pub control_topic: Option<String>,
    /// True if other writers listen to the same control topics: then nothing is said about jobs of others.
    pub shared_control: bool,
    /// Jobs at once, at least 1.
    pub jobs: usize,
    /// Kafka time before the start and after the stop in which messages of the run may be.
    pub leeway: Duration,
    /// Time between flushes.
    pub flush: Duration,
    /// Time between heartbeats.
    pub heartbeat: Duration,
    /// Compression of what grows.
    pub compression: Compression,
    /// Attribute with the epoch of event_time_zero.
    pub start_attribute: StartAttribute,
    /// True to take the write permission away from complete files.
    pub read_only: bool,
    /// Bounds of structures.
    pub limits: Limits,
}

/// What the broker knows of topics.
pub trait Topics {
    /// The partitions of a topic.
    ///
    /// # Errors
    /// The topic is not there, or the broker cannot be asked.
    fn partitions(&self, topic: &str) -> Result<Vec<i32>, TopicFault>;
}

/// Why a topic cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopicFault {
    /// It is not on the broker.
    #[error("is not on the broker; create it, or correct the structure")]
    Missing,
    /// The broker cannot be asked.
    #[error("the broker cannot be asked: {0}")]
    Broker(String),
}

/// A service that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// Its journals.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// A message to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Where.
    pub topic: String,
    /// What: a finished buffer.
    pub value: Vec<u8>,
}

/// Something that people should see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note(pub String);

/// The writer.
#[derive(Debug)]
pub struct Service {
    options: Options,
    journals: Journals,
    jobs: BTreeMap<String, Job>,
    /// Ids of jobs that ran, oldest first.
    ran: VecDeque<String>,
    /// Stops of jobs that are not here, or not yet: an order may wait in the pool while its stop is on the way.
    early: VecDeque<(String, u64, Option<String>)>,
    sheet: Arc<Sheet>,
    replies: Vec<Reply>,
    notes: Vec<Note>,
    /// Facts of finished files, for the summary.
    files: Vec<Value>,
    beat_ms: Option<u64>,
    heard_ms: Option<u64>,
}

impl Service {
    /// A writer that goes on with what an earlier one left. A job that cannot go on is reported as failed.
    ///
    /// # Errors
    /// Its folder cannot be used, or another writer has it.
    pub fn new(options: Options, now_ms: u64, topics: &dyn Topics) -> Result<Service, WriteError> {
        let journals = Journals::open(&options.folder, &options.service_id)?;
        let mut service = Service {
            journals,
            jobs: BTreeMap::new(),
            ran: VecDeque::new(),
            early: VecDeque::new(),
            sheet: Sheet::new(WriteCounter::catalogue()),
            replies: Vec::new(),
            notes: Vec::new(),
            files: Vec::new(),
            beat_ms: None,
            heard_ms: None,
            options,
        };
        for (order, progress) in service.journals.unfinished()? {
            let heard = progress.as_ref().map_or(order.start_ms, |p| p.heard_ms);
            let earlier = service.heard_ms.unwrap_or(u64::MAX);
            service.heard_ms = Some(heard.min(earlier));
            service.resume(order, progress, now_ms, topics);
        }
        Ok(service)
    }

    /// Since when control topics have to be listened to again, ms since 1970: the kill of an earlier writer.
    pub fn heard_ms(&self) -> Option<u64> {
        self.heard_ms
    }

    /// The counters.
    pub fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }

    /// The jobs, by id.
    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.jobs.values()
    }

    /// A job, to be told where reading begins and ends.
    pub fn job(&mut self, id: &str) -> Option<&mut Job> {
        self.jobs.get_mut(id)
    }

    /// True if another job may be taken.
    pub fn has_room(&self) -> bool {
        self.jobs.len() < self.options.jobs
    }

    /// Every topic where orders for this writer's jobs come, and where it is controlled without one.
    pub fn control_topics(&self) -> BTreeSet<String> {
        let of_jobs = self.jobs.values().map(|job| job.control_topic().to_owned());
        of_jobs.chain(self.options.control_topic.clone()).collect()
    }

    /// What is to be published, taken away.
    pub fn replies(&mut self) -> Vec<Reply> {
        std::mem::take(&mut self.replies)
    }

    /// What people should see, taken away.
    pub fn notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    /// Facts of the files finished so far.
    pub fn files(&self) -> &[Value] {
        &self.files
    }

    fn count(&self, counter: WriteCounter) {
        self.sheet.add(counter as usize, 1);
    }

    fn note(&mut self, text: String) {
        self.notes.push(Note(text));
    }

    fn about<'a>(&'a self, order: &'a Order, own: &'a [(&'static str, String)]) -> About<'a> {
        About {
            file_name: order.path.file_name().and_then(|n| n.to_str()).unwrap_or(""),
            version: &self.options.version,
            start_ns: ns(order.start_ms),
            own,
            style: Style { start_attribute: self.options.start_attribute },
            compression: self.options.compression,
        }
    }

    fn resume(
        &mut self,
        mut order: Order,
        progress: Option<Progress>,
        now_ms: u64,
        topics: &dyn Topics,
    ) {
        let path = name::inside(&self.options.folder, &order.filename);
        order.path = path.unwrap_or_else(|_| self.options.folder.join(&order.filename));
        let went_on = progress.is_some();
        match self.try_resume(&order, progress, now_ms, topics) {
            Ok(job) => {
                self.count(WriteCounter::Resumed);
                let how = if went_on { "goes on" } else { "begins anew" };
                self.note(format!("{}: {how} after a restart", order.path.display()));
                self.jobs.insert(order.job_id.clone(), job);
            }
            Err(error) => {
                let path = order.path.clone();
                self.failed(&order, &format!("cannot go on after a restart: {error}"));
                self.note(format!("{}: left as it is", path.display()));
            }
        }
    }

    fn try_resume(
        &mut self,
        order: &Order,
        progress: Option<Progress>,
        now_ms: u64,
        topics: &dyn Topics,
    ) -> Result<Job, Refusal> {
        let plan = parse(&order.structure, &self.options.limits)?;
        let partitions = partitions(&plan, topics)?;
        let own = own_texts(order);
        let about = self.about(order, &own);
        let (file, progress) = match progress {
            Some(progress) => {
                (JobFile::take_up(&order.path, &plan, &about, &progress.rows)?, progress)
            }
            None => {
                // Killed while it was made: no message was taken, and the path was free when the order came.
                if order.path.exists() {
                    fs::remove_file(&order.path).map_err(|source| NexusError::Io {
                        path: order.path.clone(),
                        doing: "remove what is left",
                        source,
                    })?;
                }
                let file = JobFile::create(&order.path, &plan, &about)?;
                (file, Progress { stop_ms: order.stop_ms, ..Progress::default() })
            }
        };
        self.with_file(order.clone(), progress, file, &plan, &partitions, now_ms)
    }

    fn with_file(
        &self,
        order: Order,
        progress: Progress,
        file: JobFile,
        plan: &Plan,
        partitions: &BTreeMap<String, Vec<i32>>,
        now_ms: u64,
    ) -> Result<Job, Refusal> {
        let leeway_ms = self.options.leeway.as_millis() as u64;
        let sheet = self.sheet.clone();
        let parts = Parts { order, progress, file, leeway_ms, sheet, now_ms };
        let mut job = Job::new(parts, plan, partitions);
        job.flush(now_ms, &self.journals).map_err(|error| match error {
            FlushError::File(error) => Refusal::File(error),
            FlushError::Journal(error) => Refusal::Journal(error),
        })?;
        Ok(job)
    }

    /// A message of the job pool or of a control topic.
    pub fn order(&mut self, spot: &Spot, value: &[u8], now_ms: u64, topics: &dyn Topics) {
        self.count(WriteCounter::Orders);
        let message = match decode(value) {
            Ok(message) => message,
            Err(error) => {
                let ours = value.get(4..8).is_some_and(|id| id == b"pl72" || id == b"6s4t");
                self.count(if ours {
                    WriteCounter::OrderBroken
                } else {
                    WriteCounter::OthersOrder
                });
                if ours {
                    self.answer_broken(spot, value.get(4..8) == Some(b"pl72"), &error.to_string());
                }
                return;
            }
        };
        match message {
            Message::Pl72(start) => self.start(&start, spot, now_ms, topics),
            Message::S6s4t(stop) => self.stop(&stop, spot, now_ms),
            _ => self.count(WriteCounter::OthersOrder),
        }
    }

    /// An order whose job nobody can know: the answer says where it stands.
    fn answer_broken(&mut self, spot: &Spot, start: bool, why: &str) {
        let Spot { topic, partition, offset } = spot;
        let words = format!("order at {topic}/{partition}/{offset}: {why}");
        self.note(words.clone());
        // A start reaches one writer; a stop may be for another one of those that listen.
        if self.options.shared_control && !start {
            return;
        }
        let control = self.options.control_topic.clone().unwrap_or_else(|| topic.clone());
        let response = ActionResponse {
            service_id: "",
            job_id: "",
            action: if start { Action::StartJob } else { Action::SetStopTime },
            outcome: Outcome::Failure,
            status_code: 400,
            stop_time: 0,
            message: Some(&words),
            command_id: None,
        };
        self.answer(&control, response);
    }

    fn is_for_another(&self, service_id: Option<&str>) -> bool {
        service_id.is_some_and(|id| !id.is_empty() && id != self.options.service_id)
    }

    fn start(&mut self, start: &RunStart<'_>, spot: &Spot, now_ms: u64, topics: &dyn Topics) {
        if self.is_for_another(start.service_id) {
            return self.count(WriteCounter::OthersOrder);
        }
        let job_id = start.job_id.unwrap_or("");
        if self.jobs.get(job_id).is_some_and(|job| job.spot() == Some(spot)) {
            return self.count(WriteCounter::OrderAgain);
        }
        let control = start.control_topic.filter(|topic| name::is_topic(topic));
        let control = control.map(str::to_owned).or_else(|| self.options.control_topic.clone());
        let control = control.unwrap_or_else(|| spot.topic.clone());
        let taken = self.take(start, spot, &control, now_ms, topics);
        let answer = |outcome, status_code, stop_time, message| ActionResponse {
            service_id: "",
            job_id,
            action: Action::StartJob,
            outcome,
            status_code,
            stop_time,
            message,
            command_id: Some(job_id),
        };
        match taken {
            Ok(mut job) => {
                self.count(WriteCounter::Started);
                let early = self.early.iter().rev().find(|early| early.0 == job_id);
                if let Some((_, asked, command)) = early.filter(|early| early.1 >= job.start_ms()) {
                    // Written down with the next flush; a kill before it reads both messages again.
                    job.set_stop((*asked < NO_STOP_MS).then_some(*asked), command.as_deref());
                }
                let stop = job.stop_ms().unwrap_or(NO_STOP_MS);
                self.note(format!("{}: job {job_id} started", job.path().display()));
                self.jobs.insert(job_id.to_owned(), job);
                self.answer(&control, answer(Outcome::Success, 201, stop, None));
                self.beat_ms = None;
            }
            Err(refusal) => {
                self.count(refusal.counter());
                let words = refusal.to_string();
                self.note(format!("job \"{job_id}\" refused: {words}"));
                let status = refusal.status();
                self.answer(
                    &control,
                    answer(Outcome::Failure, status, start.stop_time, Some(&words)),
                );
            }
        }
    }

    fn take(
        &mut self,
        start: &RunStart<'_>,
        spot: &Spot,
        control: &str,
        now_ms: u64,
        topics: &dyn Topics,
    ) -> Result<Job, Refusal> {
        let missing = |field, why: &str| Refusal::Field { field, why: why.to_owned() };
        let job_id = start.job_id.filter(|id| !id.is_empty());
        let job_id = job_id.ok_or_else(|| missing("job_id", "is missing; a UUID as text"))?;
        if !name::is_job_id(job_id) {
            let why = "1 to 128 letters, digits, '-', '_' and '.', as a UUID has";
            return Err(missing("job_id", why));
        }
        let twice = |state| Err(Refusal::Twice { job: job_id.to_owned(), state });
        if self.jobs.contains_key(job_id) {
            return twice("runs here");
        }
        if self.ran.iter().any(|id| id == job_id) {
            return twice("ran here");
        }
        if !self.has_room() {
            return Err(Refusal::Full(self.jobs.len()));
        }
        if let Some(topic) = start.control_topic.filter(|t| !t.is_empty() && !name::is_topic(t)) {
            let why = format!("\"{}\" is no name of a topic", topic.escape_debug());
            return Err(Refusal::Field { field: "control_topic", why });
        }
        let (start_ms, stop_ms) = times(start, now_ms)?;
        let filename = start.filename.filter(|name| !name.is_empty());
        let filename = filename.ok_or_else(|| missing("filename", "is missing"))?;
        let path = name::inside(&self.options.folder, filename)
            .map_err(|why| Refusal::Path { name: filename.to_owned(), why })?;
        if path.exists() {
            return Err(Refusal::Exists(path));
        }
        let structure = start.nexus_structure.filter(|text| !text.is_empty());
        let structure =
            structure.ok_or_else(|| missing("nexus_structure", "is missing; JSON as text"))?;
        let plan = parse(structure, &self.options.limits)?;
        let partitions = partitions(&plan, topics)?;
        let text = |text: Option<&str>| text.map(str::to_owned);
        let order = Order {
            format: FORMAT,
            job_id: job_id.to_owned(),
            path,
            filename: filename.to_owned(),
            start_ms,
            stop_ms,
            control_topic: control.to_owned(),
            structure: structure.to_owned(),
            metadata: text(start.metadata),
            run_name: text(start.run_name),
            instrument_name: text(start.instrument_name),
            spot: Some(spot.clone()),
        };
        self.journals.begin(&order)?;
        let id = order.job_id.clone();
        let made = self.make(order, &plan, &partitions, now_ms);
        if made.is_err() {
            // Nothing was written; a journal would make the job begin at the next start.
            self.journals.end(&id)?;
        }
        made
    }

    fn make(
        &self,
        order: Order,
        plan: &Plan,
        partitions: &BTreeMap<String, Vec<i32>>,
        now_ms: u64,
    ) -> Result<Job, Refusal> {
        let own = own_texts(&order);
        let file = JobFile::create(&order.path, plan, &self.about(&order, &own))?;
        let progress = Progress { stop_ms: order.stop_ms, ..Progress::default() };
        self.with_file(order, progress, file, plan, partitions, now_ms)
    }

    fn stop(&mut self, stop: &RunStop<'_>, spot: &Spot, now_ms: u64) {
        if self.is_for_another(stop.service_id) {
            return self.count(WriteCounter::OthersOrder);
        }
        let job_id = stop.job_id.unwrap_or("");
        let asked = match stop.stop_time {
            0 => now_ms,
            time => time,
        };
        let Some(job) = self.jobs.get(job_id) else {
            if self.early.len() == REMEMBERED {
                self.early.pop_front();
            }
            let command = stop.command_id.map(str::to_owned);
            self.early.push_back((job_id.to_owned(), asked, command));
            let named = stop.service_id.is_some_and(|id| id == self.options.service_id);
            let was_ours = self.ran.iter().any(|id| id == job_id);
            if self.options.shared_control && !named && !was_ours {
                return self.count(WriteCounter::OthersOrder);
            }
            let refusal = Refusal::Unknown(job_id.to_owned());
            let topic = spot.topic.clone();
            return self.answer_stop(&topic, stop, asked, Err(refusal));
        };
        let command = stop.command_id.filter(|id| !id.is_empty());
        if command.is_some() && command == job.last_command() {
            return self.count(WriteCounter::OrderAgain);
        }
        let leeway = self.options.leeway.as_millis() as u64;
        let control = job.control_topic().to_owned();
        let outcome = allowed(job, asked, now_ms, leeway);
        if outcome.is_ok()
            && let Some(job) = self.jobs.get_mut(job_id)
        {
            job.set_stop((asked < NO_STOP_MS).then_some(asked), command);
            let flushed = job.flush(now_ms, &self.journals);
            self.answer_stop(&control, stop, asked, Ok(()));
            self.beat_ms = None;
            if let Err(error) = flushed {
                self.lose(job_id, error, now_ms);
            }
            return;
        }
        self.answer_stop(&control, stop, asked, outcome);
    }

    fn answer_stop(
        &mut self,
        topic: &str,
        stop: &RunStop<'_>,
        asked: u64,
        outcome: Result<(), Refusal>,
    ) {
        let job_id = stop.job_id.unwrap_or("");
        let words = outcome.as_ref().err().map(ToString::to_string);
        let (result, status_code) = match &outcome {
            Ok(()) => (Outcome::Success, 201),
            Err(refusal) => (Outcome::Failure, refusal.status()),
        };
        self.count(outcome.as_ref().map_or_else(Refusal::counter, |()| WriteCounter::Stopped));
        if let Some(words) = &words {
            self.note(format!("stop of job \"{job_id}\" refused: {words}"));
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
                message: words.as_deref(),
                command_id: stop.command_id,
            },
        );
    }

    fn answer(&mut self, topic: &str, response: ActionResponse<'_>) {
        let service_id = &self.options.service_id;
        let value = Message::Answ(ActionResponse { service_id, ..response }).encode();
        self.replies.push(Reply { topic: topic.to_owned(), value });
    }

    /// A message of a topic that a job reads.
    pub fn offer(&mut self, job: &str, record: &Record<'_>, now_ms: u64) {
        let Some(found) = self.jobs.get_mut(job) else { return };
        if let Err(error) = found.offer(record) {
            self.lose(job, error.into(), now_ms);
        }
    }

    /// The oldest message that a partition still holds has this offset: what a job had to read before it is gone, and
    /// is counted, said, and written into its file.
    pub fn oldest(&mut self, job: &str, topic: &str, partition: i32, oldest: i64) {
        let Some(found) = self.jobs.get_mut(job) else { return };
        let gone = found.oldest(topic, partition, oldest);
        if gone > 0 {
            let path = found.path().display().to_string();
            self.note(format!(
                "{path}: {gone} messages of {topic}/{partition} were deleted on the broker before they were read; \
                 they are missing in the file"
            ));
            self.beat_ms = None;
        }
    }

    /// Time goes on: flushes, completes what is complete, shows that the writer lives.
    pub fn tick(&mut self, now_ms: u64) {
        let interval = self.options.flush.as_millis() as u64;
        let due: Vec<String> = self
            .jobs
            .iter()
            .filter(|(_, job)| job.is_due(now_ms, interval))
            .map(|(id, _)| id.clone())
            .collect();
        for id in due {
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            if let Err(error) = job.flush(now_ms, &self.journals) {
                self.lose(&id, error, now_ms);
            }
        }
        let complete: Vec<String> = self
            .jobs
            .iter()
            .filter(|(_, job)| job.is_complete(now_ms))
            .map(|(id, _)| id.clone())
            .collect();
        for id in complete {
            self.finish(&id, now_ms, None);
        }
        self.beat(now_ms);
        let waiting = self.jobs.values().map(Job::waiting).sum();
        self.sheet.set(WriteCounter::EventsWaiting as usize, waiting);
    }

    /// The writer ends. With `keep`, jobs stay unfinished, and the next writer goes on with them; else their files are
    /// completed with what is there, and the end says so.
    pub fn end(&mut self, now_ms: u64, keep: bool) {
        let ids: Vec<String> = self.jobs.keys().cloned().collect();
        for id in ids {
            if !keep {
                self.finish(&id, now_ms, Some("the writer was stopped before the run ended"));
                continue;
            }
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            match job.flush(now_ms, &self.journals) {
                Ok(()) => {
                    let path = job.path().display().to_string();
                    self.jobs.remove(&id);
                    self.note(format!("{path}: kept for the next start"));
                }
                Err(error) => self.lose(&id, error, now_ms),
            }
        }
        self.sheet.set(WriteCounter::EventsWaiting as usize, 0);
    }

    fn remember(&mut self, id: &str) {
        if self.ran.len() == REMEMBERED {
            self.ran.pop_front();
        }
        self.ran.push_back(id.to_owned());
    }

    fn finish(&mut self, id: &str, now_ms: u64, early: Option<&str>) {
        let Some(job) = self.jobs.remove(id) else { return };
        let end_ms = job.stop_ms().filter(|_| early.is_none()).unwrap_or(now_ms);
        let (control, name) = (job.control_topic().to_owned(), job.filename().to_owned());
        let gone = job.gone();
        let missing = (gone > 0).then(|| {
            format!(
                "{gone} messages were deleted on the broker before they were read and are missing"
            )
        });
        let words: Vec<&str> = early.into_iter().chain(missing.as_deref()).collect();
        let words = words.join("; ");
        self.remember(id);
        match job.finish(end_ms) {
            Err(lost) => self.report_lost(*lost),
            Ok((path, facts)) => {
                if let Err(error) = self.journals.end(id) {
                    self.note(format!("{}: complete, but {error}", path.display()));
                }
                if self.options.read_only
                    && let Err(error) = take_write_permission(&path)
                {
                    self.note(format!("{}: cannot be made read-only: {error}", path.display()));
                }
                self.count(WriteCounter::Finished);
                let said = if words.is_empty() { "complete" } else { &words };
                self.note(format!("{}: {said}", path.display()));
                let done = FinishedWriting {
                    service_id: &self.options.service_id,
                    job_id: id,
                    error_encountered: !words.is_empty(),
                    file_name: &name,
                    metadata: Some(&facts.to_string()),
                    message: (!words.is_empty()).then_some(&*words),
                };
                let value = Message::Wrdn(done).encode();
                self.replies.push(Reply { topic: control, value });
                self.files.push(facts);
            }
        }
    }

    fn lose(&mut self, id: &str, error: FlushError, _now_ms: u64) {
        let Some(job) = self.jobs.remove(id) else { return };
        self.remember(id);
        self.report_lost(*job.give_up(error));
    }

    /// The file of a job cannot be written any more: what was flushed is made readable.
    fn report_lost(&mut self, lost: Lost) {
        let Lost { order, rows, error } = lost;
        let mut words = error.to_string();
        match file::cut(&order.path, &rows) {
            Ok(()) => words.push_str("; the file holds everything up to its last flush"),
            Err(e) => words = format!("{words}; nor can it be cut to its last flush: {e}"),
        }
        self.failed(&order, &words);
    }

    fn failed(&mut self, order: &Order, words: &str) {
        self.count(WriteCounter::Failed);
        self.note(format!("{}: {words}", order.path.display()));
        if let Err(error) = self.journals.put_aside(&order.job_id) {
            self.note(error.to_string());
        }
        let facts = json!({"path": order.path.display().to_string(), "failure": words});
        let done = FinishedWriting {
            service_id: &self.options.service_id,
            job_id: &order.job_id,
            error_encountered: true,
            file_name: &order.filename,
            metadata: Some(&facts.to_string()),
            message: Some(words),
        };
        let value = Message::Wrdn(done).encode();
        self.replies.push(Reply { topic: order.control_topic.clone(), value });
        self.files.push(facts);
    }

    fn beat(&mut self, now_ms: u64) {
        let interval = self.options.heartbeat.as_millis() as u64;
        if self.beat_ms.is_some_and(|last| now_ms.saturating_sub(last) < interval) {
            return;
        }
        self.beat_ms = Some(now_ms);
        let mut all: Vec<(String, Value)> = self
            .jobs
            .values()
            .map(|job| {
                let status = json!({
                    "state": "writing",
                    "file_being_written": job.path().display().to_string(),
                    "job_id": job.id(),
                    "start_time": job.start_ms(),
                    "stop_time": job.stop_ms().unwrap_or(NO_STOP_MS),
                    "messages_gone": job.gone(),
                });
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
            self.replies.push(Reply { topic, value: Message::X5f2(status).encode() });
        }
    }
}

/// Start and stop of an order, ms since 1970.
fn times(start: &RunStart<'_>, now_ms: u64) -> Result<(u64, Option<u64>), Refusal> {
    let begin = match start.start_time {
        0 => now_ms,
        time if time >= NO_STOP_MS => {
            let why = format!("{time} is above {NO_STOP_MS}: milliseconds since 1970 are expected");
            return Err(Refusal::Field { field: "start_time", why });
        }
        time => time,
    };
    match start.stop_time {
        0 | NO_STOP_MS.. => Ok((begin, None)),
        stop if stop <= begin => Err(Refusal::Times { start: begin, stop }),
        stop => Ok((begin, Some(stop))),
    }
}

/// Whether the stop of a job may be set to `asked`.
fn allowed(job: &Job, asked: u64, now_ms: u64, leeway_ms: u64) -> Result<(), Refusal> {
    if asked < job.start_ms() {
        return Err(Refusal::Times { start: job.start_ms(), stop: asked });
    }
    // Clocks differ, and messages travel: a stop that was "now" when it was sent is not in the past.
    let ago = now_ms.saturating_sub(asked);
    if ago > leeway_ms {
        return Err(Refusal::Past { stop: asked, ago });
    }
    match job.stop_ms() {
        Some(stop) if asked > stop && job.is_over() => Err(Refusal::Over { stop }),
        _ => Ok(()),
    }
}

fn partitions(plan: &Plan, topics: &dyn Topics) -> Result<BTreeMap<String, Vec<i32>>, Refusal> {
    let each = |topic: &str| match topics.partitions(topic) {
        Ok(all) => Ok((topic.to_owned(), all)),
        Err(fault) => Err(Refusal::Topic {
            topic: topic.to_owned(),
            broker: matches!(fault, TopicFault::Broker(_)),
            why: fault.to_string(),
        }),
    };
    plan.topics().into_iter().map(each).collect()
}

/// What the file says of the order that it was made for.
fn own_texts(order: &Order) -> Vec<(&'static str, String)> {
    let configuration = json!({
        "job_id": order.job_id,
        "filename": order.filename,
        "start_time": order.start_ms,
        "control_topic": order.control_topic,
        "run_name": order.run_name,
        "instrument_name": order.instrument_name,
    });
    let metadata = order.metadata.clone().unwrap_or_default();
    vec![
        ("configuration", configuration.to_string()),
        ("metadata", metadata),
        ("nexus_structure", order.structure.clone()),
    ]
}

fn take_write_permission(path: &Path) -> std::io::Result<()> {
    let mut permissions = fs::metadata(path)?.permissions();
    permissions.set_readonly(true);
    fs::set_permissions(path, permissions)
}
