//! One run, one file: which messages belong into it, and when it is complete.
//!
//! A job reads every partition of its topics from the start of the run, less a leeway of Kafka time, and goes on until
//! each has passed the stop, plus the leeway: messages are found by Kafka's time and filtered by their own. The last
//! value of a slow channel from before the start still holds, so it is written too. Refuses what the counters of
//! [`WriteCounter`] list. Source: `docs/formats/nexus.md` section 7, `docs/formats/flatbuffers.md` section 8.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fullcount_core::ledger::Sheet;
use serde_json::{Map, Value, json};

use super::counter::WriteCounter;
use super::file::{JobFile, RowCounts};
use super::journal::{JournalError, Journals, Order, Progress, Spot, from_hex, to_hex};
use super::module::{EventCounts, Seen, Stopped, Unfit};
use super::structure::{Module, Plan};
use crate::flat::{EventRefused, EventView, Message, Refused, Schema, decode};
use crate::nexus::NexusError;
use crate::nexus::error::hdf5_error;

/// Stops of a job that are remembered by their ids: some 40 kB of journal at most.
const COMMANDS: usize = 1024;

/// One message of a topic.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
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
pub enum Begin {
    /// At the first message of this Kafka time or later, ms since 1970.
    Time(u64),
    /// At this offset.
    Offset(i64),
}

/// A partition that a job reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Topic.
    pub topic: String,
    /// Partition.
    pub partition: i32,
    /// Where.
    pub begin: Begin,
    /// No message in front of that place has a later Kafka time, ms since 1970: an earlier one that has is of another
    /// topic of the same name. `None` if nothing was read yet.
    pub seen_ms: Option<u64>,
}

/// A topic that the broker is to be asked for.
#[derive(Debug)]
struct Away {
    topic: String,
    /// Since when the broker says that it is not there, ms since 1970.
    since_ms: Option<u64>,
    /// When it was asked last, ms since 1970.
    asked_ms: Option<u64>,
}

#[derive(Debug, Default)]
struct Position {
    /// The next message; `None` before reading began.
    next: Option<i64>,
    /// The latest Kafka time of the messages that were read, ms since 1970.
    seen_ms: Option<u64>,
    /// Nothing of this run comes any more.
    done: bool,
}

#[derive(Debug)]
struct Stream {
    group: String,
    /// Of a slow channel: its last value before the start holds until the next.
    carries: bool,
    begun: bool,
    ended: bool,
    carried: Option<Vec<u8>>,
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

/// What became of a message at one stream.
enum Fate {
    Written,
    Unfit(Unfit),
}

/// A run that is being written.
#[derive(Debug)]
pub struct Job {
    order: Order,
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
    flushed_ms: u64,
    /// Where reading is, but not yet written down.
    moved: bool,
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
    pub(super) fn new(parts: Parts, plan: &Plan, partitions: &BTreeMap<String, Vec<i32>>) -> Job {
        let Parts { order, progress, file, leeway_ms, sheet, now_ms } = parts;
        let mut routes: HashMap<String, Routes> = HashMap::new();
        let mut streams = Vec::new();
        for (i, stream) in plan.streams.iter().enumerate() {
            let sources = routes.entry(stream.topic.clone()).or_default();
            let sources = sources.entry(stream.module.schema()).or_default();
            sources.entry(stream.source.clone()).or_default().push(i);
            streams.push(Stream {
                group: stream.group.clone(),
                carries: matches!(
                    stream.module,
                    Module::Log { .. } | Module::Alarms | Module::Connections
                ),
                begun: progress.begun.contains(&i),
                ended: progress.ended.contains(&i),
                carried: progress.carried.get(&i).and_then(|text| from_hex(text)),
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
            flushed_ms: now_ms,
            moved: true,
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

    /// Start of the run, ms since 1970.
    pub fn start_ms(&self) -> u64 {
        self.order.start_ms
    }

    /// Stop of the run, ms since 1970, once it is known.
    pub fn stop_ms(&self) -> Option<u64> {
        self.stop_ms
    }

    /// Name of the file as the order had it.
    pub(super) fn filename(&self) -> &str {
        &self.order.filename
    }

    /// Where in the pool the order stood.
    pub(super) fn spot(&self) -> Option<&Spot> {
        self.order.spot.as_ref()
    }

    pub(super) fn order(&self) -> &Order {
        &self.order
    }

    /// True if the stop of this id was obeyed.
    pub(super) fn knows(&self, command: &str) -> bool {
        self.commands.iter().any(|known| known == command)
    }

    /// A topic that is still to be asked for: the one that was asked longest ago.
    pub fn unasked(&self) -> Option<&str> {
        self.question().map(|(_, topic)| topic)
    }

    /// The same with the time when it was asked last.
    pub(super) fn question(&self) -> Option<(Option<u64>, &str)> {
        self.unasked.iter().map(|away| (away.asked_ms, &*away.topic)).min()
    }

    /// The broker said that a topic, or one of all of them, is not there: it is asked for.
    pub(super) fn doubt(&mut self, topic: Option<&str>) {
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
    pub(super) fn missing_topics(&self) -> Vec<&str> {
        let away = self.unasked.iter().filter(|away| away.since_ms.is_some());
        away.map(|away| &*away.topic).chain(self.deleted_topics()).collect()
    }

    /// The partitions of such a topic. True if it was missing.
    pub(super) fn found(&mut self, topic: &str, partitions: &[i32]) -> bool {
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
    pub(super) fn not_found(&mut self, topic: &str, missing: bool, now_ms: u64) -> Option<u64> {
        let away = self.unasked.iter_mut().find(|away| away.topic == topic)?;
        away.asked_ms = Some(now_ms);
        away.since_ms = missing.then(|| away.since_ms.unwrap_or(now_ms));
        away.since_ms
    }

    /// Such a topic is gone for good: the file is completed without it.
    pub(super) fn deleted(&mut self, topic: &str) {
        self.found(topic, &[]);
        for position in self.positions.get_mut(topic).into_iter().flat_map(BTreeMap::values_mut) {
            position.done = true;
        }
        self.deleted.push(topic.to_owned());
    }

    /// The partition is not the one that was read: its next message is an earlier one. True if that is news of the
    /// topic.
    pub(super) fn went_back(&mut self, topic: &str, partition: i32, offset: i64) -> bool {
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
    pub(super) fn topics_made_anew(&self) -> impl Iterator<Item = &str> {
        self.anew.iter().map(|topic| &**topic)
    }

    /// Topics that the file had to be completed without.
    pub(super) fn deleted_topics(&self) -> impl Iterator<Item = &str> {
        self.deleted.iter().map(|topic| &**topic)
    }

    /// What is still to be read, and from where; not of topics that are missing.
    pub fn wanted(&self) -> Vec<Wanted> {
        let from = self.order.start_ms.saturating_sub(self.leeway_ms);
        let each = |(topic, all): (&String, &BTreeMap<i32, Position>)| {
            all.iter()
                .filter(|(_, position)| !position.done)
                .map(|(&partition, position)| Wanted {
                    topic: topic.clone(),
                    partition,
                    begin: position.next.map_or(Begin::Time(from), Begin::Offset),
                    // What lies before the place where reading began is older than that time.
                    seen_ms: position.seen_ms.map(|ms| ms.max(from)),
                })
                .collect::<Vec<_>>()
        };
        let here = self.positions.iter().filter(|(topic, _)| !self.is_missing(topic));
        here.flat_map(each).collect()
    }

    /// Reading a partition begins at this offset: what its time led to.
    pub fn begin(&mut self, topic: &str, partition: i32, offset: i64) {
        if let Some(position) = self.position(topic, partition) {
            position.next.get_or_insert(offset);
            self.moved = true;
        }
    }

    /// The next message of a partition, once reading it has begun.
    pub fn next(&self, topic: &str, partition: i32) -> Option<i64> {
        self.positions.get(topic)?.get(&partition)?.next
    }

    /// The oldest message that the partition still holds has this offset. Says how many that were to be read are gone.
    pub fn oldest(&mut self, topic: &str, partition: i32, oldest: i64) -> u64 {
        let Some(position) = self.position(topic, partition) else { return 0 };
        let Some(next) = position.next.filter(|next| oldest > *next) else { return 0 };
        position.next = Some(oldest);
        let gone = oldest.abs_diff(next);
        self.moved = true;
        self.gone += gone;
        self.sheet.add(WriteCounter::Gone as usize, gone);
        gone
    }

    /// Messages that the broker had deleted before they were read.
    pub fn gone(&self) -> u64 {
        self.gone
    }

    fn position(&mut self, topic: &str, partition: i32) -> Option<&mut Position> {
        self.positions.get_mut(topic)?.get_mut(&partition)
    }

    /// The time from which on the ends of partitions matter: stop and leeway. `None` without a stop.
    pub fn drains_at_ms(&self) -> Option<u64> {
        self.stop_ms.map(|stop| stop.saturating_add(self.leeway_ms))
    }

    /// The partition had `end` as the offset of its next message to come, asked at `asked_ms`.
    pub fn at_end(&mut self, topic: &str, partition: i32, end: i64, asked_ms: u64) {
        let due = self.drains_at_ms().is_some_and(|at| asked_ms > at);
        if let Some(position) = self.position(topic, partition)
            && due
            && position.next.is_some_and(|next| next >= end)
        {
            position.done = true;
        }
    }

    /// True once nothing of the run can come any more.
    pub fn is_complete(&self, now_ms: u64) -> bool {
        self.stop_ms.is_some_and(|stop| now_ms >= stop)
            && self.unasked.is_empty()
            && self.positions.values().flat_map(BTreeMap::values).all(|position| position.done)
    }

    /// True if a part of the run's end has been passed: then it cannot be moved to later.
    pub(super) fn is_over(&self) -> bool {
        self.streams.iter().any(|stream| stream.ended)
            || self.positions.values().flat_map(BTreeMap::values).any(|position| position.done)
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

    /// Takes a message. One that was taken before is passed over.
    ///
    /// # Errors
    /// The file cannot be written: the job is lost.
    pub(super) fn offer(&mut self, record: &Record<'_>) -> Result<(), NexusError> {
        let drains_at = self.drains_at_ms();
        let Some(position) = self.position(record.topic, record.partition) else { return Ok(()) };
        if position.next.is_some_and(|next| record.offset < next) {
            return Ok(());
        }
        position.next = Some(record.offset.saturating_add(1));
        position.seen_ms = position.seen_ms.max(record.timestamp_ms);
        if drains_at.is_some_and(|at| record.timestamp_ms.is_some_and(|time| time > at)) {
            position.done = true;
        }
        let done = position.done;
        self.moved = true;
        self.count(WriteCounter::In);
        if done {
            self.count(WriteCounter::AfterStop);
            return Ok(());
        }
        self.route(record)
    }

    fn route(&mut self, record: &Record<'_>) -> Result<(), NexusError> {
        let schema = match schema_of(record.value) {
            Ok(schema) => schema,
            Err(refused) => {
                self.refuse(WriteCounter::refused(&refused));
                return Ok(());
            }
        };
        let routes = self.routes.get(record.topic).and_then(|routes| routes.get(&schema));
        let Some(sources) = routes else {
            self.count(WriteCounter::NotAsked);
            return Ok(());
        };
        let seen = match read(schema, record.value) {
            Ok(seen) => seen,
            Err(counter) => {
                self.refuse(counter);
                return Ok(());
            }
        };
        let Some(streams) = sources.get(source(&seen)) else {
            self.count(WriteCounter::NotAsked);
            return Ok(());
        };
        // Few: the same source in two groups is rare.
        let streams = streams.clone();
        let time = time_ns(&seen);
        if time < ns(self.order.start_ms) {
            for &i in &streams {
                let stream = &mut self.streams[i];
                if stream.carries && !stream.begun {
                    stream.carried = Some(record.value.to_vec());
                }
            }
            self.count(WriteCounter::BeforeStart);
            return Ok(());
        }
        if self.stop_ms.is_some_and(|stop| time > ns(stop)) {
            for &i in &streams {
                self.streams[i].ended = true;
            }
            self.count(WriteCounter::AfterStop);
            return Ok(());
        }
        let mut unfit = None;
        for &i in &streams {
            self.carry_in(i)?;
            self.streams[i].begun = true;
            if let Fate::Unfit(reason) = self.put(i, &seen)? {
                unfit = Some(reason);
            }
        }
        match unfit {
            None => self.count(WriteCounter::of(schema)),
            Some(Unfit::Shape) => self.refuse(WriteCounter::Shape),
            Some(Unfit::Range) => self.refuse(WriteCounter::Range),
        }
        Ok(())
    }

    fn put(&mut self, stream: usize, seen: &Seen<'_>) -> Result<Fate, NexusError> {
        match self.file.write(stream, seen) {
            Ok(()) => Ok(Fate::Written),
            Err(Stopped::Unfit(reason)) => Ok(Fate::Unfit(reason)),
            Err(Stopped::Hdf5(error)) => Err(hdf5_error(&self.order.path, "write")(error)),
        }
    }

    /// Writes the last value from before the start, if there is one and it is not written yet.
    fn carry_in(&mut self, stream: usize) -> Result<(), NexusError> {
        let Some(value) = self.streams[stream].carried.take() else { return Ok(()) };
        let read = schema_of(&value).ok().and_then(|schema| read(schema, &value).ok());
        if let Some(seen) = read
            && matches!(self.put(stream, &seen)?, Fate::Written)
        {
            self.count(WriteCounter::CarriedIn);
        }
        Ok(())
    }

    /// Events that are in the file, but not yet flushed.
    pub(super) fn waiting(&self) -> u64 {
        let events = self.file.events();
        events.taken - events.committed
    }

    /// Brings the counters of events up to date.
    fn account(&mut self) {
        let (now, was) = (self.file.events(), self.reported);
        let outside = now.outside_pixels - was.outside_pixels;
        let range = now.offset_range - was.offset_range;
        let before = now.before_1970 - was.before_1970;
        let add = |counter: WriteCounter, n: u64| self.sheet.add(counter as usize, n);
        add(WriteCounter::EventsIn, now.taken - was.taken + outside + range + before);
        add(WriteCounter::Events, now.committed - was.committed);
        add(WriteCounter::OutsidePixels, outside);
        add(WriteCounter::OffsetRange, range);
        add(WriteCounter::Before1970, before);
        self.reported = now;
    }

    /// The file is lost from here on: what was not flushed is counted.
    pub(super) fn give_up(mut self, error: FlushError) -> Box<Lost> {
        self.account();
        self.sheet.add(WriteCounter::Unwritten as usize, self.waiting());
        let closed = self.file.give_up();
        Box::new(Lost { order: self.order, rows: self.rows, closed, error })
    }

    /// True if it is time to flush.
    pub(super) fn is_due(&self, now_ms: u64, interval_ms: u64) -> bool {
        now_ms.saturating_sub(self.flushed_ms) >= interval_ms || self.file.urgent()
    }

    /// Flushes the file, then writes down where the job is.
    pub(super) fn flush(&mut self, now_ms: u64, journals: &Journals) -> Result<(), FlushError> {
        self.flushed_ms = now_ms;
        if let Some(rows) = self.file.commit()? {
            self.rows = rows;
            self.moved = true;
            self.count(WriteCounter::Flushes);
        }
        self.account();
        if self.moved {
            journals.advance(&self.order.job_id, &self.progress(now_ms))?;
            self.moved = false;
        }
        Ok(())
    }

    fn progress(&self, now_ms: u64) -> Progress {
        let numbers = |keep: fn(&Stream) -> bool| {
            self.streams.iter().enumerate().filter(|(_, s)| keep(s)).map(|(i, _)| i).collect()
        };
        let (mut next, mut seen) = (Vec::new(), Vec::new());
        for (topic, all) in &self.positions {
            for (&partition, position) in all {
                seen.extend(position.seen_ms.map(|ms| (topic.clone(), partition, ms)));
                if let Some(offset) = position.next {
                    next.push(Spot { topic: topic.clone(), partition, offset });
                }
            }
        }
        let carried = self.streams.iter().enumerate();
        let carried = carried.filter_map(|(i, s)| Some((i, to_hex(s.carried.as_ref()?))));
        Progress {
            stop_ms: self.stop_ms,
            commands: self.commands.clone(),
            heard_ms: now_ms,
            next,
            seen,
            anew: self.anew.clone(),
            rows: self.rows.clone(),
            begun: numbers(|s| s.begun),
            ended: numbers(|s| s.ended),
            carried: carried.collect(),
            refused: self.refused,
            gone: self.gone,
        }
    }

    /// Events of each group, as the end of a run reports them.
    fn events_by_group(&self) -> Map<String, Value> {
        let groups = self.streams.iter().zip(self.file.events_by_stream());
        groups.filter_map(|(stream, n)| Some((stream.group.clone(), n?.into()))).collect()
    }

    /// Completes the file. Gives its path and what is to be said of it.
    pub(super) fn finish(mut self, end_ms: u64) -> Result<(PathBuf, Value), Box<Lost>> {
        let carried = (0..self.streams.len()).try_for_each(|i| self.carry_in(i));
        let committed = carried.and_then(|()| self.file.commit());
        match committed {
            Err(error) => return Err(self.give_up(error.into())),
            Ok(Some(rows)) => self.rows = rows,
            Ok(None) => {}
        }
        self.account();
        let facts = json!({
            "path": self.order.path.display().to_string(),
            "start_time": self.order.start_ms,
            "stop_time": end_ms,
            "events": self.events_by_group(),
            "events_rejected": {
                "outside_pixels": self.reported.outside_pixels,
                "offset_range": self.reported.offset_range,
                "before_1970": self.reported.before_1970,
            },
            "messages_refused": self.refused,
            "messages_gone": self.gone,
        });
        let Job { mut file, refused, gone, order, rows, .. } = self;
        // Everything is committed: what can still fail are the closing rows.
        match file.close(ns(end_ms), refused, gone) {
            Ok(path) => Ok((path, facts)),
            Err(error) => {
                let closed = file.give_up();
                Err(Box::new(Lost { order, rows, closed, error: error.into() }))
            }
        }
    }
}

/// What is left of a job whose file cannot be written.
#[derive(Debug)]
pub(super) struct Lost {
    pub(super) order: Order,
    /// Up to where the file is good.
    pub(super) rows: RowCounts,
    /// HDF5 has let go of it.
    pub(super) closed: bool,
    pub(super) error: FlushError,
}

/// ns since 1970 of ms since 1970.
pub(super) fn ns(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX).saturating_mul(1_000_000)
}

fn schema_of(value: &[u8]) -> Result<Schema, Refused> {
    let (Some(_), Some(&[a, b, c, d])) = (value.first_chunk::<8>(), value.get(4..8)) else {
        return Err(Refused::TooShort { bytes: value.len() });
    };
    let identifier = [a, b, c, d];
    Schema::of(identifier).ok_or(Refused::UnknownSchema { identifier })
}

fn read(schema: Schema, value: &[u8]) -> Result<Seen<'_>, WriteCounter> {
    let events = match schema {
        Schema::Ev44 => EventView::ev44(value),
        Schema::Ev42 => EventView::ev42(value),
        _ => {
            let message = decode(value).map_err(|refused| WriteCounter::refused(&refused))?;
            return Ok(Seen::Other(message));
        }
    };
    events.map(Seen::Events).map_err(|refused| match refused {
        EventRefused::Refused(refused) => WriteCounter::refused(&refused),
        EventRefused::Fault(_) => WriteCounter::Contradictory,
    })
}

/// The source name of a message; empty where it has none.
fn source<'a>(seen: &'a Seen<'_>) -> &'a str {
    match seen {
        Seen::Events(view) => view.source_name,
        Seen::Other(message) => match message {
            Message::F144(m) => m.source_name,
            Message::F142(m) => m.source_name.unwrap_or(""),
            Message::Da00(m) => m.source_name,
            Message::Hs01(m) => m.source.unwrap_or(""),
            Message::Al00(m) => m.source_name.unwrap_or(""),
            Message::Ep01(m) => m.source_name,
            Message::Se00(m) => m.name,
            Message::Tdct(m) => m.name,
            Message::Ad00(m) => m.source_name,
            _ => "",
        },
    }
}

/// The time of a message, ns since 1970.
fn time_ns(seen: &Seen<'_>) -> i64 {
    let unsigned = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    match seen {
        Seen::Events(view) => view.time(),
        Seen::Other(message) => match message {
            Message::F144(m) => m.timestamp,
            Message::F142(m) => unsigned(m.timestamp),
            Message::Da00(m) => m.timestamp,
            Message::Hs01(m) => m.timestamp,
            Message::Al00(m) => m.timestamp,
            Message::Ep01(m) => m.timestamp,
            Message::Se00(m) => m.packet_timestamp,
            Message::Tdct(m) => m.timestamps.first().map_or(0, |&first| unsigned(first)),
            Message::Ad00(m) => m.timestamp,
            _ => 0,
        },
    }
}
