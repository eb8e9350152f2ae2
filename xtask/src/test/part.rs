//! Parts of `test` under a name of their own, for the person who works on them.
//!
//! Refuses a filter that finds no test.

use super::{Host, rust};
use crate::command::Job;
use crate::tally::Tally;

/// What a run and the file writer write and say, read back with h5py, scippnexus, scippneutron, pandas and ess-streaming-data-types.
pub fn python(host: &Host) -> Tally {
    let names = ["nexus_python", "tables_python", "flat_python", "write_nicos", "write_python"];
    named(host, "fullcount-out", &names)
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
    let names = [
        "kafka",
        "kafka_answers",
        "kafka_exact",
        "kafka_faults",
        "kafka_group",
        "kafka_scale",
        "kafka_secured",
        "kafka_write",
        "write_control",
        "write_clock",
        "write_group",
        "write_peers",
        "write_live",
    ];
    named(host, "fullcount", &names)
}

/// The same with TLS: librdkafka and OpenSSL are compiled once more.
pub fn kafka_tls(host: &Host) -> Tally {
    let feature = ["--package", "fullcount", "--features", "kafka-tls"];
    some(host, &[&feature[..], &["--test", "kafka_secured"]].concat())
}

/// `docs/counters.md` equals what `fullcount catalogue` prints.
pub fn counters(host: &Host) -> Tally {
    some(host, &["--package", "fullcount", "counters_document"])
}

fn named(host: &Host, package: &str, names: &[&str]) -> Tally {
    let tests = names.iter().flat_map(|&name| ["--test", name]);
    some(host, &["--package", package].into_iter().chain(tests).collect::<Vec<_>>())
}

fn some(host: &Host, which: &[&str]) -> Tally {
    let job = Job::cargo(&["test", "--no-fail-fast"]).args(which).args(["--", "--show-output"]);
    let tally = rust::libtest("cargo test", host.tell(job));
    if tally == Tally::default() {
        return Tally::fail(format!("cargo test {}: no such test", which.join(" ")));
    }
    tally
}
