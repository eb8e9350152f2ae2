//! A crate outside the workspace builds on the public seam, registers its detector and passes the suite.
//!
//! The crate is copied beside the build output and built as its own workspace, offline, with the lock file
//! of this one: nothing is fetched, and nothing is written into the source tree.

use std::path::{Path, PathBuf};
use std::process::Command;

use fullcount_detect::detector::Registry;

#[test]
fn a_detector_from_another_crate_builds_runs_and_conforms() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let copy = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("out_of_tree_detector");
    std::fs::create_dir_all(copy.join("src")).unwrap();
    let original = here.join("tests/out_of_tree_detector");
    let manifest = std::fs::read_to_string(original.join("Cargo.toml")).unwrap();
    let absolute = |path: PathBuf| format!("\"{}\"", path.canonicalize().unwrap().display());
    let manifest = manifest
        .replace("\"../../../core\"", &absolute(here.join("../core")))
        .replace("\"../..\"", &absolute(here.to_owned()));
    std::fs::write(copy.join("Cargo.toml"), manifest).unwrap();
    std::fs::copy(here.join("../../Cargo.lock"), copy.join("Cargo.lock")).unwrap();
    std::fs::copy(original.join("src/main.rs"), copy.join("src/main.rs")).unwrap();

    let out = Command::new(env!("CARGO"))
        .args(["run", "--offline", "--quiet"])
        .current_dir(&copy)
        .env("CARGO_TARGET_DIR", copy.join("target"))
        .output()
        .unwrap();
    let (said, errors) =
        (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{errors}");
    let builtin: Vec<_> = Registry::builtin().kinds().map(|k| k.name()).collect();
    assert_eq!(said.trim(), format!("{} monitor: 44 events", builtin.join(" ")));
}
