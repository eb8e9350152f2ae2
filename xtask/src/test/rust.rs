//! Steps of the pinned toolchain: formatting, clippy, the Rust tests, the licences.
//!
//! Refuses any warning.

use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fullcount_broker::BrokerCluster;

use super::crew::{self, Other};
use super::linted::{self, Lints};
use super::pieces::{self, Piece};
use super::{Host, binaries, cost, portable};
use crate::command::{End, Job};
use crate::tally::{Libtest, Tally};
use crate::{place, setup};

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

pub fn format(_: &Host) -> Tally {
    check("cargo fmt", &Job::cargo(&["fmt", "--all", "--check", "--", "--color", "never"]).run())
}

fn lock(lints: &Mutex<Option<Lints>>) -> MutexGuard<'_, Option<Lints>> {
    lints.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What lints said in the build of the tests; without one that came to its end clippy reads all targets for itself.
pub fn clippy(host: &Host) -> Tally {
    if let Some(tally) = lock(&host.lints).take().and_then(|lints| lints.tally()) {
        return tally;
    }
    let job = Job::cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]);
    check("cargo clippy", &job.run())
}

/// The broker for tests that need no more of it than that it is there; with it they start none of their own.
struct Broker(Option<BrokerCluster>);

impl Broker {
    /// Nothing without Kafka's jars; where it does not start the tests' own will say why.
    fn start(host: &Host) -> Self {
        let folder = place::target().join("kafka/for-tests");
        // What a run left that was ended half-way.
        let _ = fs::remove_dir_all(&folder);
        Self(host.kafka.as_ref().and_then(|jars| BrokerCluster::start(jars, &folder, 1, None).ok()))
    }

    fn tell(&self, job: Job) -> Job {
        match &self.0 {
            Some(cluster) => job.env("FULLCOUNT_KAFKA_BROKER", cluster.bootstrap()),
            None => job,
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.0 = None;
        let _ = fs::remove_dir_all(place::target().join("kafka/for-tests"));
    }
}

/// All tests: built once, then run by the crew.
pub fn test(host: &Host) -> Tally {
    // A test links the sender of the simplified TCP for it; without it that test says so itself.
    if let Err(reason) = setup::rust_target(portable::BARE) {
        println!("{} is not to be had: {reason}", portable::BARE);
    }
    let mut lints = Lints::default();
    let (built, cost) = cost::measured(|| binaries::build(&mut lints));
    host.notes.part("build", cost);
    let built = match built {
        Ok(built) => built,
        // Not all was linted.
        Err(error) => return Tally::fail(error),
    };
    *lock(&host.lints) = Some(lints);
    let pieces = pieces::cut(&built);
    let listed = pieces::unknown(&pieces).into_iter();
    let mut tally = listed.fold(Tally::default(), |mut tally, name| {
        tally += Tally::fail(format!("xtask/src/test/pieces.rs: there is no test file `{name}`"));
        tally
    });
    let folders = ["crates", "examples"].map(|folder| place::root().join(folder));
    for file in folders.iter().flat_map(|folder| pieces::unheard(folder, &pieces)) {
        let file = file.strip_prefix(place::root()).unwrap_or(&file).display().to_string();
        tally += Tally::fail(format!("{file}: none of its tests runs; is it in tests/main.rs?"));
    }
    let job =
        Job::cargo(&["test", "--workspace", "--doc", "--no-fail-fast", "--", "--show-output"]);
    let job = linted::by_clippy(job);
    let mut others = vec![Other::Cargo { label: "doc tests", job: job.into() }];
    others.push(Other::Step(Box::new(|| host.beside.run(host))));
    let broker = Broker::start(host);
    let work = || crew::run(&built, &pieces, others, |job| broker.tell(host.tell(job)));
    let ((ran, costs), cost) = cost::measured(work);
    host.notes.part("run", cost);
    host.notes.pieces(costs);
    tally += ran;
    tally
}

/// Tests chosen by the name of their file and their own: everything is built, as for `test`, so that nothing is built twice.
///
/// A choice that finds no test is a failure. All of it so many times, with so many rounds of each fault, if that is said.
pub fn some(
    host: &Host,
    (times, faults): (u32, Option<u32>),
    chosen: impl Fn(&str, &str) -> bool,
) -> Tally {
    let (built, cost) = cost::measured(|| binaries::build(&mut Lints::default()));
    host.notes.part("build", cost);
    let built = match built {
        Ok(built) => built,
        Err(error) => return Tally::fail(error),
    };
    let mut pieces = pieces::cut(&built);
    for piece in &mut pieces {
        let Piece { file, tests, .. } = piece;
        tests.retain(|test| chosen(file, test));
    }
    pieces.retain(|piece| !piece.tests.is_empty());
    if pieces.is_empty() {
        return Tally::fail("there is no such test");
    }
    let broker = Broker::start(host);
    let tell = |job| match faults {
        Some(n) => broker.tell(host.tell(job)).env("FULLCOUNT_FAULT_ROUNDS", n.to_string()),
        None => broker.tell(host.tell(job)),
    };
    // The next round begins as soon as there is room, and does not wait for the longest file of the one before.
    let all: Vec<Piece> = (1..=times).flat_map(|n| round(&pieces, n, times)).collect();
    let ((ran, _), cost) = cost::measured(|| crew::run(&built, &all, Vec::new(), tell));
    host.notes.part("run", cost);
    ran
}

/// The pieces of one round; with several rounds each says of which it is.
fn round(pieces: &[Piece], n: u32, of: u32) -> Vec<Piece> {
    let mut pieces = pieces.to_vec();
    if of > 1 {
        pieces.iter_mut().for_each(|piece| piece.label += &format!(" (round {n})"));
    }
    pieces
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_several_rounds_say_of_which_they_are() {
        let of = |label: &str| Piece {
            binary: 0,
            label: label.to_owned(),
            file: String::new(),
            tests: Vec::new(),
            alone: false,
        };
        let pieces = [of("a"), of("b")];
        assert_eq!(round(&pieces, 1, 1), pieces);
        assert_eq!(round(&pieces, 2, 2), [of("a (round 2)"), of("b (round 2)")]);
    }
}
