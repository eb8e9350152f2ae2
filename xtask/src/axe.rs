//! axe-core, the accessibility checks that run inside the page in the browser tests.
//!
//! npm brings it once into `target/axe`: the version and the hash that `tests/browser/package-lock.json` names, without
//! running any script of it. Refuses to go on without npm, or with another hash.
//!
//! Source: docs/testing.md.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::command::Job;
use crate::place;

fn file() -> PathBuf {
    place::target().join("axe/node_modules/axe-core/axe.min.js")
}

/// The file that is there, if an earlier run fetched what the lock file names today.
pub fn fetched() -> Option<PathBuf> {
    let wanted = fs::read_to_string(place::root().join("tests/browser/package-lock.json")).ok()?;
    let have = fs::read_to_string(place::target().join("axe/fetched.json")).ok()?;
    (have == wanted && file().is_file()).then(file)
}

/// The file, fetched first if need be.
///
/// # Errors
/// What npm said no to, with the command to try by hand.
pub fn fetch() -> Result<PathBuf, String> {
    if let Some(file) = fetched() {
        return Ok(file);
    }
    let folder = place::target().join("axe");
    println!("fetching axe-core with npm into {}", folder.display());
    let say = |path: &PathBuf, e: std::io::Error| format!("{}: {e}", path.display());
    fs::create_dir_all(&folder).map_err(|e| say(&folder, e))?;
    for name in ["package.json", "package-lock.json"] {
        let from = place::root().join("tests/browser").join(name);
        fs::copy(&from, folder.join(name)).map_err(|e| say(&from, e))?;
    }
    let npm = Job::new("npm")
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"])
        .args([&folder]);
    let end = npm.limit(Duration::from_secs(300)).run();
    if !end.ok {
        let folder = folder.display();
        return Err(format!("npm: {}; run: npm ci --ignore-scripts --prefix {folder}", end.phrase));
    }
    // Written last, so an interrupted fetch is done again.
    let stamp = folder.join("fetched.json");
    fs::copy(folder.join("package-lock.json"), &stamp).map_err(|e| say(&stamp, e))?;
    Ok(file())
}
