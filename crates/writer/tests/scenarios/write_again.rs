//! What a writer meets when it comes back: orders that waited, orders that come again, answers that were never sent,
//! a broker that does not know its topics yet, files of others.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::write_made::*;
use fullcount_messages::{Message, RunStart};
use fullcount_writer::{Options, Reply, Service, TopicFault, Topics, WriteCounter};
use serde_json::{Value, json};

const NOW: u64 = 1_000_000;
const S: u64 = 1000;

fn broker() -> Broker {
    Broker::with(&["events", "control"])
}

fn service(folder: &Path, now: u64, broker: &Broker) -> Service {
    Service::new(options(folder), now, broker).unwrap()
}

fn order(job: &str, file: &str) -> Vec<u8> {
    let structure = structure_of_events(1024);
    Message::Pl72(RunStart { start_time: NOW, ..start(job, file, &structure) }).encode()
}

fn halt(job: &str, at: u64, command: &str) -> Vec<u8> {
    Message::S6s4t(stop(job, at, command)).encode()
}

/// The answers that wait, confirmed: (job, status).
fn answers(service: &mut Service) -> Vec<(String, i64)> {
    let all = replies(service).into_iter().filter(|(_, m)| m["schema"] == "answ");
    all.map(|(_, m)| (m["job_id"].as_str().unwrap().to_owned(), m["status_code"].as_i64().unwrap()))
        .collect()
}

fn ends(service: &mut Service) -> Vec<Value> {
    let all = replies(service).into_iter().filter(|(_, m)| m["schema"] == "wrdn");
    all.map(|(_, m)| m).collect()
}

#[test]
fn a_stop_sent_while_the_writer_was_down_holds_however_long_that_was() {
    for (asked, stop_ms) in [(NOW + 5 * S, NOW + 5 * S), (0, NOW + 6 * S)] {
        let (dir, mut broker) = (tempfile::tempdir().unwrap(), broker());
        let mut writer = service(dir.path(), NOW, &broker);
        writer.order(&pool(0, &order("a", "a.nxs")), NOW, &broker);
        writer.end(NOW + S, true);
        drop(writer);
        let of = |ms: u64| ev44("bank", 1, ms as i64 * 1_000_000, &[1], &[1]).encode();
        for ms in [NOW + 2 * S, NOW + 7 * S, NOW + 30 * S] {
            broker.send_bytes("events", ms, of(ms));
        }
        // Read a minute later than it was sent.
        let mut writer = service(dir.path(), NOW + 60 * S, &broker);
        let sent = NOW + 6 * S;
        writer.order(&pool_at(1, sent, &halt("a", asked, "c")), NOW + 60 * S, &broker);
        assert_eq!(answers(&mut writer), [("a".into(), 201), ("a".into(), 201)], "start and stop");
        assert_eq!(writer.jobs().next().unwrap().stop_ms(), Some(stop_ms));
        broker.feed(&mut writer, NOW + 60 * S, usize::MAX);
        writer.tick(NOW + 60 * S);
        assert_eq!(count(&writer, WriteCounter::Finished), 1);
        let file = hdf5_metno::File::open(dir.path().join("a.nxs")).unwrap();
        assert_eq!(file.dataset("/entry/bank_events/event_id").unwrap().size(), 1);
        assert_balanced(&writer);
    }
}

#[test]
fn now_is_when_an_order_was_sent_and_past_is_measured_from_there() {
    let (dir, broker) = (tempfile::tempdir().unwrap(), broker());
    let mut writer = service(dir.path(), NOW, &broker);
    let structure = structure_of_events(1024);
    // It waited in the pool for 20 s.
    let waited = Message::Pl72(RunStart { start_time: 0, ..start("a", "a.nxs", &structure) });
    writer.order(&pool_at(0, NOW, &waited.encode()), NOW + 20 * S, &broker);
    assert_eq!(writer.jobs().next().unwrap().start_ms(), NOW);
    // A clock that is ahead is no reason for a start in the future.
    let ahead = Message::Pl72(RunStart { start_time: 0, ..start("b", "b.nxs", &structure) });
    writer.order(&pool_at(1, NOW + 90 * S, &ahead.encode()), NOW + 20 * S, &broker);
    assert_eq!(writer.jobs().find(|j| j.id() == "b").unwrap().start_ms(), NOW + 20 * S);
    answers(&mut writer);
    // Past when it was sent, and refused for it.
    let late = halt("a", NOW + 5 * S, "c");
    writer.order(&pool_at(2, NOW + 30 * S, &late), NOW + 31 * S, &broker);
    assert_eq!(answers(&mut writer), [("a".into(), 400)]);
    assert_eq!(count(&writer, WriteCounter::OrderPast), 1);
    // The clock of who stops is a little behind that of who starts.
    writer.order(&pool_at(3, NOW + 19 * S, &halt("b", 0, "d")), NOW + 31 * S, &broker);
    assert_eq!(answers(&mut writer), [("b".into(), 201)]);
    assert_eq!(writer.jobs().find(|j| j.id() == "b").unwrap().stop_ms(), Some(NOW + 20 * S));
}

/// Knows some topics only, and says of the others what it is told to.
struct Waking(RefCell<BTreeMap<String, Result<Vec<i32>, TopicFault>>>);

impl Topics for Waking {
    fn partitions(&self, topic: &str) -> Result<Vec<i32>, TopicFault> {
        self.0.borrow().get(topic).cloned().unwrap_or(Err(TopicFault::Missing))
    }
}

#[test]
fn a_broker_that_is_not_ready_when_the_writer_is_costs_no_run() {
    for fault in [TopicFault::Missing, TopicFault::Broker("no leader".into())] {
        for read_before in [false, true] {
            let (dir, mut broker) = (tempfile::tempdir().unwrap(), broker());
            let mut writer = service(dir.path(), NOW, &broker);
            writer.order(&pool(0, &order("a", "a.nxs")), NOW, &broker);
            for n in 0..4 {
                broker.send(
                    "events",
                    NOW + n,
                    &ev44("bank", n as i64, 1_000 * S as i64 * 1_000_000 + n as i64, &[1], &[1]),
                );
            }
            if read_before {
                broker.feed(&mut writer, NOW + S, 2);
            }
            writer.end(NOW + S, true);
            drop(writer);
            let waking =
                Waking(RefCell::new(BTreeMap::from([("events".into(), Err(fault.clone()))])));
            let mut writer = Service::new(options(dir.path()), NOW + 2 * S, &waking).unwrap();
            assert_eq!((writer.jobs().count(), count(&writer, WriteCounter::Failed)), (1, 0));
            // Its stop is obeyed meanwhile, and the file is not completed without what was to be read.
            writer.order(&pool(1, &halt("a", NOW + 3 * S, "c")), NOW + 3 * S, &waking);
            let late = NOW + 20 * S;
            let job = writer.jobs().next().unwrap();
            assert_eq!(job.unasked().is_none(), read_before, "the journal knows the partitions");
            writer.ask(late, &waking);
            writer.tick(late);
            assert_eq!(writer.jobs().count(), 1);
            waking.0.borrow_mut().insert("events".into(), Ok(vec![0]));
            writer.ask(late + 500, &waking);
            assert_eq!(
                writer.jobs().next().unwrap().unasked().is_none(),
                read_before,
                "not at once"
            );
            writer.ask(late + S, &waking);
            broker.feed(&mut writer, late + S, usize::MAX);
            writer.tick(late + S);
            assert_eq!(count(&writer, WriteCounter::Finished), 1, "{:?}", writer.notes());
            let file = hdf5_metno::File::open(dir.path().join("a.nxs")).unwrap();
            assert_eq!(file.dataset("/entry/bank_events/event_id").unwrap().size(), 4);
            assert_balanced(&writer);
        }
    }
}

#[test]
fn a_topic_that_stays_away_after_the_end_of_the_run_is_given_up_and_said() {
    let (dir, broker) = (tempfile::tempdir().unwrap(), broker());
    let mut writer = service(dir.path(), NOW, &broker);
    writer.order(&pool(0, &order("a", "a.nxs")), NOW, &broker);
    writer.end(NOW + S, true);
    drop(writer);
    let none = Waking(RefCell::default());
    let mut writer = Service::new(options(dir.path()), NOW + 2 * S, &none).unwrap();
    let mut now = NOW + 2 * S;
    for _ in 0..200 {
        now += S;
        writer.ask(now, &none);
        writer.tick(now);
    }
    assert_eq!(writer.jobs().count(), 1, "a run without an end waits");
    writer.order(&pool(1, &halt("a", 0, "c")), now, &none);
    for _ in 0..11 {
        now += S;
        writer.ask(now, &none);
        writer.tick(now);
    }
    assert_eq!(writer.jobs().count(), 0);
    let ends = ends(&mut writer);
    let words = ends[0]["message"].as_str().unwrap();
    assert!(ends.len() == 1 && words.contains("\"events\" is no longer on the broker"), "{ends:?}");
}

#[test]
fn what_was_not_confirmed_is_said_again_after_a_restart() {
    let (dir, broker) = (tempfile::tempdir().unwrap(), broker());
    let mut writer = service(dir.path(), NOW, &broker);
    writer.order(&pool(0, &order("a", "../a.nxs")), NOW, &broker);
    writer.order(&pool(1, &order("b", "b.nxs")), NOW, &broker);
    writer.order(&pool(2, &halt("b", NOW + S, "c")), NOW, &broker);
    broker.feed(&mut writer, NOW + 12 * S, usize::MAX);
    writer.tick(NOW + 12 * S);
    let said: Vec<Reply> = writer.replies().into_iter().filter(|r| r.receipt.is_some()).collect();
    assert_eq!(said.len(), 4, "two answers to starts, one to the stop, one end");
    // The first arrived; then the writer was killed.
    writer.confirmed(said[0].receipt.unwrap());
    drop(writer);
    let mut writer = service(dir.path(), NOW + 20 * S, &broker);
    let again = writer.replies();
    assert_eq!(again, said[1..]);
    // New ones get numbers of their own.
    writer.order(&pool(3, &order("c", "c.nxs")), NOW + 20 * S, &broker);
    let new: Vec<u64> = writer.replies().iter().filter_map(|r| r.receipt).collect();
    assert!(new.iter().all(|n| !again.iter().any(|r| r.receipt == Some(*n))), "{new:?}");
    again.iter().filter_map(|r| r.receipt).chain(new).for_each(|n| writer.confirmed(n));
    drop(writer);
    let mut writer = service(dir.path(), NOW + 21 * S, &broker);
    assert_eq!(writer.replies().iter().filter(|r| r.receipt.is_some()).count(), 0);
}

#[test]
fn a_kill_between_journal_and_answer_costs_no_answer() {
    let (dir, broker) = (tempfile::tempdir().unwrap(), broker());
    let mut writer = service(dir.path(), NOW, &broker);
    let start = order("a", "a.nxs");
    writer.order(&pool(0, &start), NOW, &broker);
    let stops = [halt("a", NOW + S, "c1"), halt("a", NOW + 2 * S, "c2")];
    writer.order(&pool(1, &stops[0]), NOW, &broker);
    writer.order(&pool(2, &stops[1]), NOW, &broker);
    drop(writer);
    // Killed before any of this was kept: the orders were not committed, and come again.
    let own = dir.path().join(".fullcount-write/writer-1");
    for name in journals(dir.path()).iter().filter(|name| name.ends_with(".reply")) {
        fs::remove_file(own.join(name)).unwrap();
    }
    fs::remove_file(own.join("orders")).unwrap();
    let mut writer = service(dir.path(), NOW + 3 * S, &broker);
    for (n, bytes) in [&start, &stops[0], &stops[1]].into_iter().enumerate() {
        writer.order(&pool(n as i64, bytes), NOW + 30 * S, &broker);
    }
    assert_eq!(answers(&mut writer), vec![("a".to_owned(), 201); 3], "none is executed again");
    assert_eq!(count(&writer, WriteCounter::OrderAgain), 3);
    assert_eq!(writer.jobs().next().unwrap().stop_ms(), Some(NOW + 2 * S), "not that of the first");
    // And once more: now it is known that they were answered.
    writer.order(&pool(1, &stops[0]), NOW + 30 * S, &broker);
    assert_eq!(answers(&mut writer), []);
}

#[test]
fn after_a_restart_job_ids_stay_taken_and_refused_orders_stay_refused() {
    let (dir, broker) = (tempfile::tempdir().unwrap(), broker());
    let one = |o: &Path| Options { jobs: 1, ..options(o) };
    let mut writer = Service::new(one(dir.path()), NOW, &broker).unwrap();
    let (first, full, stopped) =
        (order("a", "a.nxs"), order("b", "b.nxs"), halt("a", NOW + S, "c"));
    writer.order(&pool(0, &first), NOW, &broker);
    writer.order(&pool(1, &full), NOW, &broker);
    writer.order(&pool(2, &stopped), NOW, &broker);
    broker.feed(&mut writer, NOW + 12 * S, usize::MAX);
    writer.tick(NOW + 12 * S);
    assert_eq!(answers(&mut writer), [("a".into(), 201), ("b".into(), 400), ("a".into(), 201)]);
    drop(writer);
    let mut writer = Service::new(one(dir.path()), NOW + 13 * S, &broker).unwrap();
    // The offset in the pool was not committed, and control topics are read from a little earlier.
    for (n, bytes) in [&first, &full, &stopped].into_iter().enumerate() {
        writer.order(&pool(n as i64, bytes), NOW + 13 * S, &broker);
    }
    assert_eq!((answers(&mut writer), writer.jobs().count()), (vec![], 0));
    assert_eq!(count(&writer, WriteCounter::OrderAgain), 3);
    // The same stop from another place is answered again; the id of the run cannot be used again.
    writer.order(&pool(7, &stopped), NOW + 13 * S, &broker);
    writer.order(&pool(8, &order("a", "other.nxs")), NOW + 13 * S, &broker);
    assert_eq!(answers(&mut writer), [("a".into(), 201), ("a".into(), 400)]);
    assert_eq!(count(&writer, WriteCounter::OrderTwice), 1);
    // What was refused then may be ordered anew.
    writer.order(&pool(9, &full), NOW + 13 * S, &broker);
    assert_eq!(answers(&mut writer), [("b".into(), 201)]);
    assert_balanced(&writer);
}

#[test]
fn a_file_that_another_writer_made_meanwhile_is_left_alone() {
    let (dir, broker) = (tempfile::tempdir().unwrap(), broker());
    let mut writer = service(dir.path(), NOW, &broker);
    writer.order(&pool(0, &order("a", "a.nxs")), NOW, &broker);
    writer.end(NOW + S, true);
    drop(writer);
    // Killed before the file was made; another writer has made one of that name since, and writes it.
    fs::remove_file(dir.path().join("a.nxs")).unwrap();
    fs::remove_file(dir.path().join(".fullcount-write/writer-1/a.progress")).unwrap();
    let second = |dir: &Path| Options { service_id: "writer-2".into(), ..options(dir) };
    for living in [true, false] {
        let mut other = Service::new(second(dir.path()), NOW, &broker).unwrap();
        if living {
            other.order(&pool(0, &order("x", "a.nxs")), NOW, &broker);
        } else {
            other.end(NOW + S, false);
        }
        let job = dir.path().join(".fullcount-write/writer-1/a.job");
        let kept = fs::read(&job).unwrap();
        let mut writer = service(dir.path(), NOW + S, &broker);
        assert_eq!((writer.jobs().count(), count(&writer, WriteCounter::Failed)), (0, 1));
        assert_eq!(ends(&mut writer)[0]["error_encountered"], true);
        fs::write(&job, kept).unwrap();
        if living {
            other.end(NOW + 2 * S, true);
        }
    }
    let file = hdf5_metno::File::open(dir.path().join("a.nxs")).unwrap();
    let own = file.dataset("/entry/fullcount/configuration").unwrap();
    let text: hdf5_metno::types::VarLenUnicode = own.read_scalar().unwrap();
    let own: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(own["job_id"], json!("x"));
}

#[test]
fn a_journal_that_cannot_be_read_does_not_stop_the_start() {
    let (dir, broker) = (tempfile::tempdir().unwrap(), broker());
    let mut writer = service(dir.path(), NOW, &broker);
    writer.order(&pool(0, &order("a", "a.nxs")), NOW, &broker);
    writer.order(&pool(1, &order("b", "b.nxs")), NOW, &broker);
    writer.end(NOW + S, true);
    drop(writer);
    fs::write(dir.path().join(".fullcount-write/writer-1/a.progress"), b"").unwrap();
    let mut writer = service(dir.path(), NOW + S, &broker);
    assert_eq!(writer.jobs().map(|job| job.id().to_owned()).collect::<Vec<_>>(), ["b"]);
    assert_eq!(count(&writer, WriteCounter::Failed), 1);
    let told = writer.notes();
    assert!(told.iter().any(|note| note.text.contains("a.progress")), "{told:?}");
}

#[test]
fn two_jobs_on_one_topic_that_are_killed_among_them_have_each_its_own_events() {
    let (dir, mut broker) = (tempfile::tempdir().unwrap(), broker());
    // An event each 100 ms, its pixel number in turn; Kafka's time is that of the event.
    let ns = |n: u64| (NOW + n * 100) as i64 * 1_000_000;
    for n in 0..200 {
        let pixel = (n % 128) as i32 + 1;
        broker.send("events", NOW + n * 100, &ev44("bank", n as i64, ns(n), &[n as i32], &[pixel]));
    }
    let structure = structure_of_events(1024);
    let begin = |job, file, from: u64| {
        let start_time = NOW + from * 100;
        Message::Pl72(RunStart { start_time, ..start(job, file, &structure) }).encode()
    };
    let mut writer = service(dir.path(), NOW, &broker);
    writer.order(&pool(0, &begin("a", "a.nxs", 20)), NOW, &broker);
    broker.feed(&mut writer, NOW, 30);
    writer.order(&pool(1, &begin("b", "b.nxs", 60)), NOW, &broker);
    // Each kill finds them at other places of the topic.
    let mut now = NOW;
    for most in [7, 50, 1, 23] {
        broker.feed(&mut writer, now, most);
        now += 3 * S;
        writer.tick(now);
        broker.feed(&mut writer, now, 11);
        drop(writer);
        writer = service(dir.path(), now, &broker);
        assert_eq!(count(&writer, WriteCounter::Resumed), 2, "{:?}", writer.notes());
    }
    writer.order(&pool(2, &halt("a", NOW + 12 * S, "c")), now, &broker);
    broker.feed(&mut writer, now, 13);
    drop(writer);
    let late = NOW + 40 * S;
    writer = service(dir.path(), late, &broker);
    assert_eq!(count(&writer, WriteCounter::Resumed), 2, "{:?}", writer.notes());
    writer.order(&pool_at(3, NOW + 15 * S, &halt("b", 0, "d")), late, &broker);
    broker.feed(&mut writer, late, usize::MAX);
    writer.tick(late);
    assert_eq!(writer.jobs().count(), 0);
    for (file, from, to) in [("a.nxs", 20, 120), ("b.nxs", 60, 150)] {
        let file = hdf5_metno::File::open(dir.path().join(file)).unwrap();
        let offsets = file.dataset("/entry/bank_events/event_time_offset").unwrap();
        assert_eq!(offsets.read_raw::<i32>().unwrap(), (from..=to).collect::<Vec<i32>>());
    }
    assert_balanced(&writer);
}
