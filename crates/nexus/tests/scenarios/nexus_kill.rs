//! A writer that is killed with SIGKILL at random moments loses nothing that it had flushed.
//!
//! The test starts itself as the writer, reads on a pipe how much was flushed, kills it, recovers the file and
//! compares every event; with an even seed, packets come in no order. `FULLCOUNT_KILL_ROUNDS` (6) and
//! `FULLCOUNT_KILL_SEED` (1) make it longer or another.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::options;
use fullcount_core::sink::Sink;
use fullcount_nexus::{Compression, DiskWay, NexusSink, Packing, check, recover};
use fullcount_testing::made_events::{Dice, events, mixed, number_of, pixel};
use hdf5_metno::File;

const CHILD: &str = "FULLCOUNT_KILL_CHILD";

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |v| v.parse().expect("a number"))
}

/// Writes until it is killed, and says after each flush how many events it covered.
fn write_until_killed(path: &Path, seed: u64) -> ! {
    let mut dice = Dice(seed);
    let mut o = options(path);
    o.chunk_events = 16 * 1024;
    o.chunk_pulses = 64;
    o.cue_interval = 50_000;
    if seed.is_multiple_of(3) {
        o.compression = Compression::Gzip(1);
        o.packing = match seed.is_multiple_of(2) {
            true => Packing::Hdf5,
            false => Packing::Direct { threads: 2 },
        };
    }
    if seed % 3 == 1 {
        o.disk = DiskWay::Direct;
    }
    let mut sink = NexusSink::create(&o).expect("a fresh path");
    let mut n = 0;
    loop {
        let to = n + dice.below(30_000);
        let products = if seed.is_multiple_of(2) { mixed(n, to, &mut dice) } else { events(n, to) };
        sink.push(&products).expect("space on the disk");
        n = to;
        if dice.below(3) == 0 {
            sink.flush().expect("space on the disk");
            let mut out = std::io::stdout().lock();
            writeln!(out, "flushed {n}").and_then(|()| out.flush()).expect("the test listens");
        }
    }
}

fn verify(path: &Path, flushed: u64) {
    let found = recover(path).unwrap();
    assert!(found.events >= flushed, "{} events of {flushed} flushed ones", found.events);
    assert_eq!(check(path).unwrap(), []);
    let file = File::open(path).unwrap();
    let group = file.group("/entry/bank_events").unwrap();
    let column = |name: &str| group.dataset(name).unwrap().read_raw::<i64>().unwrap();
    let (id, after, index) =
        (column("event_id"), column("event_time_offset"), column("event_index"));
    let zero = group.dataset("event_time_zero").unwrap().read_raw::<u64>().unwrap();
    assert_eq!(id.len() as u64, found.events);
    let mut there = vec![false; id.len()];
    for (i, (&id, &after)) in id.iter().zip(&after).enumerate() {
        let row = index.partition_point(|&first| first <= i as i64) - 1;
        let n = number_of(zero[row] as i64, after as u32);
        let n = n
            .unwrap_or_else(|| panic!("event {i}: no such pulse {} and offset {after}", zero[row]));
        assert_eq!(id, i64::from(pixel(n)), "event {n} of {}", found.events);
        // A flush ends after a batch: all numbers below the count, each once.
        let seen = there.get_mut(n as usize).expect("an event that was not flushed");
        assert!(!std::mem::replace(seen, true), "event {n} is there twice");
    }
}

#[test]
fn nothing_flushed_is_missing_after_a_kill() {
    if let Some(path) = std::env::var_os(CHILD) {
        write_until_killed(Path::new(&path), number("FULLCOUNT_KILL_SEED", 1));
    }
    let seed = number("FULLCOUNT_KILL_SEED", 1);
    for round in 0..number("FULLCOUNT_KILL_ROUNDS", 6) {
        let mut dice = Dice(seed.wrapping_add(round * 1000));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.nxs");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "nexus_kill::nothing_flushed_is_missing_after_a_kill", "--nocapture"])
            .env(CHILD, &path)
            .env("FULLCOUNT_KILL_SEED", (seed + round).to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut flushes =
            lines.map_while(Result::ok).filter_map(|l| l.strip_prefix("flushed ")?.parse().ok());
        let mut flushed: u64 = 0;
        for _ in 0..=dice.below(40) {
            flushed = flushes.next().expect("the writer goes on until it is killed");
        }
        // Somewhere inside what the writer does next.
        for _ in 0..dice.below(5_000_000) {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        flushed = flushes.last().unwrap_or(flushed);
        println!("round {round}: {flushed} events flushed");
        if let Err(failed) = std::panic::catch_unwind(|| verify(&path, flushed)) {
            println!("round {round}: the file is kept at {}", dir.keep().join("run.nxs").display());
            std::panic::resume_unwind(failed);
        }
    }
}
