//! The test binaries of the workspace: built once, by cargo, and asked which tests they hold.
//!
//! Refuses to guess names of crates: what there is, cargo says. A build that fails is one failure, and nothing is run.
//!
//! Source: the cargo book, "External tools", "JSON messages" (`compiler-artifact`); libtest's `--list --format terse`.

use std::path::PathBuf;

use serde_json::Value;

use super::linted::{self, Lints};
use crate::command::{Job, Show, show};
use crate::place;

/// One executable with tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binary {
    /// The folder of its crate, in which cargo would run it.
    pub folder: PathBuf,
    /// What it is of its crate: `lib`, `bin`, `test`, `example`.
    pub kind: String,
    /// Name of the target, without the hash.
    pub name: String,
    pub executable: PathBuf,
    /// Full names of its tests.
    pub tests: Vec<String>,
}

impl Binary {
    /// The crate's folder without those above it.
    pub fn package(&self) -> String {
        self.folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// The command that runs it, as cargo would.
    pub fn job(&self) -> Job {
        Job::new(&self.executable).folder(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder)
    }
}

/// Builds all test binaries of the workspace, and the programs and examples that tests start; benches as well, since lints look at
/// all targets. What lints say is shown and counted.
///
/// # Errors
///
/// How cargo ended, or a binary that does not list its tests.
pub fn build(lints: &mut Lints) -> Result<Vec<Binary>, String> {
    let mut found = Vec::new();
    // A feature set or a profile of its own would compile HDF5 and librdkafka again: it is that of `cargo test`.
    // With all targets at once an example is built for its unit tests, and there is no program of it.
    for targets in [&[][..], &["--benches"]] {
        let job = Job::cargo(&["test", "--workspace", "--no-run"]).args(targets);
        let job = linted::by_clippy(job.args(["--message-format=json"]));
        let end = job.run_reading(|line| {
            let message: Value = match line.starts_with('{').then(|| serde_json::from_str(line)) {
                Some(Ok(message)) => message,
                _ => return Show::Yes,
            };
            let binary = artifact(&message).filter(|binary| !found.contains(binary));
            found.extend(binary);
            lints.read(&message).iter().for_each(|text| show(text));
            Show::No
        });
        if !end.ok {
            return Err(format!("the tests do not build: {}", end.phrase));
        }
    }
    for binary in &mut found {
        binary.tests = list(binary)?;
    }
    found.retain(|binary| !binary.tests.is_empty());
    Ok(found)
}

/// An executable with tests, if this message of cargo is about one. A bench has none.
fn artifact(message: &Value) -> Option<Binary> {
    let is_test = message["profile"]["test"].as_bool()?;
    let executable = PathBuf::from(message["executable"].as_str().filter(|_| is_test)?);
    let manifest = PathBuf::from(message["manifest_path"].as_str()?);
    let kind = message["target"]["kind"][0].as_str().filter(|kind| *kind != "bench")?;
    Some(Binary {
        folder: manifest.parent()?.to_path_buf(),
        kind: kind.to_owned(),
        name: message["target"]["name"].as_str()?.to_owned(),
        executable,
        tests: Vec::new(),
    })
}

fn list(binary: &Binary) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    let end = binary.job().args(["--list", "--format", "terse"]).run_silently(|line| {
        names.extend(line.strip_suffix(": test").map(str::to_owned));
        Show::No
    });
    if end.ok {
        return Ok(names);
    }
    let path = binary.executable.strip_prefix(place::root()).unwrap_or(&binary.executable);
    Err(format!("{} does not list its tests: {}", path.display(), end.phrase))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn executables_with_tests_are_taken_from_what_cargo_says() {
        let line = |test: bool, executable: Option<&str>, kind: &str| {
            json!({
                "reason": "compiler-artifact",
                "manifest_path": "/w/crates/io/Cargo.toml",
                "target": {"kind": [kind], "name": "fullcount_io"},
                "profile": {"test": test},
                "executable": executable,
            })
        };
        let file = Some("/w/target/debug/deps/io-1f");
        let binary = artifact(&line(true, file, "lib")).unwrap();
        let of = (binary.package(), binary.kind.as_str(), binary.name.as_str());
        assert_eq!(of, ("io".to_owned(), "lib", "fullcount_io"));
        // A library is no executable, and neither a program nor a bench has tests.
        assert_eq!(artifact(&line(true, None, "lib")), None);
        assert_eq!(artifact(&line(false, file, "bin")), None);
        assert_eq!(artifact(&line(true, file, "bench")), None);
        assert_eq!(artifact(&json!({"reason": "build-finished", "success": true})), None);
    }
}
