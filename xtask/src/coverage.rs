//! `cargo xtask coverage`: line coverage per crate with the compiler's own instrumentation.
//!
//! Refuses to give figures from tests that failed. Only workspace crates are instrumented: this
//! binary stands in front of rustc for them (`RUSTC_WORKSPACE_WRAPPER`) and adds the flag, so the
//! dependencies are neither slowed nor counted.
//!
//! Source: the rustc book, "Instrumentation-based code coverage"; `llvm-cov export` summaries.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use serde_json::{Value, json};

use crate::command::{Job, Show};
use crate::setup;
use crate::{place, record};

/// Says to this binary that cargo started it in front of rustc.
const WRAPPER: &str = "FULLCOUNT_COVERAGE_WRAPPER";

/// Whether cargo started this binary in front of rustc.
pub fn is_wrapper() -> bool {
    env::var_os(WRAPPER).is_some()
}

/// Becomes rustc, with instrumentation: `xtask RUSTC ARGS…`.
pub fn wrap_rustc() -> ExitCode {
    let mut words = env::args_os().skip(1);
    let Some(rustc) = words.next() else {
        eprintln!("error: {WRAPPER} is set, but cargo gave no compiler to start");
        return ExitCode::FAILURE;
    };
    let error = Command::new(&rustc).args(words).arg("-Cinstrument-coverage").exec();
    eprintln!("error: {} did not start: {error}", rustc.to_string_lossy());
    ExitCode::FAILURE
}

/// Builds and runs all Rust tests instrumented, prints and records the figures.
pub fn run(arguments: &[String]) -> ExitCode {
    if let Some(argument) = arguments.first() {
        eprintln!("error: coverage takes no argument, not `{argument}`");
        return ExitCode::from(2);
    }
    match measure() {
        Ok(file) => {
            println!("written: {}", file.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<PathBuf, String> {
    setup::ensure(&[setup::C_COMPILER, setup::CMAKE]).map_err(|missing| missing.to_string())?;
    setup::rust_component("llvm-tools", false)?;
    let tools = place::llvm_tools().ok_or("llvm-tools is installed but llvm-cov is not there")?;
    let folder = place::target().join("coverage");
    let profiles = folder.join("profiles");
    if profiles.is_dir() {
        // Counts of an earlier build would be taken for those of this one.
        fs::remove_dir_all(&profiles)
            .map_err(|error| format!("{}: {error}", profiles.display()))?;
    }

    let tests = instrumented(&["test", "--workspace", "--no-fail-fast"], &folder)?.run();
    if !tests.ok {
        return Err(format!("the tests did not pass: {}", tests.phrase));
    }
    let objects = executables(&folder)?;
    let merged = folder.join("merged.profdata");
    merge(&tools, &profiles, &merged)?;
    let summary = export(&tools, &objects, &merged)?;
    let crates = per_crate(&summary, &place::root())?;
    println!("\n{:12} {:>8} {:>8} {:>7}", "crate", "lines", "covered", "%");
    let (mut all_lines, mut all_covered) = (0, 0);
    let mut rows = serde_json::Map::new();
    for (name, (lines, covered)) in crates {
        println!("{name:12} {lines:8} {covered:8} {:6.1}%", percent(lines, covered));
        rows.insert(name, row(lines, covered));
        all_lines += lines;
        all_covered += covered;
    }
    println!("{:12} {all_lines:8} {all_covered:8} {:6.1}%", "all", percent(all_lines, all_covered));
    record::write("coverage", &json!({"crates": rows, "all": row(all_lines, all_covered)}))
}

fn row(lines: u64, covered: u64) -> Value {
    json!({"lines": lines, "covered": covered, "percent": percent(lines, covered)})
}

/// Per cent, to a tenth.
fn percent(lines: u64, covered: u64) -> f64 {
    if lines == 0 { 0.0 } else { (covered as f64 * 1000.0 / lines as f64).round() / 10.0 }
}

fn instrumented(arguments: &[&str], folder: &Path) -> Result<Job, String> {
    let myself = env::current_exe().map_err(|error| format!("where this binary is: {error}"))?;
    Ok(Job::cargo(arguments)
        .args(["--target-dir"])
        .args([folder])
        .env("RUSTC_WORKSPACE_WRAPPER", myself)
        .env(WRAPPER, "1")
        // %m: one file per binary; %p: per process, so a test that starts the binary counts too.
        .env("LLVM_PROFILE_FILE", folder.join("profiles/%m-%p.profraw")))
}

/// All test binaries and the program they start, as cargo names them.
fn executables(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for arguments in [
        &["test", "--workspace", "--no-run", "--message-format", "json"][..],
        &["build", "--workspace", "--bins", "--message-format", "json"][..],
    ] {
        let end = instrumented(arguments, folder)?.run_reading(|line| {
            let Ok(message) = serde_json::from_str::<Value>(line) else { return Show::Yes };
            if let Some(path) = message["executable"].as_str() {
                found.push(PathBuf::from(path));
            }
            Show::No
        });
        if !end.ok {
            return Err(format!("cargo: {}", end.phrase));
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

fn merge(tools: &Path, profiles: &Path, merged: &Path) -> Result<(), String> {
    let entries = fs::read_dir(profiles).map_err(|e| format!("{}: {e}", profiles.display()))?;
    let files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    // By a list in a file: a command line would not hold thousands of names.
    let list = merged.with_extension("list");
    let text: String = files.iter().map(|file| format!("{}\n", file.display())).collect();
    fs::write(&list, text).map_err(|error| format!("{}: {error}", list.display()))?;
    // A process that a test killed leaves a broken profile; the others still count.
    let end = Job::new(tools.join("llvm-profdata"))
        .args(["merge", "--sparse", "--failure-mode=all", "--input-files"])
        .args([&list])
        .args(["--output"])
        .args([merged])
        .run();
    if end.ok { Ok(()) } else { Err(format!("llvm-profdata: {}", end.phrase)) }
}

fn export(tools: &Path, objects: &[PathBuf], merged: &Path) -> Result<Value, String> {
    let mut command = Command::new(tools.join("llvm-cov"));
    command.args(["export", "--summary-only", "--instr-profile"]).arg(merged);
    for object in objects {
        command.arg("--object").arg(object);
    }
    let output = command.output().map_err(|error| format!("llvm-cov: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("llvm-cov: {}", said.lines().next().unwrap_or("no reason given")));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("llvm-cov's JSON: {error}"))
}

/// Lines and covered lines of each folder in `crates/`; files of tests only are left out.
fn per_crate(summary: &Value, root: &Path) -> Result<BTreeMap<String, (u64, u64)>, String> {
    let files = summary["data"][0]["files"].as_array().ok_or("llvm-cov's JSON has no files")?;
    let mut crates: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for file in files {
        let name = file["filename"].as_str().unwrap_or_default();
        let Ok(path) = Path::new(name).strip_prefix(root.join("crates")) else { continue };
        let Some(folder) = path.iter().next().and_then(|part| part.to_str()) else { continue };
        let is_source = path.iter().nth(1).is_some_and(|part| part == "src");
        if !is_source || name.ends_with("tests.rs") {
            continue;
        }
        let lines = &file["summary"]["lines"];
        let (Some(count), Some(covered)) = (lines["count"].as_u64(), lines["covered"].as_u64())
        else {
            return Err(format!("llvm-cov's JSON has no lines for {name}"));
        };
        let entry = crates.entry(folder.to_owned()).or_default();
        entry.0 += count;
        entry.1 += covered;
    }
    Ok(crates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_summed_per_crate_without_the_tests() {
        let file = |name: &str, count: u64, covered: u64| json!({"filename": name, "summary": {"lines": {"count": count, "covered": covered}}});
        let summary = json!({"data": [{"files": [
            file("/w/crates/core/src/time.rs", 100, 90),
            file("/w/crates/core/src/sim/link.rs", 50, 50),
            file("/w/crates/core/src/sequence_tests.rs", 400, 400),
            file("/w/crates/web/tests/page.rs", 30, 30),
            file("/w/xtask/src/main.rs", 10, 0),
        ]}]});
        let crates = per_crate(&summary, Path::new("/w")).unwrap();
        assert_eq!(crates.into_iter().collect::<Vec<_>>(), [("core".to_owned(), (150, 140))]);
        assert_eq!(percent(150, 140), 93.3);
    }

    #[test]
    fn a_summary_without_files_is_refused() {
        assert!(per_crate(&json!({}), Path::new("/w")).is_err());
    }
}
