//! What h5py, scippnexus and scippneutron make of the files: `tests/python` checks them.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::options;
use fullcount_core::sink::Sink;
use fullcount_nexus::{Compression, EventIdType, NexusOptions, NexusSink, StartAttribute, recover};
use fullcount_testing::made_events::{depth, events, map};
use fullcount_testing::python::{python, script};

fn check(python: &Path, file: &Path, events: u64) {
    check_as(python, file, events, &[]);
}

fn check_as(python: &Path, file: &Path, events: u64, more: &[&str]) {
    let output = Command::new(python)
        .arg(script("check_nexus.py"))
        .arg(file)
        .args(more)
        .args(["--events", &events.to_string()])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {text}\n{errors}", file.display());
}

fn write(o: &NexusOptions, n: u64) {
    let mut sink = NexusSink::create(o).unwrap();
    for from in (0..n).step_by(1000) {
        sink.push(&events(from, n.min(from + 1000))).unwrap();
    }
    assert_eq!(sink.finish().unwrap().events, n);
}

#[test]
fn every_reader_loads_every_variant_with_positions_and_dates() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let variant = |name: &str, n: u64, change: fn(&mut NexusOptions)| {
        let mut o = options(&dir.path().join(name));
        change(&mut o);
        write(&o, n);
        check(&python, &o.path, n);
    };
    variant("default.nxs", 10_000, |_| ());
    variant("start-u32-gzip.nxs", 5000, |o| {
        o.start_attribute = StartAttribute::Start;
        o.event_id = EventIdType::U32;
        o.compression = Compression::Gzip(6);
        o.cue_interval = 1;
    });
    variant("gaps.nxs", 5000, |o| {
        o.pixels.columns = 20;
        o.source_distance_m = None;
    });
    variant("one-pulse.nxs", 10, |_| ());
    variant("empty.nxs", 0, |_| ());
}

#[test]
fn a_detector_with_depth_has_its_positions_in_three_dimensions() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    for (name, columns) in [("rectangle.nxs", 16), ("gaps.nxs", 20)] {
        let mut o = options(&dir.path().join(name));
        o.pixels.columns = columns;
        o.pixels.z_m = (0..u64::from(map().pixels())).map(depth).collect();
        write(&o, 5000);
        assert_eq!(fullcount_nexus::check(&o.path).unwrap(), []);
        check_as(&python, &o.path, 5000, &["--deep"]);
    }
    // What a killed run leaves is as deep.
    let mut o = options(&dir.path().join("run.nxs"));
    o.pixels.z_m = (0..u64::from(map().pixels())).map(depth).collect();
    let mut sink = NexusSink::create(&o).unwrap();
    sink.push(&events(0, 5000)).unwrap();
    sink.flush().unwrap();
    let killed = dir.path().join("killed.nxs");
    std::fs::copy(&o.path, &killed).unwrap();
    assert_eq!(recover(&killed).unwrap().events, 5000);
    check_as(&python, &killed, 5000, &["--deep"]);
    sink.finish().unwrap();
}

#[test]
fn recovered_files_open_without_swmr() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let o = options(&dir.path().join("run.nxs"));
    let mut sink = NexusSink::create(&o).unwrap();
    sink.push(&events(0, 5000)).unwrap();
    sink.flush().unwrap();
    sink.push(&events(5000, 6000)).unwrap();
    let killed = dir.path().join("killed.nxs");
    std::fs::copy(&o.path, &killed).unwrap();
    let refused = Command::new(&python)
        .args(["-c", "import h5py, sys; h5py.File(sys.argv[1])"])
        .arg(&killed)
        .output()
        .unwrap();
    assert!(!refused.status.success(), "the flag is set, as a killed writer leaves it");
    assert_eq!(recover(&killed).unwrap().events, 5000);
    check(&python, &killed, 5000);
    sink.finish().unwrap();
}

#[test]
fn a_reader_beside_the_writer_sees_consistent_columns_at_every_moment() {
    read_along(Compression::None);
}

/// An unfinished chunk is written again at each flush, compressed again.
#[test]
fn a_reader_beside_threads_that_compress_sees_consistent_columns_at_every_moment() {
    read_along(Compression::Gzip(1));
}

fn read_along(compression: Compression) {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut o = options(&dir.path().join("run.nxs"));
    o.chunk_events = 8192;
    o.chunk_pulses = 64;
    o.compression = compression;
    o.cue_interval = 20_000;
    let mut sink = NexusSink::create(&o).unwrap();
    let mut n = 0;
    let mut step = |sink: &mut NexusSink| {
        sink.push(&events(n, n + 1000)).unwrap();
        n += 1000;
        // The third push reaches the flush interval of 2 s.
        sink.tick(Duration::from_millis(7 * n / 10)).unwrap();
        n
    };
    step(&mut sink);
    sink.flush().unwrap();
    let mut reader = Command::new(&python)
        .arg(script("read_along.py"))
        .arg(&o.path)
        .args(["--pixels", &map().pixels().to_string(), "--looks", "60"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // The reader prints a line when it has the file open and one after each reading. The writer continues meanwhile, up
    // to 15 pushes ahead of it: unbounded, the file would outgrow the reader.
    let lines = BufReader::new(reader.stdout.take().unwrap()).lines();
    let looks = AtomicU64::new(0);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            lines.map_while(Result::ok).for_each(|_| {
                looks.fetch_add(1, Ordering::Relaxed);
            });
            done.store(true, Ordering::Relaxed);
        });
        let mut steps = 0;
        while !done.load(Ordering::Relaxed) {
            if steps < 15 * looks.load(Ordering::Relaxed) {
                step(&mut sink);
                steps += 1;
            } else {
                std::thread::yield_now();
            }
        }
    });
    assert!(reader.wait().unwrap().success(), "the reader said on standard error what it saw");
    assert_eq!(looks.into_inner(), 61);
    let n = step(&mut sink);
    assert_eq!(sink.finish().unwrap().events, n);
    check(&python, &o.path, n);
}
