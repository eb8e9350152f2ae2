//! A readout unit that is killed: what is missing afterwards is named by its senders and by the unit that is started anew, and nothing
//! else is lost. Source: `docs/fragments.md`, "After a killed unit".

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use fullcount_testing::veth::{NAME, RECEIVER, Veth};
use socket2::{Domain, Socket, Type};

use crate::broker::{self, fresh};
use crate::readout::{ended, records, unit};
use crate::readout_topic::some_values;
use crate::service::{PATIENCE, Service};
use crate::stcp_live;

const SOURCES: usize = 2;

/// Looks again and again until it is so.
fn until(what: &str, so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn signal(unit: &Service, which: &str) {
    let pid = unit.child.id().to_string();
    assert!(Command::new("kill").args([which, &pid]).status().expect("kill runs").success());
}

/// Bytes that the kernel has for this process's established connections and that were not read: the least of them.
fn unread(unit: &Service, port: &str) -> u64 {
    let table = format!("/proc/{}/net/tcp", unit.child.id());
    let port = format!(":{:04X}", port.parse::<u16>().expect("a port"));
    let of = |line: &str| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, _, state) = (fields.next()?, fields.next()?, fields.next()?);
        let queues = fields.next()?.split_once(':')?;
        let ours = local.ends_with(&port) && state == "01";
        ours.then(|| u64::from_str_radix(queues.1, 16).ok()).flatten()
    };
    let table = std::fs::read_to_string(table).expect("Linux");
    table.lines().filter_map(of).min().unwrap_or(0)
}

/// The first event that a connection may lack and the last that it took, of each sentence "events A to B were not acknowledged" or "all was
/// acknowledged, up to B of its events".
fn ends(said: &str) -> Vec<(u64, u64)> {
    let open = |part: &str| {
        let (range, _) = part.split_once(" were not acknowledged")?;
        let (first, last) = range.split_once(" to ")?;
        Some((first.parse().ok()?, last.parse().ok()?))
    };
    let all = |part: &str| {
        let (last, _) = part.split_once(" of its events")?;
        let last: u64 = last.parse().ok()?;
        Some((last + 1, last))
    };
    let opens = said.split("events ").filter_map(open);
    opens.chain(said.split("all was acknowledged, up to ").filter_map(all)).collect()
}

fn numbers(path: &Path) -> Vec<u64> {
    let whole = records(path);
    assert!(whole.iter().all(|record| record.1 == 0 && record.2.len() == SOURCES), "damaged");
    whole.iter().map(|record| record.0).collect()
}

fn stcp_unit(veth: &Veth, file: &Path, more: &[&str]) -> (Service, String) {
    let records = file.to_string_lossy();
    stcp_live::unit(veth, SOURCES, &[&["--records", &*records], more].concat())
}

/// Fragments of both sources, a connection each, over the simplified TCP.
fn stcp_sender(veth: &Veth, port: &str, address: u8, more: &[&str]) -> Service {
    let to = format!("stcp://{RECEIVER}:{port}?interface={NAME}&address=10.77.0.{address}");
    let words = ["send", "--to", &to, "--source", "fragments", "--sources", "2"];
    veth.sending(|| Service::start(&[&words[..], &["--rate", "5kev/s"], more].concat()))
}

#[test]
fn what_a_killed_unit_had_and_nobody_has_any_more_is_named_to_the_event() {
    let Some(veth) = Veth::new(9000, 1) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (folder.path().join("first.rec"), folder.path().join("second.rec"));
    let (mut killed, port) = stcp_unit(&veth, &first, &[]);
    let mut sender = stcp_sender(&veth, &port, 9, &["--duration", "10min"]);
    let part = folder.path().join("first.rec.part");
    until("it writes", || std::fs::metadata(&part).is_ok_and(|meta| meta.len() > 1 << 20));
    // What it has not read by now is acknowledged by its kernel, and dies with it.
    signal(&killed, "-STOP");
    until("its kernel goes on", || unread(&killed, &port) > 1 << 16);
    signal(&killed, "-KILL");
    assert!(killed.child.ended(PATIENCE).expect("a child"));
    assert!(sender.child.ended(PATIENCE).expect("a child"), "{:?}", sender.seen());
    let said = sender.end();
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("the receiver reset it"), "{}", said.err);
    let open = ends(&said.err);
    assert_eq!(open.len(), SOURCES, "a sentence of each connection: {}", said.err);
    let written = numbers(&part);
    assert!(written.iter().copied().eq(0..written.len() as u64), "whole events in order");
    let due = written.len() as u64;
    // What the senders were not told of can be sent again; what they were told of and the file has not is gone.
    let again = open.iter().map(|(first, _)| *first).min().expect("two");
    assert!(open.iter().all(|(first, last)| *first <= last + 1 && *last >= due), "{open:?} {due}");
    assert!(again > due, "64 KiB of each source were acknowledged: {again} {due}");

    let first_event = format!("detector.first_event={due}");
    let (mut unit, port) = stcp_unit(&veth, &second, &["--set", &first_event]);
    let begin = again.to_string();
    let more = ["--first-event", &begin, "--duration", "1s"];
    let mut sender = stcp_sender(&veth, &port, 10, &more);
    assert!(sender.child.ended(PATIENCE).expect("a child"), "{:?}", sender.seen());
    assert_eq!(sender.end().code, 0);
    assert!(unit.child.ended(PATIENCE).expect("a child"), "{:?}", unit.seen());
    let said = unit.end();
    assert_eq!(said.code, 3, "{}", said.err);
    for source in 0..SOURCES {
        let of = |what: &str| said.counter(&format!("fragments.source.{source}.{what}"));
        assert_eq!((of("first"), of("lost")), (again, again - due), "{source}");
    }
    let written: BTreeSet<u64> = written.into_iter().chain(numbers(&second)).collect();
    let last = *written.last().expect("many");
    let missing: Vec<u64> = (0..last).filter(|number| !written.contains(number)).collect();
    assert!(missing.iter().copied().eq(due..again), "{} to {:?}", due, missing.last());
    let counted = ["events.skipped", "fragments.lost.down", "fragments.lost", "events.incomplete"];
    let gone = again - due;
    assert_eq!(counted.map(|name| said.counter(name)), [gone, SOURCES as u64 * gone, 0, 0]);
}

/// Without event numbers packets are named, counted from 0 on each connection. The receive buffer is smaller than a packet and nobody reads,
/// so the first one is never acknowledged to its last byte, however the two processes are scheduled.
#[test]
fn a_sender_without_event_numbers_names_its_packets() {
    let Some(veth) = Veth::new(9000, 1) else { return };
    let listener = veth.receiving(|| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.set_recv_buffer_size(4096).expect("a size");
        let address = format!("{RECEIVER}:5000").parse::<SocketAddr>().expect("an address");
        socket.bind(&address.into()).expect("a port");
        socket.listen(1).expect("a port");
        TcpListener::from(socket)
    });
    let to = format!("stcp://{RECEIVER}:5000?interface={NAME}&address=10.77.0.9&buffer=128KiB");
    let mut sender = veth.sending(|| Service::start(&["send", "--to", &to, "--size", "65000"]));
    let (stream, _) = listener.accept().expect("a connection");
    until("something comes", || stream.peek(&mut [0]).is_ok_and(|n| n > 0));
    // Unread bytes make it a RST.
    drop(stream);
    assert!(sender.child.ended(PATIENCE).expect("a child"), "{:?}", sender.seen());
    let said = sender.end().err;
    let (_, named) = said.split_once("the receiver reset it; packets ").expect(&said);
    let (range, _) = named.split_once(" were not acknowledged, and none after").expect(&said);
    let (first, last) = range.split_once(" to ").expect(&said);
    assert_eq!(first, "0", "{said}");
    // The send buffer has no place for a third.
    assert!(last.parse::<u64>().is_ok_and(|last| last <= 1), "{said}");
}

/// What the killed unit had spooled is on the topic, whole and in order; behind it is a gap up to what the next unit says is its first.
#[test]
fn the_topic_of_a_killed_unit_has_each_event_of_its_spool_and_the_gap_is_named() {
    let Some(shared) = broker::Shared::new() else { return };
    let (topic, folder) = (fresh("killed"), tempfile::tempdir().expect("a folder"));
    let spool = folder.path().join("spool");
    let keys = [
        format!("output.merged.brokers={}", shared.bootstrap()),
        format!("output.merged.topic={topic}"),
        format!("output.merged.spool={}", spool.display()),
        "output.merged.drain=60s".to_owned(),
    ];
    let more: Vec<&str> = keys.iter().flat_map(|key| ["--set", key]).collect();
    let send = |url: &str, more: &[&str]| {
        let words = ["send", "--to", url, "--source", "fragments", "--sources", "2"];
        Service::start(&[&words[..], &["--rate", "2kev/s"], more].concat())
    };
    let (mut killed, url) = unit(2, &more);
    let mut sender = send(&url, &["--duration", "10min"]);
    // Some are on the topic, others in the spool, others on their way.
    let before = some_values(&shared.bootstrap(), &topic, |all| all.len() >= 500);
    signal(&killed, "-KILL");
    assert!(killed.child.ended(PATIENCE).expect("a child"));
    assert!(sender.child.ended(PATIENCE).expect("a child"), "{:?}", sender.seen());
    assert_ne!(sender.end().code, 0, "the sender knows");
    assert!(before.len() >= 500);

    // The senders went on: what they begin with is far behind.
    const BEGIN: u64 = 1_000_000;
    let (next, url) = unit(2, &more);
    let begin = BEGIN.to_string();
    let mut sender = send(&url, &["--first-event", &begin, "--count", "1000"]);
    assert!(sender.child.ended(PATIENCE).expect("a child"), "{:?}", sender.seen());
    assert_eq!(sender.end().code, 0);
    let said = ended(next);
    assert_eq!((said.code, said.counter("events.count")), (0, 500), "{}", said.err);
    assert_eq!(said.counter("sink.merged.queued"), 0, "{}", said.err);
    for source in 0..2 {
        let of = |what: &str| said.counter(&format!("fragments.source.{source}.{what}"));
        assert_eq!((of("first"), of("count")), (BEGIN, 500));
    }
    let last = |all: &[Vec<u8>]| all.iter().any(|value| number(value) == BEGIN + 499);
    let all = some_values(&shared.bootstrap(), &topic, last);
    let seen: BTreeSet<u64> = all.iter().map(|value| whole(value)).collect();
    let old = seen.iter().take_while(|number| **number < BEGIN).count() as u64;
    // Each at least once, whatever was acknowledged when it was killed; so the gap is from here to what the unit named.
    assert!(old >= before.len() as u64, "{old} of {}", before.len());
    assert!(
        seen.iter().copied().eq((0..old).chain(BEGIN..BEGIN + 500)),
        "{old} and {}",
        seen.len()
    );
}

fn number(value: &[u8]) -> u64 {
    u64::from_le_bytes(value[8..16].try_into().expect("8"))
}

/// The number of a record that is whole: both parts with their fragments, which say the same number.
fn whole(value: &[u8]) -> u64 {
    let word = |at: usize| u64::from_le_bytes(value[at..at + 8].try_into().expect("8"));
    let flags = u16::from_le_bytes(value[6..8].try_into().expect("2"));
    assert_eq!((&value[..4], flags, word(24)), (&b"FCEV"[..], 0, value.len() as u64));
    let mut at = 40 + 16 * 2;
    for source in 0..2 {
        assert_eq!(word(40 + 16 * source) & 0xffff_ffff, source as u64);
        let length = word(48 + 16 * source) as usize;
        // Header: event and source; trailer: length in words.
        assert_eq!(word(at) >> 32 & 0x00ff_ffff, number(value) & 0x00ff_ffff);
        assert_eq!(word(at) >> 8 & 0xfff, source as u64);
        assert_eq!(word(at + length - 8) >> 32 & 0x00ff_ffff, length as u64 / 8);
        at += length.next_multiple_of(8);
    }
    assert_eq!(at, value.len());
    number(value)
}
