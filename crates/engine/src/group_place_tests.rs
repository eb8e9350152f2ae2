//! A member's place with a broker that answers when the test says so, a clock that it moves by hand, and the real output
//! with a spool that is full. No Kafka.

use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use fullcount_core::ledger::Ledger;
use fullcount_core::time::PulseTime;
use fullcount_out::kafka::{KafkaOptions, KafkaSink};

use super::*;
use crate::fanout::{Drains, Fanout};
use crate::parting::Leaving;

/// The broker as it stands, and what it has not answered.
#[derive(Default)]
struct Answers {
    stands: Offsets,
    sent: Option<Offsets>,
    confirmed: Offsets,
    refuses: bool,
    refused: u64,
}

#[derive(Clone, Default)]
struct Hand(Arc<Mutex<Answers>>);

impl Hand {
    /// The broker comes to what it was sent; `heard`: its answer arrives.
    fn takes(&self, heard: bool) {
        let mut hand = self.0.lock().unwrap();
        let sent = hand.sent.take().expect("something was sent");
        hand.stands.extend(sent.clone());
        if heard {
            hand.confirmed.extend(sent);
        }
    }

    fn sent(&self) -> Option<Offsets> {
        self.0.lock().unwrap().sent.clone()
    }

    fn stands(&self) -> Offsets {
        self.0.lock().unwrap().stands.clone()
    }
}

impl Keeper for Hand {
    fn commit_soon(&self, next: &Offsets) {
        self.0.lock().unwrap().sent = Some(next.clone());
    }
    fn commit(&self, next: &Offsets) -> Result<(), String> {
        let mut hand = self.0.lock().unwrap();
        if hand.refuses {
            hand.refused += 1;
            return Err("not yours".into());
        }
        hand.stands.extend(next.clone());
        Ok(())
    }
    fn commit_last(&self, next: &Offsets) -> Result<(), String> {
        self.commit(next)
    }
    fn confirmed(&self) -> Offsets {
        std::mem::take(&mut self.0.lock().unwrap().confirmed)
    }
    fn stands(&self, of: &BTreeSet<i32>) -> Option<Offsets> {
        let stands = self.stands();
        Some(stands.into_iter().filter(|(p, _)| of.contains(p)).collect())
    }
    fn refused(&self) -> u64 {
        self.0.lock().unwrap().refused
    }
}

fn place() -> (GroupPlace, Hand, Arc<Sheet>) {
    let (hand, sheet) = (Hand::default(), Sheet::new(FromTopic::catalogue()));
    (GroupPlace::new(Box::new(hand.clone()), sheet.clone()), hand, sheet)
}

fn reads(n: &Arc<AtomicU64>) -> Box<dyn Fn() -> u64 + Send + Sync> {
    let n = n.clone();
    Box::new(move || n.load(Relaxed))
}

fn at(n: i64) -> Offsets {
    Offsets::from([(0, n)])
}

#[test]
fn a_place_counts_once_its_packets_are_decoded_and_their_events_laid_down() {
    let [packets, offered, landed] = [(); 3].map(|()| Arc::new(AtomicU64::new(0)));
    let (packets_now, offered_now) = (reads(&packets), reads(&offered));
    let (landed_now, hurry) = (landed.clone(), Arc::default());
    let flow = Flow { packets: packets_now, offered: offered_now, landed: landed_now, hurry };
    let settle = Settle::default();
    let mut steps = Steps::default();
    let mut look = |n: i64, packets| steps.look(&at(n), packets, Some(&flow), Some(&settle));
    assert_eq!(look(10, 10), None);
    packets.store(9, Relaxed);
    assert_eq!(look(20, 20), None, "one is in a hand");
    assert_eq!(settle.marks(), 0);
    packets.store(10, Relaxed);
    assert_eq!(look(30, 30), None);
    assert_eq!(settle.marks(), 1, "the builder may hold hits of the first");
    offered.store(400, Relaxed);
    landed.store(400, Relaxed);
    for _ in 0..3 {
        assert_eq!(look(30, 30), None, "and still does");
    }
    settle.pass(1);
    offered.store(500, Relaxed);
    landed.store(499, Relaxed);
    assert_eq!(look(40, 40), None, "one event is not laid down");
    offered.store(900, Relaxed);
    landed.store(500, Relaxed);
    assert_eq!(look(50, 50), Some(at(10)));
    packets.store(50, Relaxed);
    for n in 6..9 {
        assert_eq!(look(10 * n, 50), None);
        settle.pass(settle.marks());
    }
    landed.store(900, Relaxed);
    assert_eq!(look(90, 50), Some(at(70)), "of several the last");
    // An output that waits for long costs no memory.
    landed.store(0, Relaxed);
    for n in 0..1000 {
        settle.pass(settle.marks());
        assert_eq!(steps.look(&at(100 + n), 50, Some(&flow), Some(&settle)), None);
        assert!(steps.0.len() <= MOST);
    }
    landed.store(900, Relaxed);
    assert!(steps.look(&at(5000), 50, Some(&flow), Some(&settle)).is_some());
    // Without an output that tells: two looks later.
    let mut steps = Steps::default();
    let mut look = |n| steps.look(&at(n), 1, None, None);
    assert_eq!([look(1), look(2), look(3)], [None, None, Some(at(1))]);
}

#[test]
fn a_partition_that_is_somebody_elses_is_not_committed_any_more() {
    let stands = Offsets::from([(0, 5), (1, 100)]);
    let mut known = Known { stands, ..Known::default() };
    let handed = Offsets::from([(0, 12), (1, 107)]);
    known.steps.look(&handed, 14, None, None);
    known.steps.look(&handed, 14, None, None);
    let gone = BTreeSet::from([1, 3]);
    assert_eq!(known.behind(&handed, &gone), 7);
    assert_eq!(known.behind(&handed, &BTreeSet::from([0, 1])), 14);
    known.forget(&gone);
    assert_eq!(known.stands, Offsets::from([(0, 5)]));
    known.confirm(&handed);
    assert_eq!(known.stands, Offsets::from([(0, 12)]), "an answer that comes late");
    let now = Offsets::from([(0, 20)]);
    assert_eq!(known.steps.look(&now, 30, None, None), Some(Offsets::from([(0, 12)])));
    assert_eq!(known.behind(&handed, &gone), 0, "what is not known is nobody's");
}

#[test]
fn what_was_sent_and_not_confirmed_comes_again() {
    for heard in [false, true] {
        let (place, hand, sheet) = place();
        place.begins(0, 0);
        (1..=3).for_each(|n| place.look(&at(10 * n), 0));
        assert_eq!(hand.sent(), Some(at(10)));
        hand.takes(heard);
        // The group takes this member for dead.
        let parted = place.part(&at(30), &BTreeSet::from([0]), Parting::Lost);
        assert_eq!(parted.again, if heard { 20 } else { 30 }, "heard of: {heard}");
        assert_eq!(sheet.get(FromTopic::Again as usize), parted.again);
    }
}

#[test]
fn a_commit_that_is_refused_when_a_partition_goes_is_counted_and_the_broker_asked() {
    let (place, hand, sheet) = place();
    place.begins(0, 0);
    (1..=3).for_each(|n| place.look(&at(10 * n), 0));
    hand.takes(false);
    hand.0.lock().unwrap().refuses = true;
    let parted = place.part(&at(30), &BTreeSet::from([0]), Parting::Drained);
    assert_eq!((parted.again, parted.refused.as_deref()), (20, Some("not yours")));
    assert_eq!(sheet.get(FromTopic::CommitsRefused as usize), 1);
    // At the end of a run as well.
    place.begins(0, 10);
    place.over(&at(35));
    assert_eq!(sheet.get(FromTopic::Again as usize), 20 + 25);
}

/// Events of a packet; each packet is a pulse, and a message. The smallest spool holds about 200 of them.
const EVENTS: u32 = 10_000;

/// A member between a topic and the real output, whose broker is away and whose spool is small.
struct Member {
    place: GroupPlace,
    hand: Hand,
    sheet: Arc<Sheet>,
    fanout: Option<Fanout>,
    drains: Option<Drains>,
    ledger: Ledger,
    landed: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    read: u32,
    /// Longest wait for the output's thread.
    end: Instant,
}

fn options(folder: &std::path::Path) -> KafkaOptions {
    let mut options = KafkaOptions::new("127.0.0.1:1", "events", "x", folder);
    options.spool_size = 16 << 20;
    options.stream.open_pulses = 1;
    options.drain = Duration::ZERO;
    options
}

impl Member {
    fn new(folder: &std::path::Path) -> Member {
        let (place, hand, sheet) = place();
        let stop = Arc::new(AtomicBool::new(false));
        let mut options = options(folder);
        let told = stop.clone();
        options.stop = Arc::new(move || told.load(Relaxed));
        let sink = KafkaSink::open(options).unwrap();
        let (landed, hurry) = (sink.landed(), sink.hurry());
        let ledger = Ledger::default();
        let (mut ways, drains) =
            Fanout::start(vec![Box::new(sink)], (1, 64), &ledger, |_| {}).unwrap();
        let view = drains.views().remove(0);
        let offered = Box::new(move || view.offered());
        let packets = Box::new(|| u64::MAX);
        place.claim(Some(Flow { packets, offered, landed: landed.clone(), hurry }));
        place.begins(0, 0);
        let (fanout, drains) = (Some(ways.remove(0)), Some(drains));
        let end = Instant::now() + Duration::from_secs(60);
        Member { place, hand, sheet, fanout, drains, ledger, landed, stop, read: 0, end }
    }

    /// Reads a packet, makes its events and hands them over, as a pipeline does whose builder holds nothing back.
    fn read(&mut self) {
        let fanout = self.fanout.as_mut().unwrap();
        let events = &mut fanout.products().events;
        events.open_pulse(PulseTime(i64::from(self.read) * 1_000_000));
        (0..EVENTS).for_each(|n| events.push(n, n + 1));
        fanout.hand_over(true).unwrap();
        self.read += 1;
    }

    fn handed(&self) -> Offsets {
        at(self.read.into())
    }

    /// A second later.
    fn look(&self) {
        self.place.look(&self.handed(), self.read.into());
        let settle = self.place.settle();
        settle.pass(settle.marks());
    }

    fn until(&self, what: &str, enough: impl Fn(&Member) -> bool) {
        while !enough(self) {
            assert!(Instant::now() < self.end, "{what}: not within a minute");
            std::thread::yield_now();
        }
    }

    fn counter(&self, name: &str) -> u64 {
        self.ledger.read().get(name).unwrap()
    }

    /// Reads on until the spool takes no more; some of the place is committed by then.
    fn fill(&mut self) {
        let full = |m: &Member| m.counter("kafka.spool.full") > 0;
        while !full(self) {
            self.read();
            if self.read.is_multiple_of(20) {
                self.look();
            }
            // The last one stays open for more of its pulse.
            let most = u64::from((self.read - 1) * EVENTS);
            self.until("events in the spool", |m| m.landed.load(Relaxed) >= most || full(m));
        }
        // Some wait in the queue.
        (0..10).for_each(|_| self.read());
        (0..3).for_each(|_| self.look());
        self.hand.takes(true);
    }

    /// Ends the output; how many events the spool holds, as the next start finds it.
    fn end(&mut self, folder: &std::path::Path) -> u64 {
        self.stop.store(true, Relaxed);
        self.place.over(&self.handed());
        let ends = self.drains.take().unwrap().finish(vec![self.fanout.take().unwrap()]);
        assert!(ends.iter().all(|end| end.outcome.is_ok()));
        let dropped = self.counter("sink.kafka.dropped");
        assert!(dropped > 0, "the spool was full");
        let kept = KafkaSink::open(options(folder)).unwrap().recovered().events;
        assert_eq!(kept + dropped, u64::from(self.read * EVENTS));
        kept
    }
}

#[test]
fn a_partition_leaves_a_full_spool_with_what_is_in_there_and_the_rest_comes_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut member = Member::new(folder.path());
    member.fill();
    let gone = BTreeSet::from([0]);
    let (now, patience) = (Instant::now(), Duration::from_secs(30));
    let mut leaving = Leaving::new(gone.clone(), now);
    let settle = member.place.settle();
    let almost = now + patience - Duration::from_nanos(1);
    assert_eq!(leaving.turn(&member.place, now, patience), None);
    // The pipeline has nothing of it any more, but the spool takes no more.
    settle.answer(settle.question().expect("asked"), 0);
    assert_eq!(leaving.turn(&member.place, almost, patience), None);
    let how = leaving.turn(&member.place, now + patience, patience).expect("the time is over");
    assert_eq!(how, Parting::Late);
    let parted = member.place.part(&member.handed(), &gone, how);
    let committed = member.hand.stands()[&0];
    assert!(committed >= 10, "{committed}");
    assert_eq!(parted.again, u64::from(member.read) - committed.cast_unsigned());
    assert_eq!(parted.refused, None);
    // Whatever was committed is in the spool, and there is something that is not.
    let kept = member.end(folder.path());
    assert!(kept >= committed.cast_unsigned() * u64::from(EVENTS), "{kept}, {committed}");
    assert!(parted.again > 0);
    // It is not this member's any more when the run ends.
    member.place.over(&Offsets::new());
    member.place.finish_partly();
    assert_eq!(member.hand.stands(), at(committed));
    assert_eq!(member.sheet.get(FromTopic::Again as usize), parted.again);
}

#[test]
fn packets_whose_events_were_dropped_at_the_end_are_not_committed() {
    let folder = tempfile::tempdir().unwrap();
    let mut member = Member::new(folder.path());
    member.fill();
    let before = member.hand.stands();
    let kept = member.end(folder.path());
    member.place.finish_partly();
    let committed = member.hand.stands()[&0];
    assert!(committed >= before[&0] && committed >= 10, "{before:?}, {committed}");
    assert!(kept >= committed.cast_unsigned() * u64::from(EVENTS), "{kept}, {committed}");
    let again = member.sheet.get(FromTopic::Again as usize);
    assert_eq!(again, u64::from(member.read) - committed.cast_unsigned());
    assert!(again * u64::from(EVENTS) >= u64::from(member.read * EVENTS) - kept);
}
