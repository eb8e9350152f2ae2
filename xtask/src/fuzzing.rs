//! Builds and runs the fuzz targets with cargo alone: no cargo-fuzz to install.
//!
//! Refuses a `fuzz/` folder without targets. Finds go to `target/fuzz/artifacts/NAME/`, what
//! widened the coverage to `target/fuzz/corpus/NAME/`, so a later run goes on from there.
//!
//! Source: the libFuzzer documentation (options, corpus), and the compiler flags that cargo-fuzz
//! sets.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use crate::command::{End, Job, Show};
use crate::{kinds, place};

mod seeds;

/// Coverage that libFuzzer steers by, with overflow checks and assertions on.
const FLAGS: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Ccodegen-units=1 -Cdebug-assertions -Coverflow-checks \
    --cfg fuzzing";

/// How targets are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// Under AddressSanitizer: some hundred to some thousand inputs a second.
    Sanitized,
    /// Without it, several times as fast. The decoders have no `unsafe`, so that what goes wrong there is a panic,
    /// an overflow or an assertion, which this build finds as well.
    Plain,
}

impl Build {
    fn flags(self) -> String {
        match self {
            Build::Sanitized => format!("{FLAGS} -Zsanitizer=address"),
            Build::Plain => FLAGS.to_owned(),
        }
    }

    /// Below `target`; a folder for each, so that neither build throws the other away.
    fn folder(self) -> PathBuf {
        place::target().join(match self {
            Build::Sanitized => "fuzz",
            Build::Plain => "fuzz-plain",
        })
    }
}

/// The target that serves all decoders: one [`Target`] a kind comes of it.
const DECODERS: &str = "decoders";

/// One fuzz target that is built, or one kind of the target of all decoders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The name of its file in `fuzz/fuzz_targets`; of [`DECODERS`] that of the kind.
    pub name: String,
    binary: PathBuf,
    seeds: Vec<PathBuf>,
    /// What the target reads from its environment.
    environment: Vec<(&'static str, String)>,
}

/// What a target is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// Inputs in all, those that are replayed included.
    pub runs: u64,
    /// Longest time.
    pub limit: Duration,
    /// Processes that share the inputs out among them, each with a seed of its own.
    pub processes: u32,
    /// Seed of the first.
    pub seed: u32,
}

/// Longest input, bytes: what the target reads several of, or a small capture.
fn longest(target: &Target) -> usize {
    match target.environment.is_empty() {
        // Several datagrams as they are sent, and the longest vector (7.7 KiB). Longer inputs of a decoder take longer
        // and show nothing new: what is beyond a datagram is refused by its length alone.
        false => 8192,
        true => 65_536,
    }
}

/// Builds all targets.
///
/// # Errors
///
/// No targets, no host triple, or the build's own end.
pub fn build(build: Build) -> Result<Vec<Target>, String> {
    let names = names()?;
    let triple = place::host_triple().ok_or("rustc does not say which host this is")?;
    let folder = build.folder();
    let end = Job::nightly_cargo(&["build", "--release", "--manifest-path", "fuzz/Cargo.toml"])
        .args(["--bins", "--target", &triple, "--target-dir"])
        .args([&folder])
        .env("RUSTFLAGS", build.flags())
        .run();
    if !end.ok {
        return Err(format!("the fuzz targets do not build: {}", end.phrase));
    }
    let binaries = folder.join(triple).join("release");
    let mut targets = Vec::new();
    for name in names.into_iter().filter(|name| name != DECODERS) {
        let (binary, seeds) = (binaries.join(&name), seeds::of(&name, &folder)?);
        targets.push(Target { name, binary, seeds, environment: Vec::new() });
    }
    let kinds = kinds::decoders(&kinds::program()?)?;
    let known: Vec<&str> = kinds.iter().map(|kind| kind.name.as_str()).collect();
    for kind in &kinds {
        let environment = vec![
            ("FULLCOUNT_FUZZ_KIND", kind.name.clone()),
            ("FULLCOUNT_FUZZ_KINDS", known.join(",")),
        ];
        let (name, binary) = (kind.name.clone(), binaries.join(DECODERS));
        targets.push(Target { name, binary, seeds: seeds::of_kind(kind, &folder)?, environment });
    }
    Ok(targets)
}

impl Target {
    /// Replays the seeds and what earlier runs found worth keeping, then makes up inputs until
    /// `runs` are done or `limit` is over. The seed is fixed: the same build does the same.
    pub fn run(&self, runs: u64, limit: Duration) -> End {
        self.fuzz(Task { runs, limit, processes: 1, seed: 1 }).1
    }

    /// The same by several processes, which take over from each other what they find worth keeping; the inputs
    /// that were executed, and the first end that is not good.
    pub fn fuzz(&self, task: Task) -> (u64, End) {
        let folder = place::target().join("fuzz");
        let corpus = folder.join("corpus").join(&self.name);
        let artifacts = folder.join("artifacts").join(&self.name);
        for folder in [&corpus, &artifacts] {
            if let Err(error) = fs::create_dir_all(folder) {
                return (0, End { ok: false, phrase: format!("{}: {error}", folder.display()) });
            }
        }
        let processes = u64::from(task.processes.max(1));
        let runs = task.runs.div_ceil(processes);
        let one = |number: u32| {
            let seed = task.seed + number;
            let mut inputs = 0;
            let job = self
                .environment
                .iter()
                .fold(Job::new(&self.binary), |job, (key, value)| job.env(key, value));
            let end = job
                .args([format!("-runs={runs}"), format!("-seed={seed}")])
                .args([format!("-max_total_time={}", task.limit.as_secs())])
                .args(["-print_final_stats=1", "-verbosity=1", "-timeout=10", "-rss_limit_mb=2048"])
                .args([format!("-max_len={}", longest(self))])
                .args([format!("-artifact_prefix={}/", artifacts.display())])
                .args([&corpus])
                .args(&self.seeds)
                .limit(task.limit + Duration::from_secs(120))
                .run_reading(|line| {
                    if let Some(number) = line.strip_prefix("stat::number_of_executed_units:") {
                        inputs = number.trim().parse::<u64>().unwrap_or(0);
                    }
                    // The others do the same as the first: only what goes wrong is news.
                    let told = number > 0 && is_progress(line);
                    if told || is_chatter(line) { Show::No } else { Show::Yes }
                });
            (inputs, end)
        };
        let all: Vec<(u64, End)> = thread::scope(|scope| {
            let others: Vec<_> =
                (1..task.processes.max(1)).map(|n| scope.spawn(move || one(n))).collect();
            let panicked = || (0, End { ok: false, phrase: "its watcher panicked".to_owned() });
            // The first on this thread: its lines are shown, or kept by who asked for them.
            let others = others.into_iter().map(|t| t.join().unwrap_or_else(|_| panicked()));
            [one(0)].into_iter().chain(others).collect()
        });
        let inputs = all.iter().map(|(inputs, _)| inputs).sum();
        let ends: Vec<End> = all.into_iter().map(|(_, end)| end).collect();
        let bad = ends.iter().find(|end| !end.ok).or(ends.first()).cloned();
        (inputs, bad.unwrap_or(End { ok: false, phrase: "nothing was started".to_owned() }))
    }
}

/// How far libFuzzer is.
fn is_progress(line: &str) -> bool {
    ["#", "INFO:", "stat::", "Done "].iter().any(|begin| line.starts_with(begin))
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
