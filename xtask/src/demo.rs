//! `cargo xtask demo`: builds the release binary and hands over to `fullcount demo`.
//!
//! Refuses to start the build where the C compiler or CMake that HDF5 needs is missing and cannot
//! be installed: the command to run is printed instead. Exit code: that of the demo.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

use crate::{place, setup};

/// Sets up, builds, runs; every argument goes to the demo.
pub fn run(arguments: &[String]) -> ExitCode {
    if let Err(missing) = setup::ensure(&[setup::C_COMPILER, setup::CMAKE]) {
        eprintln!("error: {missing}");
        return ExitCode::FAILURE;
    }
    println!("building fullcount (release); the first time takes some minutes");
    let built = Command::new("cargo")
        .args(["build", "--release", "--package", "fullcount"])
        .current_dir(place::root())
        .stdin(Stdio::null())
        .status();
    if !built.is_ok_and(|status| status.success()) {
        return ExitCode::FAILURE;
    }
    // In the person's own folder, so that `--nexus run.nxs` lands where they stand; in our place,
    // so that Ctrl-C and the exit code are the demo's own.
    let binary = place::target().join("release/fullcount");
    let error = Command::new(&binary).arg("demo").args(arguments).exec();
    eprintln!("error: {} did not start: {error}", binary.display());
    ExitCode::FAILURE
}
