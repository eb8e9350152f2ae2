//! A receiver that is stopped, and unknown senders: the loss computed from SoNDe's 14-bit count is the real one.
//!
//! The sender's own numbers are the truth. No test depends on a time: the process is stopped and continued by the
//! number of sent packets.
#![cfg(target_os = "linux")]

use std::net::UdpSocket;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::service::{PATIENCE, Said, Service};

/// A SoNDe packet without entries, written out by hand.
fn packet(count: u64) -> [u8; 11] {
    let [high, low] = ((count & 0x3fff) as u16).to_be_bytes();
    let [a, b, c, d] = (count as u32).wrapping_mul(50_000).to_be_bytes();
    [0, 0xd6, high, low, a, b, c, d, 0, 1, 0]
}

fn start(more: &[&str]) -> (Service, String) {
    let run = ["run", "--source", "udp://127.0.0.1:0", "--detector", "sonde", "--sink", "null"];
    let mut service =
        Service::start(&[&run[..], &["--web", "127.0.0.1:0", "--json"], more].concat());
    let port = service.udp_port();
    service.wait_for("the detector's line", |l| l.starts_with("detector ").then_some(()));
    (service, format!("127.0.0.1:{port}"))
}

/// Packets a second.
const RATE: u64 = 20_000;
/// Sent before the stop, while stopped, and after it: 5 s of 20,000 packets/s are six turns of 16,384.
const BEFORE: u64 = 3 * RATE;
const STOPPED: u64 = 5 * RATE;
const AFTER: u64 = RATE;

/// Sends packets at their times, as many as are due at once; the last ones one by one, so that they find room.
fn send(to: &str, sent: &AtomicU64) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let begun = Instant::now();
    let all = BEFORE + STOPPED + AFTER;
    for n in 0..all {
        let due = Duration::from_nanos(n * 1_000_000_000 / RATE);
        if n % 16 == 0 || n + 100 > all {
            std::thread::sleep(due.saturating_sub(begun.elapsed()).max(match n + 100 > all {
                true => Duration::from_millis(2),
                false => Duration::ZERO,
            }));
        }
        socket.send_to(&packet(n), to).unwrap();
        sent.store(n + 1, SeqCst);
    }
}

fn signal(service: &Service, name: &str) {
    let pid = service.child.id().to_string();
    assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
}

fn wait_until(sent: &AtomicU64, n: u64) {
    let begun = Instant::now();
    while sent.load(SeqCst) < n {
        assert!(begun.elapsed() < PATIENCE, "{} of {n} packets were sent", sent.load(SeqCst));
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn lost(said: &Said) -> u64 {
    let summary = said.summary();
    summary["packets"]["lost"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum()
}

#[test]
fn a_stall_of_many_turns_is_told_whole_or_as_a_lower_bound() {
    let (service, to) = start(&["--receive-buffer", "64KiB", "--probes", "100ms"]);
    assert!(
        service.seen().iter().any(|l| l.contains("have 14 bits")),
        "times are asked for, and why is said: {:?}",
        service.seen()
    );
    let sent = Arc::new(AtomicU64::new(0));
    let counter = sent.clone();
    let sender = std::thread::spawn(move || send(&to, &counter));
    wait_until(&sent, BEFORE);
    signal(&service, "-STOP");
    wait_until(&sent, BEFORE + STOPPED);
    signal(&service, "-CONT");
    sender.join().unwrap();
    service.interrupt();
    let said = service.end();
    let summary = said.summary();
    let delivered = summary["packets"]["accepted"].as_u64().unwrap();
    let truth = BEFORE + STOPPED + AFTER - delivered;
    assert!(truth > 3 * 16_384, "the buffer holds far less: {truth} lost");
    let told = lost(&said);
    let at_least = summary["packets"]["lost_at_least"].as_bool().unwrap();
    println!("{told} of {truth} packets, at least: {at_least}");
    assert!(told <= truth && (at_least || told == truth), "{told} of {truth}: {}", said.err);
    // In both cases more than the 14 bits alone show.
    assert!(at_least || said.counter("packets.lost_by_time") > 0, "{}", said.err);
    assert_eq!(at_least, said.err.contains("lost at least"), "{}", said.err);
    assert_eq!((said.code, summary["balance"].as_u64()), (3, Some(0)), "{}", said.err);
}

#[test]
fn invented_senders_end_nobodys_sequence_check() {
    let (service, to) = start(&["--set", "detector.max_streams=256"]);
    let real = UdpSocket::bind("127.0.0.1:0").unwrap();
    real.send_to(&packet(0), &to).unwrap();
    // 2,000 invented addresses, one packet each: the real sender's every 50th packet is missing.
    let mut missing = 0;
    for n in 1..=2000u64 {
        let from = format!("127.{}.{}.{}:0", 1 + n % 7, n / 250, 1 + n % 250);
        UdpSocket::bind(&from).unwrap().send_to(&packet(n * 77), &to).unwrap();
        if n % 50 == 25 {
            missing += 1;
        } else {
            real.send_to(&packet(n), &to).unwrap();
        }
    }
    service.interrupt();
    let said = service.end();
    let summary = said.summary();
    assert_eq!(summary["packets"]["received"], 4001 - missing, "{}", said.err);
    assert_eq!(lost(&said), missing, "{}", said.err);
    assert_eq!(said.counter("decode.streams_reused"), 2001 - 256);
    assert!(
        said.err.contains("detector.max_streams"),
        "who reads the ledger is told: {}",
        said.err
    );
    assert_eq!((said.code, summary["balance"].as_u64()), (3, Some(0)));
}
