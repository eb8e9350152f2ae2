//! Ends of jobs: complete, kept for the next start, or given up; and what is said of each.
//!
//! Source: `docs/write.md`, "A run".

use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

use super::Service;
use crate::WriteCounter;
use crate::dealt::Entry;
use crate::file::LeftOpen;
use crate::job::{FlushError, Lost};
use crate::journal::Order;
use fullcount_nexus::NexusError;

/// Streams that are named with what is wrong with them; metadata have all.
const NAMED: usize = 4;

impl Service {
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

    /// The id of a job stays taken, also where a kill came before its order was remembered, but for one whose file was
    /// given up: its run may be written again.
    pub(super) fn remember(&mut self, order: &Order, given_up: bool) {
        let Some(spot) = order.spot.clone() else { return };
        if !given_up && self.dealt.ran(&order.job_id) {
            return;
        }
        let job_id = order.job_id.clone();
        let entry = Entry { spot, job_id, command: None, start: true, obeyed: true, given_up };
        if let Err(error) = self.dealt.add(entry) {
            self.warn(error.to_string());
        }
    }

    pub(super) fn finish(&mut self, id: &str, now_ms: u64, early: Option<&str>) {
        let Some(job) = self.jobs.remove(id) else { return };
        let end_ms = job.stop_ms().filter(|_| early.is_none()).unwrap_or(now_ms);
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
        let (outside, about_outside) = (job.outside().len() as u64, first_few(job.outside_words()));
        let words = early.chain(missing).chain(deleted).chain(anew).chain(about_outside);
        let words = words.collect::<Vec<String>>().join("; ");
        self.remember(job.order(), false);
        match job.finish(end_ms) {
            Err(lost) => self.report_lost(*lost),
            Ok((path, order, facts)) => {
                let fault = (!words.is_empty()).then_some(&*words);
                // Kept first: a kill in between completes the file again, and says so again.
                self.say_finished(&order, &facts, fault);
                if let Err(error) = self.journals.end(id) {
                    self.warn(format!("{}: complete, but {error}", path.display()));
                }
                if self.options.read_only
                    && let Err(error) = take_write_permission(&path)
                {
                    self.warn(format!("{}: cannot be made read-only: {error}", path.display()));
                }
                self.count(WriteCounter::Finished);
                self.sheet.add(WriteCounter::Outside as usize, outside);
                match fault {
                    None => self.note(format!("{}: complete", path.display())),
                    Some(fault) => self.warn(format!("{}: {fault}", path.display())),
                }
                self.files.push(facts);
            }
        }
    }

    pub(super) fn lose(&mut self, id: &str, error: FlushError) {
        let Some(job) = self.jobs.remove(id) else { return };
        self.report_lost(*job.give_up(error));
    }

    /// The file of a job cannot be written any more: what was flushed is made readable, and what is not in it is said.
    fn report_lost(&mut self, lost: Lost) {
        let not = |doing: &str, message: &str| {
            let path = lost.order.path.clone();
            Err(NexusError::Hdf5 { path, doing: doing.into(), message: message.into() })
        };
        let cut = match lost.left {
            LeftOpen::Closed => fullcount_nexus::cut(&lost.order.path, &lost.rows),
            LeftOpen::Open => not("close the file", "until this writer ends"),
            LeftOpen::Away => not("cut the file", "another one stands there"),
        };
        let (words, facts) = (lost.words(&cut), lost.facts(&cut));
        self.remember(&lost.order, true);
        self.failed(&lost.order, &words, facts);
    }

    pub(super) fn failed(&mut self, order: &Order, words: &str, mut facts: Map<String, Value>) {
        self.count(WriteCounter::Failed);
        self.warn(format!("{}: {words}", order.path.display()));
        facts.insert("path".into(), order.path.display().to_string().into());
        facts.insert("failure".into(), words.into());
        let facts = Value::Object(facts);
        self.say_finished(order, &facts, Some(words));
        if let Err(error) = self.journals.put_aside(&order.job_id) {
            self.warn(error.to_string());
        }
        self.files.push(facts);
    }
}

/// As many of them as a line has room for, and how many more there are.
pub(super) fn first_few(mut words: Vec<String>) -> Vec<String> {
    if let more @ 1.. = words.len().saturating_sub(NAMED) {
        words.truncate(NAMED);
        words.push(format!("{more} more streams are outside the run too"));
    }
    words
}

fn take_write_permission(path: &Path) -> std::io::Result<()> {
    let mut permissions = fs::metadata(path)?.permissions();
    permissions.set_readonly(true);
    fs::set_permissions(path, permissions)
}
