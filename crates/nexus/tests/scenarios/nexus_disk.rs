//! A disk that fails under the file of a run: an error with the path, every event accounted for, what was flushed is
//! recovered, nothing stays open, and the other files of the process are still written.
#![cfg(target_os = "linux")]

use std::path::Path;

use crate::options;
use fullcount_core::ledger::Ledger;
use fullcount_core::sink::{Sink, SinkError};
use fullcount_nexus::{Compression, DiskWay, NexusError, NexusSink, check, recover};
use fullcount_testing::made_events::events;
use fullcount_testing::small_disk::{Disk, DiskFailure, failures};

/// Events of a push; some chunks of them.
const STEP: u64 = 10_000;

fn sink(path: &Path) -> NexusSink {
    sink_as(path, (Compression::None, DiskWay::Cached))
}

fn sink_as(path: &Path, (compression, disk): (Compression, DiskWay)) -> NexusSink {
    let mut o = options(path);
    (o.compression, o.disk) = (compression, disk);
    // Large writes bypass the page cache.
    o.chunk_events = if disk == DiskWay::Direct { 1 << 14 } else { 4096 };
    o.chunk_pulses = 64;
    NexusSink::create(&o).unwrap()
}

/// Every way in which a disk fails, under a file that HDF5 writes, under one whose rows go past the page cache, and under one
/// whose chunks are compressed by threads.
fn cases() -> impl Iterator<Item = (DiskFailure, (Compression, DiskWay))> {
    let ways = [
        (Compression::None, DiskWay::Cached),
        (Compression::None, DiskWay::Direct),
        (Compression::Gzip(1), DiskWay::Cached),
    ];
    failures().into_iter().flat_map(move |how| ways.map(|way| (how, way)))
}

/// Pushes and flushes; as a run does.
fn put(sink: &mut NexusSink, n: u64) -> Result<(), SinkError> {
    sink.push(&events(n, n + STEP)).and_then(|()| sink.flush())
}

/// The first event of the push that failed.
fn until_it_fails(sink: &mut NexusSink, from: u64) -> (u64, String) {
    let mut n = from;
    loop {
        assert!(n < from + 100 * STEP, "the disk never failed");
        if let Err(error) = put(sink, n) {
            return (n, error.to_string());
        }
        n += STEP;
    }
}

#[test]
fn a_disk_that_fails_costs_what_was_not_flushed_and_no_other_file() {
    for (how, way) in cases() {
        let dir = tempfile::tempdir().unwrap();
        let Some(disk) = Disk::of_ext4(&dir.path().join("disk")) else { return };
        let path = disk.0.join("run.nxs");
        let other_path = dir.path().join("other.nxs");
        let (mut failing, mut other) = (sink_as(&path, way), sink(&other_path));
        let ledger = Ledger::default();
        ledger.register(failing.sheet());
        put(&mut failing, 0).unwrap();
        put(&mut other, 0).unwrap();
        std::fs::File::open(&path).unwrap().sync_all().unwrap();
        std::fs::File::open(&disk.0).unwrap().sync_all().unwrap();
        disk.fail(how);
        let (n, error) = until_it_fails(&mut failing, STEP);
        assert!(error.contains(&format!("nexus: {}: cannot ", path.display())), "{error}");
        assert!(error.contains(how.words()), "{error}");
        assert_eq!(failing.push(&events(n, n + 1)).unwrap_err().to_string(), error);
        assert_eq!(failing.finish().unwrap_err().to_string(), error, "the first error stays");
        let entries = ledger.read();
        assert_eq!(entries.balance(), 0, "what was not written is accounted for");
        assert_eq!(entries.get("sink.nexus.events"), Some(n));
        assert_eq!(entries.get("sink.nexus.unwritten"), Some(STEP));
        drop(failing);
        assert!(disk.unmount(), "{how:?}: something is still open there");
        // The library still works with other open files, and with newly opened ones.
        put(&mut other, STEP).unwrap();
        let third_path = dir.path().join("third.nxs");
        let mut third = sink(&third_path);
        put(&mut third, 0).unwrap();
        assert_eq!(other.finish().unwrap().events, 2 * STEP);
        assert_eq!(third.finish().unwrap().events, STEP);
        assert!(disk.mount());
        assert!(recover(&path).unwrap().events >= STEP);
        for path in [&path, &other_path, &third_path] {
            assert_eq!(check(path).unwrap(), []);
        }
    }
}

#[test]
fn a_disk_that_fails_when_the_run_ends_is_said_and_costs_no_other_file() {
    for (how, way) in cases() {
        let dir = tempfile::tempdir().unwrap();
        let Some(disk) = Disk::of_ext4(&dir.path().join("disk")) else { return };
        let mut failing = sink_as(&disk.0.join("run.nxs"), way);
        let ledger = Ledger::default();
        ledger.register(failing.sheet());
        put(&mut failing, 0).unwrap();
        failing.push(&events(STEP, STEP + 10)).unwrap();
        // One that never began, and whose file goes.
        let idle = sink(&disk.0.join("idle.nxs"));
        disk.fail(how);
        let error = failing.finish().unwrap_err().to_string();
        assert!(error.contains("run.nxs: cannot ") && error.contains(how.words()), "{error}");
        assert_eq!(ledger.read().get("sink.nexus.unwritten"), Some(10));
        assert_eq!(ledger.read().balance(), 0);
        drop((failing, idle));
        assert!(disk.unmount(), "{how:?}: something is still open there");
        let mut other = sink(&dir.path().join("other.nxs"));
        put(&mut other, 0).unwrap();
        assert_eq!(other.finish().unwrap().events, STEP);
    }
}

#[test]
fn a_disk_that_has_failed_already_is_refused_and_leaves_nothing_open() {
    for how in failures() {
        let dir = tempfile::tempdir().unwrap();
        let Some(disk) = Disk::of_ext4(&dir.path().join("disk")) else { return };
        disk.fail(how);
        let path = disk.0.join("run.nxs");
        let error = NexusSink::create(&options(&path)).unwrap_err().to_string();
        assert!(error.contains("run.nxs") && error.contains(how.words()), "{error}");
        assert!(disk.unmount(), "{how:?}: something is still open there");
    }
}

/// The file as a kill leaves it: `cut` bytes of its end had not come to the disk.
fn killed(to: &Path, compression: Compression, pushes: u64, cut: u64) {
    let dir = tempfile::tempdir().unwrap();
    let mut o = options(&dir.path().join("run.nxs"));
    (o.chunk_events, o.chunk_pulses, o.compression) = (4096, 64, compression);
    let mut sink = NexusSink::create(&o).unwrap();
    for n in 0..pushes {
        put(&mut sink, n * STEP).unwrap();
    }
    // What no flush follows.
    sink.push(&events(pushes * STEP, pushes * STEP + 5000)).unwrap();
    std::fs::copy(&o.path, to).unwrap();
    let file = std::fs::File::options().write(true).open(to).unwrap();
    file.set_len(file.metadata().unwrap().len() - cut).unwrap();
}

#[test]
fn a_full_disk_is_found_before_anything_in_the_file_changes() {
    use std::os::unix::fs::MetadataExt;
    for (compression, pushes, cut) in [
        (Compression::None, 3, 0),
        (Compression::None, 3, 1000),
        (Compression::Gzip(4), 5, 0),
        // Killed before its first flush: pulse rows are added.
        (Compression::None, 0, 0),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let Some(disk) = Disk::of_memory(&dir.path().join("disk")) else { return };
        let path = disk.0.join("run.nxs");
        killed(&path, compression, pushes, cut);
        let before = std::fs::read(&path).unwrap();
        let filler = disk.0.join("filler");
        let mut file = std::fs::File::create(&filler).unwrap();
        let full = std::io::copy(&mut std::io::repeat(7), &mut file).unwrap_err();
        assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
        let e = recover(&path).unwrap_err();
        assert!(matches!(e, NexusError::NoRoom { .. }), "{e}");
        assert!(e.to_string().contains("left as it was"), "{e}");
        assert_eq!(std::fs::read(&path).unwrap(), before, "bit by bit");
        // As a run that is started again finds it.
        let e = NexusSink::create(&options(&path)).unwrap_err().to_string();
        assert!(e.contains("No space left") || e.contains("left as it was"), "{e}");
        assert_eq!(std::fs::read(&path).unwrap(), before);
        // Emptied first: another test's child may have the file open for a moment longer.
        file.set_len(0).unwrap();
        drop(file);
        std::fs::remove_file(&filler).unwrap();
        let found = recover(&path).unwrap();
        assert!(found.changed && found.events >= pushes * STEP, "{found:?}");
        assert_eq!(check(&path).unwrap(), []);
        let meta = std::fs::metadata(&path).unwrap();
        assert!(512 * meta.blocks() < meta.len() + (64 << 10), "the room is given back: {meta:?}");
    }
}
