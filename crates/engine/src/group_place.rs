//! Where a consumer group stands: committed only once the events of what was read are laid down.
//!
//! A commit that runs ahead of the output costs events when the process is killed. So a place that was read takes three
//! steps: its packets have been decoded, the events that were made by then are known by number, the Kafka output has
//! so many of them in its spool. Each step waits for the next look, a second later, so that what is in a hand at the
//! moment counts as not done. Where there is no Kafka output, a place counts after a second. What is killed before the commit
//! is read again by another member: at least once. Source: `docs/raw.md`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

use fullcount_out::kafka::Consumer;

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
}

type Offsets = BTreeMap<i32, i64>;

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
        let landed = flow.map_or(0, |flow| flow.landed.load(Relaxed));
        let safe = self.0.iter().take_while(|step| step.events.is_some_and(|n| n <= landed));
        let safe = self.0.drain(..safe.count()).next_back().map(|step| step.next);
        if self.0.len() == MOST {
            self.0.pop_back();
        }
        self.0.push_back(Step { next: next.clone(), packets, decoded: false, events: None });
        safe
    }
}

/// A member's place in its group.
pub struct GroupPlace {
    consumer: Arc<Consumer>,
    topic: String,
    flow: OnceLock<Option<Flow>>,
    /// What was handed on, once reading is over.
    last: Mutex<Offsets>,
    steps: Mutex<Steps>,
    claimed: AtomicBool,
}

impl GroupPlace {
    pub(crate) fn new(consumer: Arc<Consumer>, topic: &str) -> GroupPlace {
        GroupPlace {
            consumer,
            topic: topic.to_owned(),
            flow: OnceLock::new(),
            last: Mutex::default(),
            steps: Mutex::default(),
            claimed: AtomicBool::new(false),
        }
    }

    /// Somebody else says when all is safe ([`GroupPlace::finish`]), and tells what is on its way until then.
    pub(crate) fn claim(&self, flow: Option<Flow>) {
        self.claimed.store(true, Relaxed);
        let _ = self.flow.set(flow);
    }

    /// About once a second, between two batches: what was handed on so far.
    pub(crate) fn look(&self, next: &Offsets, packets: u64) {
        let flow = self.flow.get().and_then(Option::as_ref);
        let mut steps = self.steps.lock().expect("no holder panics");
        if let Some(safe) = steps.look(next, packets, flow) {
            self.commit(&safe, false);
        }
    }

    /// Reading is over.
    pub(crate) fn over(&self, next: &Offsets) {
        self.last.lock().expect("no holder panics").clone_from(next);
        if !self.claimed.load(Relaxed) {
            self.commit(next, true);
        }
    }

    /// All that was read is safe.
    pub(crate) fn finish(&self) {
        self.commit(&self.last.lock().expect("no holder panics"), true);
    }

    fn commit(&self, next: &Offsets, wait: bool) {
        let next: Vec<_> = next.iter().map(|(p, at)| (self.topic.as_str(), *p, *at)).collect();
        // A partition that was given to another member is theirs: they begin at the last place that counted.
        let _ = self.consumer.commit(&next, wait);
    }
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
        let flow =
            Flow { packets: reads(&packets), offered: reads(&offered), landed: landed.clone() };
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
}
