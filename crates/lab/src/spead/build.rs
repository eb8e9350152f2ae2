//! spead2's C++ tools from its source package: found in a folder, or built into one.
//!
//! The ready-made Python wheel has no segmentation offload and no C++ tools, so they are built: source package, Meson and Ninja come by
//! `pip`, Boost and Python's headers from the system. Refuses nothing: what is missing is said in one sentence, and the campaign goes on
//! without the peer.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Tell;

/// The version that the formats' document was checked with.
pub const VERSION: &str = "4.5.1";

/// Program that stands for Python.
pub(super) fn python() -> String {
    std::env::var("FULLCOUNT_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

/// Folder of the tools below the cache: `target/spead2-VERSION`.
pub fn cache(target: &Path) -> PathBuf {
    target.join(format!("spead2-{VERSION}"))
}

/// The folder in which both tools are; looked for in `folder` and, if none is given, in the cache and on the path.
pub fn find(folder: Option<&Path>, target: &Path) -> Option<PathBuf> {
    let has =
        |folder: &Path| ["spead2_send", "spead2_recv"].iter().all(|p| folder.join(p).is_file());
    if let Some(folder) = folder {
        return has(folder).then(|| folder.to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let built = cache(target).join("build").join("src");
    std::iter::once(built).chain(std::env::split_paths(&path)).find(|folder| has(folder))
}

/// The folder of the scripts of the PyPI package: that of the Python in `FULLCOUNT_PYTHON`, or one on the path.
pub fn find_pypi() -> Option<PathBuf> {
    let has = |folder: &Path| {
        ["spead2_send.py", "spead2_recv.py"].iter().all(|script| folder.join(script).is_file())
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    // `python3` without a folder is not the working directory's.
    let python = PathBuf::from(python());
    let own = python.parent().filter(|folder| !folder.as_os_str().is_empty()).map(Path::to_owned);
    own.into_iter().chain(std::env::split_paths(&path)).find(|folder| has(folder))
}

/// `spead2_bench` in a folder that [`find`] gave.
pub fn bench(folder: &Path) -> Option<PathBuf> {
    Some(folder.join("spead2_bench")).filter(|bench| bench.is_file())
}

fn run(what: &str, command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|e| format!("{what}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let last: Vec<&str> = said.lines().rev().filter(|l| !l.trim().is_empty()).take(3).collect();
    Err(format!("{what}: {}", last.into_iter().rev().collect::<Vec<_>>().join("; ")))
}

/// Builds the tools below the cache. Takes some minutes.
///
/// # Errors
/// What is missing, in one sentence.
pub fn build(target: &Path, tell: Tell) -> Result<PathBuf, String> {
    let headers = ["boost/program_options.hpp", "boost/asio.hpp", "libdivide.h"];
    let there = |header: &&str| {
        ["/usr/include", "/usr/local/include"].iter().any(|at| Path::new(at).join(header).is_file())
    };
    if let Some(missing) = headers.iter().find(|header| !there(header)) {
        return Err(format!(
            "they need {missing}: install libboost-dev, libboost-program-options-dev, libboost-system-dev and libdivide-dev"
        ));
    }
    let cache = cache(target);
    std::fs::create_dir_all(&cache).map_err(|e| format!("{}: {e}", cache.display()))?;
    let cache = std::path::absolute(&cache).map_err(|e| format!("{}: {e}", cache.display()))?;
    tell("building spead2's tools from its source package: some minutes");
    // The wheel of the same package leaves the tools out. Meson, Ninja and what else it needs come into a place of their own, by pip.
    let (modules, sources) = (cache.join("python"), cache.join("source"));
    let pip = |words: &[&str], folder: &Path| {
        let mut command = Command::new(python());
        command.args(["-m", "pip", "--quiet", "--disable-pip-version-check"]).args(words);
        command.arg(folder);
        command
    };
    let needs = ["install", "meson", "ninja", "jinja2", "pycparser", "packaging", "--target"];
    if !modules.join("mesonbuild").is_dir() {
        run("pip install meson", &mut pip(&needs, &modules))?;
    }
    let wanted = format!("spead2=={VERSION}");
    let package = ["download", "--no-deps", "--no-binary", "spead2", &wanted, "--dest"];
    run("pip download spead2", &mut pip(&package, &sources))?;
    let archive = sources.join(format!("spead2-{VERSION}.tar.gz"));
    let mut unpack = Command::new("tar");
    run("tar", unpack.arg("xzf").arg(&archive).arg("-C").arg(&sources))?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(modules.join("bin")).chain(std::env::split_paths(&path));
    let path = std::env::join_paths(path).map_err(|e| format!("PATH: {e}"))?;
    let build = cache.join("build");
    let _ = std::fs::remove_dir_all(&build);
    let mut setup = Command::new(python());
    setup.env("PYTHONPATH", &modules).env("PATH", &path);
    setup.args(["-m", "mesonbuild.mesonmain", "setup", "-Dtools=enabled", "-Dunit_test=disabled"]);
    setup.arg("--buildtype=release").arg(&build).arg(sources.join(format!("spead2-{VERSION}")));
    run("meson setup", &mut setup)?;
    let mut ninja = Command::new(modules.join("bin").join("ninja"));
    ninja.env("PYTHONPATH", &modules).env("PATH", &path).arg("-C").arg(&build);
    run("ninja", ninja.args(["src/spead2_send", "src/spead2_recv", "src/spead2_bench"]))?;
    find(Some(&build.join("src")), target)
        .ok_or_else(|| "the build has no spead2_send and spead2_recv".to_owned())
}
