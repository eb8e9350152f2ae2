//! `cargo xtask lines [REVISION]`: source lines of the program, without tests, examples, benches and generated code.
//!
//! Counts lines of Rust below `crates/*/src`, blank ones and comments included, up to the `#[cfg(test)]` that begins a file's tests.
//! Tests are also the files that a `#[cfg(test)] mod NAME;` declares, the conformance suites of the seams with the samples of
//! detectors that they try (nothing else asks for these), and the crates that only tests use. Beside the crates it counts what the
//! lines are for ([`groups`]). This crate's own lines stand by themselves: they are not part of the program. Refuses a revision that git
//! does not know (exit 1). Source: docs/architecture.md, "The house".

mod groups;

use std::collections::BTreeMap;
use std::process::{Command, ExitCode};

use crate::place;

/// Where this crate's own files are.
const OWN: &str = "xtask/";

fn git(words: &[&str]) -> Result<String, String> {
    let out = Command::new("git").args(words).current_dir(place::root()).output();
    let out = out.map_err(|e| format!("git: {e}"))?;
    if !out.status.success() {
        return Err(String::from_utf8_lossy(&out.stderr).trim().to_owned());
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// Folders whose `sample.rs` are packets to try a detector with.
const SAMPLES: [&str; 2] = ["crates/core/src/detector/", "crates/detect/src/"];

/// True if the line has what follows it compiled for tests only.
fn only_for_tests(line: &str) -> bool {
    line == "#[cfg(test)]" || line.starts_with("#[cfg(all(test, ")
}

/// True if the file is part of the program.
fn counts(path: &str) -> bool {
    let tests = path.ends_with("_tests.rs")
        || path.ends_with("/tests.rs")
        || path.contains("/conformance/")
        || path.ends_with("/conformance.rs")
        || path.ends_with("/sample.rs") && SAMPLES.iter().any(|folder| path.starts_with(folder));
    let only_tests = ["crates/testing/", "crates/broker/"].iter().any(|c| path.starts_with(c));
    (path.starts_with("crates/") || path.starts_with(OWN))
        && path.contains("/src/")
        && path.ends_with(".rs")
        && !(tests || only_tests || path.contains("/generated/"))
}

/// Lines in front of the file's tests.
fn lines(text: &str) -> usize {
    let all: Vec<&str> = text.lines().collect();
    let is_tests = |pair: &[&str]| only_for_tests(pair[0]) && pair[1].starts_with("mod tests {");
    all.windows(2).position(is_tests).unwrap_or(all.len())
}

/// Files that only a test build reads: what the file at `path` declares behind a `#[cfg(test)]`.
fn declared_for_tests(path: &str, text: &str) -> Vec<String> {
    let (folder, file) = path.rsplit_once('/').unwrap_or_default();
    let below = match file {
        "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
        _ => path.trim_end_matches(".rs").to_owned(),
    };
    let all: Vec<&str> = text.lines().map(str::trim).collect();
    let name = |pair: &[&str]| {
        let name = pair[1].trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';')?;
        only_for_tests(pair[0]).then(|| format!("{below}/{name}.rs"))
    };
    all.windows(2).filter_map(name).collect()
}

/// Counts at a revision, by file.
fn count(revision: &str) -> Result<BTreeMap<String, usize>, String> {
    let list = git(&["ls-tree", "-r", "--name-only", revision, "crates", OWN])?;
    let (mut of, mut tests) = (BTreeMap::new(), Vec::new());
    for path in list.lines().filter(|path| counts(path)) {
        let text = git(&["show", &format!("{revision}:{path}")])?;
        tests.extend(declared_for_tests(path, &text));
        of.insert(path.to_owned(), lines(&text));
    }
    of.retain(|path, _| !tests.contains(path));
    Ok(of)
}

/// Sums of the files by what `name` says of each.
fn sums(
    files: &BTreeMap<String, usize>,
    name: impl Fn(&str) -> Option<String>,
) -> BTreeMap<String, usize> {
    let mut sums = BTreeMap::new();
    for (path, lines) in files {
        if let Some(name) = name(path) {
            *sums.entry(name).or_default() += lines;
        }
    }
    sums
}

fn print(files: &BTreeMap<String, usize>) {
    let row = |name: &str, n: usize| println!("{name:32} {n:>7}");
    let program = |path: &str| path.starts_with("crates/");
    let name = |path: &str| path.split('/').nth(1).unwrap_or_default().to_owned();
    let crates = sums(files, |path| program(path).then(|| name(path)));
    let rest =
        sums(files, |path| (program(path) && groups::of(path) == groups::REST).then(|| name(path)));
    println!("{:32} {:>7} {:>9}", "crate", "lines", groups::REST);
    for (name, n) in &crates {
        println!("{name:32} {n:>7} {:>9}", rest.get(name).copied().unwrap_or(0));
    }
    row("all", crates.values().sum());
    println!("\nof these");
    let groups = sums(files, |path| program(path).then(|| groups::of(path).to_owned()));
    for name in groups::GROUPS.iter().map(|(name, _)| *name).chain([groups::REST]) {
        row(name, groups.get(name).copied().unwrap_or(0));
    }
    let own: usize = files.iter().filter(|(path, _)| !program(path)).map(|(_, n)| n).sum();
    println!("\nbeside these");
    row("xtask", own);
}

/// Prints them.
pub fn run(arguments: &[String]) -> ExitCode {
    let revision = arguments.first().map_or("HEAD", String::as_str);
    match count(revision) {
        Ok(files) => {
            print(&files);
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_and_what_is_made_do_not_count() {
        assert!(counts("crates/io/src/udp.rs") && !counts("crates/io/src/udp_tests.rs"));
        assert!(
            !counts("crates/io/tests/main.rs") && !counts("crates/messages/src/generated/ev44.rs")
        );
        assert!(!counts("crates/core/src/conformance.rs"));
        assert!(!counts("crates/detect/src/conformance/numbered.rs"));
        assert!(!counts("crates/detect/src/sonde/sample.rs"));
        assert!(counts("crates/lab/src/agent/sample.rs"));
        assert!(counts("xtask/src/prove/lab.rs") && !counts("examples/src/lib.rs"));
        let files = [("crates/io/src/a.rs", 2), ("crates/io/src/b.rs", 3), ("xtask/src/c.rs", 5)];
        let files = files.map(|(path, n)| (path.to_owned(), n)).into();
        let by = |path: &str| path.starts_with("crates/").then(|| path[..9].to_owned());
        assert_eq!(sums(&files, by), [("crates/io".to_owned(), 5)].into());
        let text =
            "#[cfg(test)]\nmod made;\nmod own;\n#[cfg(test)]\n#[path = \"a_tests.rs\"]\nmod tests;";
        let made = |path: &str| declared_for_tests(path, text);
        assert_eq!(made("crates/io/src/dissect.rs"), ["crates/io/src/dissect/made.rs"]);
        assert_eq!(made("crates/io/src/lib.rs"), ["crates/io/src/made.rs"]);
        assert_eq!(lines("a\nb\n#[cfg(test)]\nmod tests {\n}\n"), 2);
        let elsewhere = "a\n#[cfg(all(test, unix))]\nmod tests {\n}\n";
        assert_eq!(lines(elsewhere), 1);
        assert_eq!(lines("#[cfg(test)]\nmod other;\nfn a() {}\n"), 3);
    }
}
