//! The Python that reads our files, and its scripts. Source: `docs/testing.md`.

use std::path::{Path, PathBuf};

/// A Python with h5py and scippnexus: `FULLCOUNT_PYTHON`, else `target/python-venv`.
///
/// `None` after printing why; in CI (`CI=true`) a missing one fails the test.
pub fn python() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let found = std::env::var_os("FULLCOUNT_PYTHON").map(PathBuf::from).or_else(|| {
        let venv = root.join("target/python-venv/bin/python");
        venv.exists().then_some(venv)
    });
    if found.is_none() {
        let reason = "no Python with h5py and scippnexus: set FULLCOUNT_PYTHON, or make \
                      target/python-venv and install tests/python/requirements.txt there";
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{reason}");
        println!("skipped: {reason}");
    }
    found
}

/// A script in `tests/python`.
pub fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/python").join(name)
}
