//! Steps that build for somewhere else: core for wasm32, the C-free crates for other hosts, stcp for no operating system.
//!
//! Refuses a core that asks anything of its host. That check first proves itself on a crate that
//! does ask, built the same way: a check that sees nothing is no check.
//!
//! Source: docs/architecture.md, "Everything that only Linux has sits behind one probe".

use std::fs;
use std::path::{Path, PathBuf};

use super::{Host, rust};
use crate::command::Job;
use crate::tally::Tally;
use crate::{place, setup, wasm as module};

const WASM: &str = "wasm32-unknown-unknown";

/// What `io`, `detect` and `out` are checked for beside the host they were written on.
pub const ELSEWHERE: [&str; 2] = ["aarch64-unknown-linux-gnu", "aarch64-apple-darwin"];

/// Keeps the code that nothing calls, in the compiler and in the linker: a library has no caller,
/// and what is thrown away imports nothing.
const KEEP: [&str; 4] = ["-C", "link-dead-code", "-C", "link-arg=--no-gc-sections"];

/// A crate that imports one function, as a core that reached for its host would.
const ASKING: &str = "unsafe extern \"C\" { fn host_clock() -> u64; }\n\
                      pub fn now() -> u64 { unsafe { host_clock() } }\n";

pub fn wasm(_: &Host) -> Tally {
    if let Err(reason) = setup::rust_target(WASM) {
        return Tally::unavailable(format!("{WASM} is not to be had: {reason}"));
    }
    let mut tally = Tally::default();
    tally += match asking() {
        Ok(imports) if imports == ["env.host_clock"] => Tally::pass(),
        Ok(imports) => {
            Tally::fail(format!("the import check saw {imports:?} in a crate that asks"))
        }
        Err(error) => Tally::fail(error),
    };
    for name in SANS_IO {
        tally += match module_of(name) {
            Ok(imports) if imports.is_empty() => Tally::pass(),
            Ok(imports) => Tally::fail(format!("{name} asks its host for {}", imports.join(", "))),
            Err(error) => Tally::fail(error),
        };
    }
    tally
}

/// Crates that reach for no host at all.
const SANS_IO: [&str; 2] = ["core", "spead"];

/// Imports of a crate as a module of its own, with the code kept that nothing calls.
fn module_of(name: &str) -> Result<Vec<String>, String> {
    let folder = place::target().join("wasm");
    let package = format!("fullcount-{name}");
    let end = Job::cargo(&["rustc", "--package", &package, "--lib", "--target", WASM])
        .args(["--crate-type", "cdylib", "--target-dir"])
        .args([&folder])
        .args(["--"])
        .args(KEEP)
        .run();
    if !end.ok {
        return Err(format!("{name} does not build for {WASM}: {}", end.phrase));
    }
    imports(&folder.join(WASM).join(format!("debug/fullcount_{name}.wasm")))
}

fn asking() -> Result<Vec<String>, String> {
    let folder = place::target().join("wasm");
    let source = folder.join("asking.rs");
    let said = |error: std::io::Error| format!("{}: {error}", source.display());
    fs::create_dir_all(&folder).map_err(said)?;
    fs::write(&source, ASKING).map_err(said)?;
    let built: PathBuf = folder.join("asking.wasm");
    let end = Job::new("rustc")
        .args(["--edition", "2024", "--target", WASM, "--crate-type", "cdylib"])
        .args(KEEP)
        .args(["-o"])
        .args([&built, &source])
        .run();
    if !end.ok {
        return Err(format!("the crate that asks does not build: {}", end.phrase));
    }
    imports(&built)
}

fn imports(file: &Path) -> Result<Vec<String>, String> {
    let bytes = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    module::imports(&bytes).map_err(|error| format!("{}: {error}", file.display()))
}

/// A target without operating system: the sender of the simplified TCP is for hardware.
pub const BARE: &str = "x86_64-unknown-none";

/// `stcp` builds for a processor with nothing on it.
fn bare() -> Tally {
    if let Err(reason) = setup::rust_target(BARE) {
        return Tally::unavailable(format!("{BARE} is not to be had: {reason}"));
    }
    let job = Job::cargo(&["check", "--package", "fullcount-stcp", "--target", BARE])
        .env("RUSTFLAGS", "-D warnings");
    rust::check(&format!("cargo check for {BARE}"), &job.run())
}

pub fn check(_: &Host) -> Tally {
    let mut tally = bare();
    for target in ELSEWHERE {
        if let Err(reason) = setup::rust_target(target) {
            tally += Tally::unavailable(format!("{target} is not to be had: {reason}"));
            continue;
        }
        let job = Job::cargo(&["check", "--no-default-features", "--target", target])
            .args(["--package", "fullcount-core", "--package", "fullcount-spead"])
            .args(["--package", "fullcount-io"])
            .args(["--package", "fullcount-detect", "--package", "fullcount-messages"])
            .args(["--package", "fullcount-sim", "--package", "fullcount-spool"])
            .args(["--package", "fullcount-web", "--package", "fullcount-engine"])
            .env("RUSTFLAGS", "-D warnings");
        tally += rust::check(&format!("cargo check for {target}"), &job.run());
    }
    tally
}
