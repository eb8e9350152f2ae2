//! What npm brings for tests: axe-core, the accessibility checks that run inside the page in the browser tests, and Grafana's schema
//! with TypeScript's compiler, which dashboards are validated with.
//!
//! Each is fetched once into a folder of its own below `target`: the versions and the hashes that its `package-lock.json` names,
//! without running any script of theirs. Refuses to go on without npm, or with another hash.
//!
//! Source: docs/testing.md.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::command::Job;
use crate::place;

/// One thing that npm brings.
#[derive(Debug, Clone, Copy)]
pub struct NpmFetch {
    /// For people.
    pub name: &'static str,
    /// Folder with `package.json` and `package-lock.json`.
    from: &'static str,
    /// Folder below `target`.
    to: &'static str,
    /// What of it is wanted.
    gives: &'static str,
}

/// The accessibility checks.
pub const AXE: NpmFetch = NpmFetch {
    name: "axe-core",
    from: "tests/browser",
    to: "axe",
    gives: "node_modules/axe-core/axe.min.js",
};
/// Grafana's schema and the compiler.
pub const GRAFANA: NpmFetch = NpmFetch {
    name: "Grafana's schema",
    from: "tests/grafana",
    to: "grafana",
    gives: "node_modules",
};

impl NpmFetch {
    fn result(&self) -> PathBuf {
        place::target().join(self.to).join(self.gives)
    }

    /// What is there, if an earlier run fetched what the lock file names today.
    pub fn fetched(&self) -> Option<PathBuf> {
        let lock = place::root().join(self.from).join("package-lock.json");
        let wanted = fs::read_to_string(lock).ok()?;
        let stamp = place::target().join(self.to).join("fetched.json");
        let have = fs::read_to_string(stamp).ok()?;
        (have == wanted && self.result().exists()).then(|| self.result())
    }

    /// It, fetched first if need be.
    ///
    /// # Errors
    /// What npm said no to, with the command to try by hand.
    pub fn fetch(&self) -> Result<PathBuf, String> {
        if let Some(found) = self.fetched() {
            return Ok(found);
        }
        let folder = place::target().join(self.to);
        println!("fetching {} with npm into {}", self.name, folder.display());
        let say = |path: &PathBuf, e: std::io::Error| format!("{}: {e}", path.display());
        fs::create_dir_all(&folder).map_err(|e| say(&folder, e))?;
        for name in ["package.json", "package-lock.json"] {
            let from = place::root().join(self.from).join(name);
            fs::copy(&from, folder.join(name)).map_err(|e| say(&from, e))?;
        }
        let npm = Job::new("npm")
            .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"])
            .args([&folder]);
        let end = npm.limit(Duration::from_secs(300)).run();
        if !end.ok {
            let (folder, phrase) = (folder.display(), end.phrase);
            return Err(format!("npm: {phrase}; run: npm ci --ignore-scripts --prefix {folder}"));
        }
        // Written last, so an interrupted fetch is done again.
        let stamp = folder.join("fetched.json");
        fs::copy(folder.join("package-lock.json"), &stamp).map_err(|e| say(&stamp, e))?;
        Ok(self.result())
    }
}
