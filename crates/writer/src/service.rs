//! The writer as a service: takes orders, has several jobs at once, answers, and goes on with what a kill left.
//!
//! It is told of messages and of the time, and never looks at a clock or a broker itself. What it wants to say waits
//! in [`Service::replies`]. Refuses orders as [`OrderRefusal`] lists; an order that cannot be read at all is counted.
//! A broker that is not ready when the writer comes back costs no run: its topics are asked for until it is.
//!
//! Source: `docs/formats/nexus.md` section 7, `docs/formats/flatbuffers.md` sections 4.4 and 5.

mod answers;
mod echo;
mod ends;
mod facts;
mod orders;
mod resume;
mod topics;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fullcount_core::ledger::Sheet;
use serde_json::{Value, json};

use super::counter::WriteCounter;
use super::dealt::Dealt;
use super::file::JobFile;
use super::job::{FlushError, Job, Parts, TopicRecord, ns};
use super::journal::{JournalError, Journals, Order, Progress};
use super::make::About;
use super::module::{self, Style};
use super::name::one_line;
use super::refusal::OrderRefusal;
use super::structure::{FilePlan, StructureError, StructureFault, StructureLimits, parse};
use super::suspect::Suspects;
use fullcount_nexus::packers::Packers;
use fullcount_nexus::{Compression, DiskWay, Packing, StartAttribute};

/// What stands for "no stop time known", ms since 1970: the largest that is a 64-bit number of ns.
const NO_STOP_MS: u64 = 9_223_372_036_854;
/// Bytes of a line for people, and of the words of an answer.
const WORDS: usize = 4096;
/// Bytes of an id in answers and in what is remembered of orders; longer ones are no ids.
const ID: usize = 128;
/// What an open dataset takes beside its chunk: the library's own, with the table of its cache (521 entries of 8 bytes).
const DATASET: u64 = 16 << 10;
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
    /// Folder of templates: structures of instruments, `<instrument_name>.json`.
    pub templates: Option<PathBuf>,
    /// Which writer this is.
    pub service_id: String,
    /// Name of the host, for heartbeats.
    pub host: String,
    /// Number of the process, for heartbeats.
    pub process: u32,
    /// Version of the program.
    pub version: String,
    /// Where run starts for any of several writers come.
    pub pool_topic: Option<String>,
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
    /// How events without compression get to the disk.
    pub disk: DiskWay,
    /// Attribute with the epoch of event_time_zero.
    pub start_attribute: StartAttribute,
    /// True to take the write permission away from complete files.
    pub read_only: bool,
    /// Bounds of structures.
    pub limits: StructureLimits,
}

/// What the broker knows of topics.
pub trait Topics {
    /// The partitions of a topic.
    ///
    /// # Errors
    /// The topic is not there, or the broker cannot be asked.
    fn partitions(&self, topic: &str) -> Result<Vec<i32>, TopicFault>;

    /// Whether the writer can speak and listen there; a broker that makes topics makes this one.
    ///
    /// # Errors
    /// The topic is not there and is not made, or the broker cannot be asked.
    fn talk(&self, _topic: &str) -> Result<(), TopicFault> {
        Ok(())
    }
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
pub enum WriterError {
    /// Its journals.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The threads that compress.
    #[error("cannot start a thread that compresses: {0}")]
    Threads(std::io::Error),
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
pub struct Note {
    /// One line.
    pub text: String,
    /// Something was refused, failed or is missing.
    pub wrong: bool,
}

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
    /// Compress the events of all jobs, if they are to be.
    packers: Option<Arc<Packers>>,
    journals: Journals,
    jobs: BTreeMap<String, Job>,
    dealt: Dealt,
    suspects: Suspects,
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
    pub fn new(options: Options, now_ms: u64, topics: &dyn Topics) -> Result<Service, WriterError> {
        let journals = Journals::open(&options.folder, &options.service_id)?;
        let dealt = Dealt::open(journals.folder())?;
        let suspects = Suspects::open(journals.folder())?;
        let packers = match options.compression {
            Compression::None => None,
            Compression::Gzip(level) => {
                let threads = Packing::usual_threads();
                Some(Packers::start(threads, level).map_err(WriterError::Threads)?)
            }
        };
        let mut service = Service {
            packers,
            journals,
            jobs: BTreeMap::new(),
            dealt,
            suspects,
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
            service.warn(error.to_string());
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

    /// Notes what goes on.
    fn note(&mut self, text: String) {
        self.notes.push(Note { text: one_line(&text, WORDS), wrong: false });
    }

    /// Notes what is wrong. What others sent may stand in it: it stays one line.
    fn warn(&mut self, text: String) {
        self.notes.push(Note { text: one_line(&text, WORDS), wrong: true });
    }

    /// Reads a structure, and adds up what its file will take of memory.
    fn plan(&self, structure: &str) -> Result<FilePlan, StructureError> {
        let limits = &self.options.limits;
        let plan = parse(structure, limits)?;
        let style = Style { start_attribute: self.options.start_attribute };
        let columns = plan.streams.iter().flat_map(|stream| module::specs(&stream.module, style));
        let chunks = columns.map(|spec| spec.chunk_bytes() + DATASET);
        let bytes = chunks.fold(plan.bytes, u64::saturating_add);
        if bytes > limits.memory {
            let what =
                "constants, names and one chunk of each dataset that grows together".to_owned();
            let fault = StructureFault::Memory { what, bytes, limit: limits.memory };
            return Err(StructureError { at: String::new(), fault });
        }
        Ok(plan)
    }

    fn about<'a>(&'a self, order: &'a Order, own: &'a [(&'static str, String)]) -> About<'a> {
        About {
            file_name: order.path.file_name().and_then(|n| n.to_str()).unwrap_or(""),
            version: &self.options.version,
            start_ns: ns(order.start_ms),
            own,
            style: Style { start_attribute: self.options.start_attribute },
            compression: self.options.compression,
            disk: self.options.disk,
            packers: self.packers.clone(),
        }
    }

    fn with_file(
        &self,
        order: Order,
        progress: Progress,
        file: JobFile,
        plan: &FilePlan,
        partitions: &BTreeMap<String, Vec<i32>>,
        now_ms: u64,
    ) -> Result<Job, OrderRefusal> {
        let leeway_ms = self.options.leeway.as_millis() as u64;
        let sheet = self.sheet.clone();
        let parts = Parts { order, progress, file, leeway_ms, sheet, now_ms };
        let mut job = Job::new(parts, plan, partitions);
        job.flush(now_ms, &self.journals).map_err(|error| match error {
            FlushError::File(error) => OrderRefusal::File(error),
            FlushError::Journal(error) => OrderRefusal::Journal(error),
        })?;
        Ok(job)
    }

    /// A message of a topic that a job reads.
    pub fn offer(&mut self, job: &str, record: &TopicRecord<'_>) {
        let Some(found) = self.jobs.get_mut(job) else { return };
        if let Err(error) = found.offer(record) {
            self.lose(job, error.into());
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
}

/// What the file says of the order that it was made for.
fn own_texts(order: &Order, plan: &FilePlan) -> Vec<(&'static str, String)> {
    let configuration = json!({
        "job_id": order.job_id,
        "filename": order.filename,
        "start_time": order.start_ms,
        "control_topic": order.control_topic,
        "run_name": order.run_name,
        "instrument_name": order.instrument_name,
        "template": order.template,
    });
    let metadata = order.metadata.clone().unwrap_or_default();
    let mut all = vec![
        ("configuration", configuration.to_string()),
        ("metadata", metadata),
        ("nexus_structure", order.structure.clone()),
    ];
    if plan.warnings.count() > 0 {
        all.push(("warnings", plan.warnings.lines().join("\n")));
    }
    all
}
