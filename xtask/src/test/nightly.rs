//! Steps of the nightly toolchain: Miri on core, AddressSanitizer on io, the fuzz targets.
//!
//! Refuses to fail for want of nightly: where rustup cannot bring it the step says so and counts
//! as skipped, in CI as well.
//!
//! Source: docs/testing.md, "What each step is for".

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::{Host, rust};
use crate::command::{Job, abreast, show};
use crate::tally::Tally;
use crate::{fuzzing, place, setup};

/// Runs of each fuzz target after its seeds: some seconds each, enough to meet what a changed
/// decoder does to the seeds' near neighbours.
const SHORT_RUNS: u64 = 20_000;
/// Longest time of one target. Under AddressSanitizer the slowest makes some 260 inputs a second.
const LONGEST_RUN: Duration = Duration::from_secs(90);

/// Tests that walk tables and long streams in safe code (core forbids any other): 20 s to hours under Miri, and
/// nothing in them that their neighbours do not reach. The emulated channel and the costs of a link took half of the
/// step's 13 min 37 s on two cores.
const MIRI_SKIPS: [&str; 10] = [
    "a_million_packets_with_a_hundred_of_each_are_reported_exactly",
    "shares_come_out_as_asked",
    "the_sizes_of_table_1_follow_from_its_rates_and_overheads",
    "sequence::turns::tests::",
    "sim::channel::tests::",
    "wall::",
    "link::cost::tests::",
    "what_is_emitted_is_parsed_back",
    "what_cannot_be_a_datagram_is_refused",
    "strangers_who_come_once_each_leave_all_others_their_places",
];

pub fn miri(_: &Host) -> Tally {
    for component in ["miri", "rust-src"] {
        if let Err(reason) = setup::rust_component(component, true) {
            return Tally::unavailable(format!("{component} is not to be had: {reason}"));
        }
    }
    // Miri is some hundred times slower than the machine: properties get 4 cases, not 256, and
    // may read where they stand (proptest looks for its regressions file).
    let job = Job::nightly_cargo(&["miri", "test", "--package", "fullcount-core", "--lib"])
        .args(["--no-fail-fast", "--", "--show-output"])
        .args(MIRI_SKIPS.iter().flat_map(|name| ["--skip", name]))
        .env("MIRIFLAGS", "-Zmiri-disable-isolation")
        .env("PROPTEST_CASES", "4")
        .limit(Duration::from_secs(45 * 60));
    rust::libtest("cargo miri test", job)
}

pub fn asan(host: &Host) -> Tally {
    if let Err(reason) = setup::nightly_toolchain() {
        return Tally::unavailable(format!("nightly is not to be had: {reason}"));
    }
    let Some(triple) = place::host_triple().filter(|triple| triple.contains("linux")) else {
        return Tally::unavailable("AddressSanitizer is run on Linux only");
    };
    // With --target the flags do not reach build scripts; a folder of its own keeps the ordinary
    // build from being thrown away each time.
    let job = Job::nightly_cargo(&["test", "--package", "fullcount-io", "--lib", "--tests"])
        .args(["--no-fail-fast", "--target", &triple, "--target-dir"])
        .args([place::target().join("asan")])
        .args(["--", "--show-output"])
        .env("RUSTFLAGS", "-Zsanitizer=address")
        // Asked for is what `unsafe` touches; tests leak small buffers on purpose for 'static.
        .env("ASAN_OPTIONS", "detect_leaks=0");
    rust::libtest("cargo test under AddressSanitizer", host.tell(job))
}

pub fn fuzz(_: &Host) -> Tally {
    if let Err(reason) = setup::nightly_toolchain() {
        return Tally::unavailable(format!("nightly is not to be had: {reason}"));
    }
    let targets = match fuzzing::build(fuzzing::Build::Sanitized) {
        Ok(targets) => targets,
        Err(error) => return Tally::fail(error),
    };
    abreast_each(&targets, |target| {
        let end = target.run(SHORT_RUNS, LONGEST_RUN);
        rust::check(&format!("fuzz target {}", target.name), &end)
    })
}

/// Checks them all, one for each processor at a time: a fuzz target is one process that computes. What a check shows comes as one block. Not for a
/// step that runs beside others: the threads here know nothing of its rank.
fn abreast_each<T: Sync>(all: &[T], check: impl Fn(&T) -> Tally + Sync) -> Tally {
    let (left, sum) = (Mutex::new(all.iter()), Mutex::new(Tally::default()));
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(one) = next() {
                    let (tally, lines) = abreast(|| check(one));
                    let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
                    lines.iter().for_each(|line| show(line));
                    *sum += tally;
                }
            });
        }
    });
    sum.into_inner().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_abreast_is_all_checked_and_one_that_fails_is_named() {
        let all: Vec<u32> = (0..9).collect();
        let tally = abreast_each(&all, |n| match n {
            5 => Tally::fail("five"),
            _ => Tally::pass(),
        });
        assert_eq!((tally.passed, tally.failed), (8, vec!["five".to_owned()]));
        assert_eq!(abreast_each(&all[..0], |_| Tally::pass()), Tally::default());
    }
}
