//! A disk that fails under the file of one job: that job ends with words that say what is lost, where, and what to change;
//! its id is free again, nothing of it stays open, and the other jobs and the service live on.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Command;

use crate::write_made::*;
use fullcount_messages::{LogValue, Message, RunStart};
use fullcount_testing::small_disk::{Disk, failures};
use fullcount_writer::{Service, WriteCounter};
use serde_json::{Value, json};

/// ms since 1970.
const NOW: u64 = 1_000_000;
const S: u64 = 1000;
/// Events of a message: some chunks of them.
const EACH: i32 = 3000;

/// Events of `bank` on the topic `events`, and numbers of `log` on the topic `logs`.
fn structure_of(chunk: usize) -> String {
    let bank = json!({"topic": "events", "source": "bank", "chunk_size": chunk});
    let log = json!({"topic": "logs", "source": "log", "dtype": "int64"});
    let entry = json!([
        bare("bank_events", json!([stream("ev44", bank)])),
        bare("log", json!([stream("f144", log)])),
    ]);
    json!({"children": [group("entry", "NXentry", entry)]}).to_string()
}

fn structure() -> String {
    structure_of(1024)
}

fn service(folder: &Path) -> (Service, Broker) {
    let broker = Broker::with(&["events", "logs", "control"]);
    (Service::new(options(folder), NOW, &broker).unwrap(), broker)
}

/// A run from [`NOW`] on.
fn begin(service: &mut Service, broker: &Broker, job: &str, file: &str, now: u64) {
    begin_with(service, broker, (job, file), now, &structure());
}

fn begin_with(
    service: &mut Service,
    broker: &Broker,
    (job, file): (&str, &str),
    now: u64,
    structure: &str,
) {
    let order = RunStart { start_time: NOW, ..start(job, file, structure) };
    let offset = count(service, WriteCounter::Orders) as i64;
    service.order(&pool(offset, &Message::Pl72(order).encode()), now, broker);
    assert!(service.job(job).is_some(), "{:?}", service.notes());
}

fn halt(service: &mut Service, broker: &Broker, job: &str, now: u64) {
    let offset = count(service, WriteCounter::Orders) as i64;
    let order = Message::S6s4t(stop(job, now, &format!("stop of {job}"))).encode();
    service.order(&pool(offset, &order), now, broker);
}

/// A message with events and one with a number, at this time, ms since 1970.
fn produce(service: &mut Service, broker: &mut Broker, at: u64) {
    produce_events(service, broker, at, EACH);
}

fn produce_events(service: &mut Service, broker: &mut Broker, at: u64, events: i32) {
    let zero = at as i64 * 1_000_000;
    let values: Vec<i32> = (0..events).collect();
    broker.send("events", at, &ev44("bank", 1, zero, &values, &values));
    broker.send("logs", at, &f144("log", zero, LogValue::Long(at as i64)));
    broker.feed(service, at, usize::MAX);
}

/// The end of a job, and its metadata.
fn end_of(service: &mut Service, job: &str) -> (Value, Value) {
    let all = replies(service).into_iter().map(|(_, m)| m);
    let end = all.filter(|m| m["schema"] == "wrdn").find(|m| m["job_id"] == job).expect("its end");
    let facts = serde_json::from_str(end["metadata"].as_str().unwrap()).unwrap();
    (end, facts)
}

/// Events and numbers in a file.
fn rows_of(path: &Path) -> (usize, usize) {
    let file = hdf5_metno::File::open(path).unwrap();
    let rows = |name: &str| file.dataset(name).unwrap().size();
    (rows("/entry/bank_events/event_id"), rows("/entry/log/value"))
}

/// The job `other` has had `messages` of each kind; `again`, which is begun now, is to have them too.
fn the_others_live_on(
    service: &mut Service,
    broker: &mut Broker,
    folder: &Path,
    now: u64,
    again: &str,
) {
    begin(service, broker, again, "again.nxs", now);
    produce(service, broker, now + 1);
    for job in [again, "other"] {
        halt(service, broker, job, now + S);
    }
    let sent = broker.0["events"].len();
    broker.feed(service, now + 12 * S, usize::MAX);
    service.tick(now + 12 * S);
    assert_eq!(service.jobs().count(), 0);
    let said = replies(service);
    let good = |m: &Value| m["schema"] == "wrdn" && m["error_encountered"] == false;
    assert_eq!(said.iter().filter(|(_, m)| good(m)).count(), 2, "{said:?}");
    for file in ["again.nxs", "other.nxs"] {
        assert_eq!(rows_of(&folder.join(file)), (sent * EACH as usize, sent));
    }
    assert_eq!(count(service, WriteCounter::Failed), 1);
    assert_balanced(service);
}

#[test]
fn a_disk_that_fails_ends_the_job_that_meets_it_and_its_id_is_free() {
    for how in failures() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path();
        let Some(disk) = Disk::of_ext4(&folder.join("disk")) else { return };
        let (mut service, mut broker) = service(folder);
        begin(&mut service, &broker, "a", "disk/a.nxs", NOW);
        begin(&mut service, &broker, "other", "other.nxs", NOW);
        produce(&mut service, &mut broker, NOW + 1);
        produce(&mut service, &mut broker, NOW + 2);
        service.tick(NOW + 3 * S);
        assert_eq!(count(&service, WriteCounter::Events), 4 * EACH as u64);
        // Some events are in HDF5's hands, others not yet: a chunk has 1024.
        produce(&mut service, &mut broker, NOW + 4 * S);
        disk.fail(how);
        service.tick(NOW + 6 * S);
        assert!(service.job("a").is_none() && service.job("other").is_some());
        let (end, facts) = end_of(&mut service, "a");
        assert_eq!(end["error_encountered"], true);
        let words = end["message"].as_str().unwrap();
        let path = disk.0.join("a.nxs");
        let wanted = [
            &*format!("{}: cannot ", path.display()),
            how.words(),
            "not in it: 2 messages with 3000 events that came since, and what comes from events/0 offset 2, \
             logs/0 offset 2 on",
            "then start the run again with its start and stop time and another file name",
        ];
        assert!(wanted.iter().all(|part| words.contains(part)), "{words}");
        assert_eq!(facts["continue_from"], json!({"events": {"0": 2}, "logs": {"0": 2}}));
        assert_eq!(
            (&facts["events_unwritten"], &facts["messages_unwritten"]),
            (&3000.into(), &2.into())
        );
        assert_eq!(count(&service, WriteCounter::Unwritten), EACH as u64);
        assert!(disk.unmount(), "{how:?}: something is still open there: {words}");
        the_others_live_on(&mut service, &mut broker, folder, NOW + 7 * S, "a");
    }
}

/// Chunks of 1.2 MB: their rows go to the disk on a thread of their own.
#[test]
fn a_disk_that_refuses_large_rows_ends_their_job() {
    const MANY: i32 = 700_000;
    for how in failures() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path();
        let Some(disk) = Disk::of_ext4(&folder.join("disk")) else { return };
        let (mut service, mut broker) = service(folder);
        let structure = structure_of(300_000);
        begin_with(&mut service, &broker, ("a", "disk/a.nxs"), NOW, &structure);
        begin_with(&mut service, &broker, ("other", "other.nxs"), NOW, &structure);
        produce_events(&mut service, &mut broker, NOW + 1, MANY);
        service.tick(NOW + 3 * S);
        assert_eq!(count(&service, WriteCounter::Events), 2 * MANY as u64);
        disk.fail(how);
        produce_events(&mut service, &mut broker, NOW + 4 * S, MANY);
        service.tick(NOW + 6 * S);
        assert!(service.job("a").is_none() && service.job("other").is_some());
        let (end, facts) = end_of(&mut service, "a");
        let words = end["message"].as_str().unwrap();
        assert!(words.contains(how.words()), "{words}");
        assert_eq!(
            facts["continue_from"],
            json!({"events": {"0": 1}, "logs": {"0": 1}}),
            "{words}"
        );
        assert_eq!(facts["events_unwritten"], MANY);
        assert!(disk.unmount(), "{how:?}: something is still open there: {words}");
        halt(&mut service, &broker, "other", NOW + 7 * S);
        broker.feed(&mut service, NOW + 19 * S, usize::MAX);
        service.tick(NOW + 19 * S);
        assert_eq!(rows_of(&folder.join("other.nxs")), (2 * MANY as usize, 2));
        assert_balanced(&service);
    }
}

#[test]
fn a_disk_that_fails_when_a_run_is_completed_leaves_nothing_open() {
    for how in failures() {
        let dir = tempfile::tempdir().unwrap();
        let Some(disk) = Disk::of_ext4(&dir.path().join("disk")) else { return };
        let (mut service, mut broker) = service(dir.path());
        begin(&mut service, &broker, "a", "disk/a.nxs", NOW);
        produce(&mut service, &mut broker, NOW + 1);
        service.tick(NOW + 3 * S);
        disk.fail(how);
        halt(&mut service, &broker, "a", NOW + 4 * S);
        broker.feed(&mut service, NOW + 16 * S, usize::MAX);
        service.tick(NOW + 16 * S);
        assert!(service.job("a").is_none());
        let (end, facts) = end_of(&mut service, "a");
        let words = end["message"].as_str().unwrap();
        assert!(end["error_encountered"] == true && words.contains(how.words()), "{words}");
        assert_eq!(facts["events_unwritten"], 0, "{words}");
        assert!(disk.unmount(), "{how:?}: something is still open there: {words}");
    }
}

#[test]
fn another_file_at_the_path_of_a_run_is_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let (mut service, mut broker) = service(folder);
    begin(&mut service, &broker, "a", "a.nxs", NOW);
    begin(&mut service, &broker, "other", "other.nxs", NOW);
    produce(&mut service, &mut broker, NOW + 1);
    service.tick(NOW + 3 * S);
    produce(&mut service, &mut broker, NOW + 4 * S);
    let (path, moved) = (folder.join("a.nxs"), folder.join("moved.nxs"));
    std::fs::rename(&path, &moved).unwrap();
    // It could be cut: it has the columns of the first, and its state.
    std::fs::copy(&moved, &path).unwrap();
    let before = std::fs::read(&path).unwrap();
    service.tick(NOW + 6 * S);
    let (end, facts) = end_of(&mut service, "a");
    let words = end["message"].as_str().unwrap();
    let wanted = ["another file was put there", "leave a file where it is", "fullcount recover"];
    assert!(wanted.iter().all(|part| words.contains(part)), "{words}");
    assert_eq!(facts["continue_from"], json!({"events": {"0": 1}, "logs": {"0": 1}}), "{words}");
    assert!(std::fs::read(&path).unwrap() == before, "it was changed");
    std::fs::remove_file(&path).unwrap();
    the_others_live_on(&mut service, &mut broker, folder, NOW + 7 * S, "a");
}

#[test]
fn a_disk_that_fails_under_the_journals_too_is_survived() {
    for how in failures() {
        let dir = tempfile::tempdir().unwrap();
        let Some(disk) = Disk::of_ext4(&dir.path().join("disk")) else { return };
        let (mut service, mut broker) = service(&disk.0);
        for job in ["a", "b"] {
            begin(&mut service, &broker, job, &format!("{job}.nxs"), NOW);
        }
        produce(&mut service, &mut broker, NOW + 1);
        disk.fail(how);
        service.tick(NOW + 3 * S);
        assert_eq!(service.jobs().count(), 0);
        let structure = structure();
        let order = Message::Pl72(start("c", "c.nxs", &structure)).encode();
        service.order(&pool(9, &order), NOW + 4 * S, &broker);
        let said = replies(&mut service);
        let ends: Vec<&Value> =
            said.iter().map(|(_, m)| m).filter(|m| m["schema"] == "wrdn").collect();
        assert_eq!(ends.len(), 2, "said although it cannot be kept: {said:?}");
        assert!(ends.iter().all(|m| m["error_encountered"] == true));
        let answer = &said.iter().rfind(|(_, m)| m["schema"] == "answ").unwrap().1;
        assert_eq!((&answer["job_id"], &answer["status_code"]), (&"c".into(), &500.into()));
        assert_eq!(count(&service, WriteCounter::Unwritten), 2 * EACH as u64);
        assert_balanced(&service);
        drop(service);
        assert!(disk.unmount(), "{how:?}: something is still open there");
    }
}

#[test]
fn a_folder_that_is_removed_ends_its_job_at_the_next_flush() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    std::fs::create_dir(folder.join("sub")).unwrap();
    let (mut service, mut broker) = service(folder);
    begin(&mut service, &broker, "a", "sub/a.nxs", NOW);
    begin(&mut service, &broker, "other", "other.nxs", NOW);
    produce(&mut service, &mut broker, NOW + 1);
    service.tick(NOW + 3 * S);
    std::fs::remove_dir_all(folder.join("sub")).unwrap();
    produce(&mut service, &mut broker, NOW + 4 * S);
    service.tick(NOW + 6 * S);
    let (end, facts) = end_of(&mut service, "a");
    assert_eq!(end["error_encountered"], true);
    let words = end["message"].as_str().unwrap();
    let wanted = [
        "sub/a.nxs",
        "removed or moved away",
        "with it everything that was flushed",
        "make the folder",
    ];
    assert!(wanted.iter().all(|part| words.contains(part)), "{words}");
    assert_eq!(facts["continue_from"], json!({}), "the whole run");
    the_others_live_on(&mut service, &mut broker, folder, NOW + 7 * S, "a");
}

const CHILD: &str = "FULLCOUNT_LIMITED_CHILD";

/// Files may not become larger than 4 or 8 MiB here.
fn with_a_limit(folder: &Path) {
    let (mut service, mut broker) = service(folder);
    begin(&mut service, &broker, "a", "a.nxs", NOW);
    let mut now = NOW;
    while service.job("a").is_some() {
        assert!(now < NOW + 10_000 * S, "the limit never came");
        now += 3 * S;
        produce(&mut service, &mut broker, now);
        service.tick(now);
    }
    let (end, _) = end_of(&mut service, "a");
    let words = end["message"].as_str().unwrap();
    let wanted =
        ["a.nxs: cannot ", "File too large", "not in it: ", "raise the limit of file sizes"];
    assert!(wanted.iter().all(|part| words.contains(part)), "{words}");
    // What the next run has to hold is small.
    begin(&mut service, &broker, "other", "other.nxs", now);
    broker.0.values_mut().for_each(Vec::clear);
    the_others_live_on(&mut service, &mut broker, folder, now, "a");
    println!("lived on");
}

#[test]
fn a_limit_of_file_sizes_ends_the_job_that_meets_it() {
    if let Some(folder) = std::env::var_os(CHILD) {
        return with_a_limit(Path::new(&folder));
    }
    let dir = tempfile::tempdir().unwrap();
    // Blocks of 512 or 1024 bytes: 4 or 8 MiB.
    let shell = "trap '' XFSZ; ulimit -f 8192; exec \"$0\" --exact \
                 write_disk::a_limit_of_file_sizes_ends_the_job_that_meets_it --nocapture";
    let output = Command::new("sh")
        .args(["-c", shell])
        .arg(std::env::current_exe().unwrap())
        .env(CHILD, dir.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("lived on"), "{text}\n{errors}");
}
