//! The writer as a service: takes orders, has several jobs at once, answers, and goes on with what a kill left.
//!
//! It is told of messages and of the time, and never looks at a clock or a broker itself. What it wants to say waits
//! in [`Service::replies`]. Refuses orders as [`Refusal`] lists; an order that cannot be read at all is counted.
//! A broker that is not ready when the writer comes back costs no run: its topics are asked for until it is.
//!
//! Source: `docs/formats/nexus.md` section 7, `docs/formats/flatbuffers.md` sections 4.4 and 5.

mod answers;
mod orders;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fullcount_core::ledger::Sheet;
use serde_json::{Value, json};

use super::counter::WriteCounter;
use super::dealt::{Dealt, Entry};
use super::file::{self, JobFile};
use super::job::{FlushError, Job, Lost, Parts, Record, ns};
use super::journal::{JournalError, Journals, Order, Progress};
use super::make::About;
use super::module::Style;
use super::name;
use super::refusal::Refusal;
use super::structure::{Limits, Plan, parse};
use crate::nexus::{Compression, NexusError, StartAttribute};

/// What stands for "no stop time known", ms since 1970: the largest that is a 64-bit number of ns.
const NO_STOP_MS: u64 = 9_223_372_036_854;
/// Stops of jobs that are not here, kept until their start comes.
const REMEMBERED: usize = 4096;
/// Time between two questions for a topic that a job needs to go on, ms.
const ASK_MS: u64 = 1000;
/// A topic that the broker knows nothing of for so long after the end of its run has been deleted, ms.
const DELETED_MS: u64 = 60_000;

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
    /// To be given to [`Service::confirmed`] once the broker has it. `None`: it need not arrive.
    pub receipt: Option<u64>,
}

/// Something that people should see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note(pub String);

/// A stop whose start did not come here, or not yet: an order may wait in the pool while its stop is on the way.
#[derive(Debug, Clone)]
struct Early {
    job_id: String,
    asked_ms: u64,
    command: Option<String>,
}

/// The writer.
#[derive(Debug)]
pub struct Service {
    options: Options,
    journals: Journals,
    jobs: BTreeMap<String, Job>,
    dealt: Dealt,
    early: VecDeque<Early>,
    sheet: Arc<Sheet>,
    replies: Vec<Reply>,
    next_receipt: u64,
    notes: Vec<Note>,
    /// Facts of finished files, for the summary.
    files: Vec<Value>,
    beat_ms: Option<u64>,
    heard_ms: Option<u64>,
    /// When a topic was last asked for.
    asked_ms: Option<u64>,
}

impl Service {
    /// A writer that goes on with what an earlier one left. A job that cannot go on is reported as failed; a journal
    /// that cannot be read is put aside.
    ///
    /// # Errors
    /// Its folder cannot be used, or another writer has it.
    pub fn new(options: Options, now_ms: u64, topics: &dyn Topics) -> Result<Service, WriteError> {
        let journals = Journals::open(&options.folder, &options.service_id)?;
        let dealt = Dealt::open(journals.folder())?;
        let mut service = Service {
            journals,
            jobs: BTreeMap::new(),
            dealt,
            early: VecDeque::new(),
            sheet: Sheet::new(WriteCounter::catalogue()),
            replies: Vec::new(),
            next_receipt: 0,
            notes: Vec::new(),
            files: Vec::new(),
            beat_ms: None,
            heard_ms: None,
            asked_ms: None,
            options,
        };
        for (number, topic, value) in service.journals.kept()? {
            service.next_receipt = number + 1;
            service.replies.push(Reply { topic, value, receipt: Some(number) });
        }
        let left = service.journals.unfinished()?;
        for error in left.unreadable {
            service.count(WriteCounter::Failed);
            service.note(error.to_string());
            service.files.push(json!({"failure": error.to_string()}));
        }
        for (order, progress) in left.jobs {
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
        let partitions = self.partitions_again(order, &plan, progress.as_ref(), topics);
        let own = own_texts(order);
        let about = self.about(order, &own);
        let (file, progress) = match progress {
            Some(progress) => {
                (JobFile::take_up(&order.path, &plan, &about, &progress.rows)?, progress)
            }
            None => {
                // Killed while it was made: no message was taken. Another writer may have made a file there since.
                file::remove_unwritten(&order.path, &order.job_id)?;
                let file = JobFile::create(&order.path, &plan, &about)?;
                (file, Progress { stop_ms: order.stop_ms, ..Progress::default() })
            }
        };
        self.with_file(order.clone(), progress, file, &plan, &partitions, now_ms)
    }

    /// The partitions to go on with: those of the broker, else those of the journal. A broker that was started with
    /// the writer knows its topics a little later: what is unknown now is asked for again.
    fn partitions_again(
        &mut self,
        order: &Order,
        plan: &Plan,
        progress: Option<&Progress>,
        topics: &dyn Topics,
    ) -> BTreeMap<String, Vec<i32>> {
        let mut all = BTreeMap::new();
        for topic in plan.topics() {
            let fault = match topics.partitions(topic) {
                Ok(found) => {
                    all.insert(topic.to_owned(), found);
                    continue;
                }
                Err(fault) => fault,
            };
            let spots = progress.iter().flat_map(|p| &p.next).filter(|spot| spot.topic == topic);
            let known: Vec<i32> = spots.map(|spot| spot.partition).collect();
            let path = order.path.display();
            if known.is_empty() {
                self.note(format!("{path}: topic \"{topic}\" {fault}; asked for again"));
            } else {
                self.note(format!(
                    "{path}: topic \"{topic}\" {fault}; goes on with its partitions"
                ));
                all.insert(topic.to_owned(), known);
            }
        }
        all
    }

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
                    self.note(format!("{path}: completed without topic \"{topic}\""));
                } else if since.is_some() && !known {
                    let seconds = DELETED_MS / 1000;
                    self.note(format!(
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
            self.note(format!(
                "{path}: topic \"{topic}\" was deleted and made anew; what it held in between may be missing"
            ));
            self.beat_ms = None;
        }
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

    /// A message of a topic that a job reads.
    pub fn offer(&mut self, job: &str, record: &Record<'_>) {
        let Some(found) = self.jobs.get_mut(job) else { return };
        if let Err(error) = found.offer(record) {
            self.lose(job, error.into());
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
                self.lose(&id, error);
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
                Err(error) => self.lose(&id, error),
            }
        }
        self.sheet.set(WriteCounter::EventsWaiting as usize, 0);
    }

    /// The id of a job stays taken, also where a kill came before its order was remembered.
    fn remember(&mut self, order: &Order) {
        let Some(spot) = order.spot.clone().filter(|_| !self.dealt.ran(&order.job_id)) else {
            return;
        };
        let job_id = order.job_id.clone();
        let entry = Entry { spot, job_id, command: None, start: true, obeyed: true };
        if let Err(error) = self.dealt.add(entry) {
            self.note(error.to_string());
        }
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
        let deleted = job.deleted_topics().map(|topic| {
            format!("topic \"{topic}\" is no longer on the broker: what it held is missing")
        });
        let anew = job.topics_made_anew().map(|topic| {
            format!("topic \"{topic}\" was deleted and made anew during the run: what it held in between may be missing")
        });
        let early = early.map(str::to_owned).into_iter();
        let words: Vec<String> = early.chain(missing).chain(deleted).chain(anew).collect();
        let words = words.join("; ");
        self.remember(job.order());
        match job.finish(end_ms) {
            Err(lost) => self.report_lost(*lost),
            Ok((path, facts)) => {
                let fault = (!words.is_empty()).then_some(&*words);
                // Kept first: a kill in between completes the file again, and says so again.
                self.say_finished(&control, id, &name, &facts, fault);
                if let Err(error) = self.journals.end(id) {
                    self.note(format!("{}: complete, but {error}", path.display()));
                }
                if self.options.read_only
                    && let Err(error) = take_write_permission(&path)
                {
                    self.note(format!("{}: cannot be made read-only: {error}", path.display()));
                }
                self.count(WriteCounter::Finished);
                self.note(format!("{}: {}", path.display(), fault.unwrap_or("complete")));
                self.files.push(facts);
            }
        }
    }

    fn lose(&mut self, id: &str, error: FlushError) {
        let Some(job) = self.jobs.remove(id) else { return };
        self.remember(job.order());
        self.report_lost(*job.give_up(error));
    }

    /// The file of a job cannot be written any more: what was flushed is made readable.
    fn report_lost(&mut self, lost: Lost) {
        let Lost { order, rows, closed, error } = lost;
        let mut words = error.to_string();
        let cut = match closed {
            true => file::cut(&order.path, &rows),
            false => Err(NexusError::Hdf5 {
                path: order.path.clone(),
                doing: "close the file".into(),
                message: "until this writer ends; readers need swmr=True, later `h5clear -s`"
                    .into(),
            }),
        };
        match cut {
            Ok(()) => words.push_str("; the file holds everything up to its last flush"),
            Err(e) => words = format!("{words}; nor can it be cut to its last flush: {e}"),
        }
        self.failed(&order, &words);
    }

    fn failed(&mut self, order: &Order, words: &str) {
        self.count(WriteCounter::Failed);
        self.note(format!("{}: {words}", order.path.display()));
        let facts = json!({"path": order.path.display().to_string(), "failure": words});
        self.say_finished(
            &order.control_topic,
            &order.job_id,
            &order.filename,
            &facts,
            Some(words),
        );
        if let Err(error) = self.journals.put_aside(&order.job_id) {
            self.note(error.to_string());
        }
        self.files.push(facts);
    }
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
