//! The test binaries of the workspace: built once, by cargo, and asked which tests they hold.
//!
//! Refuses to guess names of crates: what there is, cargo says. A build that fails is one failure, and nothing is run.
//!
//! Source: the cargo book, "External tools", "JSON messages" (`compiler-artifact`); libtest's `--list --format terse`.

use std::path::PathBuf;

use serde_json::Value;

use crate::command::{Job, Show};
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

/// Builds all test binaries of the workspace, and the examples that tests start.
///
/// # Errors
///
/// How cargo ended, or a binary that does not list its tests.
pub fn build() -> Result<Vec<Binary>, String> {
    let mut found = Vec::new();
    // A feature set or a profile of its own would compile HDF5 and librdkafka again: it is that of clippy and `cargo test`.
    let end = Job::cargo(&["test", "--workspace", "--no-run"])
        .args(["--message-format=json-render-diagnostics"])
        .run_reading(|line| match line.starts_with('{') {
            true => {
                found.extend(artifact(line));
                Show::No
            }
            false => Show::Yes,
        });
    if !end.ok {
        return Err(format!("the tests do not build: {}", end.phrase));
    }
    for binary in &mut found {
        binary.tests = list(binary)?;
    }
    found.retain(|binary| !binary.tests.is_empty());
    Ok(found)
}

/// An executable with tests, if this message of cargo is about one.
fn artifact(line: &str) -> Option<Binary> {
    let message: Value = serde_json::from_str(line).ok()?;
    let is_test = message["profile"]["test"].as_bool()?;
    let executable = PathBuf::from(message["executable"].as_str().filter(|_| is_test)?);
    let manifest = PathBuf::from(message["manifest_path"].as_str()?);
    Some(Binary {
        folder: manifest.parent()?.to_path_buf(),
        kind: message["target"]["kind"][0].as_str()?.to_owned(),
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
    use super::*;

    #[test]
    fn executables_with_tests_are_taken_from_what_cargo_says() {
        let line = |test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/crates/io/Cargo.toml",
                "target":{{"kind":["lib"],"name":"fullcount_io"}},"profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let binary = artifact(&line(true, "\"/w/target/debug/deps/io-1f\"")).unwrap();
        let of = (binary.package(), binary.kind.as_str(), binary.name.as_str());
        assert_eq!(of, ("io".to_owned(), "lib", "fullcount_io"));
        // A library is no executable, and a program has no tests.
        assert_eq!(artifact(&line(true, "null")), None);
        assert_eq!(artifact(&line(false, "\"/w/target/debug/fullcount\"")), None);
        assert_eq!(artifact(r#"{"reason":"build-finished","success":true}"#), None);
    }
}
