//! Builds and runs the fuzz targets with cargo alone: no cargo-fuzz to install.
//!
//! Refuses a `fuzz/` folder without targets. Finds go to `target/fuzz/artifacts/NAME/`, what
//! widened the coverage to `target/fuzz/corpus/NAME/`, so a later run goes on from there.
//!
//! Source: the libFuzzer documentation (options, corpus), and the compiler flags that cargo-fuzz
//! sets.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::command::{End, Job, Show};
use crate::place;

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
        let (binary, seeds) = (binaries.join(&name), seeds(&name, &folder)?);
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

/// Where a target starts: the golden vectors, in the form that the target reads.
///
/// # Errors
///
/// A folder that cannot be read or written.
fn seeds(name: &str, folder: &Path) -> Result<Vec<PathBuf>, String> {
    let vectors = place::root().join("vectors");
    match name {
        // Whole captures.
        "pcap" => Ok(vec![vectors.join("pcap"), vectors.join("sonde")]),
        // Datagrams, each behind its length; one input may hold several.
        "sonde" => {
            let folder = folder.join("seeds").join(name);
            prefixed(&vectors.join("sonde"), &folder)
                .map_err(|error| format!("{}: {error}", folder.display()))?;
            Ok(vec![folder])
        }
        // Made up from nothing: numbers, or frames of any link type.
        _ => Ok(Vec::new()),
    }
}

/// Writes each `.bin` of `from` into `to` behind its length (16 bits, little-endian), and all of
/// them in a row as one more.
fn prefixed(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    let mut all = Vec::new();
    for entry in fs::read_dir(from)? {
        let file = entry?.path();
        if file.extension().is_none_or(|extension| extension != "bin") {
            continue;
        }
        let bytes = fs::read(&file)?;
        let length = u16::try_from(bytes.len()).map_err(std::io::Error::other)?;
        let seed = [&length.to_le_bytes()[..], &bytes].concat();
        fs::write(to.join(file.file_name().unwrap_or_default()), &seed)?;
        all.extend(seed);
    }
    fs::write(to.join("all.bin"), all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_stand_behind_their_lengths() {
        let folder = std::env::temp_dir().join(format!("fullcount-seeds-{}", std::process::id()));
        let (from, to) = (folder.join("from"), folder.join("to"));
        fs::create_dir_all(&from).unwrap();
        fs::write(from.join("a.bin"), [7u8; 300]).unwrap();
        fs::write(from.join("notes.txt"), "no packet").unwrap();
        prefixed(&from, &to).unwrap();
        let seed = fs::read(to.join("a.bin")).unwrap();
        assert_eq!((&seed[..2], seed.len()), (&[0x2c, 1][..], 302));
        assert_eq!(fs::read(to.join("all.bin")).unwrap(), seed);
        assert_eq!(fs::read_dir(&to).unwrap().count(), 2);
        fs::remove_dir_all(&folder).unwrap();
    }
}
