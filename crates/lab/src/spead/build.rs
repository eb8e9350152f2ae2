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

/// The variant of `spead2_bench` in the same folder whose receiver has no memory pool.
pub fn bench_plain(folder: &Path) -> Option<PathBuf> {
    Some(folder.join(PLAIN)).filter(|bench| bench.is_file())
}

/// Name of the variant.
const PLAIN: &str = "spead2_bench_plain";
/// What gives each receiver of the bench its pool, and what leaves it out.
const WITH_POOL: [&str; 2] = ["receiver.mem_pool = true;", "receiver.mem_pool = false;"];

/// Source of the bench without its pool; `None`: it is not the source that we know.
fn without_pool(source: &str) -> Option<String> {
    let [with, without] = WITH_POOL;
    (source.matches(with).count() == 1).then(|| source.replace(with, without))
}

/// What Meson is told of the variant: a program of its own, so that an interrupted build never leaves one in the other's place.
fn with_plain(meson: &str) -> String {
    if meson.contains(PLAIN) {
        return meson.to_owned();
    }
    let links = "objects : [cmdline_o], dependencies : [boost_program_options_dep, st_dep]";
    format!("{meson}\nexecutable('{PLAIN}', '{PLAIN}.cpp', {links})\n")
}

/// Adds the variant to the source package.
fn add_plain(source: &Path) -> Result<(), String> {
    let folder = source.join("src");
    let read =
        |path: &Path| std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()));
    let write = |path: &Path, text: String| {
        std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
    };
    let bench = folder.join("spead2_bench.cpp");
    let plain = without_pool(&read(&bench)?).ok_or_else(|| {
        format!("{}: not the one place that gives it a memory pool", bench.display())
    })?;
    write(&folder.join(format!("{PLAIN}.cpp")), plain)?;
    let meson = folder.join("meson.build");
    write(&meson, with_plain(&read(&meson)?))
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
    let source = sources.join(format!("spead2-{VERSION}"));
    add_plain(&source)?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(modules.join("bin")).chain(std::env::split_paths(&path));
    let path = std::env::join_paths(path).map_err(|e| format!("PATH: {e}"))?;
    let build = cache.join("build");
    let _ = std::fs::remove_dir_all(&build);
    let mut setup = Command::new(python());
    setup.env("PYTHONPATH", &modules).env("PATH", &path);
    setup.args(["-m", "mesonbuild.mesonmain", "setup", "-Dtools=enabled", "-Dunit_test=disabled"]);
    setup.arg("--buildtype=release").arg(&build).arg(&source);
    run("meson setup", &mut setup)?;
    let mut ninja = Command::new(modules.join("bin").join("ninja"));
    ninja.env("PYTHONPATH", &modules).env("PATH", &path).arg("-C").arg(&build);
    let programs = ["spead2_send", "spead2_recv", "spead2_bench", PLAIN];
    run("ninja", ninja.args(programs.map(|program| format!("src/{program}"))))?;
    find(Some(&build.join("src")), target)
        .ok_or_else(|| "the build has no spead2_send and spead2_recv".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variant_differs_by_its_pool_alone_and_another_source_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let src = folder.path().join("src");
        std::fs::create_dir(&src).unwrap();
        let bench = "a;\n    opts.receiver.mem_pool = true;\nb;\n";
        std::fs::write(src.join("spead2_bench.cpp"), bench).unwrap();
        std::fs::write(src.join("meson.build"), "executable('spead2_bench')\n").unwrap();
        for _ in 0..2 {
            add_plain(folder.path()).unwrap();
        }
        let read = |name: &str| std::fs::read_to_string(src.join(name)).unwrap();
        assert_eq!(read("spead2_bench.cpp"), bench, "the bench itself stays");
        assert_eq!(read("spead2_bench_plain.cpp"), bench.replace("= true", "= false"));
        let meson = read("meson.build");
        assert!(meson.starts_with("executable('spead2_bench')\n"), "{meson}");
        assert_eq!(meson.matches("'spead2_bench_plain',").count(), 1, "once: {meson}");
        for other in ["no pool", "receiver.mem_pool = true; receiver.mem_pool = true;"] {
            std::fs::write(src.join("spead2_bench.cpp"), other).unwrap();
            let why = add_plain(folder.path()).unwrap_err();
            assert!(why.contains("spead2_bench.cpp: not the one place"), "{why}");
        }
    }
}
