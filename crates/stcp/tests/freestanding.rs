//! The crate linked into a program without operating system, allocator or library, for a processor with nothing on it; the same
//! program, linked for this host without its C library, runs a session. Skipped where the compiler has no such target.

use std::path::{Path, PathBuf};
use std::process::Command;

const BARE: &str = "x86_64-unknown-none";

fn rustc() -> Command {
    Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
}

fn build(folder: &Path, target: &str, more: &[&str]) -> Result<PathBuf, String> {
    let root = env!("CARGO_MANIFEST_DIR");
    let library = folder.join("libfullcount_stcp.rlib");
    let program = folder.join("program");
    let run = |command: &mut Command| {
        let out = command
            .args(["--edition", "2024", "--target", target, "-C", "panic=abort", "-O"])
            .output();
        let out = out.map_err(|e| format!("rustc: {e}"))?;
        match out.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&out.stderr).into_owned()),
        }
    };
    run(rustc()
        .args(["--crate-name", "fullcount_stcp", "--crate-type", "rlib", "-o"])
        .arg(&library)
        .arg(format!("{root}/src/lib.rs")))?;
    run(rustc()
        .args(["--crate-name", "program", "-o"])
        .arg(&program)
        .arg("--extern")
        .arg(format!("fullcount_stcp={}", library.display()))
        .args(more)
        .arg(format!("{root}/tests/freestanding/program.rs")))?;
    Ok(program)
}

#[test]
fn it_links_where_there_is_nothing() {
    let folder = tempfile::tempdir().unwrap();
    match build(folder.path(), BARE, &["--cfg", "bare"]) {
        Ok(program) => assert!(program.metadata().unwrap().len() > 1000),
        Err(e) if e.contains("can't find crate for `core`") && std::env::var_os("CI").is_none() => {
            eprintln!("skipped: no target {BARE} (rustup target add {BARE})");
        }
        Err(e) => panic!("{e}"),
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn it_runs_without_a_library() {
    let folder = tempfile::tempdir().unwrap();
    let link = [
        "-C",
        "link-arg=-nostartfiles",
        "-C",
        "link-arg=-nostdlib",
        "-C",
        "link-arg=-static",
        "-C",
        "relocation-model=static",
    ];
    let program = build(folder.path(), "x86_64-unknown-linux-gnu", &link).unwrap();
    let ran = Command::new(program).status().unwrap();
    assert_eq!(ran.code(), Some(0));
}
