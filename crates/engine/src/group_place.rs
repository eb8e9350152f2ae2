//! Where a consumer group stands: committed only once the events of what was read are laid down.
//!
//! A commit that runs ahead of the output costs events when the process is killed. So a place that was read takes three
//! steps: its packets have been decoded, the events that were made by then are known by number, the Kafka output has
//! so many of them in its spool. Each step waits for the next look, a second later, so that what is in a hand at the
//! moment counts as not done. Where there is no Kafka output, a place counts after a second. What is killed before the commit
//! is read again by another member: at least once.
//!
//! A partition that is given up in good order is committed to its last packet: nothing more is read meanwhile, the pipeline
//! settles all it has ([`crate::settle`]), and the output lays it down ([`GroupPlace::drained`]). What is no longer this
//! member's is never committed. Source: `docs/raw.md`, `docs/decisions/0014-partitions-that-move.md`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

use fullcount_out::kafka::{ConsumeError, Consumer};

use crate::settle::Settle;

/// Places on their way; where the output waits for hours, later ones take the place of the last.
const MOST: usize = 64;

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
    pub refused: Option<ConsumeError>,
}

/// A place that was read.
#[derive(Debug)]
struct Step {
    next: Offsets,
    /// Packets up to it.
    packets: u64,
    decoded: bool,
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
    /// Where the group stands: where reading began, or the last commit.
    stands: Offsets,
}

impl Known {
    /// Packets of these partitions behind the group's place.
    fn behind(&self, handed: &Offsets, gone: &BTreeSet<i32>) -> u64 {
        let one = |p: &i32| Some(handed.get(p)? - self.stands.get(p)?);
        gone.iter().filter_map(one).map(|n| u64::try_from(n).unwrap_or(0)).sum()
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
    /// A look at all, with the present place. What may be committed.
    fn look(&mut self, next: &Offsets, packets: u64, flow: Option<&Flow>) -> Option<Offsets> {
        for step in &mut self.0 {
            match flow {
                None => step.events = Some(0),
                Some(_) if step.events.is_some() => {}
                Some(flow) if step.decoded => step.events = Some((flow.offered)()),
                Some(flow) => step.decoded = (flow.packets)() >= step.packets,
            }
        }
        let safe = self.safe(flow);
        if self.0.len() == MOST {
            self.0.pop_back();
        }
        self.0.push_back(Step { next: next.clone(), packets, decoded: false, events: None });
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
    consumer: Arc<Consumer>,
    topic: String,
    flow: OnceLock<Option<Flow>>,
    /// What was handed on, once reading is over.
    last: Mutex<Offsets>,
    known: Mutex<Known>,
    claimed: AtomicBool,
    settle: Arc<Settle>,
}

impl GroupPlace {
    pub(crate) fn new(consumer: Arc<Consumer>, topic: &str) -> GroupPlace {
        GroupPlace {
            consumer,
            topic: topic.to_owned(),
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
        let safe = match how {
            Parting::Drained => Some(handed.clone()),
            Parting::Late => known.steps.safe(flow),
            Parting::Lost => None,
        };
        let mut refused = None;
        if let Some(mut safe) = safe {
            safe.retain(|p, _| gone.contains(p));
            match self.commit(&safe, true) {
                Ok(()) => known.stands.extend(safe),
                Err(error) => refused = Some(error),
            }
        }
        let again = known.behind(handed, gone);
        known.forget(gone);
        Parted { again, refused }
    }

    /// Somebody else says when all is safe ([`GroupPlace::finish`]), and tells what is on its way until then.
    pub(crate) fn claim(&self, flow: Option<Flow>) {
        self.claimed.store(true, Relaxed);
        let _ = self.flow.set(flow);
    }

    /// About once a second, between two batches: what was handed on so far.
    pub(crate) fn look(&self, next: &Offsets, packets: u64) {
        let mut known = self.known.lock().expect("no holder panics");
        if let Some(safe) = known.steps.look(next, packets, self.flow()) {
            // Refused where the group has taken the partitions away, which is about to be told.
            if self.commit(&safe, false).is_ok() {
                known.stands.extend(safe);
            }
        }
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
        let last = self.last.lock().expect("no holder panics");
        let known = self.known.lock().expect("no holder panics");
        if let Err(error) = self.commit(&last, true) {
            let again = known.behind(&last, &last.keys().copied().collect());
            crate::kafka_source::say(&again_later(again, &error.to_string()));
        }
    }

    /// Reading is over, and not all of it is safe: the output dropped events.
    pub(crate) fn finish_partly(&self) {
        let last = self.last.lock().expect("no holder panics");
        let mut known = self.known.lock().expect("no holder panics");
        if let Some(safe) = known.steps.safe(self.flow())
            && self.commit(&safe, true).is_ok()
        {
            known.stands.extend(safe);
        }
        let again = known.behind(&last, &last.keys().copied().collect());
        crate::kafka_source::say(&again_later(again, "events of theirs were dropped here"));
    }

    fn commit(&self, next: &Offsets, wait: bool) -> Result<(), ConsumeError> {
        let next: Vec<_> = next.iter().map(|(p, at)| (self.topic.as_str(), *p, *at)).collect();
        self.consumer.commit(&next, wait)
    }
}

/// For people: packets whose events may be there twice.
pub(crate) fn again_later(packets: u64, why: &str) -> String {
    format!(
        "{packets} packets that were read come again to the next member of the group, and their events may be there twice: {why}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_counts_once_its_packets_are_decoded_and_their_events_laid_down() {
        let [packets, offered, landed] = [(); 3].map(|()| Arc::new(AtomicU64::new(0)));
        let reads = |n: &Arc<AtomicU64>| {
            let n = n.clone();
            Box::new(move || n.load(Relaxed)) as Box<dyn Fn() -> u64 + Send + Sync>
        };
        let flow = Flow {
            packets: reads(&packets),
            offered: reads(&offered),
            landed: landed.clone(),
            hurry: Arc::default(),
        };
        let mut steps = Steps::default();
        let at = |n: i64| Offsets::from([(0, n)]);
        assert_eq!(steps.look(&at(10), 10, Some(&flow)), None);
        packets.store(9, Relaxed);
        assert_eq!(steps.look(&at(20), 20, Some(&flow)), None, "one is in a hand");
        packets.store(10, Relaxed);
        assert_eq!(steps.look(&at(30), 30, Some(&flow)), None, "it may be in a hand still");
        offered.store(500, Relaxed);
        landed.store(499, Relaxed);
        assert_eq!(steps.look(&at(40), 40, Some(&flow)), None, "one event is not laid down");
        offered.store(900, Relaxed);
        landed.store(500, Relaxed);
        assert_eq!(steps.look(&at(50), 50, Some(&flow)), Some(at(10)));
        packets.store(50, Relaxed);
        for n in 6..9 {
            assert_eq!(steps.look(&at(10 * n), 50, Some(&flow)), None);
        }
        landed.store(900, Relaxed);
        assert_eq!(steps.look(&at(90), 50, Some(&flow)), Some(at(70)), "of several the last");
        // An output that waits for long costs no memory.
        landed.store(0, Relaxed);
        for n in 0..1000 {
            assert_eq!(steps.look(&at(100 + n), 50, Some(&flow)), None);
            assert!(steps.0.len() <= MOST);
        }
        landed.store(900, Relaxed);
        assert!(steps.look(&at(5000), 50, Some(&flow)).is_some());
        // Without an output that tells: a look later.
        let mut steps = Steps::default();
        assert_eq!(steps.look(&at(1), 1, None), None);
        assert_eq!(steps.look(&at(2), 2, None), Some(at(1)));
    }

    #[test]
    fn a_partition_that_is_somebody_elses_is_not_committed_any_more() {
        let stands = Offsets::from([(0, 5), (1, 100)]);
        let mut known = Known { stands, ..Known::default() };
        let handed = Offsets::from([(0, 12), (1, 107)]);
        known.steps.look(&handed, 14, None);
        let gone = BTreeSet::from([1, 3]);
        assert_eq!(known.behind(&handed, &gone), 7);
        assert_eq!(known.behind(&handed, &BTreeSet::from([0, 1])), 14);
        known.forget(&gone);
        assert_eq!(known.stands, Offsets::from([(0, 5)]));
        let now = Offsets::from([(0, 20)]);
        assert_eq!(known.steps.look(&now, 30, None), Some(Offsets::from([(0, 12)])));
        assert_eq!(known.behind(&handed, &gone), 0, "what is not known is nobody's");
    }
}
