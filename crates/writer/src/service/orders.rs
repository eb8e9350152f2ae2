//! Orders: what is obeyed, what is refused, and what came again.
//!
//! "Now" in an order is the moment when it was sent, which is its Kafka time: an order may wait for a writer that was
//! killed, or in the pool. Each order is dealt with once, and its answer is kept before that is written down.
//! Refuses what [`OrderRefusal`] lists.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;

use super::super::dealt::Entry;
use super::super::file::{JobFile, remove_unwritten};
use super::super::job::{Job, TopicRecord, ns};
use super::super::journal::{FORMAT, JournalError, MessageSpot, Order, Progress};
use super::super::name;
use super::super::refusal::OrderRefusal;
use super::super::salvage::salvage;
use super::super::structure::FilePlan;
use super::super::suspect::{Noted, digest};
use super::super::template;
use super::answers::started;
use super::{Early, ID, NO_STOP_MS, REMEMBERED, Service, TopicFault, Topics, own_texts};
use crate::WriteCounter;
use fullcount_core::text::is_control;
use fullcount_messages::{Message, RunStart, RunStop, decode};
use fullcount_nexus::NexusError;

/// One order: where it stood, when it was sent, when it is read.
#[derive(Debug, Clone)]
pub(super) struct Heard {
    pub(super) spot: MessageSpot,
    /// ms since 1970; that of reading if Kafka has no time for it.
    pub(super) sent_ms: u64,
    pub(super) now_ms: u64,
}

impl Service {
    /// A message of the job pool or of a control topic.
    pub fn order(&mut self, record: &TopicRecord<'_>, now_ms: u64, topics: &dyn Topics) {
        self.count(WriteCounter::Orders);
        // A clock that is ahead does not make "now" later than the moment of reading.
        let sent_ms = record.timestamp_ms.filter(|&ms| ms > 0).map_or(now_ms, |ms| ms.min(now_ms));
        let (topic, partition) = (record.topic.to_owned(), record.partition);
        let spot = MessageSpot { topic, partition, offset: record.offset };
        let heard = Heard { spot, sent_ms, now_ms };
        if record.value.get(4..8) != Some(b"pl72") {
            return self.read(record.value, &heard, topics);
        }
        // A start can be anything: it is noted that it is being read.
        match self.suspects.begin(&heard.spot, Some(digest(record.value))) {
            Ok(None) => {}
            Ok(Some(noted)) => return self.suspect(&noted, &heard),
            Err(error) => return self.unnoted(record.value, &heard, error),
        }
        self.read(record.value, &heard, topics);
        if let Err(error) = self.suspects.end(&heard.spot) {
            self.warn(error.to_string());
        }
    }

    /// A start that cannot be noted is refused. Of it only the message is read, whose size bounds what that takes.
    fn unnoted(&mut self, value: &[u8], heard: &Heard, error: JournalError) {
        let Ok(Message::Pl72(start)) = decode(value) else {
            self.count(WriteCounter::OrderFile);
            return self.answer_broken(&heard.spot, true, &error.to_string());
        };
        if self.is_for_another(start.service_id) {
            return self.count(WriteCounter::OthersOrder);
        }
        let job_id = name::one_line(start.job_id.unwrap_or(""), ID);
        if self.is_echo(&start, &job_id, heard) {
            return self.count(WriteCounter::OrderEcho);
        }
        self.count(WriteCounter::OrderFile);
        let control = self.control_of(&start, heard);
        self.answer_start(&control, &job_id, 0, Err(OrderRefusal::Journal(error)));
    }

    /// Where a start is answered.
    fn control_of(&self, start: &RunStart<'_>, heard: &Heard) -> String {
        let control = start.control_topic.filter(|topic| name::is_topic(topic));
        let control = control.map(str::to_owned).or_else(|| self.options.control_topic.clone());
        control.unwrap_or_else(|| heard.spot.topic.clone())
    }

    /// An order that ended the writer twice: it is answered once, and not read.
    fn suspect(&mut self, noted: &Noted, heard: &Heard) {
        let job_id = noted.job_id.as_deref().unwrap_or("");
        if self.dealt.again(&heard.spot, job_id, None) {
            return self.count(WriteCounter::OrderAgain);
        }
        self.count(WriteCounter::OrderSuspect);
        match &noted.control {
            Some(control) => {
                self.note(format!("job \"{job_id}\" refused: {}", OrderRefusal::Suspect));
                self.answer_start(control, job_id, 0, Err(OrderRefusal::Suspect));
            }
            None => self.answer_broken(&heard.spot, true, &OrderRefusal::Suspect.to_string()),
        }
        self.dealt(heard, job_id, None, (true, false));
    }

    fn read(&mut self, value: &[u8], heard: &Heard, topics: &dyn Topics) {
        let message = match decode(value) {
            Ok(message) => message,
            Err(error) => {
                let schema = value.get(4..8);
                let ours = schema.is_some_and(|id| id == b"pl72" || id == b"6s4t");
                if !ours {
                    return self.count(WriteCounter::OthersOrder);
                }
                let start = schema == Some(b"pl72");
                if start && self.is_for_another(salvage(value).service_id) {
                    return self.count(WriteCounter::OthersOrder);
                }
                self.count(WriteCounter::OrderBroken);
                return match start {
                    true => self.answer_broken_start(&heard.spot, value, &error.to_string()),
                    false => self.answer_broken(&heard.spot, false, &error.to_string()),
                };
            }
        };
        match message {
            Message::Pl72(start) => self.start(&start, value, heard, topics),
            Message::S6s4t(stop) => {
                // Both are remembered: what is no id is not remembered as it is.
                let short = |id: Option<&str>| id.map(|id| name::one_line(id, ID));
                let (job_id, command_id) = (short(stop.job_id), short(stop.command_id));
                let (job_id, command_id) = (job_id.as_deref(), command_id.as_deref());
                self.stop(&RunStop { job_id, command_id, ..stop }, heard);
            }
            _ => self.count(WriteCounter::OthersOrder),
        }
    }

    fn is_for_another(&self, service_id: Option<&str>) -> bool {
        service_id.is_some_and(|id| !id.is_empty() && id != self.options.service_id)
    }

    /// Remembers an order whose answer is kept.
    fn dealt(&mut self, heard: &Heard, job_id: &str, command: Option<&str>, how: (bool, bool)) {
        let (start, obeyed) = how;
        let command = command.map(str::to_owned);
        let (spot, job_id) = (heard.spot.clone(), job_id.to_owned());
        let entry = Entry { spot, job_id, command, start, obeyed, given_up: false };
        if let Err(error) = self.dealt.add(entry) {
            self.warn(error.to_string());
        }
    }

    /// `order`: the message itself.
    fn start(&mut self, start: &RunStart<'_>, order: &[u8], heard: &Heard, topics: &dyn Topics) {
        if self.is_for_another(start.service_id) {
            return self.count(WriteCounter::OthersOrder);
        }
        // What is no id is refused, and neither remembered nor answered as it is.
        let job_id = &name::one_line(start.job_id.unwrap_or(""), ID)[..];
        if self.dealt.again(&heard.spot, job_id, None) {
            return self.count(WriteCounter::OrderAgain);
        }
        if self.is_echo(start, job_id, heard) {
            return self.count(WriteCounter::OrderEcho);
        }
        let control = self.control_of(start, heard);
        if let Some(job) = self.jobs.get(job_id)
            && job.spot() == Some(&heard.spot)
        {
            // Killed between writing the job down and keeping its answer.
            let stop = job.stop_ms().unwrap_or(NO_STOP_MS);
            let words = started(job.warnings());
            self.count(WriteCounter::OrderAgain);
            self.echo(start, order, heard);
            self.answer_start(&control, job_id, stop, Ok(words));
            return self.dealt(heard, job_id, None, (true, true));
        }
        self.suspects.learn(&heard.spot, job_id, &control);
        match self.take(start, heard, &control, topics) {
            Ok(mut job) => {
                self.count(WriteCounter::Started);
                let early = self.early.iter().rev().find(|early| early.job_id == job_id).cloned();
                let early = early.filter(|early| early.asked_ms >= job.start_ms());
                if let Some(early) = &early {
                    // Written down with the next flush; a kill before it reads both messages again.
                    let asked = early.asked_ms;
                    job.set_stop((asked < NO_STOP_MS).then_some(asked), early.command.as_deref());
                }
                let stop = job.stop_ms().unwrap_or(NO_STOP_MS);
                let words = started(job.warnings());
                let odd = words.strip_prefix("job started").unwrap_or_default();
                self.note(format!("{}: job {job_id} started{odd}", job.path().display()));
                self.jobs.insert(job_id.to_owned(), job);
                self.echo(start, order, heard);
                self.answer_start(&control, job_id, stop, Ok(words));
                if let Some(early) = early {
                    // Nothing was said of it when it came: it could have been another writer's.
                    let stop = RunStop {
                        stop_time: early.asked_ms,
                        run_name: None,
                        job_id: Some(job_id),
                        service_id: None,
                        command_id: early.command.as_deref(),
                    };
                    self.answer_stop(&control, &stop, early.asked_ms, Ok(None));
                }
                self.dealt(heard, job_id, None, (true, true));
                self.beat_ms = None;
            }
            Err(refusal) => {
                self.count(refusal.counter());
                self.note(format!("job \"{job_id}\" refused: {refusal}"));
                let heard_at = match refusal {
                    // Nobody hears it there.
                    OrderRefusal::Unheard { .. } => {
                        let own = self.options.control_topic.clone();
                        own.unwrap_or_else(|| heard.spot.topic.clone())
                    }
                    _ => control,
                };
                self.answer_start(&heard_at, job_id, start.stop_time, Err(refusal));
                self.dealt(heard, job_id, None, (true, false));
            }
        }
    }

    fn take(
        &mut self,
        start: &RunStart<'_>,
        heard: &Heard,
        control: &str,
        topics: &dyn Topics,
    ) -> Result<Job, OrderRefusal> {
        let missing = |field, why: &str| OrderRefusal::Field { field, why: why.to_owned() };
        let job_id = start.job_id.filter(|id| !id.is_empty());
        let job_id = job_id.ok_or_else(|| missing("job_id", "is missing; a UUID as text"))?;
        if !name::is_job_id(job_id) {
            let why = "1 to 128 letters, digits, '-', '_' and '.', as a UUID has";
            return Err(missing("job_id", why));
        }
        let twice = |state| Err(OrderRefusal::Twice { job: job_id.to_owned(), state });
        if self.jobs.contains_key(job_id) {
            return twice("runs here");
        }
        if self.dealt.ran(job_id) {
            return twice("ran here");
        }
        if !self.has_room() {
            return Err(OrderRefusal::Full(self.jobs.len()));
        }
        if let Some(topic) = start.control_topic.filter(|t| !t.is_empty() && !name::is_topic(t)) {
            let topic = name::one_line(topic, ID);
            let why = format!("\"{topic}\" is no name of a topic");
            return Err(OrderRefusal::Field { field: "control_topic", why });
        }
        self.heard(start, heard, topics)?;
        texts(start, self.options.limits.constant)?;
        let (start_ms, stop_ms) = times(start, heard.sent_ms)?;
        let filename = start.filename.filter(|name| !name.is_empty());
        let filename = filename.ok_or_else(|| missing("filename", "is missing"))?;
        let path = name::inside(&self.options.folder, filename)
            .map_err(|why| OrderRefusal::Path { name: name::one_line(filename, 1024), why })?;
        if path.exists() {
            return Err(OrderRefusal::Exists(path));
        }
        let (template, structure) = self.structure(start)?;
        let plan = self.plan(&structure)?;
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
            structure,
            template,
            metadata: text(start.metadata),
            run_name: text(start.run_name),
            instrument_name: text(start.instrument_name),
            spot: Some(heard.spot.clone()),
            beside: true,
        };
        self.journals.begin(&order)?;
        let id = order.job_id.clone();
        let made = self.make(order, &plan, &partitions, heard.now_ms);
        if made.is_err() {
            // Nothing was written; a journal would make the job begin at the next start.
            self.journals.end(&id)?;
        }
        made
    }

    /// Refuses a start whose control topic is not there: nobody would hear of its run, and no stop would reach it.
    fn heard(
        &self,
        start: &RunStart<'_>,
        heard: &Heard,
        topics: &dyn Topics,
    ) -> Result<(), OrderRefusal> {
        let known = |topic: &&str| {
            !topic.is_empty()
                && *topic != heard.spot.topic
                && self.options.control_topic.as_deref() != Some(*topic)
        };
        let Some(topic) = start.control_topic.filter(known) else { return Ok(()) };
        topics.talk(topic).map_err(|fault| OrderRefusal::Unheard {
            topic: topic.to_owned(),
            broker: matches!(fault, TopicFault::Broker(_)),
            why: match fault {
                TopicFault::Missing => {
                    "is not on the broker, which makes none by itself; create it".into()
                }
                fault => fault.to_string(),
            },
        })
    }

    /// The structure of a start: its own, else the template of its instrument, with the file of that.
    fn structure(&self, start: &RunStart<'_>) -> Result<(Option<PathBuf>, String), OrderRefusal> {
        let filled = |text: &&str| !text.trim().is_empty();
        if let Some(own) = start.nexus_structure.filter(filled) {
            return Ok((None, own.to_owned()));
        }
        let Some(instrument) = start.instrument_name.filter(filled) else {
            let why = "is missing; JSON as text, or an instrument_name that has a template";
            return Err(OrderRefusal::Field { field: "nexus_structure", why: why.to_owned() });
        };
        let (folder, limits) = (self.options.templates.as_deref(), &self.options.limits);
        let (path, text) = template::of(folder, instrument, limits.bytes)?;
        Ok((Some(path), text))
    }

    fn make(
        &self,
        order: Order,
        plan: &FilePlan,
        partitions: &BTreeMap<String, Vec<i32>>,
        now_ms: u64,
    ) -> Result<Job, OrderRefusal> {
        let own = own_texts(&order, plan);
        let made = JobFile::create(&order.path, plan, &self.about(&order, &own));
        let file = made.map_err(|error| match error {
            // Another writer was faster.
            NexusError::Io { source, .. } if source.kind() == ErrorKind::AlreadyExists => {
                OrderRefusal::Exists(order.path.clone())
            }
            error => OrderRefusal::File(error),
        })?;
        let progress = Progress { stop_ms: order.stop_ms, ..Progress::default() };
        let (path, id) = (order.path.clone(), order.job_id.clone());
        self.with_file(order, progress, file, plan, partitions, now_ms).inspect_err(|_| {
            // Else the order could not be given again: the file would be there. That it stays is said by that answer.
            let _ = remove_unwritten(&path, &id);
        })
    }

    fn stop(&mut self, stop: &RunStop<'_>, heard: &Heard) {
        if self.is_for_another(stop.service_id) {
            return self.count(WriteCounter::OthersOrder);
        }
        let job_id = stop.job_id.unwrap_or("");
        let command = stop.command_id.filter(|id| !id.is_empty());
        if self.dealt.again(&heard.spot, job_id, Some(command.unwrap_or(""))) {
            return self.count(WriteCounter::OrderAgain);
        }
        let mut asked = match stop.stop_time {
            0 => heard.sent_ms,
            time => time,
        };
        let leeway = self.options.leeway.as_millis() as u64;
        let Some(job) = self.jobs.get(job_id) else {
            return self.stop_of_none(stop, heard, asked);
        };
        let control = job.control_topic().to_owned();
        if command.is_some_and(|command| job.knows(command)) {
            self.count(WriteCounter::OrderAgain);
            self.answer_stop(&control, stop, asked, Ok(None));
            return self.dealt_stop(stop, heard, true);
        }
        if stop.stop_time == 0 && asked < job.start_ms() && asked + leeway >= job.start_ms() {
            // The clock of who starts runs is ahead of that of who stops them.
            asked = job.start_ms();
        }
        let known = command.is_none_or(|command| command.len() <= ID);
        let outcome = match known {
            true => allowed(job, asked, heard.sent_ms, leeway),
            false => {
                Err(OrderRefusal::Field { field: "command_id", why: format!("above {ID} bytes") })
            }
        };
        let obeyed = outcome.is_ok();
        let (mut lost, mut behind, mut unread) = (None, None, None);
        if obeyed && let Some(job) = self.jobs.get_mut(job_id) {
            job.set_stop((asked < NO_STOP_MS).then_some(asked), command);
            match job.flush(heard.now_ms, &self.journals) {
                Ok(()) => match job.stop_ms().map(|stop| job.behind(ns(stop))).transpose() {
                    Ok(found) => behind = found,
                    Err(error) => unread = Some(error.to_string()),
                },
                Err(error) => lost = Some(error),
            }
            self.beat_ms = None;
        }
        self.count(outcome.as_ref().map_or_else(OrderRefusal::counter, |()| WriteCounter::Stopped));
        unread.into_iter().for_each(|words| self.warn(words));
        self.answer_stop(&control, stop, asked, outcome.map(|()| behind));
        self.dealt_stop(stop, heard, obeyed);
        if let Some(error) = lost {
            self.lose(job_id, error);
        }
    }

    /// A stop of a job that is not here: it is over, or another writer's, or its start is still to come.
    fn stop_of_none(&mut self, stop: &RunStop<'_>, heard: &Heard, asked_ms: u64) {
        let job_id = stop.job_id.unwrap_or("");
        let command = stop.command_id.filter(|id| !id.is_empty());
        let topic = &heard.spot.topic;
        if command.is_some_and(|command| self.dealt.stopped(job_id, command)) {
            self.count(WriteCounter::OrderAgain);
            self.answer_stop(topic, stop, asked_ms, Ok(None));
            return self.dealt_stop(stop, heard, true);
        }
        let named = stop.service_id.is_some_and(|id| id == self.options.service_id);
        if self.options.shared_control && !named && !self.dealt.ran(job_id) {
            // What is not refused holds when its start comes.
            if self.early.len() == REMEMBERED {
                self.early.pop_front();
            }
            let command = command.map(str::to_owned);
            self.early.push_back(Early { job_id: job_id.to_owned(), asked_ms, command });
            return self.count(WriteCounter::OthersOrder);
        }
        let refusal = OrderRefusal::Unknown(job_id.to_owned());
        self.count(refusal.counter());
        self.answer_stop(topic, stop, asked_ms, Err(refusal));
        self.dealt_stop(stop, heard, false);
    }

    fn dealt_stop(&mut self, stop: &RunStop<'_>, heard: &Heard, obeyed: bool) {
        let command = Some(stop.command_id.unwrap_or(""));
        self.dealt(heard, stop.job_id.unwrap_or(""), command, (false, obeyed));
    }
}

/// Bytes of the names of run and instrument.
const NAME: usize = 4096;

/// Refuses texts of an order that are longer than they may be, and names that are more than one line.
fn texts(start: &RunStart<'_>, most: u64) -> Result<(), OrderRefusal> {
    for (field, text) in [("run_name", start.run_name), ("instrument_name", start.instrument_name)]
    {
        let text = text.unwrap_or("");
        if text.len() > NAME || text.contains(is_control) {
            let why =
                format!("at most {NAME} bytes without control characters, such as a new line");
            return Err(OrderRefusal::Field { field, why });
        }
    }
    let bytes = start.metadata.map_or(0, str::len);
    if bytes as u64 > most {
        let why = format!("{bytes} bytes, above the limit of {most}");
        return Err(OrderRefusal::Field { field: "metadata", why });
    }
    Ok(())
}

/// Start and stop of an order, ms since 1970.
fn times(start: &RunStart<'_>, sent_ms: u64) -> Result<(u64, Option<u64>), OrderRefusal> {
    let begin = match start.start_time {
        0 => sent_ms,
        time if time >= NO_STOP_MS => {
            let why = format!("{time} is above {NO_STOP_MS}: milliseconds since 1970 are expected");
            return Err(OrderRefusal::Field { field: "start_time", why });
        }
        time => time,
    };
    match start.stop_time {
        0 | NO_STOP_MS.. => Ok((begin, None)),
        stop if stop <= begin => Err(OrderRefusal::Times { start: begin, stop }),
        stop => Ok((begin, Some(stop))),
    }
}

/// Whether the stop of a job may be set to `asked` by an order of `sent_ms`.
fn allowed(job: &Job, asked: u64, sent_ms: u64, leeway_ms: u64) -> Result<(), OrderRefusal> {
    if asked < job.start_ms() {
        return Err(OrderRefusal::Times { start: job.start_ms(), stop: asked });
    }
    // Clocks differ: a stop that was "now" when it was sent is not in the past. How long it waited for a writer is
    // no matter.
    let ago = sent_ms.saturating_sub(asked);
    if ago > leeway_ms {
        return Err(OrderRefusal::Past { stop: asked, ago });
    }
    match job.stop_ms() {
        Some(stop) if asked > stop && job.is_over() => Err(OrderRefusal::Over { stop }),
        _ => Ok(()),
    }
}

fn partitions(
    plan: &FilePlan,
    topics: &dyn Topics,
) -> Result<BTreeMap<String, Vec<i32>>, OrderRefusal> {
    let each = |topic: &str| match topics.partitions(topic) {
        Ok(all) => Ok((topic.to_owned(), all)),
        Err(fault) => Err(OrderRefusal::Topic {
            topic: topic.to_owned(),
            broker: matches!(fault, TopicFault::Broker(_)),
            why: fault.to_string(),
        }),
    };
    plan.topics().into_iter().map(each).collect()
}
