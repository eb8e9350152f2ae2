//! Captured packets are read back: payloads, addresses, times; rotation, loss and failure are counted.

use super::block::BLOCK_BYTES;
use super::*;
use crate::pcap::datagrams::Datagrams;
use crate::source::{Received, Source, SourceError};
use fullcount_core::batch::{Batch, Edge, Origin, TrainMeta};
use fullcount_core::frame::udp::Checksum;
use fullcount_core::frame::{IpPacket, LinkLayer};
use fullcount_core::ledger::{Ledger, Sheet};
use proptest::prelude::*;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// One train: bytes, stride, sender, receiver, time.
pub(crate) type Made = (Vec<u8>, usize, SocketAddr, SocketAddr, i64);

/// Gives one train a batch, then ends.
struct Trains {
    trains: std::vec::IntoIter<Made>,
    lossless: bool,
}

pub(crate) fn trains(all: &[Made], lossless: bool) -> Box<dyn Source> {
    let own: Vec<Made> = all.to_vec();
    Box::new(Trains { trains: own.into_iter(), lossless })
}

impl Source for Trains {
    fn recv(&mut self, batch: &mut Batch, _: Duration) -> Result<Received, SourceError> {
        let Some((bytes, stride, from, to, time_ns)) = self.trains.next() else {
            return Ok(Received::End);
        };
        batch.share(&Arc::from(bytes.as_slice()));
        let (len, origin, edge) = (bytes.len(), Origin::from(from), Edge::Datagram);
        let meta = TrainMeta { start: 0, len, stride, origin, time_ns, edge };
        batch.push_to(meta, Origin::from(to));
        Ok(Received::Data)
    }
    fn batch(&self) -> Batch {
        Batch::with_slots(0, 0)
    }
    fn lossless(&self) -> bool {
        self.lossless
    }
    fn sheet(&self) -> Arc<Sheet> {
        Sheet::new(Vec::new())
    }
    fn describe(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Reads all that the tap gives.
fn drain(tap: &mut Tap) -> Result<(), SourceError> {
    let mut batch = tap.batch();
    while tap.recv(&mut batch, Duration::ZERO)? != Received::End {}
    Ok(())
}

pub(crate) fn small(file: &Path) -> CaptureOptions {
    CaptureOptions { buffer: BUFFER_MIN, ..CaptureOptions::new(file) }
}

/// Captures all of `made` and returns the counters.
fn captured(options: &CaptureOptions, made: &[Made]) -> (CaptureReport, Ledger) {
    let mut capture = Capture::open(options, 1).unwrap();
    let ledger = Ledger::default();
    ledger.register(capture.sheet());
    let mut tap = capture.tap(trains(made, true), "test").unwrap();
    ledger.register(tap.capture_sheet());
    let running = capture.start(|e| panic!("{e}")).unwrap();
    drain(&mut tap).unwrap();
    drop(tap);
    (running.finish().unwrap(), ledger)
}

pub(crate) fn count(ledger: &Ledger, name: &str) -> u64 {
    ledger.read().get(&format!("sink.capture.{name}")).unwrap()
}

pub(crate) type Read = (Vec<u8>, Origin, SocketAddr, Option<i64>);

/// Datagrams of a file; nothing in it may be cut or wrong.
pub(crate) fn read(bytes: &[u8]) -> Vec<Read> {
    let (all, tally) = read_any(bytes);
    assert_eq!((tally.truncated, tally.damaged, tally.skipped()), (0, 0, 0));
    all
}

fn read_any(bytes: &[u8]) -> (Vec<Read>, crate::pcap::CaptureTally) {
    let mut r = Datagrams::open(bytes, None).unwrap();
    let mut all = Vec::new();
    while let Some(d) = r.next().unwrap() {
        all.push((d.payload.to_vec(), d.origin, d.destination, d.time_ns));
    }
    (all, r.tally())
}

fn expected(made: &[Made]) -> Vec<Read> {
    let one = |(bytes, stride, from, to, time): &Made| {
        let (from, to, time) = (Origin::from(*from), *to, *time);
        let parts: Vec<Vec<u8>> = match stride {
            0 => vec![bytes.clone()],
            n => bytes.chunks(*n).map(<[u8]>::to_vec).collect(),
        };
        parts.into_iter().map(move |p| (p, from, to, Some(time))).collect::<Vec<_>>()
    };
    made.iter().flat_map(one).collect()
}

fn address(six: bool) -> impl Strategy<Value = SocketAddr> {
    (1u8..=254, any::<[u8; 16]>(), any::<u16>()).prop_map(move |(host, mut v6, port)| {
        v6[0] = 0x20;
        if six { SocketAddr::from((v6, port)) } else { SocketAddr::from(([10, 0, 0, host], port)) }
    })
}

fn made() -> impl Strategy<Value = Vec<Made>> {
    let addresses = any::<bool>().prop_flat_map(|six| (address(six), address(six)));
    let bytes = (0usize..9000, any::<u8>()).prop_map(|(n, seed)| {
        (0..n).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed)).collect::<Vec<u8>>()
    });
    let one = (bytes, prop_oneof![Just(0usize), 1usize..3000], addresses, 1i64..i64::MAX).prop_map(
        |(bytes, stride, (from, to), time)| {
            // A train of nothing is one empty datagram.
            let stride = if bytes.is_empty() { 0 } else { stride.max(bytes.len() / 60) };
            (bytes, stride, from, to, time)
        },
    );
    proptest::collection::vec(one, 0..20)
}

/// A train of `n` datagrams of 1000 B from 10.0.0.1 to 10.0.0.2.
fn thousands(n: usize, time_ns: i64) -> Made {
    let (from, to) = ("10.0.0.1:5000".parse().unwrap(), "10.0.0.2:9000".parse().unwrap());
    (vec![n as u8; n * 1000], 1000, from, to, time_ns)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_is_captured_is_read_back(made in made(), cut in any::<prop::sample::Index>()) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("c.pcapng");
        let (report, ledger) = captured(&small(&file), &made);
        let bytes = std::fs::read(&file).unwrap();
        let want = expected(&made);
        prop_assert_eq!(&read(&bytes), &want);
        prop_assert_eq!(report.packets, want.len() as u64);
        prop_assert_eq!((report.bytes, report.files), (bytes.len() as u64, 1));
        prop_assert_eq!(ledger.read().balance(), 0);
        prop_assert_eq!(count(&ledger, "stamped"), 0);

        // After a kill at any moment: the file can be read, and holds the beginning.
        let (part, tally) = read_any(&bytes[..cut.index(bytes.len()).max(28)]);
        prop_assert_eq!(&part[..], &want[..part.len()]);
        prop_assert_eq!(tally.damaged, 0);
    }

    #[test]
    fn made_up_headers_are_right(made in made()) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("c.pcapng");
        captured(&small(&file), &made);
        let bytes = std::fs::read(&file).unwrap();
        let mut r = crate::pcap::CaptureReader::new(&bytes[..]).unwrap();
        while let Some(record) = r.next().unwrap() {
            let frame = record.frame.to_vec();
            let packet: IpPacket<'_> = LinkLayer::Ethernet.ip(&frame).unwrap();
            let udp = packet.udp().unwrap();
            prop_assert_eq!(udp.verify(packet.source, packet.destination), Checksum::Good);
            if packet.source.is_ipv4() {
                let header = fullcount_core::frame::ip::Ipv4::parse(&frame[14..]).unwrap();
                prop_assert!(header.header_checksum_good());
            }
        }
    }

    #[test]
    fn a_series_is_the_one_file_in_parts(
        made in made(),
        size in (1u64 << 20)..(2 << 20),
        keep in proptest::option::of(1u32..4),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let big: Vec<Made> = made.iter().cloned().cycle().take(made.len() * 20).collect();
        let options = CaptureOptions {
            rotate_size: Some(size),
            keep,
            ..small(&dir.path().join("c.pcapng"))
        };
        let (report, ledger) = captured(&options, &big);
        let mut names: Vec<_> =
            std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().path()).collect();
        names.sort();
        let there = names.len() as u64;
        prop_assert_eq!(there, report.files.min(u64::from(keep.unwrap_or(u32::MAX))));
        prop_assert_eq!(count(&ledger, "files"), report.files);
        prop_assert_eq!(count(&ledger, "removed"), report.files - there);
        let mut all = Vec::new();
        let mut whole = Vec::new();
        for name in &names {
            let bytes = std::fs::read(name).unwrap();
            prop_assert!(bytes.len() as u64 <= size + 200, "{} B", bytes.len());
            all.extend(read(&bytes));
            whole.extend(bytes);
        }
        let want = expected(&big);
        prop_assert_eq!(&all[..], &want[want.len() - all.len()..]);
        prop_assert!(keep.is_some() || all.len() == want.len());
        // Concatenated files of a series are a capture as well.
        prop_assert_eq!(read(&whole), all);
    }
}

#[test]
fn a_new_file_begins_when_its_first_packet_is_late_enough() {
    let dir = tempfile::tempdir().unwrap();
    let options = CaptureOptions {
        rotate_time: Some(Duration::from_secs(10)),
        ..small(&dir.path().join("run.pcapng"))
    };
    let second = 1_000_000_000;
    let times = [100, 105, 109, 110, 119, 500].map(|s| thousands(2, s * second));
    let (report, _) = captured(&options, &times);
    let names = ["run-00001.pcapng", "run-00002.pcapng", "run-00003.pcapng"];
    let lens = names.map(|n| read(&std::fs::read(dir.path().join(n)).unwrap()).len());
    assert_eq!((lens, report.files), ([6, 4, 2], 3));
    assert!(report.place.ends_with("run-00003.pcapng"), "{}", report.place);

    // After a restart it continues after them; foreign names are not touched.
    for other in ["run-1.pcapng", "run-00009.pcap", "run-x0009.pcapng", "walk-00009.pcapng"] {
        std::fs::write(dir.path().join(other), "").unwrap();
    }
    let options = CaptureOptions { keep: Some(2), ..options };
    captured(&options, &[thousands(1, 7)]);
    let there = |n: &str| dir.path().join(n).exists();
    assert!(there("run-00004.pcapng") && there("run-00003.pcapng") && !there("run-00002.pcapng"));
    assert!(!there(names[0]) && there("run-1.pcapng") && there("walk-00009.pcapng"));
}

#[test]
fn an_existing_file_is_replaced_only_if_it_may() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.pcapng");
    std::fs::write(&file, "precious").unwrap();
    let e = Capture::open(&small(&file), 1).err().unwrap().to_string();
    assert!(e.contains("c.pcapng exists") && e.contains("overwrite"), "{e}");
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
    let options = CaptureOptions { overwrite: true, ..small(&file) };
    captured(&options, &[thousands(3, 5)]);
    assert_eq!(read(&std::fs::read(&file).unwrap()).len(), 3);
    let e = Capture::open(&small(&dir.path().join("no/folder.pcapng")), 1).err().unwrap();
    assert!(e.to_string().contains("no/folder.pcapng: making the file"), "{e}");
}

/// Blocks of a pcapng file: type and body.
fn blocks(bytes: &[u8]) -> Vec<(u32, &[u8])> {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut at, mut all) = (0, Vec::new());
    while at < bytes.len() {
        let len = word(at + 4) as usize;
        assert_eq!((word(at + len - 4) as usize, len % 4), (len, 0));
        all.push((word(at), &bytes[at + 8..at + len - 4]));
        at += len;
    }
    all
}

#[test]
fn what_the_writer_cannot_take_is_counted_in_the_ledger_and_in_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.pcapng");
    for required in [true, false] {
        let options = CaptureOptions { required, overwrite: true, ..small(&file) };
        let mut capture = Capture::open(&options, 1).unwrap();
        let ledger = Ledger::default();
        ledger.register(capture.sheet());
        // 12 MiB without a writer, into 8 blocks of 1 MiB; then one more train.
        let all = [vec![thousands(60, 5); 200], vec![thousands(60, 6); 1]].concat();
        let mut tap = capture.tap(trains(&all, false), "test").unwrap();
        ledger.register(tap.capture_sheet());
        let mut batch = tap.batch();
        for _ in 0..200 {
            assert_eq!(tap.recv(&mut batch, Duration::ZERO).unwrap(), Received::Data);
        }
        let dropped = count(&ledger, "dropped");
        let room = (8 * BLOCK_BYTES / 1000) as u64;
        // A slow host hands blocks over before they are full.
        assert!((12_000 - room..12_000).contains(&dropped), "{dropped}");
        assert_eq!(count(&ledger, "waiting_peak"), 8 * BLOCK_BYTES as u64);

        let running = capture.start(|e| panic!("{e}")).unwrap();
        // Seen from here the writer has freed a block once it has written one.
        while count(&ledger, "written") == 0 {
            std::thread::yield_now();
        }
        drain(&mut tap).unwrap();
        drop(tap);
        let report = running.finish().unwrap();
        let dropped = count(&ledger, "dropped");
        assert_eq!((report.packets, count(&ledger, "queued")), (12_060 - dropped, 0));
        assert_eq!(ledger.read().balance(), 0);
        let lost = ledger.read().iter().any(|e| {
            matches!(e.info.role, fullcount_core::ledger::Role::Dropped(_)) && e.value > 0
        });
        assert_eq!(lost, required);

        let bytes = std::fs::read(&file).unwrap();
        assert_eq!(read(&bytes).len() as u64, report.packets);
        let blocks = blocks(&bytes);
        let (kind, statistics) = blocks.last().unwrap();
        let value = |at: usize| u64::from_le_bytes(statistics[at..at + 8].try_into().unwrap());
        assert_eq!((*kind, value(16), value(28)), (5, 12_060, dropped), "received, dropped");
    }
}

#[test]
fn the_first_packet_behind_a_gap_says_how_many_are_missing() {
    let mut frames = frames::Frames::new(0);
    let (bytes, _, from, to, time_ns) = thousands(1, 77);
    let train = fullcount_core::batch::Train {
        bytes: &bytes,
        stride: 0,
        origin: Origin::from(from),
        time_ns,
        edge: Edge::Datagram,
    };
    for lost in [0, 42] {
        frames.datagram(3, &train, Origin::from(to), &bytes, lost);
    }
    let all = frames.bytes().to_vec();
    let all = blocks(&all);
    assert_eq!(all.iter().map(|(_, b)| b.len()).collect::<Vec<_>>(), [20 + 1044, 20 + 1044 + 16]);
    let options = &all[1].1[20 + 1044..];
    assert_eq!(options, [4, 0, 8, 0, 42, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(all[0].1[..4], [3, 0, 0, 0], "interface");
}

#[test]
fn a_source_that_waits_is_made_to_wait_and_nothing_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.pcapng");
    let all = vec![thousands(60, 5); 400];
    let mut capture = Capture::open(&small(&file), 1).unwrap();
    let ledger = Ledger::default();
    ledger.register(capture.sheet());
    let mut tap = capture.tap(trains(&all, true), "test").unwrap();
    ledger.register(tap.capture_sheet());
    let reader = std::thread::spawn(move || drain(&mut tap).unwrap());
    // 24 MiB do not fit the 8 of the buffer: the source waits before the writer begins.
    while count(&ledger, "waits") == 0 {
        std::thread::yield_now();
    }
    let running = capture.start(|e| panic!("{e}")).unwrap();
    reader.join().unwrap();
    assert_eq!(running.finish().unwrap().packets, 24_000);
    assert_eq!((count(&ledger, "dropped"), ledger.read().balance()), (0, 0));
}

#[test]
fn chunks_too_long_for_a_datagram_and_packets_without_a_time_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.pcapng");
    let (_, _, from, to, _) = thousands(1, 1);
    let v6: SocketAddr = "[2001:db8::1]:1".parse().unwrap();
    let all = [
        (vec![1; 65_507], 0, from, to, 0),
        (vec![1; 65_508], 0, from, to, 1),
        (vec![1; 65_527], 0, v6, v6, 1),
        (vec![1; 65_528], 0, v6, v6, 1),
        (vec![1; 200_000], 100_000, from, to, 1),
    ];
    let (report, ledger) = captured(&small(&file), &all);
    assert_eq!((report.packets, count(&ledger, "too_long")), (2, 4));
    assert_eq!((count(&ledger, "stamped"), ledger.read().balance()), (1, 0));
    let got = read(&std::fs::read(&file).unwrap());
    assert_eq!(got.iter().map(|d| d.0.len()).collect::<Vec<_>>(), [65_507, 65_527]);
    assert!(got[0].3.is_some_and(|t| t > 1_700_000_000_000_000_000), "the host's clock");
}

#[test]
fn a_capture_without_packets_is_one() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.pcapng");
    let (report, ledger) = captured(&small(&file), &[]);
    assert_eq!((report.packets, ledger.read().balance()), (0, 0));
    let bytes = std::fs::read(&file).unwrap();
    assert!(read(&bytes).is_empty());
    let kinds: Vec<u32> = blocks(&bytes).iter().map(|b| b.0).collect();
    assert_eq!(kinds, [0x0a0d_0d0a, 1, 5]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_said_once_counted_and_ends_only_a_run_that_can_wait() {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    for lossless in [false, true] {
        let options = CaptureOptions { overwrite: true, ..small(Path::new("/dev/full")) };
        let mut capture = Capture::open(&options, 1).unwrap();
        let ledger = Ledger::default();
        ledger.register(capture.sheet());
        let all = vec![thousands(60, 5); 100];
        let mut tap = capture.tap(trains(&all, lossless), "test").unwrap();
        ledger.register(tap.capture_sheet());
        let told = Arc::new(AtomicU32::new(0));
        let counted = told.clone();
        let running = capture.start(move |_| _ = counted.fetch_add(1, Relaxed)).unwrap();
        while told.load(Relaxed) == 0 {
            std::thread::yield_now();
        }
        let outcome = drain(&mut tap);
        assert_eq!(outcome.is_err(), lossless);
        if let Err(e) = outcome {
            assert!(e.to_string().contains("/dev/full"), "{e}");
        }
        drop(tap);
        let e = running.finish().unwrap_err().to_string();
        assert!(e.contains("/dev/full: writing"), "{e}");
        assert_eq!((told.load(Relaxed), count(&ledger, "written")), (1, 0));
        assert_eq!(count(&ledger, "failed"), count(&ledger, "packets"));
        assert_eq!(ledger.read().balance(), 0);
    }
}

#[test]
fn every_nth_packet_is_taken_whatever_the_trains() {
    let all =
        [thousands(3, 1), thousands(1, 2), thousands(10, 3), thousands(2, 4), thousands(9, 5)];
    for every in 1..12u64 {
        let options = TapOptions {
            output: "raw",
            place: "here",
            buffer: BUFFER_MIN,
            workers: 1,
            required: true,
            every,
        };
        let mut taps = Taps::new(&options);
        let mut tap = taps.tap(trains(&all, true), "test").unwrap();
        let ledger = Ledger::default();
        ledger.register(tap.capture_sheet());
        drain(&mut tap).unwrap();
        drop(tap);
        let (mut got, mut turns) = (Vec::new(), 0);
        while taps.trains(|t, _| got.extend(t.chunks().map(|c| (c.len(), t.time_ns)))) == Turn::Data
        {
            turns += 1;
        }
        assert!(turns > 0 && taps.trains(|_, _| {}) == Turn::Over);
        let one = |(_, _, _, time): Read| (1000, time.unwrap());
        let want: Vec<_> = expected(&all).into_iter().step_by(every as usize).map(one).collect();
        assert_eq!(got, want, "every {every}");
        let packets = ledger.read().get("sink.raw.packets").unwrap();
        assert_eq!(packets as usize, want.len(), "every {every}");
    }
}

#[test]
fn a_second_capture_of_one_file_is_refused_and_the_first_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.pcapng");
    std::fs::write(&file, b"of an earlier run").unwrap();
    std::fs::hard_link(&file, dir.path().join("hard.pcapng")).unwrap();
    std::os::unix::fs::symlink("c.pcapng", dir.path().join("soft.pcapng")).unwrap();
    let over = |name: &str| CaptureOptions { overwrite: true, ..small(&dir.path().join(name)) };
    let mut first = Capture::open(&over("c.pcapng"), 1).unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), b"of an earlier run", "not before it starts");
    let mut tap = first.tap(trains(&[thousands(3, 1)], true), "test").unwrap();
    let running = first.start(|_| {}).unwrap();
    drain(&mut tap).unwrap();
    for name in ["c.pcapng", "hard.pcapng", "soft.pcapng", "./c.pcapng"] {
        let e = Capture::open(&over(name), 1).err().unwrap().to_string();
        assert!(e.contains("another process is writing it"), "{name}: {e}");
    }
    drop(tap);
    assert_eq!(running.finish().unwrap().packets, 3);
    assert_eq!(read(&std::fs::read(&file).unwrap()).len(), 3);
    assert!(Capture::open(&over("hard.pcapng"), 1).is_ok(), "the lock went with the first");
}

#[test]
fn a_second_capture_of_one_series_is_refused_before_it_makes_or_removes_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let series = CaptureOptions {
        rotate_size: Some(ROTATE_SIZE_MIN),
        keep: Some(1),
        ..small(&dir.path().join("c.pcapng"))
    };
    let files = || {
        let mut names: Vec<_> =
            std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names
    };
    std::fs::write(dir.path().join("c-00001.pcapng"), b"of an earlier run").unwrap();
    let mut first = Capture::open(&series, 1).unwrap();
    // Enough for a second file.
    let all = vec![thousands(60, 5); 30];
    let mut tap = first.tap(trains(&all, true), "test").unwrap();
    assert_eq!(files(), ["c-00001.pcapng", "c-00002.pcapng"]);
    assert!(matches!(Capture::open(&series, 1), Err(CaptureError::InUse { .. })));
    let running = first.start(|_| {}).unwrap();
    drain(&mut tap).unwrap();
    assert!(matches!(Capture::open(&series, 1), Err(CaptureError::InUse { .. })));
    drop(tap);
    assert_eq!(running.finish().unwrap().files, 2);
    assert_eq!(files(), ["c-00003.pcapng"], "one stays, as asked");
}

#[test]
fn a_capture_that_never_starts_leaves_everything_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    std::fs::write(at("c.pcapng"), b"old").unwrap();
    std::fs::write(at("s-00001.pcapng"), b"old").unwrap();
    std::os::unix::fs::symlink(at("new.pcapng"), at("dangling.pcapng")).unwrap();
    drop(Capture::open(&small(&at("fresh.pcapng")), 1).unwrap());
    drop(Capture::open(&CaptureOptions { overwrite: true, ..small(&at("c.pcapng")) }, 1).unwrap());
    let series = CaptureOptions {
        rotate_size: Some(ROTATE_SIZE_MIN),
        keep: Some(1),
        ..small(&at("s.pcapng"))
    };
    drop(Capture::open(&series, 1).unwrap());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 3);
    assert_eq!(std::fs::read(at("c.pcapng")).unwrap(), b"old");
    assert_eq!(std::fs::read(at("s-00001.pcapng")).unwrap(), b"old");
    // Refused at once, and not by waiting for a reader.
    assert!(std::process::Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
    for overwrite in [false, true] {
        assert!(Capture::open(&CaptureOptions { overwrite, ..small(&at("pipe")) }, 1).is_err());
        assert!(Capture::open(&CaptureOptions { overwrite, ..small(dir.path()) }, 1).is_err());
    }
    assert!(matches!(
        Capture::open(&small(&at("dangling.pcapng")), 1),
        Err(CaptureError::Exists { .. })
    ));
    assert!(!at("new.pcapng").exists());
}

#[test]
fn what_is_said_to_be_safe_is_written_and_nothing_behind_a_packet_that_is_missing() {
    for lossless in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let mut capture = Capture::open(&small(&dir.path().join("c.pcapng")), 1).unwrap();
        let ledger = Ledger::default();
        ledger.register(capture.sheet());
        // 18 MiB; without a writer there is room for 8 MiB.
        let mut tap = capture.tap(trains(&vec![thousands(60, 5); 300], lossless), "test").unwrap();
        ledger.register(tap.capture_sheet());
        let safe = capture.safe(0).expect("it is required");
        let is_safe = || safe.load(std::sync::atomic::Ordering::Acquire);
        let start = |capture: Capture| capture.start(|e| panic!("{e}")).unwrap();
        let (mut running, mut waiting) = (None, Some(capture));
        if lossless {
            running = waiting.take().map(start);
        }
        let mut batch = tap.batch();
        for n in 1..=300 {
            batch.set_number(fullcount_core::progress::BatchNumber { pipeline: 0, batch: n });
            assert_eq!(tap.recv(&mut batch, Duration::ZERO).unwrap(), Received::Data);
            let safe = is_safe();
            assert!(safe <= n && 60 * safe <= count(&ledger, "written"), "{safe} of {n}");
        }
        // All that was dropped came last.
        let whole = (18_000 - count(&ledger, "dropped")) / 60;
        let running = running.or(waiting.map(start)).expect("one of the two");
        assert_eq!(tap.recv(&mut batch, Duration::ZERO).unwrap(), Received::End);
        drop(tap);
        running.finish().unwrap();
        assert_eq!(is_safe(), if lossless { 300 } else { whole });
        assert!(lossless || whole < 200);
    }
}
