//! Where things are: the workspace, its target directory, the toolchain's own tools.
//!
//! A tool that is not there is `None`.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The workspace root: the folder above this crate's.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// The target directory in use, whatever set it (`CARGO_TARGET_DIR`, a cargo configuration, the
/// default): cargo put this very binary into `TARGET/debug/`.
pub fn target() -> PathBuf {
    let default = || root().join("target");
    let Ok(exe) = env::current_exe() else { return default() };
    exe.ancestors()
        .find(|folder| folder.join("CACHEDIR.TAG").is_file())
        .map_or_else(default, Path::to_path_buf)
}

/// The first file called `name` along `PATH`.
pub fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Trimmed standard output of a command that ended well, else `None`.
pub fn output_of(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).current_dir(root()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The triple that rustc builds for without `--target`, such as `x86_64-unknown-linux-gnu`.
pub fn host_triple() -> Option<String> {
    let version = output_of("rustc", &["-vV"])?;
    version.lines().find_map(|line| line.strip_prefix("host: ")).map(str::to_owned)
}

/// The folder of `llvm-cov`, `llvm-profdata` and their kin in the pinned toolchain, if the
/// component `llvm-tools` is installed.
pub fn llvm_tools() -> Option<PathBuf> {
    let sysroot = output_of("rustc", &["--print", "sysroot"])?;
    let folder = Path::new(&sysroot).join("lib/rustlib").join(host_triple()?).join("bin");
    folder.join("llvm-cov").is_file().then_some(folder)
}

/// Whether a continuous-integration run asked for strictness: there, what is missing is a failure.
pub fn in_ci() -> bool {
    env::var("CI").is_ok_and(|value| value == "true" || value == "1")
}
