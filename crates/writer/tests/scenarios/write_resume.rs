//! A writer that is killed goes on where its journal says: no event is missing, none is there twice.
//!
//! What a kill -9 leaves is what the system has of the folder at that moment, so a copy of it, made between any two
//! calls, is that. A new writer goes on with the copy; its file must hold exactly the run's events and log entries.
//! Beside it: the file of the writer equals that of the nexus sink, event for event.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::write_made::*;
use fullcount_core::sink::Sink;
use fullcount_messages::{EventStream, LogValue, Message, Said, StreamOptions};
use fullcount_nexus::{Compression, DiskWay, NexusSink};
use fullcount_testing::made_events::{Dice, events, mixed, number_of, offset, pixel, pulse};
use fullcount_writer::{Options, Service, WriteCounter};
use hdf5_metno::File;
use serde_json::json;

/// Events with a log beside them, on one topic.
fn structure(chunk: usize) -> String {
    let mut whole: serde_json::Value = serde_json::from_str(&structure_of_events(chunk)).unwrap();
    let log = json!({"topic": "events", "source": "log", "dtype": "int64", "chunk_size": 16});
    let entry = whole["children"][0]["children"].as_array_mut().unwrap();
    entry.push(bare("log", json!([stream("f144", log)])));
    whole.to_string()
}

/// `n` events as messages of `each`, and a log entry after each message. Kafka's time is that of the events.
fn produce(broker: &mut Broker, n: u64, each: u64, dice: Option<&mut Dice>) -> u64 {
    let mut order: Vec<u64> = (0..n).step_by(each as usize).collect();
    if let Some(dice) = dice {
        // Near ones change places, as those of several producers do.
        for i in 1..order.len() {
            let other = i - dice.below(3.min(i as u64 + 1)) as usize;
            order.swap(i, other);
        }
    }
    for (id, &from) in order.iter().enumerate() {
        let range = from..n.min(from + each);
        let (mut times, mut index, mut tof, mut ids) = (vec![], vec![], vec![], vec![]);
        for i in range.clone() {
            if times.last() != Some(&pulse(i)) {
                times.push(pulse(i));
                index.push(tof.len() as i32);
            }
            tof.push(offset(i) as i32);
            ids.push(pixel(i) as i32);
        }
        let message = Message::Ev44(fullcount_messages::Events44 {
            source_name: "bank",
            message_id: id as i64,
            reference_time: times.into(),
            reference_time_index: index.into(),
            time_of_flight: Some(tof.into()),
            pixel_id: Some(ids.into()),
        });
        let ms = (pulse(from) / 1_000_000) as u64;
        broker.send("events", ms, &message);
        // A time of its own: one that is repeated is written once.
        let time = pulse(from) + from as i64;
        broker.send("events", ms, &f144("log", time, LogValue::Long(from as i64)));
    }
    order.len() as u64
}

/// Each event exactly once, in its pulse; each log entry exactly once.
fn verify(path: &Path, n: u64, logs: u64) {
    let file = File::open(path).unwrap();
    let column = |name: &str| {
        file.dataset(&format!("/entry/bank_events/{name}")).unwrap().read_raw::<i64>().unwrap()
    };
    let (id, after, index, zero) = (
        column("event_id"),
        column("event_time_offset"),
        column("event_index"),
        column("event_time_zero"),
    );
    assert_eq!((id.len(), after.len()), (n as usize, n as usize));
    assert_eq!(index.len(), zero.len());
    assert!(index.is_sorted() && index.iter().all(|&i| i <= n as i64));
    let mut seen = vec![false; n as usize];
    let ends = index.iter().skip(1).copied().chain([n as i64]);
    for ((&first, end), &zero) in index.iter().zip(ends).zip(&zero) {
        for at in first as usize..end as usize {
            let i = number_of(zero, after[at] as u32).expect("an event of the run");
            assert_eq!(id[at], i64::from(pixel(i)));
            assert!(!std::mem::replace(&mut seen[i as usize], true), "event {i} twice");
        }
    }
    let total =
        file.dataset("/entry/bank_events/total_counts").unwrap().read_scalar::<u64>().unwrap();
    assert_eq!(total, n);
    let mut log = file.dataset("/entry/log/value").unwrap().read_raw::<i64>().unwrap();
    log.sort_unstable();
    log.dedup();
    assert_eq!(log.len() as u64, logs);
    assert_eq!(file.dataset("/entry/log/time").unwrap().size() as u64, logs);
    assert!(
        !file
            .dataset("/entry/end_time")
            .unwrap()
            .read_scalar::<hdf5_metno::types::FixedUnicode<32>>()
            .unwrap()
            .is_empty()
    );
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

fn finish(service: &mut Service, broker: &Broker, stop_ms: u64) {
    let end = stop_ms + 10_001;
    if service.jobs().any(|job| job.stop_ms().is_none()) {
        let order = Message::S6s4t(stop("job", stop_ms, "c")).encode();
        service.order(&pool(1, &order), stop_ms, broker);
    }
    broker.feed(service, end, usize::MAX);
    service.tick(end);
    assert_eq!(service.jobs().count(), 0, "{:?}", service.notes());
    assert_eq!(count(service, WriteCounter::Failed), 0);
    assert_balanced(service);
}

/// A run of `n` events in messages of `each` and chunks of `chunk`, killed between any two turns of up to `turn` messages; once
/// for each way to write.
struct Run {
    n: u64,
    each: u64,
    chunk: usize,
    turn: u64,
    ways: Vec<(DiskWay, Compression)>,
}

impl Run {
    fn kill_at_any_moment(&self) {
        let mut broker = Broker::with(&["events", "control"]);
        let mut dice = Dice(7);
        let logs = produce(&mut broker, self.n, self.each, Some(&mut dice));
        let stop_ms = (pulse(self.n) / 1_000_000) as u64 + 1;
        let structure = structure(self.chunk);
        for &(disk, compression) in &self.ways {
            let dir = tempfile::tempdir().unwrap();
            let data = dir.path().join("data");
            fs::create_dir(&data).unwrap();
            let options = Options { disk, compression, ..options(&data) };
            let mut service = Service::new(options.clone(), 1000, &broker).unwrap();
            let order = Message::Pl72(start("job", "run.nxs", &structure)).encode();
            service.order(&pool(0, &order), 1000, &broker);
            let (mut now, mut kills) = (1000, 0);
            loop {
                let most = 1 + dice.below(self.turn) as usize;
                let given = broker.feed(&mut service, now, most);
                // Some flushes, at no special place.
                now += dice.below(1500);
                service.tick(now);
                kills += 1;
                let killed = dir.path().join(format!("killed-{kills}"));
                copy(&data, &killed);
                let mut other = options.clone();
                other.folder = killed.clone();
                // Whoever goes on may write in another way, and be told to compress what is not compressed.
                (other.disk, other.compression) = self.ways[kills % self.ways.len()];
                let mut next = Service::new(other, now, &broker).unwrap();
                assert_eq!(count(&next, WriteCounter::Resumed), 1, "{:?}", next.notes());
                // The order comes again: its place in the pool was not committed.
                next.order(&pool(0, &order), now, &broker);
                assert_eq!(count(&next, WriteCounter::OrderAgain), 1);
                finish(&mut next, &broker, stop_ms);
                verify(&killed.join("run.nxs"), self.n, logs);
                fs::remove_dir_all(&killed).unwrap();
                if given < most {
                    break;
                }
            }
            assert!(kills > 5, "{kills}");
            finish(&mut service, &broker, stop_ms);
            verify(&data.join("run.nxs"), self.n, logs);
        }
    }
}

#[test]
fn a_kill_at_any_moment_costs_no_event_and_doubles_none() {
    let direct = (DiskWay::Direct, Compression::None);
    let ways = vec![direct, direct, direct, (DiskWay::Direct, Compression::Gzip(1))];
    Run { n: 12_000, each: 300, chunk: 1024, turn: 15, ways }.kill_at_any_moment();
}

/// Chunks beyond HDF5's cache, whose length is no multiple of what a disk writes at once: their bytes go past HDF5.
#[test]
fn a_kill_while_large_blocks_are_on_their_way_does_not_either() {
    let ways = [DiskWay::Direct, DiskWay::Cached].map(|disk| (disk, Compression::None)).into();
    Run { n: 700_000, each: 30_000, chunk: 300_001, turn: 6, ways }.kill_at_any_moment();
}

#[test]
fn a_job_killed_while_it_is_made_begins_anew_and_one_that_is_kept_goes_on() {
    let mut broker = Broker::with(&["events", "control"]);
    let logs = produce(&mut broker, 5000, 500, None);
    let stop_ms = (pulse(5000) / 1_000_000) as u64 + 1;
    let structure = structure(1024);
    let dir = tempfile::tempdir().unwrap();
    let mut service = Service::new(options(dir.path()), 1000, &broker).unwrap();
    let order = Message::Pl72(start("job", "run.nxs", &structure)).encode();
    service.order(&pool(0, &order), 1000, &broker);
    broker.feed(&mut service, 1000, 7);
    service.end(1500, true);
    drop(service);
    // Kept, then killed between the order and the first flush: the file is there, but not the place in it.
    let elsewhere = tempfile::tempdir().unwrap();
    let killed = elsewhere.path().join("killed");
    copy(dir.path(), &killed);
    fs::remove_file(killed.join(".fullcount-write/writer-1/job.progress")).unwrap();
    for folder in [dir.path(), killed.as_path()] {
        let mut service = Service::new(options(folder), 2000, &broker).unwrap();
        finish(&mut service, &broker, stop_ms);
        verify(&folder.join("run.nxs"), 5000, logs);
        replies(&mut service);
    }
    assert!(journals(dir.path()).is_empty(), "nothing is left");
}

#[test]
fn a_journal_that_does_not_fit_its_file_is_put_aside_and_the_service_lives_on() {
    let broker = Broker::with(&["events", "control"]);
    let dir = tempfile::tempdir().unwrap();
    let structure = structure(1024);
    let mut service = Service::new(options(dir.path()), 1000, &broker).unwrap();
    let order = Message::Pl72(start("job", "run.nxs", &structure)).encode();
    service.order(&pool(0, &order), 1000, &broker);
    service.end(1500, true);
    drop(service);
    fs::remove_file(dir.path().join("run.nxs")).unwrap();
    let mut service = Service::new(options(dir.path()), 2000, &broker).unwrap();
    assert_eq!((service.jobs().count(), count(&service, WriteCounter::Failed)), (0, 1));
    let done = replies(&mut service).into_iter().find(|(_, m)| m["schema"] == "wrdn").unwrap().1;
    assert_eq!((&done["error_encountered"], &done["job_id"]), (&true.into(), &"job".into()));
    assert!(dir.path().join(".fullcount-write/writer-1/job.failed").exists());
    drop(service);
    assert_eq!(Service::new(options(dir.path()), 2000, &broker).unwrap().files().len(), 0);
}

#[test]
fn the_file_equals_that_of_the_nexus_sink_event_for_event() {
    const N: u64 = 100_000;
    let dir = tempfile::tempdir().unwrap();
    let mut dice = Dice(3);
    for round in 0..2 {
        let mut o = fullcount_nexus::NexusOptions::new(
            dir.path().join(format!("sink-{round}.nxs")),
            fullcount_testing::made_events::map(),
        );
        o.chunk_events = 4096;
        let mut sink = NexusSink::create(&o).unwrap();
        let mut stream_options = StreamOptions::new("bank");
        stream_options.capacity = 900;
        let mut events_out = EventStream::new(stream_options).unwrap();
        let mut broker = Broker::with(&["events", "control"]);
        let mut send = |said: Said<'_>| {
            if let Said::Message(ready) = said {
                broker.send_bytes("events", 1000, ready.bytes.to_vec());
            }
        };
        for from in (0..N).step_by(2500) {
            let to = N.min(from + 2500);
            let batch = if round == 0 { events(from, to) } else { mixed(from, to, &mut dice) };
            sink.push(&batch).unwrap();
            events_out.push(&batch.events, &mut send);
            events_out.tick(Duration::from_millis(from / 10), &mut send);
        }
        events_out.finish(&mut send);
        sink.finish().unwrap();
        let data = dir.path().join(format!("data-{round}"));
        fs::create_dir(&data).unwrap();
        let mut service = Service::new(options(&data), 1000, &broker).unwrap();
        let structure = structure_of_events(4096);
        let order = Message::Pl72(start("job", "run.nxs", &structure)).encode();
        service.order(&pool(0, &order), 1000, &broker);
        finish(&mut service, &broker, (pulse(N) / 1_000_000) as u64 + 1);
        let read = |path: &Path| {
            let file = File::open(path).unwrap();
            let column = |name: &str| {
                file.dataset(&format!("/entry/bank_events/{name}"))
                    .unwrap()
                    .read_raw::<i64>()
                    .unwrap()
            };
            let (id, after, index, zero) = (
                column("event_id"),
                column("event_time_offset"),
                column("event_index"),
                column("event_time_zero"),
            );
            let ends = index.iter().skip(1).copied().chain([id.len() as i64]);
            let mut all = Vec::new();
            for ((&first, end), &zero) in index.iter().zip(ends).zip(&zero) {
                all.extend((first as usize..end as usize).map(|at| (zero, after[at], id[at])));
            }
            // Rows of a pulse may be several; events of a pulse are compared as they came.
            all.sort_by_key(|event| event.0);
            all
        };
        let (ours, theirs) = (read(&data.join("run.nxs")), read(&o.path));
        assert_eq!(ours.len() as u64, N);
        assert!(ours == theirs, "round {round}");
        assert_eq!(
            fullcount_nexus::check(&data.join("run.nxs")).map_err(|e| e.to_string()),
            Ok(vec![])
        );
    }
}
