//! Captures that commands begin and stop: every packet is in one file or counted.

use std::net::SocketAddr;

use fullcount_core::ledger::Ledger;

use super::tests::{Made, count, read, small, trains};
use super::*;
use crate::source::{Received, Source};

/// Waits for what another thread does.
fn until(what: &str, done: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn commands_change_to_other_files_and_every_packet_is_in_one_or_counted() {
    use fullcount_core::command::{Answer, Commands, NotDone};
    let folder = tempfile::tempdir().unwrap();
    let options = small(&folder.path().join("first.pcapng"));
    let mut capture = Capture::open(&options, 1).unwrap();
    let below = crate::below::RunFolder::new(folder.path()).unwrap();
    let mut all = Commands::default();
    let orders = capture.orders();
    super::change::commands(&options, Some(below), &orders)
        .into_iter()
        .for_each(|command| all.register(command));
    let give = |name: &str, arguments: &[&str]| all.give(all.find(name).unwrap(), arguments);
    let ledger = Ledger::default();
    ledger.register(capture.sheet());
    let sheet = capture.sheet();
    let address: SocketAddr = "10.0.0.1:7".parse().unwrap();
    let made: Vec<Made> =
        (0..400).map(|n| (vec![(n % 251) as u8; 64], 0, address, address, 1 + n)).collect();
    let mut tap = capture.tap(trains(&made, true), "test").unwrap();
    ledger.register(tap.capture_sheet());
    let running = capture.start(|e| panic!("{e}")).unwrap();
    let mut batch = tap.batch();
    let mut read_some = |n: u64| {
        for _ in 0..n {
            assert_eq!(tap.recv(&mut batch, Duration::ZERO).unwrap(), Received::Data);
        }
        // Blocks are handed over when they are old enough.
        std::thread::sleep(Duration::from_millis(60));
        let _ = tap.recv(&mut batch, Duration::ZERO);
    };
    let files = || sheet.get(Written::Files as usize);
    let seen = || count(&ledger, "written") + count(&ledger, "not_written");
    read_some(100);
    until("100 packets are written", || seen() >= 100);
    assert!(matches!(give("CAPTURE_START", &["a.pcapng"]), Err(NotDone::Refused(_))));
    assert!(matches!(give("CAPTURE_NEXT", &["../a.pcapng"]), Err(NotDone::Refused(_))));
    assert_eq!(give("CAPTURE_NEXT", &["second.pcapng"]), Ok(Answer::Done));
    until("the second file is begun", || files() == 2);
    read_some(100);
    until("200 packets are written", || seen() >= 201);
    assert_eq!(give("CAPTURE_STOP", &[]), Ok(Answer::Done));
    until("it has stopped", || orders.changes.is_empty());
    read_some(100);
    until("packets come", || seen() >= 302);
    assert_eq!(give("CAPTURE_START", &["third.pcapng"]), Ok(Answer::Done));
    until("the third file is begun", || files() == 3);
    while tap.recv(&mut batch, Duration::ZERO).unwrap() != Received::End {}
    drop(tap);
    let report = running.finish().unwrap();
    let left_out = count(&ledger, "not_written");
    assert_eq!((report.packets + left_out, ledger.read().balance()), (400, 0));
    assert!(left_out >= 100 && !ledger.read().anything_lost(), "{left_out}");
    let of = |name: &str| read(&std::fs::read(folder.path().join(name)).unwrap()).len() as u64;
    let each = ["first.pcapng", "second.pcapng", "third.pcapng"].map(of);
    assert_eq!(
        (each.iter().sum::<u64>(), each[0] >= 100, each[1] >= 100),
        (report.packets, true, true)
    );
}
