//! Parts of `test` under a name of their own, for the person who works on them.
//!
//! Refuses a filter that finds no test.

use super::{Host, rust};
use crate::command::Job;
use crate::tally::Tally;

/// The files that a run writes, read back with h5py, scippnexus, scippneutron and pandas.
pub fn python(host: &Host) -> Tally {
    let tests = ["--test", "nexus_python", "--test", "tables_python"];
    some(host, &[&["--package", "fullcount-out"][..], &tests].concat())
}

/// The page, driven in Chromium against a running binary.
pub fn browser(host: &Host) -> Tally {
    some(host, &["--package", "fullcount-out", "--test", "browser"])
}

/// Events of the running binary on a topic of a real Kafka, through kills of either.
pub fn kafka(host: &Host) -> Tally {
    // `cargo test` builds examples by itself only where no test is named.
    let example = ["build", "--package", "fullcount", "--example", "tof_spectrum"];
    if !Job::cargo(&example).run().ok {
        return Tally::fail("cargo build --example tof_spectrum".to_owned());
    }
    let files = ["kafka", "kafka_exact", "kafka_faults", "kafka_write", "kafka_scale"];
    let tests = files.map(|file| ["--test", file]).concat();
    some(host, &[&["--package", "fullcount"][..], &tests].concat())
}

/// `docs/counters.md` equals what `fullcount catalogue` prints.
pub fn counters(host: &Host) -> Tally {
    some(host, &["--package", "fullcount", "counters_document"])
}

fn some(host: &Host, which: &[&str]) -> Tally {
    let job = Job::cargo(&["test", "--no-fail-fast"]).args(which).args(["--", "--show-output"]);
    let tally = rust::libtest("cargo test", host.tell(job));
    if tally == Tally::default() {
        return Tally::fail(format!("cargo test {}: no such test", which.join(" ")));
    }
    tally
}
