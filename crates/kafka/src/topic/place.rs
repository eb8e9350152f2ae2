//! Where a consumer group stands: committed only once the events of what was read are laid down.
//!
//! A commit that runs ahead of the outputs costs events when the process is killed. So each second the place that was read is
//! noted with the number of its last batch, and committed once that number is safe with all outputs that count
//! ([`PipelineProgress`]). What is killed before the commit is read again by another member: at least once. A commit counts
//! once the broker has confirmed it.
//!
//! A partition that is given up in good order is committed to its last packet: nothing more is read until the last number is safe.
//! What is no longer this member's is never committed; at its end, only what is its own again. Source: `docs/raw.md`, `docs/decisions/0014-partitions-that-move.md`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use fullcount_core::ledger::Sheet;
use fullcount_core::progress::PipelineProgress;
use fullcount_core::source::Position;

use super::{FromTopic, say};
use crate::Consumer;

/// Places on their way; where the output waits for hours, later ones take the place of the last.
const MOST: usize = 64;
/// Looks, one a second, for which a hit may hold the place back alone. Who waits for others is one event in any case; a module
/// that has fallen silent must not hold it back for ever.
const HOLD: u32 = 30;

/// So often, and behind so long a pause, an answer is asked for again that is from before a confirmed commit.
const ASKS: u32 = 10;
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// Who keeps the group's place: the broker, asked through a consumer.
pub(crate) trait Keeper: Send + Sync {
    /// Has these places taken on, soon; [`Keeper::confirmed`] tells when that is done.
    fn commit_soon(&self, next: &Offsets);
    /// Has them taken on at once: waits for the answer.
    fn commit(&self, next: &Offsets) -> Result<(), String>;
    /// The same, for a member that leaves.
    fn commit_last(&self, next: &Offsets) -> Result<(), String>;
    /// What was confirmed since the last call.
    fn confirmed(&self) -> Offsets;
    /// Where the group stands on these partitions; `None`: nobody answers.
    fn stands(&self, partitions: &BTreeSet<i32>) -> Option<Offsets>;
    /// Commits that were refused so far.
    fn refused(&self) -> u64;
}

/// The broker.
pub(crate) struct Broker {
    pub consumer: Arc<Consumer>,
    pub topic: String,
}

impl Broker {
    fn list<'a>(&'a self, next: &Offsets) -> Vec<(&'a str, i32, i64)> {
        next.iter().map(|(p, at)| (self.topic.as_str(), *p, *at)).collect()
    }
}

impl Keeper for Broker {
    fn commit_soon(&self, next: &Offsets) {
        // Refused are partitions only that have gone, which is about to be told.
        let _ = self.consumer.commit_soon(&self.list(next));
    }

    fn commit(&self, next: &Offsets) -> Result<(), String> {
        self.consumer.commit(&self.list(next), true).map_err(|e| e.to_string())
    }

    fn commit_last(&self, next: &Offsets) -> Result<(), String> {
        self.consumer.commit_last(&self.topic, next).map_err(|e| e.to_string())
    }

    fn confirmed(&self) -> Offsets {
        let of_topic = self.consumer.confirmed().into_iter().filter(|(t, ..)| *t == self.topic);
        of_topic.map(|(_, p, at)| (p, at)).collect()
    }

    fn stands(&self, partitions: &BTreeSet<i32>) -> Option<Offsets> {
        let partitions: Vec<i32> = partitions.iter().copied().collect();
        Some(self.consumer.places(&self.topic, &partitions).ok()?.into_iter().collect())
    }

    fn refused(&self) -> u64 {
        self.consumer.commits_refused()
    }
}

/// Next offset by partition.
pub(crate) type Offsets = BTreeMap<i32, i64>;

/// How partitions are given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parting {
    /// All that was read of them is safe.
    Drained,
    /// The time is over: what is safe counts, the rest comes again to the next owner.
    Late,
    /// The group has given them to others already.
    Lost,
}

/// What became of partitions that were given up.
#[derive(Debug, Default)]
pub(crate) struct Parted {
    /// Packets that were read and come again to the next owner.
    pub again: u64,
    /// Why the group's place could not be told.
    pub refused: Option<String>,
}

/// A place that was read.
#[derive(Debug)]
struct Step {
    next: Offsets,
    /// Last batch in front of it.
    batch: u64,
    /// Looks for which the detector has held it back.
    held: u32,
}

/// Places in the order of reading.
#[derive(Debug, Default)]
struct Steps(VecDeque<Step>);

/// What is known of the partitions that are this member's.
#[derive(Debug, Default)]
struct Known {
    steps: Steps,
    /// Where the group stands: where reading began, or the last commit that the broker has confirmed.
    stands: Offsets,
}

impl Known {
    /// Packets of these partitions behind the group's place.
    fn behind(&self, handed: &Offsets, gone: &BTreeSet<i32>) -> u64 {
        let one = |p: &i32| Some(handed.get(p)? - self.stands.get(p)?);
        gone.iter().filter_map(one).map(|n| u64::try_from(n).unwrap_or(0)).sum()
    }

    /// The broker has confirmed these, unless they are somebody else's by now.
    fn confirm(&mut self, confirmed: &Offsets) {
        for (p, at) in confirmed {
            if let Some(stands) = self.stands.get_mut(p) {
                *stands = (*stands).max(*at);
            }
        }
    }

    /// They are somebody else's from now on.
    fn forget(&mut self, gone: &BTreeSet<i32>) {
        self.stands.retain(|p, _| !gone.contains(p));
        for step in &mut self.steps.0 {
            step.next.retain(|p, _| !gone.contains(p));
        }
    }
}

impl Steps {
    /// A look at all, with the present place. What may be committed, where all is safe up to a batch.
    fn look(&mut self, next: &Offsets, batch: u64, safe: u64) -> Option<Offsets> {
        let done = self.safe(safe);
        if self.0.len() == MOST {
            self.0.pop_back();
        }
        self.0.push_back(Step { next: next.clone(), batch, held: 0 });
        done
    }

    /// The last place that is safe; it and those before it go.
    fn safe(&mut self, safe: u64) -> Option<Offsets> {
        let done = self.0.iter().take_while(|step| step.batch <= safe).count();
        self.0.drain(..done).next_back().map(|step| step.next)
    }

    /// True once the detector alone has held the first place back for so many looks.
    fn is_stalled(&mut self, progress: &dyn PipelineProgress) -> bool {
        let Some(first) = self.0.front_mut() else { return false };
        let waits = progress.decoded() >= first.batch && progress.complete() < first.batch;
        first.held = if waits { first.held + 1 } else { 0 };
        let stalled = first.held >= HOLD;
        if stalled {
            first.held = 0;
        }
        stalled
    }
}

/// A member's place in its group.
pub(crate) struct GroupPlace {
    keeper: Box<dyn Keeper>,
    /// With the lines of [`FromTopic`].
    sheet: Arc<Sheet>,
    /// Of a run; nobody else is behind the source who would hold anything back.
    reached: OnceLock<Arc<dyn PipelineProgress>>,
    /// What was handed on, and its last batch, once reading is over.
    last: Mutex<(Offsets, u64)>,
    known: Mutex<Known>,
}

impl GroupPlace {
    pub(crate) fn new(keeper: Box<dyn Keeper>, sheet: Arc<Sheet>) -> GroupPlace {
        let (reached, last, known) = (OnceLock::new(), Mutex::default(), Mutex::default());
        GroupPlace { keeper, sheet, reached, last, known }
    }

    /// All batches up to this one are safe.
    pub(crate) fn safe(&self) -> u64 {
        self.reached.get().map_or(u64::MAX, |reached| reached.safe())
    }

    /// The first packet of a partition has this offset.
    pub(crate) fn begins(&self, partition: i32, offset: i64) {
        self.known.lock().expect("no holder panics").stands.insert(partition, offset);
    }

    /// Partitions go: the group's place is told as far as it is safe. `handed`: what was handed on of all.
    pub(crate) fn part(&self, handed: &Offsets, gone: &BTreeSet<i32>, how: Parting) -> Parted {
        let mut known = self.known.lock().expect("no holder panics");
        known.confirm(&self.keeper.confirmed());
        let safe = match how {
            Parting::Drained => Some(handed.clone()),
            Parting::Late => Some(known.steps.safe(self.safe()).unwrap_or_default()),
            // What was sent and not confirmed counts as not taken on: its next owner may have begun in front of it.
            Parting::Lost => None,
        };
        let refused = safe.and_then(|mut safe| {
            safe.retain(|p, _| gone.contains(p));
            let committed = self.keeper.commit(&safe);
            self.hear(&mut known, &safe, gone, committed)
        });
        let again = known.behind(handed, gone);
        known.forget(gone);
        self.count(again);
        Parted { again, refused }
    }

    /// The answer to a commit of these places: looks where the group really stands. Why they were refused.
    fn hear(
        &self,
        known: &mut Known,
        next: &Offsets,
        of: &BTreeSet<i32>,
        committed: Result<(), String>,
    ) -> Option<String> {
        let refused = match committed {
            Ok(()) => {
                known.confirm(next);
                None
            }
            Err(why) => Some(why),
        };
        // Of several partitions one may have been refused, and what was sent before may have arrived: the broker knows.
        let ask = || if of.is_empty() { None } else { self.keeper.stands(of) };
        let mut asked = ask();
        // While others join or leave, an answer may be from before a commit that was confirmed.
        let confirmed = refused.is_none();
        for _ in 0..ASKS {
            let is_old = |asked: &Offsets| next.iter().any(|(p, at)| asked.get(p) < Some(at));
            if !confirmed || !asked.as_ref().is_some_and(is_old) {
                break;
            }
            std::thread::sleep(ASK_AGAIN);
            asked = ask();
        }
        known.stands.extend(asked.unwrap_or_default());
        refused
    }

    fn count(&self, again: u64) {
        self.sheet.add(FromTopic::Again as usize, again);
        self.sheet.set(FromTopic::CommitsRefused as usize, self.keeper.refused());
        if let Some(reached) = self.reached.get() {
            self.sheet.set(FromTopic::Cut as usize, reached.cut());
        }
    }

    /// About once a second, between two batches: what was handed on so far, and the last batch.
    pub(crate) fn look(&self, next: &Offsets, batch: u64) {
        let mut known = self.known.lock().expect("no holder panics");
        known.confirm(&self.keeper.confirmed());
        if let Some(safe) = known.steps.look(next, batch, self.safe()) {
            self.keeper.commit_soon(&safe);
        }
        self.count(0);
    }

    /// Behind a look: true if the detector is to decide on hits that would hold the place back for ever.
    pub(crate) fn is_stalled(&self) -> bool {
        let mut known = self.known.lock().expect("no holder panics");
        self.reached.get().is_some_and(|reached| known.steps.is_stalled(&**reached))
    }

    /// Reading is over.
    pub(crate) fn over(&self, next: &Offsets, batch: u64) {
        *self.last.lock().expect("no holder panics") = (next.clone(), batch);
        if self.reached.get().is_none() {
            self.finish();
        }
    }

    /// `last` was read, and `safe` of it is safe.
    fn end(&self, last: &Offsets, safe: &Offsets, why: &str) {
        let mut known = self.known.lock().expect("no holder panics");
        known.confirm(&self.keeper.confirmed());
        let all = last.keys().copied().collect();
        let committed = self.keeper.commit_last(safe);
        let refused = self.hear(&mut known, safe, &all, committed);
        let again = known.behind(last, &all);
        self.count(again);
        if again > 0 {
            say(&again_later(again, refused.as_deref().unwrap_or(why)));
        }
    }
}

impl Position for GroupPlace {
    fn follow(&self, progress: Arc<dyn PipelineProgress>) {
        let _ = self.reached.set(progress);
    }

    fn finish(&self) {
        let (last, batch) = self.last.lock().expect("no holder panics").clone();
        let safe = self.safe();
        if safe >= batch {
            return self.end(
                &last,
                &last,
                "the group's place is behind what the broker had confirmed",
            );
        }
        let mut known = self.known.lock().expect("no holder panics");
        let part = known.steps.safe(safe).unwrap_or_default();
        drop(known);
        self.end(&last, &part, "their events were not made, or were dropped here");
    }
}

/// For people: packets whose events may be there twice.
pub(crate) fn again_later(packets: u64, why: &str) -> String {
    format!(
        "{packets} packets that were read come again to the next member of the group, and their events may be there twice: {why}"
    )
}

#[cfg(test)]
#[path = "place_tests.rs"]
mod tests;
