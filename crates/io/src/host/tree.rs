//! How the probes read the host's tree: whole files, one number, names in a folder, links.
//!
//! A value that is absent, unreadable or not a number is never 0 but `None`. Refuses paths that
//! climb out of the tree (`..` in a name that a file of the tree gave).

use std::fs;
use std::path::Path;

use super::Host;

impl Host {
    /// The host that this program runs on, not a saved tree of one.
    pub fn is_this_one(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Where the tree begins.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// First words of a file, trimmed; `None` if it is absent or empty.
    pub(super) fn line(&self, path: &str) -> Option<String> {
        let text = self.read(path)?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// A whole file that is one signed number.
    pub(super) fn signed(&self, path: &str) -> Option<i64> {
        self.read(path)?.trim().parse().ok()
    }

    /// Names in a folder, sorted; empty if there is none.
    pub(super) fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(folder)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|e| e.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }

    /// There is something at `path`.
    pub(super) fn has(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }
}

/// A name that a file gave, as one step of a path: nothing that leaves its folder.
pub(super) fn step(name: &str) -> Option<&str> {
    let plain = !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0']);
    plain.then_some(name)
}
