//! Builds and runs the fuzz targets with cargo alone: no cargo-fuzz to install.
//!
//! Refuses a `fuzz/` folder without targets. Finds go to `target/fuzz/artifacts/NAME/`, what
//! widened the coverage to `target/fuzz/corpus/NAME/`, so a later run goes on from there.
//!
//! Source: the libFuzzer documentation (options, corpus), and the compiler flags that cargo-fuzz
//! sets.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::command::{End, Job, Show};
use crate::place;

mod seeds;

/// Coverage that libFuzzer steers by, with AddressSanitizer, overflow checks and assertions on.
const FLAGS: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Zsanitizer=address -Ccodegen-units=1 -Cdebug-assertions -Coverflow-checks \
    --cfg fuzzing";

/// One fuzz target that is built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The name of its file in `fuzz/fuzz_targets`.
    pub name: String,
    binary: PathBuf,
    seeds: Vec<PathBuf>,
}

/// Builds all targets.
///
/// # Errors
///
/// No targets, no host triple, or the build's own end.
pub fn build() -> Result<Vec<Target>, String> {
    let names = names()?;
    let triple = place::host_triple().ok_or("rustc does not say which host this is")?;
    let folder = place::target().join("fuzz");
    let end = Job::nightly_cargo(&["build", "--release", "--manifest-path", "fuzz/Cargo.toml"])
        .args(["--bins", "--target", &triple, "--target-dir"])
        .args([&folder])
        .env("RUSTFLAGS", FLAGS)
        .run();
    if !end.ok {
        return Err(format!("the fuzz targets do not build: {}", end.phrase));
    }
    let binaries = folder.join(triple).join("release");
    let target = |name: String| {
        let (binary, seeds) = (binaries.join(&name), seeds::of(&name, &folder)?);
        Ok(Target { name, binary, seeds })
    };
    names.into_iter().map(target).collect()
}

impl Target {
    /// Replays the seeds and what earlier runs found worth keeping, then makes up inputs until
    /// `runs` are done or `limit` is over. The seed is fixed: the same build does the same.
    pub fn run(&self, runs: u64, limit: Duration) -> End {
        self.run_reading(runs, limit, |_| ())
    }

    /// As [`Self::run`]; `read` sees every line of libFuzzer's, its final figures among them.
    pub fn run_reading(&self, runs: u64, limit: Duration, mut read: impl FnMut(&str)) -> End {
        let folder = place::target().join("fuzz");
        let corpus = folder.join("corpus").join(&self.name);
        let artifacts = folder.join("artifacts").join(&self.name);
        for folder in [&corpus, &artifacts] {
            if let Err(error) = fs::create_dir_all(folder) {
                return End { ok: false, phrase: format!("{}: {error}", folder.display()) };
            }
        }
        Job::new(&self.binary)
            .args([format!("-runs={runs}"), format!("-max_total_time={}", limit.as_secs())])
            .args(["-seed=1", "-print_final_stats=1", "-verbosity=1", "-timeout=10"])
            // Both a whole datagram and a small capture fit.
            .args(["-max_len=65536", "-rss_limit_mb=2048"])
            .args([format!("-artifact_prefix={}/", artifacts.display())])
            .args([&corpus])
            .args(&self.seeds)
            .limit(limit + Duration::from_secs(120))
            .run_reading(|line| {
                read(line);
                if is_chatter(line) { Show::No } else { Show::Yes }
            })
    }
}

/// One line for each input worth keeping, and a dictionary for other tools: thousands of lines.
fn is_chatter(line: &str) -> bool {
    let kept = line.starts_with('#') && (line.contains(" NEW ") || line.contains(" REDUCE "));
    kept || line.starts_with("###### ") || line.contains("# Uses: ")
}

fn names() -> Result<Vec<String>, String> {
    let folder = place::root().join("fuzz/fuzz_targets");
    let entries =
        fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut names: Vec<String> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .filter_map(|path| path.file_stem()?.to_str().map(str::to_owned))
        .collect();
    names.sort();
    if names.is_empty() {
        return Err(format!("{}: no fuzz target", folder.display()));
    }
    Ok(names)
}
