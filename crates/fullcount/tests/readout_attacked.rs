//! The readout unit under senders that are wrong or hostile, and operators that end it at a bad time: what is wrong is named, the rest goes on.
//!
//! The senders are sockets of this test and write fragments that it encodes itself. Source: `docs/fragments.md`.

use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;

use crate::readout::{control, ended, records, unit, until_sources};
use crate::service::{PATIENCE, Said, say, until_counter};

/// A fragment in one block, with so many words between header and trailer.
pub fn fragment(source: u64, event: u64, words: usize) -> Vec<u8> {
    told(source, event, words, words as u64 + 2)
}

/// The same, whose trailer tells this length in words.
fn told(source: u64, event: u64, words: usize, length: u64) -> Vec<u8> {
    let event = event & 0x00ff_ffff;
    let mut all = vec![5 << 60 | event << 32 | source << 8];
    all.extend((0..words as u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    all.push(0xa << 60 | length << 32 | 8 << 4);
    let crc = all.iter().flat_map(|word| word.to_be_bytes()).fold(0xffffu32, |crc, byte| {
        (0..8).fold(crc ^ (u32::from(byte) << 8), |crc, _| {
            (if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x8005 }) & 0xffff
        })
    });
    *all.last_mut().expect("three words") |= u64::from(crc) << 16;
    let mut bytes = header(source, event, all.len() as u64).to_vec();
    bytes.extend(all.iter().flat_map(|word| word.to_le_bytes()));
    bytes
}

/// Of the only block of a fragment.
fn header(source: u64, event: u64, words: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&(0x475a << 48 | 3 << 30 | words).to_be_bytes());
    bytes[8..].copy_from_slice(&(source << 32 | event & 0x00ff_ffff).to_be_bytes());
    bytes
}

pub fn connect(url: &str) -> TcpStream {
    let stream = TcpStream::connect(url.trim_start_matches("tcp://")).expect("the unit listens");
    // A unit that no longer reads is a failure, not a hang.
    stream.set_write_timeout(Some(PATIENCE)).expect("a time");
    stream
}

/// Fragments of these events.
fn give(stream: &mut TcpStream, source: u64, events: std::ops::Range<u64>) {
    for event in events {
        stream.write_all(&fragment(source, event, 8)).expect("sent");
    }
}

/// A sender of its own that gives fragments of nearly 4 KiB, and waits when the unit makes it.
fn give_much(
    url: &str,
    source: u64,
    events: std::ops::Range<u64>,
) -> std::thread::JoinHandle<bool> {
    let mut stream = connect(url);
    let block = fragment(source, 0, 500);
    std::thread::spawn(move || {
        events.into_iter().all(|event| {
            let mut block = block.clone();
            // Checksums are not looked at.
            block[8..16].copy_from_slice(&header(source, event, 502)[8..]);
            block[20..23].copy_from_slice(&(event as u32).to_le_bytes()[..3]);
            stream.write_all(&block).is_ok()
        })
    })
}

fn counters<const N: usize>(said: &Said, names: [&str; N]) -> [u64; N] {
    names.map(|name| said.counter(name))
}

#[test]
fn connections_that_send_nothing_or_half_a_header_hold_nobody_up() {
    let (mut unit, url) = unit(2, &["--sink", "null", "--control", "127.0.0.1:0"]);
    let mut port = TcpStream::connect(control(&mut unit)).expect("the control port");
    let silent: Vec<TcpStream> = (0..600).map(|_| connect(&url)).collect();
    let mut half: Vec<TcpStream> = (0..20).map(|_| connect(&url)).collect();
    half.iter_mut().for_each(|stream| stream.write_all(&header(0, 0, 3)[..9]).expect("sent"));
    let mut good = [connect(&url), connect(&url)];
    (0..).zip(&mut good).for_each(|(source, stream)| give(stream, source, 0..1000));
    until_counter(&mut port, "events.count", 1000);
    until_counter(&mut port, "tcp.streams", 622);
    drop((silent, half, good));
    let said = ended(unit);
    let counted = counters(&said, ["events.count", "fragments.lost", "tcp.begun", "tcp.cut"]);
    assert_eq!((said.code, counted), (3, [1000, 0, 622, 20]), "{}", said.err);
    assert!(said.err.contains("ended within a packet: 9 B of it are lost"), "{}", said.err);
    // Silence takes no memory: that of received bytes is what a few reads need.
    assert!(said.counter("tcp.memory") <= 16 << 20, "{}", said.counter("tcp.memory"));
}

#[test]
fn a_stream_whose_source_changes_is_refused_and_the_other_source_keeps_its_own() {
    let (mut unit, url) = unit(2, &["--sink", "null", "--control", "127.0.0.1:0"]);
    let at = control(&mut unit);
    let (mut flips, mut own) = (connect(&url), connect(&url));
    give(&mut own, 1, 0..10);
    until_sources(&at, "source 1 has its stream", |said| said.contains("10 fragments"));
    give(&mut flips, 0, 0..10);
    give(&mut flips, 1, 10..11);
    give(&mut own, 1, 10..20);
    drop(own);
    let said = ended(unit);
    let names = ["events.count", "fragments.doubled_source", "tcp.refused.decoder"];
    assert_eq!((said.code, counters(&said, names)), (3, [20, 1, 1]), "{}", said.err);
    let lost = ["fragments.source.0.lost", "fragments.source.1.lost"];
    assert_eq!(counters(&said, lost), [10, 0], "{}", said.err);
    let told = "source 1 comes on the stream of another source";
    assert!(said.err.contains(told), "{}", said.err);
    drop(flips);
}

#[test]
fn lengths_beyond_all_bounds_close_a_stream_or_mark_an_event() {
    let (unit, url) = unit(2, &["--sink", "null"]);
    let mut good = [connect(&url), connect(&url)];
    give(&mut good[0], 0, 0..10);
    give(&mut good[1], 1, 0..9);
    // The trailer's length has 24 bits; the block's 10, of which 4080 bytes are the most that is allowed.
    good[1].write_all(&told(1, 9, 8, 0x00ff_ffff)).expect("sent");
    let mut hostile = connect(&url);
    hostile.write_all(&header(0, 10, 0x3ff)).expect("sent");
    drop(good);
    let said = ended(unit);
    let names = ["events.count", "events.marked", "fragments.wrong_length", "fragments.lost"];
    assert_eq!(counters(&said, names), [10, 1, 1, 0], "{}", said.err);
    let closed = said.counter("tcp.refused.start") + said.counter("tcp.refused.long");
    assert_eq!(closed, 1, "{}", said.err);
    assert!(said.err.contains("closed: "), "{}", said.err);
    drop(hostile);
}

#[test]
fn a_stream_of_duplicates_is_read_counted_and_takes_no_memory() {
    let (unit, url) = unit(2, &["--sink", "null", "--set", "detector.memory=1MiB"]);
    let mut good = connect(&url);
    give(&mut good, 1, 0..10);
    let mut again = connect(&url);
    let same = fragment(0, 0, 500);
    // 16 times the memory.
    (0..4000).for_each(|_| again.write_all(&same).expect("the unit reads on"));
    drop((good, again));
    let said = ended(unit);
    let names = ["events.count", "fragments.repeated", "fragments.source.0.lost"];
    assert_eq!((said.code, counters(&said, names)), (3, [10, 3999, 9]), "{}", said.err);
}

#[test]
fn numbers_go_on_where_24_bits_end_and_larger_ones_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run.rec");
    // All 64 bits may be asked for as far as TOML has numbers; the lower 24 count.
    let first = format!("detector.first_event={}", (i64::MAX & !0x00ff_ffff) | 0x00ff_fff0);
    let (unit, url) = unit(2, &["--records", &path.to_string_lossy(), "--set", &first]);
    let mut both = [connect(&url), connect(&url)];
    let (begin, end) = (0x00ff_fff0, 0x0100_0010);
    (0..).zip(&mut both).for_each(|(source, stream)| give(stream, source, begin..end));
    drop(both);
    let said = ended(unit);
    assert_eq!((said.code, said.counter("events.count")), (0, 32), "{}", said.err);
    assert!(records(&path).iter().map(|(number, ..)| *number).eq(begin..end));
    let words = ["run", "--source", "tcp://127.0.0.1:0", "--detector", "fragments"];
    for number in ["18446744073709551615", "18446744073709551616", "-1"] {
        let set = format!("detector.first_event={number}");
        let said = say(&[&words[..], &["--web", "off", "--set", &set]].concat());
        assert!(said.code == 2 && said.err.contains("first_event"), "{number}: {}", said.err);
    }
}

#[test]
fn events_leave_at_their_time_while_streams_are_paused() {
    let keys = ["detector.memory=1MiB", "detector.event_timeout=50ms", "detector.crc_every=0"];
    let keys: Vec<&str> = keys.iter().flat_map(|key| ["--set", key]).collect();
    let (unit, url) = unit(3, &[&["--sink", "null"][..], &keys].concat());
    let mut stalled = connect(&url);
    give(&mut stalled, 2, 0..1);
    let (first, second) = (give_much(&url, 0, 0..2000), give_much(&url, 1, 0..2000));
    assert!(first.join().expect("it ends") && second.join().expect("it ends"));
    drop(stalled);
    let said = ended(unit);
    let names = ["events.count", "events.incomplete", "fragments.source.2.lost"];
    assert_eq!((said.code, counters(&said, names)), (3, [2000, 1999, 1999]), "{}", said.err);
    assert!(said.counter("merge.pauses") > 0, "{}", said.err);
    // Of the others the unit loses none that the kernel has; a loaded host may put a sender aside for longer than they are waited for.
    let late = said.counter("fragments.late");
    assert!(said.counter("fragments.lost") == 1999 + late && late < 500, "{}", said.err);
}

#[test]
fn a_unit_is_ended_while_all_that_send_are_paused() {
    for waits in [false, true] {
        let keys = ["--set", "detector.memory=1MiB", "--set", "detector.crc_every=0"];
        let words = [&["--sink", "null", "--control", "127.0.0.1:0"][..], &keys].concat();
        let (mut unit, url) = unit(3, &words);
        let at = control(&mut unit);
        let mut stalled = connect(&url);
        give(&mut stalled, 2, 0..1);
        let senders = [give_much(&url, 0, 0..1 << 20), give_much(&url, 1, 0..1 << 20)];
        until_sources(&at, "both are paused", |said| said.matches(", paused,").count() == 2);
        if waits {
            let mut port = TcpStream::connect(&at).expect("the control port");
            until_counter(&mut port, "merge.oldest_ms", 1100);
        }
        unit.interrupt();
        let said = ended(unit);
        assert_eq!(said.summary()["balance"], 0, "{}", said.err);
        // Its senders are told.
        assert!(
            senders.map(|sender| !sender.join().expect("it ends")).into_iter().all(|told| told)
        );
        let lost = said.counter("fragments.source.2.lost");
        let owed = said.counter("fragments.not_awaited");
        if waits {
            // What has waited for a second is not on its way any more: its source is named.
            assert!(said.code == 3 && lost > 100, "{} {lost} {owed} {}", said.code, said.err);
            assert_eq!(lost, said.counter("fragments.lost"));
        } else if said.counter("merge.oldest_ms") < 1000 {
            assert!(
                said.code == 0 && lost == 0 && owed > 100,
                "{} {lost} {owed} {}",
                said.code,
                said.err
            );
        }
    }
}

/// A disk of 2 MB, unmounted at the end.
struct Disk(PathBuf);

impl Disk {
    fn mount(at: PathBuf) -> Option<Disk> {
        std::fs::create_dir(&at).expect("a folder");
        let made =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"]).arg(&at).output();
        if made.is_ok_and(|made| made.status.success()) {
            return Some(Disk(at));
        }
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "a full disk needs root and mount");
        println!("skipped: a full disk needs root and mount");
        None
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_file_that_fails_ends_the_unit_and_its_senders_know() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(disk) = Disk::mount(folder.path().join("disk")) else { return };
    let path = disk.0.join("run.rec");
    let words = ["--records", &path.to_string_lossy(), "--set", "detector.crc_every=0"];
    let (unit, url) = unit(2, &words);
    let senders = [give_much(&url, 0, 0..1 << 20), give_much(&url, 1, 0..1 << 20)];
    let said = ended(unit);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("No space left on device"), "{}", said.err);
    assert!(senders.map(|sender| !sender.join().expect("it ends")).into_iter().all(|told| told));
    // What was written before is whole and in order.
    let kept = records(&disk.0.join("run.rec.part"));
    assert!(kept.len() > 100 && kept.iter().map(|(number, ..)| *number).eq(0..kept.len() as u64));
}
