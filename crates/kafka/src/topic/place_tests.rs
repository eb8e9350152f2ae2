//! A member's place with a broker that answers when the test says so, a clock that it moves by hand, and the real output
//! with a spool that is full. No Kafka.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use fullcount_core::ledger::Ledger;
use fullcount_core::progress::BatchNumber;
use fullcount_core::time::PulseTime;
use fullcount_engine::fanout::{Drains, Fanout};
use fullcount_engine::progress::BatchProgress;

use super::*;
use crate::{KafkaOptions, KafkaSink};

/// The broker as it stands, and what it has not answered.
#[derive(Default)]
struct Answers {
    stands: Offsets,
    sent: Option<Offsets>,
    confirmed: Offsets,
    refuses: bool,
    refused: u64,
    /// Answers that are still those of before the last commit.
    stale: u32,
    before: Offsets,
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
        hand.before = hand.stands.clone();
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
        let mut hand = self.0.lock().unwrap();
        let old = hand.stale > 0;
        hand.stale = hand.stale.saturating_sub(1);
        let stands = if old { hand.before.clone() } else { hand.stands.clone() };
        drop(hand);
        Some(stands.into_iter().filter(|(p, _)| of.contains(p)).collect())
    }
    fn refused(&self) -> u64 {
        self.0.lock().unwrap().refused
    }
}

/// A pipeline that stands still.
struct Standing {
    decoded: u64,
    complete: u64,
}

impl PipelineProgress for Standing {
    fn decoded(&self) -> u64 {
        self.decoded
    }
    fn complete(&self) -> u64 {
        self.complete
    }
    fn safe(&self) -> u64 {
        0
    }
    fn cut(&self) -> u64 {
        0
    }
}

/// The pipeline's own, without outputs of packets.
struct Products(Arc<BatchProgress>);

impl PipelineProgress for Products {
    fn decoded(&self) -> u64 {
        self.0.decoded()
    }
    fn complete(&self) -> u64 {
        self.0.complete()
    }
    fn safe(&self) -> u64 {
        self.0.safe()
    }
    fn cut(&self) -> u64 {
        self.0.cut()
    }
}

fn place() -> (GroupPlace, Hand, Arc<Sheet>) {
    let (hand, sheet) = (Hand::default(), Sheet::new(FromTopic::catalogue()));
    (GroupPlace::new(Box::new(hand.clone()), sheet.clone()), hand, sheet)
}

fn at(n: i64) -> Offsets {
    Offsets::from([(0, n)])
}

#[test]
fn a_place_counts_once_its_last_batch_is_safe() {
    let mut steps = Steps::default();
    let mut look = |n: i64, batch, safe| steps.look(&at(n), batch, safe);
    assert_eq!(look(10, 1, 0), None);
    assert_eq!(look(20, 3, 0), None);
    assert_eq!(look(30, 4, 2), Some(at(10)), "batch 3 is not safe");
    assert_eq!(look(40, 6, 2), None);
    assert_eq!(look(50, 7, 6), Some(at(40)), "of several the last");
    // Nothing came since.
    assert!((0..2).all(|_| look(50, 7, 7) == Some(at(50))));
    // An output that waits for long costs no memory.
    for n in 0..1000 {
        assert_eq!(steps.look(&at(100 + n), 8 + n.cast_unsigned(), 7), (n == 0).then(|| at(50)));
        assert!(steps.0.len() <= MOST);
    }
    assert_eq!(steps.look(&at(5000), 5000, 2000), Some(at(1099)));
}

#[test]
fn a_hit_that_alone_holds_the_place_back_is_decided_after_half_a_minute() {
    let mut steps = Steps::default();
    steps.look(&at(10), 5, 0);
    let mut stalled = |decoded, complete, looks| {
        let progress = Standing { decoded, complete };
        (0..looks).filter(|_| steps.is_stalled(&progress)).count()
    };
    assert_eq!(stalled(4, 3, 100), 0, "the batch is on its way");
    assert_eq!(stalled(9, 5, 100), 0, "an output holds it back");
    assert_eq!(stalled(9, 4, HOLD - 1), 0);
    assert_eq!(stalled(9, 4, 1), 1);
    assert_eq!(stalled(9, 4, 2 * HOLD), 2, "and again, where that did not help");
}

#[test]
fn a_partition_that_is_somebody_elses_is_not_committed_any_more() {
    let stands = Offsets::from([(0, 5), (1, 100)]);
    let mut known = Known { stands, ..Known::default() };
    let handed = Offsets::from([(0, 12), (1, 107)]);
    known.steps.look(&handed, 14, 0);
    let gone = BTreeSet::from([1, 3]);
    assert_eq!(known.behind(&handed, &gone), 7);
    assert_eq!(known.behind(&handed, &BTreeSet::from([0, 1])), 14);
    known.forget(&gone);
    assert_eq!(known.stands, Offsets::from([(0, 5)]));
    known.confirm(&handed);
    assert_eq!(known.stands, Offsets::from([(0, 12)]), "an answer that comes late");
    let now = Offsets::from([(0, 20)]);
    assert_eq!(known.steps.look(&now, 30, 14), Some(Offsets::from([(0, 12)])));
    assert_eq!(known.behind(&handed, &gone), 0, "what is not known is nobody's");
}

#[test]
fn what_was_sent_and_not_confirmed_comes_again() {
    for heard in [false, true] {
        let (place, hand, sheet) = place();
        place.begins(0, 0);
        (1..=3).for_each(|n| place.look(&at(10 * n), 0));
        assert_eq!(hand.sent(), Some(at(20)));
        hand.takes(heard);
        // The group takes this member for dead.
        let parted = place.part(&at(30), &BTreeSet::from([0]), Parting::Lost);
        assert_eq!(parted.again, if heard { 10 } else { 30 }, "heard of: {heard}");
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
    assert_eq!((parted.again, parted.refused.as_deref()), (10, Some("not yours")));
    assert_eq!(sheet.get(FromTopic::CommitsRefused as usize), 1);
    // At the end of a run as well.
    place.begins(0, 10);
    place.over(&at(35), 0);
    assert_eq!(sheet.get(FromTopic::Again as usize), 10 + 15);
}

#[test]
fn an_answer_from_before_a_confirmed_commit_is_asked_for_again() {
    for (stale, again) in [(0, 0), (3, 0), (100, 20)] {
        let (place, hand, sheet) = place();
        place.begins(0, 0);
        (1..=3).for_each(|n| place.look(&at(10 * n), 0));
        hand.takes(true);
        hand.0.lock().unwrap().stale = stale;
        // What stays so is believed: the next member begins there.
        place.over(&at(40), 0);
        assert_eq!(sheet.get(FromTopic::Again as usize), again, "{stale}");
    }
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
    progress: Arc<BatchProgress>,
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
        let ledger = Ledger::default();
        let (mut ways, drains) =
            Fanout::start(vec![Box::new(sink)], (1, 64), &ledger, |_| {}).unwrap();
        let progress = ways[0].progress().clone();
        place.follow(Arc::new(Products(progress.clone())));
        place.begins(0, 0);
        let (fanout, drains) = (Some(ways.remove(0)), Some(drains));
        let end = Instant::now() + Duration::from_secs(60);
        Member { place, hand, sheet, fanout, drains, ledger, progress, stop, read: 0, end }
    }

    /// Reads a packet, makes its events and hands them over, as a pipeline does whose builder holds nothing back.
    fn read(&mut self) {
        let fanout = self.fanout.as_mut().unwrap();
        let events = &mut fanout.products().events;
        events.open_pulse(PulseTime(i64::from(self.read) * 1_000_000));
        (0..EVENTS).for_each(|n| events.push(n, n + 1));
        self.read += 1;
        fanout.products().complete = BatchNumber { pipeline: 0, batch: self.read.into() };
        fanout.hand_over(true).unwrap();
    }

    fn handed(&self) -> Offsets {
        at(self.read.into())
    }

    /// A second later.
    fn look(&self) {
        self.place.look(&self.handed(), self.read.into());
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
            let most = u64::from(self.read - 1);
            self.until("events in the spool", |m| m.progress.safe() >= most || full(m));
        }
        // Some wait in the queue.
        (0..10).for_each(|_| self.read());
        (0..3).for_each(|_| self.look());
        self.hand.takes(true);
    }

    /// Ends the output; how many events the spool holds, as the next start finds it.
    fn end(&mut self, folder: &std::path::Path) -> u64 {
        self.stop.store(true, Relaxed);
        self.place.over(&self.handed(), self.read.into());
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
    // The batch behind the last one never becomes safe: the spool takes no more. The time is over.
    assert!(member.place.safe() < u64::from(member.read));
    let how = Parting::Late;
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
    member.place.over(&Offsets::new(), member.read.into());
    member.place.finish();
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
    member.place.finish();
    let committed = member.hand.stands()[&0];
    assert!(committed >= before[&0] && committed >= 10, "{before:?}, {committed}");
    assert!(kept >= committed.cast_unsigned() * u64::from(EVENTS), "{kept}, {committed}");
    let again = member.sheet.get(FromTopic::Again as usize);
    assert_eq!(again, u64::from(member.read) - committed.cast_unsigned());
    assert!(again * u64::from(EVENTS) >= u64::from(member.read * EVENTS) - kept);
}
