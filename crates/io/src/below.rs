//! The folder below which commands may begin new files (`control.folder`), and the check of a file's name below it.
//!
//! Names come from clients of the control port and the HTTP interface. Refuses whatever could lead elsewhere or harm what is
//! there: names that are absolute, have `..`, begin with a dot, or hold control characters; folders that are links or are not
//! there; anything that exists at the name, also a link to nothing, a pipe or a device; another ending than the output's.
//! Source: `docs/operations.md`, "Files by command".

use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use fullcount_core::output::OutputSetup;
use fullcount_core::text::is_control;
use serde::Deserialize;

/// Longest name of a file with its folders, bytes.
const LONGEST: usize = 1024;

/// A name that no file may be made under; the sentence says what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NameRefused(String);

/// Where commands may make files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFolder(PathBuf);

/// What is read of `[control]`.
#[derive(Deserialize)]
struct ControlSection {
    folder: Option<PathBuf>,
}

impl RunFolder {
    /// The folder at this path; a link to it is followed now, and never again.
    ///
    /// # Errors
    /// It is no folder, or not there.
    pub fn new(path: &Path) -> Result<RunFolder, NameRefused> {
        let refused = |e: std::io::Error| NameRefused(format!("a folder that is there ({e})"));
        let real = path.canonicalize().map_err(refused)?;
        match real.is_dir() {
            true => Ok(RunFolder(real)),
            false => Err(NameRefused("a folder, not a file".into())),
        }
    }

    /// The one of the configuration; `None`: commands may make none.
    pub fn of(setup: &OutputSetup<'_>) -> Option<RunFolder> {
        let section: ControlSection = toml::from_str(&(setup.beside)("control")?).ok()?;
        RunFolder::new(&section.folder?).ok()
    }

    /// The path of a new file below it; `endings`: one of them, without its dot, ends the name.
    ///
    /// # Errors
    /// What is wrong with the name.
    pub fn file(&self, name: &str, endings: &[&str]) -> Result<PathBuf, NameRefused> {
        let refuse = |why: &str| Err(NameRefused(format!("{name:?}: {why}")));
        if name.is_empty() || name.len() > LONGEST {
            return refuse("a name has 1 to 1024 bytes");
        }
        if name.contains(is_control) {
            return refuse("a name has no control characters");
        }
        let path = Path::new(name);
        let plain = |part: Component<'_>| match part {
            Component::Normal(part) => part.to_str().is_some_and(|part| !part.starts_with('.')),
            _ => false,
        };
        // What is left of a name when it is taken apart is what was given: no `//`, no `/` at its end.
        let parts: Vec<Component<'_>> = path.components().collect();
        let again: PathBuf = parts.iter().collect();
        if !parts.iter().all(|part| plain(*part)) || again.as_os_str() != path.as_os_str() {
            return refuse("a name below control.folder, without .., without a dot at its begin");
        }
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if !endings.contains(&ending) {
            return refuse(&format!("its ending is .{}", endings.join(" or .")));
        }
        let mut at = self.0.clone();
        let (last, folders) = parts.split_last().expect("a name has a part");
        for part in folders {
            at.push(part);
            // Not followed: a link is none.
            match fs::symlink_metadata(&at) {
                Ok(meta) if meta.is_dir() => {}
                Ok(_) => return refuse("its folders are real folders, not links or files"),
                Err(_) => return refuse("its folder is not there; make it before"),
            }
        }
        at.push(last);
        match fs::symlink_metadata(&at) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(at),
            Err(e) => refuse(&e.to_string()),
            Ok(_) => refuse("something is there already; nothing is replaced while a run goes on"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use proptest::prelude::*;

    use super::*;

    fn folder() -> (tempfile::TempDir, RunFolder) {
        let folder = tempfile::tempdir().unwrap();
        let below = RunFolder::new(folder.path()).unwrap();
        (folder, below)
    }

    #[test]
    fn names_lead_below_the_folder_or_nowhere() {
        let (folder, below) = folder();
        let at = folder.path().canonicalize().unwrap();
        fs::create_dir(at.join("week 3")).unwrap();
        fs::write(at.join("old.nxs"), "x").unwrap();
        symlink("/etc", at.join("etc")).unwrap();
        symlink("/tmp/nothing-is-here.nxs", at.join("link.nxs")).unwrap();
        symlink(at.join("week 3"), at.join("this")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(at.join("pipe.nxs")).status();
        assert!(made.unwrap().success());
        let file = |name: &str| below.file(name, &["nxs", "h5"]).map_err(|e| e.to_string());
        assert_eq!(file("run1.nxs").unwrap(), at.join("run1.nxs"));
        assert_eq!(file("week 3/run1.h5").unwrap(), at.join("week 3/run1.h5"));
        for (name, why) in [
            ("", "1 to 1024"),
            ("/etc/passwd.nxs", "below control.folder"),
            ("../run.nxs", "below control.folder"),
            ("week 3/../../run.nxs", "below control.folder"),
            ("./run.nxs", "below control.folder"),
            ("week 3//run.nxs", "below control.folder"),
            ("run.nxs/", "below control.folder"),
            (".hidden.nxs", "below control.folder"),
            (".fullcount-0123.nxs", "below control.folder"),
            ("a\nb.nxs", "control characters"),
            ("a\u{2028}b.nxs", "control characters"),
            ("a\u{202e}sxn.nxs", "control characters"),
            ("\u{2066}a.nxs", "control characters"),
            ("run", "its ending is .nxs or .h5"),
            ("run.sh", "its ending is .nxs or .h5"),
            (".nxs", "below control.folder"),
            ("etc/run.nxs", "real folders"),
            ("this/run.nxs", "real folders"),
            ("old.nxs/run.nxs", "real folders"),
            ("none/run.nxs", "make it before"),
            ("old.nxs", "already"),
            ("link.nxs", "already"),
            ("pipe.nxs", "already"),
        ] {
            let said = file(name).unwrap_err();
            assert!(said.contains(why) && !said.contains(is_control), "{name}: {said}");
        }
        assert!(
            RunFolder::new(&at.join("old.nxs")).is_err() && RunFolder::new(&at.join("no")).is_err()
        );
    }

    proptest! {
        #[test]
        fn whatever_is_sent_stays_below(name in "\\PC{0,40}|[./a\\\\\0-]{0,12}(\\.nxs)?") {
            let (folder, below) = folder();
            let at = folder.path().canonicalize().unwrap();
            if let Ok(path) = below.file(&name, &["nxs"]) {
                prop_assert!(path.starts_with(&at) && path.parent() == Some(&*at));
                prop_assert!(!path.exists());
            }
        }
    }
}
