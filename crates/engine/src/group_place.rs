//! Where a consumer group stands: committed only once the events of what was read are laid down.
//!
//! A commit that runs ahead of the output costs events when the process is killed. So a place that was read takes four
//! steps: its packets have been decoded, no hit of theirs waits for others any more (a mark in the builder has passed,
//! [`crate::settle`]), the events that were made by then are known by number, the Kafka output has
//! so many of them in its spool. Steps are looked at every second. Where there is no Kafka output, a place counts after two looks.
//! What is killed before the commit is read again by another member: at least once. A commit counts once the broker has
//! confirmed it.
//!
//! A partition that is given up in good order is committed to its last packet: nothing more is read meanwhile, the pipeline
//! settles all it has ([`crate::settle`]), and the output lays it down ([`GroupPlace::drained`]). What is no longer this
//! member's is never committed; at its end, only what is its own again. Source: `docs/raw.md`, `docs/decisions/0014-partitions-that-move.md`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

use fullcount_core::ledger::Sheet;
use fullcount_out::kafka::Consumer;

use crate::kafka_source::FromTopic;
use crate::settle::Settle;

/// Places on their way; where the output waits for hours, later ones take the place of the last.
const MOST: usize = 64;

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

/// What a run knows of packets and events on their way.
pub(crate) struct Flow {
    /// Packets that the decoder has taken.
    pub packets: Box<dyn Fn() -> u64 + Send + Sync>,
    /// Events that the output was offered.
    pub offered: Box<dyn Fn() -> u64 + Send + Sync>,
    /// Of these all up to this number are laid down.
    pub landed: Arc<AtomicU64>,
    /// While true, the output lets no event wait for its message to fill.
    pub hurry: Arc<AtomicBool>,
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
    /// Packets up to it.
    packets: u64,
    decoded: bool,
    /// What the builder was asked behind them.
    mark: Option<u64>,
    /// Events up to it, and some more.
    events: Option<u64>,
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
    /// A look at all, with the present place. What may be committed. `settle`: of the pipeline, if there is one.
    fn look(
        &mut self,
        next: &Offsets,
        packets: u64,
        flow: Option<&Flow>,
        settle: Option<&Settle>,
    ) -> Option<Offsets> {
        for step in self.0.iter_mut().filter(|step| step.events.is_none()) {
            if let Some(mark) = step.mark {
                if settle.is_none_or(|settle| settle.passed(mark)) {
                    step.events = Some(flow.map_or(0, |flow| (flow.offered)()));
                }
                continue;
            }
            step.decoded |= flow.is_none_or(|flow| (flow.packets)() >= step.packets);
            if step.decoded {
                step.mark = Some(settle.map_or(0, Settle::mark));
            }
        }
        let safe = self.safe(flow);
        if self.0.len() == MOST {
            self.0.pop_back();
        }
        let (next, decoded, mark, events) = (next.clone(), false, None, None);
        self.0.push_back(Step { next, packets, decoded, mark, events });
        safe
    }

    /// The last place whose events are laid down; it and those before it go.
    fn safe(&mut self, flow: Option<&Flow>) -> Option<Offsets> {
        let landed = flow.map_or(0, |flow| flow.landed.load(Relaxed));
        let safe = self.0.iter().take_while(|step| step.events.is_some_and(|n| n <= landed));
        self.0.drain(..safe.count()).next_back().map(|step| step.next)
    }
}

/// A member's place in its group.
pub struct GroupPlace {
    keeper: Box<dyn Keeper>,
    /// With the lines of [`FromTopic`].
    sheet: Arc<Sheet>,
    flow: OnceLock<Option<Flow>>,
    /// What was handed on, once reading is over.
    last: Mutex<Offsets>,
    known: Mutex<Known>,
    claimed: AtomicBool,
    settle: Arc<Settle>,
}

impl GroupPlace {
    pub(crate) fn new(keeper: Box<dyn Keeper>, sheet: Arc<Sheet>) -> GroupPlace {
        GroupPlace {
            keeper,
            sheet,
            flow: OnceLock::new(),
            last: Mutex::default(),
            known: Mutex::default(),
            claimed: AtomicBool::new(false),
            settle: Arc::default(),
        }
    }

    /// For the pipeline behind the source.
    pub(crate) fn settle(&self) -> Arc<Settle> {
        self.settle.clone()
    }

    fn flow(&self) -> Option<&Flow> {
        self.flow.get().and_then(Option::as_ref)
    }

    /// The first packet of a partition has this offset.
    pub(crate) fn begins(&self, partition: i32, offset: i64) {
        self.known.lock().expect("no holder panics").stands.insert(partition, offset);
    }

    /// Asks that all that was handed on be made events, and these be laid down; the number is for
    /// [`GroupPlace::drained`]. Nothing is handed on until then.
    pub(crate) fn drain(&self) -> u64 {
        if let Some(flow) = self.flow() {
            flow.hurry.store(true, Relaxed);
        }
        self.settle.ask()
    }

    /// True once the pipeline has nothing of it any more. Where nobody has claimed the place, nobody is behind the source
    /// who would hold anything back.
    pub(crate) fn settled(&self, number: u64) -> bool {
        self.settle.done(number) || !self.claimed.load(Relaxed)
    }

    /// True once all of it is safe.
    pub(crate) fn drained(&self, number: u64) -> bool {
        let laid_down = |flow: &Flow| flow.landed.load(Relaxed) >= (flow.offered)();
        self.settled(number) && self.flow().is_none_or(laid_down)
    }

    /// Partitions go: the group's place is told as far as it is safe. `handed`: what was handed on of all.
    pub(crate) fn part(&self, handed: &Offsets, gone: &BTreeSet<i32>, how: Parting) -> Parted {
        let flow = self.flow();
        if let Some(flow) = flow.filter(|_| how != Parting::Lost) {
            flow.hurry.store(false, Relaxed);
        }
        let mut known = self.known.lock().expect("no holder panics");
        known.confirm(&self.keeper.confirmed());
        let safe = match how {
            Parting::Drained => Some(handed.clone()),
            Parting::Late => Some(known.steps.safe(flow).unwrap_or_default()),
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
        let asked = if of.is_empty() { None } else { self.keeper.stands(of) };
        known.stands.extend(asked.unwrap_or_default());
        refused
    }

    fn count(&self, again: u64) {
        self.sheet.add(FromTopic::Again as usize, again);
        self.sheet.set(FromTopic::CommitsRefused as usize, self.keeper.refused());
    }

    /// Somebody else says when all is safe ([`GroupPlace::finish`]), and tells what is on its way until then.
    pub(crate) fn claim(&self, flow: Option<Flow>) {
        self.claimed.store(true, Relaxed);
        let _ = self.flow.set(flow);
    }

    /// About once a second, between two batches: what was handed on so far.
    pub(crate) fn look(&self, next: &Offsets, packets: u64) {
        let mut known = self.known.lock().expect("no holder panics");
        known.confirm(&self.keeper.confirmed());
        let settle = self.claimed.load(Relaxed).then_some(&*self.settle);
        if let Some(safe) = known.steps.look(next, packets, self.flow(), settle) {
            self.keeper.commit_soon(&safe);
        }
        self.count(0);
    }

    /// Reading is over.
    pub(crate) fn over(&self, next: &Offsets) {
        self.last.lock().expect("no holder panics").clone_from(next);
        if !self.claimed.load(Relaxed) {
            self.finish();
        }
    }

    /// All that was read is safe.
    pub(crate) fn finish(&self) {
        let last = self.last.lock().expect("no holder panics").clone();
        self.end(&last, &last, "");
    }

    /// Reading is over, and not all of it is safe: events were dropped, or an output failed.
    pub(crate) fn finish_partly(&self) {
        let last = self.last.lock().expect("no holder panics").clone();
        // Without an output that tells what is safe, nothing is.
        let flow = self.flow();
        let mut known = self.known.lock().expect("no holder panics");
        let safe = flow.and_then(|flow| known.steps.safe(Some(flow))).unwrap_or_default();
        drop(known);
        self.end(&last, &safe, "their events were not made, or were dropped here");
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
            crate::kafka_source::say(&again_later(again, refused.as_deref().unwrap_or(why)));
        }
    }
}

/// For people: packets whose events may be there twice.
pub(crate) fn again_later(packets: u64, why: &str) -> String {
    format!(
        "{packets} packets that were read come again to the next member of the group, and their events may be there twice: {why}"
    )
}

#[cfg(test)]
#[path = "group_place_tests.rs"]
mod tests;
