//! One run, one file: which messages belong into it, and when it is complete.
//!
//! A job reads every partition of its topics from the start of the run, less a leeway of Kafka time, and goes on until
//! each has passed the stop, plus the leeway: messages are found by Kafka's time and filtered by their own. The last
//! value of a slow channel from before the start still holds, so it is written too, and so is the first one from after
//! the stop, until which the last one of the run held. Refuses what the counters of [`WriteCounter`] list. Source: `docs/formats/nexus.md` section 7, `docs/formats/flatbuffers.md` section 8.

mod astray;
mod behind;
mod commit;
mod end;
mod lost;
mod message;
mod reading;
mod topics;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use fullcount_core::ledger::Sheet;

use super::counter::WriteCounter;
use super::file::{JobFile, RowCounts};
use super::journal::{JournalError, MessageSpot, Order, Progress, from_hex};
use super::module::EventCounts;
use super::structure::{FilePlan, StreamModule, Warnings};
use fullcount_messages::Schema;
use fullcount_nexus::NexusError;

pub(super) use astray::{Astray, facts as outside_facts};
pub(super) use lost::Lost;
use reading::Position;
use topics::Away;

/// Stops of a job that are remembered by their ids: some 40 kB of journal at most.
const COMMANDS: usize = 1024;

/// One message of a topic.
#[derive(Debug, Clone, Copy)]
pub struct TopicRecord<'a> {
    /// Topic.
    pub topic: &'a str,
    /// Partition.
    pub partition: i32,
    /// Offset within the partition.
    pub offset: i64,
    /// Kafka's time, ms since 1970, if it has one.
    pub timestamp_ms: Option<u64>,
    /// The message.
    pub value: &'a [u8],
}

/// Where reading a partition begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadFrom {
    /// At the first message of this Kafka time or later, ms since 1970.
    Time(u64),
    /// At this offset.
    Offset(i64),
}

/// A partition that a job reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedPartition {
    /// Topic.
    pub topic: String,
    /// Partition.
    pub partition: i32,
    /// Where.
    pub begin: ReadFrom,
    /// No message in front of that place has a later Kafka time, ms since 1970: an earlier one that has is of another
    /// topic of the same name. `None` if nothing was read yet.
    pub seen_ms: Option<u64>,
}

#[derive(Debug)]
struct Stream {
    group: String,
    /// Of a slow channel, whose last value before the start holds until the next: most bytes of its message.
    carries: Option<usize>,
    /// A message of the same time as the one before says nothing new.
    once: bool,
    /// Time of the last message of a stream whose repeats are left out, ns since 1970.
    last: Option<i64>,
    /// No message in the file has a later time, ns since 1970; `None` where that is not known.
    latest: Option<i64>,
    begun: bool,
    ended: bool,
    carried: Option<Vec<u8>>,
    /// What came during the run and is not in it, as long as nothing is.
    astray: Astray,
}

/// The streams of a topic: by schema, then by source name.
type Routes = HashMap<Schema, HashMap<String, Vec<usize>>>;

/// Why a flush failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum FlushError {
    #[error(transparent)]
    File(#[from] NexusError),
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// A run that is being written.
#[derive(Debug)]
pub struct Job {
    order: Order,
    /// What was odd about its order.
    warnings: Warnings,
    stop_ms: Option<u64>,
    /// Ids of stops that were obeyed, oldest first.
    commands: Vec<String>,
    leeway_ms: u64,
    file: JobFile,
    routes: HashMap<String, Routes>,
    positions: BTreeMap<String, BTreeMap<i32, Position>>,
    streams: Vec<Stream>,
    sheet: Arc<Sheet>,
    refused: u64,
    /// Messages that the broker had deleted before they were read.
    gone: u64,
    /// Topics whose partitions are not known yet, and those that may be gone.
    unasked: Vec<Away>,
    /// Topics that are gone.
    deleted: Vec<String>,
    /// Topics that were deleted, and made anew.
    anew: Vec<String>,
    reported: EventCounts,
    rows: RowCounts,
    /// The next message of each partition when the file was flushed last.
    held: Vec<MessageSpot>,
    /// Messages written since then.
    unflushed: u64,
    flushed_ms: u64,
    /// Where reading is, but not yet written down.
    moved: bool,
    /// Times that it was looked at and had a stream with nothing in the run.
    astray_looks: u32,
}

/// What a job is made of.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) order: Order,
    pub(super) progress: Progress,
    pub(super) file: JobFile,
    pub(super) leeway_ms: u64,
    pub(super) sheet: Arc<Sheet>,
    pub(super) now_ms: u64,
}

impl Job {
    /// A job at its beginning, or where `progress` says.
    pub(super) fn new(
        parts: Parts,
        plan: &FilePlan,
        partitions: &BTreeMap<String, Vec<i32>>,
    ) -> Job {
        let Parts { order, progress, file, leeway_ms, sheet, now_ms } = parts;
        let mut routes: HashMap<String, Routes> = HashMap::new();
        let mut streams = Vec::new();
        for (i, stream) in plan.streams.iter().enumerate() {
            let sources = routes.entry(stream.topic.clone()).or_default();
            let sources = sources.entry(stream.module.schema()).or_default();
            sources.entry(stream.source.clone()).or_default().push(i);
            streams.push(Stream {
                group: stream.group.clone(),
                carries: carried_bytes(&stream.module),
                once: is_once(&stream.module),
                last: progress.last.get(&i).copied(),
                latest: None,
                begun: progress.begun.contains(&i),
                ended: progress.ended.contains(&i),
                carried: progress.carried.get(&i).and_then(|text| from_hex(text)),
                astray: progress.astray.get(&i).copied().unwrap_or_default(),
            });
        }
        let mut positions: BTreeMap<String, BTreeMap<i32, Position>> = BTreeMap::new();
        for (topic, all) in partitions {
            let of_topic = positions.entry(topic.clone()).or_default();
            of_topic.extend(all.iter().map(|&partition| (partition, Position::default())));
        }
        for spot in &progress.next {
            let of_topic = positions.entry(spot.topic.clone()).or_default();
            of_topic.entry(spot.partition).or_default().next = Some(spot.offset);
        }
        for (topic, partition, ms) in &progress.seen {
            let position = positions.get_mut(topic).and_then(|all| all.get_mut(partition));
            if let Some(position) = position {
                position.seen_ms = Some(*ms);
            }
        }
        let unasked = plan.topics().into_iter().filter(|topic| !partitions.contains_key(*topic));
        let away = |topic: &str| Away { topic: topic.to_owned(), since_ms: None, asked_ms: None };
        let unasked = unasked.map(away).collect();
        let reported = file.events();
        Job {
            unasked,
            deleted: Vec::new(),
            anew: progress.anew,
            stop_ms: progress.stop_ms,
            commands: progress.commands,
            leeway_ms,
            file,
            routes,
            positions,
            streams,
            sheet,
            refused: progress.refused,
            gone: progress.gone,
            reported,
            rows: progress.rows,
            held: progress.next,
            unflushed: 0,
            flushed_ms: now_ms,
            moved: true,
            astray_looks: 0,
            warnings: plan.warnings.clone(),
            order,
        }
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.order.job_id
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.order.path
    }

    /// Where it is controlled and reports.
    pub fn control_topic(&self) -> &str {
        &self.order.control_topic
    }

    /// What was odd about its structure, and is written all the same.
    pub fn warnings(&self) -> &Warnings {
        &self.warnings
    }

    /// Start of the run, ms since 1970.
    pub fn start_ms(&self) -> u64 {
        self.order.start_ms
    }

    /// Stop of the run, ms since 1970, once it is known.
    pub fn stop_ms(&self) -> Option<u64> {
        self.stop_ms
    }

    /// Where in the pool the order stood.
    pub(super) fn spot(&self) -> Option<&MessageSpot> {
        self.order.spot.as_ref()
    }

    pub(super) fn order(&self) -> &Order {
        &self.order
    }

    /// True if the stop of this id was obeyed.
    pub(super) fn knows(&self, command: &str) -> bool {
        self.commands.iter().any(|known| known == command)
    }

    pub(super) fn set_stop(&mut self, stop_ms: Option<u64>, command: Option<&str>) {
        self.stop_ms = stop_ms;
        if let Some(command) = command {
            if self.commands.len() == COMMANDS {
                self.commands.remove(0);
            }
            self.commands.push(command.to_owned());
        }
        self.moved = true;
    }

    fn count(&self, counter: WriteCounter) {
        self.sheet.add(counter as usize, 1);
    }

    fn refuse(&mut self, counter: WriteCounter) {
        self.count(counter);
        self.refused += 1;
    }
}

/// True of channels whose forwarder says again what it said, with the same time. Events, images and arrays of several
/// messages may well have the same time.
fn is_once(module: &StreamModule) -> bool {
    matches!(
        module,
        StreamModule::Log { .. }
            | StreamModule::Alarms
            | StreamModule::Connections { .. }
            | StreamModule::Samples { .. }
            | StreamModule::Chopper { .. }
    )
}

/// Most bytes of a message of a slow channel that is kept from before the start, and written down with each flush: a
/// larger one does not fit the stream. `None` of what is no slow channel.
fn carried_bytes(module: &StreamModule) -> Option<usize> {
    const NAMES: usize = 64 << 10;
    match module {
        StreamModule::Log { array, .. } => Some(NAMES + 8 * array.unwrap_or(1)),
        StreamModule::Alarms | StreamModule::Connections { .. } => Some(NAMES),
        _ => None,
    }
}

/// ns since 1970 of ms since 1970.
pub(super) fn ns(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX).saturating_mul(1_000_000)
}
