//! Steps of the pinned toolchain: formatting, clippy, the Rust tests, the licences.
//!
//! Refuses any warning.

use std::time::Duration;

use super::Host;
use crate::command::{End, Job, Show};
use crate::place;
use crate::tally::{Libtest, Tally};

/// A check without counts of its own: one passed, or one failed.
pub fn check(what: &str, end: &End) -> Tally {
    if end.ok { Tally::pass() } else { Tally::fail(format!("{what}: {}", end.phrase)) }
}

/// Runs `cargo test …` and counts its tests; a skipped one is seen because what passing tests
/// print is asked for as well.
pub fn libtest(what: &str, job: Job) -> Tally {
    let mut reader = Libtest::default();
    let end = job.run_reading(|line| reader.read(line));
    reader.finish(&end, what)
}

/// The same beside another step: the lines are given back, to be shown later.
pub fn libtest_beside(what: &str, job: Job) -> (Tally, Vec<String>) {
    let (mut reader, mut lines) = (Libtest::default(), Vec::new());
    let end = job.last().run_silently(|line| {
        if reader.read(line) == Show::Yes {
            lines.push(line.to_owned());
        }
        Show::No
    });
    (reader.finish(&end, what), lines)
}

pub fn format(_: &Host) -> Tally {
    check("cargo fmt", &Job::cargo(&["fmt", "--all", "--check", "--", "--color", "never"]).run())
}

pub fn clippy(_: &Host) -> Tally {
    let job = Job::cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]);
    check("cargo clippy", &job.run())
}

pub fn test(host: &Host) -> Tally {
    let job = Job::cargo(&["test", "--workspace", "--no-fail-fast", "--", "--show-output"]);
    libtest("cargo test", host.tell(job).limit(Duration::from_secs(45 * 60)))
}

/// Advisories are left out: they need the network, and a new one must not turn an unchanged
/// revision red.
pub fn deny(_: &Host) -> Tally {
    if place::on_path("cargo-deny").is_none() {
        return Tally::unavailable("cargo-deny is not installed; run: cargo install cargo-deny");
    }
    println!(
        "advisories are not part of this (they need the network): cargo deny check advisories"
    );
    // Each is its own verdict, so that the summary names the one that said no.
    let mut tally = Tally::default();
    for part in ["licenses", "bans", "sources"] {
        let what = format!("cargo deny {part}");
        tally +=
            check(&what, &Job::cargo(&["deny", "check", "--hide-inclusion-graph", part]).run());
    }
    tally
}
