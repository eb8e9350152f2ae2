//! The Python programs of the field, which check files that the binary wrote.
#![allow(dead_code, reason = "each test file uses a part")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// A Python with the packages of `tests/python/requirements.txt`: `FULLCOUNT_PYTHON`, otherwise `target/python-venv`.
///
/// `None` after printing why; in CI (`CI=true`) a missing one fails the test.
pub fn interpreter() -> Option<PathBuf> {
    let found = std::env::var_os("FULLCOUNT_PYTHON").map(PathBuf::from).or_else(|| {
        let venv = root().join("target/python-venv/bin/python");
        venv.exists().then_some(venv)
    });
    if found.is_none() {
        let reason = "no Python with h5py, scippnexus, jsonschema and PyYAML: set FULLCOUNT_PYTHON, or make \
                      target/python-venv and install tests/python/requirements.txt there";
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{reason}");
        println!("skipped: {reason}");
    }
    found
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A script of `tests/python` finds these files good.
pub fn run(python: &Path, script: &str, files: &[&Path], bank: &str) {
    let script = root().join("tests/python").join(script);
    let output = Command::new(python).arg(script).args(files).arg(bank).output().expect("starts");
    let (text, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{files:?}: {text}\n{errors}");
}
