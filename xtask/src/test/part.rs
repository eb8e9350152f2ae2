//! Parts of `test` under a name of their own, for the person who works on them; and the faults, again and again.
//!
//! Refuses a choice that finds no test. Tests are named by their file, whichever crate has it.

use super::{Host, rust};
use crate::command::Job;
use crate::tally::Tally;

const ONCE: (u32, Option<u32>) = (1, None);

/// What a run and the file writer write and say, read back with h5py, scippnexus, scippneutron, pandas and ess-streaming-data-types.
pub fn python(host: &Host) -> Tally {
    files(host, &["nexus_python", "tables_python", "flat_python", "write_nicos", "write_python"])
}

/// The page, driven in Chromium against a running binary.
pub fn browser(host: &Host) -> Tally {
    files(host, &["browser"])
}

/// Events of the running binary on a topic of a real Kafka, through kills of either.
pub fn kafka(host: &Host) -> Tally {
    let more = ["write_control", "write_clock", "write_peers", "write_live"];
    rust::some(host, ONCE, |file, _| {
        file == "kafka" || file.starts_with("kafka_") || more.contains(&file)
    })
}

/// The same with TLS: librdkafka and OpenSSL are compiled once more.
pub fn kafka_tls(host: &Host) -> Tally {
    let job = Job::cargo(&["test", "--no-fail-fast", "--package", "fullcount"])
        .args(["--features", "kafka-tls", "--test", "scenarios"])
        .args(["--", "--show-output", "kafka_secured::"]);
    let tally = rust::libtest("cargo test --features kafka-tls", host.tell(job));
    if tally == Tally::default() {
        return Tally::fail("there is no test `kafka_secured::`");
    }
    tally
}

/// `docs/counters.md` equals what `fullcount catalogue` prints.
pub fn counters(host: &Host) -> Tally {
    rust::some(host, ONCE, |_, test| test.contains("counters_document"))
}

/// Kills, cuts, full disks and members that go, twice more and with more rounds: what goes wrong one time in ten.
pub fn faults(host: &Host) -> Tally {
    let files = ["kafka_faults", "kafka_exact", "kafka_group", "full_spool", "redundant_links"];
    rust::some(host, (2, Some(6)), |file, _| files.contains(&file))
}

fn files(host: &Host, names: &[&str]) -> Tally {
    rust::some(host, ONCE, |file, _| names.contains(&file))
}
