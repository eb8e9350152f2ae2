//! Traces for developers cost nothing where they are not built in: the same instructions with the line and without it.
//!
//! Compiles `crates/core/examples/trace_cost.rs` three times, optimised: as it is, without its trace, and with the feature. The first two have
//! to be equal instruction by instruction; the third has to differ, so that the check can fail. The tests of the crates with the feature
//! then run with it, since no other build has it. Source: docs/operations.md, "Traces".

use std::fs;
use std::path::Path;

use super::{Host, rust};
use crate::command::Job;
use crate::place;
use crate::tally::Tally;

/// Folder below the target directory.
pub const FOLDER: &str = "trace";

/// Name, features and configuration of each build.
const BUILDS: [(&str, &[&str], &[&str]); 3] = [
    ("usual", &[], &[]),
    ("without", &[], &["--cfg", "no_trace"]),
    ("built-in", &["--features", "trace"], &[]),
];

/// As a release, but for optimisation across crates; nothing of what other packages define is in the loop.
const OPTIMISED: [&str; 5] = [
    "profile.dev.opt-level=3",
    "profile.dev.package.'*'.opt-level=0",
    "profile.dev.debug=false",
    "profile.dev.debug-assertions=false",
    "profile.dev.overflow-checks=false",
];

/// Crates with the feature.
const TESTED: [&str; 3] = ["fullcount-core", "fullcount-export", "fullcount-log"];

pub fn check(_: &Host) -> Tally {
    let mut tally = compared();
    tally += tested();
    tally
}

/// Tests of traces, and those that traces must not change. All that core's feature reaches is compiled for them once more, so it is
/// not optimised.
fn tested() -> Tally {
    let job = Job::cargo(&["test", "--lib", "--no-fail-fast", "--features", "trace"])
        .args(TESTED.iter().flat_map(|name| ["--package", name]))
        .args(["--config", "profile.dev.opt-level=0", "--", "--show-output"]);
    rust::libtest("cargo test --features trace", job)
}

fn compared() -> Tally {
    // One folder for all: what the example uses, proptest as well, is optimised once.
    let folder = place::target().join(FOLDER);
    // A build that cargo finds fresh writes no listing: without those of the last run all are made again.
    if !BUILDS.iter().all(|(name, ..)| folder.join(format!("{name}.s")).exists()) {
        let _ = fs::remove_dir_all(&folder);
    }
    let mut tally = Tally::pass();
    let mut found = Vec::new();
    for (name, features, more) in BUILDS {
        match instructions(&folder, name, features, more) {
            Ok(all) => found.push(all),
            Err(failed) => {
                tally += failed;
                return tally;
            }
        }
    }
    let [usual, without, built_in] = &found[..] else { return tally };
    if usual.is_empty() || usual != without {
        let lines = format!("{} and {} instructions", usual.len(), without.len());
        tally += Tally::fail(format!("a trace that is not built in costs something: {lines}"));
    }
    if built_in == usual {
        tally += Tally::fail("with the feature there is no trace: the check shows nothing");
    }
    tally
}

/// Instructions of `steps` in one build.
fn instructions(
    folder: &Path,
    name: &str,
    features: &[&str],
    more: &[&str],
) -> Result<Vec<String>, Tally> {
    let listing = folder.join(format!("{name}.s"));
    let job = Job::cargo(&["rustc", "--package", "fullcount-core", "--example", "trace_cost"])
        .args(["--target-dir"])
        .args([folder])
        .args(OPTIMISED.iter().flat_map(|setting| ["--config", *setting]))
        .args(features)
        .args(["--", "-C", "codegen-units=1"])
        .args([&format!("--emit=asm={}", listing.display())])
        .args(more);
    let end = job.run();
    let built = rust::check(&format!("cargo rustc, {name}"), &end);
    if !end.ok {
        return Err(built);
    }
    let text = fs::read_to_string(&listing);
    let text = text.map_err(|e| Tally::fail(format!("{}: {e}", listing.display())))?;
    Ok(body(&text))
}

/// Instructions of the function, without labels and directives.
fn body(listing: &str) -> Vec<String> {
    let is_head =
        |line: &&str| line.contains("trace_cost") && line.contains("steps") && line.ends_with(':');
    let lines = listing.lines().skip_while(|line| !is_head(line)).skip(1);
    let lines = lines.take_while(|line| !line.trim_start().starts_with(".Lfunc_end"));
    let is_code = |line: &&str| !line.is_empty() && !line.starts_with('.') && !line.ends_with(':');
    lines.map(str::trim).filter(is_code).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::body;

    #[test]
    fn instructions_are_those_of_the_function_alone() {
        let listing = "main:\n\tret\n_ZN10trace_cost5steps17h0E:\n\t.cfi_startproc\n\txorl %eax, %eax\n.LBB0_1:\n\tretq\n.Lfunc_end0:\n\tnop\n";
        assert_eq!(body(listing), ["xorl %eax, %eax", "retq"]);
    }
}
