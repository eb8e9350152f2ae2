//! What an earlier writer left: its jobs go on where their journals say.
//!
//! Refuses what [`OrderRefusal`] lists; such a job is reported as failed. Source: `docs/decisions`, write journal.

use std::collections::BTreeMap;

use serde_json::Map;

use super::{Service, Topics, own_texts};
use crate::WriteCounter;
use crate::file::{self, JobFile};
use crate::job::Job;
use crate::journal::{Order, Progress};
use crate::name;
use crate::refusal::OrderRefusal;
use crate::structure::FilePlan;

impl Service {
    pub(super) fn resume(
        &mut self,
        mut order: Order,
        progress: Option<Progress>,
        now_ms: u64,
        topics: &dyn Topics,
    ) {
        let path = name::inside(&self.options.folder, &order.filename);
        let below = || self.options.folder.join(name::without_root(&order.filename));
        order.path = path.unwrap_or_else(|_| below());
        let went_on = progress.is_some();
        // A job that never got as far as a flush may be what ended the writer.
        let spot = order.spot.clone().filter(|_| !went_on);
        if let Some(spot) = &spot {
            match self.suspects.begin(spot, None) {
                Ok(None) => {}
                Ok(Some(_)) => return self.refuse_unbegun(&order),
                Err(error) => self.warn(error.to_string()),
            }
        }
        self.go_on(order, progress, now_ms, topics);
        if let Some(spot) = &spot
            && let Err(error) = self.suspects.end(spot)
        {
            self.warn(error.to_string());
        }
    }

    /// A job that was written down, and ended the writer twice before its file was there: its start is refused.
    fn refuse_unbegun(&mut self, order: &Order) {
        // It came before, to a writer that did not live to count it.
        self.count(WriteCounter::Orders);
        self.count(WriteCounter::OrderSuspect);
        let words = OrderRefusal::Suspect.to_string();
        self.note(format!("job \"{}\" refused: {words}", order.job_id));
        self.warn(format!("{}: left as it is", order.path.display()));
        self.answer_start(&order.control_topic, &order.job_id, 0, Err(OrderRefusal::Suspect));
        self.remember(order, true);
        if let Err(error) = self.journals.put_aside(&order.job_id) {
            self.warn(error.to_string());
        }
    }

    fn go_on(
        &mut self,
        order: Order,
        progress: Option<Progress>,
        now_ms: u64,
        topics: &dyn Topics,
    ) {
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
                self.remember(&order, true);
                self.failed(&order, &format!("cannot go on after a restart: {error}"), Map::new());
                self.warn(format!("{}: left as it is", path.display()));
            }
        }
    }

    fn try_resume(
        &mut self,
        order: &Order,
        progress: Option<Progress>,
        now_ms: u64,
        topics: &dyn Topics,
    ) -> Result<Job, OrderRefusal> {
        let mut plan = self.plan(&order.structure)?;
        if !order.beside {
            plan.only_listed();
        }
        let partitions = self.partitions_again(order, &plan, progress.as_ref(), topics);
        let own = own_texts(order, &plan);
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
        plan: &FilePlan,
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
                self.warn(format!("{path}: topic \"{topic}\" {fault}; asked for again"));
            } else {
                self.warn(format!(
                    "{path}: topic \"{topic}\" {fault}; goes on with its partitions"
                ));
                all.insert(topic.to_owned(), known);
            }
        }
        all
    }
}
