//! How late events leave that a source is missing from, live: from the sender's socket to the file of records.
//!
//! The test is the senders and reads the file while it grows, so that sockets, engine and output are in what it sees. Source:
//! `docs/fragments.md`, `event_timeout`.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::gdgem_vectors::pcap;
use crate::readout::{ended, unit};
use crate::readout_attacked::{connect, fragment};
use crate::service::{PATIENCE, say};

const TIMEOUT: Duration = Duration::from_millis(400);
/// A loaded host puts no thread aside for longer.
const LOADED: Duration = Duration::from_secs(1);
/// From the hand-over, which is in time, to the look at the file, on a host that has a processor for each thread: the output looks at its
/// queue every 5 ms, this test at the file every millisecond.
const SEEN: Duration = Duration::from_millis(10);
/// Events that may be later than their time and what their threads waited for a processor: a hypervisor or a disk stops a host, and no
/// counter of the kernel tells of it.
const UNEXPLAINED: usize = INCOMPLETE / 10;
/// Events that all sources give, and those that one does not give.
const WHOLE: usize = 20;
const INCOMPLETE: usize = 100;

/// Numbers of the records that a growing file has by now.
struct Growing {
    file: File,
    bytes: Vec<u8>,
    at: usize,
}

impl Growing {
    fn open(path: &Path) -> Growing {
        Growing { file: File::open(path).expect("the file is made"), bytes: Vec::new(), at: 8 }
    }

    /// Of records that came since the last look; and when that was, behind the look.
    fn look(&mut self) -> (Vec<u64>, Instant) {
        self.file.read_to_end(&mut self.bytes).expect("a file");
        let (now, mut numbers) = (Instant::now(), Vec::new());
        let word = |at: usize| self.bytes.get(at..at + 8).map(|w| w.try_into().expect("8"));
        while let Some(len) = word(self.at + 24).map(u64::from_le_bytes) {
            if self.at + len as usize > self.bytes.len() {
                break;
            }
            numbers.push(u64::from_le_bytes(word(self.at + 8).expect("before its length")));
            self.at += len as usize;
        }
        (numbers, now)
    }
}

/// How long threads that could run had none of the processors, by the kernel's own count (`/proc/PID/schedstat`): of the unit and of this
/// one together, since each of them is on the way of an event.
struct Waits {
    folders: Vec<std::path::PathBuf>,
    seen: Vec<(Instant, Duration)>,
}

impl Waits {
    fn of(pid: u32) -> Waits {
        let folders = vec![format!("/proc/{pid}/task").into(), "/proc/thread-self".into()];
        Waits { folders, seen: Vec::new() }
    }

    /// Of one thread: time on a processor, time it waited for one, turns.
    fn thread(folder: &Path) -> Duration {
        let text = std::fs::read_to_string(folder.join("schedstat")).unwrap_or_default();
        let waited = text.split_whitespace().nth(1).and_then(|ns| ns.parse().ok());
        Duration::from_nanos(waited.unwrap_or(0))
    }

    fn look(&mut self, now: Instant) {
        let tasks = std::fs::read_dir(&self.folders[0]).into_iter().flatten().flatten();
        let tasks: Duration = tasks.map(|task| Waits::thread(&task.path())).sum();
        self.seen.push((now, tasks + Waits::thread(&self.folders[1])));
    }

    /// Between these, or a little more: from the last look before the one to the first behind the other.
    fn between(&self, from: Instant, to: Instant) -> Duration {
        let at = |n: usize| self.seen.get(n).or(self.seen.last()).map_or(Duration::ZERO, |s| s.1);
        let before = self.seen.partition_point(|(when, _)| *when <= from).saturating_sub(1);
        at(self.seen.partition_point(|(when, _)| *when < to) + 1).saturating_sub(at(before))
    }
}

fn give(stream: &mut TcpStream, source: u64, event: usize) {
    stream.write_all(&fragment(source, event as u64, 8)).expect("sent");
}

#[test]
fn incomplete_events_are_in_the_file_in_time() {
    are_in_the_file_in_time("1");
}

/// The processing thread looks at the time itself.
#[test]
fn incomplete_events_are_in_the_file_in_time_with_two_threads() {
    are_in_the_file_in_time("2");
}

fn are_in_the_file_in_time(threads: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run.rec");
    let timeout = format!("detector.event_timeout={}ms", TIMEOUT.as_millis());
    let records = path.to_string_lossy();
    let words = ["--records", &records, "--set", &timeout, "--threads", threads];
    let (unit, url) = unit(3, &words);
    let mut growing = Growing::open(&folder.path().join("run.rec.part"));
    let mut streams: Vec<TcpStream> = (0..3).map(|_| connect(&url)).collect();
    for event in 0..WHOLE {
        (0..).zip(&mut streams).for_each(|(source, stream)| give(stream, source, event));
    }
    // From here on the last source is stopped. An event every 4 ms; the file is looked at as often as it goes.
    let (mut sent, mut seen) = (Vec::new(), Vec::new());
    let mut waits = Waits::of(unit.child.id());
    let begun = Instant::now();
    while seen.len() < WHOLE + INCOMPLETE {
        if sent.len() < INCOMPLETE
            && begun.elapsed() >= Duration::from_millis(4) * sent.len() as u32
        {
            sent.push(Instant::now());
            let event = WHOLE + sent.len() - 1;
            (0..2).zip(&mut streams).for_each(|(source, stream)| give(stream, source, event));
        }
        let (numbers, now) = growing.look();
        waits.look(now);
        seen.extend(numbers.into_iter().map(|number| (number, now)));
        assert!(begun.elapsed() < PATIENCE, "{} records", seen.len());
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(seen.iter().map(|(number, _)| *number).eq(0..(WHOLE + INCOMPLETE) as u64));
    // Before the last event is judged.
    waits.look(Instant::now());
    let of = || seen[WHOLE..].iter().map(|(_, seen)| *seen).zip(sent.iter().copied());
    // Each event by itself: its time, the look, and what threads waited for a processor from then on.
    let due = |sent: Instant| sent + TIMEOUT;
    let explained = |(seen, sent): &(Instant, Instant)| {
        *seen <= due(*sent) + SEEN + waits.between(due(*sent), *seen)
    };
    let unexplained: Vec<_> =
        of().filter(|event| !explained(event)).map(|(seen, sent)| seen - sent).collect();
    assert!(unexplained.len() <= UNEXPLAINED, "{unexplained:?}");
    let mut late: Vec<Duration> = of().map(|(seen, sent)| seen - sent).collect();
    late.sort_unstable();
    println!(
        "first {:?}, median {:?}, last {:?}",
        late[0],
        late[INCOMPLETE / 2],
        late[INCOMPLETE - 1]
    );
    // None leaves early.
    assert!(late[0] >= TIMEOUT, "{late:?}");
    // Some at least show the unit rather than a host that has put it aside; of the others a loaded host delays some.
    assert!(late[0] <= TIMEOUT + SEEN, "{late:?}");
    assert!(late[INCOMPLETE - 1] <= TIMEOUT + LOADED, "{late:?}");
    drop(streams);
    let said = ended(unit);
    assert_eq!(said.code, 3, "{}", said.err);
    let counted =
        ["events.count", "events.incomplete", "events.expired", "fragments.source.2.lost"];
    let incomplete = INCOMPLETE as u64;
    assert_eq!(
        counted.map(|name| said.counter(name)),
        [WHOLE as u64 + incomplete, incomplete, incomplete, incomplete]
    );
    // The unit says the same of itself, without what sockets and the file took.
    let expired = Duration::from_millis(said.counter("events.expired_ms"));
    let most = late[INCOMPLETE - 1] + LOADED;
    assert!((TIMEOUT..=most).contains(&expired), "{expired:?} {most:?}");
}

/// No clock decides in a replay at recorded speed: the events without their second source wait for the end, 20 times the key's time.
#[test]
fn in_a_replay_no_event_leaves_by_its_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("half.pcap");
    let half: Vec<Vec<u8>> = (0..20).map(|event| fragment(0, event, 8)).collect();
    std::fs::write(&path, pcap(&half, 20_000)).expect("written");
    let url = format!("pcap:{}", path.display());
    let begun = Instant::now();
    let words = ["run", "--source", &url, "--detector", "fragments", "--sink", "null", "--web"];
    let keys = ["off", "--json", "--set", "detector.sources=2", "--set"];
    let said = say(&[&words[..], &keys, &["detector.event_timeout=10ms"]].concat());
    assert!(begun.elapsed() >= Duration::from_millis(380), "at recorded speed");
    let counted = ["events.count", "events.incomplete", "events.expired"];
    assert_eq!(counted.map(|name| said.counter(name)), [20, 20, 0], "{}", said.err);
}
